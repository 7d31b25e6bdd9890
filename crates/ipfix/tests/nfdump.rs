// SPDX-License-Identifier: MIT OR Apache-2.0
//! nfcapd and nfdump read the same values from messages as were put in.

use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cases::{START_MS, cases};
use junctor_ipfix::{Change, Event, Exporter, Format, Settings, What};
use serde_json::Value;

mod cases;

/// What nfdump calls the fields of a case; the second name is that of IPv6. Blocks are read from NetFlow v9 only.
const NAMES: [(usize, &str); 15] = [
    (0, "nat_event_id"),
    (1, "src4_addr"),
    (2, "src6_addr"),
    (3, "src4_xlt_ip"),
    (4, "proto"),
    (5, "src_port"),
    (6, "src_xlt_port"),
    (7, "dst4_addr"),
    (8, "dst4_xlt_ip"),
    (9, "dst_port"),
    (10, "dst_xlt_port"),
    (11, "pblock_start"),
    (12, "pblock_end"),
    (13, "pblock_step"),
    (14, "pblock_size"),
];

/// Ends the collector if a test fails.
struct Collector(Child);

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `done`.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Octets that wait in the socket of a port of 127.0.0.1, if there is one.
fn waiting(port: u16) -> Option<u64> {
    let sockets = std::fs::read_to_string("/proc/net/udp").unwrap();
    let place = format!("0100007F:{port:04X}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let socket = sockets.lines().map(words).find(|words| words.get(1) == Some(&place))?;
    u64::from_str_radix(socket.get(4)?.split(':').nth(1)?, 16).ok()
}

/// What nfdump says of messages that nfcapd got; nothing if they are not installed.
fn collected(messages: &[Vec<u8>]) -> Option<Vec<Value>> {
    let directory = tempfile::tempdir().unwrap();
    // A port that was free a moment ago.
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let started = Command::new("nfcapd")
        .args(["-C", "none", "-b", "127.0.0.1", "-t", "3600", "-p", &port.to_string(), "-w"])
        .arg(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(started) = started else {
        eprintln!("skipped: nfcapd is not installed");
        return None;
    };
    let mut collector = Collector(started);
    until("the start of nfcapd", || waiting(port).is_some());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for message in messages {
        socket.send_to(message, ("127.0.0.1", port)).unwrap();
        until("the collector", || waiting(port) == Some(0));
    }
    // It writes its file when it is ended in order.
    let ended = Command::new("kill").arg(collector.0.id().to_string()).status().unwrap();
    assert!(ended.success());
    collector.0.wait().unwrap();
    let is_whole = |path: &Path| !path.to_string_lossy().contains("current");
    let files = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let file = files.filter(|path| is_whole(path)).max().unwrap();
    let shown = Command::new("nfdump")
        .args(["-C", "none", "-o", "json", "-r"])
        .arg(file)
        .env("TZ", "UTC")
        .output()
        .unwrap();
    assert!(shown.status.success(), "{shown:?}");
    Some(serde_json::from_slice(&shown.stdout).unwrap())
}

/// What nfdump calls an event.
fn name(of: &What) -> String {
    let nat = |inside: &IpAddr| if inside.is_ipv6() { "NAT64" } else { "NAT44" };
    let verb = |change: &Change| if *change == Change::Created { "create" } else { "delete" };
    match of {
        What::Session { change, inside, .. } => format!("{} session {}", nat(&inside.0), verb(change)),
        What::Binding { change, inside, .. } => format!("{} BIB {}", nat(inside), verb(change)),
        What::Block { change: Change::Created, .. } => "Port block allocation".to_owned(),
        What::Block { change: Change::Deleted, .. } => "Port block de-allocation".to_owned(),
        What::AddressesExhausted { .. } => "NAT Addresses exhausted".to_owned(),
        What::PortsExhausted { .. } => "NAT ports exhausted".to_owned(),
        What::QuotaExceeded(_) => "Quota Exceeded".to_owned(),
    }
}

fn check(format: Format) {
    let mut exporter = Exporter::new(Settings::new(format), START_MS).unwrap();
    let (events, fields): (Vec<Event>, Vec<Vec<String>>) = cases().into_iter().unzip();
    // Small messages, so that there are several.
    let messages: Vec<Vec<u8>> = events.chunks(5).flat_map(|some| exporter.export(START_MS, some)).collect();
    let Some(found) = collected(&messages) else { return };
    assert_eq!(found.len(), events.len(), "{found:?}");
    for (n, (found, fields)) in found.iter().zip(&fields).enumerate() {
        assert_eq!(found["t_event"], format!("2023-11-14T22:13:20.{:03}", 100 + n), "{found}");
        assert_eq!(found["nat_event"], name(&events[n].what), "{found}");
        for (column, name) in NAMES {
            let is_known = format == Format::NetFlow9 || !name.starts_with("pblock");
            if fields[column] != "-" && is_known {
                let value = found[name].as_str().map_or_else(|| found[name].to_string(), str::to_owned);
                assert_eq!(value, fields[column], "{name} of {found}");
            }
        }
    }
}

#[test]
fn nfdump_reads_ipfix() {
    check(Format::Ipfix);
}

#[test]
fn nfdump_reads_netflow_9() {
    check(Format::NetFlow9);
}
