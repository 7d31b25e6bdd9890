// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys, and the choice of the implementation that works with them.

use std::fmt;
use std::sync::OnceLock;

use crate::{Job, NONCE_LEN, TAG_LEN, portable};

#[cfg(target_arch = "x86_64")]
use crate::kernel;

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// Our kernel: VAES and VPCLMULQDQ on registers of 512 bits.
    Wide,
    /// The crate `ring`, on every processor.
    Portable,
}

impl Implementation {
    /// The fastest implementation that this processor can run.
    ///
    /// # Example
    /// ```
    /// use junctor_gcm::Implementation;
    /// assert!(Implementation::best().is_supported());
    /// ```
    pub fn best() -> Self {
        static BEST: OnceLock<Implementation> = OnceLock::new();
        *BEST.get_or_init(|| if Self::Wide.is_supported() { Self::Wide } else { Self::Portable })
    }

    /// Whether this processor can run it.
    pub fn is_supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Wide => kernel::Token::detect().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Wide => false,
            Self::Portable => true,
        }
    }
}

/// Why there is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key has a wrong length.
    #[error("an AES-GCM key has 16 or 32 bytes, but this one has {0}")]
    Length(usize),
    /// The processor lacks instructions of this implementation.
    #[error(
        "this processor lacks instructions that the implementation {0:?} needs; Implementation::best() says what it can run"
    )]
    Unsupported(Implementation),
}

/// The tag does not belong to this text, additional data, nonce and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tag is wrong: the packet was changed or was sealed under another key")]
pub struct Forged;

/// A key of AES-128 or AES-256 with all that can be computed in advance.
///
/// It takes 896 bytes. Keep it behind a pointer, and make it once: that costs as much as sealing some packets.
pub struct Key {
    pub(crate) inner: Inner,
}

// Boxing the larger one would cost each packet a load that depends on another.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Inner {
    #[cfg(target_arch = "x86_64")]
    Wide(kernel::Key),
    Portable(portable::Key),
}

impl Key {
    /// Makes a key from 16 or 32 bytes for the implementation that is best here.
    ///
    /// # Errors
    /// Another length.
    pub fn new(key: &[u8]) -> Result<Self, KeyError> {
        Self::with(Implementation::best(), key)
    }

    /// Makes a key for a certain implementation: for tests and benchmarks.
    ///
    /// # Errors
    /// Another length, or an implementation that this processor cannot run.
    pub fn with(implementation: Implementation, key: &[u8]) -> Result<Self, KeyError> {
        let inner = match implementation {
            #[cfg(target_arch = "x86_64")]
            Implementation::Wide => {
                let token = kernel::Token::detect().ok_or(KeyError::Unsupported(implementation))?;
                Inner::Wide(kernel::Key::new(token, key).ok_or(KeyError::Length(key.len()))?)
            }
            #[cfg(not(target_arch = "x86_64"))]
            Implementation::Wide => return Err(KeyError::Unsupported(implementation)),
            Implementation::Portable => {
                Inner::Portable(portable::Key::new(key).ok_or(KeyError::Length(key.len()))?)
            }
        };
        Ok(Self { inner })
    }

    /// The cache lines that a text of so many bytes needs of it, as addresses, which are only for asking for them ahead.
    #[inline]
    pub fn lines_for(&self, text_len: usize) -> impl Iterator<Item = *const u8> {
        let (first, len) = match &self.inner {
            #[cfg(target_arch = "x86_64")]
            Inner::Wide(key) => key.bytes_for(text_len),
            Inner::Portable(key) => (std::ptr::from_ref(key).cast(), 1),
        };
        (0..len).step_by(64).map(move |at| first.wrapping_add(at))
    }

    /// Who works with this key.
    pub fn implementation(&self) -> Implementation {
        match self.inner {
            #[cfg(target_arch = "x86_64")]
            Inner::Wide(_) => Implementation::Wide,
            Inner::Portable(_) => Implementation::Portable,
        }
    }

    /// Encrypts `text` in place and returns the tag over `aad` and the result.
    ///
    /// # Panics
    /// If `text` is longer than [`crate::TEXT_MAX`].
    pub fn seal(&self, nonce: &[u8; NONCE_LEN], aad: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        let mut tag = [0; TAG_LEN];
        crate::seal(&mut [Job::new(self, *nonce, aad, text, &mut tag)]);
        tag
    }

    /// Decrypts `text` in place if `tag` is right, and otherwise fills it with zeros.
    ///
    /// # Errors
    /// The tag is wrong.
    ///
    /// # Panics
    /// If `text` is longer than [`crate::TEXT_MAX`].
    pub fn open(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), Forged> {
        let mut tag = *tag;
        let mut jobs = [Job::new(self, *nonce, aad, text, &mut tag)];
        crate::open(&mut jobs);
        jobs[0].outcome()
    }
}

/// Shows the implementation and nothing of the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("implementation", &self.implementation()).finish_non_exhaustive()
    }
}
