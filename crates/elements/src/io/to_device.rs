// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ToDevice
//!
//! `ToDevice(DEVNAME [, keywords BURST, METHOD, QUEUE, N_QUEUES, NO_PAD, ACTIVE, SETTING])`
//!
//! Sends packets to a network device.
//!
//! **Ports:** 1 input, agnostic: with a pull input it fetches packets when the device has room. Up to 2 optional push
//! outputs: 0 for packets that were sent, 1 for packets that could not be.
//!
//! **Arguments**
//! * `DEVNAME` the device, as FromDevice's.
//! * `BURST` packets fetched at a time, default the router's burst.
//! * `METHOD` driver, as FromDevice's.
//! * `QUEUE` the only transmit queue to use; default all. `N_QUEUES` how many the device should have, 1 to 256.
//! * `NO_PAD` boolean, default true: leave short frames as they are; drivers and cards pad them. False: pad them with
//!   zeros to 60 bytes here.
//! * `ACTIVE` boolean, default true.
//! * `SETTING` `KEY VALUE`, may be repeated: what only some drivers know.
//!
//! **Cores:** each of the device's transmit queues belongs to one worker. With a pull input there is a task for each queue, on as many workers. With
//! a push input worker w sends on queue w modulo their number, and waits for its turn only when there are fewer queues than workers. Packets of a
//! worker are never reordered.
//!
//! When a whole burst waits, a run of the task sends up to eight: several sources may feed the device, each of which brings a
//! burst while one leaves. (With bursts of one packet it sends one, as Click does.)
//!
//! **Drops:** `device-full` when a packet is pushed and there is no room (a Queue before waits instead). `device-down` when the link is down or the
//! device has vanished. `device-error` is for frames that the device refused, too long ones for instance; `no-memory` for copies to output 0.
//!
//! **Handlers**
//! * `count`, `byte_count` read: packets and bytes sent. `reset_counts` write: sets them to zero.
//! * `active` read/write.
//! * `driver`, `mac`, `mtu`, `queues`, `encap`, `link`, `link_changes` read: as FromDevice's.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Queue -> ToDevice(wire0, METHOD MEMORY);
//! ```
//!
//! See also: FromDevice, ToDump, Queue

use std::sync::{Arc, Mutex};

use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::stats::{self, Stat};
use element::swap::Count;
use element::{
    Class, Cx, DeviceArg, DeviceQueues, Element, Handler, HotSwap, InitCx, LockUse, Locking, OpenCx,
    PacketHolder, Provide, Provided, Reason, Rehearsal, Rehearsed, SharedState, Statistics, Tasks, When,
    declare, handlers, swap,
};
use packet::port::{Error, Link, QueueStats, Spec, TxQueue};
use packet::{Batch, Packet};
use sync::lock::{AdaptiveLock, How};
use sync::mutex::lock;

use super::device::{self, Opened, OverDevice, Watch};
use super::from_dump::Encap;
use crate::tools::set_earlier;

pub(super) const HANDLERS: &[Handler; 11] = &declare::joined(&[
    handlers! { ToDevice:
        sum "count" => .count;
        sum "byte_count" => .bytes;
        write "reset_counts" => |to| to.reset_counts();
        both "active" => .config.active |to, cx, active: bool| to.set_active(cx, active);
    },
    &device::reads::<ToDevice>(),
]);

/// The descriptor.
pub const CLASS: Class = ToDevice::with_capabilities(
    Class::new("ToDevice", "1/0-2", || Box::new(ToDevice::default()))
        .processing("a/h")
        .device(DeviceArg::First("DEVNAME"))
        .handlers(HANDLERS)
        .file(file!()),
);

/// Shortest Ethernet frame without its check sequence (IEEE 802.3, 3.2.8).
const SHORTEST: usize = 60;
/// Offers of a pushed batch to a full device before it is dropped.
const OFFERS: usize = 3;
/// Bursts that a run of the task may send, when each was full.
const BURSTS: usize = 8;
/// A task that sends one burst a run looks whether there is more in one run of so many.
const LOOKS: u8 = 4;

/// How packets are sent.
#[derive(Clone, Default)]
pub(super) struct Config {
    pub(super) spec: Spec,
    pub(super) queue: Option<usize>,
    pub(super) burst: usize,
    pub(super) pad: bool,
    pub(super) active: bool,
    pub(super) pulls: bool,
    /// It is half of an element whose outputs are for received packets.
    pub(super) half: bool,
    /// The device is a channel to another plane: drops have other names.
    pub(super) plane: bool,
}

