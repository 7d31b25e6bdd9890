// SPDX-License-Identifier: MIT OR Apache-2.0
//! The routes and multicast entries of a control plane, in parts: nobody has to hold all of them.

use client::{Client, Failure};
use serde_json::Value;

/// Rows that are asked for at once.
const AT_ONCE: usize = 1000;

/// A list of the control plane that comes in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Routes.
    Routes,
    /// Multicast entries.
    Multicast,
}

impl Listed {
    fn handler(self) -> &'static str {
        match self {
            Listed::Routes => "page",
            Listed::Multicast => "multicast_page",
        }
    }
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The rows, each as JSON.
    pub rows: Vec<String>,
    /// Where the next part begins, if there is one.
    pub next: Option<String>,
}

/// The part that begins at a cursor: about `most` rows, 10,000 at most. `wish` has words for which rows, as the list's handler takes them.
///
/// # Errors
/// The control plane does not answer, or refuses.
pub fn part(
    client: &mut Client,
    listed: Listed,
    most: usize,
    cursor: Option<&str>,
    wish: &str,
) -> Result<Part, Failure> {
    let (handler, cursor) = (listed.handler(), cursor.unwrap_or("-"));
    let text = client.read(format!("{handler} {most} {cursor} {wish}").trim_end())?;
    let mut lines = text.lines();
    let next = lines.next().filter(|next| *next != "-").map(str::to_owned);
    Ok(Part { rows: lines.map(str::to_owned).collect(), next })
}

/// Passes all rows of a list to `take`, part by part.
///
/// # Errors
/// The control plane does not answer, or its answer is not understood.
pub fn list(
    client: &mut Client,
    listed: Listed,
    wish: &str,
    mut take: impl FnMut(Value),
) -> Result<(), Failure> {
    let mut cursor = None;
    loop {
        let part = part(client, listed, AT_ONCE, cursor.as_deref(), wish)?;
        for row in part.rows {
            let broken = |why| Failure::Unreachable(format!("the control plane answers nonsense: {why}"));
            take(serde_json::from_str(&row).map_err(broken)?);
        }
        match part.next {
            Some(next) => cursor = Some(next),
            None => return Ok(()),
        }
    }
}
