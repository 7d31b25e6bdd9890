// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AggregateCounter
//!
//! `AggregateCounter([keywords BYTES, IP_BYTES, MULTIPACKET, EXTRA_LENGTH, AGGREGATE_STOP, AGGREGATE_FREEZE, AGGREGATE_CALL, COUNT_STOP,
//! COUNT_FREEZE, COUNT_CALL, BANNER, CAPACITY])`
//!
//! Counts the packets or bytes of each aggregate: of each value of the aggregate annotation.
//!
//! **Ports:** 1 to 2 inputs, 1 to 2 outputs, agnostic. Packets at input 1 count only for aggregates that are known. Pushed packets
//! leave by output 0 if they were counted, and else by output 1 if there is one. Pulled packets leave by the output that asks.
//!
//! **Arguments**
//! * `BYTES` boolean, default false: counts bytes instead of packets.
//! * `IP_BYTES` boolean, default false: does not count the bytes before the network header.
//! * `MULTIPACKET` boolean, default true: a packet counts as many times as its extra packets annotation says.
//! * `EXTRA_LENGTH` boolean, default true: adds the extra length annotation to a packet's bytes.
//! * `AGGREGATE_STOP N`, `AGGREGATE_FREEZE N`, `AGGREGATE_CALL N HANDLER [VALUE]`: once N aggregates are known and another one comes,
//!   asks the driver to stop and counts no more, freezes the counter, or calls a write handler. Give at most one.
//! * `COUNT_STOP N`, `COUNT_FREEZE N`, `COUNT_CALL N HANDLER [VALUE]`: the same, once the sum of all counts reaches N.
//! * `BANNER` text for the head of files, default empty.
//! * `CAPACITY` aggregates to know at most, 1 to 16777216, default 4194304. Packets of further ones are not counted.
//!
//! A frozen counter learns of no new aggregates.
//!
//! **Metadata read:** aggregate, extra packets, extra length, network header position.
//!
//! **Drops:** none.
//!
//! **Cores:** all workers share the counts; they take a lock once for each batch.
//!
//! **Handlers**
//! * `count` read: the sum of all counts. `nagg` read: aggregates that are known.
//! * `write_text_file`, `write_ascii_file` write: writes all counts to the named file, or to standard output for `-`. The aggregates
//!   stand in rising order. Control connections have no access to this handler, nor to the next three.
//! * `write_ip_file` write: the same, with aggregates as IP addresses. `write_pdf_file` write: with shares of the sum.
//!   `write_file` write: in records of 8 bytes.
//! * `freeze`, `active` read/write: whether it is frozen, and whether it counts at all.
//! * `stop` write: counts no more, and asks the driver to stop.
//! * `reaggregate_counts`, `counts_pdf` write: makes counts the aggregates; the new counts say how often each old count was there.
//! * `clear` write: forgets everything.
//! * `banner`, `aggregate_call`, `count_call` read/write: the arguments.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> AggregateIP(ip dst) -> ac :: AggregateCounter -> Discard;
//! DriverManager(wait, write ac.write_text_file -);
//! ```
//!
//! See also: AggregateIP, AggregateIPFlows, AggregateLength, AggregatePaint, AggregatePacketCounter, Counter

use std::collections::HashMap;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;

use element::args::{Args, Raw};
use element::{
    Class, Cx, Element, HandlerError, HotSwap, LockUse, Locking, Rehearsal, SharedState, Sharing, When,
    handlers, swap,
};
use packet::{Batch, Packet, anno};
use sync::lock::{AdaptiveLock, How};

use super::calls;
use crate::control::general;
use crate::io::files::Output;

