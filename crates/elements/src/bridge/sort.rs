// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the frames of a batch go: classification, learning and lookup, without touching a packet.
//!
//! A batch goes through stages, each a short loop over all of its frames. First headers are read and the frames judged. Then the table says where
//! their addresses belong and asks for those cache lines ([`Fdb::seek`]), and compares what stands there ([`Fdb::answer`]). Last it is decided. What
//! comes out is a [`Observation`] for each frame. A batch whose frames are all for one port, as most are, is found to be so without a branch for each of
//! them.

use element::Reason;
use element::clock::Nanos;
use packet::{Batch, Packet};
use sync::rcu;
use tables::mac::Learned;
use tables::mac::fdb::{self, BucketPlace, Fdb, FdbKey, Mark, Noted, Places};
use wire::MacAddr;

use super::plan::{Member, Plan};
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
pub(super) enum FrameDecision {
    /// Not decided: it goes to a station.
    Look,
    /// Not decided: it goes to a group.
    LookGroup,
    /// It leaves by this port.
    Port(u16),
    /// It leaves by all other ports.
    Flood,
    /// It leaves by the ports that want its group: a place in [`Observations::groups`].
    Group(u32),
    /// It is for the bridge's own protocols.
    Control,
    /// Snooping sees it first.
    Snoop,
    /// It goes nowhere.
    Drop(Reason),
}

/// What happens to a frame and how it came, in a number: frames with the same number leave in the same manner.
///
/// Bits 0 to 11: its VLAN, 0 where VLANs are not distinguished; 12: whether it came with a tag; from 13 on the way: numbers below 256
/// are ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Observation(u32);

impl Observation {
    const TAGGED: u32 = 1 << 12;
    const WAY_SHIFT: u32 = 13;
    const LOOK: u32 = 256;
    const LOOK_GROUP: u32 = 257;
    const FLOOD: u32 = 258;
    const CONTROL: u32 = 259;
    const SNOOP: u32 = 260;
    /// From here on 256 of reasons.
    const DROP: u32 = 512;
    const GROUP: u32 = 1 << 18;

    /// A frame to a station, of which nothing is decided.
    #[inline]
    fn new(vid: u16, tagged: bool) -> Observation {
        Observation(
            Self::LOOK << Self::WAY_SHIFT | if tagged { Self::TAGGED } else { 0 } | u32::from(vid & 0xfff),
        )
    }

    #[inline]
    fn with_port(self, port: u16) -> Observation {
        Observation(self.0 & ((1 << Self::WAY_SHIFT) - 1) | u32::from(port) << Self::WAY_SHIFT)
    }

    fn with(self, way: FrameDecision) -> Observation {
        let way = match way {
            FrameDecision::Port(port) => u32::from(port),
            FrameDecision::Look => Self::LOOK,
            FrameDecision::LookGroup => Self::LOOK_GROUP,
            FrameDecision::Flood => Self::FLOOD,
            FrameDecision::Control => Self::CONTROL,
            FrameDecision::Snoop => Self::SNOOP,
            FrameDecision::Drop(reason) => Self::DROP + reason as u32,
            FrameDecision::Group(place) => Self::GROUP + place,
        };
        Observation(self.0 & ((1 << Self::WAY_SHIFT) - 1) | way << Self::WAY_SHIFT)
    }

    /// What happens to it.
    #[inline]
    pub fn way(self) -> FrameDecision {
        match self.0 >> Self::WAY_SHIFT {
            port @ 0..Self::LOOK => FrameDecision::Port(port as u16),
            Self::LOOK => FrameDecision::Look,
            Self::LOOK_GROUP => FrameDecision::LookGroup,
            Self::FLOOD => FrameDecision::Flood,
            Self::CONTROL => FrameDecision::Control,
            Self::SNOOP => FrameDecision::Snoop,
            way @ Self::GROUP.. => FrameDecision::Group(way - Self::GROUP),
            way => {
                let reason = Reason::ALL.get((way - Self::DROP.min(way)) as usize);
                FrameDecision::Drop(reason.copied().unwrap_or(Reason::NoOutput))
            }
        }
    }

    /// The port that it leaves by, if it is one.
    #[inline]
    pub fn port(self) -> Option<usize> {
        Some((self.0 >> Self::WAY_SHIFT) as usize).filter(|way| *way < Self::LOOK as usize)
    }

    /// Its VLAN.
    #[inline]
    pub fn vid(self) -> u16 {
        (self.0 & 0xfff) as u16
    }

    /// Whether it came with a tag.
    #[inline]
    pub fn is_tagged(self) -> bool {
        self.0 & Self::TAGGED != 0
    }

    #[inline]
    fn is_look(self) -> bool {
        self.0 >> Self::WAY_SHIFT == Self::LOOK
    }

