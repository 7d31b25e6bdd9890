// SPDX-License-Identifier: MIT OR Apache-2.0
//! Actions that no element takes, planted in threads of a confined process: the example `deed`.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// Has a process of its own do it, with this directory within reach.
fn done(deed: &str, directory: &Path) -> Output {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let mut this = Command::new(built.join("examples/deed"));
    this.args(deed.split(' ')).arg(directory).output().unwrap()
}

#[test]
fn a_planted_deed_is_refused_and_reported() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("secret"), "s").unwrap();
    let fatal = junctor_confine::trap::STATUS;
    let check = |deed: &str, status: i32, words: &[&str]| {
        let output = done(deed, temp.path());
        let said = String::from_utf8_lossy(&output.stderr);
        for word in words {
            assert!(said.contains(word), "{deed}: {word}: {said}");
        }
        assert_eq!(output.status.code(), Some(status), "{deed}: {said}");
    };
    let refused = |call: &str| format!("the thread worker-0 (worker) made the system call {call}, which");
    for deed in ["nothing", "pipe"] {
        check(&format!("worker {deed}"), 0, &["it went well"]);
    }
    for (deed, call) in [("file", "openat"), ("socket", "socket"), ("mount", "chroot"), ("write", "openat")] {
        check(&format!("worker {deed}"), fatal, &[&refused(call), "the router ends"]);
    }
    // The C library blocks all signals while it starts a thread, so the kernel ends the process itself.
    assert_eq!(done("worker thread", temp.path()).status.signal(), Some(31));
    check("files file", 0, &["it went well"]);
    check("files elsewhere", 0, &["it failed: Permission denied"]);
    check("files write", 0, &["it failed: Permission denied"]);
    check("files socket", fatal, &[&refused("socket")]);
    check("sockets socket", 0, &["it went well"]);
    for deed in ["file", "socket", "thread"] {
        check(&format!("service {deed}"), 0, &["it went well"]);
    }
    for deed in ["elsewhere", "write"] {
        check(&format!("service {deed}"), 0, &["it failed: Permission denied"]);
    }
    // Without a program that may be started, the call is filtered, in the process that would become the program.
    check("service program", 0, &["it failed: signal: 31"]);
    check("starter program", 0, &["it failed: Permission denied"]);
    for role in ["main", "recorder"] {
        for deed in ["file", "thread", "pipe"] {
            check(&format!("{role} {deed}"), 0, &["it went well"]);
        }
        for (deed, call) in [("socket", "socket"), ("mount", "chroot")] {
            let said = format!(
                "({role}) made the system call {call}, which its role does not allow; it was refused"
            );
            check(&format!("{role} {deed}"), 0, &[&said, "it failed: Operation not permitted"]);
        }
        check(&format!("{role} elsewhere"), 0, &["it failed: Permission denied"]);
        // It could not even wait for one.
        check(&format!("{role} program"), 0, &["it failed: Operation not permitted"]);
    }
    let said = "(service) made the system call chroot, which its role does not allow; it was refused";
    check("service mount", 0, &[said, "it failed: Operation not permitted"]);
}
