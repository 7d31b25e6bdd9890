// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a node cannot attach, and why a channel did not do what was asked.

use crate::endpoint::NodeId;
use crate::layout::LayoutError;
use crate::region::RegionError;
use crate::ring::{Broken, NotPushed};

/// Why a channel did not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// There is no room; nothing was sent. [`Sender::refused`](crate::Sender::refused) counts these.
    #[error("the channel is full: the receiver does not keep up or is not there")]
    Full,
    /// The message is longer than the endpoint allows.
    #[error("a message of {bytes} bytes; this endpoint takes up to {longest}")]
    TooLong {
        /// Bytes of the message.
        bytes: usize,
        /// Bytes that the endpoint takes.
        longest: usize,
    },
    /// The buffer is shorter than the message, which stays in the channel.
    #[error("the next message has {bytes} bytes, the buffer {room}")]
    TooShort {
        /// Bytes of the message.
        bytes: usize,
        /// Bytes of the buffer.
        room: usize,
    },
    /// The scalar is larger than the endpoint's width.
    #[error("{value} is larger than {max}, the largest value of this endpoint")]
    TooLarge {
        /// The scalar.
        value: u64,
        /// The largest one allowed.
        max: u64,
    },
    /// The other side has written what no honest one would. This end is closed; attach again with a reset.
    #[error("the other side has damaged the channel; attach again with a reset")]
    Broken,
    /// The endpoint was reset, or its node has ended. Attach again.
    #[error("the channel was given up: the endpoint was reset or its node has ended; attach again")]
    GivenUp,
    /// No snapshot has been published yet.
    #[error("nothing has been published yet")]
    Nothing,
    /// The writer published faster than they could be copied, each time.
    #[error("what was read was overwritten meanwhile, {0} times")]
    Overtaken(usize),
    /// The kernel refused to let this end sleep.
    #[error("cannot wait: {0}")]
    Wait(std::io::ErrorKind),
}

impl From<Broken> for ChannelError {
    fn from(_: Broken) -> ChannelError {
        ChannelError::Broken
    }
}

impl From<NotPushed> for ChannelError {
    fn from(why: NotPushed) -> ChannelError {
        match why {
            NotPushed::Full => ChannelError::Full,
            NotPushed::Broken => ChannelError::Broken,
        }
    }
}

/// Why a node could not attach.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// Nobody serves there.
    #[error("cannot reach the domain at {0}: {1}; is the node that serves it running?")]
    Unreachable(String, std::io::Error),
    /// The node that served has ended or answers nonsense.
    #[error("the node that serves the domain {0}")]
    Lost(&'static str),
    /// Another release.
    #[error("the node that serves the domain speaks version {0}, this program version {own}: use the same release of Junctor on both sides", own = crate::protocol::VERSION)]
    Version(u32),
    /// Another domain.
    #[error("that is domain {found}, not {wanted}")]
    Domain {
        /// What is there.
        found: u32,
        /// What was asked for.
        wanted: u32,
    },
    /// No such endpoint.
    #[error("node {0} has no endpoint '{1}'")]
    NoEndpoint(NodeId, String),
    /// The endpoint's rights forbid it.
    #[error("this user may not be {role} at endpoint '{endpoint}'; the endpoint's rights say who may")]
    Denied {
        /// The endpoint.
        endpoint: String,
        /// The role.
        role: &'static str,
    },
    /// Somebody else has the seat.
    #[error("endpoint '{endpoint}' has a {role} already, process {pid}")]
    Busy {
        /// The endpoint.
        endpoint: String,
        /// The role.
        role: &'static str,
        /// The process that has it.
        pid: u32,
    },
    /// It carries something else.
    #[error("endpoint '{endpoint}' carries {found}, not {wanted}")]
    Kind {
        /// The endpoint.
        endpoint: String,
        /// What it carries.
        found: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// Too many attachments.
    #[error("the node that serves the domain takes no more attachments")]
    TooMany,
    /// The region is not usable.
    #[error("{0}")]
    Layout(#[from] LayoutError),
    /// The region's descriptor is not safe to map.
    #[error("the region's size is not sealed, so it is not safe to map")]
    NotSealed,
    /// The ring was left damaged.
    #[error("{0}")]
    Channel(#[from] ChannelError),
    /// The kernel refused.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl From<RegionError> for AttachError {
    fn from(why: RegionError) -> AttachError {
        match why {
            RegionError::Layout(why) => AttachError::Layout(why),
            RegionError::System(why) => AttachError::System(why),
            RegionError::NotSealed => AttachError::NotSealed,
        }
    }
}