/// The descriptor.
pub const CLASS: Class = Class::new("AggregateCounter", "1-2/1-2", || Box::new(AggregateCounter::default()))
    .sharing(Sharing::Shared)
    .handlers(handlers! { AggregateCounter:
        read "count" => |counter| counter.state.lock().total;
        read "nagg" => |counter| counter.state.lock().counts.len();
        write "write_text_file".private() => |counter, path: &str| counter.save("write_text_file", path)?;
        write "write_ascii_file".private() => |counter, path: &str| counter.save("write_ascii_file", path)?;
        write "write_ip_file".private() => |counter, path: &str| counter.save("write_ip_file", path)?;
        write "write_pdf_file".private() => |counter, path: &str| counter.save("write_pdf_file", path)?;
        write "write_file".private() => |counter, path: &str| counter.save("write_file", path)?;
        both "freeze" => |counter| counter.state.lock().frozen, |counter, on: bool| counter.state.lock().frozen = on;
        both "active" => |counter| counter.state.lock().active, |counter, on: bool| counter.state.lock().active = on;
        write "stop" => |counter, cx| {
            counter.state.lock().active = false;
            cx.please_stop();
        };
        write "reaggregate_counts" => |counter| counter.state.lock().reaggregate();
        write "counts_pdf" => |counter| counter.state.lock().reaggregate();
        write "clear" => |counter| counter.state.lock().clear();
        both "banner" => |counter| counter.state.lock().banner.clone(),
            |counter, text: &str| counter.state.lock().banner = text.to_owned();
        both "aggregate_call" => |counter, cx| bound_text(&counter.state.lock().aggregate_bound, cx),
            |counter, text: &str| counter.state.lock().aggregate_bound = Bound::parse(text).map_err(HandlerError::Failed)?;
        both "count_call" => |counter, cx| bound_text(&counter.state.lock().count_bound, cx),
            |counter, text: &str| counter.state.lock().count_bound = Bound::parse(text).map_err(HandlerError::Failed)?;
    })
    .hot_swap::<AggregateCounter>().shared_state::<AggregateCounter>().locking::<AggregateCounter>().rehearsal::<AggregateCounter>().file(file!());

const CAPACITY: usize = 1 << 22;
const CAPACITY_MOST: usize = 1 << 24;

/// What to do when a bound is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Stop,
    Freeze,
    Call(String, String),
}

#[derive(Clone, Debug)]
struct Bound {
    at: u64,
    action: Action,
}

impl Bound {
    /// Reads `N HANDLER [VALUE]`; nothing for an empty text.
    fn parse(text: &str) -> Result<Option<Bound>, String> {
        let mut words = text.trim().splitn(3, char::is_whitespace);
        let (Some(at), handler, value) = (words.next().filter(|w| !w.is_empty()), words.next(), words.next())
        else {
            return Ok(None);
        };
        match (at.parse(), handler) {
            (Ok(at), Some(handler)) => {
                let value = value.unwrap_or_default().trim();
                Ok(Some(Bound { at, action: Action::Call(handler.to_owned(), value.to_owned()) }))
            }
            _ => Err(format!("expected N HANDLER [VALUE], not '{text}'")),
        }
    }

    fn text(&self, name: &str) -> String {
        let at = self.at;
        match &self.action {
            Action::Stop => format!("{at} {name}.stop"),
            Action::Freeze => format!("{at} {name}.freeze true"),
            Action::Call(handler, value) => format!("{at} {handler} {value}").trim_end().to_owned(),
        }
    }
}

/// What became of a packet.
enum Counted {
    Yes,
    No,
    /// It counts, and then this is to be done.
    YesThen(Action),
    /// This is to be done, and then the packet is to be counted.
    After(Action),
}

#[derive(Clone)]
struct State {
    counts: HashMap<u32, u64, foldhash::fast::RandomState>,
    capacity: usize,
    total: u64,
    frozen: bool,
    active: bool,
    aggregate_bound: Option<Bound>,
    count_bound: Option<Bound>,
    banner: String,
}

impl State {
    fn add(&mut self, aggregate: u32, amount: u64, frozen: bool) -> Counted {
        if !self.active {
            return Counted::No;
        }
        if let Some(count) = self.counts.get_mut(&aggregate) {
            *count = count.saturating_add(amount);
        } else if frozen || self.frozen {
            return Counted::No;
        } else if amount > 0 {
            let known = self.counts.len() as u64;
            if let Some(bound) = self.aggregate_bound.take_if(|bound| known >= bound.at) {
                return Counted::After(bound.action);
            }
            if self.counts.len() >= self.capacity {
                return Counted::No;
            }
            self.counts.insert(aggregate, amount);
        }
        self.total = self.total.saturating_add(amount);
        match self.count_bound.take_if(|bound| self.total >= bound.at) {
            Some(bound) => Counted::YesThen(bound.action),
            None => Counted::Yes,
        }
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.total = 0;
    }

