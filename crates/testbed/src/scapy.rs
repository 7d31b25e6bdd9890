// SPDX-License-Identifier: MIT OR Apache-2.0
//! scapy, an independent maker and judge of packets, called by way of Python scripts.
//!
//! Needs a Python that can import scapy: `python3`, `/usr/bin/python3`, or the one that `JUNCTOR_PYTHON` names. A script
//! exits with [`NO_SCAPY`] where it cannot.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// How a script says that its Python has no scapy.
pub const NO_SCAPY: i32 = 77;

/// What `script` prints when called with these arguments; nothing, after a message, where there is no scapy.
///
/// # Panics
/// When the script fails.
pub fn ask(script: impl AsRef<Path>, arguments: &[&OsStr]) -> Option<String> {
    let named = std::env::var("JUNCTOR_PYTHON");
    let pythons = named.as_deref().map_or(vec!["python3", "/usr/bin/python3"], |python| vec![python]);
    for python in pythons {
        let output = Command::new(python).arg("-B").arg(script.as_ref()).args(arguments).output();
        let Ok(output) = output else { continue };
        match output.status.code() {
            Some(0) => return Some(String::from_utf8_lossy(&output.stdout).into_owned()),
            Some(NO_SCAPY) => {}
            _ => panic!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
    println!(
        "skipped: no Python that can import what {} does; set JUNCTOR_PYTHON",
        script.as_ref().display()
    );
    None
}
