// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal of a translator, sent to a collector by IPFIX and NetFlow v9.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testbed::process::Process;
use testbed::rig::{Namespace, skip, skip_without, wait_for};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);
/// Events that a journal keeps.
const KEPT: u64 = 8192;
/// Datagrams of the second host, each with a port of its own: more events than the journal keeps.
const MANY: u16 = 9000;

const ROUTER: &str =
    "nat :: NAT44(STATEMENT log ports, STATEMENT translate 10.0.1.0/24 to 192.0.2.1 block 512);
Idle -> nat -> Discard;
InfiniteSource(LIMIT 1, STOP false) -> UDPIPEncap(10.0.1.5, 1000, 203.0.113.9, 53) -> [1] nat;
many :: FromIPSummaryDump(MANY, ACTIVE false, CHECKSUM true, STOP false) -> [1] nat;
nat[1] -> Discard;
";

/// A router of its own network, which is a loopback.
struct Site {
    network: Namespace,
    files: tempfile::TempDir,
    router: Process,
}

impl Site {
    /// Starts a router, and waits until its journal has a block and a port of the first host.
    fn new() -> Site {
        Site::of(ROUTER, 2)
    }

    /// Starts a router, and waits until its journal has so many events.
    fn of(router: &str, events: usize) -> Site {
        let network = Namespace::new("nat").unwrap();
        network.ip("link set lo up").unwrap();
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).display().to_string();
        let mut many = "!data src sport dst dport proto\n".to_owned();
        (0..MANY).for_each(|n| {
            let _ = writeln!(many, "10.0.1.6 {} 203.0.113.9 53 U", 1000 + n);
        });
        std::fs::write(path("many"), many).unwrap();
        std::fs::write(path("r.click"), router.replace("MANY", &path("many"))).unwrap();
        let router = network.spawn(&[JUNCTOR, "run", "--control", &path("sock"), &path("r.click")]).unwrap();
        let mut site = Site { network, files, router };
        let socket = site.socket();
        wait_for("the router", PATIENCE, || socket.exists() || site.router.ended().is_some()).unwrap();
        assert!(site.router.ended().is_none(), "{}", site.router.stderr());
        wait_for("events", PATIENCE, || site.events().len() >= events).unwrap();
        site
    }

    fn socket(&self) -> PathBuf {
        self.files.path().join("sock")
    }

    /// Reads or writes handlers.
    fn ctl(&self, words: &[&str]) -> String {
        let done =
            Command::new(JUNCTOR).args(["ctl", "--socket"]).arg(self.socket()).args(words).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// The events that the journal has.
    fn events(&self) -> Vec<Value> {
        let log =
            Command::new(JUNCTOR).args(["nat", "log", "--json", "--socket"]).arg(self.socket()).output();
        let log = log.unwrap();
        assert!(log.status.success(), "{log:?}");
        log.stdout
            .split(|octet| *octet == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }

    /// Starts to send the journal to a port of the loopback.
    fn export(&self, port: u16, words: &[&str]) -> Process {
        let (socket, collector) = (self.socket().display().to_string(), format!("127.0.0.1:{port}"));
        let command = [JUNCTOR, "nat", "log", "--socket", &socket, "--ipfix", &collector];
        self.network.spawn(&[&command[..], words].concat()).unwrap()
    }
}

/// Octets that wait in the socket of a UDP port of a network, if there is one.
fn waiting(network: &Namespace, port: u16) -> Option<u64> {
    let sockets = network.run(&["cat", "/proc/net/udp"]).unwrap();
    let place = format!("0100007F:{port:04X}");
    let line = sockets.lines().find(|line| line.contains(&place))?;
    let queues = line.split_whitespace().nth(4)?;
    u64::from_str_radix(queues.split(':').nth(1)?, 16).ok()
}

/// nfcapd gets the events, and nfdump shows the same as `junctor nat log`.
fn check(site: &Site, port: u16, words: &[&str], has_blocks: bool) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let number = port.to_string();
    let collector = ["nfcapd", "-C", "none", "-b", "127.0.0.1", "-p", &number, "-t", "3600", "-w", &path];
    let collector = site.network.spawn(&collector).unwrap();
    wait_for("nfcapd", PATIENCE, || waiting(&site.network, port).is_some()).unwrap();
    let expected = site.events();
    let sent = site.export(port, words).finish(PATIENCE).unwrap();
    let said = sent.stderr;
    assert!(sent.status.success() && said.contains(&format!("sent {} events", expected.len())), "{said}");
    assert!(sent.stdout.is_empty());
    wait_for("the collector", PATIENCE, || waiting(&site.network, port) == Some(0)).unwrap();
    // It writes its file when it is ended in order.
    collector.interrupt(PATIENCE).unwrap();
    let files = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let file = files.filter(|path| !path.to_string_lossy().contains("current")).max().unwrap();
    let shown = Command::new("nfdump").args(["-C", "none", "-o", "json", "-r"]).arg(file).output().unwrap();
    let found: Vec<Value> = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(&expected) {
        let is_given = expected["event"] == "given";
        let name = if expected["protocol"].is_null() { "Port block" } else { "NAT44 BIB" };
        let change = match (name, is_given) {
            ("Port block", true) => "allocation",
            ("Port block", false) => "de-allocation",
            (_, true) => "create",
            (_, false) => "delete",
        };
        assert_eq!(found["nat_event"], format!("{name} {change}"), "{expected}");
        assert_eq!((&found["src4_addr"], &found["src4_xlt_ip"]), (&expected["inside"], &expected["outside"]));
        let same =
            |theirs: &str, ours: &str| assert_eq!(found[theirs], expected[ours].to_string(), "{found}");
        if name == "NAT44 BIB" {
            assert_eq!(found["proto"], 17);
            same("src_xlt_port", "first_port");
        } else if has_blocks {
            same("pblock_start", "first_port");
            same("pblock_end", "last_port");
        }
    }
}

