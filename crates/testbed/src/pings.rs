// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stream of pings that goes on while something happens: which of them came back, and which are lost.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::process::Process;
use crate::rig::{Namespace, RigError, wait_for};

/// The stream; it ends with this.
pub struct Pings {
    process: Process,
}

/// What became of a stream.
#[derive(Debug)]
pub struct Pinged {
    /// Answers.
    pub came: usize,
    /// The numbers of those without an answer, of all before one that has come back: later ones may be under way.
    pub lost: Vec<u32>,
}

impl Pings {
    /// Sends one every `milliseconds`, and waits until the first has come back.
    ///
    /// # Errors
    /// `ping` cannot be started, or no answer comes.
    pub fn start(
        from: &Namespace,
        to: &str,
        milliseconds: u32,
        patience: Duration,
    ) -> Result<Pings, RigError> {
        let interval = format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000);
        let process = from.spawn(&["ping", "-n", "-i", &interval, "-W", "60", to])?;
        let pings = Pings { process };
        pings.wait_for_one_more(patience)?;
        Ok(pings)
    }

    /// The numbers of those that have come back.
    #[must_use]
    pub fn answers(&self) -> BTreeSet<u32> {
        let number = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse().ok();
        let text = self.process.stdout();
        text.lines().filter(|line| line.contains(" bytes from ")).filter_map(number).collect()
    }

    /// Waits for an answer that is later than all before.
    ///
    /// # Errors
    /// None comes.
    pub fn wait_for_one_more(&self, patience: Duration) -> Result<(), RigError> {
        let before = self.answers().last().copied();
        wait_for("one more answer", patience, || self.answers().last().copied() > before).map_err(|why| {
            RigError::new(format!("{why}\n{}{}", self.process.stdout(), self.process.stderr()))
        })
    }

    /// Waits for one more answer, and ends the stream.
    ///
    /// # Errors
    /// No packet comes back any more.
    pub fn end(self, patience: Duration) -> Result<Pinged, RigError> {
        let last = self.answers().last().copied().unwrap_or_default();
        self.wait_for_one_more(patience)?;
        let answers = self.answers();
        let lost = (1..=last).filter(|number| !answers.contains(number)).collect();
        Ok(Pinged { came: answers.len(), lost })
    }
}
