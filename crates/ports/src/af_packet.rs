// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet sockets: the driver that works on every Linux interface.
//!
//! Receiving uses a memory-mapped ring of blocks (TPACKET_V3): the kernel copies each frame into the current block
//! and hands the block over when it is full or a millisecond old. We copy the frames out, finish what their sender
//! left to hardware (see the `offload` module), and put VLAN tags back where the kernel had set them apart. Several
//! queues are several sockets in a fanout group, to which the kernel spreads flows by their hash.
//!
//! Transmitting gives the kernel a batch of frames in one `sendmmsg`, past the queueing discipline. The memory-mapped alternative (TPACKET_V2 ring,
//! batches of 64, over a virtual cable, Zen 5, Linux 6.18) took 743 ns a frame of 60 bytes where this takes 721, and 950 for 1500 bytes where this
//! takes 750. It saves the copy of the message headers and pays with fragmented buffers.
//!
//! What the interface receives goes to the kernel's own protocols as well, unless `SNIFFER false` attaches a
//! two-instruction classifier that drops it behind us.
//!
//! A queue whose interface went away looks for one of the same name now and then, and binds to it.

mod rx;
mod tx;

pub(crate) use rx::older;

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use packet::HEADROOM;
use packet::port::{Device, Error, Info, Link, RxQueue, Spec, TxQueue, link_type};
use sync::mutex::lock;

use crate::aliases::Aliases;
use crate::bpf;
use crate::keeper::{Keeper, Kept};
use crate::link::Watch;
use crate::memory::Taken;
use crate::sys;
use crate::urgent::sort::{self, Part};
use crate::urgent::{Kernel, Lane, UrgentRx};

const PACKET_ADD_MEMBERSHIP: i32 = 1;
const PACKET_MR_PROMISC: u16 = 1;
const PACKET_MR_ALLMULTI: u16 = 2;
const PACKET_MR_UNICAST: u16 = 3;

/// Most queues that a packet device offers when nobody says how many.
const QUEUES_MAX: usize = 64;

/// An interface reached by packet sockets.
pub struct PacketDevice {
    me: Weak<PacketDevice>,
    shared: Arc<Shared>,
    queues: Vec<(Arc<AtomicBool>, Arc<AtomicBool>)>,
}

impl std::fmt::Debug for PacketDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PacketDevice({})", self.shared.watch.name())
    }
}

/// What a device's queues share.
struct Shared {
    watch: Watch,
    options: Mutex<Options>,
    queues: usize,
    /// The fanout group's number, once its first socket chose it.
    fanout: Mutex<Option<u16>>,
    /// The name of a group that other processes are in, too.
    group: Option<String>,
    /// Frames begin with an Ethernet header.
    ethernet: bool,
    qdisc: bool,
    /// Its sockets receive another device's urgent packets alone.
    is_urgent: bool,
    /// Where the ring of this device's urgent packets waits, if there is one.
    lane: Arc<Lane>,
    sockets: Mutex<Sockets>,
    why: String,
    promiscuous: Promiscuous,
    aliases: Arc<OnceLock<Arc<Aliases>>>,
    holds: Mutex<Holds>,
    /// Who keeps sockets for the process that takes this one's place.
    keeper: Option<Arc<dyn Keeper>>,
    older: Mutex<Older>,
    /// A socket that is bound to this interface and not in use yet. To close one takes the kernel some 10 ms (a grace period of RCU),
    /// which a router that starts again does not have.
    spare: Mutex<Option<(u32, OwnedFd)>>,
}

/// The parts of a [`Spec`] that a later element may still change.
#[derive(Clone, Debug, Default)]
struct Options {
    promiscuous: bool,
    outbound: bool,
    snaplen: usize,
    headroom: usize,
    keep_from_kernel: bool,
}

/// What lasts as long as the device and belongs to one interface.
#[derive(Debug, Default)]
struct Holds {
    ifindex: u32,
    /// The classifier that keeps received packets from the kernel.
    swallow: Option<OwnedFd>,
}

