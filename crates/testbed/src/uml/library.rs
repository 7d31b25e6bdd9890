// SPDX-License-Identifier: MIT OR Apache-2.0
//! A library that guests need on processors with AMX, see `xstate.c`. Tests that start guests by themselves have this file as a module, too.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the library in a directory, with the C compiler that Rust links by. `None` where it is not needed.
///
/// # Errors
/// It cannot be compiled.
pub fn make(directory: &Path) -> io::Result<Option<PathBuf>> {
    let processor = std::fs::read_to_string("/proc/cpuinfo")?;
    if !processor.split_whitespace().any(|flag| flag == "amx_tile") {
        return Ok(None);
    }
    let (source, library) = (directory.join("xstate.c"), directory.join("xstate.so"));
    std::fs::write(&source, include_str!("xstate.c"))?;
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).output()?;
    match compiled.status.success() {
        true => Ok(Some(library)),
        false => Err(io::Error::other(String::from_utf8_lossy(&compiled.stderr).into_owned())),
    }
}
