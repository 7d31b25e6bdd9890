// SPDX-License-Identifier: MIT OR Apache-2.0
//! strongSwan's charon, unmodified, keys Junctor's databases: it thinks that it talks to Linux.

#[path = "../bench/mod.rs"]
mod bench;
mod libreswan;
mod pair;

use std::collections::BTreeSet;

use esp::algorithm::{Aead, Auth, Cipher};
use esp::sa::UdpPorts;
use esp::{Mode, Spec};
use ipsec::Direction::{Forward, In, Out};
use ipsec::{Action, Event, IpsecMode};
use pair::{PLAIN, Pair, Way, skip};

/// SPIs that swanctl shows: of packets in, of packets out.
fn shown_spis(list: &str) -> [BTreeSet<u32>; 2] {
    ["in  ", "out "].map(|direction| {
        let lines = list.lines().map(str::trim).filter_map(|line| line.strip_prefix(direction));
        let spi =
            |line: &str| u32::from_str_radix(line.split([',', ' ']).next().unwrap_or_default(), 16).ok();
        lines.filter_map(spi).collect()
    })
}

#[test]
fn a_tunnel_is_made_rekeyed_and_ended() {
    if skip("a_tunnel_is_made_rekeyed_and_ended") {
        return;
    }
    let pair = Pair::new("");
    pair.connect(PLAIN);
    pair.initiate();
    let all = pair.a.associations();
    let reqids: BTreeSet<u32> = all.iter().map(|sa| sa.config.reqid).collect();
    assert_eq!(reqids.len(), 1);
    for sa in &all {
        assert!(matches!(sa.config.esp.mode, Mode::Tunnel { .. }));
        assert!(matches!(&sa.config.esp.spec, Spec::Combined { algorithm: Aead::AesGcm, .. }));
        assert!(sa.config.limits.age_ns[0].is_some(), "charon says when to rekey");
    }
    assert_eq!(pair.a.directions(), [In, Out, Forward]);
    for rule in pair.a.bench.database.policies() {
        let Action::Protect(template) = &rule.policy.action else { panic!("protects") };
        assert!(matches!(template.kind, IpsecMode::Tunnel { .. }) && reqids.contains(&template.reqid));
        let out = rule.policy.direction == Out;
        assert_eq!(template.spi.is_some(), out, "charon names the association for packets that leave");
        assert_eq!(rule.policy.selector.src.to_string(), if out { "10.1.0.0/16" } else { "10.2.0.0/16" });
        let target = rule.target.as_ref().expect("it protects");
        let reader = pair.a.bench.domain.register("test");
        assert!(target.current(&reader).is_some(), "{:?} finds its association", rule.policy.direction);
    }
    // What charon shows is what the databases have.
    for sa in &all {
        sa.lines.passed(0, 1000 + u64::from(sa.config.dst.to_string() == "192.0.2.2"), 1);
    }
    let list = pair.a.swanctl(&["--list-sas"]);
    assert_eq!(shown_spis(&list), [pair.a.spis_to("192.0.2.1"), pair.a.spis_to("192.0.2.2")], "{list}");
    assert!(list.contains("1000 bytes") && list.contains("1001 bytes"), "{list}");
    // New associations, then the old ones go.
    let before = pair.a.spis_to("192.0.2.2");
    pair.a.swanctl(&["--rekey", "--child", "net"]);
    pair.until("new associations only", || {
        let is_new = |host: &pair::Host| {
            host.associations().len() == 2 && host.spis_to("192.0.2.2").is_disjoint(&before)
        };
        is_new(&pair.a) && is_new(&pair.b)
    });
    pair.await_pairs(1);
    assert_eq!(pair.a.directions(), [In, Out, Forward]);
    pair.a.swanctl(&["--terminate", "--ike", "gw"]);
    pair.until("empty databases", || {
        [&pair.a, &pair.b].iter().all(|host| host.associations().is_empty() && host.directions().is_empty())
    });
}

/// Makes one child this way, and returns what protects packets from the first host.
fn made(way: Way<'_>) -> std::sync::Arc<ipsec::Association> {
    let pair = Pair::new("");
    pair.connect(way);
    pair.initiate();
    let to_b = format!("{}2", way.net);
    let found = pair.a.associations().into_iter().find(|sa| sa.config.dst.to_string() == to_b);
    found.expect("one to the other host")
}

#[test]
fn udp_around_esp() {
    if skip("udp_around_esp") {
        return;
    }
    let sa = made(Way { connection: "encap = yes", ..PLAIN });
    assert_eq!(sa.config.esp.udp, Some(UdpPorts { from: 4500, to: 4500 }));
}

