// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two routers with tables of a model, and a network between them that loses, doubles and reorders.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fastrand::Rng;
use proptest::prelude::*;

use super::*;
use crate::frame::{DATAGRAM_MAX, Op, Records, record};
use crate::outbound::WINDOW;

const MS: u64 = 1_000_000;
/// Changes that wait, at most: few, so that they overflow.
const QUEUE: usize = 40;

fn key() -> Key {
    Key::new(&[9; 32]).unwrap()
}

/// A router: sessions of its own, those of its peer, changes that wait.
struct Router {
    link: Link,
    own: BTreeMap<u16, u32>,
    mirrored: BTreeMap<u16, u32>,
    marked: BTreeSet<u16>,
    changes: VecDeque<(Op, u16, u32)>,
    /// Sessions that are still to be sent of a stream's beginning.
    walk: Option<u16>,
    begins: bool,
}

impl Router {
    fn new(epoch: u64) -> Router {
        let none = BTreeMap::new();
        Router {
            link: Link::new(Settings::default(), key(), epoch),
            own: none.clone(),
            mirrored: none,
            marked: BTreeSet::new(),
            changes: VecDeque::new(),
            walk: None,
            begins: false,
        }
    }

    fn change(&mut self, op: Op, session: u16, value: u32) {
        match op {
            Op::Put => drop(self.own.insert(session, value)),
            _ => drop(self.own.remove(&session)),
        }
        if self.changes.len() == QUEUE {
            self.link.restart();
        } else {
            self.changes.push_back((op, session, value));
        }
    }

    fn take(&mut self, records: &[u8]) {
        for one in Records::of(records) {
            let session = || u16::from_be_bytes(one.body[..2].try_into().unwrap());
            match one.op.unwrap() {
                Op::Put => {
                    let value = u32::from_be_bytes(one.body[2..].try_into().unwrap());
                    self.marked.remove(&session());
                    self.mirrored.insert(session(), value);
                }
                Op::End => drop(self.mirrored.remove(&session())),
                Op::Over => {
                    for gone in std::mem::take(&mut self.marked) {
                        self.mirrored.remove(&gone);
                    }
                }
                _ => {}
            }
        }
    }

    fn tasks(&mut self) {
        match self.link.task() {
            Some(Task::Adopt) => {
                // The model keeps what is adopted apart, so that the tables can be compared: it is forgotten.
                self.mirrored.clear();
                self.marked.clear();
            }
            Some(Task::Mark) => self.marked = self.mirrored.keys().copied().collect(),
            None => return,
        }
        self.link.done();
    }

    /// The next records, if there are any.
    fn records(&mut self) -> Vec<u8> {
        let mut records = Vec::new();
        if std::mem::take(&mut self.begins) {
            record(&mut records, Op::Begin, 0, b"");
        }
        for _ in 0..8 {
            if let Some((op, session, value)) = self.changes.pop_front() {
                record(&mut records, op, 0, &[&session.to_be_bytes()[..], &value.to_be_bytes()].concat());
            }
        }
        if let Some(from) = self.walk {
            for (session, value) in self.own.range(from..).take(20) {
                record(
                    &mut records,
                    Op::Put,
                    0,
                    &[&session.to_be_bytes()[..], &value.to_be_bytes()].concat(),
                );
            }
            self.walk = self.own.range(from..).nth(20).map(|(session, _)| *session);
            if self.walk.is_none() {
                record(&mut records, Op::Over, 0, b"");
            }
        }
        records
    }

    fn round(&mut self, now: u64, put: &mut impl FnMut(&[u8])) {
        let mut datagram = Vec::new();
        self.tasks();
        if self.link.take_restart(now) {
            self.changes.clear();
            (self.walk, self.begins) = (Some(0), true);
        }
        while self.link.has_room() {
            let records = self.records();
            if records.is_empty() {
                break;
            }
            self.link.send(now, &records, &mut datagram);
            put(&datagram);
        }
        for _ in 0..8 {
            if !self.link.poll(now, &mut datagram) {
                break;
            }
            put(&datagram);
        }
        assert!(self.link.lag(now).0 <= WINDOW && datagram.len() <= DATAGRAM_MAX);
        assert!(self.link.retired.len() <= RETIRED);
    }
}

