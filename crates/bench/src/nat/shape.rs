// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inside hosts with their sessions, and the packets of each session.
//!
//! Session `n` is of host `n % hosts`, so hosts take turns as in CSIT's traffic. Each packet carries the number of its session.

use std::net::Ipv4Addr;

use wire::checksum;

/// Bytes of a frame, without its checksum: the shortest of Ethernet.
pub(super) const FRAME: usize = 60;
/// Bytes of an Ethernet header.
pub(super) const ETHER: usize = 14;
/// Bytes of a packet.
pub(super) const LENGTH: usize = FRAME - ETHER;
/// Ports of an outside address.
pub(super) const WIDTH: usize = 65_536 - 1_024;

/// The first inside host, outside address and peer.
const INSIDE: u32 = u32::from_be_bytes([10, 0, 0, 0]);
pub(super) const POOL: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const PEERS: u32 = u32::from_be_bytes([20, 0, 0, 0]);
/// The first source port of a host.
const FIRST_PORT: u16 = 1024;
/// Ports of a block.
const BLOCK: usize = 64;
/// Where UDP's data and TCP's sequence number stand in a packet.
const NUMBER: usize = 28;
const TCP_NUMBER: usize = 24;

/// A packet, or what is long enough for one.
pub(super) type Bytes = [u8; LENGTH];

/// The protocol of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Open when both sides have sent.
    Udp,
    /// Open after three packets.
    Tcp,
}

impl Protocol {
    /// As options have it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Udp => "udp",
            Protocol::Tcp => "tcp",
        }
    }

    fn number(self) -> u8 {
        match self {
            Protocol::Udp => 17,
            Protocol::Tcp => 6,
        }
    }
}

/// How hosts get outside ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Any free port; half of all are in use.
    Random,
    /// In blocks of 64; half of all are in use.
    Block,
    /// As many as a host has sessions, by its address.
    Deterministic,
}

impl Allocation {
    /// As options have it.
    pub fn name(self) -> &'static str {
        match self {
            Allocation::Random => "random",
            Allocation::Block => "block",
            Allocation::Deterministic => "deterministic",
        }
    }
}

/// Where a packet stands in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The first one.
    Begin,
    /// The answer to it.
    Answer,
    /// A later one.
    Later,
}

/// Inside hosts with as many sessions each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) hosts: usize,
    ports: u16,
    pub(super) protocol: Protocol,
    allocation: Allocation,
}

/// The addresses and ports of a packet: source, destination.
pub(super) type Ends = [(u32, u16); 2];

impl Shape {
    pub(super) fn new(hosts: usize, ports: u16, protocol: Protocol, allocation: Allocation) -> Shape {
        Shape { hosts, ports, protocol, allocation }
    }

    pub(super) fn sessions(&self) -> usize {
        self.hosts * usize::from(self.ports)
    }

    /// Outside addresses: so many that half of the ports stay free, unless each host has its own.
    pub(super) fn outside(&self) -> usize {
        let ports = usize::from(self.ports);
        match self.allocation {
            Allocation::Random => self.sessions().div_ceil(WIDTH / 2),
            Allocation::Block => (self.hosts * ports.next_multiple_of(BLOCK)).div_ceil(WIDTH / 2),
            Allocation::Deterministic => self.hosts.div_ceil(WIDTH / ports),
        }
    }

    /// The first and the last inside address, and outside address.
    pub(super) fn ranges(&self) -> [[Ipv4Addr; 2]; 2] {
        [(INSIDE, self.hosts), (POOL, self.outside())]
            .map(|(first, count)| [first, first + (count - 1) as u32].map(Ipv4Addr::from))
    }

    /// The statements of the translator.
    pub(super) fn statements(&self) -> [String; 2] {
        let [[first, last], [first_out, last_out]] = self.ranges();
        let how = match self.allocation {
            Allocation::Random => String::new(),
            Allocation::Block => format!(" block {BLOCK} max {}", usize::from(self.ports).div_ceil(BLOCK)),
            Allocation::Deterministic => " deterministic".to_owned(),
        };
        [
            format!("translate {first}-{last} to {first_out}-{last_out}{how}"),
            format!("sessions {}", self.sessions()),
        ]
    }

    /// The ends of a session's packet as it leaves a host.
    pub(super) fn ends(&self, session: usize) -> Ends {
        let (host, turn) = ((session % self.hosts) as u32, (session / self.hosts) as u16);
        let port = if self.protocol == Protocol::Udp { 53 } else { 80 };
        [(INSIDE + host, FIRST_PORT + turn), (PEERS + host, port)]
    }

