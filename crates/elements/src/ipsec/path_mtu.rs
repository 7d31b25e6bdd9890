// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecPathMTU
//!
//! `IPsecPathMTU(DATABASE)`
//!
//! Learns from ICMP errors about ESP packets how long packets may be on the way to a tunnel's other end.
//!
//! A gateway has it on the way of packets for its own addresses. A router between the gateways that drops an ESP packet as too long says so to the gateway that sent it, which must pass this
//! on to the hosts behind it. So the element notes it for the association, and IPsecEncrypt answers the hosts' next packets.
//!
//! **Ports:** one input, one output. All packets pass unchanged.
//!
//! **Arguments**
//! * `DATABASE` the IPsecDatabase.
//!
//! What counts is "fragmentation needed" (ICMP) and "packet too big" (ICMPv6). Nobody signs these, so anybody may forge them. The element believes one only if it quotes the addresses, the SPI and, with UDP
//! around ESP, the ports of an association, a sequence number that was sent a short while ago, and a length above the new MTU. What it learns counts for ten minutes, is no less than 576 bytes
//! (IPv4) or 1280 bytes (IPv6), and never makes a path's MTU larger.
//!
//! **Metadata:** packets begin with their IP header.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `learned` read: messages that were believed. `ignored` read: such messages about ESP that were not.
//!
//! ```click
//! db :: IPsecDatabase();
//! Idle -> CheckIPHeader -> c :: IPClassifier(ip proto 50 or dst udp port 4500, -);
//! c[0] -> IPsecDecrypt(db) -> Discard; c[1] -> IPsecPathMTU(db) -> Discard;
//! ```
//!
//! See also: IPsecDatabase, IPsecEncrypt, ICMPError. RFC 4301 (8.2), RFC 1191, RFC 8201

use std::net::IpAddr;
use std::sync::Arc;

use element::args::Args;
use element::swap::Count;
use element::{Class, Cx, Element, InitCx, carries, handlers};
use ipsec::Database;
use packet::Batch;
use sync::rcu::Reader;
use wire::{Protocol, icmpv4, icmpv6, ipv4, ipv6};

use super::database;

/// The descriptor.
pub const CLASS: Class = Class::new("IPsecPathMTU", "1/1", || Box::new(IpsecPathMtu::default()))
    .handlers(handlers! { IpsecPathMtu:
        sum "learned" => .learned;
        sum "ignored" => .ignored;
    })
    .hot_swap::<IpsecPathMtu>()
    .file(file!());

/// The code of "fragmentation needed" (RFC 792).
const NEEDS_FRAGMENTS: u8 = 4;
/// Packets that an association may have sent since the quoted one. At 10 million a second, that is 400 ms.
const RECENT: u32 = 1 << 22;
/// Bytes of the fields of ESP that a message must quote: SPI and sequence number.
const ESP_LEN: usize = 8;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;

#[derive(Clone, Default)]
struct IpsecPathMtu {
    name: String,
    database: Option<Arc<Database>>,
    learned: Count,
    ignored: Count,
}

/// What an ICMP error says of an ESP packet that was too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TooLong {
    src: IpAddr,
    dst: IpAddr,
    /// Source and destination port of UDP around it.
    udp: Option<(u16, u16)>,
    spi: u32,
    /// Lower half of the sequence number.
    number: u32,
    /// Its length in bytes.
    len: u32,
    /// The longest packet that would have passed, in bytes.
    mtu: u32,
}

/// Reads an ICMP error about an ESP packet that was too long. `None` if it is something else.
fn read(packet: &[u8]) -> Option<TooLong> {
    match packet.first()? >> 4 {
        4 => read4(packet),
        6 => read6(packet),
        _ => None,
    }
}

