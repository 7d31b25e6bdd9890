// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequence numbers at their edges (RFC 4303, 3.3.3 and 3.4.3; RFC 4304, appendix A): late packets at a window's bottom, replays after jumps, the turn of 32 bits
//! with extended numbers, and the end of numbers without them.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use testbed::account::Accounted;

use crate::peer::{Peer, came, clear, receiver};

/// Numbers of 32 bits.
const TURN: u64 = 1 << 32;

/// A receiver that keeps all numbers in a set.
struct Naive {
    size: u64,
    is_extended: bool,
    top: u64,
    came: BTreeSet<u64>,
}

impl Naive {
    /// Why a packet does not pass; `None` if it does.
    fn refuses(&mut self, number: u64) -> Option<&'static str> {
        let bottom = self.top.saturating_sub(self.size - 1);
        let is_guessed = !self.is_extended || (bottom..bottom + TURN).contains(&number);
        if !is_guessed {
            // The receiver takes it for a number of another high half, so the check value is wrong.
            return Some("bad-icv");
        }
        match number {
            0 => Some("bad-esp"),
            _ if number < bottom => Some("outside-window"),
            _ if self.came.contains(&number) => Some("replayed"),
            _ => {
                self.came.insert(number);
                self.top = self.top.max(number);
                None
            }
        }
    }
}

/// Steps from the highest number so far, `w` packets being the window.
fn steps(w: i64) -> Vec<i64> {
    let mut rng = Rng::with_seed(w as u64);
    // On, to the first number of which the present one is the last in the window; late ones around the bottom, each twice.
    let mut steps = vec![1, 1, w - 1, 1 - w, 1 - w, -w, -w - 1, 0, -1, 1, 1 - w, 2 - w];
    // A jump by several windows, then what came before, and the bottom again.
    steps.extend([10 * w, 0, -10 * w, 1 - 10 * w, 1 - w, 1 - w, -w, w, -w, 1 - w, 31, 32, 33, -31, -32, -33]);
    steps.extend((0..300).map(|_| rng.i64(-w - 3..w + 4)));
    steps.extend((0..100).map(|_| rng.i64(-3..4)));
    steps
}

/// Follows steps from `top`. The packets of 32 arrive in one batch, or each alone.
fn follow(window: u32, is_extended: bool, top: u64, burst: usize) {
    let name = format!("window {window}, extended {is_extended}, from {top}, burst {burst}");
    let words = format!("replay-window {window}{}", if is_extended { " flag esn" } else { "" });
    let peer = Peer::new(&words);
    let mut router = receiver(&format!("{words} progress 0 {top} {}", received(window)), burst);
    let bottom = top.saturating_sub(u64::from(window) - 1);
    let mut naive = Naive { size: window.into(), is_extended, top, came: (bottom..=top).collect() };
    let (mut sent, mut passing, mut refused) = (0, Vec::new(), std::collections::BTreeMap::new());
    let mut through = Vec::new();
    for step in steps(window.into()) {
        let number = naive.top.saturating_add_signed(step);
        if !is_extended && number >= TURN {
            continue;
        }
        assert!(router.inject(0, &peer.frame(number)));
        sent += 1;
        match naive.refuses(number) {
            None => passing.push(number),
            Some(why) => *refused.entry(why).or_insert(0) += 1,
        }
        if sent % burst.max(16) == 0 {
            through.extend(came(&mut router));
        }
    }
    through.extend(came(&mut router));
    router.check().unwrap();
    assert_eq!(through, passing, "{name}");
    let drops = router.drops();
    assert_eq!(drops.values().sum::<u64>(), refused.values().sum::<u64>(), "{name}: {drops:?}");
    if burst == 1 {
        for why in ["bad-icv", "bad-esp", "outside-window", "replayed"] {
            let (found, wanted) =
                [&drops, &refused].map(|counts| counts.get(why).copied().unwrap_or(0)).into();
            assert_eq!(found, wanted, "{name}: {why}");
        }
    }
}

/// A window's bits when all its packets have come.
fn received(window: u32) -> String {
    format!("0x{}", "ff".repeat(4 * window.div_ceil(32) as usize))
}

#[test]
fn windows_have_sharp_edges() {
    for window in [1, 2, 31, 32, 33, 64, 1000] {
        for (top, is_extended) in [(0, false), (5, false), (TURN / 2, false), (0, true), (7 * TURN + 9, true)]
        {
            for burst in [1, 32] {
                follow(window, is_extended, top, burst);
            }
        }
    }
}

/// The turn of the low half happens within the window, at its bottom and at its top.
#[test]
fn extended_numbers_turn_over() {
    for window in [1, 32, 64, 1000] {
        for before in [1, 40, 999, 1001, 11_000] {
            for high in [1, 2, (1 << 31) + 1] {
                follow(window, true, high * TURN - before, 1);
            }
            follow(window, true, TURN - before, 32);
        }
    }
}

