// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hot swap: another configuration in place of the one that runs, without closing devices and without losing packets.
//!
//! ```text
//!  thread that swaps    check, open, make, initialise | wait | exchange          | resume | finish what is gone
//!  each worker          ... forwards .... forwards ... | park | hands over, waits | forwards with the new one ...
//! ```
//!
//! *Build.* All that can go wrong goes wrong before the running configuration is touched. The new one is checked, opens what the old
//! one has not open, and its instances are initialised, on workers that are not on duty. A device queue that the old one uses is only
//! promised ([`Runtime::build_next`]).
//!
//! *Park.* The workers stop where no packet is on its way, and are taken ([`engine::halt`]).
//!
//! *Exchange.* One thread now owns both generations. It pairs elements of the same name and class, worker by worker. Their counters are
//! added, [`HotSwap::take_state`](element::HotSwap::take_state) moves what they hold, and device queues go through a
//! [`DevicePool`](element::swap::DevicePool). Packets that find no successor are dropped and counted as `hot-swap`. Each worker then goes on with
//! the new configuration.

use std::sync::Arc;
use std::time::Instant;

use engine::clock::Clock;
use engine::{Control, Router, Runtime, Shared, Worker};
use lang::{Diagnostic, Graph};

use crate::events;
use crate::exchange::{self, Successions};
use crate::outcome::{SwapError, Swapped};
use crate::placer::with_wanted;

/// Another configuration than the one that runs, ready to take its place.
struct Prepared {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    successions: Successions,
}

impl Prepared {
    fn build(runtime: &Arc<Runtime>, graph: &Arc<Graph>, clock: &Clock) -> Result<Prepared, Vec<Diagnostic>> {
        let (shared, workers) = runtime.build_next(graph, clock)?;
        let successions = Successions::new(&runtime.current(), &shared);
        Ok(Prepared { shared, workers, successions })
    }

    /// Ends what was built in vain.
    fn discard(mut self) {
        self.workers.iter_mut().for_each(Worker::finish);
    }
}

/// Puts another configuration in place of the one that runs. `ready` is called when it has been built and the workers
/// have been asked to stop for the exchange, which nothing can prevent any more but the router's end.
///
/// # Errors
/// What is wrong with it, or that the router has stopped.
pub fn swap(control: &Control, graph: &Graph, ready: impl FnOnce()) -> Result<Swapped, SwapError> {
    swap_shared(control, &Arc::new(graph.clone()), ready)
}

/// The same with a graph that need not be copied.
///
/// # Errors
/// As for [`swap`].
pub fn swap_shared(
    control: &Control,
    graph: &Arc<Graph>,
    ready: impl FnOnce(),
) -> Result<Swapped, SwapError> {
    let runtime = control.runtime();
    let _turn = runtime.try_exclusive().ok_or(SwapError::Busy)?;
    let clock = control.clock().ok_or(SwapError::Stopped)?;
    let prepared = Prepared::build(runtime, graph, &clock).map_err(SwapError::Refused)?;
    let halted = match runtime.halt() {
        Ok(halted) => halted,
        Err(why) => {
            prepared.discard();
            return Err(why.into());
        }
    };
    ready();
    let (mut old, since) = match halted.take(&prepared.shared) {
        Ok(taken) => taken,
        Err(why) => {
            prepared.discard();
            return Err(why.into());
        }
    };
    let Prepared { shared, mut workers, successions } = prepared;
    let (mut swapped, left) = exchange::exchange(runtime, successions, &mut old, &mut workers);
    runtime.set_current(&shared);
    with_wanted(runtime, std::mem::take);
    let at = halted.resume(workers);
    swapped.pause = since.elapsed();
    events::swap(at, &swapped);
    exchange::retire(old, left);
    Ok(swapped)
}

/// Checks, opens and builds a configuration while another one runs, and ends it again.
///
/// # Errors
/// What is wrong with it.
pub fn rehearse(control: &Control, graph: &Graph) -> Result<(), Vec<Diagnostic>> {
    let runtime = control.runtime();
    let _turn = runtime.exclusive();
    Prepared::build(runtime, &Arc::new(graph.clone()), runtime.clock()).map(Prepared::discard)
}

/// Puts another configuration in place of that of a router that does not run.
///
/// # Errors
/// All that is wrong; the router is as it was.
pub fn swap_stopped(router: &mut Router, graph: &Graph) -> Result<Swapped, Vec<Diagnostic>> {
    let since = Instant::now();
    router.change(|runtime, clock, workers| {
        let prepared = Prepared::build(runtime, &Arc::new(graph.clone()), clock)?;
        let Prepared { shared, workers: mut new, successions } = prepared;
        let (mut swapped, left) = exchange::exchange(runtime, successions, workers, &mut new);
        runtime.set_current(&shared);
        let old = std::mem::replace(workers, new);
        swapped.pause = since.elapsed();
        exchange::retire(old, left);
        Ok(swapped)
    })
}
