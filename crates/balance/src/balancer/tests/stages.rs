// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests and answers in two places are what they are in one.

use super::*;

const SERVICES: &str = "own 10.0.1.1\nservice web tcp 192.0.2.80 port 80\nserver web 10.0.1.11 port 8080\ncheck web tcp\n\
    service dns udp 192.0.2.80 port 53 direct\nserver dns 10.0.1.12\n\
    service six tcp 2001:db8::80 port 80\nserver six 2001:db8:1::11\n";

#[test]
fn each_packet_is_changed_at_its_stage() {
    let mut one = Balancer::new(policy(SERVICES), 1, 0);
    let mut two = Balancer::new(policy(SERVICES), 1, 0);
    for (line, outcome, stage) in [
        ("ip 203.0.113.1 > 192.0.2.80 / tcp 9 > 80 flags S", "Translated(10.0.1.11)", Stage::Arriving),
        ("ip 10.0.1.11 > 203.0.113.1 / tcp 8080 > 9 flags SA", "Answered", Stage::Leaving),
        ("ip6 ::9 > 2001:db8::80 / tcp 9 > 80 flags S", "Translated(2001:db8:1::11)", Stage::Arriving),
        ("ip6 2001:db8:1::11 > ::9 / tcp 80 > 9 flags SA", "Answered", Stage::Leaving),
        ("ip 203.0.113.1 > 192.0.2.80 / udp 9 > 53", "Direct(10.0.1.12)", Stage::Arriving),
        // The client says something about an answer, and a router about a request.
        (
            "ip 203.0.113.1 > 192.0.2.80 / icmp type 3 code 4 / ip 192.0.2.80 > 203.0.113.1 / tcp 80 > 9",
            "Translated(10.0.1.11)",
            Stage::Arriving,
        ),
        (
            "ip 10.0.0.254 > 203.0.113.1 / icmp type 3 code 1 / ip 203.0.113.1 > 10.0.1.11 / tcp 9 > 8080",
            "Answered",
            Stage::Leaving,
        ),
        (
            "ip 10.0.1.11 > 203.0.113.1 / icmp type 3 code 3 / ip 203.0.113.1 > 10.0.1.11 / tcp 9 > 8080",
            "Answered",
            Stage::Leaving,
        ),
        ("ip 203.0.113.1 > 192.0.2.80 offset 800 / udp 1 > 2", "Drop(Fragment)", Stage::Arriving),
        ("ip 10.0.1.11 > 203.0.113.1 offset 800 / udp 1 > 2", "Drop(Fragment)", Stage::Leaving),
    ] {
        let (done, expected) = send(&mut one, 0, line);
        let shown = format!("{done:?}").replace("V4(", "").replace("V6(", "").replace("))", ")");
        assert_eq!(shown, outcome, "{line}");
        let mut bytes = packet(line);
        for at in [Stage::Arriving, Stage::Leaving] {
            let before = bytes.clone();
            let found = send_at(&mut two, 0, &mut bytes, at);
            assert_eq!(found, if at == stage { done } else { Outcome::Unchanged }, "{line} {at:?}");
            assert!(at == stage || before == bytes, "{line} {at:?}");
            if matches!(found, Outcome::Drop(_)) {
                break;
            }
        }
        assert_eq!(bytes, expected, "{line}");
    }
}

#[test]
fn probes_are_answered_where_packets_arrive() {
    let mut balancer = Balancer::new(policy(SERVICES), 1, 0);
    let mut probe = Vec::new();
    balancer.work(0, |one| probe = one.bytes().to_vec());
    let (port, number) = (
        u16::from_be_bytes([probe[20], probe[21]]),
        u32::from_be_bytes([probe[24], probe[25], probe[26], probe[27]]),
    );
    let line = format!("ip 10.0.1.11 > 10.0.1.1 / tcp 8080 > {port} flags SA ack {}", number.wrapping_add(1));
    let mut bytes = packet(&line);
    assert_eq!(send_at(&mut balancer, 1, &mut bytes, Stage::Leaving), Outcome::Unchanged);
    assert_eq!(send_at(&mut balancer, 1, &mut bytes, Stage::Arriving), Outcome::Consumed);
}
