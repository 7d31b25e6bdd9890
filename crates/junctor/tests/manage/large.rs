// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of tables with a million rows and more: the service holds a page of them, and never a table.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ctl::{Handlers, Listener, Rules, Server, Service};
use element::{Access, HandlerError};
use serde_json::Value;
use testbed::rig;

use super::{curl, start};

/// A control plane and a router whose tables are made up while they are listed.
#[derive(Clone, Copy)]
pub(super) struct MadeUp {
    pub(super) routes: u64,
    pub(super) sessions: u64,
    pub(super) neighbours: u64,
}

/// Sessions in a part, as NAT44 has them.
const PART: u64 = 128;

impl MadeUp {
    /// Serves it at a socket until the server is dropped.
    pub(super) fn serve(self, path: &Path) -> Server {
        Server::start(Listener::unix(path, None).unwrap(), Arc::new(self)).unwrap()
    }

    fn page(self, param: &str) -> String {
        let words: Vec<&str> = param.split(' ').collect();
        let (most, from): (u64, u64) = (words[0].parse().unwrap(), words[1].parse().unwrap_or(0));
        let end = self.routes.min(from + most);
        let mut text = if end < self.routes { end.to_string() } else { "-".to_owned() };
        for n in from..end {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + n as u32);
            let _ = write!(
                text,
                "\n{{\"best\":true,\"feed\":\"fpm\",\"hops\":[{{\"backup\":false,\"gateway\":\"192.0.2.1\",\"labels\":[],\
                 \"link\":\"eth0\",\"weight\":1}}],\"kind\":\"forward\",\"metric\":20,\"object\":7,\"prefix\":\"{address}/32\",\
                 \"protocol\":\"bgp\",\"stale\":false,\"table\":254,\"vrf\":null}}"
            );
        }
        text
    }

    fn sessions(self, from: u64) -> String {
        let end = self.sessions.min(from + PART);
        let mut text = if end < self.sessions { format!("{end}\n") } else { "-\n".to_owned() };
        for n in from..end {
            let host = std::net::Ipv4Addr::from_bits(0x0a00_0000 + (n >> 10) as u32);
            let port = 1024 + (n & 1023);
            let _ =
                writeln!(text, "udp {host} {port} 192.0.2.1 {port} 203.0.113.9 53 open 5 300 4 2000 61 300");
        }
        text
    }

    fn states(self) -> String {
        let line = |n: u64| {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + n as u32);
            format!("{address} 1 02-00-00-00-00-05 1.500000 reachable 0\n")
        };
        (0..self.neighbours).map(line).collect()
    }
}

impl Service for MadeUp {
    fn rules(&self) -> Rules {
        Rules { read_only: true, token: None, idle: None, most: 64, verbose: false }
    }

    fn handlers(&self, _: &Arc<AtomicU64>) -> Box<dyn Handlers> {
        Box::new(*self)
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn say(&self, _: &str) {}
}

impl Handlers for MadeUp {
    fn access(&mut self, _: &str) -> Result<Access, HandlerError> {
        Ok(Access::Read)
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        Ok(match name {
            "list" => "2\nnat\narp\n".into(),
            "nat.class" => "NAT44".into(),
            "arp.class" => "ARPTable".into(),
            "arp.config" => String::new(),
            "arp.states" => self.states(),
            "nat.sessions" => self.sessions(param.parse().unwrap_or(0)),
            "page" => self.page(param),
            "status" => format!("{{\"routes\":{}}}", self.routes),
            "lookup" => "null".into(),
            other => return Err(HandlerError::unknown(other)),
        })
    }

    fn write(&mut self, name: &str, _: &str) -> Result<String, HandlerError> {
        Err(HandlerError::Denied(name.to_owned()))
    }
}

/// The most memory that a process has had at a time, in KiB.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn tables_of_millions_are_listed_in_little_memory() {
    if rig::skip_without("tables_of_millions_are_listed_in_little_memory", &["curl"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let made_up = MadeUp { routes: 1_000_000, sessions: 16_000_000, neighbours: 100_000 };
    let server = made_up.serve(Path::new(&path("all.sock")));
    let (listen, named) = (format!("unix:{}", path("api.sock")), format!("big={}", path("all.sock")));
    let service = start(
        directory.path(),
        "manage",
        &["manage", "--listen", &listen, "--router", &named, "--control-plane", &path("all.sock")],
    );
    let (pid, socket) = (service.0.id(), path("api.sock"));
    let get = |path: &str| -> Value {
        let (status, bytes) = curl(&["--unix-socket", &socket, &format!("http://localhost/api/v1/{path}")]);
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&bytes));
        serde_json::from_slice(&bytes).unwrap()
    };
    assert_eq!(get("routes?limit=1")["routes"].as_array().unwrap().len(), 1);
    let before = peak_kib(pid);
    // Four clients at the same time, each with pages from all over the tables.
    let pages = |client: u64| {
        let mut seen = HashSet::new();
        for n in 0..3 {
            let at = (client * 3 + n) * 80_000;
            let page = get(&format!("routes?limit=10000&cursor={at}"));
            assert_eq!((&page["count"], &page["next"]), (&10_000.into(), &(at + 10_000).to_string().into()));
            seen.extend(page["routes"].as_array().unwrap().iter().map(|route| route["prefix"].to_string()));
            let page = get(&format!("routers/big/sessions?element=nat&limit=10000&cursor={}", at * 16));
            let sessions = page["sessions"].as_array().unwrap();
            assert!(sessions.len() >= 8000 && page["next"].is_string(), "{}", sessions.len());
            let page = get(&format!("routers/big/neighbours?limit=10000&cursor={},arp", n * 10_000));
            assert_eq!(page["neighbours"].as_array().unwrap().len(), 10_000);
            assert_eq!(page["next"], format!("{},arp", (n + 1) * 10_000));
        }
        seen.len()
    };
    let seen: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|client| scope.spawn(move || pages(client))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(seen, 120_000);
    // A search of which little fits ends after a part of the table, with the place where it goes on.
    let page = get("routers/big/sessions?element=nat&address=10.200.0.0/16");
    assert!(page["sessions"].as_array().unwrap().is_empty() && page["next"].is_string(), "{page}");
    let last = get("routes?limit=10000&cursor=999990");
    assert_eq!((&last["count"], &last["next"]), (&10.into(), &Value::Null));
    let grown = (peak_kib(pid) - before) >> 10;
    println!("the service has grown by {grown} MiB, from {} MiB", before >> 10);
    // The routes alone have 230 MiB as text.
    assert!(grown < 96, "{grown} MiB");
    server.end();
}
