// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a bridge asks for the frames of a batch: of their sources, whether there is anything to learn, and where their destinations
//! are.
//!
//! In stages, so that what each of them waits for is waited for once. [`Fdb::seek`] computes where all the addresses belong and asks
//! for their cache lines; [`Fdb::answer`] reads them. For an ordinary frame, its source known and where it was, nothing
//! is written. At any other it stops, because what one frame teaches counts for the next one of its batch.
//!
//! # Eight words at once
//!
//! Where the processor has AVX2 a bucket is compared as a whole, with a third of the instructions. The words are atomics, of which
//! Rust has no loads of several at once. So these loads are assembly: to the compiler they may do what relaxed loads of each word do,
//! and the processor does no less, as it reads aligned words of eight bytes in one piece. Of what they saw of a destination
//! it is concluded only *which* word to look at, and that is then loaded as ever; of a source, that there is nothing to learn.

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
mod avx2;

use super::{Bucket, Fdb, Found, Key, Mark, PAYLOAD, Place, Reader, Relaxed, prefetch_bucket};

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
}

impl Level {
    pub(super) fn best() -> Level {
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
        {
            return Level::Avx2;
        }
        Level::Base
    }
}

impl Fdb {
    /// Where to look for keys, and requests to bring all of it near.
    #[inline]
    pub fn seek(&self, keys: &[Key], places: &mut Vec<Place>) {
        // What stands there is written over: mostly there are as many as the last time.
        places.resize(keys.len(), Place::default());
        self.seek_in(keys, places);
    }

    #[inline]
    fn seek_in(&self, keys: &[Key], places: &mut [Place]) {
        match self.level {
            Level::Base => self.places(keys, places),
            // SAFETY: the processor has it.
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            Level::Avx2 => unsafe { avx2::places(self, keys, places) },
        }
    }

    #[inline(always)]
    fn places(&self, keys: &[Key], places: &mut [Place]) {
        let layout = self.layout;
        for (key, place) in keys.iter().zip(places) {
            *place = layout.place(key.0);
            prefetch_bucket(&self.buckets, *place);
        }
    }

    /// Goes through frames, each the [places](Self::seek) of its source and its destination, until one's source is to be
    /// [noted](Self::note) under `mark`. Returns how many are before it; `ports` then begins with their destinations' ports, or
    /// [`UNKNOWN`]. Without a mark all of them.
    #[inline]
    pub fn answer(&self, _: &Reader, mark: Option<Mark>, frames: &[[Place; 2]], ports: &mut [u16]) -> usize {
        match (self.level, mark) {
            // SAFETY: nothing is needed.
            (Level::Base, Some(mark)) => unsafe { self.frames::<Plain, true>(mark, frames, ports) },
            // SAFETY: nothing is needed.
            (Level::Base, None) => unsafe { self.frames::<Plain, false>(Mark(0), frames, ports) },
            // SAFETY: the processor has it.
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            (Level::Avx2, Some(mark)) => unsafe { avx2::frames::<true>(self, mark, frames, ports) },
            // SAFETY: the processor has it.
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            (Level::Avx2, None) => unsafe { avx2::frames::<false>(self, Mark(0), frames, ports) },
        }
    }

    /// Requests to bring near what else is looked at for sources that are not known: where one of a batch is not, many are not.
    pub fn seek_strangers(&self, frames: &[[Place; 2]]) {
        for [src, _] in frames {
            prefetch_bucket(&self.buckets, self.layout.other(*src));
        }
    }

    /// # Safety
    /// The processor has what `E` needs.
    #[inline(always)]
    unsafe fn frames<E: Eye, const LEARNS: bool>(
        &self,
        mark: Mark,
        frames: &[[Place; 2]],
        ports: &mut [u16],
    ) -> usize {
        let (buckets, tick) = (&self.buckets[..], self.common.tick.load(Relaxed));
        let mut before = 0;
        for ([src, dst], port) in frames.iter().zip(ports) {
            if LEARNS {
                let bucket = buckets.get(src.bucket as usize);
                // SAFETY: the caller's promise.
                let is_known =
                    bucket.is_some_and(|bucket| unsafe { E::has(bucket, src.want | u64::from(mark.0)) });
                if !is_known && !self.is_known_elsewhere(*src, mark) {
                    return before;
                }
            }
            // SAFETY: the caller's promise.
            *port = self.port_at(unsafe { self.seen::<E>(buckets, *dst) }, tick);
            before += 1;
        }
        before
    }

    /// Looks all of `keys` up; `ports` has as many places.
    #[inline]
    pub fn lookup_batch(&self, _: &Reader, keys: &[Key], ports: &mut [u16]) {
        let mut places = [Place::default(); CHUNK];
        for (keys, ports) in keys.chunks(CHUNK).zip(ports.chunks_mut(CHUNK)) {
            let places = &mut places[..keys.len()];
            self.seek_in(keys, places);
            match self.level {
                // SAFETY: nothing is needed.
                Level::Base => unsafe { self.ports_of::<Plain>(places, ports) },
                // SAFETY: the processor has it.
                #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
                Level::Avx2 => unsafe { avx2::ports_of(self, places, ports) },
            }
        }
    }

    /// # Safety
    /// The processor has what `E` needs.
    #[inline(always)]
    unsafe fn ports_of<E: Eye>(&self, places: &[Place], ports: &mut [u16]) {
        let (buckets, tick) = (&self.buckets[..], self.common.tick.load(Relaxed));
        for (place, port) in places.iter().zip(ports) {
            // SAFETY: the caller's promise.
            *port = self.port_at(unsafe { self.seen::<E>(buckets, *place) }, tick);
        }
    }

    /// # Safety
    /// The processor has what `E` needs.
    #[inline(always)]
    unsafe fn seen<E: Eye>(&self, buckets: &[Bucket], place: Place) -> Found {
        // SAFETY: the caller's promise.
        let best = buckets
            .get(place.bucket as usize)
            .map_or(u64::MAX, |bucket| unsafe { E::best(bucket, place.want) });
        if best <= PAYLOAD { Found(best as u32) } else { self.find_other(place) }
    }

    /// Whether there is nothing to learn of a station of which the first bucket does not say what a sighting now would write.
    #[inline(never)]
    fn is_known_elsewhere(&self, place: Place, mark: Mark) -> bool {
        self.is_known(self.find(place), mark)
    }
}
