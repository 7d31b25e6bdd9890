// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections through a firewall, and sessions of an address translator or a load balancer.

use std::fmt::Write as _;
use std::net::IpAddr;

use client::{Client, Failure};
use serde_json::{Value, json};

use crate::answers::{ago, ask, not_understood};

/// The main table, where a VRF is named.
const MAIN: &str = "main";

/// Whose sessions they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Firewall,
    Nat,
    Balance,
}

/// Classes whose elements have sessions.
const CLASSES: [(&str, Kind); 3] =
    [("Firewall", Kind::Firewall), ("NAT44", Kind::Nat), ("Balance", Kind::Balance)];

/// The element that has the sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its name.
    pub element: String,
    kind: Kind,
}

impl Holder {
    /// The router's element Firewall, NAT44 or Balance; the one with this name, if one is named.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn find(client: &mut Client, name: Option<&str>) -> Result<Holder, Failure> {
        let (element, class) = crate::answers::find(client, name, &CLASSES.map(|(class, _)| class))?;
        let kind = CLASSES.iter().find(|(of, _)| *of == class).map_or(Kind::Nat, |(_, kind)| *kind);
        Ok(Holder { element, kind })
    }

    /// An element Balance.
    pub fn balance(element: &str) -> Holder {
        Holder { element: element.to_owned(), kind: Kind::Balance }
    }
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its protocol's name or number.
    pub protocol: String,
    /// Source and port of its first packet; of ICMP queries the identifier.
    pub source: (IpAddr, u16),
    /// Destination and port of its first packet; of ICMP queries the type.
    pub destination: (IpAddr, u16),
    /// `asked`, `answered`, `open`, `half-closed`, `closed`, `reset`, `single`.
    pub state: String,
    /// What its source is outside, of one whose addresses are translated.
    pub outside: Option<(IpAddr, u16)>,
    /// The server that it has, of one of a load balancer.
    pub server: Option<(IpAddr, u16)>,
    /// The zones that its first packet went between, of one through a firewall.
    pub zones: Option<[String; 2]>,
    /// The line of the rule that accepted it.
    pub rule: Option<u32>,
    /// Packets there and back.
    pub packets: [u64; 2],
    /// Bytes there and back.
    pub bytes: [u64; 2],
    /// Seconds since it began.
    pub age_s: u64,
    /// Seconds until it ends, if nothing comes.
    pub expires_s: u64,
    /// The protocol that announced it on another connection, such as `ftp`.
    pub announced_by: Option<String>,
    /// The VRFs of its first packet and of its answers, none for the main table, where the router has VRFs.
    pub vrfs: Option<[Option<String>; 2]>,
}

impl Session {
    /// All its ends.
    pub fn ends(&self) -> impl Iterator<Item = (IpAddr, u16)> {
        [self.source, self.destination].into_iter().chain(self.outside).chain(self.server)
    }
}

fn session(kind: Kind, line: &str) -> Option<Session> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let end = |at: usize| Some((words.get(at)?.parse().ok()?, words.get(at + 1)?.parse().ok()?));
    let is_firewall = kind == Kind::Firewall;
    // Where the state stands, and the first of six numbers.
    let (state, counts) = if is_firewall { (5, 9) } else { (7, 8) };
    let zones = || Some([(*words.get(6)?).to_owned(), (*words.get(7)?).to_owned()]);
    let vrf = |at: usize| words.get(at).map(|name| (*name != "-").then(|| (*name).to_owned()));
    let vrfs = || Some([vrf(counts + 7)?, vrf(counts + 8)?]);
    let third = if is_firewall { None } else { Some(end(5)?) };
    let second = end(3)?;
    let (destination, outside, server) = match (kind, third) {
        (Kind::Nat, Some(peer)) => (peer, Some(second), None),
        (_, server) => (second, None, server),
    };
    Some(Session {
        protocol: (*words.first()?).to_owned(),
        source: end(1)?,
        destination,
        state: (*words.get(state)?).to_owned(),
        outside,
        server,
        zones: if is_firewall { Some(zones()?) } else { None },
        rule: if is_firewall { words.get(8)?.parse().ok() } else { None },
        packets: [number(counts)?, number(counts + 2)?],
        bytes: [number(counts + 1)?, number(counts + 3)?],
        age_s: number(counts + 4)?,
        expires_s: number(counts + 5)?,
        vrfs: vrfs(),
        announced_by: words.get(counts + 6).filter(|word| **word != "-").map(|word| (*word).to_owned()),
    })
}