    fn reaggregate(&mut self) {
        let old = std::mem::take(&mut self.counts);
        self.total = old.len() as u64;
        for count in old.into_values() {
            let aggregate = u32::try_from(count).unwrap_or(u32::MAX);
            *self.counts.entry(aggregate).or_insert(0) += 1;
        }
    }

    /// The content of a file of the kind that handler `name` writes.
    fn file(&self, name: &str) -> Vec<u8> {
        let mut head = String::from("!IPAggregate 1.0\n");
        head += &self.banner;
        if !head.ends_with('\n') {
            head.push('\n');
        }
        let _ = writeln!(head, "!num_nonzero {}", self.counts.len());
        let mut counts: Vec<(u32, u64)> = self.counts.iter().map(|(a, n)| (*a, *n)).collect();
        counts.sort_unstable();
        if name == "write_file" {
            head += if cfg!(target_endian = "big") { "!packed_be\n" } else { "!packed_le\n" };
            let mut bytes = head.into_bytes();
            for (aggregate, count) in counts {
                bytes.extend(aggregate.to_ne_bytes());
                bytes.extend(u32::try_from(count).unwrap_or(u32::MAX).to_ne_bytes());
            }
            return bytes;
        }
        if name == "write_ip_file" {
            head += "!ip\n";
        }
        for (aggregate, count) in counts {
            let _ = match name {
                "write_ip_file" => writeln!(head, "{} {count}", Ipv4Addr::from(aggregate)),
                "write_pdf_file" => {
                    writeln!(head, "{aggregate} {}", general(count as f64 / self.total as f64, 12))
                }
                _ => writeln!(head, "{aggregate} {count}"),
            };
        }
        head.into_bytes()
    }
}

/// What of a packet is counted.
#[derive(Clone, Copy, Default)]
struct Measure {
    bytes: bool,
    ip_bytes: bool,
    multipacket: bool,
    extra_length: bool,
}

impl Measure {
    fn amount(self, packet: &Packet) -> u64 {
        if !self.bytes {
            let extra = if self.multipacket { packet.anno_u32(anno::EXTRA_PACKETS) } else { 0 };
            return 1 + u64::from(extra);
        }
        let extra = if self.extra_length { packet.anno_u32(anno::EXTRA_LENGTH) } else { 0 };
        let link = if self.ip_bytes { packet.network_offset().unwrap_or(0) } else { 0 };
        let length = packet.len() as i64 + i64::from(extra) - i64::from(link);
        u64::try_from(length).unwrap_or(0)
    }
}

#[derive(Clone)]
struct AggregateCounter {
    measure: Measure,
    state: Arc<AdaptiveLock<State>>,
}

impl Default for AggregateCounter {
    fn default() -> Self {
        let state = State {
            counts: HashMap::default(),
            capacity: CAPACITY,
            total: 0,
            frozen: false,
            active: true,
            aggregate_bound: None,
            count_bound: None,
            banner: String::new(),
        };
        AggregateCounter { measure: Measure::default(), state: Arc::new(AdaptiveLock::new(state)) }
    }
}

/// The bound that one of three keywords gives.
fn bound(args: &mut Args<'_>, [stop, freeze, call]: [&'static str; 3]) -> Option<Bound> {
    let plain = |at: Option<u64>, action| at.map(|at| Bound { at, action });
    let mut given =
        vec![plain(args.keyword_opt(stop), Action::Stop), plain(args.keyword_opt(freeze), Action::Freeze)];
    if let Some(Raw(text)) = args.keyword_opt(call) {
        match Bound::parse(&text) {
            Ok(bound) => given.push(bound),
            Err(why) => args.error(format!("{call}: {why}")),
        }
    }
    let mut given = given.into_iter().flatten();
    let first = given.next();
    if given.next().is_some() {
        args.error(format!("give at most one of {stop}, {freeze} and {call}"));
    }
    first
}

