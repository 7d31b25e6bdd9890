// SPDX-License-Identifier: MIT OR Apache-2.0
//! # PullTee
//!
//! `PullTee([N])`
//!
//! Passes the packets that are fetched through it and pushes a copy of each out of every other output.
//!
//! **Ports:** 1 pull input; output 0 pull, all further ones push.
//!
//! **Arguments**
//! * `N` outputs there must be; default as many as are connected.
//!
//! **Drops:** `no-memory`, copies for which packet memory did not suffice.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Queue -> t :: PullTee -> Discard;
//! t[1] -> Discard;
//! ```
//!
//! See also: Tee

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("PullTee", "1/1-", || Box::new(PullTee)).processing("l/lh").file(file!());

struct PullTee;

impl Element for PullTee {
    fn configure(&mut self, args: &mut Args<'_>) {
        let noutputs = args.noutputs;
        let n: usize = args.positional("N", noutputs);
        if n != noutputs {
            args.error_as(
                format!("N is {n}, but {noutputs} outputs are connected"),
                format!("{noutputs} outputs implies {noutputs} arms"),
            );
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        for port in 1..cx.noutputs() {
            let copies: Batch = batch.iter_mut().filter_map(|p| p.share()).collect();
            cx.made(batch.len());
            cx.count_drops(Reason::NoMemory, (batch.len() - copies.len()) as u64);
            cx.push(port, copies);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn copies_what_is_fetched() {
        let text = "i :: TestIn -> Queue -> e :: PullTee -> Unqueue -> o0 :: TestOut; e[1] -> o1 :: TestOut; e[2] -> Strip(1) -> o2 :: TestOut;";
        for burst in [1, 32] {
            let run = Rig::text(text).burst(burst).inputs(&[b"ab", b"cd"]).run();
            assert_eq!(
                (run.bytes("o0"), run.bytes("o1")),
                (vec![b"ab".to_vec(), b"cd".to_vec()], vec![b"ab".to_vec(), b"cd".to_vec()])
            );
            assert_eq!(run.bytes("o2"), [b"b", b"d"]);
        }
    }
}
