// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commits on a disk.
//!
//! ```text
//! commits/7/commit.json   who saved it, when and why, its files, what became of it
//! commits/7/files/        the files: a router runs here, so it runs exactly what was saved
//! commits/.new/           a commit that is being written
//! confirmed               the number of the commit that boots
//! live -> commits/7/files what is in service
//! base                    the commit that the working files were edited from
//! switching               two commits, while planes are taken from one to the other
//! trial                   the commit in service that waits to be confirmed, and until when
//! ```
//!
//! 1. A file is written under another name, synced, renamed, and its directory synced. A reader finds the old one or the new one.
//! 2. A commit is a directory that is renamed when it is whole. Its number is used once.
//! 3. `confirmed` names only commits that are whole.
//!    The commit that it names is confirmed, even if its description does not say so: that is written later, and a cut may come
//!    between.
//! 4. All but `commit.json` of a commit stays as it was written. Its digests are compared when it is read.

use std::io;
use std::path::{Path, PathBuf};

use crate::commit::{Commit, Draft, Entry, File, Files, State, Trial, is_path};
use crate::disk::Disk;
use crate::rights::Forbidden;

/// Commits that are kept.
pub const HISTORY: usize = 100;

const COMMITS: &str = "commits";
const NEW: &str = ".new";
const META: &str = "commit.json";
const FILES: &str = "files";
const CONFIRMED: &str = "confirmed";
const LIVE: &str = "live";
const BASE: &str = "base";
const SWITCHING: &str = "switching";
const TRIAL: &str = "trial";

/// Why a store does not do what it is asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{}: {why}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        why: io::Error,
    },
    /// There is no such commit.
    #[error("there is no commit {0}; `junctor config history` lists those that are kept")]
    NoCommit(u64),
    /// A commit is not as it was saved.
    #[error("commit {0} is damaged: {1}; `junctor config rollback N` goes to another one")]
    Damaged(u64, Damage),
    /// This process may not read a file of a commit, which is as it was saved for all that is known.
    #[error("commit {0}: {1}; then apply the files again")]
    Forbidden(u64, Forbidden),
    /// A file of the store holds something else.
    #[error("{}: '{text}' is no number of a commit", path.display())]
    NoNumber {
        /// Which.
        path: PathBuf,
        /// What it holds.
        text: String,
    },
    /// There is no file to save.
    #[error("there are no files to save")]
    Empty,
    /// A file has a name that cannot be saved.
    #[error("'{0}' is no path of a file in the directory")]
    NoPath(String),
}

/// What is wrong with a commit.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// Its description cannot be read.
    #[error("its description cannot be read: {0}")]
    Meta(String),
    /// A file is not as it was saved.
    #[error("{0} is not as it was saved")]
    File(String),
    /// A file is missing.
    #[error("{0} cannot be read: {1}")]
    Missing(String, #[source] io::Error),
}

/// The commits in a directory.
#[derive(Clone, Debug)]
pub struct Store<D> {
    disk: D,
    root: PathBuf,
}

type Done<T> = Result<T, Error>;

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    |why| Error::Io { path: path.to_owned(), why }
}

fn or_none<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}

