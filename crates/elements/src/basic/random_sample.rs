// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RandomSample
//!
//! `RandomSample([P, keywords SAMPLE, DROP, ACTIVE])`
//!
//! Passes each packet with some probability.
//!
//! **Ports:** 1 input, 1 or 2 outputs; agnostic, output 1 push: the packets not chosen.
//!
//! **Arguments**
//! * `P` probability to pass, 0 to 1; `SAMPLE` is a synonym.
//! * `DROP` probability not to pass. One of the three must be given.
//! * `ACTIVE` boolean, default true; all packets pass when false.
//!
//! **Drops:** `impaired`, packets not chosen when output 1 is not connected.
//!
//! **Handlers**
//! * `sampling_prob`, `drop_prob` read/write: the probabilities. `active` read/write: the argument.
//! * `drops` read: packets not chosen. `config` reads as the arguments are now.
//!
//! ```click
//! InfiniteSource(LIMIT 50, STOP true) -> RandomSample(0.1) -> Discard;
//! ```
//!
//! See also: RandomBitErrors, RandomSwitch

use element::Policy;
use element::args::Args;
use element::swap::Count;
use element::{Class, Cx, Element, HandlerError, Reason, Rehearsal, carries, handlers};
use packet::Batch;

use crate::tools::{Probability, value};

/// The descriptor.
pub const CLASS: Class = Class::new("RandomSample", "1/1-2", || Box::new(RandomSample::default()))
    .processing("a/ah")
    .handlers(handlers! { RandomSample:
        both "sampling_prob" => .pass |sample, text: &str| sample.pass = probability("sampling_prob", text)?;
        both "drop_prob" => |sample| 1.0 - sample.pass,
            |sample, text: &str| sample.pass = 1.0 - probability("drop_prob", text)?;
        both "active" => .active;
        sum "drops" => .drops;
        both "config" => |sample| format!("SAMPLE {}, ACTIVE {}", sample.pass, sample.active);
    })
    .reconfigurable()
    .hot_swap::<RandomSample>()
    .rehearsal::<RandomSample>()
    .file(file!());

#[derive(Clone, Default)]
struct RandomSample {
    pass: f64,
    active: bool,
    drops: Count,
}

fn probability(name: &str, text: &str) -> Result<f64, HandlerError> {
    let given = value::<Probability>(name, text);
    Ok(given.map_err(|e| e.said_as("Must be given a number between 0.0 and 1.0"))?.0)
}

impl Element for RandomSample {
    fn configure(&mut self, args: &mut Args<'_>) {
        let pass = args.positional_opt::<Probability>("P").or(args.keyword_opt("SAMPLE"));
        let drop = args.keyword_opt::<Probability>("DROP");
        let as_click = Policy::of_process().as_click;
        match (pass, drop) {
            // Click lets all packets pass.
            (None, None) if as_click && args.errors().is_empty() => {
                args.error("sampling probability must be between 0 and 1");
            }
            (Some(p), None) => self.pass = p.0,
            (None, Some(q)) => self.pass = 1.0 - q.0,
            _ if !args.errors().is_empty() => {}
            _ => args.error_as(
                "give one of P, SAMPLE and DROP".into(),
                "give at most one of SAMPLE and DROP".into(),
            ),
        }
        self.active = args.keyword("ACTIVE", true);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        if !self.active || self.pass >= 1.0 {
            return batch;
        }
        let pass = self.pass;
        let mut rest = None;
        let random = cx.random();
        batch.partition(|_| random.f64() < pass, |p| rest.get_or_insert_with(Batch::new).push(p));
        if let Some(rest) = rest {
            self.drops += rest.len() as u64;
            cx.push_or_drop(1, rest, Reason::Impaired);
        }
        batch
    }
}

impl Rehearsal for RandomSample {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(RandomSample: drops; anew pass, active);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    fn check(element: &str, passed: std::ops::RangeInclusive<usize>) {
        for burst in [1, 32] {
            let text = format!(
                "InfiniteSource(LIMIT 1000) -> e :: {element} -> o :: TestOut; e[1] -> x :: TestOut;"
            );
            let mut run = Rig::text(&text).burst(burst).run();
            let (kept, rest) = (run.out("o").len(), run.out("x").len());
            assert!(passed.contains(&kept) && kept + rest == 1000, "{element}: {kept} {rest}");
            assert_eq!(run.read("e.drops"), rest.to_string());
        }
    }

    #[test]
    fn passes_the_share() {
        check("RandomSample(1)", 1000..=1000);
        check("RandomSample(0)", 0..=0);
        check("RandomSample(DROP 0)", 1000..=1000);
        // Binomial: standard deviation 14.
        check("RandomSample(0.3)", 230..=370);
        check("RandomSample(DROP 0.3)", 630..=770);
        check("RandomSample(0, ACTIVE false)", 1000..=1000);
    }

    #[test]
    fn handlers_and_errors() {
        let mut run = Rig::new("RandomSample(0)").inputs(&[b"a"]).run();
        assert_eq!(run.drops("e"), [(Reason::Impaired, 1)]);
        run.write("e.drop_prob", "0.25").unwrap();
        assert_eq!(run.read("e.sampling_prob"), "0.75");
        assert!(run.write("e.drop_prob", "2").is_err());
        assert_eq!(Rig::new("RandomSample").errors(), ["e: give one of P, SAMPLE and DROP"]);
        assert_eq!(Rig::new("RandomSample(1.5)").errors().len(), 1);
    }
}