#[test]
fn nfdump_shows_the_journal() {
    if skip_without("nfdump_shows_the_journal", &["nfcapd", "nfdump", "kill"]) {
        return;
    }
    let site = Site::new();
    site.ctl(&["nat.end", "all"]);
    wait_for("ports that come back", PATIENCE, || site.events().len() >= 3).unwrap();
    check(&site, 9995, &["--netflow9"], true);
    // nfdump reads no blocks from IPFIX.
    check(&site, 9996, &["--domain", "7", "--mtu", "576"], false);
}

/// Hosts find no room for one reason after the other; tshark reads the records.
#[test]
fn tshark_shows_what_there_was_no_room_for() {
    if skip_without("tshark_shows_what_there_was_no_room_for", &["tcpdump", "tshark"]) {
        return;
    }
    let sent: String = [
        "10.0.1.5 1 203.0.113.9",
        "10.0.1.6 1 203.0.113.9",
        "10.0.1.5 1 203.0.113.8",
        "10.0.1.5 1 203.0.113.7",
        "10.0.2.5 1 203.0.113.9",
        "10.0.2.6 1 203.0.113.9",
        "10.0.2.7 1 203.0.113.9",
    ]
    .map(|line| format!("{line} 53 U\n"))
    .concat();
    let router = "nat :: NAT44(STATEMENT log blocks, STATEMENT translate 10.0.1.0/24 to 192.0.2.1 ports 4000-4000 max-sessions 2,
             STATEMENT translate 10.0.2.0/24 to 192.0.2.8/31 ports 4000-4000);
         Idle -> nat -> Discard; f :: FromIPSummaryDump(FEW, CHECKSUM true, STOP false) -> [1] nat; nat[1] -> Discard;";
    let few = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(few.path(), format!("!data src sport dst dport proto\n{sent}")).unwrap();
    let site = Site::of(&router.replace("FEW", &few.path().display().to_string()), 3);
    let capture = site.files.path().join("capture").display().to_string();
    let mut watcher = site
        .network
        .spawn(&["tcpdump", "-U", "-i", "lo", "-c", "1", "-w", &capture, "udp port 4739"])
        .unwrap();
    wait_for("tcpdump", PATIENCE, || watcher.stderr().contains("listening on")).unwrap();
    let _collector = site.network.enter(|| UdpSocket::bind("127.0.0.1:4739")).unwrap().unwrap();
    let done = site.export(4739, &[]).finish(PATIENCE).unwrap();
    assert!(done.status.success() && done.stderr.contains("sent 3 events"), "{}", done.stderr);
    wait_for("the capture", PATIENCE, || watcher.ended().is_some()).unwrap();
    let fields = [
        "nat_event",
        "srcaddr",
        "post_natsource_ipv4_address",
        "protocol",
        "nat_pool_id",
        "nat_quota_exceeded_event",
        "max_entries_per_user",
    ];
    let mut command = Command::new("tshark");
    command.args(["-n", "-d", "udp.port==4739,cflow", "-T", "fields", "-r", &capture]);
    command.args(fields.iter().flat_map(|field| ["-e".to_owned(), format!("cflow.{field}")]));
    let shown = command.args(["-e", "_ws.malformed"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    // Fields of a kind in all records: ports of one address, a host's limit, all addresses of the statement in line 3.
    assert_eq!(shown.trim_end_matches('\n'), "12,13,3\t10.0.1.5\t192.0.2.1\t17\t3\t3\t2\t");
}

#[test]
fn a_collector_may_be_away_and_an_exporter_may_be_late() {
    if skip("a_collector_may_be_away_and_an_exporter_may_be_late") {
        return;
    }
    let site = Site::new();
    let collector = site.network.enter(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
    collector.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = collector.local_addr().unwrap().port();
    let receive = |collector: &UdpSocket| {
        let mut octets = [0; 1500];
        let length = collector.recv(&mut octets).unwrap();
        octets[..length].to_vec()
    };
    // Nobody listens: it says so once.
    let away = site.export(9, &[]).finish(PATIENCE).unwrap();
    let said = away.stderr;
    assert_eq!((away.status.code(), said.matches("nobody listens there").count()), (Some(1), 1), "{said}");
    // The first message has a block and a port.
    let exporter = site.export(port, &["--follow", "--domain", "7"]);
    let first = receive(&collector);
    assert_eq!((&first[..2], &first[12..16]), (&[0, 10][..], &[0, 0, 0, 7][..]));
    let place = first.windows(8).filter(|octets| *octets == [10, 0, 1, 5, 192, 0, 2, 1]).count();
    assert_eq!(place, 2, "{first:02x?}");
    // The exporter stands still while more happens than the journal keeps.
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &exporter.id().to_string()]).status().unwrap().success());
    };
    signal("-STOP");
    site.ctl(&["many.active", "true"]);
    // All ports are given when each has its mapping.
    let mappings = (MANY + 1).to_string();
    wait_for("many ports", PATIENCE, || site.ctl(&["nat.nmappings"]) == mappings).unwrap();
    let all = site.events().last().and_then(|event| event["number"].as_u64()).unwrap() + 1;
    signal("-CONT");
    // The next message says how many events are gone: a template and a record of it come first.
    let next = receive(&collector);
    let gone = all - KEPT - 2;
    assert_eq!((&next[8..12], &next[16..18]), (&[0, 0, 0, 2][..], &[0, 3][..]), "{next:02x?}");
    assert_eq!(next[36..38], [1, 16]);
    assert_eq!(next[44..52], gone.to_be_bytes());
    // Then come the others: the sequence number counts all records.
    let last = std::iter::repeat_with(|| receive(&collector)).find(|message| {
        let before = u32::from_be_bytes(message[8..12].try_into().unwrap());
        u64::from(before) + 100 > KEPT + 3
    });
    assert!(last.is_some_and(|message| message.windows(4).any(|octets| octets == [10, 0, 1, 6])));
    let ended = exporter.interrupt(PATIENCE).unwrap();
    let said = ended.stderr;
    assert!(said.contains(&format!("{gone} events are gone")), "{said}");
}

#[test]
fn mistakes_are_explained() {
    for (words, said) in [
        (&["--ipfix", "192.0.2.9"][..], "name a host and a port, such as 198.51.100.9:4739"),
        (&["--ipfix", "192.0.2.9:4739", "--mtu", "255"], "255 is not in 256..=65535"),
        (&["--ipfix", "192.0.2.9:4739", "--json"], "cannot be used with"),
        (&["--netflow9"], "--ipfix <HOST:PORT>"),
    ] {
        let refused = Command::new(JUNCTOR).args(["nat", "log"]).args(words).output().unwrap();
        let found = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && found.contains(said), "{words:?}: {found}");
    }
}
