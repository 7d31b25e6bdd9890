// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stations on devices of known faults, on time that passes by being asked for: the same on every machine.

mod beside;
mod faulty;
mod posts;
mod searches;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use packet::Packet;
use wire::MacAddr;

use super::*;
use crate::frame::Flow;
use crate::search::bridge::Teacher as _;
use crate::search::observe::Observer as _;
use crate::search::stream::{Resets as _, Step, Streams as _};
use crate::search::{back_to_back, bridge, delay, recovery, reset};
use crate::trial::Measurer as _;

use faulty::*;

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn a_cable_does_nothing() {
    let detail = met(|frame| frame.after(0));
    assert_eq!(detail.counts, Counts { received: 4000, ..Counts::default() });
    let Outcome { intended, sent, received, .. } = detail.outcome;
    assert_eq!([intended, sent, received], [4000; 3]);
    assert_eq!([detail.latency.len(), detail.response.len(), detail.lateness.len()], [4000; 3]);
}

#[test]
fn what_a_device_does_is_told_exactly() {
    let lossy = met(|frame| if frame.number % 100 == 7 { Vec::new() } else { frame.after(0) });
    assert_eq!((lossy.counts.received, lossy.outcome.lost(), lossy.counts.gaps), (3960, 40, 40));

    let doubling = met(|mut frame| {
        let copy = if frame.number % 1000 == 0 { frame.packet.share() } else { None };
        let now_ns = frame.now_ns;
        [Some(frame.packet), copy].into_iter().flatten().map(|packet| (1, now_ns, packet)).collect()
    });
    assert_eq!((doubling.counts.received, doubling.counts.duplicates, doubling.outcome.lost()), (4000, 4, 0));

    // One in a thousand comes out behind the eight after it: of its flow, behind two.
    let mut held = None;
    let swapping = met(move |frame| match frame.number % 1000 {
        500 => {
            held = Some(frame.packet);
            Vec::new()
        }
        508 => {
            let now_ns = frame.now_ns;
            [Some(frame.packet), held.take()]
                .into_iter()
                .flatten()
                .map(|packet| (1, now_ns, packet))
                .collect()
        }
        _ => frame.after(0),
    });
    assert_eq!((swapping.counts.received, swapping.counts.reordered), (4000, 4));

    let damaging = met(|mut frame| {
        frame.packet = frame.packet.duplicate().expect("memory");
        if frame.number % 500 == 3 {
            frame.packet.data_mut()[50] ^= 1;
        }
        frame.after(0)
    });
    assert_eq!((damaging.damaged, damaging.outcome.lost(), damaging.vanished()), (8, 8, 0));

    // By the protocol and by the kind of frame they are nobody's, but by their addresses the tester's.
    let hiding = met(|mut frame| {
        frame.packet = frame.packet.duplicate().expect("memory");
        match frame.number % 500 {
            3 => frame.packet.data_mut()[23] ^= 0x40,
            4 => frame.packet.data_mut()[12] ^= 1,
            5 => return Vec::new(),
            _ => {}
        }
        frame.after(0)
    });
    assert_eq!((hiding.damaged, hiding.foreign, hiding.outcome.lost(), hiding.vanished()), (16, 0, 24, 8));

    let misrouting = met(|frame| {
        let port = if frame.number % 2 == 0 { 1 } else { frame.port };
        vec![(port, frame.now_ns, frame.packet)]
    });
    assert_eq!(
        (misrouting.counts.misrouted, misrouting.outcome.lost(), misrouting.vanished()),
        (2000, 2000, 0)
    );
}

#[test]
fn frames_of_a_trial_before_are_old_and_whole() {
    let mut station = station(|frame| frame.after(3_000_000));
    let mut trial = || station.run(Trial::new(40_000.0, MILLISECOND * 10)).expect("a trial");
    let first = trial();
    // What is on its way when a trial ends comes out in the next one.
    let second = trial();
    assert!(first.outcome.lost() > 0 && first.old == 0 && second.old > 0, "{first:?} {second:?}");
    assert_eq!((second.damaged, second.foreign), (0, 0));
    let mut late = self::station(|frame| frame.after(120_000_000));
    let said = late.warm_up(Duration::from_secs(1)).expect_err("too late").to_string();
    assert!(said.contains("have it wait longer (--stragglers)"), "{said}");
}

