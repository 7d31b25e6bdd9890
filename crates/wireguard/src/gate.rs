// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many handshakes are worked on. Each one costs a fraction of a millisecond, and anybody who knows the public key may send them.
//!
//! In each second the first quarter of the handshakes are free. Beyond it, senders must prove their addresses by a cookie, and each address has a rate of its own
//! (as Linux has it: 20 in a second, bursts of 5). Beyond the limit nothing is worked on.

use std::net::{IpAddr, SocketAddr};

use crate::cookie::{Baker, Receiver};
use crate::limits::SECOND;
use crate::message::COOKIE_LEN;

/// Handshakes in a second, where nothing else is said.
pub const DEFAULT_LIMIT: u32 = 400;
/// Rates of addresses that are remembered. Addresses that fall together share one.
const ADDRESSES: usize = 1024;
/// Time that one handshake of an address costs.
const COST: u64 = SECOND / 20;
/// What an address may have saved.
const SAVED: u64 = 5 * COST;

/// What is to be done with a handshake message.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is worked on.
    Work,
    /// Its sender gets this reply first.
    Reply([u8; COOKIE_LEN]),
    /// There are too many.
    Refuse,
}

/// Counts handshakes.
pub struct Gate {
    limit: u32,
    second: u64,
    theirs: u32,
    mine: u32,
    baker: Baker,
    /// For each address the moment at which its savings were zero.
    since: Box<[u64; ADDRESSES]>,
    seed: u64,
}

impl Gate {
    /// One that lets so many handshakes through in a second.
    pub fn new(limit: u32) -> Gate {
        let (baker, since) = (Baker::default(), Box::new([0; ADDRESSES]));
        Gate { limit, second: 0, theirs: 0, mine: 0, baker, since, seed: fastrand::u64(..) }
    }

    /// Lets so many through from now on.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    fn turn(&mut self, now_ns: u64) {
        if self.second != now_ns / SECOND {
            (self.second, self.theirs, self.mine) = (now_ns / SECOND, 0, 0);
        }
    }

    /// Whether a handshake message, the index of whose sender is `sender`, is worked on. Its `mac1` was found right.
    pub fn admit(
        &mut self,
        receiver: &Receiver,
        message: &[u8],
        sender: u32,
        from: SocketAddr,
        now_ns: u64,
    ) -> Verdict {
        self.turn(now_ns);
        if self.theirs >= self.limit {
            return Verdict::Refuse;
        }
        if self.theirs >= self.limit.div_ceil(4) {
            if !self.baker.is_proven(message, from, now_ns) {
                let reply = self.baker.reply(receiver, message, sender, from, now_ns);
                return reply.map_or(Verdict::Refuse, Verdict::Reply);
            }
            if !self.spend(from.ip(), now_ns) {
                return Verdict::Refuse;
            }
        }
        self.theirs += 1;
        Verdict::Work
    }

    /// Whether this side may begin another handshake now.
    pub fn may_begin(&mut self, now_ns: u64) -> bool {
        self.turn(now_ns);
        let may = self.mine < self.limit;
        self.mine += u32::from(may);
        may
    }

    fn spend(&mut self, from: IpAddr, now_ns: u64) -> bool {
        let bytes = match from {
            IpAddr::V4(four) => u128::from(u32::from(four)),
            // Who has one address of a /64 has all.
            IpAddr::V6(six) => u128::from(six) >> 64 | 1 << 64,
        };
        let mixed = (bytes as u64 ^ (bytes >> 64) as u64 ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let since = &mut self.since[(mixed >> 54) as usize % ADDRESSES];
        let start = (*since).max(now_ns.saturating_sub(SAVED));
        let may = now_ns >= start + COST;
        if may {
            *since = start + COST;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Secret;
    use crate::message::{self, Message};

    #[test]
    fn beyond_a_quarter_addresses_are_proven_and_beyond_the_limit_nothing_passes() {
        let receiver = Receiver::new(&Secret::generate().unwrap().public());
        let mut gate = Gate::new(8);
        let mut hello = message::initiation(7, &[0; 108]);
        let mac1 = receiver.finish(&mut hello, None);
        let from = |n: u8| SocketAddr::from(([192, 0, 2, n], 1000));
        // A moment at which addresses have saved something.
        let now = 10 * SECOND;
        for _ in 0..2 {
            assert_eq!(gate.admit(&receiver, &hello, 7, from(1), now), Verdict::Work);
        }
        let mut passed = 0;
        for host in 1..20 {
            let Verdict::Reply(reply) = gate.admit(&receiver, &hello, 7, from(host), now) else { break };
            let Some(Message::Cookie(reply)) = Message::read(&reply) else { panic!() };
            let mut proven = hello;
            receiver.finish(&mut proven, Some(&receiver.open(&reply, &mac1).unwrap()));
            passed += u32::from(gate.admit(&receiver, &proven, 7, from(host), now) == Verdict::Work);
        }
        assert_eq!(passed, 6);
        assert_eq!(gate.admit(&receiver, &hello, 7, from(1), now), Verdict::Refuse);
        assert_eq!(gate.admit(&receiver, &hello, 7, from(1), now + SECOND), Verdict::Work);
    }

    #[test]
    fn an_address_has_a_rate() {
        let mut gate = Gate::new(8);
        let from: IpAddr = "2001:db8::1".parse().unwrap();
        let now = 10 * SECOND;
        let count = |gate: &mut Gate, now| (0..100).filter(|_| gate.spend(from, now)).count();
        assert_eq!(count(&mut gate, now), 5);
        assert_eq!(count(&mut gate, now + COST), 1);
        assert_eq!(count(&mut gate, now + 100 * COST), 5);
        assert!((0..8).all(|_| gate.may_begin(now)) && !gate.may_begin(now) && gate.may_begin(now + SECOND));
    }
}
