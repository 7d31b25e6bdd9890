// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast: the router forwards by the kernel's entries as the kernel does, and PIM and IGMP of FRR make them.

use std::collections::BTreeMap;

use testbed::frr::{self, Frr};
use testbed::groups::{self, Got, Receiver, Sending};
use testbed::process::Process;
use testbed::rig::{Cable, Namespace, skip_without};

use crate::site::{PATIENCE, Site};

/// Entries with the interfaces of the router, packets with these groups, and what may become of them: (S, G) with a threshold, (*, G), the wrong
/// interface, no output, an entry for any source by other interfaces, and no entry.
const ENTRIES: &str = "10.0.1.2 239.1.1.1 IF0 IF1 IF2/16
* 239.1.1.2 IF0 IF0 IF1 IF2
10.0.1.2 239.1.1.3 IF1 IF2
10.0.1.2 239.1.1.4 IF0
* 239.1.1.6 IF1 IF1 IF2
10.0.1.2 239.1.1.7 IF0 IF2/3
";
const ENTRIES6: &str = "fd00:1::2 ff1e::1 IF0 IF1 IF2
* ff1e::2 IF0 IF0 IF1 IF2
fd00:1::2 ff1e::3 IF1 IF2
fd00:1::2 ff1e::4 IF0
* ff1e::6 IF1 IF1 IF2
fd00:1::2 ff1e::7 IF0 IF2
";
const GROUPS: std::ops::RangeInclusive<u32> = 1..=7;
const TTLS: [u8; 6] = [1, 2, 3, 16, 17, 64];

/// Packets of each group and TTL by who got them.
type Distribution = BTreeMap<(u32, &'static str), Got>;

fn group(is_six: bool, number: u32) -> String {
    if is_six { format!("ff1e::{number}") } else { format!("239.1.1.{number}") }
}

/// Sends a packet with each TTL to each group, and says who got what.
fn distribute(site: &Site, is_six: bool, expected: Option<&Distribution>) -> Distribution {
    let hosts = [("b", &site.rig.b, "b0"), ("c", &site.c, "c0")];
    let groups: Vec<String> = GROUPS.map(|number| group(is_six, number)).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let receivers =
        hosts.map(|(name, host, interface)| (name, Receiver::join(host, interface, &groups).unwrap()));
    let got = || -> Distribution {
        let of = |(name, receiver): &(&'static str, Receiver)| {
            receiver.got().into_iter().map(|(number, got)| ((number, *name), got)).collect::<Vec<_>>()
        };
        receivers.iter().flat_map(of).collect()
    };
    let mut packets = Vec::new();
    for number in GROUPS {
        for (n, ttl) in TTLS.into_iter().enumerate() {
            let first = number * 100 + n as u32;
            // Some are sent in fragments.
            let bytes = if ttl == 3 { 3000 } else { 400 };
            packets.push((group(is_six, number), Sending { ttl, first, bytes, ..Sending::default() }));
        }
    }
    // What comes last comes by both interfaces.
    packets.push((group(is_six, 1), Sending { first: 9999, ..Sending::default() }));
    let packets: Vec<(&str, Sending)> = packets.iter().map(|(group, of)| (group.as_str(), *of)).collect();
    groups::send(&site.rig.a, "a0", &packets).unwrap().finish(PATIENCE).unwrap();
    let is_done = || match expected {
        Some(expected) => got() == *expected,
        None => ["b", "c"].iter().all(|name| got().contains_key(&(9999, *name))),
    };
    let done = testbed::rig::wait_for("all packets", PATIENCE, is_done);
    assert!(done.is_ok(), "expected {expected:#?}, got {:#?}", got());
    got()
}

/// A daemon that makes these entries.
fn daemon(site: &Site, namespace: &Namespace, is_six: bool, entries: &str, interfaces: [&str; 3]) -> Process {
    let file = site.path(if is_six { "entries6" } else { "entries" });
    let mut text = entries.to_owned();
    for (n, name) in interfaces.iter().enumerate() {
        text = text.replace(&format!("IF{n}"), name);
    }
    std::fs::write(&file, text).unwrap();
    let mut daemon = groups::daemon(namespace, if is_six { 6 } else { 4 }, &interfaces, &file).unwrap();
    daemon.wait_for_text("entries", PATIENCE).unwrap();
    daemon
}

/// The kernel as the router, with the same entries.
fn by_kernel(is_six: bool, entries: &str) -> Distribution {
    let site = Site::bare(1500);
    crate::site::speak_ipv6(&site.rig.dut);
    site.rig.dut.sysctl("net/ipv4/ip_forward", "1").unwrap();
    for number in 0..3 {
        let name = format!("d{number}");
        // An interface that was there before has no link-local address yet.
        site.rig.dut.ip(&format!("link set {name} down")).unwrap();
        site.rig.dut.ip(&format!("link set {name} up")).unwrap();
        site.rig.dut.ip(&format!("addr add 10.0.{}.1/24 dev {name}", number + 1)).unwrap();
        site.rig.dut.ip(&format!("addr add fd00:{}::1/64 dev {name} nodad", number + 1)).unwrap();
    }
    let _daemon = daemon(&site, &site.rig.dut, is_six, entries, ["d0", "d1", "d2"]);
    distribute(&site, is_six, None)
}

fn check(is_six: bool, entries: &str, table: &str) {
    let expected = by_kernel(is_six, entries);
    let site = Site::new(1500);
    let daemon = daemon(&site, &site.control, is_six, entries, ["host0", "host1", "host2"]);
    let count = || site.ctl(&format!("{table}.nentries")).unwrap_or_default();
    site.wait("the entries", || count() == "6");
    let found = distribute(&site, is_six, Some(&expected));
    assert_eq!(found, expected);
    let shown = site.multicast();
    assert_eq!(shown.as_array().map(Vec::len), Some(6), "{shown:#}");
    is_followed(&site, is_six);
    // Packets from the wrong interface and those without an entry were reported to the daemon.
    let source = if is_six { "fd00:1::2" } else { "10.0.1.2" };
    for (kind, number) in [(1, 5), (1, 6), (2, 3)] {
        let report = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, what, _, from, to] = words[..] else { return false };
            what == kind.to_string() && from == source && to == group(is_six, number)
        };
        let has = || daemon.stdout().lines().filter(|line| line.starts_with("report")).any(report);
        site.wait(&format!("a report of kind {kind} about group {number}"), has);
    }
    drop(daemon);
    site.wait("entries that stay", || {
        let rows = site.multicast();
        let rows = rows.as_array().cloned().unwrap_or_default();
        rows.len() == 6 && rows.iter().all(|row| row["stale"] == true)
    });
    assert_eq!(count(), "6");
}