#[test]
fn copies_and_misrouted_frames_have_no_part_in_latency() {
    // Each frame comes twice, and once more half a millisecond later at a wrong port.
    let late = met(|mut frame| {
        let (port, now_ns) = (frame.port, frame.now_ns);
        let mut copy = || frame.packet.share().expect("memory");
        vec![(1, now_ns, copy()), (1, now_ns, copy()), (port, now_ns + 500_000, copy())]
    });
    assert_eq!((late.counts.received, late.latency.len(), late.response.len()), (4000, 4000, 4000));
    assert!(late.counts.duplicates > 3000 && late.counts.misrouted > 3000, "{:?}", late.counts);
    assert!(late.latency.max() < 100_000, "{}", late.latency.max());
}

#[test]
fn what_became_of_each_flow_is_told() {
    // The second flow loses every fourth frame, the third arrives twice; by ports that others have it is the same.
    let meets = |mut frame: In| {
        let (now_ns, sequence) = (frame.now_ns, frame.number / 4);
        let copy = (frame.number % 4 == 2).then(|| frame.packet.share().expect("memory"));
        let is_lost = frame.number % 4 == 1 && sequence % 4 == 0;
        let all = Some(frame.packet).filter(|_| !is_lost).into_iter().chain(copy);
        all.map(|packet| (1, now_ns, packet)).collect()
    };
    let verdicts = met(meets).verdicts;
    assert_eq!((verdicts.flows, verdicts.lossy, verdicts.worst.len(), verdicts.left_out), (4, 1, 2, 0));
    let [lossy, doubled] = verdicts.worst[..] else { panic!("{verdicts:?}") };
    assert_eq!((lossy.flow, lossy.sent, lossy.lost()), (flow(1), 1000, 250));
    assert_eq!((doubled.flow, doubled.lost(), doubled.counts.duplicates), (flow(2), 0, 1000));
    assert_eq!(met(|frame| frame.after(0)).verdicts, Verdicts { flows: 4, ..Verdicts::default() });
}

#[test]
fn copies_are_waited_for_as_long_as_copies_have_taken() {
    // Each frame comes once more, 50 ms later, out of the port that does not hold up the others.
    let late_copy = |mut frame: In| {
        let (now_ns, copy) = (frame.now_ns, frame.packet.share().expect("memory"));
        vec![(1, now_ns, frame.packet), (0, now_ns + 50_000_000, copy)]
    };
    let copies = |stragglers, time| {
        let faulty = device(2, late_copy, Link::Up);
        let anywhere = Stream { flows: (0..4).map(|i| (flow(i), None)).collect(), ..stream(1) };
        let plan = Plan { streams: vec![anywhere], stragglers, ..Plan::default() };
        let mut station = station_at(&faulty, (0..2).map(|i| port(&faulty, i)).collect(), &plan);
        let search = station.observe(Trial::new(1000.0, time), Sampling::all(1, 1)).expect("a trial").0;
        let alone = station.run(Trial::new(1000.0, time)).expect("a trial");
        (search.counts.duplicates, alone.counts.duplicates, alone.outcome.received)
    };
    // A search learns of copies when the first of them comes; a caller that asks for one trial learns of all.
    assert_eq!(copies(MILLISECOND * 500, MILLISECOND * 100), (100, 100, 100));
    assert_eq!(copies(MILLISECOND * 500, MILLISECOND * 20), (0, 20, 20));
    assert_eq!(copies(MILLISECOND, MILLISECOND * 20), (0, 0, 20));
}

