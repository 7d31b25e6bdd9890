// SPDX-License-Identifier: MIT OR Apache-2.0
//! # EtherSwitch
//!
//! `EtherSwitch([keyword TIMEOUT])`
//!
//! A learning Ethernet switch. The source address of a frame shows behind which port that station is; frames to a station that was seen leave by its
//! port alone, all others by every port but the one they came in by.
//!
//! **Ports:** any number of push inputs, as many push outputs: input and output of one number are one port.
//!
//! **Arguments**
//! * `TIMEOUT` seconds for which a station is remembered after its last frame, default 300. With 0 nothing is learned
//!   and every frame goes to all other ports.
//!
//! Stations behind a device whose link was lost are forgotten. Group addresses are never learned as sources. At most 1048576 stations are known at a time.
//!
//! **Drops:** `filtered`, frames to a station behind the port they came in by; `too-short`, frames without a whole
//! Ethernet header; `no-output`, frames for all ports when there is no other; `no-memory`, copies for which packet
//! memory did not suffice.
//!
//! **Handlers**
//! * `table` read: a line for each known station, its Ethernet address and port.
//! * `timeout` read/write.
//! * `count` read: how many stations are known. `capacity` read: how many there may be. `flush` write: forgets them all.
//!
//! Testers of switches (RFC 2889, sections 5.7 and 5.8) need the last ones between trials, and `timeout`.
//!
//! ```click
//! s :: EtherSwitch(TIMEOUT 60);
//! InfiniteSource(DATA \<020000000002 020000000001 0800>, LIMIT 1, STOP true) -> s -> Discard;
//! Idle -> [1] s [1] -> Discard;
//! ```
//!
//! See also: ListenEtherSwitch; IEEE 802.1Q

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use element::args::{Args, FromArg, Names};
use element::stats::{self, Stat};
use element::{
    Class, Cx, Element, Handler, HandlerError, HotSwap, InitCx, LongHandlers, Reason, Rehearsal, Rehearsed,
    Rest, Statistics, handlers, swap,
};
use packet::{Batch, Packet};
use tables::mac::{DEFAULT_CAPACITY, MacTable};
use wire::MacAddr;
use wire::ethernet::HEADER_LEN;

use crate::io::links::{Change, Links};
use crate::tools::nanos;

/// The handlers of both switches.
pub(super) const HANDLERS: &[Handler] = handlers! { EtherSwitch:
    read "table" => |switch, cx| lines(&switch.table.stations(cx.now()));
    both "timeout" => |switch| switch.table.timeout_ns() as f64 / 1e9, |switch, text: &str| {
        let timeout = Duration::from_arg(text.trim(), &Names::default());
        let timeout = timeout.map_err(|_| HandlerError::bad_value("timeout", text, "a number of seconds"))?;
        switch.table.set_timeout_ns(nanos(timeout));
    };
    read "count" => |switch, cx| {
        switch.table.expire(cx.now());
        switch.table.len()
    };
    read "capacity" => |_switch| DEFAULT_CAPACITY;
    write "flush" => |switch| switch.table.clear();
};

/// The descriptor.
pub const CLASS: Class = EtherSwitch::with_capabilities(
    Class::new("EtherSwitch", "-/=", || Box::new(EtherSwitch::new(false)))
        .processing("h/h")
        .flow("#/[^#]")
        .serial("where each station was heard is one table, which every frame changes")
        .handlers(HANDLERS)
        .file(file!()),
);

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To every port but the one it came in by.
    Flood,
    /// To this port, another than it came in by.
    Port(usize),
    /// To nobody: its destination has heard it already.
    Back,
    /// To nobody: there is no whole header.
    Short,
}

/// A learning switch, with or without a port to listen at.
pub(super) struct EtherSwitch {
    table: MacTable,
    /// Whether the last output, which has no input, gets everything.
    listen: bool,
    /// Ways of the frames of a batch, kept for its memory.
    ways: Vec<Way>,
    /// What leaves by each output, kept for its memory.
    outputs: Vec<Batch>,
    /// The devices behind the ports, and which of them had a link.
    links: Links,
    up: Vec<bool>,
}

/// The timer for looks at links.
const LINKS: u32 = 0;

impl EtherSwitch {
    /// Declares what elements of this type can do besides processing packets.
    pub(super) const fn with_capabilities(class: Class) -> Class {
        class.statistics::<Self>().long_handlers::<Self>().rehearsal::<Self>().hot_swap::<Self>()
    }

    pub(super) fn new(listen: bool) -> EtherSwitch {
        let timeout_ns = 300_000_000_000;
        let table = MacTable::new(timeout_ns, DEFAULT_CAPACITY, RandomState::new().hash_one(0));
        EtherSwitch {
            table,
            listen,
            ways: Vec::new(),
            outputs: Vec::new(),
            links: Links::default(),
            up: Vec::new(),
        }
    }

