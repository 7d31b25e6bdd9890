// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine for a page of the book: its commands run as a new user types them.

use testbed::process::{Output, Process};
use testbed::rig::Namespace;

use crate::site::{JUNCTOR, PATIENCE};

/// The blocks of a language in a page.
pub fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    page.split(&*begin).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// Their lines.
pub fn lines<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let inside = blocks(page, language).into_iter();
    inside.flat_map(str::lines).filter(|line| !line.is_empty()).collect()
}

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
        std::os::unix::fs::symlink(JUNCTOR, files.path().join("junctor")).unwrap();
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
