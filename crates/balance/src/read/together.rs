// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with statements that are right by themselves.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use lang::{Diagnostic, Severity};

use super::Reader;
use crate::policy::{Kind, PROBES_MAX, SECOND, Service};

/// Ports of all services together at most, services without ports apart.
const PORTS_MAX: u64 = 1 << 16;

impl Reader {
    pub(super) fn check_together(&mut self) {
        self.check_ports();
        self.check_addresses();
        self.check_load();
        for at in 0..self.policy.services.len() {
            self.check_probes(at);
            let name = &self.policy.services[at].name;
            if self.policy.services[at].servers.is_empty() && self.faults.errors() == 0 {
                let message = format!("service '{name}' has no server: its packets are dropped");
                let help = format!("add `server {name} ADDRESS`");
                self.strange("W0801", at, message, help);
            }
            self.check_weights(at);
        }
    }

    /// Adds a warning about a service.
    fn strange(&mut self, code: &'static str, at: usize, message: String, help: impl Into<String>) {
        let strange = Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, message) };
        self.faults.strange(strange.at(self.spans[at]).help(help));
    }

    /// Each server has a place of the table at least. With very different weights that is more than its share.
    fn check_weights(&mut self, at: usize) {
        let service = &self.policy.services[at];
        let sum: u64 = service.servers.iter().map(|one| u64::from(one.weight)).sum();
        let places = service.table_size();
        let is_less = |weight: u16| weight > 0 && u64::from(weight) * u64::from(places) < sum;
        let Some(one) = service.servers.iter().find(|one| is_less(one.weight)) else { return };
        let message = format!(
            "server {} of '{}' gets more than its weight says: one of {places} places",
            one.address, service.name
        );
        self.strange("W0802", at, message, "give it a larger weight, or others smaller ones");
    }

    /// Each port of an address belongs to one service.
    fn check_ports(&mut self) {
        let services = &self.policy.services;
        let count = |(low, high): &(u16, u16)| u64::from(high - low) + 1;
        let ports: u64 = services.iter().flat_map(|service| &service.ports).map(count).sum();
        if ports > PORTS_MAX {
            let message = format!("the services have {ports} ports, more than {PORTS_MAX}");
            self.faults.wrong(self.spans[0], message, "leave `port` out in services for all ports");
            return;
        }
        let mut owners: HashMap<(IpAddr, Option<u8>, u16), usize> = HashMap::new();
        let mut clashes = Vec::new();
        for (at, service) in services.iter().enumerate() {
            // Port 0 stands for all.
            let ranges = if service.ports.is_empty() { &[(0, 0)][..] } else { &service.ports };
            for port in ranges.iter().flat_map(|(low, high)| *low..=*high) {
                if let Some(other) = owners.insert((service.address, service.protocol, port), at) {
                    clashes.push((at, other, port));
                    break;
                }
            }
        }
        for (at, other, port) in clashes {
            let (one, two) = (&self.policy.services[at].name, &self.policy.services[other].name);
            let what = if port == 0 { "all other ports".to_owned() } else { format!("port {port}") };
            let message = match at == other {
                true => format!("{what} of service '{one}' is listed twice"),
                false => format!("{what} would belong to '{one}' and to '{two}'"),
            };
            self.faults.wrong(self.spans[at], message, "leave the port out in one place");
            self.faults.note(Some(self.spans[other]), "the other one");
        }
    }

    /// A server has another address than a service.
    fn check_addresses(&mut self) {
        let virtual_ones: HashSet<IpAddr> = self.policy.services.iter().map(|one| one.address).collect();
        for (service, span) in self.policy.services.iter().zip(&self.spans) {
            if let Some(server) = service.servers.iter().find(|one| virtual_ones.contains(&one.address)) {
                let message = format!(
                    "server {} of '{}' has the address of a service: its packets would go in a circle",
                    server.address, service.name
                );
                self.faults.wrong(*span, message, "name the server by an address of its own");
            }
        }
    }

    /// More probes than there is time for would be late.
    fn check_load(&mut self) {
        let probes = |service: &Service| match service.check {
            Some(check) => service.servers.len() as u64 * SECOND / check.every_ns.max(1),
            None => 0,
        };
        let all = self.policy.services.iter().map(probes);
        let sum: u64 = all.clone().sum();
        let Some((at, _)) = all.enumerate().max_by_key(|(_, probes)| *probes) else { return };
        if sum > PROBES_MAX {
            let message =
                format!("the checks send {sum} probes a second, more than {PROBES_MAX}: they come late");
            self.strange("W0803", at, message, "write a longer `every`, or fewer servers");
        }
    }

    /// Probes need an address to come from, and a port to go to.
    fn check_probes(&mut self, at: usize) {
        let service = &self.policy.services[at];
        let Some(check) = service.check else { return };
        let span = self.spans[at];
        if self.policy.own_for(service.address).is_none() {
            let family = if service.address.is_ipv6() { "IPv6" } else { "IPv4" };
            let message = format!("the checks of '{}' have no {family} address to come from", service.name);
            self.faults.wrong(
                span,
                message,
                "add `own ADDRESS`, with an address of the router towards the servers",
            );
            return;
        }
        let lacks_port = service.servers.iter().any(|server| service.checked_port(server).is_none());
        if matches!(check.kind, Kind::Tcp(_)) && lacks_port {
            let message = format!("the checks of '{}' have no port", service.name);
            self.faults.wrong(
                span,
                message,
                format!("write `check {} tcp port PORT`, or icmp", service.name),
            );
        }
    }
}
