// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planes with an operating system instance of their own: a User Mode Linux kernel over this machine's files.
//!
//! Two processes belong to such a plane. [`host`] runs on the machine: it starts the kernel, passes on what the plane prints and says
//! of itself, and asks it to end. [`init`] is the first process of the guest: it mounts what programs expect, names the interfaces,
//! starts the plane's program, and powers off when that ends. They speak by lines on the guest's console:
//!
//! ```text
//! guest to host   RS begins | RS started | RS ready | RS heartbeat | RS exit STATUS | RS failed WORDS      (RS is the byte 0x1e)
//! host to guest   stop
//! ```
//! Every other line is the program's own and goes to the log.
//!
//! The guest sees the machine's files, read-only but for the directories under `writable`; `/run` and `/tmp` are its own. Its memory
//! is a file that the kernel maps; `shared` adds one that both systems map: `/dev/mmapper` in the guest. With `reaches`, that memory
//! carries the conversations of programs in the guest with user planes (`relay`).

pub mod host;
pub mod init;
mod relay;

pub use relay::bytes as relay_bytes;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The kernel's program.
pub const KERNEL: &str = "linux.uml";
/// The first byte of lines that are not the program's own.
const MARK: char = '\x1e';
/// The guest's end of the shared memory.
pub const SHARED: &str = "/dev/mmapper";
/// Bytes of memory of a guest that does not say how much it needs.
pub const MEMORY: u64 = 256 << 20;

/// A plane in a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// The plane's name, which becomes the guest's host name.
    pub name: String,
    /// This program, which is the guest's first process.
    pub init: PathBuf,
    /// Bytes of memory.
    pub memory: u64,
    /// Taps of the plane's network namespace, which are the guest's interfaces, by the same names.
    pub interfaces: Vec<String>,
    /// The file of the shared memory.
    pub shared: Option<PathBuf>,
    /// Planes whose control sockets programs in the guest may use, and where these are; then the shared memory serves that.
    pub reaches: Vec<(String, PathBuf)>,
    /// Directories that the guest may write to.
    pub writable: Vec<PathBuf>,
    /// The program's working directory.
    pub directory: PathBuf,
    /// Its variables.
    pub environment: Vec<(String, String)>,
    /// It and its arguments.
    pub command: Vec<String>,
    /// In which time it is expected to send a heartbeat.
    pub heartbeat: Option<Duration>,
    /// It counts as ready when its program runs; else, when the program says so.
    pub ready_when_started: bool,
}

impl Guest {
    /// Reads a guest from its file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: &Path) -> Result<Guest, String> {
        let text = std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
        serde_json::from_str(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|why| why.to_string())?;
        std::fs::write(path, text).map_err(|why| format!("{}: {why}", path.display()))
    }
}

/// What the guest says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// The kernel is up.
    Begins,
    Started,
    Ready,
    Heartbeat,
    Exit(i32),
    Failed(String),
}

impl Word {
    fn line(&self) -> String {
        match self {
            Word::Begins => format!("{MARK}begins"),
            Word::Started => format!("{MARK}started"),
            Word::Ready => format!("{MARK}ready"),
            Word::Heartbeat => format!("{MARK}heartbeat"),
            Word::Exit(status) => format!("{MARK}exit {status}"),
            Word::Failed(why) => format!("{MARK}failed {}", why.replace('\n', " ")),
        }
    }

    /// A console may put carriage returns at the ends of lines.
    fn parse(line: &str) -> Option<Word> {
        let words = line.trim_end_matches('\r').strip_prefix(MARK)?;
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        match word {
            "begins" => Some(Word::Begins),
            "started" => Some(Word::Started),
            "ready" => Some(Word::Ready),
            "heartbeat" => Some(Word::Heartbeat),
            "exit" => rest.parse().ok().map(Word::Exit),
            "failed" => Some(Word::Failed(rest.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for word in
            [Word::Started, Word::Ready, Word::Heartbeat, Word::Exit(-3), Word::Failed("no tap".into())]
        {
            assert_eq!(Word::parse(&format!("{}\r", word.line())), Some(word));
        }
        for line in ["ready", "\x1e", "\x1eexit", "\x1eexit x", "\x1ewhat", ""] {
            assert_eq!(Word::parse(line), None, "{line}");
        }
    }
}
