// SPDX-License-Identifier: MIT OR Apache-2.0
//! # DelayShaper, DelayUnqueue
//!
//! `DelayShaper(DELAY)`, `DelayUnqueue(DELAY)`
//!
//! Hold each packet back until DELAY has passed since its timestamp.
//!
//! **Ports:** DelayShaper: 1 pull input, 1 pull output. DelayUnqueue: 1 pull input, 1 push output.
//!
//! **Arguments**
//! * `DELAY` seconds, or with a unit.
//!
//! **Metadata read:** timestamp; a packet without one is taken to have come just now. **Set:** timestamp, to the time
//! until which the packet was to be held (DelayUnqueue) or at which it left (DelayShaper).
//!
//! **Cores:** one worker at a time uses a DelayShaper; where several do, a lock stands before it.
//!
//! **Drops:** none. One packet waits in the element, the others in the queue before it.
//!
//! **Handlers**
//! * `delay` read/write: the argument.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> SetTimestamp -> q :: Queue;
//! q -> DelayShaper(1ms) -> DelayUnqueue(2ms) -> Discard;
//! ```
//!
//! See also: Queue, RatedUnqueue, Shaper, SetTimestamp

use std::any::Any;
use std::time::Duration;

use element::args::Args;
use element::clock::Nanos;
use element::swap::{Carried, Held};
use element::{
    Class, Cx, Element, Handler, HandlerError, HandlerPart, InitCx, OpenCx, PacketHolder, Rehearsal,
    Rehearsed, Tasks, carries, handlers,
};
use packet::{Batch, Packet};

use crate::tools::{interval, look_again_at, rest_until, value};

const HANDLERS: &[Handler] = handlers! { Delay:
    both "delay" => |delay| interval(delay.delay), |delay, text: &str| delay.set(text)?;
};

/// The descriptor of the pull element.
pub const SHAPER: Class = Class::new("DelayShaper", "1/1", || Box::new(DelayShaper::default()))
    .processing("l/l")
    .serial("packets leave in the order they came, each after its time")
    .handlers(HANDLERS)
    .hot_swap::<DelayShaper>()
    .rehearsal::<DelayShaper>()
    .handler_part::<DelayShaper>()
    .packet_holder::<DelayShaper>()
    .file(file!());
/// The descriptor of the element that pulls and pushes.
pub const UNQUEUE: Class = Class::new("DelayUnqueue", "1/1", || Box::new(DelayUnqueue::default()))
    .processing("l/h")
    .handlers(HANDLERS)
    .hot_swap::<DelayUnqueue>()
    .rehearsal::<DelayUnqueue>()
    .handler_part::<DelayUnqueue>()
    .packet_holder::<DelayUnqueue>()
    .file(file!());

#[derive(Default)]
struct Delay {
    delay: Nanos,
    waiting: Held<Packet>,
}

impl Carried for Delay {
    fn carry(&mut self, now: Nanos, old: &mut Delay) {
        self.waiting.carry(now, &mut old.waiting);
    }
}

impl Delay {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.delay = args.required::<Duration>("DELAY").as_nanos() as Nanos;
    }

    /// Up to `max` packets whose time has come; and if one is waiting, the time until which.
    fn ready(&mut self, cx: &mut Cx<'_>, max: usize) -> (Batch, Option<Nanos>) {
        let (now, wall) = (cx.now(), cx.wall());
        let mut batch = Batch::new();
        while batch.len() < max {
            if self.waiting.is_none() {
                *self.waiting = cx.pull(0, 1).pop();
                if let Some(packet) = &mut *self.waiting {
                    let came = match packet.timestamp_ns() {
                        0 => wall,
                        stamp => stamp,
                    };
                    packet.set_timestamp_ns(came.saturating_add(self.delay));
                }
            }
            match self.waiting.take_if(|p| p.timestamp_ns() <= wall) {
                Some(packet) => batch.push(packet),
                None => break,
            }
        }
        let until = self.waiting.as_ref().map(|p| now.saturating_add(p.timestamp_ns().saturating_sub(wall)));
        (batch, until)
    }

    fn set(&mut self, text: &str) -> Result<(), HandlerError> {
        let delay = value::<Duration>("delay", text);
        self.delay = delay.map_err(|e| e.said_as("delay must be a timestamp"))?.as_nanos() as Nanos;
        Ok(())
    }
}

#[derive(Default)]
struct DelayShaper(Delay);

impl Element for DelayShaper {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.0.configure(args);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        let (mut batch, until) = self.0.ready(cx, max);
        look_again_at(cx, until);
        let wall = cx.wall();
        for packet in batch.iter_mut() {
            packet.set_timestamp_ns(wall);
        }
        batch
    }
}

impl PacketHolder for DelayShaper {
    fn held(&self) -> usize {
        usize::from(self.0.waiting.is_some())
    }
}

impl HandlerPart for DelayShaper {
    fn part(&mut self) -> &mut dyn Any {
        &mut self.0
    }
}

impl Rehearsal for DelayShaper {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

carries!(DelayShaper: 0);

#[derive(Default)]
struct DelayUnqueue(Delay);

impl Element for DelayUnqueue {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.0.configure(args);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let burst = cx.burst();
        let (batch, until) = self.0.ready(cx, burst);
        if until.is_some() {
            rest_until(cx, until);
        }
        let any = !batch.is_empty();
        cx.push(0, batch);
        any
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        cx.schedule();
    }
}

impl PacketHolder for DelayUnqueue {
    fn held(&self) -> usize {
        usize::from(self.0.waiting.is_some())
    }
}

impl HandlerPart for DelayUnqueue {
    fn part(&mut self) -> &mut dyn Any {
        &mut self.0
    }
}

impl Rehearsal for DelayUnqueue {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

carries!(DelayUnqueue: 0);

#[cfg(test)]
mod tests {
    use element::clock::SECOND;
    use engine::clock::SIMULATION_EPOCH;

    use crate::testing::Rig;

    #[test]
    fn packets_leave_after_the_delay() {
        for (element, after) in [("DelayUnqueue(0.3)", 300), ("DelayShaper(250ms) -> Unqueue", 250)] {
            let text = format!(
                "TimedSource(0.1, LIMIT 4) -> SetTimestamp -> Queue -> e :: {element} -> SetTimestamp -> o :: TestOut;"
            );
            for burst in [1, 32] {
                let run = Rig::text(&text).burst(burst).run();
                let at = |p: &packet::Packet| (p.timestamp_ns() - SIMULATION_EPOCH) / (SECOND / 1000);
                assert_eq!(
                    run.out("o").iter().map(at).collect::<Vec<_>>(),
                    [100, 200, 300, 400].map(|t| t + after)
                );
            }
        }
    }

    #[test]
    fn handlers_show_the_delay() {
        let mut run = Rig::text("Idle -> e :: DelayUnqueue(0.02) -> Discard;").run();
        assert_eq!(run.read("e.delay"), "20ms");
        run.write("e.delay", "1.5").unwrap();
        assert_eq!(run.read("e.delay"), "1.5s");
        assert_eq!(Rig::text("Idle -> e :: DelayUnqueue -> Discard;").errors().len(), 1);
    }
}
