// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two firewalls with the same rules, which keep each other's connections.

use statesync::{NotTaken, Op, Pass, Table};
use tables::flow::NEVER;

use super::*;
use crate::record::ConnectionRecord;
use crate::track::RST;

const RULES: &str =
    "accept from inside to outside tcp,udp max-per-source 50\naccept from inside to outside icmp\n";
const HERE: (&str, u16) = ("10.0.0.1", 4000);
const THERE: (&str, u16) = ("192.0.2.1", 80);

fn pair(rules: &str) -> [Firewall; 2] {
    [(); 2].map(|()| {
        let mut fw = firewall(rules);
        fw.tell_changes(1000);
        fw
    })
}

/// Changes reach the other one. Returns what was not taken.
fn carry(fws: &mut [Firewall; 2], now: u64) -> Vec<NotTaken> {
    let mut refused = Vec::new();
    for _ in 0..4 {
        for from in 0..2 {
            let mut told = Vec::new();
            assert!(!fws[from].changes(now, 1000, &mut |op, record| told.push((op, record.to_vec()))));
            for (op, record) in told {
                fws[1 - from].apply(now, op, &record).unwrap_or_else(|why| refused.push(why));
            }
        }
    }
    assert_eq!([0, 1].map(|n| fws[n].changes_waiting()), [0; 2]);
    refused
}

fn walk(fw: &mut Firewall, now: u64, pass: Pass) {
    let mut at = Some(0);
    while let Some(from) = at {
        at = fw.pass(now, pass, from, 3);
    }
}

fn owned(fw: &mut Firewall, now: u64) -> Vec<Vec<u8>> {
    let (mut at, mut all) = (Some(0), Vec::new());
    while let Some(from) = at {
        at = fw.owned(now, from, 3, &mut |record| all.push(record.to_vec()));
    }
    all
}

fn mirrored(fw: &Firewall) -> usize {
    fw.connections().filter(|one| one.expires_ns == NEVER).count()
}

fn leaves(fw: &mut Firewall, now: u64, flags: u8, sequence: u32, acknowledgement: u32) -> Verdict {
    fw.judge(now, &tcp(HERE, THERE, flags, sequence, acknowledgement), INSIDE, OUTSIDE).verdict
}

fn comes(fw: &mut Firewall, now: u64, flags: u8, sequence: u32, acknowledgement: u32) -> Verdict {
    fw.judge(now, &tcp(THERE, HERE, flags, sequence, acknowledgement), OUTSIDE, INSIDE).verdict
}

fn open(fw: &mut Firewall, now: u64) {
    assert_eq!(leaves(fw, now, SYN, 100, 0), Verdict::Pass);
    assert_eq!(comes(fw, now, SYN | ACK, 900, 101), Verdict::Pass);
    assert_eq!(leaves(fw, now, ACK, 101, 901), Verdict::Pass);
}

const OUT_OF_WINDOW: Verdict = Verdict::Drop(Cause::Window);

#[test]
fn an_open_connection_goes_on_through_the_peer() {
    let mut fws = pair(RULES);
    assert_eq!(comes(&mut fws[1], 0, ACK, 5, 5), Verdict::Drop(Cause::Rule));
    open(&mut fws[0], 0);
    assert!(carry(&mut fws, 0).is_empty());
    assert_eq!((fws[1].len(), mirrored(&fws[1]), fws[1].counts()[0].connections), (1, 1, 1));
    // Far on, and from either side first: the numbers are learnt.
    let fw = &mut fws[1];
    assert_eq!(comes(fw, 3 * SECOND, ACK, 5_000_000, 7_000_000), Verdict::Pass);
    assert_eq!(fw.changes_waiting(), 1);
    assert_eq!(
        leaves(fw, 3 * SECOND, ACK, 7_000_000, 5_003_000),
        Verdict::Pass,
        "acknowledges what went elsewhere"
    );
    assert_eq!(comes(fw, 3 * SECOND, ACK, 5_001_000, 7_000_000), Verdict::Pass, "comes again");
    // From then on, what does not belong to it does not pass.
    assert_eq!(comes(fw, 3 * SECOND, ACK, 1_000_000_000, 7_000_000), OUT_OF_WINDOW);
    assert_eq!(leaves(fw, 3 * SECOND, ACK, 3_000_000_000, 5_003_000), OUT_OF_WINDOW);
    assert_eq!(comes(fw, 3 * SECOND, RST, 1_000_000_000, 0), OUT_OF_WINDOW);
    carry(&mut fws, 3 * SECOND);
    assert_eq!((mirrored(&fws[0]), mirrored(&fws[1])), (1, 0));
    // Its end is reported.
    assert_eq!(comes(&mut fws[1], 6 * SECOND, RST, 5_003_000, 0), Verdict::Pass);
    carry(&mut fws, 6 * SECOND);
    fws[1].reap(10_000 * SECOND, 100);
    carry(&mut fws, 10_000 * SECOND);
    assert_eq!([0, 1].map(|n| (fws[n].len(), fws[n].counts()[0].connections)), [(0, 0); 2]);
}

