// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports to the router's parent (systemd, or `junctor up`) that it is ready, and that it is well (sd_notify(3)).

use std::sync::Arc;
use std::time::Duration;

use engine::Control;
use planes::notify::Notifier;

use crate::kept::Kept;

/// Heartbeats in the time within which one is expected.
const HEARTBEATS: u32 = 4;
/// How often the listener is checked: until a new supervisor is informed, it has none of our descriptors.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Notifies the manager that the environment names, if any: once when the workers run, and then as often as it asks for, as long as no
/// worker stands still. A manager that takes another one's place receives everything again.
pub fn notify(control: Control, kept: Option<Arc<Kept>>) {
    let Some(notifier) = Notifier::from_environment() else { return };
    let body = move || {
        // Without it, no turn comes while workers never rest.
        let _ = sync::priority::before_workers();
        // A worker answers it, so they run.
        if control.read("version", "").is_err() {
            return;
        }
        let mut listener = notifier.listener();
        notifier.send("READY=1\nSTATUS=forwarding");
        let pause = notifier.heartbeat.map_or(LOOK_EVERY, |time| (time / HEARTBEATS).min(LOOK_EVERY));
        loop {
            std::thread::sleep(pause);
            let now = notifier.listener();
            if now != listener && now.is_some() {
                notifier.send("READY=1");
                kept.iter().for_each(|kept| kept.again());
                listener = now;
            }
            match control.stalled() {
                None => notifier.send("WATCHDOG=1"),
                Some(why) => notifier.send(&format!("STATUS={}", why.replace('\n', " "))),
            }
        }
    };
    let _ = std::thread::Builder::new().name("heartbeat".into()).spawn(body);
}
