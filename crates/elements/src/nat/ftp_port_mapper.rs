// SPDX-License-Identifier: MIT OR Apache-2.0
//! # FTPPortMapper
//!
//! `FTPPortMapper(CONTROL_REWRITER, DATA_REWRITER, DATA_REWRITER_INPUT)` or
//! `FTPPortMapper(CONTROL_REWRITER, DATA_REWRITER, PATTERN FOUTPUT ROUTPUT)`
//!
//! Lets FTP clients behind an address translator receive data: rewrites the address in their PORT and EPRT commands, and makes
//! the mapping for the connection that the server will open to it.
//!
//! **Ports:** 1 input, 1 output, agnostic: the packets that clients send on FTP control connections, on their way to
//! CONTROL_REWRITER.
//!
//! **Arguments**
//! * `CONTROL_REWRITER` the TCPRewriter or IPRewriter which the packets, and the server's answers, pass next. It moves the
//!   sequence numbers of the connections whose commands have become longer or shorter.
//! * `DATA_REWRITER` the rewriter through which data connections go, possibly the same.
//! * `DATA_REWRITER_INPUT` one of its inputs: the mapping is made as if a data packet of the client had come there. Or, as
//!   older configurations write it, a pattern and outputs as IPRewriter has them.
//!
//! A client 1.0.0.2 that sends to the server 2.0.0.2 `PORT 1,0,0,2,3,9` waits at its port 777 for a connection from port 20 of the server (the port
//! before that of the control connection). With a pattern `3.0.0.3 9000-14000# - -` DATA_REWRITER gets a mapping from (1.0.0.2, 777, 2.0.0.2, 20) to
//! (3.0.0.3, 9000, 2.0.0.2, 20), and the server reads `PORT 3,0,0,3,35,40`. A server may connect from another port than 20, once for each command.
//! `EPRT |1|1.0.0.2|777|` is treated alike.
//!
//! Commands are found wherever a line begins in a packet. Left alone are those that a packet does not hold whole, those that name another host than
//! their client, and those whose connection CONTROL_REWRITER does not know. So are those that come after later ones, whose place in the stream is
//! settled. A command sent again is rewritten as it was before. Passive mode (PASV, EPSV) needs no help: the client connects.
//!
//! **Metadata read:** network and transport header positions.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `rewritten` read: commands that have another address now, those sent again among them.
//! * `split` read: packets that end, or are cut, within what is or may become a PORT command.
//! * `failures` read: whole commands left alone, because no mapping could be made or for another of the reasons above.
//!
//! ```click
//! rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
//! Idle -> FTPPortMapper(rw, rw, 0) -> [0]rw; Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;
//! ```
//!
//! See also: TCPRewriter, IPRewriter, IPRewriterPatterns; RFC 959 section 4.1.2, RFC 2428, RFC 2663 section 7.1

use std::net::Ipv4Addr;
use std::sync::Arc;

use element::args::{Args, Names, Raw};
use element::clock::Nanos;
use element::swap::{Carried, Count};
use element::{Class, Cx, Element, InitCx, LockUse, Locking, When, carries, handlers, parse_integer};
use nat::ftp::{Command, MOST_GROWTH, Speaker, commands};
use packet::{Batch, Packet};
use sync::lock::How;
use tables::flow::{Direction, FlowKey};

use super::kind::{FlowKind, TCP};
use super::mappings::{MAPPINGS, Mapping, Shared, lock};
use super::segment::{Segment, substitute};
use super::spec::{Asker, Directory, Handle, Rule, Spec};

/// The descriptor.
pub const CLASS: Class = Class::new("FTPPortMapper", "1/1", || Box::new(FtpPortMapper::default()))
    .handlers(handlers! { FtpPortMapper:
        sum "rewritten" => .counts.rewritten;
        sum "split" => .counts.split;
        sum "failures" => .counts.failures;
    })
    .hot_swap::<FtpPortMapper>()
    .locking::<FtpPortMapper>()
    .file(file!());

