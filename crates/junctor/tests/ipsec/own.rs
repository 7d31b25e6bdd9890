// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that the router's own kernel sends, by the twin of an interface. In transport mode they leave as the kernel wants it: by that interface, for the same neighbour.

use std::time::Duration;

use testbed::account::Accounted;
use wire::Protocol;

use crate::wired::{
    ENDS, ENDS6, ESP, KEY, NETS, NETS6, UDP, Wired, dual, kind, packet, policies, sas, sealed, to, udp,
};

/// The devices of a router with `HOST true`: interface m1, and the kernel's side of it.
const M0: usize = 0;
const M1: usize = 2;
const HOST1: usize = 3;
/// The router's Ethernet address on m1.
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// A gateway that only the kernel knows.
const GATEWAY: [u8; 6] = [2, 0, 0, 7, 7, 7];
/// The router's addresses on m1.
const HERE: [&str; 2] = ["10.1.0.1", "2001:db8:1::1"];

/// An association in transport mode, and the policy that demands it.
fn transport(src: &str, dst: &str, spi: u32) -> String {
    format!(
        "SA src {src} dst {dst} spi {spi} mode transport aead aes-gcm {KEY} 128,
        POLICY src {src} dst {dst} dir out tmpl mode transport,\n"
    )
}

/// Routers of one family or of both, which have these databases, and which families they have.
fn routers(all: impl Fn(usize) -> String) -> [(Wired, &'static [usize]); 3] {
    let both = dual(&format!("{}{}HOST true,", all(0), all(1)));
    let of = |class: &str, family: usize| {
        let (gone, route) = [
            ([" 2001:db8:9::1/64", " 2001:db8:1::1/64"], "ROUTE ::/0 fe80::2 m0,"),
            ([" 192.0.2.1/24", " 10.1.0.1/16"], "ROUTE 0.0.0.0/0 192.0.2.2,"),
        ][family];
        let text =
            dual(&format!("{}HOST true,", all(family))).replace("DualRouter", class).replace(route, "");
        let text = gone.iter().fold(text, |text, address| text.replace(address, ""));
        if family == 0 { text.replace("ADVERTISE false,", "") } else { text }
    };
    [(both, &[0, 1][..]), (of("IPRouter", 0), &[0]), (of("IP6Router", 1), &[1])]
        .map(|(text, families)| (Wired::new(&text), families))
}

/// A frame of the kernel for a neighbour, or for a group.
fn frame(dst: [u8; 6], packet: &[u8]) -> Vec<u8> {
    let ethertype: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&dst[..], &OWN, &ethertype, packet].concat()
}

/// The Ethernet address of a group.
fn group(address: &str) -> [u8; 6] {
    match to(address) {
        std::net::IpAddr::V4(four) => {
            let [_, b, c, d] = four.octets();
            [1, 0, 0x5e, b & 0x7f, c, d]
        }
        std::net::IpAddr::V6(six) => {
            let [.., a, b, c, d] = six.octets();
            [0x33, 0x33, a, b, c, d]
        }
    }
}

/// Whether what hosts send can be read in a frame.
fn is_clear(frame: &[u8]) -> bool {
    frame.windows(16).any(|bytes| bytes == [0x5a; 16])
}

/// The kernel sends a packet by m1. ESP leaves there, for the same neighbour, and nobody hears the packet itself.
fn leaves_by_the_kernels_interface(router: &mut Wired, neighbour: [u8; 6], packet: &[u8]) -> Vec<Vec<u8>> {
    let sent = router.send_frames(HOST1, &[frame(neighbour, packet)]);
    let (_, dst) = kind(packet);
    assert!(!sent.is_empty(), "{dst}: {:?}", router.router.drops());
    for (at, frame) in &sent {
        assert_eq!((*at, &frame[..6], &frame[6..12]), (M1, &neighbour[..], &OWN[..]), "{dst}");
        assert_eq!(frame[12..14], if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] });
        let (protocol, whom) = kind(&frame[14..]);
        assert!(protocol == ESP || protocol == 44, "{dst}: protocol {protocol}");
        assert_eq!(whom, dst);
        assert!(!is_clear(frame), "{dst}");
    }
    sent.into_iter().map(|(_, frame)| frame[14..].to_vec()).collect()
}

#[test]
fn packets_for_groups_leave_by_the_kernels_interface() {
    // A group on the link, and one that multicast routers forward.
    let groups = [["224.0.0.5", "239.1.1.1"], ["ff02::5", "ff1e::1"]];
    let all = |family: usize| {
        let [link, far] = groups[family].map(|group| transport(HERE[family], group, 0x300));
        link + &far
    };
    for (mut router, families) in routers(all) {
        for &family in families {
            for dst in groups[family] {
                let packet = udp(HERE[family], dst, 7, 40);
                let esp = leaves_by_the_kernels_interface(&mut router, group(dst), &packet);
                assert_eq!(esp.len(), 1, "{dst}");
            }
        }
    }
}

