// SPDX-License-Identifier: MIT OR Apache-2.0
//! # FromIPSummaryDump
//!
//! `FromIPSummaryDump([FILENAME, keywords STOP, ACTIVE, TIMING, ZERO, CHECKSUM, PROTO, MULTIPACKET, SAMPLE, FIELDS, FLOWID, ALLOW_NONEXISTENT, DATA])`
//!
//! Makes packets from a text that describes one on each line, such as ToIPSummaryDump writes.
//!
//! **Ports:** 1 output, agnostic: with a pull output it makes packets when asked.
//!
//! **Arguments**
//! * `FILENAME` the file to read; `-` is standard input.
//! * `DATA` the text itself, in place of a file.
//! * `STOP` boolean, default false: asks the driver to stop at the end of the file.
//! * `ACTIVE` boolean, default true.
//! * `TIMING` boolean, default false: keeps the time between packets as their timestamps say.
//! * `ZERO` boolean, default true: what the dump does not say is zero. False makes no promise.
//! * `CHECKSUM` boolean, default false: sets IP, TCP, UDP and ICMP checksums, and gives packets all the bytes that
//!   their IP length says; else the missing ones are counted in the extra length annotation.
//! * `PROTO` IP protocol of packets whose dump does not say, default 6 (TCP).
//! * `MULTIPACKET` boolean, default false: as many packets for a line as its `count` says.
//! * `SAMPLE` probability between 0 and 1 that a packet is sent, default 1.
//! * `FIELDS` columns, unless the file has a `!data` line. `CONTENTS`, `DEFAULT_CONTENTS` and `DEFAULT_FIELDS` are
//!   synonyms. See ToIPSummaryDump for their names.
//! * `FLOWID` `SRC SPORT DST DPORT [PROTO]` for packets whose dump does not say. `DEFAULT_FLOWID` is a synonym.
//! * `ALLOW_NONEXISTENT` boolean, default false: a file that is not there counts as empty.
//!
//! Lines that begin with `!` are instructions: `!data FIELD...` (or `!contents`), `!proto P`, `!flowid ...`,
//! `!aggregate N`, `!binary`; others are passed over, as are those that begin with `#`. On packet lines `-` leaves a
//! field out, and fields missing at the end are left out. Packets are IP version 4, TTL 100, unless the dump says more.
//!
//! **Metadata set:** timestamp, network and transport header, destination address, and what the fields say: paint,
//! aggregate, count, first timestamp, extra length.
//!
//! **Drops:** `parse-error` for lines that say nothing; the first is reported.
//!
//! **Handlers**
//! * `active` read/write: whether it sends. `stop` write: stops sending, and the driver.
//! * `sampling_prob` read: SAMPLE. `encap` read: `IP`. `count` read: packets sent.
//! * `filename`, `filesize`, `filepos` read: the file, its bytes, and how many were read.
//!
//! ```click
//! FromIPSummaryDump(DATA "!data src sport dst dport\n1.0.0.1 10 2.0.0.2 20\n", STOP true) -> Discard;
//! ```
//!
//! See also: ToIPSummaryDump, FromDump

use std::io::{BufRead, BufReader, Cursor, Read};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use element::Policy;
use element::args::{Args, Raw};
use element::{
    Class, Cx, Element, HotSwap, InitCx, OpenCx, PacketHolder, Provide, Provided, Reason, Tasks, handlers,
    parse_integer, swap,
};
use packet::port::link_type;
use packet::{Batch, Packet, anno};
use sync::os::reason;
use sync::pipes;
use wire::Protocol;

use super::from_dump::Encap;
use super::pace::Pace;
use super::summary::inject::{Builder, Defaults, FlowId};
use super::summary::{Field, MAJOR_VERSION, MINOR_VERSION, Width};
use crate::tools::Probability;

