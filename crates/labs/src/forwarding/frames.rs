// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring: for each frame size the router with its table shared in every way, in turn.

use super::super::shared::{Setting, graph, ratios, with_traffic};
use super::published::{self, ROWS};
use crate::Error;
use harness::{Prepared, Subject};
use report::measure::Measured;

const ROUTER: &str = include_str!("../../../../conf/ip-router-noqueue.click");
/// How the table begins there.
const TABLE: &str = "rt :: StaticIPLookup(";
/// Processors that the study had.
pub(super) const STUDY_CORES: usize = 2;

/// How workers share the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableSharing {
    Lock,
    PerCore,
    Rcu,
}

impl TableSharing {
    /// As the configuration's `SYNC` has it.
    pub(super) fn key(self) -> &'static str {
        match self {
            TableSharing::Lock => "lock",
            TableSharing::PerCore => "percore",
            TableSharing::Rcu => "rcu",
        }
    }

    pub(super) fn in_words(self) -> &'static str {
        match self {
            TableSharing::Lock => "one locked table",
            TableSharing::PerCore => "a table per core",
            TableSharing::Rcu => "RCU",
        }
    }
}

/// A way on a number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrangement {
    pub(super) way: TableSharing,
    pub(super) workers: usize,
}

/// What is measured on so many cores: the study's, each way on as many as it had, and on all if there are more.
pub(super) fn kinds(cores: usize) -> Vec<Arrangement> {
    let mut all = vec![
        Arrangement { way: TableSharing::Lock, workers: 1 },
        Arrangement { way: TableSharing::Rcu, workers: 1 },
    ];
    let mut counts = vec![STUDY_CORES, cores];
    counts.dedup();
    for workers in counts.into_iter().filter(|n| (2..=cores).contains(n)) {
        all.extend(
            [TableSharing::Lock, TableSharing::PerCore, TableSharing::Rcu]
                .map(|way| Arrangement { way, workers }),
        );
    }
    all
}

/// What a kind's locks went through, for each packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub(super) acquisitions: f64,
    /// Of these, the share that had to wait.
    pub(super) contended: f64,
    pub(super) wait_ns: f64,
}

/// What was found about a frame size in one way.
pub(super) struct Found {
    pub(super) kind: Arrangement,
    /// By round: thousands of packets a second for each port.
    pub(super) rounds: Vec<Option<f64>>,
    pub(super) rate: Option<Measured>,
    /// Over one locked table on one worker, in the same round.
    pub(super) times: Option<Measured>,
    /// By round.
    pub(super) waiting: Vec<Waiting>,
}

/// What was found about a frame size.
pub(super) struct Row {
    pub(super) study: published::Row,
    pub(super) found: Vec<Found>,
}

impl Row {
    pub(super) fn get(&self, way: TableSharing, workers: usize) -> Option<&Found> {
        self.found.iter().find(|f| f.kind == Arrangement { way, workers })
    }
}

/// The router with frames of so many bytes in memory, and its table shared in this way.
pub(super) fn text(bytes: usize, way: TableSharing) -> String {
    let text = ROUTER.replace(TABLE, &format!("{TABLE}SYNC {}, ", way.key()));
    with_traffic(&text, &[("length", bytes)])
}

/// A kind while it is measured.
pub(super) struct Running {
    pub(super) kind: Arrangement,
    pub(super) router: Prepared,
    pub(super) rounds: Vec<Option<f64>>,
    pub(super) waiting: Vec<Waiting>,
}

impl Running {
    /// A router of this configuration, prepared, whose runs take so long.
    pub(super) fn new(kind: Arrangement, text: &str, run_ms: u64) -> Result<Running, Error> {
        let graph = graph("lab forwarding", text)?;
        let subject = Subject::new(&graph, text)?.with_run_ms(run_ms);
        let router = subject.prepare(kind.workers)?;
        Ok(Running { kind, router, rounds: Vec::new(), waiting: Vec::new() })
    }

