// SPDX-License-Identifier: MIT OR Apache-2.0
//! AF_XDP: frames from the driver's own hook into packet memory, past the kernel's protocols.
//!
//! A six-instruction XDP program sends each receive queue's frames to the socket bound to it, and lets the kernel have the frames of queues that
//! nobody took. Packet memory itself is registered with the kernel, so a received frame is a packet at once, and we do not copy a packet that leaves
//! by another AF_XDP device. Zero-copy drivers move no bytes at all. Others (virtual cables among them) copy once on each way in the kernel.
//!
//! ```text
//!            fill ring: empty frames ->            <- receive ring: frames with packets
//!  pool                                    kernel
//!            transmit ring: packets ->             <- completion ring: frames done with
//! ```
//! A device registers the memory once; the sockets of its other queues share that registration and bring their own
//! rings. Two devices register it separately, because a shared registration would force one mode (zero-copy or copy,
//! one buffer or several) on both.
//!
//! Frames beyond one buffer arrive in pieces, which are joined in a jumbo frame at this port.
//!
//! Traps that this driver knows. Virtual cables deliver what is *redirected* into them only when NAPI is on at the other end (generic receive offload
//! on, or XDP attached there). Their senders leave checksums unfinished, and XDP does not say so: [`partial`](crate::partial) finds and completes
//! them. A VLAN tag that the kernel or the card keeps outside the frame is put back by the XDP program, which needs Linux 6.8 and the driver's own
//! hook; the generic hook loses such tags. The generic hook also hands over joined TCP segments, which are taken apart here.

mod rings;
mod rx;
mod socket;
mod tx;
mod umem;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use packet::port::{Device, Error, Info, Link, RxQueue, Spec, TxQueue};
use sync::mutex::lock;

use crate::af_packet::{self, Promiscuous, older};
use crate::aliases::Aliases;
use crate::bpf::{self, XskMap};
use crate::keeper::Keeper;
use crate::link::Watch;
use crate::memory::Taken;
use crate::settings;
use crate::sys;
use crate::urgent::{Lane, UrgentRx};

pub(crate) use socket::busy_poll;
use socket::{Binding, Core, RxHalf, Setup, TxHalf};
use umem::{KERNEL_HEADROOM, Shape};

/// Entries in each ring, unless asked otherwise or memory is small. On virtual cables larger rings gained nothing.
const RING: usize = 2048;
const QUEUES_MAX: usize = 64;

/// An interface reached by AF_XDP.
pub struct XdpDevice {
    me: Weak<XdpDevice>,
    shared: Arc<Shared>,
}

/// What a device's queues share.
struct Shared {
    watch: Watch,
    generic: bool,
    /// The kernel has urgent packets, which a packet socket receives.
    urgent: AtomicBool,
    lane: Arc<Lane>,
    setup: Setup,
    binding: Binding,
    options: Mutex<Options>,
    /// Guards every change of program and sockets.
    hook: Mutex<Option<Hook>>,
    promiscuous: Promiscuous,
    aliases: Arc<OnceLock<Arc<Aliases>>>,
    slots: Vec<Mutex<Slot>>,
    flags: Vec<(Arc<AtomicBool>, Arc<AtomicBool>)>,
    driver: String,
    /// Who keeps packets for the process that takes this one's place.
    keeper: Option<Arc<dyn Keeper>>,
}

/// The parts of a [`Spec`] that a later element may still change.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    promiscuous: bool,
    snaplen: usize,
}

/// The program attached to one interface, detached on drop.
struct Hook {
    ifindex: u32,
    map: XskMap,
    form: Form,
    urgent: bool,
    link: OwnedFd,
}

/// What a program can do: cope with frames in several buffers, and put back tags, by a function that is asked of an interface.
type Form = (bool, Option<(u32, u32)>);

/// The halves of one queue's socket that nobody uses at the moment.
#[derive(Default)]
struct Slot {
    core: Weak<Core>,
    rx: Option<RxHalf>,
    tx: Option<TxHalf>,
}