/// The descriptor.
pub const CLASS: Class = Class::new("FromIPSummaryDump", "0/1", || Box::new(FromIpSummaryDump::default()))
    .serial("one file, read in its order")
    .handlers(handlers! { FromIpSummaryDump:
        both "active" => .active |dump, cx, active: bool| {
            dump.active = active;
            cx.schedule_if(active && dump.pushes);
        };
        write "stop" => |dump, cx| {
            dump.active = false;
            cx.unschedule();
            cx.please_stop();
        };
        read "sampling_prob" => .sample;
        read "encap" => |_dump| "IP";
        read "count" => .count;
        read "filename" => .input.name;
        read "filesize" => |dump| dump.input.size.map_or("-".to_owned(), |size| size.to_string());
        read "filepos" => .input.at;
    })
    .hot_swap::<FromIpSummaryDump>()
    .packet_holder::<FromIpSummaryDump>()
    .provide::<FromIpSummaryDump>()
    .file(file!());

/// The text, where we are in it, and the line last read.
#[derive(Default)]
struct Input {
    /// For messages.
    name: String,
    stream: Option<Box<dyn BufRead + Send>>,
    size: Option<u64>,
    at: u64,
    line: Vec<u8>,
    number: u64,
    /// The line was looked at, but not used yet.
    peeked: bool,
}

impl Input {
    fn open(name: &str, data: Option<Vec<u8>>) -> std::io::Result<Input> {
        let mut input = Input { name: name.to_owned(), ..Input::default() };
        input.stream = Some(match (data, name) {
            (Some(data), _) => {
                input.name = "<data>".to_owned();
                input.size = Some(data.len() as u64);
                Box::new(Cursor::new(data))
            }
            (None, "-") => {
                input.name = "<stdin>".to_owned();
                Box::new(BufReader::new(std::io::stdin()))
            }
            (None, path) => {
                let mut file = pipes::open(Path::new(path), pipes::PATIENCE)?;
                input.size = file.file().metadata().ok().map(|m| m.len());
                Box::new(BufReader::with_capacity(1 << 16, file))
            }
        });
        Ok(input)
    }

    /// Reads the next line into `line`, without its end; false at the end of the text.
    fn next_line(&mut self) -> std::io::Result<bool> {
        if std::mem::take(&mut self.peeked) {
            return Ok(true);
        }
        self.line.clear();
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let n = stream.read_until(b'\n', &mut self.line)?;
        self.at += n as u64;
        self.number += 1;
        while let Some(b'\n' | b'\r') = self.line.last() {
            self.line.pop();
        }
        Ok(n > 0)
    }

    /// Reads the next binary record into `line`: `Some(true)` when it holds text.
    fn next_record(&mut self) -> std::io::Result<Option<bool>> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let mut head = [0; 4];
        if stream.read_exact(&mut head).is_err() {
            return Ok(None);
        }
        let head = u32::from_be_bytes(head);
        let len = u64::from(head & 0x7fff_ffff);
        self.number += 1;
        self.line.clear();
        let body = len.checked_sub(4).ok_or_else(|| std::io::Error::other("binary record too short"))?;
        stream.by_ref().take(body).read_to_end(&mut self.line)?;
        self.at += len;
        Ok((self.line.len() as u64 == body).then_some(head >> 31 == 1))
    }

    fn message(&self, text: &str) -> String {
        format!("{}:{}: {text}", self.name, self.number)
    }
}

/// A packet that stands for several, while they are sent.
struct Group {
    packet: Packet,
    left: u32,
    /// Length of each but the last.
    len: usize,
    last_extra: usize,
    last_ns: u64,
    step_ns: u64,
}

#[derive(Default)]
struct FromIpSummaryDump {
    filename: Option<String>,
    data: Option<Vec<u8>>,
    stop: bool,
    active: bool,
    timing: bool,
    multipacket: bool,
    sample: f64,
    allow_nonexistent: bool,
    pushes: bool,
    defaults: Defaults,
    input: Input,
    columns: Vec<Option<Field>>,
    /// Columns in the order in which they are applied.
    order: Vec<usize>,
    binary: bool,
    complained: bool,
    builder: Builder,
    group: Option<Group>,
    /// A packet whose time has not come.
    waiting: Option<Packet>,
    pace: Pace,
    count: u64,
    /// A predecessor with this text is where it is in the input, and hands that over.
    inherits: bool,
}

enum Next {
    Packet(Packet),
    /// There will be a packet when the timer expires.
    Later,
    End,
}

