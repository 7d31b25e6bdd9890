// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that others announce: data connections of FTP, and the answers of TFTP servers.
//!
//! An announced connection passes by the rule of the connection that announced it, its *parent*: once, soon, between the two hosts of the
//! parent, and between its zones. An address in a text must be the speaker's own, and the port no reserved one, so that nobody opens a way to another host or service.
//! A server's address counts only if its client has asked for it, so that a line in a listing opens nothing. Of each side what comes before the first end of
//! a line is not read. So nobody gains by control connections that give way, of which the rest of a line may come next.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;

use alg::ftp::{self, Form, Speaker};
use alg::lines::Lines;
use alg::tftp;

use crate::policy::{Algs, Facts, SECOND, TCP, UDP};

/// Control connections whose text is followed; the one that is followed longest gives way.
const CONTROLS: usize = 8192;
/// Announced connections that are awaited; the oldest gives way.
const AWAITED: usize = 8192;
/// How long one is awaited.
const PATIENCE_NS: u64 = 60 * SECOND;
/// Ports below are those of services.
const LOWEST: u16 = 1024;

/// Which protocol announced a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// FTP.
    Ftp,
    /// TFTP.
    Tftp,
}

impl Service {
    /// All, in the order of [`AnnouncedCounts`].
    pub const ALL: [Service; 2] = [Service::Ftp, Service::Tftp];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Service::Ftp => "ftp",
            Service::Tftp => "tftp",
        }
    }

    /// The port of its servers.
    pub fn port(self) -> u16 {
        match self {
            Service::Ftp => ftp::SERVER,
            Service::Tftp => tftp::PORT,
        }
    }

    /// The protocol below it.
    pub fn protocol(self) -> u8 {
        match self {
            Service::Ftp => TCP,
            Service::Tftp => UDP,
        }
    }

    /// The service whose packets a policy lets the firewall read, if these are some.
    #[inline]
    pub(super) fn of(algs: Algs, protocol: u8, ports: [u16; 2]) -> Option<Service> {
        let is_of = |service: Service| service.protocol() == protocol && ports.contains(&service.port());
        if algs.ftp && is_of(Service::Ftp) {
            Some(Service::Ftp)
        } else if algs.tftp && is_of(Service::Tftp) {
            Some(Service::Tftp)
        } else {
            None
        }
    }
}

/// The connection that announced another one between the same hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its protocol, which its server's port follows from.
    pub service: Service,
    /// The port of its client.
    pub client_port: u16,
    /// Whether the announced connection is from its server to its client.
    pub is_from_server: bool,
}

/// What has become of announcements of a protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnouncedCounts {
    /// Connections that were announced.
    pub announced: u64,
    /// Those that have started.
    pub begun: u64,
    /// Announcements of other hosts or of reserved ports, and those that nobody had asked for.
    pub refused: u64,
}

/// The two ends of a control connection, the client first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    /// The VRFs of the client's packets and of the server's.
    pub(super) vrfs: [u16; 2],
    pub(super) client: (IpAddr, u16),
    pub(super) server: (IpAddr, u16),
}

/// VRFs, seen from the other side.
pub(super) fn swapped([there, back]: [u16; 2]) -> [u16; 2] {
    [back, there]
}

/// An awaited connection: from any port of a host to a port of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Awaited {
    /// Of its packets and of their answers.
    vrfs: [u16; 2],
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
    port: u16,
}

#[derive(Clone, Copy, Debug)]
struct Announced {
    parent: Parent,
    ends_ns: u64,
}

/// What is known of a control connection of FTP.
#[derive(Clone, Copy, Debug, Default)]
struct Control {
    /// Of the client, and of the server.
    lines: [Lines; 2],
    /// Whether the client has asked the server to wait, and has no answer yet.
    is_asked: bool,
    /// The connection that is awaited: one at a time.
    awaits: Option<Awaited>,
}

/// A map of the last entries.
#[derive(Debug)]
struct Last<K, V> {
    most: usize,
    map: HashMap<K, (u64, V)>,
    /// The keys by their numbers: no others than those of the map.
    order: BTreeMap<u64, K>,
    next: u64,
}

impl<K: Copy + Eq + Hash, V> Last<K, V> {
    fn new(most: usize) -> Last<K, V> {
        Last { most, map: HashMap::new(), order: BTreeMap::new(), next: 0 }
    }

    /// An entry that is there becomes the last one, and no other gives way.
    fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        if self.map.len() >= self.most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.map.remove(&oldest);
        }
        self.order.insert(self.next, key);
        self.map.insert(key, (self.next, value));
        self.next += 1;
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key).map(|(_, value)| value)
    }

    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key).map(|(_, value)| value)
    }

    fn remove(&mut self, key: &K) {
        if let Some((number, _)) = self.map.remove(key) {
            self.order.remove(&number);
        }
    }
}

