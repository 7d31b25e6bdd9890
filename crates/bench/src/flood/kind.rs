// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of floods: which router or bridge they meet, and the frames that they consist of.

use std::net::Ipv6Addr;
use std::ops::Range;

use fastrand::Rng;
use wire::{MacAddr, Protocol, arp, icmpv6, ndp};

use conf::init;
use harness::Pattern;

/// Frames of a flood before it repeats.
const FRAMES: usize = 65_536;
/// Stations that send legitimate frames through a bridge, and to as many others.
pub(super) const STATIONS: usize = 1024;
/// The first of those that send, of those sent to, and of those from whom a flood comes whose sources are known.
const SENDERS: &str = "02:00:00:01:00:00";
const HOSTS: &str = "02:00:00:02:00:00";
const ATTACKERS: &str = "02:00:00:03:00:00";
/// Frames to unknown stations that each port of a bridge with storm control may have flooded in a second.
const UNKNOWN_RATE: u64 = 10_000;
/// The router's own addresses where the flood comes in.
const OWN: [u8; 4] = [10, 3, 0, 1];
const OWN6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 1);
const OWN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);

/// Where a flood is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FloodTarget {
    /// An IPv4 or IPv6 router.
    Router,
    /// A gateway that translates addresses.
    Gateway,
    /// A bridge.
    Bridge,
}

/// What comes by `m2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FloodKind {
    /// Nothing is wrong: what an accepted packet costs on the same way.
    Ordinary,
    /// To hosts that do not answer, from many sources.
    Unresolvable,
    /// Pieces without the rest, forwarded.
    Fragments,
    /// The same, and the router puts fragments together.
    Reassembly,
    /// Cut off within the IP header.
    Short,
    /// Neither version 4 nor 6.
    Version,
    /// Shorter than its length field says.
    Length,
    /// With a wrong header checksum.
    Checksum,
    /// From an address that is no source: the network's broadcast address, or a multicast group.
    Source,
    /// For which there is no route.
    NoRoute,
    /// Whose time to live, or hop limit, ends here.
    Ttl,
    /// One in eight is so, at random places among ordinary ones.
    Mixed,
    /// With a Record Route option that is full, or a hop-by-hop header with padding: nothing is wrong, but it is not ordinary.
    Options,
    /// With an option that cannot be read.
    BadOption,
    /// For the router itself, of a protocol that it does not know.
    UnknownProtocol,
    /// Of an unknown Ethernet type.
    EtherType,
    /// For another station's Ethernet address.
    OtherMac,
    /// ARP requests or neighbour solicitations for other hosts.
    AsksOthers,
    /// ARP requests or neighbour solicitations for the router.
    AsksUs,
    /// ARP replies or neighbour advertisements that nobody asked for.
    Replies,
    /// Flows beyond those for which a gateway has ports.
    Ports,
    /// From stations that nobody has seen, through a bridge.
    Stations,
    /// From a group address, through a bridge.
    GroupSource,
    /// To unknown stations, through a bridge with storm control, and through one without.
    Unknown,
    UnknownUnlimited,
}

use crate::Error;
use FloodKind::*;

impl FloodKind {
    /// All, with their names, and where they are met.
    const ALL: [(FloodKind, &'static str, FloodTarget); 25] = [
        (Ordinary, "ordinary", FloodTarget::Router),
        (Unresolvable, "unresolvable", FloodTarget::Router),
        (Fragments, "fragments", FloodTarget::Router),
        (Reassembly, "reassembly", FloodTarget::Router),
        (Short, "short", FloodTarget::Router),
        (Version, "version", FloodTarget::Router),
        (Length, "length", FloodTarget::Router),
        (Checksum, "checksum", FloodTarget::Router),
        (Source, "source", FloodTarget::Router),
        (NoRoute, "no_route", FloodTarget::Router),
        (Ttl, "ttl", FloodTarget::Router),
        (Mixed, "mixed", FloodTarget::Router),
        (Options, "options", FloodTarget::Router),
        (BadOption, "bad_option", FloodTarget::Router),
        (UnknownProtocol, "protocol", FloodTarget::Router),
        (EtherType, "ethertype", FloodTarget::Router),
        (OtherMac, "other_mac", FloodTarget::Router),
        (AsksOthers, "asks_others", FloodTarget::Router),
        (AsksUs, "asks_us", FloodTarget::Router),
        (Replies, "replies", FloodTarget::Router),
        (Ports, "ports", FloodTarget::Gateway),
        (Stations, "stations", FloodTarget::Bridge),
        (GroupSource, "group_source", FloodTarget::Bridge),
        (Unknown, "unknown", FloodTarget::Bridge),
        (UnknownUnlimited, "unknown_unlimited", FloodTarget::Bridge),
    ];

    fn row(self) -> &'static (FloodKind, &'static str, FloodTarget) {
        FloodKind::ALL.iter().find(|(kind, ..)| *kind == self).expect("each kind has a row")
    }

