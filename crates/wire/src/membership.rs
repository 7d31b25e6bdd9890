// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who wants which multicast group: the messages of IGMP (RFC 1112, 2236, 3376) and MLD (RFC 2710, 3810) in one form, as a
//! switch needs them that forwards groups only where they are wanted (RFC 4541).
//!
//! [`of_ipv4`] and [`of_ipv6`] take a whole IP packet and check it to its end: a length, a checksum or a count of records that does not fit is
//! refused, and nothing can be learned from half a message. Of sources within a group one bit is reported: whether any are wanted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::header::{load_at, range};
use crate::{Error, Protocol, icmpv6, igmp, ipv4, ipv6};

const IGMP: &str = "IGMP";
const MLD: &str = "MLD";

/// Bytes of an IGMPv3 query, an IGMPv3 report and the head of a record in it, without sources.
const IGMP_QUERY_V3_LEN: usize = 12;
const IGMP_RECORD_LEN: usize = 8;
/// Bytes of an MLDv1 message, an MLDv2 query without sources, and the head of a record.
const MLD_LEN: usize = 24;
const MLD_QUERY_V2_LEN: usize = 28;
const MLD_RECORD_LEN: usize = 20;

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A router asks who wants a group; `None`: who wants any.
    Query {
        /// The group.
        group: Option<IpAddr>,
        /// Hosts answer within this time.
        max_response_ms: u32,
    },
    /// A host wants groups, or no longer.
    Report(Records<'a>),
}

/// What a host says of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// It wants at least something of it.
    Join(IpAddr),
    /// It wants nothing of it any more.
    Leave(IpAddr),
    /// Of some sources it wants nothing any more; of others, nobody knows.
    Less(IpAddr),
}

/// What a host says of groups, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Records<'a>(Source<'a>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source<'a> {
    One(Option<Wish>),
    /// Records that were checked, of IPv4 or IPv6.
    Igmp(&'a [u8]),
    Mld(&'a [u8]),
}

impl Iterator for Records<'_> {
    type Item = Wish;

    fn next(&mut self) -> Option<Wish> {
        match &mut self.0 {
            Source::One(wish) => wish.take(),
            Source::Igmp(bytes) => {
                let (kind, sources, len) = record(bytes, IGMP_RECORD_LEN, 4)?;
                let group = load_at::<Ipv4Addr>(bytes, 4);
                *bytes = range(bytes, len, usize::MAX);
                Some(wish(kind, sources, group.into()))
            }
            Source::Mld(bytes) => {
                let (kind, sources, len) = record(bytes, MLD_RECORD_LEN, 16)?;
                let group = load_at::<Ipv6Addr>(bytes, 4);
                *bytes = range(bytes, len, usize::MAX);
                Some(wish(kind, sources, group.into()))
            }
        }
    }
}

/// Type, number of sources and length of the record at the front of `bytes`, where its head is there.
fn record(bytes: &[u8], head_len: usize, source_len: usize) -> Option<(u8, usize, usize)> {
    let auxiliary_words: u8 = load_at(bytes, 1);
    let sources = usize::from(load_at::<u16>(bytes, 2));
    let len = head_len + sources * source_len + 4 * usize::from(auxiliary_words);
    (bytes.len() >= head_len).then(|| (load_at(bytes, 0), sources, len))
}

/// What the types of records mean (RFC 3376, 4.2.12; RFC 3810, 5.2.12).
fn wish(kind: u8, sources: usize, group: IpAddr) -> Wish {
    match kind {
        // MODE_IS_INCLUDE, CHANGE_TO_INCLUDE_MODE of no sources.
        1 | 3 if sources == 0 => Wish::Leave(group),
        // ALLOW_NEW_SOURCES of none.
        5 if sources == 0 => Wish::Less(group),
        1..=5 => Wish::Join(group),
        // BLOCK_OLD_SOURCES, and types that are not known, which RFC 3376 section 4.2.12 has us ignore.
        _ => Wish::Less(group),
    }
}

