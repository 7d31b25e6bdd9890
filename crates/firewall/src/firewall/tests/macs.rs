// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that ask for MAC addresses.

use super::*;
use crate::ruleset::Standing;
use crate::set::Entry;

const PHONE: &str = "52:54:00:00:00:01";
const OTHER: &str = "52:54:00:00:00:02";

fn judge(fw: &mut Firewall, mac: Option<&str>, ip: &[u8], from: u8, to: u8) -> Decision {
    let mac = mac.map(|mac| mac.parse().unwrap());
    let packet = Arrival { ip, from, to, vrfs: [0; 2], mac };
    let rehearsed = fw.rehearse_arrival(0, packet);
    let decision = fw.judge_arrival(0, packet);
    assert_eq!(rehearsed, decision);
    decision
}

/// Packets to a port by either family.
fn packets(port: u16) -> [Vec<u8>; 2] {
    [("10.0.0.2", "192.0.2.1"), ("2001:db8::2", "2001:db8:1::1")]
        .map(|(from, to)| udp((from, 1000 + port), (to, port)))
}

#[test]
fn the_first_packet_of_a_connection_is_judged() {
    let text = format!(
        "set phones macs {PHONE}\ndrop from outside mac 2:0:0:0:0:0/40\naccept from inside to outside mac @phones"
    );
    let mut fw = firewall(&text);
    assert!(fw.ruleset().asks_macs() && !ruleset("accept from inside").asks_macs());
    for packet in packets(53) {
        for mac in [None, Some(OTHER)] {
            let decision = judge(&mut fw, mac, &packet, INSIDE, OUTSIDE);
            assert_eq!((decision.verdict, decision.rule), (REFUSED, None), "{mac:?}");
        }
        let decision = judge(&mut fw, Some(PHONE), &packet, INSIDE, OUTSIDE);
        assert_eq!((decision.verdict, decision.rule), (PASS, Some(1)));
        assert!(fw.ruleset().explain(&decision).contains("accept from inside to outside mac @phones"));
        // Later packets are of the connection, wherever they come from.
        for mac in [None, Some(OTHER), Some(PHONE)] {
            assert!(judge(&mut fw, mac, &packet, INSIDE, OUTSIDE).is_known);
        }
    }
    let answer = udp(("192.0.2.1", 9), ("10.0.0.2", 9));
    assert_eq!(judge(&mut fw, Some("2:0:0:0:0:7"), &answer, OUTSIDE, INSIDE).rule, Some(0));
}

#[test]
fn sets_change_alone() {
    let mut fw = firewall("set phones macs\naccept from inside mac @phones\nreject from inside mac !@phones");
    let ruleset = Arc::clone(fw.ruleset());
    let (set, kind) = ruleset.set("phones").unwrap();
    let entry = Entry::parse(kind, PHONE).unwrap();
    let put = |fw: &mut Firewall, end: Option<u64>| {
        let publish = |view| drop(fw.put_sets(&ruleset, view));
        ruleset.change(set, 0, &[entry], |contents| contents.change(&[entry], end), publish).unwrap()
    };
    let rule = |fw: &mut Firewall, mac, port| {
        let found = packets(port).map(|packet| judge(fw, mac, &packet, INSIDE, OUTSIDE).rule);
        assert_eq!(found[0], found[1]);
        found[0]
    };
    assert_eq!(rule(&mut fw, Some(PHONE), 1), Some(1));
    assert_eq!(put(&mut fw, Some(5)), 1);
    assert_eq!(rule(&mut fw, Some(PHONE), 2), Some(0));
    assert_eq!(rule(&mut fw, Some(OTHER), 3), Some(1));
    // Without an address neither holds.
    assert_eq!(rule(&mut fw, None, 4), None);
    let late = Arrival {
        ip: &packets(5)[0],
        from: INSIDE,
        to: OUTSIDE,
        vrfs: [0; 2],
        mac: Some(PHONE.parse().unwrap()),
    };
    assert_eq!(fw.rehearse_arrival(6, late).rule, Some(1), "its time is over");
    assert_eq!(put(&mut fw, None), 1);
    assert_eq!(rule(&mut fw, Some(PHONE), 6), Some(1));
}

#[test]
fn connections_that_depend_on_a_mac_address_are_not_judged() {
    let mut fw = firewall("accept from inside to outside");
    for packet in packets(53) {
        judge(&mut fw, Some(PHONE), &packet, INSIDE, OUTSIDE);
    }
    let other = Standing::Unjudged;
    for (text, expected) in [
        ("accept from inside mac 2:0:0:0:0:1", other),
        ("drop from inside mac 2:0:0:0:0:1\naccept from inside", other),
        ("accept from inside mac !2:0:0:0:0:1", other),
        ("set s macs\naccept from inside mac @s\ndefault reject", other),
        // Their MAC addresses do not matter.
        ("accept from inside mac 2:0:0:0:0:1\naccept from inside", Standing::Accepted(Some(1))),
        ("drop from inside mac 2:0:0:0:0:1\ndrop from inside\naccept", Standing::Refused),
        ("drop from outside mac 2:0:0:0:0:1\naccept from inside", Standing::Accepted(Some(1))),
        ("accept from inside\ndrop mac 2:0:0:0:0:1", Standing::Accepted(Some(0))),
        ("drop from inside udp\naccept mac 2:0:0:0:0:1", Standing::Refused),
        ("accept from inside tcp mac 2:0:0:0:0:1", Standing::Refused),
    ] {
        let rules = ruleset(text);
        let found: Vec<_> = fw.connections().map(|c| (rules.standing(&c, 0), rules.refuses(&c, 0))).collect();
        assert_eq!(found, [(expected, expected == Standing::Refused); 2], "{text}");
    }
}

#[test]
fn fragments_follow_the_first_one() {
    let mut fw = firewall(&format!("accept from inside mac {PHONE}"));
    let mut first = udp(("10.0.0.2", 5), ("192.0.2.1", 6));
    first.truncate(28);
    first[2..4].copy_from_slice(&28u16.to_be_bytes());
    (first[4], first[6]) = (7, 0x20);
    let mut later = first.clone();
    (later[6], later[7]) = (0, 1);
    assert_ne!(judge(&mut fw, Some(PHONE), &later, INSIDE, OUTSIDE).verdict, PASS);
    assert_eq!(judge(&mut fw, Some(PHONE), &first, INSIDE, OUTSIDE).verdict, PASS);
    assert_eq!(judge(&mut fw, None, &later, INSIDE, OUTSIDE).verdict, PASS);
}
