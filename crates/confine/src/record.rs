// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process says of its fences, where the kernel itself shows nobody: the files within its reach, and which filters are its own.
//!
//! The process leaves the list in a sealed file in memory, which it never closes. `junctor doctor --security` finds it among the
//! descriptors in /proc. Nobody can change a sealed file. A process that was taken over could leave another one, so the list is for people who ask
//! what was meant to be in force.

use std::ffi::CStr;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::files::Files;

const NAME: &CStr = c"junctor-fences";
/// How the kernel shows such a descriptor.
const LINK: &str = "/memfd:junctor-fences (deleted)";
/// The longest list that is read.
const MOST_BYTES: u64 = 1 << 20;

/// What a confined process has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The files within its reach, if others are fenced off.
    pub reach: Option<Reach>,
    /// Filters of system calls that it was started with, those of systemd for instance.
    pub outer_filters: u32,
}

/// The files within reach of a process, by what it may do with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Directories to be listed.
    pub list: Vec<String>,
    /// Those to be read.
    pub read: Vec<String>,
    /// Those to be read, written, made and removed.
    pub write: Vec<String>,
    /// Those to be started.
    pub run: Vec<String>,
}

impl Reach {
    pub(crate) fn of(files: &Files) -> Reach {
        let texts = |paths: &[std::path::PathBuf]| {
            let mut texts: Vec<String> = paths
                .iter()
                .filter(|path| path.exists())
                .map(|path| path.canonicalize().as_ref().unwrap_or(path).display().to_string())
                .map(|text| text.replace('\n', " "))
                .collect();
            texts.sort();
            texts.dedup();
            texts
        };
        let (list, read) = (texts(&files.list), texts(&files.read));
        Reach { list, read, write: texts(&files.write), run: texts(&files.run) }
    }

    /// A line for each, and one even if there is none: files may be fenced off altogether.
    fn text(&self) -> String {
        let lines = |word: &str, paths: &[String]| {
            paths.iter().map(|path| format!("{word} {path}\n")).collect::<String>()
        };
        "fenced files\n".to_owned()
            + &lines("list", &self.list)
            + &lines("read", &self.read)
            + &lines("write", &self.write)
            + &lines("run", &self.run)
    }

    /// What may be done, and with which files.
    pub(crate) fn lists(&self) -> [(&'static str, &[String]); 4] {
        [("list", &self.list), ("read", &self.read), ("write", &self.write), ("start", &self.run)]
    }
}

impl Left {
    fn text(&self) -> String {
        let reach = self.reach.as_ref().map(Reach::text).unwrap_or_default();
        format!("filters {}\n{reach}", self.outer_filters)
    }

    fn parse(text: &str) -> Left {
        let mut left = Left::default();
        for (word, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            if word == "filters" {
                left.outer_filters = value.parse().unwrap_or(0);
                continue;
            }
            let reach = left.reach.get_or_insert_default();
            match word {
                "list" => reach.list.push(value.to_owned()),
                "read" => reach.read.push(value.to_owned()),
                "write" => reach.write.push(value.to_owned()),
                "run" => reach.run.push(value.to_owned()),
                _ => {}
            }
        }
        left
    }

    /// Leaves it for as long as this process lives.
    pub(crate) fn leave(&self) -> io::Result<()> {
        let file: OwnedFd = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut file = std::fs::File::from(file);
        file.write_all(self.text().as_bytes())?;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(file.as_fd(), seals)?;
        std::mem::forget(file);
        Ok(())
    }

    /// What a process has left, if it has.
    ///
    /// # Errors
    /// This process may not look at its descriptors.
    pub fn by(id: u32) -> io::Result<Option<Left>> {
        let is_it = |entry: &std::fs::DirEntry| {
            std::fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == LINK)
        };
        let Some(found) = std::fs::read_dir(format!("/proc/{id}/fd"))?.flatten().find(is_it) else {
            return Ok(None);
        };
        let mut text = String::new();
        std::fs::File::open(found.path())?.take(MOST_BYTES).read_to_string(&mut text)?;
        Ok(Some(Left::parse(&text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let at = temp.path().canonicalize().unwrap();
        let read = vec![at.clone(), at.join("not there")];
        let files = Files { read, write: vec![at.clone()], ..Files::default() };
        let reach = Reach::of(&files);
        let text = at.display().to_string();
        assert_eq!(reach, Reach { read: vec![text.clone()], write: vec![text], ..Reach::default() });
        let left = Left { reach: Some(reach), outer_filters: 3 };
        assert_eq!(Left::by(std::process::id()).unwrap(), None);
        left.leave().unwrap();
        assert_eq!(Left::by(std::process::id()).unwrap(), Some(left));
        assert!(Left::by(0).is_err());
    }
}
