// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two tunnels back to back, and what strangers may try between them.

use std::time::Duration;

use element::Reason;
use wireguard::Secret;

use crate::ipsec::database::tests::packet;
use crate::testing::{Rig, Run};

type Bytes = Vec<u8>;

fn keys() -> (Secret, Secret) {
    (Secret::new([7 << 3; 32]), Secret::new([9 << 3; 32]))
}

fn tunnel(own: &Secret, address: &str, peer: &Secret, words: &str) -> String {
    format!("WireGuard(ADDRESS {address}, PRIVATE_KEY {}, PEER \"{} {words}\")", own.reveal(), peer.public())
}

/// Side `a` knows where `b` is, and `b` learns where `a` is. What `a` sends shows at `wire`, and `w` sends to `b`.
fn pair(between: &str, words: &str) -> String {
    let (mine, theirs) = keys();
    let a = format!("endpoint 192.0.2.2:51820 allowed-ips 10.2.0.0/16,2001:db8:2::/48 {words}");
    let a = tunnel(&mine, "192.0.2.1", &theirs, &a);
    let b = tunnel(&theirs, "192.0.2.2", &mine, "allowed-ips 10.1.0.0/16,2001:db8:1::/48");
    format!(
        "i :: TestIn -> a :: {a} -> {between} t :: Tee -> wire :: TestOut; t[1] -> [1]b :: {b}; w :: TestIn -> [1]b;
        b[1] -> o0 :: TestOut; j :: TestIn -> [0]b; b[0] -> u :: Tee -> back :: TestOut; u[1] -> [1]a;
        a[1] -> o1 :: TestOut;"
    )
}

fn four(n: u8) -> Bytes {
    packet([10, 1, 0, n], [10, 2, 0, 1], 60 + usize::from(n))
}

fn packets(all: &[Bytes]) -> Vec<packet::Packet> {
    all.iter().map(|bytes| packet::Packet::copy_of(bytes).unwrap()).collect()
}

fn run(run: Run, seconds: u64) -> Run {
    run.run_for(Duration::from_secs(seconds))
}

/// The router after a handshake that a packet started.
fn shaken(text: &str) -> Run {
    let run = run(Rig::text(text).inputs(&[&four(1)]).ready(), 1);
    assert_eq!(run.drops("a"), []);
    // Initiation, a packet that carries nothing, and the one that has waited.
    assert_eq!(run.bytes("wire").iter().map(Vec::len).collect::<Vec<_>>(), [28 + 148, 28 + 32, 28 + 32 + 64]);
    assert_eq!(run.bytes("o0"), [four(1)]);
    assert_eq!(run.bytes("back").iter().map(Vec::len).collect::<Vec<_>>(), [28 + 92]);
    run
}

/// Sends packets into `a`, and returns what `a` sends.
fn sent(mut now: Run, all: &[Bytes]) -> (Run, Vec<Bytes>) {
    now.give("i", packets(all));
    now = run(now, 1);
    let wire = now.bytes("wire");
    (now, wire)
}

#[test]
fn a_packet_begins_a_handshake_and_the_next_ones_pass() {
    let (now, wire) = sent(shaken(&pair("", "")), &[four(2), four(3)]);
    assert_eq!(now.bytes("o0"), [four(2), four(3)]);
    assert_eq!(wire.iter().map(|bytes| bytes.len()).collect::<Vec<_>>(), [28 + 32 + 64, 28 + 32 + 64]);
    now.give("j", packets(&[packet([10, 2, 0, 1], [10, 1, 0, 9], 1000)]));
    let mut now = run(now, 1);
    assert_eq!(now.bytes("o1"), [packet([10, 2, 0, 1], [10, 1, 0, 9], 1000)]);
    let (mine, theirs) = keys();
    let peers = now.read("a.peers");
    let fields: Vec<&str> = peers.trim_end().split('\t').collect();
    assert_eq!(
        fields[..4],
        [&theirs.public().to_string(), "(none)", "192.0.2.2:51820", "10.2.0.0/16,2001:db8:2::/48"]
    );
    assert_eq!(fields[5..], ["1132", "468", "off"], "bytes as Linux counts them");
    assert!(now.read("b.peers").contains("\t192.0.2.1:51820\t"), "it was learned");
    assert_eq!(
        (now.read("b.public_key"), now.read("b.count"), now.read("b.port")),
        (theirs.public().to_string(), "1".into(), "51820".into())
    );
    let config = now.read("a.config");
    assert!(!config.contains(&mine.reveal()) && config.contains("***"), "{config}");
}

