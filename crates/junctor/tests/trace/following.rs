// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets are followed through routers that run (`junctor trace`), real ones and such as are only tried.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::router::{Running, SOURCE, junctor};

pub fn steps(packet: &Value) -> &[Value] {
    packet["steps"].as_array().expect("steps")
}

/// Names of the elements that a packet came to, in order.
pub fn path(packet: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = steps(packet).iter().map(|s| s["element"].as_str().unwrap()).collect();
    names.dedup();
    names
}

/// What an element has changed: the field and its value afterwards.
pub fn changes<'a>(packet: &'a Value, element: &str) -> Vec<(&'a str, &'a str)> {
    let all = steps(packet).iter().filter(|s| s["element"] == element);
    let all = all.flat_map(|s| s["changes"].as_array().unwrap());
    all.filter_map(|c| Some((c["field"].as_str()?, c["after"].as_str()?))).collect()
}

/// How it ended.
pub fn end(packet: &Value) -> (&str, &str) {
    let last = steps(packet).last().unwrap();
    (last["event"].as_str().unwrap(), last["reason"].as_str().unwrap_or_default())
}

#[test]
fn a_real_packet_is_followed_to_its_end() {
    let text = format!(
        "{SOURCE} -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> rt :: StaticIPLookup(10.0.1.0/24 0, 0.0.0.0/0 1);
         rt[0] -> dec :: DecIPTTL -> enc :: EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:0:4) -> q :: Queue -> u :: Unqueue -> t :: Tee;
         t[0] -> paint :: Paint(3) -> a :: Discard; t[1] -> b :: Discard; rt[1] -> Discard; dec[1] -> Discard;
         StaticThreadSched(src 0, u 1);"
    );
    for options in [&["-j", "1"][..], &["-j", "2"], &["-j", "2", "--no-fuse"], &["-j", "2", "--burst", "1"]] {
        let router = Running::start(&text, options);
        let all = router.trace(&["--count", "2", "udp port 53"]);
        assert_eq!(all.len(), 2, "{options:?}");
        for packet in &all {
            let names = path(packet);
            assert_eq!(names.first(), Some(&"src"));
            for name in ["rt", "dec", "enc", "q", "u", "t", "paint", "a", "b"] {
                assert!(names.contains(&name), "{options:?}: {names:?}");
            }
            assert_eq!(changes(packet, "dec"), [("ip.ttl", "63"), ("ip.checksum", "0x66c5")]);
            assert_eq!(changes(packet, "paint"), [("anno.paint", "3")]);
            let ends = steps(packet).iter().filter(|s| s["event"] == "dropped");
            let ends: Vec<&str> = ends.map(|s| s["element"].as_str().unwrap()).collect();
            assert!(ends.len() == 2 && ends.contains(&"a") && ends.contains(&"b"), "{ends:?}");
            let workers: Vec<_> = steps(packet).iter().map(|s| s["worker"].as_u64().unwrap()).collect();
            let wanted = if options[1] == "1" { 0 } else { 1 };
            assert_eq!((workers[0], workers[workers.len() - 1]), (0, wanted), "{options:?}");
        }
        let (_, why, status) = router.ask(&["trace", "--time", "100ms", "udp port 54"]);
        assert!(status == 1 && why.contains("0 of 10 packets followed (the time is over)"), "{why}");
        // Text says the same.
        let (out, why, status) = router.ask(&["trace", "--count", "1"]);
        assert_eq!(status, 0, "{why}");
        for line in ["ip.ttl 64 -> 63", "output 0 fetched by u, input 0", "dropped, discarded"] {
            assert!(out.contains(line), "{line}: {out}");
        }
        // The packet itself is none of the copies that are made of it.
        assert!(out.contains("copy 2: output") && !out.contains("copy 1: output"), "{out}");
    }
}

