// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running router gets other configurations: by `ctl hotconfig`, by SIGHUP, by a ControlSocket, by a script, and by `apply`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn junctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_junctor")).args(args).output().expect("junctor")
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < give_up, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A router that runs until it is dropped.
struct Running {
    child: Child,
    socket: PathBuf,
    said: Arc<Mutex<String>>,
}

impl Running {
    fn start(directory: &Path, args: &[&str]) -> Running {
        let socket = directory.join("control");
        let mut child = Command::new(env!("CARGO_BIN_EXE_junctor"))
            .args(["run", "-j", "2", "--time", "600", "--control"])
            .arg(&socket)
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("junctor run");
        let said = Arc::new(Mutex::new(String::new()));
        let (lines, to) = (BufReader::new(child.stderr.take().unwrap()), said.clone());
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                to.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        wait_for("the router's socket", || UnixStream::connect(&socket).is_ok());
        Running { child, socket, said }
    }

    /// What a command about this router prints to standard output and error, and its status.
    fn ask(&self, command: &str, args: &[&str]) -> (String, String, i32) {
        let mut all = vec![command, "--socket", self.socket.to_str().unwrap()];
        all.extend(args);
        let output = junctor(&all);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
    }

    fn read(&self, handler: &str) -> String {
        self.ask("ctl", &[handler]).0.trim().to_owned()
    }

    fn has_said(&self, text: &str) -> bool {
        self.said.lock().unwrap().contains(text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Five packets are counted, and the router waits.
const FIRST: &str = "src :: InfiniteSource(x, 5) -> c :: Counter -> d :: Discard;";
const SECOND: &str = "src :: InfiniteSource(x, 8) -> Null -> c :: Counter -> d :: Discard;";

#[test]
fn drops_are_told_after_their_elements_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let first = "InfiniteSource(LIMIT 5) -> q :: Queue(10) -> Idle; \
        InfiniteSource(LIMIT 7) -> bad :: CheckIPHeader -> Discard;";
    let router = Running::start(dir.path(), &["-R", "-e", first]);
    let drops = || router.ask("drops", &[]).0;
    wait_for("the packets", || router.read("q.length") == "5" && drops() == "7  bad-version\n7    bad\n");
    let (_, why, status) = router.ask("ctl", &["hotconfig", "Idle -> c :: Counter -> Discard;"]);
    assert_eq!(status, 0, "{why}");
    assert_eq!(drops(), "7  bad-version\n7    (gone)\n5  hot-swap\n5    (gone)\n");
}

#[test]
fn hotconfig_needs_permission_and_tells_what_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("second.click");
    std::fs::write(&file, SECOND).unwrap();
    {
        let router = Running::start(dir.path(), &["-e", FIRST]);
        let (_, why, status) = router.ask("ctl", &["hotconfig", SECOND]);
        assert!(status == 1 && why.contains("-R"), "{why}");
        assert!(!router.read("handlers").contains("hotconfig"));
    }
    std::fs::remove_file(dir.path().join("control")).unwrap();
    let router = Running::start(dir.path(), &["-R", "-e", FIRST]);
    assert!(router.read("handlers").contains("hotconfig\tw"));
    wait_for("five packets", || router.read("c.count") == "5");
    let (said, why, status) = router.ask("ctl", &["hotconfig", file.to_str().unwrap()]);
    assert!(status == 0 && said.starts_with("new configuration: 3 elements kept"), "{said}{why}");
    wait_for("eight packets", || router.read("c.count") == "8");
    let (_, why, status) = router.ask("ctl", &["hotconfig", "Idle -> Nonesuch -> Discard;"]);
    assert!(status == 1 && why.contains("hotconfig:1: unknown element class 'Nonesuch'"), "{why}");
    let (said, why, status) = router.ask("ctl", &["--json", "hotconfig", FIRST]);
    assert!(status == 0 && said.contains("\"message\":\"new configuration: "), "{said}{why}");
    assert_eq!(router.read("c.count"), "8");
}

#[test]
fn a_control_socket_stays_open_while_it_swaps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("click");
    let router = Running::start(dir.path(), &["-R", "-u", path.to_str().unwrap(), "-e", FIRST]);
    wait_for("five packets", || router.read("c.count") == "5");
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "Click::ControlSocket/1.3");
    let mut ask = |text: &str| {
        stream.write_all(text.as_bytes()).unwrap();
        lines.next().unwrap().unwrap()
    };
    assert_eq!(ask(&format!("WRITE hotconfig {SECOND}\r\n")), "200 Write handler 'hotconfig' OK");
    wait_for("eight packets", || router.read("c.count") == "8");
    assert_eq!(ask("CHECKREAD c.count\r\n"), "200 Read handler 'c.count' OK");
    assert!(ask("WRITE hotconfig Idle -> Nonesuch;\r\n").starts_with("520-"));
    let mut rest = String::new();
    stream.write_all(b"QUIT\r\n").unwrap();
    stream.read_to_string(&mut rest).unwrap();
}