#[derive(Default)]
struct FtpPortMapper {
    control: String,
    data: String,
    /// The third argument.
    way: String,
    names: Names,
    link: Option<Link>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    rewritten: Count,
    split: Count,
    failures: Count,
}

impl Carried for Counts {
    fn carry(&mut self, now: Nanos, old: &mut Counts) {
        self.rewritten.carry(now, &mut old.rewritten);
        self.split.carry(now, &mut old.split);
        self.failures.carry(now, &mut old.failures);
    }
}

/// A rewriter and whose packets are whose in its mappings.
struct Rewriter {
    index: element::ElementId,
    handle: Arc<Handle>,
    mappings: Shared,
    zone: u16,
}

/// How data connections get their mappings.
enum Way {
    Input(usize),
    Rule(Arc<Rule>),
}

struct Link {
    control: Rewriter,
    data: Rewriter,
    way: Way,
    /// What the rewriter's table shows as a mapping's input: that, or one more than there are.
    input: u16,
}

impl Rewriter {
    fn find(cx: &mut InitCx<'_>, name: &str) -> Result<Rewriter, String> {
        let index = cx.router().lookup(name, Some(cx.index()));
        let found = index.and_then(|index| Some((index, cx.provided::<Handle>(index)?)));
        let (index, handle) = found.ok_or_else(|| format!("'{name}' is not a rewriter"))?;
        let mappings = Handle::mappings_of(cx, index)?;
        let zone = lock(&mappings).join(index, &cx.router().elements[index].name, handle.kind)?;
        Ok(Rewriter { index, handle, mappings, zone })
    }
}

impl Link {
    fn new(cx: &mut InitCx<'_>, mapper: &FtpPortMapper) -> Result<Link, String> {
        let control = Rewriter::find(cx, &mapper.control)?;
        let class = cx.router().elements[control.index].class;
        if !["TCPRewriter", "IPRewriter"].contains(&class.name) {
            return Err(format!("CONTROL_REWRITER must be a TCPRewriter, and '{}' is not", mapper.control));
        }
        let data = Rewriter::find(cx, &mapper.data)?;
        let (kind, noutputs) = (data.handle.kind, data.handle.noutputs);
        if kind == FlowKind::Pings {
            return Err(format!("'{}' does not rewrite TCP", mapper.data));
        }
        let ninputs = cx.router().elements[data.index].inputs().len();
        let (way, input) = match parse_integer(&mapper.way) {
            Some(n) => {
                let input = usize::try_from(n).ok().filter(|n| *n < ninputs);
                let input = input.ok_or_else(|| format!("'{}' has no input {n}", mapper.data))?;
                (Way::Input(input), input)
            }
            None => {
                let spec = Spec::parse(&format!("pattern {}", mapper.way), &mapper.names, noutputs, kind)?;
                let (mappings, zone, directory) = (&data.mappings, data.zone, Directory::gather(cx));
                let by = Asker { router: cx.router(), element: cx.index(), kind, noutputs, mappings, zone };
                (Way::Rule(Arc::new(directory.rule(&spec, &by)?)), ninputs)
            }
        };
        if !cx.downstream::<Handle>(Some(0)).iter().any(|h| Arc::ptr_eq(h, &control.handle)) {
            cx.print(&format!(
                "{}: warning: no packet goes on to CONTROL_REWRITER '{}'",
                cx.name(),
                mapper.control
            ));
        }
        Ok(Link { control, data, way, input: input as u16 })
    }

