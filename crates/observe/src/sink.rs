// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where captured packets go: a file, files in turn, standard output, or lines for people.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use packet::port::link_type;
use wire::pcap::ng::{Captured, Interface, NgWriter};

use crate::records::{self, Line};

type Stream = Box<dyn Write>;
/// With what a block begins that has a packet, an enhanced one.
const PACKET: [u8; 4] = 6u32.to_ne_bytes();

/// A file that ends with a whole block, also where it takes no more. It is given whole blocks: a writer of blocks makes one write of each, and what
/// gathers writes does not split them.
struct WholeBlocks {
    file: File,
    /// Bytes of whole blocks.
    whole: u64,
    /// How many packets are in files.
    packets: Rc<Cell<u64>>,
    /// It took no more: what is written again for that reason is not taken either.
    is_full: bool,
}

impl WholeBlocks {
    /// How many of the first `room` bytes are whole blocks: each begins with its kind and its length, of 4 bytes each.
    fn whole_of(mut blocks: &[u8], room: usize) -> usize {
        let mut whole = 0;
        while let Some(len) = blocks.get(4..8).and_then(|len| len.try_into().ok()).map(u32::from_ne_bytes)
            && let Some(rest) = blocks.get(len.max(12) as usize..)
            && whole + (len as usize) <= room
        {
            (whole, blocks) = (whole + len as usize, rest);
        }
        whole
    }
}

/// How many packets are in these blocks.
fn packets_in(mut blocks: &[u8]) -> u64 {
    let mut packets = 0;
    while let Some((kind, len)) = blocks.split_at_checked(4)
        && let Some(len) = len.first_chunk().map(|len| u32::from_ne_bytes(*len))
        && let Some(rest) = blocks.get(len.max(12) as usize..)
    {
        packets += u64::from(kind == PACKET);
        blocks = rest;
    }
    packets
}

