// SPDX-License-Identifier: MIT OR Apache-2.0
//! A rig for unit tests of elements: a configuration, packets in, packets out, on simulated time.
//!
//! [`Rig::new`] puts one element `e` between `i :: TestIn`, which sends the given packets as one batch (or one by one
//! with burst 1), and `o0 :: TestOut`, `o1 :: TestOut` ... . [`Rig::text`] takes a whole configuration. A run ends
//! when nothing can happen any more.

use std::sync::{Arc, Mutex};

use element::args::Args;
use element::{Class, Cx, Element, HandlerError, InitCx, OpenCx, Provide, Provided, Reason, Registry, Tasks};
use engine::clock::{SIMULATION_EPOCH, TimeSource};
use engine::{Options, Router};
use packet::port::{Device, Error, Provider, Spec};
use packet::{Batch, Packet};
use reconfigure::Swapped;

pub mod journeys;

/// Classes that only tests have. New elements begin as the last one.
fn only_here() -> impl Iterator<Item = &'static Class> {
    #[cfg(not(test))]
    let all = [&IN, &OUT];
    #[cfg(test)]
    let all = [&IN, &OUT, &crate::template::CLASS];
    all.into_iter()
}

/// A test configuration with its input packets.
pub struct Rig {
    text: String,
    burst: usize,
    workers: usize,
    reserve: usize,
    seed: u64,
    time: TimeSource,
    inputs: Vec<Packet>,
    provider: Arc<dyn Provider>,
}

impl Rig {
    /// One element between a source and a sink.
    pub fn new(element: &str) -> Rig {
        let class = element.split('(').next().unwrap_or_default();
        let ports = super::registry().get(class).map_or("1/1", |c| c.ports);
        let sink = if ports.ends_with("/0") { "" } else { " -> o0 :: TestOut" };
        Rig::text(&format!("i :: TestIn -> e :: {element}{sink};"))
    }

    /// A whole configuration, which may use TestIn and TestOut.
    pub fn text(text: &str) -> Rig {
        let provider = Arc::new(NoDevices);
        Rig {
            text: text.to_owned(),
            burst: 32,
            workers: 1,
            reserve: 0,
            seed: 1,
            time: TimeSource::Simulated(SIMULATION_EPOCH),
            inputs: Vec::new(),
            provider,
        }
    }

    /// Connects further outputs of `e` to sinks `o1`, `o2` ... up to `n` outputs in all.
    pub fn outputs(mut self, n: usize) -> Rig {
        for port in 1..n {
            self.text += &format!(" e[{port}] -> o{port} :: TestOut;");
        }
        self
    }

    /// Sets the router's burst.
    pub fn burst(mut self, burst: usize) -> Rig {
        self.burst = burst;
        self
    }

    /// Sets how many workers may be added to them.
    pub fn reserve(mut self, workers: usize) -> Rig {
        self.reserve = workers;
        self
    }

    /// Sets how many workers run; only the first one's sinks can be looked at.
    pub fn workers(mut self, workers: usize) -> Rig {
        self.workers = workers;
        self
    }

    /// Runs on the machine's clock, until an element stops it.
    pub fn real_time(mut self) -> Rig {
        self.time = TimeSource::Real;
        self
    }

    /// Gives the bytes of the input packets.
    pub fn inputs(self, inputs: &[&[u8]]) -> Rig {
        let packets = inputs.iter().map(|b| Packet::copy_of(b).expect("packet memory")).collect();
        self.packets(packets)
    }

    /// Gives the input packets, annotations and all.
    pub fn packets(mut self, packets: Vec<Packet>) -> Rig {
        self.inputs = packets;
        self
    }

    /// Gives devices to elements that open them.
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Rig {
        self.provider = provider;
        self
    }

    /// Messages of the configuration's errors.
    pub fn errors(self) -> Vec<String> {
        match self.build() {
            Ok(_) => Vec::new(),
            Err(errors) => errors,
        }
    }

    fn build(self) -> Result<Run, Vec<String>> {
        let parsed = lang::load_str("test", &self.text, &crate::options());
        let messages = |d: &[lang::Diagnostic]| d.iter().map(|d| d.message.clone()).collect::<Vec<_>>();
        let graph = parsed.graph.ok_or_else(|| messages(&parsed.diagnostics))?;
        let classes = super::all().chain(only_here());
        let printed = Arc::new(Mutex::new(String::new()));
        let print = printed.clone();
        let options = Options {
            provider: self.provider,
            workers: self.workers,
            reserve: self.reserve,
            cores: Vec::new(),
            burst: self.burst,
            time: self.time,
            seed: self.seed,
            print: Some(Box::new(move |line| {
                let mut text = print.lock().unwrap();
                text.push_str(line);
                text.push('\n');
            })),
            placer: Some(reconfigure::placer()),
        };
        let router = Router::build(&graph, &Registry::new(classes), options).map_err(|d| messages(&d))?;
        if let Some(input) = router.provided::<Input>("i") {
            *input.0.lock().unwrap() = self.inputs.into();
        }
        Ok(Run { router, printed, swapped: false })
    }

    /// Makes the router without running it: [`Run::again`] does.
    ///
    /// # Panics
    /// When the configuration has errors.
    pub fn ready(self) -> Run {
        self.build().unwrap_or_else(|e| panic!("{e:#?}"))
    }

