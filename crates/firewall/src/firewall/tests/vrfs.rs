// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same addresses in several VRFs.

use statesync::{NotTaken, Op, Table};

use super::*;
use crate::record::ConnectionRecord;

const HOSTS: [[&str; 2]; 2] = [["10.0.0.2", "192.0.2.1"], ["2001:db8::2", "2001:db8:1::1"]];
const MAIN: u16 = 0;
const RED: u16 = 1;
const BLUE: u16 = 2;
const THERE: [u8; 2] = [INSIDE, OUTSIDE];
const BACK: [u8; 2] = [OUTSIDE, INSIDE];

fn with_vrfs(text: &str) -> Firewall {
    let mut fw = firewall(text);
    assert_eq!(fw.add_vrfs(["red", "blue"]), [RED, BLUE]);
    fw
}

/// Judges a packet of a VRF that leaves by a link of the other one. A rehearsal says the same.
fn judge(fw: &mut Firewall, now: u64, ip: &[u8], [from, to]: [u8; 2], vrfs: [u16; 2]) -> Verdict {
    let packet = Arrival { ip, from, to, vrfs, mac: None };
    let rehearsed = fw.rehearse_arrival(now, packet).verdict;
    let verdict = fw.judge_arrival(now, packet).verdict;
    assert_eq!(rehearsed, verdict);
    verdict
}

#[test]
fn the_same_addresses_and_ports_are_a_connection_in_each() {
    for [host, server] in HOSTS {
        let mut fw = with_vrfs("accept from inside to outside");
        let packets = [
            (udp((host, 1000), (server, 53)), udp((server, 53), (host, 1000))),
            (tcp((host, 9), (server, 80), SYN, 1, 0), tcp((server, 80), (host, 9), SYN | ACK, 7, 2)),
            (ping(host, server, false, 5), ping(server, host, true, 5)),
        ];
        for (n, (asks, answers)) in packets.iter().enumerate() {
            assert_eq!(judge(&mut fw, 0, asks, THERE, [RED; 2]), PASS);
            for other in [MAIN, BLUE] {
                assert_ne!(judge(&mut fw, 0, answers, BACK, [other; 2]), PASS, "{n}");
            }
            assert_eq!(judge(&mut fw, 0, asks, THERE, [BLUE; 2]), PASS);
            for vrf in [BLUE, RED] {
                assert_eq!(judge(&mut fw, 0, answers, BACK, [vrf; 2]), PASS, "{n}");
            }
            assert_eq!(fw.len(), 2 * (n + 1));
        }
        let of = |vrf: u16| fw.connections().filter(|one| one.vrfs == [vrf; 2]).count();
        assert_eq!([MAIN, RED, BLUE].map(of), [0, 3, 3]);
        // One ends, and its twin does not.
        assert_eq!(end(&mut fw, |one| one.vrfs[0] == RED && one.protocol == UDP), 1);
        let (asks, answers) = &packets[0];
        assert_eq!(judge(&mut fw, 0, answers, BACK, [RED; 2]), REFUSED);
        assert_eq!(judge(&mut fw, 0, answers, BACK, [BLUE; 2]), PASS);
        fw.end_of(BLUE, host.parse().unwrap(), server.parse().unwrap(), UDP, [1000, 53]);
        assert_eq!((judge(&mut fw, 0, answers, BACK, [BLUE; 2]), fw.len()), (REFUSED, 4));
        assert_eq!(judge(&mut fw, 0, asks, THERE, [MAIN; 2]), PASS);
    }
}

#[test]
fn answers_come_in_the_vrf_that_a_route_leads_into() {
    for [host, server] in HOSTS {
        let mut fw = with_vrfs("accept from inside to outside");
        let asks = udp((host, 1000), (server, 53));
        let answers = udp((server, 53), (host, 1000));
        assert_eq!(judge(&mut fw, 0, &asks, THERE, [RED, MAIN]), PASS);
        assert_eq!(judge(&mut fw, 0, &answers, BACK, [RED, RED]), REFUSED);
        assert_eq!(judge(&mut fw, 0, &answers, BACK, [MAIN, RED]), PASS);
        let one = fw.connections().next().unwrap();
        assert_eq!((one.vrfs, one.state, one.packets), ([RED, MAIN], State::Open, [1, 1]));
        // Errors about either direction, from beyond and from the router.
        let gateway = if host.contains(':') { "2001:db8::99" } else { "10.0.0.99" };
        let errors = [
            (error(server, host, &asks), BACK, [MAIN, RED]),
            (error(host, server, &answers), THERE, [RED, MAIN]),
            (error(gateway, host, &asks), [SELF, INSIDE], [RED, RED]),
        ];
        for (error, zones, vrfs) in &errors {
            assert_eq!(judge(&mut fw, 0, error, *zones, *vrfs), PASS);
            let elsewhere = judge(&mut fw, 0, error, *zones, [BLUE, BLUE]);
            assert_eq!(elsewhere == PASS, zones[0] == SELF || *zones == THERE, "{zones:?}");
        }
        // Answers to blue's host would be the same, until red's connection is over.
        assert_eq!(
            judge(&mut fw, 0, &asks, THERE, [BLUE, MAIN]),
            Verdict::Drop(Cause::Ambiguous),
            "{:?}",
            fw.connections().collect::<Vec<_>>()
        );
        assert_eq!((fw.len(), fw.counts()[0].connections), (1, 1));
        assert_eq!(judge(&mut fw, 400 * SECOND, &asks, THERE, [BLUE, MAIN]), PASS);
        assert_eq!(judge(&mut fw, 400 * SECOND, &answers, BACK, [MAIN, BLUE]), PASS);
        assert_eq!((fw.len(), fw.counts()[0].connections), (1, 1));
    }
}

