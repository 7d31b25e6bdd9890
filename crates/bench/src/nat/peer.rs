// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench nat --peer`: our gateway compared with nftables on the same virtual cables, in turn.
//!
//! ```text
//! A: a0 ---- d0  the gateway  d1 ---- b0 :B
//! ```
//!
//! The gateway is NatGateway on one worker, or the kernel's forwarding with `snat` to a pool. In both cases it has one core, and the
//! sender another one. Each run makes namespaces anew, so every table begins empty. Interfaces count what arrives.
//!
//! 1. *Set-up.* The first packet of each session, as fast as the sender can. Each one that arrives has a session.
//! 2. *Ramp-up.* Each session is asked for until its translation is known, and answered until the answer arrives. Both are compared
//!    with what was sent.
//! 3. *Throughput.* Packets of sessions at random by both sides in turn, as fast as the sender can.
//!
//! nftables gives a source port to several sessions if their peers differ. NAT44 does not: its mappings are endpoint-independent.

mod site;
mod traffic;

use std::time::Duration;

use report::measure::Measured;
use serde_json::json;
use testbed::rig;

use super::shape::{Protocol, Shape};
use super::{Allocation, Settings};
use crate::{Error, Failure, Findings};
use site::{Gateway, Site};
use traffic::Rates;

/// Sessions that the kernel may track, in all namespaces alike.
const TRACKED_MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";

/// Compares the gateways; `say` gets lines about the progress.
///
/// # Errors
/// A setting is wrong, this machine cannot do it, or a packet is not translated as it should be.
pub fn measure(args: &Settings, say: &mut dyn FnMut(&str)) -> Result<Findings, Failure> {
    let shapes = args.shapes()?;
    if args.protocol != Protocol::Udp || args.allocation != Allocation::Random {
        return Err(Failure::usage(
            "--peer compares UDP with random ports: leave out --protocol and --allocation",
        ));
    }
    if args.run_ms == 0 {
        return Err(Failure::usage("--run-ms 0: a run needs time, for example --run-ms 2000"));
    }
    let cores = available()?;
    let tracked = tracked_max()?;
    let (fit, others): (Vec<Shape>, Vec<Shape>) =
        shapes.iter().partition(|shape| shape.sessions() <= tracked);
    for shape in &others {
        let sessions = shape.sessions();
        say(&format!(
            "left out: {sessions} sessions are more than net.netfilter.nf_conntrack_max, which is {tracked}"
        ));
    }
    if fit.is_empty() {
        return Err(Failure::usage(format!(
            "the kernel tracks {tracked} sessions at most; give fewer --hosts, or raise it: \
             sudo sysctl -w net.netfilter.nf_conntrack_max={}",
            shapes.iter().map(Shape::sessions).min().unwrap_or_default()
        )));
    }
    let (mut results, mut drivers) = (Vec::new(), Vec::new());
    for shape in &fit {
        results.extend(compare(args, shape, cores, say, &mut drivers)?);
    }
    let conditions = json!({
        "ports": args.ports, "protocol": "udp", "bytes": super::shape::FRAME, "run_ms": args.run_ms,
        "sender_core": cores[0], "gateway_core": cores[1], "drivers": drivers, "left_out": others.len(),
    });
    Ok(Findings { conditions, results })
}

/// The sender's and the gateway's core, if this machine can do it.
fn available() -> Result<[usize; 2], Failure> {
    rig::available().map_err(|why| Failure::usage(format!("--peer: {why}")))?;
    if std::process::Command::new("nft").arg("--version").output().is_err() {
        return Err(Failure::usage("--peer: nft is not installed; sudo apt-get install nftables"));
    }
    match crate::fib::cores()[..] {
        [sender, gateway] => Ok([sender, gateway]),
        _ => Err(Failure::usage("--peer needs two cores: one sends, one is the gateway's")),
    }
}

