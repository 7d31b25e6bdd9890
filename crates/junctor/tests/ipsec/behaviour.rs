// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is more than packets there and back: replays, wrong keys, traffic classes, packets that do not fit, fragments, dummies, new keys.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testbed::rig::{skip_without, wait_for};

use crate::cases::{Algorithm, CBC, Case, Four, GATEWAY, GCM, HOST, In, LINUX, OTHERS, Out, Shape, Six};
use crate::site::{PATIENCE, Site};

const TUNNEL: Shape = Shape::tunnel(Four, Four);
const WAY: &str = "way/s.switch";
const BACK: &str = "back/s.switch";

/// Waits until a counter of Junctor's and one of Linux' have grown from what they were by so much.
fn wait_for_counts(site: &mut Site, before: [u64; 2], (reason, name): (&str, &str), more: [u64; 2]) {
    let wanted = [before[0] + more[0], before[1] + more[1]];
    let mut found = before;
    let waited = wait_for("counters", PATIENCE, || {
        found = [site.drops("dec", reason), site.xfrm_stat(name)];
        found[0] >= wanted[0] && found[1] >= wanted[1]
    });
    waited.unwrap_or_else(|why| panic!("{why}: {reason} and {name} are {found:?}, not {wanted:?}"));
    assert_eq!(found, wanted, "{reason} and {name}");
}

/// Each packet comes twice: both sides drop the second.
pub fn replays(site: &mut Site, spi: u32) {
    let counters = ("replayed", "XfrmInStateSeqError");
    for (n, words) in ["", "replay-window 128 flag esn"].into_iter().enumerate() {
        let case = Case { words, ..Case::new(&GCM, TUNNEL, spi + 2 * n as u32) };
        site.set(&case, "");
        let before = [site.drops("dec", counters.0), site.xfrm_stat(counters.1)];
        for handler in [WAY, BACK] {
            site.write(handler, "1");
        }
        for _ in 0..5 {
            site.echo(&case, 100);
        }
        for handler in [WAY, BACK] {
            site.write(handler, "0");
        }
        wait_for_counts(site, before, counters, [5, 5]);
        assert!(site.read(&format!("db.sas {}", case.id(In))).contains("replayed 5 "));
    }
}

/// Both sides have other keys: neither takes what the other sends, and each says why.
pub fn wrong_keys(site: &mut Site, spi: u32) {
    let counters = ("bad-icv", "XfrmInStateProtoError");
    for (n, algorithm) in [&GCM, &CBC, &OTHERS[7]].into_iter().enumerate() {
        let case = Case::new(algorithm, TUNNEL, spi + 2 * n as u32);
        site.set(&case, "");
        site.set_ours(&Case { seed: 2, ..case.clone() });
        let before = [site.drops("dec", counters.0), site.xfrm_stat(counters.1)];
        site.send(&case, 100);
        site.attempt(&format!("ping -n -c 1 -W 0.1 -I {} {}", case.target(), case.host()));
        wait_for_counts(site, before, counters, [1, 1]);
        site.set_ours(&case);
        site.echo(&case, 100);
    }
}

/// What a ping with a traffic class shows: of Junctor's outer header, of that of Linux, and of what Junctor unpacked.
fn classes(site: &mut Site, case: &Case<'_>, class: u8) -> Option<[u8; 3]> {
    let (_, came) = site.ping(&format!("-c 1 -W 1 -Q {class:#x} {}", case.target()));
    let files = ["sent.pcap", "got.pcap", "opened.pcap"];
    came.then(|| files.map(|file| site.captured(file).last().unwrap()[1]))
}

