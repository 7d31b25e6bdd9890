// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Null, PushNull, PullNull
//!
//! `Null`
//!
//! Passes packets unchanged.
//!
//! **Ports:** 1 input, 1 output, agnostic; PushNull's are push, PullNull's are pull, which fixes how their neighbours work.
//!
//! **Drops:** none.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Null -> PushNull -> Queue -> PullNull -> Discard;
//! ```
//!
//! See also: Idle, Bypass

use element::args::Args;
use element::clock::Nanos;
use element::program::Program;
use element::{Class, Element};

/// The descriptor.
pub const NULL: Class = Class::new("Null", "1/1", || Box::new(Null)).pure().forwards().file(file!());
/// The descriptor of the element with push ports.
pub const PUSH_NULL: Class =
    Class::new("PushNull", "1/1", || Box::new(Null)).processing("h/h").pure().forwards().file(file!());
/// The descriptor of the element with pull ports.
pub const PULL_NULL: Class =
    Class::new("PullNull", "1/1", || Box::new(Null)).processing("l/l").pure().forwards().file(file!());

struct Null;

impl Element for Null {
    fn configure(&mut self, _: &mut Args<'_>) {}

    fn program<'a>(&'a self, _: Nanos, _: &mut dyn Program<'a>) {}
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn passes_everything() {
        let text = "i :: TestIn -> Null -> PushNull -> Queue -> Null -> PullNull -> Unqueue -> o :: TestOut;";
        for burst in [1, 32] {
            let run = Rig::text(text).burst(burst).inputs(&[b"a", b"", b"c"]).run();
            assert_eq!(run.bytes("o"), [&b"a"[..], b"", b"c"]);
        }
    }

    #[test]
    fn takes_no_argument() {
        assert_eq!(Rig::new("Null(1)").errors(), ["e: too many arguments: '1'"]);
    }
}
