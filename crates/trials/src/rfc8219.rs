// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test rfc8219`: throughput, latency and delay variation of devices between IPv4 and IPv6, and of all others.

use std::cell::RefCell;

use serde_json::json;
use tester::search::transition::{self, Done};

use super::record::Found;
use super::search::{Document, Search, Site, each_size_and, throughput};
use super::{Failure, procedures};

/// Latency and delay variation, as RFC 8219 has them.
#[derive(Clone, Debug)]
pub struct Rfc8219 {
    /// What all tests by frame size need to know.
    pub search: Search,
    /// Frames a second of each sending port; without it, the throughput is searched for.
    pub at: Option<f64>,
}

/// Does the procedures for each frame size.
pub(super) fn run(args: &Rfc8219) -> Result<(), Failure> {
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
    each_size_and(&args.search, Document::Rfc8219, procedure, |tried, found| {
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
