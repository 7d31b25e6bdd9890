// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies where in a region: version 1.
//!
//! All is in words of 8 bytes, in the byte order of the machine that made the region. Word numbers:
//!
//! ```text
//! region   0  magic "JUNCTICC"           4  generation: another number each time that a region is made
//!          1  version (low 32 bits),     5  number of endpoints
//!             byte order mark (high)     6  the magic again once the region is complete
//!          2  size in words              7..15  0
//!          3  domain (low), node (high)
//!         16  directory: 16 words for each endpoint
//!             0  kind (low), bytes of an item (high): kind 1 messages, 2 scalars, 3 counters,
//!                                                                          4 packets, 5 blocks
//!             1  port               3  words of the channel       5      0
//!             2  its first word     4  cells, counters, slots        6..11  name, padded with zeros
//!
//! channel  0  sender's seat         the channel begins at a multiple of 16 words; each group of 16 lies in cache lines of its own
//!          1  receiver's seat
//!          2  1 if the channel was given up
//!         16  the receiver's position (messages, scalars) | the newest one's number (counters, blocks)
//!         32  the receiver's ticket: another number each time that it goes to sleep, 0 while it is awake
//!         48  the sender's heartbeat
//!         64  the receiver's heartbeat
//!         80  cells of 8 words (messages) or 2 (scalars), see `ring`; or two slots, see `sync::slots` and `blocks`;
//!             or of packets the sender's position; from word 96 on cells of 4 words, then as many frames, see `loans`
//! ```
//! A *seat* is twice the number of processes that have had it so far, plus 1 while somebody has it.
//!
//! Who attaches reads the directory once and checks it against the real size of what was mapped. From then on only that private copy counts.

use crate::endpoint::{
    ChannelKind, ENDPOINTS_MAX, Endpoint, MESSAGE_CELL, NAME_BYTES_MAX, NodeId, SCALAR_CELL, Width,
};
use crate::loans;
use crate::memory::{ReadOnly, WORD, Words};
use crate::prim::{Ordering, fence};
use crate::ring::RingPlace;

/// The version of the form.
pub const VERSION: u32 = 1;

const MAGIC: u64 = u64::from_be_bytes(*b"JUNCTICC");
const BYTE_ORDER: u32 = 0x0102_0304;

const HEADER: usize = 16;
const ENTRY: usize = 16;
/// Words of a channel before its data.
const FRONT: usize = 80;
/// Places of what is published.
const SLOTS: u32 = 2;
/// The largest region, in words: 4 GiB.
const WORDS_MAX: usize = 1 << 29;

/// Why a region cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Something else lies there.
    #[error("this is no Junctor communication region, or one that is not complete yet")]
    NotARegion,
    /// It was made on a machine of the other byte order.
    #[error("the region was made by a machine of another byte order; both sides must have the same")]
    ByteOrder,
    /// Another version.
    #[error(
        "the region has version {0}, this program knows version {VERSION}: use the same release of Junctor on both sides"
    )]
    Version(u32),
    /// A size or a place that cannot be.
    #[error("the region is damaged: {0}")]
    Damaged(String),
    /// It holds no such endpoint.
    #[error("there is no endpoint {0}; there are: {1}")]
    NoEndpoint(String, String),
    /// What is to be made is not allowed.
    #[error("{0}")]
    NotAllowed(String),
}

/// Words that a block of so many bytes takes.
const fn block_words(bytes: u32) -> usize {
    1 + (bytes as usize).div_ceil(WORD)
}

impl ChannelKind {
    /// Words of what is published at a time, without its number and length.
    fn body(self) -> usize {
        match self {
            ChannelKind::Counters { count } => count as usize,
            ChannelKind::Blocks { longest } => block_words(longest),
            ChannelKind::Messages { .. } | ChannelKind::Scalars { .. } | ChannelKind::Packets { .. } => 0,
        }
    }
}

/// A channel of a region: what it carries and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    pub(crate) port: u32,
    pub(crate) name: String,
    pub(crate) kind: ChannelKind,
    /// Its first word.
    start: usize,
}

impl Channel {
    /// Words that an endpoint's channel takes.
    fn words(kind: ChannelKind) -> usize {
        let data = match kind {
            ChannelKind::Messages { cells, .. } => cells as usize * MESSAGE_CELL,
            ChannelKind::Scalars { cells, .. } => cells as usize * SCALAR_CELL,
            ChannelKind::Packets { longest, cells } => {
                loans::LoanPlace::words(cells.into(), longest as usize)
            }
            ChannelKind::Counters { .. } | ChannelKind::Blocks { .. } => {
                sync::slots::Slots::words(kind.body())
            }
        };
        (FRONT + data).next_multiple_of(16)
    }

