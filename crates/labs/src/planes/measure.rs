// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured of each device in each placement: throughput, response and delay, without and with management requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use core_affinity::CoreId;
use hdrhistogram::Histogram;
use tester::search::throughput::{self, Limit, Parameters};
use tester::station::{Detail, Station};
use tester::trial::{Outcome, Trial};

use super::super::shared::Setting;
use super::client::{Answers, Client};
use super::iperf::{self, Flow};
use super::network::{Network, frame};
use super::subject::{Device, Subject, client};
use super::{Asked, Cores};
use crate::Error;
use trials::inside::{self, ON_WIRES, RESIDUAL};

/// Payloads in bytes: the study's range, and the sizes that it names.
pub(super) const PAYLOADS: [usize; 5] = [64, 564, 1064, 1472, 8972];
/// Of a quick run.
const QUICK: [usize; 2] = [64, 1472];
/// The payload of frames whose delay is measured, and of those that load a device while it answers requests.
pub(super) const DELAY_PAYLOAD: usize = 64;
pub(super) const LOAD_PAYLOAD: usize = 1472;
/// Trials of a search in one of delays, or of requests under load.
const LONG: u32 = 50;
const QUICK_LONG: u32 = 15;
/// And in one that sends too much, which is so many times what arrived at best.
pub(super) const OVERLOAD: u32 = 10;
const TOO_MUCH: f64 = 1.5;
/// The traffic during requests: this share of what the device forwards.
const LOAD: f64 = 0.8;
/// Bits a second of a cable at most: no rate above it is searched.
const CABLE_BITS: f64 = 10e9;
/// Frames a second for delays: this share of what the device forwards, within these bounds.
const SHARE: f64 = 0.3;
const RATES: (f64, f64) = (500.0, 100_000.0);
/// How long a device may take to forward the first frames.
const WARM_UP: Duration = Duration::from_secs(30);
/// How long a device may take to forward what trials before have left in its buffers.
const EMPTY: Duration = Duration::from_secs(5);
/// How much before others the tester runs on its core.
const PRIORITY: i32 = -19;

/// Thousands of frames a second, and whether it was the tester that limited them.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    pub(super) kpps: Vec<f64>,
    pub(super) testers_limit: bool,
}

/// What a device forwards.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// The greatest rate without loss.
    pub(super) lossless: Rate,
    /// What arrives when more is sent.
    pub(super) forwarded: Rate,
}

impl Rates {
    pub(super) fn add(&mut self, more: Rates) {
        for (rate, more) in [(&mut self.lossless, more.lossless), (&mut self.forwarded, more.forwarded)] {
            rate.kpps.extend(more.kpps);
            rate.testers_limit |= more.testers_limit;
        }
    }
}

/// Values without and with management requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Pair<T> {
    pub(super) idle: T,
    pub(super) asked: T,
}

impl<T> Pair<T> {
    pub(super) fn of(&self, asked: bool) -> &T {
        if asked { &self.asked } else { &self.idle }
    }

    fn of_mut(&mut self, asked: bool) -> &mut T {
        if asked { &mut self.asked } else { &mut self.idle }
    }
}

/// Delays of frames.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    pub(super) latency: Histogram<u64>,
    pub(super) sent: u64,
    pub(super) lost: u64,
}

impl Default for Delays {
    fn default() -> Delays {
        // Three digits are a thousandth; it grows as needed.
        let latency = Histogram::new(3)
            .unwrap_or_else(|_| Histogram::new_from(&Histogram::<u64>::new(1).expect("a digit")));
        Delays { latency, sent: 0, lost: 0 }
    }
}

/// All that was found of a device in a placement.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) subject: Subject,
    /// By payload.
    pub(super) throughput: Vec<(usize, Pair<Rates>)>,
    /// Management requests: without and with traffic.
    pub(super) response: Pair<Answers>,
    /// Frames a second of that traffic.
    pub(super) load: Vec<f64>,
    pub(super) delay: Pair<Delays>,
    pub(super) iperf: Vec<Flow>,
    /// How `junctor ps` shows the management plane's cores and partition.
    pub(super) partition: String,
    /// Why there is nothing.
    pub(super) why_not: Option<String>,
    /// Why a round came to nothing.
    pub(super) failed: Option<String>,
}

