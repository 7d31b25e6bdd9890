// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session as the configuration writes it, and what its packets need besides the protocol.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use bfd::{Auth, AuthKind, Config, Intervals, SessionKey, SessionPlace, returns_no_echo};
use element::HIDDEN;
use element::args::{FromArg, Names};
use element::clock::Nanos;

/// AUTH's kind for sessions without authentication.
const NO_AUTH: &str = "none";
/// Least TTL of packets over several hops, if nothing else is asked for: one router in between.
const MULTI_HOP_TTL: u8 = 254;

/// A session as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub neighbour: IpAddr,
    pub local: IpAddr,
    /// `None` for a session over several hops.
    pub link: Option<String>,
    /// The VRF of a session over several hops; `None` for the main table.
    pub vrf: Option<String>,
    pub intervals: Intervals,
    /// Shortest interval of sending echo packets, in microseconds; zero for none.
    pub echo_tx_us: u32,
    /// Where echo packets come from, if not from the own address.
    pub echo_source: Option<IpAddr>,
    pub min_ttl: u8,
    pub auth: Option<Auth>,
    /// `AUTH none` was said: a session that is authenticated is to be so no more.
    pub no_auth: bool,
    pub passive: bool,
    pub independent: bool,
    pub admin_down: bool,
    /// Drawn at random if it is not given.
    pub discriminator: Option<u32>,
}

impl Wanted {
    /// The protocol machine's settings.
    pub(super) fn config(&self, discriminator: u32) -> Config {
        Config {
            discriminator,
            passive: self.passive,
            min_ttl: self.min_ttl,
            control_plane_independent: self.independent,
            auth: self.auth,
            intervals: self.intervals,
        }
    }

    /// Whether a session goes on that was asked for as `other`: only its intervals, its role or its administrative state differ.
    pub(super) fn continues(&self, other: &Wanted) -> bool {
        let fixed = |w: &Wanted| (w.local, w.min_ttl, w.auth);
        fixed(self) == fixed(other)
            && self.discriminator.is_none_or(|number| Some(number) == other.discriminator)
    }

    /// The same, with the authentication and the source of echo packets of the session as it is. bfdd changes intervals, and knows
    /// of neither.
    pub(super) fn with_unsaid(self, now: &Wanted) -> Wanted {
        let echo_source = self.echo_source.or(now.echo_source.filter(|_| self.echo_tx_us > 0));
        let auth = if self.no_auth { None } else { self.auth.or(now.auth) };
        Wanted { auth, echo_source, ..self }
    }
}

/// The secrets in an argument, or in a message about one. That is the third word behind each AUTH with a kind, and the second one where it is no key.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let follows_auth = |at: usize, by: usize| {
        let auth = at.checked_sub(by).filter(|auth| words[*auth].eq_ignore_ascii_case("AUTH"));
        auth.is_some_and(|auth| !words[auth + 1].eq_ignore_ascii_case(NO_AUTH))
    };
    let is_secret =
        |at: &usize| follows_auth(*at, 3) || (follows_auth(*at, 2) && words[*at].parse::<u8>().is_err());
    let place = |at: usize| {
        let start = words[at].as_ptr().addr() - text.as_ptr().addr();
        start..start + words[at].len()
    };
    (0..words.len()).filter(is_secret).map(place).collect()
}

/// A session's line with all that may be a secret left out.
fn without_secret(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let auth = words.iter().position(|word| word.eq_ignore_ascii_case("AUTH"));
    let shown = |at: usize| if auth.is_some_and(|auth| at > auth + 1) { "***" } else { words[at] };
    (0..words.len()).map(shown).collect::<Vec<_>>().join(" ")
}

impl FromArg for Wanted {
    const EXPECTED: &'static str =
        "a session as '10.0.0.2 10.0.0.1 eth0 TX 50ms RX 50ms MULT 3': neighbour, own address, link";