    /// Writes a packet of a session from one end to another.
    pub(super) fn write(&self, packet: &mut Bytes, session: usize, [from, to]: Ends, step: Step) {
        let tcp = self.protocol == Protocol::Tcp;
        // A frame of TCP ends with padding.
        let length: usize = if tcp { 40 } else { LENGTH };
        *packet = [0; LENGTH];
        packet[..2].copy_from_slice(&[0x45, 0]);
        packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        packet[8..10].copy_from_slice(&[64, self.protocol.number()]);
        packet[12..16].copy_from_slice(&from.0.to_be_bytes());
        packet[16..20].copy_from_slice(&to.0.to_be_bytes());
        packet[20..22].copy_from_slice(&from.1.to_be_bytes());
        packet[22..24].copy_from_slice(&to.1.to_be_bytes());
        let sum = checksum::internet(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let at = match tcp {
            true => {
                // Each side begins with the number of the session.
                let (first, next) = (session as u32, session as u32 + 1);
                let (flags, sequence, acknowledgement) = match step {
                    Step::Begin => (2, first, 0),
                    Step::Answer => (18, first, next),
                    Step::Later => (16, next, next),
                };
                packet[TCP_NUMBER..TCP_NUMBER + 4].copy_from_slice(&sequence.to_be_bytes());
                packet[TCP_NUMBER + 4..TCP_NUMBER + 8].copy_from_slice(&acknowledgement.to_be_bytes());
                packet[32..36].copy_from_slice(&[0x50, flags, 0xff, 0xff]);
                36
            }
            false => {
                packet[24..26].copy_from_slice(&((length - 20) as u16).to_be_bytes());
                packet[NUMBER..NUMBER + 4].copy_from_slice(&(session as u32).to_be_bytes());
                26
            }
        };
        let [source, destination] = [from.0, to.0].map(Ipv4Addr::from);
        let protocol = wire::Protocol(self.protocol.number());
        let sum = checksum::transport_v4(source, destination, protocol, &packet[20..length]);
        let sum = if tcp { sum } else { checksum::never_zero(sum) };
        packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The ends of a packet.
pub(super) fn ends_of(packet: &[u8]) -> Option<Ends> {
    let header = packet.first_chunk::<24>()?;
    let address =
        |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    Some([(address(12), port(20)), (address(16), port(22))])
}

/// The number of the session that a packet of UDP belongs to.
pub(super) fn session_of(packet: &[u8]) -> Option<usize> {
    let number = packet.get(NUMBER..)?.first_chunk::<4>()?;
    (packet[9] == Protocol::Udp.number()).then(|| u32::from_be_bytes(*number) as usize)
}

/// Whether the checksums of a packet are right, those of its headers and of its transport.
pub(super) fn is_sound(packet: &[u8]) -> bool {
    let Some([from, to]) = ends_of(packet) else { return false };
    let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let Some(segment) = packet.get(20..length) else { return false };
    let [source, destination] = [from.0, to.0].map(Ipv4Addr::from);
    checksum::internet(&packet[..20]) == 0
        && checksum::transport_v4_ok(source, destination, wire::Protocol(packet[9]), segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_csits_numbers_and_sessions_of_their_own() {
        for (hosts, sessions, addresses) in
            [(1 << 10, 64_512, 2), (1 << 14, 1_032_192, 32), (1 << 18, 16_515_072, 512)]
        {
            let shape = Shape::new(hosts, 63, Protocol::Udp, Allocation::Random);
            assert_eq!((shape.sessions(), shape.outside()), (sessions, addresses));
            let determined = Shape::new(hosts, 63, Protocol::Udp, Allocation::Deterministic);
            assert_eq!(determined.outside(), addresses / 2);
        }
        let shape = Shape::new(7, 9, Protocol::Tcp, Allocation::Block);
        let all: std::collections::HashSet<Ends> = (0..63).map(|session| shape.ends(session)).collect();
        assert_eq!(all.len(), 63);
        let text = shape.statements().join("\n");
        assert!(::nat::read("x", &text).policy.is_some(), "{text}");
    }

    #[test]
    fn packets_are_sound_and_say_their_session() {
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            let shape = Shape::new(7, 9, protocol, Allocation::Random);
            for step in [Step::Begin, Step::Answer, Step::Later] {
                let mut packet = [0; LENGTH];
                shape.write(&mut packet, 40, shape.ends(40), step);
                assert!(is_sound(&packet) && ends_of(&packet) == Some(shape.ends(40)));
                assert_eq!(session_of(&packet), (protocol == Protocol::Udp).then_some(40));
                packet[22] ^= 1;
                assert!(!is_sound(&packet));
            }
            // In UDP a checksum of zero says that there is none (RFC 768).
            let shape = Shape::new(1 << 16, 2, protocol, Allocation::Random);
            let mut packet = [0; LENGTH];
            let is_whole = |session: usize| {
                shape.write(&mut packet, session, shape.ends(session), Step::Begin);
                is_sound(&packet) && (protocol == Protocol::Tcp || packet[26..28] != [0; 2])
            };
            assert!((0..shape.sessions()).all(is_whole));
        }
    }
}
