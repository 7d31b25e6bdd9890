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

use crate::builtin;
use crate::pulse::Doing;
use crate::shared::Shared;
use crate::worker::Worker;
use element::known::{GLOBAL, HOME, HOTCONFIG, THREADS};
use element::secrets;
use element::{Handler, HandlerError, HandlerRef, Rest, Target};

/// A read that a worker has begun.
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
            let rest = self.with_doing(element, Doing::Read, |instance, cx| {
                instance.read_apart(cx, target.name(), param)
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
            let rest = self.with_doing(element, Doing::Write, |instance, cx| {
                instance.write_apart(cx, target.name(), value)
            });
            if let Some(rest) = rest.flatten() {
                self.shared.elements[element].touched.store(true, Relaxed);
                return Ok(Some(rest));
            }
        }
        self.write_local(target, value).map(|()| None)
    }
}

impl Shared {
    /// The answer of a read handler that needs no element and no worker.
    pub(crate) fn read_known(&self, target: &HandlerRef) -> Option<String> {
        let name = target.handler().name;
        let Target::Element(element) = target.target() else { return self.read_known_global(name) };
        if !target.handler().common {
            return None;
        }
        let info = &self.elements[element];
        Some(match name {
            "name" => info.name.to_string(),
            "class" => info.class.name.to_owned(),
            "config" => {
                let config = self.config_of(element).unwrap_or_else(|| info.config.to_string());
                element::hide::shown(info.class.secrets, &config).into_owned()
            }
            "handlers" => builtin::handlers_text(self, element),
            HOME => info.place.home().to_string(),
            _ => return None,
        })
    }

    fn read_known_global(&self, name: &str) -> Option<String> {
        Some(match name {
            "version" => env!("CARGO_PKG_VERSION").to_owned(),
            "driver" => "userlevel".to_owned(),
            "config" => secrets::text(&self.blueprint.graph, &self.blueprint.checked.classes),
            "flatconfig" => secrets::flat(&self.blueprint.graph, &self.blueprint.checked.classes),
            // All that Click has in packages is built in.
            "packages" => String::new(),
            "requirements" => self.requirements.iter().map(|r| format!("{r}\n")).collect(),
            "handlers" => {
                let offered = |h: &&Handler| h.name != HOTCONFIG || self.is_reconfigurable();
                GLOBAL.iter().filter(offered).map(builtin::describe).collect()
            }
            "list" => {
                let names: String = self.elements.iter().map(|e| format!("{}\n", e.name)).collect();
                format!("{}\n{names}", self.elements.len())
            }
            "classes" => {
                let mut names: Vec<_> = self.elements.iter().map(|e| e.class.name).collect();
                names.sort_unstable();
                names.dedup();
                names.iter().map(|n| format!("{n}\n")).collect()
            }
            "big_lock" => self.big_lock.get().map_or(String::new(), |lock| format!("{}\n", lock.stats())),
            THREADS => self.active_workers().to_string(),
            "locks" => self
                .locks()
                .iter()
                .map(|l| format!("{} {} {} {}\n", l.name, l.how, l.stats, l.made_at))
                .collect(),
            _ => return None,
        })
    }
}
