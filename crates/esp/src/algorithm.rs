// SPDX-License-Identifier: MIT OR Apache-2.0
//! What protects packets: the algorithms of RFC 8221, by the names that Linux' XFRM and `ip xfrm` use.
//!
//! | name | RFC | key material | IV | ICV |
//! |---|---|---|---|---|
//! | `rfc4106(gcm(aes))` | 4106 | 16 or 32 bytes and 4 of salt | 8 | 8, 12 or 16 |
//! | `rfc4543(gcm(aes))` | 4543 | the same; authenticates only | 8 | 16 |
//! | `rfc7539esp(chacha20,poly1305)` | 7634 | 32 bytes and 4 of salt | 8 | 16 |
//! | `cbc(aes)` | 3602 | 16, 24 or 32 bytes | 16 | of its companion |
//! | `cbc(des3_ede)` | 2451 | 24 bytes; obsolete, for comparisons only | 8 | of its companion |
//! | `ecb(cipher_null)` | 2410 | none; authenticates only | 0 | of its companion |
//! | `hmac(sha1)` | 2404 | 20 bytes; companion | | 12 or 20 |
//! | `hmac(sha256)` | 4868 | 32 bytes; companion | | 12, 16 or 32 |
//! | `hmac(sha384)` | 4868 | 48 bytes; companion | | 24 or 48 |
//! | `hmac(sha512)` | 4868 | 64 bytes; companion | | 32 or 64 |

use std::fmt;
use std::str::FromStr;

/// An algorithm that encrypts and authenticates at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aead {
    /// AES in Galois counter mode.
    AesGcm,
    /// The same, of which the payload is authenticated only.
    AesGmac,
    /// ChaCha20 and Poly1305.
    ChaCha20Poly1305,
}

/// An algorithm that encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES in cipher block chaining mode.
    AesCbc,
    /// Triple DES in the same mode: obsolete, since its blocks are too short (RFC 8221, 5). For comparisons with published measurements.
    TripleDesCbc,
    /// None.
    Null,
}

/// An algorithm that authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Auth {
    /// HMAC over SHA-1.
    HmacSha1,
    /// HMAC over SHA-256.
    HmacSha256,
    /// HMAC over SHA-384.
    HmacSha384,
    /// HMAC over SHA-512.
    HmacSha512,
}

/// A name that stands for no algorithm, or not for one of that kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} algorithm '{name}'; known are {known}")]
pub struct Unknown {
    /// What it should have been.
    pub kind: &'static str,
    /// The name.
    pub name: String,
    /// The names that there are.
    pub known: String,
}

/// A key whose length no variant of the algorithm has, or an ICV length that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{algorithm} takes {what} of {allowed} bytes, not {found}")]
pub struct WrongLength {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// What has that length.
    pub what: &'static str,
    /// Lengths that it may have, in bytes.
    pub allowed: &'static str,
    /// The length that was given, in bytes.
    pub found: usize,
}

/// Bytes of salt that stand behind the key of a combined algorithm: the first bytes of each nonce.
pub const SALT_LEN: usize = 4;

