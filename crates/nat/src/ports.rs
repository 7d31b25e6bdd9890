// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ports of an outside address: which are free?
//!
//! A bit for each port and protocol: 8 kB for each protocol that is in use. Finding a free port looks at 1,024 words at most, however few
//! are free.

use fastrand::Rng;

const WORDS: usize = 1 << 10;

/// Ports of one protocol.
#[derive(Clone, Debug)]
struct Bits {
    used: Box<[u64; WORDS]>,
    count: u32,
}

impl Bits {
    fn new() -> Bits {
        Bits { used: Box::new([0; WORDS]), count: 0 }
    }

    fn has(&self, port: u16) -> bool {
        self.used[usize::from(port >> 6)] >> (port & 63) & 1 == 1
    }

    fn set(&mut self, port: u16, is_used: bool) {
        let (word, bit) = (&mut self.used[usize::from(port >> 6)], 1u64 << (port & 63));
        if (*word & bit != 0) != is_used {
            *word ^= bit;
            self.count = if is_used { self.count + 1 } else { self.count - 1 };
        }
    }

    fn set_range(&mut self, range: (u16, u16), is_used: bool) {
        for word in usize::from(range.0 >> 6)..=usize::from(range.1 >> 6) {
            let (before, of) = (self.used[word], mask(word, range));
            self.used[word] = if is_used { before | of } else { before & !of };
            self.count = self.count + self.used[word].count_ones() - before.count_ones();
        }
    }
}

/// The ports of an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortSpace {
    /// By [`Kind`]; and the ports that are held for all protocols.
    bits: [Option<Bits>; 4],
}

/// The place of ports that are held.
const HELD: usize = 3;

/// Protocols whose ports are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Udp,
    /// Identifiers of queries.
    Icmp,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Tcp, Kind::Udp, Kind::Icmp];

    pub(crate) fn protocol(self) -> u8 {
        match self {
            Kind::Tcp => crate::policy::TCP,
            Kind::Udp => crate::policy::UDP,
            Kind::Icmp => crate::policy::ICMP,
        }
    }

    pub(crate) fn of(protocol: u8) -> Option<Kind> {
        match protocol {
            crate::policy::TCP => Some(Kind::Tcp),
            crate::policy::UDP => Some(Kind::Udp),
            crate::policy::ICMP => Some(Kind::Icmp),
            _ => None,
        }
    }
}

/// Which port is wanted, if it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Any.
    Any,
    /// An even one, so that the next one is free, too: for RTP and its control packets (RFC 3550, 11).
    Pair,
    /// This one.
    This(u16),
}

impl PortSpace {
    fn bits(&mut self, kind: Kind) -> &mut Bits {
        self.bits[kind as usize].get_or_insert_with(Bits::new)
    }

    /// Whether a port is in use.
    pub(crate) fn is_used(&self, kind: Kind, port: u16) -> bool {
        self.bits[kind as usize].as_ref().is_some_and(|bits| bits.has(port))
    }

    /// Takes a port that is known to be free, or is taken already.
    pub(crate) fn take(&mut self, kind: Kind, port: u16) {
        self.bits(kind).set(port, true);
    }

    /// Gives a port back.
    pub(crate) fn free(&mut self, kind: Kind, port: u16) {
        self.bits(kind).set(port, false);
    }

    /// How many ports are in use, or held.
    pub(crate) fn used(&self, kind: Kind) -> u32 {
        self.bits[kind as usize].as_ref().map_or(0, |bits| bits.count) + self.held()
    }

    /// How many ports are held.
    pub(crate) fn held(&self) -> u32 {
        self.bits[HELD].as_ref().map_or(0, |bits| bits.count)
    }

    /// Holds a range of ports, none of which is in use: they are given to nobody.
    pub(crate) fn hold(&mut self, range: (u16, u16)) {
        self.bits[HELD].get_or_insert_with(Bits::new).set_range(range, true);
    }

    /// Holds them no longer.
    pub(crate) fn release(&mut self, range: (u16, u16)) {
        self.bits[HELD].get_or_insert_with(Bits::new).set_range(range, false);
        self.bits[HELD].take_if(|bits| bits.count == 0);
    }

