// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of what packages are made from: units, scripts and lists of files. The test in a clean Debian is `make install-test`.

use std::path::Path;
use std::process::{Command, Output};

/// Each unit with the highest exposure that `systemd-analyze security` may find, in tenths. Template units are looked at as one instance.
const UNITS: [(&str, Option<u32>); 3] =
    [("junctor@.service", Some(45)), ("junctor-manage.service", Some(25)), ("junctor-manage.socket", None)];

/// The units in a directory of their own, with a program that is there. None: systemd is not here.
fn units() -> Option<tempfile::TempDir> {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("skipped: systemd-analyze is not here");
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    for (unit, _) in UNITS {
        let text = std::fs::read_to_string(crate::root().join("packaging/systemd").join(unit)).unwrap();
        std::fs::write(place.path().join(unit), text.replace("/usr/bin/junctor", "/bin/true")).unwrap();
    }
    Some(place)
}

fn analyze(place: &Path, words: &[&str]) -> (bool, String) {
    let Output { status, stdout, stderr } =
        Command::new("systemd-analyze").args(words).current_dir(place).output().unwrap();
    (status.success(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

#[test]
fn units_are_as_systemd_wants_them() {
    let Some(place) = units() else { return };
    let names = UNITS.map(|(unit, _)| unit);
    let words: Vec<&str> = ["verify", "--man=no"].into_iter().chain(names).collect();
    let (sound, said) = analyze(place.path(), &words);
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("junctor")).collect();
    assert!(sound && ours.is_empty(), "{said}");
}

#[test]
fn units_are_fenced() {
    let Some(place) = units() else { return };
    for (unit, exposure) in UNITS {
        let Some(exposure) = exposure else { continue };
        let (threshold, file) = (format!("--threshold={exposure}"), format!("./{unit}"));
        let (sound, said) =
            analyze(place.path(), &["security", "--offline=true", "--no-pager", &threshold, &file]);
        assert!(sound, "{said}");
    }
}

#[test]
fn every_file_of_the_package_is_there() {
    let root = crate::root();
    let manifest = std::fs::read_to_string(root.join("crates/junctor/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().unwrap();
    for asset in assets {
        let source = asset[0].as_str().unwrap();
        let Some(path) = source.strip_prefix("../../").filter(|path| !path.starts_with("target/")) else {
            continue;
        };
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let end = name.trim_start_matches('*');
        let found =
            std::fs::read_dir(root.join(directory)).unwrap_or_else(|why| panic!("{directory}: {why}"));
        let fits = |file: String| if name.starts_with('*') { file.ends_with(end) } else { file == name };
        assert!(
            found.flatten().any(|file| fits(file.file_name().into_string().unwrap())),
            "{source} names no file"
        );
    }
}

#[test]
fn shell_scripts_can_be_read() {
    let root = crate::root();
    let scripts = std::fs::read_dir(root.join("scripts"))
        .unwrap()
        .chain(std::fs::read_dir(root.join("packaging/debian")).unwrap());
    let mut read = 0;
    for script in scripts.flatten().map(|entry| entry.path()) {
        if std::fs::read(&script).is_ok_and(|text| text.starts_with(b"#!/bin/sh")) {
            let checked = Command::new("sh").arg("-n").arg(&script).output().unwrap();
            assert!(
                checked.status.success(),
                "{}: {}",
                script.display(),
                String::from_utf8_lossy(&checked.stderr)
            );
            read += 1;
        }
    }
    assert!(read >= 5);
}