/// Checks that `count` records fit into `bytes`.
fn check_records(
    protocol: &'static str,
    bytes: &[u8],
    count: u16,
    head: usize,
    source: usize,
) -> Result<usize, Error> {
    let mut at = 0;
    for _ in 0..count {
        let rest = range(bytes, at, usize::MAX);
        Error::check_len(protocol, at + head, bytes.len())?;
        let (.., len) = record(rest, head, source).unwrap_or_default();
        Error::check_len(protocol, at + len, bytes.len())?;
        at += len;
    }
    Ok(at)
}

/// The message in an IPv4 packet, and who sent it; `None` where it is not of IGMP, or of a type that says nothing of members.
///
/// # Errors
/// What is wrong with the packet or the message.
pub fn of_ipv4(packet: &[u8]) -> Result<Option<(Ipv4Addr, Message<'_>)>, Error> {
    let view = ipv4::View::new_checked(packet)?;
    if view.protocol() != Protocol::IGMP {
        return Ok(None);
    }
    Error::check_field(view.checksum_ok(), "IPv4", "checksum", view.checksum().into(), "another")?;
    let whole = view.is_first_fragment() && !view.more_fragments();
    Error::check_field(whole, IGMP, "fragment offset", view.fragment_offset() as u32, "no fragment")?;
    let (start, end) = (view.header_len(), usize::from(view.total_len()));
    let src = view.src();
    let bytes = range(packet, start, end);
    Ok(of_igmp(bytes)?.map(|message| (src, message)))
}

fn of_igmp(bytes: &[u8]) -> Result<Option<Message<'_>>, Error> {
    let view = igmp::View::new_checked(bytes)?;
    Error::check_field(view.checksum_ok(), IGMP, "checksum", view.checksum().into(), "another")?;
    let (kind, group, code) = (view.kind(), view.group(), view.max_response());
    let one = |wish| Ok(Some(Message::Report(Records(Source::One(Some(wish))))));
    if matches!(kind, igmp::TYPE_REPORT_V1 | igmp::TYPE_REPORT_V2 | igmp::TYPE_LEAVE) {
        check_group(IGMP, group.is_multicast(), group.to_bits())?;
    }
    match kind {
        igmp::TYPE_REPORT_V1 | igmp::TYPE_REPORT_V2 => one(Wish::Join(group.into())),
        igmp::TYPE_LEAVE => one(Wish::Leave(group.into())),
        igmp::TYPE_QUERY => {
            let asked = !group.is_unspecified();
            check_group(IGMP, !asked || group.is_multicast(), group.to_bits())?;
            // Version 1 has no code: ten seconds (RFC 2236, section 4). Eight bytes are version 2, more are version 3.
            let tenths = match bytes.len() {
                igmp::HEADER_LEN if code == 0 => 100,
                igmp::HEADER_LEN => u32::from(code),
                len => {
                    Error::check_len(IGMP, IGMP_QUERY_V3_LEN, len)?;
                    let sources = usize::from(load_at::<u16>(bytes, 10));
                    Error::check_len(IGMP, IGMP_QUERY_V3_LEN + 4 * sources, len)?;
                    floating(code.into(), 4)
                }
            };
            let group = asked.then_some(group.into());
            Ok(Some(Message::Query { group, max_response_ms: tenths * 100 }))
        }
        igmp::TYPE_REPORT_V3 => {
            let count = load_at(bytes, 6);
            let records = range(bytes, igmp::HEADER_LEN, usize::MAX);
            let len = check_records(IGMP, records, count, IGMP_RECORD_LEN, 4)?;
            Ok(Some(Message::Report(Records(Source::Igmp(range(records, 0, len))))))
        }
        _ => Ok(None),
    }
}

fn check_group(protocol: &'static str, ok: bool, value: u32) -> Result<(), Error> {
    Error::check_field(ok, protocol, "group", value, "a multicast address")
}

