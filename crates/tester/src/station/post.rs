// SPDX-License-Identifier: MIT OR Apache-2.0
//! A station in a thread of its own that does its part in trials that somebody else leads.
//!
//! The thread neither waits nor asks while a trial runs: what its leader wants to tell it or to know stands in a few words of memory
//! that it looks at each turn.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use super::clock::Clock;
use super::line::Turn;
use super::run::LOOK_NS;
use super::{Member, Order, Plan, Progress, Station, Tally};
use crate::trial::Invalid;

/// What passes between a trial's leader and a post.
#[derive(Debug, Default)]
struct Lead {
    /// When sending begins; 0 until that is known.
    start_ns: AtomicU64,
    /// Nothing more is waited for.
    is_over: AtomicBool,
    /// The trial is worth nothing.
    is_abandoned: AtomicBool,
    /// The leader wants to know how many frames have arrived.
    is_asked: AtomicBool,
    /// All frames of the schedule have left, or it is too late for the others.
    has_sent: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
    slowest_ns: AtomicU64,
}

impl Lead {
    fn go_on(&self) -> Result<(), Invalid> {
        if self.is_abandoned.load(Relaxed) {
            return Err(Invalid::new("the trial was given up", ""));
        }
        Ok(())
    }
}

/// A command to a post's thread.
enum Command {
    Plan(Plan),
    Follow(Order, Arc<Lead>),
}

/// What it answers.
enum Reply {
    Planned(Result<(), Invalid>),
    /// By its clock.
    Ready(u64),
    Over(Box<Result<Tally, Cut>>),
}

/// A trial that came to no end.
struct Cut {
    why: Invalid,
    /// What was seen of it, if it had started.
    seen: Option<Box<Tally>>,
}

impl From<Invalid> for Cut {
    fn from(why: Invalid) -> Cut {
        Cut { why, seen: None }
    }
}

/// A station that is led.
pub struct Post {
    clock: Clock,
    /// Nothing once the thread is to end.
    commands: Option<Sender<Command>>,
    replies: Receiver<Reply>,
    lead: Arc<Lead>,
    is_running: bool,
    /// What was seen of the last trial, if it came to no end.
    seen: Option<Tally>,
    thread: Option<JoinHandle<()>>,
}

impl Post {
    /// Has a station led. Its thread calls `settle` first, for its processor and its priority.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn new(mut station: Station, settle: impl FnOnce() + Send + 'static) -> Result<Post, Invalid> {
        let clock = station.clock.clone();
        let (commands, orders) = mpsc::channel();
        let (tell, replies) = mpsc::channel();
        let work = move || {
            settle();
            // If nobody listens any more, the post was dropped.
            while let Ok(command) = orders.recv() {
                let told = match command {
                    Command::Plan(plan) => tell.send(Reply::Planned(station.replan(&plan))),
                    Command::Follow(order, lead) => {
                        let ready = |now_ns| drop(tell.send(Reply::Ready(now_ns)));
                        let result = station.follow(&order, &lead, ready);
                        tell.send(Reply::Over(Box::new(result)))
                    }
                };
                if told.is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("post".to_owned()).spawn(work);
        let thread = thread.map_err(|why| Invalid::new(format!("cannot start a thread: {why}"), ""))?;
        let (lead, is_running) = (Arc::default(), false);
        let thread = Some(thread);
        Ok(Post { clock, commands: Some(commands), replies, lead, is_running, seen: None, thread })
    }

    fn command(&mut self, command: Command) -> Result<Reply, Invalid> {
        let sent = self.commands.as_ref().is_some_and(|commands| commands.send(command).is_ok());
        if sent { self.reply() } else { Err(gone()) }
    }

    fn reply(&mut self) -> Result<Reply, Invalid> {
        self.replies.recv().map_err(|mpsc::RecvError| gone())
    }

    /// The result of a trial that has ended by itself or on request.
    fn ended(&mut self, reply: Reply) -> Result<Tally, Invalid> {
        match reply {
            Reply::Over(result) => {
                self.is_running = false;
                result.map_err(|Cut { why, seen }| {
                    self.seen = seen.map(|seen| *seen);
                    why
                })
            }
            Reply::Planned(_) | Reply::Ready(_) => Err(gone()),
        }
    }
}

/// Of a thread that panicked, which has said why.
fn gone() -> Invalid {
    Invalid::new("the thread that sends and receives has ended", "")
}

impl Member for Post {
    fn plan(&mut self, plan: &Plan) -> Result<(), Invalid> {
        self.abandon();
        match self.command(Command::Plan(plan.clone()))? {
            Reply::Planned(result) => result,
            Reply::Ready(_) | Reply::Over(_) => Err(gone()),
        }
    }

