// SPDX-License-Identifier: MIT OR Apache-2.0
//! An adversarial peer: it speaks to the node that serves a domain as it likes, and writes what it likes into the memory that it gets there.
//! Each call of this side ends after bounded work. Those that come after the peer find the channel whole.

mod raw_peer;

use std::io::{ErrorKind, Read as _};
use std::time::{Duration, Instant};

use junctor_icc::{
    Domain, Endpoint, Node, NodeId, Note, PacketReceiver, PacketSender, Receiver, Rights, ScalarReceiver,
    Sender, Stream, Width,
};
use proptest::prelude::*;
use raw_peer::{Frames, Raw, Role};

const PACKETS: u32 = 1 << 12;
/// What one call skips at most.
const SKIPPED_MOST: u64 = 16 * 16;
/// What a call of little patience takes at most, on a machine that is busy.
const SURELY: Duration = Duration::from_secs(60);

/// The word of the receiver's position, that of the sender's, and the first cell, in a region of one endpoint.
const START: usize = 32;
const HEAD: usize = START + 16;
const TAIL: usize = START + 80;
const CELL: usize = TAIL + 16;
/// The bit of a cell that says that its packet is lent.
const LENT: u64 = 1 << 32;

fn domain(endpoints: &[Endpoint]) -> (Domain, Node) {
    let domain = Domain::serve(NodeId::new(7, 1), endpoints, None).unwrap();
    let node = domain.node(2).unwrap();
    (domain, node)
}

/// Takes packets until there are none; how many calls that took. No call loses more than it may.
fn drain(receiver: &mut PacketReceiver, lost_at_most: u64) -> (Vec<Vec<u8>>, u64) {
    let (mut got, mut calls, mut buffer) = (Vec::new(), 0, [0; 64]);
    loop {
        let before = receiver.lost();
        let received = receiver.receive(&mut buffer).unwrap();
        let lost = receiver.lost() - before;
        assert!(lost <= lost_at_most, "{lost} packets were skipped in one call");
        calls += 1;
        match received {
            Some((bytes, _)) => got.push(buffer[..bytes].to_vec()),
            None if receiver.wait(Some(Duration::ZERO)).unwrap() => {}
            None => return (got, calls),
        }
    }
}

#[test]
fn packets_that_cannot_be_cost_each_call_a_bounded_number_of_steps() {
    let (domain, node) = domain(&[Endpoint::packets(1, "p", 64, PACKETS)]);
    let mut receiver = node.packet_receiver("p").unwrap();
    let mut peer = Raw::new(domain.socket().unwrap());
    let region = peer.attach("p", Role::Sender).unwrap();
    // All cells name lengths that no packet has.
    (0..PACKETS as usize).for_each(|cell| region.write(CELL + 4 * cell, u64::from(u32::MAX)));
    region.write(TAIL, PACKETS.into());
    let before = receiver.lost();
    assert_eq!(receiver.peek(), Ok(None));
    assert!(receiver.lost() - before <= SKIPPED_MOST, "{} in one look", receiver.lost() - before);
    assert_eq!(receiver.announce(), Ok(false), "it does not sleep while some are left");
    receiver.awake();
    let (got, calls) = drain(&mut receiver, SKIPPED_MOST);
    assert!(got.is_empty() && calls > u64::from(PACKETS) / SKIPPED_MOST);
    assert_eq!(receiver.lost(), PACKETS.into());
    // Who comes after it finds a channel that works.
    drop((peer, region));
    let mut sender: PacketSender = attach(|| node.packet_sender("p"));
    sender.send(b"whole", Note::default()).unwrap();
    assert_eq!(drain(&mut receiver, 0).0, [b"whole".to_vec()]);
}

/// Tries until the server has noticed that the one before has gone.
fn attach<T>(mut one: impl FnMut() -> Result<T, junctor_icc::AttachError>) -> T {
    let give_up = Instant::now() + SURELY;
    loop {
        match one() {
            Ok(end) => return end,
            Err(why) => assert!(Instant::now() < give_up, "{why}"),
        }
    }
}

/// Each packet names a sender that was never there. The node that serves is asked once in a call, and no seat of a later sender is spoilt.
#[test]
fn seats_that_nobody_has_are_asked_for_once_in_a_call() {
    let (domain, node) = domain(&[Endpoint::packets(1, "p", 64, 64)]);
    let mut receiver = node.packet_receiver("p").unwrap();
    let mut peer = Raw::new(domain.socket().unwrap());
    let region = peer.attach("p", Role::Sender).unwrap();
    for cell in 0..64 {
        region.write(CELL + 4 * cell, LENT | 8);
        region.write(CELL + 4 * cell + 3, u64::MAX - cell as u64);
    }
    region.write(TAIL, 64);
    let (got, calls) = drain(&mut receiver, 1);
    assert!(got.is_empty() && calls >= 64, "{calls} calls");
    drop((peer, region));
    let frames = Frames::new(b"lent to you");
    let mut sender = attach(|| node.packet_lender("p", frames.memory()));
    sender.lend(0, frames.bytes(), Note::default()).map_err(|(why, _)| why).unwrap();
    sender.publish();
    assert_eq!(drain(&mut receiver, 0).0, [b"lent to you".to_vec()]);
}