#[test]
fn what_drops_a_packet_is_told() {
    let text = format!(
        "{SOURCE} -> s :: Switch(0); s[0] -> c :: CheckIPHeader(14) -> Discard; s[1] -> q :: Queue(3) -> Unqueue(ACTIVE false) -> Discard;"
    );
    let router = Running::start(&text, &["-j", "1"]);
    let good = router.trace(&["--count", "1"]);
    assert_eq!(end(&good[0]), ("dropped", "discarded"));
    assert_eq!(router.ask(&["ctl", "s.switch", "1"]).2, 0);
    // Three packets are held, the others find no room.
    let give_up = Instant::now() + Duration::from_secs(60);
    while router.ask(&["ctl", "q.length"]).0 != "3\n" {
        assert!(Instant::now() < give_up);
    }
    let full = router.trace(&["--count", "1"]);
    assert_eq!((end(&full[0]), path(&full[0])), (("dropped", "queue-full"), vec!["src", "s", "q"]));
    // A packet that is held is reported as held.
    assert_eq!(router.ask(&["ctl", "q.capacity", "4"]).2, 0);
    let held = router.trace(&["--count", "1", "--at", "q", "--time", "1s"]);
    assert!(
        held.len() == 1 && (held[0]["left"][0] == "held by q" || end(&held[0]).1 == "queue-full"),
        "{held:?}"
    );
}

/// All that read handlers of all elements say.
pub fn handlers(router: &Running) -> Vec<(String, String)> {
    let (list, ..) = router.ask(&["ctl", "list"]);
    let mut all = Vec::new();
    for element in list.lines().skip(1) {
        let (names, ..) = router.ask(&["ctl", &format!("{element}.handlers")]);
        for line in names.lines() {
            let name = line.split('\t').next().unwrap_or_default();
            // What counts time or calls, not packets.
            let asked = ["handlers", "tickets", "contention"];
            if !line.contains('r') || name.contains("cycles") || asked.contains(&name) {
                continue;
            }
            let full = format!("{element}.{name}");
            let (value, ..) = router.ask(&["ctl", "--read", &full]);
            all.push((full, value));
        }
    }
    let (drops, ..) = router.ask(&["drops", "--json"]);
    all.push(("drops".into(), drops));
    all
}

/// The route of the longest prefix, found by looking at all.
fn longest(routes: &[(Ipv4Addr, u32, usize)], address: Ipv4Addr) -> Option<usize> {
    let of = |(net, len, _): &&(Ipv4Addr, u32, usize)| {
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        address.to_bits() & mask == net.to_bits() & mask
    };
    // Of several for one prefix the first counts.
    routes.iter().rev().filter(of).max_by_key(|(_, len, _)| *len).map(|(.., output)| *output)
}

#[test]
fn a_packet_that_is_tried_goes_where_the_table_says_and_changes_nothing() {
    let mut random = fastrand::Rng::with_seed(7);
    let routes: Vec<(Ipv4Addr, u32, usize)> = (0..60)
        .map(|i| {
            let len = random.u32(8..=32);
            let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            ((random.u32(..1 << 26) + (10 << 24)) & mask, len, i % 4)
        })
        .map(|(net, len, output): (u32, u32, usize)| (Ipv4Addr::from(net), len, output))
        .collect();
    let list: Vec<String> = routes.iter().map(|(net, len, out)| format!("{net}/{len} {out}")).collect();
    let text = format!(
        "Idle -> in :: CheckIPHeader -> rt :: StaticIPLookup({});
         rt[0] -> dec :: DecIPTTL -> c :: Counter -> q :: Queue(2) -> u :: Unqueue(ACTIVE false) -> d :: Discard; rt[1] -> Discard; rt[2] -> Discard; rt[3] -> Discard;
         dec[1] -> e :: ICMPError(10.0.0.254, timeexceeded) -> Print -> Discard;",
        list.join(", ")
    );
    let router = Running::start(&text, &["-j", "1"]);
    let before = handlers(&router);
    assert!(before.len() > 60, "{}", before.len());
    let mut missing = 0;
    for _ in 0..40 {
        let (net, len, _) = routes[random.usize(..routes.len())];
        let wild = random.u32(..) & !u32::MAX.checked_shl(32 - len).unwrap_or(0);
        let to = Ipv4Addr::from(net.to_bits() | wild);
        let to = if random.u8(..4) == 0 { Ipv4Addr::from(random.u32(..1 << 26) + (10 << 24)) } else { to };
        let ttl = random.u8(1..3);
        let line = format!("ip 10.0.0.1 > {to} ttl {ttl} / udp 1000 > 53");
        let tried = router.trace(&["--at", "in", "--packet", &line]);
        let out = steps(&tried[0]).iter().find(|s| s["element"] == "rt" && s["event"] == "output");
        let out = out.map(|s| s["port"].as_u64().unwrap() as usize);
        assert_eq!(out, longest(&routes, to), "{to}");
        match out {
            None => {
                assert_eq!(end(&tried[0]), ("dropped", "no-route"));
                missing += 1;
            }
            Some(0) if ttl == 1 => assert!(path(&tried[0]).contains(&"e"), "{tried:?}"),
            Some(0) => assert_eq!(
                path(&tried[0]),
                ["in", "rt", "dec", "c", "q", "u", "d"],
                "it is said where it would go behind the queue"
            ),
            Some(_) => {}
        }
    }
    assert!(missing < 40);
    let after = handlers(&router);
    let changed: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
    assert!(changed.is_empty() && before.len() == after.len(), "{changed:?}");
}

