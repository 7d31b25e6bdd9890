// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor capture`: packets at ports of elements of a running router, as pcapng.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::ctl::{self, Which};
use crate::{exit, outcome};
use client::{Client, lost};
use observe::fetch;
use observe::records::{Capture, Line, Order};
use observe::watched::{Watched, watch_ended};

use observe::sink::Sink;

/// Capture packets at any port of any element of a running router.
///
/// Each port is an interface of the file, named as in configurations: [0]q is what comes into input 0 of q, q[1] what leaves by its output 1. Times are in nanoseconds. Packets that
/// the element drops say so in their comments; with --drops all dropped packets of the router are captured with the reason; what a source such as FromDevice drops before it
/// sends it on is only there. Without -w a line is printed for each packet.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor capture q -w q.pcapng                     all that comes into q and leaves it
  junctor capture rt:0 --direction in --count 100 -w rt.pcapng
  junctor capture q:0 --filter 'udp port 53' -w - | tshark -r -
  junctor capture --drops -w drops.pcapng           every packet that is dropped, and why
  junctor capture --drops no-route --time 10s
  junctor capture out0 --ring-size 10M --ring-files 5 -w ring.pcapng   the last 50 MB")]
pub(crate) struct Args {
    /// Where: an element's ports, or one of them; '[0]q' is input 0 of q, and 'q[1]' output 1.
    #[arg(value_name = "ELEMENT[:PORT]", required_unless_present = "drops")]
    points: Vec<String>,
    /// The packets that are dropped anywhere, for any reason or for this one.
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "")]
    drops: Option<String>,
    /// Which packets, as for tcpdump (needs the machine's libpcap).
    #[arg(long, short, value_name = "EXPRESSION", default_value = "")]
    filter: String,
    /// Which ports of the elements.
    #[arg(long, value_name = "DIRECTION", default_value = "both", value_parser = ["in", "out", "both"])]
    direction: String,
    /// Bytes of a packet that are kept.
    #[arg(long, short, value_name = "BYTES", default_value_t = 65_535, value_parser = clap::value_parser!(u32).range(1..=262_144))]
    snap: u32,
    /// End after so many packets.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time.
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Write pcapng to this file; - is standard output.
    #[arg(long, short, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Begin another file (FILE-00002.pcapng and so on) when one has this size.
    #[arg(long, value_name = "BYTES[K|M|G]", requires = "write")]
    ring_size: Option<String>,
    /// Keep only the last so many of them.
    #[arg(long, value_name = "N", requires = "ring_size", value_parser = clap::value_parser!(u64).range(1..))]
    ring_files: Option<u64>,
    #[command(flatten)]
    router: Which,
}

/// After so long without a packet it is said what is waited for.
const QUIET: Duration = Duration::from_secs(2);

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let time = match args.time.as_deref().map(|text| (text, engine::parse_duration(text))) {
        None => None,
        Some((_, Some(time))) if !time.is_zero() => Some(time),
        Some((text, _)) => {
            return outcome::usage(format!("--time expects a time above 0 such as 5s, not '{text}'"));
        }
    };
    if args.ring_size.is_some() && args.write.as_deref().is_some_and(|file| file.as_os_str() == "-") {
        return outcome::usage(
            "--ring-size expects files to write in turn, not standard output: name one by -w",
        );
    }
    let size = match args.ring_size.as_deref().map(|text| (text, size(text))) {
        None => None,
        Some((_, Some(size))) => Some(size),
        Some((text, None)) => {
            return outcome::usage(format!(
                "--ring-size expects bytes such as 100000, 64K or 10M, not '{text}'"
            ));
        }
    };
    let mut client = match ctl::find(&args.router).and_then(|stream| Client::new(stream).map_err(lost)) {
        Ok(client) => client,
        Err(why) => return ctl::tell(&why),
    };
    let wanted = Capture {
        points: args.points.clone(),
        inputs: args.direction != "out",
        outputs: args.direction != "in",
        drops: args.drops.clone(),
        filter: args.filter.clone(),
        snap: args.snap as usize,
        count: args.count,
        time_ns: time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
    };
    // First what may be wrong with it, then the file.
    let session = match fetch::begin(&mut client, &Order::Capture(wanted)) {
        Ok(session) => session,
        Err(why) => return ctl::tell(&why),
    };
    let sink = match Sink::new(args.write.as_deref(), size, args.ring_files, &args.filter, args.snap) {
        Ok(sink) => sink,
        Err(why) => {
            let _ = fetch::stop(&mut client, session);
            return outcome::fail(why);
        }
    };
    run(args, client, session, sink, time)
}

/// What is captured, in words.
fn waited_for(args: &Args) -> String {
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

fn size(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|n| *n > 0)
}

fn run(args: &Args, client: Client, session: u64, mut sink: Sink, time: Option<Duration>) -> u8 {
    let mut watched = Watched::new(client, session);
    let mut written = 0;
    let mut status = exit::SUCCESS;
    // When it is to be said that no packet comes, unless one does.
    let mut wait = time.is_none().then(|| Instant::now() + QUIET);
    loop {
        let lines = match watched.more() {
            Ok(lines) => lines,
            Err(why) => {
                let _ = sink.end(0);
                let why = watch_ended(why).to_string();
                return outcome::fail(format!("{why}; kept: {} packets{}", sink.kept(written), sink.shown()));
            }
        };
        if lines.iter().any(|line| matches!(line, Line::Packet { .. })) {
            wait = wait.map(|_| Instant::now() + QUIET);
        }
        if wait.is_some_and(|wait| Instant::now() >= wait) && !watched.is_stopped() {
            wait = None;
            errln!("junctor: waiting for {}; Ctrl-C ends it", waited_for(args));
        }
        for line in lines {
            let done = match line {
                Line::Packet { .. } if status != exit::SUCCESS || sink.is_closed() => Ok(()),
                Line::Packet { .. } => sink.packet(&line).map(|()| written += 1),
                Line::Interface { interface, name, ip } => sink.interface(interface, name, ip),
                Line::Lost { interface, lost } => sink.lost(interface, lost),
                Line::Note { text } => {
                    errln!("junctor: {text}");
                    Ok(())
                }
                Line::End { lost, passed_over } => {
                    if let (Err(why), exit::SUCCESS) = (sink.end(lost), status) {
                        status = outcome::fail(format!(
                            "{why}; kept: {} packets{}",
                            sink.kept(written),
                            sink.shown()
                        ));
                    }
                    return ended(written, lost, passed_over, &sink, status);
                }
                _ => Ok(()),
            };
            if let Err(why) = done
                && status == exit::SUCCESS
            {
                status =
                    outcome::fail(format!("{why}; kept: {} packets{}", sink.kept(written), sink.shown()));
            }
        }
        if status != exit::SUCCESS || sink.is_closed() {
            watched.stop();
        }
        if let Err(why) = sink.flush()
            && status == exit::SUCCESS
        {
            status = outcome::fail(format!("{why}; kept: {} packets{}", sink.kept(written), sink.shown()));
        }
    }
}

fn ended(written: u64, lost: u64, unseen: u64, sink: &Sink, status: u8) -> u8 {
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
    status
}
