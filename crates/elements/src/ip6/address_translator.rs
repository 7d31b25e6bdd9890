// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AddressTranslator
//!
//! `AddressTranslator(STATIC [, STATIC_PORTS, MAPPING, ...], DYNAMIC [, DYNAMIC_PORTS, INWARD, POOL, ...])`
//!
//! Translates the addresses of IPv6 hosts, and the ports of UDP and TCP, between an inner and an outer network.
//!
//! **Ports:** 2 push inputs, 2 push outputs. Input 0 takes packets that go outward: it replaces their source. Input 1 takes packets that
//! go inward: it replaces their destination. Packets leave by the output of their input's number.
//!
//! **Arguments**
//! * `STATIC` how many fixed mappings there are, 0 to 65536.
//! * `STATIC_PORTS` boolean, only if there are any: whether they map ports.
//! * `MAPPING` that many: `INNER OUTER`, or with ports `INNER PORT OUTER PORT`.
//! * `DYNAMIC` boolean: whether further mappings are made as they are needed. They stay for ever.
//! * `DYNAMIC_PORTS` boolean, only with DYNAMIC: whether they map ports.
//! * `INWARD` boolean, only with DYNAMIC: mappings are made by packets that go inward, and the pool holds inner addresses; else by
//!   packets that go outward, and the pool holds outer addresses.
//! * `POOL` addresses to give out, one for each host; with ports one `ADDRESS FIRST LAST`, whose ports are given to flows.
//!
//! Packets begin with their IPv6 header, and UDP, TCP or ICMPv6 follows it. Messages of ICMPv6 are mapped by address only.
//! Errors of ICMPv6 are mapped as the packet that they quote, and the quotation is what its sender had sent.
//!
//! **Drops:** `bad-version`, `too-short`, packets that are no IPv6; `bad-protocol`, packets of other protocols; `no-mapping`, packets that
//! no mapping is for; `mapping-table-full` when the pool is used up.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! ```click
//! Idle -> [0] t :: AddressTranslator(1, false, fd00::1 2001:db8::1, false) [0] -> Discard;
//! Idle -> [1] t [1] -> Discard;
//! ```
//!
//! See also: ProtocolTranslator46, IPRewriter

use std::collections::{HashMap, VecDeque};
use std::net::Ipv6Addr;

use element::args::{Args, FromArg, parse_bool};
use element::{Class, Cx, Element, HotSwap, Reason, Rehearsal, Rehearsed, parse_integer, swap};
use packet::{Batch, Packet};
use wire::checksum::{self, Sum};

/// The descriptor.
pub const CLASS: Class = Class::new("AddressTranslator", "2/2", || Box::new(AddressTranslator::default()))
    .processing("h/h")
    .flow("#/#")
    .serial("both directions use one table of mappings")
    .hot_swap::<AddressTranslator>()
    .rehearsal::<AddressTranslator>()
    .file(file!());

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
/// Where an ICMPv6 error quotes: behind both headers.
const QUOTE: usize = 48;
const STATIC_MOST: usize = 65_536;

type Address = [u8; 16];
type End = (Address, u16);
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Mappings of one direction.
#[derive(Default)]
struct Table {
    /// Fixed ones with ports.
    ends: Map<End, End>,
    /// Fixed ones, and those of hosts.
    hosts: Map<Address, Address>,
    /// Those of flows, by both ends.
    flows: Map<(End, End), End>,
}

/// What is given out.
#[derive(Default)]
enum Pool {
    #[default]
    None,
    Hosts(VecDeque<Address>),
    Ports(Address, VecDeque<u16>),
}

#[derive(Default)]
struct AddressTranslator {
    /// Outward and inward.
    tables: [Table; 2],
    static_ports: bool,
    pool: Pool,
    inward: bool,
    /// What it was configured with.
    text: Vec<String>,
}

/// Where a packet has what is to be replaced.
struct Place {
    protocol: u8,
    /// Of the end that is replaced, and of the other one.
    end: End,
    other: End,
}

