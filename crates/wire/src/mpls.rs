// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPLS label stacks: RFC 3032, RFC 5462.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                Label                  | TC  |S|      TTL      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! An entry is four bytes. The last entry of a stack has the S bit. Nothing says what follows it: where that is IP, its first four bits are
//! the version.

use std::fmt;

use crate::header::range;
use crate::{Error, EtherType, FlowKey, FlowKey6};

/// The name in errors.
const PROTOCOL: &str = "MPLS";
/// Bytes of an entry.
pub const ENTRY_LEN: usize = 4;
/// Labels: 20 bits.
pub const LABELS: u32 = 1 << 20;
/// Labels below this one have a meaning of their own (RFC 3032, 2.1; RFC 7274).
pub const FIRST_FREE: u32 = 16;
/// The packet below is IPv4, and the label only carries the TC.
pub const IPV4_EXPLICIT_NULL: u32 = 0;
/// The router itself must look at the packet.
pub const ROUTER_ALERT: u32 = 1;
/// The packet below is IPv6, and the label only carries the TC.
pub const IPV6_EXPLICIT_NULL: u32 = 2;
/// Means "no label" in signalling, and never stands in a packet.
pub const IMPLICIT_NULL: u32 = 3;
/// The next label is an entropy label (RFC 6790).
pub const ENTROPY_INDICATOR: u32 = 7;

/// One entry of a label stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Entry(pub u32);

impl Entry {
    /// An entry of its parts. Of `label` the low 20 bits count, of `tc` the low three.
    #[inline]
    pub const fn new(label: u32, tc: u8, is_bottom: bool, ttl: u8) -> Entry {
        Entry((label & (LABELS - 1)) << 12 | (tc as u32 & 7) << 9 | (is_bottom as u32) << 8 | ttl as u32)
    }

    /// Reads an entry.
    #[inline]
    pub const fn from_bytes(bytes: [u8; ENTRY_LEN]) -> Entry {
        Entry(u32::from_be_bytes(bytes))
    }

    /// The entry as it stands in a packet.
    #[inline]
    pub const fn to_bytes(self) -> [u8; ENTRY_LEN] {
        self.0.to_be_bytes()
    }

    /// The label, below [`LABELS`].
    #[inline]
    pub const fn label(self) -> u32 {
        self.0 >> 12
    }

    /// The traffic class, 0 to 7.
    #[inline]
    pub const fn tc(self) -> u8 {
        (self.0 >> 9) as u8 & 7
    }

    /// Whether it is the last entry of the stack.
    #[inline]
    pub const fn is_bottom(self) -> bool {
        self.0 & 0x100 != 0
    }

    /// The time to live.
    #[inline]
    pub const fn ttl(self) -> u8 {
        self.0 as u8
    }

    /// The same entry with another time to live.
    #[inline]
    #[must_use]
    pub const fn with_ttl(self, ttl: u8) -> Entry {
        Entry(self.0 & !0xff | ttl as u32)
    }
}

impl fmt::Display for Entry {
    /// As tcpdump: `label 16, tc 0, [S], ttl 64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bottom = if self.is_bottom() { ", [S]" } else { "" };
        write!(f, "label {}, tc {}{bottom}, ttl {}", self.label(), self.tc(), self.ttl())
    }
}

/// A whole label stack, and what follows it.
#[derive(Debug, Clone, Copy)]
pub struct View<T> {
    buffer: T,
    stack_len: usize,
}

impl<T: AsRef<[u8]>> View<T> {
    /// Finds the bottom of a stack of at most `depth` entries.
    ///
    /// # Errors
    /// [`Error::Truncated`] if the packet ends before the bottom, [`Error::Field`] if the stack is deeper.
    pub fn new_checked(buffer: T, depth: usize) -> Result<Self, Error> {
        let bottom = entries(buffer.as_ref()).take(depth).position(Entry::is_bottom);
        if let Some(at) = bottom {
            return Ok(View { stack_len: (at + 1) * ENTRY_LEN, buffer });
        }
        let available = buffer.as_ref().len();
        let present = available / ENTRY_LEN;
        Error::check_field(
            present < depth,
            PROTOCOL,
            "stack depth",
            present as u32,
            "a bottom within the limit",
        )?;
        Err(Error::Truncated { protocol: PROTOCOL, needed: (present + 1) * ENTRY_LEN, available })
    }

    /// Bytes of the stack.
    #[inline]
    pub fn stack_len(&self) -> usize {
        self.stack_len
    }

    /// The bytes of the stack.
    #[inline]
    pub fn stack(&self) -> &[u8] {
        range(self.buffer.as_ref(), 0, self.stack_len)
    }