/// A hello of OSPF takes the queue of control protocols, and is ahead of packets that were there before. That it is ESP makes no difference.
#[test]
fn protected_hellos_are_ahead_of_other_packets() {
    let groups = ["224.0.0.5", "ff02::5"];
    for (mut router, families) in routers(|family| transport(HERE[family], groups[family], 0x300)) {
        for &family in families {
            let other = frame(GATEWAY, &udp(HERE[family], ["10.9.0.9", "2001:db8:9999::9"][family], 7, 40));
            let hello = packet(HERE[family], groups[family], Protocol::OSPF, &[0x5a; 44]);
            let mut frames = vec![other; 6];
            frames.push(frame(group(groups[family]), &hello));
            let sent = router.send_frames(HOST1, &frames);
            let kinds: Vec<_> = sent.iter().map(|(at, frame)| (*at, kind(&frame[14..]).0)).collect();
            assert_eq!(kinds.len(), 7, "{:?}", router.router.drops());
            assert_eq!(kinds[0], (M1, ESP), "{kinds:?}");
            assert!(kinds[1..].iter().all(|kind| *kind == (M1, UDP)), "{kinds:?}");
        }
    }
}

/// ESP for groups that the kernel has joined is opened before the kernel gets it, on the link and beyond.
#[test]
fn esp_to_groups_is_opened() {
    let groups = [["224.0.0.5", "239.1.1.1"], ["ff02::5", "ff1e::1"]];
    let peers = ["10.1.0.9", "2001:db8:1::9"];
    let sas = |family: usize| {
        let sa = |group| {
            format!("SA src {} dst {group} spi 0x300 mode transport aead aes-gcm {KEY} 128,\n", peers[family])
        };
        groups[family].map(sa).concat()
    };
    for (mut router, families) in routers(sas) {
        for &family in families {
            let (table, far) = (["mroute", "mroute6"][family], groups[family][1]);
            router.router.write(&format!("r/{table}.set"), &format!("{} {far} 2 0", peers[family]));
            for dst in groups[family] {
                let clear = udp(peers[family], dst, 7, 40);
                let policy = format!(
                    "{}POLICY src {} dst {dst} dir out tmpl mode transport",
                    sas(family),
                    peers[family]
                );
                let esp = sealed(&policy, std::slice::from_ref(&clear));
                assert_eq!(kind(&esp[0]), (ESP, to(dst)));
                let ethertype: [u8; 2] = if family == 0 { [8, 0] } else { [0x86, 0xdd] };
                let frame = [&group(dst)[..], &[2, 0, 0, 9, 0, 9], &ethertype, &esp[0]].concat();
                let sent = router.send_frames(M1, &[frame]);
                let kinds: Vec<_> = sent.iter().map(|(at, frame)| (*at, kind(&frame[14..]))).collect();
                assert_eq!(kinds, [(HOST1, (UDP, to(dst)))], "{:?}", router.router.drops());
                assert_eq!(sent[0].1[14 + [20, 40][family]..], clear[[20, 40][family]..]);
            }
        }
    }
}

/// What comes of frames in a router of these elements, which read and write frames.
fn through(database: &str, elements: &str, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let database = database.trim_end().trim_end_matches(',');
    let text =
        format!("db :: IPsecDatabase({database}); FromDevice(m0) -> {elements} -> Queue -> ToDevice(m0);");
    let mut router = Accounted::new(&text, 32).unwrap_or_else(|why| panic!("{why}"));
    for frame in frames {
        assert!(router.inject(0, frame));
    }
    router.run(Duration::from_millis(1));
    let out = router.collect().into_iter().map(|(_, frame)| frame).collect();
    assert!(router.drops().is_empty(), "{:?}", router.drops());
    out
}

/// Fragments of a frame of this family, as a host with an MTU of 1,500 bytes sends them.
fn in_fragments(family: usize, frame: Vec<u8>) -> Vec<Vec<u8>> {
    let elements =
        ["MarkIPHeader(14) -> IPFragmenter(1500)", "MarkIP6Header(14) -> IP6Fragmenter(1500, LOCAL true)"];
    through("", elements[family], &[frame])
}

/// Frames of this family, put together and opened by these databases.
fn joined_and_opened(family: usize, database: &str, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let joined = ["MarkIPHeader(14) -> IPReassembler", "MarkIP6Header(14) -> IP6Reassembler"][family];
    let elements =
        format!("{joined} -> Strip(14) -> IPsecDecrypt(db) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)");
    let out = through(database, &elements, frames);
    out.into_iter().map(|frame| frame[14..].to_vec()).collect()
}

