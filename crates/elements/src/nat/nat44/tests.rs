// SPDX-License-Identifier: MIT OR Apache-2.0

use packet::Packet;

use super::*;
use crate::io::testing::Temp;
use crate::testing::{Rig, Run};

const STATEMENTS: &str = "translate 10.0.1.0/24 to 192.0.2.1 ports 5000-5003\n\
    forward tcp 80 to 10.0.1.20 port 8080\nstatic 10.0.3.9 to 192.0.2.9\n";

/// A packet that came by the link of this paint.
fn packet(paint: u8, headers: &str) -> Packet {
    let bytes = wire::compose::compose(headers).unwrap().bytes;
    let mut packet = Packet::copy_of(&bytes).unwrap();
    packet.set_network(0, 20);
    packet.set_paint(paint);
    packet
}

/// Input 0 for what arrives, 1 for what leaves by the outside link, whose paint is 1; output 2 for what has no room.
fn text(file: &str, more: &str) -> String {
    format!(
        "nat :: NAT44({file}, OWN 192.0.2.1, OUTSIDE 1{more}); i0 :: TestIn -> nat -> o0 :: TestOut; \
         i1 :: TestIn -> [1]nat; nat[1] -> o1 :: TestOut; nat[2] -> o2 :: TestOut;"
    )
}

const ASKS: &str = "ip 10.0.1.2 to 203.0.113.1 / udp 1000 to 53";

/// Source and destination with their ports.
fn ends(bytes: &[u8]) -> String {
    let address = |at: usize| Ipv4Addr::from(*bytes[at..].first_chunk::<4>().unwrap());
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    format!("{}:{} {}:{}", address(12), port(20), address(16), port(22))
}

fn sent(run: &Run, output: &str) -> Vec<String> {
    run.bytes(output).iter().map(|bytes| ends(bytes)).collect()
}

/// The outside port of what has left.
fn port(ends: &str) -> u16 {
    ends.split(' ').next().unwrap().rsplit_once(':').unwrap().1.parse().unwrap()
}

#[test]
fn packets_get_addresses() {
    let files = Temp::new();
    let run = Rig::text(&text(&files.file("nat", STATEMENTS), "")).ready();
    run.give("i1", vec![packet(2, ASKS), packet(2, "ip 10.0.3.9 to 203.0.113.1 / udp 1 to 2")]);
    let run = run.again();
    let left = sent(&run, "o1");
    let outside = port(&left[0]);
    assert_eq!(left, [format!("192.0.2.1:{outside} 203.0.113.1:53"), "192.0.2.9:1 203.0.113.1:2".to_owned()]);
    run.give(
        "i0",
        vec![
            packet(1, &format!("ip 203.0.113.1 to 192.0.2.1 / udp 53 to {outside}")),
            packet(1, "ip 203.0.113.1 to 192.0.2.1 / tcp 9 to 80 flags S"),
            packet(1, "ip 203.0.113.1 to 198.51.100.1 / udp 1 to 2"),
            packet(2, "ip 10.0.1.2 to 192.0.2.1 / tcp 9 to 80 flags S"),
        ],
    );
    let mut run = run.again();
    let arrived = run.out("o0");
    let found: Vec<String> = arrived.iter().map(|packet| ends(packet.network().unwrap())).collect();
    let hairpin = port(&found[3]);
    assert_eq!(
        found,
        [
            "203.0.113.1:53 10.0.1.2:1000",
            "203.0.113.1:9 10.0.1.20:8080",
            "203.0.113.1:1 198.51.100.1:2",
            &format!("192.0.2.1:{hairpin} 10.0.1.20:8080")
        ]
    );
    assert_eq!(arrived[0].dst_ip(), [10, 0, 1, 2]);
    // What there is.
    assert_eq!((run.read("nat.nsessions").as_str(), run.read("nat.nmappings").as_str()), ("4", "2"));
    assert_eq!(
        run.read("nat.statements"),
        "1 1 2 2 translate 10.0.1.0/24 to 192.0.2.1 ports 5000-5003\n2 0 0 0 forward tcp 80 to 10.0.1.20 port 8080\n\
         3 0 0 0 static 10.0.3.9 to 192.0.2.9\n"
    );
    assert_eq!(run.read("nat.subscribers"), "10.0.1.2 192.0.2.1 1 2 1 1 0\n");
    let sessions = run.read("nat.sessions");
    let udp = format!("udp 10.0.1.2 1000 192.0.2.1 {outside} 203.0.113.1 53 open 1 28 1 28 ");
    assert!(sessions.starts_with("-\n") && sessions.contains(&udp), "{sessions}");
    assert_eq!(run.read_with("nat.owner", &format!("udp 192.0.2.1 {outside}")), "10.0.1.2 1000");
    assert_eq!(run.read_with("nat.owner", "tcp 192.0.2.1 80"), "10.0.1.20 8080");
    assert_eq!(run.read_with("nat.owner", "tcp 192.0.2.1 81"), "");
    for wrong in ["", "nobody", "10.0.0.1 x", "10.0.0.1 1 10.0.0.2", "10.0.0.1 70000"] {
        assert!(run.write("nat.end", wrong).is_err(), "{wrong}");
    }
    run.write("nat.end", "udp 10.0.1.2 1000 203.0.113.1 53").unwrap();
    assert_eq!(run.read("nat.nsessions"), "3");
    run.write("nat.end", "10.0.1.20").unwrap();
    assert_eq!(run.read("nat.nsessions"), "1");
    run.write("nat.end", "all").unwrap();
    assert_eq!((run.read("nat.nsessions").as_str(), run.read("nat.nmappings").as_str()), ("0", "0"));
}

