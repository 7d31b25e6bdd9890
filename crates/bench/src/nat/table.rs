// SPDX-License-Identifier: MIT OR Apache-2.0
//! A translator or a load balancer itself, called as its element calls it.
//!
//! Packets are written in pieces of a few thousand, and only what the translator does to a piece is timed. So its time has no
//! clock in it, and packets are in the cache as after a device. What comes out is compared with what was expected, untimed.

use fastrand::Rng;
use report::measure::Measured;

use super::Settings;
use super::shape::{Bytes, Ends, LENGTH, Protocol, Shape, Step, ends_of, is_sound};
use super::subject::Subject;
use crate::Error;
use crate::fib::thread_seconds;

/// Packets that are written before they are translated: 94 kB.
pub(super) const PIECE: usize = 2048;
/// The virtual clock's step for each batch: a table of all shapes is filled in less than a second.
pub(super) const STEP_NS: u64 = 100;
const SECOND_NS: u64 = 1_000_000_000;
/// Sessions of a table that is filled within a second live so much longer than they may be idle, and less.
const SURELY_NS: u64 = 3 * SECOND_NS;
/// For how long a port is nobody else's after a session's end, and more.
const PORTS_WAIT_NS: u64 = 200 * SECOND_NS;
/// Of so many sessions one goes on while all others expire.
const LASTING: usize = 10;
/// Batches before the expiry, to compare with.
const QUIET: usize = 4096;

/// Measures all shapes, fewest sessions first.
///
/// # Errors
/// A packet is not translated as it should be.
pub(super) fn measure<S: Subject>(args: &Settings, shapes: &[Shape]) -> Result<Vec<Measured>, Error> {
    let first = first::<S>(args, shapes)?;
    let mut results = Vec::new();
    for (shape, first) in shapes.iter().zip(first) {
        let mut runs: Vec<Run> = Vec::new();
        for seed in 0..args.runs.max(1) {
            runs.push(run::<S>(args, shape, seed as u64)?);
        }
        let name = |what: &str| format!("{}.{what}.{}", S::NAME, shape.sessions());
        let all = |what: &str, unit, of: fn(&Run) -> f64| {
            Measured::new(name(what), unit, runs.iter().map(of).collect())
        };
        results.extend([
            all("setup_per_s", "sessions/s", |run| run.setup_per_s),
            all("setup_again_per_s", "sessions/s", |run| run.setup_again_per_s),
            Measured::new(name("setup_batch_us_max"), "us", vec![first.batch_us_max]),
            all("ns_per_packet", "ns", |run| run.ns_per_packet),
            Measured::new(name("bytes_per_session"), "B", vec![first.bytes_per_session]),
            all("expiry.quiet_us", "us", |run| run.expiry.quiet_us),
            all("expiry.batch_us", "us", |run| run.expiry.mean_us),
            all("expiry.batch_us_max", "us", |run| run.expiry.max_us),
            all("expiry.ns_per_session", "ns", |run| run.expiry.ns_per_session),
        ]);
    }
    Ok(results)
}

/// What the first ramp-up of a shape shows.
struct First {
    /// The longest batch of set-up, which may wait for a table that grows.
    batch_us_max: f64,
    /// Bytes of memory for each session.
    bytes_per_session: f64,
}

/// Ramps each shape up. All tables stay until the last one is measured: what a freed one leaves would hide what the next one takes.
fn first<S: Subject>(args: &Settings, shapes: &[Shape]) -> Result<Vec<First>, Error> {
    let (mut kept, mut all) = (Vec::new(), Vec::new());
    for shape in shapes {
        let before = crate::feed::resident();
        let mut trial = Trial::<S>::new(args, shape, 0)?;
        // The list of outside ports is the benchmark's own.
        let own = crate::feed::resident();
        trial.outside.fill((1, 1));
        let own = crate::feed::resident() - own;
        let (_, longest) = trial.set_up(args.burst)?;
        trial.ramp_up()?;
        let grown = crate::feed::resident() - before - own;
        let batch_us_max = (longest - clock_seconds()) * 1e6;
        all.push(First { batch_us_max, bytes_per_session: grown / shape.sessions() as f64 });
        kept.push(trial);
    }
    Ok(all)
}

struct Run {
    setup_per_s: f64,
    setup_again_per_s: f64,
    ns_per_packet: f64,
    expiry: Expiry,
}

/// What a batch takes while sessions expire.
struct Expiry {
    quiet_us: f64,
    mean_us: f64,
    max_us: f64,
    ns_per_session: f64,
}

