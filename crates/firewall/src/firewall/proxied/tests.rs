// SPDX-License-Identifier: MIT OR Apache-2.0

use statesync::Table as _;

use super::super::tests::{INSIDE, OUTSIDE, PASS, REFUSED, SECOND, firewall, ip};
use super::*;
use crate::firewall::Firewall;

const RULES: &str = "accept from outside to inside tcp port 80 synproxy name shop\n";
const CLIENT: [&str; 2] = ["192.0.2.7", "2001:db8:1::7"];
const SERVER: [&str; 2] = ["10.0.0.9", "2001:db8::9"];
const ANSWERED: Verdict = Verdict::Answered;

fn ends(six: bool) -> Ends {
    [(CLIENT[usize::from(six)].parse().unwrap(), 4000), (SERVER[usize::from(six)].parse().unwrap(), 80)]
}

fn segment(
    ends: Ends,
    flags: u8,
    sequence: u32,
    acknowledgement: u32,
    window: u16,
    options: Options,
) -> Made {
    Made { ends, flags, sequence, acknowledgement, window, options }
}

fn bytes(made: &Made, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; made.length()];
    made.write(&mut bytes).unwrap();
    let at = made.header_length();
    let [source, destination] = made.ends.map(|(address, _)| address.to_string());
    ip(6, &source, &destination, &[&bytes[at..], data].concat())
}

/// Judges a segment of the client or the server, and says what it has become. What goes back to its sender leaves as the router's own: it passes, and changes nothing.
fn give(
    fw: &mut Firewall,
    now: u64,
    made: &Made,
    data: &[u8],
) -> (Verdict, Option<Made>, Option<Made>, Vec<u8>) {
    let is_client = made.ends[0].1 == 4000;
    let (from, to) = if is_client { (OUTSIDE, INSIDE) } else { (INSIDE, OUTSIDE) };
    let mut packet = bytes(made, data);
    let rehearsed = fw.rehearse(now, &packet, from, to).verdict;
    let verdict = fw.judge(now, &packet, from, to).verdict;
    assert_eq!(rehearsed, verdict, "{made:?}");
    let steps = *fw.steps();
    if let Some(made) = steps.back {
        let known = |fw: &Firewall| (fw.counts(), fw.connections().collect::<Vec<_>>());
        let before = known(fw);
        let decision = fw.judge(now, &bytes(&made, b""), SELF, from);
        assert_eq!((decision.verdict, decision.is_proxied, decision.logs), (PASS, false, false), "{made:?}");
        assert_eq!(known(fw), before, "{made:?}");
    }
    if let Some(translation) = steps.shift {
        translation.apply(&mut packet).unwrap();
    }
    (verdict, steps.onward, steps.back, packet)
}

const ALL: Options = Options { mss: Some(1400), scale: Some(9), sack: true, stamps: Some([500, 0]) };

