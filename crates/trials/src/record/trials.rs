// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of a test's trials, one by one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tester::account::Counts;
use tester::frame::Flow;
use tester::management::Answers;
use tester::station::{Detail, Verdict};
use tester::trial::{Invalid, Trial};

use super::super::agent::Reading;
use super::super::quantiles::QUANTILES;

/// Questions of network management in a trial (RFC 2544 11.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Managed {
    pub(crate) asked: u64,
    /// Answers, and questions without one.
    pub(crate) right: u64,
    pub(crate) wrong: u64,
    pub(crate) missing: u64,
}

impl Managed {
    /// Adds another trial's.
    pub(crate) fn add(&mut self, other: Managed) {
        self.asked += other.asked;
        self.right += other.right;
        self.wrong += other.wrong;
        self.missing += other.missing;
    }

    /// For people.
    pub(crate) fn words(self) -> String {
        let Managed { asked, right, wrong, missing } = self;
        format!(
            "of {asked} queries, {right} were answered rightly, {wrong} wrongly, and {missing} not at all"
        )
    }
}

impl From<&Answers> for Managed {
    fn from(answers: &Answers) -> Managed {
        let Answers { asked, right, wrong } = *answers;
        Managed { asked, right, wrong, missing: answers.missing() }
    }
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrialRow {
    pub(crate) size: usize,
    /// For what it was made.
    pub(crate) phase: String,
    /// Frames a second that each sending port was to offer.
    pub(crate) rate: f64,
    /// For how long.
    pub(crate) seconds: f64,
    pub(crate) intended: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// These two are lower bounds: agents have reported them, of a trial that was cut off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) at_least: bool,
    pub(crate) lost: u64,
    /// Of those intended, what the tester did not send.
    pub(crate) unsent: u64,
    /// Frames that left the tester late, in lumps. Records of before have none.
    #[serde(default)]
    pub(crate) late: u64,
    pub(crate) reordered: u64,
    /// Records of before have none.
    #[serde(default)]
    pub(crate) gaps: u64,
    pub(crate) duplicates: u64,
    pub(crate) stale: u64,
    pub(crate) misrouted: u64,
    pub(crate) damaged: u64,
    /// Whole frames of a trial before. Records of before count them as damaged.
    #[serde(default)]
    pub(crate) old: u64,
    pub(crate) foreign: u64,
    /// Additional frames that were due and not sent. Earlier records have none.
    #[serde(default)]
    pub(crate) beside_unsent: u64,
    /// Questions of network management and what came of them; nothing if none was asked.
    #[serde(default)]
    pub(crate) management: Option<Managed>,
    /// By quantile, as far as frames were enough; nothing if none arrived.
    pub(crate) latency_us: Option<Map<String, Value>>,
    /// The same from when frames were due, and how late they left: corrected for coordinated omission, and the tester's own error. Records of
    /// before have none.
    #[serde(default)]
    pub(crate) response_us: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) lateness_us: Option<Map<String, Value>>,
    /// How many flows lost frames; those of which not all frames arrived once, in order, where they should, the worst first; and how many
    /// more of these there are. Records of before have none.
    #[serde(default)]
    pub(crate) flows_with_loss: usize,
    #[serde(default)]
    pub(crate) flows: Vec<FlowRow>,
    #[serde(default)]
    pub(crate) flows_left_out: usize,
    /// By machine, what its agent counted while frames were sent, a second or as a share.
    #[serde(default)]
    pub(crate) machines: BTreeMap<String, MachineRow>,
    /// Why it says nothing about the device.
    pub(crate) invalid: Option<String>,
    /// It came to its end; later readers do not ask.
    #[serde(skip)]
    pub(super) came_to_its_end: bool,
}

/// By quantile, as far as frames are enough; nothing of none.
fn by_quantile(times: &Histogram<u64>) -> Option<Map<String, Value>> {
    let told = QUANTILES.iter().filter_map(|q| Some((q.name.to_owned(), q.us(times)?.into())));
    (!times.is_empty()).then(|| told.collect())
}

/// What became of a flow's frames in a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FlowRow {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) reordered: u64,
    pub(crate) duplicates: u64,
    pub(crate) stale: u64,
    pub(crate) misrouted: u64,
}

impl From<&Verdict> for FlowRow {
    fn from(verdict: &Verdict) -> FlowRow {
        let Flow { src, dst, src_port, dst_port, .. } = verdict.flow;
        let Counts { received, reordered, duplicates, stale, misrouted, .. } = verdict.counts;
        let (sent, lost) = (verdict.sent, verdict.lost());
        FlowRow {
            src,
            dst,
            src_port,
            dst_port,
            sent,
            received,
            lost,
            reordered,
            duplicates,
            stale,
            misrouted,
        }
    }
}

