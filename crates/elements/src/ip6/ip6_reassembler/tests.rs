// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reassembly.

use proptest::prelude::*;

use super::super::samples::{bytes, packet};
use super::*;
use crate::testing::{Rig, Run};

const FROM: &str = "2001:db8::1";
const TO: &str = "2001:db8::2";

/// A fragment of the sample, whose payload is UDP (17): bytes that count up, or down from a shade.
fn shaded(id: u8, start: usize, len: usize, more: bool, shade: u8) -> Packet {
    let field = (start as u16 | u16::from(more)).to_be_bytes();
    let mut payload = vec![17, 0, field[0], field[1], 0, 0, 0, id];
    payload.extend((start..start + len).map(|i| (i as u8) ^ shade));
    packet(FROM, TO, 44, 9, &payload)
}

fn fragment(id: u8, start: usize, len: usize, more: bool) -> Packet {
    shaded(id, start, len, more, 0)
}

/// The whole sample.
fn whole(len: usize) -> Vec<u8> {
    bytes(FROM, TO, 17, 9, &(0..len).map(|i| i as u8).collect::<Vec<_>>())
}

fn run(packets: Vec<Packet>) -> Run {
    Rig::new("IP6Reassembler").packets(packets).run()
}

// conformance: RFC8200-4.5-d RFC8200-4.5-e
// conformance: RFC6146-3.4-a
#[test]
fn whatever_the_order() {
    let cuts = [(0, 16, true), (16, 24, true), (40, 5, false)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for burst in [1, 32] {
            let mut packets: Vec<_> =
                order.iter().map(|i| cuts[*i]).map(|(s, l, m)| fragment(1, s, l, m)).collect();
            packets.insert(1, fragment(2, 0, 8, true));
            packets.insert(2, packet(FROM, TO, 17, 9, b"passes"));
            // One has met congestion, and all may tell so.
            let ours = packets.iter_mut().filter(|p| p.data()[6] == 44 && p.data()[47] == 1);
            ours.zip([0x30, 0x20, 0x10]).for_each(|(p, mark)| p.data_mut()[1] |= mark);
            let mut run = Rig::new("IP6Reassembler(TIMEOUT 5)").burst(burst).packets(packets).run();
            let out = run.out("o0");
            let mut want = whole(45);
            want[1] = 0x30;
            assert_eq!((out.len(), out[0].len(), out[1].data()), (2, 46, &want[..]));
            assert_eq!((out[1].network_offset(), out[1].transport_offset()), (Some(0), Some(40)));
            // The run went on until the lonely fragment was given up.
            assert_eq!(run.drops("e"), [(Reason::ReassemblyTimeout, 1)]);
            assert!(run.read("e.dump").contains("memory:              0\ncached chunk data:\n"));
        }
    }
}

#[test]
fn fragments_of_two_vrfs_are_of_different_packets() {
    let packets = || {
        let all = [(1, 0), (2, 8), (2, 0), (1, 8)].into_iter().map(|(vrf, start)| {
            let mut p = fragment(7, start, 8, start == 0);
            p.set_anno_u8(anno::VRF, vrf);
            p
        });
        all.collect()
    };
    for (config, wholes) in [("VRF_ANNO VRF", [2, 1]), ("", [1, 2])] {
        let run = Rig::new(&format!("IP6Reassembler({config})")).packets(packets()).run();
        let found: Vec<u8> = run.out("o0").iter().map(|p| p.anno_u8(anno::VRF)).collect();
        assert_eq!(found, wholes, "{config}");
    }
}

