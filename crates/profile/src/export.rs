// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording for other programs: Perfetto's protobuf ([`perfetto`]), Chrome's JSON ([`chrome`]), a log with commas ([`csv`]); and for a browser
//! without any other program ([`html`]).

pub mod chrome;
pub mod csv;
pub mod html;
mod lanes;
pub mod perfetto;
mod told;