    /// The entries, the outermost first.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        entries(self.stack())
    }

    /// What follows the stack.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.buffer.as_ref(), self.stack_len, usize::MAX)
    }

    /// What the payload seems to be: IPv4 or IPv6.
    #[inline]
    pub fn payload_type(&self) -> Option<EtherType> {
        payload_type(self.payload())
    }

    /// A hash that all packets of a flow share: of the entropy label, or else of the addresses and ports below, and of the labels
    /// (RFC 6790, RFC 4928).
    pub fn flow_hash(&self) -> u32 {
        let mut labels = 0u32;
        let mut has_entropy = false;
        for entry in self.entries() {
            if has_entropy {
                return entry.label();
            }
            has_entropy = entry.label() == ENTROPY_INDICATOR;
            // Labels with a meaning of their own tell no flows apart.
            if entry.label() >= FIRST_FREE {
                labels = labels.rotate_left(5) ^ entry.label();
            }
        }
        let payload = self.payload();
        let inner = match self.payload_type() {
            Some(EtherType::IPV4) => FlowKey::for_steering(payload).map(|key| key.quick_hash(0)),
            Some(EtherType::IPV6) => FlowKey6::for_steering(payload).map(|key| key.quick_hash(0)),
            _ => None,
        };
        let inner = inner.unwrap_or(0);
        labels ^ inner as u32 ^ (inner >> 32) as u32
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mpls")?;
        self.entries().try_for_each(|entry| write!(f, " ({entry})"))
    }
}

/// Entries from the front of `bytes`, without regard to their S bits.
fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry> + '_ {
    bytes.chunks_exact(ENTRY_LEN).map(|chunk| Entry::from_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]))
}

/// What bytes below a label stack seem to be, by their first four bits.
#[inline]
pub fn payload_type(payload: &[u8]) -> Option<EtherType> {
    match payload.first()? >> 4 {
        4 => Some(EtherType::IPV4),
        6 => Some(EtherType::IPV6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_entry_holds_its_parts() {
        let entry = Entry::new(0xfffff, 5, true, 64);
        assert_eq!((entry.label(), entry.tc(), entry.is_bottom(), entry.ttl()), (0xfffff, 5, true, 64));
        // As scapy writes MPLS(label=16, cos=3, s=1, ttl=255).
        assert_eq!(Entry::new(16, 3, true, 255).to_bytes(), [0x00, 0x01, 0x07, 0xff]);
        assert_eq!(Entry::new(16, 3, true, 255).with_ttl(9), Entry::new(16, 3, true, 9));
        assert_eq!(Entry::new(16, 0, true, 9).to_string(), "label 16, tc 0, [S], ttl 9");
    }

    #[test]
    fn a_stack_needs_a_bottom() {
        let stack = |entries: &[Entry], rest: &[u8]| -> Vec<u8> {
            entries.iter().flat_map(|entry| entry.to_bytes()).chain(rest.iter().copied()).collect()
        };
        let two = stack(&[Entry::new(16, 0, false, 1), Entry::new(17, 0, true, 2)], &[0x45, 9]);
        let view = View::new_checked(&two, 2).expect("two entries");
        assert_eq!(
            (view.stack_len(), view.payload(), view.payload_type()),
            (8, &[0x45, 9][..], Some(EtherType::IPV4))
        );
        assert_eq!(view.entries().map(Entry::label).collect::<Vec<_>>(), [16, 17]);
        assert!(matches!(View::new_checked(&two, 1), Err(Error::Field { field: "stack depth", .. })));
        assert_eq!(
            View::new_checked(&two[..7], 9).err(),
            Some(Error::Truncated { protocol: "MPLS", needed: 8, available: 7 })
        );
    }

    #[test]
    fn an_entropy_label_is_the_whole_hash() {
        let stack = |entropy: u32, label: u32| {
            let entries = [
                Entry::new(label, 0, false, 1),
                Entry::new(ENTROPY_INDICATOR, 0, false, 1),
                Entry::new(entropy, 0, true, 0),
            ];
            entries.iter().flat_map(|entry| entry.to_bytes()).collect::<Vec<u8>>()
        };
        let hash = |bytes: &[u8]| View::new_checked(bytes, 8).expect("a stack").flow_hash();
        assert_eq!(hash(&stack(77, 16)), hash(&stack(77, 99)));
        assert_ne!(hash(&stack(77, 16)), hash(&stack(78, 16)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_stack_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..80), depth in 0usize..20) {
            if let Ok(view) = View::new_checked(&bytes, depth) {
                prop_assert_eq!(view.stack_len() + view.payload().len(), bytes.len());
                prop_assert_eq!(view.entries().filter(|entry| entry.is_bottom()).count(), 1);
                prop_assert!(view.entries().count() <= depth);
                let _ = (view.to_string(), view.flow_hash());
            }
        }
    }
}
