// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ToDump
//!
//! `ToDump(FILENAME [, keywords SNAPLEN, ENCAP, USE_ENCAP_FROM, EXTRA_LENGTH, UNBUFFERED, NANO, FORMAT])`
//!
//! Writes packets to a capture file that tcpdump, Wireshark and FromDump read.
//!
//! **Ports:** 1 input, agnostic. 1 optional output, which passes the packets on; without it, and with a pull input,
//! the element fetches packets itself.
//!
//! **Arguments**
//! * `FILENAME` the file to write; `-` is standard output. Only its owner may read it (mode 0600), and a symbolic link is not
//!   followed.
//! * `SNAPLEN` bytes of each packet to keep at most, default 2000; 0 keeps whole packets.
//! * `ENCAP` what packets begin with: `ETHER`, `IP`, `SLL`, `SLL2`, `NULL`, `PPP`, `FDDI`, `802_11` ... or a number of the
//!   tcpdump registry. By default packets of FromDump that still begin as they came have their own link type, and all
//!   others are Ethernet.
//! * `USE_ENCAP_FROM` names of elements (FromDump, FromDevice, FromIPSummaryDump) whose packets are written; they must
//!   agree.
//! * `EXTRA_LENGTH` boolean, default true: the length on the wire counts bytes that were cut off before.
//! * `UNBUFFERED` boolean, default false: write out each batch at once.
//! * `NANO` boolean, default true: times in nanoseconds rather than microseconds.
//! * `FORMAT` `pcap` (default) or `pcapng`.
//!
//! A pcapng file gets one interface for each link type. A pcap file has but one, that of its first packet: packets of others
//! are not written, which is said once.
//!
//! Packets without a timestamp are written with the time of writing.
//!
//! **Cores:** one file, one writer at a time.
//!
//! **Drops:** `discarded` when no output is connected.
//!
//! **Handlers**
//! * `count` read: packets written. `reset_counts` write: sets it to zero.
//! * `filename` read. `flush` write: hands what is buffered to the operating system.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> ToDump(/dev/null, SNAPLEN 64);
//! ```
//!
//! See also: FromDump, ToIPSummaryDump, ToDevice

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::args::{Args, Raw};
use element::swap::Count;
use element::{
    Class, Cx, Element, HandlerError, HotSwap, InitCx, LockUse, Locking, OpenCx, Reason, Rehearsal,
    Rehearsed, Tasks, When, handlers, swap,
};
use packet::port::link_type;
use packet::{Batch, Packet, anno};
use sync::lock::{AdaptiveLock, How};
use wire::pcap::{Format, Writer};

use super::device::{described, encapsulation, link_of, parse_encapsulation};

use super::files::{self, Output, Target};
use super::from_dump::Encap;

/// The descriptor.
pub const CLASS: Class = Class::new("ToDump", "1/0-1", || Box::new(ToDump::default()))
    .serial("one file, written in one order")
    .handlers(handlers! { ToDump:
        read "count" => .count;
        write "reset_counts" => |dump| dump.count.reset();
        read "filename" => .target.name;
        write "flush" => |dump| dump.flush()?;
    })
    .hot_swap::<ToDump>()
    .locking::<ToDump>()
    .rehearsal::<ToDump>()
    .file(file!());

/// The output as the writer of the format sees it.
struct Shared(Arc<AdaptiveLock<Output>>);

impl Shared {
    fn with<R>(&self, f: impl FnOnce(&mut Output) -> R) -> R {
        f(&mut self.0.lock())
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|o| o.buffer().extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(Output::flush)
    }
}

#[derive(Default)]
struct ToDump {
    target: Target,
    snaplen: usize,
    encap: Option<u32>,
    encap_from: Vec<String>,
    extra_length: bool,
    unbuffered: bool,
    format: Format,
    /// It has no output and a pull input.
    fetches: bool,
    output: Option<Arc<AdaptiveLock<Output>>>,
    /// Made for the first packet, whose link type a pcap file has.
    writer: Option<Writer>,
    /// The link type of packets that do not say theirs.
    link: u32,
    refused: bool,
    count: Count,
}

impl ToDump {
    fn link_type(&self, cx: &mut InitCx<'_>) -> Result<u32, String> {
        let mut found: Option<(u32, &String)> = None;
        for name in &self.encap_from {
            let encap = cx.find::<Encap>(name);
            let encap = encap.ok_or_else(|| {
                format!("USE_ENCAP_FROM: '{name}' does not know its packets' encapsulation")
            })?;
            let encap = encap.link_type.load(Ordering::Relaxed);
            match found {
                Some((other, first)) if other != encap => {
                    let (a, b) = (encapsulation(other), encapsulation(encap));
                    return Err(format!("USE_ENCAP_FROM: '{first}' has {a} packets, but '{name}' {b}"));
                }
                _ => found = Some((encap, name)),
            }
        }
        Ok(found.map(|f| f.0).or(self.encap).unwrap_or(link_type::ETHERNET))
    }