#[test]
fn sources_are_counted_in_each() {
    let mut fw = with_vrfs("accept from inside to outside max-per-source 1 max-per-network 1");
    let syn = |port: u16| tcp(("10.0.0.2", port), ("192.0.2.1", 80), SYN, 1, 0);
    let limited = Verdict::Drop(Cause::SourceLimit);
    for vrf in [RED, BLUE, MAIN] {
        assert_eq!(judge(&mut fw, 0, &syn(1), THERE, [vrf; 2]), PASS);
        assert_eq!(judge(&mut fw, 0, &syn(2), THERE, [vrf; 2]), limited);
    }
    // The server of red refuses, so another may begin in red alone.
    let reset = tcp(("192.0.2.1", 80), ("10.0.0.2", 1), crate::track::RST | ACK, 0, 2);
    assert_eq!(judge(&mut fw, 0, &reset, BACK, [RED; 2]), PASS);
    assert_eq!(judge(&mut fw, 0, &syn(3), THERE, [BLUE; 2]), limited);
    assert_eq!(judge(&mut fw, 0, &syn(3), THERE, [RED; 2]), PASS);

    let mut fw = with_vrfs("accept from inside to outside new-per-source 1/m burst 1");
    for vrf in [RED, BLUE] {
        assert_eq!(judge(&mut fw, 0, &syn(1), THERE, [vrf; 2]), PASS);
        assert_eq!(judge(&mut fw, 0, &syn(2), THERE, [vrf; 2]), Verdict::Drop(Cause::SourceRate));
    }
}

/// A fragment of a packet of UDP.
fn fragment(six: bool, first: bool) -> Vec<u8> {
    let [host, server] = HOSTS[usize::from(six)];
    let data = if first { [ports(1000, 53), vec![0; 12]].concat() } else { vec![0; 8] };
    if six {
        let offset = if first { [0, 1] } else { [0, 16] };
        return ip(44, host, server, &[&[UDP, 0][..], &offset, &[0, 0, 0, 7], &data].concat());
    }
    let mut packet = ip(UDP, host, server, &data);
    packet[4..8].copy_from_slice(if first { &[0, 7, 0x20, 0] } else { &[0, 7, 0, 2] });
    packet
}

#[test]
fn fragments_follow_the_first_one_of_their_vrf() {
    for six in [false, true] {
        let mut fw = with_vrfs("accept from inside to outside");
        assert_eq!(judge(&mut fw, 0, &fragment(six, true), THERE, [RED; 2]), PASS);
        let later = fragment(six, false);
        for (vrf, want) in [(BLUE, Verdict::Drop(Cause::Fragment)), (RED, PASS)] {
            assert_eq!(judge(&mut fw, 0, &later, THERE, [vrf; 2]), want);
        }
    }
}

#[test]
fn announced_connections_pass_in_the_vrf_that_announced_them() {
    let mut fw = with_vrfs("accept from inside to outside tcp port 21");
    let (client, server) = (("10.0.0.2", 4000), ("192.0.2.1", 21));
    let mut line = tcp(client, server, ACK, 2, 8);
    let text = b"PORT 10,0,0,2,20,1\r\n";
    line.extend(text);
    let length = (40 + text.len()) as u16;
    line[2..4].copy_from_slice(&length.to_be_bytes());
    // Red's servers are in the main table, so that is where the data comes from.
    for (packet, zones, vrfs) in [
        (tcp(client, server, SYN, 1, 0), THERE, [RED, MAIN]),
        (tcp(server, client, SYN | ACK, 7, 2), BACK, [MAIN, RED]),
        (tcp(client, server, ACK, 2, 8), THERE, [RED, MAIN]),
        ([&tcp(server, client, ACK, 8, 2)[..], b""].concat(), BACK, [MAIN, RED]),
    ] {
        assert_eq!(judge(&mut fw, 0, &packet, zones, vrfs), PASS);
    }
    // What comes first may be the rest of a line.
    let mut rest = tcp(client, server, ACK, 2, 8);
    rest.extend(b"\r\n");
    rest[2..4].copy_from_slice(&42u16.to_be_bytes());
    assert_eq!(judge(&mut fw, 0, &rest, THERE, [RED, MAIN]), PASS);
    line[24..28].copy_from_slice(&4u32.to_be_bytes());
    assert_eq!(judge(&mut fw, 0, &line, THERE, [RED, MAIN]), PASS);
    let data = tcp(("192.0.2.1", 20), ("10.0.0.2", 5121), SYN, 1, 0);
    for vrfs in [[RED, RED], [MAIN, MAIN], [MAIN, BLUE]] {
        assert_eq!(judge(&mut fw, 0, &data, BACK, vrfs), REFUSED, "{vrfs:?}");
    }
    assert_eq!(judge(&mut fw, 0, &data, BACK, [MAIN, RED]), PASS);
    assert_eq!(fw.connections().filter(|one| one.parent.is_some()).count(), 1);
}

