// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel taps: interfaces of the kernel whose other end is this process.
//!
//! A *tap* carries Ethernet frames, a *tun* IP packets. Each queue is a descriptor of `/dev/net/tun`; the kernel moves
//! one packet per system call, so a batch costs as many calls as it has packets. Interfaces vanish with their last
//! descriptor unless they were made persistent beforehand (`ip tuntap add`), in which case we attach to them.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};

use packet::port::{Device, Error, Info, Link, QueueStats, RxQueue, TxQueue, link_type};
use packet::{Batch, HEADROOM, Packet, PacketType};

use crate::aliases::{Aliases, Teller};
use crate::keeper::{self, Keeper, Kept};
use crate::link::{Interfaces, Pace, Watch};
use crate::memory::Taken;
use crate::opener::{self, Call};
use crate::sys::{self, Aside, Counters, check};
use crate::vrf::Vrf;

mod again;
mod announce;
mod ipv6;

use again::{Current, Maker};
use ipv6::Resizer;

/// What a tap carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapKind {
    /// Ethernet frames.
    Tap,
    /// IP packets.
    Tun,
}

/// How to make a tap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapSpec {
    /// Its name; `None` or a pattern such as `tap%d` lets the kernel choose.
    pub name: Option<String>,
    /// Ethernet or IP.
    pub kind: TapKind,
    /// Addresses to give it, each with its prefix length.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Link-level address; `None` leaves the kernel's choice.
    pub mac: Option<[u8; 6]>,
    /// MTU; `None` leaves it.
    pub mtu: Option<usize>,
    /// An interface of our own namespace whose link-level address and MTU to take on, unless given, and whose carrier and MTU to follow.
    pub twin: Option<String>,
    /// Network namespace to make it in, by name or path; `None` is the calling thread's.
    pub netns: Option<String>,
    /// The VRF that it belongs to.
    pub vrf: Option<Vrf>,
    /// Queues each way.
    pub queues: usize,
    /// Headroom in bytes before each received packet.
    pub headroom: usize,
}

impl TapSpec {
    /// A tap or tun of one queue with the kernel's defaults.
    pub fn new(name: Option<&str>, kind: TapKind) -> TapSpec {
        TapSpec {
            name: name.map(str::to_owned),
            kind,
            addresses: Vec::new(),
            mac: None,
            mtu: None,
            twin: None,
            netns: None,
            vrf: None,
            queues: 1,
            headroom: HEADROOM,
        }
    }
}

/// An open tap.
#[derive(Debug)]
pub struct Tap {
    me: Weak<Tap>,
    kind: TapKind,
    headroom: usize,
    watch: Arc<Watch>,
    /// The interface whose carrier the tap follows.
    twin: Option<Arc<Watch>>,
    /// Follows its MTU, too, where nobody has said another one.
    resizer: Option<Arc<Resizer>>,
    /// The MTU that it was made with.
    mtu: Option<usize>,
    aliases: OnceLock<Arc<Aliases>>,
    queues: Vec<Queue>,
}

#[derive(Debug)]
struct Queue {
    current: Arc<Current>,
    rx: Arc<AtomicBool>,
    tx: Arc<AtomicBool>,
}

/// What an earlier process left of an interface.
fn left(kept: &Kept, interface: &str, kind: TapKind, multi_queue: bool) -> Option<OwnedFd> {
    kept.take().filter(|descriptor| keeper::is_tap(descriptor, interface, flags(kind, multi_queue)))
}