    /// Takes a free port of a range, at random (RFC 6056; RFC 7857, 8: its parity does not matter).
    pub(crate) fn take_any(&mut self, kind: Kind, range: (u16, u16), rng: &mut Rng) -> Option<u16> {
        self.bits(kind);
        let port = self.find(kind, range, rng.u16(range.0..=range.1))?;
        self.take(kind, port);
        Some(port)
    }

    /// Takes a port of a range as it is wanted, and no other one.
    pub(crate) fn take_wanted(
        &mut self,
        kind: Kind,
        range: (u16, u16),
        wanted: Wanted,
        rng: &mut Rng,
    ) -> Option<u16> {
        let port = match wanted {
            Wanted::Any => return self.take_any(kind, range, rng),
            Wanted::Pair => self.find_pair(kind, range, rng.u16(range.0..=range.1))?,
            Wanted::This(port) => {
                let is_free = self.taken(kind, usize::from(port >> 6)) >> (port & 63) & 1 == 0;
                Some(port).filter(|port| is_free && range.0 <= *port && *port <= range.1)?
            }
        };
        self.take(kind, port);
        Some(port)
    }

    /// The first even port that is free together with the next one, from the word of `start` on, going round in the range.
    fn find_pair(&self, kind: Kind, range: (u16, u16), start: u16) -> Option<u16> {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let (low, high) = (usize::from(range.0 >> 6), usize::from(range.1 >> 6));
        let first = usize::from(start >> 6);
        let pair = |word: usize| {
            let free = !self.taken(kind, word) & mask(word, range);
            let pairs = free & free >> 1 & EVEN;
            (pairs != 0).then(|| (word << 6) as u16 + pairs.trailing_zeros() as u16)
        };
        (first..=high).chain(low..first).find_map(pair)
    }

    /// The ports of a word that nobody may have.
    fn taken(&self, kind: Kind, word: usize) -> u64 {
        let of = |at: usize| self.bits[at].as_ref().map_or(0, |bits| bits.used[word]);
        of(kind as usize) | of(HELD)
    }

    /// The first free port from `start` on, going round in the range.
    fn find(&self, kind: Kind, range: (u16, u16), start: u16) -> Option<u16> {
        let (low, high) = (usize::from(range.0 >> 6), usize::from(range.1 >> 6));
        let first = usize::from(start >> 6);
        let free = |word: usize, of: (u16, u16)| !self.taken(kind, word) & mask(word, of);
        let port =
            |word: usize, free: u64| (free != 0).then(|| (word << 6) as u16 + free.trailing_zeros() as u16);
        let from_start = port(first, free(first, (start, range.1)));
        let after = || (first + 1..=high).find_map(|word| port(word, free(word, range)));
        let before = || (low..=first).find_map(|word| port(word, free(word, range)));
        from_start.or_else(after).or_else(before)
    }

    /// How many ports of a range are in use, or held.
    pub(crate) fn used_in(&self, kind: Kind, range: (u16, u16)) -> u32 {
        let words = usize::from(range.0 >> 6)..=usize::from(range.1 >> 6);
        words.map(|word| (self.taken(kind, word) & mask(word, range)).count_ones()).sum()
    }

    /// Gives the room of protocols back that have no port in use.
    pub(crate) fn shrink(&mut self) {
        for bits in &mut self.bits {
            bits.take_if(|bits| bits.count == 0);
        }
    }

    /// Whether no port has been used since it was shrunk.
    pub(crate) fn is_empty(&self) -> bool {
        self.bits.iter().all(Option::is_none)
    }

    /// Whether no port of a range is in use for any protocol, or held.
    pub(crate) fn is_free(&self, range: (u16, u16)) -> bool {
        let words = usize::from(range.0 >> 6)..=usize::from(range.1 >> 6);
        self.bits
            .iter()
            .flatten()
            .all(|bits| words.clone().all(|word| bits.used[word] & mask(word, range) == 0))
    }
}

