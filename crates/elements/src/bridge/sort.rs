// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the frames of a batch go: classification, learning and lookup, without touching a packet.
//!
//! A batch is gone through twice. The first pass reads the headers, judges the frames, and asks for the table's cache lines of all
//! sources and destinations; the second finds them near. What comes out is a [`Way`] for each frame.

use engine::Reason;
use engine::clock::Nanos;
use packet::{Batch, Packet};
use sync::rcu;
use tables::mac::Learned;
use tables::mac::fdb::{self, Fdb, Key, Mark, Noted, Place};
use wire::MacAddr;

use super::plan::{Member, Plan, Vlan};
use super::tags::{self, CUSTOMER, PROVIDER, TAG_LEN};
use super::{PortSet, PortState};
use crate::shared_limit::SharedLimit;
use crate::tools::TokenBucket;

/// Bytes of an Ethernet header.
const HEADER_LEN: usize = wire::ethernet::HEADER_LEN;
/// In an address as a number: set for groups.
const GROUP: u64 = 1 << 40;
const BROADCAST: u64 = (1 << 48) - 1;
/// Addresses that no bridge forwards (IEEE 802.1Q, 8.6.3): 01-80-C2-00-00-00 to -0F.
const RESERVED: u64 = 0x0180_c200_0000;

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Not decided.
    Look,
    /// It leaves by this port.
    Port(u16),
    /// It leaves by all other ports.
    Flood,
    /// It leaves by the ports that want its group: the frame's place in the batch.
    Group(u16),
    /// It is for the bridge's own protocols.
    Control,
    /// Snooping sees it first.
    Snoop,
    /// It goes nowhere.
    Drop(Reason),
}

/// A frame on its way through the two passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub way: Way,
    /// Its VLAN, 0 where none is told apart, and whether it came with a tag.
    pub vid: u16,
    pub tagged: bool,
    /// Its destination.
    pub to: u64,
    src: Place,
    dst: Place,
}

/// Floods that a port may cause, of each kind.
#[derive(Debug, Default)]
pub(super) struct Storm {
    pub broadcast: Option<SharedLimit>,
    pub multicast: Option<SharedLimit>,
    pub unknown: Option<SharedLimit>,
}

/// What learning came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Learning {
    pub learned: u64,
    pub moved: u64,
    pub over_rate: u64,
    pub over_port_limit: u64,
    pub full: u64,
    pub busy: u64,
}

/// What does not change while a batch is sorted.
pub(super) struct Sorter<'a> {
    pub fdb: &'a Fdb,
    pub reader: &'a rcu::Reader,
    pub plan: &'a Plan,
    pub member: &'a Member,
    pub states: &'a super::PortStates,
    pub groups: Option<&'a super::Groups>,
    pub storm: &'a Storm,
    /// The port that the batch came in by.
    pub state: PortState,
    /// The bridge's own address, if frames from it are not to come in here.
    pub own: u64,
    /// The type of the tags that are this bridge's.
    pub tag: u16,
    /// The longest frame without a tag.
    pub longest: usize,
    pub snoops: bool,
    pub now: Nanos,
}

