// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a request is answered with.

use std::path::PathBuf;

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

impl From<Value> for Answer {
    fn from(value: Value) -> Answer {
        Answer::Json(value)
    }
}