/// How many sessions the kernel tracks.
fn tracked_max() -> Result<usize, Failure> {
    let number = std::fs::read_to_string(TRACKED_MAX).ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| {
        let why =
            "--peer: this kernel tracks no connections (sudo modprobe nf_conntrack, if it has the module)";
        Failure::usage(why)
    })
}

/// Runs both gateways in turn.
fn compare(
    args: &Settings,
    shape: &Shape,
    cores: [usize; 2],
    say: &mut dyn FnMut(&str),
    drivers: &mut Vec<String>,
) -> Result<Vec<Measured>, Error> {
    let mut found: [Vec<Rates>; 2] = Default::default();
    for run in 0..args.runs.max(1) {
        for (gateway, found) in Gateway::ALL.into_iter().zip(&mut found) {
            let site = Site::new(cores)?;
            let rates = site.with(gateway, shape, drivers, || {
                traffic::measure(&site, shape, Duration::from_millis(args.run_ms))
            })?;
            let (name, number) = (gateway.name(), run + 1);
            let [setup, pps] = [rates.setup, rates.throughput].map(|one| one.received / 1e3);
            say(&format!("run {number}: {name}: {setup:.0}k sessions/s, {pps:.0}k packets/s"));
            found.push(rates);
        }
    }
    Ok(results(shape, &found))
}

fn results(shape: &Shape, found: &[Vec<Rates>; 2]) -> Vec<Measured> {
    let sessions = shape.sessions();
    let mut results = Vec::new();
    for (what, sent, unit, of) in [
        ("setup", "setup_sent_per_s", "sessions/s", (|rates| rates.setup) as fn(&Rates) -> traffic::Rate),
        ("pps", "sent_pps", "packets/s", |rates| rates.throughput),
    ] {
        for (gateway, found) in Gateway::ALL.into_iter().zip(found) {
            let received = if what == "setup" { "setup_per_s" } else { what };
            let name = |value: &str| format!("nat.peer.{value}.{}.{sessions}", gateway.name());
            let all = |value: fn(traffic::Rate) -> f64| found.iter().map(|rates| value(of(rates))).collect();
            results.push(Measured::new(name(received), unit, all(|rate| rate.received)));
            results.push(Measured::new(name(sent), unit, all(|rate| rate.sent)));
        }
        let ratio = |(ours, theirs): (&Rates, &Rates)| of(ours).received / of(theirs).received.max(1.0);
        let ratios = found[0].iter().zip(&found[1]).map(ratio).collect();
        results.push(Measured::new(format!("nat.peer.{what}_over_nftables.{sessions}"), "times", ratios));
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_gateways_translate_the_smallest_shape() {
        let test = "both_gateways_translate_the_smallest_shape";
        if rig::skip_without(test, &["nft", "ping"]) {
            return;
        }
        let args = Settings {
            of: super::super::Of::Nat44,
            hosts: vec![4],
            ports: 63,
            protocol: Protocol::Udp,
            allocation: Allocation::Random,
            burst: 32,
            packets: 1,
            runs: 1,
            run_ms: 50,
            cores: Vec::new(),
        };
        match measure(&args, &mut |_| {}) {
            Ok(found) => {
                assert_eq!(found.results.len(), 10);
                assert!(found.results.iter().all(|one| one.median() > 0.0), "{:?}", found.results);
            }
            Err(Failure::Usage(why)) => errln!("{test} skipped: {why}"),
            Err(why) => panic!("{why}"),
        }
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let args = Settings {
            of: super::super::Of::Nat44,
            hosts: vec![4],
            ports: 63,
            protocol: Protocol::Tcp,
            allocation: Allocation::Random,
            burst: 32,
            packets: 1,
            runs: 1,
            run_ms: 50,
            cores: Vec::new(),
        };
        let why = measure(&args, &mut |_| {}).expect_err("TCP").to_string();
        assert!(why.contains("--protocol"), "{why}");
    }
}
