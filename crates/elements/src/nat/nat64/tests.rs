// SPDX-License-Identifier: MIT OR Apache-2.0

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::{Protocol, checksum};

use super::*;
use crate::testing::{Rig, Run};

const STATEMENTS: &str = "STATEMENT \"translate 10.0.1.0/24,2001:db8:1::/48 to 192.0.2.1 ports 5000-5063\", \
    STATEMENT \"forward tcp 80 to 2001:db8:1::20 port 8080\"";

/// The link of paint 1 is outside; every IPv4 packet that goes on leaves by it.
fn text(statements: &str, more: &str) -> String {
    format!(
        "nat :: NAT44({statements}, OWN 192.0.2.1, OUTSIDE 1); six :: NAT64(nat{more}); \
         i6 :: TestIn -> [0]six; i4 :: TestIn -> [0]nat; nat[0] -> [1]six; \
         six[0] -> o6 :: TestOut; six[1] -> local :: IPClassifier(dst host 192.0.2.1 or dst net 10.0.0.0/8, -); \
         local[0] -> o0 :: TestOut; local[1] -> [1]nat; nat[1] -> o4 :: TestOut; six[2] -> [0]nat;"
    )
}

fn rig() -> Run {
    Rig::text(&text(STATEMENTS, "")).ready()
}

/// A packet that came by the link of this paint.
fn packet(paint: u8, line: &str) -> Packet {
    bytes(paint, &wire::compose::compose(line).unwrap_or_else(|why| panic!("{line}: {why}")).bytes)
}

fn bytes(paint: u8, bytes: &[u8]) -> Packet {
    let mut packet = Packet::copy_of(bytes).unwrap();
    packet.set_network(0, if bytes[0] >> 4 == 4 { 20 } else { 40 });
    packet.set_paint(paint);
    packet
}

/// Ends of a packet whose checksums are right; of pings their identifier, of errors what they quote.
fn shown(ip: &[u8]) -> String {
    let at = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let (source, destination, head, protocol) = if ip[0] >> 4 == 4 {
        assert_eq!(usize::from(at(2)), ip.len());
        assert!(checksum::header20_ok(ip.first_chunk().unwrap()));
        let address = |at: usize| Ipv4Addr::from(*ip[at..].first_chunk::<4>().unwrap());
        let (src, dst) = (address(12), address(16));
        match ip[9] {
            1 => assert_eq!(checksum::internet(&ip[20..]), 0),
            6 | 17 => assert!(checksum::transport_v4_ok(src, dst, Protocol(ip[9]), &ip[20..]), "{ip:02x?}"),
            _ => {}
        }
        (src.to_string(), dst.to_string(), 20, ip[9])
    } else {
        assert_eq!(usize::from(at(4)) + 40, ip.len());
        let address = |at: usize| Ipv6Addr::from(*ip[at..].first_chunk::<16>().unwrap());
        let (src, dst) = (address(8), address(24));
        if [6, 17, 58].contains(&ip[6]) {
            assert_eq!(checksum::transport_v6(src, dst, Protocol(ip[6]), &ip[40..]), 0, "{ip:02x?}");
        }
        (format!("[{src}]"), format!("[{dst}]"), 40, ip[6])
    };
    match protocol {
        1 if [3, 11].contains(&ip[head]) => {
            format!("{source} > {destination} about {}", quoted(&ip[head + 8..]))
        }
        58 if ip[head] < 128 => format!("{source} > {destination} about {}", quoted(&ip[head + 8..])),
        1 | 58 => format!("{source} > {destination} id {}", at(head + 4)),
        6 | 17 => format!("{source}:{} > {destination}:{}", at(head), at(head + 2)),
        _ => format!("{source} > {destination}"),
    }
}

/// A packet that is quoted whole.
fn quoted(ip: &[u8]) -> String {
    shown(ip)
}

