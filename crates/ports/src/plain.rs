// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet socket used in the plainest way: a system call for each frame.
//!
//! No driver for a router, but what a simple program does, to compare with: one `recv` and one `send` for each frame, buffers of
//! the size that the system gives everybody. A VLAN tag that the kernel has taken out of a frame is not put back.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::af_packet::bind;
use crate::link::Interfaces;
use crate::sys;

const PACKET_IGNORE_OUTGOING: i32 = 23;

/// A packet socket on one interface.
#[derive(Debug)]
pub struct PlainSocket(OwnedFd);

impl PlainSocket {
    /// Opens one on an interface of the calling thread's namespace, for all that arrives there.
    ///
    /// # Errors
    /// No such interface, or no permission.
    pub fn open(interface: &str) -> io::Result<PlainSocket> {
        let index = Interfaces::new()?.index(interface)?;
        let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        sys::set_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
        bind(&socket, libc::ETH_P_ALL as u16, index)?;
        Ok(PlainSocket(socket))
    }

    /// Receives a frame; returns its length, or `None` if none came for so long, or one that is longer than the buffer.
    ///
    /// # Errors
    /// The kernel's: the interface is down, or has gone.
    pub fn receive(&self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<usize>> {
        match sys::receive(&self.0, buffer) {
            Ok(len) => Ok(Some(len).filter(|len| *len <= buffer.len())),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let mut wanted = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                let patience_ms = patience.as_millis().min(i32::MAX as u128) as i32;
                // SAFETY: the kernel reads and writes the one `pollfd`.
                sys::check(unsafe { libc::poll(&raw mut wanted, 1, patience_ms) })?;
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Sends a frame, waiting for nothing.
    ///
    /// # Errors
    /// No room in the interface's queue, a frame beyond its MTU, or a link that is down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads the frame.
        let sent =
            unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_as_they_were_sent() {
        if testbed::rig::skip("frames_arrive_as_they_were_sent") {
            return;
        }
        let rig = testbed::rig::Rig::new(testbed::rig::Cable::default()).unwrap();
        let here = rig.a.enter(|| PlainSocket::open("a0").unwrap()).unwrap();
        let there = rig.dut.enter(|| PlainSocket::open("d0").unwrap()).unwrap();
        let frame: Vec<u8> = (0..100).collect();
        let mut buffer = [0; 200];
        assert_eq!(there.receive(&mut buffer, Duration::ZERO).unwrap(), None);
        here.send(&frame).unwrap();
        testbed::rig::wait_for("the frame", Duration::from_secs(60), || {
            there.receive(&mut buffer, Duration::from_secs(1)).unwrap() == Some(100)
        })
        .unwrap();
        assert_eq!(buffer[..100], frame);
        // It does not receive what it sent itself, and what does not fit is not cut.
        assert_eq!(here.receive(&mut buffer, Duration::ZERO).unwrap(), None);
        here.send(&frame).unwrap();
        assert_eq!(there.receive(&mut buffer[..50], Duration::from_secs(60)).unwrap(), None);
        assert!(PlainSocket::open("nonesuch").is_err());
    }
}
