// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor capture`: the options of packets that are captured at ports of elements, by the crate `trace`.

use std::path::PathBuf;

use ::trace::capture::{self, Wanted};
use client::{Client, lost};
use observe::records::Capture;

use crate::ctl::{self, Which};
use crate::{outcome, trace};

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

impl TryFrom<&Args> for Wanted {
    type Error = String;

    fn try_from(args: &Args) -> Result<Wanted, String> {
        let time = outcome::time_above_0(args.time.as_deref(), "5s")?;
        if args.ring_size.is_some() && args.write.as_deref().is_some_and(|file| file.as_os_str() == "-") {
            return Err(
                "--ring-size expects files to write in turn, not standard output: name one by -w".into()
            );
        }
        let sized = |text: &str| {
            size(text)
                .ok_or_else(|| format!("--ring-size expects bytes such as 100000, 64K or 10M, not '{text}'"))
        };
        let ring_size = args.ring_size.as_deref().map(sized).transpose()?;
        let packets = Capture {
            points: args.points.clone(),
            inputs: args.direction != "out",
            outputs: args.direction != "in",
            drops: args.drops.clone(),
            filter: args.filter.clone(),
            snap: args.snap as usize,
            count: args.count,
            time_ns: time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        };
        Ok(Wanted { packets, write: args.write.clone(), ring_size, ring_files: args.ring_files })
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let wanted = match Wanted::try_from(args) {
        Ok(wanted) => wanted,
        Err(why) => return outcome::usage(why),
    };
    match ctl::find(&args.router).and_then(|stream| Client::new(stream).map_err(lost)) {
        Ok(client) => trace::told(capture::run(&wanted, client)),
        Err(why) => ctl::tell(&why),
    }
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
