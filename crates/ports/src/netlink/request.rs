// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to the kernel's rtnetlink(7), whose answers are there when the call returns.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{BUFFER, messages};
use crate::opener::{self, Call};
use crate::sys::{self, check};

/// Flags: a request that is to be acknowledged; it makes something that is not there; it changes what is there; it asks for all objects.
const REQUEST: u16 = 1 | 4;
pub(crate) const CREATE: u16 = 0x400 | 0x200;
pub(crate) const REPLACE: u16 = 0x100;
const DUMP: u16 = 0x300;

const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A message to the kernel.
pub(crate) struct Request {
    bytes: Vec<u8>,
}

/// An attribute: its length and kind, and the value.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

impl Request {
    pub(crate) fn new(kind: u16, flags: u16, body: &[u8]) -> Request {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((REQUEST | flags).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        Request { bytes }
    }

    /// A whole message, as another process has made it.
    pub(crate) fn of(message: &[u8]) -> Request {
        Request { bytes: message.to_vec() }
    }

    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.bytes.extend(attribute(kind, value));
    }

    fn write(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        // SAFETY: the kernel reads `len` bytes of the request.
        let sent = unsafe { libc::send(socket.as_raw_fd(), self.bytes.as_ptr().cast(), self.bytes.len(), 0) };
        check(sent as libc::c_int)?;
        Ok(())
    }

    /// Sends it and waits for the kernel's acknowledgement.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn send(mut self, socket: &OwnedFd) -> io::Result<()> {
        if let Some(asked) = opener::ask_to(Call::Route, [0; 4], &self.bytes, &[]) {
            return asked;
        }
        self.write(socket)?;
        let mut answer = vec![0u8; BUFFER];
        let got = sys::receive(socket, &mut answer)?.min(BUFFER);
        let mut result = Err(io::Error::other("the kernel answered something else"));
        messages(&answer[..got], &mut |kind, body| {
            if kind == ERROR {
                result = acknowledged(body);
            }
        });
        result
    }

    /// Asks for all objects, and calls `tell` with the body of each.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn ask_for_all(mut self, socket: &OwnedFd, mut tell: impl FnMut(&[u8])) -> io::Result<()> {
        let flags = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]) | DUMP;
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.write(socket)?;
        let mut answer = vec![0u8; BUFFER];
        let mut end = None;
        while end.is_none() {
            let got = sys::receive(socket, &mut answer)?.min(BUFFER);
            messages(&answer[..got], &mut |kind, body| match kind {
                ERROR | DONE => end = Some(acknowledged(body)),
                _ => tell(body),
            });
        }
        end.unwrap_or(Ok(()))
    }
}

/// The code of an acknowledgement, or of the end of a list.
fn acknowledged(body: &[u8]) -> io::Result<()> {
    match body.first_chunk::<4>().map_or(0, |code| i32::from_ne_bytes(*code)) {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}
