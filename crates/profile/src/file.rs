// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a recording.
//!
//! ```text
//!  "JNCTPROF"  version: u32  section ...          all numbers little-endian
//!  section:    tag: 4 letters  length: u32  so many bytes
//!
//!  HEAD  JSON, [`Header`]            once, first
//!  CLCK  16 bytes each, [`Pair`]     cycles: u64, nanoseconds: u64
//!  NAME  JSON, [`Names`]             at the beginning, and whenever another configuration has come
//!  EVTS  32 bytes each, [`Event`]    at: u64, kind: u32, thread: u32, subject: u32, other: u32, first: u32, second: u32
//!  KERN  32 bytes each, [`KernelEvent`]
//!  CNTR  24 bytes each, [`Reading`]  at_ns: u64, thread: u32, counter: u32, value: u64
//!  COMM  JSON, numbers and names of the threads that the kernel's events name: now and then those that are new, at the end all
//!  END_  JSON, [`End`]               once, last
//!  CRC_  4 bytes, behind each section: the CRC-32 (as in gzip) of that section, its tag and length included
//! ```
//!
//! Each section is written whole and at once, so that a router which is killed leaves all that came before. Where the disk is full, the last sections of
//! events give way to those with which a recording ends. A reader passes over tags that it does not know, and over sections whose sum is another one,
//! which it says; files of before there were sums are read without. What is in a file is not believed: any bytes give a recording or an error (fuzz target `profile_file`).

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use sync::events::{EVENT_BYTES, Event, EventKind, Mask};

use crate::clock::{Pair, Timeline};
use crate::kernel::counters::{READING_BYTES, Reading};
use crate::kernel::event::{KERNEL_EVENT_BYTES, KernelEvent};
use crate::names::{End, Header, LockName, Names};
use crate::record::Mode;

/// How a file begins.
const MAGIC: [u8; 8] = *b"JNCTPROF";
/// The form that this program writes and reads.
pub const VERSION: u32 = 1;
const PAIR_BYTES: usize = 16;
/// The tag of a section's sum, and the bytes that it takes in all.
const SUM: [u8; 4] = *b"CRC_";
const SUM_BYTES: usize = 12;
/// Sections of events that can give way.
const MARKS: usize = 1 << 14;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FileError {
    /// It is something else.
    #[error(
        "this is no recording: it begins otherwise; name the file that 'junctor profile record -o FILE' has written"
    )]
    Foreign,
    /// It is of another version.
    #[error(
        "the recording has form {0}, and this program reads form {VERSION}: use the program that made it"
    )]
    Version(u32),
    /// A part is damaged.
    #[error(
        "the recording is damaged: section {tag} at byte {at}: {why}; copy it anew from where it was written, or record again"
    )]
    Damaged {
        /// The section's tag.
        tag: String,
        /// Where the section begins.
        at: usize,
        /// What is wrong there.
        why: String,
    },
    /// It ends before anything was recorded.
    #[error(
        "the recording ends before its header: the router had no time, or the disk no room, to write more; record again"
    )]
    Empty,
}

/// Writes a file, section by section.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    bytes: Vec<u8>,
    written: u64,
    /// The last sections of events.
    marks: VecDeque<Mark>,
}

