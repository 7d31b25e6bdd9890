// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPRewriter
//!
//! `IPRewriter(INPUTSPEC, ... [, keywords TCP_TIMEOUT, TCP_DONE_TIMEOUT, TCP_NODATA_TIMEOUT, TCP_GUARANTEE, UDP_TIMEOUT,`
//! `UDP_STREAMING_TIMEOUT, UDP_GUARANTEE, TIMEOUT, GUARANTEE, MAPPING_CAPACITY, HOST_FLOWS, DST_ANNO, REPLY_ANNO, REAP_INTERVAL])`
//!
//! Rewrites addresses and ports of TCP and UDP flows, both ways: network address and port translation.
//!
//! **Ports:** push; as many inputs as there are INPUTSPECs, 1 to 256 outputs.
//!
//! **Arguments**
//! * `INPUTSPEC` for each input, what happens to packets of unknown flows there:
//!   * `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: a mapping is made. The flow's packets get these addresses and
//!     ports (`-` leaves one as it is) and leave by FOUTPUT; answers are rewritten back and leave by ROUTPUT. SPORT may be a
//!     range `LOW-HIGH`: the flow's own port if it lies in it and is free, else a random free one; behind it, `?` means a
//!     random one in any case, and `#` the next one. `pattern NAME FOUTPUT ROUTPUT` takes the pattern from IPRewriterPatterns.
//!   * `keep FOUTPUT ROUTPUT`: a mapping that changes nothing.
//!   * `ELEMENT`: a mapper (RoundRobinIPMapper, SourceIPHashMapper) chooses a pattern for each new flow.
//!   * `nochange [OUTPUT]` (or `pass`): sends them on without a mapping.
//!   * `drop`: drops them.
//!
//!   `pattern` and `keep` may end with the name of another rewriter: answers are looked for there, and leave by that one's
//!   ROUTPUT. Both must share a MAPPING_CAPACITY.
//! * `TCP_TIMEOUT` 24 h, `TCP_DONE_TIMEOUT` 4 min (after RST, or FIN from both sides), `TCP_NODATA_TIMEOUT` 5 min (until both
//!   sides have sent data), `UDP_TIMEOUT` 5 min, `UDP_STREAMING_TIMEOUT` (three packets, and answers among them; default UDP_TIMEOUT):
//!   idle times after which mappings end. `TIMEOUT` is a synonym for TCP_TIMEOUT in TCPRewriter, and for UDP_TIMEOUT elsewhere.
//!   `STREAMING_TIMEOUT` is a synonym for UDP_STREAMING_TIMEOUT.
//! * `TCP_GUARANTEE`, `UDP_GUARANTEE`, `GUARANTEE` default 5 s: so long after its last packet a mapping gives way to no other. A
//!   new flow that can only have the addresses and ports of a guaranteed mapping is refused.
//! * `MAPPING_CAPACITY` mappings at most, up to 16777216, default 65536; where one more is needed, the one that would end first
//!   goes. Or the name of another rewriter, of any class, to have places in common with it.
//! * `HOST_FLOWS` flows at most that one source address may begin, among all rewriters with places in common; default 0, any
//!   number. A host at its limit is refused new flows until old ones end.
//! * `DST_ANNO` boolean, default true: sets the destination annotation.
//! * `REPLY_ANNO` a 1-byte annotation, by offset or name: answers get the value that the flow's first packet had.
//! * `REAP_INTERVAL` is accepted; mappings end on time without it.
//!
//! **Metadata read:** network and transport header positions. **Set:** destination address, REPLY_ANNO.
//!
//! **Cores:** the mappings are in one table, which one worker may use at a time; so are those of rewriters with places in
//! common.
//!
//! **Drops:** `no-mapping`, also for later fragments and other protocols unless the input has `nochange`. `mapping-table-full`, when neither a port
//! nor a place for a mapping is free; `mapping-taken`, when the only mapping that the pattern offers is another flow's and guaranteed;
//! `host-flow-limit`; `too-short`.
//!
//! **Handlers**
//! * `table`, `mappings` read: a line for each mapping and direction: `FROM => TO [*FOUTPUT ROUTPUT] iINPUT expSECONDS`, with a
//!   star at the direction's output. `tcp_table`, `tcp_mappings`, `udp_table`, `udp_mappings` read: of one protocol.
//! * `tcp_lookup` read, with a flow `SADDR SPORT DADDR DPORT` as parameter: what it becomes, or nothing.
//! * `nmappings`, `table_size` read: mappings this element has made. `size` read: those that share its capacity.
//! * `mapping_failures` read: mappings refused.
//! * `patterns` read: the INPUTSPECs, and in brackets how many mappings each has made. `pattern0`, `pattern1` ... read: one of
//!   them; write: another specification; the mappings that the input has made end.
//! * `capacity` read/write: the number of places. `clear` write: ends all mappings that share the capacity.
//!
//! ```click
//! rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);
//! Idle -> [0]rw; Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;
//! ```
//!
//! UDPRewriter and TCPRewriter are this element for one protocol's timeouts.
//!
//! See also: IPRewriterPatterns, RoundRobinIPMapper, SourceIPHashMapper, IPAddrRewriter, IPAddrPairRewriter, ICMPPingRewriter,
//! ICMPRewriter; RFC 1624, RFC 3022

