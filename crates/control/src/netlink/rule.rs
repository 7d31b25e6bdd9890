// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that choose routing tables (`linux/fib_rules.h`).

use super::{AF_INET, AF_INET6, Error, Message};
use crate::model::Rule;

const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_L3MDEV: u16 = 19;
const FRA_PROTOCOL: u16 = 21;
const FRA_PAD: u16 = 18;

/// The action of a rule: look up a table.
const TO_TABLE: u8 = 1;
/// Flag: the rule applies where its conditions do not.
const INVERT: u32 = 2;
/// No suppression.
const NONE: u32 = u32::MAX;

/// Decodes a rule, and says whether it is for IPv6. `None` if it is of another family.
///
/// # Errors
/// The message is malformed.
pub fn rule(message: &Message<'_>) -> Result<Option<(bool, Rule)>, Error> {
    let (header, attributes) = message.split::<12>()?;
    let [family, destination_len, source_len, tos, table, _, _, action, flags @ ..] = *header;
    if !matches!(family, AF_INET | AF_INET6) {
        return Ok(None);
    }
    let is_inverted = u32::from_ne_bytes(flags) & INVERT != 0;
    let mut is_simple = destination_len == 0 && source_len == 0 && tos == 0 && !is_inverted;
    let mut is_of_vrfs = false;
    let (mut priority, mut table, mut input) = (0, u32::from(table), None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            FRA_IIFNAME => input = Some(attribute.text()?.to_owned()),
            FRA_PRIORITY => priority = attribute.u32()?,
            FRA_TABLE => table = attribute.u32()?,
            FRA_SUPPRESS_IFGROUP | FRA_SUPPRESS_PREFIXLEN => is_simple &= attribute.u32()? == NONE,
            FRA_L3MDEV => is_of_vrfs = true,
            FRA_PROTOCOL | FRA_PAD => {}
            // Marks, ports, users and what later kernels ask for.
            _ => is_simple = false,
        }
    }
    let is_of_vrfs = is_of_vrfs && is_simple;
    let table = Some(table).filter(|_| action == TO_TABLE);
    Ok(Some((family == AF_INET6, Rule { priority, table, input, is_simple, is_of_vrfs })))
}
