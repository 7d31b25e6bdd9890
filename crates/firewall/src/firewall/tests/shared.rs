// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batches of which the most part passes with a shared reference, compared with packets one after the other.

use sync::read_mostly::ReadMostly;

use super::*;
use crate::track::RST;

/// A packet and its zones.
type Given = (Vec<u8>, u8, u8);

fn look(fw: &Firewall, packets: &[Given]) -> Vec<Ahead> {
    let mut ahead = Vec::new();
    fw.look_ahead(
        packets.iter().map(|(ip, from, to)| Arrival {
            ip: &ip[..],
            from: *from,
            to: *to,
            vrfs: [0; 2],
            mac: None,
        }),
        &mut ahead,
    );
    ahead
}

/// A batch as the element sends it through: first what needs no exclusive reference, then the others. Returns how many were of the first kind, too.
fn batch(fw: &mut Firewall, hits: &mut Hits, now: u64, packets: &[Given]) -> (Vec<Decision>, usize) {
    fw.collect(hits);
    if fw.is_due(now) {
        fw.reap(now, 1000);
    }
    let ahead = look(fw, packets);
    let mut put_off = PutOff::default();
    let first: Vec<_> = ahead.iter().map(|ahead| fw.decide_shared(now, ahead, hits, &mut put_off)).collect();
    let shared = first.iter().flatten().count();
    if shared < first.len() {
        fw.reap(now, 1000);
    }
    let all = first.into_iter().zip(&ahead).zip(packets);
    let decisions =
        all.map(|((first, ahead), (ip, ..))| first.unwrap_or_else(|| fw.judge_ahead(now, ahead, ip)));
    let decisions = decisions.collect();
    fw.collect(hits);
    (decisions, shared)
}

fn in_turn(fw: &mut Firewall, now: u64, packets: &[Given]) -> Vec<Decision> {
    fw.reap(now, 1000);
    packets.iter().map(|(ip, from, to)| fw.judge(now, ip, *from, *to)).collect()
}

/// All that is known of connections, and what rules have decided.
fn left(fw: &Firewall) -> (Vec<String>, Vec<Counts>) {
    let mut all: Vec<String> = fw.connections().map(|one| format!("{one:?}")).collect();
    all.sort();
    (all, fw.counts())
}

/// The numbers of all connections of TCP.
fn numbers(fw: &Firewall) -> Vec<String> {
    let four = fw.four.table.iter().map(|(_, flow)| format!("{:?} {:?}", flow.forward, flow.value.track));
    let six = fw.six.table.iter().map(|(_, flow)| format!("{:?} {:?}", flow.forward, flow.value.track));
    let mut all: Vec<String> = four.chain(six).collect();
    all.sort();
    all
}

fn fragment(mut ip: Vec<u8>, offset: u16) -> Vec<u8> {
    let [high, low] = (0x2000 | offset).to_be_bytes();
    (ip[6], ip[7]) = (high, low);
    ip
}

/// A packet between few hosts and ports, with numbers that often fit.
fn any(rng: &mut Rng) -> Given {
    let six = rng.below(4) == 0;
    let [host, server] = match six {
        false => [format!("10.0.0.{}", rng.below(4)), format!("192.0.2.{}", rng.below(3))],
        true => [format!("2001:db8::{}", rng.below(4)), format!("2001:db8:1::{}", rng.below(3))],
    };
    let (mine, theirs) = (1000 + rng.below(4) as u16, [21, 53, 80, 443, 8080][rng.below(5)]);
    let leaves = rng.below(2) == 0;
    let ends = [(host.as_str(), mine), (server.as_str(), theirs)];
    let [from, to] = if leaves { ends } else { [ends[1], ends[0]] };
    let flags = [SYN, SYN | ACK, ACK, ACK, ACK, ACK, ACK, FIN | ACK, RST, RST | ACK, 0][rng.below(11)];
    let numbers = [0, 0].map(|_: u32| 100 + rng.below(3) as u32);
    let segment = tcp(from, to, flags, numbers[0], numbers[1]);
    let bytes = match rng.below(12) {
        0..=5 => segment,
        6..=8 => udp(from, to),
        9 => ping(from.0, to.0, rng.below(2) == 0, mine),
        10 => error(from.0, to.0, &tcp(to, from, ACK, numbers[1], 0)),
        _ if six => udp(from, to),
        _ => fragment(segment, rng.below(2) as u16 * 3),
    };
    let zones = if leaves { [INSIDE, OUTSIDE] } else { [OUTSIDE, INSIDE] };
    (bytes, zones[0], zones[1])
}

