// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planes whose service does not come back.
//!
//! Planes go on when their service is killed, and the next service takes them over. systemd ends nothing more if a service is stopped in the pause
//! before its restart. So each service has a watcher, a small process that outlives it:
//!
//! 1. A service that finds planes starts its watcher before all else; any other one when its planes are ready, so that they need not wait for one more
//!    program to start. What is killed before that leaves nothing ([`super::leftovers`]).
//! 2. The watcher's number stands in a file. The watcher of the newest service counts.
//! 3. The watcher waits at a pipe, which closes when the service ends, however that happens.
//! 4. Then it looks every second, and leaves when there is a newer watcher or no plane.
//! 5. After `--planes-outlive`, it stops the planes as `junctor down` does.
//!
//! Looks are counted, not time: a machine that stood still is no reason to stop anything.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use deployed::Error;
use planes::record::Record;
use planes::up::{Files, UpError, stop_known, stop_left, survivors};
use rustix::fs::{FileType, RawMode};
use saved::disk::Lock;

use crate::exit;
use crate::saved::{Place, Stop};

/// How long planes go on without a service that systemd has started.
const USUAL: &str = "60s";
/// The word for no limit.
const FOREVER: &str = "forever";
/// The time between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Variables that are for the service alone.
const NOT_FOR_IT: [&str; 6] =
    ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// For how many looks planes go on. `asked`: what the command line says; `is_managed`: somebody starts the service again.
pub(super) fn looks(asked: Option<&str>, is_managed: bool) -> Result<Option<u32>, Stop> {
    let time = match asked {
        None if !is_managed => return Ok(None),
        Some(FOREVER) => return Ok(None),
        asked => asked.unwrap_or(USUAL),
    };
    let wrong = || Stop::Usage(format!("--planes-outlive {time}: give a time such as {USUAL}, or {FOREVER}"));
    let time = engine::parse_duration(time).ok_or_else(wrong)?;
    let looks = time.as_millis().div_ceil(EVERY.as_millis());
    Ok(Some(u32::try_from(looks).unwrap_or(u32::MAX)))
}

fn noted(place: &Place) -> PathBuf {
    place.run.join("watcher")
}

/// Whether planes of this service have a watcher, or had one.
pub(super) fn is_noted(place: &Place) -> bool {
    noted(place).exists()
}

/// There are no planes whose watcher this could be.
pub(super) fn forget(place: &Place) {
    let _ = std::fs::remove_file(noted(place));
}

/// Starts the watcher of a service, if planes wait for a service only so long.
pub(super) fn start(place: &Place, looks: Option<u32>) -> Option<Watcher> {
    let failed = |why| errln!("junctor: service {}: nobody watches its planes: {why}", place.name);
    Watcher::start(place, looks?).map_err(failed).ok()
}

/// The watcher of a service that runs.
pub(super) struct Watcher(Child);

impl Watcher {
    fn start(place: &Place, looks: u32) -> std::io::Result<Watcher> {
        std::fs::create_dir_all(&place.run)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("junctor").args(["service", &place.name, "--watch", &looks.to_string()]);
        command.args(place.options());
        NOT_FOR_IT.iter().for_each(|name| _ = command.env_remove(name));
        // What a terminal sends is for the service.
        command.process_group(0).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null());
        // Who reads a pipe to its end would wait for the watcher. A journal, a terminal and a file do not.
        let is_pipe =
            |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode as RawMode) == FileType::Fifo;
        if rustix::fs::fstat(std::io::stderr()).is_ok_and(is_pipe) {
            command.stderr(Stdio::null());
        }
        let watcher = Watcher(command.spawn()?);
        // One that is not noted could take itself for one of a service that has ended.
        match std::fs::write(noted(place), watcher.0.id().to_string()) {
            Ok(()) => Ok(watcher),
            Err(why) => {
                watcher.end();
                Err(why)
            }
        }
    }

    /// Ends it before another program takes the place of this one.
    pub(super) fn end(mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a look finds.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// No later service has started a watcher.
    is_newest: bool,
    has_planes: bool,
}

/// What follows a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Wait,
    /// There is nothing to watch.
    Leave,
    /// Nobody has come.
    Stop,
}

fn next(look: Look, looks: u32, most: u32) -> Next {
    match look {
        Look { is_newest: false, .. } | Look { has_planes: false, .. } => Next::Leave,
        _ if looks < most => Next::Wait,
        _ => Next::Stop,
    }
}

/// Watches: see above.
pub(super) fn run(place: &Place, most: u32) -> Result<u8, Stop> {
    let files = client::files_of(&place.name).map_err(|why| Stop::Failed(why.to_string()))?;
    // Nothing comes; it ends with the service.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    // Also if their files go meanwhile.
    let known = survivors(&files);
    let me = std::process::id().to_string();
    let mut looks = 0;
    loop {
        let look = Look {
            is_newest: std::fs::read_to_string(noted(place)).is_ok_and(|newest| newest == me)
                || !noted(place).exists(),
            has_planes: !survivors(&files).is_empty() || known.iter().any(|(_, record)| record.is_alive()),
        };
        match next(look, looks, most) {
            Next::Leave => return Ok(exit::SUCCESS),
            Next::Wait => looks += 1,
            // A service that is about to start its watcher has the lock, and so counts as one.
            Next::Stop => match Lock::take(&place.service_lock(), &me) {
                Ok(Err(_)) => looks = 0,
                lock => {
                    errln!(
                        "junctor: service {}: its planes are stopped, since no service followed within {most} s (--planes-outlive)",
                        place.name
                    );
                    stop(&place.name, &files, &known);
                    drop(lock);
                    return Ok(exit::SUCCESS);
                }
            },
        }
        std::thread::sleep(EVERY);
    }
}

/// Stops a deployment as its supervisor would have done it, or its processes alone. One that has a supervisor, of `junctor up` for instance, goes on.
fn stop(name: &str, files: &Files, known: &[(String, Record)]) {
    match deployed::take_down(name, files) {
        Ok(()) => {}
        Err(Error::Up(UpError::RunsAlready(..))) => return,
        Err(why) => {
            errln!("junctor: {why}; stopping its processes");
            drop(stop_left(files));
        }
    }
    stop_known(known);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_wait_for_a_service_for_so_long() {
        let look = |is_newest, has_planes| Look { is_newest, has_planes };
        for (found, looks, what) in [
            (look(true, true), 0, Next::Wait),
            (look(true, true), 59, Next::Wait),
            (look(true, true), 60, Next::Stop),
            (look(false, true), 60, Next::Leave),
            (look(true, false), 60, Next::Leave),
        ] {
            assert_eq!(next(found, looks, 60), what, "{found:?} {looks}");
        }
        let of = |asked, is_managed| looks(asked, is_managed).ok().flatten();
        assert_eq!((of(None, true), of(None, false), of(Some("forever"), true)), (Some(60), None, None));
        assert_eq!((of(Some("1500ms"), false), of(Some("5m"), true)), (Some(2), Some(300)));
        assert!(looks(Some("soon"), true).is_err());
    }
}