#[test]
fn a_device_is_left_alone_between_trials_and_not_before() {
    let frames = Arc::new(Mutex::new(Vec::new()));
    let seen = frames.clone();
    let mut station = station(move |frame| {
        seen.lock().unwrap().push(frame.now_ns);
        frame.after(0)
    });
    let mut last_ns = 0;
    // How long after the last frame of the one before a trial, or a warm-up, begins.
    let mut pause = |station: &mut Station, is_warm_up| {
        if is_warm_up {
            station.warm_up(MILLISECOND).expect("an answer");
        } else {
            station.run(Trial::new(40_000.0, MILLISECOND)).expect("a trial");
        }
        let all = std::mem::take(&mut *frames.lock().unwrap());
        Duration::from_nanos(all[0] - std::mem::replace(&mut last_ns, all[all.len() - 1]))
    };
    let settle = Duration::from_secs(5);
    pause(&mut station, false);
    assert!(pause(&mut station, false) < settle);
    station.settle(settle);
    pause(&mut station, true);
    assert!(pause(&mut station, false) >= settle);
    assert!(pause(&mut station, false) >= settle);
    assert!(pause(&mut station, true) < settle);
}

#[test]
fn one_lost_frame_is_found_and_when_it_was() {
    let mut station = station(|frame| if frame.number == 77_777 { Vec::new() } else { frame.after(0) });
    let steps = [Step { rate: 1e6, duration: MILLISECOND * 100 }];
    let timeline = station.stream(&steps, MILLISECOND).expect("a stream");
    let total = timeline.total();
    assert_eq!((total.intended, total.sent, total.lost), (100_000, 100_000, 1));
    assert_eq!(timeline.bins.iter().position(|bin| bin.lost > 0), Some(77));
    let gap = timeline.gaps[0];
    assert_eq!(
        (gap.frames, gap.first_sent, gap.last_sent),
        (1, gap.last_sent, Duration::from_micros(77_777))
    );
    assert!(timeline.gaps.len() == 1 && timeline.tester_kept_up());
}

/// A station that is asked to give up when the device gets this frame.
fn given_up_at(number: u64) -> Station {
    let given_up = Arc::new(AtomicBool::new(false));
    let told = given_up.clone();
    let mut station = station(move |frame| {
        told.fetch_or(frame.number == number, Ordering::Relaxed);
        if frame.number == 7_500 { Vec::new() } else { frame.after(1_000) }
    });
    station.heed(given_up);
    station
}

#[test]
fn what_is_given_up_is_worth_nothing_but_a_stream_of_one_rate() {
    let interrupted = Err(Invalid::new("interrupted", ""));
    assert_eq!(given_up_at(10_000).measure(Trial::new(1e6, MILLISECOND * 100)), interrupted);
    let step = Step { rate: 1e6, duration: MILLISECOND * 50 };
    assert_eq!(given_up_at(10_000).stream(&[step, step], MILLISECOND).map(drop), interrupted.map(drop));

    let shown = Arc::new(AtomicU64::new(0));
    let mut station = given_up_at(10_500);
    let seen = shown.clone();
    station.watch(Box::new(move |_, _, worth| {
        seen.fetch_add(u64::from(worth.is_err()), Ordering::Relaxed);
    }));
    let timeline = station.stream(&[step], MILLISECOND).expect("what was until then");
    let total = timeline.total();
    assert_eq!((timeline.bins.len(), total.intended, total.sent, total.lost), (10, 10_000, 10_000, 1));
    assert_eq!((timeline.bins[7].lost, shown.load(Ordering::Relaxed)), (1, 1));
    // Nothing is started any more, and nothing waited for.
    assert!(
        station.measure(Trial::new(1e6, MILLISECOND)).is_err() && station.warm_up(Duration::ZERO).is_err()
    );
    // Before the first bin is over there is nothing to tell.
    assert!(given_up_at(500).stream(&[step], MILLISECOND).is_err());
}

