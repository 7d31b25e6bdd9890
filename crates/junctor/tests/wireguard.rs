// SPDX-License-Identifier: MIT OR Apache-2.0
//! WireGuard against another implementation: `wireguard-go` with the tools of WireGuard's authors, in a network namespace.

use std::process::Command;
use std::time::Duration;

use testbed::process::Process;
use testbed::rig::{Cable, Namespace, skip_without, wait_for};

const PATIENCE: Duration = Duration::from_secs(30);
const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const NEEDS: &[&str] = &["ping", "wg", "wireguard-go"];

/// Ethernet addresses: the host's, Junctor's towards it, Junctor's towards the peer, the peer's.
const MACS: [&str; 4] = ["02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03", "02:00:00:00:00:04"];

const ROUTER: &str = "
elementclass Port { $device, $own, $peer |
    FromDevice($device, METHOD AF_PACKET, PROMISC true) -> c :: Classifier(12/0800, 12/86dd, -);
    c[0] -> Strip(14) -> CheckIPHeader -> output;
    c[1] -> Strip(14) -> CheckIP6Header -> output;
    c[2] -> Discard;
    input -> f :: Classifier(0/40%f0, -);
    f[0] -> EtherEncap(0x0800, $own, $peer) -> q :: Queue -> ToDevice($device, METHOD AF_PACKET);
    f[1] -> EtherEncap(0x86dd, $own, $peer) -> q;
}
host :: Port(d0, MAC1, MAC0);
outside :: Port(t0, MAC2, MAC3);
host -> wg :: WireGuard(FILE, ADDRESS 192.0.2.1, ADDRESS 2001:db8:9::1) -> outside;
outside -> [1]wg; wg[1] -> host;
";

/// A host, Junctor as its gateway, and a peer that runs `wireguard-go`.
struct Site {
    host: Namespace,
    dut: Namespace,
    peer: Namespace,
    /// The peer's interface. `wireguard-go` has a socket of its name, which all tests share.
    interface: String,
    files: tempfile::TempDir,
    processes: Vec<Process>,
    /// Private and public keys of Junctor and of the peer.
    keys: [[String; 2]; 2],
}

/// Runs `wg` with something to read.
fn wg(arguments: &[&str], input: &str) -> String {
    use std::io::Write as _;
    let mut command = Command::new("wg");
    command.args(arguments).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "wg {arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn key_pair() -> [String; 2] {
    let private = wg(&["genkey"], "");
    let public = wg(&["pubkey"], &private);
    [private, public]
}

