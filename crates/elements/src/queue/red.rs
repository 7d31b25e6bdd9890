// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RED
//!
//! `RED(MIN_THRESH, MAX_THRESH, MAX_P [, keywords QUEUES, STABILITY, GENTLE])`
//!
//! Drops packets at random, the more the longer a queue has been on average: Random Early Detection.
//!
//! **Ports:** 1 input, 1 or 2 outputs; agnostic, output 1 push: the packets dropped.
//!
//! **Arguments**
//! * `MIN_THRESH` average queue length in packets up to which nothing is dropped.
//! * `MAX_THRESH` average queue length at which a share of MAX_P is dropped.
//! * `MAX_P` that share, 0 to 1.
//! * `QUEUES` names of the queues whose lengths are added; default the nearest ones downstream, or upstream on a pull path.
//! * `STABILITY` the average moves by 1/2^STABILITY towards each new length, default 4.
//! * `GENTLE` boolean, default true: between MAX_THRESH and twice that the share grows to 1; otherwise all is dropped.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Drops:** `early-drop`, when output 1 is not connected.
//!
//! **Handlers**
//! * `min_thresh`, `max_thresh`, `max_p` read/write: the arguments.
//! * `avg_queue_size` read: the average length. `drops` read: packets dropped.
//! * `stats` read: length, average and drops, a line each. `config` read: the arguments as they are now.
//!
//! ```click
//! InfiniteSource(LIMIT 50, STOP true) -> RED(5, 50, 0.02) -> Queue(200) -> Unqueue -> Discard;
//! ```
//!
//! See also: Queue
//!
//! Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM Transactions on Networking
//! 1(4), 1993; RFC 2309.

use std::sync::Arc;

use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::swap::{Continued, Count};
use element::{Class, Cx, Element, HandlerError, InitCx, Reason, Rehearsal, Rehearsed, carries, handlers};
use packet::Batch;

use super::Store;
use crate::tools::{Probability, number, words};

/// The descriptor.
pub const CLASS: Class = Class::new("RED", "1/1-2", || Box::new(Red::default()))
    .processing("a/ah")
    .serial("drops follow one average of the queue's length")
    .handlers(handlers! { Red:
        both "min_thresh" => .min |red, text: &str| red.set_thresholds(number("min_thresh", text)?, red.max)?;
        both "max_thresh" => .max |red, text: &str| red.set_thresholds(red.min, number("max_thresh", text)?)?;
        both "max_p" => .max_p |red, p: Probability| {
            red.max_p = p.0;
            red.check().map_err(HandlerError::Failed)?;
        };
        read "avg_queue_size" => .average.packets;
        read "drops" => .drops;
        read "stats" => |red| format!("{} current queue\n{} avg queue\n{} drops\n", red.len(), red.average.packets, red.drops);
        read "config" => |red| red.arguments();
    })
    .hot_swap::<Red>().rehearsal::<Red>().file(file!());

/// While the queue is empty the average decays once in so long, as if that many packets had come.
const IDLE_STEP: Nanos = SECOND / 50;

#[derive(Default)]
struct Red {
    min: u32,
    max: u32,
    max_p: f64,
    gentle: bool,
    stability: u8,
    weight: f64,
    queue_names: Vec<String>,
    queues: Vec<Arc<Store>>,
    pulls: bool,
    average: Continued<Average>,
    drops: Count,
}

/// What the paper calls the average queue size, and what belongs to it.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    packets: f64,
    /// Packets since the last drop, if the average is above the lower bound.
    since_drop: Option<u64>,
    chance: f64,
    empty_at: Option<Nanos>,
}

impl Red {
    fn check(&self) -> Result<(), String> {
        if self.min > self.max {
            let ours = format!("MIN_THRESH ({}) must not exceed MAX_THRESH ({})", self.min, self.max);
            return Err(words(ours, "MIN_THRESH must be <= MAX_THRESH"));
        }
        Ok(())
    }

