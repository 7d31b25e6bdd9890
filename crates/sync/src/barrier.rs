// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pair of memory barriers of which one is free.
//!
//! Two threads each write one word and then read the other's. So that at least one of them sees the other's write, both must keep their read behind
//! their write, which takes a full fence. It waits until every store before it has reached the cache, lines that another core holds included. Often
//! one side is hot (a worker that has filled a queue and looks whether the one who drains it sleeps) and the other rare (that one, about to sleep).
//! Then the rare side can pay for both: Linux's `membarrier` makes each core that runs a thread of this process execute a fence. Then the hot side
//! only has to keep the compiler from exchanging the two (Dice, Huang and Yang, *Asymmetric Dekker Synchronization*, 2001).
//!
//! # Ordering argument
//!
//! [`heavy`] returns after every other thread has passed a full fence at some point of its program. If a thread's read came before that point, so did
//! the write before it, which the caller of `heavy` therefore sees. If after, the read sees what was written before `heavy`. Where the kernel has no
//! such call both are full fences: [`light`] is free only once the process is registered, and `heavy` registers it before it relies on that.

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

const UNKNOWN: u8 = 0;
const REGISTERED: u8 = 1;
const FENCES: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// From `linux/membarrier.h`.
const PRIVATE_EXPEDITED: i32 = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

fn membarrier(command: i32) -> bool {
    // SAFETY: the call takes two numbers and touches no memory.
    !cfg!(miri) && unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Keeps reads after it behind writes before it, as seen by a thread that calls [`heavy`]. Usually free.
#[inline(always)]
pub fn light() {
    if STATE.load(Ordering::Relaxed) == REGISTERED {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Registers the process. Programs do so before they start threads: later the kernel has the caller wait for all processors, which takes
/// a busy machine seconds.
pub fn register() {
    if STATE.load(Ordering::Relaxed) == UNKNOWN {
        let state = if membarrier(REGISTER_PRIVATE_EXPEDITED) { REGISTERED } else { FENCES };
        STATE.store(state, Ordering::Relaxed);
    }
}

/// The other side of [`light`]: microseconds.
#[cold]
pub fn heavy() {
    register();
    fence(Ordering::SeqCst);
    if STATE.load(Ordering::Relaxed) == REGISTERED {
        membarrier(PRIVATE_EXPEDITED);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Both write their turn, then read the other's. Without barriers both may read the old one.
    #[test]
    fn one_of_two_sees_the_other() {
        const TURNS: u64 = if cfg!(miri) { 20 } else { 2000 };
        let words = [const { AtomicU64::new(0) }; 2];
        let seen = [const { AtomicU64::new(0) }; 2];
        let gate = std::sync::Barrier::new(2);
        let side = |me: usize, barrier: fn()| {
            for turn in 1..=TURNS {
                gate.wait();
                words[me].store(turn, Ordering::Relaxed);
                barrier();
                seen[me].store(words[1 - me].load(Ordering::Relaxed), Ordering::Relaxed);
                gate.wait();
                let [a, b] = [0, 1].map(|i| seen[i].load(Ordering::Relaxed));
                assert!(a == turn || b == turn, "turn {turn}: {a} and {b}");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| side(0, light));
            scope.spawn(|| side(1, heavy));
        });
    }
}