#[test]
fn of_what_is_cut_off_it_is_known_how_far_it_was() {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let watch = |mut station: Station| {
        let shown = shown.clone();
        station.watch(Box::new(move |_, seen, worth| {
            let counts = seen.map(|detail| (detail.outcome.sent, detail.outcome.received));
            shown.lock().unwrap().push((counts, worth.map_err(Clone::clone)));
        }));
        station
    };
    assert!(watch(given_up_at(10_000)).measure(Trial::new(1e6, MILLISECOND * 200)).is_err());
    // What it needs is gone when the tester looks the first time, or the second.
    let mut station = watch(station(|frame| frame.after(1_000)));
    let mut looks = 0;
    station.guard(move || {
        looks += 1;
        if looks < 3 { Ok(()) } else { Err(Invalid::new("it is gone", "")) }
    });
    assert!(station.measure(Trial::new(1e6, MILLISECOND * 200)).is_err());
    let shown = shown.lock().unwrap();
    for ((counts, worth), why) in shown.iter().zip(["interrupted", "it is gone"]) {
        let (sent, received) = counts.expect("what was seen");
        assert!(
            (10_000..200_000).contains(&sent) && received > 9_000 && received <= sent,
            "{sent} {received}"
        );
        assert_eq!(*worth, Err(Invalid::new(why, "")));
    }
    assert_eq!(shown.len(), 2);
}

/// The tester looks at its ports every few looks at the clock.
const LOOK_NS: u64 = 2000;

#[test]
fn fifty_microseconds_are_fifty() {
    let observe = |verdict: fn(In) -> Out, sampling| {
        let mut station = station(verdict);
        station.clock.look_ns = 200;
        station.observe(Trial::new(10_000.0, MILLISECOND * 20), sampling).expect("a trial")
    };
    let all = Sampling::all(200, DELAYS_MAX);
    let (detail, delays) = observe(|frame| frame.after(50_000), all);
    let (least, greatest) = (detail.latency.min(), detail.latency.max());
    // The histogram has three digits.
    assert!(least >= 49_900 && greatest <= 50_100 + LOOK_NS, "{least} {greatest}");
    assert_eq!((delays.received().len(), delays.lost()), (200, 0));
    assert!(delays.received().iter().all(|ns| (50_000..=50_000 + LOOK_NS).contains(ns)));
    assert!(delay::pdv_ns(&delays.received(), 0).expect("frames") <= LOOK_NS as f64);

    // Every other frame later by 20 us, but none so that it comes behind the next; and one in a hundred lost.
    let uneven = |frame: In| match frame.number {
        number if number % 100 == 49 => Vec::new(),
        number => frame.after(50_000 + number % 2 * 20_000),
    };
    let (_, delays) = observe(uneven, all);
    let (look, ipdv) = (LOOK_NS as f64, delay::ipdv(&delays.in_order()).expect("pairs"));
    assert!((ipdv.max_ns - 20_000.0).abs() <= look && (ipdv.min_ns + 20_000.0).abs() <= look, "{ipdv:?}");
    // Each lost frame is missing from two pairs.
    assert_eq!((ipdv.pairs, delays.lost()), (199 - 4, 2));
    assert_eq!(delay::pdv_ns(&delays.received(), delays.lost()), Some(f64::INFINITY));

    let (_, delays) = observe(|frame| frame.after(7000), Sampling::tags(200, 100, 50));
    let tagged = delay::latency(&delays.received()).expect("tagged frames");
    assert_eq!(tagged.frames, 50);
    assert!((7000.0..=7000.0 + look).contains(&tagged.typical_ns), "{tagged:?}");
}

