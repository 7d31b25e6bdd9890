// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every class, when a new configuration takes the place of its: that nothing is forgotten, or that there is nothing.
//!
//! A new class fails [`every_class_is_here`] until its author has said which it is. For what goes on there is a row in
//! [`GOES_ON`]: a configuration, run over the same packets twice, once with a swap to the same text in the midst. Nobody may see
//! a difference, in what comes out or in any handler.

use std::collections::BTreeSet;

use element::{Access, Merge};
use packet::Packet;
use wire::checksum;

use crate::testing::{Rig, Run};

/// Configurations whose element `e` is of the class that stands first in its line. They hold `i`, a TestIn, and `o`, a TestOut.
const GOES_ON: &[&str] = &[
    "AddressTranslator: i :: TestIn -> [0]e :: AddressTranslator(0, true, false, false, 9::9)[0] -> o :: TestOut; Idle -> [1]e[1] -> o;",
    "AggregateIPAddrPair: i :: TestIn -> MarkIPHeader -> e :: AggregateIPAddrPair -> o :: TestOut;",
    "AggregateFirst: i :: TestIn -> MarkIPHeader -> AggregateIP(ip src) -> e :: AggregateFirst -> o :: TestOut;",
    "AggregateLast: i :: TestIn -> MarkIPHeader -> AggregateIP(ip src) -> e :: AggregateLast[1] -> o :: TestOut; e -> Discard;",
    "AggregatePacketCounter: i :: TestIn -> MarkIPHeader -> AggregateIP(ip src) -> e :: AggregatePacketCounter -> o :: TestOut;",
    "IPRateMonitor: i :: TestIn -> MarkIPHeader -> e :: IPRateMonitor(PACKETS, 1, 100) -> o :: TestOut;",
    "AggregateIPFlows: i :: TestIn -> MarkIPHeader -> SetTimestamp -> e :: AggregateIPFlows -> o :: TestOut;",
    "AggregateCounter: i :: TestIn -> MarkIPHeader -> AggregateIP(ip src) -> e :: AggregateCounter -> o :: TestOut;",
    "Clipboard: i :: TestIn -> e :: Clipboard(0/2) -> o :: TestOut; TimedSource(0.8, xyz, LIMIT 2) -> [1]e[1] -> o;",
    "FastTCPFlows: i :: TestIn -> o :: TestOut; e :: FastTCPFlows(2, 5, 60, 0:0:0:0:0:0, 1.1.1.1, 0:0:0:0:0:0, 2.2.2.2, 2, 3) -> u :: Unqueue -> Truncate(0) -> o;",
    "FastUDPFlows: i :: TestIn -> o :: TestOut; e :: FastUDPFlows(2, 5, 60, 0:0:0:0:0:0, 1.1.1.1, 0:0:0:0:0:0, 2.2.2.2, 2, 3) -> u :: Unqueue -> Truncate(0) -> o;",
    "ICMPIPEncap: i :: TestIn -> e :: ICMPIPEncap(1.1.1.1, 2.2.2.2, echo) -> o :: TestOut;",
    "ICMPPingEncap: i :: TestIn -> e :: ICMPPingEncap(1.1.1.1, 2.2.2.2) -> o :: TestOut;",
    "IPsecAuthHMACSHA1: i :: TestIn -> SetIPAddress(10.0.0.1) -> a :: RadixIPsecLookup(0/0 1 234 1111111111111111 2222222222222222 1 64); a[0] -> Discard; a[1] -> e :: IPsecAuthHMACSHA1(0) -> o :: TestOut;",
    "IPsecAuthSHA1: i :: TestIn -> e :: IPsecAuthSHA1(1) -> Discard; e[1] -> o :: TestOut;",
    "IPsecEncap: i :: TestIn -> SetIPAddress(9.9.9.9) -> e :: IPsecEncap(50) -> o :: TestOut;",
    "IPsecRouteTable: i :: TestIn -> SetIPAddress(10.0.0.1) -> e :: IPsecRouteTable(0/0 1 234 1111111111111111 2222222222222222 1 64); e[0] -> Discard; e[1] -> IPsecESPEncap -> Truncate(8) -> o :: TestOut;",
    "RadixIPsecLookup: i :: TestIn -> SetIPAddress(10.0.0.1) -> e :: RadixIPsecLookup(0/0 1 234 1111111111111111 2222222222222222 1 64); e[0] -> Discard; e[1] -> IPsecESPEncap -> Truncate(8) -> o :: TestOut;",
    "IPsecESPEncap: i :: TestIn -> e :: IPsecESPEncap(5) -> Truncate(8) -> o :: TestOut;",
    "IPsecPathMTU: db :: IPsecDatabase; i :: TestIn -> e :: IPsecPathMTU(db) -> o :: TestOut;",
    "LinkUnqueue: i :: TestIn -> q :: Queue -> e :: LinkUnqueue(1, 1000) -> o :: TestOut;",
    "SetTimestampDelta: i :: TestIn -> SetTimestamp -> e :: SetTimestampDelta -> o :: TestOut;",
    "TimeRange: i :: TestIn -> SetTimestamp -> e :: TimeRange -> o :: TestOut;",
    "TimeSortedSched: i :: TestIn -> q :: Queue -> e :: TimeSortedSched(BUFFER 4) -> u :: RatedUnqueue(3) -> o :: TestOut;",
    "TimestampAccum: i :: TestIn -> SetTimestamp(1) -> e :: TimestampAccum -> o :: TestOut;",
    "ToHostSniffers: i :: TestIn -> t :: Tee -> e :: ToHostSniffers; t[1] -> o :: TestOut;",
    "ARPQuerier: i :: TestIn -> SetIPAddress(9.9.9.9) -> e :: ARPQuerier(1.1.1.1, 2:0:0:0:0:1) -> o :: TestOut; Idle -> [1]e;",
    "AverageCounter: i :: TestIn -> e :: AverageCounter -> o :: TestOut;",
    "BandwidthMeter: i :: TestIn -> e :: BandwidthMeter(1000kBps) -> o :: TestOut; e[1] -> Discard;",
    "BandwidthRatedSplitter: i :: TestIn -> e :: BandwidthRatedSplitter(2000Bps) -> o :: TestOut; e[1] -> Discard;",
    "BandwidthRatedUnqueue: i :: TestIn -> q :: Queue -> e :: BandwidthRatedUnqueue(2000Bps) -> o :: TestOut;",
    "BandwidthShaper: i :: TestIn -> q :: Queue -> e :: BandwidthShaper(2000Bps) -> u :: Unqueue -> o :: TestOut;",
    "Bridge: i :: TestIn -> e :: Bridge -> Discard; Idle -> [1]e[1] -> o :: TestOut;",
    "CPUQueue: i :: TestIn -> e :: CPUQueue(7) -> u :: RatedUnqueue(3) -> o :: TestOut;",
    "CheckARPHeader: i :: TestIn -> e :: CheckARPHeader(DETAILS true) -> o :: TestOut;",
    "CheckICMP6Header: i :: TestIn -> MarkIP6Header -> e :: CheckICMP6Header(DETAILS true) -> o :: TestOut;",
    "CheckICMPHeader: i :: TestIn -> MarkIPHeader -> e :: CheckICMPHeader(DETAILS true) -> o :: TestOut;",
    "CheckIP6Header: i :: TestIn -> e :: CheckIP6Header -> o :: TestOut;",
    "CheckIP6Scope: i :: TestIn -> CheckIP6Header -> e :: CheckIP6Scope -> o :: TestOut;",
    "CheckIPAddresses: i :: TestIn -> MarkIPHeader -> e :: CheckIPAddresses -> o :: TestOut;",
    "CheckIPHeader: i :: TestIn -> e :: CheckIPHeader(DETAILS true) -> o :: TestOut;",
    "CheckIPHeader2: i :: TestIn -> e :: CheckIPHeader2(DETAILS true) -> o :: TestOut;",
    "CheckReversePath: i :: TestIn -> CheckIPHeader -> e :: CheckReversePath(t) -> o :: TestOut; Idle -> t :: StaticIPLookup(9.0.0.0/8 0) -> Discard;",
    "CheckTCPHeader: i :: TestIn -> MarkIPHeader -> e :: CheckTCPHeader(DETAILS true) -> o :: TestOut;",
    "CheckUDPHeader: i :: TestIn -> MarkIPHeader -> e :: CheckUDPHeader(DETAILS true) -> o :: TestOut;",
    "ControlTraffic: i :: TestIn -> e :: ControlTraffic(LIMIT arp 1) -> o :: TestOut; e[1] -> o; e[2] -> o;",
    "Counter: i :: TestIn -> e :: Counter -> o :: TestOut;",
    "DRRSched: i :: TestIn -> q :: Queue -> e :: DRRSched(30) -> u :: RatedUnqueue(3) -> o :: TestOut; Idle -> [1]e;",
    "DecIP6HLIM: i :: TestIn -> CheckIP6Header -> e :: DecIP6HLIM -> o :: TestOut;",
    "DecIPTTL: i :: TestIn -> CheckIPHeader -> e :: DecIPTTL -> o :: TestOut;",
    "DelayShaper: i :: TestIn -> SetTimestamp -> q :: Queue -> e :: DelayShaper(1s) -> u :: Unqueue -> o :: TestOut;",
    "DelayUnqueue: i :: TestIn -> SetTimestamp -> q :: Queue -> e :: DelayUnqueue(1s) -> o :: TestOut;",
    "DirectIPLookup: i :: TestIn -> CheckIPHeader -> e :: DirectIPLookup(0/0 0) -> o :: TestOut;",
    "Discard: i :: TestIn -> t :: Tee -> e :: Discard; t[1] -> o :: TestOut;",
    "EtherSwitch: i :: TestIn -> e :: EtherSwitch -> Discard; Idle -> [1]e[1] -> o :: TestOut;",
    "FTPPortMapper: i :: TestIn -> CheckIPHeader -> e :: FTPPortMapper(w, w, 0) -> w :: TCPRewriter(pattern 9.9.9.9 - - - 0 0) -> o :: TestOut;",
    "FastUDPSource: i :: TestIn -> o :: TestOut; e :: FastUDPSource(2, 5, 60, 0:0:0:0:0:0, 1.1.1.1, 1, 0:0:0:0:0:0, 2.2.2.2, 2) -> o;",
    "FromIPSummaryDump: i :: TestIn -> o :: TestOut; e :: FromIPSummaryDump(DATA \"!data src\\n1.0.0.1\\n1.0.0.2\\n1.0.0.3\\n\") -> u :: RatedUnqueue(2) -> o;",
    "FrontDropQueue: i :: TestIn -> e :: FrontDropQueue(5) -> u :: RatedUnqueue(3) -> o :: TestOut;",
    "FullNoteQueue: i :: TestIn -> e :: FullNoteQueue(5) -> u :: RatedUnqueue(3) -> o :: TestOut;",
    "ICMP6Error: i :: TestIn -> CheckIP6Header -> e :: ICMP6Error(fe80::1, timeexceeded, RATE 1, BURST 2) -> o :: TestOut;",
    "ICMPError: i :: TestIn -> CheckIPHeader -> e :: ICMPError(1.1.1.1, timeexceeded, DST_RATE 1, DST_BURST 2) -> o :: TestOut;",
    "ICMPPingRewriter: i :: TestIn -> CheckIPHeader -> e :: ICMPPingRewriter(pattern 9.9.9.9 - 1000-1100# 0 0) -> o :: TestOut;",
    "ICMPPingSource: i :: TestIn -> o :: TestOut; e :: ICMPPingSource(1.1.1.1, 2.2.2.2, INTERVAL 1, LIMIT 3) -> o;",
    "ICMPSendPings: i :: TestIn -> o :: TestOut; e :: ICMPSendPings(1.1.1.1, 2.2.2.2, INTERVAL 1, LIMIT 3) -> o;",
    "IP6Extensions: i :: TestIn -> CheckIP6Header -> e :: IP6Extensions -> o :: TestOut;",
    "IP6Fragmenter: i :: TestIn -> CheckIP6Header -> e :: IP6Fragmenter(1280) -> o :: TestOut;",
    "IP6HopByHop: i :: TestIn -> CheckIP6Header -> e :: IP6HopByHop -> o :: TestOut;",
    "IP6NDRouterCheck: i :: TestIn -> CheckIP6Header -> e :: IP6NDRouterCheck -> o :: TestOut;",
    "IP6NDSolicitor: i :: TestIn -> CheckIP6Header -> GetIP6Address(24) -> e :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:1) -> o :: TestOut; Idle -> [1]e;",
    "IP6Reassembler: i :: TestIn -> CheckIP6Header -> e :: IP6Reassembler -> o :: TestOut;",
    "IPAddrPairRewriter: i :: TestIn -> CheckIPHeader -> e :: IPAddrPairRewriter(pattern 9.9.9.0/24# - 0 0) -> o :: TestOut;",
    "IPAddrRewriter: i :: TestIn -> CheckIPHeader -> e :: IPAddrRewriter(pattern 9.9.9.0/24# - 0 0) -> o :: TestOut;",
    "IPEncap: i :: TestIn -> e :: IPEncap(99, 1.1.1.1, 2.2.2.2) -> o :: TestOut;",
    "IPFragmenter: i :: TestIn -> CheckIPHeader -> e :: IPFragmenter(40) -> o :: TestOut;",
    "IPGWOptions: i :: TestIn -> CheckIPHeader -> e :: IPGWOptions(1.1.1.1) -> o :: TestOut;",
    "IPInputCombo: i :: TestIn -> e :: IPInputCombo(1) -> o :: TestOut;",
    "IPReassembler: i :: TestIn -> CheckIPHeader -> e :: IPReassembler -> o :: TestOut;",
    "IPRewriter: i :: TestIn -> CheckIPHeader -> e :: IPRewriter(pattern 9.9.9.9 1000-1100# - - 0 0) -> o :: TestOut;",
    "IPSourceRoute: i :: TestIn -> CheckIPHeader -> e :: IPSourceRoute(2.0.0.2) -> o :: TestOut;",
    "InfiniteSource: i :: TestIn -> o :: TestOut; e :: InfiniteSource(x, 3) -> o;",
    "LinearIPLookup: i :: TestIn -> CheckIPHeader -> e :: LinearIPLookup(0/0 0) -> o :: TestOut;",
    "ListenEtherSwitch: i :: TestIn -> e :: ListenEtherSwitch -> Discard; Idle -> [1]e[1] -> o :: TestOut; e[2] -> Discard;",
    "LookupIP6Route: i :: TestIn -> CheckIP6Header -> GetIP6Address(24) -> e :: LookupIP6Route(::/0 0) -> o :: TestOut;",
    "LookupIPRoute: i :: TestIn -> CheckIPHeader -> e :: LookupIPRoute(0/0 0) -> o :: TestOut;",
    "LookupIP6Multicast: i :: TestIn -> CheckIP6Header -> e :: LookupIP6Multicast(UNKNOWN 0) -> o :: TestOut;",
    "LookupIPMulticast: i :: TestIn -> CheckIPHeader -> e :: LookupIPMulticast(UNKNOWN 0) -> o :: TestOut;",
    "LookupMPLS: i :: TestIn -> e :: LookupMPLS(16 pop 0) -> o :: TestOut;",
    "Meter: i :: TestIn -> e :: Meter(3) -> o :: TestOut; e[1] -> Discard;",
    "MixedQueue: i :: TestIn -> e :: MixedQueue(5) -> u :: RatedUnqueue(3) -> o :: TestOut; Idle -> [1]e;",
    "NotifierQueue: i :: TestIn -> e :: NotifierQueue(5) -> u :: RatedUnqueue(3) -> o :: TestOut;",
    "Punt: i :: TestIn -> e :: Punt(some, RATE 1, BURST 3) -> o :: TestOut;",
    "Queue: i :: TestIn -> e :: Queue(5) -> u :: RatedUnqueue(3) -> o :: TestOut;",
    "QuickNoteQueue: i :: TestIn -> e :: QuickNoteQueue(5) -> u :: RatedUnqueue(3) -> o :: TestOut;",
    "RED: i :: TestIn -> e :: RED(1, 2, 1) -> q :: Queue(5) -> u :: RatedUnqueue(3) -> o :: TestOut;",
    "RadixIPLookup: i :: TestIn -> CheckIPHeader -> e :: RadixIPLookup(0/0 0) -> o :: TestOut;",
    "RandomSample: i :: TestIn -> e :: RandomSample(DROP 1) -> o :: TestOut;",
    "RandomSource: i :: TestIn -> o :: TestOut; e :: RandomSource(8, LIMIT 3) -> Truncate(0) -> o;",
    "RangeIPLookup: i :: TestIn -> CheckIPHeader -> e :: RangeIPLookup(0/0 0) -> o :: TestOut;",
    "RatedSource: i :: TestIn -> o :: TestOut; e :: RatedSource(x, 2, 5) -> o;",
    "RatedSplitter: i :: TestIn -> e :: RatedSplitter(3) -> o :: TestOut; e[1] -> Discard;",
    "RatedUnqueue: i :: TestIn -> q :: Queue -> e :: RatedUnqueue(3) -> o :: TestOut;",
    "Shaper: i :: TestIn -> q :: Queue -> e :: Shaper(3) -> u :: Unqueue -> o :: TestOut;",
    "SimpleQueue: i :: TestIn -> e :: SimpleQueue(5) -> u :: RatedUnqueue(3) -> o :: TestOut;",
    "SortedIPLookup: i :: TestIn -> CheckIPHeader -> e :: SortedIPLookup(0/0 0) -> o :: TestOut;",
    "SpinlockInfo: i :: TestIn -> SpinlockAcquire(l) -> SpinlockRelease(l) -> o :: TestOut; e :: SpinlockInfo(l);",
    "StaticIPLookup: i :: TestIn -> CheckIPHeader -> e :: StaticIPLookup(0/0 0) -> o :: TestOut;",
    "TCPRewriter: i :: TestIn -> CheckIPHeader -> e :: TCPRewriter(pattern 9.9.9.9 1000-1100# - - 0 0) -> o :: TestOut;",
    "ThreadSafeQueue: i :: TestIn -> e :: ThreadSafeQueue(5) -> u :: RatedUnqueue(3) -> o :: TestOut;",
    "TimedSource: i :: TestIn -> o :: TestOut; e :: TimedSource(1, x, LIMIT 3) -> o;",
    "UDPIPEncap: i :: TestIn -> e :: UDPIPEncap(1.1.1.1, 1, 2.2.2.2, 2) -> o :: TestOut;",
    "UDPRewriter: i :: TestIn -> CheckIPHeader -> e :: UDPRewriter(pattern 9.9.9.9 1000-1100# - - 0 0) -> o :: TestOut;",
    "Unqueue: i :: TestIn -> q :: Queue -> e :: Unqueue(LIMIT 5) -> o :: TestOut;",
    "Work: i :: TestIn -> e :: Work(3, 1) -> o :: TestOut;",
];

