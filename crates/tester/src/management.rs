// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions of network management to a device, and whether its answers are right (RFC 2544 11.2, C.2.4.3): SNMP version 1 (RFC 1157).
//!
//! Each question asks for five variables of one interface, and has the same number. An answer is right if it is whole, has that number, reports no
//! error, and has a value of the right type for each of them, in order. What the values are, nobody else knows.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::{ethernet, ipv4, udp};

use crate::extras::datagram;
use crate::frame::Flow;

/// Between two questions (RFC 2544 11.2: one each second).
pub const EACH: Duration = Duration::from_secs(1);
/// From where it is asked, and where (RFC 1157 4).
const PORTS: (u16, u16) = (4001, 161);
const COMMUNITY: &[u8] = b"public";
/// The number of every question.
const ID: u32 = 0x4a75_6e63;

/// Types of ASN.1's basic encoding (X.690 8.1) as SNMP has them (RFC 1157 4, RFC 1155 6).
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const NULL: u8 = 0x05;
const NAME: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const COUNTER: u8 = 0x41;
const TICKS: u8 = 0x43;
const GET: u8 = 0xa0;
const RESPONSE: u8 = 0xa2;

/// The variables, without the 1.3.6.1.2.1 (`mib-2`) before each, and the types of their values (RFC 1213 6.4, 6.5): sysUpTime, and
/// ifInOctets, ifOutOctets, ifInUcastPkts and ifOutUcastPkts of interface 1.
const VARIABLES: [(&[u8], u8); 5] = [
    (&[1, 3, 0], TICKS),
    (&[2, 2, 1, 10, 1], COUNTER),
    (&[2, 2, 1, 16, 1], COUNTER),
    (&[2, 2, 1, 11, 1], COUNTER),
    (&[2, 2, 1, 17, 1], COUNTER),
];
/// 1.3.6.1.2.1.
const MIB_2: [u8; 5] = [0x2b, 6, 1, 2, 1];

/// How many questions were asked in a trial, and what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Questions that left.
    pub asked: u64,
    /// Answers that are as they should be.
    pub right: u64,
    /// Answers that are not, and second answers to one question.
    pub wrong: u64,
}

impl Answers {
    /// Questions without any answer.
    pub fn missing(&self) -> u64 {
        self.asked.saturating_sub(self.right + self.wrong)
    }

    /// Takes one into account.
    pub(crate) fn note(&mut self, is_right: bool) {
        self.right += u64::from(is_right);
        self.wrong += u64::from(!is_right);
    }

    /// Adds what came of others.
    pub fn add(&mut self, other: &Answers) {
        self.asked += other.asked;
        self.right += other.right;
        self.wrong += other.wrong;
    }

    /// The same, with right answers beyond one for each question as wrong ones.
    pub(crate) fn settled(self) -> Answers {
        let right = self.right.min(self.asked);
        Answers { right, wrong: self.wrong + (self.right - right), ..self }
    }
}

/// A frame with a question to a device with this address, from where this flow comes. None if that is not IPv4.
pub fn question(flow: &Flow, device: Ipv4Addr) -> Option<Vec<u8>> {
    let variable = |(name, _): &(&[u8], u8)| {
        encoded(SEQUENCE, &[encoded(NAME, &[&MIB_2[..], name].concat()), encoded(NULL, &[])].concat())
    };
    let variables: Vec<u8> = VARIABLES.iter().flat_map(variable).collect();
    let no_error = encoded(INTEGER, &[0]);
    let number = encoded(INTEGER, &ID.to_be_bytes());
    let asks = encoded(GET, &[number, no_error.clone(), no_error, encoded(SEQUENCE, &variables)].concat());
    let version = encoded(INTEGER, &[0]);
    let message = encoded(SEQUENCE, &[version, encoded(OCTETS, COMMUNITY), asks].concat());
    datagram(flow, (flow.dst_mac, device), PORTS, &message)
}

/// Whether a frame is a question of these.
pub(crate) fn is_question(frame: &[u8]) -> bool {
    datagram_of(frame).is_some_and(|(ports, ..)| ports == PORTS)
}

