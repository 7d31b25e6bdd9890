// SPDX-License-Identifier: MIT OR Apache-2.0
//! All I/O of this crate: the disk that a [`Store`](crate::Store) writes to, the working files that people edit, and locks.

use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RawMode, fstat, openat, statat};

use crate::commit::{File, Files};
use crate::rights::Forbidden;

/// Bytes of one file at most.
pub const LONGEST: u64 = 16 << 20;
/// Bytes of all files of a configuration at most.
pub const MOST_BYTES: u64 = 64 << 20;
/// Files of a configuration at most.
pub const MOST_FILES: usize = 1000;
/// Directories within each other at most.
const DEEPEST: usize = 16;

/// What a store asks of a disk. Only what was synced survives a power cut.
pub trait Disk {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// The names in a directory.
    ///
    /// # Errors
    /// It cannot be read.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// There is none.
    fn link(&self, path: &Path) -> io::Result<PathBuf>;
    /// Makes a directory that only its owner may change; one that is there is left as it is.
    ///
    /// # Errors
    /// It cannot be made.
    fn make_directory(&self, path: &Path) -> io::Result<()>;
    /// Writes a new file and syncs its content.
    ///
    /// # Errors
    /// There is one already, or it cannot be written.
    fn write(&self, path: &Path, file: &File) -> io::Result<()>;
    /// Makes a symbolic link.
    ///
    /// # Errors
    /// It cannot be made.
    fn make_link(&self, target: &Path, path: &Path) -> io::Result<()>;
    /// Gives a file or directory another name; a file or link of that name is replaced.
    ///
    /// # Errors
    /// It cannot be renamed.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Syncs the names in a directory.
    ///
    /// # Errors
    /// It cannot be synced.
    fn sync(&self, directory: &Path) -> io::Result<()>;
    /// Removes a file, a link, or a directory with all that is in it. There may be none.
    ///
    /// # Errors
    /// It cannot be removed.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real;

impl Disk for Real {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > LONGEST {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(bytes),
        }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        std::fs::read_dir(directory)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn link(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::read_link(path)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        match std::fs::DirBuilder::new().mode(0o700).create(path) {
            // The process's mask may be narrower: daemons with users of their own read their files here.
            Ok(()) => std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            Err(why) => Err(why),
        }
    }

    fn write(&self, path: &Path, file: &File) -> io::Result<()> {
        let mut new = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        new.write_all(&file.bytes)?;
        let made = new.metadata()?;
        let (uid, gid) = file.owner;
        // Not at its creation, where the process's mask would change it; and before it belongs to another user, who alone may do it then.
        new.set_permissions(std::fs::Permissions::from_mode(file.mode & 0o777))?;
        if (made.uid(), made.gid()) != file.owner {
            std::os::unix::fs::fchown(&new, Some(uid), Some(gid))?;
        }
        new.sync_all()
    }

    fn make_link(&self, target: &Path, path: &Path) -> io::Result<()> {
        std::os::unix::fs::symlink(target, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync(&self, directory: &Path) -> io::Result<()> {
        std::fs::File::open(directory)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let done = match std::fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
            Ok(_) => std::fs::remove_file(path),
            Err(why) => Err(why),
        };
        done.or_else(|why| if why.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(why) })
    }
}

/// Why working files cannot be saved.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// A file or directory cannot be read.
    #[error("{}: {why}", path.display())]
    Unread {
        /// Which.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// This process may not read a file or directory.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// Something is neither a file nor a directory.
    #[error("{}: {what} cannot be saved; put the file itself there, or move it out of the directory", path.display())]
    Strange {
        /// Where it is.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A name is no text.
    #[error("{}: the name is not UTF-8; rename it", path.display())]
    Name {
        /// Whose.
        path: PathBuf,
    },
    /// It is too much.
    #[error("{}: {what}; move what is no configuration out of the directory", path.display())]
    TooMuch {
        /// The file or directory.
        path: PathBuf,
        /// What is too much.
        what: String,
    },
}

/// Reads all files of a directory. Hidden files and those of editors (`*~`) are left out. No symbolic link is followed.
///
/// # Errors
/// See [`Unfit`].
pub fn read_files(directory: &Path) -> Result<Files, Unfit> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty());
    let opened = opened.map_err(|why| Unfit::Unread { path: directory.to_owned(), why: why.into() })?;
    let mut walk = Walk { top: directory, files: Files::new(), bytes: 0 };
    walk.directory(&opened, "", 0)?;
    Ok(walk.files)
}

struct Walk<'a> {
    top: &'a Path,
    files: Files,
    bytes: u64,
}

