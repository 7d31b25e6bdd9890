// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells who started the router that it is ready, and that it is well: systemd, or `junctor up` (sd_notify(3)).

use std::time::Duration;

use engine::Control;
use planes::notify::Notifier;

/// Heartbeats in the time within which one is expected.
const HEARTBEATS: u32 = 4;
/// The longest time between them.
const RARELY: Duration = Duration::from_secs(5);

/// Notifies the manager that the environment names, if any: once when the workers run, and then as often as it asks for,
/// as long as no worker stands still.
pub(crate) fn notify(control: Control) {
    let Some(notifier) = Notifier::from_environment() else { return };
    let body = move || {
        // Without it, no turn comes while workers never rest.
        let _ = sync::priority::before_workers();
        // A worker answers it, so they run.
        if control.read("version", "").is_err() {
            return;
        }
        notifier.send("READY=1\nSTATUS=forwarding");
        let Some(time) = notifier.heartbeat else { return };
        loop {
            match control.stalled() {
                None => notifier.send("WATCHDOG=1"),
                Some(why) => notifier.send(&format!("STATUS={}", why.replace('\n', " "))),
            }
            std::thread::sleep((time / HEARTBEATS).min(RARELY));
        }
    };
    let _ = std::thread::Builder::new().name("heartbeat".into()).spawn(body);
}