/// The kernel fragments before it meets a policy, and Linux protects before it fragments. The peer gets whole packets in transport mode, in fragments of ESP.
#[test]
fn what_the_kernel_has_fragmented_is_protected_whole() {
    let hosts = ["10.9.0.9", "2001:db8:9999::9"];
    // All packets between two hosts, and those to a port: later fragments have none.
    for more in ["", " proto udp dport 7"] {
        let all = |family: usize| {
            transport(HERE[family], hosts[family], 0x300).replace(" dir out", &format!("{more} dir out"))
        };
        for (mut router, families) in routers(all) {
            for &family in families {
                let clear = udp(HERE[family], hosts[family], 7, 4000);
                let parts = in_fragments(family, frame(GATEWAY, &clear));
                assert_eq!(parts.len(), 3);
                let sent = router.send_frames(HOST1, &parts);
                assert_eq!(sent.len(), 3, "{:?}", router.router.drops());
                for (at, frame) in &sent {
                    assert_eq!((*at, &frame[..6]), (M1, &GATEWAY[..]));
                    assert!(frame.len() <= 14 + 1500 && !is_clear(frame));
                }
                let esp: Vec<_> = sent.into_iter().map(|(_, frame)| frame).collect();
                let opened = joined_and_opened(family, &all(family).replace("dir out", "dir in"), &esp);
                assert_eq!(opened.len(), 1);
                let header_len = [20, 40][family];
                assert_eq!(opened[0][header_len..], clear[header_len..]);
                // Other packets stay as they are.
                let other = in_fragments(
                    family,
                    frame(GATEWAY, &udp(HERE[family], [ENDS[1], ENDS6[1]][family], 7, 4000)),
                );
                let sent = router.send_frames(HOST1, &other);
                assert_eq!(sent.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>(), other);
                let lost = ["esp-fragment", "ambiguous-fragment", "no-sa"].map(|reason| router.drops(reason));
                assert_eq!(lost, [0; 3]);
            }
        }
    }
}

/// The other direction: fragments of ESP become whole, and the kernel gets the packet.
#[test]
fn fragments_of_esp_reach_the_kernel_whole() {
    let peers = ["10.1.0.9", "2001:db8:1::9"];
    let all = |family: usize| transport(peers[family], HERE[family], 0x300);
    let inward = |family: usize| all(family).replace("dir out", "dir in");
    for (mut router, families) in routers(inward) {
        for &family in families {
            let clear = udp(peers[family], HERE[family], 7, 4000);
            let protect = "Strip(14) -> enc :: IPsecEncrypt(db, MTU 9000); enc[3] -> Unstrip(14)";
            let protect = format!(
                "{protect} -> out :: Null; enc[0] -> Discard; enc[1] -> Discard; enc[2] -> Discard; out"
            );
            let esp = through(&all(family), &protect, &[frame(OWN, &clear)]);
            let parts = in_fragments(family, esp[0].clone());
            assert_eq!(parts.len(), 3);
            // The twins have no addresses here. The router learns that first, and forgets its own.
            router.router.run(Duration::from_millis(1));
            let (table, len) = [("rt", 32), ("rt6", 128)][family];
            router.router.write(&format!("r/{table}.set"), &format!("{}/{len} 0", HERE[family]));
            let sent = router.send_frames(M1, &parts);
            let came: Vec<_> = sent.iter().filter(|(at, _)| *at == HOST1).collect();
            let [(_, frame)] = &came[..] else {
                let kinds: Vec<_> = sent.iter().map(|(at, frame)| (*at, kind(&frame[14..]))).collect();
                panic!("{families:?}: {kinds:?} {:?}", router.router.drops())
            };
            assert_eq!(kind(&frame[14..]), (UDP, to(HERE[family])));
            assert_eq!(frame[14 + [20, 40][family]..], clear[[20, 40][family]..]);
        }
    }
}

/// The kernel has a route that the routing table lacks, as one of a daemon without a feed.
#[test]
fn packets_for_hosts_leave_by_the_kernels_interface() {
    let hosts = ["10.9.0.9", "2001:db8:9999::9"];
    for (mut router, families) in routers(|family| transport(HERE[family], hosts[family], 0x300)) {
        for &family in families {
            let packet = udp(HERE[family], hosts[family], 7, 40);
            let esp = leaves_by_the_kernels_interface(&mut router, GATEWAY, &packet);
            assert_eq!(esp.len(), 1);
        }
    }
}

