// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a worker takes a packet through its elements so that nothing comes of it. See [`rehearsal`](crate::rehearsal).

use packet::Batch;

use super::{Job, Worker};
use crate::pulse::{Doing, Spot};
use crate::rehearsal::{self, MOST_STEPS, Stop};
use crate::witness::{Sight, What, Witness};
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
        witness: &mut dyn Witness,
    ) -> Vec<Stop> {
        let mut elsewhere = Vec::new();
        let random = self.random.clone();
        let witnessing = self.witnessing.take();
        let telling = self.hush();
        self.only_tries = true;
        while let Some(stop) = stops.pop() {
            if self.slots[stop.element].is_none() {
                elsewhere.insert(0, stop);
                continue;
            }
            *steps += 1;
            self.rehearse_at(stop, *steps, &mut stops, witness);
        }
        self.only_tries = false;
        self.unhush(telling);
        self.witnessing = witnessing;
        self.random = random;
        elsewhere
    }

    fn rehearse_at(&mut self, stop: Stop, step: usize, stops: &mut Vec<Stop>, witness: &mut dyn Witness) {
        let Stop { element, port, packet } = stop;
        let (at, wall_ns, worker) = (sync::tsc(), self.clock.wall(), self.index);
        let (number, id) = (packet.followed(), packet.id());
        let sight = |what| Sight { at, wall_ns, worker, element, what, number, id, packet: None, note: "" };
        // One that has none is where a packet begins.
        if !self.shared.elements[element].inputs().is_empty() {
            witness.see(&Sight { packet: Some(&packet), ..sight(What::Input { port: port.index() }) });
        }
        if step > MOST_STEPS {
            let note = "so many elements have had it that it may go in a circle";
            return witness.see(&Sight { note, ..sight(What::Unknown) });
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
                witness.see(&Sight { note: &note, ..sight(What::Held) });
                (true, Some(Batch::of(packet)))
            }
            Rehearsed::Keeps(note) => return witness.see(&Sight { note: &note, ..sight(What::Held) }),
            Rehearsed::Leaves(note) => return witness.see(&Sight { note: &note, ..sight(What::Taken) }),
            Rehearsed::Unknown(note) => return witness.see(&Sight { note: &note, ..sight(What::Unknown) }),
        };
        if let (Some(batch), Some(at)) = (ahead, self.outputs.at(element, PortIndex::FIRST)) {
            sent.push(Job::to(self.outputs.edges[at], PortIndex::FIRST, batch));
        }
        if let Some(reason) = dropped {
            witness.see(&sight(What::Dropped(reason)));
        } else if sent.is_empty() {
            witness.see(&sight(What::Taken));
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
                witness.see(&Sight { packet: Some(&packet), id: packet.id(), note, ..sight(what) });
                next.push(Stop { element: to, port: input, packet });
            }
        }
        if is_replaced {
            witness.see(&sight(What::Replaced));
        }
        // The first goes on first, with all that follows from it.
        stops.extend(next.into_iter().rev());
    }

    /// Lets an element do what it would, and takes back what the engine has counted.
    fn try_element(&mut self, element: ElementId, port: PortIndex, packet: packet::Packet) -> Outcome {
        let Some(mut instance) = self.slots[element].take() else {
            return Outcome { done: Rehearsed::Done, sent: Vec::new(), dropped: None };
        };
        let ports = self.outputs.range(element);
        let (sent, drops) = (self.sent[ports.clone()].to_vec(), self.drops[element].clone());
        let deeds = self.deeds[element];
        let floor = std::mem::replace(&mut self.floor, self.stack.len());
        let joins = std::mem::replace(&mut self.joins, false);
        self.open = None;
        let before = self.pulse.spot();
        self.pulse.enter(Spot::new(element, Doing::Call, port));
        let cx = &mut Cx::new(self, element);
        let done = rehearsal::rehearse(&mut *instance, cx, port.index(), packet);
        self.pulse.enter(before);
        self.slots[element] = Some(instance);
        let jobs = self.stack.drain(self.floor..).collect();
        self.joins = joins;
        self.bury();
        self.floor = floor;
        self.sent[ports].copy_from_slice(&sent);
        let dropped = self.drops[element].since(&drops);
        self.drops[element] = drops;
        self.deeds[element] = deeds;
        Outcome { done, sent: jobs, dropped }
    }
}
