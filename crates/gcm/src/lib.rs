// SPDX-License-Identifier: MIT OR Apache-2.0
//! AES-GCM (NIST SP 800-38D) for whole batches of packets, with nonces of 12 bytes and tags of 16 or their first 8 to 15.
//!
//! A [`Key`] is made once for a security association. [`Key::seal`] and [`Key::open`] work on one packet. [`seal`] and [`open`] take a
//! batch of [`Job`]s with any mixture of keys and lengths, and are faster: packets of one size class are in the registers together.
//! The additional data may have any length, so GMAC (RFC 4543) is a job with an empty text.
//!
//! ```
//! use junctor_gcm::{Job, Key};
//!
//! let key = Key::new(b"sixteen bytes...")?;
//! let (nonce, aad) = ([7; 12], b"header");
//! let (mut text, mut tag) = (*b"some text", [0; 16]);
//! junctor_gcm::seal(&mut [Job::new(&key, nonce, aad, &mut text, &mut tag)]);
//! assert_ne!(&text, b"some text");
//! key.open(&nonce, aad, &mut text, &tag)?;
//! assert_eq!(&text, b"some text");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The caller's duty
//! A nonce must never repeat under one key. The crate cannot check that.
//!
//! # Forged packets
//! Opening decrypts and authenticates in one pass. If the tag is wrong, the text is overwritten with zeros, so that nobody can use it.
//!
//! # Constant time
//! Time and memory accesses depend on lengths, on the choice of keys, and on whether a tag was right; all of these are public. They do not
//! depend on key, text or tag: the kernel has no branch and no address that is computed from them. AES rounds and carry-less products
//! are instructions whose time does not depend on their operands; there are no tables of AES or GHASH values that data selects from. Tags are
//! compared as a whole. The fallback, `ring`, makes the same promise.
//!
//! # Keys in memory
//! A key is overwritten with zeros when it is dropped, those of the fallback included (by `erase::Erased`, since `ring` offers no way). Making a key leaves copies on the stack: wrap it in
//! `erase::apart`. Copies of round keys in registers, and on the stack of a function that has sealed or opened, are not overwritten.
#![warn(clippy::undocumented_unsafe_blocks)]

mod job;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod kernel;
mod key;
mod portable;

pub use job::{Job, open, seal};
pub use key::{Forged, Implementation, Key, KeyError};

/// The length of a nonce: an explicit one of ESP is four bytes of salt and eight bytes of initialisation vector (RFC 4106).
pub const NONCE_LEN: usize = 12;
/// The length of a whole tag.
pub const TAG_LEN: usize = 16;
/// The longest text of one job. The block counter has 32 bits, so it cannot wrap within such a text.
pub const TEXT_MAX: usize = 1 << 16;
