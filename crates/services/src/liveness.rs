// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dead next hops of a running router: a thread that carries what BFD finds into the tables, so that no worker waits for them.

use std::time::Duration;

use elements::routing::Liveness;
use engine::Control;

/// How often the configuration is searched for elements that watch neighbours.
const LOOK: Duration = Duration::from_millis(500);
/// The pause before a table is tried again, and the wait for each of several elements.
const SOON: Duration = Duration::from_millis(1);

/// Carries changes until the process ends.
pub fn serve(control: &Control) {
    let control = control.clone();
    let body = move || {
        // Without it, nothing is carried while workers never rest.
        let _ = sync::priority::before_workers();
        loop {
            let watching = control.shared().all_provided::<Liveness>();
            if watching.is_empty() {
                std::thread::sleep(LOOK);
            }
            let patience = if watching.len() == 1 { LOOK } else { SOON };
            for liveness in watching {
                liveness.wait(patience);
                // A table that cannot be changed now is tried again in the next round.
                if liveness.carry().is_err() {
                    std::thread::sleep(SOON);
                }
            }
        }
    };
    if let Err(why) = std::thread::Builder::new().name("liveness".into()).spawn(body) {
        errln!("junctor: next hops cannot follow BFD: {why}");
    }
}
