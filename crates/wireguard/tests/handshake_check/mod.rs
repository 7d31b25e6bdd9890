// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the fuzz target `wireguard_handshake` and its corpus' replay share. Two devices speak over a wire on which an attacker keeps, repeats, damages and forges messages.
//!
//! The first byte chooses the outer family. Each step that follows is a byte that says what happens and bytes that say how. A handshake message is accepted once at most,
//! and only if the peer has said its Noise part. A packet comes out once at most, and only if the peer has sent it. No answer is longer than the message that caused it. In
//! the end, once the wire is reliable again, packets pass both ways.

use std::cell::Cell;
use std::collections::HashSet;

use junctor_wireguard::PeerConfig;
use junctor_wireguard::cookie::{Baker, Receiver};
use junctor_wireguard::gate::DEFAULT_LIMIT;
use junctor_wireguard::limits::SECOND;
use junctor_wireguard::message::{self, Message};
use junctor_wireguard::open::Datagram;

use crate::pair::{Received, Side, datagram, inner};

/// Steps of an input that count.
const STEPS_MAX: usize = 32;
/// Messages that the wire keeps.
const KEPT_MAX: usize = 24;
/// Seconds after which two devices agree on a reliable wire: attempts are five seconds apart, and up to a third of a second more.
const RECOVERY_S: u64 = 20;
/// Devices whose clocks are beyond this are not used again.
const CLOCK_MAX: u64 = 1 << 60;

thread_local! {
    /// Devices are expensive to make: they go on with the next input, with sessions that are over.
    static SIDES: Cell<Option<[Side; 2]>> = const { Cell::new(None) };
}

/// What came of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Handshake messages that were accepted.
    pub accepted: usize,
    /// Packets that came out.
    pub packets: usize,
    /// Messages that led to nothing.
    pub refused: usize,
}

/// Bytes that are used up. Behind their end there are zeros.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let [first, rest @ ..] = self.0 else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    fn fill<const LEN: usize>(&mut self) -> [u8; LEN] {
        std::array::from_fn(|_| self.byte())
    }
}

/// Two devices and what lies between them.
struct Wire {
    sides: [Side; 2],
    /// Messages with the side that they go to.
    kept: Vec<(usize, Vec<u8>)>,
    /// Noise parts of handshake messages that a side was sent and has not accepted.
    said: HashSet<(usize, Vec<u8>)>,
    /// Packets that a side was sent and has not received.
    sent: HashSet<(usize, Vec<u8>)>,
    serial: u32,
    outcome: Outcome,
}

/// The Noise part of a handshake message in a datagram.
fn noise(bytes: &[u8]) -> Option<Vec<u8>> {
    match Datagram::read(bytes).ok()?.message(bytes)? {
        Message::Initiation(initiation) => Some(initiation.noise.to_vec()),
        Message::Response(response) => Some(response.noise.to_vec()),
        Message::Cookie(_) | Message::Data(_) => None,
    }
}

/// Where the message of a datagram begins.
fn message_at(bytes: &[u8]) -> usize {
    if bytes[0] >> 4 == 4 { 28 } else { 48 }
}

impl Wire {
    fn new(is_six: bool) -> Wire {
        let used = SIDES.take().filter(|sides| sides[0].now_ns < CLOCK_MAX);
        let sides = used.unwrap_or_else(|| [Side::new(1, 2, None), Side::new(2, 1, None)]);
        let at = if is_six { "[2001:db8::2]:51820" } else { "192.0.2.2:51820" };
        let b = PeerConfig { endpoint: at.parse().ok(), ..PeerConfig::new(*sides[1].device.public()) };
        sides[0].device.set_peer(&b).expect("b is known");
        let (kept, said, sent, outcome) = Default::default();
        let mut wire = Wire { sides, kept, said, sent, serial: 0, outcome };
        wire.pass(200 * SECOND);
        wire.forget();
        wire
    }

    fn keep(&mut self, to: usize, bytes: Vec<u8>) {
        if self.kept.len() == KEPT_MAX {
            self.kept.remove(0);
        }
        self.kept.push((to, bytes));
    }

    /// What a side says goes to the other one.
    fn carry(&mut self, from: usize, said: Vec<Vec<u8>>) {
        for bytes in said {
            self.said.extend(noise(&bytes).map(|noise| (1 - from, noise)));
            self.keep(1 - from, bytes);
        }
    }

    fn begin(&mut self, side: usize) {
        let said = self.sides[side].hurry();
        self.carry(side, said);
    }

    fn pass(&mut self, ns: u64) {
        for side in 0..2 {
            let said = self.sides[side].pass(ns);
            self.carry(side, said);
        }
    }

    /// A side sends a packet that no other one is like.
    fn send(&mut self, side: usize) {
        let [own, other] = [side, 1 - side].map(|side| side as u8 + 1);
        let mut packet = inner(own, other, 60);
        packet[20..24].copy_from_slice(&self.serial.to_be_bytes());
        self.serial += 1;
        if let Ok(sealed) = self.sides[side].send(&packet) {
            self.sent.insert((1 - side, packet));
            self.keep(1 - side, sealed);
        }
    }