/// Sends one packet, with the Ethernet addresses 2:0:0:0:0:2 to 2:0:0:0:0:1, or so many.
fn source(limit: u32) -> String {
    SOURCE.replace("RATE 1000", &format!("RATE 100000, LIMIT {limit}"))
}

/// Waits until a handler says so.
pub fn wait(router: &Running, handler: &str, value: &str) {
    while router.ask(&["ctl", "--read", handler]).0.trim() != value {
        std::thread::yield_now();
    }
}

/// Where a packet goes from an element that is tried with it: the outputs.
pub fn outputs(packet: &Value, element: &str) -> Vec<u64> {
    let sent = steps(packet).iter().filter(|s| s["element"] == element && s["event"] == "output");
    sent.map(|s| s["port"].as_u64().unwrap()).collect()
}

#[test]
fn a_switch_answers_by_what_it_has_learnt_and_learns_nothing() {
    let text = format!(
        "{} -> [1]es :: EtherSwitch; es[0] -> Discard; es[1] -> Discard; es[2] -> d :: Discard; Idle -> [0]es; Idle -> [2]es;",
        source(1)
    );
    let router = Running::start(&text, &["-j", "1"]);
    wait(&router, "d.count", "1");
    let before = handlers(&router);
    let rest = "ip 10.0.0.1 > 10.0.1.9 / udp 1 > 2";
    for (to, at, out) in [
        ("2:0:0:0:0:2", "es:0", vec![1]),
        ("2:0:0:0:0:2", "es:2", vec![1]),
        ("2:0:0:0:0:9", "es:0", vec![1, 2]),
        ("ff:ff:ff:ff:ff:ff", "es:1", vec![0, 2]),
    ] {
        let tried = router.trace(&["--at", at, "--packet", &format!("eth 2:0:0:0:0:7 > {to} / {rest}")]);
        assert_eq!(outputs(&tried[0], "es"), out, "{to} {at}");
    }
    let back = format!("eth 2:0:0:0:0:7 > 2:0:0:0:0:2 / {rest}");
    assert_eq!(end(&router.trace(&["--at", "es:1", "--packet", &back])[0]), ("dropped", "filtered"));
    assert_eq!(before, handlers(&router));
}

#[test]
fn random_early_detection_and_meters_answer_at_the_present_rate() {
    let packet = "ip 10.0.0.1 > 10.0.1.9 / udp 1 > 2";
    let text = format!(
        "{} -> r :: RED(1, 2, 1, GENTLE false) -> q :: Queue -> Unqueue(ACTIVE false) -> Discard;
         Idle -> r2 :: RED(1, 2, 1) -> q2 :: Queue -> Unqueue(ACTIVE false) -> Discard;
         Idle -> m :: Meter(100) -> Discard; m[1] -> Discard;",
        source(200)
    );
    let router = Running::start(&text, &["-j", "1"]);
    wait(&router, "src.count", "200");
    let before = handlers(&router);
    let full = router.trace(&["--at", "r", "--packet", packet]);
    assert_eq!((path(&full[0]), end(&full[0])), (vec!["r"], ("dropped", "early-drop")));
    let empty = router.trace(&["--at", "r2", "--packet", packet]);
    assert_eq!(path(&empty[0])[..2], ["r2", "q2"]);
    assert_eq!(outputs(&router.trace(&["--at", "m", "--packet", packet])[0], "m"), [0]);
    let after = handlers(&router);
    let changed: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
    assert!(changed.is_empty() && before.len() == after.len(), "{changed:?}");
}

