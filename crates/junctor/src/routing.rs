// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control plane's commands: `junctor control` runs it, `junctor routes` asks it, and `junctor router` writes a deployment with it. `junctor
//! neighbours` asks routers and kernels, and `junctor charon` starts a key daemon. The crate `control` does the work.

pub(crate) mod bfd;
pub(crate) mod charon;
mod count;
pub(crate) mod neighbours;
pub(crate) mod plane;
pub(crate) mod router;
pub(crate) mod routes;

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
