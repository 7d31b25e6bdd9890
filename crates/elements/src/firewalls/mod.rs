// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that let packets pass or not, by the connections that they belong to.

mod answers;
mod firewall;
mod journal;
mod judge;
mod reset;
mod sets;

pub(crate) use firewall::Provided as Link;
pub(crate) use judge::{CONNECTIONS, SharedJudge};

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[firewall::CLASS];
