// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor trace` at elements that hold packets or make others of them, with files, and while another configuration comes.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::following::{changes, end, handlers, outputs, path, steps, wait};
use crate::router::{Running, SOURCE};

/// A source of one packet of these bytes.
fn once(name: &str, bytes: &str) -> String {
    format!("{name} :: RatedSource(DATA \\<{bytes}>, RATE 100000, LIMIT 1)")
}

fn tried(router: &Running, at: &str, packet: &str) -> Value {
    router.trace(&["--at", at, "--packet", packet]).remove(0)
}

/// The bytes of a packet, and of others made of it, as they came to an element.
fn came<'a>(packet: &'a Value, element: &str) -> Vec<&'a str> {
    let all = steps(packet).iter().filter(|s| s["element"] == element && s["event"] == "input");
    all.map(|s| s["state"]["bytes"].as_str().unwrap()).collect()
}

#[test]
fn fragmenters_say_what_they_make() {
    let router = Running::start(
        "Idle -> f :: IPFragmenter(100, true) -> d :: Discard; f[1] -> big :: Discard;
         Idle -> f6 :: IP6Fragmenter(1280, LOCAL true) -> d6 :: Discard;",
        &["-j", "2"],
    );
    let before = handlers(&router);
    let long = tried(&router, "f", "ip 10.0.0.2 > 10.0.0.9 id 7 / udp 1 > 2 / payload 300");
    let pieces = came(&long, "d");
    // 20 bytes of header and up to 80 of data each; where each begins in units of 8 bytes, and whether more come.
    let heads: Vec<&str> = pieces.iter().map(|piece| &piece[4..16]).collect();
    assert_eq!(heads, ["006400072000", "00640007200a", "006400072014", "00580007001e"]);
    assert_eq!(outputs(&long, "f"), [0; 4]);
    // They are cut out of it, and nothing of what it carries has changed.
    let cut = |packet: &Value| -> Vec<Value> {
        let all = steps(packet).iter().flat_map(|step| step["changes"].as_array().unwrap());
        let behind = |c: &Value| !c["field"].as_str().is_some_and(|f| f.starts_with("ip"));
        all.filter(|c| behind(c)).cloned().collect()
    };
    let bounds = [(0, 80), (80, 160), (160, 240), (240, 308)];
    let pieces = bounds.map(|(begin, end)| json!({ "fragment": { "begin": begin, "end": end } }));
    assert_eq!(cut(&long), pieces);
    let short = tried(&router, "f", "ip 10.0.0.2 > 10.0.0.9 / udp 1 > 2 / payload 3");
    assert_eq!((path(&short), end(&short)), (vec!["f", "d"], ("dropped", "discarded")));
    let must_not = tried(&router, "f", "ip 10.0.0.2 > 10.0.0.9 df / udp 1 > 2 / payload 300");
    assert_eq!((path(&must_not), outputs(&must_not, "f")), (vec!["f", "big"], vec![1]));
    let long = tried(&router, "f6", "ip6 2001:db8::1 > 2001:db8::2 / udp 1 > 2 / payload 2000");
    let added = changes(&long, "f6");
    assert!(
        added.contains(&("ipv6.fraghdr.offset", "0")) && added.contains(&("ipv6.nxt", "44")),
        "{added:?}"
    );
    assert_eq!(outputs(&long, "f6"), [0, 0]);
    assert_eq!(before, handlers(&router));
}