impl Found {
    pub(super) fn new(subject: Subject) -> Found {
        Found {
            subject,
            throughput: Vec::new(),
            response: Pair::default(),
            load: Vec::new(),
            delay: Pair::default(),
            iperf: Vec::new(),
            partition: String::new(),
            why_not: None,
            failed: None,
        }
    }

    fn add(&mut self, payload: usize, asked: bool, more: Rates) {
        let at = match self.throughput.iter().position(|(size, _)| *size == payload) {
            Some(at) => at,
            None => {
                self.throughput.push((payload, Pair::default()));
                self.throughput.len() - 1
            }
        };
        self.throughput[at].1.of_mut(asked).add(more);
    }

    /// The throughput with payloads of so many bytes.
    pub(super) fn rates(&self, payload: usize, asked: bool) -> Option<&Rates> {
        let rates = self.throughput.iter().find(|(size, _)| *size == payload).map(|(_, pair)| pair.of(asked));
        rates.filter(|rates| !rates.forwarded.kpps.is_empty())
    }
}

/// Frames a second at which the delays of a device are measured: the same in all placements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayRates {
    kernel: Option<f64>,
    guest: Option<f64>,
    passthrough: Option<f64>,
}

impl DelayRates {
    /// Sets it by what the device forwards a second in the first placement that is measured.
    fn settle(&mut self, device: Device, forwarded: f64) -> f64 {
        let rate = match device {
            Device::Kernel => &mut self.kernel,
            Device::Guest => &mut self.guest,
            Device::Passthrough => &mut self.passthrough,
        };
        *rate.get_or_insert((SHARE * forwarded).clamp(RATES.0, RATES.1))
    }
}

