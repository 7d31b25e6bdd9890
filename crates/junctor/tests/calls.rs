// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handler calls by a channel of a deployment, from a program in it, while processes on either side are killed.

mod deployed;

use std::process::{Command, Output};

use testbed::rig::wait_for;

use deployed::{Deployment, JUNCTOR, PATIENCE, said};

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

fn ctl(deployment: &Deployment, words: &[&str]) -> Output {
    deployment.run(&[&["ctl", "--channel", "steer"], words].concat())
}

/// Calls again until somebody answers.
fn wait_until_called(deployment: &Deployment) {
    wait_for("an answer", PATIENCE, || ctl(deployment, &["s.class"]).stdout == b"Switch\n")
        .unwrap_or_else(|e| panic!("{e}: {:?}", ctl(deployment, &["s.class"])));
}

#[test]
fn handlers_are_called_by_a_channel() {
    if testbed::rig::skip_without("handlers_are_called_by_a_channel", &[]) {
        return;
    }
    let mut deployment = Deployment::start("calls", TEXT, ROUTER);
    wait_until_called(&deployment);
    assert_eq!(said(&ctl(&deployment, &["rt.add", "11.0.0.0/8", "0"])), "");
    let table = said(&ctl(&deployment, &["rt.table"]));
    assert!(table.contains("11.0.0.0/8"), "{table}");
    assert!(said(&ctl(&deployment, &["rt.add", "nonsense"])).contains("nonsense"));
    assert!(said(&ctl(&deployment, &["x.count"])).contains("No element named 'x'"));
    // More than a message, each way.
    let configuration = format!("{}// {}", ROUTER, "x".repeat(300_000));
    let file = deployment.directory.path().join("next.click");
    std::fs::write(&file, configuration).expect("room");
    let done = ctl(&deployment, &["hotconfig", &file.display().to_string()]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(ctl(&deployment, &["config"]).stdout.len() > 300_000);
    // Other commands know the channel, too.
    let file = deployment.directory.path().join("router.click");
    let apply = deployment.run(&["apply", "--channel", "steer", &file.display().to_string()]);
    assert!(apply.status.success(), "{}", said(&apply));

    // The router is replaced.
    deployment.kill("user");
    wait_until_called(&deployment);
    // The supervisor, and with it the domain, is replaced while a client is connected. Nobody reports the client's end to the router.
    let node = icc::Node::connect(deployment.file("domain"), icc::NodeId::new(0, 1)).expect("a domain");
    let ends = || (node.sender("steer.calls"), node.receiver("steer.answers"));
    let free = || matches!(ends(), (Ok(_), Ok(_)));
    wait_for("the last client's end", PATIENCE, free).expect("free seats");
    let (Ok(sender), Ok(receiver)) = ends() else { panic!("the seats are taken") };
    let client = icc::Stream::client(sender, receiver, PATIENCE).expect("a server");
    let router = deployment.pid("user");
    deployment.kill_supervisor();
    drop(client);
    deployment.start_supervisor();
    wait_until_called(&deployment);
    assert_eq!(deployment.pid("user"), router, "the router went on");
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
