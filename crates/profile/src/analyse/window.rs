// SPDX-License-Identifier: MIT OR Apache-2.0
//! Of what time the rings of all threads tell.

use sync::events::Event;

use crate::file::Recording;
use crate::record::Mode;

/// From when until when, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Window {
    /// Of a recording from `whole.0` to `whole.1`. Rings that were emptied all the time tell of all of it, but for what is said to be lost. Others were
    /// emptied at the end and may have run over. If they kept what came last, the window begins with the ring that begins last. If they took no more, they
    /// hold what came first, and the window ends where the first of them was full. The same holds of a file that had no room for all that they held.
    pub(super) fn of(recording: &Recording, whole: (u64, u64)) -> Window {
        let mut window = Window { from: whole.0, to: whole.1 };
        let mode = recording.mode();
        let lost = recording.end.as_ref().map_or(&[][..], |end| &end.lost);
        for (i, _) in lost.iter().enumerate().filter(|(_, lost)| **lost > 0) {
            let mut times = recording.events.iter().filter(|e| e.thread as usize == i + 1).map(|e| e.at);
            match mode {
                Mode::Stream => {}
                Mode::Flight => window.from = times.next().map_or(window.from, |at| window.from.max(at)),
                Mode::Stop => window.to = times.next_back().map_or(window.to, |at| window.to.min(at)),
            }
        }
        if recording.end.as_ref().is_some_and(|end| end.no_room > 0) {
            let times = recording.events.iter().map(|e| e.at);
            match mode {
                Mode::Stream => {}
                Mode::Flight => window.from = times.min().map_or(window.from, |at| window.from.max(at)),
                Mode::Stop => window.to = times.max().map_or(window.to, |at| window.to.min(at)),
            }
        }
        // One that holds next to nothing leaves no time for all.
        window.to = window.to.max(window.from);
        window
    }

    pub(super) fn cycles(self) -> u64 {
        self.to - self.from
    }

    /// How much of what ended with this event, and has taken so many cycles, lies in it.
    pub(super) fn part(self, event: &Event, cycles: u64) -> u64 {
        let begun = event.at.saturating_sub(cycles).max(self.from);
        event.at.min(self.to).saturating_sub(begun)
    }
}