/// Opens a connection through the firewall; returns what the server's numbers differ by, and the client's next numbers.
fn open(fw: &mut Firewall, six: bool, theirs: Options) -> (u32, [u32; 2]) {
    let ends = ends(six);
    let (verdict, onward, answer, _) = give(fw, 0, &segment(ends, SYN, 100, 0, 1000, ALL), b"");
    assert_eq!((verdict, onward, fw.len()), (ANSWERED, None, 0));
    let answer = answer.unwrap();
    assert_eq!((answer.ends, answer.flags, answer.window), (back(ends), SYN | ACK, 0));
    assert_eq!((answer.acknowledgement, answer.options.scale, answer.options.sack), (101, Some(7), true));
    let [cookie_stamp, echo] = answer.options.stamps.unwrap();
    assert_eq!((echo, answer.options.mss), (500, Some(if six { 1440 } else { 1460 })));
    let stamps = Options { stamps: Some([501, cookie_stamp]), ..Options::default() };
    let cookie = answer.sequence;
    let proof = segment(ends, ACK, 101, cookie.wrapping_add(1), 3, stamps);
    let (verdict, syn, none, _) = give(fw, SECOND, &proof, b"");
    let syn = syn.unwrap();
    assert_eq!((verdict, none, fw.len(), syn.ends, syn.flags), (ANSWERED, None, 1, ends, SYN));
    assert_eq!((syn.sequence, syn.window, syn.options.stamps), (100, 3 << 9, Some([501, 0])));
    assert_eq!((syn.options.mss, syn.options.scale, syn.options.sack), (Some(1340), Some(9), true));
    // The client probes the closed window: the server is asked once more.
    let probe = segment(ends, ACK, 100, cookie.wrapping_add(1), 3, stamps);
    assert_eq!(give(fw, SECOND, &probe, b"").1, Some(syn));
    let accepts = segment(back(ends), SYN | ACK, 0xffff_fff0, 101, 64_000, theirs);
    let (verdict, window, acknowledges, _) = give(fw, SECOND, &accepts, b"");
    assert_eq!(verdict, ANSWERED);
    let (window, acknowledges) = (window.unwrap(), acknowledges.unwrap());
    assert_eq!((window.ends, window.flags, window.sequence), (back(ends), ACK, cookie.wrapping_add(1)));
    assert_eq!((window.acknowledgement, window.window), (101, 64_000 >> 7));
    assert_eq!((acknowledges.ends, acknowledges.flags, acknowledges.sequence), (ends, ACK, 101));
    assert_eq!(acknowledges.acknowledgement, 0xffff_fff1);
    if let Some([value, _]) = theirs.stamps {
        assert_eq!(window.options.stamps, Some([cookie_stamp, 501]));
        assert_eq!(acknowledges.options.stamps, Some([501, value]));
    }
    // What the firewall sends itself passes as it is.
    let packet = bytes(&acknowledges, b"");
    assert_eq!(fw.judge(SECOND, &packet, SELF, INSIDE).verdict, PASS);
    assert_eq!(fw.steps().shift, None);
    (cookie.wrapping_sub(0xffff_fff0), [101, cookie.wrapping_add(1)])
}

fn view(six: bool, packet: &[u8]) -> (u32, u32, u16) {
    let view = wire::tcp::View::new_checked(&packet[if six { 40 } else { 20 }..]).unwrap();
    (view.seq(), view.ack(), view.window())
}

#[test]
fn servers_see_clients_that_have_proved_their_address() {
    for six in [false, true] {
        for (theirs, from_server, from_client) in [
            (Options { mss: Some(1460), scale: Some(10), sack: true, stamps: Some([9000, 501]) }, 160, 20),
            // A server that does not scale.
            (Options { stamps: Some([9000, 501]), ..Options::default() }, 20 >> 7, 20 << 9),
        ] {
            let mut fw = firewall(RULES);
            let (shift, [mine, next]) = open(&mut fw, six, theirs);
            let none = Options::default();
            let data = segment(ends(six), ACK, mine, next, 20, none);
            let (verdict, .., packet) = give(&mut fw, SECOND, &data, b"GET /");
            assert_eq!((verdict, view(six, &packet)), (PASS, (mine, 0xffff_fff1, from_client)));
            let data = segment(back(ends(six)), ACK, 0xffff_fff1, mine + 5, 20, none);
            let (verdict, .., packet) = give(&mut fw, SECOND, &data, b"ok");
            let translated = 0xffff_fff1u32.wrapping_add(shift);
            assert_eq!((verdict, view(six, &packet)), (PASS, (translated, mine + 5, from_server)));
            assert_eq!(translated, next);
            let connection = fw.connections().next().unwrap();
            assert_eq!((connection.state, connection.rule), (State::Open, Some(0)));
            assert_eq!(fw.synproxy(SECOND), (true, ProxyCounts { sent: 1, right: 1, wrong: 0, opened: 1 }));
            // Numbers of the other side do not belong.
            let data = segment(ends(six), ACK, mine + 5, 0xffff_fff3, 20, none);
            assert_eq!(give(&mut fw, SECOND, &data, b"x").0, Verdict::Drop(Cause::Window));
        }
    }
}

