// SPDX-License-Identifier: MIT OR Apache-2.0
//! The secret of the two routers: HMAC-SHA-256 (RFC 2104), of which a datagram has the first 128 bits (RFC 4868).

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of a tag.
pub(crate) const TAG: usize = 16;
/// The fewest bytes of a secret.
const LEAST: usize = 16;

/// A secret that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// It is too short.
    #[error("the key has {0} bytes; it needs {LEAST} or more, such as the output of 'openssl rand -hex 32'")]
    Short(usize),
}

/// A pre-shared secret. It is never shown.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.verifies(b"", &other.tag(b""))
    }
}

impl Key {
    /// The key of these bytes.
    ///
    /// # Errors
    /// They are too few.
    pub fn new(secret: &[u8]) -> Result<Key, BadKey> {
        if secret.len() < LEAST {
            return Err(BadKey::Short(secret.len()));
        }
        Hmac::new_from_slice(secret).map(Key).map_err(|_| BadKey::Short(secret.len()))
    }

    /// The tag of a text.
    pub(crate) fn tag(&self, text: &[u8]) -> [u8; TAG] {
        let mut mac = self.0.clone();
        mac.update(text);
        let full = mac.finalize().into_bytes();
        std::array::from_fn(|at| full.get(at).copied().unwrap_or_default())
    }

    /// Whether a tag is that of a text; takes the same time for every tag.
    pub(crate) fn verifies(&self, text: &[u8], tag: &[u8; TAG]) -> bool {
        let mut mac = self.0.clone();
        mac.update(text);
        mac.verify_truncated_left(tag).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_that_of_rfc_4231_case_1() {
        let key = Key::new(&[0x0b; 20]).unwrap();
        let want =
            [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b];
        assert_eq!(key.tag(b"Hi There"), want);
        assert!(key.verifies(b"Hi There", &want) && !key.verifies(b"Hi there", &want));
        assert_eq!(Key::new(&[1; 15]).unwrap_err(), BadKey::Short(15));
        assert_eq!(format!("{key:?}"), "Key(***)");
    }
}