/// Packets that arrived before this process had the device.
#[derive(Debug, Default)]
struct Older {
    /// The socket with their ring, until a queue takes it.
    socket: Option<OwnedFd>,
    /// They have not been read, so that later ones still go into their ring.
    waits: bool,
}

/// The sockets of a device's rings.
#[derive(Debug, Default)]
struct Sockets {
    /// Urgent packets have a ring of their own, so these sockets receive the rest.
    parted: bool,
    all: Vec<Weak<OwnedFd>>,
}

impl PacketDevice {
    /// Opens `spec.device`. `why` says why this driver was chosen, for [`Info::driver`]. `group`: other processes share its flows. `keeper` keeps
    /// its sockets for the process that takes this one's place.
    ///
    /// # Errors
    /// No such interface, no permission, or options that this kernel cannot satisfy.
    pub fn open(
        spec: &Spec,
        why: &str,
        group: Option<&str>,
        keeper: Option<&Arc<dyn Keeper>>,
    ) -> Result<Arc<PacketDevice>, Error> {
        PacketDevice::open_part(spec, why, (group, keeper), None)
    }

    /// This process ends: packets that arrive from now on wait for the next one.
    pub(crate) fn hold(&self) {
        rx::older::hold(&self.shared);
    }

    /// Opens a device, or with `aliases` a ring for another device's urgent packets.
    fn open_part(
        spec: &Spec,
        why: &str,
        (group, keeper): (Option<&str>, Option<&Arc<dyn Keeper>>),
        aliases: Option<&Arc<OnceLock<Arc<Aliases>>>>,
    ) -> Result<Arc<PacketDevice>, Error> {
        let watch = Watch::new(&spec.device)?;
        let queues =
            spec.queues.unwrap_or_else(|| watch.interfaces.queues(&spec.device).0).clamp(1, QUEUES_MAX);
        let ethernet = match watch.interfaces.hardware(&spec.device) {
            Ok((_, kind)) => matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK),
            Err(_) => true,
        };
        let shared = Arc::new(Shared {
            watch,
            options: Mutex::default(),
            queues,
            fanout: Mutex::default(),
            group: group.map(str::to_owned),
            ethernet,
            qdisc: crate::settings::flag(spec, "QDISC")?.unwrap_or(false),
            is_urgent: aliases.is_some(),
            lane: Arc::default(),
            sockets: Mutex::default(),
            why: why.to_owned(),
            promiscuous: Promiscuous::default(),
            aliases: aliases.cloned().unwrap_or_default(),
            holds: Mutex::default(),
            keeper: keeper.cloned(),
            older: Mutex::default(),
            spare: Mutex::default(),
        });
        *lock(&shared.older) = rx::older::left(&shared);
        // Learn now, not at the first packet, whether we may.
        let ifindex = shared.watch.bound();
        let socket = shared.socket(0, ifindex).map_err(|e| shared.explain(&e))?;
        *lock(&shared.spare) = Some((ifindex, socket));
        let flags = || (0..queues).map(|_| Default::default()).collect();
        let device = Arc::new_cyclic(|me| PacketDevice { me: me.clone(), shared, queues: flags() });
        device.amend(spec)?;
        Ok(device)
    }

    /// Takes over what another element wants of the same device.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn amend(&self, spec: &Spec) -> Result<(), Error> {
        {
            let mut options = lock(&self.shared.options);
            options.promiscuous |= spec.promiscuous;
            options.outbound |= spec.outbound;
            options.snaplen = options.snaplen.max(spec.snaplen);
            options.headroom = options.headroom.max(spec.headroom);
            options.keep_from_kernel |= spec.sniffer == Some(false);
        }
        self.shared.hold(self.shared.watch.bound())?;
        // Each of several routers would get the same urgent packets.
        if spec.urgent && self.shared.ethernet && self.shared.group.is_none() {
            self.shared.part(spec.sniffer == Some(true))?;
        }
        Ok(())
    }

    /// Where further addresses of the interface are reported.
    pub(crate) fn ask_for_aliases(&self, aliases: Arc<Aliases>) {
        let _ = self.shared.aliases.set(aliases);
    }

    fn queue(&self, queue: usize) -> Result<&(Arc<AtomicBool>, Arc<AtomicBool>), Error> {
        self.queues.get(queue).ok_or_else(|| {
            let mend = format!("it has queues 0 to {} (N_QUEUES)", self.queues.len() - 1);
            Error::new(self.shared.watch.name(), format!("there is no queue {queue}"), mend)
        })
    }
}