impl Config {
    fn full(&self) -> Reason {
        if self.plane { Reason::PlaneFull } else { Reason::DeviceFull }
    }

    fn absent(&self) -> Reason {
        if self.plane { Reason::PlaneAbsent } else { Reason::DeviceDown }
    }

    fn refused(&self) -> Reason {
        if self.plane { Reason::TooLong } else { Reason::DeviceError }
    }
}

/// Reads the arguments of ToDevice.
fn read(args: &mut Args<'_>) -> Config {
    let mut spec = device::arguments(args);
    spec.device = args.required("DEVNAME");
    Config {
        spec,
        queue: args.keyword_opt("QUEUE"),
        burst: args.keyword("BURST", 0),
        pad: !args.keyword("NO_PAD", true),
        active: args.keyword("ACTIVE", true),
        pulls: args.input_is_pull(0),
        half: false,
        plane: false,
    }
}

type Guarded = Arc<AdaptiveLock<Box<dyn TxQueue>>>;

/// Transmit queues that several workers use in turn, by number; made when first asked for.
type Common = Arc<Mutex<Vec<Place>>>;

/// One of them.
#[derive(Clone, Default)]
enum Place {
    #[default]
    Closed,
    /// It comes from the configuration that is still running.
    Promised,
    Open(Guarded),
}

/// The transmit queue of an instance.
enum Tx {
    Own(Box<dyn TxQueue>),
    Common(Guarded),
}

impl Tx {
    #[inline]
    fn with<R>(&mut self, f: impl FnOnce(&mut dyn TxQueue) -> R) -> R {
        match self {
            Tx::Own(queue) => f(&mut **queue),
            Tx::Common(queue) => f(&mut **queue.lock()),
        }
    }
}

/// The sending half of a device.
#[derive(Default)]
pub(super) struct ToDevice {
    pub(super) config: Config,
    /// Reads the arguments of another class than ToDevice.
    reads: Option<fn(&mut Args<'_>) -> Config>,
    opened: Option<Opened>,
    /// What others may know of the device.
    encap: Option<Arc<Encap>>,
    common: Common,
    /// How many there are in all.
    workers: usize,
    tx: Option<Tx>,
    /// Which of `opened`'s queues that is, and whether it is this instance's own.
    index: (usize, bool),
    /// The queue will be handed over by the configuration that still runs.
    awaits: bool,
    /// Fetched, but not taken by the device.
    unsent: Batch,
    /// Runs until the next look for more than one burst; none when the last one found more.
    until_look: u8,
    watch: Watch,
    pub(super) count: Count,
    pub(super) bytes: Count,
}

/// The timer by which a device that lags is asked again, and the time until then.
const URGE: u32 = 0;
const URGE_AFTER: Nanos = SECOND / 2000;
/// The timer by which a device is tended that asks for it.
const TEND: u32 = 2;

/// What became of packets offered to the device.
#[derive(Default)]
struct Sent {
    taken: usize,
    refused: u64,
    /// The device has not started to send all that it took.
    lags: bool,
    fault: Option<Error>,
}

impl ToDevice {
    /// Declares what elements of this type can do besides processing packets.
    pub(super) const fn with_capabilities(class: Class) -> Class {
        class
            .provide::<Self>()
            .statistics::<Self>()
            .packet_holder::<Self>()
            .rehearsal::<Self>()
            .locking::<Self>()
            .shared_state::<Self>()
            .device_queues::<Self>()
            .hot_swap::<Self>()
    }