// conformance: RFC5508-6-8
#[test]
fn every_drop_has_its_reason() {
    let files = Temp::new();
    let statements = "translate 10.0.1.0/30 to 192.0.2.2 ports 5000-5000 max-sessions 2\n\
        translate 10.0.2.0/24 to 192.0.2.3\nfilter address-and-port-dependent\nsessions 3";
    let drops = |inputs: &[(&str, u8, &str)]| {
        let run = Rig::text(&text(&files.file("nat", statements), "")).burst(1).ready();
        let mut run = run;
        for (input, paint, headers) in inputs {
            run.give(input, vec![packet(*paint, headers)]);
            run = run.again();
        }
        (
            run.drops("nat"),
            run.out("o2").iter().map(|p| p.anno_u8(anno::ICMP_PARAM_PROBLEM)).collect::<Vec<_>>(),
        )
    };
    let none = Vec::<u8>::new();
    assert_eq!(
        drops(&[("i0", 1, "ip 203.0.113.1 to 192.0.2.2 / udp 1 to 2")]),
        (vec![(Reason::NoMapping, 1)], none.clone())
    );
    assert_eq!(
        drops(&[("i0", 1, "ip 10.0.1.1 to 192.0.2.2 / udp 1 to 2")]),
        (vec![(Reason::ReversePath, 1)], none.clone())
    );
    let later = "ip 10.0.1.1 to 203.0.113.1 offset 800 / udp 1 to 2";
    assert_eq!(drops(&[("i1", 2, later)]), (vec![(Reason::Unreassembled, 1)], none.clone()));
    let short = "ip 10.0.1.1 to 203.0.113.1 proto 6 / payload 5";
    assert_eq!(drops(&[("i1", 2, short)]), (vec![(Reason::BadLength, 1)], none.clone()));
    let one = ("i1", 2, "ip 10.0.1.1 to 203.0.113.1 / udp 1 to 2");
    let stranger = ("i0", 1, "ip 203.0.113.9 to 192.0.2.2 / udp 1 to 5000");
    assert_eq!(drops(&[one, stranger]), (vec![(Reason::MappingFiltered, 1)], none));
    // For these the sender gets an error: no free port, no room in the table, and no more for this host.
    let other = ("i1", 2, "ip 10.0.1.2 to 203.0.113.1 / udp 1 to 2");
    assert_eq!(drops(&[one, other]), (vec![], vec![13]));
    let more = [1, 2, 3].map(|n| format!("ip 10.0.1.1 to 203.0.113.{n} / udp 1 to 2"));
    let more: Vec<_> = more.iter().map(|headers| ("i1", 2, headers.as_str())).collect();
    assert_eq!(drops(&more), (vec![], vec![13]));
    // Without that output they are drops, too.
    let two = |statements: &str, packets: &[&str]| {
        let file = files.file("two", statements);
        let run = Rig::text(&format!(
            "nat :: NAT44({file}); nat -> Discard; i1 :: TestIn -> [1]nat; i2 :: TestIn -> nat; nat[1] -> o1 :: TestOut;"
        ));
        let mut run = run.ready();
        for headers in packets {
            run.give("i1", vec![packet(2, headers)]);
            run = run.again();
            // The answer, so that both sides have agreed.
            for bytes in run.bytes("o1") {
                let left = ends(&bytes);
                let ends: Vec<&str> = left.split([' ', ':']).collect();
                let [a, p, b, q] = ends[..] else { panic!("{left}") };
                run.give("i2", vec![packet(1, &format!("ip {b} to {a} / udp {q} to {p}"))]);
                run = run.again();
            }
        }
        run.drops("nat")
    };
    let hosts = [1, 2].map(|n| format!("ip 10.0.1.{n} to 203.0.113.1 / udp 1 to 2"));
    let hosts = hosts.each_ref().map(String::as_str);
    assert_eq!(
        two("translate 10.0.1.0/24 to 192.0.2.2\nsessions 1", &hosts),
        [(Reason::MappingTableFull, 1)]
    );
    assert_eq!(two("translate 10.0.1.0/24 to 192.0.2.2 ports 5000-5000", &hosts), [(Reason::NoFreePort, 1)]);
    let hosts = [hosts[0], "ip 10.0.1.1 to 203.0.113.2 / udp 1 to 2"];
    assert_eq!(
        two("translate 10.0.1.0/24 to 192.0.2.2 max-sessions 1", &hosts),
        [(Reason::SubscriberLimit, 1)]
    );
}

#[test]
fn statements_change_and_sessions_stay() {
    let files = Temp::new();
    let file = files.file("nat", STATEMENTS);
    let run = Rig::text(&text(&file, "")).ready();
    run.give("i1", vec![packet(2, ASKS)]);
    let mut run = run.again();
    let outside = port(&sent(&run, "o1")[0]);
    let wrong = files.file("wrong", format!("{STATEMENTS}translat 10.0.0.0/8 to 192.0.2.1"));
    let said = run.write("nat.load", &wrong).unwrap_err().to_string();
    assert!(said.contains("wrong:4: unknown statement 'translat'"), "{said}");
    assert!(run.write("nat.load", &files.path("none")).unwrap_err().to_string().contains("cannot read"));
    files.file("nat", "translate 10.0.0.0/16 to 192.0.2.1-192.0.2.4");
    run.write("nat.load", "").unwrap();
    let answer = format!("ip 203.0.113.1 to 192.0.2.1 / udp 53 to {outside}");
    run.give("i0", vec![packet(1, &answer)]);
    let mut run = run.again();
    assert_eq!(sent(&run, "o0"), ["203.0.113.1:53 10.0.1.2:1000"]);
    // Through a swap, with other arguments.
    let new = text(&files.file("other", "translate 10.0.1.0/28 to 192.0.2.1"), ", RESERVED 7000-7009");
    run.swap(&new).unwrap();
    run.give("i0", vec![packet(1, &answer)]);
    let mut run = run.again();
    assert_eq!(sent(&run, "o0"), ["203.0.113.1:53 10.0.1.2:1000"]);
    // One that keeps its port from hosts ends it.
    run.swap(&text(&files.path("other"), ", RESERVED 5000-5003")).unwrap();
    assert_eq!(run.read("nat.nsessions"), "0");
}

