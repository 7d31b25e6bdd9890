// SPDX-License-Identifier: MIT OR Apache-2.0
//! What Socket and McastSocket share: their settings, packets that wait for a full socket, and how much is done at once.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use element::args::Args;
use element::swap::Count;
use element::{Cx, Reason};
use packet::{Batch, HEADROOM, Packet};
use rustix::net::sockopt;

/// Packets that wait for a full socket.
const MOST_WAITING: usize = 1024;
/// Readings before others get their turn.
const MOST_AT_ONCE: usize = 256;

/// What a reading yields.
pub(super) enum Read {
    /// So many bytes at the beginning of the buffer.
    Bytes(usize),
    /// A datagram that is dropped.
    Refused(Reason),
    /// Nothing, but the next reading may yield something.
    Again,
    /// Nothing is there.
    Empty,
}

/// An element that carries packets over sockets.
pub(super) trait Endpoint {
    /// What all of them have.
    fn exchange(&mut self) -> &mut Exchange;

    /// Reads one packet's bytes into the buffer.
    fn read_one(&mut self, cx: &mut Cx<'_>) -> Read;

    /// Sends one packet; how many bytes of it have gone, with those that had before.
    fn send_one(&mut self, packet: &Packet) -> io::Result<usize>;

    /// Sending has failed.
    fn failed(&mut self, _: &mut Cx<'_>, _: &io::Error) {}

    /// Receives what is there.
    fn receive(&mut self, cx: &mut Cx<'_>) {
        let mut batch = Batch::new();
        let mut readings = 0;
        while readings < MOST_AT_ONCE {
            match self.read_one(cx) {
                Read::Bytes(n) => match self.exchange().packet(cx, n) {
                    Some(packet) => batch.push(packet),
                    None => cx.count_drops(Reason::NoMemory, 1),
                },
                Read::Refused(reason) => {
                    cx.made(1);
                    cx.count_drops(reason, 1);
                }
                Read::Again => {}
                Read::Empty => break,
            }
            readings += 1;
        }
        let exchange = self.exchange();
        exchange.count += batch.len() as u64;
        // Readiness is reported once, so the task reads on.
        exchange.more = readings == MOST_AT_ONCE;
        if exchange.more {
            cx.schedule();
        }
        if cx.noutputs() > 0 {
            cx.push(0, batch);
        } else {
            cx.drop_batch(Reason::Discarded, batch);
        }
    }

    /// Sends what waits, as far as the socket takes it.
    fn flush(&mut self, cx: &mut Cx<'_>) {
        while let Some(packet) = self.exchange().waiting.pop_front() {
            let sent = self.send_one(&packet);
            let exchange = self.exchange();
            match sent {
                Ok(n) if n >= packet.len() => {
                    exchange.gone = 0;
                    exchange.sent += 1;
                    cx.took(1);
                }
                Ok(n) => {
                    exchange.gone = n;
                    exchange.waiting.push_front(packet);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => exchange.waiting.push_front(packet),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return exchange.waiting.push_front(packet),
                Err(e) => {
                    exchange.gone = 0;
                    cx.drop(Reason::SocketError, packet);
                    self.failed(cx, &e);
                }
            }
        }
    }

    /// Sends pushed packets, and keeps as many as may wait.
    fn take(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        let room = MOST_WAITING - self.exchange().waiting.len().min(MOST_WAITING);
        self.exchange().waiting.extend(batch.split_front(room).drain(..));
        self.flush(cx);
        cx.drop_batch(Reason::DeviceFull, batch);
    }

    /// What the task does: receives on, and fetches packets from a pull input. Returns whether it did anything.
    fn turn(&mut self, cx: &mut Cx<'_>) -> bool {
        let had_more = self.exchange().more;
        if had_more {
            self.receive(cx);
        }
        if !self.exchange().pulls {
            if !self.exchange().more {
                cx.unschedule();
            }
            return had_more;
        }
        let mut any = false;
        if self.exchange().waiting.is_empty() {
            let mut batch = cx.pull(0, cx.burst());
            any = !batch.is_empty();
            self.exchange().waiting.extend(batch.drain(..));
        }
        self.flush(cx);
        any || had_more
    }

    /// Sends what the socket still takes, and drops the rest.
    fn end(&mut self, cx: &mut Cx<'_>) {
        self.flush(cx);
        cx.drop_batch(Reason::RouterStopped, self.exchange().drain());
    }
}

/// See [`Endpoint`].
#[derive(Default)]
pub(super) struct Exchange {
    snaplen: usize,
    headroom: usize,
    timestamp: bool,
    pub sndbuf: Option<usize>,
    pub rcvbuf: Option<usize>,
    /// The input is a pull input.
    pub pulls: bool,
    /// Packets on their way, and how much of the first one is gone.
    pub waiting: VecDeque<Packet>,
    pub gone: usize,
    pub buffer: Vec<u8>,
    /// The socket had more when we stopped reading.
    more: bool,
    count: Count,
    sent: Count,
}

impl Exchange {
    /// Reads the settings.
    pub fn configure(&mut self, args: &mut Args<'_>) {
        self.snaplen = args.keyword_in("SNAPLEN", 2048, 1..=65536);
        self.headroom = args.keyword_in("HEADROOM", HEADROOM, 0..=8192);
        self.timestamp = args.keyword("TIMESTAMP", true);
        self.sndbuf = args.keyword_opt("SNDBUF");
        self.rcvbuf = args.keyword_opt("RCVBUF");
        self.pulls = args.input_is_pull(0);
    }

    /// Makes the buffer that packets are received in.
    pub fn open(&mut self) {
        self.buffer = vec![0; self.snaplen];
    }

    /// Sets how much the kernel keeps to be sent, if that was asked for.
    pub fn size_sending(&self, socket: impl AsFd) -> io::Result<()> {
        let Some(bytes) = self.sndbuf else { return Ok(()) };
        // Who may, goes beyond the system's limit.
        let forced = sockopt::set_socket_send_buffer_size_force(&socket, bytes);
        Ok(forced.or_else(|_| sockopt::set_socket_send_buffer_size(&socket, bytes))?)
    }

    /// Sets how much the kernel keeps to be received, if that was asked for.
    pub fn size_receiving(&self, socket: impl AsFd) -> io::Result<()> {
        let Some(bytes) = self.rcvbuf else { return Ok(()) };
        let forced = sockopt::set_socket_recv_buffer_size_force(&socket, bytes);
        Ok(forced.or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, bytes))?)
    }

    fn packet(&self, cx: &mut Cx<'_>, bytes: usize) -> Option<Packet> {
        cx.made(1);
        let mut packet = Packet::copy_with_headroom(self.headroom, &self.buffer[..bytes])?;
        if self.timestamp {
            packet.set_timestamp_ns(cx.wall());
        }
        Some(packet)
    }

    /// Packets received.
    pub fn received(&self) -> u64 {
        *self.count
    }

    /// Packets sent.
    pub fn sent(&self) -> u64 {
        *self.sent
    }

    /// Takes what waits, the first packet with what is gone of it.
    pub fn drain(&mut self) -> Batch {
        self.gone = 0;
        self.waiting.drain(..).collect()
    }

    /// Adds what another has counted.
    pub fn take_counts(&mut self, old: &mut Exchange) {
        self.count.take(&mut old.count);
        self.sent.take(&mut old.sent);
    }

    /// Goes on where another was, whose socket comes along.
    pub fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Exchange) {
        self.waiting.append(&mut old.waiting);
        (self.gone, self.more) = (std::mem::take(&mut old.gone), old.more);
        if self.more {
            cx.schedule();
        }
    }
}
