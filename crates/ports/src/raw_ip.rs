// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw IPv4 sockets: the packets of one IP protocol that this host's own stack delivers, and a way to send packets
//! with headers of our making.
//!
//! The kernel hands every raw socket a copy of each packet for its protocol, reassembled, behind its own processing:
//! a socket steals nothing. What comes from this host itself, or over a virtual interface, has an unfinished checksum, which
//! is completed here. On what is sent the kernel sets total length and checksum, and source and identification
//! where they are zero (raw(7)); it never fragments. One packet moves per system call.
//!
//! A port (or a GRE key, or an ICMP identifier) restricts what is received, by a filter in the kernel, and reserves
//! the port of UDP or TCP, so that no other program uses it.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use packet::port::{Device, Error, Info, QueueStats, RxQueue, TxQueue, link_type};
use packet::{Batch, HEADROOM, Packet, anno};
use wire::Protocol;

use crate::memory::Taken;
use crate::partial;
use crate::sys::{self, Counters};

/// Bytes of each packet received unless asked otherwise.
pub const SNAPLEN: usize = 2048;
/// Bytes of packets that may wait in the kernel.
const RECEIVE_BUFFER: i32 = 1 << 20;
/// Shortest IPv4 header.
const SHORTEST: usize = 20;
const PPTP: u32 = 0x880b;

/// How to open a raw socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawIpSpec {
    /// The IP protocol.
    pub protocol: Protocol,
    /// Port of UDP and TCP, identifier of ICMP, key or call of GRE; `None` for all.
    pub port: Option<u16>,
    /// Bytes of each packet to receive at most.
    pub snaplen: usize,
    /// Headroom in bytes before each received packet.
    pub headroom: usize,
}

impl RawIpSpec {
    /// All packets of a protocol.
    pub fn new(protocol: Protocol) -> RawIpSpec {
        RawIpSpec { protocol, port: None, snaplen: SNAPLEN, headroom: HEADROOM }
    }

    fn name(&self) -> String {
        let what = match self.protocol {
            Protocol::ICMP => "identifier",
            Protocol::GRE => "key",
            _ => "port",
        };
        match self.port {
            Some(port) => format!("raw {} {what} {port}", self.protocol),
            None => format!("raw {}", self.protocol),
        }
    }
}

/// An open raw socket.
#[derive(Debug)]
pub struct RawIp {
    me: Weak<RawIp>,
    spec: RawIpSpec,
    socket: Arc<OwnedFd>,
    /// Holds the port.
    _reserved: Option<OwnedFd>,
    rx: Arc<AtomicBool>,
    tx: Arc<AtomicBool>,
}

impl RawIp {
    /// Opens the socket; it receives nothing before its receive queue is taken.
    ///
    /// # Errors
    /// No permission (CAP_NET_RAW), no such protocol, or a port in use.
    pub fn open(spec: &RawIpSpec) -> Result<Arc<RawIp>, Error> {
        let name = spec.name();
        let failed = |what: &str, e: io::Error| {
            let mend = match e.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => crate::settings::grant(),
                Some(libc::EADDRINUSE) => "another program has it; see `ss -lnp`".to_owned(),
                _ => String::new(),
            };
            Error::new(&name, format!("{what}: {}", sys::words(&e)), mend)
        };
        let reserved = reserve(spec).map_err(|e| failed("cannot reserve the port", e))?;
        let open = || -> io::Result<OwnedFd> {
            let socket = sys::socket(libc::AF_INET, libc::SOCK_RAW, i32::from(spec.protocol.0))?;
            sys::attach_filter(&socket, &[RETURN_NONE])?;
            sys::set_option(&socket, libc::IPPROTO_IP, libc::IP_HDRINCL, &1i32)?;
            sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_BROADCAST, &1i32)?;
            // Best effort: without the privilege the default size stays.
            let _ = sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER)
                .or_else(|_| sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER));
            Ok(socket)
        };
        let socket = open().map_err(|e| failed("cannot open a raw socket", e))?;
        Ok(Arc::new_cyclic(|me| RawIp {
            me: me.clone(),
            spec: spec.clone(),
            socket: Arc::new(socket),
            _reserved: reserved,
            rx: Arc::default(),
            tx: Arc::default(),
        }))
    }
}

