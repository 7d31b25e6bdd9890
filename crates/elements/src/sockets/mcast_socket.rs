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
//! `discarded`, what others send, if there is no output; `no-memory`.
//!
//! **Handlers**
//! * `count` read: packets received. `sent` read: packets sent.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> McastSocket(239.0.0.1, 1234, 127.0.0.1);
//! ```
//!
//! See also: Socket, MemoryPort

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use element::args::{Args, Port};
use element::{
    Class, Cx, Element, HotSwap, InitCx, OpenCx, PacketHolder, ProcessEvents, Reason, Tasks, handlers, swap,
};
use packet::{Batch, Packet};
use rustix::net::{AddressFamily, SocketType, sockopt};
use sync::os::reason;

use super::exchange::{Endpoint, Exchange, Read};
use crate::tools::needed;

/// The descriptor.
pub const CLASS: Class = Class::new("McastSocket", "0-1/0-1", || Box::new(McastSocket::default()))
    .processing("a/h")
    .flow("x/y")
    .serial("one pair of sockets, read and written in one order")
    .handlers(handlers! { McastSocket:
        read "count" => |socket| socket.exchange.received();
        read "sent" => |socket| socket.exchange.sent();
    })
    .hot_swap::<McastSocket>()
    .process_events::<McastSocket>()
    .packet_holder::<McastSocket>()
    .file(file!());

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
    sockets: Option<Sockets>,
    exchange: Exchange,
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
        self.exchange.size_sending(&send)?;
        // Several programs on a machine may listen to one group.
        let receive = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        sockopt::set_socket_reuseaddr(&receive, true)?;
        self.exchange.size_receiving(&receive)?;
        rustix::net::bind(&receive, &SocketAddr::from((ip, port)))?;
        let receive = UdpSocket::from(receive);
        receive.join_multicast_v4(&ip, &source)?;
        receive.set_nonblocking(true)?;
        let own = send.local_addr()?;
        Ok(Sockets { send, receive, own })
    }

    fn watch(&self, cx: &mut Cx<'_>) {
        if let Some(sockets) = &self.sockets {
            cx.watch(sockets.receive.as_raw_fd(), true, false);
            cx.watch(sockets.send.as_raw_fd(), false, true);
        }
    }
}

impl Endpoint for McastSocket {
    fn exchange(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    fn read_one(&mut self, _: &mut Cx<'_>) -> Read {
        let Some(sockets) = &self.sockets else { return Read::Empty };
        let (n, from) = match sockets.receive.recv_from(&mut self.exchange.buffer) {
            Ok(got) => got,
            Err(e) if e.kind() == ErrorKind::Interrupted => return Read::Again,
            Err(_) => return Read::Empty,
        };
        let same_host = sockets.own.ip().is_unspecified() || sockets.own.ip() == from.ip();
        if sockets.own.port() == from.port() && same_host {
            Read::Refused(Reason::OwnSource)
        } else {
            Read::Bytes(n)
        }
    }

    fn send_one(&mut self, packet: &Packet) -> io::Result<usize> {
        let (Some(sockets), Some(group)) = (&self.sockets, self.group) else {
            return Err(ErrorKind::NotConnected.into());
        };
        sockets.send.send_to(packet.data(), group)
    }
}

impl Element for McastSocket {
    fn configure(&mut self, args: &mut Args<'_>) {
        let ip = needed(args, "MCASTIP", Ipv4Addr::new(224, 0, 0, 1));
        let Port(port) = args.required("MCASTPORT");
        self.group = Some((ip, port));
        self.source = (args.positional_opt("SOURCEIP"), args.positional("SOURCEPORT", Port(0)).0);
        self.loops = args.keyword("LOOP", true);
        self.exchange.configure(args);
        if args.errors().is_empty() && !ip.is_multicast() {
            args.error(format!("MCASTIP must be a multicast address, from 224.0.0.0 on, not {ip}"));
        }
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        self.exchange.open();
        if let (Some(group), false) = (self.group, cx.inherits() || cx.is_dry()) {
            let failed = |e| format!("{}:{}: {}", group.0, group.1, reason(&e));
            self.sockets = Some(self.connect(group).map_err(failed)?);
        }
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.watch(cx);
        if self.exchange.pulls {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        self.take(cx, batch);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        self.turn(cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.end(cx);
        self.sockets = None;
    }
}

impl PacketHolder for McastSocket {
    fn held(&self) -> usize {
        self.exchange.waiting.len()
    }
}

impl ProcessEvents for McastSocket {
    fn run_fd(&mut self, cx: &mut Cx<'_>, _: RawFd) {
        self.flush(cx);
        self.receive(cx);
    }
}

impl HotSwap for McastSocket {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<McastSocket>(old) else { return false };
        self.exchange.take_counts(&mut old.exchange);
        if self.sockets.is_none() {
            self.sockets = old.sockets.take();
            self.exchange.take_over(cx, &mut old.exchange);
            self.watch(cx);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use element::Reason;

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
    fn what_the_socket_refuses_is_dropped() {
        // No datagram can be sent to port 0.
        let text = "InfiniteSource(a, LIMIT 2, STOP true) -> e :: McastSocket(239.255.71.1, 0, 127.0.0.1);";
        let mut run = Rig::text(text).run();
        assert_eq!((run.drops("e"), run.read("e.sent")), (vec![(Reason::SocketError, 2)], "0".into()));
    }

    #[test]
    fn groups_are_checked() {
        let errors = Rig::text("e :: McastSocket(10.0.0.1, 5) -> Discard;").errors();
        assert_eq!(errors, ["e: MCASTIP must be a multicast address, from 224.0.0.0 on, not 10.0.0.1"]);
    }
}
