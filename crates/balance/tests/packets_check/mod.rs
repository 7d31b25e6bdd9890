// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any packets: nothing ends the process, checksums that were right stay right, sessions are no more than allowed, and
//! a session's packets go to one server.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use junctor_balance::{Balancer, Change, Outcome, Stage, read};
use wire::{Protocol, checksum};

const STATEMENTS: &str = "own 10.0.1.1\nown 2001:db8:1::1\n\
    service web tcp 192.0.2.80 port 80-83 direct\nserver web 10.0.1.11\nserver web 10.0.1.12 weight 2\ncheck web tcp\n\
    service dns udp 192.0.2.80 port 53\nserver dns 10.0.1.11-10.0.1.12 port 5353\ncheck dns icmp\n\
    service six any 2001:db8::80\nserver six 2001:db8:1::11-2001:db8:1::12\npersist six source\n\
    service two tcp 192.0.2.81\nserver two 10.0.1.11\nsessions 6\n";

/// Whether the checksums of a packet are right; those of what it quotes are its sender's business.
fn is_right(ip: &[u8]) -> bool {
    match ip.first().map(|first| first >> 4) {
        Some(4) => is_right_four(ip).unwrap_or(false),
        Some(6) => is_right_six(ip).unwrap_or(false),
        _ => false,
    }
}

fn is_right_four(ip: &[u8]) -> Option<bool> {
    let header = ip.first_chunk::<20>()?;
    let (at, total) =
        (usize::from(header[0] & 15) * 4, usize::from(u16::from_be_bytes([header[2], header[3]])));
    let (whole, rest) = (ip.get(..at)?, ip.get(at..total)?);
    let [src, dst] = [12, 16].map(|at| Ipv4Addr::from(*ip[at..].first_chunk::<4>().expect("a header")));
    let transport = match header[9] {
        1 => checksum::internet(rest) == 0,
        17 if rest.len() >= 8 && rest[6..8] == [0, 0] => true,
        6 | 17 => checksum::transport_v4_ok(src, dst, Protocol(header[9]), rest),
        _ => true,
    };
    Some(transport && checksum::internet(whole) == 0)
}

/// Extension headers aside.
fn is_right_six(ip: &[u8]) -> Option<bool> {
    let header = ip.first_chunk::<40>()?;
    let rest = ip.get(40..40 + usize::from(u16::from_be_bytes([header[4], header[5]])))?;
    let [src, dst] = [8, 24].map(|at| Ipv6Addr::from(*header[at..].first_chunk::<16>().expect("a header")));
    Some(matches!(header[6], 6 | 17 | 58) && checksum::transport_v6_ok(src, dst, Protocol(header[6]), rest))
}

/// Balances packets of a text of bytes: one byte for a change of a server, one for the length, one for the time that has passed, then the packet. Returns
/// how many were balanced.
pub fn check(mut bytes: &[u8]) -> usize {
    let policy = Arc::new(read("balance", STATEMENTS).policy.expect("right"));
    let mut balancer = Balancer::new(policy, 1, 0);
    let (mut now, mut balanced) = (0, 0);
    while let [change, length, time, rest @ ..] = bytes {
        let (packet, others) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = others;
        now += u64::from(*time) * 100_000_000;
        balancer.reap(now, 16);
        let server = IpAddr::from([10, 0, 1, 11 + (change >> 6 & 1)]);
        match change & 3 {
            1 => balancer.set("web", server, None, Change::Drain(change & 4 != 0)).expect("a server"),
            2 => balancer
                .set("dns", server, None, Change::Force((change & 4 != 0).then_some(false)))
                .expect("one"),
            3 => drop(balancer.work(now, |probe| assert!(is_right(probe.bytes())))),
            _ => {}
        }
        let before = sessions(&balancer);
        let mut copy = packet.to_vec();
        let said = balancer.rehearse(now, &mut copy, Stage::Only);
        assert_eq!(sessions(&balancer), before);
        let (mut after, mut ahead) = (packet.to_vec(), Vec::new());
        balancer.look_ahead(std::iter::once(packet), Stage::Only, &mut ahead);
        let outcome = balancer.arriving(now, &mut after, &ahead[0]);
        assert_eq!(after.len(), packet.len());
        assert_eq!((said, &copy), (outcome, &after), "a rehearsal does the same");
        match outcome {
            Outcome::Drop(_) => {}
            Outcome::Unchanged | Outcome::Direct(_) | Outcome::Consumed => assert_eq!(after, packet),
            Outcome::Translated(_) | Outcome::Answered => {
                assert!(!is_right(packet) || is_right(&after), "{packet:02x?} became {after:02x?}");
            }
        }
        balanced +=
            usize::from(matches!(outcome, Outcome::Direct(_) | Outcome::Translated(_) | Outcome::Answered));
        let counted: u64 = balancer.services().map(|service| service.sessions).sum();
        assert!(balancer.len() <= 6 && counted as usize == balancer.len());
        assert!(!balancer.explain(outcome).is_empty());
    }
    balancer.reap(u64::MAX, usize::MAX);
    assert_eq!((balancer.len(), balancer.servers().map(|one| one.sessions).sum::<u32>()), (0, 0));
    balanced
}

/// The server of each session.
fn sessions(balancer: &Balancer) -> HashMap<String, IpAddr> {
    let mut all = HashMap::new();
    balancer.some(0, 100, |one| {
        let key = format!("{} {:?} {:?}", one.protocol, one.client, one.service);
        assert_eq!(all.insert(key, one.server.0), None);
    });
    all
}
