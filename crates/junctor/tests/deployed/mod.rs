// SPDX-License-Identifier: MIT OR Apache-2.0
//! A deployment for tests of its channels.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use testbed::rig::wait_for;

pub const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A deployment whose supervisor is ended with the test.
pub struct Deployment {
    name: String,
    pub directory: tempfile::TempDir,
    pub up: Child,
}

impl Deployment {
    /// Starts one: `router` is the text of `router.click`.
    pub fn start(kind: &str, text: &str, router: &str) -> Deployment {
        Deployment::start_with(kind, text, router, &[])
    }

    /// Starts one with more files in its directory.
    pub fn start_with(kind: &str, text: &str, router: &str, files: &[(&str, &str)]) -> Deployment {
        let name = format!("{kind}{}", std::process::id());
        let directory = tempfile::tempdir().expect("a directory");
        for (name, content) in files.iter().chain(&[("router.click", router)]) {
            std::fs::write(directory.path().join(name), content).expect("room");
        }
        std::fs::write(directory.path().join("d.toml"), format!("name = \"{name}\"\n{text}")).expect("room");
        let up = up(directory.path());
        Deployment { name, directory, up }
    }

    /// A file of the deployment.
    pub fn file(&self, name: &str) -> PathBuf {
        Path::new("/run/junctor").join(&self.name).join(name)
    }

    /// Runs a command of a program in the deployment.
    pub fn run(&self, words: &[&str]) -> Output {
        Command::new(JUNCTOR).args(words).env("JUNCTOR_ICC", self.file("domain")).output().expect("junctor")
    }

    /// The process of a plane.
    pub fn pid(&self, plane: &str) -> String {
        let text = std::fs::read_to_string(self.file(&format!("{plane}.pid"))).unwrap_or_default();
        text.split(' ').next().unwrap_or("").to_owned()
    }

    /// Kills a plane, and waits for the next process.
    pub fn kill(&self, plane: &str) {
        let before = self.pid(plane);
        assert!(Command::new("kill").args(["-9", &before]).status().expect("kill").success());
        wait_for("another process", PATIENCE, || ![before.as_str(), ""].contains(&&*self.pid(plane)))
            .expect("one");
    }

    /// Kills the supervisor.
    pub fn kill_supervisor(&mut self) {
        self.up.kill().expect("it runs");
        self.up.wait().expect("it ended");
    }

    /// Starts it again.
    pub fn start_supervisor(&mut self) {
        self.up = up(self.directory.path());
    }
}

fn up(directory: &Path) -> Child {
    let mut command = Command::new(JUNCTOR);
    command.arg("up").arg(directory.join("d.toml")).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("junctor")
}

impl Drop for Deployment {
    fn drop(&mut self) {
        // One that was just started may not listen yet. By a signal it takes its planes down, or leaves them to the command below.
        let _ = Command::new("kill").args(["-TERM", &self.up.id().to_string()]).status();
        let _ = wait_for("the planes' end", PATIENCE, || matches!(self.up.try_wait(), Ok(Some(_)) | Err(_)));
        let _ = self.up.kill();
        let _ = self.up.wait();
        let _ = Command::new(JUNCTOR).args(["down", "--deployment", &self.name]).output();
        let _ = std::fs::remove_dir_all(self.file(""));
    }
}

/// All that a command has printed.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