use element::args::Args;
use element::{Class, Handler, declare, handlers};
use packet::Packet;
use tables::flow::FlowKey;

use super::core::{Family, Rewriter};
use super::kind::{FlowKind, TCP, UDP};
use super::mappings::{Mapping, Timing};
use crate::tools::time_ns;

const HANDLERS: &[Handler] = &declare::joined::<14>(&[
    handlers! { Rewriter<Ports>:
        read "tcp_table" => |rewriter, cx| rewriter.list(Some(TCP), cx.now());
        read "tcp_mappings" => |rewriter, cx| rewriter.list(Some(TCP), cx.now());
        read "tcp_lookup" => |rewriter, cx, flow: &str| rewriter.look_up(TCP, flow, cx.now())?;
        read "udp_table" => |rewriter, cx| rewriter.list(Some(UDP), cx.now());
        read "udp_mappings" => |rewriter, cx| rewriter.list(Some(UDP), cx.now());
    },
    Rewriter::<Ports>::HANDLERS,
]);

/// The descriptor.
pub const IP: Class =
    described(Class::new("IPRewriter", "1-/1-256", || Box::new(Rewriter::new(Ports::new(&[TCP, UDP])))));
/// The descriptor of the one for UDP; like Click's it takes TCP packets too, with UDP's timeouts.
pub const UDP_REWRITER: Class = described(Class::new("UDPRewriter", "1-/1-256", || {
    Box::new(Rewriter::new(Ports { plain: true, ..Ports::new(&[TCP, UDP]) }))
}));
/// The descriptor of the one for TCP.
pub const TCP_REWRITER: Class =
    described(Class::new("TCPRewriter", "1-/1-256", || Box::new(Rewriter::new(Ports::new(&[TCP])))));

const fn described(class: Class) -> Class {
    Rewriter::<Ports>::with_capabilities(
        class
            .processing("h/h")
            .serial("the packets of a flow meet in one table of mappings, whichever worker they come by")
            .handlers(HANDLERS)
            .file(file!()),
    )
}

const SECOND: u64 = 1_000_000_000;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
/// Packets that make a UDP flow a stream, if there are answers.
const STREAM: u8 = 3;

#[derive(Clone, Copy, Debug)]
struct Timeouts {
    tcp: u64,
    tcp_done: u64,
    tcp_nodata: u64,
    tcp_guarantee: u64,
    udp: u64,
    udp_streaming: u64,
    udp_guarantee: u64,
}

/// Flows by addresses and ports.
struct Ports {
    protocols: &'static [u8],
    /// All flows have UDP's timeouts.
    plain: bool,
    timeouts: Timeouts,
}

impl Ports {
    fn new(protocols: &'static [u8]) -> Ports {
        let timeouts = Timeouts {
            tcp: 86_400 * SECOND,
            tcp_done: 240 * SECOND,
            tcp_nodata: 300 * SECOND,
            tcp_guarantee: 5 * SECOND,
            udp: 300 * SECOND,
            udp_streaming: 300 * SECOND,
            udp_guarantee: 5 * SECOND,
        };
        Ports { protocols, plain: false, timeouts }
    }
}

impl Family for Ports {
    const KIND: FlowKind = FlowKind::Ports;

