// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test gather`: asks agents for their counters again and again, and reports what happened between.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::channel::{AgentKey, Channel};
use super::counters::{self, Counters, Interface, Processor, Sys};
use super::words::{Ask, Hello};
use crate::error::ChannelError;
use crate::failure::print;
use crate::{Error, Failure};
use report::measure::{self, Measured};

/// How long an agent may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Rows of interrupts in the text.
const SHOWN: usize = 8;

/// Gather counters from agents ('junctor test agent') while something else is measured.
#[derive(Clone, Debug)]
pub struct Gather {
    /// Whom to ask.
    pub agents: Vec<Agent>,
    /// The file with the key that controller and agents share.
    pub key: PathBuf,
    /// For how long.
    pub time: Duration,
    /// Time between two readings.
    pub period: Duration,
    /// Whether one JSON object is printed.
    pub json: bool,
}

/// An agent as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub(crate) name: String,
    pub(crate) address: String,
}

impl Agent {
    /// Reads `NAME=ADDRESS:PORT` or `ADDRESS:PORT`.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<Agent, String> {
        let (name, address) = text.split_once('=').unwrap_or((text, text));
        let port = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if name.is_empty() || !port {
            return Err("expected ADDRESS:PORT or NAME=ADDRESS:PORT, such as dut=10.0.0.2:7001".to_owned());
        }
        Ok(Agent { name: name.to_owned(), address: address.to_owned() })
    }
}

/// What an agent reported.
#[derive(Debug, Default)]
struct Told {
    machine: Value,
    samples: Vec<Counters>,
    /// Its wall clock less ours, and by how much that may be wrong, in nanoseconds.
    clock: Option<(i64, u64)>,
    /// Why there are no more.
    lost: Option<String>,
}

/// Asks the agents for as long as was asked, and prints what they answered.
pub(crate) fn run(args: &Gather) -> Result<(), Failure> {
    let key = AgentKey::read(&args.key)?;
    let names: BTreeSet<&str> = args.agents.iter().map(|agent| agent.name.as_str()).collect();
    if names.len() < args.agents.len() {
        return Err(Failure::Usage("two agents have the same name".to_owned()));
    }
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone())
        .map_err(Error::system("cannot take signals"))?;
    let all = all(args, &key, &stop);
    let printed = if args.json {
        let results: Vec<Measured> =
            all.iter().flat_map(|(agent, told)| results(&agent.name, &told.samples)).collect();
        print(&format!("{}\n", object(args, &all, &results)))
    } else {
        let text: String = all.iter().map(|(agent, told)| text(agent, told)).collect();
        print(&text)
    };
    let lost =
        all.iter().filter_map(|(agent, told)| Some(format!("{}: {}", agent.name, told.lost.as_ref()?)));
    let lost: Vec<String> = lost.collect();
    let mut causes: Vec<String> = printed.err().iter().map(Error::to_string).collect();
    if !lost.is_empty() {
        causes.push(lost.join("; "));
    }
    Failure::unless_empty(causes)
}

/// Asks all agents, each in a thread of its own.
fn all<'a>(args: &'a Gather, key: &AgentKey, stop: &AtomicBool) -> Vec<(&'a Agent, Told)> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = args
            .agents
            .iter()
            .map(|agent| {
                scope.spawn(move || {
                    let mut told = Told::default();
                    if let Err(why) = one(args, agent, key, stop, start, &mut told) {
                        told.lost = Some(format!("{}: {why}", agent.address));
                    }
                    (agent, told)
                })
            })
            .collect();
        // A thread that panics has said why.
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

fn one(
    args: &Gather,
    agent: &Agent,
    key: &AgentKey,
    stop: &AtomicBool,
    start: Instant,
    told: &mut Told,
) -> Result<(), ChannelError> {
    let mut channel = Channel::connect(&agent.address, key, PATIENCE)?;
    channel.say(&Ask::Hello)?;
    told.machine = channel.hear::<Hello>()?.machine;
    let mut due = start;
    loop {
        while Instant::now() < due && !stop.load(Relaxed) {
            std::thread::sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
        }
        let (asked, timer) = (counters::wall_ns(), Instant::now());
        channel.say(&Ask::Counters)?;
        let counters = channel.hear::<Result<Counters, String>>()?.map_err(std::io::Error::other)?;
        let half = timer.elapsed().as_nanos() as u64 / 2;
        // The counters were read somewhere between question and answer.
        let clock = (counters.at_ns as i64 - (asked + half) as i64, half);
        if told.clock.is_none_or(|known| half < known.1) {
            told.clock = Some(clock);
        }
        told.samples.push(counters);
        if stop.load(Relaxed) || due.saturating_duration_since(start) >= args.time {
            return Ok(());
        }
        due += args.period;
    }
}

/// What was counted a second, in each period; nothing where a counter was set back meanwhile.
fn rates(samples: &[Counters], count: impl Fn(&Counters) -> Option<u64>) -> Vec<f64> {
    let pairs = samples.windows(2).filter_map(|pair| {
        let seconds = (pair[1].uptime_ns - pair[0].uptime_ns) as f64 / 1e9;
        // What is new since the reading before began at nothing.
        let counted = count(&pair[1])?.checked_sub(count(&pair[0]).unwrap_or(0))?;
        (seconds > 0.0).then(|| counted as f64 / seconds)
    });
    pairs.collect()
}

/// Names of interfaces, and of other rows, that any sample has.
fn names<'a, T: Iterator<Item = &'a String> + 'a>(
    samples: &'a [Counters],
    of: impl Fn(&'a Counters) -> T,
) -> BTreeSet<&'a str> {
    samples.iter().flat_map(of).map(String::as_str).collect()
}