/// Holds an interface in promiscuous mode, by a packet socket that receives nothing.
#[derive(Debug, Default)]
pub(crate) struct Promiscuous(Mutex<Option<(u32, OwnedFd)>>);

impl Promiscuous {
    /// Leaves it to the process that takes this one's place.
    pub(crate) fn leave(&self, keeper: &dyn Keeper, device: &str) {
        if let Some((_, socket)) = &*lock(&self.0) {
            keeper.keep(&name(device, "promiscuous"), socket.as_fd());
        }
    }

    /// Holds interface `ifindex`, and lets go of a former one.
    pub(crate) fn hold(&self, ifindex: u32) -> io::Result<()> {
        self.hold_by(ifindex, || sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0))
    }

    /// The same, by a socket that receives nothing.
    fn hold_by(&self, ifindex: u32, socket: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<()> {
        let mut held = lock(&self.0);
        if held.as_ref().is_some_and(|(of, _)| *of == ifindex) {
            return Ok(());
        }
        *held = None;
        let socket = socket()?;
        join(&socket, ifindex, PACKET_MR_PROMISC, &[])?;
        *held = Some((ifindex, socket));
        Ok(())
    }
}

/// Has an interface receive frames for further addresses and for all groups, until the result is dropped.
pub(crate) fn receive_more(ifindex: u32, macs: &[[u8; 6]]) -> io::Result<OwnedFd> {
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    join(&socket, ifindex, PACKET_MR_ALLMULTI, &[])?;
    macs.iter().try_for_each(|mac| join(&socket, ifindex, PACKET_MR_UNICAST, mac))?;
    Ok(socket)
}

fn join(socket: &OwnedFd, ifindex: u32, kind: u16, mac: &[u8]) -> io::Result<()> {
    #[repr(C)]
    struct Membership {
        ifindex: i32,
        kind: u16,
        address_len: u16,
        address: [u8; 8],
    }
    let mut wanted =
        Membership { ifindex: ifindex as i32, kind, address_len: mac.len() as u16, address: [0; 8] };
    wanted.address[..mac.len()].copy_from_slice(mac);
    sys::set_option(socket, libc::SOL_PACKET, PACKET_ADD_MEMBERSHIP, &wanted)
}

impl Shared {
    /// A packet socket bound to the interface, receiving `protocol` (0 for nothing).
    fn socket(&self, protocol: u16, ifindex: u32) -> io::Result<OwnedFd> {
        let spare = lock(&self.spare).take_if(|(of, _)| protocol == 0 && *of == ifindex);
        if let Some((_, socket)) = spare {
            return Ok(socket);
        }
        let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        bind(&socket, protocol, ifindex)?;
        Ok(socket)
    }

