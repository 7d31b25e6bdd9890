// SPDX-License-Identifier: MIT OR Apache-2.0
//! # FastUDPSource
//!
//! `FastUDPSource(RATE, LIMIT, LENGTH, SRCETH, SRCIP, SPORT, DSTETH, DSTIP, DPORT [, CHECKSUM, INTERVAL, ACTIVE])`
//!
//! Makes identical UDP packets in Ethernet frames, for load tests.
//!
//! **Ports:** 1 output, agnostic: with a pull output it makes packets when asked, but no faster than RATE.
//!
//! **Arguments**
//! * `RATE` packets per second; 0 for as fast as they are taken.
//! * `LIMIT` packets in all, -1 for no limit.
//! * `LENGTH` bytes of the frame without its checksum, 60 to 65535; less is taken for 60.
//! * `SRCETH`, `SRCIP`, `SPORT`, `DSTETH`, `DSTIP`, `DPORT` addresses and ports.
//! * `CHECKSUM` boolean, default true: whether the UDP checksum is filled in.
//! * `INTERVAL` packets after which the rate is measured anew, default 0: never.
//! * `ACTIVE` boolean, default true.
//!
//! **Metadata set:** network and transport header, destination address, timestamp.
//!
//! **Drops:** none; when packet memory is exhausted it waits, and also while all queues that it fills are full.
//!
//! **Handlers**
//! * `count` read: packets made. `rate` read: packets per second, measured from the first to the last.
//! * `reset` write: sets the count to zero and starts again. `active` read/write: the argument.
//!
//! ```click
//! FastUDPSource(100000, 50, 60, 0:0:0:0:0:1, 10.0.0.1, 1234, 0:0:0:0:0:2, 10.0.0.2, 1234) -> Discard;
//! ```
//!
//! See also: InfiniteSource, RatedSource

use std::net::Ipv4Addr;

use element::args::{Args, Port};
use element::clock::{Nanos, SECOND};
use element::swap::Count;
use element::{Class, Cx, Element, HotSwap, InitCx, OpenCx, PlacementRules, Tasks, handlers, swap};
use packet::{Batch, HEADROOM, Packet};
use wire::{MacAddr, Protocol, checksum};

use super::{PULLED, left};
use crate::tools::{Filled, TokenBucket, look_again_at, needed, rest_until};

/// The descriptor.
pub const CLASS: Class = Class::new("FastUDPSource", "0/1", || Box::new(FastUdpSource::default()))
    .handlers(handlers! { FastUdpSource:
        sum "count" => .count;
        sum "rate" => |source| source.rate();
        write "reset" => |source, cx| {
            source.count.reset();
            source.begin_anew(cx);
        };
        both "active" => .active |source, cx, active: bool| {
            source.active = active;
            source.begin_anew(cx);
        };
    })
    .hot_swap::<FastUdpSource>()
    .placement_rules::<FastUdpSource>()
    .file(file!());

const ETHERNET: usize = 14;
const IP: usize = 20;

#[derive(Default)]
struct FastUdpSource {
    frame: Vec<u8>,
    destination: [u8; 4],
    /// Absent when the rate is not limited.
    bucket: Option<TokenBucket>,
    limit: i64,
    interval: u64,
    active: bool,
    pushes: bool,
    count: Count,
    /// Since when the rate is measured, until when, and packets in between.
    measured: Option<(Nanos, Nanos, u64)>,
    filled: Filled,
}

/// Addresses and ports of one end.
struct End {
    mac: MacAddr,
    ip: Ipv4Addr,
    port: Port,
}

