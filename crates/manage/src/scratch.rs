// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories for the files of jobs, all in one of the service. They go with the job. Those of a service that was killed go when
//! the next one starts, for captures hold what others sent.
//!
//! The service has a lock on its directory (`flock`), which its processes do not inherit: so one that can be locked has lost its service.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use tempfile::TempDir;

/// How their names begin.
const PREFIX: &str = "junctor-jobs-";
/// A directory this young may be about to be locked.
const YOUNG: Duration = Duration::from_secs(10);
/// Names in the directory of temporary files that are looked at: others fill it, too.
const MOST: usize = 100_000;

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    directory: TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes one that nobody else may enter.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn new() -> io::Result<Scratch> {
        Scratch::within(&std::env::temp_dir())
    }

    fn within(place: &Path) -> io::Result<Scratch> {
        let directory = own(PREFIX, place)?;
        let lock = open(directory.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Scratch { directory, _lock: lock })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Makes a directory in it, for one job.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn part(&self) -> io::Result<TempDir> {
        own("job-", self.path())
    }
}

/// A directory that nobody else may enter.
fn own(prefix: &str, place: &Path) -> io::Result<TempDir> {
    let own = Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(prefix).permissions(own).tempdir_in(place)
}

fn open(directory: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    std::fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(directory)
}

/// Removes those whose service has ended.
pub(crate) fn sweep() {
    sweep_in(&std::env::temp_dir(), YOUNG);
}

fn sweep_in(place: &Path, young: Duration) {
    let user = rustix::process::geteuid().as_raw();
    let is_old = |found: &Metadata| {
        let age = found.modified().ok().and_then(|time| time.elapsed().ok());
        age.is_some_and(|age| age >= young)
    };
    for entry in std::fs::read_dir(place).into_iter().flatten().take(MOST).flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(directory) = open(&entry.path()) else { continue };
        let is_ours = directory.metadata().is_ok_and(|found| found.uid() == user && is_old(&found));
        if is_ours && flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_service_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let used = Scratch::within(place.path()).unwrap();
        let part = used.part().unwrap();
        for directory in [used.path(), part.path()] {
            assert_eq!(directory.metadata().unwrap().mode() & 0o777, 0o700);
        }
        for left in ["junctor-jobs-left", "other"] {
            std::fs::create_dir(at(left)).unwrap();
            std::fs::write(at(left).join("stdout"), "captured").unwrap();
        }
        std::os::unix::fs::symlink(at("other"), at("junctor-jobs-link")).unwrap();
        std::fs::write(at("junctor-jobs-file"), "").unwrap();

        sweep_in(place.path(), YOUNG);
        assert!(at("junctor-jobs-left").exists(), "it may be about to be locked");
        sweep_in(place.path(), Duration::ZERO);
        assert!(!at("junctor-jobs-left").exists());
        assert!(used.path().exists() && at("other").join("stdout").exists());
        assert!(at("junctor-jobs-link").exists() && at("junctor-jobs-file").exists());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }
}
