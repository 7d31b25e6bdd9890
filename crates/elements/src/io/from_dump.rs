// SPDX-License-Identifier: MIT OR Apache-2.0
//! # FromDump
//!
//! `FromDump(FILENAME [, TIMING, keywords STOP, ACTIVE, SAMPLE, FORCE_IP, START, START_AFTER, END, END_AFTER, INTERVAL, END_CALL, FILEPOS, MMAP])`
//!
//! Reads packets from a capture file: pcap or pcapng, as tcpdump, Wireshark and ToDump write them.
//!
//! **Ports:** 1 output, agnostic: with a pull output it reads packets when asked. 1 optional push output for packets
//! that are not IP.
//!
//! **Arguments**
//! * `FILENAME` the file; `-` is standard input. Compressed files are not read.
//! * `TIMING` boolean, default false: keeps the time between packets as it was captured.
//! * `STOP` boolean, default false: asks the driver to stop at the end.
//! * `ACTIVE` boolean, default true.
//! * `SAMPLE` probability between 0 and 1 that a packet is sent, default 1.
//! * `FORCE_IP` boolean, default false, or true for files of raw IP: packets that are not IP leave by output 1; of
//!   the others the network header is marked. IP is found behind every link header of tcpdump's list that holds it, VLAN
//!   tags, PPPoE and MPLS included. A file of another link type is refused, unless output 1 is connected.
//! * `START` first time to send, seconds since the epoch; `START_AFTER` the same from the first packet on.
//! * `END` time to end before, seconds since the epoch; `END_AFTER` the same from the file's first packet on;
//!   `INTERVAL` from the first packet sent on.
//! * `END_CALL` `HANDLER [VALUE]`: write handler to call at the end, instead of STOP; default: set `active` to false.
//! * `FILEPOS` byte of the file where to begin, which must be that of a packet.
//! * `MMAP` is taken and does nothing.
//!
//! **Metadata set:** timestamp, extra length (bytes that the capture cut off), link header; with FORCE_IP network
//! header and destination address.
//!
//! A pcapng file may hold packets of several link types. ToDump writes each back with its own.
//!
//! **Drops:** `bad-protocol` when output 1 is not connected; `no-memory`.
//!
//! **Handlers**
//! * `count` read: packets sent. `reset_counts` write: sets it to zero.
//! * `active` read/write. `stop` write: stops sending, and the driver.
//! * `sampling_prob`, `encap`, `filename`, `filesize` read.
//! * `filepos` read/write: where in the file the next packet begins. `packet_filepos` read: where the last one sent did.
//! * `extend_interval` write: moves the end by this much time. `reset_timing` write: the next packet goes at once.
//!
//! ```click
//! FromDump(/dev/stdin, ACTIVE false) -> Discard;
//! ```
//!
//! See also: ToDump, FromIPSummaryDump, FromDevice

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use element::args::Args;
use element::{
    Class, Cx, Element, HandlerError, HotSwap, InitCx, OpenCx, PacketHolder, Provide, Provided, Reason,
    Tasks, handlers, parse_duration, parse_integer, swap,
};
use packet::port::{Device, Link, link_type};
use packet::{Batch, Packet, anno};
use sync::os::reason;
use sync::pipes::{self, Input};
use wire::pcap::{CaptureError, Reader};

use super::device::{described, encapsulation, mark_ip, note_link};
use super::pace::Pace;
use crate::tools::{self, Probability, nanos};

