// SPDX-License-Identifier: MIT OR Apache-2.0
//! # FromDevice, PollDevice
//!
//! `FromDevice(DEVNAME [, PROMISC, SNAPLEN, keywords BURST, METHOD, QUEUE, N_QUEUES, SNIFFER, HEADROOM, TIMESTAMP, FORCE_IP, BPF_FILTER, URGENT, OUTBOUND, ACTIVE, STOP, SETTING])`
//!
//! Receives packets from a network device.
//!
//! **Ports:** 1 push output.
//!
//! **Arguments**
//! * `DEVNAME` the device: a network interface, or what else METHOD makes of the name.
//! * `PROMISC` boolean, default false: receive frames addressed to others, too. Without it such frames are dropped where
//!   the device delivers them all the same, as virtual interfaces do.
//! * `SNAPLEN` bytes of each frame to receive at most, default 0: whole frames.
//! * `BURST` packets taken from a queue at a time, default the router's burst.
//! * `METHOD` driver, default `auto`, the best that works: `AF_XDP`, `AF_XDP_GENERIC`, `AF_PACKET` (or `LINUX`, `PCAP`),
//!   `TAP`, `TUN`, `MEMORY`, `FILE`. `CAPTURE` is a synonym.
//! * `QUEUE` the only receive queue to use; default all. `N_QUEUES` how many the device should have, 1 to 256.
//! * `SNIFFER` boolean: leave the kernel its own copy of what is received; default the driver's way.
//! * `HEADROOM` bytes of free room before each frame, default the packets' usual 128.
//! * `TIMESTAMP` boolean, default true: packets carry the time of reception.
//! * `FORCE_IP` boolean, default false: only IP packets; the network header is marked, the link header stays.
//! * `BPF_FILTER` expression as for tcpdump (`man pcap-filter`), default empty: receive only packets that it accepts. Needs
//!   libpcap on the machine when the router starts. Without METHOD it chooses `AF_PACKET`, where the kernel keeps what is
//!   refused; with other drivers refused packets are taken and dropped. Frames that the kernel joined are judged twice, joined
//!   and single.
//! * `URGENT` boolean, default false: receive packets of BFD by a ring of their own, and before others. So they do not wait, and are not lost, under overload.
//!   They are a quarter of BURST at most. BFD is UDP to port 3784 with TTL 255, to port 3785 with TTL 254 or 255, and to port 4784; others come with the data.
//!   The kernel's own protocols do not get these packets unless SNIFFER is true; that needs Linux 6.6. A swap can give an open device the ring, which then
//!   stays until the device is closed. With AF_PACKET and AF_XDP; other drivers have one ring for all. Not together with BPF_FILTER.
//! * `OUTBOUND` boolean, default false: receive also what this host sends.
//! * `ACTIVE` boolean, default true.
//! * `STOP` boolean, default false: asks the driver to stop when the device has ended, as a file does.
//! * `SETTING` `KEY VALUE`, may be repeated: what only some drivers know.
//!
//! **Cores:** every worker serves its share of the receive queues: of T workers, number t serves queues t, t+T, ....
//! What follows runs on the worker that received a packet.
//!
//! **Metadata set:** timestamp, packet type, link header; with FORCE_IP network header and destination address.
//!
//! **Drops:** `not-for-us`, frames for other hosts, without PROMISC; `bad-protocol` with FORCE_IP; `filtered`, refused by
//! BPF_FILTER, unless the kernel did it. What the kernel dropped before is in `kernel_drops`.
//!
//! **Handlers**
//! * `count`, `byte_count` read: packets and bytes received. `reset_counts` write: sets the counts to zero.
//! * `kernel_drops` read: packets that the kernel or the device lost before we could take them.
//! * `checksums_completed` read: packets whose sender left the transport checksum to hardware that is not there, as hosts at virtual
//!   interfaces do, and which were completed here.
//! * `no_memory` read: packets lost for want of packet memory.
//! * `active` read/write.
//! * `driver`, `mac`, `mtu`, `queues`, `encap` read: the device as it was opened.
//! * `link` read: `up`, `down` or `gone`. `link_changes` read: how often it changed.
//!
//! ```click
//! FromDevice(wire0, METHOD MEMORY) -> Discard;
//! ```
//!
//! See also: ToDevice, FromDump, KernelTap, MemoryPort

