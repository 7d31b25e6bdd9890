// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header fields of a packet by name, as text: for people, and to tell what has changed.
//!
//! Names are those of Wireshark's display filters (`ip.ttl`, `eth.dst`), so that what is said here can be looked for there. What is cut off is left
//! out; bytes behind the last header that is understood are `data`. Offsets of fragments are in bytes, as Wireshark shows them. The packet that an
//! ICMP error quotes is read, too. Wireshark has no names for `ip.options` and `ipv6.extensions`, all bytes of these, nor for `udp.surplus`, the
//! bytes between the end of a datagram and the end of its packet (RFC 9868). It calls the fields of outer tags of 802.1ad `ieee8021ad`, which are
//! `vlan` here.

use std::fmt::Write as _;
use std::net::Ipv6Addr;

use crate::header::range;
use crate::{EtherType, Protocol, arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, mpls, tcp, udp, vlan};

/// With what a packet begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header.
    Ip,
}

/// A field of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name; the protocol's stands before the first dot.
    pub name: &'static str,
    /// How often a field of this name came before: 1 for that of an inner VLAN tag, say.
    pub nth: usize,
    /// Its value.
    pub value: String,
}

impl Field {
    /// The protocol.
    pub fn protocol(&self) -> &'static str {
        self.name.split('.').next().unwrap_or(self.name)
    }
}

/// Headers inside each other that are read at most.
const DEEPEST: usize = 8;

#[derive(Default)]
struct Fields(Vec<Field>);

impl Fields {
    fn add(&mut self, name: &'static str, value: impl ToString) {
        let nth = self.0.iter().filter(|f| f.name == name).count();
        self.0.push(Field { name, nth, value: value.to_string() });
    }

    fn hex16(&mut self, name: &'static str, value: u16) {
        self.add(name, format_args!("0x{value:04x}"));
    }

    fn bytes(&mut self, name: &'static str, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.add(name, hex(bytes));
        }
    }

    fn flag(&mut self, name: &'static str, set: bool) {
        self.add(name, u8::from(set));
    }

    /// What stands behind an IP packet: padding of the link, or in what another packet carries or quotes just data.
    fn behind_ip(&mut self, bytes: &[u8]) {
        let packets = self.0.iter().filter(|f| matches!(f.name, "ip.version" | "ipv6.version")).count();
        self.bytes(if packets > 1 { "data" } else { "eth.padding" }, bytes);
    }

    /// What stands behind a frame's length, and is no Ethernet type.
    fn length<'a>(&mut self, name: &'static str, length: u16, rest: &'a [u8]) -> Next<'a> {
        self.add(name, length);
        let length = usize::from(length);
        self.bytes("eth.padding", range(rest, length, rest.len()));
        Next::Data(range(rest, 0, length))
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What follows a header.
enum Next<'a> {
    Ether(EtherType, &'a [u8]),
    Ip(Protocol, &'a [u8]),
    Data(&'a [u8]),
}

/// All fields of a packet, in the order of its bytes.
///
/// ```
/// use junctor_wire::fields::{First, fields};
///
/// let frame = [&[0u8; 12][..], &[8, 6]].concat();
/// let names: Vec<_> = fields(&frame, First::Ethernet).iter().map(|f| f.name).collect();
/// assert_eq!(names, ["eth.dst", "eth.src", "eth.type"]);
/// ```
pub fn fields(packet: &[u8], first: First) -> Vec<Field> {
    let mut all = Fields::default();
    let mut next = match first {
        First::Ethernet => ethernet_fields(&mut all, packet),
        First::Ip => by_version(packet),
    };
    for _ in 0..DEEPEST {
        next = match next {
            Next::Ether(EtherType::VLAN | EtherType::QINQ, rest) => vlan_fields(&mut all, rest),
            Next::Ether(EtherType::MPLS, rest) => mpls_fields(&mut all, rest),
            Next::Ether(EtherType::ARP, rest) => arp_fields(&mut all, rest),
            Next::Ether(EtherType::IPV4, rest) | Next::Ip(Protocol::IPIP, rest) => {
                ipv4_fields(&mut all, rest)
            }
            Next::Ether(EtherType::IPV6, rest) | Next::Ip(Protocol::IPV6, rest) => {
                ipv6_fields(&mut all, rest)
            }
            Next::Ip(Protocol::UDP, rest) => udp_fields(&mut all, rest),
            Next::Ip(Protocol::TCP, rest) => tcp_fields(&mut all, rest),
            Next::Ip(Protocol::ICMP, rest) => icmp_fields(&mut all, rest),
            Next::Ip(Protocol::ICMPV6, rest) => icmpv6_fields(&mut all, rest),
            Next::Ether(_, rest) | Next::Ip(_, rest) | Next::Data(rest) => {
                next = Next::Data(rest);
                break;
            }
        };
    }
    let (Next::Data(rest) | Next::Ether(_, rest) | Next::Ip(_, rest)) = next;
    if !rest.is_empty() {
        all.add("data.len", rest.len());
        all.bytes("data", rest);
    }
    all.0
}

/// Whether bytes look like an IP packet, by version and lengths.
pub fn looks_like_ip(packet: &[u8]) -> bool {
    match packet.first().map(|b| b >> 4) {
        Some(4) => ipv4::Header::from_slice(packet).is_ok_and(|h| {
            h.header_len() >= ipv4::HEADER_LEN && usize::from(h.total_len()) >= h.header_len()
        }),
        Some(6) => ipv6::Header::from_slice(packet)
            .is_ok_and(|h| usize::from(h.payload_len()) + ipv6::HEADER_LEN <= packet.len()),
        _ => false,
    }
}

fn by_version(packet: &[u8]) -> Next<'_> {
    match packet.first().map(|b| b >> 4) {
        Some(4) => Next::Ether(EtherType::IPV4, packet),
        Some(6) => Next::Ether(EtherType::IPV6, packet),
        _ => Next::Data(packet),
    }
}

fn ethernet_fields<'a>(all: &mut Fields, packet: &'a [u8]) -> Next<'a> {
    let Ok(h) = ethernet::Header::from_slice(packet) else { return Next::Data(packet) };
    all.add("eth.dst", h.dst());
    all.add("eth.src", h.src());
    let rest = range(packet, ethernet::HEADER_LEN, packet.len());
    if h.ethertype().0 < 0x600 {
        return all.length("eth.len", h.ethertype().0, rest);
    }
    all.hex16("eth.type", h.ethertype().0);
    Next::Ether(h.ethertype(), rest)
}

