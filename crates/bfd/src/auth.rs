// SPDX-License-Identifier: MIT OR Apache-2.0
//! Authentication of control packets (RFC 5880 sections 4.2 to 4.4 and 6.7).
//!
//! ```text
//! simple password   type 1 | length | key | password ...
//! MD5, SHA1         type   | length | key | 0 | sequence number | digest, 16 or 20 bytes
//! ```
//! A digest covers the whole packet, with the secret in the digest's place. Sequence numbers rise, so that old packets do not count again. The meticulous
//! forms demand that they rise at each packet; the others, now and then. Here they rise at each packet in either form.

use std::fmt;
use std::time::Duration;

use md5::Md5;
use sha1::{Digest as _, Sha1};
use wire::bfd::{Flags, HEADER_LEN, Repr};

use crate::Discard;

/// Bytes of the longest packet: one with a SHA1 section.
pub const PACKET_MAX: usize = HEADER_LEN + DIGEST_AT + SECRET_MAX;
/// Where the password stands in its section, and where the sequence number and the digest do.
const PASSWORD_AT: usize = 3;
const SEQUENCE_AT: usize = 4;
const DIGEST_AT: usize = 8;
const SECRET_MAX: usize = 20;

/// How packets are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthKind {
    /// A password that everybody on the link can read.
    Password,
    /// A keyed MD5 digest.
    Md5,
    /// The same, where each packet has another sequence number.
    MeticulousMd5,
    /// A keyed SHA1 digest.
    Sha1,
    /// The same, where each packet has another sequence number.
    MeticulousSha1,
}

impl AuthKind {
    /// All of them, in the order of their numbers, from 1.
    pub const ALL: [AuthKind; 5] = [
        AuthKind::Password,
        AuthKind::Md5,
        AuthKind::MeticulousMd5,
        AuthKind::Sha1,
        AuthKind::MeticulousSha1,
    ];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            AuthKind::Password => "password",
            AuthKind::Md5 => "md5",
            AuthKind::MeticulousMd5 => "meticulous-md5",
            AuthKind::Sha1 => "sha1",
            AuthKind::MeticulousSha1 => "meticulous-sha1",
        }
    }

    fn is_meticulous(self) -> bool {
        matches!(self, AuthKind::MeticulousMd5 | AuthKind::MeticulousSha1)
    }

    /// Bytes of the digest, which are also the most of the secret.
    fn digest_len(self) -> usize {
        match self {
            AuthKind::Password | AuthKind::Md5 | AuthKind::MeticulousMd5 => 16,
            AuthKind::Sha1 | AuthKind::MeticulousSha1 => SECRET_MAX,
        }
    }
}

/// A secret cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("BFD: a secret for {} must have 1 to {most} bytes, not {len}", kind.name())]
pub struct SecretError {
    kind: AuthKind,
    most: usize,
    len: usize,
}

/// What both sides of a session know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Auth {
    kind: AuthKind,
    key_id: u8,
    secret: [u8; SECRET_MAX],
    len: usize,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with key {}", self.kind.name(), self.key_id)
    }
}

impl Auth {
    /// Takes a secret.
    ///
    /// # Errors
    /// It is empty or too long.
    pub fn new(kind: AuthKind, key_id: u8, secret: &[u8]) -> Result<Auth, SecretError> {
        let (len, most) = (secret.len(), kind.digest_len());
        if !(1..=most).contains(&len) {
            return Err(SecretError { kind, most, len });
        }
        let mut bytes = [0; SECRET_MAX];
        bytes[..len].copy_from_slice(secret);
        Ok(Auth { kind, key_id, secret: bytes, len })
    }

    /// The kind.
    pub fn kind(&self) -> AuthKind {
        self.kind
    }

    fn section_len(&self) -> usize {
        match self.kind {
            AuthKind::Password => PASSWORD_AT + self.len,
            kind => DIGEST_AT + kind.digest_len(),
        }
    }

