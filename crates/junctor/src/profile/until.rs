// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a recording may wait for (`junctor profile record --until`), and how it is noticed.
//!
//! Drops are noticed by [witnesses](engine::witness) that want nothing but packets dropped for these reasons: workers go their usual way, and look at the
//! reason where they count a drop. What a witness has seen waits in a channel until the recording thread looks; no worker is held up.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use engine::witness::{Sight, Wants, What, Witness};
use engine::{Control, Gone, Reason, Reasons, Router, Shared};
use packet::Packet;
use profile::trigger::{Fired, Trigger};
use sync::events::{self, Kind, short};
use wire::fields::{First, hex};

use crate::capture::sink::Sink;
use crate::observe::records::{self, Line, first};

/// The key of these witnesses; sessions of [`observe`](crate::observe) count from 1 on.
const KEY: u64 = u64::MAX;
/// Packets concerned that are kept.
const MOST_PACKETS: usize = 1000;
/// Bytes that are kept of a packet: all.
const SNAP: u32 = 65_535;

/// Something to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// A packet is dropped for this reason, or for any that makes it a loss.
    Drop(Option<Reason>),
}

impl Condition {
    fn reasons(self) -> Reasons {
        match self {
            Condition::Drop(Some(reason)) => [reason].into_iter().collect(),
            Condition::Drop(None) => {
                Reason::ALL.iter().copied().filter(|r| *r != Reason::Discarded).collect()
            }
        }
    }
}

/// As on the command line.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Drop(None) => f.write_str("drop"),
            Condition::Drop(Some(reason)) => write!(f, "drop={reason}"),
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        if text == "drop" {
            return Ok(Condition::Drop(None));
        }
        match text.strip_prefix("drop=").map(crate::drops::find_reason) {
            Some(Ok(Reason::HotSwap)) => {
                Err("no worker sees packets that a hot swap drops, so they cannot be waited for; \
                'junctor apply' says how many there were"
                    .into())
            }
            Some(reason) => reason.map(|reason| Condition::Drop(Some(reason))),
            None => Err(format!("'{text}' is nothing that can be waited for: expected drop or drop=REASON")),
        }
    }
}

/// The file of the packets concerned, beside that of the recording.
///
/// # Errors
/// It would be the same file.
pub(super) fn packets_file(recording: &Path) -> Result<PathBuf, String> {
    let file = recording.with_extension("pcapng");
    if file == recording {
        return Err(format!("{} is where packets come to; name the recording otherwise", file.display()));
    }
    Ok(file)
}

/// A dropped packet that was waited for.
struct Caught {
    at: u64,
    wall_ns: u64,
    worker: usize,
    element: usize,
    reason: Reason,
    condition: usize,
    /// Its bytes, and whether they begin with an IP header; `None` where it was not at hand.
    packet: Option<(Vec<u8>, bool)>,
}

/// What all witnesses have in common.
#[derive(Default)]
struct Common {
    /// Packets that were not kept.
    more: AtomicU64,
    /// The rings have been read.
    over: AtomicBool,
}

/// Waits for drops on one worker.
struct Drops {
    /// The condition for each reason.
    conditions: Arc<[Option<usize>]>,
    caught: SyncSender<Caught>,
    common: Arc<Common>,
    /// It has said so in the worker's ring.
    told: bool,
}

impl Drops {
    #[cold]
    fn catch(&mut self, sight: &Sight<'_>, reason: Reason, condition: usize, packets: u64) {
        if self.common.over.load(Relaxed) {
            return;
        }
        let Sight { at, wall_ns, worker, element, packet, .. } = *sight;
        if !self.told {
            self.told = true;
            let (subject, worker) = (short(element as u64), short(worker as u64));
            events::push(at, Kind::Trigger, (subject, short(condition as u64)), (0, worker));
        }
        let bytes = |packet: &Packet| (packet.data().to_vec(), first(packet) == First::Ip);
        let packet = packet.map(bytes);
        let at_hand = packet.is_some();
        let caught = Caught { at, wall_ns, worker, element, reason, condition, packet };
        // A channel that is full has the first of them.
        if self.caught.try_send(caught).is_err() || !at_hand {
            self.common.more.fetch_add(packets, Relaxed);
        }
    }
}