#[test]
fn single_frames_go_where_nothing_else_does() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inside = seen.clone();
    let mut station = station(move |frame| {
        let data = frame.packet.data();
        inside.lock().expect("not poisoned").push((data.len(), data[32], data[33]));
        // Those that go elsewhere take longer.
        let ns = if data[32] == 7 { 50_000 } else { 1000 };
        frame.after(ns)
    });
    let mut plan = station.plan().clone();
    plan.streams.truncate(1);
    plan.streams[0].sizes = vec![64, 128];
    plan.streams[0].detours = (0..50).map(|net| Flow { dst: [10, 0, 7, net].into(), ..flow(0) }).collect();
    station.replan(&plan).expect("a plan");
    let all = |station: &mut Station, sampling| {
        let (detail, delays) =
            station.observe(Trial::new(10_000.0, MILLISECOND * 20), sampling).expect("a trial");
        assert_eq!((detail.counts, detail.damaged), (Counts { received: 200, ..Counts::default() }, 0));
        (delays, std::mem::take(&mut *seen.lock().expect("not poisoned")))
    };
    let (delays, frames) = all(&mut station, Sampling::at_most(200, 100, 50));
    assert_eq!((delays.received().len(), delays.lost()), (50, 0));
    assert!(delays.received().iter().all(|ns| *ns >= 50_000));
    // Each other frame of the second half, each to an address of its own, and of the size whose turn it was.
    let there = |at: usize| at >= 100 && at.is_multiple_of(2);
    for (at, (len, net, host)) in frames.iter().enumerate() {
        assert_eq!((*len, *net == 7), ([60, 124][at % 2], there(at)), "{at}");
        assert!(!there(at) || usize::from(*host) == (at - 100) / 2, "{at}: {host}");
    }
    // Without a sample nothing goes there.
    station.run(Trial::new(10_000.0, MILLISECOND * 20)).expect("a trial");
    assert!(seen.lock().expect("not poisoned").iter().all(|(_, net, _)| *net != 7));
    plan.streams[0].detours.push(Flow { dst: "::1".parse().expect("an address"), ..flow(0) });
    assert!(station.replan(&plan).expect_err("two families").to_string().contains("of one family"));
}

#[test]
fn the_buffer_of_a_device_is_found_by_bursts() {
    let (line, capacity) = (200_000.0, 100_000.0);
    let mut station = station(server(capacity, 300));
    let parameters = back_to_back::Parameters {
        longest: MILLISECOND * 5,
        longest_retry: MILLISECOND * 5,
        // As long as the device takes to empty its buffer, and more.
        settle: MILLISECOND * 5,
        step_frames: 1,
        repetitions: 2,
        ..back_to_back::Parameters::quick(line, capacity)
    };
    let report = back_to_back::run(&mut station.bursts(line, true), &parameters).expect("a report");
    // One frame leaves for each two that come.
    assert!((report.frames.mean - 600.0).abs() <= 3.0, "{:?}", report.frames);
    assert!((report.buffer_frames() - 300.0).abs() <= 2.0 && report.is_valid(), "{}", report.buffer_frames());
}

#[test]
fn recovery_takes_as_long_as_the_queue_takes_to_shrink() {
    // From overload the device goes on losing for 30 ms, as one that has to clean up.
    let mut serve = server(50_000.0, 100);
    let mut busy_until_ns = 0;
    let mut station = station(move |frame| {
        let (now_ns, out) = (frame.now_ns, serve(frame));
        if out.is_empty() && now_ns < 100_000_000 {
            busy_until_ns = now_ns + 30_000_000;
        }
        if now_ns < busy_until_ns && now_ns % 7 == 0 { Vec::new() } else { out }
    });
    let parameters = recovery::Parameters {
        overload: MILLISECOND * 100,
        watch: MILLISECOND * 100,
        quiet: MILLISECOND * 50,
        repetitions: 1,
        ..recovery::Parameters::quick(100_000.0, 50_000.0)
    };
    let report = recovery::run(&mut station, &parameters).expect("a report");
    let time_s = report.time_s().expect("it recovers").mean;
    assert!(report.recoveries[0].overloaded, "{report:?}");
    assert!((0.02..=0.03).contains(&time_s), "{time_s}");
}