/// What one packet becomes, with the output.
fn becomes(run: Run, input: &str, packet: Packet) -> (Run, String, Vec<u8>) {
    run.give(input, vec![packet]);
    let run = run.again();
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    for output in ["o0", "o4", "o6"] {
        all.extend(run.bytes(output).into_iter().map(|bytes| (format!("{output} {}", shown(&bytes)), bytes)));
    }
    let (text, bytes) =
        all.pop().unwrap_or_else(|| (format!("{:?}{:?}", run.drops("six"), run.drops("nat")), Vec::new()));
    assert!(all.is_empty(), "{all:?}");
    (run, text, bytes)
}

fn outside_port(text: &str) -> u16 {
    text.split(' ').nth(1).unwrap().rsplit_once(':').unwrap().1.parse().unwrap()
}

const HOST: &str = "2001:db8:1::5";

// conformance: RFC6146-3.7-a
#[test]
fn queries_go_out_and_answers_come_in() {
    let mut run = rig();
    for (query, answer) in [("udp 4000 > 53", "udp 53 > "), ("tcp 4000 > 53", "tcp 53 > ")] {
        let (next, left, ip) = becomes(
            run,
            "i6",
            packet(2, &format!("ip6 {HOST} > 64:ff9b::203.0.113.1 hlim 9 class 5 / {query}")),
        );
        let port = outside_port(&left);
        assert_eq!(left, format!("o4 192.0.2.1:{port} > 203.0.113.1:53"));
        // Type of service and time to live stay, and the packet may be fragmented (RFC 7915, 5.1).
        assert_eq!((ip[1], ip[8], ip[6]), (5, 9, 0));
        let flags = if answer.starts_with("tcp") { " flags SA" } else { "" };
        let answer = format!("ip 203.0.113.1 > 192.0.2.1 ttl 7 / {answer}{port}{flags}");
        let (next, came, ip) = becomes(next, "i4", packet(1, &answer));
        assert_eq!(came, format!("o6 [64:ff9b::cb00:7101]:53 > [{HOST}]:4000"));
        assert_eq!(ip[7], 7);
        run = next;
    }
    let (run, left, _) = becomes(
        run,
        "i6",
        packet(2, &format!("ip6 {HOST} > 64:ff9b::203.0.113.1 / icmp6 echo id 77 / payload 9")),
    );
    let id: u16 = left.rsplit_once(' ').unwrap().1.parse().unwrap();
    assert_eq!(left, format!("o4 192.0.2.1 > 203.0.113.1 id {id}"));
    let (mut run, came, _) = becomes(
        run,
        "i4",
        packet(1, &format!("ip 203.0.113.1 > 192.0.2.1 / icmp reply id {id} / payload 9")),
    );
    assert_eq!(came, format!("o6 [64:ff9b::cb00:7101] > [{HOST}] id 77"));
    // What there is, by the host's own address.
    assert!(
        run.read("nat.sessions").contains(&format!(" {HOST} 4000 192.0.2.1 ")),
        "{}",
        run.read("nat.sessions")
    );
    assert!(run.read("nat.subscribers").starts_with("2001:db8:1::/64 192.0.2.1 1 3 "));
    assert_eq!(run.read("six.prefix"), "64:ff9b::/96");
    run.write("nat.end", HOST).unwrap();
    assert_eq!(run.read("nat.nsessions"), "0");
}

// conformance: RFC6146-3.5-b RFC6146-3.5-c
#[test]
fn other_packets_pass_as_they_are() {
    let run = rig();
    let other = packet(2, "ip6 2001:db8:1::5 > 2001:db8:9::1 / udp 1 > 2");
    let before = other.data().to_vec();
    let (run, _, after) = becomes(run, "i6", other);
    assert_eq!(before, after);
    let (_, four, _) = becomes(run, "i4", packet(1, "ip 203.0.113.1 > 10.0.9.9 / udp 1 > 2"));
    assert_eq!(four, "o0 203.0.113.1:1 > 10.0.9.9:2");
}

#[test]
fn forwards_lead_to_ipv6_hosts() {
    let (run, came, _) = becomes(rig(), "i4", packet(1, "ip 203.0.113.1 > 192.0.2.1 / tcp 9 > 80 flags S"));
    assert_eq!(came, "o6 [64:ff9b::cb00:7101]:9 > [2001:db8:1::20]:8080");
    let answer = "ip6 2001:db8:1::20 > 64:ff9b::203.0.113.1 / tcp 8080 > 9 flags SA";
    let (_, left, _) = becomes(run, "i6", packet(2, answer));
    assert_eq!(left, "o4 192.0.2.1:80 > 203.0.113.1:9");
}