impl Hook {
    /// `left`: an earlier process has left the link. Its program is replaced, which does not interrupt the driver.
    fn attach(
        ifindex: u32,
        queues: usize,
        generic: bool,
        urgent: bool,
        left: Option<OwnedFd>,
    ) -> io::Result<Hook> {
        let map = XskMap::new(queues as u32)?;
        // A program that copes with several buffers allows jumbo frames; a driver that knows only one takes the other. One that
        // puts tags back must belong to the interface, which older kernels and the generic hook refuse.
        let tags = bpf::tag_function().filter(|_| !generic).map(|function| (function, ifindex));
        let tagged = tags.map(|_| [(true, tags), (false, tags)]);
        if let Some(link) = left {
            for form in tagged.into_iter().flatten().chain([(true, None), (false, None)]) {
                let program = bpf::redirect_program(&map, form.0, form.1, urgent);
                if program.and_then(|program| bpf::replace(&link, &program)).is_ok() {
                    return Ok(Hook { ifindex, map, form, urgent, link });
                }
            }
        }
        let mut refused = None;
        for form in tagged.into_iter().flatten().chain([(true, None), (false, None)]) {
            let program = bpf::redirect_program(&map, form.0, form.1, urgent);
            match program.and_then(|program| bpf::attach_xdp(&program, ifindex, generic)) {
                Ok(link) => return Ok(Hook { ifindex, map, form, urgent, link }),
                Err(why) if form == (true, None) => refused = Some(why),
                Err(_) => {}
            }
        }
        Err(refused.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL)))
    }

    /// Lets the kernel have urgent packets from now on.
    fn part(&mut self) -> io::Result<()> {
        if !self.urgent {
            let program = bpf::redirect_program(&self.map, self.form.0, self.form.1, true)?;
            bpf::replace(&self.link, &program)?;
            self.urgent = true;
        }
        Ok(())
    }
}

/// Under which name the link of a program is kept.
fn link_name(device: &str, ifindex: u32, generic: bool) -> String {
    format!("packet/{device}/xdp/{ifindex}/{}", if generic { "generic" } else { "native" })
}

impl XdpDevice {
    /// Opens `spec.device`, by the driver's hook or, if `generic`, by the kernel's. `why` says why this driver was
    /// chosen, for [`Info::driver`].
    ///
    /// # Errors
    /// No such interface, no permission, no driver support, too little memory, or a queue that another program holds.
    pub fn open(
        spec: &Spec,
        generic: bool,
        why: &str,
        keeper: Option<&Arc<dyn Keeper>>,
    ) -> Result<Arc<XdpDevice>, Error> {
        let watch = Watch::new(&spec.device)?;
        let name = &spec.device;
        let available = watch.interfaces.queues(name).0;
        let queues = spec.queues.unwrap_or(available).clamp(1, QUEUES_MAX);
        if queues > available {
            let what = format!("{queues} queues wanted, but it has {available}");
            return Err(Error::new(
                name,
                what,
                format!("sudo ethtool -L {name} combined {queues}, or N_QUEUES {available}"),
            ));
        }
        if spec.sniffer == Some(true) || spec.outbound {
            let what = "AF_XDP takes packets away from the kernel and sees none that the kernel sends";
            return Err(Error::new(name, what, "use METHOD AF_PACKET, or SNIFFER false and OUTBOUND false"));
        }
        let setup = setup(spec, queues)?;
        let driver = watch.interfaces.driver(name).unwrap_or_else(|| "unknown driver".to_owned());
        let ifindex = watch.bound();
        let left = keeper.and_then(|keeper| keeper.take(&link_name(name, ifindex, generic)));
        let hook = Hook::attach(ifindex, queues, generic, false, left)
            .map_err(|e| explain_attach(name, &driver, generic, &e))?;
        let wanted = settings::flag(spec, "ZEROCOPY")?;
        let single = setup.shape.chunk - KERNEL_HEADROOM - setup.headroom as usize;
        let large = watch.interfaces.mtu(name).unwrap_or(1500) + 18 > single;
        let (halves, binding, note) = bind_first(name, &setup, ifindex, large, wanted)?;
        let mut text = format!("AF_XDP {}", if generic { "generic" } else { "native" });
        text += if binding.zero_copy { " zero-copy" } else { " copy" };
        text += &format!(", {queues} queue{}, driver {driver}", if queues == 1 { "" } else { "s" });
        let notes: Vec<&str> = [note.as_str(), why].into_iter().filter(|n| !n.is_empty()).collect();
        if !notes.is_empty() {
            text += &format!(" ({})", notes.join("; "));
        }
        let mut slots: Vec<Mutex<Slot>> = (0..queues).map(|_| Mutex::default()).collect();
        let (rx, tx) = halves;
        slots[0] = Mutex::new(Slot { core: Arc::downgrade(&rx.core), rx: Some(rx), tx: Some(tx) });
        let shared = Arc::new(Shared {
            watch,
            generic,
            urgent: AtomicBool::new(false),
            lane: Arc::default(),
            setup,
            binding,
            options: Mutex::default(),
            hook: Mutex::new(Some(hook)),
            promiscuous: Promiscuous::default(),
            aliases: Arc::default(),
            slots,
            flags: (0..queues).map(|_| Default::default()).collect(),
            driver: text,
            keeper: keeper.cloned(),
        });
        let device = Arc::new_cyclic(|me| XdpDevice { me: me.clone(), shared });
        device.amend(spec)?;
        Ok(device)
    }