/// DSCP and ECN between outer and inner headers (RFC 2983, RFC 6040).
pub fn traffic_classes(site: &mut Site, spi: u32) {
    const CE: &str = "2";
    const OTHER: &str = "3";
    let base = Case::new(&GCM, TUNNEL, spi);
    let both = |words| Case { words, ..base.clone() };
    let linux = Case { theirs: ["decap-dscp"; 2].map(|_| "flag decap-dscp"), ..base.clone() };
    let ours = Case { ours: ["flag decap-dscp"; 2], ..base.clone() };
    // What a test does to packets from Linux and to it, the ping's class, what is seen.
    let table = [
        ("as they are", base.clone(), ["0", "0"], 0xb9, Some([0xb9, 0xb9, 0xb9])),
        ("congestion on the way in", base.clone(), [CE, "0"], 0xba, Some([0xba, 0xba, 0xbb])),
        ("congestion at both", base.clone(), ["0", CE], 0xba, Some([0xbb, 0xba, 0xbb])),
        ("congestion that the sender does not know", base.clone(), [CE, "0"], 0xb8, None),
        ("no ECN", both("flag noecn"), ["0", "0"], 0xb9, Some([0xb8, 0xb8, 0xb9])),
        ("Linux takes DSCP", linux, ["0", OTHER], 0xb9, Some([0x29, 0x29, 0x29])),
        ("Junctor takes DSCP", ours, [OTHER, "0"], 0xb9, Some([0xb9, 0xb9, 0x29])),
        ("no DSCP", both("extra-flag dont-encap-dscp"), ["0", "0"], 0xb9, Some([0x01, 0x01, 0xb9])),
    ];
    for (n, (name, case, [way, back], class, wanted)) in table.into_iter().enumerate() {
        let case = Case { spi: spi + 2 * n as u32, ..case };
        site.set(&case, "");
        site.write(WAY, way);
        site.write(BACK, back);
        let lost = site.drops("dec", "ecn-lost");
        assert_eq!(classes(site, &case, class), wanted, "{name}");
        for handler in [WAY, BACK] {
            site.write(handler, "0");
        }
        assert_eq!(site.drops("dec", "ecn-lost") - lost, u64::from(wanted.is_none()), "{name}");
    }
}