    /// Makes sure that promiscuous mode and the classifier are as wanted on this interface.
    fn hold(&self, ifindex: u32) -> Result<(), Error> {
        let options = lock(&self.options).clone();
        let mut holds = lock(&self.holds);
        if holds.ifindex != ifindex {
            *holds = Holds { ifindex, ..Holds::default() };
        }
        if options.promiscuous {
            self.promiscuous.hold_by(ifindex, || self.socket(0, ifindex)).map_err(|e| self.explain(&e))?;
        }
        if options.keep_from_kernel && holds.swallow.is_none() {
            let swallow = if self.is_urgent { sort::swallow } else { bpf::swallow };
            let link = swallow(ifindex).map_err(|e| {
                let mend = match e.raw_os_error() {
                    Some(libc::EPERM | libc::EACCES) => crate::settings::grant(),
                    _ => "it needs Linux 6.6 or newer; use SNIFFER true, or METHOD AF_XDP".to_owned(),
                };
                Error::new(
                    self.watch.name(),
                    format!("cannot keep packets from the kernel: {}", sys::words(&e)),
                    mend,
                )
            })?;
            holds.swallow = Some(link);
        }
        Ok(())
    }

    /// Gives the device's urgent packets a ring of their own, from now on. `sniffer`: the kernel's protocols are to have a copy.
    fn part(&self, sniffer: bool) -> Result<(), Error> {
        let mut sockets = lock(&self.sockets);
        if sockets.parted {
            return Ok(());
        }
        let Options { outbound, snaplen, headroom, .. } = lock(&self.options).clone();
        let spec = Spec { outbound, snaplen, headroom, ..Spec::default() };
        urgent_ring(self.watch.name(), spec, sniffer, &self.aliases, &self.lane)?;
        sockets.parted = true;
        if lock(&self.older).waits {
            return Ok(());
        }
        let program = sort::program(Part::Rest);
        let mut sockets = sockets.all.iter().filter_map(Weak::upgrade);
        let attached = sockets.try_for_each(|socket| sys::attach_filter(&socket, &program));
        attached.map_err(|e| self.explain(&e))
    }

    /// Has a ring's socket receive its part of the packets.
    fn admit(&self, socket: &Arc<OwnedFd>) -> io::Result<()> {
        let mut sockets = lock(&self.sockets);
        sockets.all.retain(|other| other.strong_count() > 0);
        sockets.all.push(Arc::downgrade(socket));
        match (self.is_urgent, sockets.parted) {
            (true, _) => sys::attach_filter(socket, &sort::program(Part::Urgent)),
            _ if lock(&self.older).waits => rx::older::refuse_all(socket),
            (false, true) => sys::attach_filter(socket, &sort::program(Part::Rest)),
            (false, false) => {
                // That of an earlier process, perhaps.
                sys::detach_filter(socket);
                Ok(())
            }
        }
    }

    /// What is kept of it for another process, under a name within the device.
    fn kept(&self, what: std::fmt::Arguments<'_>) -> Kept {
        let keeper = if self.is_urgent { None } else { self.keeper.clone() };
        Kept { keeper, name: name(self.watch.name(), what) }
    }

    /// Leaves something to the process that takes this one's place.
    fn leave(&self, what: &str, descriptor: &OwnedFd) {
        if let Some(keeper) = &self.keeper {
            keeper.keep(&name(self.watch.name(), what), descriptor.as_fd());
        }
    }

    /// Takes note that queues now use interface `ifindex`.
    fn moved_to(&self, ifindex: u32) {
        if self.watch.bound() != ifindex {
            self.watch.set_bound(ifindex);
            *lock(&self.fanout) = None;
        }
        // What was possible on the former interface is possible on this one, or counts as trouble of the link.
        let _ = self.hold(ifindex);
    }

    fn explain(&self, error: &io::Error) -> Error {
        let name = self.watch.name();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                Error::new(name, "no permission to open a packet socket", crate::settings::grant())
            }
            Some(libc::ENODEV | libc::ENXIO) => self.watch.interfaces.missing(name),
            Some(libc::ENOMEM | libc::ENOBUFS) => {
                let mend = "lower RING (receive memory in KiB), or N_QUEUES";
                Error::new(name, format!("no memory for the packet ring: {}", sys::words(error)), mend)
            }
            Some(libc::EAFNOSUPPORT) => {
                Error::new(name, "this kernel has no packet sockets", "sudo modprobe af_packet")
            }
            _ => Error::new(name, format!("cannot open a packet socket: {}", sys::words(error)), ""),
        }
    }
}

