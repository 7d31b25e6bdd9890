// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file: what lies where, its writer and its readers.
//!
//! ```text
//!  words of 8 bytes, little endian
//!  0..16   header (see the constants)
//!  16..    two slots for directories, then two for snapshots (sync::slots)
//! ```
//!
//! *Why a file that is written and read, not memory that is mapped.* The file lies in a file system that is memory (`/run`), so its pages are shared
//! memory either way, and readers may map them. But a mapped file that somebody truncates, or a full file system, kills the process that touches its
//! pages (SIGBUS). That must not happen to the router. `pwrite` and `pread` return errors instead, need no `unsafe`, and cost a microsecond a few
//! times a second, on a thread that forwards nothing.
//!
//! *Who is there.* The writer holds a lock on the file (`flock`) as long as it lives, and the kernel frees it however the writer ends. A reader that
//! can take it knows that no more will come. A file that has become too small is replaced by another under the same name and says so
//! ([`State::Moved`]).

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sync::slots::{Missed, Slots, Words};

use crate::directory::Directory;
use crate::snapshot::Snapshot;

/// The layout that this crate writes and reads. Another number is another layout.
pub const VERSION: u64 = 1;

/// The first word: `JNCSTATS`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"JNCSTATS");

// The header's words.
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const STATE_AT: usize = 2;
const PID_AT: usize = 3;
const STARTED_AT: usize = 4;
const INTERVAL_AT: usize = 5;
const DIRECTORY_AT: usize = 6;
const DIRECTORY_WORDS_AT: usize = 7;
const SNAPSHOT_AT: usize = 8;
const SNAPSHOT_WORDS_AT: usize = 9;
const HEADER: usize = 16;

/// The most words that a slot may have: 1 GiB.
const MOST_WORDS: u64 = 1 << 27;
/// The fewest that one is made with.
const LEAST_WORDS: usize = 1 << 11;

/// Why a segment cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is none.
    #[error(
        "no router publishes statistics at {0}; one that was begun with --stats none does not, and is to be begun without"
    )]
    Absent(PathBuf),
    /// It may not be read.
    #[error("{0} may not be read by this user; ask the router's owner, or become that user")]
    Forbidden(PathBuf),
    /// The system refused.
    #[error("cannot read what the router publishes in {0}: {1}")]
    Io(PathBuf, #[source] std::io::Error),
    /// It is another kind of file.
    #[error(
        "{0} is no statistics segment; the router publishes beside its control socket, in a file named after it"
    )]
    Foreign(PathBuf),
    /// It is of another version.
    #[error(
        "{path} has layout version {found}, and this program reads version {VERSION}: use the junctor that runs the router"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// It ends too early.
    #[error(
        "{0} is cut short: the router had no room to make it, or something else has changed it; start the router anew where there is room"
    )]
    Truncated(PathBuf),
    /// It holds what no router writes.
    #[error(
        "{0} is damaged: {1} makes no sense; something else than the router has written there: start it anew"
    )]
    Damaged(PathBuf, &'static str),
    /// The router has not published anything yet.
    #[error("the router has not published anything in {0} yet; try again in a moment")]
    Empty(PathBuf),
    /// It was overwritten while it was read, again and again.
    #[error(
        "{0} is written to faster than it can be read; let the router publish more rarely (junctor run --stats TIME), or give this program more of a processor"
    )]
    Overtaken(PathBuf),
}

/// What the writer says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It publishes.
    Live,
    /// It has ended, and what is there is its last word.
    Ended,
    /// It publishes in another file under the same name.
    Moved,
}

impl State {
    fn word(self) -> u64 {
        self as u64
    }
}

/// A file as words.
struct FileWords(File);

impl Words for FileWords {
    type Error = std::io::Error;

    fn load(&self, at: usize, into: &mut [u64]) -> std::io::Result<()> {
        let mut bytes = vec![0; into.len() * 8];
        self.0.read_exact_at(&mut bytes, at as u64 * 8)?;
        let words = bytes.chunks_exact(8);
        into.iter_mut().zip(words).for_each(|(to, from)| *to = word(from));
        Ok(())
    }

    fn store(&self, at: usize, from: &[u64]) -> std::io::Result<()> {
        let bytes: Vec<u8> = from.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.0.write_all_at(&bytes, at as u64 * 8)
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The first word of a body: a sum over the others, so that a damaged file is found out.
fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
        let sum = (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        sum ^ sum >> 32
    })
}