use std::sync::Arc;
use std::sync::atomic::Ordering;

use std::os::fd::RawFd;

use element::args::Args;
use element::clock::Nanos;
use element::stats::{self, Stat};
use element::swap::Count;
use element::{
    Class, Cx, DeviceArg, DeviceQueues, Element, Handler, HotSwap, InitCx, OpenCx, Provide, Provided, Reason,
    Rehearsal, Rehearsed, SharedState, Statistics, Tasks, declare, handlers, swap,
};
use packet::filter::Filter;
use packet::port::{Link, QueueStats, RxQueue, Spec, link_type};
use packet::{Batch, Facts, Packet, PacketType, anno};

use super::device::{self, Opened, OverDevice, Watch, mark_groups, mark_ip};
use super::from_dump::Encap;

const fn class(name: &'static str) -> Class {
    FromDevice::with_capabilities(
        Class::new(name, "0/1", || Box::new(FromDevice::default()))
            .processing("h/h")
            .device(DeviceArg::First("DEVNAME"))
            .handlers(HANDLERS)
            .file(file!()),
    )
}

const HANDLERS: &[Handler] = &declare::joined::<14>(&[
    handlers! { FromDevice:
        sum "count" => .count;
        sum "byte_count" => .bytes;
        sum "kernel_drops" => |from| from.missed();
        sum "no_memory" => |from| from.no_memory();
        write "reset_counts" => |from| from.reset_counts();
        both "active" => .config.active |from, cx, active: bool| from.set_active(cx, active);
    },
    &device::reads::<FromDevice>(),
    handlers! { FromDevice:
        sum "checksums_completed" => |from| from.completed();
    },
]);

/// The descriptor.
pub const FROM_DEVICE: Class = class("FromDevice");
/// The descriptor of a synonym.
pub const POLL_DEVICE: Class = class("PollDevice");

/// The timer by which a worker that sleeps looks at a device that asks for it.
const TEND: u32 = 0;

/// How packets are received.
#[derive(Clone, Default)]
pub(super) struct Config {
    pub(super) spec: Spec,
    /// Which packets are wanted, empty for all.
    pub(super) expression: String,
    pub(super) queue: Option<usize>,
    pub(super) burst: usize,
    pub(super) timestamp: bool,
    pub(super) force_ip: bool,
    pub(super) active: bool,
    pub(super) stop: bool,
}

/// Reads the arguments of FromDevice.
fn read(args: &mut Args<'_>) -> Config {
    let mut spec = device::arguments(args);
    spec.device = args.required("DEVNAME");
    spec.promiscuous = args.positional("PROMISC", false);
    spec.snaplen = args.positional("SNAPLEN", 0);
    spec.sniffer = args.keyword_opt("SNIFFER");
    spec.outbound = args.keyword("OUTBOUND", false);
    spec.headroom = args.keyword("HEADROOM", 0);
    let expression = args.keyword("BPF_FILTER", String::new());
    spec.filtered = !expression.trim().is_empty();
    spec.urgent = args.keyword("URGENT", false);
    if spec.urgent && spec.filtered {
        args.error("URGENT and BPF_FILTER do not go together: leave one of them out");
    }
    if spec.headroom > 8192 {
        args.error("HEADROOM must be at most 8192 bytes");
    }
    Config {
        spec,
        expression,
        queue: args.keyword_opt("QUEUE"),
        burst: args.keyword("BURST", 0),
        timestamp: args.keyword("TIMESTAMP", true),
        force_ip: args.keyword("FORCE_IP", false),
        active: args.keyword("ACTIVE", true),
        stop: args.keyword("STOP", false),
    }
}

