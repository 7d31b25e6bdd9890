// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an association puts in front of each packet, made once: a tunnel's IP header, UDP, SPI. A packet copies it and fills in what differs.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use wire::{Protocol, checksum, ipv4, ipv6, udp};

use crate::header::Header;
use crate::sa::{Config, DontFragment, Mode, UdpPorts};
use crate::suite::HEADER_LEN;
use crate::tunnel;

/// The longest one up to the sequence number: IPv6, UDP and the SPI.
const LEN_MAX: usize = ipv6::HEADER_LEN + udp::HEADER_LEN + SPI_LEN;
const SPI_LEN: usize = 4;

/// The headers that packets of an association have in common, from the outer IP header (in tunnel mode) to the sequence number.
///
/// One cache line has all that packets need on the way out.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Front {
    bytes: [u8; LEN_MAX],
    /// Bytes of all headers: 8 of ESP, 8 of UDP or none, 20 or 40 of IP or none.
    len: u8,
    /// Bytes of the outer IP header; 0 in transport mode.
    ip_len: u8,
    /// What the outer header shows of the inner one's traffic class.
    class_mask: u8,
    dont_fragment: DontFragment,
    /// The sum of the outer IPv4 header's words, of which length, traffic class, identification and flags are zeros.
    sum: u16,
    /// The length to which payloads are padded; 0 in transport mode.
    pad_to: u16,
    /// UDP ports as they stand in packets, in the machine's byte order. They may change while workers send.
    ports: AtomicU32,
}

const _: () = assert!(size_of::<Front>() == 64);

impl Front {
    pub(crate) fn new(config: &Config) -> Front {
        let mut bytes = [0; LEN_MAX];
        let carried = if config.udp.is_some() { Protocol::UDP } else { Protocol::ESP };
        let rules = &config.rules;
        let ip_len = write_ip(&mut bytes, config.mode, carried, rules.ttl);
        let mut at = ip_len;
        if config.udp.is_some() {
            at += udp::HEADER_LEN;
        }
        bytes[at..at + SPI_LEN].copy_from_slice(&config.spi.to_be_bytes());
        Front {
            bytes,
            len: (at + HEADER_LEN) as u8,
            ip_len: ip_len as u8,
            class_mask: tunnel::outer_class(0xff, rules.copy_dscp, rules.ecn),
            dont_fragment: rules.dont_fragment,
            sum: checksum::sum(&bytes[..ip_len]),
            pad_to: if config.mode == Mode::Transport { 0 } else { rules.pad_to },
            ports: AtomicU32::new(config.udp.map_or(0, word_of)),
        }
    }

    /// The UDP ports.
    pub(crate) fn ports(&self) -> UdpPorts {
        let [a, b, c, d] = self.ports.load(Ordering::Relaxed).to_ne_bytes();
        UdpPorts { from: u16::from_be_bytes([a, b]), to: u16::from_be_bytes([c, d]) }
    }

    /// Packets have these UDP ports from now on.
    pub(crate) fn set_ports(&self, ports: UdpPorts) {
        self.ports.store(word_of(ports), Ordering::Relaxed);
    }

    /// Bytes of these headers.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    /// Bytes of the outer IP header; 0 in transport mode.
    #[inline]
    pub(crate) fn ip_len(&self) -> usize {
        self.ip_len.into()
    }

    /// Whether ESP goes by UDP.
    #[inline]
    pub(crate) fn has_udp(&self) -> bool {
        self.len() - self.ip_len() > HEADER_LEN
    }

    /// The length to which payloads are padded: of tunnels alone.
    #[inline]
    pub(crate) fn pad_to(&self) -> usize {
        self.pad_to.into()
    }

