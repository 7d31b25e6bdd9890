// SPDX-License-Identifier: MIT OR Apache-2.0
//! What WireGuard costs a packet, against boringtun's protocol library, in one thread:
//!
//!     cargo run --release --manifest-path benches/peers/wireguard/Cargo.toml [ROUNDS]
//!
//! Each round measures everything once, in turn; the table has medians, in nanoseconds a packet. Ours goes the whole way of a packet: the peer by its allowed IPs,
//! the session, the data message, outer IP and UDP headers. On the way back: index, window and allowed IPs. The peer makes and opens the message of a tunnel that is given to it, without
//! outer headers. Both copy the packet first. With many peers, each packet is of another one at random. Ours takes batches, and asks ahead for what they need; rows say where it does not.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey as TheirPublic, StaticSecret};
use junctor_wireguard::ahead::AT_ONCE;
use junctor_wireguard::endpoint::Local;
use junctor_wireguard::message::Message;
use junctor_wireguard::open::{Datagram, named};
use junctor_wireguard::shake::Here;
use junctor_wireguard::{Config, Device, PeerConfig, Secret};
use packet::Packet;
use pair::Side;
use sync::rcu::Domain;

#[path = "../../../../crates/wireguard/tests/pair/mod.rs"]
mod pair;

/// Packets a measurement.
const PACKETS: usize = 1 << 14;
/// Lengths of inner packets, in bytes.
const LENGTHS: [usize; 2] = [60, 1420];
const PEERS: [u32; 3] = [1, 1_000, 10_000];
const PORT: u16 = 51820;

/// A packet from one host to another one.
fn inner(src: Ipv4Addr, dst: Ipv4Addr, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; len];
    let payload_len = (len - 20) as u16;
    let repr = wire::ipv4::Repr {
        src,
        dst,
        protocol: wire::Protocol(253),
        payload_len,
        ttl: 64,
        tos: 0,
        id: 7,
        fragment: 0,
    };
    repr.emit(&mut bytes).expect("there is room");
    bytes
}

/// The host of a peer's network.
fn host(peer: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0001 + (peer << 8))
}

/// Where a peer is.
fn outside(peer: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xc612_0001 + peer)
}

const HUB: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const BEHIND: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);

fn key(of: u32) -> [u8; 32] {
    let mut bytes = [0x40; 32];
    bytes[1..5].copy_from_slice(&of.to_le_bytes());
    bytes
}

/// One of boringtun's ends, whose key has this number.
fn tunnel(own: u32, other: u32) -> Tunn {
    let other = TheirPublic::from(&StaticSecret::from(key(other)));
    Tunn::new(StaticSecret::from(key(own)), other, None, None, own, None)
}

/// A message in a datagram from a peer to the hub.
fn datagram(from: u32, message: &[u8]) -> Vec<u8> {
    let mut bytes = inner(outside(from), HUB, 28 + message.len());
    bytes[9] = wire::Protocol::UDP.0;
    let ports = [PORT, PORT, 8 + message.len() as u16, 0];
    bytes[20..28]
        .iter_mut()
        .zip(ports.into_iter().flat_map(u16::to_be_bytes))
        .for_each(|(to, byte)| *to = byte);
    bytes[28..].copy_from_slice(message);
    wire::ipv4::View::new_checked(&mut bytes[..]).expect("a header").fill_checksum();
    bytes
}

/// A device of ours with many peers, which are boringtun's.
struct Hub {
    hub: Side,
    spokes: Vec<Tunn>,
}

impl Hub {
    /// With a session for each.
    fn new(count: u32) -> Hub {
        let peer = |n: u32| PeerConfig {
            allowed: vec![
                format!("{}/24", Ipv4Addr::from_bits(host(n).to_bits() & !255)).parse().expect("a prefix"),
            ],
            ..PeerConfig::new(Secret::new(key(n + 1)).public())
        };
        let domain = Domain::default();
        let device = Device::new(Secret::new(key(0)), &domain, 1).expect("memory");
        device.set_limit(u32::MAX);
        device.set_local(Local { port: PORT, four: Some(HUB), six: None }).expect("no reader waits");
        let peers = (0..count).map(peer).collect();
        device.follow(&Config { peers, ..Config::default() }).expect("peers");
        let mut hub =
            Side { reader: domain.register("bench"), device, now_ns: 1_000_000_000, said: Vec::new() };
        let spokes = (0..count).map(|n| greet(n, &mut hub)).collect();
        Hub { hub, spokes }
    }
}

