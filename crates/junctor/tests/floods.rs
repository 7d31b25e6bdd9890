// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a flood leaves of other people's packets: at least 95 % of them, while each table that the flood fills drops by
//! name. Packets are counted outside the router, on simulated time, so that nothing depends on the machine's speed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::time::Duration;

use fastrand::Rng;
use testbed::account::Accounted;
use testbed::answers;
use testbed::flows::{Flow, Piece};

/// Simulated milliseconds that a flood lasts.
const ROUNDS: usize = 500;
/// Good packets in a millisecond, and bad ones.
const GOOD: usize = 4;
const BAD: usize = 40;
/// Hosts that answer, on the far side.
const HOSTS: u32 = 100;
/// Good packets that must arrive, of a hundred.
const KEPT: usize = 95;

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const GOOD_PORT: u16 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

use Family::{V4, V6};

impl Family {
    /// A host of the near (0) or far (1) network.
    fn host(self, network: u8, host: u32) -> IpAddr {
        match self {
            V4 => Ipv4Addr::from_bits(0x0a01_0000 + (u32::from(network) << 16) + host).into(),
            V6 => {
                let net = 0x2001_0db8_0001 + u128::from(network);
                Ipv6Addr::from_bits(net << 80 | u128::from(host)).into()
            }
        }
    }

    /// The number of a host of the far network.
    fn number(self, address: IpAddr) -> u32 {
        match address {
            IpAddr::V4(address) => address.to_bits() & 0xffff,
            IpAddr::V6(address) => address.to_bits() as u32,
        }
    }
}

/// A host's Ethernet address.
fn mac(host: u32) -> [u8; 6] {
    let [a, b, c, d] = host.to_be_bytes();
    [6, 0, a, b, c, d]
}

/// Those who answer: hosts 2 and on.
fn is_there(host: u32) -> bool {
    (2..2 + HOSTS).contains(&host)
}

/// Sources: one, or very many, as if forged.
fn attacker(family: Family, rng: &mut Rng, forged: bool) -> IpAddr {
    family.host(0, if forged { rng.u32(0x1000..0xf000) } else { 0x666 })
}

fn towards_nobody(family: Family, rng: &mut Rng, forged: bool) -> Vec<u8> {
    let (from, to) = (attacker(family, rng, forged), family.host(1, rng.u32(0x400..0xff00)));
    Flow { from, to, from_port: rng.u16(..), to_port: 9 }.frame(MACS[0], &[0; 32])
}

/// A first fragment, or a later one, that nothing will ever complete.
fn orphan(family: Family, rng: &mut Rng, forged: bool) -> Vec<u8> {
    let (from, to) = (attacker(family, rng, forged), family.host(1, rng.u32(2..2 + HOSTS)));
    let flow = Flow { from, to, from_port: rng.u16(..), to_port: 9 };
    let offset = if rng.bool() { 0 } else { rng.u16(1..80) * 8 };
    flow.piece(
        MACS[0],
        &[0; 1400],
        rng.usize(1..60) * 8,
        Piece { identification: rng.u32(..), offset, more: true },
    )
}

/// A router under attack, and the good packets that got through.
struct Trial {
    family: Family,
    router: Accounted,
    rng: Rng,
    /// Good packets by number, with their host, and when they were sent.
    sent: u32,
    /// Those that arrived.
    arrived: BTreeMap<u32, usize>,
    /// Frames from neighbours that have been asked.
    answers: Vec<Vec<u8>>,
    /// Whether good packets come in three pieces.
    in_pieces: bool,
    hosts_tried: BTreeSet<u32>,
}

impl Trial {
    fn new(family: Family, config: &str) -> Trial {
        let router = Accounted::new(config, 32).unwrap_or_else(|why| panic!("{config}\n{why}"));
        Trial {
            family,
            router,
            rng: Rng::with_seed(3),
            sent: 0,
            arrived: BTreeMap::new(),
            answers: Vec::new(),
            in_pieces: false,
            hosts_tried: BTreeSet::new(),
        }
    }

    /// Frames of the next good packet.
    fn good(&mut self, host: u32) -> Vec<Vec<u8>> {
        self.hosts_tried.insert(host);
        let (from, to) = (self.family.host(0, host + 2), self.family.host(1, host));
        let flow = Flow { from, to, from_port: GOOD_PORT, to_port: GOOD_PORT };
        let mut payload = self.sent.to_be_bytes().to_vec();
        payload.resize(36, 0x11);
        self.sent += 1;
        if !self.in_pieces {
            return vec![flow.frame(MACS[0], &payload)];
        }
        let identification = 0x8000 + self.sent;
        let piece = |offset: u16| {
            flow.piece(MACS[0], &payload, 16, Piece { identification, offset, more: offset < 32 })
        };
        vec![piece(0), piece(32), piece(16)]
    }