/// The bits of a word that belong to a range.
fn mask(word: usize, (low, high): (u16, u16)) -> u64 {
    let first = (word << 6) as u32;
    let from = u32::from(low).saturating_sub(first).min(63);
    let to = (u32::from(high) - first).min(63);
    if u32::from(low) > first + 63 { 0 } else { (u64::MAX << from) & (u64::MAX >> (63 - to)) }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{Kind, PortSpace, Wanted};

    proptest! {
        #[test]
        fn every_port_of_a_range_is_given_once(low in 0u16..3000, more in 0u16..700, seed in any::<u64>()) {
            let (range, mut rng) = ((low, low + more), Rng::with_seed(seed));
            let mut space = PortSpace::default();
            let mut given = std::collections::BTreeSet::new();
            let count = usize::from(more) + 1;
            for n in 0..count {
                prop_assert_eq!(space.used_in(Kind::Udp, range), n as u32);
                let port = space.take_any(Kind::Udp, range, &mut rng).expect("some are free");
                prop_assert!(range.0 <= port && port <= range.1);
                prop_assert!(given.insert(port));
            }
            prop_assert_eq!(space.take_any(Kind::Udp, range, &mut rng), None);
            prop_assert_eq!(space.used(Kind::Udp), count as u32);
            prop_assert!(!space.is_free(range) && space.used(Kind::Tcp) == 0);
            given.iter().for_each(|port| space.free(Kind::Udp, *port));
            prop_assert!(space.is_free(range));
        }

        #[test]
        fn a_range_is_free_if_each_of_its_ports_is(low in any::<u16>(), more in 0u16..200, used in any::<u16>()) {
            let range = (low, low.saturating_add(more));
            let mut space = PortSpace::default();
            space.take(Kind::Tcp, used);
            prop_assert_eq!(space.is_free(range), !(range.0..=range.1).contains(&used));
        }
    }

    proptest! {
        #[test]
        fn pairs_are_even_and_adjacent(low in 0u16..500, more in 0u16..300, used in proptest::collection::vec(0u16..800, 0..200), seed in any::<u64>()) {
            let (range, mut rng) = ((low, low + more), Rng::with_seed(seed));
            let mut space = PortSpace::default();
            used.iter().for_each(|port| space.take(Kind::Udp, *port));
            let is_free = |port: u16| low <= port && port <= low + more && !used.contains(&port);
            let count = (low..=low + more).filter(|port| port % 2 == 0 && is_free(*port) && is_free(port + 1)).count();
            for _ in 0..count {
                let port = space.take_wanted(Kind::Udp, range, Wanted::Pair, &mut rng).expect("some are free");
                prop_assert!(port % 2 == 0 && is_free(port) && is_free(port + 1));
                prop_assert_eq!(space.take_wanted(Kind::Udp, range, Wanted::This(port + 1), &mut rng), Some(port + 1));
                prop_assert_eq!(space.take_wanted(Kind::Udp, range, Wanted::This(port), &mut rng), None);
            }
            prop_assert_eq!(space.take_wanted(Kind::Udp, range, Wanted::Pair, &mut rng), None);
            prop_assert_eq!(space.take_wanted(Kind::Udp, range, Wanted::This(low + more + 1), &mut rng), None);
        }
    }

    #[test]
    fn ports_that_are_held_are_nobodys() {
        let (mut space, mut rng) = (PortSpace::default(), Rng::with_seed(1));
        space.hold((60, 200));
        assert_eq!((space.held(), space.used(Kind::Udp), space.used_in(Kind::Tcp, (0, 63))), (141, 141, 4));
        assert!(!space.is_free((200, 300)) && space.is_free((201, 300)));
        for _ in 0..20 {
            assert_eq!(space.take_any(Kind::Udp, (60, 200), &mut rng), None);
        }
        assert_eq!(space.take_any(Kind::Udp, (59, 200), &mut rng), Some(59));
        space.release((60, 200));
        assert_eq!((space.held(), space.used(Kind::Udp)), (0, 1));
        assert!(space.take_any(Kind::Udp, (60, 200), &mut rng).is_some());
    }

    #[test]
    fn the_last_port_is_given_too() {
        let (mut space, mut rng) = (PortSpace::default(), Rng::with_seed(1));
        let all: Vec<Option<u16>> =
            (0..3).map(|_| space.take_any(Kind::Icmp, (65534, 65535), &mut rng)).collect();
        assert_eq!(all[2], None);
        assert_eq!(all[0].zip(all[1]).map(|(one, other)| u32::from(one) + u32::from(other)), Some(131_069));
    }
}
