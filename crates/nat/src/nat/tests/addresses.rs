// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of interfaces come, change and go.

use super::*;
use crate::{Addresses, Unfit};

const OFFICE: &str =
    "translate 10.0.1.0/24 to interface eth1\nforward tcp 80 to 10.0.1.20 port 8080\nlog sessions";

/// Interfaces with addresses: `eth1 192.0.2.1 192.0.2.2`.
fn addresses(interfaces: &[&str]) -> Addresses {
    let mut all = Addresses::default();
    for line in interfaces {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        all.set(name, rest.split_whitespace().map(|address| address.parse().unwrap()));
    }
    all
}

fn set(nat: &mut Nat, now: u64, interfaces: &[&str]) {
    nat.set_addresses(now, addresses(interfaces));
    consistent(nat);
}

/// Ends all sessions whose address has gone.
fn settle(nat: &mut Nat, now: u64) {
    for _ in 0..100_000 {
        nat.reap(now, 16);
        if !nat.is_following() {
            return consistent(nat);
        }
    }
    panic!("sessions of addresses that are gone do not end");
}

/// A translator by an interface; no address is written.
fn dynamic(text: &str) -> Nat {
    Nat::new(policy(text), &[], 7)
}

fn events(nat: &Nat) -> Vec<String> {
    nat.journal(0).1.iter().map(|(_, event)| event.what.to_string()).collect()
}

const ASKS: &str = "ip 10.0.1.2 > 203.0.113.1 / udp 1000 > 53";

#[test]
fn packets_wait_for_an_address_by_being_dropped() {
    let mut nat = dynamic(OFFICE);
    for line in [
        ASKS,
        "ip 10.0.1.3 > 203.0.113.1 / icmp echo id 4",
        "ip 10.0.1.20 > 203.0.113.1 / tcp 8080 > 9 flags S",
    ] {
        assert_eq!(out(&mut nat, 0, line), Err(Cause::NoAddress), "{line}");
    }
    // What is not translated passes, and nothing is outside yet.
    assert_eq!(
        out(&mut nat, 0, "ip 10.7.0.1 > 203.0.113.1 / udp 1 > 2").unwrap(),
        "10.7.0.1:1 > 203.0.113.1:2"
    );
    let comes = "ip 198.51.100.9 > 192.0.2.7 / tcp 9 > 80 flags S";
    assert_eq!(come(&mut nat, 0, comes).unwrap(), "198.51.100.9:9 > 192.0.2.7:80");
    assert_eq!((nat.len(), nat.subscribers().count()), (0, 0));
    set(&mut nat, S, &["eth1 192.0.2.7", "eth0 10.0.1.1"]);
    let left = out(&mut nat, S, ASKS).unwrap();
    assert!(left.starts_with("192.0.2.7:"), "{left}");
    assert_eq!(come(&mut nat, S, comes).unwrap(), "198.51.100.9:9 > 10.0.1.20:8080");
    let back = format!("ip 203.0.113.1 > 192.0.2.7 / udp 53 > {}", port(&left));
    assert_eq!(come(&mut nat, S, &back).unwrap(), "203.0.113.1:53 > 10.0.1.2:1000");
    // The address is the router's own: what nobody has asked for is for it.
    assert_eq!(
        come(&mut nat, S, "ip 198.51.100.9 > 192.0.2.7 / tcp 9 > 22 flags S").unwrap(),
        "198.51.100.9:9 > 192.0.2.7:22"
    );
}