    /// The address and port that the server is to connect to in place of the command's; makes the mapping for that if there
    /// is none.
    fn open(&self, cx: &mut Cx<'_>, segment: &Segment, command: &Command) -> Option<(Ipv4Addr, u16)> {
        let (now, kind) = (cx.now(), self.data.handle.kind);
        let reply_anno = self.reply_anno(segment);
        let flow = FlowKey {
            src: segment.flow.src,
            sport: command.port,
            dst: segment.flow.dst,
            // The server's data port is the one before its control port (RFC 959, section 3.2).
            dport: segment.flow.dport.wrapping_sub(1),
            proto: TCP,
            zone: self.data.zone,
        };
        let mut all = lock(&self.data.mappings);
        let timing = self.data.handle.timing;
        let id = match all.find(kind, &flow, now) {
            Some(hit) if hit.direction == Direction::Forward => {
                // It has to wait for the server once more.
                let mapping = *all.table().get(hit.id)?;
                if mapping.ends_ns() < now.saturating_add(timing.idle_ns) {
                    all.touch(hit.id, mapping, now, timing);
                }
                hit.id
            }
            Some(_) => return None,
            None => {
                let rule = match &self.way {
                    Way::Input(input) => self.data.handle.rule(*input)?,
                    Way::Rule(rule) => rule.clone(),
                };
                let Rule::Map(maker) = &*rule else { return None };
                let mapping = Mapping::new([0, 0], self.input, reply_anno);
                self.data.handle.admits(&all, flow.src).ok()?;
                maker.enter(&mut all, kind, flow, mapping, now, timing, cx.random()).ok()?
            }
        };
        let found = all.table().flow(id)?;
        let to = kind.rewritten(&flow, &found.forward, &found.reply, 0);
        let place = (Ipv4Addr::from_bits(to.src), to.sport);
        if kind == FlowKind::Ports {
            all.await_any_port(id);
        }
        Some(place)
    }

    /// What answers of the control connection are annotated with; those of data connections shall be, too.
    fn reply_anno(&self, segment: &Segment) -> u8 {
        let all = lock(&self.control.mappings);
        let hit = all.table().lookup(&segment.flow);
        hit.and_then(|hit| all.table().get(hit.id)).map_or(0, |mapping| mapping.reply_anno)
    }

    /// The text for a command's argument; nothing where it is to stay.
    fn replacement(&self, cx: &mut Cx<'_>, segment: &Segment, command: &Command) -> Option<Vec<u8>> {
        let at = |offset: usize| segment.seq.wrapping_add(offset as u32);
        let (line, end) = (at(command.line), at(command.argument.end));
        {
            let mut all = lock(&self.control.mappings);
            let hit = all.find(FlowKind::Ports, &segment.flow, cx.now())?;
            if all.table().get(hit.id)?.edited
                && let Some(text) = all.edited(hit.id)?[hit.direction as usize].text_at(end)
            {
                return Some(text.to_vec());
            }
        }
        // A client must not open ways to other hosts.
        if command.address != Some(Ipv4Addr::from(segment.flow.src).into()) {
            return None;
        }
        let (address, port) = self.open(cx, segment, command)?;
        let text = command.form.text(address, port);
        let mut all = lock(&self.control.mappings);
        let hit = all.table().lookup(&segment.flow)?;
        let stream = &mut all.edited(hit.id)?[hit.direction as usize];
        stream.edit(line, end, command.argument.len(), text.clone()).then_some(text)
    }
}