impl Tap {
    /// Makes the interface, or attaches to a persistent one, gives it its addresses and brings it up.
    ///
    /// # Errors
    /// No permission, no `/dev/net/tun`, a name in use, or an address the kernel refuses.
    pub fn open(spec: &TapSpec, keeper: Option<&Arc<dyn Keeper>>) -> Result<Arc<Tap>, Error> {
        let mut spec = spec.clone();
        let place = spec.netns.clone().unwrap_or_default();
        let (mut watch, follows_mtu) = (None, spec.mtu.is_none());
        if let Some(twin) = spec.twin.take() {
            let name = spec.name.as_deref().unwrap_or("tap");
            resemble(&mut spec.mac, &mut spec.mtu, &twin).map_err(|e| {
                let mend = format!("TWIN names an interface of this machine; see `ip link show {twin}`");
                Error::new(name, format!("cannot be the twin of {twin}: {}", sys::words(&e)), mend)
            })?;
            watch = Some((Arc::new(Watch::new(&twin)?), follows_mtu));
        }
        match spec.netns.take() {
            Some(netns) => in_namespace(&netns, &spec, watch, (keeper, &place)),
            None => Tap::open_here(&spec, watch, (keeper, &place), None),
        }
    }

    /// Makes it in the calling thread's namespace, in which its sockets stay. One that was kept under this place's name is used again.
    fn open_here(
        spec: &TapSpec,
        twin: Option<(Arc<Watch>, bool)>,
        (keeper, place): (Option<&Arc<dyn Keeper>>, &str),
        namespace: Option<Arc<File>>,
    ) -> Result<Arc<Tap>, Error> {
        let asked = spec.name.as_deref().unwrap_or(match spec.kind {
            TapKind::Tap => "tap%d",
            TapKind::Tun => "tun%d",
        });
        let kept =
            |queue: usize| Kept { keeper: keeper.cloned(), name: format!("tap/{place}/{asked}/{queue}") };
        let multi_queue = spec.queues > 1;
        let before = left(&kept(0), asked, spec.kind, multi_queue);
        let is_new = before.is_none();
        let (first, name) = match before {
            Some(first) => (first, asked.to_owned()),
            None => attach(asked, spec.kind, multi_queue).map_err(|e| explain_attach(asked, &e))?,
        };
        let mut fds = vec![first];
        while fds.len() < spec.queues {
            let next = match left(&kept(fds.len()), &name, spec.kind, true) {
                Some(next) => next,
                None => attach(&name, spec.kind, true).map_err(|e| explain_attach(&name, &e))?.0,
            };
            fds.push(next);
        }
        let mut watch = Watch::new(&name)?;
        if twin.is_some() {
            watch = watch.with_uppers();
        }
        let follows_mtu = twin.as_ref().is_some_and(|(_, follows)| *follows);
        configure(&watch, spec, follows_mtu)?;
        if is_new {
            announce::later(&name, namespace.clone());
        }
        let watch = Arc::new(watch);
        let resizer = || Resizer::new(watch.clone(), spec, namespace.is_some());
        let resizer = follows_mtu.then(resizer).transpose();
        let resizer = resizer.map_err(|e| {
            Error::new(&name, format!("cannot open a socket of rtnetlink: {}", sys::words(&e)), "")
        })?;
        let spec = TapSpec { name: Some(name), ..spec.clone() };
        let maker = Arc::new(Maker { spec, namespace, watch: watch.clone(), follows_mtu });
        let queue = |(number, fd): (usize, OwnedFd)| {
            let current = Arc::new(Current::new(fd, maker.clone(), kept(number)));
            Queue { current, rx: Arc::default(), tx: Arc::default() }
        };
        Ok(Arc::new_cyclic(|me| Tap {
            me: me.clone(),
            kind: maker.spec.kind,
            headroom: maker.spec.headroom,
            watch,
            twin: twin.map(|(watch, _)| watch),
            resizer: resizer.map(Arc::new),
            aliases: OnceLock::new(),
            mtu: maker.spec.mtu,
            queues: fds.into_iter().enumerate().map(queue).collect(),
        }))
    }

    /// The interface's name, as the kernel chose it where it was left open.
    pub fn name(&self) -> &str {
        self.watch.name()
    }

    /// The interface that it stands for, if it is a twin.
    pub(crate) fn twin(&self) -> Option<&str> {
        self.twin.as_ref().map(|twin| twin.name())
    }

    /// Where the addresses of macvlans over it are reported.
    pub(crate) fn tell_aliases(&self, aliases: Arc<Aliases>) {
        let _ = self.aliases.set(aliases);
    }