impl FromIpSummaryDump {
    fn warn(&self, cx: &Cx<'_>, text: &str) {
        cx.print(&self.input.message(text));
    }

    /// Takes over the columns of a `!data` line; returns the warnings.
    fn set_columns(&mut self, words: &str) -> Vec<String> {
        let mut warnings = Vec::new();
        self.columns.clear();
        for word in lang::config::split_words(words) {
            let word = lang::config::unquote_string(word);
            let field = Field::find(&word).filter(|f| f.order().is_some());
            if field.is_none() {
                warnings.push(match Field::find(&word) {
                    Some(_) => format!("warning: content type '{word}' ignored on input"),
                    None => format!("warning: unknown content type '{word}'"),
                });
            }
            self.columns.push(field.filter(|f| *f != Field::Nothing));
        }
        if self.columns.is_empty() {
            warnings.push("no contents specified".to_owned());
        }
        self.order = (0..self.columns.len()).collect();
        self.order.sort_by_key(|i| self.columns[*i].and_then(Field::order));
        warnings
    }

    /// Obeys a line that begins with an exclamation mark.
    fn instruct(&mut self, cx: &Cx<'_>, line: &str) {
        let (word, rest) = line.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((line, ""));
        let problems = match word {
            "!data" | "!contents" => self.set_columns(rest),
            "!proto" => match parse_protocol(rest.trim()) {
                Some(protocol) => {
                    self.defaults.protocol = protocol;
                    Vec::new()
                }
                None => vec!["bad protocol in !proto".to_owned()],
            },
            "!flowid" => self.set_flow(rest).err().into_iter().collect(),
            "!aggregate" => {
                let number = parse_integer(rest.trim()).and_then(|n| u32::try_from(n).ok());
                self.defaults.aggregate = number;
                if number.is_none() { vec!["bad !aggregate specification".to_owned()] } else { Vec::new() }
            }
            "!binary" => {
                self.binary = true;
                self.input.number = 0;
                Vec::new()
            }
            _ => Vec::new(),
        };
        problems.iter().for_each(|p| self.warn(cx, p));
    }

    fn set_flow(&mut self, words: &str) -> Result<(), String> {
        let bad = || "bad !flowid specification".to_owned();
        let words: Vec<&str> = words.split_ascii_whitespace().collect();
        let [src, sport, dst, dport, rest @ ..] = words.as_slice() else { return Err(bad()) };
        let address = |w: &str| if w == "-" { Some(Ipv4Addr::UNSPECIFIED) } else { w.parse().ok() };
        let port = |w: &str| {
            if w == "-" { Some(0) } else { parse_integer(w).and_then(|n| u16::try_from(n).ok()) }
        };
        let both = address(src).zip(address(dst)).zip(port(sport).zip(port(dport)));
        let ((src, dst), (sport, dport)) = both.ok_or_else(bad)?;
        if let [protocol, ..] = rest {
            self.defaults.protocol = parse_protocol(protocol).ok_or("bad protocol in !flowid")?;
        }
        self.defaults.flow = Some(FlowId { addresses: [src, dst], ports: [sport, dport] });
        Ok(())
    }

