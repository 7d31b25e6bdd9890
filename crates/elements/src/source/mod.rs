// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that make packets.

mod fast_flows;
mod fast_udp_source;
mod random_source;
mod rated_source;
mod timed_source;
pub(crate) mod unpaced;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    fast_flows::TCP,
    fast_flows::UDP,
    fast_udp_source::CLASS,
    random_source::CLASS,
    rated_source::CLASS,
    timed_source::CLASS,
];

/// The content of packets that say nothing else, as in Click.
pub const DEFAULT_DATA: &str = "Random bullshit in a packet, at least 64 bytes long. Well, now it is.";

/// Why a source that is asked for packets stays one: copies would each have a limit and a rate of their own.
pub(crate) const PULLED: &str = "what it has to give is one amount, whichever worker asks";

/// Packets that a source may still make under its limit; a negative limit is none.
pub(crate) fn left(limit: i64, count: u64) -> usize {
    match u64::try_from(limit) {
        Ok(limit) => usize::try_from(limit.saturating_sub(count)).unwrap_or(usize::MAX),
        Err(_) => usize::MAX,
    }
}

/// Bytes of content, repeated or cut to fit a length.
pub(crate) fn fitted(data: &[u8], length: Option<usize>) -> Vec<u8> {
    let length = length.unwrap_or(data.len());
    let mut content: Vec<u8> = data.iter().copied().cycle().take(length).collect();
    content.resize(length, 0);
    content
}
