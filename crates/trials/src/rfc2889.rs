// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test rfc2889`: what a bridge forwards, remembers, learns, filters and floods.
//!
//! The tester plays hosts of its own behind each port; of the device only its ports are used. Ports talk to each other in a full mesh.

use std::time::Duration;

use serde_json::json;
use tester::hosts;
use tester::search::{bridge, bridged};
use tester::station::{Plan, Reset, Stream, host_flow};
use tester::trial::{Invalid, Measurer as _, Trial};
use wire::MacAddr;

use super::device::Name;
use super::quantiles::QUANTILES;
use super::record::Found;
use super::reset::shell;
use super::search::{Document, Profile, Search, Site, each_size, greatest_rate};
use super::{Failure, procedures};
use crate::Error;

/// A procedure of RFC 2889, section 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// Throughput and forwarding rates (5.1).
    Forwarding,
    /// Addresses that it remembers, and how fast it learns them (5.7, 5.8).
    Addresses,
    /// Errored frames (5.9).
    Errored,
    /// Broadcast frames (5.10).
    Broadcast,
}

/// Forwarding, address caching and learning, errored frames and broadcast of a bridge, as RFC 2889 has them.
#[derive(Clone, Debug)]
pub struct Rfc2889 {
    /// What all tests by frame size need to know.
    pub search: Search,
    /// These procedures; all that the number of ports allows, if there are none.
    pub only: Vec<Procedure>,
    /// Addresses that are tried at most, instead of the profile's.
    pub addresses: Option<u64>,
    /// Learning frames a second while addresses are counted.
    pub learning_rate: f64,
    /// A shell command that empties the bridge's table.
    pub forget_command: Option<String>,
    /// After which time the bridge has forgotten, if there is no such command.
    pub ageing: Option<Duration>,
}

/// Ports that it takes to see what is flooded.
const PORTS_FOR_ADDRESSES: usize = 3;
/// Why addresses are not tested with fewer.
const TOO_FEW_PORTS: &str = "addresses take a third port, where it is seen what is flooded; a device with more ports, such as kernel-bridge:3";
/// Why they are not, of a bridge of which nobody says how it forgets.
const NO_WAY_TO_FORGET: &str = "how does this bridge forget? Say it with --forget-command, or --ageing";

impl Rfc2889 {
    /// Whether the bridge can be made to forget, as far as its name or the options show.
    fn forgets(&self) -> bool {
        let by_itself = matches!(self.search.common.device, Name::Own(_) | Name::KernelBridge(_));
        by_itself || self.forget_command.is_some() || self.ageing.is_some()
    }

    /// Refuses what cannot be before anything is measured.
    fn check(&self) -> Result<(), Error> {
        if self.search.networks().is_some() {
            return Err(Error::setting(
                "--networks is for routers: a bridge's test has addresses of its own",
            ));
        }
        self.search.without_filters("RFC 2889")?;
        if !self.only.contains(&Procedure::Addresses) {
            return Ok(());
        }
        let is_few = |ports: usize| ports < PORTS_FOR_ADDRESSES;
        match self.search.common.device.ports() {
            Some(ports) if is_few(ports) => Err(Error::setting(format!("--only addresses: {TOO_FEW_PORTS}"))),
            _ if !self.forgets() => Err(Error::setting(format!("--only addresses: {NO_WAY_TO_FORGET}"))),
            _ => Ok(()),
        }
    }
}

/// Does the procedures for each frame size.
pub(super) fn run(args: &Rfc2889) -> Result<(), Failure> {
    use Procedure::{Addresses, Broadcast, Errored, Forwarding};
    args.check()?;
    each_size(&args.search, Document::Rfc2889, |site, found| {
        found.ask(json!({ "addresses": args.addresses, "learning_rate": args.learning_rate }));
        let why_not = match site.station.port_count() {
            ..PORTS_FOR_ADDRESSES => Some(TOO_FEW_PORTS),
            _ => Some(NO_WAY_TO_FORGET).filter(|_| !args.forgets()),
        };
        let wanted = match &args.only[..] {
            [] => vec![Forwarding, Addresses, Errored, Broadcast],
            only => only.to_vec(),
        };
        if let (Some(why), true) = (why_not, args.only.contains(&Addresses)) {
            return Err(Error::setting(format!("--only addresses: {why}")));
        }
        for procedure in wanted {
            match procedure {
                Forwarding => forwarding(site, args, found)?,
                Addresses => match why_not {
                    Some(why) => {
                        found.text += &format!("             addresses: not tested: {why}\n");
                        found.deviate(&bridged::no_addresses_ledger(why));
                    }
                    None => addresses(site, args, found)?,
                },
                Errored if !site.station.is_here() && args.only.is_empty() => {
                    found.text += "             errored frames: not tested, for agents send no such frames\n";
                    found.deviate(&bridged::errored_ledger(None));
                }
                Errored => errored(site, args, found)?,
                Broadcast => broadcast(site, args, found)?,
            }
        }
        Ok(())
    })
}