impl Place {
    fn of(ip: &[u8], way: usize) -> Result<Place, Reason> {
        let head: &[u8; 40] = ip.first_chunk().ok_or(Reason::TooShort)?;
        if head[0] >> 4 != 6 {
            return Err(Reason::BadVersion);
        }
        let needed = match head[6] {
            TCP => 18,
            UDP => 8,
            ICMP6 => 4,
            _ => return Err(Reason::BadProtocol),
        };
        let transport = ip.get(40..).filter(|t| t.len() >= needed).ok_or(Reason::TooShort)?;
        let address = |at: usize| <Address>::try_from(&head[at..at + 16]).unwrap_or_default();
        let port = |at: usize| match head[6] {
            ICMP6 => 0,
            _ => u16::from_be_bytes([transport[at], transport[at + 1]]),
        };
        let ends = [(address(8), port(0)), (address(24), port(2))];
        Ok(Place { protocol: head[6], end: ends[way], other: ends[1 - way] })
    }

    /// Of the packet that an ICMPv6 error quotes; its source is what has been replaced on its way outward.
    fn quoted(ip: &[u8], way: usize) -> Option<Place> {
        let is_error = ip.get(6) == Some(&ICMP6) && *ip.get(40)? < 128;
        let quote = ip.get(QUOTE..).filter(|_| is_error)?;
        let head: &[u8; 40] = quote.first_chunk()?;
        let port = |at: usize| match head[6] {
            ICMP6 => Some(0),
            TCP | UDP => Some(u16::from_be_bytes([*quote.get(at)?, *quote.get(at + 1)?])),
            _ => None,
        };
        let address = |at: usize| <Address>::try_from(&head[at..at + 16]).unwrap_or_default();
        let ends = [(address(8), port(40)?), (address(24), port(42)?)];
        (head[0] >> 4 == 6).then(|| Place { protocol: head[6], end: ends[1 - way], other: ends[way] })
    }

    /// Where in a packet of this protocol its checksum is.
    fn checksum_at(&self) -> usize {
        40 + match self.protocol {
            TCP => 16,
            UDP => 6,
            _ => 2,
        }
    }

    /// Writes another end into the quotation of an error, and its address into the error itself. The sums of both are updated.
    fn replace_quoted(&self, ip: &mut [u8], way: usize, (address, port): End) {
        let quoted_way = 1 - way;
        let sum_at = QUOTE + self.checksum_at();
        // A quotation may end before the checksum.
        let has_sum = ip.len() >= sum_at + 2;
        let whole =
            |ip: &[u8]| Sum::new().bytes(&ip[8 + 16 * way..24 + 16 * way]).bytes(&ip[QUOTE..]).folded();
        let before = whole(ip);
        if has_sum {
            self.replace(&mut ip[QUOTE..], quoted_way, (address, port));
        } else {
            self.put(&mut ip[QUOTE..], quoted_way, (address, port));
        }
        ip[8 + 16 * way..24 + 16 * way].copy_from_slice(&address);
        let sum = u16::from_be_bytes([ip[42], ip[43]]);
        let sum = !checksum::add(checksum::add(!sum, !before), whole(ip));
        ip[42..44].copy_from_slice(&sum.to_be_bytes());
    }

    /// Writes another end into the packet.
    fn put(&self, ip: &mut [u8], way: usize, (address, port): End) {
        ip[8 + 16 * way..24 + 16 * way].copy_from_slice(&address);
        if self.protocol != ICMP6 {
            ip[40 + 2 * way..42 + 2 * way].copy_from_slice(&port.to_be_bytes());
        }
    }

