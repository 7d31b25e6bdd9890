// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RandomSeed
//!
//! `RandomSeed([SEED])`
//!
//! Sets where the randomness of all elements begins, so that a run can be repeated. Without SEED the start is random.
//! Option `--seed` does the same for a whole run.
//!
//! **Ports:** none.
//!
//! **Arguments**
//! * `SEED` whole number from 0 to 2^32 - 1.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `seed` write: begins anew, with a number or, when empty, at random. It reaches the worker that the element is on.
//!
//! ```click
//! RandomSeed(7);
//! Script(print $(random 100), stop);
//! ```
//!
//! See also: Script

use element::args::Args;
use element::{Class, Cx, Element, HandlerError, InitCx, OpenCx, Tasks, handlers, parse_integer};

/// The descriptor.
pub const CLASS: Class = Class::new("RandomSeed", "0/0", || Box::<RandomSeed>::default())
    .handlers(handlers! { RandomSeed:
        write "seed" => |_seed, cx, text: &str| begin(cx, seed(text)?);
    })
    .file(file!());

#[derive(Default)]
struct RandomSeed {
    seed: Option<u32>,
}

fn begin(cx: &mut Cx<'_>, seed: Option<u32>) {
    *cx.random() = match seed {
        Some(seed) => fastrand::Rng::with_seed(seed.into()),
        None => fastrand::Rng::new(),
    };
}

impl Element for RandomSeed {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.seed = args.positional_opt("SEED");
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        // Each worker draws from a sequence of its own.
        Ok(Tasks::Many(cx.workers))
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        begin(cx, self.seed);
        Ok(())
    }
}

/// The seed written to a handler; `None` for one that is drawn.
fn seed(text: &str) -> Result<Option<u32>, HandlerError> {
    let seed = parse_integer(text.trim()).and_then(|n| u32::try_from(n).ok());
    let expected = "nothing or a number from 0 to 4294967295";
    match text.trim() {
        "" => Ok(None),
        _ => seed.map(Some).ok_or_else(|| HandlerError::bad_value("seed", text, expected)),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn equal_seeds_give_equal_numbers() {
        let text = "r :: RandomSeed(7); s :: Script(TYPE PASSIVE, return \"$(random) $(random)\")";
        let mut run = Rig::text(text).run();
        let first = run.read("s.run");
        assert_ne!(run.read("s.run"), first);
        run.write("r.seed", " 7 ").unwrap();
        assert_eq!(run.read("s.run"), first);
        assert!(run.write("r.seed", "-1").is_err() && run.write("r.seed", "").is_ok());
    }
}