    /// A millisecond: these frames come in, and what neighbours answered before.
    fn round(&mut self, frames: &[Vec<u8>]) {
        for answer in std::mem::take(&mut self.answers) {
            assert!(self.router.inject(1, &answer));
        }
        for frame in frames {
            assert!(self.router.inject(0, frame));
        }
        self.router.run(Duration::from_millis(1));
        for (device, frame) in self.router.collect() {
            if device != 1 {
                continue;
            }
            if let Some(target) = answers::asked(&frame) {
                let host = self.family.number(target);
                self.answers.extend(is_there(host).then(|| answers::answer(&frame, mac(host)).unwrap()));
            } else if let Some(flow) = Flow::of(&frame).filter(|f| f.from_port == GOOD_PORT) {
                assert_eq!(frame[..6], mac(self.family.number(flow.to)), "to the wrong neighbour");
                let number = u32::from_be_bytes(frame[frame.len() - 36..][..4].try_into().unwrap());
                *self.arrived.entry(number).or_default() += 1;
            }
        }
    }

    /// Good packets to hosts of which half have been met before, among bad ones. `watch` looks at the router at times.
    fn flood(&mut self, attack: &dyn Fn(Family, &mut Rng) -> Vec<u8>, watch: &mut dyn FnMut(&mut Accounted)) {
        for host in 2..2 + HOSTS / 2 {
            let frames = self.good(host);
            self.round(&frames);
        }
        for round in 0..ROUNDS {
            let mut frames: Vec<Vec<u8>> = (0..BAD).map(|_| attack(self.family, &mut self.rng)).collect();
            for _ in 0..GOOD {
                // Each host has its turn for the first time somewhere in the flood.
                let known = HOSTS / 2 + (round as u32 * HOSTS / 2 / (ROUNDS as u32 / 2)).min(HOSTS / 2);
                let host = 2 + self.rng.u32(..known);
                for frame in self.good(host) {
                    let at = self.rng.usize(..=frames.len());
                    frames.insert(at, frame);
                }
            }
            self.round(&frames);
            if round % 100 == 99 {
                watch(&mut self.router);
            }
        }
    }

    /// Lets everything come to its end, and judges.
    fn verdict(mut self, what: &str) -> BTreeMap<&'static str, u64> {
        for _ in 0..50 {
            self.round(&[]);
        }
        for _ in 0..120 {
            self.router.run(Duration::from_secs(1));
            self.router.collect();
        }
        self.router.check().unwrap_or_else(|why| panic!("{what}:\n{why}"));
        assert_eq!(self.hosts_tried.len(), HOSTS as usize, "not every host was tried");
        assert!(self.arrived.values().all(|times| *times == 1), "{what}: good packets arrived twice");
        let (arrived, sent) = (self.arrived.len(), self.sent as usize);
        let drops = self.router.drops();
        println!("{what}: {arrived} of {sent} good packets arrived; drops: {drops:?}");
        assert!(arrived * 100 >= sent * KEPT, "{what}: {arrived} of {sent} good packets arrived; {drops:?}");
        drops
    }
}

/// The router that `junctor init` writes, after `edits`.
fn router4(edits: &[(&str, &str)]) -> String {
    let args = ["init", "router", "--force", "m0=10.1.0.1/16", "m1=10.2.0.1/16"];
    let written = Command::new(env!("CARGO_BIN_EXE_junctor")).args(args).output().expect("junctor");
    let text = String::from_utf8(written.stdout).expect("text");
    edits.iter().fold(text, |text, (old, new)| {
        assert!(text.contains(old), "no {old:?} in:\n{text}");
        text.replace(old, new)
    })
}

