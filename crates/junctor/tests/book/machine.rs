// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine for a page of the book: its commands run as a new user types them.

use std::time::Duration;

use testbed::pages;
use testbed::process::{Output, Process};
use testbed::rig::Namespace;

pub const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A machine of its own: a namespace, and a place for what runs.
pub struct Machine {
    namespace: Namespace,
    /// Has `/run` to itself, as long as it lives.
    holder: Process,
    files: tempfile::TempDir,
}

impl Machine {
    pub fn new(namespace: Namespace) -> Machine {
        let mount = "mount -t tmpfs none /run && echo ready && exec sleep 3600";
        let mut holder = namespace.spawn(&["unshare", "-m", "sh", "-c", mount]).unwrap();
        holder.wait_for_text("ready", PATIENCE).unwrap();
        let files = tempfile::tempdir().unwrap();
        let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        // FRR's daemons are another user's.
        std::fs::set_permissions(files.path(), open(0o755)).unwrap();
        // Root needs no sudo, and a container may have none. Nobody watches the pings.
        for (program, text) in [("sudo", "exec \"$@\""), ("ping", "PATH=${PATH#*:} exec ping -i 0.3 \"$@\"")]
        {
            let at = files.path().join(program);
            std::fs::write(&at, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&at, open(0o755)).unwrap();
        }
        let conf = pages::root().join("conf").canonicalize().unwrap();
        for (name, at) in [("junctor", JUNCTOR.as_ref()), ("click", JUNCTOR.as_ref()), ("conf", &*conf)] {
            std::os::unix::fs::symlink(at, files.path().join(name)).unwrap();
        }
        Machine { namespace, holder, files }
    }

    /// The words that run commands of the page.
    fn words(&self, commands: &str) -> [String; 5] {
        let at = self.files.path().display();
        let mount = format!("--mount=/proc/{}/ns/mnt", self.holder.id());
        let script = format!("cd {at}\nPATH={at}:$PATH\n{}", commands.replace("/tmp/", &format!("{at}/")));
        ["nsenter".into(), mount, "sh".into(), "-c".into(), script]
    }

    /// What commands print; they must succeed.
    pub fn run(&self, line: &str) -> Result<String, String> {
        let words = self.words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.namespace.run(&words).map_err(|why| why.to_string())
    }

    /// A file that a page has written.
    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.files.path().join(name)).unwrap_or_default()
    }

    /// Starts a command that stays.
    pub fn start(&self, line: &str) -> Process {
        let words = self.words(&format!("exec {line}"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.namespace.spawn(&words).unwrap()
    }
}

/// A deployment that runs: a supervisor that is killed would leave its planes.
pub struct Up(pub Option<Process>);

impl Up {
    pub fn end(&mut self) -> Option<Output> {
        self.0.take().map(|process| process.interrupt(PATIENCE).unwrap())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            let _ = process.interrupt(PATIENCE);
        }
    }
}