/// A body: the sum, the length in bytes, and the bytes.
fn body(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0, bytes.len() as u64];
    words.extend(bytes.chunks(8).map(word));
    words[0] = sum(&words[1..]);
    words
}

/// The bytes of a body.
fn unpack(words: &[u64]) -> Result<Vec<u8>, &'static str> {
    let [found, rest @ ..] = words else { return Err("a body") };
    if sum(rest) != *found {
        return Err("a body's sum");
    }
    let [length, rest @ ..] = rest else { return Err("a body") };
    let mut bytes: Vec<u8> = rest.iter().flat_map(|word| word.to_le_bytes()).collect();
    let length = usize::try_from(*length).ok().filter(|n| *n <= bytes.len()).ok_or("a body's length")?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Where directories and snapshots lie in a file with so much room for each.
fn places(directory_words: usize, snapshot_words: usize) -> (Slots, Slots) {
    let directories = Slots { head: DIRECTORY_AT, first: HEADER, capacity: directory_words };
    let first = HEADER + Slots::words(directory_words);
    (directories, Slots { head: SNAPSHOT_AT, first, capacity: snapshot_words })
}

/// Writes a segment. When it is dropped, the file goes.
pub struct Publisher {
    path: PathBuf,
    mode: u32,
    started_ns: u64,
    interval_ns: u64,
    file: FileWords,
    places: (Slots, Slots),
    /// The file has no name before it has a snapshot: nobody finds an empty one.
    named: bool,
    /// The file that goes when this one gets its name.
    old: Option<FileWords>,
    /// The directory that is there, and the snapshots so far.
    directory: (u64, Vec<u64>),
    snapshots: u64,
}

impl Publisher {
    /// Makes a segment, which may be read by whom `mode` says. With the first snapshot it takes its name, also from one that is there.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path, mode: u32, started_ns: u64, interval_ns: u64) -> Result<Publisher, Error> {
        let mut publisher = Publisher {
            path: path.to_owned(),
            mode,
            started_ns,
            interval_ns,
            file: FileWords(unnamed(path, mode)?),
            places: places(LEAST_WORDS, LEAST_WORDS),
            named: false,
            old: None,
            directory: (0, Vec::new()),
            snapshots: 0,
        };
        publisher.begin()?;
        Ok(publisher)
    }

    /// Fills the header.
    fn begin(&mut self) -> Result<(), Error> {
        let path = &self.path;
        let failed = |e| Error::Io(path.clone(), e);
        let file = &self.file;
        let (directories, snapshots) = self.places;
        let words = snapshots.first + Slots::words(snapshots.capacity);
        file.0.set_len(words as u64 * 8).map_err(failed)?;
        // Nobody knows it yet.
        file.0.try_lock().map_err(|e| failed(e.into()))?;
        let mut header = [0; HEADER];
        header[MAGIC_AT] = MAGIC;
        header[VERSION_AT] = VERSION;
        header[STATE_AT] = State::Live.word();
        header[PID_AT] = u64::from(std::process::id());
        header[STARTED_AT] = self.started_ns;
        header[INTERVAL_AT] = self.interval_ns;
        header[DIRECTORY_WORDS_AT] = directories.capacity as u64;
        header[SNAPSHOT_WORDS_AT] = snapshots.capacity as u64;
        file.store(0, &header).map_err(failed)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says how often snapshots come from now on.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn set_interval_ns(&mut self, interval_ns: u64) -> Result<(), Error> {
        self.interval_ns = interval_ns;
        let path = &self.path;
        self.file.store(INTERVAL_AT, &[interval_ns]).map_err(|e| Error::Io(path.clone(), e))
    }

    /// From now on snapshots are of this directory.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn describe(&mut self, directory: &Directory) -> Result<(), Error> {
        self.directory = (self.directory.0 + 1, body(&directory.encode()));
        let snapshot = 8 + directory.series.len();
        self.make_room(self.directory.1.len(), snapshot)?;
        let (number, words) = &self.directory;
        self.places.0.publish(&self.file, *number, words).map_err(|e| Error::Io(self.path.clone(), e))
    }

    /// Publishes a snapshot, of the directory that was given last.
    ///
    /// # Errors
    /// The file cannot be written to; what was there stays.
    pub fn publish(&mut self, snapshot: &mut Snapshot) -> Result<(), Error> {
        snapshot.directory = self.directory.0;
        let words = body(&snapshot.encode());
        if self.make_room(0, words.len())? {
            // The other file has no directory yet.
            let (number, words) = &self.directory;
            let described = self.places.0.publish(&self.file, *number, words);
            described.map_err(|e| Error::Io(self.path.clone(), e))?;
        }
        self.snapshots += 1;
        let path = &self.path;
        let failed = |e| Error::Io(path.clone(), e);
        self.places.1.publish(&self.file, self.snapshots, &words).map_err(failed)?;
        if !self.named {
            std::fs::rename(unfinished(path), path).map_err(failed)?;
            self.named = true;
            // Who reads the old one still sees that it has to open it anew; if not, that nobody holds its lock.
            self.old.take().map(|old| old.store(STATE_AT, &[State::Moved.word()]));
        }
        Ok(())
    }

    /// Goes on in a larger file if these do not fit; returns whether it does.
    fn make_room(&mut self, directory: usize, snapshot: usize) -> Result<bool, Error> {
        let (directories, snapshots) = self.places;
        if directory <= directories.capacity && snapshot <= snapshots.capacity {
            return Ok(false);
        }
        let roomy = |needed: usize, had: usize| if needed > had { needed * 2 } else { had };
        let larger = FileWords(unnamed(&self.path, self.mode)?);
        let smaller = std::mem::replace(&mut self.file, larger);
        if std::mem::replace(&mut self.named, false) {
            self.old = Some(smaller);
        }
        self.places = places(roomy(directory, directories.capacity), roomy(snapshot, snapshots.capacity));
        self.begin()?;
        Ok(true)
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.file.store(STATE_AT, &[State::Ended.word()]);
        let _ = self.old.take().map(|old| old.store(STATE_AT, &[State::Ended.word()]));
        let _ = std::fs::remove_file(if self.named { self.path.clone() } else { unfinished(&self.path) });
    }
}