#[test]
fn sessions_of_an_address_that_goes_end_and_are_noted() {
    for next in [&["eth1 198.51.100.8"][..], &["eth1"], &[]] {
        let mut nat = dynamic(OFFICE);
        set(&mut nat, 0, &["eth1 192.0.2.7"]);
        for host in 2..60 {
            out(&mut nat, 0, &format!("ip 10.0.1.{host} > 203.0.113.1 / udp 1000 > 53")).unwrap();
        }
        come(&mut nat, 0, "ip 198.51.100.9 > 192.0.2.7 / tcp 9 > 80 flags S").unwrap();
        out(&mut nat, 0, "ip 10.0.1.2 > 203.0.113.1 proto 47 / payload 9").unwrap();
        assert_eq!(nat.len(), 60);
        set(&mut nat, S, next);
        settle(&mut nat, S);
        assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0), "{next:?}");
        let events = events(&nat);
        let count = |word: &str| events.iter().filter(|event| event.starts_with(word)).count();
        assert_eq!(
            [count("begun"), count("ended"), count("given"), count("returned")],
            [60, 60, 58, 58],
            "{events:?}"
        );
        // Packets from outside to the old address are not for hosts.
        let comes = "ip 198.51.100.9 > 192.0.2.7 / tcp 9 > 80 flags S";
        assert_eq!(come(&mut nat, S, comes).unwrap(), "198.51.100.9:9 > 192.0.2.7:80");
        let left = out(&mut nat, S, ASKS);
        match next.first() {
            Some(&"eth1 198.51.100.8") => assert!(left.unwrap().starts_with("198.51.100.8:")),
            _ => assert_eq!(left, Err(Cause::NoAddress)),
        }
    }
}

#[test]
fn no_packet_goes_by_an_address_that_is_gone() {
    let mut nat = dynamic(OFFICE);
    set(&mut nat, 0, &["eth1 192.0.2.7"]);
    let ask = |host: u32, peer: u32| format!("ip 10.0.1.{host} > 203.0.113.{peer} / udp 1000 > 53");
    let mut ports = Vec::new();
    for host in 2..200 {
        ports.push(port(&out(&mut nat, 0, &ask(host, 1)).unwrap()));
        out(&mut nat, 0, &ask(host, 2)).unwrap();
    }
    nat.set_addresses(S, addresses(&["eth1 198.51.100.8"]));
    assert!(nat.is_following() && nat.is_due(S));
    let mut refused = 0;
    for host in (2..200).rev() {
        let old = ports[host as usize - 2];
        // The last session of a host may end while this packet comes.
        match out(&mut nat, S, &ask(host, 1)) {
            Ok(left) => assert!(left.starts_with("198.51.100.8:"), "{left}"),
            Err(cause) => {
                refused += 1;
                assert_eq!(cause, Cause::NoAddress);
            }
        }
        let back = format!("ip 203.0.113.1 > 192.0.2.7 / udp 53 > {old}");
        assert!(come(&mut nat, S, &back).unwrap().ends_with(&format!("192.0.2.7:{old}")));
        // An error about what has left by the old address says nothing to hosts, and theirs does not leave by it.
        let about = packet(&format!("ip 203.0.113.2 > 10.0.1.{host} / udp 53 > 1000"));
        let mut ip = error(3, &format!("10.0.1.{host}"), "203.0.113.2", &about[..28]);
        go(&mut nat, S, &mut ip, true);
        assert!(!ends(&ip).contains("192.0.2.7"), "{ip:02x?}");
    }
    assert!(refused > 0 && !nat.is_following(), "{refused}");
    for host in 2..200 {
        assert!(out(&mut nat, S, &ask(host, 2)).unwrap().starts_with("198.51.100.8:"));
    }
}

#[test]
fn changes_during_a_change_wait_and_the_last_one_prevails() {
    let mut nat = dynamic(OFFICE);
    set(&mut nat, 0, &["eth1 192.0.2.7"]);
    for host in 2..100 {
        out(&mut nat, 0, &format!("ip 10.0.1.{host} > 203.0.113.1 / udp 1000 > 53")).unwrap();
    }
    for next in ["eth1 198.51.100.8", "eth1 198.51.100.9", "eth1", "eth1 192.0.2.7"] {
        nat.set_addresses(S, addresses(&[next]));
    }
    settle(&mut nat, S);
    assert_eq!(nat.len(), 0);
    assert!(out(&mut nat, S, ASKS).unwrap().starts_with("192.0.2.7:"));
    // The same once more changes nothing.
    set(&mut nat, S, &["eth1 192.0.2.7"]);
    assert!(nat.len() == 1 && !nat.is_following());
}