impl Witness for Drops {
    fn pick(&mut self, _: &Packet) -> u8 {
        0
    }

    fn see(&mut self, sight: &Sight<'_>) {
        let (reason, packets) = match sight.what {
            What::Dropped(reason) => (reason, 1),
            What::Lost(reason, n) => (reason, n),
            _ => return,
        };
        if let Some(condition) = self.conditions[reason as usize] {
            self.catch(sight, reason, condition, packets);
        }
    }
}

/// See the module.
pub(crate) struct Armed {
    conditions: Vec<Condition>,
    by_reason: Arc<[Option<usize>]>,
    control: Control,
    /// The configuration whose workers have witnesses.
    shared: Arc<Shared>,
    sender: SyncSender<Caught>,
    caught: Receiver<Caught>,
    common: Arc<Common>,
    fired: Option<Fired>,
    /// Names of elements that have dropped packets, and packets, in the order in which they were seen.
    kept: Vec<(String, Caught)>,
    file: PathBuf,
    /// The router ends with the recording.
    stops: bool,
}

impl Armed {
    fn new(control: Control, conditions: Vec<Condition>, file: PathBuf, stops: bool) -> Armed {
        let (sender, caught) = sync_channel(MOST_PACKETS);
        let of = |reason: &Reason| conditions.iter().position(|c| c.reasons().has(*reason));
        let by_reason = Reason::ALL.iter().map(of).collect();
        let (shared, common) = (control.shared(), Arc::default());
        let kept = Vec::new();
        Armed {
            conditions,
            by_reason,
            control,
            shared,
            sender,
            caught,
            common,
            fired: None,
            kept,
            file,
            stops,
        }
    }

    /// For a router that is about to run and ends with the recording.
    pub(super) fn before_run(router: &mut Router, conditions: Vec<Condition>, file: PathBuf) -> Armed {
        let armed = Armed::new(router.control(), conditions, file, true);
        let wants = armed.wants();
        if !wants.drops.is_empty() {
            router.call_witnesses(KEY, &wants, &|| armed.witness());
        }
        armed
    }

    /// For a router that runs; also returns what is not watched.
    ///
    /// # Errors
    /// It has stopped.
    pub(super) fn beside_run(
        control: Control,
        conditions: Vec<Condition>,
        file: PathBuf,
    ) -> Result<(Armed, Vec<String>), String> {
        let mut armed = Armed::new(control, conditions, file, false);
        let stuck = armed.arm().map_err(|Stopped| "the router has stopped")?;
        Ok((armed, stuck))
    }

    fn wants(&self) -> Wants {
        let drops = self.conditions.iter().fold(Reasons::default(), |all, c| all.with(c.reasons()));
        Wants { drops, ..Wants::default() }
    }

    fn witness(&self) -> Box<dyn Witness> {
        Box::new(Drops {
            conditions: self.by_reason.clone(),
            caught: self.sender.clone(),
            common: self.common.clone(),
            told: false,
        })
    }

    /// Calls witnesses to the workers of the configuration that runs; returns which are stuck.
    fn arm(&mut self) -> Result<Vec<String>, Stopped> {
        let wants = self.wants();
        loop {
            self.shared = self.control.shared();
            if wants.drops.is_empty() {
                return Ok(Vec::new());
            }
            match self.control.call_witnesses(&self.shared, KEY, &wants, &|| self.witness()) {
                Ok(stuck) => return Ok(stuck),
                Err(Gone::Replaced) => {}
                Err(Gone::Stopped) => return Err(Stopped),
            }
        }
    }

    /// Takes what witnesses have seen.
    fn gather(&mut self) {
        for caught in self.caught.try_iter() {
            let info = self.shared.elements.get(caught.element);
            let (name, class) = info.map_or(("?", "?"), |info| (info.name.as_str(), info.class.name));
            if self.fired.as_ref().is_none_or(|fired| caught.at < fired.at) {
                let Caught { at, wall_ns, worker, reason, condition, .. } = caught;
                let what = format!("{name} ({class}) has dropped a packet on worker {worker}: {reason}");
                let condition = self.conditions[condition].to_string();
                self.fired = Some(Fired { at, unix_ns: wall_ns, condition, what, ..Fired::default() });
            }
            if self.kept.len() < MOST_PACKETS {
                self.kept.push((name.to_owned(), caught));
            } else {
                self.common.more.fetch_add(u64::from(caught.packet.is_some()), Relaxed);
            }
        }
    }

