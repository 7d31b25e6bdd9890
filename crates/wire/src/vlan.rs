// SPDX-License-Identifier: MIT OR Apache-2.0
//! VLAN tags: IEEE 802.1Q and 802.1ad.
//!
//! The EtherType that announces a tag (0x8100 or 0x88a8) belongs to the header before it, so the header here is the tag
//! control information and the EtherType of what follows: four bytes, from where the Ethernet header ends.

use std::fmt;

use crate::header::range;
use crate::{Error, EtherType};

/// Byte offsets of the fields.
pub mod field {
    /// Priority, drop eligibility, and VLAN identifier.
    pub const TCI: usize = 0;
    /// EtherType of what follows.
    pub const ETHERTYPE: usize = 2;
}

/// A VLAN identifier, 0 to 4095; 0 means "priority only", 4095 is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VlanId(u16);

impl VlanId {
    /// `None` above 4095.
    pub const fn new(id: u16) -> Option<Self> {
        if id <= 0xfff { Some(VlanId(id)) } else { None }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Tag control information: priority (3 bits), drop eligible (1), identifier (12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tag(pub u16);

impl Tag {
    /// A tag of its parts; of `priority` the low three bits count.
    pub const fn new(id: VlanId, priority: u8, drop_eligible: bool) -> Self {
        Tag((priority as u16 & 7) << 13 | (drop_eligible as u16) << 12 | id.0)
    }

    /// The VLAN identifier.
    #[inline]
    pub const fn id(self) -> VlanId {
        VlanId(self.0 & 0xfff)
    }

    /// The priority code point, 0 to 7.
    #[inline]
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Whether the frame may be dropped first.
    #[inline]
    pub const fn drop_eligible(self) -> bool {
        self.0 & 0x1000 != 0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vlan {}, p {}", self.id(), self.priority())?;
        f.write_str(if self.drop_eligible() { ", DEI" } else { "" })
    }
}

field_as_bytes! {
    Tag, 2, |b| Tag(u16::from_be_bytes(b)), |v| v.0.to_be_bytes();
}

header! {
    "VLAN", 4;
    fields {
        /// Tag control information.
        tag / set_tag: Tag = field::TCI;
        /// EtherType of what follows the tag.
        ethertype / set_ethertype: EtherType = field::ETHERTYPE;
    }
    derived {}
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that the tag is all there.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        Error::check_len(PROTOCOL, HEADER_LEN, buffer.as_ref().len())?;
        Ok(View { buffer })
    }

    /// What follows the tag.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.as_slice(), HEADER_LEN, usize::MAX)
    }
}

/// The meaning of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Identifier, priority, drop eligibility.
    pub tag: Tag,
    /// EtherType of what follows.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads a view; never fails.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Repr { tag: view.tag(), ethertype: view.ethertype() }
    }

    /// Writes the tag to the front of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        HeaderMut::from_slice(buffer)?.set_tag(self.tag).set_ethertype(self.ethertype);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ethertype {}", self.tag, self.ethertype)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits() {
        let tag = Tag(0xb064);
        assert_eq!((tag.id().get(), tag.priority(), tag.drop_eligible()), (100, 5, true));
        assert_eq!(tag.to_string(), "vlan 100, p 5, DEI");
        assert_eq!(Tag::new(VlanId::new(100).unwrap(), 5, true), tag);
        assert_eq!(VlanId::new(4096), None);
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(tci: u16, ethertype: u16) {
            let repr = Repr { tag: Tag(tci), ethertype: EtherType(ethertype) };
            let mut bytes = [0; HEADER_LEN];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&View::new_checked(bytes).unwrap()), repr);
            let tag = repr.tag;
            prop_assert_eq!(Tag::new(tag.id(), tag.priority(), tag.drop_eligible()), tag);
        }
    }
}
