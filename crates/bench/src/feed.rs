// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench feed`: what it takes to bring a daemon's routes into the forwarding table, on one core.
//!
//! A stream as zebra sends it is made of a table of routes. One thread then does all the work of both planes: it decodes the stream, keeps the
//! routes (RIB), packs what changes into batches, and applies these to the table of a running router. Each stage is timed by itself.

mod readers;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::counters::Tally;
use control::fpm::{self, sample::Stream};
use control::model::{Change, Hop, Link, Object, Source};
use control::rib::{HOLD, Rib};
use elements::routing::FeedSink;
use feed::{Destination, Labels};
use serde_json::json;
use tables::fib4::Fib4Writer;

use super::fib::{Data, Sources, thread_seconds};
use harness::routes::Inside;
use report::measure::Measured;

use crate::{Error, Failure, Findings};

/// Bytes of the stream that are taken at a time, as from a socket.
const CHUNK: usize = 256 << 10;
/// The index of the interface behind which all next hops are.
const LINK: u32 = 2;
/// What runs meanwhile.
const CONFIGURATION: &str =
    "RouteFeed(routes, TABLE rt, LINK eth0 0); Idle -> rt :: StaticIPLookup; rt[0] -> Discard;";

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A file with IPv4 routes; without it, the shared real table, or a generated one.
    pub routes: Option<PathBuf>,
    /// Rounds, each with new tables.
    pub runs: usize,
}

/// Measures how fast routes of a daemon reach the forwarding table, and how fast a next hop of all routes is repaired.
///
/// # Errors
/// There are no such routes, or the router refuses some.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    let sources = Sources { routes: args.routes.clone(), updates: None };
    let data = Data::<Fib4Writer>::load(&sources)?;
    let objects = data.routes.iter().map(|(_, id)| id.0).max().unwrap_or(0) + 1;
    // In the second one, each route leads elsewhere.
    let [stream, other] = [0, 1].map(|turn| {
        let mut stream = Stream::default();
        (0..objects).for_each(|id| stream.object(id + 1, gateway(id), LINK));
        for (prefix, id) in &data.routes {
            stream.route(Destination::V4(*prefix), (id.0 + turn) % objects + 1, false);
        }
        stream
    });
    let conditions = json!({
        "routes": data.routes.len(), "source": data.source, "objects": objects, "stream_bytes": stream.bytes.len(),
        "time": "processor time of the one thread that does all; repairs: elapsed time",
    });
    let rounds: Result<Vec<Round>, Error> =
        (0..args.runs.max(1)).map(|_| round(&stream.bytes, data.routes.len())).collect();
    let mut results = results(&rounds?, data.routes.len());
    results.extend(readers::measure([&stream.bytes, &other.bytes], args.runs.max(1))?);
    Ok(Findings { conditions, results })
}

fn gateway(id: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0002 + id)
}

/// Times of a round, in seconds.
#[derive(Default)]
struct Round {
    decode: f64,
    rib: f64,
    apply: f64,
    replay: f64,
    repair: f64,
    link: f64,
    rib_bytes: f64,
}

fn results(rounds: &[Round], routes: usize) -> Vec<Measured> {
    let each = |name: &str, unit, value: &dyn Fn(&Round) -> f64| {
        Measured::new(format!("feed.{name}"), unit, rounds.iter().map(value).collect())
    };
    let n = routes as f64;
    vec![
        each("routes_per_s", "routes/s", &|r| n / (r.decode + r.rib + r.apply)),
        each("decode_ns", "ns", &|r| r.decode * 1e9 / n),
        each("rib_ns", "ns", &|r| r.rib * 1e9 / n),
        each("apply_ns", "ns", &|r| r.apply * 1e9 / n),
        each("replay_ns", "ns", &|r| r.replay * 1e9 / n),
        each("repair_us", "us", &|r| r.repair * 1e6),
        each("link_us", "us", &|r| r.link * 1e6),
        each("rib_bytes_per_route", "bytes", &|r| r.rib_bytes / n),
    ]
}

/// A router that runs, and the way of a feed into it.
struct Running {
    router: Arc<engine::Shared>,
    worker: Option<std::thread::JoinHandle<()>>,
    feed: Inside,
}

impl Running {
    fn start() -> Result<Running, Error> {
        let mut router = super::beside::build(CONFIGURATION, Arc::new(harness::handoff::NoDevices))?;
        let shared = router.shared().clone();
        let sink = shared
            .all_provided::<FeedSink>()
            .pop()
            .ok_or_else(|| Error::nothing("an element that takes routes"))?;
        let worker = std::thread::spawn(move || router.run());
        Ok(Running { router: shared, worker: Some(worker), feed: Inside::new(sink, 1) })
    }

    /// Hands on what the RIB has to say. Returns the processor time of the user plane's part.
    fn deliver(&mut self, rib: &mut Rib) -> Result<f64, Error> {
        let mut spent = 0.0;
        self.feed.deliver(rib, |sink, batch| {
            let begin = thread_seconds();
            let reply = sink.apply(batch);
            spent += thread_seconds() - begin;
            reply
        })?;
        Ok(spent)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.router.stop();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

fn link(is_up: bool) -> Change {
    let link = Link { name: "eth0".into(), is_up, mtu: 1500, ether: None, master: None, vrf_table: None };
    Change::Link { index: LINK, link: Some(link) }
}

fn round(stream: &[u8], routes: usize) -> Result<Round, Error> {
    let mut running = Running::start()?;
    let (mut rib, mut round, now) = (Rib::default(), Round::default(), Duration::ZERO);
    rib.apply(Source::Kernel, link(true), now);
    running.deliver(&mut rib)?;
    let before = resident();
    let (mut changes, mut tally) = (Vec::new(), Tally::default());
    let mut session = fpm::Session::new(Duration::from_secs(1), now, &mut changes);
    let mut at = 0;
    while at < stream.len() {
        let end = stream.len().min(at + CHUNK);
        let begin = thread_seconds();
        at += session.take(&stream[at..end], now, &mut changes, &mut tally)?;
        let decoded = thread_seconds();
        changes.drain(..).for_each(|change| rib.apply(Source::Fpm, change, now));
        rib.flush(now);
        round.decode += decoded - begin;
        round.rib += thread_seconds() - decoded;
        round.apply += running.deliver(&mut rib)?;
    }
    round.rib_bytes = resident() - before;
    if rib.counts().fpm != routes {
        return Err(Error::nothing(format!("{} routes of {routes} have arrived", rib.counts().fpm)));
    }
    let begin = Instant::now();
    rib.apply(Source::Fpm, repaired(), now);
    rib.flush(now + HOLD);
    running.deliver(&mut rib)?;
    round.repair = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    rib.apply(Source::Kernel, link(false), now);
    rib.flush(now + HOLD);
    running.deliver(&mut rib)?;
    round.link = begin.elapsed().as_secs_f64();
    let begin = thread_seconds();
    rib.replay();
    running.deliver(&mut rib)?;
    round.replay = thread_seconds() - begin;
    Ok(round)
}

/// The next hop that most routes have, with another gateway.
fn repaired() -> Change {
    let gateway = Some(Ipv4Addr::new(10, 255, 255, 254).into());
    let hop = Hop {
        gateway,
        index: LINK,
        weight: 1,
        is_onlink: false,
        is_dead: false,
        labels: Labels::default(),
        propagates_ttl: None,
    };
    Change::Object { id: 1, object: Object::Hop(hop) }
}

/// Bytes of memory that this process has.
pub(super) fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok());
    pages.unwrap_or(0.0) * 4096.0
}
