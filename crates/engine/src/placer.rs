// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the engine calls to have tasks placed elsewhere: the crate `reconfigure` implements it.
//!
//! The engine itself decides where tasks run before they do, and never while they do. Handlers that ask for that lead to the
//! [`Placer`] that the router was built with.

use std::any::Any;
use std::sync::Arc;

use crate::remote::Control;
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::worker::Worker;
use element::{HandlerError, Target};

/// Places tasks of a running router elsewhere. Each router has its own.
pub trait Placer: Any + Send + Sync {
    /// The workers run from now on, or have ended.
    fn set_running(&self, runtime: &Arc<Runtime>, running: bool);

    /// The last `most` decisions, in words.
    fn decisions(&self, most: usize) -> Vec<String>;

    /// Answers one of the router's own handlers; `None` if that is not about placement.
    fn read(&self, name: &str, shared: &Shared) -> Option<String>;

    /// Executes a write that no worker has asked for; `None` if the handler is not about placement. Returns what to print, mostly nothing.
    fn write(
        &self,
        control: &Control,
        at: Target,
        name: &str,
        value: &str,
    ) -> Option<Result<String, HandlerError>>;

    /// The same for a write by an element that runs on this worker: what is asked for comes when the element has returned.
    fn write_on(
        &self,
        worker: &mut Worker,
        at: Target,
        name: &str,
        value: &str,
    ) -> Option<Result<(), HandlerError>>;
}

/// A change to a running router, made by another thread while the workers answer and park.
pub type Change = Box<dyn FnOnce(&Control) + Send>;

/// Asked after each round of simulated time in which there was work, with the configuration that runs: the change that is due, if any.
pub type AfterRound = Box<dyn FnMut(&Arc<Shared>) -> Option<Change> + Send>;

/// Makes the above for each run.
pub type BetweenRounds = Arc<dyn Fn() -> AfterRound + Send + Sync>;

/// The answer where nothing places tasks.
pub(crate) fn refused(name: &str) -> HandlerError {
    HandlerError::Denied(format!(
        "'{name}' cannot be written: this router was built to leave tasks where they are"
    ))
}