/// Where the statistics of the router lie that listens at this control socket.
pub fn path_of(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".stats");
    path.into()
}

/// Removes the segment of a publisher that was killed, and the unfinished file of one that was killed before its first snapshot.
pub fn remove_left(path: &Path) {
    let _ = std::fs::remove_file(path);
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return };
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let begun = format!("{}.", name.to_string_lossy());
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(&begun)?.parse::<u32>().ok());
        // One that lives is about to name it.
        if process.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

/// A file that does not have its name yet, so that nobody reads it before it is whole.
fn unnamed(path: &Path, mode: u32) -> Result<File, Error> {
    let name = unfinished(path);
    let _ = std::fs::remove_file(&name);
    let made = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&name);
    made.map_err(|e| Error::Io(path.to_owned(), e))
}

/// What was read at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// What the values are.
    pub directory: Arc<Directory>,
    /// The values.
    pub snapshot: Snapshot,
    /// The number of the snapshot: the same again means that nothing new has come.
    pub number: u64,
}

impl Reading {
    /// All values with what they are.
    pub fn iter(&self) -> impl Iterator<Item = (crate::Entry<'_>, u64)> {
        let values = self.snapshot.values.iter().enumerate();
        values.filter_map(|(place, value)| Some((self.directory.at(place)?, *value)))
    }
}

/// Reads a segment.
pub struct Segment {
    path: PathBuf,
    file: FileWords,
    places: (Slots, Slots),
    /// The process that writes it.
    pid: u32,
    started_ns: u64,
    known: Option<(u64, Arc<Directory>)>,
}