    fn place(self) -> FloodTarget {
        self.row().2
    }

    /// The bytes of a frame where the address stands that was never seen.
    pub(super) fn forged(self) -> Option<Range<usize>> {
        match self {
            Stations => Some(6..12),
            Unknown | UnknownUnlimited => Some(0..6),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        self.row().1
    }
}

/// A flood of IPv4 or IPv6 packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flood {
    pub(super) kind: FloodKind,
    pub(super) six: bool,
}

impl Flood {
    pub(super) fn all() -> impl Iterator<Item = Flood> {
        let met = |routed: bool| {
            FloodKind::ALL.iter().filter(move |row| (row.2 == FloodTarget::Router) == routed).map(|row| row.0)
        };
        let routers =
            [false, true].into_iter().flat_map(move |six| met(true).map(move |kind| Flood { kind, six }));
        // IPv6 has no header checksum, and what a router does with other frames does not depend on its routes.
        let routers = routers.filter(|f| !f.six || !matches!(f.kind, Checksum | EtherType | OtherMac));
        routers.chain(met(false).map(|kind| Flood { kind, six: false }))
    }

    pub(super) fn name(self) -> String {
        format!("{}{}", self.kind.name(), if self.six { "6" } else { "" })
    }

    /// Whether it comes through a bridge.
    pub(super) fn is_bridged(self) -> bool {
        self.kind.place() == FloodTarget::Bridge
    }

    /// What has the three interfaces.
    pub(super) fn config(self) -> Result<String, Error> {
        match self.kind.place() {
            FloodTarget::Router => self.router(),
            FloodTarget::Gateway => Ok(gateway()),
            FloodTarget::Bridge => {
                let port = |n| format!("FromDevice(m{n}, PROMISC true) -> [{n}]b[{n}] -> ToDevice(m{n});\n");
                let limit = if self.kind == Unknown { UNKNOWN_RATE } else { 0 };
                let bridge = format!("b :: Bridge(PORTS 3, UNKNOWN_RATE {limit});\n");
                Ok(bridge + &(0..3).map(port).collect::<String>())
            }
        }
    }

    /// The router that `junctor init router` writes; for reassembly, with a reassembler in the way of all packets.
    fn router(self) -> Result<String, Error> {
        let interfaces = match self.six {
            false => ["m0=10.1.0.1/16", "m1=10.2.0.1/16", "m2=10.3.0.1/16"],
            true => ["m0=2001:db8:1::1/64", "m1=2001:db8:2::1/64", "m2=2001:db8:3::1/64"],
        };
        let text = init::router(&interfaces.map(String::from), &[], &[], init::Kernel::default())
            .map_err(Error::Setting)?;
        let (way, reassembler) = match self.six {
            false => ("-> GetIPAddress(16) -> rt;", "IPReassembler"),
            true => ("-> hop6 :: IP6HopByHop", "IP6Reassembler"),
        };
        match self.kind {
            Reassembly if text.contains(way) => Ok(text.replace(way, &format!("-> {reassembler} {way}"))),
            Reassembly => Err(Error::nothing("the router has changed: there is no place for a reassembler")),
            _ => Ok(text),
        }
    }

    /// Prefixes of the legitimate packets' sources, of hosts that are there, of the flood's sources, and of hosts that are not there.
    pub(super) fn prefixes(self) -> [&'static str; 4] {
        match self.six {
            false => ["10.1.0.0/16", "10.2.1.0/25", "10.3.0.0/16", "10.2.128.0/17"],
            true => ["2001:db8:1::/64", "2001:db8:2::/121", "2001:db8:3::/64", "2001:db8:2:0:8000::/96"],
        }
    }

