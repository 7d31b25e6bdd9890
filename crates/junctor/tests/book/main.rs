// SPDX-License-Identifier: MIT OR Apache-2.0
//! The book: its tutorials run as a new user types them, and its guide's files and configurations are sound.

mod follow;
mod guide;
mod machine;
mod ospf;
mod tutorials;