/// Payloads that are measured.
pub(super) fn payloads(setting: &Setting<'_>) -> &'static [usize] {
    if setting.common.quick { &QUICK } else { &PAYLOADS }
}

/// The path of a request for the fixed work.
pub(super) fn work(asked: &Asked) -> String {
    format!("/compute?rounds={}", asked.work)
}

/// Measures a subject once; adds to what was found of it.
pub(super) fn round(
    setting: &mut Setting<'_>,
    (network, cores, asked): (&Network, &Cores, &Asked),
    rates: &mut DelayRates,
    found: &mut Found,
    is_first: bool,
) -> Result<(), Error> {
    let subject = found.subject;
    let deployment = subject.start(network, cores)?;
    let client = client(network, subject.placement, asked);
    client.wait().map_err(|why| why.after(format_args!("\n{}", deployment.said())))?;
    let row = deployment.row("manager")?;
    found.partition = format!("{} on {}", row.partition, row.cores);
    let mut station = network.tester(subject.device, subject.device.listeners())?;
    on_core(cores, || station.warm_up(WARM_UP)).map_err(|why| Error::from(why).of(subject.in_words()))?;
    for payload in payloads(setting).iter().filter(|payload| subject.device.takes(**payload)) {
        inside::resize(&mut station, frame(*payload), ON_WIRES)?;
        for with in [false, true] {
            if with && setting.common.quick && *payload != DELAY_PAYLOAD {
                continue;
            }
            let parameters = parameters(setting, *payload);
            let asks = with.then_some((&client, asked));
            let (rates, _) = beside(cores, &mut station, asks, |station| search(station, &parameters))?;
            found.add(*payload, with, rates?);
        }
    }
    let forwarded = |payload| {
        let rates = found.rates(payload, false).and_then(|rates| rates.forwarded.kpps.last());
        1e3 * rates.copied().unwrap_or_default()
    };
    let (smallest, load) = (forwarded(DELAY_PAYLOAD), LOAD * forwarded(LOAD_PAYLOAD));
    let rate = rates.settle(subject.device, smallest);
    delays(setting, (cores, asked), &mut station, &client, found, rate)?;
    responses(setting, (cores, asked), &mut station, &client, found, load.max(RATES.0))?;
    drop(station);
    if is_first {
        iperf::round(setting, (network, cores, asked), &client, found)?;
    }
    deployment.stop()
}

pub(super) fn parameters(setting: &Setting<'_>, payload: usize) -> Parameters {
    let trial = setting.common.length();
    // The preamble and the gap between frames take time, too.
    let rate_max = CABLE_BITS / 8.0 / (frame(payload) + 20) as f64;
    Parameters {
        rate_min: (rate_max * 1e-5).max(1.0),
        resolution: if setting.common.quick { 0.5 } else { 0.03 },
        search_trial: trial,
        final_trial: trial * if setting.common.quick { 2 } else { 5 },
        ..Parameters::rfc(rate_max)
    }
}

/// Searches the greatest rate without loss, and then sends more than the device forwards.
pub(super) fn search(station: &mut Station, parameters: &Parameters) -> Result<Rates, Error> {
    let report = throughput::run(station, parameters)?;
    let limit = report.limit() != Limit::Device;
    let lossless = Rate { kpps: vec![report.rate() / 1e3], testers_limit: limit };
    let arrived = report.trials.iter().map(|done| per_second(&done.outcome)).fold(report.rate(), f64::max);
    empty(station);
    // A device through which nothing comes at all is shown that, too.
    let trial = Trial::new((arrived * TOO_MUCH).max(parameters.rate_min), parameters.search_trial * OVERLOAD);
    let outcome = station.run(trial)?.outcome;
    let forwarded = Rate { kpps: vec![per_second(&outcome) / 1e3], testers_limit: outcome.lost() == 0 };
    Ok(Rates { lossless, forwarded })
}

/// Waits until the device has forwarded what trials before have left in its buffers. Without, it would count as the next trial's loss or delay.
fn empty(station: &mut Station) {
    // A device through which nothing comes has nothing to forward.
    let _ = station.warm_up(EMPTY);
}

fn per_second(outcome: &Outcome) -> f64 {
    outcome.received as f64 / outcome.duration.as_secs_f64()
}

fn delays(
    setting: &Setting<'_>,
    (cores, asked): (&Cores, &Asked),
    station: &mut Station,
    client: &Client<'_>,
    found: &mut Found,
    rate: f64,
) -> Result<(), Error> {
    inside::resize(station, frame(DELAY_PAYLOAD), RESIDUAL)?;
    on_core(cores, || empty(station));
    for with in [false, true] {
        let detail = run(setting, cores, station, rate, with.then_some((client, asked)))?.0;
        let delay = found.delay.of_mut(with);
        delay.sent += detail.outcome.sent;
        delay.lost += detail.outcome.lost();
        // It only fails for want of room, of which there is as much as it needs.
        let _ = delay.latency.add(&detail.latency);
    }
    Ok(())
}

fn responses(
    setting: &Setting<'_>,
    (cores, asked): (&Cores, &Asked),
    station: &mut Station,
    client: &Client<'_>,
    found: &mut Found,
    load: f64,
) -> Result<(), Error> {
    let times = if setting.common.quick { 3 } else { 20 };
    found.response.idle.add(client.ask(&work(asked), times)?);
    inside::resize(station, frame(LOAD_PAYLOAD), RESIDUAL)?;
    let (detail, answers) = run(setting, cores, station, load, Some((client, asked)))?;
    found.load.push(detail.outcome.sent as f64 / detail.outcome.duration.as_secs_f64());
    found.response.asked.add(answers);
    Ok(())
}

/// A long trial, and the results of the requests made during it.
pub(super) fn run(
    setting: &Setting<'_>,
    cores: &Cores,
    station: &mut Station,
    rate: f64,
    asks: Option<(&Client<'_>, &Asked)>,
) -> Result<(Detail, Answers), Error> {
    let trials = if setting.common.quick { QUICK_LONG } else { LONG };
    let trial = Trial::new(rate, setting.common.length() * trials);
    let (detail, answers) = beside(cores, station, asks, |station| station.run(trial))?;
    Ok((detail?, answers))
}

/// Has the tester work on its core while an operator asks for the fixed work, again and again.
pub(super) fn beside<T: Send>(
    cores: &Cores,
    station: &mut Station,
    asks: Option<(&Client<'_>, &Asked)>,
    work_of: impl FnOnce(&mut Station) -> T + Send,
) -> Result<(T, Answers), Error> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let tester = scope.spawn(|| {
            let _over = Over(&over);
            take(cores);
            work_of(station)
        });
        let answers = match asks {
            Some((client, asked)) => client.ask_until(&work(asked), &over),
            None => Ok(Answers::default()),
        };
        let done = tester.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((done, answers?))
    })
}

/// Set when dropped, so that nobody waits for a thread that panicked.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Does it in a thread that has the tester's core.
pub(super) fn on_core<T: Send>(cores: &Cores, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            take(cores);
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Takes the tester's core for the calling thread, at raised priority.
fn take(cores: &Cores) {
    core_affinity::set_for_current(CoreId { id: cores.tester });
    // Without leave it shares the core like others, and rows show it.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
}