    /// Begins the file, which is one of packets of this link type unless it may have several.
    fn begin(&mut self, link: u32) -> io::Result<()> {
        if let (None, Some(output)) = (&self.writer, &self.output) {
            self.writer = Some(Writer::new(Shared(output.clone()), self.format, link, self.snaplen)?);
        }
        Ok(())
    }

    /// Says once that packets are left out.
    #[cold]
    fn refuse(&mut self, cx: &Cx<'_>, link: u32) {
        if !std::mem::replace(&mut self.refused, true) {
            let (name, file, kind) = (cx.name(), &self.target.name, described(link));
            cx.print(&format!(
                "{name}: {file}: packets of {kind} are not written, for a pcap file holds one link type; FORMAT pcapng holds several"
            ));
        }
    }

    fn write_batch(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        let (encap, default) = (self.encap, self.link);
        let link = |packet: &Packet| match encap {
            Some(_) => default,
            None => link_of(packet).unwrap_or(default),
        };
        let Some(first) = batch.iter().next().map(link) else { return };
        if let Err(e) = self.begin(first) {
            return self.target.check(cx, Err(e));
        }
        let mut done = Ok(());
        let mut left_out = None;
        let mut written = 0;
        let (Some(writer), Some(output)) = (&mut self.writer, &self.output) else { return };
        for packet in batch.iter() {
            let link = link(packet);
            let time = match packet.timestamp_ns() {
                0 => cx.wall(),
                time => time,
            };
            let extra = if self.extra_length { packet.anno_u32(anno::EXTRA_LENGTH) as usize } else { 0 };
            match writer.write_as(link, time, packet.len() + extra, packet.data()) {
                Ok(true) => written += 1,
                Ok(false) => left_out = Some(link),
                Err(e) => done = done.and(Err(e)),
            }
        }
        done = done.and(output.lock().wrote());
        self.count += written;
        self.target.check(cx, done);
        if let Some(link) = left_out {
            self.refuse(cx, link);
        }
    }
}

impl ToDump {
    fn flush(&mut self) -> Result<(), HandlerError> {
        let flushed = self.begin(self.link).and_then(|()| self.writer.as_mut().map_or(Ok(()), Writer::flush));
        self.target.answer(flushed)
    }
}

