// SPDX-License-Identifier: MIT OR Apache-2.0
//! What passes from one configuration to the next in a hot swap.

pub use crate::depot::{Depot, Direction, QueueKey};
pub use crate::element::same;
