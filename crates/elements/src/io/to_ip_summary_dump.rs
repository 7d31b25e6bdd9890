// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ToIPSummaryDump
//!
//! `ToIPSummaryDump(FILENAME [, keywords FIELDS, HEADER, VERBOSE, BANNER, BINARY, MULTIPACKET, BAD_PACKETS, CAREFUL_TRUNC, EXTRA_LENGTH])`
//!
//! Writes a line of text about each packet to a file, with the columns one asks for.
//!
//! **Ports:** 1 input, agnostic: with a pull input it fetches packets itself. 1 optional push output, which passes
//! the packets on.
//!
//! **Arguments**
//! * `FILENAME` the file to write; `-` is standard output. Only its owner may read it (mode 0600), and a symbolic link is not
//!   followed.
//! * `FIELDS` columns, separated by spaces; default `timestamp ip_src`. `CONTENTS` is a synonym. A field that a
//!   packet does not have is a dash. An underscore may be a space (in quotes), and `ip_` may be left out.
//!
//! | fields | value |
//! |---|---|
//! | `timestamp`, `ts_sec`, `ts_usec`, `ts_usec1`, `first_timestamp` | times: seconds with decimals, seconds, microseconds of it, microseconds in all; the first timestamp annotation |
//! | `ip_src`, `ip_dst`, `ip_proto`, `ip_tos`, `ip_dscp`, `ip_ecn`, `ip_ttl`, `ip_id`, `ip_sum`, `ip_hl`, `ip_len` | fields of the IP header; the protocol as `T`, `U`, `I` or a number; lengths in bytes |
//! | `ip_frag`, `ip_fragoff` | `F` first fragment, `f` later one, `!` whole and not to be fragmented, `.` whole; offset in bytes with `+` (more follow) and `!` |
//! | `ip_opt`, `tcp_opt`, `tcp_ntopt`, `tcp_sack` | options: `rr{10.0.0.1}+3`, `mss1460;wscale7`; without timestamps; acknowledgements alone |
//! | `sport`, `dport`, `tcp_seq`, `tcp_ack`, `tcp_off`, `tcp_flags`, `tcp_window`, `tcp_urp`, `udp_len` | fields of TCP and UDP; flags by letters `FSRPAUECN`, `.` for none |
//! | `icmp_type`, `icmp_code`, `icmp_type_name`, `icmp_code_name`, `icmp_flowid`, `icmp_seq`, `icmp_nextmtu` | fields of ICMP |
//! | `payload`, `payload_len`, `payload_md5`, `payload_md5_hex`, `ip_capture_len` | what follows the headers: quoted, its length, its digest; bytes of the IP packet at hand |
//! | `eth_src`, `eth_dst`, `eth_type` | the Ethernet header |
//! | `count`, `link`, `paint`, `direction`, `aggregate`, `wire_len` | annotations: packets this one stands for, paint (`>` 0, `<` 1), aggregate number; bytes of the packet |
//!
//! * `HEADER` boolean, default true: begin with lines that say what follows.
//! * `VERBOSE` boolean, default false: say also which host wrote the dump, and when.
//! * `BANNER` text for a `!creator` line.
//! * `BINARY` boolean, default false: records of packed numbers instead of lines.
//! * `MULTIPACKET` boolean, default false: as many lines for a packet as packets it stands for.
//! * `BAD_PACKETS` boolean, default false: a line `!bad REASON` before a packet whose headers are wrong.
//! * `CAREFUL_TRUNC` boolean, default true: too few bytes for the IP length count as wrong.
//! * `EXTRA_LENGTH` boolean, default true: lengths count bytes that were cut off before.
//!
//! **Cores:** one file, one writer at a time: lines of several workers do not mix.
//!
//! **Drops:** `discarded` when the output is not connected.
//!
//! **Handlers**
//! * `count` read: packets written. `filename` read: the file.
//! * `flush` write: hands what is buffered to the operating system.
//!
//! ```click
//! FromIPSummaryDump(DATA "!data src dst\n1.0.0.1 2.0.0.2\n", STOP true)
//!   -> ToIPSummaryDump(/dev/null, FIELDS ip_src ip_dst ip_proto);
//! ```
//!
//! See also: FromIPSummaryDump, ToDump, IPPrint

use std::fmt::Write as _;

use element::Policy;
use element::args::{Args, Raw};
use element::swap::Count;
use element::{
    Class, Cx, Element, HandlerError, HotSwap, InitCx, OpenCx, Reason, Rehearsal, Rehearsed, Tasks, handlers,
    swap,
};
use packet::{Batch, Packet, anno};

