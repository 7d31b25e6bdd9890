// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of Multiprotocol Label Switching: the label table, what it leads to, and label stacks.
//!
//! An adjacency says how packets leave: with which labels, to which gateway, by which output. Label switched paths and those routes
//! that need more than a gateway and an output lead to one.

mod adjacency;
mod check_mpls_mtu;
mod fed;
mod lookup_mpls;
mod lsps;
mod push_mpls;
mod stack;

pub(crate) use adjacency::{Adjacency, LabelTarget, Members};
pub(crate) use fed::FedLabel;
pub(crate) use lsps::LabelForwarding;
#[cfg(test)]
pub(crate) use lsps::Limits as LabelLimits;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[check_mpls_mtu::CLASS, lookup_mpls::CLASS, push_mpls::CLASS];
