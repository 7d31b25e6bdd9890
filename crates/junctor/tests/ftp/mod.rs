// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers of FTP for tests of address translation.

use std::process::Command;
use std::time::Duration;

use testbed::process::Process;
use testbed::rig::{Namespace, PYTHON};

const PATIENCE: Duration = Duration::from_secs(120);

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
pub fn is_there() -> bool {
    let found = Command::new(PYTHON).args(["-c", "import pyftpdlib"]).output();
    found.is_ok_and(|found| found.status.success()) && Command::new("curl").arg("-V").output().is_ok()
}

/// A server on a host, with the files of a folder.
pub fn serve(on: &Namespace, address: &str, folder: &str) -> Process {
    let mut server = on.spawn(&[PYTHON, "-c", FTP_SERVER, address, folder]).unwrap();
    server.wait_for_text("listening", PATIENCE).unwrap();
    server
}
