// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address translators of a router: their statements and inside hosts.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use client::{Client, Failure};
use serde_json::{Value, json};

use crate::answers::{Events, not_understood};

/// A statement and what has come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its line in the file.
    pub line: u32,
    /// Inside hosts that have sessions by it; of translations.
    pub hosts: u64,
    /// Their sessions.
    pub sessions: u64,
    /// Outside ports that they have.
    pub ports: u64,
    /// Its text.
    pub text: String,
}

/// An inside host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its address; of IPv6 hosts their network.
    pub inside: String,
    /// Its outside address.
    pub outside: Ipv4Addr,
    /// The line of its statement; none for the router itself.
    pub line: Option<u32>,
    /// Sessions.
    pub sessions: u64,
    /// Ports for TCP, for UDP, and identifiers for ICMP.
    pub ports: [u64; 3],
    /// Blocks of ports: the first one, and how many are in use.
    pub blocks: Vec<(u16, u64)>,
}

/// An address of an interface that statements may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface.
    pub name: String,
    /// The address; none if the interface has none.
    pub address: Option<Ipv4Addr>,
    /// `used`, `none`, or `unused: ` and why.
    pub state: String,
}

fn interface(line: &str) -> Option<Interface> {
    let mut words = line.splitn(3, ' ');
    let (name, address, state) = (words.next()?.to_owned(), words.next()?, words.next()?.to_owned());
    let address = if address == "-" { None } else { Some(address.parse().ok()?) };
    Some(Interface { name, address, state })
}

fn statement(line: &str) -> Option<Statement> {
    let mut words = line.splitn(5, ' ');
    Some(Statement {
        line: words.next()?.parse().ok()?,
        hosts: words.next()?.parse().ok()?,
        sessions: words.next()?.parse().ok()?,
        ports: words.next()?.parse().ok()?,
        text: words.next()?.to_owned(),
    })
}

fn host(line: &str) -> Option<Host> {
    let mut words = line.split(' ');
    let mut next = || words.next();
    let (inside, outside) = (next()?.to_owned(), next()?.parse().ok()?);
    let line = next()?.parse().ok();
    let mut number = || next()?.parse::<u64>().ok();
    let (sessions, ports) = (number()?, [number()?, number()?, number()?]);
    let block = |word: &str| {
        let (first, used) = word.split_once(':')?;
        Some((first.parse().ok()?, used.parse().ok()?))
    };
    let blocks = words.map(block).collect::<Option<_>>()?;
    Some(Host { inside, outside, line, sessions, ports, blocks })
}

/// All statements that translate.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn statements(client: &mut Client, element: &str) -> Result<Vec<Statement>, Failure> {
    let text = client.read(&format!("{element}.statements"))?;
    text.lines().map(|line| statement(line).ok_or_else(|| not_understood(line))).collect()
}

/// The addresses of interfaces that statements may name.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn interfaces(client: &mut Client, element: &str) -> Result<Vec<Interface>, Failure> {
    let text = client.read(&format!("{element}.addresses"))?;
    text.lines().map(|line| interface(line).ok_or_else(|| not_understood(line))).collect()
}

/// Inside hosts that have sessions.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn hosts(client: &mut Client, element: &str) -> Result<Vec<Host>, Failure> {
    let text = client.read(&format!("{element}.subscribers"))?;
    text.lines().map(|line| host(line).ok_or_else(|| not_understood(line))).collect()
}

/// The inside address and port that have an outside one.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn owner(
    client: &mut Client,
    element: &str,
    protocol: &str,
    outside: (Ipv4Addr, u16),
) -> Result<Option<(IpAddr, u16)>, Failure> {
    let parameter = format!("{protocol} {} {}", outside.0, outside.1);
    let text = crate::answers::ask(client, &format!("{element}.owner"), &parameter)?;
    let Some((address, port)) = text.trim().split_once(' ') else { return Ok(None) };
    match (address.parse(), port.parse()) {
        (Ok(address), Ok(port)) => Ok(Some((address, port))),
        _ => Err(not_understood(&text)),
    }
}

