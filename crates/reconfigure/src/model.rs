// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model of the switch-over, all of whose interleavings are walked through: two workers that run, ask each other and
//! answer, and the thread that exchanges what they run.
//!
//! All threads meet at channels and mutexes only, so that a step is what one of them does between two of these. What
//! could go wrong is that somebody waits for ever: a worker for the answer of one that has handed itself over, the exchanging
//! thread for a worker that waits so. Nobody does, in any order of events. (What becomes of queues meanwhile is shown by loom, over the
//! ring itself: `sync/src/ring/models/handover.rs`.)

use std::collections::HashSet;

/// What a worker does at one level: a call may be made while another is answered, or while parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Level {
    /// Waits for the answer to its call.
    Asking,
    /// Has arrived, and waits for orders.
    Parked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mail {
    Halt,
    /// A call of the other worker, which may make a call in turn before it is answered.
    Call {
        calls_back: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Order {
    HandOver,
    Become,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Worker {
    /// Innermost last; none in the rounds of its loop.
    levels: Vec<Level>,
    mail: Vec<Mail>,
    halt: bool,
    /// Answers that have come for its calls, one by one: innermost calls are answered first.
    answers: u8,
    /// Answers owed to the other worker once the innermost call has ended.
    owes: u8,
    away: bool,
    orders: Vec<Order>,
    /// It has handed itself over and waits to become another.
    empty: bool,
    /// Calls that it may still begin.
    calls: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    workers: [Worker; 2],
    arrived: u8,
    handed_over: u8,
    /// The next thing that the exchanging thread does.
    exchange: u8,
}

const DONE: u8 = 10;

/// Takes a step: a change of the state.
type Take<'a> = &'a mut dyn FnMut(&dyn Fn(&mut State));

impl State {
    /// What may come next.
    fn successors(&self) -> Vec<State> {
        let mut next = Vec::new();
        next.extend(self.exchanged());
        for w in 0..2 {
            self.worker(w, &mut next);
        }
        next
    }

    /// A step of the thread that exchanges.
    fn exchanged(&self) -> Option<State> {
        let mut s = self.clone();
        match self.exchange {
            n @ (0 | 1) => s.workers[usize::from(n)].mail.push(Mail::Halt),
            2 if self.arrived == 2 => {}
            n @ (3 | 4) => s.workers[usize::from(n) - 3].away = true,
            n @ (5 | 6) => s.workers[usize::from(n) - 5].orders.push(Order::HandOver),
            7 if self.handed_over == 2 => s.workers.iter_mut().for_each(|w| w.away = false),
            n @ (8 | 9) => s.workers[usize::from(n) - 8].orders.push(Order::Become),
            _ => return None,
        }
        s.exchange += 1;
        Some(s)
    }

    /// The steps that worker `w` may take.
    fn worker(&self, w: usize, next: &mut Vec<State>) {
        let me = &self.workers[w];
        let mut take = |change: &dyn Fn(&mut State)| {
            let mut s = self.clone();
            change(&mut s);
            next.push(s);
        };
        if me.empty {
            if me.orders.first() == Some(&Order::Become) {
                take(&|s| {
                    s.workers[w].orders.remove(0);
                    s.workers[w].empty = false;
                });
            }
            return;
        }
        match me.levels.last() {
            None if me.halt => take(&|s| {
                s.workers[w].halt = false;
                s.workers[w].levels.push(Level::Parked);
                s.arrived += 1;
            }),
            None => {
                self.serve(w, &mut take);
                if me.calls > 0 {
                    for calls_back in [false, true] {
                        take(&|s| s.call(w, calls_back));
                    }
                }
            }
            Some(Level::Parked) => match me.orders.first() {
                Some(_) => take(&|s| {
                    s.workers[w].orders.remove(0);
                    s.workers[w].levels.pop();
                    s.workers[w].empty = true;
                    s.handed_over += 1;
                }),
                None => self.serve(w, &mut take),
            },
            Some(Level::Asking) => {
                if me.answers > 0 {
                    take(&|s| {
                        s.workers[w].answers -= 1;
                        s.end_call(w);
                    });
                } else if self.workers[1 - w].away {
                    take(&|s| s.end_call(w));
                } else {
                    self.serve(w, &mut take);
                }
            }
        }
    }

    /// Reads one letter.
    fn serve(&self, w: usize, take: Take<'_>) {
        let Some(mail) = self.workers[w].mail.first().copied() else { return };
        take(&|s| {
            s.workers[w].mail.remove(0);
            match mail {
                Mail::Halt => s.workers[w].halt = true,
                Mail::Call { calls_back: true } => {
                    s.workers[w].owes += 1;
                    s.call(w, false);
                }
                Mail::Call { calls_back: false } => s.answer(1 - w),
            }
        });
    }

    fn call(&mut self, w: usize, calls_back: bool) {
        self.workers[w].calls = self.workers[w].calls.saturating_sub(1);
        self.workers[w].levels.push(Level::Asking);
        self.workers[1 - w].mail.push(Mail::Call { calls_back });
    }

    /// An answer, which nobody reads if the caller has given up.
    fn answer(&mut self, to: usize) {
        let waits = self.workers[to].levels.iter().filter(|l| **l == Level::Asking).count();
        if usize::from(self.workers[to].answers) < waits {
            self.workers[to].answers += 1;
        }
    }

    fn end_call(&mut self, w: usize) {
        self.workers[w].levels.pop();
        if self.workers[w].owes > 0 {
            self.workers[w].owes -= 1;
            self.answer(1 - w);
        }
    }

    fn is_good_end(&self) -> bool {
        self.exchange == DONE
            && self.workers.iter().all(|w| w.levels.is_empty() && !w.empty && w.mail.is_empty())
    }
}

#[test]
fn nobody_waits_for_ever() {
    let mut start = State::default();
    start.workers.iter_mut().for_each(|w| w.calls = 2);
    let mut seen = HashSet::from([start.clone()]);
    let mut todo = vec![start];
    let mut ends = 0;
    while let Some(state) = todo.pop() {
        let next = state.successors();
        if next.is_empty() {
            assert!(state.is_good_end(), "stuck: {state:#?}");
            ends += 1;
        }
        todo.extend(next.into_iter().filter(|s| seen.insert(s.clone())));
    }
    assert!(ends > 0 && seen.len() > 1000, "{} states, {ends} ends", seen.len());
}
