// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that rewrite flows: network address and port translation.

mod pattern;
mod patterns;
mod rewriter;

/// The classes of this kind.
pub static CLASSES: &[engine::Class] =
    &[patterns::CLASS, rewriter::IP, rewriter::TCP_REWRITER, rewriter::UDP_REWRITER];
