// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ready router with IPsec, on wires within the process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use testbed::account::Accounted;
use testbed::{hostile, hostile6};
use wire::{Protocol, ipv4, ipv6};

pub const KEY: &str = "0x000102030405060708090a0b0c0d0e0f10111213";
/// Outer addresses: the router's, and its peer's.
pub const ENDS: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
pub const ENDS6: [&str; 2] = ["2001:db8:9::1", "2001:db8:9::2"];
/// Networks behind them.
pub const NETS: [&str; 2] = ["10.1.0.0/16", "10.2.0.0/16"];
pub const NETS6: [&str; 2] = ["2001:db8:1::/64", "2001:db8:2::/64"];

/// The associations of a tunnel: out by 0x100, in by 0x200.
pub fn sas([here, there]: [&str; 2]) -> String {
    let sa = |src, dst, spi| {
        format!("SA src {src} dst {dst} spi {spi} reqid 1 mode tunnel aead aes-gcm {KEY} 128,\n")
    };
    sa(here, there, "0x100") + &sa(there, here, "0x200")
}

/// Policies that lead all between two networks into the tunnel.
pub fn policies([here, there]: [&str; 2], [near, far]: [&str; 2]) -> String {
    let policy = |src, dst, direction, from, to| {
        format!("POLICY src {src} dst {dst} dir {direction} tmpl src {from} dst {to} reqid 1 mode tunnel,\n")
    };
    policy(near, far, "out", here, there)
        + &policy(far, near, "fwd", there, here)
        + &policy(far, near, "in", there, here)
}

/// A router of both families between a peer's link, m0, and a network of hosts, m1; and what is added to its arguments.
pub fn dual(more: &str) -> String {
    format!(
        "r :: DualRouter(m0 192.0.2.1/24 2001:db8:9::1/64 MTU 1500 ETHER 02:00:00:00:00:01,
            m1 10.1.0.1/16 2001:db8:1::1/64 MTU 1500 ETHER 02:00:00:00:00:02,
            ROUTE 0.0.0.0/0 192.0.2.2, ROUTE ::/0 fe80::2 m0, ADVERTISE false, {more} IPSEC true);"
    )
}

/// A router of both families on one wire for each interface, whose neighbours answer.
pub struct Wired {
    pub router: Accounted,
    has_kernel: bool,
}

impl Wired {
    pub fn new(text: &str) -> Wired {
        let router = Accounted::new(text, 32).unwrap_or_else(|why| panic!("{why}"));
        Wired { router, has_kernel: text.contains("HOST true") }
    }

    /// Sends IP packets to a device. With `HOST true`, each interface's device is followed by its twin's, whose packets are the kernel's. Returns what leaves, without neighbour
    /// discovery: the device's number and the packet.
    pub fn send(&mut self, at: usize, packets: &[Vec<u8>]) -> Vec<(usize, Vec<u8>)> {
        let station = if self.has_kernel { at / 2 } else { at } as u8 + 1;
        let frame = |packet: &Vec<u8>| {
            let ethertype: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
            [&[2, 0, 0, 0, 0, station][..], &[2, 0, 0, 9, 0, 9], &ethertype, packet].concat()
        };
        let frames: Vec<_> = packets.iter().map(frame).collect();
        self.send_frames(at, &frames).into_iter().map(|(at, frame)| (at, frame[14..].to_vec())).collect()
    }

    /// The same with Ethernet headers.
    pub fn send_frames(&mut self, at: usize, frames: &[Vec<u8>]) -> Vec<(usize, Vec<u8>)> {
        for frame in frames {
            assert!(self.router.inject(at, frame));
        }
        let mut sent = Vec::new();
        for _ in 0..4 {
            self.router.run(Duration::from_millis(1));
            for (at, frame) in self.router.collect() {
                match hostile::arp_reply(&frame).or_else(|| hostile6::reply(&frame)) {
                    Some(reply) => assert!(self.router.inject(at, &reply)),
                    None => sent.push((at, frame)),
                }
            }
        }
        // What the kernel has is in no account.
        if !self.has_kernel {
            self.router.check().unwrap_or_else(|why| panic!("{why}"));
        }
        sent
    }

