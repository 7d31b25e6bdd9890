// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing beyond a slice is read or written: texts, additional data and tags lie against pages that nobody may touch.
#![cfg(target_os = "linux")]

mod common;

use common::{implementations, key};
use junctor_gcm::{Job, Key};

const PAGE: usize = 4096;

/// Two pages with a page without access before and behind them.
struct Guarded(*mut u8);

impl Guarded {
    fn new() -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping of four pages; the second and third are made accessible.
        unsafe {
            let base = libc::mmap(std::ptr::null_mut(), 4 * PAGE, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            let inner = base.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(inner.cast(), 2 * PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
            Self(inner)
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the two pages are ours, and initialised with zeros by the kernel.
        unsafe { std::slice::from_raw_parts_mut(self.0, 2 * PAGE) }
    }

    fn at_the_end(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes()[2 * PAGE - len..]
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { libc::munmap(self.0.sub(PAGE).cast(), 4 * PAGE) };
    }
}

#[test]
fn nothing_beyond_slices_is_touched() {
    let [mut aads, mut texts, mut tags] = [Guarded::new(), Guarded::new(), Guarded::new()];
    for implementation in implementations() {
        let keys = [16, 32].map(|len| key(implementation, &vec![len as u8; len]));
        for text_len in (0..1300).chain([1400, 2047, 4000]) {
            for (key, aad_len) in keys.iter().zip([text_len % 80, 8]) {
                let tag_len = 16 - text_len % 9;
                let (aad, tag) = (&*aads.at_the_end(aad_len), tags.at_the_end(tag_len));
                seal_and_open(key, aad, texts.at_the_end(text_len), tag);
                let (aad, tag) = (&aads.bytes()[..aad_len], &mut tags.bytes()[..tag_len]);
                seal_and_open(key, aad, &mut texts.bytes()[..text_len], tag);
            }
        }
    }
}

fn seal_and_open(key: &Key, aad: &[u8], text: &mut [u8], tag: &mut [u8]) {
    let mut jobs = [Job::new(key, [5; 12], aad, text, tag)];
    junctor_gcm::seal(&mut jobs);
    junctor_gcm::open(&mut jobs);
    assert!(jobs[0].outcome().is_ok(), "what was sealed");
}