#[test]
fn transport_mode_of_ipv6_with_cbc() {
    if skip("transport_mode_of_ipv6_with_cbc") {
        return;
    }
    let child = "mode = transport\n esp_proposals = aes256-sha256";
    let sa = made(Way { net: "2001:db8::", child, ..PLAIN });
    assert_eq!(sa.config.esp.mode, Mode::Transport);
    let Spec::Separate { cipher: Cipher::AesCbc, auth: Auth::HmacSha256, icv_len: 16, key, .. } =
        &sa.config.esp.spec
    else {
        panic!("CBC and SHA-256")
    };
    assert_eq!(key.len(), 32);
}

#[test]
fn extended_numbers_with_chacha_and_a_large_window() {
    if skip("extended_numbers_with_chacha_and_a_large_window") {
        return;
    }
    let child = "esp_proposals = chacha20poly1305-esn\n replay_window = 1024";
    let pair = Pair::new("");
    pair.connect(Way { child, ..PLAIN });
    pair.initiate();
    for sa in pair.a.associations() {
        assert!(matches!(&sa.config.esp.spec, Spec::Combined { algorithm: Aead::ChaCha20Poly1305, .. }));
        assert!(sa.config.esp.is_extended);
        let is_inbound = sa.config.dst.to_string() == "192.0.2.1";
        assert_eq!(sa.config.esp.window, if is_inbound { 1024 } else { 1 });
    }
}

/// A policy without association: the first packet makes charon negotiate.
#[test]
fn a_packet_makes_a_tunnel() {
    if skip("a_packet_makes_a_tunnel") {
        return;
    }
    let pair = Pair::new("");
    pair.connect(Way { initiator: "start_action = trap", ..PLAIN });
    let database = &pair.a.bench.database;
    pair.until("the trap", || pair.a.directions() == [In, Out, Forward]);
    let flow = pair.a.acquire();
    pair.await_pairs(1);
    let reader = pair.a.bench.domain.register("test");
    assert!(database.outbound(&flow, &reader).unwrap().target.as_ref().unwrap().current(&reader).is_some());
}

/// Limits end an association as events from the database.
#[test]
fn limits_lead_to_new_associations() {
    if skip("limits_lead_to_new_associations") {
        return;
    }
    let pair = Pair::new("");
    pair.connect(Way { child: "rekey_packets = 100\n life_packets = 200\n rand_packets = 0", ..PLAIN });
    pair.initiate();
    let before = pair.a.spis_to("192.0.2.2");
    let sa = pair.a.associations().into_iter().find(|sa| sa.config.dst.to_string() == "192.0.2.2").unwrap();
    assert_eq!(sa.config.limits.packets, [Some(100), Some(200)]);
    for _ in 0..100 {
        pair.a.bench.database.count(&sa, 0, 100, 1);
    }
    pair.until("new associations only", || {
        let is_new = |host: &pair::Host| {
            host.associations().len() == 2 && host.spis_to("192.0.2.2").is_disjoint(&before)
        };
        is_new(&pair.a) && is_new(&pair.b)
    });
    pair.await_pairs(1);
}

/// A peer that has gone is noticed, and its associations go.
#[test]
fn a_dead_peer_is_noticed() {
    if skip("a_dead_peer_is_noticed") {
        return;
    }
    let mut pair = Pair::new("retransmit_tries = 1\n retransmit_timeout = 0.5");
    pair.connect(Way { connection: "dpd_delay = 1s", ..PLAIN });
    pair.initiate();
    pair.b.charon.kill();
    pair.until("no associations", || pair.a.associations().is_empty() && pair.a.directions().is_empty());
    assert_eq!(pair.b.associations().len(), 2, "the databases outlive their daemon");
}

/// The server goes, and comes again; charon goes on with the same sockets.
#[test]
fn a_server_may_go_and_come_again() {
    if skip("a_server_may_go_and_come_again") {
        return;
    }
    let mut pair = Pair::new("");
    pair.connect(PLAIN);
    pair.initiate();
    pair.a.bench.stop();
    assert_eq!(pair.a.associations().len(), 2);
    std::thread::scope(|scope| {
        let before = pair.a.spis_to("192.0.2.2");
        let rekeys = scope.spawn({
            let a = &pair.a.charon;
            let namespace = &pair.a.namespace;
            move || a.swanctl(namespace, &["--rekey", "--child", "net"]).map(drop)
        });
        rekeys.join().unwrap().unwrap();
        before
    });
    pair.a.bench.start();
    pair.until("new associations", || pair.a.associations().len() == 2 && pair.b.associations().len() == 2);
    pair.await_pairs(1);
    // Events, too.
    let id = pair.a.associations()[0].id();
    let reqid = pair.a.associations()[0].config.reqid;
    let before = pair.a.spis_to("192.0.2.2");
    // Until charon's socket is connected again, events go to nobody.
    pair.until("an event is heard", || {
        pair.a.bench.database.events.put(Event::Expire { id, reqid, reached: ipsec::Reached::Soft });
        pair.a.associations().len() == 2 && pair.a.spis_to("192.0.2.2").is_disjoint(&before)
    });
}

