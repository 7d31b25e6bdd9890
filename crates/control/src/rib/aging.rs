// SPDX-License-Identifier: MIT OR Apache-2.0
//! Feeds that come and go, and how long their routes stay.

use std::collections::VecDeque;

use super::*;

/// Generations whose routes wait for their end. Of a feed that is lost more often within the grace period, the oldest routes go earlier.
const MOST_GENERATIONS: usize = 1 << 12;

/// While routes are still being named that were lost, the others wait for so many grace periods more at most.
const PATIENCE: u32 = 4;
/// How long after the last of them. bgpd pauses before it names the last of a full table.
const PAUSE: Duration = Duration::from_secs(30);

/// When routes go that a feed has not named since it was lost: by the generation that named them last, in order.
#[derive(Debug, Default)]
pub(super) struct Deadlines(VecDeque<Deadline>);

#[derive(Clone, Copy, Debug)]
struct Deadline {
    generation: u16,
    until: Duration,
    /// When one of these routes was last named again. A daemon with a full table, on a busy machine, may take longer than the grace period.
    renamed: Option<Duration>,
}

/// A time at which routes go, or a later one if the feed is still naming routes that were lost.
fn extended(until: Duration, renamed: Option<Duration>, grace: Duration) -> Duration {
    let latest = until + grace * PATIENCE;
    renamed.map_or(until, |at| until.max((at + PAUSE).min(latest)))
}

impl Deadlines {
    /// The first one.
    pub(super) fn first(&self, grace: Duration) -> Option<Duration> {
        self.0.front().map(|first| extended(first.until, first.renamed, grace))
    }

    fn add(&mut self, generation: u16, until: Duration) {
        if self.0.back().is_none_or(|last| last.generation != generation) {
            self.0.push_back(Deadline { generation, until, renamed: None });
        }
    }

    /// A route has been named again that generation `before` named last, in generation `present`.
    fn note_renamed(&mut self, before: u16, present: u16, now: Duration) {
        let age = |generation: u16| present.wrapping_sub(generation);
        let at = self.0.partition_point(|deadline| age(deadline.generation) > age(before));
        if let Some(deadline) = self.0.get_mut(at).filter(|deadline| deadline.generation == before) {
            deadline.renamed = Some(now);
        }
    }

    /// The next generation whose time is over.
    fn next_over(&mut self, now: Duration, grace: Duration) -> Option<u16> {
        let is_over = self.first(grace).is_some_and(|until| until <= now);
        let takes = is_over || self.0.len() > MOST_GENERATIONS;
        takes.then(|| self.0.pop_front()).flatten().map(|deadline| deadline.generation)
    }
}

impl Rib {
    fn deadlines_mut(&mut self, source: Source) -> &mut Deadlines {
        &mut self.deadlines[usize::from(source == Source::Kernel)]
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let ends_by = [self.fpm, self.kernel].into_iter().filter_map(|feed| self.ends_by(feed));
        self.deadlines.iter().filter_map(|all| all.first(self.grace)).chain(ends_by).min()
    }

    /// When a full report is over that does not end.
    fn ends_by(&self, feed: FeedState) -> Option<Duration> {
        Some(self.extended(feed.ends_by?, feed))
    }

    /// A time at which a feed's routes go, or a later one if it is still naming routes that were lost.
    pub(super) fn extended(&self, until: Duration, feed: FeedState) -> Duration {
        extended(until, feed.renamed, self.grace)
    }

    /// A route has been named again that an earlier generation named last.
    pub(super) fn note_renamed(&mut self, source: Source, before: u16, now: Duration) {
        let feed = self.feed_mut(source);
        feed.renamed = Some(now);
        let present = feed.generation;
        self.deadlines_mut(source).note_renamed(before, present, now);
    }

    /// A feed has broken off. What it has named until now stays for the grace period.
    pub(super) fn lose(&mut self, source: Source, now: Duration) {
        let until = now + self.grace;
        let feed = self.feed_mut(source);
        let (was_up, generation) = (feed.is_up, feed.generation);
        (feed.is_up, feed.is_replaying, feed.ends_by) = (false, false, None);
        if was_up {
            self.deadlines_mut(source).add(generation, until);
        }
    }

