// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a router: in bounded time, also when a worker never comes back.
//!
//! A thread cannot be ended from outside. So workers run on threads that own them, and the thread that runs the router waits for each to bring
//! its worker back. Where workers are watched, it waits for [`GRACE`] once the router has stopped, and for [`GRACE_UNSERVED`] while one that
//! is missing gets no processor. Who does not come is left behind with all it owns: it is named, with its element, the packets in hand, and the
//! instances that could not end. The others end as ever, and a worker without instances takes its place, so that counters and handlers of the
//! rest can be asked.
//!
//! The time limit of a run lies with the first worker. Where that one stands still, the waiting thread stops the router in its place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sync::mutex::lock;

use crate::conductor;
use crate::cpu_time::Used;
use crate::location::{in_hand, place, seconds};
use crate::pulse::{Doing, Spot};
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::worker::Worker;
use element::ElementInfo;

/// How often it is looked whether the router has stopped, and whether its workers have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How many looks workers may take to end once the router has stopped: two seconds. It is looks that count, not time, so that the
/// time does not pass in which the whole process, or machine, was kept from running.
const GRACE: u32 = 20;
/// How many those that others keep from a processor may: ten seconds.
const GRACE_UNSERVED: u32 = 100;
/// Elements that are named of those that a worker leaves behind.
const NAMED: usize = 12;
/// How long after its time a run is ended by the thread that waits for it.
const OVERDUE: Duration = Duration::from_millis(500);

/// Workers on a thread: one, or on simulated time all together.
struct Party {
    workers: Vec<usize>,
    /// Until it has ended.
    thread: Option<JoinHandle<Vec<Worker>>>,
    /// What the kernel had given each of them when the router stopped.
    used: Vec<Option<Used>>,
}

/// Says, however its thread ends, that it does.
struct Ends(Sender<usize>, usize);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

/// What comes back from the threads.
#[derive(Default)]
pub(crate) struct Ended {
    /// Workers, by index.
    pub(crate) workers: BTreeMap<usize, Worker>,
    /// What one said that came to grief.
    pub(crate) panic: Option<Box<dyn std::any::Any + Send>>,
}

/// Runs workers on threads of their own, pinned to these cores if to any, until all have ended or it is no use to wait.
pub(crate) fn run(runtime: &Arc<Runtime>, workers: Vec<Worker>, cores: &[usize]) -> Ended {
    let groups: Vec<Vec<Worker>> = match runtime.common {
        Some(_) => vec![workers],
        None => workers.into_iter().map(|w| vec![w]).collect(),
    };
    let (tell, ends) = channel();
    let (mut parties, mut ended) = (Vec::new(), Ended::default());
    for group in groups {
        let indices: Vec<usize> = group.iter().map(|w| w.index()).collect();
        let core = (!cores.is_empty()).then(|| cores[indices[0] % cores.len()]);
        let (runtime, end) = (runtime.clone(), Ends(tell.clone(), parties.len()));
        // A thread that cannot be had must not take its worker along.
        let (give, take) = channel::<Vec<Worker>>();
        let body = move || {
            let _end = end;
            let mut group = take.recv().unwrap_or_default();
            pin(core);
            runtime.enter_worker(group.first().map_or(0, Worker::index));
            run_group(&runtime, &mut group, None);
            group
        };
        let name = format!("worker-{}", indices[0]);
        match std::thread::Builder::new().name(name).spawn(body) {
            Ok(thread) => {
                let used = vec![None; group.len()];
                let _ = give.send(group);
                parties.push(Party { workers: indices, thread: Some(thread), used });
            }
            Err(why) => {
                group[0].shared().print(&format!("cannot start a worker thread: {why}"));
                group[0].shared().stop();
                ended.workers.extend(group.into_iter().map(|w| (w.index(), w)));
            }
        }
    }
    runtime.enter_main();
    wait(runtime, &mut parties, &ends, &mut ended);
    ended
}

fn pin(core: Option<usize>) {
    if let Some(id) = core {
        core_affinity::set_for_current(core_affinity::CoreId { id });
    }
}

