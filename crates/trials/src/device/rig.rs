// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rig for devices that have network interfaces: two namespaces, two virtual cables or more, and the tester's ports.
//!
//! ```text
//! the tester's namespace            the device's
//!     t1 ------------------------------ d1
//!     t2 ------------------------------ d2
//! ```
//! Neither has a name, a default route, or an interface of the machine's own. They go with the process, however it ends; what was
//! started in the device's namespace is ended with the rig, or on a signal.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use packet::port::{Device, Provider as _, Spec, method};
use ports::SystemProvider;
use ports::live::stream::Stream;
use serde::{Deserialize, Serialize};
use testbed::rig::{self, Cable, Namespace, RigError};
use tester::frame::FCS;
use tester::station::Port;
use wire::{MacAddr, ethernet};

use super::cores::Cores;
use super::flows::Flows;
use super::{Plugged, Setup, Traffic};
use crate::{Error, interrupt};

/// Ports of a rig where nothing else is said.
pub(super) const PORTS: usize = 2;
/// And at most.
pub(crate) const PORTS_MAX: usize = TESTER.len();
/// The tester's interfaces.
const TESTER: [&str; 8] = ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"];
/// The device's.
const DEVICE: [&str; 8] = ["d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8"];
/// What the studies go up to, with a little more.
const MTU_MAX: usize = 9216;
/// How long a device's processes may take to end when they are asked to.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// What drives the tester's ports, where they are network interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Driver {
    /// The best that works.
    Auto,
    /// AF_XDP, in copy mode where the interface has no other.
    AfXdp,
    /// Packet sockets.
    AfPacket,
    /// Frames that the kernel generates (BPF_PROG_RUN); what arrives is received by the best of the others.
    Bpf,
}

impl Driver {
    /// How many ports have frames that the kernel generates.
    pub(super) fn sources(self, traffic: &Traffic, ports: usize) -> usize {
        match self {
            Driver::Bpf if traffic.one_way => 1,
            Driver::Bpf => ports,
            _ => 0,
        }
    }
}

/// An open interface of the tester's, and its name.
pub(super) type Opened = Vec<(String, Arc<dyn Device>)>;

/// The namespaces of one device.
pub(super) struct Rig {
    tester: Namespace,
    device: Option<Arc<Namespace>>,
    /// How many cables there are from one to the other.
    ports: usize,
    driver: Driver,
    pub(super) cores: Cores,
}

impl Rig {
    /// The tester's ports, joined by a cable.
    pub(super) fn cable(driver: Driver, traffic: &Traffic) -> Result<Rig, Error> {
        let lay = |tester: &Namespace| {
            let [here, there, ..] = TESTER;
            cable_for(traffic).lay(tester, here, tester, there)?;
            tester.run(&["ethtool", "-K", there, "gro", "on"])?;
            [here, there].iter().try_for_each(|end| tester.wait_for_link(end))
        };
        permitted()?;
        let tester = Namespace::unnamed()?;
        lay(&tester)?;
        let cores = Cores::of_machine(driver.sources(traffic, PORTS), true);
        Ok(Rig { tester, device: None, ports: PORTS, driver, cores })
    }

    /// So many of the tester's ports, and a device's at the other ends, which has use for so many cores `at_most`.
    pub(super) fn new(setup: &Setup, ports: usize, at_most: usize, traffic: &Traffic) -> Result<Rig, Error> {
        permitted()?;
        let driver = setup.driver;
        let cores = Cores::of_machine(driver.sources(traffic, ports), true);
        let cores = cores.for_device(setup.workers, at_most)?;
        let build = || -> Result<Rig, RigError> {
            let (tester, device) = (Namespace::unnamed()?, Namespace::unnamed()?);
            for (here, there) in TESTER.iter().zip(DEVICE).take(ports) {
                cable_for(traffic).lay(&tester, here, &device, there)?;
                // NAPI on: frames that a program redirects into the cable arrive, and threads can receive.
                device.run(&["ethtool", "-K", there, "gro", "on"])?;
            }
            TESTER[..ports].iter().try_for_each(|end| tester.wait_for_link(end))?;
            DEVICE[..ports].iter().try_for_each(|end| device.wait_for_link(end))?;
            let device = Arc::new(device);
            interrupt::before_end(evict_all);
            lock().push(Arc::downgrade(&device));
            Ok(Rig { tester, device: Some(device), ports, driver, cores })
        };
        Ok(build()?)
    }