fn read4(packet: &[u8]) -> Option<TooLong> {
    // Nearly all packets end here.
    if packet.get(9)? != &Protocol::ICMP.0 {
        return None;
    }
    let view = ipv4::View::new_checked(packet).ok()?;
    let message = icmpv4::View::new_checked(view.payload()).ok()?;
    let says_it = message.kind() == icmpv4::Type::UNREACHABLE && message.code() == NEEDS_FRAGMENTS;
    if !says_it || view.fragment() & !ipv4::FLAG_DF != 0 || !message.checksum_ok() {
        return None;
    }
    let quoted = message.quoted().ok()?;
    if quoted.fragment() & !(ipv4::FLAG_DF | ipv4::FLAG_MF) != 0 {
        return None;
    }
    let ends = (quoted.src().into(), quoted.dst().into());
    esp(ends, quoted.protocol(), quoted.payload(), (quoted.total_len().into(), message.next_hop_mtu().into()))
}

fn read6(packet: &[u8]) -> Option<TooLong> {
    let view = ipv6::View::new_checked(packet).ok()?;
    let upper = view.upper_layer().ok()?;
    if upper.protocol != Protocol::ICMPV6 || upper.fragment.is_some() {
        return None;
    }
    let message = icmpv6::View::new_checked(view.payload().get(upper.offset..)?).ok()?;
    if message.kind() != icmpv6::Type::PACKET_TOO_BIG || !message.checksum_ok(view.src(), view.dst()) {
        return None;
    }
    let quoted = message.quoted().ok()?;
    // The gateway may have sent it in fragments.
    let upper = quoted.upper_layer().ok()?;
    if upper.fragment.is_some_and(|fragment| fragment.offset != 0) {
        return None;
    }
    let ends = (quoted.src().into(), quoted.dst().into());
    let len = ipv6::HEADER_LEN as u32 + u32::from(quoted.payload_len());
    esp(ends, upper.protocol, quoted.payload().get(upper.offset..)?, (len, message.rest()))
}

fn esp(
    (src, dst): (IpAddr, IpAddr),
    protocol: Protocol,
    payload: &[u8],
    (len, mtu): (u32, u32),
) -> Option<TooLong> {
    let (udp, esp) = match protocol {
        Protocol::ESP => (None, payload),
        Protocol::UDP => {
            let &[a, b, c, d] = payload.first_chunk()?;
            (Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))), payload.get(UDP_LEN..)?)
        }
        _ => return None,
    };
    let &[a, b, c, d, e, f, g, h] = esp.first_chunk::<ESP_LEN>()?;
    let (spi, number) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    Some(TooLong { src, dst, udp, spi, number, len, mtu })
}

/// Notes what an error says, if it is about a packet of an association. Returns whether it is.
fn learn(database: &Database, reader: &Reader, said: TooLong, now_ns: u64) -> bool {
    let Some(association) = database.inbound(said.dst, said.spi, reader) else { return false };
    let sent = association.sa.sent();
    // Without extended numbers, the upper half is zero.
    let is_recent = said.number != 0
        && (sent as u32).wrapping_sub(said.number) < RECENT
        && (u64::from(said.number) <= sent || sent > u64::from(u32::MAX));
    let ports = association.sa.udp().map(|ports| (ports.from, ports.to));
    let is_ours = association.config.src == said.src && ports == said.udp && is_recent;
    // Routers that know nothing of path MTU discovery say 0 (RFC 1191, 5).
    let is_sound = said.mtu != 0 && said.mtu < said.len;
    if let (true, Ok(mtu)) = (is_ours && is_sound, said.mtu.try_into()) {
        association.set_path_mtu(mtu, now_ns);
        return true;
    }
    false
}

impl Element for IpsecPathMtu {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.name = args.required("DATABASE");
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.database = Some(database::find(cx, &self.name)?);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let Some(database) = &self.database else { return batch };
        for said in batch.iter().filter_map(|packet| read(packet.data())) {
            let now_ns = cx.now();
            match learn(database, cx.rcu(), said, now_ns) {
                true => self.learned += 1,
                false => self.ignored += 1,
            }
        }
        batch
    }
}