    fn deliver(&mut self, to: usize, bytes: &[u8]) -> Received {
        let result = self.sides[to].receive(bytes);
        match &result {
            Ok(Some(packet)) => {
                assert!(self.sent.remove(&(to, packet.clone())), "nobody has sent it, or it came before");
                self.outcome.packets += 1;
            }
            Err(Err(Ok(()))) => {
                if let Some(noise) = noise(bytes) {
                    assert!(self.said.remove(&(to, noise)), "nobody has said it, or it came before");
                    self.outcome.accepted += 1;
                }
            }
            Ok(None) => {}
            Err(_) => self.outcome.refused += 1,
        }
        let said = std::mem::take(&mut self.sides[to].said);
        let total: usize = said.iter().map(Vec::len).sum();
        assert!(total <= bytes.len(), "{} bytes are answered by {total}", bytes.len());
        self.carry(to, said);
        result
    }

    /// A message that the wire keeps.
    fn pick(&self, input: &mut Input<'_>) -> Option<(usize, Vec<u8>)> {
        let at = usize::from(input.byte()).checked_rem(self.kept.len())?;
        self.kept.get(at).cloned()
    }

    /// Completes the check values of a handshake message, which everybody can who knows the public key of its receiver.
    fn finish(&self, to: usize, message: &mut [u8]) {
        if let Some(Message::Initiation(_) | Message::Response(_)) = Message::read(message) {
            Receiver::new(self.sides[to].device.public()).finish(message, None);
        }
    }

    fn damage(&mut self, input: &mut Input<'_>) {
        let Some((to, mut bytes)) = self.pick(input) else { return };
        let (at, value, finishes) = (input.number() % bytes.len(), input.byte(), input.byte() & 1 != 0);
        bytes[at] ^= value.max(1);
        if finishes && bytes.len() > message_at(&bytes) {
            let at = message_at(&bytes);
            self.finish(to, &mut bytes[at..]);
        }
        let _ = self.deliver(to, &bytes);
    }

    /// A stranger's handshake message, with indices of messages that it has seen.
    fn forge(&mut self, input: &mut Input<'_>) {
        let (kind, to) = (input.byte(), usize::from(input.byte() & 1));
        let seen = self
            .pick(input)
            .and_then(|(_, bytes)| Some(*bytes.get(message_at(&bytes) + 4..)?.first_chunk()?));
        let (sender, receiver) =
            (u32::from_le_bytes(input.fill()), u32::from_le_bytes(seen.unwrap_or_default()));
        let mut bytes = match kind % 2 {
            0 => datagram(&message::initiation(sender, &input.fill())),
            _ => datagram(&message::response(sender, receiver, &input.fill())),
        };
        let at = message_at(&bytes);
        self.finish(to, &mut bytes[at..]);
        let _ = self.deliver(to, &bytes);
    }

    /// A cookie in answer to a handshake message, sealed by somebody who has seen that.
    fn bake(&mut self, input: &mut Input<'_>) {
        let Some((to, bytes)) = self.pick(input) else { return };
        let Some(whole) = bytes.get(message_at(&bytes)..) else { return };
        let sender = match Message::read(whole) {
            Some(Message::Initiation(initiation)) => initiation.sender,
            Some(Message::Response(response)) => response.sender,
            _ => return,
        };
        let receiver = Receiver::new(self.sides[to].device.public());
        let from = ([192, 0, 2, 9], 51820).into();
        let reply = Baker::default().reply(&receiver, whole, sender, from, 0).expect("randomness");
        let _ = self.deliver(1 - to, &datagram(&reply));
    }

    fn step(&mut self, kind: u8, input: &mut Input<'_>) {
        let side = usize::from(kind >> 7);
        match kind & 0x7f {
            0..16 => self.begin(side),
            16..48 => {
                if let Some((to, bytes)) = self.pick(input) {
                    let _ = self.deliver(to, &bytes);
                }
            }
            48..64 => self.damage(input),
            64..80 => {
                let (unit, count) = (input.byte(), u64::from(input.byte() % 64));
                self.pass([SECOND / 100, SECOND, 10 * SECOND, 60 * SECOND][usize::from(unit % 4)] * count);
            }
            80..96 => self.send(side),
            96..104 => self.forge(input),
            104..112 => self.bake(input),
            _ => self.sides[side].device.set_limit(u32::from(input.byte() % 8)),
        }
    }

    /// All that is on its way arrives, and what that causes.
    fn settle(&mut self) {
        while !self.kept.is_empty() {
            let (to, bytes) = self.kept.remove(0);
            let _ = self.deliver(to, &bytes);
        }
    }

    /// What was said and sent does not arrive any more.
    fn forget(&mut self) {
        self.kept.clear();
        self.said.clear();
        self.sent.clear();
    }

    /// Nobody is at the wire any more: cookies and sessions are over after a while, and both sides agree again.
    fn recover(&mut self) {
        self.sides.iter().for_each(|side| side.device.set_limit(DEFAULT_LIMIT));
        self.pass(200 * SECOND);
        self.forget();
        for _ in 0..RECOVERY_S {
            self.pass(SECOND);
            self.begin(0);
            self.settle();
            if self.passes_both_ways() {
                return;
            }
        }
        panic!("no packets pass both ways after {RECOVERY_S} seconds");
    }

    fn passes_both_ways(&mut self) -> bool {
        let before = self.outcome.packets;
        (0..2).for_each(|side| self.send(side));
        self.settle();
        self.outcome.packets - before == 2
    }
}

/// Goes through the steps of an input.
pub fn check(data: &[u8]) -> Outcome {
    let mut input = Input(data);
    let mut wire = Wire::new(input.byte() & 1 != 0);
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() {
            break;
        }
        let kind = input.byte();
        wire.step(kind, &mut input);
    }
    let outcome = wire.outcome;
    wire.recover();
    SIDES.set(Some(wire.sides));
    outcome
}
