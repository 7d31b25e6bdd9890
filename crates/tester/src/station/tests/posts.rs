// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports that are elsewhere.

use std::sync::{Arc, Mutex};

use super::super::*;
use super::MILLISECOND;
use super::faulty::*;
use crate::search::stream::Step;

/// A treatment of each frame that depends only on its own contents, not on other frames.
fn by_sequence() -> impl FnMut(In) -> Out + Send {
    let mut held = [None, None];
    move |mut frame: In| {
        let number = |at| u32::from_be_bytes(frame.packet.data()[at..at + 4].try_into().expect("four bytes"));
        let (flow, sequence) = (number(42), number(46));
        let (port, now_ns) = (frame.port, frame.now_ns);
        match (flow % 4, sequence % 100) {
            (1, 30..=34) => Vec::new(),
            (2, 50) => {
                frame.packet = frame.packet.duplicate().expect("memory");
                frame.packet.data_mut()[50] ^= 1;
                frame.after(0)
            }
            (3, 60) => {
                held[port] = Some(frame.packet);
                Vec::new()
            }
            (3, 63) => {
                let both = [Some(frame.packet), held[port].take()];
                both.into_iter().flatten().map(|packet| (1 - port, now_ns, packet)).collect()
            }
            (0, 70) => vec![
                (1 - port, now_ns, frame.packet.share().expect("memory")),
                (1 - port, now_ns, frame.packet),
            ],
            (0, 80) => vec![(port, now_ns, frame.packet)],
            _ => frame.after(0),
        }
    }
}

/// A station that only leads: each of two ports has another post.
fn led(verdict: impl FnMut(In) -> Out + Send + 'static, plan: &Plan) -> Station {
    led_by(verdict, plan, |_, post| Box::new(post))
}

/// The same; members are made of posts.
fn led_by(
    verdict: impl FnMut(In) -> Out + Send + 'static,
    plan: &Plan,
    member: impl Fn(usize, Post) -> Box<dyn Member>,
) -> Station {
    let faulty = device(2, verdict, Link::Up);
    let elsewhere = |i| Port::elsewhere(&format!("port{i}"), "test", 1500);
    let post = |here| -> Box<dyn Member> {
        let ports = (0..2).map(|i| if i == here { port(&faulty, i) } else { elsewhere(i) });
        member(here, Post::new(station_at(&faulty, ports.collect(), plan), || {}).expect("a thread"))
    };
    let mut station = Station::new((0..2).map(elsewhere).collect(), plan, 1).expect("a station");
    station.lead(vec![post(0), post(1)], vec![0, 1], true).expect("posts");
    station
}

#[test]
fn posts_see_together_what_one_station_sees() {
    let streams = |count| [1, 0].into_iter().take(count).map(stream).collect();
    for ways in [1, 2] {
        let plan = Plan { streams: streams(ways), stragglers: Duration::from_secs(60), ..Plan::default() };
        let faulty = device(2, by_sequence(), Link::Up);
        let alone = station_at(&faulty, (0..2).map(|i| port(&faulty, i)).collect(), &plan);
        let run = |mut station: Station| {
            // While one thread has its turn, time passes for the other too.
            let step = Step { rate: 40_000.0, duration: MILLISECOND * 25 };
            let mut job = Job::new(Offer::Steps(vec![step]));
            job.order.grace = Some(Duration::from_secs(1_000_000));
            job.order.bin = Some(MILLISECOND * 5);
            job.order.sampling = Some(Sampling::all(1000, DELAYS_MAX));
            // Informed that the trial is over, a post still takes twice as many frames as there are.
            job.stragglers = Some(MILLISECOND);
            station.carry_out(job).expect("a trial")
        };
        let (alone, together) = (run(alone), run(led(by_sequence(), &plan)));
        let counts = |ran: &Ran| {
            let Detail { outcome: Outcome { intended, sent, received, .. }, damaged, foreign, .. } =
                ran.detail;
            let histograms =
                [&ran.detail.latency, &ran.detail.response, &ran.detail.lateness].map(Histogram::len);
            (ran.detail.counts, [intended, sent, received, damaged, foreign], histograms)
        };
        assert_eq!(counts(&alone), counts(&together));
        assert_eq!(alone.detail.verdicts, together.detail.verdicts);
        assert!(!alone.detail.verdicts.worst.is_empty());
        assert!(
            alone.detail.counts.reordered > 0 && alone.detail.counts.misrouted > 0,
            "{:?}",
            alone.detail.counts
        );
        let delays = |ran: &Ran| {
            let delays = ran.delays.as_ref().expect("delays");
            (delays.received().len(), delays.lost())
        };
        assert_eq!(delays(&alone), delays(&together));
        let course = |ran: &Ran| {
            let timeline = ran.timeline.as_ref().expect("a timeline");
            let gaps = timeline.gaps.iter().map(|gap| (gap.frames, gap.first_sent, gap.last_sent));
            (timeline.bins.clone(), gaps.collect::<Vec<_>>(), timeline.end)
        };
        assert_eq!(course(&alone), course(&together));
    }
}