#[test]
fn an_address_may_go_from_an_interface_to_another_one() {
    let text = "translate 10.0.1.0/24 to interface eth1\ntranslate 10.0.2.0/24 to interface eth2 block 64";
    let mut nat = dynamic(text);
    set(&mut nat, 0, &["eth1 192.0.2.7", "eth2 198.51.100.8"]);
    let both = ["ip 10.0.1.2 > 203.0.113.1 / udp 1 > 2", "ip 10.0.2.2 > 203.0.113.1 / udp 1 > 2"];
    for (line, outside) in both.iter().zip(["192.0.2.7:", "198.51.100.8:"]) {
        assert!(out(&mut nat, 0, line).unwrap().starts_with(outside));
    }
    set(&mut nat, S, &["eth1 198.51.100.8", "eth2 192.0.2.7"]);
    settle(&mut nat, S);
    for (line, outside) in both.iter().zip(["198.51.100.8:", "192.0.2.7:"]) {
        assert!(out(&mut nat, S, line).unwrap().starts_with(outside));
    }
    // Both have the same: the first one by name prevails, and the other one's hosts wait.
    set(&mut nat, 2 * S, &["eth1 198.51.100.8", "eth2 198.51.100.8"]);
    settle(&mut nat, 2 * S);
    assert!(out(&mut nat, 2 * S, both[0]).unwrap().starts_with("198.51.100.8:"));
    assert_eq!(out(&mut nat, 2 * S, both[1]), Err(Cause::NoAddress));
    assert_eq!(nat.unfit_addresses(), [("eth2".to_owned(), Ipv4Addr::new(198, 51, 100, 8), Unfit::Twice)]);
}

#[test]
fn several_addresses_are_a_pool_and_some_are_not_used() {
    let text = "translate 10.0.1.0/24 to interface eth1\nstatic 10.0.3.9 to 192.0.2.9\ntranslate 10.0.4.0/24 to 192.0.2.4";
    let mut nat = dynamic(text);
    let line = "eth1 192.0.2.1 192.0.2.2 127.0.0.1 169.254.3.4 224.0.0.5 0.0.0.0 10.0.1.9 10.0.3.9 192.0.2.9 192.0.2.4";
    set(&mut nat, 0, &[line]);
    let why: Vec<Unfit> = nat.unfit_addresses().into_iter().map(|(.., why)| why).collect();
    use Unfit::{Inside, Kind, Named};
    assert_eq!(why, [Kind, Kind, Kind, Kind, Inside, Inside, Named, Named]);
    let mut used = BTreeSet::new();
    for host in 1..100 {
        let left = out(&mut nat, 0, &format!("ip 10.0.1.{host} > 203.0.113.1 / udp 1 > 2")).unwrap();
        used.insert(left.split(':').next().unwrap().to_owned());
    }
    assert_eq!(used.iter().collect::<Vec<_>>(), ["192.0.2.1", "192.0.2.2"]);
    // One of them goes: its hosts get the other one, and others keep their sessions.
    let kept = nat.sessions().filter(|one| one.outside.0 == Ipv4Addr::new(192, 0, 2, 1)).count();
    set(&mut nat, S, &["eth1 192.0.2.1"]);
    settle(&mut nat, S);
    assert_eq!(nat.len(), kept);
    let many: Vec<String> = (0..20).map(|n| format!("192.0.2.{}", 100 + n)).collect();
    set(&mut nat, S, &[&format!("eth1 {}", many.join(" "))]);
    assert_eq!(nat.unfit_addresses().iter().filter(|(.., why)| *why == Unfit::TooMany).count(), 12);
}

