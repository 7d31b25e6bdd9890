// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured by sessions: an address translator, a firewall, or a load balancer that translates.

use std::hint::black_box;
use std::sync::Arc;

use ::nat::{Ahead, Nat, Outcome, PutOff};
use balance::{Balancer, Stage};
use firewall::{Decision, Firewall, Hits, Verdict};
use sync::read_mostly::{ReadMostly, Reader};

use super::shape::{Bytes, Ends, Protocol, Shape};
use crate::Error;

/// The service of a load balancer, and its servers.
const SERVICE: (u32, u16) = (u32::from_be_bytes([192, 0, 2, 80]), 80);
const SERVERS: &str = "198.51.100.1-198.51.100.100 port 8080";

/// Something with sessions, whose packets come in batches.
pub(super) trait Subject: Sized {
    /// What names of measurements begin with.
    const NAME: &'static str;

    /// One for a shape, without sessions.
    fn new(shape: &Shape, seed: u64) -> Result<Self, Error>;

    /// How many sessions it has.
    fn len(&self) -> usize;

    /// Ends sessions whose time has come.
    fn reap(&mut self, now_ns: u64, looks: usize);

    /// How long an agreed session may be idle.
    fn idle_ns(&self, protocol: Protocol) -> u64;

    /// Passes a batch on as the element does; returns how many packets got what they should.
    fn pass(&mut self, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize;

    /// The ends of a session's packet before and after. `learned` is what its first packet has shown; the shape's ends are those of a host and of its peer.
    fn ends(shape: Ends, learned: (u32, u16), leaves: bool) -> [Ends; 2];

    /// What a first packet shows that was passed on.
    fn learn(ends: Ends) -> (u32, u16);
}

/// Something that several workers have at the same time.
pub(super) trait Together: Subject {
    /// What one of them has.
    type Worker: Send;

    /// Another worker.
    fn worker(&self) -> Self::Worker;

    /// As [`Subject::pass`], by one of the workers.
    fn pass_by(worker: &mut Self::Worker, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize;
}

/// Sessions that workers share: known packets pass by a shared reference, then the others by an exclusive one.
pub(super) trait Sessions: Send + Sync + Sized + 'static {
    /// As [`Subject::NAME`].
    const NAME: &'static str;

    /// What a worker has: a reader, and packets of a batch that are being decided on. It has room for those of the next.
    type Worker: Send;

    /// As [`Subject::new`].
    fn new(shape: &Shape, seed: u64) -> Result<Self, Error>;

    /// Another worker.
    fn worker(sessions: &ReadMostly<Self>) -> Self::Worker;

    /// As [`Subject::len`].
    fn count(&self) -> usize;

    /// As [`Subject::reap`].
    fn end_old(&mut self, now_ns: u64, looks: usize);

    /// As [`Subject::idle_ns`].
    fn idle_ns(&self, protocol: Protocol) -> u64;

    /// As [`Subject::pass`], by one of the workers.
    fn pass(worker: &mut Self::Worker, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize;

    /// As [`Subject::ends`].
    fn ends(shape: Ends, learned: (u32, u16), leaves: bool) -> [Ends; 2];
}

/// Shared sessions as one of their workers has them.
pub(super) struct Own<T: Sessions> {
    sessions: ReadMostly<T>,
    worker: T::Worker,
}

/// A translator.
pub(super) type Translator = Own<Nat>;
/// A firewall. Hosts inside may connect to those outside.
pub(super) type Gate = Own<Firewall>;

impl<T: Sessions> Subject for Own<T> {
    const NAME: &'static str = T::NAME;

    fn new(shape: &Shape, seed: u64) -> Result<Own<T>, Error> {
        let sessions = ReadMostly::new(T::new(shape, seed)?);
        Ok(Own { worker: T::worker(&sessions), sessions })
    }

    fn len(&self) -> usize {
        self.sessions.write().count()
    }

    fn reap(&mut self, now_ns: u64, looks: usize) {
        self.sessions.write().end_old(now_ns, looks);
    }

    fn idle_ns(&self, protocol: Protocol) -> u64 {
        self.sessions.write().idle_ns(protocol)
    }

