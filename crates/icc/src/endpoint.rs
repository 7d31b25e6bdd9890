// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints: what they are called, what they carry, and who may use them.

use std::fmt;

use crate::ring::{CELLS_MAX, cells_of};

/// Bytes of the longest message that any endpoint can have.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 20;
/// Bytes of the longest name of an endpoint.
pub const NAME_BYTES_MAX: usize = 48;
/// Bytes of the longest packet that any endpoint can have.
pub const PACKET_BYTES_MAX: u32 = 1 << 16;
/// Bytes of the longest block that any endpoint can have.
pub const BLOCK_BYTES_MAX: u32 = 1 << 26;
/// The most counters of an endpoint.
pub const COUNTERS_MAX: u32 = 1 << 20;
/// The most endpoints of a domain.
pub const ENDPOINTS_MAX: usize = 64;

/// Words of a cell of a ring of messages: one cache line.
pub(crate) const MESSAGE_CELL: usize = 8;
/// Words of a cell of a ring of scalars.
pub(crate) const SCALAR_CELL: usize = 2;

/// A node's place: a *domain* is one deployment on one machine, a *node* is a process or an operating system instance in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId {
    /// The domain's number.
    pub domain: u32,
    /// The node's number in the domain.
    pub node: u32,
}

impl NodeId {
    /// Node `node` of domain `domain`.
    pub const fn new(domain: u32, node: u32) -> NodeId {
        NodeId { domain, node }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.domain, self.node)
    }
}

/// Width of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// `u8`
    Bits8 = 1,
    /// `u16`
    Bits16 = 2,
    /// `u32`
    Bits32 = 4,
    /// `u64`
    Bits64 = 8,
}

impl Width {
    /// The largest value.
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - 8 * self as u32)
    }

    pub(crate) const fn of_bytes(bytes: u32) -> Option<Width> {
        match bytes {
            1 => Some(Width::Bits8),
            2 => Some(Width::Bits16),
            4 => Some(Width::Bits32),
            8 => Some(Width::Bits64),
            _ => None,
        }
    }
}

/// What an endpoint carries, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// Messages, first in, first out: one sender, one receiver.
    Messages {
        /// Bytes of the longest message, at most [`MESSAGE_BYTES_MAX`].
        longest: u32,
        /// Cells of 64 bytes, a power of two. A message takes one for every 56 bytes, rounded up.
        cells: u32,
    },
    /// Scalars, first in, first out: one sender, one receiver.
    Scalars {
        /// Width of each.
        width: Width,
        /// How many wait at most, a power of two.
        cells: u32,
    },
    /// Packets in frames, first in, first out: one sender, one receiver.
    Packets {
        /// Bytes of the longest packet, at most [`PACKET_BYTES_MAX`].
        longest: u32,
        /// How many wait at most, a power of two.
        cells: u32,
    },
    /// A block of counters: one writer, any number of readers, who get it whole.
    Counters {
        /// How many, at most [`COUNTERS_MAX`].
        count: u32,
    },
    /// A block of bytes: one writer replaces it, any number of readers get the newest whole.
    Blocks {
        /// Bytes of the longest, at most [`BLOCK_BYTES_MAX`].
        longest: u32,
    },
}

impl ChannelKind {
    /// What is wrong with its sizes, if anything is.
    pub(crate) fn wrong(self) -> Option<String> {
        let cells_wrong = |cells: u32, least: u64| {
            let fits = cells.is_power_of_two() && u64::from(cells) >= least && u64::from(cells) <= CELLS_MAX;
            (!fits).then(|| {
                format!(
                    "{cells} cells; allowed is a power of two from {} to {CELLS_MAX}",
                    least.next_power_of_two()
                )
            })
        };
        match self {
            ChannelKind::Messages { longest, .. } if longest == 0 || longest > MESSAGE_BYTES_MAX => {
                Some(format!("messages of {longest} bytes; allowed are 1 to {MESSAGE_BYTES_MAX}"))
            }
            ChannelKind::Messages { longest, cells } => {
                cells_wrong(cells, 2 * cells_of::<MESSAGE_CELL>(longest as usize))
            }
            ChannelKind::Packets { longest, .. } if longest == 0 || longest > PACKET_BYTES_MAX => {
                Some(format!("packets of {longest} bytes; allowed are 1 to {PACKET_BYTES_MAX}"))
            }
            ChannelKind::Scalars { cells, .. } | ChannelKind::Packets { cells, .. } => cells_wrong(cells, 2),
            ChannelKind::Counters { count } => (count == 0 || count > COUNTERS_MAX)
                .then(|| format!("{count} counters; allowed are 1 to {COUNTERS_MAX}")),
            ChannelKind::Blocks { longest } => (longest == 0 || longest > BLOCK_BYTES_MAX)
                .then(|| format!("blocks of {longest} bytes; allowed are 1 to {BLOCK_BYTES_MAX}")),
        }
    }

