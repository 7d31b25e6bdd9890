// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gateways of protocols that say addresses and ports in their text, or use other ones than a session has (RFC 2663, 2.9).
//!
//! SIP: see `sip.rs`. FTP: an inside client or server says where it waits for a data connection. It gets an outside port there, and the text says that one. TFTP: a server answers from another
//! port than it was asked at.
//!
//! That somebody may come from any port of a peer is a session with port 0 of this peer. Packets never belong to it, but it keeps the mapping.

use tables::flow::{FlowId, FlowKey, FlowTable};

use super::{Entry, INSIDE, Nat};
use crate::ftp::{Command, Form, Speaker};
use crate::packet::{ACK, SYN, Upper, View};
use crate::policy::{TCP, UDP};
use crate::ports::Wanted;
use crate::sip;
use crate::stream;

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
    /// Messages of SIP in which addresses and ports have been replaced.
    pub sip_rewritten: u64,
    /// Messages of SIP that were left as they were, or in part: wrong ones, and those without ports that were free.
    pub sip_left: u64,
}

impl Nat {
    /// Whether packets of a session are looked at.
    pub(super) fn is_watched(&self, forward: &FlowKey) -> bool {
        let algs = self.policy.algs;
        match forward.proto {
            TCP => algs.ftp && (forward.dport == FTP || forward.sport == FTP),
            UDP => self.is_sip(forward) || algs.tftp && forward.dport == TFTP,
            _ => false,
        }
    }

    /// Whether a session's text may change.
    pub(super) fn has_text(&self, forward: &FlowKey) -> bool {
        self.is_watched(forward) && (forward.proto == TCP || self.is_sip(forward))
    }

    /// Whether a session is one of SIP.
    pub(super) fn is_sip(&self, forward: &FlowKey) -> bool {
        let ports = [forward.sport, forward.dport];
        self.policy.algs.sip && forward.proto == UDP && ports.contains(&sip::PORT)
    }

    /// Looks at a packet of such a session, by its number.
    pub(super) fn watch(&mut self, now_ns: u64, view: &View, number: u32, side: usize) {
        let [port, to] = view.ports();
        match view.upper {
            // Another connection of the same addresses and ports.
            Upper::Ports { flags, .. } if view.protocol == TCP && side == 0 && flags & (SYN | ACK) == SYN => {
                self.streams.remove(&number);
            }
            // Without room, answers come by the filter alone.
            _ if view.protocol == UDP && side == 0 && to == TFTP && self.policy.algs.tftp => {
                let _ = self.expect(now_ns, UDP, (view.source, port), view.destination);
            }
            _ => {}
        }
    }

    /// Who speaks from inside in a session of FTP, by its number.
    pub fn speaker(&self, number: u32) -> Option<Speaker> {
        let flow = self.sessions.numbered(number).filter(|flow| flow.forward.proto == TCP)?;
        if !self.is_watched(&flow.forward) {
            return None;
        }
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
        let (forward, reply) = self.sessions.numbered(number).map(|flow| (flow.forward, flow.reply))?;
        if let Some(streams) = self.streams.get(&number) {
            if let Some(text) = streams[0].text_at(end) {
                return Some(text.to_vec());
            }
            if !streams[0].may_edit(end) {
                return None;
            }
        }
        // Nobody opens ways to other hosts.
        let own = self.subscribers.hosts.said(forward.src);
        if command.address.is_some_and(|address| address != own) {
            return None;
        }
        let is_server = self.speaker(number)? == Speaker::Server;
        if is_server {
            self.settle_server(number, &forward, command.port, reply.dst);
            // Its client knows the address where a port stands alone.
            let outside = self.subscribers.outside_of(forward.src);
            if command.form == Form::Epsv && outside.is_some_and(|outside| outside != reply.dst) {
                return None;
            }
        }
        let outside = self.expect(now_ns, TCP, (forward.src, command.port), forward.dst)?;
        // To make room for it, this session may have ended.
        if self.sessions.numbered(number).is_none_or(|flow| flow.forward != forward) {
            return None;
        }
        if is_server {
            let key = FlowKey { sport: command.port, dport: 0, ..forward };
            if let Some(hit) = self.sessions.lookup(&key) {
                self.awaited.insert(number, hit.id);
            }
        }
        let text = command.form.text(outside.0.into(), outside.1);
        let streams = self.streams.entry(number).or_default();
        streams[0].edit(line, end, command.argument.len(), text.clone()).then_some(text)
    }

    /// A server is about to wait for its client once more. It waits for one connection at a time, so that clients outside cannot use up its ports; and at the
    /// address that its client knows, if it has none yet.
    fn settle_server(&mut self, number: u32, forward: &FlowKey, port: u16, outside: u32) {
        if let Some(id) = self.awaited.remove(&number) {
            let awaited = self.sessions.flow(id).map(|flow| (flow.forward.sport, flow.forward.dport));
            if awaited.is_some_and(|(waits_at, any)| any == 0 && waits_at != port) {
                self.remove(id);
            }
        }
        let by = self.translation(forward.src);
        if let Some(by) = by.filter(|by| self.policy.translations[*by].may_give(forward.src, outside)) {
            self.subscribers.enter(forward.src, Some(by as u16), outside);
        }
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
        self.expect_wanting(now_ns, protocol, inside, peer, Wanted::Any)
    }

    /// The same, by the outside port that is wanted, if it has none yet.
    pub(super) fn expect_wanting(
        &mut self,
        now_ns: u64,
        protocol: u8,
        inside: (u32, u16),
        peer: u32,
        wanted: Wanted,
    ) -> Option<(u32, u16)> {
        if let Some(outside) = self.policy.static_outside(inside.0) {
            return Some((outside, inside.1));
        }
        if let Some(outside) = self.forwarded.get(&(protocol, inside.0, inside.1)) {
            return Some(*outside);
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
            None => drop(self.begin_wanting(now_ns, &view, Some(by), wanted).ok()?),
        }
        self.mapping_from(protocol, inside).map(|(_, outside)| outside)
    }

    /// Whether a peer may come to an inside address and port from any of its ports.
    pub(super) fn is_expected(&self, protocol: u8, inside: (u32, u16), peer: u32) -> bool {
        let key =
            FlowKey { src: inside.0, dst: peer, sport: inside.1, dport: 0, proto: protocol, zone: INSIDE };
        self.sessions.lookup(&key).is_some()
    }

    /// The number of a session.
    pub(super) fn number(id: FlowId) -> u32 {
        FlowTable::<Entry>::number(id)
    }
}