#[test]
fn fragments_stay_in_their_vrf_through_a_swap() {
    // The last byte of the source says which VRF a fragment was of before.
    let of = |before: u8, vrf: u8, start, more| {
        let mut p = fragment(7, start, 8, more);
        p.data_mut()[23] = before;
        p.set_anno_u8(anno::VRF, vrf);
        p
    };
    let text = |vrfs: &str| format!("i :: TestIn -> e :: IP6Reassembler({vrfs}) -> o :: TestOut;");
    let both = "VRF_ANNO VRF, VRF red, VRF blue";
    // Which are put together: by their numbers before and after.
    for (before, after, wholes) in [
        (both, both, vec![(0, 0), (1, 1), (2, 2)]),
        (both, "VRF_ANNO VRF, VRF blue, VRF red", vec![(0, 0), (1, 2), (2, 1)]),
        (both, "VRF_ANNO VRF, VRF new, VRF blue", vec![(0, 0), (2, 2)]),
        (both, "VRF_ANNO VRF, VRF crimson, VRF navy", vec![(0, 0)]),
        ("VRF_ANNO VRF", both, vec![(0, 0)]),
        (both, "", vec![(0, 0)]),
    ] {
        let first = [0, 1, 2].iter().flat_map(|vrf| [of(*vrf, *vrf, 0, true), of(*vrf, *vrf, 8, true)]);
        let run = Rig::text(&text(before)).packets(first.collect()).ready();
        let mut run = run.run_for(std::time::Duration::from_millis(1));
        let swapped = run.swap(&text(after)).unwrap();
        assert_eq!(swapped.lost(), 0, "{before} {after}: {swapped}");
        let dropped =
            run.drops("e").iter().find(|(reason, _)| *reason == Reason::HotSwap).map_or(0, |one| one.1);
        assert_eq!(dropped, 6 - 2 * wholes.len() as u64, "{before} {after}");
        run.give("i", (0..12).map(|n| of(n / 4, n % 4, 16, false)).collect());
        let run = run.again();
        let found: Vec<(u8, u8)> =
            run.out("o").iter().map(|p| (p.data()[23], p.anno_u8(anno::VRF))).collect();
        assert_eq!(found, wholes, "{before} {after}");
    }
}

#[test]
fn fragments_that_wait_through_a_swap_may_be_given_up() {
    let text = |more: &str| format!("i :: TestIn -> {more} e :: IP6Reassembler -> o :: TestOut;");
    let first = vec![fragment(1, 0, 16, true), fragment(1, 16, 8, true)];
    let run = Rig::text(&text("")).packets(first).ready();
    let mut run = run.run_for(std::time::Duration::from_millis(1));
    assert_eq!(run.swap(&text("Null ->")).unwrap().lost(), 0);
    // Their time runs out.
    let mut run = run.again();
    assert_eq!(
        (run.drops("e"), run.read("e.joined")),
        (vec![(Reason::ReassemblyTimeout, 2)], "0".to_owned())
    );
}

/// Elements behind a Strip read where a packet came from on its link; also that of one that is whole with a fragment header.
#[test]
fn the_link_header_of_the_first_fragment_stays_in_front() {
    let framed = |start, len, more, host| {
        let mut p = fragment(1, start, len, more);
        p.push(14).unwrap()[..14].copy_from_slice(&[9, 9, 9, 9, 9, 9, 2, 0, 0, 0, 0, host, 0x86, 0xdd]);
        p.set_mac_offset(0);
        p.strip(14);
        p
    };
    for packets in [
        vec![framed(0, 16, true, 1), framed(16, 5, false, 2)],
        vec![framed(16, 5, false, 2), framed(0, 16, true, 1)],
        vec![framed(0, 21, false, 1)],
    ] {
        let out = run(packets).out("o0");
        assert_eq!((out.len(), out[0].mac_offset(), out[0].data()), (1, Some(-14), &whole(21)[..]));
        assert_eq!(out[0].mac().unwrap()[6..14], [2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
    }
}

/// Three fragments with these congestion fields, in several orders of arrival; the whole's field, or a drop.
#[test]
fn congestion_fields_are_merged() {
    let cuts = [(0, 16, true), (16, 24, true), (40, 5, false)];
    for points in 0..64u8 {
        let points = [points & 3, points >> 2 & 3, points >> 4];
        let want = match (points.contains(&0) && points != [0; 3], points.contains(&3)) {
            (true, _) => None,
            (false, true) => Some(3),
            (false, false) => Some(points[0]),
        };
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]] {
            let marked = |i: usize| {
                let mut p = fragment(1, cuts[i].0, cuts[i].1, cuts[i].2);
                p.data_mut()[..2].copy_from_slice(&[0x6a, 0x85 | points[i] << 4]);
                p
            };
            let run = run(order.map(marked).into());
            let class: Vec<_> = run.bytes("o0").iter().map(|p| [p[0], p[1]]).collect();
            let want_class = want.map(|point| [0x6a, 0x85 | point << 4]);
            assert_eq!(class, want_class.into_iter().collect::<Vec<_>>(), "{points:?} {order:?}");
            let drops = if want.is_none() { vec![(Reason::FragmentEcn, 3)] } else { vec![] };
            assert_eq!(run.drops("e"), drops, "{points:?} {order:?}");
        }
    }
}

