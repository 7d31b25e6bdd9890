// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that configurations and rule files name, where they must not be opened: an editor checks texts from anywhere.

use std::cell::Cell;
use std::path::Path;

thread_local! {
    static UNREAD: Cell<bool> = const { Cell::new(false) };
}

/// How the message ends about a file that was not read.
pub const NOT_READ: &str = "files that a configuration names are not read here";

/// Runs `f`. Meanwhile this thread reads no file that a configuration or a rule file names.
pub fn without_files<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            UNREAD.set(self.0);
        }
    }
    let _restore = Restore(UNREAD.replace(true));
    f()
}

/// Whether a file that a configuration names may be read.
///
/// # Errors
/// Not here: see [`without_files`].
pub fn may_read(path: &Path) -> Result<(), String> {
    if UNREAD.get() { Err(format!("'{}': {NOT_READ}", path.display())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again_afterwards() {
        let read = || crate::bounded(Path::new("Cargo.toml"));
        let inside = without_files(|| (without_files(read), read()));
        assert!(inside.0.unwrap_err().ends_with(NOT_READ) && inside.1.unwrap_err().ends_with(NOT_READ));
        assert!(std::panic::catch_unwind(|| without_files(|| panic!("as planned"))).is_err());
        assert!(read().is_ok());
    }
}
