// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processors and the kernel count of the router's threads: cycles, instructions, cache misses and, where the processor's driver names any, snoops.
//!
//! Each thread has a counter of each kind (perf_event_open(2)), which counts while it runs and is read now and then ([`Counters::read`]). Where there are
//! more of them than the processor has registers, they take turns, and what is missed is estimated from the time. What a driver counts for a whole
//! package, such as the snoops that its caches see, is the machine's and has no thread.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use perf_event::events::{Dynamic, Hardware, Software};
use perf_event::{Builder, Counter};

use crate::names::{CounterName, Missing};

/// Where the kernel lists drivers of counters.
const DEVICES: &str = "/sys/bus/event_source/devices";
/// Marks of events that count caches asking each other, in the names that drivers give.
const SNOOPS: [&str; 2] = ["snoop", "hitm"];
/// Of so many threads there are counters at most: each takes a few descriptors.
const THREADS: usize = 256;

/// What can be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Hardware(Hardware),
    Software(Software),
    /// An event that a driver names; for whole packages, those processors that stand for them.
    Named {
        device: PathBuf,
        event: String,
        packages: Vec<usize>,
    },
}

/// Something that is counted.
#[derive(Clone, Debug)]
struct Kind {
    name: CounterName,
    source: Source,
}

const HARDWARE: [(&str, Hardware); 4] = [
    ("cycles", Hardware::CPU_CYCLES),
    ("instructions", Hardware::INSTRUCTIONS),
    ("cache-references", Hardware::CACHE_REFERENCES),
    ("cache-misses", Hardware::CACHE_MISSES),
];
const SOFTWARE: [(&str, Software); 3] = [
    ("task-clock", Software::TASK_CLOCK),
    ("page-faults", Software::PAGE_FAULTS),
    ("context-switches", Software::CONTEXT_SWITCHES),
];

/// What a counter said at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When, on the monotonic clock.
    pub at_ns: u64,
    /// The thread by the kernel's number; 0 is the machine.
    pub thread: u32,
    /// Its index in [`Header::counters`](crate::names::Header::counters).
    pub counter: u32,
    /// How many so far.
    pub value: u64,
}

/// Bytes of a reading in files.
pub const READING_BYTES: usize = 24;

impl Reading {
    /// As it lies in files.
    pub fn to_bytes(self) -> [u8; READING_BYTES] {
        let Reading { at_ns, thread, counter, value } = self;
        let mut bytes = [0; READING_BYTES];
        let words = [at_ns, u64::from(thread) | u64::from(counter) << 32, value];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From three words of a file.
    pub fn from_words([at_ns, who, value]: [u64; 3]) -> Reading {
        Reading { at_ns, thread: who as u32, counter: (who >> 32) as u32, value }
    }
}

/// How much a counter counted between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The first reading's time.
    pub from_ns: u64,
    /// The second one's.
    pub to_ns: u64,
    /// How many a second.
    pub per_s: f64,
}

/// What came between each two readings, by thread and counter.
pub fn rates(readings: &[Reading]) -> BTreeMap<(u32, u32), Vec<Rate>> {
    let mut last: BTreeMap<(u32, u32), Reading> = BTreeMap::new();
    let mut rates: BTreeMap<(u32, u32), Vec<Rate>> = BTreeMap::new();
    for reading in readings {
        let key = (reading.thread, reading.counter);
        let before = last.insert(key, *reading).filter(|before| before.at_ns < reading.at_ns);
        if let Some(before) = before {
            let counted = reading.value.saturating_sub(before.value) as f64;
            let seconds = (reading.at_ns - before.at_ns) as f64 / 1e9;
            let (from_ns, to_ns) = (before.at_ns, reading.at_ns);
            rates.entry(key).or_default().push(Rate { from_ns, to_ns, per_s: counted / seconds });
        }
    }
    rates
}

/// All counters.
#[derive(Default)]
pub struct Counters {
    kinds: Vec<Kind>,
    /// Of each thread, those that it has; of 0, those of the machine.
    open: BTreeMap<u32, Vec<(u32, Counter)>>,
}