    /// Writes the packets that were kept; returns how many.
    fn write(&mut self) -> Result<u64, String> {
        self.kept.sort_by_key(|(_, caught)| caught.wall_ns);
        self.kept.retain(|(_, caught)| caught.packet.is_some());
        if self.kept.is_empty() {
            return Ok(0);
        }
        let mut sink = Sink::new(Some(&self.file), None, None, "", SNAP)?;
        let mut interfaces: Vec<(&str, bool)> = Vec::new();
        for (element, caught) in &self.kept {
            let Some((bytes, ip)) = &caught.packet else { continue };
            let place = (element.as_str(), *ip);
            let known = interfaces.iter().position(|i| *i == place);
            let interface = known.unwrap_or(interfaces.len()) as u32;
            if known.is_none() {
                interfaces.push(place);
                sink.interface(interface, format!("drops of {element}"), *ip)?;
            }
            sink.packet(&Line::Packet {
                interface,
                time_ns: caught.wall_ns,
                len: bytes.len() as u64,
                bytes: hex(bytes),
                inbound: None,
                comment: records::dropped(element, caught.reason),
            })?;
        }
        sink.end(0)?;
        Ok(self.kept.len() as u64)
    }
}

/// The router has stopped.
struct Stopped;

impl Trigger for Armed {
    fn conditions(&self) -> Vec<String> {
        self.conditions.iter().map(ToString::to_string).collect()
    }

    fn look(&mut self) -> Option<Fired> {
        self.gather();
        if self.fired.is_none() && !Arc::ptr_eq(&self.shared, &self.control.shared()) {
            // What the workers before it have seen is in the channel by now.
            self.gather();
            // A router that has stopped drops nothing more.
            let _ = self.arm();
        }
        self.fired.clone()
    }

    fn end(&mut self, fired: Option<&mut Fired>) -> io::Result<()> {
        self.gather();
        self.common.over.store(true, Relaxed);
        self.control.let_witnesses_go(&self.shared, KEY);
        let Some(fired) = fired else { return Ok(()) };
        if self.stops {
            self.control.stop();
        }
        fired.more_packets = self.common.more.load(Relaxed);
        fired.packets =
            self.write().map_err(|why| io::Error::other(format!("the packets concerned: {why}")))?;
        if fired.packets > 0 {
            fired.packets_file = self.file.display().to_string();
        }
        Ok(())
    }
}

/// What came of it, in words, and whether one of the conditions was met.
pub(super) fn outcome(conditions: &[Condition], fired: Option<&Fired>) -> (String, bool) {
    match fired {
        Some(fired) => {
            let (at, kept) = (records::clock(fired.unix_ns), fired.kept());
            (format!("{} at {at} UTC: {}; {kept}", fired.condition, fired.what), true)
        }
        None => {
            let all: Vec<String> = conditions.iter().map(ToString::to_string).collect();
            (format!("{} has not happened", all.join(", ")), false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_as_they_are_written() {
        for text in ["drop", "drop=queue-full", "drop=no-route"] {
            assert_eq!(text.parse::<Condition>().map(|c| c.to_string()), Ok(text.to_owned()));
        }
        let refused = |text: &str| text.parse::<Condition>().unwrap_err();
        assert!(refused("drop=queue-ful").contains("did you mean 'queue-full'?"));
        assert!(refused("drop=hot-swap").contains("junctor apply"));
        assert!(refused("rain").contains("drop=REASON"));
        let any = Condition::Drop(None).reasons();
        assert!(any.has(Reason::QueueFull) && !any.has(Reason::Discarded));
    }

    #[test]
    fn packets_come_beside_the_recording() {
        assert_eq!(packets_file(Path::new("a/run.prof")), Ok("a/run.pcapng".into()));
        assert!(packets_file(Path::new("a/run.pcapng")).is_err());
    }
}