    /// This process ends: packets that arrive from now on wait for the next one.
    pub(crate) fn hold(&self) {
        self.queues.iter().for_each(|queue| queue.current.hold());
    }

    fn queue(&self, queue: usize) -> Result<&Queue, Error> {
        self.queues.get(queue).ok_or_else(|| {
            let mend = format!("it has {} (N_QUEUES)", self.queues.len());
            Error::new(self.name(), format!("there is no queue {queue}"), mend)
        })
    }
}

/// Fills in the address and MTU of an interface where none are given.
fn resemble(mac: &mut Option<[u8; 6]>, mtu: &mut Option<usize>, twin: &str) -> io::Result<()> {
    let interfaces = Interfaces::new()?;
    *mac = Some(mac.map_or_else(|| interfaces.hardware(twin).map(|(mac, _)| mac), Ok)?);
    *mtu = Some(mtu.map_or_else(|| interfaces.mtu(twin), Ok)?);
    Ok(())
}

/// Makes a tap in another network namespace, which a thread of its own enters: interfaces and sockets belong to the
/// namespace in which they were made, for any user.
fn in_namespace(
    netns: &str,
    spec: &TapSpec,
    twin: Option<(Arc<Watch>, bool)>,
    kept: (Option<&Arc<dyn Keeper>>, &str),
) -> Result<Arc<Tap>, Error> {
    let path = if netns.contains('/') { netns.to_owned() } else { format!("/run/netns/{netns}") };
    let failed = |e: io::Error| {
        let mend = match e.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "entering a namespace takes root".to_owned(),
            _ => format!("sudo ip netns add {netns}"),
        };
        let name = spec.name.as_deref().unwrap_or("tap");
        Error::new(name, format!("cannot enter network namespace {netns}: {}", sys::words(&e)), mend)
    };
    let namespace = Arc::new(File::open(&path).map_err(failed)?);
    let inside = || {
        again::enter(&namespace).map_err(failed)?;
        Tap::open_here(spec, twin, kept, Some(namespace.clone()))
    };
    std::thread::scope(|scope| {
        scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn flags(kind: TapKind, multi_queue: bool) -> i16 {
    let mut flags = libc::IFF_NO_PI;
    flags |= if kind == TapKind::Tap { libc::IFF_TAP } else { libc::IFF_TUN };
    if multi_queue {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    flags as i16
}

/// Opens one descriptor of the interface; returns it and the interface's name.
fn attach(name: &str, kind: TapKind, multi_queue: bool) -> io::Result<(OwnedFd, String)> {
    let flags = flags(kind, multi_queue);
    match opener::ask(Call::Tap, [flags as u32, 0, 0, 0], name.as_bytes(), &[]) {
        Some(asked) => {
            let (name, fds) = asked?;
            let made = fds.into_iter().next().ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))?;
            Ok((made, String::from_utf8_lossy(&name).into_owned()))
        }
        None => attach_with(name, flags),
    }
}

/// The same by flags.
pub(crate) fn attach_with(name: &str, flags: i16) -> io::Result<(OwnedFd, String)> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    let tun =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: an `ifreq` of zeros is a value.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_flags = flags;
    // SAFETY: the first request reads and writes the `ifreq`, whose name the kernel keeps terminated by a zero; the second takes
    // a number.
    let name = unsafe {
        check(libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &raw mut ifreq))?;
        // A persistent tap may remember that its former user took unfinished checksums and joined segments.
        check(libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD as _, 0 as libc::c_ulong))?;
        CStr::from_ptr(ifreq.ifr_name.as_ptr()).to_string_lossy().into_owned()
    };
    Ok((tun.into(), name))
}

fn explain_attach(name: &str, error: &io::Error) -> Error {
    let mend = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => crate::settings::grant(),
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => "sudo modprobe tun".to_owned(),
        Some(libc::EBUSY) => format!("another program holds it; see `ip -d link show {name}`"),
        Some(libc::EINVAL) => {
            format!("an interface {name} of another kind or queue count exists; sudo ip link del {name}")
        }
        Some(libc::ENAMETOOLONG) => format!("a name has at most {} bytes", libc::IFNAMSIZ - 1),
        _ => String::new(),
    };
    Error::new(name, format!("cannot make a tap: {}", sys::words(error)), mend)
}

