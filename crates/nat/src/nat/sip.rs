// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of SIP over UDP: inside ends say outside addresses and ports, and hear their own.
//!
//! What goes outside has the inside end's address in Via, Contact, From, To, Route and the request line, and in the description of media. Each gets the outside address, with the port that leads back. What
//! comes in gets the inside ones at the same places, so that both ends see what they have said. Descriptions that come in are those of others, and stay.
//!
//! Media are expected: their ports are kept for them for as long as a session of UDP may be idle, and then as long as packets flow. RTP gets an even port and its control packets
//! the next one, if that can be (RFC 3550, 11); otherwise `a=rtcp` says where they come (RFC 3605).

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use tables::flow::FlowKey;

use super::Nat;
use crate::policy::UDP;
use crate::ports::Wanted;
use crate::sip::{End, Media, Message, PORT, Unread, message};

/// Ports of an inside host that wait for media at a time, at most.
const EXPECTED: u32 = 1024;

/// Text in place of a part of a payload.
pub type Edit = (Range<usize>, Vec<u8>);

/// An address and a port.
type At = (u32, u16);

/// The keys of a session.
#[derive(Clone, Copy)]
struct Ends {
    forward: FlowKey,
    reply: FlowKey,
}

impl Nat {
    /// Whether a session, by its number, is one of SIP, whose messages [`sip`](Self::sip) changes.
    pub fn speaks_sip(&self, number: u32) -> bool {
        self.sessions.numbered(number).is_some_and(|flow| self.is_sip(&flow.forward))
    }

    /// What shall stand in a message of a session of SIP in place of what does, in order; side 0 is inside. Wrong messages stay as they are.
    pub fn sip(&mut self, now_ns: u64, number: u32, side: usize, payload: &[u8]) -> Vec<Edit> {
        let Some((forward, reply)) = self.sessions.numbered(number).map(|flow| (flow.forward, flow.reply))
        else {
            return Vec::new();
        };
        let ends = Ends { forward, reply };
        let (mut edits, is_whole) = match message(payload) {
            Err(Unread::Other) => return Vec::new(),
            Err(Unread::Malformed) => (Vec::new(), false),
            Ok(message) if side == 0 => self.sip_outward(now_ns, ends, &message, payload),
            Ok(message) => (self.sip_inward(ends, &message), true),
        };
        // To make room for media, this session may have ended.
        if self.sessions.numbered(number).is_none_or(|flow| flow.forward != forward) {
            edits.clear();
        }
        edits.retain(|(place, text)| payload[place.clone()] != text[..]);
        self.algs.sip_rewritten += u64::from(!edits.is_empty());
        self.algs.sip_left += u64::from(!is_whole);
        edits
    }

    /// Edits of a message that leaves, and whether they are all that there should be.
    fn sip_outward(
        &mut self,
        now_ns: u64,
        ends: Ends,
        message: &Message,
        payload: &[u8],
    ) -> (Vec<Edit>, bool) {
        // Messages of IPv6 hosts say addresses that no IPv4 host can use.
        let IpAddr::V4(own) = self.subscribers.hosts.said(ends.forward.src) else {
            return (Vec::new(), false);
        };
        let (mut edits, mut is_whole) = (Vec::new(), true);
        for end in message.ends.iter().filter(|end| end.host == Some(own) && end.takes_port) {
            match self.sip_end(now_ns, ends, end.port.unwrap_or(PORT), end.is_own) {
                Some(outside) => edits.push((end.place.clone(), end_text(end, outside))),
                None => is_whole = false,
            }
        }
        match self.sip_body(now_ns, ends, own, message, payload) {
            Some(mut body) => {
                edits.extend(new_length(message, &body));
                edits.append(&mut body);
            }
            None => is_whole = false,
        }
        edits.sort_by_key(|(place, _)| place.start);
        (edits, is_whole)
    }

    /// By which outside address and port the peer of a session comes to this port of the inside end. Only what this end says by itself begins something: what it repeats
    /// may be the peer's words.
    fn sip_end(&mut self, now_ns: u64, Ends { forward, reply }: Ends, port: u16, is_own: bool) -> Option<At> {
        if port == forward.sport {
            return Some((reply.dst, reply.dport));
        }
        let inside = (forward.src, port);
        if !is_own {
            let forwarded = self.forwarded.get(&(UDP, inside.0, inside.1)).copied();
            let of_static = || self.policy.static_outside(inside.0).map(|outside| (outside, inside.1));
            return forwarded
                .or_else(of_static)
                .or_else(|| self.mapping_from(UDP, inside).map(|(_, outside)| outside));
        }
        self.expected_at(now_ns, (forward.src, port), forward.dst, Wanted::Any)
    }

    /// Expects packets of a peer at an inside port, unless there are too many such ports.
    fn expected_at(&mut self, now_ns: u64, inside: At, peer: u32, wanted: Wanted) -> Option<At> {
        let are_many = self.expected.get(&inside.0).is_some_and(|count| *count >= EXPECTED);
        if are_many && !self.is_expected(UDP, inside, peer) {
            return None;
        }
        self.expect_wanting(now_ns, UDP, inside, peer, wanted)
    }

