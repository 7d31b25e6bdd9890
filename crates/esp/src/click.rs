// SPDX-License-Identifier: MIT OR Apache-2.0
//! The algorithms of Click's IPsec elements, for bytes that lie contiguously: AES-128 and DES in their chained modes, triple DES, HMAC-SHA1-96.
//!
//! None of them should protect anything new (RFC 8221). Configurations of Click's have them, and its packets look as they make them.
//!
//! # Click's chaining
//! `IPsecAES` of Click does not chain blocks as CBC does (RFC 3602). Its IV has 8 bytes, and so has what passes from block to block:
//!
//! ```text
//! C[i] = AES(key, P[i] with its first 8 bytes XORed with those of C[i-1])        C[-1] = IV
//! ```

use std::fmt;

use aes::Aes128;
use aes::cipher::{
    Block, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, BlockSizeUser,
    InnerIvInit, KeyInit,
};
use des::{Des, TdesEde3};
use hmac::{Hmac, Mac};
use ring::rand::{SecureRandom, SystemRandom};
use sha1::{Digest, Sha1};
use zeroize::Zeroize;

use crate::SuiteError;

/// Bytes of each key of an association.
pub const KEY_LEN: usize = 16;
/// Bytes of a digest.
pub const DIGEST_LEN: usize = 12;
/// Bytes that Click's chaining passes from block to block.
const HALF: usize = 8;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From cipher text to plain text.
    Decrypt,
    /// From plain text to cipher text.
    Encrypt,
}

/// How blocks depend on those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chaining {
    /// As Click does it, by 8 bytes.
    Click,
    /// Cipher block chaining (RFC 3602).
    Cbc,
}

impl Chaining {
    /// Bytes of the initialisation vector.
    pub const fn iv_len(self) -> usize {
        match self {
            Chaining::Click => HALF,
            Chaining::Cbc => 16,
        }
    }
}

/// The keys of an association. They are overwritten when it goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    /// The key that encrypts. DES takes its first 8 bytes.
    pub encryption: [u8; KEY_LEN],
    /// The key that authenticates.
    pub authentication: [u8; KEY_LEN],
}

/// Shows nothing of the keys.
impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Material")
    }
}

impl Drop for Material {
    fn drop(&mut self) {
        self.encryption.zeroize();
        self.authentication.zeroize();
    }
}

/// AES with a key of 128 bits.
pub struct Aes(Aes128);

/// DES, or triple DES.
pub struct DesKey(Kind);

// Keys are made once, and there are few.
#[allow(clippy::large_enum_variant)]
enum Kind {
    Single(Des),
    Triple(TdesEde3),
}

/// What makes digests.
pub struct Authenticator(Hmac<Sha1>);

/// Initialisation vectors that nobody can predict (RFC 3602, 3).
pub struct Ivs(Aes128);

impl Aes {
    /// With a key.
    pub fn new(key: &[u8; KEY_LEN]) -> Aes {
        Aes(Aes128::new(&(*key).into()))
    }

    /// Encrypts or decrypts whole blocks of 16 bytes in place; what is left behind them stays as it is. `iv` has as many bytes as the
    /// [chaining](Chaining::iv_len) takes; with others nothing is done.
    pub fn run(&self, direction: Direction, chaining: Chaining, iv: &[u8], text: &mut [u8]) {
        match (chaining, iv.first_chunk::<HALF>()) {
            (Chaining::Cbc, _) => chain(&self.0, direction, iv, text),
            (Chaining::Click, Some(iv)) => self.run_click(direction, *iv, text),
            (Chaining::Click, None) => {}
        }
    }

