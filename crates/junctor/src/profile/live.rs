// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording in the router's own process, where the rings are: of a run that begins with it, and of one that is under way, whose control socket takes
//! the orders (`junctor profile record`).

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use engine::{Control, Reason, Shared};
use profile::names::{ElementName, Names};
use profile::record::{Options, Recorder, Source};

/// The handler of the control socket: `start OPTIONS`, a line break and the file's name, or `stop`; read, it says how far it is.
pub(crate) const RECORDING: &str = "recording";

/// What the numbers in events mean, from the configuration that runs.
pub(super) fn names(control: Control) -> Source {
    let mut last: Option<Weak<Shared>> = None;
    Box::new(move || {
        let shared = control.shared();
        let now = Arc::downgrade(&shared);
        if last.as_ref().is_some_and(|last| last.ptr_eq(&now)) {
            return None;
        }
        last = Some(now);
        let element = |e: &engine::ElementInfo| ElementName {
            name: e.name.clone(),
            class: e.class.name.to_owned(),
            config: e.config.clone(),
        };
        let reasons = Reason::ALL.iter().map(|r| r.name().to_owned()).collect();
        Some(Names { elements: shared.elements.iter().map(element).collect(), reasons, ..Names::default() })
    })
}

/// The command line of this process.
pub(super) fn command() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}

/// Says what could not be recorded.
pub(super) fn shortfalls(recorder: &Recorder) -> String {
    let line = |m: &profile::names::Missing| {
        let mend = if m.mend.is_empty() { String::new() } else { format!(" (mend: {})", m.mend) };
        format!("not recorded: {}: {}{mend}\n", m.what, m.why)
    };
    recorder.missing().iter().map(line).collect()
}

/// Options as the handler takes them, and back.
pub(super) fn options_to_words(options: &Options) -> String {
    let Options { events, one_in, ring_records, mode, kernel, time } = options;
    let time = time.map_or(String::new(), |t| format!(" time={}", t.as_secs_f64()));
    format!("events={events} one_in={one_in} ring={ring_records} mode={mode} kernel={kernel}{time}")
}

fn options_from_words(words: &str) -> Result<Options, String> {
    let mut options = Options::default();
    for word in words.split_ascii_whitespace() {
        let bad = || format!("'{word}' is no option of a recording");
        let (name, value) = word.split_once('=').ok_or_else(bad)?;
        match name {
            "events" => options.events = value.parse()?,
            "one_in" => options.one_in = value.parse().map_err(|_| bad())?,
            "ring" => options.ring_records = value.parse().map_err(|_| bad())?,
            "mode" => options.mode = value.parse()?,
            "kernel" => options.kernel = value.parse().map_err(|_| bad())?,
            "time" => options.time = Some(engine::parse_duration(value).ok_or_else(bad)?),
            _ => return Err(bad()),
        }
    }
    Ok(options)
}

/// The recording of a router that runs.
pub(crate) struct Live {
    control: Control,
    recorder: Mutex<Option<Recorder>>,
}

impl Live {
    pub(crate) fn new(control: Control) -> Live {
        Live { control, recorder: Mutex::new(None) }
    }

    fn recorder(&self) -> MutexGuard<'_, Option<Recorder>> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> String {
        match &*self.recorder() {
            None => "idle\n".into(),
            Some(recorder) if recorder.goes_on() => format!("recording: {}\n", recorder.progress()),
            Some(recorder) => format!("ended: {}\n", recorder.progress()),
        }
    }

    pub(crate) fn write(&self, value: &str) -> Result<String, String> {
        let (order, file) = value.split_once('\n').unwrap_or((value, ""));
        let mut recorder = self.recorder();
        match order.trim().split_once(' ').unwrap_or((order.trim(), "")) {
            ("start", words) => {
                let options = options_from_words(words)?;
                if recorder.as_ref().is_some_and(Recorder::goes_on) {
                    return Err(
                        "this router is being recorded already; end that recording first: recording stop"
                            .into(),
                    );
                }
                // One that has ended makes way.
                *recorder = None;
                let path = Path::new(file.trim_end_matches('\n'));
                let begun = Recorder::start(path, options, &command(), names(self.control.clone()));
                let begun = begun.map_err(|e| e.to_string())?;
                let said = shortfalls(&begun);
                *recorder = Some(begun);
                Ok(said)
            }
            ("stop", _) => {
                let mut ended = recorder.take().ok_or("nothing is being recorded")?;
                let done = ended.end();
                let progress = ended.progress();
                done.map_err(|e| format!("the recording ended early: {e}; kept: {progress}"))?;
                Ok(progress.to_string())
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
            time: Some(std::time::Duration::from_millis(1500)),
            ..Options::default()
        };
        assert_eq!(options_from_words(&options_to_words(&options)), Ok(options));
        assert_eq!(options_from_words(&options_to_words(&Options::default())), Ok(Options::default()));
        assert!(options_from_words("ring=many").unwrap_err().contains("'ring=many'"));
    }
}
