// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handle by which other threads reach a router that runs: handlers, counters, its end, another configuration.
//!
//! Calls go to the workers as messages. The configuration may be replaced before a worker reads a message. So each message says
//! which configuration it is meant for, and one that comes too late is looked up anew.

mod rehearsing;
mod stalls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use sync::mutex::lock;

use crate::clock::Clock;
use crate::mailbox::ASK_AGAIN;
use crate::observer::{Observer, Wants};
use crate::report::Report;
use crate::runtime::Runtime;
use crate::shared::{Shared, not_reconfigurable, readable, writable};
use crate::worker::{Begun, Worker};
use element::known::HOTCONFIG;
use element::{Access, ElementId, HandlerError, HandlerRef, Handlers, Llrpc, ProcessEvents, Remote};

/// What a write to `hotconfig` does: takes the text of a configuration and swaps it in. It calls its last argument once when
/// all that can go wrong has gone well and only the exchange itself is left, and answers what was done, or why nothing was.
pub type Reconfigure = Box<dyn Fn(&Control, &str, &mut dyn FnMut()) -> Result<String, String> + Send + Sync>;

/// Reads, writes, stops and reconfigures a running router from another thread.
#[derive(Clone)]
pub struct Control {
    pub(crate) runtime: Arc<Runtime>,
    /// Where the time is added up that workers spend on calls.
    spent_ns: Option<Arc<AtomicU64>>,
}

/// Why nobody sees a configuration any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The router has stopped.
    Stopped,
    /// Another configuration or placement has come.
    Replaced,
}

/// Why a worker did not do what it was asked.
pub(crate) enum Missed {
    /// The router has stopped.
    Stopped,
    /// Another configuration has come.
    Replaced,
    /// The worker is stuck.
    Stalled(String),
}

/// Finds a handler in a configuration.
type Find<'a> = dyn Fn(&Shared) -> Result<HandlerRef, HandlerError> + 'a;

/// What a message costs a worker, besides its task.
const FOR_THE_MESSAGE: Duration = Duration::from_micros(2);

/// A handler of the element of this full name.
fn of(shared: &Shared, element: &str, name: &str) -> Result<HandlerRef, HandlerError> {
    let index = shared.lookup(element, None).ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
    shared.handler_of(index, name)
}

/// What a worker has been asked for.
pub(crate) struct Asked<R> {
    answer: Receiver<Result<R, Missed>>,
    /// Set by who comes first: the worker that does it, or the one who asked and waits no longer.
    claim: Arc<AtomicBool>,
}

/// Informs one of the elements that asked for a signal that it came, on the worker where it is when the message is read: it may have
/// been placed on another worker meanwhile.
fn deliver(shared: &Arc<Shared>, signal: i32, (element, worker): (ElementId, usize)) {
    let meant = shared.clone();
    shared.mailboxes[worker].post_unhurried(Box::new(move |w: &mut Worker| {
        if Arc::ptr_eq(&meant, w.shared()) {
            w.with_capability::<dyn ProcessEvents, _>(element, |instance, cx| instance.signal(cx, signal));
        } else if Arc::ptr_eq(&meant.lineage, &w.shared().lineage) {
            let now = w.shared().clone();
            let takers = now.signals.takers(signal);
            takers.into_iter().filter(|t| t.0 == element).for_each(|taker| deliver(&now, signal, taker));
        }
    }));
}

impl Control {
    /// Of the router with this runtime.
    pub fn new(runtime: Arc<Runtime>) -> Control {
        Control { runtime, spent_ns: None }
    }

    /// What the router keeps through all its configurations.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// The workers' clock, as it is now; `None` if time is simulated and the router has stopped.
    pub fn clock(&self) -> Option<Clock> {
        if !self.runtime.clock.is_simulated() {
            return Some(self.runtime.clock.clone());
        }
        let (tx, rx) = std::sync::mpsc::channel();
        let posted = self.runtime.mailboxes[0].post(Box::new(move |w| drop(tx.send(w.clock().clone()))));
        if posted { rx.recv().ok() } else { None }
    }

    /// The same, which adds up there the time that workers spend on the calls of handlers that it asks for.
    pub fn metered(&self, spent_ns: &Arc<AtomicU64>) -> Control {
        Control { runtime: self.runtime.clone(), spent_ns: Some(spent_ns.clone()) }
    }

