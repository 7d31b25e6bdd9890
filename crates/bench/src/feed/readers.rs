// SPDX-License-Identifier: MIT OR Apache-2.0
//! What forwarding loses while all routes change: one worker forwards to addresses everywhere, and another thread brings in one
//! table after the other, as fast as it can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use control::counters::Tally;
use control::fpm;
use control::model::Source;
use control::rib::Rib;
use elements::routing::FeedSink;

use super::{CHUNK, link};
use crate::Error;
use crate::beside;
use harness::routes::Inside;
use harness::{Bench, Pattern, Prepared};
use report::measure::Measured;

/// How long the worker runs in each measurement.
const RUN: Duration = Duration::from_millis(500);
/// A worker that reads.
const CONFIGURATION: &str = "
// bench: eth0 dst=0.0.0.0/1 flows=65536
RouteFeed(routes, TABLE rt, LINK eth0 0);
FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> rt :: StaticIPLookup;
rt[0] -> Unstrip(14) -> Queue -> ToDevice(eth1);
";

/// Rates in `runs` rounds, while the tables of these streams come in by turns.
pub(super) fn measure(streams: [&[u8]; 2], runs: usize) -> Result<Vec<Measured>, Error> {
    let bench = Arc::new(Bench::new(Pattern::gather(CONFIGURATION)?, 1));
    let router = beside::build(CONFIGURATION, bench.clone())?;
    let sink = router
        .shared()
        .all_provided::<FeedSink>()
        .pop()
        .ok_or_else(|| Error::nothing("an element that takes routes"))?;
    let mut worker = Prepared::new(router, bench, RUN);
    let mut changes = Vec::new();
    let session = fpm::Session::new(Duration::from_secs(1), Duration::ZERO, &mut changes);
    let mut feed = Feed { session, rib: Rib::default(), way: Inside::new(sink, 1) };
    changes.drain(..).for_each(|change| feed.rib.apply(Source::Fpm, change, Duration::ZERO));
    feed.rib.apply(Source::Kernel, link(true), Duration::ZERO);
    let is_over = AtomicBool::new(false);
    feed.bring(streams[0], &is_over)?;
    let mut rate = || match worker.run_surely() {
        Ok(run) => Ok(run.mpps()),
        Err(harness::Error::Silent) => Err(Error::nothing("no packet was forwarded")),
        Err(_) => unreachable!("the configuration is built"),
    };
    rate()?;
    let (mut shares, mut changes) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let alone = rate()?;
        let (beside, per_second) = feed.beside(streams, &mut rate)?;
        // The machine may be faster in some moments than in others.
        shares.push(beside / f64::midpoint(alone, rate()?));
        changes.push(per_second);
    }
    Ok(vec![
        Measured::new("feed.readers_share", "", shares),
        Measured::new("feed.readers_changes_per_s", "routes/s", changes),
    ])
}

/// A control plane, and its way into the router.
struct Feed {
    session: fpm::Session,
    rib: Rib,
    way: Inside,
}

impl Feed {
    /// Takes in a stream, until its end or until it is over.
    fn bring(&mut self, stream: &[u8], is_over: &AtomicBool) -> Result<u64, Error> {
        let now = Duration::ZERO;
        let (mut changes, mut tally, mut routes) = (Vec::new(), Tally::default(), 0);
        let mut at = 0;
        while at < stream.len() && !is_over.load(Ordering::Relaxed) {
            let end = stream.len().min(at + CHUNK);
            let taken = self.session.take(&stream[at..end], now, &mut changes, &mut tally);
            at += taken?;
            routes += changes.len() as u64;
            changes.drain(..).for_each(|change| self.rib.apply(Source::Fpm, change, now));
            self.rib.flush(now);
            self.way.deliver(&mut self.rib, |sink, batch| sink.apply(batch))?;
        }
        Ok(routes)
    }

    /// What `measure` finds while tables come in, and how many routes changed each second.
    fn beside(
        &mut self,
        streams: [&[u8]; 2],
        measure: &mut dyn FnMut() -> Result<f64, Error>,
    ) -> Result<(f64, f64), Error> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let bringing = scope.spawn(|| {
                let (begun, mut routes) = (Instant::now(), 0);
                for turn in (0..2).cycle().skip(1) {
                    routes += self.bring(streams[turn], &is_over)?;
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
                Ok::<f64, Error>(routes as f64 / begun.elapsed().as_secs_f64())
            });
            let found = measure();
            is_over.store(true, Ordering::Relaxed);
            let changes =
                bringing.join().map_err(|_| Error::Panicked("the thread that brings routes has"))??;
            Ok((found?, changes))
        })
    }
}
