// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fallback, which runs on every processor: `ring`, packet by packet.

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};

use crate::Job;

pub(crate) struct Key(LessSafeKey);

impl Key {
    /// A key of 16 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            32 => &AES_256_GCM,
            _ => return None,
        };
        UnboundKey::new(algorithm, key).ok().map(|key| Self(LessSafeKey::new(key)))
    }

    pub(crate) fn seal(&self, job: &mut Job<'_>) {
        let nonce = Nonce::assume_unique_for_key(*job.nonce());
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(job.aad), job.text);
        // It refuses only texts of more than 64 GiB.
        job.tag.copy_from_slice(tag.expect("a text of at most TEXT_MAX bytes").as_ref());
    }

    pub(crate) fn open(&self, job: &mut Job<'_>) {
        let nonce = Nonce::assume_unique_for_key(*job.nonce());
        let opened =
            self.0.open_in_place_separate_tag(nonce, Aad::from(job.aad), Tag::from(*job.tag), job.text, 0..);
        job.genuine = opened.is_ok();
        if !job.genuine {
            job.text.fill(0);
        }
    }
}
