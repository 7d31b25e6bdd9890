// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several workers on one device with hundreds of peers, in threads of their own, on the test's clock.
//!
//! Every peer has packets from all workers at once, so they share each session's counters. Whether a counter came twice is read from the bytes of the datagrams, without
//! the crate's help.

mod pair;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, Sender, channel};

use junctor_wireguard::endpoint::{Local, Outer};
use junctor_wireguard::limits::SECOND;
use junctor_wireguard::message::Message;
use junctor_wireguard::open::Datagram;
use junctor_wireguard::shake::Here;
use junctor_wireguard::{Config, Device, PeerConfig, Secret};
use packet::Packet;
use pair::Side;
use sync::rcu::{Domain, Reader};

/// Workers of the device in the middle.
const WORKERS: usize = 4;
/// Threads that have its peers.
const CROWDS: usize = 2;
const PEERS: usize = 300;
/// Packets that a worker sends in a step, in batches of some.
const EACH: usize = 40;
const BATCH: usize = 8;
const STEP: u64 = SECOND / 100;

type Bytes = Vec<u8>;

/// Who sent a packet to whom, and how many came before it.
type Mark = (u32, u32);

fn secret(of: usize) -> Secret {
    let mut bytes = [0x40; 32];
    bytes[1..9].copy_from_slice(&(of as u64).to_le_bytes());
    Secret::new(bytes)
}

/// The outer address of a peer.
fn outside(peer: usize) -> [u8; 4] {
    [198, 18, (peer >> 8) as u8, peer as u8]
}

/// The address behind a peer, and the one behind the device in the middle.
fn inside(peer: usize) -> [u8; 4] {
    [10, 1, (peer >> 8) as u8, peer as u8]
}
const BEHIND: [u8; 4] = [172, 16, 0, 1];
const MIDDLE: [u8; 4] = [192, 0, 2, 1];

/// The flow of packets of a worker to a peer; the last one is that of the peer to the middle.
fn flow(peer: usize, worker: usize) -> u32 {
    (peer * (WORKERS + 1) + worker) as u32
}

fn marked(from: [u8; 4], to: [u8; 4], (flow, number): Mark) -> Bytes {
    let mut bytes = vec![0; 60];
    let repr = wire::ipv4::Repr {
        src: from.into(),
        dst: to.into(),
        protocol: wire::Protocol(253),
        payload_len: 40,
        ttl: 64,
        tos: 0,
        id: 7,
        fragment: 0,
    };
    repr.emit(&mut bytes).unwrap();
    bytes[20..24].copy_from_slice(&flow.to_be_bytes());
    bytes[24..28].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn mark_of(inner: &[u8]) -> Mark {
    (number_at(inner, 20), number_at(inner, 24))
}

/// A moment, and what happens in it.
#[derive(Clone, Copy)]
struct Step {
    now_ns: u64,
    /// Peers whose number leaves this rest begin their first handshakes.
    begins: Option<usize>,
    sends: bool,
    /// Every peer sends. If one were silent for long, the middle would begin a handshake too, and packets on their way could lose their session.
    all_send: bool,
}

/// First handshakes, five minutes of packets with pauses, and a moment in which the last ones arrive.
fn steps() -> Vec<Step> {
    let mut now_ns = SECOND;
    let mut steps = Vec::new();
    let mut step = |after: u64, begins, sends| {
        now_ns += after;
        steps.push(Step { now_ns, begins, sends, all_send: sends && after > STEP });
    };
    (0..10).for_each(|rest| step(STEP, Some(rest), false));
    (0..6).for_each(|_| step(STEP, None, false));
    for _ in 0..60 {
        step(5 * SECOND, None, true);
        (0..5).for_each(|_| step(STEP, None, true));
    }
    (0..6).for_each(|_| step(STEP, None, false));
    steps
}

/// What a thread has seen: datagrams that it sent, marks of packets that it sent, and of those that came, in their order.
#[derive(Default)]
struct Log {
    datagrams: Vec<Bytes>,
    sent: HashMap<u32, u32>,
    came: Vec<Mark>,
}

impl Log {
    /// The mark of the next packet of a flow.
    fn next(&mut self, flow: u32) -> Mark {
        let count = self.sent.entry(flow).or_default();
        *count += 1;
        (flow, *count - 1)
    }
}

/// One of the workers in the middle.
struct Worker<'a> {
    number: usize,
    device: &'a Device,
    reader: Reader,
    peers: &'a [Sender<Bytes>],
    from_peers: Receiver<Bytes>,
    log: Log,
}

