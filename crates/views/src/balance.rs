// SPDX-License-Identifier: MIT OR Apache-2.0
//! Load balancers of a router: their services and servers.

use std::fmt::Write as _;
use std::net::IpAddr;

use client::{Client, Failure};
use serde_json::{Value, json};

use crate::answers::not_understood;
use crate::sessions::Session;

/// A service and what has come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its line in the file.
    pub line: u32,
    /// Servers that take connections, of all.
    pub taking: u64,
    /// All servers.
    pub servers: u64,
    /// Sessions.
    pub sessions: u64,
    /// Packets from clients, and from servers with address translation.
    pub packets: [u64; 2],
    /// The same in bytes.
    pub bytes: [u64; 2],
    /// Packets dropped because no server took connections.
    pub refused: u64,
    /// Packets that went without a session.
    pub without_session: u64,
    /// Its statement.
    pub text: String,
}

impl Service {
    /// Its name.
    pub fn name(&self) -> &str {
        self.text.split(' ').nth(1).unwrap_or_default()
    }
}

/// A server of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The name of the service.
    pub service: String,
    /// Its address.
    pub address: IpAddr,
    /// The port that packets get, if they do not keep theirs.
    pub port: Option<u16>,
    /// Its weight.
    pub weight: u16,
    /// `up`, `unchecked`, `draining` or `down`.
    pub state: String,
    /// Whether a person has said that it is up or down.
    pub is_forced: bool,
    /// Its share of new connections, in percent.
    pub share: f64,
    /// Sessions that it has.
    pub sessions: u64,
    /// Sessions that it has had.
    pub begun: u64,
    /// Packets to it, and from it with address translation.
    pub packets: [u64; 2],
    /// The same in bytes.
    pub bytes: [u64; 2],
    /// Whether its last check was answered, and how many seconds ago.
    pub checked: Option<(bool, u64)>,
}

fn service(line: &str) -> Option<Service> {
    let mut words = line.splitn(11, ' ');
    let place = words.next()?.parse().ok()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let (taking, servers, sessions) = (number()?, number()?, number()?);
    let [packets, bytes, answers, answered] = [number()?, number()?, number()?, number()?];
    let (refused, without_session) = (number()?, number()?);
    Some(Service {
        line: place,
        taking,
        servers,
        sessions,
        packets: [packets, answers],
        bytes: [bytes, answered],
        refused,
        without_session,
        text: words.next()?.to_owned(),
    })
}

fn server(line: &str) -> Option<Server> {
    let words: Vec<&str> = line.split(' ').collect();
    let [service, address, port, weight, state, forced, share, counts @ .., result, age] = &words[..] else {
        return None;
    };
    let counts: Vec<u64> = counts.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [sessions, begun, packets, bytes, answers, answered] = counts[..] else { return None };
    Some(Server {
        service: (*service).to_owned(),
        address: address.parse().ok()?,
        port: port.parse().ok(),
        weight: weight.parse().ok()?,
        state: (*state).to_owned(),
        is_forced: *forced == "set",
        share: share.parse().ok()?,
        sessions,
        begun,
        packets: [packets, answers],
        bytes: [bytes, answered],
        checked: age.parse().ok().map(|age| (*result == "ok", age)),
    })
}

/// All services.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn services(client: &mut Client, element: &str) -> Result<Vec<Service>, Failure> {
    let text = client.read(&format!("{element}.services"))?;
    text.lines().map(|line| service(line).ok_or_else(|| not_understood(line))).collect()
}

/// All servers.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn servers(client: &mut Client, element: &str) -> Result<Vec<Server>, Failure> {
    let text = client.read(&format!("{element}.servers"))?;
    text.lines().map(|line| server(line).ok_or_else(|| not_understood(line))).collect()
}

/// Sessions for programs.
pub fn sessions_json(sessions: &[Session]) -> Vec<Value> {
    let one = |s: &Session| {
        json!({
            "protocol": s.protocol, "client": s.source.0, "client_port": s.source.1, "service": s.destination.0,
            "service_port": s.destination.1, "server": s.server.map(|end| end.0), "server_port": s.server.map(|end| end.1),
            "state": s.state, "packets": s.packets[0], "bytes": s.bytes[0], "answer_packets": s.packets[1],
            "answer_bytes": s.bytes[1], "age_s": s.age_s, "expires_s": s.expires_s,
        })
    };
    sessions.iter().map(one).collect()
}

