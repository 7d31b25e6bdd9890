// SPDX-License-Identifier: MIT OR Apache-2.0
//! A firewall between hosts of two VRFs that have the same addresses.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::Command;

use serde_json::Value;
use testbed::process::Process;
use testbed::rig::{Namespace, skip_without};

use super::fed::JUNCTOR;
use super::{PATIENCE, Site};

const RULES: &str = "zone red-in d0
zone red-out d1
zone blue-in d2
zone blue-out d3
accept from red-in to red-out
accept from blue-in to blue-out udp,ping,tcp
accept from blue-in to red-out ping
reject with prohibited from red-out to red-in
reject from blue-out to blue-in
accept to self ping
";

/// Near and far host, by family.
const HOSTS: [[&str; 2]; 2] = [["10.0.0.2", "10.0.1.2"], ["2001:db8::2", "2001:db8:1::2"]];
const VRFS: [&str; 2] = ["red", "blue"];

/// Connects from port 5000, sends its name, prints what it gets, and stays connected.
const CALL: &str = r#"
import socket, sys
s = socket.create_connection((sys.argv[1], 80), 60, (sys.argv[2], 5000))
print("got", s.recv(100).decode(), flush=True)
s.settimeout(None)
s.recv(1)
"#;

/// Sends each client its name, and stays connected.
const ANSWER: &str = r#"
import socket, sys
s = socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True)
print("listening", flush=True)
all = []
while True:
    c, _ = s.accept()
    c.sendall(sys.argv[1].encode())
    all.append(c)
"#;

