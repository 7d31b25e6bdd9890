// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::io::testing::Temp;
use crate::testing::{Rig, Run};

const STATEMENTS: &str = "service web tcp 192.0.2.80 port 80 direct\nserver web 10.0.1.11-10.0.1.14\n\
    service dns udp 192.0.2.80 port 53\nserver dns 10.0.1.21 port 5353\n";

fn packet(headers: &str) -> Packet {
    let bytes = wire::compose::compose(headers).unwrap().bytes;
    let mut packet = Packet::copy_of(&bytes).unwrap();
    packet.set_network(0, if bytes[0] >> 4 == 4 { 20 } else { 40 });
    packet
}

/// One path for IPv4, one for IPv6.
fn text(file: &str) -> String {
    format!(
        "lb :: Balance({file}); i0 :: TestIn -> lb -> o0 :: TestOut; i1 :: TestIn -> [1]lb; lb[1] -> o1 :: TestOut;"
    )
}

fn tcp(client: u8, flags: &str) -> String {
    format!("ip 203.0.113.{client} > 192.0.2.80 / tcp 9 > 80 flags {flags}")
}

/// Destination annotations of what has left.
fn hops(run: &Run) -> Vec<String> {
    run.out("o0").iter().map(|packet| IpAddr::from(packet.dst_ip()).to_string()).collect()
}

#[test]
fn packets_get_servers() {
    let files = Temp::new();
    let run = Rig::text(&text(&files.file("lb", STATEMENTS))).ready();
    run.give("i0", (1..100).map(|client| packet(&tcp(client, "S"))).collect());
    let run = run.again();
    let first = hops(&run);
    assert!((11..15).all(|n| first.contains(&format!("10.0.1.{n}"))), "{first:?}");
    run.give("i0", (1..100).map(|client| packet(&tcp(client, "A"))).collect());
    let run = run.again();
    assert_eq!(hops(&run), first);
    run.give("i0", vec![packet(&tcp(1, "A"))]);
    let run = run.again();
    assert_eq!(run.bytes("o0")[0], packet(&tcp(1, "A")).data(), "direct return changes nothing");
    run.give("i0", vec![packet("ip 203.0.113.1 > 192.0.2.80 / udp 9 > 53")]);
    let run = run.again();
    let query = run.out("o0").pop().unwrap();
    assert_eq!((query.dst_ip(), &query.data()[22..24]), ([10, 0, 1, 21], &5353u16.to_be_bytes()[..]));
    run.give("i0", vec![packet("ip 10.0.1.21 > 203.0.113.1 / udp 5353 > 9")]);
    let mut run = run.again();
    assert_eq!(run.bytes("o0")[0][12..16], [192, 0, 2, 80]);
    assert_eq!(run.read("lb.nsessions"), "100");
    let services = run.read("lb.services");
    assert!(
        services.starts_with("1 4 4 99 199 7960 0 0 0 0 service web tcp 192.0.2.80 port 80 direct\n"),
        "{services}"
    );
    let servers = run.read("lb.servers");
    assert!(servers.ends_with("dns 10.0.1.21 5353 1 unchecked - 100.00 1 1 1 28 1 28 - -\n"), "{servers}");
    let sessions = run.read("lb.sessions");
    assert!(sessions.starts_with("-\n") && sessions.lines().count() == 101, "{sessions}");
    assert!(
        sessions.contains("\nudp 203.0.113.1 9 192.0.2.80 53 10.0.1.21 5353 open 1 28 1 28 0 300\n"),
        "{sessions}"
    );
}

