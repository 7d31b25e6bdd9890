// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hot swaps under real packets. A set of all that was ever sent is the oracle for the way out, and a peer that sends everything again for the way in.

use std::collections::HashSet;

use element::Reason;
use esp::inbound::{Found, find};
use esp::outbound::{encapsulate, finish, part};
use packet::Packet;

use super::super::database::tests::packet;
use crate::testing::{Rig, Run};

const KEYS: [&str; 3] = [
    "0x000102030405060708090a0b0c0d0e0f10111213",
    "0x202122232425262728292a2b2c2d2e2f30313233",
    "0x404142434445464748494a4b4c4d4e4f50515253",
];

/// What a configuration says of one association.
#[derive(Clone, Copy)]
struct Half {
    spi: u32,
    key: usize,
    more: &'static str,
}

const OUT: Half = Half { spi: 0x100, key: 0, more: "" };
const IN: Half = Half { spi: 0x200, key: 1, more: "" };

impl Half {
    fn text(&self) -> String {
        let bits = if self.more.starts_with("short") { 96 } else { 128 };
        let more = self.more.trim_start_matches("short");
        format!("spi {} aead aes-gcm {} {bits} {more}", self.spi, KEYS[self.key])
    }
}

/// A router with an ESPTunnel of this name.
fn tunnel(name: &str, remote: &str, out: Half, inward: Half) -> String {
    format!(
        "i :: TestIn -> {name} :: ESPTunnel(192.0.2.1, {remote}, OUT {}, IN {}) -> o0 :: TestOut; \
         j :: TestIn -> [1]{name}[1] -> o1 :: TestOut;",
        out.text(),
        inward.text()
    )
}

/// The same tunnel by policies of a database of this name.
fn policies(name: &str, remote: &str, out: Half, inward: Half) -> String {
    format!(
        "{name} :: IPsecDatabase(SA src 192.0.2.1 dst {remote} mode tunnel {}, SA src {remote} dst 192.0.2.1 mode tunnel {}, \
         POLICY dir out tmpl src 192.0.2.1 dst {remote} mode tunnel, POLICY dir fwd tmpl src {remote} dst 192.0.2.1 mode tunnel); \
         i :: TestIn -> IPsecEncrypt({name}) -> o0 :: TestOut; j :: TestIn -> IPsecDecrypt({name}) -> o1 :: TestOut;",
        out.text(),
        inward.text()
    )
}

fn clear() -> Packet {
    Packet::copy_of(&packet([10, 1, 0, 1], [10, 2, 0, 1], 60)).unwrap()
}

/// What was sent under one key: SPI and number, and initialisation vectors.
#[derive(Default)]
struct Sent {
    numbers: HashSet<(u32, usize, u32)>,
    vectors: HashSet<(usize, [u8; 8])>,
    packets: Vec<Vec<u8>>,
}

impl Sent {
    /// Sends packets, none of which may have been there before.
    fn send(&mut self, mut run: Run, key: usize) -> Run {
        run.give("i", (0..5).map(|_| clear()).collect());
        run = run.again();
        let sent = run.bytes("o0");
        assert_eq!(sent.len(), 5);
        for bytes in sent {
            let Ok(Found::Esp(arrived)) = find(&bytes) else { panic!("ESP") };
            let esp_at = if bytes[9] == 50 { 20 } else { 28 };
            let vector = bytes[esp_at + 8..][..8].try_into().unwrap();
            assert!(self.numbers.insert((arrived.spi, key, arrived.low)), "{arrived:?} was there before");
            assert!(self.vectors.insert((key, vector)), "a nonce was there before");
            self.packets.push(bytes);
        }
        run
    }
}

/// The other end, which may send again what was recorded.
struct Peer {
    half: Half,
    sa: esp::Sa,
    recorded: Vec<Packet>,
}

impl Peer {
    fn new(remote: &str, half: Half) -> Peer {
        let text = format!("src {remote} dst 192.0.2.1 mode tunnel {}", half.text());
        let sa = esp::Sa::new(&ipsec::text::parse_association(&text).unwrap().esp).unwrap();
        Peer { half, sa, recorded: Vec::new() }
    }

    /// Sends all that it ever sent, and three packets more: these alone pass.
    fn send(&mut self, mut run: Run) -> Run {
        for _ in 0..3 {
            let (mut packet, number) = (clear(), self.sa.take_numbers(1).unwrap());
            let at = encapsulate(&mut packet, &self.sa, number, 1500).unwrap();
            esp::seal(&mut [part(&mut packet, &self.sa, at, number)]);
            finish(&mut packet, &self.sa, at);
            self.recorded.push(packet);
        }
        run.give("j", self.recorded.iter().map(|p| Packet::copy_of(p.data()).unwrap()).collect());
        run = run.again();
        assert_eq!(run.out("o1").len(), 3);
        run
    }
}

/// Goes through configurations by hot swaps: each with the key to the way out, and the other end.
fn follow(rig: Rig, steps: &[(String, Half, (&str, Half))]) {
    let (mut sent, mut peer) = (Sent::default(), None::<Peer>);
    let mut run = Some(rig.run());
    for (text, out, (remote, inward)) in steps {
        let mut now = run.take().unwrap();
        now.swap(text).unwrap();
        let mut other = peer.take().filter(|peer| {
            (peer.half.spi, peer.half.key, peer.half.more) == (inward.spi, inward.key, inward.more)
        });
        let there = other.get_or_insert_with(|| Peer::new(remote, *inward));
        now = there.send(sent.send(now, out.key));
        // What cannot be swapped changes nothing.
        assert!(now.swap(&format!("{text} FromDevice(nowhere) -> Discard;")).is_err());
        run = Some(there.send(sent.send(now, out.key)));
        peer = other;
    }
}

