// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a worker takes a packet through its elements so that nothing comes of it. See [`rehearsal`](crate::rehearsal).

use packet::Batch;

use super::Worker;
use super::carrier::Job;
use crate::observer::{Observation, Observer, What};
use crate::pulse::{Doing, Spot};
use crate::rehearsal::{self, MOST_STEPS, Stop};
use element::drops::Reason;
use element::ports::Processing;
use element::wiring::End;
use element::{Cx, ElementId, PortIndex, Rehearsed};

/// What an element would do, besides what it would send.
struct Outcome {
    done: Rehearsed,
    sent: Vec<Job>,
    dropped: Option<Reason>,
}

impl Worker {
    /// Takes packets through the elements of this worker, the last first; returns those that have come to elements of others.
    pub(crate) fn rehearse(
        &mut self,
        mut stops: Vec<Stop>,
        steps: &mut usize,
        observer: &mut dyn Observer,
    ) -> Vec<Stop> {
        let mut elsewhere = Vec::new();
        let random = self.random.clone();
        let observers = self.observers.take();
        let recorded = self.pause_recording();
        self.only_tries = true;
        while let Some(stop) = stops.pop() {
            if !self.instances.has(stop.element) {
                elsewhere.insert(0, stop);
                continue;
            }
            *steps += 1;
            self.rehearse_at(stop, *steps, &mut stops, observer);
        }
        self.only_tries = false;
        self.resume_recording(recorded);
        self.observers = observers;
        self.random = random;
        elsewhere
    }

    fn rehearse_at(&mut self, stop: Stop, step: usize, stops: &mut Vec<Stop>, observer: &mut dyn Observer) {
        let Stop { element, port, packet } = stop;
        let (at, wall_ns, worker) = (sync::tsc(), self.clock.wall(), self.index);
        let (number, id) = (packet.followed(), packet.id());
        let seen =
            |what| Observation { at, wall_ns, worker, element, what, number, id, packet: None, note: "" };
        // One that has none is where a packet begins.
        if !self.shared.elements[element].inputs().is_empty() {
            observer.see(&Observation { packet: Some(&packet), ..seen(What::Input { port: port.index() }) });
        }
        if step > MOST_STEPS {
            let note = "so many elements have had it that it may go in a circle";
            return observer.see(&Observation { note, ..seen(What::Unknown) });
        }
        let Outcome { done, mut sent, dropped } = self.try_element(element, port, packet);
        let mut said = String::new();
        let (pulled, ahead) = match done {
            Rehearsed::Done => (false, None),
            Rehearsed::Noted(note) => {
                said = note;
                (false, None)
            }
            Rehearsed::Passes(batch) => {
                let pulled = self.shared.elements[element]
                    .outputs()
                    .first()
                    .is_some_and(|o| o.processing == Processing::Pull);
                (pulled, Some(batch))
            }
            Rehearsed::Waits(packet, note) => {
                observer.see(&Observation { note: &note, ..seen(What::Held) });
                (true, Some(Batch::of(packet)))
            }
            Rehearsed::Keeps(note) => return observer.see(&Observation { note: &note, ..seen(What::Held) }),
            Rehearsed::Leaves(note) => {
                return observer.see(&Observation { note: &note, ..seen(What::Taken) });
            }
            Rehearsed::Unknown(note) => {
                return observer.see(&Observation { note: &note, ..seen(What::Unknown) });
            }
        };
        if let (Some(batch), Some(at)) = (ahead, self.connections.output(element, PortIndex::FIRST)) {
            sent.push(Job::to(self.connections.to(at), PortIndex::FIRST, batch));
        }
        if let Some(reason) = dropped {
            observer.see(&seen(What::Dropped(reason)));
        } else if sent.is_empty() {
            observer.see(&seen(What::Taken));
        }
        let mut next = Vec::new();
        // Whether only what was made of it does.
        let mut is_replaced = dropped.is_none() && !sent.is_empty();
        for Job { element: to, port: input, out, mut batch, .. } in sent {
            for mut packet in batch.drain(..) {
                let made = packet.followed() == 0;
                is_replaced &= made || packet.id() != id;
                if made {
                    packet.follow(number);
                }
                let to_port = End { element: to, port: input.index() };
                let what = What::Output { port: out.index(), to: to_port, pulled, made };
                let note = &said;
                observer.see(&Observation { packet: Some(&packet), id: packet.id(), note, ..seen(what) });
                next.push(Stop { element: to, port: input, packet });
            }
        }
        if is_replaced {
            observer.see(&seen(What::Replaced));
        }
        // The first goes on first, with all that follows from it.
        stops.extend(next.into_iter().rev());
    }

    /// Lets an element do what it would, and takes back what the engine has counted.
    fn try_element(&mut self, element: ElementId, port: PortIndex, packet: packet::Packet) -> Outcome {
        let Some(mut instance) = self.instances.take(element) else {
            return Outcome { done: Rehearsed::Done, sent: Vec::new(), dropped: None };
        };
        let (counters, accounts) = (self.connections.save(element), self.accounts.save(element));
        let before = self.carrier.begin_try();
        let here = self.pulse.spot();
        self.pulse.enter(Spot::new(element, Doing::Call, port));
        let cx = &mut Cx::new(self, element);
        let done = rehearsal::rehearse(&mut *instance, cx, port.index(), packet);
        self.pulse.enter(here);
        self.instances.put(element, instance);
        let sent = self.carrier.end_try(&before);
        self.carrier.free_dead();
        self.connections.restore(element, &counters);
        Outcome { done, sent, dropped: self.accounts.restore(element, accounts) }
    }
}
