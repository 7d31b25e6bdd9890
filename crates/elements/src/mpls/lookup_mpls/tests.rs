// SPDX-License-Identifier: MIT OR Apache-2.0

use element::Reason;
use packet::{Packet, anno};
use proptest::prelude::*;
use wire::mpls::{Entry, View, payload_type};
use wire::{EtherType, Protocol};

use crate::ip::samples::{datagram, sealed};
use crate::testing::{Rig, Run};

/// A packet with these labels and TTLs on top of `payload`.
fn labelled(labels: &[(u32, u8)], payload: &[u8]) -> Packet {
    let mut bytes = Vec::new();
    for (at, (label, ttl)) in labels.iter().enumerate() {
        bytes.extend(Entry::new(*label, 5, at + 1 == labels.len(), *ttl).to_bytes());
    }
    bytes.extend(payload);
    Packet::copy_of(&bytes).unwrap()
}

fn four(ttl: u8) -> Vec<u8> {
    datagram(ttl, [1, 2, 3, 4], [5, 6, 7, 8], &[], 8).data().to_vec()
}

fn six(hops: u8) -> Vec<u8> {
    crate::ip6::samples::bytes("2001:db8::1", "2001:db8::2", Protocol::UDP.0, hops, &[0, 1, 0, 2, 0, 8, 0, 0])
}

/// What a packet looks like: its labels, the TTL of the IP packet below, and its EtherType annotation.
fn shown(packet: &Packet) -> (Vec<String>, Option<u8>, u16) {
    let ethertype = u16::from_be_bytes(packet.anno(anno::ETHERTYPE));
    let view = View::new_checked(packet.data(), 16).ok().filter(|_| ethertype == EtherType::MPLS.0);
    let labels =
        view.as_ref().map_or(Vec::new(), |view| view.entries().map(|entry| entry.to_string()).collect());
    let payload = view.as_ref().map_or(packet.data(), |view| view.payload());
    let ttl = match payload_type(payload) {
        Some(EtherType::IPV4) => {
            assert!(sealed(payload), "{payload:?}");
            Some(payload[8])
        }
        Some(EtherType::IPV6) => Some(payload[7]),
        _ => None,
    };
    (labels, ttl, ethertype)
}

fn run(args: &str, packets: Vec<Packet>) -> Run {
    let again = || packets.iter().map(|p| p.duplicate().unwrap()).collect();
    let run = |burst| Rig::new(&format!("LookupMPLS({args})")).outputs(6).burst(burst).packets(again()).run();
    let (one, many) = (run(1), run(32));
    for output in ["o0", "o1", "o2", "o3", "o4", "o5"] {
        assert_eq!(one.bytes(output), many.bytes(output), "{output}");
    }
    assert_eq!(one.drops("e"), many.drops("e"));
    // Sinks have been emptied.
    run(32)
}

#[track_caller]
fn check(args: &str, packet: Packet, output: &str, labels: &[&str], ttl: u8, ethertype: EtherType) {
    let run = run(args, vec![packet]);
    let out = run.out(output);
    let packet = out.first().unwrap_or_else(|| panic!("no packet; drops: {:?}", run.drops("e")));
    let (found, found_ttl, found_type) = shown(packet);
    assert_eq!(
        (&found[..], found_ttl, found_type),
        (&labels.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>()[..], Some(ttl), ethertype.0)
    );
}

#[test]
fn labels_are_swapped_and_pushed() {
    let mpls = EtherType::MPLS;
    let packet = || labelled(&[(16, 64)], &four(9));
    check("16 swap 17 10.0.0.2 1", packet(), "o1", &["label 17, tc 5, [S], ttl 63"], 9, mpls);
    check(
        "16 swap 1000/17 10.0.0.2 1",
        packet(),
        "o1",
        &["label 1000, tc 5, ttl 63", "label 17, tc 5, [S], ttl 63"],
        9,
        mpls,
    );
    check(
        "16 swap 1000/17 10.0.0.2 1, MODEL pipe",
        packet(),
        "o1",
        &["label 1000, tc 5, ttl 255", "label 17, tc 5, [S], ttl 63"],
        9,
        mpls,
    );
    let two = labelled(&[(16, 64), (99, 7)], &four(9));
    check("16 swap 17 1", two, "o1", &["label 17, tc 5, ttl 63", "label 99, tc 5, [S], ttl 7"], 9, mpls);
}

#[test]
fn a_gateway_of_either_family_is_noted() {
    let four = run("16 swap 17 10.0.0.2 1", vec![labelled(&[(16, 64)], &four(9))]);
    assert_eq!(four.out("o1")[0].dst_ip(), [10, 0, 0, 2]);
    let six = run("16 swap 17 fe80::9 1", vec![labelled(&[(16, 64)], &six(9))]);
    let gateway: std::net::Ipv6Addr = "fe80::9".parse().unwrap();
    assert_eq!(six.out("o1")[0].anno::<16>(anno::DST_IP), gateway.octets());
}

