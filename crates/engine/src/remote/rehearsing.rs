// SPDX-License-Identifier: MIT OR Apache-2.0
//! What would become of a packet in a router that runs: workers find out, one after the other.

use std::sync::Arc;

use packet::Packet;

use super::{Control, Gone, Missed};
use crate::observer::Observer;
use crate::rehearsal::Stop;
use crate::shared::Shared;
use element::PortIndex;
use element::wiring::End;

impl Control {
    /// Finds out what would become of a packet at an input of an element. `make` makes it, on the worker; `observer` sees what would happen.
    ///
    /// # Errors
    /// The router has stopped or another configuration has come, or the words of why a worker cannot be asked.
    pub fn rehearse_packet<W: Observer + 'static>(
        &self,
        shared: &Arc<Shared>,
        at: End,
        make: impl FnOnce() -> Option<Packet> + Send + 'static,
        observer: W,
    ) -> Result<Result<W, String>, Gone> {
        let first = shared.home(at.element);
        let begin =
            move |packet: Packet| vec![Stop { element: at.element, port: PortIndex::new(at.port), packet }];
        let made = self.on_worker(shared, first, move |worker| {
            let (mut observer, mut steps) = (observer, 0);
            let stops = make().map(begin)?;
            let left = worker.rehearse(stops, &mut steps, &mut observer);
            Some((left, steps, observer))
        });
        let (mut stops, mut steps, mut observer) = match settled(made)? {
            Err(why) => return Ok(Err(why)),
            Ok(None) => return Ok(Err("packet memory is exhausted".into())),
            Ok(Some(done)) => done,
        };
        // What lies behind queues may be other workers'.
        while let Some(stop) = stops.last() {
            let (worker, before) = (shared.home(stop.element), steps);
            let made = self.on_worker(shared, worker, move |worker| {
                let left = worker.rehearse(stops, &mut steps, &mut observer);
                (left, steps, observer)
            });
            match settled(made)? {
                Err(why) => return Ok(Err(why)),
                Ok(done) => (stops, steps, observer) = done,
            }
            if steps == before {
                return Ok(Err("an element is running this very moment on a worker that answers".into()));
            }
        }
        Ok(Ok(observer))
    }
}

fn settled<T>(made: Result<T, Missed>) -> Result<Result<T, String>, Gone> {
    match made {
        Ok(done) => Ok(Ok(done)),
        Err(Missed::Stalled(why)) => Ok(Err(why)),
        Err(Missed::Stopped) => Err(Gone::Stopped),
        Err(Missed::Replaced) => Err(Gone::Replaced),
    }
}