    /// UDP packets for the router's interface with this number in its Ethernet address.
    pub(super) fn packets(self, interface: u8, from: &str, to: &str, flows: usize) -> Vec<Vec<u8>> {
        // 58 bytes make an IPv4 payload of a multiple of eight, as a fragment must have; 78 leave an IPv6 one room for a header more.
        let more6 = self.six && self.kind != Unresolvable && interface == 3;
        let length = match (more6, self.six) {
            (true, _) => 78,
            (_, true) => 62,
            _ => 58,
        };
        let stations = match (self.kind.place(), interface) {
            (FloodTarget::Bridge, 2) => format!("from={HOSTS} to={SENDERS} stations={flows}"),
            (FloodTarget::Bridge, 3) => format!("from={ATTACKERS} to={HOSTS} stations={STATIONS}"),
            (FloodTarget::Bridge, _) => format!("from={SENDERS} to={HOSTS} stations={STATIONS}"),
            _ => String::new(),
        };
        let line = format!(
            "// bench: x {stations} ether=02:00:00:00:00:{interface:02x} src={from} dst={to} flows={flows} length={length}"
        );
        Pattern::gather(&line).expect("a pattern")["x"].packets()
    }

    /// The frames of the flood.
    pub(super) fn frames(self) -> Vec<Vec<u8>> {
        let [_, there, from, nowhere] = self.prefixes();
        let to = if matches!(self.kind, Unresolvable | Ports) { nowhere } else { there };
        let mut frames = self.packets(3, from, to, FRAMES);
        let mut rng = Rng::with_seed(3);
        for frame in &mut frames {
            if self.six {
                self.spoil6(frame, &mut rng);
            } else {
                self.spoil4(frame, &mut rng);
            }
        }
        frames
    }

    /// Makes an IPv4 packet, or an Ethernet frame, one of the flood.
    fn spoil4(self, frame: &mut Vec<u8>, rng: &mut Rng) {
        match self.kind {
            Fragments | Reassembly => {
                // A first piece or a later one, more to come.
                let offset = if rng.bool() { 0 } else { rng.u16(1..180) };
                rng.fill(&mut frame[18..20]);
                frame[20..22].copy_from_slice(&(0x2000 | offset).to_be_bytes());
                seal(frame);
            }
            Short => frame.truncate(14 + 12),
            Version => frame[14] = 0x55,
            Length => {
                frame[16..18].copy_from_slice(&1400u16.to_be_bytes());
                seal(frame);
            }
            Checksum => frame[24] ^= 0x5a,
            Source => {
                frame[28..30].fill(255);
                seal(frame);
            }
            NoRoute => {
                frame[30..33].copy_from_slice(&[192, 0, 2]);
                seal(frame);
            }
            Mixed if rng.u8(..8) > 0 => {}
            Ttl | Mixed => {
                frame[22] = 1;
                seal(frame);
            }
            Options | BadOption => {
                // Record Route of no room: full. Its pointer must be 4 at least (RFC 791, 3.1).
                let pointer = if self.kind == Options { 4 } else { 1 };
                frame[14] = 0x46;
                frame[34..38].copy_from_slice(&[7, 3, pointer, 0]);
                seal(frame);
            }
            UnknownProtocol => {
                frame[23] = 253;
                frame[30..34].copy_from_slice(&OWN);
                seal(frame);
            }
            EtherType => frame[12..14].copy_from_slice(&[0x88, 0xb5]),
            OtherMac => frame[5] ^= 0x80,
            AsksOthers | AsksUs | Replies => {
                let host = |rng: &mut Rng| [10, 3, rng.u8(1..), rng.u8(1..255)];
                let (from, other) = (host(rng), host(rng));
                let mac = MacAddr([2, 9, from[0], from[1], from[2], from[3]]);
                let target = if self.kind == AsksUs { OWN } else { other };
                let request = arp::Repr::request(mac, from.into(), target.into());
                *frame = match self.kind {
                    Replies => arp::Repr::request(OWN_MAC, OWN.into(), from.into()).reply(mac).to_frame(),
                    _ => request.to_frame(),
                }
                .to_vec();
            }
            GroupSource => frame[6] |= 1,
            Ordinary | Unresolvable | Ports | Stations | Unknown | UnknownUnlimited => {}
        }
    }