#[test]
fn sighup_reads_the_file_anew() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("router.click");
    std::fs::write(&file, FIRST).unwrap();
    let router = Running::start(dir.path(), &[file.to_str().unwrap()]);
    wait_for("five packets", || router.read("c.count") == "5");
    let hang_up = || {
        let pid = router.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    };
    std::fs::write(&file, "Idle -> Nonesuch -> Discard;").unwrap();
    hang_up();
    wait_for("a refusal", || router.has_said("the old configuration goes on"));
    assert!(router.has_said("unknown element class 'Nonesuch'") && router.read("c.count") == "5");
    std::fs::write(&file, SECOND).unwrap();
    hang_up();
    wait_for("eight packets", || router.read("c.count") == "8");
    assert!(router.has_said("new configuration: 3 elements kept"));
}

/// What would end a process, or never end, ends another one than the router's.
#[test]
fn what_endangers_the_router_is_tried_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("router.click");
    std::fs::write(&file, FIRST).unwrap();
    let router = Running::start(dir.path(), &["-R", file.to_str().unwrap()]);
    wait_for("five packets", || router.read("c.count") == "5");
    let (_, why, status) = router.ask("ctl", &["hotconfig", "Bridge(PORTS 18446744073709551615);"]);
    assert!(status != 0 && why.contains("PORTS must lie between 1 and"), "{why}");
    let wide = "Idle -> Queue(99999999999999999) -> Discard;";
    let (_, why, status) = router.ask("ctl", &["hotconfig", wide]);
    assert!(status != 0 && why.contains("CAPACITY must lie between"), "{why}");
    std::fs::write(&file, wide).unwrap();
    let pid = router.child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    wait_for("a refusal", || router.has_said("CAPACITY must lie between"));
    assert!(router.read("c.count") == "5");
    assert_eq!(router.ask("ctl", &["hotconfig", SECOND]).2, 0);
    wait_for("eight packets", || router.read("c.count") == "8");
}

/// The trial that a router starts: a process that may not take the memory that it needs ends, and nobody else.
#[test]
fn a_trial_ends_when_it_takes_too_much() {
    let tried = |space: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
        command.args(["trial", "--name", "x", "--workers", "2", "--space", space]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let text = "Idle -> Queue(1000) -> Discard;\n".repeat(500);
        // It may end before it has read all.
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes());
        child.wait().unwrap().success()
    };
    assert!(tried("100000000000"));
    assert!(!tried("1"));
}

