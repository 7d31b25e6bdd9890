// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who asks the management plane: one request after the other, each with a time-out.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Error;
use serde_json::Value;
use testbed::rig::Namespace;

/// Bytes of an answer at most.
const LONGEST: u64 = 4 << 20;
/// How long the management plane may take until it answers the first time.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it is left alone between two attempts.
const AGAIN: Duration = Duration::from_millis(20);

/// Somebody in the operator's namespace.
#[derive(Clone, Copy)]
pub(super) struct Client<'a> {
    pub(super) home: &'a Namespace,
    pub(super) server: SocketAddr,
    /// How long a request may take.
    pub(super) timeout: Duration,
}

/// What came of requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// How long each took that was answered, in milliseconds.
    pub(super) took_ms: Vec<f64>,
    /// Requests that were not answered in time.
    pub(super) timeouts: u64,
    /// Requests that failed otherwise, and how the last one did.
    pub(super) failed: u64,
    pub(super) why: Option<String>,
}

impl Answers {
    pub(super) fn add(&mut self, other: Answers) {
        self.took_ms.extend(other.took_ms);
        self.timeouts += other.timeouts;
        self.failed += other.failed;
        self.why = other.why.or(self.why.take());
    }

    fn note(&mut self, took: Duration, answer: io::Result<Value>) {
        match answer {
            Ok(_) => self.took_ms.push(took.as_secs_f64() * 1e3),
            Err(why) if is_timeout(&why) => self.timeouts += 1,
            Err(why) => {
                self.failed += 1;
                self.why = Some(why.to_string());
            }
        }
    }
}

fn is_timeout(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

impl Client<'_> {
    /// Waits until the server answers at all.
    pub(super) fn wait(&self) -> Result<(), Error> {
        let begun = Instant::now();
        let patient = Client { timeout: PATIENCE, ..*self };
        loop {
            match patient.get("/compute?rounds=1") {
                Ok(_) => return Ok(()),
                Err(why) if begun.elapsed() > PATIENCE => {
                    return Err(Error::nothing(format!(
                        "the management plane does not answer at {}: {why}",
                        self.server
                    )));
                }
                Err(_) => std::thread::sleep(AGAIN),
            }
        }
    }

    /// One request; what the server answers.
    pub(super) fn get(&self, path: &str) -> io::Result<Value> {
        self.home.enter(|| fetch(self.server, path, self.timeout)).map_err(io::Error::other)?
    }

    /// Asks so often, one after the other.
    pub(super) fn ask(&self, path: &str, times: usize) -> Result<Answers, Error> {
        self.repeat(path, |done| done < times)
    }

    /// Asks one after the other until this is set, at least once.
    pub(super) fn ask_until(&self, path: &str, over: &AtomicBool) -> Result<Answers, Error> {
        self.repeat(path, |done| done == 0 || !over.load(Ordering::Acquire))
    }

    fn repeat(&self, path: &str, go_on: impl Fn(usize) -> bool + Sync) -> Result<Answers, Error> {
        let all = self.home.enter(|| {
            let mut answers = Answers::default();
            let mut done = 0;
            while go_on(done) {
                let begun = Instant::now();
                let answer = fetch(self.server, path, self.timeout);
                if answer.as_ref().is_err_and(|why| !is_timeout(why)) {
                    // A server that refuses at once must not be asked without a pause.
                    std::thread::sleep(AGAIN);
                }
                answers.note(begun.elapsed(), answer);
                done += 1;
            }
            answers
        });
        Ok(all?)
    }
}

fn fetch(server: SocketAddr, path: &str, timeout: Duration) -> io::Result<Value> {
    let begun = Instant::now();
    let left = || {
        let left = timeout.checked_sub(begun.elapsed()).filter(|left| !left.is_zero());
        left.ok_or(io::Error::from(io::ErrorKind::TimedOut))
    };
    let mut stream = TcpStream::connect_timeout(&server, timeout)?;
    stream.set_write_timeout(Some(left()?))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n")?;
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut buffer)? {
            0 => break,
            n => bytes.extend_from_slice(&buffer[..n]),
        }
        if bytes.len() as u64 > LONGEST {
            return Err(io::Error::other("the answer is too long"));
        }
    }
    let wrong = |what: &str| io::Error::other(format!("the answer {what}"));
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(&bytes).map_err(|why| wrong(&why.to_string()))?;
    let httparse::Status::Complete(head) = parsed else { return Err(wrong("is cut short")) };
    let body: Value = serde_json::from_slice(&bytes[head..]).map_err(|why| wrong(&why.to_string()))?;
    match response.code {
        Some(200) => Ok(body),
        _ => Err(wrong(&format!("was: {}", body["error"].as_str().unwrap_or("an error")))),
    }
}