#[test]
fn ports_that_are_kept_go_with_the_address() {
    let mut nat =
        dynamic("translate 10.0.1.0/24 to interface eth1 ports 5000-5007\nforward udp 5000 to 10.0.1.20");
    nat.reserve_own((5001, 5003));
    set(&mut nat, 0, &["eth1 192.0.2.7"]);
    let ports = |nat: &mut Nat, now: u64| -> Vec<u16> {
        let ask = |host: u32| format!("ip 10.0.1.{host} > 203.0.113.1 / udp 1 > 2");
        let mut ports: Vec<u16> = (1..5).map(|host| port(&out(nat, now, &ask(host)).unwrap())).collect();
        assert_eq!(out(nat, now, &ask(9)), Err(Cause::NoPort));
        ports.sort_unstable();
        ports
    };
    assert_eq!(ports(&mut nat, 0), [5004, 5005, 5006, 5007]);
    // The new address keeps the same ports; and so does the old one when it comes again, whose ports have waited.
    set(&mut nat, S, &["eth1 198.51.100.8"]);
    settle(&mut nat, S);
    assert_eq!(ports(&mut nat, S), [5004, 5005, 5006, 5007]);
    set(&mut nat, 200 * S, &["eth1 192.0.2.7"]);
    settle(&mut nat, 200 * S);
    assert_eq!(ports(&mut nat, 200 * S), [5004, 5005, 5006, 5007]);
    // Addresses that are gone take no room for ever.
    for n in 0..100u64 {
        let now = (400 + 200 * n) * S;
        set(&mut nat, now, &[&format!("eth1 203.0.113.{}", 100 + n)]);
        settle(&mut nat, now);
        out(&mut nat, now, "ip 10.0.1.2 > 203.0.113.1 / udp 1 > 2").unwrap();
        assert!(nat.subscribers.addresses() <= 3, "{}", nat.subscribers.addresses());
    }
}

#[test]
fn other_statements_keep_the_addresses() {
    let mut nat = dynamic(OFFICE);
    set(&mut nat, 0, &["eth1 192.0.2.7"]);
    out(&mut nat, 0, ASKS).unwrap();
    come(&mut nat, 0, "ip 198.51.100.9 > 192.0.2.7 / tcp 9 > 80 flags S").unwrap();
    assert_eq!(nat.replace(policy(&format!("{OFFICE}\ntimeout udp 1m")), &[], 1), 0);
    assert_eq!(nat.replace(policy(&format!("{OFFICE}\nexempt 10.0.1.0/24 to 10.9.0.0/16")), &[], 1), 0);
    consistent(&nat);
    let left = out(&mut nat, S, "ip 10.0.1.3 > 203.0.113.1 / udp 1000 > 53").unwrap();
    assert!(nat.len() == 3 && left.starts_with("192.0.2.7:"), "{left}");
    // The same address, written.
    let written = OFFICE.replace("interface eth1", "192.0.2.7");
    assert_eq!(nat.replace(policy(&written), &[address("192.0.2.7")], 1), 0);
    assert_eq!(nat.replace(policy(OFFICE), &[], 1), 0);
    consistent(&nat);
    // In the middle of a change.
    nat.set_addresses(S, addresses(&["eth1 198.51.100.8"]));
    assert_eq!(nat.replace(policy(&format!("{OFFICE}\ntimeout udp 2m")), &[], 1), 3);
    assert!(!nat.is_following() && nat.is_empty());
    assert!(out(&mut nat, S, ASKS).unwrap().starts_with("198.51.100.8:"));
    // With other statements come other addresses.
    nat.addresses_instead(addresses(&["eth1 192.0.2.7"]));
    assert_eq!(nat.replace(policy(OFFICE), &[], 1), 1);
    assert!(out(&mut nat, S, ASKS).unwrap().starts_with("192.0.2.7:"));
}

#[test]
fn inside_hosts_reach_each_other_by_the_address() {
    let mut nat = dynamic(OFFICE);
    set(&mut nat, 0, &["eth1 192.0.2.7"]);
    let line = "ip 10.0.1.2 > 192.0.2.7 / tcp 9 > 80 flags S";
    let came = come(&mut nat, 0, line).unwrap();
    assert!(came.starts_with("192.0.2.7:") && came.ends_with("> 10.0.1.20:8080"), "{came}");
    set(&mut nat, S, &["eth1 198.51.100.8"]);
    settle(&mut nat, S);
    assert_eq!(come(&mut nat, S, line).unwrap(), "10.0.1.2:9 > 192.0.2.7:80");
    let line = line.replace("192.0.2.7", "198.51.100.8");
    assert!(come(&mut nat, S, &line).unwrap().ends_with("> 10.0.1.20:8080"));
}

