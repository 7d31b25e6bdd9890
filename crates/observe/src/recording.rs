// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording in the router's own process, where the rings are: of a run that begins with it, and of one that is under way, whose control socket takes
//! the orders (`junctor profile record`).
//!
//! A router that is confined, or has a file system of its own, may not be able to write the file that somebody wants. It then records into a directory
//! of its own, and says so ([`ASIDE`]). Who gave the order fetches the file from there.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use engine::{Control, Reason, Shared};
use profile::names::{ElementName, Names};
use profile::record::{Options, Progress, Recorder, Source, StartError};
use profile::trigger::Trigger;

use crate::until::{self, Armed, Condition};

/// The handler of the control socket: `start OPTIONS`, a line break and the file's name, or `stop`; read, it says how far it is.
pub const RECORDING: &str = "recording";

/// What the numbers in events mean, from the configuration that runs.
pub fn names(control: Control) -> Source {
    let mut last: Option<Weak<Shared>> = None;
    Box::new(move || {
        let shared = control.shared();
        let now = Arc::downgrade(&shared);
        if last.as_ref().is_some_and(|last| last.ptr_eq(&now)) {
            return None;
        }
        last = Some(now);
        let element = |e: &engine::ElementInfo| ElementName {
            name: e.name.to_string(),
            class: e.class.name.to_owned(),
            config: e.config_shown().into_owned(),
        };
        let reasons = Reason::ALL.iter().map(|r| r.name().to_owned()).collect();
        Some(Names { elements: shared.elements.iter().map(element).collect(), reasons, ..Names::default() })
    })
}

/// How the answer to `start` begins if the recording is in another file than it was to be; then the file's name, and a line break.
pub const ASIDE: &str = "aside: ";

/// How the name of such a file begins.
pub(crate) const ASIDE_NAME: &str = "recording-";

/// How the answer to `stop` goes on if what was waited for has happened.
pub const FIRED: &str = "fired: ";

/// How the status of a recording begins that has ended because its router does.
pub const ENDED_WITH_ROUTER: &str = "ended with the router";

/// How it is said that something went wrong at the end.
pub fn failed(why: &std::io::Error, progress: &Progress) -> String {
    format!("not all was written: {why}; kept: {progress}")
}

/// Says what could not be recorded.
pub fn shortfalls(recorder: &Recorder) -> String {
    let line = |m: &profile::names::Missing| {
        let mend = if m.mend.is_empty() { String::new() } else { format!(" (mend: {})", m.mend) };
        format!("not recorded: {}: {}{mend}\n", m.what, m.why)
    };
    let missing = recorder.missing().iter().map(line);
    missing.chain(recorder.unwatched().iter().map(|why| format!("not watched: {why}\n"))).collect()
}

/// Options as the handler takes them, and back.
pub fn options_to_words(options: &Options, until: &[Condition]) -> String {
    let Options { events, one_in, ring_records, mode, kernel, time, after } = options;
    let time = time.map_or(String::new(), |t| format!(" time={}", t.as_secs_f64()));
    let until: String = until.iter().map(|condition| format!(" until={condition}")).collect();
    let after = after.as_secs_f64();
    format!(
        "events={events} one_in={one_in} ring={ring_records} mode={mode} kernel={kernel}{time} after={after}{until}"
    )
}

fn options_from_words(words: &str) -> Result<(Options, Vec<Condition>), String> {
    let (mut options, mut until) = (Options::default(), Vec::new());
    for word in words.split_ascii_whitespace() {
        // This program has written it, or one like it.
        let bad = || {
            format!(
                "'{word}' is no option of a recording that this router, junctor {}, knows: use the junctor that runs it",
                env!("CARGO_PKG_VERSION")
            )
        };
        let (name, value) = word.split_once('=').ok_or_else(bad)?;
        match name {
            "events" => options.events = value.parse()?,
            "one_in" => options.one_in = value.parse().map_err(|_| bad())?,
            "ring" => options.ring_records = value.parse().map_err(|_| bad())?,
            "mode" => options.mode = value.parse()?,
            "kernel" => options.kernel = value.parse().map_err(|_| bad())?,
            "time" => options.time = Some(engine::parse_duration(value).ok_or_else(bad)?),
            "after" => options.after = engine::parse_duration(value).ok_or_else(bad)?,
            "until" => until.push(value.parse()?),
            _ => return Err(bad()),
        }
    }
    Ok((options, until))
}

/// The recording of a router that runs.
pub struct Live {
    control: Control,
    /// The command line of this process, for the recordings.
    command: String,
    recorder: Mutex<Option<Recorder>>,
    /// What came of it, if it has ended with the router.
    ended: Mutex<Option<Result<(), String>>>,
    /// What the recording waits for.
    until: Mutex<Vec<Condition>>,
    /// Where this process can write files.
    directory: Option<PathBuf>,
    /// Recordings in this directory so far, of which the last one may still be there.
    aside: Mutex<u64>,
}

/// Why a recording does not begin.
enum NotBegun {
    /// The file cannot be made.
    File(String),
    Else(String),
}

impl From<String> for NotBegun {
    fn from(why: String) -> NotBegun {
        NotBegun::Else(why)
    }
}

impl Live {
    /// No recording yet. `command` is the command line of this process, without secrets; `directory` is where it can write files.
    pub fn new(control: Control, command: String, directory: Option<PathBuf>) -> Live {
        Live {
            control,
            command,
            directory,
            aside: Mutex::default(),
            recorder: Mutex::new(None),
            ended: Mutex::default(),
            until: Mutex::default(),
        }
    }