/// Tables, devices and files, each with a test of its own elsewhere: `crate::swapped`, the element's file, or
/// `crates/junctor/tests/swap/main.rs`, `channels.rs` and `router_rig/swap.rs`.
const GOES_ON_ELSEWHERE: &[&str] = &[
    "ARPTable",
    "BFD",
    "Balance",
    "ControlSocket",
    "EtherSpanTree",
    "Firewall",
    "FromDevice",
    "FromPlane",
    "FromDump",
    "FromHost",
    "IP6NDTable",
    "ESPTunnel",
    "IPsecDatabase",
    "IPsecDummies",
    "KernelTap",
    "KernelTun",
    "MemoryPort",
    "MulticastSnooping",
    "NAT44",
    "SessionSync",
    "PollDevice",
    "RSTP",
    "RouteFeed",
    "RawSocket",
    "McastSocket",
    "Socket",
    "ToDevice",
    "ToPlane",
    "ToDump",
    "ToHost",
    "ToIPSummaryDump",
    "WireGuard",
];

/// What happens over time begins again with the new configuration, as it would at a start; each says why that is right.
const BEGINS_AGAIN: &[(&str, &str)] = &[
    ("TimeFilter", "its times are those of the new text"),
    ("ARPResponder", "it announces the addresses of the new text"),
    ("Burster", "it waits one interval"),
    ("DriverManager", "its text says what is to happen from now on"),
    ("IP6NDAdvertiser", "it announces the addresses of the new text"),
    (
        "IP6NDRouterAdvertiser",
        "what it advertises may have changed, so it says that soon (RFC 4861, section 6.2.4)",
    ),
    ("SetRandIPAddress", "it draws its addresses anew"),
    ("IPRewriterPatterns", "a range begins with its first free value"),
    ("Message", "it says what the new text says"),
    ("PokeHandlers", "its text says what is to happen from now on"),
    ("RoundRobinIPMapper", "turns begin with the first pattern"),
    ("RoundRobinSched", "turns begin with the first input"),
    ("RoundRobinSwitch", "turns begin with the first output"),
    ("Script", "its text says what is to happen from now on"),
    ("StrideSched", "shares are the same from any point on"),
    ("StrideSwitch", "shares are the same from any point on"),
    ("TimedSink", "it waits one interval"),
    ("TimedUnqueue", "it waits one interval"),
];