/// A handshake that a peer begins.
fn greet(n: u32, hub: &mut Side) -> Tunn {
    let (mut spoke, mut buffer) = (tunnel(n + 1, 0), [0; 256]);
    let TunnResult::WriteToNetwork(first) = spoke.format_handshake_initiation(&mut buffer, false) else {
        panic!("no handshake begins")
    };
    let answered = hub.receive(&datagram(n, first));
    assert_eq!(answered, Err(Err(Ok(()))), "peer {n}");
    let answer = hub.said.pop().expect("an answer");
    let TunnResult::WriteToNetwork(empty) = spoke.decapsulate(None, &answer[28..], &mut buffer) else {
        panic!("peer {n} does not understand")
    };
    assert_eq!(hub.receive(&datagram(n, empty)), Ok(None));
    spoke
}

fn nanoseconds(packets: usize, work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_nanos() as f64 / packets as f64
}

/// Copies of packets, in batches as the element takes them.
fn batches<'a>(bytes: impl Iterator<Item = &'a Vec<u8>>, mut work: impl FnMut(&mut [Packet])) {
    let mut batch = Vec::with_capacity(AT_ONCE);
    for bytes in bytes {
        batch.push(Packet::copy_of(bytes).expect("packet memory"));
        if batch.len() == AT_ONCE {
            work(&mut batch);
            black_box(&batch);
            batch.clear();
        }
    }
    work(&mut batch);
}

/// Copies, seals and forgets packets to these peers. `ahead`: as the element does, which asks ahead for what a batch needs.
fn seal(side: &Side, packets: &[Vec<u8>], picks: &[usize], ahead: bool) {
    let Side { device, reader, now_ns, .. } = side;
    batches(picks.iter().map(|pick| &packets[*pick]), |batch| {
        let mut numbers = Vec::with_capacity(AT_ONCE);
        numbers.extend(batch.iter().map(|packet| device.peer_of(reader, packet.data()).expect("a peer")));
        if ahead && device.asks_ahead(reader, batch.len()) {
            device.fetch_to_seal(reader, 0, &numbers);
        }
        for (packet, number) in batch.iter_mut().zip(numbers) {
            let chosen = device.choose_of(reader, packet.data(), number, 1500, *now_ns).expect("a session");
            let counter = chosen.session.take_counters(1).expect("counters");
            device.seal(reader, packet, &chosen, counter, (0, *now_ns)).expect("room");
        }
    });
}

/// Copies, opens and forgets datagrams.
fn open(side: &Side, datagrams: &[Vec<u8>], ahead: bool) {
    let Side { device, reader, .. } = side;
    let here = Here { reader, worker: 0, now_ns: side.now_ns, wall_ns: side.now_ns };
    batches(datagrams.iter(), |batch| {
        if ahead && device.asks_ahead(reader, batch.len()) {
            let names: Vec<_> = batch.iter().filter_map(|packet| named(packet.data())).collect();
            device.fetch_to_open(reader, 0, &names);
        }
        for packet in batch {
            let datagram = Datagram::read(packet.data()).expect("a datagram");
            let Some(Message::Data(data)) = datagram.message(packet.data()) else { panic!("a data message") };
            let known = device.recognise(&here, datagram, (data.receiver, data.counter)).expect("a session");
            device.decrypt(packet, &known).expect("genuine");
            known.session.window().accept_first(&[known.counter + 1]).expect("new");
            assert!(device.unpack(packet, &known, &here).expect("allowed"));
        }
    });
}

