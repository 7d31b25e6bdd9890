// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Error
//!
//! `Error([MESSAGE])`
//!
//! Makes its configuration invalid: checking it reports MESSAGE. Meant for compounds that must not be used in some ways.
//!
//! **Ports:** any number.
//!
//! **Arguments**
//! * `MESSAGE` what to report, default "the configuration holds an Error element".
//!
//! **Drops:** none.
//!
//! **Handlers:** none of its own.
//!
//! ```click
//! elementclass Share { $share | input -> RandomSample($share) -> output
//!   || input -> Error("Share needs a probability") -> output }
//! Idle -> Share(0.5) -> Discard;
//! ```
//!
//! See also: Script

use element::args::Args;
use element::{Class, Element};

/// The descriptor.
pub const CLASS: Class = Class::new("Error", "-/-", || Box::new(Error)).file(file!());

struct Error;

impl Element for Error {
    fn configure(&mut self, args: &mut Args<'_>) {
        let message = args.positional("MESSAGE", String::from("the configuration holds an Error element"));
        args.error(message);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn reports_its_message() {
        let check = |element: &str, want: &str| {
            assert_eq!(Rig::new(element).errors(), [want.to_owned()], "{element}")
        };
        check("Error(\"not so\")", "e: not so");
        check("Error", "e: the configuration holds an Error element");
    }
}
