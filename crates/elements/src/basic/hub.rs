// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Hub
//!
//! `Hub`
//!
//! Sends a copy of each packet out of every output but the one that belongs to its input.
//!
//! **Ports:** 1 or more push inputs and as many push outputs.
//!
//! **Drops:** `no-memory`, copies for which packet memory did not suffice; `no-output`, with a single port.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> [0] h :: Hub; Idle -> [1] h;
//! h[0] -> Discard; h[1] -> Discard;
//! ```
//!
//! See also: Tee

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("Hub", "1-/=", || Box::new(Hub))
    .processing("h/h")
    .flow("#/[^#]")
    .pure()
    .forwards()
    .file(file!());

struct Hub;

impl Element for Hub {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, from: usize, mut batch: Batch) {
        let last = (0..cx.noutputs()).rfind(|port| *port != from);
        let Some(last) = last else {
            cx.drop_batch(Reason::NoOutput, batch);
            return;
        };
        for port in (0..last).filter(|port| *port != from) {
            let copies: Batch = batch.iter_mut().filter_map(|p| p.second()).collect();
            cx.made(batch.len());
            cx.count_drops(Reason::NoMemory, (batch.len() - copies.len()) as u64);
            cx.push(port, copies);
        }
        cx.push(last, batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    #[test]
    fn all_but_the_sender_get_it() {
        let text = "i :: TestIn -> s :: RoundRobinSwitch; s[0] -> [0] e :: Hub; s[1] -> [1] e; s[2] -> [2] e; \
                    e[0] -> o0 :: TestOut; e[1] -> o1 :: TestOut; e[2] -> o2 :: TestOut;";
        for burst in [1, 32] {
            let run = Rig::text(text).burst(burst).inputs(&[b"a", b"b", b"c"]).run();
            assert_eq!(["o0", "o1", "o2"].map(|o| run.bytes(o).concat()), [b"bc", b"ac", b"ab"]);
        }
        let run = Rig::new("Hub").inputs(&[b"a"]).run();
        assert_eq!(run.drops("e"), [(Reason::NoOutput, 1)]);
    }
}