#[test]
fn a_cookie_is_good_in_its_vrf() {
    let mut fw = with_vrfs("accept from outside to inside tcp port 80 synproxy");
    let (client, server) = (("192.0.2.7", 4000), ("10.0.0.9", 80));
    let mut numbers = Vec::new();
    for vrf in [RED, BLUE] {
        assert_eq!(judge(&mut fw, 0, &tcp(client, server, SYN, 1, 0), BACK, [vrf; 2]), Verdict::Answered);
        numbers.push(fw.steps().back.unwrap().sequence);
    }
    let proof = |number: u32| tcp(client, server, ACK, 2, number.wrapping_add(1));
    assert_eq!(judge(&mut fw, 0, &proof(numbers[0]), BACK, [BLUE; 2]), STRAY);
    for (vrf, number) in [RED, BLUE].into_iter().zip(numbers) {
        assert_eq!(judge(&mut fw, 0, &proof(number), BACK, [vrf; 2]), Verdict::Answered);
    }
    assert_eq!(fw.len(), 2);
}

#[test]
fn a_peer_puts_connections_into_the_vrf_of_the_same_name() {
    let mut fw = with_vrfs("accept from inside to outside");
    fw.tell_changes(100);
    for [host, server] in HOSTS {
        for vrfs in [[RED; 2], [BLUE, MAIN], [MAIN; 2]] {
            let port = 1000 + vrfs[0];
            let asks = udp((host, port), (server, 53));
            let answers = udp((server, 53), (host, port));
            assert_eq!(judge(&mut fw, 0, &asks, THERE, vrfs), PASS);
            assert_eq!(judge(&mut fw, 0, &answers, BACK, [vrfs[1], vrfs[0]]), PASS);
        }
    }
    let mut records = Vec::new();
    fw.changes(0, 100, &mut |op, record| records.push((op, record.to_vec())));
    assert_eq!(records.len(), 6);
    // Its numbers are others.
    let mut peer = firewall("accept from inside to outside");
    assert_eq!(peer.add_vrfs(["green", "blue", "red"]), [1, 2, 3]);
    let mut stranger = firewall("accept from inside to outside");
    stranger.add_vrfs(["blue"]);
    for (op, bytes) in &records {
        assert_eq!(*op, Op::Put);
        assert_eq!(peer.apply(0, Op::Put, bytes), Ok(()));
        let record = ConnectionRecord::from_bytes(bytes).unwrap();
        let is_red = record.ports[0] == 1000 + RED;
        assert_eq!(
            (bytes.len() == 68, record.vrfs == [0; 2]),
            (record.ports[0] == 1000, record.ports[0] == 1000)
        );
        let taken = stranger.apply(0, Op::Put, bytes);
        assert_eq!(taken, if is_red { Err(NotTaken::Policy) } else { Ok(()) });
    }
    let mut found: Vec<_> = peer.connections().map(|one| (one.ports[0], one.vrfs)).collect();
    found.sort_unstable();
    let want = [(1000, [0, 0]), (1001, [3, 3]), (1002, [2, 0])];
    assert_eq!(found, want.map(|one| [one; 2]).concat());
    // One ends here, and so it does there.
    end(&mut fw, |one| one.vrfs == [RED; 2]);
    fw.changes(0, 100, &mut |op, record| assert_eq!(peer.apply(0, op, record), Ok(())));
    assert_eq!((fw.len(), peer.len()), (4, 4));
    assert!(peer.connections().all(|one| one.vrfs[0] != 3));
}

#[test]
fn vrfs_keep_their_numbers() {
    let mut fw = with_vrfs("accept");
    assert_eq!(fw.add_vrfs(["blue", "green"]), [BLUE, 3]);
    assert_eq!(fw.add_vrfs(["green", "red"]), [3, RED]);
    let names = fw.vrf_names();
    assert_eq!(
        [0, 1, 2, 3, 4].map(|n| names.name(n)),
        [None, Some("red"), Some("blue"), Some("green"), None]
    );
    assert_eq!(["", "red", "x"].map(|name| names.number(name)), [Some(0), Some(1), None]);
}