    /// Puts the section behind a packet that stands in front; returns the length of both.
    pub(crate) fn sign(&self, packet: &mut [u8; PACKET_MAX], sequence: u32) -> usize {
        let len = HEADER_LEN + self.section_len();
        packet[1] |= Flags::AUTHENTICATION.0;
        packet[3] = len as u8;
        let section = &mut packet[HEADER_LEN..len];
        section[..3].copy_from_slice(&[self.kind as u8 + 1, self.section_len() as u8, self.key_id]);
        if self.kind == AuthKind::Password {
            section[PASSWORD_AT..].copy_from_slice(&self.secret[..self.len]);
            return len;
        }
        section[3] = 0;
        section[SEQUENCE_AT..DIGEST_AT].copy_from_slice(&sequence.to_be_bytes());
        self.fill(&mut packet[..len]);
        len
    }

    /// Puts the digest into a packet.
    fn fill(&self, packet: &mut [u8]) {
        let at = HEADER_LEN + DIGEST_AT;
        let size = self.kind.digest_len();
        packet[at..at + size].copy_from_slice(&self.secret[..size]);
        match self.kind {
            AuthKind::Sha1 | AuthKind::MeticulousSha1 => {
                let digest = Sha1::digest(&*packet);
                packet[at..at + size].copy_from_slice(&digest);
            }
            _ => {
                let digest = Md5::digest(&*packet);
                packet[at..at + size].copy_from_slice(&digest);
            }
        }
    }

    /// Whether a payload has the section that a sender with this secret writes; its sequence number, where it has one.
    fn check(&self, payload: &[u8]) -> Option<Option<u32>> {
        let len = usize::from(*payload.get(3)?);
        let packet = payload.get(..len)?;
        let section = packet.get(HEADER_LEN..)?;
        let begins = [self.kind as u8 + 1, self.section_len() as u8, self.key_id];
        if section.len() != self.section_len() || section[..3] != begins {
            return None;
        }
        if self.kind == AuthKind::Password {
            return is_same(&section[PASSWORD_AT..], &self.secret[..self.len]).then_some(None);
        }
        let mut copy = [0; PACKET_MAX];
        let copy = copy.get_mut(..len)?;
        copy.copy_from_slice(packet);
        self.fill(copy);
        let sequence = u32::from_be_bytes(*section[SEQUENCE_AT..].first_chunk()?);
        is_same(&copy[HEADER_LEN + DIGEST_AT..], &section[DIGEST_AT..]).then_some(Some(sequence))
    }
}

/// Compares in a time that does not depend on where the first difference is.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// The sequence numbers of a session (RFC 5880 section 6.8.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sequence {
    sent: Option<u32>,
    /// The last one that came, and how long it says which are next.
    received: Option<(u32, Duration)>,
}

impl Sequence {
    /// The number of the next packet; the first one is `random`.
    pub(crate) fn next(&mut self, random: u32) -> u32 {
        let number = self.sent.map_or(random, |sent| sent.wrapping_add(1));
        self.sent = Some(number);
        number
    }

    /// Takes an authentic packet's number.
    ///
    /// # Errors
    /// It is too old or too new.
    pub(crate) fn check(
        &mut self,
        auth: &Auth,
        payload: &[u8],
        packet: &Repr,
        now: Duration,
    ) -> Result<Option<u32>, Discard> {
        let number = auth.check(payload).ok_or(Discard::Authentication)?;
        let (Some(number), Some((last, until))) = (number, self.received) else { return Ok(number) };
        let least = u32::from(auth.kind.is_meticulous());
        let window = least..=3 * u32::from(packet.detect_mult);
        match now >= until || window.contains(&number.wrapping_sub(last)) {
            true => Ok(Some(number)),
            false => Err(Discard::Authentication),
        }
    }

    /// Notes the number of a packet that counts, which holds until then.
    pub(crate) fn note(&mut self, number: Option<u32>, until: Duration) {
        self.received = number.map(|number| (number, until));
    }
}

