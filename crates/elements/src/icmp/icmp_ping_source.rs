// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ICMPPingSource, ICMPSendPings
//!
//! `ICMPPingSource(SRC, DST [, keywords INTERVAL, IDENTIFIER, DATA, LIMIT, ACTIVE, VERBOSE, STOP])`
//!
//! Sends ICMP echo requests at an interval, and reports the replies that come to its input.
//!
//! **Ports:** 0 or 1 push input for replies; 1 push output for requests.
//!
//! **Arguments**
//! * `SRC`, `DST` addresses of the requests.
//! * `INTERVAL` time between requests, default 1 s.
//! * `IDENTIFIER` ICMP identifier as the bytes stand in memory of a little-endian machine, as in Click; default 0.
//! * `DATA` what requests carry, default nothing.
//! * `LIMIT` requests in all, default -1: no limit.
//! * `ACTIVE` boolean, default true.
//! * `VERBOSE` boolean, default true: prints a line about each reply.
//! * `STOP` boolean, default false: asks the driver to stop one interval after the last request.
//!
//! **Metadata:** of requests, header positions, destination annotation and timestamp are set; of replies, network header
//! position and timestamp are read.
//!
//! **Drops:** `discarded`, every packet that comes to the input, replies once read.
//!
//! **Handlers**
//! * `active`, `src`, `dst`, `limit`, `interval` read/write: the arguments. `count` read: requests sent.
//! * `summary`, `rtt_min`, `rtt_avg`, `rtt_max` read: replies and their round-trip times in seconds.
//! * `reset_counts` write: starts again.
//!
//! ```click
//! ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 3, STOP true) -> Discard;
//! ```
//!
//! See also: ICMPPingResponder. RFC 792

use std::net::Ipv4Addr;
use std::time::Duration;

use element::args::Args;
use element::clock::Nanos;
use element::{
    Class, Cx, Element, Handler, HandlerError, HotSwap, InitCx, OpenCx, Reason, Tasks, handlers, swap,
};
use packet::{Batch, HEADROOM, Packet};

use crate::ip::Address;
use crate::tools::{number, value};

const HANDLERS: &[Handler] = handlers! { IcmpPingSource:
    both "active" => .active |source, cx, active: bool| {
        source.active = active;
        source.restart(cx, Duration::ZERO);
    };
    both "src" => .src.0 |source, cx, address: Ipv4Addr| {
        source.src = Address(address);
        source.restart(cx, source.interval);
    };
    both "dst" => .dst.0 |source, cx, address: Ipv4Addr| {
        source.dst = Address(address);
        source.restart(cx, source.interval);
    };
    both "limit" => .limit |source, cx, text: &str| {
        source.limit = number("limit", text)?;
        source.restart(cx, source.interval);
    };
    both "interval" => |source| source.interval.as_secs_f64(), |source, cx, text: &str| {
        let interval: Duration = value("interval", text)?;
        if interval.is_zero() {
            return Err(HandlerError::bad_value("interval", text, "a time above zero"));
        }
        source.interval = interval;
        source.restart(cx, interval);
    };
    read "count" => .count;
    read "summary" => |source| source.summary();
    read "rtt_min" => |source| seconds(source.times.min);
    read "rtt_avg" => |source| seconds(source.times.average());
    read "rtt_max" => |source| seconds(source.times.max);
    write "reset_counts" => |source, cx| {
        (source.count, source.received, source.duplicates) = (0, 0, 0);
        (source.sent, source.times) = (Vec::new(), Times::default());
        source.restart(cx, source.interval);
    };
};

const fn class(name: &'static str) -> Class {
    Class::new(name, "0-1/1", || Box::<IcmpPingSource>::default())
        .processing("h/h")
        .serial("requests are numbered in one sequence, and answers looked up in it")
        .handlers(HANDLERS)
        .hot_swap::<IcmpPingSource>()
        .file(file!())
}

/// The descriptor.
pub const CLASS: Class = class("ICMPPingSource");
/// The descriptor of an older name.
pub const SEND_PINGS: Class = class("ICMPSendPings");

#[derive(Default)]
struct IcmpPingSource {
    src: Address,
    dst: Address,
    interval: Duration,
    identifier: u16,
    data: Vec<u8>,
    limit: i64,
    active: bool,
    verbose: bool,
    stop: bool,
    count: u64,
    /// When requests were sent, by sequence number, and whether they were answered.
    sent: Vec<(Nanos, bool)>,
    received: u64,
    duplicates: u64,
    times: Times,
    /// When the timer was last to expire.
    due: Nanos,
}

