// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logical link control (IEEE 802.2) with the subnetwork access protocol: what follows an Ethernet header whose type field
//! is a length.
//!
//! The view holds the eight bytes of LLC and SNAP together; [`View::is_snap`] says whether the second half means anything.
//! An LLC header alone is three bytes, which [`dsap`] and kin read from any payload.

use std::fmt;

use crate::header::range;
use crate::{Error, EtherType};

/// Byte offsets of the fields.
pub mod field {
    /// Destination service access point.
    pub const DSAP: usize = 0;
    /// Source service access point.
    pub const SSAP: usize = 1;
    /// Control field.
    pub const CONTROL: usize = 2;
    /// SNAP organization.
    pub const OUI: usize = 3;
    /// SNAP protocol, an EtherType where the organization is zero.
    pub const PROTOCOL_ID: usize = 6;
}

/// Service access point of SNAP.
pub const SAP_SNAP: u8 = 0xaa;
/// Service access point of the spanning tree protocol.
pub const SAP_STP: u8 = 0x42;
/// Control field of unnumbered information.
pub const CONTROL_UI: u8 = 3;

/// The destination service access point of an LLC payload, where there is one.
pub fn dsap(payload: &[u8]) -> Option<u8> {
    payload.first().copied()
}

header! {
    "LLC/SNAP", 8;
    fields {
        /// Destination service access point.
        dsap / set_dsap: u8 = field::DSAP;
        /// Source service access point.
        ssap / set_ssap: u8 = field::SSAP;
        /// Control field.
        control / set_control: u8 = field::CONTROL;
        /// SNAP organization; zero for EtherTypes.
        oui / set_oui: [u8; 3] = field::OUI;
        /// SNAP protocol.
        ethertype / set_ethertype: EtherType = field::PROTOCOL_ID;
    }
    derived {
        /// Whether this is SNAP: both access points 0xaa, unnumbered information.
        is_snap: bool = |b| b[..3] == [SAP_SNAP, SAP_SNAP, CONTROL_UI];
    }
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that the header is all there.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        Error::check_len(PROTOCOL, HEADER_LEN, buffer.as_ref().len())?;
        Ok(View { buffer })
    }

    /// What follows the SNAP header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.as_slice(), HEADER_LEN, usize::MAX)
    }
}

/// The meaning of a SNAP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Organization; zero for EtherTypes.
    pub oui: [u8; 3],
    /// Protocol within the organization.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads a view.
    ///
    /// # Errors
    /// [`Error::Field`] where the header is LLC but not SNAP.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, Error> {
        Error::check_field(
            view.is_snap(),
            PROTOCOL,
            "destination service access point",
            view.dsap().into(),
            "SNAP (0xaa)",
        )?;
        Ok(Repr { oui: view.oui(), ethertype: view.ethertype() })
    }

    /// Writes the header to the front of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let mut header = HeaderMut::from_slice(buffer)?;
        header.set_dsap(SAP_SNAP).set_ssap(SAP_SNAP).set_control(CONTROL_UI);
        header.set_oui(self.oui).set_ethertype(self.ethertype);
        Ok(())
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_snap() {
            let [a, b, c] = self.oui();
            write!(f, "snap oui {a:02x}:{b:02x}:{c:02x}, ethertype {}", self.ethertype())
        } else {
            write!(
                f,
                "llc dsap {:#04x}, ssap {:#04x}, ctrl {:#04x}",
                self.dsap(),
                self.ssap(),
                self.control()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_line() {
        let check = |bytes: [u8; 8], expected: &str| {
            assert_eq!(View::new_checked(bytes).unwrap().to_string(), expected)
        };
        check([0xaa, 0xaa, 3, 0, 0, 0, 8, 0], "snap oui 00:00:00, ethertype ip");
        check([0x42, 0x42, 3, 0, 0, 0, 0, 0], "llc dsap 0x42, ssap 0x42, ctrl 0x03");
        assert!(Repr::parse(&View::new_checked([0x42; 8]).unwrap()).is_err());
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(oui: [u8; 3], ethertype: u16) {
            let repr = Repr { oui, ethertype: EtherType(ethertype) };
            let mut bytes = [0; HEADER_LEN];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&View::new_checked(bytes).unwrap()).unwrap(), repr);
        }
    }
}