#[test]
fn a_reset_is_seen_from_its_beginning_to_its_end() {
    let asked = Arc::new(AtomicU64::new(0));
    let is_asked = asked.clone();
    let mut down_until_ns = None;
    let mut station = station(move |frame| {
        // Soon after 10 ms another thread is asked to reset the device. Time stands still until it had its turn.
        if frame.now_ns > 11_000_000 && down_until_ns.is_none() {
            while is_asked.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            down_until_ns = Some(frame.now_ns + 20_000_000);
        }
        if down_until_ns.is_some_and(|until| frame.now_ns < until) { Vec::new() } else { frame.after(1000) }
    });
    let mut ask = || {
        asked.fetch_add(1, Ordering::Release);
        Ok(())
    };
    let parameters = reset::Parameters {
        before: MILLISECOND * 10,
        after: MILLISECOND * 100,
        repetitions: 1,
        ..reset::Parameters::quick(reset::ResetKind::Process, 10_000.0)
    };
    let report = reset::run(&mut station.resets(&mut ask), &parameters).expect("a report");
    let outage = &report.outages[0];
    let frame = report.uncertainty();
    for time in [outage.by_loss, outage.by_timestamps] {
        let time = time.expect("it comes back");
        assert!(time.abs_diff(MILLISECOND * 20) <= frame * 2, "{time:?}");
    }
    assert_eq!(outage.interruptions, 1);
    let mut fail = || Err(Invalid::new("no reset", "try again"));
    let said =
        station.resets(&mut fail).reset(1e3, MILLISECOND, MILLISECOND).expect_err("no reset").to_string();
    assert_eq!(said, "no reset; try again");
}

/// A bridge of four ports that remembers so many addresses, learns so many a second, and is made to forget by the flag.
fn learner(capacity: usize, rate: f64, forget: &Arc<AtomicBool>) -> impl FnMut(In) -> Out + Send + use<> {
    let (forget, mut table, mut credit_ns) = (forget.clone(), HashMap::new(), 0.0);
    move |mut frame: In| {
        if forget.swap(false, Ordering::Relaxed) {
            table.clear();
        }
        let [to, from] =
            [0, 6].map(|at| MacAddr(frame.packet.data()[at..at + 6].try_into().expect("an address")));
        // A bucket of two: what comes faster than the rate is not learnt.
        let is_in_time = credit_ns <= frame.now_ns as f64 + 1e9 / rate;
        if !table.contains_key(&from) && table.len() < capacity && is_in_time {
            credit_ns = credit_ns.max(frame.now_ns as f64) + 1e9 / rate;
            table.insert(from, frame.port);
        }
        let ports = match table.get(&to) {
            Some(port) => vec![*port],
            None => (0..4).filter(|port| *port != frame.port).collect(),
        };
        let mut copy = |port| (port, frame.now_ns, frame.packet.share().expect("memory"));
        ports.into_iter().map(&mut copy).collect()
    }
}

#[test]
fn what_a_bridge_remembers_and_how_fast_it_learns_is_found() {
    let flag = Arc::new(AtomicBool::new(false));
    // One of what it remembers is the test port's.
    let mut station = plugged(4, learner(61, 50_000.0, &flag), Link::Up, 1);
    let mut forget = || {
        flag.store(true, Ordering::Relaxed);
        Ok(())
    };
    let usual = bridge::Parameters::rfc(40_000.0, 200_000.0);
    let parameters = bridge::Parameters { first: 16, resolution: 0.05, ..usual };
    let report = bridge::run(&mut station.teaches(64, &mut forget), &parameters).expect("a report");
    assert_eq!((report.capacity, report.at_most), (60, false), "{report:?}");
    let rate = report.rate.expect("it learns");
    // Addresses within the bucket come on top of the rate.
    assert!((45_000.0..=55_000.0).contains(&rate), "{rate}");
    let mut few = self::station(|frame| frame.after(0));
    let said = few.teaches(64, &mut || Ok(())).teach(1, 1e3).expect_err("too few ports").to_string();
    assert!(said.contains("2 ports cannot tell what is flooded"), "{said}");
}

