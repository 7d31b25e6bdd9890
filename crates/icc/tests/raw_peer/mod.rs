// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that speaks to a serving node by bytes of its own, and writes to regions by system calls.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};

/// What it attaches as.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    Sender = 1,
    Receiver = 2,
}

/// A connection to a serving node.
pub struct Raw(OwnedFd);

/// The memory of an endpoint.
pub struct Region(File);

impl Region {
    /// Writes a word.
    pub fn write(&self, word: usize, value: u64) {
        self.0.write_all_at(&value.to_ne_bytes(), 8 * word as u64).unwrap();
    }

    /// Writes a word somewhere, if this side may write at all.
    pub fn write_anywhere(&self, word: usize, value: u64) {
        let words = self.0.metadata().unwrap().len() as usize / 8;
        let _ = self.0.write_all_at(&value.to_ne_bytes(), 8 * (word % words) as u64);
    }
}

impl Raw {
    pub fn new(socket: OwnedFd) -> Raw {
        Raw(socket)
    }

    /// Sends any bytes; answers are left to lie.
    pub fn say(&mut self, bytes: &[u8]) {
        let _ = net::send(&self.0, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }

    /// Attaches; the region of the endpoint.
    pub fn attach(&mut self, endpoint: &str, role: Role) -> Option<Region> {
        self.ask(endpoint, role, false)
    }

    /// The same, perhaps with a reset.
    pub fn ask(&mut self, endpoint: &str, role: Role, reset: bool) -> Option<Region> {
        let mut request = [0u8; 96];
        let words = [u32::from_be_bytes(*b"ICC1"), 2, 1, 0, 9, role as u32, u32::from(reset), 0];
        for (to, word) in request.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_ne_bytes();
        }
        request[32..32 + endpoint.len()].copy_from_slice(endpoint.as_bytes());
        net::sendmsg(
            &self.0,
            &[IoSlice::new(&request)],
            &mut net::SendAncillaryBuffer::default(),
            SendFlags::NOSIGNAL,
        )
        .ok()?;
        // Answers to what was said before may come first.
        loop {
            let (status, region) = self.answer()?;
            match (status, region) {
                (0, Some(region)) => return Some(region),
                (1 | 2, _) => {}
                _ => return None,
            }
        }
    }

    /// The next answer: its status, and the first descriptor that came with it.
    fn answer(&mut self) -> Option<(u32, Option<Region>)> {
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        assert_eq!(poll(&mut fds, Some(&limit)), Ok(1), "the node that serves does not answer");
        let (mut bytes, mut space) = ([0; 64], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))]);
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut bytes)];
        let received = net::recvmsg(&self.0, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
        let all = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let first = all.flatten().next().map(|fd| Region(File::from(fd)));
        if received.bytes == 0 {
            return None;
        }
        Some((u32::from_ne_bytes(bytes[8..12].try_into().unwrap()), first))
    }
}

/// Memory that packets can be lent from, with one packet at its start.
pub struct Frames {
    memory: OwnedFd,
    bytes: Vec<u8>,
}

impl Frames {
    pub fn new(bytes: &[u8]) -> Frames {
        let memory =
            rustix::fs::memfd_create("frames", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        let file = File::from(memory);
        file.set_len(4096).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        Frames { memory: file.into(), bytes: bytes.to_vec() }
    }

    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }
}
