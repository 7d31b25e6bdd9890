// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames mixed with the test's: whose turn it is, when they leave, and what is said of those that do not.

use super::*;

/// What a device saw of a frame: its first byte, and when.
type Seen = Arc<Mutex<Vec<(u8, u64)>>>;

/// Forwards the test's frames, and notes all; additional frames begin with 0xfa to 0xff.
fn noting(seen: &Seen) -> impl FnMut(In) -> Out + Send + 'static {
    let seen = seen.clone();
    move |frame: In| {
        let first = frame.packet.data()[0];
        seen.lock().expect("not poisoned").push((first, frame.now_ns));
        if first >= 0xfa { Vec::new() } else { frame.after(0) }
    }
}

fn extra(first: &[u8], every: Every) -> Extra {
    Extra { frames: first.iter().map(|first| vec![*first; 60]).collect(), every }
}

/// The additional frames that were seen since the last call, each with how many nanoseconds after the first of the test's it came.
fn beside(seen: &Seen) -> Vec<(u8, i128)> {
    let all = std::mem::take(&mut *seen.lock().expect("not poisoned"));
    let (_, first) = *all.iter().find(|(first, _)| *first < 0xfa).expect("a frame of the test");
    let after = |(kind, ns): (u8, u64)| (kind, i128::from(ns) - i128::from(first));
    all.into_iter().filter(|(first, _)| *first >= 0xfa).map(after).collect()
}

#[test]
fn two_updates_alternate_from_one_trial_to_the_next() {
    let seen = Seen::default();
    let mut station = station(noting(&seen));
    let mut plan = station.plan().clone();
    plan.streams[0].extras = vec![extra(&[0xfa, 0xfb], Every::Update(MILLISECOND * 30))];
    station.replan(&plan).expect("a plan");
    for kind in [0xfa, 0xfb, 0xfa] {
        let detail = station.run(Trial::new(10_000.0, MILLISECOND * 10)).expect("a trial");
        let [(only, after)] = beside(&seen)[..] else { panic!("one in each short trial") };
        assert_eq!((only, detail.beside_unsent), (kind, 0));
        assert!(after <= 0, "before the first frame: {after}");
    }
    // Over twice the time between two there are three, and the next trial begins with the one whose turn it is.
    let long = |station: &mut Station| {
        let detail = station.run(Trial::new(10_000.0, MILLISECOND * 61)).expect("a trial");
        assert_eq!(detail.beside_unsent, 0);
        beside(&seen)
    };
    let kinds = |seen: &[(u8, i128)]| seen.iter().map(|(kind, _)| *kind).collect::<Vec<_>>();
    let ms = |seen: &[(u8, i128)]| -> Vec<i128> {
        seen.iter().map(|(_, ns)| (ns + 500_000).div_euclid(1_000_000)).collect()
    };
    let without = long(&mut station);
    assert_eq!((kinds(&without), ms(&without)), (vec![0xfb, 0xfa, 0xfb], vec![0, 30, 60]));
    // RFC 2544 C.2.3: the first one some time before the stream, the others among its frames.
    station.update_ahead(MILLISECOND * 5);
    let ahead = long(&mut station);
    assert_eq!((kinds(&ahead), ms(&ahead)), (vec![0xfa, 0xfb, 0xfa], vec![-5, 25, 55]));
    station.warm_up(Duration::ZERO).expect("an answer");
    let warm = beside(&seen);
    assert_eq!((kinds(&warm)[0], ms(&warm)[0]), (0xfb, 0), "a warm-up does not wait");
}

