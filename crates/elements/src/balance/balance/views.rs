// SPDX-License-Identifier: MIT OR Apache-2.0
//! What handlers list of a balancer, and which sessions they end. Both take some at a time, and packets go on meanwhile.

use std::fmt::Write as _;
use std::net::IpAddr;

use balance::{Balancer, ServerView, Session};
use element::HandlerError;
use element::clock::{Nanos, SECOND};
use sync::lock::AdaptiveGuard;

use super::Shared;
use crate::sessions::Which;

/// Sessions that are looked at while the lock is held.
const LISTED: usize = 128;
/// How many times so many a handler's answer lists.
const SLICES: usize = 32;

/// The balancer, after sessions have ended whose time has come.
pub(super) fn reaped(shared: &Shared, now: Nanos) -> AdaptiveGuard<'_, Balancer> {
    for _ in 0..SLICES {
        let mut balancer = shared.lock();
        let before = balancer.len();
        balancer.reap(now, LISTED);
        if balancer.len() == before {
            return balancer;
        }
    }
    shared.lock()
}

/// A line for a session.
fn line(session: &Session, now: Nanos) -> String {
    let Session { client, service, server, .. } = session;
    format!(
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {}\n",
        rulefile::names::protocol_name(session.protocol),
        client.0,
        client.1,
        service.0,
        service.1,
        server.0,
        server.1,
        session.state.name(),
        session.packets[0],
        session.bytes[0],
        session.packets[1],
        session.bytes[1],
        now.saturating_sub(session.began_ns) / SECOND,
        session.expires_ns.saturating_sub(now).div_ceil(SECOND),
    )
}

/// Some sessions: in the first line the place where to go on, or `-`; then a line each.
pub(super) fn some(shared: &Shared, mut from: usize, now: Nanos) -> String {
    let mut lines = String::new();
    for _ in 0..SLICES {
        let mut found = Vec::with_capacity(LISTED);
        let next = shared.lock().some(from, LISTED, |session| found.push(session));
        found
            .iter()
            .filter(|session| session.expires_ns > now)
            .for_each(|session| lines += &line(session, now));
        match next {
            Some(next) => from = next,
            None => return format!("-\n{lines}"),
        }
    }
    format!("{from}\n{lines}")
}

/// Ends sessions that the handler's value names.
pub(super) fn end_those(shared: &Shared, value: &str) -> Result<(), HandlerError> {
    let which = Which::read(value, "PROTOCOL CLIENT PORT SERVICE PORT")?;
    if let Which::One { protocol, source, destination } = which {
        shared.lock().end_of(protocol, source, destination);
        return Ok(());
    }
    let mut from = Some(0);
    while let Some(at) = from {
        let mut found: Vec<Session> = Vec::with_capacity(LISTED);
        let mut balancer = shared.lock();
        from = balancer.some(at, LISTED, |session| found.push(session));
        let ends = |one: &Session| -> [(IpAddr, u16); 3] { [one.client, one.service, one.server] };
        for session in found.iter().filter(|session| which.is_with(&ends(session))) {
            balancer.end_of(session.protocol, session.client, session.service);
        }
    }
    Ok(())
}

/// A line for each service, with its text.
pub(super) fn services(shared: &Shared, now: Nanos) -> String {
    let mut text = String::new();
    for view in reaped(shared, now).services() {
        let (service, [packets, answers], [bytes, answered]) = (view.service, view.packets, view.bytes);
        let _ = writeln!(
            text,
            "{} {} {} {} {packets} {bytes} {answers} {answered} {} {} {}",
            service.line,
            view.taking,
            service.servers.len(),
            view.sessions,
            view.refused,
            view.by_hash,
            service.text
        );
    }
    text
}

/// A line for each server. Packets go on between two services.
pub(super) fn servers(shared: &Shared, now: Nanos) -> String {
    let mut text = String::new();
    let count = reaped(shared, now).policy().services.len();
    for at in 0..count {
        shared.lock().servers_of(at).for_each(|view| server(&mut text, &view, now));
    }
    text
}

/// The line of a server.
fn server(text: &mut String, view: &ServerView<'_>, now: Nanos) {
    let ([packets, answers], [bytes, answered]) = (view.packets, view.bytes);
    let port = view.port.map_or_else(|| "-".to_owned(), |port| port.to_string());
    let (result, age) = match view.checked {
        None => ("-", "-".to_owned()),
        Some((at, ok)) => (if ok { "ok" } else { "failed" }, (now.saturating_sub(at) / SECOND).to_string()),
    };
    let _ = writeln!(
        text,
        "{} {} {port} {} {} {} {:.2} {} {} {packets} {bytes} {answers} {answered} {result} {age}",
        view.service,
        view.address,
        view.weight,
        view.state.name(),
        if view.is_forced { "set" } else { "-" },
        view.share * 100.0,
        view.sessions,
        view.begun,
    );
}
