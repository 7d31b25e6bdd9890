// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of finished runs.
//!
//! Room for a result is taken before it is measured: a full disk shows before the work and not after it. A result comes into its
//! place by renaming, so there is all of it or nothing, whenever the process is killed. A campaign has its directory to itself, so
//! that what is half written there when it begins is what a killed one has left.

use std::fs::{File, TryLockError};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::Error;
use tempfile::NamedTempFile;

/// Room that is taken for a result, in bytes: some thousands of trials.
const ROOM: usize = 1 << 20;
/// How names of files begin that are half written.
const UNFINISHED: &str = ".junctor-";

/// A directory of results.
pub(super) struct Store {
    directory: PathBuf,
    /// Keeps other campaigns out; it goes with the process.
    _lock: File,
}

/// Room for a result that is being measured.
pub(super) struct ResultPlace {
    file: NamedTempFile,
    path: PathBuf,
    part: PathBuf,
}

impl Store {
    /// The results below this directory, which is made if it is not there.
    pub(super) fn open(directory: &Path) -> Result<Store, Error> {
        let directory = directory.join("runs");
        let cannot = Error::system(format!("cannot write results into {}", directory.display()));
        std::fs::create_dir_all(&directory).map_err(&cannot)?;
        let lock = File::open(&directory).map_err(&cannot)?;
        match lock.try_lock() {
            Ok(()) => clean(&directory),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::unfit(format!(
                    "another campaign is at work in {}; wait for it, or name another place with --dir",
                    directory.display()
                )));
            }
            // Where a file system knows no locks, what is half written may be another's.
            Err(TryLockError::Error(_)) => {}
        }
        Ok(Store { directory, _lock: lock })
    }

    /// How many results there are.
    pub(super) fn count(&self) -> usize {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "json")).count()
    }

    fn path(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{key}.json"))
    }

    /// Where a part of a result is.
    fn part(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{key}.part.json"))
    }

    /// A result, if there is one.
    pub(super) fn read(&self, key: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path(key)).ok()
    }

    /// What was found before a run failed, if there is that.
    pub(super) fn read_part(&self, key: &str) -> Option<Vec<u8>> {
        std::fs::read(self.part(key)).ok()
    }

    /// Takes room for a result.
    pub(super) fn reserve(&self, key: &str) -> Result<ResultPlace, Error> {
        let (path, part) = (self.path(key), self.part(key));
        let take = || -> io::Result<NamedTempFile> {
            let mut builder = tempfile::Builder::new();
            builder.permissions(std::fs::Permissions::from_mode(0o666)).prefix(UNFINISHED);
            let mut file = builder.tempfile_in(&self.directory)?;
            file.write_all(&vec![0; ROOM])?;
            file.as_file().sync_all()?;
            Ok(file)
        };
        let file = take().map_err(Error::advised(
            format_args!("there is no room for the next result in {}", self.directory.display()),
            "; make room, and go on with --resume: what is done is kept",
        ))?;
        Ok(ResultPlace { file, path, part })
    }
}

/// Removes what killed campaigns have left half written.
fn clean(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(UNFINISHED)) {
        // If it cannot be, it is in nobody's way.
        let _ = std::fs::remove_file(entry.path());
    }
}

impl ResultPlace {
    /// Keeps a result, which takes the place of a part of it.
    pub(super) fn keep(self, result: &[u8]) -> Result<(), Error> {
        put(self.file, &self.path, result)?;
        match std::fs::remove_file(&self.part) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                let doing = format!("cannot remove {}", self.part.display());
                Err(Error::advised(doing, "; the whole result is there")(why))
            }
            _ => Ok(()),
        }
    }

    /// Keeps what a run has found before it failed.
    pub(super) fn keep_part(self, result: &[u8]) -> Result<(), Error> {
        put(self.file, &self.part, result)
    }
}

/// Fills a file, and gives it its name.
fn put(mut file: NamedTempFile, path: &Path, result: &[u8]) -> Result<(), Error> {
    let mut fill = || -> io::Result<()> {
        file.rewind()?;
        file.write_all(result)?;
        file.as_file().set_len(result.len() as u64)?;
        file.as_file().sync_all()
    };
    let put = fill().and_then(|()| file.persist(path).map(drop).map_err(|why| why.error));
    put.map_err(|why| {
        // Not measured in vain, even so.
        outln!("{}", String::from_utf8_lossy(result).trim_end());
        let advice = "; the result was printed instead; make room, and go on with --resume";
        Error::advised(format_args!("cannot write {}", path.display()), advice)(why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_there_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let place = store.reserve("a").unwrap();
        assert_eq!((store.read("a"), store.count()), (None, 0), "what is measured is not there yet");
        place.keep(b"{}").unwrap();
        assert_eq!((store.read("a").as_deref(), store.count()), (Some(&b"{}"[..]), 1));
        drop(store.reserve("b").unwrap());
        assert_eq!(std::fs::read_dir(directory.path().join("runs")).unwrap().count(), 1);
        let long = vec![b'x'; 2 * ROOM];
        store.reserve("a").unwrap().keep(&long).unwrap();
        assert_eq!(store.read("a").map(|bytes| bytes.len()), Some(2 * ROOM));
    }

    #[test]
    fn a_part_stays_until_there_is_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        store.reserve("a").unwrap().keep_part(b"[1]").unwrap();
        let (part, whole) = (store.read_part("a"), store.read("a"));
        assert_eq!((part.as_deref(), whole, store.count()), (Some(&b"[1]"[..]), None, 1));
        store.reserve("a").unwrap().keep(b"[1,2]").unwrap();
        assert_eq!((store.read_part("a"), store.count()), (None, 1));
        assert_eq!(store.read("a").as_deref(), Some(&b"[1,2]"[..]));
    }

    #[test]
    fn one_campaign_has_the_directory_and_clears_what_a_killed_one_left() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let why = Store::open(directory.path()).err().expect("it is taken").to_string();
        assert!(why.starts_with("another campaign is at work in "), "{why}");
        // As if it were killed now: nobody removes the room that it took.
        std::mem::forget(store.reserve("a").unwrap());
        store.reserve("b").unwrap().keep(b"{}").unwrap();
        drop(store);
        let runs = || std::fs::read_dir(directory.path().join("runs")).unwrap().count();
        assert_eq!(runs(), 2);
        let store = Store::open(directory.path()).unwrap();
        assert_eq!((runs(), store.count()), (1, 1), "only the result stays");
    }
}
