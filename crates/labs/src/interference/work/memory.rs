// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that move memory, with the processor's counters around them.

use std::time::{Duration, Instant};

use profile::kernel::counters::Counters;
use rustix::thread::gettid;

use super::super::kernels::{Access, Buffers, Kernel};
use crate::Error;

/// Kernels, each with the number of its buffers.
pub(super) struct Kernels {
    buffers: Vec<Buffers>,
    kernels: Vec<(Kernel, usize)>,
    counters: Option<Counters>,
}

impl Kernels {
    /// All pages are written when this returns.
    pub(super) fn new(kernels: &[(Access, usize)], shared: bool) -> Kernels {
        let sizes = kernels.iter().map(|(_, bytes)| *bytes);
        let mut buffers: Vec<Buffers> = match shared {
            true => vec![Buffers::new(sizes.max().unwrap_or(0))],
            false => sizes.map(Buffers::new).collect(),
        };
        let one = |(at, (access, bytes)): (usize, &(Access, usize))| {
            let at = if shared { 0 } else { at };
            (Kernel::new(*access, *bytes, &mut buffers[at]), at)
        };
        let kernels = kernels.iter().enumerate().map(one).collect();
        Kernels { buffers, kernels, counters: None }
    }

    /// Nanoseconds of processor time for each KiB.
    pub(super) fn run(&mut self, kernel: usize, ns: u64) -> Result<f64, Error> {
        let (kernel, at) = self
            .kernels
            .get_mut(kernel)
            .ok_or_else(|| Error::nothing(format!("there is no kernel {kernel}")))?;
        Ok(kernel.run(&mut self.buffers[*at], Duration::from_nanos(ns)))
    }

    /// What a counter counts for each microsecond of a kernel's run.
    pub(super) fn count(&mut self, kernel: usize, ns: u64, counter: &str) -> Result<f64, Error> {
        let mut counters = self.counters.take().unwrap_or_else(|| {
            let (mut counters, _) = Counters::find();
            counters.follow(std::iter::once(gettid().as_raw_nonzero().get().cast_unsigned()));
            counters
        });
        let index = counters.names().into_iter().position(|name| name.name == counter);
        let index = index.ok_or_else(|| Error::nothing(format!("there is no counter {counter}")))?;
        let mut read = || {
            let mut readings = Vec::new();
            counters.read(0, &mut readings);
            let of = readings.iter().filter(|reading| reading.counter as usize == index);
            of.map(|reading| reading.value as f64).sum::<f64>()
        };
        let (before, started) = (read(), Instant::now());
        self.run(kernel, ns)?;
        let counted = read() - before;
        self.counters = Some(counters);
        Ok(counted / (started.elapsed().as_secs_f64() * 1e6).max(1e-9))
    }
}

/// Names of the processor's counters that programs may use.
pub(super) fn counters() -> Vec<String> {
    Counters::find().0.names().into_iter().map(|name| name.name).collect()
}
