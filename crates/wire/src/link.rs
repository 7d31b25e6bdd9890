// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the IP packet begins behind the link headers that capture files know.
//!
//! A file names the header of its packets by a number of tcpdump's list, <https://www.tcpdump.org/linktypes.html>.
//!
//! [`find_ip`] knows the types of that list in which IP packets commonly stand. It looks through VLAN tags, LLC and SNAP,
//! PPPoE and MPLS. Nothing is allocated, and each header is looked at once, so a packet costs no more than its length.

mod names;

pub use names::name;

use Found::{Ip, NotIp, Unknown};

/// What was found behind a link header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// An IP packet begins at this byte. Whether it is sound is for others to see.
    Ip(usize),
    /// The packet is of another kind, or ends within its link header.
    NotIp,
    /// Nothing is known of such link headers.
    Unknown,
}

/// Whether IP packets can be found behind link headers of this type.
pub fn is_known(link: u32) -> bool {
    find_ip(link, &[]) != Unknown
}

/// Finds the IP packet in a captured packet that begins with a link header of type `link`.
pub fn find_ip(link: u32, data: &[u8]) -> Found {
    let known = |place: Option<usize>| place.map_or(NotIp, Ip);
    match link {
        // Address family in the writer's order, or in the network's; the packet itself says which IP it is.
        0 | 108 => known(Some(4)),
        1 => known(ethernet(data, 0)),
        3 => known(amateur_radio(data, 0)),
        6 => known(token_ring(data)),
        7 => known(arcnet(data, 2)),
        // A direction and a compressed header before each packet.
        8 => known(Some(16)),
        9 => known(ppp(data, 0)),
        10 => known(fddi(data)),
        50 => known(serial(data, 0)),
        51 => known(pppoe(data, 0)),
        // The second form of this firewall's header; in the third one that place holds zeros.
        99 => known(be16(data, 6).filter(|kind| *kind > 1500).and_then(|kind| payload(data, kind, 44))),
        100 | 106 => known(llc(data, 0)),
        101 | 12 | 14 | 228 | 229 => known(Some(0)),
        104 => known(cisco(data, 0)),
        105 => known(wireless(data, 0)),
        107 => known(frame_relay(data, 0)),
        109 => known(Some(12)),
        113 => known(cooked(data, 14, 16)),
        117 => known(data.first().map(|len| usize::from(*len).next_multiple_of(4))),
        119 => known(prism(data).and_then(|at| wireless(data, at))),
        122 => known(llc(data, 16)),
        123 => known(sun_atm(data)),
        127 => known(le16(data, 2).and_then(|len| wireless(data, len.into()))),
        128 => known(sniffed_elsewhere(data)),
        129 => known(arcnet(data, 4)),
        138 => known(be16(data, 16).and_then(|kind| payload(data, kind, 18))),
        143 => known(cable_modem(data)),
        163 => known(be32(data, 4).and_then(|len| wireless(data, len as usize))),
        // The address byte says the direction.
        166 => known(ppp(data, 2)),
        192 => per_packet_information(data),
        197 => erf(data),
        202 => known(amateur_radio(data, 1)),
        204 => known(ppp(data, 1)),
        205 => known(cisco(data, 1)),
        206 => known(frame_relay(data, 1)),
        219 => known(mpls(data, 0)),
        226 => known(Some(24)),
        239 => known(netfilter_log(data)),
        240 => known(ethernet(data, 4)),
        // Four bytes of the analyzer's, then the preamble.
        241 => known(ethernet(data, 12)),
        242 => known(be16(data, 40).and_then(|kind| payload(data, kind, 44))),
        258 => packet_tap(data),
        259 | 274 => known(ethernet(data, 8)),
        276 => known(cooked(data, 0, 20)),
        // A switch's tag of four bytes behind the addresses, or before them; or of eight bytes with a type of its own.
        281 | 284 => known(be16(data, 16).and_then(|kind| payload(data, kind, 18))),
        282 => known(ethernet(data, 4)),
        285 => known(be16(data, 20).and_then(|kind| payload(data, kind, 22))),
        _ => Unknown,
    }
}

