// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes: packets that ask whether a server is alive, and what their answers say.
//!
//! A TCP probe is a SYN. A SYN/ACK says that the server listens, and is reset; a reset says that it does not. Sequence numbers are random
//! and an answer must acknowledge them, so that only who sees the probe can answer it (RFC 6528).

use std::net::IpAddr;

use wire::{Protocol, checksum, ipv4, ipv6};

use crate::packet::{ACK, RST, SYN};
use crate::policy::{ICMP, ICMP6, TCP};

/// Bytes of the longest probe.
const LENGTH_MAX: usize = 60;

/// A packet to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    bytes: [u8; LENGTH_MAX],
    length: usize,
    to: IpAddr,
}

impl Probe {
    /// Its bytes, from the header of IP on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The server.
    pub fn to(&self) -> IpAddr {
        self.to
    }
}

/// What a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// A SYN to a port from a port.
    Syn { local: u16, port: u16, token: u32 },
    /// The end of what a SYN has started.
    Reset { local: u16, port: u16, token: u32 },
    /// An echo request.
    Echo { local: u16, token: u32 },
}

/// Makes a probe. Addresses of different families make none.
pub(crate) fn make(from: IpAddr, to: IpAddr, ask: Ask) -> Option<Probe> {
    let (protocol, length) = match ask {
        Ask::Syn { .. } | Ask::Reset { .. } => (TCP, 20),
        Ask::Echo { .. } => (if to.is_ipv6() { ICMP6 } else { ICMP }, 12),
    };
    let mut probe = Probe { bytes: [0; LENGTH_MAX], length: 0, to };
    let header = if to.is_ipv6() { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
    let (ip, rest) = probe.bytes.split_at_mut(header);
    let payload = &mut rest[..length];
    write(payload, ask, to.is_ipv6());
    let sum = match (from, to) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let repr = ipv4::Repr {
                src,
                dst,
                protocol: Protocol(protocol),
                payload_len: length as u16,
                ttl: 64,
                fragment: ipv4::FLAG_DF,
                ..ipv4::Repr::default()
            };
            repr.emit(ip).ok()?;
            match protocol {
                TCP => checksum::transport_v4(src, dst, Protocol(TCP), payload),
                _ => checksum::internet(payload),
            }
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let repr = ipv6::Repr {
                src,
                dst,
                next_header: Protocol(protocol),
                payload_len: length as u16,
                hop_limit: 64,
                ..ipv6::Repr::default()
            };
            repr.emit(ip).ok()?;
            checksum::transport_v6(src, dst, Protocol(protocol), payload)
        }
        _ => return None,
    };
    let at = if protocol == TCP { 16 } else { 2 };
    payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    probe.length = header + length;
    Some(probe)
}

/// Writes what follows the header of IP, without its checksum.
fn write(payload: &mut [u8], ask: Ask, is_six: bool) {
    match ask {
        Ask::Syn { local, port, token } | Ask::Reset { local, port, token } => {
            let is_syn = matches!(ask, Ask::Syn { .. });
            let sequence = if is_syn { token } else { token.wrapping_add(1) };
            payload[..2].copy_from_slice(&local.to_be_bytes());
            payload[2..4].copy_from_slice(&port.to_be_bytes());
            payload[4..8].copy_from_slice(&sequence.to_be_bytes());
            payload[12] = 5 << 4;
            payload[13] = if is_syn { SYN } else { RST };
            payload[14..16].copy_from_slice(&(if is_syn { 1024u16 } else { 0 }).to_be_bytes());
        }
        Ask::Echo { local, token } => {
            payload[0] = if is_six { 128 } else { 8 };
            payload[4..6].copy_from_slice(&local.to_be_bytes());
            payload[6..8].copy_from_slice(&1u16.to_be_bytes());
            payload[8..12].copy_from_slice(&token.to_be_bytes());
        }
    }
}