#[cfg(test)]
mod tests {
    use wire::bfd::{Diagnostic, State};

    use super::*;

    fn repr() -> Repr {
        Repr {
            diagnostic: Diagnostic::NONE,
            state: State::Up,
            flags: Flags::default(),
            detect_mult: 3,
            my_discriminator: 1,
            your_discriminator: 2,
            desired_min_tx_us: 10_000,
            required_min_rx_us: 10_000,
            required_min_echo_rx_us: 0,
        }
    }

    fn signed(auth: &Auth, sequence: u32) -> Vec<u8> {
        let mut bytes = [0; PACKET_MAX];
        repr().emit(&mut bytes).unwrap();
        let len = auth.sign(&mut bytes, sequence);
        bytes[..len].to_vec()
    }

    #[test]
    fn what_is_signed_is_authentic_and_nothing_else() {
        for kind in AuthKind::ALL {
            let auth = Auth::new(kind, 7, b"secret").unwrap();
            let packet = signed(&auth, 9);
            assert_eq!(crate::read(&packet).map(|read| read.state), Ok(State::Up));
            let number = (kind != AuthKind::Password).then_some(9);
            assert_eq!(auth.check(&packet), Some(number), "{kind:?}");
            for other in AuthKind::ALL {
                assert_eq!(Auth::new(other, 7, b"secret").unwrap().check(&packet).is_some(), other == kind);
            }
            assert_eq!(Auth::new(kind, 8, b"secret").unwrap().check(&packet), None);
            assert_eq!(Auth::new(kind, 7, b"Secret").unwrap().check(&packet), None);
            // A password protects nothing but its section.
            let first = if kind == AuthKind::Password { HEADER_LEN } else { 0 };
            for at in first..packet.len() {
                let mut wrong = packet.clone();
                wrong[at] ^= 1;
                assert_eq!(auth.check(&wrong), None, "{kind:?} byte {at}");
            }
            for len in 0..packet.len() {
                assert_eq!(auth.check(&packet[..len]), None);
            }
        }
    }

    #[test]
    fn secrets_have_bounds() {
        let check =
            |kind: AuthKind, len: usize| Auth::new(kind, 1, &vec![b'x'; len]).map_err(|e| e.to_string());
        assert!(check(AuthKind::Md5, 16).is_ok() && check(AuthKind::Sha1, 20).is_ok());
        let why = "BFD: a secret for md5 must have 1 to 16 bytes, not 17";
        assert_eq!(check(AuthKind::Md5, 17), Err(why.to_owned()));
        assert!(check(AuthKind::Password, 0).is_err());
        let auth = Auth::new(AuthKind::Sha1, 3, b"hidden").unwrap();
        assert_eq!(format!("{auth:?}"), "sha1 with key 3");
    }

    #[test]
    fn old_packets_do_not_count_again() {
        let ms = Duration::from_millis;
        for (kind, again) in [(AuthKind::Sha1, true), (AuthKind::MeticulousSha1, false)] {
            let auth = Auth::new(kind, 1, b"secret").unwrap();
            let mut sequence = Sequence::default();
            let mut takes = |number: u32, now: u64| {
                let taken = sequence.check(&auth, &signed(&auth, number), &repr(), ms(now));
                taken.inspect(|number| sequence.note(*number, ms(now + 60))).is_ok()
            };
            assert!(takes(u32::MAX - 1, 0) && takes(u32::MAX, 10));
            assert_eq!(takes(u32::MAX, 20), again);
            assert!(!takes(u32::MAX - 1, 20), "too old");
            assert!(takes(8, 30), "nine later, three times the multiplier");
            assert!(!takes(18, 40), "too new");
            // After twice the detection time any number counts.
            assert!(takes(5, 90));
        }
        let mut sequence = Sequence::default();
        assert_eq!([sequence.next(u32::MAX), sequence.next(7)], [u32::MAX, 0]);
    }
}