/// Declares names: Linux' first, then short ones that people type.
macro_rules! names {
    ($ty:ident, $kind:literal: $($variant:ident = $name:literal $(| $short:literal)*),* $(,)?) => {
        impl $ty {
            /// All of them.
            pub const ALL: &[$ty] = &[$($ty::$variant),*];

            /// The name that Linux has for it.
            pub fn name(self) -> &'static str {
                match self { $($ty::$variant => $name),* }
            }
        }

        impl FromStr for $ty {
            type Err = Unknown;

            fn from_str(text: &str) -> Result<$ty, Unknown> {
                match text.to_ascii_lowercase().as_str() {
                    $($name $(| $short)* => Ok($ty::$variant),)*
                    _ => Err(Unknown {
                        kind: $kind,
                        name: text.to_owned(),
                        known: [$($name),*].join(", "),
                    }),
                }
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

names!(Aead, "combined":
    AesGcm = "rfc4106(gcm(aes))" | "aes-gcm",
    AesGmac = "rfc4543(gcm(aes))" | "aes-gmac",
    ChaCha20Poly1305 = "rfc7539esp(chacha20,poly1305)" | "chacha20-poly1305",
);
names!(Cipher, "encryption":
    AesCbc = "cbc(aes)" | "aes-cbc" | "aes",
    TripleDesCbc = "cbc(des3_ede)" | "3des-cbc" | "des3_ede",
    Null = "ecb(cipher_null)" | "null" | "cipher_null",
);
names!(Auth, "authentication":
    HmacSha1 = "hmac(sha1)" | "sha1",
    HmacSha256 = "hmac(sha256)" | "sha256",
    HmacSha384 = "hmac(sha384)" | "sha384",
    HmacSha512 = "hmac(sha512)" | "sha512",
);

impl Aead {
    /// Lengths of the key with its salt, in bytes.
    pub(crate) const fn key_lens(self) -> (&'static [usize], &'static str) {
        match self {
            Aead::AesGcm | Aead::AesGmac => (&[20, 36], "20 or 36"),
            Aead::ChaCha20Poly1305 => (&[36], "36"),
        }
    }

    /// Lengths of the integrity check value, in bytes.
    pub(crate) const fn icv_lens(self) -> (&'static [usize], &'static str) {
        match self {
            Aead::AesGcm => (&[8, 12, 16], "8, 12 or 16"),
            Aead::AesGmac | Aead::ChaCha20Poly1305 => (&[16], "16"),
        }
    }

    /// Whether the payload stays legible.
    pub const fn is_authentication_only(self) -> bool {
        matches!(self, Aead::AesGmac)
    }
}

impl Cipher {
    /// Lengths of the key, in bytes.
    pub(crate) const fn key_lens(self) -> (&'static [usize], &'static str) {
        match self {
            Cipher::AesCbc => (&[16, 24, 32], "16, 24 or 32"),
            Cipher::TripleDesCbc => (&[24], "24"),
            Cipher::Null => (&[0], "0"),
        }
    }

    /// Bytes of a block, to which payloads are padded; also those of the IV, but for [`Cipher::Null`].
    pub const fn block_len(self) -> usize {
        match self {
            Cipher::AesCbc => 16,
            Cipher::TripleDesCbc => 8,
            Cipher::Null => 1,
        }
    }

    /// Bytes of the IV.
    pub const fn iv_len(self) -> usize {
        match self {
            Cipher::Null => 0,
            other => other.block_len(),
        }
    }
}

impl Auth {
    /// Lengths of the key, in bytes: that of the hash.
    pub(crate) const fn key_lens(self) -> (&'static [usize], &'static str) {
        match self {
            Auth::HmacSha1 => (&[20], "20"),
            Auth::HmacSha256 => (&[32], "32"),
            Auth::HmacSha384 => (&[48], "48"),
            Auth::HmacSha512 => (&[64], "64"),
        }
    }

    /// Lengths of the integrity check value, in bytes. The first is the standard's; 12 for SHA-256 is what old Linux kernels sent.
    pub(crate) const fn icv_lens(self) -> (&'static [usize], &'static str) {
        match self {
            Auth::HmacSha1 => (&[12, 20], "12 or 20"),
            Auth::HmacSha256 => (&[16, 12, 32], "12, 16 or 32"),
            Auth::HmacSha384 => (&[24, 48], "24 or 48"),
            Auth::HmacSha512 => (&[32, 64], "32 or 64"),
        }
    }

    /// Bytes of the integrity check value that the standards name.
    pub const fn standard_icv_len(self) -> usize {
        self.icv_lens().0[0]
    }
}

/// Holds a length against those that there are.
pub(crate) fn check_len(
    algorithm: &'static str,
    what: &'static str,
    (lens, allowed): (&[usize], &'static str),
    found: usize,
) -> Result<(), WrongLength> {
    if lens.contains(&found) { Ok(()) } else { Err(WrongLength { algorithm, what, allowed, found }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_shown() {
        for aead in Aead::ALL {
            assert_eq!(aead.to_string().parse(), Ok(*aead));
        }
        for cipher in Cipher::ALL {
            assert_eq!(cipher.to_string().parse(), Ok(*cipher));
        }
        for auth in Auth::ALL {
            assert_eq!(auth.to_string().parse(), Ok(*auth));
        }
        assert_eq!("AES-GCM".parse(), Ok(Aead::AesGcm));
        let why = "md5".parse::<Auth>().unwrap_err().to_string();
        assert_eq!(
            why,
            "unknown authentication algorithm 'md5'; known are hmac(sha1), hmac(sha256), hmac(sha384), hmac(sha512)"
        );
    }

    #[test]
    fn wrong_lengths_are_named() {
        let why = check_len("cbc(aes)", "a key", Cipher::AesCbc.key_lens(), 17).unwrap_err().to_string();
        assert_eq!(why, "cbc(aes) takes a key of 16, 24 or 32 bytes, not 17");
    }
}