/// The MTU that a ping reports.
pub fn reported(text: &str) -> Option<usize> {
    let at = text.split_once("mtu")?.1.trim_start_matches([' ', '=', ':']);
    at.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A command that prints the longest packet that Linux sends by this case's association.
pub fn fitting(case: &Case<'_>) -> String {
    let (family, level, option) = if case.shape.inner == Four { (2, 0, 14) } else { (10, 41, 24) };
    let (from, to) = (case.target(), case.host());
    format!(
        "python3 -c 'import socket; s = socket.socket({family}, 2); s.bind((\"{from}\", 0)); s.connect((\"{to}\", 9)); print(s.getsockopt({level}, {option}))'"
    )
}

/// Packets that do not fit: Junctor's message names the same length as Linux finds for its own packets. A packet of that length passes.
pub fn path_mtu(site: &mut Site, spi: u32) {
    let tunnels = [TUNNEL, TUNNEL.by_udp(), Shape::tunnel(Six, Four), Shape::tunnel(Four, Six)];
    let shapes = tunnels.into_iter().chain([Shape::transport(Four), Shape::transport(Six)]);
    let common: [&Algorithm; 2] = [&GCM, &CBC];
    let rare = [&OTHERS[12], &OTHERS[16]].map(|algorithm| (TUNNEL, algorithm));
    let all = shapes.flat_map(|shape| common.map(|algorithm| (shape, algorithm))).chain(rare);
    for (n, (shape, algorithm)) in all.enumerate() {
        let case = Case::new(algorithm, shape, spi + 2 * n as u32);
        let headers = if shape.inner == Four { 28 } else { 48 };
        let target = case.target();
        let most = 1500 - headers;
        let theirs = site.set(&case, &fitting(&case));
        let theirs: usize = theirs.trim().parse().unwrap_or_else(|_| panic!("{}: {theirs}", case.name()));
        site.host.ip("route flush cache").unwrap();
        site.host.ip("-6 route flush cache").unwrap();
        let (text, came) = site.ping(&format!("-c 1 -W 30 -M do -s {most} {target}"));
        assert!(!came, "{}: {text}", case.name());
        let ours = reported(&text).unwrap_or_else(|| panic!("{}: {text}", case.name()));
        assert_eq!(ours, theirs, "{}: what Junctor says fits, and what Linux says", case.name());
        let (text, came) = site.ping(&format!("-c 1 -W 30 -M do -s {} {target}", ours - headers));
        assert!(came, "{}: {text}", case.name());
    }
}

/// Fragments within tunnels, and fragments of ESP packets.
pub fn fragments(site: &mut Site, spi: u32) {
    let joined = |site: &mut Site| site.read("joined4.joined").trim().parse::<u64>().unwrap();
    for (n, shape) in [TUNNEL, TUNNEL.by_udp()].into_iter().enumerate() {
        let case = Case::new(&GCM, shape, spi + 2 * n as u32);
        site.set(&case, "");
        for size in [1472, 3000] {
            let (text, came) = site.ping(&format!("-c 1 -W 30 -M dont -s {size} {}", case.target()));
            assert!(came, "{}: {text}", case.name());
        }
    }
    for (n, shape) in [Shape::transport(Four), Shape::transport(Four).by_udp()].into_iter().enumerate() {
        let case = Case::new(&CBC, shape, spi + 4 + 2 * n as u32);
        let before = joined(site);
        site.write("whole.switch", "1");
        let (from, to) = (case.target(), case.host());
        site.set(&case, &format!("ping -n -q -c 2 -i 0.01 -W 30 -M dont -s 3000 -I {from} {to}\n"));
        site.write("whole.switch", "0");
        assert!(joined(site) > before, "{}: Linux' ESP packets came in fragments", case.name());
    }
}

/// Packets that are too long for a tunnel. The host hears the length that Linux finds for its own packets, and that length passes; what may be fragmented arrives whole.
pub fn long_packets(site: &mut Site, spi: u32) {
    let tunnels = [(Four, Four), (Four, Six), (Six, Four), (Six, Six)];
    let shapes = tunnels.into_iter().flat_map(|(inner, outer)| {
        let shape = Shape::tunnel(inner, outer);
        [shape, shape.by_udp()]
    });
    for (n, shape) in shapes.enumerate() {
        let case = Case::new(&GCM, shape, spi + 2 * n as u32);
        let headers = if shape.inner == Four { 28 } else { 48 };
        let theirs = site.set(&case, &fitting(&case));
        let theirs: usize = theirs.trim().parse().unwrap_or_else(|_| panic!("{}: {theirs}", case.name()));
        let forget = |site: &Site| {
            site.host.ip("route flush cache").unwrap();
            site.host.ip("-6 route flush cache").unwrap();
        };
        let ping = |site: &Site, may: &str, payload: usize| {
            site.ping(&format!("-c 1 -W 30 -M {may} -s {payload} {}", case.target()))
        };
        forget(site);
        let (text, came) = ping(site, "do", 1500 - headers);
        assert!(!came, "{}: {text}", case.name());
        let ours = reported(&text).unwrap_or_else(|| panic!("{}: {text}", case.name()));
        assert_eq!(ours, theirs, "{}: what Junctor says fits, and what Linux says", case.name());
        let (text, came) = ping(site, "do", ours - headers);
        assert!(came, "{}: {text}", case.name());
        for payload in [1500 - headers, 3000] {
            if shape.inner == Four {
                forget(site);
            }
            // A host that knows the path makes fragments that fit, of IPv6 the only one that may.
            let (text, came) = ping(site, "dont", payload);
            assert!(came, "{} {payload}: {text}", case.name());
        }
    }
}

/// Packets that are longer than they need to be, and packets that are nothing.
pub fn disguises(site: &mut Site, spi: u32) {
    let case = Case { ours: ["tfcpad 1000", ""], ..Case::new(&GCM, TUNNEL, spi) };
    site.set(&case, "");
    let lens = |site: &mut Site, case: &Case<'_>, sizes: [usize; 3]| {
        sizes.map(|size| {
            site.echo(case, size);
            site.captured("sent.pcap").pop().unwrap().len()
        })
    };
    let [empty, short, long] = lens(site, &case, [0, 500, 1400]);
    assert!(empty == short && empty > 1000 && long > 1400, "{empty} {short} {long}");
    // As much as the path takes: no packet is fragmented, and all are of one length.
    let case = Case { ours: ["tfcpad 65535", ""], ..Case::new(&GCM, TUNNEL.by_udp(), spi + 4) };
    site.set(&case, "");
    assert_eq!(lens(site, &case, [0, 500, 1400]), [1500; 3]);
    let case = Case::new(&GCM, Shape::transport(Six), spi + 2);
    let script =
        |to: &str| format!("import socket; socket.socket(10, 3, 59).sendto(bytes(100), ('{to}', 0))");
    let before = site.drops("dec", "esp-dummy");
    site.set(&case, &format!("echo \"{}\" > /run/dummy; python3 /run/dummy\n", script(case.host())));
    wait_for("a dummy", PATIENCE, || site.drops("dec", "esp-dummy") == before + 1).unwrap();
    site.host.run(&["python3", "-c", &script(case.target())]).unwrap();
    site.echo(&case, 100);
    let theirs = site.in_linux("ip -s xfrm state");
    let [out, come] = site.carried(&case, &theirs);
    // Neither counts dummies that it receives.
    assert_eq!(out.map(|carried| carried.packets), [2, 1]);
    assert_eq!(come.map(|carried| carried.packets), [1, 2]);
}

