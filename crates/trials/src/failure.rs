// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a test did not succeed.

use std::fmt;

use report::say;

/// Why a test did not succeed. What it found nevertheless has been printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// What was asked for cannot be done that way.
    Usage(String),
    /// These are the causes, in order.
    Failed(Vec<String>),
    /// A signal ended it; the causes, in order.
    Interrupted {
        /// The signal's number.
        signal: i32,
        /// What is to be said, that it came among it.
        causes: Vec<String>,
    },
    /// The results that were compared are not alike or better; the verdict has been printed.
    NotBetter,
}

impl Failure {
    /// The causes, each for a line of its own.
    pub fn causes(&self) -> &[String] {
        match self {
            Failure::Usage(why) => std::slice::from_ref(why),
            Failure::Failed(causes) | Failure::Interrupted { causes, .. } => causes,
            Failure::NotBetter => &[],
        }
    }

    /// Success, if there are no causes.
    pub(crate) fn unless_empty(causes: Vec<String>) -> Result<(), Failure> {
        if causes.is_empty() { Ok(()) } else { Err(Failure::Failed(causes)) }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Failed(vec![why])
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.causes().join("; "))
    }
}

impl std::error::Error for Failure {}

/// Prints on standard output.
///
/// # Errors
/// It takes no more, though somebody reads it.
pub(crate) fn print(text: &str) -> Result<(), String> {
    say::deliver(text.as_bytes()).map_err(|why| format!("standard output: {why}"))
}
