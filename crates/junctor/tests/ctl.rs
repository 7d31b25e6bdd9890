// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routers are started, asked and stopped by `junctor ctl`.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const TEXT: &str = "src :: InfiniteSource(LIMIT 7) -> c :: Counter -> d :: Discard;";

fn junctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_junctor")).args(args).output().expect("junctor")
}

/// A router that runs until it is stopped or dropped.
struct Running(Child);

impl Running {
    /// Starts a router and waits until it listens.
    fn start(socket: &Path, text: &str) -> Running {
        let child = Command::new(env!("CARGO_BIN_EXE_junctor"))
            .args(["run", "-j", "2", "--time", "600", "--control"])
            .arg(socket)
            .args(["-e", text])
            .stdout(Stdio::null())
            .spawn()
            .expect("junctor run");
        let running = Running(child);
        let give_up = Instant::now() + Duration::from_secs(60);
        while UnixStream::connect(socket).is_err() {
            assert!(Instant::now() < give_up, "the router does not listen");
            std::thread::yield_now();
        }
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `ctl` prints to standard output and error, and its status.
fn ctl(socket: &Path, args: &[&str]) -> (String, String, i32) {
    let mut all = vec!["ctl", "--socket", socket.to_str().unwrap()];
    all.extend(args);
    let output = junctor(&all);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
}

#[test]
fn a_router_is_asked_and_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let mut router = Running::start(&socket, TEXT);
    // Whether all packets have passed is not for this test to wait for: asking is.
    let check = |args: &[&str], want: (&str, &str, i32)| {
        let got = ctl(&socket, args);
        assert_eq!((got.0.as_str(), got.1.as_str(), got.2), want, "{args:?}");
    };
    check(&["list"], ("3\nsrc\nc\nd\n", "", 0));
    check(&["c.class"], ("Counter\n", "", 0));
    check(&["src.active", "false"], ("", "", 0));
    check(&["src.active"], ("false\n", "", 0));
    check(&["--json", "src.active"], ("{\"handler\":\"src.active\",\"value\":\"false\"}\n", "", 0));
    check(&["c.reset"], ("", "", 0));
    check(&["--json", "c.reset"], ("{\"handler\":\"c.reset\",\"written\":true}\n", "", 0));
    check(&["x.count"], ("", "junctor: No element named 'x'\n", 1));
    check(&["c.what"], ("", "junctor: No handler named 'c.what'\n", 1));
    let advice = "to read it with this parameter: junctor ctl --read c.count 5";
    check(&["c.count", "5"], ("", &format!("junctor: Handler 'c.count' read-only; {advice}\n"), 1));
    check(
        &["--json", "c.count", "5"],
        (
            "{\"error\":{\"code\":530,\"message\":\"Handler 'c.count' read-only\"},\"handler\":\"c.count\"}\n",
            "",
            1,
        ),
    );
    let (_, why, status) = ctl(&socket, &["src.active", "perhaps"]);
    assert!(status == 1 && why.contains("perhaps"), "{why}");
    check(&["stop"], ("", "", 0));
    assert!(router.0.wait().unwrap().success());
    assert!(!socket.exists(), "the socket goes with its router");
    let (_, why, status) = ctl(&socket, &["c.count"]);
    assert!(status == 1 && why.contains("no router answers"), "{why}");
}

#[test]
fn a_socket_that_a_killed_router_left_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let mut router = Running::start(&socket, TEXT);
    let second = junctor(&["run", "-j", "1", "--control", socket.to_str().unwrap(), "-e", TEXT]);
    let why = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && why.contains("a router that runs listens there"), "{why}");
    router.0.kill().unwrap();
    router.0.wait().unwrap();
    assert!(socket.exists(), "nobody took it away");
    let (_, why, status) = ctl(&socket, &["c.count"]);
    assert!(status == 1 && why.contains("the router that listened there has ended"), "{why}");
    let _next = Running::start(&socket, TEXT);
    assert_eq!(ctl(&socket, &["c.class"]), ("Counter\n".to_owned(), String::new(), 0));
    let (_, why, status) = ctl(&dir.path().join("none"), &["c.count"]);
    assert!(status == 1 && why.contains("leave --socket out"), "{why}");
}

