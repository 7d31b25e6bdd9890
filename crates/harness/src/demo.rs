// SPDX-License-Identifier: MIT OR Apache-2.0
//! A demonstration: a router on two wires in memory, with packets that ought not to pass among others, and what becomes of them.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::{Control, Options, Report, Router, Shared};
use report::{out, outln};

use crate::{Bench, Pattern};

/// The configuration.
pub const ROUTER: &str = include_str!("../../../conf/ip-router.click");

/// Why there is no demonstration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be built.
    #[error("{0}")]
    Configuration(String),
    /// Its traffic is not well put.
    #[error(transparent)]
    Traffic(#[from] crate::Error),
}

/// Shows so many workers on these cores for a time, on a terminal of so many columns. `run` runs the router.
///
/// # Errors
/// The router cannot be built.
pub fn run(
    (workers, cores): (usize, Vec<usize>),
    time: Duration,
    width: usize,
    run: impl FnOnce(&mut Router),
) -> Result<(), Error> {
    let (mut router, devices) = build(workers, cores)?;
    outln!("An IPv4 router (conf/ip-router.click) on two in-process wires, {workers} workers.");
    outln!("Traffic: mostly UDP through the router, and some packets that ought not to pass.\n");
    let done = AtomicBool::new(false);
    let control = router.control();
    router.stop_after(time);
    let started = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| view(&control, &devices, width, &done));
        run(&mut router);
        done.store(true, Ordering::Relaxed);
    });
    out!("{}", summary(router.shared(), &router.report(), started.elapsed(), &router.cpu_ns()));
    Ok(())
}

fn build(workers: usize, cores: Vec<usize>) -> Result<(Router, Arc<Bench>), Error> {
    let parsed = lang::load_str("conf/ip-router.click", ROUTER, &elements::options());
    let graph = parsed
        .graph
        .ok_or_else(|| Error::Configuration("the built-in configuration does not parse".into()))?;
    let devices = Arc::new(Bench::new(Pattern::gather(ROUTER)?, workers).with_misfits());
    let options = Options { placer: None, ..crate::options(devices.clone(), (workers, cores)) };
    let router = Router::build(&graph, &elements::registry(), options);
    let said = |errors: Vec<_>| Error::Configuration(lang::render(&errors, &parsed.sources, false));
    router.map(|router| (router, devices)).map_err(said)
}

/// What a moment of the run looks like.
struct Picture {
    forwarded: u64,
    drops: Vec<(&'static str, u64)>,
    icmp: u64,
}

fn picture(shared: &Shared, report: &Report) -> Picture {
    let mut picture = Picture { forwarded: 0, drops: Vec::new(), icmp: 0 };
    for (info, stats) in shared.elements.iter().zip(&report.elements) {
        let sent: u64 = stats.outputs.iter().map(|o| o.packets).sum();
        match info.class.name {
            "ARPQuerier" => picture.forwarded += stats.outputs.first().map_or(0, |o| o.packets),
            "ICMPError" | "ICMPPingResponder" => picture.icmp += sent,
            _ => {}
        }
        for (reason, n) in &stats.drops {
            match picture.drops.iter_mut().find(|d| d.0 == reason.name()) {
                Some(known) => known.1 += n,
                None => picture.drops.push((reason.name(), *n)),
            }
        }
    }
    picture.drops.sort_by_key(|d| std::cmp::Reverse(d.1));
    picture
}

/// Prints the state twice a second: in place on a terminal, line by line elsewhere.
fn view(control: &Control, devices: &Bench, width: usize, done: &AtomicBool) {
    let terminal = std::io::stdout().is_terminal();
    let (mut last, mut at) = (0, Instant::now());
    let mut next = at + Duration::from_millis(300);
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        if Instant::now() < next {
            continue;
        }
        next += Duration::from_millis(500);
        // By now the neighbours are known.
        devices.settle();
        let Some(report) = control.report() else { break };
        let now = picture(&control.shared(), &report);
        let rate = (now.forwarded - last) as f64 / at.elapsed().as_secs_f64() / 1e6;
        (last, at) = (now.forwarded, Instant::now());
        let drops: Vec<String> = now.drops.iter().take(4).map(|(why, n)| format!("{why} {n}")).collect();
        let line = format!("{rate:6.2} Mpps  ICMP answers {}  drops: {}", now.icmp, drops.join(", "));
        let mut out = std::io::stdout();
        // A line longer than the terminal would wrap and leave its beginning behind.
        let shown: String = if terminal {
            format!("\r\x1b[K{}", line.chars().take(width).collect::<String>())
        } else {
            format!("{line}\n")
        };
        let _ = out.write_all(shown.as_bytes()).and_then(|()| out.flush());
    }
    if terminal {
        outln!();
    }
}

fn summary(shared: &Shared, report: &Report, elapsed: Duration, cpu_ns: &[u64]) -> String {
    let now = picture(shared, report);
    let seconds = elapsed.as_secs_f64();
    let cpu: u64 = cpu_ns.iter().sum();
    let mut text = format!(
        "\n{} packets forwarded in {seconds:.1} s: {:.2} Mpps;\n{:.0} ns of processor time each, on {} workers.\n",
        now.forwarded,
        now.forwarded as f64 / seconds / 1e6,
        cpu as f64 / now.forwarded.max(1) as f64,
        cpu_ns.len()
    );
    text += &format!("{} answered by ICMP. Dropped, by reason:\n", now.icmp);
    for (name, n) in &now.drops {
        let meaning = engine::Reason::ALL.iter().find(|r| r.name() == *name).map_or("", |r| r.text());
        text += &format!("{n:>11}  {name:<13} {meaning}\n");
    }
    text += "\nBusiest elements (cycles for each packet pushed to them, sampled):\n";
    let mut busy: Vec<_> =
        shared.elements.iter().zip(&report.elements).filter(|(_, s)| s.cycles.packets > 1000).collect();
    busy.sort_by_key(|(_, s)| std::cmp::Reverse(s.cycles.cycles));
    for (info, stats) in busy.iter().take(8) {
        let per_packet = stats.cycles.cycles as f64 / stats.cycles.packets as f64;
        text += &format!("  {per_packet:>8.1}  {:<20} {}\n", info.name, info.class.name);
    }
    text += "\nNext: junctor init router eth0=10.0.0.1/24 eth1=10.0.1.1/24 > router.click\n      junctor run router.click\n";
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_demonstration_builds() {
        if let Err(why) = super::build(2, Vec::new()) {
            panic!("{why}");
        }
    }
}
