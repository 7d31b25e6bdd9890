// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the elements do together: packets through tunnels, what outsiders send, hot swaps.

use element::Reason;
use fastrand::Rng;
use packet::{Packet, anno};

use super::samples::{CBC, CLICK, DES, arrived, clear, receiver, sender, tunnel};
use crate::testing::{Rig, Run};

/// Packets of these lengths as they are on the wire.
fn sent(elements: &str, payloads: impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
    let run = Rig::text(&sender(elements)).packets(payloads.map(clear).collect()).run();
    run.bytes("wire")
}

fn received(elements: &str, window: u8, packets: &[Vec<u8>], burst: usize) -> Run {
    let packets = packets.iter().map(|bytes| arrived(bytes)).collect();
    Rig::text(&receiver(elements, window)).burst(burst).packets(packets).run()
}

/// Drops of all elements.
fn drops(run: &Run) -> Vec<(Reason, u64)> {
    let report = run.report();
    report.elements.iter().flat_map(|element| element.drops.clone()).collect()
}

#[test]
fn what_one_side_sends_the_other_receives() {
    for ([sends, receives], iv_len, align) in [(CLICK, 8, 8), (DES, 8, 8), (CBC, 16, 16)] {
        let wire = sent(sends, 0..70);
        assert_eq!(wire.len(), 70);
        for (at, bytes) in wire.iter().enumerate() {
            // The outer header, SPI and sequence number.
            let number = 300 + at as u32;
            assert_eq!(
                (bytes[9], &bytes[16..20], &bytes[20..24]),
                (50, &[1, 0, 0, 2][..], &234u32.to_be_bytes()[..])
            );
            assert_eq!(bytes[24..28], number.to_be_bytes());
            assert_eq!(bytes.len(), 28 + iv_len + (20 + at + 2).next_multiple_of(align) + 12, "{sends}");
            assert!(!bytes.windows(8).any(|window| window == &clear(at).data()[..8]), "it is encrypted");
        }
        for burst in [1, 32] {
            let out = received(receives, 64, &wire, burst).out("o");
            assert_eq!(out.len(), 70, "{receives}");
            for (at, packet) in out.iter().enumerate() {
                assert_eq!(
                    (packet.data(), packet.anno_u32(anno::IPSEC_SA)),
                    (clear(at).data(), 0),
                    "{receives}"
                );
            }
        }
    }
}

#[test]
fn initialisation_vectors_differ() {
    let (once, again) = (sent(CBC[0], [5, 5].into_iter()), sent(CBC[0], [5].into_iter()));
    assert!(once[0][28..44] != once[1][28..44] && once[0][28..44] != again[0][28..44]);
}

#[test]
fn a_packet_passes_once() {
    let wire = sent(CLICK[0], [1; 100].into_iter());
    let twice: Vec<Vec<u8>> = wire.iter().flat_map(|bytes| [bytes.clone(), bytes.clone()]).collect();
    let run = received(CLICK[1], 64, &twice, 32);
    assert_eq!((run.out("o").len(), drops(&run)), (100, vec![(Reason::Replayed, 100)]));
    // In the other order, those in the window pass, and with the smallest one, none but the first.
    let backwards: Vec<Vec<u8>> = wire.iter().rev().cloned().collect();
    for (window, passes) in [(0, 1), (1, 1), (32, 32), (64, 64), (255, 100)] {
        let run = received(CLICK[1], window, &backwards, 32);
        assert_eq!(run.out("o").len(), passes, "{window}");
        let run = received(CLICK[1], window, &wire, 32);
        assert_eq!(run.out("o").len(), 100, "in order, all pass: {window}");
    }
}

/// The first packet of a session, sent again, does not make the window forget all others, as it does in Click.
#[test]
fn the_first_number_does_not_open_the_window_again() {
    let wire = sent(CLICK[0], [1; 40].into_iter());
    let again: Vec<Vec<u8>> = wire.iter().chain(&wire).cloned().collect();
    let run = received(CLICK[1], 64, &again, 1);
    assert_eq!((run.out("o").len(), drops(&run)), (40, vec![(Reason::Replayed, 40)]));
}