#[test]
fn a_label_is_popped_by_the_models_of_rfc_3443() {
    let php = |model: &str| format!("16 pop 10.0.0.2 1, MODEL {model}");
    let (to4, to6) = (|ttl| labelled(&[(16, ttl)], &four(20)), |ttl| labelled(&[(16, ttl)], &six(20)));
    check(&php("uniform"), to4(10), "o1", &[], 9, EtherType::IPV4);
    check(&php("uniform"), to6(10), "o1", &[], 9, EtherType::IPV6);
    // A TTL never grows, even if the label's is higher.
    check(&php("uniform"), to4(64), "o1", &[], 20, EtherType::IPV4);
    check(&php("pipe"), to4(10), "o1", &[], 20, EtherType::IPV4);
    check(&php("short-pipe"), to6(10), "o1", &[], 20, EtherType::IPV6);
    let two = || labelled(&[(16, 10), (99, 30)], &four(20));
    check(&php("uniform"), two(), "o1", &["label 99, tc 5, [S], ttl 9"], 20, EtherType::MPLS);
    check(&php("pipe"), two(), "o1", &["label 99, tc 5, [S], ttl 30"], 20, EtherType::MPLS);
}

#[test]
fn what_is_below_is_looked_up() {
    let none = EtherType(0);
    let args = "16 lookup, 17 lookup 7, 99 swap 100 1, IP 4 5, VRF_ANNO PAINT";
    // The IP path takes one from the TTL, so this element does not.
    check(args, labelled(&[(16, 10)], &four(20)), "o4", &[], 10, none);
    check(args, labelled(&[(16, 10)], &six(20)), "o5", &[], 10, none);
    check(
        args,
        labelled(&[(16, 10), (99, 30)], &four(20)),
        "o1",
        &["label 100, tc 5, [S], ttl 9"],
        20,
        EtherType::MPLS,
    );
    check(args, labelled(&[(0, 10)], &four(20)), "o4", &[], 10, none);
    check(args, labelled(&[(2, 10)], &six(20)), "o5", &[], 10, none);
    check(args, labelled(&[(7, 10), (5000, 0)], &four(20)), "o4", &[], 10, none);
    check(args, labelled(&[(16, 10), (7, 10), (5000, 0), (17, 30)], &four(20)), "o4", &[], 10, none);
    let painted = run(args, vec![labelled(&[(17, 10)], &four(20))]);
    assert_eq!(painted.out("o4")[0].paint(), 7);
    // The last router of an LSP takes a packet with TTL 1: it goes no further by the label.
    check(args, labelled(&[(16, 1)], &four(20)), "o4", &[], 1, none);
}

#[test]
fn a_ttl_that_has_run_out_leaves_with_its_labels() {
    let args = "16 swap 17 1, 18 pop 1, EXPIRED 4 5";
    let packets = vec![
        labelled(&[(16, 1)], &four(20)),
        labelled(&[(18, 0), (19, 7)], &four(20)),
        labelled(&[(16, 1)], &six(20)),
        labelled(&[(16, 1)], b"\x15 no IP"),
        labelled(&[(16, 2)], &four(20)),
    ];
    let run = run(args, packets);
    let offsets: Vec<_> = run.out("o4").iter().map(|p| p.network_offset()).collect();
    assert_eq!(offsets, [Some(4), Some(8)]);
    assert_eq!((run.out("o5").len(), run.out("o1").len()), (1, 1));
    assert_eq!(run.drops("e"), [(Reason::TtlExpired, 1)]);
}

#[test]
fn every_drop_has_its_reason() {
    let check = |args: &str, packet: Packet, reason: Reason| {
        assert_eq!(run(args, vec![packet]).drops("e"), [(reason, 1)], "{reason}");
    };
    let args = "16 swap 17 1, 18 drop, 19 pop 1, 20 lookup";
    check(args, labelled(&[(21, 9)], &four(9)), Reason::NoLabel);
    check(args, labelled(&[(18, 9)], &four(9)), Reason::Blackhole);
    check(args, labelled(&[(19, 9)], b"\x15"), Reason::BadVersion);
    check(args, labelled(&[(20, 9)], b""), Reason::BadVersion);
    check(args, labelled(&[(20, 9)], &four(9)), Reason::NoOutput);
    check(args, labelled(&[(2, 9)], &four(9)), Reason::BadVersion);
    check(args, labelled(&[(16, 1)], &four(9)), Reason::TtlExpired);
    for reserved in [1, 3, 13, 14, 15] {
        check(args, labelled(&[(reserved, 9)], &four(9)), Reason::ReservedLabel);
    }
    check(args, labelled(&[(7, 9)], &four(9)), Reason::ReservedLabel);
    check(args, Packet::copy_of(b"\0\x01").unwrap(), Reason::TooShort);
    check(args, Packet::copy_of(&Entry::new(20, 0, false, 9).to_bytes()).unwrap(), Reason::TooShort);
    check("20 lookup, DEPTH 2", labelled(&[(20, 9), (20, 9), (20, 9)], &four(9)), Reason::LabelStackTooDeep);
}