fn mpls_fields<'a>(all: &mut Fields, packet: &'a [u8]) -> Next<'a> {
    let Some(entry) = packet.first_chunk().map(|bytes| mpls::Entry::from_bytes(*bytes)) else {
        return Next::Data(packet);
    };
    all.add("mpls.label", entry.label());
    all.add("mpls.exp", entry.tc());
    all.flag("mpls.bottom", entry.is_bottom());
    all.add("mpls.ttl", entry.ttl());
    let rest = range(packet, mpls::ENTRY_LEN, packet.len());
    if entry.is_bottom() { by_version(rest) } else { Next::Ether(EtherType::MPLS, rest) }
}

fn vlan_fields<'a>(all: &mut Fields, packet: &'a [u8]) -> Next<'a> {
    let Ok(h) = vlan::Header::from_slice(packet) else { return Next::Data(packet) };
    let tci = h.tag().0;
    all.add("vlan.priority", tci >> 13);
    all.flag("vlan.dei", tci & 0x1000 != 0);
    all.add("vlan.id", tci & 0xfff);
    let rest = range(packet, vlan::HEADER_LEN, packet.len());
    if h.ethertype().0 < 0x600 {
        return all.length("vlan.len", h.ethertype().0, rest);
    }
    all.hex16("vlan.etype", h.ethertype().0);
    Next::Ether(h.ethertype(), rest)
}

fn arp_fields<'a>(all: &mut Fields, packet: &'a [u8]) -> Next<'a> {
    let Ok(h) = arp::Header::from_slice(packet) else { return Next::Data(packet) };
    if (h.hardware(), h.protocol(), h.hardware_len(), h.protocol_len())
        != (arp::HARDWARE_ETHERNET, EtherType::IPV4, 6, 4)
    {
        return Next::Data(packet);
    }
    all.add("arp.opcode", h.operation().0);
    all.add("arp.src.hw_mac", h.sender_mac());
    all.add("arp.src.proto_ipv4", h.sender_ip());
    all.add("arp.dst.hw_mac", h.target_mac());
    all.add("arp.dst.proto_ipv4", h.target_ip());
    all.bytes("eth.padding", range(packet, arp::HEADER_LEN, packet.len()));
    Next::Data(&[])
}