/// What the network does, in per cent.
#[derive(Clone, Copy, Debug)]
struct Network {
    loses: u8,
    doubles: u8,
    delays: u8,
}

struct World {
    routers: [Router; 2],
    /// Datagrams on their way to each, with the time at which they arrive.
    wires: [Vec<(u64, Vec<u8>)>; 2],
    now: u64,
    rng: Rng,
    network: Network,
    next_epoch: u64,
    /// The router that hears nothing.
    deaf: Option<usize>,
}

impl World {
    fn new(seed: u64, network: Network) -> World {
        let routers = [Router::new(11), Router::new(22)];
        World {
            routers,
            wires: [vec![], vec![]],
            now: 0,
            rng: Rng::with_seed(seed),
            network,
            next_epoch: 100,
            deaf: None,
        }
    }

    fn step(&mut self) {
        self.now += MS;
        for from in 0..2 {
            let (rng, wire, now, network) =
                (&mut self.rng, &mut self.wires[1 - from], self.now, self.network);
            self.routers[from].round(now, &mut |datagram| {
                for _ in 0..1 + u8::from(rng.u8(..100) < network.doubles) {
                    if rng.u8(..100) >= network.loses {
                        let delay = if rng.u8(..100) < network.delays { rng.u64(..20 * MS) } else { 0 };
                        wire.push((now + delay, datagram.to_vec()));
                    }
                }
            });
        }
        for to in 0..2 {
            let (due, later): (Vec<_>, Vec<_>) =
                self.wires[to].drain(..).partition(|(at, _)| *at <= self.now);
            self.wires[to] = later;
            for (_, datagram) in due.into_iter().filter(|_| self.deaf != Some(to)) {
                if let Ok(records) = self.routers[to].link.receive(self.now, &datagram) {
                    let records = records.to_vec();
                    self.routers[to].take(&records);
                }
            }
        }
    }

    fn change(&mut self) {
        let router = self.rng.usize(..2);
        // Each has sessions of its own.
        let session = self.rng.u16(..300) * 2 + router as u16;
        let op = if self.rng.u8(..3) > 0 { Op::Put } else { Op::End };
        let value = self.rng.u32(..);
        self.routers[router].change(op, session, value);
    }

    fn restart(&mut self, router: usize) {
        self.next_epoch += 1;
        self.routers[router] = Router::new(self.next_epoch);
    }

