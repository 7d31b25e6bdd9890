// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a bridge asks for the frames of a batch: of their sources, whether there is anything to learn, and where their destinations
//! are.
//!
//! In stages, so that what each of them waits for is waited for once. [`Fdb::seek`] computes where all the addresses belong and asks
//! for their cache lines; [`Fdb::answer`] reads them. For an ordinary frame, its source known and where it was, nothing
//! is written. At any other it stops, because what one frame teaches counts for the next one of its batch.
//!
//! In a storm of strangers, of whom no more are to be learned, it need not stop for each: they are counted, if they stand nowhere.
//!
//! # Eight words at once
//!
//! Where the processor has AVX2 a bucket is compared as a whole, with a third of the instructions, and with AVX-512 (on registers
//! of AVX2's length, for whose use no processor slows down) a quarter. The words are atomics, of which
//! Rust has no loads of several at once. So these loads are assembly: to the compiler they may do what relaxed loads of each word do,
//! and the processor does no less, as it reads aligned words of eight bytes in one piece. Of what they saw of a destination
//! it is concluded only *which* word to look at, and that is then loaded as ever; of a source, that there is nothing to learn.

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
mod avx512;

use super::{Bucket, BucketPlace, Fdb, FdbKey, Found, Mark, PAYLOAD, Reader, Relaxed, prefetch_bucket};

/// Where the sources and the destinations of a batch's frames belong, by [`Fdb::seek`].
#[derive(Debug, Default)]
pub struct Places {
    /// Of each frame, its source's first bucket and its destination's.
    buckets: Vec<[u32; 2]>,
    /// The words to look for there.
    wants: Vec<[u64; 2]>,
}

impl Places {
    /// How many frames there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Those of the source and of the destination of frame `at`.
    #[inline]
    pub fn get(&self, at: usize) -> Option<[BucketPlace; 2]> {
        let ([a, b], [c, d]) = (*self.buckets.get(at)?, *self.wants.get(at)?);
        Some([BucketPlace { bucket: a, want: c }, BucketPlace { bucket: b, want: d }])
    }
}

/// Keys of which places are computed in one go.
const CHUNK: usize = 32;

/// How words are found in a bucket.
///
/// # Safety
/// For both: the processor has what the implementation needs.
trait Eye {
    /// The least of what words differ by from `want`: if it is a payload, it is that of the word wanted. Any other number if there is
    /// none.
    unsafe fn best(bucket: &Bucket, want: u64) -> u64;

    /// Whether one of the words is this one.
    unsafe fn has(bucket: &Bucket, word: u64) -> bool;
}

/// Word by word.
pub(super) struct Plain;

impl Plain {
    /// As [`Eye::best`].
    #[inline(always)]
    pub(super) fn best(bucket: &Bucket, want: u64) -> u64 {
        bucket.0.iter().fold(u64::MAX, |best, word| best.min(word.load(Relaxed) ^ want))
    }
}

impl Eye for Plain {
    #[inline(always)]
    unsafe fn best(bucket: &Bucket, want: u64) -> u64 {
        Plain::best(bucket, want)
    }

    #[inline(always)]
    unsafe fn has(bucket: &Bucket, wanted: u64) -> bool {
        bucket.0.iter().fold(false, |found, word| found | (word.load(Relaxed) == wanted))
    }
}

/// Which instructions the processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// What every processor of the target has.
    Base,
    /// AVX2, BMI1, BMI2: x86-64-v3.
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    Avx2,
    /// These and AVX-512 F, DQ and VL: a part of x86-64-v4.
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    Avx512,
}

impl Level {
    /// Those that the processor has, best last.
    pub(super) fn all() -> impl Iterator<Item = Level> {
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
        {
            let v3 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2");
            let v4 = v3
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            [(Level::Base, true), (Level::Avx2, v3), (Level::Avx512, v4)]
                .into_iter()
                .filter_map(|(level, has)| has.then_some(level))
        }
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
        std::iter::once(Level::Base)
    }

    pub(super) fn best() -> Level {
        Level::all().last().unwrap_or(Level::Base)
    }
}

impl Fdb {
    /// Where to look for the source and the destination of each frame, and requests to bring all of it near.
    #[inline]
    pub fn seek(&self, keys: &[[FdbKey; 2]], places: &mut Places) {
        // What stands there is written over: mostly there are as many as the last time.
        places.buckets.resize(keys.len(), Default::default());
        places.wants.resize(keys.len(), Default::default());
        let (buckets, wants) = (places.buckets.as_flattened_mut(), places.wants.as_flattened_mut());
        self.locate(keys.as_flattened(), buckets, wants);
    }

    /// Where keys belong, with the best that the processor has.
    #[inline]
    fn locate(&self, keys: &[FdbKey], buckets: &mut [u32], wants: &mut [u64]) {
        match self.level {
            Level::Base => self.places(keys, buckets, wants),
            // SAFETY: the processor has it.
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            Level::Avx2 => unsafe { avx2::places(self, keys, buckets, wants) },
            // SAFETY: the processor has it.
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            Level::Avx512 => unsafe { avx512::places(self, keys, buckets, wants) },
        }
    }

    /// Two loops: what the first one computes is there when the second asks for it.
    #[inline(always)]
    fn places(&self, keys: &[FdbKey], buckets: &mut [u32], wants: &mut [u64]) {
        let layout = self.layout;
        for ((key, bucket), want) in keys.iter().zip(&mut *buckets).zip(wants) {
            let place = layout.place(key.0);
            (*bucket, *want) = (place.bucket, place.want);
        }
        for bucket in buckets {
            prefetch_bucket(&self.buckets, *bucket);
        }
    }