impl Worker<'_> {
    fn here(&self, now_ns: u64) -> Here<'_> {
        Here { reader: &self.reader, worker: self.number, now_ns, wall_ns: now_ns }
    }

    /// Sends a datagram to the peer at its destination.
    fn post(&mut self, bytes: Bytes) {
        let peer = usize::from(bytes[18]) << 8 | usize::from(bytes[19]);
        self.log.datagrams.push(bytes.clone());
        self.peers[peer % CROWDS].send(bytes).unwrap();
    }

    fn step(&mut self, step: Step) {
        let came: Vec<Bytes> = self.from_peers.try_iter().collect();
        came.iter().for_each(|bytes| self.receive(bytes, step.now_ns));
        if step.sends {
            (0..EACH / BATCH).for_each(|_| self.send(step.now_ns));
        }
        let mut said = Vec::new();
        self.device.tick(&self.here(step.now_ns), &mut |outer, message| said.push(datagram(outer, message)));
        said.into_iter().for_each(|bytes| self.post(bytes));
        self.reader.quiescent();
    }

    fn receive(&mut self, bytes: &[u8], now_ns: u64) {
        let datagram_read = Datagram::read(bytes).unwrap();
        let mut said = Vec::new();
        match datagram_read.message(bytes).unwrap() {
            Message::Data(data) => {
                let mut packet = Packet::copy_of(bytes).unwrap();
                let here = self.here(now_ns);
                let named = (data.receiver, data.counter);
                let known = self.device.recognise(&here, datagram_read, named).expect("a session");
                self.device.decrypt(&mut packet, &known).expect("it is genuine");
                known.session.window().accept_first(&[known.counter + 1]).expect("it came once");
                if self.device.unpack(&mut packet, &known, &here).expect("it is allowed") {
                    let mark = mark_of(packet.data());
                    self.log.came.push(mark);
                }
            }
            message => {
                let mut send = |outer: Outer, message: &[u8]| said.push(datagram(outer, message));
                let here = self.here(now_ns);
                self.device.shake(&message, datagram_read.path, &here, &mut send).expect("a handshake");
            }
        }
        said.into_iter().for_each(|bytes| self.post(bytes));
    }

    /// Sends a batch to peers at random. Packets to one peer in a row take their counters at once, as in the element.
    fn send(&mut self, now_ns: u64) {
        let peer = fastrand::usize(..PEERS);
        let to: Vec<usize> =
            (0..BATCH).map(|_| if fastrand::bool() { peer } else { fastrand::usize(..PEERS) }).collect();
        let mut batch: Vec<Packet> = Vec::new();
        for peer in &to {
            let mark = self.log.next(flow(*peer, self.number));
            batch.push(Packet::copy_of(&marked(BEHIND, inside(*peer), mark)).unwrap());
        }
        let device = self.device;
        let mut sealed = Vec::new();
        {
            let chosen: Vec<_> = batch
                .iter()
                .map(|packet| device.choose(&self.reader, packet.data(), 1500, now_ns).expect("a session"))
                .collect();
            let mut packets = batch.iter_mut();
            for run in chosen.chunk_by(|a, b| std::ptr::eq(a.session, b.session)) {
                let first = run[0].session.take_counters(run.len() as u32).unwrap();
                for (chosen, counter) in run.iter().zip(first..) {
                    let packet = packets.next().unwrap();
                    device
                        .seal(&self.reader, packet, chosen, counter, (self.number, now_ns))
                        .expect("there is room");
                    sealed.push(packet.data().to_vec());
                }
            }
        }
        sealed.into_iter().for_each(|bytes| self.post(bytes));
    }
}

fn datagram(outer: Outer, message: &[u8]) -> Bytes {
    let mut bytes = vec![0; outer.size()];
    bytes.extend(message);
    outer.write(&mut bytes);
    bytes
}

/// Peers that share a thread.
struct Crowd<'a> {
    sides: BTreeMap<usize, Side>,
    workers: &'a [Sender<Bytes>],
    from_middle: Receiver<Bytes>,
    log: Log,
}