/// A small IPv6 router, with `patience` for its neighbours, and `check` in the way of all packets.
fn router6(patience: &str, check: &str) -> String {
    let mut text = format!(
        "ip :: Strip(14) -> CheckIP6Header {check} -> rt :: LookupIP6Route(2001:db8:1::/48 0, 2001:db8:2::/48 1);"
    );
    for (n, class) in [(0, "nobody0"), (1, "nobody1")] {
        text += &format!(
            "FromDevice(m{n}) -> c{n} :: Classifier(12/86dd 20/3a 54/88, 12/86dd, -);
             c{n}[0] -> [1]nds{n} :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:{}, {patience});
             c{n}[1] -> ip; c{n}[2] -> Discard;
             rt[{n}] -> hops{n} :: DecIP6HLIM -> nds{n} -> out{n} :: Queue(1024) -> ToDevice(m{n});
             nds{n}[1] -> out{n};
             nds{n}[2] -> {class} :: ICMP6Error(2001:db8:{}::1, unreachable, address, RATE 100) -> rt;
             hops{n}[1] -> Discard;",
            n + 1,
            n + 1
        );
    }
    text
}

fn check_unresolvable(what: &str, family: Family, config: &str, querier: &str, limit: u64) {
    for forged in [false, true] {
        let mut trial = Trial::new(family, config);
        let mut most = 0;
        trial.flood(&|family, rng| towards_nobody(family, rng, forged), &mut |router| {
            let unresolved: u64 = router.read(&format!("{querier}.unresolved")).trim().parse().unwrap();
            assert!(unresolved <= limit, "{unresolved} neighbours without an answer");
            most = most.max(unresolved);
        });
        assert_eq!(most, limit, "{what}: the flood did not fill the table");
        let what = format!("{what}, {}", if forged { "many sources" } else { "one source" });
        let drops = trial.verdict(&what);
        let of = |reason: &str| drops.get(reason).copied().unwrap_or(0);
        let (table, queue) = (of("neighbour-table-full"), of("neighbour-queue-full"));
        assert!(table > 0 && table + queue > 1000, "{what}: {drops:?}");
    }
}

const IMPATIENT: &str = "UNRESOLVED_CAPACITY 512, POLL_TIMEOUT 500ms, PROBE_DELAY 100ms, RETRIES 3";

#[test]
fn unresolvable_ipv4_destinations_take_nothing_from_others() {
    check_unresolvable("the router as written", V4, &router4(&[]), "arp1", 4096);
    let querier = format!("ARPQuerier(10.2.0.1, m1, {IMPATIENT}");
    let telling = router4(&[("ARPQuerier(10.2.0.1, m1", &querier)]);
    check_unresolvable("impatient", V4, &telling, "arp1", 512);
}

#[test]
fn unresolvable_ipv6_destinations_take_nothing_from_others() {
    check_unresolvable("as it comes", V6, &router6("CAPACITY 2048", ""), "nds1", 4096);
    check_unresolvable("impatient", V6, &router6(IMPATIENT, ""), "nds1", 512);
}

/// Fragments pass like other packets where nobody puts them together, and where somebody does, whole packets and good
/// fragments still pass.
fn check_fragments(what: &str, family: Family, config: &str, in_pieces: bool, limited: bool) {
    for forged in [false, true] {
        let mut trial = Trial::new(family, config);
        trial.in_pieces = in_pieces;
        trial.flood(&|family, rng| orphan(family, rng, forged), &mut |_| {});
        let what = format!("{what}, {}", if forged { "many sources" } else { "one source" });
        let drops = trial.verdict(&what);
        let dropped = drops.get("reassembly-limit").copied().unwrap_or(0);
        assert_eq!(dropped > 1000, limited, "{what}: {drops:?}");
    }
}

const IN_THE_WAY: &str = "GetIPAddress(16) -> rt;";

#[test]
fn ipv4_fragments_take_nothing_from_others() {
    check_fragments("forwarded", V4, &router4(&[]), false, false);
    for limits in ["", "MAX_PACKETS 400", "OVERLAP drop"] {
        let way = format!("IPReassembler({limits}) -> {IN_THE_WAY}");
        let config = router4(&[(IN_THE_WAY, &way)]);
        check_fragments(&format!("IPReassembler({limits})"), V4, &config, false, true);
        check_fragments(&format!("IPReassembler({limits}), good pieces"), V4, &config, true, true);
    }
}

#[test]
fn ipv6_fragments_take_nothing_from_others() {
    check_fragments("forwarded", V6, &router6("CAPACITY 2048", ""), false, false);
    for limits in ["", "HIMEM 262144"] {
        let config = router6("CAPACITY 2048", &format!("-> IP6Reassembler({limits}) -> GetIP6Address(24)"));
        check_fragments(&format!("IP6Reassembler({limits})"), V6, &config, false, true);
        check_fragments(&format!("IP6Reassembler({limits}), good pieces"), V6, &config, true, true);
    }
}
