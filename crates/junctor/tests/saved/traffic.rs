// SPDX-License-Identifier: MIT OR Apache-2.0
//! What traffic and sessions see of transactions, of a killed service, and of upgrades.

use testbed::pings::Pings;
use testbed::rig::{Cable, Rig};

use super::*;

/// A cable between the hosts.
const CABLE: &str =
    "FromDevice(d0, METHOD AF_PACKET, PROMISC true) -> b :: Queue -> ToDevice(d1, METHOD AF_PACKET);
FromDevice(d1, METHOD AF_PACKET, PROMISC true) -> a :: Queue -> ToDevice(d0, METHOD AF_PACKET);
";

#[test]
fn no_packet_is_lost_by_transactions_or_a_killed_service() {
    if testbed::rig::skip_without(
        "no_packet_is_lost_by_transactions_or_a_killed_service",
        &["ping", "ethtool"],
    ) {
        return;
    }
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.b.ip("addr add 10.0.1.3/24 dev b0").unwrap();
    let mut service = Service::new(&[("router.click", CABLE)]);
    service.start_in(&rig.dut);
    let pings = Pings::start(&rig.a, "10.0.1.3", 10, PATIENCE).unwrap();
    service.write("router.click", &format!("{CABLE}{EXTRA}"));
    service.good(&["apply", "--confirm-within", "10m"]);
    service.good(&["rollback"]);
    service.write("router.click", &format!("{CABLE}FromDevice(nosuch0, METHOD AF_PACKET) -> Discard;\n"));
    assert_eq!(service.config(&["apply"]).0, 1);
    service.write("router.click", &format!("{CABLE}{EXTRA}"));
    service.good(&["apply", "--confirm-within", "10m"]);
    service.kill();
    expire(&service);
    service.start_in(&rig.dut);
    assert_eq!((service.now(), service.has_extra("router")), ((1, 1), false));
    service.good(&["apply"]);
    assert!(service.has_extra("router"));
    let pinged = pings.end(PATIENCE).unwrap();
    assert!(pinged.lost.is_empty(), "{pinged:?}");
}

impl Service {
    /// Its own copy of the program, which can be replaced.
    fn program(&self) -> PathBuf {
        self.path("junctor")
    }

    /// Installs the program as a package does: another file takes the place of the old one.
    fn install(&self) {
        let new = self.path("junctor.new");
        std::fs::copy(JUNCTOR, &new).unwrap();
        std::fs::rename(new, self.program()).unwrap();
    }

    /// The same command by its own copy.
    fn by_own(&self, words: &[&str]) -> Vec<String> {
        let command = self.command(words);
        let words = command.get_args().map(|word| word.to_str().unwrap().to_owned());
        std::iter::once(self.program().display().to_string()).chain(words).collect()
    }

    /// Installs a new program and has the service go on with it; returns what is said.
    fn upgrade(&self) -> (i32, String) {
        self.install();
        let output = self.command(&["service", &self.name, "--upgrade"]).output().unwrap();
        (output.status.code().unwrap_or(-1), text_of(&output))
    }

    fn start_own(&mut self) {
        self.install();
        let words = self.by_own(&["service", &self.name]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("XDG_RUNTIME_DIR", self.path("run"));
        self.start_by(command);
    }
}

fn runs_installed(service: &Service, pid: u32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == service.program())
}