/// What a machine did in a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineRow {
    /// When its counters were read, by its wall clock: nanoseconds since 1970.
    pub(crate) at_ns: [u64; 2],
    /// Share of the time of all its processors in which they were busy.
    pub(crate) busy_share: f64,
    /// The same that softirqs took.
    pub(crate) softirq_share: f64,
    /// By names as `test gather` has them, what was not zero.
    pub(crate) counted: BTreeMap<String, f64>,
}

impl MachineRow {
    /// What was counted of this kind, all names that begin with it together.
    pub(crate) fn sum(&self, kind: &str) -> f64 {
        self.counted.iter().filter(|(name, _)| name.starts_with(kind)).map(|(_, value)| value).sum()
    }
}

impl TrialRow {
    /// A trial, what was seen of it, and what it is worth.
    pub(crate) fn new(
        size: usize,
        phase: &str,
        trial: Trial,
        seen: Option<&Detail>,
        worth: Result<(), &Invalid>,
    ) -> TrialRow {
        let mut row = TrialRow {
            size,
            phase: phase.to_owned(),
            rate: trial.rate,
            seconds: trial.duration.as_secs_f64(),
            intended: 0,
            sent: 0,
            received: 0,
            at_least: false,
            lost: 0,
            unsent: 0,
            late: 0,
            reordered: 0,
            gaps: 0,
            duplicates: 0,
            stale: 0,
            misrouted: 0,
            damaged: 0,
            old: 0,
            foreign: 0,
            beside_unsent: 0,
            management: None,
            latency_us: None,
            response_us: None,
            lateness_us: None,
            flows_with_loss: 0,
            flows: Vec::new(),
            flows_left_out: 0,
            machines: BTreeMap::new(),
            invalid: None,
            came_to_its_end: worth.is_ok(),
        };
        if let Some(detail) = seen {
            row.count(detail);
            // Of one that was cut off nobody knows what would have been sent, and what was still to arrive.
            if worth.is_ok() {
                row.fill(detail);
            }
        }
        row.invalid = worth.err().map(ToString::to_string);
        row
    }

    /// How late frames left, by the name of a quantile: microseconds.
    pub(crate) fn lateness(&self, name: &str) -> Option<f64> {
        self.lateness_us.as_ref().and_then(|all| all.get(name)).and_then(Value::as_f64)
    }

    /// It says nothing unless the tester has sent all that was due.
    pub(crate) fn ask_for_all(&mut self) {
        if self.unsent > 0 && self.invalid.is_none() && !self.warms_up() {
            self.invalid = Some(unsent(self.unsent, self.intended));
        }
    }

    /// Whether it was only to warm the device up.
    pub(crate) fn warms_up(&self) -> bool {
        self.phase.starts_with("warm-up")
    }

    /// Adds what machines did meanwhile.
    pub(crate) fn tell_machines(&mut self, readings: &[Reading]) {
        for reading in readings {
            let prefix = format!("gather.{}.", reading.machine);
            let name = |name: &str| name.strip_prefix(&prefix).unwrap_or(name).to_owned();
            let [busy_share, softirq_share] = reading.busy;
            let counted = reading.counted.iter().map(|q| (name(&q.name), q.median())).collect();
            let row = MachineRow { at_ns: reading.at_ns, busy_share, softirq_share, counted };
            self.machines.insert(reading.machine.clone(), row);
        }
    }

    /// How many frames there were of each kind.
    fn count(&mut self, detail: &Detail) {
        let Detail { outcome, counts, damaged, old, foreign, at_least, .. } = detail;
        self.at_least = *at_least;
        (self.intended, self.sent, self.received) = (outcome.intended, outcome.sent, outcome.received);
        (self.reordered, self.gaps, self.duplicates) = (counts.reordered, counts.gaps, counts.duplicates);
        (self.stale, self.misrouted) = (counts.stale, counts.misrouted);
        (self.damaged, self.old, self.foreign) = (*damaged, *old, *foreign);
    }

    /// What is known of a whole trial only.
    fn fill(&mut self, detail: &Detail) {
        let Detail { outcome, answers, beside_unsent, verdicts, latency, response, lateness, .. } = detail;
        (self.lost, self.unsent, self.late) = (outcome.lost(), outcome.unsent(), outcome.late);
        self.beside_unsent = *beside_unsent;
        self.management = (answers.asked > 0).then(|| Managed::from(answers));
        self.latency_us = by_quantile(latency);
        (self.response_us, self.lateness_us) = (by_quantile(response), by_quantile(lateness));
        self.flows_with_loss = verdicts.lossy;
        self.flows = verdicts.worst.iter().map(FlowRow::from).collect();
        self.flows_left_out = verdicts.left_out;
    }
}

/// Why nothing is known of a device at a rate that the tester did not reach.
pub(super) fn unsent(missing: u64, of: u64) -> String {
    format!(
        "the tester did not send {missing} of {of} frames that were due: what the device does at this rate is not known; ask for less"
    )
}
