// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defence of users' browsers: pages of other origins may neither write (cross-site request forgery) nor read by a name that
//! they let point here (DNS rebinding). There is no CORS.

use crate::problem::{Kind, Problem};
use crate::words::shown;

/// The headers that tell where a request comes from, and where it was meant to go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    /// `Host`, or the authority of the request's target.
    pub host: Option<&'a str>,
    /// `Origin`.
    pub origin: Option<&'a str>,
    /// `Sec-Fetch-Site`.
    pub site: Option<&'a str>,
}

/// The name in an authority, without its port.
fn name_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
            .map_or(authority, |(name, _)| name),
    }
}

/// Checks where a request comes from. `names` are host names of this machine that the user has given; `is_tcp` says whether
/// the request came by TCP.
///
/// # Errors
/// It is for another host, or from a page of another origin.
pub fn check(headers: &Headers<'_>, names: &[String], is_tcp: bool) -> Result<(), Problem> {
    let refuse = |place: &str, detail: String, fix: &str| {
        Err(Problem::new(Kind::ForeignOrigin, detail).at(place).fix(fix))
    };
    let host = headers.host.unwrap_or_default();
    if is_tcp {
        let name = name_of(host);
        let is_known = name.parse::<std::net::IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if !is_known {
            let detail = format!("'{}' is no name of this host", shown(host));
            return refuse("header: Host", detail, "use an address or localhost, or name the host by --host");
        }
    }
    if let Some(site) = headers.site.filter(|site| !matches!(*site, "same-origin" | "none")) {
        let detail = format!("a page of another site made this request ({})", shown(site));
        return refuse(
            "header: Sec-Fetch-Site",
            detail,
            "open the address itself, not by a link from elsewhere",
        );
    }
    if let Some(origin) = headers.origin {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        if host.is_empty() || !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
            let detail = format!("a page of '{}' made this request", shown(origin));
            return refuse("header: Origin", detail, "send no Origin, or that of the API itself");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_pages_are_refused() {
        let own = ["router.example".to_owned()];
        // Host, origin, site, by TCP, accepted.
        for (host, origin, site, tcp, accepted) in [
            ("127.0.0.1:8080", "", "", true, true),
            ("[::1]:8080", "", "", true, true),
            ("localhost", "", "", true, true),
            ("LOCALHOST:1", "", "", true, true),
            ("Router.Example:443", "", "", true, true),
            ("evil.example:8080", "", "", true, false),
            ("", "", "", true, false),
            ("127.0.0.1.evil.example", "", "", true, false),
            ("localhost:8080@evil.example", "", "", true, false),
            ("anything", "", "", false, true),
            ("127.0.0.1:8080", "http://127.0.0.1:8080", "same-origin", true, true),
            ("127.0.0.1:8080", "http://127.0.0.1:8081", "", true, false),
            ("127.0.0.1:8080", "http://evil.example", "", true, false),
            ("127.0.0.1:8080", "null", "", true, false),
            ("127.0.0.1:8080", "", "cross-site", true, false),
            ("127.0.0.1:8080", "", "same-site", true, false),
            ("127.0.0.1:8080", "", "none", true, true),
            ("localhost", "http://evil.example", "", false, false),
            ("", "null", "", false, false),
        ] {
            let some = |text: &'static str| Some(text).filter(|text| !text.is_empty());
            let headers = Headers { host: some(host), origin: some(origin), site: some(site) };
            assert_eq!(check(&headers, &own, tcp).is_ok(), accepted, "{headers:?} {tcp}");
        }
    }
}