/// What fits in clear and not when it is protected: fragments leave by the kernel's interface, too. Of IPv6, these are packets that every link takes.
#[test]
fn long_packets_leave_by_the_kernels_interface() {
    let hosts = ["10.9.0.9", "2001:db8:9999::9"];
    for (mut router, families) in routers(|family| transport(HERE[family], hosts[family], 0x300)) {
        for &family in families {
            let len = [1500, 1280][family];
            let packet = udp(HERE[family], hosts[family], 7, len - [28, 48][family]);
            router.router.write("r/ipsec.path_mtu", &format!("dst {} spi 0x300 1280", hosts[family]));
            let esp = leaves_by_the_kernels_interface(&mut router, GATEWAY, &packet);
            assert!(esp.len() == 2 && esp.iter().all(|packet| packet.len() <= [1500, 1280][family]));
        }
    }
}

/// Policies that let packets pass, discard them, or find no association.
#[test]
fn other_packets_of_the_kernel_are_as_before() {
    let [pass, block, none] =
        [["10.9.0.1", "10.9.0.2", "10.9.0.3"], ["2001:db8:9999::1", "2001:db8:9999::2", "2001:db8:9999::3"]]
            .into_iter()
            .fold([[""; 2]; 3], |mut all, hosts| {
                let family = usize::from(hosts[0].contains(':'));
                (0..3).for_each(|n| all[n][family] = hosts[n]);
                all
            });
    let all = |family: usize| {
        let here = HERE[family];
        format!(
            "POLICY src {here} dst {} dir out action block,
            POLICY src {here} dst {} dir out tmpl mode transport,\n",
            block[family], none[family]
        )
    };
    for (mut router, families) in routers(all) {
        for &family in families {
            let frames =
                [pass, block, none].map(|dst| frame(GATEWAY, &udp(HERE[family], dst[family], 7, 40)));
            let sent = router.send_frames(HOST1, &frames);
            assert_eq!(sent, [(M1, frames[0].clone())]);
        }
        let count = families.len() as u64;
        assert_eq!(["policy-discard", "no-sa"].map(|reason| router.drops(reason)), [count; 2]);
    }
}

/// A tunnel's packet has another destination. It goes where the routing table says.
#[test]
fn tunnels_begin_where_the_routing_table_says() {
    let all = |family: usize| {
        let (ends, nets) = [(ENDS, NETS), (ENDS6, NETS6)][family];
        sas(ends) + &policies(ends, nets)
    };
    for (mut router, families) in routers(all) {
        for &family in families {
            let far = ["10.2.0.9", "2001:db8:2::9"][family];
            let end = [ENDS[1], ENDS6[1]][family];
            let sent = router.send_frames(HOST1, &[frame(GATEWAY, &udp(HERE[family], far, 7, 40))]);
            // What the kernel hears of neighbours is not meant.
            let left = sent.iter().filter(|(at, _)| [M0, M1].contains(at));
            let kinds: Vec<_> = left.map(|(at, frame)| (*at, kind(&frame[14..]))).collect();
            assert_eq!(kinds, [(M0, (ESP, to(end)))], "{:?}", router.router.drops());
            assert!(sent.iter().all(|(_, frame)| !is_clear(frame)));
        }
    }
}

/// ESP in UDP, and headers in front of ESP.
#[test]
fn every_form_of_transport_mode_keeps_its_link_header() {
    let hosts = ["10.9.0.9", "2001:db8:9999::9"];
    let by_udp = |family: usize| {
        transport(HERE[family], hosts[family], 0x300)
            .replace("mode transport aead", "mode transport encap espinudp 4500 4500 aead")
    };
    for (mut router, families) in routers(by_udp) {
        for &family in families {
            let clear = frame(GATEWAY, &udp(HERE[family], hosts[family], 7, 40));
            let sent = router.send_frames(HOST1, std::slice::from_ref(&clear));
            let [(M1, esp)] = &sent[..] else { panic!("{sent:?}") };
            assert_eq!((&esp[..14], kind(&esp[14..])), (&clear[..14], (17, to(hosts[family]))));
            assert!(!is_clear(esp));
        }
    }
    for (mut router, families) in routers(|family| transport(HERE[family], hosts[family], 0x300)) {
        if families.contains(&1) {
            let inner = udp("::", "::", 7, 40)[40..].to_vec();
            let options = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &inner].concat();
            let clear = frame(GATEWAY, &packet(HERE[1], hosts[1], Protocol::HOP_BY_HOP, &options));
            let sent = router.send_frames(HOST1, std::slice::from_ref(&clear));
            let [(M1, esp)] = &sent[..] else { panic!("{sent:?}") };
            assert_eq!((&esp[..14], esp[14 + 40]), (&clear[..14], ESP));
            assert!(!is_clear(esp));
        }
    }
}
