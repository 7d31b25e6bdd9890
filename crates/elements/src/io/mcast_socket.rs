// SPDX-License-Identifier: MIT OR Apache-2.0
//! # McastSocket
//!
//! `McastSocket(MCASTIP, MCASTPORT [, SOURCEIP, SOURCEPORT, keywords LOOP, SNAPLEN, HEADROOM, TIMESTAMP, SNDBUF, RCVBUF])`
//!
//! Carries packets over UDP multicast: what comes in is sent to the group, what others send to the group goes out.
//!
//! **Ports:** up to 1 input, agnostic; up to 1 push output. Packets do not flow from one to the other.
//!
//! **Arguments**
//! * `MCASTIP`, `MCASTPORT` the group, an IPv4 multicast address, and its port.
//! * `SOURCEIP` an address of this machine: packets are sent from it, and groups joined on its interface. Without it the system's routes
//!   decide. `SOURCEPORT` the port that packets are sent from, default one that the system chooses.
//! * `LOOP` boolean, default true: other programs on this machine hear what is sent. The element drops its own packets.
//! * `SNAPLEN` bytes of each packet to receive at most, default 2048.
//! * `HEADROOM` bytes of free room before each packet, default the packets' usual 128.
//! * `TIMESTAMP` boolean, default true: packets carry the time they were received.
//! * `SNDBUF`, `RCVBUF` bytes that the kernel keeps to be sent, or to be received; default the system's.
//!
//! A socket that is full keeps up to 1024 pushed packets; with a pull input it fetches only what it can send.
//!
//! **Cores:** one worker owns the sockets; others that send wait for their turn.
//!
//! **Metadata set:** timestamp.
//!
//! **Drops:** `socket-error` when the socket refuses; `device-full` when too many wait; `own-source`, the element's own packets;
//! `no-memory`.
//!
//! **Handlers**
//! * `count` read: packets received. `sent` read: packets sent.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> McastSocket(239.0.0.1, 1234, 127.0.0.1);
//! ```
//!
//! See also: Socket, MemoryPort

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use engine::args::{Args, Port};
use engine::{Class, Cx, Element, Handler, HandlerError, InitCx, OpenCx, Reason, Tasks, swap};
use packet::{Batch, HEADROOM, Packet};
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::files::reason;
use crate::tools::needed;

/// The descriptor.
pub const CLASS: Class = Class::new("McastSocket", "0-1/0-1", || Box::new(McastSocket::default()))
    .processing("a/h")
    .flow("x/y")
    .serial("one pair of sockets, read and written in one order")
    .handlers(&[Handler::read("count"), Handler::read("sent")])
    .file(file!());

/// Packets that wait for a full socket.
const MOST_WAITING: usize = 1024;
/// Packets received before others get their turn.
const MOST_AT_ONCE: usize = 256;

/// Where packets are sent from, and where those of others arrive.
struct Sockets {
    send: UdpSocket,
    receive: UdpSocket,
    /// The address that the element's own packets come from.
    own: SocketAddr,
}

#[derive(Default)]
struct McastSocket {
    group: Option<(Ipv4Addr, u16)>,
    source: (Option<Ipv4Addr>, u16),
    loops: bool,
    snaplen: usize,
    headroom: usize,
    timestamp: bool,
    sndbuf: Option<usize>,
    rcvbuf: Option<usize>,
    pulls: bool,
    sockets: Option<Sockets>,
    waiting: VecDeque<Packet>,
    buffer: Vec<u8>,
    /// The socket had more when we stopped reading.
    more: bool,
    count: u64,
    sent: u64,
}

impl McastSocket {
    fn connect(&self, (ip, port): (Ipv4Addr, u16)) -> io::Result<Sockets> {
        let (source, source_port) = (self.source.0.unwrap_or(Ipv4Addr::UNSPECIFIED), self.source.1);
        let send = UdpSocket::bind((source, source_port))?;
        if self.source.0.is_some() {
            sockopt::set_ip_multicast_if(&send, &source)?;
        }
        send.set_multicast_loop_v4(self.loops)?;
        send.set_nonblocking(true)?;
        if let Some(bytes) = self.sndbuf {
            sockopt::set_socket_send_buffer_size(&send, bytes)?;
        }
        // Several programs on a machine may listen to one group.
        let receive = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        sockopt::set_socket_reuseaddr(&receive, true)?;
        if let Some(bytes) = self.rcvbuf {
            sockopt::set_socket_recv_buffer_size(&receive, bytes)?;
        }
        rustix::net::bind(&receive, &SocketAddr::from((ip, port)))?;
        let receive = UdpSocket::from(receive);
        receive.join_multicast_v4(&ip, &source)?;
        receive.set_nonblocking(true)?;
        let own = send.local_addr()?;
        Ok(Sockets { send, receive, own })
    }

