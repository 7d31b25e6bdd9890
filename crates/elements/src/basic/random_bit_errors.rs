// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RandomBitErrors
//!
//! `RandomBitErrors(P [, KIND, ACTIVE])`
//!
//! Flips, sets or clears bits of packets at random.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `P` probability that a bit is changed, 0 to 1.
//! * `KIND` `flip` (the default), `set` or `clear`.
//! * `ACTIVE` boolean, default true.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `p_bit_error`, `error_kind`, `active` read/write: the arguments.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> RandomBitErrors(0.01) -> Discard;
//! ```
//!
//! See also: RandomSample

use element::args::Args;
use element::{Class, Cx, Element, HandlerError, Rehearsal, handlers};
use packet::Batch;

use crate::tools::Probability;

/// The descriptor.
pub const CLASS: Class = Class::new("RandomBitErrors", "1/1", || Box::new(RandomBitErrors::default()))
    .handlers(handlers! { RandomBitErrors:
        both "p_bit_error" => .p |element, p: Probability| element.p = p.0;
        both "error_kind" => |element| format!("{:?}", element.kind).to_ascii_lowercase(), |element, text: &str| {
            element.kind = Kind::parse(text.trim())
                .ok_or_else(|| HandlerError::bad_value("error_kind", text, "flip, set or clear"))?;
        };
        both "active" => .active;
    })
    .reconfigurable()
    .forwards()
    .rehearsal::<RandomBitErrors>().file(file!());

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Flip,
    Set,
    Clear,
}

impl Kind {
    fn parse(text: &str) -> Option<Kind> {
        Some(match text {
            "flip" | "" => Kind::Flip,
            "set" => Kind::Set,
            "clear" => Kind::Clear,
            _ => return None,
        })
    }
}

#[derive(Clone, Default)]
struct RandomBitErrors {
    p: f64,
    kind: Kind,
    active: bool,
}

/// Bits from one error to the next: geometrically distributed, drawn by inversion.
fn gap(random: &mut impl FnMut() -> f64, p: f64) -> usize {
    // 1 - x lies in (0, 1], so the logarithm is finite; the cast saturates.
    ((1.0 - random()).ln() / (-p).ln_1p()) as usize
}

impl RandomBitErrors {
    fn damage(&self, bytes: &mut [u8], random: &mut impl FnMut() -> f64) {
        let bits = bytes.len() * 8;
        let mut at = gap(random, self.p);
        while at < bits {
            let bit = 1 << (at % 8);
            match self.kind {
                Kind::Flip => bytes[at / 8] ^= bit,
                Kind::Set => bytes[at / 8] |= bit,
                Kind::Clear => bytes[at / 8] &= !bit,
            }
            at = at.saturating_add(1).saturating_add(gap(random, self.p));
        }
    }
}

impl Element for RandomBitErrors {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.p = args.required::<Probability>("P").0;
        let kind: String = args.positional("KIND", "flip".into());
        self.kind = Kind::parse(&kind).unwrap_or_else(|| {
            args.error_as(
                format!("KIND should be flip, set or clear, not '{kind}'"),
                format!("bad action '{kind}' (must be 'set', 'clear', or 'flip')"),
            );
            Kind::Flip
        });
        self.active = args.positional("ACTIVE", true);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        if self.active && self.p > 0.0 {
            let random = cx.random();
            for packet in batch.iter_mut() {
                self.damage(packet.data_mut(), &mut || random.f64());
            }
        }
        batch
    }
}

impl Rehearsal for RandomBitErrors {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    fn ones(element: &str, bytes: &[u8]) -> u32 {
        let run = Rig::new(element).inputs(&[bytes]).run();
        run.bytes("o0")[0].iter().map(|b| b.count_ones()).sum()
    }

    #[test]
    fn damages_the_share() {
        assert_eq!(ones("RandomBitErrors(0)", &[0; 1000]), 0);
        assert_eq!(ones("RandomBitErrors(1)", &[0; 1000]), 8000);
        assert_eq!(ones("RandomBitErrors(1, clear)", &[255; 10]), 0);
        assert_eq!(ones("RandomBitErrors(1, set)", &[255; 10]), 80);
        assert_eq!(ones("RandomBitErrors(1, flip, false)", &[0; 10]), 0);
        // Binomial: mean 800, standard deviation 27.
        let n = ones("RandomBitErrors(0.1)", &[0; 1000]);
        assert!((660..940).contains(&n), "{n}");
    }

    #[test]
    fn refuses_what_is_no_probability() {
        assert_eq!(Rig::new("RandomBitErrors(2)").errors().len(), 1);
        assert_eq!(
            Rig::new("RandomBitErrors(0, turn)").errors(),
            ["e: KIND should be flip, set or clear, not 'turn'"]
        );
    }
}