    /// Learns from a frame that came in by `port` and says where it goes.
    #[inline(always)]
    fn way(&mut self, port: usize, packet: &Packet, now_ns: u64) -> Way {
        let Some(header) = packet.data().first_chunk::<HEADER_LEN>() else { return Way::Short };
        let [_, _, _, _, _, _, s0, s1, s2, s3, s4, s5, ..] = *header;
        self.table.learn([s0, s1, s2, s3, s4, s5], 0, port as u16, now_ns);
        self.known_way(port, header, now_ns)
    }

    /// Where a frame with this header goes, by what is known.
    #[inline(always)]
    fn known_way(&self, port: usize, header: &[u8; HEADER_LEN], now_ns: u64) -> Way {
        let [d0, d1, d2, d3, d4, d5, ..] = *header;
        if d0 & 1 != 0 {
            return Way::Flood;
        }
        match self.table.lookup([d0, d1, d2, d3, d4, d5], 0, now_ns) {
            None => Way::Flood,
            Some(to) if usize::from(to) == port => Way::Back,
            Some(to) => Way::Port(usize::from(to)),
        }
    }

    /// Sends frames that came in by `port` their common way: at once if they are all of their batch, or else by
    /// way of `self.outputs`.
    #[inline]
    fn deliver(&mut self, cx: &mut Cx<'_>, port: usize, way: Way, mut batch: Batch, whole: bool) {
        let n = cx.noutputs();
        let last = match way {
            Way::Short => return cx.drop_batch(Reason::TooShort, batch),
            Way::Back if !self.listen => return cx.drop_batch(Reason::Filtered, batch),
            Way::Back => n - 1,
            Way::Port(to) => {
                if self.listen {
                    let copies = copies(cx, &mut batch);
                    self.emit(cx, n - 1, copies, whole);
                }
                to
            }
            Way::Flood => {
                let Some(last) = (0..n).rev().find(|output| *output != port) else {
                    return cx.drop_batch(Reason::NoOutput, batch);
                };
                for output in (0..last).filter(|output| *output != port) {
                    let copies = copies(cx, &mut batch);
                    self.emit(cx, output, copies, whole);
                }
                last
            }
        };
        self.emit(cx, last, batch, whole);
    }

    #[inline]
    fn emit(&mut self, cx: &mut Cx<'_>, output: usize, mut batch: Batch, whole: bool) {
        if whole {
            cx.push(output, batch);
        } else {
            self.outputs[output].append(&mut batch);
        }
    }
}

/// Packets of the same bytes.
fn copies(cx: &mut Cx<'_>, batch: &mut Batch) -> Batch {
    let copies: Batch = batch.iter_mut().filter_map(Packet::second).collect();
    cx.made(batch.len());
    let missing = batch.len() - copies.len();
    if missing > 0 {
        cx.count_drops(Reason::NoMemory, missing as u64);
    }
    copies
}

/// Stations as the handler lists them.
fn lines(stations: &[tables::mac::Station]) -> String {
    stations.iter().map(|s| format!("{:#} {}\n", MacAddr(s.mac), s.port)).collect()
}

impl Element for EtherSwitch {
    fn configure(&mut self, args: &mut Args<'_>) {
        let timeout: Duration = args.keyword("TIMEOUT", Duration::from_secs(300));
        self.table.set_timeout_ns(nanos(timeout));
        if args.noutputs > usize::from(u16::MAX) {
            args.error("more than 65535 ports");
        }
        self.outputs.resize_with(args.noutputs, Batch::new);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let ports = cx.ninputs();
        self.links = Links::behind_inputs(cx, ports);
        self.up = vec![true; ports];
        self.links.set_timer(cx, LINKS);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        let EtherSwitch { table, links, up, .. } = self;
        for Change { port, up: is_up } in links.look(|port| up[port]) {
            up[port] = is_up;
            table.forget_port(port as u16);
        }
        links.set_timer(cx, LINKS);
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        let now_ns = cx.now();
        let mut ways = std::mem::take(&mut self.ways);
        ways.clear();
        ways.extend(batch.iter().map(|packet| self.way(port, packet, now_ns)));
        let mut run_start = 0;
        while let Some(way) = ways.get(run_start).copied() {
            let run_len = ways[run_start..].iter().take_while(|other| **other == way).count();
            let whole = run_len == ways.len();
            let run = batch.split_front(run_len);
            self.deliver(cx, port, way, run, whole);
            run_start += run_len;
        }
        for (output, batch) in self.outputs.iter_mut().enumerate() {
            if !batch.is_empty() {
                cx.push(output, std::mem::take(batch));
            }
        }
        self.ways = ways;
    }
}

impl Statistics for EtherSwitch {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        put(&stats::TABLE_ENTRIES, self.table.len() as u64);
        put(&stats::TABLE_CAPACITY, DEFAULT_CAPACITY as u64);
    }
}

