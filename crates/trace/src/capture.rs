// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets at ports of elements of a running router, as pcapng or as lines of text.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::Client;
use observe::fetch;
use observe::records::{Capture, Line, Order};
use observe::sink::{Sink, Unwritten};
use observe::watched::{Watched, watch_ended};

use crate::Error;

/// What is captured, and where it goes.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which packets, and where.
    pub packets: Capture,
    /// The file that they are written to; `-` is standard output. Lines of text without it.
    pub write: Option<PathBuf>,
    /// Bytes of each of several files, if not all go into one.
    pub ring_size: Option<u64>,
    /// How many of these are kept.
    pub ring_files: Option<u64>,
}

/// After so long without a packet it is said what is waited for.
const QUIET: Duration = Duration::from_secs(2);

/// Captures packets until as many have come as were asked for, or somebody ends it.
///
/// # Errors
/// The router, or packets that could not be kept.
pub fn run(wanted: &Wanted, mut client: Client) -> Result<(), Error> {
    // First what may be wrong with it, then the file.
    let session = fetch::begin(&mut client, &Order::Capture(wanted.packets.clone()))?;
    let Capture { filter, snap, .. } = &wanted.packets;
    match Sink::new(wanted.write.as_deref(), wanted.ring_size, wanted.ring_files, filter, *snap as u32) {
        Ok(sink) => Capturing { sink, written: 0, failed: None }.run(&wanted.packets, client, session),
        Err(why) => {
            let _ = fetch::stop(&mut client, session);
            Err(Error::Nothing(why.to_string()))
        }
    }
}

/// What is captured, in words.
fn waited_for(args: &Capture) -> String {
    let filter = args.filter.trim();
    let which = if filter.is_empty() { String::new() } else { format!(" that match '{filter}'") };
    let mut places = Vec::new();
    if !args.points.is_empty() {
        places.push(format!("at {}", args.points.join(", ")));
    }
    match args.drops.as_deref() {
        None => {}
        Some("") => places.push("that are dropped".into()),
        Some(reason) => places.push(format!("that are dropped ({reason})")),
    }
    format!("packets{which} {}", places.join(" or "))
}

/// A capture under way.
struct Capturing {
    sink: Sink,
    written: u64,
    /// What went wrong first.
    failed: Option<Error>,
}

impl Capturing {
    fn run(mut self, wanted: &Capture, client: Client, session: u64) -> Result<(), Error> {
        let mut watched = Watched::new(client, session);
        // When it is to be said that no packet comes, unless one does.
        let mut wait = wanted.time_ns.is_none().then(|| Instant::now() + QUIET);
        loop {
            let lines = match watched.more() {
                Ok(lines) => lines,
                Err(why) => {
                    let _ = self.sink.end(0);
                    return Err(self.kept(watch_ended(why)));
                }
            };
            if lines.iter().any(|line| matches!(line, Line::Packet { .. })) {
                wait = wait.map(|_| Instant::now() + QUIET);
            }
            if wait.is_some_and(|wait| Instant::now() >= wait) && !watched.is_stopped() {
                wait = None;
                errln!("junctor: waiting for {}; Ctrl-C ends it", waited_for(wanted));
            }
            for line in lines {
                if let Line::End { lost, passed_over } = line {
                    let ended = self.sink.end(lost);
                    self.note(ended);
                    self.report(lost, passed_over);
                    return self.failed.map_or(Ok(()), Err);
                }
                let taken = self.take(line);
                self.note(taken);
            }
            if self.failed.is_some() || self.sink.is_closed() {
                watched.stop();
            }
            let flushed = self.sink.flush();
            self.note(flushed);
        }
    }

    /// Writes what a line says.
    fn take(&mut self, line: Line) -> Result<(), Unwritten> {
        match line {
            Line::Packet { .. } if self.failed.is_some() || self.sink.is_closed() => Ok(()),
            Line::Packet { .. } => self.sink.packet(&line).map(|()| self.written += 1),
            Line::Interface { interface, name, ip } => self.sink.interface(interface, name, ip),
            Line::Lost { interface, lost } => self.sink.lost(interface, lost),
            Line::Note { text } => {
                errln!("junctor: {text}");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Keeps the first failure.
    fn note(&mut self, done: Result<(), Unwritten>) {
        if let (Err(why), None) = (done, &self.failed) {
            self.failed = Some(self.kept(why));
        }
    }

    fn kept(&self, why: impl std::fmt::Display) -> Error {
        let kept = format!("{} packets{}", self.sink.kept(self.written), self.sink.shown());
        Error::Kept { why: why.to_string(), kept }
    }

    /// Says how many packets there are, and which there are not.
    fn report(&self, lost: u64, unseen: u64) {
        let (written, sink) = (self.written, &self.sink);
        let closed = if sink.is_closed() { " (its reader has gone)" } else { "" };
        let kept = sink.kept(written);
        let cut = if kept < written { format!(", {kept} kept") } else { String::new() };
        errln!("junctor: {written} packets captured{cut}{}{closed}", sink.shown());
        if lost > 0 {
            errln!("junctor: {lost} packets were lost, because they came faster than they could be captured");
        }
        if unseen > 0 {
            errln!("junctor: {unseen} packets were dropped that were not at hand any more to be captured");
        }
    }
}