impl Crowd<'_> {
    fn new(number: usize, workers: &[Sender<Bytes>], from_middle: Receiver<Bytes>) -> Crowd<'_> {
        let sides = (number..PEERS).step_by(CROWDS).map(|peer| (peer, side(peer))).collect();
        Crowd { sides, workers, from_middle, log: Log::default() }
    }

    /// Sends a datagram of a peer to the worker that its flow leads to; those of peers with odd numbers go to any one.
    fn post(&mut self, peer: usize, bytes: Bytes) {
        let worker =
            if (peer / CROWDS).is_multiple_of(2) { peer / 4 % WORKERS } else { fastrand::usize(..WORKERS) };
        self.log.datagrams.push(bytes.clone());
        self.workers[worker].send(bytes).unwrap();
    }

    fn step(&mut self, step: Step) {
        self.sides.values_mut().for_each(|side| side.now_ns = step.now_ns);
        let came: Vec<Bytes> = self.from_middle.try_iter().collect();
        for bytes in came {
            let peer = usize::from(bytes[18]) << 8 | usize::from(bytes[19]);
            match self.sides.get_mut(&peer).unwrap().receive(&bytes) {
                Ok(Some(inner)) => self.log.came.push(mark_of(&inner)),
                Ok(None) | Err(Err(Ok(()))) => {}
                other => panic!("peer {peer}: {other:?}"),
            }
        }
        for peer in self.sides.keys().copied().collect::<Vec<_>>() {
            if step.all_send || (step.sends && fastrand::bool()) {
                let mark = self.log.next(flow(peer, WORKERS));
                let sealed = self.sides.get_mut(&peer).unwrap().send(&marked(inside(peer), BEHIND, mark));
                self.post(peer, sealed.expect("a session"));
            }
            let side = self.sides.get_mut(&peer).unwrap();
            let mut said = match step.begins {
                Some(rest) if peer % 10 == rest => side.hurry(),
                _ => Vec::new(),
            };
            said.extend(side.pass(0));
            said.into_iter().for_each(|bytes| self.post(peer, bytes));
        }
    }
}

/// A peer, which knows where the middle is.
fn side(peer: usize) -> Side {
    let domain = Domain::default();
    let device = Device::new(secret(peer + 1), &domain, 1).unwrap();
    device.set_local(Local { port: 51820, four: Some(outside(peer).into()), six: None }).unwrap();
    let middle = PeerConfig {
        endpoint: Some((MIDDLE, 51820).into()),
        allowed: vec!["172.16.0.0/16".parse().unwrap()],
        ..PeerConfig::new(secret(0).public())
    };
    device.follow(&Config { peers: vec![middle], ..Config::default() }).unwrap();
    Side { reader: domain.register("peer"), device, now_ns: 0, worker: 0, said: Vec::new() }
}

fn middle(domain: &Domain) -> Device {
    let device = Device::new(secret(0), domain, WORKERS).unwrap();
    device.set_limit(u32::MAX);
    device.set_local(Local { port: 51820, four: Some(MIDDLE.into()), six: None }).unwrap();
    let peer = |peer: usize| PeerConfig {
        allowed: vec![format!("10.1.{}.{}/32", peer >> 8, peer & 255).parse().unwrap()],
        ..PeerConfig::new(secret(peer + 1).public())
    };
    device.follow(&Config { peers: (0..PEERS).map(peer).collect(), ..Config::default() }).unwrap();
    device
}

/// Ends the process when a thread fails: the others would wait for it at the barrier forever.
struct EndsAll;

