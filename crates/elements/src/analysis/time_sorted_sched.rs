// SPDX-License-Identifier: MIT OR Apache-2.0
//! # TimeSortedSched
//!
//! `TimeSortedSched([keywords STOP, BUFFER])`
//!
//! Merges several streams of packets by their timestamps: it fetches from all inputs and passes the earliest packet on.
//!
//! **Ports:** any number of pull inputs, 1 pull output.
//!
//! **Arguments**
//! * `STOP` boolean, default false: asks the driver to stop when no input has a packet any more. Where queues stand before it, it
//!   first looks again: once, or up to 1000 times while other workers run.
//! * `BUFFER` packets of each input to hold, 1 to 65536, default 1. Inputs that are nearly sorted need more than 1.
//!
//! Of packets with equal timestamps the one that was fetched first leaves first.
//!
//! **Metadata read:** timestamp.
//!
//! **Drops:** none.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Handlers**
//! * `well_ordered` read: false once a packet left behind a later one, because its input was not sorted.
//!
//! ```click
//! InfiniteSource(LIMIT 5) -> SetTimestamp(1) -> [0] t :: TimeSortedSched(STOP true) -> Print(TIMESTAMP true) -> Discard;
//! InfiniteSource(LIMIT 5) -> SetTimestamp(2) -> [1] t;
//! ```
//!
//! See also: FromDump, RoundRobinSched, TimeFilter

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use element::args::Args;
use element::{Class, Cx, Element, HotSwap, InitCx, PacketHolder, Rehearsal, Rehearsed, handlers, swap};
use packet::{Batch, Packet};

use crate::queue::Store;
use crate::tools::look_again_at;

/// The descriptor.
pub const CLASS: Class = Class::new("TimeSortedSched", "-/1", || Box::new(TimeSortedSched::default()))
    .processing("l/l")
    .serial("packets of all inputs leave in the order of their timestamps")
    .handlers(handlers! { TimeSortedSched:
        read "well_ordered" => |sched| !sched.unordered;
    })
    .hot_swap::<TimeSortedSched>()
    .rehearsal::<TimeSortedSched>()
    .packet_holder::<TimeSortedSched>()
    .file(file!());

/// Empty attempts after which inputs behind queues have ended: when all tasks had a turn, or other workers time for one.
const PATIENCE: u32 = 2;
const PATIENCE_WITH_OTHERS: u32 = 1000;

/// A packet by the order in which it leaves.
struct Waiting {
    key: (u64, u64),
    input: usize,
    packet: Packet,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

#[derive(Default)]
struct TimeSortedSched {
    buffer: usize,
    stop: bool,
    /// The earliest packet is on top.
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Packets of each input that wait.
    held: Vec<usize>,
    fetched: u64,
    last: u64,
    unordered: bool,
    /// Attempts in a row without a packet.
    empty: u32,
    queues: bool,
}

impl TimeSortedSched {
    fn keep(&mut self, input: usize, packet: Packet) {
        self.held[input] += 1;
        let key = (packet.timestamp_ns(), self.fetched);
        self.fetched += 1;
        self.waiting.push(Reverse(Waiting { key, input, packet }));
    }

    /// Stops the driver when it has looked often enough.
    fn found_nothing(&mut self, cx: &mut Cx<'_>) {
        let patience = match (self.queues, cx.others_run()) {
            (false, _) => 1,
            (true, false) => PATIENCE,
            (true, true) => PATIENCE_WITH_OTHERS,
        };
        if self.empty >= patience {
            return;
        }
        self.empty += 1;
        if self.empty == patience {
            cx.please_stop();
        } else {
            // Simulated time stands still until then.
            let now = cx.now();
            look_again_at(cx, Some(now));
        }
    }

