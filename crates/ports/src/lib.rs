// SPDX-License-Identifier: MIT OR Apache-2.0
//! (documented when the crate has content)
