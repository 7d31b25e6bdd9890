// SPDX-License-Identifier: MIT OR Apache-2.0
//! A commit that waits to be confirmed when its service is killed. Its planes go on, so the next service waits for the rest of
//! the time. After a restart of the machine or of the planes, the confirmed commit is in service again.

use std::time::Duration;

use planes::up::survivors;
use rustix::time::{ClockId, clock_gettime};
use saved::{Machine, State, Trial, Waiting};

use super::Service;
use crate::saved::Stop;

/// Milliseconds since the machine was started. No setting of its clock changes them.
fn uptime_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1000) + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Which start of the machine this is.
fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

impl Service {
    /// Remembers that a commit waits. Without that, a service that is killed goes back at once.
    pub(super) fn note_trial(&self, waiting: Waiting) {
        let left = waiting.until.saturating_sub(self.epoch.elapsed());
        let until_ms = uptime_ms().saturating_add(left.as_millis() as u64);
        let trial = Trial { commit: waiting.commit, parent: waiting.parent, until_ms, boot: boot() };
        if let Err(why) = self.store.set_trial(Some(&trial)) {
            self.say(&format!("until when commit {} waits is not saved: {why}", waiting.commit));
        }
    }

    /// No commit waits any more. A file that is left over is recognised by its numbers.
    pub(super) fn forget_trial(&self) {
        if let Err(why) = self.store.set_trial(None) {
            self.say(&format!("that no commit waits is not saved: {why}"));
        }
    }

    /// The commit that planes of this machine run, if it may still be confirmed.
    fn trial(&self, confirmed: u64) -> Result<Option<Trial>, Stop> {
        let Some(trial) = self.store.trial()? else { return Ok(None) };
        let is_whole = self.store.switching()?.is_empty()
            && self.store.live()? == Some(trial.commit)
            && trial.parent == confirmed
            && self.store.commit(trial.commit).is_ok_and(|commit| commit.state == State::Pending)
            && self.store.files(trial.commit).is_ok();
        let is_due = trial.boot == boot() && uptime_ms() < trial.until_ms;
        let runs = !survivors(self.supervised.files()).is_empty();
        Ok(Some(trial).filter(|_| is_whole && is_due && runs))
    }

    /// Takes over planes of a commit that waits to be confirmed; false if none does.
    pub(super) fn resume(&mut self, confirmed: u64) -> Result<bool, Stop> {
        let Some(trial) = self.trial(confirmed)? else { return Ok(false) };
        let taken = self.lead_to(trial.commit).and_then(|()| self.supervised.start());
        if let Err(why) = taken {
            self.say(&format!("the planes of commit {} cannot be taken over: {why}", trial.commit));
            return Ok(false);
        }
        let left = Duration::from_millis(trial.until_ms.saturating_sub(uptime_ms()));
        let until = self.epoch.elapsed() + left;
        let Trial { commit, parent, .. } = trial;
        self.machine = Machine::resumed(confirmed, Waiting { commit, parent, until });
        self.take_back_pending(&[confirmed, commit])?;
        let named = self.named(commit);
        self.say(&format!(
            "commit {named} is in service, and waits to be confirmed for {} s",
            left.as_secs()
        ));
        self.tell_manager(&format!(
            "READY=1\nSTATUS=commit {commit} is in service, and waits to be confirmed"
        ));
        Ok(true)
    }
}