    fn pass(&mut self, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize {
        T::pass(&mut self.worker, now_ns, batch, leaves)
    }

    fn ends(shape: Ends, learned: (u32, u16), leaves: bool) -> [Ends; 2] {
        T::ends(shape, learned, leaves)
    }

    fn learn(ends: Ends) -> (u32, u16) {
        ends[0]
    }
}

impl<T: Sessions> Together for Own<T> {
    type Worker = T::Worker;

    fn worker(&self) -> T::Worker {
        T::worker(&self.sessions)
    }

    fn pass_by(worker: &mut T::Worker, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize {
        T::pass(worker, now_ns, batch, leaves)
    }
}

/// A worker of a translator.
pub(super) struct Translating {
    reader: Reader<Nat>,
    ahead: Vec<Ahead>,
    outcomes: Vec<Option<Outcome>>,
}

impl Sessions for Nat {
    const NAME: &'static str = "nat";
    type Worker = Translating;

    fn new(shape: &Shape, seed: u64) -> Result<Nat, Error> {
        let reading = ::nat::read("bench", &shape.statements().join("\n"));
        let policy = reading.policy.ok_or_else(|| Error::configuration(reading.diagnostics))?;
        Ok(Nat::new(Arc::new(policy), &[], seed))
    }

    fn worker(nat: &ReadMostly<Nat>) -> Translating {
        Translating { reader: nat.reader(), ahead: Vec::new(), outcomes: Vec::new() }
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn end_old(&mut self, now_ns: u64, looks: usize) {
        self.reap(now_ns, looks);
    }

    fn idle_ns(&self, protocol: Protocol) -> u64 {
        let timeouts = &self.policy().timeouts;
        if protocol == Protocol::Tcp { timeouts.tcp } else { timeouts.udp }
    }

    #[inline(never)]
    fn pass(worker: &mut Translating, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize {
        let Translating { reader, ahead, outcomes } = worker;
        let most = 2 * batch.len() + 8;
        outcomes.clear();
        {
            let mut nat = reader.read();
            if nat.is_due(now_ns) {
                drop(nat);
                reader.lock().write().reap(now_ns, most);
                nat = reader.read();
            }
            nat.look_ahead(batch.iter().map(|packet| &packet[..]), leaves, ahead);
            let mut put_off = PutOff::default();
            outcomes.extend(batch.iter_mut().zip(&*ahead).map(|(packet, ahead)| match leaves {
                true => nat.leaving_shared(now_ns, packet, ahead, &mut put_off),
                false => nat.arriving_shared(now_ns, packet, ahead, true, &mut put_off),
            }));
        }
        if outcomes.iter().any(Option::is_none) {
            let mut nat = reader.lock().write();
            nat.reap(now_ns, most);
            for ((packet, ahead), outcome) in batch.iter_mut().zip(&*ahead).zip(&mut *outcomes) {
                outcome.get_or_insert_with(|| match leaves {
                    true => nat.leaving(now_ns, packet, ahead),
                    false => nat.arriving(now_ns, packet, ahead, true),
                });
            }
        }
        black_box(outcomes.iter().filter(|outcome| **outcome == Some(Outcome::Translated)).count())
    }

    fn ends([inside, peer]: Ends, outside: (u32, u16), leaves: bool) -> [Ends; 2] {
        if leaves { [[inside, peer], [outside, peer]] } else { [[peer, outside], [peer, inside]] }
    }
}

/// A worker of a firewall.
pub(super) struct Judging {
    reader: Reader<Firewall>,
    hits: Hits,
    ahead: Vec<firewall::Ahead>,
    decisions: Vec<Option<Decision>>,
}

impl Sessions for Firewall {
    const NAME: &'static str = "nat.firewall";
    type Worker = Judging;

    fn new(shape: &Shape, seed: u64) -> Result<Firewall, Error> {
        let rules = "zone inside m0\nzone outside m1\naccept from inside to outside";
        let text = format!("{rules}\nconnections {}", shape.sessions());
        let reading = firewall::read("bench", &text, std::path::Path::new("."));
        let policy = reading.policy.ok_or_else(|| Error::configuration(reading.diagnostics))?;
        let ruleset = firewall::Ruleset::new(policy).map_err(Error::nothing)?;
        Ok(Firewall::new(Arc::new(ruleset), seed))
    }

    fn worker(firewall: &ReadMostly<Firewall>) -> Judging {
        let mut hits = Hits::default();
        firewall.write().collect(&mut hits);
        Judging { reader: firewall.reader(), hits, ahead: Vec::new(), decisions: Vec::new() }
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn end_old(&mut self, now_ns: u64, looks: usize) {
        self.reap(now_ns, looks);
    }

    fn idle_ns(&self, protocol: Protocol) -> u64 {
        let timeouts = &self.ruleset().policy.timeouts;
        if protocol == Protocol::Tcp { timeouts.tcp } else { timeouts.udp }
    }

    #[inline(never)]
    fn pass(worker: &mut Judging, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize {
        let Judging { reader, hits, ahead, decisions } = worker;
        let (most, [from, to]) = (2 * batch.len() + 8, if leaves { [1, 2] } else { [2, 1] });
        decisions.clear();
        {
            let mut firewall = reader.read();
            if firewall.is_due(now_ns) {
                drop(firewall);
                reader.lock().write().reap(now_ns, most);
                firewall = reader.read();
            }
            firewall.look_ahead(
                batch.iter().map(|packet| firewall::Arrival {
                    ip: &packet[..],
                    from,
                    to,
                    vrfs: [0; 2],
                    mac: None,
                }),
                ahead,
            );
            let mut put_off = firewall::PutOff::default();
            let decide = |ahead| firewall.decide_shared(now_ns, ahead, hits, &mut put_off);
            decisions.extend(ahead.iter().map(decide));
        }
        if decisions.iter().any(Option::is_none) {
            let mut firewall = reader.lock().write();
            firewall.reap(now_ns, most);
            for ((packet, ahead), decision) in batch.iter().zip(&*ahead).zip(&mut *decisions) {
                decision.get_or_insert_with(|| firewall.judge_ahead(now_ns, ahead, packet));
            }
        }
        let passes = |one: &&Option<Decision>| one.is_some_and(|one| one.verdict == Verdict::Pass);
        black_box(decisions.iter().filter(passes).count())
    }

    fn ends([inside, peer]: Ends, _: (u32, u16), leaves: bool) -> [Ends; 2] {
        if leaves { [[inside, peer]; 2] } else { [[peer, inside]; 2] }
    }
}

/// A load balancer with room for what it knows about a batch. Packets that leave are those of clients.
pub(super) struct Shared {
    balancer: Balancer,
    ahead: Vec<balance::Ahead>,
}

impl Subject for Shared {
    const NAME: &'static str = "nat.balance";

    fn new(shape: &Shape, seed: u64) -> Result<Shared, Error> {
        let protocol = shape.protocol.name();
        let text = format!(
            "service a {protocol} 192.0.2.80 port 80\nserver a {SERVERS}\nsessions {}",
            shape.sessions()
        );
        let reading = balance::read("bench", &text);
        let policy = reading.policy.ok_or_else(|| Error::configuration(reading.diagnostics))?;
        Ok(Shared { balancer: Balancer::new(Arc::new(policy), seed, 0), ahead: Vec::new() })
    }

    fn len(&self) -> usize {
        self.balancer.len()
    }

    fn reap(&mut self, now_ns: u64, looks: usize) {
        self.balancer.reap(now_ns, looks);
    }

    fn idle_ns(&self, protocol: Protocol) -> u64 {
        let timeouts = &self.balancer.policy().timeouts;
        if protocol == Protocol::Tcp { timeouts.tcp } else { timeouts.udp }
    }

    #[inline(never)]
    fn pass(&mut self, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize {
        let Shared { balancer, ahead } = self;
        balancer.reap(now_ns, 2 * batch.len() + 8);
        balancer.look_ahead(batch.iter().map(|packet| &packet[..]), Stage::Only, ahead);
        let mut passed = 0;
        for (packet, ahead) in batch.iter_mut().zip(&*ahead) {
            passed += usize::from(match balancer.arriving(now_ns, packet, ahead) {
                balance::Outcome::Translated(_) => leaves,
                balance::Outcome::Answered => !leaves,
                _ => false,
            });
        }
        black_box(passed)
    }

    fn ends([client, _]: Ends, server: (u32, u16), leaves: bool) -> [Ends; 2] {
        if leaves { [[client, SERVICE], [client, server]] } else { [[server, client], [SERVICE, client]] }
    }

    fn learn(ends: Ends) -> (u32, u16) {
        ends[1]
    }
}