const MESSAGES: u32 = 1 << 12;
/// Messages that a call skips when its time is over.
const NOISE_MOST: usize = 80;
const NOISE: [&[u8]; 2] = [&[1], &[0, 9, 9, 9, 9, 9, 9, 9, 9]];

/// Sends until the channel is full; how many that took.
fn fill(sender: &mut Sender, noise: &[u8]) -> usize {
    (0..).take_while(|_| sender.send(noise).is_ok()).count()
}

fn streams() -> (Domain, Node) {
    domain(&[Endpoint::messages(1, "calls", 100, MESSAGES), Endpoint::messages(2, "answers", 100, MESSAGES)])
}

/// A peer has filled the channel with what means nothing here: calls end when their time is over.
#[test]
fn streams_end_their_calls_in_time_whatever_comes() {
    for noise in NOISE {
        let (_domain, node) = streams();
        let mut peer = node.sender("answers").unwrap();
        fill(&mut peer, noise);
        let (sent, answers) = (node.sender("calls").unwrap(), node.receiver("answers").unwrap());
        let client = Stream::client(sent, answers, Duration::ZERO);
        assert_eq!(client.unwrap_err().kind(), ErrorKind::TimedOut, "{noise:?}");
        let skipped = fill(&mut peer, noise);
        assert!(skipped <= NOISE_MOST, "{skipped} times {noise:?}");
    }
    // A server that waits for a client, and one that reads from it.
    let (_domain, node) = streams();
    let mut peer = node.sender("calls").unwrap();
    let (answers, calls) = (node.sender("answers").unwrap(), node.receiver("calls").unwrap());
    let mut server = Stream::server(answers, calls, Duration::ZERO).unwrap();
    fill(&mut peer, NOISE[0]);
    assert!(!server.accept(Duration::ZERO).unwrap());
    let skipped = fill(&mut peer, NOISE[0]);
    assert!(skipped <= NOISE_MOST, "{skipped} while it waits");
    while !server.accept(Duration::ZERO).unwrap() {
        let _ = peer.send(NOISE[1]);
    }
    fill(&mut peer, NOISE[0]);
    loop {
        match server.read(&mut [0; 8]) {
            // The beginning of another connection was among it.
            Ok(0) => assert!(server.accept(Duration::ZERO).unwrap()),
            Ok(bytes) => panic!("{bytes} bytes that nobody sent"),
            Err(why) => break assert_eq!(why.kind(), ErrorKind::TimedOut),
        }
        fill(&mut peer, NOISE[0]);
    }
    let skipped = fill(&mut peer, NOISE[0]);
    assert!(skipped <= NOISE_MOST, "{skipped} while it reads");
}

/// What a peer may do in one step.
#[derive(Clone, Debug)]
enum Step {
    /// Writes a word of an endpoint's region.
    Write(usize, u16, u64),
    /// Sends bytes to the node that serves.
    Say(Vec<u8>),
    /// Attaches as some role at an endpoint, maybe with a reset.
    Attach(usize, bool, bool),
    /// Closes its connection, and opens another.
    Again,
    /// This side calls one of its ends.
    Call(u8),
}

const NAMES: [&str; 5] = ["m", "s", "p", "from", "c"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let value = prop_oneof![
        any::<u64>(),
        0u64..300,
        (0u64..300).prop_map(|n| u64::MAX - n),
        (any::<u32>(), 0u32..300).prop_map(|(high, low)| u64::from(high) << 32 | u64::from(low)),
        (0u64..12, 0u64..300).prop_map(|(high, low)| high << 32 | low),
    ];
    let place = prop_oneof![
        any::<u16>(),
        0u16..160,
        prop::sample::select(vec![HEAD as u16, TAIL as u16, CELL as u16])
    ];
    prop::collection::vec(
        prop_oneof![
            6 => (0..NAMES.len(), place, value).prop_map(|(end, at, value)| Step::Write(end, at, value)),
            1 => prop::collection::vec(any::<u8>(), 0..120).prop_map(Step::Say),
            2 => (0..NAMES.len(), any::<bool>(), prop::bool::weighted(0.1)).prop_map(|(end, role, reset)| Step::Attach(end, role, reset)),
            1 => Just(Step::Again),
            8 => any::<u8>().prop_map(Step::Call),
        ],
        0..80,
    )
}