    /// Edits of a description of media; none if a port is missing, so that it stays as it is.
    fn sip_body(
        &mut self,
        now_ns: u64,
        ends: Ends,
        own: Ipv4Addr,
        message: &Message,
        payload: &[u8],
    ) -> Option<Vec<Edit>> {
        let (mut edits, mut outside) = (Vec::new(), None);
        for media in message.media.iter().filter(|media| media.host == Some(own) && media.port > 0) {
            let [first, control] = self.sip_media(now_ns, ends, media)?;
            if outside.replace(first.0).is_some_and(|other| other != first.0) {
                return None;
            }
            edits.push((media.place.clone(), first.1.to_string().into_bytes()));
            match &media.control {
                Some((place, _)) => edits.push((place.clone(), control.1.to_string().into_bytes())),
                None if control.1 != first.1.wrapping_add(1) && media.has_control => {
                    let line = format!("a=rtcp:{}\r\n", control.1);
                    let is_line = payload[..media.end].ends_with(b"\n");
                    edits.extend(is_line.then(|| (media.end..media.end, line.into_bytes())));
                }
                None => {}
            }
        }
        let outside = Ipv4Addr::from(outside.unwrap_or(ends.reply.dst)).to_string().into_bytes();
        let addresses = message.addresses.iter().filter(|(_, address)| *address == own);
        edits.extend(addresses.map(|(place, _)| (place.clone(), outside.clone())));
        Some(edits)
    }

    /// The outside ends of a stream of media and of its control packets.
    fn sip_media(&mut self, now_ns: u64, ends: Ends, media: &Media) -> Option<[At; 2]> {
        let (host, peer) = (ends.forward.src, ends.forward.dst);
        if !media.is_known {
            return None;
        }
        let control = match &media.control {
            Some((_, port)) => *port,
            None => media.port.checked_add(1)?,
        };
        let needs_control = media.has_control || media.control.is_some();
        let follows = needs_control && media.port.checked_add(1) == Some(control);
        let wanted = if follows { Wanted::Pair } else { Wanted::Any };
        let first = self.expected_at(now_ns, (host, media.port), peer, wanted)?;
        if !needs_control {
            return Some([first, (first.0, 0)]);
        }
        let wanted = if follows { Wanted::This(first.1.wrapping_add(1)) } else { Wanted::Any };
        let second = self.expected_at(now_ns, (host, control), peer, wanted)?;
        Some([first, second])
    }

    /// Edits of a message that comes in.
    fn sip_inward(&self, Ends { forward, reply }: Ends, message: &Message) -> Vec<Edit> {
        let hosts = &self.subscribers.hosts;
        let (IpAddr::V4(own), name) = (hosts.said(forward.src), hosts.name(forward.src)) else {
            return Vec::new();
        };
        let outside = Ipv4Addr::from(reply.dst);
        let inside = |port: u16| match port == reply.dport {
            true => Some(forward.sport),
            false => {
                let owner = self.owner(UDP, (outside, port))?;
                (owner.0 == name).then_some(owner.1)
            }
        };
        let mut edits = Vec::new();
        for (n, end) in message.ends.iter().enumerate().filter(|(_, end)| end.host == Some(outside)) {
            if end.takes_port {
                let port = inside(end.port.unwrap_or(PORT));
                edits.extend(port.map(|port| (end.place.clone(), end_text(end, (own.into(), port)))));
                continue;
            }
            // How the peer has seen a request of this end: address, and port before or after it.
            edits.push((end.place.clone(), own.to_string().into_bytes()));
            let near = [n.checked_sub(1), Some(n + 1)].into_iter().flatten();
            for other in near.filter_map(|at| message.ends.get(at)).filter(|other| other.host.is_none()) {
                let port = other.port.and_then(inside);
                edits.extend(port.map(|port| (other.place.clone(), port.to_string().into_bytes())));
            }
        }
        edits.sort_by_key(|(place, _)| place.start);
        edits.dedup_by_key(|(place, _)| place.start);
        edits
    }
}

/// An address and a port in place of an end. A port that goes without saying is not said, if it was not.
fn end_text(end: &End, (address, port): At) -> Vec<u8> {
    let address = Ipv4Addr::from(address);
    let is_said = end.port.is_some() || port != PORT;
    if is_said { format!("{address}:{port}").into_bytes() } else { address.to_string().into_bytes() }
}

/// The length of a body after its edits, if it is said.
fn new_length(message: &Message, edits: &[Edit]) -> Option<Edit> {
    let place = message.length.clone()?;
    let (removed, added) = edits
        .iter()
        .fold((0, 0), |(removed, added), (place, text)| (removed + place.len(), added + text.len()));
    let length = message.body.len() + added - removed;
    Some((place, length.to_string().into_bytes()))
}