impl Segment {
    /// Opens the segment at this path.
    ///
    /// # Errors
    /// See [`Error`]; nothing of the file is believed.
    pub fn open(path: &Path) -> Result<Segment, Error> {
        let file = File::open(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::Absent(path.to_owned()),
            ErrorKind::PermissionDenied => Error::Forbidden(path.to_owned()),
            _ => Error::Io(path.to_owned(), e),
        })?;
        Segment::over(path, file)
    }

    /// The same over a file that is open already; the path is for messages.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn over(path: &Path, file: File) -> Result<Segment, Error> {
        let file = FileWords(file);
        let mut magic = [0];
        if file.load(0, &mut magic).is_err() || magic[0] != MAGIC {
            return Err(Error::Foreign(path.to_owned()));
        }
        let mut header = [0; HEADER];
        file.load(0, &mut header[..=VERSION_AT]).map_err(|e| unreadable(path, e))?;
        if header[VERSION_AT] != VERSION {
            return Err(Error::Version { path: path.to_owned(), found: header[VERSION_AT] });
        }
        file.load(0, &mut header).map_err(|e| unreadable(path, e))?;
        let capacities = [header[DIRECTORY_WORDS_AT], header[SNAPSHOT_WORDS_AT]];
        if capacities.iter().any(|words| *words > MOST_WORDS) {
            return Err(Error::Damaged(path.to_owned(), "the size of a slot"));
        }
        let places = places(capacities[0] as usize, capacities[1] as usize);
        let words = places.1.first + Slots::words(places.1.capacity);
        let length = file.0.metadata().map_err(|e| Error::Io(path.to_owned(), e))?.len();
        if length < words as u64 * 8 {
            return Err(Error::Truncated(path.to_owned()));
        }
        Ok(Segment {
            path: path.to_owned(),
            file,
            places,
            pid: u32::try_from(header[PID_AT]).unwrap_or(0),
            started_ns: header[STARTED_AT],
            known: None,
        })
    }

    /// The process that writes it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When it began, in nanoseconds since the epoch.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// How often snapshots come, in nanoseconds.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn interval_ns(&self) -> Result<u64, Error> {
        self.header_word(INTERVAL_AT)
    }

    /// What the writer says of itself. One that was killed says that it publishes; see [`Segment::is_alive`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn state(&self) -> Result<State, Error> {
        match self.header_word(STATE_AT)? {
            0 => Ok(State::Live),
            1 => Ok(State::Ended),
            2 => Ok(State::Moved),
            _ => Err(Error::Damaged(self.path.clone(), "the state")),
        }
    }

    /// Whether there is still somebody who writes.
    pub fn is_alive(&self) -> bool {
        match self.file.0.try_lock_shared() {
            Ok(()) => {
                let _ = self.file.0.unlock();
                false
            }
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => true,
        }
    }

    /// Takes the newest snapshot.
    ///
    /// # Errors
    /// See [`Error`]; nothing of the file is believed.
    pub fn read(&mut self) -> Result<Reading, Error> {
        const TRIES: usize = 100;
        let mut words = Vec::new();
        for _ in 0..TRIES {
            let number = self.places.1.newest(&self.file, &mut words).map_err(|e| self.missed(e))?;
            let snapshot = self.decoded(&words, Snapshot::decode)?;
            let Some(directory) = self.directory(snapshot.directory)? else { continue };
            if snapshot.values.len() != directory.series.len() {
                return Err(Error::Damaged(self.path.clone(), "the number of values"));
            }
            return Ok(Reading { directory, snapshot, number });
        }
        Err(Error::Overtaken(self.path.clone()))
    }

    /// The directory of this number, unless two have come since.
    fn directory(&mut self, number: u64) -> Result<Option<Arc<Directory>>, Error> {
        if let Some((_, known)) = self.known.as_ref().filter(|(known, _)| *known == number) {
            return Ok(Some(known.clone()));
        }
        let mut words = Vec::new();
        if !self.places.0.exactly(&self.file, number, &mut words).map_err(|e| self.missed(e))? {
            return Ok(None);
        }
        let directory = Arc::new(self.decoded(&words, Directory::decode)?);
        self.known = Some((number, directory.clone()));
        Ok(Some(directory))
    }

    fn decoded<T>(
        &self,
        words: &[u64],
        decode: impl Fn(&[u8]) -> Result<T, &'static str>,
    ) -> Result<T, Error> {
        unpack(words).and_then(|bytes| decode(&bytes)).map_err(|what| Error::Damaged(self.path.clone(), what))
    }

    fn header_word(&self, at: usize) -> Result<u64, Error> {
        let mut word = [0];
        self.file.load(at, &mut word).map_err(|e| unreadable(&self.path, e))?;
        Ok(word[0])
    }

    fn missed(&self, why: Missed<std::io::Error>) -> Error {
        match why {
            Missed::None => Error::Empty(self.path.clone()),
            Missed::Overtaken => Error::Overtaken(self.path.clone()),
            Missed::Damaged => Error::Damaged(self.path.clone(), "the length of a body"),
            Missed::Unreachable(e) => unreadable(&self.path, e),
        }
    }
}

fn unreadable(path: &Path, e: std::io::Error) -> Error {
    match e.kind() {
        ErrorKind::UnexpectedEof => Error::Truncated(path.to_owned()),
        _ => Error::Io(path.to_owned(), e),
    }
}

#[cfg(test)]
mod tests;
