// SPDX-License-Identifier: MIT OR Apache-2.0
//! What nodes say to the node that serves a domain, over a Unix socket of type `SOCK_SEQPACKET`: one request, one reply.
//!
//! All numbers are in the machine's byte order; the socket does not leave the machine.
//!
//! ```text
//! request, 96 bytes                        reply, 64 bytes
//!   0  u32 "ICC1"                            0  u32 "ICC1"
//!   4  u32 version, 2                        4  u32 version of the server
//!   8  u32 what: 1 attach, 2 detach,         8  u32 status, see Status
//!               3 memory
//!  12  u32 domain, or 0 for any             12  u32 lease: names what was attached
//!  16  u32 node that asks                   16  u64 seat: which one in that role this is
//!  20  u32 role: 1 sender, 2 receiver       24  u32 domain
//!  24  u32 flags: 1 reset, 2 lends          28  u32 node that serves
//!  28  u32 lease, to detach or of who asks  32  u32 process that has the seat (status busy)
//!  32  u8[48] endpoint: name or number      36..63  0
//!  80..95  0
//! ```
//! A reply to `attach` carries descriptors: the region, and for rings a bell to ring (sender) or an epoll descriptor to sleep on (receiver).
//! A request to attach that *lends* carries a descriptor of the memory that the sender's packets are lent from, to be mapped for reading only. A receiver asks
//! for it by `memory`, and gets it with the seat of that sender. `detach` has no reply.

use std::path::Path;

use rustix::net::SocketAddrUnix;

use crate::endpoint::{NAME_BYTES_MAX, NodeId, Role};

pub(crate) const REQUEST_BYTES: usize = 96;
pub(crate) const REPLY_BYTES: usize = 64;
/// The version of the words on the socket.
pub(crate) const VERSION: u32 = 2;
const MAGIC: u32 = u32::from_be_bytes(*b"ICC1");
const RESET: u32 = 1;
const LENDS: u32 = 2;

/// What a node asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Attach { domain: u32, node: u32, role: Role, reset: bool, lends: bool, endpoint: String },
    Detach { lease: u32 },
    Memory { lease: u32 },
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Status {
    Attached = 0,
    Malformed = 1,
    Version = 2,
    Domain = 3,
    NoEndpoint = 4,
    Denied = 5,
    Busy = 6,
    TooMany = 7,
    System = 8,
    NoMemory = 9,
}

/// What the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) version: u32,
    pub(crate) status: u32,
    pub(crate) lease: u32,
    pub(crate) seat: u64,
    pub(crate) node: NodeId,
    pub(crate) pid: u32,
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

fn get(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_ne_bytes)
}

impl Request {
    pub(crate) fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 4, VERSION);
        match self {
            Request::Attach { domain, node, role, reset, lends, endpoint } => {
                let flags = (u32::from(*reset) * RESET) | (u32::from(*lends) * LENDS);
                let words = [1, *domain, *node, *role as u32, flags];
                (8..).step_by(4).zip(words).for_each(|(at, word)| put(&mut bytes, at, word));
                let length = endpoint.len().min(NAME_BYTES_MAX);
                bytes[32..32 + length].copy_from_slice(&endpoint.as_bytes()[..length]);
            }
            Request::Detach { lease } | Request::Memory { lease } => {
                put(&mut bytes, 8, if matches!(self, Request::Detach { .. }) { 2 } else { 3 });
                put(&mut bytes, 28, *lease);
            }
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Request, Status> {
        if bytes.len() != REQUEST_BYTES || get(bytes, 0) != MAGIC {
            return Err(Status::Malformed);
        }
        if get(bytes, 4) != VERSION {
            return Err(Status::Version);
        }
        match get(bytes, 8) {
            1 => {
                let role = match get(bytes, 20) {
                    1 => Role::Sender,
                    2 => Role::Receiver,
                    _ => return Err(Status::Malformed),
                };
                let name = &bytes[32..32 + NAME_BYTES_MAX];
                let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES_MAX);
                let endpoint = String::from_utf8(name[..length].to_vec()).map_err(|_| Status::Malformed)?;
                let (domain, node) = (get(bytes, 12), get(bytes, 16));
                let flags = get(bytes, 24);
                let (reset, lends) = (flags & RESET != 0, flags & LENDS != 0);
                Ok(Request::Attach { domain, node, role, reset, lends, endpoint })
            }
            2 => Ok(Request::Detach { lease: get(bytes, 28) }),
            3 => Ok(Request::Memory { lease: get(bytes, 28) }),
            _ => Err(Status::Malformed),
        }
    }
}

impl Reply {
    pub(crate) fn encode(&self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        let Reply { version, status, lease, seat, node, pid } = *self;
        for (at, word) in [(0, MAGIC), (4, version), (8, status), (12, lease)] {
            put(&mut bytes, at, word);
        }
        bytes[16..24].copy_from_slice(&seat.to_ne_bytes());
        for (at, word) in [(24, node.domain), (28, node.node), (32, pid)] {
            put(&mut bytes, at, word);
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Reply> {
        if bytes.len() != REPLY_BYTES || get(bytes, 0) != MAGIC {
            return None;
        }
        let seat = u64::from_ne_bytes(bytes[16..24].try_into().ok()?);
        let node = NodeId::new(get(bytes, 24), get(bytes, 28));
        let (version, status) = (get(bytes, 4), get(bytes, 8));
        Some(Reply { version, status, lease: get(bytes, 12), seat, node, pid: get(bytes, 32) })
    }
}

/// The address of a path, or of `@NAME`.
pub(crate) fn address(path: &Path) -> rustix::io::Result<SocketAddrUnix> {
    use std::os::unix::ffi::OsStrExt;
    match path.as_os_str().as_bytes().split_first() {
        Some((b'@', name)) => SocketAddrUnix::new_abstract_name(name),
        _ => SocketAddrUnix::new(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_and_replies_come_back() {
        let endpoint = "x".repeat(NAME_BYTES_MAX);
        for reset in [false, true] {
            let role = if reset { Role::Sender } else { Role::Receiver };
            let (lends, endpoint) = (!reset, endpoint.clone());
            let request = Request::Attach { domain: 1, node: 2, role, reset, lends, endpoint };
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        for request in [Request::Detach { lease: 7 }, Request::Memory { lease: 8 }] {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        let reply = Reply { version: 1, status: 6, lease: 2, seat: 1 << 40, node: NodeId::new(3, 4), pid: 5 };
        assert_eq!(Reply::decode(&reply.encode()), Some(reply));
    }

    #[test]
    fn another_version_is_told_from_nonsense() {
        let mut bytes = Request::Detach { lease: 7 }.encode();
        bytes[4] = 3;
        assert_eq!(Request::decode(&bytes), Err(Status::Version));
        bytes[0] = 0;
        assert_eq!(Request::decode(&bytes), Err(Status::Malformed));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 512 }, failure_persistence: None, ..Default::default() })]
        #[test]
        fn any_bytes_are_decoded_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..120), whole: bool) {
            if whole {
                bytes.resize(REQUEST_BYTES, 1);
                bytes[..4].copy_from_slice(&MAGIC.to_ne_bytes());
                bytes[4..8].copy_from_slice(&VERSION.to_ne_bytes());
                bytes[8] &= 3;
                bytes[9..12].fill(0);
            }
            let _ = Request::decode(&bytes);
            let _ = Reply::decode(&bytes);
        }
    }
}