/// Packets that are nothing fill associations up. Linux drops them without a word of wrong keys, numbers or policies: all others pass. It counts each as an error of the state's protocol,
/// as `esp_input_done2` returns an error for them.
pub fn dummies(site: &mut Site, spi: u32) {
    const DROPPED: &str = "XfrmInStateProtoError";
    let others = |site: &mut Site| {
        let text = site.in_linux("cat /proc/net/xfrm_stat");
        text.lines().filter(|line| !line.contains(DROPPED)).collect::<Vec<_>>().join("\n")
    };
    let shapes =
        [TUNNEL, TUNNEL.by_udp(), Shape::tunnel(Four, Six), Shape::transport(Four), Shape::transport(Six)];
    let all = shapes.map(|shape| (shape, &GCM)).into_iter().chain([(TUNNEL, &CBC), (TUNNEL, &OTHERS[7])]);
    for (n, (shape, algorithm)) in all.enumerate() {
        let case = Case { ours: ["dummies 500", ""], ..Case::new(algorithm, shape, spi + 2 * n as u32) };
        let quiet = Case { ours: [""; 2], ..case.clone() };
        let before = (site.xfrm_stat(DROPPED), others(site));
        // Linux has its associations before dummies come.
        site.set(&quiet, "");
        site.write("db.update_sa", &case.our_sa(Out));
        let sent = |site: &mut Site| {
            let sas = site.read(&format!("db.sas {}", case.id(Out)));
            let carried = sas.lines().find(|line| line.starts_with('\t')).unwrap();
            let dummies = carried.split_once(" dummies ").map_or("0", |(_, rest)| rest);
            dummies.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        for size in [0, 500, 1300] {
            site.echo(&case, size);
        }
        wait_for("dummies", PATIENCE, || sent(site) > 50).unwrap();
        // The same key, and no more of them.
        site.write("db.update_sa", &quiet.our_sa(Out));
        site.echo(&case, 100);
        let sent = sent(site);
        wait_for("Linux' count", PATIENCE, || site.xfrm_stat(DROPPED) - before.0 >= sent).unwrap();
        assert_eq!(site.xfrm_stat(DROPPED) - before.0, sent, "{}", case.name());
        assert_eq!(others(site), before.1, "{}", case.name());
        let theirs = site.in_linux("ip -s xfrm state");
        assert!(theirs.matches("replay-window 0 replay 0 failed 0").count() == 2, "{theirs}");
        let [[ours, theirs], _] = site.carried(&case, &theirs);
        assert_eq!(ours.packets, theirs.packets + sent, "{}", case.name());
    }
}

/// Extended sequence numbers across 2^32.
pub fn long_numbers(site: &mut Site, spi: u32, exchange: fn(&mut Site, &Case<'_>)) {
    let words = "replay-window 128 flag esn";
    let far = Case {
        words,
        ours: ["progress 4294967290 0 0x", "progress 0 4294967290 0xffffffffffffffffffffffffffffffff"],
        theirs: ["replay-seq 0xfffffffa", "replay-oseq 0xfffffffa"],
        ..Case::new(&GCM, TUNNEL, spi)
    };
    let later = Case {
        ours: ["progress 21474836475 0 0x", "progress 0 21474836475 0xffffffffffffffffffffffffffffffff"],
        theirs: ["replay-seq 0xfffffffb replay-seq-hi 4", "replay-oseq 0xfffffffb replay-oseq-hi 4"],
        spi: spi + 2,
        ..far.clone()
    };
    let chained = Case { algorithm: &CBC, spi: spi + 4, ..far.clone() };
    let bare = Case { words, ..Case::new(&CBC, Shape::transport(Six), spi + 6) };
    for case in [&far, &later, &chained, &bare] {
        exchange(site, case);
    }
    assert_eq!(site.drops("dec", "outside-window"), 0);
}

/// What became of a steady flow of packets.
struct Flow {
    sent: u32,
    came: BTreeSet<u32>,
}

/// Sends a numbered packet every 2 ms until it is time to stop, then waits for the echoes of all.
fn steady(socket: &UdpSocket, target: &str, stop: &AtomicBool) -> Flow {
    let mut flow = Flow { sent: 0, came: BTreeSet::new() };
    let mut buffer = [0; 100];
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let mut end = None;
    while end.is_none_or(|end| flow.came.len() < flow.sent as usize && Instant::now() < end) {
        if end.is_none() {
            socket.send_to(&flow.sent.to_be_bytes(), (target, 7)).unwrap();
            flow.sent += 1;
            end = stop.load(Ordering::Acquire).then(|| Instant::now() + Duration::from_secs(10));
        }
        while let Ok(4) = socket.recv(&mut buffer) {
            flow.came.extend(buffer.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)));
        }
    }
    flow
}

