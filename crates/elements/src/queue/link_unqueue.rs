// SPDX-License-Identifier: MIT OR Apache-2.0
//! # LinkUnqueue
//!
//! `LinkUnqueue(LATENCY, BANDWIDTH)`
//!
//! Imitates a serial link: it holds each packet back for the link's latency, and for the time that sending it takes.
//!
//! **Ports:** 1 pull input, 1 push output.
//!
//! **Arguments**
//! * `LATENCY` seconds, or with a unit, from the last bit's entering the link to its leaving.
//! * `BANDWIDTH` bytes per second, or bits per second with a unit (`384kbps`); at least 100 bytes per second.
//!
//! It fetches a packet when the one before has entered the link, and keeps only packets that are on the link. A queue in front of
//! it holds what waits for the link. The time to send a packet is cut to whole microseconds.
//!
//! **Metadata read:** extra length. **Set:** timestamp, to the time at which the packet leaves the link.
//!
//! **Drops:** `discarded`, packets on the link when it is reset.
//!
//! **Handlers**
//! * `latency`, `bandwidth` read/write: the arguments; a write also resets the link.
//! * `size` read: packets on the link. `reset` write: drops them.
//!
//! ```click
//! InfiniteSource(LENGTH 100, LIMIT 20) -> Queue -> LinkUnqueue(1ms, 1Mbps) -> Discard;
//! Script(wait 50ms, stop);
//! ```
//!
//! See also: DelayUnqueue, BandwidthRatedUnqueue, Queue

use std::collections::VecDeque;
use std::time::Duration;

use element::args::{Args, Bandwidth};
use element::clock::Nanos;
use element::{
    Class, Cx, Element, HandlerError, HotSwap, InitCx, OpenCx, PacketHolder, Reason, Rehearsal, Rehearsed,
    Tasks, handlers, swap,
};
use packet::{Batch, Packet, anno};

use crate::tools::{interval, look_again_at, nanos, rest_until, value};

/// The descriptor.
pub const CLASS: Class = Class::new("LinkUnqueue", "1/1", || Box::new(LinkUnqueue::default()))
    .processing("l/h")
    .handlers(handlers! { LinkUnqueue:
        both "latency" => |link| interval(link.latency), |link, cx, text: &str| {
            let latency = value::<Duration>("latency", text);
            link.latency = nanos(latency.map_err(|e| e.said_as("latency must be a timestamp"))?);
            link.reset(cx);
        };
        both "bandwidth" => |link| link.bandwidth * 100, |link, cx, text: &str| {
            let bandwidth = value("bandwidth", text).map_err(|e| e.said_as("invalid bandwidth"))?;
            link.set_bandwidth(bandwidth).map_err(|why| HandlerError::Failed(why).said_as(SMALL))?;
            link.reset(cx);
        };
        sum "size" => |link| link.link.len();
        write "reset" => |link, cx| link.reset(cx);
    })
    .hot_swap::<LinkUnqueue>()
    .rehearsal::<LinkUnqueue>()
    .packet_holder::<LinkUnqueue>()
    .file(file!());

/// Bytes per second of the slowest link.
const SLOWEST: u64 = 100;

#[derive(Default)]
struct LinkUnqueue {
    latency: Nanos,
    /// In hundreds of bytes per second.
    bandwidth: u64,
    /// Packets on the link, each with the time of its leaving as its timestamp.
    link: VecDeque<Packet>,
    /// The last attempt to fetch a packet found one.
    busy: bool,
}

impl LinkUnqueue {
    /// The time that the packet's bits take to enter the link.
    fn sending(&self, packet: &Packet) -> Nanos {
        let length = packet.len() as u64 + u64::from(packet.anno_u32(anno::EXTRA_LENGTH));
        length * 10_000 / self.bandwidth * 1000
    }

    fn has_room(&self, enters: Nanos) -> bool {
        self.link.back().is_none_or(|p| p.timestamp_ns() <= enters)
    }

    /// Fetches packets as far as the link has room; returns whether there were any.
    fn fetch(&mut self, cx: &mut Cx<'_>, now: Nanos) -> bool {
        let enters = now.saturating_add(self.latency);
        let before = self.link.len();
        while self.has_room(enters) {
            let Some(mut packet) = cx.pull(0, 1).pop() else {
                self.busy = false;
                break;
            };
            let from = self.link.back().filter(|_| self.busy).map_or(enters, Packet::timestamp_ns);
            let leaves = from.saturating_add(self.sending(&packet));
            packet.set_timestamp_ns(leaves);
            self.link.push_back(packet);
            self.busy = true;
        }
        self.link.len() > before
    }

    fn reset(&mut self, cx: &mut Cx<'_>) {
        let link: Batch = self.link.drain(..).collect();
        cx.drop_batch(Reason::Discarded, link);
        self.busy = false;
        cx.clear_timer(0);
        cx.schedule();
    }

    fn set_bandwidth(&mut self, bandwidth: Bandwidth) -> Result<(), String> {
        if bandwidth.bytes_per_second < SLOWEST {
            return Err(format!("BANDWIDTH must be at least {SLOWEST} bytes per second"));
        }
        self.bandwidth = bandwidth.bytes_per_second / 100;
        Ok(())
    }
}