    /// The element of another class, whose arguments this reads.
    pub(super) fn reading(read: fn(&mut Args<'_>) -> Config) -> ToDevice {
        ToDevice { reads: Some(read), ..ToDevice::default() }
    }

    /// Offers `batch` up to `offers` times; what the device did not take stays in it.
    #[inline]
    fn offer(&mut self, batch: &mut Batch, offers: usize) -> Sent {
        let mut sent = Sent::default();
        let Some(tx) = &mut self.tx else { return sent };
        tx.with(|queue| {
            let before = queue.stats();
            for _ in 0..offers {
                sent.taken += queue.transmit(batch);
                queue.flush();
                if batch.is_empty() {
                    break;
                }
            }
            sent.lags = queue.lags();
            let lost = |s: QueueStats| s.errors + s.no_memory;
            let after = queue.stats();
            sent.refused = lost(after).saturating_sub(lost(before));
            self.bytes += after.bytes.saturating_sub(before.bytes);
            if sent.refused > 0 || !batch.is_empty() {
                sent.fault = queue.fault();
            }
        });
        self.count += (sent.taken as u64).saturating_sub(sent.refused);
        sent
    }

    /// Sends what is in `batch`, with all that belongs to it: copies for output 0, counts, the link.
    fn send(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, offers: usize) -> usize {
        if self.config.pad {
            pad(cx, batch);
        }
        let copies = (!self.config.half && cx.connected(0)).then(|| {
            let copies: Batch = batch.iter_mut().filter_map(|p| p.share()).collect();
            let failed = batch.len() - copies.len();
            cx.made(failed);
            cx.count_drops(Reason::NoMemory, failed as u64);
            copies
        });
        let sent = self.offer(batch, offers);
        if sent.lags {
            let at = cx.now() + URGE_AFTER;
            set_earlier(cx, URGE, Some(at));
        }
        cx.took(sent.taken - (sent.refused as usize).min(sent.taken));
        // What the device took after it had been down may be the first sign of its return.
        if sent.refused > 0 || !batch.is_empty() || self.down() {
            self.look(cx, sent.fault);
            let down = self.down() && !self.config.plane;
            cx.count_drops(if down { self.config.absent() } else { self.config.refused() }, sent.refused);
        }
        if let Some(mut copies) = copies {
            let sent = copies.split_front(sent.taken);
            cx.made(sent.len());
            cx.push(0, sent);
        }
        sent.taken
    }

    /// Has the device go on with what it took, until it has started to send all. Nothing else may come for it: a sender would wait
    /// for what lies there.
    #[cold]
    fn urge(&mut self, cx: &mut Cx<'_>) {
        let Some(tx) = &mut self.tx else { return };
        let lags = tx.with(|queue| {
            queue.flush();
            queue.lags()
        });
        if lags {
            cx.set_timer_after(URGE, URGE_AFTER);
        }
    }

    /// Looks after a device that needs it.
    #[cold]
    fn tend(&mut self, cx: &mut Cx<'_>) {
        if let Some(tx) = &mut self.tx {
            let fault = tx.with(|queue| {
                queue.flush();
                queue.fault()
            });
            self.look(cx, fault);
        }
        if let Some(period) = self.opened.as_ref().and_then(Opened::tend_every) {
            cx.set_timer_after(TEND, period);
        }
    }

    /// Lets packets that cannot be sent leave by output 1.
    fn reject(&self, cx: &mut Cx<'_>, batch: Batch, reason: Reason) {
        if self.config.half {
            cx.drop_batch(reason, batch);
        } else {
            cx.push_or_drop(1, batch, reason);
        }
    }

    #[cold]
    fn look(&mut self, cx: &mut Cx<'_>, fault: Option<Error>) {
        if let Some(opened) = &self.opened {
            self.watch.look_now(cx, opened.device(), fault);
        }
    }

    fn down(&self) -> bool {
        self.watch.link() != Link::Up
    }

    /// Takes the transmit queue at `index`, which `open` opens, if it is not only promised.
    fn take_queue(
        &mut self,
        index: usize,
        own: bool,
        open: impl FnOnce() -> Result<Option<Box<dyn TxQueue>>, String>,
    ) -> Result<(), String> {
        self.tx = if own {
            open()?.map(Tx::Own)
        } else {
            let mut common = lock(&self.common);
            if common.len() <= index {
                common.resize_with(index + 1, Place::default);
            }
            if let Place::Closed = common[index] {
                let opened = open()?;
                common[index] =
                    opened.map_or(Place::Promised, |q| Place::Open(Arc::new(AdaptiveLock::new(q))));
            }
            match &common[index] {
                Place::Open(queue) => Some(Tx::Common(queue.clone())),
                _ => None,
            }
        };
        self.index = (index, own);
        self.awaits = self.tx.is_none();
        Ok(())
    }

    /// Fetches what fills a burst and sends that.
    #[inline]
    fn send_burst(&mut self, cx: &mut Cx<'_>) -> Burst {
        self.fetch(cx);
        if self.unsent.is_empty() {
            return Burst::None;
        }
        let mut batch = std::mem::take(&mut self.unsent);
        let whole = batch.len() >= self.config.burst;
        self.send(cx, &mut batch, 1);
        if !batch.is_empty() && self.down() {
            self.reject(cx, std::mem::take(&mut batch), self.config.absent());
        }
        let taken = batch.is_empty();
        self.unsent = batch;
        if whole && taken { Burst::Full } else { Burst::Part }
    }

    fn fetch(&mut self, cx: &mut Cx<'_>) {
        let room = self.config.burst.saturating_sub(self.unsent.len());
        if room > 0 {
            let mut batch = cx.pull(0, room);
            if self.unsent.is_empty() {
                std::mem::swap(&mut self.unsent, &mut batch);
            } else {
                self.unsent.append(&mut batch);
            }
        }
    }
}

/// What a look for packets to send found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Burst {
    None,
    /// Fewer than a burst, or more than the device took.
    Part,
    /// A whole burst, which the device took.
    Full,
}

#[cold]
fn pad(cx: &mut Cx<'_>, batch: &mut Batch) {
    let mut lost = 0;
    batch.retain_mut(|packet| {
        let len = packet.len();
        let ok = len >= SHORTEST
            || packet.put(SHORTEST - len).is_some_and(|all| {
                all[len..].fill(0);
                true
            });
        lost += u64::from(!ok);
        ok
    });
    cx.count_drops(Reason::NoMemory, lost);
}

impl ToDevice {
    pub(super) fn reset_counts(&mut self) {
        self.count.reset();
        self.bytes.reset();
    }

