// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether an interface sends what XDP programs redirect to it: the kernel drops such frames silently where it does not.
//!
//! Asked of the kernel's generic netlink family `netdev` (Linux 6.3; `Documentation/netlink/specs/netdev.yaml`).

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use crate::sys;

const HEADER: usize = 16 + 4;
const REQUEST: u16 = 1;
/// The family that knows the others, and what it is asked.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET_DEVICE: u8 = 1;
const IFINDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;
/// The driver sends what is redirected to it.
const TRANSMITS: u64 = 1 << 2;

/// Asks about interfaces of one network namespace.
#[derive(Debug)]
pub(super) struct Features {
    socket: OwnedFd,
    family: u16,
}

impl Features {
    /// Of the calling thread's namespace; nothing if this kernel does not tell.
    pub(super) fn new() -> Option<Features> {
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC).ok()?;
        let name = (FAMILY_NAME, &b"netdev\0"[..]);
        let family = request(&socket, CONTROL, GET_FAMILY, name, FAMILY_ID).ok()??;
        Some(Features { socket, family: family as u16 })
    }

    /// Whether the interface sends what is redirected to it, if the kernel says.
    pub(super) fn transmits(&self, ifindex: u32) -> Option<bool> {
        let index = (IFINDEX, &ifindex.to_ne_bytes()[..]);
        let features = request(&self.socket, self.family, GET_DEVICE, index, XDP_FEATURES).ok()??;
        Some(features & TRANSMITS != 0)
    }
}

/// Asks a family with one attribute, and takes one number from the answer.
fn request(
    socket: &OwnedFd,
    family: u16,
    command: u8,
    (kind, value): (u16, &[u8]),
    wanted: u16,
) -> io::Result<Option<u64>> {
    let attribute = 4 + value.len();
    let len = HEADER + attribute.next_multiple_of(4);
    let mut message = Vec::with_capacity(len);
    message.extend((len as u32).to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // Number and sender, which the kernel fills in or returns; then command and version.
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend((attribute as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(len, 0);
    // SAFETY: the kernel reads the message. It answers before this returns.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), len, libc::MSG_DONTWAIT) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = [0; 8192];
    let got = sys::receive(socket, &mut answer)?;
    Ok(answer.get(..got).filter(|answer| answers(answer, family)).and_then(|answer| number(answer, wanted)))
}

/// Whether it is an answer of the family, and not an error.
fn answers(message: &[u8], family: u16) -> bool {
    message.get(4..6).is_some_and(|kind| kind == family.to_ne_bytes())
}

/// The attribute of this kind as a number.
fn number(message: &[u8], wanted: u16) -> Option<u64> {
    let mut rest = message.get(HEADER..)?;
    while let [a, b, c, d, ..] = *rest {
        let (len, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        let value = rest.get(4..len)?;
        if kind == wanted {
            return match *value {
                [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
                _ => value.try_into().ok().map(u64::from_ne_bytes),
            };
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found() {
        let mut message = vec![0; HEADER];
        message.extend([5, 0, 1, 0, 9, 0, 0, 0]);
        message.extend([12, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0, 1]);
        message.extend([6, 0, 7, 0, 1, 2]);
        if cfg!(target_endian = "little") {
            assert_eq!(number(&message, 3), Some(1 << 56 | 4));
            assert_eq!(number(&message, 7), Some(0x0201));
        }
        assert_eq!((number(&message, 8), number(&message[..22], 3)), (None, None));
        // Lengths that lie.
        for len in [0, 3, 200] {
            message[HEADER] = len;
            assert_eq!(number(&message, 3), None);
        }
    }
}
