// SPDX-License-Identifier: MIT OR Apache-2.0
//! What handlers list of a translator, and which sessions they end. Sessions are listed and ended some at a time, and packets go on meanwhile. Inside
//! hosts are counted at once.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use element::HandlerError;
use element::clock::{Nanos, SECOND};
use nat::{Nat, Session};
use sync::read_mostly::WriteGuard;

use super::SharedNat;
use super::vrfs::Vrfs;

/// Sessions that are looked at while the lock is held.
const LISTED: usize = 128;
/// How many times so many a handler's answer lists.
const SLICES: usize = 32;
/// Inside hosts that a handler lists.
const HOSTS: usize = 10_000;

/// The translator, after sessions have ended whose time has come.
pub(super) fn reaped(nat: &SharedNat, now: Nanos) -> WriteGuard<'_, Nat> {
    for _ in 0..SLICES {
        let mut nat = nat.write();
        let before = nat.len();
        nat.reap(now, LISTED);
        if nat.len() == before {
            return nat;
        }
    }
    nat.write()
}

/// A line for a session.
fn line(vrfs: &Vrfs, session: &Session, now: Nanos) -> String {
    let Session { inside, outside, peer, .. } = session;
    let (address, vrf) = vrfs.host(inside.0);
    let more = vrf.map_or_else(String::new, |vrf| format!(" - {vrf} {vrf}"));
    format!(
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {}{more}\n",
        rulefile::names::protocol_name(session.protocol),
        address,
        inside.1,
        outside.0,
        outside.1,
        peer.0,
        peer.1,
        session.state.name(),
        session.packets[0],
        session.bytes[0],
        session.packets[1],
        session.bytes[1],
        now.saturating_sub(session.began_ns) / SECOND,
        // A peer says when its sessions end.
        if session.expires_ns == u64::MAX {
            0
        } else {
            session.expires_ns.saturating_sub(now).div_ceil(SECOND)
        },
    )
}

/// Some sessions: in the first line the place where to go on, or `-`; then a line each. Packets go on meanwhile.
pub(super) fn some(nat: &SharedNat, vrfs: &Vrfs, mut from: usize, now: Nanos) -> String {
    let mut lines = String::new();
    for _ in 0..SLICES {
        let mut found = Vec::with_capacity(LISTED);
        let next = nat.write().some(from, LISTED, |session| found.push(session));
        found.retain(|session| session.expires_ns > now);
        found.iter().for_each(|session| lines += &line(vrfs, session, now));
        match next {
            Some(next) => from = next,
            None => return format!("-\n{lines}"),
        }
    }
    format!("{from}\n{lines}")
}

/// A line for each statement with its text: its line in the file, inside hosts, sessions, ports in use.
pub(super) fn statements(nat: &SharedNat, now: Nanos) -> String {
    let nat = reaped(nat, now);
    let policy = Arc::clone(nat.policy());
    let mut sums = vec![[0u64; 3]; policy.translations.len()];
    for one in nat.subscribers() {
        if let Some(sum) = one.translation.and_then(|by| sums.get_mut(usize::from(by))) {
            let more = [1, u64::from(one.sessions), one.ports.iter().map(|n| u64::from(*n)).sum()];
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
    drop(nat);
    let translations = policy.translations.iter().zip(sums).map(|(one, sum)| (one.line, sum, &one.text));
    let forwards = policy.forwards.iter().map(|one| (one.line, [0; 3], &one.text));
    let statics = policy.statics.iter().map(|one| (one.line, [0; 3], &one.text));
    let mut all: Vec<_> = translations.chain(forwards).chain(statics).collect();
    all.sort_by_key(|(line, ..)| *line);
    let mut text = String::new();
    for (line, [hosts, sessions, ports], words) in all {
        let _ = writeln!(text, "{line} {hosts} {sessions} {ports} {words}");
    }
    text
}

/// A line for each inside host, up to a number.
pub(super) fn subscribers(nat: &SharedNat, vrfs: &Vrfs, now: Nanos) -> String {
    let nat = reaped(nat, now);
    let mut all: Vec<_> = nat.subscribers().take(HOSTS).collect();
    let policy = Arc::clone(nat.policy());
    drop(nat);
    all.sort_by_key(|one| one.inside);
    let mut text = String::new();
    for one in all {
        let by = one.translation.and_then(|by| policy.translations.get(usize::from(by)));
        let line = by.map_or_else(|| "-".to_owned(), |by| by.line.to_string());
        let [tcp, udp, icmp] = one.ports;
        let inside = vrfs.subscriber(one.inside);
        let _ = write!(text, "{inside} {} {line} {} {tcp} {udp} {icmp}", one.outside, one.sessions);
        one.blocks.iter().for_each(|(first, used)| {
            let _ = write!(text, " {first}:{used}");
        });
        text.push('\n');
    }
    text
}

/// Ends sessions that are chosen.
fn end(nat: &SharedNat, now: Nanos, chosen: impl Fn(&Session) -> bool) {
    let mut from = Some(0);
    while let Some(at) = from {
        let mut found = Vec::new();
        let mut nat = nat.write();
        nat.reap(now, LISTED);
        from = nat.some(at, LISTED, |session| found.push(session));
        for session in found.iter().filter(|session| chosen(session)) {
            nat.end(session.protocol, session.inside, session.peer);
        }
    }
}

/// Ends sessions that the handler's value names.
pub(super) fn end_those(nat: &SharedNat, vrfs: &Vrfs, which: &str, now: Nanos) -> Result<(), HandlerError> {
    let bad = || {
        let expected = "'all', ADDRESS [PORT], or PROTOCOL INSIDE PORT PEER PORT [VRF]";
        HandlerError::bad_value("end", which, expected)
    };
    let words: Vec<&str> = which.split_ascii_whitespace().collect();
    let address = |text: &str| text.parse::<IpAddr>().map_err(|_| bad());
    let four = |text: &str| text.parse::<Ipv4Addr>().map_err(|_| bad());
    let port = |text: &str| text.parse::<u16>().map_err(|_| bad());
    let ends = |s: &Session| {
        [
            (vrfs.host(s.inside.0).0, s.inside.1),
            (s.outside.0.into(), s.outside.1),
            (s.peer.0.into(), s.peer.1),
        ]
    };
    match words[..] {
        ["all"] => end(nat, now, |_| true),
        [one] => {
            let one = address(one)?;
            end(nat, now, |s| ends(s).iter().any(|(end, _)| *end == one));
        }
        [one, number] => {
            let one = (address(one)?, port(number)?);
            end(nat, now, |s| ends(s).contains(&one));
        }
        [protocol, inside, at, peer, to, ref vrf @ ..] if vrf.len() < 2 => {
            let protocol = rulefile::names::protocol(protocol).ok_or_else(bad)?;
            let mut nat = nat.write();
            nat.reap(now, LISTED);
            let inside = match vrf.first().filter(|name| **name != "-") {
                None => address(inside)?,
                Some(name) => nat::vrf::listed(vrfs.named(name).ok_or_else(bad)?, four(inside)?),
            };
            nat.end(protocol, (inside, port(at)?), (four(peer)?, port(to)?));
        }
        _ => return Err(bad()),
    }
    Ok(())
}
