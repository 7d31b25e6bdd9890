// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any packets: nothing ends the process, a rehearsal says what then happens, and connections are no more than allowed.

use std::path::Path;
use std::sync::Arc;

use junctor_firewall::{Firewall, Ruleset, Verdict, read};

const RULES: &str = "zone a eth0\nzone b eth1\nconnections 8\n\
    accept from a to b max-per-source 5\n\
    reject from b to a tcp port 22\n\
    accept from b to self udp limit 3/s burst 2\n\
    accept to b ip6 src 2001:db8::/32 stateless\n\
    drop from self proto 47\n\
    accept from b to a tcp port 80 synproxy new-per-network 2/s\n\
    alg tftp on\n";

/// Judges packets of a text of bytes: one byte for the zones, one for the length, one for the time that has passed, then the packet.
pub fn check(mut bytes: &[u8]) -> usize {
    let policy = read("rules", RULES, Path::new("/nowhere")).policy.expect("right");
    let mut firewall = Firewall::new(Arc::new(Ruleset::new(policy).expect("few")), 1);
    let (mut now, mut passed) = (0, 0);
    while let [zones, length, time, rest @ ..] = bytes {
        let (packet, others) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = others;
        now += u64::from(*time) * 500_000_000;
        let (from, to) = (zones % 3, zones / 3 % 3);
        let rehearsed = firewall.rehearse(now, packet, from, to);
        let before = firewall.len();
        let decision = firewall.judge(now, packet, from, to);
        // A rehearsal makes no room and needs none.
        if !matches!(decision.verdict, Verdict::Drop(_)) || before == firewall.len() && before < 8 {
            assert_eq!((rehearsed.verdict, rehearsed.is_known), (decision.verdict, decision.is_known));
        }
        assert!(firewall.len() <= 8 && firewall.connections().count() == firewall.len());
        let counted: u64 = firewall.counts().iter().map(|counts| counts.connections).sum();
        assert_eq!(counted, firewall.len() as u64);
        let _ = firewall.ruleset().explain(&decision);
        if let Some(translation) = firewall.steps().shift {
            let _ = translation.apply(&mut packet.to_vec());
        }
        passed += usize::from(decision.verdict == Verdict::Pass);
    }
    let all: Vec<_> = firewall.connections().collect();
    all.iter().for_each(|connection| firewall.end(connection));
    assert!(firewall.is_empty() && firewall.counts().iter().all(|counts| counts.connections == 0));
    passed
}
