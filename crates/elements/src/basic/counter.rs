// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Counter
//!
//! `Counter([keywords COUNT_CALL, BYTE_COUNT_CALL])`
//!
//! Passes packets unchanged and counts them, their bytes and their rate.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `COUNT_CALL` `N HANDLER [VALUE]`: calls the write handler when the N-th packet comes, before it goes on.
//! * `BYTE_COUNT_CALL` `N HANDLER [VALUE]`: calls the write handler when the bytes reach N or pass it.
//!
//! Each call happens once, and once again after a reset.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `count` read: packets since the last reset.
//! * `byte_count` read: bytes since the last reset.
//! * `rate`, `bit_rate`, `byte_rate` read: recent packets, bits and bytes per second.
//! * `reset`, `reset_counts` write: sets counts and rates to zero.
//! * `count_call` read/write: the count that calls a handler; writing it takes the argument.
//! * `byte_count_call` write: the same for bytes.
//!
//! Each worker counts for itself and handlers read the sum, so counting costs no shared cache line. The rate is an
//! exponentially weighted average over about a second, updated once per batch.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard;
//! ```
//!
//! See also: AverageCounter

use std::cell::Cell;

use crate::tools::words;
use element::args::{Args, Raw};
use element::clock::{Nanos, SECOND};
use element::program::{Counted, Op, Program};
use element::swap::{Carried, Count};
use element::{
    Access, Class, Cx, Element, HandlerError, InitCx, Llrpc, PlacementRules, Rehearsal, carries, handlers,
};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("Counter", "1/1", || Box::new(Counter::default()))
    .handlers(handlers! { Counter:
        sum "count" => |counter| *counter.totals.get().packets;
        sum "byte_count" => |counter| *counter.totals.get().bytes;
        sum "rate" => |counter, cx| Rate::text(counter.packets_per_second(cx.now()));
        sum "bit_rate" => |counter, cx| Rate::text(counter.bytes_per_second(cx.now()) * 8.0);
        sum "byte_rate" => |counter, cx| Rate::text(counter.bytes_per_second(cx.now()));
        write "reset" => |counter| counter.reset();
        write "reset_counts" => |counter| counter.reset();
        both "count_call" => |counter| counter.count_call.as_ref().map_or(String::new(), |c| c.at.to_string()),
            |counter, cx, text: &str| counter.count_call = Call::written(cx, "count_call", text)?;
        write "byte_count_call" => |counter, cx, text: &str| counter.byte_count_call = Call::written(cx, "byte_count_call", text)?;
    })
    .llrpcs(&[
        Llrpc::read(0xc004_c001, "rate").with(0),
        Llrpc::read(0xc004_c003, "count").with(0),
        Llrpc::read(0xc004_c003, "byte_count").with(1),
    ])
    .forwards()
    .hot_swap::<Counter>().placement_rules::<Counter>().rehearsal::<Counter>().file(file!());

#[derive(Clone, Default)]
struct Counter {
    count_call: Option<Call>,
    byte_count_call: Option<Call>,
    totals: Cell<Totals>,
}

/// What is counted.
#[derive(Clone, Copy, Default)]
struct Totals {
    packets: Count,
    bytes: Count,
    packet_rate: Rate,
    byte_rate: Rate,
}

impl Carried for Totals {
    fn carry(&mut self, now: Nanos, old: &mut Totals) {
        self.packets.carry(now, &mut old.packets);
        self.bytes.carry(now, &mut old.bytes);
        self.packet_rate.carry(now, &mut old.packet_rate);
        self.byte_rate.carry(now, &mut old.byte_rate);
    }
}

impl Counted for Counter {
    #[inline]
    fn count(&self, now: Nanos, packets: usize, bytes: usize) {
        let mut totals = self.totals.get();
        totals.packets += packets as u64;
        totals.bytes += bytes as u64;
        totals.packet_rate.add(now, packets as u64);
        totals.byte_rate.add(now, bytes as u64);
        self.totals.set(totals);
    }
}

