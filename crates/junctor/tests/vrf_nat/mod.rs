// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts of two VRFs with the same address behind one outside address, without and with a firewall.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

use testbed::rig::{Cable, Namespace, skip_without};

use super::vrf_firewall::{both, sessions, udp, vrfs};
use super::{PATIENCE, Site};

const STATEMENTS: &str = "translate 10.0.0.0/24 vrf red to 192.0.2.1
translate 10.0.0.0/24 vrf blue to 192.0.2.1
forward tcp 80 on 192.0.2.1 to 10.0.0.2 vrf red
forward tcp 81 on 192.0.2.1 to 10.0.0.2 vrf blue port 80
";
const RULES: &str = "zone inside d0 d2
zone outside d4
accept from inside to outside
accept from outside to inside tcp port 80 dst 10.0.0.2
accept to self ping
";
const HOST: &str = "10.0.0.2";
const WORLD: &str = "192.0.2.2";

fn world(site: &Site) -> Namespace {
    let world = Namespace::new("world").unwrap();
    Cable::default().lay(&world, "w0", &site.dut, "d4").unwrap();
    world.ip("link set lo up").unwrap();
    world.ip(&format!("addr add {WORLD}/24 dev w0")).unwrap();
    world
}

/// Both hosts send from the same port to the same server. Answers and errors reach the one that they are for.
fn datagrams(site: &Site, world: &Namespace) {
    let clients = [0, 1].map(|vrf| udp(&site.near[vrf], HOST, 5000));
    let server = udp(world, WORLD, 7);
    let (mut room, mut ends) = ([0; 9000], BTreeSet::new());
    for length in [10, 4000] {
        for (vrf, client) in clients.iter().enumerate() {
            client.send_to(&vec![vrf as u8; length], (WORLD, 7)).unwrap();
            let (n, from) = server.recv_from(&mut room).unwrap();
            assert_eq!((n, room[n - 1], from.ip().to_string()), (length, vrf as u8, "192.0.2.1".to_owned()));
            ends.insert(from);
            server.send_to(&room[..n], from).unwrap();
        }
        for (vrf, client) in clients.iter().enumerate() {
            let n = client.recv(&mut room).unwrap();
            assert_eq!((n, room[0]), (length, vrf as u8));
        }
    }
    assert_eq!(ends.len(), 2, "each has a port of its own: {ends:?}");
    let found = sessions(site, &["--element", "nat44", "--address", HOST, "--port", "7"]);
    assert_eq!(vrfs(&found), [both("blue"), both("red")], "{found:#}");
    for near in &site.near {
        let client = udp(near, HOST, 5001);
        client.connect((WORLD, 9)).unwrap();
        client.send(b"?").unwrap();
        assert_eq!(client.recv(&mut room).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
    let red = ["--element", "nat44", "--address", HOST, "--port", "7", "--vrf", "red", "--end"];
    assert_eq!(sessions(site, &red)["ended"], 1);
}

/// Each outside port leads to the host of its VRF.
fn forwards(site: &Site, world: &Namespace) {
    let servers = [0, 1].map(|vrf| site.near[vrf].enter(|| TcpListener::bind((HOST, 80))).unwrap().unwrap());
    for (server, port) in servers.iter().zip([80, 81]) {
        let outside = SocketAddr::new([192, 0, 2, 1].into(), port);
        let client = world.enter(|| TcpStream::connect_timeout(&outside, PATIENCE)).unwrap().unwrap();
        let (_, from) = server.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
    }
}

#[test]
fn hosts_of_two_vrfs_share_an_outside_address() {
    if skip_without("hosts_of_two_vrfs_share_an_outside_address", &["ping", "ethtool"]) {
        return;
    }
    // The outside is in the main table, or in a VRF of its own.
    for (has_firewall, is_up) in [(false, false), (true, false), (false, true)] {
        let mut site = Site::new();
        let world = world(&site);
        let [statements, rules] = ["statements", "rules"].map(|name| site.path(name));
        std::fs::write(&statements, STATEMENTS).unwrap();
        std::fs::write(&rules, RULES).unwrap();
        let mut arguments = vec![
            "d0=10.0.0.1/24",
            "d2=10.0.0.1/24",
            "d4=192.0.2.1/24",
            "--vrf",
            "red=d0",
            "--vrf",
            "blue=d2",
        ];
        arguments.extend(["--route", "0.0.0.0/0@red=192.0.2.2%d4", "--route", "0.0.0.0/0@blue=192.0.2.2%d4"]);
        arguments.extend(["--nat", &statements]);
        if is_up {
            arguments.extend(["--vrf", "up=d4"]);
        }
        if has_firewall {
            arguments.extend(["--firewall", &rules]);
        }
        site.start(&arguments);
        for vrf in [0, 1] {
            site.reaches(vrf, WORLD);
        }
        // The router answers for itself.
        world.run(&["ping", "-n", "-c", "1", "-W", "60", "192.0.2.1"]).unwrap();
        datagrams(&site, &world);
        forwards(&site, &world);
    }
}
