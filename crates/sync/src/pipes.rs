// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens files of which a configuration gives the names, and never waits for ever for the other end of a named pipe.
//!
//! To open a named pipe the usual way takes until somebody opens its other end. A router that runs must not stop for that. Here the other end has a
//! moment to come, as of a shell's `writer > pipe &`, and then there is an error. A pipe that is open is read and written as usual: a reader waits
//! for bytes, and a writer for room.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the other end of a pipe has to come, where nothing else waits meanwhile.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A file that is read, or the read end of a pipe.
#[derive(Debug)]
pub struct Input {
    /// What a pipe gave while its writer was looked for.
    first: Option<u8>,
    file: File,
    is_pipe: bool,
}

impl Input {
    /// The file, or the pipe, from its beginning on.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Whether it is a named pipe, which cannot be read again from the beginning.
    pub fn is_pipe(&self) -> bool {
        self.is_pipe
    }

    /// Reads all of it, which may be up to `most` bytes.
    ///
    /// # Errors
    /// It cannot be read, or is larger.
    pub fn read_all(self, most: u64) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        self.take(most.saturating_add(1)).read_to_end(&mut data)?;
        if data.len() as u64 > most {
            let why = format!("it has more than {} MiB, the most that is read", most >> 20);
            return Err(Error::new(ErrorKind::FileTooLarge, why));
        }
        Ok(data)
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        match (self.first, into) {
            (Some(byte), [place, ..]) => {
                self.first = None;
                *place = byte;
                Ok(1)
            }
            (_, into) => self.file.read(into),
        }
    }
}

/// Opens a file to be read. A named pipe must be, or come to be within `patience`, open for writing.
///
/// # Errors
/// It cannot be opened, or is a pipe that nobody writes to.
pub fn open(path: &Path, patience: Duration) -> Result<Input> {
    if !is_pipe(path)? {
        return Ok(Input { first: None, file: File::open(path)?, is_pipe: false });
    }
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let mut byte = [0];
    let ends = Instant::now() + patience;
    let first = loop {
        match file.read(&mut byte) {
            // A pipe without writers has ended.
            Ok(0) if Instant::now() < ends => std::thread::sleep(LOOK_EVERY),
            Ok(0) => {
                return Err(Error::new(ErrorKind::BrokenPipe, "it is a named pipe, and nobody writes to it"));
            }
            Ok(_) => break Some(byte[0]),
            Err(why) if why.kind() == ErrorKind::WouldBlock => break None,
            Err(why) => return Err(why),
        }
    };
    let_wait(&file)?;
    Ok(Input { first, file, is_pipe: true })
}

/// Opens a file to be written, with these options and flags of `open`. A named pipe must be, or come to be within `patience`, open for
/// reading.
///
/// # Errors
/// It cannot be opened, or is a pipe that nobody reads.
pub fn open_to_write(path: &Path, options: &mut OpenOptions, flags: i32, patience: Duration) -> Result<File> {
    let ends = Instant::now() + patience;
    loop {
        match options.write(true).custom_flags(flags | libc::O_NONBLOCK).open(path) {
            Ok(file) => {
                let_wait(&file)?;
                return Ok(file);
            }
            Err(why) if why.raw_os_error() == Some(libc::ENXIO) && is_pipe(path).unwrap_or(false) => {
                if Instant::now() >= ends {
                    return Err(Error::new(ErrorKind::BrokenPipe, "it is a named pipe, and nobody reads it"));
                }
                std::thread::sleep(LOOK_EVERY);
            }
            Err(why) => return Err(why),
        }
    }
}

/// Whether this is a named pipe, or the end of a pipe.
///
/// # Errors
/// There is nothing of this name.
pub fn is_pipe(path: &Path) -> Result<bool> {
    Ok(std::fs::metadata(path)?.file_type().is_fifo())
}

/// From now on reading waits for bytes, and writing for room.
fn let_wait(file: &File) -> Result<()> {
    // SAFETY: both calls only read and set flags of a descriptor that `file` keeps open.
    let done = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        flags >= 0 && libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) >= 0
    };
    if done { Ok(()) } else { Err(Error::last_os_error()) }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use std::io::Write as _;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    /// A named pipe in a directory of its own, which goes with the value.
    fn pipe() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a string that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0, "{}", Error::last_os_error());
        (dir, path)
    }

    #[test]
    fn a_pipe_without_the_other_end_is_an_error() {
        let (_dir, pipe) = pipe();
        let why = open(&pipe, Duration::ZERO).unwrap_err().to_string();
        assert!(why.contains("nobody writes"), "{why}");
        let why = open_to_write(&pipe, &mut OpenOptions::new(), 0, Duration::ZERO).unwrap_err().to_string();
        assert!(why.contains("nobody reads"), "{why}");
    }

    #[test]
    fn a_pipe_with_both_ends_carries_bytes() {
        let (_dir, pipe) = pipe();
        for say_at_once in [true, false] {
            // A read end keeps the pipe open until the writer has come.
            let keep = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
            let mut writer = open_to_write(&pipe, &mut OpenOptions::new(), 0, Duration::ZERO).unwrap();
            let mut input = None;
            if say_at_once {
                writer.write_all(b"abc").unwrap();
                input = Some(open(&pipe, Duration::ZERO).unwrap());
            }
            let mut input = input.unwrap_or_else(|| {
                let input = open(&pipe, Duration::ZERO).unwrap();
                writer.write_all(b"abc").unwrap();
                input
            });
            drop(writer);
            assert!(input.is_pipe());
            let mut text = String::new();
            input.read_to_string(&mut text).unwrap();
            assert_eq!(text, "abc");
            drop(keep);
        }
    }

    #[test]
    fn files_are_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut options = OpenOptions::new();
        open_to_write(&path, options.create(true).truncate(true), 0, PATIENCE)
            .unwrap()
            .write_all(b"xyz")
            .unwrap();
        let read = |most| open(&path, PATIENCE).unwrap().read_all(most);
        assert_eq!(read(3).unwrap(), b"xyz");
        assert_eq!(read(2).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(open(&path, PATIENCE).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