/// What Click says of a link that is too slow.
const SMALL: &str = "bandwidth too small, minimum 100Bps";

impl Element for LinkUnqueue {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.latency = nanos(args.required("LATENCY"));
        let bandwidth: Bandwidth = args.required("BANDWIDTH");
        if args.errors().is_empty()
            && let Err(why) = self.set_bandwidth(bandwidth)
        {
            args.error_as(why, SMALL.to_owned());
        }
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let (now, wall) = (cx.now(), cx.wall());
        let mut worked = self.fetch(cx, wall);
        let mut batch = Batch::new();
        while self.link.front().is_some_and(|p| p.timestamp_ns() <= wall) {
            batch.extend(self.link.pop_front());
        }
        worked |= !batch.is_empty();
        cx.push(0, batch);
        if let (Some(first), Some(last)) = (self.link.front(), self.link.back()) {
            // The earlier of the next one's leaving and the last one's having entered.
            let room = last.timestamp_ns().saturating_sub(self.latency);
            let full = room > wall;
            let at = first.timestamp_ns().min(if full { room } else { Nanos::MAX });
            let at = Some(now.saturating_add(at.saturating_sub(wall)));
            // With room on the link a packet may come at any time, so the task stays in line.
            if full { rest_until(cx, at) } else { look_again_at(cx, at) }
        }
        worked
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        cx.schedule();
    }
}

impl PacketHolder for LinkUnqueue {
    fn held(&self) -> usize {
        self.link.len()
    }
}

impl Rehearsal for LinkUnqueue {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

impl HotSwap for LinkUnqueue {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<LinkUnqueue>(old) else { return false };
        self.link.append(&mut old.link);
        self.link.make_contiguous().sort_by_key(Packet::timestamp_ns);
        self.busy |= old.busy;
        true
    }
}

#[cfg(test)]
mod tests {
    use engine::clock::SIMULATION_EPOCH;

    use super::*;
    use crate::testing::Rig;

    /// When packets of these lengths, all there at the start, leave the link and reach the sink, in milliseconds.
    fn check(element: &str, lengths: &[usize], want: &[u64]) {
        let text = format!("i :: TestIn -> Queue -> e :: {element} -> t :: TimeRange -> o :: TestOut;");
        let inputs: Vec<Vec<u8>> = lengths.iter().map(|n| vec![0; *n]).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        for burst in [1, 32] {
            let mut run = Rig::text(&text).burst(burst).inputs(&inputs).run();
            let at = |ns: u64| (ns - SIMULATION_EPOCH) / 1_000_000;
            let times: Vec<u64> = run.out("o").iter().map(|p| at(p.timestamp_ns())).collect();
            assert_eq!((times.as_slice(), run.read("e.size").as_str()), (want, "0"), "{element}");
        }
    }

    #[test]
    fn latency_and_bandwidth_add_up() {
        // A byte takes a millisecond.
        check("LinkUnqueue(100ms, 8kbps)", &[10, 20, 5], &[110, 130, 135]);
        check("LinkUnqueue(0, 1000)", &[10, 20, 5], &[10, 30, 35]);
        check("LinkUnqueue(1s, 1GBps)", &[10, 20, 5], &[1000, 1000, 1000]);
    }

    #[test]
    fn packets_leave_at_their_time_and_the_link_idles_between() {
        let text = "TimedSource(0.1, DATA abcde, LIMIT 3) -> Queue -> e :: LinkUnqueue(20ms, 1000) -> SetTimestamp -> o :: TestOut;";
        for burst in [1, 32] {
            let run = Rig::text(text).burst(burst).run();
            let at = |p: &Packet| (p.timestamp_ns() - SIMULATION_EPOCH) / 1_000_000;
            assert_eq!(run.out("o").iter().map(at).collect::<Vec<_>>(), [125, 225, 325]);
        }
    }

    #[test]
    fn handlers_show_change_and_reset() {
        let text = "i :: TestIn -> Queue -> e :: LinkUnqueue(1, 8kbps) -> o :: TestOut;";
        let run = Rig::text(text).inputs(&[&[0; 100], &[0; 100]]).ready();
        let mut run = run.run_for(Duration::from_millis(150));
        assert_eq!(
            (run.read("e.latency"), run.read("e.bandwidth"), run.read("e.size")),
            ("1s".into(), "1000".into(), "2".into())
        );
        run.write("e.latency", "20ms").unwrap();
        assert_eq!((run.read("e.latency"), run.read("e.size")), ("20ms".into(), "0".into()));
        assert_eq!(run.drops("e"), [(Reason::Discarded, 2)]);
        assert!(run.write("e.bandwidth", "99").is_err());
        run.write("e.bandwidth", "10kBps").unwrap();
        assert_eq!(run.read("e.bandwidth"), "10000");
    }

    #[test]
    fn arguments_are_checked() {
        let errors = Rig::text("Idle -> e :: LinkUnqueue(1, 99) -> Discard;").errors();
        assert_eq!(errors, ["e: BANDWIDTH must be at least 100 bytes per second"]);
    }
}