/// Classes that treat each packet as their text and handlers say, regardless of earlier packets.
const NOTHING: &[&str] = &[
    "IPsecAES",
    "IPsecDES",
    "IPsecESPUnencap",
    "EraseIPPayload",
    "IP6Encap",
    "NAT64",
    "NPTv6",
    "ProtocolTranslator46",
    "ProtocolTranslator64",
    "AggregateFilter",
    "AggregateIP",
    "AggregateLength",
    "AggregatePaint",
    "AdjustTimestamp",
    "Block",
    "InputSwitch",
    "MarkIPCE",
    "MarkMACHeader",
    "ResetIPChecksum",
    "StoreTimestamp",
    "ARPFaker",
    "ARPPrint",
    "AddressInfo",
    "Align",
    "AlignmentInfo",
    "AnnotationInfo",
    "BalancedThreadSched",
    "Bypass",
    "CPUSwitch",
    "CheckCRC32",
    "CheckLength",
    "CheckMPLSMTU",
    "CheckPaint",
    "Classifier",
    "ClickyInfo",
    "DropBroadcasts",
    "EnsureEther",
    "Error",
    "EtherEncap",
    "EtherMirror",
    "EtherRewrite",
    "EtherVLANEncap",
    "EtherVlanEncap",
    "FixIPSrc",
    "GetIP6Address",
    "GetIPAddress",
    "HashDemux",
    "HashSwitch",
    "HostEtherFilter",
    "Hub",
    "ICMP6PingResponder",
    "ICMPPingResponder",
    "ICMPRewriter",
    "IP6Mirror",
    "IP6Print",
    "IPClassifier",
    "IPFilter",
    "IPMirror",
    "IPNameInfo",
    "IPOutputCombo",
    "IPPrint",
    "IPsecCheck",
    "IPsecDecrypt",
    "IPsecEncrypt",
    "Idle",
    "MarkIP6Header",
    "MarkIPHeader",
    "Null",
    "Pad",
    "Paint",
    "PaintSwitch",
    "PaintTee",
    "PortInfo",
    "Print",
    "PrioSched",
    "PullNull",
    "PullSwitch",
    "PullTee",
    "PushMPLS",
    "PushNull",
    "QuitWatcher",
    "RandomBitErrors",
    "RandomSeed",
    "RandomSwitch",
    "Resize",
    "ScheduleInfo",
    "SetAnnoByte",
    "SetCRC32",
    "SetIP6Address",
    "SetIP6DSCP",
    "SetIP6ECN",
    "SetIP6FlowLabel",
    "SetIP6Hlim",
    "SetIPAddress",
    "SetIPChecksum",
    "SetIPDSCP",
    "SetIPECN",
    "SetPacketType",
    "SetTCPChecksum",
    "SetTimestamp",
    "SetUDPChecksum",
    "SetVLANAnno",
    "SetVlanAnno",
    "SimpleIdle",
    "SimplePrioSched",
    "SimplePullSwitch",
    "SourceIPHashMapper",
    "SpinlockAcquire",
    "SpinlockPush",
    "SpinlockRelease",
    "StaticPullSwitch",
    "StaticSwitch",
    "StaticThreadSched",
    "StoreData",
    "StoreEtherAddress",
    "StoreIP6Address",
    "StoreIPAddress",
    "Strip",
    "StripEtherVLANHeader",
    "StripEtherVlanHeader",
    "StripIPHeader",
    "StripToNetworkHeader",
    "Suppressor",
    "Switch",
    "TCPFragmenter",
    "Tee",
    "Truncate",
    "Unstrip",
    "UnstripIPHeader",
    "UntagPriority",
    "VLANDecap",
    "VLANEncap",
];