fn be16(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

fn le16(data: &[u8], at: usize) -> Option<u16> {
    be16(data, at).map(u16::swap_bytes)
}

fn be32(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// What the Ethernet type before byte `at` says of what begins there.
fn payload(data: &[u8], mut kind: u16, mut at: usize) -> Option<usize> {
    loop {
        match kind {
            0x0800 | 0x86dd => return Some(at),
            // VLAN tags.
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => (kind, at) = (be16(data, at + 2)?, at + 4),
            0x8847 | 0x8848 => return mpls(data, at),
            0x8864 => return pppoe(data, at),
            // A length: LLC follows.
            0..=1500 => return llc(data, at),
            _ => return None,
        }
    }
}

fn ethernet(data: &[u8], at: usize) -> Option<usize> {
    payload(data, be16(data, at + 12)?, at + 14)
}

/// The last entry of a label stack is marked (RFC 3032); what follows has to say itself what it is.
fn mpls(data: &[u8], mut at: usize) -> Option<usize> {
    while be32(data, at)? & 0x100 == 0 {
        at += 4;
    }
    matches!(data.get(at + 4)? >> 4, 4 | 6).then_some(at + 4)
}

/// A session packet (RFC 2516): version and type 1, code 0.
fn pppoe(data: &[u8], at: usize) -> Option<usize> {
    (be16(data, at)? == 0x1100).then(|| ppp(data, at + 6))?
}

/// PPP, with or without the address and control bytes of HDLC, and with a protocol of one byte or two (RFC 1661, 1662).
fn ppp(data: &[u8], mut at: usize) -> Option<usize> {
    if be16(data, at) == Some(0xff03) {
        at += 2;
    }
    let short = data.get(at)? & 1 == 1;
    let (protocol, at) = if short { (u16::from(data[at]), at + 1) } else { (be16(data, at)?, at + 2) };
    match protocol {
        0x21 | 0x57 => Some(at),
        0x281 | 0x283 => mpls(data, at),
        _ => None,
    }
}

/// A serial line: PPP, or Cisco's HDLC with its own addresses.
fn serial(data: &[u8], at: usize) -> Option<usize> {
    if matches!(data.get(at)?, 0x0f | 0x8f) { cisco(data, at) } else { ppp(data, at) }
}

/// Address, control, Ethernet type.
fn cisco(data: &[u8], at: usize) -> Option<usize> {
    payload(data, be16(data, at + 2)?, at + 4)
}

/// IEEE 802.2, mostly with SNAP (RFC 1042).
fn llc(data: &[u8], at: usize) -> Option<usize> {
    let [dsap, ssap, control] = *data.get(at..)?.first_chunk()?;
    match (dsap, ssap, control) {
        (0xaa, 0xaa, 3) => {
            let (organization, kind) = (data.get(at + 3..at + 6)?, be16(data, at + 6)?);
            // A length is no type here.
            (organization == [0; 3] && kind > 1500).then(|| payload(data, kind, at + 8))?
        }
        (0x06, 0x06, 3) => Some(at + 3),
        // NLPIDs of routed packets (RFC 2684, 5.1).
        (0xfe, 0xfe, 3) => matches!(data.get(at + 3)?, 0xcc | 0x8e).then_some(at + 4),
        _ => None,
    }
}

/// Access and frame control, two addresses, and a route if the source says so.
fn token_ring(data: &[u8]) -> Option<usize> {
    let routed = data.get(8)? & 0x80 != 0;
    // The frame control's upper bits say that LLC follows.
    let is_llc = data.get(1)? & 0xc0 == 0x40;
    let route = if routed { usize::from(data.get(14)? & 0x1f) } else { 0 };
    is_llc.then(|| llc(data, 14 + route))?
}

fn fddi(data: &[u8]) -> Option<usize> {
    (data.first()? & 0x30 == 0x10).then(|| llc(data, 13))?
}

/// ARCNET with the protocol at byte `kind_at` (RFC 1201; RFC 1051 for the older one).
fn arcnet(data: &[u8], kind_at: usize) -> Option<usize> {
    match data.get(kind_at)? {
        0xf0 => Some(kind_at + 1),
        // A split flag and a number; exception packets have them a second time. Later fragments hold no header.
        0xd4 | 0xc4 => match data.get(kind_at + 1)? {
            0xff => Some(kind_at + 8),
            flag if *flag == 0 || flag & 1 == 1 => Some(kind_at + 4),
            _ => None,
        },
        _ => None,
    }
}

/// Linux' "cooked" header, which has an Ethernet type or a number of Linux' own.
fn cooked(data: &[u8], kind_at: usize, at: usize) -> Option<usize> {
    match be16(data, kind_at)? {
        4 => llc(data, at),
        // Ethernet's numbers below 1536 are no lengths here.
        kind if kind < 1536 => None,
        kind => payload(data, kind, at),
    }
}

/// Flags, virtual path and channel; then LLC.
fn sun_atm(data: &[u8]) -> Option<usize> {
    (data.first()? & 0x0f == 2).then(|| llc(data, 4))?
}

/// Q.922 address of two bytes or more, then a control byte and NLPID (RFC 2427), or with Cisco's form an Ethernet type.
fn frame_relay(data: &[u8], mut at: usize) -> Option<usize> {
    let begin = at;
    while data.get(at)? & 1 == 0 && at < begin + 3 {
        at += 1;
    }
    at += 1;
    if *data.get(at)? != 3 {
        return payload(data, be16(data, at)?.max(1501), at + 2);
    }
    // One byte of padding may stand before the NLPID.
    at += if *data.get(at + 1)? == 0 { 2 } else { 1 };
    match data.get(at)? {
        0xcc | 0x8e => Some(at + 1),
        0x80 => {
            let (organization, kind) = (data.get(at + 1..at + 4)?, be16(data, at + 4)?);
            (organization == [0; 3]).then(|| payload(data, kind.max(1501), at + 6))?
        }
        _ => None,
    }
}

/// IEEE 802.11: data frames that are neither encrypted nor aggregates, and hold data.
fn wireless(data: &[u8], at: usize) -> Option<usize> {
    let [control, flags] = *data.get(at..)?.first_chunk()?;
    let (is_data, null, qos) = (control & 0x0c == 0x08, control & 0x40 != 0, control & 0x80 != 0);
    let protected = flags & 0x40 != 0;
    if !is_data || null || protected {
        return None;
    }
    // A fourth address between two access points, then quality of service, and its long form.
    let mut len = if flags & 3 == 3 { 30 } else { 24 };
    if qos {
        if data.get(at + len)? & 0x80 != 0 {
            return None;
        }
        len += if flags & 0x80 != 0 { 6 } else { 2 };
    }
    llc(data, at + len)
}

/// AX.25: addresses of seven bytes, of which the last one is marked; then control and protocol.
fn amateur_radio(data: &[u8], mut at: usize) -> Option<usize> {
    while data.get(at + 6)? & 1 == 0 {
        at += 7;
    }
    let [control, protocol] = *data.get(at + 7..)?.first_chunk()?;
    ((control, protocol) == (0x03, 0xcc)).then_some(at + 9)
}

/// TZSP: version, type, the kind of what follows, and tags up to the one that ends them.
fn sniffed_elsewhere(data: &[u8]) -> Option<usize> {
    const PADDING: u8 = 0;
    const END: u8 = 1;
    let (kind, mut at) = (be16(data, 2)?, 4);
    loop {
        at += match *data.get(at)? {
            PADDING => 1,
            END => break,
            _ => 2 + usize::from(*data.get(at + 1)?),
        };
    }
    match kind {
        1 => ethernet(data, at + 1),
        18 => wireless(data, at + 1),
        _ => None,
    }
}

/// DOCSIS: packets, whose header may be extended, and not the messages of cable modems.
fn cable_modem(data: &[u8]) -> Option<usize> {
    let [control, extended] = *data.first_chunk()?;
    let len = if control & 1 == 1 { usize::from(extended) } else { 0 };
    (control >> 6 == 0).then(|| ethernet(data, 6 + len))?
}

/// The length of a Prism header, or of the AVS header that some drivers put there instead.
fn prism(data: &[u8]) -> Option<usize> {
    if be32(data, 0)? & 0xffff_f000 == 0x8021_1000 {
        return be32(data, 4).map(|len| len as usize);
    }
    // In the writer's order: the shorter reading is the length.
    let len = be32(data, 4)?;
    Some(len.min(len.swap_bytes()) as usize)
}

/// A header of its own around a packet of another type.
fn per_packet_information(data: &[u8]) -> Found {
    let (Some(len), Some(link)) = (le16(data, 2), be32(data, 4).map(u32::swap_bytes)) else { return NotIp };
    let Some(inner) = data.get(usize::from(len)..).filter(|_| len >= 8) else { return NotIp };
    match link {
        // Once in itself is enough.
        192 | 258 => NotIp,
        _ => moved(find_ip(link, inner), len.into()),
    }
}

/// Darwin's header of its own around a packet of another type: length, kind of record, link type, in little endian.
fn packet_tap(data: &[u8]) -> Found {
    let word = |at| be32(data, at).map(u32::swap_bytes);
    let (Some(len), Some(link)) = (word(0), word(8)) else { return NotIp };
    match data.get(len as usize..) {
        // Once in itself is enough.
        Some(inner) if len >= 12 && !matches!(link, 192 | 258) => moved(find_ip(link, inner), len as usize),
        _ => NotIp,
    }
}

/// Endace's record: a header of 16 bytes, extension headers of 8 as long as one says so, then the type's frame.
fn erf(data: &[u8]) -> Found {
    let frame = || {
        let kind = *data.get(8)?;
        let (mut more, mut at) = (kind & 0x80 != 0, 16);
        while more {
            more = data.get(at)? & 0x80 != 0;
            at += 8;
        }
        match kind & 0x7f {
            1 => serial(data, at),
            // Two bytes of padding before the frame.
            2 | 11 | 16 => ethernet(data, at + 2),
            22 | 23 => Some(at),
            _ => None,
        }
    };
    frame().map_or(NotIp, Ip)
}

/// Linux' netfilter log: attributes, one of which is the packet.
fn netfilter_log(data: &[u8]) -> Option<usize> {
    const PAYLOAD: u16 = 9;
    let mut at = 4;
    loop {
        let len = usize::from(le16(data, at)?);
        if le16(data, at + 2)? & 0x7fff == PAYLOAD {
            return Some(at + 4);
        }
        // An attribute is at least its own header.
        at += len.max(4).next_multiple_of(4);
    }
}

fn moved(found: Found, by: usize) -> Found {
    match found {
        Ip(at) => Ip(at + by),
        other => other,
    }
}