    fn prepare(&mut self, order: &Order) -> Result<u64, Invalid> {
        self.abandon();
        self.seen = None;
        self.lead = Arc::default();
        self.is_running = true;
        match self.command(Command::Follow(order.clone(), self.lead.clone()))? {
            Reply::Ready(now_ns) => Ok(now_ns),
            other => Err(self.ended(other).err().unwrap_or_else(gone)),
        }
    }

    fn go(&mut self, start_ns: u64) -> Result<bool, Invalid> {
        let in_time = self.clock.now() < start_ns;
        if in_time {
            self.lead.start_ns.store(start_ns, Release);
        }
        Ok(in_time)
    }

    fn progress(&mut self, count: bool) -> Result<Progress, Invalid> {
        if let Ok(reply) = self.replies.try_recv() {
            // Nobody asked it to end.
            return Err(self.ended(reply).err().unwrap_or_else(gone));
        }
        if count {
            self.lead.is_asked.store(true, Release);
        }
        Ok(Progress {
            is_sending: !self.lead.has_sent.load(Acquire),
            sent: self.lead.sent.load(Relaxed),
            received: self.lead.received.load(Relaxed),
            slowest_ns: self.lead.slowest_ns.load(Relaxed),
        })
    }

    fn finish(&mut self) -> Result<Tally, Invalid> {
        if !self.is_running {
            return Err(Invalid::new("no trial runs", ""));
        }
        self.lead.is_over.store(true, Release);
        let reply = self.reply()?;
        self.ended(reply)
    }

    fn abandon(&mut self) {
        self.lead.is_abandoned.store(true, Release);
        while self.is_running {
            match self.reply() {
                Ok(Reply::Ready(_) | Reply::Planned(_)) => {}
                Ok(over) => drop(self.ended(over)),
                Err(_) => self.is_running = false,
            }
        }
    }

    fn cut(&mut self) -> Option<Tally> {
        self.abandon();
        self.seen.take()
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.lead.is_abandoned.store(true, Release);
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said why.
            let _ = thread.join();
        }
    }
}

impl Station {
    /// Does its part in a trial. It receives from the time on at which it calls `ready`, with what its clock shows.
    fn follow(&mut self, order: &Order, lead: &Lead, ready: impl FnOnce(u64)) -> Result<Tally, Cut> {
        self.own.extend(&order.own);
        self.leave_out();
        self.look()?;
        self.update(order.ahead, || lead.go_on())?;
        self.drain();
        let mut turn = self.prepare(order, 0)?;
        self.arm_sources()?;
        ready(self.clock.now());
        let start_ns = loop {
            lead.go_on().inspect_err(|_| self.disarm_sources())?;
            match lead.start_ns.load(Acquire) {
                0 => self.turn(&mut turn, None),
                start_ns => break start_ns,
            }
        };
        turn.schedule = order.offer.schedule(self.plan.burst, start_ns)?;
        if let Some(course) = &mut turn.course {
            course.starts(start_ns);
        }
        let sent = self.send(&mut turn, order, start_ns, |turn, _| {
            lead.sent.store(turn.left, Relaxed);
            lead.go_on()
        });
        let until = sent.as_ref().copied().unwrap_or_else(|_| self.clock.now());
        let whole = sent.and_then(|_| {
            lead.sent.store(self.left(), Relaxed);
            lead.has_sent.store(true, Release);
            self.receive_until_over(&mut turn, order, lead)?;
            self.look()
        });
        let tally = self.tally(turn, until.saturating_sub(start_ns));
        match whole {
            Ok(()) => Ok(tally),
            Err(why) => Err(Cut { why, seen: Some(Box::new(tally.without_order())) }),
        }
    }

    fn receive_until_over(&mut self, turn: &mut Turn, order: &Order, lead: &Lead) -> Result<(), Invalid> {
        let mut look = self.clock.now() + LOOK_NS;
        let mut is_over = false;
        while !is_over {
            // Looked at first: a station that had no turn for long still takes what has come meanwhile.
            is_over = lead.is_over.load(Acquire);
            for _ in 0..64 {
                self.turn(turn, None);
            }
            lead.go_on()?;
            if lead.is_asked.swap(false, Relaxed) {
                lead.slowest_ns.store(turn.latency.greatest().max(turn.slowest_copy_ns), Relaxed);
                lead.received.store(turn.accounts.all().received, Relaxed);
            }
            let now = self.clock.now();
            if now > look && !order.is_reset {
                self.look()?;
                look = now + LOOK_NS;
            }
        }
        Ok(())
    }
}