/// A write handler to call when a count reaches a bound.
#[derive(Clone, Debug)]
struct Call {
    at: u64,
    handler: String,
    value: String,
    /// It has happened since the last reset.
    done: bool,
}

impl Call {
    fn parse(name: &str, text: &str) -> Result<Option<Call>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let mut parts = text.split_ascii_whitespace();
        let at = parts.next().and_then(|n| n.parse().ok());
        let Some(at) = at else {
            let argument = name.starts_with(|c: char| c.is_ascii_uppercase());
            let click = if argument { format!("{name} type mismatch") } else { String::new() };
            let ours = format!("'{name}' first word should be unsigned (count)");
            return Err(if argument { words(ours, click) } else { ours });
        };
        let Some(handler) = parts.next() else {
            return Err(format!("'{name}' needs a handler after the count"));
        };
        Ok(Some(Call {
            at,
            handler: handler.to_owned(),
            value: parts.collect::<Vec<_>>().join(" "),
            done: false,
        }))
    }

    /// The call that a handler is given.
    fn written(cx: &Cx<'_>, name: &str, text: &str) -> Result<Option<Call>, HandlerError> {
        let call = Call::parse(name, text).map_err(HandlerError::Failed)?;
        if let Some(call) = &call {
            call.check(cx)?;
        }
        Ok(call)
    }

    /// Whether the call is due at exactly this count.
    fn due_at(&self, count: u64) -> bool {
        !self.done && count == self.at
    }

    /// Whether the call is due when the count has reached its bound.
    fn due_from(&self, count: u64) -> bool {
        !self.done && count >= self.at
    }

    /// The handler and its value, for the one time until a reset.
    fn take(&mut self) -> (String, String) {
        self.done = true;
        (self.handler.clone(), self.value.clone())
    }

    /// Whether the handler exists and can be written.
    fn check(&self, cx: &Cx<'_>) -> Result<(), HandlerError> {
        match cx.resolve(&self.handler)?.access() {
            Access::Read => Err(HandlerError::failed(format!("handler '{}' is not writable", self.handler))),
            _ => Ok(()),
        }
    }
}

/// An exponentially weighted average of events per second, over periods of a tenth of a second.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    /// The average as if nothing had come before the first period.
    average: f64,
    /// How much of the average the periods seen so far make up.
    weight: f64,
    pending: u64,
    since: Option<Nanos>,
}

impl Rate {
    const PERIOD: Nanos = SECOND / 10;
    /// Weight of one period, so that the average looks back about a second.
    const WEIGHT: f64 = 0.1;

    #[inline]
    fn add(&mut self, now: Nanos, n: u64) {
        self.update(now);
        self.pending += n;
    }

    #[inline]
    fn update(&mut self, now: Nanos) {
        let since = *self.since.get_or_insert(now);
        if now - since >= Self::PERIOD {
            self.fold(now, now - since);
        }
    }

    /// Events per second. Time before the first event does not count.
    fn per_second(&self) -> f64 {
        if self.weight > 0.0 { self.average / self.weight } else { 0.0 }
    }

    /// The rate as Click writes it: to 1/1024, with no more digits than that takes.
    fn text(rate: f64) -> String {
        let exact = (rate * 1024.0).round() / 1024.0;
        let close = |text: &String| text.parse::<f64>().is_ok_and(|n| (n - exact).abs() < 1.0 / 2048.0);
        (0..4).map(|digits| format!("{exact:.digits$}")).find(close).unwrap_or_else(|| exact.to_string())
    }

    #[cold]
    fn fold(&mut self, now: Nanos, elapsed: Nanos) {
        let current = self.pending as f64 * SECOND as f64 / elapsed as f64;
        let keep = (1.0 - Self::WEIGHT).powf(elapsed as f64 / Self::PERIOD as f64);
        self.average = self.average * keep + current * (1.0 - keep);
        self.weight = self.weight * keep + (1.0 - keep);
        self.pending = 0;
        self.since = Some(now);
    }
}