#[test]
fn frames_to_all_count_once_for_each_port() {
    let flag = Arc::default();
    let mut station = plugged(4, learner(10, 1e9, &flag), Link::Up, 1);
    let everyone = MacAddr([0xff; 6]);
    let flows = vec![(Flow { dst_mac: everyone, ..flow(0) }, None)];
    let streams = vec![Stream { flows, sizes: vec![64], ..Stream::default() }];
    station
        .replan(&Plan { streams, everywhere: true, stragglers: MILLISECOND, ..Plan::default() })
        .expect("a plan");
    let detail = station.run(Trial::new(10_000.0, MILLISECOND * 10)).expect("a trial");
    let Outcome { intended, sent, received, .. } = detail.outcome;
    assert_eq!(([intended, sent, received], detail.counts.duplicates), ([300; 3], 0));
}

#[test]
fn a_bridge_changes_no_destination_address() {
    let changes = |is_bridged| {
        let mut station = station(|mut frame| {
            frame.packet.data_mut()[5] ^= u8::from(frame.number % 100 == 7);
            frame.after(0)
        });
        let plan = Plan { is_bridged, ..station.plan().clone() };
        station.replan(&plan).expect("a plan");
        let detail = station.run(Trial::new(40_000.0, MILLISECOND * 100)).expect("a trial");
        (detail.outcome.received, detail.damaged)
    };
    assert_eq!([changes(false), changes(true)], [(4000, 0), (3960, 40)]);
}

#[test]
fn sizes_follow_each_other_and_other_frames_come_between() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inside = seen.clone();
    let mut station = station(move |frame| {
        inside.lock().expect("not poisoned").push((frame.packet.len(), frame.now_ns));
        if frame.packet.len() == 60 && frame.packet.data()[0] == 0xff { Vec::new() } else { frame.after(0) }
    });
    let mut plan = station.plan().clone();
    plan.streams[0].sizes = vec![64, 64, 1518, 512];
    plan.streams[0].extras = vec![
        Extra { frames: vec![vec![0xff; 60]], every: Every::Frames(100) },
        Extra { frames: vec![vec![0xfe; 42]], every: Every::Time(MILLISECOND * 10) },
    ];
    plan.burst = 10;
    station.replan(&plan).expect("a plan");
    let detail = station.run(Trial::new(10_000.0, MILLISECOND * 100)).expect("a trial");
    // The additional frames take the place of 20 of the 1000.
    assert_eq!((detail.counts, detail.damaged), (Counts { received: 980, ..Counts::default() }, 0));
    // What comes back of the others is the tester's own, too.
    assert_eq!(detail.foreign, 0);
    let seen = seen.lock().expect("not poisoned");
    let lengths: Vec<usize> = seen.iter().map(|(len, _)| *len).filter(|len| ![42].contains(len)).collect();
    assert_eq!((lengths.len(), lengths[..6].to_vec()), (990, vec![60, 60, 60, 1514, 508, 60]));
    // Ten at a time, a millisecond apart.
    let starts: Vec<u64> =
        seen.iter().filter(|(len, _)| *len == 1514).map(|(_, ns)| *ns).step_by(5).collect();
    assert!(
        starts.windows(2).all(|pair| (1_900_000..2_100_000).contains(&(pair[1] - pair[0]))),
        "{starts:?}"
    );
    plan.streams[0].sizes.clear();
    assert!(station.replan(&plan).expect_err("no size").to_string().contains("but no size"));
}

