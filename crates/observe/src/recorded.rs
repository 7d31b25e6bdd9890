// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings as commands have them: a router that runs is asked for one and waited for, and it is said what a recording has and what is missing.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use client::{Client, Failure};
use profile::file::Recording;
use profile::record::{Mode, Options, Progress, Recorder};
use report::{err, errln};

use crate::recording::{self, ASIDE, ASIDE_NAME, ENDED_WITH_ROUTER, FIRED, RECORDING};
use crate::until::{self, Condition};

/// Events that a ring may hold at most.
pub const RING_MAX: usize = 1 << 26;

/// How often a router is asked whether it still records.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Why there is no whole recording.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The router does not answer, or refuses.
    #[error(transparent)]
    Router(#[from] Failure),
    /// The file does not have all that was recorded.
    #[error("{file}: {why}")]
    Incomplete {
        /// The file.
        file: String,
        /// What is missing, and why.
        why: String,
    },
    /// The file cannot be written.
    #[error("cannot write the recording {0}: {1}; name another file by -o, or make room")]
    File(String, io::Error),
    /// The router cannot write the file itself, and what it has written instead cannot be fetched.
    #[error(
        "the router can only write {0}, which cannot be read: {1}; ask as the user of the router, or have it started with --writable"
    )]
    Aside(String, io::Error),
    /// The router ended in the midst of it: what there is of it, or why nothing can be read.
    #[error("the router {0}")]
    Ended(String),
}

/// Ends a recorder; returns whether what was waited for has happened.
///
/// # Errors
/// Not all was written.
pub fn end(
    mut recorder: Recorder,
    until: &[Condition],
    output: &Path,
    options: &Options,
) -> Result<bool, Error> {
    let done = recorder.end();
    let progress = recorder.progress();
    let fired = match until {
        [] => true,
        until => {
            let (outcome, fired) = until::outcome(until, progress.fired.get());
            errln!("junctor: {outcome}");
            fired
        }
    };
    match done {
        Ok(()) => {
            say_recorded(&progress.to_string(), output, options);
            Ok(fired)
        }
        Err(why) => Err(Error::Incomplete {
            file: output.display().to_string(),
            why: recording::failed(&why, progress),
        }),
    }
}

fn say_recorded(progress: &str, file: &Path, options: &Options) {
    let file = file.display();
    errln!("junctor: recorded {progress} in {file}; look into it by 'junctor profile report {file}'");
    // The number before this word.
    let number = |unit| {
        let before = progress.split(unit).next().filter(|before| before.len() < progress.len())?;
        before.rsplit([' ', '(']).next()?.parse::<u64>().ok()
    };
    let of = |unit| number(unit).unwrap_or(0);
    let (kept, kernel) = (of(" engine events"), of(" of the kernel's"));
    let lost = of(" lost") - kernel;
    // Rings that are emptied at the end are to run over.
    if options.mode == Mode::Stream && lost > 0 {
        errln!("junctor: {}", too_small(kept, lost, options));
    }
    if kernel > 0 {
        errln!(
            "junctor: the kernel's rings ran over, since the thread that empties them had no processor for so long: leave one to others (-j), or do without the kernel's events (--no-kernel)"
        );
    }
}

/// What to do where rings ran over.
fn too_small(kept: u64, lost: u64, options: &Options) -> String {
    // As many events as there were in the time in which those that were kept were written.
    let times = (kept + lost).div_ceil(kept.max(1)).clamp(2, 1 << 10).next_power_of_two();
    let larger = options.ring_records.saturating_mul(times as usize).min(RING_MAX);
    let fewer = options.one_in.saturating_mul(times as u32);
    let share = 100.0 * lost as f64 / (kept + lost) as f64;
    let ring = match larger > options.ring_records {
        true => format!("where they come in bursts, larger rings keep more (--ring {larger}); "),
        false => String::new(),
    };
    format!(
        "{share:.1} % of the events were lost, for rings ran over before they were emptied: {ring}where they always come so fast, tell of fewer runs (--one-in {fewer}) or kinds (--events)"
    )
}

