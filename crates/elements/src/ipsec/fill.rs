// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that nobody asked for: how many dummy packets leave, how long they are, and how they are made (RFC 4303, 2.6); and keep-alives (RFC 3948, 2.3).

use std::collections::BTreeMap;

use arrayvec::ArrayVec;
use element::clock::{Nanos, SECOND};
use esp::Mode;
use esp::outbound::{dummy, inner_mtu, keep_alive};
use fastrand::Rng;
use ipsec::{Association, Database};
use packet::{Batch, Packet, anno};
use wire::{ipv4, ipv6};

use super::outbound::{AT_ONCE, Here, Ready, encrypt, longest, set_destination};

/// How often an association is looked at, at most and at least.
const PERIODS: [Nanos; 2] = [SECOND / 1000, SECOND];
/// Billionths in a packet.
const PACKET: u64 = SECOND;

/// How long to wait between two looks at associations that are filled up to `rate` packets a second: in each such time one packet is to leave.
pub(super) fn period(rate: u32) -> Nanos {
    let [least, most] = PERIODS;
    (SECOND / u64::from(rate.max(1))).clamp(least, most)
}

/// What an association lacks to its rate.
#[derive(Clone, Copy, Default)]
struct Lack {
    /// Billionths of packets that are missing.
    missing: u64,
    /// Packets of others that it has carried.
    carried: u64,
    /// When it was looked at last.
    looked_ns: Nanos,
}

impl Lack {
    /// It begins now.
    fn new(carried: u64, now_ns: Nanos) -> Lack {
        Lack { missing: 0, carried, looked_ns: now_ns }
    }

    /// How many packets are missing at `now_ns`, when it has carried so many. What was too much at one time is not made up for later.
    fn take(&mut self, rate: u32, carried: u64, now_ns: Nanos) -> usize {
        let since = now_ns.saturating_sub(self.looked_ns).min(SECOND);
        let came = carried.saturating_sub(self.carried).min(u64::MAX / PACKET);
        let missing = (self.missing + since * u64::from(rate)).saturating_sub(came * PACKET);
        *self = Lack { missing: missing % PACKET, carried, looked_ns: now_ns };
        (missing / PACKET) as usize
    }
}

/// How long nothing has left by an association.
#[derive(Clone, Copy)]
struct Quiet {
    /// Packets that it has carried.
    carried: u64,
    since_ns: Nanos,
}

impl Quiet {
    /// Whether a keep-alive is due, when it has carried so many packets.
    fn take(&mut self, after_s: u16, carried: u64, now_ns: Nanos) -> bool {
        if carried != self.carried {
            *self = Quiet { carried, since_ns: now_ns };
        }
        let is_due = now_ns.saturating_sub(self.since_ns) >= u64::from(after_s) * SECOND;
        if is_due {
            self.since_ns = now_ns;
        }
        is_due
    }
}

/// What is known of an association since the last look.
#[derive(Clone, Copy)]
struct Look {
    lack: Lack,
    quiet: Quiet,
}

/// What is sent by associations that nobody asked for.
#[derive(Default)]
pub(super) struct Tending {
    /// Dummy packets and keep-alives.
    pub batch: Batch,
    pub dummies: u64,
    pub keep_alives: u64,
}

/// Fills associations up, and keeps their mappings. It goes round: each is looked at once in a round.
#[derive(Clone, Default)]
pub(super) struct Filler {
    /// What this round has seen, by generation, which no two associations of a database have in common.
    looks: BTreeMap<u64, Look>,
    /// What the last round has seen and this one has not yet.
    before: BTreeMap<u64, Look>,
}

impl Filler {
    /// Makes what is due of an association that is to be filled up to `rate` packets a second.
    pub fn tend(
        &mut self,
        (association, rate): (&Association, u32),
        database: &Database,
        here: Here,
        rng: &mut Rng,
        made: &mut Tending,
    ) {
        let (generation, after_s) = (association.generation, association.sa.rules.keep_alive_s);
        let is_idle = rate == 0 && after_s == 0;
        if is_idle || association.is_over() || self.looks.contains_key(&generation) {
            return;
        }
        let sum = |counter: fn(&ipsec::Line) -> u64| association.lines.sum(counter);
        let all = sum(|line| line.packets.get());
        let others = all.saturating_sub(sum(|line| line.dummies.get()));
        let new = || Look {
            lack: Lack::new(others, here.now_ns),
            quiet: Quiet { carried: all, since_ns: here.now_ns },
        };
        let mut look = self.before.remove(&generation).unwrap_or_else(new);
        if rate > 0 {
            association.measure();
            let count = look.lack.take(rate, others, here.now_ns);
            for done in (0..count).step_by(AT_ONCE) {
                let mut some = dummies((count - done).min(AT_ONCE), association, database, here, rng);
                made.dummies += some.len() as u64;
                made.batch.append(&mut some);
            }
        } else {
            look.lack = Lack::new(others, here.now_ns);
        }
        if after_s > 0
            && look.quiet.take(after_s, all, here.now_ns)
            && let Some(packet) = datagram(association, here)
        {
            made.keep_alives += 1;
            made.batch.push(packet);
        }
        self.looks.insert(generation, look);
    }