#[test]
fn rewriters_answer_by_their_mappings_and_make_none() {
    for (class, flow, answer, answered) in [
        ("IPRewriter(pattern 192.168.0.1 1000-2000 - - 0 1, drop)", "1000 > 53", "53 > 1000", "ip.dst"),
        ("IPAddrRewriter(pattern 192.168.0.1 - 0 1, drop)", "7 > 8", "9 > 10", "ip.dst"),
    ] {
        let text = format!(
            "{} -> Strip(14) -> CheckIPHeader -> [0]rw :: {class}; Idle -> [1]rw; rw[0] -> c :: Counter -> Discard; rw[1] -> Discard;",
            source(1)
        );
        let router = Running::start(&text, &["-j", "1"]);
        wait(&router, "c.count", "1");
        let tried = |at: &str, packet: &str| router.trace(&["--at", at, "--packet", packet]).remove(0);
        let known = tried("rw:0", &format!("ip 10.0.0.1 > 10.0.1.9 / udp {flow}"));
        assert_eq!(outputs(&known, "rw"), [0], "{known}");
        assert!(changes(&known, "rw").contains(&("ip.src", "192.168.0.1")), "{known}");
        let back = tried("rw:1", &format!("ip 10.0.1.9 > 192.168.0.1 / udp {answer}"));
        assert_eq!(outputs(&back, "rw"), [1], "{back}");
        assert!(changes(&back, "rw").contains(&(answered, "10.0.0.1")), "{back}");
        // One that would make a mapping gets what is free, which it does not take. The only address is not.
        for _ in 0..2 {
            let new = tried("rw:0", "ip 10.0.0.77 > 10.0.1.9 / udp 1001 > 53");
            if class.starts_with("IPAddrRewriter") {
                assert_eq!(end(&new), ("dropped", "mapping-taken"), "{new}");
                continue;
            }
            assert_eq!((outputs(&new, "rw"), end(&new).1), (vec![0], "discarded"), "{new}");
            assert!(changes(&new, "rw").contains(&("ip.src", "192.168.0.1")), "{new}");
            let note = steps(&new)[1]["note"].as_str().unwrap_or_default();
            assert!(note.contains("no mapping yet") && note.contains("=> "), "{new}");
        }
        let stray = tried("rw:1", "ip 10.0.1.9 > 192.168.0.200 / udp 1 > 2");
        assert_eq!(end(&stray), ("dropped", "no-mapping"));
        assert_eq!(router.ask(&["ctl", "--read", "rw.nmappings"]).0.trim(), "1");
        assert_eq!(router.ask(&["ctl", "--read", "c.count"]).0.trim(), "1");
    }
}

#[test]
fn a_rewriter_without_a_free_place_says_so_of_a_packet_that_is_tried() {
    let class =
        "UDPRewriter(pattern 192.168.0.1 1000-2000 - - 0 1, drop, MAPPING_CAPACITY 1, GUARANTEE 9999)";
    let text = format!(
        "{} -> Strip(14) -> CheckIPHeader -> [0]rw :: {class}; Idle -> [1]rw; rw[0] -> c :: Counter -> Discard; rw[1] -> Discard;",
        source(1)
    );
    let router = Running::start(&text, &["-j", "1"]);
    wait(&router, "c.count", "1");
    let new = router.trace(&["--at", "rw:0", "--packet", "ip 10.0.0.77 > 10.0.1.9 / udp 1 > 53"]).remove(0);
    assert_eq!(end(&new), ("dropped", "mapping-table-full"), "{new}");
    assert_eq!(router.ask(&["ctl", "--read", "rw.mapping_failures"]).0.trim(), "0");
}

