// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor manage` over running routers, asked by curl over its Unix socket and over TLS.

mod handlers;
mod large;
mod remote;
mod scrape;
mod sockets;
mod web;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::rig;

/// Packets that take turns between two workers, and a queue that is too small.
const TEXT: &str = "src :: RatedSource(RATE 2000, LIMIT -1) -> c :: Counter -> q :: Queue(10) -> u :: RatedUnqueue(1000) -> d :: Discard;";

/// A process that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `junctor` and waits until it says that it is ready.
fn start(directory: &Path, name: &str, arguments: &[&str]) -> Running {
    let notified = directory.join(format!("{name}.notify"));
    let socket = UnixDatagram::bind(&notified).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.args(arguments).env("NOTIFY_SOCKET", &notified).stdout(Stdio::null()).stderr(Stdio::piped());
    let running = Running(command.spawn().unwrap());
    let mut bytes = [0; 256];
    let n = socket.recv(&mut bytes).unwrap_or_else(|why| panic!("{name} is not ready: {why}"));
    assert!(String::from_utf8_lossy(&bytes[..n]).contains("READY=1"));
    running
}

/// A router and the service over it.
struct Rig {
    directory: tempfile::TempDir,
    _router: Running,
    service: Running,
}

impl Rig {
    fn new(more: &[&str]) -> Rig {
        Rig::with(TEXT, more)
    }

    /// With a router of this configuration.
    fn with(text: &str, more: &[&str]) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let (router, socket) = (path("r.sock"), path("api.sock"));
        std::fs::write(path("r.click"), text).unwrap();
        let started = start(
            directory.path(),
            "router",
            &["run", "-j", "2", "--time", "600", "--control", &router, "-R", &path("r.click")],
        );
        wait_for(|| UnixStream::connect(&router).is_ok() && Path::new(&format!("{router}.stats")).exists());
        let (listen, named, audit) = (format!("unix:{socket}"), format!("edge={router}"), path("audit"));
        let mut arguments = vec!["manage", "--listen", &listen, "--router", &named, "--audit", &audit];
        arguments.extend(more);
        let service = start(directory.path(), "manage", &arguments);
        Rig { directory, _router: started, service }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn curl(&self, arguments: &[&str]) -> (u32, Vec<u8>) {
        curl(&[&["--unix-socket", self.path("api.sock").to_str().unwrap()][..], arguments].concat())
    }

    fn get(&self, path: &str) -> Value {
        loop {
            let (status, bytes) = self.curl(&[&format!("http://localhost{path}")]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            // Who waits for something asks often.
            if status != 429 {
                assert_eq!(status, 200, "{path}: {text}");
                return serde_json::from_slice(&bytes).unwrap_or(Value::String(text));
            }
        }
    }

    fn send(&self, verb: &str, path: &str, body: &Value) -> (u32, Value) {
        let (url, body) = (format!("http://localhost{path}"), body.to_string());
        let (status, bytes) =
            self.curl(&["-X", verb, "-H", "Content-Type: application/json", "-d", &body, &url]);
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Waits for a job; returns it, and its result.
    fn job(&self, path: &str, body: &Value) -> (Value, Vec<u8>) {
        let (status, job) = self.send("POST", path, body);
        assert_eq!(status, 202, "{job}");
        let place = format!("/api/v1/jobs/{}", job["id"]);
        let mut job = job;
        wait_for(|| {
            job = self.get(&place);
            job["state"] != "running"
        });
        let (status, bytes) = self.curl(&[&format!("http://localhost{place}/result")]);
        assert_eq!(status, 200, "{job}");
        (job, bytes)
    }
}

fn wait_for(mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < give_up, "it does not happen");
        std::thread::yield_now();
    }
}

/// Asks; returns the status and the body.
fn curl(arguments: &[&str]) -> (u32, Vec<u8>) {
    let output = Command::new("curl")
        .args(["-sS", "-m", "60", "-w", "\n%{http_code}"])
        .args(arguments)
        .output()
        .unwrap();
    let end = output.stdout.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let status = String::from_utf8_lossy(&output.stdout[end..]).trim().parse().unwrap_or(0);
    (status, output.stdout[..end].to_vec())
}

