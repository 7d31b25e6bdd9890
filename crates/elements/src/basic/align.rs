// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Align
//!
//! `Align(MODULUS, OFFSET)`
//!
//! Shifts packets so that their first byte lies at an address that is OFFSET modulo MODULUS.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `MODULUS` 2, 4 or 8.
//! * `OFFSET` less than MODULUS.
//!
//! **Drops:** `no-memory`, packets that had to move and for which there was no frame.
//!
//! No element of this router needs aligned packets; the element is here for configurations that have it.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> Strip(14) -> Align(4, 2) -> Discard;
//! ```
//!
//! See also: AlignmentInfo, Strip

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::Batch;

/// The descriptor.
pub const CLASS: Class = Class::new("Align", "1/1", || Box::new(Align::default())).pure().file(file!());

#[derive(Default)]
struct Align {
    modulus: usize,
    offset: usize,
}

impl Element for Align {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.modulus = args.required("MODULUS");
        self.offset = args.required("OFFSET");
        if !args.errors().is_empty() {
            return;
        }
        if !matches!(self.modulus, 2 | 4 | 8) {
            args.error_as(
                format!("MODULUS must be 2, 4 or 8, not {}", self.modulus),
                "MODULUS must be 2, 4, or 8".into(),
            );
        } else if self.offset >= self.modulus {
            args.error_as(
                format!("OFFSET must be less than MODULUS, not {}", self.offset),
                "OFFSET must be smaller than MODULUS".into(),
            );
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (modulus, offset) = (self.modulus, self.offset);
        batch.partition(|p| p.align(modulus, offset), |p| cx.drop(Reason::NoMemory, p));
        batch
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn aligns() {
        for (modulus, offset) in [(2, 1), (4, 0), (4, 3), (8, 5)] {
            for burst in [1, 32] {
                let element = format!("Align({modulus}, {offset})");
                let run = Rig::new(&element).burst(burst).inputs(&[b"abc", b"", b"wxyz"]).run();
                let out = run.out("o0");
                assert!(out.iter().all(|p| p.as_ptr() as usize % modulus == offset), "{element}");
                assert_eq!(
                    out.iter().map(|p| p.data().to_vec()).collect::<Vec<_>>(),
                    [&b"abc"[..], b"", b"wxyz"]
                );
            }
        }
    }

    #[test]
    fn refuses_other_moduli() {
        assert_eq!(Rig::new("Align(3, 0)").errors(), ["e: MODULUS must be 2, 4 or 8, not 3"]);
        assert_eq!(Rig::new("Align(4, 4)").errors(), ["e: OFFSET must be less than MODULUS, not 4"]);
    }
}