impl FtpPortMapper {
    fn look(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Option<()> {
        let link = self.link.as_ref()?;
        let mut segment = Segment::of(packet)?;
        segment.flow.zone = link.control.zone;
        let bytes = packet.network()?;
        let total = u16::from_be_bytes([bytes[2], bytes[3]]);
        // A fragment, or what a snapshot has cut: its checksum covers what is not here.
        let part = bytes[6] & 0x20 != 0 || usize::from(total) != segment.payload.end;
        let (commands, split) = commands(&bytes[segment.payload.clone()], Speaker::Client);
        if part && (split || !commands.is_empty()) {
            self.counts.split += 1;
            return None;
        }
        self.counts.split += u64::from(split);
        if commands.is_empty() {
            return None;
        }
        let room = commands.len() * MOST_GROWTH;
        if usize::from(total) + room > usize::from(u16::MAX) || packet.put(room).is_none() {
            self.counts.failures += commands.len() as u64;
            return None;
        }
        packet.trim(room);
        let replacement = |c: &Command| Some((c.argument.clone(), link.replacement(cx, &segment, c)?));
        let texts: Vec<_> = commands.iter().filter_map(replacement).collect();
        self.counts.rewritten += texts.len() as u64;
        self.counts.failures += (commands.len() - texts.len()) as u64;
        if texts.is_empty() { None } else { substitute(packet, &segment, &texts) }
    }
}

impl Element for FtpPortMapper {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.control = args.required::<Raw>("CONTROL_REWRITER").0;
        self.data = args.required::<Raw>("DATA_REWRITER").0;
        self.way = args.required::<Raw>("DATA_REWRITER_INPUT").0;
        self.names = args.names.clone();
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.link = Some(Link::new(cx, self)?);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for packet in batch.iter_mut() {
            self.look(cx, packet);
        }
        batch
    }
}

impl Locking for FtpPortMapper {
    fn locks(&self) -> Vec<LockUse> {
        let why = "commands that open data connections make mappings and look into those of their own";
        let lock = |name: &String| LockUse {
            owner: Some(name.clone()),
            ..LockUse::new(How::Adaptive, MAPPINGS, When::Exceptions, why)
        };
        let same = self.control == self.data;
        [&self.control, &self.data].into_iter().take(if same { 1 } else { 2 }).map(lock).collect()
    }
}