impl Sorter<'_> {
    /// Decides about all frames of a batch.
    pub fn sort(
        &self,
        batch: &Batch,
        sights: &mut Vec<Sight>,
        allowance: &mut TokenBucket,
        learning: &mut Learning,
    ) {
        sights.clear();
        match self.plan.aware {
            false => {
                let salt = self.fdb.salt(0);
                sights.extend(batch.iter().map(|packet| self.look(packet, 0, false, salt)));
            }
            true => sights.extend(batch.iter().map(|packet| self.look_tagged(packet))),
        }
        let mark =
            self.fdb.mark(self.reader, usize::from(self.member.leader)).filter(|_| self.state.learns());
        for (at, sight) in sights.iter_mut().enumerate().filter(|(_, sight)| sight.way == Way::Look) {
            if let Some(mark) = mark
                && !self.fdb.is_known(self.fdb.find(sight.src), mark)
            {
                self.note(sight.src, mark, allowance, learning);
            }
            sight.way = match sight.to & GROUP {
                0 => self.station(sight),
                _ => self.group(&batch[at], at, sight),
            };
        }
    }

    /// The first pass over a frame of this VLAN.
    #[inline(always)]
    fn look(&self, packet: &Packet, vid: u16, tagged: bool, salt: u64) -> Sight {
        let data = packet.data();
        let nowhere = Place::default();
        let Some(header) = data.first_chunk::<HEADER_LEN>() else {
            return Sight {
                way: Way::Drop(Reason::TooShort),
                vid,
                tagged,
                to: 0,
                src: nowhere,
                dst: nowhere,
            };
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = *header;
        let to = u64::from_be_bytes([0, 0, d0, d1, d2, d3, d4, d5]);
        let from = u64::from_be_bytes([0, 0, s0, s1, s2, s3, s4, s5]);
        let (src, dst) = (self.fdb.place(Key::new(from, salt)), self.fdb.place(Key::new(to, salt)));
        let mut way = Way::Look;
        if from & GROUP != 0 || from == 0 || from == self.own || data.len() > self.longest {
            way = self.fault(data, from);
        }
        // These pass whatever the port's state.
        if to & !0xf == RESERVED && way == Way::Look {
            way = if self.member.port.guarded { Way::Drop(Reason::BadBpdu) } else { Way::Control };
        }
        Sight { way, vid, tagged, to, src, dst }
    }

    /// The same where VLANs are told apart.
    #[inline]
    fn look_tagged(&self, packet: &Packet) -> Sight {
        let data = packet.data();
        let port = &self.member.port;
        let (vid, tagged) = match tags::tag(data) {
            Some((kind, tci)) if kind == self.tag => (tci & 0xfff, true),
            _ => (0, false),
        };
        let own = if vid == 0 { port.pvid } else { vid };
        let mut sight = self.look(packet, own, tagged, self.fdb.salt(own));
        if sight.way == Way::Look {
            if let Some(reason) = self.tag_fault(data, tagged, vid) {
                sight.way = Way::Drop(reason);
            } else if !self.plan.vlan(own).members.contains(usize::from(self.member.leader))
                || tagged && vid != 0 && !port.trunk
            {
                sight.way = Way::Drop(Reason::NoVlan);
            }
        }
        sight
    }

    /// What is wrong with a frame's tags.
    #[inline]
    fn tag_fault(&self, data: &[u8], tagged: bool, vid: u16) -> Option<Reason> {
        let next = |at: usize| data.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
        match (tagged, self.tag) {
            (true, _) if vid == 0xfff => Some(Reason::BadVlan),
            (true, _) => match next(HEADER_LEN + 2) {
                None => Some(Reason::TooShort),
                // A provider's tag stands outside, and once.
                Some(PROVIDER) => Some(Reason::BadVlan),
                Some(_) => None,
            },
            (false, CUSTOMER) => (next(HEADER_LEN - 2) == Some(PROVIDER)).then_some(Reason::BadVlan),
            (false, _) => None,
        }
    }

    /// What is wrong with a frame, if anything is.
    #[cold]
    fn fault(&self, data: &[u8], from: u64) -> Way {
        let tags = || {
            let kind = |at: usize| data.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
            let is_tag = |at: &usize| matches!(kind(*at), Some(CUSTOMER | PROVIDER));
            (0..2).map(|n| HEADER_LEN - 2 + n * TAG_LEN).take_while(is_tag).count()
        };
        if from == self.own {
            Way::Drop(Reason::OwnSource)
        } else if from & GROUP != 0 || from == 0 {
            Way::Drop(Reason::BadSource)
        } else if data.len() > self.longest + tags() * TAG_LEN {
            Way::Drop(Reason::TooLong)
        } else {
            Way::Look
        }
    }

    #[cold]
    fn note(&self, src: Place, mark: Mark, allowance: &mut TokenBucket, learning: &mut Learning) {
        allowance.refill(self.now);
        let mut left = allowance.tokens().min(1) as u32;
        let had = left;
        match self.fdb.note(self.reader, src, mark, &mut left) {
            Noted::As(Learned::New) => learning.learned += 1,
            Noted::As(Learned::Moved(_)) => learning.moved += 1,
            Noted::As(Learned::Known | Learned::Refused) | Noted::Static => {}
            Noted::Allowance => learning.over_rate += 1,
            Noted::PortLimit => learning.over_port_limit += 1,
            Noted::Full => learning.full += 1,
            Noted::Busy => learning.busy += 1,
        }
        allowance.remove(u64::from(had - left));
    }

    /// Where a frame to a station goes.
    #[inline(always)]
    fn station(&self, sight: &Sight) -> Way {
        if !self.state.forwards() {
            return Way::Drop(Reason::PortBlocked);
        }
        let port = self.fdb.port(self.reader, self.fdb.find(sight.dst));
        if port == fdb::UNKNOWN {
            return self.flood(self.storm.unknown.as_ref());
        }
        let to = usize::from(port);
        if !self.member.reaches.contains(to) {
            return Way::Drop(Reason::Filtered);
        }
        if !self.states.get(to).forwards() {
            return Way::Drop(Reason::PortBlocked);
        }
        if self.plan.aware && !self.plan.vlan(sight.vid).members.contains(to) {
            return Way::Drop(Reason::NoVlan);
        }
        if self.plan.has_lags {
            return self
                .plan
                .way(to, sight.hash())
                .map_or(Way::Drop(Reason::NoOutput), |to| Way::Port(to as u16));
        }
        Way::Port(port)
    }

    /// Where a frame to a group goes.
    fn group(&self, packet: &Packet, at: usize, sight: &Sight) -> Way {
        if !self.state.forwards() {
            return Way::Drop(Reason::PortBlocked);
        }
        if sight.to == BROADCAST {
            return self.flood(self.storm.broadcast.as_ref());
        }
        let way = self.flood(self.storm.multicast.as_ref());
        let Some(groups) = self.groups.filter(|_| way == Way::Flood) else { return way };
        if self.snoops && is_membership(packet.data(), sight.tagged) {
            return Way::Snoop;
        }
        match groups.get(self.reader, sight.vid, MacAddr::from_u64(sight.to)) {
            Some(_) => Way::Group(at as u16),
            None => Way::Flood,
        }
    }

    #[inline]
    fn flood(&self, limit: Option<&SharedLimit>) -> Way {
        match limit {
            Some(limit) if !limit.allows(self.now) => Way::Drop(Reason::StormLimited),
            _ => Way::Flood,
        }
    }

    /// The leaders of the ports that a flooded frame leaves by.
    pub fn flooded(&self, sight: &Sight) -> PortSet {
        let mut ports = self.member.reaches;
        if self.plan.aware {
            ports = ports.and(&self.plan.vlan(sight.vid).members);
        }
        if let (Way::Group(_), Some(groups)) = (sight.way, self.groups) {
            let wanted = groups.get(self.reader, sight.vid, MacAddr::from_u64(sight.to));
            ports = ports.and(&wanted.unwrap_or_else(|| PortSet::first(super::MAX_PORTS)));
        }
        ports.iter().filter(|port| self.states.get(*port).forwards()).collect()
    }

    /// The frame's VLAN.
    pub fn vlan(&self, sight: &Sight) -> &Vlan {
        self.plan.vlan(sight.vid)
    }
}