impl Element for ToDump {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.target.name = args.required("FILENAME");
        self.snaplen = args.keyword("SNAPLEN", 2000);
        self.extra_length = args.keyword("EXTRA_LENGTH", true);
        self.unbuffered = args.keyword("UNBUFFERED", false);
        self.format = if args.keyword("NANO", true) { Format::PcapNano } else { Format::Pcap };
        match args.keyword_opt::<String>("FORMAT").map(|f| f.to_ascii_lowercase()).as_deref() {
            None | Some("pcap") => {}
            Some("pcapng") => self.format = Format::PcapNg,
            Some(other) => args.error(format!("FORMAT should be pcap or pcapng, not '{other}'")),
        }
        if let Some(encap) = args.keyword_opt::<String>("ENCAP") {
            self.encap = parse_encapsulation(&encap);
            if self.encap.is_none() {
                args.error(format!("ENCAP '{encap}' is not known; use ETHER, IP, SLL, NULL ... or a number"));
            }
        }
        if let Some(Raw(names)) = args.keyword_opt("USE_ENCAP_FROM") {
            self.encap_from = lang::config::split_words(&names).into_iter().map(str::to_owned).collect();
            if self.encap.is_some() {
                args.error("ENCAP and USE_ENCAP_FROM exclude each other");
            }
        }
        self.fetches = args.input_is_pull(0) && args.noutputs == 0;
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        // The file of one that this one replaces goes on, see `take_state`.
        if !cx.inherits() && !cx.is_dry() {
            let output = Output::create(&self.target.name, self.unbuffered)?;
            self.output = Some(Arc::new(AdaptiveLock::new(output)));
        }
        Ok(if self.fetches { Tasks::One } else { Tasks::None })
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.link = self.link_type(cx)?;
        if self.fetches {
            cx.schedule();
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        self.write_batch(cx, &batch);
        batch
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        self.write_batch(cx, &batch);
        cx.push_or_drop(0, batch, Reason::Discarded);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        files::fetch(self, cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        let done = self.begin(self.link).and_then(|()| self.writer.as_mut().map_or(Ok(()), Writer::flush));
        self.target.check(cx, done);
        (self.writer, self.output) = (None, None);
    }
}

impl Rehearsal for ToDump {
    fn rehearse(&mut self, cx: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        self.target.rehearse(cx, packet)
    }
}

impl Locking for ToDump {
    fn locks(&self) -> Vec<LockUse> {
        vec![LockUse::new(
            How::Adaptive,
            "the file",
            When::EachBatch,
            "records are written one after the other",
        )]
    }
}

impl HotSwap for ToDump {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<ToDump>(old) else { return false };
        self.count.take(&mut old.count);
        if self.output.is_none() {
            // Of one file there is one header: the old element has neither from now on.
            (self.output, self.writer) = (old.output.take(), old.writer.take());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use packet::Packet;
    use wire::pcap::Reader;

    use super::*;
    use crate::io::testing::Temp;
    use crate::testing::Rig;

    /// Time, length on the wire and bytes of the packets in a file, and its link type.
    fn content(path: &str) -> (u32, Vec<(u64, usize, Vec<u8>)>) {
        let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
        let link = reader.link_type().unwrap();
        let (mut all, mut bytes) = (Vec::new(), Vec::new());
        while let Some(record) = reader.next(&mut bytes).unwrap() {
            all.push((record.timestamp_ns, record.wire_len, bytes.clone()));
        }
        (link, all)
    }

    fn packet(bytes: &[u8], time: u64, extra: u32) -> Packet {
        let mut packet = Packet::copy_of(bytes).unwrap();
        packet.set_timestamp_ns(time);
        packet.set_anno_u32(anno::EXTRA_LENGTH, extra);
        packet
    }

    #[test]
    fn only_the_owner_reads_what_it_writes() {
        use std::os::unix::fs::PermissionsExt as _;
        let temp = Temp::new();
        let (path, link) = (temp.path("out"), temp.path("link"));
        // What lies there already, for others to read, is made private.
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        Rig::new(&format!("ToDump({path})")).inputs(&[b"a"]).run();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let before = std::fs::read(&path).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let errors = Rig::new(&format!("ToDump({link})")).errors();
        assert!(errors[0].contains("symbolic link"), "{errors:?}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn writes_what_a_reader_reads() {
        let temp = Temp::new();
        let path = temp.path("out");
        let full = |len| vec![(1_000_000_001, len, b"abcd".to_vec()), (2_000_000_000, 2, b"xy".to_vec())];
        let short = vec![(1_000_000_001, 9, b"abc".to_vec()), (2_000_000_000, 2, b"xy".to_vec())];
        let mut micro = full(9);
        micro[0].0 = 1_000_000_000;
        for (args, link, want) in [
            ("", 1, full(9)),
            ("ENCAP IP, SNAPLEN 3", 101, short),
            ("EXTRA_LENGTH false, ENCAP 147", 147, full(4)),
            ("NANO false", 1, micro),
            ("FORMAT pcapng, SNAPLEN 0, UNBUFFERED true", 1, full(9)),
        ] {
            for burst in [1, 32] {
                let packets = vec![packet(b"abcd", 1_000_000_001, 5), packet(b"xy", 2_000_000_000, 0)];
                let rig = Rig::new(&format!("ToDump({path}, {args})")).burst(burst).packets(packets);
                drop(rig.run());
                assert_eq!(content(&path), (link, want.clone()), "{args}");
            }
        }
    }

    #[test]
    fn works_in_pull_paths_and_takes_the_encapsulation_of_its_source() {
        let temp = Temp::new();
        let (a, b) = (temp.path("a"), temp.path("b"));
        let text = format!("i :: TestIn -> Queue -> e :: ToDump({a}) -> Unqueue -> o :: TestOut;");
        let run = Rig::text(&text).inputs(&[b"1", b"2"]).run();
        assert_eq!(run.bytes("o"), [b"1", b"2"]);
        drop(run);
        assert_eq!(content(&a).1.len(), 2);
        let text = format!("i :: TestIn -> Queue -> e :: ToDump({a}, ENCAP 9);");
        drop(Rig::text(&text).inputs(&[b"1"]).run());
        let text = format!("f :: FromDump({a}) -> e :: ToDump({b}, USE_ENCAP_FROM f);");
        drop(Rig::text(&text).run());
        assert_eq!((content(&b).0, content(&b).1.len()), (9, 1));
    }

    #[test]
    fn a_file_has_one_header_across_swaps() {
        let temp = Temp::new();
        let path = temp.path("out");
        for format in ["pcap", "pcapng"] {
            for before in [0, 1] {
                let text =
                    format!("i :: TestIn -> e :: ToDump({path}, FORMAT {format}); o :: TestOut; Idle -> o;");
                let mut run = Rig::text(&text).run();
                run.give("i", (0..before).map(|_| packet(b"first", 1, 0)).collect());
                run = run.again();
                run.swap(&text).unwrap();
                run.give("i", vec![packet(b"second", 2, 0)]);
                drop(run.again());
                let bytes: Vec<_> = content(&path).1.into_iter().map(|(_, _, bytes)| bytes).collect();
                let want = [&b"first"[..], b"second"];
                assert_eq!(bytes, want[1 - before..], "{format}");
            }
        }
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        let error = |args: &str| Rig::new(&format!("ToDump({args})")).errors();
        assert_eq!(
            error("x, ENCAP foo"),
            ["e: ENCAP 'foo' is not known; use ETHER, IP, SLL, NULL ... or a number"]
        );
        assert_eq!(error("x, FORMAT erf"), ["e: FORMAT should be pcap or pcapng, not 'erf'"]);
        assert_eq!(
            error("/nonexistent/x"),
            ["'e' could not open: /nonexistent/x: No such file or directory"]
        );
        assert_eq!(
            error("/dev/null, USE_ENCAP_FROM i"),
            ["'e' could not start: USE_ENCAP_FROM: 'i' does not know its packets' encapsulation"]
        );
    }
}
