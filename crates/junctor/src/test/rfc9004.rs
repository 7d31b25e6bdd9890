// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test rfc9004`: the longest bursts that a device takes, and how they are judged, here and in RFC 2544's tests.

use serde_json::json;

use super::procedures;
use super::search::{Search, each_size, throughput};

/// How bursts are judged.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Bursts {
    /// A burst fails if it loses frames so many times in a row: what chance takes is forgiven (RFC 9004 5: binary search
    /// with loss verification, as ETSI GS NFV-TST 009 has it).
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) loss_verification: u32,
}

impl Bursts {
    /// The number of times, if it is not the usual one.
    pub(super) fn told(self) -> Option<u32> {
        Some(self.loss_verification).filter(|times| *times > 1)
    }
}

/// Bursts, and the buffer that they show, as RFC 9004 has it.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "What is told for each frame size whose throughput is below the greatest rate (names begin with test.rfc9004.):
  burst_frames.SIZE, burst_frames.average.SIZE
                            the longest burst without loss, of each repetition and on average
  implied_buffer_us.SIZE    how long it takes
  corrected_buffer_us.SIZE  the same less what the device forwarded meanwhile
  buffer_frames.SIZE        the buffer that this comes to
  longest_frames.SIZE       the longest that was tried
The throughput is searched for as test rfc2544 does and told by the same names, unless --at names it.

Examples:
  junctor test rfc9004 self:conf/ip-router.click --size 64 --link 10G
  junctor test rfc9004 self:conf/ip-router.click --profile rfc --at 1M --link 10G --json
  junctor test rfc9004 self:conf/ip-router.click --size 64 --link 10G --loss-verification 3"
)]
pub(super) struct Rfc9004 {
    #[command(flatten)]
    search: Search,
    /// The throughput in frames a second of each sending port, if it is known: it is not searched for.
    #[arg(long, value_name = "RATE", value_parser = super::rate)]
    at: Option<f64>,
    #[command(flatten)]
    bursts: Bursts,
}

/// Runs `junctor test rfc9004`.
pub(super) fn main(args: &Rfc9004) -> u8 {
    each_size(&args.search, "test rfc9004", |site, found| {
        found.ask(json!({ "at": args.at, "loss_verification": args.bursts.told() }));
        let rate = throughput(site, &args.search, args.at, found)?;
        procedures::back_to_back(site, &args.search, (rate, args.bursts), "RFC 9004", found)
    })
}