/// A section of events: where it begins, and how many of which kind it has.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: u64,
    events: u64,
    kernel: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(mut out: W, header: &Header) -> io::Result<Writer<W>> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let mut writer = Writer { out, bytes: Vec::new(), written: 12, marks: VecDeque::new() };
        writer.json(*b"HEAD", header)?;
        Ok(writer)
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn section(&mut self, tag: [u8; 4], fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.bytes.clear();
        self.bytes.extend(tag);
        self.bytes.extend([0; 4]);
        fill(&mut self.bytes);
        let len = u32::try_from(self.bytes.len() - 8).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.bytes[4..8].copy_from_slice(&len.to_le_bytes());
        let sum = crc32fast::hash(&self.bytes);
        self.bytes.extend(SUM);
        self.bytes.extend((SUM_BYTES as u32 - 8).to_le_bytes());
        self.bytes.extend(sum.to_le_bytes());
        self.out.write_all(&self.bytes)?;
        self.written += self.bytes.len() as u64;
        Ok(())
    }

    fn json(&mut self, tag: [u8; 4], value: &impl serde::Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(value)?;
        self.section(tag, |bytes| bytes.extend(text))
    }

    /// Writes both clocks.
    ///
    /// # Errors
    /// What the file says.
    pub fn clock(&mut self, pair: Pair) -> io::Result<()> {
        self.section(*b"CLCK", |bytes| {
            bytes.extend(pair.cycles.to_le_bytes());
            bytes.extend(pair.ns.to_le_bytes());
        })
    }

    /// Writes names.
    ///
    /// # Errors
    /// What the file says.
    pub fn names(&mut self, names: &Names) -> io::Result<()> {
        self.json(*b"NAME", names)
    }

    /// Writes events of threads.
    ///
    /// # Errors
    /// What the file says.
    pub fn events(&mut self, events: &[Event]) -> io::Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let mark = Mark { at: self.written, events: events.len() as u64, kernel: 0 };
        self.section(*b"EVTS", |bytes| {
            events.iter().flat_map(|e| e.words()).for_each(|word| bytes.extend(word.to_le_bytes()));
        })?;
        self.mark(mark);
        Ok(())
    }

    fn mark(&mut self, mark: Mark) {
        if self.marks.len() == MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
    }

    /// Writes events of the kernel.
    ///
    /// # Errors
    /// What the file says.
    pub fn kernel(&mut self, events: &[KernelEvent]) -> io::Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let mark = Mark { at: self.written, events: 0, kernel: events.len() as u64 };
        self.section(*b"KERN", |bytes| events.iter().for_each(|e| bytes.extend(e.to_bytes())))?;
        self.mark(mark);
        Ok(())
    }

    /// Writes what counters said.
    ///
    /// # Errors
    /// What the file says.
    pub fn readings(&mut self, readings: &[Reading]) -> io::Result<()> {
        if readings.is_empty() {
            return Ok(());
        }
        self.section(*b"CNTR", |bytes| readings.iter().for_each(|r| bytes.extend(r.to_bytes())))
    }

    /// Writes names of the kernel's threads.
    ///
    /// # Errors
    /// What the file says.
    pub fn commands(&mut self, names: &BTreeMap<u32, String>) -> io::Result<()> {
        self.json(*b"COMM", names)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// What the file says.
    pub fn end(&mut self, end: &End) -> io::Result<()> {
        self.json(*b"END_", end)?;
        self.out.flush()
    }
}

impl Writer<File> {
    /// Makes room for so many bytes at the end of a file that is full. It removes what was started and not ended, and the last sections of
    /// events, with all behind them. Returns how many events of threads and of the kernel these had.
    ///
    /// # Errors
    /// What the file says.
    pub fn give_way(&mut self, bytes: u64) -> io::Result<(u64, u64)> {
        let keep = self.written.saturating_sub(bytes);
        let (mut events, mut kernel) = (0, 0);
        while self.written > keep
            && let Some(last) = self.marks.pop_back()
        {
            self.written = last.at;
            (events, kernel) = (events + last.events, kernel + last.kernel);
        }
        self.go_back(self.written)?;
        Ok((events, kernel))
    }

    /// Bytes that the file has taken, those of a section that had no room as a whole included.
    ///
    /// # Errors
    /// What the file says.
    pub fn taken(&self) -> io::Result<u64> {
        self.out.metadata().map(|meta| meta.len())
    }

    /// Removes what comes behind the section that ends there.
    ///
    /// # Errors
    /// What the file says.
    pub fn go_back(&mut self, to: u64) -> io::Result<()> {
        self.written = to;
        while self.marks.back().is_some_and(|mark| mark.at >= to) {
            self.marks.pop_back();
        }
        self.out.set_len(to)?;
        self.out.seek(SeekFrom::Start(to)).map(drop)
    }
}

/// A recording, read.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// How it was made.
    pub header: Header,
    /// What numbers mean, by time.
    pub names: Vec<Names>,
    /// The clocks.
    pub pairs: Vec<Pair>,
    /// What threads recorded, each thread's in order.
    pub events: Vec<Event>,
    /// What the kernel recorded, each processor's in order.
    pub kernel: Vec<KernelEvent>,
    /// What counters said, each in time.
    pub readings: Vec<Reading>,
    /// Names of threads by the kernel's number.
    pub commands: BTreeMap<u32, String>,
    /// How it ended; `None` if it was cut off.
    pub end: Option<End>,
    /// Records that no kind of event fits.
    pub unknown: u64,
    /// Parts that are not as they were written, and were passed over.
    pub damaged: Vec<Damage>,
}

/// A part of a file that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub at: usize,
    /// How long it is.
    pub bytes: usize,
}