    /// Reads lines up to the next packet. `None` at the end.
    fn read_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let mut textual = true;
            let got = if self.binary {
                self.input.next_record().map(|record| match record {
                    Some(text) => {
                        textual = text;
                        true
                    }
                    None => false,
                })
            } else {
                self.input.next_line()
            };
            match got {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    self.warn(cx, &reason(&e));
                    break;
                }
            }
            let line = std::mem::take(&mut self.input.line);
            let packet = if textual { self.text_line(cx, &line) } else { self.record(cx, &line) };
            self.input.line = line;
            if packet.is_some() {
                return packet;
            }
        }
        self.input.stream = None;
        None
    }

    fn text_line(&mut self, cx: &mut Cx<'_>, line: &[u8]) -> Option<Packet> {
        let line = String::from_utf8_lossy(line);
        match line.as_bytes().first() {
            None | Some(b'#') => return None,
            Some(b'!') => {
                self.instruct(cx, &line);
                return None;
            }
            _ => {}
        }
        self.builder.start();
        let words = columns_of(&line, self.columns.len());
        let mut understood = 0;
        for i in &self.order {
            if let (Some(field), Some(word)) = (self.columns[*i], words.get(*i))
                && !matches!(*word, "" | "-")
            {
                understood += usize::from(self.builder.apply_text(field, word, &self.defaults));
            }
        }
        self.complete(cx, understood, line.trim().is_empty())
    }

    fn record(&mut self, cx: &mut Cx<'_>, record: &[u8]) -> Option<Packet> {
        let mut places = Vec::with_capacity(self.columns.len());
        let mut rest = record;
        for column in &self.columns {
            let len = match column.map(Field::width) {
                Some(Width::Bytes(n)) => n,
                Some(Width::Counted) => 1 + rest.first().copied().map_or(0, usize::from),
                _ => rest.len() + 1,
            };
            let place = rest.split_at_checked(len);
            rest = place.map_or(&[], |(_, rest)| rest);
            places.push(place.map(|(value, _)| value));
        }
        self.builder.start();
        let mut understood = 0;
        for i in &self.order {
            if let (Some(field), Some(bytes)) = (self.columns[*i], places[*i]) {
                understood += usize::from(self.builder.apply_binary(field, bytes, &self.defaults));
            }
        }
        self.complete(cx, understood, false)
    }

    fn complete(&mut self, cx: &mut Cx<'_>, understood: usize, blank: bool) -> Option<Packet> {
        if understood > 0 {
            cx.made(1);
            let packet = self.builder.finish(&self.defaults);
            if packet.is_none() {
                cx.count_drops(Reason::NoMemory, 1);
            }
            return packet;
        }
        if !blank {
            cx.made(1);
            cx.count_drops(Reason::ParseError, 1);
            if !std::mem::replace(&mut self.complained, true) {
                let none = self.columns.is_empty();
                self.warn(cx, if none { "no '!data' provided" } else { "packet parse error" });
            }
        }
        None
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Next {
        loop {
            let packet = match (self.waiting.take(), &mut self.group) {
                (Some(packet), _) => packet,
                (None, Some(group)) => match group.next() {
                    Some(packet) => {
                        cx.made(1);
                        packet
                    }
                    None => {
                        cx.took(1);
                        self.group = None;
                        continue;
                    }
                },
                (None, None) => match self.read_packet(cx) {
                    Some(packet) => packet,
                    None => return Next::End,
                },
            };
            if self.multipacket && packet.anno_u32(anno::EXTRA_PACKETS) > 0 {
                self.group = Some(Group::new(packet));
                continue;
            }
            if self.timing && self.pace.early(cx, packet.timestamp_ns()) {
                self.waiting = Some(packet);
                return Next::Later;
            }
            if self.sample >= 1.0 || cx.random().f64() < self.sample {
                self.count += 1;
                return Next::Packet(packet);
            }
            // It is not of the sample.
            cx.took(1);
        }
    }

    fn fill(&mut self, cx: &mut Cx<'_>, max: usize) -> (Batch, bool) {
        let mut batch = Batch::new();
        while batch.len() < max {
            match self.next(cx) {
                Next::Packet(packet) => batch.push(packet),
                Next::Later => return (batch, false),
                // The end counts when nothing came before it, so that others get their turn with the last packets.
                Next::End => {
                    let ended = batch.is_empty();
                    return (batch, ended);
                }
            }
        }
        (batch, false)
    }

    fn open_input(&mut self) -> Result<(), String> {
        let name = self.filename.clone().unwrap_or_default();
        match Input::open(&name, self.data.clone()) {
            Ok(input) => self.input = input,
            Err(e) if self.allow_nonexistent && e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(format!("{name}: {}", reason(&e))),
        }
        Ok(())
    }

    /// Looks at the first line, which should say what the file is.
    fn check_banner(&mut self, cx: &Cx<'_>) -> Result<(), String> {
        let got = self.input.next_line().map_err(|e| self.input.message(&reason(&e)))?;
        if !got {
            let missing = self.input.stream.is_some() && !self.allow_nonexistent;
            return if missing { Err(format!("{}: empty file", self.input.name)) } else { Ok(()) };
        }
        let line = String::from_utf8_lossy(&self.input.line).into_owned();
        let Some(version) = line.strip_prefix("!IPSummaryDump") else {
            self.input.peeked = true;
            let known = ["!creator", "!data", "!contents", "!proto", "!flowid"];
            if !known.iter().any(|k| line.starts_with(k)) && self.columns.is_empty() {
                self.warn(cx, "warning: missing banner line; is this an IP summary dump?");
            }
            return Ok(());
        };
        let version = version.trim().split_once('.');
        let version = version.and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)));
        match version {
            Some((MAJOR_VERSION, minor)) if minor <= MINOR_VERSION => self.defaults.minor_version = minor,
            Some((major, minor)) => {
                self.warn(cx, &format!("warning: unexpected IPSummaryDump version {major}.{minor}"));
            }
            None => {}
        }
        Ok(())
    }
}