/// Services as a table.
pub fn services_text(services: &[Service]) -> String {
    let mut text = format!(
        "{:>5} {:>11} {:>9} {:>12} {:>12} {:>9}  service\n",
        "line", "servers", "sessions", "packets", "answers", "dropped"
    );
    for one in services {
        let servers = format!("{} of {}", one.taking, one.servers);
        let [packets, answers] = one.packets;
        let _ = writeln!(
            text,
            "{:>5} {servers:>11} {:>9} {packets:>12} {answers:>12} {:>9}  {}",
            one.line, one.sessions, one.refused, one.text
        );
    }
    text
}

/// Servers as a table.
pub fn servers_text(servers: &[Server]) -> String {
    let mut text = format!(
        "{:15} {:25} {:>6} {:10} {:>7} {:>9} {:>12}  last check\n",
        "service", "server", "weight", "state", "share", "sessions", "packets"
    );
    for one in servers {
        let at = match one.port {
            Some(port) => format!("{} port {port}", one.address),
            None => one.address.to_string(),
        };
        let checked = match one.checked {
            None => "-".to_owned(),
            Some((ok, age)) => format!("{}, {age} s ago", if ok { "ok" } else { "failed" }),
        };
        let state = format!("{}{}", one.state, if one.is_forced { " (set)" } else { "" });
        let _ = writeln!(
            text,
            "{:15} {at:25} {:>6} {state:10} {:>6.2}% {:>9} {:>12}  {checked}",
            one.service, one.weight, one.share, one.sessions, one.packets[0]
        );
    }
    text
}

/// Services for programs.
pub fn services_json(services: &[Service]) -> Vec<Value> {
    let one = |s: &Service| {
        json!({
            "service": s.name(), "line": s.line, "text": s.text, "servers_taking": s.taking, "servers": s.servers,
            "sessions": s.sessions, "packets": s.packets[0], "bytes": s.bytes[0], "answer_packets": s.packets[1],
            "answer_bytes": s.bytes[1], "dropped": s.refused, "without_session": s.without_session,
        })
    };
    services.iter().map(one).collect()
}

/// Servers for programs.
pub fn servers_json(servers: &[Server]) -> Vec<Value> {
    let one = |s: &Server| {
        json!({
            "service": s.service, "address": s.address, "port": s.port, "weight": s.weight, "state": s.state,
            "set": s.is_forced, "share_percent": s.share, "sessions": s.sessions, "sessions_begun": s.begun,
            "packets": s.packets[0], "bytes": s.bytes[0], "answer_packets": s.packets[1], "answer_bytes": s.bytes[1],
            "check_ok": s.checked.map(|(ok, _)| ok), "check_age_s": s.checked.map(|(_, age)| age),
        })
    };
    servers.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let found = service("3 2 4 10 99 8000 5 600 7 8 service web tcp 192.0.2.80 port 80").unwrap();
        assert_eq!((found.name(), found.taking, found.servers, found.packets), ("web", 2, 4, [99, 5]));
        assert_eq!((found.bytes, found.refused, found.without_session), ([8000, 600], 7, 8));
        assert_eq!(services_json(std::slice::from_ref(&found))[0]["answer_bytes"], 600);
        let shown = services_text(&[found]);
        assert!(shown.ends_with("    3      2 of 4        10           99            5         7  service web tcp 192.0.2.80 port 80\n"), "{shown}");
        let checked = server("web 10.0.1.11 8080 2 down set 12.50 1 2 3 4 5 6 failed 7").unwrap();
        assert_eq!((checked.port, checked.is_forced, checked.checked), (Some(8080), true, Some((false, 7))));
        assert_eq!((checked.packets, checked.bytes, checked.begun), ([3, 5], [4, 6], 2));
        let other = server("web 2001:db8::1 - 1 unchecked - 87.50 1 2 3 4 5 6 - -").unwrap();
        assert_eq!((other.port, other.checked), (None, None));
        let shown = servers_text(&[checked, other.clone()]);
        assert!(shown.contains("10.0.1.11 port 8080") && shown.contains("down (set)"), "{shown}");
        assert!(shown.contains("failed, 7 s ago") && shown.ends_with("  -\n"), "{shown}");
        assert_eq!(servers_json(&[other])[0]["check_ok"], Value::Null);
        assert!(
            service("3 2").is_none()
                && server("web 10.0.1.11 8080 2 down set 12.50 1 2 3 4 5 failed 7").is_none()
        );
    }
}