    /// Takes over what another element wants of the same device.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn amend(&self, spec: &Spec) -> Result<(), Error> {
        let shared = &self.shared;
        let promiscuous = {
            let mut options = lock(&shared.options);
            options.promiscuous |= spec.promiscuous;
            options.snaplen = options.snaplen.max(spec.snaplen);
            options.promiscuous
        };
        if promiscuous {
            let held = shared.promiscuous.hold(shared.watch.bound());
            held.map_err(|e| {
                Error::new(
                    shared.watch.name(),
                    format!("cannot set promiscuous mode: {e}"),
                    settings::grant(),
                )
            })?;
        }
        if spec.urgent { shared.part() } else { Ok(()) }
    }

    /// This process ends: packets that arrive from now on wait for the next one.
    pub(crate) fn hold(&self) {
        let shared = &self.shared;
        let Some(keeper) = &shared.keeper else { return };
        let hook = lock(&shared.hook);
        let (name, urgent) = (shared.watch.name(), shared.urgent.load(Ordering::Relaxed));
        older::hold_for(&**keeper, name, shared.watch.bound(), urgent);
        shared.promiscuous.leave(&**keeper, name);
        if let Some(hook) = &*hook {
            keeper.keep(&link_name(name, hook.ifindex, shared.generic), hook.link.as_fd());
            // Without a socket, the program lets the kernel have what arrives.
            (0..shared.slots.len()).for_each(|queue| hook.map.clear(queue as u32));
        }
    }

    /// Where further addresses of the interface are reported.
    pub(crate) fn ask_for_aliases(&self, aliases: Arc<Aliases>) {
        let _ = self.shared.aliases.set(aliases);
    }

    fn flags(&self, queue: usize) -> Result<&(Arc<AtomicBool>, Arc<AtomicBool>), Error> {
        self.shared.flags.get(queue).ok_or_else(|| {
            let mend = format!("it has queues 0 to {} (N_QUEUES)", self.shared.flags.len() - 1);
            Error::new(self.shared.watch.name(), format!("there is no queue {queue}"), mend)
        })
    }
}

fn setup(spec: &Spec, queues: usize) -> Result<Setup, Error> {
    let shape = Shape::of_memory();
    // Each queue may hold two rings of frames; leave three quarters of the memory to everybody else.
    let fair = (shape.frames / 8 / queues).max(64);
    let ring = match settings::number::<usize>(spec, "RING")? {
        Some(n) if n.is_power_of_two() && (64..=32768).contains(&n) => n,
        Some(n) => {
            return Err(Error::new(
                &spec.device,
                format!("RING {n} is no power of two from 64 to 32768"),
                "",
            ));
        }
        None => RING.min(1 << fair.ilog2()),
    };
    let headroom = spec.headroom.saturating_sub(KERNEL_HEADROOM).next_multiple_of(64);
    if headroom + KERNEL_HEADROOM + 1518 + 4 > shape.chunk {
        let mend = format!("at most {}, or raise --frame-size", shape.chunk - 1522);
        return Err(Error::new(&spec.device, format!("no room for HEADROOM {}", spec.headroom), mend));
    }
    let busy_poll_us = settings::number(spec, "BUSY_POLL")?;
    Ok(Setup { shape, ring: ring as u32, headroom: headroom as u32, busy_poll_us })
}

