// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers that every element has, those of elements with a task, and the router's own, as a worker answers them.

use std::sync::Arc;

use super::Worker;
use crate::check::is_error;
use crate::placer;
use crate::shared::{GONE, readable, writable};
use element::args::{Args, Names};
use element::known::{HOME, HOTCONFIG};
use element::ports::{self, Processing};
use element::wiring::End;
use element::{
    Element, ElementId, HandlerError, HandlerRef, MAX_TICKETS, Merge, Policy, PortIndex, ProcessEvents,
    Target,
};

impl Worker {
    /// Reads a handler wherever its element's instances are.
    pub(crate) fn read(&mut self, target: &HandlerRef, param: &str) -> Result<String, HandlerError> {
        readable(target)?;
        let param = param.to_owned();
        let answers = self.everywhere(target, false, move |w, t| w.read_local(t, &param))?;
        Ok(element::merge(target.handler().merge, answers))
    }

    /// Executes a write handler wherever its element's instances are.
    pub(crate) fn write(&mut self, target: &HandlerRef, value: &str) -> Result<(), HandlerError> {
        writable(target)?;
        let value = value.to_owned();
        self.everywhere(target, true, move |w, t| w.write_local(t, &value)).map(|_: Vec<()>| ())
    }

    fn everywhere<R: Send + 'static>(
        &mut self,
        target: &HandlerRef,
        write: bool,
        f: impl Fn(&mut Worker, &HandlerRef) -> Result<R, HandlerError> + Clone + Send + 'static,
    ) -> Result<Vec<R>, HandlerError> {
        let mut answers = Vec::new();
        for w in self.shared.answering(target, write) {
            if w == self.index
                || (target.target() == Target::Router && target.handler().merge == Merge::First)
            {
                answers.push(f(self, target)?);
                continue;
            }
            let (tx, rx) = std::sync::mpsc::sync_channel(1);
            let (f, target, shared) = (f.clone(), target.clone(), self.shared.clone());
            if !self.duty.is_on() {
                return Err(HandlerError::failed("the element runs on another worker, which has not begun"));
            }
            let message = Box::new(move |worker: &mut Worker| {
                if Arc::ptr_eq(&shared, &worker.shared) {
                    let _ = tx.send(f(worker, &target));
                }
            });
            let stopped = || HandlerError::failed("the router has stopped");
            if !self.shared.mailboxes[w].post(message) {
                return Err(stopped());
            }
            // Two workers may ask each other at once, so each goes on answering while it waits.
            answers.push(loop {
                match rx.try_recv() {
                    Ok(answer) => break answer?,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return Err(stopped()),
                    Err(std::sync::mpsc::TryRecvError::Empty) if self.shared.mailboxes[w].is_away() => {
                        return Err(HandlerError::failed("the configuration is being replaced this moment"));
                    }
                    Err(std::sync::mpsc::TryRecvError::Empty) => match self.peers.turns().cloned() {
                        Some(turns) => self.lend_turn(&turns, w),
                        None => {
                            if let Some(trouble) = self.shared.mailboxes[w].trouble() {
                                return Err(HandlerError::Failed(trouble.refusal(w)));
                            }
                            self.pulse.wait();
                            self.serve();
                            std::thread::yield_now();
                        }
                    },
                }
            });
        }
        Ok(answers)
    }

    /// Answers a read on this worker.
    pub(crate) fn read_local(&mut self, target: &HandlerRef, param: &str) -> Result<String, HandlerError> {
        if let Some(known) = self.shared.read_known(target) {
            return Ok(known);
        }
        let Target::Element(e) = target.target() else { return self.read_global(target.handler().name) };
        if !target.handler().common {
            return self.read_here(e, target, param);
        }
        Ok(match target.handler().name {
            "ports" => self.ports_text(e),
            "drops" => self.drops(e).iter().map(|(reason, n)| format!("{reason} {n}\n")).collect(),
            "cycles" => {
                let stats = self.costs.cycles()[e];
                format!("{} {}\n", stats.cycles, stats.packets)
            }
            // A task that finds no work stands still, like one in Click whose queues are empty or full.
            "scheduled" => {
                let in_line = self.tasks.find(e).is_some_and(|t| t.scheduled);
                (in_line && !self.costs.is_idle(e)).to_string()
            }
            "tickets" => self.tasks.find(e).map_or(0, |t| t.tickets).to_string(),
            other => return Err(HandlerError::unknown(other)),
        })
    }

    /// Executes a write on this worker.
    pub(crate) fn write_local(&mut self, target: &HandlerRef, value: &str) -> Result<(), HandlerError> {
        let Target::Element(element) = target.target() else {
            return match target.handler().name {
                HOTCONFIG => self.hotconfig(value),
                "stop" => self.write_stop(value),
                name => self.write_placement(Target::Router, name, value),
            };
        };
        let name = target.handler().name;
        if !target.handler().common && name != "config" {
            self.write_here(element, target, value)?;
            self.shared.note_written(element, target, value);
            return Ok(());
        }
        match name {
            "scheduled" => {
                let on = element::args::parse_bool(value.trim())
                    .ok_or_else(|| HandlerError::bad_value(name, value, "true or false"))?;
                self.tasks.set_scheduled(element, on);
            }
            HOME => self.write_placement(target.target(), name, value)?,
            "config" => self.configure_anew(element, value)?,
            _ => {
                let tickets = value.trim().parse().ok().filter(|n| (1..=MAX_TICKETS).contains(n));
                let tickets = tickets
                    .ok_or_else(|| HandlerError::bad_value(name, value, "a number from 1 to 32768"))?;
                if let Some(task) = self.tasks.find(element) {
                    task.tickets = tickets;
                }
            }
        }
        Ok(())
    }

    /// Configures this worker's instance anew. A configuration with errors changes nothing.
    fn configure_anew(&mut self, e: ElementId, text: &str) -> Result<(), HandlerError> {
        let shared = self.shared.clone();
        let (info, graph) = (&shared.elements[e], &shared.blueprint.graph);
        let names = Names::gather(graph).seen_by(&info.name);
        let element = lang::Element { config: text.trim().into(), ..graph.elements[e.index()].clone() };
        let (inputs, outputs) = (info.inputs(), info.outputs());
        let configure = |instance: &mut dyn Element| {
            let mut args = Args::new(&element.config, &element.name, (inputs.len(), outputs.len()), &names)
                .with_processing(inputs.processing(), outputs.processing());
            instance.configure(&mut args);
            args.finish(&element, info.class.secrets)
        };
        let errors = configure(&mut *(info.class.make)()).into_iter().filter(is_error);
        let named = format!("{}: ", element.name);
        let plain = |message: &str| message.strip_prefix(&named).unwrap_or(message).to_owned();
        let errors: Vec<String> = errors.map(|found| plain(&found.message)).collect();
        if !errors.is_empty() {
            return Err(HandlerError::Failed(errors.join("\n")));
        }
        self.shared.elements[e].touched.store(true, std::sync::atomic::Ordering::Relaxed);
        self.with(e, |instance, _| configure(instance));
        shared.set_config_of(e, element.config.to_string());
        Ok(())
    }

    /// Executes a write to a handler that has tasks placed elsewhere.
    fn write_placement(&mut self, at: Target, name: &str, value: &str) -> Result<(), HandlerError> {
        let placer = self.shared.runtime.upgrade().and_then(|runtime| runtime.placer().cloned());
        let done = placer.and_then(|placer| placer.write_on(self, at, name, value));
        done.unwrap_or_else(|| Err(placer::refused(name)))
    }

    /// `stop [N]`: asks the driver to stop, N times, for elements that count.
    fn write_stop(&mut self, value: &str) -> Result<(), HandlerError> {
        let times = match value.trim() {
            "" => Some(1),
            text => text.parse().ok().filter(|n| (1..=1000).contains(n)),
        };
        let times =
            times.ok_or_else(|| HandlerError::bad_value("stop", value, "nothing or a number of times"))?;
        (0..times).for_each(|_: u32| self.please_stop());
        Ok(())
    }

    /// Asks the driver to stop, wherever it is; stops the router if there is none.
    pub(crate) fn please_stop(&mut self) {
        if !self.duty.is_on() {
            return;
        }
        let Some((element, worker)) = self.shared.driver() else { return self.shared.stop() };
        let shared = self.shared.clone();
        let message = Box::new(move |w: &mut Worker| {
            if Arc::ptr_eq(&shared, &w.shared) {
                w.with_capability::<dyn ProcessEvents, _>(element, |instance, cx| {
                    instance.driver_stopped(cx)
                });
            } else {
                // Another configuration has come meanwhile, with a driver of its own.
                w.please_stop();
            }
        });
        let mailbox = &self.shared.mailboxes[worker];
        if mailbox.trouble().is_some() || !mailbox.post_unhurried(message) {
            self.shared.stop();
        }
    }

    fn read_global(&mut self, name: &str) -> Result<String, HandlerError> {
        let shared = &self.shared;
        Ok(match name {
            "timewarp" => if self.clock.is_simulated() { "simulation" } else { "1" }.to_owned(),
            "drops" => self.all_drops(),
            "time" => format!("{:.9}", self.clock.wall() as f64 / 1e9),
            other => {
                let runtime = shared.runtime.upgrade();
                let answer = runtime.and_then(|runtime| runtime.placer()?.read(other, shared));
                return answer.ok_or_else(|| HandlerError::unknown(other));
            }
        })
    }

    /// What this worker dropped, by element; the first worker knows of elements that are gone since a swap, too.
    fn all_drops(&self) -> String {
        let all = self.shared.elements.iter_enumerated();
        let counts = all.flat_map(|(e, info)| self.drops(e).iter().map(|d| (info.name.as_str(), d)));
        let gone =
            self.shared.runtime.upgrade().filter(|_| self.index == 0).map_or_else(Vec::new, |p| p.gone());
        let gone = gone.into_iter().map(|d| (GONE, d));
        counts.chain(gone).map(|(name, (reason, n))| format!("{name} {reason} {n}\n")).collect()
    }

    /// The ports of an element: how they work, an agnostic one with a tilde, packets sent, and the ports at the other end.
    /// Click does not count.
    fn ports_text(&self, e: ElementId) -> String {
        let as_click = Policy::of_process().as_click;
        let shared = &self.shared;
        let info = &shared.elements[e];
        let mut text = String::new();
        for (ports, what, is_output) in [(info.inputs(), "input", false), (info.outputs(), "output", true)] {
            text += &format!("{} {what}{}\n", ports.len(), if ports.len() == 1 { "" } else { "s" });
            for (port, element::wiring::Port { processing, peers }) in ports.iter().enumerate() {
                let agnostic =
                    ports::processing(info.class.processing, is_output, port) == Processing::Agnostic;
                text += &format!("{processing}{}\t", if agnostic { "~" } else { "" });
                if is_output && !as_click {
                    text += &format!("{}\t", self.connections.output_stats(e, PortIndex::new(port)).packets);
                } else {
                    text += "-\t";
                }
                let peers = peers.iter().map(|End { element, port }| match is_output {
                    true => format!("[{port}] {}", shared.elements[*element].name),
                    false => format!("{} [{port}]", shared.elements[*element].name),
                });
                text += &peers.collect::<Vec<_>>().join(", ");
                text.push('\n');
            }
        }
        text
    }
}