#[test]
fn frames_beside_the_tests_that_never_leave_are_counted() {
    let seen = Seen::default();
    let faulty = device(2, noting(&seen), Link::Up);
    let mut left = 3;
    // The first three are taken.
    faulty.takes(move |packet| {
        let is_test = packet.data()[0] < 0xfa;
        left -= i32::from(!is_test && left > 0);
        is_test || left > 0
    });
    let extras = vec![
        extra(&[0xfa], Every::Frames(100)),
        extra(&[0xfb], Every::Time(MILLISECOND * 10)),
        extra(&[0xfc], Every::Update(Duration::from_secs(30))),
    ];
    let streams = vec![Stream { extras, ..stream(1) }];
    let plan = Plan { streams, stragglers: MILLISECOND, ..Plan::default() };
    let mut station = station_at(&faulty, (0..2).map(|i| port(&faulty, i)).collect(), &plan);
    let trial = Trial::new(10_000.0, MILLISECOND * 100);
    let first = station.run(trial).expect("a trial");
    // Of the test's frames every hundredth has one before it, every ten milliseconds one comes, and one update.
    let taken = seen.lock().expect("not poisoned").iter().filter(|(first, _)| *first >= 0xfa).count() as u64;
    assert_eq!((first.counts.received, first.beside_unsent), (979, 21 - taken));
    assert!((1..=3).contains(&taken), "{taken}");
    assert_eq!(station.run(trial).expect("a trial").beside_unsent, 21);
}

#[test]
fn frames_beside_the_tests_take_the_place_of_others() {
    let seen = Seen::default();
    let mut station = station(noting(&seen));
    let mut plan = station.plan().clone();
    let mut run = |extras: Vec<Extra>, offer: Offer, ahead| {
        plan.streams[0].extras = extras;
        station.replan(&plan).expect("a plan");
        station.update_ahead(ahead);
        let detail = station.carry_out(Job::new(offer)).expect("a trial").detail;
        assert_eq!((detail.outcome.loss_ratio(), detail.beside_unsent), (0.0, 0));
        let beside = beside(&seen).len() as u64;
        (detail.outcome.intended + beside, beside)
    };
    let trial = |rate| Offer::from(Trial::new(rate, MILLISECOND * 100));
    let broadcast = || extra(&[0xfa], Every::Frames(99));
    let questions = || extra(&[0xfb], Every::Time(MILLISECOND * 9));
    let update = || extra(&[0xfc], Every::Update(MILLISECOND * 30));
    assert_eq!(run(vec![], trial(10_000.0), Duration::ZERO), (1000, 0));
    assert_eq!(run(vec![broadcast()], trial(10_000.0), Duration::ZERO), (1000, 10));
    assert_eq!(run(vec![questions()], trial(10_000.0), Duration::ZERO), (1000, 12));
    assert_eq!(run(vec![update()], trial(10_000.0), Duration::ZERO), (1000, 4));
    assert_eq!(run(vec![questions(), update(), update()], trial(10_000.0), Duration::ZERO), (1000, 20));
    // What has left before the stream has no place in it.
    assert_eq!(run(vec![update()], trial(10_000.0), MILLISECOND * 10), (1001, 4));
    assert_eq!(run(vec![broadcast()], Offer::Burst { rate: 1e5, frames: 200 }, Duration::ZERO), (200, 2));
    let steps = vec![
        Step { rate: 10_000.0, duration: MILLISECOND * 50 },
        Step { rate: 1000.0, duration: MILLISECOND * 50 },
    ];
    assert_eq!(run(vec![update()], Offer::Steps(steps), Duration::ZERO), (550, 4));
    // Half of the frames are the test's in any case.
    let own = [8.0, 5.0, 4.0].map(|frames| plan.tests_own(frames, MILLISECOND * 100, Duration::ZERO));
    assert_eq!(own, [4.0, 2.5, 2.0]);
}

/// As scapy encodes it: what 10.0.0.1 answers to a question of 10.0.0.2, with five values.
#[rustfmt::skip]
const ANSWER: [u8; 154] = [
    0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x08, 0x00, 0x45, 0x00,
    0x00, 0x8c, 0x00, 0x01, 0x00, 0x00, 0x40, 0x11, 0x66, 0x5e, 0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00,
    0x00, 0x02, 0x00, 0xa1, 0x0f, 0xa1, 0x00, 0x78, 0xf6, 0x06, 0x30, 0x6e, 0x02, 0x01, 0x00, 0x04,
    0x06, 0x70, 0x75, 0x62, 0x6c, 0x69, 0x63, 0xa2, 0x61, 0x02, 0x04, 0x4a, 0x75, 0x6e, 0x63, 0x02,
    0x01, 0x00, 0x02, 0x01, 0x00, 0x30, 0x53, 0x30, 0x0d, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x02, 0x01,
    0x01, 0x03, 0x00, 0x43, 0x01, 0x09, 0x30, 0x0f, 0x06, 0x0a, 0x2b, 0x06, 0x01, 0x02, 0x01, 0x02,
    0x02, 0x01, 0x0a, 0x01, 0x41, 0x01, 0x01, 0x30, 0x0f, 0x06, 0x0a, 0x2b, 0x06, 0x01, 0x02, 0x01,
    0x02, 0x02, 0x01, 0x10, 0x01, 0x41, 0x01, 0x02, 0x30, 0x0f, 0x06, 0x0a, 0x2b, 0x06, 0x01, 0x02,
    0x01, 0x02, 0x02, 0x01, 0x0b, 0x01, 0x41, 0x01, 0x03, 0x30, 0x0f, 0x06, 0x0a, 0x2b, 0x06, 0x01,
    0x02, 0x01, 0x02, 0x02, 0x01, 0x11, 0x01, 0x41, 0x01, 0x04,
];

