// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of a running router are seen: `junctor trace` and `junctor capture`.

mod capturing;
mod following;
mod router;