/// Sends other flows, and lets the bridge know the hosts.
fn replan(site: &mut Site, streams: Vec<Vec<tester::frame::Flow>>, everywhere: bool) -> Result<(), Error> {
    let port_of = |mac: MacAddr| hosts::port_of(mac).filter(|_| !everywhere);
    let stream = |flows: Vec<tester::frame::Flow>| Stream {
        flows: flows.into_iter().map(|flow| (flow, port_of(flow.dst_mac))).collect(),
        sizes: vec![site.size],
        ..Stream::default()
    };
    site.senders = streams.iter().filter(|flows| !flows.is_empty()).count();
    let plan = Plan {
        streams: streams.into_iter().map(stream).collect(),
        everywhere,
        is_bridged: true,
        stragglers: site.stragglers,
        ..Plan::default()
    };
    site.station.replan(&plan)?;
    site.station.warm_up(Duration::from_secs(5))?;
    Ok(())
}

/// All ports talk to all (RFC 2889 5.1).
fn forwarding(site: &mut Site, args: &Rfc2889, found: &mut Found) -> Result<(), Error> {
    let ports = site.station.port_count();
    // Each port begins with its neighbour, so that no port is sent to by all at once.
    let seed = args.search.common.seed;
    let from = |port| (1..ports).map(|step| host_flow(seed, (port, 0), ((port + step) % ports, 0))).collect();
    replan(site, (0..ports).map(from).collect(), false)?;
    let throughput = greatest_rate(site, &args.search, "rfc2889", found)?;
    let time = trial_time(args);
    site.begin("forwarding rates");
    // What comes through of what is offered, all ports together, from the greatest load on.
    let mut rates: Vec<(f64, f64)> = Vec::new();
    let mut kept_up = true;
    for load in bridge::loads(site.rate_max, throughput) {
        let outcome = site.station.measure(Trial::new(load, time))?;
        kept_up &= outcome.is_of_device() || !rates.is_empty();
        let mpps = |frames: u64| frames as f64 / outcome.duration.as_secs_f64() / 1e6;
        rates.push((mpps(outcome.received), mpps(outcome.sent)));
    }
    let Some((mpps, offered)) = rates.first().copied() else { return Ok(()) };
    let (most, most_offered) =
        rates.into_iter().fold((mpps, offered), |best, rate| if rate.0 > best.0 { rate } else { best });
    for (name, value) in [
        ("forwarding_mpps", mpps),
        ("offered_mpps", offered),
        ("max_forwarding_mpps", most),
        ("max_forwarding_offered_mpps", most_offered),
    ] {
        found.note(format!("test.rfc2889.{name}.{}", site.size), "Mpps", value);
    }
    let mark = if kept_up { "" } else { "  (the tester could not offer all of the greatest load)" };
    found.text += &format!(
        "             forwarding rates of all ports together: {mpps:.4} of {offered:.4} Mpps at the greatest load, \
         {most:.4} of {most_offered:.4} Mpps at most{mark}\n"
    );
    found.deviate(&bridged::forwarding_ledger(&load(site, args, &[site.size]), kept_up));
    Ok(())
}

/// How long a trial is that is no search's.
fn trial_time(args: &Rfc2889) -> Duration {
    let rfc = args.search.profile == Profile::Rfc;
    args.search.trial.unwrap_or(Duration::from_secs(if rfc { 30 } else { 1 }))
}

/// How the bridge is loaded, for the ledger.
fn load<'a>(site: &Site, args: &Rfc2889, sizes: &'a [usize]) -> bridged::Load<'a> {
    bridged::Load { trial: trial_time(args), sizes, linked: site.is_medium, here: site.station.is_here() }
}

