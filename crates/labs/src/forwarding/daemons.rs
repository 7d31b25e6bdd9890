// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routing daemons whose routes never rest: FRR with OSPF and RIP, a neighbour whose routes come and go, and a control plane that puts
//! what the daemons learn into the tables of one router at a time.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use control::model::{Change, Source};
use control::{Handle, Rib, fpm, kernel};
use elements::routing::FeedSink;
use feed::{Destination, Update, Updates};
use sync::mutex::lock;
use testbed::frr::{self, Frr};
use testbed::rig::{self, Namespace, RigError, wait_for};

use crate::Error;
use harness::routes::Inside;

/// How long daemons may take for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the control plane looks whether there is something to do.
const TICK: Duration = Duration::from_millis(5);
/// How long a route of the neighbour is there, and how long it is away.
const STAY: Duration = Duration::from_millis(500);
/// The interface of the control namespace by which the neighbour is reached.
pub(super) const LINK: &str = "ctl0";

/// A protocol that the routes come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Ospf,
    Rip,
}

/// Both.
pub(super) const PROTOCOLS: [Protocol; 2] = [Protocol::Ospf, Protocol::Rip];

impl Protocol {
    /// The third byte of its first prefix. All prefixes are of 28 bits, in the /16 that the lab's traffic is in.
    fn first(self) -> u32 {
        match self {
            Protocol::Ospf => 128,
            Protocol::Rip => 192,
        }
    }

    /// Its prefixes.
    fn prefixes(self, count: u32) -> impl Iterator<Item = String> {
        let first = self.first();
        (0..count).map(move |i| format!("18.26.{}.{}/28", first + i / 16, i % 16 * 16))
    }

    /// The protocol by which a prefix comes.
    fn of(prefix: Destination) -> Option<Protocol> {
        let Destination::V4(prefix) = prefix else { return None };
        let [a, b, third, _] = prefix.addr().octets();
        let ours = (a, b, prefix.len()) == (18, 26, 28);
        PROTOCOLS.into_iter().find(|protocol| ours && u32::from(third) & 0xc0 == protocol.first())
    }
}

/// The most routes of a protocol.
pub(super) const ROUTES_MAX: u32 = 1024;

const OSPF: &str = "
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 60
router ospf
 network 198.18.0.0/24 area 0
 timers throttle spf 0 20 100
 timers throttle lsa all 0
 timers lsa min-arrival 0
";
const RIP: &str = "
 timers basic 5 180 120
";
/// Which of the neighbour's routes go out by a protocol.
const LISTS: &str = "
ip prefix-list ospf permit 18.26.128.0/18 le 32
ip prefix-list rip permit 18.26.192.0/18 le 32
route-map ospf permit 1
 match ip address prefix-list ospf
route-map rip permit 1
 match ip address prefix-list rip
";

/// Changes of routes by protocol, since the beginning.
pub(super) type Counts = [u64; 2];

/// Everything of it. All ends when this is dropped.
pub(super) struct Daemons {
    seat: Arc<Seat>,
    /// The flapping neighbour and the control plane, which end in this order.
    threads: Vec<JoinHandle<()>>,
    _feeds: Vec<Handle>,
    frr: [Frr; 2],
    namespaces: [Arc<Namespace>; 2],
}

/// What the threads have in common.
#[derive(Default)]
struct Seat {
    /// The router that takes the routes now.
    router: Mutex<Option<Arc<FeedSink>>>,
    /// Whether it has all that was known when it came.
    is_served: AtomicBool,
    changes: [AtomicU64; 2],
    is_over: AtomicBool,
    trouble: Mutex<Option<String>>,
}

impl Daemons {
    /// Starts all, with so many routes for each protocol.
    ///
    /// # Errors
    /// What this machine lacks, or what failed.
    pub(super) fn start(routes: u32) -> Result<Daemons, Error> {
        rig::available()?;
        if let Some(lacking) =
            ["zebra", "ospfd", "ripd"].into_iter().find(|name| !PathBuf::from(frr::program(name)).exists())
        {
            return Err(Error::Missing(format!(
                "FRR's {lacking} is not installed (sudo apt-get install frr)"
            )));
        }
        Daemons::start_all(routes)
    }