    fn run_click(&self, direction: Direction, mut before: [u8; HALF], text: &mut [u8]) {
        for block in Block::<Aes128>::slice_as_chunks_mut(text).0 {
            let cipher_text: [u8; HALF] = std::array::from_fn(|at| block[at]);
            let mix = |block: &mut Block<Aes128>, with: [u8; HALF]| {
                block.iter_mut().zip(with).for_each(|(byte, with)| *byte ^= with);
            };
            match direction {
                Direction::Encrypt => {
                    mix(block, before);
                    self.0.encrypt_block(block);
                    before = std::array::from_fn(|at| block[at]);
                }
                Direction::Decrypt => {
                    self.0.decrypt_block(block);
                    mix(block, before);
                    before = cipher_text;
                }
            }
        }
    }
}

impl DesKey {
    /// Bytes of a block and of the initialisation vector.
    pub const BLOCK_LEN: usize = 8;

    /// With a key of 8 bytes, or of 24 for triple DES. Parity bits mean nothing.
    pub fn new(key: &[u8]) -> Option<DesKey> {
        let single = || Des::new_from_slice(key).ok().map(Kind::Single);
        single().or_else(|| TdesEde3::new_from_slice(key).ok().map(Kind::Triple)).map(DesKey)
    }

    /// Encrypts or decrypts whole blocks of 8 bytes in place; what is left behind them stays as it is.
    pub fn run(&self, direction: Direction, iv: &[u8; Self::BLOCK_LEN], text: &mut [u8]) {
        match &self.0 {
            Kind::Single(cipher) => chain(cipher, direction, iv, text),
            Kind::Triple(cipher) => chain(cipher, direction, iv, text),
        }
    }
}

/// Cipher block chaining.
fn chain<C>(cipher: &C, direction: Direction, iv: &[u8], text: &mut [u8])
where
    C: BlockSizeUser + BlockCipherEncrypt + BlockCipherDecrypt,
{
    let blocks = Block::<C>::slice_as_chunks_mut(text).0;
    match direction {
        Direction::Encrypt => {
            let Ok(mut mode) = cbc::Encryptor::inner_iv_slice_init(cipher, iv) else { return };
            mode.encrypt_blocks(blocks);
        }
        Direction::Decrypt => {
            let Ok(mut mode) = cbc::Decryptor::inner_iv_slice_init(cipher, iv) else { return };
            mode.decrypt_blocks(blocks);
        }
    }
}