/// Numbers that look random.
struct Rng(u64);

impl Rng {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

const POLICIES: [&str; 5] = [
    "accept from inside to outside\ndrop from outside udp\nreject from outside\ntimeout udp-single 20s",
    "set good 10.0.0.1 192.0.2.1 2001:db8::1\naccept src @good\naccept from inside port 80,21 max-per-source 2\nreject",
    "accept from inside udp limit 1/s burst 3\naccept from inside stateless dst 192.0.2.2\naccept from inside log\ndefault drop log",
    "accept from inside tcp synproxy\naccept from inside new-per-source 1/s burst 4\nsynproxy above 3/s\naccept from outside ping",
    "accept stateless udp\naccept\nalg tftp on\ntimeout tcp-reset 3s\nconnections 16777216",
];

#[test]
fn batches_do_as_packets_in_turn() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 400 };
    let mut rng = Rng(5);
    for text in POLICIES {
        let (mut one, mut other, mut hits) = (firewall(text), firewall(text), Hits::default());
        let (mut now, mut shared, mut all) = (SECOND, 0, 0);
        for round in 0..ROUNDS {
            now += rng.below(2 * SECOND as usize) as u64;
            let mut packets: Vec<Given> = (0..1 + rng.below(11)).map(|_| any(&mut rng)).collect();
            if rng.below(3) == 0 {
                // One after the other of the same connection.
                let again = packets[0].clone();
                packets.extend([again.clone(), any(&mut rng), again]);
            }
            let (decisions, passed) = batch(&mut one, &mut hits, now, &packets);
            let expected = in_turn(&mut other, now, &packets);
            assert_eq!(decisions, expected, "{text}: {round}");
            if round % 4 == 0 {
                assert_eq!((left(&one), numbers(&one)), (left(&other), numbers(&other)), "{text}: {round}");
            }
            (shared, all) = (shared + passed, all + packets.len());
            if round % 100 == 99 {
                // The same rules again, in another order of slots.
                for fw in [&mut one, &mut other] {
                    swap(fw, ruleset(&format!("drop from outside to inside udp port 7\n{text}")));
                    swap(fw, ruleset(text));
                }
            }
        }
        assert!(shared * 20 > all, "{text}: {shared} of {all}");
    }
}

/// A connection that both sides have agreed on.
fn opened(fw: &mut Firewall, host: (&str, u16), server: (&str, u16)) {
    for (segment, from, to) in [
        (tcp(host, server, SYN, 100, 0), INSIDE, OUTSIDE),
        (tcp(server, host, SYN | ACK, 900, 101), OUTSIDE, INSIDE),
        (tcp(host, server, ACK, 101, 901), INSIDE, OUTSIDE),
    ] {
        assert_eq!(fw.judge(SECOND, &segment, from, to).verdict, PASS);
    }
}

#[test]
fn packets_behind_one_that_was_put_off_wait_for_it() {
    let (mut fw, mut hits) = (firewall("accept from inside to outside"), Hits::default());
    let (host, server) = (("10.0.0.2", 4000), ("192.0.2.1", 80));
    let given = |flags| (tcp(host, server, flags, 101, 901), INSIDE, OUTSIDE);
    let check = |fw: &mut Firewall, hits: &mut Hits, packets: &[Given], shared, verdicts: &[Verdict]| {
        let (decisions, passed) = batch(fw, hits, SECOND, packets);
        assert_eq!(passed, shared);
        assert_eq!(decisions.iter().map(|one| one.verdict).collect::<Vec<_>>(), verdicts);
    };
    // Data behind the SYN of its connection, and packets without one behind that.
    let syn = (tcp(host, server, SYN, 100, 0), INSIDE, OUTSIDE);
    let answer = (tcp(server, host, SYN | ACK, 900, 101), OUTSIDE, INSIDE);
    let refused = (udp(server, host), OUTSIDE, INSIDE);
    let all = [refused.clone(), syn, answer, given(ACK), refused];
    check(&mut fw, &mut hits, &all, 1, &[REFUSED, PASS, PASS, PASS, REFUSED]);
    check(&mut fw, &mut hits, &vec![given(ACK); 4], 4, &[PASS; 4]);
    // A reset, and what comes after it.
    let all = [given(ACK), given(RST), given(ACK)];
    check(&mut fw, &mut hits, &all, 1, &[PASS, PASS, PASS]);
    assert_eq!(fw.connections().next().map(|one| one.state), Some(State::Reset));
    assert_eq!(fw.counts().last().map(|counts| counts.packets), Some(2));
}

