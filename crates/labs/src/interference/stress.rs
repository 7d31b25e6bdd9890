// SPDX-License-Identifier: MIT OR Apache-2.0
//! What disturbs: user planes, and stressors of known contentiousness on the user plane's core.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::kernels::{Access, Buffers, Frames, Kernel};
use super::plane::Plane;
use crate::Error;

/// How long one working turn of a stressor takes with what it rests afterwards.
const TURN: Duration = Duration::from_micros(200);

/// Something on the user plane's core that can be paused.
pub(super) trait Neighbour {
    /// It works when this returns.
    fn resume(&mut self) -> Result<(), Error>;
    /// It does not when this returns.
    fn pause(&mut self) -> Result<(), Error>;
    /// What it has done so far: frames, or turns.
    fn done(&mut self) -> Result<u64, Error>;
}

impl Neighbour for Plane {
    fn resume(&mut self) -> Result<(), Error> {
        Plane::resume(self)
    }

    fn pause(&mut self) -> Result<(), Error> {
        Plane::pause(self)
    }

    fn done(&mut self) -> Result<u64, Error> {
        self.count()
    }
}

/// Nobody: what is found next to it is noise.
pub(super) struct Nobody;

impl Neighbour for Nobody {
    fn resume(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn pause(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn done(&mut self) -> Result<u64, Error> {
        Ok(0)
    }
}

/// A stressor at a level of its own, which others use at theirs.
pub(super) struct Dialled {
    stressor: Rc<RefCell<Stressor>>,
    percent: u32,
}

impl Dialled {
    pub(super) fn new(stressor: &Rc<RefCell<Stressor>>, percent: u32) -> Dialled {
        Dialled { stressor: stressor.clone(), percent }
    }
}

impl Neighbour for Dialled {
    fn resume(&mut self) -> Result<(), Error> {
        let mut stressor = self.stressor.borrow_mut();
        stressor.level(self.percent);
        stressor.resume()
    }

    fn pause(&mut self) -> Result<(), Error> {
        self.stressor.borrow_mut().pause()
    }

    fn done(&mut self) -> Result<u64, Error> {
        self.stressor.borrow_mut().done()
    }
}

/// What a stressor does over and over.
#[derive(Clone, Debug)]
pub(super) enum Stress {
    /// It computes, and touches no memory.
    Spin,
    /// It goes through a buffer of so many bytes.
    Memory(Access, usize),
    /// It reflects frames.
    Frames(Frames),
}

/// A thread that disturbs.
#[derive(Debug)]
pub(super) struct Stressor {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    on: AtomicBool,
    end: AtomicBool,
    /// It is at work.
    working: AtomicBool,
    /// Of its time, the share that it works; the rest it computes.
    percent: AtomicU32,
    turns: AtomicU64,
}

impl Stressor {
    /// One on a core, paused.
    pub(super) fn start(stress: Stress, cpu: usize) -> Stressor {
        let state = Arc::new(State::default());
        state.percent.store(100, Ordering::Relaxed);
        let own = state.clone();
        let thread = std::thread::spawn(move || {
            core_affinity::set_for_current(core_affinity::CoreId { id: cpu });
            live(&own, stress);
        });
        Stressor { state, thread: Some(thread) }
    }

    /// From now on it works for this share of its time.
    pub(super) fn level(&mut self, percent: u32) {
        self.state.percent.store(percent.min(100), Ordering::Relaxed);
    }
}

/// The life of a stressor.
fn live(state: &State, stress: Stress) {
    let mut buffers = Buffers::new(match &stress {
        Stress::Memory(_, bytes) => *bytes,
        _ => 0,
    });
    let mut kernel = match &stress {
        Stress::Memory(access, bytes) => Some(Kernel::new(*access, *bytes, &mut buffers)),
        _ => None,
    };
    while !state.end.load(Ordering::Relaxed) {
        if !state.on.load(Ordering::Relaxed) {
            state.working.store(false, Ordering::Release);
            std::thread::park_timeout(Duration::from_millis(100));
            continue;
        }
        state.working.store(true, Ordering::Release);
        let started = Instant::now();
        let work = TURN * state.percent.load(Ordering::Relaxed) / 100;
        while started.elapsed() < work {
            match (&mut kernel, &stress) {
                (Some(kernel), _) => {
                    kernel.step_lines(&mut buffers, 64);
                }
                (None, Stress::Frames(frames)) => frames.reflect(),
                (None, _) => (0..64).for_each(|_| std::hint::spin_loop()),
            }
        }
        while started.elapsed() < TURN {
            std::hint::spin_loop();
        }
        state.turns.fetch_add(1, Ordering::Relaxed);
    }
}

impl Neighbour for Stressor {
    fn resume(&mut self) -> Result<(), Error> {
        self.state.on.store(true, Ordering::Relaxed);
        let Some(thread) = &self.thread else { return Ok(()) };
        let before = self.state.turns.load(Ordering::Relaxed);
        let started = Instant::now();
        while self.state.turns.load(Ordering::Relaxed) == before {
            thread.thread().unpark();
            wait(started, "a stressor does not begin")?;
        }
        Ok(())
    }

    fn pause(&mut self) -> Result<(), Error> {
        self.state.on.store(false, Ordering::Relaxed);
        let started = Instant::now();
        while self.state.working.load(Ordering::Acquire) {
            wait(started, "a stressor does not stop")?;
        }
        Ok(())
    }

    fn done(&mut self) -> Result<u64, Error> {
        Ok(self.state.turns.load(Ordering::Relaxed))
    }
}

fn wait(started: Instant, what: &str) -> Result<(), Error> {
    if started.elapsed() > Duration::from_secs(60) {
        return Err(Error::nothing(format!("{what} within a minute; its core may have other work")));
    }
    std::thread::sleep(Duration::from_micros(200));
    Ok(())
}

impl Drop for Stressor {
    fn drop(&mut self) {
        self.state.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stressor_works_until_it_is_paused() {
        let frames = Frames::new(8);
        for stress in [Stress::Spin, Stress::Memory(Access::Random, 4096), Stress::Frames(frames)] {
            let cpu = core_affinity::get_core_ids().and_then(|ids| Some(ids.first()?.id)).unwrap_or(0);
            let mut stressor = Stressor::start(stress, cpu);
            assert_eq!(stressor.done().ok(), Some(0));
            stressor.level(50);
            stressor.resume().expect("it works");
            let one = stressor.done().expect("a count");
            assert!(one > 0);
            stressor.pause().expect("it stops");
            let two = stressor.done().expect("a count");
            std::thread::yield_now();
            assert_eq!(stressor.done().ok(), Some(two), "it works though it is paused");
            stressor.resume().expect("it works again");
            assert!(stressor.done().expect("a count") > two);
        }
    }
}
