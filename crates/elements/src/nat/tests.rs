// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of all rewriters. The oracle makes every packet from scratch, checksums by full sums; what comes out of a
//! rewriter must equal it byte for byte.

use std::net::Ipv4Addr;

use element::Reason;
use packet::Packet;
use proptest::prelude::*;
use wire::{Protocol, checksum};

use super::kind::{ECHO, ECHO_REPLY, ICMP, TCP, UDP};
use crate::testing::{Rig, Run};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
const US: Ipv4Addr = Ipv4Addr::new(1, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(8, 8, 4, 4);
const ROUTER: Ipv4Addr = Ipv4Addr::new(5, 5, 5, 5);

/// A packet to make: ports are the identifier, twice, for pings.
#[derive(Clone, Debug)]
struct Plan {
    proto: u8,
    icmp: u8,
    ends: [(Ipv4Addr, u16); 2],
    /// Words of IP options.
    options: usize,
    body: Vec<u8>,
    /// Whether UDP has a checksum.
    summed: bool,
}

impl Plan {
    fn bytes(&self) -> Vec<u8> {
        let [(src, sport), (dst, dport)] = self.ends;
        let header = match self.proto {
            TCP => 20,
            UDP | ICMP => 8,
            _ => 0,
        };
        let mut t = vec![0; header];
        t.extend(&self.body);
        let len = t.len() as u16;
        match self.proto {
            ICMP => {
                t[0] = self.icmp;
                t[4..6].copy_from_slice(&sport.to_be_bytes());
                let sum = checksum::internet(&t);
                t[2..4].copy_from_slice(&sum.to_be_bytes());
            }
            TCP | UDP => {
                t[..2].copy_from_slice(&sport.to_be_bytes());
                t[2..4].copy_from_slice(&dport.to_be_bytes());
                let at = if self.proto == TCP { 16 } else { 6 };
                if self.proto == TCP {
                    t[12] = 0x50;
                } else {
                    t[4..6].copy_from_slice(&len.to_be_bytes());
                }
                if self.proto == TCP || self.summed {
                    let sum = checksum::transport_v4(src, dst, Protocol(self.proto), &t);
                    t[at..at + 2].copy_from_slice(&sum.to_be_bytes());
                }
            }
            _ => {}
        }
        datagram(src, dst, self.proto, self.options, &t)
    }

    fn reversed(&self) -> Plan {
        let icmp = if self.icmp == ECHO { ECHO_REPLY } else { ECHO };
        Plan { ends: [self.ends[1], self.ends[0]], icmp, ..self.clone() }
    }

    /// With another source, or destination.
    fn with(&self, end: usize, address: Ipv4Addr, port: u16) -> Plan {
        let mut plan = self.clone();
        plan.ends[end] = (address, port);
        if plan.proto == ICMP {
            plan.ends[1 - end].1 = port;
        }
        plan
    }
}

fn datagram(src: Ipv4Addr, dst: Ipv4Addr, proto: u8, options: usize, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options * 4;
    let mut ip = vec![1; header];
    ip[..12].copy_from_slice(&[0x45 + options as u8, 0, 0, 0, 0, 9, 0, 0, 64, proto, 0, 0]);
    ip[2..4].copy_from_slice(&((header + payload.len()) as u16).to_be_bytes());
    ip[12..16].copy_from_slice(&src.octets());
    ip[16..20].copy_from_slice(&dst.octets());
    let sum = checksum::internet(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend(payload);
    ip
}

/// An ICMP error that quotes so many bytes.
fn error(src: Ipv4Addr, dst: Ipv4Addr, quoted: &[u8], bytes: usize) -> Vec<u8> {
    let mut icmp = vec![11, 0, 0, 0, 0, 0, 0, 0];
    icmp.extend(&quoted[..bytes.min(quoted.len())]);
    let sum = checksum::internet(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    datagram(src, dst, ICMP, 0, &icmp)
}

fn packet(bytes: &[u8]) -> Packet {
    let mut p = Packet::copy_of(bytes).unwrap();
    let header = bytes.first().map_or(20, |b| i32::from(b & 15) * 4);
    p.set_network(0, header.max(20) as usize);
    p
}

fn rig(rewriter: &str) -> Rig {
    Rig::text(&format!(
        "i :: TestIn -> e :: {rewriter}; j :: TestIn -> [1]e; e[0] -> o0 :: TestOut; e[1] -> o1 :: TestOut;
         k :: TestIn -> x :: ICMPRewriter(e) -> o2 :: TestOut;"
    ))
}

fn all_out(run: &Run) -> [Vec<Vec<u8>>; 3] {
    ["o0", "o1", "o2"].map(|name| run.bytes(name))
}

/// Class, pattern, the protocols that it rewrites, and whether ports change.
const REWRITERS: [(&str, &str, &[u8], bool); 6] = [
    ("IPRewriter", "1.0.0.1 777-777 - -", &[TCP, UDP], true),
    ("UDPRewriter", "1.0.0.1 777 - -", &[TCP, UDP], true),
    ("TCPRewriter", "1.0.0.1 777-778# - -", &[TCP], true),
    ("ICMPPingRewriter", "1.0.0.1 - 777-777", &[ICMP], true),
    ("IPAddrRewriter", "1.0.0.1 -", &[TCP, UDP, ICMP, 47], false),
    ("IPAddrPairRewriter", "1.0.0.1 -", &[TCP, UDP, ICMP, 47], false),
];

fn plans() -> impl Strategy<Value = (usize, usize, Plan)> {
    let body = prop_oneof![prop::collection::vec(any::<u8>(), 0..40), Just(vec![0; 9])];
    let port = prop_oneof![any::<u16>(), Just(0), Just(u16::MAX)];
    (0..REWRITERS.len(), 0usize..9, port.clone(), port, 0usize..4, body, any::<bool>()).prop_map(
        |(rewriter, pick, sport, dport, options, body, summed)| {
            let protocols = REWRITERS[rewriter].2;
            let proto = protocols[pick % protocols.len()];
            let dport = if proto == ICMP { sport } else { dport };
            let ends = [(HOST, sport), (PEER, dport)];
            (rewriter, pick, Plan { proto, icmp: ECHO, ends, options, body, summed })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..Default::default() })]

    /// There and back, and errors about both ways.
    #[test]
    fn packets_and_errors_are_as_if_made_anew((rewriter, cut, plan) in plans()) {
        let (class, pattern, _, ports) = REWRITERS[rewriter];
        let port = if ports { 777 } else { plan.ends[0].1 };
        let outside = plan.with(0, US, port);
        let answer = outside.reversed();
        let back = plan.reversed();

        let run = rig(&format!("{class}(pattern {pattern} 0 1, drop)")).packets(vec![packet(&plan.bytes())]).run();
        prop_assert_eq!(all_out(&run), [vec![outside.bytes()], vec![], vec![]]);
        run.give("j", vec![packet(&answer.bytes())]);
        let run = run.again();
        prop_assert_eq!(all_out(&run), [vec![], vec![back.bytes()], vec![]]);

        // A quotation has the IP header and eight bytes at least.
        let bytes = 28 + plan.options * 4 + cut * 4;
        let about = |plan: &Plan, src, dst| error(src, dst, &plan.bytes(), bytes);
        if plan.bytes().len() < 28 + plan.options * 4 {
            return Ok(());
        }
        run.give("k", vec![
            packet(&about(&outside, ROUTER, US)),
            packet(&about(&outside, PEER, US)),
            packet(&about(&back, HOST, PEER)),
            packet(&about(&back, ROUTER, PEER)),
        ]);
        let run = run.again();
        let want = vec![
            about(&plan, ROUTER, HOST),
            about(&plan, PEER, HOST),
            about(&answer, US, PEER),
            about(&answer, ROUTER, PEER),
        ];
        prop_assert_eq!(all_out(&run), [vec![], vec![], want]);
    }

    /// For any bytes, packets come out or are counted, in bursts and one by one alike.
    #[test]
    fn nothing_is_lost_or_breaks(
        rewriter in 0..REWRITERS.len(),
        plan in plans(),
        changes in prop::collection::vec((0usize..90, any::<u8>()), 0..12),
        len in 0usize..90,
        quoted in any::<bool>(),
        burst in prop::sample::select(vec![1usize, 32]),
    ) {
        let mut bytes = plan.2.bytes();
        if quoted {
            bytes = error(PEER, US, &bytes, 80);
        }
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(len);
        let (class, pattern, ..) = REWRITERS[rewriter];
        for to in ["i", "j", "k"] {
            let run = rig(&format!("{class}(pattern {pattern} 0 1, keep 0 1)")).burst(burst).ready();
            run.give(to, vec![packet(&bytes), packet(&bytes), packet(&bytes)]);
            let run = run.again();
            let out: usize = all_out(&run).iter().map(Vec::len).sum();
            let dropped: u64 = ["e", "x"].iter().flat_map(|e| run.drops(e)).map(|(_, n)| n).sum();
            prop_assert_eq!(out as u64 + dropped, 3);
        }
    }
}

/// A ping from the host.
fn ping(identifier: u16, icmp: u8) -> Plan {
    let ends = [(HOST, identifier), (PEER, identifier)];
    Plan { proto: ICMP, icmp, ends, options: 0, body: vec![0; 8], summed: true }
}

#[test]
fn a_reply_of_zeros_has_the_checksum_of_zeros() {
    for (inside, outside) in [(0, 5), (5, 0)] {
        let args = format!("ICMPPingRewriter(pattern 1.0.0.1 - {outside}-{outside} 0 1, drop)");
        let run = rig(&args).packets(vec![packet(&ping(inside, ECHO).bytes())]).run();
        let answer = ping(inside, ECHO).with(0, US, outside).reversed();
        run.give("j", vec![packet(&answer.bytes())]);
        assert_eq!(run.again().bytes("o1"), [ping(inside, ECHO).reversed().bytes()]);
    }
}

#[test]
fn drops_are_named() {
    let check = |class: &str, plan: &[u8], want: Reason| {
        for burst in [1, 32] {
            let run = rig(&format!("{class}(drop, drop)")).burst(burst).packets(vec![packet(plan)]).run();
            assert_eq!(
                (run.drops("e"), all_out(&run)),
                (vec![(want, 1)], [vec![], vec![], vec![]]),
                "{class}"
            );
        }
    };
    let mut fragment = ping(1, ECHO).bytes();
    fragment[7] = 1;
    check("ICMPPingRewriter", &ping(1, ECHO).bytes(), Reason::NoMapping);
    check("ICMPPingRewriter", &ping(1, ECHO_REPLY).bytes(), Reason::NoMapping);
    check("ICMPPingRewriter", &fragment, Reason::NoMapping);
    check("IPAddrRewriter", &ping(1, ECHO).bytes(), Reason::NoMapping);
    check("IPAddrPairRewriter", &ping(1, ECHO).bytes(), Reason::NoMapping);
    check("IPAddrRewriter", &ping(1, ECHO).bytes()[..19], Reason::NoMapping);
}

#[test]
fn errors_without_a_mapping() {
    let run = rig("IPRewriter(keep 0 1, drop)").ready();
    let quoted = ping(1, ECHO).bytes();
    let later = |mut bytes: Vec<u8>| {
        bytes[7] = 1;
        bytes
    };
    let udp = Plan { proto: UDP, ..ping(1, ECHO) }.bytes();
    let strangers = [
        error(PEER, US, &quoted, 28),
        error(PEER, US, &quoted, 19),
        error(PEER, US, &later(udp.clone()), 28),
        later(error(PEER, US, &quoted, 28)),
        quoted,
    ];
    run.give("k", strangers.iter().map(|b| packet(b)).chain([packet(&udp)]).collect());
    let run = run.again();
    assert_eq!(run.drops("x"), [(Reason::BadProtocol, 1), (Reason::NoMapping, 5)]);
}

#[test]
fn icmp_rewriter_arguments() {
    let check = |args: &str, want: &str| {
        let text = format!(
            "i :: TestIn -> rw :: IPRewriter(drop) -> o :: TestOut; j :: TestIn -> e :: ICMPRewriter({args}) -> p :: TestOut;"
        );
        let errors = Rig::text(&text).errors();
        assert!(errors.iter().any(|e| e.contains(want)), "{args}: {errors:?}");
    };
    check("", "missing argument MAPS");
    check("rw nobody", "'nobody' is not a rewriter");
    check("p", "'p' is not a rewriter");
    check("rw:x", "rw:x: the offset should be the number of an output");
    check("rw:1", "rw:1: the offset should be the number of an output");
    check("rw, DST_ANNO maybe", "DST_ANNO");
}

#[test]
fn destination_annotation_is_set_or_left() {
    for (argument, want) in [("true", PEER.octets()), ("false", [0; 4])] {
        let args = format!("IPAddrRewriter(pattern 1.0.0.1 - 0 1, drop, DST_ANNO {argument})");
        let run = rig(&args).packets(vec![packet(&ping(1, ECHO).bytes())]).run();
        assert_eq!(run.out("o0")[0].dst_ip(), want);
    }
}

#[test]
fn rewriters_on_several_workers_share_places() {
    let text = "i :: TestIn -> a :: UDPRewriter(keep 0 0, MAPPING_CAPACITY b) -> o :: TestOut;
                j :: TestIn -> b :: UDPRewriter(keep 0 0, MAPPING_CAPACITY 3) -> p :: TestOut;";
    let udp = |port| packet(&Plan { proto: UDP, ends: [(HOST, port), (PEER, 9)], ..ping(1, ECHO) }.bytes());
    let run = Rig::text(text).workers(2).packets((0..3).map(udp).collect()).ready();
    run.give("j", (0..3).map(udp).collect());
    let mut run = run.again();
    let full: u64 = ["a", "b"].iter().flat_map(|e| run.drops(e)).map(|(_, n)| n).sum();
    assert_eq!((full, run.read("a.size"), run.read("b.size")), (3, "3".into(), "3".into()));
}
