// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions to the system that another thread asks, where workers may not ask them: a handler that runs on a worker may name an interface.

use std::sync::OnceLock;
use std::sync::mpsc::channel;

/// A question, with where its answer goes.
pub type Job = Box<dyn FnOnce() + Send>;

static ASK: OnceLock<Box<dyn Fn(Job) + Send + Sync>> = OnceLock::new();

/// From now on, `run` has another thread ask what elements ask of the system. It can be said once.
pub fn ask_by(run: impl Fn(Job) + Send + Sync + 'static) {
    let _ = ASK.set(Box::new(run));
}

/// Asks the system here, or has another thread do it and waits. Without an answer, there is none.
pub(crate) fn ask<T: Send + 'static>(question: impl FnOnce() -> Option<T> + Send + 'static) -> Option<T> {
    let Some(run) = ASK.get() else { return question() };
    let (tell, told) = channel();
    // Nobody may wait any more.
    run(Box::new(move || drop(tell.send(question()))));
    told.recv().ok().flatten()
}
