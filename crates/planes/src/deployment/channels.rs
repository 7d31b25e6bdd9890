// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels of a deployment: endpoints of the domain that the supervisor serves, by which planes talk to each other.

use icc::{BLOCK_BYTES_MAX, ChannelKind, ENDPOINTS_MAX, Endpoint, NAME_BYTES_MAX, PACKET_BYTES_MAX, Width};
use lang::{Diagnostic, Span};
use toml::de::DeTable;

use super::fields::{Fields, Findings, Placed};

/// Bytes of the longest packet of a channel, unless it says otherwise: a frame of a router.
const PACKET_BYTES: u32 = 2048;
const MESSAGE_BYTES: u32 = 4096;
const COUNT: u32 = 1024;
/// Bytes of the longest message of a channel of calls, and messages that wait. A call may have several.
const CALL_BYTES: u32 = 1 << 16;
const LEAST_CALL_BYTES: u32 = 64;
const CALLS: u32 = 16;
/// Bytes of a plane's statistics, unless the channel says otherwise; and the fewest that it can say.
const STATISTICS_BYTES: u32 = 1 << 20;
const LEAST_STATISTICS_BYTES: u32 = 1 << 12;

/// What a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carries {
    Packets,
    Messages,
    Scalars,
    Counters,
    Blocks,
    Calls,
    Statistics,
    Routes,
}

const KINDS: &[(&str, Carries)] = &[
    ("packets", Carries::Packets),
    ("messages", Carries::Messages),
    ("scalars", Carries::Scalars),
    ("counters", Carries::Counters),
    ("blocks", Carries::Blocks),
    ("calls", Carries::Calls),
    ("statistics", Carries::Statistics),
    ("routes", Carries::Routes),
];

/// The channels of a deployment as they were read.
#[derive(Debug, Default)]
pub(super) struct Channels {
    pub endpoints: Vec<Endpoint>,
    /// Where handlers of a plane are called.
    pub calls: Vec<OfPlane>,
    /// Where a plane publishes its statistics.
    pub statistics: Vec<OfPlane>,
}

/// A channel that belongs to a user plane: others call its handlers by it, or read its statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfPlane {
    /// The channel.
    pub name: String,
    /// The plane.
    pub plane: String,
    /// Where the deployment says so.
    pub(super) at: Span,
}

/// The endpoints of a channel of calls: what callers send, and what they receive.
#[must_use]
pub fn call_endpoints(name: &str) -> [String; 2] {
    [format!("{name}.calls"), format!("{name}.answers")]
}

/// Bytes of a batch of routes and of an answer, and how many may wait.
const ROUTE_BYTES: u32 = 1 << 16;
const REPLY_BYTES: u32 = 1 << 14;
const BATCHES: u32 = 16;

/// The endpoints of a channel of routes: what a control plane sends, and the user plane's answers.
#[must_use]
pub fn route_endpoints(name: &str) -> [String; 2] {
    [format!("{name}.updates"), format!("{name}.replies")]
}

/// Those endpoints, from number `port` on.
#[must_use]
pub fn routes(port: u32, name: &str) -> [Endpoint; 2] {
    let [updates, replies] = route_endpoints(name);
    [
        Endpoint::messages(port, updates, ROUTE_BYTES, BATCHES),
        Endpoint::messages(port + 1, replies, REPLY_BYTES, 2 * BATCHES),
    ]
}

/// Reads all channels; those that are wrong are left out.
pub(super) fn channels(found: &mut Findings, fields: &mut Fields<'_, '_>) -> Channels {
    let mut channels = Channels::default();
    for (name, table) in fields.tables(found, "channels") {
        let (channel_name, at) = name.clone();
        let _ = channel(found, &mut channels, name, table);
        if channels.endpoints.len() > ENDPOINTS_MAX {
            found.list.push(too_many(&channel_name, at));
            channels.endpoints.truncate(ENDPOINTS_MAX);
            break;
        }
    }
    channels
}