/// New keys under traffic: no packet is lost.
pub fn new_keys(site: &mut Site, spi: u32) {
    let old = Case::new(&GCM, TUNNEL, spi);
    site.set(&old, "");
    let socket = site.host.enter(|| UdpSocket::bind((HOST[0], 0))).unwrap().unwrap();
    let stop = AtomicBool::new(false);
    let flow = thread::scope(|scope| {
        let flow = scope.spawn(|| steady(&socket, old.target(), &stop));
        let mut old = old.clone();
        for round in 1..4 {
            let new = Case {
                algorithm: if round == 2 { &CBC } else { &GCM },
                spi: spi + 2 * round,
                seed: 1 + round as u8,
                ..old.clone()
            };
            replace(site, &old, &new);
            old = new;
        }
        stop.store(true, Ordering::Release);
        flow.join().unwrap()
    });
    assert_eq!(flow.came.len(), flow.sent as usize, "packets while keys changed");
}

/// As key daemons do: first both sides can open, then both send, then the old ones end.
fn replace(site: &mut Site, old: &Case<'_>, new: &Case<'_>) {
    let carries = |site: &mut Site, way| {
        let theirs = site.in_linux("ip -s xfrm state");
        let [out, come] = site.carried(new, &theirs);
        let [ours, theirs] = if way == Out { out } else { come };
        ours.packets.min(theirs.packets) > 10
    };
    let delete = |way| {
        let src = if way == Out { "192.0.2.1" } else { "192.0.2.2" };
        format!(
            "ip xfrm state delete src {src} {} proto esp\n",
            old.id(way).replace(" spi", " proto esp spi")
        )
        .replace(" proto esp\n", "\n")
    };
    site.write("db.add_sa", &new.our_sa(In));
    site.in_linux(&new.their_sa(Out));
    site.write("db.add_sa", &new.our_sa(Out));
    site.in_linux(&(new.their_sa(In) + &delete(In)));
    site.write("db.delete_sa", &old.id(Out));
    wait_for("packets by new keys", PATIENCE, || carries(site, Out) && carries(site, In)).unwrap();
    site.write("db.delete_sa", &old.id(In));
    site.in_linux(&delete(Out));
    wait_for("packets by new keys alone", PATIENCE, || carries(site, Out)).unwrap();
}

/// A third implementation reads what Junctor has sent: the pings of these cases, of GCM and of CBC.
pub fn seen_by_tshark(site: &Site, gcm: &Case<'_>, cbc: &Case<'_>) {
    if skip_without("what tshark decrypts", &["tshark"]) {
        return;
    }
    let keys = |case: &Case<'_>, cipher: &str, key: String, auth: &str, auth_key: &str| {
        let spi = format!("{:#x}", case.spi);
        let words = ["IPv4", GATEWAY[0], LINUX[0], &spi, cipher, &key, auth, auth_key];
        format!("uat:esp_sa:{}", words.map(|word| format!("\"{word}\"")).join(","))
    };
    let gcm_keys = keys(gcm, "AES-GCM with 16 octet ICV [RFC4106]", gcm.key(Out, 20), "NULL", "");
    let auth = "HMAC-SHA-256-128 [RFC4868]";
    let cbc_keys = keys(cbc, "AES-CBC [RFC3602]", cbc.key(Out, 16), auth, &cbc.key(Out, 32));
    let filter = format!("esp.spi == {:#x} || esp.spi == {:#x}", gcm.spi, cbc.spi);
    let options =
        ["esp.enable_encryption_decode:TRUE", "esp.enable_authentication_check:TRUE", &gcm_keys, &cbc_keys];
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", &site.path("sent.pcap"), "-Y", &filter]);
    for option in options {
        command.args(["-o", option]);
    }
    command.args([
        "-T",
        "fields",
        "-e",
        "esp.spi",
        "-e",
        "icmp.type",
        "-e",
        "udp.dstport",
        "-e",
        "esp.icv_good",
    ]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let fields = |line: &str| line.replace("\tTrue", "\t1");
    for case in [gcm, cbc] {
        for inner in ["0\t", "\t7"] {
            let line = format!("{:#010x}\t{inner}\t1", case.spi);
            let count = text.lines().filter(|found| fields(found) == line).count();
            assert_eq!(count, 6, "{line} in {text}{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
