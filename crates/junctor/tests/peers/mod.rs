// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts that serve, connect and ping, for tests of address translation.

use std::process::Command;
use std::time::Duration;

use testbed::process::Process;
use testbed::rig::{Namespace, PYTHON};

const PATIENCE: Duration = Duration::from_secs(120);

/// Sends back who it sees, and, when the other side has closed, what it got. Its arguments are an address and a port.
const SERVE: &str = r#"
import socket, sys, threading
s = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("listening", flush=True)
def serve(c, who):
    c.sendall(who[0].encode() + b"\n")
    data = b""
    while True:
        got = c.recv(65536)
        if not got: break
        data += got
    c.sendall(data)
    c.close()
while True:
    c, who = s.accept()
    threading.Thread(target=serve, args=(c, who), daemon=True).start()
"#;

/// Connects with so many seconds of patience, sends 100,000 bytes, closes its side, and prints what the server has seen and how many bytes came back.
const CONNECT: &str = r#"
import socket, sys
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))
    s.sendall(b"x" * 100000)
    s.shutdown(socket.SHUT_WR)
    data = b""
    while True:
        got = s.recv(65536)
        if not got: break
        data += got
    seen, rest = data.split(b"\n", 1)
    print(seen.decode(), len(rest))
except Exception as e:
    print(type(e).__name__)
"#;

/// A server on a host, at an address and a port.
pub fn serve(on: &Namespace, address: &str, port: &str) -> Process {
    let mut server = on.spawn(&["python3", "-c", SERVE, address, port]).unwrap();
    server.wait_for_text("listening", PATIENCE).unwrap();
    server
}

/// Connects from a host: who the server sees, and how many bytes come back; or why not.
pub fn connect(from: &Namespace, to: &str, port: &str, patience: &str) -> String {
    from.run(&["python3", "-c", CONNECT, to, port, patience]).unwrap().trim().to_owned()
}

/// Sends one ping.
pub fn ping(from: &Namespace, words: &[&str]) -> Result<String, String> {
    from.run(&[&["ping", "-n", "-c", "1", "-W", "5"], words].concat()).map_err(|why| why.to_string())
}

/// Serves the file `hello` by FTP.
const FTP_SERVER: &str = r#"
import logging, sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer
logging.basicConfig(level=logging.CRITICAL)
FTPHandler.authorizer = DummyAuthorizer()
FTPHandler.authorizer.add_anonymous(sys.argv[2])
server = FTPServer((sys.argv[1], 21), FTPHandler)
print("listening", flush=True)
server.serve_forever()
"#;

/// Whether FTP can be tested here.
pub fn has_ftp() -> bool {
    let found = Command::new(PYTHON).args(["-c", "import pyftpdlib"]).output();
    found.is_ok_and(|found| found.status.success()) && Command::new("curl").arg("-V").output().is_ok()
}

/// A server on a host, with the files of a folder.
pub fn serve_ftp(on: &Namespace, address: &str, folder: &str) -> Process {
    let mut server = on.spawn(&[PYTHON, "-c", FTP_SERVER, address, folder]).unwrap();
    server.wait_for_text("listening", PATIENCE).unwrap();
    server
}
