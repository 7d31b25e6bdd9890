// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys as `wg` writes them: 32 bytes in base64.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use curve25519_dalek::MontgomeryPoint;
use erase::apart;
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::{Zeroize as _, ZeroizeOnDrop, Zeroizing};

/// Bytes of every key.
pub const KEY_LEN: usize = 32;
/// Characters of a key in base64.
pub const TEXT_LEN: usize = 44;

/// A text is no key. What it was is not said, for it may have been meant as a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has 44 characters of base64, as 'wg genkey' and 'wg pubkey' print them")]
pub struct BadKey;

/// A peer's public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; KEY_LEN]);

/// A private or preshared key. It is overwritten when it is dropped, and no text shows it by accident. It lies on the heap: what is moved leaves no copy.
pub struct Secret(Box<Zeroizing<[u8; KEY_LEN]>>);

impl ZeroizeOnDrop for Secret {}

fn decode(text: &str, bytes: &mut [u8; KEY_LEN]) -> Result<(), BadKey> {
    if text.len() != TEXT_LEN {
        return Err(BadKey);
    }
    // The decoder wants room for three bytes from each four characters.
    let mut room = Zeroizing::new([0; TEXT_LEN / 4 * 3]);
    match STANDARD.decode_slice(text, &mut *room) {
        Ok(KEY_LEN) => bytes.copy_from_slice(&room[..KEY_LEN]),
        _ => return Err(BadKey),
    }
    Ok(())
}

impl FromStr for PublicKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let mut bytes = [0; KEY_LEN];
        // It may be a secret that stands in a wrong place.
        apart(|| decode(text, &mut bytes))?;
        Ok(PublicKey(bytes))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for Secret {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let mut made = Secret::zero();
        apart(|| decode(text, &mut made.0))?;
        Ok(made)
    }
}

impl Secret {
    fn zero() -> Secret {
        Secret(Box::new(Zeroizing::new([0; KEY_LEN])))
    }

    /// These bytes. They have passed the stack: what calls it with a secret runs [`apart`].
    pub fn new(bytes: [u8; KEY_LEN]) -> Secret {
        Secret::of(&bytes)
    }

    fn of(bytes: &[u8; KEY_LEN]) -> Secret {
        let mut made = Secret::zero();
        made.0.copy_from_slice(bytes);
        made
    }

    /// A fresh private key from the operating system's randomness.
    ///
    /// # Errors
    /// The system has none.
    pub fn generate() -> Result<Secret, ring::error::Unspecified> {
        let mut made = Secret::zero();
        let bytes = &mut *made.0;
        SystemRandom::new().fill(&mut **bytes)?;
        // The form in which Curve25519 takes scalars (RFC 7748, 5), as 'wg genkey' prints them.
        bytes[0] &= 248;
        bytes[31] = bytes[31] & 127 | 64;
        Ok(made)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// Whether all its bytes are zeros, which stands for none.
    pub fn is_zero(&self) -> bool {
        self.0.iter().fold(0, |all, byte| all | byte) == 0
    }

    /// It as a text, for who asks for it: a file of `junctor init`.
    pub fn reveal(&self) -> String {
        STANDARD.encode(**self.0)
    }

    /// The public key that belongs to this private one.
    pub fn public(&self) -> PublicKey {
        apart(|| PublicKey(MontgomeryPoint::mul_base_clamped(**self.0).to_bytes()))
    }

    /// What this private key and a public one make together (X25519). `None` for a public key of low order: it makes zeros with every private key
    /// (RFC 7748, 6.1), so everybody would know the secret.
    pub(crate) fn with(&self, other: &PublicKey) -> Option<Secret> {
        let made = apart(|| Secret::new(MontgomeryPoint(other.0).mul_clamped(**self.0).to_bytes()));
        (!made.is_zero()).then_some(made)
    }
}

impl Clone for Secret {
    fn clone(&self) -> Secret {
        Secret::of(&self.0)
    }
}

impl PartialEq for Secret {
    /// Takes the same time wherever they differ.
    fn eq(&self, other: &Secret) -> bool {
        self.0.iter().zip(other.0.iter()).fold(0, |all, (a, b)| all | a ^ b) == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Overwrites an array of key bytes.
pub(crate) fn erase(bytes: &mut [u8]) {
    bytes.zeroize();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_keys_are_those_of_rfc_7748() {
        // RFC 7748, 6.1: Alice.
        let private = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
        let public = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        let secret: Secret = private.parse().unwrap();
        assert_eq!(secret.public(), public.parse().unwrap());
        assert_eq!(secret.public().to_string(), public);
        assert_eq!((secret.reveal().as_str(), format!("{secret:?}").as_str()), (private, "Secret"));
        assert_eq!(secret, secret.clone());
        assert_ne!(secret, Secret::new([0; 32]));
    }

    #[test]
    fn fresh_keys_differ_and_have_the_curves_form() {
        let (a, b) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        assert_ne!(a, b);
        assert!(a.bytes()[0] & 7 == 0 && a.bytes()[31] >> 6 == 1 && !a.is_zero());
        assert!(Secret::new([0; 32]).is_zero());
    }

    #[test]
    fn other_texts_are_no_keys() {
        let good = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        for bad in ["", &good[1..], &good.replace('=', "A"), &good.replace('/', "*"), &format!("{good}=")] {
            assert_eq!(bad.parse::<PublicKey>(), Err(BadKey), "{bad}");
        }
    }
}