    fn start_all(routes: u32) -> Result<Daemons, Error> {
        let namespaces = [Arc::new(Namespace::new("ctl")?), Arc::new(Namespace::new("nbr")?)];
        lay(&namespaces)?;
        let seat = Arc::new(Seat::default());
        let (reports, received) = sync_channel(64);
        let namespace = Some(PathBuf::from(namespaces[0].name()));
        let settings = kernel::Settings { namespace: namespace.clone(), ..kernel::Settings::default() };
        let kernel = kernel::spawn(settings, reports.clone(), Box::new(|_| {}))?;
        let settings = fpm::Settings { namespace, ..fpm::Settings::default() };
        let fpm = fpm::spawn(settings, reports, Box::new(|_| {}))?;
        let mut daemons = Daemons {
            threads: vec![spawn("lab-control", &seat, move |seat| control(seat, &received))?],
            seat,
            _feeds: vec![kernel, fpm],
            frr: [Frr::new()?, Frr::new()?],
            namespaces,
        };
        daemons.start_frr()?;
        let neighbour = daemons.namespaces[1].clone();
        daemons
            .threads
            .insert(0, spawn("lab-flaps", &daemons.seat, move |seat| flap(seat, &neighbour, routes))?);
        Ok(daemons)
    }

    fn start_frr(&mut self) -> Result<(), RigError> {
        for (i, (frr, namespace)) in self.frr.iter_mut().zip(&self.namespaces).enumerate() {
            let (zebra, lists, interface) = [("fpm address 127.0.0.1\n", "", LINK), ("", LISTS, "nbr0")][i];
            let more: &[&str] = if i == 0 { &["-M", "dplane_fpm_nl"] } else { &[] };
            let out = |name: &str| {
                if i == 0 { String::new() } else { format!(" redistribute kernel route-map {name}\n") }
            };
            frr.start(namespace, "zebra", zebra, more)?;
            let ospf = format!("interface {interface}{OSPF}{}{lists}", out("ospf"));
            frr.start(namespace, "ospfd", &ospf, &[])?;
            let rip = format!("router rip\n network {interface}{RIP}{}{lists}", out("rip"));
            frr.start(namespace, "ripd", &rip, &[])?;
        }
        Ok(())
    }

    /// Changes that routers have taken so far.
    pub(super) fn changes(&self) -> Counts {
        [0, 1].map(|i| self.seat.changes[i].load(Ordering::Relaxed))
    }

    /// From now on this router takes the routes, or none does. Returns when it has all that there is.
    ///
    /// # Errors
    /// It refused some.
    pub(super) fn serve(&self, router: Option<Arc<FeedSink>>) -> Result<(), Error> {
        let is_none = router.is_none();
        {
            let mut seat = lock(&self.seat.router);
            *seat = router;
            self.seat.is_served.store(is_none, Ordering::Relaxed);
        }
        let done = || self.seat.is_served.load(Ordering::Relaxed) || lock(&self.seat.trouble).is_some();
        wait_for("the routes of the control plane", PATIENCE, done)?;
        lock(&self.seat.trouble).clone().map_or(Ok(()), |why| Err(Error::Nothing(why)))
    }

    /// Waits until routes of so many protocols have changed.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn wait_for_changes(&self, protocols: usize) -> Result<(), Error> {
        let before = self.changes();
        let changed = || self.changes().iter().zip(before).filter(|(now, before)| **now > *before).count();
        wait_for("changes of OSPF and RIP", PATIENCE, || changed() >= protocols)?;
        Ok(())
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        self.seat.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic was printed by the thread.
            let _ = thread.join();
        }
    }
}

fn spawn(
    name: &str,
    seat: &Arc<Seat>,
    body: impl FnOnce(&Seat) + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let seat = seat.clone();
    std::thread::Builder::new().name(name.into()).spawn(move || body(&seat))
}

