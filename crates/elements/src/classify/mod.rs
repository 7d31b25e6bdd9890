// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that send packets to one of several outputs by what stands in them.

mod byte_match;
mod classifier;
mod enclose;
mod first_match;
mod ip_classifier;
mod ip_filter;
pub mod language;
mod pool;
mod primitive;
pub mod program;
pub(crate) mod vocabulary;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[classifier::CLASS, ip_classifier::CLASS, ip_filter::CLASS];
