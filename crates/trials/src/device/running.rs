// SPDX-License-Identifier: MIT OR Apache-2.0
//! A configuration that runs in this process together with the tester, and that can be started anew while the tester goes on.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use engine::{Control, Router};
use lang::Graph;

use super::cores;
use crate::Error;
use crate::filters::Filters;

/// Said where the only worker were to be retired.
pub(crate) const ANOTHER_WORKER: &str = "who retires a worker needs another one; -j 2";

/// Makes a router of a configuration, each time it is started.
type Build = dyn Fn(&Graph) -> Result<Router, Error> + Send + Sync;

/// A configuration that runs until this is dropped.
pub(crate) struct Running {
    /// As its author wrote it.
    original: Arc<Graph>,
    /// As it runs.
    graph: Arc<Graph>,
    build: Arc<Build>,
    device: Option<(Control, JoinHandle<()>)>,
    handle: Handle,
}

/// Reaches the configuration that runs, also when it was started anew.
#[derive(Clone, Default)]
pub(super) struct Handle(Arc<Mutex<Option<Control>>>);

impl Handle {
    /// Of the one that runs, if one does.
    pub(super) fn control(&self) -> Option<Control> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, control: Option<Control>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = control;
    }
}

impl Running {
    /// Starts a configuration.
    pub(super) fn start(
        graph: Graph,
        build: impl Fn(&Graph) -> Result<Router, Error> + Send + Sync + 'static,
    ) -> Result<Running, Error> {
        let (graph, build, handle) = (Arc::new(graph), Arc::new(build), Handle::default());
        let mut running =
            Running { original: graph.clone(), graph, build: build as Arc<Build>, device: None, handle };
        running.begin()?;
        Ok(running)
    }

    fn begin(&mut self) -> Result<(), Error> {
        let (graph, build) = (self.graph.clone(), self.build.clone());
        let (built, wait) = mpsc::channel();
        let run = move || {
            // Threads that the device starts in addition to its workers inherit this core: they are not to wait for the tester's.
            if let Some(first) = cores::all().first() {
                core_affinity::set_for_current(*first);
            }
            match build(&graph) {
                Err(why) => drop(built.send(Err(why))),
                Ok(mut router) => {
                    let told = built.send(Ok(router.control()));
                    if told.is_ok() {
                        router.run();
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("device".into()).spawn(run);
        let thread = thread.map_err(Error::Thread)?;
        let control =
            wait.recv().unwrap_or_else(|_| Err(Error::unfit("the device panicked when it was built")))?;
        self.handle.set(Some(control.clone()));
        self.device = Some((control, thread));
        Ok(())
    }

    /// Reaches it from elsewhere.
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    fn end(&mut self) {
        self.handle.set(None);
        if let Some((control, thread)) = self.device.take() {
            control.stop();
            // A worker that panics has said why.
            let _ = thread.join();
        }
    }

    /// Ends the configuration and starts it anew: nothing that it had learnt is left.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        self.end();
        self.begin()
    }

    /// Retires a worker, whose tasks go to the others, and adds it again.
    pub(crate) fn cycle_worker(&mut self) -> Result<(), Error> {
        let Some((control, _)) = &self.device else { return Err(Error::NotRunning) };
        let control = control.clone();
        let workers = control.shared().active_workers();
        if workers < 2 {
            return Err(Error::setting(ANOTHER_WORKER));
        }
        for count in [workers - 1, workers] {
            control.write("threads", &count.to_string())?;
        }
        Ok(())
    }

    /// Puts the same configuration in place of the running one, which hands over what it holds.
    pub(crate) fn swap(&mut self) -> Result<(), Error> {
        self.swap_for(&self.graph)
    }

    fn swap_for(&self, graph: &Graph) -> Result<(), Error> {
        let Some((control, _)) = &self.device else { return Err(Error::NotRunning) };
        reconfigure::swap(control, graph, || {}).map(drop).map_err(Error::Swap)
    }
}

impl Running {
    /// Takes filters out of the way of packets again, or puts these there.
    pub(crate) fn filter(&mut self, filters: Option<&Filters>) -> Result<String, Error> {
        let graph = match filters {
            None if Arc::ptr_eq(&self.graph, &self.original) => return Ok(String::new()),
            None => self.original.clone(),
            Some(filters) => Arc::new(filters.put_in(&self.original)?),
        };
        self.swap_for(&graph).map_err(|why| why.during("--filters: the device does not take them"))?;
        self.graph = graph;
        Ok(self.graph.to_click())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
