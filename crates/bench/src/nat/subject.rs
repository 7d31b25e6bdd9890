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

/// A translator as one of its workers has it.
pub(super) struct Translator {
    nat: ReadMostly<Nat>,
    own: Translating,
}

/// A worker, with packets of a batch that are being decided on: room for those of the next.
pub(super) struct Translating {
    reader: Reader<Nat>,
    ahead: Vec<Ahead>,
    outcomes: Vec<Option<Outcome>>,
}

impl Translating {
    fn new(nat: &ReadMostly<Nat>) -> Translating {
        Translating { reader: nat.reader(), ahead: Vec::new(), outcomes: Vec::new() }
    }
}

impl Together for Translator {
    type Worker = Translating;

    fn worker(&self) -> Translating {
        Translating::new(&self.nat)
    }

    /// Packets of known sessions go by a shared reference, then the others by an exclusive one.
    #[inline(never)]
    fn pass_by(worker: &mut Translating, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize {
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
}

impl Subject for Translator {
    const NAME: &'static str = "nat";

    fn new(shape: &Shape, seed: u64) -> Result<Translator, Error> {
        let reading = ::nat::read("bench", &shape.statements().join("\n"));
        let policy = reading.policy.ok_or_else(|| Error::configuration(reading.diagnostics))?;
        let nat = ReadMostly::new(Nat::new(Arc::new(policy), &[], seed));
        Ok(Translator { own: Translating::new(&nat), nat })
    }

    fn len(&self) -> usize {
        self.nat.write().len()
    }

    fn reap(&mut self, now_ns: u64, looks: usize) {
        self.nat.write().reap(now_ns, looks);
    }

    fn idle_ns(&self, protocol: Protocol) -> u64 {
        let nat = self.nat.write();
        let timeouts = &nat.policy().timeouts;
        if protocol == Protocol::Tcp { timeouts.tcp } else { timeouts.udp }
    }

    fn pass(&mut self, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize {
        Translator::pass_by(&mut self.own, now_ns, batch, leaves)
    }

    fn ends([inside, peer]: Ends, outside: (u32, u16), leaves: bool) -> [Ends; 2] {
        if leaves { [[inside, peer], [outside, peer]] } else { [[peer, outside], [peer, inside]] }
    }

    fn learn(ends: Ends) -> (u32, u16) {
        ends[0]
    }
}

/// A firewall as one of its workers has it. Hosts inside may connect to those outside.
pub(super) struct Gate {
    firewall: ReadMostly<Firewall>,
    own: Judging,
}

/// A worker, with packets of a batch that are being decided on: room for those of the next.
pub(super) struct Judging {
    reader: Reader<Firewall>,
    hits: Hits,
    ahead: Vec<firewall::Ahead>,
    decisions: Vec<Option<Decision>>,
}

impl Judging {
    fn new(firewall: &ReadMostly<Firewall>) -> Judging {
        let mut hits = Hits::default();
        firewall.write().collect(&mut hits);
        Judging { reader: firewall.reader(), hits, ahead: Vec::new(), decisions: Vec::new() }
    }
}

impl Subject for Gate {
    const NAME: &'static str = "nat.firewall";

    fn new(shape: &Shape, seed: u64) -> Result<Gate, Error> {
        let rules = "zone inside m0\nzone outside m1\naccept from inside to outside";
        let text = format!("{rules}\nconnections {}", shape.sessions());
        let reading = firewall::read("bench", &text, std::path::Path::new("."));
        let policy = reading.policy.ok_or_else(|| Error::configuration(reading.diagnostics))?;
        let ruleset = firewall::Ruleset::new(policy).map_err(Error::nothing)?;
        let firewall = ReadMostly::new(Firewall::new(Arc::new(ruleset), seed));
        Ok(Gate { own: Judging::new(&firewall), firewall })
    }

    fn len(&self) -> usize {
        self.firewall.write().len()
    }

    fn reap(&mut self, now_ns: u64, looks: usize) {
        self.firewall.write().reap(now_ns, looks);
    }

    fn idle_ns(&self, protocol: Protocol) -> u64 {
        let firewall = self.firewall.write();
        let timeouts = &firewall.ruleset().policy.timeouts;
        if protocol == Protocol::Tcp { timeouts.tcp } else { timeouts.udp }
    }

    fn pass(&mut self, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize {
        Gate::pass_by(&mut self.own, now_ns, batch, leaves)
    }

    fn ends([inside, peer]: Ends, _: (u32, u16), leaves: bool) -> [Ends; 2] {
        if leaves { [[inside, peer]; 2] } else { [[peer, inside]; 2] }
    }

    fn learn(ends: Ends) -> (u32, u16) {
        ends[0]
    }
}

impl Together for Gate {
    type Worker = Judging;

    fn worker(&self) -> Judging {
        Judging::new(&self.firewall)
    }

    /// Packets of known connections go by a shared reference, then the others by an exclusive one.
    #[inline(never)]
    fn pass_by(worker: &mut Judging, now_ns: u64, batch: &mut [Bytes], leaves: bool) -> usize {
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