impl Recording {
    /// Reads a file. One that was cut off, by the end of its router or a full disk, is read as far as it goes.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn read(bytes: &[u8]) -> Result<Recording, FileError> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(FileError::Foreign)?;
        let (version, mut rest) = rest.split_first_chunk().ok_or(FileError::Empty)?;
        match u32::from_le_bytes(*version) {
            VERSION => {}
            other => return Err(FileError::Version(other)),
        }
        let mut recording = Recording::default();
        let (mut any, mut has_sums) = (false, false);
        while let Some((tag, len, body)) = section(rest) {
            let Some((payload, next)) = body.split_at_checked(len) else { break };
            let at = bytes.len() - rest.len();
            let whole = &rest[..rest.len() - next.len()];
            let damaged = |why| FileError::Damaged { tag: tag.escape_ascii().to_string(), at, why };
            let sum = next.first_chunk::<SUM_BYTES>().filter(|sum| sum.starts_with(&SUM));
            has_sums |= sum.is_some();
            let good = match sum {
                Some(sum) => sum.ends_with(&crc32fast::hash(whole).to_le_bytes()),
                None => !has_sums || next.len() < SUM_BYTES,
            };
            rest = if sum.is_some() { &next[SUM_BYTES..] } else { next };
            if good {
                any |= recording.take(tag, payload).map_err(damaged)?;
            } else if any && sum.is_none() {
                // Its length may be what is wrong, so nobody knows where the next begins.
                recording.damaged.push(Damage { at, bytes: bytes.len() - at });
                break;
            } else if any {
                recording.damaged.push(Damage { at, bytes: whole.len() });
            } else {
                return Err(damaged("it is not as it was written".into()));
            }
        }
        recording.date_names();
        if any { Ok(recording) } else { Err(FileError::Empty) }
    }

    /// Names are written a moment after another configuration has come; events say when that was.
    fn date_names(&mut self) {
        let came = |e: &&Event| matches!(e.kind, EventKind::Swap | EventKind::Move);
        let times: Vec<u64> = self.events.iter().filter(came).map(|e| e.at).collect();
        for i in 1..self.names.len() {
            let (before, since) = (self.names[i - 1].since, self.names[i].since);
            let when = times.iter().copied().filter(|at| *at > before && *at <= since).max();
            self.names[i].since = when.unwrap_or(since);
        }
    }

    /// Takes a section; returns whether it was the header.
    fn take(&mut self, tag: [u8; 4], payload: &[u8]) -> Result<bool, String> {
        fn json<T: serde::de::DeserializeOwned>(payload: &[u8]) -> Result<T, String> {
            serde_json::from_slice(payload).map_err(|e| e.to_string())
        }
        match &tag {
            b"HEAD" => self.header = json(payload)?,
            b"NAME" => self.names.push(json(payload)?),
            b"COMM" => self.commands.append(&mut json(payload)?),
            b"END_" => self.end = Some(json(payload)?),
            b"CLCK" => {
                for [cycles, ns] in words::<2, PAIR_BYTES>(payload)? {
                    self.pairs.push(Pair { cycles, ns });
                }
            }
            b"EVTS" => {
                for words in words::<4, EVENT_BYTES>(payload)? {
                    match Event::from_words(words) {
                        Some(event) => self.events.push(event),
                        None => self.unknown += 1,
                    }
                }
            }
            b"KERN" => {
                for words in words::<4, KERNEL_EVENT_BYTES>(payload)? {
                    match KernelEvent::from_words(words) {
                        Some(event) => self.kernel.push(event),
                        None => self.unknown += 1,
                    }
                }
            }
            b"CNTR" => self.readings.extend(words::<3, READING_BYTES>(payload)?.map(Reading::from_words)),
            _ => {}
        }
        Ok(&tag == b"HEAD")
    }

    /// How rings were emptied.
    pub fn mode(&self) -> Mode {
        self.header.mode.parse().unwrap_or_default()
    }

    /// What threads were to record; all, if it is not known.
    pub fn events_asked(&self) -> Mask {
        self.header.events.parse().unwrap_or(Mask::ALL)
    }

    /// Time in this recording.
    pub fn timeline(&self) -> Timeline {
        Timeline::new(&self.pairs)
    }

    /// What numbers meant at a time.
    pub fn names_at(&self, cycles: u64) -> Option<&Names> {
        self.names.iter().rev().find(|n| n.since <= cycles).or(self.names.first())
    }

    /// The name of this number, of a handler.
    pub fn word(&self, number: u32) -> &str {
        let words = self.names.last().map_or(&[][..], |n| &n.words);
        words.get((number as usize).wrapping_sub(1)).map_or("?", String::as_str)
    }

    /// The lock of this number.
    pub fn lock(&self, number: u32) -> Option<&LockName> {
        self.names.iter().flat_map(|n| &n.locks).find(|l| l.number == number)
    }
}

/// The tag and length of a section, and what follows.
fn section(bytes: &[u8]) -> Option<([u8; 4], usize, &[u8])> {
    let (tag, rest) = bytes.split_first_chunk()?;
    let (len, body) = rest.split_first_chunk()?;
    Some((*tag, u32::from_le_bytes(*len) as usize, body))
}

/// Records of `N` words.
fn words<const N: usize, const BYTES: usize>(
    payload: &[u8],
) -> Result<impl Iterator<Item = [u64; N]>, String> {
    const { assert!(N * 8 == BYTES) }
    if !payload.len().is_multiple_of(BYTES) {
        return Err(format!("{} bytes are no whole number of records of {BYTES}", payload.len()));
    }
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    Ok(payload.chunks_exact(BYTES).map(move |record| std::array::from_fn(|i| word(&record[i * 8..]))))
}

#[cfg(test)]
mod tests;