impl Carried for Rate {
    /// Rates of two instances add up.
    fn carry(&mut self, _: Nanos, old: &mut Rate) {
        let old = std::mem::take(old);
        self.average += old.average;
        self.weight = self.weight.max(old.weight);
        self.pending += old.pending;
        self.since = self.since.or(old.since);
    }
}

impl Counter {
    /// Whether some packet may call a handler, so that packets are counted one by one.
    fn calls(&self) -> bool {
        [&self.count_call, &self.byte_count_call].into_iter().flatten().any(|c| !c.done)
    }

    fn packets_per_second(&mut self, now: Nanos) -> f64 {
        let totals = self.totals.get_mut();
        totals.packet_rate.update(now);
        totals.packet_rate.per_second()
    }

    fn bytes_per_second(&mut self, now: Nanos) -> f64 {
        let totals = self.totals.get_mut();
        totals.byte_rate.update(now);
        totals.byte_rate.per_second()
    }

    fn reset(&mut self) {
        for call in [&mut self.count_call, &mut self.byte_count_call].into_iter().flatten() {
            call.done = false;
        }
        self.totals.take();
    }

    fn packets_due(&self) -> bool {
        self.count_call.as_ref().is_some_and(|c| c.due_at(*self.totals.get().packets))
    }

    fn bytes_due(&self) -> bool {
        self.byte_count_call.as_ref().is_some_and(|c| c.due_from(*self.totals.get().bytes))
    }

    /// Makes the calls that the packet counted last makes due. The first may change what the second finds.
    fn make_calls(&mut self, cx: &mut Cx<'_>) {
        if self.packets_due() {
            let call = self.count_call.as_mut().map(Call::take);
            self.call(cx, call);
        }
        if self.bytes_due() {
            let call = self.byte_count_call.as_mut().map(Call::take);
            self.call(cx, call);
        }
    }

    fn call(&mut self, cx: &mut Cx<'_>, call: Option<(String, String)>) {
        let Some((handler, value)) = call else { return };
        cx.reachable(self, |cx| {
            if let Err(why) = cx.write_handler(&handler, &value) {
                cx.print(&format!("{}: {handler}: {why}", cx.name()));
            }
        });
    }
}

impl Element for Counter {
    fn configure(&mut self, args: &mut Args<'_>) {
        for (name, slot) in
            [("COUNT_CALL", &mut self.count_call), ("BYTE_COUNT_CALL", &mut self.byte_count_call)]
        {
            if let Some(Raw(text)) = args.keyword_opt(name) {
                match Call::parse(name, &text) {
                    Ok(call) => *slot = call,
                    Err(why) => args.error(why),
                }
            }
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        for call in [&self.count_call, &self.byte_count_call].into_iter().flatten() {
            call.check(cx).map_err(|why| format!("{}: {why}", call.handler))?;
        }
        Ok(())
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn Program<'a>) {
        program.add(if self.calls() { Op::NotNow } else { Op::Count(self) });
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        self.count(cx.now(), batch.len(), batch.iter().map(|p| p.len()).sum());
        batch
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        if !self.calls() {
            let batch = self.process(cx, batch);
            return cx.push(0, batch);
        }
        // What a call changes holds for the packet that caused it, and not for those before it.
        let mut before = Batch::new();
        for packet in batch.drain(..) {
            self.count(cx.now(), 1, packet.len());
            if self.packets_due() || self.bytes_due() {
                cx.push(0, std::mem::take(&mut before));
                cx.settle();
                self.make_calls(cx);
            }
            before.push(packet);
        }
        cx.push(0, before);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        // What a call changes must hold for the next packet, so none is asked for before.
        let batch = cx.pull(0, if self.calls() { max.min(1) } else { max });
        if batch.is_empty() {
            return batch;
        }
        let batch = self.process(cx, batch);
        self.make_calls(cx);
        batch
    }
}

impl Rehearsal for Counter {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

impl PlacementRules for Counter {
    fn one_order(&self) -> Option<&'static str> {
        let calls = self.count_call.is_some() || self.byte_count_call.is_some();
        calls.then_some("it calls a handler when the count of all workers together reaches a bound")
    }
}

carries!(Counter: totals; anew count_call, byte_count_call);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn counts_packets_and_bytes() {
        for burst in [1, 32] {
            let mut run = Rig::new("Counter").burst(burst).inputs(&[b"abc", b"", b"wxyz"]).run();
            assert_eq!(run.bytes("o0"), [&b"abc"[..], b"", b"wxyz"]);
            assert_eq!((run.read("e.count").as_str(), run.read("e.byte_count").as_str()), ("3", "7"));
            run.write("e.reset", "").unwrap();
            assert_eq!(run.read("e.count"), "0");
        }
    }