/// Something that happened to an inside host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number.
    pub number: u64,
    /// When, in nanoseconds since 1970.
    pub at_ns: u64,
    /// What.
    pub what: What,
    /// The name of the protocol; none for a block, which is for all.
    pub protocol: Option<String>,
    /// The inside host, one in a VRF as `10.0.1.2@red`, or a network of IPv6 hosts.
    pub inside: String,
    /// Its own port.
    pub inside_port: Option<u16>,
    /// The outside address.
    pub outside: Option<Ipv4Addr>,
    /// The first and the last port.
    pub ports: Option<(u16, u16)>,
    /// The other end of a session.
    pub peer: Option<(Ipv4Addr, u16)>,
    /// Where there was no room: how many sessions or ports there may be; of `no-port` the line of the statement.
    pub number_max: Option<u32>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It got ports.
    Given,
    /// It gave ports back.
    Returned,
    /// A session began.
    Begun,
    /// A session ended.
    Ended,
    /// It has as many sessions or ports as it may have.
    HostLimit,
    /// No outside port was free.
    NoPort,
    /// The table of sessions was full.
    TableFull,
}

impl What {
    /// All, with their names.
    const ALL: [(&'static str, What); 7] = [
        ("given", What::Given),
        ("returned", What::Returned),
        ("begun", What::Begun),
        ("ended", What::Ended),
        ("host-limit", What::HostLimit),
        ("no-port", What::NoPort),
        ("table-full", What::TableFull),
    ];

    fn name(self) -> &'static str {
        What::ALL.into_iter().find(|(_, what)| *what == self).map_or("", |(name, _)| name)
    }
}

impl Event {
    /// The VRF of the inside host, if it is in one.
    pub fn vrf(&self) -> Option<&str> {
        self.inside.split_once('@').map(|(_, vrf)| vrf)
    }

    /// The address of the inside host; of a network the first one.
    pub fn inside_address(&self) -> Option<IpAddr> {
        self.inside.split(['/', '@']).next()?.parse().ok()
    }
}

fn event(line: &str) -> Option<Event> {
    let words: Vec<&str> = line.split(' ').collect();
    let [
        number,
        time,
        what,
        protocol,
        inside,
        inside_port,
        outside,
        first,
        last,
        peer,
        peer_port,
        ref more @ ..,
    ] = words[..]
    else {
        return None;
    };
    if more.len() > 1 {
        return None;
    }
    let (seconds, rest) = time.split_once('.')?;
    let rest = format!("{rest:0<9}").parse::<u64>().ok().filter(|rest| *rest < 1_000_000_000)?;
    let event = Event {
        number: number.parse().ok()?,
        at_ns: seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(rest)?,
        what: What::ALL.into_iter().find(|(name, _)| *name == what)?.1,
        protocol: (protocol != "-").then(|| protocol.to_owned()),
        inside: inside.to_owned(),
        inside_port: inside_port.parse().ok(),
        outside: outside.parse().ok(),
        ports: first.parse().ok().zip(last.parse().ok()),
        peer: peer.parse().ok().zip(peer_port.parse().ok()),
        number_max: more.first().and_then(|word| word.parse().ok()),
    };
    event.inside_address().map(|_| event)
}

/// Events from a number on.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn events(client: &mut Client, element: &str, from: u64) -> Result<Events<Event>, Failure> {
    crate::answers::events(client, element, from, event)
}

/// An event in a line.
pub fn event_text(event: &Event) -> String {
    let protocol = event.protocol.as_deref().unwrap_or("ports");
    let inside = match (event.inside_address(), event.inside_port) {
        (Some(address), Some(port)) => SocketAddr::new(address, port).to_string(),
        (Some(address), None) if event.vrf().is_some() => address.to_string(),
        _ => event.inside.clone(),
    };
    let inside = event.vrf().map_or(inside.clone(), |vrf| format!("{inside} in VRF {vrf}"));
    let outside = event.outside.map_or_else(String::new, |outside| outside.to_string());
    let ports = match event.ports {
        Some((first, last)) if first == last => first.to_string(),
        Some((first, last)) => format!("{first}-{last}"),
        None => String::new(),
    };
    let peer = event.peer.map_or_else(String::new, |(address, port)| format!("{address}:{port}"));
    let (time, name) = (seconds(event), event.what.name());
    match (event.what, &event.protocol) {
        (What::Given, Some(_)) => {
            format!("{time:.3} {name} {protocol} port {ports} of {outside} to {inside}")
        }
        (What::Given, None) => format!("{time:.3} {name} ports {ports} of {outside} to {inside}"),
        (What::Returned, Some(_)) => {
            format!("{time:.3} {name} {protocol} port {ports} of {outside} by {inside}")
        }
        (What::Returned, None) => format!("{time:.3} {name} ports {ports} of {outside} by {inside}"),
        (What::Begun | What::Ended, _) => {
            format!("{time:.3} {name} {protocol} session of {inside}, outside {outside}:{ports}, with {peer}")
        }
        _ => format!("{time:.3} {name} for a {protocol} session of {inside}"),
    }
}