/// Two workers have one direction each of the same connections, a third one has both, and a fourth begins and ends other connections.
#[test]
fn workers_decide_side_by_side() {
    const ROUNDS: u32 = if cfg!(miri) { 3 } else { 300 };
    const HOSTS: u16 = 20;
    let mut fw = firewall("accept from inside to outside\ndrop from outside");
    let (host, server) = (("10.0.0.2", 4000), ("192.0.2.1", 80));
    let own = ("10.0.0.3", 4000);
    for n in 0..HOSTS {
        opened(&mut fw, (host.0, host.1 + n), server);
        opened(&mut fw, (own.0, own.1 + n), server);
        let (asks, answers) = (udp((host.0, host.1 + n), server), udp(server, (host.0, host.1 + n)));
        assert_eq!(fw.judge(SECOND, &asks, INSIDE, OUTSIDE).verdict, PASS);
        assert_eq!(fw.judge(SECOND, &answers, OUTSIDE, INSIDE).verdict, PASS);
    }
    // Each side sends 10 bytes more in each round, and acknowledges what it may have got.
    let segments = |client: (&str, u16), leaves: bool, round: u32| -> Vec<Given> {
        let (begins, zones) =
            if leaves { ([101, 901], [INSIDE, OUTSIDE]) } else { ([901, 101], [OUTSIDE, INSIDE]) };
        let one = |n: u16| {
            let ends = [(client.0, client.1 + n), server];
            let [from, to] = if leaves { ends } else { [ends[1], ends[0]] };
            let segment = tcp(from, to, ACK, begins[0] + round, begins[1]);
            (segment, zones[0], zones[1])
        };
        (0..HOSTS).map(one).collect()
    };
    let mut all_hits = [(); 3].map(|()| Hits::default());
    all_hits.iter_mut().for_each(|hits| fw.collect(hits));
    let lock = ReadMostly::new(fw);
    std::thread::scope(|scope| {
        for (worker, hits) in all_hits.iter().enumerate() {
            let (mut reader, segments) = (lock.reader(), &segments);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut packets = match worker {
                        0 => segments(host, true, round),
                        1 => segments(host, false, round),
                        _ => [segments(own, true, round), segments(own, false, round)].concat(),
                    };
                    if worker < 2 {
                        let datagrams = (0..HOSTS).map(|n| (host.0, host.1 + n));
                        packets.extend(datagrams.map(|one| match worker {
                            0 => (udp(one, server), INSIDE, OUTSIDE),
                            _ => (udp(server, one), OUTSIDE, INSIDE),
                        }));
                    }
                    let refused = packets.len();
                    packets.push((udp(server, ("10.0.0.9", 1)), OUTSIDE, INSIDE));
                    let (now, mut put_off) = (SECOND + u64::from(round), PutOff::default());
                    let fw = reader.read();
                    for (n, ahead) in look(&fw, &packets).iter().enumerate() {
                        let mut decided = fw.decide_shared(now, ahead, hits, &mut put_off);
                        while decided.is_none() {
                            // Another worker has the numbers, and has been taken off its core.
                            std::thread::yield_now();
                            decided = fw.decide_shared(now, ahead, hits, &mut PutOff::default());
                        }
                        let expected = if n == refused { REFUSED } else { PASS };
                        assert_eq!(decided.map(|one| one.verdict), Some(expected), "{worker} {n}");
                    }
                }
            });
        }
        scope.spawn(|| {
            for n in 0..ROUNDS {
                let mut fw = lock.write();
                let (one, other) = (("10.0.0.4", n as u16), ("192.0.2.9", 9));
                assert_eq!(fw.judge(SECOND, &udp(one, other), INSIDE, OUTSIDE).verdict, PASS);
                let address = |text: &str| text.parse().unwrap();
                fw.end_of(0, address(one.0), address(other.0), UDP, [one.1, other.1]);
            }
        });
    });
    let mut fw = lock.write();
    all_hits.iter_mut().for_each(|hits| fw.collect(hits));
    assert_eq!(fw.len(), 3 * usize::from(HOSTS));
    for one in fw.connections() {
        let begins = if one.protocol == UDP { [1, 1] } else { [2, 1] };
        assert_eq!(one.packets, begins.map(|count| count + ROUNDS), "{one:?}");
        assert_eq!(one.state, State::Open);
    }
    assert_eq!(fw.counts()[1].packets, 3 * u64::from(ROUNDS));
}
