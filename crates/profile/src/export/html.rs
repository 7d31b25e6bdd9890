// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording as one page that shows it: a timeline to zoom, move and search in, without a network or another program.
//!
//! The page holds its data as text (base64) of a compressed block. Unpacked, that is
//!
//! ```text
//!  length: u32 LE   JSON, of so many bytes: names, lanes, the report, and how many spans each row has
//!  columns          of each row, in the order of the JSON, varints (LEB128):
//!                   begins (each less the one before), durations, names, then packets + 1 and other lanes + 1 if the row has any
//!  hand-offs        varints: the span that gives (each less the one before), then the span that takes, by number
//! ```
//!
//! A *row* holds spans that do not overlap, by time. Spans that lie in others are in the next row of their *strip*; a lane, of a thread or processor, has
//! a strip for each kind of thing. Spans are numbered over all rows. Nothing of a recording stands in the page as itself, so no name can break it.

use std::io::{self, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use flate2::{Compression, write::ZlibEncoder};
use serde_json::json;

use crate::analyse::Report;
use crate::file::Recording;

mod counted;
mod pack;

use pack::Pack;

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/viewer.css");
const SCRIPTS: [&str; 4] = [
    include_str!("html/data.js"),
    include_str!("html/draw.js"),
    include_str!("html/panels.js"),
    include_str!("html/viewer.js"),
];

/// Writes a recording.
///
/// # Errors
/// What `out` says.
pub fn write(recording: &Recording, mut out: impl Write) -> io::Result<()> {
    let pack = Pack::new(recording);
    let report = Report::new(recording);
    let header = json!({
        "recording": recording.header,
        "lacks": lacks(recording, &report),
        "report": report,
        "begins_ns": pack.begins_ns,
        "length_ns": pack.length_ns,
        "kinds": pack::KINDS.map(|k| k.name()),
        "names": pack.names,
        "lanes": pack.lanes(),
        "handoffs": pack.handoffs.len(),
        "counters": counted::counters(recording, pack.begins_ns, |thread| pack.lane_of(thread)),
    });
    let mut rest = PAGE;
    for (mark, what) in [("/*style*/", Part::Style), ("/*data*/", Part::Data), ("/*script*/", Part::Scripts)]
    {
        let (before, after) = rest.split_once(mark).expect("the page has a place for each part");
        out.write_all(before.as_bytes())?;
        match what {
            Part::Style => out.write_all(STYLE.as_bytes())?,
            Part::Scripts => SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes()))?,
            Part::Data => {
                let text = EncoderWriter::new(&mut out, &STANDARD);
                let mut block = ZlibEncoder::new(text, Compression::fast());
                let header = serde_json::to_vec(&header)?;
                block.write_all(
                    &u32::try_from(header.len()).map_err(|_| io::ErrorKind::FileTooLarge)?.to_le_bytes(),
                )?;
                block.write_all(&header)?;
                pack.write(&mut block)?;
                block.finish()?.finish()?;
            }
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    out.flush()
}

#[derive(Clone, Copy)]
enum Part {
    Style,
    Data,
    Scripts,
}

/// What the timeline does not show, in words.
fn lacks(recording: &Recording, report: &Report) -> Vec<String> {
    let mut lacks = Vec::new();
    if !report.complete {
        lacks.push("The recording has no end: the router ended in mid-record, or its disk was full. This is what was kept.".into());
    }
    for missing in &report.missing {
        let mend = if missing.mend.is_empty() { String::new() } else { format!(" Mend: {}.", missing.mend) };
        lacks.push(format!("Not recorded: {}: {}.{mend}", missing.what, missing.why));
    }
    if recording.kernel.is_empty() {
        lacks.push(
            "There are no events of the kernel: what processors did, interrupts, and whether threads ran, were ready or blocked is not known.".into(),
        );
    }
    if recording.events.is_empty() {
        lacks.push("There are no events of the router: no thread did anything that was recorded.".into());
    }
    if report.one_in > 1 {
        lacks.push(format!(
            "One in {} runs of tasks is shown, with all that followed from it. A gap between tasks is not idleness. Hand-offs through queues cannot be followed (they can with --one-in 1).",
            report.one_in
        ));
    }
    let events = &recording.header.events;
    if !events.is_empty() && events != "all" && !events.split(',').any(|name| name == "locks") {
        lacks.push("Locks that nobody waited for are not shown (they are with --events all).".into());
    }
    if report.lost > 0 {
        lacks.push(format!(
            "{} events were lost where rings ran over: what they told is missing.",
            report.lost
        ));
    }
    lacks
}