    /// Writes a line where the user sees it, as elements do.
    pub fn print(&self, text: &str) {
        self.shared().print(text);
    }

    /// What is known of the configuration that runs.
    pub fn shared(&self) -> Arc<Shared> {
        self.runtime.current()
    }

    /// Drops what was taken out of tables and has had its grace period. Publishers do so, too, when something is published next.
    pub fn reclaim(&self) {
        self.runtime.rcu.reclaim();
    }

    /// Which worker stands still, and in what, if one does.
    pub fn stalled(&self) -> Option<String> {
        let shared = self.shared();
        let mut troubles = shared.mailboxes.iter().enumerate();
        troubles.find_map(|(w, mailbox)| Some(mailbox.trouble()?.refusal(w)))
    }

    /// Ends the router.
    pub fn stop(&self) {
        self.shared().stop();
    }

    /// Asks the driver to stop, see [`Cx::please_stop`](element::Cx::please_stop).
    pub fn please_stop(&self) {
        let first = &self.runtime.mailboxes[0];
        if first.trouble().is_some() || !first.post_unhurried(Box::new(|w| w.please_stop())) {
            self.stop();
        }
    }

    /// Offers the handler `hotconfig`, which does this; once.
    pub fn allow_reconfigure(&self, reconfigure: Reconfigure) {
        let _ = self.runtime.reconfigure.set(reconfigure);
    }

    /// Counters of the running router, gathered from one worker after the other, without those of workers that have stalled.
    /// `None` when it has stopped.
    pub fn report(&self) -> Option<Report> {
        let (_, by_worker) = self.reports()?;
        let mut report = Report::default();
        by_worker.iter().for_each(|part| report.add(part));
        report.gone = self.runtime.gone();
        Some(report)
    }