/// A packet that is tried at a device meets what the device's element would not take: frames for others, and what its filter refuses.
#[test]
fn a_packet_that_a_device_would_not_take_ends_there() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("a_packet_that_a_device_would_not_take_ends_there skipped: devices are root's");
        return;
    }
    // The loopback device's address is 0.
    let device = "FromDevice(lo, METHOD AF_PACKET, BPF_FILTER \"udp port 53\")";
    let router = Running::start(&format!("in :: {device} -> c :: Counter -> Discard;"), &["-j", "1"]);
    let tried = |to: &str, port: u16| {
        let packet =
            format!("eth 2:0:0:0:0:9 > {to} / ip 10.0.0.1 > 10.0.1.9 / udp 1000 > {port} / payload 4");
        router.trace(&["--at", "in", "--packet", &packet]).remove(0)
    };
    let (foreign, refused) = (tried("2:0:0:0:0:1", 53), tried("0:0:0:0:0:0", 54));
    assert_eq!((path(&foreign), end(&foreign)), (vec!["in"], ("dropped", "not-for-us")));
    assert_eq!((path(&refused), end(&refused)), (vec!["in"], ("dropped", "filtered")));
    let fields = foreign["fields"].as_array().expect("fields");
    assert!(fields.iter().any(|f| f["field"] == "eth.dst" && f["value"] == "02:00:00:00:00:01"), "{foreign}");
    for to in ["0:0:0:0:0:0", "ff:ff:ff:ff:ff:ff"] {
        assert_eq!(path(&tried(to, 53))[..2], ["in", "c"], "{to}");
    }
    // What no device of this kind brings is not tried there.
    let (out, why, status) = router.ask(&["trace", "--packet", "ip 10.0.0.1 > 10.0.1.9 / udp 1 > 53"]);
    assert!(status == 2 && out.is_empty() && why.contains("in brings Ethernet frames"), "{out}{why}");
}

/// An element that sends by a device and receives from it reports what becomes of a packet, as one that only sends does.
#[test]
fn a_packet_for_a_device_of_both_directions_is_sent() {
    let text = "Idle -> c :: Counter -> m :: MemoryPort(cable) -> Discard; MemoryPort(cable) -> Discard;";
    let router = Running::start(text, &["-j", "1"]);
    let tried = router.trace(&["--at", "c", "--packet", "ip 10.0.0.1 > 10.0.1.9 / udp 1 > 53"]).remove(0);
    assert_eq!((path(&tried), end(&tried).0), (vec!["c", "m"], "taken"), "{tried}");
    assert!(tried.to_string().contains("sent by device cable"), "{tried}");
}

/// Packets come to inputs other than the first: pushed there, or fetched.
#[test]
fn an_element_without_a_port_means_all_its_inputs() {
    let text = format!(
        "{SOURCE} -> [1]es :: EtherSwitch; Idle -> [0]es; es[1] -> Discard;
         es[0] -> Queue -> [1]rr :: RoundRobinSched; Idle -> [0]rr; rr -> Unqueue -> Discard;"
    );
    let router = Running::start(&text, &["-j", "1"]);
    for at in ["es", "es:1", "rr", "rr:1"] {
        let all = router.trace(&["--at", at, "--count", "1"]);
        assert_eq!((all.len(), end(&all[0])), (1, ("dropped", "discarded")), "{at}: {all:?}");
    }
}

#[test]
fn what_cannot_be_done_is_named() {
    let router = Running::start("Idle -> c :: CheckIPHeader -> Discard; Idle -> d :: Discard;", &["-j", "1"]);
    let packet = "ip 1.2.3.4 > 5.6.7.8";
    for (args, status, words) in [
        (&["--packet", "ip 1.2.3.4", "--at", "c"][..], 2, "expected '>'"),
        (&["--packet", packet], 2, "say by --at"),
        (&["--packet", packet, "--at", "x"], 2, "no element 'x'"),
        (&["--packet", "ip 1.2.3.4 > 5.6.7.8 frag", "--at", "c"], 2, "which has ttl N, "),
        (&["--packet", packet, "--at", "c:1"], 2, "c has inputs 0 to 0, and no 1"),
        (&["--hex", "123", "--at", "c"], 2, "half a byte"),
        (&["--pcap", "/nonexistent", "--at", "c"], 2, "/nonexistent: "),
        (&["--packet", packet, "--at", "c", "--time", "1s"], 2, "cannot be used with"),
        (&["--packet", packet, "--at", "c", "--count", "3"], 2, "cannot be used with"),
        (&["--time", "0", "--at", "c"], 2, "--time expects"),
        (&["port", "what"], 2, "port what"),
        (&["--at", "c:x"], 2, "'x' in 'c:x'"),
    ] {
        let mut all = vec!["trace"];
        all.extend(args);
        let (_, why, got) = router.ask(&all);
        assert!(got == status && why.contains(words), "{args:?}: {got}: {why}");
    }
    let (_, why, status) = {
        let socket = router.socket().to_owned();
        drop(router);
        let output = junctor(&["trace", "--socket", socket.to_str().unwrap_or_default()]);
        (String::new(), String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
    };
    assert!(status == Some(1) && why.contains("no router"), "{why}");
    assert!(!Path::new("/nonexistent").exists());
}
