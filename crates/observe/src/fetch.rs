// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders to a router, and its answers.

use client::{Client, Failure};

use crate::OBSERVE;
use crate::records::{Line, Order};

/// Gives an order; returns what the router says.
///
/// # Errors
/// The router does not answer, or refuses.
pub fn order(client: &mut Client, order: &Order) -> Result<Vec<Line>, Failure> {
    let text = serde_json::to_string(order).map_err(|e| Failure::Unreachable(e.to_string()))?;
    let said = client.write(OBSERVE, &text)?;
    let lines = said.lines().map(serde_json::from_str);
    let strange = |e| {
        let why = format!(
            "the router's answer is not understood: {e}; if it is of another version, use the junctor that runs it"
        );
        Failure::Unreachable(why)
    };
    lines.collect::<Result<_, _>>().map_err(strange)
}

/// Asks for something that is refused if it is not there, or not well put.
///
/// # Errors
/// The router does not answer, or refuses.
pub fn ask(client: &mut Client, wanted: &Order) -> Result<Vec<Line>, Failure> {
    order(client, wanted).map_err(|why| match why {
        Failure::Refused(_, why) => Failure::Unclear(why),
        other => other,
    })
}

/// Begins a session.
///
/// # Errors
/// The router does not answer, or refuses.
pub fn begin(client: &mut Client, wanted: &Order) -> Result<u64, Failure> {
    match ask(client, wanted)?.first() {
        Some(Line::Session { session }) => Ok(*session),
        _ => Err(Failure::Unreachable("the router has not begun to follow or capture packets; if it is of another version, use the junctor that runs it".into())),
    }
}

/// Ends a session.
///
/// # Errors
/// The router does not answer, or refuses.
pub fn stop(client: &mut Client, session: u64) -> Result<(), Failure> {
    order(client, &Order::Stop { session }).map(drop)
}