/// Binds an ordinary socket to the port, for nobody else to take it.
fn reserve(spec: &RawIpSpec) -> io::Result<Option<OwnedFd>> {
    let kind = match spec.protocol {
        Protocol::UDP => libc::SOCK_DGRAM,
        Protocol::TCP => libc::SOCK_STREAM,
        _ => return Ok(None),
    };
    let Some(port) = spec.port else { return Ok(None) };
    let socket = sys::socket(libc::AF_INET, kind, i32::from(spec.protocol.0))?;
    // What comes for it is read from the raw socket.
    sys::attach_filter(&socket, &[RETURN_NONE])?;
    sys::bind(&socket, Ipv4Addr::UNSPECIFIED, port)?;
    Ok(Some(socket))
}

const fn instruction(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

const RETURN_NONE: libc::sock_filter = instruction(libc::BPF_RET | libc::BPF_K, 0);
const RETURN_ALL: libc::sock_filter = instruction(libc::BPF_RET | libc::BPF_K, u32::MAX);

/// A condition on a field behind the IP header: the bits of `mask` in the `size` bytes at offset `at` are `value`.
struct Field {
    size: u32,
    at: u32,
    mask: u32,
    value: u32,
}

const fn field(size: u32, at: u32, value: u32) -> Field {
    Field { size, at, mask: u32::MAX, value }
}

/// Appends instructions that accept the packet if all conditions hold, and go on behind them if not.
fn accept_if(program: &mut Vec<libc::sock_filter>, conditions: &[Field]) {
    use libc::{BPF_ALU, BPF_AND, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD};
    for (i, c) in conditions.iter().enumerate() {
        program.push(instruction(BPF_LD | c.size | BPF_IND, c.at));
        program.push(instruction(BPF_ALU | BPF_AND | BPF_K, c.mask));
        let mut compare = instruction(BPF_JMP | BPF_JEQ | BPF_K, c.value);
        // The other conditions, three instructions each, and the acceptance.
        compare.jf = ((conditions.len() - 1 - i) * 3 + 1) as u8;
        program.push(compare);
    }
    program.push(RETURN_ALL);
}

/// A classic BPF program over the IP packet that lets pass what belongs to the port. Loads beyond the packet reject it.
fn filter(spec: &RawIpSpec) -> Vec<libc::sock_filter> {
    use libc::{BPF_B, BPF_H, BPF_LDX, BPF_MSH, BPF_W};
    let Some(port) = spec.port.map(u32::from) else { return vec![RETURN_ALL] };
    // X: length of the IP header; the fields' offsets are relative to it.
    let mut program = vec![instruction(BPF_LDX | BPF_B | BPF_MSH, 0)];
    match spec.protocol {
        Protocol::ICMP => {
            // Questions and answers have an identifier: echo, timestamp, information, mask.
            for kind in [0, 8, 13, 14, 15, 16, 17, 18] {
                accept_if(&mut program, &[field(BPF_B, 0, kind), field(BPF_H, 4, port)]);
            }
        }
        Protocol::GRE => {
            accept_if(&mut program, &[field(BPF_H, 2, PPTP), field(BPF_H, 6, port)]);
            // A key, behind a checksum or not (RFC 2890).
            let flags = |value| Field { size: BPF_B, at: 0, mask: 0xa0, value };
            accept_if(&mut program, &[flags(0xa0), field(BPF_W, 8, port)]);
            accept_if(&mut program, &[flags(0x20), field(BPF_W, 4, port)]);
        }
        _ => accept_if(&mut program, &[field(BPF_H, 2, port)]),
    }
    program.push(RETURN_NONE);
    program
}

impl Device for RawIp {
    fn info(&self) -> Info {
        Info {
            name: self.spec.name(),
            driver: "a raw socket of the kernel".to_owned(),
            mac: None,
            mtu: usize::from(u16::MAX),
            rx_queues: 1,
            tx_queues: 1,
        }
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let name = self.spec.name();
        let taken = Taken::only(&name, &self.rx, queue)?.keeping(&self.me);
        sys::attach_filter(&self.socket, &filter(&self.spec))
            .map_err(|e| Error::new(&name, format!("cannot set its filter: {}", sys::words(&e)), ""))?;
        Ok(Box::new(RawRx {
            socket: self.socket.clone(),
            snaplen: self.spec.snaplen,
            completes: self.spec.protocol != Protocol::GRE,
            headroom: self.spec.headroom,
            spare: None,
            counters: Counters::default(),
            _taken: taken,
        }))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let name = self.spec.name();
        let taken = Taken::only(&name, &self.tx, queue)?.keeping(&self.me);
        Ok(Box::new(RawTx {
            name,
            socket: self.socket.clone(),
            fault: None,
            counters: Counters::default(),
            _taken: taken,
        }))
    }

    fn link_type(&self) -> u32 {
        link_type::IPV4
    }
}

struct RawRx {
    socket: Arc<OwnedFd>,
    snaplen: usize,
    completes: bool,
    headroom: usize,
    /// A frame into which nothing has been read yet.
    spare: Option<Packet>,
    counters: Counters,
    _taken: Taken,
}

impl RxQueue for RawRx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let (mut n, mut bytes) = (0, 0);
        while n < max {
            let Some(mut packet) = self.spare.take().or_else(|| Packet::alloc(self.headroom, self.snaplen))
            else {
                self.counters.no_memory(1);
                break;
            };
            // A packet's whole length, even where it did not fit.
            let len = match sys::receive(&self.socket, packet.data_mut()) {
                Ok(len) => len,
                Err(e) => {
                    self.spare = Some(packet);
                    if e.kind() != io::ErrorKind::WouldBlock {
                        self.counters.errors(1);
                    }
                    break;
                }
            };
            packet.trim(self.snaplen - len.min(self.snaplen));
            packet.set_anno_u32(anno::EXTRA_LENGTH, len.saturating_sub(self.snaplen) as u32);
            // Who sends GRE by a raw socket writes its checksum, also a wrong one.
            if self.completes
                && len <= self.snaplen
                && partial::complete(packet.data_mut(), partial::Front::Ip)
            {
                self.counters.completed(1);
            }
            bytes += len;
            n += 1;
            batch.push(packet);
        }
        self.counters.moved(n, bytes);
        n
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    fn stats(&self) -> QueueStats {
        QueueStats { missed: sys::dropped(&self.socket), ..self.counters.read() }
    }
}