fn ipv4_fields<'a>(all: &mut Fields, packet: &'a [u8]) -> Next<'a> {
    let Ok(h) = ipv4::Header::from_slice(packet) else { return Next::Data(packet) };
    all.add("ip.version", h.version());
    all.add("ip.hdr_len", h.header_len());
    all.add("ip.dsfield.dscp", h.dscp());
    all.add("ip.dsfield.ecn", h.ecn());
    all.add("ip.len", h.total_len());
    all.hex16("ip.id", h.id());
    all.flag("ip.flags.df", h.dont_fragment());
    all.flag("ip.flags.mf", h.more_fragments());
    all.add("ip.frag_offset", h.fragment_offset());
    all.add("ip.ttl", h.ttl());
    all.add("ip.proto", h.protocol().0);
    all.hex16("ip.checksum", h.checksum());
    all.add("ip.src", h.src());
    all.add("ip.dst", h.dst());
    let header_len = h.header_len().max(ipv4::HEADER_LEN);
    all.bytes("ip.options", range(packet, ipv4::HEADER_LEN, header_len));
    let end = usize::from(h.total_len()).max(header_len);
    let rest = range(packet, header_len, end);
    all.behind_ip(range(packet, end, packet.len()));
    if h.is_first_fragment() { Next::Ip(h.protocol(), rest) } else { Next::Data(rest) }
}

fn ipv6_fields<'a>(all: &mut Fields, packet: &'a [u8]) -> Next<'a> {
    let Ok(h) = ipv6::Header::from_slice(packet) else { return Next::Data(packet) };
    all.add("ipv6.version", h.version());
    all.add("ipv6.tclass", h.traffic_class());
    all.add("ipv6.flow", format_args!("0x{:05x}", h.flow_label()));
    all.add("ipv6.plen", h.payload_len());
    all.add("ipv6.nxt", h.next_header().0);
    all.add("ipv6.hlim", h.hop_limit());
    all.add("ipv6.src", h.src());
    all.add("ipv6.dst", h.dst());
    let end = ipv6::HEADER_LEN + usize::from(h.payload_len());
    let payload = range(packet, ipv6::HEADER_LEN, end);
    all.behind_ip(range(packet, end, packet.len()));
    let Ok(upper) = ipv6::upper_layer(h.next_header(), payload) else { return Next::Data(payload) };
    all.bytes("ipv6.extensions", range(payload, 0, upper.offset));
    let rest = range(payload, upper.offset, payload.len());
    let Some(fragment) = upper.fragment else { return Next::Ip(upper.protocol, rest) };
    all.add("ipv6.fraghdr.nxt", upper.protocol.0);
    all.add("ipv6.fraghdr.offset", fragment.offset);
    all.flag("ipv6.fraghdr.more", fragment.more);
    all.add("ipv6.fraghdr.ident", format_args!("0x{:08x}", fragment.id));
    if fragment.offset == 0 { Next::Ip(upper.protocol, rest) } else { Next::Data(rest) }
}

fn udp_fields<'a>(all: &mut Fields, packet: &'a [u8]) -> Next<'a> {
    let Ok(h) = udp::Header::from_slice(packet) else { return Next::Data(packet) };
    all.add("udp.srcport", h.src_port());
    all.add("udp.dstport", h.dst_port());
    all.add("udp.length", h.length());
    all.hex16("udp.checksum", h.checksum());
    // Behind a length that is none, all may be data.
    let end = Some(usize::from(h.length())).filter(|end| *end >= udp::HEADER_LEN).unwrap_or(packet.len());
    all.bytes("udp.surplus", range(packet, end, packet.len()));
    Next::Data(range(packet, udp::HEADER_LEN, end))
}

fn tcp_fields<'a>(all: &mut Fields, packet: &'a [u8]) -> Next<'a> {
    let Ok(h) = tcp::Header::from_slice(packet) else { return Next::Data(packet) };
    all.add("tcp.srcport", h.src_port());
    all.add("tcp.dstport", h.dst_port());
    all.add("tcp.seq_raw", h.seq());
    all.add("tcp.ack_raw", h.ack());
    all.add("tcp.hdr_len", h.header_len());
    // With the four bits next to the offset, of which AccECN has the last one.
    let flags: u16 = packet.get(12..14).map_or(0, |b| u16::from(b[0] & 0xf) << 8 | u16::from(b[1]));
    all.hex16("tcp.flags", flags);
    all.add("tcp.window_size_value", h.window());
    all.hex16("tcp.checksum", h.checksum());
    all.add("tcp.urgent_pointer", h.urgent());
    let header_len = h.header_len().max(tcp::HEADER_LEN);
    all.bytes("tcp.options", range(packet, tcp::HEADER_LEN, header_len));
    Next::Data(range(packet, header_len, packet.len()))
}

