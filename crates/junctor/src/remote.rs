// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of commands that ask a router of another machine, by its management API.

use std::path::PathBuf;
use std::time::Duration;

use client::{Client, Connection, Done, Failure, Far, Want, lost};
use manage::remote::{self, Error, Service, encoded};
use serde_json::{Value, json};

use crate::ctl::{self, Which};

/// The variable that has the token.
const TOKEN: &str = "JUNCTOR_TOKEN";
/// The pause between two looks at a job.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A router behind a management API.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Remote {
    /// The router behind a management API (junctor manage): https://HOST:PORT[/ROUTER], http://127.0.0.1:PORT[/ROUTER] or unix:PATH[#ROUTER]. Its
    /// token is in the variable JUNCTOR_TOKEN, or in the file of --token.
    #[arg(long, value_name = "URL", value_parser = remote::parse, help_heading = "Remote")]
    remote: Option<remote::Remote>,
    /// The file of the token.
    #[arg(long, value_name = "FILE", requires = "remote", help_heading = "Remote")]
    token: Option<PathBuf>,
    /// The authority that has signed the service's certificate [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "remote", help_heading = "Remote")]
    ca: Option<PathBuf>,
}

impl Remote {
    /// Whether another machine is meant.
    pub(crate) fn is_named(&self) -> bool {
        self.remote.is_some()
    }

    /// The service, if one is named.
    ///
    /// # Errors
    /// The file of the token cannot be read.
    pub(crate) fn service(&self) -> Result<Option<Service>, String> {
        let Some(remote) = &self.remote else { return Ok(None) };
        let token = match &self.token {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|why| format!("--token {}: {why}", path.display()))?;
                Some(text.lines().next().unwrap_or_default().trim().to_owned())
            }
            None => std::env::var(TOKEN).ok().filter(|token| !token.is_empty()),
        };
        if token.as_deref().is_some_and(|token| !token.bytes().all(|b| b.is_ascii_graphic())) {
            return Err("the token has characters that no token has; see 'junctor manage --new-token'".into());
        }
        Ok(Some(Service::new(remote.clone(), token, self.ca.clone())))
    }

    /// Connects to the router that is meant: one behind the service if one is named, else one of this machine.
    ///
    /// # Errors
    /// Both are named, or the router is not reached.
    pub(crate) fn client(&self, router: &Which) -> Result<Client, Failure> {
        match self.service().map_err(Failure::Unclear)? {
            Some(_) if router.is_named() => Err(Failure::Unclear(
                "--remote names a router of another machine, so leave --socket, --pid and --channel out"
                    .into(),
            )),
            Some(service) => router_of(service),
            None => ctl::find(router).and_then(|stream: Connection| Client::new(stream).map_err(lost)),
        }
    }
}

/// A client of the router that a service means.
///
/// # Errors
/// There is none, or there are several.
pub(crate) fn router_of(service: Service) -> Result<Client, Failure> {
    let place = service.router().map_err(failure)?;
    Ok(Client::far(Handlers { service, place, own: Some("control") }))
}

/// A client of the control plane of a service's machine.
pub(crate) fn control_plane_of(service: Service) -> Client {
    Client::far(Handlers { service, place: "/api/v1/control-plane".into(), own: None })
}

/// Handlers behind a management API.
struct Handlers {
    service: Service,
    /// The path of the resource that has them.
    place: String,
    /// The resource that writes those of the router itself.
    own: Option<&'static str>,
}

impl Handlers {
    fn write(&self, name: &str, value: &str) -> Result<Done, Error> {
        let is_own = !name.contains('.');
        let resource = self.own.filter(|_| is_own).unwrap_or("handlers");
        let path = format!("{}/{resource}/{}", self.place, encoded(name));
        let answer = self.service.ask("PUT", &path, Some(&json!({ "value": value })))?;
        Ok(Done::Written(text(&answer, "message")))
    }

    fn read(&self, name: &str, parameter: &str) -> Result<Done, Error> {
        let query =
            if parameter.is_empty() { String::new() } else { format!("?parameter={}", encoded(parameter)) };
        let answer =
            self.service.ask("GET", &format!("{}/handlers/{}{query}", self.place, encoded(name)), None)?;
        Ok(Done::Read(text(&answer, "value")))
    }
}

fn text(answer: &Value, field: &str) -> String {
    answer[field].as_str().unwrap_or_default().to_owned()
}

impl Far for Handlers {
    fn call(&mut self, name: &str, value: &str, want: Want) -> Result<Done, Failure> {
        let done = match want {
            Want::Write => self.write(name, value),
            Want::Read => self.read(name, value),
            Want::Any => match self.read(name, value) {
                Err(Error::Refused(_, words)) if words.contains("write-only") => self.write(name, value),
                done => done,
            },
        };
        done.map_err(failure)
    }
}

/// The same as a failure of a router nearby.
pub(crate) fn failure(why: Error) -> Failure {
    match why {
        Error::Refused(401, words) => {
            Failure::Refused(401, format!("{words}; with --remote: --token FILE, or the variable {TOKEN}"))
        }
        Error::Refused(status, words) => Failure::Refused(status, words),
        which @ Error::Which(_) => Failure::Unclear(which.to_string()),
        other => Failure::Unreachable(other.to_string()),
    }
}

/// What a job has found.
pub(crate) struct Ended {
    /// Its exit status.
    pub(crate) status: u8,
    /// Its result.
    pub(crate) result: Vec<u8>,
    /// The last that it said.
    pub(crate) words: String,
}

/// Begins a job, waits for its end, takes its result, and removes it.
///
/// # Errors
/// The service refuses, or is not reached.
pub(crate) fn job(service: &Service, path: &str, body: &Value) -> Result<Ended, Failure> {
    let mut job = service.ask("POST", path, Some(body)).map_err(failure)?;
    let place = format!("/api/v1/jobs/{}", job["id"]);
    while job["state"] == "running" {
        std::thread::sleep(LOOK_EVERY);
        job = service.ask("GET", &place, None).map_err(failure)?;
    }
    let result = service.fetch(&format!("{place}/result")).map_err(failure)?;
    // Others may have removed it, and it goes by itself.
    let _ = service.ask("DELETE", &place, None);
    let status = job["exit_status"].as_u64().and_then(|status| u8::try_from(status).ok());
    Ok(Ended { status: status.unwrap_or(crate::exit::FAILURE), result, words: text(&job, "message") })
}
