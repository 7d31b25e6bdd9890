// SPDX-License-Identifier: MIT OR Apache-2.0
//! A world of bridges on simulated time, for tests: networks that delay messages, fail and return, each bridge with seconds
//! that begin when it likes; and a judge that computes the tree in another way.

use std::collections::BTreeMap;

use super::*;

/// A port: bridge, and port number.
type At = (usize, u16);

/// A network to which ports are attached: a link, if there are two.
#[derive(Clone, Debug)]
pub struct Lan {
    pub ports: Vec<At>,
    pub up: bool,
    /// Counts how often it went down: what was on its way is lost.
    epoch: u32,
}

#[derive(Clone, Debug)]
enum Event {
    Second(usize),
    Deliver(At, Bpdu, usize, u32),
    Flip(usize),
}

pub struct World {
    pub bridges: Vec<Bridge>,
    pub lans: Vec<Lan>,
    /// By time in milliseconds, and number.
    events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    rng: fastrand::Rng,
    delay_ms_max: u64,
    /// When the last message on its way from one port to another arrives: they do not overtake.
    last: BTreeMap<(At, At), u64>,
    pub now_ms: u64,
    /// What ports let through, as the outputs said.
    pub states: BTreeMap<At, State>,
    /// How often forwarding ports formed a ring.
    pub rings: u64,
    /// For how long, in all.
    pub ring_ms: u64,
    pub changed_ms: u64,
}

impl World {
    pub fn new(configs: Vec<BridgeConfig>, seed: u64, delay_ms_max: u64) -> World {
        let mut world = World {
            bridges: configs.into_iter().map(Bridge::new).collect(),
            lans: Vec::new(),
            events: BTreeMap::new(),
            numbers: 0,
            rng: fastrand::Rng::with_seed(seed),
            delay_ms_max,
            last: BTreeMap::new(),
            now_ms: 0,
            states: BTreeMap::new(),
            rings: 0,
            ring_ms: 0,
            changed_ms: 0,
        };
        for bridge in 0..world.bridges.len() {
            let phase = world.rng.u64(0..1000);
            world.at(phase, Event::Second(bridge));
        }
        world
    }

    fn at(&mut self, ms: u64, event: Event) {
        self.numbers += 1;
        self.events.insert((ms, self.numbers), event);
    }

    /// Attaches new ports to a new network, which is down.
    pub fn lan(&mut self, attached: &[(usize, PortConfig)]) {
        let mut ports = Vec::new();
        for (bridge, config) in attached {
            let number = self.bridges[*bridge].ports().last().map_or(1, |port| port.number() + 1);
            let point_to_point = attached.len() == 2;
            self.bridges[*bridge].add_port(number, PortConfig { point_to_point, ..*config });
            ports.push((*bridge, number));
        }
        self.lans.push(Lan { ports, up: false, epoch: 0 });
    }

    /// Has a network fail or return in so many milliseconds.
    pub fn flip_after(&mut self, ms: u64, lan: usize) {
        self.at(self.now_ms + ms, Event::Flip(lan));
    }

    fn flip(&mut self, lan: usize) {
        let network = &mut self.lans[lan];
        network.up = !network.up;
        network.epoch += u32::from(!network.up);
        let up = network.up;
        for (bridge, port) in network.ports.clone() {
            self.bridges[bridge].set_link(port, up);
            self.carry_out(bridge);
        }
    }

    fn carry_out(&mut self, bridge: usize) {
        let outputs: Vec<Output> = self.bridges[bridge].outputs().collect();
        for output in outputs {
            match output {
                Output::Send { port, bpdu } => self.send((bridge, port), bpdu),
                Output::State { port, state } => {
                    self.states.insert((bridge, port), state);
                    self.changed_ms = self.now_ms;
                    self.rings += u64::from(self.has_ring());
                }
                Output::Flush { .. } | Output::Ageing(_) => {}
            }
        }
    }

    fn send(&mut self, from: At, bpdu: Bpdu) {
        for lan in 0..self.lans.len() {
            let Lan { ports, up: true, epoch } = self.lans[lan].clone() else { continue };
            if !ports.contains(&from) {
                continue;
            }
            for to in ports.into_iter().filter(|to| *to != from) {
                let delay = self.rng.u64(0..=self.delay_ms_max);
                let before = self.last.get(&(from, to)).copied().unwrap_or(0);
                let when = before.max(self.now_ms + delay);
                self.last.insert((from, to), when);
                self.at(when, Event::Deliver(to, bpdu, lan, epoch));
            }
        }
    }

