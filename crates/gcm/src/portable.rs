// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fallback, which runs on every processor: `ring`, packet by packet.

use erase::Erased;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};

use crate::{Job, TAG_LEN};

pub(crate) struct Key(Erased<LessSafeKey>);

impl Key {
    /// A key of 16 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            32 => &AES_256_GCM,
            _ => return None,
        };
        UnboundKey::new(algorithm, key).ok().map(|key| Self(Erased::new(LessSafeKey::new(key))))
    }

    /// Encrypts or, as the key stream is the same in both directions, decrypts. Returns the tag over the result.
    fn apply(&self, job: &mut Job<'_>) -> [u8; TAG_LEN] {
        let nonce = Nonce::assume_unique_for_key(*job.nonce());
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(job.aad), job.text);
        // It refuses only texts of more than 64 GiB.
        let tag = tag.expect("a text of at most TEXT_MAX bytes");
        tag.as_ref().try_into().expect("a whole tag")
    }

    pub(crate) fn seal(&self, job: &mut Job<'_>) {
        let tag = self.apply(job);
        job.tag.copy_from_slice(&tag[..job.tag.len()]);
    }

    /// Opens a job whose tag is cut off. `ring` compares whole tags only, so the text is decrypted, and encrypted again for its tag.
    fn open_cut_off(&self, job: &mut Job<'_>) -> bool {
        self.apply(job);
        let tag = self.apply(job);
        let differs = tag.iter().zip(&*job.tag).fold(0, |differs, (one, other)| differs | (one ^ other));
        let is_genuine = std::hint::black_box(differs) == 0;
        if is_genuine {
            self.apply(job);
        }
        is_genuine
    }

    pub(crate) fn open(&self, job: &mut Job<'_>) {
        job.genuine = match <[u8; TAG_LEN]>::try_from(&*job.tag) {
            Ok(tag) => {
                let (nonce, tag) = (Nonce::assume_unique_for_key(*job.nonce()), Tag::from(tag));
                self.0.open_in_place_separate_tag(nonce, Aad::from(job.aad), tag, job.text, 0..).is_ok()
            }
            Err(_) => self.open_cut_off(job),
        };
        job.close();
    }
}
