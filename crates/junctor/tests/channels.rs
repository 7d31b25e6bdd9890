// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet channels between the planes of a deployment, under traffic, while planes and their supervisor are killed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use testbed::rig::{Cable, Namespace, Process, Rig, wait_for};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

/// Two routers: one has the first interface, the other one the second. A stream goes from the first to the second, too.
const DEPLOYMENT: &str = r#"
[channels.there]
[channels.back]
[channels.stream]
count = 256
longest = 256
[planes.first]
kind = "user"
config = "first.click"
arguments = ["-R"]
backoff = "1ms"
[planes.second]
kind = "user"
config = "second.click"
arguments = ["-R"]
backoff = "1ms"
"#;

const FIRST: &str = "FromDevice(d0, METHOD AF_PACKET, PROMISC true) -> ToPlane(there);
FromPlane(back) -> Queue -> ToDevice(d0, METHOD AF_PACKET);
source :: RatedSource(\\<00>, LENGTH 100, RATE 20000) -> t :: Tee;
t [0] -> stream :: ToPlane(stream);
t [1] -> own :: Counter -> Discard;
";

const SECOND: &str = "FromPlane(there) -> Queue -> ToDevice(d1, METHOD AF_PACKET);
FromDevice(d1, METHOD AF_PACKET, PROMISC true) -> ToPlane(back);
stream :: FromPlane(stream) -> c :: Counter -> Discard;
";

/// A deployment in a directory of its own, stopped at the end.
struct Deployment {
    name: String,
    directory: tempfile::TempDir,
}