#[test]
fn packets_of_ipv6_have_a_path_of_their_own() {
    let files = Temp::new();
    let statements = "service web tcp 2001:db8::80 port 80\nserver web 2001:db8:1::11 port 8080\n\
                      service dns udp 2001:db8::80 direct\nserver dns 2001:db8:1::12\n";
    let run = Rig::text(&text(&files.file("lb", statements))).ready();
    let headers = ["ip6 ::9 > 2001:db8::80 / tcp 9 > 80", "ip6 ::9 > 2001:db8::80 / udp 9 > 53"];
    run.give("i1", headers.map(packet).into());
    let run = run.again();
    let left = run.out("o1");
    let hops: Vec<u8> = left.iter().map(|packet| packet.anno::<16>(anno::DST_IP)[15]).collect();
    assert_eq!(hops, [0x11, 0x12]);
    assert_eq!((&left[0].data()[39..40], &left[0].data()[42..44]), (&[0x11][..], &8080u16.to_be_bytes()[..]));
    assert_eq!(left[1].data(), packet(headers[1]).data());
    run.give("i1", vec![packet("ip6 2001:db8:1::11 > ::9 / tcp 8080 > 9 flags SA")]);
    let answer = run.again().bytes("o1").remove(0);
    assert_eq!((answer[23], &answer[40..42]), (0x80, &80u16.to_be_bytes()[..]));
}

#[test]
fn drops_have_names() {
    let files = Temp::new();
    let empty = files.file("empty", "service web tcp 192.0.2.80 port 80\n");
    let both = "service a tcp 192.0.2.80 port 80\nserver a 10.0.1.11 port 8080\nservice b tcp 192.0.2.80 port 81\nserver b 10.0.1.11 port 8080\n";
    let clash = files.file("clash", both);
    let full = files.file("full", format!("{both}sessions 1\n"));
    let drops = |file: &str, headers: &[&str]| {
        let run = Rig::text(&text(file)).ready();
        run.give("i0", headers.iter().map(|headers| packet(headers)).collect());
        run.again().drops("lb")
    };
    let one = tcp(1, "S");
    assert_eq!(drops(&empty, &[&one]), [(Reason::NoServer, 1)]);
    let later = "ip 203.0.113.1 > 192.0.2.80 offset 800 / udp 1 > 2";
    assert_eq!(drops(&empty, &[later]), [(Reason::Unreassembled, 1)]);
    assert_eq!(drops(&empty, &["ip 203.0.113.1 > 192.0.2.80 proto 6 / payload 5"]), [(Reason::BadLength, 1)]);
    let agreed = [&one, "ip 10.0.1.11 > 203.0.113.1 / tcp 8080 > 9 flags SA", &tcp(1, "A")];
    let other = "ip 203.0.113.1 > 192.0.2.80 / tcp 9 > 81";
    assert_eq!(drops(&clash, &[&agreed[..], &[other]].concat()), [(Reason::MappingTaken, 1)]);
    // There is no room for a session, and both services would have the same answers.
    assert_eq!(drops(&full, &[&agreed[..], &[&tcp(2, "S")]].concat()), [(Reason::MappingTableFull, 1)]);
}