#[test]
fn ipv6_passes_inside_and_outside() {
    let (mine, theirs) = keys();
    let a = tunnel(&mine, "2001:db8::1", &theirs, "endpoint [2001:db8::2]:51820 allowed-ips ::/0");
    let b = tunnel(&theirs, "2001:db8::2", &mine, "allowed-ips 2001:db8:1::/48");
    let text = format!(
        "i :: TestIn -> a :: {a} -> CheckIP6Header -> [1]b :: {b}; b[1] -> o0 :: TestOut; Idle -> [0]b; b[0] -> [1]a; a[1] -> Discard;"
    );
    let mut six = vec![0; 71];
    let (src, dst) = ("2001:db8:1::7".parse().unwrap(), "2001:db8:2::7".parse().unwrap());
    let repr =
        wire::ipv6::Repr { src, dst, payload_len: 31, next_header: wire::Protocol(59), ..Default::default() };
    repr.emit(&mut six).unwrap();
    let now = run(Rig::text(&text).inputs(&[&six]).ready(), 1);
    now.give("i", packets(&[six.clone()]));
    assert_eq!(run(now, 1).bytes("o0"), [six.clone(), six]);
}

#[test]
fn repeated_bent_and_foreign_packets_are_dropped() {
    let (now, wire) = sent(shaken(&pair("", "")), &[four(2)]);
    let good = &wire[0];
    let bend = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    now.give(
        "w",
        packets(&[good.clone(), bend(28 + 4), bend(28 + 9), bend(28 + 20), good[..50].to_vec(), bend(23)]),
    );
    let now = run(now, 1);
    assert_eq!(now.bytes("o0"), [four(2)]);
    let drops = now.drops("b");
    let count = |reason| drops.iter().find(|(why, _)| *why == reason).map_or(0, |(_, count)| *count);
    assert_eq!(count(Reason::Replayed), 2, "its number has passed, whatever else is bent");
    assert_eq!(count(Reason::BadIcv), 1, "a bent counter: {drops:?}");
    assert_eq!(
        count(Reason::NoSession) + count(Reason::BadWireGuard) + count(Reason::NotForUs),
        3,
        "{drops:?}"
    );
}

#[test]
fn peers_send_from_their_own_networks_alone() {
    let strange = packet([10, 9, 0, 1], [10, 2, 0, 1], 60);
    let (now, _) = sent(shaken(&pair("", "")), &[strange, four(2)]);
    assert_eq!((now.bytes("o0"), now.drops("b")), (vec![four(2)], vec![(Reason::NotAllowed, 1)]));
    let (now, wire) = sent(now, &[packet([10, 1, 0, 1], [10, 3, 0, 1], 60)]);
    assert_eq!(wire, Vec::<Bytes>::new());
    assert_eq!(now.drops("a"), [(Reason::NoPeer, 1)]);
}

#[test]
fn a_repeated_initiation_is_refused() {
    let now = run(Rig::text(&pair("", "")).inputs(&[&four(1)]).ready(), 1);
    let first = now.bytes("wire").remove(0);
    now.give("w", packets(&[first]));
    let now = run(now, 1);
    assert_eq!(now.drops("b"), [(Reason::HandshakeRefused, 1)]);
    assert_eq!(now.bytes("back").len(), 1, "one response");
}

#[test]
fn a_peer_is_followed_by_genuine_packets_alone() {
    // The first packet behind the handshake comes from another port; its copy, from yet another one, is too late.
    let (mut now, wire) = sent(shaken(&pair("", "")), &[four(2)]);
    let mut moved = wire[0].clone();
    moved[21] ^= 4;
    now.give("w", packets(&[moved]));
    now = run(now, 1);
    assert!(now.read("b.peers").contains("\t192.0.2.1:51820\t"));
    let (mine, theirs) = keys();
    let words = "endpoint 192.0.2.2:51820 allowed-ips 10.2.0.0/16 ";
    let port = format!(
        "WireGuard(ADDRESS 192.0.2.7, PORT 7, PRIVATE_KEY {}, PEER \"{} {words}\")",
        mine.reveal(),
        theirs.public()
    );
    let old =
        tunnel(&mine, "192.0.2.1", &theirs, &format!("{words}allowed-ips 10.2.0.0/16,2001:db8:2::/48 "));
    let text =
        pair("", "").replace(&old.replace("allowed-ips 10.2.0.0/16 allowed-ips", "allowed-ips"), &port);
    assert!(text.contains("192.0.2.7"));
    now.swap(&text).unwrap();
    now.give("i", packets(&[four(3)]));
    let mut now = run(now, 1);
    assert_eq!(now.bytes("o0").last(), Some(&four(3)), "the session goes on: {:?}", now.drops("a"));
    assert!(now.read("b.peers").contains("\t192.0.2.7:7\t"), "{}", now.read("b.peers"));
}

