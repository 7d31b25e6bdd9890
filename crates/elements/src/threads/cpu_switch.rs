// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CPUSwitch
//!
//! `CPUSwitch`
//!
//! Sends packets to the output whose number is that of the worker that has them, modulo the number of outputs.
//!
//! **Ports:** 1 push input, 1 or more push outputs.
//!
//! **Drops:** none.
//!
//! **Cores:** it does nothing but tell them apart, without cost. What is behind an output that only one worker uses stays
//! on that worker.
//!
//! ```click
//! InfiniteSource(LIMIT 6, STOP true) -> s :: CPUSwitch; s[0] -> Discard; s[1] -> Discard;
//! ```
//!
//! See also: HashDemux, Spread, StaticThreadSched, RoundRobinSwitch

use element::args::Args;
use element::{Class, Cx, Element, PlacementRules};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("CPUSwitch", "1/1-", || Box::new(CpuSwitch))
    .processing("h/h")
    .pure()
    .placement_rules::<CpuSwitch>()
    .file(file!());

struct CpuSwitch;

impl Element for CpuSwitch {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        cx.push(cx.worker() % cx.noutputs(), batch);
    }
}

impl PlacementRules for CpuSwitch {
    fn tells_workers_apart(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn each_worker_has_its_output() {
        for (worker, output) in [(0, "o0"), (1, "o1"), (2, "o0")] {
            let text = format!(
                "i :: TestIn -> e :: CPUSwitch -> o0 :: TestOut; e[1] -> o1 :: TestOut; StaticThreadSched(i {worker});"
            );
            let run = Rig::text(&text).workers(3).inputs(&[b"a", b"b"]).run();
            assert_eq!(run.bytes(output), [b"a", b"b"], "worker {worker}");
        }
    }
}