    /// Writes another end into the packet, and updates the checksum (RFC 1624).
    fn replace(&self, ip: &mut [u8], way: usize, (address, port): End) {
        let ports = self.protocol != ICMP6;
        self.put(ip, way, (address, port));
        let sum_of = |(address, port): End| {
            let sum = Sum::new().bytes(&address);
            if ports { sum.bytes(&port.to_be_bytes()) } else { sum }.folded()
        };
        let at = self.checksum_at();
        let sum = u16::from_be_bytes([ip[at], ip[at + 1]]);
        let sum = !checksum::add(checksum::add(!sum, !sum_of(self.end)), sum_of((address, port)));
        let sum = if self.protocol == UDP { checksum::never_zero(sum) } else { sum };
        ip[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

impl AddressTranslator {
    /// What the end of a packet is replaced by, where there is a mapping.
    fn known(&self, place: &Place, way: usize) -> Option<End> {
        let table = &self.tables[way];
        let ports = place.protocol != ICMP6;
        if ports
            && self.static_ports
            && let Some(end) = table.ends.get(&place.end)
        {
            return Some(*end);
        }
        if (!ports || !self.static_ports)
            && let Some(host) = table.hosts.get(&place.end.0)
        {
            return Some((*host, place.end.1));
        }
        match &self.pool {
            Pool::Hosts(_) => table.hosts.get(&place.end.0).map(|host| (*host, place.end.1)),
            Pool::Ports(..) if ports => table.flows.get(&(place.end, place.other)).copied(),
            _ => None,
        }
    }

    /// What the end of a packet is replaced by; makes a mapping where there may be one.
    fn lookup(&mut self, place: &Place, way: usize) -> Result<End, Reason> {
        if let Some(end) = self.known(place, way) {
            return Ok(end);
        }
        if matches!(self.pool, Pool::Ports(..)) && place.protocol == ICMP6 {
            return Err(Reason::NoMapping);
        }
        if (way == 1) != self.inward {
            return Err(Reason::NoMapping);
        }
        self.allocate(place, way)
    }

    /// Gives a host or a flow what the pool has.
    fn allocate(&mut self, place: &Place, way: usize) -> Result<End, Reason> {
        match &mut self.pool {
            Pool::Hosts(free) => {
                let host = free.pop_front().ok_or(Reason::MappingTableFull)?;
                self.tables[way].hosts.insert(place.end.0, host);
                self.tables[1 - way].hosts.insert(host, place.end.0);
                Ok((host, place.end.1))
            }
            Pool::Ports(host, free) => {
                let end = (*host, free.pop_front().ok_or(Reason::MappingTableFull)?);
                self.tables[way].flows.insert((place.end, place.other), end);
                self.tables[1 - way].flows.insert((end, place.other), place.end);
                Ok(end)
            }
            Pool::None => Err(Reason::NoMapping),
        }
    }

    fn translate(&mut self, packet: &mut Packet, way: usize) -> Result<(), Reason> {
        let place = Place::of(packet.data(), way)?;
        // An error makes no mapping, and what it is about must have one.
        if let Some(quoted) = Place::quoted(packet.data(), way) {
            let end = self.known(&quoted, way).ok_or(Reason::NoMapping)?;
            quoted.replace_quoted(packet.data_mut(), way, end);
            return Ok(());
        }
        let end = self.lookup(&place, way)?;
        place.replace(packet.data_mut(), way, end);
        Ok(())
    }

    fn add_static(&mut self, args: &mut Args<'_>, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let address = |word: &str| Ipv6Addr::from_arg(word, args.names).ok().map(|a| a.octets());
        let port = |word: &str| parse_integer(word).and_then(|n| u16::try_from(n).ok());
        let ends = match (self.static_ports, words.as_slice()) {
            (false, [inner, outer]) => address(inner).zip(address(outer)).map(|(i, o)| ((i, 0), (o, 0))),
            (true, [inner, ip, outer, op]) => {
                let inner = address(inner).zip(port(ip));
                inner.zip(address(outer).zip(port(op)))
            }
            _ => None,
        };
        let Some((inner, outer)) = ends else {
            let form = if self.static_ports { "INNER PORT OUTER PORT" } else { "INNER OUTER" };
            return args.error(format!("a mapping is {form}, not '{text}'"));
        };
        for (way, from, to) in [(0, inner, outer), (1, outer, inner)] {
            self.tables[way].ends.insert(from, to);
            self.tables[way].hosts.insert(from.0, to.0);
        }
    }

    fn set_pool(&mut self, args: &mut Args<'_>, with_ports: bool, rest: &[String]) {
        let address = |word: &str| Ipv6Addr::from_arg(word, args.names).ok().map(|a| a.octets());
        if !with_ports {
            let all: Option<VecDeque<Address>> = rest.iter().map(|text| address(text.trim())).collect();
            match all {
                Some(all) => self.pool = Pool::Hosts(all),
                None => args.error(format!(
                    "a pool without ports is a list of IPv6 addresses, not '{}'",
                    rest.join(", ")
                )),
            }
            return;
        }
        let words: Vec<&str> = rest.first().map_or(Vec::new(), |text| text.split_whitespace().collect());
        let port = |word: &str| parse_integer(word).and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0);
        let pool = match (words.as_slice(), rest.len()) {
            ([host, first, last], 1) => address(host).zip(port(first).zip(port(last))),
            _ => None,
        };
        match pool.filter(|(_, (first, last))| first <= last) {
            Some((host, (first, last))) => self.pool = Pool::Ports(host, (first..=last).collect()),
            None => args.error(format!("a pool with ports is ADDRESS FIRST LAST, not '{}'", rest.join(", "))),
        }
    }
}

impl Element for AddressTranslator {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.text = args.rest();
        let text = self.text.clone();
        let mut words = text.iter().map(|t| t.trim());
        let count = words.next().and_then(parse_integer).and_then(|n| usize::try_from(n).ok());
        let Some(count) = count.filter(|n| *n <= STATIC_MOST) else {
            return args.error(format!("STATIC must be a number from 0 to {STATIC_MOST}"));
        };
        if count > 0 {
            match words.next().and_then(parse_bool) {
                Some(ports) => self.static_ports = ports,
                None => return args.error("STATIC_PORTS must be true or false"),
            }
        }
        for _ in 0..count {
            match words.next() {
                Some(mapping) => self.add_static(args, mapping),
                None => return args.error(format!("{count} mappings are announced, but there are fewer")),
            }
        }
        match words.next().and_then(parse_bool) {
            Some(false) if words.next().is_none() => return,
            Some(false) => return args.error("nothing may follow where DYNAMIC is false"),
            Some(true) => {}
            None => return args.error("DYNAMIC must be true or false"),
        }
        let (ports, inward) = (words.next().and_then(parse_bool), words.next().and_then(parse_bool));
        let (Some(ports), Some(inward)) = (ports, inward) else {
            return args.error("DYNAMIC_PORTS and INWARD must be true or false");
        };
        self.inward = inward;
        let rest: Vec<String> = words.map(str::to_owned).collect();
        self.set_pool(args, ports, &rest);
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        let why = std::cell::Cell::new(Reason::NoMapping);
        let translate = |p: &mut Packet| self.translate(p, port).map_err(|reason| why.set(reason)).is_ok();
        batch.partition(translate, |p| cx.drop(why.get(), p));
        cx.push(port, batch);
    }
}

impl Rehearsal for AddressTranslator {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

impl HotSwap for AddressTranslator {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<AddressTranslator>(old) else { return false };
        if old.text == self.text {
            self.tables = std::mem::take(&mut old.tables);
            self.pool = std::mem::take(&mut old.pool);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, Run};