    pub fn drops(&self, reason: &str) -> u64 {
        self.router.drops().get(reason).copied().unwrap_or(0)
    }
}

/// A packet of this protocol from a host to another.
pub fn packet(src: &str, dst: &str, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let payload_len = payload.len() as u16;
    match (src.parse().unwrap(), dst.parse().unwrap()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut bytes = vec![0; 20 + payload.len()];
            let repr = ipv4::Repr { src, dst, protocol, payload_len, ttl: 64, tos: 0, id: 7, fragment: 0 };
            repr.emit(&mut bytes).unwrap();
            bytes[20..].copy_from_slice(payload);
            bytes
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut bytes = vec![0; 40 + payload.len()];
            let repr = ipv6::Repr {
                src,
                dst,
                next_header: protocol,
                payload_len,
                hop_limit: 64,
                ..Default::default()
            };
            repr.emit(&mut bytes).unwrap();
            bytes[40..].copy_from_slice(payload);
            bytes
        }
        _ => panic!("{src} and {dst} are of two families"),
    }
}

/// UDP of so many bytes behind its header, to a port.
pub fn udp(src: &str, dst: &str, port: u16, len: usize) -> Vec<u8> {
    let mut payload = vec![0x5a; 8 + len];
    payload[..2].copy_from_slice(&[4, 0]);
    payload[2..4].copy_from_slice(&port.to_be_bytes());
    payload[4..6].copy_from_slice(&(8 + len as u16).to_be_bytes());
    payload[6..8].fill(0);
    packet(src, dst, Protocol::UDP, &payload)
}

/// What a packet is: its protocol, and where it goes.
pub fn kind(packet: &[u8]) -> (u8, IpAddr) {
    match packet[0] >> 4 {
        4 => (packet[9], Ipv4Addr::from(*packet[16..].first_chunk().unwrap()).into()),
        _ => (packet[6], Ipv6Addr::from(*packet[24..].first_chunk::<16>().unwrap()).into()),
    }
}

pub fn to(address: &str) -> IpAddr {
    address.parse().unwrap()
}

pub const ESP: u8 = 50;
pub const UDP: u8 = 17;
pub const ICMP: u8 = 1;
pub const ICMP6: u8 = 58;

/// Sends packets, and compares what leaves: interface, protocol, destination.
pub fn check(router: &mut Wired, at: usize, packets: &[Vec<u8>], want: &[(usize, u8, &str)]) {
    let mut sent: Vec<_> = router.send(at, packets).iter().map(|(at, out)| (*at, kind(out))).collect();
    let mut want: Vec<_> = want.iter().map(|(at, protocol, dst)| (*at, (*protocol, to(dst)))).collect();
    sent.sort();
    want.sort();
    assert_eq!(sent, want, "{:?}", router.router.drops());
}

/// What a peer with these databases makes of packets.
pub fn sealed(database: &str, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let text = format!(
        "db :: IPsecDatabase({database});
        FromDevice(m0) -> Strip(14) -> IPsecEncrypt(db) -> Unstrip(14) -> Queue -> ToDevice(m0);"
    );
    let mut peer = Accounted::new(&text, 32).unwrap_or_else(|why| panic!("{why}"));
    for packet in packets {
        assert!(peer.inject(0, &[&[0; 14], &packet[..]].concat()));
    }
    peer.run(Duration::from_millis(1));
    let out: Vec<_> = peer.collect().into_iter().map(|(_, frame)| frame[14..].to_vec()).collect();
    assert_eq!(out.len(), packets.len(), "{:?}", peer.drops());
    out
}

/// The tunnel's other end, for packets of any addresses.
pub fn peer(ends: [&str; 2], all: &str) -> String {
    let [here, there] = ends;
    format!("{}POLICY src {all} dst {all} dir out tmpl src {there} dst {here} reqid 1 mode tunnel", sas(ends))
}