#[test]
fn a_post_that_cannot_go_on_ends_the_trial_and_the_next_is_whole() {
    let plan = Plan { streams: vec![stream(1)], stragglers: Duration::from_secs(60), ..Plan::default() };
    let mut station = led(|frame| frame.after(0), &plan);
    let said =
        station.run(Trial::new(1e9, Duration::from_secs(3600))).expect_err("too many frames").to_string();
    assert!(said.contains("at most 2^32"), "{said}");
    let mut calls = 0;
    station.guard(move || {
        calls += 1;
        if calls == 3 { Err(Invalid::new("the device is gone", "")) } else { Ok(()) }
    });
    let long = Trial::new(1000.0, Duration::from_secs(1_000_000));
    assert_eq!(station.run(long), Err(Invalid::new("the device is gone", "")));
    let mut job = Job::new(Offer::Burst { rate: 1e5, frames: 100 });
    job.order.grace = Some(Duration::from_secs(1_000_000));
    let outcome = station.carry_out(job).expect("a trial").detail.outcome;
    assert_eq!((outcome.sent, outcome.received), (100, 100));
}

/// A post that is lost when it is asked how far it is for the third time.
struct Lost {
    post: Post,
    asked: usize,
}

impl Member for Lost {
    fn plan(&mut self, plan: &Plan) -> Result<(), Invalid> {
        self.post.plan(plan)
    }

    fn prepare(&mut self, order: &Order) -> Result<u64, Invalid> {
        self.post.prepare(order)
    }

    fn go(&mut self, start_ns: u64) -> Result<bool, Invalid> {
        self.post.go(start_ns)
    }

    fn progress(&mut self, count: bool) -> Result<Progress, Invalid> {
        self.asked += 1;
        if self.asked < 3 { self.post.progress(count) } else { Err(Invalid::new("it is lost", "")) }
    }

    fn finish(&mut self) -> Result<Tally, Invalid> {
        self.post.finish()
    }

    fn abandon(&mut self) {
        self.post.abandon();
    }

    fn cut(&mut self) -> Option<Tally> {
        self.post.abandon();
        None
    }
}

#[test]
fn of_what_others_were_to_do_is_told_what_they_saw_or_said_last() {
    let plan = Plan { streams: vec![stream(1)], stragglers: Duration::from_secs(60), ..Plan::default() };
    // Nobody is lost, or who sends, or who receives.
    for lost in [None, Some(0), Some(1)] {
        let member = |number, post| -> Box<dyn Member> {
            if lost == Some(number) { Box::new(Lost { post, asked: 0 }) } else { Box::new(post) }
        };
        let mut station = led_by(|frame| frame.after(0), &plan, member);
        let shown = Arc::new(Mutex::new(None));
        let show = shown.clone();
        station.watch(Box::new(move |_, seen, worth| {
            *show.lock().unwrap() = Some((seen.cloned(), worth.map_err(ToString::to_string)));
        }));
        let mut calls = 0;
        station.guard(move || {
            calls += 1;
            if calls == 4 { Err(Invalid::new("it is gone", "")) } else { Ok(()) }
        });
        assert!(station.run(Trial::new(1000.0, Duration::from_secs(1_000_000))).is_err());
        let (seen, worth) = shown.lock().unwrap().take().expect("a trial");
        let seen = seen.expect("what was seen");
        let Outcome { intended, sent, received, .. } = seen.outcome;
        assert!(
            seen.at_least && (1..intended).contains(&sent) && received <= sent,
            "{lost:?}: {sent} {received}"
        );
        // Arriving frames are not counted while frames are sent, and so not reported before the end.
        assert_eq!(received > 0, lost != Some(1), "{lost:?}: {sent} {received}");
        assert_eq!(worth, Err(if lost.is_some() { "it is lost" } else { "it is gone" }.to_owned()));
    }
    // Before anything leaves there is nothing to tell.
    let mut station = led(|frame| frame.after(0), &plan);
    let shown = Arc::new(Mutex::new(0));
    let show = shown.clone();
    station.watch(Box::new(move |_, seen, _| *show.lock().unwrap() += usize::from(seen.is_some())));
    station.guard(|| Err(Invalid::new("it is gone", "")));
    assert!(station.run(Trial::new(1000.0, MILLISECOND)).is_err());
    assert_eq!(*shown.lock().unwrap(), 0);
}

#[test]
fn what_members_say_is_the_same_as_text() {
    let mut station = station(by_sequence());
    let mut order = Job::new(Offer::Steps(vec![Step { rate: 1e6 / 3.0, duration: MILLISECOND }])).order;
    order.sampling = Some(Sampling::all(300, DELAYS_MAX));
    let text = serde_json::to_string(&order).expect("text");
    assert_eq!(serde_json::from_str::<Order>(&text).expect("an order"), order);
    let plan = serde_json::to_string(station.plan()).expect("text");
    let plan: Plan = serde_json::from_str(&plan).expect("a plan");
    assert_eq!(plan.streams[0].flows, station.plan().streams[0].flows);
    let start = station.clock.now();
    order.bin = Some(MILLISECOND);
    let mut turn = station.prepare(&order, start).expect("a turn");
    station.send(&mut turn, &order, start, |_, _| Ok(())).expect("sent");
    let tally = station.tally(turn, 1);
    let text = serde_json::to_string(&tally).expect("text");
    let read: Tally = serde_json::from_str(&text).expect("a tally");
    assert_eq!(read.lateness, tally.lateness);
    assert_eq!(format!("{:?}", read.course), format!("{:?}", tally.course));
    assert_eq!(serde_json::to_string(&read).expect("text"), text);
}
