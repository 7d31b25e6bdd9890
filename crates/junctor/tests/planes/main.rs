// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deployments under traffic: planes that are killed, the supervisor that is killed, and what users see of it. JUNCTOR_KILLS says
//! how often each is killed (default 5).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use testbed::pings::Pings;
use testbed::rig::{Cable, Namespace, Process, Rig, wait_for};

#[path = "../guests/mod.rs"]
mod guests;
mod left;

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

/// A cable between the hosts.
const CABLE: &str =
    "FromDevice(d0, METHOD AF_PACKET, PROMISC true) -> b :: Queue -> ToDevice(d1, METHOD AF_PACKET);
FromDevice(d1, METHOD AF_PACKET, PROMISC true) -> a :: Queue -> ToDevice(d0, METHOD AF_PACKET);
";

/// A deployment in a directory of its own, stopped at the end.
struct Deployment {
    name: String,
    directory: tempfile::TempDir,
}

impl Deployment {
    fn new(text: &str, configuration: &str) -> Deployment {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("router.click"), configuration).unwrap();
        std::fs::write(directory.path().join("d.toml"), format!("name = \"{name}\"\n{text}")).unwrap();
        Deployment { name, directory }
    }

    fn file(&self) -> String {
        self.directory.path().join("d.toml").display().to_string()
    }

    /// Where it has its files: as root.
    fn files(&self) -> PathBuf {
        Path::new("/run/junctor").join(&self.name)
    }

    fn up(&self, home: &Namespace) -> Process {
        home.spawn(&[JUNCTOR, "up", &self.file()]).unwrap()
    }

    fn pid(&self, plane: &str) -> Option<u32> {
        let text = std::fs::read_to_string(self.files().join(format!("{plane}.pid"))).ok()?;
        let pid = text.split(' ').next()?.parse().ok()?;
        Path::new(&format!("/proc/{pid}")).exists().then_some(pid)
    }

    /// Kills a plane; waits until another process has its place. Returns how long that took.
    fn kill(&self, plane: &str) -> Duration {
        let before = self.pid(plane).unwrap_or_else(|| panic!("{plane} does not run"));
        let begun = Instant::now();
        kill(before);
        let replaced = || self.state(plane) == "ready" && self.pid(plane).is_some_and(|pid| pid != before);
        wait_for("another process", PATIENCE, replaced).unwrap_or_else(|e| panic!("{plane}: {e}"));
        begun.elapsed()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(JUNCTOR).args(arguments).args(["--deployment", &self.name]).output().unwrap()
    }

    fn rows(&self) -> Vec<serde_json::Value> {
        let output = self.run(&["ps", "--json"]);
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        found["deployments"][0]["planes"].as_array().cloned().unwrap_or_default()
    }

    fn state(&self, plane: &str) -> String {
        let row = self.rows().into_iter().find(|row| row["plane"] == plane).unwrap_or_default();
        row["state"].as_str().unwrap_or("").to_owned()
    }

    fn ctl(&self, handler: &str) -> String {
        let socket = self.files().join("user.sock").display().to_string();
        let output = Command::new(JUNCTOR).args(["ctl", "--socket", &socket, handler]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        self.run(&["down"]);
        let _ = std::fs::remove_dir_all(self.files());
    }
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const THREE: &str = r#"
[planes.user]
kind = "user"
config = "router.click"
arguments = ["-R"]
[planes.control]
kind = "control"
command = ["sleep", "100000"]
after = ["user"]
backoff = "1ms"
backoff_max = "1ms"
[planes.agent]
kind = "management"
command = "sleep 100000"
after = ["user", "control"]
backoff = "1ms"
backoff_max = "1ms"
"#;

#[test]
fn planes_survive_each_other_and_their_supervisor() {
    if testbed::rig::skip_without("planes_survive_each_other_and_their_supervisor", &["ping", "ethtool"]) {
        return;
    }
    let kills: usize = std::env::var("JUNCTOR_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.b.ip("addr add 10.0.1.3/24 dev b0").unwrap();
    let deployment = Deployment::new(THREE, CABLE);
    let mut up = deployment.up(&rig.dut);
    up.wait_for_text("is up: all 3 planes are ready", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    let pings = Pings::start(&rig.a, "10.0.1.3", 10, PATIENCE).unwrap();
    let user = deployment.pid("user").unwrap();
    for _ in 0..kills {
        deployment.kill("control");
        deployment.kill("agent");
        let (control, agent) = (deployment.pid("control"), deployment.pid("agent"));
        kill(up.id());
        wait_for("the supervisor's end", PATIENCE, || up.ended().is_some()).unwrap();
        assert_eq!(deployment.state("user"), "unsupervised");
        up = deployment.up(&rig.dut);
        up.wait_for_text("plane agent goes on", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
        let same = || deployment.state("user") == "ready" && deployment.pid("control") == control;
        wait_for("the planes' supervisor", PATIENCE, same).unwrap();
        assert_eq!(deployment.pid("agent"), agent, "nothing was started twice");
    }
    let pinged = pings.end(PATIENCE).unwrap();
    assert!(pinged.lost.is_empty(), "{pinged:?}");
    assert_eq!(deployment.pid("user"), Some(user), "the user plane went on");
}

#[test]
fn a_killed_user_plane_goes_on_with_its_last_configuration() {
    if testbed::rig::skip("a_killed_user_plane_goes_on_with_its_last_configuration") {
        return;
    }
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.b.ip("addr add 10.0.1.3/24 dev b0").unwrap();
    let deployment = Deployment::new(THREE, CABLE);
    let mut up = deployment.up(&rig.dut);
    up.wait_for_text("is up: all 3 planes are ready", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    let (control, agent) = (deployment.pid("control"), deployment.pid("agent"));
    let other = format!("{CABLE}Idle -> extra :: Counter -> Discard;");
    let socket = deployment.files().join("user.sock").display().to_string();
    let swap =
        Command::new(JUNCTOR).args(["ctl", "--socket", &socket, "hotconfig", &other]).output().unwrap();
    assert!(swap.status.success(), "{}", text_of(&swap));
    for _ in 0..3 {
        let took = deployment.kill("user");
        println!("ready again after {took:?}");
        assert_eq!(deployment.ctl("extra.count"), "0", "its last good configuration");
        rig.a.run(&["ping", "-n", "-c1", "-W60", "10.0.1.3"]).unwrap();
    }
    assert_eq!((deployment.pid("control"), deployment.pid("agent")), (control, agent), "the others went on");
    // Asked to restart, it begins with its own configuration.
    let restarted = deployment.run(&["restart", "user"]);
    assert!(restarted.status.success(), "{}", text_of(&restarted));
    assert_eq!(deployment.ctl("extra.count"), "");
    let down = deployment.run(&["down"]);
    assert!(text_of(&down).contains("is down"), "{}", text_of(&down));
    let ended = up.finish(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    for plane in ["user", "control", "agent"] {
        assert_eq!(deployment.pid(plane), None, "{plane}");
    }
}

/// A router of two interfaces. The first has a twin, where the kernel answers what is for the router itself.
const ROUTER: &str = "r :: IPRouter(d0 10.0.1.1/24, d1 10.0.2.1/24);
FromHost(twin0, TWIN d0, 10.7.0.1/24) -> Queue -> Discard;
";

/// Interfaces that live by a router's descriptors, and what it has learnt, are there after it was killed.
#[test]
fn twins_and_neighbours_survive_a_killed_user_plane() {
    if testbed::rig::skip_without("twins_and_neighbours_survive_a_killed_user_plane", &["ping", "ethtool"]) {
        return;
    }
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.a.ip("route add 10.0.2.0/24 via 10.0.1.1").unwrap();
    rig.b.ip("addr add 10.0.2.2/24 dev b0").unwrap();
    rig.b.ip("route add 10.0.1.0/24 via 10.0.2.1").unwrap();
    let deployment = Deployment::new("[planes.user]\nkind = \"user\"\nconfig = \"router.click\"\n", ROUTER);
    let mut up = deployment.up(&rig.dut);
    up.wait_for_text("is up: all 1 planes are ready", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    rig.a.run(&["ping", "-n", "-c1", "-W60", "10.0.2.2"]).unwrap();
    let kept = deployment.files().join("user.state/neighbours");
    let learnt = || std::fs::read_to_string(&kept).unwrap_or_default();
    wait_for("neighbours", PATIENCE, || learnt().contains("10.0.1.2 ") && learnt().contains("10.0.2.2 "))
        .unwrap();
    // What only an interface that was never gone still has.
    rig.dut.ip("neigh add 10.7.0.9 lladdr 02:00:00:00:00:09 dev twin0 nud reachable").unwrap();
    let index = || rig.dut.ip("-o link show twin0").unwrap().split(':').next().unwrap().to_owned();
    let (before, changes) =
        (index(), rig.dut.spawn(&["ip", "monitor", "link", "neigh", "dev", "twin0"]).unwrap());
    // Nobody asks for neighbours that are known: hosts that do not answer are reached all the same.
    for host in [&rig.a, &rig.b] {
        let name = if std::ptr::eq(host, &rig.a) { "a0" } else { "b0" };
        host.ip(&format!("link set {name} arp off")).unwrap();
    }
    for round in 0..3 {
        deployment.kill("user");
        let carrier = rig.dut.ip("-o link show twin0").unwrap();
        assert!(carrier.contains("LOWER_UP"), "{round}: {carrier}");
        assert_eq!(index(), before, "{round}");
        assert!(rig.dut.ip("neigh show dev twin0").unwrap().contains("10.7.0.9 "), "{round}");
        let taught = || deployment.ctl("r/arp0.table").contains("10.0.1.2 1");
        let elements = deployment.ctl("list");
        wait_for("the neighbours", PATIENCE, taught).unwrap_or_else(|e| panic!("{e}\n{elements}"));
        // A supervisor that takes over learns of the twin, too.
        if round == 1 {
            kill(up.id());
            wait_for("the supervisor's end", PATIENCE, || up.ended().is_some()).unwrap();
            up = deployment.up(&rig.dut);
            up.wait_for_text("plane user goes on", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
            let kept = || deployment.rows().iter().any(|row| row["kept"] == 1);
            wait_for("the supervisor to have the twin", PATIENCE, kept).unwrap();
        }
    }
    let said = changes.interrupt(PATIENCE).unwrap().stdout;
    assert!(!said.contains("Deleted"), "{said}");
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(rig.dut.ip("-o link show twin0").is_err(), "gone with the deployment");
}

/// Commands wait for a supervisor that was just started and does not listen yet: here because it has a plane to stop that does not want to end.
#[test]
fn a_deployment_goes_down_while_its_supervisor_starts() {
    if testbed::rig::skip("a_deployment_goes_down_while_its_supervisor_starts") {
        return;
    }
    let home = Namespace::new("up").unwrap();
    let stays = "[planes.stays]\nkind = \"control\"\ncommand = \"sleep 100000\"\n";
    let goes = "[planes.goes]\nkind = \"control\"\n\
        command = \"sh -c 'trap : TERM; echo deaf; while :; do sleep 0.1; done'\"\n";
    let deployment = Deployment::new(&format!("{stays}{goes}"), "");
    let start_again = |command: &str| {
        let mut up = deployment.up(&home);
        up.wait_for_text("deaf", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
        kill(up.id());
        wait_for("the supervisor's end", PATIENCE, || up.ended().is_some()).unwrap();
        let both = std::fs::read_to_string(deployment.file()).unwrap();
        std::fs::write(deployment.file(), both.replace(goes, "")).unwrap();
        up = deployment.up(&home);
        up.wait_for_text("stopping plane goes", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
        let words: Vec<&str> = command.split(' ').collect();
        let answer = deployment.run(&words);
        std::fs::write(deployment.file(), both).unwrap();
        assert!(answer.status.success(), "{}", text_of(&answer));
        (up, text_of(&answer))
    };

    let (mut up, said) = start_again("down");
    assert!(said.contains("is down"), "{said}");
    wait_for("the supervisor's end", PATIENCE, || up.ended().is_some()).unwrap();
    assert_eq!((deployment.pid("stays"), deployment.pid("goes")), (None, None));
    let (up, said) = start_again("restart stays");
    assert!(said.contains("plane stays was restarted"), "{said}");
    assert!(up.interrupt(PATIENCE).unwrap().status.success());
}

/// One that stands still sends no heartbeats, and is killed and replaced. Another user plane goes on meanwhile.
#[test]
fn a_plane_that_hangs_is_replaced() {
    if testbed::rig::skip("a_plane_that_hangs_is_replaced") {
        return;
    }
    let home = Namespace::new("up").unwrap();
    let deployment = Deployment::new(
        "[planes.one]\nkind = \"user\"\nconfig = \"router.click\"\nheartbeat = \"1s\"\n\
         [planes.two]\nkind = \"user\"\nconfig = \"router.click\"\n",
        "TimedSource -> Discard;",
    );
    let mut up = deployment.up(&home);
    up.wait_for_text("is up: all 2 planes are ready", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    let (one, two) = (deployment.pid("one").unwrap(), deployment.pid("two"));
    assert!(Command::new("kill").args(["-STOP", &one.to_string()]).status().unwrap().success());
    up.wait_for_text("plane one sent no heartbeat for 1 s; killing it", PATIENCE)
        .unwrap_or_else(|e| panic!("{e}"));
    let replaced =
        || deployment.state("one") == "ready" && deployment.pid("one").is_some_and(|pid| pid != one);
    wait_for("another process", PATIENCE, replaced).unwrap();
    assert_eq!(deployment.pid("two"), two);
}

/// What comes after a plane that others connect to waits for its socket. One that an earlier process has left does not count.
#[test]
fn a_plane_is_ready_when_it_listens() {
    if testbed::rig::skip("a_plane_is_ready_when_it_listens") {
        return;
    }
    let home = Namespace::new("up").unwrap();
    let listen = "import os, socket, time\n\
                  while not os.path.exists('go'): time.sleep(0.01)\n\
                  os.path.exists('place') and os.unlink('place')\n\
                  listener = socket.socket(socket.AF_UNIX)\n\
                  listener.bind('place')\n\
                  listener.listen()\n\
                  time.sleep(100000)\n";
    let connect = "import socket, time\n\
                   socket.socket(socket.AF_UNIX).connect('place')\n\
                   time.sleep(100000)\n";
    let plane = |name: &str, more: &str| {
        format!("[planes.{name}]\nkind = \"control\"\ncommand = [\"python3\", \"{name}.py\"]\n{more}")
    };
    let first = plane("first", "ready = \"unix:place\"\n");
    let deployment = Deployment::new(&(first + &plane("second", "after = [\"first\"]\n")), "");
    let at = |file: &str| deployment.directory.path().join(file);
    std::fs::write(at("first.py"), listen).unwrap();
    std::fs::write(at("second.py"), connect).unwrap();
    drop(std::os::unix::net::UnixListener::bind(at("place")).unwrap());
    let mut up = deployment.up(&home);
    wait_for("its process", PATIENCE, || deployment.pid("first").is_some()).unwrap();
    assert_eq!((&*deployment.state("first"), &*deployment.state("second")), ("starting", "waiting"));
    std::fs::write(at("go"), "").unwrap();
    up.wait_for_text("is up: all 2 planes are ready", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    assert!(deployment.kill("first") < PATIENCE, "it listens again");
    assert_eq!(up.interrupt(PATIENCE).unwrap().status.code(), Some(0));
}

/// A supervisor that is stopped for a while, whose output nobody reads, or that has inherited descriptors does its work.
#[test]
fn a_supervisor_bears_what_its_terminal_does() {
    if testbed::rig::skip("a_supervisor_bears_what_its_terminal_does") {
        return;
    }
    let home = Namespace::new("up").unwrap();
    let deployment = Deployment::new(
        "[planes.one]\nkind = \"user\"\nconfig = \"router.click\"\nheartbeat = \"1s\"\n\
         [planes.two]\nkind = \"management\"\ncommand = \"yes so much to say\"\n",
        "FromHost(t0, 10.7.0.1/24) -> Discard;",
    );
    // Its output goes to a pipe that nobody reads, and descriptors of the shell are open in it.
    let line = format!("{JUNCTOR} up {} 3</dev/null 7</dev/null 2>&1 | sleep 100000", deployment.file());
    let mut shell = home.spawn(&["sh", "-c", &line]).unwrap();
    wait_for("the planes", PATIENCE, || {
        deployment.state("one") == "ready" && deployment.state("two") == "ready"
    })
    .unwrap();
    let up: u32 = std::fs::read_to_string(deployment.files().join("lock")).unwrap().trim().parse().unwrap();
    let one = deployment.pid("one").unwrap();
    deployment.kill("two");
    let signal =
        |what: &str| assert!(Command::new("kill").args([what, &up.to_string()]).status().unwrap().success());
    signal("-STOP");
    let silent = deployment.run(&["ps"]);
    assert!(text_of(&silent).contains("does not answer"), "{}", text_of(&silent));
    signal("-CONT");
    deployment.kill("two");
    assert_eq!(deployment.pid("one"), Some(one), "it sent its heartbeats, though nobody heard them");
    // With a tap, which it gets back by a descriptor.
    deployment.kill("one");
    let fds = std::fs::read_dir(format!("/proc/{}/fd", deployment.pid("one").unwrap())).unwrap();
    let links = fds.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
    assert!(links.into_iter().any(|link| link == Path::new("/dev/net/tun")));
    let log = deployment.files().join("two.log");
    wait_for("a log that ends", PATIENCE, || log.with_extension("log.1").exists()).unwrap();
    let down = deployment.run(&["down"]);
    assert!(text_of(&down).contains("is down"), "{}", text_of(&down));
    let _ = shell.ended();
}

/// What was made for a deployment is undone even if its supervisor was killed.
#[test]
fn a_deployment_without_its_supervisor_is_stopped_whole() {
    if testbed::rig::skip("a_deployment_without_its_supervisor_is_stopped_whole") {
        return;
    }
    let home = Namespace::new("up").unwrap();
    home.ip("link add v0 type veth peer name v1").unwrap();
    let netns = format!("d{}", std::process::id());
    let deployment = Deployment::new(
        &format!(
            "[planes.one]\nkind = \"control\"\ncommand = [\"sleep\", \"100000\"]\nnetns = \"{netns}\"\n\
             interfaces = [\"v0\"]\n[planes.two]\nkind = \"control\"\ncommand = \"sleep 100000\"\nafter = [\"one\"]\n"
        ),
        "",
    );
    // One mount namespace for both commands: names of network namespaces are mounts.
    let line = format!(
        "{JUNCTOR} up {file} & up=$!; until {JUNCTOR} ps --deployment {name} | grep -q 'two .*ready'; do sleep 0.05; done; \
         ip link show v0 2>&1; kill -9 $up; wait $up; {JUNCTOR} down --deployment {name}; ip -br link show v0",
        file = deployment.file(),
        name = deployment.name,
    );
    let output = home.spawn(&["sh", "-c", &line]).unwrap().finish(PATIENCE).unwrap();
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(said.contains("does not exist"), "it was moved: {said}");
    assert!(said.contains("is down"), "{said}");
    assert!(output.stdout.contains("v0@v1"), "it is back: {said}");
    assert!(!Path::new("/run/netns").join(netns).exists());
    let left: Vec<_> =
        std::fs::read_dir(deployment.files()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    let stays = |name: &std::ffi::OsString| name == "lock" || name.to_string_lossy().ends_with(".log");
    assert!(left.iter().all(stays), "{left:?}");
}

const GUEST: &str = r#"
[planes.control]
kind = "control"
partition = "uml"
command = "sh control.sh"
interfaces = ["c0"]
netns = "NETNS"
shared = "1M"
memory = "128M"
"#;

/// Prints what it finds in shared memory, and writes what comes next.
const IN_GUEST: &str = r#"
trap 'echo asked to end; exit 0' TERM
ip addr add 10.9.0.2/24 dev c0
touch /etc/touched 2>&1
python3 -c '
import mmap, os
m = mmap.mmap(os.open(os.environ["JUNCTOR_SHARED"], os.O_RDWR), 4096)
print("kernel", os.uname().release, "host", os.uname().nodename, "found", m[:8].decode())
m[8:16] = b"by guest"
'
while :; do sleep 0.1; done
"#;

#[test]
fn a_plane_has_an_operating_system_of_its_own() {
    let tools = ["ping", "linux.uml", "setpriv"];
    let name = "a_plane_has_an_operating_system_of_its_own";
    if testbed::rig::skip_without(name, &tools) || guests::has_no_guests(name) {
        return;
    }
    let home = Namespace::new("up").unwrap();
    let text = GUEST.replace("NETNS", &format!("n{}", std::process::id()));
    let deployment = Deployment::new(&text, "");
    std::fs::write(deployment.directory.path().join("control.sh"), IN_GUEST).unwrap();
    // What is there before the guest starts is what it finds.
    let shared = format!("/dev/shm/junctor-{}-control", deployment.name);
    std::fs::write(&shared, "by host!").unwrap();
    let mut up = deployment.up(&home);
    up.wait_for_text("is up: all 1 planes are ready", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    let found = "host control found by host!";
    up.wait_for_text(found, PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    wait_for("the guest's words", PATIENCE, || std::fs::read(&shared).unwrap()[8..16] == *b"by guest")
        .unwrap();
    let netns = format!("n{}", std::process::id());
    // The supervisor has mounts of its own, where the namespace has its name; its processes show it, too.
    let inside = format!("--net=/proc/{}/ns/net", deployment.pid("control").unwrap());
    let within = |command: &[&str]| Command::new("nsenter").arg(&inside).args(command).output().unwrap();
    within(&["ip", "addr", "add", "10.9.0.1/24", "dev", "c0"]);
    let ping = within(&["ping", "-n", "-c1", "-W60", "10.9.0.2"]);
    assert!(ping.status.success(), "{}", text_of(&ping));
    // Killed, it comes again, and the memory that it shares is as it was.
    std::fs::OpenOptions::new()
        .write(true)
        .open(&shared)
        .and_then(|mut f| std::io::Write::write_all(&mut f, b"go on..."))
        .unwrap();
    deployment.kill("control");
    up.wait_for_text("host control found go on...", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stdout.contains("asked to end"), "{}", ended.stdout);
    assert!(ended.stdout.contains("Read-only file system"), "{}", ended.stdout);
    assert!(!Path::new(&shared).exists() && !Path::new("/run/netns").join(netns).exists());
}

/// A control plane in an operating system of its own reads and changes the router of the machine, through shared memory.
#[test]
fn a_guest_reaches_the_user_plane_through_memory() {
    let name = "a_guest_reaches_the_user_plane_through_memory";
    if testbed::rig::skip_without(name, &["linux.uml", "setpriv"]) || guests::has_no_guests(name) {
        return;
    }
    let home = Namespace::new("up").unwrap();
    let deployment = Deployment::new(
        "[planes.user]\nkind = \"user\"\nconfig = \"router.click\"\n\
         [planes.control]\nkind = \"control\"\npartition = \"uml\"\ncommand = \"sh control.sh\"\n\
         after = [\"user\"]\nreaches = [\"user\"]\n",
        "TimedSource -> r :: StaticIPLookup(10.0.0.0/8 0) -> Discard;",
    );
    let script = format!(
        "{JUNCTOR} ctl r.set '10.1.0.0/16 0' && {JUNCTOR} ctl r.table && uname -r && echo done\n\
         while {JUNCTOR} ctl r.set '10.1.0.0/16 0' && {JUNCTOR} ctl r.remove 10.1.0.0/16; do :; done 2>&1\n"
    );
    std::fs::write(deployment.directory.path().join("control.sh"), script).unwrap();
    let mut up = deployment.up(&home);
    up.wait_for_text("done", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    let said = up.stdout();
    assert!(said.contains("10.1.0.0/16"), "{said}");
    // Killed in the middle of it, both come again, and speak to each other again.
    let user = deployment.pid("user");
    for _ in 0..2 {
        let heard = up.stdout().matches("done").count();
        deployment.kill("control");
        wait_for("the guest's words", PATIENCE, || up.stdout().matches("done").count() > heard)
            .unwrap_or_else(|e| panic!("{e}\n{}", up.stdout()));
    }
    assert_eq!(deployment.pid("user"), user);
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
}

/// A kernel for virtual machines that this test may use: `$JUNCTOR_KERNEL`, or one that is installed.
fn kernel_line() -> String {
    let given = std::env::var("JUNCTOR_KERNEL").ok();
    given.map_or_else(String::new, |path| format!("kernel = \"{path}\"\n"))
}

/// The same in a virtual machine, emulated: what it does is that of one by KVM, how fast is not.
#[test]
fn a_virtual_machine_reaches_the_user_plane_through_memory() {
    let name = "a_virtual_machine_reaches_the_user_plane_through_memory";
    if testbed::rig::skip_without(name, &["ping", "setpriv", "qemu-system-x86_64"]) {
        return;
    }
    let home = Namespace::new("up").unwrap();
    let deployment = Deployment::new(
        &format!(
            "placement = \"amp\"\n[planes.user]\nkind = \"user\"\nconfig = \"router.click\"\ncores = \"0\"\n\
             [planes.control]\nkind = \"control\"\npartition = \"kvm\"\nemulated = true\n{}command = \"sh control.sh\"\n\
             cores = \"1\"\nmemory = \"320M\"\nafter = [\"user\"]\nreaches = [\"user\"]\ninterfaces = [\"c0\"]\n\
             writable = [\"out\"]\nstart_timeout = \"120s\"\n",
            kernel_line()
        ),
        "TimedSource -> r :: StaticIPLookup(10.0.0.0/8 0) -> Discard;",
    );
    let out = deployment.directory.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let checked = text_of(&Command::new(JUNCTOR).args(["check", &deployment.file()]).output().unwrap());
    if checked.contains("no kernel") || checked.contains("no cores") {
        eprintln!("{name}: left out: {checked}");
        return;
    }
    let script = format!(
        "trap 'echo asked to end; exit 0' TERM\nip addr add 10.9.0.2/24 dev c0\ntouch /etc/touched 2>&1\n\
         {JUNCTOR} ctl r.set '10.1.0.0/16 0' && {JUNCTOR} ctl r.table && uname -r > out/release && echo done\n\
         while :; do sleep 0.1; done\n"
    );
    std::fs::write(deployment.directory.path().join("control.sh"), script).unwrap();
    let mut up = deployment.up(&home);
    up.wait_for_text("done", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    assert!(deployment.ctl("r.table").contains("10.1.0.0/16"));
    let ours = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_ne!(std::fs::read_to_string(out.join("release")).unwrap(), ours, "a kernel of its own");
    home.ip("addr add 10.9.0.1/24 dev c0").unwrap();
    home.run(&["ping", "-n", "-c1", "-W60", "10.9.0.2"]).unwrap();
    // Killed, it comes again; a supervisor that is killed leaves it, and the next one takes it over.
    let user = deployment.pid("user");
    let heard = up.stdout().matches("done").count();
    deployment.kill("control");
    wait_for("the guest's words", PATIENCE, || up.stdout().matches("done").count() > heard)
        .unwrap_or_else(|e| panic!("{e}\n{}", up.stdout()));
    let control = deployment.pid("control");
    kill(up.id());
    wait_for("the supervisor's end", PATIENCE, || up.ended().is_some()).unwrap();
    up = deployment.up(&home);
    up.wait_for_text("plane control goes on", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((deployment.pid("user"), deployment.pid("control")), (user, control));
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    let log = std::fs::read_to_string(deployment.files().join("control.log")).unwrap();
    assert!(log.contains("asked to end") && log.contains("Read-only file system"), "{log}");
}

/// Addresses of hosts behind each end of a cable, so that there are many flows.
const FLOWS: u32 = 32;

/// Several routers forward between the same interfaces: the kernel splits the flows. One is killed, and its flows go on by the others.
#[test]
fn instances_share_the_flows_of_their_interfaces() {
    if testbed::rig::skip_without("instances_share_the_flows_of_their_interfaces", &["ping", "ethtool"]) {
        return;
    }
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    (0..FLOWS).for_each(|i| drop(rig.b.ip(&format!("addr add 10.0.1.{}/24 dev b0", 100 + i)).unwrap()));
    let cable = "FromDevice(d0, PROMISC true) -> forth :: Counter -> Queue -> ToDevice(d1);
FromDevice(d1, PROMISC true) -> back :: Counter -> Queue -> ToDevice(d0);
";
    let text = "[planes.user]\nkind = \"user\"\nconfig = \"router.click\"\ninstances = 2\nstop_timeout = \"60s\"\n\
        [planes.control]\nkind = \"control\"\ncommand = \"sleep 100000\"\nafter = [\"user\"]\n";
    let deployment = Deployment::new(text, cable);
    let mut up = deployment.up(&rig.dut);
    up.wait_for_text("is up: all 3 planes are ready", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    let reach_all = || {
        for i in 0..FLOWS {
            rig.a.run(&["ping", "-n", "-c1", "-W60", &format!("10.0.1.{}", 100 + i)]).unwrap();
        }
    };
    reach_all();
    let count = |plane: &str, handler: &str| -> u64 {
        let socket = deployment.files().join(format!("{plane}.sock")).display().to_string();
        let output = Command::new(JUNCTOR).args(["ctl", "--socket", &socket, handler]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
    };
    let forth = ["user.0", "user.1"].map(|plane| count(plane, "forth.count"));
    assert!(forth.iter().all(|count| *count > 0), "both forward: {forth:?}");
    let sum: u64 = forth.iter().sum();
    // Requests, and what asks for addresses; each frame is forwarded once.
    assert!((u64::from(FLOWS)..u64::from(4 * FLOWS)).contains(&sum), "{forth:?}");
    // While one is gone, the other one has all flows.
    let one = deployment.pid("user.1");
    let stopped = deployment.run(&["restart", "user"]);
    assert!(text_of(&stopped).contains("restart them one by one: user.0, user.1"), "{}", text_of(&stopped));
    deployment.kill("user.0");
    reach_all();
    assert_eq!(deployment.pid("user.1"), one, "the other one went on");
    assert!(deployment.run(&["restart", "user.0"]).status.success());
    reach_all();
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
}

/// What cannot be split among instances is refused, with the reason.
#[test]
fn what_instances_cannot_share_is_refused() {
    if testbed::rig::skip("what_instances_cannot_share_is_refused") {
        return;
    }
    let home = Namespace::new("up").unwrap();
    home.ip("link add d0 type veth peer name d1").unwrap();
    for (configuration, said) in [
        ("FromDevice(d0, METHOD AF_XDP) -> Discard;", "AF_XDP cannot split its flows among several routers"),
        ("FromHost(t0, 10.7.0.1/24) -> Discard;", "its packets cannot be split"),
        (
            "FromDevice(d0) -> [1] q :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01) -> Discard; Idle -> [0] q;",
            "q :: ARPQuerier cannot be in one of several instances",
        ),
    ] {
        let text = "[planes.user]\nkind = \"user\"\nconfig = \"router.click\"\ninstances = 2\n";
        let deployment = Deployment::new(text, configuration);
        let output = deployment.up(&home).finish(PATIENCE).unwrap();
        assert_ne!(output.status.code(), Some(0));
        assert!(output.stderr.contains(said), "{configuration}\n{}", output.stderr);
    }
}

/// How long a user plane that was killed forwards nothing: from SIGKILL to the first answer to a ping sent after it.
/// `JUNCTOR_BINARY=$PWD/target/release/junctor cargo nextest run -p junctor --test planes --run-ignored only --no-capture how_long`
#[test]
#[ignore = "a measurement"]
fn how_long_a_killed_user_plane_is_gone() {
    if testbed::rig::skip_without("how_long_a_killed_user_plane_is_gone", &["ping", "ethtool"]) {
        return;
    }
    let binary = std::env::var("JUNCTOR_BINARY").unwrap_or_else(|_| JUNCTOR.to_owned());
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.b.ip("addr add 10.0.1.3/24 dev b0").unwrap();
    let text = "[planes.user]\nkind = \"user\"\nconfig = \"router.click\"\nbackoff = \"1ms\"\nbackoff_max = \"1ms\"\n";
    let deployment = Deployment::new(text, CABLE);
    let binary = std::fs::canonicalize(binary).unwrap().display().to_string();
    let mut up = rig.dut.spawn(&[&binary, "up", &deployment.file()]).unwrap();
    up.wait_for_text("is up: all 1 planes are ready", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    let mut ping = rig.a.spawn(&["ping", "-n", "-D", "-i", "0.001", "10.0.1.3"]).unwrap();
    ping.wait_for_text("icmp_seq=100 ", PATIENCE).unwrap();
    // When an answer came, and when its question was sent: seconds.
    let answers = |said: &str| -> Vec<(f64, f64)> {
        let times = |line: &str| {
            let came: f64 = line.strip_prefix('[')?.split(']').next()?.parse().ok()?;
            let took: f64 = line.split("time=").nth(1)?.split(' ').next()?.parse().ok()?;
            Some((came, came - took / 1000.0))
        };
        said.lines().filter_map(times).collect()
    };
    let mut all: Vec<f64> = (0..15)
        .map(|_| {
            let pid = deployment.pid("user").unwrap();
            kill(pid);
            let now =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
            let after =
                || answers(&ping.stdout()).into_iter().filter(|(_, sent)| *sent > now).collect::<Vec<_>>();
            // It has run for a while when it is killed again.
            wait_for("answers", PATIENCE, || after().len() > 500).unwrap();
            let first = after()[0].0;
            (first - now) * 1000.0
        })
        .collect();
    all.sort_by(f64::total_cmp);
    println!("gone for {:.0} to {:.0} ms, median {:.0} ms, of {}", all[0], all[14], all[7], all.len());
    ping.interrupt(PATIENCE).unwrap();
    assert!(up.interrupt(PATIENCE).unwrap().status.success());
}

/// Starts nothing, or nothing that stays.
#[test]
fn what_cannot_be_started_leaves_nothing() {
    if testbed::rig::skip("what_cannot_be_started_leaves_nothing") {
        return;
    }
    let home = Namespace::new("up").unwrap();
    let router = "[planes.user]\nkind = \"user\"\nconfig = \"router.click\"\n";
    let fails = |text: &str, configuration: &str, status: i32, said: &[&str]| {
        let deployment = Deployment::new(text, configuration);
        let output = deployment.up(&home).finish(PATIENCE).unwrap();
        for words in said {
            assert!(output.stderr.contains(words), "{words}\n{}", output.stderr);
        }
        assert_eq!(output.status.code(), Some(status), "{}", output.stderr);
        assert!(deployment.rows().is_empty() && deployment.pid("user").is_none());
    };
    let forward = "TimedSource -> Discard;";
    fails(&format!("{router}cores = \"5000\"\n"), forward, 2, &["all planes share all cores", "d.toml:5:9"]);
    let amp = format!("placement = \"amp\"\n{router}cores = \"5000\"\n");
    fails(&amp, forward, 2, &["this machine has no cores 5000", "cores that can be used"]);
    fails(&format!("{router}netns = \"x/y\"\n"), forward, 2, &["is no name for a network namespace"]);
    fails(&format!("{router}interfaces = [\"none0\"]\n"), forward, 2, &["there is no interface none0"]);
    fails(&format!("{router}partition = \"kvm\"\n"), forward, 2, &["E0712"]);
    fails(router, "TimedSource -> Discrad;", 2, &["cannot be used", "no such class"]);
    let absent = format!("{router}[planes.x]\nkind = \"control\"\ncommand = [\"no-such-program\"]\n");
    fails(&absent, forward, 2, &["there is no program no-such-program", "d.toml:7:11"]);
    // One that fails after others have become ready stops them again.
    let late = format!(
        "{router}[planes.x]\nkind = \"control\"\ncommand = [\"sh\", \"-c\", \"echo out of order; exit 3\"]\n\
         after = [\"user\"]\nready = \"notified\"\n"
    );
    fails(
        &late,
        forward,
        1,
        &["plane user is ready", "plane `x` ended with status 3 before it was ready", "out of order"],
    );
    let never = format!(
        "{router}[planes.x]\nkind = \"control\"\ncommand = [\"sleep\", \"1000\"]\nready = \"notified\"\n\
         start_timeout = \"300ms\"\n"
    );
    fails(&never, forward, 1, &["plane `x` was not ready within 0.3 s", "it printed nothing"]);
}

#[test]
fn a_deployment_runs_once() {
    if testbed::rig::skip("a_deployment_runs_once") {
        return;
    }
    let home = Namespace::new("up").unwrap();
    let deployment = Deployment::new(
        "[planes.user]\nkind = \"user\"\nconfig = \"router.click\"\n\
         [planes.setup]\nkind = \"control\"\ncommand = \"echo set up\"\nrestart = \"never\"\nafter = [\"user\"]\n",
        "TimedSource -> Discard;",
    );
    let mut up = deployment.up(&home);
    up.wait_for_text("is up: all 2 planes are ready", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    let second = deployment.up(&home).finish(PATIENCE).unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(second.stderr.contains(&format!("is up already (process {})", up.id())), "{}", second.stderr);
    wait_for("the setup's end", PATIENCE, || deployment.state("setup") == "down").unwrap();
    let logs = deployment.run(&["logs", "setup"]);
    assert_eq!(text_of(&logs), "set up\n");
    let wrong = deployment.run(&["restart", "contrl"]);
    assert!(
        text_of(&wrong).contains("there is no plane contrl; there are user, setup"),
        "{}",
        text_of(&wrong)
    );
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success() && ended.stderr.contains("is down"), "{}", ended.stderr);
}