use super::files::{self, Output, Target};
use super::summary::extract::{Summary, View};
use super::summary::{Field, MAJOR_VERSION, MINOR_VERSION, Width};
use crate::tools::seconds;

/// The descriptor.
pub const CLASS: Class = Class::new("ToIPSummaryDump", "1/0-1", || Box::new(ToIpSummaryDump::default()))
    .processing("a/h")
    .serial("one file, written in one order")
    .handlers(handlers! { ToIpSummaryDump:
        read "count" => .count;
        read "filename" => .target.name;
        write "flush" => |dump| dump.flush()?;
    })
    .hot_swap::<ToIpSummaryDump>()
    .rehearsal::<ToIpSummaryDump>()
    .file(file!());

#[derive(Default)]
struct ToIpSummaryDump {
    target: Target,
    fields: Vec<Field>,
    header: bool,
    verbose: bool,
    banner: Option<String>,
    binary: bool,
    multipacket: bool,
    bad_packets: bool,
    view: View,
    pulls: bool,
    output: Option<Output>,
    line: String,
    count: Count,
}

impl ToIpSummaryDump {
    fn header(&self, wall_ns: u64) -> String {
        let mut text = format!("!IPSummaryDump {MAJOR_VERSION}.{MINOR_VERSION}\n");
        if let Some(banner) = &self.banner {
            let _ = writeln!(text, "!creator {}", lang::config::quote(banner));
        }
        if self.verbose {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            let when = date(wall_ns / 1_000_000_000);
            let _ = write!(text, "!host {}\n!runtime {} ({when})\n", host.trim(), seconds(wall_ns));
        }
        let name = |f: &Field| match f {
            Field::NanoTimestamp if !self.binary => "timestamp",
            f => f.name(),
        };
        let names: Vec<_> = self.fields.iter().map(name).collect();
        let _ = writeln!(text, "!data {}", names.join(" "));
        if self.binary {
            text.push_str("!binary\n");
        }
        text
    }

    fn write_packet(&mut self, packet: &Packet) {
        let Some(output) = &mut self.output else { return };
        let mut summary = Summary::new(packet, self.view);
        let out = output.buffer();
        let start = out.len();
        if self.binary {
            out.extend([0; 4]);
            self.fields.iter().for_each(|f| summary.binary(*f, out));
            let len = (out.len() - start) as u32;
            out[start..start + 4].copy_from_slice(&len.to_be_bytes());
        } else {
            self.line.clear();
            for (i, field) in self.fields.iter().enumerate() {
                if i > 0 {
                    self.line.push(' ');
                }
                summary.text(*field, &mut self.line);
            }
            self.line.push('\n');
            out.extend_from_slice(self.line.as_bytes());
        }
        if self.bad_packets
            && let Some(bad) = summary.take_bad()
        {
            let mut line = format!("!bad {bad}\n").into_bytes();
            if self.binary {
                // Text in a binary dump is marked by the length's highest bit.
                let mark = (line.len() as u32 + 4) | 1 << 31;
                line.splice(..0, mark.to_be_bytes());
            }
            out.splice(start..start, line);
        }
        self.count += 1;
    }

    /// Writes one line for each of the packets that this one stands for, spread over its time.
    fn write_all(&mut self, packet: &mut Packet) {
        let more = packet.anno_u32(anno::EXTRA_PACKETS);
        if !self.multipacket || more == 0 {
            return self.write_packet(packet);
        }
        let (count, len) = (u64::from(more) + 1, packet.len() as u64);
        let extra = packet.anno_u32(anno::EXTRA_LENGTH);
        let mut total = len + if self.view.extra_length { u64::from(extra) } else { 0 };
        total = total.max(count * len);
        let last = packet.timestamp_ns();
        let first = match u64::from_ne_bytes(packet.anno(anno::FIRST_TIMESTAMP)) {
            0 => last,
            first => first,
        };
        packet.set_anno_u32(anno::EXTRA_PACKETS, 0);
        for i in 0..count {
            let share = total / (count - i);
            total -= share;
            packet.set_anno_u32(anno::EXTRA_LENGTH, (share - len) as u32);
            let step = last.saturating_sub(first) / (count - 1) * i;
            packet.set_timestamp_ns(if i + 1 == count { last } else { first + step });
            self.write_packet(packet);
        }
        packet.set_anno_u32(anno::EXTRA_PACKETS, more);
        packet.set_anno_u32(anno::EXTRA_LENGTH, extra);
    }
}