carries!(IpsecPathMtu: learned, ignored; anew name, database);

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::super::database::tests::KEY;
    use crate::testing::Rig;
    use ipsec::{Database, Id};
    use wire::{Protocol, checksum, icmpv4, icmpv6, ipv4, ipv6};

    /// Bytes of ESP behind an outer header: SPI and sequence number.
    fn esp(spi: u32, number: u32) -> Vec<u8> {
        [spi.to_be_bytes(), number.to_be_bytes()].concat()
    }

    fn packet4([src, dst]: [u8; 2], protocol: Protocol, len: u16, payload: &[u8]) -> Vec<u8> {
        let [src, dst] = [src, dst].map(|host| Ipv4Addr::from([192, 0, 2, host]));
        let mut bytes = vec![0; 20 + payload.len()];
        let repr = ipv4::Repr {
            src,
            dst,
            protocol,
            payload_len: len - 20,
            ttl: 60,
            tos: 0,
            id: 1,
            fragment: ipv4::FLAG_DF,
        };
        repr.emit(&mut bytes).unwrap();
        bytes[20..].copy_from_slice(payload);
        bytes
    }

    fn packet6([src, dst]: [u16; 2], next_header: Protocol, len: u16, payload: &[u8]) -> Vec<u8> {
        let [src, dst] = [src, dst].map(|host| Ipv6Addr::from([0x2001, 0xdb8, 9, 0, 0, 0, 0, host]));
        let mut bytes = vec![0; 40 + payload.len()];
        let repr =
            ipv6::Repr { src, dst, next_header, payload_len: len - 40, hop_limit: 60, ..Default::default() };
        repr.emit(&mut bytes).unwrap();
        bytes[40..].copy_from_slice(payload);
        bytes
    }

    /// "Fragmentation needed" from a router at 192.0.2.9 to the gateway at 192.0.2.1.
    fn needs_fragments(mtu: u16, quoted: &[u8]) -> Vec<u8> {
        let mut message = [
            &[icmpv4::Type::UNREACHABLE.0, super::NEEDS_FRAGMENTS, 0, 0, 0, 0][..],
            &mtu.to_be_bytes(),
            quoted,
        ]
        .concat();
        let sum = checksum::internet(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        packet4([9, 1], Protocol::ICMP, 20 + message.len() as u16, &message)
    }

    fn too_big(mtu: u32, quoted: &[u8]) -> Vec<u8> {
        let mut message =
            [&[icmpv6::Type::PACKET_TOO_BIG.0, 0, 0, 0][..], &mtu.to_be_bytes(), quoted].concat();
        let mut packet = packet6([9, 1], Protocol::ICMPV6, 40 + message.len() as u16, &message);
        let view = ipv6::View::new_checked(&packet).unwrap();
        icmpv6::View::new_checked(&mut message).unwrap().fill_checksum(view.src(), view.dst());
        packet[40..].copy_from_slice(&message);
        packet
    }

    /// The path's MTU after these messages, if one was learnt; and how many were believed and not. The association has sent 1000 packets.
    fn after(sa: &str, messages: &[Vec<u8>]) -> (Option<u16>, [String; 2]) {
        let text = format!(
            "d :: IPsecDatabase(SA {sa} spi 0x100 mode tunnel aead aes-gcm {KEY} 128 progress 1000 0 0x);
            i :: TestIn -> e :: IPsecPathMTU(d) -> o0 :: TestOut;"
        );
        let inputs: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let mut run = Rig::text(&text).inputs(&inputs).run();
        assert_eq!(run.bytes("o0"), messages);
        let database = run.provided::<Database>("d").unwrap();
        let dst = if sa.contains(':') { "2001:db8:9::2" } else { "192.0.2.2" };
        let association = database.association(Id { dst: dst.parse().unwrap(), spi: 0x100 }).unwrap();
        let mtu = Some(association.path_mtu(0)).filter(|mtu| *mtu != u16::MAX);
        (mtu, ["e.learned", "e.ignored"].map(|handler| run.read(handler)))
    }

    fn counts(learned: u32, ignored: u32) -> [String; 2] {
        [learned, ignored].map(|count| count.to_string())
    }

    const FOUR: &str = "src 192.0.2.1 dst 192.0.2.2";
    const SIX: &str = "src 2001:db8:9::1 dst 2001:db8:9::2";

    #[test]
    fn messages_about_packets_of_an_association_are_believed() {
        let quoted = packet4([1, 2], Protocol::ESP, 1500, &esp(0x100, 1000));
        assert_eq!(after(FOUR, &[needs_fragments(1400, &quoted)]), (Some(1400), counts(1, 0)));
        assert_eq!(after(FOUR, &[needs_fragments(68, &quoted)]), (Some(576), counts(1, 0)));
        let both = [needs_fragments(1300, &quoted), needs_fragments(1400, &quoted)];
        assert_eq!(after(FOUR, &both), (Some(1300), counts(2, 0)), "it does not grow");
        let udp = [&[0x11, 0x94, 0x11, 0x95, 0, 0, 0, 0][..], &esp(0x100, 7)].concat();
        let quoted = packet4([1, 2], Protocol::UDP, 1500, &udp);
        let by_udp = format!("{FOUR} encap espinudp 4500 4501 0.0.0.0");
        assert_eq!(after(&by_udp, &[needs_fragments(1400, &quoted)]), (Some(1400), counts(1, 0)));
        let whole = packet6([1, 2], Protocol::ESP, 1500, &esp(0x100, 1000));
        let fragment = [&[50, 0, 0, 1, 0, 0, 0, 7][..], &esp(0x100, 1000)].concat();
        let fragment = packet6([1, 2], Protocol::IPV6_FRAGMENT, 1500, &fragment);
        for quoted in [whole, fragment] {
            assert_eq!(after(SIX, &[too_big(1400, &quoted)]), (Some(1400), counts(1, 0)));
            assert_eq!(after(SIX, &[too_big(9, &quoted)]), (Some(1280), counts(1, 0)));
        }
    }

    #[test]
    fn others_are_not() {
        let four = |ends, spi, number| packet4(ends, Protocol::ESP, 1500, &esp(spi, number));
        let good = four([1, 2], 0x100, 1000);
        let udp = [&[0x11, 0x94, 0x11, 0x94, 0, 0, 0, 0][..], &esp(0x100, 7)].concat();
        let about = [
            four([3, 2], 0x100, 1000),
            four([1, 3], 0x100, 1000),
            four([1, 2], 0x101, 1000),
            four([1, 2], 0x100, 1001),
            four([1, 2], 0x100, 0),
            packet4([1, 2], Protocol::UDP, 1500, &udp),
        ];
        let mut messages: Vec<_> = about.iter().map(|quoted| needs_fragments(1400, quoted)).collect();
        messages.extend([needs_fragments(0, &good), needs_fragments(1500, &good)]);
        assert_eq!(after(FOUR, &messages), (None, counts(0, 8)));
        // These are not about ESP, or none of those messages.
        let mut forged = needs_fragments(1400, &good);
        forged[22] ^= 1;
        let mut other = needs_fragments(1400, &good);
        other[21] = 3;
        let cut = needs_fragments(1400, &good[..27]);
        let tcp = needs_fragments(1400, &packet4([1, 2], Protocol::TCP, 1500, &[0; 8]));
        assert_eq!(after(FOUR, &[forged, other, cut, tcp, good, vec![0x45]]), (None, counts(0, 0)));
        let six = packet6([1, 2], Protocol::ESP, 1500, &esp(0x100, 1001));
        assert_eq!(after(SIX, &[too_big(1400, &six), vec![0x60]]), (None, counts(0, 1)));
    }
}
