// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distributed BFD: the messages by which FRR's bfdd hands its sessions to a data plane (`bfdd/bfddp_packet.h`, version 1).
//!
//! bfdd adds and deletes sessions and asks for counters; the data plane runs the sessions and reports their states. Numbers are big
//! endian. The caller does the I/O: it collects a whole message ([`message_len`]) and gives it to [`Request::read`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Remote, State};

/// The version of the protocol.
pub const VERSION: u8 = 1;
/// Bytes of a message's header.
pub const HEADER: usize = 8;
/// The longest message that is taken. bfdd's are 140 bytes; later versions add fields at the end.
pub const MESSAGE_MAX: usize = 1024;
const SESSION: usize = 132;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Another version.
    #[error("the other side speaks version {0} of the BFD data plane protocol, this one {VERSION}")]
    Version(u8),
    /// The length cannot be.
    #[error("a message of {0} bytes, which must have {HEADER} to {MESSAGE_MAX}")]
    Length(usize),
    /// The message ends before its fields.
    #[error("a message of type {kind} has {bytes} bytes, too few")]
    Short {
        /// Its type.
        kind: u16,
        /// Its length.
        bytes: usize,
    },
}

/// A session as bfdd describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Our discriminator, by which bfdd knows the session.
    pub discriminator: u32,
    /// The neighbour.
    pub neighbour: IpAddr,
    /// Our address; unspecified where bfdd leaves it to the data plane.
    pub local: IpAddr,
    /// Whether several hops lie in between.
    pub multi_hop: bool,
    /// Whether to wait for the neighbour to begin.
    pub passive: bool,
    /// Whether the session survives a restart of the control plane.
    pub independent: bool,
    /// Whether echo packets are wanted.
    pub echo: bool,
    /// Whether an administrator holds it down.
    pub shutdown: bool,
    /// Shortest interval of sending, in microseconds.
    pub min_tx_us: u32,
    /// Shortest interval of receiving, in microseconds.
    pub min_rx_us: u32,
    /// Shortest interval of sending echo packets, in microseconds.
    pub min_echo_tx_us: u32,
    /// Shortest interval of receiving echo packets, in microseconds.
    pub min_echo_rx_us: u32,
    /// Least TTL of received packets.
    pub ttl: u8,
    /// Detection multiplier.
    pub detect_mult: u8,
    /// The interface; empty if there is none.
    pub interface: String,
}

/// What bfdd wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// An answer with the same times.
    Echo {
        /// The two times.
        times: [u8; 16],
    },
    /// A new session, or new settings of one.
    Add(Asked),
    /// The end of a session.
    Delete(Asked),
    /// Its counters.
    Counters {
        /// The session.
        discriminator: u32,
    },
    /// A message that is for bfdd only, or of a later version.
    Other(u16),
}

/// The length of the message that begins with these bytes; `None` before the header is complete.
///
/// # Errors
/// A length or version that cannot be.
pub fn message_len(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(header) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([header[6], header[7]]));
    match length {
        _ if header[0] != VERSION => Err(Malformed::Version(header[0])),
        HEADER..=MESSAGE_MAX => Ok(Some(length)),
        _ => Err(Malformed::Length(length)),
    }
}

impl Request {
    /// Reads a whole message; the number answers to it bear.
    ///
    /// # Errors
    /// It is too short for its type.
    pub fn read(message: &[u8]) -> Result<(Request, u16), Malformed> {
        let bytes = message.len();
        let (header, body) = message.split_first_chunk::<HEADER>().ok_or(Malformed::Length(bytes))?;
        let (kind, id) =
            (u16::from_be_bytes([header[2], header[3]]), u16::from_be_bytes([header[4], header[5]]));
        let short = Malformed::Short { kind, bytes };
        let request = match kind {
            0 => Request::Echo { times: *body.first_chunk().ok_or(short)? },
            2 => Request::Add(Asked::read(body.first_chunk().ok_or(short)?)),
            3 => Request::Delete(Asked::read(body.first_chunk().ok_or(short)?)),
            5 => Request::Counters { discriminator: u32::from_be_bytes(*body.first_chunk().ok_or(short)?) },
            other => Request::Other(other),
        };
        Ok((request, id))
    }
}