#[derive(Debug)]
pub(super) struct Related {
    controls: Last<Ends, Control>,
    awaited: Last<Awaited, Announced>,
    counts: [AnnouncedCounts; 2],
}

impl Default for Related {
    fn default() -> Related {
        Related { controls: Last::new(CONTROLS), awaited: Last::new(AWAITED), counts: Default::default() }
    }
}

impl Related {
    /// What has become of announcements, in the order of [`Service::ALL`].
    pub(super) fn counts(&self) -> [AnnouncedCounts; 2] {
        self.counts
    }

    /// Reads a segment of a control connection of FTP. `is_server` says who sends it.
    pub(super) fn read_ftp(&mut self, now_ns: u64, ends: Ends, is_server: bool, sequence: u32, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        if self.controls.get(&ends).is_none() {
            self.controls.insert(ends, Control::default());
        }
        let Related { controls, awaited, counts } = self;
        let Some(control) = controls.get_mut(&ends) else { return };
        let Control { lines, is_asked, awaits } = control;
        let speaker = if is_server { Speaker::Server } else { Speaker::Client };
        lines[usize::from(is_server)].feed(sequence, text, |line| {
            if !is_server {
                *is_asked |= ftp::asks_to_wait(line);
            }
            let (found, _) = ftp::commands(line, speaker);
            let Some(command) = found.first() else { return };
            let own = if is_server { ends.server.0 } else { ends.client.0 };
            let is_own = match command.address {
                Some(address) => address == own,
                None => command.form == Form::Epsv,
            };
            let is_expected = !is_server || std::mem::take(is_asked);
            let counts = &mut counts[Service::Ftp as usize];
            if !is_own || !is_expected || command.port < LOWEST {
                counts.refused += 1;
                return;
            }
            counts.announced += 1;
            let other = if is_server { ends.client.0 } else { ends.server.0 };
            let vrfs = if is_server { ends.vrfs } else { swapped(ends.vrfs) };
            let new = Awaited { vrfs, protocol: TCP, source: other, destination: own, port: command.port };
            if let Some(old) = awaits.replace(new).filter(|old| *old != new) {
                awaited.remove(&old);
            }
            let parent =
                Parent { service: Service::Ftp, client_port: ends.client.1, is_from_server: !is_server };
            awaited.insert(new, Announced { parent, ends_ns: now_ns + PATIENCE_NS });
        });
    }

    /// Reads what a client of TFTP sends.
    pub(super) fn read_tftp(&mut self, now_ns: u64, ends: Ends, payload: &[u8]) {
        if !tftp::is_request(payload) {
            return;
        }
        let counts = &mut self.counts[Service::Tftp as usize];
        let (client, port) = ends.client;
        if port < LOWEST {
            counts.refused += 1;
            return;
        }
        counts.announced += 1;
        let vrfs = swapped(ends.vrfs);
        let new = Awaited { vrfs, protocol: UDP, source: ends.server.0, destination: client, port };
        let parent = Parent { service: Service::Tftp, client_port: port, is_from_server: true };
        self.awaited.insert(new, Announced { parent, ends_ns: now_ns + PATIENCE_NS });
    }

    /// Who announced a connection that begins.
    #[inline]
    pub(super) fn find(&self, now_ns: u64, facts: &Facts) -> Option<Parent> {
        if self.awaited.map.is_empty() {
            return None;
        }
        let announced = self.awaited.get(&Related::key(facts)?)?;
        (now_ns < announced.ends_ns).then_some(announced.parent)
    }

    /// An announced connection has started: no other one will.
    pub(super) fn begun(&mut self, facts: &Facts) {
        let Some(key) = Related::key(facts) else { return };
        if let Some(announced) = self.awaited.get(&key) {
            self.counts[announced.parent.service as usize].begun += 1;
            self.awaited.remove(&key);
        }
    }

    fn key(facts: &Facts) -> Option<Awaited> {
        let (protocol, source, destination) = (facts.protocol, facts.source, facts.destination);
        Some(Awaited { vrfs: facts.vrfs, protocol, source, destination, port: facts.ports?[1] })
    }

    /// A connection begins: what was known of an earlier one between the same ends is over.
    pub(super) fn forget_earlier(&mut self, facts: &Facts) {
        let Some([from, to]) = facts.ports.filter(|_| !self.controls.map.is_empty()) else { return };
        if facts.protocol == TCP && to == ftp::SERVER {
            let (client, server) = ((facts.source, from), (facts.destination, to));
            self.forget(&Ends { vrfs: facts.vrfs, client, server });
        }
    }

    /// A control connection between these ends starts anew.
    pub(super) fn forget(&mut self, ends: &Ends) {
        self.controls.remove(ends);
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 4] {
        let (controls, awaited) = (&self.controls, &self.awaited);
        [controls.map.len(), controls.order.len(), awaited.map.len(), awaited.order.len()]
    }
}
