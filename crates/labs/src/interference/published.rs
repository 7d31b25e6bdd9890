// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the study says.

/// How much longer the copy of a gigabyte takes.
pub(super) const COPY: &str = "about +20 %";
/// Which size that was.
pub(super) const COPY_BYTES: usize = 1 << 30;
/// How much longer calls take.
pub(super) const SIP: &str = "about +10 %";
/// Calls that were set up and ended.
pub const CALLS: u32 = 20_000;
/// Cores of the study: one for the control plane, seven for the user plane.
pub(super) const CORES: usize = 8;