// conformance: RFC6146-3.8-a
#[test]
fn inside_hosts_reach_each_other_by_outside_addresses() {
    let (run, left, _) =
        becomes(rig(), "i6", packet(2, &format!("ip6 {HOST} > 64:ff9b::203.0.113.1 / udp 4000 > 53")));
    let port = outside_port(&left);
    // Another IPv6 host, and an IPv4 host (RFC 6146, 3.8; RFC 4787, REQ-9).
    let line = format!("ip6 2001:db8:1::6 > 64:ff9b::192.0.2.1 / udp 9 > {port}");
    let (run, six, _) = becomes(run, "i6", packet(2, &line));
    let other = outside_port(&six);
    assert_eq!(six, format!("o6 [64:ff9b::c000:201]:{other} > [{HOST}]:4000"));
    let line = format!("ip6 {HOST} > 64:ff9b::192.0.2.1 / udp 4000 > {other}");
    let (run, back, _) = becomes(run, "i6", packet(2, &line));
    assert_eq!(back, format!("o6 [64:ff9b::c000:201]:{port} > [2001:db8:1::6]:9"));
    let line = format!("ip 10.0.1.2 > 192.0.2.1 / udp 9 > {port}");
    let (_, four, _) = becomes(run, "i4", packet(2, &line));
    let third = outside_port(&four);
    assert_eq!(four, format!("o6 [64:ff9b::c000:201]:{third} > [{HOST}]:4000"));
}

/// An ICMP error about a packet.
fn error(family: u8, ends: &str, kind: u8, code: u8, rest: u32, about: &[u8]) -> Packet {
    let hex: String = about.iter().map(|byte| format!("{byte:02x}")).collect();
    let (icmp, ip) = if family == 4 { ("icmp", "ip") } else { ("icmp6", "ip6") };
    let line = format!(
        "{ip} {ends} / {icmp} type {kind} code {code} id {} seq {} / hex {hex}",
        rest >> 16,
        rest & 0xffff
    );
    packet(if family == 4 { 1 } else { 2 }, &line)
}

// conformance: RFC6146-3.4-c RFC6146-3.6.1-a
#[test]
fn errors_go_with_the_packet_that_they_quote() {
    let query = format!("ip6 {HOST} > 64:ff9b::203.0.113.1 / udp 4000 > 53 / payload 8");
    let (run, _, left) = becomes(rig(), "i6", packet(2, &query));
    // A router on the way out says that the packet is too big: its MTU grows by what the headers differ (RFC 7915, 4.2).
    let (run, came, ip) = becomes(run, "i4", error(4, "198.51.100.7 > 192.0.2.1", 3, 4, 1400, &left));
    assert_eq!(
        came,
        format!("o6 [64:ff9b::c633:6407] > [{HOST}] about [{HOST}]:4000 > [64:ff9b::cb00:7101]:53")
    );
    assert_eq!((ip[40], &ip[44..48]), (2, &1420u32.to_be_bytes()[..]));

    let port = outside_port(&format!("x {}", shown(&left)));
    let answer = format!("ip 203.0.113.1 > 192.0.2.1 / udp 53 > {port} / payload 8");
    let (run, _, came) = becomes(run, "i4", packet(1, &answer));
    // An inside router that nothing translates speaks for the host (RFC 5508, REQ-5).
    let said = error(6, "2001:db8:99::1 > 64:ff9b::203.0.113.1", 1, 4, 0, &came);
    let (_, nothing, _) = becomes(rig(), "i6", said.duplicate().unwrap());
    assert!(nothing.contains("NoMapping"), "another translator knows nothing of it: {nothing}");
    let (run, left, ip) = becomes(run, "i6", said);
    assert_eq!(left, format!("o4 192.0.2.1 > 203.0.113.1 about 203.0.113.1:53 > 192.0.2.1:{port}"));
    assert_eq!(ip[20..22], [3, 3]);
    // About nothing that is known.
    let strange = error(
        4,
        "198.51.100.7 > 192.0.2.1",
        3,
        1,
        0,
        packet(1, "ip 192.0.2.1 > 203.0.113.9 / udp 1 > 2").data(),
    );
    let (_, own, _) = becomes(run, "i4", strange);
    assert!(own.starts_with("o0 "), "it may be for the router itself: {own}");
}