#[test]
fn keys_change_and_end() {
    let mut now = shaken(&pair("", ""));
    // The side that began wants new keys after 120 s of use.
    (now, _) = sent(run(now, 121), &[four(2)]);
    let (mut now, wire) = sent(now, &[four(3)]);
    assert_eq!(now.bytes("o0"), [four(2), four(3)]);
    assert!(!wire.is_empty());
    // Without a packet, nothing is renewed, and 180 s later they are gone.
    now = run(now, 200);
    now.bytes("wire");
    let (now, wire) = sent(now, &[four(4)]);
    assert_eq!(wire[0].len(), 28 + 148, "a handshake comes first");
    assert_eq!(now.bytes("o0"), [four(4)]);
}

#[test]
fn a_silent_receiver_confirms_and_a_silent_peer_is_asked_anew() {
    let (now, _) = sent(shaken(&pair("", "")), &[four(2)]);
    let now = run(now, 12);
    let back: Vec<usize> = now.bytes("back").iter().map(Vec::len).collect();
    assert_eq!(back, [28 + 32], "b has received and had nothing to say for ten seconds");
    // Nothing of b's arrives any more.
    let text = pair("", "").replace("u[1] -> [1]a", "u[1] -> s :: Switch(0) -> [1]a; s[1] -> Discard");
    let mut now = shaken(&text);
    now.write("s.switch", "1").unwrap();
    let (now, _) = sent(now, &[four(2)]);
    let now = run(now, 17);
    assert!(now.bytes("wire").iter().any(|bytes| bytes.len() == 28 + 148), "it begins anew after 15 s");
}

#[test]
fn persistent_keepalives_need_no_packets() {
    let now = run(Rig::text(&pair("", "persistent-keepalive 20")).ready(), 65);
    let sizes: Vec<usize> = now.bytes("wire").iter().map(Vec::len).collect();
    assert_eq!(sizes, [28 + 148, 28 + 32, 28 + 32, 28 + 32, 28 + 32]);
}

#[test]
fn an_unanswered_initiation_is_repeated_and_given_up() {
    let text = pair("Discard; Idle ->", "");
    let now = run(Rig::text(&text).inputs(&[&four(1)]).ready(), 200);
    let sent = now.report().elements[now.index("a")].account.made;
    assert!((16..=19).contains(&sent), "{sent} attempts in 90 s");
}

#[test]
fn a_hot_swap_keeps_sessions_and_counters() {
    let (mut now, before) = sent(shaken(&pair("", "")), &[four(2)]);
    now.swap(&pair("Null ->", "")).unwrap();
    let (now, after) = sent(now, &[four(3), four(4)]);
    assert_eq!(now.bytes("o0").last(), Some(&four(4)));
    let counter = |bytes: &Bytes| u64::from_le_bytes(bytes[36..44].try_into().unwrap());
    assert_eq!(
        [&before[0], &after[0], &after[1]].map(counter),
        [2, 3, 4],
        "0 was the keepalive behind the handshake, 1 the packet that had waited for it"
    );
}

/// A tunnel whose link from `a` to `b` leads nowhere until `s.switch` is 0.
fn cut(switch: u8) -> String {
    pair(&format!("s :: Switch({switch}) ->"), "") + " s[1] -> Discard;"
}

/// A tunnel whose link is cut, and in which packets with these numbers wait.
fn waiting(numbers: std::ops::RangeInclusive<u8>) -> Run {
    let now = Rig::text(&cut(1)).ready();
    now.give("i", packets(&numbers.map(four).collect::<Vec<_>>()));
    run(now, 1)
}

fn held(now: &Run) -> usize {
    now.report().elements[now.index("a")].held
}

#[test]
fn the_latest_packets_wait_and_leave_in_their_order() {
    let most = wireguard::waiting::PER_PEER as u8;
    let mut now = waiting(1..=most + 6);
    assert_eq!((now.drops("a"), held(&now)), (vec![(Reason::HandshakeQueueFull, 6)], 64));
    now.write("s.switch", "0").unwrap();
    let now = run(now, 6);
    assert_eq!(now.bytes("o0"), (7..=most + 6).map(four).collect::<Vec<_>>());
    assert_eq!((now.drops("a"), held(&now)), (vec![(Reason::HandshakeQueueFull, 6)], 0));
}

