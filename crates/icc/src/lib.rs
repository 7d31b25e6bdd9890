// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inter-core communication: what the planes of a router say to each other, over memory that they share.
//!
//! The words are those of the Multicore Communications API (MCAPI, Multicore Association, 2011), without a claim of conformance:
//!
//! * A *domain* is one deployment on one machine. A *node* is a process or an operating system instance in it ([`NodeId`]).
//! * An *endpoint* is a numbered port of a node, with a name, a kind and rights ([`Endpoint`]).
//! * *Messages* are byte strings up to a documented size ([`Sender`], [`Receiver`]).
//! * A *stream* carries bytes both ways over two channels of messages, for protocols that were made for sockets ([`Stream`]).
//! * *Scalar channels* carry unsigned numbers of 8 to 64 bits ([`ScalarSender`], [`ScalarReceiver`]).
//! * *Packet channels* carry frames, by copy or by reference ([`PacketSender`], [`PacketReceiver`]).
//! * *Blocks* and *counters*, which MCAPI has not, are bytes and numbers that one writer publishes and any number of readers get whole: the newest replaces
//!   the one before ([`BlockWriter`], [`BlockReader`], [`CounterWriter`], [`CounterReader`]).
//!
//! # Between processes
//! One node serves the domain ([`Domain::serve`]); others connect to its socket ([`Node::connect`]) and attach. Each endpoint has sealed memory of its
//! own, whose descriptor the server hands to those who have the right. Nothing has a name in a file system but the socket. Who dies is noticed by its
//! connection, and its seat is free for the next one, who finds the channel whole.
//!
//! # Between operating systems
//! [`FileRegion`] puts all endpoints into one file that both map, such as `/dev/mmapper` of User Mode Linux or the memory of an `ivshmem` device.
//!
//! # What a peer can do
//! No operation blocks on a peer: a full channel is an error that is counted. A peer may write anything to shared memory: this side neither crashes,
//! nor hangs, nor reads out of bounds ([`ring`], case 6). It gets wrong items, or [`ChannelError::Broken`].
//!
//! The form of shared memory has a version (`layout`), and so have the words on the socket (`protocol`).
#![deny(unsafe_code)]

#[cfg(not(loom))]
mod blocks;
#[cfg(not(loom))]
mod channel;
#[cfg(not(loom))]
mod connection;
#[cfg(not(loom))]
mod counters;
#[cfg_attr(loom, allow(dead_code, reason = "models need no kinds"))]
mod endpoint;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod layout;
#[cfg_attr(loom, allow(dead_code, reason = "models need no packets"))]
mod loans;
#[allow(unsafe_code)]
#[cfg_attr(loom, allow(dead_code, reason = "models need no files"))]
mod memory;
#[cfg(not(loom))]
mod messages;
#[cfg(not(loom))]
mod node;
#[cfg(not(loom))]
mod packets;
mod prim;
#[cfg(not(loom))]
mod protocol;
#[cfg(not(loom))]
mod published;
#[cfg(not(loom))]
mod region;
#[cfg_attr(loom, allow(dead_code, reason = "models need no scalars"))]
mod ring;
#[cfg(not(loom))]
mod scalars;
#[cfg(not(loom))]
mod seats;
#[cfg(not(loom))]
mod server;
#[cfg(not(loom))]
mod serving;
#[cfg(not(loom))]
mod stream;
#[cfg_attr(loom, allow(dead_code, reason = "models need no descriptors"))]
mod wait;

pub use endpoint::{
    BLOCK_BYTES_MAX, COUNTERS_MAX, ChannelKind, ENDPOINTS_MAX, Endpoint, MESSAGE_BYTES_MAX, NAME_BYTES_MAX,
    NodeId, PACKET_BYTES_MAX, Rights, Role, Width,
};
#[cfg(not(loom))]
pub use {
    blocks::{BlockReader, BlockWriter},
    channel::Peer,
    connection::MemoryRequest,
    counters::{CounterReader, CounterWriter},
    error::{AttachError, ChannelError},
    file::FileRegion,
    layout::{LayoutError, VERSION},
    loans::Note,
    messages::{Receiver, Sender},
    node::Node,
    packets::{PacketReceiver, PacketSender},
    region::LentMemory,
    scalars::{ScalarReceiver, ScalarSender},
    server::{Domain, ServeError},
    stream::Stream,
};