#[test]
fn journeys_of_fragments_end_with_the_whole() {
    let cuts = [(0, 16, true), (16, 24, true), (40, 5, false)];
    let piece = |i: usize| fragment(1, cuts[i].0, cuts[i].1, cuts[i].2);
    crate::testing::journeys::check_reassembly("IP6Reassembler", piece);
    // A contradiction ends that of the first fragment.
    let mut packets = vec![fragment(1, 0, 16, true), fragment(1, 8, 16, true)];
    packets[0].follow(3);
    let mut run = Rig::text("i :: TestIn -> e :: IP6Reassembler -> d :: Discard;").packets(packets).ready();
    let journeys = crate::testing::journeys::Journeys::of(&mut run);
    let run = run.again();
    assert_eq!(journeys.told(&run)[&3], ["held by e", "dropped by e"]);
}

// conformance: RFC8200-4.5-f RFC8200-4.5-chain
#[test]
fn impossible_fragments() {
    let check = |p: Packet, want: (Option<u32>, usize, Vec<(Reason, u64)>)| {
        let run = Rig::new("IP6Reassembler").outputs(4).packets(vec![p]).run();
        let pointer = run.out("o2").first().map(|p| p.anno_u32(anno::ICMP6_POINTER));
        assert_eq!((pointer, run.out("o3").len(), run.drops("e")), want);
        assert_eq!((run.out("o0").len(), run.out("o1").len()), (0, 0));
    };
    check(fragment(1, 8, 9, true), (Some(4), 0, vec![]));
    check(fragment(1, 65528, 8, false), (Some(42), 0, vec![]));
    check(fragment(1, 8, 0, false), (None, 0, vec![(Reason::BadFragment, 1)]));
    // First fragments without the whole chain of headers (RFC 7112).
    let chain = |payload: &[u8]| packet(FROM, TO, 44, 9, payload);
    check(chain(&[6, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]), (None, 1, vec![]));
    check(chain(&[60, 0, 0, 1, 0, 0, 0, 1, 17, 1, 1, 12, 0, 0, 0, 0]), (None, 1, vec![]));
    assert_eq!(run(vec![fragment(1, 8, 9, true)]).drops("e"), [(Reason::BadFragment, 1)]);
}

// conformance: RFC8200-4.5-g
#[test]
fn an_overlap_condemns_the_packet() {
    let check = |overlap: Packet| {
        let packets = vec![
            fragment(1, 0, 16, true),
            fragment(1, 24, 16, true),
            overlap,
            // All that was missing, too late.
            fragment(1, 16, 8, true),
            fragment(1, 40, 8, false),
            fragment(1, 0, 16, true),
            fragment(2, 0, 8, true),
            fragment(2, 8, 8, false),
        ];
        let run = Rig::new("IP6Reassembler").outputs(4).packets(packets).run();
        assert_eq!(run.bytes("o0"), [whole(16)]);
        assert_eq!(run.drops("e"), [(Reason::BadFragment, 6)]);
        assert_eq!(run.out("o1").len() + run.out("o2").len() + run.out("o3").len(), 0);
    };
    check(fragment(1, 8, 16, true));
    check(fragment(1, 16, 16, true));
    check(fragment(1, 32, 8, true));
    check(fragment(1, 24, 24, true));
    check(shaded(1, 24, 16, true, 1));
    check(fragment(1, 24, 8, false));
    check(fragment(1, 16, 8, false));
}

// conformance: RFC8200-4.5-copies
#[test]
fn exact_copies_do_no_harm() {
    let copies = |n: usize| (0..n).map(|_| fragment(1, 0, 16, true));
    let mut packets: Vec<_> = copies(3).collect();
    packets.push(fragment(1, 16, 3, false));
    let run = run(packets);
    assert_eq!((run.bytes("o0"), run.drops("e")), (vec![whole(19)], vec![(Reason::BadFragment, 2)]));
}

// conformance: RFC8200-4.5-h
#[test]
fn whole_packets_with_a_fragment_header_stand_alone() {
    let mut behind = vec![44, 0, 1, 4, 0, 0, 0, 0];
    behind.extend(&fragment(1, 0, 9, false).data()[40..]);
    let packets = vec![
        fragment(1, 0, 16, true),
        fragment(1, 0, 9, false),
        packet(FROM, TO, 0, 9, &behind),
        fragment(1, 16, 3, false),
    ];
    let mut options = vec![17, 0, 1, 4, 0, 0, 0, 0];
    options.extend(0..9);
    let want = [whole(9), bytes(FROM, TO, 0, 9, &options), whole(19)];
    assert_eq!(run(packets).bytes("o0"), want);
}

