// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a request is answered with.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

/// An answer. Its status is the route's.
#[derive(Debug)]
pub enum Answer {
    /// A value.
    Json(Value),
    /// A value about a resource that was made, and its path.
    Made(Value, String),
    /// Text of a type.
    Text(&'static str, String),
    /// A file to download: its place, type and name.
    File(PathBuf, &'static str, String),
}

impl Answer {
    /// A value with names for its fields. It goes into its text at once: of a thousand elements a [`Value`] is tens of thousands of allocations.
    #[must_use]
    pub fn json(value: &impl Serialize) -> Answer {
        Answer::Text("application/json", serde_json::to_string(value).unwrap_or_default())
    }
}

impl From<Value> for Answer {
    fn from(value: Value) -> Answer {
        Answer::Json(value)
    }
}