carries!(FtpPortMapper: counts; anew control, data, way, names, link);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, Run};
    use proptest::prelude::*;
    use wire::{Protocol, checksum};

    const HOST: [u8; 4] = [10, 0, 0, 7];
    const SERVER: [u8; 4] = [8, 8, 4, 4];
    const US: [u8; 4] = [1, 0, 0, 1];
    const CONFIG: &str = "i :: TestIn -> ftp :: FTPPortMapper(rw, rw, 1.0.0.1 9000-9999# - - 0 1) -> \
                          rw :: TCPRewriter(pattern 1.0.0.1 - - - 0 1, drop) -> o0 :: TestOut; \
                          j :: TestIn -> [1]rw; rw[1] -> o1 :: TestOut;";

    /// What goes in where, and what comes out there: made by scapy, lengths and checksums by itself, from the same fields with the
    /// addresses, numbers and texts of either side. A connection whose command becomes shorter just before its sequence
    /// numbers wrap, with timestamps and, at an odd place too, selective acknowledgements; then the data connection.
    #[rustfmt::skip]
    const BY_SCAPY: [(&str, &str, &str); 7] = [
        ("i", "4500002800070000400664b70a000007080804040fa00015fffffff700000000500220006a230000", "450000280007000040066dbd01000001080804040fa00015fffffff7000000005002200073290000"),
        ("i", "4500004a00070000400664950a000007080804040fa00015fffffff80000038480182000023100000101080a0000000500000006504f52542031302c302c302c372c3230302c31330d0a", "450000480007000040066d9d01000001080804040fa00015fffffff800000384801820004c5800000101080a0000000500000006504f525420312c302c302c312c33352c34300d0a"),
        ("i", "4500003a00070000400664a50a000007080804040fa000150000000e00000384801820007ea000000101080a00000005000000064e4c53540d0a", "4500003a0007000040066dab01000001080804040fa000150000000c000003848018200087a800000101080a00000005000000064e4c53540d0a"),
        ("j", "450000340007000040066db1080804040100000100150fa000000384fffffff880102000396100000101050a0000000c00000012", "4500003400070000400664ab080804040a00000700150fa000000384fffffff880102000305700000101050a0000000e00000014"),
        ("j", "450000520007000040066d93080804040100000100150fa00000038400000012801820006b5d000001050affffffff0000000c0132303020504f525420636f6d6d616e64207375636365737366756c2e0d0a", "45000052000700004006648d080804040a00000700150fa00000038400000014801820005455000001050a0000000c0000000e0132303020504f525420636f6d6d616e64207375636365737366756c2e0d0a"),
        ("j", "4500002c0007000040066db908080404010000010014232800000001000000006002200047dd0000020405b4", "4500002c00070000400664b3080804040a0000070014c80d00000001000000006002200099f10000020405b4"),
        ("i", "4500002c00070000400664b30a00000708080404c80d001400000001000000026012200099df0000020405b4", "4500002c0007000040066db901000001080804042328001400000001000000026012200047cb0000020405b4"),
    ];

    fn packet(bytes: &[u8]) -> Packet {
        let mut packet = Packet::copy_of(bytes).unwrap();
        packet.set_network(0, 20);
        packet
    }

    /// One packet through input `name`, to the same numbered output.
    fn through(run: Run, name: &str, bytes: &[u8]) -> (Run, Vec<Vec<u8>>) {
        run.give(name, vec![packet(bytes)]);
        let run = run.again();
        let out = run.bytes(if name == "i" { "o0" } else { "o1" });
        (run, out)
    }

    #[test]
    fn what_scapy_would_send() {
        let bytes = |hex: &str| -> Vec<u8> {
            hex.as_bytes()
                .chunks(2)
                .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
                .collect()
        };
        let mut run = Rig::text(CONFIG).ready();
        for (n, (input, given, want)) in BY_SCAPY.iter().enumerate() {
            let out;
            (run, out) = through(run, input, &bytes(given));
            assert_eq!(out, [bytes(want)], "packet {n}");
        }
        assert_eq!(run.read("ftp.rewritten") + &run.read("ftp.split") + &run.read("ftp.failures"), "100");
    }

    /// A segment with right checksums, or with a TCP checksum that is off.
    fn segment(ends: [([u8; 4], u16); 2], seq: u32, ack: u32, flags: u8, body: &[u8], wrong: u16) -> Vec<u8> {
        let [(src, sport), (dst, dport)] = ends;
        let mut tcp =
            [&sport.to_be_bytes()[..], &dport.to_be_bytes(), &seq.to_be_bytes(), &ack.to_be_bytes()].concat();
        tcp.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
        tcp.extend(body);
        let sum = checksum::transport_v4(src.into(), dst.into(), Protocol(TCP), &tcp);
        tcp[16..18].copy_from_slice(&checksum::add(sum, wrong).to_be_bytes());
        let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, TCP, 0, 0];
        ip[2..4].copy_from_slice(&(20 + tcp.len() as u16).to_be_bytes());
        ip.extend([src, dst].concat());
        let sum = checksum::internet(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [ip, tcp].concat()
    }

    const CLIENT: ([u8; 4], u16) = (HOST, 4000);
    const FTP: ([u8; 4], u16) = (SERVER, 21);
    const SYN: u8 = 2;
    const PUSH_ACK: u8 = 0x18;

    /// The text that the client says, and the server hears, of a command for port `256 + n`.
    fn texts(line: u8, n: u8, mapped: &mut Vec<u8>) -> (Vec<u8>, Vec<u8>) {
        if line == 0 {
            return (b"NOOP\r\n".to_vec(), b"NOOP\r\n".to_vec());
        }
        // Ports of the pattern go out one after the other, one to each that is new.
        let known = mapped.iter().position(|m| *m == n);
        let index = known.unwrap_or(mapped.len());
        if known.is_none() {
            mapped.push(n);
        }
        let port = (9000 + index as u16).to_be_bytes();
        let said = format!("PORT 10,0,0,7,1,{n}\r\n");
        (said.into_bytes(), format!("PORT 1,0,0,1,{},{}\r\n", port[0], port[1]).into_bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]
        /// A client says lines, several in a segment, and says some segments again; the server puts its bytes where their numbers
        /// say and acknowledges. Both see one stream each, of texts made independently, and every checksum is right by a full sum.
        #[test]
        fn both_ends_see_one_stream(
            first in prop_oneof![any::<u32>(), 0xffff_ff00u32..],
            segments in prop::collection::vec((prop::collection::vec((0u8..2, 0u8..20), 1..4), 0usize..4), 1..20),
        ) {
            let ends = [CLIENT, FTP];
            let (mut run, out) = through(Rig::text(CONFIG).ready(), "i", &segment(ends, first.wrapping_sub(1), 0, SYN, b"", 0));
            prop_assert_eq!(out.len(), 1);
            let (mut said, mut heard, mut mapped) = (0u32, Vec::<u8>::new(), Vec::new());
            let mut want = Vec::<u8>::new();
            // Segments as said: where, and what.
            let mut sent: Vec<(u32, Vec<u8>)> = Vec::new();
            for (lines, again) in segments {
                let (mut body, mut text) = (Vec::new(), Vec::new());
                for (line, n) in lines {
                    let (ours, theirs) = texts(line, n, &mut mapped);
                    body.extend(ours);
                    text.extend(theirs);
                }
                want.extend(&text);
                sent.push((said, body.clone()));
                said += body.len() as u32;
                let repeated = sent.len().saturating_sub(1 + again);
                for (at, body) in &sent[repeated..] {
                    let out;
                    (run, out) = through(run, "i", &segment(ends, first.wrapping_add(*at), 7, PUSH_ACK, body, 0));
                    let got = &out[0];
                    prop_assert!(checksum::header20_ok(got.first_chunk().unwrap()));
                    prop_assert!(checksum::transport_v4_ok(US.into(), SERVER.into(), Protocol(TCP), &got[20..]));
                    let place = u32::from_be_bytes(*got[24..].first_chunk().unwrap()).wrapping_sub(first) as usize;
                    prop_assert!(place <= heard.len(), "a gap before {place}");
                    let known = (heard.len() - place).min(got.len() - 40);
                    prop_assert_eq!(&heard[place..place + known], &got[40..40 + known]);
                    heard.extend(&got[40 + known..]);
                }
                prop_assert_eq!(&heard, &want);
                let ack = first.wrapping_add(heard.len() as u32);
                let out;
                (run, out) = through(run, "j", &segment([FTP, (US, 4000)], 7, ack, 0x10, b"", 0));
                let told = u32::from_be_bytes(*out[0][28..].first_chunk().unwrap());
                prop_assert_eq!(told.wrapping_sub(first), said);
                prop_assert!(checksum::transport_v4_ok(SERVER.into(), HOST.into(), Protocol(TCP), &out[0][20..]));
            }
        }

        /// Nothing panics, and what is left alone is only moved as the rewriter does it.
        #[test]
        fn any_bytes_pass(bytes in prop::collection::vec(any::<u8>(), 0..90), cut in 0usize..90) {
            let mut hello = segment([CLIENT, FTP], 5, 7, PUSH_ACK, &bytes, 0);
            hello.truncate(cut.max(1));
            let run = Rig::text("i :: TestIn -> FTPPortMapper(rw, rw, 0) -> o0 :: TestOut; Idle -> rw :: TCPRewriter(keep 0 0) -> Discard;")
                .packets(vec![packet(&hello)]).run();
            prop_assert_eq!(run.bytes("o0"), [hello]);
        }
    }

    const COMMAND: &[u8] = b"PORT 10,0,0,7,1,1\r\n";

    fn greeted(text: &str) -> Run {
        through(Rig::text(text).ready(), "i", &segment([CLIENT, FTP], 0, 0, SYN, b"", 0)).0
    }

    fn command_segment() -> Vec<u8> {
        segment([CLIENT, FTP], 1, 7, PUSH_ACK, COMMAND, 0)
    }

    #[test]
    fn leaves_alone_and_counts() {
        let counts =
            |run: &mut Run| ["rewritten", "split", "failures"].map(|h| run.read(&format!("ftp.{h}")));
        let check = |text: &str, given: Vec<u8>, want: [&str; 3]| {
            let (mut run, out) = through(greeted(text), "i", &given);
            assert_eq!(counts(&mut run), want, "{given:?}");
            out
        };
        check(CONFIG, command_segment(), ["1", "0", "0"]);
        let mut fragment = command_segment();
        fragment[6] = 0x20;
        check(CONFIG, fragment, ["0", "1", "0"]);
        let mut cut = command_segment();
        cut.pop();
        check(CONFIG, cut, ["0", "1", "0"]);
        let other = segment([(HOST, 4001), FTP], 1, 7, PUSH_ACK, COMMAND, 0);
        check(CONFIG, other, ["0", "0", "1"]);
        let full = CONFIG.replace("0 1, drop", "0 1, drop, MAPPING_CAPACITY 1");
        check(&full, command_segment(), ["0", "0", "1"]);
        let none = CONFIG.replace("1.0.0.1 9000-9999# - - 0 1", "1");
        check(&none, command_segment(), ["0", "0", "1"]);
        // A checksum that was wrong stays so, by as much.
        let wrong = segment([CLIENT, FTP], 1, 7, PUSH_ACK, COMMAND, 0x1234);
        let out = check(CONFIG, wrong, ["1", "0", "0"]);
        let want = segment([(US, 4000), FTP], 1, 7, PUSH_ACK, b"PORT 1,0,0,1,35,40\r\n", 0x1234);
        assert_eq!(out, [want]);
        // Padding is no part of the text.
        let mut padded = command_segment();
        padded.extend([0; 9]);
        let out = check(CONFIG, padded, ["1", "0", "0"]);
        assert_eq!(out, [segment([(US, 4000), FTP], 1, 7, PUSH_ACK, b"PORT 1,0,0,1,35,40\r\n", 0)]);
        // One that comes after a later one would move bytes that are on their way.
        let later = segment([CLIENT, FTP], 100, 7, PUSH_ACK, COMMAND, 0);
        let run = through(greeted(CONFIG), "i", &later).0;
        let (mut run, out) = through(run, "i", &command_segment());
        assert_eq!(counts(&mut run), ["1", "0", "1"]);
        assert_eq!(out, [segment([(US, 4000), FTP], 1, 7, PUSH_ACK, COMMAND, 0)]);
    }

    #[test]
    fn the_server_may_connect_from_any_port_once() {
        for line in [COMMAND, b"EPRT |1|10.0.0.7|257|\r\n"] {
            let (run, _) = through(greeted(CONFIG), "i", &segment([CLIENT, FTP], 1, 7, PUSH_ACK, line, 0));
            let knock =
                |run, port| through(run, "j", &segment([(SERVER, port), (US, 9000)], 5, 0, SYN, b"", 0));
            let (run, out) = knock(run, 3333);
            assert_eq!(out, [segment([(SERVER, 3333), (HOST, 257)], 5, 0, SYN, b"", 0)]);
            let back = segment([(HOST, 257), (SERVER, 3333)], 9, 6, SYN, b"", 0);
            let (run, out) = through(run, "i", &back);
            assert_eq!(out, [segment([(US, 9000), (SERVER, 3333)], 9, 6, SYN, b"", 0)]);
            // Nobody else, and the server not again.
            let (run, out) = knock(run, 3334);
            assert!(out.is_empty());
            let (mut run, out) =
                through(run, "j", &segment([([8, 8, 8, 8], 20), (US, 9000)], 5, 0, SYN, b"", 0));
            assert!(out.is_empty());
            assert_eq!(run.read("ftp.rewritten"), "1");
        }
        // A connection from port 20 ends the waiting, too.
        let (run, _) = through(greeted(CONFIG), "i", &command_segment());
        let (run, out) = through(run, "j", &segment([(SERVER, 20), (US, 9000)], 5, 0, SYN, b"", 0));
        assert_eq!(out.len(), 1);
        assert!(through(run, "j", &segment([(SERVER, 21_000), (US, 9000)], 5, 0, SYN, b"", 0)).1.is_empty());
    }

    #[test]
    fn a_client_opens_no_way_to_another_host() {
        let theirs = segment([CLIENT, FTP], 1, 7, PUSH_ACK, b"PORT 10,0,0,8,1,1\r\n", 0);
        let (mut run, out) = through(greeted(CONFIG), "i", &theirs);
        assert_eq!(out, [segment([(US, 4000), FTP], 1, 7, PUSH_ACK, b"PORT 10,0,0,8,1,1\r\n", 0)]);
        assert_eq!((run.read("ftp.failures"), run.read("rw.nmappings")), ("1".into(), "1".into()));
    }

    #[test]
    fn goes_on_through_a_swap() {
        let mut run = through(greeted(CONFIG), "i", &command_segment()).0;
        for before in ["", "Idle -> Counter -> Discard;"] {
            assert!(run.swap(&format!("{before} {CONFIG}")).unwrap().moved >= 2);
            let next = segment([CLIENT, FTP], 1 + COMMAND.len() as u32, 7, PUSH_ACK, b"NOOP\r\n", 0);
            let out;
            (run, out) = through(run, "i", &next);
            let want = segment([(US, 4000), FTP], 1 + COMMAND.len() as u32 + 1, 7, PUSH_ACK, b"NOOP\r\n", 0);
            assert_eq!((out, run.read("ftp.rewritten").as_str()), (vec![want], "1"));
        }
        run.write("rw.capacity", "0").unwrap();
        run.write("rw.capacity", "9").unwrap();
        assert_eq!(run.read("rw.size"), "0");
    }

    #[test]
    fn errors() {
        let check = |args: &str, want: &str| {
            let text = format!(
                "i :: TestIn -> ftp :: FTPPortMapper({args}) -> rw :: TCPRewriter(keep 0 0) -> Discard; \
                 Idle -> u :: UDPRewriter(keep 0 0) -> Discard; Idle -> p :: ICMPPingRewriter(keep 0 0) -> Discard; \
                 Idle -> a :: IPAddrRewriter(keep 0 0) -> Discard; Idle -> other :: TCPRewriter(keep 0 0) -> Discard;"
            );
            let errors = Rig::text(&text).errors();
            assert!(
                errors.iter().any(|e| e.contains(want)) || (want.is_empty() && errors.is_empty()),
                "{errors:?}"
            );
        };
        check("rw, rw, 0", "");
        check("rw, u, 0", "");
        check("rw, a, 1.0.0.1 - 0 0", "");
        check("rw, rw", "DATA_REWRITER_INPUT");
        check("x, rw, 0", "'x' is not a rewriter");
        check("rw, ftp, 0", "'ftp' is not a rewriter");
        check("u, rw, 0", "CONTROL_REWRITER must be a TCPRewriter, and 'u' is not");
        check("rw, p, 0", "'p' does not rewrite TCP");
        check("rw, rw, 1", "'rw' has no input 1");
        check("rw, rw, nat 0 0", "no such pattern 'nat'");
        check("rw, rw, 1.0.0.1 5 - - 0 1", "output '1' is out of range");
        let run = Rig::text("i :: TestIn -> FTPPortMapper(rw, rw, 0) -> Discard; Idle -> rw :: TCPRewriter(keep 0 0) -> Discard;").run();
        assert!(run.printed().contains("no packet goes on to CONTROL_REWRITER 'rw'"), "{}", run.printed());
    }
}
