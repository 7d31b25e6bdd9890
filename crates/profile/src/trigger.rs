// SPDX-License-Identifier: MIT OR Apache-2.0
//! What ends a recording by itself: something that is waited for, and looked for every few milliseconds.

use std::io;

use serde::{Deserialize, Serialize};

/// What was waited for, as it happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fired {
    /// When, in cycles.
    pub at: u64,
    /// When, in nanoseconds since the epoch.
    pub unix_ns: u64,
    /// Which condition, as it was asked for.
    pub condition: String,
    /// What happened, and where.
    pub what: String,
    /// How many of the packets concerned were kept.
    pub packets: u64,
    /// How many there were beyond these until the rings were read.
    pub more_packets: u64,
    /// Their file, empty if there are none.
    pub packets_file: String,
    /// Of a packet that was in the router for too long.
    pub late: Option<Late>,
}

/// A packet that was in the router for too long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Late {
    /// For how long, in nanoseconds; of one that is still there, how long so far.
    pub latency_ns: u64,
    /// Whether it is still there.
    pub inside: bool,
    /// The element that took most of this time.
    pub element: String,
    /// What it was there: `in`, `held by` or `in front of` this element.
    pub was: String,
    /// How much of the time, in nanoseconds.
    pub there_ns: u64,
    /// The workers on which it was seen, in this order.
    pub workers: Vec<usize>,
}

impl Fired {
    /// What there is of the packets concerned, in words.
    pub fn kept(&self) -> String {
        let Fired { packets, more_packets, packets_file, .. } = self;
        let more =
            if *more_packets > 0 { format!(" ({more_packets} more were not kept)") } else { String::new() };
        match (packets, packets_file.as_str()) {
            (0, _) | (_, "") => format!("no packets at hand{more}"),
            (1, file) => format!("1 packet in {file}{more}"),
            (n, file) => format!("{n} packets in {file}{more}"),
        }
    }
}

/// Waits for something during a recording.
pub trait Trigger: Send {
    /// What is waited for, one text for each condition.
    fn conditions(&self) -> Vec<String>;

    /// The recording has started: looks out from now on. Returns what it does not see.
    ///
    /// # Errors
    /// What is waited for cannot be seen.
    fn begin(&mut self) -> io::Result<Vec<String>>;

    /// How many bytes a file of the packets concerned would take by now.
    fn packet_bytes(&self) -> u64;

    /// What has happened, if something has since it began. If this is the `last` look, an event that the next look would report counts,
    /// too.
    fn look(&mut self, last: bool) -> Option<Fired>;

    /// The rings have been read: nothing more is looked for, and what was kept of the packets concerned is written.
    ///
    /// # Errors
    /// Why packets could not be written; the recording itself is complete.
    fn end(&mut self, fired: Option<&mut Fired>) -> io::Result<()>;
}
