// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a change was not made, for people and for programs.
//!
//! A handler's answer ends with the word of the error's [kind](ErrorKind), so that a program in another process need not know the sentence.

use std::net::IpAddr;

use esp::sa::SaError;

use super::{ATTEMPTS, SpiRange};
use crate::association::Id;
use crate::buckets::Busy;
use crate::policy::PolicyKey;

/// Why a change was not made. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is one already.
    #[error("there is an association with SPI {:#x} to {} already: take another SPI, or replace or delete that one", .0.spi, .0.dst)]
    Exists(Id),
    /// There is none.
    #[error("there is no association with SPI {:#x} to {}: list the associations, and name one by its 'dst' and 'spi'", .0.spi, .0.dst)]
    NoAssociation(Id),
    /// There is one already.
    #[error("there is a policy '{0}' already: replace or delete it, or take another selector")]
    PolicyExists(Box<PolicyKey>),
    /// There is none.
    #[error(
        "there is no policy '{0}': list the policies, and name one by its direction and its whole selector"
    )]
    NoPolicy(Box<PolicyKey>),
    /// UDP around ESP cannot be added to an association, or be taken away.
    #[error("the association with SPI {:#x} to {} keeps UDP around ESP, or has none: delete it, and add one with 'encap' as you want it", .0.spi, .0.dst)]
    Encapsulation(Id),
    /// A tunnel's ends differ from the association's.
    #[error("the tunnel of SPI {spi:#x} is from {} to {}, and its association from {} to {}: give both the same ends", tunnel.0, tunnel.1, ends.0, ends.1)]
    Ends {
        /// The association's number.
        spi: u32,
        /// Where the tunnel begins and ends.
        tunnel: (IpAddr, IpAddr),
        /// The association's sender and receiver.
        ends: (IpAddr, IpAddr),
    },
    /// The two prefixes of a selector are of two families.
    #[error(
        "source and destination of policy '{0}' are of two families: take both from IPv4, or both from IPv6"
    )]
    Families(Box<PolicyKey>),
    /// No number is left.
    #[error("no SPI between {:#x} and {:#x} is free, or none was found in {ATTEMPTS} attempts: ask for a larger range", .0.start(), .0.end())]
    NoSpi(SpiRange),
    /// Something is wrong about the association.
    #[error(transparent)]
    Sa(#[from] SaError),
    /// Old versions wait for workers.
    #[error("too many changes wait for the workers: try again")]
    Busy,
}

impl From<Busy> for Error {
    fn from(_: Busy) -> Error {
        Error::Busy
    }
}

/// What kind of error it is, as far as programs must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// What is to be added is there.
    Exists,
    /// The association is not there.
    NoAssociation,
    /// The policy is not there.
    NoPolicy,
    /// No SPI is free.
    NoSpi,
    /// The same may succeed later.
    Busy,
    /// The request contradicts itself, or what it is about.
    Invalid,
}

/// Each kind's word.
const WORDS: [(ErrorKind, &str); 6] = [
    (ErrorKind::Exists, "exists"),
    (ErrorKind::NoAssociation, "no-association"),
    (ErrorKind::NoPolicy, "no-policy"),
    (ErrorKind::NoSpi, "no-spi"),
    (ErrorKind::Busy, "busy"),
    (ErrorKind::Invalid, "invalid"),
];

impl Error {
    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Exists(_) | Error::PolicyExists(_) => ErrorKind::Exists,
            Error::NoAssociation(_) => ErrorKind::NoAssociation,
            Error::NoPolicy(_) => ErrorKind::NoPolicy,
            Error::NoSpi(_) => ErrorKind::NoSpi,
            Error::Busy => ErrorKind::Busy,
            Error::Encapsulation(_) | Error::Ends { .. } | Error::Families(_) | Error::Sa(_) => {
                ErrorKind::Invalid
            }
        }
    }

    /// What a handler answers: the sentence, and the word of its kind in brackets.
    pub fn answer(&self) -> String {
        format!("{self} [{}]", self.kind().word())
    }
}

impl ErrorKind {
    /// Its word.
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }

    /// The sentence and the kind of an [answer](Error::answer). Other texts are invalid requests.
    pub fn split(answer: &str) -> (&str, ErrorKind) {
        let parts = answer.trim_end().strip_suffix(']').and_then(|text| text.rsplit_once(" ["));
        let known = parts.and_then(|(text, word)| {
            WORDS.iter().find(|(_, known)| *known == word).map(|(kind, _)| (text, *kind))
        });
        known.unwrap_or((answer, ErrorKind::Invalid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse_policy_key;

    #[test]
    fn answers_lead_back_to_their_kinds() {
        let id = Id { dst: [192, 0, 2, 1].into(), spi: 256 };
        let key = || Box::new(parse_policy_key("src 10.1.0.0/16 dst 10.2.0.0/16 dir out").unwrap());
        let ends = (id.dst, id.dst);
        for error in [
            Error::Exists(id),
            Error::NoAssociation(id),
            Error::PolicyExists(key()),
            Error::NoPolicy(key()),
            Error::Encapsulation(id),
            Error::Ends { spi: 256, tunnel: ends, ends },
            Error::Families(key()),
            Error::NoSpi(1..=2),
            Error::Sa(SaError::Spi(7)),
            Error::Busy,
        ] {
            let answer = format!("Write handler 'db.add_sa' error:\n{}", error.answer());
            let (text, kind) = ErrorKind::split(&answer);
            assert_eq!((kind, text.ends_with(&error.to_string())), (error.kind(), true), "{answer}");
            assert!(error.to_string().contains(": "), "it says what to do: {error}");
        }
        let other = "handler 'count' expects [nothing]";
        assert_eq!(ErrorKind::split(other), (other, ErrorKind::Invalid));
        assert_eq!(
            Error::NoPolicy(key()).to_string(),
            "there is no policy 'src 10.1.0.0/16 dst 10.2.0.0/16 dir out': list the policies, and name one by its direction and its whole selector"
        );
    }
}