impl Counters {
    /// Looks what can be counted, and says what cannot.
    pub fn find() -> (Counters, Vec<Missing>) {
        let mut kinds = Vec::new();
        let mut absent: Vec<(&str, io::Error)> = Vec::new();
        let hardware = HARDWARE.map(|(name, source)| (name, Source::Hardware(source)));
        let software = SOFTWARE.map(|(name, source)| (name, Source::Software(source)));
        for (name, source) in hardware.into_iter().chain(software) {
            match try_out(&source) {
                Ok(user_only) => {
                    kinds.push(Kind { name: CounterName { name: name.into(), user_only }, source })
                }
                Err(why) => absent.push((name, why)),
            }
        }
        let mut missing: Vec<Missing> = absence(&absent).into_iter().collect();
        let (snoops, more) = snoops(Path::new(DEVICES));
        kinds.extend(snoops);
        missing.extend(more);
        (Counters { kinds, open: BTreeMap::new() }, missing)
    }

    /// What is counted.
    pub fn names(&self) -> Vec<CounterName> {
        self.kinds.iter().map(|kind| kind.name.clone()).collect()
    }

    /// Begins to count of threads that it did not know before, and of the machine; those that have ended are let go of.
    pub fn follow(&mut self, threads: impl Iterator<Item = u32>) {
        for thread in std::iter::once(0).chain(threads.filter(|id| *id != 0)) {
            if self.open.len() >= THREADS || self.open.contains_key(&thread) {
                continue;
            }
            let of_kind =
                |(i, kind): (usize, &Kind)| kind.open(thread).into_iter().map(move |c| (i as u32, c));
            let counters = self.kinds.iter().enumerate().flat_map(of_kind).collect();
            self.open.insert(thread, counters);
        }
    }

    /// Reads all. Those of the machine, of which there is one for each package, are added up.
    pub fn read(&mut self, at_ns: u64, readings: &mut Vec<Reading>) {
        for (thread, counters) in &mut self.open {
            let begun = readings.len();
            for (kind, counter) in counters {
                // One that cannot be read has gone with its thread.
                let Some(value) = value(counter) else { continue };
                match readings[begun..].last_mut().filter(|last| last.counter == *kind) {
                    Some(last) => last.value += value,
                    None => readings.push(Reading { at_ns, thread: *thread, counter: *kind, value }),
                }
            }
        }
    }
}

impl Kind {
    /// Counters of a thread, or of the machine.
    fn open(&self, thread: u32) -> Vec<Counter> {
        let builder = |source: &Source| {
            let mut builder = builder(source, self.name.user_only).ok()?;
            builder.enabled(true);
            Some(builder)
        };
        let of_thread = || builder(&self.source)?.observe_pid(thread.cast_signed()).build().ok();
        let of_package = |cpu: usize| builder(&self.source)?.any_pid().one_cpu(cpu).build().ok();
        match (&self.source, thread) {
            (Source::Named { packages, .. }, 0) => packages.iter().copied().filter_map(of_package).collect(),
            (_, 0) => Vec::new(),
            (Source::Named { packages, .. }, _) if !packages.is_empty() => Vec::new(),
            _ => of_thread().into_iter().collect(),
        }
    }
}

fn builder(source: &Source, user_only: bool) -> io::Result<Builder<'static>> {
    let mut builder = match source {
        Source::Hardware(event) => Builder::new(*event),
        Source::Software(event) => Builder::new(*event),
        Source::Named { device, event, .. } => {
            let mut dynamic = Dynamic::builder(device)?;
            let event = dynamic.event(event)?.build();
            Builder::new(event.map_err(|e| io::Error::other(e.to_string()))?)
        }
    };
    if !user_only {
        builder.include_kernel().include_hv();
    }
    Ok(builder)
}

/// Whether something can be counted only while a thread is not in the kernel.
///
/// # Errors
/// Why it cannot be counted at all.
fn try_out(source: &Source) -> io::Result<bool> {
    let build = |user_only| {
        let mut builder = builder(source, user_only)?;
        if let Source::Named { packages, .. } = source
            && let Some(cpu) = packages.first()
        {
            builder.any_pid().one_cpu(*cpu);
        }
        builder.build().map(|_| user_only)
    };
    build(false).or_else(|why| build(true).map_err(|_| why))
}

/// How many it has counted; where it had no register for part of the time, as many as there would have been.
fn value(counter: &mut Counter) -> Option<u64> {
    let read = counter.read_count_and_time().ok()?;
    match read.time_running {
        0 => Some(read.count),
        running if running >= read.time_enabled => Some(read.count),
        running => {
            u64::try_from(u128::from(read.count) * u128::from(read.time_enabled) / u128::from(running)).ok()
        }
    }
}