    #[test]
    fn calls_when_the_count_is_reached() {
        let text = "i :: TestIn -> e :: Counter(COUNT_CALL 2 d.reset_counts) -> d :: Discard;";
        let mut run = Rig::text(text).burst(1).inputs(&[b"a", b"b", b"c"]).run();
        assert_eq!(run.read("d.count"), "2");
        assert_eq!(run.read("e.count_call"), "2");
        assert_eq!(
            Rig::new("Counter(COUNT_CALL x)").errors(),
            ["e: 'COUNT_CALL' first word should be unsigned (count)"]
        );
    }

    /// What a call changes holds for the packet that made it due and for those after it, for any burst; a script that is
    /// called may ask for the very counter, and reset it.
    #[test]
    fn a_call_takes_effect_at_its_packet() {
        let text = "i :: TestIn -> e :: Counter(COUNT_CALL 3 s.run) -> w :: Switch(0) -> a :: TestOut; w[1] -> b :: TestOut; \
                    s :: Script(TYPE PASSIVE, init seen 0, set seen $(e.count), write w.switch 1, write e.reset);";
        for burst in [1, 2, 32] {
            let mut run = Rig::text(text).burst(burst).inputs(&[b"1", b"2", b"3", b"4"]).run();
            assert_eq!(
                (run.bytes("a").concat(), run.bytes("b").concat()),
                (b"12".to_vec(), b"34".to_vec()),
                "{burst}"
            );
            assert_eq!(
                (run.read_with("s.get", "seen"), run.read("e.count")),
                ("3".into(), "1".into()),
                "{burst}"
            );
        }
    }

    #[test]
    fn a_call_may_stop_the_element_that_pulls() {
        let text = "InfiniteSource(LIMIT 10) -> Queue -> e :: Counter(BYTE_COUNT_CALL 350 u.active false) -> u :: Unqueue -> o :: TestOut;";
        for burst in [1, 32] {
            let mut run = Rig::text(&text.replace("LIMIT 10", "LIMIT 10, LENGTH 100")).burst(burst).run();
            assert_eq!((run.out("o").len(), run.read("u.active")), (4, "false".into()), "{burst}");
        }
    }

    #[test]
    fn the_rate_settles() {
        let mut rate = Rate::default();
        for ms in 0..20_000 {
            rate.add(ms * SECOND / 1000, 5);
        }
        assert!((rate.per_second() - 5000.0).abs() < 50.0, "{}", rate.per_second());
        // It does not begin at nothing.
        let mut young = Rate::default();
        for ms in 0..=200 {
            young.add(ms * SECOND / 1000, 5);
        }
        assert!((young.per_second() - 5000.0).abs() < 50.0, "{}", young.per_second());
        let texts = [0.0, 1000.0, 0.1, 957.608_841_7, 1.0 / 3.0].map(Rate::text);
        assert_eq!(texts, ["0", "1000", "0.1", "957.608", "0.333"]);
    }
}
