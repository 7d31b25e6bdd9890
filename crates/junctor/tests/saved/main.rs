// SPDX-License-Identifier: MIT OR Apache-2.0
//! A service with saved configurations: transactions, failures, `kill -9`, and starting again, while its router forwards.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use planes::notify::{Listener, SOCKET, Said};
use saved::disk::Lock;
use serde_json::Value;
use testbed::process::Process;
use testbed::rig::{Namespace, wait_for};

mod confined;
mod left;
mod traffic;

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

/// It counts, and reads a rule file by a relative path.
const ROUTER: &str = "RatedSource(RATE 1000, LIMIT -1, STOP false) -> c :: Counter -> Discard;
fw :: Firewall(rules/fw, LINK eth0, LINK eth1);
Idle -> [0] fw; Idle -> [1] fw; Idle -> [2] fw;
fw[0] -> Discard; fw[1] -> Discard; fw[2] -> Discard; fw[3] -> Discard; fw[4] -> Discard;
";
const RULES: &str = "zone inside eth1\nzone outside eth0\naccept from inside to outside\n";
const EXTRA: &str = "Idle -> extra :: Counter -> Discard;\n";

/// A service in directories of its own, stopped at the end.
struct Service {
    name: String,
    top: tempfile::TempDir,
    process: Option<Process>,
}