#[test]
fn silent_peers_however_many_leave_a_place_for_others() {
    let silent = wireguard::waiting::TOTAL;
    let peer = |n: usize| {
        let mut key = [5; 32];
        key[..2].copy_from_slice(&(n as u16).to_le_bytes());
        let (key, host) = (wireguard::PublicKey(key), format!("10.9.{}.{}", n >> 8, n & 255));
        format!("PEER \"{key} endpoint 192.0.2.9:51820 allowed-ips {host}/32\", ")
    };
    let peers: String = (0..silent).map(peer).collect();
    let text = pair("", "").replace("ADDRESS 192.0.2.1, ", &format!("ADDRESS 192.0.2.1, {peers}"));
    let to = |n: usize| packet([10, 1, 0, 1], [10, 9, (n >> 8) as u8, n as u8], 60);
    let now = Rig::text(&text).ready();
    now.give("i", packets(&(0..silent).map(to).collect::<Vec<_>>()));
    now.give("i", packets(&[four(1)]));
    let now = run(now, 3);
    assert_eq!(now.bytes("o0"), [four(1)]);
    assert_eq!((now.drops("a"), held(&now)), (vec![(Reason::HandshakeQueueFull, 1)], silent - 1));
}

#[test]
fn packets_of_a_peer_that_does_not_answer_are_given_up() {
    let now = run(waiting(1..=3), 88);
    assert_eq!((now.drops("a"), held(&now)), (vec![], 3));
    let now = run(now, 2);
    assert_eq!((now.drops("a"), held(&now)), (vec![(Reason::HandshakeUnanswered, 3)], 0));
    // The next packet waits for the next attempt, though the last one was a moment ago.
    let made = |now: &Run| now.report().elements[now.index("a")].account.made;
    let before = made(&now);
    let (now, _) = sent(now, &[four(4)]);
    let now = run(now, 6);
    assert_eq!((made(&now) > before, held(&now)), (true, 1));
}

#[test]
fn packets_of_a_peer_that_is_removed_are_dropped() {
    let mut now = waiting(1..=3);
    let (_, theirs) = keys();
    now.write("a.remove_peer", &theirs.public().to_string()).unwrap();
    let now = run(now, 1);
    assert_eq!((now.drops("a"), held(&now)), (vec![(Reason::NoPeer, 3)], 0));
}

#[test]
fn a_hot_swap_keeps_packets_that_wait() {
    let mut now = waiting(1..=3);
    assert_eq!(now.swap(&cut(0)).unwrap().dropped, []);
    assert_eq!(held(&now), 3);
    let now = run(now, 6);
    assert_eq!((now.bytes("o0"), now.drops("a"), held(&now)), (vec![four(1), four(2), four(3)], vec![], 0));
}