/// A code with `bits` bits of mantissa below three of exponent, where the highest bit is set (RFC 3376, 4.1.1; RFC 3810, 5.1.3).
fn floating(code: u32, bits: u32) -> u32 {
    let highest = 1 << (bits + 3);
    if code < highest {
        return code;
    }
    let (mantissa, exponent) = (code & ((1 << bits) - 1), code >> bits & 7);
    (mantissa | 1 << bits) << (exponent + 3)
}

/// The message in an IPv6 packet, and who sent it; `None` where it is not of MLD.
///
/// # Errors
/// What is wrong with the packet or the message: RFC 3810 section 5 asks for a link-local source and a hop limit of 1.
pub fn of_ipv6(packet: &[u8]) -> Result<Option<(Ipv6Addr, Message<'_>)>, Error> {
    let view = ipv6::View::new_checked(packet)?;
    let (src, dst, hop_limit) = (view.src(), view.dst(), view.hop_limit());
    let payload = range(packet, ipv6::HEADER_LEN, ipv6::HEADER_LEN + usize::from(view.payload_len()));
    let upper = view.upper_layer()?;
    if upper.protocol != Protocol::ICMPV6 || upper.fragment.is_some() {
        return Ok(None);
    }
    let bytes = range(payload, upper.offset, usize::MAX);
    let Ok(icmp) = icmpv6::View::new_checked(bytes) else { return Ok(None) };
    let kind = icmp.kind();
    let known = [
        icmpv6::Type::MLD_QUERY,
        icmpv6::Type::MLD_REPORT,
        icmpv6::Type::MLD_DONE,
        icmpv6::Type::MLD2_REPORT,
    ];
    if !known.contains(&kind) {
        return Ok(None);
    }
    Error::check_field(icmp.checksum_ok(src, dst), MLD, "checksum", icmp.checksum().into(), "another")?;
    Error::check_field(hop_limit == 1, MLD, "hop limit", hop_limit.into(), "1")?;
    let local = src.is_unicast_link_local() || kind != icmpv6::Type::MLD_QUERY && src.is_unspecified();
    let top = (src.to_bits() >> 96) as u32;
    Error::check_field(local, MLD, "first bits of the source", top, "those of a link-local address")?;
    Ok(Some((src, of_mld(kind, bytes)?)))
}

