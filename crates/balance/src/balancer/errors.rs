// SPDX-License-Identifier: MIT OR Apache-2.0
//! ICMP errors go where the packets that they quote came from, and quote them as their sender knows them (RFC 5508, 4).

use std::net::IpAddr;

use tables::flow::FlowKey6;

use super::{Balancer, CLIENTS, Outcome, SERVERS, role};
use crate::packet::{End, Quoted, View, address, rewrite_address, rewrite_quoted};
use crate::policy::Mode;

/// The key of an answer to the packet that is quoted.
fn answer(quoted: &Quoted, zone: u16) -> FlowKey6 {
    let [sport, dport] = quoted.ports;
    FlowKey6 { src: quoted.source, dst: quoted.destination, sport, dport, proto: quoted.protocol(), zone }
        .reversed()
}

impl Balancer {
    /// An error about a packet that a service has sent to a client: it is for the server.
    pub(super) fn error_in(&self, now_ns: u64, ip: &mut [u8], view: &View, quoted: &Quoted) -> Outcome {
        let key = answer(quoted, CLIENTS);
        if quoted.source != view.destination {
            return Outcome::Unchanged;
        }
        let known = self.sessions.lookup(&key).and_then(|hit| self.stays(now_ns, hit.id, 0));
        let by_hash = || {
            let service = self.service_of(key.proto, key.dst, key.dport)?;
            self.server_for(now_ns, service, key.src, self.hash(service, &key))
        };
        let Some(slot) = known.or_else(by_hash) else { return Outcome::Unchanged };
        let slot = &self.slots[slot as usize];
        let server: IpAddr = address(slot.address);
        if slot.mode == Mode::Direct {
            return Outcome::Direct(server);
        }
        rewrite_quoted(ip, view, quoted, End::Source, slot.address, slot.port.unwrap_or(key.dport));
        rewrite_address(ip, view, End::Destination, slot.address);
        Outcome::Translated(server)
    }

    /// An error about a packet that was sent to a server: its client knows the service alone.
    pub(super) fn error_out(&self, now_ns: u64, ip: &mut [u8], view: &View, quoted: &Quoted) -> Outcome {
        let found = self.sessions.lookup(&answer(quoted, SERVERS)).and_then(|hit| self.sessions.flow(hit.id));
        let is_its = |client: u128| quoted.source == view.destination && client == view.destination;
        let Some(flow) = found.filter(|flow| flow.expires_ns > now_ns && is_its(flow.forward.src)) else {
            // The client of a service may itself be a server of another one.
            let is_from_service = self.role(quoted.source) & role::VIRTUAL != 0;
            return if is_from_service {
                self.error_in(now_ns, ip, view, quoted)
            } else {
                Outcome::Unchanged
            };
        };
        rewrite_quoted(ip, view, quoted, End::Destination, flow.forward.dst, flow.forward.dport);
        if view.source == quoted.destination {
            rewrite_address(ip, view, End::Source, flow.forward.dst);
        }
        Outcome::Answered
    }
}