/// What is replaced while workers stand still is not freed, and only so much of it is kept. Endpoints beyond that come a moment later.
#[test]
fn a_hot_swap_moves_thousands_of_peers() {
    let key = |n: u32| {
        let mut key = [5; 32];
        key[..4].copy_from_slice(&n.to_le_bytes());
        wireguard::PublicKey(key)
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |host: &str| {
        let peer = |n: u32| format!("[Peer]\nPublicKey = {}\nEndpoint = {host}:{}\n", key(n), 1 + n);
        let peers: String = (0..6000).map(peer).collect();
        let text = format!("[Interface]\nPrivateKey = {}\n{peers}", keys().0.reveal());
        std::fs::write(file.path(), text).unwrap();
    };
    let text = format!(
        "e :: WireGuard({}, ADDRESS 192.0.2.1); Idle -> e -> Discard; Idle -> [1]e[1] -> Discard;",
        file.path().display()
    );
    write("198.51.100.1");
    let mut now = Rig::text(&text).ready();
    write("203.0.113.1");
    now.swap(&text).unwrap();
    let mut now = run(now, 1);
    let peers = now.read("e.peers");
    let endpoints = peers.lines().map(|line| line.split('\t').nth(2).unwrap().to_owned());
    assert!(endpoints.eq((0..6000).map(|n| format!("203.0.113.1:{}", 1 + n))));
}

#[test]
fn a_hot_swap_to_another_key_counts_packets_that_wait() {
    let mut now = waiting(1..=3);
    let text = cut(0).replace(&keys().0.reveal(), &Secret::new([11 << 3; 32]).reveal());
    assert_eq!(now.swap(&text).unwrap().dropped, [("a".to_owned(), 3)]);
    assert_eq!(held(&now), 0);
}

#[test]
fn peers_come_and_go_by_handlers() {
    let mut now = shaken(&pair("", ""));
    let (_, theirs) = keys();
    let key = theirs.public().to_string();
    now.write("a.set_peer", &format!("{key} allowed-ips 10.2.0.0/24")).unwrap();
    assert!(now.read("a.peers").contains("\t192.0.2.2:51820\t10.2.0.0/24\t"));
    now.write("a.remove_peer", &key).unwrap();
    assert_eq!((now.read("a.count"), now.read("a.peers")), ("0".into(), String::new()));
    let (mut now, wire) = sent(now, &[four(2)]);
    assert_eq!(wire, Vec::<Bytes>::new());
    let why = now.write("a.remove_peer", &key).unwrap_err().to_string();
    assert!(why.contains("no peer has the key"), "{why}");
    let why = now
        .write("a.set_peer", &format!("{key} preshared-key {}x", theirs.reveal()))
        .unwrap_err()
        .to_string();
    assert!(why.contains("44 characters") && !why.contains(&theirs.reveal()), "{why}");
}

#[test]
fn packets_that_are_too_long_leave_apart() {
    let text =
        pair("", "").replace("a[1] -> o1 :: TestOut;", "a[1] -> o1 :: TestOut; a[2] -> big :: TestOut;");
    let mut long = packet([10, 1, 0, 1], [10, 2, 0, 1], 1441);
    wire::ipv4::HeaderMut::from_slice(&mut long).unwrap().rewrite_fragment(wire::ipv4::FLAG_DF);
    let fits = packet([10, 1, 0, 1], [10, 2, 0, 1], 1440);
    let (now, wire) = sent(shaken(&text), &[long.clone(), fits]);
    let big = now.out("big");
    assert_eq!((big[0].data(), big[0].anno_u32(packet::anno::PATH_MTU)), (&long[..], 1440));
    assert_eq!(wire.iter().map(Vec::len).collect::<Vec<_>>(), [1500]);
}

#[test]
fn floods_of_handshakes_are_bounded() {
    let (_, theirs) = keys();
    let receiver = wireguard::cookie::Receiver::new(&theirs.public());
    let flood: Vec<Bytes> = (0..100)
        .map(|n| {
            let mut message = wireguard::message::initiation(n, &[n as u8; 108]);
            receiver.finish(&mut message, None);
            let mut bytes = packet([192, 0, 2, 99], [192, 0, 2, 2], 28 + message.len());
            bytes[22..24].copy_from_slice(&51820u16.to_be_bytes());
            bytes[28..].copy_from_slice(&message);
            bytes
        })
        .collect();
    let text = pair("", "").replace("[1]b :: WireGuard(", "[1]b :: WireGuard(HANDSHAKES 8, ");
    let now = Rig::text(&text).burst(1).ready();
    now.give("w", packets(&flood));
    let now = run(now, 1);
    assert_eq!(now.drops("b"), [(Reason::HandshakeRefused, 2), (Reason::HandshakeLimited, 98)]);
    let back = now.bytes("back");
    assert!(
        back.len() == 98 && back.iter().all(|bytes| bytes.len() == 28 + 64),
        "cookies, no longer than what asked for them"
    );
}

#[test]
fn mistakes_say_what_is_wrong() {
    let (mine, theirs) = keys();
    let why = |args: &str| {
        let text = format!("Idle -> e :: WireGuard({args}); e -> Discard; Idle -> [1]e; e[1] -> Discard;");
        Rig::text(&text).errors().join("\n")
    };
    let key = format!("PRIVATE_KEY {}", mine.reveal());
    assert!(why("ADDRESS 192.0.2.1").contains("no private key"));
    let text = why(&format!("PRIVATE_KEY {}x", mine.reveal()));
    assert!(text.contains("44 characters") && !text.contains(&mine.reveal()[..20]), "{text}");
    let peer = format!("PEER {} endpoint [2001:db8::1]:7", theirs.public());
    let text = why(&format!("ADDRESS 192.0.2.1, {key}, {peer}"));
    assert!(text.contains("no own IPv6 ADDRESS"), "{text}");
    assert!(
        why(&format!("ADDRESS 192.0.2.1, ADDRESS 192.0.2.2, {key}")).contains("second one of its family")
    );
    assert!(why(&format!("{key}, PEER {}", mine.public())).contains("of this device itself"));
    assert!(why(&format!("/nonexistent/wg0.conf, {key}")).contains("cannot read /nonexistent/wg0.conf"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[Interface]\nPrivateKey = x\nAddress = 10.0.0.1/8\n").unwrap();
    let text = why(&file.path().display().to_string());
    assert!(
        text.contains("line 2: PrivateKey") && text.contains("line 3: 'Address' is a word of wg-quick"),
        "{text}"
    );
}