impl Sight {
    /// A number that all frames of a conversation in this direction share.
    #[inline]
    pub fn hash(&self) -> u64 {
        (self.src.mix() ^ self.dst.mix().rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Whether both go the same way in the same form.
    #[inline(always)]
    pub fn alike(&self, other: &Sight) -> bool {
        self.way == other.way && self.vid == other.vid && self.tagged == other.tagged
    }
}

/// Whether a frame to a group is an IGMP or MLD message (RFC 3376, RFC 3810), which snooping wants to see.
fn is_membership(data: &[u8], tagged: bool) -> bool {
    let Some(rest) = data.get(HEADER_LEN - 2 + if tagged { TAG_LEN } else { 0 }..) else { return false };
    match rest {
        [0x08, 0x00, ip @ ..] => ip.get(9) == Some(&2),
        [0x86, 0xdd, ip @ ..] => {
            // MLD comes behind a hop-by-hop header of eight bytes with the router alert option.
            let hops = ip.get(6) == Some(&0) && ip.get(40) == Some(&58);
            hops && ip.get(48).is_some_and(|kind| matches!(kind, 130..=132 | 143))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_membership;

    #[test]
    fn membership_messages_are_told_by_their_headers() {
        let mut igmp = vec![0; 12];
        igmp.extend([8, 0, 0x46, 0, 0, 32, 0, 0, 0, 0, 1, 2]);
        assert!(is_membership(&igmp, false) && !is_membership(&igmp, true));
        *igmp.last_mut().expect("bytes") = 17;
        assert!(!is_membership(&igmp, false));
        let mut mld = vec![0; 12];
        mld.extend([0x81, 0, 0, 5, 0x86, 0xdd]);
        mld.extend([0; 49]);
        let ip = 18;
        (mld[ip + 40], mld[ip + 48]) = (58, 143);
        assert!(is_membership(&mld, true) && !is_membership(&mld[..60], true));
        mld[ip + 48] = 128;
        assert!(!is_membership(&mld, true));
    }
}
