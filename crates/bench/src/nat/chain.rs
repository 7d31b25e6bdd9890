// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an established session's packet costs in a chain of elements: from an in-memory device by NAT44 to another.

use super::Settings;
use super::shape::{Protocol, Shape};
use crate::Error;
use harness::Subject;
use report::measure::Measured;

/// Packet memory holds a frame for each session; more would not fit.
const SESSIONS_MAX: usize = 1 << 16;

/// Whether a shape can be measured so.
pub(super) fn suits(shape: &Shape) -> bool {
    shape.sessions() <= SESSIONS_MAX && shape.protocol == Protocol::Udp
}

fn text(shape: &Shape) -> String {
    let bits = 32 - shape.hosts.next_power_of_two().trailing_zeros();
    let [translate, sessions] = shape.statements();
    format!(
        "// bench: m0 ether=02:00:00:00:00:01 src=10.0.0.0/{bits} dst=20.0.0.0/{bits} flows={} length=60\n\
         nat :: NAT44(STATEMENT {translate}, STATEMENT {sessions});\n\
         FromDevice(m0) -> Strip(14) -> CheckIPHeader -> [1]nat;\n\
         Idle -> nat -> Discard;\n\
         nat[1] -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:9) -> ToDevice(m1);\n",
        shape.sessions()
    )
}

/// Measures a shape.
///
/// # Errors
/// No packet passes.
pub(super) fn measure(args: &Settings, shape: &Shape) -> Result<Measured, Error> {
    let text = text(shape);
    let parsed = lang::load_str("bench", &text, &elements::options());
    let graph = parsed.graph.ok_or_else(|| Error::configuration(parsed.diagnostics))?;
    let mut router = Subject::new(&graph, &text)?.with_run_ms(args.run_ms).prepare(1)?;
    let mut costs = Vec::new();
    for _ in 0..args.runs.max(1) {
        costs.push(router.run_surely()?.ns_per_packet());
    }
    Ok(Measured::new(format!("nat.chain_ns_per_packet.{}", shape.sessions()), "ns", costs))
}
