// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast in network namespaces: hosts that send to groups and join them, and a daemon that makes the kernel's entries.
//!
//! All are Python scripts over Linux's own sockets, so they are independent of what they test.

use std::collections::BTreeMap;

use crate::process::Process;
use crate::rig::{Namespace, RigError};

const SCRIPT: &str = include_str!("groups.py");

/// The port of all packets.
const PORT: &str = "5000";

/// Packets that a host is to send.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Their time to live.
    pub ttl: u8,
    /// The number of the first one.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// Time between two of them, in milliseconds.
    pub pause_ms: u32,
    /// Bytes behind their UDP header, at least 4.
    pub bytes: u32,
}

impl Default for Sending {
    fn default() -> Sending {
        Sending { ttl: 64, first: 0, count: 1, pause_ms: 1, bytes: 200 }
    }
}

fn start(namespace: &Namespace, arguments: &[&str]) -> Result<Process, RigError> {
    namespace.spawn(&[&["python3", "-uc", SCRIPT], arguments].concat())
}

/// Sends packets to groups by an interface, in this order. The process ends when all are sent.
///
/// # Errors
/// The script cannot be started.
pub fn send(
    namespace: &Namespace,
    interface: &str,
    packets: &[(&str, Sending)],
) -> Result<Process, RigError> {
    let line = |(group, sending): &(&str, Sending)| {
        let Sending { ttl, first, count, pause_ms, bytes } = sending;
        format!("{group} {ttl} {first} {count} {} {bytes}", f64::from(*pause_ms) / 1000.0)
    };
    let lines: Vec<String> = packets.iter().map(line).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    start(namespace, &[&["send", interface, PORT], &lines[..]].concat())
}

/// A host that has joined groups. It leaves when this is dropped.
#[derive(Debug)]
pub struct Receiver {
    process: Process,
}

/// A packet that a receiver got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// How often.
    pub times: u32,
    /// The time to live that it came with.
    pub ttl: u8,
}

impl Receiver {
    /// Joins groups on an interface: each `GROUP`, or `GROUP,SOURCE` for packets of one source.
    ///
    /// # Errors
    /// The script cannot be started.
    pub fn join(namespace: &Namespace, interface: &str, groups: &[&str]) -> Result<Receiver, RigError> {
        let mut process = start(namespace, &[&["receive", interface, PORT], groups].concat())?;
        process.wait_for_text("joined", std::time::Duration::from_secs(60))?;
        Ok(Receiver { process })
    }

    /// Packets so far, by their numbers.
    ///
    /// # Panics
    /// A packet was damaged.
    #[must_use]
    pub fn got(&self) -> BTreeMap<u32, Got> {
        let text = self.process.stdout();
        assert!(!text.contains("damaged"), "a packet was damaged");
        let mut got = BTreeMap::new();
        // The last line may still be written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines().filter_map(|line| line.strip_prefix("got ")) {
            let mut words = line.split(' ');
            let number = words.next().and_then(|word| word.parse().ok()).expect("a number");
            let ttl = words.next().and_then(|word| word.parse().ok()).expect("a TTL");
            got.entry(number).or_insert(Got { times: 0, ttl }).times += 1;
        }
        got
    }

    /// Packets that came more than once.
    #[must_use]
    pub fn repeated(&self) -> Vec<u32> {
        self.got().into_iter().filter(|(_, got)| got.times > 1).map(|(number, _)| number).collect()
    }

    /// How many packets came with numbers in a range.
    #[must_use]
    pub fn count(&self, range: std::ops::Range<u32>) -> u32 {
        self.got().range(range).map(|(_, got)| got.times).sum()
    }
}

/// Starts a daemon of a family (4 or 6) that makes the kernel's entries those of a file, `SOURCE GROUP INPUT OUTPUT[/TTL] ...` with interfaces by
/// name. It prints `entries` and their number when it has, and `report TYPE ...` for what the kernel reports.
///
/// # Errors
/// The script cannot be started.
pub fn daemon(
    namespace: &Namespace,
    family: u8,
    interfaces: &[&str],
    file: &str,
) -> Result<Process, RigError> {
    start(namespace, &["daemon", &family.to_string(), &interfaces.join(","), file])
}