    fn converge(&mut self) {
        for _ in 0..20_000 {
            self.step();
            let [one, other] = &self.routers;
            let is_calm =
                [one, other].iter().all(|r| r.link.is_up() && r.link.lag(0).0 == 0 && r.walk.is_none());
            if is_calm && one.mirrored == other.own && other.mirrored == one.own {
                return;
            }
        }
        let [one, other] = &self.routers;
        let differ = |mirrored: &BTreeMap<u16, u32>, own: &BTreeMap<u16, u32>| {
            mirrored.iter().filter(|(session, value)| own.get(session) != Some(value)).count()
                + own.keys().filter(|session| !mirrored.contains_key(session)).count()
        };
        let differ = [differ(&one.mirrored, &other.own), differ(&other.mirrored, &one.own)];
        panic!("{differ:?} differ: {:?} {:?}", one.link.counts(), other.link.counts());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn tables_converge(seed in any::<u64>(), loses in 0u8..40, doubles in 0u8..40, delays in 0u8..60, restarts in any::<bool>()) {
        let mut world = World::new(seed, Network { loses, doubles, delays });
        for _ in 0..4 {
            for _ in 0..200 {
                let changes = if world.rng.u8(..50) == 0 { 120 } else { world.rng.usize(..3) };
                (0..changes).for_each(|_| world.change());
                world.step();
                if restarts && world.rng.u8(..100) == 0 {
                    let router = world.rng.usize(..2);
                    world.restart(router);
                }
            }
            world.converge();
        }
    }
}

#[test]
fn a_link_that_is_cut_comes_back() {
    let mut world = World::new(1, Network { loses: 0, doubles: 0, delays: 0 });
    (0..200).for_each(|_| world.change());
    world.converge();
    world.network.loses = 100;
    for _ in 0..5000 {
        world.change();
        world.step();
    }
    assert!(world.routers.iter().all(|router| !router.link.is_up() && router.mirrored.is_empty()));
    world.network.loses = 0;
    world.converge();
    // One direction alone.
    world.deaf = Some(0);
    for _ in 0..3000 {
        world.change();
        world.step();
    }
    assert!(!world.routers[0].link.is_up() && world.routers[1].link.is_up());
    world.deaf = None;
    world.converge();
    assert!(world.routers.iter().all(|router| router.link.counts().streams < 8), "no stream after stream");
}

#[test]
fn without_changes_nothing_but_hellos_is_sent() {
    let mut world = World::new(1, Network { loses: 0, doubles: 0, delays: 0 });
    (0..200).for_each(|_| world.change());
    world.converge();
    let before = world.routers[0].link.counts().sent;
    (0..2000).for_each(|_| world.step());
    assert_eq!(world.routers[0].link.counts().sent - before, 10);
    assert_eq!(world.routers[0].link.counts().resent, 0);
    // The next thing to be done is the next hello.
    let due = world.routers[0].link.due();
    assert!(due > world.now && due <= world.now + Settings::default().hello_ns);
}

#[test]
fn replays_are_refused() {
    let mut world = World::new(1, Network { loses: 0, doubles: 0, delays: 0 });
    let mut heard = Vec::new();
    (0..50).for_each(|_| world.change());
    for _ in 0..3000 {
        world.step();
        world.routers[1].round(world.now, &mut |datagram| heard.push(datagram.to_vec()));
        heard.drain(..).for_each(|datagram| world.wires[0].push((0, datagram)));
        if world.now == 2000 * MS {
            world.restart(1);
        }
    }
    world.converge();
    // Everything that the second router says from now on, and what it said before its restart.
    let mut all = Vec::new();
    for _ in 0..1000 {
        world.change();
        world.step();
        world.routers[1].round(world.now, &mut |datagram| all.push(datagram.to_vec()));
        all.iter().rev().take(3).for_each(|datagram| world.wires[0].push((0, datagram.clone())));
    }
    world.converge();
    let (own, before) = (world.routers[1].own.clone(), *world.routers[0].link.counts());
    for datagram in &all {
        assert_eq!(world.routers[0].link.receive(world.now, datagram), Err(Refusal::Replayed));
    }
    assert_eq!(world.routers[0].mirrored, own);
    assert_eq!(world.routers[0].link.counts().received, before.received);
    // An earlier life, and ourselves.
    world.restart(1);
    world.converge();
    for datagram in all.iter().take(10) {
        assert_eq!(world.routers[0].link.receive(world.now, datagram), Err(Refusal::Retired));
    }
    let mut mine = Vec::new();
    world.routers[0].link.hello_at_ns = 0;
    world.routers[0].link.poll(world.now, &mut mine);
    assert_eq!(world.routers[0].link.receive(world.now, &mine), Err(Refusal::Reflected));
    let mut stranger = Link::new(Settings::default(), Key::new(&[8; 32]).unwrap(), 5);
    stranger.poll(0, &mut mine);
    assert_eq!(world.routers[0].link.receive(world.now, &mine), Err(Refusal::Tag));
    assert!(world.routers[0].link.is_up());
}