    /// The kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            ChannelKind::Messages { .. } => "messages",
            ChannelKind::Scalars { .. } => "scalars",
            ChannelKind::Packets { .. } => "packets",
            ChannelKind::Counters { .. } => "counters",
            ChannelKind::Blocks { .. } => "blocks",
        }
    }

    /// Whether one writer publishes it to any number of readers; else there is a ring between two.
    pub(crate) const fn is_published(self) -> bool {
        matches!(self, ChannelKind::Counters { .. } | ChannelKind::Blocks { .. })
    }
}

/// What a node does at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Role {
    /// Sends messages, scalars or packets, or writes counters or blocks.
    Sender = 1,
    /// Receives messages, scalars or packets, or reads counters or blocks.
    Receiver = 2,
}

impl Role {
    pub(crate) const fn other(self) -> Role {
        match self {
            Role::Sender => Role::Receiver,
            Role::Receiver => Role::Sender,
        }
    }

    /// As in messages to users.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Sender => "sender",
            Role::Receiver => "receiver",
        }
    }
}

/// Who may attach, as for a file: mode bit `r` lets a process receive or read, `w` lets it send or write.
///
/// A process is known by the user and the first group that the kernel attests (`SO_PEERCRED`). The superuser may do all. Who may read counters or blocks gets memory
/// that it can map for reading only. Rights separate users: processes of one user could also change each other by other ways, such as `ptrace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Bits such as `0o640`.
    pub mode: u32,
}

impl Rights {
    /// Both roles for the user of this process, none for others.
    pub fn own() -> Rights {
        if cfg!(miri) {
            // Which has no users.
            return Rights { uid: 1, gid: 1, mode: 0o600 };
        }
        Rights {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            mode: 0o600,
        }
    }

    /// This process's user and group with another mode.
    pub fn mode(mode: u32) -> Rights {
        Rights { mode, ..Rights::own() }
    }

    /// Whether a process of this user and group may take the role.
    pub fn allow(self, uid: u32, gid: u32, role: Role) -> bool {
        let bit = match role {
            Role::Sender => 0o2,
            Role::Receiver => 0o4,
        };
        let shift = match () {
            () if uid == 0 => return true,
            () if uid == self.uid => 6,
            () if gid == self.gid => 3,
            () => 0,
        };
        self.mode >> shift & bit != 0
    }
}

/// An endpoint of a node: a numbered port with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its number, unique in its node.
    pub port: u32,
    /// Its name, unique in its node: up to [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// What it carries.
    pub kind: ChannelKind,
    /// Who may attach.
    pub rights: Rights,
}

impl Endpoint {
    /// An endpoint for its owner alone.
    pub fn new(port: u32, name: impl Into<String>, kind: ChannelKind) -> Endpoint {
        Endpoint { port, name: name.into(), kind, rights: Rights::own() }
    }

    /// A ring of messages of up to `longest` bytes, in which at least `count` of them find room.
    pub fn messages(port: u32, name: impl Into<String>, longest: u32, count: u32) -> Endpoint {
        let cells = cells_of::<MESSAGE_CELL>(longest as usize).max(1).saturating_mul(u64::from(count.max(2)));
        let cells = cells.min(CELLS_MAX).next_power_of_two() as u32;
        Endpoint::new(port, name, ChannelKind::Messages { longest, cells })
    }

    /// A ring for at least `count` scalars.
    pub fn scalars(port: u32, name: impl Into<String>, width: Width, count: u32) -> Endpoint {
        let cells = u64::from(count.max(2)).min(CELLS_MAX).next_power_of_two() as u32;
        Endpoint::new(port, name, ChannelKind::Scalars { width, cells })
    }

