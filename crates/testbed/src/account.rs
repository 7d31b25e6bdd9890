// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router on wires within the process, with every packet accounted for.
//!
//! Its devices are memory ports whose other ends the test holds. Time is simulated, so a run is exact and repeats. [`Accounted::check`] then checks:
//!
//! * of each element, that what came in has gone out, was dropped under a name, or is held;
//! * of the router, that what was sent to it and what came from it are what its devices say;
//! * of packet memory, that the packets held are all the frames that are not free.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use engine::clock::{SIMULATION_EPOCH, TimeSource};
use engine::{ElementId, ElementInfo, ElementReport, IndexVec, Options, Registry, Report, Router};
use packet::port::{Device, Error, Provider, Spec};
use ports::memory::{End, MemoryPort, Wire};

/// A configuration of `conf/` with the Ethernet addresses that it has for devices in memory, independent of interfaces of those names on
/// this machine.
pub fn in_memory(text: &str) -> String {
    ["$DEV0:eth", "$DEV1:eth"].iter().fold(text.to_owned(), |text, own| text.replace(own, ""))
}

/// A router on in-process wires.
pub struct Accounted {
    router: Router,
    wires: Arc<Wires>,
    injected: u64,
    collected: u64,
    /// Frames in use before the router was.
    before: usize,
    _alone: Alone,
}

/// Frames are counted in the memory that all threads of the process share, so only one thread at a time has such routers. It may
/// have several.
struct Alone(PhantomData<*const ()>);

static TAKEN: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

thread_local! {
    /// Routers of this thread.
    static OURS: Cell<usize> = const { Cell::new(0) };
}

impl Alone {
    /// Waits for the routers of other threads to end.
    fn wait() -> Alone {
        if OURS.get() == 0 {
            let taken = TAKEN.0.lock().unwrap_or_else(|e| e.into_inner());
            *TAKEN.1.wait_while(taken, |taken| *taken).unwrap_or_else(|e| e.into_inner()) = true;
        }
        OURS.set(OURS.get() + 1);
        Alone(PhantomData)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        OURS.set(OURS.get() - 1);
        if OURS.get() == 0 {
            *TAKEN.0.lock().unwrap_or_else(|e| e.into_inner()) = false;
            TAKEN.1.notify_one();
        }
    }
}

/// A device by name, with the other end of its wire.
type Wired = (String, End, Arc<dyn Device>);

/// What lies at the other ends of a router's devices.
#[derive(Default)]
struct Wires(Mutex<Vec<Wired>>);

impl Provider for Wires {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        let mut wires = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((.., device)) = wires.iter().find(|w| w.0 == spec.device) {
            return Ok(device.clone());
        }
        let wire = Wire::new(&spec.device, 4096);
        let device = MemoryPort::new(&spec.device, &wire)?;
        wires.push((spec.device.clone(), wire.attach()?, device.clone()));
        Ok(device)
    }
}

