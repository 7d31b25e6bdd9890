// SPDX-License-Identifier: MIT OR Apache-2.0
//! Look-ups, of one packet and of many.

use sync::prefetch::prefetch;

use super::block::{ASKS, Block, Compare, Portable, Tag};
use super::{Key, Mask, NONE, Rules, Slot, Table};

/// Keys that go through a table together.
const GROUP: usize = 32;

impl<const W: usize> Rules<W> {
    /// The number of the first rule that each key matches, or [`NONE`]. `asked` is called with a key's index and a rule's number where
    /// the rule [asks](super::Rule::asks); it says whether the packet matches.
    ///
    /// # Panics
    /// If there is no room for all answers.
    #[allow(unsafe_code)]
    pub fn find_all(&self, keys: &[Key<W>], found: &mut [u32], asked: &mut impl FnMut(usize, u32) -> bool) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has it.
            return unsafe { self.find_avx2(keys, found, asked) };
        }
        self.find_with::<Portable>(keys, found, asked);
    }

    /// The number of the first rule that a key matches.
    pub fn find(&self, key: &Key<W>, asked: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        let mut found = [NONE];
        self.find_all(std::slice::from_ref(key), &mut found, &mut |_, rule| asked(rule));
        (found[0] != NONE).then_some(found[0])
    }

    /// # Safety
    /// The processor has AVX2.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[target_feature(enable = "avx2")]
    unsafe fn find_avx2(
        &self,
        keys: &[Key<W>],
        found: &mut [u32],
        asked: &mut impl FnMut(usize, u32) -> bool,
    ) {
        self.find_with::<super::block::Avx2>(keys, found, asked);
    }

    /// The same with one way to compare blocks.
    #[inline(always)]
    pub(super) fn find_with<C: Compare>(
        &self,
        keys: &[Key<W>],
        found: &mut [u32],
        asked: &mut impl FnMut(usize, u32) -> bool,
    ) {
        let found = &mut found[..keys.len()];
        for (group, (keys, found)) in keys.chunks(GROUP).zip(found.chunks_mut(GROUP)).enumerate() {
            let mut best = [Tag::MAX; GROUP];
            let best = &mut best[..keys.len()];
            self.narrow::<C>(keys, best, &mut |i, rule| asked(group * GROUP + i, rule));
            for (found, best) in found.iter_mut().zip(best) {
                *found = *best >> 1;
            }
        }
    }

    /// Puts earlier rules in the place of those found so far.
    #[inline(always)]
    fn narrow<C: Compare>(
        &self,
        keys: &[Key<W>],
        best: &mut [Tag],
        asked: &mut impl FnMut(usize, u32) -> bool,
    ) {
        for table in &self.tables {
            if best.iter().all(|best| *best <= table.first) {
                break;
            }
            let mut hashes = [0; GROUP];
            for (key, hash) in keys.iter().zip(&mut hashes) {
                *hash = table.mask.hash(key);
                table.prefetch(*hash);
            }
            let mut slots = [Slot::FREE; GROUP];
            for ((hash, slot), best) in hashes.iter().zip(&mut slots).zip(&*best) {
                *slot = table.slot(*hash);
                if slot.blocks > 0 && slot.first < *best {
                    self.blocks[slot.start as usize].prefetch();
                }
            }
            for (i, (key, slot)) in keys.iter().zip(&slots).enumerate() {
                best[i] = self.bucket::<C>(*slot, key, best[i], &mut |rule| asked(i, rule));
            }
        }
        let rest = &self.blocks[self.rest..];
        for (i, key) in keys.iter().enumerate() {
            best[i] = scan::<C, W>(rest, key, best[i], &mut |rule| asked(i, rule));
        }
    }

    /// The first rule of a bucket that a key matches, if it comes before `best`, which else it is.
    #[inline(always)]
    fn bucket<C: Compare>(
        &self,
        slot: Slot,
        key: &Key<W>,
        best: Tag,
        asked: &mut impl FnMut(u32) -> bool,
    ) -> Tag {
        let start = slot.start as usize;
        if slot.first >= best {
            best
        } else if slot.blocks > 0 {
            scan::<C, W>(&self.blocks[start..start + slot.blocks as usize], key, best, asked)
        } else {
            self.children[start].narrow_one::<C>(key, best, asked)
        }
    }

    /// The same for one key.
    #[inline(never)]
    fn narrow_one<C: Compare>(&self, key: &Key<W>, mut best: Tag, asked: &mut dyn FnMut(u32) -> bool) -> Tag {
        for table in &self.tables {
            if table.first >= best {
                break;
            }
            let slot = table.slot(table.mask.hash(key));
            best = self.bucket::<C>(slot, key, best, &mut |rule| asked(rule));
        }
        scan::<C, W>(&self.blocks[self.rest..], key, best, asked)
    }
}

/// The tag of the first rule of some blocks that a key matches, if it comes before `best`, which else it is.
#[inline(always)]
fn scan<C: Compare, const W: usize>(
    blocks: &[Block<W>],
    key: &Key<W>,
    best: Tag,
    asked: &mut (impl FnMut(u32) -> bool + ?Sized),
) -> Tag {
    for block in blocks {
        if block.first() >= best {
            break;
        }
        // SAFETY: `C` is chosen by `find_all`, which has seen that the processor has its instructions.
        #[allow(unsafe_code)]
        let mut matching = unsafe { C::matching(block, key) };
        while matching != 0 {
            let tag = block.tag(matching.trailing_zeros() as usize);
            if tag >= best {
                return best;
            }
            if tag & ASKS == 0 || asked(tag >> 1) {
                return tag;
            }
            matching &= matching - 1;
        }
    }
    best
}

impl<const W: usize> Table<W> {
    /// Asks for the slot of a hash.
    #[inline(always)]
    fn prefetch(&self, hash: u32) {
        prefetch(&self.slots[Mask::<W>::at(hash, self.slots.len())]);
    }

    /// The bucket of a hash; a free slot if there is none.
    #[inline(always)]
    fn slot(&self, hash: u32) -> Slot {
        let mut at = Mask::<W>::at(hash, self.slots.len());
        loop {
            let slot = self.slots[at];
            if slot.hash == hash || slot.first == Tag::MAX {
                return slot;
            }
            at = (at + 1) % self.slots.len();
        }
    }
}