#[test]
fn no_number_is_used_twice_whatever_changes() {
    let here = "192.0.2.2";
    let other_in = Half { spi: 0x201, key: 2, more: "" };
    let limited = Half { more: "limit packet-hard 100000 replay-window 64", ..OUT };
    let by_udp = Half { more: "encap espinudp 4500 4500 0.0.0.0", ..OUT };
    let other_port = Half { more: "encap espinudp 4500 4501 0.0.0.0", ..OUT };
    let short = Half { more: "short", ..OUT };
    let other_spi = Half { spi: 0x300, ..OUT };
    let step = |text, out, inward| (text, out, (here, inward));
    let steps = [
        step(tunnel("t", here, OUT, IN), OUT, IN),
        step(tunnel("t", here, OUT, other_in), OUT, other_in),
        step(tunnel("t", here, limited, other_in), limited, other_in),
        step(tunnel("t", here, by_udp, other_in), by_udp, other_in),
        step(tunnel("t", here, other_port, other_in), other_port, other_in),
        step(tunnel("t", "192.0.2.3", other_port, other_in), other_port, other_in),
        step(tunnel("u", "192.0.2.3", other_port, other_in), other_port, other_in),
        step(tunnel("u", here, short, other_in), short, other_in),
        step(policies("d", here, OUT, other_in), OUT, other_in),
        step(policies("e", here, OUT, other_in), OUT, other_in),
        step(policies("e", "192.0.2.4", limited, other_in), limited, other_in),
        step(tunnel("e", here, limited, other_in), limited, other_in),
        step(tunnel("e", here, other_spi, other_in), other_spi, other_in),
    ];
    follow(Rig::text(&tunnel("t", here, OUT, IN)), &steps);
    follow(Rig::text("Idle -> Discard;"), &steps);
}

/// Both ends of a tunnel in one router have one SPI and key for each direction. Under any later names of their elements, no number is
/// used twice, and nothing passes twice.
#[test]
fn both_ends_may_get_other_names() {
    let both = |a: &str, b: &str| {
        let (out, inward) = (OUT.text(), IN.text());
        format!(
            "i :: TestIn -> {a} :: ESPTunnel(192.0.2.1, 192.0.2.2, OUT {out}, IN {inward}) -> o0 :: TestOut; \
             j :: TestIn -> [1]{b} :: ESPTunnel(192.0.2.2, 192.0.2.1, OUT {inward}, IN {out}); \
             {b}[1] -> o1 :: TestOut; Idle -> [1]{a}[1] -> Discard; Idle -> {b} -> Discard;"
        )
    };
    let mut sent = Sent::default();
    let mut run = Rig::text(&both("a", "b")).run();
    for (a, b) in [("a", "b"), ("a", "c"), ("d", "c"), ("e", "f"), ("f", "e")] {
        run.swap(&both(a, b)).unwrap();
        run = sent.send(run, OUT.key);
        run.give("j", sent.packets.iter().map(|bytes| Packet::copy_of(bytes).unwrap()).collect());
        run = run.again();
        assert_eq!(run.out("o1").len(), 5, "{a} {b}: what came before passes no more");
    }
}

/// The window of the way in goes on where only the way out changes, and the age and counts of both.
#[test]
fn each_direction_has_its_own_life() {
    let here = "192.0.2.2";
    let other_out = Half { spi: 0x101, key: 2, more: "" };
    let mut run = Rig::text(&tunnel("t", here, OUT, IN)).run();
    let mut peer = Peer::new(here, IN);
    for out in [OUT, other_out, OUT] {
        run.swap(&tunnel("t", here, out, IN)).unwrap();
        run = peer.send(run);
    }
    let sas = run.read("t.sas");
    assert!(sas.contains("top 9 bytes 540 packets 9 replayed 9 "), "{sas}");
    run.swap(&tunnel("other", here, OUT, Half { more: "limit packet-hard 100", ..IN })).unwrap();
    run = peer.send(run);
    assert!(run.read("other.sas").contains("replayed 18 "), "{}", run.read("other.sas"));
}

#[test]
fn selectors_hold_for_packets_that_cannot_be_read() {
    let inward = Half { more: "sel dst 10.1.0.0/16", ..IN };
    let out = Half { more: "sel dst 10.2.0.0/16 proto udp", ..OUT };
    let run = Rig::text(&tunnel("t", "192.0.2.2", out, inward)).run();
    let (other, mut cut) =
        (packet([10, 1, 0, 1], [10, 3, 0, 1], 60), packet([10, 1, 0, 1], [10, 2, 0, 1], 60));
    // Its ports are cut off.
    cut.truncate(22);
    cut[2..4].copy_from_slice(&[0, 22]);
    run.give("i", [&other[..], &cut].map(|bytes| Packet::copy_of(bytes).unwrap()).into());
    let run = run.again();
    assert_eq!(run.drops("t"), [(Reason::BadLength, 1), (Reason::WrongAssociation, 1)]);
}