/// A stranger who sends from a server's address neither agrees on a connection nor ends one.
#[test]
fn packets_of_servers_do_not_come_from_outside() {
    let files = Temp::new();
    let statements = "service web tcp 192.0.2.80 port 80\nserver web 10.0.1.21\nservice log udp 192.0.2.81 direct\n\
                      server log 10.0.1.31\nservice six tcp 2001:db8::80 port 80\nserver six 2001:db8:1::11\n";
    let file = files.file("lb", statements);
    let came = |paint: u8, headers: &str| {
        let mut packet = packet(headers);
        packet.set_paint(paint);
        packet
    };
    let answer = "ip 10.0.1.21 > 203.0.113.1 / tcp 80 > 9 flags SA";
    let six = "ip6 2001:db8:1::11 > ::9 / tcp 80 > 9 flags R";
    let quoted = wire::compose::compose("ip 203.0.113.1 > 10.0.1.21 / tcp 9 > 80").unwrap().bytes;
    let quoted: String = quoted.iter().map(|byte| format!("{byte:02x}")).collect();
    let error = format!("ip 10.0.1.21 > 203.0.113.1 / icmp type 3 code 3 / hex {quoted}");
    let direct = "ip 10.0.1.31 > 203.0.113.1 / udp 514 > 9";
    // Its state, and what is dropped, with packets that answer from outside or inside.
    for (text, paint, state, dropped) in [
        (format!("{file}, OUTSIDE 1 3"), 3, "asked", 3),
        (format!("{file}, OUTSIDE 1 3"), 2, "answered", 0),
        (file.clone(), 1, "answered", 0),
    ] {
        let run = Rig::text(&self::text(&text)).ready();
        run.give("i0", vec![came(1, &tcp(1, "S"))]);
        let run = run.again();
        run.give("i0", [answer, &error, direct].map(|headers| came(paint, headers)).into());
        run.give("i1", vec![came(paint, six)]);
        let mut run = run.again();
        let sessions = run.read("lb.sessions");
        assert!(sessions.contains(&format!(" {state} ")), "{paint}: {sessions}");
        let drops = if dropped > 0 { vec![(Reason::ReversePath, dropped)] } else { Vec::new() };
        assert_eq!(run.drops("lb"), drops, "{text} {paint}");
        assert!(run.out("o0").iter().any(|one| one.data()[12..16] == [10, 0, 1, 31]));
    }
    // In a chain with a firewall they are dropped when they arrive.
    let chain = format!(
        "lb :: Balance({file}, OUTSIDE 1, LEAVING 1); i0 :: TestIn -> lb -> o0 :: TestOut; i1 :: TestIn -> [1]lb; lb[1] -> o1 :: TestOut;"
    );
    let run = Rig::text(&chain).ready();
    run.give("i0", vec![came(1, answer), came(2, answer)]);
    run.give("i1", vec![came(1, answer)]);
    let run = run.again();
    assert_eq!((run.out("o0").len(), run.out("o1").len()), (1, 1));
    assert_eq!(run.drops("lb"), [(Reason::ReversePath, 1)]);
    let errors = Rig::text(&self::text(&format!("{file}, OUTSIDE 256"))).errors();
    assert!(errors[0].contains("paints from 0 to 255"), "{errors:?}");
}

/// Servers of both families that are pinged; the router of the test answers for one of them.
const CHECKED: &str = "own 10.0.1.1\nown 2001:db8::1\nservice a udp 192.0.2.80\nserver a 10.0.1.11-10.0.1.12\n\
    check a icmp every 1s timeout 500ms\nservice b udp 2001:db8::80\nserver b 2001:db8::11\ncheck b icmp\n";

#[test]
fn servers_are_checked() {
    let files = Temp::new();
    let file = files.file("lb", CHECKED);
    let text = format!(
        "lb :: Balance({file}); i0 :: TestIn -> lb; lb -> c :: IPClassifier(src host 10.0.1.1 and dst host 10.0.1.11, -); \
         c[0] -> ICMPPingResponder -> lb; c[1] -> o0 :: TestOut; Idle -> [1]lb; lb[1] -> o1 :: TestOut; \
         Script(wait 5.2, stop);"
    );
    let mut run = Rig::text(&text).run();
    let servers = run.read("lb.servers");
    let lines: Vec<&str> = servers.lines().collect();
    assert!(lines[0].starts_with("a 10.0.1.11 - 1 up - 100.00 0 0 0 0 0 0 ok "), "{servers}");
    assert!(lines[1].starts_with("a 10.0.1.12 - 1 down - 0.00 0 0 0 0 0 0 failed "), "{servers}");
    assert!(lines[2].starts_with("b 2001:db8::11 - 1 down "), "{servers}");
    let lost = run.out("o0").len();
    assert!((5..=6).contains(&lost), "{lost}");
    assert!(
        run.out("o0").iter().all(|packet| packet.dst_ip() == [10, 0, 1, 12] && packet.network().is_some())
    );
    let six = run.out("o1");
    assert!((2..=3).contains(&six.len()) && six[0].anno::<16>(anno::DST_IP)[15] == 0x11);
    assert!(matches!(run.drops("lb")[..], [(Reason::Discarded, 5..=6)]), "{:?}", run.drops("lb"));
}