/// An Ethernet frame of `length` bytes with a UDP packet in it.
fn frame(length: usize, from: &End, to: &End, with_checksum: bool) -> Vec<u8> {
    let mut frame = Vec::with_capacity(length);
    frame.extend(to.mac.0);
    frame.extend(from.mac.0);
    frame.extend([0x08, 0x00]);
    let total = (length - ETHERNET) as u16;
    let mut header = [0; IP];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[8] = 64;
    header[9] = 17;
    header[12..16].copy_from_slice(&from.ip.octets());
    header[16..20].copy_from_slice(&to.ip.octets());
    let sum = checksum::header20_checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    let mut datagram = vec![0; length - ETHERNET - IP];
    datagram[0..2].copy_from_slice(&from.port.0.to_be_bytes());
    datagram[2..4].copy_from_slice(&to.port.0.to_be_bytes());
    datagram[4..6].copy_from_slice(&(total - IP as u16).to_be_bytes());
    if with_checksum {
        // Zero would say that there is none (RFC 768).
        let sum = match checksum::transport_v4(from.ip, to.ip, Protocol::UDP, &datagram) {
            0 => 0xffff,
            sum => sum,
        };
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    frame.extend(datagram);
    frame
}

fn end(args: &mut Args<'_>, names: [&'static str; 3]) -> End {
    let mac = needed(args, names[0], MacAddr::ZERO);
    End { mac, ip: needed(args, names[1], Ipv4Addr::UNSPECIFIED), port: args.required(names[2]) }
}

impl FastUdpSource {
    fn make(&mut self, cx: &mut Cx<'_>, max: usize) -> Batch {
        let now = cx.now();
        let due = match &mut self.bucket {
            Some(bucket) => {
                bucket.refill(now);
                usize::try_from(bucket.tokens()).unwrap_or(usize::MAX)
            }
            None => usize::MAX,
        };
        let wanted = max.min(due).min(left(self.limit, *self.count));
        let (wall, frame, destination) = (cx.wall(), &self.frame, self.destination);
        let mut batch = Batch::new();
        let made = Packet::alloc_bulk(wanted, HEADROOM, frame.len(), |mut p| {
            p.data_mut().copy_from_slice(frame);
            p.set_mac_offset(0);
            p.set_network(ETHERNET, IP);
            p.set_dst_ip(destination);
            p.set_timestamp_ns(wall);
            batch.push(p);
        }) as u64;
        if let Some(bucket) = &mut self.bucket {
            bucket.remove(made);
        }
        self.count += made;
        cx.made(made as usize);
        if made > 0 {
            self.measure(now, made);
        }
        batch
    }

    fn measure(&mut self, now: Nanos, made: u64) {
        let (first, _, n) = self.measured.unwrap_or((now, now, 0));
        self.measured = Some(match self.interval {
            interval if interval > 0 && n >= interval => (now, now, made),
            _ => (first, now, n + made),
        });
    }

    fn rate(&self) -> f64 {
        match self.measured {
            // n packets are n - 1 intervals apart.
            Some((first, last, n)) if last > first => (n - 1) as f64 * SECOND as f64 / (last - first) as f64,
            _ => 0.0,
        }
    }

    fn restart(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if let Some(bucket) = &mut self.bucket {
            bucket.set_level(now, 1);
        }
        self.measured = None;
    }

    fn next_at(&self) -> Option<Nanos> {
        self.bucket.as_ref().and_then(|b| b.when(1))
    }
}

impl FastUdpSource {
    fn begin_anew(&mut self, cx: &mut Cx<'_>) {
        self.restart(cx);
        cx.schedule_if(self.pushes && self.active && left(self.limit, *self.count) > 0);
    }
}

