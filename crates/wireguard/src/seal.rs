// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way out: which peer a packet goes to, and the packet in a data message with its outer headers.

use esp::header::Header;
use packet::Packet;
use wire::ip::addresses;

use std::net::IpAddr;

use sync::rcu::Reader;

use crate::device::Device;
use crate::endpoint::{Endpoint, Outer, header_len, outer_class};
use crate::limits::{REKEY_AFTER, REKEY_AFTER_MESSAGES};
use crate::message::{DATA_HEADER_LEN, Data, TAG_LEN};
use crate::peer::Peer;
use crate::session::Session;

/// Packets are padded to a multiple of so many bytes.
const PADDING: usize = 16;

/// Why a packet is not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsealed {
    /// It is no whole IP packet.
    NotIp,
    /// No peer's networks have its destination.
    NoPeer,
    /// It is not known where the peer with this number is.
    NoEndpoint,
    /// There is no session with the peer with this number: a handshake is wanted.
    NoSession(u32),
    /// It would be too long, and must not be fragmented: the longest that fits, in bytes.
    TooBig(usize),
    /// It would be longer than any packet.
    TooLong,
    /// There is no packet memory.
    NoMemory,
    /// The session has used all its counters: a handshake is wanted.
    Exhausted,
}

/// Where a packet goes.
#[derive(Clone, Copy)]
pub struct Chosen<'a> {
    /// The peer.
    pub peer: &'a Peer,
    /// The session.
    pub session: &'a Session,
    endpoint: &'a Endpoint,
    len: usize,
    padded: usize,
    class: u8,
}

/// Bytes by which a packet to this endpoint grows, without padding.
pub fn overhead(endpoint: &Endpoint) -> usize {
    header_len(&endpoint.remote) + DATA_HEADER_LEN + TAG_LEN
}

impl Device {
    /// The number of the peer that an inner packet goes to. The packet is looked at no further.
    #[inline]
    pub fn peer_of(&self, reader: &Reader, packet: &[u8]) -> Option<u32> {
        self.allowed.peer(reader, addresses(packet)?.1)
    }

    /// Chooses the peer and the session of an inner packet, which may have `mtu` bytes when it leaves.
    ///
    /// # Errors
    /// Why it does not go anywhere.
    #[inline]
    pub fn choose<'a>(
        &'a self,
        reader: &'a Reader,
        packet: &[u8],
        mtu: usize,
        now_ns: u64,
    ) -> Result<Chosen<'a>, Unsealed> {
        let (_, dst) = addresses(packet).ok_or(Unsealed::NotIp)?;
        let number = self.allowed.peer(reader, dst).ok_or(Unsealed::NoPeer)?;
        self.choose_of(reader, packet, number, mtu, now_ns)
    }

    /// As [`choose`](Self::choose), where the peer is known.
    ///
    /// # Errors
    /// Why the packet does not go anywhere.
    #[inline]
    pub fn choose_of<'a>(
        &'a self,
        reader: &'a Reader,
        packet: &[u8],
        number: u32,
        mtu: usize,
        now_ns: u64,
    ) -> Result<Chosen<'a>, Unsealed> {
        let header = Header::read_fixed(packet).map_err(|_| Unsealed::NotIp)?;
        let peer = self.peer(reader, number).ok_or(Unsealed::NoPeer)?;
        let endpoint = peer.endpoint(reader).ok_or(Unsealed::NoEndpoint)?;
        let room = mtu.saturating_sub(overhead(endpoint));
        let len = header.packet_len;
        // What every link takes is not refused: the outer packet is fragmented instead.
        let is_least = header.is_six && len <= 1280;
        if len > room && header.dont_fragment && !is_least {
            return Err(Unsealed::TooBig(room));
        }
        let session = peer.current(reader).filter(|session| !session.is_over(now_ns));
        let Some(session) = session else {
            peer.want();
            return Err(Unsealed::NoSession(number));
        };
        if session.is_initiator && session.age(now_ns) >= REKEY_AFTER {
            peer.want();
        }
        let padded = len.next_multiple_of(PADDING).min(room.max(len));
        Ok(Chosen { peer, session, endpoint, len, padded, class: outer_class(header.class) })
    }

    /// Puts a packet into a data message with outer headers. It has this counter of its session.
    ///
    /// # Errors
    /// Why it cannot be done. The packet's bytes are as they were.
    #[inline]
    pub fn seal(
        &self,
        reader: &Reader,
        packet: &mut Packet,
        chosen: &Chosen<'_>,
        counter: u64,
        (worker, now_ns): (usize, u64),
    ) -> Result<IpAddr, Unsealed> {
        let Chosen { peer, session, endpoint, len, padded, class } = *chosen;
        let outer =
            Outer::new(self.local(reader), endpoint, class, counter as u16).ok_or(Unsealed::NoEndpoint)?;
        let front = outer.size() + DATA_HEADER_LEN;
        let bytes = make_room(packet, len, front, padded - len + TAG_LEN)?;
        let (header, rest) = bytes.split_at_mut(front);
        if let Some(to) = header.last_chunk_mut() {
            Data { receiver: session.remote, counter }.write(to);
        }
        let (inner, tag) = rest.split_at_mut(padded);
        inner[len..].fill(0);
        tag.copy_from_slice(&session.seal(counter, inner));
        outer.write(bytes);
        let message_len = bytes.len() - outer.size();
        packet.set_network(0, outer.ip_len());
        peer.note_sent(worker, message_len, true, now_ns);
        if counter >= REKEY_AFTER_MESSAGES {
            peer.want();
        }
        Ok(outer.to())
    }
}

/// Makes room before and behind a packet of `len` bytes. Bytes that are behind it give way.
#[inline]
fn make_room(packet: &mut Packet, len: usize, before: usize, behind: usize) -> Result<&mut [u8], Unsealed> {
    let whole = before + len + behind;
    if whole > usize::from(u16::MAX) {
        return Err(Unsealed::TooLong);
    }
    let added = behind.saturating_sub(packet.len() - len);
    packet.put(added).ok_or(Unsealed::NoMemory)?;
    if packet.push(before).is_none() {
        packet.trim(added);
        return Err(Unsealed::NoMemory);
    }
    packet.trim(packet.len() - whole);
    Ok(packet.data_mut())
}