fn too_many(name: &str, at: Span) -> Diagnostic {
    let wrong =
        format!("channel `{name}` is one too many: channels have at most {ENDPOINTS_MAX} endpoints together");
    Diagnostic::error("E0703", wrong)
        .at(at)
        .note(None, "a channel of kind `calls` or `routes` has two endpoints, any other one has one")
        .help("remove this channel and those that follow, or put some planes into a deployment of their own")
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
    let mode = fields.parsed(found, "mode", "rights such as \"0660\"", |text| {
        u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777)
    });
    let plane = match kind {
        Carries::Calls => plane(found, &mut fields, "whose handlers are called"),
        Carries::Statistics => plane(found, &mut fields, "that publishes its statistics"),
        _ => None,
    };
    let endpoints = match kind {
        Carries::Statistics => vec![statistics(found, &mut fields, (port, &name))],
        Carries::Routes => routes(port, &name).into(),
        _ => endpoints(found, &mut fields, kind, (port, &name))?,
    };
    fields.end(found);
    if !super::read::is_name(&name) || name.len() > NAME_BYTES_MAX {
        found.list.push(super::read::bad_name(&name, "channel").at(at));
        return None;
    }
    if let [Endpoint { kind: ChannelKind::Packets { longest, .. }, .. }] = endpoints[..]
        && longest > PACKET_BYTES_MAX
    {
        found.wrong_value(at, format!("packets have at most {PACKET_BYTES_MAX} bytes, not {longest}"));
        return None;
    }
    let of_plane = |(plane, at): Placed<String>| OfPlane { name, plane, at };
    match kind {
        Carries::Calls => channels.calls.push(of_plane(plane?)),
        Carries::Statistics => channels.statistics.push(of_plane(plane?)),
        _ => {}
    }
    let rights = mode.map(|(mode, _)| icc::Rights::mode(mode));
    let with_rights = |endpoint| rights.into_iter().fold(endpoint, Endpoint::rights);
    channels.endpoints.extend(endpoints.into_iter().map(with_rights));
    Some(())
}

/// Reads whose the channel is.
fn plane(found: &mut Findings, fields: &mut Fields<'_, '_>, what: &str) -> Option<Placed<String>> {
    let plane = fields.text(found, "plane");
    if plane.is_none() {
        fields.missing(found, "plane", &format!("name the user plane {what}: plane = \"user\""));
    }
    plane.map(|(plane, at)| (plane.to_owned(), at))
}

/// The endpoints of a channel that has messages or numbers, with these ports and names.
fn endpoints(
    found: &mut Findings,
    fields: &mut Fields<'_, '_>,
    kind: Carries,
    (port, name): (u32, &str),
) -> Option<Vec<Endpoint>> {
    let count = fields.number(found, "count", 1..=1 << 20).map_or(COUNT, i32::unsigned_abs);
    let longest = fields.number(found, "longest", 1..=1 << 20).map(i32::unsigned_abs);
    let bits = fields.number(found, "bits", 8..=64).map(i32::unsigned_abs);
    let endpoint = match kind {
        Carries::Packets => Endpoint::packets(port, name, longest.unwrap_or(PACKET_BYTES), count),
        Carries::Messages => Endpoint::messages(port, name, longest.unwrap_or(MESSAGE_BYTES), count),
        Carries::Scalars => {
            Endpoint::scalars(port, name, width(found, bits.unwrap_or(64), fields.at)?, count)
        }
        Carries::Blocks => Endpoint::blocks(port, name, longest.unwrap_or(MESSAGE_BYTES)),
        Carries::Counters | Carries::Statistics | Carries::Routes => Endpoint::counters(port, name, count),
        Carries::Calls => {
            let longest = longest.unwrap_or(CALL_BYTES).max(LEAST_CALL_BYTES);
            let of = |(port, name)| Endpoint::messages(port, name, longest, CALLS);
            return Some((port..).zip(call_endpoints(name)).map(of).collect());
        }
    };
    Some(vec![endpoint])
}

/// The endpoint of a channel of statistics.
fn statistics(found: &mut Findings, fields: &mut Fields<'_, '_>, (port, name): (u32, &str)) -> Endpoint {
    let expected = "an amount from 4K to 64M, such as \"2M\"";
    let size = fields.parsed(found, "size", expected, statistics_bytes);
    Endpoint::blocks(port, name, size.map_or(STATISTICS_BYTES, |(size, _)| size))
}

fn statistics_bytes(text: &str) -> Option<u32> {
    let bytes = u32::try_from(super::read::amount(text)?).ok()?;
    (LEAST_STATISTICS_BYTES..=BLOCK_BYTES_MAX).contains(&bytes).then_some(bytes)
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
