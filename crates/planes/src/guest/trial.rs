// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel that is started for a moment, to see whether guests can be had.

use crate::Error;
use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A kernel that starts says something at least that often.
const SILENCE: Duration = Duration::from_secs(5);
/// The longest trial.
const TRIAL: Duration = Duration::from_secs(30);
/// Bytes of what it says that are looked at: the last ones.
const LONGEST: usize = 256 << 10;

/// A start, and how it went.
pub(super) struct Attempt {
    said: String,
    /// It fell silent, or went on for ever, and was killed.
    stands: bool,
    status: ExitStatus,
}

impl Attempt {
    /// Starts a kernel, and waits until it ends or hangs. It ends with this process, even if that is killed.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn make(started: Command, program: &str) -> Result<Attempt, Error> {
        let failed = Error::system(program);
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(started.get_program()).args(started.get_args());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(&failed)?;
        let (sender, receiver) = channel();
        let streams: [Option<Box<dyn Read + Send>>; 2] =
            [child.stdout.take().map(|s| Box::new(s) as _), child.stderr.take().map(|s| Box::new(s) as _)];
        for mut stream in streams.into_iter().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    let _ = sender.send(bytes[..length].to_vec());
                }
            });
        }
        drop(sender);
        let (begun, mut said) = (Instant::now(), VecDeque::new());
        let stands = loop {
            match receiver.recv_timeout(SILENCE) {
                Ok(_) if begun.elapsed() > TRIAL => break true,
                Ok(bytes) => said.extend(bytes),
                Err(RecvTimeoutError::Timeout) => break true,
                Err(RecvTimeoutError::Disconnected) => break false,
            }
            said.drain(..said.len().saturating_sub(LONGEST));
        };
        let _ = child.kill();
        let status = child.wait().map_err(&failed)?;
        let said = String::from_utf8_lossy(said.make_contiguous()).into_owned();
        Ok(Attempt { said, stands, status })
    }

    /// Whether it did not hang.
    pub(super) fn ended_by_itself(&self) -> bool {
        !self.stands
    }

    /// Whether it said these words.
    pub(super) fn said(&self, words: &str) -> bool {
        self.said.contains(words)
    }

    /// What was wrong with it.
    pub(super) fn why(&self, program: &str) -> String {
        let last = self.said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing");
        match (self.stands, self.status.signal()) {
            (true, _) => format!("a kernel hangs in it; it said last: {last}"),
            (false, Some(signal)) => format!("{program} was ended by signal {signal}: {last}"),
            (false, None) => format!("{program} gave up: {last}"),
        }
    }
}