/// The descriptor.
pub const CLASS: Class = Class::new("FromDump", "0/1-2", || Box::new(FromDump::default()))
    .processing("a/ah")
    .serial("one file, read in its order")
    .handlers(handlers! { FromDump:
        read "count" => .count;
        write "reset_counts" => |dump| dump.count = 0;
        both "active" => .active |dump, cx, active: &str| {
            let active = tools::boolean("active", active.trim())?;
            if active && dump.reader.is_none() && dump.count == 0 {
                dump.open_file().map_err(HandlerError::failed)?;
            }
            dump.set_active(cx, active);
        };
        write "stop" => |dump, cx| {
            dump.set_active(cx, false);
            cx.please_stop();
        };
        read "sampling_prob" => .sample;
        read "encap" => |dump| encapsulation(dump.link);
        read "filename" => .filename;
        read "filesize" => |dump| dump.size.map_or("-".to_owned(), |size| size.to_string());
        both "filepos" => |dump| dump.position(), |dump, text: &str| {
            let at = parse_integer(text.trim()).and_then(|n| u64::try_from(n).ok());
            let at = at.ok_or_else(|| HandlerError::bad_value("filepos", text.trim(), "a number of bytes"))?;
            dump.seek(at).map_err(HandlerError::failed)?;
        };
        read "packet_filepos" => .last_at;
        write "extend_interval" => |dump, cx, text: &str| {
            let more = parse_duration(text.trim());
            let more = more.ok_or_else(|| HandlerError::bad_value("extend_interval", text.trim(), "a time"))?;
            if let Bound::At(end) | Bound::AfterFirst(end) | Bound::AfterStart(end) = &mut dump.end {
                *end = end.saturating_add(nanos(more));
                dump.set_active(cx, true);
            }
        };
        write "reset_timing" => |dump| dump.pace.reset();
    })
    .hot_swap::<FromDump>()
    .packet_holder::<FromDump>()
    .provide::<FromDump>()
    .file(file!());

/// What others may know of where an element's packets come from, or go to.
pub struct Encap {
    /// What they begin with, for elements that write them to files.
    pub link_type: AtomicU32,
    /// Whether the link is up by which they come, for elements that choose between links. Files and sources always are.
    pub up: AtomicBool,
    /// Bytes of the longest packet on the device's link, as it was seen last; 0 where that never changes.
    mtu: AtomicUsize,
    device: Option<Arc<dyn Device>>,
}

impl Encap {
    /// Packets that begin so, from a link that is up.
    pub fn new(link_type: u32) -> Encap {
        let (up, mtu) = (AtomicBool::new(true), AtomicUsize::new(0));
        Encap { link_type: AtomicU32::new(link_type), up, mtu, device: None }
    }

    /// Packets of a device.
    pub fn of(device: &Arc<dyn Device>) -> Encap {
        let up = AtomicBool::new(device.link() == Link::Up);
        let encap = Encap { up, device: Some(device.clone()), ..Encap::new(device.link_type()) };
        encap.look_at_mtu();
        encap
    }

    /// Whether the device's link is up at this moment.
    pub fn is_up(&self) -> bool {
        self.device.as_ref().is_none_or(|device| device.link() == Link::Up)
    }

    /// How often the device's link was lost, for elements that forget what they learnt behind it; `None` where it never is.
    pub fn breaks(&self) -> Option<u64> {
        self.device.as_ref()?.breaks()
    }

    /// Bytes of the longest packet that the device's link carries, as it was seen last; `None` where that never changes.
    #[inline]
    pub fn mtu(&self) -> Option<usize> {
        Some(self.mtu.load(Ordering::Relaxed)).filter(|mtu| *mtu != 0)
    }

    /// The device of the element `name`, which an argument names. Elements that have one are `such_as`.
    ///
    /// # Errors
    /// It has none, or is not there.
    pub(crate) fn find(
        cx: &mut InitCx<'_>,
        argument: &str,
        name: &str,
        such_as: &str,
    ) -> Result<Arc<Encap>, String> {
        cx.find::<Encap>(name)
            .ok_or_else(|| format!("{argument}: '{name}' is not an element with a device, as {such_as} are"))
    }

    /// IP addresses that the kernel has on the device at this moment; `None` where nobody else changes them.
    pub fn addresses(&self) -> Option<Vec<(IpAddr, u8)>> {
        self.device.as_ref()?.addresses()
    }

    /// Sees how long packets may be now. A link that has vanished keeps what it had.
    pub fn look_at_mtu(&self) {
        if let Some(mtu) = self.device.as_ref().and_then(|device| device.mtu()) {
            self.mtu.store(mtu, Ordering::Relaxed);
        }
    }
}

impl Default for Encap {
    fn default() -> Self {
        Encap::new(link_type::ETHERNET)
    }
}

/// Link types of a file that are complained of at most.
const REFUSALS: usize = 16;