/// What a packet to the router may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The server's port, 0 for an echo.
    pub(crate) port: u16,
    /// The router's port, or the identifier.
    pub(crate) local: u16,
    /// What the probe must have said.
    pub(crate) token: u32,
    /// Whether the server says that it is alive.
    pub(crate) is_alive: bool,
}

/// Reads what follows the header of IP; nothing if it answers no probe.
pub(crate) fn read(protocol: u8, payload: &[u8]) -> Option<Answer> {
    let word = |at: usize| Some(u16::from_be_bytes([*payload.get(at)?, *payload.get(at + 1)?]));
    let long = |at: usize| Some(u32::from(word(at)?) << 16 | u32::from(word(at + 2)?));
    match protocol {
        TCP => {
            let flags = *payload.get(13)? & (SYN | RST | ACK);
            let is_answer = flags == SYN | ACK || flags == RST | ACK;
            is_answer.then_some(Answer {
                port: word(0)?,
                local: word(2)?,
                token: long(8)?.wrapping_sub(1),
                is_alive: flags & SYN != 0,
            })
        }
        ICMP | ICMP6 => {
            let is_answer = *payload.first()? == if protocol == ICMP { 0 } else { 129 };
            let token = long(8)?;
            is_answer.then_some(Answer { port: 0, local: word(4)?, token, is_alive: true })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_right_on_the_wire() {
        let syn = Ask::Syn { local: 40_000, port: 80, token: 7 };
        let echo = Ask::Echo { local: 9, token: 0x0102_0304 };
        for (from, to, header) in [("10.0.0.1", "10.0.0.2", 20), ("2001:db8::1", "2001:db8::2", 40)] {
            let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
            for (ask, length) in
                [(syn, 20), (echo, 12), (Ask::Reset { local: 1, port: 2, token: u32::MAX }, 20)]
            {
                let probe = make(from, to, ask).unwrap();
                assert_eq!((probe.to(), probe.bytes().len()), (to, header + length));
                let rest = &probe.bytes()[header..];
                let protocol = Protocol(if length == 20 {
                    TCP
                } else if header == 20 {
                    ICMP
                } else {
                    ICMP6
                });
                let is_right = match (from, to) {
                    (IpAddr::V4(_), _) if length == 12 => checksum::internet(rest) == 0,
                    (IpAddr::V4(a), IpAddr::V4(b)) => checksum::transport_v4_ok(a, b, protocol, rest),
                    (IpAddr::V6(a), IpAddr::V6(b)) => checksum::transport_v6_ok(a, b, protocol, rest),
                    _ => false,
                };
                assert!(is_right, "{ask:?}");
                assert!(header == 40 || checksum::internet(&probe.bytes()[..20]) == 0);
            }
        }
        assert!(make("10.0.0.1".parse().unwrap(), "::1".parse().unwrap(), echo).is_none());
    }

    #[test]
    fn answers_are_known() {
        let segment = |flags: u8, acknowledged: u32| {
            let mut bytes = [0; 20];
            bytes[..4].copy_from_slice(&[0, 80, 0x9c, 0x40]);
            bytes[8..12].copy_from_slice(&acknowledged.to_be_bytes());
            bytes[13] = flags;
            read(TCP, &bytes).map(|answer| (answer.port, answer.local, answer.token, answer.is_alive))
        };
        assert_eq!(segment(SYN | ACK, 8), Some((80, 40_000, 7, true)));
        assert_eq!(segment(RST | ACK, 0), Some((80, 40_000, u32::MAX, false)));
        assert_eq!((segment(SYN, 8), segment(ACK, 8), segment(RST, 8)), (None, None, None));
        let echo = [0, 0, 0, 0, 0, 9, 0, 1, 1, 2, 3, 4];
        let said = Answer { port: 0, local: 9, token: 0x0102_0304, is_alive: true };
        assert_eq!((read(ICMP, &echo), read(ICMP6, &echo), read(17, &echo)), (Some(said), None, None));
        assert_eq!((read(ICMP, &echo[..11]), read(TCP, &echo)), (None, None));
    }
}