    fn configure(&mut self, args: &mut Args<'_>) {
        let mut time = |name, default| time_ns(args, name, default);
        let t = &mut self.timeouts;
        let only_tcp = !self.protocols.contains(&UDP);
        let plain = if only_tcp { &mut t.tcp } else { &mut t.udp };
        *plain = time("TIMEOUT", *plain);
        t.udp = time("UDP_TIMEOUT", t.udp);
        t.udp_streaming = time("STREAMING_TIMEOUT", t.udp);
        t.udp_streaming = time("UDP_STREAMING_TIMEOUT", t.udp_streaming);
        t.udp_guarantee = time("GUARANTEE", t.udp_guarantee);
        t.tcp_guarantee = time("TCP_GUARANTEE", t.udp_guarantee);
        t.udp_guarantee = time("UDP_GUARANTEE", t.udp_guarantee);
        t.tcp = time("TCP_TIMEOUT", t.tcp);
        t.tcp_done = time("TCP_DONE_TIMEOUT", t.tcp_done);
        t.tcp_nodata = time("TCP_NODATA_TIMEOUT", t.tcp_nodata);
    }

    /// One of the protocols, first fragment, ports there.
    #[inline(always)]
    fn flow(&self, packet: &Packet) -> Option<(FlowKey, bool)> {
        let ip = packet.network()?.first_chunk::<20>()?;
        let transport = packet.transport()?;
        let word = |b: &[u8]| u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        let first = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff == 0;
        if !first || !self.protocols.contains(&ip[9]) || transport.len() < 8 {
            return None;
        }
        let ports = word(transport.first_chunk::<4>()?);
        let (sport, dport) = ((ports >> 16) as u16, ports as u16);
        let (src, dst) = (word(&ip[12..16]), word(&ip[16..20]));
        Some((FlowKey { src, dst, sport, dport, proto: ip[9], zone: 0 }, true))
    }

    #[inline]
    fn timing(&self, proto: u8, mapping: &Mapping) -> Timing {
        let t = &self.timeouts;
        if proto != TCP || self.plain {
            let stream = mapping.data[1] && mapping.packets >= STREAM;
            let idle_ns = if stream { t.udp_streaming } else { t.udp };
            return Timing { idle_ns, guarantee_ns: t.udp_guarantee };
        }
        let idle_ns = match (mapping.done, mapping.data) {
            ([true, true], _) => t.tcp_done,
            (_, [true, true]) => t.tcp,
            _ => t.tcp_nodata,
        };
        Timing { idle_ns, guarantee_ns: t.tcp_guarantee }
    }

