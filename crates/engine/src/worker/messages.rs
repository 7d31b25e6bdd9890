// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of other threads to a worker, and the handlers that they call by them.

use std::sync::atomic::Ordering::Relaxed;

use super::Worker;
use crate::locked;
use crate::mailbox::{Mailbox, Message};
use crate::pulse::Doing;
use element::{Cx, Element, ElementId, HandlerError, HandlerRef};

impl Worker {
    /// Executes the messages of other threads; returns whether they were work, for which one stays awake.
    pub(crate) fn serve(&mut self) -> bool {
        self.execute(Mailbox::next)
    }

    /// The same while it is parked: others that are not yet may wait for an answer.
    pub(crate) fn serve_parked(&mut self) -> bool {
        self.execute(Mailbox::next_urgent)
    }

    fn execute(&mut self, next: fn(&Mailbox<Worker>) -> Option<Message<Worker>>) -> bool {
        // Those that come meanwhile have their turn in the next round.
        let waiting = self.mailbox().waiting();
        let mut worked = false;
        for _ in 0..waiting {
            let Some(message) = next(self.mailbox()) else { break };
            message(self);
            worked |= self.pace.was_work();
            self.record_begin();
            self.drain();
        }
        worked
    }

    /// Executes a read handler on this worker's instance.
    pub(crate) fn read_here(
        &mut self,
        element: ElementId,
        target: &HandlerRef,
        param: &str,
    ) -> Result<String, HandlerError> {
        let running = || HandlerError::failed("the element is running this very call");
        let begun = self.begin_call();
        let read =
            |instance: &mut dyn Element, cx: &mut Cx<'_>| locked::read(instance, cx, target.name(), param);
        let value = self.with_doing(element, Doing::Read, read);
        self.record_call(begun, (element, target), false);
        value.ok_or_else(running)?
    }

    /// Executes a write handler on this worker's instance.
    pub(crate) fn write_here(
        &mut self,
        element: ElementId,
        target: &HandlerRef,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.shared.elements[element].touched.store(true, Relaxed);
        if !self.instances.has(element) {
            return self.write_later(element, target.clone(), value.to_owned());
        }
        let running = || HandlerError::failed("the element is running this very call");
        let begun = self.begin_call();
        let write =
            |instance: &mut dyn Element, cx: &mut Cx<'_>| locked::write(instance, cx, target.name(), value);
        let written = self.with_doing(element, Doing::Write, write);
        self.record_call(begun, (element, target), true);
        written.ok_or_else(running)?
    }

    /// Executes a write on an instance that runs, and so caused the call (one that pulls packets through a counter), when it has returned.
    #[cold]
    fn write_later(
        &mut self,
        element: ElementId,
        target: HandlerRef,
        value: String,
    ) -> Result<(), HandlerError> {
        let meant = self.shared.clone();
        let message = Box::new(move |worker: &mut Worker| {
            if !std::sync::Arc::ptr_eq(&meant, &worker.shared) || !worker.instances.has(element) {
                return;
            }
            if let Err(why) = worker.write_here(element, &target, &value) {
                let name = &worker.shared.elements[element].name;
                worker.shared.print(&format!("{name}.{}: {why}", target.name()));
            }
        });
        match self.mailbox().post(message) {
            true => Ok(()),
            false => Err(HandlerError::failed("the router has stopped")),
        }
    }
}