    /// The arguments as they are now.
    fn arguments(&self) -> String {
        let queues = match self.queue_names.as_slice() {
            [] => String::new(),
            names => format!(", QUEUES {}", names.join(" ")),
        };
        let gentle = if self.gentle { "" } else { ", GENTLE false" };
        format!("{}, {}, {}{queues}, STABILITY {}{gentle}", self.min, self.max, self.max_p, self.stability)
    }

    fn len(&self) -> usize {
        self.queues.iter().map(|q| q.len()).sum()
    }

    fn update(&mut self, len: usize, now: Nanos) {
        if len > 0 {
            self.average.packets += (len as f64 - self.average.packets) * self.weight;
            self.average.empty_at = None;
            return;
        }
        let step = now / IDLE_STEP;
        let periods = self.average.empty_at.map_or(1, |before| step.saturating_sub(before));
        self.average.packets *= (1.0 - self.weight).powf(periods as f64);
        self.average.empty_at = Some(step);
    }

    /// The share to be dropped at the present average.
    fn share(&self) -> f64 {
        let (min, max, avg) = (f64::from(self.min), f64::from(self.max), self.average.packets);
        if avg <= max {
            if max > min { self.max_p * (avg - min) / (max - min) } else { 0.0 }
        } else {
            self.max_p + (1.0 - self.max_p) * (avg - max) / max.max(1.0)
        }
    }

    fn should_drop(&mut self, len: usize, now: Nanos, random: &mut impl FnMut() -> f64) -> bool {
        self.update(len, now);
        let (min, max) = (f64::from(self.min), f64::from(self.max));
        if self.average.packets <= min {
            self.average.since_drop = None;
            return false;
        }
        if self.average.packets > 2.0 * max || (!self.gentle && self.average.packets > max) {
            self.average.since_drop = None;
            return true;
        }
        let count = self.average.since_drop.map_or(0, |n| n + 1);
        self.average.since_drop = Some(count);
        let share = self.share();
        // Method 2 of the paper, section 7: drops are evenly spread instead of geometrically.
        if count > 0 && share > 0.0 && count as f64 > self.average.chance / share {
            self.average.since_drop = Some(0);
            self.average.chance = random();
            return true;
        }
        if count == 0 {
            self.average.chance = random();
        }
        false
    }
}

impl Red {
    fn set_thresholds(&mut self, min: u32, max: u32) -> Result<(), HandlerError> {
        let before = (self.min, self.max);
        (self.min, self.max) = (min, max);
        self.check().map_err(|why| {
            (self.min, self.max) = before;
            HandlerError::Failed(why)
        })
    }
}