#[test]
fn reassemblers_say_what_they_would_hold_and_complete() {
    let first = "45000024 00072000 401146bc 0a000002 0a000009 0001000200180000 0001020304050607";
    let first6 = "6000000000182c4020010db800000000000000000000000120010db8000000000000000000000002 1100000100000007 0001000200180000 0001020304050607";
    let text = format!(
        "{} -> CheckIPHeader(CHECKSUM false) -> r :: IPReassembler -> d :: Discard;
         {} -> CheckIP6Header -> r6 :: IP6Reassembler -> d6 :: Discard;",
        once("s", first),
        once("s6", first6)
    );
    let router = Running::start(&text, &["-j", "2"]);
    wait(&router, "s.count", "1");
    wait(&router, "s6.count", "1");
    let holds = |handler: &str| router.ask(&["ctl", handler]).0.contains("(0,16)");
    while !holds("r.dump") || !holds("r6.dump") {
        std::thread::yield_now();
    }
    let before = handlers(&router);
    for _ in 0..2 {
        // A packet of which no fragment is there.
        let other = tried(&router, "r", "ip 10.0.0.2 > 10.0.0.9 id 8 mf proto 17 / payload 32");
        assert_eq!((path(&other), end(&other).0), (vec!["r"], "held"));
        assert_eq!(steps(&other)[1]["note"], "until the other fragments of its packet have come");
        // One of which the first is there, and still others are missing.
        let third = tried(&router, "r", "ip 10.0.0.2 > 10.0.0.9 id 7 offset 24 proto 17 / payload 8");
        assert_eq!(end(&third).0, "held");
        // The last one missing.
        let second = tried(&router, "r", "ip 10.0.0.2 > 10.0.0.9 id 7 offset 16 proto 17 / hex aabb");
        let whole = came(&second, "d");
        assert_eq!(whole.len(), 1, "{second}");
        assert!(
            whole[0].starts_with("4500002600070000") && whole[0].ends_with("0001020304050607aabb"),
            "{whole:?}"
        );
        // Impossible ones, and such as are none.
        let bad = tried(&router, "r", "ip 10.0.0.2 > 10.0.0.9 id 9 mf proto 17 / payload 9");
        assert_eq!(end(&bad), ("dropped", "bad-fragment"));
        let none = tried(&router, "r", "ip 10.0.0.2 > 10.0.0.9 / udp 1 > 2");
        assert_eq!(path(&none), ["r", "d"]);

        let v6 = |id: &str, rest: &str| {
            tried(&router, "r6", &format!("ip6 2001:db8::1 > 2001:db8::2 proto 44 / hex {id} / {rest}"))
        };
        assert_eq!(end(&v6("1100000100000008", "udp 1 > 2 / payload 16")).0, "held");
        assert_eq!(end(&v6("1100002000000007", "payload 8")).0, "held");
        let second = v6("1100001000000007", "hex aabb");
        let whole = came(&second, "d6");
        assert!(whole.len() == 1 && whole[0].ends_with("0001020304050607aabb"), "{second}");
        assert_eq!(&whole[0][..16], "6000000000121140", "{whole:?}");
        assert_eq!(end(&v6("1100000900000007", "hex aabbccdd")), ("dropped", "bad-fragment"));
        let atomic = v6("1100000000000009", "udp 1 > 2");
        assert_eq!(path(&atomic), ["r6", "d6"]);
        let none = tried(&router, "r6", "ip6 2001:db8::1 > 2001:db8::2 / udp 1 > 2");
        assert_eq!(path(&none), ["r6", "d6"]);
    }
    assert_eq!(before, handlers(&router));
}

#[test]
fn a_real_fragment_is_held_and_told_so() {
    // Each is one of a packet of its own.
    let fragment = SOURCE.replace("00010000 4011", "00012000 4011");
    let fragment = fragment.replace("4500001e", "4500001c").replace("RATE 1000", "RATE 50");
    let text = format!(
        "{fragment} -> Strip(14) -> MarkIPHeader -> SetRandIPAddress(10.0.0.0/8) -> StoreIPAddress(dst) -> r :: IPReassembler -> Discard;"
    );
    let router = Running::start(&text, &["-j", "1"]);
    let all = router.trace(&["--count", "1", "--at", "r"]);
    assert_eq!((all.len(), &all[0]["left"][0]), (1, &"held by r".into()), "{all:?}");
    let (out, _, status) = router.ask(&["trace", "--count", "1", "--at", "r"]);
    assert!(status == 0 && out.contains("has not ended: held by r"), "{out}");
}