    pub(super) fn set_active(&mut self, cx: &mut Cx<'_>, active: bool) {
        self.config.active = active;
        cx.schedule_if(active);
    }
}

impl OverDevice for ToDevice {
    fn over(&self) -> (Option<&Opened>, &Watch) {
        (self.opened.as_ref(), &self.watch)
    }
}

impl Element for ToDevice {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.config = self.reads.unwrap_or(read)(args);
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        self.workers = cx.workers;
        let opened = Opened::open(cx, &self.config.spec, self.config.queue, |info| info.tx_queues)?;
        let tasks = match opened.queues.len() {
            _ if !self.config.pulls => Tasks::None,
            1 => Tasks::One,
            n => Tasks::Many(n),
        };
        self.encap = Some(Arc::new(Encap::of(opened.handle())));
        self.opened = Some(opened);
        Ok(tasks)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        let Some(opened) = self.opened.clone() else { return Ok(()) };
        let n = opened.queues.len();
        let (index, own) = match cx.task() {
            Some(task) => (task % n, true),
            None if self.config.pulls => return Ok(()),
            None => (cx.worker() % n, n >= cx.router().active_workers()),
        };
        self.take_queue(index, own, || cx.tx(opened.handle(), opened.queues[index]))?;
        if self.config.burst == 0 {
            self.config.burst = cx.burst();
        }
        if cx.is_home() && !self.config.half && !self.awaits {
            let info = opened.device().info();
            let queues = format!("{n} queue{}", if n == 1 { "" } else { "s" });
            cx.print(&format!("{}: {}: sends by {}, {queues}", cx.name(), info.name, info.driver));
        }
        if let Some(period) = opened.tend_every() {
            cx.set_timer_after(TEND, period);
        }
        if self.config.active {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        if !self.config.active {
            return self.reject(cx, batch, Reason::Inactive);
        }
        self.send(cx, &mut batch, OFFERS);
        if !batch.is_empty() {
            let reason = if self.down() { self.config.absent() } else { self.config.full() };
            self.reject(cx, batch, reason);
        }
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut burst = self.send_burst(cx);
        let worked = burst != Burst::None;
        if burst != Burst::Full || self.config.burst == 1 {
            return worked;
        }
        if self.until_look > 0 {
            self.until_look -= 1;
            return worked;
        }
        let mut sent = 1;
        while burst == Burst::Full && sent < BURSTS {
            burst = self.send_burst(cx);
            sent += 1;
        }
        // A look that finds nothing costs little, but most runs would have one.
        let more = sent > 2 || burst != Burst::None;
        self.until_look = if more { 0 } else { LOOKS - 1 };
        worked
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        if timer == TEND {
            self.tend(cx);
        } else {
            self.urge(cx);
        }
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        let mut batch = std::mem::take(&mut self.unsent);
        self.offer(&mut batch, OFFERS);
        cx.drop_batch(Reason::RouterStopped, batch);
        self.tx = None;
        lock(&self.common).clear();
    }
}

impl Provide for ToDevice {
    fn provide(&self) -> Option<Provided> {
        Some(self.encap.clone()?)
    }
}

impl Statistics for ToDevice {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        put(&stats::DEVICE_PACKETS, *self.count);
        put(&stats::DEVICE_BYTES, *self.bytes);
    }
}