    /// Writes the headers at the beginning of `bytes`, with which the packet begins in tunnel mode and which are behind the IP header in transport
    /// mode. `inner` is the header of the packet in the tunnel, and `id` the identification of the outer one.
    #[inline]
    pub(crate) fn write(&self, bytes: &mut [u8], inner: &Header, number: u64, id: u16) {
        let all = bytes.len();
        // Lengths that the compiler knows, so that each copy takes two or three instructions.
        match self.len {
            8 => self.copy::<4>(bytes),
            16 => self.copy::<12>(bytes),
            28 => self.copy::<24>(bytes),
            36 => self.copy::<32>(bytes),
            48 => self.copy::<44>(bytes),
            _ => self.copy::<LEN_MAX>(bytes),
        }
        bytes[self.len() - 4..self.len()].copy_from_slice(&(number as u32).to_be_bytes());
        match self.ip_len() {
            0 => {}
            ipv4::HEADER_LEN => self.fill4(bytes, inner, id),
            _ => self.fill6(bytes, inner),
        }
        if self.has_udp() {
            // The checksum stays zero: IPv4 needs none (RFC 3948, 2.1), and for IPv6 `finish` fills it.
            let len = (all - self.ip_len()) as u16;
            let at = self.ip_len();
            bytes[at..at + 4].copy_from_slice(&self.ports.load(Ordering::Relaxed).to_ne_bytes());
            let at = at + udp::field::LEN;
            bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
        }
    }

    #[inline(always)]
    fn copy<const LEN: usize>(&self, bytes: &mut [u8]) {
        if let (Some(to), Some(from)) = (bytes.first_chunk_mut::<LEN>(), self.bytes.first_chunk()) {
            *to = *from;
        }
    }

    #[inline]
    fn fill4(&self, bytes: &mut [u8], inner: &Header, id: u16) {
        let len = bytes.len() as u16;
        let Some(ip) = bytes.first_chunk_mut() else { return };
        let is_set = match self.dont_fragment {
            DontFragment::Copy => inner.dont_fragment,
            DontFragment::Set => true,
            DontFragment::Clear => false,
        };
        let flags = if is_set { ipv4::FLAG_DF } else { 0 };
        let class = inner.class & self.class_mask;
        let sum = [class.into(), len, id, flags].into_iter().fold(self.sum, checksum::add);
        let mut ip = ipv4::HeaderMut::from_chunk(ip);
        ip.set_tos(class).set_total_len(len).set_id(id).set_fragment(flags).set_checksum(!sum);
    }

    #[inline]
    fn fill6(&self, bytes: &mut [u8], inner: &Header) {
        let len = (bytes.len() - ipv6::HEADER_LEN) as u16;
        let Some(ip) = bytes.first_chunk_mut() else { return };
        let word = 6 << 28 | u32::from(inner.class & self.class_mask) << 20;
        ipv6::HeaderMut::from_chunk(ip).set_version_class_flow(word).set_payload_len(len);
    }
}

/// Ports as they stand in packets.
fn word_of(UdpPorts { from, to }: UdpPorts) -> u32 {
    let ([a, b], [c, d]) = (from.to_be_bytes(), to.to_be_bytes());
    u32::from_ne_bytes([a, b, c, d])
}

/// Writes what the IP headers of a tunnel have in common, and returns their length; 0 in transport mode.
fn write_ip(bytes: &mut [u8; LEN_MAX], mode: Mode, protocol: Protocol, ttl: u8) -> usize {
    const FITS: &str = "the longest headers fit";
    match mode {
        Mode::Tunnel { from: IpAddr::V4(src), to: IpAddr::V4(dst) } => {
            let mut ip = ipv4::HeaderMut::from_slice(bytes).expect(FITS);
            ip.set_version_ihl(0x45).set_ttl(ttl).set_protocol(protocol).set_src(src).set_dst(dst);
            ipv4::HEADER_LEN
        }
        Mode::Tunnel { from: IpAddr::V6(src), to: IpAddr::V6(dst) } => {
            let mut ip = ipv6::HeaderMut::from_slice(bytes).expect(FITS);
            ip.set_hop_limit(ttl).set_next_header(protocol).set_src(src).set_dst(dst);
            ipv6::HEADER_LEN
        }
        // An association of two families is not made.
        _ => 0,
    }
}
