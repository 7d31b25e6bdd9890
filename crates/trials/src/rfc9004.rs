// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test rfc9004`: the longest bursts that a device takes, and how they are judged, here and in RFC 2544's tests.

use serde_json::json;

use super::search::{Document, Search, each_size, throughput};
use super::{Failure, procedures};

/// How bursts are judged.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    /// A burst fails if it loses frames so many times in a row (RFC 9004 5).
    pub loss_verification: u32,
}

impl Bursts {
    /// The number of times, if it is not the usual one.
    pub(super) fn told(self) -> Option<u32> {
        Some(self.loss_verification).filter(|times| *times > 1)
    }
}

/// Bursts, and the buffer that they show, as RFC 9004 has it.
#[derive(Clone, Debug)]
pub struct Rfc9004 {
    /// What all tests by frame size need to know.
    pub search: Search,
    /// Frames a second of each sending port; without it, the throughput is searched for.
    pub at: Option<f64>,
    /// How bursts are judged.
    pub bursts: Bursts,
}

/// Does the procedure for each frame size.
pub(super) fn run(args: &Rfc9004) -> Result<(), Failure> {
    each_size(&args.search, Document::Rfc9004, |site, found| {
        found.ask(json!({ "at": args.at, "loss_verification": args.bursts.told() }));
        let rate = throughput(site, &args.search, args.at, found)?;
        procedures::back_to_back(site, &args.search, (rate, args.bursts), "RFC 9004", found)
    })
}
