// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording for other programs: Perfetto's protobuf ([`perfetto`]), Chrome's JSON ([`chrome`]), a log with commas ([`csv`]).

pub mod chrome;
pub mod csv;
mod lanes;
pub mod perfetto;
