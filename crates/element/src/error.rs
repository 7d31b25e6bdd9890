// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a call of a handler fails, in our words and in Click's.

use crate::policy::Policy;

/// Why a handler call failed. The variants correspond to the codes of Click's control protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// No element of that name (510).
    #[error("no element named '{0}'")]
    NoElement(String),
    /// The element has no such handler (511).
    #[error("no handler named '{0}'")]
    NoHandler(String),
    /// The handler exists, but not for reading or writing (530).
    #[error("{0}")]
    Denied(String),
    /// The value or the element's state does not allow it (520).
    #[error("{0}")]
    Failed(String),
}

impl HandlerError {
    /// The element has no handler `name`.
    pub fn unknown(name: &str) -> HandlerError {
        HandlerError::NoHandler(name.to_owned())
    }

    /// The value or the state does not allow it.
    pub fn failed(why: impl Into<String>) -> HandlerError {
        HandlerError::Failed(why.into())
    }

    /// `value` is not what handler `name` expects.
    pub fn bad_value(name: &str, value: &str, expected: &str) -> HandlerError {
        HandlerError::Failed(match Policy::of_process().as_click {
            true => clicks_words(expected).to_owned(),
            false => format!("handler '{name}' expects {expected}, not '{value}'"),
        })
    }

    /// The same error in the words that Click has for it, if the program was called as `click`.
    pub fn said_as(self, words: &str) -> HandlerError {
        match self {
            HandlerError::Failed(_) if Policy::of_process().as_click => HandlerError::failed(words),
            other => other,
        }
    }
}

/// What most of Click's handlers say of a value that is not what they expect.
fn clicks_words(expected: &str) -> &'static str {
    match expected {
        "true or false" => "expected boolean",
        _ if expected.starts_with("a whole number") => "expected integer",
        _ if expected.starts_with("an IPv4 address") => "expected IP address",
        _ if expected.starts_with("an IPv6 address") => "expected IPv6 address",
        _ if expected.starts_with("an Ethernet address") => "expected Ethernet address",
        _ => "syntax error",
    }
}