/// An event for programs.
pub fn event_json(event: &Event) -> Value {
    json!({
        "number": event.number, "time": seconds(event), "event": event.what.name(),
        "protocol": event.protocol, "inside": event.inside, "inside_port": event.inside_port,
        "outside": event.outside, "first_port": event.ports.map(|(first, _)| first),
        "last_port": event.ports.map(|(_, last)| last), "peer": event.peer.map(|(peer, _)| peer),
        "peer_port": event.peer.map(|(_, port)| port),
        "most": event.number_max.filter(|_| event.what != What::NoPort),
        "line": event.number_max.filter(|_| event.what == What::NoPort),
    })
}

/// When it happened, in seconds since 1970.
fn seconds(event: &Event) -> f64 {
    event.at_ns as f64 / 1e9
}

/// Statements as a table.
pub fn statements_text(statements: &[Statement]) -> String {
    let mut text = format!("{:>5} {:>7} {:>10} {:>10}  statement\n", "line", "hosts", "sessions", "ports");
    for Statement { line, hosts, sessions, ports, text: words } in statements {
        let _ = match words.starts_with("translate") {
            true => writeln!(text, "{line:>5} {hosts:>7} {sessions:>10} {ports:>10}  {words}"),
            false => writeln!(text, "{line:>5} {0:>7} {0:>10} {0:>10}  {words}", "-"),
        };
    }
    text
}

/// Addresses of interfaces, a line each.
pub fn interfaces_text(interfaces: &[Interface]) -> String {
    let mut text = String::new();
    for Interface { name, address, state } in interfaces {
        let _ = match address {
            None => writeln!(text, "interface {name} has no address"),
            Some(address) if state == "used" => writeln!(text, "interface {name} has {address}"),
            Some(address) => writeln!(text, "interface {name} has {address}, {state}"),
        };
    }
    text
}

/// The same for programs.
pub fn interfaces_json(interfaces: &[Interface]) -> Vec<Value> {
    let one = |one: &Interface| json!({ "name": one.name, "address": one.address, "state": one.state });
    interfaces.iter().map(one).collect()
}

/// Statements for programs.
pub fn statements_json(statements: &[Statement]) -> Vec<Value> {
    let one = |s: &Statement| {
        let counts = s.text.starts_with("translate");
        let count = |number: u64| counts.then_some(number);
        json!({
            "line": s.line, "hosts": count(s.hosts), "sessions": count(s.sessions), "ports": count(s.ports), "text": s.text,
        })
    };
    statements.iter().map(one).collect()
}