impl Group {
    fn new(packet: Packet) -> Group {
        let count = packet.anno_u32(anno::EXTRA_PACKETS).saturating_add(1);
        let total = packet.len() + packet.anno_u32(anno::EXTRA_LENGTH) as usize;
        let len = (total / count as usize).max(packet.len());
        let rest = total.saturating_sub(len.saturating_mul(count as usize - 1)).max(packet.len());
        let last_ns = packet.timestamp_ns();
        let first_ns = match u64::from_ne_bytes(packet.anno(anno::FIRST_TIMESTAMP)) {
            0 => last_ns,
            first => first,
        };
        let step_ns = last_ns.saturating_sub(first_ns) / u64::from(count - 1).max(1);
        let mut group = Group { last_extra: rest - packet.len(), packet, left: count, len, last_ns, step_ns };
        group.packet.set_timestamp_ns(first_ns);
        group.packet.set_anno_u32(anno::EXTRA_PACKETS, 0);
        group
    }

    fn next(&mut self) -> Option<Packet> {
        self.left = self.left.checked_sub(1)?;
        let mut packet = self.packet.duplicate()?;
        let extra = if self.left == 0 { self.last_extra } else { self.len - packet.len() };
        packet.set_anno_u32(anno::EXTRA_LENGTH, extra as u32);
        if self.left == 0 {
            packet.set_timestamp_ns(self.last_ns);
        }
        set_lengths(&mut packet, extra);
        let next_ns = self.packet.timestamp_ns() + self.step_ns;
        self.packet.set_timestamp_ns(next_ns);
        Some(packet)
    }
}

/// Sets the IP and UDP lengths of a packet of which `extra` bytes are missing.
fn set_lengths(packet: &mut Packet, extra: usize) {
    let Some(ip) = packet.network_mut() else { return };
    let len = (ip.len() + extra).min(0xffff) as u16;
    let Some(header) = ip.first_chunk_mut::<20>() else { return };
    header[2..4].copy_from_slice(&len.to_be_bytes());
    let (hl, protocol) = (usize::from(header[0] & 15) * 4, header[9]);
    if protocol == Protocol::UDP.0
        && let Some(place) = ip.get_mut(hl + 4..hl + 6)
    {
        place.copy_from_slice(&len.saturating_sub(hl as u16).to_be_bytes());
    }
}

/// The words of a packet's line; white space inside double quotes separates nothing.
fn columns_of(line: &str, most: usize) -> Vec<&str> {
    let bytes = line.as_bytes();
    let mut words = Vec::with_capacity(most);
    let mut at = 0;
    while words.len() < most && at < bytes.len() {
        let start = at;
        while at < bytes.len() && !bytes[at].is_ascii_whitespace() {
            at = if bytes[at] == b'"' { skip_quoted(bytes, at) } else { at + 1 };
        }
        words.push(&line[start..at]);
        while at < bytes.len() && bytes[at].is_ascii_whitespace() {
            at += 1;
        }
    }
    words
}