#[test]
fn guesses_make_no_connection() {
    let mut fw = firewall(RULES);
    let proof = |acknowledgement| segment(ends(false), ACK, 101, acknowledgement, 3, Options::default());
    // Nobody was sent a cookie: it is an ordinary stray.
    assert_eq!(give(&mut fw, 0, &proof(5), b"").0, Verdict::Drop(Cause::NoConnection));
    assert_eq!(fw.synproxy(0).1.wrong, 0);
    let (_, _, answer, _) = give(&mut fw, 0, &segment(ends(false), SYN, 100, 0, 9, Options::default()), b"");
    let cookie = answer.unwrap().sequence;
    assert_eq!(answer.unwrap().options, Options { mss: Some(1460), ..Options::default() });
    for wrong in [cookie, cookie.wrapping_add(2), 7] {
        assert_eq!(give(&mut fw, 0, &proof(wrong), b"").0, Verdict::Drop(Cause::NoConnection));
    }
    let late = GOOD_NS;
    assert_eq!(
        give(&mut fw, late, &proof(cookie.wrapping_add(1)), b"").0,
        Verdict::Drop(Cause::NoConnection)
    );
    assert_eq!((fw.len(), fw.synproxy(0).1.wrong), (0, 3));
    assert_eq!(give(&mut fw, SECOND, &proof(cookie.wrapping_add(1)), b"").0, ANSWERED);
    assert_eq!((fw.len(), fw.counts()[0].packets), (1, 1));
    // Other ports are not for the rule.
    let mut other = segment(ends(false), SYN, 100, 0, 9, Options::default());
    other.ends[1].1 = 81;
    assert_eq!(give(&mut fw, 0, &other, b"").0, REFUSED);
}

#[test]
fn a_flood_keeps_nothing() {
    let mut fw = firewall(RULES);
    for n in 0..50_000u32 {
        let mut syn = segment(ends(false), SYN, n, 0, 9, ALL);
        syn.ends[0] = (std::net::Ipv4Addr::from(0xc000_0000 + n).into(), 4000);
        assert_eq!(give(&mut fw, 0, &syn, b"").0, ANSWERED);
    }
    assert_eq!((fw.len(), fw.synproxy(0).1.sent), (0, 50_000));
}

#[test]
fn a_server_may_refuse_or_know_an_older_connection() {
    let mut fw = firewall(RULES);
    let ends = ends(false);
    let none = Options::default();
    let (_, _, answer, _) = give(&mut fw, 0, &segment(ends, SYN, 100, 0, 9, none), b"");
    let cookie = answer.unwrap().sequence;
    give(&mut fw, 0, &segment(ends, ACK, 101, cookie.wrapping_add(1), 9, none), b"");
    let (verdict, onward, reset, _) = give(&mut fw, 0, &segment(back(ends), ACK, 55, 66, 9, none), b"");
    assert_eq!((verdict, onward), (ANSWERED, None));
    assert_eq!((reset.unwrap().ends, reset.unwrap().flags, reset.unwrap().sequence), (ends, RST, 66));
    let (verdict, reset, none_back, _) =
        give(&mut fw, 0, &segment(back(ends), RST | ACK, 0, 101, 0, none), b"");
    let reset = reset.unwrap();
    assert_eq!((verdict, none_back, reset.flags), (ANSWERED, None, RST | ACK));
    assert_eq!((reset.sequence, reset.acknowledgement), (cookie.wrapping_add(1), 101));
    assert_eq!(fw.connections().next().unwrap().state, State::Reset);
    // It may try again.
    assert_eq!(give(&mut fw, 0, &segment(ends, SYN, 900, 0, 9, none), b"").0, ANSWERED);
}

#[test]
fn a_client_that_has_forgotten_begins_anew() {
    let mut fw = firewall(RULES);
    open(&mut fw, false, Options { scale: Some(7), stamps: Some([9000, 501]), ..Options::default() });
    let (_, _, answer, _) = give(&mut fw, SECOND, &segment(ends(false), SYN, 77_000_000, 0, 9, ALL), b"");
    let answer = answer.unwrap();
    let stamps = answer.options.stamps.map(|[value, _]| [900, value]);
    let proof = segment(
        ends(false),
        ACK,
        77_000_001,
        answer.sequence.wrapping_add(1),
        9,
        Options { stamps, ..Options::default() },
    );
    let (verdict, syn, ..) = give(&mut fw, SECOND, &proof, b"");
    assert_eq!((verdict, syn.unwrap().sequence, fw.len()), (ANSWERED, 77_000_000, 1));
}