#[test]
fn long_packets_are_divided_if_they_may_be() {
    let sizes = |line: &str, more: &str| -> Vec<(usize, u16, u32)> {
        let run = Rig::text(&text(STATEMENTS, more)).ready();
        run.give("i4", vec![packet(1, line)]);
        let run = run.again();
        let all = run.bytes("o6");
        let field = |ip: &[u8]| match ip[6] {
            44 => {
                (u16::from_be_bytes([ip[42], ip[43]]), u32::from_be_bytes([ip[44], ip[45], ip[46], ip[47]]))
            }
            _ => (0, 0),
        };
        all.iter().map(|ip| (ip.len(), field(ip).0, field(ip).1)).collect()
    };
    let line = |bits: &str| format!("ip 203.0.113.1 > 192.0.2.1 {bits} / tcp 9 > 80 flags S / payload 1300");
    assert_eq!(sizes(&line("df"), ""), [(1360, 0, 0)]);
    assert_eq!(sizes(&line("id 7"), ", MTU 1400"), [(1360, 0, 0)]);
    // 1,320 bytes behind the header: 1,232 in the first fragment, a multiple of eight (RFC 7915, 4).
    assert_eq!(sizes(&line("id 7"), ""), [(1280, 1, 7), (40 + 8 + 88, 1232, 7)]);

    let left = |payload: usize| {
        let line = format!("ip6 {HOST} > 64:ff9b::203.0.113.1 / udp 1 > 2 / payload {payload}");
        let (_, _, ip) = becomes(rig(), "i6", packet(2, &line));
        (ip.len(), ip[6] & 0x40 != 0, ip[4..6] != [0, 0])
    };
    assert_eq!(left(1232), (1260, false, true));
    assert_eq!(left(1233), (1261, true, false));
    assert_eq!(left(1472), (1500, true, false));
    assert_eq!(left(1473), (1501, false, true));
}

// conformance: RFC6146-3.5-a
#[test]
fn every_drop_has_its_reason() {
    let udp = "udp 1 > 2";
    let fragment = {
        let whole = packet(2, &format!("ip6 {HOST} > 64:ff9b::203.0.113.1 / {udp} / payload 8"));
        let ip = whole.data();
        let mut all = [&ip[..40], &[17, 0, 0, 1, 0, 0, 0, 9], &ip[40..]].concat();
        (all[5], all[6]) = (all[5] + 8, 44);
        bytes(2, &all)
    };
    let cases = [
        (packet(2, &format!("ip6 2001:db8:2::5 > 64:ff9b::203.0.113.1 / {udp}")), Reason::NoMapping),
        (packet(2, &format!("ip6 fe80::5 > 64:ff9b::203.0.113.1 / {udp}")), Reason::NoMapping),
        (packet(2, &format!("ip6 64:ff9b::203.0.113.7 > 64:ff9b::203.0.113.1 / {udp}")), Reason::NoMapping),
        (packet(2, &format!("ip6 {HOST} > 64:ff9b::0.0.0.9 / {udp}")), Reason::BadDestination),
        (packet(2, &format!("ip6 {HOST} > 64:ff9b::127.0.0.1 / {udp}")), Reason::BadDestination),
        (packet(2, &format!("ip6 {HOST} > 64:ff9b::192.168.1.1 / {udp}")), Reason::BadDestination),
        (packet(2, &format!("ip6 {HOST} > 64:ff9b::172.31.255.255 / {udp}")), Reason::BadDestination),
        (packet(1, &format!("ip6 {HOST} > 64:ff9b::203.0.113.1 / {udp}")), Reason::ReversePath),
        (packet(2, &format!("ip6 {HOST} > 64:ff9b::224.0.0.5 / {udp}")), Reason::BadDestination),
        (
            packet(2, &format!("ip6 {HOST} > 64:ff9b::203.0.113.1 / icmp6 type 135 / payload 16")),
            Reason::BadProtocol,
        ),
        (fragment, Reason::Unreassembled),
        (
            bytes(2, &packet(2, &format!("ip6 {HOST} > 64:ff9b::203.0.113.1 / {udp}")).data()[..44]),
            Reason::BadLength,
        ),
    ];
    for (packet, reason) in cases {
        let run = rig();
        run.give("i6", vec![packet]);
        let mut run = run.again();
        let found: Vec<Reason> = run.drops("six").iter().map(|(reason, _)| *reason).collect();
        assert_eq!(found, [reason]);
        assert_eq!(run.read("nat.subscribers"), "", "nothing is left of it");
    }
    let few = "STATEMENT \"translate 2001:db8:1::/48 to 192.0.2.1 ports 5000-5001 max-sessions 3\"";
    let run = Rig::text(&text(few, "")).ready();
    let from = |host: u8| packet(2, &format!("ip6 2001:db8:1::{host} > 64:ff9b::203.0.113.1 / udp 7 > 7"));
    run.give("i6", (1..4).map(from).collect());
    let run = run.again();
    assert_eq!((run.drops("six"), run.bytes("o4").len()), (vec![(Reason::NoFreePort, 1)], 2));
}

