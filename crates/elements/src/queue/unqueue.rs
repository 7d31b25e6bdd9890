// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Unqueue
//!
//! `Unqueue([BURST, keywords ACTIVE, LIMIT])`
//!
//! Pulls packets as fast as it can and pushes them on.
//!
//! **Ports:** 1 pull input, 1 push output.
//!
//! **Arguments**
//! * `BURST` packets pulled at a time, default the router's burst; negative for as many as there are, at most 4096 in a run.
//! * `ACTIVE` boolean, default true.
//! * `LIMIT` packets to pass in all, default no limit (-1).
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `count` read: packets passed. `reset`, `reset_counts` write: set the count to zero.
//! * `active`, `limit`, `burst` read/write: the arguments.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Queue -> Unqueue -> Discard;
//! ```
//!
//! See also: RatedUnqueue, DelayUnqueue

use crate::tools::boolean;
use element::args::Args;
use element::swap::Count;
use element::{
    Class, Cx, Element, HandlerError, InitCx, OpenCx, Rehearsal, Rehearsed, Tasks, carries, handlers,
    parse_integer,
};
use packet::Packet;

/// The descriptor.
pub const CLASS: Class = Class::new("Unqueue", "1/1", || Box::new(Unqueue::default()))
    .processing("l/h")
    .handlers(handlers! { Unqueue:
        sum "count" => .count;
        write "reset" => |unqueue, cx| unqueue.reset(cx);
        write "reset_counts" => |unqueue, cx| unqueue.reset(cx);
        both "active" => .active |unqueue, cx, text: &str| {
            unqueue.active = boolean("active", text.trim()).map_err(|e| e.said_as("syntax error"))?;
            unqueue.reschedule(cx);
        };
        both "limit" => .limit |unqueue, cx, text: &str| {
            unqueue.limit = whole("limit", text)? as i64;
            unqueue.reschedule(cx);
        };
        both "burst" => |unqueue, cx| unqueue.burst.map_or(cx.burst().to_string(), |b| if b < 0 { i32::MAX } else { b }.to_string()),
            |unqueue, cx, text: &str| {
                unqueue.burst = Some(whole("burst", text)? as i32);
                unqueue.reschedule(cx);
            };
    })
    .hot_swap::<Unqueue>().rehearsal::<Unqueue>().file(file!());

/// The most packets in one run of the task.
const BURST_MAX: usize = 4096;

#[derive(Default)]
struct Unqueue {
    /// As configured; negative for as many as there are.
    burst: Option<i32>,
    active: bool,
    limit: i64,
    count: Count,
}

impl Unqueue {
    fn left(&self) -> usize {
        match u64::try_from(self.limit) {
            Ok(limit) => limit.saturating_sub(*self.count) as usize,
            Err(_) => usize::MAX,
        }
    }

    fn reschedule(&self, cx: &mut Cx<'_>) {
        if self.active && self.left() > 0 {
            cx.schedule();
        } else {
            cx.unschedule();
        }
    }
}

impl Unqueue {
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.count.reset();
        self.reschedule(cx);
    }
}

impl Element for Unqueue {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.burst = args.positional_opt("BURST");
        if self.burst == Some(0) {
            args.warning("BURST size 0, no packets will be pulled");
        }
        self.active = args.keyword("ACTIVE", true);
        self.limit = args.keyword("LIMIT", -1);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.reschedule(cx);
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let burst = self.burst.map_or(cx.burst(), |b| usize::try_from(b).unwrap_or(BURST_MAX));
        let mut wanted = burst.min(BURST_MAX).min(self.left());
        // What a packet causes comes before the next one is asked for, where batches are of one packet.
        let step = if cx.burst() == 1 { 1 } else { wanted };
        let mut any = false;
        while wanted > 0 {
            let batch = cx.pull(0, step);
            if batch.is_empty() {
                break;
            }
            any = true;
            wanted = if step == 1 { wanted - 1 } else { 0 };
            self.count += batch.len() as u64;
            cx.push(0, batch);
            if wanted > 0 {
                cx.settle();
            }
        }
        if self.left() == 0 {
            cx.unschedule();
        }
        any
    }
}

impl Rehearsal for Unqueue {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

carries!(Unqueue: count; anew burst, active, limit; then |unqueue, cx| unqueue.reschedule(cx));

/// The whole number written to handler `name`.
fn whole(name: &str, text: &str) -> Result<i128, HandlerError> {
    let number = parse_integer(text.trim());
    let bad = || HandlerError::bad_value(name, text.trim(), "a whole number").said_as("syntax error");
    number.ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn passes_up_to_its_limit() {
        let text = "i :: TestIn -> q :: Queue -> e :: Unqueue(2, LIMIT 3) -> o :: TestOut;";
        let mut run = Rig::text(text).inputs(&[b"a", b"b", b"c", b"d"]).run();
        assert_eq!(run.bytes("o"), [b"a", b"b", b"c"]);
        run.write("e.limit", "-1").unwrap();
        let mut run = run.again();
        assert_eq!((run.bytes("o"), run.read("e.count").as_str()), (vec![b"d".to_vec()], "4"));
    }
}