impl PacketHolder for ToDevice {
    fn held(&self) -> usize {
        self.unsent.len()
    }
}

impl Rehearsal for ToDevice {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, _: Packet) -> Rehearsed {
        let name = self.opened.as_ref().map_or(self.config.spec.device.clone(), |o| o.device().info().name);
        Rehearsed::Leaves(format!("it would be sent by device {name}"))
    }
}

impl Locking for ToDevice {
    fn locks(&self) -> Vec<LockUse> {
        let queues = self.opened.as_ref().map_or(0, |o| o.queues.len());
        if self.config.pulls || queues >= self.workers {
            return Vec::new();
        }
        let (guards, why) = match queues {
            1 => ("the transmit queue", "all workers that push send by it"),
            _ => (
                "each transmit queue",
                "there are fewer than workers: each sends by the one that its number modulo theirs tells",
            ),
        };
        vec![LockUse::new(How::Adaptive, guards, When::EachBatch, why)]
    }
}

impl SharedState for ToDevice {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(ToDevice {
            config: self.config.clone(),
            opened: self.opened.clone(),
            encap: self.encap.clone(),
            common: self.common.clone(),
            ..ToDevice::default()
        }))
    }
}

impl DeviceQueues for ToDevice {
    fn release(&mut self, _: &mut Cx<'_>, pool: &mut swap::DevicePool) {
        let mut batch = std::mem::take(&mut self.unsent);
        self.offer(&mut batch, OFFERS);
        self.unsent = batch;
        let Some(opened) = &self.opened else { return };
        lock(&self.common).clear();
        let queue = match self.tx.take() {
            Some(Tx::Own(queue)) => Some(queue),
            // The last one to let go of a common queue hands it over.
            Some(Tx::Common(queue)) => Arc::into_inner(queue).map(|q| q.into_inner()),
            None => None,
        };
        if let Some(queue) = queue {
            pool.put_tx(opened.handle(), opened.queues[self.index.0], queue);
        }
    }

    fn acquire(&mut self, cx: &mut Cx<'_>, pool: &mut swap::DevicePool) {
        let (true, Some(opened)) = (self.awaits, self.opened.clone()) else { return };
        let (index, own) = self.index;
        if let Some(place @ Place::Promised) = lock(&self.common).get_mut(index) {
            *place = Place::Closed;
        }
        let take =
            || pool.take_tx(opened.handle(), opened.queues[index]).map(Some).map_err(|e| e.to_string());
        if let Err(why) = self.take_queue(index, own, take) {
            cx.print(&format!("{}: {why}", cx.name()));
        }
        // It may have lagged behind when the former configuration gave it up.
        self.urge(cx);
    }
}