    /// Makes an IPv6 packet one of the flood. Sources count by /64.
    fn spoil6(self, frame: &mut Vec<u8>, rng: &mut Rng) {
        match self.kind {
            Unresolvable => rng.fill(&mut frame[28..30]),
            Fragments | Reassembly => {
                let offset = if rng.bool() { 0 } else { rng.u16(1..180) };
                rng.fill(&mut frame[28..30]);
                frame[20] = Protocol::IPV6_FRAGMENT.0;
                let [high, low] = (offset << 3 | 1).to_be_bytes();
                frame[54..58].copy_from_slice(&[Protocol::UDP.0, 0, high, low]);
                rng.fill(&mut frame[58..62]);
            }
            Short => frame.truncate(14 + 20),
            Version => frame[14] = 0x50,
            Length => frame[18..20].copy_from_slice(&1400u16.to_be_bytes()),
            Source => frame[22..24].copy_from_slice(&[0xff, 0x02]),
            NoRoute => frame[38..44].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8, 0x99, 0]),
            Mixed if rng.u8(..8) > 0 => {}
            Ttl | Mixed => frame[21] = 1,
            Options | BadOption => {
                // Six bytes of padding (PadN), or an unknown option that is reported to the sender (RFC 8200, 4.2).
                let option = if self.kind == Options { 1 } else { 0x9e };
                frame[20] = 0;
                frame[54..62].copy_from_slice(&[Protocol::UDP.0, 0, option, 4, 0, 0, 0, 0]);
            }
            UnknownProtocol => {
                frame[20] = 253;
                frame[38..54].copy_from_slice(&OWN6.octets());
            }
            AsksOthers | AsksUs | Replies => self.discover(frame, rng),
            _ => {}
        }
    }

    /// Makes a frame a message of Neighbor Discovery (RFC 4861).
    fn discover(self, frame: &mut Vec<u8>, rng: &mut Rng) {
        let mut host = || Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 1, 0, rng.u16(..), rng.u16(..));
        let (from, other) = (host(), host());
        let [.., a, b, c, d] = from.octets();
        let mac = MacAddr([2, 9, a, b, c, d]);
        let target = if self.kind == AsksUs { OWN6 } else { other };
        let message = match self.kind {
            Replies => ndp::Repr::NeighborAdvert { target: from, flags: ndp::FLAG_OVERRIDE },
            _ => ndp::Repr::NeighborSolicit { target },
        };
        frame.truncate(54);
        frame.resize(54 + message.header_len(), 0);
        message.emit(&mut frame[54..]).expect("there is room for the message");
        frame.extend(ndp::NdpOption::link_addr_bytes(self.kind == Replies, mac));
        let payload = (frame.len() - 54) as u16;
        frame[18..20].copy_from_slice(&payload.to_be_bytes());
        frame[20..22].copy_from_slice(&[Protocol::ICMPV6.0, 255]);
        frame[22..38].copy_from_slice(&from.octets());
        frame[38..54].copy_from_slice(&OWN6.octets());
        let mut view = icmpv6::View::new_checked(&mut frame[54..]).expect("a message");
        view.fill_checksum(from, OWN6);
    }
}

/// Computes the checksum of an IPv4 header.
fn seal(frame: &mut [u8]) {
    let end = 14 + usize::from(frame[14] & 15) * 4;
    frame[24..26].fill(0);
    let sum = wire::checksum::internet(&frame[14..end]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// A gateway with ports for twice as many flows as there are legitimate ones. Both inside networks have their own flows in it.
fn gateway() -> String {
    let last = 1024 + 2 * STATIONS - 1;
    let inside = |n: usize| {
        format!(
            "FromDevice(m{n}) -> c{n} :: Classifier(12/0800, -); c{n}[1] -> Discard;\nc{n}[0] -> Strip(14) -> CheckIPHeader -> [0]flows;\n"
        )
    };
    format!(
        "flows :: IPRewriter(pattern 10.2.0.1 1024-{last} - - 0 1, drop);
{}{}FromDevice(m1) -> c1 :: Classifier(12/0806 20/0002, 12/0800, -); c1[2] -> Discard;
arp :: ARPQuerier(10.2.0.1, 02:00:00:00:00:02);
c1[0] -> [1]arp;
c1[1] -> Strip(14) -> CheckIPHeader -> [1]flows;
flows[0] -> GetIPAddress(16) -> DecIPTTL -> [0]arp -> Queue(1024) -> ToDevice(m1);
flows[1] -> Discard;
",
        inside(0),
        inside(2)
    )
}