    fn receive(&mut self, cx: &mut Cx<'_>) {
        let Some(sockets) = &self.sockets else { return };
        let mut batch = Batch::new();
        let mut seen = 0;
        while seen < MOST_AT_ONCE {
            let (n, from) = match sockets.receive.recv_from(&mut self.buffer) {
                Ok(got) => got,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            seen += 1;
            cx.made(1);
            let same_host = sockets.own.ip().is_unspecified() || sockets.own.ip() == from.ip();
            if sockets.own.port() == from.port() && same_host {
                cx.count_drops(Reason::OwnSource, 1);
                continue;
            }
            match Packet::copy_with_headroom(self.headroom, &self.buffer[..n]) {
                Some(mut packet) => {
                    if self.timestamp {
                        packet.set_timestamp_ns(cx.wall());
                    }
                    batch.push(packet);
                }
                None => cx.count_drops(Reason::NoMemory, 1),
            }
        }
        self.count += batch.len() as u64;
        // Readiness is told once, so the task reads on.
        self.more = seen == MOST_AT_ONCE;
        if self.more {
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
        let (Some(sockets), Some(group)) = (&self.sockets, self.group) else { return };
        while let Some(packet) = self.waiting.pop_front() {
            match sockets.send.send_to(packet.data(), group) {
                Ok(_) => {
                    self.sent += 1;
                    cx.took(1);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => self.waiting.push_front(packet),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return self.waiting.push_front(packet),
                Err(_) => cx.drop(Reason::SocketError, packet),
            }
        }
    }

    fn watch(&self, cx: &mut Cx<'_>) {
        if let Some(sockets) = &self.sockets {
            cx.watch(sockets.receive.as_raw_fd(), true, false);
            cx.watch(sockets.send.as_raw_fd(), false, true);
        }
    }
}

impl Element for McastSocket {
    fn configure(&mut self, args: &mut Args<'_>) {
        let ip = needed(args, "MCASTIP", Ipv4Addr::new(224, 0, 0, 1));
        let Port(port) = args.required("MCASTPORT");
        self.group = Some((ip, port));
        self.source = (args.positional_opt("SOURCEIP"), args.positional("SOURCEPORT", Port(0)).0);
        self.loops = args.keyword("LOOP", true);
        self.snaplen = args.keyword_in("SNAPLEN", 2048, 1..=65536);
        self.headroom = args.keyword_in("HEADROOM", HEADROOM, 0..=8192);
        self.timestamp = args.keyword("TIMESTAMP", true);
        self.sndbuf = args.keyword_opt("SNDBUF");
        self.rcvbuf = args.keyword_opt("RCVBUF");
        self.pulls = args.input_is_pull(0);
        if args.errors().is_empty() && !ip.is_multicast() {
            args.error(format!("MCASTIP must be a multicast address, from 224.0.0.0 on, not {ip}"));
        }
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        self.buffer = vec![0; self.snaplen];
        if let (Some(group), false) = (self.group, cx.inherits() || cx.is_dry()) {
            let failed = |e| format!("{}:{}: {}", group.0, group.1, reason(&e));
            self.sockets = Some(self.connect(group).map_err(failed)?);
        }
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.watch(cx);
        if self.pulls {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let room = MOST_WAITING - self.waiting.len().min(MOST_WAITING);
        self.waiting.extend(batch.split_front(room).drain(..));
        self.flush(cx);
        cx.drop_batch(Reason::DeviceFull, batch);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let had_more = self.more;
        if had_more {
            self.receive(cx);
        }
        if !self.pulls {
            if !self.more {
                cx.unschedule();
            }
            return had_more;
        }
        let mut any = false;
        if self.waiting.is_empty() {
            let mut batch = cx.pull(0, cx.burst());
            any = !batch.is_empty();
            self.waiting.extend(batch.drain(..));
        }
        self.flush(cx);
        any || had_more
    }

    fn run_fd(&mut self, cx: &mut Cx<'_>, _: RawFd) {
        self.flush(cx);
        self.receive(cx);
    }

    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        Ok(if name == "count" { self.count } else { self.sent }.to_string())
    }

    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<McastSocket>(old) else { return false };
        self.count += std::mem::take(&mut old.count);
        self.sent += std::mem::take(&mut old.sent);
        if self.sockets.is_none() {
            self.sockets = old.sockets.take();
            self.waiting.append(&mut old.waiting);
            self.more = old.more;
            self.watch(cx);
            if self.more {
                cx.schedule();
            }
        }
        true
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.flush(cx);
        let left: Batch = self.waiting.drain(..).collect();
        cx.drop_batch(Reason::RouterStopped, left);
        self.sockets = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::Reason;

    use crate::testing::Rig;

    #[test]
    fn what_one_sends_the_other_hears() {
        // Loopback has no multicast route, but its address names the interface.
        let text = "a :: McastSocket(239.255.71.1, 47711, 127.0.0.1); InfiniteSource(abc, 3) -> a; a -> own :: Counter -> Discard; \
                    McastSocket(239.255.71.1, 47711, 127.0.0.1) -> Counter(COUNT_CALL 3 stop) -> o :: TestOut;";
        let mut run = Rig::text(text).run();
        assert_eq!(run.bytes("o"), [b"abc"; 3]);
        assert_eq!((run.read("a.sent"), run.read("own.count")), ("3".into(), "0".into()));
        // Its own packets have come back to it, too, and are found when it looks at its socket.
        for _ in 0..1000 {
            if run.drops("a").is_empty() {
                run = run.run_for(Duration::from_millis(1));
            }
        }
        assert_eq!(run.drops("a"), [(Reason::OwnSource, 3)]);
    }

    #[test]
    fn groups_are_checked() {
        let errors = Rig::text("e :: McastSocket(10.0.0.1, 5) -> Discard;").errors();
        assert_eq!(errors, ["e: MCASTIP must be a multicast address, from 224.0.0.0 on, not 10.0.0.1"]);
    }
}