    fn shown(text: &str) -> Cow<'_, str> {
        without_secret(text).into()
    }

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [neighbour, local, link, rest @ ..] = &words[..] else { return Err(String::new()) };
        let address = |word: &str| word.parse::<IpAddr>().map_err(|_| format!("'{word}' is not an address"));
        let (neighbour, local) = (address(neighbour)?, address(local)?);
        if neighbour.is_ipv4() != local.is_ipv4() {
            return Err(format!("{neighbour} and {local} are of different families"));
        }
        let link = (*link != "-").then(|| (*link).to_owned());
        let min_ttl = if link.is_some() { 255 } else { MULTI_HOP_TTL };
        let mut wanted = Wanted {
            neighbour,
            local,
            link,
            vrf: None,
            intervals: Intervals::default(),
            echo_tx_us: 0,
            echo_source: None,
            min_ttl,
            auth: None,
            no_auth: false,
            passive: false,
            independent: true,
            admin_down: false,
            discriminator: None,
        };
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            wanted.option(word, &mut rest, names)?;
        }
        wanted.check_echo()?;
        Ok(wanted)
    }
}

impl Wanted {
    fn option<'a>(
        &mut self,
        word: &str,
        rest: &mut impl Iterator<Item = &'a &'a str>,
        names: &Names,
    ) -> Result<(), String> {
        let mut value = || rest.next().copied().ok_or_else(|| format!("a value is missing behind {word}"));
        let interval = |text: &str, least_us: u128| {
            let time = Duration::from_arg(text, names).map_err(|_| format!("'{text}' is not a time"))?;
            u32::try_from(time.as_micros()).ok().filter(|us| u128::from(*us) >= least_us).ok_or_else(|| {
                format!("{word} must lie between {least_us} us and {} s", u32::MAX / 1_000_000)
            })
        };
        match word.to_ascii_uppercase().as_str() {
            "TX" => self.intervals.desired_min_tx_us = interval(value()?, LEAST_INTERVAL_US)?,
            "RX" => self.intervals.required_min_rx_us = interval(value()?, LEAST_INTERVAL_US)?,
            "ECHO" => self.intervals.required_min_echo_rx_us = interval(value()?, 0)?,
            "ECHO_TX" => {
                self.echo_tx_us = match value()? {
                    "0" => 0,
                    time => interval(time, LEAST_INTERVAL_US)?,
                };
            }
            "ECHO_SOURCE" => {
                let text = value()?;
                self.echo_source = Some(text.parse().map_err(|_| format!("'{text}' is not an address"))?);
            }
            "MULT" => self.intervals.detect_mult = number(word, value()?, 1..=255)? as u8,
            "TTL" if self.link.is_none() => self.min_ttl = number(word, value()?, 1..=255)? as u8,
            "TTL" => return Err("over one hop, the TTL must be 255 (RFC 5881); leave TTL out".into()),
            "VRF" if self.link.is_none() => self.vrf = Some(value()?.to_owned()),
            "VRF" => return Err("over one hop, a session is in the VRF of its link; leave VRF out".into()),
            "DISCRIMINATOR" => self.discriminator = Some(number(word, value()?, 1..=u32::MAX.into())? as u32),
            "AUTH" => match value()? {
                none if none.eq_ignore_ascii_case(NO_AUTH) => (self.auth, self.no_auth) = (None, true),
                kind => (self.auth, self.no_auth) = (Some(auth([kind, value()?, value()?])?), false),
            },
            "PASSIVE" => self.passive = true,
            "DEPENDENT" => self.independent = false,
            "DOWN" => self.admin_down = true,
            // It may be a part of a secret.
            _ if self.auth.is_some() => return Err("a word behind AUTH's secret is no option".into()),
            _ => {
                return Err(format!(
                    "'{word}' is not TX, RX, MULT, ECHO, ECHO_TX, ECHO_SOURCE, TTL, VRF, AUTH, DISCRIMINATOR, PASSIVE, DEPENDENT or DOWN"
                ));
            }
        }
        Ok(())
    }

    /// Whether echo packets can come back.
    fn check_echo(&self) -> Result<(), String> {
        let Some(source) = self.echo_source else {
            return match self.echo_tx_us {
                0 => Ok(()),
                _ if self.link.is_none() => {
                    Err("echo packets go over one hop only (RFC 5883); leave ECHO_TX out".into())
                }
                _ if returns_no_echo(self.local) => Err(format!(
                    "no router sends packets back to {}, which is link-local; add ECHO_SOURCE with another own address",
                    self.local
                )),
                _ => Ok(()),
            };
        };
        let is_unusable = source.is_unspecified() || source.is_multicast() || source.is_loopback();
        if self.echo_tx_us == 0 || self.link.is_none() {
            return Err("ECHO_SOURCE is for sessions over one hop that send echo packets: add ECHO_TX, or leave it out".into());
        }
        if source.is_ipv4() != self.local.is_ipv4() {
            return Err(format!("ECHO_SOURCE {source} and {} are of different families", self.local));
        }
        if is_unusable || returns_no_echo(source) {
            return Err(format!(
                "no router sends packets back to ECHO_SOURCE {source}; name another own address"
            ));
        }
        Ok(())
    }

    /// Source and destination of echo packets, both own addresses: the neighbour sends them back as it forwards any packet (RFC 5881 section 4).
    pub(super) fn echo_addresses(&self) -> (IpAddr, IpAddr) {
        let source = self.echo_source.unwrap_or(self.local);
        (source, if returns_no_echo(self.local) { source } else { self.local })
    }
}

