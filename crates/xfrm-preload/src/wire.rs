// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few messages of netlink that the library makes or looks at.

/// Bytes of a message's header.
pub const HEADER_LEN: usize = 16;
/// Bytes of an [`error`].
pub const ERROR_LEN: usize = 36;

const ERROR: u16 = 2;
const DONE: u16 = 3;
const OVERRUN: u16 = 4;
const ECHO: u16 = 14;
const HELLO: u16 = 15;
const REQUEST: u16 = 1;
const MULTI: u16 = 2;

/// A message's header.
#[derive(Clone, Copy, Debug)]
struct Header {
    len: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port: u32,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Header> {
        let [l, e, n, g, k0, k1, f0, f1, s0, s1, s2, s3, p0, p1, p2, p3] = *bytes.first_chunk()?;
        Some(Header {
            len: u32::from_ne_bytes([l, e, n, g]),
            kind: u16::from_ne_bytes([k0, k1]),
            flags: u16::from_ne_bytes([f0, f1]),
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
            port: u32::from_ne_bytes([p0, p1, p2, p3]),
        })
    }

    fn bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&self.len.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.port.to_ne_bytes());
        bytes
    }
}

/// What says to the server who we are.
pub fn hello(port: u32, groups: u32, options: u32) -> [u8; 24] {
    let mut bytes = [0; 24];
    let header = Header { len: 24, kind: HELLO, flags: 0, sequence: 0, port };
    bytes[..16].copy_from_slice(&header.bytes());
    bytes[16..20].copy_from_slice(&groups.to_ne_bytes());
    bytes[20..].copy_from_slice(&options.to_ne_bytes());
    bytes
}

/// The number of a request that expects an answer.
pub fn request(datagram: &[u8]) -> Option<u32> {
    Header::read(datagram).filter(|header| header.flags & REQUEST != 0).map(|header| header.sequence)
}

/// Whether a datagram has the last message of the answer to a request.
pub fn answers(mut datagram: &[u8], sequence: u32) -> bool {
    while let Some(header) = Header::read(datagram) {
        let is_last = header.flags & MULTI == 0 || matches!(header.kind, ERROR | DONE);
        if header.sequence == sequence && is_last {
            return true;
        }
        let next = (header.len as usize).max(HEADER_LEN).next_multiple_of(4);
        datagram = datagram.get(next..).unwrap_or_default();
    }
    false
}

/// Whether a datagram says that events were lost.
pub fn is_overrun(datagram: &[u8]) -> bool {
    Header::read(datagram).is_some_and(|header| header.kind == OVERRUN)
}

/// The number of the request that an [`error`] answers.
pub fn sequence(error: &[u8; ERROR_LEN]) -> u32 {
    Header::read(error).map_or(0, |header| header.sequence)
}

/// An error, as the answer to a request.
pub fn error(sequence: u32, port: u32, errno: i32) -> [u8; ERROR_LEN] {
    let mut bytes = [0; ERROR_LEN];
    let header = Header { len: ERROR_LEN as u32, kind: ERROR, flags: 0, sequence, port };
    bytes[..16].copy_from_slice(&header.bytes());
    bytes[16..20].copy_from_slice(&(-errno).to_ne_bytes());
    let asked = Header { len: 16, kind: 0, flags: REQUEST, sequence, port };
    bytes[20..].copy_from_slice(&asked.bytes());
    bytes
}

/// What makes the server send an [`error`] back as it is.
pub fn echo(error: &[u8; ERROR_LEN]) -> [u8; HEADER_LEN + ERROR_LEN] {
    let mut bytes = [0; HEADER_LEN + ERROR_LEN];
    let header = Header { len: bytes.len() as u32, kind: ECHO, flags: 0, sequence: 0, port: 0 };
    bytes[..HEADER_LEN].copy_from_slice(&header.bytes());
    bytes[HEADER_LEN..].copy_from_slice(error);
    bytes
}