    pub(super) fn begin(&mut self, source: Source, now: Duration) {
        if self.feed(source).is_up {
            self.lose(source, now);
        }
        self.objects.begin(source, &mut self.links);
        if source == Source::Kernel {
            self.links.begin();
            self.trees.begin();
        }
        let ends_by = (source == Source::Fpm).then_some(now + self.grace);
        let feed = self.feed_mut(source);
        feed.generation = feed.generation.wrapping_add(1);
        (feed.is_up, feed.is_replaying, feed.ends_by, feed.renamed) = (true, true, ends_by, None);
    }

    pub(super) fn end(&mut self, source: Source, now: Duration) {
        let feed = self.feed_mut(source);
        feed.ends_by = None;
        if !std::mem::take(&mut feed.is_replaying) {
            return;
        }
        feed.is_expected = false;
        let generation = feed.generation;
        self.objects.end(source);
        if source == Source::Kernel {
            self.links.missing().into_iter().for_each(|index| self.link(index, None, now));
            self.sweep_trees(now);
            self.deadlines_mut(source).0.clear();
            return self.sweep(source, now, |route| route.generation != generation && !route.is_leaving);
        }
        let doubtful = self.doubtful_protocols(generation, now);
        self.sweep(source, now, |route| {
            route.generation != generation && !doubtful[usize::from(route.protocol)]
        });
        if doubtful == [false; 256] {
            self.deadlines_mut(source).0.clear();
        }
        self.cover_copies(now);
    }

    /// Removes routes whose time is over, and ends reports that do not end.
    pub(super) fn sweep_due(&mut self, now: Duration) {
        for source in [Source::Fpm, Source::Kernel] {
            let grace = self.grace;
            while let Some(over) = self.deadlines_mut(source).next_over(now, grace) {
                self.sweep(source, now, |route| route.generation == over);
                let feed = self.feed(source);
                if source == Source::Fpm && !feed.is_up && feed.generation == over {
                    self.uncover_copies();
                }
            }
            // A daemon that is never quiet has had its time.
            if self.ends_by(self.feed(source)).is_some_and(|by| by <= now) {
                self.end(source, now);
            }
        }
    }

    /// Protocols of FPM of which routes have not been named since it returned, and may be named later: too many are missing, or
    /// their daemon has ended as well, and has not learnt them yet.
    fn doubtful_protocols(&self, generation: u16, now: Duration) -> [bool; 256] {
        let (mut all, mut missing, mut was_away) = ([0; 256], [0; 256], [false; 256]);
        for (key, route) in self.layers[Layer::Fpm as usize].first.iter() {
            let protocol = usize::from(route.protocol);
            all[protocol] += 1;
            if route.generation != generation {
                missing[protocol] += 1;
                was_away[protocol] |= self.was_away(route, &key, now);
            }
        }
        std::array::from_fn(|protocol| was_away[protocol] || missing[protocol] * MISSING > all[protocol])
    }

    /// FPM has reported everything: copies in the kernel that it does not name count no longer.
    fn cover_copies(&mut self, now: Duration) {
        self.covers_copies = true;
        self.look_at_copies(now);
    }

    /// Other routes count than did, where the kernel has copies.
    pub(super) fn look_at_copies(&mut self, now: Duration) {
        for key in self.copies() {
            match self.best(&key) {
                None => {
                    self.back(key, None);
                    self.held.put(key, now + HOLD);
                }
                Some((Layer::Kernel, _)) => self.put_best(key),
                Some(_) => {}
            }
        }
    }

    /// Destinations of kernel routes that FRR made.
    fn copies(&self) -> Vec<DestinationKey> {
        let routes = self.layers[Layer::Kernel as usize].iter();
        routes.filter(|(_, route)| FRRS.contains(&route.protocol)).map(|(key, _)| key).collect()
    }

    /// Removes the routes of a feed that are `stale`.
    pub(super) fn sweep(&mut self, source: Source, now: Duration, stale: impl Fn(&Stored) -> bool) {
        for layer in Layer::ALL.into_iter().filter(|layer| layer.source() == source) {
            let gone: Vec<(DestinationKey, Stored)> =
                self.layers[layer as usize].iter().filter(|(_, route)| stale(route)).collect();
            for (key, route) in gone {
                self.change(key, now, |rib| rib.remove(layer, &key, Some(route.metric)));
            }
        }
    }

    /// FPM has gone for good: the kernel's copies count.
    fn uncover_copies(&mut self) {
        self.covers_copies = false;
        for key in self.copies() {
            self.put_best(key);
        }
    }
}