    /// A channel for packets of up to `longest` bytes, of which at least `count` can wait.
    pub fn packets(port: u32, name: impl Into<String>, longest: u32, count: u32) -> Endpoint {
        let cells = u64::from(count.max(2)).min(CELLS_MAX).next_power_of_two() as u32;
        Endpoint::new(port, name, ChannelKind::Packets { longest, cells })
    }

    /// A block of so many counters.
    pub fn counters(port: u32, name: impl Into<String>, count: u32) -> Endpoint {
        Endpoint::new(port, name, ChannelKind::Counters { count })
    }

    /// Blocks of up to `longest` bytes.
    pub fn blocks(port: u32, name: impl Into<String>, longest: u32) -> Endpoint {
        Endpoint::new(port, name, ChannelKind::Blocks { longest })
    }

    /// The same with other rights.
    #[must_use]
    pub fn rights(mut self, rights: Rights) -> Endpoint {
        self.rights = rights;
        self
    }

    /// What is wrong with it, if anything is.
    pub(crate) fn wrong(&self) -> Option<String> {
        let name = &self.name;
        let problem = if name.is_empty() || name.len() > NAME_BYTES_MAX {
            Some(format!("a name of {} bytes; allowed are 1 to {NAME_BYTES_MAX}", name.len()))
        } else if name.bytes().any(|byte| byte.is_ascii_control()) {
            Some("a name with control characters".to_owned())
        } else {
            self.kind.wrong()
        };
        problem.map(|what| format!("endpoint {} ('{name}') has {what}", self.port))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_of_a_file() {
        let rights = Rights { uid: 10, gid: 20, mode: 0o640 };
        let both = |uid, gid| [Role::Sender, Role::Receiver].map(|role| rights.allow(uid, gid, role));
        assert_eq!((both(10, 99), both(0, 0)), ([true, true], [true, true]));
        assert_eq!((both(11, 20), both(11, 21)), ([false, true], [false, false]));
        // As with files: the owner's bits are the owner's, even where the group has more.
        assert!(!Rights { uid: 10, gid: 20, mode: 0o060 }.allow(10, 20, Role::Sender));
    }

    #[test]
    fn sizes_out_of_range_are_named() {
        let wrong = |endpoint: Endpoint| endpoint.wrong().unwrap_or_default();
        assert!(wrong(Endpoint::messages(1, "a", 0, 4)).contains("messages of 0 bytes"));
        assert!(wrong(Endpoint::messages(1, "a", u32::MAX, 4)).contains("1 to 1048576"));
        let cells = ChannelKind::Messages { longest: 200, cells: 4 };
        assert!(wrong(Endpoint::new(1, "a", cells)).contains("a power of two from 8"));
        assert!(
            wrong(Endpoint::new(1, "a", ChannelKind::Scalars { width: Width::Bits8, cells: 3 }))
                .contains("3 cells")
        );
        assert!(wrong(Endpoint::packets(1, "a", 0, 4)).contains("packets of 0 bytes"));
        assert!(wrong(Endpoint::packets(1, "a", 1 << 17, 4)).contains("1 to 65536"));
        assert!(wrong(Endpoint::counters(1, "a", 0)).contains("0 counters"));
        assert!(wrong(Endpoint::blocks(1, "a", 0)).contains("blocks of 0 bytes"));
        assert!(wrong(Endpoint::blocks(1, "a", u32::MAX)).contains("1 to 67108864"));
        assert!(wrong(Endpoint::counters(7, "", 1)).starts_with("endpoint 7"));
        assert!(wrong(Endpoint::counters(7, "a\n", 1)).contains("control characters"));
        for count in [0, 1, 3, 1000, u32::MAX] {
            assert_eq!(Endpoint::messages(1, "a", 4096, count.min(1000)).wrong(), None);
            assert_eq!(Endpoint::scalars(1, "a", Width::Bits16, count).wrong(), None);
            assert_eq!(Endpoint::packets(1, "a", 2048, count).wrong(), None);
        }
    }

    #[test]
    fn widths_have_largest_values() {
        let max = [Width::Bits8, Width::Bits16, Width::Bits32, Width::Bits64].map(Width::max);
        assert_eq!(max, [0xff, 0xffff, 0xffff_ffff, u64::MAX]);
    }
}
