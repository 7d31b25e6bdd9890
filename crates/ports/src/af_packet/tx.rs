// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmitting through a packet socket, many frames in one system call.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use packet::port::{Error, Link, QueueStats, TxQueue};
use packet::{Batch, Packet};

use super::{Shared, orphaned};
use crate::link::Pace;
use crate::memory::Taken;
use crate::sys::{self, Aside, Counters};

const PACKET_QDISC_BYPASS: i32 = 20;
/// Frames in one system call.
const BURST: usize = 256;
/// Bytes that may wait in the kernel.
const SEND_BUFFER: i32 = 4 << 20;

/// The transmit queue.
pub(super) struct PacketTx {
    shared: Arc<Shared>,
    /// `None` while the interface is gone.
    socket: Option<OwnedFd>,
    messages: Box<[libc::mmsghdr; BURST]>,
    vectors: Box<[libc::iovec; BURST]>,
    aside: Aside<Option<OwnedFd>>,
    pace: Pace,
    counters: Counters,
    _taken: Taken,
}

// SAFETY: the pointers in `messages` and `vectors` are written anew before each system call and are never followed
// otherwise.
unsafe impl Send for PacketTx {}

fn open(shared: &Shared, ifindex: u32) -> io::Result<OwnedFd> {
    let socket = shared.socket(0, ifindex)?;
    if !shared.qdisc {
        // A kernel that does not know it sends through the queueing discipline, more slowly.
        let _ = sys::set_option(&socket, libc::SOL_PACKET, PACKET_QDISC_BYPASS, &1i32);
    }
    // Best effort: without the privilege the default size stays.
    let _ = sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER)
        .or_else(|_| sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BUFFER));
    Ok(socket)
}

impl PacketTx {
    pub(super) fn open(shared: Arc<Shared>, taken: Taken) -> Result<PacketTx, Error> {
        let socket = open(&shared, shared.watch.bound()).map_err(|e| shared.explain(&e))?;
        // SAFETY: zeros are values of both types.
        let (messages, vectors) = unsafe { (Box::new(std::mem::zeroed()), Box::new(std::mem::zeroed())) };
        Ok(PacketTx {
            shared,
            socket: Some(socket),
            messages,
            vectors,
            aside: Aside::default(),
            pace: Pace::default(),
            counters: Counters::default(),
            _taken: taken,
        })
    }

    /// Offers the packets to the kernel; how many it took, or its answer to the first.
    fn send(&mut self, packets: &[Packet]) -> io::Result<usize> {
        let Some(socket) = &self.socket else { return Err(io::Error::from_raw_os_error(libc::ENXIO)) };
        let n = packets.len().min(BURST);
        for ((message, vector), packet) in self.messages.iter_mut().zip(self.vectors.iter_mut()).zip(packets)
        {
            vector.iov_base = packet.as_ptr().cast_mut().cast();
            vector.iov_len = packet.len();
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `n` messages point to the first `n` vectors and those to the packets, which live through
        // the call; the kernel only reads the packets.
        let sent = sys::check(unsafe {
            libc::sendmmsg(socket.as_raw_fd(), self.messages.as_mut_ptr(), n as u32, libc::MSG_DONTWAIT)
        })?;
        Ok(sent as usize)
    }

    #[cold]
    fn look(&mut self) {
        if self.socket.as_ref().is_some_and(|socket| !orphaned(socket))
            && self.shared.watch.state() != Link::Gone
        {
            return;
        }
        if self.socket.is_none() && !self.aside.is_busy() && self.shared.watch.index().is_none() {
            return;
        }
        let (shared, old) = (self.shared.clone(), self.socket.take());
        let reopen = move || {
            drop(old);
            let ifindex = shared.watch.index()?;
            shared.moved_to(ifindex);
            open(&shared, ifindex).ok()
        };
        self.socket = self.aside.look(reopen).flatten();
    }
}

impl TxQueue for PacketTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let (mut done, mut good, mut bytes) = (0, 0, 0);
        while done < batch.len() {
            match self.send(&batch[done..]) {
                Ok(n) => {
                    bytes += batch[done..done + n].iter().map(Packet::len).sum::<usize>();
                    good += n;
                    done += n;
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // No room in the socket or in the device's own queue.
                    Some(libc::EAGAIN | libc::ENOBUFS) => break,
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                        // A wire without carrier loses what is sent into it.
                        self.pace.hurry();
                        if self.pace.due() {
                            self.look();
                        }
                        done = batch.len();
                    }
                    // Too long, too short: this one will never go.
                    _ => done += 1,
                },
            }
        }
        if done == batch.len() {
            batch.free_all();
        } else {
            drop(batch.split_front(done));
        }
        self.counters.moved(good, bytes);
        self.counters.errors(done - good);
        done
    }

    fn fd(&self) -> Option<RawFd> {
        self.socket.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn fault(&self) -> Option<Error> {
        self.shared.watch.fault()
    }

    fn stats(&self) -> QueueStats {
        self.counters.read()
    }
}
