// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs, one for each packet of a batch.

use crate::key::{Forged, Inner};
use crate::{Key, NONCE_LEN, TAG_LEN, TEXT_MAX};

/// One packet to be sealed or opened: its key, nonce, additional data, text and tag.
pub struct Job<'a> {
    pub(crate) key: &'a Key,
    /// The nonce, and four zeros for the block counter.
    pub(crate) counter: [u8; 16],
    pub(crate) aad: &'a [u8],
    pub(crate) text: &'a mut [u8],
    pub(crate) tag: &'a mut [u8],
    pub(crate) genuine: bool,
    /// Which code of the kernel takes it.
    #[cfg(target_arch = "x86_64")]
    pub(crate) class: u8,
}

impl<'a> Job<'a> {
    /// A job for [`seal`], which writes `tag`, or for [`open`], which compares it. Both change `text` in place. A tag of less than [`TAG_LEN`] bytes
    /// is the beginning of the whole one: a protocol may carry no more (RFC 4106, 6: 8, 12 or 16).
    ///
    /// # Panics
    /// If `text` is longer than [`TEXT_MAX`], or `tag` has not from 8 to [`TAG_LEN`] bytes.
    #[inline]
    pub fn new(
        key: &'a Key,
        nonce: [u8; NONCE_LEN],
        aad: &'a [u8],
        text: &'a mut [u8],
        tag: &'a mut [u8],
    ) -> Self {
        assert!(text.len() <= TEXT_MAX, "a text of {} bytes is longer than {TEXT_MAX}", text.len());
        assert!((8..=TAG_LEN).contains(&tag.len()), "a tag of {} bytes", tag.len());
        let mut counter = [0; 16];
        counter[..NONCE_LEN].copy_from_slice(&nonce);
        #[cfg(target_arch = "x86_64")]
        let class = crate::kernel::class(key, text.len());
        Self {
            key,
            counter,
            aad,
            text,
            tag,
            genuine: false,
            #[cfg(target_arch = "x86_64")]
            class,
        }
    }

    /// The tag that [`seal`] has written.
    pub fn tag(&self) -> &[u8] {
        self.tag
    }

    /// Whether [`open`] found the tag right.
    ///
    /// # Errors
    /// The tag was wrong, and the text is zeros now; or the job was not opened since it was made or sealed.
    #[inline]
    pub fn outcome(&self) -> Result<(), Forged> {
        if self.genuine { Ok(()) } else { Err(Forged) }
    }

    /// Overwrites a text that must not be used.
    pub(crate) fn close(&mut self) {
        if !self.genuine {
            self.text.fill(0);
        }
    }

    pub(crate) fn nonce(&self) -> &[u8; NONCE_LEN] {
        self.counter.first_chunk().expect("twelve of sixteen bytes")
    }
}

/// Encrypts each job's text and writes its tag.
pub fn seal(jobs: &mut [Job<'_>]) {
    run::<true>(jobs);
}

/// Decrypts each job's text if its tag is right, and fills it with zeros otherwise: see [`Job::outcome`].
pub fn open(jobs: &mut [Job<'_>]) {
    run::<false>(jobs);
}

fn run<const SEAL: bool>(jobs: &mut [Job<'_>]) {
    #[cfg(target_arch = "x86_64")]
    if !crate::kernel::run::<SEAL>(jobs) {
        return;
    }
    for job in jobs {
        match &job.key.inner {
            #[cfg(target_arch = "x86_64")]
            Inner::Wide(_) => {}
            Inner::Portable(key) if SEAL => {
                job.genuine = false;
                key.seal(job);
            }
            Inner::Portable(key) => key.open(job),
        }
    }
}