    /// Lets time pass.
    pub fn run_ms(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while let Some(entry) = self.events.first_entry() {
            let (when, _) = *entry.key();
            if when > end {
                break;
            }
            let event = entry.remove();
            if when > self.now_ms && self.has_ring() {
                self.ring_ms += when - self.now_ms;
            }
            self.now_ms = when;
            match event {
                Event::Second(bridge) => {
                    self.bridges[bridge].second();
                    self.carry_out(bridge);
                    self.at(when + 1000, Event::Second(bridge));
                }
                Event::Deliver((bridge, port), bpdu, lan, epoch) => {
                    if self.lans[lan].epoch == epoch {
                        // Through bytes, as it would be.
                        let frame = bpdu.emit_frame(self.bridges[bridge].config().address);
                        let payload = wire::stp::payload_of_frame(&frame).unwrap();
                        let view = wire::stp::View::new_checked(payload).unwrap();
                        if let Ok(bpdu) = Bpdu::parse(&view) {
                            let _ = self.bridges[bridge].receive(port, &bpdu);
                            self.carry_out(bridge);
                        }
                    }
                }
                Event::Flip(lan) => self.flip(lan),
            }
        }
        self.now_ms = end;
    }

    fn forwards(&self, at: &At) -> bool {
        self.states.get(at) == Some(&State::Forwarding)
    }

    /// Bridges and networks that forwarding ports connect: of each, the least node it reaches. Networks count behind bridges.
    fn islands(&self) -> (Vec<usize>, bool) {
        let mut island: Vec<usize> = (0..self.bridges.len() + self.lans.len()).collect();
        let mut ring = false;
        for (lan, network) in self.lans.iter().enumerate().filter(|(_, network)| network.up) {
            for at in network.ports.iter().filter(|at| self.forwards(at)) {
                let (a, b) = (island[at.0], island[self.bridges.len() + lan]);
                ring |= a == b;
                island.iter_mut().filter(|i| **i == a.max(b)).for_each(|i| *i = a.min(b));
            }
        }
        (island, ring)
    }

    /// Whether a broadcast would go round for ever.
    pub fn has_ring(&self) -> bool {
        self.islands().1
    }

    /// The role of each port in the end, and so which ports are to forward. It follows the definition of the tree (17.1 to 17.7), not
    /// its protocol. Costs from the roots are relaxed until nothing improves. Then each network gets its best port, and each bridge its
    /// best network.
    pub fn tree(&self) -> BTreeMap<At, Role> {
        let id = |bridge: usize| self.bridges[bridge].id();
        let port = |at: &At| self.bridges[at.0].port(at.1).unwrap();
        let cost_of = |at: &At| u64::from(port(at).config().path_cost);
        let up: Vec<&Lan> = self.lans.iter().filter(|lan| lan.up).collect();
        let mut roots: Vec<(BridgeId, u64)> = (0..self.bridges.len()).map(|b| (id(b), 0)).collect();
        for _ in 0..=self.bridges.len() {
            for lan in &up {
                let Some(best) = lan.ports.iter().map(|at| roots[at.0]).min() else { continue };
                for at in &lan.ports {
                    roots[at.0] = roots[at.0].min((best.0, best.1 + cost_of(at)));
                }
            }
        }
        let mut roles = BTreeMap::new();
        let key = |at: &At| (roots[at.0], id(at.0), port(at).id());
        for lan in &up {
            let best = lan.ports.iter().min_by_key(|at| key(at)).unwrap();
            for at in &lan.ports {
                let role = if at == best {
                    Role::Designated
                } else if at.0 == best.0 {
                    Role::Backup
                } else {
                    Role::Alternate
                };
                roles.insert(*at, role);
            }
        }
        for bridge in 0..self.bridges.len() {
            let ways = up.iter().flat_map(|lan| {
                let best = lan.ports.iter().min_by_key(|at| key(at)).unwrap();
                lan.ports.iter().filter(|at| at.0 != best.0).map(|at| {
                    let ((root, cost), sender, sender_port) = key(best);
                    ((root, cost + cost_of(at), sender, sender_port, port(at).id()), *at)
                })
            });
            let way = ways.filter(|(_, at)| at.0 == bridge).min();
            if let Some(((root, ..), at)) = way
                && root < id(bridge)
            {
                roles.insert(at, Role::Root);
            }
        }
        roles
    }

    /// Holds the world against its tree.
    pub fn differences(&self) -> Vec<String> {
        let mut differences = Vec::new();
        for (at, role) in self.tree() {
            let port = self.bridges[at.0].port(at.1).unwrap();
            let expected = if role.is_active() { State::Forwarding } else { State::Discarding };
            if port.role() != role || self.states[&at] != expected || port.state() != expected {
                differences.push(format!("{at:?}: {role:?} is {:?} {:?}", port.role(), self.states[&at]));
            }
        }
        // Everybody reaches all they are connected to.
        let (by_tree, ring) = self.islands();
        if ring {
            differences.push("a ring".to_owned());
        }
        for lan in self.lans.iter().filter(|lan| lan.up) {
            if lan.ports.iter().any(|at| by_tree[at.0] != by_tree[lan.ports[0].0]) {
                differences.push(format!("{:?} are apart", lan.ports));
            }
        }
        differences
    }
}