impl Walk<'_> {
    fn directory(
        &mut self,
        directory: &rustix::fd::OwnedFd,
        prefix: &str,
        depth: usize,
    ) -> Result<(), Unfit> {
        let here = self.top.join(prefix);
        let unread = |why: rustix::io::Errno| Unfit::Unread { path: here.clone(), why: why.into() };
        if depth > DEEPEST {
            let what = format!("more than {DEEPEST} directories within each other");
            return Err(Unfit::TooMuch { path: here, what });
        }
        for entry in Dir::read_from(directory).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            let path = here.join(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
            let Ok(name) = entry.file_name().to_str() else { return Err(Unfit::Name { path }) };
            if !name.starts_with('.') && !name.ends_with('~') {
                let below = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
                self.entry(directory, name, below, path, depth)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: &rustix::fd::OwnedFd,
        name: &str,
        below: String,
        path: PathBuf,
        depth: usize,
    ) -> Result<(), Unfit> {
        let unread = |why: rustix::io::Errno| Unfit::Unread { path: path.clone(), why: why.into() };
        let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(unread)?;
        let unopened = |why: rustix::io::Errno| match why {
            rustix::io::Errno::ACCESS => {
                let owner = (found.st_uid, found.st_gid);
                Unfit::Forbidden(Forbidden::here(&path.display().to_string(), owner, found.st_mode))
            }
            why => unread(why),
        };
        let what = match FileType::from_raw_mode(found.st_mode as RawMode) {
            FileType::RegularFile => None,
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = openat(directory, name, flags, Mode::empty()).map_err(unopened)?;
                return self.directory(&opened, &below, depth + 1);
            }
            FileType::Symlink => Some("a symbolic link"),
            FileType::Fifo => Some("a pipe"),
            FileType::Socket => Some("a socket"),
            _ => Some("a device"),
        };
        if let Some(what) = what {
            return Err(Unfit::Strange { path, what });
        }
        // Between the look and the opening it may have become a pipe, which would be waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(directory, name, flags, Mode::empty()).map_err(unopened)?;
        let found = fstat(&file).map_err(unread)?;
        let (mode, owner) = (found.st_mode & 0o777, (found.st_uid, found.st_gid));
        let mut bytes = Vec::new();
        let read = std::fs::File::from(file).take(LONGEST + 1).read_to_end(&mut bytes);
        read.map_err(|why| Unfit::Unread { path: path.clone(), why })?;
        self.bytes += bytes.len() as u64;
        let too_much = match () {
            () if bytes.len() as u64 > LONGEST => Some(format!("a file has at most {} MiB", LONGEST >> 20)),
            () if self.bytes > MOST_BYTES => {
                Some(format!("all files have more than {} MiB", MOST_BYTES >> 20))
            }
            () if self.files.len() == MOST_FILES => Some(format!("there are more than {MOST_FILES} files")),
            () => None,
        };
        if let Some(what) = too_much {
            return Err(Unfit::TooMuch { path, what });
        }
        self.files.insert(below, File { bytes, mode, owner });
        Ok(())
    }
}

/// What keeps this process from a file by the permissions of the file itself. None if it may read the file, or if something else is in the way.
#[must_use]
pub fn forbidden(path: &Path) -> Option<Forbidden> {
    let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let why = rustix::fs::access(path, rustix::fs::Access::READ_OK).err()?;
    let owner = (found.uid(), found.gid());
    (why == rustix::io::Errno::ACCESS)
        .then(|| Forbidden::here(&path.display().to_string(), owner, found.mode()))
}

/// The services that have their working files in directories below this one, by name. Other folders there, such as one of
/// certificates, are none.
#[must_use]
pub fn services(above: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
    let has_main = |directory: &Path| {
        ["router.click", "deployment.toml"].iter().any(|main| directory.join(main).is_file())
    };
    let mut names: Vec<String> = entries
        .filter(|entry| has_main(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A lock that the kernel releases when its holder ends, however that happens.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] std::fs::File);

impl Lock {
    /// Takes a lock, and writes down who holds it. If another process holds it: what that one wrote.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn take(path: &Path, holder: &str) -> io::Result<Result<Lock, String>> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut text = String::new();
            let _ = file.take(1000).read_to_string(&mut text);
            return Ok(Err(text.trim().to_owned()));
        }
        file.set_len(0)?;
        writeln!(file, "{holder}")?;
        Ok(Ok(Lock(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(directory: &Path) -> Result<Vec<String>, String> {
        read_files(directory).map(|files| files.into_keys().collect()).map_err(|why| why.to_string())
    }

    #[test]
    fn files_are_found_with_their_permissions() {
        let top = tempfile::tempdir().unwrap();
        let path = |name: &str| top.path().join(name);
        std::fs::create_dir(path("frr")).unwrap();
        for name in ["router.click", "frr/zebra.conf", ".hidden", "router.click~"] {
            std::fs::write(path(name), name).unwrap();
        }
        std::fs::set_permissions(path("frr/zebra.conf"), std::fs::Permissions::from_mode(0o600)).unwrap();
        let files = read_files(top.path()).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["frr/zebra.conf", "router.click"]);
        assert!(files["frr/zebra.conf"].is_secret() && files["router.click"].bytes == b"router.click");
    }

    #[test]
    fn what_is_no_file_is_refused_with_its_place() {
        let top = tempfile::tempdir().unwrap();
        let link = top.path().join("link");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert!(read(top.path()).unwrap_err().contains("link: a symbolic link cannot be saved"));
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        assert!(read(top.path()).unwrap_err().contains("a symbolic link"));
        std::fs::remove_file(&link).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(&link).unwrap();
        assert!(read(top.path()).unwrap_err().contains("a socket"));
        drop(socket);
        std::fs::remove_file(&link).unwrap();
        let file = std::fs::File::create(top.path().join("long")).unwrap();
        file.set_len(LONGEST + 1).unwrap();
        assert!(read(top.path()).unwrap_err().contains("long: a file has at most 16 MiB"));
        assert!(read(&top.path().join("none")).unwrap_err().contains("none: No such file"));
    }

    #[test]
    fn a_lock_says_who_holds_it_and_ends_with_its_holder() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("lock");
        let lock = Lock::take(&path, "ann (process 1)").unwrap().unwrap();
        assert_eq!(Lock::take(&path, "bob").unwrap().unwrap_err(), "ann (process 1)");
        drop(lock);
        assert!(Lock::take(&path, "bob").unwrap().is_ok());
    }
}