#[test]
fn queriers_hold_until_the_neighbour_is_known() {
    let router = Running::start(
        "Idle -> [0]a :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1) -> d :: Discard; Idle -> [1]a;
         Idle -> [0]n :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:1) -> d6 :: Discard; Idle -> [1]n;",
        &["-j", "2"],
    );
    assert_eq!(router.ask(&["ctl", "a.insert", "10.0.0.9 2:0:0:0:0:9"]).2, 0);
    assert_eq!(router.ask(&["ctl", "n.insert", "2001:db8::9 2:0:0:0:0:9"]).2, 0);
    // All but the neighbours' ages.
    let lasting = |router: &Running| {
        let aged = |name: &str| name.ends_with(".table") || name.ends_with(".states");
        handlers(router).into_iter().filter(|(name, _)| !aged(name)).collect::<Vec<_>>()
    };
    let before = lasting(&router);
    for (at, known, unknown, sink) in [
        ("a:0", "ip 10.0.0.1 > 10.0.0.9 / udp 1 > 2", "ip 10.0.0.1 > 10.0.0.8 / udp 1 > 2", "d"),
        (
            "n:0",
            "ip6 2001:db8::1 > 2001:db8::9 / udp 1 > 2",
            "ip6 2001:db8::1 > 2001:db8::8 / udp 1 > 2",
            "d6",
        ),
    ] {
        let sent = tried(&router, at, known);
        let frame = came(&sent, sink);
        assert!(frame.len() == 1 && frame[0].starts_with("020000000009020000000001"), "{sent}");
        let held = tried(&router, at, unknown);
        assert_eq!((steps(&held).len(), end(&held).0), (2, "held"), "{held}");
        assert!(steps(&held)[1]["note"].as_str().unwrap().contains("link address"), "{held}");
    }
    assert_eq!(before, lasting(&router));
}

#[test]
fn packets_of_version_6_go_where_the_table_says() {
    let router = Running::start(
        "Idle -> c :: CheckIP6Header -> rt :: LookupIP6Route(2001:db8:1::/48 0, 2001:db8:2::/48 ::7 1) -> h :: DecIP6HLIM -> d :: Discard;
         rt[1] -> e :: Discard; h[1] -> ICMP6Error(2001:db8::1, timeexceeded) -> err :: Discard;",
        &["-j", "1"],
    );
    let before = handlers(&router);
    let to = |to: &str, hops: u8| {
        tried(&router, "c", &format!("ip6 2001:db8:9::1 > {to} hlim {hops} / tcp 1 > 2 flags S"))
    };
    let there = to("2001:db8:1::5", 9);
    assert_eq!((path(&there), changes(&there, "h")), (vec!["c", "rt", "h", "d"], vec![("ipv6.hlim", "8")]));
    let other = to("2001:db8:2::5", 9);
    assert_eq!(path(&other), ["c", "rt", "e"]);
    assert!(
        changes(&other, "rt").iter().any(|(name, value)| *name == "anno.dst_ip" && *value == "::7"),
        "{other}"
    );
    assert_eq!(end(&to("2001:db8:3::5", 9)), ("dropped", "no-route"));
    let late = to("2001:db8:1::5", 1);
    assert!(path(&late).contains(&"err"), "{late}");
    assert_eq!(before, handlers(&router));
}

/// A capture file of packets that begin with IP, with these times to live.
fn pcap(ttls: impl Iterator<Item = u8>) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|n| n.to_ne_bytes()).collect::<Vec<u8>>();
    let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 101]);
    for ttl in ttls {
        let line = format!("ip 10.0.0.1 > 10.0.0.9 ttl {ttl} / udp {ttl} > 53");
        let packet = wire::compose::compose(&line).unwrap().bytes;
        let len = packet.len() as u32;
        bytes.extend(words(&[0, 0, len, len]));
        bytes.extend(packet);
    }
    bytes
}