    #[inline]
    fn is_undecided(self) -> bool {
        matches!(self.0 >> Self::WAY_SHIFT, Self::LOOK | Self::LOOK_GROUP)
    }
}

/// A batch on its way through the stages; in each list, the frames in their order.
#[derive(Debug, Default)]
pub(super) struct Observations {
    /// The keys of source and destination.
    keys: Vec<[FdbKey; 2]>,
    /// Where these stand in the table.
    places: Places,
    /// Where the destinations are.
    ports: Vec<u16>,
    /// What comes out.
    pub observations: Vec<Observation>,
    /// The ports of groups that frames of the batch go to.
    pub groups: Vec<PortSet>,
    /// The last of them.
    last_group: (u64, u16),
}

impl Observations {
    /// A number that all frames of a conversation in this direction share.
    pub fn hash(&self, at: usize) -> u64 {
        let [src, dst] = self.places.get(at).unwrap_or_default();
        (src.mix() ^ dst.mix().rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Whether all frames go to stations behind one port, and are otherwise alike.
    #[inline]
    fn is_uniform(&self) -> bool {
        let (Some(observation), Some(port)) = (self.observations.first(), self.ports.first()) else {
            return false;
        };
        // Without a branch for each frame.
        observation.is_look()
            && self.observations.iter().fold(0, |unlike, other| unlike | (other.0 ^ observation.0)) == 0
            && self.ports.iter().fold(0, |unlike, other| unlike | (other ^ port)) == 0
    }

    /// How many frames from `from` on go the same way in the same form.
    pub fn run(&self, from: usize) -> usize {
        let rest = self.observations.get(from..).unwrap_or_default();
        rest.first().map_or(0, |first| rest.iter().take_while(|observation| *observation == first).count())
    }
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

impl Learning {
    fn count(&mut self, noted: Noted, sources: u64) {
        let count = match noted {
            Noted::As(Learned::New) => &mut self.learned,
            Noted::As(Learned::Moved(_)) => &mut self.moved,
            Noted::Allowance => &mut self.over_rate,
            Noted::PortLimit => &mut self.over_port_limit,
            Noted::Full => &mut self.full,
            Noted::Busy => &mut self.busy,
            Noted::As(Learned::Known | Learned::Refused) | Noted::Static => return,
        };
        *count += sources;
    }
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
    /// Where frames to stations may go without further questions, VLANs aside.
    pub open: PortSet,
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
    /// Decides about all frames of a batch. What comes out stands in `observations`, unless it is one for all of them.
    pub fn sort(
        &self,
        batch: &Batch,
        observations: &mut Observations,
        allowance: &mut TokenBucket,
        learning: &mut Learning,
    ) -> Option<Observation> {
        let n = batch.len();
        // What stands there is written over: mostly there are as many as the last time.
        observations.observations.resize(n, Observation::default());
        observations.ports.resize(n, fdb::UNKNOWN);
        observations.keys.resize(n, Default::default());
        match self.plan.aware {
            false => self.look_all(batch, observations),
            true => {
                for ((packet, observation), keys) in
                    batch.iter().zip(&mut observations.observations).zip(&mut observations.keys)
                {
                    (*observation, *keys) = self.look_tagged(packet);
                }
            }
        }
        self.fdb.seek(&observations.keys, &mut observations.places);
        self.learn(observations, allowance, learning);
        self.decide(batch, observations)
    }

    /// Learns sources and finds destinations, frame by frame.
    #[inline]
    fn learn(&self, observations: &mut Observations, allowance: &mut TokenBucket, learning: &mut Learning) {
        let mark = self.fdb.mark(self.reader, usize::from(self.member.leader));
        let mark = mark.filter(|_| self.state.learns());
        let at = self.fdb.answer(self.reader, mark, None, (&observations.places, 0), &mut observations.ports);
        if at < observations.places.len()
            && let Some(mark) = mark
        {
            self.learn_strangers(at, mark, observations, allowance, learning);
        }
    }

    /// The same from the first frame on whose source is to be noted. Once one is refused, so are the others of the batch that
    /// stand nowhere: in a storm they are counted and no more.
    #[cold]
    fn learn_strangers(
        &self,
        mut at: usize,
        mark: Mark,
        observations: &mut Observations,
        allowance: &mut TokenBucket,
        learning: &mut Learning,
    ) {
        let (frames, ports) = (&observations.places, &mut observations.ports);
        self.fdb.seek_strangers(frames, at);
        allowance.refill(self.now);
        // Of frames that are not forwarded the keys mean nothing.
        let all_teach = observations.observations[at..].iter().all(|observation| observation.is_undecided());
        let mut refused = None;
        while let Some([src, dst]) = frames.get(at) {
            if observations.observations[at].is_undecided() {
                let noted = self.note(src, mark, allowance);
                learning.count(noted, 1);
                if all_teach && matches!(noted, Noted::Allowance | Noted::PortLimit | Noted::Full) {
                    refused = Some(noted);
                }
                ports[at] = self.fdb.port(self.reader, self.fdb.find(dst));
            }
            at += 1;
            let mut count = 0;
            let counted = refused.is_some().then_some(&mut count);
            at += self.fdb.answer(self.reader, Some(mark), counted, (frames, at), &mut ports[at..]);
            if let Some(why) = refused {
                learning.count(why, count);
            }
        }
    }

    /// Where frames go that nothing is wrong with.
    #[inline]
    fn decide(&self, batch: &Batch, observations: &mut Observations) -> Option<Observation> {
        if observations.is_uniform() {
            let (first, port) = (observations.observations[0], observations.ports[0]);
            if self.open_in(first.vid()).contains(usize::from(port)) {
                return Some(first.with_port(port));
            }
        }
        self.decide_each(batch, observations);
        None
    }

    #[inline(never)]
    fn decide_each(&self, batch: &Batch, observations: &mut Observations) {
        observations.groups.clear();
        let (mut vid, mut open) = (0, self.open_in(0));
        for at in 0..batch.len() {
            let (observation, port) = (observations.observations[at], observations.ports[at]);
            if !observation.is_look() {
                if observation.is_undecided() {
                    observations.observations[at] =
                        observation.with(self.group(batch[at].data(), observation, observations));
                }
                continue;
            }
            if vid != observation.vid() {
                (vid, open) = (observation.vid(), self.open_in(observation.vid()));
            }
            observations.observations[at] = match open.contains(usize::from(port)) {
                true => observation.with_port(port),
                false => observation.with(self.station(observation, port, observations, at)),
            };
        }
    }

    /// Where frames of this VLAN to stations may go without further questions.
    #[inline]
    fn open_in(&self, vid: u16) -> PortSet {
        if self.plan.aware { self.open.and(&self.plan.vlan(vid).members) } else { self.open }
    }

    /// Reads frames' addresses and judges them, where VLANs are not distinguished.
    #[inline(never)]
    fn look_all(&self, batch: &[Packet], observations: &mut Observations) {
        let (salt, plain) = (self.fdb.salt(0), Observation::new(0, false));
        for ((packet, observation), keys) in
            batch.iter().zip(&mut observations.observations).zip(&mut observations.keys)
        {
            (*observation, *keys) = self.look(packet.data(), plain, salt);
        }
    }

    /// Reads a frame's addresses and judges them. `plain` says how it came. The keys are those of its source and its destination.
    #[inline(always)]
    fn look(&self, data: &[u8], plain: Observation, salt: u64) -> (Observation, [FdbKey; 2]) {
        let Some(header) = data.first_chunk::<HEADER_LEN>() else {
            return (plain.with(FrameDecision::Drop(Reason::TooShort)), Default::default());
        };
        let [to, from] = addresses(header);
        if (from | to) & GROUP != 0 || from == 0 || from == self.own || data.len() > self.longest {
            let keys = [FdbKey::new(from, salt), FdbKey::new(to, salt)];
            return (plain.with(self.look_closer(data, to, from)), keys);
        }
        (plain, [FdbKey::of_station(from, salt), FdbKey::of_station(to, salt)])
    }

    /// The same for a frame that is not simply for a station.
    #[inline(never)]
    fn look_closer(&self, data: &[u8], to: u64, from: u64) -> FrameDecision {
        match self.fault(data, from) {
            // These pass in any state of the port.
            FrameDecision::Look if to & !0xf == RESERVED && self.member.port.guarded => {
                FrameDecision::Drop(Reason::BadBpdu)
            }
            FrameDecision::Look if to & !0xf == RESERVED => FrameDecision::Control,
            FrameDecision::Look if to & GROUP != 0 => FrameDecision::LookGroup,
            way => way,
        }
    }

    /// The same where VLANs are distinguished.
    #[inline]
    fn look_tagged(&self, packet: &Packet) -> (Observation, [FdbKey; 2]) {
        let data = packet.data();
        let port = &self.member.port;
        let (vid, tagged) = match tags::tag(data) {
            Some((kind, tci)) if kind == self.tag => (tci & 0xfff, true),
            _ => (0, false),
        };
        let own = if vid == 0 { port.pvid } else { vid };
        let (observation, keys) = self.look(data, Observation::new(own, tagged), self.fdb.salt(own));
        if observation.is_undecided() {
            if let Some(reason) = self.tag_fault(data, tagged, vid) {
                return (observation.with(FrameDecision::Drop(reason)), keys);
            }
            if !self.plan.vlan(own).members.contains(usize::from(self.member.leader))
                || tagged && vid != 0 && !port.trunk
            {
                return (observation.with(FrameDecision::Drop(Reason::NoVlan)), keys);
            }
        }
        (observation, keys)
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
    fn fault(&self, data: &[u8], from: u64) -> FrameDecision {
        let tags = || {
            let kind = |at: usize| data.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
            let is_tag = |at: &usize| matches!(kind(*at), Some(CUSTOMER | PROVIDER));
            (0..2).map(|n| HEADER_LEN - 2 + n * TAG_LEN).take_while(is_tag).count()
        };
        if from == self.own {
            FrameDecision::Drop(Reason::OwnSource)
        } else if from & GROUP != 0 || from == 0 {
            FrameDecision::Drop(Reason::BadSource)
        } else if data.len() > self.longest + tags() * TAG_LEN {
            FrameDecision::Drop(Reason::TooLong)
        } else {
            FrameDecision::Look
        }
    }

    /// Learns a source, as far as the allowance goes.
    fn note(&self, src: BucketPlace, mark: Mark, allowance: &mut TokenBucket) -> Noted {
        let mut left = u32::from(allowance.contains(1));
        let had = left;
        let noted = self.fdb.note(self.reader, src, mark, &mut left);
        allowance.remove(u64::from(had - left));
        noted
    }

    /// Where a frame to a station behind `port` goes, if there is more to be asked.
    fn station(
        &self,
        observation: Observation,
        port: u16,
        observations: &Observations,
        at: usize,
    ) -> FrameDecision {
        if !self.state.forwards() {
            return FrameDecision::Drop(Reason::PortBlocked);
        }
        if port == fdb::UNKNOWN {
            return self.flood(self.storm.unknown.as_ref());
        }
        let to = usize::from(port);
        if !self.member.reaches.contains(to) {
            return FrameDecision::Drop(Reason::Filtered);
        }
        if !self.states.get(to).forwards() {
            return FrameDecision::Drop(Reason::PortBlocked);
        }
        if self.plan.aware && !self.plan.vlan(observation.vid()).members.contains(to) {
            return FrameDecision::Drop(Reason::NoVlan);
        }
        match self.plan.way(to, observations.hash(at)) {
            Some(to) => FrameDecision::Port(to as u16),
            None => FrameDecision::Drop(Reason::NoOutput),
        }
    }

    /// Where a frame to a group goes.
    fn group(&self, data: &[u8], observation: Observation, observations: &mut Observations) -> FrameDecision {
        if !self.state.forwards() {
            return FrameDecision::Drop(Reason::PortBlocked);
        }
        let to = data.first_chunk().map_or(0, |header| addresses(header)[0]);
        if to == BROADCAST {
            return self.flood(self.storm.broadcast.as_ref());
        }
        let way = self.flood(self.storm.multicast.as_ref());
        let Some(groups) = self.groups.filter(|_| way == FrameDecision::Flood) else { return way };
        if self.snoops && is_membership(data, observation.is_tagged()) {
            return FrameDecision::Snoop;
        }
        if observations.groups.is_empty() || observations.last_group != (to, observation.vid()) {
            let Some(ports) = groups.get(self.reader, observation.vid(), MacAddr::from_u64(to)) else {
                return FrameDecision::Flood;
            };
            observations.groups.push(ports);
            observations.last_group = (to, observation.vid());
        }
        FrameDecision::Group(observations.groups.len() as u32 - 1)
    }

    #[inline]
    fn flood(&self, limit: Option<&SharedLimit>) -> FrameDecision {
        match limit {
            Some(limit) if !limit.allows(self.now) => FrameDecision::Drop(Reason::StormLimited),
            _ => FrameDecision::Flood,
        }
    }

    /// The leaders of the ports that a flooded frame leaves by, or one to a group that these want.
    pub fn flooded(&self, observation: Observation, wanted: Option<&PortSet>) -> PortSet {
        let mut ports = self.member.reaches.and(&self.states.forwarding());
        if self.plan.aware {
            ports = ports.and(&self.plan.vlan(observation.vid()).members);
        }
        wanted.map_or(ports, |wanted| ports.and(wanted))
    }
}

/// Destination and source, as numbers.
#[inline(always)]
fn addresses(header: &[u8; HEADER_LEN]) -> [u64; 2] {
    // Eight bytes are one load; six would be two.
    let word = |bytes: Option<&[u8; 8]>| u64::from_be_bytes(bytes.copied().unwrap_or_default()) >> 16;
    [word(header.first_chunk()), word(header.last_chunk())]
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