    /// The tester's interfaces.
    pub(super) fn tester_ends(&self) -> &'static [&'static str] {
        &TESTER[..self.ports]
    }

    /// The device's.
    pub(super) fn device_ends(&self) -> &'static [&'static str] {
        &DEVICE[..self.ports]
    }

    /// The device's namespace. A mere cable has none but the tester's.
    pub(super) fn device(&self) -> &Namespace {
        self.device.as_deref().unwrap_or(&self.tester)
    }

    /// The same for who may outlive the rig.
    pub(super) fn shared(&self) -> Option<Arc<Namespace>> {
        self.device.clone()
    }

    /// Ethernet addresses of the device's interfaces.
    pub(super) fn macs(&self) -> Result<Vec<MacAddr>, Error> {
        let mac = |interface: &&str| self.device().mac(interface).map(MacAddr);
        Ok(self.device_ends().iter().map(mac).collect::<Result<_, _>>()?)
    }

    /// Opens the tester's interfaces.
    pub(super) fn open(&self) -> Result<Opened, Error> {
        let one = |name: &&str| Ok(((*name).to_owned(), open(name, self.driver, None)?));
        let open = || self.tester_ends().iter().map(one).collect();
        self.tester.enter(open)?
    }

    /// Plugs the tester in.
    pub(super) fn station(&self, opened: Opened, flows: &Flows, traffic: &Traffic) -> Result<Plugged, Error> {
        self.tester.enter(|| station(opened, (self.driver, &self.cores), flows, traffic))?
    }

    /// Has what arrives at the tester's ports handed over apart from the tester.
    pub(super) fn receive_apart(&self) -> Result<(), RigError> {
        let cores = self.cores.hand_over();
        self.tester_ends().iter().try_for_each(|end| self.tester.receive_on(end, &cores))
    }

    /// Has the wire's core, where there is one, hand over what these interfaces of the device receive, and what the tester's do.
    pub(super) fn place_wire(&self, device_too: bool) -> Result<(), Error> {
        if self.cores.wire.is_none() {
            return Ok(());
        }
        self.receive_apart()?;
        if device_too {
            let cores = self.cores.hand_over();
            let receive = |end: &&str| self.device().receive_on(end, &cores);
            self.device_ends().iter().try_for_each(receive)?;
        }
        Ok(())
    }

    /// Takes the tester's core, and says who has which.
    pub(super) fn settle(&self, plugged: &mut Plugged) {
        self.cores.take();
        let Cores { tester: Some(tester), wire, .. } = self.cores else { return };
        plugged.notes.extend(self.cores.told_of_sources());
        plugged.own_core = self.cores.disjoint();
        if self.device.is_some() {
            plugged.device_cores.clone_from(&self.cores.device);
            plugged.workers = self.cores.device.len().max(1);
        }
        let mut text = format!("Cores: the tester's {tester}, the device's {}", self.cores.list());
        text += &match wire {
            Some(wire) => format!(", the wire's {wire} (there what was sent is handed over)"),
            None => "; what was sent is handed over by the sender's core".to_owned(),
        };
        plugged.notes.push(text);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            device.evict(FAREWELL);
        }
    }
}

fn cable_for(traffic: &Traffic) -> Cable {
    Cable { mtu: mtu_for(traffic), ..Cable::default() }
}

