// SPDX-License-Identifier: MIT OR Apache-2.0
//! The throughput of configurations in this process, for experiments that measure it together with other things.

use std::time::Duration;

use testbed::rig::Namespace;
use tester::frame::Flow;
use tester::search::throughput::{self, Parameters, Report};
use tester::station::{Plan, Port, Station, Stream};

use super::device::{self, Driver, Name, Setup, Traffic};
pub use super::quantiles::QUANTILES;
use crate::Error;

/// A device that takes longer to forward its first frames does not forward.
const WARM_UP: Duration = Duration::from_secs(10);
/// Frames that are on their way so long are lost: in memory, all take microseconds.
const STRAGGLERS: Duration = Duration::from_millis(20);

/// The same in searches where processes forward: they may have to wait for a turn.
pub const ON_WIRES: Duration = Duration::from_millis(60);
/// The same where it matters what comes late: RFC 2544 23 d.
pub const RESIDUAL: Duration = Duration::from_secs(2);
/// Share of the greatest rate below which no rate is searched.
const NOTHING: f64 = 1e-3;

/// How a throughput is searched.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Of each trial; the last takes five times as long.
    pub trial: Duration,
    /// The rate is found within this share of it.
    pub resolution: f64,
    /// Frames a second of each port at most, as [`tester_alone`] says.
    pub rate_max: f64,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Throughput {
    /// The search and its result.
    pub report: Report,
    /// Whether the tester had a core that no worker used.
    pub own_core: bool,
}

fn setup(workers: usize) -> Setup {
    let (flows, key) = (Vec::new(), None);
    let workers = Some(workers);
    Setup { workers, driver: Driver::Auto, flows, bridged: false, ipv6: false, both: false, key }
}

fn traffic(size: usize) -> Traffic {
    Traffic { size, longest: size, one_way: false, stragglers: STRAGGLERS, seed: 1 }
}

/// Frames of so many bytes with FCS that the tester sends and receives each second at each of two ports, with no device between.
pub fn tester_alone(size: usize) -> Result<f64, Error> {
    apart(|| {
        let (reach, _) = device::loopback(&Name::Cable, &setup(1), &traffic(size))?;
        Ok(reach.rate / 2.0)
    })
}

/// Searches the greatest rate at which this configuration on so many workers loses none of its frames of `size` bytes with FCS (RFC 2544
/// 26.1). All of its ports send what its lines of traffic say.
pub fn throughput(
    name: &str,
    text: &str,
    workers: usize,
    size: usize,
    search: &Search,
) -> Result<Throughput, Error> {
    apart(|| {
        let mut plugged = device::plug_text(name, text, &setup(workers), &traffic(size))?;
        plugged.station.warm_up(WARM_UP)?;
        let parameters = Parameters {
            rate_min: search.rate_max * NOTHING,
            resolution: search.resolution,
            search_trial: search.trial,
            final_trial: search.trial * 5,
            ..Parameters::rfc(search.rate_max)
        };
        let report = throughput::run(&mut plugged.station, &parameters)?;
        Ok(Throughput { report, own_core: plugged.own_core })
    })
}

/// A tester with a port in each of two namespaces, which sends these flows from the first to the second, in frames of `size` bytes with
/// FCS. Ports are interfaces, driven as well as they can be.
pub fn between(ends: [(&Namespace, &str); 2], flows: Vec<Flow>, size: usize) -> Result<Station, Error> {
    let port = |(home, end): (&Namespace, &str)| {
        let open = || {
            let device = device::open(end, Driver::Auto, None)?;
            Ok::<_, Error>(Port::new(end, device)?)
        };
        home.enter(open)?
    };
    let [first, second] = ends.map(port);
    let plan = from_first_to_second(flows, size, ON_WIRES);
    Ok(Station::new(vec![first?, second?], &plan, 1)?)
}

/// Has such a tester send frames of another size, and wait so long for the last ones of a trial that are missing.
pub fn resize(station: &mut Station, size: usize, stragglers: Duration) -> Result<(), Error> {
    let flows = station.plan().streams.iter().flat_map(|stream| &stream.flows);
    let plan = from_first_to_second(flows.map(|(flow, _)| *flow).collect(), size, stragglers);
    Ok(station.replan(&plan)?)
}

fn from_first_to_second(flows: Vec<Flow>, size: usize, stragglers: Duration) -> Plan {
    let flows = flows.into_iter().map(|flow| (flow, Some(1))).collect();
    let stream = Stream { flows, sizes: vec![size], ..Stream::default() };
    Plan { streams: vec![stream], stragglers, ..Plan::default() }
}

/// In a thread of its own: the tester takes a core, which is none of its caller's business.
fn apart<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