fn icmp_fields<'a>(all: &mut Fields, packet: &'a [u8]) -> Next<'a> {
    let Ok(h) = icmpv4::Header::from_slice(packet) else { return Next::Data(packet) };
    all.add("icmp.type", h.kind().0);
    all.add("icmp.code", h.code());
    all.hex16("icmp.checksum", h.checksum());
    match (h.kind().0, h.code()) {
        (0 | 8 | 13..=18, _) => {
            all.add("icmp.ident", h.identifier());
            all.add("icmp.seq", h.sequence());
        }
        (3, 4) => all.add("icmp.mtu", h.next_hop_mtu()),
        (5, _) => all.add("icmp.redir_gw", h.gateway()),
        (12, _) => all.add("icmp.pointer", h.pointer()),
        _ => {}
    }
    let rest = range(packet, icmpv4::HEADER_LEN, packet.len());
    if matches!(h.kind().0, 3 | 4 | 5 | 11 | 12) { by_version(rest) } else { Next::Data(rest) }
}

fn icmpv6_fields<'a>(all: &mut Fields, packet: &'a [u8]) -> Next<'a> {
    let Ok(h) = icmpv6::Header::from_slice(packet) else { return Next::Data(packet) };
    all.add("icmpv6.type", h.kind().0);
    all.add("icmpv6.code", h.code());
    all.hex16("icmpv6.checksum", h.checksum());
    match h.kind().0 {
        128 | 129 => {
            all.add("icmpv6.echo.identifier", h.identifier());
            all.add("icmpv6.echo.sequence_number", h.sequence());
        }
        2 => all.add("icmpv6.mtu", h.rest()),
        4 => all.add("icmpv6.pointer", h.rest()),
        136 => {
            all.flag("icmpv6.nd.na.flag.r", h.rest() & 1 << 31 != 0);
            all.flag("icmpv6.nd.na.flag.s", h.rest() & 1 << 30 != 0);
            all.flag("icmpv6.nd.na.flag.o", h.rest() & 1 << 29 != 0);
        }
        _ => {}
    }
    let rest = range(packet, icmpv6::HEADER_LEN, packet.len());
    let target = match h.kind().0 {
        1..=4 => return by_version(rest),
        135 => "icmpv6.nd.ns.target_address",
        136 => "icmpv6.nd.na.target_address",
        _ => return Next::Data(rest),
    };
    let Some((address, options)) = rest.split_first_chunk::<16>() else { return Next::Data(rest) };
    all.add(target, Ipv6Addr::from(*address));
    Next::Data(options)
}

/// How a field differs between two states of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has another value: before, after.
    Changed(Field, String),
    /// A protocol's header is new, with these fields.
    Added(&'static str, Vec<Field>),
    /// A protocol's header is gone.
    Removed(&'static str),
    /// It is a fragment now, with these bytes of what its packet carries, from the first to before the last.
    Cut(usize, usize),
}

/// What has changed between two states of a packet, header by header. Headers are distinguished by their protocols and how often each
/// came before, so a tag that is taken off and a header that is put around are said to be just that. What an ICMP error quotes is called
/// `quoted`. Of a packet that has become a fragment, changes are reported only up to the IP header of which it is one: what stands behind
/// has been cut, not changed.
pub fn changes(before: &[Field], after: &[Field]) -> Vec<Change> {
    let Some(Piece { begin, end, .. }) = cut(before, after) else { return differences(before, after) };
    let mut found = differences(&uncut(before), &uncut(after));
    found.push(Change::Cut(begin, end));
    found
}

/// What of its packet's payload a fragment carries.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Piece {
    begin: usize,
    end: usize,
    more: bool,
}

