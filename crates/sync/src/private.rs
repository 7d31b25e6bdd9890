// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files with what others must not read: captures and recordings hold people's traffic.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::pipes;

/// Creates a file that its owner alone may read, or empties it and makes it so. A symbolic link is not followed, and a file of
/// another user's is not written to: that user may be waiting for what comes. Devices and pipes that somebody reads are
/// written to as they are, and so are names like `/dev/stdout`, which are links of the system's.
///
/// # Errors
/// The file cannot be created, or is none that may be written to.
pub fn create(path: &Path) -> Result<File> {
    let file = open(path, OpenOptions::new().write(true))?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// As [`create`], but keeps what the file has, and writes behind it.
///
/// # Errors
/// As [`create`].
pub fn append(path: &Path) -> Result<File> {
    open(path, OpenOptions::new().append(true))
}

/// Opens a file to be read that somebody with fewer rights has named: a plain file with this name alone, and no link.
///
/// # Errors
/// It is another kind of file, or cannot be opened.
pub fn read(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    match meta.is_file() && meta.nlink() == 1 {
        true => Ok(file),
        false => Err(Error::new(ErrorKind::PermissionDenied, "it is no plain file of one name")),
    }
}

fn open(path: &Path, options: &mut OpenOptions) -> Result<File> {
    let of_system = ["/dev", "/proc/self/fd"].iter().any(|system| path.starts_with(system));
    options.create(true).truncate(false).mode(0o600);
    let flags = if of_system { 0 } else { libc::O_NOFOLLOW };
    let refused = |why: &str| Error::new(ErrorKind::PermissionDenied, why.to_owned());
    let file = pipes::open_to_write(path, options, flags, pipes::PATIENCE).map_err(|why| {
        match why.raw_os_error() {
            Some(libc::ELOOP) => refused(
                "it is a symbolic link, which captures and recordings do not follow; name the file itself",
            ),
            _ => why,
        }
    })?;
    let meta = file.metadata()?;
    let kind = meta.file_type();
    if of_system || kind.is_char_device() || kind.is_fifo() || kind.is_socket() || kind.is_block_device() {
        return Ok(file);
    }
    // SAFETY: it has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    if meta.uid() != user {
        return Err(refused(&format!("it belongs to user {}; name another file", meta.uid())));
    }
    if meta.mode() & 0o7777 != 0o600 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn only_the_owner_reads_it() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        let (path, link) = (dir.join("a"), dir.join("link"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        create(&path).unwrap().write_all(b"long enough").unwrap();
        assert_eq!(mode(&path), 0o600);
        // What is there is emptied, and its mode is put right.
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        create(&path).unwrap().write_all(b"x").unwrap();
        assert_eq!((mode(&path), std::fs::read(&path).unwrap()), (0o600, b"x".to_vec()));
        // Links lead nowhere, also those to what is not there yet.
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read(&path).is_ok() && read(&link).is_err() && read(dir).is_err());
        let second = dir.join("second");
        std::fs::hard_link(&path, &second).unwrap();
        assert!(read(&path).is_err() && read(&second).is_err());
        std::fs::remove_file(&second).unwrap();
        std::os::unix::fs::symlink(dir.join("new"), dir.join("dangling")).unwrap();
        for link in [link, dir.join("dangling")] {
            assert!(create(&link).unwrap_err().to_string().contains("symbolic link"));
        }
        assert!(!dir.join("new").exists() && std::fs::read(&path).unwrap() == b"x");
        append(&path).unwrap().write_all(b"y").unwrap();
        assert_eq!((mode(&path), std::fs::read(&path).unwrap()), (0o600, b"xy".to_vec()));
        create(&path).unwrap().write_all(b"x").unwrap();
        create(Path::new("/dev/null")).unwrap().write_all(b"x").unwrap();
        // SAFETY: it has no preconditions and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            std::os::unix::fs::chown(&path, Some(1), None).unwrap();
            assert!(create(&path).unwrap_err().to_string().contains("belongs to user 1"));
            assert_eq!(std::fs::read(&path).unwrap(), b"x");
        }
    }
}