/// The end of the string that begins with the quote at `at`.
fn skip_quoted(bytes: &[u8], mut at: usize) -> usize {
    at += 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A protocol by number, name, or its letter in dumps.
fn parse_protocol(text: &str) -> Option<u8> {
    match text {
        "T" => Some(6),
        "U" => Some(17),
        "I" => Some(1),
        _ => Protocol::from_name(text)
            .map(|p| p.0)
            .or_else(|| parse_integer(text).and_then(|n| u8::try_from(n).ok())),
    }
}

impl Element for FromIpSummaryDump {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.filename = args.positional_opt("FILENAME");
        self.data = args.keyword_opt("DATA");
        self.stop = args.keyword("STOP", false);
        self.active = args.keyword("ACTIVE", true);
        let _: bool = args.keyword("ZERO", true);
        self.timing = args.keyword("TIMING", false);
        self.defaults.checksum = args.keyword("CHECKSUM", false);
        self.multipacket = args.keyword("MULTIPACKET", false);
        self.allow_nonexistent = args.keyword("ALLOW_NONEXISTENT", false);
        self.pushes = !args.output_is_pull(0);
        self.sample = args.keyword("SAMPLE", Probability(1.0)).0;
        if let Some(Raw(protocol)) = args.keyword_opt("PROTO") {
            match parse_protocol(&protocol) {
                Some(number) => self.defaults.protocol = number,
                None => args.bad("PROTO", format!("PROTO should be an IP protocol, not '{protocol}'")),
            }
        }
        for keyword in ["DEFAULT_CONTENTS", "DEFAULT_FIELDS", "CONTENTS", "FIELDS"] {
            if let Some(Raw(fields)) = args.keyword_opt(keyword) {
                let warnings = self.set_columns(&fields);
                for text in warnings.into_iter().map(|w| w.replace("warning: ", "")) {
                    if Policy::of_process().as_click {
                        args.warning(text);
                    } else {
                        args.error(text);
                    }
                }
            }
        }
        for keyword in ["DEFAULT_FLOWID", "FLOWID"] {
            if let Some(Raw(flow)) = args.keyword_opt(keyword)
                && let Err(why) = self.set_flow(&flow)
            {
                args.error(format!("{keyword}: {why}"));
            }
        }
        match (&self.filename, &self.data) {
            (Some(_), Some(_)) => args
                .error_as("FILENAME and DATA exclude each other".into(), "FILENAME and DATA conflict".into()),
            (None, None) => args.missing("FILENAME", "a file to read, or DATA"),
            _ => {}
        }
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        self.inherits = cx.inherits();
        if !cx.is_dry() && !self.inherits {
            self.open_input()?;
        }
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.check_banner(cx)?;
        if self.pushes && self.active {
            cx.schedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let (batch, ended) = self.fill(cx, cx.burst());
        let any = !batch.is_empty();
        cx.push(0, batch);
        if ended {
            cx.unschedule();
            if self.stop {
                cx.please_stop();
            }
        }
        // The end is work, too: no time passes before the driver has heard of it.
        any || ended
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        if !self.active {
            return Batch::new();
        }
        let (batch, ended) = self.fill(cx, max);
        if ended && std::mem::take(&mut self.stop) {
            cx.please_stop();
        }
        batch
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        if self.active && self.pushes {
            cx.schedule();
        }
    }
}

impl Provide for FromIpSummaryDump {
    fn provide(&self) -> Option<Provided> {
        Some(Arc::new(Encap::new(link_type::RAW)))
    }
}

impl PacketHolder for FromIpSummaryDump {
    fn held(&self) -> usize {
        usize::from(self.waiting.is_some()) + usize::from(self.group.is_some())
    }
}

impl HotSwap for FromIpSummaryDump {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<FromIpSummaryDump>(old).filter(|_| self.inherits) else { return false };
        let active = self.active;
        *self = std::mem::take(old);
        self.active = active;
        true
    }
}

#[cfg(test)]
mod tests {
    use engine::clock::SIMULATION_EPOCH;

    use super::*;
    use crate::testing::{Rig, Run};

    fn run(data: &str, args: &str, burst: usize) -> Run {
        let data = lang::config::quote(data);
        Rig::text(&format!("e :: FromIPSummaryDump(DATA {data}, {args}) -> o :: TestOut;")).burst(burst).run()
    }