/// The largest payload of a cable for this traffic, of the rig's or in memory.
pub(super) fn mtu_for(traffic: &Traffic) -> usize {
    traffic.longest.saturating_sub(ethernet::HEADER_LEN + FCS).clamp(1500, MTU_MAX)
}

/// Opens an interface of the calling thread's namespace for the tester alone. `queues`: as many receive queues.
pub(crate) fn open(name: &str, driver: Driver, queues: Option<usize>) -> Result<Arc<dyn Device>, Error> {
    let method = match driver {
        Driver::Auto | Driver::Bpf => None,
        Driver::AfXdp => Some(method::AF_XDP.to_owned()),
        Driver::AfPacket => Some(method::AF_PACKET.to_owned()),
    };
    let mut spec = Spec {
        device: name.to_owned(),
        method,
        queues,
        promiscuous: true,
        // What the tester receives is none of the kernel's business.
        sniffer: Some(false),
        ..Spec::default()
    };
    let provider = SystemProvider::new();
    let opened = provider.open(&spec).or_else(|why| {
        // Older kernels cannot keep what packet sockets receive from their protocols; these find no address here.
        spec.sniffer = None;
        provider.open(&spec).map_err(|_| why)
    });
    Ok(opened?)
}

/// The same ports, with frames that the kernel generates at those whose interfaces are named; and the cores that it takes for that, if
/// there are any. Nothing else of this machine is the device's.
pub(crate) fn generated(
    ports: Vec<Port>,
    interfaces: &[Option<String>],
) -> Result<(Vec<Port>, Option<Cores>), packet::port::Error> {
    let sources = interfaces.iter().flatten().count();
    if sources == 0 {
        return Ok((ports, None));
    }
    let cores = Cores::of_machine(sources, false);
    let mut source = 0..;
    let generate = |(port, interface): (Port, &Option<String>)| match (interface, source.next()) {
        (Some(name), Some(place)) => Ok(port.generated(Stream::open(name, cores.place_source(place))?)),
        _ => Ok(port),
    };
    let ports: Result<Vec<Port>, packet::port::Error> =
        ports.into_iter().zip(interfaces).map(generate).collect();
    Ok((ports?, Some(cores)))
}

/// A station with these interfaces, which belong to the calling thread's namespace.
pub(super) fn station(
    opened: Opened,
    (driver, cores): (Driver, &Cores),
    flows: &Flows,
    traffic: &Traffic,
) -> Result<Plugged, Error> {
    let port = |(index, (name, device)): (usize, (String, Arc<dyn Device>))| {
        let port = Port::new(&name, device)?;
        if driver != Driver::Bpf || traffic.one_way && index > 0 {
            return Ok(port);
        }
        let place = cores.place_source(index);
        Ok(port.generated(Stream::open(&name, place)?))
    };
    let ports: Result<Vec<Port>, packet::port::Error> = opened.into_iter().enumerate().map(port).collect();
    let ports = ports?;
    let mut plugged = Plugged { in_memory: false, ..Plugged::new(ports, flows, traffic)? };
    if cores.is_shared {
        plugged.station.share_core()?;
    }
    Ok(plugged)
}

/// Whether namespaces can be built here.
fn permitted() -> Result<(), Error> {
    rig::available().map_err(|why| {
        let line: Vec<String> = std::env::args().skip(1).collect();
        Error::NoRig { why, arguments: line.join(" ") }
    })
}

/// The namespaces of devices that run.
static RUNNING: Mutex<Vec<Weak<Namespace>>> = Mutex::new(Vec::new());

fn lock() -> std::sync::MutexGuard<'static, Vec<Weak<Namespace>>> {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    running.retain(|namespace| namespace.strong_count() > 0);
    running
}

/// Ends what devices have started: a process's namespaces go with it, other processes do not.
fn evict_all() {
    let running: Vec<Arc<Namespace>> = lock().iter().filter_map(Weak::upgrade).collect();
    running.iter().for_each(|namespace| namespace.evict(FAREWELL));
}
