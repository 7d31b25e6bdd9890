// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements, one by one.

use std::net::IpAddr;

use lang::Span;
use rulefile::{AddressRange, Line, Word, names};

use super::{Reader, SESSIONS_MAX, Words};
use crate::policy::{Check, Kind, Mode, SECOND, Server, Service, TCP, UDP};

/// How long a client keeps its server without sessions, if the file does not say.
const PERSIST_NS: u64 = 300 * SECOND;
/// Services at most, servers of a service, and servers of all.
const SERVICES_MAX: usize = 1 << 10;
const SERVERS_MAX: usize = 1 << 12;
const ALL_SERVERS_MAX: usize = 1 << 14;
/// The largest weight.
const WEIGHT_MAX: u64 = 1000;

impl Reader {
    pub(super) fn service(&mut self, line: &Line) -> Option<()> {
        const USAGE: &str = "service NAME tcp|udp|any ADDRESS [port PORT[-PORT],...] [direct|nat] [large]";
        let mut words = Words::of(line, USAGE);
        if self.policy.services.len() >= SERVICES_MAX {
            return self.wrong(
                line.span,
                format!("more than {SERVICES_MAX} services"),
                "use a second router",
            );
        }
        let name = self.word(&mut words, "the name of the service")?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.text.is_empty() || !name.text.chars().all(is_plain) {
            let message = format!("'{}' is not a name of a service", name.text);
            return self.wrong(name.span, message, "write letters, digits, '-', '_' and '.' only");
        }
        if self.policy.services.iter().any(|other| other.name == name.text) {
            let message = format!("there are two services '{}'", name.text);
            return self.wrong(name.span, message, "give one of them another name");
        }
        let protocol = self.word(&mut words, "the protocol")?;
        let protocol = match protocol.text.as_str() {
            "tcp" => Some(TCP),
            "udp" => Some(UDP),
            "any" => None,
            _ => return self.unknown(protocol, "protocol of a service", &["tcp", "udp", "any"]),
        };
        let address = self.word(&mut words, "the virtual address")?;
        let mut new = Service {
            name: name.text.clone(),
            protocol,
            address: self.address(address)?,
            ports: Vec::new(),
            mode: Mode::Nat,
            persist_ns: None,
            is_large: false,
            check: None,
            servers: Vec::new(),
            line: line.number,
            // Tools take it apart at spaces, and no word has one.
            text: line.text().replace('"', ""),
        };
        let mut said: Vec<&str> = Vec::new();
        while let Some(word) = words.next() {
            let kind = if word.text == "nat" { "direct" } else { word.text.as_str() };
            self.option(&mut said, kind, word)?;
            match word.text.as_str() {
                "port" => {
                    let list = self.word(&mut words, "the port")?;
                    if protocol.is_none() {
                        let help = "leave the ports out, or write tcp or udp";
                        return self.wrong(list.span, "a service for any protocol has no ports", help);
                    }
                    new.ports = list.parts().map(|part| self.ports(&part)).collect::<Option<_>>()?;
                }
                "direct" => new.mode = Mode::Direct,
                "nat" => {}
                "large" => new.is_large = true,
                _ => return self.unknown(word, "option", &["port", "direct", "nat", "large"]),
            }
        }
        self.policy.services.push(new);
        self.spans.push(line.span);
        Some(())
    }