/// What to say of those that cannot be counted.
fn absence(absent: &[(&str, io::Error)]) -> Option<Missing> {
    let (_, why) = absent.first()?;
    let names: Vec<&str> = absent.iter().map(|(name, _)| *name).collect();
    Some(Missing {
        what: format!("hardware counters ({})", names.join(", ")),
        why: format!("this machine gives none to its guests or users: {why}"),
        mend: if why.kind() == io::ErrorKind::PermissionDenied {
            super::RIGHTS.into()
        } else {
            String::new()
        },
    })
}

/// Events that drivers name which tell of snoops, and what is to be said if there are none.
fn snoops(devices: &Path) -> (Vec<Kind>, Option<Missing>) {
    let list = |path: &Path| -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        all.sort();
        all
    };
    let last =
        |path: &Path| path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let mut found = Vec::new();
    let mut why = "no driver of this machine's counters names any".to_owned();
    for device in list(devices) {
        let packages = std::fs::read_to_string(device.join("cpumask"))
            .map_or_else(|_| Vec::new(), |text| super::cpus(&text));
        for event in list(&device.join("events")).iter().map(|path| last(path)) {
            let is_one = SNOOPS.iter().any(|word| event.to_ascii_lowercase().contains(word));
            // Next to an event lie files with its unit and scale.
            if !is_one || event.contains('.') {
                continue;
            }
            let name = format!("{}/{event}", last(&device));
            let source = Source::Named { device: device.clone(), event, packages: packages.clone() };
            match try_out(&source) {
                Ok(user_only) => found.push(Kind { name: CounterName { name, user_only }, source }),
                Err(e) => why = format!("{name}: {e}"),
            }
        }
    }
    let missing = Missing { what: "snoop events".into(), why, mend: String::new() };
    let is_missing = found.is_empty();
    (found, is_missing.then_some(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_what_their_words_say() {
        let reading = Reading { at_ns: 1 << 40, thread: 7, counter: 3, value: u64::MAX };
        let word = |i: usize| u64::from_le_bytes(*reading.to_bytes()[i * 8..].first_chunk().unwrap());
        assert_eq!(Reading::from_words([0, 1, 2].map(word)), reading);
    }

    #[test]
    fn what_a_thread_does_is_counted() {
        let (mut counters, missing) = Counters::find();
        let names = counters.names();
        let at = |name: &str| names.iter().position(|n| n.name == name);
        // What is not counted is named.
        for (name, _) in HARDWARE.iter().map(|(name, _)| (name, ())) {
            assert!(
                at(name).is_some() || missing.iter().any(|m| m.what.contains(name)),
                "{name}: {missing:?}"
            );
        }
        let Some(clock) = at("task-clock") else { return };
        let (number, waits) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        let worker = std::thread::spawn(move || {
            number.0.send(nix::unistd::gettid().as_raw()).unwrap();
            waits.1.recv().unwrap();
            // It counts the time that this thread runs, which is what is waited for.
            let begun = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            let ran =
                || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_nsec - begun.tv_nsec;
            while (0..5_000_000).contains(&ran()) {}
            number.0.send(0).unwrap();
            let _ = waits.1.recv();
        });
        let id = number.1.recv().unwrap().unsigned_abs();
        counters.follow([id, 0, id].into_iter());
        let mut readings = Vec::new();
        counters.read(1, &mut readings);
        waits.0.send(()).unwrap();
        number.1.recv().unwrap();
        counters.read(2, &mut readings);
        drop(waits.0);
        worker.join().unwrap();
        // The thread has gone, its counters can still be asked.
        counters.read(3, &mut readings);
        let told: Vec<&Reading> =
            readings.iter().filter(|r| r.thread == id && r.counter as usize == clock).collect();
        assert_eq!(told.iter().map(|r| r.at_ns).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(told[1].value >= told[0].value + 1_000_000, "{told:?}");
    }

    #[test]
    fn events_that_drivers_name_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("made_up");
        std::fs::create_dir_all(device.join("events")).unwrap();
        let (found, missing) = snoops(folder.path());
        assert!(found.is_empty() && missing.unwrap().why.contains("names any"));
        for (file, text) in
            [("mem_snoop_hits", "event=0x1"), ("mem_snoop_hits.unit", "x"), ("other", "event=0x2")]
        {
            std::fs::write(device.join("events").join(file), text).unwrap();
        }
        // The kernel has no such driver.
        let (found, missing) = snoops(folder.path());
        let why = missing.unwrap().why;
        assert!(found.is_empty() && why.starts_with("made_up/mem_snoop_hits: "), "{why}");
    }
}
