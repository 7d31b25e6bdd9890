// SPDX-License-Identifier: MIT OR Apache-2.0
//! An element that sends packets without devices.

use junctor_engine::args::Args;
use junctor_engine::{Class, Cx, Element, Handler, HandlerError, InitCx, OpenCx, OwnHandlers, Tasks};
use packet::{Batch, Packet};

/// Packets of a batch.
pub const BATCH: u64 = 7;

/// `Source([LIMIT])` sends so many batches and ends the router, or sends without end; its handler `where` answers `here`.
#[derive(Default)]
struct Source {
    limit: u32,
    sent: u32,
}

impl Element for Source {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.limit = args.positional("LIMIT", 0);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let batch: Batch = (0..BATCH).filter_map(|_| Packet::copy_of(b"packet")).collect();
        cx.made(batch.len());
        cx.push(0, batch);
        self.sent = self.sent.saturating_add(1);
        if self.sent == self.limit {
            cx.please_stop();
        }
        true
    }
}

impl OwnHandlers for Source {
    fn read(&mut self, _: &mut Cx<'_>, _: &str, _: &str) -> Result<String, HandlerError> {
        Ok("here".to_owned())
    }
}

pub static SOURCE: Class = Class::new("Source", "0/1", || Box::<Source>::default())
    .own_handlers::<Source>()
    .processing("h/h")
    .handlers(&[Handler::read("where")]);