    /// Runs until nothing can happen any more.
    ///
    /// # Panics
    /// When the configuration has errors.
    pub fn run(self) -> Run {
        self.build().unwrap_or_else(|e| panic!("{e:#?}")).again()
    }
}

/// A run that has ended.
pub struct Run {
    router: Router,
    printed: Arc<Mutex<String>>,
    /// Counters are of two configurations.
    swapped: bool,
}

impl Run {
    /// What the engine has counted.
    pub fn report(&self) -> engine::Report {
        self.router.report()
    }

    /// The element of this name.
    ///
    /// # Panics
    /// There is none of this name.
    pub fn index(&self, name: &str) -> element::ElementId {
        self.router.shared().lookup(name, None).expect("an element")
    }

    /// Runs on, after handlers were written for instance.
    pub fn again(mut self) -> Run {
        self.router.run();
        self.accounted()
    }

    /// All packets must be accounted for in every test.
    fn accounted(self) -> Run {
        let wrong = self.router.report().unaccounted(self.router.shared());
        assert!(self.swapped || wrong.is_empty(), "{wrong:#?}");
        self
    }

    /// Runs on for this long at most.
    pub fn run_for(mut self, time: std::time::Duration) -> Run {
        self.router.stop_after(time);
        self.router.run();
        self.router.resume();
        self.accounted()
    }

    /// Puts another configuration in place of this one.
    ///
    /// # Panics
    /// When it does not parse.
    pub fn swap(&mut self, text: &str) -> Result<Swapped, Vec<String>> {
        let parsed = lang::load_str("test", text, &crate::options());
        let graph = parsed.graph.expect("a configuration");
        self.swapped = true;
        reconfigure::swap_stopped(&mut self.router, &graph)
            .map_err(|d| d.iter().map(|d| d.message.clone()).collect())
    }

    /// Gives source `name` more packets, for the next [`Run::again`].
    pub fn give(&self, name: &str, packets: Vec<Packet>) {
        let input = self.router.provided::<Input>(name).unwrap_or_else(|| panic!("no TestIn named {name}"));
        input.0.lock().unwrap().extend(packets);
    }

    /// Takes the packets that reached sink `name`.
    pub fn out(&self, name: &str) -> Vec<Packet> {
        let sink = self.router.provided::<Output>(name).unwrap_or_else(|| panic!("no TestOut named {name}"));
        std::mem::take(&mut *sink.0.lock().unwrap())
    }

    /// The bytes of the packets that reached sink `name`.
    pub fn bytes(&self, name: &str) -> Vec<Vec<u8>> {
        self.out(name).iter().map(|p| p.data().to_vec()).collect()
    }

    /// Drops of an element.
    pub fn drops(&self, name: &str) -> Vec<(Reason, u64)> {
        let index = self.router.shared().lookup(name, None).expect("an element of this name");
        self.router.report().elements[index].drops.clone()
    }

    /// What element `name` provides to others.
    pub fn provided<T: Send + Sync + 'static>(&self, name: &str) -> Option<Arc<T>> {
        self.router.provided(name)
    }

    /// Reads a handler.
    pub fn read(&mut self, handler: &str) -> String {
        self.router.read(handler, "").unwrap_or_else(|e| panic!("{handler}: {e}"))
    }

    /// Reads a handler with a parameter.
    pub fn read_with(&mut self, handler: &str, param: &str) -> String {
        self.try_read_with(handler, param).unwrap_or_else(|e| panic!("{handler} {param}: {e}"))
    }

    /// The same, if it can be.
    pub fn try_read_with(&mut self, handler: &str, param: &str) -> Result<String, HandlerError> {
        self.router.read(handler, param)
    }

    /// Writes a handler.
    pub fn write(&mut self, handler: &str, value: &str) -> Result<(), HandlerError> {
        self.router.write(handler, value)
    }

    /// What elements printed.
    pub fn printed(&self) -> String {
        self.printed.lock().unwrap().clone()
    }
}

pub(crate) struct NoDevices;

impl Provider for NoDevices {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        Err(Error::new(&spec.device, "no devices in this test", ""))
    }
}

static IN: Class =
    Class::new("TestIn", "0/1", || Box::<TestIn>::default()).provide::<TestIn>().processing("h/h");
static OUT: Class =
    Class::new("TestOut", "1/0", || Box::<TestOut>::default()).provide::<TestOut>().processing("h/h");

#[derive(Default)]
struct Input(Mutex<std::collections::VecDeque<Packet>>);

#[derive(Default)]
struct TestIn(Arc<Input>);

impl Element for TestIn {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut waiting = self.0.0.lock().unwrap();
        let n = if cx.burst() == 1 { 1 } else { waiting.len() }.min(waiting.len());
        let batch: Batch = waiting.drain(..n).collect();
        drop(waiting);
        cx.made(n);
        cx.push(0, batch);
        n > 0
    }
}

impl Provide for TestIn {
    fn provide(&self) -> Option<Provided> {
        Some(self.0.clone())
    }
}

#[derive(Default)]
struct Output(Mutex<Vec<Packet>>);

#[derive(Default)]
struct TestOut(Arc<Output>);

impl Element for TestOut {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        cx.took(batch.len());
        self.0.0.lock().unwrap().extend(batch.drain(..));
    }
}

impl Provide for TestOut {
    fn provide(&self) -> Option<Provided> {
        Some(self.0.clone())
    }
}