/// How many addresses, and how fast (RFC 2889 5.7 and 5.8).
fn addresses(site: &mut Site, args: &Rfc2889, found: &mut Found) -> Result<(), Error> {
    let greatest = site.rate_max.max(args.learning_rate);
    let usual = match args.search.profile {
        Profile::Rfc => bridge::Parameters::rfc(args.learning_rate, greatest),
        Profile::Quick => bridge::Parameters::quick(args.learning_rate, greatest),
    };
    let most = args.addresses.unwrap_or(usual.most);
    let parameters = bridge::Parameters { most, first: usual.first.min(most), ageing: args.ageing, ..usual };
    site.begin("addresses");
    let Site { station, running, size, forget, .. } = site;
    let invalid = |why| Invalid::new(why, "");
    let mut forget: Box<Reset<'_>> = match (&args.forget_command, args.ageing, forget, running.as_mut()) {
        (Some(command), ..) => Box::new(|| shell(command)),
        (None, Some(ageing), ..) => Box::new(move || {
            std::thread::sleep(ageing);
            Ok(())
        }),
        (None, None, Some(forget), _) => Box::new(move || forget().map_err(invalid)),
        (None, None, None, Some(running)) => Box::new(move || running.restart().map_err(invalid)),
        (None, None, None, None) => return Err(Error::setting(NO_WAY_TO_FORGET)),
    };
    let report = bridge::run(&mut station.teaches(*size, &mut *forget), &parameters)?;
    found.note(format!("test.rfc2889.caching_capacity.{size}"), "addresses", report.capacity as f64);
    if report.at_most || report.capacity_limited_by_tester {
        found.bound(&format!("test.rfc2889.caching_capacity.{size}"));
    }
    let more = match (report.capacity_limited_by_tester, report.at_most) {
        (true, _) => ", the tester's limit: it may be more",
        (false, true) => ", the most that were tried: it may be more",
        (false, false) => "",
    };
    found.text += &format!("             addresses: {} are remembered{more}\n", report.capacity);
    if let Some(rate) = report.rate {
        found.note(format!("test.rfc2889.learning_rate.{size}"), "addresses/s", rate);
        if report.limited_by_tester {
            found.bound(&format!("test.rfc2889.learning_rate.{size}"));
        }
        let mark = if report.limited_by_tester { ", the tester's limit: it may be more" } else { "" };
        found.text +=
            &format!("             {rate:.0} a second are learnt, out of {}{mark}\n", report.taught);
    }
    found.deviate(&report.ledger);
    Ok(())
}

/// Frames that ought not to pass (RFC 2889 5.9), as far as they can be sent.
fn errored(site: &mut Site, args: &Rfc2889, found: &mut Found) -> Result<(), Error> {
    let hosts = host_flow(args.search.common.seed, (0, 0), (1, 0));
    let frame = |len: usize| {
        let mut frame = [&hosts.dst_mac.0[..], &hosts.src_mac.0[..]].concat();
        // A type for experiments (IEEE 802.3 annex): the payload is nobody's.
        frame.extend([0x88, 0xb5]);
        frame.extend((frame.len()..len).map(|at| at as u8));
        frame
    };
    // Sizes without FCS: one byte beyond 1518, and one below 64.
    let kinds = [("oversize", frame(1515)), ("undersize", frame(59))];
    let frames = kinds.clone().map(|(_, frame)| frame);
    let exchanged = site.station.exchange(0, &frames, 100, Duration::from_millis(200))?;
    let ports = site.station.port_count() as u64 - 1;
    let mut sent = Vec::new();
    for ((kind, _), exchanged) in kinds.iter().zip(exchanged) {
        if exchanged.sent == 0 {
            found.text += &format!("             errored frames: {kind} cannot be sent by these ports\n");
            continue;
        }
        sent.push(*kind);
        // Where the destination is not known, one frame comes out everywhere.
        let share = (exchanged.received as f64 / exchanged.sent as f64).min(ports as f64);
        found.note(format!("test.rfc2889.errored.{kind}.{}", site.size), "", share.min(1.0));
        let verdict = if exchanged.received == 0 { "pass" } else { "fail" };
        found.text += &format!(
            "             errored frames, {kind}: {verdict}; {:.0} % of them came through\n",
            100.0 * share.min(1.0)
        );
    }
    found.deviate(&bridged::errored_ledger(Some(&sent)));
    Ok(())
}

/// One port to all others (RFC 2889 5.10).
fn broadcast(site: &mut Site, args: &Rfc2889, found: &mut Found) -> Result<(), Error> {
    let mut flow = host_flow(args.search.common.seed, (0, 0), (1, 0));
    flow.dst_mac = MacAddr([0xff; 6]);
    replan(site, vec![vec![flow]], true)?;
    let rate = greatest_rate(site, &args.search, "rfc2889.broadcast", found)?;
    found.deviate(&bridged::broadcast_ledger(&load(site, args, &[site.size])));
    if rate == 0.0 {
        return Ok(());
    }
    let time = trial_time(args);
    let detail = site.station.run(Trial::new(rate, time))?;
    if procedures::is_untimed(site, "RFC 2889 5.10", found) {
        return Ok(());
    }
    found.text += "             broadcast latency, us:";
    for quantile in QUANTILES {
        let name = quantile.name;
        let Some(us) = quantile.us(&detail.latency) else { continue };
        found.note(format!("test.rfc2889.broadcast.latency_us.{name}.{}", site.size), "us", us);
        found.text += &format!("  {name} {us:.1}");
    }
    found.text += "\n";
    Ok(())
}