fn auth([kind, key, secret]: [&str; 3]) -> Result<Auth, String> {
    let known = AuthKind::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(kind));
    let known = known.ok_or_else(|| {
        let names = AuthKind::ALL.map(AuthKind::name).join(", ");
        format!(
            "AUTH's kind must be none, or one of {names}, then the key's number and the secret, not '{kind}'"
        )
    })?;
    // A user who mixes up key and secret must not find the secret in a log.
    let key_id = key.parse().map_err(|_| "AUTH's key must lie between 0 and 255")?;
    if secret == HIDDEN {
        return Err(format!("{HIDDEN} stands for a secret that is not shown: write the secret itself"));
    }
    Auth::new(known, key_id, secret.as_bytes()).map_err(|why| why.to_string())
}

/// Shorter intervals would let one session take a worker's time.
const LEAST_INTERVAL_US: u128 = 1000;

fn number(word: &str, text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| range.contains(number));
    number
        .ok_or_else(|| format!("{word} must lie between {} and {}, not '{text}'", range.start(), range.end()))
}

/// Packets and bytes; bytes of UDP payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Count {
    pub(super) fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// What the element knows of a session besides the protocol machine.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub wanted: Wanted,
    /// Number of the link; `None` over several hops.
    pub link: Option<usize>,
    /// Number of the routing table, over several hops.
    pub table: u8,
    /// UDP source port.
    pub port: u16,
    /// Whether the configuration names it.
    pub configured: bool,
    pub received: Count,
    pub sent: Count,
    /// Echo packets of the neighbour that were returned, and from when on the next one may come.
    pub echoed: Count,
    pub echo_next: Duration,
    /// Own echo packets, and those that have returned.
    pub echo_sent: Count,
    pub echo_returned: Count,
    pub ups: u64,
    pub downs: u64,
    /// When the state changed last.
    pub since: Nanos,
}

/// How the table of sessions knows a neighbour on a link.
pub(super) fn on_link(neighbour: IpAddr, link: usize) -> SessionKey {
    SessionKey { address: neighbour, place: SessionPlace::Interface(link as u32) }
}