/// Has a router record into a file until the time is over, what is waited for happens, or somebody interrupts; returns whether it has happened.
///
/// # Errors
/// The router, or what was not recorded.
pub fn of_router(
    connect: impl FnOnce() -> Result<Client, Failure>,
    (options, until): (&Options, &[Condition]),
    file: &Path,
    interrupted: &Receiver<()>,
) -> Result<bool, Error> {
    let mut client = connect()?;
    let order = format!("start {}\n{}", recording::options_to_words(options, until), file.display());
    let said = client.write(RECORDING, &order)?;
    let (aside, said) = match said.strip_prefix(ASIDE) {
        Some(more) => more.split_once('\n').map_or((Some(more), ""), |(path, said)| (Some(path), said)),
        None => (None, &*said),
    };
    let opened = aside.map(|path| Aside::open(Path::new(path), file, until)).transpose();
    let opened = opened.inspect_err(|_| {
        // Nobody would fetch it.
        let _ = client.write(RECORDING, "stop");
        let own = aside.map(Path::new).filter(|path| open_own(path).is_ok());
        let _ = own.map(std::fs::remove_file);
    })?;
    err!("{said}{}", if said.is_empty() || said.ends_with('\n') { "" } else { "\n" });
    let done = wait(&mut client, interrupted, options.time).and_then(|waited| match waited {
        Waited::Enough => client.write(RECORDING, "stop").map(Some),
        Waited::Gone => Ok(None),
    });
    opened.map_or(Ok(()), |aside| aside.fetch(file))?;
    match done {
        Ok(Some(said)) => {
            let (progress, outcome) = said.split_once('\n').unwrap_or((&said, ""));
            Ok(told(progress, outcome, file, options))
        }
        Ok(None) => ended_otherwise("somebody else has ended the recording", until, file, options),
        Err(Failure::Ended) => {
            let how = "the router has ended, and the recording with it";
            ended_otherwise(how, until, file, options)
        }
        Err(why) => Err(why.into()),
    }
}

/// Opens a file that a router names. Others may have power over that router, and this command may do more than it: so only a file that is called as
/// recordings are, and is no link, is read and removed.
fn open_own(path: &Path) -> io::Result<File> {
    let is_called_so = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(ASIDE_NAME));
    match is_called_so && path.is_absolute() {
        true => sync::private::read(path),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "no recording is called so")),
    }
}

/// A recording that is in a file of the router, to be fetched when it has ended.
struct Aside {
    path: PathBuf,
    /// Opened when the recording began: so it can be read, and stays there for us.
    from: File,
    to: File,
}

impl Aside {
    fn open(path: &Path, file: &Path, until: &[Condition]) -> Result<Aside, Error> {
        let to = sync::private::create(file).map_err(|why| Error::File(file.display().to_string(), why))?;
        let from = open_own(path).map_err(|why| Error::Aside(path.display().to_string(), why))?;
        if !until.is_empty() {
            // What an earlier recording of this name kept is none of this one's.
            let _ = until::packets_file(file).map(std::fs::remove_file);
        }
        Ok(Aside { path: path.to_owned(), from, to })
    }

    /// Copies it, and the packets next to it, and removes both.
    fn fetch(mut self, file: &Path) -> Result<(), Error> {
        let failed = |file: &Path| {
            let file = file.display().to_string();
            |why| Error::File(file, why)
        };
        io::copy(&mut self.from, &mut self.to).map_err(failed(file))?;
        let _ = std::fs::remove_file(&self.path);
        if let (Ok(from), Ok(to)) = (until::packets_file(&self.path), until::packets_file(file))
            && let Ok(mut packets) = open_own(&from)
        {
            let copied = sync::private::create(&to).and_then(|mut to| io::copy(&mut packets, &mut to));
            copied.map_err(failed(&to))?;
            let _ = std::fs::remove_file(from);
        }
        Ok(())
    }
}

/// Says what came of a recording that the router has ended; returns whether what was waited for has happened.
fn told(progress: &str, outcome: &str, file: &Path, options: &Options) -> bool {
    let fired = outcome.strip_prefix(FIRED);
    if !outcome.is_empty() {
        errln!("junctor: {}", fired.unwrap_or(outcome));
    }
    say_recorded(progress, file, options);
    outcome.is_empty() || fired.is_some()
}