#[test]
fn what_was_changed_on_the_way_is_dropped() {
    for [sends, receives] in [CLICK, DES, CBC] {
        let [wire] = &sent(sends, [30].into_iter())[..] else { panic!("one packet") };
        // Everything behind the SPI. What IPsecAES and IPsecDES leave alone is authenticated, too.
        let changed = |at: usize| {
            let mut changed = wire.clone();
            changed[at] ^= 1;
            changed
        };
        let all: Vec<Vec<u8>> = (24..wire.len()).map(changed).collect();
        let run = received(receives, 64, &all, 32);
        assert_eq!(
            (run.out("o").len(), drops(&run)),
            (0, vec![(Reason::BadIcv, all.len() as u64)]),
            "{receives}"
        );
    }
}

#[test]
fn packets_to_the_router_part() {
    let [esp] = &sent(CLICK[0], [30].into_iter())[..] else { panic!("one packet") };
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = esp.clone();
        change(&mut bytes);
        bytes[10..12].fill(0);
        let sum = wire::checksum::internet(&bytes[..20]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    };
    let run = received(CLICK[1], 64, &[with(&|bytes| bytes[9] = 17)], 32);
    assert_eq!((run.out("host").len(), run.out("o").len()), (1, 0), "another protocol");
    let with_byte = |at: usize, value: u8| with(&|bytes| bytes[at] = value);
    for (bytes, want) in [
        (with_byte(23, 9), Reason::NoAssociation),
        (with_byte(6, 0x20), Reason::EspFragment),
        (with_byte(7, 1), Reason::EspFragment),
    ] {
        assert_eq!(drops(&received(CLICK[1], 64, &[bytes], 32)), [(want, 1)]);
    }
    let short = with(&|bytes| {
        bytes.truncate(23);
        bytes[3] = 23;
    });
    assert_eq!(drops(&received(CLICK[1], 64, &[short], 32)), [(Reason::TooShort, 1)]);
}

#[test]
fn packets_without_association_are_dropped() {
    let elements = [
        "IPsecESPEncap",
        "IPsecESPUnencap",
        "IPsecAuthHMACSHA1(0)",
        "IPsecAuthHMACSHA1(1)",
        "IPsecAES(1)",
        "IPsecDES(0)",
    ];
    for element in elements {
        let run = Rig::new(element).packets((0..3).map(|_| clear(60)).collect()).run();
        assert_eq!((run.out("o0").len(), run.drops("e")), (0, vec![(Reason::NoAssociation, 3)]), "{element}");
        // A number that no association has.
        let mut packet = clear(60);
        packet.set_anno_u32(anno::IPSEC_SA, 1 << 31);
        packet.set_anno_u32(anno::IPSEC_SPI, 234);
        let text = format!(
            "i :: TestIn -> e :: {element} -> o0 :: TestOut; b :: RadixIPsecLookup({}, 0/0 0); Idle -> b; b[0] -> d :: Discard; b[1] -> e;",
            tunnel(3)
        );
        let run = Rig::text(&text).packets(vec![packet]).run();
        assert_eq!(run.drops("e"), [(Reason::NoAssociation, 1)], "{element}");
    }
}

#[test]
fn several_workers_share_counters_and_windows() {
    let [sends, receives] = CLICK;
    let text = format!(
        "i :: TestIn -> a :: RadixIPsecLookup({tunnel}, 0/0 0); a[0] -> Discard;
         a[1] -> {sends} -> IPsecEncap(50) -> ThreadSafeQueue(1000) -> Unqueue
         -> CheckIPHeader -> b :: RadixIPsecLookup(1.0.0.2/32 0, {tunnel}); b[1] -> Discard;
         b[0] -> StripIPHeader -> {receives} -> o :: TestOut;",
        tunnel = tunnel(64)
    );
    for workers in [1, 2, 3] {
        let run = Rig::text(&text).workers(workers).packets((0..50).map(clear).collect()).run();
        assert_eq!((run.out("o").len(), drops(&run)), (50, vec![]), "{workers}");
    }
}

