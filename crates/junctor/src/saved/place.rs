// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a service has its files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use manage::remote::Service;

use super::Stop;
use crate::remote::Remote;

/// Where services have their working files.
pub(crate) const ETC: &str = "/etc/junctor";
/// Where they have their commits.
const STATE: &str = "/var/lib/junctor";

/// Which service is meant, and where it has its files.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct Where {
    /// The service [default: the only one in /etc/junctor].
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    directories: Directories,
    #[command(flatten)]
    remote: Remote,
}

/// Where a service has its files.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct Directories {
    /// The files that are edited [default: /etc/junctor/NAME].
    #[arg(long, value_name = "DIR")]
    etc: Option<PathBuf>,
    /// The commits [default: /var/lib/junctor/NAME].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The socket of the service [default: /run/junctor/NAME].
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
}

/// A service's directories.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) etc: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) run: PathBuf,
}

impl Where {
    /// The service behind a management API, and the name that is asked for, if one is named.
    pub(super) fn far(&self) -> Result<Option<(Service, Option<&str>)>, Stop> {
        let Some(service) = self.remote.service().map_err(Stop::Usage)? else { return Ok(None) };
        if self.directories.is_named() {
            let why = "--remote means another machine, so leave --etc, --state and --run out";
            return Err(Stop::Usage(why.into()));
        }
        Ok(Some((service, self.name.as_deref())))
    }

    /// Finds the service.
    pub(crate) fn find(&self) -> Result<Place, String> {
        let name = match (&self.name, &self.directories.etc) {
            (Some(name), _) => name.clone(),
            (None, Some(etc)) => {
                let etc = std::path::absolute(etc).unwrap_or_else(|_| etc.clone());
                etc.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
            }
            (None, None) => only(Path::new(ETC))?,
        };
        self.directories.of(&name)
    }
}

impl Directories {
    fn is_named(&self) -> bool {
        self.etc.is_some() || self.state.is_some() || self.run.is_some()
    }

    /// Those of the service of this name.
    pub(crate) fn of(&self, name: &str) -> Result<Place, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 32 || !name.chars().all(plain) || name.starts_with('-') {
            return Err(format!(
                "'{name}' is no name of a service: it has up to 32 letters, digits, - and _; give one by --name"
            ));
        }
        let or = |given: &Option<PathBuf>, default: PathBuf| -> Result<PathBuf, String> {
            let path = given.clone().unwrap_or(default);
            std::path::absolute(&path).map_err(|why| format!("{}: {why}", path.display()))
        };
        let run = match &self.run {
            Some(run) => run.clone(),
            None => client::deployments().map_err(|why| why.to_string())?.join(name),
        };
        Ok(Place {
            name: name.to_owned(),
            etc: or(&self.etc, Path::new(ETC).join(name))?,
            state: or(&self.state, Path::new(STATE).join(name))?,
            run: or(&Some(run), PathBuf::new())?,
        })
    }
}

/// The only directory in one.
fn only(directory: &Path) -> Result<String, String> {
    let mut names = saved::disk::services(directory);
    match names.len() {
        1 => Ok(names.remove(0)),
        0 => Err(format!("{} has no service; make {0}/NAME with a router.click in it", directory.display())),
        _ => Err(format!("several services: {}; choose one by --name", names.join(", "))),
    }
}

impl Place {
    /// Its directories, as options of the command line.
    pub(crate) fn options(&self) -> [&OsStr; 6] {
        let (etc, state, run) = (self.etc.as_os_str(), self.state.as_os_str(), self.run.as_os_str());
        ["--etc".as_ref(), etc, "--state".as_ref(), state, "--run".as_ref(), run]
    }

    /// Where the service listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.run.join("config.sock")
    }

    /// Held by the service.
    pub(crate) fn service_lock(&self) -> PathBuf {
        self.state.join("service.lock")
    }

    /// Held by the one who changes the configuration.
    pub(crate) fn candidate_lock(&self) -> PathBuf {
        self.state.join("candidate.lock")
    }

    /// The commits.
    pub(crate) fn store(&self) -> Result<super::Store, saved::Error> {
        saved::Store::open(saved::disk::Real, &self.state)
    }
}
