// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journeys of followed packets through a test configuration.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

use engine::observer::{Entry, Observation, Observer, Wants, What};
use packet::Packet;

use super::Run;

/// Something that was seen of a followed packet: its number, what distinguishes it from others, the element, and what happened there.
type Seen = (u8, usize, element::ElementId, What);

struct Tells(Sender<Seen>);

impl Observer for Tells {
    fn pick(&mut self, _: &Packet) -> u8 {
        0
    }

    fn see(&mut self, observation: &Observation<'_>) {
        if observation.number != 0 {
            self.0.send((observation.number, observation.id, observation.element, observation.what)).unwrap();
        }
    }
}

/// Sees the packets that the test has given a number ([`Packet::follow`]) before they were sent.
pub struct Journeys(Receiver<Seen>);

impl Journeys {
    /// From the beginning of a run.
    pub fn of(run: &mut Run) -> Journeys {
        let (tell, seen) = channel();
        let wants = Wants { follow: Some(Entry::Sources), ..Wants::default() };
        run.router.add_observers(1, &wants, &|| Box::new(Tells(tell.clone())));
        Journeys(seen)
    }

    /// What was seen, in words: by number, for each copy `held by e`, `made by e`, `ends in e`, `dropped by e`.
    ///
    /// # Panics
    /// A journey goes on behind its end, or has none.
    pub fn told(self, run: &Run) -> BTreeMap<u8, Vec<String>> {
        let name = |element: element::ElementId| run.router.shared().elements[element].name.clone();
        let mut all: BTreeMap<u8, (Vec<usize>, Vec<String>)> = BTreeMap::new();
        for (number, id, element, what) in self.0.try_iter() {
            // Several may have been given the same.
            let begins = name(element) == "i";
            let (alive, told) = all.entry(number).or_default();
            let sent = matches!(what, What::Output { .. });
            assert!(begins || !alive.is_empty(), "{number} goes on behind its end: {what:?} {told:?}");
            if sent && !alive.contains(&id) {
                alive.push(id);
            }
            assert!(alive.contains(&id), "{number}: {what:?} of a packet that nobody has sent: {told:?}");
            let word = match what {
                What::Input { .. } | What::Output { made: false, .. } => continue,
                What::Output { .. } => "made by",
                What::Held => "held by",
                What::Dropped(_) => "dropped by",
                What::Replaced => "ends in",
                other => panic!("{number}: {other:?} at {}: {told:?}", name(element)),
            };
            told.push(format!("{word} {}", name(element)));
            if matches!(what, What::Dropped(_) | What::Replaced) {
                alive.retain(|copy| *copy != id);
            }
        }
        let told = all.into_iter().map(|(number, (alive, told))| {
            assert!(alive.is_empty(), "{number} has no end: {told:?}");
            (number, told)
        });
        told.collect()
    }
}

/// Sends pieces of a whole in any order, all of them followed, or only some: all journeys must end, and that of the piece that came first ends where
/// the whole is made. Of the first piece (the one that begins the packet) the whole takes the number.
pub fn check_reassembly(element: &str, piece: impl Fn(usize) -> Packet) {
    let config = format!("i :: TestIn -> e :: {element} -> Null -> Discard;");
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for followed in 1..8u32 {
            for (alike, burst) in [(false, 1), (false, 32), (true, 1), (true, 32)] {
                let numbered = |i: &usize| {
                    let mut packet = piece(*i);
                    if followed & 1 << i != 0 {
                        packet.follow(if alike { 1 } else { *i as u8 + 1 });
                    }
                    packet
                };
                let packets = order.iter().map(numbered).collect();
                let mut run = super::Rig::text(&config).burst(burst).packets(packets).ready();
                let journeys = Journeys::of(&mut run);
                let run = run.again();
                let told = journeys.told(&run);
                let context = format!("{order:?}, {followed:03b} {alike} {burst}: {told:?}");
                let all: Vec<&str> = told.values().flatten().map(String::as_str).collect();
                let count = |what: &str| all.iter().filter(|told| **told == what).count();
                // The frame of a piece that has gone may be that of the whole, which goes on in its place.
                let ends = count("ends in e") + count("dropped by Discard@4");
                assert!(ends >= followed.count_ones() as usize, "{context}");
                let whole = followed & 1 != 0 || followed & 1 << order[2] != 0;
                assert_eq!(count("dropped by Discard@4"), usize::from(whole), "{context}");
                if followed == 1 << order[0] && order[0] == 0 {
                    assert_eq!(
                        all,
                        ["held by e", "made by e", "ends in e", "dropped by Discard@4"],
                        "{context}"
                    );
                }
            }
        }
    }
    // What never comes together is dropped.
    let mut first = piece(0);
    first.follow(5);
    let mut run = super::Rig::text(&config).packets(vec![first, piece(1)]).ready();
    let journeys = Journeys::of(&mut run);
    let run = run.again();
    let told = journeys.told(&run);
    assert_eq!(told[&5], ["held by e", "dropped by e"]);
}
