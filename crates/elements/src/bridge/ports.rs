// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the ports of a bridge may do at present, and sets of ports.
//!
//! Every frame asks for the state of its port, and a control element changes it a few times in a bridge's life. So a state is one
//! atomic byte in a line that holds nothing else: workers read it with an ordinary load from a line that all of them have.
//! A worker looks once for each batch; one that is under way while a state changes ends as it began.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sync::padded::CachePadded;

/// Ports a bridge may have.
pub const MAX_PORTS: usize = 256;

/// What a port does with frames (IEEE 802.1D-2004, port states: learning and forwarding make three).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PortState {
    /// Neither learns nor forwards. Frames of the bridge protocols themselves pass.
    Discarding = 0,
    /// Learns the addresses of frames that come in, and forwards none.
    Learning = 1,
    /// Learns and forwards.
    #[default]
    Forwarding = 2,
}

impl PortState {
    /// All states.
    pub const ALL: [PortState; 3] = [PortState::Discarding, PortState::Learning, PortState::Forwarding];

    /// Whether addresses of incoming frames are noted.
    #[inline]
    pub fn learns(self) -> bool {
        self != PortState::Discarding
    }

    /// Whether frames come in and leave.
    #[inline]
    pub fn forwards(self) -> bool {
        self == PortState::Forwarding
    }

    /// As handlers print it.
    pub fn name(self) -> &'static str {
        match self {
            PortState::Discarding => "discarding",
            PortState::Learning => "learning",
            PortState::Forwarding => "forwarding",
        }
    }

    /// The state of this name.
    pub fn from_name(name: &str) -> Option<PortState> {
        PortState::ALL.into_iter().find(|state| state.name() == name)
    }

    #[inline]
    fn from_byte(byte: u8) -> PortState {
        match byte {
            0 => PortState::Discarding,
            1 => PortState::Learning,
            _ => PortState::Forwarding,
        }
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The states of a bridge's ports, which all workers read and control elements set.
///
/// ```
/// use junctor_elements::bridge::{PortState, PortStates};
/// let states = PortStates::new(2);
/// assert_eq!(states.get(1), PortState::Forwarding);
/// states.set(1, PortState::Learning);
/// assert_eq!(states.get(1), PortState::Learning);
/// ```
#[derive(Debug)]
pub struct PortStates {
    states: CachePadded<Box<[AtomicU8]>>,
    /// Those that forward.
    forwarding: CachePadded<[AtomicU64; MAX_PORTS / 64]>,
    /// Held while both change.
    setting: Mutex<()>,
}

impl PortStates {
    /// States of `ports` ports, all forwarding: without a spanning tree there is nobody to let them.
    pub fn new(ports: usize) -> PortStates {
        // Whole cache lines, so that no other thread's word shares a line with these.
        let bytes = ports.next_multiple_of(64);
        let states = (0..bytes).map(|_| AtomicU8::new(PortState::Forwarding as u8)).collect::<Vec<_>>();
        let forwarding = PortSet::first(ports).0.map(AtomicU64::new);
        PortStates {
            states: CachePadded::new(states.into()),
            forwarding: CachePadded::new(forwarding),
            setting: Mutex::new(()),
        }
    }

    /// The state of `port`; discarding where there is no such port.
    #[inline]
    pub fn get(&self, port: usize) -> PortState {
        match self.states.get(port) {
            Some(state) => PortState::from_byte(state.load(Ordering::Relaxed)),
            None => PortState::Discarding,
        }
    }

    /// Gives `port` another state; nothing where there is no such port.
    pub fn set(&self, port: usize, state: PortState) {
        let _setting = self.setting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(word) = self.states.get(port)
            && word.load(Ordering::Relaxed) != state as u8
        {
            word.store(state as u8, Ordering::Relaxed);
            let (bit, forwarding) = (1 << (port % 64), self.forwarding.get(port / 64));
            match (forwarding, state.forwards()) {
                (Some(word), true) => word.fetch_or(bit, Ordering::Relaxed),
                (Some(word), false) => word.fetch_and(!bit, Ordering::Relaxed),
                (None, _) => 0,
            };
        }
    }

    /// The ports that forward.
    #[inline]
    pub fn forwarding(&self) -> PortSet {
        PortSet(self.forwarding.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }
}

/// Some of a bridge's ports.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PortSet([u64; MAX_PORTS / 64]);

impl PortSet {
    /// No port.
    pub const EMPTY: PortSet = PortSet([0; MAX_PORTS / 64]);

    /// The ports below `count`.
    pub fn first(count: usize) -> PortSet {
        (0..count.min(MAX_PORTS)).collect()
    }

    /// Whether `port` is one of them.
    #[inline]
    pub fn contains(&self, port: usize) -> bool {
        self.0.get(port / 64).is_some_and(|word| word >> (port % 64) & 1 != 0)
    }

    /// Adds `port`; nothing where no bridge has such a port.
    pub fn insert(&mut self, port: usize) {
        if let Some(word) = self.0.get_mut(port / 64) {
            *word |= 1 << (port % 64);
        }
    }

    /// Removes `port`.
    #[inline]
    pub fn remove(&mut self, port: usize) {
        if let Some(word) = self.0.get_mut(port / 64) {
            *word &= !(1 << (port % 64));
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(&self, other: &PortSet) -> PortSet {
        let mut both = *self;
        both.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine &= theirs);
        both
    }

    /// Those that are in either.
    #[must_use]
    pub fn or(&self, other: &PortSet) -> PortSet {
        let mut either = *self;
        either.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
        either
    }

    /// The ports, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(at * 64 + bit)
            })
        })
    }
}

impl FromIterator<usize> for PortSet {
    fn from_iter<I: IntoIterator<Item = usize>>(ports: I) -> PortSet {
        let mut set = PortSet::EMPTY;
        ports.into_iter().for_each(|port| set.insert(port));
        set
    }
}

impl fmt::Debug for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_kept_and_named() {
        let states = PortStates::new(3);
        for port in 0..3 {
            for state in PortState::ALL {
                states.set(port, state);
                assert_eq!(states.get(port), state);
                assert_eq!(PortState::from_name(&state.to_string()), Some(state));
            }
        }
        states.set(1000, PortState::Learning);
        assert_eq!(states.get(1000), PortState::Discarding);
        assert_eq!(PortState::from_name("blocking"), None);
        assert!(PortState::Learning.learns() && !PortState::Learning.forwards());
    }

    #[test]
    fn sets_hold_what_was_put_there() {
        let ports = [0, 1, 63, 64, 200, 255];
        let mut set: PortSet = ports.into_iter().collect();
        assert_eq!((set.iter().collect::<Vec<_>>(), set.len()), (ports.to_vec(), 6));
        set.insert(256);
        set.remove(64);
        assert!(set.contains(63) && !set.contains(64) && !set.contains(256) && !set.is_empty());
        assert_eq!(set.and(&PortSet::first(64)).iter().collect::<Vec<_>>(), [0, 1, 63]);
        assert_eq!(set.or(&PortSet::first(256)).len(), 256);
        assert_eq!(PortSet::first(1000).len(), 256);
        assert!(PortSet::EMPTY.is_empty());
    }
}
