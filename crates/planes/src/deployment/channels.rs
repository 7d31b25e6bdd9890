// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels of a deployment: endpoints of the domain that the supervisor serves, by which planes talk to each other.

use icc::{Endpoint, Kind, NAME_BYTES_MAX, PACKET_BYTES_MAX, Width};
use lang::Span;
use toml::de::DeTable;

use super::fields::{Fields, Findings, Placed};

/// Channels that a deployment may have, beside those that the supervisor adds.
const MOST_CHANNELS: usize = 48;
/// Bytes of the longest packet of a channel, unless it says otherwise: a frame of a router.
const PACKET_BYTES: u32 = 2048;
const MESSAGE_BYTES: u32 = 4096;
const COUNT: u32 = 1024;

/// What a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carries {
    Packets,
    Messages,
    Scalars,
    Counters,
}

const KINDS: &[(&str, Carries)] = &[
    ("packets", Carries::Packets),
    ("messages", Carries::Messages),
    ("scalars", Carries::Scalars),
    ("counters", Carries::Counters),
];

/// Reads all channels; those that are wrong are left out.
pub(super) fn channels(found: &mut Findings, fields: &mut Fields<'_, '_>) -> Vec<Endpoint> {
    let tables = fields.tables(found, "channels");
    if let Some(((_, at), _)) = tables.get(MOST_CHANNELS) {
        found.wrong_value(*at, format!("a deployment has at most {MOST_CHANNELS} channels"));
    }
    let tables = tables.into_iter().take(MOST_CHANNELS);
    tables.zip(1..).filter_map(|((name, table), port)| channel(found, port, name, table)).collect()
}

fn channel(
    found: &mut Findings,
    port: u32,
    (name, at): Placed<String>,
    table: &DeTable<'_>,
) -> Option<Endpoint> {
    let mut fields = Fields::new(format!("channel `{name}`"), table, at);
    let kind = fields.word(found, "kind", KINDS).map_or(Carries::Packets, |(kind, _)| kind);
    let count = fields.number(found, "count", 1..=1 << 20).map_or(COUNT, i32::unsigned_abs);
    let longest = fields.number(found, "longest", 1..=1 << 20).map(i32::unsigned_abs);
    let bits = fields.number(found, "bits", 8..=64).map(i32::unsigned_abs);
    let mode = fields.parsed(found, "mode", "rights such as \"0660\"", |text| {
        u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777)
    });
    fields.end(found);
    let endpoint = match kind {
        Carries::Packets => Endpoint::packets(port, name, longest.unwrap_or(PACKET_BYTES), count),
        Carries::Messages => Endpoint::messages(port, name, longest.unwrap_or(MESSAGE_BYTES), count),
        Carries::Scalars => Endpoint::scalars(port, name, width(found, bits.unwrap_or(64), at)?, count),
        Carries::Counters => Endpoint::counters(port, name, count),
    };
    let endpoint = match mode {
        Some((mode, _)) => endpoint.rights(icc::Rights::mode(mode)),
        None => endpoint,
    };
    if let Kind::Packets { longest, .. } = endpoint.kind
        && longest > PACKET_BYTES_MAX
    {
        found.wrong_value(at, format!("packets have at most {PACKET_BYTES_MAX} bytes, not {longest}"));
        return None;
    }
    if !super::read::is_name(&endpoint.name) || endpoint.name.len() > NAME_BYTES_MAX {
        found.list.push(super::read::bad_name(&endpoint.name, "channel").at(at));
        return None;
    }
    Some(endpoint)
}

fn width(found: &mut Findings, bits: u32, at: Span) -> Option<Width> {
    let width = match bits {
        8 => Width::Bits8,
        16 => Width::Bits16,
        32 => Width::Bits32,
        64 => Width::Bits64,
        _ => {
            found.wrong_value(at, format!("`bits` expects 8, 16, 32 or 64, not {bits}"));
            return None;
        }
    };
    Some(width)
}