impl ToIpSummaryDump {
    fn flush(&mut self) -> Result<(), HandlerError> {
        let flushed = self.output.as_mut().map_or(Ok(()), Output::flush);
        self.target.answer(flushed)
    }
}

impl Element for ToIpSummaryDump {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.target.name = args.required("FILENAME");
        let fields = ["FIELDS", "CONTENTS", "DATA"].map(|k| args.keyword_opt::<Raw>(k));
        let fields = fields.into_iter().flatten().next_back();
        let fields = fields.map_or("timestamp ip_src".to_owned(), |Raw(text)| text);
        self.verbose = args.keyword("VERBOSE", false);
        self.header = args.keyword("HEADER", true);
        self.banner = args.keyword_opt("BANNER");
        self.multipacket = args.keyword("MULTIPACKET", false);
        self.bad_packets = args.keyword("BAD_PACKETS", false);
        self.view.careful = args.keyword("CAREFUL_TRUNC", true);
        self.view.extra_length = args.keyword("EXTRA_LENGTH", true);
        self.binary = args.keyword("BINARY", false);
        self.pulls = args.input_is_pull(0);
        for word in lang::config::split_words(&fields) {
            let word = lang::config::unquote_string(word);
            match Field::find(&word) {
                Some(field) if self.binary && field.width() == Width::None => {
                    args.error_as(
                        format!("field {} has no binary form", field.name()),
                        format!("cannot use field {word} with BINARY"),
                    );
                }
                Some(field) => self.fields.push(field),
                None => {
                    let near = lang::suggest(&word, Field::names());
                    let near = near.map_or(String::new(), |n| format!("; did you mean {n}?"));
                    let unknown = format!("unknown content type '{word}'");
                    args.error_as(format!("{unknown}{near}"), unknown);
                }
            }
        }
        if self.fields.is_empty() && (args.errors().is_empty() || Policy::of_process().as_click) {
            args.error("no contents specified");
        }
        // A count says already what several lines would say.
        self.multipacket &= !self.fields.contains(&Field::Count);
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        // The file of one that this one replaces goes on, see `take_state`.
        if !cx.inherits() && !cx.is_dry() {
            self.output = Some(Output::create(&self.target.name, false)?);
        }
        Ok(if self.pulls { Tasks::One } else { Tasks::None })
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if self.header {
            let header = self.header(cx.wall());
            if let Some(output) = &mut self.output {
                output.buffer().extend_from_slice(header.as_bytes());
            }
        }
        if self.pulls && cx.task().is_some() {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        for packet in batch.iter_mut() {
            self.write_all(packet);
        }
        if let Some(output) = &mut self.output {
            let done = output.wrote();
            self.target.check(cx, done);
        }
        cx.push_or_drop(0, batch, Reason::Discarded);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        files::fetch(self, cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        if let Some(output) = &mut self.output {
            let done = output.flush();
            self.target.check(cx, done);
        }
        self.output = None;
    }
}

impl Rehearsal for ToIpSummaryDump {
    fn rehearse(&mut self, cx: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        self.target.rehearse(cx, packet)
    }
}

impl HotSwap for ToIpSummaryDump {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<ToIpSummaryDump>(old) else { return false };
        self.count.take(&mut old.count);
        if self.output.is_none() {
            self.output = old.output.take();
        }
        true
    }
}

