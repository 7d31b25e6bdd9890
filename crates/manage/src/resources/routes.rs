// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes of the control plane.

use std::net::IpAddr;

use serde_json::{Value, json};
use wire::Prefix;

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::{Kind, Problem};
use crate::route::Route;
use crate::schema::{anything, list, object, with};
use crate::words::shown;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/api/v1/routes", "Routes that the control plane has learnt.", schema, read).with_query(&[
        ("address", "string", "The route that decides about this address."),
        ("prefix", "string", "Only routes within this prefix."),
        ("feed", "string", "Only routes of this feed."),
        ("vrf", "string", "Routes of this VRF."),
        ("all", "boolean", "Routes that do not count, too."),
        ("limit", "integer", "So many at most (1000)."),
        ("from", "integer", "The number of the first one, for the next page."),
    ]),
    Route::get(
        "/api/v1/routes/status",
        "Feeds, numbers of routes, and the router that gets them.",
        status_schema,
        status,
    ),
];

fn schema() -> Value {
    let page = object(&["count:integer All that fit.", "next:integer? The first of the next page."]);
    with(page, "routes", list(anything()))
}

fn status_schema() -> Value {
    with(object(&[]), "status", anything())
}

fn ask(call: &Call, handler: &str) -> Result<Value, Problem> {
    let text = call.shared.routers.control_plane()?.read(handler)?;
    let broken = |why: serde_json::Error| {
        Problem::new(Kind::Broken, format!("the control plane's answer is not understood: {why}"))
    };
    serde_json::from_str(&text).map_err(broken)
}

/// Whether one prefix is within another.
fn is_within(inner: Prefix, outer: Prefix) -> bool {
    match (inner, outer) {
        (Prefix::V4(inner), Prefix::V4(outer)) => inner.len() >= outer.len() && outer.contains(inner.addr()),
        (Prefix::V6(inner), Prefix::V6(outer)) => inner.len() >= outer.len() && outer.contains(inner.addr()),
        _ => false,
    }
}

fn read(call: &Call) -> Result<Answer, Problem> {
    let vrf = call.word("vrf")?.map_or_else(String::new, |vrf| format!(" {vrf}"));
    if let Some(address) = call.asked("address") {
        let wrong = |_| {
            Problem::invalid(
                "query: address",
                format!("'{}' is no address", shown(address)),
                "give an IPv4 or IPv6 address",
            )
        };
        let address: IpAddr = address.parse().map_err(wrong)?;
        let found = ask(call, &format!("lookup {address}{vrf}"))?;
        let routes: Vec<Value> = Some(found).filter(|route| !route.is_null()).into_iter().collect();
        return Ok(json!({ "count": routes.len(), "next": null, "routes": routes }).into());
    }
    let within = call.asked("prefix").map(|text| {
        let fix = "give ADDRESS/LENGTH";
        text.parse::<Prefix>()
            .map_err(|_| Problem::invalid("query: prefix", format!("'{}' is no prefix", shown(text)), fix))
    });
    let within = within.transpose()?;
    let all = if call.asked("all") == Some("true") { " all" } else { "" };
    let (limit, from) =
        (call.number("limit", 1000, 10_000)? as usize, call.number("from", 0, u32::MAX.into())? as usize);
    let feed = call.asked("feed");
    let Value::Array(rows) = ask(call, &format!("routes{all}{vrf}"))? else {
        return Err(Problem::new(Kind::Broken, "the control plane's answer is no list"));
    };
    let is_fit = |row: &Value| {
        let found = || row["prefix"].as_str().and_then(|text| text.parse().ok());
        within.is_none_or(|outer| found().is_some_and(|inner| is_within(inner, outer)))
            && feed.is_none_or(|feed| row["feed"] == feed)
    };
    let mut fit: Vec<Value> = rows.into_iter().filter(is_fit).collect();
    let count = fit.len();
    let next = (from + limit < count).then_some(from + limit);
    fit.drain(..from.min(count));
    fit.truncate(limit);
    Ok(json!({ "count": count, "next": next, "routes": fit }).into())
}

fn status(call: &Call) -> Result<Answer, Problem> {
    Ok(json!({ "status": ask(call, "status")? }).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_compared() {
        for (inner, outer, expected) in [
            ("10.1.0.0/16", "10.0.0.0/8", true),
            ("10.0.0.0/8", "10.0.0.0/8", true),
            ("10.0.0.0/7", "10.0.0.0/8", false),
            ("11.0.0.0/8", "10.0.0.0/8", false),
            ("11.0.0.0/8", "0.0.0.0/0", true),
            ("2001:db8:1::/48", "2001:db8::/32", true),
            ("2001:db8::1", "2001:db8::1/128", true),
            ("2001:db8::2", "2001:db8::1/128", false),
            ("10.0.0.0/8", "::/0", false),
        ] {
            assert_eq!(
                is_within(inner.parse().unwrap(), outer.parse().unwrap()),
                expected,
                "{inner} {outer}"
            );
        }
        assert!(["10.0.0.0/33", "x/1", "label 5"].iter().all(|text| text.parse::<Prefix>().is_err()));
    }
}
