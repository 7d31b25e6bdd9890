// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding and reading the files that `require(library ...)` names.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Where a library lies: as given if absolute, else next to the file that requires it, else in `conf` below or directly in a directory of
/// the search path.
///
/// # Errors
/// The paths that were tried in vain.
pub(crate) fn find(name: &str, required_by: &str, search_path: &[PathBuf]) -> Result<PathBuf, Vec<PathBuf>> {
    let beside = Path::new(required_by).parent().unwrap_or(Path::new(""));
    let mut tried = Vec::new();
    if Path::new(name).is_absolute() {
        tried.push(PathBuf::from(name));
    } else {
        tried.push(beside.join(name));
        for directory in search_path {
            tried.push(directory.join("conf").join(name));
            tried.push(directory.join(name));
        }
    }
    match tried.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(tried),
    }
}

/// What makes two paths the same file.
pub(crate) fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// The text of a library, [`MOST_BYTES`](crate::MOST_BYTES) at most; bytes that aren't UTF-8 are replaced.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut data = Vec::new();
    std::fs::File::open(path)?.take(crate::MOST_BYTES + 1).read_to_end(&mut data)?;
    if data.len() as u64 > crate::MOST_BYTES {
        return Err(io::Error::other(format!("larger than {} MiB", crate::MOST_BYTES >> 20)));
    }
    Ok(String::from_utf8_lossy(&data).into_owned())
}