/// Gives an interface what the specification says. IPv6 waits for an MTU that it is possible with, if a larger one may come.
fn configure(watch: &Watch, spec: &TapSpec, follows_mtu: bool) -> Result<(), Error> {
    let name = watch.name();
    let failed = |what: &str, e: io::Error| {
        let mend =
            if e.raw_os_error() == Some(libc::EPERM) { crate::settings::grant() } else { String::new() };
        Error::new(name, format!("cannot set {what}: {}", sys::words(&e)), mend)
    };
    // To give an interface the address that it has makes the kernel forget its neighbours.
    let has = |mac| watch.interfaces.hardware(name).is_ok_and(|(its, _)| its == mac);
    if let (Some(mac), TapKind::Tap) = (spec.mac.filter(|mac| !has(*mac)), spec.kind) {
        watch.interfaces.set_mac(name, mac).map_err(|e| failed("its link-level address", e))?;
    }
    if let Some(mtu) = spec.mtu {
        watch.interfaces.set_mtu(name, mtu).map_err(|e| failed(&format!("MTU {mtu}"), e))?;
    }
    // An interface loses its IPv6 addresses when it joins.
    if let Some(vrf) = &spec.vrf {
        let joined = vrf.take(&watch.interfaces, name);
        joined.map_err(|e| failed(&format!("VRF {} with table {}", vrf.name, vrf.table), e))?;
    }
    let has_six = spec.mtu.is_none_or(ipv6::is_possible);
    let waits = |address: &IpAddr| address.is_ipv6() && !has_six && follows_mtu;
    for (address, prefix) in spec.addresses.iter().filter(|(address, _)| !waits(address)) {
        let set = watch.interfaces.set_address(name, *address, *prefix);
        set.map_err(|e| match has_six || address.is_ipv4() || e.raw_os_error() == Some(libc::EPERM) {
            true => failed(&format!("address {address}/{prefix}"), e),
            false => Error::new(
                name,
                format!("cannot set address {address}/{prefix}: {}", sys::words(&e)),
                "IPv6 takes an MTU of 1280 bytes",
            ),
        })?;
    }
    watch.interfaces.set_up(name).map_err(|e| failed("it up", e))
}

impl Tap {
    fn follower(&self, watch: Arc<Watch>) -> Twin {
        let teller = self.aliases.get().map(|aliases| Teller::new(aliases.clone()));
        // The kernel gives a tap a carrier when it is opened; one that was kept has what it was given last.
        let carrier = self.watch.state() == Link::Up;
        let mtu = watch.interfaces.mtu(watch.name()).ok().filter(|_| self.resizer.is_some());
        let (breaks, first_mtu, resizer) = (watch.breaks(), self.mtu, self.resizer.clone());
        let (resizing, pace) = (Aside::default(), Pace::default());
        Twin { breaks, watch, carrier, mtu, first_mtu, resizer, resizing, teller, pace }
    }
}

impl Device for Tap {
    fn info(&self) -> Info {
        let mac = self.watch.interfaces.hardware(self.name()).ok();
        Info {
            name: self.name().to_owned(),
            driver: format!("{} of the kernel", if self.kind == TapKind::Tap { "tap" } else { "tun" }),
            mac: mac.filter(|_| self.kind == TapKind::Tap).map(|(mac, _)| mac),
            mtu: self.watch.interfaces.mtu(self.name()).unwrap_or(1500),
            rx_queues: self.queues.len(),
            tx_queues: self.queues.len(),
        }
    }