impl HotSwap for ToDevice {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<ToDevice>(old) else { return false };
        self.count.take(&mut old.count);
        self.bytes.take(&mut old.bytes);
        self.watch = std::mem::take(&mut old.watch);
        // An instance that fetches nothing would keep them for ever; `release` sends them.
        if self.config.pulls && (self.tx.is_some() || self.awaits) {
            self.unsent.append(&mut old.unsent);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::testing::Fake;
    use crate::testing::Rig;

    #[test]
    fn sends_in_order_though_the_device_is_slow() {
        for (burst, room) in [(1, 1), (32, 2), (32, 100)] {
            let fake = Fake::new("eth0", &[&[]]);
            fake.set_room(room);
            let text = "i :: TestIn -> q :: Queue -> e :: ToDevice(eth0); e[0] -> o :: TestOut;";
            let inputs: Vec<Vec<u8>> = (0..50u8).map(|i| vec![i; 60]).collect();
            let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let mut run = Rig::text(text).burst(burst).provider(fake.clone()).inputs(&inputs).run();
            assert_eq!(fake.sent(0), inputs);
            assert_eq!(run.bytes("o"), inputs);
            assert_eq!((run.read("e.count"), run.read("e.byte_count")), ("50".into(), "3000".into()));
            assert_eq!((run.drops("e"), run.printed()), (vec![], "e: eth0: sends by fake, 1 queue\n".into()));
        }
    }

    #[test]
    fn a_device_that_lags_is_asked_until_it_has_sent_all() {
        // Nothing follows the one packet: only the timer asks again.
        for text in ["i :: TestIn -> e :: ToDevice(eth0);", "i :: TestIn -> Queue -> e :: ToDevice(eth0);"] {
            let fake = Fake::new("eth0", &[&[]]);
            fake.set_lag(50);
            let run = Rig::text(text).provider(fake.clone()).inputs(&[b"a"]).ready();
            let run = run.run_for(std::time::Duration::from_secs(1));
            assert_eq!((fake.sent(0), fake.lag()), (vec![b"a".to_vec()], 0));
            assert_eq!(run.drops("e"), []);
        }
    }

    #[test]
    fn pushed_packets_that_do_not_fit_leave_or_drop() {
        let fake = Fake::new("eth0", &[&[]]);
        fake.set_room(1);
        let inputs: &[&[u8]] = &[b"a", b"b", b"c", b"d", b"e"];
        let run =
            Rig::text("i :: TestIn -> e :: ToDevice(eth0);").provider(fake.clone()).inputs(inputs).run();
        assert_eq!(fake.sent(0), [b"a", b"b", b"c"]);
        assert_eq!(run.drops("e"), [(Reason::DeviceFull, 2)]);
        let text = "i :: TestIn -> e :: ToDevice(eth0) -> Discard; e[1] -> o :: TestOut;";
        let fake = Fake::new("eth0", &[&[]]);
        fake.set_room(1);
        let run = Rig::text(text).provider(fake).inputs(inputs).run();
        assert_eq!(run.bytes("o"), [b"d", b"e"]);
    }

    #[test]
    fn a_device_that_is_down_takes_nothing_and_is_told_once() {
        for input in ["", "Queue -> "] {
            let fake = Fake::new("eth0", &[&[]]);
            fake.set_room(0);
            fake.set_link(Link::Down);
            let run = Rig::text(&format!("i :: TestIn -> {input} e :: ToDevice(eth0);"))
                .provider(fake)
                .inputs(&[b"a", b"b"])
                .run();
            assert_eq!(run.drops("e"), [(Reason::DeviceDown, 2)]);
            assert_eq!(run.printed(), "e: eth0: sends by fake, 1 queue\ne: eth0: link down\n");
        }
    }

    #[test]
    fn refused_frames_are_drops_and_short_ones_padded() {
        let fake = Fake::new("eth0", &[&[]]);
        let long = vec![7; 2000];
        let text = "i :: TestIn -> e :: ToDevice(eth0, NO_PAD false);";
        let mut run = Rig::text(text).provider(fake.clone()).inputs(&[b"a", &long, b"b"]).run();
        assert_eq!(run.drops("e"), [(Reason::DeviceError, 1)]);
        assert_eq!(run.read("e.count"), "2");
        let sent = fake.sent(0);
        assert_eq!((sent[0].len(), sent[0][0], sent[0][59], sent.len()), (60, b'a', 0, 2));
    }

    #[test]
    fn workers_have_queues_of_their_own_or_take_turns() {
        for (queues, workers) in [(4, 2), (2, 4), (1, 3)] {
            let rx: Vec<Vec<&[u8]>> = (0..workers).map(|_| vec![&b"0123456789abcdef"[..]; 100]).collect();
            let rx: Vec<&[&[u8]]> = rx.iter().map(Vec::as_slice).collect();
            // On simulated time a worker ends when nothing is left to do, so no other may feed it.
            let paths = if queues < workers { vec![""] } else { vec!["", "-> Queue(1000)"] };
            for path in paths {
                let fake = Fake::with_tx("eth0", &rx, queues);
                let text = format!("FromDevice(eth0) {path} -> e :: ToDevice(eth0);");
                let mut run = Rig::text(&text).workers(workers).provider(fake.clone()).run();
                let sent: usize = (0..queues).map(|q| fake.sent(q).len()).sum();
                assert_eq!(sent, workers * 100, "{queues} queues, {workers} workers {path}");
                assert_eq!(run.read("e.count"), sent.to_string());
            }
        }
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        let error = |text: &str| Rig::text(text).provider(Fake::with_tx("eth0", &[&[]], 0)).errors();
        assert_eq!(
            error("Idle -> e :: ToDevice(eth0);"),
            ["'e' could not open: eth0: it has no queue of this direction (fake)"]
        );
        assert_eq!(error("Idle -> e :: ToDevice(none);"), ["'e' could not open: none: no such device"]);
    }
}