/// This side's ends.
#[derive(Default)]
struct Ends {
    messages: Option<Receiver>,
    scalars: Option<ScalarReceiver>,
    packets: Option<PacketReceiver>,
    sender: Option<Sender>,
    lender: Option<PacketSender>,
}

impl Ends {
    fn attach(&mut self, node: &Node) {
        let Ends { messages, scalars, packets, sender, lender } = self;
        *messages = messages.take().or_else(|| node.receiver("m").ok());
        *scalars = scalars.take().or_else(|| node.scalar_receiver("s").ok());
        *packets = packets.take().or_else(|| node.packet_receiver("p").ok());
        *sender = sender.take().or_else(|| node.sender("from").ok());
        *lender = lender.take().or_else(|| node.packet_sender("p").ok());
    }

    /// One call. An end that fails is attached anew later.
    fn call(&mut self, node: &Node, which: u8) {
        const NOW: Option<Duration> = Some(Duration::ZERO);
        const MANY: usize = 32;
        let mut count = 0;
        match which % 10 {
            0 => drop_failed(&mut self.messages, |end| {
                end.receive_many(MANY, |m| count += usize::from(m.len() <= 200))
            }),
            1 => drop_failed(&mut self.messages, |end| end.receive(&mut [0; 200])),
            2 => drop_failed(&mut self.messages, |end| end.wait(NOW)),
            3 => drop_failed(&mut self.scalars, |end| end.receive_many(MANY, |_| count += 1)),
            4 => drop_failed(&mut self.packets, |end| {
                let before = end.lost();
                let done = end.receive(&mut [0; 64]);
                assert!(end.lost() - before <= SKIPPED_MOST);
                done
            }),
            5 => drop_failed(&mut self.packets, |end| end.wait(NOW)),
            6 => drop_failed(&mut self.sender, |end| end.send(&[which; 150])),
            7 => drop_failed(&mut self.lender, |end| end.send(&[which; 60], Note::default())),
            8 => drop_failed(&mut self.lender, |end| end.collect(|_| count += 1)),
            _ => {
                let mut counters = Vec::new();
                if let Ok(reader) = node.counter_reader("c") {
                    let _ = reader.read(&mut counters);
                }
                count += usize::from(counters.len() > 8) * MANY * 2;
                self.attach(node);
            }
        }
        assert!(count <= MANY, "{count} steps in one call");
    }
}

fn drop_failed<E, T, W>(end: &mut Option<E>, call: impl FnOnce(&mut E) -> Result<T, W>) {
    if end.as_mut().is_some_and(|end| call(end).is_err()) {
        *end = None;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..Default::default() })]
    /// Any steps of a peer: no call panics or hangs, and the node that serves answers others.
    #[test]
    fn whatever_a_peer_does_calls_end_and_others_are_served(steps in steps()) {
        let all = Rights::mode(0o666);
        let endpoints = [
            Endpoint::messages(1, "m", 200, 16).rights(all),
            Endpoint::scalars(2, "s", Width::Bits32, 16).rights(all),
            Endpoint::packets(3, "p", 64, 64).rights(all),
            Endpoint::messages(4, "from", 200, 16).rights(all),
            Endpoint::counters(5, "c", 8).rights(all),
            Endpoint::messages(6, "other", 200, 16),
        ];
        let (domain, node) = domain(&endpoints);
        let mut ends = Ends::default();
        let mut peer = Raw::new(domain.socket().unwrap());
        let mut regions: [Option<raw_peer::Region>; 5] = Default::default();
        for step in steps {
            match step {
                Step::Write(end, at, value) => {
                    if let Some(region) = &regions[end] {
                        region.write_anywhere(at.into(), value);
                    }
                }
                Step::Say(bytes) => peer.say(&bytes),
                Step::Attach(end, sends, reset) => {
                    let role = if sends { Role::Sender } else { Role::Receiver };
                    if let Some(region) = peer.ask(NAMES[end], role, reset) {
                        regions[end] = Some(region);
                    }
                }
                Step::Again => peer = Raw::new(domain.socket().unwrap()),
                Step::Call(which) => ends.call(&node, which),
            }
        }
        // Another channel of the same domain, for others.
        let other = domain.node(3).unwrap();
        let (mut sender, mut receiver) = (other.sender("other").unwrap(), other.receiver("other").unwrap());
        sender.send(b"still here").unwrap();
        let mut buffer = [0; 200];
        prop_assert_eq!(receiver.receive(&mut buffer).unwrap(), Some(10));
    }
}