/// The receiving half of a device.
#[derive(Default)]
pub(super) struct FromDevice {
    pub(super) config: Config,
    /// Reads the arguments of another class than FromDevice.
    reads: Option<fn(&mut Args<'_>) -> Config>,
    opened: Option<Opened>,
    filter: Option<Arc<Filter>>,
    /// Some queue leaves it to us to apply the filter.
    filters: bool,
    /// Nothing had come at the last look.
    waited: bool,
    queues: Vec<Box<dyn RxQueue>>,
    /// Their numbers, and behind them those of queues that a configuration which is still running will hand over.
    numbers: Vec<usize>,
    /// What the worker waits for when there is nothing to do: each queue's descriptor.
    descriptors: Vec<Option<RawFd>>,
    /// The queue to begin with, so that none starves.
    first: usize,
    link: u32,
    /// The driver says how frames were addressed.
    told: bool,
    watch: Watch,
    /// What others may know: the encapsulation and the link, as `watch` saw it last.
    encap: Arc<Encap>,
    home: bool,
    pub(super) count: Count,
    pub(super) bytes: Count,
    /// Losses at the last reset.
    before: QueueStats,
}

impl FromDevice {
    /// Declares what elements of this type can do besides processing packets.
    pub(super) const fn with_capabilities(class: Class) -> Class {
        class
            .provide::<Self>()
            .statistics::<Self>()
            .rehearsal::<Self>()
            .shared_state::<Self>()
            .device_queues::<Self>()
            .hot_swap::<Self>()
    }

    /// The element of another class, whose arguments this reads.
    pub(super) fn reading(read: fn(&mut Args<'_>) -> Config) -> FromDevice {
        FromDevice { reads: Some(read), ..FromDevice::default() }
    }

    pub(super) fn opened(&self) -> Option<&Opened> {
        self.opened.as_ref()
    }

    fn queue_stats(&self) -> QueueStats {
        let mut sum = QueueStats::default();
        for stats in self.queues.iter().map(|q| q.stats()) {
            sum.missed += stats.missed;
            sum.no_memory += stats.no_memory;
            sum.completed += stats.completed;
        }
        sum
    }

    /// Drops fresh packets that are not wanted, and marks what is known of the others. `first` are the first bytes of all of them
    /// together.
    #[inline]
    fn prepare(&self, cx: &mut Cx<'_>, batch: &mut Batch, first: u8) {
        if let (true, Some(filter)) = (self.filters, &self.filter) {
            let wanted =
                |p: &mut Packet| filter.accepts(p.data(), p.len() + p.anno_u32(anno::EXTRA_LENGTH) as usize);
            batch.partition(wanted, |p| cx.drop(Reason::Filtered, p));
        }
        if self.told {
            let for_others = |p: &Packet| p.is_any(Facts::OTHER_HOST);
            if !self.config.spec.promiscuous && batch.iter().any(for_others) {
                batch.partition(|p| !for_others(p), |p| cx.drop(Reason::NotForUs, p));
            }
        } else if self.link == link_type::ETHERNET && first & 1 == 1 {
            let to_group = |p: &&mut Packet| p.data().first().is_some_and(|first| first & 1 == 1);
            batch.iter_mut().filter(to_group).for_each(mark_groups);
        }
        if self.config.force_ip {
            let mut others = Batch::new();
            batch.partition(|p| mark_ip(p, self.link), |p| others.push(p));
            cx.push_or_drop(1, others, Reason::BadProtocol);
        }
    }

    fn add(&mut self, cx: &mut Cx<'_>, number: usize, mut queue: Box<dyn RxQueue>) {
        self.filters |= self.filter.as_ref().is_some_and(|filter| !queue.narrow(filter));
        let fd = queue.fd();
        if let Some(fd) = fd {
            cx.wake_on(fd);
        }
        self.descriptors.push(fd);
        self.numbers.insert(self.queues.len(), number);
        self.queues.push(queue);
    }

    fn ended(&self) -> bool {
        self.queues.iter().all(|q| q.ended())
    }

    fn look(&mut self, cx: &mut Cx<'_>, busy: bool) {
        if let (true, Some(opened)) = (self.home, &self.opened) {
            let queues = &self.queues;
            if self.watch.look(cx, opened.device(), busy, || queues.iter().find_map(|q| q.fault())) {
                self.encap.up.store(self.watch.link() == Link::Up, Ordering::Relaxed);
            }
        }
        if !busy && self.queues.iter().zip(&self.descriptors).any(|(q, fd)| q.fd() != *fd) {
            self.wait_anew(cx);
        }
    }

    /// Waits for the descriptors of queues that were opened anew, instead of their former ones.
    #[cold]
    fn wait_anew(&mut self, cx: &mut Cx<'_>) {
        for (queue, known) in self.queues.iter().zip(&mut self.descriptors) {
            let fd = queue.fd();
            if fd != *known {
                known.iter().for_each(|old| cx.unwatch(*old));
                fd.into_iter().for_each(|new| cx.wake_on(new));
                *known = fd;
            }
        }
    }
}

/// What has come between two looks at the clock is not older than the second one says: the worker may have been away for
/// milliseconds between the first one and the look that found it. Times that the device has recorded stay.
#[cold]
fn mark_anew(batch: &mut Batch, before: Nanos, now: Nanos) {
    batch.iter_mut().filter(|p| p.timestamp_ns() == before).for_each(|p| p.set_timestamp_ns(now));
}

impl FromDevice {
    pub(super) fn missed(&self) -> u64 {
        self.queue_stats().missed - self.before.missed
    }

