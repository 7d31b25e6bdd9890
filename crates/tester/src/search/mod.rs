// SPDX-License-Identifier: MIT OR Apache-2.0
//! Procedures: which trials are asked for, and what their outcomes say.