#[test]
fn answers_of_management_are_counted_by_what_they_are() {
    let mut questions = 0;
    // One right, one damaged, none, two.
    let mut station = station(move |frame| {
        let is_question = frame.packet.len() > 60 && frame.packet.data()[36..38] == [0, 161];
        if !is_question {
            return frame.after(0);
        }
        questions += 1;
        let mut damaged = ANSWER;
        damaged[ANSWER.len() - 1] ^= 1;
        let answers: &[&[u8]] = match questions {
            1 => &[&ANSWER],
            2 => &[&damaged],
            3 => &[],
            _ => &[&ANSWER, &ANSWER],
        };
        let answer = |bytes: &&[u8]| (0, frame.now_ns, Packet::copy_of(bytes).expect("memory"));
        answers.iter().map(answer).collect()
    });
    let mut plan = station.plan().clone();
    let question = crate::management::question(&flow(0), [10, 0, 0, 1].into()).expect("IPv4");
    plan.streams[0].extras = vec![Extra { frames: vec![question], every: Every::Time(MILLISECOND * 10) }];
    station.replan(&plan).expect("a plan");
    let mut run = |ms| {
        let detail = station.run(Trial::new(10_000.0, MILLISECOND * ms)).expect("a trial");
        let places = u64::from(ms).div_ceil(10);
        assert_eq!((detail.counts.received, detail.foreign), (u64::from(ms) * 10 - places, 0));
        (detail.answers, detail.answers.missing())
    };
    assert_eq!(run(25), (Answers { asked: 3, right: 1, wrong: 1 }, 1));
    // Who answers twice has been wrong once.
    assert_eq!(run(5), (Answers { asked: 1, right: 1, wrong: 1 }, 0));
}

#[test]
fn a_port_that_sends_nothing_else_announces_networks_nevertheless() {
    let seen = Seen::default();
    let mut station = station(noting(&seen));
    let mut plan = station.plan().clone();
    plan.streams.truncate(1);
    let update = |first| extra(&[first], Every::Update(MILLISECOND * 30));
    plan.streams.push(Stream { extras: vec![update(0xfa), update(0xfb)], ..Stream::default() });
    station.replan(&plan).expect("a plan");
    for ahead in [Duration::ZERO, MILLISECOND * 5] {
        station.update_ahead(ahead);
        let detail = station.run(Trial::new(10_000.0, MILLISECOND * 10)).expect("a trial");
        // They take no place of the other port's frames.
        assert_eq!((detail.counts.received, detail.foreign, detail.beside_unsent), (100, 0, 0));
        let beside = beside(&seen);
        assert_eq!(beside.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [0xfa, 0xfb]);
        assert!(beside.iter().all(|(_, ns)| *ns <= -(ahead.as_nanos() as i128)), "{beside:?}");
    }
    let faulty = device(2, noting(&seen), Link::Up);
    faulty.takes(|packet| packet.data()[0] != 0xfb);
    let mut refused = station_at(&faulty, (0..2).map(|i| port(&faulty, i)).collect(), &plan);
    let detail = refused.run(Trial::new(10_000.0, MILLISECOND * 10)).expect("a trial");
    assert_eq!((detail.counts.received, detail.beside_unsent), (100, 1));
}
