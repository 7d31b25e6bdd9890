// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a deployment, and the lock that makes one supervisor of it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::UpError;
use crate::machine::text;
use crate::record;

/// The files of a deployment, all in one directory.
#[derive(Clone, Debug)]
pub struct Files {
    directory: PathBuf,
}

impl Files {
    /// Those in this directory.
    #[must_use]
    pub fn new(directory: PathBuf) -> Files {
        Files { directory }
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where commands arrive.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        // Files of planes have extensions, and no plane can have this name for one.
        self.directory.join("control")
    }

    /// The control socket of a plane that runs a router.
    #[must_use]
    pub fn control(&self, plane: &str) -> PathBuf {
        self.directory.join(format!("{plane}.sock"))
    }

    /// Where planes attach to the deployment's channels.
    #[must_use]
    pub fn domain(&self) -> PathBuf {
        self.directory.join("domain")
    }

    /// What a plane prints.
    #[must_use]
    pub fn log(&self, plane: &str) -> PathBuf {
        self.directory.join(format!("{plane}.log"))
    }

    /// Who a plane's process is.
    #[must_use]
    pub fn record(&self, plane: &str) -> PathBuf {
        self.directory.join(format!("{plane}.pid"))
    }

    pub(super) fn notify(&self, plane: &str) -> PathBuf {
        self.directory.join(format!("{plane}.notify"))
    }

    pub(super) fn state(&self, plane: &str) -> PathBuf {
        self.directory.join(format!("{plane}.state"))
    }

    /// There while a plane's process is ready.
    pub(super) fn is_ready(&self, plane: &str) -> PathBuf {
        self.directory.join(format!("{plane}.ready"))
    }

    /// There when a plane has done its work and is not to be started again.
    pub(super) fn is_done(&self, plane: &str) -> PathBuf {
        self.directory.join(format!("{plane}.done"))
    }

    /// What a plane's process was started as.
    pub(super) fn form(&self, plane: &str) -> PathBuf {
        self.directory.join(format!("{plane}.form"))
    }

    /// The deployment as it was started, for who has to stop it without its supervisor: its path, and its text.
    #[must_use]
    pub fn saved(&self) -> PathBuf {
        self.directory.join("deployment")
    }

    pub(super) fn guest(&self, plane: &str) -> PathBuf {
        self.directory.join(format!("{plane}.guest"))
    }

    pub(super) fn network(&self) -> PathBuf {
        self.directory.join("network")
    }

    /// Where its control groups lie, and which cores were taken from groups above them.
    #[must_use]
    pub fn groups(&self) -> (PathBuf, PathBuf) {
        (self.directory.join("groups"), self.directory.join("exclusive"))
    }

    /// The deployment's name for itself, other than those of all others, if it has one.
    pub(super) fn id(&self) -> Option<String> {
        text(self.directory.join("id")).filter(|id| !id.is_empty())
    }

    /// The same; makes it if it has none.
    pub(super) fn make_id(&self) -> std::io::Result<String> {
        if let Some(id) = self.id() {
            return Ok(id);
        }
        let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
        std::fs::write(self.directory.join("id"), &id)?;
        Ok(id)
    }

    /// Whether the process lives that took the deployment's lock last. One that was just started does not listen yet.
    #[must_use]
    pub fn has_supervisor(&self) -> bool {
        let number = text(self.lock()).and_then(|pid| pid.parse().ok());
        number.and_then(record::began).is_some()
    }

    fn lock(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// Names of planes that have a record.
    #[must_use]
    pub fn recorded(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(".pid")?.to_owned())).collect();
        names.sort();
        names
    }

    /// Removes all that is of no use after the end. Logs stay, to be read, the lock, by which the deployment is known, and what of the
    /// network could not be undone.
    pub(super) fn remove_all_but_logs(&self) {
        for entry in std::fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if name == "lock" || path == self.network() || name.ends_with(".log") || name.ends_with(".log.1")
            {
                continue;
            }
            let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        }
    }
}

/// Makes a file that is there or not, and says no more.
pub(super) fn mark(path: &Path, set: bool) {
    let _ = if set { std::fs::write(path, "") } else { std::fs::remove_file(path) };
}

/// Held by the supervisor of a deployment while it lives.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

impl Lock {
    /// Takes it; makes the deployment's directory, which its owner alone may enter.
    ///
    /// # Errors
    /// Another supervisor has it, or the directory cannot be made.
    pub fn take(deployment: &str, files: &Files) -> Result<Lock, UpError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |why: std::io::Error| UpError::Io(path, why)
        };
        let directory = files.directory();
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(failed(directory))?;
        let path = files.lock();
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed(&path))?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            return Err(UpError::RunsAlready(deployment.to_owned(), text.trim().parse().unwrap_or(0)));
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(failed(&path))?;
        Ok(Lock(file))
    }
}