impl Element for Red {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.min = args.required("MIN_THRESH");
        self.max = args.required("MAX_THRESH");
        self.max_p = args.required::<Probability>("MAX_P").0;
        let queues: String = args.positional("QUEUES", String::new());
        self.queue_names = queues.split_ascii_whitespace().map(str::to_owned).collect();
        self.stability = args.keyword("STABILITY", 4);
        self.weight = 0.5f64.powi(self.stability.into());
        self.gentle = args.keyword("GENTLE", true);
        self.pulls = args.input_is_pull(0);
        if let Err(why) = self.check() {
            args.error(why);
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.queues = match (self.queue_names.is_empty(), self.pulls) {
            (true, true) => cx.upstream(Some(0)),
            (true, false) => cx.downstream(Some(0)),
            _ => {
                let find =
                    |name: &String| cx.find(name).ok_or_else(|| format!("QUEUES: '{name}' is not a queue"));
                self.queue_names.iter().map(find).collect::<Result<_, _>>()?
            }
        };
        if self.queues.is_empty() {
            let side = if self.pulls { "upstream" } else { "downstream" };
            let ours = format!("there is no queue {side}; put one there or name it with QUEUES");
            return Err(words(ours, "no nearby Queues"));
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let now = cx.now();
        let before = self.len();
        // Packets of this batch that are in the queue when it is each one's turn: on a push path those kept so far, on a
        // pull path those that would still be there.
        let (mut kept, mut left) = (0, batch.len());
        let mut lost = None;
        let random = cx.random();
        let keep = |_: &mut packet::Packet| {
            left -= 1;
            let len = before + if self.pulls { left } else { kept };
            let keep = !self.should_drop(len, now, &mut || random.f64());
            kept += usize::from(keep);
            keep
        };
        batch.partition(keep, |p| lost.get_or_insert_with(Batch::new).push(p));
        if let Some(lost) = lost {
            self.drops += lost.len() as u64;
            cx.push_or_drop(1, lost, Reason::EarlyDrop);
        }
        batch
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        loop {
            let batch = cx.pull(0, max);
            if batch.is_empty() {
                return batch;
            }
            let batch = self.process(cx, batch);
            if !batch.is_empty() {
                return batch;
            }
        }
    }
}

impl Rehearsal for Red {
    fn rehearse(&mut self, cx: &mut Cx<'_>, _: usize, packet: packet::Packet) -> Rehearsed {
        let before = (
            self.average.packets,
            self.average.since_drop,
            self.average.chance,
            self.average.empty_at,
            self.drops,
        );
        let kept = self.process(cx, Batch::of(packet));
        (
            self.average.packets,
            self.average.since_drop,
            self.average.chance,
            self.average.empty_at,
            self.drops,
        ) = before;
        if kept.is_empty() { Rehearsed::Done } else { Rehearsed::Passes(kept) }
    }
}

carries!(Red: average, drops; anew min, max, max_p, gentle, stability, weight, queue_names, queues, pulls);

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    fn run(red: &str, n: usize, burst: usize) -> (usize, usize) {
        let text = format!(
            "TimedSource(1ms, LIMIT {n}) -> e :: {red} -> q :: Queue(10000) -> Unqueue(ACTIVE false) -> Discard; e[1] -> x :: TestOut;"
        );
        let mut run = Rig::text(&text).burst(burst).run();
        (run.read("q.length").parse().unwrap(), run.out("x").len())
    }

    #[test]
    fn drops_by_the_average() {
        for burst in [1, 32] {
            assert_eq!(run("RED(1000, 2000, 0.5)", 500, burst), (500, 0));
            let (kept, lost) = run("RED(5, 50, 0.1)", 500, burst);
            assert_eq!(kept + lost, 500);
            // Beyond twice the upper bound all are dropped, so the queue cannot grow much longer.
            assert!((60..140).contains(&kept), "{kept}");
            let (kept, _) = run("RED(5, 50, 0.1, GENTLE false)", 500, burst);
            assert!((50..80).contains(&kept), "{kept}");
        }
    }

    #[test]
    fn works_on_a_pull_path() {
        let text = "i :: InfiniteSource(LIMIT 100) -> q :: Queue -> e :: RED(0, 0, 1, GENTLE false) -> u :: Unqueue -> o :: TestOut;";
        for burst in [1, 32] {
            let mut run = Rig::text(text).burst(burst).run();
            let passed = run.out("o").len();
            assert_eq!(run.read("e.drops"), (100 - passed).to_string());
        }
    }

    #[test]
    fn names_its_queues() {
        let text = "Idle -> e :: RED(1, 2, 0.1, QUEUES q) -> Discard; Idle -> q :: Queue -> Discard;";
        assert_eq!(Rig::text(text).run().read("e.stats"), "0 current queue\n0 avg queue\n0 drops\n");
        let errors = Rig::text("Idle -> e :: RED(1, 2, 0.1) -> Discard;").errors();
        assert_eq!(errors.len(), 1, "{errors:?}");
        let errors = Rig::text("Idle -> e :: RED(3, 2, 0.1) -> Discard;").errors();
        assert_eq!(errors, ["e: MIN_THRESH (3) must not exceed MAX_THRESH (2)"]);
    }
}
