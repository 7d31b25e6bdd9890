// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets that are handed over, and sockets that do not crowd each other out.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Running, start, wait_for};

/// Opens a Unix socket and one of TCP, as systemd does, and becomes the program.
const ACTIVATE: &str = "
import os, socket, sys
unix = socket.socket(socket.AF_UNIX); unix.bind(sys.argv[1]); unix.listen()
tcp = socket.socket(); tcp.bind(('127.0.0.1', 0)); tcp.listen()
open(sys.argv[2], 'w').write(str(tcp.getsockname()[1])); os.rename(sys.argv[2], sys.argv[2] + '.whole')
# Out of the way of 3 and 4, where they have to be.
a, b = os.dup2(unix.fileno(), 20), os.dup2(tcp.fileno(), 21)
os.dup2(a, 3); os.dup2(b, 4)
os.environ.update(LISTEN_FDS='2', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[3], sys.argv[3:])
";

const ASK: &[u8] = b"GET /api/v1/routers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn answer(mut stream: impl std::io::Read + std::io::Write, ask: &[u8]) -> String {
    stream.write_all(ask).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn sockets_that_are_handed_over_are_served() {
    if testbed::rig::skip_without("sockets_that_are_handed_over_are_served", &["python3"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let tokens = path("tokens");
    let program = env!("CARGO_BIN_EXE_junctor");
    let made = Command::new(program).args(["manage", "--new-token", "eve:viewer"]).output().unwrap();
    let text = String::from_utf8(made.stdout).unwrap();
    let (token, line) = text.trim_end().split_once('\n').unwrap();
    std::fs::write(&tokens, line).unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", ACTIVATE, &path("api.sock"), &path("port"), program, "manage", "--tokens", &tokens]);
    let _service = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let mut port = None;
    wait_for(|| {
        let text = std::fs::read_to_string(path("port.whole")).unwrap_or_default();
        port = text.parse::<u16>().ok();
        port.is_some()
    });
    // A client that comes before the program listens is served when it does.
    let unix = UnixStream::connect(path("api.sock")).unwrap();
    assert!(answer(unix, ASK).starts_with("HTTP/1.1 200"));
    let tcp = || std::net::TcpStream::connect(("127.0.0.1", port.unwrap())).unwrap();
    assert!(answer(tcp(), ASK).starts_with("HTTP/1.1 401"), "over TCP it wants a token");
    let shown = format!(
        "GET /api/v1/routers HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    assert!(answer(tcp(), shown.as_bytes()).starts_with("HTTP/1.1 200"));
}

/// Those who come by TCP hold as many connections as they may, and the Unix socket still answers.
#[test]
fn clients_of_tcp_leave_the_unix_socket_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens").display().to_string();
    std::fs::write(&tokens, format!("a viewer sha256:{}\n", "00".repeat(32))).unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (listen, socket) = (format!("127.0.0.1:{port}"), directory.path().join("api.sock"));
    let unix = format!("unix:{}", socket.display());
    let _service = start(
        directory.path(),
        "manage",
        &["manage", "--listen", &unix, "--listen", &listen, "--tokens", &tokens],
    );
    // From several addresses of this machine: one has a part of the connections only.
    let mut held = Vec::new();
    for last in 1..=5u8 {
        for _ in 0..32 {
            let from = std::net::SocketAddr::from(([127, 0, 0, last], 0));
            held.push(connect_from(from, port));
        }
    }
    // The last ones were closed at once.
    wait_for(|| {
        let stream = held.last_mut().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        matches!(stream.read(&mut [0]), Ok(0)) || stream.write(b"G").is_err()
    });
    assert!(answer(UnixStream::connect(&socket).unwrap(), ASK).starts_with("HTTP/1.1 200"));
}

/// A connection from an address of this machine.
fn connect_from(from: std::net::SocketAddr, port: u16) -> std::net::TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&made, &from).unwrap();
    connect(&made, &std::net::SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    made.into()
}
