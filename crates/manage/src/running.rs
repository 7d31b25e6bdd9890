// SPDX-License-Identifier: MIT OR Apache-2.0
//! The routers of this machine: found by their control sockets, read by their statistics segments.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::{Client, Which, lost};
use stats::{Segment, State};

use crate::problem::{Kind, Problem};
use crate::routers::{Found, Published, Routers, Saved};
use crate::words::absent;

/// Where services have their working files.
const ETC: &str = "/etc/junctor";
/// How long what was found counts.
const FRESH: Duration = Duration::from_secs(1);

/// Running routers.
pub struct Running {
    /// Sockets that the command line names.
    named: Vec<(String, PathBuf)>,
    /// Services that the command line names.
    services: Vec<Saved>,
    /// The control plane's socket, if the command line names it.
    control_plane: Option<PathBuf>,
    /// The program that does long work.
    program: PathBuf,
    found: Mutex<Option<(Instant, Vec<Found>)>>,
    segments: Mutex<HashMap<PathBuf, Segment>>,
}

impl Running {
    /// Routers at these sockets, and those that this user's directory has; these services, and those of the machine.
    pub fn new(
        named: Vec<(String, PathBuf)>,
        services: Vec<Saved>,
        control_plane: Option<PathBuf>,
        program: PathBuf,
    ) -> Running {
        let (found, segments) = (Mutex::default(), Mutex::default());
        Running { named, services, control_plane, program, found, segments }
    }

    fn socket(&self, name: &str) -> Result<PathBuf, Problem> {
        let list = self.list();
        let found = list.iter().find(|found| found.name == name).map(|found| PathBuf::from(&found.socket));
        found.ok_or_else(|| absent("router", name, "see /api/v1/routers for those that run"))
    }

    fn look(&self) -> Vec<Found> {
        let of_line = self.named.iter().filter(|(_, path)| path.exists());
        let of_line = of_line.map(|(name, path)| Found {
            name: name.clone(),
            pid: None,
            socket: path.display().to_string(),
        });
        let mut all: Vec<Found> = of_line.collect();
        for living in client::living() {
            let socket = living.socket.display().to_string();
            if !all.iter().any(|found| found.socket == socket || found.name == living.name) {
                all.push(Found { name: living.name, pid: Some(living.pid), socket });
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// Reads a segment, in the file where the router goes on.
fn read(segment: &mut Option<Segment>, path: &Path) -> Result<Published, Problem> {
    let is_current = segment
        .as_ref()
        .is_some_and(|one| one.is_alive() && one.state().is_ok_and(|state| state == State::Live));
    if !is_current {
        *segment = Some(Segment::open(path)?);
    }
    let ended = || {
        Problem::new(Kind::Unavailable, "the router has ended").fix("see /api/v1/routers for those that run")
    };
    let segment = segment.as_mut().ok_or_else(ended)?;
    if segment.state()? == State::Ended || !segment.is_alive() {
        return Err(ended());
    }
    let reading = segment.read()?;
    Ok(Published { pid: segment.pid(), started_ns: segment.started_ns(), reading })
}

impl Routers for Running {
    fn list(&self) -> Vec<Found> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, all)) = &*found
            && at.elapsed() < FRESH
        {
            return all.clone();
        }
        let all = self.look();
        *found = Some((Instant::now(), all.clone()));
        all
    }

    fn client(&self, name: &str) -> Result<Client, Problem> {
        let connection = client::find(&Which::Socket(self.socket(name)?))?;
        Client::new(connection).map_err(|why| lost(why).into())
    }

    fn published(&self, name: &str) -> Result<Published, Problem> {
        let path = stats::path_of(&self.socket(name)?);
        let mut all = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > 64 {
            all.clear();
        }
        let mut segment = all.remove(&path);
        let published = read(&mut segment, &path);
        if let (Ok(_), Some(segment)) = (&published, segment) {
            all.insert(path, segment);
        }
        published
    }

    fn control_plane(&self) -> Result<Client, Problem> {
        Ok(::routes::control_plane(self.control_plane.as_deref(), "junctor manage --control-plane")?)
    }

    fn services(&self) -> Vec<Saved> {
        let mut all = self.services.clone();
        for name in saved::disk::services(Path::new(ETC)) {
            if !all.iter().any(|known| known.name == name) {
                all.push(Saved { name, directories: None });
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn command(
        &self,
        router: Option<&str>,
        options: &[String],
        words: &[String],
    ) -> Result<Command, Problem> {
        let mut command = Command::new(&self.program);
        command.args(options);
        if let Some(name) = router {
            command.arg("--socket").arg(self.socket(name)?);
        }
        if !words.is_empty() {
            command.arg("--").args(words);
        }
        for variable in ["NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_USEC"] {
            command.env_remove(variable);
        }
        Ok(command)
    }
}