/// A time in the file, once its first packet is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Bound {
    #[default]
    None,
    /// Nanoseconds since the epoch.
    At(u64),
    /// Nanoseconds after the file's first packet.
    AfterFirst(u64),
    /// Nanoseconds after the first packet sent.
    AfterStart(u64),
}

impl Bound {
    fn absolute(self, first: u64, start: u64) -> Bound {
        match self {
            Bound::AfterFirst(ns) => Bound::At(first.saturating_add(ns)),
            Bound::AfterStart(ns) => Bound::At(start.saturating_add(ns)),
            other => other,
        }
    }
}

#[derive(Default)]
struct FromDump {
    filename: String,
    timing: bool,
    stop: bool,
    active: bool,
    sample: f64,
    force_ip: bool,
    /// Whether packets that are not IP have an output.
    others: bool,
    /// Link types that were refused.
    refused: Vec<u32>,
    start: Bound,
    end: Bound,
    end_call: Option<(String, String)>,
    begin_at: u64,
    pushes: bool,
    reader: Option<Reader>,
    size: Option<u64>,
    encap: Arc<Encap>,
    link: u32,
    bytes: Vec<u8>,
    /// Whether the first packet has fixed the bounds.
    dated: bool,
    pace: Pace,
    waiting: Option<Packet>,
    waiting_at: u64,
    last_at: u64,
    count: u64,
    ended: bool,
    /// Reads on where the element of the configuration before this one stops.
    inherits: bool,
}

enum Next {
    Packet(Packet),
    Later,
    End,
}

impl FromDump {
    fn stream(&self) -> std::io::Result<Box<dyn Read + Send>> {
        if self.filename == "-" {
            return Ok(Box::new(BufReader::new(std::io::stdin())));
        }
        let mut input = pipes::open(Path::new(&self.filename), pipes::PATIENCE)?;
        let file = input.file();
        file.seek(SeekFrom::Start(0))
            .or_else(|e| if e.kind() == std::io::ErrorKind::NotSeekable { Ok(0) } else { Err(e) })?;
        Ok(Box::new(BufReader::with_capacity(1 << 18, input)))
    }

    fn explain(&self, error: &CaptureError) -> String {
        let text = match error {
            CaptureError::Io(e) => reason(e),
            other => other.to_string(),
        };
        let name = if self.filename == "-" { "<stdin>" } else { &self.filename };
        format!("{name}: {text}")
    }

    fn open_file(&mut self) -> Result<(), String> {
        let io = |this: &FromDump, e: std::io::Error| this.explain(&CaptureError::Io(e));
        let stream = self.stream().map_err(|e| io(self, e))?;
        let mut reader = Reader::new(stream).map_err(|e| self.explain(&e))?;
        self.link = reader.link_type().map_err(|e| self.explain(&e))?;
        let reader_is_uniform = reader.is_uniform();
        self.size = std::fs::metadata(&self.filename).ok().filter(|m| m.is_file()).map(|m| m.len());
        self.encap.link_type.store(self.link, Ordering::Relaxed);
        self.reader = Some(reader);
        self.force_ip |= self.link == link_type::RAW;
        if self.force_ip && !self.others && reader_is_uniform && !wire::link::is_known(self.link) {
            return Err(self.refusal(self.link));
        }
        if self.begin_at > 0 {
            self.seek(self.begin_at)?;
        }
        Ok(())
    }

    /// Goes on at another place of the file.
    fn seek(&mut self, at: u64) -> Result<(), String> {
        let open = || -> std::io::Result<Input> {
            let mut input = pipes::open(Path::new(&self.filename), Duration::ZERO)?;
            input.file().seek(SeekFrom::Start(at))?;
            Ok(input)
        };
        let file = open().map_err(|e| self.explain(&CaptureError::Io(e)))?;
        if let Some(reader) = &mut self.reader {
            reader.resume(BufReader::with_capacity(1 << 18, file), at);
        }
        (self.waiting, self.ended) = (None, false);
        Ok(())
    }

    fn position(&self) -> u64 {
        let at = self.reader.as_ref().map_or(self.size.unwrap_or(0), Reader::position);
        if self.waiting.is_some() { self.waiting_at } else { at }
    }

