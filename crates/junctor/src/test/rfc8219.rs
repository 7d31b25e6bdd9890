// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test rfc8219`: throughput, latency and delay variation of devices between IPv4 and IPv6, and of all others.

use std::cell::RefCell;

use serde_json::json;
use tester::search::transition::{self, Done};

use super::procedures;
use super::record::Found;
use super::search::{Search, Site, each_size_and, throughput};

/// Latency and delay variation, as RFC 8219 has them.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "What is told for each frame size (names begin with test.rfc8219.); each value is the median over the trials:
  latency_us.typical.SIZE   the median of the latencies of 500 tagged frames (section 7.2)
  latency_us.worst.SIZE     their 99.9th percentile
  response_us.Q.SIZE        of every frame of the trials of latency, from when it was due; and
  lateness_us.Q.SIZE        how late it left the tester: its own error
  latency_loss_share.SIZE, variation_loss_share.SIZE
                            of the frames of these trials, those that were lost
  pdv_us.SIZE               the 99.9th percentile of all frames' delays less the least delay (section 7.3.1)
  ipdv_us.V.SIZE            how the delays of successive frames differ: min, median, max, mean_absolute (section 7.3.2)
The rate is the throughput, which is searched for as test rfc2544 does and told by the same names, unless --at names it.

Examples:
  junctor test rfc8219 self:conf/ip-router.click --size 64
  junctor test rfc8219 self:conf/ip6-router.click --ipv6 --profile rfc --at 1M --json"
)]
pub(super) struct Rfc8219 {
    #[command(flatten)]
    search: Search,
    /// Frames a second of each sending port [default: the throughput, which is searched for].
    #[arg(long, value_name = "RATE", value_parser = super::rate)]
    at: Option<f64>,
}

/// Runs `junctor test rfc8219`.
pub(super) fn main(args: &Rfc8219) -> u8 {
    let done = RefCell::new(Done { repeats: args.search.repeats(), ..Default::default() });
    let procedure = |site: &mut Site, found: &mut Found| {
        found.ask(json!({ "at": args.at }));
        site.timed()?;
        note_traffic(&mut done.borrow_mut(), site, &args.search);
        let rate = throughput(site, &args.search, args.at, found)?;
        if rate > 0.0 {
            procedures::tagged_latency(site, &args.search, rate, found)?;
            procedures::variation(site, &args.search, rate, found)?;
        }
        Ok(())
    };
    each_size_and(&args.search, "test rfc8219", procedure, |tried, found| {
        let ledger = transition::ledger(&Done { sizes: tried.to_vec(), ..done.take() });
        found.deviate(&if tried.is_empty() { ledger.untried() } else { ledger });
    })
}

/// What is sent at this site, as RFC 8219 asks for it.
fn note_traffic(done: &mut Done, site: &Site, search: &Search) {
    (done.ports, done.senders, done.linked) = (site.station.port_count(), site.senders, site.is_medium);
    let flows = || site.station.plan().streams.iter().flat_map(|stream| &stream.flows);
    done.has_ipv4 |= flows().any(|(flow, _)| flow.src.is_ipv4());
    done.has_ipv6 |= flows().any(|(flow, _)| flow.src.is_ipv6());
    done.beside.extend(search.sent_beside(site));
}
