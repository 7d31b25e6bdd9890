// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of reception (RFC 5880 section 6.8.6), each with the reason under which a packet is discarded.

use wire::bfd::{Flags, HEADER_LEN, Header, Repr, State, VERSION};

/// Why a received packet was discarded. The order is that of the rules in RFC 5880 section 6.8.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Discard {
    /// The payload is shorter than a control packet.
    #[error("shorter than a BFD control packet")]
    Truncated,
    /// The version is not 1.
    #[error("not version 1 of BFD")]
    Version,
    /// The length field is less than the flags require.
    #[error("the length is less than 24, or than 26 with authentication")]
    Length,
    /// The length field exceeds the payload.
    #[error("the length exceeds the payload")]
    LengthBeyondPayload,
    /// The multiplier is zero.
    #[error("the multiplier is zero")]
    DetectMult,
    /// The reserved multipoint bit is set.
    #[error("the multipoint bit is set")]
    Multipoint,
    /// The sender's discriminator is zero.
    #[error("the sender's discriminator is zero")]
    MyDiscriminator,
    /// No session has the discriminator that the packet names.
    #[error("no session has this discriminator")]
    UnknownDiscriminator,
    /// The packet names no session although its state requires one.
    #[error("no discriminator of ours in state Init or Up")]
    MissingDiscriminator,
    /// The packet names no session, and none exists for its sender and interface.
    #[error("no session with this neighbor on this interface")]
    UnknownNeighbor,
    /// The TTL or hop limit is too small: the packet may come from afar (RFC 5881 section 5).
    #[error("the TTL is too small")]
    Ttl,
    /// The packet is authenticated where no authentication is in use, or not authentic where it is.
    #[error("not authenticated as the session is")]
    Authentication,
    /// An administrator holds the session down.
    #[error("the session is administratively down")]
    AdminDown,
}

impl Discard {
    /// All reasons, in the order of their rules.
    pub const ALL: [Discard; 13] = [
        Discard::Truncated,
        Discard::Version,
        Discard::Length,
        Discard::LengthBeyondPayload,
        Discard::DetectMult,
        Discard::Multipoint,
        Discard::MyDiscriminator,
        Discard::UnknownDiscriminator,
        Discard::MissingDiscriminator,
        Discard::UnknownNeighbor,
        Discard::Ttl,
        Discard::Authentication,
        Discard::AdminDown,
    ];

    /// The name of the reason, for counters.
    pub const fn name(self) -> &'static str {
        match self {
            Discard::Truncated => "bfd-truncated",
            Discard::Version => "bfd-version",
            Discard::Length => "bfd-length",
            Discard::LengthBeyondPayload => "bfd-length-beyond-payload",
            Discard::DetectMult => "bfd-multiplier-zero",
            Discard::Multipoint => "bfd-multipoint",
            Discard::MyDiscriminator => "bfd-sender-discriminator-zero",
            Discard::UnknownDiscriminator => "bfd-unknown-discriminator",
            Discard::MissingDiscriminator => "bfd-missing-discriminator",
            Discard::UnknownNeighbor => "bfd-unknown-neighbor",
            Discard::Ttl => "bfd-ttl",
            Discard::Authentication => "bfd-authentication",
            Discard::AdminDown => "bfd-admin-down",
        }
    }
}

/// Reads a control packet from a UDP payload by the rules that need no session.
///
/// # Errors
/// The first rule that the packet breaks.
pub fn read(payload: &[u8]) -> Result<Repr, Discard> {
    let header = Header::from_chunk(payload.first_chunk::<HEADER_LEN>().ok_or(Discard::Truncated)?);
    let length = usize::from(header.length());
    let rules = [
        (header.version() == VERSION, Discard::Version),
        (length >= header.min_len(), Discard::Length),
        (length <= payload.len(), Discard::LengthBeyondPayload),
        (header.detect_mult() != 0, Discard::DetectMult),
        (!header.flags().contains(Flags::MULTIPOINT), Discard::Multipoint),
        (header.my_discriminator() != 0, Discard::MyDiscriminator),
    ];
    match rules.iter().find(|(kept, _)| !kept) {
        Some((_, reason)) => Err(*reason),
        None => Ok(Repr::of(header)),
    }
}

/// Only a sender that has heard nothing of us may leave our discriminator out.
pub(crate) fn check_named(packet: &Repr) -> Result<(), Discard> {
    let may_omit = matches!(packet.state, State::Down | State::AdminDown);
    if packet.your_discriminator == 0 && !may_omit { Err(Discard::MissingDiscriminator) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_its_reason_and_the_first_counts() {
        let good = {
            let mut packet = [0u8; 28];
            packet[..4].copy_from_slice(&[0x20, 0xc0, 3, 24]);
            packet[7] = 1;
            packet
        };
        assert!(read(&good).is_ok());
        // Each line breaks one more rule than the one before, so the earlier rule must win.
        let breaks: [(usize, u8, Discard); 5] = [
            (7, 0, Discard::MyDiscriminator),
            (1, 0xc1, Discard::Multipoint),
            (2, 0, Discard::DetectMult),
            (3, 29, Discard::LengthBeyondPayload),
            (3, 23, Discard::Length),
        ];
        let mut packet = good;
        for (at, value, reason) in breaks {
            packet[at] = value;
            assert_eq!(read(&packet), Err(reason));
        }
        packet[0] = 0x40;
        assert_eq!(read(&packet), Err(Discard::Version));
        assert_eq!(read(&packet[..23]), Err(Discard::Truncated));
        let mut authenticated = good;
        authenticated[1] |= Flags::AUTHENTICATION.0;
        for (length, kept) in [(25, false), (26, true)] {
            authenticated[3] = length;
            assert_eq!(read(&authenticated).is_ok(), kept);
        }
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = Discard::ALL.iter().map(|d| d.name()).collect();
        assert_eq!(names.len(), Discard::ALL.len());
    }
}
