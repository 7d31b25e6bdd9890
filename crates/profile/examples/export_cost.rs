// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a recording takes to be read, analysed and exported: `export_cost FILE`. Everything is counted and thrown away.

use std::io::{self, Write};
use std::time::Instant;

use junctor_profile::analyse::Report;
use junctor_profile::export::{csv, html, perfetto};
use junctor_profile::file::Recording;

/// Counts bytes.
#[derive(Default)]
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("export_cost FILE")?;
    let mut began = Instant::now();
    let mut say = |what: &str, bytes: u64| {
        println!("{what}: {:.2} s, {bytes} bytes", began.elapsed().as_secs_f64());
        began = Instant::now();
    };
    let bytes = std::fs::read(path)?;
    let recording = Recording::read(&bytes)?;
    say("read", bytes.len() as u64);
    let report = Report::new(&recording).to_string();
    say("report", report.len() as u64);
    let mut out = Count::default();
    html::write(&recording, &mut out)?;
    say("html", out.0);
    let mut out = Count::default();
    perfetto::write(&recording, &mut out)?;
    say("perfetto", out.0);
    let mut out = Count::default();
    csv::write(&recording, &mut out)?;
    say("csv", out.0);
    Ok(())
}
