// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeping the time between packets that a file recorded.

use element::Cx;

/// Sends packets at the times their timestamps say, the first one at once.
#[derive(Debug, Default)]
pub struct Pace {
    /// Our time less the file's.
    offset_ns: Option<i128>,
}

impl Pace {
    /// Whether the time of a packet with this timestamp has not come; then timer 0 is set and the task is taken out
    /// of line.
    pub fn early(&mut self, cx: &mut Cx<'_>, timestamp_ns: u64) -> bool {
        let now = i128::from(cx.now());
        let stamp = i128::from(timestamp_ns);
        let due = stamp + *self.offset_ns.get_or_insert(now - stamp);
        let early = due > now;
        if early {
            cx.set_timer(0, u64::try_from(due).unwrap_or(u64::MAX));
            cx.unschedule();
        }
        early
    }

    /// The next packet goes at once.
    pub fn reset(&mut self) {
        self.offset_ns = None;
    }
}
