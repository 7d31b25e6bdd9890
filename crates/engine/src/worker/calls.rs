// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handler calls that do not hold up forwarding.
//!
//! A thread that is not a worker, such as a control connection's, calls a handler in up to three steps:
//!
//! 1. What the configuration alone answers, it answers itself ([`Shared::read_known`]). No worker hears of the call.
//! 2. Else a worker begins the call, as a message ([`Worker::begin_read`], [`Worker::begin_write`]). It has the element's state.
//! 3. If the element returns a [`Rest`] (a table to write out, a million routes to insert), the calling thread does that.
//!
//! Calls from within the router, such as those of a Script, are made by the worker that runs the Script.

use std::sync::atomic::Ordering::Relaxed;

use super::Worker;
use crate::capability;
use crate::pulse::Doing;
use element::{HandlerError, HandlerRef, LongHandlers, Rest};

/// A read that a worker has started.
pub(crate) enum Begun {
    /// It is the answer.
    Read(String),
    /// The rest makes the answer.
    Rest(Rest<String>),
}

impl Begun {
    /// Does what is left.
    pub(crate) fn finish(self) -> Result<String, HandlerError> {
        match self {
            Begun::Read(answer) => Ok(answer),
            Begun::Rest(rest) => rest(),
        }
    }
}

impl Worker {
    /// Begins a read on this worker.
    pub(crate) fn begin_read(&mut self, target: &HandlerRef, param: &str) -> Result<Begun, HandlerError> {
        if let Some(element) = target.own() {
            let class = self.shared.elements[element].class;
            let rest = self.with_doing(element, Doing::Read, |instance, cx| {
                capability::of_mut::<dyn LongHandlers>(class, instance)?.read_apart(cx, target.name(), param)
            });
            if let Some(rest) = rest.flatten() {
                return Ok(Begun::Rest(rest));
            }
        }
        self.read_local(target, param).map(Begun::Read)
    }

    /// Begins a write on this worker; without a rest it has been executed.
    pub(crate) fn begin_write(
        &mut self,
        target: &HandlerRef,
        value: &str,
    ) -> Result<Option<Rest<Option<String>>>, HandlerError> {
        // What stands for an argument is noted by the worker, for this configuration.
        if let Some(element) = target.own().filter(|_| target.handler().argument.is_none()) {
            let class = self.shared.elements[element].class;
            let rest = self.with_doing(element, Doing::Write, |instance, cx| {
                capability::of_mut::<dyn LongHandlers>(class, instance)?.write_apart(cx, target.name(), value)
            });
            if let Some(rest) = rest.flatten() {
                self.shared.elements[element].touched.store(true, Relaxed);
                return Ok(Some(rest));
            }
        }
        self.write_local(target, value).map(|()| None)
    }
}