    /// The same by worker, with the configuration and placement whose counters they are.
    pub fn reports(&self) -> Option<(Arc<Shared>, Vec<Report>)> {
        'anew: loop {
            let shared = self.shared();
            let mut reports = Vec::new();
            for w in 0..shared.workers() {
                match self.on_worker(&shared, w, |worker| worker.report()) {
                    Ok(part) => reports.push(part),
                    Err(Missed::Replaced) => continue 'anew,
                    Err(Missed::Stalled(_)) => reports.push(Report::default()),
                    Err(Missed::Stopped) => return None,
                }
            }
            return Some((shared, reports));
        }
    }

    /// Informs the elements that asked for `signal` that it came; false when there are none that could take note of it.
    pub fn signal(&self, signal: i32) -> bool {
        let shared = self.shared();
        let mut takers = shared.signals.takers(signal);
        takers.retain(|(_, worker)| self.runtime.mailboxes[*worker].trouble().is_none());
        for (element, worker) in &takers {
            deliver(&shared, signal, (*element, *worker));
        }
        !takers.is_empty()
    }

    /// Calls `ring`, on a thread of its own, when the router has run for `after` from now by its own clock. There is one
    /// alarm; a later one replaces it. Returns whether the router runs.
    pub fn set_alarm(&self, after: Duration, ring: Box<dyn FnOnce() + Send>) -> bool {
        *lock(&self.runtime.alarm) = Some(ring);
        self.runtime.mailboxes[0].post(Box::new(move |w: &mut Worker| w.set_alarm(after)))
    }

    /// Takes the alarm back; false when none was set, or it has rung.
    pub fn clear_alarm(&self) -> bool {
        let had = lock(&self.runtime.alarm).take().is_some();
        self.runtime.mailboxes[0].post(Box::new(Worker::clear_alarm));
        had
    }

    /// Reads a handler.
    ///
    /// # Errors
    /// See [`HandlerError`]; also when the router has stopped.
    pub fn read(&self, name: &str, param: &str) -> Result<String, HandlerError> {
        self.read_found(&|shared| shared.resolve(name, None), param)
    }

    /// Reads handler `name` of the element of this full name.
    ///
    /// # Errors
    /// See [`Control::read`].
    pub fn read_of(&self, element: &str, name: &str, param: &str) -> Result<String, HandlerError> {
        self.read_found(&|shared| of(shared, element, name), param)
    }

    fn read_found(&self, find: &Find<'_>, param: &str) -> Result<String, HandlerError> {
        let shared = self.shared();
        let target = find(&shared)?;
        if target.handler().readable()
            && !shared.is_stopped()
            && let Some(known) = shared.read_known(&target)
        {
            return Ok(known);
        }
        let param: Arc<str> = param.into();
        let (target, begun) = self.ask(find, false, move |w, t| w.begin_read(t, &param))?;
        let answers = begun.into_iter().map(Begun::finish).collect::<Result<_, _>>()?;
        Ok(element::merge(target.handler().merge, answers))
    }

    /// What handler `name` of the element of this full name allows, if other programs may know of it.
    ///
    /// # Errors
    /// There is none.
    pub fn access_of(&self, element: &str, name: &str) -> Result<Access, HandlerError> {
        visible(&of(&self.shared(), element, name)?)
    }

    /// Executes a write handler; returns what there is to say about it, mostly nothing.
    ///
    /// # Errors
    /// See [`HandlerError`]; also when the router has stopped.
    pub fn write(&self, name: &str, value: &str) -> Result<String, HandlerError> {
        self.write_found(&|shared| shared.resolve(name, None), value)
    }

    /// Executes write handler `name` of the element of this full name.
    ///
    /// # Errors
    /// See [`Control::write`].
    pub fn write_of(&self, element: &str, name: &str, value: &str) -> Result<String, HandlerError> {
        self.write_found(&|shared| of(shared, element, name), value)
    }

    fn write_found(&self, find: &Find<'_>, value: &str) -> Result<String, HandlerError> {
        let target = find(&self.shared())?;
        if target.element().is_none() && target.name() == HOTCONFIG {
            let reconfigure = self.runtime.reconfigure.get().ok_or_else(not_reconfigurable)?;
            return reconfigure(self, value, &mut || {}).map_err(HandlerError::Failed);
        }
        if let Some(placer) = self.runtime.placer().filter(|_| !target.is_own())
            && let Some(done) = placer.write(self, target.target(), target.name(), value)
        {
            return done;
        }
        let value: Arc<str> = value.into();
        let (_, begun) = self.ask(find, true, move |w, t| w.begin_write(t, &value))?;
        for rest in begun.into_iter().flatten() {
            if let Some(said) = rest()? {
                self.print(&said);
            }
        }
        Ok(String::new())
    }

    fn ask<R: Send + 'static>(
        &self,
        find: &Find<'_>,
        write: bool,
        f: impl Fn(&mut Worker, &HandlerRef) -> Result<R, HandlerError> + Clone + Send + 'static,
    ) -> Result<(HandlerRef, Vec<R>), HandlerError> {
        'anew: loop {
            let shared = self.shared();
            let target = find(&shared)?;
            if write {
                writable(&target)?
            } else {
                readable(&target)?
            };
            let mut answers = Vec::new();
            for w in shared.answering(&target, write) {
                let (f, target) = (f.clone(), target.clone());
                let spent_ns = self.spent_ns.clone();
                let call = move |worker: &mut Worker| {
                    let begun = spent_ns.as_ref().map(|_| Instant::now());
                    let answer = f(worker, &target);
                    if let (Some(spent_ns), Some(begun)) = (spent_ns, begun) {
                        let took = begun.elapsed() + FOR_THE_MESSAGE;
                        spent_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
                    }
                    answer
                };
                match self.on_worker(&shared, w, call) {
                    Ok(answer) => answers.push(answer?),
                    // A write that some workers have executed has had its effect; the others need it no more.
                    Err(Missed::Replaced) if write && !answers.is_empty() => break,
                    Err(Missed::Replaced) => continue 'anew,
                    Err(Missed::Stopped) => return Err(HandlerError::failed("the router has stopped")),
                    Err(Missed::Stalled(why)) => return Err(HandlerError::Failed(why)),
                }
            }
            return Ok((target, answers));
        }
    }

    /// Adds observers to all workers of this configuration, under a key by which they are dismissed again. Returns the workers that could
    /// not be asked, which are stuck, with the reason; they see nothing.
    ///
    /// # Errors
    /// [`Gone`]; then no worker has any of them.
    pub fn add_observers(
        &self,
        shared: &Arc<Shared>,
        key: u64,
        wants: &Wants,
        observer: &dyn Fn() -> Box<dyn Observer>,
    ) -> Result<Vec<String>, Gone> {
        let mut stuck = Vec::new();
        for w in 0..shared.workers() {
            let (wants, observer) = (wants.clone(), observer());
            match self.on_worker(shared, w, move |worker| worker.add_observer(key, wants, observer)) {
                Ok(()) => {}
                Err(Missed::Stalled(why)) => stuck.push(why),
                Err(Missed::Stopped) => return Err(Gone::Stopped),
                // What took its place has none of them; others may still have.
                Err(Missed::Replaced) => {
                    self.remove_observers(shared, key);
                    return Err(Gone::Replaced);
                }
            }
        }
        Ok(stuck)
    }

    /// Removes the observers of a key.
    pub fn remove_observers(&self, shared: &Arc<Shared>, key: u64) {
        for w in 0..shared.workers() {
            let _ = self.on_worker(shared, w, move |worker| worker.remove_observers(key));
        }
    }

    /// The same without waiting until they have gone: for callers that no longer read what they see.
    pub fn remove_observers_later(&self, shared: &Arc<Shared>, key: u64) {
        for w in 0..shared.workers() {
            // Nobody is left who would hear that the router has stopped, or another configuration has come.
            let _ = self.post(shared, w, move |worker| worker.remove_observers(key));
        }
    }

    /// Lets a worker do something, if it runs this configuration. One that is found to be stuck is not waited for, and does
    /// not do it later either.
    pub(crate) fn on_worker<R: Send + 'static>(
        &self,
        shared: &Arc<Shared>,
        w: usize,
        f: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Result<R, Missed> {
        self.answer(w, &self.post(shared, w, f)?)
    }

    /// Asks a worker for something, see [`Control::on_worker`].
    pub(crate) fn post<R: Send + 'static>(
        &self,
        shared: &Arc<Shared>,
        w: usize,
        f: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Result<Asked<R>, Missed> {
        let (tx, answer) = std::sync::mpsc::sync_channel(1);
        let meant = shared.clone();
        let claim = Arc::new(AtomicBool::new(false));
        let claimed = claim.clone();
        let message = Box::new(move |worker: &mut Worker| {
            if claimed.swap(true, Ordering::Relaxed) {
                return;
            }
            let answer =
                if Arc::ptr_eq(&meant, worker.shared()) { Ok(f(worker)) } else { Err(Missed::Replaced) };
            let _ = tx.send(answer);
        });
        let posted = self.runtime.mailboxes[w].post_unhurried(message);
        if posted { Ok(Asked { answer, claim }) } else { Err(Missed::Stopped) }
    }

    /// Waits for a worker's answer.
    pub(crate) fn answer<R>(&self, w: usize, asked: &Asked<R>) -> Result<R, Missed> {
        loop {
            match asked.answer.recv_timeout(ASK_AGAIN) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(Missed::Stopped),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(trouble) = self.runtime.mailboxes[w].trouble() {
                let begun = asked.claim.swap(true, Ordering::Relaxed);
                let when = if begun { "; this very call may be what it is stuck in" } else { "" };
                return Err(Missed::Stalled(trouble.refusal(w) + when));
            }
        }
    }
}