/// How it knows one several hops away, by the own address and the number of the routing table.
pub(super) fn far(neighbour: IpAddr, local: IpAddr, table: u8) -> SessionKey {
    SessionKey { address: neighbour, place: SessionPlace::Several { local, table: table.into() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_read() {
        let check = |text: &str, want: Result<&str, &str>| {
            let read = Wanted::from_arg(text, &Names::default());
            let shown = read.map(|w| {
                let Intervals { desired_min_tx_us: tx, required_min_rx_us: rx, detect_mult, .. } =
                    w.intervals;
                let flags = [w.passive, !w.independent, w.admin_down].map(u8::from);
                format!("{:?} {tx} {rx} {detect_mult} {} {flags:?} {:?}", w.link, w.min_ttl, w.discriminator)
            });
            assert_eq!(shown.as_deref().map_err(String::as_str), want, "{text}");
        };
        check("10.0.0.2 10.0.0.1 eth0", Ok("Some(\"eth0\") 300000 300000 3 255 [0, 0, 0] None"));
        check(
            "10.0.0.2 10.0.0.1 - tx 10ms RX 0.02 MULT 5 TTL 250 PASSIVE DEPENDENT DOWN DISCRIMINATOR 7",
            Ok("None 10000 20000 5 250 [1, 1, 1] Some(7)"),
        );
        check("10.0.0.2 10.0.0.1", Err(""));
        check("10.0.0.2 ::1 eth0", Err("10.0.0.2 and ::1 are of different families"));
        check("x 10.0.0.1 eth0", Err("'x' is not an address"));
        check(
            "10.0.0.2 10.0.0.1 eth0 TTL 250",
            Err("over one hop, the TTL must be 255 (RFC 5881); leave TTL out"),
        );
        check(
            "10.0.0.2 10.0.0.1 eth0 VRF red",
            Err("over one hop, a session is in the VRF of its link; leave VRF out"),
        );
        check("10.0.0.2 10.0.0.1 eth0 AUTH sha1 1", Err("a value is missing behind AUTH"));
        check(
            "10.0.0.2 10.0.0.1 eth0 AUTH sha2 1 x",
            Err(
                "AUTH's kind must be none, or one of password, md5, meticulous-md5, sha1, meticulous-sha1, then the key's number and the secret, not 'sha2'",
            ),
        );
        let key = "AUTH's key must lie between 0 and 255";
        check("10.0.0.2 10.0.0.1 eth0 AUTH sha1 256 x", Err(key));
        check("10.0.0.2 10.0.0.1 eth0 AUTH sha1 secret 7", Err(key));
        check(
            "10.0.0.2 10.0.0.1 eth0 AUTH sha1 7 two words",
            Err("a word behind AUTH's secret is no option"),
        );
        check(
            "10.0.0.2 10.0.0.1 eth0 AUTH sha1 7 ***",
            Err("*** stands for a secret that is not shown: write the secret itself"),
        );
        check(
            "10.0.0.2 10.0.0.1 eth0 AUTH none TX 10ms",
            Ok("Some(\"eth0\") 10000 300000 3 255 [0, 0, 0] None"),
        );
        check(
            "10.0.0.2 10.0.0.1 eth0 AUTH md5 1 seventeen-letters",
            Err("BFD: a secret for md5 must have 1 to 16 bytes, not 17"),
        );
        check("10.0.0.2 10.0.0.1 eth0 MULT 0", Err("MULT must lie between 1 and 255, not '0'"));
        check("10.0.0.2 10.0.0.1 eth0 TX 1us", Err("TX must lie between 1000 us and 4294 s"));
        check("10.0.0.2 10.0.0.1 eth0 TX", Err("a value is missing behind TX"));
        check(
            "10.0.0.2 10.0.0.1 eth0 FAST",
            Err(
                "'FAST' is not TX, RX, MULT, ECHO, ECHO_TX, ECHO_SOURCE, TTL, VRF, AUTH, DISCRIMINATOR, PASSIVE, DEPENDENT or DOWN",
            ),
        );
    }

    #[test]
    fn secrets_are_found() {
        let check = |argument: &str, want: &[&str]| {
            let found: Vec<&str> = secrets(argument).into_iter().map(|at| &argument[at]).collect();
            assert_eq!(found, want, "{argument}");
        };
        check("SESSION 10.0.0.2 10.0.0.1 x auth\tsha1  7\nhush TX 5ms", &["hush"]);
        check("SESSION 10.0.0.2 10.0.0.1 x AUTH md5 1 a AUTH sha1 2 b", &["a", "b"]);
        check("SESSION 10.0.0.2 10.0.0.1 x AUTH none TX 5ms", &[]);
        check("SESSION 10.0.0.2 10.0.0.1 x AUTH sha1 7", &[]);
        check("LINK AUTH 1", &[]);
        check("x AUTH sha1 hush 7 AUTH 7 hush AUTH", &["hush", "7", "hush", "AUTH"]);
        check("AUTH's kind must be none, not TX, AUTH, or other", &[]);
    }

    #[test]
    fn echo_packets_need_addresses_that_come_back() {
        let check = |text: &str, want: Result<(&str, &str), &str>| {
            let read = Wanted::from_arg(text, &Names::default()).map(|wanted| wanted.echo_addresses());
            let want = want.map(|(source, to)| (source.parse().unwrap(), to.parse().unwrap()));
            assert_eq!(read.as_ref().map_err(String::as_str), want.as_ref().map_err(|why| *why), "{text}");
        };
        check("10.0.0.2 10.0.0.1 eth0 ECHO_TX 10ms", Ok(("10.0.0.1", "10.0.0.1")));
        check("10.0.0.2 10.0.0.1 eth0 ECHO_TX 10ms ECHO_SOURCE 10.1.0.1", Ok(("10.1.0.1", "10.0.0.1")));
        check("fe80::2 fe80::1 eth0 ECHO_SOURCE fd00::1 ECHO_TX 10ms", Ok(("fd00::1", "fd00::1")));
        check("10.0.0.2 10.0.0.1 - ECHO_TX 0", Ok(("10.0.0.1", "10.0.0.1")));
        check(
            "10.0.0.2 10.0.0.1 - ECHO_TX 10ms",
            Err("echo packets go over one hop only (RFC 5883); leave ECHO_TX out"),
        );
        check("10.0.0.2 10.0.0.1 eth0 ECHO_TX 1us", Err("ECHO_TX must lie between 1000 us and 4294 s"));
        check(
            "fe80::2 fe80::1 eth0 ECHO_TX 10ms",
            Err(
                "no router sends packets back to fe80::1, which is link-local; add ECHO_SOURCE with another own address",
            ),
        );
        let needs =
            "ECHO_SOURCE is for sessions over one hop that send echo packets: add ECHO_TX, or leave it out";
        check("10.0.0.2 10.0.0.1 eth0 ECHO_SOURCE 10.1.0.1", Err(needs));
        check("10.0.0.2 10.0.0.1 - ECHO_SOURCE 10.1.0.1 ECHO_TX 10ms", Err(needs));
        check(
            "10.0.0.2 10.0.0.1 eth0 ECHO_SOURCE fd00::1 ECHO_TX 10ms",
            Err("ECHO_SOURCE fd00::1 and 10.0.0.1 are of different families"),
        );
        check("10.0.0.2 10.0.0.1 eth0 ECHO_SOURCE x", Err("'x' is not an address"));
        for bad in ["0.0.0.0", "224.0.0.1", "127.0.0.1", "169.254.0.1"] {
            let text = format!("10.0.0.2 10.0.0.1 eth0 ECHO_SOURCE {bad} ECHO_TX 10ms");
            let why = format!("no router sends packets back to ECHO_SOURCE {bad}; name another own address");
            check(&text, Err(&why));
        }
    }
}