    /// Reads the next packet that may be sent.
    fn read_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let reader = self.reader.as_mut()?;
            self.waiting_at = reader.position();
            let record = match reader.next(&mut self.bytes) {
                Ok(Some(record)) => record,
                Ok(None) => return None,
                Err(e) => {
                    cx.print(&format!("{}: {}", cx.name(), self.explain(&e)));
                    self.reader = None;
                    return None;
                }
            };
            let time = record.timestamp_ns;
            if !std::mem::replace(&mut self.dated, true) {
                self.start = self.start.absolute(time, time);
                let start = if let Bound::At(start) = self.start { start } else { time };
                self.end = self.end.absolute(time, start);
            }
            if matches!(self.start, Bound::At(start) if time < start) {
                continue;
            }
            self.start = Bound::None;
            if matches!(self.end, Bound::At(end) if time >= end) {
                self.seek_back();
                return None;
            }
            if self.sample < 1.0 && cx.random().f64() >= self.sample {
                continue;
            }
            cx.made(1);
            let Some(mut packet) = Packet::copy_of(&self.bytes) else {
                cx.count_drops(Reason::NoMemory, 1);
                continue;
            };
            packet.set_timestamp_ns(time);
            packet.set_mac_offset(0);
            note_link(&mut packet, record.link_type);
            if record.wire_len > record.captured {
                packet.set_anno_u32(anno::EXTRA_LENGTH, (record.wire_len - record.captured) as u32);
            }
            if self.force_ip && !mark_ip(&mut packet, record.link_type) {
                self.complain(cx, record.link_type);
                cx.push_one_or_drop(1, packet, Reason::BadProtocol);
                continue;
            }
            return Some(packet);
        }
    }

    /// What to say of packets in which no IP packet can be found.
    fn refusal(&self, link: u32) -> String {
        let (file, kind) = (&self.filename, described(link));
        format!("{file}: nothing is known of IP in packets of {kind}; FORCE_IP false reads them as they are")
    }

    /// Says once of each such link type that its packets are refused.
    fn complain(&mut self, cx: &Cx<'_>, link: u32) {
        let unknown = !wire::link::is_known(link) && !self.refused.contains(&link);
        if unknown && self.refused.len() < REFUSALS {
            self.refused.push(link);
            cx.print(&format!("{}: {}", cx.name(), self.refusal(link)));
        }
    }

    /// The packet that ended the interval is read again should the interval be extended.
    fn seek_back(&mut self) {
        let at = self.waiting_at;
        if self.size.is_some() && self.seek(at).is_err() {
            self.reader = None;
        }
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Next {
        let Some(packet) = self.waiting.take().or_else(|| self.read_packet(cx)) else { return Next::End };
        if self.timing && self.pace.early(cx, packet.timestamp_ns()) {
            self.waiting = Some(packet);
            return Next::Later;
        }
        self.count += 1;
        self.last_at = self.waiting_at;
        Next::Packet(packet)
    }

    fn fill(&mut self, cx: &mut Cx<'_>, max: usize) -> Batch {
        let mut batch = Batch::new();
        while batch.len() < max {
            match self.next(cx) {
                Next::Packet(packet) => batch.push(packet),
                Next::Later => break,
                Next::End => {
                    // The end counts when nothing came before it, so that others get their turn with what did.
                    if batch.is_empty() {
                        self.end(cx);
                    }
                    break;
                }
            }
        }
        batch
    }

    fn end(&mut self, cx: &mut Cx<'_>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        cx.unschedule();
        self.active = false;
        let (call, stop) = (self.end_call.clone(), self.stop);
        tools::ended(cx, self, call, stop);
    }

    fn set_active(&mut self, cx: &mut Cx<'_>, active: bool) {
        self.active = active;
        if active && self.pushes {
            self.ended = false;
            cx.schedule();
        } else {
            cx.unschedule();
        }
    }
}

