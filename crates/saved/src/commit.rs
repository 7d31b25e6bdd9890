// SPDX-License-Identifier: MIT OR Apache-2.0
//! A commit: the files of a configuration, and who saved them, when and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A file of a configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// What is in it.
    pub bytes: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
    /// Its user and group.
    pub owner: (u32, u32),
}

// The content may be a key.
impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({} bytes, {:o})", self.bytes.len(), self.mode)
    }
}

impl File {
    /// Whether its content is shown to nobody: only its owner may read it.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        is_secret(self.mode)
    }

    fn sha256(&self) -> String {
        Sha256::digest(&self.bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

fn is_secret(mode: u32) -> bool {
    mode & 0o077 == 0
}

/// The files of a configuration by their paths in its directory, such as `frr/zebra.conf`.
pub type Files = BTreeMap<String, File>;

/// Whether a text is a path of a configuration's file: names without `.` and `..`, separated by single slashes.
#[must_use]
pub fn is_path(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains('\0');
    path.split('/').all(is_name)
}

/// A file as a commit remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its path in the directory.
    pub path: String,
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
    /// Its permissions.
    pub mode: u32,
    /// Its user and group.
    pub owner: (u32, u32),
}

impl Entry {
    /// Of a file.
    #[must_use]
    pub fn of(path: &str, file: &File) -> Entry {
        let (bytes, mode, owner) = (file.bytes.len() as u64, file.mode, file.owner);
        Entry { path: path.to_owned(), sha256: file.sha256(), bytes, mode, owner }
    }

    /// Whether its content is shown to nobody.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        is_secret(self.mode)
    }
}

/// Who made a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The user's number.
    pub uid: u32,
    /// The user's name.
    pub user: String,
    /// Who became that user by `sudo`, or asked the management API that runs as that user.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sudo_user: Option<String>,
}

impl std::fmt::Display for Author {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.sudo_user {
            Some(by) => write!(f, "{by} (as {})", self.user),
            None => f.write_str(&self.user),
        }
    }
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum State {
    /// It was saved, and is not confirmed.
    Pending,
    /// It was confirmed, and boots while no later one is confirmed.
    Confirmed,
    /// It could not be put into service.
    Failed {
        /// Why.
        why: String,
    },
    /// It was in service, and the commit before it came back.
    Returned {
        /// Why.
        why: String,
    },
}

impl State {
    /// Its word in tables.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Confirmed => "confirmed",
            State::Failed { .. } => "failed",
            State::Returned { .. } => "returned",
        }
    }
}

/// A commit in service that waits to be confirmed, as it is saved for the next service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Its number.
    pub commit: u64,
    /// The one that comes back.
    pub parent: u64,
    /// When that happens, in milliseconds since the machine was started.
    pub until_ms: u64,
    /// Which start of the machine that is.
    pub boot: String,
}

/// What is said about files to be saved.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Why the change is made.
    pub comment: String,
    /// Who makes it.
    pub author: Author,
    /// Seconds since 1970.
    pub time_s: u64,
    /// The commit that the files were edited from.
    pub parent: Option<u64>,
    /// The commit before it comes back unless somebody confirms it in so many milliseconds.
    pub confirm_within_ms: Option<u64>,
}

/// A saved configuration, without the content of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Its number.
    pub number: u64,
    /// Why the change was made.
    pub comment: String,
    /// Who made it.
    pub author: Author,
    /// When, in seconds since 1970.
    pub time_s: u64,
    /// The commit that it was made from; the first one has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<u64>,
    /// The commit before it comes back unless somebody confirms it in so many milliseconds. It is saved with the files, so a
    /// commit that has to be confirmed stays one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confirm_within_ms: Option<u64>,
    /// What became of it.
    pub state: State,
    /// Its files, in order.
    pub files: Vec<Entry>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_directory() {
        for good in ["a", "router.click", "frr/zebra.conf", "..a", "a b"] {
            assert!(is_path(good), "{good}");
        }
        for bad in ["", "/a", "a/", "a//b", "../a", "a/../b", ".", "a/./b", "a\0"] {
            assert!(!is_path(bad), "{bad}");
        }
    }

    #[test]
    fn a_file_is_secret_if_only_its_owner_reads_it() {
        let file = |mode| File { bytes: b"abc".to_vec(), mode, owner: (0, 0) };
        assert!(file(0o600).is_secret() && file(0o400).is_secret());
        assert!(!file(0o640).is_secret() && !file(0o644).is_secret());
        // FIPS 180-2, appendix B.1.
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Entry::of("x", &file(0o644)).sha256, sum);
        assert_eq!(format!("{:?}", file(0o600)), "File(3 bytes, 600)");
    }
}