#[test]
fn numbers_go_on_through_a_swap() {
    let text = sender(CLICK[0]);
    let numbers = |run: &Run| -> Vec<u8> { run.bytes("wire").iter().map(|bytes| bytes[27]).collect() };
    let check = |next: &str, want: u32| {
        let mut run = Rig::text(&text).packets((0..3).map(clear).collect()).run();
        assert_eq!(numbers(&run), [300u32, 301, 302].map(|number| number as u8));
        run.swap(next).expect("a configuration");
        run.give("i", vec![clear(1)]);
        let run = run.again();
        assert_eq!(numbers(&run), [want as u8], "{next}");
    };
    check(&text, 303);
    // Another route, and the same association.
    check(&text.replace("0/0 0)", "0/0 0, 7.0.0.0/8 0)"), 303);
    // Another association.
    check(&text.replace("FE40CD", "FE40CE"), 300);
}

/// Packets of random lengths and bytes; some begin like a good one.
fn anything(random: &mut Rng, good: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..random.usize(0..120)).map(|_| random.u8(..)).collect();
    let kept = random.usize(0..=good.len().min(bytes.len()));
    bytes[..kept].copy_from_slice(&good[..kept]);
    bytes
}

/// Nothing that arrives makes anything panic, nothing forged passes, and all is accounted for.
#[test]
fn anything_may_arrive() {
    let mut random = Rng::with_seed(1);
    for [sends, receives] in [CLICK, DES, CBC] {
        let good = sent(sends, [7].into_iter()).remove(0);
        let mut given = Vec::new();
        while given.len() < 2000 {
            let bytes = anything(&mut random, &good);
            if bytes != good {
                let mut packet = arrived(&bytes);
                packet.set_dst_ip([1, 0, 0, 2]);
                given.push(packet);
            }
        }
        let text =
            receiver(receives, 64).replace("CheckIPHeader -> b", "b").replace("CheckIPHeader -> o", "o");
        let count = given.len();
        let run = Rig::text(&text).packets(given).run();
        let dropped: u64 = drops(&run).iter().map(|(_, n)| n).sum();
        let out: usize = ["out", "host", "other"].iter().map(|name| run.out(name).len()).sum();
        assert_eq!((dropped as usize + out, run.out("o").len()), (count, 0));
        assert!(run.drops("b").iter().any(|(reason, _)| *reason == Reason::NoAssociation));
    }
}

/// The same for each element by itself, with an association on every packet.
#[test]
fn elements_take_any_bytes() {
    let mut random = Rng::with_seed(2);
    for element in [
        "IPsecAES(0)",
        "IPsecAES(1)",
        "IPsecAES(0, IV 16)",
        "IPsecAES(1, IGNORE 3)",
        "IPsecDES(0)",
        "IPsecDES(1, 0123456789abcdef, 0)",
        "IPsecDES(2, FFFFFFFFFFFFFFFF, 0123456789abcdef)",
        "IPsecAuthHMACSHA1(1)",
        "IPsecAuthSHA1(1)",
        "IPsecESPUnencap",
        "IPsecESPUnencap(true)",
        "IPsecESPUnencap(false, IV 16)",
        "IPsecESPEncap(1, 128, true)",
        "IPsecEncap(50)",
    ] {
        let text = format!(
            "i :: TestIn -> a :: RadixIPsecLookup({}, 0/0 0); a[0] -> Discard; a[1] -> e :: {element} -> o :: TestOut;",
            tunnel(9)
        );
        let mut given = || {
            let mut packet = arrived(&anything(&mut random, &[0; 120]));
            packet.set_dst_ip([10, 0, 0, 1]);
            packet
        };
        let given: Vec<Packet> = (0..1000).map(|_| given()).collect();
        let run = Rig::text(&text).packets(given).run();
        let dropped: u64 = run.drops("e").iter().map(|(_, n)| n).sum();
        assert_eq!(dropped as usize + run.out("o").len(), 1000, "{element}");
    }
}