/// A time as C's `ctime` writes it, in UTC: "Sun Sep  9 01:46:40 2001".
fn date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (seconds / 86400, seconds % 86400);
    let weekday = DAYS[(days % 7) as usize];
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday} {} {:2} {h:02}:{m:02}:{s:02} {year}", MONTHS[month], day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::testing::Temp;
    use crate::testing::Rig;

    /// Reads `data` and returns what is written with these arguments.
    fn check(data: &str, args: &str, want: &str) {
        let temp = Temp::new();
        let (input, output) = (temp.file("in", data), temp.path("out"));
        for burst in [1, 32] {
            let text = format!("FromIPSummaryDump({input}, STOP true) -> ToIPSummaryDump({output}, {args});");
            drop(Rig::text(&text).burst(burst).run());
            assert_eq!(std::fs::read_to_string(&output).unwrap(), want, "{args} burst {burst}");
        }
    }

    #[test]
    fn writes_header_and_lines() {
        check(
            "!data src 'ip dst' sport\n1.0.0.1 2.0.0.2 5\n# nothing\n1.0.0.3 - -\n",
            "FIELDS src dst sport 'ip proto' icmp_type",
            "!IPSummaryDump 1.3\n!data ip_src ip_dst sport ip_proto icmp_type\n\
             1.0.0.1 2.0.0.2 5 T -\n1.0.0.3 0.0.0.0 0 T -\n",
        );
        check(
            "!data ts src\n1.5 9.9.9.9\n",
            "BANNER \"me\", HEADER true",
            "!IPSummaryDump 1.3\n!creator \"me\"\n!data timestamp ip_src\n1.500000 9.9.9.9\n",
        );
    }

    #[test]
    fn one_packet_for_many() {
        let data = "!data count len ts first_ts\n3 130 7 1\n";
        check(
            data,
            "HEADER false, FIELDS ts len, MULTIPACKET true",
            "1.000000 130\n4.000000 130\n7.000000 130\n",
        );
        check(data, "HEADER false, FIELDS count, MULTIPACKET true", "3\n");
    }

    #[test]
    fn tells_bad_packets() {
        let text = |bytes: &[u8], network| {
            let temp = Temp::new();
            let mut packet = Packet::copy_of(bytes).unwrap();
            if network {
                packet.set_network(0, 20);
            }
            let args = "HEADER false, BAD_PACKETS true, FIELDS src sport len";
            let run = Rig::new(&format!("ToIPSummaryDump({}, {args})", temp.path("out")));
            drop(run.packets(vec![packet]).run());
            std::fs::read_to_string(temp.path("out")).unwrap()
        };
        let mut good = [0u8; 24];
        (good[0], good[3], good[9]) = (0x45, 24, 6);
        assert_eq!(text(&good, true), "0.0.0.0 0 24\n");
        assert_eq!(text(&good, false), "!bad no IP header\n- - 24\n");
        assert_eq!(text(&good[..3], true), "!bad truncated IP header\n- - 3\n");
        assert_eq!(text(&good[..22], true), "!bad truncated IP missing 2\n0.0.0.0 0 24\n");
        for (at, value, want) in [
            (0, 0x65, "!bad IP version 6\n- - 24\n"),
            (0, 0x44, "!bad IP header length 4\n- - 24\n"),
            (3, 19, "!bad IP length 19\n- - 24\n"),
            (7, 9, "!bad fragmented TCP/UDP header\n0.0.0.0 - 24\n"),
        ] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(text(&bad, true), want);
        }
    }

    #[test]
    fn binary_dumps_read_back() {
        let temp = Temp::new();
        let line = "5.000007 1.2.3.4 6.7.8.9 T 10 20 rr{}+1 mss1400 400 SA 3 7";
        let fields = "ts src dst proto sport dport ip_opt tcp_opt payload_len tcp_flags paint count";
        let input = temp.file("in", format!("!data {fields}\n{line}\n"));
        let (binary, output) = (temp.path("binary"), temp.path("out"));
        let copy = |from: &str, to: &str, args: &str| {
            let text = format!(
                "FromIPSummaryDump({from}, STOP true) -> ToIPSummaryDump({to}, FIELDS {fields}, {args});"
            );
            let run = Rig::text(&text).run();
            assert_eq!(run.printed(), "");
        };
        copy(&input, &binary, "BINARY true");
        copy(&binary, &output, "HEADER false");
        assert_eq!(std::fs::read_to_string(&output).unwrap(), format!("{line}\n"));
    }

    #[test]
    fn pulls_passes_on_and_names_its_errors() {
        let temp = Temp::new();
        let out = temp.path("out");
        let text =
            format!("i :: TestIn -> Queue -> e :: ToIPSummaryDump({out}, FIELDS len) -> o :: TestOut;");
        let mut run = Rig::text(&text).inputs(&[b"abc", b"d"]).run();
        assert_eq!(run.bytes("o"), [&b"abc"[..], b"d"]);
        run.write("e.flush", "").unwrap();
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "!IPSummaryDump 1.3\n!data ip_len\n3\n1\n");
        assert_eq!(run.read("e.count"), "2");
        let error = |args: &str| Rig::new(&format!("ToIPSummaryDump({args})")).errors();
        assert_eq!(error("-, FIELDS ip_scr"), ["e: unknown content type 'ip_scr'; did you mean ip_src?"]);
        assert_eq!(error("-, FIELDS payload, BINARY true"), ["e: field payload has no binary form"]);
        assert_eq!(
            error("/nonexistent/x"),
            ["'e' could not open: /nonexistent/x: No such file or directory"]
        );
    }

    #[test]
    fn dates() {
        assert_eq!(date(1_000_000_000), "Sun Sep  9 01:46:40 2001");
        assert_eq!(date(951_782_400), "Tue Feb 29 00:00:00 2000");
    }
}