/// The peer of a SessionSync has another address: it refuses such sessions, and takes others.
#[test]
fn the_peer_refuses_sessions_of_another_address() {
    use statesync::{NotTaken, Op, Table};
    let text = "translate 10.0.1.0/24 to interface eth1\ntranslate 10.0.2.0/24 to 192.0.2.99";
    let [mut one, mut other] = [dynamic(text), dynamic(text)];
    one.tell_changes(100);
    set(&mut one, 0, &["eth1 192.0.2.7"]);
    set(&mut other, 0, &["eth1 192.0.2.8"]);
    for network in 1..3 {
        let left = out(&mut one, 0, &format!("ip 10.0.{network}.2 > 203.0.113.1 / udp 1000 > 53")).unwrap();
        let outside = left.split(':').next().unwrap();
        let back = format!("ip 203.0.113.1 > {outside} / udp 53 > {}", port(&left));
        come(&mut one, 0, &back).unwrap();
    }
    let mut told = Vec::new();
    one.changes(0, 100, &mut |op, record| told.push((op, record.to_vec())));
    let found: Vec<_> = told.iter().map(|(op, record)| (*op, other.apply(0, *op, record))).collect();
    assert_eq!(found, [(Op::Put, Err(NotTaken::Policy)), (Op::Put, Ok(()))]);
    // Of one that has the same address, it is taken, and ends with the address without a word to the owner.
    set(&mut other, 0, &["eth1 192.0.2.7"]);
    other.tell_changes(100);
    told.iter().for_each(|(op, record)| other.apply(0, *op, record).unwrap());
    assert_eq!(other.len(), 2);
    set(&mut other, S, &["eth1"]);
    settle(&mut other, S);
    assert_eq!((other.len(), other.changes_waiting()), (1, 0));
    // The owner reports the end.
    set(&mut one, S, &[]);
    settle(&mut one, S);
    assert_eq!((one.len(), one.changes_waiting()), (1, 1));
}

#[test]
fn addresses_come_and_go_in_a_random_life() {
    let text = "translate 10.0.1.0/24 to interface eth1 ports 4000-4063\ntranslate 10.0.2.0/24 to interface eth2 block 16\n\
                forward udp 4001 on interface eth1 to 10.0.1.9\nsessions 200";
    let mut nat = dynamic(text);
    let mut rng = fastrand::Rng::with_seed(11);
    let mut now = 0;
    let mut given: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for _ in 0..4000 {
        now += rng.u64(..S);
        match rng.u32(..40) {
            0 => {
                given.clear();
                for name in ["eth1", "eth2"] {
                    let some = (0..rng.u32(..3)).map(|_| format!("192.0.2.{}", 1 + rng.u32(..4))).collect();
                    given.insert(name, some);
                }
                let lines: Vec<String> =
                    given.iter().map(|(name, all)| format!("{name} {}", all.join(" "))).collect();
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                set(&mut nat, now, &lines);
            }
            1 => settle(&mut nat, now),
            _ => {
                let (network, host) = (1 + rng.u32(..2), rng.u32(..20));
                let line = format!(
                    "ip 10.0.{network}.{host} > 203.0.113.{} / udp {} > 53",
                    rng.u32(..3),
                    1 + rng.u32(..3)
                );
                let name = ["eth1", "eth2"][network as usize - 1];
                if let Ok(left) = out(&mut nat, now, &line) {
                    let outside = left.split(':').next().unwrap().to_owned();
                    let may_have = given.get(name).is_some_and(|all| all.contains(&outside));
                    assert!(may_have || nat.is_following(), "{line} {left} {given:?}");
                }
            }
        }
    }
    set(&mut nat, now, &[]);
    settle(&mut nat, now);
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
}