#[test]
fn drops_are_told_by_reason_and_element() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let text = "InfiniteSource(LIMIT 7) -> bad :: CheckIPHeader -> Discard; InfiniteSource(LIMIT 3) -> all :: Discard;";
    let router = Running::start(&socket, text);
    let drops = |args: &[&str]| {
        let mut all = vec!["drops", "--socket", socket.to_str().unwrap()];
        all.extend(args);
        let output = junctor(&all);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
    };
    let want = "7  bad-version\n7    bad\n3  discarded\n3    all\n";
    let give_up = Instant::now() + Duration::from_secs(60);
    let mut got = drops(&[]);
    while got.0 != want && Instant::now() < give_up {
        got = drops(&[]);
    }
    assert_eq!(got, (want.to_owned(), String::new(), 0));
    let json = "{\"drops\":[{\"elements\":[{\"element\":\"bad\",\"packets\":7}],\"packets\":7,\"reason\":\"bad-version\"}]}\n";
    assert_eq!(drops(&["--json", "bad-version"]).0, json);
    assert_eq!(
        drops(&["no-route"]).0,
        "no-route: The routing table has no entry for the destination.\nnothing was dropped for this reason\n"
    );
    let (_, why, status) = drops(&["no-rout"]);
    assert!(status == 2 && why.contains("did you mean 'no-route'?"), "{why}");
    drop(router);
    let (meaning, why, status) = drops(&["no-route"]);
    assert!(meaning.starts_with("no-route: ") && why.contains("no router") && status == 1, "{meaning}{why}");
    let list = junctor(&["drops", "--list"]);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(
        list.lines().any(|l| l.starts_with("queue-full ") && l.ends_with("A queue was at its capacity.")),
        "{list}"
    );
}

#[test]
fn two_cannot_listen_at_one_place() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let first = Running::start(&socket, TEXT);
    let path = socket.to_str().unwrap();
    let second = junctor(&["run", "--control", path, "-e", TEXT]);
    let why = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(1) && why.contains(path), "{why}");
    assert_eq!(ctl(&socket, &["c.name"]).0, "c\n");
    drop(first);
    // The first one was killed and left its socket behind, which is no obstacle.
    assert!(socket.exists());
    let third = Running::start(&dir.path().join("t"), TEXT);
    drop(third);
    let again = junctor(&["run", "--control", path, "-e", "InfiniteSource(LIMIT 1, STOP true) -> Discard;"]);
    assert!(again.status.success() && !socket.exists());
}

/// What a client of a TCP port gets for its words, until the router ends the connection.
fn ask(port: u16, words: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.write_all(words.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_tcp_port_needs_a_token_or_a_word() {
    let refused = junctor(&["run", "-p", "0", "-e", TEXT]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && why.contains("--control-token") && why.contains("--control-open"),
        "{why}"
    );

    let dir = tempfile::tempdir().unwrap();
    let (socket, token) = (dir.path().join("s"), dir.path().join("token"));
    let text = format!("ControlSocket(TCP, 0); {TEXT}");
    let refused = junctor(&["run", "-e", &text]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("give TOKEN_FILE, or OPEN true"));

    let child = Command::new(env!("CARGO_BIN_EXE_junctor"))
        .args(["run", "-j", "1", "--time", "600", "-p", "0", "--control-token"])
        .arg(&token)
        .arg("--control")
        .arg(&socket)
        .args(["-e", TEXT])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut router = Running(child);
    let give_up = Instant::now() + Duration::from_secs(60);
    while UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < give_up, "the router does not listen");
        std::thread::yield_now();
    }
    let port = ctl(&socket, &["click_driver@@ControlSocket.port"]).0.trim().parse().unwrap();
    let token = std::fs::read_to_string(&token).unwrap();
    assert!(ask(port, "READ list\r\n").contains("530 Authentication required"));
    let answer = ask(port, &format!("AUTH {}\r\nREAD list\r\nWRITE stop\r\nQUIT\r\n", token.trim()));
    assert!(answer.contains("200 Authenticated") && answer.ends_with("200 Goodbye!\r\n"), "{answer}");
    assert!(router.0.wait().unwrap().success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut router.0.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("127.0.0.1:") && said.contains(" wrote stop (0 bytes)"), "{said}");
}