#[test]
fn mistakes_are_errors() {
    let files = Temp::new();
    let file = files.file("nat", STATEMENTS);
    let errors = |arguments: &str, ports: (usize, usize)| {
        let inputs: String = (0..ports.0).map(|n| format!("Idle -> [{n}]nat; ")).collect();
        let outputs: String = (0..ports.1).map(|n| format!("nat[{n}] -> Discard; ")).collect();
        Rig::text(&format!("nat :: NAT44({arguments}); {inputs}{outputs}")).errors()
    };
    assert_eq!(errors(&file, (2, 2)), Vec::<String>::new());
    assert_eq!(errors(&file, (2, 4)), ["nat: with 2 inputs there should be 2 outputs, or 3, not 4"]);
    assert_eq!(
        errors(&format!("{file}, HAIRPINS 1"), (2, 2)),
        ["nat: HAIRPINS 1 leaves no input for packets that leave by outside links"]
    );
    for (arguments, said) in [
        ("/nowhere", "cannot read '/nowhere'"),
        (&format!("{file}, RESERVED 9-5"), "PORT[-PORT] ..., ports or ranges of ports"),
        (&format!("{file}, OUTSIDE eth0"), "PAINT ..., paints from 0 to 255"),
        (&format!("{file}, OWN here"), "OWN"),
    ] {
        let found = errors(arguments, (2, 2));
        assert!(found.len() == 1 && found[0].contains(said), "{found:?}");
    }
    let two = files.file("two", format!("{STATEMENTS}translat\nstatic 10.0.0.1\n"));
    assert_eq!(errors(&two, (2, 2)).len(), 2);
}

#[test]
fn a_batch_is_translated_as_its_packets_are() {
    let files = Temp::new();
    let text = text(&files.file("nat", "translate 10.0.1.0/24 to 192.0.2.2 deterministic ports 1024-1279\nforward tcp 80 on 192.0.2.9 to 10.0.1.20\nsessions 6"), "");
    let run = |burst: usize| {
        let run = Rig::text(&text).burst(burst).ready();
        let leaving = [
            "ip 10.0.1.2 to 203.0.113.1 / udp 1000 to 53",
            "ip 10.0.1.2 to 203.0.113.1 / udp 1000 to 53",
            "ip 10.0.1.2 to 203.0.113.2 / udp 1000 to 53",
            "ip 10.0.1.2 to 203.0.113.2 / udp 1001 to 53",
            "ip 10.0.1.3 to 203.0.113.2 / tcp 1 to 2 flags S",
            "ip 10.0.1.20 to 203.0.113.2 / tcp 80 to 2 flags SA",
            "ip 10.9.1.3 to 203.0.113.2 / tcp 1 to 2 flags S",
        ];
        run.give("i1", leaving.iter().chain(&leaving).map(|headers| packet(2, headers)).collect());
        let run = run.again();
        let arriving = [
            "ip 203.0.113.1 to 192.0.2.2 / udp 53 to 1026",
            "ip 203.0.113.7 to 192.0.2.9 / tcp 7 to 80 flags S",
            "ip 203.0.113.7 to 192.0.2.9 / tcp 7 to 81 flags S",
            "ip 203.0.113.2 to 192.0.2.2 / tcp 2 to 1027 flags SA",
            "ip 10.0.1.3 to 192.0.2.2 / udp 2 to 1026",
        ];
        run.give("i0", arriving.iter().chain(&arriving).map(|headers| packet(1, headers)).collect());
        let run = run.again();
        (["o0", "o1", "o2"].map(|output| run.bytes(output)), run.drops("nat"))
    };
    let one = run(1);
    assert_eq!(one, run(32));
    assert!(
        one.0[0].len() >= 6 && one.0[1].len() == 12 && one.0[2].len() == 2 && !one.1.is_empty(),
        "{one:?}"
    );
}

/// A segment with text, of a connection between two ends.
fn segment(paint: u8, from: (&str, u16), to: (&str, u16), [seq, ack]: [u32; 2], text: &str) -> Packet {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let tail = if hex.is_empty() { String::new() } else { format!(" / hex {hex}") };
    let ((a, p), (b, q)) = (from, to);
    packet(paint, &format!("ip {a} to {b} / tcp {p} to {q} flags AP seq {seq} ack {ack}{tail}"))
}

/// The text of a segment, with its sequence and acknowledgement numbers; its checksums must be right.
fn text_of(bytes: &[u8]) -> (u32, u32, String) {
    let address = |at: usize| Ipv4Addr::from(*bytes[at..].first_chunk::<4>().unwrap());
    assert!(wire::checksum::header20_ok(bytes.first_chunk().unwrap()));
    assert!(wire::checksum::transport_v4_ok(address(12), address(16), wire::Protocol::TCP, &bytes[20..]));
    let word = |at: usize| u32::from_be_bytes(*bytes[at..].first_chunk().unwrap());
    (word(24), word(28), String::from_utf8(bytes[40..].to_vec()).unwrap())
}

/// One packet through input `name`: what leaves by the output of the same number.
fn through(run: Run, name: &str, packet: Packet) -> (Run, Vec<u8>) {
    run.give(name, vec![packet]);
    let run = run.again();
    let out = run.bytes(if name == "i0" { "o0" } else { "o1" }).pop().unwrap_or_default();
    (run, out)
}

/// The main table, and a VRF: what statements say of it, what the configuration does, and its number.
const TABLES: [(&str, &str, u8); 2] = [("", "", 0), (" vrf red", ", VRF blue, VRF red", 2)];

/// A packet of a host in such a table.
fn of_table(table: u8, mut packet: Packet) -> Packet {
    packet.set_anno_u8(anno::VRF, table);
    packet
}

const CLIENT: (&str, u16) = ("10.0.1.2", 4000);
const FTP: (&str, u16) = ("203.0.113.1", 21);

