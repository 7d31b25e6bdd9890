// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of finished runs.
//!
//! Room for a result is taken before it is measured: a full disk shows before the work and not after it. A result comes into its
//! place by renaming, so there is all of it or nothing, whenever the process is killed.

use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Room that is taken for a result, in bytes: some thousands of trials.
const ROOM: usize = 1 << 20;

/// A directory of results.
pub(super) struct Store {
    directory: PathBuf,
}

/// Room for a result that is being measured.
pub(super) struct Place {
    file: NamedTempFile,
    path: PathBuf,
}

impl Store {
    /// The results below this directory, which is made if it is not there.
    pub(super) fn open(directory: &Path) -> Result<Store, String> {
        let directory = directory.join("runs");
        match std::fs::create_dir_all(&directory) {
            Ok(()) => Ok(Store { directory }),
            Err(why) => Err(format!("cannot write results into {}: {why}", directory.display())),
        }
    }

    /// How many results there are.
    pub(super) fn count(&self) -> usize {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "json")).count()
    }

    fn path(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{key}.json"))
    }

    /// A result, if there is one.
    pub(super) fn read(&self, key: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path(key)).ok()
    }

    /// Takes room for a result.
    pub(super) fn reserve(&self, key: &str) -> Result<Place, String> {
        let path = self.path(key);
        let take = || -> io::Result<NamedTempFile> {
            let mut builder = tempfile::Builder::new();
            builder.permissions(std::fs::Permissions::from_mode(0o666)).prefix(".junctor-");
            let mut file = builder.tempfile_in(&self.directory)?;
            file.write_all(&vec![0; ROOM])?;
            file.as_file().sync_all()?;
            Ok(file)
        };
        match take() {
            Ok(file) => Ok(Place { file, path }),
            Err(why) => Err(format!(
                "there is no room for the next result in {}: {why}; make room, and go on with --resume: what is done is kept",
                self.directory.display()
            )),
        }
    }
}

impl Place {
    /// Keeps a result.
    pub(super) fn keep(mut self, result: &[u8]) -> Result<(), String> {
        let mut put = || -> io::Result<()> {
            self.file.rewind()?;
            self.file.write_all(result)?;
            self.file.as_file().set_len(result.len() as u64)?;
            self.file.as_file().sync_all()
        };
        let path = self.path.display().to_string();
        let put = put().and_then(|()| self.file.persist(&self.path).map(drop).map_err(|why| why.error));
        put.map_err(|why| {
            // Not measured in vain, even so.
            outln!("{}", String::from_utf8_lossy(result).trim_end());
            format!("cannot write {path}: {why}; the result was printed instead; make room, and go on with --resume")
        })
    }
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
}