#[test]
fn a_person_and_files_change_servers() {
    let files = Temp::new();
    let file = files.file("lb", STATEMENTS);
    let run = Rig::text(&text(&file)).ready();
    run.give("i0", (1..60).map(|client| packet(&tcp(client, "S"))).collect());
    let mut run = run.again();
    let first = hops(&run);
    run.write("lb.set", "web 10.0.1.11 drain").unwrap();
    run.write("lb.set", "web 10.0.1.12 weight 0").unwrap();
    run.write("lb.set", "web 10.0.1.13 down").unwrap();
    run.give(
        "i0",
        (1..120).map(|client| packet(&tcp(client, if client < 60 { "A" } else { "S" }))).collect(),
    );
    let mut run = run.again();
    for (n, hop) in hops(&run).into_iter().enumerate() {
        let expected = match first.get(n).map(String::as_str) {
            Some("10.0.1.13") | None => "10.0.1.14",
            Some(before) => before,
        };
        assert_eq!(hop, expected, "client {}", n + 1);
    }
    let states = |run: &mut Run| {
        let text = run.read("lb.servers");
        let state = |line: &str| line.split(' ').skip(4).take(3).collect::<Vec<_>>().join(" ");
        text.lines().map(state).collect::<Vec<_>>()
    };
    let expected =
        ["draining - 0.00", "draining - 0.00", "down set 0.00", "unchecked - 100.00", "unchecked - 100.00"];
    assert_eq!(states(&mut run), expected);
    for (wrong, said) in [
        ("web", "expects SERVICE ADDRESS [PORT]"),
        ("web 10.0.1.11 weight 1001", "weights to 1000"),
        ("web 10.0.1.19 up", "service 'web' has no server 10.0.1.19"),
        ("wab 10.0.1.11 up", "there is no service 'wab': there is web, dns"),
    ] {
        let why = run.write("lb.set", wrong).unwrap_err().to_string();
        assert!(why.contains(said), "{why}");
    }
    // A file with a mistake changes nothing; one without ends what was set.
    let wrong = files.file("wrong", format!("{STATEMENTS}servar web 10.0.1.15"));
    let why = run.write("lb.load", &wrong).unwrap_err().to_string();
    assert!(why.contains("wrong:5: unknown statement 'servar'"), "{why}");
    assert_eq!(states(&mut run), expected);
    run.write("lb.load", "").unwrap();
    assert!(states(&mut run).iter().all(|state| state.starts_with("unchecked")));
    // Through a swap, with another server.
    let before = run.read("lb.nsessions");
    files.file("lb", STATEMENTS.replace("10.0.1.14", "10.0.1.16"));
    run.swap(&text(&file)).unwrap();
    assert_eq!(run.read("lb.nsessions"), before);
    assert_eq!(states(&mut run).len(), 7);
    run.give("i0", (60..120).map(|client| packet(&tcp(client, "A"))).collect());
    let run = run.again();
    assert!(hops(&run).iter().all(|hop| hop == "10.0.1.14"));
}

#[test]
fn mistakes_are_errors() {
    let files = Temp::new();
    let errors = |arguments: &str| Rig::text(&text(arguments)).errors();
    assert_eq!(errors(&files.file("lb", STATEMENTS)), Vec::<String>::new());
    for (arguments, said) in [
        ("/nowhere", "cannot read '/nowhere'"),
        ("", "FILE"),
        ("STATEMENT service web tcp 192.0.2.80, STATEMENT server wab 10.0.0.1", "unknown service 'wab'"),
        ("/dev/null, LEAVING 2", "2 inputs with LEAVING 2"),
        ("/nowhere, STATEMENT seed 5", "FILE and STATEMENT: the statements stand in one of them"),
    ] {
        let found = errors(arguments);
        assert!(found.len() == 1 && found[0].contains(said), "{found:?}");
    }
}