    fn address(text: &str) -> Address {
        text.parse::<Ipv6Addr>().unwrap().octets()
    }

    /// A packet of a protocol between two ends, with a right checksum.
    fn packet(protocol: u8, src: (&str, u16), dst: (&str, u16)) -> Packet {
        let mut transport = match protocol {
            ICMP6 => vec![128, 0, 0, 0, 0, 7, 0, 1],
            _ => [src.1.to_be_bytes(), dst.1.to_be_bytes()].concat(),
        };
        transport.resize(20, 0);
        let (src, dst) = (address(src.0), address(dst.0));
        let at =
            [(TCP, 16), (UDP, 6), (ICMP6, 2)].iter().find(|(p, _)| *p == protocol).map_or(0, |(_, at)| *at);
        let sum = checksum::transport_v6(src.into(), dst.into(), wire::Protocol(protocol), &transport);
        transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let head = [&[0x60, 0, 0, 0, 0, 20, protocol, 9][..], &src, &dst].concat();
        Packet::copy_of(&[head, transport].concat()).unwrap()
    }

    fn rig(args: &str) -> Run {
        let text = format!(
            "i :: TestIn -> [0] e :: AddressTranslator({args}) [0] -> o0 :: TestOut; j :: TestIn -> [1] e [1] -> o1 :: TestOut;"
        );
        Rig::text(&text).ready()
    }

    /// Both ends of the packets that left, after a look at their checksums.
    fn ends(run: &Run, sink: &str) -> Vec<String> {
        let text = |bytes: &[u8]| {
            let at = |at: usize| <Ipv6Addr>::from(<Address>::try_from(&bytes[at..at + 16]).unwrap());
            assert_eq!(checksum::transport_v6(at(8), at(24), wire::Protocol(bytes[6]), &bytes[40..]), 0);
            let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let ports = if bytes[6] == ICMP6 { (0, 0) } else { (port(40), port(42)) };
            format!("{}.{} > {}.{}", at(8), ports.0, at(24), ports.1)
        };
        run.bytes(sink).iter().map(|bytes| text(bytes)).collect()
    }