    fn recorder(&self) -> MutexGuard<'_, Option<Recorder>> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next file in the directory of this process. The one before is removed: the client that fetches it has it open.
    fn next_aside(&self) -> Option<PathBuf> {
        let directory = self.directory.as_ref()?;
        let mut number = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        let file = |number| directory.join(format!("{ASIDE_NAME}{}-{number}.prof", std::process::id()));
        let before = file(*number);
        let _ = std::fs::remove_file(&before);
        let _ = until::packets_file(&before).map(std::fs::remove_file);
        *number += 1;
        Some(file(*number))
    }

    /// Begins one in this file, or in one of this process; says what it does not see.
    fn start(&self, words: &str, path: &Path) -> Result<(Recorder, String), String> {
        let why = match self.start_in(words, path, path) {
            Err(NotBegun::File(why)) => why,
            Err(NotBegun::Else(why)) => return Err(why),
            Ok(begun) => return Ok(begun),
        };
        let aside = self.next_aside().ok_or_else(|| why.clone())?;
        match self.start_in(words, &aside, path) {
            Ok((begun, said)) => Ok((begun, format!("{ASIDE}{}\n{said}", aside.display()))),
            Err(NotBegun::Else(other)) => Err(other),
            Err(NotBegun::File(_)) => Err(why),
        }
    }

    /// The same in this file, which is called otherwise in the end.
    fn start_in(&self, words: &str, path: &Path, called: &Path) -> Result<(Recorder, String), NotBegun> {
        let (options, until) = options_from_words(words)?;
        let trigger = match until.is_empty() {
            true => None,
            false => {
                let files = (until::packets_file(path)?, until::packets_file(called)?);
                let armed = Armed::beside_run(self.control.clone(), until.clone(), files)?;
                Some(Box::new(armed) as Box<dyn Trigger>)
            }
        };
        let begun = Recorder::start(path, options, &self.command, names(self.control.clone()), trigger);
        let begun = begun.map_err(|why| match why {
            StartError::File(..) => NotBegun::File(why.to_string()),
            _ => NotBegun::Else(why.to_string()),
        })?;
        let said = shortfalls(&begun);
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        Ok((begun, said))
    }

    /// The router has ended, and with it a recording that was under way: its file gets all that there is, and its end.
    ///
    /// # Errors
    /// Why not all was written.
    pub fn end(&self) -> Result<(), String> {
        let mut recorder = self.recorder();
        let Some(recorder) = recorder.as_mut() else { return Ok(()) };
        let done = recorder.end().map_err(|why| failed(&why, recorder.progress()));
        // Who began it may still ask.
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(done.clone());
        done
    }

    /// What the handler [`RECORDING`] reads: how far the recording is.
    pub fn status(&self) -> String {
        let with_router = self.ended.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        match &*self.recorder() {
            None => "idle\n".into(),
            Some(recorder) if with_router => format!("{ENDED_WITH_ROUTER}: {}\n", recorder.progress()),
            Some(recorder) if recorder.goes_on() => format!("recording: {}\n", recorder.progress()),
            Some(recorder) => format!("ended: {}\n", recorder.progress()),
        }
    }

    /// Takes an order that was written to the handler [`RECORDING`].
    ///
    /// # Errors
    /// It is unknown, or cannot be done.
    pub fn write(&self, value: &str) -> Result<String, String> {
        let (order, file) = value.split_once('\n').unwrap_or((value, ""));
        let mut recorder = self.recorder();
        match order.trim().split_once(' ').unwrap_or((order.trim(), "")) {
            ("start", words) => {
                if recorder.as_ref().is_some_and(Recorder::goes_on) {
                    return Err(
                        "this router is being recorded already; end that recording first: junctor ctl recording stop"
                            .into(),
                    );
                }
                // One that has ended makes way.
                *recorder = None;
                let path = Path::new(file.trim_end_matches('\n'));
                let (begun, said) = self.start(words, path)?;
                *recorder = Some(begun);
                Ok(said)
            }
            ("stop", _) => {
                let mut ended = recorder.take().ok_or(
                    "nothing is being recorded in this router; 'junctor profile record --pid PID -o FILE' begins",
                )?;
                let before = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
                let done = before.unwrap_or_else(|| {
                    let done = ended.end();
                    done.map_err(|why| failed(&why, ended.progress()))
                });
                let progress = ended.progress();
                let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
                let (outcome, fired) = until::outcome(&until, progress.fired.get());
                if let Err(why) = done {
                    let happened = if fired { format!("; {outcome}") } else { String::new() };
                    return Err(why + &happened);
                }
                if until.is_empty() {
                    return Ok(progress.to_string());
                }
                Ok(format!("{progress}\n{}{outcome}", if fired { FIRED } else { "" }))
            }
            _ => Err("expected 'start' with options and the name of a file, or 'stop'".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_they_are_written() {
        let options = Options {
            one_in: 3,
            ring_records: 128,
            mode: profile::record::Mode::Flight,
            kernel: false,
            after: std::time::Duration::from_millis(250),
            time: Some(std::time::Duration::from_millis(1500)),
            ..Options::default()
        };
        let until = vec![Condition::Drop(Some(engine::Reason::NoRoute)), Condition::Drop(None)];
        assert_eq!(options_from_words(&options_to_words(&options, &until)), Ok((options, until)));
        let usual = (Options::default(), Vec::new());
        assert_eq!(options_from_words(&options_to_words(&Options::default(), &[])), Ok(usual));
        assert!(options_from_words("ring=many").unwrap_err().contains("'ring=many'"));
    }
}
