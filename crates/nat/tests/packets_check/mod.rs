// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any packets: nothing ends the process, checksums that were right stay right, a rehearsal says what then happens, and
//! sessions are no more than allowed.

use std::net::Ipv4Addr;
use std::sync::Arc;

use junctor_nat::{Nat, Outcome, read};
use wire::{Protocol, checksum};

const STATEMENTS: &str = "translate 10.0.1.0/24 to 192.0.2.1 ports 2000-2007 max-sessions 5\n\
    translate 10.0.2.0/24 to 192.0.2.2-192.0.2.3 ports 2000-2063 block 8 max 2\n\
    translate 10.0.3.0/24 to 192.0.2.4 deterministic\n\
    static 10.0.4.0/28 to 192.0.2.16/28\n\
    forward tcp 80-83 on 192.0.2.1 to 10.0.1.20 port 8080\n\
    exempt 10.0.0.0/16 to 10.9.0.0/16\n\
    sessions 12\n";

/// Whether the checksums of a packet are right; those of what it quotes are its sender's business.
fn is_right(ip: &[u8]) -> bool {
    let Some(header) = ip.first_chunk::<20>() else { return false };
    let (at, total) =
        (usize::from(header[0] & 15) * 4, usize::from(u16::from_be_bytes([header[2], header[3]])));
    let (Some(whole), Some(rest)) = (ip.get(..at), ip.get(at..total)) else { return false };
    let [src, dst] = [12, 16].map(|at| Ipv4Addr::from(*ip[at..].first_chunk::<4>().expect("a header")));
    let transport = match header[9] {
        1 => checksum::internet(rest) == 0,
        17 if rest.len() >= 8 && rest[6..8] == [0, 0] => true,
        6 | 17 => checksum::transport_v4_ok(src, dst, Protocol(header[9]), rest),
        _ => true,
    };
    transport && checksum::internet(whole) == 0
}

/// Translates packets of a text of bytes: one byte for the direction, one for the length, one for the time that has passed, then the packet. Returns how
/// many were translated.
pub fn check(mut bytes: &[u8]) -> usize {
    let policy = Arc::new(read("nat", STATEMENTS).policy.expect("right"));
    let mut nat = Nat::new(policy, &[u32::from(Ipv4Addr::new(192, 0, 2, 1))], 1);
    let (mut now, mut translated) = (0, 0);
    while let [direction, length, time, rest @ ..] = bytes {
        let (packet, others) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = others;
        now += u64::from(*time) * 2_000_000_000;
        let (leaving, from_outside) = (direction & 1 == 1, direction & 2 == 2);
        nat.split_hairpins(direction & 4 == 4);
        nat.reap(now, 16);
        let before = nat.len();
        let mut copy = packet.to_vec();
        nat.rehearse(now, &mut copy, leaving, from_outside);
        assert!(nat.len() <= before);
        let mut after = packet.to_vec();
        let mut ahead = Vec::new();
        nat.look_ahead(std::iter::once(packet), leaving, &mut ahead);
        let outcome = match leaving {
            true => nat.leaving(now, &mut after, &ahead[0]),
            false => nat.arriving(now, &mut after, &ahead[0], from_outside),
        };
        assert_eq!(after.len(), packet.len());
        match outcome {
            Outcome::Unchanged => assert_eq!(after, packet),
            Outcome::Drop(_) => {}
            Outcome::Translated | Outcome::Watched(_) | Outcome::Hairpin(_) => {
                translated += 1;
                assert!(!is_right(packet) || is_right(&after), "{packet:02x?} became {after:02x?}");
            }
        }
        if let Outcome::Hairpin(number) = outcome {
            let was_right = is_right(&after);
            nat.leaving_inside(&mut after, number);
            assert!(!was_right || is_right(&after));
        }
        assert!(nat.len() <= 12 && nat.mappings() <= nat.len() && nat.sessions().count() == nat.len());
        let ports: u32 = nat.subscribers().map(|one| one.ports.iter().sum::<u32>()).sum();
        assert_eq!(ports as usize, nat.mappings());
        let _ = nat.explain(outcome, packet, &after);
    }
    let all: Vec<_> = nat.sessions().collect();
    all.iter().for_each(|session| assert!(nat.end(session.protocol, session.inside, session.peer)));
    assert_eq!((nat.len(), nat.mappings(), nat.subscribers().count()), (0, 0, 0));
    translated
}
