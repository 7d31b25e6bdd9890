// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any payload that comes as a message of SIP, from either side: nothing ends the process, places are in order and within the payload, and a length
//! that is said stays right.

use std::net::Ipv4Addr;
use std::sync::Arc;

use junctor_nat::sip::message;
use junctor_nat::{Nat, Outcome, read};

const STATEMENTS: &str = "translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2031\nalg sip on\nforward udp 5060 to 10.0.1.5\nsessions 40\n";

/// A datagram without a checksum.
fn datagram(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let length = 28 + payload.len() as u16;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip.extend(from.0.octets().into_iter().chain(to.0.octets()));
    for half in [from.1, to.1, length - 20, 0] {
        ip.extend(half.to_be_bytes());
    }
    ip.extend(payload);
    ip
}

/// Passes a payload through a translator, first from inside and then as it has become from outside; returns how often it has changed.
pub fn check(payload: &[u8]) -> usize {
    let payload = &payload[..payload.len().min(8000)];
    let policy = Arc::new(read("nat", STATEMENTS).policy.expect("right"));
    let own = Ipv4Addr::new(192, 0, 2, 1);
    let mut nat = Nat::new(policy, &[own.into()], 1);
    let (host, peer) = ((Ipv4Addr::new(10, 0, 1, 5), 5060), (Ipv4Addr::new(203, 0, 113, 9), 5060));
    let (mut text, mut changes) = (payload.to_vec(), 0);
    for side in [0, 1, 0] {
        let mut ip = match side {
            0 => datagram(host, peer, &text),
            _ => datagram(peer, (own, 5060), &text),
        };
        let mut ahead = Vec::new();
        nat.look_ahead(std::iter::once(&ip[..]), side == 0, &mut ahead);
        let outcome = match side {
            0 => nat.leaving(0, &mut ip, &ahead[0]),
            _ => nat.arriving(0, &mut ip, &ahead[0], true),
        };
        let Outcome::Watched(number) = outcome else { panic!("{outcome:?}") };
        let edits = nat.sip(0, number, side, &text);
        let (mut new, mut at) = (Vec::new(), 0);
        for (place, with) in &edits {
            assert!(at <= place.start && place.start <= place.end && place.end <= text.len(), "{edits:?}");
            new.extend_from_slice(&text[at..place.start]);
            new.extend_from_slice(with);
            at = place.end;
        }
        new.extend_from_slice(&text[at..]);
        if !edits.is_empty() {
            let (before, after) = (message(&text).expect("read"), message(&new).expect("still a message"));
            let behind = |text: &[u8], end: usize| text.len() - end;
            assert_eq!(before.ends.len(), after.ends.len());
            assert_eq!(behind(&text, before.body.end), behind(&new, after.body.end), "the length is right");
            changes += 1;
        }
        assert!(nat.len() <= 40 && nat.mappings() <= nat.len());
        text = new;
    }
    changes
}
