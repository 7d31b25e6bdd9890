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
/// Bytes of the longest message of a channel of calls, and messages that wait. A call may have several.
const CALL_BYTES: u32 = 1 << 16;
const LEAST_CALL_BYTES: u32 = 64;
const CALLS: u32 = 16;

/// What a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carries {
    Packets,
    Messages,
    Scalars,
    Counters,
    Calls,
}

const KINDS: &[(&str, Carries)] = &[
    ("packets", Carries::Packets),
    ("messages", Carries::Messages),
    ("scalars", Carries::Scalars),
    ("counters", Carries::Counters),
    ("calls", Carries::Calls),
];

/// The channels of a deployment as they were read.
#[derive(Debug, Default)]
pub(super) struct Channels {
    pub endpoints: Vec<Endpoint>,
    /// Where handlers of a plane are called.
    pub calls: Vec<Calls>,
}

/// A channel by which others call the handlers of a user plane, as the deployment has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// The channel.
    pub name: String,
    /// The plane that is called.
    pub plane: String,
    /// Where the deployment says so.
    pub(super) at: Span,
}

/// The endpoints of a channel of calls: what callers send, and what they receive.
#[must_use]
pub fn call_endpoints(name: &str) -> [String; 2] {
    [format!("{name}.calls"), format!("{name}.answers")]
}

/// Reads all channels; those that are wrong are left out.
pub(super) fn channels(found: &mut Findings, fields: &mut Fields<'_, '_>) -> Channels {
    let tables = fields.tables(found, "channels");
    if let Some(((_, at), _)) = tables.get(MOST_CHANNELS) {
        found.wrong_value(*at, format!("a deployment has at most {MOST_CHANNELS} channels"));
    }
    let mut channels = Channels::default();
    for (name, table) in tables.into_iter().take(MOST_CHANNELS) {
        let _ = channel(found, &mut channels, name, table);
    }
    channels
}

fn channel(
    found: &mut Findings,
    channels: &mut Channels,
    (name, at): Placed<String>,
    table: &DeTable<'_>,
) -> Option<()> {
    let port = channels.endpoints.len() as u32 + 1;
    let mut fields = Fields::new(format!("channel `{name}`"), table, at);
    let kind = fields.word(found, "kind", KINDS).map_or(Carries::Packets, |(kind, _)| kind);
    let count = fields.number(found, "count", 1..=1 << 20).map_or(COUNT, i32::unsigned_abs);
    let longest = fields.number(found, "longest", 1..=1 << 20).map(i32::unsigned_abs);
    let bits = fields.number(found, "bits", 8..=64).map(i32::unsigned_abs);
    let mode = fields.parsed(found, "mode", "rights such as \"0660\"", |text| {
        u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777)
    });
    let plane = match kind {
        Carries::Calls => fields.text(found, "plane"),
        _ => None,
    };
    if kind == Carries::Calls && plane.is_none() {
        fields.missing(found, "plane", "name the user plane whose handlers are called: plane = \"user\"");
    }
    fields.end(found);
    if !super::read::is_name(&name) || name.len() > NAME_BYTES_MAX {
        found.list.push(super::read::bad_name(&name, "channel").at(at));
        return None;
    }
    if kind == Carries::Calls {
        let (plane, at) = plane?;
        let (longest, rights) =
            (longest.unwrap_or(CALL_BYTES), mode.map(|(mode, _)| icc::Rights::mode(mode)));
        for (port, name) in (port..).zip(call_endpoints(&name)) {
            let endpoint = Endpoint::messages(port, name, longest.max(LEAST_CALL_BYTES), CALLS);
            channels.endpoints.push(rights.into_iter().fold(endpoint, Endpoint::rights));
        }
        channels.calls.push(Calls { name, plane: plane.to_owned(), at });
        return Some(());
    }
    let endpoint = match kind {
        Carries::Packets => Endpoint::packets(port, name, longest.unwrap_or(PACKET_BYTES), count),
        Carries::Messages => Endpoint::messages(port, name, longest.unwrap_or(MESSAGE_BYTES), count),
        Carries::Scalars => Endpoint::scalars(port, name, width(found, bits.unwrap_or(64), at)?, count),
        Carries::Counters | Carries::Calls => Endpoint::counters(port, name, count),
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
    channels.endpoints.push(endpoint);
    Some(())
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