#[test]
fn an_ftp_client_says_an_outside_address() {
    let files = Temp::new();
    let filters = ["endpoint-independent", "address-and-port-dependent"];
    for (filter, (vrf, names, table)) in filters.iter().flat_map(|filter| TABLES.map(|one| (*filter, one))) {
        let statements = format!("translate 10.0.1.0/24{vrf} to 192.0.2.1\nfilter {filter}\nlog ports");
        let run = Rig::text(&text(&files.file("nat", &statements), names)).ready();
        let segment = |paint, from, to, numbers, text: &str| {
            of_table(if paint == 2 { table } else { 0 }, segment(paint, from, to, numbers, text))
        };
        let said = "PORT 10,0,1,2,3,9\r\n";
        let (run, out) = through(run, "i1", segment(2, CLIENT, FTP, [100, 0], said));
        let control = port(&ends(&out));
        let (seq, _, said) = text_of(&out);
        let numbers: Vec<u16> = said[5..].trim().split(',').map(|n| n.parse().unwrap()).collect();
        assert_eq!((seq, &numbers[..4]), (100, &[192, 0, 2, 1][..]), "{said}");
        let data = numbers[4] << 8 | numbers[5];
        let growth = said.len() as u32 - 19;
        // Sent again it says the same; what follows has moved, and so have acknowledgements.
        let (run, out) = through(run, "i1", segment(2, CLIENT, FTP, [100, 0], "PORT 10,0,1,2,3,9\r\n"));
        assert_eq!(text_of(&out).2, said);
        let (run, out) = through(run, "i1", segment(2, CLIENT, FTP, [119, 50], "NLST\r\n"));
        assert_eq!(text_of(&out), (119 + growth, 50, "NLST\r\n".to_owned()));
        let answer = segment(1, FTP, ("192.0.2.1", control), [50, 119 + growth], "200 ok\r\n");
        let (run, out) = through(run, "i0", answer);
        assert_eq!(text_of(&out), (50, 119, "200 ok\r\n".to_owned()));
        // The server connects from any port; others only if the filter lets them in.
        let syn = |from: &str| packet(1, &format!("ip {from} to 192.0.2.1 / tcp 20 to {data} flags S"));
        run.give("i0", vec![syn("203.0.113.1")]);
        let run = run.again();
        let found: Vec<(u8, String)> =
            run.out("o0").iter().map(|packet| (packet.anno_u8(anno::VRF), ends(packet.data()))).collect();
        assert_eq!(found.last(), Some(&(table, "203.0.113.1:20 10.0.1.2:777".to_owned())));
        let (run, out) = through(run, "i0", syn("203.0.113.9"));
        assert_eq!(out.is_empty(), filter != "endpoint-independent");
        // An address of another host stays.
        let other = segment(2, CLIENT, FTP, [125, 58], "PORT 10,0,1,3,3,9\r\n");
        let (mut run, out) = through(run, "i1", other);
        assert_eq!(text_of(&out), (125 + growth, 58, "PORT 10,0,1,3,3,9\r\n".to_owned()));
        assert_eq!(run.read("nat.algs"), "ftp 2 1\nsip 0 0");
    }
    let off = files.file("nat", "translate 10.0.1.0/24 to 192.0.2.1\nalg ftp off");
    let said = "PORT 10,0,1,2,3,9\r\n";
    let run = Rig::text(&text(&off, "")).ready();
    let (_, out) = through(run, "i1", segment(2, CLIENT, FTP, [100, 0], said));
    assert_eq!(text_of(&out).2, said);
}

#[test]
fn an_ftp_server_answers_with_an_outside_address() {
    TABLES.into_iter().for_each(an_ftp_server_answers);
}

fn an_ftp_server_answers((vrf, names, table): (&str, &str, u8)) {
    let files = Temp::new();
    let statements = format!(
        "translate 10.0.1.0/24{vrf} to 192.0.2.1\nforward tcp 2121 on 192.0.2.1 to 10.0.1.20{vrf} port 21"
    );
    let run = Rig::text(&text(&files.file("nat", &statements), names)).ready();
    let segment = |paint, from, to, numbers, text: &str| {
        of_table(if paint == 2 { table } else { 0 }, segment(paint, from, to, numbers, text))
    };
    let (client, server) = (("203.0.113.1", 4000), ("10.0.1.20", 21));
    let (run, out) = through(run, "i0", segment(1, client, ("192.0.2.1", 2121), [7, 1], "PASV\r\n"));
    assert_eq!(text_of(&out).2, "PASV\r\n");
    let answer = "227 Entering Passive Mode (10,0,1,20,3,9).\r\n";
    let (run, out) = through(run, "i1", segment(2, server, client, [100, 13], answer));
    let (_, _, said) = text_of(&out);
    let inner = said.strip_prefix("227 Entering Passive Mode (192,0,2,1,").unwrap();
    let numbers: Vec<u16> =
        inner.strip_suffix(").\r\n").unwrap().split(',').map(|n| n.parse().unwrap()).collect();
    let data = numbers[0] << 8 | numbers[1];
    let syn = packet(1, &format!("ip 203.0.113.1 to 192.0.2.1 / tcp 5 to {data} flags S"));
    let (run, out) = through(run, "i0", syn);
    assert_eq!(ends(&out), "203.0.113.1:5 10.0.1.20:777");
    let answer = "229 Entering Extended Passive Mode (|||777|)\r\n";
    let (_, out) = through(run, "i1", segment(2, server, client, [144, 19], answer));
    assert_eq!(text_of(&out).2, format!("229 Entering Extended Passive Mode (|||{data}|)\r\n"));
}

#[test]
fn a_tftp_server_answers_from_another_port() {
    let files = Temp::new();
    for (alg, passes) in [("on", true), ("off", false)] {
        let statements =
            format!("translate 10.0.1.0/24 to 192.0.2.1\nfilter address-and-port-dependent\nalg tftp {alg}");
        let run = Rig::text(&text(&files.file("nat", &statements), "")).ready();
        let (run, out) = through(run, "i1", packet(2, "ip 10.0.1.2 to 203.0.113.1 / udp 1000 to 69"));
        let outside = port(&ends(&out));
        let answer = packet(1, &format!("ip 203.0.113.1 to 192.0.2.1 / udp 3333 to {outside}"));
        let (_, out) = through(run, "i0", answer);
        assert_eq!(!out.is_empty(), passes);
    }
}

