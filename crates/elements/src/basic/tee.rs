// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Tee
//!
//! `Tee([N])`
//!
//! Sends a copy of each packet out of every output. The copies share their bytes until one of them is changed.
//!
//! **Ports:** 1 push input, 1 or more push outputs.
//!
//! **Arguments**
//! * `N` outputs there must be; default as many as are connected.
//!
//! **Drops:** `no-memory`, copies for which packet memory did not suffice.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> t :: Tee(2);
//! t[0] -> Discard; t[1] -> Discard;
//! ```
//!
//! See also: PullTee

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class =
    Class::new("Tee", "1/1-", || Box::new(Tee)).processing("h/h").pure().forwards().file(file!());

struct Tee;

impl Element for Tee {
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

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        for port in 0..cx.noutputs() - 1 {
            let copies: Batch = batch.iter_mut().filter_map(|p| p.second()).collect();
            cx.made(batch.len());
            cx.count_drops(Reason::NoMemory, (batch.len() - copies.len()) as u64);
            cx.push(port, copies);
        }
        cx.push(cx.noutputs() - 1, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn every_output_gets_every_packet_and_writing_is_private() {
        let text = "i :: TestIn -> e :: Tee -> s :: Strip(1) -> o0 :: TestOut; e[1] -> o1 :: TestOut; e[2] -> o2 :: TestOut;";
        for burst in [1, 32] {
            let run = Rig::text(text).burst(burst).inputs(&[b"ab", b"cd"]).run();
            assert_eq!(run.bytes("o0"), [b"b", b"d"]);
            assert_eq!(
                (run.bytes("o1"), run.bytes("o2")),
                (vec![b"ab".to_vec(), b"cd".to_vec()], vec![b"ab".to_vec(), b"cd".to_vec()])
            );
        }
    }

    #[test]
    fn n_must_match() {
        assert_eq!(Rig::new("Tee(3)").errors(), ["e: N is 3, but 1 outputs are connected"]);
    }
}