/// Jumps with extended numbers: up to where a number would be taken for one of the window.
#[test]
fn extended_numbers_jump() {
    let words = "replay-window 64 flag esn";
    let peer = Peer::new(words);
    let mut router = receiver(&format!("{words} progress 0 1000 {}", received(64)), 1);
    let mut send = |number| {
        router.inject(0, &peer.frame(number));
        let passes = came(&mut router) == [number];
        (passes, router.drops().into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>())
    };
    assert!(send(1000 + TURN / 2 + 5).0, "more than half of the numbers of 32 bits ahead");
    let top = 1000 + TURN / 2 + 5 + TURN - 64;
    assert!(send(top).0, "the farthest one");
    assert_eq!(
        send(top + TURN - 63),
        (false, vec![("bad-icv", 1)]),
        "one farther is taken for the window's first"
    );
    assert!(send(top + 1).0, "it has moved nothing");
    assert_eq!(send(top + 1), (false, vec![("bad-icv", 1), ("replayed", 1)]));
}

/// The end of 32 bits on the way in: no number comes again.
#[test]
fn numbers_of_32_bits_do_not_turn_over() {
    let words = "replay-window 64";
    let peer = Peer::new(words);
    let mut router = receiver(&format!("{words} progress 0 4294967290 {}", received(64)), 1);
    for number in 4_294_967_288..TURN + 70 {
        router.inject(0, &peer.frame(number));
    }
    assert_eq!(came(&mut router), (4_294_967_291..TURN).collect::<Vec<_>>());
    let drops = router.drops();
    assert_eq!([drops["replayed"], drops["bad-esp"], drops["outside-window"]], [3, 1, 69], "{drops:?}");
    router.check().unwrap();
}

const OUT: &str =
    "src 192.0.2.1 dst 192.0.2.2 reqid 1 aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128";

/// A router that protects what comes.
fn sender(words: &str, burst: usize) -> Accounted {
    let text = format!(
        "db :: IPsecDatabase(SA {OUT} {words},
            POLICY dir out src 10.2.0.0/16 dst 10.1.0.0/16 tmpl src 192.0.2.1 dst 192.0.2.2 reqid 1 mode tunnel);
        FromDevice(m0) -> Strip(14) -> CheckIPHeader -> enc :: IPsecEncrypt(db)
            -> EtherEncap(0x0800, 02:00:00:00:00:09, 02:00:00:00:00:01) -> Queue -> ToDevice(m0);"
    );
    Accounted::new(&text, burst).unwrap()
}

/// Sends packets. Returns the SPI and the low half of the number of each that leaves, which are all protected.
fn send(router: &mut Accounted, count: u64) -> Vec<(u32, u32)> {
    for number in 0..count {
        router.inject(0, &clear(number));
    }
    router.run(Duration::from_millis(1));
    let word = |frame: &[u8], at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    let frames = router.collect();
    let protected = |frame: &Vec<u8>| frame[23] == 50;
    assert!(frames.iter().all(|(_, frame)| protected(frame)), "nothing leaves in the clear");
    frames.iter().map(|(_, frame)| (word(frame, 34), word(frame, 38))).collect()
}

/// The end of 32 bits on the way out: the association stops, and packets go on with the next one.
#[test]
fn an_association_stops_at_its_last_number() {
    for burst in [1, 3, 32] {
        let mut router = sender("spi 0x100 progress 4294967290 0 0x", burst);
        let last: Vec<_> = (4_294_967_291..=u32::MAX).map(|number| (0x100, number)).collect();
        assert_eq!(send(&mut router, 40), last, "burst {burst}");
        let drops = router.drops();
        let named = ["sequence-exhausted", "no-sa"].map(|name| drops.get(name).copied().unwrap_or(0));
        assert!(named[0] > 0 && named[0] + named[1] == 35, "burst {burst}: {drops:?}");
        assert_eq!(send(&mut router, 3), []);
        let events = router.read("db.take_events");
        assert!(events.starts_with("expire dst 192.0.2.2 spi 0x00000100 reqid 1 hard\n"), "{events}");
        assert_eq!(events.matches("acquire").count(), 1, "{events}");
        router.write("db.add_sa", &format!("{OUT} spi 0x101"));
        assert_eq!(send(&mut router, 2), [(0x101, 1), (0x101, 2)]);
        router.check().unwrap();
    }
}

/// With extended numbers it does not stop there.
#[test]
fn extended_numbers_go_on() {
    for burst in [1, 32] {
        let mut router = sender("spi 0x100 flag esn progress 4294967294 0 0x", burst);
        let numbers: Vec<u32> = send(&mut router, 4).into_iter().map(|(_, number)| number).collect();
        assert_eq!(numbers, [u32::MAX, 0, 1, 2]);
        assert!(router.read("db.sas").contains("sent 4294967298 "));
    }
    let mut router = sender(&format!("spi 0x100 flag esn progress {} 0 0x", u64::MAX - (1 << 48) - 1), 32);
    assert_eq!(send(&mut router, 4).len(), 1, "the last number of all");
    assert_eq!(router.drops()["sequence-exhausted"], 3);
}
