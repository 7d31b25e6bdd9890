// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every shipped configuration checks cleanly and carries packets on in-memory devices.

use std::path::Path;
use std::process::Command;

fn junctor(args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_junctor")).args(args).output().expect("the program runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn shipped_configurations_work() {
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf");
    let files = std::fs::read_dir(conf).expect("conf").flatten().map(|e| e.path());
    let mut files: Vec<_> = files.filter(|p| p.extension().is_some_and(|x| x == "click")).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let file = file.to_string_lossy();
        let (good, said) = junctor(&["check", &file]);
        assert!(good && said.is_empty(), "{file}\n{said}");
        let (good, said) = junctor(&["bench", "engine", "--runs", "1", "--run-ms", "50", &file]);
        assert!(good, "{file}\n{said}");
    }
}
