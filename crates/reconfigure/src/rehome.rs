// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other homes for the tasks of the configuration that runs, and other numbers of workers.
//!
//! Workers park and are handed over as for a hot swap ([`swap`](crate::swap())), but nothing is built anew. The instances
//! themselves go to other workers, with their tasks, timers and descriptors. What was written to handlers stays, too.
//!
//! *Further instances* are made where more workers reach an element than before: over common state if its class works so,
//! else as copies from its text. (A copy would not know what was written to handlers. Where something was, the move is
//! refused.) Where fewer workers reach it, the instances that are left over stay where they are, idle, and still answer
//! handlers and timers: what they have counted remains. Only a queue's are joined, for nobody would drain them, and those
//! of a device, whose queues must all be served. What runs behind a lock is wrapped anew.
//!
//! *Order.* No packet is on its way while workers are parked, and what a queue holds stays in its order. A flow's later
//! packets therefore come behind its earlier ones. Queues with a ring for each worker are emptied before, by those who drain
//! them. That leaves packets that are already sent by different ways, to another transmit queue of a device for instance; see
//! [`binds`](crate::binds).

use std::sync::Arc;
use std::time::Instant;

use element::HandlerError;
use element::swap::DevicePool;
use engine::halt::{HaltError, Halted};
use engine::{Control, Router, Runtime, Shared, Worker};

use crate::placement::{Moved, PlaceError, Placement};
use crate::placer::with_wanted;
use crate::{events, exchange};

mod moving;
mod plan;
mod values;

use plan::Plan;
use values::failed;
pub(crate) use values::{home_value, threads_value, write_home, write_threads};

/// Places tasks of the configuration that is meant otherwise, or changes how many workers take part. Packets, state and
/// settings stay as they are.
///
/// # Errors
/// Why it cannot be; everything is as it was.
pub fn place(control: &Control, meant: &Arc<Shared>, placement: &Placement) -> Result<Moved, PlaceError> {
    sync::heap::in_lines(|| place_when(control, meant, placement, || ()))
}

/// Does what is wished in `placement`, and by elements meanwhile. `ready` is called when the workers have been asked to stop.
fn place_when(
    control: &Control,
    meant: &Arc<Shared>,
    placement: &Placement,
    ready: impl FnOnce(),
) -> Result<Moved, PlaceError> {
    let runtime = control.runtime();
    let _turn = runtime.try_exclusive().ok_or(PlaceError::Busy)?;
    let was = runtime.current();
    if !was.is_same_configuration(meant) {
        return Err(PlaceError::Replaced);
    }
    let mut plan = Plan::new(was.clone(), placement)?;
    let is_nothing = with_wanted(runtime, |wanted| {
        wanted.coming = !plan.is_empty() || wanted.pending;
        !wanted.coming
    });
    if is_nothing {
        return Ok(Moved { active: (was.active_workers(), was.active_workers()), ..Moved::default() });
    }
    let (halted, mut old, since) = match gather(runtime, &was, ready) {
        Ok(all) => all,
        Err(why) => {
            with_wanted(runtime, std::mem::take);
            return Err(why.into());
        }
    };
    let wanted = with_wanted(runtime, std::mem::take).placement;
    if !wanted.is_empty() {
        let mut all = placement.clone();
        all.add(wanted);
        match Plan::new(was, &all) {
            Ok(all) => plan = all,
            Err(why) => {
                halted.resume(old);
                return Err(why);
            }
        }
    }
    let (new, mut moved) = plan.carry_out(runtime, &mut old);
    let at = halted.resume(new);
    moved.pause = since.elapsed();
    events::moves(at, meant, &moved);
    exchange::retire(old, DevicePool::default());
    Ok(moved)
}

/// Stops all workers, and takes them, with the time when the first one came.
fn gather(
    runtime: &Arc<Runtime>,
    was: &Arc<Shared>,
    ready: impl FnOnce(),
) -> Result<(Halted, Vec<Worker>, Instant), HaltError> {
    let halted = runtime.halt()?;
    ready();
    let (old, since) = halted.take(was)?;
    Ok((halted, old, since))
}

/// A placement that an element on this worker asks for: it comes when the element has returned, with all that is asked for until then.
pub(crate) fn want(worker: &mut Worker, placement: Placement) -> Result<(), HandlerError> {
    let Some(runtime) = worker.shared().runtime() else { return Err(failed(PlaceError::Stopped)) };
    if !worker.is_on_duty() {
        return Err(HandlerError::failed("the router has not begun"));
    }
    let is_under_way = with_wanted(&runtime, |wanted| {
        wanted.placement.add(placement);
        // Nobody takes this before all workers have stopped, and this one runs.
        std::mem::replace(&mut wanted.pending, true) || wanted.coming
    });
    if is_under_way {
        return Ok(());
    }
    let meant = worker.shared().clone();
    let undone = runtime.clone();
    let done = worker.request_change(runtime, move |control, ready| {
        let done = sync::heap::in_lines(|| place_when(control, &meant, &Placement::default(), ready));
        if let Err(why) = &done {
            control.print(&format!("a task was to run elsewhere: {why}"));
        }
        done.map(|_| String::new()).map_err(|why| why.to_string())
    });
    if done.is_err() {
        with_wanted(&undone, std::mem::take);
    }
    done
}

/// Places tasks of a router otherwise that does not run.
///
/// # Errors
/// As [`place`].
pub fn place_stopped(router: &mut Router, placement: &Placement) -> Result<Moved, PlaceError> {
    let since = Instant::now();
    router.change(|runtime, _, workers| {
        let plan = Plan::new(runtime.current(), placement)?;
        if plan.is_empty() {
            return Ok(Moved { active: (plan.active, plan.active), ..Moved::default() });
        }
        let (new, mut moved) = plan.carry_out(runtime, workers);
        let old = std::mem::replace(workers, new);
        moved.pause = since.elapsed();
        exchange::retire(old, DevicePool::default());
        Ok(moved)
    })
}
