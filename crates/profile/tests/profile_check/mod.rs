// SPDX-License-Identifier: MIT OR Apache-2.0
//! What any bytes as a recording must stand: shared by the fuzz target and the replay of its corpus.

use junctor_profile::analyse::Report;
use junctor_profile::export::{chrome, csv, html, perfetto};
use junctor_profile::file::Recording;

/// Nothing that is done with them panics; and shares are numbers.
pub fn check(bytes: &[u8]) {
    let Ok(recording) = Recording::read(bytes) else { return };
    let report = Report::new(&recording);
    assert!(report.elements.iter().all(|e| e.share.is_finite() && e.cycles_per_packet.is_finite()));
    assert!(report.locks.iter().all(|l| l.share.is_finite()));
    assert!(report.processors.iter().all(|p| p.idle.is_finite()));
    assert!(!report.to_string().is_empty());
    let mut out = Vec::new();
    perfetto::write(&recording, &mut out).expect("memory takes all");
    csv::write(&recording, &mut out).expect("memory takes all");
    html::write(&recording, &mut out).expect("memory takes all");
    let mut json = Vec::new();
    chrome::write(&recording, &mut json).expect("memory takes all");
    serde_json::from_slice::<serde_json::Value>(&json).expect("JSON");
}