impl LongHandlers for EtherSwitch {
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Option<Rest<String>> {
        let stations = (name == "table").then(|| self.table.stations(cx.now()))?;
        Some(Box::new(move || Ok(lines(&stations))))
    }
}

impl Rehearsal for EtherSwitch {
    fn rehearse(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) -> Rehearsed {
        let now_ns = cx.now();
        let header = packet.data().first_chunk();
        let way = header.map_or(Way::Short, |header| self.known_way(port, header, now_ns));
        self.deliver(cx, port, way, Batch::of(packet), true);
        Rehearsed::Done
    }
}

impl HotSwap for EtherSwitch {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<EtherSwitch>(old) else { return false };
        let stations = cx.ninputs() as u16;
        self.table.take(&mut old.table, |port| port < stations);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, Run};

    /// Three ports, with a source at each.
    const BRIDGE: &str =
        "i :: TestIn -> e :: EtherSwitch -> o0 :: TestOut; i1 :: TestIn -> [1] e [1] -> o1 :: TestOut;
        i2 :: TestIn -> [2] e [2] -> o2 :: TestOut;";

    fn frame(dst: u8, src: u8, mark: u8) -> Packet {
        let group = |n| if n == 0xff { 0xff } else { 2 };
        let bytes = [group(dst), 0, 0, 0, 0, dst, group(src), 0, 0, 0, 0, src, 8, 0, mark];
        Packet::copy_of(&bytes).unwrap()
    }

    /// The marks of what left by each port.
    fn marks(run: &Run) -> [Vec<u8>; 3] {
        ["o0", "o1", "o2"].map(|o| run.out(o).iter().map(|p| p.data()[14]).collect())
    }

    #[test]
    fn floods_what_it_does_not_know_and_learns() {
        for burst in [1, 32] {
            let run =
                Rig::text(BRIDGE).burst(burst).packets(vec![frame(2, 1, b'a'), frame(0xff, 1, b'b')]).run();
            assert_eq!(marks(&run), [vec![], b"ab".to_vec(), b"ab".to_vec()]);
            // Station 1 is known; station 9 is not; a frame among neighbours stays where it is.
            let from_1 = [
                frame(1, 2, b'c'),
                frame(9, 2, b'd'),
                frame(1, 2, b'e'),
                frame(2, 3, b'f'),
                frame(1, 2, b'g'),
            ];
            run.give("i1", from_1.into());
            let mut run = run.again();
            assert_eq!(marks(&run), [b"cdeg".to_vec(), vec![], b"d".to_vec()]);
            assert_eq!(
                run.read("e.table"),
                "02-00-00-00-00-01 0\n02-00-00-00-00-02 1\n02-00-00-00-00-03 1\n"
            );
            assert_eq!(run.drops("e"), [(Reason::Filtered, 1)]);
            assert_eq!((run.read("e.count"), run.read("e.capacity")), ("3".to_owned(), "1048576".to_owned()));
            run.write("e.flush", "").unwrap();
            assert_eq!((run.read("e.count"), run.read("e.table")), ("0".to_owned(), String::new()));
        }
    }

    #[test]
    fn a_station_may_move_and_groups_are_not_learned() {
        let run = Rig::text(BRIDGE).packets(vec![frame(9, 1, b'a')]).run();
        run.give("i2", vec![frame(9, 1, b'b'), frame(9, 0xff, b'c')]);
        let run = run.again();
        marks(&run);
        run.give("i1", vec![frame(1, 2, b'd')]);
        let mut run = run.again();
        assert_eq!(marks(&run), [vec![], vec![], b"d".to_vec()]);
        assert_eq!(run.read("e.table"), "02-00-00-00-00-01 2\n02-00-00-00-00-02 1\n");
    }

    #[test]
    fn without_a_timeout_nothing_is_learned() {
        let mut run = Rig::text(BRIDGE).packets(vec![frame(9, 1, b'a')]).run();
        assert_eq!(run.read("e.timeout"), "300");
        run.write("e.timeout", "0").unwrap();
        assert!(run.write("e.timeout", "soon").is_err());
        marks(&run);
        run.give("i1", vec![frame(1, 2, b'b')]);
        let mut run = run.again();
        assert_eq!(marks(&run), [b"b".to_vec(), vec![], b"b".to_vec()]);
        assert_eq!((run.read("e.table"), run.read("e.timeout")), (String::new(), "0".to_owned()));
    }

    #[test]
    fn short_frames_and_a_single_port() {
        let run = Rig::new("EtherSwitch").run();
        assert_eq!(run.drops("e"), []);
        run.give("i", vec![Packet::copy_of(b"too short").unwrap(), frame(2, 1, b'a')]);
        let run = run.again();
        assert_eq!(run.drops("e"), [(Reason::NoOutput, 1), (Reason::TooShort, 1)]);
        assert_eq!(Rig::new("EtherSwitch(TIMEOUT soon)").errors().len(), 1);
    }
}
