// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every class that sends packets by several outputs: what one call of an element sends leaves as one batch for each output.
//!
//! A row of [`SPLITS`] is an element `e` behind a source, with the outputs that its packets must reach. The source sends one batch
//! in which ordinary packets and exceptions of many kinds stand in random order. The same packets one by one (burst 1) say which ones
//! each output gets, and in which order.
//!
//! A class with several outputs that is in neither list fails [`every_class_is_here`].

use fastrand::Rng;
use packet::Packet;
use wire::{MacAddr, Protocol, arp};

use crate::ip::samples::{datagram, seal};
use crate::ip6::samples;
use crate::testing::{Rig, Run};

/// What the source sends.
#[derive(Clone, Copy, Debug)]
enum Zoo {
    /// IPv4 packets.
    Ip,
    /// Ethernet frames with ARP messages, IPv4 packets and others.
    Ether,
    /// IPv6 packets.
    Ip6,
}

use Zoo::*;

/// What is sent, elements before `e`, `e` itself, and how many outputs are connected; packets must reach these.
type Split = (Zoo, &'static str, &'static str, usize, &'static [usize]);

const SPLITS: &[Split] = &[
    (Ip, "", "CheckIPHeader", 2, &[0, 1]),
    (Ip, "", "CheckIPHeader2", 2, &[0, 1]),
    (Ip, "MarkIPHeader", "CheckIPAddresses", 2, &[0, 1]),
    (Ip, "CheckIPHeader", "CheckICMPHeader", 2, &[0, 1]),
    (Ip, "CheckIPHeader", "CheckTCPHeader", 2, &[0, 1]),
    (Ip, "CheckIPHeader", "CheckUDPHeader", 2, &[0, 1]),
    (Ip, "CheckIPHeader", "CheckReversePath(t)", 2, &[0, 1]),
    (Ip, "CheckIPHeader", "DecIPTTL", 2, &[0, 1]),
    (Ip, "CheckIPHeader", "IPGWOptions(9.9.9.9)", 3, &[0, 1]),
    (Ip, "CheckIPHeader", "IPSourceRoute(9.9.9.9)", 2, &[0]),
    (Ip, "CheckIPHeader", "IPFragmenter(200, HONOR_DF false)", 2, &[0]),
    (Ip, "CheckIPHeader", "IPFragmenter(200)", 2, &[0, 1]),
    (Ip, "CheckIPHeader", "IPReassembler(OVERLAP drop, MAX_PACKETS 2)", 1, &[0]),
    (Ip, "CheckIPHeader", "ICMPPingResponder", 2, &[0, 1]),
    (Ip, "CheckIPHeader", "IPOutputCombo(1, 9.9.9.9, 200)", 5, &[0, 2, 3, 4]),
    (Ip, "CheckIPHeader", "StaticIPLookup(5.0.0.0/8 0, 6.0.0.0/8 1, 0/0 2)", 3, &[0, 1, 2]),
    (Ip, "CheckIPHeader", "RadixIPsecLookup(5.0.0.0/8 0, 6.0.0.0/8 1, 0/0 3)", 4, &[1, 2, 3]),
    (Ip, "", "IPsecAuthSHA1(1)", 2, &[1]),
    (Ip, "CheckIPHeader", "LookupIPMulticast(UNKNOWN 0, KERNEL 1, RATE 0)", 2, &[0, 1]),
    (Ip, "CheckIPHeader", "IPClassifier(tcp, udp, -)", 3, &[0, 1, 2]),
    (Ip, "CheckIPHeader", "IPFilter(0 tcp, 1 udp, 2 all)", 3, &[0, 1, 2]),
    (Ip, "CheckIPHeader", "IPRewriter(pattern 9.9.9.9 1000-1003# - - 0 1)", 2, &[0]),
    (Ip, "CheckIPHeader", "ICMPPingRewriter(pattern 9.9.9.9 - 1000-1003# 0 0)", 1, &[0]),
    (Ip, "CheckIPHeader", "IPAddrRewriter(pattern 9.9.9.0/30# - 0 0)", 2, &[0]),
    (Ip, "", "Classifier(0/45, 0/46, -)", 3, &[0, 1, 2]),
    (Ip, "", "CheckLength(100)", 2, &[0, 1]),
    (Ip, "", "CheckPaint(1)", 2, &[0, 1]),
    (Ip, "", "PaintSwitch", 3, &[0, 1, 2]),
    (Ip, "", "PaintTee(1)", 2, &[0, 1]),
    (Ip, "", "HashSwitch(0, 4)", 3, &[0, 1, 2]),
    (Ip, "", "RoundRobinSwitch", 3, &[0, 1, 2]),
    (Ip, "", "StrideSwitch(1, 2)", 2, &[0, 1]),
    (Ip, "", "Tee", 3, &[0, 1, 2]),
    (Ip, "", "Hub", 1, &[]),
    (Ip, "", "RatedSplitter(7)", 2, &[0, 1]),
    (Ip6, "", "CheckIP6Header", 2, &[0, 1]),
    (Ip6, "CheckIP6Header", "CheckICMP6Header", 2, &[0, 1]),
    (Ip6, "CheckIP6Header", "CheckIP6Scope", 2, &[0]),
    (Ip6, "CheckIP6Header", "DecIP6HLIM", 2, &[0, 1]),
    (Ip6, "CheckIP6Header", "IP6HopByHop", 3, &[0, 1, 2]),
    (Ip6, "CheckIP6Header", "IP6Extensions(PROTOCOLS icmp6 udp)", 4, &[0, 1, 2, 3]),
    (Ip6, "CheckIP6Header", "IP6Fragmenter(1280)", 2, &[0, 1]),
    (Ip6, "CheckIP6Header", "IP6Reassembler", 4, &[0]),
    (Ip6, "CheckIP6Header", "ICMP6PingResponder", 2, &[0, 1]),
    (Ip6, "CheckIP6Header", "IP6NDRouterCheck", 2, &[]),
    (Ip6, "CheckIP6Header", "IP6NDAdvertiser(::9 2:0:0:0:0:9)", 2, &[1]),
    (
        Ip6,
        "CheckIP6Header -> GetIP6Address(24)",
        "LookupIP6Route(::4/128 0, ::5/128 1, ::/0 2)",
        3,
        &[0, 1, 2],
    ),
    (Ether, "", "CheckARPHeader(14)", 2, &[0, 1]),
    (Ether, "", "ControlTraffic(LIMITED false)", 3, &[0, 1]),
    (Ether, "", "ARPResponder(1.0.0.9 2:0:0:0:0:9)", 2, &[0, 1]),
    (Ether, "", "HostEtherFilter(2:0:0:0:0:2, 1)", 2, &[0, 1]),
    (Ether, "", "StripEtherVlanHeader", 2, &[0]),
    (Ether, "", "UntagPriority", 2, &[0]),
    (Ether, "", "StoreEtherAddress(2:0:0:0:0:7, 10)", 2, &[0, 1]),
    (Ether, "", "EtherSwitch", 1, &[]),
];

/// Classes with several outputs whose packets do not part one by one, or by chance, with a reason each.
const OTHERS: &[(&str, &str)] = &[
    ("ARPQuerier", "what its packets wait for decides; a test of its own below"),
    ("AddressTranslator", "a batch goes one way"),
    ("BFD", "it ends what comes; it makes what it sends"),
    ("AggregateCounter", "it calls handlers at their packet; it gathers others in a batch"),
    ("AggregateFilter", "as Classifier"),
    ("AggregateFirst", "it gathers others in a batch"),
    ("AggregateIP", "it gathers others in a batch"),
    ("AggregateIPAddrPair", "it gathers others in a batch"),
    ("AggregateIPFlows", "it gathers others in a batch"),
    ("AggregateLast", "it gathers others in a batch"),
    ("AggregateLength", "it gathers others in a batch"),
    ("AggregatePacketCounter", "a batch goes one way"),
    ("BandwidthShaper", "it is pulled"),
    ("Block", "as Classifier"),
    ("Clipboard", "a batch goes one way"),
    ("IPRateMonitor", "a batch goes one way"),
    ("TimeFilter", "it calls handlers at their packet; it gathers others in a batch"),
    ("BandwidthMeter", "a batch goes one way"),
    ("BandwidthRatedSplitter", "as RatedSplitter"),
    ("Bridge", "crates/elements/src/bridge/switch/tests.rs"),
    ("Bypass", "a batch goes one way"),
    ("CPUQueue", "its outputs are pulled"),
    ("CPUSwitch", "a batch goes one way"),
    ("DirectIPLookup", "as StaticIPLookup"),
    ("Error", "it has no packets"),
    ("EtherSpanTree", "it sends to itself"),
    ("FTPPortMapper", "it has one output"),
    ("FromDump", "a source"),
    ("Balance", "it needs a file; a test of its own in its file"),
    ("Firewall", "it needs a file; a test of its own in its file"),
    ("FrontDropQueue", "a queue; a test of its own below"),
    ("FullNoteQueue", "a queue"),
    ("HashDemux", "it needs queues behind it"),
    ("ICMPRewriter", "it needs mappings; a test of its own in its file"),
    ("NPTv6", "it has two inputs; a test of its own in its file"),
    ("NAT44", "it needs a file; a test of its own in its file"),
    ("NAT64", "it needs a NAT44; a test of its own in its file"),
    ("SessionSync", "it needs a file; it ends what is for it, and others go on as they come"),
    ("IP6NDSolicitor", "what its packets wait for decides"),
    ("IPsecAuthHMACSHA1", "as IPsecAuthSHA1"),
    ("IPsecRouteTable", "as RadixIPsecLookup"),
    ("IPAddrPairRewriter", "as IPAddrRewriter"),
    ("ESPTunnel", "as IPsecEncrypt"),
    ("IPsecCheck", "as IPsecEncrypt"),
    ("IPsecDecrypt", "as IPsecEncrypt"),
    ("IPsecPathMTU", "as IPsecEncrypt"),
    ("IPsecEncrypt", "what it encrypts is different each time; a test of its own in its file"),
    ("WireGuard", "as IPsecEncrypt"),
    ("Idle", "it has no packets"),
    ("KernelTap", "a device"),
    ("KernelTun", "a device"),
    ("FromHost", "a device"),
    ("LinearIPLookup", "as StaticIPLookup"),
    ("ListenEtherSwitch", "as EtherSwitch"),
    ("LookupIP6Multicast", "as LookupIPMulticast"),
    ("LookupMPLS", "its packets are labelled; a test of its own in its file"),
    ("CheckMPLSMTU", "its packets are labelled; a test of its own in its file"),
    ("LookupIPRoute", "as StaticIPLookup"),
    ("MemoryPort", "a device"),
    ("Message", "it has no packets"),
    ("Meter", "a batch goes one way"),
    ("MixedQueue", "a queue; a test of its own below"),
    ("NotifierQueue", "a queue"),
    ("PullTee", "its first output is pulled"),
    ("Queue", "a queue; a test of its own below"),
    ("QuickNoteQueue", "a queue"),
    ("RED", "chance decides"),
    ("RadixIPLookup", "as StaticIPLookup"),
    ("RandomSample", "chance decides"),
    ("RandomSwitch", "chance decides"),
    ("RangeIPLookup", "as StaticIPLookup"),
    ("RawSocket", "a device"),
    ("ScheduleInfo", "it has no packets"),
    ("Script", "the next packet sees what it has called"),
    ("Shaper", "it is pulled"),
    ("SimpleIdle", "it has no packets"),
    ("SimpleQueue", "a queue"),
    ("McastSocket", "a device"),
    ("Socket", "a device"),
    ("SortedIPLookup", "as StaticIPLookup"),
    ("StaticSwitch", "a batch goes one way"),
    ("StripEtherVLANHeader", "as StripEtherVlanHeader"),
    ("Suppressor", "a batch goes one way"),
    ("Switch", "a batch goes one way"),
    ("TCPRewriter", "as IPRewriter"),
    ("ThreadSafeQueue", "a queue"),
    ("ToDevice", "a device"),
    ("ToDump", "a batch goes one way"),
    ("ToIPSummaryDump", "a batch goes one way"),
    ("UDPRewriter", "as IPRewriter"),
];

/// Packets in a batch: enough that each kind stands between others several times.
const PACKETS: usize = 128;

impl Zoo {
    fn packets(self) -> Vec<Packet> {
        let mut rng = Rng::with_seed(7);
        let packets = (0..PACKETS).map(|number| {
            let mut packet = match self {
                Ip => ip(&mut rng, number),
                Ether => ether(&mut rng, number),
                Ip6 => ip6(&mut rng, number),
            };
            packet.set_paint(rng.u8(..3));
            packet
        });
        packets.collect()
    }
}

/// An IPv4 packet with a fault, or none.
fn ip(rng: &mut Rng, number: usize) -> Packet {
    let from = [1, 0, (number >> 8) as u8, number as u8];
    let to = [rng.u8(5..8), 0, 0, 1];
    let options: &[u8] = match rng.u8(..8) {
        0 => &[7, 3, 1, 0],
        1 => &[7, 3, 4, 0],
        2 => &[1, 1, 1, 1],
        _ => &[],
    };
    let ttl = if rng.u8(..6) == 0 { 1 } else { 64 };
    let length = if rng.u8(..5) == 0 { 400 } else { 24 };
    let mut bytes = datagram(ttl, from, to, options, length).data().to_vec();
    let header = 20 + options.len();
    match rng.u8(..16) {
        0 => bytes[10] ^= 0x55,
        1 => bytes.truncate(12),
        2 => bytes[0] = 0x65,
        3 => bytes[12..16].fill(255),
        4 => bytes[6] |= 0x40,
        5 => bytes[6..8].copy_from_slice(&[0x20, 0]),
        6 => {
            bytes[9] = 1;
            bytes[header..header + 4].copy_from_slice(&[8, 0, 0, 0]);
            let sum = wire::checksum::internet(&bytes[header..]);
            bytes[header + 2..header + 4].copy_from_slice(&sum.to_be_bytes());
        }
        7 => bytes[9] = 1,
        8 => bytes[9] = 6,
        9 => bytes[9] = 99,
        11 | 12 => {
            bytes[9] = 6;
            bytes[header + 12] = 0x50;
            bytes[header + 16..header + 18].fill(0);
            let sum = wire::checksum::transport_v4(from.into(), to.into(), Protocol::TCP, &bytes[header..]);
            bytes[header + 16..header + 18].copy_from_slice(&sum.to_be_bytes());
        }
        10 => bytes[header + 4..header + 8].copy_from_slice(&[(length >> 8) as u8, length as u8, 0, 0]),
        _ => {}
    }
    if bytes.len() >= 20 && bytes[10..12] == datagram(ttl, from, to, options, length).data()[10..12] {
        seal(&mut bytes);
    }
    Packet::copy_of(&bytes).unwrap()
}

/// An Ethernet frame.
fn ether(rng: &mut Rng, number: usize) -> Packet {
    let mac = MacAddr([2, 0, 0, 0, 1, number as u8]);
    let target = if rng.bool() { [1, 0, 0, 9] } else { [1, 0, 0, 8] };
    let request = arp::Repr::request(mac, [1, 0, 1, number as u8].into(), target.into());
    let mut bytes = match rng.u8(..4) {
        0 => [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 1, number as u8, 8, 0][..], ip(rng, number).data()].concat(),
        1 => request.reply(MacAddr([2, 0, 0, 0, 0, 2])).to_frame().to_vec(),
        _ => request.to_frame().to_vec(),
    };
    match rng.u8(..6) {
        0 => bytes.truncate(8),
        1 => bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 3]),
        2 => bytes[15] = 7,
        _ => {}
    }
    Packet::copy_of(&bytes).unwrap()
}