#[test]
fn a_script_swaps_on_simulated_time() {
    // No comma in the new text: the script's instructions end there.
    let text = |limit: u32| format!("src :: InfiniteSource(LIMIT {limit}) -> c :: Counter -> Discard;");
    let script = format!("{} Script(wait 1s, write hotconfig {} DriverManager(wait 1s));", text(5), text(9));
    for workers in ["1", "1", "2", "3"] {
        let output = junctor(&["run", "-j", workers, "-R", "--simtime", "-h", "c.count", "-e", &script]);
        let (out, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!((out.trim(), output.status.code()), ("9", Some(0)), "{workers} workers: {why}");
    }
}

/// What the dry run says of elements is what the swap does: who goes on keeps counting, who is replaced begins anew.
#[test]
fn the_actions_of_a_dry_run_are_those_of_the_swap() {
    let dir = tempfile::tempdir().unwrap();
    let first = "src :: InfiniteSource(x, 5) -> c :: Counter -> d :: Counter -> e :: Discard; Idle -> gone :: Discard;";
    let second = "src :: InfiniteSource(x, 5, ACTIVE false) -> c :: Counter -> d :: AverageCounter -> f :: Counter -> e :: Discard;";
    let router = Running::start(dir.path(), &["-e", first]);
    wait_for("five packets", || router.read("d.count") == "5");
    let apply = |args: &[&str]| -> serde_json::Value {
        let (said, why, status) = router.ask("apply", args);
        assert_eq!(status, 0, "{said}{why}");
        serde_json::from_str(&said).unwrap()
    };
    let before = apply(&["--dry-run", "--json", "-e", second]);
    let actions = before["actions"].as_array().unwrap();
    let of = |what: &str| -> Vec<&str> {
        let of = actions.iter().filter(|action| action["action"] == what);
        of.map(|action| action["element"].as_str().unwrap()).collect()
    };
    assert_eq!((of("replace"), of("create"), of("carry")), (vec!["d"], vec!["f"], vec!["src", "c", "e"]));
    assert!(of("remove").contains(&"gone"));
    assert_eq!(router.read("c.count"), "5");
    let done = apply(&["--json", "-e", second]);
    assert_eq!(done["actions"], before["actions"]);
    assert_eq!(["c.count", "d.count", "e.count"].map(|name| router.read(name)), ["5", "0", "5"]);
    let said = done["message"].as_str().unwrap();
    let counted = format!("{} added, {} removed", of("create").len() + 1, of("remove").len() + 1);
    assert!(said.contains(&counted), "{said}");
}

#[test]
fn apply_shows_what_changes_and_comes_back_unless_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    let router = Running::start(dir.path(), &["-e", FIRST]);
    wait_for("five packets", || router.read("c.count") == "5");
    let apply = |args: &[&str]| router.ask("apply", args);
    let (said, why, status) = apply(&["--dry-run", "-e", SECOND]);
    assert!(status == 0 && said.contains("+ src :: InfiniteSource(x, 8)"), "{said}{why}");
    assert!(said.contains("nothing was changed") && router.read("c.count") == "5", "{said}");
    // Back at once.
    let (_, why, status) = apply(&["rollback"]);
    assert!(status == 1 && why.contains("no configuration before"), "{why}");
    assert_eq!(apply(&["-e", SECOND]).2, 0);
    wait_for("eight packets", || router.read("c.count") == "8");
    let (said, why, status) = apply(&["rollback"]);
    assert!(status == 0 && said.starts_with("back to the configuration before"), "{said}{why}");
    assert_eq!(router.read("src.limit"), "5");
    // Back because nobody confirms.
    let (said, why, status) = apply(&["--confirm", "200ms", "-e", SECOND]);
    assert!(status == 0 && said.contains("comes back in 0.2 s"), "{said}{why}");
    wait_for("the return", || router.has_said("nobody confirmed"));
    assert_eq!(router.read("src.limit"), "5");
    assert!(apply(&["status"]).0.starts_with("nothing to be confirmed"));
    // Confirmed.
    assert_eq!(apply(&["--confirm", "1000s", "-e", SECOND]).2, 0);
    assert!(apply(&["status"]).0.starts_with("to be confirmed within"));
    let (said, why, status) = apply(&["confirm"]);
    assert!(status == 0 && said.contains("stays"), "{said}{why}");
    let (_, why, status) = apply(&["confirm"]);
    assert!(status == 1 && why.contains("nothing to confirm"), "{why}");
    assert_eq!(router.read("src.limit"), "8");
    // Errors.
    let (_, why, status) = apply(&["-e", "Idle -> Nonesuch -> Discard;"]);
    assert!(status == 2 && why.contains("Nonesuch"), "{why}");
    let (_, why, status) = apply(&["-e", "FromDevice(no-such-device-0) -> Discard;"]);
    assert!(status == 1 && why.contains("no-such-device-0"), "{why}");
    let (said, _, status) = apply(&["--json", "-e", FIRST]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((status, &json["elements"]["removed"][0]), (0, &"Null@2 :: Null".into()), "{said}");
    assert!(json["message"].as_str().unwrap().starts_with("applied: "));
}

/// Neither handlers nor the comparison show the secret of an element, and what is shown in its place is not taken for one.
#[test]
fn secrets_are_not_shown() {
    let text = |secret: &str, more: &str| {
        format!(
            "define($secret {secret}); in :: Idle -> bfd :: BFD(LINK x, SESSION 10.0.0.2 10.0.0.1 x AUTH sha1 7 $secret) -> {more}Discard;"
        )
    };
    let dir = tempfile::tempdir().unwrap();
    let router = Running::start(dir.path(), &["-e", &text("hush", "")]);
    for handler in ["bfd.config", "config", "flatconfig"] {
        let shown = router.read(handler);
        assert!(shown.contains("AUTH sha1 7") && shown.contains("***") && !shown.contains("hush"), "{shown}");
    }
    for (options, name) in [(&["--dry-run", "-e"][..], "c"), (&["--json", "-e"], "c"), (&["-e"], "d")] {
        let quiet = text("quiet", &format!("{name} :: Counter -> "));
        let given = [options, &[&quiet]].concat();
        let (said, why, status) = router.ask("apply", &given);
        assert!(status == 0 && said.contains(&format!("{name} :: Counter")), "{said}{why}");
        assert!(!(said.clone() + &why).contains("hush") && !said.contains("quiet"), "{said}{why}");
        assert_eq!(said.contains("secrets (***) are not compared"), options[0] != "--json", "{said}");
    }
    // To go back needs the secret, which the router has.
    assert_eq!(router.ask("apply", &["rollback"]).2, 0);
    assert!(!router.read("config").contains("hush"));
    let (_, why, status) = router.ask("apply", &["-e", &text("***", "")]);
    assert!(status == 2 && why.contains("*** stands for a secret that is not shown"), "{why}");
    // Nor do messages about errors, which show lines of the configuration.
    let wrong = "Idle -> bfd :: BFD(LINK x, SESSION 10.0.0.2 10.0.0.1 y AUTH sha1 7 hush) -> Discard;";
    let (said, why, status) = router.ask("apply", &["-e", wrong]);
    assert!(status == 2 && why.contains("there is no LINK y") && why.contains("AUTH sha1 7 ***"), "{why}");
    assert!(!(said + &why).contains("hush"), "{why}");
    let file = dir.path().join("wrong.click");
    std::fs::write(&file, wrong).unwrap();
    let output = junctor(&["check", "--json", file.to_str().unwrap()]);
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no LINK y") && !said.contains("hush"), "{said}");
    assert!(!router.said.lock().unwrap().contains("hush"));
}

/// Nor do recordings, whose reader may be another than the router's administrator.
#[test]
fn recordings_have_no_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("recording").display().to_string();
    let text = "Idle -> bfd :: BFD(LINK x, SESSION 10.0.0.2 10.0.0.1 x AUTH sha1 7 hush) -> Discard;";
    let output = junctor(&["profile", "record", "--time", "100ms", "-o", &file, "--", "-e", text]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&file).unwrap();
    let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
    assert!(has(b"AUTH sha1 7 ***") && !has(b"hush"));
}
