// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a control plane and a running router know of routes and neighbours, and how it is shown.
//!
//! * [`control_plane`] connects to a control plane. It answers with JSON, which [`show`] turns into lines and tables.
//! * [`list()`] takes its routes and multicast entries in parts.
//! * [`count()`] counts packets and bytes by next hop and by route.
//! * [`neighbours`] are those of a router, and of a kernel.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod connect;
mod count;
mod list;
pub mod neighbours;
pub mod show;

pub use connect::control_plane;
pub use count::{Wish, count, counted};
pub use list::{Listed, Part, list, part};

/// Lines in columns, the last of which may be of any width.
fn columns<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut all = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        all += cells.collect::<Vec<_>>().join("  ").trim_end();
        all.push('\n');
    }
    all
}
