// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor top` by a channel of statistics of a deployment, while processes on either side are killed.

mod deployed;
mod guests;

use std::process::{Command, Output};

use serde_json::Value;
use testbed::rig::wait_for;

use deployed::{Deployment, JUNCTOR, PATIENCE, said};

const TEXT: &str = r#"
[planes.user]
kind = "user"
config = "router.click"
arguments = ["--stats", "20ms"]
backoff = "1ms"
backoff_max = "1ms"
[channels.load]
kind = "statistics"
plane = "user"
[channels.small]
kind = "statistics"
plane = "user"
size = "4K"
"#;

/// Its statistics take more than 4 KiB.
const ROUTER: &str =
    "src :: RatedSource(RATE 1000) -> c :: Counter -> Counter -> Counter -> Counter -> Counter -> Counter
    -> Counter -> Counter -> Counter -> Counter -> Discard;";

/// One look by a channel, as JSON.
fn look(deployment: &Deployment, channel: &str) -> Result<Value, String> {
    let top = deployment.run(&["top", "--once", "--json", "--interval", "50ms", "--channel", channel]);
    match top.status.success() {
        true => serde_json::from_slice(&top.stdout).map_err(|why| why.to_string()),
        false => Err(said(&top)),
    }
}

/// One look at a router that goes on. Where others have its processors, there may be nothing new to see.
fn top(deployment: &Deployment, words: &[&str]) -> Output {
    let mut seen = None;
    wait_for("a look", PATIENCE, || {
        let top = seen.insert(deployment.run(&[&["top", "--once", "--interval", "50ms"], words].concat()));
        top.status.success()
    })
    .unwrap_or_else(|e| panic!("{e}: {:?}", seen.as_ref().map(said)));
    seen.expect("it was run")
}

/// The router's process.
fn pid(look: &Value) -> String {
    look["router"]["pid"].to_string()
}

/// Looks again until the router is seen whose process this is.
fn wait_until_seen(deployment: &Deployment) -> Value {
    let mut seen = None;
    wait_for("the router", PATIENCE, || {
        seen = look(deployment, "load").ok().filter(|found| pid(found) == deployment.pid("user"));
        seen.is_some()
    })
    .unwrap_or_else(|e| panic!("{e}: {:?}", look(deployment, "load")));
    seen.expect("it was seen")
}

/// The names of the elements.
fn elements(look: &Value) -> Vec<&str> {
    let elements = look["elements"].as_array().expect("elements").iter();
    elements.map(|element| element["name"].as_str().expect("a name")).collect()
}

#[test]
fn a_plane_reads_statistics_by_a_channel() {
    if testbed::rig::skip_without("a_plane_reads_statistics_by_a_channel", &[]) {
        return;
    }
    let deployment = Deployment::start("stats", TEXT, ROUTER);
    let seen = wait_until_seen(&deployment);
    // The file says the same.
    let socket = deployment.file("user.sock").display().to_string();
    let by_file = top(&deployment, &["--json", "--socket", &socket]);
    let by_file: Value = serde_json::from_slice(&by_file.stdout).expect("JSON");
    assert_eq!(elements(&seen), elements(&by_file));
    assert_eq!(seen["router"]["pid"], by_file["router"]["pid"]);
    let text = said(&top(&deployment, &["--channel", "load"]));
    assert!(text.contains("RatedSource"), "{text}");

    // What does not fit is said at both ends, and disturbs nobody.
    let short = look(&deployment, "small").expect_err("it has no room");
    assert!(short.contains("do not fit: they have") && short.contains("give it size = \""), "{short}");
    let log = std::fs::read_to_string(deployment.file("user.log")).expect("a log");
    assert_eq!(log.matches("statistics are not published on channel 'small': they have").count(), 1, "{log}");
    let absent = look(&deployment, "lod").expect_err("there is none");
    assert!(absent.contains("no such channel of statistics"), "{absent}");

    for _ in 0..5 {
        deployment.kill("user");
        wait_until_seen(&deployment);
    }
}

