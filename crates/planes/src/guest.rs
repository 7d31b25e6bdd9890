// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planes with an operating system instance of their own over this machine's files: a User Mode Linux kernel, or a virtual machine
//! (`kvm`).
//!
//! Two processes belong to such a plane:
//!
//! * [`host`] runs on the machine. It starts the kernel, passes on the plane's output and notifications, and asks the guest to end.
//! * [`init`] is the first process of the guest. It mounts file systems, names the interfaces and starts the plane's program. When the
//!   program ends, it powers off.
//!
//! They exchange lines on the guest's console:
//!
//! ```text
//! guest to host   RS begins | RS started | RS ready | RS heartbeat | RS exit STATUS | RS failed WORDS      (RS is the byte 0x1e)
//! host to guest   stop
//! ```
//! Every other line is the program's own and goes to the log.
//!
//! The guest sees the machine's files. It may write to the directories under `writable` alone; `/run` and `/tmp` are its own. Its
//! memory is a file that the kernel maps. `shared` adds one that both systems map: `/dev/mmapper` in the guest, or a resource of an
//! `ivshmem` device. With `reaches`, programs in the guest speak to user planes through that memory (`relay`). With `statistics`, they
//! read there what user planes publish (`statistics`).

pub mod host;
pub mod init;
mod initramfs;
pub mod kvm;
pub mod region;
mod relay;
mod statistics;
mod trial;
pub mod uml;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;
use rustix::fs::{FileType, Mode, OFlags};
use serde::{Deserialize, Serialize};

/// The kernel's program.
pub const KERNEL: &str = "linux.uml";
/// The variable by which a program in a guest learns the file of the channels that it may read, and how many bytes of it.
pub const REGION: &str = "JUNCTOR_ICC_FILE";
/// See [`REGION`].
pub const REGION_BYTES: &str = "JUNCTOR_ICC_BYTES";
/// The first byte of lines that are not the program's own.
const MARK: char = '\x1e';
/// Bytes of memory of a guest that does not say how much it needs.
pub const MEMORY: u64 = 256 << 20;

/// The least memory that a guest's kernel starts with.
pub const LEAST_MEMORY: u64 = 64 << 20;

/// In what a guest's kernel runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Machine {
    /// In a process: User Mode Linux.
    Uml,
    /// In a virtual machine.
    Qemu(Qemu),
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qemu {
    /// The kernel's file.
    pub kernel: PathBuf,
    /// Its processors are emulated.
    pub emulated: bool,
    /// How many it has.
    pub processors: usize,
    /// The cores that they are bound to, one each; none: they share all cores of the plane.
    pub cores: Vec<usize>,
}

/// A plane in a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// The plane's name, which becomes the guest's host name.
    pub name: String,
    /// In what its kernel runs.
    pub machine: Machine,
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
    /// Channels of statistics that programs in the guest may read; then the shared memory serves that, too.
    pub channels: Vec<region::Channel>,
    /// The socket of the deployment's domain.
    pub domain: PathBuf,
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
    pub fn read(path: &Path) -> Result<Guest, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
        serde_json::from_str(&text).map_err(|why| Error::Json { what: path.display().to_string(), why })
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_string(self)?;
        std::fs::write(path, text).map_err(Error::file(path))
    }
}

/// Makes the file of the shared memory, or takes the one that is there. The directory is everybody's, so this takes only a file
/// of our own: no link, and nothing that has a second name.
///
/// # Errors
/// The file cannot be made, or what is there is something else.
pub fn make_shared(path: &Path, bytes: u64) -> Result<(), Error> {
    let failed = Error::file(path);
    let unfit = |why: &str| Error::Unfit(format!("{}: {why}", path.display()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let own = Mode::RUSR | Mode::WUSR;
    let file = rustix::fs::open(path, flags, own).map_err(|why| match why {
        rustix::io::Errno::LOOP => unfit("it is a symbolic link; remove it"),
        why => failed(why.into()),
    })?;
    let found = rustix::fs::fstat(&file).map_err(|why| failed(why.into()))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink != 1 {
        return Err(unfit("it is no file of its own; remove it"));
    }
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(unfit(&format!("it belongs to user {}; remove it", found.st_uid)));
    }
    rustix::fs::fchmod(&file, own).map_err(|why| failed(why.into()))?;
    File::from(file).set_len(bytes).map_err(failed)
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
const EXAMPLE: &str = r#"{"name": "control", "machine": "Uml", "init": "/usr/bin/junctor", "memory": 67108864, "interfaces": [], "shared": null,
    "reaches": [], "channels": [], "domain": "/run/junctor/edge/domain", "writable": [], "directory": "/", "environment": [], "command": ["true"], "heartbeat": null,
    "ready_when_started": true}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_a_file_of_our_own() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (file, victim) = (at("file"), at("victim"));
        make_shared(&file, 4096).unwrap();
        std::fs::write(&file, "kept").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        make_shared(&file, 8192).unwrap();
        let found = file.metadata().unwrap();
        assert_eq!((found.len(), found.permissions().mode() & 0o777), (8192, 0o600));
        assert!(std::fs::read(&file).unwrap().starts_with(b"kept"));
        std::fs::write(&victim, "whole").unwrap();
        std::os::unix::fs::symlink(&victim, at("link")).unwrap();
        std::os::unix::fs::symlink(at("none"), at("dangling")).unwrap();
        std::fs::hard_link(&victim, at("second")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for (name, said) in
            [("link", "symbolic link"), ("dangling", "symbolic"), ("second", "no file"), ("pipe", "no file")]
        {
            let why = make_shared(&at(name), 1).unwrap_err();
            assert!(why.to_string().contains(said), "{name}: {why}");
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"whole");
        assert!(!at("none").exists());
    }

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
