// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that run for a bounded time, and what they write.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::rig::RigError;

/// Bytes of what a command writes that are kept at least, and half of what is kept at most: the last.
const KEPT: usize = 1 << 20;

/// What a finished command left.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A running command, killed on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    what: String,
    streams: [Arc<Stream>; 2],
}

/// The last of what a command has written so far.
#[derive(Debug, Default)]
struct Stream {
    text: Mutex<Vec<u8>>,
    ended: std::sync::atomic::AtomicBool,
}

impl Stream {
    fn follow(mut source: impl Read + Send + 'static) -> Arc<Stream> {
        let stream = Arc::new(Stream::default());
        let copy = stream.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = source.read(&mut buffer) {
                let mut text = copy.text.lock().unwrap_or_else(PoisonError::into_inner);
                text.extend(&buffer[..n]);
                if text.len() > 2 * KEPT {
                    text.drain(..KEPT);
                }
            }
            copy.ended.store(true, Ordering::Release);
        });
        stream
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Process {
    /// Starts a command, which errors call `what`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(mut command: Command, what: String) -> Result<Process, RigError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| RigError::new(format!("{what}: {e}")))?;
        let follow = |source: Option<Box<dyn Read + Send>>| source.map_or_else(Arc::default, Stream::follow);
        let streams = [
            follow(child.stdout.take().map(|s| Box::new(s) as _)),
            follow(child.stderr.take().map(|s| Box::new(s) as _)),
        ];
        Ok(Process { child, what, streams })
    }

    /// What it has written to its standard output so far.
    pub fn stdout(&self) -> String {
        self.streams[0].text()
    }

    /// What it has written to its standard error so far.
    pub fn stderr(&self) -> String {
        self.streams[1].text()
    }

    /// Says whether it has written `text` to its standard output. Another thread may ask.
    pub fn has_said(&self, text: &'static str) -> impl Fn() -> bool + Send + use<> {
        let stream = self.streams[0].clone();
        move || stream.text().contains(text)
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten()?;
        // The streams end with the process, unless it left children behind; but their readers may have to wait for a turn.
        let patience = Instant::now();
        while !self.streams.iter().all(|s| s.ended.load(Ordering::Acquire))
            && patience.elapsed() < Duration::from_secs(20)
        {
            thread::park_timeout(Duration::from_millis(1));
        }
        Some(status)
    }

    /// Waits until it has written `text` to either stream.
    ///
    /// # Errors
    /// It ended or took too long before.
    pub fn wait_for_text(&mut self, text: &str, timeout: Duration) -> Result<(), RigError> {
        let start = Instant::now();
        loop {
            // Asked first: what it says at its very end has been read then.
            let ended = self.streams.iter().all(|s| s.ended.load(Ordering::Acquire));
            let seen = self.streams.iter().any(|s| s.text().contains(text));
            if seen {
                return Ok(());
            }
            if ended || start.elapsed() > timeout {
                let (what, out, err) = (&self.what, self.stdout(), self.stderr());
                return Err(RigError::new(format!("{what} never said {text:?}; it said:\n{out}\n{err}")));
            }
            thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It took longer than `timeout`, and was killed.
    pub fn finish(mut self, timeout: Duration) -> Result<Output, RigError> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Ok(Output { status, stdout: self.stdout(), stderr: self.stderr() });
            }
            if start.elapsed() > timeout {
                let (what, out, err) = (self.what.clone(), self.stdout(), self.stderr());
                return Err(RigError::new(format!(
                    "{what} did not end within {timeout:?}; it said:\n{out}\n{err}"
                )));
            }
            thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// Asks it to end (SIGINT), and waits.
    ///
    /// # Errors
    /// It did not end within `timeout`, and was killed.
    pub fn interrupt(self, timeout: Duration) -> Result<Output, RigError> {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        self.finish(timeout)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