/// Readers go on while the supervisor is replaced, and move to the memory of the next one when the router has.
#[test]
fn readers_outlive_the_supervisor() {
    if testbed::rig::skip_without("readers_outlive_the_supervisor", &[]) {
        return;
    }
    let mut deployment = Deployment::start("statsup", TEXT, ROUTER);
    wait_until_seen(&deployment);
    let router = deployment.pid("user");
    let node = icc::Node::connect(deployment.file("domain"), icc::NodeId::new(0, 1)).expect("a domain");
    let (mut reader, mut block) = (node.block_reader("load").expect("a channel"), Vec::new());
    let look = Command::new(JUNCTOR)
        .args(["top", "--once", "--json", "--interval", "1500ms", "--channel", "load"])
        .env("JUNCTOR_ICC", deployment.file("domain"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("junctor");
    let maps = format!("/proc/{}/maps", look.id());
    let attached = || std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("memfd:junctor-icc"));
    wait_for("it is attached", PATIENCE, attached).expect("it attaches");
    deployment.kill_supervisor();
    let before = reader.read(&mut block).expect("what was there");
    let later = || reader.number().is_ok_and(|number| number > before + 1);
    wait_for("the router goes on", PATIENCE, later).expect("more");
    deployment.start_supervisor();
    let given_up = || reader.number() == Err(icc::ChannelError::GivenUp);
    wait_for("the router moves", PATIENCE, given_up).expect("the old memory is given up");
    let seen = wait_until_seen(&deployment);
    assert_eq!(pid(&seen), router, "the router went on");
    // One that was under way has come to its end, whenever its second look was due.
    let look = look.wait_with_output().expect("it ends");
    let look: Value = serde_json::from_slice(&look.stdout).expect("JSON");
    assert_eq!(pid(&look), router);
}

/// A program in another operating system sees the router, also after either was killed.
#[test]
fn a_guest_reads_statistics_through_memory() {
    let name = "a_guest_reads_statistics_through_memory";
    if testbed::rig::skip_without(name, &["linux.uml", "setpriv"]) || guests::has_no_guests(name) {
        return;
    }
    let guest = "[planes.watcher]\nkind = \"management\"\npartition = \"uml\"\ncommand = \"sh watch.sh\"\n\
        statistics = [\"load\"]\nreaches = [\"user\"]\nafter = [\"user\"]\nmemory = \"128M\"\n";
    let script = format!(
        "echo kernel $(uname -r)\nuntil {JUNCTOR} ctl c.count; do :; done\n\
         while :; do {JUNCTOR} top --once --json --interval 50ms --channel load 2>&1; done\n"
    );
    let mut deployment =
        Deployment::start_with("statsuml", &format!("{TEXT}{guest}"), ROUTER, &[("watch.sh", &script)]);
    let log =
        |deployment: &Deployment| std::fs::read_to_string(deployment.file("watcher.log")).unwrap_or_default();
    /// The looks of a log at a router.
    fn looks(log: &str, pid: &str) -> Vec<u64> {
        let looks = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let looks = looks.filter(|look| self::pid(look) == pid);
        looks.map(|look| look["elements"][1]["packets"].as_u64().unwrap_or(0)).collect()
    }
    // Another look at the same router, at which it had counted more.
    let more = |deployment: &Deployment, what: &str| {
        let before = looks(&log(deployment), &deployment.pid("user")).last().copied().unwrap_or(0);
        let now = || looks(&log(deployment), &deployment.pid("user")).last().is_some_and(|now| *now > before);
        wait_for(what, PATIENCE, now).unwrap_or_else(|e| panic!("{e}\n{}", log(deployment)));
    };
    more(&deployment, "the guest's look");
    let ours = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    assert!(!log(&deployment).contains(&format!("kernel {ours}")), "a kernel of its own");
    deployment.kill("user");
    more(&deployment, "a look at the next router");
    deployment.kill("watcher");
    more(&deployment, "the next guest's look");
    deployment.kill_supervisor();
    more(&deployment, "a look without a supervisor");
    deployment.start_supervisor();
    more(&deployment, "a look with the next one");
}

#[test]
fn wrong_channels_are_named_by_check() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("d.toml");
    std::fs::write(directory.path().join("router.click"), ROUTER).expect("room");
    let checked = |channel: &str| {
        let text = format!(
            "[planes.user]\nkind = \"user\"\nconfig = \"router.click\"\n\
             [planes.control]\nkind = \"control\"\ncommand = \"true\"\n\
             [channels.load]\nkind = \"statistics\"\n{channel}\n"
        );
        std::fs::write(&file, text).expect("room");
        let output = Command::new(JUNCTOR).arg("check").arg(&file).output().expect("junctor");
        (output.status.success(), said(&output))
    };
    assert!(checked("plane = \"user\"").0, "{:?}", checked("plane = \"user\""));
    for (channel, why) in [
        ("", "channel `load` has no plane"),
        ("plane = \"usr\"", "did you mean `user`?"),
        ("plane = \"control\"", "plane `control` is no router, so it has no statistics"),
        ("plane = \"user\"\nsize = \"1K\"", "`size` expects an amount from 4K to 64M"),
    ] {
        let (good, all) = checked(channel);
        assert!(!good && all.contains(why) && all.contains("d.toml:"), "{channel}\n{all}");
    }
}
