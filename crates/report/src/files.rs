// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are written whole or not at all: one that cannot be finished leaves what was there before.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Whether a new file can take the place of what is there: a device or a pipe is written to.
fn takes_its_place(path: &Path) -> bool {
    let is_system = ["/dev", "/proc"].iter().any(|system| path.starts_with(system));
    !is_system && std::fs::metadata(path).map_or(true, |found| found.is_file() || found.is_dir())
}

fn open(path: &Path) -> io::Result<File> {
    std::fs::OpenOptions::new().write(true).open(path)
}

/// What others may not do is then the process's mask to say.
const FOR_ALL: u32 = 0o666;
/// For recordings and what is made of them: packets are private.
const FOR_OWNER: u32 = 0o600;

/// A file without a name yet, where `path` is to be.
fn beside(path: &Path, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if path.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let mut builder = tempfile::Builder::new();
    builder.permissions(std::fs::Permissions::from_mode(mode));
    builder.prefix(".junctor-").tempfile_in(directory.unwrap_or(Path::new(".")))
}

/// Whether a file can be written there, before there is anything to write.
pub fn try_to_replace(path: &Path) -> io::Result<()> {
    if takes_its_place(path) { beside(path, FOR_ALL).map(drop) } else { open(path).map(drop) }
}

/// Puts a file, which `write` makes, in the place of what was there, whole or not at all; what is no file is written to.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    if !takes_its_place(path) {
        return fill(&mut open(path)?, write);
    }
    // Behind a name for another file, that is the one.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    put_in_place(path, FOR_ALL, write)
}

/// As [`replace`], but only its owner may read the file, and a symbolic link is replaced and not followed.
pub fn replace_privately(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if takes_its_place(path) { put_in_place(path, FOR_OWNER, write) } else { fill(&mut open(path)?, write) }
}

fn put_in_place(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = beside(path, mode)?;
    fill(file.as_file_mut(), write)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|why| why.error)?;
    Ok(())
}

fn fill(file: &mut File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffered = BufWriter::new(file);
    write(&mut buffered)?;
    buffered.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, text: &str) -> io::Result<()> {
        replace(path, |file| file.write_all(text.as_bytes()))
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.csv");
        for text in ["long enough", "short"] {
            put(&path, text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert!(put(&path.join("b"), "x").is_err() && put(directory.path(), "x").is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing half written is left");
        let half = |file: &mut dyn Write| {
            file.write_all(&[b'x'; 100_000])?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        assert_eq!(replace(&path, half).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short", "what was there is there still");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        put(&link, "through").unwrap();
        assert!(link.is_symlink() && std::fs::read(&path).unwrap() == b"through");
        replace_privately(&link, |file| file.write_all(b"secret")).unwrap();
        let mode = std::fs::symlink_metadata(&link).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, std::fs::read(&path).unwrap()), (0o600, b"through".to_vec()));
    }

    #[test]
    fn devices_and_pipes_stay_what_they_are() {
        assert!(!takes_its_place(Path::new("/dev/stdout")) && !takes_its_place(Path::new("/dev/null")));
        put(Path::new("/dev/null"), "x").unwrap();
        let why = put(Path::new("/dev/full"), "x").unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::StorageFull);
        for device in ["/dev/null", "/dev/full"] {
            assert!(!std::fs::metadata(device).unwrap().is_file(), "{device}");
        }
    }
}