fn class_of(row: &str) -> &str {
    row.split(':').next().unwrap_or_default()
}

#[test]
fn every_class_is_here() {
    let registry = crate::registry();
    let mut said: Vec<&str> = GOES_ON.iter().map(|row| class_of(row)).collect();
    said.extend(GOES_ON_ELSEWHERE);
    said.extend(BEGINS_AGAIN.iter().map(|(class, _)| *class));
    let gathers = BTreeSet::from_iter(said.iter().copied());
    said.extend(NOTHING);
    let once: BTreeSet<&str> = said.iter().copied().collect();
    assert_eq!(once.len(), said.len(), "a class is named twice");
    let all: BTreeSet<&str> = registry.iter().map(|class| class.name).collect();
    let missing: Vec<_> = all.difference(&once).collect();
    assert!(
        missing.is_empty(),
        "say what a hot swap does with the state of {missing:?}, in one of the lists above"
    );
    let gone: Vec<_> = once.difference(&all).collect();
    assert!(gone.is_empty(), "no such classes: {gone:?}");
    // A number that adds up over workers is a count, and counts go on. Of drops the engine keeps the account.
    for class in registry.iter().filter(|class| !gathers.contains(class.name)) {
        let counts: Vec<_> = class
            .handlers
            .iter()
            .filter(|h| h.merge == Merge::Sum && h.name != "drops")
            .map(|h| h.name)
            .collect();
        assert!(counts.is_empty(), "{} counts, so it is to take_state: {counts:?}", class.name);
    }
}