impl Element for FromDump {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.filename = args.required("FILENAME");
        self.timing = args.positional("TIMING", false);
        self.stop = args.keyword("STOP", false);
        self.active = args.keyword("ACTIVE", true);
        self.force_ip = args.keyword("FORCE_IP", false);
        self.others = args.noutputs > 1;
        self.begin_at = args.keyword("FILEPOS", 0);
        let _: bool = args.keyword("MMAP", false);
        self.pushes = !args.output_is_pull(0);
        self.sample = args.keyword("SAMPLE", Probability(1.0)).0;
        let start = args.keyword_opt("START").map(|t| Bound::At(nanos(t)));
        let after = args.keyword_opt("START_AFTER").map(|t| Bound::AfterFirst(nanos(t)));
        if start.is_some() && after.is_some() {
            args.error("START and START_AFTER exclude each other");
        }
        self.start = start.or(after).unwrap_or_default();
        let ends = [
            args.keyword_opt("END").map(|t| Bound::At(nanos(t))),
            args.keyword_opt("END_AFTER").map(|t| Bound::AfterFirst(nanos(t))),
            args.keyword_opt("INTERVAL").map(|t| Bound::AfterStart(nanos(t))),
        ];
        let ends: Vec<Bound> = ends.into_iter().flatten().collect();
        if ends.len() > 1 {
            args.error("END, END_AFTER and INTERVAL exclude each other");
        }
        self.end = ends.first().copied().unwrap_or_default();
        self.end_call = tools::call(args, "END_CALL");
        if self.end_call.is_some() && self.stop {
            args.error("END_CALL and STOP exclude each other");
        }
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        self.inherits = cx.inherits();
        if self.inherits {
            return Ok(Tasks::One);
        }
        // Reading begins with the element's work: an inactive one touches its file only when it is started.
        if self.active && !cx.is_dry() {
            self.open_file()?;
        }
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if self.pushes && self.active {
            cx.schedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let ended = self.ended;
        let batch = self.fill(cx, cx.burst());
        // The end is work, too: no time passes before the driver has heard of it.
        let any = !batch.is_empty() || self.ended != ended;
        cx.push(0, batch);
        any
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        if self.active { self.fill(cx, max) } else { Batch::new() }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        if self.active && self.pushes {
            cx.schedule();
        }
    }
}

impl Provide for FromDump {
    fn provide(&self) -> Option<Provided> {
        Some(self.encap.clone())
    }
}

impl PacketHolder for FromDump {
    fn held(&self) -> usize {
        usize::from(self.waiting.is_some())
    }
}

impl HotSwap for FromDump {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<FromDump>(old).filter(|_| self.inherits) else { return false };
        let (encap, active) = (self.encap.clone(), self.active);
        *self = std::mem::take(old);
        encap.link_type.store(self.encap.link_type.load(Ordering::Relaxed), Ordering::Relaxed);
        self.encap = encap;
        if active
            && self.reader.is_none()
            && self.count == 0
            && let Err(why) = self.open_file()
        {
            cx.print(&format!("{}: {why}", cx.name()));
        }
        let ended = self.ended;
        self.set_active(cx, active && !ended);
        self.ended = ended;
        true
    }
}

#[cfg(test)]
mod tests {
    use engine::clock::SIMULATION_EPOCH;
    use std::fs::File;
    use wire::pcap::{Format, Writer};

    use super::*;
    use crate::io::testing::Temp;
    use crate::testing::{Rig, Run};

    /// Packets `[i, 0, 0 ...]` captured at `times` tenths of a second, one byte of each cut off.
    fn dump(temp: &Temp, times: &[u64], link: u32) -> String {
        let path = temp.path("dump");
        let mut writer = Writer::new(File::create(&path).unwrap(), Format::Pcap, link, 0).unwrap();
        for (i, time) in times.iter().enumerate() {
            writer.write(time * 100_000_000, 5, &[i as u8, 0, 0, 0]).unwrap();
        }
        writer.flush().unwrap();
        path
    }

    fn run(path: &str, args: &str, burst: usize) -> Run {
        Rig::text(&format!("e :: FromDump({path}, {args}) -> o :: TestOut;")).burst(burst).run()
    }

    fn firsts(run: &Run) -> Vec<u8> {
        run.out("o").iter().map(|p| p.data()[0]).collect()
    }