#[test]
fn a_copy_of_the_syn_is_answered_while_the_server_is_asked() {
    // Rules for everything else refuse and log.
    for rest in ["", "drop log\n", "reject\n", "default drop log\n"] {
        let mut fw = firewall(&format!("{RULES}{rest}"));
        let (ends, none) = (ends(false), Options::default());
        let syn = segment(ends, SYN, 100, 0, 9, none);
        let cookie = give(&mut fw, 0, &syn, b"").2.unwrap().sequence;
        let proof = segment(ends, ACK, 101, cookie.wrapping_add(1), 9, none);
        assert_eq!(give(&mut fw, 0, &proof, b"").0, ANSWERED);
        assert_eq!(give(&mut fw, 0, &syn, b"").2.unwrap().sequence, cookie);
        assert_eq!(fw.synproxy(0).1.opened, 0);
        let accepts = segment(back(ends), SYN | ACK, 7000, 101, 64_000, none);
        let (verdict, window, acknowledges, _) = give(&mut fw, 0, &accepts, b"");
        assert_eq!((verdict, acknowledges.unwrap().acknowledgement), (ANSWERED, 7001));
        assert_eq!(window.unwrap().sequence, cookie.wrapping_add(1));
        assert_eq!(fw.synproxy(0).1.opened, 1);
        // What the router says without a cookie of its own is for the rules.
        let made_up = segment(back(ends), SYN | ACK, cookie ^ 1, 102, 0, none);
        let mut other = made_up;
        other.ends[1].1 = 4001;
        let decision = fw.judge(0, &bytes(&other, b""), SELF, OUTSIDE);
        assert_eq!(decision.verdict == PASS, !(rest.starts_with("drop") || rest == "reject\n"), "{rest}");
    }
}

/// A client logs in by the firewall, and asks the server to wait at a port. Returns the reset of the client.
fn log_in(fw: &mut Firewall, first: u32, port: u8) -> Made {
    let ends = [(CLIENT[0].parse().unwrap(), 4000), (SERVER[0].parse().unwrap(), 21)];
    let none = Options::default();
    let cookie = give(fw, 0, &segment(ends, SYN, first, 0, 9000, none), b"").2.unwrap().sequence;
    let server = first ^ 0x7000_0000;
    let mut numbers = [first + 1, cookie.wrapping_add(1)];
    give(fw, 0, &segment(ends, ACK, numbers[0], numbers[1], 9000, none), b"");
    give(fw, 0, &segment(back(ends), SYN | ACK, server, numbers[0], 64_000, none), b"");
    let shift = server.wrapping_sub(cookie);
    let waits = format!("227 (10,0,0,9,4,{port})\r\n");
    for (of_server, text) in [(1, "220 hello\r\n"), (0, "USER me\r\n"), (0, "PASV\r\n"), (1, waits.as_str())]
    {
        let data = match of_server {
            0 => segment(ends, ACK, numbers[0], numbers[1], 9000, none),
            _ => segment(back(ends), ACK, numbers[1].wrapping_add(shift), numbers[0], 64_000, none),
        };
        assert_eq!(give(fw, 0, &data, text.as_bytes()).0, PASS, "{text}");
        numbers[of_server] = numbers[of_server].wrapping_add(text.len() as u32);
    }
    segment(ends, RST, numbers[0], 0, 0, none)
}

#[test]
fn the_same_ports_have_another_control_connection() {
    let mut fw = firewall("accept from outside to inside tcp port 21 synproxy\n");
    // The second one has smaller numbers.
    for (first, port) in [(90_000_000, 1), (100, 2)] {
        let reset = log_in(&mut fw, first, port);
        let mut data = segment(ends(false), SYN, 9, 0, 9, Options::default());
        data.ends[1].1 = 1024 + u16::from(port);
        assert_eq!(fw.judge(0, &bytes(&data, b""), OUTSIDE, INSIDE).verdict, PASS, "{port}");
        assert_eq!(give(&mut fw, 0, &reset, b"").0, PASS);
    }
}