impl<D: Disk> Store<D> {
    /// The store in a directory, which is made if there is none.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(disk: D, root: &Path) -> Done<Store<D>> {
        let store = Store { disk, root: root.to_owned() };
        for directory in [root.to_owned(), store.commits()] {
            store.disk.make_directory(&directory).map_err(at(&directory))?;
        }
        store.sync(root)?;
        // The directory itself has a name, too.
        store
            .sync(root.parent().filter(|parent| parent.iter().next().is_some()).unwrap_or(Path::new(".")))?;
        Ok(store)
    }

    fn commits(&self) -> PathBuf {
        self.root.join(COMMITS)
    }

    fn directory(&self, commit: u64) -> PathBuf {
        self.commits().join(commit.to_string())
    }

    /// Where the files of a commit are.
    #[must_use]
    pub fn files_of(&self, commit: u64) -> PathBuf {
        self.directory(commit).join(FILES)
    }

    /// Where the files of the commit in service are: a link that changes.
    #[must_use]
    pub fn live_files(&self) -> PathBuf {
        self.root.join(LIVE)
    }

    fn sync(&self, directory: &Path) -> Done<()> {
        self.disk.sync(directory).map_err(at(directory))
    }

    /// Writes a file whole or not at all.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Done<()> {
        let beside = path.with_extension("new");
        self.disk.remove(&beside).map_err(at(&beside))?;
        self.disk.write(&beside, &private(bytes.to_vec())).map_err(at(&beside))?;
        self.disk.rename(&beside, path).map_err(at(path))?;
        self.sync(path.parent().unwrap_or(&self.root))
    }

    fn number(&self, name: &str) -> Done<Option<u64>> {
        Ok(self.list(name)?.first().copied())
    }

    /// Numbers of commits in a file; none if there is no file.
    fn list(&self, name: &str) -> Done<Vec<u64>> {
        let path = self.root.join(name);
        let Some(bytes) = or_none(self.disk.read(&path)).map_err(at(&path))? else { return Ok(Vec::new()) };
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        let numbers: Result<Vec<u64>, _> = text.split_ascii_whitespace().map(str::parse).collect();
        match numbers {
            Ok(numbers) if !numbers.is_empty() => Ok(numbers),
            _ => Err(Error::NoNumber { path, text }),
        }
    }

    /// Commits between which planes were being taken when the service ended; none if no switch was cut short.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn switching(&self) -> Done<Vec<u64>> {
        self.list(SWITCHING)
    }

    /// Remembers that planes are taken from one commit to another, or that they have arrived.
    ///
    /// # Errors
    /// That cannot be saved.
    pub fn set_switching(&self, commits: Option<[u64; 2]>) -> Done<()> {
        let path = self.root.join(SWITCHING);
        match commits {
            Some([from, to]) => self.replace(&path, format!("{from} {to}\n").as_bytes()),
            None => {
                self.disk.remove(&path).map_err(at(&path))?;
                self.sync(&self.root)
            }
        }
    }

    /// The commit in service that waits to be confirmed, if there is one. What cannot be understood is none, so that the confirmed
    /// commit comes back.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn trial(&self) -> Done<Option<Trial>> {
        let path = self.root.join(TRIAL);
        let bytes = or_none(self.disk.read(&path)).map_err(at(&path))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Remembers which commit waits to be confirmed, or that none does.
    ///
    /// # Errors
    /// That cannot be saved.
    pub fn set_trial(&self, trial: Option<&Trial>) -> Done<()> {
        let path = self.root.join(TRIAL);
        match trial {
            // A structure of texts and numbers is always JSON.
            Some(trial) => self.replace(&path, &serde_json::to_vec(trial).unwrap_or_default()),
            None => {
                self.disk.remove(&path).map_err(at(&path))?;
                self.sync(&self.root)
            }
        }
    }

    /// The commit that boots; none before the first.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn confirmed(&self) -> Done<Option<u64>> {
        self.number(CONFIRMED)
    }

    /// Has a commit boot from now on.
    ///
    /// # Errors
    /// There is no such commit, or that cannot be saved. Then the one before boots.
    pub fn confirm(&self, commit: u64) -> Done<()> {
        self.commit(commit)?;
        // A cut may have kept the one before from its word. Soon nothing else says that it was confirmed.
        if let Some(before) = self.confirmed()?.filter(|before| *before != commit) {
            self.settle(before)?;
        }
        self.boot(commit)?;
        // It boots, and is shown as such, also if its word cannot be written now.
        let _ = self.settle(commit);
        Ok(())
    }

    fn boot(&self, commit: u64) -> Done<()> {
        self.replace(&self.root.join(CONFIRMED), format!("{commit}\n").as_bytes())
    }

    /// Has a commit that was confirmed boot again, in place of one whose [`Store::confirm`] failed half-way.
    ///
    /// # Errors
    /// There is no such commit, or that cannot be saved.
    pub fn boot_again(&self, commit: u64) -> Done<()> {
        self.commit(commit)?;
        self.boot(commit)
    }

    /// Writes into a commit that boots that it is confirmed. One that was removed or is damaged needs no word.
    fn settle(&self, commit: u64) -> Done<()> {
        match self.written(commit) {
            Ok(Commit { state: State::Confirmed, .. }) | Err(Error::NoCommit(_) | Error::Damaged(..)) => {
                Ok(())
            }
            Ok(_) => self.set_state(commit, State::Confirmed),
            Err(why) => Err(why),
        }
    }

    /// The commit that the working files were edited from.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn base(&self) -> Done<Option<u64>> {
        self.number(BASE)
    }

    /// Remembers which commit the working files are.
    ///
    /// # Errors
    /// That cannot be saved.
    pub fn set_base(&self, commit: u64) -> Done<()> {
        self.replace(&self.root.join(BASE), format!("{commit}\n").as_bytes())
    }

    /// The commit in service, or the last that was.
    ///
    /// # Errors
    /// The link cannot be read.
    pub fn live(&self) -> Done<Option<u64>> {
        let path = self.live_files();
        let Some(target) = or_none(self.disk.link(&path)).map_err(at(&path))? else { return Ok(None) };
        Ok(target.iter().nth(1).and_then(|name| name.to_str()?.parse().ok()))
    }

    /// Has [`Store::live_files`] lead to a commit.
    ///
    /// # Errors
    /// There is no such commit, or the link cannot be changed.
    pub fn set_live(&self, commit: u64) -> Done<()> {
        self.commit(commit)?;
        let (path, beside) = (self.live_files(), self.root.join("live.new"));
        let target = Path::new(COMMITS).join(commit.to_string()).join(FILES);
        self.disk.remove(&beside).map_err(at(&beside))?;
        self.disk.make_link(&target, &beside).map_err(at(&beside))?;
        self.disk.rename(&beside, &path).map_err(at(&path))?;
        self.sync(&self.root)
    }

    /// The numbers of all commits, in order.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn numbers(&self) -> Done<Vec<u64>> {
        let names = self.disk.list(&self.commits()).map_err(at(&self.commits()))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A commit without the content of its files.
    ///
    /// # Errors
    /// There is no such commit, or it is damaged.
    pub fn commit(&self, number: u64) -> Done<Commit> {
        let mut commit = self.written(number)?;
        if commit.state == State::Pending && self.confirmed()? == Some(number) {
            commit.state = State::Confirmed;
        }
        Ok(commit)
    }

    /// A commit as its description says.
    fn written(&self, number: u64) -> Done<Commit> {
        let path = self.directory(number).join(META);
        let bytes = or_none(self.disk.read(&path)).map_err(at(&path))?.ok_or(Error::NoCommit(number))?;
        let damaged = |why: String| Error::Damaged(number, Damage::Meta(why));
        let commit: Commit = serde_json::from_slice(&bytes).map_err(|why| damaged(why.to_string()))?;
        match commit.files.iter().find(|file| !is_path(&file.path)) {
            Some(file) => Err(damaged(format!("'{}' is no path", file.path))),
            None if commit.number != number => Err(damaged(format!("it is of commit {}", commit.number))),
            None => Ok(commit),
        }
    }

    /// The files of a commit, compared with their digests.
    ///
    /// # Errors
    /// There is no such commit, or it is damaged.
    pub fn files(&self, number: u64) -> Done<Files> {
        let (commit, top) = (self.commit(number)?, self.files_of(number));
        let mut files = Files::new();
        for entry in commit.files {
            let bytes = self.disk.read(&top.join(&entry.path));
            let bytes = bytes.map_err(|why| match Forbidden::is_it(&why) {
                true => Error::Forbidden(number, Forbidden::here(&entry.path, entry.owner, entry.mode)),
                false => Error::Damaged(number, Damage::Missing(entry.path.clone(), why)),
            })?;
            let file = File { bytes, mode: entry.mode, owner: entry.owner };
            if Entry::of(&entry.path, &file) != entry {
                return Err(Error::Damaged(number, Damage::File(entry.path)));
            }
            files.insert(entry.path, file);
        }
        Ok(files)
    }

    /// Saves what became of a commit.
    ///
    /// # Errors
    /// There is no such commit, or that cannot be saved.
    pub fn set_state(&self, number: u64, state: State) -> Done<()> {
        let commit = Commit { state, ..self.commit(number)? };
        self.replace(&self.directory(number).join(META), &text(&commit))
    }

    /// Saves files as a commit that is not confirmed; returns its number. Of older commits, the newest `keep` stay.
    ///
    /// # Errors
    /// They cannot be saved. Then there is no new commit.
    pub fn save(&self, files: &Files, draft: Draft, keep: usize) -> Done<u64> {
        self.stage(files)?;
        self.finish(files, draft, keep)
    }

    /// Writes files where [`Store::finish`] makes a commit of them; returns their directory. There they can be checked.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn stage(&self, files: &Files) -> Done<PathBuf> {
        if files.is_empty() {
            return Err(Error::Empty);
        }
        let new = self.commits().join(NEW);
        let top = new.join(FILES);
        self.disk.remove(&new).map_err(at(&new))?;
        let mut directories = vec![new, top.clone()];
        for path in files.keys() {
            if !is_path(path) {
                return Err(Error::NoPath(path.clone()));
            }
            let mut below: Vec<PathBuf> =
                Path::new(path).ancestors().skip(1).map(|parent| top.join(parent)).collect();
            below.reverse();
            directories.extend(below);
        }
        let mut made = Vec::new();
        for directory in directories {
            // Joined with an empty path, the top has a slash at its end.
            let directory: PathBuf = directory.components().collect();
            if !made.contains(&directory) {
                self.disk.make_directory(&directory).map_err(at(&directory))?;
                made.push(directory);
            }
        }
        for (path, file) in files {
            let path = top.join(path);
            self.disk.write(&path, file).map_err(at(&path))?;
        }
        made.iter().rev().try_for_each(|directory| self.sync(directory))?;
        Ok(top)
    }

    /// Makes a commit of files that were staged; returns its number.
    ///
    /// # Errors
    /// It cannot be saved. Then there is no new commit.
    pub fn finish(&self, files: &Files, draft: Draft, keep: usize) -> Done<u64> {
        let numbers = self.numbers()?;
        let last = [numbers.last().copied(), self.confirmed()?].into_iter().flatten().max();
        let number = last.unwrap_or(0) + 1;
        let commit = Commit {
            number,
            comment: draft.comment,
            author: draft.author,
            time_s: draft.time_s,
            parent: draft.parent,
            confirm_within_ms: draft.confirm_within_ms,
            state: State::Pending,
            files: files.iter().map(|(path, file)| Entry::of(path, file)).collect(),
        };
        let new = self.commits().join(NEW);
        let meta = new.join(META);
        self.disk.write(&meta, &private(text(&commit))).map_err(at(&meta))?;
        self.sync(&new)?;
        // Before the commit is there: a failure leaves none that its author does not know of.
        self.forget(&numbers, keep, draft.parent)?;
        let directory = self.directory(number);
        self.disk.rename(&new, &directory).map_err(at(&directory))?;
        self.sync(&self.commits())?;
        Ok(number)
    }

    /// Removes the oldest commits, but none that is in use.
    fn forget(&self, numbers: &[u64], keep: usize, parent: Option<u64>) -> Done<()> {
        let used = [self.confirmed()?, self.live()?, self.base()?, parent];
        let mut used: Vec<u64> = used.into_iter().flatten().collect();
        used.extend(self.switching()?);
        used.extend(self.trial()?.map(|trial| trial.commit));
        let old = numbers.len().saturating_sub(keep.max(1) - 1);
        for number in numbers[..old].iter().filter(|number| !used.contains(number)) {
            let gone = self.commits().join(".old");
            self.disk.remove(&gone).map_err(at(&gone))?;
            let directory = self.directory(*number);
            self.disk.rename(&directory, &gone).map_err(at(&directory))?;
            self.sync(&self.commits())?;
            self.disk.remove(&gone).map_err(at(&gone))?;
        }
        Ok(())
    }
}

/// A file of the store's own.
fn private(bytes: Vec<u8>) -> File {
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    File { bytes, mode: 0o600, owner }
}

fn text(commit: &Commit) -> Vec<u8> {
    // A structure of texts and numbers is always JSON.
    let mut text = serde_json::to_vec_pretty(commit).unwrap_or_default();
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests;
