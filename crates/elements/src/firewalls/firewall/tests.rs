// SPDX-License-Identifier: MIT OR Apache-2.0

use packet::Packet;

use super::*;
use crate::io::testing::Temp;
use crate::testing::{Rig, Run};
use wire::ethernet;

const RULES: &str = "zone inside eth1\nzone outside eth0\ntimeout udp 2m\n\
    accept from inside to outside\n\
    reject from outside to inside tcp port 22 log \"tried\"\n\
    reject with prohibited from outside to inside\n";

/// A packet that came by the link of this paint.
fn packet(paint: u8, headers: &str) -> Packet {
    let bytes = wire::compose::compose(headers).unwrap().bytes;
    let mut packet = Packet::copy_of(&bytes).unwrap();
    packet.set_network(0, if headers.starts_with("ip6") { 40 } else { 20 });
    packet.set_paint(paint);
    packet
}

/// Input 1 leads to eth0, 2 to eth1; input 4 and 5 the same for IPv6.
fn text(file: &str) -> String {
    let inputs: String = (0..6).map(|n| format!("i{n} :: TestIn -> [{n}]fw; ")).collect();
    let outputs: String = (0..10).map(|n| format!("fw[{n}] -> o{n} :: TestOut; ")).collect();
    format!("fw :: Firewall({file}, LINK eth0, LINK eth1); {inputs}{outputs}")
}

/// What each output has sent since it was asked last.
fn outs(run: &Run) -> Vec<Vec<Packet>> {
    (0..10).map(|n| run.out(&format!("o{n}"))).collect()
}

fn counts(outs: &[Vec<Packet>]) -> Vec<usize> {
    outs.iter().map(Vec::len).collect()
}

const ASKS: &str = "ip 10.0.1.2 to 192.0.2.1 / udp 1000 to 53";
const ANSWERS: &str = "ip 192.0.2.1 to 10.0.1.2 / udp 53 to 1000";

