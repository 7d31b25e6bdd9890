// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control plane at work: one thread that takes what feeds report and keeps a user plane up to date.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use feed::audit::{Answer, Part};

use crate::feeder::Reports;
use crate::model::{Change, Source};
use crate::rib::{Expected, Rib};
use crate::uplink::Uplink;

/// Reports that may wait. A feed that is faster than the user plane waits, and its daemon with it.
const REPORTS: usize = 64;
/// Reports that are taken in before the user plane is served again.
const AT_ONCE: usize = 32;
/// Batches that may wait for the user plane before feeds have to.
const BATCHES: usize = 32;
/// How often the user plane is served if nothing happens.
const TICK: Duration = Duration::from_millis(50);
/// How long to wait for an answer while batches are under way.
const ANSWER: Duration = Duration::from_millis(1);

/// A question, answered between two rounds.
pub type Ask = Box<dyn FnOnce(&mut Plane) + Send>;

/// See the module.
pub struct Plane {
    /// The routes.
    pub rib: Rib,
    /// The way to the user plane.
    pub uplink: Uplink,
    /// Whether it is to end.
    pub is_over: bool,
    began: Instant,
    reports: Receiver<(Source, Vec<Change>)>,
    asked: Receiver<Ask>,
}

/// Asks a control plane questions.
#[derive(Clone)]
pub struct Asker {
    asks: Sender<Ask>,
    reports: Reports,
}

impl Asker {
    /// Puts a question. It is answered on the control plane's thread, so the answer should not take long.
    pub fn ask(&self, ask: impl FnOnce(&mut Plane) + Send + 'static) {
        // If the plane has ended, the question is dropped, and the caller who waits for an answer learns it.
        let _ = self.asks.send(Box::new(ask));
        // An empty report wakes it. If there is no room, it is awake.
        let _ = self.reports.try_send((Source::Kernel, Vec::new()));
    }
}

impl Plane {
    /// A control plane, where feeds report to, and who can ask it.
    #[must_use]
    pub fn new(rib: Rib, uplink: Uplink) -> (Plane, Reports, Asker) {
        let (sender, reports) = sync_channel(REPORTS);
        let (asks, asked) = channel();
        let plane = Plane { rib, uplink, is_over: false, began: Instant::now(), reports, asked };
        (plane, sender.clone(), Asker { asks, reports: sender })
    }

    /// The time since it began.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Asks the user plane what its tables hold, see [`Rib::ask`]; the answer goes to `asker`.
    ///
    /// # Errors
    /// Why it cannot be asked now.
    pub fn ask_user_plane(
        &mut self,
        (part, from, to): (Part, u64, Option<u64>),
        lists: bool,
        asker: SyncSender<Answer>,
    ) -> Result<Expected, String> {
        if self.rib.is_replaying() {
            return Err("the router is being given all routes".into());
        }
        let trouble = self.uplink.trouble().map(str::to_owned);
        let token = self
            .uplink
            .ask(asker)
            .ok_or_else(|| trouble.unwrap_or_else(|| "the router has not answered yet".into()))?;
        Ok(self.rib.ask(token, part, from, to, lists))
    }

    /// Works until [`is_over`](Self::is_over), or nobody can report anything any more.
    pub fn run(&mut self) {
        while !self.is_over {
            self.round();
        }
    }

    fn round(&mut self) {
        if self.rib.outbox().len() < BATCHES {
            self.take_in();
        }
        while let Ok(ask) = self.asked.try_recv() {
            ask(self);
        }
        let now = self.now();
        self.rib.flush(now);
        self.uplink.pump(&mut self.rib);
        if self.uplink.is_waiting() && !self.rib.outbox().is_empty() {
            self.uplink.wait(ANSWER);
        }
    }

    /// Takes in what is there, or waits for it.
    fn take_in(&mut self) {
        let now = self.now();
        let due = self.rib.next_due().map_or(TICK, |due| due.saturating_sub(now));
        let tick = if self.uplink.is_waiting() { ANSWER } else { TICK };
        match self.reports.recv_timeout(due.min(tick)) {
            Ok(report) => self.take(report),
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => self.is_over = true,
        }
        for _ in 1..AT_ONCE {
            match self.reports.try_recv() {
                Ok(report) => self.take(report),
                Err(_) => break,
            }
        }
    }

    fn take(&mut self, (source, changes): (Source, Vec<Change>)) {
        let now = self.now();
        changes.into_iter().for_each(|change| self.rib.apply(source, change, now));
    }
}
