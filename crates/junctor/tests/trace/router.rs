// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routers to look into.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A source of one packet again and again: UDP from 10.0.0.1 port 1000 to 10.0.1.9 port 53 behind an Ethernet header.
pub const SOURCE: &str = r"src :: RatedSource(DATA \<020000000001 020000000002 0800 4500001e 00010000 401165c5 0a000001 0a000109 03e80035 000ae40a aabb>, RATE 1000)";

pub fn junctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_junctor")).args(args).output().expect("junctor")
}

/// A router that runs until it is dropped.
pub struct Running {
    child: Child,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl Running {
    pub fn start(text: &str, options: &[&str]) -> Running {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let child = Command::new(env!("CARGO_BIN_EXE_junctor"))
            .args(["run", "-w", "--time", "600", "--control"])
            .arg(&socket)
            .args(options)
            .args(["-e", text])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("junctor run");
        let running = Running { child, socket, _dir: dir };
        let give_up = Instant::now() + Duration::from_secs(60);
        while UnixStream::connect(&running.socket).is_err() {
            assert!(Instant::now() < give_up, "the router does not listen");
            std::thread::yield_now();
        }
        running
    }

    /// Its control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Output, standard error, and the status of a command about this router.
    pub fn ask(&self, args: &[&str]) -> (String, String, i32) {
        let mut all = vec![args[0], "--socket", self.socket.to_str().unwrap()];
        all.extend(&args[1..]);
        let output = junctor(&all);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
    }

    /// A command about this router that runs in the background, with pipes for what it says.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
        command.arg(args[0]).arg("--socket").arg(&self.socket).args(&args[1..]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("junctor")
    }

    /// The packets of a trace.
    pub fn trace(&self, args: &[&str]) -> Vec<Value> {
        let mut all = vec!["trace", "--json"];
        all.extend(args);
        let (out, why, status) = self.ask(&all);
        assert_eq!(status, 0, "{args:?}: {why}");
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