#[test]
fn others_than_tcp_and_ipv6() {
    let mut fws = pair(RULES);
    for (here, there) in [("10.0.0.1", "192.0.2.1"), ("2001:db8::1", "2001:db8:9::1")] {
        let fw = &mut fws[0];
        assert_eq!(fw.judge(0, &udp((here, 5), (there, 53)), INSIDE, OUTSIDE).verdict, Verdict::Pass);
        assert_eq!(fw.changes_waiting(), 0, "nobody has answered");
        assert_eq!(fw.judge(0, &udp((there, 53), (here, 5)), OUTSIDE, INSIDE).verdict, Verdict::Pass);
        carry(&mut fws, 0);
        assert_eq!(fws[1].judge(9, &udp((there, 53), (here, 5)), OUTSIDE, INSIDE).verdict, Verdict::Pass);
    }
    assert_eq!((fws[1].len(), mirrored(&fws[1])), (2, 0));
}

#[test]
fn rules_decide_on_what_the_peer_has() {
    let mut fws = pair(RULES);
    open(&mut fws[0], 0);
    let record = owned(&mut fws[0], 0).remove(0);
    let one = ConnectionRecord::from_bytes(&record).unwrap();
    let check = |fw: &mut Firewall, other: ConnectionRecord, want: Result<(), NotTaken>| {
        assert_eq!(fw.apply(0, Op::Put, &other.to_bytes()), want, "{other:?}");
    };
    let mut strict = firewall("accept from inside to outside tcp port 443\n");
    check(&mut strict, one, Err(NotTaken::Policy));
    check(&mut strict, ConnectionRecord { ports: [4000, 443], ..one }, Ok(()));
    check(
        &mut strict,
        ConnectionRecord { zones: [one.zones[1], one.zones[0]], ..one },
        Err(NotTaken::Policy),
    );
    check(&mut strict, ConnectionRecord { zones: [1, 2], ..one }, Err(NotTaken::Policy));
    // A record has no MAC address: the peer's word counts, unless the rules refuse it with any.
    check(&mut firewall("accept from inside to outside mac 2:0:0:0:0:1\n"), one, Ok(()));
    check(&mut firewall("drop mac 2:0:0:0:0:1\n"), one, Err(NotTaken::Policy));
    assert_eq!(strict.apply(0, Op::Put, &record[1..]), Err(NotTaken::Malformed));
    // The other way round is another connection, which is owned.
    let turned = ConnectionRecord { ends: [one.ends[1], one.ends[0]], ports: [80, 4000], ..one };
    check(&mut fws[0], turned, Err(NotTaken::Conflict));
    for state in [State::Asked, State::Single] {
        check(&mut fws[1], ConnectionRecord { state, ..one }, Err(NotTaken::Malformed));
    }
    let mut small = firewall("connections 1\naccept from inside to outside\n");
    // One that nobody has answered gives way; one that is agreed on does not.
    assert_eq!(small.judge(0, &udp(("10.0.0.1", 5), THERE), INSIDE, OUTSIDE).verdict, Verdict::Pass);
    check(&mut small, one, Ok(()));
    check(&mut small, ConnectionRecord { ports: [1, 2], ..one }, Err(NotTaken::Full));
    check(&mut small, one, Ok(()));
    assert_eq!((small.len(), mirrored(&small)), (1, 1));
}