/// Flows of UDP over IPv4, distinguished by source ports, below these labels.
fn flows(label: u32, count: u16) -> Vec<Packet> {
    let flow = |port: u16| {
        let mut bytes = four(9);
        bytes[20..22].copy_from_slice(&port.to_be_bytes());
        labelled(&[(label, 64)], &bytes)
    };
    (0..count).map(flow).collect()
}

fn port(packet: &Packet) -> u16 {
    let at = packet.len() - 8;
    u16::from_be_bytes([packet.data()[at], packet.data()[at + 1]])
}

#[test]
fn flows_are_shared_by_weight_and_keep_to_their_hop() {
    let args = "16 swap 17 10.0.0.2 0 1 | swap 18 10.0.1.2 1 3";
    let run = Rig::new(&format!("LookupMPLS({args})")).outputs(3).packets(flows(16, 400)).run();
    let ports = |run: &Run, name: &str| run.out(name).iter().map(port).collect::<Vec<_>>();
    let before = [ports(&run, "o0"), ports(&run, "o1")];
    assert!((60..140).contains(&before[0].len()), "{}", before[0].len());
    assert_eq!(before[0].len() + before[1].len(), 400);
    run.give("i", flows(16, 400));
    let run = run.again();
    assert_eq!([ports(&run, "o0"), ports(&run, "o1")], before);
}

#[test]
fn handlers_change_the_table() {
    let mut run = run("16 swap 17/18 10.0.0.2 0, 20 pop fe80::1 1 2 | pop 2, 30 lookup, 31 drop", vec![]);
    let table = "16 swap 17/18 10.0.0.2 0\n20 pop fe80::1 1 2 | pop - 2 1\n30 lookup\n31 drop\n";
    assert_eq!((run.read("e.table"), run.read("e.nlabels")), (table.into(), "4".into()));
    let refused = |run: &mut Run, handler: &str, text: &str, want: &str| {
        let error = run.write(handler, text).expect_err(want).to_string();
        assert!(error.contains(want), "{error}");
    };
    refused(&mut run, "e.add", "16 drop", "label 16 is there already");
    refused(&mut run, "e.remove", "99", "there is no label 99");
    refused(&mut run, "e.ctrl", "add 99 drop\nset 16 drop\nremove 98", "there is no label 98");
    refused(&mut run, "e.ctrl", "add 99 drop\nmend 16 drop", "expected add, set or remove, not 'mend'");
    assert_eq!(run.read("e.table"), table);
    run.write("e.ctrl", "add 99 drop\nset 16 pop 3\nremove 30").expect("all is well");
    assert_eq!(run.read("e.table"), "16 pop - 3\n20 pop fe80::1 1 2 | pop - 2 1\n31 drop\n99 drop\n");
    assert_eq!(run.read_with("e.lookup", "16"), "pop - 3");
    run.give("i", vec![labelled(&[(16, 9)], &four(9))]);
    assert_eq!(run.again().out("o3").len(), 1);
}

#[test]
fn arguments_are_checked() {
    let args = "15 drop, 16 swap 17 9, 17 swap 1048576 0, 18 fly 0, 19 swap 1/2/4/5/6/7/8/9/10 0, 20 lookup 3, 21 drop, 21 drop, 22 pop x 0, 23 pop - 0 0, IP 7";
    assert_eq!(
        Rig::new(&format!("LookupMPLS({args})")).errors(),
        [
            "e: IP: there is no output 7 (outputs 0 to 0 are connected)",
            "e: label 15 is reserved: labels below 16 have a meaning of their own",
            "e: there is no output 9 (outputs 0 to 0 are connected)",
            "e: '1048576' is not a label (0 to 1048575)",
            "e: a hop is 'swap LABELS [GATEWAY] OUTPUT', 'pop [GATEWAY] OUTPUT', 'lookup [TABLE]' or 'drop', not 'fly 0'",
            "e: '1/2/4/5/6/7/8/9/10' has more than 8 labels",
            "e: table 3 needs VRF_ANNO, by which packets are told their table",
            "e: label 21 is there already",
            "e: 'x' is not a gateway's address",
            "e: '0' is not a weight",
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// No bytes make it panic, and IP headers that were good stay good.
    #[test]
    fn any_bytes(
        packets in prop::collection::vec((prop::collection::vec((0u32..24, any::<u8>()), 0..5), prop::collection::vec(any::<u8>(), 0..60), any::<bool>()), 1..12),
        model in prop_oneof![Just("uniform"), Just("pipe")],
    ) {
        let packets = packets.iter().map(|(labels, bytes, is_ip)| {
            labelled(labels, &if *is_ip { four(9) } else { bytes.clone() })
        });
        let args = format!("LookupMPLS(16 swap 17 0, 17 swap 20/21/22 0, 18 pop 1, 19 lookup, 20 drop, 21 pop 0 | swap 99 1, IP 2, EXPIRED 3, MODEL {model})");
        let run = Rig::new(&args).outputs(4).packets(packets.collect()).run();
        for packet in ["o1", "o2"].iter().flat_map(|name| run.bytes(name)) {
            let was_ours = packet.get(12..20) == Some(&[1, 2, 3, 4, 5, 6, 7, 8][..]);
            prop_assert!(!was_ours || sealed(&packet), "{packet:?}");
        }
    }
}