pub(super) fn udp(host: &Namespace, address: &str, port: u16) -> UdpSocket {
    let socket = host.enter(|| UdpSocket::bind((address, port))).unwrap().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

pub(super) fn sessions(site: &Site, more: &[&str]) -> Value {
    let mut command = Command::new(JUNCTOR);
    command.args(["sessions", "--json", "--socket", &site.path("router.sock")]).args(more);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The VRFs of sessions.
pub(super) fn vrfs(found: &Value) -> Vec<[Option<String>; 2]> {
    let name = |session: &Value, key: &str| session[key].as_str().map(str::to_owned);
    let all = found["sessions"].as_array().unwrap().iter();
    let mut all: Vec<_> = all.map(|one| [name(one, "vrf"), name(one, "vrf_back")]).collect();
    all.sort();
    all
}

pub(super) fn both(name: &str) -> [Option<String>; 2] {
    [Some(name.to_owned()), Some(name.to_owned())]
}

/// The same addresses and ports of UDP in both VRFs: answers, long packets, and errors about them.
fn datagrams(site: &Site, [near, far]: [&str; 2]) {
    let clients = [0, 1].map(|vrf| udp(&site.near[vrf], near, 5000));
    let servers = [0, 1].map(|vrf| udp(&site.far[vrf], far, 7));
    let mut room = [0; 9000];
    for length in [10, 4000] {
        for vrf in [0, 1] {
            clients[vrf].send_to(&vec![b'a' + vrf as u8; length], (far, 7)).unwrap();
        }
        for vrf in [1, 0] {
            let (n, from) = servers[vrf].recv_from(&mut room).unwrap();
            assert_eq!((n, room[0], room[n - 1]), (length, b'a' + vrf as u8, b'a' + vrf as u8));
            assert_eq!(from.port(), 5000);
            servers[vrf].send_to(&room[..n], from).unwrap();
        }
        for vrf in [0, 1] {
            let n = clients[vrf].recv(&mut room).unwrap();
            assert_eq!((n, room[0]), (length, b'a' + vrf as u8));
        }
    }
    let found = sessions(site, &["--address", near, "--port", "7"]);
    assert_eq!(vrfs(&found), [both("blue"), both("red")], "{found:#}");
    let red = sessions(site, &["--address", near, "--port", "7", "--vrf", "red"]);
    assert_eq!(vrfs(&red), [both("red")], "{red:#}");
    // One is ended. The other one's answers still pass.
    assert_eq!(sessions(site, &["--address", near, "--port", "7", "--vrf", "red", "--end"])["ended"], 1);
    for vrf in [0, 1] {
        servers[vrf].send_to(b"again", (near, 5000)).unwrap();
    }
    assert_eq!(clients[1].recv(&mut room).unwrap(), 5);
    clients[0].set_nonblocking(true).unwrap();
    assert_eq!(clients[0].recv(&mut room).unwrap_err().kind(), ErrorKind::WouldBlock);
    // Nobody is there: each host says so to its own.
    for (near, from) in site.near.iter().zip([near, near]) {
        let client = udp(near, from, 5001);
        client.connect((far, 9)).unwrap();
        client.send(b"?").unwrap();
        assert_eq!(client.recv(&mut room).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}

/// The same addresses and ports of TCP in both VRFs, at the same time.
fn connections(site: &Site, [near, far]: [&str; 2]) -> Vec<Process> {
    let mut calls = Vec::new();
    for (vrf, name) in VRFS.iter().enumerate() {
        let mut call = site.near[vrf].spawn(&["python3", "-c", CALL, far, near]).unwrap();
        call.wait_for_text(&format!("got {name}"), PATIENCE).unwrap();
        calls.push(call);
    }
    let found = sessions(site, &["--address", near, "--port", "80", "--state", "open"]);
    assert_eq!(vrfs(&found), [both("blue"), both("red")], "{found:#}");
    calls
}

/// What is rejected is answered in its VRF, as its rules say.
fn rejects(site: &Site, six: bool) {
    let [near, far] = HOSTS[usize::from(six)];
    let router = far.replace("1.2", "1.1").replace("1::2", "1::1");
    let words =
        [["Packet filtered", "Port Unreachable"], ["Administratively prohibited", "Port unreachable"]];
    for (host, words) in site.far.iter().zip(words[usize::from(six)]) {
        let said = host.run(&["ping", "-n", "-c", "1", "-W", "60", near]).expect_err("an answer").to_string();
        assert!(said.contains(&format!("From {router}")) && said.contains(words), "{words}: {said}");
    }
}

#[test]
fn hosts_of_two_vrfs_have_rules_and_connections_of_their_own() {
    let test = "hosts_of_two_vrfs_have_rules_and_connections_of_their_own";
    if skip_without(test, &["ping", "ethtool", "python3"]) {
        return;
    }
    let mut site = Site::new();
    // A leak: from blue to red's far host, and back to an address that red has not.
    site.near[1].ip("addr add 10.7.0.2/32 dev lo").unwrap();
    let rules = site.path("rules");
    std::fs::write(&rules, RULES).unwrap();
    let leak = ["--route", "10.6.0.0/16@blue=10.0.1.2%d1", "--route", "10.7.0.0/16@red=10.0.0.2%d2"];
    site.route(&[&["--firewall", &rules][..], &leak].concat());
    let servers: Vec<Process> = VRFS
        .iter()
        .zip(&site.far)
        .map(|(name, far)| {
            let mut server = far.spawn(&["python3", "-c", ANSWER, name]).unwrap();
            server.wait_for_text("listening", PATIENCE).unwrap();
            server
        })
        .collect();
    for vrf in [0, 1] {
        for address in [HOSTS[0][1], HOSTS[1][1], "10.0.0.1", "2001:db8::1"] {
            site.reaches(vrf, address);
        }
    }
    for six in [false, true] {
        let hosts = HOSTS[usize::from(six)];
        datagrams(&site, hosts);
        let calls = connections(&site, hosts);
        rejects(&site, six);
        drop(calls);
    }
    let ping = ["ping", "-n", "-c", "1", "-W", "60", "-I", "10.7.0.2", "10.6.0.1"];
    site.near[1].run(&ping).unwrap();
    let found = sessions(&site, &["--address", "10.7.0.2"]);
    assert_eq!(vrfs(&found), [[Some("blue".to_owned()), Some("red".to_owned())]], "{found:#}");
    drop(servers);
}