    fn rx(&self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let q = self.queue(queue)?;
        let taken = Taken::take(self.name(), &q.rx, queue)?.keeping(&self.me);
        let mut rx = TapRx {
            fd: q.current.descriptor(),
            current: q.current.clone(),
            watch: self.watch.clone(),
            kind: self.kind,
            headroom: self.headroom,
            room: 0,
            spare: None,
            twin: self.twin.clone().filter(|_| queue == 0).map(|twin| self.follower(twin)),
            counters: Counters::default(),
            _taken: taken,
        };
        rx.measure();
        Ok(Box::new(rx))
    }

    fn tx(&self, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let q = self.queue(queue)?;
        let taken = Taken::take(self.name(), &q.tx, queue)?.keeping(&self.me);
        Ok(Box::new(TapTx {
            fd: q.current.descriptor(),
            current: q.current.clone(),
            watch: self.watch.clone(),
            counters: Counters::default(),
            _taken: taken,
        }))
    }

    fn link(&self) -> Link {
        self.watch.state()
    }

    fn breaks(&self) -> Option<u64> {
        Some(self.watch.breaks())
    }

    fn mtu(&self) -> Option<usize> {
        self.watch.mtu()
    }

    fn addresses(&self) -> Option<Vec<(IpAddr, u8)>> {
        self.twin.is_some().then(|| self.watch.addresses())
    }

    fn virtual_addresses(&self) -> Vec<IpAddr> {
        self.watch.upper_addresses()
    }

    fn link_type(&self) -> u32 {
        if self.kind == TapKind::Tap { link_type::ETHERNET } else { link_type::RAW }
    }
}

struct TapRx {
    fd: Arc<OwnedFd>,
    current: Arc<Current>,
    watch: Arc<Watch>,
    kind: TapKind,
    headroom: usize,
    /// Bytes of the largest packet expected.
    room: usize,
    /// A frame into which nothing has been read yet.
    spare: Option<Packet>,
    twin: Option<Twin>,
    counters: Counters,
    _taken: Taken,
}

/// The interface whose carrier and MTU a tap follows, as it was seen last.
struct Twin {
    watch: Arc<Watch>,
    carrier: bool,
    /// None where the tap has an MTU of its own.
    mtu: Option<usize>,
    /// What the tap has when it is made again.
    first_mtu: Option<usize>,
    resizer: Option<Arc<Resizer>>,
    /// Sets an MTU, which it returns. The kernel may take its time for that.
    resizing: Aside<usize>,
    breaks: u64,
    teller: Option<Teller>,
    pace: Pace,
}

impl Twin {
    /// Reports to the interface's driver which addresses the kernel has on macvlans over the tap.
    fn tell(&mut self, tap: &Watch) {
        if let Some(teller) = &mut self.teller {
            teller.tell(self.watch.index(), tap.upper_macs().into_iter());
        }
    }

    /// Gives the tap the carrier that the interface has. A carrier that was lost and found meanwhile is lost here, too, so that
    /// listeners to the kernel hear of it.
    #[cold]
    fn follow(&mut self, tap: &OwnedFd) -> io::Result<()> {
        let (breaks, carrier) = (self.watch.breaks(), self.watch.state() == Link::Up);
        if breaks != self.breaks && carrier && self.carrier {
            set_carrier(tap, false)?;
            self.carrier = false;
        }
        if carrier != self.carrier {
            set_carrier(tap, carrier)?;
            self.carrier = carrier;
        }
        self.breaks = breaks;
        Ok(())
    }

    /// Gives the tap the interface's MTU when that has changed. An MTU that the kernel's user gave the tap stays until then.
    #[cold]
    fn follow_mtu(&mut self) {
        let Some((resizer, now)) = self.resizer.as_ref().zip(self.watch.mtu()) else { return };
        if self.mtu != Some(now) || self.resizing.is_busy() {
            let resizer = resizer.clone();
            let set = self.resizing.look(move || {
                resizer.set_mtu(now);
                now
            });
            self.mtu = set.or(self.mtu);
        }
    }
}

/// Linux 5.0.
fn set_carrier(tap: &OwnedFd, carrier: bool) -> io::Result<()> {
    const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;
    let carrier = libc::c_int::from(carrier);
    // SAFETY: the request reads an integer.
    check(unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETCARRIER as _, &raw const carrier) })?;
    Ok(())
}