    #[test]
    fn reads_packets_with_all_that_is_known_of_them() {
        let temp = Temp::new();
        let path = dump(&temp, &[10, 11, 12], 1);
        for burst in [1, 32] {
            let mut run = run(&path, "STOP true", burst);
            let got: Vec<_> = run
                .out("o")
                .iter()
                .map(|p| (p.data().to_vec(), p.timestamp_ns(), p.anno_u32(anno::EXTRA_LENGTH)))
                .collect();
            let want = |i: u8| (vec![i, 0, 0, 0], 1_000_000_000 + u64::from(i) * 100_000_000, 1);
            assert_eq!(got, [want(0), want(1), want(2)]);
            for (handler, want) in [
                ("count", "3"),
                ("encap", "ETHER"),
                ("filesize", "84"),
                ("filepos", "84"),
                ("active", "false"),
            ] {
                assert_eq!(run.read(&format!("e.{handler}")), want, "{handler}");
            }
            assert_eq!(run.read("e.packet_filepos"), "64");
        }
    }

    const IP: [u8; 20] = [0x45, 0, 0, 20, 0, 7, 0, 0, 64, 253, 0, 0, 10, 1, 2, 3, 10, 4, 5, 6];

    /// A pcapng file of packets with these link types and headers, each before the same IP packet.
    fn mixed(temp: &Temp, packets: &[(u32, &[u8])]) -> String {
        let path = temp.path("mixed");
        let mut writer = Writer::new(File::create(&path).unwrap(), Format::PcapNg, 1, 0).unwrap();
        for (link, header) in packets {
            let bytes = [header, &IP[..]].concat();
            writer.write_as(*link, 1_000_000_000, bytes.len(), &bytes).unwrap();
        }
        writer.flush().unwrap();
        path
    }

    const MIXED: [(u32, &[u8]); 5] = [
        (1, b"ddddddssssss\x08\0"),
        (9, &[0xff, 3, 0, 0x21]),
        (147, b"whatever"),
        (276, &[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]),
        (147, b"again"),
    ];