#[test]
fn packets_go_where_rules_say() {
    let files = Temp::new();
    let run = Rig::text(&text(&files.file("rules", RULES))).ready();
    // The answer comes first: it is rejected.
    run.give("i2", vec![packet(1, ANSWERS)]);
    let run = run.again();
    run.give("i1", vec![packet(2, ASKS)]);
    let run = run.again();
    let found = outs(&run);
    assert_eq!(counts(&found), [0, 1, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(found[6][0].anno_u8(anno::ICMP_PARAM_PROBLEM), 13);
    run.give("i2", vec![packet(1, ANSWERS), packet(1, "ip 192.0.2.1 to 10.0.1.2 / tcp 9 to 22 flags S")]);
    run.give("i4", vec![packet(2, "ip6 2001:db8::2 to 2001:db8:1::1 / tcp 9 to 22 flags S")]);
    run.give(
        "i5",
        vec![
            packet(1, "ip6 2001:db8:1::1 to 2001:db8::2 / tcp 9 to 22 flags S"),
            packet(1, "ip6 2001:db8:1::1 to 2001:db8::2 / udp 9 to 9"),
            // From no link.
            packet(7, "ip6 2001:db8:1::1 to 2001:db8::2 / udp 9 to 9"),
        ],
    );
    let mut run = run.again();
    let found = outs(&run);
    assert_eq!(counts(&found), [0, 0, 1, 0, 1, 0, 0, 1, 1, 1]);
    assert_eq!(found[8][0].anno_u8(anno::ICMP_PARAM_PROBLEM), 1);
    assert_eq!(run.drops("fw"), [(Reason::FirewallRule, 1)]);
    assert_eq!((run.read("fw.nconnections").as_str(), run.read("fw.capacity").as_str()), ("2", "262144"));
    let rules: Vec<String> =
        run.read("fw.rules").lines().map(|l| l.split(' ').take(4).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(rules, ["4 2 88 2", "5 2 100 0", "6 2 76 0", "0 0 0 0"]);
    let journal = run.read("fw.journal");
    let lines: Vec<&str> = journal.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "2 0 0"));
    assert!(lines[1].ends_with("reject 5 outside inside tcp 40 192.0.2.1:9 10.0.1.2:22 tried"), "{journal}");
    assert_eq!(run.read_with("fw.journal", "2"), "2 0 0\n");
    let all = run.read("fw.connections");
    assert!(all.starts_with("-\nudp 10.0.1.2 1000 192.0.2.1 53 open inside outside 4 1 28 1 28 "), "{all}");
    let six = run.read_with("fw.connections", "4294967296");
    assert!(six.starts_with("-\ntcp 2001:db8::2 9 2001:db8:1::1 22 asked "), "{six}");
}

/// A packet that came with an Ethernet header, which Strip has removed.
fn stripped(paint: u8, headers: &str) -> Packet {
    let bytes = wire::compose::compose(headers).unwrap().bytes;
    let mut packet = Packet::copy_of(&bytes).unwrap();
    packet.arrive(0);
    packet.strip(ethernet::network_layer(&bytes).unwrap().offset);
    packet.set_network(0, if headers.contains("/ ip6") { 40 } else { 20 });
    packet.set_paint(paint);
    packet
}

#[test]
fn mac_addresses_are_those_of_the_ethernet_header_before_the_packet() {
    let files = Temp::new();
    let file = files.file(
        "rules",
        "zone inside eth1\nzone outside eth0\nset phones macs 2:0:0:0:0:1\n\
        accept from inside to outside mac @phones\nreject from inside to outside mac !@phones\naccept from self\n",
    );
    let run = Rig::text(&text(&file)).ready();
    let four = "ip 10.0.1.2 to 192.0.2.1 / udp";
    let six = "ip6 2001:db8::2 to 2001:db8:1::1 / udp";
    // A tunnel's packet: what came on the link is not right before it.
    let mut inner =
        stripped(2, &format!("eth 2:0:0:0:0:1 to 2:0:0:0:0:9 / ip 10.9.9.9 to 10.0.1.1 / {four} 9 to 9"));
    inner.strip(20);
    inner.set_network(0, 20);
    let four_packets = vec![
        stripped(2, &format!("eth 2:0:0:0:0:1 to 2:0:0:0:0:9 / {four} 1 to 1")),
        stripped(2, &format!("eth 2:0:0:0:0:1 to 2:0:0:0:0:9 / vlan 7 / {four} 2 to 2")),
        stripped(2, &format!("eth 2:0:0:0:0:2 to 2:0:0:0:0:1 / {four} 3 to 3")),
        packet(2, &format!("{four} 4 to 4")),
        inner,
        // The router's own.
        stripped(0, &format!("eth 2:0:0:0:0:2 to 2:0:0:0:0:9 / {four} 5 to 5")),
    ];
    run.give("i1", four_packets);
    run.give(
        "i4",
        vec![
            stripped(2, &format!("eth 2:0:0:0:0:1 to 2:0:0:0:0:9 / {six} 1 to 1")),
            stripped(2, &format!("eth 2:0:0:0:0:2 to 2:0:0:0:0:1 / {six} 2 to 2")),
        ],
    );
    let mut run = run.again();
    assert_eq!(counts(&outs(&run)), [0, 3, 0, 0, 1, 0, 1, 0, 1, 0]);
    assert_eq!(run.drops("fw"), [(Reason::FirewallRule, 2)]);
    assert!(run.read("fw.sets").starts_with("phones macs 1 0 "), "{}", run.read("fw.sets"));
    // A set changes, and the next packet finds it changed.
    run.write("fw.set_add", "phones 2:0:0:0:0:2 2:0:0:1:0:0/32 for 1h").unwrap();
    assert_eq!(run.read_with("fw.set_test", "phones 2:0:0:1:7:7"), "02:00:00:01:00:00/32 3600\n");
    run.give("i1", vec![stripped(2, &format!("eth 2:0:0:0:0:2 to 2:0:0:0:0:1 / {four} 3 to 3"))]);
    let mut run = run.again();
    assert_eq!(counts(&outs(&run)), [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    // Connections do not know their MAC address: their verdict depends on it now, but for the router's own.
    assert_eq!((run.read("fw.unjudged").lines().count(), run.read("fw.refused").lines().count()), (4, 0));
    run.write("fw.end", "refused").unwrap();
    assert_eq!(run.read("fw.nconnections"), "5");
    let wrong = run.write("fw.set_add", "phones 10.0.0.1").unwrap_err().to_string();
    assert!(wrong.contains("'10.0.0.1' is not a MAC address"), "{wrong}");
}

#[test]
fn the_journal_keeps_packets_and_links() {
    let files = Temp::new();
    let logs = "default drop log\nzone inside eth1\nzone outside eth0\nreject from inside to outside tcp log \"old port\"\n";
    let file = files.file("rules", logs);
    let config = |bytes: u16| text(&file).replace("LINK eth1", &format!("LINK eth1, LOG_BYTES {bytes}"));
    let mut run = Rig::text(&config(30)).ready();
    let tcp = packet(2, "ip 10.0.1.2 to 192.0.2.1 / tcp 9 to 81 flags S");
    let six = packet(1, "ip6 2001:db8:1::1 to 2001:db8::2 / udp 9 to 9 / payload 50");
    let own = packet(0, "ip 192.0.2.9 to 192.0.2.1 / udp 7 to 7");
    let all: Vec<Vec<u8>> = [&tcp, &six, &own].map(|packet| packet.data().to_vec()).into();
    for (input, packet) in [("i1", tcp), ("i3", six), ("i1", own)] {
        run.give(input, vec![packet]);
        run = run.again();
    }
    let check = |logged: &str, bytes: usize, first: [&str; 3]| {
        let lines: Vec<&str> = logged.lines().collect();
        assert_eq!((lines[0], lines.len()), ("3 0 3 0", 4), "{logged}");
        for (n, (line, ip)) in lines[1..].iter().zip(&all).enumerate() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            let kept: String = ip.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect();
            assert_eq!((words[0], words[3]), (&*n.to_string(), &*first[n].replace("HEX", &kept)), "{logged}");
        }
    };
    let defaults = ["- eth0 self 98 HEX ", "- self eth0 28 HEX "];
    check(&run.read("fw.logged"), 30, ["4 eth1 eth0 40 HEX old port", defaults[0], defaults[1]]);
    assert_eq!(run.read_with("fw.logged", "3"), "3 0 3 0\n");
    assert_eq!(
        (run.read("fw.log_bytes").as_str(), run.read("fw.links").as_str()),
        ("30", "eth0 1\neth1 2\n")
    );
    // Events go over to another instance, which keeps less.
    run.swap(&config(24)).unwrap();
    check(&run.read("fw.logged"), 24, ["replaced eth1 eth0 40 HEX ", defaults[0], defaults[1]]);
    run.swap(&config(0)).unwrap();
    assert!(run.read("fw.logged").contains(" - self eth0 28 - \n"), "{}", run.read("fw.logged"));
    let wrong = Rig::text(&config(1025)).errors();
    assert!(wrong[0].contains("LOG_BYTES") && wrong[0].contains("1024"), "{wrong:?}");
}

#[test]
fn rules_change_and_connections_stay() {
    let files = Temp::new();
    let file = files.file("rules", RULES);
    let run = Rig::text(&text(&file)).ready();
    run.give("i1", vec![packet(2, ASKS)]);
    let mut run = run.again();
    let wrong = files.file("wrong", format!("{RULES}acept from inside"));
    let said = run.write("fw.load", &wrong).unwrap_err().to_string();
    assert!(said.contains("wrong:7: unknown statement 'acept'"), "{said}");
    let lacks = files.file("lacks", "zone inside eth1");
    let said = run.write("fw.load", &lacks).unwrap_err().to_string();
    assert!(said.contains("link 'eth0' is in no zone"), "{said}");
    assert!(run.write("fw.load", &files.path("none")).unwrap_err().to_string().contains("cannot read"));
    // They are refused now, and pass until they are ended.
    files.file("rules", "zone outside eth0\nzone inside eth1\ndefault drop");
    run.write("fw.load", "").unwrap();
    assert!(run.read("fw.refused").starts_with("udp 10.0.1.2 1000 "), "{}", run.read("fw.refused"));
    run.give("i2", vec![packet(1, ANSWERS)]);
    let mut run = run.again();
    assert_eq!(counts(&outs(&run)), [0, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
    run.write("fw.end", "refused").unwrap();
    run.give("i2", vec![packet(1, ANSWERS)]);
    let mut run = run.again();
    assert_eq!((run.out("o2").len(), run.read("fw.nconnections").as_str()), (0, "0"));
    for wrong in ["", "nobody", "10.0.0.1 x", "10.0.0.1 1 10.0.0.2"] {
        assert!(run.write("fw.end", wrong).is_err(), "{wrong}");
    }
}

#[test]
fn connections_go_on_through_a_swap() {
    let files = Temp::new();
    let file = files.file("rules", RULES);
    let run = Rig::text(&text(&file)).ready();
    run.give("i1", vec![packet(2, ASKS)]);
    let mut run = run.again();
    // Zones have other numbers, the rule another place, the links other paints.
    let other = files.file("other", "zone guests eth2\nzone outside eth0\nzone inside eth1\ndrop from guests\naccept from inside to outside\n");
    let new = text(&other).replace("LINK eth0, LINK eth1", "LINK eth0 7, LINK eth1 8");
    run.swap(&new).unwrap();
    run.give("i2", vec![packet(7, ANSWERS)]);
    let mut run = run.again();
    assert_eq!(run.out("o2").len(), 1);
    let rules = run.read("fw.rules");
    assert!(rules.lines().nth(1).unwrap().starts_with("5 1 28 1 "), "{rules}");
}

#[test]
fn what_is_said_to_a_configuration_that_is_gone_fails() {
    let files = Temp::new();
    let rules = "zone inside eth1\nset some addresses\naccept src @some\n";
    let links = [Link { name: "eth1".into(), paint: 1, is_translated: false }];
    let read = |text: &str| ruleset(&files.file("rules", text), &links).unwrap();
    let shared = |text: &str| {
        let judge = Judge::new(read(text), &links, &[], LOG_BYTES, 1);
        ReadMostly::new(judge)
    };
    let (old, new) = (shared(rules), shared(&format!("connections 1000\n{rules}")));
    sets::add(&old, "some 10.0.0.1", 0).unwrap();
    take(&new, &old, &links, &[]);
    // Another number of connections is in place, and nothing is left of the old one.
    assert!(!lock(&new).firewall.resize_some(0));
    assert!(lock(&new).firewall.retired().is_empty());
    let gone = "the configuration was replaced: say it again";
    for keep in [Keep::File, Keep::Present] {
        assert_eq!(replace(&old, read(rules), &links, keep).unwrap_err(), gone);
    }
    for said in [sets::add(&old, "some 10.0.0.2", 0), sets::flush(&old, "some", 0), end_those(&old, 0, "all")]
    {
        assert!(matches!(&said, Err(HandlerError::Failed(why)) if why == gone), "{said:?}");
    }
    // The other configuration has its own, as before.
    assert_eq!(sets::test(&new, "some 10.0.0.2", 0).unwrap(), "");
    sets::add(&new, "some 10.0.0.2", 0).unwrap();
    // Rules that are gone take no changes, as others have what their sets hold.
    let present = Arc::clone(lock(&new).firewall.ruleset());
    replace(&new, read(rules), &links, Keep::Present).unwrap();
    assert!(sets::test(&new, "some 10.0.0.2", 0).unwrap().starts_with("10.0.0.2"));
    let said = present.change(0, 0, &[], |_| (), |_| panic!("nobody looks at it"));
    assert_eq!(said, Err(super::super::judge::REPLACED.to_owned()));
}

#[test]
fn mistakes_are_errors() {
    let files = Temp::new();
    let file = files.file("rules", RULES);
    let errors = |arguments: &str, ports: (usize, usize)| {
        let inputs: String = (0..ports.0).map(|n| format!("Idle -> [{n}]fw; ")).collect();
        let outputs: String = (0..ports.1).map(|n| format!("fw[{n}] -> Discard; ")).collect();
        Rig::text(&format!("fw :: Firewall({arguments}); {inputs}{outputs}")).errors()
    };
    assert_eq!(
        errors(&format!("{file}, LINK eth0, LINK eth1"), (2, 3)),
        [
            "fw: with 2 LINKs there should be 3 inputs and 5 outputs, or 6 and 10 for both families, not 2 and 3"
        ]
    );
    assert_eq!(
        errors(&format!("{file}, LINK eth0, LINK eth0"), (3, 5)),
        ["fw: LINK eth0 2 has the name or the paint of another"]
    );
    let found = errors(&format!("{file}, LINK eth0, LINK eth7"), (3, 5));
    assert!(found[0].contains("link 'eth7' is in no zone"), "{found:?}");
    let found = errors("/nowhere, LINK eth0, LINK eth1", (3, 5));
    assert!(found[0].contains("cannot read '/nowhere'"), "{found:?}");
    let found = errors(&format!("{file}, LINK eth0 0, LINK eth1"), (3, 5));
    assert!(found[0].contains("paint 0 is for packets from the router itself"), "{found:?}");
    let two = files.file("two", format!("{RULES}acept\ndrop from nowhere\n"));
    assert_eq!(errors(&format!("{two}, LINK eth0, LINK eth1"), (3, 5)).len(), 2);
}

#[test]
fn a_batch_is_judged_as_its_packets_are() {
    let files = Temp::new();
    let more = "reject from outside tcp port 22\nreject with prohibited from outside\n";
    let text = text(&files.file("rules", format!("connections 3\n{RULES}{more}")));
    let run = |burst: usize| {
        let run = Rig::text(&text).burst(burst).ready();
        let all = || {
            // The first begins a connection of the second; later ones find no room, or refuse what others have started.
            let kinds = [
                (2, "ip 10.0.1.2 to 192.0.2.1 / udp 1000 to 53"),
                (2, "ip 10.0.1.2 to 192.0.2.1 / udp 1000 to 53"),
                (1, "ip 192.0.2.1 to 10.0.1.2 / tcp 9 to 22 flags S"),
                (2, "ip 10.0.1.2 to 192.0.2.1 / tcp 7 to 80 flags S seq 5"),
                (2, "ip 10.0.1.2 to 192.0.2.1 / tcp 7 to 80 flags A seq 6"),
                (1, "ip 192.0.2.1 to 10.0.1.2 / udp 1 to 1"),
                (9, "ip 192.0.2.1 to 10.0.1.2 / udp 1 to 1"),
                (2, "ip 10.0.1.3 to 192.0.2.1 / icmp echo id 5"),
                (2, "ip 10.0.1.4 to 192.0.2.1 / udp 1000 to 53"),
                (2, "ip 10.0.1.5 to 192.0.2.1 / udp 1000 to 53"),
            ];
            kinds.map(|(paint, headers)| packet(paint, headers)).into_iter()
        };
        run.give("i1", all().chain(all()).collect());
        let run = run.again();
        let sent: Vec<Vec<Vec<u8>>> = (0..10).map(|n| run.bytes(&format!("o{n}"))).collect();
        (sent, run.drops("fw"))
    };
    let one = run(1);
    assert_eq!(one, run(32));
    assert!(one.0.iter().filter(|sent| !sent.is_empty()).count() >= 3 && !one.1.is_empty(), "{one:?}");
}

#[test]
fn every_drop_has_its_reason() {
    let files = Temp::new();
    let rules = "connections 3\nzone inside eth1\nzone outside eth0\n\
        accept from inside tcp port 80\naccept from inside udp max-per-source 1\nreject from inside tcp\n";
    let drops = |packets: &[&str]| {
        let run = Rig::text(&text(&files.file("rules", rules))).ready();
        run.give("i1", packets.iter().map(|headers| packet(2, headers)).collect());
        run.again().drops("fw")
    };
    let segment = |more: &str| format!("ip 10.0.1.2 to 192.0.2.1 / tcp 1000 to 80 {more}");
    assert_eq!(drops(&["ip 10.0.1.2 to 192.0.2.1 / icmp echo"]), [(Reason::FirewallRule, 1)]);
    assert_eq!(drops(&[&segment("flags A")]), [(Reason::NoConnection, 1)]);
    let far = [segment("flags S seq 5"), segment("flags S seq 5"), segment("flags R seq 900000")];
    assert_eq!(drops(&far.each_ref().map(String::as_str)), [(Reason::OutOfWindow, 1)]);
    let later = "ip 10.0.1.2 to 192.0.2.1 offset 800 / udp 1 to 2";
    assert_eq!(drops(&[later]), [(Reason::Unreassembled, 1)]);
    let two = ["ip 10.0.1.2 to 192.0.2.1 / udp 1 to 2", "ip 10.0.1.2 to 192.0.2.1 / udp 1 to 3"];
    assert_eq!(drops(&two), [(Reason::SourceLimit, 1)]);
    // All that there may be are agreed on.
    let run = Rig::text(&text(&files.file("rules", rules))).ready();
    for host in 2..5 {
        run.give("i1", vec![packet(2, &format!("ip 10.0.1.{host} to 192.0.2.1 / udp 1 to 2"))]);
    }
    let run = run.again();
    run.give(
        "i2",
        (2..5).map(|host| packet(1, &format!("ip 192.0.2.1 to 10.0.1.{host} / udp 2 to 1"))).collect(),
    );
    let run = run.again();
    run.give("i1", vec![packet(2, "ip 10.0.1.9 to 192.0.2.1 / udp 1 to 2")]);
    assert_eq!(run.again().drops("fw"), [(Reason::ConnectionTableFull, 1)]);
    // Headers that are cut off, and more resets than a second allows.
    let run = Rig::text(&text(&files.file("rules", rules))).ready();
    let mut short = packet(2, two[0]);
    short.data_mut()[3] = 200;
    let syns = (0..1010)
        .map(|port| packet(2, &format!("ip 10.0.1.2 to 192.0.2.1 / tcp {} to 81 flags S", port + 1)));
    run.give("i1", std::iter::once(short).chain(syns).collect());
    let run = run.again();
    let mut found = run.drops("fw");
    found.sort_by_key(|(reason, _)| reason.name());
    assert_eq!(found, [(Reason::BadLength, 1), (Reason::RateExceeded, 10)]);
    assert_eq!(run.out("o7").len(), 1000);
}

#[test]
fn sets_change_while_the_rules_stay() {
    let files = Temp::new();
    let rules = "zone inside eth1\nzone outside eth0\nset blocked addresses\nset web 80\n\
        drop src @blocked\naccept from inside tcp port @web stateless\n";
    let run = Rig::text(&text(&files.file("rules", rules))).ready();
    let to = |host: &str, port: u16| {
        let family =
            if host.contains(':') { ("ip6", "i4", "2001:db8::1") } else { ("ip", "i1", "192.0.2.1") };
        (family.1, packet(2, &format!("{} {host} to {} / tcp 1000 to {port} flags S", family.0, family.2)))
    };
    // Whether packets pass.
    let passes = |run: Run, host: &str, port: u16| {
        let (input, packet) = to(host, port);
        run.give(input, vec![packet]);
        let run = run.again();
        let sent = run.out("o1").len() + run.out("o4").len();
        (run, sent == 1)
    };
    let check = |mut run: Run, want: &[(&str, u16, bool)]| {
        for (host, port, passed) in want {
            let (next, found) = passes(run, host, *port);
            assert_eq!(found, *passed, "{host} {port}");
            run = next;
        }
        run
    };
    let (four, six) = ("10.0.1.2", "2001:db8::2");
    let mut run = check(run, &[(four, 80, true), (six, 80, true), (four, 443, false)]);
    run.write("fw.set_add", "blocked 10.0.1.0/24,10.0.1.2 2001:db8::2-2001:db8::7").unwrap();
    run.write("fw.set_add", "web 443 8000-8080 for 1h").unwrap();
    let mut run = check(
        run,
        &[(four, 80, false), (six, 80, false), ("10.0.2.2", 443, true), ("10.0.2.2", 8081, false)],
    );
    assert_eq!(
        run.read("fw.sets").lines().map(|l| l.rsplit_once(' ').unwrap().0).collect::<Vec<_>>(),
        ["blocked addresses 3 0", "web ports 3 2"]
    );
    assert_eq!(
        run.read_with("fw.set", "blocked"),
        "-\n10.0.1.0/24 -\n10.0.1.2 -\n2001:db8::2-2001:db8::7 -\n"
    );
    assert_eq!(run.read_with("fw.set", "blocked 10.0.1.2"), "-\n2001:db8::2-2001:db8::7 -\n");
    assert!(run.read_with("fw.set_test", "web 8000-8001").starts_with("8000-8080 3"));
    assert_eq!(run.read_with("fw.set_test", "blocked 10.0.1.2"), "10.0.1.0/24 -\n10.0.1.2 -\n");
    // One entry goes, another one still holds the address.
    run.write("fw.set_remove", "blocked 10.0.1.2").unwrap();
    let mut run = check(run, &[(four, 80, false)]);
    run.write("fw.set_remove", "blocked 10.0.1.0/24").unwrap();
    let mut run = check(run, &[(four, 80, true), (six, 80, false)]);
    for (handler, value, said) in [
        ("set_add", "", "name a set; 'sets' lists them"),
        ("set_add", "blokked 10.0.0.1", "there is no set 'blokked'; the rules have blocked, web"),
        ("set_add", "blocked", "name some addresses"),
        ("set_add", "blocked 80", "'80' is not an IP address"),
        ("set_add", "web 80 for", "'for' needs a time at the end, such as 30s, 5m or 2h"),
        ("set_add", "web 80 for 1h 81", "'for' needs a time at the end, such as 30s, 5m or 2h"),
        ("set_remove", "web 80 for 1h", "'for' is for entries that are added"),
        (
            "set_remove",
            "web 80 8001",
            "'8001' is no entry of the set: nothing is removed; it is held by 8000-8080",
        ),
        (
            "set_load",
            "web /nowhere/at/all",
            "cannot read '/nowhere/at/all': No such file or directory (os error 2)",
        ),
        ("set_flush", "nobody", "there is no set 'nobody'; the rules have blocked, web"),
    ] {
        let found = run.write(&format!("fw.{handler}"), value).unwrap_err().to_string();
        assert!(found.ends_with(said), "{handler} {value}: {found}");
    }
    let list = files.file("list", "10.0.1.2 # a host\n2001:db8::/32 for 2m\n");
    run.write("fw.set_load", &format!("blocked {list}")).unwrap();
    let mut run = check(run, &[(four, 80, false), (six, 80, false), ("10.0.1.3", 80, true)]);
    // Rules that are loaded keep sets if they should.
    run.write("fw.load_keeping_sets", "").unwrap();
    let mut run = check(run, &[(four, 80, false), ("10.0.2.2", 443, true)]);
    run.write("fw.set_flush", "blocked").unwrap();
    let mut run = check(run, &[(four, 80, true)]);
    run.write("fw.set_add", "blocked 10.0.1.2").unwrap();
    run.write("fw.load", "").unwrap();
    check(run, &[(four, 80, true), ("10.0.2.2", 443, false)]);
}

#[test]
fn long_sets_are_listed_some_at_a_time() {
    let files = Temp::new();
    let rules = "zone inside eth1\nzone outside eth0\nset blocked file list\ndrop src @blocked\n";
    let lines: String = (0..10_000u32).map(|n| format!("10.{}.{}.0/26\n", n >> 8, n & 255)).collect();
    files.file("list", lines);
    let mut run = Rig::text(&text(&files.file("rules", rules))).ready();
    let (mut behind, mut found) = (String::new(), Vec::new());
    loop {
        let text = run.read_with("fw.set", &format!("blocked {behind}"));
        let (next, lines) = text.split_once('\n').unwrap();
        found.extend(lines.lines().map(str::to_owned));
        if next == "-" {
            break;
        }
        behind = next.to_owned();
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 10_000);
}

#[test]
fn cookies_are_sent_for_servers() {
    let files = Temp::new();
    let rules = "zone inside eth1\nzone outside eth0\naccept from outside to inside tcp port 80 synproxy\n";
    let mut run = Rig::text(&text(&files.file("rules", rules))).ready();
    for (six, [client, server]) in
        [(false, ["192.0.2.1", "10.0.1.2"]), (true, ["2001:db8:1::1", "2001:db8::2"])]
    {
        let (family, input, resets) = if six { ("ip6", 5, 9) } else { ("ip", 2, 7) };
        let out = |run: &Run, n: usize| run.out(&format!("o{n}"));
        let tcp = |packet: &Packet| {
            let at = if six { 40 } else { 20 };
            let view = wire::tcp::View::new_checked(packet.data()[at..].to_vec()).unwrap();
            (view.seq(), view.ack(), view.flags(), view.src_port())
        };
        let (syn, ack) = (wire::tcp::Flags::SYN, wire::tcp::Flags::ACK);
        run.give(
            &format!("i{input}"),
            vec![packet(1, &format!("{family} {client} to {server} / tcp 1000 to 80 seq 5 flags S"))],
        );
        run = run.again();
        let [cookie] = &out(&run, resets)[..] else { panic!("a SYN-ACK") };
        let (sequence, acknowledged, flags, port) = tcp(cookie);
        assert_eq!((acknowledged, flags, port, cookie.paint()), (6, syn | ack, 80, 0));
        let next = sequence.wrapping_add(1);
        let proof =
            format!("{family} {client} to {server} / tcp 1000 to 80 seq 6 ack {next} flags A / payload 30");
        run.give(&format!("i{input}"), vec![packet(1, &proof)]);
        run = run.again();
        let [asked] = &out(&run, input)[..] else { panic!("a SYN") };
        assert_eq!((tcp(asked).0, tcp(asked).2, asked.paint()), (5, syn, 1));
        let accepts = format!("{family} {server} to {client} / tcp 80 to 1000 seq 70 ack 6 flags SA");
        let other = input - 1;
        run.give(&format!("i{other}"), vec![packet(2, &accepts)]);
        run = run.again();
        let ([window], [acknowledgement]) = (&out(&run, other)[..], &out(&run, resets)[..]) else {
            panic!("two segments")
        };
        assert_eq!((tcp(window).0, tcp(window).1, tcp(window).2), (next, 6, ack));
        assert_eq!((tcp(acknowledgement).0, tcp(acknowledgement).1), (6, 71));
        // What follows is translated.
        run.give(
            &format!("i{other}"),
            vec![packet(
                2,
                &format!("{family} {server} to {client} / tcp 80 to 1000 seq 71 ack 6 flags A / payload 9"),
            )],
        );
        run = run.again();
        assert_eq!(tcp(&out(&run, other)[0]).0, next);
    }
}

#[test]
fn connections_are_in_the_vrf_of_the_annotation() {
    let files = Temp::new();
    let rules = "zone inside eth1 eth2\nzone outside eth0 eth3\naccept from inside to outside\n";
    let inputs: String = (0..5).map(|n| format!("i{n} :: TestIn -> [{n}]fw; ")).collect();
    let outputs: String = (0..7).map(|n| format!("fw[{n}] -> o{n} :: TestOut; ")).collect();
    let file = files.file("rules", rules);
    let links = "LINK eth0, LINK eth1, LINK eth2, LINK eth3";
    let text = |vrfs: &str| format!("fw :: Firewall({file}, {links}{vrfs}); {inputs}{outputs}");
    // Red has eth0 and eth1; blue has eth2, and its routes lead out of eth3.
    let run = Rig::text(&text(", VRF red eth0 eth1, VRF blue eth2")).ready();
    let of = |vrf: u8, paint: u8, headers: &str| {
        let mut packet = packet(paint, headers);
        packet.set_anno_u8(anno::VRF, vrf);
        packet
    };
    run.give("i1", vec![of(1, 2, ASKS)]);
    run.give("i4", vec![of(2, 3, ASKS)]);
    let run = run.again();
    assert_eq!([1, 4].map(|n| run.out(&format!("o{n}")).len()), [1, 1]);
    // Red's answers come in red, and blue's in the main table.
    run.give("i2", vec![of(1, 1, ANSWERS), of(2, 1, ANSWERS)]);
    run.give("i3", vec![of(0, 4, ANSWERS), of(2, 4, ANSWERS)]);
    let mut run = run.again();
    assert_eq!([2, 3].map(|n| run.out(&format!("o{n}")).len()), [1, 1]);
    assert_eq!(run.drops("fw"), [(Reason::FirewallRule, 2)]);
    let vrfs = |all: &str| -> Vec<String> {
        let words = |line: &str| line.split(' ').skip(16).collect::<Vec<_>>().join(" ");
        let mut all: Vec<String> = all.lines().skip(1).map(words).collect();
        all.sort();
        all
    };
    assert_eq!(vrfs(&run.read("fw.connections")), ["blue -", "red red"]);
    let named = |vrf: &str| format!("udp 10.0.1.2 1000 192.0.2.1 53{vrf}");
    run.write("fw.end", &named("")).unwrap();
    assert!(run.write("fw.end", &named(" green")).unwrap_err().to_string().contains("no VRF 'green'"));
    run.write("fw.end", &named(" red")).unwrap();
    assert_eq!(vrfs(&run.read("fw.connections")), ["blue -"]);
    // Blue has another number in the next configuration, and red is gone.
    run.swap(&text(", VRF blue eth2, VRF green eth0 eth1")).unwrap();
    assert_eq!(vrfs(&run.read("fw.connections")), ["blue -"]);
    run.give("i2", vec![of(2, 1, ANSWERS)]);
    run.give("i3", vec![of(0, 4, ANSWERS)]);
    run.give("i4", vec![of(1, 3, ASKS)]);
    let mut run = run.again();
    assert_eq!([2, 3, 4].map(|n| run.out(&format!("o{n}")).len()), [0, 1, 1]);
    assert!(run.read("fw.connections").contains(" open inside outside 3 2 56 2 56 "));
}

#[test]
fn vrfs_that_cannot_be_are_refused() {
    let files = Temp::new();
    let file = files.file("rules", "zone all eth0 eth1\naccept\n");
    let inputs: String = (0..3).map(|n| format!("Idle -> [{n}]fw; ")).collect();
    let outputs: String = (0..5).map(|n| format!("fw[{n}] -> Discard; ")).collect();
    for (vrfs, wrong) in [
        ("VRF red eth0, VRF blue eth1", ""),
        ("VRF red", "VRF"),
        ("VRF red eth0, VRF red eth1", "VRF red has the name of another, or none"),
        ("VRF red eth0 eth7", "VRF red has 'eth7', which is none of the LINKs"),
        ("VRF red eth0, VRF blue eth0", "link 'eth0' is in two VRFs"),
        ("VRF red eth0 eth0", "link 'eth0' is in two VRFs"),
    ] {
        let text = format!("fw :: Firewall({file}, LINK eth0, LINK eth1, {vrfs}); {inputs}{outputs}");
        let found = Rig::text(&text).errors();
        assert_eq!(found.is_empty(), wrong.is_empty(), "{vrfs}: {found:?}");
        assert!(found.iter().all(|error| error.contains(wrong)), "{vrfs}: {found:?}");
    }
}
