// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control plane of the lab, as the lab sees it: a plane with a core to itself, which works when it is asked to.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use super::super::deployment::{self, Deployment};
use super::kernels::Access;
use super::machine::{LabMachine, bytes_in_words};
use super::work::{Answer, Request, Time};
use crate::Error;

/// Its name in the deployment.
const NAME: &str = "control";
/// Its socket, in the deployment's directory.
const SOCKET: &str = "control.sock";
/// How long one piece of work may take: FRR with a whole table, or 20,000 calls, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(1800);

/// One that runs.
pub(super) struct Control {
    deployment: Rc<Deployment>,
    stream: BufReader<UnixStream>,
}

/// Adds it to the text of a deployment in which each plane has cores of its own.
pub(super) fn describe(text: &mut String, place: &LabMachine) -> Result<(), Error> {
    let program = deployment::program()?;
    let words = [program.to_str().unwrap_or("junctor"), "lab", "interference-control", "--socket", SOCKET];
    let _ = write!(
        text,
        "[planes.{NAME}]\nkind = \"control\"\ncommand = {words:?}\ncores = \"{}\"\nready = \"notified\"\nrestart = \"never\"\n",
        place.control
    );
    Ok(())
}

impl Control {
    /// Starts one without user planes of its deployment.
    pub(super) fn alone(place: &LabMachine) -> Result<Control, Error> {
        let mut text = "placement = \"amp\"\n".to_owned();
        describe(&mut text, place)?;
        Control::of(Rc::new(Deployment::start(
            None,
            &text,
            &[],
            &[&[place.control], &place.own[..]].concat(),
        )?))
    }

    /// That of a deployment.
    pub(super) fn of(deployment: Rc<Deployment>) -> Result<Control, Error> {
        let wrong = Error::system("the control plane");
        let stream = UnixStream::connect(deployment.directory().join(SOCKET)).map_err(&wrong)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(&wrong)?;
        Ok(Control { deployment, stream: BufReader::new(stream) })
    }

    /// How it is kept on its core, as `junctor ps` says.
    pub(super) fn partition(&self) -> Result<String, Error> {
        self.deployment.row(NAME).map(|row| row.partition)
    }

    /// Has it do something, and waits, asleep, until it has.
    fn ask(&mut self, request: &Request) -> Result<Answer, Error> {
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        let mut answer = String::new();
        let sent = self.stream.get_mut().write_all(line.as_bytes());
        let lost = match sent.and_then(|()| self.stream.read_line(&mut answer)) {
            Ok(1..) => None,
            Ok(0) => Some(Error::nothing("the control plane: it has ended")),
            Err(why) => Some(Error::system("the control plane")(why)),
        };
        if let Some(why) = lost {
            return Err(why.after(format_args!(": {}", self.deployment.said())));
        }
        match serde_json::from_str(&answer) {
            Ok(Answer::Failed(why)) => Err(Error::Refused(why)),
            Ok(answer) => Ok(answer),
            Err(why) => Err(Error::Json(why).of("the control plane's answer")),
        }
    }

    fn number(&mut self, request: &Request) -> Result<f64, Error> {
        match self.ask(request)? {
            Answer::Number(number) => Ok(number),
            other => Err(Error::nothing(format!("the control plane answers {other:?} to {request:?}"))),
        }
    }

    fn time(&mut self, request: &Request) -> Result<Time, Error> {
        match self.ask(request)? {
            Answer::Took(time) => Ok(time),
            other => Err(Error::nothing(format!("the control plane answers {other:?} to {request:?}"))),
        }
    }

    /// Prepares kernels in place of what was prepared. `shared`: they use the same buffers in turn.
    pub(super) fn lay(&mut self, kernels: &[(Access, usize)], shared: bool) -> Result<Vec<Victim>, Error> {
        self.ask(&Request::Lay { kernels: kernels.to_vec(), shared })?;
        let victim = |(kernel, (access, bytes)): (usize, &(Access, usize))| Victim {
            access: *access,
            bytes: *bytes,
            kernel,
        };
        Ok(kernels.iter().enumerate().map(victim).collect())
    }

    /// Names of the processor's counters that it may use.
    pub(super) fn counters(&mut self) -> Result<Vec<String>, Error> {
        match self.ask(&Request::Counters)? {
            Answer::Names(names) => Ok(names),
            other => Err(Error::nothing(format!("the control plane answers {other:?}"))),
        }
    }

    /// Prepares SIP calls: by PJSIP if there is a Python, else by sipp.
    pub(super) fn prepare_calls(&mut self, python: Option<&Path>) -> Result<(), Error> {
        self.ask(&Request::Calls { python: python.map(Path::to_owned) }).map(drop)
    }

    /// Makes so many of them.
    pub(super) fn call(&mut self, calls: u32) -> Result<Time, Error> {
        self.time(&Request::Call { calls })
    }

    /// Prepares routes of a file, or made-up ones; returns how many there are.
    pub(super) fn prepare_routes(&mut self, file: Option<&Path>, most: usize) -> Result<usize, Error> {
        // The plane has another directory.
        let file = file.map(std::path::absolute).transpose()?;
        self.number(&Request::Routes { file, most }).map(|routes| routes as usize)
    }

    /// Has FRR compute all routes, or a few to warm up.
    pub(super) fn converge(&mut self, few: bool) -> Result<Time, Error> {
        self.time(&Request::Converge { few })
    }
}

/// A kernel of the control plane with buffers of its own: what is timed while causes are sought.
#[derive(Clone, Debug)]
pub(super) struct Victim {
    pub(super) access: Access,
    pub(super) bytes: usize,
    kernel: usize,
}

impl Victim {
    /// Its name in tables.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.access.word(), bytes_in_words(self.bytes))
    }

    /// Its name in results.
    pub(super) fn key(&self) -> String {
        format!("{}_{}", self.access.word(), self.bytes)
    }

    /// Nanoseconds of processor time for each KiB, over about so long.
    pub(super) fn run(&self, control: &mut Control, length: Duration) -> Result<f64, Error> {
        control.number(&Request::Run { kernel: self.kernel, ns: length.as_nanos() as u64 })
    }

    /// What a counter counts for each microsecond of its work.
    pub(super) fn count(&self, control: &mut Control, length: Duration, counter: &str) -> Result<f64, Error> {
        let counter = counter.to_owned();
        control.number(&Request::Count { kernel: self.kernel, ns: length.as_nanos() as u64, counter })
    }
}
