// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two sessions in virtual time, with a channel between them that delays and loses packets.

use std::time::Duration;

use junctor_bfd::{Change, Config, Repr, Session, State};

use crate::common::ms;

/// Something that happened at side 0 or 1.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    Sent(Repr),
    Changed(Change),
}

pub struct Pair {
    pub sides: [Session; 2],
    pub now: Duration,
    /// Percentage of packets lost, for each sender.
    pub loss: [u64; 2],
    /// Shortest and longest delay.
    pub delay: (Duration, Duration),
    /// What happened: when, at which side, what.
    pub log: Vec<(Duration, usize, Event)>,
    /// When each side received its last packet.
    pub last_rx: [Duration; 2],
    in_flight: Vec<(Duration, usize, Repr)>,
    random: u64,
}

impl Pair {
    pub fn new(a: Config, b: Config, seed: u64) -> Self {
        Pair {
            sides: [Session::new(a).unwrap(), Session::new(b).unwrap()],
            now: Duration::ZERO,
            loss: [0, 0],
            delay: (ms(1), ms(1)),
            log: Vec::new(),
            last_rx: [Duration::ZERO; 2],
            in_flight: Vec::new(),
            random: seed | 1,
        }
    }

    /// splitmix64.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Runs for `time`, event by event.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..2_000_000 {
            let arrival = self.in_flight.iter().map(|(at, _, _)| *at).min().unwrap_or(Duration::MAX);
            let due = self.sides[0].next_due().min(self.sides[1].next_due());
            let next = arrival.min(due).max(self.now);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            self.deliver();
            for side in 0..2 {
                self.poll(side);
            }
        }
        panic!("too many events");
    }

    fn deliver(&mut self) {
        while let Some(at) = self.in_flight.iter().position(|(at, _, _)| *at <= self.now) {
            let (_, to, packet) = self.in_flight.remove(at);
            let mut bytes = [0; 24];
            packet.emit(&mut bytes).unwrap();
            assert_eq!(junctor_bfd::read(&bytes), Ok(packet));
            self.last_rx[to] = self.now;
            if let Ok(Some(change)) = self.sides[to].receive(&packet, 255, self.now) {
                // Three-way handshake: the neighbour has heard us.
                let heard = packet.your_discriminator == self.sides[to].config().discriminator;
                assert!(change.to != State::Up || heard, "up by {packet}");
                self.log.push((self.now, to, Event::Changed(change)));
            }
        }
    }

    fn poll(&mut self, side: usize) {
        for _ in 0..10 {
            let jitter = self.random() as u32;
            let step = self.sides[side].poll(self.now, jitter);
            if let Some(change) = step.change {
                self.log.push((self.now, side, Event::Changed(change)));
            }
            let Some(packet) = step.send else {
                assert!(self.sides[side].next_due() > self.now);
                return;
            };
            self.log.push((self.now, side, Event::Sent(packet)));
            let (least, most) = self.delay;
            let spread = (most - least).as_micros() as u64 + 1;
            let delay = least + Duration::from_micros(self.random() % spread);
            if self.random() % 100 >= self.loss[side] {
                self.in_flight.push((self.now + delay, 1 - side, packet));
            }
        }
        panic!("side {side} sends without end");
    }

    pub fn both_up(&self) -> bool {
        self.sides.iter().all(|side| side.state() == State::Up)
    }

    /// Changes of state, with time and side.
    pub fn changes(&self) -> Vec<(Duration, usize, Change)> {
        let changed = |(at, side, event): &(Duration, usize, Event)| match event {
            Event::Changed(change) => Some((*at, *side, *change)),
            Event::Sent(_) => None,
        };
        self.log.iter().filter_map(changed).collect()
    }

    /// What `side` sent, with the time.
    pub fn sent(&self, side: usize) -> Vec<(Duration, Repr)> {
        let sent = |(at, by, event): &(Duration, usize, Event)| match event {
            Event::Sent(packet) if *by == side => Some((*at, *packet)),
            _ => None,
        };
        self.log.iter().filter_map(sent).collect()
    }
}