fn run<S: Subject>(args: &Settings, shape: &Shape, seed: u64) -> Result<Run, Error> {
    let mut trial = Trial::<S>::new(args, shape, seed)?;
    let setup_per_s = shape.sessions() as f64 / trial.set_up(PIECE)?.0;
    trial.ramp_up()?;
    let ns_per_packet = trial.throughput(args.packets)? * 1e9;
    let expiry = trial.expiry()?;
    trial.reset()?;
    let setup_again_per_s = shape.sessions() as f64 / trial.set_up(PIECE)?.0;
    Ok(Run { setup_per_s, setup_again_per_s, ns_per_packet, expiry })
}

/// A translator or a load balancer with its traffic.
pub(super) struct Trial<'a, S> {
    pub(super) shape: &'a Shape,
    pub(super) subject: S,
    pub(super) now_ns: u64,
    /// When the last set-up began.
    began_ns: u64,
    burst: usize,
    pub(super) rng: Rng,
    /// By session: the address and port that its first packet has got.
    outside: Vec<(u32, u16)>,
    pub(super) packets: Vec<Bytes>,
    /// The sessions of the packets.
    pub(super) sessions: Vec<usize>,
}

impl<'a, S: Subject> Trial<'a, S> {
    pub(super) fn new(args: &Settings, shape: &'a Shape, seed: u64) -> Result<Trial<'a, S>, Error> {
        Ok(Trial {
            shape,
            subject: S::new(shape, seed)?,
            now_ns: SECOND_NS,
            began_ns: SECOND_NS,
            burst: args.burst,
            rng: Rng::with_seed(seed),
            outside: vec![(0, 0); shape.sessions()],
            packets: vec![[0; LENGTH]; PIECE],
            sessions: Vec::with_capacity(PIECE),
        })
    }

    /// The time that sessions may be idle after ramp-up.
    fn idle_ns(&self) -> u64 {
        self.subject.idle_ns(self.shape.protocol)
    }

    /// The ends of a session's packet before it is translated, and after.
    fn ends(&self, session: usize, leaves: bool) -> [Ends; 2] {
        S::ends(self.shape.ends(session), self.outside[session], leaves)
    }

    /// Writes a packet for each of the sessions; `leaves` says for each batch which way it goes.
    pub(super) fn write(&mut self, step: Step, leaves: impl Fn(usize) -> bool) {
        for at in 0..self.sessions.len() {
            let session = self.sessions[at];
            let [ends, _] = self.ends(session, leaves(at / self.burst));
            self.shape.write(&mut self.packets[at], session, ends, step);
        }
    }

    /// Translates the packets, batch by batch; returns seconds of processor time.
    fn translate(&mut self, leaves: impl Fn(usize) -> bool) -> Result<f64, Error> {
        let count = self.sessions.len();
        let mut translated = 0;
        let since = thread_seconds();
        for (number, batch) in self.packets[..count].chunks_mut(self.burst).enumerate() {
            translated += self.subject.pass(self.now_ns, batch, leaves(number));
            self.now_ns += STEP_NS;
        }
        let seconds = thread_seconds() - since;
        match count - translated {
            0 => Ok(seconds),
            lost => Err(Error::nothing(format!("{lost} of {count} packets were not translated"))),
        }
    }

    /// The packets must be as expected, with right checksums.
    fn check(&self, leaves: impl Fn(usize) -> bool) -> Result<(), Error> {
        for (at, session) in self.sessions.iter().enumerate() {
            let [_, ends] = self.ends(*session, leaves(at / self.burst));
            let packet = &self.packets[at];
            if ends_of(packet) != Some(ends) || !is_sound(packet) {
                let what = format!("session {session} has a packet with wrong addresses, ports or checksums");
                return Err(Error::nothing(what));
            }
        }
        Ok(())
    }

    /// The sessions of a piece, from the first one on.
    fn choose(&mut self, first: usize, piece: usize) {
        self.sessions.clear();
        self.sessions.extend(first..(first + piece).min(self.shape.sessions()));
    }

    /// Begins all sessions, in pieces of so many; returns seconds for all, and for the longest piece.
    pub(super) fn set_up(&mut self, piece: usize) -> Result<(f64, f64), Error> {
        self.began_ns = self.now_ns;
        let (mut seconds, mut longest) = (0.0, 0.0f64);
        for first in (0..self.shape.sessions()).step_by(piece) {
            self.choose(first, piece);
            self.write(Step::Begin, |_| true);
            let took = self.translate(|_| true)?;
            (seconds, longest) = (seconds + took, longest.max(took));
            for (session, packet) in self.sessions.iter().zip(&self.packets) {
                self.outside[*session] = S::learn(ends_of(packet).unwrap_or_default());
            }
            self.check(|_| true)?;
        }
        match self.subject.len() {
            count if count == self.shape.sessions() => Ok((seconds, longest)),
            count => Err(Error::nothing(format!("{count} sessions in place of {}", self.shape.sessions()))),
        }
    }

    /// Has both sides agree on all sessions.
    pub(super) fn ramp_up(&mut self) -> Result<(), Error> {
        let steps: &[(Step, bool)] = match self.shape.protocol {
            Protocol::Udp => &[(Step::Answer, false)],
            Protocol::Tcp => &[(Step::Answer, false), (Step::Later, true)],
        };
        for first in (0..self.shape.sessions()).step_by(PIECE) {
            self.choose(first, PIECE);
            for (step, leaves) in steps {
                self.write(*step, |_| *leaves);
                self.translate(|_| *leaves)?;
            }
        }
        Ok(())
    }

    /// Translates packets of sessions at random, every other batch in the other direction; returns seconds for each packet.
    fn throughput(&mut self, count: usize) -> Result<f64, Error> {
        let leaves = |batch: usize| batch.is_multiple_of(2);
        let (mut seconds, mut done) = (0.0, 0);
        while done < count {
            let most = self.shape.sessions();
            self.sessions.clear();
            for _ in 0..PIECE.min(count - done) {
                self.sessions.push(self.rng.usize(..most));
            }
            done += self.sessions.len();
            self.write(Step::Later, leaves);
            seconds += self.translate(leaves)?;
            self.check(leaves)?;
        }
        Ok(seconds / count as f64)
    }

    /// All sessions but those that last expire at once; each batch of those is timed until the others are gone.
    fn expiry(&mut self) -> Result<Expiry, Error> {
        let (lasting, clock) = (self.shape.sessions().div_ceil(LASTING), clock_seconds());
        self.now_ns = self.began_ns + self.idle_ns() - SECOND_NS / 4;
        for first in (0..lasting).step_by(PIECE) {
            self.sessions.clear();
            self.sessions.extend(first..(first + PIECE).min(lasting));
            self.write(Step::Later, |_| true);
            self.translate(|_| true)?;
        }
        let mut quiet = 0.0;
        for number in 0..QUIET {
            quiet += self.one_batch(lasting, number)? - clock;
        }
        let (before, quiet) = (self.subject.len(), quiet / QUIET as f64);
        self.now_ns = self.began_ns + self.idle_ns() + SURELY_NS;
        let (mut sum, mut max, mut batches) = (0.0, 0.0f64, 0);
        while self.subject.len() > lasting {
            let took = self.one_batch(lasting, batches)? - clock;
            (sum, max, batches) = (sum + took, max.max(took), batches + 1);
            // Each batch looks at more entries than it has packets, so this is a table that does not end.
            if batches > self.shape.sessions() {
                return Err(Error::nothing(format!(
                    "{} sessions do not expire",
                    self.subject.len() - lasting
                )));
            }
        }
        let (count, ended) = (batches.max(1) as f64, (before - lasting).max(1) as f64);
        Ok(Expiry {
            quiet_us: quiet * 1e6,
            mean_us: sum / count * 1e6,
            max_us: max * 1e6,
            ns_per_session: (sum - quiet * count).max(0.0) / ended * 1e9,
        })
    }

    /// Translates a batch of the sessions that last; returns seconds.
    fn one_batch(&mut self, lasting: usize, number: usize) -> Result<f64, Error> {
        let leaves = number.is_multiple_of(2);
        self.sessions.clear();
        for _ in 0..self.burst {
            self.sessions.push(self.rng.usize(..lasting));
        }
        self.write(Step::Later, |_| leaves);
        let seconds = self.translate(|_| leaves)?;
        self.check(|_| leaves)?;
        Ok(seconds)
    }

    /// Ends all sessions, and waits on the virtual clock until their ports are free.
    fn reset(&mut self) -> Result<(), Error> {
        self.now_ns += self.idle_ns() + SURELY_NS;
        self.subject.reap(self.now_ns, usize::MAX);
        if self.subject.len() != 0 {
            return Err(Error::nothing(format!("{} sessions do not expire", self.subject.len())));
        }
        self.now_ns += PORTS_WAIT_NS;
        // Each call frees a few dozen ports.
        (0..self.shape.sessions().div_ceil(16)).for_each(|_| self.subject.reap(self.now_ns, 0));
        Ok(())
    }
}

/// What reading the clock twice takes.
fn clock_seconds() -> f64 {
    let pair = |_| {
        let since = thread_seconds();
        thread_seconds() - since
    };
    (0..1000).map(pair).fold(f64::INFINITY, f64::min)
}