    pub(super) fn no_memory(&self) -> u64 {
        self.queue_stats().no_memory - self.before.no_memory
    }

    pub(super) fn completed(&self) -> u64 {
        self.queue_stats().completed - self.before.completed
    }

    pub(super) fn reset_counts(&mut self) {
        self.count.reset();
        self.bytes.reset();
        self.before = self.queue_stats();
    }

    pub(super) fn set_active(&mut self, cx: &mut Cx<'_>, active: bool) {
        self.config.active = active;
        cx.schedule_if(active);
    }
}

impl OverDevice for FromDevice {
    fn over(&self) -> (Option<&Opened>, &Watch) {
        (self.opened.as_ref(), &self.watch)
    }
}

impl Element for FromDevice {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.config = self.reads.unwrap_or(read)(args);
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        let opened = Opened::open(cx, &self.config.spec, self.config.queue, |info| info.rx_queues)?;
        if self.config.spec.filtered {
            let filter = cx.filter(&self.config.expression, opened.device().link_type());
            self.filter = Some(Arc::new(filter.map_err(|e| format!("BPF_FILTER: {e}"))?));
        }
        let tasks = Tasks::Many(opened.queues.len());
        self.encap = Arc::new(Encap::of(opened.handle()));
        self.opened = Some(opened);
        Ok(tasks)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let Some((task, opened)) = cx.task().zip(self.opened.clone()) else { return Ok(()) };
        let device = opened.device();
        let mut promised = Vec::new();
        for number in opened.queues.iter().skip(task).step_by(cx.tasks().max(1)) {
            match cx.rx(opened.handle(), *number)? {
                Some(queue) => self.add(cx, *number, queue),
                None => promised.push(*number),
            }
        }
        let fresh = promised.is_empty();
        self.numbers.extend(promised);
        let info = device.info();
        (self.link, self.told) = (device.link_type(), device.tells_addressees());
        self.home = cx.is_home();
        if self.config.burst == 0 {
            self.config.burst = cx.burst();
        }
        if self.home && fresh {
            let (queues, workers) = (opened.queues.len(), cx.tasks());
            let what = format!("{}: receives by {}", info.name, info.driver);
            let several = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
            cx.print(&format!(
                "{}: {what}, {} on {}",
                cx.name(),
                several(queues, "queue"),
                several(workers, "worker")
            ));
        }
        if let Some(period) = opened.tend_every() {
            cx.set_timer_after(TEND, period);
        }
        if self.config.active {
            cx.schedule();
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        // The worker is awake now, so the task looks at the device.
        if let Some(period) = self.opened.as_ref().and_then(Opened::tend_every) {
            cx.set_timer_after(TEND, period);
        }
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let n = self.queues.len();
        let mut any = false;
        let wall = if self.config.timestamp { cx.wall() } else { 0 };
        let begin = if self.first < n { self.first } else { 0 };
        let most = cx.fair_burst(self.config.burst);
        for at in (begin..n).chain(0..begin) {
            let mut batch = Batch::new();
            let (got, first) = self.queues[at].receive_arrived(&mut batch, most, wall);
            if got > 0 {
                any = true;
                if self.waited && self.config.timestamp {
                    mark_anew(&mut batch, wall, cx.look_at_clock());
                }
                self.count += got as u64;
                cx.made(got);
                self.bytes += batch.iter().map(|p| p.len() as u64).sum::<u64>();
                self.prepare(cx, &mut batch, first);
                cx.push(0, batch);
            }
        }
        self.first = if self.first + 1 < n { self.first + 1 } else { 0 };
        self.waited = !any;
        self.look(cx, any);
        if !any && self.ended() {
            cx.unschedule();
            if self.config.stop {
                cx.please_stop();
            }
        }
        any
    }