/// Many at once: the rate is printed.
#[test]
fn two_hundred_peers_at_once() {
    const COUNT: usize = 200;
    if skip("two_hundred_peers_at_once") {
        return;
    }
    let pair = Pair::new("dos_protection = no");
    let start = std::time::Instant::now();
    pair.connect_many(COUNT);
    pair.await_pairs(COUNT);
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{COUNT} IKE_SAs with a CHILD_SA each in {seconds:.2} s: {:.0} a second",
        COUNT as f64 / seconds
    );
    // charon adds the policies of a child after its associations.
    pair.until("all policies", || pair.a.directions().len() == 3 * COUNT);
    let list = pair.a.swanctl(&["--list-sas"]);
    assert_eq!(shown_spis(&list), [pair.a.spis_to("192.0.2.1"), pair.a.spis_to("192.0.2.2")]);
}

/// Threads of charon have requests outstanding at once on one socket, each of which is answered, also while the server goes and comes.
#[test]
fn requests_of_many_threads_outlive_the_server() {
    const COUNT: usize = 40;
    if skip("requests_of_many_threads_outlive_the_server") {
        return;
    }
    let parallel = "dos_protection = no\n plugins {\n kernel-netlink {\n parallel_xfrm = yes\n }\n }";
    let mut pair = Pair::new(parallel);
    pair.connect_many(COUNT);
    for made in [1, COUNT / 2] {
        pair.until("some associations", || pair.a.associations().len() >= made);
        pair.a.bench.stop();
        pair.a.bench.start();
    }
    // Of a child whose requests failed, charon makes another one. Every request has had an answer if it still takes commands.
    pair.until("associations of all", || pair.a.associations().len() >= 2 * COUNT);
    pair.a.swanctl(&["--terminate", "--ike", "gw0"]);
    pair.a.swanctl(&["--initiate", "--child", "net0", "--timeout", "60"]);
}

/// The first host gets another address: associations are moved there with their keys and numbers (MOBIKE).
#[test]
fn associations_move_to_another_address() {
    if skip("associations_move_to_another_address") {
        return;
    }
    let pair = Pair::new("");
    pair.a.namespace.sysctl("net/ipv4/conf/eth0/promote_secondaries", "1").unwrap();
    pair.a.namespace.ip("addr add 192.0.2.9/24 dev eth0").unwrap();
    let connection = "mobike = yes\n local_addrs = %any\n remote_addrs = 192.0.2.2,192.0.2.1,192.0.2.9";
    pair.connect(Way { connection, ..PLAIN });
    pair.initiate();
    let (spi, spec, from) = {
        let all = pair.a.associations();
        let out = all.iter().find(|sa| sa.config.dst.to_string() == "192.0.2.2").unwrap();
        out.sa.take_numbers(17).unwrap();
        (out.sa.spi, out.config.esp.spec.clone(), out.config.src)
    };
    pair.a.namespace.ip(&format!("addr del {from}/24 dev eth0")).unwrap();
    // Where to is charon's choice: IPv6 if it looks while the other address is not the first one yet.
    let is_moved = |host: &pair::Host| {
        let (all, rules) = (host.associations(), host.bench.database.policies());
        let tunnel = |rule: &ipsec::Rule| match &rule.policy.action {
            Action::Protect(template) => template.kind,
            Action::Bypass | Action::Discard => IpsecMode::Transport,
        };
        let is_elsewhere =
            |kind: IpsecMode| matches!(kind, IpsecMode::Tunnel { from: f, to } if f != from && to != from);
        all.len() == 2
            && all.iter().all(|sa| sa.config.src != from && sa.config.dst != from)
            && rules.iter().all(|rule| is_elsewhere(tunnel(rule)))
    };
    pair.until("associations and policies with another address", || is_moved(&pair.a) && is_moved(&pair.b));
    let is_same = || {
        let all = pair.a.associations();
        let out = all.iter().find(|sa| sa.sa.spi == spi);
        out.is_some_and(|out| out.config.esp.spec == spec && out.sa.sent() == 17)
    };
    pair.until("the same number, key and sequence numbers", is_same);
}