/// Joins the namespaces, and gives the neighbour an interface for the routes that come and go.
fn lay([control, neighbour]: &[Arc<Namespace>; 2]) -> Result<(), RigError> {
    control.ip(&format!("link add {LINK} type veth peer name nbr0 netns {}", neighbour.name()))?;
    control.ip(&format!("address add 198.18.0.1/24 dev {LINK}"))?;
    control.ip(&format!("link set {LINK} up"))?;
    for command in [
        "address add 198.18.0.2/24 dev nbr0",
        "link set nbr0 up",
        "link add stub0 type veth peer name stub1",
        "link set stub0 up",
        "link set stub1 up",
    ] {
        neighbour.ip(command)?;
    }
    Ok(())
}

/// The neighbour's routes come and go.
fn flap(seat: &Seat, neighbour: &Namespace, routes: u32) {
    let lines = |verb: &str| {
        let all = PROTOCOLS.into_iter().flat_map(|protocol| protocol.prefixes(routes.min(ROUTES_MAX)));
        all.map(|prefix| format!("route {verb} {prefix} dev stub0\n")).collect::<String>()
    };
    let files = ["replace", "delete"].map(|verb| {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), lines(verb))?;
        Ok::<_, std::io::Error>(file)
    });
    for file in files.iter().cycle() {
        let Ok(file) = file else { return };
        let path = file.path().display().to_string();
        if let Err(why) = neighbour.run(&["ip", "-force", "-batch", &path]) {
            lock(&seat.trouble).get_or_insert(why.to_string());
        }
        let until = Instant::now() + STAY;
        while Instant::now() < until {
            if seat.is_over.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(TICK);
        }
    }
}

/// Keeps the routes, and the router of the moment up to date.
fn control(seat: &Seat, reports: &Receiver<(Source, Vec<Change>)>) {
    let (mut rib, began) = (Rib::default(), Instant::now());
    rib.expect(Source::Kernel);
    rib.expect(Source::Fpm);
    // Local addresses and the like are the router's own business here.
    rib.set_kernel_routes(false);
    let (mut served, mut runs): (Option<(Arc<FeedSink>, Inside)>, u64) = (None, 0);
    while !seat.is_over.load(Ordering::Relaxed) {
        match reports.recv_timeout(TICK) {
            Ok((source, changes)) => {
                changes.into_iter().for_each(|change| rib.apply(source, change, began.elapsed()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        rib.flush(began.elapsed());
        let wanted = lock(&seat.router).clone();
        if wanted.as_ref().map(Arc::as_ptr) != served.as_ref().map(|(sink, _)| Arc::as_ptr(sink)) {
            runs += 1;
            served = wanted.map(|sink| (sink.clone(), Inside::new(sink, runs)));
        }
        match &mut served {
            None => rib.outbox().clear(),
            Some((sink, inside)) => {
                let done = inside.deliver(&mut rib, |sink, batch| {
                    count(seat, batch);
                    sink.apply(batch)
                });
                if let Err(why) = done {
                    lock(&seat.trouble).get_or_insert(why.to_string());
                }
                let router = lock(&seat.router);
                if router.as_ref().is_some_and(|wanted| Arc::ptr_eq(wanted, sink)) {
                    seat.is_served.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

fn count(seat: &Seat, batch: &[u8]) {
    let Ok((_, updates)) = Updates::new(batch) else { return };
    for update in updates.flatten() {
        let (Update::Route { prefix, .. } | Update::Withdraw { prefix, .. }) = update else { continue };
        if let Some(protocol) = Protocol::of(prefix) {
            seat.changes[protocol as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_say_their_protocol() {
        for protocol in PROTOCOLS {
            let all: Vec<String> = protocol.prefixes(ROUTES_MAX).collect();
            for prefix in &all {
                let prefix = Destination::V4(prefix.parse().expect("a prefix without host bits"));
                assert_eq!(Protocol::of(prefix), Some(protocol), "{prefix}");
            }
            assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), ROUTES_MAX as usize);
        }
        for other in ["18.26.4.0/24", "18.26.0.0/28", "10.0.128.0/28"] {
            assert_eq!(Protocol::of(Destination::V4(other.parse().expect("a prefix"))), None);
        }
    }
}
