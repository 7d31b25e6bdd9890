// SPDX-License-Identifier: MIT OR Apache-2.0
//! The routes of tables, in one order and one form.

use std::io::Write;

use serde_json::json;
use tables::routes::{Hop, ip_route, text};
use wire::Prefix;

use crate::{Error, Tables};

/// How routes are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `PREFIX/LEN ID` lines, after definitions of the ids.
    Text,
    /// As `ip route show` prints them.
    Ip,
    /// One JSON object for each route.
    Json,
}

/// Writes the routes of tables, by address, then length; with `within` that route and more specific ones only.
///
/// # Errors
/// The form has no words for a next hop, or `out` takes no more.
pub fn write(tables: &Tables, within: Option<Prefix>, form: Form, out: &mut impl Write) -> Result<(), Error> {
    let mut routes = tables.routes();
    if let Some(within) = within {
        routes.retain(|(prefix, _)| within.covers(*prefix));
    }
    let hop = |id| tables.hops.get(id).expect("every route has a next hop of the list");
    if form == Form::Ip && routes.iter().any(|(_, id)| matches!(hop(*id), Hop::Id(_))) {
        return Err(Error::BareNumbers);
    }
    let writer = text::Writer::new(&tables.hops);
    if form == Form::Text {
        writer.begin(out)?;
    }
    for (prefix, id) in &routes {
        match form {
            Form::Json => {
                let object = json!({"route": prefix.to_string(), "next_hop": hop(*id).to_string()});
                writeln!(out, "{object}")?;
            }
            Form::Ip => ip_route::write_route(out, *prefix, hop(*id))?,
            Form::Text => writer.route(out, *prefix, *id)?,
        }
    }
    Ok(())
}