impl Asked {
    fn read(body: &[u8; SESSION]) -> Asked {
        let word = |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        let flags = word(0);
        let has = |bit: u32| flags & 1 << bit != 0;
        let address = |at: usize| {
            let bytes: [u8; 16] = std::array::from_fn(|i| body[at + i]);
            match has(4) {
                true => IpAddr::V6(Ipv6Addr::from(bytes)),
                false => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
            }
        };
        let name: Vec<u8> = body[68..].iter().copied().take_while(|byte| *byte != 0).collect();
        Asked {
            discriminator: word(36),
            neighbour: address(20),
            local: address(4),
            multi_hop: has(0),
            passive: has(5),
            independent: has(2),
            echo: has(3),
            shutdown: has(6),
            min_tx_us: word(40),
            min_rx_us: word(44),
            min_echo_tx_us: word(48),
            min_echo_rx_us: word(52),
            ttl: body[60],
            detect_mult: body[61],
            interface: String::from_utf8_lossy(&name).into_owned(),
        }
    }
}

fn message(kind: u16, id: u16, body: &[u8]) -> Vec<u8> {
    let length = (HEADER + body.len()) as u16;
    let mut bytes = vec![VERSION, 0];
    [kind, id, length].iter().for_each(|field| bytes.extend(field.to_be_bytes()));
    bytes.extend(body);
    bytes
}

/// The answer to [`Request::Echo`].
pub fn echo_reply(id: u16, times: [u8; 16]) -> Vec<u8> {
    message(1, id, &times)
}

/// Reports a session's state, and what its neighbour said last.
pub fn state_change(discriminator: u32, state: State, remote: &Remote) -> Vec<u8> {
    let flags = u32::from(remote.control_plane_independent) | u32::from(remote.demand) << 1;
    let words = [
        discriminator,
        remote.discriminator,
        flags,
        remote.desired_min_tx_us,
        remote.required_min_rx_us,
        remote.required_min_echo_rx_us,
    ];
    let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    // The struct of C ends at a multiple of four bytes.
    body.extend([state as u8, remote.diagnostic.0, remote.detect_mult, 0]);
    message(4, 0, &body)
}

/// The answer to [`Request::Counters`]: bytes and packets in, bytes and packets out.
pub fn counters(id: u16, discriminator: u32, control: [u64; 4], echo: [u64; 4]) -> Vec<u8> {
    let mut body = discriminator.to_be_bytes().to_vec();
    // The struct of C aligns its numbers of 64 bits.
    body.extend([0; 4]);
    control.iter().chain(&echo).for_each(|count| body.extend(count.to_be_bytes()));
    message(6, id, &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message as bfdd writes it.
    fn added() -> Vec<u8> {
        let mut body = vec![0; SESSION];
        body[3] = 0b0100_1000;
        body[4..8].copy_from_slice(&[10, 0, 0, 1]);
        body[20..24].copy_from_slice(&[10, 0, 0, 2]);
        body[39] = 7;
        body[40..44].copy_from_slice(&50_000u32.to_be_bytes());
        body[44..48].copy_from_slice(&60_000u32.to_be_bytes());
        body[48..52].copy_from_slice(&20_000u32.to_be_bytes());
        (body[60], body[61]) = (255, 3);
        body[68..72].copy_from_slice(b"eth0");
        message(2, 9, &body)
    }

    #[test]
    fn sessions_are_read() {
        let bytes = added();
        assert_eq!(message_len(&bytes), Ok(Some(140)));
        let (request, id) = Request::read(&bytes).unwrap();
        let Request::Add(asked) = request else { panic!("{request:?}") };
        let want = Asked {
            discriminator: 7,
            neighbour: "10.0.0.2".parse().unwrap(),
            local: "10.0.0.1".parse().unwrap(),
            multi_hop: false,
            passive: false,
            independent: false,
            echo: true,
            shutdown: true,
            min_tx_us: 50_000,
            min_rx_us: 60_000,
            min_echo_tx_us: 20_000,
            min_echo_rx_us: 0,
            ttl: 255,
            detect_mult: 3,
            interface: "eth0".into(),
        };
        assert_eq!((asked, id), (want, 9));
        assert_eq!(Request::read(&bytes[..139]), Err(Malformed::Short { kind: 2, bytes: 139 }));
        assert_eq!(message_len(&[2, 0, 0, 0, 0, 0, 0, 8]), Err(Malformed::Version(2)));
        assert_eq!(message_len(&[1, 0, 0, 0, 0, 0, 0, 7]), Err(Malformed::Length(7)));
        assert_eq!(message_len(&bytes[..7]), Ok(None));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_a_request_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = message_len(&bytes);
            let _ = Request::read(&bytes);
            let _ = Request::read(&[&[1, 0, 0, 2], &bytes[..]].concat());
        }
    }
}