impl Deployment {
    fn new(text: &str, files: &[(&str, &str)]) -> Deployment {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("c{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::tempdir().unwrap();
        for (file, content) in files {
            std::fs::write(directory.path().join(file), content).unwrap();
        }
        std::fs::write(directory.path().join("d.toml"), format!("name = \"{name}\"\n{text}")).unwrap();
        Deployment { name, directory }
    }

    /// Planes are confined, as those of a service are.
    fn up(&self, home: &Namespace, said: &str) -> Process {
        let file = self.directory.path().join("d.toml").display().to_string();
        let mut up = home.spawn(&["env", "JUNCTOR_CONFINE=quiet", JUNCTOR, "up", &file]).unwrap();
        up.wait_for_text(said, PATIENCE).unwrap_or_else(|e| panic!("{e}"));
        up
    }

    /// Where it has its files: as root.
    fn files(&self) -> PathBuf {
        Path::new("/run/junctor").join(&self.name)
    }

    fn pid(&self, plane: &str) -> Option<u32> {
        let text = std::fs::read_to_string(self.files().join(format!("{plane}.pid"))).ok()?;
        let pid = text.split(' ').next()?.parse().ok()?;
        Path::new(&format!("/proc/{pid}")).exists().then_some(pid)
    }

    /// Kills a plane, which is started again.
    fn kill(&self, plane: &str) {
        let before = self.pid(plane).unwrap_or_else(|| panic!("{plane} does not run"));
        kill(before);
        wait_for(plane, PATIENCE, || self.pid(plane).is_some_and(|pid| pid != before)).unwrap();
    }

    fn ctl(&self, plane: &str, arguments: &[&str]) -> Output {
        let socket = self.files().join(format!("{plane}.sock")).display().to_string();
        Command::new(JUNCTOR).args(["ctl", "--socket", &socket]).args(arguments).output().unwrap()
    }

    /// A number that a handler says; 0 while nobody answers.
    fn number(&self, plane: &str, handler: &str) -> u64 {
        String::from_utf8_lossy(&self.ctl(plane, &[handler]).stdout).trim().parse().unwrap_or(0)
    }

    /// Waits until a number has grown by so much, from what it is or from 0 after a restart.
    fn wait_for_more(&self, plane: &str, handler: &str, more: u64) {
        let mut before = self.number(plane, handler);
        let grown = || {
            let now = self.number(plane, handler);
            before = before.min(now);
            now >= before + more
        };
        wait_for(handler, PATIENCE, grown).unwrap_or_else(|e| panic!("{plane}: {e}"));
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        let _ = Command::new(JUNCTOR).args(["down", "--deployment", &self.name]).output();
        let _ = std::fs::remove_dir_all(self.files());
    }
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

fn rig() -> Rig {
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.b.ip("addr add 10.0.1.3/24 dev b0").unwrap();
    rig
}

fn two(rig: &Rig) -> (Deployment, Process) {
    let deployment = Deployment::new(DEPLOYMENT, &[("first.click", FIRST), ("second.click", SECOND)]);
    let up = deployment.up(&rig.dut, "is up: all 2 planes are ready");
    (deployment, up)
}

fn ping(rig: &Rig) {
    rig.a.run(&["ping", "-n", "-c3", "-i0.2", "-W60", "10.0.1.3"]).unwrap();
}

#[test]
fn channels_outlive_their_planes_and_their_supervisor() {
    const NAME: &str = "channels_outlive_their_planes_and_their_supervisor";
    if testbed::rig::skip_without(NAME, &["ping", "ethtool"]) {
        return;
    }
    let rig = rig();
    let (deployment, mut up) = two(&rig);
    ping(&rig);
    deployment.wait_for_more("second", "c.count", 10_000);
    // The receiver dies: what would go to it is dropped, and counted, and the rest goes on.
    kill(deployment.pid("second").unwrap());
    deployment.wait_for_more("first", "own.count", 10_000);
    deployment.wait_for_more("second", "c.count", 10_000);
    let drops = deployment.number("first", "stream.drops");
    println!("{drops} dropped while the receiver was away");
    ping(&rig);
    // The sender dies.
    deployment.kill("first");
    deployment.wait_for_more("second", "c.count", 10_000);
    ping(&rig);
    // The supervisor dies: channels go on, and both sides move to the next one's domain.
    kill(up.id());
    wait_for("the supervisor's end", PATIENCE, || up.ended().is_some()).unwrap();
    deployment.wait_for_more("second", "c.count", 10_000);
    ping(&rig);
    up = deployment.up(&rig.dut, "plane second goes on");
    deployment.wait_for_more("second", "c.count", 10_000);
    for plane in ["second", "first", "second"] {
        deployment.kill(plane);
        deployment.wait_for_more("second", "c.count", 10_000);
        ping(&rig);
    }
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
}

/// The configurations of both sides are replaced under traffic: the channel is handed on, and nothing is lost.
#[test]
fn channels_outlive_configurations() {
    const NAME: &str = "channels_outlive_configurations";
    if testbed::rig::skip_without(NAME, &["ping", "ethtool"]) {
        return;
    }
    let rig = rig();
    // Room for what comes while the receiver's workers stand still.
    let text = DEPLOYMENT.replace("count = 256", "count = 65536");
    // The stream begins with the first swap, when both sides are there.
    let idle = FIRST.replace("RATE 20000", "RATE 20000, ACTIVE false");
    let deployment = Deployment::new(&text, &[("first.click", &idle), ("second.click", SECOND)]);
    let up = deployment.up(&rig.dut, "is up: all 2 planes are ready");
    for round in 0..5 {
        for (plane, configuration) in [("second", SECOND), ("first", FIRST)] {
            let next = format!("{configuration}Idle -> round{round} :: Counter -> Discard;");
            let swapped = deployment.ctl(plane, &["hotconfig", &next]);
            assert!(swapped.status.success(), "{plane}: {}", String::from_utf8_lossy(&swapped.stderr));
        }
        deployment.wait_for_more("second", "stream.count", 1000);
        ping(&rig);
    }
    // The source pauses; all that was sent arrives.
    assert!(deployment.ctl("first", &["source.active", "false"]).status.success());
    let same = || {
        let counts = [("first", "own.count"), ("first", "stream.count"), ("second", "stream.count")];
        let counts = counts.map(|(plane, handler)| deployment.number(plane, handler));
        counts[0] > 0 && counts.iter().all(|count| *count == counts[0])
    };
    let counts = || {
        [
            ("first", "own.count"),
            ("first", "stream.count"),
            ("second", "stream.count"),
            ("second", "stream.lost"),
        ]
        .map(|(plane, handler)| deployment.number(plane, handler))
    };
    wait_for("all packets", PATIENCE, same).unwrap_or_else(|e| panic!("{e}: {:?}", counts()));
    assert_eq!(deployment.number("second", "stream.lost"), 0);
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
}

/// A router lends packets to another one, which is killed again and again: frames come back, and packets flow.
#[test]
fn packets_are_lent_to_planes_that_are_killed() {
    const NAME: &str = "packets_are_lent_to_planes_that_are_killed";
    if testbed::rig::skip_without(NAME, &["ping", "ethtool"]) {
        return;
    }
    let rig = rig();
    let text =
        DEPLOYMENT.replace("\"-R\"", "\"-R\", \"--share-frames\"").replace("longest = 256", "longest = 2048");
    let first = FIRST.replace("LENGTH 100", "LENGTH 1000");
    let second = SECOND
        .replace("-> c ::", "-> l :: CheckLength(999) [1] -> c ::")
        .replace("Discard;", "Discard; l -> short :: Counter -> Discard;");
    let deployment = Deployment::new(&text, &[("first.click", &first), ("second.click", &second)]);
    let up = deployment.up(&rig.dut, "is up: all 2 planes are ready");
    for plane in ["second", "first", "second", "first"] {
        deployment.wait_for_more("second", "c.count", 10_000);
        rig.a.run(&["ping", "-n", "-c3", "-i0.2", "-s1400", "-W60", "10.0.1.3"]).unwrap();
        deployment.kill(plane);
    }
    deployment.wait_for_more("second", "c.count", 10_000);
    assert_eq!(deployment.number("second", "short.count"), 0, "whole packets only");
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
}

/// Packets are punted to a control plane in Python, which hands them back.
#[test]
fn a_program_in_python_gets_punts() {
    const NAME: &str = "a_program_in_python_gets_punts";
    if testbed::rig::skip_without(NAME, &["python3"]) {
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../icc-c");
    let beside = Path::new(JUNCTOR).parent().unwrap();
    let library = [beside.join("libjunctor_icc_c.so"), beside.join("deps/libjunctor_icc_c.so")];
    let Some(library) = library.into_iter().find(|file| file.exists()) else {
        println!("{NAME}: skipped: no libjunctor_icc_c.so; build junctor-icc-c");
        return;
    };
    let text = format!(
        r#"
[channels.punts]
[channels.answers]
[planes.user]
kind = "user"
config = "user.click"
[planes.control]
kind = "control"
command = ["python3", "-B", "{}/examples/punts.py"]
environment = {{ PYTHONPATH = "{}/python", JUNCTOR_ICC_LIBRARY = "{}" }}
after = ["user"]
backoff = "1ms"
"#,
        here.display(),
        here.display(),
        library.display()
    );
    let router = "TimedSource(0.01, \"punted packet\") -> Paint(4) -> ToPlane(punts);
FromPlane(answers) -> p :: CheckPaint(5); p [0] -> c :: Counter -> Discard; p [1] -> other :: Counter -> Discard;
";
    let home = Namespace::new("punts").unwrap();
    let deployment = Deployment::new(&text, &[("user.click", router)]);
    let up = deployment.up(&home, "is up: all 2 planes are ready");
    deployment.wait_for_more("user", "c.count", 20);
    deployment.kill("control");
    deployment.wait_for_more("user", "c.count", 20);
    assert_eq!(deployment.number("user", "other.count"), 0);
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
}
