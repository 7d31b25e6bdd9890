// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which route decides about an address, in words.

use std::net::IpAddr;

use serde_json::json;

use crate::Tables;

/// A line for an address: the route that decides about it and its next hop, or `none`.
pub fn line(tables: &mut Tables, address: IpAddr) -> String {
    match tables.lookup(address) {
        Some((prefix, hop)) => format!("{address} {prefix} {hop}\n"),
        None => format!("{address} none\n"),
    }
}

/// The same as a JSON object.
pub fn json_line(tables: &mut Tables, address: IpAddr) -> String {
    let found = tables.lookup(address);
    let route = found.map(|(prefix, _)| prefix.to_string());
    let hop = found.map(|(_, hop)| hop.to_string());
    format!("{}\n", json!({"address": address.to_string(), "route": route, "next_hop": hop}))
}