/// Binds queue 0 in the best mode that works: zero-copy before copy. Returns also why it is not zero-copy.
fn bind_first(
    name: &str,
    setup: &Setup,
    ifindex: u32,
    large: bool,
    zero_copy: Option<bool>,
) -> Result<((RxHalf, TxHalf), Binding, String), Error> {
    let mut note = String::new();
    if zero_copy != Some(false) {
        let binding = Binding { zero_copy: true, multi_buffer: large };
        match socket::open(setup, ifindex, 0, binding, None) {
            Ok(halves) => return Ok((halves, binding, note)),
            Err(e) if zero_copy == Some(true) || hopeless(&e) => return Err(explain_bind(name, setup, &e)),
            Err(e) => note = format!("no zero-copy: {}", sys::words(&e)),
        }
    }
    // Several buffers cost nothing in copy mode; kernels before 6.6 refuse them.
    let binding = Binding { zero_copy: false, multi_buffer: true };
    match socket::open(setup, ifindex, 0, binding, None) {
        Ok(halves) => Ok((halves, binding, note)),
        Err(e) if large || e.raw_os_error() != Some(libc::EINVAL) => Err(explain_bind(name, setup, &e)),
        Err(_) => {
            let binding = Binding { zero_copy: false, multi_buffer: false };
            let halves =
                socket::open(setup, ifindex, 0, binding, None).map_err(|e| explain_bind(name, setup, &e))?;
            Ok((halves, binding, note))
        }
    }
}

/// Errors that no other mode would fix.
fn hopeless(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::ENOBUFS | libc::EBUSY | libc::ENOMEM)
    )
}

fn explain_attach(name: &str, driver: &str, generic: bool, error: &io::Error) -> Error {
    let (what, mend) = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            ("no permission to attach an XDP program".to_owned(), settings::grant())
        }
        Some(libc::EBUSY | libc::EEXIST) => (
            "another XDP program is attached".to_owned(),
            format!("end the program that did so, or sudo ip link set dev {name} xdp off"),
        ),
        Some(libc::EOPNOTSUPP) if !generic => (
            format!("driver {driver} has no XDP hook"),
            "METHOD AF_PACKET, or METHOD AF_XDP_GENERIC for the kernel's own hook".to_owned(),
        ),
        Some(libc::ERANGE | libc::EINVAL) => (
            format!(
                "driver {driver} refuses an XDP program at this MTU, queue count or offload setting: {}",
                sys::words(error)
            ),
            format!(
                "lower the MTU (sudo ip link set {name} mtu 1500), and see `sudo dmesg` or METHOD AF_PACKET"
            ),
        ),
        Some(libc::ENOSPC) => (
            format!("driver {driver} has too few receive queues for XDP"),
            format!(
                "make its peer's transmit queues as few: sudo ethtool -L PEER tx 1 (see ethtool -l {name})"
            ),
        ),
        _ => (format!("cannot attach an XDP program: {}", sys::words(error)), "METHOD AF_PACKET".to_owned()),
    };
    Error::new(name, what, mend)
}

fn explain_bind(name: &str, setup: &Setup, error: &io::Error) -> Error {
    let (what, mend) = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => ("no permission to use AF_XDP".to_owned(), settings::grant()),
        Some(libc::EBUSY) => (
            "queue is busy: another program has an AF_XDP socket on it".to_owned(),
            "end that program, or use another QUEUE, or METHOD AF_PACKET".to_owned(),
        ),
        Some(libc::ENOBUFS) => (
            format!("too little locked memory for {} KiB of packets", setup.shape.len / 1024),
            format!("ulimit -l {}, lower --frames, or {}", setup.shape.len / 1024 + 64, settings::grant()),
        ),
        Some(libc::ENOMEM) => {
            ("not enough memory to register packets".to_owned(), "lower --frames".to_owned())
        }
        Some(libc::EAFNOSUPPORT) => ("this kernel has no AF_XDP".to_owned(), "METHOD AF_PACKET".to_owned()),
        Some(libc::EOPNOTSUPP | libc::EINVAL) => (
            format!("the driver refuses this mode: {}", sys::words(error)),
            "ZEROCOPY false, or METHOD AF_PACKET".to_owned(),
        ),
        _ => (format!("cannot bind an AF_XDP socket: {}", sys::words(error)), "METHOD AF_PACKET".to_owned()),
    };
    Error::new(name, what, mend)
}