/// Under which name a part of a device is kept.
fn name(device: &str, what: impl std::fmt::Display) -> String {
    format!("packet/{device}/{what}")
}

/// Opens a ring for an interface's urgent packets, and puts it into the lane. `spec` says what is received besides its name, and `sniffer` whether the kernel's
/// protocols are to have a copy.
pub(crate) fn urgent_ring(
    name: &str,
    spec: Spec,
    sniffer: bool,
    aliases: &Arc<OnceLock<Arc<Aliases>>>,
    lane: &Lane,
) -> Result<(), Error> {
    let with = |sniffer: Option<bool>| {
        let spec = Spec { device: name.to_owned(), queues: Some(1), sniffer, ..spec.clone() };
        PacketDevice::open_part(&spec, "", (None, None), Some(aliases))
    };
    let (device, kernel) = match sniffer {
        true => (with(None)?, Kernel::Wanted),
        false => match with(Some(false)) {
            Ok(device) => (device, Kernel::Nothing),
            Err(_) => (with(None)?, Kernel::Unavoidable),
        },
    };
    let taken = Taken::take(name, &device.queue(0)?.0, 0)?.keeping(&device.me);
    lane.open(Box::new(rx::PacketRx::open(device.shared.clone(), 0, taken)?), kernel);
    Ok(())
}

/// Binds a packet socket to an interface.
pub(crate) fn bind(socket: &OwnedFd, protocol: u16, ifindex: u32) -> io::Result<()> {
    // SAFETY: zeros are an address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = ifindex as i32;
    // SAFETY: the kernel reads the address.
    sys::check(unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
    })?;
    Ok(())
}

/// Whether the interface that a packet socket was bound to has gone.
fn orphaned(socket: &OwnedFd) -> bool {
    bound_to(socket).is_none()
}

/// The interface that a packet socket is bound to, if it is there.
fn bound_to(socket: &OwnedFd) -> Option<u32> {
    // SAFETY: zeros are an address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes.
    let result = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &mut len) };
    (result >= 0 && address.sll_ifindex > 0).then_some(address.sll_ifindex as u32)
}

impl Device for PacketDevice {
    fn info(&self) -> Info {
        let (shared, name) = (&self.shared, self.shared.watch.name());
        let queues = self.queues.len();
        let mut driver = format!("AF_PACKET ring, {queues} queue{}", if queues == 1 { "" } else { "s" });
        let keep = lock(&shared.options).keep_from_kernel;
        driver += if keep { ", kept from the kernel" } else { ", the kernel sees them too" };
        driver += shared.lane.text();
        if !shared.why.is_empty() {
            driver += &format!(" ({})", shared.why);
        }
        let hardware = shared.watch.interfaces.hardware(name).ok();
        Info {
            name: name.to_owned(),
            driver,
            mac: hardware.filter(|_| shared.ethernet).map(|(mac, _)| mac),
            mtu: shared.watch.interfaces.mtu(name).unwrap_or(1500),
            rx_queues: queues,
            tx_queues: queues,
        }
    }

    fn tells_addressees(&self) -> bool {
        true
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let taken = Taken::take(self.shared.watch.name(), &self.queue(queue)?.0, queue)?.keeping(&self.me);
        let rx = Box::new(rx::PacketRx::open(self.shared.clone(), queue, taken)?);
        Ok(Box::new(UrgentRx::new(&self.shared.lane, rx)))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let taken = Taken::take(self.shared.watch.name(), &self.queue(queue)?.1, queue)?.keeping(&self.me);
        Ok(Box::new(tx::PacketTx::open(self.shared.clone(), taken)?))
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

    fn link_type(&self) -> u32 {
        if self.shared.ethernet { link_type::ETHERNET } else { link_type::RAW }
    }
}

impl Options {
    fn headroom(&self) -> usize {
        if self.headroom == 0 { HEADROOM } else { self.headroom }
    }
}
