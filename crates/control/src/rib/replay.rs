// SPDX-License-Identifier: MIT OR Apache-2.0
//! A replay: all that is valid, for a user plane that knows nothing. It goes on step by step, as the user plane takes it.

use feed::Group;

use super::*;

/// Destinations of a step.
const STEP: usize = 1024;
/// Batches that may wait while a replay goes on.
const BATCHES: usize = 16;

/// How far a replay has come.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// The last destination that was named.
    after: Option<DestinationKey>,
    has_named_routes: bool,
    /// The last multicast entry that was named.
    after_tree: Option<(u8, Group)>,
    has_named_all: bool,
    /// Withdrawals that were held when it began are due then.
    not_before: Duration,
    /// When routes that wait for their objects have had their time.
    until: Option<Duration>,
}

impl Rib {
    /// Begins to put everything that is valid into the outbox, for a user plane that knows nothing. The rest follows by
    /// [`flush`](Self::flush), and the end of the replay when all feeds have reported and no route waits for its object.
    pub fn replay(&mut self) {
        self.outbox.clear();
        self.sent.clear();
        self.links.forget_sent();
        self.waiting.clear();
        self.outbox.put(&Update::Begin);
        self.put_vrfs();
        self.links.send(|update| self.outbox.put(update));
        self.put_watches();
        self.outbox.close();
        let not_before = self.held.last().unwrap_or_default();
        self.replay = Some(Replay { not_before, ..Replay::default() });
    }

    /// Throws away what was to be sent: nobody takes it, and a replay will say it all.
    pub fn give_up_sending(&mut self) {
        self.outbox.clear();
        self.replay = None;
    }

    /// When a replay under way goes on.
    pub(super) fn replay_due(&self) -> Option<Duration> {
        let replay = self.replay.as_ref()?;
        if !replay.has_named_all {
            return (self.outbox.len() < BATCHES).then_some(Duration::ZERO);
        }
        let expected = self.is_expecting().then_some(self.grace);
        let waiting = replay.until.filter(|_| !self.waiting.is_empty());
        expected.into_iter().chain(waiting).chain([replay.not_before]).max()
    }

    pub(super) fn go_on_replaying(&mut self, now: Duration) {
        let Some(mut replay) = self.replay.take() else { return };
        let until = *replay.until.get_or_insert(now + self.grace);
        while !replay.has_named_all && self.outbox.len() < BATCHES {
            if replay.has_named_routes {
                let last = self.put_trees_after(replay.after_tree, STEP);
                replay.has_named_all = last.is_none();
                replay.after_tree = last;
                continue;
            }
            let keys = self.keys_after(replay.after, STEP);
            replay.has_named_routes = keys.len() < STEP;
            replay.after = keys.last().copied().or(replay.after);
            for key in keys {
                if let Some(object) = self.way(&key) {
                    self.put_route(key, object);
                }
            }
        }
        let is_over = replay.has_named_all
            && now >= replay.not_before
            && (!self.is_expecting() || now >= self.grace)
            && (self.waiting.is_empty() || now >= until);
        if is_over {
            self.outbox.put(&Update::End);
        } else {
            self.replay = Some(replay);
        }
    }

    /// Whether a feed has not reported yet.
    fn is_expecting(&self) -> bool {
        self.fpm.is_expected || self.kernel.is_expected
    }
}