#[test]
fn errors_quote_what_the_server_knows() {
    for six in [false, true] {
        let mut fw = firewall(RULES);
        let theirs = Options { scale: Some(7), stamps: Some([9000, 501]), ..Options::default() };
        let (shift, _) = open(&mut fw, six, theirs);
        // The server's SYN-ACK, as the client's side has it.
        let known = 0xffff_fff0u32;
        let quoted = segment(back(ends(six)), ACK, known.wrapping_add(shift), 101, 9, Options::default());
        let mut message = vec![if six { 2 } else { 3 }, if six { 0 } else { 4 }, 0, 0, 0, 0, 5, 0];
        message.extend(&bytes(&quoted, b""));
        let protocol = if six { 58 } else { 1 };
        let mut error = ip(protocol, CLIENT[usize::from(six)], SERVER[usize::from(six)], &message);
        let decision = fw.judge(SECOND, &error, OUTSIDE, INSIDE);
        assert_eq!((decision.verdict, decision.is_proxied), (PASS, true));
        let before = wire::checksum::sum(&error);
        fw.steps().shift.unwrap().apply(&mut error).unwrap();
        let at = if six { 40 + 8 + 40 + 4 } else { 20 + 8 + 20 + 4 };
        assert_eq!(error[at..at + 4], known.to_be_bytes());
        // The checksum has taken the difference.
        assert_eq!(wire::checksum::sum(&error) % u16::MAX, before % u16::MAX);
    }
}

#[test]
fn above_a_threshold_only() {
    let mut fw = firewall(&format!("{RULES}synproxy above 10/s\n"));
    let syn = |fw: &mut Firewall, now: u64, n: u16| {
        let mut syn = segment(ends(false), SYN, 9, 0, 9, ALL);
        syn.ends[0].1 = n;
        let rehearsed = fw.rehearse(now, &bytes(&syn, b""), OUTSIDE, INSIDE).verdict;
        let verdict = fw.judge(now, &bytes(&syn, b""), OUTSIDE, INSIDE).verdict;
        assert_eq!(rehearsed, verdict, "{now} {n}");
        verdict
    };
    for n in 0..10 {
        assert_eq!(syn(&mut fw, 0, n), PASS);
    }
    assert_eq!((syn(&mut fw, 0, 10), fw.synproxy(0).0), (ANSWERED, true));
    // Few SYNs for nine seconds are not enough, and many begin the count anew. The clock of another worker may be earlier.
    for (second, count, expected) in [
        (1, 3, ANSWERED),
        (9, 8, ANSWERED),
        (8, 1, ANSWERED),
        (10, 1, ANSWERED),
        (19, 1, ANSWERED),
        (20, 1, PASS),
    ] {
        for n in 0..count {
            let found = syn(&mut fw, second * SECOND, 100 * second as u16 + n);
            assert_eq!(found, expected, "second {second}");
        }
        if second == 19 {
            // No SYN says so.
            assert_eq!([19, 20].map(|second| fw.synproxy(second * SECOND).0), [true, false]);
        }
    }
    assert!(!fw.synproxy(20 * SECOND).0);
}

#[test]
fn another_firewall_goes_on_with_the_numbers_of_both() {
    for six in [false, true] {
        let [mut one, mut two] = [(); 2].map(|()| firewall(RULES));
        one.tell_changes(10);
        let theirs = Options { mss: Some(1460), scale: Some(10), sack: true, stamps: Some([9000, 501]) };
        let (_, [mine, next]) = open(&mut one, six, theirs);
        let mut told = Vec::new();
        assert!(!one.changes(SECOND, 10, &mut |op, record| told.push((op, record.to_vec()))));
        assert_eq!(told.len(), 1, "once, when its server has accepted");
        two.apply(SECOND, told[0].0, &told[0].1).unwrap();
        let none = Options::default();
        for made in [
            segment(ends(six), ACK, mine, next, 20, none),
            segment(back(ends(six)), ACK, 0xffff_fff1, mine + 5, 20, none),
            segment(ends(six), ACK, mine + 5, next + 2, 20, none),
        ] {
            let [before, after] = [&mut one, &mut two].map(|fw| give(fw, SECOND, &made, b"hello"));
            assert_eq!((before.0, &before), (PASS, &after));
        }
        // Numbers of the other side do not belong.
        let data = segment(ends(six), ACK, mine + 5, 0xffff_fff3, 20, none);
        assert_eq!(give(&mut two, SECOND, &data, b"x").0, Verdict::Drop(Cause::Window));
    }
}