impl Write for WholeBlocks {
    fn write(&mut self, blocks: &[u8]) -> io::Result<usize> {
        if self.is_full {
            return Err(ErrorKind::StorageFull.into());
        }
        if let Err(why) = self.file.write_all(blocks) {
            self.is_full = true;
            if let Ok(meta) = self.file.metadata()
                && meta.is_file()
            {
                let room = meta.len().saturating_sub(self.whole);
                let taken = Self::whole_of(blocks, room as usize);
                self.whole += taken as u64;
                self.packets.set(self.packets.get() + packets_in(&blocks[..taken]));
                self.file.set_len(self.whole)?;
                self.file.seek(SeekFrom::Start(self.whole))?;
            }
            return Err(why);
        }
        self.whole += blocks.len() as u64;
        self.packets.set(self.packets.get() + packets_in(blocks));
        Ok(blocks.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

struct Known {
    interface: Interface,
    ip: bool,
    received: u64,
    lost: u64,
}

/// A file that takes no more, or cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {why}")]
pub struct Unwritten {
    file: String,
    #[source]
    why: io::Error,
}

/// See the module.
pub struct Sink {
    path: Option<PathBuf>,
    writer: Option<NgWriter<Stream>>,
    /// When a file is full, and how many are kept.
    size: Option<u64>,
    files: Option<u64>,
    number: u64,
    filter: String,
    snap: u32,
    interfaces: Vec<Known>,
    last_ns: u64,
    /// How many packets have come into files, those included that made room for others; nothing of standard output.
    kept: Option<Rc<Cell<u64>>>,
    /// How many had come when each file began that is still there.
    begun: VecDeque<u64>,
    /// The reader has gone.
    closed: bool,
}

impl Sink {
    /// Where captured packets go: a line of text each, or pcapng in a file, or in files of at most `size` bytes each, of which the last `files` stay.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn new(
        path: Option<&Path>,
        size: Option<u64>,
        files: Option<u64>,
        filter: &str,
        snap: u32,
    ) -> Result<Sink, Unwritten> {
        let mut sink = Sink {
            path: path.map(Path::to_owned),
            writer: None,
            size,
            files,
            number: 0,
            filter: filter.to_owned(),
            snap,
            interfaces: Vec::new(),
            last_ns: 0,
            kept: path.filter(|path| path.as_os_str() != "-").map(|_| Rc::default()),
            begun: VecDeque::new(),
            closed: false,
        };
        sink.open()?;
        Ok(sink)
    }

    /// The file of this number: the one that was named, or of several `NAME-00001.SUFFIX`.
    fn file(&self, path: &Path, number: u64) -> PathBuf {
        if self.size.is_none() {
            return path.to_owned();
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let suffix = path.extension().map_or(String::new(), |e| format!(".{}", e.to_string_lossy()));
        path.with_file_name(format!("{stem}-{number:05}{suffix}"))
    }

    /// Begins a file.
    fn open(&mut self) -> Result<(), Unwritten> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        self.number += 1;
        let file = self.file(&path, self.number);
        let failed = |why| Unwritten { file: file.display().to_string(), why };
        let stream: Stream = if path.as_os_str() == "-" {
            Box::new(BufWriter::new(io::stdout()))
        } else {
            let file = sync::private::create(&file).map_err(failed)?;
            let packets = self.kept.clone().unwrap_or_default();
            Box::new(BufWriter::new(WholeBlocks { file, whole: 0, packets, is_full: false }))
        };
        let program = concat!("junctor ", env!("CARGO_PKG_VERSION"));
        let begun = NgWriter::new(stream, program).and_then(|mut writer| {
            for known in &self.interfaces {
                writer.interface(&known.interface)?;
            }
            Ok(writer)
        });
        self.writer = Some(begun.map_err(failed)?);
        self.begun.push_back(self.kept.as_ref().map_or(0, |kept| kept.get()));
        if let Some(old) = self.files.and_then(|files| self.number.checked_sub(files)).filter(|n| *n > 0) {
            self.begun.pop_front();
            // One that somebody has taken away is no loss.
            let _ = std::fs::remove_file(self.file(&path, old));
        }
        Ok(())
    }

    /// Takes what a write says; a reader that has gone is no failure.
    fn check(&mut self, done: io::Result<()>) -> Result<(), Unwritten> {
        match done {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(why) => {
                let file = match &self.path {
                    Some(path) if path.as_os_str() != "-" => {
                        self.file(path, self.number).display().to_string()
                    }
                    _ => "standard output".to_owned(),
                };
                Err(Unwritten { file, why })
            }
        }
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// How many packets have come to stay, of so many that were handed over.
    pub fn kept(&self, written: u64) -> u64 {
        let deleted = self.begun.front().copied().unwrap_or(0);
        self.kept.as_ref().map_or(written, |kept| kept.get() - deleted)
    }

    /// Where it all is, for messages.
    pub fn shown(&self) -> String {
        match &self.path {
            None => String::new(),
            Some(path) if path.as_os_str() == "-" => " to standard output".into(),
            Some(path) if self.size.is_some() => {
                let first = self.files.map_or(1, |files| self.number.saturating_sub(files - 1).max(1));
                let [first, last] = [first, self.number].map(|n| self.file(path, n).display().to_string());
                let deleted = match self.files.map_or(0, |files| self.number.saturating_sub(files)) {
                    0 => String::new(),
                    1 => " (1 older file was deleted)".to_owned(),
                    older => format!(" ({older} older files were deleted)"),
                };
                format!(" in {first} to {last}{deleted}")
            }
            Some(path) => format!(" in {}", path.display()),
        }
    }

    /// Names the interface of this number, whose packets begin with Ethernet or IP.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn interface(&mut self, number: u32, name: String, ip: bool) -> Result<(), Unwritten> {
        debug_assert_eq!(number as usize, self.interfaces.len());
        let link = if ip { link_type::RAW } else { link_type::ETHERNET };
        let description = if ip { "packets that begin with an IP header" } else { "" };
        let interface = Interface {
            name,
            description: description.into(),
            link_type: link as u16,
            snaplen: self.snap,
            filter: self.filter.clone(),
        };
        let mixes = |known: &Known| known.ip != ip;
        let is_first =
            self.interfaces.iter().all(|known| self.interfaces.first().is_some_and(|f| f.ip == known.ip));
        if self.writer.is_some() && is_first && self.interfaces.first().is_some_and(mixes) {
            report::errln!(
                "junctor: some ports have Ethernet frames and others IP packets: wireshark and tshark read such a file, tcpdump does not"
            );
        }
        let done = match &mut self.writer {
            Some(writer) => writer.interface(&interface).map(drop),
            None => Ok(()),
        };
        self.interfaces.push(Known { interface, ip, received: 0, lost: 0 });
        self.check(done)
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn packet(&mut self, line: &Line) -> Result<(), Unwritten> {
        let Line::Packet { interface, time_ns, len, bytes, inbound, comment } = line else { return Ok(()) };
        let bytes = wire::compose::from_hex(bytes).unwrap_or_default();
        let Some(known) = self.interfaces.get_mut(*interface as usize) else { return Ok(()) };
        known.received += 1;
        self.last_ns = *time_ns;
        let Some(writer) = &mut self.writer else {
            let summary = records::summary(&bytes, known.ip);
            let name = &known.interface.name;
            let comment = if comment.is_empty() { String::new() } else { format!("  ({comment})") };
            let text = format!("{} {name} {summary}{comment}\n", records::clock(*time_ns));
            let done = io::stdout().write_all(text.as_bytes());
            return self.check(done);
        };
        let packet = Captured {
            interface: *interface,
            timestamp_ns: *time_ns,
            wire_len: u32::try_from(*len).unwrap_or(u32::MAX),
            bytes: &bytes,
            inbound: *inbound,
            comment,
        };
        let done = writer.packet(&packet);
        let full = self.size.is_some_and(|size| writer.written() >= size);
        self.check(done)?;
        if full && !self.closed {
            self.counts()?;
            self.flush()?;
            self.open()?;
        }
        Ok(())
    }

    /// Writes how many packets of an interface were lost.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn lost(&mut self, interface: u32, lost: u64) -> Result<(), Unwritten> {
        if let Some(known) = self.interfaces.get_mut(interface as usize) {
            known.lost = lost;
        }
        Ok(())
    }

    /// Writes what the interfaces have counted.
    fn counts(&mut self) -> Result<(), Unwritten> {
        let at = if self.last_ns > 0 { self.last_ns } else { records::now_ns() };
        let mut done = Ok(());
        if let Some(writer) = &mut self.writer {
            for (number, known) in self.interfaces.iter().enumerate() {
                done =
                    done.and_then(|()| writer.statistics(number as u32, at, known.received, known.lost, ""));
            }
        }
        if self.closed { Ok(()) } else { self.check(done) }
    }

    /// Writes all that has come until now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> Result<(), Unwritten> {
        let done = match &mut self.writer {
            Some(writer) if !self.closed => writer.flush(),
            _ => Ok(()),
        };
        self.check(done)
    }

    /// Ends the file; `lost` packets were lost in all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self, lost: u64) -> Result<(), Unwritten> {
        let told: u64 = self.interfaces.iter().map(|known| known.lost).sum();
        // Of those that were lost on the way here it is not known where they came from.
        if let (Some(first), true) = (self.interfaces.first_mut(), lost > told) {
            first.lost += lost - told;
        }
        // What was received is what was lost, too.
        self.interfaces.iter_mut().for_each(|known| known.received += known.lost);
        self.counts()?;
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_do_not_fit_are_left_out_whole() {
        let block = |len: u32| {
            [6u32.to_ne_bytes(), len.to_ne_bytes()].concat().into_iter().chain(vec![0; len as usize - 8])
        };
        let blocks: Vec<u8> = block(32).chain(block(60)).chain(block(16)).collect();
        for (room, whole) in
            [(0, 0), (31, 0), (32, 32), (91, 32), (92, 92), (107, 92), (108, 108), (500, 108)]
        {
            assert_eq!(WholeBlocks::whole_of(&blocks, room), whole, "{room}");
        }
        assert_eq!(WholeBlocks::whole_of(&blocks[..50], 50), 32);
        assert_eq!([0, 32, 92, 108].map(|upto| packets_in(&blocks[..upto])), [0, 1, 2, 3]);
        let other: Vec<u8> =
            [5u32.to_ne_bytes(), 16u32.to_ne_bytes()].concat().into_iter().chain([0; 8]).collect();
        assert_eq!(packets_in(&[other, blocks].concat()), 3);
        assert_eq!(WholeBlocks::whole_of(&[0; 7], 7), 0);
    }
}