#[test]
fn mistakes_are_told() {
    let errors = Rig::text("x :: Null; e :: NAT64(x); Idle -> e -> Discard; Idle -> [1]e; e[1] -> Discard; e[2] -> x -> Discard;").errors();
    assert_eq!(errors, ["'e' could not start: 'x' is not a NAT44"]);
    let errors = Rig::text(&text(STATEMENTS, ", MTU 576")).errors();
    assert_eq!(errors, ["six: MTU 576 is less than 1280, which every link of IPv6 carries"]);
}

// conformance: RFC6146-3.5.1-f
#[test]
fn packets_without_room_are_for_an_answer() {
    let few = "STATEMENT \"translate 2001:db8:1::/48 to 192.0.2.1 ports 5000-5000\"";
    let config = text(few, "") + " six[3] -> o3 :: TestOut;";
    let run = Rig::text(&config).ready();
    let from = |host: u8| {
        packet(2, &format!("ip6 2001:db8:1::{host} > 64:ff9b::203.0.113.1 / udp 7 > 7 / payload 9"))
    };
    run.give("i6", vec![from(1), from(2)]);
    let mut run = run.again();
    // The sender hears of its own packet.
    let refused = run.out("o3");
    assert_eq!((refused.len(), refused[0].data()), (1, from(2).data()));
    assert_eq!(refused[0].anno_u8(anno::ICMP_PARAM_PROBLEM), 3);
    assert!(run.read("nat.subscribers").starts_with("2001:db8:1::/64 192.0.2.1 1 1 0 1 0\n"));
}

#[test]
fn a_translator_without_nat64_keeps_to_ipv4() {
    let text = "nat :: NAT44(STATEMENT \"forward tcp 80 on 192.0.2.1 to 2001:db8:1::20\", OUTSIDE 1); \
                i0 :: TestIn -> nat -> o0 :: TestOut; i1 :: TestIn -> [1]nat; nat[1] -> o1 :: TestOut;";
    let run = Rig::text(text).ready();
    run.give("i0", vec![packet(1, "ip 203.0.113.1 > 192.0.2.1 / tcp 9 > 80 flags S")]);
    let run = run.again();
    assert_eq!((run.bytes("o0").len(), run.drops("nat")), (0, vec![(Reason::NoMapping, 1)]));
}

#[test]
fn a_host_of_a_forward_says_nothing_of_itself_in_errors() {
    let only =
        "STATEMENT \"translate 10.0.1.0/24 to 192.0.2.1\", STATEMENT \"forward tcp 80 to 2001:db8:9::20\"";
    let run = Rig::text(&text(only, "")).ready();
    let (run, _, came) = becomes(run, "i4", packet(1, "ip 203.0.113.1 > 192.0.2.1 / tcp 9 > 80 flags S"));
    let said = error(6, "2001:db8:9::20 > 64:ff9b::203.0.113.1", 1, 1, 0, &came);
    let (_, left, _) = becomes(run, "i6", said);
    assert_eq!(left, "o4 192.0.2.1 > 203.0.113.1 about 203.0.113.1:9 > 192.0.2.1:80");
}