    #[inline]
    fn note(&self, mapping: &mut Mapping, side: usize, proto: u8, flags: u8, packet: &Packet) {
        mapping.packets = mapping.packets.saturating_add(1);
        if proto != TCP || self.plain {
            mapping.data[side] = true;
            return;
        }
        if flags & RST != 0 {
            mapping.done = [true; 2];
        } else if flags & FIN != 0 {
            mapping.done[side] = true;
        }
        let header = packet.transport().and_then(|t| t.get(12)).map_or(5, |b| usize::from(b >> 4));
        let end = packet
            .network()
            .and_then(|n| n.get(2..4))
            .map_or(0, |b| usize::from(b[0]) << 8 | usize::from(b[1]));
        let ip = packet.network().and_then(|n| n.first()).map_or(20, |b| usize::from(b & 15) * 4);
        let has_data = end > ip + header * 4;
        mapping.data[side] |= has_data;
        // A side that goes on has not closed.
        if flags & (RST | FIN) == 0 && (flags & SYN != 0 || has_data) {
            mapping.done[side] = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::ports_text;
    use super::*;
    use crate::testing::Rig;
    use element::Reason;
    use std::net::Ipv4Addr;
    use wire::checksum;

    const HOME: [u8; 4] = [10, 0, 0, 1];
    const PEER: [u8; 4] = [8, 8, 8, 8];
    const US: [u8; 4] = [1, 0, 0, 1];

    /// A packet with right checksums.
    fn packet(proto: u8, src: ([u8; 4], u16), dst: ([u8; 4], u16), flags: u8) -> Packet {
        let mut t = vec![0; if proto == TCP { 20 } else { 8 }];
        t[..2].copy_from_slice(&src.1.to_be_bytes());
        t[2..4].copy_from_slice(&dst.1.to_be_bytes());
        if proto == TCP {
            (t[12], t[13]) = (0x50, flags);
        } else {
            t[5] = 8;
        }
        let sum = checksum::transport_v4(src.0.into(), dst.0.into(), wire::Protocol(proto), &t);
        let at = if proto == TCP { 16 } else { 6 };
        t[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let mut ip = [0x45, 0, 0, 20 + t.len() as u8, 0, 0, 0, 0, 64, proto, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        ip[12..16].copy_from_slice(&src.0);
        ip[16..].copy_from_slice(&dst.0);
        let sum = checksum::header20_checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut p = Packet::copy_of(&[&ip[..], &t].concat()).unwrap();
        p.set_network(0, 20);
        p
    }

    /// The flow, after a check of the checksums by full sums.
    fn seen(p: &Packet) -> String {
        let ip = p.network().unwrap();
        let (key, _) = Ports::new(&[TCP, UDP]).flow(p).unwrap();
        assert!(checksum::header20_ok(ip.first_chunk().unwrap()), "{p:?}");
        let proto = wire::Protocol(key.proto);
        assert!(checksum::transport_v4_ok(
            Ipv4Addr::from_bits(key.src),
            Ipv4Addr::from_bits(key.dst),
            proto,
            &ip[20..]
        ));
        ports_text(&key)
    }

    /// Inside packets enter at input 0, outside ones at input 1.
    fn rig(class: &str, args: &str) -> Rig {
        Rig::text(&format!(
            "i :: TestIn -> e :: {class}({args}); j :: TestIn -> [1]e; e[0] -> o0 :: TestOut; e[1] -> o1 :: TestOut;"
        ))
    }

    #[test]
    fn mappings_go_on_through_a_swap() {
        let text = |before: &str, args: &str| {
            format!(
                "{before} i :: TestIn -> e :: UDPRewriter({args}); j :: TestIn -> [1]e; \
                 e[0] -> o0 :: TestOut; e[1] -> o1 :: TestOut;"
            )
        };
        let from = |port| packet(UDP, (HOME, port), (PEER, 53), 0);
        let first = "pattern 1.0.0.1 1024-1030# - - 0 1, drop";
        for (before, args, kept) in [
            ("", first, true),
            // Its number changes, and its capacity.
            (
                "Idle -> Counter -> Discard;",
                "pattern 1.0.0.1 1024-1030# - - 0 1, drop, MAPPING_CAPACITY 9",
                true,
            ),
            ("", "pattern 1.0.0.2 1024-1030# - - 0 1, drop", false),
        ] {
            let mut run = Rig::text(&text("", first)).packets(vec![from(4000)]).run();
            let swapped = run.swap(&text(before, args)).unwrap();
            assert!(swapped.moved >= 1, "{swapped}");
            assert_eq!(run.read("e.nmappings"), if kept { "1" } else { "0" }, "{args}");
            run.give("j", vec![packet(UDP, (PEER, 53), (US, 1024), 0)]);
            let run = run.again();
            assert_eq!(run.out("o1").len(), usize::from(kept), "{args}");
            run.give("i", vec![from(4000), from(4001)]);
            let mut run = run.again();
            let out = run.out("o0");
            let want = if kept { "(1.0.0.1, 1025, 8.8.8.8, 53)" } else { "(1.0.0.2, 1025, 8.8.8.8, 53)" };
            assert_eq!(seen(&out[1]), want);
            assert_eq!(run.read("e.nmappings"), "2");
        }
    }

    #[test]
    fn rewrites_both_ways() {
        for (class, proto) in
            [("IPRewriter", UDP), ("IPRewriter", TCP), ("UDPRewriter", UDP), ("TCPRewriter", TCP)]
        {
            let run = rig(class, "pattern 1.0.0.1 1024-1030# - - 0 1, drop")
                .packets(vec![
                    packet(proto, (HOME, 4000), (PEER, 53), 0),
                    packet(proto, (HOME, 4001), (PEER, 53), 0),
                ])
                .run();
            let out = run.out("o0");
            assert_eq!(seen(&out[0]), "(1.0.0.1, 1024, 8.8.8.8, 53)");
            assert_eq!((seen(&out[1]), out[1].dst_ip()), ("(1.0.0.1, 1025, 8.8.8.8, 53)".into(), PEER));
            run.give(
                "j",
                vec![packet(proto, (PEER, 53), (US, 1025), 0), packet(proto, (PEER, 53), (US, 1026), 0)],
            );
            let mut run = run.again();
            assert_eq!(run.out("o1").iter().map(seen).collect::<Vec<_>>(), ["(8.8.8.8, 53, 10.0.0.1, 4001)"]);
            assert_eq!(run.drops("e"), [(Reason::NoMapping, 1)]);
            assert_eq!(run.read("e.nmappings"), "2");
            assert!(run.read("e.mappings").starts_with(
                "(10.0.0.1, 4000, 8.8.8.8, 53) => (1.0.0.1, 1024, 8.8.8.8, 53) [*0 1] i0 exp300\n"
            ));
            run.write("e.clear", "").unwrap();
            assert_eq!(run.read("e.size"), "0");
        }
    }

    #[test]
    fn no_checksum_stays_none() {
        let mut p = packet(UDP, (HOME, 4000), (PEER, 53), 0);
        p.data_mut()[26..28].fill(0);
        let run = rig("UDPRewriter", "pattern 1.0.0.1 - - - 0 1, drop").packets(vec![p]).run();
        assert_eq!(run.out("o0")[0].data()[26..28], [0, 0]);
    }

    #[test]
    fn capacity_refuses_while_guaranteed() {
        let packets = || (0..3).map(|n| packet(UDP, (HOME, 4000 + n), (PEER, 53), 0)).collect::<Vec<_>>();
        let mut run = rig("UDPRewriter", "keep 0 1, drop, MAPPING_CAPACITY 2").packets(packets()).run();
        assert_eq!((run.out("o0").len(), run.read("e.mapping_failures")), (2, "1".into()));
        assert_eq!(run.drops("e"), [(Reason::MappingTableFull, 1)]);
        let mut run =
            rig("UDPRewriter", "keep 0 1, drop, MAPPING_CAPACITY 2, GUARANTEE 0").packets(packets()).run();
        assert_eq!((run.out("o0").len(), run.read("e.size")), (3, "2".into()));
    }

    #[test]
    fn a_live_mapping_is_not_taken_away() {
        for (class, proto) in [("IPRewriter", UDP), ("UDPRewriter", UDP), ("TCPRewriter", TCP)] {
            for pattern in [
                "pattern 1.0.0.1 7000-7000 - -",
                "pattern 1.0.0.1 7000 - -",
                "pattern 1.0.0.1 7000-7000# - -",
            ] {
                let packets = [4000, 4001, 4000].map(|port| packet(proto, (HOME, port), (PEER, 53), 0));
                let run = rig(class, &format!("{pattern} 0 1, drop")).packets(packets.into()).run();
                let own = "(1.0.0.1, 7000, 8.8.8.8, 53)";
                assert_eq!(run.out("o0").iter().map(seen).collect::<Vec<_>>(), [own, own]);
                assert_eq!(run.drops("e"), [(Reason::MappingTaken, 1)]);
                run.give("j", vec![packet(proto, (PEER, 53), (US, 7000), 0)]);
                let mut run = run.again();
                assert_eq!(seen(&run.out("o1")[0]), "(8.8.8.8, 53, 10.0.0.1, 4000)");
                assert_eq!(run.read("e.mapping_failures"), "1");
            }
        }
    }

    #[test]
    fn hosts_begin_no_more_flows_than_they_may() {
        let from = |host: u8, port| packet(UDP, ([10, 0, 0, host], port), (PEER, 53), 0);
        let packets = vec![from(1, 1), from(1, 2), from(1, 3), from(2, 1), from(1, 1)];
        let mut run = rig("IPRewriter", "pattern 1.0.0.1 1024-65535 - - 0 1, drop, HOST_FLOWS 2")
            .packets(packets)
            .run();
        assert_eq!((run.out("o0").len(), run.drops("e")), (4, vec![(Reason::HostFlowLimit, 1)]));
        run.write("e.clear", "").unwrap();
        run.give("i", vec![from(1, 3), from(1, 4), from(1, 5)]);
        assert_eq!(run.again().out("o0").len(), 2);
    }

    /// A whole range of 64,512 ports in use, and flows beyond it.
    #[test]
    fn a_full_range_refuses() {
        let from = |n: u32| packet(UDP, ([10, 1, (n >> 8) as u8, n as u8], 5), (PEER, 53), 0);
        let mut run = rig("UDPRewriter", "pattern 1.0.0.1 1024-65535 - - 0 1, drop").ready();
        let mut sent = 0;
        for block in 0..127u32 {
            run.give("i", (block * 512..block * 512 + 512).map(from).collect());
            run = run.again();
            sent += run.out("o0").len();
        }
        assert_eq!(run.drops("e"), [(Reason::MappingTableFull, 512)]);
        assert_eq!((sent, run.read("e.nmappings")), (64_512, "64512".into()));
        // Another peer has all ports free.
        run.give("i", vec![packet(UDP, (HOME, 4000), ([8, 8, 4, 4], 53), 0)]);
        assert_eq!(run.again().out("o0").len(), 1);
    }

    #[test]
    fn streaming_timeout_has_two_names() {
        for class in ["UDPRewriter", "IPRewriter"] {
            for name in ["STREAMING_TIMEOUT", "UDP_STREAMING_TIMEOUT"] {
                let args = format!("pattern 1.0.0.1 - - - 0 1, drop, UDP_TIMEOUT 10, {name} 100");
                let run = rig(class, &args)
                    .packets((0..2).map(|_| packet(UDP, (HOME, 4000), (PEER, 53), 0)).collect())
                    .run();
                run.give("j", vec![packet(UDP, (PEER, 53), (US, 4000), 0)]);
                let mut run = run.again();
                assert!(run.read("e.mappings").contains("exp100"), "{}", run.read("e.mappings"));
            }
        }
    }

    #[test]
    fn connections_end_with_a_reset_and_go_on_with_data() {
        for class in ["TCPRewriter", "IPRewriter"] {
            let to = |flags| packet(TCP, (HOME, 4000), (PEER, 80), flags);
            let mut run =
                rig(class, "pattern 1.0.0.1 - - - 0 1, drop, TIMEOUT 900").packets(vec![to(RST)]).run();
            assert!(run.read("e.mappings").contains("exp240"), "{}", run.read("e.mappings"));
            run.give("i", vec![to(SYN)]);
            let mut run = run.again();
            assert!(run.read("e.mappings").contains("exp300"), "{}", run.read("e.mappings"));
        }
    }

    #[test]
    fn a_mapping_onto_itself_is_left_by_the_reply_output() {
        let own = || packet(UDP, (HOME, 4000), (HOME, 4000), 0);
        let mut run = rig("UDPRewriter", "keep 0 1, drop").packets(vec![own(), own()]).run();
        assert_eq!((run.out("o0").len(), run.out("o1").len()), (1, 1));
        assert_eq!(run.read("e.nmappings"), "1");
    }

    #[test]
    fn connections_end() {
        let to = |flags| packet(TCP, (HOME, 4000), (PEER, 80), flags);
        let from = |flags| packet(TCP, (PEER, 80), (US, 4000), flags);
        let mut run =
            rig("TCPRewriter", "pattern 1.0.0.1 - - - 0 1, drop").packets(vec![to(SYN), to(FIN)]).run();
        assert!(run.read("e.mappings").contains("exp300"));
        run.give("j", vec![from(FIN)]);
        let mut run = run.again();
        assert!(run.read("e.mappings").contains("exp240"), "{}", run.read("e.mappings"));
    }

    #[test]
    fn fragments_and_strangers() {
        let mut fragment = packet(UDP, (HOME, 4000), (PEER, 53), 0);
        fragment.data_mut()[7] = 1;
        let icmp = packet(1, (HOME, 0), (PEER, 0), 0);
        let run = rig("IPRewriter", "keep 0 1, nochange 1").packets(vec![fragment, icmp]).run();
        assert_eq!(run.drops("e"), [(Reason::NoMapping, 2)]);
        run.give("j", vec![packet(1, (HOME, 0), (PEER, 0), 0), packet(UDP, (PEER, 1), (HOME, 2), 0)]);
        assert_eq!(run.again().out("o1").len(), 2);
    }

    #[test]
    fn errors() {
        let check = |args: &str, want: &str| {
            let errors = Rig::new(&format!("IPRewriter({args})")).errors();
            assert!(errors.iter().any(|e| e.contains(want)), "{errors:?}");
        };
        check("", "needs as many input specifications as inputs: 1, not 0");
        check("pattern 1.0.0.1 5 - - 0 9", "input spec 0: output '9' is out of range");
        check("pattern x 5 - - 0 0", "input spec 0: bad source address 'x'");
        check("keep 0", "input spec 0: expected FOUTPUT ROUTPUT");
        check("foo bar", "input spec 0: unknown specification 'foo'");
        check("foo", "input spec 0: unknown specification 'foo'");
        check("pattern foo 0 0", "input spec 0: no such pattern 'foo'");
    }
}