/// The recording did not end as it was to, but `how`. A router that ends in order writes what there is; of one that was killed the file has what came until
/// then.
fn ended_otherwise(how: &str, until: &[Condition], file: &Path, options: &Options) -> Result<bool, Error> {
    let read = std::fs::read(file).map_err(|e| e.to_string());
    let recording = read.and_then(|bytes| {
        let recording = Recording::read(&bytes).map_err(|e| e.to_string())?;
        Ok((recording, bytes.len()))
    });
    let (recording, bytes) = match recording {
        Ok(read) => read,
        Err(why) => {
            return Err(Error::Ended(format!("ended while it was recorded; {}: {why}", file.display())));
        }
    };
    let [events, kernel] = [recording.events.len(), recording.kernel.len()];
    let Some(end) = &recording.end else {
        let lost = match recording.mode() {
            Mode::Stream => "",
            Mode::Flight | Mode::Stop => "; its rings, which this mode empties at the end, are lost",
        };
        return Err(Error::Ended(format!(
            "was killed while it was recorded; {} has what was written until then: {events} engine events, {kernel} kernel events{lost}",
            file.display()
        )));
    };
    errln!("junctor: {how}");
    if end.no_room > 0 {
        let why = format!("not all was written: {}", end.why);
        return Err(Error::Incomplete { file: file.display().to_string(), why });
    }
    let lost = end.lost.iter().sum::<u64>() + end.lost_kernel + end.over_kernel + end.no_room;
    let progress = Progress {
        events: (events as u64).into(),
        kernel_events: (kernel as u64).into(),
        lost: lost.into(),
        lost_kernel: end.lost_kernel.into(),
        bytes: (bytes as u64).into(),
        ..Progress::default()
    };
    let (outcome, fired) = until::outcome(until, end.fired.as_ref());
    let outcome = match until {
        [] => String::new(),
        _ => format!("{}{outcome}", if fired { FIRED } else { "" }),
    };
    Ok(told(&progress.to_string(), &outcome, file, options))
}

/// What became of a recording that was waited for.
enum Waited {
    /// It is to end, or has ended by itself.
    Enough,
    /// The router has no recording any more.
    Gone,
}

/// Waits until the time is over, somebody interrupts, or the router has ended it.
fn wait(client: &mut Client, interrupted: &Receiver<()>, time: Option<Duration>) -> Result<Waited, Failure> {
    let until = time.and_then(|time| Instant::now().checked_add(time));
    let left = || until.map_or(ASK_EVERY, |until| until.saturating_duration_since(Instant::now()));
    loop {
        let wait = left().min(ASK_EVERY);
        match interrupted.recv_timeout(wait) {
            Ok(()) => return Ok(Waited::Enough),
            // Without signals it is waited as long.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let status = client.read(RECORDING)?;
        if status.starts_with("idle") {
            return Ok(Waited::Gone);
        }
        if status.starts_with(ENDED_WITH_ROUTER) {
            return Err(Failure::Ended);
        }
        if left().is_zero() || !status.starts_with("recording") {
            return Ok(Waited::Enough);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_cannot_name_other_files() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("recording-1-1.prof"), "own").unwrap();
        std::fs::write(at("shadow"), "of others").unwrap();
        std::os::unix::fs::symlink(at("shadow"), at("recording-1-2.prof")).unwrap();
        assert!(open_own(&at("recording-1-1.prof")).is_ok());
        for name in ["shadow", "recording-1-2.prof", "recording-1-3.prof"] {
            assert!(open_own(&at(name)).is_err(), "{name}");
        }
        assert!(open_own(Path::new("recording-1-1.prof")).is_err());
        // The packets next to it are fetched, too, but for a link.
        let fetched = |from: &str, to: &str| {
            let aside = Aside::open(&at(from), &at(to), &[]).unwrap();
            aside.fetch(&at(to)).unwrap();
            (std::fs::read_to_string(at(to)).unwrap(), at("r.pcapng").exists())
        };
        std::os::unix::fs::symlink(at("shadow"), at("recording-1-1.pcapng")).unwrap();
        assert_eq!(fetched("recording-1-1.prof", "r.prof"), ("own".into(), false));
        std::fs::write(at("recording-2-1.prof"), "next").unwrap();
        std::fs::write(at("recording-2-1.pcapng"), "packets").unwrap();
        assert_eq!(fetched("recording-2-1.prof", "r.prof"), ("next".into(), true));
        assert!(!at("recording-2-1.prof").exists() && !at("recording-2-1.pcapng").exists());
        assert_eq!(std::fs::read_to_string(at("shadow")).unwrap(), "of others");
    }

    #[test]
    fn what_is_advised_follows_from_what_was_lost() {
        let of = |ring_records| Options { ring_records, one_in: 16, ..Options::default() };
        let said = too_small(1000, 5000, &of(65536));
        assert!(said.starts_with("83.3 % of the events"), "{said}");
        assert!(said.contains("(--ring 524288)") && said.contains("(--one-in 128)"), "{said}");
        let said = too_small(1_000_000, 1, &of(65536));
        assert!(said.contains("(--ring 131072)") && said.contains("(--one-in 32)"), "{said}");
        // None is larger, and nothing was kept.
        let said = too_small(0, 7, &of(RING_MAX));
        assert!(!said.contains("--ring") && said.contains("--one-in"), "{said}");
    }
}
