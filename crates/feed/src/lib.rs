// SPDX-License-Identifier: MIT OR Apache-2.0
//! The route feed: how a control plane sends a user plane its routes, next hops and links.
//!
//! A *batch* is one message of a channel. It begins with a [`Header`]; [`Update`]s follow. The user plane answers each batch with a
//! [`Reply`], so the control plane knows what has been applied.
//!
//! # A session
//! 1. The control plane sends [`Update::Hello`] with the number of its feed. The answer says which feed the user plane's tables hold,
//!    and up to which batch.
//! 2. If both agree, the control plane goes on with the next batch. Otherwise it replays: [`Update::Begin`], every link, object and
//!    route, [`Update::End`]. The old routes forward meanwhile. At the end, the user plane removes what was not named.
//! 3. Changes follow in batches, each applied as a whole.
//!
//! # Objects
//! A route names an *object* by its number: a set of weighted hops, or a verdict such as blackhole. One change of an object
//! repairs all routes that name it. A route must not name an object that was not sent before.
//!
//! # Links
//! A hop names a link by number, and the link has the name of an interface. The user plane knows which output leads there. A link
//! that goes down takes its hops out of all objects at once; hops that are marked as backup take over.
//!
//! # Tables
//! A route names a routing table by number. Table 0 is the main one. The others are those of VRFs: [`Update::Table`] gives a number a VRF's
//! name, and the user plane knows which of its tables that VRF has. It refuses routes of VRFs that it does not have.
//!
//! # Labels
//! An MPLS label is a destination like a prefix ([`Destination::Label`]). Its object says what becomes of packets that come with it: hops, whose
//! labels take the place of it; [`Object::Local`] or [`Object::Table`], by which what is below is looked up.
//!
//! # Multicast
//! A multicast entry says by which link packets of a group come, and by which links copies leave ([`Update::Tree`]). It names links
//! itself, so it has no object. [`Update::Watch`] says whether a daemon looks at what the kernel counts of these packets.
//!
//! Numbers are little endian. Decoding checks everything: bytes of an adversarial peer give an [`Error`], never a panic.
#![forbid(unsafe_code)]

pub mod audit;
mod bytes;
mod object;
mod reply;
mod tree;
mod update;

pub use object::{HOPS_MAX, Hop, LABELS_MAX, Labels, Object};
pub use reply::Reply;
pub use tree::{BRANCHES_MAX, Branch, Group, Tree};
pub use update::{Destination, Header, NAME_BYTES_MAX, Update, Updates};

/// The version of the form. Both sides must have the same.
pub const VERSION: u16 = 5;

/// Why bytes are no batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The batch ends within an update.
    #[error("the batch ends within an update, at byte {at}")]
    Short {
        /// Where more bytes were expected.
        at: usize,
    },
    /// Bytes that mean nothing.
    #[error("byte {at} of the batch: {what}")]
    Malformed {
        /// Where.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The other side has another version.
    #[error(
        "the other side speaks version {theirs} of the route feed, this one {VERSION}: run the same release on both"
    )]
    Version {
        /// The version in the batch.
        theirs: u16,
    },
}
