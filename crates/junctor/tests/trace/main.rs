// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of a running router are seen: `junctor trace`, `junctor capture`, and what is lost while `junctor profile record --until` waits for it.

mod capturing;
mod following;
mod holding;
mod numbers;
mod output;
mod reading;
mod router;
mod until;