fn of_mld(kind: icmpv6::Type, bytes: &[u8]) -> Result<Message<'_>, Error> {
    if kind == icmpv6::Type::MLD2_REPORT {
        let count = load_at(bytes, 6);
        let records = range(bytes, icmpv6::HEADER_LEN, usize::MAX);
        let len = check_records(MLD, records, count, MLD_RECORD_LEN, 16)?;
        return Ok(Message::Report(Records(Source::Mld(range(records, 0, len)))));
    }
    Error::check_len(MLD, MLD_LEN, bytes.len())?;
    let group = load_at::<Ipv6Addr>(bytes, 8);
    let top = (group.to_bits() >> 96) as u32;
    if kind != icmpv6::Type::MLD_QUERY {
        check_group(MLD, group.is_multicast(), top)?;
        let wish = if kind == icmpv6::Type::MLD_REPORT { Wish::Join } else { Wish::Leave };
        return Ok(Message::Report(Records(Source::One(Some(wish(group.into()))))));
    }
    let asked = !group.is_unspecified();
    check_group(MLD, !asked || group.is_multicast(), top)?;
    let code = u32::from(load_at::<u16>(bytes, 4));
    let max_response_ms = if bytes.len() == MLD_LEN {
        code
    } else {
        Error::check_len(MLD, MLD_QUERY_V2_LEN, bytes.len())?;
        let sources = usize::from(load_at::<u16>(bytes, 26));
        Error::check_len(MLD, MLD_QUERY_V2_LEN + 16 * sources, bytes.len())?;
        floating(code, 12)
    };
    Ok(Message::Query { group: asked.then_some(group.into()), max_response_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use proptest::prelude::*;

    /// An IPv4 packet that carries this IGMP message, its checksums made right.
    fn igmp_packet(message: &[u8]) -> Vec<u8> {
        let repr = ipv4::Repr {
            src: [10, 0, 0, 1].into(),
            dst: [224, 0, 0, 1].into(),
            protocol: Protocol::IGMP,
            payload_len: message.len() as u16,
            ttl: 1,
            ..Default::default()
        };
        let mut packet = vec![0; ipv4::HEADER_LEN + message.len()];
        repr.emit(&mut packet).unwrap();
        let payload = &mut packet[ipv4::HEADER_LEN..];
        payload.copy_from_slice(message);
        if payload.len() > 3 {
            payload[2..4].fill(0);
            let sum = checksum::internet(payload);
            payload[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        packet
    }

    /// An IPv6 packet that carries this MLD message.
    fn mld_packet(message: &[u8], hop_limit: u8, src: &str) -> Vec<u8> {
        let (src, dst): (Ipv6Addr, Ipv6Addr) = (src.parse().unwrap(), "ff02::16".parse().unwrap());
        let mut packet = vec![0x60, 0, 0, 0, 0, message.len() as u8, 58, hop_limit];
        packet.extend(src.octets());
        packet.extend(dst.octets());
        let mut message = message.to_vec();
        message[2..4].fill(0);
        let mut whole = packet[8..40].to_vec();
        whole.extend((message.len() as u32).to_be_bytes());
        whole.extend([0, 0, 0, 58]);
        whole.extend(&message);
        let sum = checksum::internet(&whole);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        packet.extend(message);
        packet
    }

    /// What the message says, in words.
    fn say(message: Result<Option<Message<'_>>, Error>) -> String {
        match message {
            Err(error) => error.to_string(),
            Ok(None) => "nothing".into(),
            Ok(Some(Message::Query { group, max_response_ms })) => {
                format!("query {} {max_response_ms}", group.map_or("any".into(), |g| g.to_string()))
            }
            Ok(Some(Message::Report(records))) => {
                let word = |wish| match wish {
                    Wish::Join(group) => format!("+{group}"),
                    Wish::Leave(group) => format!("-{group}"),
                    Wish::Less(group) => format!("~{group}"),
                };
                records.map(word).collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn igmp_messages() {
        let check = |message: &[u8], expected: &str| {
            let packet = igmp_packet(message);
            assert_eq!(say(of_ipv4(&packet).map(|m| m.map(|m| m.1))), expected);
        };
        check(&[0x11, 100, 0, 0, 0, 0, 0, 0], "query any 10000");
        check(&[0x11, 0, 0, 0, 0, 0, 0, 0], "query any 10000");
        check(&[0x11, 10, 0, 0, 239, 1, 2, 3], "query 239.1.2.3 1000");
        check(&[0x11, 0x81, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0], "query any 13600");
        check(&[0x11, 10, 0, 0, 0, 0, 0, 0, 2], "IGMP: truncated, 12 bytes needed but only 9 present");
        check(
            &[0x11, 10, 0, 0, 0, 0, 0, 0, 2, 125, 0, 1],
            "IGMP: truncated, 16 bytes needed but only 12 present",
        );
        check(&[0x11, 10, 0, 0, 9, 1, 2, 3], "IGMP: group is 151060995, expected a multicast address");
        check(&[0x16, 0, 0, 0, 239, 1, 2, 3], "+239.1.2.3");
        check(&[0x12, 0, 0, 0, 239, 1, 2, 3], "+239.1.2.3");
        check(&[0x17, 0, 0, 0, 239, 1, 2, 3], "-239.1.2.3");
        check(&[0x17, 0, 0, 0, 23, 1, 2, 3], "IGMP: group is 385942019, expected a multicast address");
        check(&[0x17, 0, 0, 0, 239, 1, 2], "IGMP: truncated, 8 bytes needed but only 7 present");
        check(&[0x99, 0, 0, 0, 239, 1, 2, 3], "nothing");
        let mut report = vec![0x22, 0, 0, 0, 0, 0, 0, 4];
        report.extend([4, 0, 0, 0, 239, 0, 0, 1]);
        report.extend([3, 0, 0, 0, 239, 0, 0, 2]);
        report.extend([3, 1, 0, 1, 239, 0, 0, 3, 10, 0, 0, 9, 1, 2, 3, 4]);
        report.extend([6, 0, 0, 1, 239, 0, 0, 4, 10, 0, 0, 9]);
        check(&report, "+239.0.0.1 -239.0.0.2 +239.0.0.3 ~239.0.0.4");
        report[7] = 5;
        check(&report, "IGMP: truncated, 52 bytes needed but only 44 present");
        report[7] = 4;
        report[11] = 99;
        check(&report, "IGMP: truncated, 404 bytes needed but only 44 present");
        let mut packet = igmp_packet(&[0x16, 0, 0, 0, 239, 1, 2, 3]);
        packet[23] ^= 1;
        assert!(say(of_ipv4(&packet).map(|m| m.map(|m| m.1))).contains("checksum"));
    }

    #[test]
    fn mld_messages() {
        let check = |message: &[u8], hop_limit, src, expected: &str| {
            let packet = mld_packet(message, hop_limit, src);
            assert_eq!(say(of_ipv6(&packet).map(|m| m.map(|m| m.1))), expected);
        };
        let group: [u8; 16] = "ff05::5".parse::<Ipv6Addr>().unwrap().octets();
        let with = |kind: u8, group: &[u8]| [&[kind, 0, 0, 0, 0x27, 0x10, 0, 0], group].concat();
        check(&with(130, &[0; 16]), 1, "fe80::1", "query any 10000");
        check(&with(130, &group), 1, "fe80::1", "query ff05::5 10000");
        check(&[with(130, &[0; 16]), vec![2, 125, 0, 0]].concat(), 1, "fe80::1", "query any 10000");
        check(
            &[with(130, &[0; 16]), vec![2, 125, 0, 1]].concat(),
            1,
            "fe80::1",
            "MLD: truncated, 44 bytes needed but only 28 present",
        );
        check(&with(131, &group), 1, "::", "+ff05::5");
        check(&with(132, &group), 1, "fe80::1", "-ff05::5");
        check(&with(131, &group[..9]), 1, "fe80::1", "MLD: truncated, 24 bytes needed but only 17 present");
        check(&with(131, &group), 2, "fe80::1", "MLD: hop limit is 2, expected 1");
        check(
            &with(131, &group),
            1,
            "2001:db8::1",
            "MLD: first bits of the source is 536939960, expected those of a link-local address",
        );
        check(&with(135, &group), 1, "fe80::1", "nothing");
        let report = [&[143, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0], &group[..]].concat();
        check(&report, 1, "fe80::1", "+ff05::5");
        check(&report[..27], 1, "fe80::1", "MLD: truncated, 20 bytes needed but only 19 present");
    }

    proptest! {
        /// Of any bytes behind a right checksum, no record lies beyond the message.
        #[test]
        fn any_bytes(kind in prop::sample::select(vec![0x11u8, 0x12, 0x16, 0x17, 0x22]), mut bytes in prop::collection::vec(any::<u8>(), 8..80)) {
            bytes[0] = kind;
            (bytes[6], bytes[7]) = (0, bytes[7] % 5);
            let packet = igmp_packet(&bytes);
            if let Ok(Some((_, Message::Report(records)))) = of_ipv4(&packet) {
                prop_assert!(records.count() <= bytes.len() / 8);
            }
            bytes[0] = [130, 131, 132, 143][usize::from(kind % 4)];
            let packet = mld_packet(&bytes, 1, "fe80::1");
            if let Ok(Some((_, Message::Report(records)))) = of_ipv6(&packet) {
                prop_assert!(records.count() <= 1 + bytes.len() / 20);
            }
        }
    }
}
