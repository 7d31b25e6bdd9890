// SPDX-License-Identifier: MIT OR Apache-2.0
//! Named pipes where a file is expected: as the configuration itself they work, and one without another end stops no router.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().expect("a directory"))
    }

    /// A named pipe that nobody has opened.
    fn pipe(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        path
    }
}

fn junctor(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.args(args).stdin(Stdio::null());
    command
}

fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Runs a configuration whose element names a pipe without another end; returns what is said of it.
fn refused(config: &str) -> String {
    let out = junctor(&["run", "--quit", "-j", "1", "--control", "none", "-e", config]).output().unwrap();
    assert!(!out.status.success(), "{config}: {}", text(&out));
    text(&out)
}

#[test]
fn a_configuration_may_come_by_a_pipe() {
    let dir = Dir::new();
    for command in ["check", "run --quit --control none"] {
        let pipe = dir.pipe(command.split(' ').next().unwrap_or(""));
        let run = junctor(&command.split(' ').collect::<Vec<_>>()).arg(&pipe).stderr(Stdio::piped()).spawn();
        std::fs::write(&pipe, "Idle -> Discard;").expect("it is read");
        let out = run.unwrap().wait_with_output().unwrap();
        assert!(out.status.success(), "{command}: {}", text(&out));
    }
    let shell = "exec \"$0\" check <(echo 'Idle -> Discard;')";
    match Command::new("bash").args(["-c", shell, env!("CARGO_BIN_EXE_junctor")]).output() {
        Ok(out) => assert!(out.status.success(), "{}", text(&out)),
        Err(why) => eprintln!("skipped: bash: {why}"),
    }
}

#[test]
fn an_element_does_not_wait_for_the_other_end() {
    let dir = Dir::new();
    let pipe = dir.pipe("alone");
    let name = pipe.display();
    for config in [
        format!("FromDump({name}) -> Discard"),
        format!("FromIPSummaryDump({name}) -> Discard"),
        format!("Idle -> StaticIPLookup(FILE {name}) -> Discard"),
    ] {
        let said = refused(&config);
        assert!(said.contains("nobody writes to it"), "{config}: {said}");
    }
    for config in [format!("Idle -> ToDump({name})"), format!("Idle -> ToIPSummaryDump({name})")] {
        let said = refused(&config);
        assert!(said.contains("nobody reads it"), "{config}: {said}");
    }
}

#[test]
fn a_library_is_no_pipe() {
    let dir = Dir::new();
    let pipe = dir.pipe("library.click");
    let said = refused(&format!("require(library {}); Idle -> Discard", pipe.display()));
    assert!(said.contains("library.click"), "{said}");
}

/// Scripts run on workers, which packets wait for.
#[test]
fn a_script_does_not_wait_for_the_other_end() {
    let dir = Dir::new();
    let pipe = dir.pipe("alone");
    let config = format!(
        "s :: Script(print >{0} \"x\", print $(cat {0}), print >{1} \"done\", stop)",
        pipe.display(),
        dir.0.path().join("end").display()
    );
    let out = junctor(&["run", "-j", "1", "--control", "none", "-e", &config]).output().unwrap();
    let end = std::fs::read_to_string(dir.0.path().join("end")).unwrap_or_default();
    assert_eq!(end.trim(), "done", "{}", text(&out));
    assert!(text(&out).contains("nobody reads it"), "{}", text(&out));
}

/// A reload, and another configuration whose element names such a pipe, are refused, and the router goes on.
#[test]
fn a_running_router_goes_on() {
    let dir = Dir::new();
    let pipe = dir.pipe("alone");
    let (socket, config) = (dir.0.path().join("ctl"), dir.0.path().join("router.click"));
    std::fs::write(&config, "i :: Idle -> Discard;").unwrap();
    let mut run = junctor(&["run", "-j", "1", "-R", "--control"]).args([&socket, &config]).spawn().unwrap();
    while !socket.exists() {
        assert!(run.try_wait().unwrap().is_none(), "it ended");
        std::thread::yield_now();
    }
    let ctl = |args: &[&str]| junctor(&["ctl", "--socket"]).arg(&socket).args(args).output().unwrap();
    let out = ctl(&["hotconfig", &format!("FromDump({}) -> Discard", pipe.display())]);
    assert!(!out.status.success());
    let said = text(&out) + &String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("nobody writes to it"), "{said}");
    let out = ctl(&["i.class"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "Idle", "{}", text(&out));
    assert!(ctl(&["stop"]).status.success());
    assert!(run.wait().unwrap().success());
    assert!(Path::new(&pipe).exists());
}