impl Service {
    fn new(files: &[(&str, &str)]) -> Service {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("s{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let service = Service { name, top: tempfile::tempdir().unwrap(), process: None };
        files.iter().for_each(|(path, text)| service.write(path, text));
        service
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    /// Edits a working file.
    fn write(&self, path: &str, text: &str) {
        let path = self.path("etc").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(JUNCTOR);
        command.args(words).env("XDG_RUNTIME_DIR", self.path("run"));
        for name in ["etc", "state", "run"] {
            command.arg(format!("--{name}")).arg(self.path(name));
        }
        command
    }

    fn start(&mut self) {
        self.start_by(self.command(&["service", &self.name]));
    }

    fn start_by(&mut self, command: Command) {
        self.await_start(Process::spawn(command, "junctor service".to_owned()).unwrap());
    }

    /// Starts it in a network namespace.
    fn start_in(&mut self, home: &Namespace) {
        let [etc, state, run] = ["etc", "state", "run"].map(|name| self.path(name).display().to_string());
        let words = [JUNCTOR, "service", &self.name, "--etc", &etc, "--state", &state, "--run", &run];
        let process = home.spawn(&words).unwrap();
        self.await_start(process);
    }

    fn await_start(&mut self, mut process: Process) {
        let socket = self.path("run/config.sock");
        let listens = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
        wait_for("the service", PATIENCE, || listens() || process.ended().is_some()).unwrap();
        assert!(process.ended().is_none(), "{}", process.stderr());
        self.process = Some(process);
    }

    /// Ends the service with its planes, as a shutdown does.
    fn stop(&mut self) {
        let mut process = self.process.take().unwrap();
        signal("-TERM", process.id());
        wait_for("the service's end", PATIENCE, || process.ended().is_some()).unwrap();
        assert!(!self.runs("router"));
    }

    /// Kills the service alone.
    fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        signal("-KILL", process.id());
        wait_for("the service's end", PATIENCE, || process.ended().is_some()).unwrap();
    }

    fn config(&self, words: &[&str]) -> (i32, String) {
        let words: Vec<&str> = ["config"].iter().chain(words).copied().collect();
        let output = self.command(&words).args(["--name", &self.name]).output().unwrap();
        (output.status.code().unwrap_or(-1), text_of(&output))
    }

    /// The same for one that succeeds.
    fn good(&self, words: &[&str]) -> String {
        let (status, text) = self.config(words);
        assert_eq!(status, 0, "{words:?}: {text}");
        text
    }

    fn history(&self) -> Value {
        serde_json::from_str(&self.good(&["history", "--json"])).unwrap()
    }

    /// Which commit is in service, and which boots.
    fn now(&self) -> (u64, u64) {
        let history = self.history();
        (history["in_service"].as_u64().unwrap(), history["confirmed"].as_u64().unwrap())
    }

    fn state(&self, commit: u64) -> String {
        let history = self.history();
        let commits = history["commits"].as_array().unwrap();
        let found = commits.iter().find(|found| found["number"] == commit).unwrap();
        found["state"].as_str().unwrap().to_owned()
    }

    /// Where the planes have their files.
    fn planes(&self) -> PathBuf {
        let root =
            std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
        let above = if root { PathBuf::from("/run/junctor") } else { self.path("run/junctor") };
        above.join(&self.name)
    }

    fn pid(&self, plane: &str) -> u32 {
        let text = std::fs::read_to_string(self.planes().join(format!("{plane}.pid"))).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    fn runs(&self, plane: &str) -> bool {
        self.planes().join(format!("{plane}.pid")).exists() && !command_line(self.pid(plane)).is_empty()
    }

    fn ask(&self, plane: &str, words: &[&str]) -> String {
        let socket = self.planes().join(format!("{plane}.sock"));
        let output = Command::new(JUNCTOR).args(words).arg("--socket").arg(socket).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn count(&self, plane: &str) -> u64 {
        self.ask(plane, &["ctl", "c.count"]).parse().unwrap_or(0)
    }

    /// Its router has not restarted since this count, and forwards.
    fn goes_on_from(&self, plane: &str, count: u64) {
        let now = self.count(plane);
        assert!(now >= count, "{now} after {count}");
        wait_for("packets", PATIENCE, || self.count(plane) > now).unwrap();
    }

    fn has_extra(&self, plane: &str) -> bool {
        self.ask(plane, &["ctl", "extra.count"]) == "0"
    }

    fn rules(&self, plane: &str) -> usize {
        let shown: Value = serde_json::from_str(&self.ask(plane, &["firewall", "show", "--json"])).unwrap();
        shown["rules"].as_array().unwrap().len()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            signal("-TERM", process.id());
            let _ = wait_for("the service's end", PATIENCE, || process.ended().is_some());
        }
        let mut down = Command::new(JUNCTOR);
        let _ =
            down.args(["down", "--deployment", &self.name]).env("XDG_RUNTIME_DIR", self.path("run")).output();
        let _ = std::fs::remove_dir_all(self.planes());
    }
}

fn signal(which: &str, pid: u32) {
    assert!(Command::new("kill").args([which, &pid.to_string()]).status().unwrap().success());
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn router(files: &[(&str, &str)]) -> Service {
    let mut all = vec![("router.click", ROUTER), ("rules/fw", RULES)];
    all.extend(files);
    let mut service = Service::new(&all);
    service.start();
    service
}

/// A service of a router and a daemon.
fn planes() -> Service {
    Service::new(&[
        ("deployment.toml", PLANES),
        ("router.click", ROUTER),
        ("rules/fw", RULES),
        ("daemon.conf", "1001\n"),
    ])
}

#[test]
fn a_change_is_a_transaction() {
    let service = router(&[("keys/a", "hidden-1")]);
    let key = service.path("etc/keys/a");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!((service.now(), service.rules("router")), ((1, 1), 2));
    let (pid, count) = (service.pid("router"), service.count("router"));
    // A rule file alone.
    service.write("rules/fw", &format!("{RULES}accept from outside to inside tcp port 443\n"));
    std::fs::write(&key, "hidden-2").unwrap();
    let diff = service.good(&["diff"]);
    assert!(
        diff.contains("+accept from outside to inside tcp port 443\n") && diff.contains("(secret, changed)"),
        "{diff}"
    );
    assert!(!diff.contains("hidden"), "{diff}");
    let dry = service.good(&["apply", "--dry-run"]);
    assert!(dry.contains("hot swap of plane router (keys/a, rules/fw)"), "{dry}");
    assert_eq!(service.now(), (1, 1));
    let said = service.good(&["apply", "--comment", "web"]);
    assert!(said.contains("commit 2 is in service and confirmed\n  hot swap"), "{said}");
    assert_eq!((service.now(), service.rules("router"), service.pid("router")), ((2, 2), 3, pid));
    service.goes_on_from("router", count);
    assert!(service.good(&["apply"]).contains("the files are the same"));
    // What is edited later changes nothing, even if the rules are loaded again.
    service.write("rules/fw", "nonsense\n");
    service.ask("router", &["firewall", "load"]);
    assert_eq!(service.rules("router"), 3);
    // What is wrong is said, and nothing is saved.
    let (status, said) = service.config(&["apply"]);
    assert!(status == 2 && said.contains("rules/fw:1"), "{status}: {said}");
    let (status, said) = service.config(&["check", "--json"]);
    assert!(status == 2 && serde_json::from_str::<Vec<Value>>(&said).unwrap().len() > 1, "{said}");
    // What only the router can find out is put back.
    service.write("rules/fw", RULES);
    service.write("router.click", &format!("{ROUTER}FromDevice(nosuch0, METHOD AF_PACKET) -> Discard;\n"));
    let (status, said) = service.config(&["apply"]);
    assert!(
        status == 1 && said.contains("everything was put back") && said.contains("nosuch0"),
        "{status}: {said}"
    );
    assert_eq!((service.now(), service.rules("router"), service.state(3)), ((2, 2), 3, "failed".into()));
    service.goes_on_from("router", count);
    service.ask("router", &["firewall", "load"]);
    assert_eq!(service.rules("router"), 3, "the old one goes on with its own files");
    // Back.
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    service.good(&["apply"]);
    assert!(service.has_extra("router") && service.now() == (4, 4));
    let said = service.good(&["rollback", "1"]);
    assert!(said.contains("commit 5 is in service"), "{said}");
    assert!(!service.has_extra("router") && service.rules("router") == 2 && service.pid("router") == pid);
    service.goes_on_from("router", count);
    // The working files are those of commit 4 still.
    let (status, said) = service.config(&["apply"]);
    assert!(status == 1 && said.contains("edited from commit 4, but commit 5 ("), "{said}");
    let [live, etc] = ["state/live/.", "etc"].map(|path| service.path(path));
    assert!(Command::new("cp").arg("-a").args([live, etc]).status().unwrap().success());
    assert!(service.good(&["apply"]).contains("the files are the same"));
    service.write("rules/fw", &format!("{RULES}# more\n"));
    service.good(&["apply"]);
    assert_eq!(service.now(), (6, 6));
    let shown = service.good(&["show", "1", "rules/fw"]);
    assert_eq!(shown, RULES);
    assert!(service.config(&["show", "2", "keys/a"]).1.contains("is a secret"));
    let key = service.path("state/commits/2/files/keys/a");
    assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_nobody_confirms_goes_by_itself() {
    let service = router(&[]);
    let count = service.count("router");
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    // The client has ended when the time is up.
    let said = service.good(&["apply", "--confirm-within", "1s"]);
    assert!(said.contains("commit 1 comes back in 1 s"), "{said}");
    wait_for("the old commit", PATIENCE, || service.now() == (1, 1)).unwrap();
    assert_eq!((service.has_extra("router"), service.state(2)), (false, "returned".into()));
    // Another attempt, taken back by hand.
    service.good(&["apply", "--confirm-within", "10m"]);
    assert!(service.has_extra("router") && service.now() == (3, 1));
    let (status, said) = service.config(&["apply"]);
    assert!(status == 1 && said.contains("commit 3 of") && said.contains("waits to be confirmed"), "{said}");
    assert!(service.good(&["rollback"]).contains("commit 1 is in service again"));
    assert!(!service.has_extra("router") && service.now() == (1, 1));
    // And one that is confirmed.
    service.good(&["apply", "--confirm-within", "10m"]);
    assert!(service.good(&["confirm"]).contains("commit 4 is confirmed"));
    assert!(service.has_extra("router") && service.now() == (4, 4));
    assert_eq!(service.config(&["confirm"]).0, 1);
    service.goes_on_from("router", count);
}

/// Has the time to confirm be over, as if the service had been away for long.
fn expire(service: &Service) {
    let path = service.path("state/trial");
    let mut trial: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    trial["until_ms"] = 1.into();
    std::fs::write(path, trial.to_string()).unwrap();
}

#[test]
fn a_killed_service_goes_back_to_what_was_confirmed() {
    let mut service = router(&[]);
    let (pid, count) = (service.pid("router"), service.count("router"));
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    service.good(&["apply", "--confirm-within", "10m"]);
    assert!(service.has_extra("router"));
    service.kill();
    // Without a service the router goes on; the next service waits for the rest of the time, and the router does not notice.
    service.goes_on_from("router", count);
    service.start();
    assert_eq!((service.now(), service.pid("router"), service.has_extra("router")), ((2, 1), pid, true));
    let (status, said) = service.config(&["apply"]);
    assert!(status == 1 && said.contains("waits to be confirmed for another "), "{said}");
    // Where the time is over when it starts, it takes the change back.
    service.kill();
    expire(&service);
    service.start();
    assert_eq!((service.now(), service.pid("router"), service.has_extra("router")), ((1, 1), pid, false));
    assert_eq!(service.state(2), "returned");
    service.goes_on_from("router", count);
    // And where it is over while it waits.
    service.good(&["apply", "--confirm-within", "2s"]);
    service.kill();
    service.start();
    wait_for("the old commit", PATIENCE, || service.now() == (1, 1)).unwrap();
    assert_eq!((service.has_extra("router"), service.state(3)), (false, "returned".into()));
    // A change can be confirmed in the next service.
    service.good(&["apply", "--confirm-within", "10m"]);
    service.kill();
    service.start();
    service.good(&["confirm"]);
    assert_eq!((service.now(), service.state(4), service.pid("router")), ((4, 4), "confirmed".into(), pid));
    service.good(&["rollback", "1"]);
    // What is not confirmed does not start after a reboot.
    service.good(&["apply", "--force", "--confirm-within", "10m"]);
    service.stop();
    service.start();
    assert_eq!(
        (service.now(), service.has_extra("router"), service.state(3)),
        ((5, 5), false, "returned".into())
    );
    // The confirmed commit boots, even if the files are wrong; and a service that is killed takes over its own.
    service.good(&["apply", "--force"]);
    service.write("router.click", "nonsense");
    service.stop();
    service.start();
    assert!(service.has_extra("router") && service.now() == (7, 7));
    let pid = service.pid("router");
    service.kill();
    service.start();
    assert_eq!((service.now(), service.pid("router")), ((7, 7), pid));
}

/// A commit that was saved and has to be confirmed, when the service has ended before it was asked for it.
#[test]
fn a_commit_to_be_confirmed_stays_one_without_its_service() {
    let mut service = router(&[]);
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    service.good(&["apply", "--confirm-within", "10m"]);
    service.good(&["rollback"]);
    // As the command left it: saved, and not asked for.
    let path = service.path("state/commits/2/commit.json");
    let mut commit: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(commit["confirm_within_ms"], 600_000);
    commit["state"] = serde_json::json!({ "is": "pending" });
    std::fs::write(&path, commit.to_string()).unwrap();
    // A client that asks for it without the time to confirm gets it with that.
    let said = ask(&service, r#"{"ask":"apply","commit":2,"confirm_within_ms":null,"force":false}"#);
    assert!(said["text"].as_str().unwrap().contains("comes back in 600 s"), "{said}");
    assert_eq!(service.now(), (2, 1));
    service.good(&["rollback"]);
    service.stop();
}

/// Asks the service by its protocol.
fn ask(service: &Service, line: &str) -> Value {
    use std::io::{BufRead as _, BufReader, Write as _};
    let mut stream = std::os::unix::net::UnixStream::connect(service.path("run/config.sock")).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn clients_that_do_not_ask_hold_nobody_up() {
    use std::io::Write as _;
    let service = router(&[]);
    let connect = || std::os::unix::net::UnixStream::connect(service.path("run/config.sock")).unwrap();
    let slow: Vec<_> = (0..12).map(|_| connect()).collect();
    for mut stream in &slow {
        stream.write_all(b"{\"ask\":").unwrap();
    }
    // Half of the time of one of them would be too long for this.
    let begun = std::time::Instant::now();
    let answered = (0..10).map(|_| ask(&service, r#"{"ask":"status"}"#)["running"].clone());
    assert!(answered.into_iter().all(|running| running == 1));
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    service.good(&["apply"]);
    println!("with 12 slow clients: {:?}", begun.elapsed());
    drop(slow);
}

/// A member of the control group looks, and takes back, but does not apply.
#[test]
fn a_member_of_the_control_group_applies_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: other users can be had by root alone");
        return;
    }
    let mut service = Service::new(&[("router.click", ROUTER), ("rules/fw", RULES)]);
    let mut command = service.command(&["service", &service.name]);
    command.args(["--control-group", "nogroup"]);
    service.start_by(command);
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    service.good(&["apply", "--confirm-within", "10m"]);
    std::fs::set_permissions(service.top.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let member = |request: &str| {
        let program = "use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new($ARGV[0]) or die $!; $s->autoflush(1); \
                       print $s qq($ARGV[1]\n); print <$s>";
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "perl", "-e", program])
            .arg(service.path("run/config.sock"))
            .arg(request)
            .output()
            .unwrap();
        text_of(&output)
    };
    let said = member(r#"{"ask":"status"}"#);
    assert!(said.contains("\"running\":2"), "{said}");
    assert!(member(r#"{"ask":"rollback"}"#).contains("commit 1 is in service again"));
    let path = service.path("state/commits/2/commit.json");
    let mut commit: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    commit["state"] = serde_json::json!({ "is": "pending" });
    std::fs::write(&path, commit.to_string()).unwrap();
    let said = member(r#"{"ask":"apply","commit":2,"confirm_within_ms":null,"force":true}"#);
    assert!(said.contains("only the user of the service and root may apply a commit"), "{said}");
    assert_eq!((service.now(), service.state(2)), ((1, 1), "pending".into()));
    assert!(!service.has_extra("router"));
}

#[test]
fn a_service_that_waits_for_a_plane_ends_at_once() {
    let mut service = planes();
    service.start();
    let daemon = service.pid("daemon");
    // It gets never ready, and is waited for longer than this test.
    let never = format!("{PLANES}ready = \"notified\"\nstart_timeout = \"1h\"\n");
    service.write("deployment.toml", &never);
    service.write("daemon.conf", "1002\n");
    let mut client = service.command(&["config", "apply", "--name", &service.name]).spawn().unwrap();
    // The file goes and comes meanwhile.
    let file = service.planes().join("daemon.pid");
    let other = || std::fs::read_to_string(&file).ok()?.split(' ').next()?.parse::<u32>().ok();
    wait_for("the restart", PATIENCE, || other().is_some_and(|pid| pid != daemon)).unwrap();
    assert_eq!(ask(&service, r#"{"ask":"status"}"#)["busy"], true);
    let mut process = service.process.take().unwrap();
    signal("-TERM", process.id());
    wait_for("the service's end", PATIENCE, || process.ended().is_some()).unwrap();
    assert!(!service.runs("user") && !service.runs("daemon"));
    assert!(!client.wait().unwrap().success());
    // The next start is one of the confirmed commit.
    service.start();
    assert_eq!((service.now(), service.state(2)), ((1, 1), "failed".into()));
    assert_eq!(command_line(service.pid("daemon")), "sleep 1001 ");
}

#[test]
fn two_people_are_told_of_each_other() {
    let service = router(&[]);
    let lock = Lock::take(&service.path("state/candidate.lock"), "ann (process 1)").unwrap().unwrap();
    let (status, said) = service.config(&["apply"]);
    assert!(status == 1 && said.contains("ann (process 1) is changing the configuration"), "{said}");
    drop(lock);
    // Bob edits a copy of commit 1 while Ann applies commit 2.
    let copy = |from: &str, to: &str| {
        let done =
            Command::new("cp").args(["-r", from, to]).current_dir(service.top.path()).status().unwrap();
        assert!(done.success());
    };
    copy("etc", "bob");
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    service.good(&["apply", "--comment", "mine"]);
    std::fs::remove_dir_all(service.path("etc")).unwrap();
    copy("bob", "etc");
    service.write("rules/fw", &format!("{RULES}# bob\n"));
    let (status, said) = service.config(&["apply", "--parent", "1"]);
    assert!(
        status == 1 && said.contains("edited from commit 1, but commit 2 (") && said.contains("mine"),
        "{said}"
    );
    assert!(service.has_extra("router") && service.now() == (2, 2));
    service.good(&["apply", "--parent", "1", "--force"]);
    assert!(!service.has_extra("router") && service.now() == (3, 3));
    assert_eq!(service.config(&["diff", "2", "3", "--exit-code"]).0, 1);
    assert_eq!(service.config(&["diff", "3", "3", "--exit-code"]).0, 0);
}

#[test]
fn a_commit_without_service_is_what_starts() {
    let mut service = router(&[]);
    service.stop();
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    let (status, said) = service.config(&["apply", "--confirm-within", "1m"]);
    assert!(status == 2 && said.contains("nothing could take the change back"), "{said}");
    assert!(service.good(&["apply"]).contains("starts with it"));
    assert_eq!(service.config(&["confirm"]).0, 1);
    service.start();
    assert!(service.has_extra("router"));
    // Another service of that name is refused.
    let output = service.command(&["service", &service.name]).output().unwrap();
    assert!(
        output.status.code() == Some(2) && text_of(&output).contains("runs already"),
        "{}",
        text_of(&output)
    );
}

#[test]
fn a_first_start_with_mistakes_says_them() {
    for (files, says) in [
        (&[("router.click", "Idle -> Discrad;")][..], "Discrad"),
        (&[("notes", "x")][..], "neither router.click nor deployment.toml"),
        (
            &[("deployment.toml", "name = \"other\"\n[planes.a]\nkind = \"user\"\ncommand = \"true\"\n")][..],
            "leave its line",
        ),
    ] {
        let service = Service::new(files);
        let output = service.command(&["service", &service.name]).output().unwrap();
        assert!(output.status.code() == Some(2) && text_of(&output).contains(says), "{}", text_of(&output));
        assert!(!service.path("state/confirmed").exists());
    }
}

const PLANES: &str = r#"[planes.user]
kind = "user"
config = "router.click"
[planes.daemon]
kind = "control"
command = ["sh", "-c", "read n < daemon.conf; exec sleep $n"]
after = ["user"]
stop_timeout = "1s"
"#;

fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

#[test]
fn planes_change_one_by_one_and_come_back() {
    let mut service = planes();
    service.start();
    let pids = || (service.pid("user"), service.pid("daemon"));
    let (user, daemon) = pids();
    let count = service.count("user");
    // A daemon's file restarts it alone.
    service.write("daemon.conf", "1002\n");
    let said = service.good(&["apply"]);
    assert!(said.contains("restart plane daemon (daemon.conf)") && !said.contains("hot swap"), "{said}");
    assert!(pids().0 == user && pids().1 != daemon);
    wait_for("the daemon", PATIENCE, || command_line(pids().1) == "sleep 1002 ").unwrap();
    let daemon = pids().1;
    // A router's is a hot swap.
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    let said = service.good(&["apply"]);
    assert!(said.contains("hot swap of plane user (router.click)") && !said.contains("restart"), "{said}");
    assert!(pids() == (user, daemon) && service.has_extra("user"));
    // A new plane that does not get ready takes all of the change back with it.
    let bad =
        "[planes.bad]\nkind = \"management\"\ncommand = \"false\"\nready = \"notified\"\nbackoff = \"1ms\"\n";
    service.write("deployment.toml", &format!("{PLANES}{bad}"));
    service.write("router.click", ROUTER);
    let (status, said) = service.config(&["apply"]);
    assert!(status == 1 && said.contains("start plane bad: it does not get ready"), "{status}: {said}");
    assert!(pids() == (user, daemon) && service.has_extra("user") && service.now() == (3, 3));
    assert!(!service.runs("bad"));
    // One that does, and a daemon that is written differently.
    let good = bad.replace("false", "sleep 1003").replace("notified", "started");
    let planes = PLANES.replace("exec sleep $n", "exec sleep $n$n");
    service.write("deployment.toml", &format!("{planes}{good}"));
    let dry = service.good(&["apply", "--dry-run", "--json"]);
    let dry: Value = serde_json::from_str(&dry).unwrap();
    let words: Vec<&str> =
        dry["actions"].as_array().unwrap().iter().map(|a| a["action"].as_str().unwrap()).collect();
    assert_eq!(words, ["swap", "supervise", "start", "restart"]);
    service.good(&["apply"]);
    assert!(pids().0 == user && pids().1 != daemon && !service.has_extra("user"));
    wait_for("the daemon", PATIENCE, || command_line(pids().1) == "sleep 10021002 ").unwrap();
    assert_eq!(command_line(service.pid("bad")), "sleep 1003 ");
    service.goes_on_from("user", count);
    // What concerns all planes restarts all; and back again, for it is not confirmed.
    service.write("deployment.toml", &format!("cores = \"0\"\n{PLANES}"));
    let said = service.good(&["apply", "--confirm-within", "10m"]);
    assert!(said.contains("restart all planes"), "{said}");
    assert!(pids().0 != user && !service.runs("bad"));
    service.good(&["rollback"]);
    assert_eq!(command_line(service.pid("bad")), "sleep 1003 ");
    service.stop();
}

/// Its daemon writes down with which file it runs. It does not end while a file forbids it.
const STUBBORN: &str = r#"[planes.user]
kind = "user"
config = "router.click"
[planes.daemon]
kind = "control"
command = ["sh", "-c", "trap 'test -e TOP/stay || exit' TERM; read n < daemon.conf; echo $n > TOP/now; while :; do sleep 0.05; done"]
stop_timeout = "10m"
"#;

#[test]
fn a_service_that_is_killed_in_the_middle_leaves_nothing_half_done() {
    let mut service = Service::new(&[("router.click", ROUTER), ("rules/fw", RULES), ("daemon.conf", "1\n")]);
    service.write("deployment.toml", &STUBBORN.replace("TOP", &service.top.path().display().to_string()));
    service.start();
    let stay = service.path("stay");
    std::fs::write(&stay, "").unwrap();
    let (user, count) = (service.pid("user"), service.count("user"));
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    service.write("daemon.conf", "2\n");
    let mut command = service.command(&["config", "apply", "--name", &service.name]);
    let client = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The router has the new configuration, and the daemon is being restarted.
    wait_for("the hot swap", PATIENCE, || service.has_extra("user")).unwrap();
    service.kill();
    std::fs::remove_file(&stay).unwrap();
    let said = text_of(&client.wait_with_output().unwrap());
    assert!(said.contains("ended before it answered"), "{said}");
    service.start();
    assert_eq!((service.now(), service.state(2), service.pid("user")), ((1, 1), "returned".into(), user));
    assert!(!service.has_extra("user"));
    let noted = service.path("now");
    let now = || std::fs::read_to_string(&noted).unwrap_or_default();
    wait_for("the daemon", PATIENCE, || now() == "1\n").unwrap();
    // The same on the way back.
    service.good(&["apply", "--confirm-within", "10m"]);
    wait_for("the daemon", PATIENCE, || now() == "2\n").unwrap();
    std::fs::write(&stay, "").unwrap();
    let mut client = service.command(&["config", "rollback", "--name", &service.name]).spawn().unwrap();
    wait_for("the way back", PATIENCE, || !service.has_extra("user")).unwrap();
    service.kill();
    std::fs::remove_file(&stay).unwrap();
    let _ = client.wait();
    assert_eq!(now(), "2\n");
    service.start();
    assert_eq!((service.now(), service.pid("user"), service.has_extra("user")), ((1, 1), user, false));
    wait_for("the daemon", PATIENCE, || now() == "1\n").unwrap();
    service.goes_on_from("user", count);
}

#[test]
fn systemd_hears_of_the_service_and_a_killed_supervisor_is_replaced() {
    let mut service = Service::new(&[("router.click", ROUTER), ("rules/fw", RULES)]);
    let path = service.path("systemd");
    let systemd = Listener::bind(&path).unwrap();
    let mut command = service.command(&["service", &service.name]);
    command.env(SOCKET, &path);
    service.start_by(command);
    let hears = |what: fn(&Said) -> bool| while !systemd.next().unwrap().iter().any(what) {};
    hears(|said| matches!(said, Said::Ready));
    hears(|said| matches!(said, Said::Heartbeat));
    let supervisor = || {
        let text = std::fs::read_to_string(service.planes().join("lock")).unwrap_or_default();
        text.trim().parse::<u32>().unwrap_or(0)
    };
    let (before, router, count) = (supervisor(), service.pid("router"), service.count("router"));
    signal("-KILL", before);
    wait_for("another supervisor", PATIENCE, || supervisor() != before && supervisor() != 0).unwrap();
    hears(|said| matches!(said, Said::Heartbeat));
    assert_eq!((service.pid("router"), service.now()), (router, (1, 1)));
    service.goes_on_from("router", count);
    // And it takes changes.
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    service.good(&["apply"]);
    assert!(service.has_extra("router"));
    // With the planes stopped by hand, the service has nothing to do.
    let mut down = Command::new(JUNCTOR);
    down.args(["down", "--deployment", &service.name]).env("XDG_RUNTIME_DIR", service.path("run"));
    assert!(down.status().unwrap().success());
    let mut process = service.process.take().unwrap();
    wait_for("the service's end", PATIENCE, || process.ended().is_some()).unwrap();
    assert!(process.ended().is_some_and(|status| status.success()));
}

/// Kills the service at a random moment of a change, several times. What is in service afterwards is one commit in all of its parts.
#[test]
fn a_service_killed_at_any_moment_has_one_commit() {
    let seed = std::env::var("JUNCTOR_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("JUNCTOR_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let version = |n: u32| format!("{ROUTER}v{n} :: Idle -> Discard;\n");
    let deployment = |n: u32| PLANES.replace("exec sleep", &format!("V={n} exec sleep"));
    let mut service = Service::new(&[
        ("router.click", &version(0)),
        ("deployment.toml", &deployment(0)),
        ("rules/fw", RULES),
        ("daemon.conf", "1000\n"),
    ]);
    service.start();
    let (user, mut current) = (service.pid("user"), 0);
    for next in 1..=5 {
        service.write("router.click", &version(next));
        service.write("deployment.toml", &deployment(next));
        service.write("daemon.conf", &format!("{}\n", 1000 + next));
        let mut client =
            service.command(&["config", "apply", "--force", "--name", &service.name]).spawn().unwrap();
        std::thread::park_timeout(Duration::from_micros(random.u64(..400_000)));
        service.kill();
        let applied = client.wait().unwrap().success();
        service.start();
        let (running, confirmed) = service.now();
        assert_eq!(running, confirmed);
        let text = service.good(&["show", &running.to_string(), "daemon.conf"]);
        let version: u32 = text.trim().parse::<u32>().unwrap() - 1000;
        assert!(version == next || (version == current && !applied), "{version} after {current}, to {next}");
        let elements = service.ask("user", &["ctl", "list"]);
        assert!(elements.lines().any(|name| name == format!("v{version}")), "{version}: {elements}");
        let line = format!("sleep {} ", 1000 + version);
        wait_for("the daemon", PATIENCE, || command_line(service.pid("daemon")) == line).unwrap();
        current = version;
    }
    assert_eq!(service.pid("user"), user, "the router went on");
}

/// The same commands by the API of the service's machine: their output, and what they do.
#[test]
fn another_machine_is_configured_over_the_api() {
    let service = router(&[("keys/a", "hidden")]);
    let key = service.path("etc/keys/a");
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let socket = service.path("api.sock");
    let [etc, state, run] = ["etc", "state", "run"].map(|name| service.path(name).display().to_string());
    let mut command = Command::new(JUNCTOR);
    command.args(["manage", "--listen", &format!("unix:{}", socket.display())]);
    command.arg("--service").arg(format!("{}={etc},{state},{run}", service.name));
    command.env("XDG_RUNTIME_DIR", service.path("run"));
    let mut api = Process::spawn(command, "junctor manage".to_owned()).unwrap();
    let listens = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
    wait_for("the API", PATIENCE, || listens() || api.ended().is_some()).unwrap();
    let remote = format!("unix:{}#{}", socket.display(), service.name);
    let far = |words: &[&str]| {
        let output =
            Command::new(JUNCTOR).arg("config").args(words).args(["--remote", &remote]).output().unwrap();
        (output.status.code().unwrap_or(-1), text_of(&output))
    };
    // What 'near' prints, 'far' prints, too.
    let same = |words: &[&str]| {
        let near = service.config(words);
        assert_eq!(far(words), near, "{words:?}");
        near
    };
    service.write("router.click", &format!("{ROUTER}{EXTRA}"));
    same(&["show"]);
    same(&["show", "--json"]);
    same(&["show", "1", "rules/fw"]);
    assert_eq!(same(&["show", "9"]).0, 1);
    assert!(same(&["diff"]).1.contains("+Idle -> extra"));
    assert_eq!(same(&["diff", "--exit-code"]).0, 1);
    same(&["diff", "--json"]);
    same(&["history"]);
    same(&["history", "--json"]);
    same(&["check"]);
    same(&["apply", "--dry-run"]);
    same(&["apply", "--dry-run", "--json"]);
    assert_eq!(same(&["confirm"]).0, 1);
    service.write("rules/fw", "nonsense\n");
    let (status, said) = far(&["check"]);
    assert!(status == 2 && said.contains("rules/fw:1"), "{said}");
    let (status, said) = far(&["apply"]);
    assert!(status == 2 && said.contains("rules/fw:1"), "{said}");
    service.write("rules/fw", RULES);
    // A transaction, of which the commit says who asked for it.
    let (status, said) = far(&["apply", "--comment", "from afar", "--confirm-within", "10m"]);
    assert!(status == 0 && said.contains("commit 2 is in service; commit 1 comes back in 600 s"), "{said}");
    assert!(service.has_extra("router") && service.now() == (2, 1));
    assert_eq!(same(&["show", "2", "keys/a"]).0, 2);
    let history = service.history();
    assert_eq!(history["waiting"]["commit"], 2);
    assert_eq!(
        (&history["commits"][0]["comment"], &history["commits"][0]["author"]["sudo_user"]),
        (&"from afar".into(), &"uid 0".into())
    );
    let (status, said) = far(&["confirm"]);
    assert!(status == 0 && said.contains("commit 2 is confirmed"), "{said}");
    let (status, said) = far(&["rollback", "1", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!((status, &said["commit"]), (0, &3.into()));
    assert!(!service.has_extra("router") && service.now() == (3, 3));
    let (status, said) = far(&["apply"]);
    assert!(status == 1 && said.contains("edited from commit 2, but commit 3 ("), "{said}");
    let (status, said) = far(&["history", "--name", "none"]);
    assert!(status == 1 && said.contains("there is no service 'none'"), "{said}");
    signal("-TERM", api.id());
    wait_for("the API's end", PATIENCE, || api.ended().is_some()).unwrap();
}