impl Shared {
    /// Makes sure that `queue` has a socket on interface `ifindex`, whose halves lie in its slot.
    fn ensure(&self, queue: usize, ifindex: u32) -> io::Result<()> {
        let mut hook = lock(&self.hook);
        if hook.as_ref().is_none_or(|hook| hook.ifindex != ifindex) {
            *hook = None;
            *hook = Some(Hook::attach(
                ifindex,
                self.slots.len(),
                self.generic,
                self.urgent.load(Ordering::Relaxed),
                None,
            )?);
            self.watch.set_bound(ifindex);
            if lock(&self.options).promiscuous {
                // What was possible on the former interface is possible on this one, or it has gone again.
                let _ = self.promiscuous.hold(ifindex);
            }
        }
        let usable = |core: &Arc<Core>| core.ifindex == ifindex && !core.dead();
        if lock(&self.slots[queue]).core.upgrade().is_some_and(|core| usable(&core)) {
            return Ok(());
        }
        let base = self.slots.iter().filter_map(|slot| lock(slot).core.upgrade()).find(usable);
        let (rx, tx) = socket::open(&self.setup, ifindex, queue as u32, self.binding, base.as_deref())?;
        *lock(&self.slots[queue]) = Slot { core: Arc::downgrade(&rx.core), rx: Some(rx), tx: Some(tx) };
        Ok(())
    }

    /// Gives urgent packets a ring of their own, from now on.
    fn part(&self) -> Result<(), Error> {
        let mut hook = lock(&self.hook);
        let name = self.watch.name();
        if !self.urgent.load(Ordering::Relaxed) {
            let headroom = KERNEL_HEADROOM + self.setup.headroom as usize;
            let spec = Spec { snaplen: lock(&self.options).snaplen, headroom, ..Spec::default() };
            af_packet::urgent_ring(name, spec, false, &self.aliases, &self.lane)?;
            self.urgent.store(true, Ordering::Relaxed);
        }
        let parted = hook.as_mut().map_or(Ok(()), Hook::part);
        parted.map_err(|e| {
            let what = format!("cannot let BFD have a ring of its own: {}", sys::words(&e));
            Error::new(name, what, "restart the router, or leave URGENT out")
        })
    }

    /// The MTU, if frames may come whose sender has left something to hardware.
    fn unfinished(&self) -> Option<usize> {
        let (interfaces, name) = (&self.watch.interfaces, self.watch.name());
        interfaces.leaves_checksums(name).then(|| interfaces.mtu(name).unwrap_or(1500))
    }

    /// Whether a half must be replaced: its interface has gone or has been replaced by another of its name.
    fn stale(&self, core: &Core) -> bool {
        core.dead() || self.watch.state() == Link::Gone || self.watch.index() != Some(core.ifindex)
    }

    /// A queue's half, which receives when it is [exposed](Shared::expose).
    fn take_rx(&self, queue: usize) -> io::Result<Option<RxHalf>> {
        let Some(ifindex) = self.watch.index() else {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        };
        self.ensure(queue, ifindex)?;
        Ok(lock(&self.slots[queue]).rx.take())
    }

    /// Has a queue's packets come to its half, which has empty frames.
    fn expose(&self, queue: usize, half: &RxHalf) -> io::Result<()> {
        lock(&self.hook).as_ref().map_or(Ok(()), |hook| hook.map.set(queue as u32, half.core.fd()))
    }

    fn take_tx(&self, queue: usize) -> io::Result<Option<TxHalf>> {
        let Some(ifindex) = self.watch.index() else {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        };
        self.ensure(queue, ifindex)?;
        Ok(lock(&self.slots[queue]).tx.take())
    }

    /// Takes back a half whose user has finished with it; the socket closes when both have.
    fn park_rx(&self, queue: usize, half: RxHalf) {
        if let Some(hook) = &*lock(&self.hook)
            && hook.ifindex == half.core.ifindex
        {
            hook.map.clear(queue as u32);
        }
        let mut slot = lock(&self.slots[queue]);
        if slot.tx.is_none() && std::ptr::eq(slot.core.as_ptr(), Arc::as_ptr(&half.core)) {
            slot.rx = Some(half);
        } else {
            *slot = Slot::default();
        }
    }

    fn park_tx(&self, queue: usize, half: TxHalf) {
        let mut slot = lock(&self.slots[queue]);
        if slot.rx.is_none() && std::ptr::eq(slot.core.as_ptr(), Arc::as_ptr(&half.core)) {
            slot.tx = Some(half);
        } else {
            *slot = Slot::default();
        }
    }

    fn explain(&self, error: &io::Error) -> Error {
        match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => self.watch.interfaces.missing(self.watch.name()),
            _ => explain_bind(self.watch.name(), &self.setup, error),
        }
    }
}

impl Device for XdpDevice {
    fn info(&self) -> Info {
        let (watch, queues) = (&self.shared.watch, self.shared.slots.len());
        Info {
            name: watch.name().to_owned(),
            driver: self.shared.driver.clone() + self.shared.lane.text(),
            mac: watch.interfaces.hardware(watch.name()).ok().map(|(mac, _)| mac),
            mtu: watch.interfaces.mtu(watch.name()).unwrap_or(1500),
            rx_queues: queues,
            tx_queues: queues,
        }
    }