    /// Goes through the frames of a batch from number `from` on until one's source is to be [noted](Self::note) under `mark`. Returns
    /// how many are before it; `ports` then begins with their destinations' ports, or [`UNKNOWN`](super::UNKNOWN). Without a mark all
    /// of them. With `refused`, sources that stand nowhere in the table are counted there, and not to be noted.
    #[inline]
    pub fn answer(
        &self,
        _: &Reader,
        mark: Option<Mark>,
        refused: Option<&mut u64>,
        (places, from): (&Places, usize),
        ports: &mut [u16],
    ) -> usize {
        let frames =
            (places.buckets.get(from..).unwrap_or_default(), places.wants.get(from..).unwrap_or_default());
        let (known, mark) = (mark.is_none(), mark.unwrap_or(Mark(0)));
        match (self.level, known) {
            // SAFETY: nothing is needed.
            (Level::Base, false) => unsafe { self.frames::<Plain, true>(mark, refused, frames, ports) },
            // SAFETY: nothing is needed.
            (Level::Base, true) => unsafe { self.frames::<Plain, false>(mark, None, frames, ports) },
            // SAFETY: the processor has it.
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            (Level::Avx2, false) => unsafe { avx2::frames::<true>(self, mark, refused, frames, ports) },
            // SAFETY: the processor has it.
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            (Level::Avx2, true) => unsafe { avx2::frames::<false>(self, mark, None, frames, ports) },
            // SAFETY: the processor has it.
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            (Level::Avx512, false) => unsafe { avx512::frames::<true>(self, mark, refused, frames, ports) },
            // SAFETY: the processor has it.
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            (Level::Avx512, true) => unsafe { avx512::frames::<false>(self, mark, None, frames, ports) },
        }
    }

    /// Requests to bring near what else is looked at for sources that are not known, from frame `from` on: where one of a batch is
    /// not, many are not.
    pub fn seek_strangers(&self, places: &Places, from: usize) {
        for at in from..places.len() {
            if let Some([src, _]) = places.get(at)
                && self.has_strays(src.bucket)
            {
                prefetch_bucket(&self.buckets, self.layout.other(src).bucket);
            }
        }
    }

    /// # Safety
    /// The processor has what `E` needs.
    #[inline(always)]
    unsafe fn frames<E: Eye, const LEARNS: bool>(
        &self,
        mark: Mark,
        mut refused: Option<&mut u64>,
        (at, wants): (&[[u32; 2]], &[[u64; 2]]),
        ports: &mut [u16],
    ) -> usize {
        let (buckets, tick) = (&self.buckets[..], self.common.tick.load(Relaxed));
        let mut before = 0;
        for ((at, want), port) in at.iter().zip(wants).zip(ports) {
            let [src, dst] = [0, 1].map(|end| BucketPlace { bucket: at[end], want: want[end] });
            if LEARNS {
                let bucket = buckets.get(src.bucket as usize);
                // SAFETY: the caller's promise.
                let is_known =
                    bucket.is_some_and(|bucket| unsafe { E::has(bucket, src.want | u64::from(mark.0)) });
                if !is_known {
                    // SAFETY: the caller's promise.
                    let found = unsafe { self.seen::<E>(buckets, src) };
                    match &mut refused {
                        Some(count) if found == Found(0) => **count += 1,
                        _ if self.is_known(found, mark) => {}
                        _ => return before,
                    }
                }
            }
            // SAFETY: the caller's promise.
            *port = self.port_at(unsafe { self.seen::<E>(buckets, dst) }, tick);
            before += 1;
        }
        before
    }

    /// Looks all of `keys` up; `ports` has as many places.
    #[inline]
    pub fn lookup_batch(&self, _: &Reader, keys: &[FdbKey], ports: &mut [u16]) {
        for (keys, ports) in keys.chunks(CHUNK).zip(ports.chunks_mut(CHUNK)) {
            match self.level {
                // SAFETY: nothing is needed.
                Level::Base => unsafe { self.ports_of::<Plain>(keys, ports) },
                // SAFETY: the processor has it.
                #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
                Level::Avx2 => unsafe { avx2::ports_of(self, keys, ports) },
                // SAFETY: the processor has it.
                #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
                Level::Avx512 => unsafe { avx512::ports_of(self, keys, ports) },
            }
        }
    }

    /// Looks up to [`CHUNK`] keys up.
    ///
    /// # Safety
    /// The processor has what `E` needs.
    #[inline(always)]
    unsafe fn ports_of<E: Eye>(&self, keys: &[FdbKey], ports: &mut [u16]) {
        let (mut at, mut wants) = ([0; CHUNK], [0; CHUNK]);
        self.places(keys, &mut at[..keys.len()], &mut wants[..keys.len()]);
        let (buckets, tick) = (&self.buckets[..], self.common.tick.load(Relaxed));
        for ((bucket, want), port) in at.into_iter().zip(wants).zip(ports) {
            // SAFETY: the caller's promise.
            *port = self.port_at(unsafe { self.seen::<E>(buckets, BucketPlace { bucket, want }) }, tick);
        }
    }

    /// What stands at a place, or at the other one of its key.
    ///
    /// # Safety
    /// The processor has what `E` needs.
    #[inline(always)]
    unsafe fn seen<E: Eye>(&self, buckets: &[Bucket], place: BucketPlace) -> Found {
        // SAFETY: the caller's promise.
        let best = |place: BucketPlace| unsafe {
            buckets.get(place.bucket as usize).map_or(u64::MAX, |bucket| E::best(bucket, place.want))
        };
        let first = best(place);
        if first <= PAYLOAD {
            return Found(first as u32);
        }
        if !self.has_strays(place.bucket) {
            return Found(0);
        }
        let other = best(self.layout.other(place));
        Found(if other <= PAYLOAD { other as u32 } else { 0 })
    }
}