/// Whether a frame is a right answer, if it is one to these questions.
pub fn answer(frame: &[u8]) -> Option<bool> {
    let (ports, is_whole, message) = datagram_of(frame)?;
    (ports == (PORTS.1, PORTS.0)).then(|| is_whole && check(message).is_some())
}

/// The ports of a frame's datagram, whether its checksum is right, and what is in it.
fn datagram_of(frame: &[u8]) -> Option<((u16, u16), bool, &[u8])> {
    if frame.get(12..14)? != [8, 0] {
        return None;
    }
    let ip = ipv4::View::new_checked(frame.get(ethernet::HEADER_LEN..)?).ok()?;
    let header = usize::from(frame[ethernet::HEADER_LEN] & 15) * 4;
    let len = udp_len(&ip, frame, header)?;
    let segment = frame.get(ethernet::HEADER_LEN + header..ethernet::HEADER_LEN + header + len)?;
    let view = udp::View::new_checked(segment).ok()?;
    let ports = (u16::from_be_bytes([segment[0], segment[1]]), u16::from_be_bytes([segment[2], segment[3]]));
    Some((ports, view.checksum_ok_v4(ip.src(), ip.dst()), &segment[udp::HEADER_LEN..]))
}

/// How long the datagram is that a packet carries, if it is UDP's and all of it is there.
fn udp_len(ip: &ipv4::View<&[u8]>, frame: &[u8], header: usize) -> Option<usize> {
    let at = ethernet::HEADER_LEN + header + 4;
    let len = usize::from(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    (ip.protocol() == wire::Protocol::UDP && len >= udp::HEADER_LEN && len <= ip.payload().len())
        .then_some(len)
}

/// Something if a message is the answer that it should be.
fn check(mut rest: &[u8]) -> Option<()> {
    let mut message = only(&mut rest, SEQUENCE)?;
    let version = take(&mut message, INTEGER)?;
    let community = take(&mut message, OCTETS)?;
    let mut pdu = only(&mut message, RESPONSE)?;
    let number = take(&mut pdu, INTEGER)?;
    let status = take(&mut pdu, INTEGER)?;
    take(&mut pdu, INTEGER)?;
    let is_ours = version == [0] && community == COMMUNITY && number == ID.to_be_bytes();
    if !is_ours || status.iter().any(|byte| *byte != 0) {
        return None;
    }
    let mut list = only(&mut pdu, SEQUENCE)?;
    for (name, kind) in VARIABLES {
        let mut variable = take(&mut list, SEQUENCE)?;
        let is_asked = take(&mut variable, NAME)?.strip_prefix(&MIB_2) == Some(name);
        // Numbers of 32 bits without sign: a zero may stand before them.
        let value = only(&mut variable, kind)?;
        if !is_asked || !(1..=5).contains(&value.len()) {
            return None;
        }
    }
    list.is_empty().then_some(())
}

/// A value with its type and length.
fn encoded(kind: u8, value: &[u8]) -> Vec<u8> {
    // Longer ones have their length in several bytes: no question has such.
    debug_assert!(value.len() < 128);
    [&[kind, value.len() as u8], value].concat()
}

/// Takes the first value, which must be of this type.
fn take<'a>(from: &mut &'a [u8], kind: u8) -> Option<&'a [u8]> {
    let (&[found, first], rest) = from.split_first_chunk()?;
    let (len, rest) = match first {
        0..=127 => (usize::from(first), rest),
        // A length in so many bytes (X.690 8.1.3.5).
        0x81 | 0x82 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(len)?;
    *from = rest;
    (found == kind).then_some(value)
}

/// The same, if nothing comes behind it.
fn only<'a>(from: &mut &'a [u8], kind: u8) -> Option<&'a [u8]> {
    let value = take(from, kind)?;
    from.is_empty().then_some(value)
}

/// The first of these addresses that can be asked.
pub fn askable(own: &[IpAddr]) -> Option<Ipv4Addr> {
    own.iter().find_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    })
}