fn sum(bytes: &mut [u8], header: usize) {
    let sum = checksum::internet(&bytes[..header]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Something for everybody: IP with each protocol, good and bad, whole and in parts; IPv6; ARP; noise.
pub(crate) fn packets() -> Vec<Packet> {
    let mut all: Vec<Vec<u8>> = vec![vec![7; 3], vec![0; 60]];
    for (protocol, ttl, fragment, source) in [
        (17, 64, 0, 1),
        (17, 1, 0, 2),
        (6, 64, 0, 3),
        (1, 64, 0, 4),
        (17, 64, 0x20, 5),
        (17, 64, 0, 224),
        (6, 1, 0, 6),
    ] {
        let mut ip =
            vec![0x45, 0, 0, 72, 0, 9, fragment, 0, ttl, protocol, 0, 0, source, 0, 0, 1, 2, 0, 0, 2];
        ip.extend([8, 0, 0, 21, 0, 52, 0, 0, 0, 0, 0, 0, 0x50, 0x18, 0, 0, 0, 0, 0, 0]);
        ip.extend(*b"PORT 1,0,0,1,9,9\r\n______________");
        sum(&mut ip, 20);
        all.push(ip.clone());
        // A wrong checksum; options that make no sense; a source route.
        ip[10] ^= 1;
        all.push(ip.clone());
        for options in [[7, 9, 9, 9], [0x83, 3, 4, 0]] {
            (ip[0], ip[10], ip[11]) = (0x46, 0, 0);
            ip[20..24].copy_from_slice(&options);
            sum(&mut ip, 24);
            all.push(ip.clone());
        }
    }
    for (next, hops, last, more) in
        [(17, 64, 1, 0), (58, 1, 2, 0), (0, 64, 3, 0), (44, 64, 4, 0), (58, 255, 5, 1300), (60, 64, 0, 0)]
    {
        let mut ip = vec![0x60, 0, 0, 0, 0, 40, next, hops];
        ip.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        ip.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        ip.extend([134, 0, 0, 1, 0, 0, 0, 9, 1, 4, 0, 0, 0, 0, 0, 0]);
        ip.resize(80 + more, 1);
        let len = (ip.len() as u16 - 40).to_be_bytes();
        ip[4..6].copy_from_slice(&len);
        all.push(ip);
    }
    for n in 0..3 {
        let mut arp = vec![2, 0, 0, 0, 0, n, 2, 0, 0, 0, 0, n + 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, n];
        arp.resize(60, n);
        all.push(arp);
    }
    all.iter().map(|bytes| Packet::copy_of(bytes).expect("packet memory")).collect()
}

/// What can be seen of `e` and of what came out.
fn seen(run: &mut Run, class: &str) -> Vec<(String, String)> {
    let registry = crate::registry();
    // How often tasks ran and locks were taken is no affair of the configuration's.
    let readable =
        |h: &&element::Handler| h.access != Access::Write && !["calls", "contention"].contains(&h.name);
    let names: Vec<_> =
        registry.get(class).expect("a class").handlers.iter().filter(readable).map(|h| h.name).collect();
    let mut all: Vec<_> = names
        .iter()
        .filter_map(|name| Some((name.to_string(), run.try_read_with(&format!("e.{name}"), "").ok()?)))
        .collect();
    all.push(("drops".into(), run.read("e.drops")));
    all.extend(run.bytes("o").iter().map(|bytes| ("o".into(), format!("{bytes:02x?}"))));
    all
}

#[test]
fn what_has_been_gathered_goes_on() {
    let mut wrong = Vec::new();
    for row in GOES_ON {
        let (class, text) = row.split_once(": ").expect("CLASS: TEXT");
        let errors = Rig::text(text).errors();
        if !errors.is_empty() {
            wrong.push(format!("{row}\n{errors:?}"));
            continue;
        }
        let story = |swap: bool| {
            let mut run =
                Rig::text(text).packets(packets()).ready().run_for(std::time::Duration::from_millis(900));
            let mut told = seen(&mut run, class);
            if swap {
                let swapped = run
                    .swap(&format!("Idle -> Null -> Discard; {text}"))
                    .unwrap_or_else(|e| panic!("{row}: {e:?}"));
                if swapped.lost() > 0 || swapped.moved == 0 {
                    told.push(("swap".into(), swapped.to_string()));
                }
            }
            told.extend(seen(&mut run, class));
            run.give("i", packets());
            let mut run = run.run_for(std::time::Duration::from_millis(900));
            told.extend(seen(&mut run, class));
            told
        };
        let (with, without) = (story(true), story(false));
        let differ = with.iter().zip(&without).find(|(with, without)| with != without);
        wrong.extend(differ.map(|differ| format!("{row}\n{differ:?}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