impl Accounted {
    /// Builds a router from its configuration, with one worker on simulated time.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(text: &str, burst: usize) -> Result<Accounted, String> {
        Accounted::build(text, burst, 1, TimeSource::Simulated(SIMULATION_EPOCH))
    }

    /// Builds a router from its configuration. Frames in use by then, of other routers for instance, must stay in
    /// use as long as it is checked.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn build(text: &str, burst: usize, workers: usize, time: TimeSource) -> Result<Accounted, String> {
        Accounted::of(&elements::registry(), text, burst, workers, time)
    }

    /// Builds a router from its configuration and these classes.
    ///
    /// # Errors
    /// As [`Accounted::build`].
    pub fn of(
        registry: &Registry,
        text: &str,
        burst: usize,
        workers: usize,
        time: TimeSource,
    ) -> Result<Accounted, String> {
        let alone = Alone::wait();
        let before = packet::memory().usage().in_use();
        let parsed = lang::load_str("config", text, &elements::options());
        let graph = parsed.graph.ok_or_else(|| lang::render(&parsed.diagnostics, &parsed.sources, false))?;
        let wires = Arc::new(Wires::default());
        let options = Options {
            provider: wires.clone(),
            workers,
            reserve: 0,
            cores: Vec::new(),
            burst,
            time,
            seed: 1,
            print: Some(Box::new(|_| {})),
            placer: Some(reconfigure::placer()),
        };
        let router = Router::build(&graph, registry, options);
        let router = router.map_err(|errors| lang::render(&errors, &parsed.sources, false))?;
        Ok(Accounted { router, wires, injected: 0, collected: 0, before, _alone: alone })
    }

    /// Classes that the configuration names and the registry does not know.
    pub fn missing_classes(text: &str) -> Vec<String> {
        let graph = lang::load_str("config", text, &elements::options()).graph;
        let registry = elements::registry();
        let mut missing: Vec<String> = graph
            .into_iter()
            .flat_map(|g| g.elements)
            .map(|e| e.class.to_string())
            .filter(|c| registry.get(c).is_none())
            .collect();
        missing.sort();
        missing.dedup();
        missing
    }

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.wires.0.lock().unwrap_or_else(|e| e.into_inner()).len()
    }

    /// Sends a frame to device number `device`. Returns whether there was room for it.
    pub fn inject(&mut self, device: usize, frame: &[u8]) -> bool {
        let wires = self.wires.0.lock().unwrap_or_else(|e| e.into_inner());
        let arrived = wires.get(device).is_some_and(|(_, end, _)| end.inject(frame));
        self.injected += u64::from(arrived);
        arrived
    }

    /// Lets simulated time pass.
    pub fn run(&mut self, time: Duration) {
        self.router.resume();
        self.router.stop_after(time);
        self.router.run();
    }

    /// Runs until the router stops by itself.
    pub fn run_to_end(&mut self) {
        self.router.resume();
        self.router.run();
    }

    /// The router.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Reads a handler.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn read(&mut self, handler: &str) -> String {
        self.router.read(handler, "").unwrap_or_else(|e| panic!("{handler}: {e}"))
    }

    /// Writes a handler.
    ///
    /// # Panics
    /// When it cannot be written, or refuses.
    pub fn write(&mut self, handler: &str, value: &str) {
        self.router.write(handler, value).unwrap_or_else(|e| panic!("{handler} {value}: {e}"));
    }

    /// Takes what the devices have sent, by device.
    pub fn collect(&mut self) -> Vec<(usize, Vec<u8>)> {
        let wires = self.wires.0.lock().unwrap_or_else(|e| e.into_inner());
        let frames: Vec<_> = wires
            .iter()
            .enumerate()
            .flat_map(|(i, (_, end, _))| end.collect_bytes().into_iter().map(move |frame| (i, frame)))
            .collect();
        self.collected += frames.len() as u64;
        frames
    }

    /// Packets dropped so far, by reason.
    pub fn drops(&self) -> std::collections::BTreeMap<&'static str, u64> {
        let mut drops = std::collections::BTreeMap::new();
        for (reason, n) in self.router.report().elements.iter().flat_map(|e| e.drops.iter()) {
            *drops.entry(reason.name()).or_default() += n;
        }
        drops
    }

    /// Whether every packet is accounted for. To be asked after [`Accounted::collect`], when nothing is on its way.
    ///
    /// # Errors
    /// The accounts that do not balance.
    pub fn check(&mut self) -> Result<(), String> {
        let report = self.router.report();
        let shared = self.router.shared().clone();
        let mut wrong = Vec::new();
        let (mut received, mut sent, mut held) = (0, 0, 0);
        let (mut discovery, mut discovered) = (Flow::default(), Some(0));
        for ((e, info), element) in shared.elements.iter_enumerated().zip(&report.elements) {
            let entered = entered(&shared.elements, &report, e);
            let flow = Flow::of(entered, element);
            held += element.held;
            match info.class.name {
                "FromDevice" => received += flow.left + flow.dropped,
                "ToDevice" => sent += flow.entered - flow.left - flow.dropped - flow.held,
                _ => {}
            }
            let made = self.made(info);
            if discovers_neighbours(info) {
                discovery.add(&flow);
                discovered = discovered.zip(made).map(|(sum, made)| sum + made);
            } else if let Err(why) = flow.balance(info, made) {
                wrong.push(format!("{} ({}): {why}", info.name, info.class.name));
            }
        }
        if let Err(why) = discovery.balance_sums(discovered) {
            wrong.push(format!("neighbour discovery: {why}"));
        }
        if received != self.injected {
            wrong.push(format!(
                "{} frames were sent to the devices, which received {received}",
                self.injected
            ));
        }
        if sent != self.collected {
            wrong.push(format!("the devices sent {sent} frames, of which {} arrived", self.collected));
        }
        let in_use = packet::memory().usage().in_use() - self.before;
        if in_use != held {
            wrong.push(format!("{in_use} frames are in use, but elements hold {held}"));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    /// Packets that an element made in addition to those it received, less those that it joined to others; `None` when it does not say.
    fn made(&mut self, info: &ElementInfo) -> Option<i64> {
        let (handler, sign) = match info.class.name {
            "ARPQuerier" | "IP6NDSolicitor" => ("queries", 1),
            "IP6NDRouterAdvertiser" | "IPsecDummies" => ("sent", 1),
            "IPReassembler" | "IP6Reassembler" => ("joined", -1),
            "IPFragmenter" | "IP6Fragmenter" | "IPsecEncrypt" => return None,
            _ => return Some(0),
        };
        let number: i64 =
            self.router.read(&format!("{}.{handler}", info.name), "").ok()?.trim().parse().ok()?;
        Some(sign * number)
    }
}

/// Whether packets may come to this element that leave by another: those that wait at a solicitor for a neighbour's address go
/// where it is learnt from that neighbour's own solicitation. So these are asked together.
fn discovers_neighbours(info: &ElementInfo) -> bool {
    ["IP6NDSolicitor", "IP6NDAdvertiser"].contains(&info.class.name)
}

/// Packets that have come to element `e`: what left by the outputs that lead to it.
fn entered(elements: &IndexVec<ElementId, ElementInfo>, report: &Report, e: ElementId) -> u64 {
    let leads = |(info, stats): (&ElementInfo, &ElementReport)| -> u64 {
        let ports = info.outputs().iter().zip(&stats.outputs);
        ports
            .filter(|(port, _)| port.peers.iter().any(|peer| peer.element == e))
            .map(|(_, s)| s.packets)
            .sum()
    };
    elements.iter().zip(&report.elements).map(leads).sum()
}

/// One element's account, or that of several.
#[derive(Default)]
struct Flow {
    entered: u64,
    left: u64,
    dropped: u64,
    held: u64,
    first_output: u64,
}

impl Flow {
    fn of(entered: u64, element: &ElementReport) -> Flow {
        Flow {
            entered,
            left: element.outputs.iter().map(|o| o.packets).sum(),
            dropped: element.drops.iter().map(|d| d.1).sum(),
            held: element.held as u64,
            first_output: element.outputs.first().map_or(0, |o| o.packets),
        }
    }

    fn add(&mut self, other: &Flow) {
        self.entered += other.entered;
        self.left += other.left;
        self.dropped += other.dropped;
        self.held += other.held;
    }

    fn balance(&self, info: &ElementInfo, made: Option<i64>) -> Result<(), String> {
        let Flow { entered, dropped, held, first_output, .. } = self;
        let balanced = match info.class.name {
            // Checked against what lies outside.
            "FromDevice" | "ToDevice" | "InfiniteSource" => true,
            // Copies leave by the further outputs.
            "PaintTee" | "Tee" => *first_output + dropped + held == *entered,
            _ => return self.balance_sums(made),
        };
        if balanced { Ok(()) } else { Err(self.fails("in = first out + drops + held", made)) }
    }

    fn balance_sums(&self, made: Option<i64>) -> Result<(), String> {
        let Flow { entered, left, dropped, held, .. } = self;
        let gone = left + dropped + held;
        match made {
            None if gone >= *entered => Ok(()),
            None => Err(self.fails("in <= out + drops + held", made)),
            Some(more) if entered.checked_add_signed(more) == Some(gone) => Ok(()),
            Some(_) => Err(self.fails("in + made = out + drops + held", made)),
        }
    }

    fn fails(&self, rule: &str, made: Option<i64>) -> String {
        let Flow { entered, left, dropped, held, .. } = self;
        format!("{rule} fails: in {entered}, made {made:?}, out {left}, drops {dropped}, held {held}")
    }
}