/// The fields of the outermost IP header, with what of the link stands between them.
fn outermost(all: &[Field]) -> &[Field] {
    let is_first = |f: &Field| matches!(f.name, "ip.version" | "ipv6.version");
    let Some(start) = all.iter().position(is_first) else { return &[] };
    let (first, rest) = (&all[start], &all[start + 1..]);
    let belongs = |f: &Field| match f.name {
        "eth.padding" => true,
        name => name != first.name && f.protocol() == first.protocol(),
    };
    let len = rest.iter().position(|f| !belongs(f)).unwrap_or(rest.len());
    &all[start..=start + len]
}

/// All fields but those of what the outermost IP header carries. What a packet's bytes do not say may stand behind them, as annotations do.
fn uncut(all: &[Field]) -> Vec<Field> {
    let outermost = outermost(all);
    let version = outermost.first().map_or("", |f| f.name);
    let start = all.iter().position(|f| f.name == version).unwrap_or(all.len());
    let (before, carried) = all.split_at(start + outermost.len());
    let annotations = carried.iter().filter(|f| f.protocol() == "anno");
    before.iter().chain(annotations).cloned().collect()
}

/// What it carries, if the outermost IP header is that of a fragment.
fn piece(all: &[Field]) -> Option<Piece> {
    let header = outermost(all);
    let value = |name: &str| header.iter().find(|f| f.name == name).map(|f| &*f.value);
    let number = |name: &str| value(name).and_then(|value| value.parse::<usize>().ok());
    let (begin, more, len) = match header.first()?.name {
        "ip.version" => {
            let len = number("ip.len")?.saturating_sub(number("ip.hdr_len")?);
            (number("ip.frag_offset")?, number("ip.flags.mf")? == 1, len)
        }
        _ => {
            let extensions = value("ipv6.extensions").map_or(0, |digits| digits.len() / 2);
            let len = number("ipv6.plen")?.saturating_sub(extensions);
            (number("ipv6.fraghdr.offset")?, number("ipv6.fraghdr.more")? == 1, len)
        }
    };
    (begin > 0 || more).then_some(Piece { begin, end: begin + len, more })
}

/// The piece that a packet has become.
fn cut(before: &[Field], after: &[Field]) -> Option<Piece> {
    let made = piece(after).filter(|made| piece(before) != Some(*made))?;
    // Another packet may have stood around one that was a fragment before.
    let names = ["ip.id", "ip.proto", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst"];
    let value =
        |all: &[Field], name: &str| outermost(all).iter().find(|f| f.name == name).map(|f| f.value.clone());
    names.iter().all(|name| value(before, name) == value(after, name)).then_some(made)
}

fn differences(before: &[Field], after: &[Field]) -> Vec<Change> {
    let same = |all: &[Field], field: &Field| {
        all.iter().find(|f| f.name == field.name && f.nth == field.nth).cloned()
    };
    // A header is there as long as one of its fields is.
    let has = |all: &[Field], field: &Field| all.iter().any(|f| header(f) == header(field));
    let mut found = Vec::new();
    for field in before {
        match same(after, field) {
            Some(now) if now.value != field.value => {
                found.push(Change::Changed(field.clone(), now.value));
            }
            Some(_) => {}
            None if has(after, field) => found.push(Change::Changed(field.clone(), String::new())),
            None => {
                let gone = Change::Removed(called(before, field));
                if found.last() != Some(&gone) {
                    found.push(gone);
                }
            }
        }
    }
    for field in after.iter().filter(|field| same(before, field).is_none()) {
        if has(before, field) {
            let was = Field { value: String::new(), ..field.clone() };
            found.push(Change::Changed(was, field.value.clone()));
            continue;
        }
        let called = called(after, field);
        match found.last_mut() {
            Some(Change::Added(protocol, fields))
                if *protocol == called && fields.iter().all(|f| f.name != field.name) =>
            {
                fields.push(field.clone());
            }
            _ => found.push(Change::Added(called, vec![field.clone()])),
        }
    }
    found
}

/// What the header of a field is called.
fn called(all: &[Field], field: &Field) -> &'static str {
    let before = all.iter().take_while(|f| *f != field);
    let mut errors = before.filter(|f| matches!(f.name, "icmp.type" | "icmpv6.type"));
    match field.protocol() {
        protocol if errors.next().is_none_or(|error| header(error) == header(field)) => protocol,
        "ip" => "quoted ip",
        "ipv6" => "quoted ipv6",
        "udp" => "quoted udp",
        "tcp" => "quoted tcp",
        "icmp" => "quoted icmp",
        "icmpv6" => "quoted icmpv6",
        other => other,
    }
}

