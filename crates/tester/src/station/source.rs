// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports whose frames the kernel generates ([`ports::live::stream`]): the station says what is due when, and looks at how many have
//! left; it makes no frame itself.
//!
//! Frames that are not the test's, and answers to requests for neighbours, still leave by the port's own queue.

use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use packet::port::Error;
use ports::live::stream::{self, Frame, Part};

use super::Station;
use super::line::{Sender, Turn};
use crate::trial::Invalid;

/// How long after the schedule is known the first frame is due at least.
pub(super) const LEAD_NS: u64 = 1_000_000;
/// How long a station that shares its core sleeps at most when nothing comes: it looks at what was sent, too.
const NAP: Duration = Duration::from_millis(1);
/// Additional frames that are sent in one turn.
const EXTRAS: usize = 32;

/// One port's source.
pub(super) struct Source {
    stream: stream::Stream,
    /// The flows that it was given, if they are still those.
    loaded: Option<Vec<u32>>,
}

fn invalid(why: Error) -> Invalid {
    Invalid::new(format!("{}: {}", why.device, why.what), why.mend)
}

impl Source {
    pub(super) fn new(stream: stream::Stream) -> Source {
        Source { stream, loaded: None }
    }

    /// Other frames are sent from now on.
    pub(super) fn forget(&mut self) {
        self.loaded = None;
    }
}

impl Sender {
    /// Gets the kernel ready to send this port's frames.
    fn arm(&mut self) -> Result<(), Invalid> {
        let Sender { source, templates, sizes, pattern, active, first_flow, .. } = self;
        let Some(source) = source.as_mut().filter(|_| !active.is_empty()) else { return Ok(()) };
        if source.loaded.as_ref() != Some(active) {
            let of_flow = |index: &u32| {
                let first = *index as usize * *sizes;
                let flow = *first_flow + index;
                templates[first..first + *sizes].iter().map(move |template| template.generated(flow))
            };
            let frames: Vec<Frame> = active.iter().flat_map(of_flow).collect();
            source.stream.load(&frames, *sizes, pattern).map_err(invalid)?;
            source.loaded = Some(active.clone());
        }
        source.stream.arm().map_err(invalid)
    }

    /// Reads how many frames have left, and sends the additional frames that are due.
    pub(super) fn follow(&mut self, now_ns: u64) {
        let Some(source) = self.source.as_ref().filter(|_| !self.active.is_empty()) else { return };
        self.next = source.stream.sent();
        for _ in 0..EXTRAS {
            let is_due = self.extras.iter().any(|pending| pending.is_due(self.next, now_ns));
            if !is_due || !self.send_extras(now_ns) {
                break;
            }
        }
    }
}

impl Station {
    pub(super) fn has_sources(&self) -> bool {
        self.senders.iter().any(|sender| sender.source.is_some())
    }

    /// Gets the kernel ready to send. It takes milliseconds.
    pub(super) fn arm_sources(&mut self) -> Result<(), Invalid> {
        let armed = self.senders.iter_mut().try_for_each(Sender::arm);
        armed.inspect_err(|_| self.disarm_sources())
    }

    /// There will be nothing to send after all.
    pub(super) fn disarm_sources(&self) {
        while self.halt_sources() {
            std::thread::park_timeout(NAP);
        }
    }

    /// Lets the kernel begin with a schedule.
    pub(super) fn begin_sources(&mut self, turn: &Turn) -> Result<(), Invalid> {
        for sender in &mut self.senders {
            let Some(source) = sender.source.as_mut().filter(|_| !sender.active.is_empty()) else { continue };
            let part = |(start_ns, interval, frames)| Part { start_ns, interval, frames };
            let plan = stream::Plan {
                parts: turn.schedule.parts().map(part).collect(),
                burst: turn.schedule.burst_frames(),
                // The station goes by the same clock.
                origin_ns: 0,
                key: turn.key.halves(),
            };
            source.stream.begin(&plan).map_err(invalid)?;
        }
        Ok(())
    }

    /// Sends no more. Whether anything still may.
    fn halt_sources(&self) -> bool {
        let mut running = false;
        for source in self.senders.iter().filter_map(|sender| sender.source.as_ref()) {
            source.stream.halt();
            running |= source.stream.is_running();
        }
        running
    }

    /// Sends no more, receives until that is certain, and takes down what was sent and how late.
    pub(super) fn end_sources(&mut self, turn: &mut Turn) -> Result<(), Invalid> {
        while self.halt_sources() {
            self.turn(turn, None);
        }
        for sender in self.senders.iter_mut().filter(|sender| !sender.active.is_empty()) {
            let Some(source) = &sender.source else { continue };
            sender.next = source.stream.sent();
            source.stream.lateness().for_each(|(ns, frames)| turn.lateness.record_n(ns, frames));
            source.stream.failure().map_err(invalid)?;
        }
        Ok(())
    }

    /// Sleeps from now on when nothing arrives: the kernel generates frames on the station's own core.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn share_core(&mut self) -> Result<(), Invalid> {
        let failed = |why: std::io::Error| Invalid::new(format!("cannot wait for frames: {why}"), "");
        let poll = Poll::new().map_err(failed)?;
        for (index, fd) in self.receivers.iter().filter_map(|receiver| receiver.rx.fd()).enumerate() {
            let (token, interest) = (Token(index), Interest::READABLE);
            poll.registry().register(&mut SourceFd(&fd), token, interest).map_err(failed)?;
        }
        self.sleep = Some(Sleep { poll, events: Events::with_capacity(8) });
        Ok(())
    }
}

/// What a station that shares its core sleeps on.
pub(super) struct Sleep {
    poll: Poll,
    events: Events,
}

impl Sleep {
    /// Until something arrives, or a little while.
    pub(super) fn nap(&mut self) {
        // A signal may end it sooner.
        let _ = self.poll.poll(&mut self.events, Some(NAP));
    }
}
