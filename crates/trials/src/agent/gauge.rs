// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machines of a test did in each trial, as their agents tell: of the device, the generator, the sink.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use tester::station::Gauge;
use tester::trial::Invalid;

use super::counters::Counters;
use super::gather;
use super::remote::Remote;
use crate::Error;
use report::measure::Measured;

/// What one machine did in one trial.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) machine: String,
    /// When its counters were read, by its wall clock: nanoseconds since 1970.
    pub(crate) at_ns: [u64; 2],
    /// By names as `test gather` has them, of one run each.
    pub(crate) counted: Vec<Measured>,
    /// Share of the time of all its processors in which they were busy, and of that which softirqs took.
    pub(crate) busy: [f64; 2],
}

impl Reading {
    fn of(machine: &str, pair: &[Counters; 2]) -> Reading {
        let mut counted = gather::results(machine, pair);
        counted.retain(|quantity| quantity.median() != 0.0);
        let at_ns = [pair[0].at_ns, pair[1].at_ns];
        Reading { machine: machine.to_owned(), at_ns, counted, busy: gather::busy(pair) }
    }
}

/// One machine's agent, asked in a thread of its own: a trial's frames arrive meanwhile.
struct Machine {
    name: String,
    /// Nothing once the thread is to end.
    ask: Option<SyncSender<()>>,
    told: Receiver<Result<Counters, Invalid>>,
    thread: Option<JoinHandle<()>>,
    first: Option<Counters>,
}

impl Machine {
    fn new(name: String, mut agent: Remote) -> Result<Machine, Error> {
        let (ask, asked) = mpsc::sync_channel(1);
        let (tell, told) = mpsc::channel();
        let work = move || {
            while asked.recv().is_ok() && tell.send(agent.counters()).is_ok() {}
        };
        let thread = std::thread::Builder::new().name("gauge".to_owned()).spawn(work);
        let thread = thread.map_err(Error::Thread)?;
        Ok(Machine { name, ask: Some(ask), told, thread: Some(thread), first: None })
    }

    fn ask(&self) {
        // A thread that panicked is missed when its answer is.
        let _ = self.ask.as_ref().map(|ask| ask.send(()));
    }

    fn told(&self) -> Result<Counters, Invalid> {
        let gone = |_| Err(Invalid::new(format!("what asks {} has ended", self.name), ""));
        self.told.recv().unwrap_or_else(gone)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said why.
            let _ = thread.join();
        }
    }
}

/// The machines of a test. Each trial's readings are given to `keep`.
pub(crate) struct Machines<K> {
    machines: Vec<Machine>,
    keep: K,
}

impl<K: FnMut(Vec<Reading>) + Send> Machines<K> {
    /// Asks these agents, each under its name.
    pub(crate) fn new(agents: Vec<(String, Remote)>, keep: K) -> Result<Machines<K>, Error> {
        let machines = agents.into_iter().map(|(name, agent)| Machine::new(name, agent));
        Ok(Machines { machines: machines.collect::<Result<_, _>>()?, keep })
    }
}

impl<K: FnMut(Vec<Reading>) + Send> Gauge for Machines<K> {
    fn begin(&mut self) -> Result<(), Invalid> {
        self.machines.iter().for_each(Machine::ask);
        for machine in &mut self.machines {
            machine.first = None;
        }
        let told: Vec<_> = self.machines.iter().map(Machine::told).collect();
        for (machine, told) in self.machines.iter_mut().zip(told) {
            machine.first = Some(told?);
        }
        Ok(())
    }

    fn end(&mut self) {
        self.machines.iter().for_each(Machine::ask);
    }

    fn done(&mut self) -> Result<(), Invalid> {
        let told: Vec<_> = self.machines.iter().map(Machine::told).collect();
        let mut readings = Vec::new();
        for (machine, told) in self.machines.iter_mut().zip(told) {
            if let Some(first) = machine.first.take() {
                readings.push(Reading::of(&machine.name, &[first, told?]));
            }
        }
        (self.keep)(readings);
        Ok(())
    }
}