    fn tells_addressees(&self) -> bool {
        true
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let taken = Taken::take(self.shared.watch.name(), &self.flags(queue)?.0, queue)?.keeping(&self.me);
        let rest = Box::new(rx::XdpRx::open(self.shared.clone(), queue, taken)?);
        Ok(Box::new(UrgentRx::new(&self.shared.lane, rest)))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let taken = Taken::take(self.shared.watch.name(), &self.flags(queue)?.1, queue)?.keeping(&self.me);
        Ok(Box::new(tx::XdpTx::open(self.shared.clone(), queue, taken)?))
    }

    fn link(&self) -> Link {
        self.shared.watch.state()
    }

    fn breaks(&self) -> Option<u64> {
        Some(self.shared.watch.breaks())
    }

    fn mtu(&self) -> Option<usize> {
        self.shared.watch.mtu()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_queue_is_named() {
        if testbed::rig::skip("a_busy_queue_is_named") {
            return;
        }
        crate::tests::alone(|| {
            let rig = testbed::rig::Rig::new(testbed::rig::Cable::default()).unwrap();
            let spec = Spec { device: "d0".to_owned(), ..Spec::default() };
            rig.dut
                .enter(|| {
                    let ifindex = Watch::new("d0").unwrap().bound();
                    let binding = Binding { zero_copy: false, multi_buffer: false };
                    let other = socket::open(&setup(&spec, 1).unwrap(), ifindex, 0, binding, None).unwrap();
                    let error = XdpDevice::open(&spec, false, "", None).err().unwrap().to_string();
                    assert!(
                        error.starts_with("d0: queue is busy: another program has an AF_XDP socket"),
                        "{error}"
                    );
                    drop(other);
                    assert!(XdpDevice::open(&spec, false, "", None).is_ok());
                })
                .unwrap();
        });
    }

    /// While the interface is taken up again the kernel may take its time: here, forever, until the test lets go.
    #[test]
    fn nobody_waits_for_a_lost_interface() {
        if testbed::rig::skip("nobody_waits_for_a_lost_interface") {
            return;
        }
        crate::tests::alone(|| {
            let rig = testbed::rig::Rig::new(testbed::rig::Cable::default()).unwrap();
            let spec = Spec { device: "d0".to_owned(), ..Spec::default() };
            let (device, mut rx, mut tx) = rig
                .dut
                .enter(|| {
                    let device = XdpDevice::open(&spec, false, "", None).unwrap();
                    let (rx, tx) = (device.rx(0).unwrap(), device.tx(0).unwrap());
                    (device, rx, tx)
                })
                .unwrap();
            let mut batch = packet::Batch::new();
            let mut calls = |rounds: usize| {
                let looks = || {
                    for _ in 0..rounds {
                        rx.receive(&mut batch, 32);
                        tx.transmit(&mut packet::Batch::of(packet::Packet::copy_of(&[0x5a; 60]).unwrap()));
                        tx.flush();
                    }
                    (rx.stats().packets, tx.stats().packets)
                };
                rig.dut.enter(looks).unwrap()
            };
            rig.dut.ip("link del d0").unwrap();
            calls(4096);
            let held = lock(&device.shared.hook);
            testbed::rig::Cable::default().lay(&rig.a, "a0", &rig.dut, "d0").unwrap();
            let (_, sent) = calls(100_000);
            drop(held);
            testbed::rig::wait_for("the interface", std::time::Duration::from_secs(120), || {
                calls(512).1 > sent
            })
            .unwrap();
        });
    }

    #[test]
    fn settings_are_checked() {
        let wrong = [("RING", "100", "RING 100 is no power of two"), ("RING", "x", "RING x is not a number")];
        for (key, value, message) in wrong {
            let settings = vec![(key.to_owned(), value.to_owned())];
            let error = setup(&Spec { settings, ..Spec::default() }, 1).err().unwrap().to_string();
            assert!(error.contains(message), "{error}");
        }
        assert!(setup(&Spec { headroom: 1500, ..Spec::default() }, 1).is_err());
        assert_eq!(setup(&Spec { headroom: 300, ..Spec::default() }, 1).unwrap().headroom, 64);
        assert_eq!(setup(&Spec::default(), 64).unwrap().ring, 64);
    }
}