    fn finish(&mut self, _: &mut Cx<'_>) {
        self.queues.clear();
        self.numbers.clear();
    }
}

impl Provide for FromDevice {
    fn provide(&self) -> Option<Provided> {
        Some(self.encap.clone())
    }
}

impl Statistics for FromDevice {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        let of_queues = self.queue_stats();
        put(&stats::DEVICE_PACKETS, *self.count);
        put(&stats::DEVICE_BYTES, *self.bytes);
        put(&stats::DEVICE_MISSED, of_queues.missed.saturating_sub(self.before.missed));
        put(&stats::DEVICE_COMPLETED, of_queues.completed.saturating_sub(self.before.completed));
        put(&stats::DEVICE_NO_MEMORY, of_queues.no_memory.saturating_sub(self.before.no_memory));
    }
}

impl Rehearsal for FromDevice {
    /// What it would do with a packet that came from the wire.
    fn rehearse(&mut self, cx: &mut Cx<'_>, _: usize, mut packet: Packet) -> Rehearsed {
        let first = packet.data().first().copied().unwrap_or(0);
        let own = self.opened.as_ref().and_then(|opened| opened.device().info().mac);
        if let (link_type::ETHERNET, Some(own), Some(to)) = (self.link, own, packet.data().first_chunk::<6>())
            && first & 1 == 0
            && *to != own
        {
            packet.set_packet_type(PacketType::OtherHost);
        }
        // The kernel may be who applies it to those that come.
        if self.filter.as_ref().is_some_and(|filter| !filter.accepts(packet.data(), packet.len())) {
            cx.drop(Reason::Filtered, packet);
            return Rehearsed::Done;
        }
        let mut batch = Batch::of(packet);
        self.prepare(cx, &mut batch, first);
        Rehearsed::Passes(batch)
    }
}

impl SharedState for FromDevice {
    fn share(&self) -> Option<Box<dyn Element>> {
        let (config, opened, filter) = (self.config.clone(), self.opened.clone(), self.filter.clone());
        let encap = self.encap.clone();
        Some(Box::new(FromDevice { config, opened, filter, encap, ..FromDevice::default() }))
    }
}

impl DeviceQueues for FromDevice {
    fn release(&mut self, _: &mut Cx<'_>, pool: &mut swap::DevicePool) {
        let Some(opened) = &self.opened else { return };
        for (queue, number) in self.queues.drain(..).zip(self.numbers.drain(..)) {
            pool.put_rx(opened.handle(), number, queue);
        }
        self.descriptors.clear();
    }

