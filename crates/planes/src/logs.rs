// SPDX-License-Identifier: MIT OR Apache-2.0
//! What planes print: a file for each, written by the plane itself, so that nothing is lost and nobody waits when the
//! supervisor is killed.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Above this many bytes a log becomes the old one, and a new one begins.
const LONGEST: u64 = 16 << 20;
/// What is read at a time.
const PIECE: u64 = 256 << 10;
/// Pieces that are read in a row: a program that follows a log has other things to do.
const PIECES: usize = 8;
/// Lines longer than this are cut.
const LONGEST_LINE: usize = 8 << 10;

/// Opens a log for a plane to write to.
///
/// # Errors
/// The file cannot be made.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Where the log before this one is.
#[must_use]
pub fn old(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

/// The last lines of a log, none of which lies before this byte.
///
/// # Errors
/// The file cannot be read.
pub fn last(path: &Path, begin: u64, lines: usize) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(PIECE).max(begin);
    file.seek(SeekFrom::Start(from))?;
    let mut kept = VecDeque::new();
    let mut reader = BufReader::new(file.take(PIECE));
    let mut line = Vec::new();
    // The first piece of a line whose beginning is not read.
    if from > begin {
        reader.read_until(b'\n', &mut line)?;
        line.clear();
    }
    while reader.read_until(b'\n', &mut line)? > 0 {
        if kept.len() == lines {
            kept.pop_front();
        }
        kept.push_back(text(&line));
        line.clear();
    }
    Ok(kept.into())
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    String::from_utf8_lossy(&line[..line.len().min(LONGEST_LINE)]).into_owned()
}

/// Follows a log as it grows.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    at: u64,
    begun: Vec<u8>,
    /// That it cannot be rotated has been said.
    complained: bool,
}

impl Follower {
    /// Follows a log from its present end, or from its beginning.
    #[must_use]
    pub fn new(path: PathBuf, from_the_beginning: bool) -> Follower {
        let end = std::fs::metadata(&path).map_or(0, |found| found.len());
        Follower { path, at: if from_the_beginning { 0 } else { end }, begun: Vec::new(), complained: false }
    }

    /// The whole lines that have come. Of very many, the first; the others come with the next call.
    pub fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..PIECES {
            if !self.read(&mut lines).is_ok_and(|more| more) {
                break;
            }
        }
        lines
    }

    /// What is left of a last line without an end.
    pub fn rest(&mut self) -> Option<String> {
        (!self.begun.is_empty()).then(|| text(&std::mem::take(&mut self.begun)))
    }

    /// Reads a piece; returns whether there may be more.
    fn read(&mut self, lines: &mut Vec<String>) -> io::Result<bool> {
        let mut file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        if length < self.at {
            self.at = 0;
        }
        if length == self.at {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut piece = Vec::new();
        self.at += file.take(PIECE).read_to_end(&mut piece)? as u64;
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend(&part[..part.len().min(2 * LONGEST_LINE)]);
            if part.ends_with(b"\n") || self.begun.len() > LONGEST_LINE {
                lines.push(text(&std::mem::take(&mut self.begun)));
            }
        }
        Ok(self.at < length)
    }

    /// Makes a log that has become long the old one. Its writer goes on at the beginning of the file. Returns why that is not
    /// possible, once; then all stays as it is.
    pub fn rotate_if_long(&mut self) -> Option<String> {
        let why = self.rotate().err()?;
        (!std::mem::replace(&mut self.complained, true)).then(|| format!("{}: {why}", self.path.display()))
    }

    fn rotate(&mut self) -> io::Result<bool> {
        if std::fs::metadata(&self.path).map_or(0, |found| found.len()) < LONGEST {
            return Ok(false);
        }
        let mut file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        // The last of it: its writer may be faster than any copy.
        let from = file.metadata()?.len().saturating_sub(LONGEST);
        file.seek(SeekFrom::Start(from))?;
        let mut old =
            OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(old(&self.path))?;
        io::copy(&mut (&file).take(LONGEST), &mut old)?;
        file.set_len(0)?;
        self.at = 0;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_log_is_followed_through_its_rotation() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let mut file = open(&path).unwrap();
        file.write_all(b"one\ntwo\nthr").unwrap();
        let mut follower = Follower::new(path.clone(), true);
        assert_eq!(follower.lines(), ["one", "two"]);
        file.write_all(b"ee\n").unwrap();
        assert_eq!(follower.lines(), ["three"]);
        assert_eq!(last(&path, 0, 2).unwrap(), ["two", "three"]);
        assert!(!follower.rotate().unwrap());
        file.write_all(&vec![b'x'; LONGEST as usize]).unwrap();
        assert!(follower.rotate().unwrap());
        file.write_all(b"\nfour\nrest").unwrap();
        assert_eq!(follower.lines().last().map(String::as_str), Some("four"));
        assert_eq!(follower.rest().as_deref(), Some("rest"));
        assert!(std::fs::metadata(old(&path)).unwrap().len() >= LONGEST);
        assert!(Follower::new(directory.path().join("none"), false).lines().is_empty());
    }

    #[test]
    fn of_a_long_log_the_end_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let lines: String = (0..100_000).map(|i| format!("line {i}\n")).collect();
        std::fs::write(&path, lines).unwrap();
        assert_eq!(last(&path, 0, 2).unwrap(), ["line 99998", "line 99999"]);
        assert!(last(&path, 0, usize::MAX).unwrap().len() > 1000);
        let end = std::fs::metadata(&path).unwrap().len();
        assert_eq!(last(&path, end - 11, 9).unwrap(), ["line 99999"]);
        assert!(last(&path, end, 9).unwrap().is_empty());
    }
}