    pub(crate) fn seat(&self, role: crate::Role) -> usize {
        match role {
            crate::Role::Sender => self.start,
            crate::Role::Receiver => self.start + 1,
        }
    }

    pub(crate) fn given_up(&self) -> usize {
        self.start + 2
    }

    pub(crate) fn ticket(&self) -> usize {
        self.start + 32
    }

    pub(crate) fn heartbeat(&self, role: crate::Role) -> usize {
        match role {
            crate::Role::Sender => self.start + 48,
            crate::Role::Receiver => self.start + 64,
        }
    }

    /// Where the ring lies; that of counters has no cells.
    pub(crate) fn ring(&self) -> RingPlace {
        let (cells, longest) = match self.kind {
            ChannelKind::Messages { longest, cells } => (cells, longest as usize),
            ChannelKind::Scalars { cells, .. } => (cells, 8),
            ChannelKind::Counters { .. } | ChannelKind::Packets { .. } | ChannelKind::Blocks { .. } => (0, 0),
        };
        RingPlace { head: self.start + 16, data: self.start + FRONT, cells: u64::from(cells), longest }
    }

    /// Where the packets lie.
    pub(crate) fn loans(&self) -> loans::LoanPlace {
        let (cells, longest) = match self.kind {
            ChannelKind::Packets { longest, cells } => (cells, longest as usize),
            ChannelKind::Messages { .. }
            | ChannelKind::Scalars { .. }
            | ChannelKind::Counters { .. }
            | ChannelKind::Blocks { .. } => (0, 0),
        };
        loans::LoanPlace { head: self.start + 16, tail: self.start + FRONT, cells: cells.into(), longest }
    }

    /// Where what is published lies.
    pub(crate) fn slots(&self) -> sync::slots::Slots {
        sync::slots::Slots { head: self.start + 16, first: self.start + FRONT, capacity: self.kind.body() }
    }
}

/// What a region holds, read once and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) node: NodeId,
    pub(crate) generation: u64,
    pub(crate) channels: Vec<Channel>,
    /// Words in all.
    pub(crate) words: usize,
}

impl Layout {
    /// A region for these endpoints.
    pub(crate) fn plan(node: NodeId, generation: u64, endpoints: &[Endpoint]) -> Result<Layout, LayoutError> {
        if endpoints.is_empty() || endpoints.len() > ENDPOINTS_MAX {
            let many = endpoints.len();
            return Err(LayoutError::NotAllowed(format!(
                "{many} endpoints; allowed are 1 to {ENDPOINTS_MAX}"
            )));
        }
        let mut next = HEADER + ENTRY * endpoints.len();
        let mut channels: Vec<Channel> = Vec::with_capacity(endpoints.len());
        for endpoint in endpoints {
            if let Some(wrong) = endpoint.wrong() {
                return Err(LayoutError::NotAllowed(wrong));
            }
            let same = |c: &&Channel| c.port == endpoint.port || c.name == endpoint.name;
            if let Some(other) = channels.iter().find(same) {
                return Err(LayoutError::NotAllowed(format!(
                    "endpoint {} ('{}') has the port or the name of endpoint {} ('{}')",
                    endpoint.port, endpoint.name, other.port, other.name
                )));
            }
            let Endpoint { port, name, kind, .. } = endpoint.clone();
            channels.push(Channel { port, name, kind, start: next });
            next += Channel::words(kind);
        }
        if next > WORDS_MAX {
            let (bytes, most) = (next * WORD, WORDS_MAX * WORD);
            return Err(LayoutError::NotAllowed(format!("endpoints of {bytes} bytes; at most {most} fit")));
        }
        Ok(Layout { node, generation, channels, words: next })
    }