#[test]
fn a_packet_on_its_way_reaches_no_other_host() {
    // What happens between the two elements; whether the host still gets the packet.
    let other = "translate 2001:db8:1::/48 to 192.0.2.1 ports 5000-5063\n";
    let moved = format!("{other}forward udp 99 on 192.0.2.1 to 2001:db8:1::77\n");
    let files = crate::io::testing::Temp::new();
    for (name, value, arrives) in [
        ("nat.load", other.replace("64 to", "63 to"), true),
        // The host's number is that of the forward's host now.
        ("nat.load", moved, false),
        // Another host has its number.
        ("nat.end", "all".to_owned(), false),
    ] {
        let path = files.file("nat", other);
        let between = "nat[0] -> o0 :: TestOut; i1 :: TestIn -> [1]six;";
        let config = text(&path, "")
            .replace("nat[0] -> [1]six;", between)
            .replace("-> o0 :: TestOut; local", "-> Discard; local");
        let run = Rig::text(&config).ready();
        let ask = packet(2, "ip6 2001:db8:1::5 > 64:ff9b::203.0.113.9 / udp 7 > 53");
        let (run, left, _) = becomes(run, "i6", ask);
        let answer = format!("ip 203.0.113.9 > 192.0.2.1 / udp 53 > {}", outside_port(&left));
        run.give("i4", vec![packet(1, &answer)]);
        let mut run = run.again();
        let mut waiting = run.out("o0");
        assert_eq!(waiting.len(), 1);
        let value = if name == "nat.load" { files.file("nat", &value) } else { value };
        run.write(name, &value).unwrap();
        let another = packet(2, "ip6 2001:db8:1::6 > 64:ff9b::203.0.113.9 / udp 7 > 53");
        let run = becomes(run, "i6", another).0;
        run.give("i1", vec![waiting.remove(0)]);
        let run = run.again();
        assert_eq!(run.bytes("o6").len(), usize::from(arrives), "{name} {value}");
        let dropped = if arrives { vec![] } else { vec![(Reason::NoMapping, 1)] };
        assert_eq!(run.drops("six"), dropped, "{name} {value}");
    }
}

#[test]
fn ftp_between_families_inside_keeps_its_numbers() {
    let statements = "STATEMENT \"translate 10.0.1.0/24,2001:db8:1::/48 to 192.0.2.1\", \
        STATEMENT \"forward tcp 21 to 10.0.1.20\"";
    let run = Rig::text(&text(statements, "")).ready();
    let segment = |ends: &str, ports: &str, seq: u32, ack: u32, text: &str| {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        let body = if hex.is_empty() { hex } else { format!(" / hex {hex}") };
        packet(2, &format!("{ends} / tcp {ports} flags AP seq {seq} ack {ack}{body}"))
    };
    let six = format!("ip6 {HOST} > 64:ff9b::192.0.2.1");
    let eprt = format!("EPRT |2|{HOST}|5000|\r\n");
    let (run, left, ip) = becomes(run, "i6", segment(&six, "4000 > 21", 100, 1, &eprt));
    let port = outside_port(&left);
    let said = String::from_utf8(ip[40..].to_vec()).unwrap();
    assert!(left.ends_with("> 10.0.1.20:21") && said.starts_with("EPRT |1|192.0.2.1|"), "{left} {said}");
    // The server has all of it; its client, too.
    let answer =
        segment("ip 10.0.1.20 > 192.0.2.1", &format!("21 > {port}"), 1, 100 + said.len() as u32, "200\r\n");
    let (_, came, ip) = becomes(run, "i4", answer);
    assert!(came.starts_with("o6 [64:ff9b::c000:201]:"), "{came}");
    assert_eq!(ip[48..52], (100 + eprt.len() as u32).to_be_bytes());
}
