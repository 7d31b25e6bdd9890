// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the databases cost a packet: `cargo bench -p junctor-ipsec --bench lookup`.
//!
//! Packets of many tunnels at random, in batches: policy and association outbound with a sequence number and the counters, association inbound with the counters.
//! Nothing is encrypted. Each figure is the median of interleaved rounds, in nanoseconds a packet.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use junctor_ipsec::text::{parse_association, parse_policy};
use junctor_ipsec::{Configured, Database, Flow, Id};
use sync::rcu::{Domain, Reader};

const PACKETS: usize = 1 << 18;
const BATCH: usize = 64;
const ROUNDS: usize = 7;
const SIZES: [u32; 4] = [1, 100, 1000, 50_000];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) * u128::from(bound)) >> 64) as u32
    }
}

fn peer(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xc612_0000 + n)
}

fn flow(n: u32) -> Flow {
    let mut packet = [0u8; 28];
    packet[0] = 0x45;
    (packet[3], packet[8], packet[9]) = (28, 64, 17);
    packet[12..16].copy_from_slice(&[192, 168, 1, 1]);
    packet[16..20].copy_from_slice(&(0x0a00_0001 + (n << 8)).to_be_bytes());
    Flow::read(&packet).expect("a packet")
}

/// Both databases of a gateway with this many tunnels.
fn gateway(domain: &Domain, count: u32) -> Database {
    let key = "0x000102030405060708090a0b0c0d0e0f10111213";
    let mut configured = Configured::default();
    for n in 0..count {
        let (peer, to) = (peer(n), Ipv4Addr::from_bits(0x0a00_0000 + (n << 8)));
        let spi = 0x1000 + n;
        let sa = format!("src 192.0.2.1 dst {peer} spi {spi} mode tunnel aead aes-gcm {key} 128");
        configured.add(parse_association(&sa).expect("an association")).expect("no other");
        let policy =
            format!("src 192.168.0.0/16 dst {to}/24 dir out tmpl src 192.0.2.1 dst {peer} mode tunnel");
        configured.add_policy(parse_policy(&policy).expect("a policy")).expect("no other");
    }
    let database = Database::new(domain, 1);
    database.follow(configured, 0).expect("in order");
    database
}

fn outbound(database: &Database, flows: &[Flow], reader: &mut Reader) {
    for batch in flows.chunks(BATCH) {
        database.fetch_outbound(batch.iter().map(|flow| (*flow, 60)), reader);
        for flow in batch {
            let rule = database.outbound(flow, reader).expect("a policy");
            rule.note_use(5);
            let target = rule.target.as_ref().expect("it protects");
            let association = target.current(reader).expect("an association");
            assert!(association.carries(flow));
            black_box(association.sa.take_numbers(1));
            database.count(association, 0, 60, 5);
        }
        reader.quiescent();
    }
}

fn inbound(database: &Database, names: &[(IpAddr, u32)], reader: &mut Reader) {
    for batch in names.chunks(BATCH) {
        database.fetch_inbound(batch.iter().map(|(dst, spi)| (Id { dst: *dst, spi: *spi }, 1, 60)), reader);
        for (to, spi) in batch {
            let association = database.inbound(*to, *spi, reader).expect("an association");
            black_box(association.sa.window.top());
            database.count(association, 0, 60, 5);
        }
        reader.quiescent();
    }
}

fn ns_each(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64 / PACKETS as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let gateways: Vec<_> = SIZES
        .iter()
        .map(|count| {
            let domain = Domain::default();
            let database = gateway(&domain, *count);
            let mut random = Random(42);
            let chosen: Vec<u32> = (0..PACKETS).map(|_| random.below(*count)).collect();
            let flows: Vec<Flow> = chosen.iter().map(|n| flow(*n)).collect();
            let names: Vec<(IpAddr, u32)> = chosen.iter().map(|n| (peer(*n).into(), 0x1000 + n)).collect();
            (domain.register("bench"), database, flows, names)
        })
        .collect();
    let mut gateways = gateways;
    let mut figures = vec![(Vec::new(), Vec::new()); SIZES.len()];
    for _ in 0..ROUNDS {
        for ((reader, database, flows, names), figures) in gateways.iter_mut().zip(&mut figures) {
            figures.0.push(ns_each(|| outbound(database, flows, reader)));
            figures.1.push(ns_each(|| inbound(database, names, reader)));
        }
    }
    println!("{:>8} {:>10} {:>10}", "tunnels", "out ns", "in ns");
    for (count, (out, back)) in SIZES.iter().zip(figures) {
        println!("{count:>8} {:>10.1} {:>10.1}", median(out), median(back));
    }
}
