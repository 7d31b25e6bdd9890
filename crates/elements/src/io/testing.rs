// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests of input and output need: temporary files and devices without a machine.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that goes with the test.
pub struct Temp(PathBuf);

impl Temp {
    /// Makes one.
    pub fn new() -> Temp {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("junctor-elements-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Temp(path)
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file in it and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), content).expect("a temporary file");
        self.path(name)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