#[test]
fn a_router_is_seen_and_changed_over_the_unix_socket() {
    if rig::skip_without("a_router_is_seen_and_changed_over_the_unix_socket", &["curl"]) {
        return;
    }
    let mut rig = Rig::new(&[]);
    let names: Vec<Value> =
        rig.get("/api/v1/routers")["routers"].as_array().unwrap().iter().map(|r| r["name"].clone()).collect();
    assert!(names.contains(&json!("edge")), "{names:?}");
    // Live values come without a question to the router.
    let elements = rig.get("/api/v1/routers/edge/elements");
    assert_eq!(elements["count"], 5);
    wait_for(|| rig.get("/api/v1/routers/edge/elements/c")["packets_per_s"].as_f64().unwrap() > 100.0);
    let graph = rig.get("/api/v1/routers/edge/graph");
    assert_eq!(graph["edges"].as_array().unwrap().len(), 4);
    assert!(graph["elements"].as_array().unwrap().iter().all(|element| element["x"].is_number()), "{graph}");
    wait_for(|| {
        let drops = rig.get("/api/v1/routers/edge/drops");
        drops["drops"].as_array().unwrap().iter().any(|drop| drop["reason"] == "queue-full")
    });
    let handlers = rig.get("/api/v1/routers/edge/elements/c/handlers");
    let has = |name: &str, read: bool| {
        handlers["handlers"].as_array().unwrap().iter().any(|h| h["name"] == name && h["read"] == read)
    };
    assert!(has("count", true) && has("reset", false), "{handlers}");
    assert_eq!(rig.get("/api/v1/routers/edge/handlers/c.class")["value"], "Counter");
    assert_eq!(rig.send("PUT", "/api/v1/routers/edge/handlers/c.reset", &json!({ "value": "" })).0, 200);
    assert_eq!(rig.send("PUT", "/api/v1/routers/edge/handlers/c.none", &json!({ "value": "" })).0, 404);

    let (status, checked) =
        rig.send("POST", "/api/v1/configurations/check", &json!({ "text": "Idle -> Discrad;" }));
    assert_eq!((status, &checked["sound"]), (200, &json!(false)), "{checked}");
    assert_eq!(checked["diagnostics"][0]["place"]["line"], 1, "{checked}");
    let (_, checked) = rig.send("POST", "/api/v1/configurations/check", &json!({ "text": TEXT }));
    assert_eq!(checked, json!({ "sound": true, "diagnostics": [] }));
    let other = TEXT.replace("Queue(10)", "Queue(20)");
    let (status, job) =
        rig.send("POST", "/api/v1/routers/edge/configuration/plan", &json!({ "text": other }));
    assert_eq!((status, &job["state"]), (202, &json!("done")), "{job}");
    let (status, job) =
        rig.send("PUT", "/api/v1/routers/edge/configuration", &json!({ "text": other, "confirm_s": 300 }));
    assert_eq!((status, &job["state"]), (202, &json!("done")), "{job}");
    assert!(rig.get("/api/v1/routers/edge/configuration")["flat"].as_str().unwrap().contains("Queue(20)"));
    let (status, message) = rig.send("POST", "/api/v1/routers/edge/configuration/confirm", &Value::Null);
    assert_eq!(status, 200, "{message}");

    let (job, packets) = rig
        .job("/api/v1/routers/edge/captures", &json!({ "points": ["q:0"], "direction": "in", "count": 3 }));
    assert_eq!(job["state"], "done", "{job}");
    assert_eq!(packets[..4], [0x0a, 0x0d, 0x0d, 0x0a], "pcapng");
    let (job, lines) = rig.job("/api/v1/routers/edge/traces", &json!({ "count": 1 }));
    assert_eq!(job["state"], "done", "{job}");
    let line: Value = serde_json::from_slice(lines.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    assert!(line.is_object(), "{line}");
    let (job, recording) = rig.job("/api/v1/routers/edge/recordings", &json!({ "time_s": 1 }));
    assert!(job["state"] == "done" && !recording.is_empty(), "{job}");

    let wanted = json!({ "procedure": "trial", "device": "cable", "options": ["--time=1", "--rate=1000"] });
    let (job, report) = rig.job("/api/v1/tests", &wanted);
    assert_eq!(job["state"], "done", "{job}");
    assert_eq!(serde_json::from_slice::<Value>(&report).unwrap()["command"], "test trial");

    let mut stream = Command::new("curl");
    stream
        .args(["-sN", "--unix-socket"])
        .arg(rig.path("api.sock"))
        .arg("http://localhost/api/v1/routers/edge/live");
    let mut stream = Running(stream.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(stream.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("event: rates"));
    assert!(lines.next().unwrap().starts_with("data: {"));

    let metrics = rig.get("/metrics");
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("junctor_up{router=\"edge\"} 1"), "{metrics}");
    assert!(
        metrics.contains("junctor_element_drops_total{router=\"edge\",element=\"q\",class=\"Queue\""),
        "{metrics}"
    );
    lint(metrics);

    // Commands ask by the API, too.
    let remote = format!("unix:{}#edge", rig.path("api.sock").display());
    let junctor = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_junctor")).args(arguments).output().unwrap();
        let [out, err] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        (out, err, output.status.code())
    };
    let ctl = |arguments: &[&str]| junctor(&[&["ctl", "--remote", &remote][..], arguments].concat());
    assert_eq!(ctl(&["c.class"]), ("Counter\n".into(), String::new(), Some(0)));
    assert_eq!(ctl(&["c.reset"]), (String::new(), String::new(), Some(0)));
    assert_eq!(ctl(&["--read", "q.length", "x"]).2, Some(0));
    let (_, why, status) = ctl(&["c.none"]);
    assert!(status == Some(1) && why.contains("No handler named 'c.none'"), "{why}");
    let (out, _, _) = junctor(&["drops", "--remote", &remote, "queue-full"]);
    assert!(out.contains("queue-full") && out.contains("  q\n"), "{out}");

    let audit = std::fs::read_to_string(rig.path("audit")).unwrap();
    let done: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        done.iter().any(|line| line["path"] == "/api/v1/routers/edge/configuration" && line["status"] == 202),
        "{audit}"
    );
    assert!(
        done.iter().all(|line| line["path"] != "/api/v1/routers"),
        "who only looks is not logged: {audit}"
    );
    // It ends in an orderly way, also with a stream that is open.
    let pid = nix::unistd::Pid::from_raw(rig.service.0.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(rig.service.0.wait().unwrap().success());
    assert!(!rig.path("api.sock").exists());
}