    /// Writes it into zeroed words, which have room.
    pub(crate) fn write(&self, words: &Words) {
        let set = |at: usize, value: u64| words[at].store(value, Ordering::Relaxed);
        set(1, pair(VERSION, BYTE_ORDER));
        set(2, self.words as u64);
        set(3, pair(self.node.domain, self.node.node));
        set(4, self.generation);
        set(5, self.channels.len() as u64);
        for (number, channel) in self.channels.iter().enumerate() {
            let at = HEADER + number * ENTRY;
            let (kind, bytes, count) = match channel.kind {
                ChannelKind::Messages { longest, cells } => (1, longest, cells),
                ChannelKind::Scalars { width, cells } => (2, width as u32, cells),
                ChannelKind::Counters { count } => (3, 8, count),
                ChannelKind::Packets { longest, cells } => (4, longest, cells),
                ChannelKind::Blocks { longest } => (5, longest, SLOTS),
            };
            set(at, pair(kind, bytes));
            set(at + 1, u64::from(channel.port));
            set(at + 2, channel.start as u64);
            set(at + 3, Channel::words(channel.kind) as u64);
            set(at + 4, u64::from(count));
            let mut name = [0; NAME_BYTES_MAX];
            name[..channel.name.len()].copy_from_slice(channel.name.as_bytes());
            for (at, part) in (at + 6..).zip(name.as_chunks::<8>().0) {
                set(at, u64::from_ne_bytes(*part));
            }
        }
        set(0, MAGIC);
        words[6].store(MAGIC, Ordering::Release);
    }

    /// Reads and checks what lies there.
    pub(crate) fn read(words: &ReadOnly) -> Result<Layout, LayoutError> {
        let damaged = |what: String| Err(LayoutError::Damaged(what));
        if words.len() < HEADER {
            return Err(LayoutError::NotARegion);
        }
        match words.load(0) {
            MAGIC => {}
            found if found == MAGIC.swap_bytes() => return Err(LayoutError::ByteOrder),
            _ => return Err(LayoutError::NotARegion),
        }
        let (version, order) = split(words.load(1));
        match order {
            BYTE_ORDER => {}
            found if found == BYTE_ORDER.swap_bytes() => return Err(LayoutError::ByteOrder),
            _ => return damaged("its byte order mark".into()),
        }
        if version != VERSION {
            return Err(LayoutError::Version(version));
        }
        if words.load(6) != MAGIC {
            return Err(LayoutError::NotARegion);
        }
        fence(Ordering::Acquire);
        let (size, count) = (words.load(2), words.load(5));
        if size > words.len() as u64 || size > WORDS_MAX as u64 {
            return damaged(format!("it says {size} words, and there are {}", words.len()));
        }
        if count == 0 || count > ENDPOINTS_MAX as u64 || (HEADER + ENTRY * count as usize) as u64 > size {
            return damaged(format!("{count} endpoints in {size} words"));
        }
        let (domain, node) = split(words.load(3));
        let mut end = HEADER + ENTRY * count as usize;
        let mut channels = Vec::with_capacity(count as usize);
        for number in 0..count as usize {
            let channel = Self::entry(words, HEADER + number * ENTRY)?;
            // One behind the other, so none lies in another or in the directory.
            let fits = channel.start >= end && channel.start % 16 == 0;
            let after = channel.start.saturating_add(Channel::words(channel.kind));
            if !fits || after as u64 > size {
                return damaged(format!("endpoint {} lies at word {}", channel.port, channel.start));
            }
            end = after;
            channels.push(channel);
        }
        let node = NodeId { domain, node };
        Ok(Layout { node, generation: words.load(4), channels, words: size as usize })
    }