#[test]
fn announced_connections_are_asked_about_as_what_announced_them() {
    let text = "accept from inside to outside tcp port 21\n";
    let mut fw = firewall(text);
    let parent = Parent { service: Service::Ftp, client_port: 4000, is_from_server: true };
    let record = ConnectionRecord {
        protocol: TCP,
        ends: ["192.0.2.1", "10.0.0.1"].map(|end| end.parse().unwrap()),
        ports: [20, 5001],
        zones: ["outside", "inside"].map(crate::record::name_number),
        vrfs: [0; 2],
        state: State::Open,
        scales: [0; 2],
        fins: [false; 2],
        parent: None,
        shift: None,
        idle_ms: 0,
    };
    assert_eq!(fw.apply(0, Op::Put, &record.to_bytes()), Err(NotTaken::Policy));
    let announced = ConnectionRecord { parent: Some(parent), ..record };
    fw.apply(0, Op::Put, &announced.to_bytes()).unwrap();
    let packet = tcp(("192.0.2.1", 20), ("10.0.0.1", 5001), ACK, 700, 900);
    assert_eq!(fw.judge(SECOND, &packet, OUTSIDE, INSIDE).verdict, Verdict::Pass);
    let connection = fw.connections().next().unwrap();
    assert_eq!((connection.parent, connection.rule, fw.counts()[0].connections), (Some(parent), Some(0), 1));
    // With the connections of another file's rules, its own are sent again.
    fw.tell_changes(10);
    swap(&mut fw, ruleset(text));
    assert!(fw.changes(SECOND, 10, &mut |_, _| {}));
    assert_eq!(owned(&mut fw, SECOND), [ConnectionRecord { idle_ms: 0, ..announced }.to_bytes().to_vec()]);
}

#[test]
fn connections_with_the_router_itself_stay_with_it() {
    let mut fws = pair("accept\n");
    for zones in [[INSIDE, SELF], [SELF, OUTSIDE]] {
        let [from, to] = zones;
        assert_eq!(fws[0].judge(0, &udp(HERE, THERE), from, to).verdict, Verdict::Pass);
        assert_eq!(fws[0].judge(0, &udp(THERE, HERE), to, from).verdict, Verdict::Pass);
        assert_eq!((fws[0].changes_waiting(), owned(&mut fws[0], 0).len(), fws[0].len()), (0, 0, 1));
        let own = fws[0].zones.lasting(SELF);
        assert_eq!(own, zones::OWN);
        end(&mut fws[0], |_| true);
    }
    open(&mut fws[0], 0);
    let one = ConnectionRecord::from_bytes(&owned(&mut fws[0], 0)[0]).unwrap();
    let own = ConnectionRecord { zones: [crate::record::name_number("self"), one.zones[1]], ..one };
    assert_eq!(fws[1].apply(0, Op::Put, &own.to_bytes()), Err(NotTaken::Policy));
}

#[test]
fn each_state_is_reported_and_the_next_connection_of_a_port_prevails() {
    let mut fws = pair(RULES);
    open(&mut fws[0], 0);
    assert_eq!(fws[0].changes_waiting(), 1);
    let state = |fw: &Firewall| fw.connections().next().unwrap().state;
    carry(&mut fws, 0);
    assert_eq!(leaves(&mut fws[0], 0, ACK | FIN, 101, 901), Verdict::Pass);
    carry(&mut fws, 0);
    assert_eq!(state(&fws[1]), State::HalfClosed);
    // The other side ends through the other router.
    assert_eq!(comes(&mut fws[1], 0, ACK | FIN, 901, 102), Verdict::Pass);
    assert_eq!(leaves(&mut fws[1], 0, ACK, 102, 902), Verdict::Pass);
    assert_eq!(state(&fws[1]), State::Closed);
    carry(&mut fws, 0);
    // The same ports are used at once through the first router, where the old connection is silent, and not for long.
    assert_eq!(leaves(&mut fws[1], 0, SYN, 5_000_000, 0), Verdict::Pass);
    assert_eq!(comes(&mut fws[1], 0, SYN | ACK, 900, 5_000_001), Verdict::Pass);
    assert_eq!(leaves(&mut fws[1], 0, ACK, 5_000_001, 901), Verdict::Pass);
    assert!(carry(&mut fws, 0).is_empty());
    assert_eq!([0, 1].map(|n| (fws[n].len(), state(&fws[n]))), [(1, State::Open); 2]);
    assert_eq!(comes(&mut fws[0], 0, ACK, 901, 5_000_001), Verdict::Pass);
}