/// Round-trip times in microseconds.
#[derive(Default)]
struct Times {
    min: u64,
    max: u64,
    sum: u64,
    square_sum: u64,
    n: u64,
}

impl Times {
    fn add(&mut self, us: u64) {
        self.min = if self.n == 0 { us } else { self.min.min(us) };
        self.max = self.max.max(us);
        self.sum += us;
        self.square_sum = self.square_sum.saturating_add(us.saturating_mul(us));
        self.n += 1;
    }

    fn average(&self) -> u64 {
        self.sum / self.n.max(1)
    }

    fn deviation(&self) -> u64 {
        (self.square_sum / self.n.max(1)).saturating_sub(self.average() * self.average()).isqrt()
    }
}

/// Milliseconds with three digits.
fn ms(us: u64) -> String {
    format!("{}.{:03}", us / 1000, us % 1000)
}

impl IcmpPingSource {
    fn left(&self) -> bool {
        u64::try_from(self.limit).map_or(true, |limit| self.count < limit)
    }

    /// Sets the timer if there is something to send and it does not run.
    fn start(&mut self, cx: &mut Cx<'_>, after: Duration) {
        if self.active && self.left() && cx.timer(0).is_none() {
            self.wait(cx, after);
        }
    }

    fn wait(&mut self, cx: &mut Cx<'_>, after: Duration) {
        self.due = cx.now().saturating_add(after.as_nanos() as Nanos);
        cx.set_timer(0, self.due);
    }