    fn entry(words: &ReadOnly, at: usize) -> Result<Channel, LayoutError> {
        let damaged = |what: String| LayoutError::Damaged(what);
        let (kind, bytes) = split(words.load(at));
        let port = words.load(at + 1);
        let count = u32::try_from(words.load(at + 4)).unwrap_or(u32::MAX);
        let kind = match (kind, Width::of_bytes(bytes)) {
            (1, _) => ChannelKind::Messages { longest: bytes, cells: count },
            (2, Some(width)) => ChannelKind::Scalars { width, cells: count },
            (3, _) => ChannelKind::Counters { count },
            (4, _) => ChannelKind::Packets { longest: bytes, cells: count },
            (5, _) if count == SLOTS => ChannelKind::Blocks { longest: bytes },
            _ => return Err(damaged(format!("endpoint {port} has kind {kind} of {bytes} bytes"))),
        };
        let mut name = [0; NAME_BYTES_MAX];
        for (at, part) in (at + 6..).zip(name.as_chunks_mut::<8>().0) {
            *part = words.load(at).to_ne_bytes();
        }
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES_MAX);
        let name = String::from_utf8_lossy(&name[..length]).into_owned();
        let port = u32::try_from(port).map_err(|_| damaged(format!("port {port}")))?;
        if let Some(wrong) = kind.wrong() {
            return Err(damaged(format!("endpoint {port} has {wrong}")));
        }
        let start = usize::try_from(words.load(at + 2)).unwrap_or(usize::MAX);
        if words.load(at + 3) != Channel::words(kind) as u64 {
            return Err(damaged(format!("endpoint {port} has another size than its kind")));
        }
        Ok(Channel { port, name, kind, start })
    }

    /// The endpoint of this name or, if it is a number, this port.
    pub(crate) fn find(&self, which: &str) -> Result<&Channel, LayoutError> {
        let by_name = self.channels.iter().find(|c| c.name == which);
        let by_port =
            || which.parse().ok().and_then(|port: u32| self.channels.iter().find(|c| c.port == port));
        by_name.or_else(by_port).ok_or_else(|| {
            let all: Vec<&str> = self.channels.iter().map(|c| c.name.as_str()).collect();
            LayoutError::NoEndpoint(format!("'{which}'"), all.join(", "))
        })
    }
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn split(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn endpoints() -> [Endpoint; 3] {
        [
            Endpoint::messages(1, "commands", 200, 4),
            Endpoint::scalars(2, "credits", Width::Bits16, 8),
            Endpoint::counters(3, "statistics", 10),
        ]
    }

    fn region() -> (Layout, Words) {
        let layout = Layout::plan(NodeId::new(7, 9), 42, &endpoints()).unwrap();
        let words = Words::private(layout.words);
        layout.write(&words);
        (layout, words)
    }

    fn after(change: impl FnOnce(&Words)) -> Result<Layout, LayoutError> {
        let (_, words) = region();
        change(&words);
        Layout::read(&words.into())
    }

    fn set(at: usize, value: u64) -> Result<Layout, LayoutError> {
        after(|words| words[at].store(value, Ordering::Relaxed))
    }

    #[test]
    fn what_is_written_is_read() {
        let (layout, words) = region();
        assert_eq!(Layout::read(&words.into()), Ok(layout));
    }

    #[test]
    fn channels_begin_at_lines_of_their_own() {
        let (layout, _) = region();
        assert!(layout.channels.iter().all(|c| c.start % 16 == 0));
        assert_eq!((layout.find("2").unwrap().port, layout.find("credits").unwrap().port), (2, 2));
        let why = layout.find("nothing").unwrap_err().to_string();
        assert_eq!(why, "there is no endpoint 'nothing'; there are: commands, credits, statistics");
    }

    #[test]
    fn other_versions_and_other_memory_are_refused() {
        assert_eq!(set(0, 0), Err(LayoutError::NotARegion));
        assert_eq!(set(0, MAGIC.swap_bytes()), Err(LayoutError::ByteOrder));
        assert_eq!(set(1, pair(VERSION, BYTE_ORDER.swap_bytes())), Err(LayoutError::ByteOrder));
        assert_eq!(set(1, pair(2, BYTE_ORDER)), Err(LayoutError::Version(2)));
        assert!(LayoutError::Version(2).to_string().contains("version 2, this program knows version 1"));
        assert_eq!(set(6, 0), Err(LayoutError::NotARegion));
        assert_eq!(Layout::read(&Words::private(3).into()), Err(LayoutError::NotARegion));
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let (layout, _) = region();
        let entry = |number: usize, word: usize| HEADER + number * ENTRY + word;
        for (at, value) in [
            (2, layout.words as u64 + 1),
            (2, u64::MAX),
            (5, 0),
            (5, 65),
            (entry(0, 0), pair(4, 8)),
            (entry(0, 1), 1 << 32),
            (entry(0, 2), 0),
            (entry(1, 2), u64::MAX - 15),
            (entry(1, 2), layout.channels[0].start as u64),
            (entry(2, 2), layout.words as u64 & !15),
            (entry(0, 3), 17),
            (entry(0, 4), 3),
            (entry(0, 4), 1 << 30),
            (entry(1, 0), pair(2, 3)),
            (entry(2, 4), u64::MAX),
        ] {
            assert!(matches!(set(at, value), Err(LayoutError::Damaged(_))), "word {at} = {value}");
        }
    }

    #[test]
    fn what_is_not_allowed_is_not_made() {
        let plan =
            |endpoints: &[Endpoint]| Layout::plan(NodeId::new(1, 1), 1, endpoints).unwrap_err().to_string();
        assert!(plan(&[]).contains("0 endpoints"));
        let [a, b, _] = endpoints();
        assert!(
            plan(&[a.clone(), Endpoint { port: 1, ..b }]).contains("has the port or the name of endpoint 1")
        );
        let large = |port| Endpoint::messages(port, format!("m{port}"), 1 << 20, 1 << 10);
        assert!(plan(&[large(1), large(2), large(3), large(4), large(5)]).contains("at most 4294967296 fit"));
    }
}