struct RawTx {
    name: String,
    socket: Arc<OwnedFd>,
    /// The first refusal; later ones are counted only.
    fault: Option<Error>,
    counters: Counters,
    _taken: Taken,
}

impl RawTx {
    #[cold]
    fn refused(&mut self, what: String) {
        self.counters.errors(1);
        if self.fault.is_none() {
            self.fault = Some(Error::new(&self.name, what, "further refusals are only counted"));
        }
    }
}

impl TxQueue for RawTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let (mut n, mut good, mut bytes) = (0, 0, 0);
        while let Some(packet) = batch.get(n) {
            let data = packet.data();
            match data.first_chunk::<SHORTEST>() {
                Some([.., a, b, c, d]) => match sys::send_to(&self.socket, data, [*a, *b, *c, *d].into()) {
                    Ok(()) => {
                        good += 1;
                        bytes += data.len();
                    }
                    // Full for now.
                    Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS)) => break,
                    Err(e) => self.refused(format!("cannot send: {}", sys::words(&e))),
                },
                None => self.refused(format!("cannot send: {} bytes are no IP packet", data.len())),
            }
            n += 1;
        }
        drop(batch.split_front(n));
        self.counters.moved(good, bytes);
        n
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    fn fault(&self) -> Option<Error> {
        self.fault.clone()
    }

    fn stats(&self) -> QueueStats {
        self.counters.read()
    }
}