#[test]
fn packets_may_change_their_way_back_and_forth() {
    let mut fws = pair(RULES);
    open(&mut fws[0], 0);
    carry(&mut fws, 0);
    // Soon through the other one, and then back after much has been sent.
    assert_eq!(comes(&mut fws[1], 1, ACK, 901, 101), Verdict::Pass);
    carry(&mut fws, 1);
    assert_eq!((mirrored(&fws[0]), mirrored(&fws[1])), (0, 0), "both have seen packets just now");
    assert_eq!(comes(&mut fws[0], 60 * SECOND, ACK, 500_000_000, 700_000_000), Verdict::Pass);
    carry(&mut fws, 60 * SECOND);
    // Each direction through another one, for as long as it likes, up to its end.
    for n in 1..100 {
        let (here, there) = (700_000_000 + n * 1_000_000, 500_000_000 + n * 1_000_000);
        assert_eq!(leaves(&mut fws[0], 60 * SECOND, ACK, here, there), Verdict::Pass);
        assert_eq!(comes(&mut fws[1], 60 * SECOND, ACK, there, here), Verdict::Pass);
        carry(&mut fws, 60 * SECOND);
    }
    assert_eq!(leaves(&mut fws[0], 60 * SECOND, ACK | FIN, 800_000_000, 600_000_000), Verdict::Pass);
    assert_eq!(comes(&mut fws[1], 60 * SECOND, ACK | FIN, 600_000_000, 800_000_000), Verdict::Pass);
    assert!(carry(&mut fws, 60 * SECOND).is_empty());
    assert_eq!([0, 1].map(|n| fws[n].connections().next().unwrap().state), [State::Closed; 2]);
    // Each ends it by its own clock.
    for fw in &mut fws {
        fw.reap(1000 * SECOND, 100);
    }
    carry(&mut fws, 1000 * SECOND);
    assert_eq!([0, 1].map(|n| fws[n].len()), [0; 2]);
}

#[test]
fn the_time_of_a_source_is_over_when_its_connection_is() {
    let mut fws = pair("accept from inside to outside tcp max-per-source 1\n");
    open(&mut fws[0], 0);
    carry(&mut fws, 0);
    let syn = tcp(("10.0.0.1", 4001), THERE, SYN, 5, 0);
    let judged = |fw: &mut Firewall| fw.judge(SECOND, &syn, INSIDE, OUTSIDE).verdict;
    assert_eq!(judged(&mut fws[1]), Verdict::Drop(Cause::SourceLimit));
    assert_eq!(leaves(&mut fws[0], 0, RST, 101, 0), Verdict::Pass);
    carry(&mut fws, 0);
    assert_eq!(fws[1].connections().next().unwrap().state, State::Reset);
    assert_eq!(judged(&mut fws[1]), Verdict::Pass);
}

#[test]
fn a_peer_that_is_gone_and_changes_that_are_lost() {
    let mut fws = pair(RULES);
    for port in 1..21 {
        fws[0].judge(0, &udp(("10.0.0.1", port), THERE), INSIDE, OUTSIDE);
        fws[0].judge(0, &udp(THERE, ("10.0.0.1", port)), OUTSIDE, INSIDE);
    }
    open(&mut fws[0], 0);
    carry(&mut fws, 0);
    assert_eq!(mirrored(&fws[1]), 21);
    fws[1].reap(100_000 * SECOND, 1000);
    assert_eq!(fws[1].len(), 21);
    // Some end, and the peer does not hear of it.
    end(&mut fws[0], |one| one.ports[0] < 6);
    fws[0].tell_changes(2);
    end(&mut fws[0], |one| one.ports[0] < 11);
    assert!(fws[0].changes(SECOND, 100, &mut |_, _| {}));
    walk(&mut fws[1], SECOND, Pass::Mark);
    for record in owned(&mut fws[0], SECOND) {
        fws[1].apply(SECOND, Op::Put, &record).unwrap();
    }
    walk(&mut fws[1], SECOND, Pass::Sweep);
    assert_eq!((fws[0].len(), fws[1].len(), mirrored(&fws[1])), (11, 11, 11));
    fws[1].leave_peer(SECOND);
    assert_eq!((mirrored(&fws[1]), fws[1].tells_changes()), (0, false));
    fws[1].reap(100_000 * SECOND, 1000);
    assert_eq!((fws[1].len(), fws[1].counts()[0].connections), (0, 0));
}
