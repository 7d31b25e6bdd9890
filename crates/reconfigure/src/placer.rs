// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the engine calls when a handler asks for another placement: `threads`, `home_thread`, and those of the balancer.

use std::any::Any;
use std::sync::{Arc, Mutex};

use element::known::{HOME, THREADS};
use element::{HandlerError, Target};
use engine::{Control, Placer, Runtime, Shared, Worker};
use sync::mutex::lock;

use crate::adaptive::Live;
use crate::placement::Placement;
use crate::rehome;

/// Placements that elements have asked for, which come when those elements have returned.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) placement: Placement,
    /// Somebody will see to it.
    pub(crate) pending: bool,
    /// A thread places tasks otherwise this moment, and will look here when all workers have stopped.
    pub(crate) coming: bool,
}

/// Places the tasks of one router.
#[derive(Default)]
struct TaskPlacer {
    wanted: Mutex<Wanted>,
    /// Moves tasks to where they are best, if it is to.
    balancer: Live,
}

/// What places tasks of a router while it runs, for its [`Options`](engine::Options). Each router needs its own.
pub fn placer() -> Arc<dyn Placer> {
    Arc::new(TaskPlacer::default())
}

/// Calls `f` with what elements of a router have asked for; nothing where the router was built without [`placer`].
pub(crate) fn with_wanted<R>(runtime: &Runtime, f: impl FnOnce(&mut Wanted) -> R) -> R {
    let placer = runtime.placer().and_then(|placer| (&**placer as &dyn Any).downcast_ref::<TaskPlacer>());
    match placer {
        Some(placer) => f(&mut lock(&placer.wanted)),
        None => f(&mut Wanted::default()),
    }
}

impl Placer for TaskPlacer {
    fn set_running(&self, runtime: &Arc<Runtime>, running: bool) {
        self.balancer.set_running(running);
        if running {
            self.balancer.begin(runtime);
        }
    }

    fn decisions(&self, most: usize) -> Vec<String> {
        self.balancer.decisions(most)
    }

    fn read(&self, name: &str, shared: &Shared) -> Option<String> {
        self.balancer.read(name, shared)
    }

    fn write(
        &self,
        control: &Control,
        at: Target,
        name: &str,
        value: &str,
    ) -> Option<Result<String, HandlerError>> {
        match (at, name) {
            (Target::Router, THREADS) => Some(rehome::write_threads(control, value)),
            (Target::Router, name) => {
                // No worker is needed for it, nor its core for the thread that may begin.
                let done = self.balancer.write(name, value)?;
                self.balancer.begin(control.runtime());
                Some(done.map(|()| String::new()))
            }
            (Target::Element(element), HOME) => Some(rehome::write_home(control, element, value)),
            _ => None,
        }
    }

    fn write_on(
        &self,
        worker: &mut Worker,
        at: Target,
        name: &str,
        value: &str,
    ) -> Option<Result<(), HandlerError>> {
        let placement = match (at, name) {
            (Target::Router, THREADS) => rehome::threads_value(worker.shared(), value),
            (Target::Router, name) => {
                let done = self.balancer.write(name, value)?;
                if let Some(runtime) = worker.shared().runtime() {
                    self.balancer.begin(&runtime);
                }
                return Some(done);
            }
            (Target::Element(element), HOME) => rehome::home_value(worker.shared(), element, value),
            _ => return None,
        };
        Some(placement.and_then(|placement| rehome::want(worker, placement)))
    }
}
