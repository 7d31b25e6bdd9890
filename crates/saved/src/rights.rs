// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that a process may not read: whose they are, and how that is put right.

use std::io;

/// Why this process may not read a file or directory, and the remedy. A service of systemd has not all rights of root: it reads files of others by
/// their permissions alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// The file, as people know it.
    pub path: String,
    /// Its user and group.
    pub owner: (u32, u32),
    /// Its permissions.
    pub mode: u32,
    /// The user and group of this process.
    pub reader: (u32, u32),
}

impl Forbidden {
    /// For this process.
    #[must_use]
    pub fn here(path: &str, owner: (u32, u32), mode: u32) -> Forbidden {
        let reader = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Forbidden { path: path.to_owned(), owner, mode: mode & 0o777, reader }
    }

    /// Whether this is why a file could not be read: `why` is what the kernel says.
    #[must_use]
    pub fn is_it(why: &io::Error) -> bool {
        why.kind() == io::ErrorKind::PermissionDenied
    }
}

impl std::error::Error for Forbidden {}

impl std::fmt::Display for Forbidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Forbidden { path, owner: (user, group), mode, reader: (reader, its_group) } = self;
        write!(
            f,
            "{path} belongs to user {user} and group {group} with mode {mode:o}, and this process, user {reader}, may not read it; \
             for the owner and this process to read it: `chgrp {its_group} {path}; chmod g+rX {path}`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_whose_a_file_is_and_what_helps() {
        let why = Forbidden { path: "keys/a".into(), owner: (100, 101), mode: 0o600, reader: (0, 2) };
        assert_eq!(
            why.to_string(),
            "keys/a belongs to user 100 and group 101 with mode 600, and this process, user 0, may not read it; for the owner and this \
             process to read it: `chgrp 2 keys/a; chmod g+rX keys/a`"
        );
        assert!(Forbidden::is_it(&io::Error::from_raw_os_error(13)));
        assert!(!Forbidden::is_it(&io::Error::from_raw_os_error(2)));
    }
}
