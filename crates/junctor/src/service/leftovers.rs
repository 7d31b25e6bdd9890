// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planes that a service has left. systemd kills the service's process alone, so that planes survive its crash. When the service was stopped, nothing of it
//! may be left.

use planes::up::stop_left;

use super::watch;
use crate::exit;
use crate::saved::{Place, Stop};

/// How systemd says that the service ended (systemd.exec(5)).
const RESULT: &str = "SERVICE_RESULT";

/// Whether the service starts again after such an end, and takes its planes over. One that was stopped has ended in order, or took too long.
fn starts_again(result: &str) -> bool {
    !matches!(result, "" | "success" | "timeout" | "start-limit-hit")
}

/// Ends the planes of a service that has ended, unless it starts again. `looks`: how long they would be watched.
pub(super) fn end(place: &Place, looks: Option<u32>) -> Result<u8, Stop> {
    let result = std::env::var(RESULT).unwrap_or_default();
    let nobody_watches = looks.is_some() && !watch::is_noted(place);
    if starts_again(&result) && !nobody_watches {
        return Ok(exit::SUCCESS);
    }
    let files = client::files_of(&place.name).map_err(|why| Stop::Failed(why.to_string()))?;
    for plane in stop_left(&files) {
        errln!("junctor: service {}: ended plane {plane}, which was left", place.name);
    }
    Ok(exit::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::starts_again;

    #[test]
    fn planes_stay_for_a_service_that_comes_back() {
        for (result, stay) in [
            ("success", false),
            ("", false),
            ("timeout", false),
            ("signal", true),
            ("core-dump", true),
            ("watchdog", true),
            ("exit-code", true),
            ("oom-kill", true),
        ] {
            assert_eq!(starts_again(result), stay, "{result}");
        }
    }
}
