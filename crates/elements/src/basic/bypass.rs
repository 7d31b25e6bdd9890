// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Bypass
//!
//! `Bypass([ACTIVE, keyword INLINE])`
//!
//! Sends packets round a side path while it is active, and straight on otherwise.
//!
//! **Ports:** 1 or 2 inputs, 1 or 2 outputs, agnostic. Pushed packets leave by output 1 when active, by output 0 when
//! not; what comes back to input 1 goes to output 0. Pulled packets are fetched from input 1 when active, from input 0
//! when not; what is asked of output 1 is fetched from input 0.
//!
//! **Arguments**
//! * `ACTIVE` boolean, default false.
//! * `INLINE` boolean, without effect: the element always stays in the packets' way.
//!
//! **Drops:** `no-output`, pushed packets while it is active and output 1 not connected.
//!
//! **Handlers**
//! * `active` read/write: the argument.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> b :: Bypass -> Discard;
//! b[1] -> Print(debug) -> [1] b;
//! ```
//!
//! See also: Switch, PullSwitch

use element::args::Args;
use element::{Class, Cx, Element, handlers};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("Bypass", "1-2/1-2", || Box::new(Bypass::default()))
    .flow("xy/[xy]x")
    .handlers(handlers! { Bypass:
        both "active" => .active;
    })
    .pure()
    .file(file!());

#[derive(Default)]
struct Bypass {
    active: bool,
    ninputs: usize,
}

impl Element for Bypass {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.active = args.positional("ACTIVE", false);
        let _: bool = args.keyword("INLINE", false);
        self.ninputs = args.ninputs;
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        cx.push(usize::from(self.active && port == 0), batch);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let side = self.active && port == 0;
        if side && self.ninputs < 2 { Batch::new() } else { cx.pull(usize::from(side), max) }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    const PUSH: &str = "i :: TestIn -> e :: Bypass -> o :: TestOut; e[1] -> StoreData(0, X) -> [1] e;";

    #[test]
    fn packets_go_round_and_come_back() {
        for burst in [1, 32] {
            for (text, want) in [(PUSH.to_owned(), b"ab"), (PUSH.replace("Bypass", "Bypass(true)"), b"Xb")] {
                assert_eq!(Rig::text(&text).burst(burst).inputs(&[b"ab"]).run().bytes("o"), [want]);
            }
        }
    }

    #[test]
    fn packets_are_fetched_from_either_side() {
        for (active, want) in [("false", b"a"), ("true", b"b")] {
            let text = format!(
                "InfiniteSource(a, 1) -> e :: Bypass({active}) -> Unqueue -> o :: TestOut; InfiniteSource(b, 1) -> [1] e;"
            );
            assert_eq!(Rig::text(&text).run().bytes("o"), [want]);
        }
    }
}