#[test]
fn the_control_socket_removes_nothing_that_is_not_its_own() {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    std::fs::write(&path, "precious").unwrap();
    let run =
        |path: &Path| junctor(&["run", "--control", path.to_str().unwrap(), "--time", "1ms", "-e", TEXT]);
    let why = run(&path);
    assert!(!why.status.success() && String::from_utf8_lossy(&why.stderr).contains("no socket"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(String::from_utf8_lossy(&run(&link).stderr).contains("symbolic link"));
    assert!(link.is_symlink() && path.exists());

    let socket = dir.path().join("mine");
    let router = Running::start(&socket, TEXT);
    let meta = std::fs::symlink_metadata(&socket).unwrap();
    assert!(meta.file_type().is_socket() && meta.mode() & 0o777 == 0o600, "{:o}", meta.mode());
    // Another one does not take the place of one that lives.
    assert!(String::from_utf8_lossy(&run(&socket).stderr).contains("a router that runs listens there"));
    assert_eq!(ctl(&socket, &["c.class"]).0, "Counter\n");
    drop(router);
}

/// Monitors of IPsec's events and a key daemon hear of the same events.
#[test]
fn monitors_take_no_events_from_a_key_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let _router = Running::start(&socket, "ipsec :: IPsecDatabase;");
    let sa =
        "src 192.0.2.1 dst 192.0.2.2 spi 0x100 aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128";
    let ask = |args: &[&str]| {
        let (out, err, status) = ctl(&socket, args);
        assert_eq!((err.as_str(), status), ("", 0), "{args:?}");
        out
    };
    ask(&["ipsec.add_sa", sa]);
    let monitor = |name: &str| {
        let file = dir.path().join(name);
        let child = Command::new(env!("CARGO_BIN_EXE_junctor"))
            .args(["ipsec", "--socket", socket.to_str().unwrap(), "monitor"])
            .stdout(std::fs::File::create(&file).unwrap())
            .spawn()
            .expect("junctor ipsec monitor");
        (Running(child), file)
    };
    let monitors = [monitor("one"), monitor("other")];
    let heard =
        || monitors.each_ref().map(|(_, file)| std::fs::read_to_string(file).unwrap().lines().count());
    // When the association is a second old, each change leads to an event.
    let (give_up, mut daemon) = (Instant::now() + Duration::from_secs(60), String::new());
    while heard().iter().any(|count| *count < 3) {
        assert!(Instant::now() < give_up, "no events: {daemon}");
        ask(&["ipsec.adjust_sa", &format!("{sa} limit time-soft 1")]);
        daemon += &ask(&["--read", "ipsec.take_events", "0"]);
    }
    let lines: Vec<&str> = daemon.lines().filter(|line| !line.is_empty()).collect();
    for (_, file) in &monitors {
        let text = std::fs::read_to_string(file).unwrap();
        let last = &lines[lines.len().saturating_sub(text.lines().count())..];
        assert_eq!(text.lines().collect::<Vec<_>>(), last);
    }
    assert!(lines.iter().all(|line| *line == "expire dst 192.0.2.2 spi 0x00000100 reqid 0 soft"), "{daemon}");
}
