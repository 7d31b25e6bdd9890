// SPDX-License-Identifier: MIT OR Apache-2.0
//! Announcements of own addresses, by ARP (RFC 5227) and by neighbour discovery (RFC 4861, 7.2.6): when they are due.

use element::args::Args;
use element::clock::Nanos;
use element::{Cx, HandlerError, InitCx};
use packet::Batch;

use crate::tools;

/// The timer for the next announcement.
const NEXT: u32 = 0;

/// When to announce.
#[derive(Clone, Default)]
pub(crate) struct Announcements {
    /// How often to announce, and how often yet.
    times: u32,
    left: u32,
    interval_ns: Nanos,
    /// This is the instance that announces.
    home: bool,
    pull: bool,
}

impl Announcements {
    /// Reads ANNOUNCE, and ANNOUNCE_INTERVAL, whose default is given.
    pub(crate) fn configure(&mut self, args: &mut Args<'_>, interval_ns: Nanos) {
        self.times = args.keyword("ANNOUNCE", 0);
        self.interval_ns = tools::time_ns(args, "ANNOUNCE_INTERVAL", interval_ns);
        self.pull = args.output_is_pull(0);
        if self.times > 0 && self.pull {
            args.error("ANNOUNCE needs a push output: put a Queue behind this element");
        }
    }

    /// Sets the timer for the first one.
    pub(crate) fn initialize(&mut self, cx: &mut InitCx<'_>) {
        self.home = cx.is_home();
        self.left = self.times;
        if self.home && self.left > 0 {
            cx.set_timer_after(NEXT, 0);
        }
    }

    /// Begins anew; returns whether to announce at once.
    ///
    /// # Errors
    /// When nothing can be pushed.
    pub(crate) fn begin_anew(&mut self) -> Result<bool, HandlerError> {
        if self.pull {
            return Err(HandlerError::failed("announcements need a push output"));
        }
        if self.home {
            self.left = self.times.max(1);
        }
        Ok(self.home)
    }

    /// Sends what is announced, and sets the timer for the next time.
    pub(crate) fn send(&mut self, cx: &mut Cx<'_>, batch: Batch) {
        cx.made(batch.len());
        cx.push(0, batch);
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            cx.set_timer_after(NEXT, self.interval_ns);
        }
    }
}