    /// Sends packets outward, then others inward.
    fn send(args: &str, outward: Vec<Packet>, inward: Vec<Packet>) -> Run {
        let run = rig(args);
        run.give("i", outward);
        let run = run.again();
        run.give("j", inward);
        run.again()
    }

    #[test]
    fn fixed_mappings() {
        let (inner, outer, far) = ("fd00::1", "2001:db8::1", "2001:db8::99");
        for protocol in [TCP, UDP, ICMP6] {
            let n = u16::from(protocol != ICMP6);
            let run = send(
                "1, false, fd00::1 2001:db8::1, false",
                vec![packet(protocol, (inner, n * 5), (far, n * 6))],
                vec![packet(protocol, (far, n * 6), (outer, n * 5))],
            );
            assert_eq!(ends(&run, "o0"), [format!("{outer}.{} > {far}.{}", n * 5, n * 6)]);
            assert_eq!(ends(&run, "o1"), [format!("{far}.{} > {inner}.{}", n * 6, n * 5)]);
        }
        let with_ports = "1, true, fd00::1 5 2001:db8::1 7000, false";
        let run = send(
            with_ports,
            vec![packet(TCP, (inner, 5), (far, 6)), packet(TCP, (inner, 6), (far, 6))],
            vec![packet(TCP, (far, 6), (outer, 7000))],
        );
        assert_eq!(ends(&run, "o0"), [format!("{outer}.7000 > {far}.6")]);
        assert_eq!(
            (ends(&run, "o1"), run.drops("e")),
            (vec![format!("{far}.6 > {inner}.5")], vec![(Reason::NoMapping, 1)])
        );
    }

    #[test]
    fn hosts_get_addresses_and_flows_get_ports() {
        let far = "2001:db8::99";
        let from = |host: &str, port| packet(UDP, (host, port), (far, 6));
        let run = send(
            "0, true, false, false, 2001:db8::1, 2001:db8::2",
            vec![from("fd00::1", 1), from("fd00::2", 1), from("fd00::1", 2), from("fd00::3", 1)],
            vec![packet(UDP, (far, 6), ("2001:db8::2", 1)), packet(UDP, (far, 6), ("2001:db8::3", 1))],
        );
        assert_eq!(
            ends(&run, "o0"),
            ["2001:db8::1.1", "2001:db8::2.1", "2001:db8::1.2"].map(|e| format!("{e} > {far}.6"))
        );
        assert_eq!(ends(&run, "o1"), [format!("{far}.6 > fd00::2.1")]);
        assert_eq!(run.drops("e"), [(Reason::NoMapping, 1), (Reason::MappingTableFull, 1)]);

        let run = send(
            "0, true, true, false, 2001:db8::1 7000 7001",
            vec![from("fd00::1", 1), from("fd00::2", 1), from("fd00::1", 1), from("fd00::3", 1)],
            vec![packet(UDP, (far, 6), ("2001:db8::1", 7001)), packet(UDP, (far, 7), ("2001:db8::1", 7001))],
        );
        assert_eq!(
            ends(&run, "o0"),
            ["7000", "7001", "7000"].map(|port| format!("2001:db8::1.{port} > {far}.6"))
        );
        assert_eq!(ends(&run, "o1"), [format!("{far}.6 > fd00::2.1")]);
        assert_eq!(run.drops("e"), [(Reason::NoMapping, 1), (Reason::MappingTableFull, 1)]);
    }

    /// An error about a packet, as a router sends it, with a right checksum.
    fn error(src: &str, dst: &str, about: &Packet, len: usize) -> Packet {
        let mut message = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &about.data()[..len]].concat();
        let (src, dst) = (address(src), address(dst));
        let sum = checksum::transport_v6(src.into(), dst.into(), wire::Protocol(ICMP6), &message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let len = u16::try_from(message.len()).unwrap().to_be_bytes();
        let head = [&[0x60, 0, 0, 0, len[0], len[1], ICMP6, 9][..], &src, &dst].concat();
        Packet::copy_of(&[head, message].concat()).unwrap()
    }