/// Runs workers on the calling thread.
pub(crate) fn run_group(runtime: &Runtime, group: &mut Vec<Worker>, core: Option<usize>) {
    if let Some(common) = &runtime.common {
        let after_round = lock(&runtime.between_rounds).as_ref().map(|make| make());
        return conductor::run(group, common, after_round);
    }
    pin(core);
    group.iter_mut().for_each(Worker::run);
}

/// Waits until all have ended, or until it is no use any more.
fn wait(runtime: &Runtime, parties: &mut [Party], ends: &Receiver<usize>, ended: &mut Ended) {
    let bounded = runtime.is_watched.load(Ordering::Relaxed);
    // When the router was found to have stopped, and looks since.
    let mut stopped: Option<(Instant, u32)> = None;
    while parties.iter().any(|p| p.thread.is_some()) {
        match ends.recv_timeout(LOOK_EVERY) {
            Ok(party) => {
                // Joining waits for the thread's local data, too, so that the frames that it kept are back and counted.
                match parties[party].thread.take().map(JoinHandle::join) {
                    Some(Ok(group)) => ended.workers.extend(group.into_iter().map(|w| (w.index(), w))),
                    Some(Err(panic)) => ended.panic = Some(panic),
                    None => {}
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let (now, shared) = (Instant::now(), runtime.current());
        match &mut stopped {
            _ if !bounded => {}
            None if shared.is_stopped() => {
                stopped = Some((now, 0));
                parties.iter_mut().for_each(|p| p.used = used(runtime, &p.workers));
            }
            None if lock(&runtime.ends_at).is_some_and(|at| now > at + OVERDUE) => shared.stop(),
            None => {}
            Some((since, looks)) => {
                *looks += 1;
                let since = now - *since;
                // One that stands still does not take along another that only waits for its turn.
                let no_use = |p: &Party| p.thread.is_none() || !is_unserved(runtime, p, since);
                if *looks >= GRACE_UNSERVED || *looks >= GRACE && parties.iter().all(no_use) {
                    let left = parties.iter().filter(|p| p.thread.is_some()).flat_map(|p| &p.workers);
                    left.for_each(|w| shared.print(&report_left(&shared, *w, since)));
                    return;
                }
            }
        }
    }
}

/// What there is to say about a worker that does not end with the router.
fn report_left(shared: &Shared, w: usize, since: Duration) -> String {
    let pulse = &shared.mailboxes[w].pulse;
    let spot = pulse.spot();
    let mut text = format!(
        "worker {w} has not ended, {} after the router was stopped: it is {}; it is left behind",
        seconds(since),
        if spot == Spot::BETWEEN && shared.runtime.upgrade().is_some_and(|p| p.common.is_some()) {
            "waiting for its turn".to_owned()
        } else {
            place(shared, &[spot, spot])
        }
    );
    if matches!(spot.parts(), Some((_, Doing::Push | Doing::Pass, _))) {
        text += &in_hand(pulse);
    }
    let on = shared.elements.iter().filter(|e| e.place.workers.contains(&w));
    let (own, shared_with): (Vec<_>, Vec<_>) = on.partition(|e| e.place.workers.len() == 1);
    let names = |all: &[&ElementInfo]| -> String {
        let more = all.len().saturating_sub(NAMED);
        let named: Vec<String> = all.iter().take(NAMED).map(|e| format!("'{}'", e.name)).collect();
        named.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
    };
    if !own.is_empty() {
        text += &format!(
            "\n  not ended with it, so that what they hold is neither written nor freed: {}",
            names(&own)
        );
    }
    if !shared_with.is_empty() {
        text += &format!("\n  ended on other workers only, without its counts: {}", names(&shared_with));
    }
    text
}

fn used(runtime: &Runtime, workers: &[usize]) -> Vec<Option<Used>> {
    workers.iter().map(|w| Used::of(runtime.mailboxes[*w].pulse.thread()?)).collect()
}

/// Whether workers have waited for a processor most of the time since the router stopped.
fn is_unserved(runtime: &Runtime, party: &Party, since: Duration) -> bool {
    let now = used(runtime, &party.workers);
    let waited =
        |(before, after): (&Option<Used>, Option<Used>)| Some(after?.waited - before.as_ref()?.waited);
    let waited = party.used.iter().zip(now).filter_map(waited).max();
    waited.is_some_and(|ns| u128::from(ns) * 2 > since.as_nanos())
}