impl Authenticator {
    /// With a key.
    pub fn new(key: &[u8; KEY_LEN]) -> Authenticator {
        Authenticator(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    /// The digest of some bytes: the first 96 bits of HMAC-SHA1 (RFC 2404).
    pub fn digest(&self, bytes: &[u8]) -> [u8; DIGEST_LEN] {
        let mut mac = self.0.clone();
        mac.update(bytes);
        let whole = mac.finalize().into_bytes();
        std::array::from_fn(|at| whole[at])
    }

    /// Whether that is the digest of some bytes, found out in a time that does not depend on it.
    pub fn is_right(&self, bytes: &[u8], digest: &[u8; DIGEST_LEN]) -> bool {
        let mut mac = self.0.clone();
        mac.update(bytes);
        mac.verify_truncated_left(digest).is_ok()
    }
}

/// The first 96 bits of SHA-1 without a key. This finds damage and no forgery: anybody can compute it.
pub fn checksum(bytes: &[u8]) -> [u8; DIGEST_LEN] {
    let whole = Sha1::digest(bytes);
    std::array::from_fn(|at| whole[at])
}

impl Ivs {
    /// With a key that the operating system makes up.
    ///
    /// # Errors
    /// [`SuiteError::Random`].
    pub fn new() -> Result<Ivs, SuiteError> {
        let mut key = [0; KEY_LEN];
        SystemRandom::new().fill(&mut key).map_err(|_| SuiteError::Random)?;
        let ivs = Ivs(Aes128::new(&key.into()));
        key.zeroize();
        Ok(ivs)
    }

    /// The vector for this number, which is used once. DES takes its first 8 bytes.
    pub fn get(&self, number: u64) -> [u8; 16] {
        let mut block = Block::<Aes128>::default();
        block[..8].copy_from_slice(&number.to_be_bytes());
        self.0.encrypt_block(&mut block);
        block.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..][..2], 16).unwrap()).collect()
    }

    /// RFC 3602, 4, case 1; HMAC-SHA1 as Python's `hmac` computes it; FIPS 81, table C1.
    #[test]
    fn published_vectors() {
        let aes = Aes::new(&unhex("06a9214036b8a15b512e03d534120006").try_into().unwrap());
        let mut text = *b"Single block msg";
        let iv = unhex("3dafba429d9eb430b422da802c9fac41");
        aes.run(Direction::Encrypt, Chaining::Cbc, &iv, &mut text);
        assert_eq!(text[..], unhex("e353779c1079aeb82708942dbe77181a"));
        aes.run(Direction::Decrypt, Chaining::Cbc, &iv, &mut text);
        assert_eq!(&text, b"Single block msg");

        let digest = Authenticator::new(&[0x0b; 16]).digest(b"Hi There");
        assert_eq!(digest[..], unhex("675b0b3a1b4ddf4e124872da"));
        assert_eq!(checksum(b"abc")[..], unhex("a9993e364706816aba3e2571"), "FIPS 180-4");

        let des = DesKey::new(&unhex("0123456789abcdef")).unwrap();
        let mut text = *b"Now is the time for all ";
        des.run(Direction::Encrypt, &unhex("1234567890abcdef").try_into().unwrap(), &mut text);
        assert_eq!(text[..], unhex("e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6"));
        assert!(DesKey::new(&[0; 7]).is_none() && DesKey::new(&[0; 16]).is_none());
    }

    /// Click's chaining, spelled out by single blocks.
    #[test]
    fn clicks_chaining_passes_eight_bytes_on() {
        let key = [7; 16];
        let (aes, block) = (Aes::new(&key), Aes128::new(&key.into()));
        let plain: Vec<u8> = (0..48).collect();
        let mut text = plain.clone();
        aes.run(Direction::Encrypt, Chaining::Click, &[9; 8], &mut text);
        let mut before = [9; 8];
        for at in [0, 16, 32] {
            let mut want: [u8; 16] = plain[at..at + 16].try_into().unwrap();
            (0..8).for_each(|i| want[i] ^= before[i]);
            let mut want = want.into();
            block.encrypt_block(&mut want);
            assert_eq!(text[at..at + 16], want[..]);
            before = want[..8].try_into().unwrap();
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let material = Material { encryption: [0x41; 16], authentication: [0x42; 16] };
        assert_eq!(format!("{material:?}"), "Material");
    }

    proptest! {
        /// What is encrypted comes back at any length; what is left behind the last block never changes.
        #[test]
        fn there_and_back(key in any::<[u8; 16]>(), iv in any::<[u8; 16]>(), text in prop::collection::vec(any::<u8>(), 0..100)) {
            let aes = Aes::new(&key);
            for chaining in [Chaining::Click, Chaining::Cbc] {
                let mut work = text.clone();
                let iv = &iv[..chaining.iv_len()];
                aes.run(Direction::Encrypt, chaining, iv, &mut work);
                let whole = text.len() / 16 * 16;
                prop_assert_eq!(&work[whole..], &text[whole..]);
                prop_assert!(whole == 0 || work[..whole] != text[..whole]);
                aes.run(Direction::Decrypt, chaining, iv, &mut work);
                prop_assert_eq!(&work, &text);
            }
            let triple = [key.as_slice(), &iv[..8]].concat();
            for key in [&key[..8], &triple] {
                let (des, mut work) = (DesKey::new(key).unwrap(), text.clone());
                des.run(Direction::Encrypt, iv[..8].try_into().unwrap(), &mut work);
                des.run(Direction::Decrypt, iv[..8].try_into().unwrap(), &mut work);
                prop_assert_eq!(&work, &text);
            }
            let mac = Authenticator::new(&key);
            let mut digest = mac.digest(&text);
            prop_assert!(mac.is_right(&text, &digest));
            digest[text.len() % 12] ^= 1;
            prop_assert!(!mac.is_right(&text, &digest));
        }
    }
}