/// What distinguishes a header from others.
fn header(field: &Field) -> (&'static str, usize) {
    (field.protocol(), field.nth)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ICMP error that quotes a datagram, as a whole and in pieces of these bytes.
    fn error_in_pieces(bounds: &[(usize, usize)]) -> (Vec<Field>, Vec<Vec<Field>>) {
        let mut whole = vec![0x45, 0, 0, 96, 0, 7, 0, 0, 64, 1, 0, 0, 1, 2, 3, 4, 10, 0, 0, 1];
        whole.extend([11, 0, 0, 0, 0, 0, 0, 0]);
        whole.extend([0x45, 0, 0, 68, 0, 9, 0, 0, 1, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, 2]);
        whole.extend([0, 5, 0, 2, 0, 48, 0, 0]);
        whole.extend(0..40);
        let piece = |(begin, end): &(usize, usize)| {
            let mut bytes = whole[..20].to_vec();
            bytes[3] = (20 + end - begin) as u8;
            bytes[6..8].copy_from_slice(&((begin / 8) as u16).to_be_bytes());
            bytes[6] |= if *end < 76 { 0x20 } else { 0 };
            bytes.extend(&whole[20 + begin..20 + end]);
            fields(&bytes, First::Ip)
        };
        (fields(&whole, First::Ip), bounds.iter().map(piece).collect())
    }

    #[test]
    fn a_fragment_is_cut_and_what_it_carries_has_not_changed() {
        let bounds = [(0, 16), (16, 64), (64, 76)];
        let (whole, pieces) = error_in_pieces(&bounds);
        for (piece, (begin, end)) in pieces.iter().zip(bounds) {
            let found = changes(&whole, piece);
            assert_eq!(found.last(), Some(&Change::Cut(begin, end)));
            for change in &found[..found.len() - 1] {
                assert!(matches!(change, Change::Changed(f, _) if f.name.starts_with("ip.") && f.nth == 0));
            }
            // On its way it is a fragment like before.
            assert_eq!(changes(piece, piece), []);
        }
        // Annotations, which are no bytes of the packet, stay.
        let anno = |value: &str| Field { name: "anno.paint", nth: 0, value: value.into() };
        let [before, after] =
            [(&whole, "1"), (&pieces[0], "2")].map(|(all, n)| [all, &[anno(n)][..]].concat());
        assert!(changes(&before, &after).contains(&Change::Changed(anno("1"), "2".into())));
        // One that is cut once more.
        let smaller = error_in_pieces(&[(16, 32)]).1.remove(0);
        assert_eq!(changes(&pieces[1], &smaller).last(), Some(&Change::Cut(16, 32)));
        // What was cut off in another way is said.
        let mut bytes = vec![0x45, 0, 0, 96, 0, 7, 0, 0, 64, 1, 0, 0, 1, 2, 3, 4, 10, 0, 0, 1];
        bytes.extend([11, 0, 0, 0, 0, 0, 0, 0]);
        let short = changes(&whole, &fields(&bytes, First::Ip));
        assert_eq!(short[..2], [Change::Removed("quoted ip"), Change::Removed("quoted udp")], "{short:?}");
    }

    #[test]
    fn a_fragment_of_version_6_is_cut_too() {
        let mut whole = vec![0x60, 0, 0, 0, 0, 40, 17, 64];
        whole.extend([0x20; 32]);
        whole.extend([0, 1, 0, 2, 0, 40, 0, 0]);
        whole.extend(0..32);
        let mut piece = whole[..40].to_vec();
        (piece[5], piece[6]) = (32, 44);
        piece.extend([17, 0, 0, 17, 0, 0, 0, 7]);
        piece.extend(&whole[56..80]);
        let found = changes(&fields(&whole, First::Ip), &fields(&piece, First::Ip));
        assert_eq!(found.last(), Some(&Change::Cut(16, 40)));
        assert!(found.iter().all(|change| *change != Change::Removed("udp")), "{found:?}");
    }

    #[test]
    fn a_fragment_that_comes_out_of_a_tunnel_is_not_cut() {
        let (_, pieces) = error_in_pieces(&[(16, 64)]);
        let mut tunnel = vec![0x45, 0, 0, 88, 0, 8, 0, 0, 64, 4, 0, 0, 9, 9, 9, 9, 8, 8, 8, 8];
        let mut inner = vec![0x45, 0, 0, 68, 0, 7, 0x20, 2, 64, 1, 0, 0, 1, 2, 3, 4, 10, 0, 0, 1];
        inner.extend([0; 48]);
        tunnel.extend(&inner);
        let found = changes(&fields(&tunnel, First::Ip), &fields(&inner, First::Ip));
        assert_eq!(found.last(), Some(&Change::Removed("ip")), "{found:?}");
        assert!(cut(&fields(&tunnel, First::Ip), &pieces[0]).is_none());
    }

    fn ping() -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 1, 9];
        bytes.extend([8, 0, 0x12, 0x34, 0, 5, 0, 6, 0xaa, 0xbb]);
        bytes
    }

    fn value<'a>(all: &'a [Field], name: &str) -> Option<&'a str> {
        all.iter().find(|f| f.name == name).map(|f| f.value.as_str())
    }

    #[test]
    fn headers_are_taken_apart() {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0x60, 0x05, 8, 0];
        frame.extend(ping());
        frame.extend([0; 3]);
        let all = fields(&frame, First::Ethernet);
        for (name, want) in [
            ("eth.dst", "02:00:00:00:00:01"),
            ("eth.type", "0x8100"),
            ("vlan.priority", "3"),
            ("vlan.id", "5"),
            ("ip.ttl", "64"),
            ("ip.flags.df", "1"),
            ("ip.dst", "10.0.1.9"),
            ("icmp.type", "8"),
            ("icmp.seq", "6"),
            ("data", "aabb"),
            ("eth.padding", "000000"),
        ] {
            assert_eq!(value(&all, name), Some(want), "{name}");
        }
    }

    #[test]
    fn lengths_and_quotes_end_where_they_say() {
        // A datagram of 10 bytes in a packet that has room for 13.
        let mut bytes = vec![0x45, 0, 0, 33, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, 9];
        bytes.extend([0, 1, 0, 2, 0, 10, 0, 0, 0xaa, 0xbb, 1, 2, 3]);
        let all = fields(&bytes, First::Ip);
        assert_eq!((value(&all, "data"), value(&all, "udp.surplus")), (Some("aabb"), Some("010203")));
        // An error that quotes it, with an extension behind it.
        let mut error = vec![0x45, 0, 0, 63, 0, 7, 0, 0, 64, 1, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1];
        error.extend([11, 0, 0, 0, 0, 0, 0, 0]);
        error.extend(&bytes);
        error.extend([0x20, 0]);
        let all = fields(&error, First::Ip);
        let sources: Vec<_> = all.iter().filter(|f| f.name == "ip.src").map(|f| (f.nth, &*f.value)).collect();
        assert_eq!(sources, [(0, "10.0.0.9"), (1, "10.0.0.1")]);
        assert_eq!((value(&all, "data"), value(&all, "eth.padding")), (Some("2000"), None));
        // Addresses of another kind are no Ethernet addresses.
        let mut arp = vec![0; 12];
        arp.extend([8, 6, 0, 6, 8, 0, 6, 4]);
        arp.extend([0; 22]);
        assert_eq!(value(&fields(&arp, First::Ethernet), "data.len"), Some("28"));
    }

    #[test]
    fn changes_are_found_by_field_and_by_header() {
        let before = fields(&ping(), First::Ip);
        let mut bytes = ping();
        bytes[8] = 63;
        let after = fields(&bytes, First::Ip);
        let [Change::Changed(field, now)] = &changes(&before, &after)[..] else { panic!() };
        assert_eq!((field.name, field.value.as_str(), now.as_str()), ("ip.ttl", "64", "63"));
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        frame.extend(&bytes);
        let framed = fields(&frame, First::Ethernet);
        let [Change::Added("eth", added)] = &changes(&after, &framed)[..] else { panic!() };
        assert_eq!(added.len(), 3);
        assert_eq!(changes(&framed, &after), [Change::Removed("eth")]);
        assert_eq!(changes(&framed, &framed), []);
    }

    #[test]
    fn any_end_is_stood() {
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        frame.extend(ping());
        for end in 0..frame.len() {
            fields(&frame[..end], First::Ethernet);
            fields(&frame[..end], First::Ip);
        }
        assert!(looks_like_ip(&ping()) && !looks_like_ip(&frame) && !looks_like_ip(&[]));
    }
}