    fn pull_one(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        for input in (0..self.held.len()).rev() {
            let room = self.buffer.saturating_sub(self.held[input]);
            if room > 0 {
                cx.pull(input, room).drain(..).for_each(|packet| self.keep(input, packet));
            }
        }
        let Reverse(Waiting { key: (time, _), input, packet }) = self.waiting.pop()?;
        self.held[input] -= 1;
        if time > 0 {
            self.unordered |= time < self.last;
            self.last = time;
        }
        Some(packet)
    }
}

impl Element for TimeSortedSched {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.stop = args.keyword("STOP", false);
        self.buffer = args.keyword_in("BUFFER", 1, 1..=65536);
        self.held = vec![0; args.ninputs];
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let queues: Vec<Arc<Store>> = cx.upstream(None);
        self.queues = !queues.is_empty();
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        let mut batch = Batch::new();
        while batch.len() < max {
            let Some(packet) = self.pull_one(cx) else { break };
            batch.push(packet);
        }
        if !batch.is_empty() {
            self.empty = 0;
        } else if self.stop {
            self.found_nothing(cx);
        }
        batch
    }
}

impl PacketHolder for TimeSortedSched {
    fn held(&self) -> usize {
        self.waiting.len()
    }
}

impl Rehearsal for TimeSortedSched {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

impl HotSwap for TimeSortedSched {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<TimeSortedSched>(old) else { return false };
        self.last = self.last.max(old.last);
        self.unordered |= old.unordered;
        let mut waiting = std::mem::take(&mut old.waiting);
        old.held.fill(0);
        while let Some(Reverse(next)) = waiting.pop() {
            if next.input < self.held.len() {
                self.keep(next.input, next.packet);
            } else {
                cx.drop(element::Reason::HotSwap, next.packet);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    /// Sources of packets that bear their timestamps, in seconds, as text.
    fn text(sched: &str, streams: &[&[u32]]) -> String {
        let mut text = format!("e :: {sched} -> u :: Unqueue -> o :: TestOut; ");
        for (input, stream) in streams.iter().enumerate() {
            let lines: String = stream.iter().map(|t| format!("{t} {t}\\n")).collect();
            text +=
                &format!("FromIPSummaryDump(DATA \"!data timestamp payload\\n{lines}\") -> [{input}] e; ");
        }
        text
    }

    fn check(sched: &str, streams: &[&[u32]], want: &[u32], ordered: &str) {
        for burst in [1, 32] {
            let mut run = Rig::text(&text(sched, streams)).burst(burst).run();
            let times: Vec<u32> =
                run.out("o").iter().map(|p| (p.timestamp_ns() / 1_000_000_000) as u32).collect();
            assert_eq!((times, run.read("e.well_ordered").as_str()), (want.to_vec(), ordered), "{sched}");
        }
    }

    #[test]
    fn merges_by_time() {
        check("TimeSortedSched", &[&[1, 4, 5], &[2, 3, 6]], &[1, 2, 3, 4, 5, 6], "true");
        check("TimeSortedSched", &[&[1, 4], &[], &[2]], &[1, 2, 4], "true");
        check("TimeSortedSched", &[&[2, 1, 3]], &[2, 1, 3], "false");
        check("TimeSortedSched(BUFFER 2)", &[&[2, 1, 3], &[4]], &[1, 2, 3, 4], "true");
    }

    #[test]
    fn stops_when_all_have_ended() {
        for source in ["InfiniteSource(LIMIT 3)", "InfiniteSource(LIMIT 3) -> Queue"] {
            let text = format!(
                "{source} -> e :: TimeSortedSched(STOP true) -> Unqueue -> c :: Counter -> Discard;
                Script(wait 5, write c.reset); TimedSource(1) -> Discard;"
            );
            for burst in [1, 32] {
                assert_eq!(Rig::text(&text).burst(burst).run().read("c.count"), "3", "{source}");
            }
        }
    }

    #[test]
    fn the_buffer_has_bounds() {
        for n in ["0", "65537"] {
            let text = format!("Idle -> e :: TimeSortedSched(BUFFER {n}) -> Discard;");
            assert_eq!(
                Rig::text(&text).errors(),
                [format!("e: BUFFER must lie between 1 and 65536, not {n}")]
            );
        }
    }
}