#[test]
fn frames_beside_the_tests_that_find_no_room_are_sent_later() {
    let is_extra = |packet: &Packet| packet.data()[0] == 0xff;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inside = seen.clone();
    let verdict = move |frame: In| {
        let is_extra = is_extra(&frame.packet);
        inside.lock().expect("not poisoned").push((is_extra, frame.now_ns));
        if is_extra { Vec::new() } else { frame.after(0) }
    };
    let faulty = device(2, verdict, Link::Up);
    // Each of them is refused twice, the fourth so often that others become due meanwhile.
    let (mut refused, mut taken) = (0, 0);
    faulty.takes(move |packet| {
        let has_room = !is_extra(packet) || refused == if taken == 3 { 250 } else { 2 };
        if is_extra(packet) {
            (refused, taken) = if has_room { (0, taken + 1) } else { (refused + 1, taken) };
        }
        has_room
    });
    let extras = vec![Extra { frames: vec![vec![0xff; 60]], every: Every::Frames(100) }];
    let streams = vec![Stream { extras, ..stream(1) }];
    let plan = Plan { streams, stragglers: MILLISECOND, ..Plan::default() };
    let mut station = station_at(&faulty, (0..2).map(|i| port(&faulty, i)).collect(), &plan);
    let detail = station.run(Trial::new(10_000.0, MILLISECOND * 100)).expect("a trial");
    assert_eq!((detail.counts.received, detail.foreign, detail.beside_unsent), (990, 0, 0));
    let seen = seen.lock().expect("not poisoned");
    // The frame of the test before which each came.
    let frames = |upto: usize| seen[..upto].iter().filter(|(is_extra, _)| !is_extra).count();
    let before: Vec<usize> = (0..seen.len()).filter(|at| seen[*at].0).map(frames).collect();
    assert_eq!(before, [2, 102, 202, 550, 553, 556, 602, 702, 802, 902]);
}

#[test]
fn frames_are_known_by_their_bytes() {
    let mut station = station(|frame| if frame.packet.len() > 1514 { Vec::new() } else { frame.after(0) });
    let frames = [vec![7; 40], vec![8; 1515], vec![9; 60]];
    let exchanged = station.exchange(0, &frames, 5, MILLISECOND).expect("a trial");
    assert_eq!(exchanged.iter().map(|e| (e.sent, e.received)).collect::<Vec<_>>(), [(5, 5), (5, 0), (5, 5)]);
}

#[test]
fn wrong_ports_and_silence_have_reasons() {
    let cable = |frame: In| frame.after(0);
    let mut wrong = plugged(2, cable, Link::Up, 0);
    let said = wrong.warm_up(Duration::ZERO).expect_err("frames at the wrong port").to_string();
    assert!(said.contains("come out of other ports"), "{said}");
    let mut silent = station(|_| Vec::new());
    let said = silent.warm_up(Duration::ZERO).expect_err("no frames").to_string();
    assert!(said.contains("nothing at all comes from it"), "{said}");
    let mut down = plugged(2, cable, Link::Down, 1);
    let said = down.measure(Trial::new(1e3, MILLISECOND)).expect_err("no link").to_string();
    assert!(said.contains("port0: the link is down"), "{said}");
    let mut good = station(cable);
    assert!(good.warm_up(Duration::from_secs(60)).is_ok());
    assert!(good.measure(Trial::new(0.0, MILLISECOND)).is_err());
    let long = Trial::new(1e9, Duration::from_secs(3600));
    let said = good.measure(long).expect_err("too many frames").to_string();
    assert!(said.contains("at most 2^32"), "{said}");
    let steps = [Step { rate: 1.0, duration: Duration::from_secs(100_000_000) }];
    let said = good.stream(&steps, MILLISECOND).expect_err("too many bins").to_string();
    assert!(said.contains("choose wider bins"), "{said}");
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    for (size, what) in [(63, "64 bytes is the least"), (1519, "its longest is 1518")] {
        let port = port(&device(1, |frame| frame.after(0), Link::Up), 0);
        let streams = vec![Stream { flows: vec![(flow(0), None)], sizes: vec![size], ..Stream::default() }];
        let plan = Plan { streams, ..Plan::default() };
        let said = Station::new(vec![port], &plan, 1).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(said.contains(what), "{said}");
    }
    assert!(Station::new(Vec::new(), &Plan::default(), 1).is_err());
}