/// A host behind the translator asks, and its own packet comes back as the answer.
const TRANSLATOR: &str = "nat :: NAT44(STATEMENT \"translate 10.0.1.0/24 to 192.0.2.1\");
RatedSource(DATA \"x\", RATE 20, LIMIT -1, STOP false) -> UDPIPEncap(10.0.1.5, 1000, 203.0.113.9, 53) -> [1] nat;
nat[1] -> IPMirror -> back :: Counter -> [0] nat; nat[0] -> c :: Counter -> Discard;
";

#[test]
fn an_upgrade_keeps_sessions_and_its_process() {
    let mut service = Service::new(&[("router.click", TRANSLATOR)]);
    service.start_own();
    let first = |service: &Service| {
        let sessions = service.ask("router", &["ctl", "nat.sessions"]);
        // Protocol, inside, outside, peer.
        sessions.lines().nth(1).unwrap_or_default().split(' ').take(7).collect::<Vec<_>>().join(" ")
    };
    wait_for("a session", PATIENCE, || service.count("router") > 1).unwrap();
    let (before, router) = (first(&service), service.pid("router"));
    assert!(before.starts_with("udp 10.0.1.5 1000 192.0.2.1 "), "{before}");
    let pid = service.process.as_ref().unwrap().id();
    let (status, said) = service.upgrade();
    assert!(status == 0 && said.contains("plane router was replaced"), "{said}");
    assert!(runs_installed(&service, pid) && runs_installed(&service, service.pid("router")));
    assert_ne!(service.pid("router"), router);
    wait_for("packets", PATIENCE, || service.count("router") > 1).unwrap();
    assert_eq!((first(&service), service.now()), (before, (1, 1)));
    // A program that cannot run the commit changes nothing.
    let router = service.pid("router");
    std::fs::remove_file(service.program()).unwrap();
    std::fs::write(service.program(), "#!/bin/sh\necho cannot >&2; exit 1\n").unwrap();
    std::fs::set_permissions(service.program(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = service.command(&["service", &service.name, "--upgrade"]).output().unwrap();
    let said = text_of(&output);
    assert!(output.status.code() == Some(1) && said.contains("the old program goes on:\ncannot"), "{said}");
    assert_eq!(service.pid("router"), router);
    // Nor does one while a change waits.
    service.write("router.click", &format!("{TRANSLATOR}{EXTRA}"));
    service.good(&["apply", "--confirm-within", "10m"]);
    let (status, said) = service.upgrade();
    assert!(status == 1 && said.contains("commit 2 waits to be confirmed"), "{said}");
}

/// The sequence numbers of pings in a file of packets, in the order of their arrival.
fn numbers(dump: &Path) -> Vec<u64> {
    const NUMBER: usize = 14 + 20 + 6;
    let bytes = std::fs::read(dump).unwrap_or_default();
    let (mut rest, mut found) = (bytes.get(24..).unwrap_or_default(), Vec::new());
    while let Some((header, behind)) = rest.split_first_chunk::<16>() {
        let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let Some((packet, behind)) = behind.split_at_checked(length) else { break };
        found.push(u64::from(u16::from_be_bytes([packet[NUMBER], packet[NUMBER + 1]])));
        rest = behind;
    }
    found
}

/// 100 frames a second go through a router while its program is replaced, twice: none is lost. At 1,000, the ring of a packet socket has room for 128 ms only,
/// and with other tests at the same time a worker may wait longer than that for its processor.
#[track_caller]
fn check_upgrade(test: &str, input: &str, method: &str) {
    if testbed::rig::skip_without(test, &["ethtool"]) {
        return;
    }
    let rig = Rig::new(Cable::default()).unwrap();
    // Some frames are always on their way through the router, also when it is to end.
    let cable = format!(
        "{input} -> Queue -> DelayShaper(0.03) -> ToDevice(d1, METHOD {method});
        FromDevice(d1, METHOD {method}, PROMISC true) -> Discard; {EXTRA}"
    );
    let mut service = Service::new(&[("router.click", &cable)]);
    service.install();
    let words = service.by_own(&["service", &service.name]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let process = rig.dut.spawn(&words).unwrap();
    service.await_start(process);
    let sockets = ["to", "from"].map(|name| service.path(name).display().to_string());
    let ask = |socket: &str, words: &[&str]| {
        let output = Command::new(JUNCTOR).args(["ctl", "--socket", socket]).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let count = |socket: &str| ask(socket, &["c.count"]).parse::<u64>().unwrap_or(0);
    let dump = service.path("received.pcap");
    let sink = format!(
        "FromDevice(b0, METHOD AF_PACKET, PROMISC true) -> f :: Classifier(12/0800, -) -> c :: Counter
        -> ToDump({}, UNBUFFERED true) -> Discard; f[1] -> Discard;",
        dump.display()
    );
    // What the kernel sends by a tap, the router receives.
    let (host, interface) = if input.contains(TAP) { (&rig.dut, TAP) } else { (&rig.a, "a0") };
    let source = format!(
        "s :: ICMPPingSource(10.9.0.1, 10.9.0.2, INTERVAL 0.01, ACTIVE false) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
        -> c :: Counter -> Queue(10000) -> ToDevice({interface}, METHOD AF_PACKET);"
    );
    let runs = [(&rig.b, sink.as_str(), &sockets[1]), (host, source.as_str(), &sockets[0])].map(
        |(host, text, socket)| {
            let run = host.spawn(&[JUNCTOR, "run", "-j", "1", "--control", socket, "-e", text]).unwrap();
            wait_for("its workers", PATIENCE, || !ask(socket, &["c.count"]).is_empty()).unwrap();
            run
        },
    );
    ask(&sockets[0], &["s.active", "true"]);
    wait_for("packets", PATIENCE, || count(&sockets[1]) > 0).unwrap();
    for _ in 0..2 {
        let (status, said) = service.upgrade();
        assert!(status == 0, "{said}");
        eprintln!("{said}");
        let before = count(&sockets[1]);
        wait_for("packets by the new program", PATIENCE, || count(&sockets[1]) > before).unwrap();
    }
    ask(&sockets[0], &["s.active", "false"]);
    let sent = count(&sockets[0]);
    let _ = wait_for("the last of them", Duration::from_secs(10), || numbers(&dump).last() == Some(&sent));
    let mut came = numbers(&dump);
    // The receiver may start to work after the sender.
    let first = came[0];
    let all = came.len();
    came.sort_unstable();
    came.dedup();
    let lost: Vec<u64> = (first..=sent).filter(|number| came.binary_search(number).is_err()).collect();
    eprintln!("{first} to {sent} were sent, {all} came");
    assert!(lost.is_empty(), "lost: {lost:?}");
    // One that arrives at the moment of a change may come twice.
    assert!(all <= came.len() + 2, "{} came twice", all - came.len());
    drop(runs);
}

const TAP: &str = "held0";

#[test]
fn an_upgrade_loses_no_packet_of_packet_sockets() {
    let input = "FromDevice(d0, METHOD AF_PACKET, PROMISC true)";
    check_upgrade("an_upgrade_loses_no_packet_of_packet_sockets", input, "AF_PACKET");
}

#[test]
fn an_upgrade_loses_no_packet_of_xdp_sockets() {
    let input = "FromDevice(d0, METHOD AF_XDP, PROMISC true)";
    check_upgrade("an_upgrade_loses_no_packet_of_xdp_sockets", input, "AF_XDP");
}

#[test]
fn an_upgrade_loses_no_packet_of_a_tap() {
    let input = &format!("KernelTap(192.0.2.1/24, DEVNAME {TAP})");
    check_upgrade("an_upgrade_loses_no_packet_of_a_tap", input, "AF_PACKET");
}