impl TapRx {
    /// Goes on with an interface that was made again, if it is there.
    #[cold]
    fn resume(&mut self) {
        let Some(fd) = self.current.instead_of(&self.fd) else { return };
        self.fd = fd;
        if let Some(twin) = &mut self.twin {
            twin.carrier = true;
            twin.mtu = twin.mtu.and(twin.first_mtu);
            // What is being set is set on the former tap.
            twin.resizing = Aside::default();
        }
        self.measure();
    }

    /// Learns how large packets may be: the MTU, a link header and a VLAN tag, and one byte by which a packet that
    /// is larger still shows itself.
    fn measure(&mut self) {
        self.room = self.watch.interfaces.mtu(self.watch.name()).unwrap_or(1500) + 14 + 4 + 1;
        self.spare = None;
    }
}

impl RxQueue for TapRx {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        if let Some(twin) = &mut self.twin
            && twin.pace.due()
        {
            // A kernel before 5.0 leaves taps their carrier.
            let _ = twin.follow(&self.fd);
            twin.follow_mtu();
            twin.tell(&self.watch);
        }
        let (mut n, mut bytes) = (0, 0);
        let max = if self.current.is_held() { 0 } else { max };
        while n < max {
            let Some(mut packet) = self.spare.take().or_else(|| Packet::alloc(self.headroom, self.room))
            else {
                self.counters.no_memory(1);
                break;
            };
            let room = packet.data_mut();
            // SAFETY: the kernel writes at most `room.len()` bytes there.
            let got = unsafe { libc::read(self.fd.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
            let Ok(got) = usize::try_from(got) else {
                self.spare = Some(packet);
                let error = io::Error::last_os_error();
                if again::is_deleted(&error) {
                    self.resume();
                } else if error.kind() != io::ErrorKind::WouldBlock {
                    self.counters.errors(1);
                }
                break;
            };
            if got == self.room {
                // Cut off: the MTU has grown since.
                self.counters.errors(1);
                self.measure();
                continue;
            }
            packet.trim(self.room - got);
            if self.kind == TapKind::Tap {
                packet.set_packet_type(packet_type(packet.data()));
            }
            bytes += got;
            n += 1;
            batch.push(packet);
        }
        self.counters.moved(n, bytes);
        n
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }

    fn fault(&self) -> Option<Error> {
        self.watch.fault()
    }

    fn stats(&self) -> QueueStats {
        self.counters.read()
    }
}

/// What the destination address says of a frame whose receiver has no address to compare it with.
pub(crate) fn packet_type(frame: &[u8]) -> PacketType {
    match frame.first_chunk::<6>() {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => PacketType::Broadcast,
        Some([first, ..]) if first & 1 == 1 => PacketType::Multicast,
        _ => PacketType::Host,
    }
}

struct TapTx {
    fd: Arc<OwnedFd>,
    current: Arc<Current>,
    watch: Arc<Watch>,
    counters: Counters,
    _taken: Taken,
}

impl TxQueue for TapTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let (mut n, mut bytes, mut errors) = (0, 0, 0);
        for packet in batch.iter() {
            let data = packet.data();
            // SAFETY: the kernel reads `data.len()` bytes there.
            if unsafe { libc::write(self.fd.as_raw_fd(), data.as_ptr().cast(), data.len()) } >= 0 {
                bytes += data.len();
            } else {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::WouldBlock {
                    break;
                }
                if again::is_deleted(&error)
                    && let Some(fd) = self.current.instead_of(&self.fd)
                {
                    self.fd = fd;
                    break;
                }
                errors += 1;
            }
            n += 1;
        }
        drop(batch.split_front(n));
        self.counters.moved(n - errors, bytes);
        self.counters.errors(errors);
        n
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }

    fn fault(&self) -> Option<Error> {
        self.watch.fault()
    }

    fn stats(&self) -> QueueStats {
        self.counters.read()
    }
}