#[test]
fn each_packet_of_a_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("three.pcap");
    let bytes = pcap(1..=3);
    std::fs::write(&file, &bytes).unwrap();
    let router = Running::start(
        "Idle -> c :: CheckIPHeader -> h :: DecIPTTL -> d :: Discard; h[1] -> late :: Discard;",
        &["-j", "1"],
    );
    let all = router.trace(&["--at", "c", "--pcap", file.to_str().unwrap()]);
    let numbers: Vec<_> = all.iter().map(|p| p["packet"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let ways: Vec<_> = all.iter().map(|p| *path(p).last().unwrap()).collect();
    assert_eq!(ways, ["late", "d", "d"]);
    let (out, ..) = router.ask(&["trace", "--at", "c", "--pcap", file.to_str().unwrap()]);
    assert!((1..=3).all(|n| out.contains(&format!("packet {n}, tried"))), "{out}");
    let of_file = |bytes: &[u8], args: &[&str]| {
        std::fs::write(&file, bytes).unwrap();
        let (out, why, status) =
            router.ask(&[&["trace", "--at", "c", "--pcap", file.to_str().unwrap()], args].concat());
        (out.matches(", tried").count(), why, status)
    };
    let (tried, why, status) = of_file(&bytes, &["--count", "2"]);
    assert!(tried == 2 && status == 0 && why.contains("2 packets tried"), "{tried} {status} {why}");
    // A file that ends in a packet says so, after what is whole of it.
    let (tried, why, status) = of_file(&bytes[..bytes.len() - 3], &[]);
    assert!(tried == 2 && status == 1 && why.contains("2 packets tried"), "{tried} {status} {why}");
    assert!(why.contains("three.pcap: truncated"), "{why}");
    let (tried, why, status) = of_file(&bytes[..40], &[]);
    assert!(tried == 0 && status == 2 && why.contains("three.pcap: truncated"), "{tried} {status} {why}");
    let (tried, why, status) = of_file(&bytes[..24], &[]);
    assert!(tried == 0 && status == 1 && why.contains("it has no packets"), "{tried} {status} {why}");
    // Files may be long.
    let (tried, why, status) = of_file(&pcap((0..1200).map(|n| 2 + (n % 200) as u8)), &[]);
    assert!(tried == 1200 && status == 0, "{tried} {status} {why}");
}

#[test]
fn another_configuration_does_not_end_a_trace_silently() {
    let slow = SOURCE.replace("RATE 1000", "RATE 50");
    let text = |class: &str| format!("{slow} -> n :: {class} -> d :: Discard;");
    let router = Running::start(&text("Null"), &["-j", "2", "-R"]);
    let trace = |at: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_junctor"))
            .args(["trace", "--socket", router.socket().to_str().unwrap(), "--count", "1000000", "--json"])
            .args(at)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    use std::io::{BufRead as _, BufReader};
    let mut child = trace(&["--at", "n"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let class = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["steps"][0]["class"].clone();
    assert_eq!(class(&lines.next().unwrap()), "Null");
    // One where the element is another: the trace says so and goes on.
    assert_eq!(router.ask(&["ctl", "hotconfig", &text("Counter")]).2, 0);
    assert!(lines.by_ref().any(|line| class(&line) == "Counter"));
    // One without it: the trace ends, and says why.
    assert_eq!(router.ask(&["ctl", "hotconfig", &format!("{slow} -> d :: Discard;")]).2, 0);
    lines.for_each(drop);
    let output = child.wait_with_output().unwrap();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("another configuration has come (hot swap)"), "{why}");
    assert!(why.contains("no element 'n'") && why.contains("packets followed"), "{why}");
}