    #[test]
    fn lines_become_packets() {
        for burst in [1, 32] {
            let data = "!data src dst ip_ttl\n1.0.0.1 2.0.0.2 7\n\n!proto U\n1.0.0.2 - 8\n# done\n9.9.9.9\n";
            let mut run = run(data, "STOP true", burst);
            let got: Vec<_> =
                run.out("o").iter().map(|p| (p.data()[9], p.data()[8], p.data()[15], p.dst_ip())).collect();
            assert_eq!(got, [(6, 7, 1, [2, 0, 0, 2]), (17, 8, 2, [0; 4]), (17, 100, 9, [0; 4])]);
            assert_eq!((run.read("e.count").as_str(), run.printed().as_str()), ("3", ""));
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_once() {
        let run = run("!data ip_src foo\nxyz\nabc -\n1.2.3.4 5\n", "", 32);
        assert_eq!(run.out("o").len(), 1);
        assert_eq!(run.drops("e"), [(Reason::ParseError, 2)]);
        let printed = "<data>:1: warning: unknown content type 'foo'\n<data>:2: packet parse error\n";
        assert_eq!(run.printed(), printed);
        let run = super::tests::run("1.2.3.4\n", "", 32);
        let printed = "<data>:1: warning: missing banner line; is this an IP summary dump?\n<data>:1: no '!data' provided\n";
        assert_eq!(run.printed(), printed);
    }

    #[test]
    fn one_line_for_many_packets() {
        let run = run("!data count first_ts ts ip_len proto\n3 1 3 330 U\n", "MULTIPACKET true", 1);
        let got: Vec<_> = run
            .out("o")
            .iter()
            .map(|p| {
                (p.timestamp_ns() / 1_000_000_000, p.data()[3], p.data()[25], p.anno_u32(anno::EXTRA_LENGTH))
            })
            .collect();
        assert_eq!(got, [(1, 110, 90, 82), (2, 110, 90, 82), (3, 110, 90, 82)]);
    }

    #[test]
    fn keeps_time() {
        let data = lang::config::quote("!data ts src\n5 1.1.1.1\n5.25 2.2.2.2\n7 3.3.3.3\n");
        let text = |args: &str| {
            format!("e :: FromIPSummaryDump(DATA {data}, {args}) -> c :: Counter -> o :: TestOut;")
        };
        let time = |args: &str| {
            let mut run = Rig::text(&text(args)).run();
            assert_eq!(run.out("o").len(), 3);
            run.read("time").parse::<f64>().unwrap() - SIMULATION_EPOCH as f64 / 1e9
        };
        assert_eq!((time("TIMING true"), time("TIMING false")), (2.0, 0.0));
    }

    #[test]
    fn sampling_and_activity() {
        let mut data = String::from("!data src\n");
        (0..200).for_each(|i| data.push_str(&format!("1.0.0.{i}\n")));
        let n = run(&data, "SAMPLE 0.25", 32).out("o").len();
        assert!((20..80).contains(&n), "{n}");
        let mut run = run(&data, "ACTIVE false", 32);
        assert_eq!(run.out("o").len(), 0);
        run.write("e.active", "true").unwrap();
        let run = run.again();
        assert_eq!(run.out("o").len(), 200);
    }

    #[test]
    fn pulled_it_waits_for_the_asker() {
        let data = lang::config::quote("!data src\n1.1.1.1\n2.2.2.2\n");
        let text = format!("e :: FromIPSummaryDump(DATA {data}, STOP true) -> Unqueue -> o :: TestOut;");
        assert_eq!(Rig::text(&text).run().out("o").len(), 2);
    }

    #[test]
    fn bad_arguments() {
        let error = |args: &str| Rig::text(&format!("e :: FromIPSummaryDump({args}) -> Discard;")).errors();
        assert_eq!(error(""), ["e: missing argument FILENAME: a file to read, or DATA"]);
        assert_eq!(error("x, DATA y"), ["e: FILENAME and DATA exclude each other"]);
        assert_eq!(error("x, FIELDS foo"), ["e: unknown content type 'foo'"]);
        assert_eq!(error("x, FLOWID 1 2"), ["e: FLOWID: bad !flowid specification"]);
        assert_eq!(
            error("x, SAMPLE 2"),
            ["e: argument SAMPLE should be a probability between 0 and 1, not '2'"]
        );
        assert_eq!(error("/nonexistent"), ["'e' could not open: /nonexistent: No such file or directory"]);
    }
}