    /// Ends a round. Associations that it has not met are forgotten.
    pub fn end_round(&mut self) {
        self.before = std::mem::take(&mut self.looks);
    }
}

/// A keep-alive by the ports of an association.
fn datagram(association: &Association, here: Here) -> Option<Packet> {
    let config = &association.config;
    let mut packet = keep_alive(&association.sa, (config.src, config.dst))?.ok()?;
    set_destination(&mut packet, config.dst);
    packet.set_anno_u32(anno::PATH_MTU, here.mtu as u32);
    if here.marks {
        packet.set_anno_u8(anno::OPENED, anno::PROTECTED);
    }
    Some(packet)
}

/// Dummy packets of an association, at most [`AT_ONCE`]: fewer if it ends, or memory does.
fn dummies(count: usize, association: &Association, database: &Database, here: Here, rng: &mut Rng) -> Batch {
    let mut batch = Batch::new();
    let mut ready: ArrayVec<Option<Ready<'_>>, AT_ONCE> = ArrayVec::new();
    for _ in 0..count {
        let Some((packet, made)) = one(association, database, here, rng) else { break };
        batch.push(packet);
        ready.push(Some(made));
    }
    encrypt(&mut batch, &ready);
    batch
}

/// A dummy packet that is to be encrypted. It is as long as one of the latest packets, or of any length before there is one, if packets are not padded.
fn one<'a>(
    association: &'a Association,
    database: &Database,
    here: Here,
    rng: &mut Rng,
) -> Option<(Packet, Ready<'a>)> {
    let (sa, config) = (&association.sa, &association.config);
    if association.is_over() {
        return None;
    }
    let Some(number) = sa.take_numbers(1) else {
        database.exhausted(association);
        return None;
    };
    let most = longest(association, here);
    let header_len = match sa.mode {
        Mode::Tunnel { .. } => 0,
        Mode::Transport if config.dst.is_ipv4() => ipv4::HEADER_LEN,
        Mode::Transport => ipv6::HEADER_LEN,
    };
    let room = inner_mtu(sa, most, header_len).saturating_sub(header_len);
    let any = |rng: &mut Rng| if sa.rules.pad_to > 0 { 0 } else { rng.usize(..=room) };
    let len = association.some_len(rng.usize(..)).unwrap_or_else(|| any(rng)).min(room);
    let ends = (config.src, config.dst);
    let (mut packet, at) = dummy(sa, ends, number, (len, most)).ok()?;
    if !database.count_dummy(association, here.worker, len, here.now_ns) {
        return None;
    }
    set_destination(&mut packet, config.dst);
    packet.set_anno_u32(anno::PATH_MTU, most as u32);
    if here.marks {
        packet.set_anno_u8(anno::OPENED, anno::PROTECTED);
    }
    Some((packet, Ready { association, number, at }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_made_up_and_what_is_too_much_is_not() {
        let mut lack = Lack::new(7, 0);
        // Four a second, a look each quarter.
        let quarter = SECOND / 4;
        assert_eq!(lack.take(4, 7, quarter), 1);
        assert_eq!(lack.take(4, 8, 2 * quarter), 0, "one came");
        assert_eq!(lack.take(4, 11, 3 * quarter), 0, "three came");
        assert_eq!(lack.take(4, 11, 4 * quarter), 1, "none came");
        // Late looks find all that is missing of the last second.
        assert_eq!(lack.take(4, 11, 6 * quarter), 2);
        assert_eq!(lack.take(4, 11, 60 * quarter), 4);
        // Parts of a packet add up.
        let mut lack = Lack::new(0, 0);
        let counts: Vec<usize> = (1..=10).map(|at| lack.take(3, 0, at * SECOND / 10)).collect();
        assert_eq!((counts.iter().sum::<usize>(), counts.iter().max()), (3, Some(&1)));
    }

    #[test]
    fn keep_alives_are_due_when_nothing_else_has_left() {
        let mut quiet = Quiet { carried: 5, since_ns: SECOND };
        let mut due = |carried, second: u64| quiet.take(20, carried, second * SECOND);
        assert!(!due(5, 20) && due(5, 21) && !due(5, 40) && due(5, 41));
        assert!(!due(6, 60), "one left");
        assert!(!due(6, 79) && due(6, 80));
    }

    #[test]
    fn looks_are_as_often_as_packets() {
        assert_eq!(
            [0, 1, 50, 1000, 100_000].map(period),
            [SECOND, SECOND, SECOND / 50, 1_000_000, 1_000_000]
        );
    }
}
