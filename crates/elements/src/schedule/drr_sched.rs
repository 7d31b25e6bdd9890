// SPDX-License-Identifier: MIT OR Apache-2.0
//! # DRRSched
//!
//! `DRRSched([QUANTUM])`
//!
//! Fetches packets so that each input that has any gets the same number of bytes: deficit round robin.
//!
//! **Ports:** 1 or more pull inputs, 1 pull output.
//!
//! **Arguments**
//! * `QUANTUM` bytes added to an input's account at its turn, default 500.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Drops:** none. It may hold one packet of each input back.
//!
//! ```click
//! InfiniteSource(LENGTH 100, LIMIT 9, STOP true) -> Queue -> [0] s :: DRRSched -> Discard;
//! InfiniteSource(LENGTH 300, LIMIT 9) -> Queue -> [1] s;
//! ```
//!
//! See also: RoundRobinSched, PrioSched, StrideSched
//!
//! Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round-Robin", IEEE/ACM Transactions on Networking 4(3),
//! 1996.

use element::args::Args;
use element::{Class, Cx, Element, HotSwap, PacketHolder, Rehearsal, Rehearsed, swap};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class = Class::new("DRRSched", "1-/1", || Box::new(DrrSched::default()))
    .processing("l/l")
    .serial("inputs take turns in one order, with one account each")
    .hot_swap::<DrrSched>()
    .rehearsal::<DrrSched>()
    .packet_holder::<DrrSched>()
    .file(file!());

#[derive(Default)]
struct Account {
    deficit: u64,
    /// Fetched, but longer than the account allowed.
    head: Option<Packet>,
}

#[derive(Default)]
struct DrrSched {
    quantum: u64,
    accounts: Vec<Account>,
    next: usize,
}

impl DrrSched {
    fn pull_one(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let n = self.accounts.len();
        for _ in 0..n {
            let port = self.next;
            let account = &mut self.accounts[port];
            match account.head.take().or_else(|| cx.pull(port, 1).pop()) {
                None => account.deficit = 0,
                Some(packet) if packet.len() as u64 <= account.deficit => {
                    account.deficit -= packet.len() as u64;
                    return Some(packet);
                }
                Some(packet) => account.head = Some(packet),
            }
            self.next = (port + 1) % n;
            let deficit = &mut self.accounts[self.next].deficit;
            *deficit = deficit.saturating_add(self.quantum);
        }
        None
    }
}

impl Element for DrrSched {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.quantum = args.positional("QUANTUM", 500);
        if self.quantum == 0 {
            args.error("QUANTUM must be more than 0");
        }
        self.accounts.resize_with(args.ninputs, Account::default);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        let mut batch = Batch::new();
        while batch.len() < max {
            match self.pull_one(cx) {
                Some(packet) => batch.push(packet),
                // A packet longer than the quantum waits for its account to grow, a turn at a time.
                None if self.accounts.iter().any(|a| a.head.is_some()) => {}
                None => break,
            }
        }
        batch
    }
}

impl PacketHolder for DrrSched {
    fn held(&self) -> usize {
        self.accounts.iter().filter(|a| a.head.is_some()).count()
    }
}

impl Rehearsal for DrrSched {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

impl HotSwap for DrrSched {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<DrrSched>(old) else { return false };
        for (mine, theirs) in self.accounts.iter_mut().zip(&mut old.accounts) {
            if mine.head.is_none() {
                *mine = std::mem::take(theirs);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn bytes_are_shared_fairly() {
        let text = "InfiniteSource(LENGTH 100) -> e :: DRRSched -> u :: Unqueue(LIMIT 400) -> o :: TestOut; InfiniteSource(LENGTH 300) -> [1] e;";
        for burst in [1, 32] {
            let out = Rig::text(text).burst(burst).run().bytes("o");
            let small = out.iter().filter(|p| p.len() == 100).count();
            assert_eq!((out.len(), (298..=302).contains(&small)), (400, true), "{small}");
        }
    }

    #[test]
    fn packets_beyond_the_quantum_pass_in_time() {
        let text = "InfiniteSource(LENGTH 90, LIMIT 5) -> e :: DRRSched(10) -> Unqueue -> o :: TestOut; Idle -> [1] e;";
        for burst in [1, 32] {
            assert_eq!(Rig::text(text).burst(burst).run().bytes("o").len(), 5);
        }
        assert_eq!(
            Rig::text("Idle -> e :: DRRSched(0) -> Discard;").errors(),
            ["e: QUANTUM must be more than 0"]
        );
    }
}