#[test]
fn a_confined_service_sees_routers_and_does_long_work() {
    if rig::skip_without("a_confined_service_sees_routers_and_does_long_work", &["curl"]) {
        return;
    }
    let rig = Rig::new(&["--confine"]);
    assert_eq!(rig.get("/api/v1/routers/edge/elements")["count"], 5);
    wait_for(|| rig.get("/api/v1/routers/edge/elements/c")["packets_per_s"].as_f64().unwrap() > 100.0);
    let (_, checked) = rig.send("POST", "/api/v1/configurations/check", &json!({ "text": TEXT }));
    assert_eq!(checked, json!({ "sound": true, "diagnostics": [] }));
    let (job, packets) = rig.job("/api/v1/routers/edge/captures", &json!({ "points": ["q:0"], "count": 3 }));
    assert!(job["state"] == "done" && packets.len() > 100, "{job}");
    let pid = rig.service.0.id().to_string();
    let words = ["doctor", "--security", "--json", "--pid", &pid];
    let output = Command::new(env!("CARGO_BIN_EXE_junctor")).args(words).output().unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let threads = seen["security"]["threads"].as_array().unwrap();
    assert!(
        threads.iter().all(|thread| thread["role"] == "service" && thread["capabilities"] == "0"),
        "{seen:#}"
    );
    let files = &seen["security"]["files"];
    assert!(files.is_null() || files["write"].as_array().unwrap().len() == 2, "{files:#}");
}