impl AggregateCounter {
    fn act(&self, cx: &mut Cx<'_>, action: &Action) {
        match action {
            Action::Freeze => self.state.lock().frozen = true,
            Action::Stop => {
                self.state.lock().active = false;
                cx.please_stop();
            }
            Action::Call(handler, value) => calls::call(cx, self.share(), handler, value),
        }
    }

    /// Counts packets and splits them into those that counted and the others. `pushed`: what comes before a call is sent before it,
    /// by two outputs or by one.
    fn count(&self, cx: &mut Cx<'_>, mut batch: Batch, frozen: bool, pushed: Option<usize>) -> [Batch; 2] {
        let (mut counted, mut others) = (Batch::new(), Batch::new());
        let both = pushed.is_some_and(|noutputs| noutputs > 1);
        let mut packets = batch.drain(..).peekable();
        while packets.peek().is_some() {
            let mut state = self.state.lock();
            let mut action = None;
            while let Some(packet) = packets.peek() {
                let (aggregate, amount) = (packet.anno_u32(anno::AGGREGATE), self.measure.amount(packet));
                match state.add(aggregate, amount, frozen) {
                    Counted::After(first) => {
                        action = Some(first);
                        break;
                    }
                    Counted::YesThen(then) => {
                        action = Some(then);
                        counted.extend(packets.next());
                        break;
                    }
                    Counted::No if both => others.extend(packets.next()),
                    Counted::Yes | Counted::No => counted.extend(packets.next()),
                }
            }
            drop(state);
            if let Some(action) = action {
                if pushed.is_some() {
                    calls::settle(cx, self.share(), [&mut counted, &mut others]);
                }
                self.act(cx, &action);
            }
        }
        [counted, others]
    }
}

impl AggregateCounter {
    /// Writes a file in the format of handler `name`.
    fn save(&self, name: &str, path: &str) -> Result<(), HandlerError> {
        let content = self.state.lock().file(name);
        write_file(path, &content).map_err(HandlerError::Failed)
    }
}

impl Element for AggregateCounter {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.measure = Measure {
            bytes: args.keyword("BYTES", false),
            ip_bytes: args.keyword("IP_BYTES", false),
            multipacket: args.keyword("MULTIPACKET", true),
            extra_length: args.keyword("EXTRA_LENGTH", true),
        };
        let aggregates = bound(args, ["AGGREGATE_STOP", "AGGREGATE_FREEZE", "AGGREGATE_CALL"]);
        let counts = bound(args, ["COUNT_STOP", "COUNT_FREEZE", "COUNT_CALL"]);
        let capacity = args.keyword_in("CAPACITY", CAPACITY, 1..=CAPACITY_MOST);
        let mut state = self.state.lock();
        (state.aggregate_bound, state.count_bound, state.capacity) = (aggregates, counts, capacity);
        state.banner = args.keyword("BANNER", String::new());
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        let noutputs = cx.noutputs();
        let [counted, others] = self.count(cx, batch, port == 1, Some(noutputs));
        cx.push(0, counted);
        if noutputs > 1 {
            cx.push(1, others);
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let input = if cx.ninputs() == 1 { 0 } else { port };
        let batch = cx.pull(input, max);
        let [batch, _] = self.count(cx, batch, port == 1, None);
        batch
    }
}

impl Rehearsal for AggregateCounter {
    fn copy(&self) -> Option<Box<dyn Element>> {
        // The whole table for one packet would be too much, and its calls would be real.
        None
    }
}

impl Locking for AggregateCounter {
    fn locks(&self) -> Vec<LockUse> {
        vec![LockUse::new(How::Adaptive, "the counts", When::EachBatch, "every packet is counted")]
    }
}

impl SharedState for AggregateCounter {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

impl HotSwap for AggregateCounter {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<AggregateCounter>(old) else { return false };
        if Arc::ptr_eq(&old.state, &self.state) {
            return true;
        }
        let (mut mine, mut theirs) = (self.state.lock(), old.state.lock());
        for (aggregate, count) in theirs.counts.drain() {
            *mine.counts.entry(aggregate).or_insert(0) += count;
        }
        mine.total += std::mem::take(&mut theirs.total);
        true
    }
}