/// Hosts as a table.
pub fn hosts_text(hosts: &[Host]) -> String {
    let width = hosts.iter().map(|host| host.inside.len()).max().unwrap_or(0).max(15);
    let mut text = format!(
        "{:width$} {:15} {:>9} {:>6} {:>6} {:>6} {:>5}  blocks\n",
        "inside", "outside", "sessions", "tcp", "udp", "icmp", "line"
    );
    for host in hosts {
        let line = host.line.map_or_else(|| "-".to_owned(), |line| line.to_string());
        let blocks: Vec<String> = host.blocks.iter().map(|(first, used)| format!("{first}:{used}")).collect();
        let [tcp, udp, icmp] = host.ports;
        let row = format!(
            "{:width$} {:15} {:>9} {tcp:>6} {udp:>6} {icmp:>6} {line:>5}  {}",
            host.inside,
            host.outside,
            host.sessions,
            blocks.join(" ")
        );
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}

/// Hosts for programs.
pub fn hosts_json(hosts: &[Host]) -> Vec<Value> {
    let one = |host: &Host| {
        let block = |(first, used): &(u16, u64)| json!({ "first": first, "used": used });
        json!({
            "inside": host.inside, "outside": host.outside, "line": host.line, "sessions": host.sessions,
            "tcp_ports": host.ports[0], "udp_ports": host.ports[1], "icmp_identifiers": host.ports[2],
            "blocks": host.blocks.iter().map(block).collect::<Vec<_>>(),
        })
    };
    hosts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let found = statement("3 2 10 12 translate 10.0.1.0/24 to 192.0.2.1").unwrap();
        assert_eq!((found.line, found.hosts, found.ports), (3, 2, 12));
        let shown = statements_text(&[found, statement("4 0 0 0 static 10.0.0.1 to 192.0.2.9").unwrap()]);
        assert!(
            shown.ends_with("    4       -          -          -  static 10.0.0.1 to 192.0.2.9\n"),
            "{shown}"
        );
        let found = host("10.0.1.5 192.0.2.1 3 7 1 2 0 1024:2 2048:1").unwrap();
        assert_eq!(
            (found.line, found.ports, &found.blocks[..]),
            (Some(3), [1, 2, 0], &[(1024, 2), (2048, 1)][..])
        );
        assert!(hosts_text(std::slice::from_ref(&found)).ends_with("3  1024:2 2048:1\n"));
        assert_eq!(hosts_json(&[found])[0]["blocks"][1]["first"], 2048);
        assert_eq!(host("192.0.2.1 192.0.2.1 - 1 0 1 0").unwrap().line, None);
        for (line, shown) in [
            ("given - 10.0.1.5 - 192.0.2.1 1024 1535 - -", "given ports 1024-1535 of 192.0.2.1 to 10.0.1.5"),
            (
                "given - 2001:db8:1::/64 - 192.0.2.1 1 2 - -",
                "given ports 1-2 of 192.0.2.1 to 2001:db8:1::/64",
            ),
            (
                "returned udp 10.0.1.5 7 192.0.2.1 1030 1030 - -",
                "returned udp port 1030 of 192.0.2.1 by 10.0.1.5:7",
            ),
            (
                "begun tcp 2001:db8:1::5 7 192.0.2.1 1030 1030 203.0.113.1 80",
                "begun tcp session of [2001:db8:1::5]:7, outside 192.0.2.1:1030, with 203.0.113.1:80",
            ),
            ("no-port udp 10.0.1.5 7 - - - - - 3", "no-port for a udp session of 10.0.1.5:7"),
        ] {
            let found = event(&format!("7 1700000000.5 {line}")).unwrap();
            assert_eq!(event_text(&found), format!("1700000000.500 {shown}"));
        }
        let found = event("8 1700000000.5 returned udp 10.0.1.5 7 192.0.2.1 1030 1030 - -").unwrap();
        assert_eq!((found.at_ns, found.protocol.as_deref()), (1_700_000_000_500_000_000, Some("udp")));
        assert_eq!(
            event_json(&found),
            json!({
                "number": 8, "time": 1_700_000_000.5, "event": "returned", "protocol": "udp", "inside": "10.0.1.5",
                "inside_port": 7, "outside": "192.0.2.1", "first_port": 1030, "last_port": 1030, "peer": null,
                "peer_port": null, "most": null, "line": null,
            })
        );
        for (line, most, statement) in [
            ("no-port udp 10.0.1.5 7 192.0.2.1 - - - - 3", None, Some(3)),
            ("host-limit udp 10.0.1.5 7 - - - - - 100", Some(100), None),
        ] {
            let shown = event_json(&event(&format!("8 1700000000.5 {line}")).unwrap());
            assert_eq!((&shown["most"], &shown["line"]), (&json!(most), &json!(statement)), "{line}");
        }
        for wrong in [
            "1 2",
            "1 5.1234567890 given - 10.0.1.5 - 192.0.2.1 1 2 - -",
            "1 5.0 lost - 10.0.1.5 - 192.0.2.1 1 2 - -",
            "1 5.0 given - x - 192.0.2.1 1 2 - -",
            "1 5.0 no-port udp 10.0.1.5 7 - - - - - 3 4",
        ] {
            assert_eq!(event(wrong), None, "{wrong}");
        }
        let lines = ["ppp0 192.0.2.7 used", "ppp0 10.0.1.1 unused: a statement has it inside", "ppp1 - none"];
        let found: Vec<Interface> = lines.iter().filter_map(|line| interface(line)).collect();
        assert_eq!(
            interfaces_text(&found),
            "interface ppp0 has 192.0.2.7\ninterface ppp0 has 10.0.1.1, unused: a statement has it inside\n\
             interface ppp1 has no address\n"
        );
        assert_eq!(interfaces_json(&found)[2], json!({ "name": "ppp1", "address": null, "state": "none" }));
        assert!(interface("ppp0 192.0.2.7").is_none() && interface("ppp0 x used").is_none());
        assert!(host("10.0.1.5").is_none() && statement("x").is_none());
    }
}
