// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server with databases of its own, for programs that the library is loaded into.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipsec::Database;
use sync::rcu::{Domain, Limits};
use xfrm::{Local, Server};

/// Databases and their server.
pub struct Bench {
    directory: tempfile::TempDir,
    pub database: Arc<Database>,
    #[allow(dead_code, reason = "some tests read as workers do")]
    pub domain: Domain,
    server: Option<Server>,
    start: Instant,
}

impl Bench {
    pub fn new() -> Bench {
        let domain = Domain::new(Limits::default());
        let database = Arc::new(Database::new(&domain, 1));
        let directory = tempfile::tempdir().unwrap();
        let mut bench = Bench { directory, database, domain, server: None, start: Instant::now() };
        bench.start();
        bench
    }

    /// Where the server is.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("xfrm")
    }

    /// Starts a server, which also does what time brings about.
    pub fn start(&mut self) {
        let start = self.start;
        let now_ns = move || start.elapsed().as_nanos() as u64;
        let (database, kernel) = (self.database.clone(), Local::new(self.database.clone(), now_ns));
        let events = move || {
            database.tick(now_ns());
            database.events.take(64, Duration::from_millis(100))
        };
        self.server = Some(Server::start(&self.path(), kernel, events).unwrap());
    }

    /// Ends the server. The databases stay.
    pub fn stop(&mut self) {
        self.server = None;
    }
}

/// The library, which cargo builds for this package's tests and puts next to their programs or above.
pub fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let at = |directory: &Path| directory.join("libjunctor_xfrm.so");
    let found = program.ancestors().skip(1).take(2).map(at).find(|file| file.exists());
    found.expect("cargo has built libjunctor_xfrm.so for this test")
}
