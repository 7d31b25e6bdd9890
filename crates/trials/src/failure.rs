// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a test did not succeed.

use report::say;

use crate::Error;

/// Why a test did not succeed. What it found nevertheless has been printed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What was asked for cannot be done that way.
    #[error("{0}")]
    Usage(String),
    /// It did not come to a result.
    #[error(transparent)]
    Error(#[from] Error),
    /// These are the causes, in order, why parts have no result.
    #[error("{}", .0.join("; "))]
    Failed(Vec<String>),
    /// A signal ended it; the causes, in order.
    #[error("{}", .causes.join("; "))]
    Interrupted {
        /// The signal's number.
        signal: i32,
        /// What is to be said, that it came among it.
        causes: Vec<String>,
    },
    /// The results that were compared are not alike or better; the verdict has been printed.
    #[error("")]
    NotBetter,
}

impl Failure {
    /// The causes, each for a line of its own.
    pub fn causes(&self) -> Vec<String> {
        match self {
            Failure::Usage(why) => vec![why.clone()],
            Failure::Error(why) => vec![why.to_string()],
            Failure::Failed(causes) | Failure::Interrupted { causes, .. } => causes.clone(),
            Failure::NotBetter => Vec::new(),
        }
    }

    /// Success, if there are no causes.
    pub(crate) fn unless_empty(causes: Vec<String>) -> Result<(), Failure> {
        if causes.is_empty() { Ok(()) } else { Err(Failure::Failed(causes)) }
    }
}

/// Prints on standard output.
///
/// # Errors
/// It takes no more, though somebody reads it.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    say::deliver(text.as_bytes()).map_err(Error::system("standard output"))
}