/// An IPv6 packet.
fn ip6(rng: &mut Rng, number: usize) -> Packet {
    let from = format!("1::{number:x}");
    let to = format!("::{}", rng.u8(4..7));
    let hops = if rng.u8(..6) == 0 { 1 } else { 64 };
    let long = [0; 1400];
    let (next, payload): (u8, &[u8]) = match rng.u8(..11) {
        0 => (0, &[17, 0, 0x9e, 4, 0, 0, 0, 0, 1, 2, 3, 4]),
        1 => (0, &[17, 0, 1, 4, 0, 0, 0, 0, 1, 2, 3, 4]),
        2 => (0, &[17, 9, 1, 4, 0, 0, 0, 0]),
        3 => (60, &[17, 0, 0x9e, 4, 0, 0, 0, 0, 1, 2, 3, 4]),
        4 => (60, &[17, 9, 1, 4, 0, 0, 0, 0]),
        5 => (99, &[1, 2, 3, 4, 5, 6, 7, 8]),
        6 => (58, &[128, 0, 1, 2, 3, 4, 5, 6]),
        7 => (17, &long),
        8 => (44, &[17, 0, 0, 1, 9, 9, 9, number as u8, 1, 2, 3, 4, 5, 6, 7, 8]),
        _ => (17, &[1, 2, 3, 4, 0, 8, 0, 0]),
    };
    let mut bytes = samples::bytes(&from, &to, next, hops, payload);
    match rng.u8(..10) {
        0 => bytes[0] = 0x40,
        1 => bytes.truncate(30),
        2 => bytes[8] = 0xff,
        3 if next == 58 => bytes[42] ^= 1,
        _ if next == 58 => {
            let sum = wire::checksum::transport_v6(
                from.parse().unwrap(),
                to.parse().unwrap(),
                Protocol::ICMPV6,
                &{
                    let mut icmp = bytes[40..].to_vec();
                    icmp[2..4].fill(0);
                    icmp
                },
            );
            bytes[42..44].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {}
    }
    Packet::copy_of(&bytes).unwrap()
}

fn run((zoo, before, element, outputs, _): Split, burst: usize) -> Run {
    let before = if before.is_empty() { String::new() } else { format!("{before} -> ") };
    let mut text = format!("i :: TestIn -> {before}e :: {element};");
    if element.contains("(t)") {
        text += "Idle -> t :: StaticIPLookup(1.0.0.0/26 0) -> Discard;";
    }
    for output in 0..outputs {
        text += &format!(" e[{output}] -> o{output} :: TestOut;");
    }
    Rig::text(&text).burst(burst).packets(zoo.packets()).run()
}

/// What is wrong with what an element has sent, for people.
fn faults(split: Split) -> Vec<String> {
    let (.., element, outputs, reached) = split;
    let (one_by_one, together) = (run(split, 1), run(split, PACKETS));
    let report = together.report();
    let sent = &report.elements[together.index("e")].outputs;
    let mut faults = Vec::new();
    for (output, stats) in sent.iter().enumerate().take(outputs) {
        let sink = format!("o{output}");
        if together.bytes(&sink) != one_by_one.bytes(&sink) {
            faults.push(format!("{element}[{output}]: not what it sends packet by packet, in that order"));
        }
        if stats.batches > stats.packets.div_ceil(256) {
            faults.push(format!("{element}[{output}]: {stats:?}"));
        }
        if reached.contains(&output) && stats.packets == 0 {
            faults.push(format!("{element}[{output}]: no packet"));
        }
    }
    if together.drops("e") != one_by_one.drops("e") {
        faults.push(format!("{element}: {:?}, {:?}", together.drops("e"), one_by_one.drops("e")));
    }
    faults
}

#[test]
fn what_an_element_parts_leaves_as_one_batch_for_each_output() {
    let faults: Vec<String> = SPLITS.iter().flat_map(|split| faults(*split)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn what_a_full_queue_refuses_leaves_as_one_batch() {
    for queue in ["Queue(5)", "MixedQueue(5)", "FrontDropQueue(5)"] {
        let idle = if queue.starts_with("Mixed") { "Idle -> [1]e;" } else { "" };
        let text = format!("i :: TestIn -> e :: {queue} -> Idle; e[1] -> o1 :: TestOut; {idle}");
        let run = Rig::text(&text).burst(PACKETS).packets(Ip.packets()).run();
        let sent = run.report().elements[run.index("e")].outputs[1];
        assert_eq!((sent.packets, sent.batches), (PACKETS as u64 - 5, 1), "{queue}");
    }
}

#[test]
fn what_a_querier_gives_up_and_asks_leaves_as_one_batch_each() {
    let text = "i :: TestIn -> CheckIPHeader -> GetIPAddress(12) -> e :: ARPQuerier(1.0.0.254, 2:0:0:0:0:1);
                e[0] -> o0 :: TestOut; e[1] -> o1 :: TestOut; Idle -> [1]e;";
    let run = Rig::text(text)
        .burst(PACKETS)
        .packets(Ip.packets())
        .ready()
        .run_for(std::time::Duration::from_millis(1));
    let sent = &run.report().elements[run.index("e")].outputs;
    assert!(sent[1].packets > 10, "{sent:?}");
    assert_eq!(sent[1].batches, 1, "{sent:?}");
}

#[test]
fn every_class_is_here() {
    let known = |name: &str| {
        let class = |element: &str| element.split('(').next() == Some(name);
        SPLITS.iter().any(|(.., element, _, _)| class(element))
            || OTHERS.iter().any(|(other, _)| *other == name)
    };
    let missing: Vec<&str> = crate::all()
        .filter(|class| {
            let outputs = class.ports.split('/').nth(1).unwrap_or("0");
            !matches!(outputs, "0" | "1" | "0-1") && !known(class.name)
        })
        .map(|class| class.name)
        .collect();
    assert!(missing.is_empty(), "add to SPLITS, or with a reason to OTHERS: {missing:?}");
}
