// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbered packets as fast as they go: a host sends them by UDP, another one sends each back. A few are under way at any time, so no queue of the way overflows, and what is lost
//! was lost for another reason.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use testbed::rig::{Namespace, wait_for};

/// Packets under way.
const WINDOW: usize = 64;
/// After so much time without an answer, one packet more is sent.
const TIMEOUT: Duration = Duration::from_secs(2);
/// At the end of a stream it is waited so many times as long: on a busy machine all hosts may stand still for seconds.
const LAST_TIMEOUTS: usize = 15;
/// How often the host that sends them back looks whether the stream has ended.
const TURN: Duration = Duration::from_millis(50);

/// How often each number has come.
type Counts = Vec<u8>;

/// The stream. It ends with [`end`](Stream::end).
pub struct Stream {
    start: Instant,
    is_over: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    sender: JoinHandle<(usize, Counts)>,
    echo: JoinHandle<Counts>,
}

/// What became of a stream.
#[derive(Debug)]
pub struct Account {
    pub sent: usize,
    pub a_second: f64,
    /// Numbers that have not come to the other host; and those whose answer has not come back.
    pub lost: [Vec<usize>; 2],
    /// Numbers that have come more than once, there and back.
    pub doubled: [Vec<usize>; 2],
}

fn count(counts: &mut Counts, number: usize) {
    counts.resize(counts.len().max(number + 1), 0);
    counts[number] = counts[number].saturating_add(1);
}

/// The number in a packet.
fn receive(socket: &UdpSocket) -> Option<([u8; 8], std::net::SocketAddr)> {
    let mut packet = [0; 8];
    socket.recv_from(&mut packet).ok().map(|(_, from)| (packet, from))
}

fn send_back(socket: &UdpSocket, is_over: &AtomicBool) -> Counts {
    let mut counts = Counts::new();
    while !is_over.load(Ordering::Acquire) {
        if let Some((packet, from)) = receive(socket) {
            count(&mut counts, u64::from_be_bytes(packet) as usize);
            let _ = socket.send_to(&packet, from);
        }
    }
    counts
}

/// The packets of a stream that are under way.
#[derive(Default)]
struct Window {
    sent: usize,
    under_way: usize,
    /// Those below are not waited for any more.
    first: usize,
    /// The number of a packet that was sent when no answer had come for long. Its own answer says that those before it are lost.
    probe: Option<usize>,
    counts: Counts,
}

impl Window {
    fn send(&mut self, socket: &UdpSocket) {
        // An ICMP error about an earlier packet fails the next call, which sends nothing.
        while socket.send(&(self.sent as u64).to_be_bytes()).is_err() {}
        (self.sent, self.under_way) = (self.sent + 1, self.under_way + 1);
    }

    /// All that are under way may be lost; or they wait on a busy machine, where none must find a full queue. So one packet goes each time.
    fn probe(&mut self, socket: &UdpSocket) {
        self.probe.get_or_insert(self.sent);
        self.send(socket);
    }

    fn take(&mut self, number: usize) {
        count(&mut self.counts, number);
        if self.probe.is_some_and(|probe| number >= probe) {
            (self.first, self.probe) = (number, None);
            let came = |at: &usize| self.counts.get(*at).is_some_and(|count| *count > 0);
            self.under_way = (number..self.sent).filter(|at| !came(at)).count();
        } else if number >= self.first && self.counts[number] == 1 {
            self.under_way -= 1;
        }
    }
}

/// Sends until all is over, and returns how many and what came back.
fn send(socket: &UdpSocket, ends: &AtomicBool, answers: &AtomicUsize) -> (usize, Counts) {
    let (mut window, mut came, mut timeouts) = (Window::default(), 0, 0);
    loop {
        while window.under_way < WINDOW && !ends.load(Ordering::Acquire) {
            window.send(socket);
        }
        let is_over = ends.load(Ordering::Acquire);
        if is_over && (came >= window.sent || timeouts >= LAST_TIMEOUTS) {
            return (window.sent, window.counts);
        }
        if let Some((packet, _)) = receive(socket) {
            window.take(u64::from_be_bytes(packet) as usize);
            answers.fetch_add(1, Ordering::Release);
            (came, timeouts) = (came + 1, 0);
        } else {
            timeouts += 1;
            if !is_over {
                window.probe(socket);
            }
        }
    }
}

impl Stream {
    /// Sends from a host to an address of another one, and waits until answers come.
    pub fn start(from: &Namespace, to: &Namespace, address: &str) -> Stream {
        let there = to.enter(|| UdpSocket::bind((address, 0))).unwrap().unwrap();
        let here = from.enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
        here.connect(there.local_addr().unwrap()).unwrap();
        here.set_read_timeout(Some(TIMEOUT)).unwrap();
        there.set_read_timeout(Some(TURN)).unwrap();
        let (is_over, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let answers = Arc::new(AtomicUsize::new(0));
        let echo = std::thread::spawn({
            let is_over = is_over.clone();
            move || send_back(&there, &is_over)
        });
        let sender = std::thread::spawn({
            let (ends, answers) = (ends.clone(), answers.clone());
            move || {
                let sent = send(&here, &ends, &answers);
                is_over.store(true, Ordering::Release);
                sent
            }
        });
        let stream = Stream { start: Instant::now(), is_over: ends, answers, sender, echo };
        stream.goes_on(WINDOW);
        stream
    }

    /// Waits until so many more answers have come.
    pub fn goes_on(&self, more: usize) {
        let before = self.answers.load(Ordering::Acquire);
        let came = || self.answers.load(Ordering::Acquire) >= before + more;
        wait_for("answers", crate::site::PATIENCE, came).unwrap();
    }

    /// Ends it when all that is under way has come.
    pub fn end(self) -> Account {
        self.is_over.store(true, Ordering::Release);
        let (sent, back) = self.sender.join().unwrap();
        let a_second = sent as f64 / self.start.elapsed().as_secs_f64();
        let counts = [self.echo.join().unwrap(), back];
        let of = |wanted: fn(u8) -> bool| {
            let numbers = |counts: &Counts| {
                (0..sent).filter(|at| wanted(counts.get(*at).copied().unwrap_or_default())).collect()
            };
            [numbers(&counts[0]), numbers(&counts[1])]
        };
        Account { sent, a_second, lost: of(|count| count == 0), doubled: of(|count| count > 1) }
    }
}

impl Account {
    /// Asserts that each packet has come there and back, once.
    pub fn is_whole(&self) {
        let all = self.lost.iter().chain(&self.doubled);
        assert!(all.flatten().next().is_none(), "{self:?}");
    }
}