    /// Notes an option of a statement, which may be given once.
    fn option<'a>(&mut self, said: &mut Vec<&'a str>, option: &'a str, word: &Word) -> Option<()> {
        if said.contains(&option) {
            let message = format!("'{}' does not go with what stands before", word.text);
            return self.wrong(word.span, message, "leave one out");
        }
        said.push(option);
        Some(())
    }

    /// A port, or the first and the last one.
    fn ports(&mut self, word: &Word) -> Option<(u16, u16)> {
        let both = match word.text.split_once('-') {
            Some((low, high)) if low.parse::<u16>().is_ok() => names::port(low).zip(names::port(high)),
            _ => names::port(&word.text).map(|port| (port, port)),
        };
        both.filter(|(low, high)| *low > 0 && low <= high).or_else(|| {
            let help = "write a number from 1 to 65535, LOW-HIGH, or a name such as https";
            self.wrong(word.span, format!("'{}' is not a port", word.text), help)
        })
    }

    fn port(&mut self, word: &Word) -> Option<u16> {
        match self.ports(word)? {
            (low, high) if low == high => Some(low),
            _ => self.wrong(word.span, format!("'{}' is several ports", word.text), "write one port"),
        }
    }

    pub(super) fn server(&mut self, line: &Line) -> Option<()> {
        const USAGE: &str = "server SERVICE ADDRESS[-ADDRESS] [port PORT] [weight N] [drain]";
        let mut words = Words::of(line, USAGE);
        let at = self.named(&mut words)?;
        let word = self.word(&mut words, "the server's address")?;
        let addresses = self.server_addresses(word)?;
        let mut new = Server { address: addresses[0], port: None, weight: 1, drains: false };
        let mut said: Vec<&str> = Vec::new();
        while let Some(word) = words.next() {
            self.option(&mut said, &word.text, word)?;
            match word.text.as_str() {
                "port" => {
                    let port = self.word(&mut words, "the port")?;
                    if self.policy.services[at].mode == Mode::Direct {
                        let help = "leave the port out, or write `nat` in the service";
                        return self.wrong(port.span, "with direct return packets keep their port", help);
                    }
                    new.port = Some(self.port(port)?);
                }
                "weight" => {
                    let weight = self.word(&mut words, "the weight")?;
                    new.weight = self.number(weight, 0..=WEIGHT_MAX)? as u16;
                }
                "drain" => new.drains = true,
                _ => return self.unknown(word, "option", &["port", "weight", "drain"]),
            }
        }
        self.add_servers(at, word.span, &addresses, &new)
    }

    /// The addresses of a server, or of servers that follow each other.
    fn server_addresses(&mut self, word: &Word) -> Option<Vec<IpAddr>> {
        if !word.text.contains(['-', '/']) {
            return self.address(word).map(|address| vec![address]);
        }
        let range = match AddressRange::parse(&word.text) {
            Ok(range) => range,
            Err(why) => {
                return self.wrong(
                    word.span,
                    why,
                    "write an address or FIRST-LAST, for example 10.0.1.11-10.0.1.14",
                );
            }
        };
        let (count, nth): (u128, Box<dyn Fn(u32) -> IpAddr>) = match range {
            AddressRange::Four(first, last) => {
                (u128::from(last - first) + 1, Box::new(move |n| std::net::Ipv4Addr::from(first + n).into()))
            }
            AddressRange::Six(first, last) => (
                (last - first).saturating_add(1),
                Box::new(move |n| std::net::Ipv6Addr::from(first + u128::from(n)).into()),
            ),
        };
        if count > SERVERS_MAX as u128 {
            let help = "write the first and the last address of the servers";
            return self.wrong(word.span, format!("more than {SERVERS_MAX} servers"), help);
        }
        let all: Vec<IpAddr> = (0..count as u32).map(nth).collect();
        let is_host =
            |one: &IpAddr| !one.is_multicast() && !one.is_unspecified() && *one == one.to_canonical();
        if !all.iter().all(is_host) {
            let message = format!("'{}' holds an address that no host has", word.text);
            return self.wrong(word.span, message, "write the first and the last address of the servers");
        }
        Some(all)
    }

    fn add_servers(&mut self, at: usize, span: Span, addresses: &[IpAddr], new: &Server) -> Option<()> {
        let service = &self.policy.services[at];
        if service.address.is_ipv6() != addresses[0].is_ipv6() {
            let help = "give the service an address of the same family, or write a second service";
            let message = "the server and the virtual address are of different families";
            return self.wrong(span, message, help);
        }
        let count = addresses.len();
        if service.servers.len() + count > SERVERS_MAX || self.policy.servers() + count > ALL_SERVERS_MAX {
            let message =
                format!("more than {SERVERS_MAX} servers of a service, or {ALL_SERVERS_MAX} of all");
            return self.wrong(span, message, "use fewer servers");
        }
        let known: std::collections::HashSet<(IpAddr, Option<u16>)> =
            service.servers.iter().map(|one| (one.address, one.port)).collect();
        if let Some(twice) = addresses.iter().find(|one| known.contains(&(**one, new.port))) {
            return self.wrong(span, format!("server {twice} is listed twice"), "leave one out");
        }
        let all = addresses.iter().map(|address| Server { address: *address, ..new.clone() });
        self.named_service(at).servers.extend(all);
        Some(())
    }

    pub(super) fn check(&mut self, line: &Line) -> Option<()> {
        const USAGE: &str =
            "check SERVICE tcp|icmp|none [port PORT] [every TIME] [timeout TIME] [rise N] [fall N]";
        let mut words = Words::of(line, USAGE);
        let at = self.named(&mut words)?;
        self.faults.once(&format!("check {}", self.policy.services[at].name), line.span)?;
        let kind = self.word(&mut words, "the kind of check")?;
        let kind = match kind.text.as_str() {
            "tcp" => Kind::Tcp(None),
            "icmp" => Kind::Icmp,
            "none" => return self.end(&mut words),
            _ => return self.unknown(kind, "kind of check", &["tcp", "icmp", "none"]),
        };
        let mut new = Check { kind, every_ns: 2 * SECOND, timeout_ns: SECOND, rise: 2, fall: 3 };
        let mut said: Vec<&str> = Vec::new();
        while let Some(word) = words.next() {
            self.option(&mut said, &word.text, word)?;
            let is_known = ["port", "every", "timeout", "rise", "fall"].contains(&word.text.as_str());
            if !is_known {
                return self.unknown(word, "option", &["port", "every", "timeout", "rise", "fall"]);
            }
            let value = self.word(&mut words, "a value")?;
            match word.text.as_str() {
                "port" if new.kind == Kind::Icmp => {
                    return self.wrong(value.span, "an ICMP check has no port", "leave it out, or write tcp");
                }
                "port" => new.kind = Kind::Tcp(Some(self.port(value)?)),
                "every" => new.every_ns = self.time(value)?,
                "timeout" => new.timeout_ns = self.time(value)?,
                "rise" => new.rise = self.number(value, 1..=100)? as u8,
                _ => new.fall = self.number(value, 1..=100)? as u8,
            }
        }
        if new.timeout_ns > new.every_ns {
            let help = "write a timeout that is no longer than `every`";
            return self.wrong(line.span, "a probe would leave before the last one has timed out", help);
        }
        if new.every_ns < SECOND / 10 {
            let help = "write 100ms or more: probes of many servers are a load";
            return self.wrong(line.span, "the checks are too frequent", help);
        }
        self.named_service(at).check = Some(new);
        Some(())
    }

    pub(super) fn persist(&mut self, line: &Line) -> Option<()> {
        let mut words = Words::of(line, "persist SERVICE source [for TIME]");
        let at = self.named(&mut words)?;
        self.faults.once(&format!("persist {}", self.policy.services[at].name), line.span)?;
        let by = self.word(&mut words, "'source'")?;
        if by.text != "source" {
            return self.unknown(by, "kind of persistence", &["source"]);
        }
        let mut persist_ns = PERSIST_NS;
        if let Some(word) = words.next() {
            if word.text != "for" {
                return self.unknown(word, "option", &["for"]);
            }
            let value = self.word(&mut words, "the time")?;
            persist_ns = self.time(value)?;
        }
        self.named_service(at).persist_ns = Some(persist_ns);
        self.end(&mut words)
    }

    pub(super) fn own(&mut self, line: &Line) -> Option<()> {
        let mut words = Words::of(line, "own ADDRESS");
        let word = self.word(&mut words, "the router's address")?;
        let address = self.address(word)?;
        let family = usize::from(address.is_ipv6());
        self.faults.once(["own, of IPv4", "own, of IPv6"][family], line.span)?;
        self.policy.own[family] = Some(address);
        self.end(&mut words)
    }

    pub(super) fn timeout(&mut self, line: &Line) -> Option<()> {
        let mut words = Words::of(line, "timeout tcp|tcp-transitory|udp|other TIME");
        let name = self.word(&mut words, "the name of the timeout")?;
        self.faults.once(&format!("timeout {}", name.text), line.span)?;
        let value = self.word(&mut words, "the time")?;
        let time = self.time(value)?;
        let all = &mut self.policy.timeouts;
        match name.text.as_str() {
            "tcp" => all.tcp = time,
            "tcp-transitory" => all.tcp_transitory = time,
            "udp" => all.udp = time,
            "other" => all.other = time,
            _ => return self.unknown(name, "timeout", &["tcp", "tcp-transitory", "udp", "other"]),
        }
        self.end(&mut words)
    }

    pub(super) fn sessions(&mut self, line: &Line) -> Option<()> {
        let mut words = Words::of(line, "sessions N");
        self.faults.once("sessions", line.span)?;
        let word = self.word(&mut words, "the number of sessions")?;
        self.policy.sessions = self.number(word, 1..=SESSIONS_MAX)? as usize;
        self.end(&mut words)
    }

    pub(super) fn clients(&mut self, line: &Line) -> Option<()> {
        let mut words = Words::of(line, "clients N");
        self.faults.once("clients", line.span)?;
        let word = self.word(&mut words, "the number of client addresses")?;
        self.policy.clients = self.number(word, 1..=SESSIONS_MAX)? as usize;
        self.end(&mut words)
    }

    pub(super) fn seed(&mut self, line: &Line) -> Option<()> {
        let mut words = Words::of(line, "seed N");
        self.faults.once("seed", line.span)?;
        let word = self.word(&mut words, "the number")?;
        self.policy.seed = self.number(word, 0..=u64::MAX)?;
        self.end(&mut words)
    }
}