#[test]
fn texts_go_on_after_other_statements() {
    let files = Temp::new();
    let file = files.file("nat", "translate 10.0.1.0/24 to 192.0.2.1");
    let run = Rig::text(&text(&file, "")).ready();
    let said = "EPRT |1|10.0.1.2|777|\r\n";
    let (mut run, out) = through(run, "i1", segment(2, CLIENT, FTP, [100, 0], said));
    let (_, _, said) = text_of(&out);
    assert!(said.starts_with("EPRT |1|192.0.2.1|"), "{said}");
    let growth = said.len() as u32 - 23;
    std::fs::write(&file, "translate 10.0.1.0/24 to 192.0.2.1, 192.0.2.2").unwrap();
    run.write("nat.load", "").unwrap();
    let (_, out) = through(run, "i1", segment(2, CLIENT, FTP, [123, 50], "NLST\r\n"));
    assert_eq!(text_of(&out).0, 123u32.wrapping_add(growth));
}

#[test]
fn ftp_of_a_host_with_an_address_for_itself_says_that_one() {
    let files = Temp::new();
    let file = files.file("nat", "static 10.0.3.9 to 192.0.2.129");
    let run = Rig::text(&text(&file, "")).ready();
    // A client inside: the text becomes longer, and what follows moves.
    let own = ("10.0.3.9", 4000);
    let (run, out) = through(run, "i1", segment(2, own, FTP, [100, 0], "PORT 10,0,3,9,3,9\r\n"));
    assert_eq!(text_of(&out), (100, 0, "PORT 192,0,2,129,3,9\r\n".to_owned()));
    let (run, out) = through(run, "i1", segment(2, own, FTP, [119, 50], "EPRT |1|10.0.3.9|777|\r\n"));
    assert_eq!(text_of(&out), (122, 50, "EPRT |1|192.0.2.129|777|\r\n".to_owned()));
    let (mut run, out) = through(run, "i0", segment(1, FTP, ("192.0.2.129", 4000), [50, 148], "200 ok\r\n"));
    assert_eq!(text_of(&out), (50, 142, "200 ok\r\n".to_owned()));
    // It goes on after other statements that let it.
    std::fs::write(&file, "static 10.0.3.9 to 192.0.2.129\nstatic 10.0.3.10 to 192.0.2.10").unwrap();
    run.write("nat.load", "").unwrap();
    let (run, out) = through(run, "i1", segment(2, own, FTP, [142, 58], "NLST\r\n"));
    assert_eq!(text_of(&out), (148, 58, "NLST\r\n".to_owned()));
    // A server inside.
    let (client, server) = (("203.0.113.1", 5000), ("10.0.3.9", 21));
    let (run, out) = through(run, "i0", segment(1, client, ("192.0.2.129", 21), [7, 1], "PASV\r\n"));
    assert_eq!(text_of(&out).2, "PASV\r\n");
    let answer = "227 Entering Passive Mode (10,0,3,9,3,9).\r\n";
    let (run, out) = through(run, "i1", segment(2, server, client, [100, 13], answer));
    assert_eq!(text_of(&out).2, "227 Entering Passive Mode (192,0,2,129,3,9).\r\n");
    // Data connections need no session.
    let syn = packet(1, "ip 203.0.113.1 to 192.0.2.129 / tcp 5 to 777 flags S");
    let (mut run, out) = through(run, "i0", syn);
    assert_eq!(ends(&out), "203.0.113.1:5 10.0.3.9:777");
    assert_eq!(
        (run.read("nat.nsessions"), run.read("nat.algs")),
        ("2".to_owned(), "ftp 3 0\nsip 0 0".to_owned())
    );
    // If the address becomes another one, the connection ends with its text.
    std::fs::write(&file, "static 10.0.3.9 to 192.0.2.130").unwrap();
    run.write("nat.load", "").unwrap();
    assert_eq!(run.read("nat.nsessions"), "0");
}

#[test]
fn a_phone_says_an_outside_address() {
    TABLES.into_iter().for_each(a_phone_says);
}