    fn acquire(&mut self, cx: &mut Cx<'_>, pool: &mut swap::DevicePool) {
        let Some(opened) = self.opened.clone() else { return };
        for number in self.numbers.split_off(self.queues.len()) {
            match pool.take_rx(opened.handle(), number) {
                Ok(mut queue) => {
                    // Another element's filter may be in force.
                    queue.widen();
                    self.add(cx, number, queue);
                }
                Err(why) => cx.print(&format!("{}: {why}", cx.name())),
            }
        }
    }
}

impl HotSwap for FromDevice {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<FromDevice>(old) else { return false };
        self.count.take(&mut old.count);
        self.bytes.take(&mut old.bytes);
        let watch = std::mem::take(&mut old.watch);
        let same = |a: &Opened, b: &Opened| Arc::ptr_eq(a.handle(), b.handle());
        if self.home && self.opened.as_ref().zip(old.opened.as_ref()).is_some_and(|(a, b)| same(a, b)) {
            self.watch = watch;
            self.before.missed += old.before.missed;
            self.before.no_memory += old.before.no_memory;
            self.before.completed += old.before.completed;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::io::testing::Fake;
    use crate::testing::Rig;

    const BROADCAST: &[u8] = &[0xff; 20];
    const OURS: &[u8] = &[2, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 8, 6];
    const THEIRS: &[u8] = &[2, 0, 0, 0, 0, 7, 9, 9, 9, 9, 9, 9, 8, 6];
    const GROUP: &[u8] = &[1, 0, 0x5e, 0, 0, 7, 9, 9, 9, 9, 9, 9, 8, 6];

    #[test]
    fn receives_from_all_queues_and_marks() {
        for burst in [1, 32] {
            let fake = Fake::new("eth0", &[&[BROADCAST, OURS], &[THEIRS, GROUP]]);
            fake.set_told(true);
            let text = "e :: FromDevice(eth0, PROMISC true) -> o :: TestOut;";
            let mut run = Rig::text(text).burst(burst).provider(fake).run();
            let mut got: Vec<_> = run
                .out("o")
                .iter()
                .map(|p| (p.data()[0], p.packet_type(), p.timestamp_ns() > 0, p.mac_offset()))
                .collect();
            got.sort_by_key(|g| g.1 as u8);
            let want = [
                (2, PacketType::Host),
                (0xff, PacketType::Broadcast),
                (1, PacketType::Multicast),
                (2, PacketType::OtherHost),
            ];
            assert_eq!(got, want.map(|(first, kind)| (first, kind, true, Some(0))));
            assert_eq!(run.printed(), "e: eth0: receives by fake, 2 queues on 1 worker\n");
            for (handler, want) in [
                ("count", "4"),
                ("byte_count", "62"),
                ("kernel_drops", "5"),
                ("mac", "02-00-00-00-00-01"),
                ("mtu", "1500"),
                ("queues", "2"),
                ("link", "up"),
                ("encap", "ETHER"),
                ("driver", "fake"),
            ] {
                assert_eq!(run.read(&format!("e.{handler}")), want, "{handler}");
            }
            run.write("e.reset_counts", "").unwrap();
            for handler in ["e.count", "e.byte_count", "e.kernel_drops"] {
                assert_eq!(run.read(handler), "0", "{handler}");
            }
        }
    }

    #[test]
    fn what_was_waited_for_is_not_older_than_its_arrival() {
        let fake = Fake::new("eth0", &[&[BROADCAST, BROADCAST]]);
        fake.set_late(Duration::from_millis(5));
        let text = "e :: FromDevice(eth0, STOP true) -> o :: TestOut;";
        let run = Rig::text(text).real_time().provider(fake.clone()).run();
        let came = fake.came().expect("it came").duration_since(UNIX_EPOCH).expect("after 1970");
        let stamps: Vec<_> = run.out("o").iter().map(|p| Duration::from_nanos(p.timestamp_ns())).collect();
        assert_eq!(stamps.len(), 2);
        // The machine's time may be set right by less than a thousandth meanwhile.
        assert!(stamps.iter().all(|stamp| *stamp + Duration::from_millis(1) > came), "{stamps:?} {came:?}");
    }

    #[test]
    fn frames_for_others_need_promisc() {
        for burst in [1, 32] {
            for (told, kept) in
                [(true, vec![BROADCAST, OURS, GROUP]), (false, vec![BROADCAST, OURS, THEIRS, GROUP])]
            {
                let fake = Fake::new("eth0", &[&[BROADCAST, OURS, THEIRS, GROUP]]);
                fake.set_told(told);
                let rig = Rig::text("e :: FromDevice(eth0) -> o :: TestOut;").burst(burst).provider(fake);
                let mut run = rig.run();
                assert_eq!(run.bytes("o"), kept, "{told}");
                assert_eq!(run.drops("e").first().copied(), told.then_some((Reason::NotForUs, 1)));
                assert_eq!(run.read("e.count"), "4");
            }
        }
    }

    #[test]
    fn serves_each_queue_by_one_worker() {
        let queues: Vec<Vec<&[u8]>> = (0..5).map(|_| vec![OURS; 10]).collect();
        let queues: Vec<&[&[u8]]> = queues.iter().map(Vec::as_slice).collect();
        for (workers, printed) in [(2, "2 workers"), (8, "5 workers")] {
            let fake = Fake::new("eth0", &queues);
            let text = "e :: FromDevice(eth0) -> c :: Counter -> Discard;";
            let mut run = Rig::text(text).workers(workers).provider(fake).run();
            assert_eq!((run.read("e.count"), run.read("c.count")), ("50".into(), "50".into()));
            assert_eq!(run.printed(), format!("e: eth0: receives by fake, 5 queues on {printed}\n"));
        }
        let fake = Fake::new("eth0", &queues);
        let mut run = Rig::text("e :: FromDevice(eth0, QUEUE 3) -> Discard;").provider(fake).run();
        assert_eq!(run.read("e.count"), "10");
    }

    #[test]
    fn force_ip_passes_only_ip() {
        let mut ip = vec![0; 14];
        ip.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 9, 9, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        ip[12] = 8;
        let mut tagged = ip.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        let mut bad = ip.clone();
        bad[14] = 0x44;
        let fake = Fake::new("eth0", &[&[&ip, OURS, &tagged, &bad, &ip[..20]]]);
        let text = "e :: FromDevice(eth0, FORCE_IP true) -> o :: TestOut;";
        let run = Rig::text(text).provider(fake).run();
        let got: Vec<_> = run.out("o").iter().map(|p| (p.network_offset(), p.dst_ip())).collect();
        assert_eq!(got, [(Some(14), [5, 6, 7, 8]), (Some(18), [5, 6, 7, 8])]);
        assert_eq!(run.drops("e"), [(Reason::BadProtocol, 3)]);
    }

    #[test]
    fn delivers_only_what_a_filter_accepts() {
        for burst in [1, 32] {
            let fake = Fake::new("eth0", &[&[OURS, BROADCAST, OURS], &[GROUP, OURS]]);
            let text = "e :: FromDevice(eth0, PROMISC true, BPF_FILTER \"first byte 2\") -> o :: TestOut;";
            let run = Rig::text(text).burst(burst).provider(fake.clone()).run();
            assert_eq!(run.bytes("o"), [OURS; 3]);
            assert_eq!(run.drops("e"), [(Reason::Filtered, 2)]);
            assert!(fake.spec().filtered);
        }
    }

    #[test]
    fn link_changes_are_told() {
        let fake = Fake::new("eth0", &[&[]]);
        fake.set_link(Link::Down);
        let mut run = Rig::text("e :: FromDevice(eth0) -> Discard;").provider(fake.clone()).run();
        assert!(run.printed().ends_with("e: eth0: link down\n"), "{}", run.printed());
        assert_eq!((run.read("e.link").as_str(), run.read("e.link_changes").as_str()), ("down", "1"));
    }

    #[test]
    fn ends_with_the_device_when_asked() {
        let fake = Fake::new("file", &[&[OURS]]);
        let text = "e :: FromDevice(file, STOP true, ACTIVE false) -> o :: TestOut;";
        let mut run = Rig::text(text).provider(fake).run();
        assert_eq!(run.out("o").len(), 0);
        run.write("e.active", "true").unwrap();
        let run = run.again();
        assert_eq!(run.out("o")[0].anno_u32(anno::EXTRA_LENGTH), 0);
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        let fake = Fake::new("eth0", &[&[]]);
        let error = |args: &str| {
            Rig::text(&format!("e :: FromDevice({args}) -> Discard;")).provider(fake.clone()).errors()
        };
        assert_eq!(error("eth1"), ["'e' could not open: eth1: no such device"]);
        assert_eq!(error("eth0, QUEUE 1"), ["'e' could not open: eth0: there is no queue 1; it has 1"]);
        assert_eq!(
            error("eth0, URGENT true, BPF_FILTER tcp"),
            ["e: URGENT and BPF_FILTER do not go together: leave one of them out"]
        );
        assert_eq!(
            error("eth0, BPF_FILTER \"tcp prt 80\""),
            ["'e' could not open: BPF_FILTER: filter 'tcp prt 80': syntax error; see the manual"]
        );
        assert_eq!(error(""), ["e: missing argument DEVNAME: a string"]);
        let twice = "e :: FromDevice(eth0) -> Discard; f :: PollDevice(eth0) -> Discard;";
        let error = Rig::text(twice).provider(Fake::new("eth0", &[&[]])).errors();
        assert_eq!(error, ["'f' could not start: eth0: receive queue 0 is taken"]);
    }
}
