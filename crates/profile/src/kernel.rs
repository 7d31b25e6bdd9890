// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording the kernel's own events, on all processors and of all processes, by `perf_event_open`.
//!
//! Each tracepoint has a ring on each processor, which the kernel fills and [`Capture::read`] empties. All are stamped by the monotonic clock. What the
//! machine or the user's rights do not give is left out and named ([`Missing`]).

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;

use perf_event::events::Tracepoint as TracepointEvent;
use perf_event::{Builder, Clock, Sampler};

pub mod counters;
pub mod event;
mod sample;
mod tracepoint;

use crate::names::Missing;
use event::KernelEvent;
use sample::Sample;
use tracepoint::{Found, Tracepoint};

/// Bytes of a tracepoint's ring on a processor.
const RING_BYTES: usize = 256 << 10;

/// Types of records: `PERF_RECORD_LOST` and `PERF_RECORD_SAMPLE` of perf_event_open(2).
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

/// The kernel's rings.
pub struct Capture {
    rings: Vec<(Tracepoint, Sampler)>,
    /// Names of threads, as they were seen.
    names: BTreeMap<u32, String>,
    lost: u64,
    /// Of this time events are taken, in nanoseconds of the monotonic clock.
    time: RangeInclusive<u64>,
}

impl Capture {
    /// Records nothing.
    pub fn none() -> Capture {
        Capture { rings: Vec::new(), names: BTreeMap::new(), lost: 0, time: 0..=u64::MAX }
    }

    /// Opens what can be opened, and says what cannot.
    pub fn open() -> (Capture, Vec<Missing>) {
        let mut capture = Capture::none();
        let mut missing = Vec::new();
        match tracepoint::find() {
            Ok(found) => capture.open_all(found, &mut missing),
            Err(why) => missing.push(Missing { what: "kernel events".into(), why, mend: TRACEFS.into() }),
        }
        (capture, missing)
    }

    fn open_all(&mut self, found: Found, missing: &mut Vec<Missing>) {
        for name in found.absent {
            let why = "this kernel has no such tracepoint".into();
            missing.push(Missing { what: name.into(), why, mend: String::new() });
        }
        for tracepoint in found.there {
            let opened: io::Result<Vec<Sampler>> = online().map(|cpu| open(&tracepoint, cpu)).collect();
            match opened {
                Ok(samplers) => {
                    self.rings.extend(samplers.into_iter().map(|sampler| (tracepoint.clone(), sampler)));
                }
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    // The others will fare no better.
                    missing.push(Missing {
                        what: "kernel events".into(),
                        why: e.to_string(),
                        mend: RIGHTS.into(),
                    });
                    return;
                }
                Err(e) => {
                    let what = tracepoint.name.into();
                    missing.push(Missing { what, why: e.to_string(), mend: String::new() });
                }
            }
        }
    }

    /// Names of the tracepoints that are recorded.
    pub fn recorded(&self) -> Vec<String> {
        let mut names: Vec<String> = self.rings.iter().map(|(t, _)| t.name.to_owned()).collect();
        names.dedup();
        names
    }

    /// Begins with one kind of events after the other: what came before all of them were there is not to be taken for a whole
    /// ([`begin_at`](Capture::begin_at)).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn start(&mut self) -> io::Result<()> {
        self.rings.iter_mut().try_for_each(|(_, sampler)| sampler.enable())
    }

    /// Events of before this time are left out, in nanoseconds of the monotonic clock.
    pub fn begin_at(&mut self, ns: u64) {
        self.time = ns..=*self.time.end();
    }

    /// Events of after this time are left out.
    pub fn end_at(&mut self, ns: u64) {
        self.time = *self.time.start()..=ns;
    }

    /// Ends; what is in the rings can still be read.
    pub fn stop(&mut self) {
        for (_, sampler) in &mut self.rings {
            // One that cannot be ended goes with its descriptor.
            let _ = sampler.disable();
        }
    }

    /// Takes what has been recorded since the last time.
    pub fn read(&mut self, events: &mut Vec<KernelEvent>) {
        for (tracepoint, sampler) in &mut self.rings {
            while let Some(record) = sampler.next_record() {
                let body = record.to_contiguous();
                match record.ty() {
                    SAMPLE => {
                        let Some(sample) = Sample::parse(&body) else { continue };
                        sample.name_threads(tracepoint, &mut self.names);
                        let event = sample.event(tracepoint);
                        if self.time.contains(&event.at_ns) {
                            events.push(event);
                        }
                    }
                    LOST => self.lost += sample::lost(&body),
                    _ => {}
                }
            }
        }
    }

    /// Events that the rings had no room for, so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Names of the threads that events named.
    pub fn names(&self) -> &BTreeMap<u32, String> {
        &self.names
    }
}

/// What gives a user the right.
const RIGHTS: &str = "run as root, give the program the right (setcap cap_perfmon+ep FILE), or give it to \
                      everybody (sysctl kernel.perf_event_paranoid=-1)";

/// The same where the kernel's tracepoints cannot be read.
const TRACEFS: &str = "run as root, or, as root, let a group of this user read them (mount -t tracefs -o gid=GROUP,mode=750 \
                       nodev /sys/kernel/tracing; where it is mounted, -o remount,gid=GROUP,mode=750) and give the program \
                       the right (setcap cap_perfmon+ep FILE)";

fn open(tracepoint: &Tracepoint, cpu: usize) -> io::Result<Sampler> {
    Builder::new(TracepointEvent::with_id(tracepoint.id))
        .any_pid()
        .one_cpu(cpu)
        .include_kernel()
        .include_hv()
        .sample(sample::FORM)
        .sample_period(1)
        .clockid(Clock::MONOTONIC)
        // Nobody sleeps on the descriptor.
        .wakeup_watermark(RING_BYTES)
        .build()?
        .sampled(RING_BYTES)
}

/// The processors that are online.
fn online() -> impl Iterator<Item = usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".into());
    cpus(&text).into_iter()
}

/// Processors as the kernel lists them: `0-3,8`.
fn cpus(text: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<RangeInclusive<usize>> {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.trim().parse().ok()?..=high.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_recorded_is_named() {
        let (mut capture, missing) = Capture::open();
        let recorded = capture.recorded();
        assert!(
            !recorded.is_empty() || missing.iter().any(|m| m.what == "kernel events" && !m.mend.is_empty()),
            "{missing:?}"
        );
        assert!(capture.start().is_ok());
        let began = crate::clock::monotonic_ns();
        capture.begin_at(began);
        // Who sleeps gives up the processor, however short it is.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let ended = crate::clock::monotonic_ns();
        capture.end_at(ended);
        std::thread::sleep(std::time::Duration::from_millis(1));
        capture.stop();
        let mut events = Vec::new();
        capture.read(&mut events);
        assert!(events.iter().all(|e| (began..=ended).contains(&e.at_ns)));
        let switched = events.iter().any(|e| e.kind == event::KernelKind::Switch && e.at_ns > 0);
        assert!(switched || !recorded.iter().any(|name| name == "sched/sched_switch"), "{recorded:?}");
    }
}
