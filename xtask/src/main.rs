// SPDX-License-Identifier: MIT OR Apache-2.0
//! Development chores: `cargo xtask tidy`, `cargo xtask elements`, `cargo xtask fuzz-smoke`.

fn main() {}