    #[test]
    fn ip_packets_of_several_link_types() {
        let temp = Temp::new();
        let path = mixed(&temp, &MIXED);
        let run = run(&path, "STOP true, FORCE_IP true", 32);
        let found: Vec<Vec<u8>> = run.out("o").iter().map(|p| p.network().unwrap().to_vec()).collect();
        assert_eq!(found, [IP, IP, IP]);
        assert_eq!(run.drops("e"), [(Reason::BadProtocol, 2)]);
        let said = run.printed();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("link type 147 (USER0)"), "{said}");
    }

    #[test]
    fn a_file_without_ip_packets_is_refused_by_name() {
        let temp = Temp::new();
        let path = dump(&temp, &[10], 147);
        let text =
            |more: &str| format!("e :: FromDump({path}, STOP true, FORCE_IP true) -> o :: TestOut; {more}");
        let said = Rig::text(&text("")).errors().join("");
        assert!(said.contains("link type 147 (USER0)") && said.contains("FORCE_IP false"), "{said}");
        // Who has a way for other packets gets them there.
        let run = Rig::text(&text("e[1] -> n :: TestOut;")).run();
        assert_eq!((run.out("o").len(), run.out("n").len()), (0, 1));
    }

    /// Link type and bytes of the packets in a file.
    fn links(path: &str) -> Vec<(u32, Vec<u8>)> {
        let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
        let (mut all, mut bytes) = (Vec::new(), Vec::new());
        while let Some(record) = reader.next(&mut bytes).unwrap() {
            all.push((record.link_type, bytes.clone()));
        }
        all
    }

    #[test]
    fn packets_are_written_back_with_their_link_types() {
        let temp = Temp::new();
        let (path, back) = (mixed(&temp, &MIXED), temp.path("back"));
        for args in ["", ", USE_ENCAP_FROM e"] {
            let write = |format: &str, between: &str| {
                let text = format!(
                    "e :: FromDump({path}, STOP true) -> {between} t :: ToDump({back}, FORMAT {format}{args});"
                );
                let run = Rig::text(&text).run();
                run.printed()
            };
            assert_eq!(write("pcapng", ""), "");
            assert_eq!(links(&back), links(&path), "{args}");
            // A pcap file has the link type of its first packet; of others it is said that they are missing.
            let said = write("pcap", "");
            assert!(said.contains("pcap file holds one link type"), "{said}");
            assert_eq!(links(&back), links(&path)[..1], "{args}");
            // What has another beginning now is what it was said to be, or Ethernet.
            write("pcapng", "Strip(4) -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) ->");
            assert!(links(&back).iter().all(|(link, _)| *link == 1), "{args}");
        }
        let ppp = mixed(&temp, &[(9, &[0xff, 3, 0, 0x21])]);
        let text = |encap: &str| format!("FromDump({ppp}, STOP true) -> ToDump({back}{encap});");
        drop(Rig::text(&text("")).run());
        assert_eq!(links(&back)[0].0, 9);
        drop(Rig::text(&text(", ENCAP IP")).run());
        assert_eq!(links(&back)[0].0, 101);
    }

    #[test]
    fn bounds() {
        let temp = Temp::new();
        let path = dump(&temp, &[10, 20, 30, 40, 50], 1);
        for (args, want) in [
            ("START 2", &[1, 2, 3, 4][..]),
            ("START_AFTER 1.5", &[2, 3, 4]),
            ("END 3", &[0, 1]),
            ("END_AFTER 2", &[0, 1]),
            ("START 2, INTERVAL 2s", &[1, 2]),
            ("FILEPOS 44", &[1, 2, 3, 4]),
        ] {
            assert_eq!(firsts(&run(&path, args, 32)), want, "{args}");
        }
        let mut run = run(&path, "END 3", 32);
        run.out("o");
        run.write("e.extend_interval", "1s").unwrap();
        let mut run = run.again();
        assert_eq!(firsts(&run), [2]);
        run.write("e.filepos", "24").unwrap();
        run.write("e.active", "true").unwrap();
        assert_eq!(firsts(&run.again()), [0, 1, 2]);
    }

    #[test]
    fn keeps_time_and_calls_at_the_end() {
        let temp = Temp::new();
        let path = dump(&temp, &[10, 12, 35], 1);
        let text =
            format!("e :: FromDump({path}, TIMING true, END_CALL c.reset) -> c :: Counter -> o :: TestOut;");
        let mut run = Rig::text(&text).run();
        let elapsed = run.read("time").parse::<f64>().unwrap() - SIMULATION_EPOCH as f64 / 1e9;
        assert_eq!((elapsed, run.read("c.count").as_str(), firsts(&run)), (2.5, "0", vec![0, 1, 2]));
    }

    #[test]
    fn only_ip_when_asked_or_when_raw() {
        let temp = Temp::new();
        let path = temp.path("raw");
        let mut ip = [0u8; 20];
        (ip[0], ip[3], ip[19]) = (0x45, 20, 9);
        let mut writer = Writer::new(File::create(&path).unwrap(), Format::PcapNg, 101, 0).unwrap();
        writer.write(1, 20, &ip).unwrap();
        writer.write(2, 3, b"bad").unwrap();
        writer.flush().unwrap();
        let text = format!("e :: FromDump({path}) -> o :: TestOut; e[1] -> bad :: TestOut;");
        let run = Rig::text(&text).run();
        let got: Vec<_> = run.out("o").iter().map(|p| (p.network_offset(), p.dst_ip())).collect();
        assert_eq!((got, run.bytes("bad")), (vec![(Some(0), [0, 0, 0, 9])], vec![b"bad".to_vec()]));
        assert_eq!(super::tests::run(&path, "", 1).drops("e"), [(Reason::BadProtocol, 1)]);
    }

    #[test]
    fn damage_and_errors_are_told() {
        let temp = Temp::new();
        let path = dump(&temp, &[1, 2], 1);
        let bytes = std::fs::read(&path).unwrap();
        let cut = temp.file("cut", &bytes[..60]);
        let run = run(&cut, "", 32);
        assert_eq!(firsts(&run), [0]);
        assert!(run.printed().contains("truncated"), "{}", run.printed());
        let error = |args: &str| Rig::text(&format!("e :: FromDump({args}) -> Discard;")).errors();
        assert_eq!(error("/nonexistent"), ["'e' could not open: /nonexistent: No such file or directory"]);
        let other = temp.file("other", "this is no capture file");
        assert!(error(&other)[0].contains("not a pcap or pcapng file"), "{:?}", error(&other));
        assert_eq!(error("x, START 1, START_AFTER 2"), ["e: START and START_AFTER exclude each other"]);
        assert_eq!(error("x, STOP true, END_CALL a.b"), ["e: END_CALL and STOP exclude each other"]);
    }
}
