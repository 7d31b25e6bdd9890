// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control plane of the lab: a plane of the deployment, which does its work when the lab asks for it.
//!
//! The lab and this plane speak over a Unix socket: a request in a line of JSON, and an answer in another one. The plane's kernels,
//! daemons and callers are its own processes, so the partition that `junctor up` gives it holds all of them. It prepares one kind of
//! work at a time, and ends with the connection.

pub(super) mod calls;
mod memory;
mod routes;
mod speaker;
mod tools;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use planes::notify::Notifier;
use serde::{Deserialize, Serialize};

use super::kernels::Access;
use crate::Error;
pub(super) use tools::{Time, on_path};

/// What the lab asks for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Prepares kernels with these buffers. `shared`: they use the same ones in turn.
    Lay { kernels: Vec<(Access, usize)>, shared: bool },
    /// Runs one of them for about so many nanoseconds. The answer is nanoseconds of processor time for each KiB.
    Run { kernel: usize, ns: u64 },
    /// The names of the processor's counters.
    Counters,
    /// Runs a kernel; the answer is what a counter has counted for each microsecond.
    Count { kernel: usize, ns: u64, counter: String },
    /// Prepares SIP calls. `python`: by PJSIP, with this program; else by sipp.
    Calls { python: Option<PathBuf> },
    /// Makes so many.
    Call { calls: u32 },
    /// Prepares routes: so many of a file, or made up. The answer is how many there are.
    Routes { file: Option<PathBuf>, most: usize },
    /// Starts FRR and has it compute all routes, or a few to warm up, until they are in the kernel.
    Converge { few: bool },
}

/// What this plane answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// It is prepared.
    Done,
    /// A value.
    Number(f64),
    /// How long it took.
    Took(Time),
    /// Names.
    Names(Vec<String>),
    /// It failed.
    Failed(String),
}

/// The work that is prepared.
enum Work {
    Nothing,
    Memory(memory::Kernels),
    Calls(calls::Calls),
    Routes(routes::Routing),
}

/// Serves one connection at a socket, and ends with it.
///
/// # Errors
/// It cannot listen there, or the connection broke off.
pub fn run(socket: &Path) -> Result<(), Error> {
    serve(socket).map_err(Error::system(socket.display()))
}

fn serve(socket: &Path) -> std::io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    if let Some(notifier) = Notifier::from_environment() {
        notifier.send("READY=1\nSTATUS=waiting for the lab");
    }
    let (mut stream, _) = listener.accept()?;
    let mut work = Work::Nothing;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(request) => work.answer(request).unwrap_or_else(|why| Answer::Failed(why.to_string())),
            Err(why) => Answer::Failed(format!("the control plane does not understand: {why}")),
        };
        let mut line = serde_json::to_string(&answer)?;
        line.push('\n');
        stream.write_all(line.as_bytes())?;
    }
    Ok(())
}

impl Work {
    fn answer(&mut self, request: Request) -> Result<Answer, Error> {
        match (request, &mut *self) {
            (Request::Lay { kernels, shared }, _) => {
                // The old buffers go first, so that both need not fit.
                *self = Work::Nothing;
                *self = Work::Memory(memory::Kernels::new(&kernels, shared));
            }
            (Request::Calls { python }, _) => *self = Work::Calls(calls::Calls::prepare(python)?),
            (Request::Routes { file, most }, _) => {
                *self = Work::Nothing;
                let routing = routes::Routing::read(file.as_deref(), most)?;
                let number = routing.routes() as f64;
                *self = Work::Routes(routing);
                return Ok(Answer::Number(number));
            }
            (Request::Counters, _) => return Ok(Answer::Names(memory::counters())),
            (Request::Run { kernel, ns }, Work::Memory(kernels)) => {
                return kernels.run(kernel, ns).map(Answer::Number);
            }
            (Request::Count { kernel, ns, counter }, Work::Memory(kernels)) => {
                return kernels.count(kernel, ns, &counter).map(Answer::Number);
            }
            (Request::Call { calls }, Work::Calls(work)) => return work.make(calls).map(Answer::Took),
            (Request::Converge { few }, Work::Routes(work)) => return work.converge(few).map(Answer::Took),
            (request, _) => {
                return Err(Error::nothing(format!("the control plane has not prepared {request:?}")));
            }
        }
        Ok(Answer::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_prepared_before_it_is_done() {
        let mut work = Work::Nothing;
        let run = || Request::Run { kernel: 1, ns: 1 };
        assert!(work.answer(run()).unwrap_err().to_string().contains("has not prepared Run"));
        let kernels = vec![(Access::Copy, 4096), (Access::Read, 64)];
        for shared in [true, false] {
            let lay = Request::Lay { kernels: kernels.clone(), shared };
            assert!(matches!(work.answer(lay), Ok(Answer::Done)));
            assert!(matches!(work.answer(run()), Ok(Answer::Number(ns)) if ns > 0.0));
            let beyond = Request::Run { kernel: 2, ns: 1 };
            assert!(work.answer(beyond).unwrap_err().to_string().contains("there is no kernel 2"));
        }
        let routes = Request::Routes { file: None, most: 7 };
        assert!(matches!(work.answer(routes), Ok(Answer::Number(7.0))));
        assert!(
            work.answer(Request::Call { calls: 1 })
                .unwrap_err()
                .to_string()
                .contains("has not prepared Call")
        );
    }

    #[test]
    fn requests_and_answers_are_lines() {
        let request = Request::Routes { file: Some("a\nb".into()), most: 3 };
        let line = serde_json::to_string(&request).unwrap();
        assert!(!line.contains('\n'));
        let back: Request = serde_json::from_str(&line).unwrap();
        assert!(
            matches!(back, Request::Routes { file: Some(file), most: 3 } if file.to_str() == Some("a\nb"))
        );
    }
}