impl Site {
    fn new() -> Site {
        let [host, dut, peer] = ["host", "dut", "peer"].map(|role| Namespace::new(role).unwrap());
        Cable::default().lay(&host, "a0", &dut, "d0").unwrap();
        Cable::default().lay(&peer, "p0", &dut, "t0").unwrap();
        let interface = format!("wg{}", std::process::id());
        let mut site = Site {
            host,
            dut,
            peer,
            interface,
            files: tempfile::tempdir().unwrap(),
            processes: Vec::new(),
            keys: [key_pair(), key_pair()],
        };
        for (namespace, device, mac) in [(&site.host, "a0", MACS[0]), (&site.peer, "p0", MACS[3])] {
            namespace.sysctl("net/ipv6/conf/all/disable_ipv6", "0").unwrap();
            namespace.sysctl(&format!("net/ipv6/conf/{device}/disable_ipv6"), "0").unwrap();
            namespace.ip(&format!("link set {device} address {mac}")).unwrap();
        }
        site.host.ip("addr add 10.1.0.2/16 dev a0").unwrap();
        site.host.ip("addr add 2001:db8:1::2/64 dev a0 nodad").unwrap();
        site.peer.ip("addr add 192.0.2.2/24 dev p0").unwrap();
        site.peer.ip("addr add 2001:db8:9::2/64 dev p0 nodad").unwrap();
        for (namespace, device, gateways, mac) in [
            (&site.host, "a0", ["10.1.0.1", "2001:db8:1::1"], MACS[1]),
            (&site.peer, "p0", ["192.0.2.1", "2001:db8:9::1"], MACS[2]),
        ] {
            for gateway in gateways {
                namespace.ip(&format!("neigh add {gateway} lladdr {mac} dev {device}")).unwrap();
            }
        }
        site.host.ip("route add 10.2.0.0/16 via 10.1.0.1").unwrap();
        site.host.ip("route add 2001:db8:2::/64 via 2001:db8:1::1").unwrap();
        site.start_peer();
        site
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    fn start_peer(&mut self) {
        let interface = self.interface.clone();
        let mut process = self.peer.spawn(&["wireguard-go", "-f", &interface]).unwrap();
        let is_up = || self.peer.run(&["wg", "show", &interface]).is_ok() || process.ended().is_some();
        wait_for("wireguard-go", PATIENCE, is_up).unwrap();
        assert!(process.ended().is_none(), "{}", process.stderr());
        self.processes.push(process);
        let key = self.file("peer.key", &self.keys[1][0]);
        self.peer.run(&["wg", "set", &interface, "private-key", &key, "listen-port", "51820"]).unwrap();
        self.peer.ip(&format!("addr add 10.2.0.1/16 dev {interface}")).unwrap();
        self.peer.ip(&format!("addr add 2001:db8:2::1/64 dev {interface} nodad")).unwrap();
        self.peer.ip(&format!("link set {interface} up mtu 1420")).unwrap();
        self.peer.ip(&format!("route add 10.1.0.0/16 dev {interface}")).unwrap();
        self.peer.ip(&format!("route add 2001:db8:1::/64 dev {interface}")).unwrap();
    }

    /// The peer has Junctor as a peer, with these further words of `wg set`.
    fn meet(&self, words: &[&str]) {
        let mut command = vec!["wg", "set", &self.interface, "peer", &self.keys[0][1]];
        command.extend(["allowed-ips", "10.1.0.0/16,2001:db8:1::/64"]);
        command.extend(words);
        self.peer.run(&command).unwrap();
    }

    /// Starts Junctor with these further lines for its peer.
    fn route(&mut self, lines: &str) {
        let [[own, _], [_, theirs]] = &self.keys;
        let config = format!(
            "[Interface]\nPrivateKey = {own}\nListenPort = 4500\n[Peer]\nPublicKey = {theirs}\nAllowedIPs = 10.2.0.0/16, 2001:db8:2::/64\n{lines}\n"
        );
        let file = self.file("wg0.conf", &config);
        let mut text = ROUTER.replace("FILE", &file);
        for (n, mac) in MACS.iter().enumerate() {
            text = text.replace(&format!("MAC{n}"), mac);
        }
        let (socket, click) = (self.path("router.sock"), self.file("router.click", &text));
        let mut router = self.dut.spawn(&[JUNCTOR, "run", "--control", &socket, &click]).unwrap();
        let is_up = || std::os::unix::net::UnixStream::connect(&socket).is_ok() || router.ended().is_some();
        wait_for("the router", PATIENCE, is_up).unwrap();
        assert!(router.ended().is_none(), "{}", router.stderr());
        self.processes.push(router);
    }

    fn ctl(&self, arguments: &[&str]) -> String {
        let socket = self.path("router.sock");
        let output =
            Command::new(JUNCTOR).args(["ctl", "--socket", &socket]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A field of Junctor's only peer, as `wg show dump` numbers them.
    fn field(&self, at: usize) -> String {
        let text = self.ctl(&["wg.peers"]);
        text.lines().find(|line| line.contains('\t')).unwrap().split('\t').nth(at).unwrap().to_owned()
    }

    /// The same of the peer's.
    fn their_field(&self, at: usize) -> String {
        let text = self.peer.run(&["wg", "show", &self.interface, "dump"]).unwrap();
        text.lines().nth(1).unwrap().split('\t').nth(at).unwrap().to_owned()
    }

    #[track_caller]
    fn pings(&self, from: &Namespace, address: &str) {
        let ping = || from.run(&["ping", "-n", "-c", "1", "-W", "2", address]).is_ok();
        wait_for(&format!("an answer of {address}"), PATIENCE, ping).unwrap_or_else(|why| {
            let ours = (self.ctl(&["wg.peers"]), self.ctl(&["wg.drops"]));
            let theirs = self.peer.run(&["wg", "show", &self.interface]);
            panic!("{why}\n{ours:?}\n{theirs:?}\n{}", self.processes[0].stdout())
        });
    }
}

#[test]
fn junctor_calls_and_packets_of_both_families_pass() {
    if skip_without("junctor_calls_and_packets_of_both_families_pass", NEEDS) {
        return;
    }
    let mut site = Site::new();
    let preshared = wg(&["genpsk"], "");
    let file = site.file("preshared", &preshared);
    site.meet(&["preshared-key", &file]);
    site.route(&format!("PresharedKey = {preshared}\nEndpoint = 192.0.2.2:51820"));
    // The first packet waits for the handshake, and for a second attempt if the first one was lost.
    site.host.run(&["ping", "-n", "-c", "1", "-W", "15", "10.2.0.1"]).unwrap();
    site.pings(&site.host, "2001:db8:2::1");
    site.pings(&site.peer, "10.1.0.2");
    // Every length up to the longest, so that padding has every size.
    for size in (0..32).chain([1000, 1388, 1391, 1392]) {
        let size = size.to_string();
        site.host.run(&["ping", "-n", "-c", "1", "-W", "5", "-M", "do", "-s", &size, "10.2.0.1"]).unwrap();
    }
    assert_eq!(site.field(1), "(hidden)");
    assert_eq!(site.their_field(2), "192.0.2.1:4500", "the peer has learned where Junctor is");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(now - site.field(4).parse::<u64>().unwrap() < 600, "{}", site.field(4));
    // The other side counts the same bytes, the other way round; the last ones may be on their way.
    let agree = || (site.field(5), site.field(6)) == (site.their_field(6), site.their_field(5));
    wait_for("both sides to have counted the same", PATIENCE, agree)
        .unwrap_or_else(|why| panic!("{why}: {:?} {:?}", site.ctl(&["wg.peers"]), site.their_field(5)));
}

#[test]
fn the_peer_calls_and_may_move() {
    if skip_without("the_peer_calls_and_may_move", NEEDS) {
        return;
    }
    let mut site = Site::new();
    site.meet(&["endpoint", "[2001:db8:9::1]:4500"]);
    site.route("");
    site.pings(&site.peer, "10.1.0.2");
    site.pings(&site.host, "2001:db8:2::1");
    assert_eq!(site.field(2), "[2001:db8:9::2]:51820");
    // Another port, then another address of the other family.
    site.peer.run(&["wg", "set", &site.interface, "listen-port", "7777"]).unwrap();
    site.pings(&site.peer, "10.1.0.2");
    assert_eq!(site.field(2), "[2001:db8:9::2]:7777");
    site.meet(&["endpoint", "192.0.2.1:4500"]);
    site.pings(&site.peer, "2001:db8:1::2");
    assert_eq!(site.field(2), "192.0.2.2:7777");
    site.pings(&site.host, "10.2.0.1");
}

#[test]
fn what_wg_writes_is_read() {
    if skip_without("what_wg_writes_is_read", NEEDS) {
        return;
    }
    let site = Site::new();
    let preshared = site.file("preshared", &wg(&["genpsk"], ""));
    site.meet(&["preshared-key", &preshared, "endpoint", "192.0.2.1:4500", "persistent-keepalive", "25"]);
    let shown = site.peer.run(&["wg", "showconf", &site.interface]).unwrap();
    let file = site.file("shown.conf", &shown);
    let text = format!(
        "w :: WireGuard({file}, ADDRESS 192.0.2.2); Idle -> w -> Discard; Idle -> [1]w[1] -> Discard; Script(print $(w.peers), stop);"
    );
    let output = Command::new(JUNCTOR).args(["run", "--simtime", "-e", &text]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let expected =
        format!("{}\t(hidden)\t192.0.2.1:4500\t10.1.0.0/16,2001:db8:1::/64\t0\t0\t0\t25", site.keys[0][1]);
    assert_eq!(said.trim(), expected, "{}", String::from_utf8_lossy(&output.stderr));
}