    /// One run.
    pub(super) fn round(&mut self) -> Result<(), harness::Error> {
        let (before, sent) = (self.locks(), self.router.sent());
        let rate = match self.router.run_surely() {
            Ok(run) => Some(run.mpps() * 1e3 / 2.0),
            Err(harness::Error::Silent) => None,
            Err(other) => return Err(other),
        };
        self.rounds.push(rate);
        let packets = (self.router.sent() - sent) as f64;
        let now = self.locks();
        let [acquisitions, contended, wait_ns] = [0, 1, 2].map(|i| now[i].saturating_sub(before[i]) as f64);
        if packets > 0.0 {
            self.waiting.push(Waiting {
                acquisitions: acquisitions / packets,
                contended: contended / acquisitions.max(1.0),
                wait_ns: wait_ns / packets,
            });
        }
        Ok(())
    }

    /// How often the table's locks were taken, how often somebody waited, and for how long, since they were made. Other routers of the same
    /// run have locks of the same name, but stand still while this one runs.
    fn locks(&self) -> [u64; 3] {
        let locks = self.router.router().shared().locks();
        let table = locks.iter().filter(|lock| lock.name == "rt").map(|lock| lock.stats);
        table.fold([0; 3], |sum, s| [sum[0] + s.acquisitions, sum[1] + s.contended, sum[2] + s.wait_ns])
    }
}

/// Measures every frame size.
pub(super) fn measure(setting: &mut Setting<'_>) -> Result<Vec<Row>, Error> {
    let (rounds, kinds) = (setting.common.rounds(), kinds(setting.cores));
    setting.progress.expect(ROWS.len() * (rounds + 1));
    let mut rows = Vec::new();
    for study in ROWS {
        setting.progress.part(format!("frames of {} bytes", study.frame_bytes));
        let mut running = Vec::new();
        for kind in &kinds {
            let text = text(study.bytes_in_memory(), kind.way);
            running.push(Running::new(*kind, &text, setting.run_ms())?);
        }
        setting.progress.step();
        for _ in 0..rounds {
            for one in &mut running {
                one.round()?;
            }
            setting.progress.step();
        }
        rows.push(gather(setting, study, running));
    }
    Ok(rows)
}

fn gather(setting: &mut Setting<'_>, study: published::Row, running: Vec<Running>) -> Row {
    let one = running.first().map(|r| r.rounds.clone()).unwrap_or_default();
    let found = running.into_iter().map(|Running { kind, rounds, waiting, .. }| {
        let name = |what: &str| {
            format!("forwarding.{what}.{}_{}.{}", kind.way.key(), kind.workers, study.frame_bytes)
        };
        let rate = setting.note_if_any(name("kpps"), "kpps", rounds.iter().flatten().copied().collect());
        let times = setting.note_if_any(name("scaling"), "times", ratios(&rounds, &one));
        Found { kind, rounds, rate, times, waiting }
    });
    Row { study, found: found.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_shared_in_the_way_asked_for() {
        for way in [TableSharing::Lock, TableSharing::PerCore, TableSharing::Rcu] {
            for row in ROWS {
                let text = text(row.bytes_in_memory(), way);
                assert!(text.contains(&format!("StaticIPLookup(SYNC {}, if0 0", way.key())), "{text}");
                assert_eq!(
                    text.matches(&format!(" length={}\n", row.bytes_in_memory())).count(),
                    2,
                    "{text}"
                );
                let graph = graph("test", &text).expect("a graph");
                assert!(Subject::new(&graph, &text).is_ok());
            }
        }
    }

    #[test]
    fn what_is_measured_on_so_many_cores() {
        let of = |cores| {
            kinds(cores).iter().map(|k| format!("{}{}", k.way.key(), k.workers)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(1), "lock1 rcu1");
        assert_eq!(of(2), "lock1 rcu1 lock2 percore2 rcu2");
        assert_eq!(of(16), "lock1 rcu1 lock2 percore2 rcu2 lock16 percore16 rcu16");
    }
}