#[test]
fn a_batch_is_balanced_as_its_packets_are() {
    let files = Temp::new();
    let text = text(&files.file("lb", format!("{STATEMENTS}sessions 6")));
    let run = |burst: usize| {
        let run = Rig::text(&text).burst(burst).ready();
        let arriving = [
            &tcp(1, "S"),
            &tcp(2, "S"),
            &tcp(1, "A"),
            "ip 203.0.113.1 > 192.0.2.80 / udp 9 > 53",
            "ip 10.0.1.21 > 203.0.113.1 / udp 5353 > 9",
            "ip 203.0.113.1 > 192.0.2.80 / udp 9 > 54",
            &tcp(3, "S"),
            "ip 203.0.113.1 > 192.0.2.80 offset 800 / udp 1 > 2",
        ];
        run.give("i0", arriving.iter().chain(&arriving).map(|headers| packet(headers)).collect());
        let run = run.again();
        (run.bytes("o0"), hops(&run), run.drops("lb"))
    };
    let one = run(1);
    assert_eq!(one, run(32));
    assert!(one.0.len() == 14 && one.2.len() == 1, "{one:?}");
}

/// With LEAVING, answers are changed where they leave, and a firewall in between sees the server's address both ways.
#[test]
fn answers_may_be_changed_where_they_leave() {
    let files = Temp::new();
    let file = files.file("lb", "service web tcp 192.0.2.80 port 80\nserver web 10.0.1.11 port 8080\n");
    let text = format!(
        "lb :: Balance({file}, LEAVING 1); i0 :: TestIn -> [0]lb -> o0 :: TestOut; \
         i1 :: TestIn -> [1]lb; lb[1] -> o1 :: TestOut; i2 :: TestIn -> [2]lb; lb[2] -> o2 :: TestOut;"
    );
    let run = Rig::text(&text).ready();
    let ends = |bytes: &[u8]| [bytes[12..16].to_vec(), bytes[16..20].to_vec()];
    let (client, service, server) = (vec![203, 0, 113, 1], vec![192, 0, 2, 80], vec![10, 0, 1, 11]);
    run.give("i0", vec![packet(&tcp(1, "S")), packet("ip 10.0.1.11 > 203.0.113.1 / tcp 8080 > 9 flags SA")]);
    let run = run.again();
    let left: Vec<_> = run.bytes("o0").iter().map(|bytes| ends(bytes)).collect();
    assert_eq!(left, [[client.clone(), server.clone()], [server, client.clone()]]);
    run.give("i2", vec![packet(&tcp(2, "S")), packet("ip 10.0.1.11 > 203.0.113.1 / tcp 8080 > 9 flags SA")]);
    let mut run = run.again();
    let left: Vec<_> = run.bytes("o2").iter().map(|bytes| ends(bytes)).collect();
    assert_eq!(left, [[vec![203, 0, 113, 2], service.clone()], [service, client]]);
    assert_eq!(run.read("lb.nsessions"), "1");
}

#[test]
fn sessions_are_ended_and_clients_keep_their_server() {
    let files = Temp::new();
    let file = files.file("lb", format!("{STATEMENTS}persist web source\nsessions 40"));
    let run = Rig::text(&text(&file)).ready();
    run.give("i0", (1..31).map(|client| packet(&tcp(client, "S"))).collect());
    let mut run = run.again();
    let first = hops(&run);
    assert_eq!((run.read("lb.nsessions"), run.read("lb.nclients")), ("30".into(), "30".into()));
    for (value, left) in [
        ("tcp 203.0.113.1 9 192.0.2.80 80", "29"),
        ("203.0.113.2", "28"),
        ("203.0.113.3 9", "27"),
        ("203.0.113.4 8", "27"),
        ("all", "0"),
    ] {
        run.write("lb.end", value).unwrap();
        assert_eq!(run.read("lb.nsessions"), left, "{value}");
    }
    let why = run.write("lb.end", "tcp").unwrap_err().to_string();
    assert!(why.contains("PROTOCOL CLIENT PORT SERVICE PORT"), "{why}");
    // Other servers come, and there may be other numbers of sessions and clients.
    let more = STATEMENTS.replace("10.0.1.14", "10.0.1.60");
    files.file("lb", format!("{more}persist web source\nsessions 4000\nclients 5000"));
    run.write("lb.load", "").unwrap();
    assert_eq!(run.read("lb.capacity"), "4000");
    run.give("i0", (1..31).map(|client| packet(&tcp(client, "S"))).collect());
    let run = run.again();
    assert_eq!(hops(&run), first);
}