/// A packet's trace names the entry that it follows, if there is one.
fn is_followed(site: &Site, is_six: bool) {
    let (source, any) = if is_six { ("fd00:1::2", "fd00:9::9") } else { ("10.0.1.2", "10.0.9.9") };
    let lines = [
        (source, 1, format!("multicast entry ({source}, {}): from host0 to host1, host2", group(is_six, 1))),
        (any, 2, format!("multicast entry (*, {}): from host0 to host0, host1, host2", group(is_six, 2))),
        (source, 4, format!("multicast entry ({source}, {}): from host0 to nobody", group(is_six, 4))),
        (source, 5, String::new()),
        (source, 6, String::new()),
    ];
    for (source, number, line) in lines {
        let (mac, ip, table) = match is_six {
            true => (format!("33:33:0:0:0:{number}"), "ip6", "mroute6"),
            false => (format!("1:0:5e:1:1:{number}"), "ip", "mroute"),
        };
        let to = group(is_six, number);
        let packet = format!("eth 2:0:0:0:0:9 to {mac} / {ip} {source} to {to} / udp 1 to 2");
        let traced = site.try_packet("in0", &packet);
        assert_eq!(traced.contains("multicast entry ("), !line.is_empty(), "{traced}");
        assert!(traced.contains(&line) && traced.contains(&format!("{table} :: Lookup")), "{line}: {traced}");
    }
}

#[test]
fn ipv4_is_distributed_as_by_linux() {
    if !skip_without("ipv4_is_distributed_as_by_linux", &["python3"]) {
        check(false, ENTRIES, "mroute");
    }
}

#[test]
fn ipv6_is_distributed_as_by_linux() {
    if !skip_without("ipv6_is_distributed_as_by_linux", &["python3"]) {
        check(true, ENTRIES6, "mroute6");
    }
}

/// B is a router with receivers behind it, and the rendezvous point.
const PIM_OF_B: &str = "
ip pim rp 10.0.2.2
interface b0
 ip pim
 ip pim hello 1 5
interface b1
 ip pim
 ip igmp
";

/// Which of these packets have not come to each receiver.
fn missing(receivers: &[&Receiver], numbers: &std::ops::Range<u32>) -> Vec<Vec<u32>> {
    let of = |receiver: &&Receiver| {
        let got = receiver.got();
        numbers.clone().filter(|number| !got.contains_key(number)).collect()
    };
    receivers.iter().map(of).collect()
}

/// Waits for a steady flow to each receiver, of which no packet came twice. Those by the kernel may come late.
fn hold_steady(site: &Site, what: &str, receivers: &[&Receiver]) {
    let numbers = wait_until_steady(site, what, receivers);
    for receiver in receivers {
        let got = receiver.got();
        let twice: Vec<_> = got.range(numbers.clone()).filter(|(_, got)| got.times > 1).collect();
        assert!(twice.is_empty(), "{what}: {twice:?} came more than once");
    }
}