/// Writes a file whose name may be quoted.
fn write_file(name: &str, content: &[u8]) -> Result<(), String> {
    let path = lang::config::unquote_string(name.trim());
    if path.is_empty() {
        return Err("expected a file's name, or '-' for standard output".into());
    }
    let mut output = Output::create(&path, true)?;
    output.buffer().extend_from_slice(content);
    output.flush().map_err(|e| format!("{path}: {}", sync::os::reason(&e)))
}

fn bound_text(bound: &Option<Bound>, cx: &Cx<'_>) -> String {
    bound.as_ref().map_or(String::new(), |b| b.text(cx.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::testing::Temp;
    use crate::testing::{Rig, Run};

    /// Packets of these aggregates, each as long as its aggregate.
    fn packets(aggregates: &[u32]) -> Vec<Packet> {
        let made = |aggregate: &u32| {
            let mut packet = Packet::copy_of(&vec![0; *aggregate as usize]).unwrap();
            packet.set_anno_u32(anno::AGGREGATE, *aggregate);
            packet
        };
        aggregates.iter().map(made).collect()
    }

    /// The data lines of a file that a handler writes.
    fn file(run: &mut Run, handler: &str) -> String {
        let temp = Temp::new();
        let path = temp.path("counts");
        run.write(handler, &format!("\"{path}\"")).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    fn check(args: &str, aggregates: &[u32], want: &str) {
        for burst in [1, 32] {
            let element = format!("AggregateCounter({args})");
            let mut run = Rig::new(&element).burst(burst).packets(packets(aggregates)).run();
            // One that stops the driver leaves packets behind if they come one by one.
            assert!(run.out("o0").len() == aggregates.len() || args.contains("STOP"));
            let content = file(&mut run, "e.write_text_file");
            let counts: Vec<&str> = content.lines().filter(|l| !l.starts_with('!')).collect();
            assert_eq!(counts.join(", "), want, "{args} {burst}");
        }
    }

    #[test]
    fn counts_by_aggregate() {
        check("", &[5, 3, 5, 9], "3 1, 5 2, 9 1");
        check("BYTES true", &[5, 3, 5], "3 3, 5 10");
        check("AGGREGATE_FREEZE 2", &[5, 3, 9, 5], "3 1, 5 2");
        check("AGGREGATE_STOP 2", &[5, 3, 9, 5], "3 1, 5 1");
        check("COUNT_FREEZE 2", &[5, 3, 9, 3], "3 2, 5 1");
        check("COUNT_STOP 3", &[5, 3, 9, 3], "3 1, 5 1, 9 1");
        check("AGGREGATE_CALL 2 e.clear", &[5, 3, 9, 9], "9 2");
        check("COUNT_CALL 2 e.active false", &[5, 3, 9], "3 1, 5 1");
        check("CAPACITY 2", &[5, 3, 9, 5], "3 1, 5 2");
    }

    #[test]
    fn annotations_count_if_asked() {
        for (args, want) in [
            ("", "3"),
            ("MULTIPACKET false", "1"),
            ("BYTES true", "110"),
            ("BYTES true, EXTRA_LENGTH false", "10"),
            ("BYTES true, IP_BYTES true", "106"),
        ] {
            let mut packet = packets(&[10]).remove(0);
            packet.set_anno_u32(anno::EXTRA_PACKETS, 2);
            packet.set_anno_u32(anno::EXTRA_LENGTH, 100);
            packet.set_network_offset(4);
            let mut run = Rig::new(&format!("AggregateCounter({args})")).packets(vec![packet]).run();
            assert_eq!(run.read("e.count"), want, "{args}");
        }
    }

    #[test]
    fn a_second_input_learns_nothing_and_a_second_output_takes_the_rest() {
        let text = "i :: TestIn -> e :: AggregateCounter -> o0 :: TestOut; j :: TestIn -> [1] e [1] -> o1 :: TestOut;";
        for burst in [1, 32] {
            let run = Rig::text(text).burst(burst).packets(packets(&[1, 2])).run();
            run.give("j", packets(&[2, 3]));
            let mut run = run.again();
            assert_eq!((run.out("o0").len(), run.out("o1").len(), run.read("e.nagg").as_str()), (3, 1, "2"));
        }
    }

    #[test]
    fn a_call_in_the_midst_of_a_batch_sees_what_came_before() {
        let text =
            "i :: TestIn -> e :: AggregateCounter(COUNT_CALL 2 s.run) -> c :: Counter -> o0 :: TestOut;
            s :: Script(TYPE PASSIVE, set n $(c.count), write e.banner $n);";
        for burst in [1, 32] {
            let mut run = Rig::text(text).burst(burst).packets(packets(&[1, 2, 3])).run();
            // The packet that reaches the bound has not gone on if packets come one by one.
            let seen: u32 = run.read("e.banner").parse().unwrap();
            assert!((1..=2).contains(&seen), "{seen}");
        }
    }

    #[test]
    fn files_in_all_forms() {
        let mut run = Rig::new("AggregateCounter(BANNER \"# mine\")").packets(packets(&[1, 1, 1, 300])).run();
        let head = "!IPAggregate 1.0\n# mine\n!num_nonzero 2\n";
        assert_eq!(file(&mut run, "e.write_ascii_file"), format!("{head}1 3\n300 1\n"));
        assert_eq!(file(&mut run, "e.write_ip_file"), format!("{head}!ip\n0.0.0.1 3\n0.0.1.44 1\n"));
        assert_eq!(file(&mut run, "e.write_pdf_file"), format!("{head}1 0.75\n300 0.25\n"));
        let records: Vec<u8> = [1u32, 3, 300, 1].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let order = if cfg!(target_endian = "big") { "be" } else { "le" };
        let want = [format!("{head}!packed_{order}\n").into_bytes(), records].concat();
        let temp = Temp::new();
        let path = temp.path("packed");
        run.write("e.write_file", &path).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), want);
        assert!(
            run.write("e.write_file", "/nowhere/at/all").is_err() && run.write("e.write_file", "").is_err()
        );
        run.write("e.counts_pdf", "").unwrap();
        run.write("e.banner", "").unwrap();
        assert_eq!(file(&mut run, "e.write_text_file"), "!IPAggregate 1.0\n!num_nonzero 2\n1 1\n3 1\n");
        assert_eq!(run.read("e.count"), "2");
        run.write("e.clear", "").unwrap();
        assert_eq!((run.read("e.nagg"), run.read("e.count")), ("0".into(), "0".into()));
    }

    #[test]
    fn handlers_show_the_bounds() {
        let mut run = Rig::new("AggregateCounter(AGGREGATE_FREEZE 3, COUNT_CALL 9 stop)").run();
        assert_eq!(
            (run.read("e.aggregate_call"), run.read("e.count_call")),
            ("3 e.freeze true".into(), "9 stop".into())
        );
        run.write("e.aggregate_call", "7 c.reset now").unwrap();
        run.write("e.count_call", "").unwrap();
        assert_eq!(
            (run.read("e.aggregate_call"), run.read("e.count_call")),
            ("7 c.reset now".into(), "".into())
        );
        assert!(run.write("e.count_call", "x").is_err());
        run.write("e.freeze", "true").unwrap();
        assert_eq!((run.read("e.freeze"), run.read("e.active")), ("true".into(), "true".into()));
        run.write("e.stop", "").unwrap();
        assert_eq!(run.read("e.active"), "false");
    }

    #[test]
    fn arguments_are_checked() {
        for (args, want) in [
            (
                "AGGREGATE_STOP 1, AGGREGATE_FREEZE 2",
                "give at most one of AGGREGATE_STOP, AGGREGATE_FREEZE and AGGREGATE_CALL",
            ),
            ("COUNT_CALL x", "COUNT_CALL: expected N HANDLER [VALUE], not 'x'"),
            ("CAPACITY 16777217", "CAPACITY must lie between 1 and 16777216, not 16777217"),
        ] {
            assert_eq!(Rig::new(&format!("AggregateCounter({args})")).errors(), [format!("e: {want}")]);
        }
    }
}
