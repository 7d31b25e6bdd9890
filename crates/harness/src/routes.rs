// SPDX-License-Identifier: MIT OR Apache-2.0
//! A route feed within one process: batches go from the RIB straight into the tables of a router. For benchmarks and labs.

use std::sync::Arc;
use std::time::Duration;

use control::Rib;
use control::session::{Next, Session};
use elements::routing::FeedSink;
use feed::Reply;

use crate::Error;

/// A RIB's way to one router.
pub struct Inside {
    sink: Arc<FeedSink>,
    session: Session,
}

impl Inside {
    /// A way to the router's element, as run number `feed` of a control plane.
    pub fn new(sink: Arc<FeedSink>, feed: u64) -> Inside {
        Inside { sink, session: Session::new(feed) }
    }

    /// Has all batches of the RIB applied by `apply`, which calls [`FeedSink::apply`].
    ///
    /// # Errors
    /// The router refused something.
    pub fn deliver(
        &mut self,
        rib: &mut Rib,
        mut apply: impl FnMut(&FeedSink, &[u8]) -> Option<Reply>,
    ) -> Result<(), Error> {
        loop {
            while let Some(batch) = self.session.next(rib.outbox()) {
                let reply = apply(&self.sink, &batch).ok_or(Error::NoTables)?;
                if let Next::Replay(_) = self.session.receive(reply) {
                    rib.replay();
                }
            }
            // A replay goes on as its batches are taken.
            if rib.next_due() != Some(Duration::ZERO) {
                break;
            }
            rib.flush(Duration::ZERO);
        }
        match self.session.refused() {
            (0, _) => Ok(()),
            (updates, why) => Err(Error::Refused { updates, why: why.to_owned() }),
        }
    }
}