/// Waits until packets come to each receiver without a gap: the daemons have agreed. Returns their numbers. A daemon that changes its mind
/// once more, as PIM does when a router leaves the shared tree, makes another gap, so later packets are looked at then.
fn wait_until_steady(site: &Site, what: &str, receivers: &[&Receiver]) -> std::ops::Range<u32> {
    let mut numbers = 0..0;
    site.wait(&format!("a steady flow {what}"), || {
        let last = receivers.iter().map(|r| r.got().keys().next_back().copied().unwrap_or(0)).min();
        let last = last.unwrap_or(0);
        let is_over = numbers.end < last && !numbers.is_empty();
        if is_over && missing(receivers, &numbers).iter().all(Vec::is_empty) {
            return true;
        }
        // Those that the kernel forwards may come after others.
        if numbers.end + 300 < last {
            if is_over {
                eprintln!("missing of {numbers:?}: {:?}", missing(receivers, &numbers));
            }
            numbers = last..last + 400;
        }
        false
    });
    numbers
}

/// Packets that the kernel has counted for an entry.
fn counted(site: &Site, group: &str) -> u64 {
    let text = site.control.ip("-s mroute show").unwrap();
    let after = text.split(&format!("(10.0.1.2,{group})")).nth(1).unwrap_or_default();
    let words: Vec<&str> = after.split_whitespace().collect();
    let at = words.iter().position(|word| word.starts_with("packets"));
    at.and_then(|at| words[at - 1].parse().ok()).unwrap_or(0)
}

#[test]
fn pim_and_igmp_of_a_written_deployment() {
    let name = "pim_and_igmp_of_a_written_deployment";
    if skip_without(name, &[&frr::program("zebra"), &frr::program("pimd"), "vtysh", "python3"]) {
        return;
    }
    let mut site = Site::bare(1500);
    let d = Namespace::new("d").unwrap();
    Cable::default().lay(&d, "e0", &site.rig.b, "b1").unwrap();
    site.rig.b.ip("addr add 10.0.4.1/24 dev b1").unwrap();
    d.ip("addr add 10.0.4.2/24 dev e0").unwrap();
    d.ip("route add default via 10.0.4.1").unwrap();
    let mut theirs = Frr::new().unwrap();
    theirs.start(&site.rig.b, "zebra", "", &[]).unwrap();
    theirs.start(&site.rig.b, "pimd", PIM_OF_B, &[]).unwrap();
    site.deploy(&["--pim"], |file, text| match file {
        "frr/pimd.conf" => text
            .replace("! ip pim rp 10.0.0.1 239.0.0.0/8\n", "ip pim rp 10.0.2.2\n")
            .replace(" ip pim\n", " ip pim\n ip pim hello 1 5\n"),
        "router.click" => text.replace("KERNEL 5)", "KERNEL 5, PERIOD 200ms)"),
        _ => text,
    });
    const GROUP: &str = "239.1.1.1";
    let near = Receiver::join(&site.c, "c0", &[GROUP]).unwrap();
    let far = Receiver::join(&d, "e0", &[GROUP]).unwrap();
    let packets = Sending { count: 1_000_000, pause_ms: 2, ..Sending::default() };
    let _sender = groups::send(&site.rig.a, "a0", &[(GROUP, packets)]).unwrap();
    wait_until_steady(&site, "to both receivers", &[&near, &far]);
    hold_steady(&site, "to both receivers", &[&near, &far]);
    // The router forwards, and the kernel sees that the source is alive.
    let (before, punted) = (counted(&site, GROUP), site.count("nogroup.count"));
    site.wait("the kernel to count", || counted(&site, GROUP) > before + 2);
    hold_steady(&site, "while the kernel has some", &[&near, &far]);
    site.wait("the same entries in the router as in the kernel", || {
        let diff = site.routes("diff");
        diff["differences"] == serde_json::json!([]) && diff["router_multicast"].as_u64() >= Some(1)
    });
    assert!(site.count("nogroup.count") < punted + 20);
    // Who leaves gets no more.
    drop(near);
    let table = || site.ctl("mroute.table").unwrap_or_default();
    let leads_to_c = || table().lines().any(|line| line.starts_with("10.0.1.2") && line.contains(" 3"));
    site.wait("the prune of C's network", || !leads_to_c());
    hold_steady(&site, "to the one that is left", &[&far]);
    let near = Receiver::join(&site.c, "c0", &[GROUP]).unwrap();
    wait_until_steady(&site, "to both again", &[&near, &far]);
    // A daemon that dies takes nothing with it.
    let pid = std::fs::read_to_string(site.path("deployment/frr/pimd.pid")).unwrap();
    site.rig.dut.run(&["kill", "-9", pid.trim()]).unwrap();
    wait_until_steady(&site, "without pimd", &[&near, &far]);
}