    fn request(&mut self, now: Nanos) -> Option<Packet> {
        let id = (self.count % 0xffff) as u16 + 1;
        let header = wire::ipv4::Repr {
            src: self.src.0,
            dst: self.dst.0,
            protocol: wire::Protocol::ICMP,
            payload_len: u16::try_from(self.data.len() + 8).ok()?,
            ttl: 200,
            id,
            ..Default::default()
        };
        let mut packet = Packet::alloc(HEADROOM, 28 + self.data.len())?;
        let bytes = packet.data_mut();
        header.emit(bytes).ok()?;
        let icmp = &mut bytes[20..];
        icmp[..4].copy_from_slice(&[8, 0, 0, 0]);
        icmp[4..6].copy_from_slice(&self.identifier.to_le_bytes());
        icmp[6..8].copy_from_slice(&id.to_be_bytes());
        icmp[8..].copy_from_slice(&self.data);
        let sum = wire::checksum::internet(icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        packet.set_network(0, 20);
        packet.set_dst_ip(self.dst.0.octets());
        packet.set_timestamp_ns(now);
        if self.sent.is_empty() {
            self.sent.resize(1 << 16, (0, false));
        }
        self.sent[usize::from(id)] = (now, false);
        self.count += 1;
        Some(packet)
    }

    /// Reads a reply to one of our requests.
    fn reply(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Option<()> {
        let ip = packet.network()?;
        let header = ip.first_chunk::<20>()?;
        let header_len = usize::from(header[0] & 15) * 4;
        let icmp = ip.get(header_len..)?.first_chunk::<8>()?;
        if header[9] != 1 || icmp[0] != 0 || icmp[4..6] != self.identifier.to_le_bytes() {
            return None;
        }
        let sequence = u16::from_be_bytes([icmp[6], icmp[7]]);
        let (sent, answered) = self.sent.get_mut(usize::from(sequence)).filter(|(sent, _)| *sent > 0)?;
        if std::mem::replace(answered, true) {
            self.duplicates += 1;
        }
        let us = match packet.timestamp_ns() {
            0 => 0,
            at => at.saturating_sub(*sent) / 1000,
        };
        if packet.timestamp_ns() > 0 {
            self.times.add(us);
        }
        self.received += 1;
        if self.verbose {
            let len = usize::from(u16::from_be_bytes([header[2], header[3]])).saturating_sub(header_len + 8);
            let from = crate::ip::faults::addresses(header).0;
            let (name, ttl) = (cx.name(), header[8]);
            let line = format!("{len} bytes from {from}: icmp_seq={sequence} ttl={ttl} time={} ms", ms(us));
            cx.print(&format!("{name} :: ICMPPingSource: {line}"));
        }
        Some(())
    }

    fn summary(&self) -> String {
        let answered = self.received - self.duplicates;
        let mut text = format!("{} packets transmitted, {answered} received", self.count);
        if self.duplicates > 0 {
            text += &format!(", +{} duplicates", self.duplicates);
        }
        if self.count > 0 {
            let lost = self.count.saturating_sub(answered);
            text += &format!(", {}% packet loss\n", lost * 100 / self.count);
        }
        if self.received > 0 {
            let t = &self.times;
            let [min, avg, max, dev] = [t.min, t.average(), t.max, t.deviation()].map(ms);
            text += &format!("rtt min/avg/max/mdev = {min}/{avg}/{max}/{dev}\n");
        }
        text
    }
}

impl IcmpPingSource {
    /// Goes on with what a handler has changed, after this time.
    fn restart(&mut self, cx: &mut Cx<'_>, after: Duration) {
        if !self.active {
            cx.clear_timer(0);
        }
        self.start(cx, after);
    }
}

impl Element for IcmpPingSource {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.src = args.required("SRC");
        self.dst = args.required("DST");
        self.interval = args.keyword("INTERVAL", Duration::from_secs(1));
        self.identifier = args.keyword("IDENTIFIER", 0);
        self.data = args.keyword("DATA", Vec::new());
        self.limit = args.keyword("LIMIT", -1);
        self.active = args.keyword("ACTIVE", true);
        self.verbose = args.keyword("VERBOSE", true);
        self.stop = args.keyword("STOP", false);
        if self.data.len() > 65507 {
            args.error("DATA must not exceed 65507 bytes");
        }
        if args.errors().is_empty() && self.interval.is_zero() {
            args.error("INTERVAL must not be zero");
        }
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if cx.is_home() {
            self.start(cx, self.interval);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        if !self.left() {
            if self.stop {
                cx.please_stop();
            }
            return;
        }
        let now = cx.wall();
        match self.request(now) {
            Some(packet) => {
                cx.made(1);
                cx.push_one(0, packet);
            }
            None => cx.count_drops(Reason::NoMemory, 0),
        }
        self.wait(cx, self.interval);
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        for packet in batch.iter() {
            self.reply(cx, packet);
        }
        cx.drop_batch(Reason::Discarded, batch);
    }
}

impl HotSwap for IcmpPingSource {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<IcmpPingSource>(old) else { return false };
        if self.count == 0 {
            (self.count, self.sent) = (std::mem::take(&mut old.count), std::mem::take(&mut old.sent));
            (self.received, self.duplicates) = (old.received, old.duplicates);
            self.times = std::mem::take(&mut old.times);
            // The wait goes on, if there was one, or else would begin now.
            if old.active && cx.timer(0).is_some() {
                self.due = self.due.min(old.due);
                cx.set_timer(0, self.due);
            }
        }
        true
    }
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn pings_and_hears_the_replies() {
        let text = "e :: ICMPPingSource(1.2.3.4, 5.6.7.8, INTERVAL 0.5, IDENTIFIER 7, DATA abc, LIMIT 3, STOP true)
            -> t :: Tee -> ICMPPingResponder -> CheckIPHeader -> CheckICMPHeader -> e; t[1] -> o0 :: TestOut;";
        for burst in [1, 32] {
            let mut run = Rig::text(text).burst(burst).run();
            let out = run.bytes("o0");
            assert_eq!(out.len(), 3);
            assert_eq!(
                (&out[2][4..6], &out[2][20..22], &out[2][24..]),
                (&[0, 3][..], &[8, 0][..], &b"\x07\0\0\x03abc"[..])
            );
            let line = "e :: ICMPPingSource: 3 bytes from 5.6.7.8: icmp_seq=1 ttl=255 time=0.000 ms\n";
            assert!(run.printed().starts_with(line), "{}", run.printed());
            assert!(run.read("e.summary").starts_with("3 packets transmitted, 3 received, 0% packet loss\n"));
        }
    }

    #[test]
    fn arguments() {
        assert_eq!(
            Rig::text("e :: ICMPPingSource(1.2.3.4, 5.6.7.8, INTERVAL 0) -> Discard;").errors(),
            ["e: INTERVAL must not be zero"]
        );
    }
}
