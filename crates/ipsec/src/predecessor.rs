// SPDX-License-Identifier: MIT OR Apache-2.0
//! Associations that go on where others with the same keys were.
//!
//! Workers may use both for a moment, and an outsider may have recorded all packets. So both take their sequence numbers from one counter, and both remember in one place which
//! numbers came ([`Window::share`]).

use std::sync::Arc;

use esp::replay::Window;

use crate::association::{Association, AssociationConfig, Progress};
use crate::lifetime::Life;

/// What an association goes on from.
///
/// Two associations may have the same SPI and key: both ends of a tunnel in one router, or one that was configured twice. It cannot be
/// determined which of them a successor follows. So it goes on from the numbers that are furthest, and from the window that is furthest.
/// Age and counts are those of the window's association if it has received packets.
#[derive(Clone, Copy)]
pub(crate) struct Predecessor<'a> {
    numbers: &'a Arc<Association>,
    window: &'a Arc<Association>,
}

impl<'a> From<&'a Arc<Association>> for Predecessor<'a> {
    fn from(one: &'a Arc<Association>) -> Self {
        Predecessor { numbers: one, window: one }
    }
}

impl<'a> Predecessor<'a> {
    /// Another association with the same SPI and key.
    pub fn consider(&mut self, other: &'a Arc<Association>) {
        if other.sa.sent() > self.numbers.sa.sent() {
            self.numbers = other;
        }
        if other.sa.window.top() > self.window.sa.window.top() {
            self.window = other;
        }
    }

    /// The associations that it is made of.
    pub fn all(&self) -> [&'a Arc<Association>; 2] {
        [self.numbers, self.window]
    }

    /// Whether a successor of this configuration remembers what came in the same place.
    ///
    /// Otherwise it gets a copy, and a worker in the midst of a batch may accept a number by the old window that the new one accepts once more. Only a configuration that says another size or
    /// kind of window, or a higher number than any that came, brings this about.
    fn shares_window(&self, config: &AssociationConfig) -> bool {
        let window = &self.window.sa.window;
        window.suits(config.esp.window, config.esp.is_extended) && config.progress.top <= window.top()
    }

    /// Where a successor of this configuration begins, but for a window that it shares: what the configuration says counts only if it is further. If the windows differ in size, all older
    /// packets count as received.
    pub fn progress(&self, config: &AssociationConfig) -> Progress {
        let (wanted, top) = (&config.progress, self.window.sa.window.top());
        let sent = wanted.sent.max(self.numbers.sa.sent());
        let (top, bitmap) = if self.shares_window(config) {
            (0, Vec::new())
        } else if wanted.top > top {
            (wanted.top, wanted.bitmap.clone())
        } else if config.esp.window != self.window.config.esp.window && top > 0 {
            (top, vec![u32::MAX; config.esp.window.div_ceil(32) as usize])
        } else {
            let Progress { top, bitmap, .. } = self.window.progress();
            (top, bitmap)
        };
        Progress { sent, top, bitmap, life: Life::default() }
    }

    /// Has `successor`, which began with [that progress](Self::progress), go on with what is shared.
    pub fn hand_over(&self, successor: &mut Association) {
        let counted = if self.window.sa.window.top() > 0 { self.window } else { self.numbers };
        (successor.lines, successor.made_ns) = (counted.lines.clone(), counted.made_ns);
        let sent = successor.config.progress.sent;
        successor.sa.share_numbers(&self.numbers.sa);
        successor.sa.set_sent(sent);
        if self.shares_window(&successor.config) {
            successor.sa.window = Window::share(&self.window.sa.window);
        }
    }
}
