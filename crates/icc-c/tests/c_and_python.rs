// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs in C and in Python talk to this process, which serves the domain; and the header is that of the source.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use icc::{Domain, Endpoint, NodeId, Width};

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const LONG: Option<Duration> = Some(Duration::from_secs(60));

#[test]
fn the_header_is_that_of_the_source() {
    let config = cbindgen::Config::from_file(Path::new(HERE).join("cbindgen.toml")).unwrap();
    let source = Path::new(HERE).join("src/lib.rs");
    let made = cbindgen::Builder::new().with_config(config).with_src(source).generate().unwrap();
    let mut header = Vec::new();
    made.write(&mut header);
    let path = Path::new(HERE).join("include/junctor_icc.h");
    if std::env::var_os("JUNCTOR_BLESS").is_some() {
        std::fs::write(&path, &header).unwrap();
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    assert!(kept == header, "{} is old: run this test with JUNCTOR_BLESS=1", path.display());
}

/// The C library, which cargo builds for this package's tests and puts next to their programs or above.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let found =
        program.ancestors().skip(1).take(2).map(|dir| dir.join("libjunctor_icc_c.so")).find(|f| f.exists());
    found.expect("cargo has built libjunctor_icc_c.so for this test")
}

/// Whether a program is there; if not, a test of it is skipped.
fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let there = there.is_ok_and(|status| status.success());
    if !there {
        println!("skipped: no {program}");
    }
    there
}

/// Sends messages to a program that sends them back.
fn talk(name: &str, command: impl FnOnce(&str) -> Command) {
    let place = format!("@junctor-icc-{name}-{}", std::process::id());
    let endpoints = [
        Endpoint::messages(1, "there", 200, 16),
        Endpoint::messages(2, "back", 200, 16),
        Endpoint::scalars(3, "lengths", Width::Bits16, 64),
        Endpoint::counters(4, "counts", 8),
    ];
    let domain = Domain::serve(NodeId::new(7, 1), &endpoints, Some(place.as_ref())).unwrap();
    let node = domain.node(1).unwrap();
    let (mut there, mut back) = (node.sender("there").unwrap(), node.receiver("back").unwrap());
    let (mut lengths, counts) =
        (node.scalar_receiver("lengths").unwrap(), node.counter_reader("counts").unwrap());
    let mut child = command(&place).stdin(Stdio::null()).spawn().unwrap();
    let mut total = 0;
    for length in [1usize, 7, 8, 55, 56, 57, 200, 0] {
        let message: Vec<u8> = (0..length).map(|at| at as u8 ^ length as u8).collect();
        there.send(&message).unwrap();
        while !back.wait(LONG).unwrap() {
            assert!(child.try_wait().unwrap().is_none(), "{name} has ended early");
        }
        let mut buffer = [0; 200];
        assert_eq!(back.receive(&mut buffer), Ok(Some(length)));
        assert_eq!(buffer[..length], message);
        assert_eq!(lengths.receive(), Ok(Some(length as u64)));
        total += length as u64;
    }
    assert!(child.wait().unwrap().success());
    let mut counted = Vec::new();
    assert_eq!((counts.read(&mut counted), counted), (Ok(8), vec![8, total]));
}

#[test]
fn a_program_in_c_talks_to_this_one() {
    if !has("cc") {
        return;
    }
    let (library, dir) = (library(), tempfile::tempdir().unwrap());
    let program = dir.path().join("echo");
    let built = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", "include", "tests/echo.c", "-o"])
        .arg(&program)
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()))
        .current_dir(HERE)
        .status();
    assert!(built.unwrap().success());
    talk("c", |place| {
        let mut command = Command::new(&program);
        command.arg(place);
        command
    });
}

#[test]
fn a_program_in_python_talks_to_this_one() {
    if !has("python3") {
        return;
    }
    let library = library();
    talk("python", |place| {
        let mut command = Command::new("python3");
        command.args(["-B", "tests/echo.py", place]).current_dir(HERE);
        command.env("PYTHONPATH", "python").env("JUNCTOR_ICC_LIBRARY", &library);
        command
    });
}