impl Drop for EndsAll {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Everybody's logs: the workers', and the crowds'.
fn run() -> Vec<Log> {
    let domain = Domain::default();
    let (device, steps) = (middle(&domain), steps());
    let barrier = Barrier::new(WORKERS + CROWDS);
    let (to_workers, at_workers): (Vec<_>, Vec<_>) = (0..WORKERS).map(|_| channel()).unzip();
    let (to_crowds, at_crowds): (Vec<_>, Vec<_>) = (0..CROWDS).map(|_| channel()).unzip();
    std::thread::scope(|scope| {
        let (device, steps, barrier, domain) = (&device, &steps, &barrier, &domain);
        let (to_workers, to_crowds) = (&to_workers[..], &to_crowds[..]);
        let mut threads = Vec::new();
        for (number, from_peers) in at_workers.into_iter().enumerate() {
            threads.push(scope.spawn(move || {
                let _end = EndsAll;
                let reader = domain.register("worker");
                let mut worker =
                    Worker { number, device, reader, peers: to_crowds, from_peers, log: Log::default() };
                for step in steps {
                    worker.reader.offline(|| barrier.wait());
                    worker.step(*step);
                }
                worker.log
            }));
        }
        for (number, from_middle) in at_crowds.into_iter().enumerate() {
            threads.push(scope.spawn(move || {
                let _end = EndsAll;
                let mut crowd = Crowd::new(number, to_workers, from_middle);
                for step in steps {
                    barrier.wait();
                    crowd.step(*step);
                }
                crowd.log
            }));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// What the datagrams say: sessions, by the address of their peer, who sends by them, and what the receiver calls them.
#[derive(Default)]
struct Observed {
    /// Counters by which packets were sent, with how often.
    counters: HashMap<(u32, bool, u32), Vec<u64>>,
    /// How often a name was given to a session. By chance, one may be given twice.
    names: HashMap<(u32, bool, u32), u32>,
    /// Responses to each peer.
    answers: HashMap<u32, u32>,
}

impl Observed {
    /// Reads a datagram as the white paper has it (5.4), from the outer IP header on.
    fn read(&mut self, bytes: &[u8]) {
        assert_eq!((bytes[0], bytes[9]), (0x45, 17), "IPv4 without options, UDP");
        let is_out = bytes[12..16] == MIDDLE;
        let peer = number_at(bytes, if is_out { 16 } else { 12 });
        let message = &bytes[28..];
        let little = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().unwrap());
        match message[0] {
            // Who says its name is who receives by it.
            1 => *self.names.entry((peer, !is_out, little(4))).or_default() += 1,
            2 => {
                *self.names.entry((peer, !is_out, little(4))).or_default() += 1;
                *self.answers.entry(peer).or_default() += 1;
            }
            4 => {
                let counter = u64::from_le_bytes(message[8..16].try_into().unwrap());
                self.counters.entry((peer, is_out, little(4))).or_default().push(counter);
            }
            other => panic!("a message of kind {other}"),
        }
    }
}

#[test]
fn several_workers_lose_nothing_and_use_no_counter_twice() {
    let logs = run();
    let mut observed = Observed::default();
    logs.iter().flat_map(|log| &log.datagrams).for_each(|bytes| observed.read(bytes));
    // Counters: each from zero on, once.
    let mut ambiguous = 0;
    for (session, counters) in &mut observed.counters {
        match observed.names.get(session) {
            Some(1) => {
                counters.sort_unstable();
                assert!(counters.iter().copied().eq(0..counters.len() as u64), "{session:?}: {counters:?}");
            }
            Some(_) => ambiguous += 1,
            None => panic!("nobody has named {session:?}"),
        }
    }
    assert!(ambiguous <= 3, "{ambiguous} names were given twice");
    let most = observed.counters.values().map(Vec::len).max().unwrap();
    assert!(most > 30, "sessions carry packets of all workers: {most}");
    // Sessions were renewed.
    assert_eq!(observed.answers.len(), PEERS);
    assert!(observed.answers.values().all(|answers| *answers >= 3), "{:?}", observed.answers);
    // Packets: each once, and in its order where one worker sends or receives its flow.
    let mut sent = HashMap::<u32, u32>::new();
    for log in &logs {
        log.sent.iter().for_each(|(flow, count)| *sent.entry(*flow).or_default() += count);
    }
    let mut came = HashMap::<u32, Vec<u32>>::new();
    for log in &logs {
        log.came.iter().for_each(|(flow, number)| came.entry(*flow).or_default().push(*number));
    }
    assert!(sent.values().sum::<u32>() > 50_000 && sent.len() > PEERS * WORKERS);
    let mut spread = HashSet::new();
    for (flow, count) in sent {
        let (peer, worker) = (flow as usize / (WORKERS + 1), flow as usize % (WORKERS + 1));
        let mut numbers = came.remove(&flow).unwrap_or_default();
        if worker == WORKERS && peer / CROWDS % 2 == 1 {
            spread.insert(peer);
            numbers.sort_unstable();
        }
        assert!(numbers.iter().copied().eq(0..count), "peer {peer}, worker {worker}: {count} {numbers:?}");
    }
    assert_eq!((came.len(), spread.len()), (0, PEERS / 2), "nothing came that was not sent");
}