/// What sealing and opening costs us.
fn ours(hub: &mut Hub, len: usize, random: &mut fastrand::Rng, ahead: bool) -> [f64; 2] {
    let count = hub.spokes.len();
    let out: Vec<_> = (0..count).map(|n| inner(BEHIND, host(n as u32), len)).collect();
    let picks: Vec<usize> = (0..PACKETS).map(|_| random.usize(..count)).collect();
    let sealing = nanoseconds(PACKETS, || seal(&hub.hub, &out, &picks, ahead));
    let mut buffer = [0; 1600];
    let datagrams: Vec<_> = picks
        .iter()
        .map(|n| match hub.spokes[*n].encapsulate(&inner(host(*n as u32), BEHIND, len), &mut buffer) {
            TunnResult::WriteToNetwork(message) => datagram(*n as u32, message),
            other => panic!("{other:?}"),
        })
        .collect();
    let opening = nanoseconds(PACKETS, || open(&hub.hub, &datagrams, ahead));
    [sealing, opening]
}

/// Two ends of boringtun with a session.
fn their_pair() -> [Tunn; 2] {
    let mut ends = [tunnel(1, 2), tunnel(2, 1)];
    let mut buffer = [0; 256];
    let TunnResult::WriteToNetwork(first) = ends[0].format_handshake_initiation(&mut buffer, false) else {
        panic!("no handshake begins")
    };
    let (mut message, mut at) = (first.to_vec(), 1);
    for _ in 0..3 {
        let mut buffer = [0; 256];
        if let TunnResult::WriteToNetwork(next) = ends[at].decapsulate(None, &message, &mut buffer) {
            message = next.to_vec();
        }
        at = 1 - at;
    }
    ends
}

/// What sealing and opening costs boringtun.
fn theirs(ends: &mut [Tunn; 2], len: usize) -> [f64; 2] {
    let packet = inner(BEHIND, host(0), len);
    let mut buffers = vec![[0; 1600]; PACKETS];
    let mut lens = vec![0; PACKETS];
    let sealing = nanoseconds(PACKETS, || {
        for (buffer, len) in buffers.iter_mut().zip(&mut lens) {
            let TunnResult::WriteToNetwork(bytes) = ends[0].encapsulate(&packet, buffer) else {
                panic!("no message")
            };
            *len = bytes.len();
        }
    });
    let opening = nanoseconds(PACKETS, || {
        for (buffer, len) in buffers.iter().zip(&lens) {
            let mut inner = [0; 1600];
            let result = ends[1].decapsulate(None, &buffer[..*len], &mut inner);
            assert!(matches!(result, TunnResult::WriteToTunnelV4(..)), "{result:?}");
            black_box(&inner);
        }
    });
    [sealing, opening]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(7, |text| text.parse().expect("a number of rounds"));
    let mut random = fastrand::Rng::with_seed(7);
    let mut hubs: Vec<Hub> = PEERS.iter().map(|count| Hub::new(*count)).collect();
    let mut ends = their_pair();
    let mut found: Vec<(String, usize, [Vec<f64>; 2])> = Vec::new();
    for round in 0..=rounds {
        for len in LENGTHS {
            let mut note = |who: String, figures: [f64; 2]| {
                // The first round warms up.
                if round == 0 {
                    return found.push((who, len, Default::default()));
                }
                let row =
                    found.iter_mut().find(|row| row.0 == who && row.1 == len).expect("the first round's");
                row.2.iter_mut().zip(figures).for_each(|(all, one)| all.push(one));
            };
            for hub in &mut hubs {
                for ahead in [true, false] {
                    let how = if ahead { "" } else { ", nothing asked ahead" };
                    let who = format!("ours, {} peers{how}", hub.spokes.len());
                    note(who, ours(hub, len, &mut random, ahead));
                }
            }
            note("boringtun, 1 tunnel".into(), theirs(&mut ends, len));
        }
    }
    println!("| who | bytes | seal, ns | open, ns |\n|---|---:|---:|---:|");
    for (who, len, [seal, open]) in found {
        println!("| {who} | {len} | {:.0} | {:.0} |", median(seal), median(open));
    }
}