/// Checks metrics by Prometheus' own tool, if there is one.
fn lint(metrics: &str) {
    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = started else {
        eprintln!("the metrics are not linted: promtool is not installed (package prometheus)");
        return;
    };
    promtool.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, a server's and a client's certificate, made by OpenSSL.
fn certificates(directory: &Path) {
    let script = "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 2 2>/dev/null
        for name in server client; do
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $name.key -out $name.csr -subj /CN=$name 2>/dev/null
            printf 'subjectAltName=IP:127.0.0.1,DNS:localhost' > $name.ext
            openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $name.ext -out $name.pem 2>/dev/null
        done";
    assert!(Command::new("sh").args(["-c", script]).current_dir(directory).status().unwrap().success());
}

#[test]
fn over_tls_clients_show_tokens_or_certificates() {
    if rig::skip_without("over_tls_clients_show_tokens_or_certificates", &["curl", "openssl"]) {
        return;
    }
    let made = tempfile::tempdir().unwrap();
    certificates(made.path());
    let path = |name: &str| made.path().join(name).display().to_string();
    let token = |who: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_junctor"))
            .args(["manage", "--new-token", who])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (token, line) = text.trim_end().split_once('\n').unwrap();
        (token.to_owned(), line.to_owned())
    };
    let (viewer, viewers_line) = token("eve:viewer");
    let (admin, admins_line) = token("ann:admin");
    let tokens = path("tokens");
    std::fs::write(&tokens, format!("{viewers_line}\n{admins_line}\n")).unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    // A port of the machine's choice would have to be read from the log; an unused one serves as well.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    let options = [
        "--listen",
        &listen,
        "--tls",
        &path("server.pem"),
        &path("server.key"),
        "--client-ca",
        &path("ca.pem"),
        "--client-role",
        "operator",
        "--tokens",
        &tokens,
    ];
    let _rig = Rig::new(&options);
    let ask = |arguments: &[&str], to: &str| {
        let (ca, url) = (path("ca.pem"), format!("https://localhost:{port}{to}"));
        curl(&[&["--cacert", &ca][..], arguments, &[&url]].concat()).0
    };
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let certificate = ["--cert".to_owned(), path("client.pem"), "--key".to_owned(), path("client.key")];
    let certificate: Vec<&str> = certificate.iter().map(String::as_str).collect();
    let put = ["-X", "PUT", "-H", "Content-Type: application/json", "-d", "{\"value\":\"\"}"];
    let reset = "/api/v1/routers/edge/handlers/c.reset";
    assert_eq!(ask(&[], "/api/v1/routers"), 401);
    assert_eq!(ask(&["-H", &bearer("wrong")], "/api/v1/routers"), 401);
    assert_eq!(ask(&["-H", &bearer(&viewer)], "/api/v1/routers"), 200);
    assert_eq!(ask(&["-H", &bearer(&viewer), "-H", "Host: evil.example"], "/api/v1/routers"), 403);
    assert_eq!(ask(&[&put[..], &["-H", &bearer(&viewer)]].concat(), reset), 403);
    assert_eq!(ask(&[&put[..], &["-H", &bearer(&admin)]].concat(), reset), 200);
    assert_eq!(ask(&certificate, "/api/v1/routers"), 200);
    assert_eq!(ask(&[&put[..], &certificate].concat(), reset), 200);
    let rollback = "/api/v1/routers/edge/configuration/rollback";
    assert_eq!(ask(&[&["-X", "POST"][..], &certificate].concat(), rollback), 403);
    let remote = format!("https://localhost:{port}/edge");
    let drops = |token: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
        command
            .args(["drops", "--json", "--remote", &remote, "--ca", &path("ca.pem")])
            .env("JUNCTOR_TOKEN", token);
        command.output().unwrap()
    };
    let found: Value = serde_json::from_slice(&drops(&viewer).stdout).unwrap();
    assert!(found["drops"].is_array(), "{found}");
    let refused = drops("wrong");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && why.contains("the token is not known"), "{why}");
    // Without TLS the port gives nothing.
    assert_eq!(curl(&["-H", &bearer(&admin), &format!("http://localhost:{port}/api/v1/routers")]).0, 0);
}

#[test]
fn what_would_be_open_to_everybody_is_refused() {
    let refused = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_junctor")).arg("manage").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["--listen", "127.0.0.1:0"]).contains("give --tokens FILE"));
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens").display().to_string();
    std::fs::write(&tokens, format!("a viewer sha256:{}\n", "00".repeat(32))).unwrap();
    let mode =
        |mode| std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o644);
    assert!(refused(&["--listen", "127.0.0.1:0", "--tokens", &tokens]).contains("chmod 600"));
    mode(0o600);
    assert!(refused(&["--listen", "0.0.0.0:0", "--tokens", &tokens]).contains("needs TLS"));
    std::fs::write(&tokens, "a viewer secret\n").unwrap();
    assert!(refused(&["--listen", "127.0.0.1:0", "--tokens", &tokens]).contains("line 1"));
    assert!(refused(&["--listen", "unix:/proc/x/api.sock"]).contains("cannot listen at /proc/x/api.sock"));
}

#[test]
fn alert_rules_pass_their_tests() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf/monitoring");
    let mut promtool = Command::new("promtool");
    promtool.args(["test", "rules", "alerts.test.yml"]).current_dir(directory);
    match promtool.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            eprintln!("alert_rules_pass_their_tests skipped: promtool is not installed (package prometheus)")
        }
    }
}