/// A counter of an interface: its name, its unit, and by what it is divided.
type Column = (&'static str, &'static str, f64, fn(&Interface) -> u64);

const INTERFACE: [Column; 8] = [
    ("rx_mpps", "Mpps", 1e6, |i| i.rx_packets),
    ("rx_mbit_per_s", "Mbit/s", 1e6 / 8.0, |i| i.rx_bytes),
    ("rx_dropped_per_s", "1/s", 1.0, |i| i.rx_dropped),
    ("rx_errors_per_s", "1/s", 1.0, |i| i.rx_errors),
    ("tx_mpps", "Mpps", 1e6, |i| i.tx_packets),
    ("tx_mbit_per_s", "Mbit/s", 1e6 / 8.0, |i| i.tx_bytes),
    ("tx_dropped_per_s", "1/s", 1.0, |i| i.tx_dropped),
    ("tx_errors_per_s", "1/s", 1.0, |i| i.tx_errors),
];

/// The same of counters that not every machine reports.
type Rare = (&'static str, fn(&Sys) -> u64);

const RARE: [Rare; 3] = [
    ("rx_missed_per_s", |sys| sys.rx_missed),
    ("rx_nohandler_per_s", |sys| sys.rx_nohandler),
    ("carrier_changes_per_s", |sys| sys.carrier_changes),
];

fn rare(samples: &[Counters], name: &str, (_, of): Rare) -> Vec<f64> {
    let known = |c: &Counters| c.interfaces.get(name)?.sys.as_ref().map(of);
    // Where one reading has none, the next does not count from nothing.
    let pairs = samples.windows(2).filter(|pair| known(&pair[0]).is_some());
    pairs.flat_map(|pair| rates(pair, known)).collect()
}

fn interface(samples: &[Counters], name: &str, (_, _, divisor, of): Column) -> Vec<f64> {
    let rates = rates(samples, |c| c.interfaces.get(name).map(of));
    rates.into_iter().map(|rate| rate / divisor).collect()
}

/// The share of a processor's time that went into a part, in each period.
fn share(samples: &[Counters], cpu: usize, part: usize) -> Vec<f64> {
    let ticks = |c: &Counters| Some(c.processors.get(cpu)?.parts().map(|(_, ticks)| ticks));
    let pairs = samples.windows(2).filter_map(|pair| {
        let (now, then) = (ticks(&pair[1])?, ticks(&pair[0])?);
        let spent: Vec<u64> = now.iter().zip(then).map(|(now, then)| now.saturating_sub(then)).collect();
        let all: u64 = spent.iter().sum();
        (all > 0).then(|| spent[part] as f64 / all as f64)
    });
    pairs.collect()
}

fn sum(counts: Option<&Vec<u64>>) -> Option<u64> {
    counts.map(|counts| counts.iter().sum())
}

/// How busy all processors together were between two readings, and what share of their time softirqs took; 0 to 1.
pub(super) fn busy(pair: &[Counters; 2]) -> [f64; 2] {
    let mut spent = [0; 6];
    for (now, then) in pair[1].processors.iter().zip(&pair[0].processors) {
        let parts =
            now.parts().into_iter().zip(then.parts()).map(|((_, now), (_, then))| now.saturating_sub(then));
        spent.iter_mut().zip(parts).for_each(|(sum, ticks)| *sum += ticks);
    }
    let [_, _, _, softirq, steal, idle] = spent;
    let all = spent.iter().sum::<u64>().max(1) as f64;
    [1.0 - (steal + idle) as f64 / all, softirq as f64 / all].map(|share| share.max(0.0))
}

/// All that happened between these readings, by names that begin with the agent's.
pub(super) fn results(agent: &str, samples: &[Counters]) -> Vec<Measured> {
    let mut all = Vec::new();
    let mut note = |name: String, unit, runs: Vec<f64>| {
        if !runs.is_empty() {
            all.push(Measured::new(format!("gather.{agent}.{name}"), unit, runs));
        }
    };
    for name in names(samples, |c| c.interfaces.keys()) {
        for column in INTERFACE {
            note(format!("{}.{name}", column.0), column.1, interface(samples, name, column));
        }
        for column in RARE {
            note(format!("{}.{name}", column.0), "1/s", rare(samples, name, column));
        }
    }
    let cpus = samples.first().map_or(0, |c| c.processors.len());
    for cpu in 0..cpus {
        for (part, (name, _)) in Processor::default().parts().into_iter().enumerate() {
            note(format!("cpu_share.{name}.{cpu}"), "", share(samples, cpu, part));
        }
    }
    for name in names(samples, |c| c.softirqs.keys()) {
        note(format!("softirqs_per_s.{name}"), "1/s", rates(samples, |c| sum(c.softirqs.get(name))));
    }
    for name in names(samples, |c| c.interrupts.keys()) {
        note(format!("interrupts_per_s.{name}"), "1/s", rates(samples, |c| sum(c.interrupts.get(name))));
    }
    all
}

fn object(args: &Gather, all: &[(&Agent, Told)], results: &[Measured]) -> Value {
    let agent = |(agent, told): &(&Agent, Told)| {
        json!({
            "name": agent.name, "address": agent.address, "machine": told.machine, "lost": told.lost,
            "clock_offset_ns": told.clock.map(|c| c.0), "clock_error_ns": told.clock.map(|c| c.1),
        })
    };
    let conditions = json!({
        "agents": all.iter().map(agent).collect::<Value>(), "seconds": args.time.as_secs_f64(),
        "period_seconds": args.period.as_secs_f64(),
    });
    let mut object = measure::object("test gather", &conditions, results);
    let samples = all.iter().map(|(agent, told)| (agent.name.clone(), json!(told.samples)));
    object["samples"] = Value::Object(samples.collect());
    object
}

/// For people.
fn text(agent: &Agent, told: &Told) -> String {
    let samples = &told.samples;
    let mut text = format!("{} ({})", agent.name, agent.address);
    if let Some((offset, error)) = told.clock {
        text +=
            &format!(", its clock {:+.3} ms of ours, within {:.3}", offset as f64 / 1e6, error as f64 / 1e6);
    }
    text += &format!(", {} readings\n", samples.len());
    if let Some(why) = &told.lost {
        text += &format!("  lost: {why}\n");
    }
    if samples.len() < 2 {
        return text;
    }
    let median = |runs: Vec<f64>| Measured::new("", "", runs).median();
    text += &format!("  {:<16}", "interface");
    INTERFACE.iter().for_each(|column| text += &format!(" {:>16}", column.0));
    for name in names(samples, |c| c.interfaces.keys()) {
        text += &format!("\n  {name:<16}");
        for column in INTERFACE {
            text += &format!(" {:>16.3}", median(interface(samples, name, column)));
        }
    }
    for name in names(samples, |c| c.interfaces.keys()) {
        for column in RARE {
            let most = rare(samples, name, column).into_iter().fold(0.0, f64::max);
            if most > 0.0 {
                text += &format!("\n  {name}: {} up to {most:.3}", column.0);
            }
        }
    }
    text += &format!("\n  {:<16}", "processor, %");
    Processor::default().parts().iter().for_each(|(name, _)| text += &format!(" {name:>8}"));
    for cpu in 0..samples[0].processors.len() {
        text += &format!("\n  {cpu:<16}");
        (0..6).for_each(|part| text += &format!(" {:>8.1}", 100.0 * median(share(samples, cpu, part))));
    }
    text += "\n";
    let mut most = |title: &str, rows: Vec<(&str, f64)>| {
        let mut rows: Vec<(&str, f64)> = rows.into_iter().filter(|row| row.1 > 0.0).collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        let shown = rows.iter().take(SHOWN).map(|(name, rate)| format!("  {rate:>14.0}  {name}\n"));
        text += &format!("  {title} a second\n{}", shown.collect::<String>());
        if rows.len() > SHOWN {
            text += &format!("  {:>14}  ... and {} more with --json\n", "", rows.len() - SHOWN);
        }
    };
    let softirqs = names(samples, |c| c.softirqs.keys());
    most(
        "softirqs",
        softirqs.into_iter().map(|n| (n, median(rates(samples, |c| sum(c.softirqs.get(n)))))).collect(),
    );
    let interrupts = names(samples, |c| c.interrupts.keys());
    most(
        "interrupts",
        interrupts.into_iter().map(|n| (n, median(rates(samples, |c| sum(c.interrupts.get(n)))))).collect(),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, packets: u64, busy: u64) -> Counters {
        let interface = Interface { rx_packets: packets, rx_bytes: 64 * packets, ..Interface::default() };
        Counters {
            uptime_ns: second * 1_000_000_000,
            interfaces: [("eth0".to_owned(), interface)].into(),
            processors: vec![Processor { softirq: busy, idle: 100 * second - busy, ..Processor::default() }],
            softirqs: [("NET_RX".to_owned(), vec![packets / 10, packets / 10])].into(),
            ..Counters::default()
        }
    }

    #[test]
    fn rates_are_of_each_period() {
        let samples = [sample(1, 0, 0), sample(2, 1_000_000, 25), sample(4, 5_000_000, 175)];
        let results = results("dut", &samples);
        let runs = |name: &str| {
            results.iter().find(|r| r.name == format!("gather.dut.{name}")).map(|r| r.runs.clone())
        };
        assert_eq!(runs("rx_mpps.eth0"), Some(vec![1.0, 2.0]));
        assert_eq!(runs("rx_mbit_per_s.eth0"), Some(vec![512.0, 1024.0]));
        assert_eq!(runs("cpu_share.softirq.0"), Some(vec![0.25, 0.75]));
        assert_eq!(runs("softirqs_per_s.NET_RX"), Some(vec![200_000.0, 400_000.0]));
        assert_eq!(runs("rx_mpps.eth1"), None);
    }

    #[test]
    fn an_interface_that_comes_goes_or_begins_anew_has_no_wrong_rate() {
        let mut samples = vec![sample(1, 5, 0), sample(2, 2, 0), sample(3, 4, 0)];
        samples[2].interfaces.insert("new".to_owned(), Interface { tx_packets: 7, ..Interface::default() });
        let column = INTERFACE[0];
        assert_eq!(interface(&samples, "eth0", column), [2e-6], "the first period has the counter set back");
        assert_eq!(interface(&samples, "new", INTERFACE[4]), [7e-6]);
    }

    #[test]
    fn a_link_that_went_down_and_came_back_shows() {
        let mut samples = vec![sample(1, 0, 0), sample(2, 0, 0), sample(4, 0, 0), sample(5, 0, 0)];
        for (sample, changes) in samples.iter_mut().zip([None, Some(4), Some(6), Some(6)]) {
            let sys = changes.map(|carrier_changes| Sys { carrier_changes, ..Sys::default() });
            sample.interfaces.get_mut("eth0").expect("the interface").sys = sys;
        }
        let all = results("dut", &samples);
        let one =
            |name: &str| all.iter().find(|r| r.name == format!("gather.dut.{name}")).map(|r| r.runs.clone());
        assert_eq!(one("carrier_changes_per_s.eth0"), Some(vec![1.0, 0.0]));
        let agent = Agent::parse("dut=host:1").expect("an agent");
        let told = text(&agent, &Told { samples, ..Told::default() });
        assert!(told.contains("eth0: carrier_changes_per_s up to 1.000\n"), "{told}");
    }

    #[test]
    fn names_of_agents() {
        let agent = Agent::parse("dut=[::1]:7001").expect("an agent");
        assert_eq!((agent.name.as_str(), agent.address.as_str()), ("dut", "[::1]:7001"));
        assert_eq!(Agent::parse("host:1").expect("an agent").name, "host:1");
        for bad in ["", "host", "=host:1", "dut=host", "dut=:1", "host:70000"] {
            assert!(Agent::parse(bad).is_err(), "{bad}");
        }
    }
}
