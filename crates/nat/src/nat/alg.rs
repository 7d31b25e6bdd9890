// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gateways of protocols that say addresses and ports in their text, or use other ones than a session has (RFC 2663, 2.9).
//!
//! FTP: an inside client or server says where it waits for a data connection. It gets an outside port there, and the text says that one. TFTP: a server answers from another
//! port than it was asked at.
//!
//! That somebody may come from any port of a peer is a session with port 0 of this peer. Packets never belong to it, but it keeps the mapping.

use tables::flow::{FlowKey, FlowTable};

use super::{Entry, INSIDE, Nat};
use crate::ftp::{Command, Form, Speaker};
use crate::packet::View;
use crate::policy::{TCP, UDP};
use crate::stream::{self, Stream};

/// Where FTP servers wait.
const FTP: u16 = 21;
/// Where TFTP servers wait.
const TFTP: u16 = 69;

/// What gateways have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlgCounts {
    /// Addresses and ports of FTP that have been replaced, those sent again among them.
    pub ftp_rewritten: u64,
    /// Those that were left as they were: of other hosts, or without a port that was free.
    pub ftp_left: u64,
}

impl Nat {
    /// Whether the text of a session is looked at.
    pub(super) fn is_watched(&self, forward: &FlowKey) -> bool {
        self.policy.algs.ftp && forward.proto == TCP && (forward.dport == FTP || forward.sport == FTP)
    }

    /// Who speaks from inside in a session that is watched, by its number.
    pub fn speaker(&self, number: u32) -> Option<Speaker> {
        let flow = self.sessions.numbered(number).filter(|flow| flow.value.is_watched)?;
        Some(if flow.forward.dport == FTP { Speaker::Client } else { Speaker::Server })
    }

    /// The text that shall stand in place of an address and port which the inside end of a session has sent; `seq` is the sequence number of the
    /// payload. None where it stays.
    pub fn replacement(&mut self, now_ns: u64, number: u32, seq: u32, command: &Command) -> Option<Vec<u8>> {
        let text = self.find_replacement(now_ns, number, seq, command);
        match text {
            Some(_) => self.algs.ftp_rewritten += 1,
            None => self.algs.ftp_left += 1,
        }
        text
    }

    fn find_replacement(&mut self, now_ns: u64, number: u32, seq: u32, command: &Command) -> Option<Vec<u8>> {
        let at = |offset: usize| seq.wrapping_add(offset as u32);
        let (line, end) = (at(command.line), at(command.argument.end));
        let forward = self.sessions.numbered(number)?.forward;
        if let Some(text) = self.streams.get(&number).and_then(|streams| streams[0].text_at(end)) {
            return Some(text.to_vec());
        }
        // Nobody opens ways to other hosts.
        let own = self.subscribers.hosts.name(forward.src);
        if command.address.is_some_and(|address| address != own) {
            return None;
        }
        let outside = self.expect(now_ns, TCP, (forward.src, command.port), forward.dst)?;
        let form = match command.form {
            // A passive server inside that says a port alone: its client knows the address.
            Form::Epsv if outside.0 != self.sessions.numbered(number)?.reply.dst => return None,
            form => form,
        };
        let text = form.text(outside.0.into(), outside.1);
        let streams = self.streams.entry(number).or_default();
        streams[0].edit(line, end, command.argument.len(), text.clone()).then_some(text)
    }

    /// Moves sequence numbers in a segment of a session, by its number, from a side: 0 is inside. Addresses and text have been replaced.
    pub fn shift(&mut self, number: u32, side: usize, segment: &mut [u8]) {
        if let Some(streams) = self.streams.get_mut(&number) {
            stream::shift(streams, side, segment);
        }
    }

    /// What gateways have done.
    pub fn alg_counts(&self) -> AlgCounts {
        self.algs
    }

    /// Lets a peer come to an inside address and port from any of its ports; returns the outside address and port.
    fn expect(&mut self, now_ns: u64, protocol: u8, inside: (u32, u16), peer: u32) -> Option<(u32, u16)> {
        if let Some(outside) = self.forwarded.get(&(protocol, inside.0, inside.1)) {
            return Some(*outside);
        }
        if let Some(outside) = self.policy.static_outside(inside.0) {
            return Some((outside, inside.1));
        }
        let by = self.translation(inside.0)? as u16;
        let view = View::of_any_port(protocol, inside, peer);
        let known = self.sessions.lookup(&super::key(&view, INSIDE));
        match known {
            Some(hit) => {
                let timeouts = &self.policy.timeouts;
                let idle = self.sessions.get(hit.id)?.track.timeout(protocol, timeouts);
                self.sessions.set_expiry(hit.id, now_ns + idle);
            }
            None => drop(self.begin(now_ns, &view, Some(by)).ok()?),
        }
        self.mapping_from(protocol, inside).map(|(_, outside)| outside)
    }

    /// Whether a peer may come to an inside address and port from any of its ports.
    pub(super) fn is_expected(&self, protocol: u8, inside: (u32, u16), peer: u32) -> bool {
        let key =
            FlowKey { src: inside.0, dst: peer, sport: inside.1, dport: 0, proto: protocol, zone: INSIDE };
        self.sessions.lookup(&key).is_some()
    }

    /// A session to a peer is new: its protocol may need another one.
    pub(super) fn assist(&mut self, now_ns: u64, view: &View) {
        let [port, to] = view.ports();
        if self.policy.algs.tftp && view.protocol == UDP && to == TFTP && self.rehearsed.is_none() {
            // Without room, answers come by the filter alone.
            let _ = self.expect(now_ns, UDP, (view.source, port), view.destination);
        }
    }

    /// The number of a session.
    pub(super) fn number(id: tables::flow::FlowId) -> u32 {
        FlowTable::<Entry>::number(id)
    }

    /// Goes on with the text of a session of another translator.
    pub(super) fn take_streams(&mut self, number: u32, streams: [Stream; 2]) {
        self.streams.insert(number, streams);
    }
}