impl Session {
    /// Whether it is of a VRF: of its first packet or of its answers.
    pub fn is_of_vrf(&self, name: &str) -> bool {
        let names = self.vrfs.as_ref().map_or(&[None][..], |vrfs| &vrfs[..]);
        names.iter().any(|vrf| vrf.as_deref().unwrap_or(MAIN) == name)
    }

    /// What the handler `end` takes to end it.
    pub fn end_words(&self) -> String {
        let ((source, port), (destination, to)) = (self.source, self.destination);
        let vrf = self.vrfs.as_ref().map(|[vrf, _]| format!(" {}", vrf.as_deref().unwrap_or("-")));
        format!("{} {source} {port} {destination} {to}{}", self.protocol, vrf.unwrap_or_default())
    }

    /// Its VRFs, for people.
    fn vrfs_text(&self) -> String {
        let name = |vrf: &Option<String>| vrf.clone().unwrap_or_else(|| MAIN.to_owned());
        match &self.vrfs {
            None | Some([None, None]) => String::new(),
            Some([there, back]) if there == back => format!("  vrf {}", name(there)),
            Some([there, back]) => format!("  vrf {}, answers {}", name(there), name(back)),
        }
    }
}

/// A part of the connections, from a place on; the first is at `0`. Returns the place of the next part, if there is one.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn page(
    client: &mut Client,
    holder: &Holder,
    place: &str,
) -> Result<(Vec<Session>, Option<String>), Failure> {
    let handler = if holder.kind == Kind::Firewall { "connections" } else { "sessions" };
    let text = ask(client, &format!("{}.{handler}", holder.element), place)?;
    let mut lines = text.lines();
    let next = lines.next().filter(|next| *next != "-").map(str::to_owned);
    let found = lines.map(|line| session(holder.kind, line).ok_or_else(|| not_understood(line)));
    Ok((found.collect::<Result<_, _>>()?, next))
}

/// Passes all connections to `take`, until that has enough.
///
/// # Errors
/// The router, or an answer that is not understood.
pub fn sessions(
    client: &mut Client,
    holder: &Holder,
    mut take: impl FnMut(Session) -> bool,
) -> Result<(), Failure> {
    let mut place = "0".to_owned();
    loop {
        let (found, next) = page(client, holder, &place)?;
        if !found.into_iter().all(&mut take) {
            return Ok(());
        }
        match next {
            Some(next) => place = next,
            None => return Ok(()),
        }
    }
}

fn end(protocol: &str, (address, port): (IpAddr, u16)) -> String {
    match (address, protocol) {
        (address, "icmp" | "icmp6") => address.to_string(),
        (IpAddr::V6(address), _) => format!("[{address}]:{port}"),
        (IpAddr::V4(address), _) => format!("{address}:{port}"),
    }
}

/// Connections as a table.
pub fn sessions_text(sessions: &[Session]) -> String {
    let has_outside = sessions.iter().any(|session| session.outside.is_some());
    let has_server = sessions.iter().any(|session| session.server.is_some());
    let ends = |s: &Session| {
        let other = |one: Option<(IpAddr, u16)>| one.map_or_else(String::new, |one| end(&s.protocol, one));
        [end(&s.protocol, s.source), other(s.outside), end(&s.protocol, s.destination), other(s.server)]
    };
    let ends: Vec<[String; 4]> = sessions.iter().map(ends).collect();
    let width = |n: usize| ends.iter().map(|ends| ends[n].len()).max().unwrap_or(0).max(11);
    let widths = [0, 1, 2, 3].map(width);
    let row = |ends: [&str; 4]| -> String {
        let is_shown = [true, has_outside, true, has_server];
        let columns = ends.into_iter().zip(widths).zip(is_shown).filter(|(_, is_shown)| *is_shown);
        columns.map(|((text, width), _)| format!("{text:width$} ")).collect()
    };
    let head = if has_outside || has_server { "" } else { "   rule  zones" };
    let mut text = format!(
        "{:6} {}{:11} {:>20} {:>20} {:>8} {:>8}{head}\n",
        "proto",
        row(["source", "outside", "destination", "server"]),
        "state",
        "packets/bytes there",
        "packets/bytes back",
        "age",
        "ends in",
    );
    for (s, ends) in sessions.iter().zip(&ends) {
        let counts = |n: usize| format!("{}/{}", s.packets[n], s.bytes[n]);
        let rule = s.rule.map_or_else(|| "-".to_owned(), |rule| rule.to_string());
        let zones =
            s.zones.as_ref().map(|[from, to]| format!("  {rule:>5}  {from} {to}")).unwrap_or_default();
        let related = s.announced_by.as_ref().map_or_else(String::new, |by| format!("  related: {by}"));
        let vrfs = s.vrfs_text();
        let _ = writeln!(
            text,
            "{:6} {}{:11} {:>20} {:>20} {:>8} {:>8}{zones}{related}{vrfs}",
            s.protocol,
            row(ends.each_ref().map(String::as_str)),
            s.state,
            counts(0),
            counts(1),
            ago(s.age_s),
            ago(s.expires_s),
        );
    }
    text
}

