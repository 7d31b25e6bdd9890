// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor service NAME --upgrade`: a service goes on with another program, such as that of a newer package.
//!
//! 1. The service has the new program check the commit in service. If that fails, all stays as it is.
//! 2. Its process becomes the new program by `exec`, so systemd sees no end. Planes go on meanwhile.
//! 3. The new program's supervisor takes the planes over, and starts those of this program again, one by one. Each leaves its taps, packet sockets and
//!    sessions to its successor: see the crate `services`.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use saved::protocol::{Answer, Request, Upgraded};

use super::Service;
use super::watch::{self, Watcher};
use crate::saved::{Place, Stop, Store, checked, layout};
use crate::{exit, outcome};

/// How long an upgrade may take, and how often a client looks whether it is over.
const PATIENCE: Duration = Duration::from_secs(900);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The option that the new program gets.
const UPGRADED: &str = "--upgraded";

/// Asks the service to go on with the program that is installed now. Returns the status for the shell: that of wrong usage if there is no service that can.
pub(super) fn ask(place: &Place) -> Result<u8, Stop> {
    let not_running = || Stop::Usage(format!("the service of {} does not run", place.name));
    match crate::saved::ask(place, &Request::Upgrade)?.ok_or_else(not_running)? {
        Answer::Done { text } => outln!("{text}"),
        Answer::Failed { why } if why.starts_with("not a request") => {
            return Err(Stop::Usage(format!("the service of {} knows no upgrades: restart it", place.name)));
        }
        Answer::Failed { why } => return Err(Stop::Failed(why)),
        Answer::Status { .. } => return Err(Stop::Failed("the service answers something else".into())),
    }
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        // It does not listen for a while.
        if let Ok(Some(Answer::Status { upgraded: Some(upgraded), .. })) =
            crate::saved::ask(place, &Request::Status)
        {
            return match upgraded.is_whole {
                true => Ok(outcome::print_or_fail(format!("{}\n", upgraded.text).as_bytes())),
                false => Err(Stop::Failed(upgraded.text)),
            };
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(Stop::Failed(format!("the service of {} does not answer; see its log", place.name)))
}

/// Whether this program can run the commit that is confirmed, or the one in service.
pub(super) fn rehearse(place: &Place, store: &Store, live: bool) -> Result<u8, Stop> {
    let commit = if live { store.live()? } else { store.confirmed()? };
    let commit = commit.ok_or_else(|| Stop::Failed("no commit is confirmed".into()))?;
    let files = store.files(commit)?;
    let checked = checked::check(&place.name, &place.state.join("live"), &files).map_err(Stop::Failed)?;
    if checked.is_bad {
        checked.report(false);
        return Err(Stop::Wrong);
    }
    outln!("{}", env!("CARGO_PKG_VERSION"));
    Ok(exit::SUCCESS)
}

impl Service {
    /// Looks whether the program that is installed now can take this one's place. It does so when this was answered.
    pub(super) fn upgrade(&mut self, by: &str) -> Answer {
        let failed = |why: String| Answer::Failed { why };
        if let Some(waiting) = self.machine.waiting() {
            return failed(format!(
                "commit {} waits to be confirmed; keep it by `junctor config confirm`, or take it back by `junctor config rollback`, first",
                waiting.commit
            ));
        }
        let program = self.supervised.program();
        let output = match self.rehearsed(program, &[]) {
            Ok(output) => output,
            Err(why) => return failed(format!("{}: {why}; the old program goes on", program.display())),
        };
        if !output.status.success() {
            return failed(format!(
                "{} cannot run the commit in service, so the old program goes on:\n{}",
                program.display(),
                String::from_utf8_lossy(&output.stderr).trim_end()
            ));
        }
        (self.upgrades, self.upgraded) = (true, None);
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        self.say(&format!("{by} has it go on with version {version} of the program"));
        Answer::Done { text: format!("{}: going on with version {version}", self.place.name) }
    }

    /// Has a program check a commit, with the rights of this service.
    pub(super) fn rehearsed(&self, program: &Path, more: &[&str]) -> std::io::Result<Output> {
        let mut command = Command::new(program);
        command.args(["service", &self.place.name, "--rehearse"]).args(more).stdin(Stdio::null());
        command.args(self.place.options()).output()
    }

    /// Becomes the program that is installed now. Comes back only if that fails.
    pub(super) fn become_new(&mut self) {
        self.supervised.leave_planes();
        // The new program starts its own.
        self.watcher.take().into_iter().for_each(Watcher::end);
        let program = self.supervised.program().to_owned();
        let arguments = std::env::args_os().skip(1).filter(|argument| argument != OsStr::new(UPGRADED));
        let mut command = Command::new(&program);
        match self.supervised.hand_over_left() {
            Ok(left) => left.into_iter().for_each(|left| _ = command.stdin(left)),
            Err(why) => {
                self.say(&format!("descriptors of planes are not handed to the new program: {why}"));
            }
        }
        // Those that systemd gave this process are among them.
        ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"].iter().for_each(|name| _ = command.env_remove(name));
        let why = command.args(arguments).arg(UPGRADED).exec();
        let text = format!("{}: {why}; the old program goes on", program.display());
        self.say(&text);
        self.upgraded = Some(Upgraded { is_whole: false, text });
        self.watcher = watch::start(&self.place, self.looks);
        // If that fails, the service ends, and systemd starts it again.
        let _ = self.supervised.start();
    }

    /// Starts the planes of this program again, which run an older one. Those of others go on.
    pub(super) fn upgrade_planes(&mut self, commit: u64) {
        let planes = self.store.files(commit).map_err(|why| why.to_string());
        let planes = planes.and_then(|files| layout::of_this_program(&self.place.name, &files));
        let planes = match planes {
            Ok(planes) => planes,
            Err(text) => {
                self.say(&text);
                self.upgraded = Some(Upgraded { is_whole: false, text });
                return;
            }
        };
        let (mut lines, mut is_whole) = (Vec::new(), true);
        for plane in planes {
            let start = Instant::now();
            lines.push(match self.supervised.restart(&plane) {
                Ok(()) => format!("plane {plane} was replaced in {} ms", start.elapsed().as_millis()),
                Err(why) => {
                    is_whole = false;
                    format!("plane {plane}: {why}")
                }
            });
        }
        let text = format!(
            "{}: version {}: {}",
            self.place.name,
            env!("CARGO_PKG_VERSION"),
            if lines.is_empty() { "no plane runs this program".to_owned() } else { lines.join("; ") }
        );
        self.say(&text);
        self.upgraded = Some(Upgraded { is_whole, text });
    }
}