fn visible(target: &HandlerRef) -> Result<Access, HandlerError> {
    if target.is_private() { Err(HandlerError::unknown(target.name())) } else { Ok(target.access()) }
}

impl Handlers for Control {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        visible(&self.shared().resolve(name, None)?)
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        Control::read(self, name, param)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        Control::write(self, name, value)
    }

    fn llrpcs(&mut self, element: &str) -> &'static [Llrpc] {
        let shared = self.shared();
        let found =
            shared.resolve(&format!("{element}.class"), None).ok().and_then(|target| target.element());
        found.map_or(&[], |index| shared.elements[index].class.llrpcs)
    }
}

impl Remote for Control {
    fn handlers(&self, of: Option<&str>, spent_ns: &Arc<AtomicU64>) -> Box<dyn Handlers> {
        let control = self.metered(spent_ns);
        match of {
            None => Box::new(control),
            Some(element) => Box::new(OfElement { control, element: element.to_owned() }),
        }
    }

    fn print(&self, text: &str) {
        Control::print(self, text);
    }
}

/// The handlers of one element.
struct OfElement {
    control: Control,
    element: String,
}

impl Handlers for OfElement {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        self.control.access_of(&self.element, name)
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        self.control.read_of(&self.element, name, param)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        self.control.write_of(&self.element, name, value)
    }
}