/// Connections for programs.
pub fn sessions_json(sessions: &[Session]) -> Vec<Value> {
    let one = |s: &Session| {
        let mut object = json!({
            "protocol": s.protocol, "source": s.source.0, "source_port": s.source.1,
            "destination": s.destination.0, "destination_port": s.destination.1, "state": s.state,
            "packets_there": s.packets[0], "bytes_there": s.bytes[0],
            "packets_back": s.packets[1], "bytes_back": s.bytes[1],
            "age_s": s.age_s, "expires_s": s.expires_s,
        });
        if let Some((address, port)) = s.outside {
            object["outside"] = json!(address);
            object["outside_port"] = json!(port);
        }
        if let Some((address, port)) = s.server {
            object["server"] = json!(address);
            object["server_port"] = json!(port);
        }
        if let Some([from, to]) = &s.zones {
            object["from"] = json!(from);
            object["to"] = json!(to);
            object["rule_line"] = json!(s.rule);
            object["announced_by"] = json!(s.announced_by);
        }
        if let Some([there, back]) = &s.vrfs {
            object["vrf"] = json!(there);
            object["vrf_back"] = json!(back);
        }
        object
    };
    sessions.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let line = "tcp 10.0.0.2 1000 192.0.2.1 80 open inside outside 12 5 300 4 2000 61 7440 ftp";
        let found = session(Kind::Firewall, line).unwrap();
        assert_eq!((found.source.1, found.rule, found.bytes, found.age_s), (1000, Some(12), [300, 2000], 61));
        let shown = sessions_text(&[found]);
        assert!(
            shown.contains("10.0.0.2:1000") && shown.contains("5/300") && shown.contains("2 h"),
            "{shown}"
        );
        assert!(shown.ends_with("     12  inside outside  related: ftp\n"), "{shown}");
        for (vrfs, text, json) in [
            ("red red", "  vrf red\n", json!(["red", "red"])),
            ("red -", "  vrf red, answers main\n", json!(["red", null])),
            ("- -", "  inside outside  related: ftp\n", json!([null, null])),
        ] {
            let found = session(Kind::Firewall, &format!("{line} {vrfs}")).unwrap();
            assert!(sessions_text(std::slice::from_ref(&found)).ends_with(text), "{vrfs}");
            let name = vrfs.split(' ').next().unwrap();
            assert_eq!(found.end_words(), format!("tcp 10.0.0.2 1000 192.0.2.1 80 {name}"));
            assert_eq!(found.is_of_vrf("main"), vrfs.contains('-'));
            assert_eq!(found.is_of_vrf("red"), vrfs.contains("red"));
            let object = &sessions_json(&[found])[0];
            assert_eq!(json!([object["vrf"], object["vrf_back"]]), json);
        }
        let line = "udp 10.0.0.2 1000 192.0.2.1 4000 203.0.113.9 53 open 5 300 4 2000 61 300";
        let found = session(Kind::Nat, line).unwrap();
        assert_eq!((found.destination.1, found.outside.unwrap().1, found.bytes), (53, 4000, [300, 2000]));
        assert_eq!(sessions_json(std::slice::from_ref(&found))[0]["outside_port"], 4000);
        let shown = sessions_text(&[found]);
        assert!(shown.contains("10.0.0.2:1000 192.0.2.1:4000 203.0.113.9:53 open"), "{shown}");
        let line = "tcp 203.0.113.1 9 192.0.2.80 80 10.0.1.11 8080 open 5 300 4 2000 61 7440";
        let found = session(Kind::Balance, line).unwrap();
        assert_eq!((found.destination.1, found.server.unwrap().1, found.outside), (80, 8080, None));
        assert_eq!((found.packets, found.bytes, found.expires_s), ([5, 4], [300, 2000], 7440));
        assert_eq!(sessions_json(std::slice::from_ref(&found))[0]["server_port"], 8080);
        assert_eq!(found.ends().count(), 3);
        let shown = sessions_text(&[found]);
        assert!(shown.contains("203.0.113.1:9 192.0.2.80:80 10.0.1.11:8080 open"), "{shown}");
        assert!(session(Kind::Balance, "tcp x").is_none());
    }
}