// conformance: RFC8200-4.5-i RFC4443-3.3-a
#[test]
fn time_runs_out() {
    let text =
        "i :: TestIn -> e :: IP6Reassembler -> o0 :: TestOut; e[1] -> o1 :: TestOut; e[2] -> o2 :: TestOut;";
    let first = fragment(1, 0, 16, true);
    let want = first.data().to_vec();
    let run = Rig::text(text)
        .packets(vec![first, fragment(1, 24, 8, true), fragment(2, 8, 8, true), fragment(2, 24, 8, true)])
        .run();
    // Of packet 2 the first fragment never came, so no error is sent.
    assert_eq!((run.bytes("o1"), run.drops("e")), (vec![want], vec![(Reason::ReassemblyTimeout, 3)]));
    assert_eq!(run.out("o0").len() + run.out("o2").len(), 0);
}

// conformance: RFC6146-3.4-b
#[test]
fn memory_is_limited() {
    let packets: Vec<_> = (0..4).map(|id| fragment(id, 8, 800, true)).collect();
    let mut run = Rig::new("IP6Reassembler(HIMEM 2200, TIMEOUT 1000)").outputs(2).packets(packets).run();
    assert_eq!(run.drops("e"), [(Reason::ReassemblyTimeout, 2), (Reason::ReassemblyLimit, 2)]);
    assert!(run.read("e.dump").contains("failed reassemblies: 4\n"));
    let packets: Vec<_> = (0..9).map(|i| fragment(1, i * 8, 8, i < 8)).collect();
    let run = Rig::new("IP6Reassembler(MAX_FRAGMENTS 8)").packets(packets).run();
    assert_eq!((run.drops("e"), run.out("o0").len()), (vec![(Reason::ReassemblyLimit, 9)], 0));
}

/// How many packets of this length come of these fragments: begin, length, and whether more follow. An exact copy says nothing new, an
/// overlap ends it, and what comes behind a whole packet begins a new one.
fn completed(parts: &[(usize, usize, bool)], len: usize) -> usize {
    let (mut have, mut done): (Vec<(usize, usize, bool)>, _) = (Vec::new(), 0);
    for part in parts.iter().copied() {
        if have.contains(&part) {
            continue;
        }
        if have.iter().any(|h| part.0 < h.0 + h.1 && h.0 < part.0 + part.1) {
            break;
        }
        have.push(part);
        // Only the last fragment of all is no multiple of eight bytes long.
        if have.iter().map(|h| h.1).sum::<usize>() == len {
            have.clear();
            done += 1;
        }
    }
    done
}

#[test]
fn what_comes_behind_a_whole_packet_begins_a_new_one() {
    let parts = [(16, 85, false), (0, 16, true), (0, 8, true), (8, 8, true)];
    let run = run(parts.map(|(start, len, more)| fragment(1, start, len, more)).into());
    assert_eq!((run.bytes("o0"), completed(&parts, 101)), (vec![whole(101)], 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// Against a naive account: each packet is cut at random and shuffled; with an overlap before it is whole it never comes out.
    #[test]
    fn completes_exactly_when_all_is_there(
        cuts in prop::collection::btree_set(1usize..12, 1..6),
        seed: u64,
        lost in prop::option::weighted(0.3, 0usize..7),
        doubled in prop::option::weighted(0.3, (0usize..11, 1usize..3)),
    ) {
        let mut bounds: Vec<usize> = [0].into_iter().chain(cuts.iter().map(|c| c * 8)).chain([101]).collect();
        bounds.dedup();
        let mut parts: Vec<_> = bounds.windows(2).map(|w| (w[0], w[1] - w[0], w[1] < 101)).collect();
        lost.filter(|l| *l < parts.len()).map(|l| parts.remove(l));
        parts.extend(doubled.map(|(start, len)| (start * 8, len * 8, true)));
        fastrand::Rng::with_seed(seed).shuffle(&mut parts);
        let packets = parts.iter().map(|(s, l, m)| fragment(1, *s, *l, *m)).collect();
        let out = run(packets).bytes("o0");
        prop_assert_eq!(out.len(), completed(&parts, 101), "{:?}", parts);
        prop_assert!(out.iter().all(|p| *p == whole(101)));
    }
}