fn a_phone_says((vrf, names, table): (&str, &str, u8)) {
    let files = Temp::new();
    let file = files.file("nat", format!("translate 10.0.1.0/24{vrf} to 192.0.2.1\nalg sip on"));
    let mut run = Rig::text(&text(&file, names)).ready();
    let datagram = |paint, from: (&str, u16), to: (&str, u16), text: &str| {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        let line = format!("ip {} to {} / udp {} to {} / hex {hex}", from.0, to.0, from.1, to.1);
        of_table(if paint == 2 { table } else { 0 }, packet(paint, &line))
    };
    let (phone, proxy) = (("10.0.1.2", 5060), ("203.0.113.1", 5060));
    // Several lengths, so that odd and even ones come, with a checksum and without.
    for pad in ["", "x", "xx", "xxx"] {
        for has_sum in [true, false] {
            let body = format!("c=IN IP4 10.0.1.2\r\nm=audio 7000 RTP/AVP 0\r\ns={pad}\r\n");
            let said = format!(
                "INVITE sip:b@203.0.113.1 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.1.2\r\nc: application/sdp\r\nl: {}\r\n\r\n{body}",
                body.len()
            );
            let mut asks = datagram(2, phone, proxy, &said);
            if !has_sum {
                asks.data_mut()[26..28].fill(0);
            }
            let (next, out) = through(run, "i1", asks);
            let shown = String::from_utf8(out[28..].to_vec()).unwrap();
            assert!(!shown.contains("10.0.1.2") && shown.contains("c=IN IP4 192.0.2.1\r\n"), "{shown}");
            let length: usize =
                shown.split("l: ").nth(1).unwrap().split('\r').next().unwrap().parse().unwrap();
            assert!(
                shown.ends_with(&format!("s={pad}\r\n"))
                    && shown.split("\r\n\r\n").nth(1).unwrap().len() == length,
                "{shown}"
            );
            let lengths = [2, 24].map(|at| usize::from(u16::from_be_bytes([out[at], out[at + 1]])));
            assert_eq!(lengths, [out.len(), out.len() - 20]);
            let [src, dst] = [[192, 0, 2, 1], [203, 0, 113, 1]].map(Ipv4Addr::from);
            assert!(wire::checksum::header20_ok(out.first_chunk().unwrap()));
            match has_sum {
                true => assert!(wire::checksum::transport_v4_ok(src, dst, wire::Protocol(17), &out[20..])),
                false => assert_eq!(out[26..28], [0, 0]),
            }
            // Its answer says the phone's own address.
            let outside = port(&ends(&out));
            let answer = format!("SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1:{outside}\r\n\r\n");
            let (next, came) = through(next, "i0", datagram(1, proxy, ("192.0.2.1", outside), &answer));
            assert_eq!(&came[28..], b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 10.0.1.2:5060\r\n\r\n");
            run = next;
        }
    }
    // Part of a message, or what is no message, stays.
    let mut part = datagram(2, phone, proxy, "BYE sip:10.0.1.2 SIP/2.0\r\n\r\n");
    part.data_mut()[6] |= 0x20;
    let (run, out) = through(run, "i1", part);
    assert!(out.ends_with(b"BYE sip:10.0.1.2 SIP/2.0\r\n\r\n"));
    let (mut run, out) = through(run, "i1", datagram(2, phone, proxy, "BYE sip:10.0.1.2"));
    assert!(out.ends_with(b"BYE sip:10.0.1.2"));
    assert_eq!(run.read("nat.algs"), "ftp 0 0\nsip 16 1");
}

const DYNAMIC: &str = "translate 10.0.1.0/24 to interface ppp0\nforward tcp 80 to 10.0.1.20";

/// Drops of a reason so far.
fn dropped(run: &Run, reason: Reason) -> u64 {
    run.drops("nat").iter().filter(|(why, _)| *why == reason).map(|(_, count)| count).sum()
}

#[test]
fn a_script_says_which_addresses_an_interface_has() {
    let files = Temp::new();
    let text = text(&files.file("nat", DYNAMIC), ", INTERFACE ppp0");
    let run = Rig::text(&text).burst(1).ready();
    run.give("i1", vec![packet(2, ASKS)]);
    let mut run = run.again();
    // Nobody is sent an error: it is not the host's fault.
    assert_eq!((dropped(&run, Reason::NoOutsideAddress), run.bytes("o2").len()), (1, 0));
    assert_eq!(run.read("nat.addresses"), "ppp0 - none\n");
    for address in ["192.0.2.7", "198.51.100.8"] {
        run.write("nat.addresses", &format!("ppp0 {address}")).unwrap();
        assert_eq!(
            (run.read("nat.addresses"), run.read("nat.nsessions")),
            (format!("ppp0 {address} used\n"), "0".into())
        );
        run.give("i1", vec![packet(2, ASKS)]);
        run.give("i0", vec![packet(1, &format!("ip 203.0.113.7 to {address} / tcp 9 to 80 flags S"))]);
        run = run.again();
        assert!(sent(&run, "o1")[0].starts_with(&format!("{address}:")), "{:?}", sent(&run, "o1"));
        assert_eq!(sent(&run, "o0"), ["203.0.113.7:9 10.0.1.20:80"]);
        assert_eq!(run.read("nat.nsessions"), "2");
    }
    // Other statements and another configuration keep it, and the sessions.
    files.file("nat", format!("{DYNAMIC}\ntimeout udp 1m"));
    run.write("nat.load", "").unwrap();
    run.swap(&format!("{text} // again")).unwrap();
    run.swap(&text.replace("INTERFACE ppp0", "INTERFACE ppp0, INTERFACE ppp1")).unwrap();
    assert_eq!(run.read("nat.nsessions"), "2");
    assert_eq!(run.read("nat.addresses"), "ppp0 198.51.100.8 used\nppp1 - none\n");
    run.write("nat.addresses", "ppp1 198.51.100.9").unwrap();
    run.write("nat.addresses", "ppp0 198.51.100.8 10.0.1.77 ").unwrap();
    assert_eq!(
        run.read("nat.addresses"),
        "ppp0 198.51.100.8 used\nppp0 10.0.1.77 unused: a statement has it inside\n\
         ppp1 198.51.100.9 unused: no statement names the interface\n"
    );
    run.write("nat.addresses", "ppp0 -").unwrap();
    assert_eq!(run.read("nat.nsessions"), "0");
    for (value, said) in [
        ("", "INTERFACE ADDRESS ..."),
        ("ppp0", "INTERFACE ADDRESS ..."),
        ("ppp0 here", "INTERFACE ADDRESS ..."),
        ("ppp0 2001:db8::1", "INTERFACE ADDRESS ..."),
        ("ppp2 192.0.2.1", "'ppp2' is not an INTERFACE of the translator; those are: ppp0, ppp1"),
    ] {
        let found = run.write("nat.addresses", value).unwrap_err().to_string();
        assert!(found.contains(said), "{value}: {found}");
    }
    let other = files.file("other", DYNAMIC.replace("ppp0", "eth7"));
    let found = run.write("nat.load", &other).unwrap_err().to_string();
    assert!(found.contains("names interface 'eth7', but the configuration says nothing about it"), "{found}");
}

#[test]
fn the_kernel_says_which_addresses_an_interface_has() {
    let files = Temp::new();
    let fake = crate::io::testing::Fake::new("eth0", &[&[]]);
    fake.set_addresses(&[]);
    let nat = text(&files.file("nat", DYNAMIC), ", INTERFACE ppp0 f");
    let text = format!("f :: FromDevice(eth0) -> Discard; {nat}");
    let time = std::time::Duration::from_secs(1);
    let mut run = Rig::text(&text).provider(fake.clone()).burst(1).workers(2).ready().run_for(time);
    run.give("i1", vec![packet(2, ASKS)]);
    run = run.run_for(time);
    assert_eq!(dropped(&run, Reason::NoOutsideAddress), 1);
    for (addresses, outside) in
        [(&["192.0.2.7/24", "fe80::1/64"][..], "192.0.2.7:"), (&["198.51.100.8/25"], "198.51.100.8:")]
    {
        fake.set_addresses(addresses);
        run = run.run_for(time);
        assert_eq!(run.read("nat.nsessions"), "0");
        run.give("i1", vec![packet(2, ASKS)]);
        run = run.run_for(time);
        assert!(sent(&run, "o1").last().unwrap().starts_with(outside), "{:?}", sent(&run, "o1"));
    }
    // A new configuration goes on at once, and looks from then on.
    run.swap(&format!("{text} // again")).unwrap();
    assert_eq!(
        (run.read("nat.nsessions"), run.read("nat.addresses")),
        ("1".into(), "ppp0 198.51.100.8 used\n".into())
    );
    fake.set_addresses(&["192.0.2.7/24"]);
    run = run.run_for(time);
    assert_eq!(
        (run.read("nat.nsessions"), run.read("nat.addresses")),
        ("0".into(), "ppp0 192.0.2.7 used\n".into())
    );
    let found = run.write("nat.addresses", "ppp0 192.0.2.1").unwrap_err().to_string();
    assert!(found.contains("ppp0 has the addresses that the kernel gives the device of 'f'"), "{found}");
    // Addresses in the configuration, in place of a device.
    run.swap(&text.replace("ppp0 f", "ppp0 192.0.2.99")).unwrap();
    assert_eq!(run.read("nat.addresses"), "ppp0 192.0.2.99 used\n");
}

#[test]
fn a_script_says_the_addresses_where_the_kernel_tells_none() {
    let files = Temp::new();
    let fake = crate::io::testing::Fake::new("eth0", &[&[]]);
    let nat = text(&files.file("nat", DYNAMIC), ", INTERFACE ppp0 f");
    let text = format!("f :: FromDevice(eth0) -> Discard; {nat}");
    let mut run = Rig::text(&text).provider(fake).workers(2).ready();
    run.write("nat.addresses", "ppp0 192.0.2.7").unwrap();
    run.swap(&format!("{text} // again")).unwrap();
    assert_eq!(run.read("nat.addresses"), "ppp0 192.0.2.7 used\n");
}

#[test]
fn mistakes_about_interfaces_are_errors() {
    let files = Temp::new();
    let file = files.file("nat", DYNAMIC);
    let errors = |arguments: &str| {
        Rig::text(&format!("d :: Idle -> Discard; nat :: NAT44({file}{arguments}); Idle -> nat -> Discard; Idle -> [1]nat; nat[1] -> Discard;")).errors()
    };
    for (arguments, said) in [
        (
            "",
            "a statement names interface 'ppp0', but the configuration says nothing about it: add INTERFACE ppp0",
        ),
        (", INTERFACE eth0", "a statement names interface 'ppp0'"),
        (", INTERFACE ppp0, INTERFACE ppp0 192.0.2.1", "INTERFACE ppp0 is given twice"),
        (", INTERFACE ppp0 a b", "NAME [ADDRESS ...], or NAME ELEMENT with a device"),
        (", INTERFACE ppp0 d", "INTERFACE: 'd' is not an element with a device"),
    ] {
        let found = errors(arguments);
        assert!(found.len() == 1 && found[0].contains(said), "{arguments}: {found:?}");
    }
    assert_eq!(errors(", INTERFACE ppp0 192.0.2.1 192.0.2.2"), Vec::<String>::new());
}

#[test]
fn hosts_of_several_vrfs_share_an_address() {
    let files = Temp::new();
    let statements = "translate 10.0.1.0/24 vrf red to 192.0.2.1 max-sessions 1\n\
        translate 10.0.1.0/24 vrf blue to 192.0.2.1\ntranslate 10.0.1.0/24 to 192.0.2.1\n\
        forward tcp 80 on 192.0.2.1 to 10.0.1.20 vrf blue\nlog ports\n";
    let file = files.file("nat", statements);
    let run = Rig::text(&text(&file, ", VRF red, VRF blue")).ready();
    let of = |vrf: u8, paint: u8, headers: &str| {
        let mut packet = packet(paint, headers);
        packet.set_anno_u8(anno::VRF, vrf);
        packet
    };
    run.give("i1", vec![of(1, 2, ASKS), of(2, 3, ASKS), of(0, 4, ASKS)]);
    let run = run.again();
    let ports: Vec<u16> = sent(&run, "o1").iter().map(|ends| port(ends)).collect();
    assert!(ports.len() == 3 && ports[0] != ports[1] && ports[1] != ports[2] && ports[2] != ports[0]);
    let answers = ports.iter().map(|to| packet(1, &format!("ip 203.0.113.1 to 192.0.2.1 / udp 53 to {to}")));
    let to_server = packet(1, "ip 203.0.113.1 to 192.0.2.1 / tcp 9 to 80 flags S");
    run.give("i0", answers.chain([to_server]).collect());
    let mut run = run.again();
    let found: Vec<(u8, String)> =
        run.out("o0").iter().map(|packet| (packet.anno_u8(anno::VRF), ends(packet.data()))).collect();
    let host = "203.0.113.1:53 10.0.1.2:1000".to_owned();
    let server = "203.0.113.1:9 10.0.1.20:80".to_owned();
    assert_eq!(found, [(1, host.clone()), (2, host.clone()), (0, host), (2, server)]);
    let tails = |all: String| -> Vec<String> {
        let tail = |line: &str| line.split(' ').skip(14).collect::<Vec<_>>().join(" ");
        let mut all: Vec<String> = all.lines().skip(1).map(tail).collect();
        all.sort();
        all
    };
    assert_eq!(tails(run.read("nat.sessions")), ["- - -", "- blue blue", "- blue blue", "- red red"]);
    let hosts = run.read("nat.subscribers");
    assert!(hosts.contains("10.0.1.2@red 192.0.2.1 1 ") && hosts.contains("10.0.1.2@blue "), "{hosts}");
    let journal = run.read("nat.journal");
    assert!(journal.contains(" given udp 10.0.1.2@red 1000 192.0.2.1 "), "{journal}");
    assert_eq!(run.read_with("nat.owner", &format!("udp 192.0.2.1 {}", ports[0])), "10.0.1.2 1000 red");
    // Who finds no room gets an error in its own VRF.
    run.give("i1", vec![of(1, 2, "ip 10.0.1.2 to 203.0.113.1 / udp 1001 to 53")]);
    let mut run = run.again();
    let refused = run.out("o2");
    assert_eq!((refused[0].anno_u8(anno::VRF), &refused[0].data()[12..16]), (1, &[10, 0, 1, 2][..]));
    run.write("nat.end", "udp 10.0.1.2 1000 203.0.113.1 53 red").unwrap();
    assert_eq!(tails(run.read("nat.sessions")), ["- - -", "- blue blue", "- blue blue"]);
    // In another order, the VRFs have other numbers.
    run.swap(&text(&file, ", VRF green, VRF blue, VRF red")).unwrap();
    let answer = format!("ip 203.0.113.1 to 192.0.2.1 / udp 53 to {}", ports[1]);
    run.give("i0", vec![packet(1, &answer)]);
    run.give("i1", vec![of(3, 2, ASKS)]);
    let run = run.again();
    assert_eq!((run.out("o0")[0].anno_u8(anno::VRF), run.out("o1").len()), (2, 1));
    for (vrfs, why) in [
        ("", "a statement names VRF red, and the router has no VRFs"),
        (", VRF blue", "a statement names VRF red: the router has blue"),
        (", VRF red, VRF red, VRF blue", "VRF red has the name or the number of another: rename it"),
    ] {
        let found = Rig::text(&text(&file, vrfs)).errors();
        assert!(found.iter().any(|error| error.contains(why)), "{found:?}");
    }
}

#[test]
fn an_outside_link_may_be_in_a_vrf() {
    let files = Temp::new();
    let file = files.file("nat", "translate 10.0.1.0/24 vrf red to 192.0.2.1\n");
    let run = Rig::text(&text(&file, ", VRF red, VRF up")).ready();
    let of = |vrf: u8, paint: u8, headers: &str| {
        let mut packet = packet(paint, headers);
        packet.set_anno_u8(anno::VRF, vrf);
        packet
    };
    run.give("i1", vec![of(1, 2, ASKS)]);
    let run = run.again();
    let taken = port(&sent(&run, "o1")[0]);
    // The router itself has the host's port: it gets another one.
    run.give("i1", vec![of(2, 0, &format!("ip 192.0.2.1 to 203.0.113.1 / udp {taken} to 53"))]);
    let run = run.again();
    let given = port(&sent(&run, "o1")[0]);
    assert_ne!(given, taken);
    let answers =
        [taken, given, 22].map(|to| of(2, 1, &format!("ip 203.0.113.1 to 192.0.2.1 / udp 53 to {to}")));
    run.give("i0", answers.into());
    run.give(
        "i0",
        vec![
            of(1, 1, "ip 203.0.113.1 to 10.0.1.2 / udp 53 to 1"),
            of(2, 1, "ip 203.0.113.1 to 10.0.1.2 / udp 53 to 1"),
        ],
    );
    let run = run.again();
    let found: Vec<(u8, String)> =
        run.out("o0").iter().map(|packet| (packet.anno_u8(anno::VRF), ends(packet.data()))).collect();
    let from = "203.0.113.1:53";
    assert_eq!(
        found,
        [
            (1, format!("{from} 10.0.1.2:1000")),
            // What is for the router stays in the VRF of the link.
            (2, format!("{from} 192.0.2.1:{taken}")),
            (2, format!("{from} 192.0.2.1:22")),
            (2, format!("{from} 10.0.1.2:1")),
        ]
    );
    assert_eq!(run.drops("nat"), [(Reason::ReversePath, 1)]);
}

/// Which packets take turns with other workers.
#[test]
fn what_has_no_session_to_begin_takes_no_turn() {
    let policy = sound(nat::read("test", "translate 10.0.1.0/24 vrf red to 192.0.2.1\n")).unwrap();
    let nat = Nat::new(policy, &[0xc000_0201], 1);
    for (leaves, from_outside, vrf, headers, want) in [
        (true, false, "red", "ip 172.16.0.1 to 203.0.113.1 / udp 1 to 2", Some(Outcome::Unchanged)),
        (true, false, "blue", "ip 10.0.1.2 to 203.0.113.1 / udp 1 to 2", Some(Outcome::Unchanged)),
        (true, false, "red", ASKS, None),
        (false, false, "red", "ip 10.0.1.2 to 10.0.2.2 / udp 1 to 2", Some(Outcome::Unchanged)),
        (false, true, "blue", "ip 203.0.113.1 to 10.0.1.2 / udp 1 to 2", Some(Outcome::Unchanged)),
        (false, true, "red", "ip 203.0.113.1 to 10.0.1.2 / udp 1 to 2", Some(Outcome::Drop(Cause::Spoofed))),
    ] {
        let way = Way { leaves, from_outside, vrf: nat::vrf::number(vrf) };
        let (mut ip, mut ahead) = (wire::compose::compose(headers).unwrap().bytes, Vec::new());
        nat.look_ahead([&ip[..]].into_iter(), leaves, &mut ahead);
        let found = way.shared(&nat, 0, &mut ip, &ahead[0], &mut PutOff::default());
        assert_eq!(found, want, "{vrf}: {headers}");
    }
}
