// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way in: what a datagram is, and the packet in a data message.

use std::net::{IpAddr, SocketAddr};

use esp::header::Header;
use esp::replay::Refused;
use packet::Packet;
use wire::ip::addresses;
use wire::{Protocol, ipv6, udp};

use crate::device::Device;
use crate::endpoint::inner_class;
use crate::limits::REKEY_RECEIVING;
use crate::message::{DATA_HEADER_LEN, Message, TAG_LEN};
use crate::peer::{Peer, place_of};
use crate::session::Session;
use crate::shake::{Here, Path};

/// Why a data message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It is no datagram for this port, or none of the four messages.
    Malformed,
    /// It is a fragment.
    Fragment,
    /// No session has its index, or the session is over.
    NoSession,
    /// It came before.
    Replayed,
    /// It is older than the window.
    TooOld,
    /// It is not genuine.
    Forged,
    /// The packet in it is no whole IP packet.
    BadInner,
    /// The source of the packet in it is not among the networks of its peer.
    NotAllowed,
}

impl From<Refused> for Dropped {
    fn from(why: Refused) -> Dropped {
        match why {
            Refused::Replayed => Dropped::Replayed,
            Refused::TooOld | Refused::Zero => Dropped::TooOld,
            Refused::TooFar => Dropped::Malformed,
        }
    }
}

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where it came from, and where it was sent to.
    pub path: Path,
    /// The port that it was sent to.
    pub port: u16,
    /// The outer traffic class.
    class: u8,
    /// Where the message begins and ends, in bytes.
    at: usize,
    end: usize,
}

impl Datagram {
    /// Reads the headers of a packet that begins with its IP header.
    ///
    /// # Errors
    /// [`Dropped::Malformed`] or [`Dropped::Fragment`].
    #[inline]
    pub fn read(packet: &[u8]) -> Result<Datagram, Dropped> {
        let header = Header::read_fixed(packet).map_err(|_| Dropped::Malformed)?;
        if header.is_fragment || (header.is_six && header.next == Protocol::IPV6_FRAGMENT) {
            return Err(Dropped::Fragment);
        }
        let (from, to) = addresses(packet).ok_or(Dropped::Malformed)?;
        let payload = packet.get(header.len..header.packet_len).ok_or(Dropped::Malformed)?;
        if header.next != Protocol::UDP {
            return Err(Dropped::Malformed);
        }
        let view = udp::View::new_checked(payload).map_err(|_| Dropped::Malformed)?;
        let path = Path { from: SocketAddr::new(from, view.src_port()), to };
        let (at, end) = (header.len + udp::HEADER_LEN, header.len + usize::from(view.length()));
        Ok(Datagram { path, port: view.dst_port(), class: header.class, at, end })
    }

    /// The message in it.
    #[inline]
    pub fn message<'a>(&self, packet: &'a [u8]) -> Option<Message<'a>> {
        Message::read(packet.get(self.at..self.end)?)
    }
}

/// The index and the counter that a data message names: only to look ahead, since nothing is checked.
#[inline]
pub fn named(packet: &[u8]) -> Option<(u32, u64)> {
    let first = packet.first()?;
    let ip_len = if first >> 4 == 4 { usize::from(first & 15) * 4 } else { ipv6::HEADER_LEN };
    match Message::read(packet.get(ip_len + udp::HEADER_LEN..)?)? {
        Message::Data(data) => Some((data.receiver, data.counter)),
        _ => None,
    }
}

/// A data message whose session is known.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The peer.
    pub peer: &'a Peer,
    /// The session.
    pub session: &'a Session,
    /// The message's counter.
    pub counter: u64,
    datagram: Datagram,
}

impl Device {
    /// Finds the session of a data message that may pass.
    ///
    /// # Errors
    /// Why it may not.
    #[inline]
    pub fn recognise<'a>(
        &'a self,
        here: &Here<'a>,
        datagram: Datagram,
        (index, counter): (u32, u64),
    ) -> Result<Known<'a>, Dropped> {
        let found = self.session(here.reader, index).filter(|(_, session)| !session.is_over(here.now_ns));
        let (peer, session) = found.ok_or(Dropped::NoSession)?;
        session.check(counter)?;
        Ok(Known { peer, session, counter, datagram })
    }

    /// Decrypts a data message in its place.
    ///
    /// # Errors
    /// [`Dropped::Forged`].
    #[inline]
    pub fn decrypt(&self, packet: &mut Packet, known: &Known<'_>) -> Result<(), Dropped> {
        let Datagram { at, end, .. } = known.datagram;
        let message = packet.data_mut().get_mut(at + DATA_HEADER_LEN..end).ok_or(Dropped::Malformed)?;
        let (inner, tag) = message.split_last_chunk_mut::<TAG_LEN>().ok_or(Dropped::Malformed)?;
        if known.session.open(known.counter, inner, *tag) { Ok(()) } else { Err(Dropped::Forged) }
    }

    /// Turns a decrypted message, whose counter was accepted by the [window](Session::window), into the packet that it carries. Whether it carries one: an empty message only
    /// shows that the peer is there.
    ///
    /// # Errors
    /// Why the packet may not pass.
    #[inline]
    pub fn unpack(&self, packet: &mut Packet, known: &Known<'_>, here: &Here<'_>) -> Result<bool, Dropped> {
        let Known { peer, session, datagram, .. } = *known;
        let len = datagram.end - datagram.at;
        let is_empty = len == DATA_HEADER_LEN + TAG_LEN;
        peer.moved(here.reader, datagram.path.endpoint());
        peer.note_got(here.worker, len, !is_empty, here.now_ns);
        if !session.is_confirmed() {
            self.confirm(peer, session, here);
        }
        if session.is_initiator && session.age(here.now_ns) >= REKEY_RECEIVING {
            peer.want();
        }
        if is_empty {
            return Ok(false);
        }
        packet.trim(packet.len() - (datagram.end - TAG_LEN));
        packet.strip(datagram.at + DATA_HEADER_LEN);
        let header = Header::read_fixed(packet.data()).map_err(|_| Dropped::BadInner)?;
        let (src, _) = addresses(packet.data()).ok_or(Dropped::BadInner)?;
        if self.allowed.peer(here.reader, src) != Some(peer.number) {
            return Err(Dropped::NotAllowed);
        }
        packet.trim(packet.len() - header.packet_len);
        header.set_class(packet.data_mut(), inner_class(header.class, datagram.class));
        packet.set_network(0, header.len);
        Ok(true)
    }

    /// The first packet by a session that the peer began: from now on packets go back by it.
    #[cold]
    fn confirm(&self, peer: &Peer, session: &Session, here: &Here<'_>) {
        let mut state = peer.state();
        let (_, place) = place_of(session.local);
        if peer.confirm(&mut state, here.reader, place) {
            session.confirm();
            state.handshake_wall_ns = here.wall_ns;
            peer.take_want();
        }
    }
}

/// The destination of a packet that begins with its IP header.
pub fn destination(packet: &[u8]) -> Option<IpAddr> {
    addresses(packet).map(|(_, to)| to)
}
