// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handler calls by a channel of a deployment, from a program in it, while processes on either side are killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use lab::rig::wait_for;

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

const TEXT: &str = r#"
[planes.user]
kind = "user"
config = "router.click"
arguments = ["-R"]
backoff = "1ms"
backoff_max = "1ms"
[channels.steer]
kind = "calls"
plane = "user"
"#;

const ROUTER: &str =
    "Idle -> s :: Switch(0) -> rt :: RadixIPLookup(10.0.0.0/8 0) -> Discard; s[1] -> Discard;";

/// A deployment whose supervisor is ended with the test.
struct Deployment {
    name: String,
    directory: tempfile::TempDir,
    up: Child,
}

impl Deployment {
    fn new() -> Deployment {
        let name = format!("calls{}", std::process::id());
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("router.click"), ROUTER).expect("room");
        std::fs::write(directory.path().join("d.toml"), format!("name = \"{name}\"\n{TEXT}")).expect("room");
        let up = up(directory.path());
        let deployment = Deployment { name, directory, up };
        deployment.wait_until_called();
        deployment
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new("/run/junctor").join(&self.name).join(name)
    }

    fn ctl(&self, words: &[&str]) -> Output {
        let mut command = Command::new(JUNCTOR);
        command.args(["ctl", "--channel", "steer"]).args(words);
        command.env("JUNCTOR_ICC", self.file("domain")).output().expect("junctor")
    }

    /// Calls again until somebody answers.
    fn wait_until_called(&self) {
        wait_for("an answer", PATIENCE, || self.ctl(&["s.class"]).stdout == b"Switch\n")
            .unwrap_or_else(|e| panic!("{e}: {:?}", self.ctl(&["s.class"])));
    }

    fn pid(&self) -> String {
        let text = std::fs::read_to_string(self.file("user.pid")).unwrap_or_default();
        text.split(' ').next().unwrap_or("").to_owned()
    }
}

fn up(directory: &Path) -> Child {
    let mut command = Command::new(JUNCTOR);
    command.arg("up").arg(directory.join("d.toml")).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("junctor")
}

impl Drop for Deployment {
    fn drop(&mut self) {
        let _ = Command::new(JUNCTOR).args(["down", "--deployment", &self.name]).output();
        let _ = self.up.wait();
        let _ = std::fs::remove_dir_all(self.file(""));
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn handlers_are_called_by_a_channel() {
    if lab::rig::skip_without("handlers_are_called_by_a_channel", &[]) {
        return;
    }
    let mut deployment = Deployment::new();
    assert_eq!(said(&deployment.ctl(&["rt.add", "11.0.0.0/8", "0"])), "");
    let table = said(&deployment.ctl(&["rt.table"]));
    assert!(table.contains("11.0.0.0/8"), "{table}");
    assert!(said(&deployment.ctl(&["rt.add", "nonsense"])).contains("nonsense"));
    assert!(said(&deployment.ctl(&["x.count"])).contains("No element named 'x'"));
    // More than a message, each way.
    let configuration = format!("{}// {}", ROUTER, "x".repeat(300_000));
    let file = deployment.directory.path().join("next.click");
    std::fs::write(&file, configuration).expect("room");
    let done = deployment.ctl(&["hotconfig", &file.display().to_string()]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(deployment.ctl(&["config"]).stdout.len() > 300_000);
    // Other commands know the channel, too.
    let apply = Command::new(JUNCTOR)
        .args(["apply", "--channel", "steer"])
        .arg(deployment.directory.path().join("router.click"))
        .env("JUNCTOR_ICC", deployment.file("domain"))
        .output()
        .expect("junctor");
    assert!(apply.status.success(), "{}", said(&apply));

    // The router is replaced.
    let before = deployment.pid();
    assert!(Command::new("kill").args(["-9", &before]).status().expect("kill").success());
    wait_for("another router", PATIENCE, || ![before.as_str(), ""].contains(&&*deployment.pid()))
        .expect("one");
    deployment.wait_until_called();
    // The supervisor, and with it the domain, is replaced while a client is connected, whose end nobody tells the router.
    let node = icc::Node::connect(deployment.file("domain"), icc::NodeId::new(0, 1)).expect("a domain");
    let ends = || (node.sender("steer.calls"), node.receiver("steer.answers"));
    let free = || matches!(ends(), (Ok(_), Ok(_)));
    wait_for("the last client's end", PATIENCE, free).expect("free seats");
    let (Ok(sender), Ok(receiver)) = ends() else { panic!("the seats are taken") };
    let client = icc::Stream::client(sender, receiver, PATIENCE).expect("a server");
    let router = deployment.pid();
    deployment.up.kill().expect("it runs");
    deployment.up.wait().expect("it ended");
    drop(client);
    deployment.up = up(deployment.directory.path());
    deployment.wait_until_called();
    assert_eq!(deployment.pid(), router, "the router went on");
}

#[test]
fn a_channel_that_nobody_has_is_named() {
    let ctl = |place: Option<&str>| {
        let mut command = Command::new(JUNCTOR);
        command.args(["ctl", "--channel", "steer", "list"]).env_remove("JUNCTOR_ICC");
        command.envs(place.map(|place| ("JUNCTOR_ICC", place)));
        let output = command.output().expect("junctor");
        assert_eq!(output.status.code(), Some(1));
        said(&output)
    };
    assert!(ctl(None).contains("was not started by 'junctor up'"), "{}", ctl(None));
    assert!(ctl(Some("/no/domain")).contains("/no/domain"), "{}", ctl(Some("/no/domain")));
}