impl Element for FastUdpSource {
    fn configure(&mut self, args: &mut Args<'_>) {
        let rate: u64 = args.required("RATE");
        self.limit = args.required("LIMIT");
        let length = args.required::<u16>("LENGTH").max(60);
        let from = end(args, ["SRCETH", "SRCIP", "SPORT"]);
        let to = end(args, ["DSTETH", "DSTIP", "DPORT"]);
        let with_checksum = args.positional("CHECKSUM", true);
        self.interval = args.positional("INTERVAL", 0);
        self.active = args.positional("ACTIVE", true);
        self.pushes = !args.output_is_pull(0);
        self.bucket = (rate > 0).then(|| TokenBucket::new(rate, (rate / 100).max(2)));
        self.destination = to.ip.octets();
        self.frame = frame(length.into(), &from, &to, with_checksum);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(if self.pushes { Tasks::One } else { Tasks::None })
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.filled = Filled::find(cx);
        self.restart(cx);
        if self.pushes && self.active && cx.task().is_some() {
            cx.schedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        if left(self.limit, *self.count) == 0 {
            cx.unschedule();
            return false;
        }
        // One with a rate sends on time, come what may.
        let room = if self.bucket.is_none() { self.filled.room(cx) } else { usize::MAX };
        if room == 0 {
            self.filled.wait(cx);
            return false;
        }
        let max = cx.burst().min(room);
        let batch = self.make(cx, max);
        if batch.is_empty() && self.bucket.is_some() {
            rest_until(cx, self.next_at());
        }
        let any = !batch.is_empty();
        cx.push(0, batch);
        any
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        if self.pushes && self.active && left(self.limit, *self.count) > 0 {
            cx.schedule();
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        if !self.active || left(self.limit, *self.count) == 0 {
            return Batch::new();
        }
        let batch = self.make(cx, max);
        if batch.is_empty() {
            look_again_at(cx, self.next_at());
        }
        batch
    }
}

impl PlacementRules for FastUdpSource {
    fn one_order(&self) -> Option<&'static str> {
        (!self.pushes).then_some(PULLED)
    }
}

impl HotSwap for FastUdpSource {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<FastUdpSource>(old) else { return false };
        self.count.take(&mut old.count);
        self.measured = old.measured.take();
        if let (Some(mine), Some(theirs)) = (&mut self.bucket, &old.bucket) {
            mine.follow(theirs);
        }
        if left(self.limit, *self.count) == 0 {
            cx.unschedule();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    const ENDS: &str = "0:0:0:0:0:1, 10.0.0.1, 1234, 0:0:0:0:0:2, 10.0.0.2, 80";

    #[test]
    fn frames_are_right() {
        for (length, want) in [(60, 60), (20, 60), (101, 101)] {
            let run = Rig::text(&format!("FastUDPSource(0, 2, {length}, {ENDS}) -> o :: TestOut;")).run();
            let out = run.out("o");
            assert_eq!((out.len(), out[0].data()), (2, out[1].data()));
            let frame = out[0].data();
            assert_eq!((frame.len(), &frame[..14]), (want, &[0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 8, 0][..]));
            let ip: &[u8; 20] = frame[14..].first_chunk().unwrap();
            assert!(checksum::header20_ok(ip));
            let datagram = &frame[34..];
            assert_eq!(usize::from(u16::from_be_bytes([datagram[4], datagram[5]])), want - 34);
            assert!(checksum::transport_v4_ok(
                [10, 0, 0, 1].into(),
                [10, 0, 0, 2].into(),
                Protocol::UDP,
                datagram
            ));
            assert_eq!(
                (out[0].network_offset(), out[0].transport_offset(), out[0].dst_ip()),
                (Some(14), Some(34), [10, 0, 0, 2])
            );
        }
        let run =
            Rig::text(&format!("FastUDPSource(0, 1, 60, {ENDS}, CHECKSUM false) -> o :: TestOut;")).run();
        assert_eq!(run.bytes("o")[0][40..42], [0, 0]);
    }

    #[test]
    fn the_rate_is_kept_and_measured() {
        for (sink, burst) in [("Discard", 1), ("Discard", 32), ("Unqueue -> Discard", 32)] {
            let text = format!("e :: FastUDPSource(1000, 501, 60, {ENDS}) -> {sink};");
            let mut run = Rig::text(&text).burst(burst).run();
            assert_eq!((run.read("e.count"), run.read("e.rate")), ("501".into(), "1000".into()));
            run.write("e.reset", "").unwrap();
            assert_eq!(run.again().read("e.count"), "501");
        }
    }

    #[test]
    fn all_addresses_are_needed() {
        assert_eq!(Rig::text("e :: FastUDPSource(1, 1, 60) -> Discard;").errors().len(), 6);
    }
}