    /// What comes out is what a router would have sent that saw the packets of the other side.
    #[test]
    fn errors_are_mapped_as_what_they_quote() {
        let (inner, outer, far, router) = ("fd00::1", "2001:db8::1", "2001:db8::99", "2001:db8::77");
        for (args, protocol, n, mapped) in [
            ("1, false, fd00::1 2001:db8::1, false", UDP, 5, 5),
            ("1, false, fd00::1 2001:db8::1, false", ICMP6, 0, 0),
            ("1, true, fd00::1 5 2001:db8::1 7000, false", TCP, 5, 7000),
            ("0, true, true, false, 2001:db8::1 7000 7001", UDP, 5, 7000),
            ("0, true, false, false, 2001:db8::1", TCP, 5, 5),
        ] {
            for len in [60, 48] {
                let run = rig(args);
                run.give("i", vec![packet(protocol, (inner, n), (far, 6))]);
                let run = run.again();
                let about = packet(protocol, (outer, mapped), (far, 6));
                let back = packet(protocol, (far, 6), (inner, n));
                run.give("j", vec![error(router, outer, &about, len)]);
                run.give("i", vec![error("fd00::77", far, &back, len)]);
                let run = run.again();
                let inward = error(router, inner, &packet(protocol, (inner, n), (far, 6)), len);
                let outward = error(outer, far, &packet(protocol, (far, 6), (outer, mapped)), len);
                assert_eq!(run.bytes("o1"), [inward.data()], "{args} {len}");
                assert_eq!(run.bytes("o0").last().unwrap(), outward.data(), "{args} {len}");
            }
        }
        // About a flow that there is not, and cut short.
        let nobody = error(router, outer, &packet(UDP, (outer, 9), (far, 6)), 60);
        let run = send("0, true, true, false, 2001:db8::1 7000 7001", vec![], vec![nobody]);
        assert_eq!(run.drops("e"), [(Reason::NoMapping, 1)]);
        for len in 0..48 {
            let cut = error(router, outer, &packet(UDP, (outer, 5), (far, 6)), len);
            let run = send("1, false, fd00::1 2001:db8::1, false", vec![], vec![cut]);
            assert_eq!(run.bytes("o1").len() + run.drops("e").len(), 1, "{len}");
        }
    }

    #[test]
    fn packets_inward_may_make_mappings() {
        let far = "2001:db8::99";
        let run = rig("0, true, false, true, fd00::1");
        run.give("j", vec![packet(UDP, (far, 6), ("2001:db8::1", 1))]);
        let run = run.again();
        run.give("i", vec![packet(UDP, ("fd00::1", 1), (far, 6)), packet(UDP, ("fd00::2", 1), (far, 6))]);
        let run = run.again();
        assert_eq!(ends(&run, "o1"), [format!("{far}.6 > fd00::1.1")]);
        assert_eq!(
            (ends(&run, "o0"), run.drops("e")),
            (vec![format!("2001:db8::1.1 > {far}.6")], vec![(Reason::NoMapping, 1)])
        );
    }

    #[test]
    fn damaged_packets_are_dropped() {
        let mut other = packet(UDP, ("fd00::1", 1), ("::2", 2));
        other.data_mut()[6] = 47;
        let packets =
            vec![other, Packet::copy_of(&[0x60; 39]).unwrap(), Packet::copy_of(&[0x45; 60]).unwrap()];
        let run = send("1, false, fd00::1 2001:db8::1, false", packets, vec![]);
        assert_eq!(
            run.drops("e"),
            [(Reason::TooShort, 1), (Reason::BadVersion, 1), (Reason::BadProtocol, 1)]
        );
    }

    #[test]
    fn arguments_are_checked() {
        for (args, want) in [
            ("65537", "STATIC must be a number from 0 to 65536"),
            ("1, true, ::1 ::2, false", "a mapping is INNER PORT OUTER PORT, not '::1 ::2'"),
            ("2, false, ::1 ::2", "2 mappings are announced, but there are fewer"),
            ("0, maybe", "DYNAMIC must be true or false"),
            ("0, true, true", "DYNAMIC_PORTS and INWARD must be true or false"),
            ("0, true, true, false, ::1 9 8", "a pool with ports is ADDRESS FIRST LAST, not '::1 9 8'"),
        ] {
            let text = format!(
                "Idle -> [0] e :: AddressTranslator({args}) [0] -> Discard; Idle -> [1] e [1] -> Discard;"
            );
            assert_eq!(Rig::text(&text).errors(), [format!("e: {want}")]);
        }
    }
}
