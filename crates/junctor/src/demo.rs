// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor demo`: the standard IP router on in-process wires with live traffic, a live view, and a summary. Needs no
//! root and no network card.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::clock::TimeSource;
use engine::{Control, Options, Report, Router, Shared};

use crate::outcome;
use harness::{Bench, Pattern};

/// Run a router on in-process wires with live traffic: no root and no network card needed.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor demo
  junctor demo --seconds 30 -j 2
  junctor demo --config > my-router.click")]
pub(crate) struct Args {
    /// How long to run.
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    seconds: u64,
    /// Workers [default: all cores].
    #[arg(short = 'j', long = "threads", value_name = "WORKERS")]
    workers: Option<usize>,
    /// Print the router's configuration and end.
    #[arg(long)]
    config: bool,
}

/// The router of the demonstration.
const ROUTER: &str = include_str!("../../../conf/ip-router.click");

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if args.config {
        return outcome::print_or_fail(ROUTER.as_bytes());
    }
    let cores: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|c| c.id).collect();
    let workers = args.workers.unwrap_or(cores.len()).clamp(1, 64);
    let (mut router, devices) = match build(workers, cores) {
        Ok(built) => built,
        Err(why) => return outcome::fail(why),
    };
    outln!("An IPv4 router (conf/ip-router.click) on two in-process wires, {workers} workers.");
    outln!("Traffic: mostly UDP through the router, and some packets that ought not to pass.\n");
    let done = AtomicBool::new(false);
    let control = router.control();
    router.stop_after(Duration::from_secs(args.seconds.clamp(1, 86_400)));
    let started = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| view(&control, &devices, &done));
        services::running::run(&mut router, None, None, drop);
        done.store(true, Ordering::Relaxed);
    });
    out!("{}", summary(router.shared(), &router.report(), started.elapsed(), &router.cpu_ns()));
    0
}

fn build(workers: usize, cores: Vec<usize>) -> Result<(Router, Arc<Bench>), String> {
    let parsed = lang::load_str("conf/ip-router.click", ROUTER, &elements::options());
    let graph = parsed.graph.ok_or("the built-in configuration does not parse")?;
    let devices = Arc::new(Bench::new(Pattern::gather(ROUTER)?, workers).with_misfits());
    let options = Options {
        provider: devices.clone(),
        workers,
        reserve: 0,
        cores,
        burst: engine::DEFAULT_BURST,
        time: TimeSource::Real,
        seed: 1,
        // Which driver serves a wire, and the first bad header, are no news here.
        print: Some(Box::new(|_| {})),
        placer: None,
    };
    let router = Router::build(&graph, &elements::registry(), options);
    router.map(|r| (r, devices)).map_err(|errors| lang::render(&errors, &parsed.sources, false))
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
fn view(control: &Control, devices: &Bench, done: &AtomicBool) {
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
            format!("\r\x1b[K{}", line.chars().take(width()).collect::<String>())
        } else {
            format!("{line}\n")
        };
        let _ = out.write_all(shown.as_bytes()).and_then(|()| out.flush());
    }
    if terminal {
        outln!();
    }
}

/// Columns that a line may take.
fn width() -> usize {
    let said = || std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let terminal = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)).filter(|n| *n > 0);
    terminal.or_else(said).unwrap_or(80).max(20) - 1
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
