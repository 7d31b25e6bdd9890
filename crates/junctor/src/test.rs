// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test`: the tester, against any device under test.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tester::management::Answers;
use tester::search::{Ledger, contents, setup};
use tester::station::Station;
use tester::trial::Trial;

use crate::cli;
use agent::{Agent, Key, Machines, Remote};
use device::{Driver, FlowLine, Name, Plugged, Setup, Traffic};
use filters::Case;
use log::Log;
use output::Output;
use record::{Found, Managed};
use variant::{Filtered, Seen};

mod agent;
mod campaign;
mod compare;
mod device;
mod filters;
pub(crate) mod inside;
mod interrupt;
mod log;
mod mlr;
mod modifiers;
mod networks;
mod output;
mod procedures;
mod quantiles;
mod record;
mod report;
mod reset;
mod rfc2544;
mod rfc2889;
mod rfc5180;
mod rfc8219;
mod rfc9004;
mod search;
mod streams;
mod trial;
mod variant;

/// Test a device: how much it forwards, how late, and what it does to the frames.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Rfc2544(rfc2544::Rfc2544),
    Rfc2889(rfc2889::Rfc2889),
    Rfc5180(Box<rfc5180::Rfc5180>),
    Rfc8219(rfc8219::Rfc8219),
    Rfc9004(rfc9004::Rfc9004),
    Mlr(mlr::Mlr),
    Soak(search::Soak),
    Trial(trial::Args),
    Compare(compare::Args),
    Campaign(campaign::Args),
    Agent(agent::Args),
    Gather(agent::Gather),
    /// Start a device's command, for the tester.
    #[command(hide = true)]
    StartDevice {
        /// The tester's process.
        tester: u32,
        /// The command, for a shell.
        line: String,
    },
    /// Run a device's command, as the first of its processes.
    #[command(hide = true)]
    RunDevice {
        /// The command, for a shell.
        line: String,
    },
}

/// Room for as many jumbo frames as fit into the rings between a tester and a device in memory; those that nobody uses cost nothing.
fn memory() -> packet::Config {
    packet::Config { jumbo_frames: 8192, ..packet::Config::default() }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if let Err(why) = interrupt::be_attended() {
        return cli::fail(why);
    }
    let measures = !matches!(
        args.command,
        Command::Compare(_) | Command::Campaign(_) | Command::Gather(_) | Command::StartDevice { .. }
    );
    if measures && let Err(why) = packet::Memory::reserve(memory()) {
        return cli::fail(why);
    }
    match &args.command {
        Command::Rfc2544(args) => rfc2544::main(args),
        Command::Rfc2889(args) => rfc2889::main(args),
        Command::Rfc5180(args) => rfc5180::main(args),
        Command::Rfc8219(args) => rfc8219::main(args),
        Command::Rfc9004(args) => rfc9004::main(args),
        Command::Mlr(args) => mlr::main(args),
        Command::Soak(args) => search::soak(args),
        Command::Trial(args) => trial::main(args),
        Command::Compare(args) => compare::main(args),
        Command::Campaign(args) => campaign::main(args),
        Command::Agent(args) => agent::main(args),
        Command::Gather(args) => agent::gather(args),
        Command::StartDevice { tester, line } => device::start_command(*tester, line),
        Command::RunDevice { line } => device::run_command(line),
    }
}

/// What is said of devices in the help of each test.
const DEVICES: &str = "Devices:
  self:CONF        a configuration in this process, on ports in memory; its lines '// bench: PORT KEY=VALUE ...'
                   say what to send
  kernel-router    the kernel's IP forwarding, kernel-bridge its bridge, in a rig: network namespaces and virtual
                   cables that are built for the test and go with it (needs root); kernel-bridge:4 has four ports, of
                   which each sends to the next, or with --mesh to all others
  passthrough      a plain user-space forwarder in such a rig: two packet sockets, two system calls for each frame
  command:LINE     what a shell makes of LINE in such a rig; {IF1} {IF2} are the device's interfaces, {MAC1} {MAC2}
                   their Ethernet addresses, {ADDR1} {ADDR2} the addresses a router is to have there, {NET1} {NET2}
                   the hosts' networks, {CORES} the device's cores; also in the environment (JUNCTOR_IF1 ...)
  ports:IF1,IF2    what is behind interfaces of this machine, which must have no addresses. A router there has
                   198.18.0.1/24 and 198.19.0.1/24 (2001:2:0:1::1/64 and 2001:2:0:8001::1/64), unless --flow says more
  agents:A/IF1,B/IF2
                   what is between interfaces of other machines, on each of which an agent runs (junctor test agent): A and B
                   are [NAME=]ADDRESS:PORT of these, --key names the file of their key. Interfaces, flows and routers as with
                   ports:, with NAME, or ADDRESS:PORT/IF, as the port's name
  cable, veth      two ports of the tester's joined, in memory or by a virtual cable

A flow's words: ether=MAC (the device's), via=ADDRESS (who is asked for it), src=PREFIX, dst=PREFIX[,PREFIX], flows=N;
for bridges from=MAC to=MAC stations=N.
  --flow 'eth1 via=10.0.0.1 src=10.0.0.128/25 dst=10.0.1.128/25 flows=100'

Drivers: af_xdp and af_packet send what the tester writes, frame by frame. With bpf the kernel generates the frames by the same
schedule (BPF_PROG_RUN on live frames: Linux 5.18, CAP_BPF and CAP_NET_ADMIN): several times as many, of up to 3372 bytes,
IPv4 or IPv6 at one port but not both. It takes a core for each port that sends; where there are too few, the tester's, and
then one direction (--one-way) is paced best. The driver of the interface must send what XDP programs redirect; a virtual cable
does when its other end has 'ethtool -K OTHER_END gro on'.

Before each test the tester is measured on a cable of the same kind, driven likewise.
";

/// The end of a test's help: what is its own, and what it shares with the others.
fn help(own: &str) -> String {
    format!("{own}\n\n{DEVICES}")
}

/// What all tests need to know.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// The device under test: self:CONF, kernel-router[:PORTS], kernel-bridge[:PORTS], passthrough, command:LINE,
    /// ports:IF1,IF2, agents:AGENT/IF1,AGENT/IF2, cable or veth.
    #[arg(value_name = "DEVICE", value_parser = Name::parse)]
    device: Name,
    /// What drives the tester's ports where they are network interfaces: bpf has the kernel generate the frames.
    #[arg(long, value_enum, default_value_t = Driver::Auto)]
    driver: Driver,
    /// What a port sends, beyond what is known of the device; may be repeated.
    #[arg(long, value_name = "'PORT KEY=VALUE ...'", value_parser = FlowLine::parse)]
    flow: Vec<FlowLine>,
    /// The device is a bridge: frames are addressed to the hosts behind it.
    #[arg(long)]
    bridged: bool,
    /// Flows of IPv6, where the device does not say; and frame sizes that have room for them, where none are named.
    #[arg(long)]
    ipv6: bool,
    /// Flows of the other family are known, too.
    #[arg(skip)]
    both: bool,
    /// File with the key of the agents.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// An agent on another machine of the test, such as the device: in each trial it reports what that machine counts; may be repeated.
    #[arg(long, value_name = "NAME=ADDRESS:PORT", value_parser = Agent::parse, requires = "key")]
    agent: Vec<Agent>,
    /// A file with the device's configuration, for the report (RFC 2544, section 7), where the tester does not see it.
    #[arg(long, value_name = "FILE", value_parser = text)]
    configuration: Option<String>,
    /// Seconds that the device may take until it forwards.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    warm_up: Duration,
    /// Only the first port sends.
    #[arg(long)]
    one_way: bool,
    /// Cores of the device: workers of self:CONF [default: 1]; cores that a command may use, or the kernel or the forwarder, which use
    /// one for each of two interfaces at most [default: all that are left]. Other devices take none of this machine's.
    #[arg(short = 'j', long = "threads", value_name = "WORKERS", value_parser = workers)]
    workers: Option<usize>,
    /// Seconds for which frames may still arrive after the last was sent [RFC 2544: 2].
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    stragglers: Duration,
    /// What makes the keys of the frames.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    modifiers: modifiers::Modifiers,
    #[command(flatten)]
    output: Output,
}

impl Common {
    /// Frames of `size` bytes with FCS.
    fn traffic(&self, size: usize) -> Traffic {
        let longest = self.modifiers.longest().unwrap_or(size);
        Traffic { size, longest, one_way: self.one_way, stragglers: self.stragglers, seed: self.seed }
    }

    fn setup(&self) -> Setup {
        let Common { workers, driver, bridged, ipv6, both, .. } = *self;
        Setup { workers, driver, flows: self.flow.clone(), bridged, ipv6, both, key: self.key.clone() }
    }

    /// Sees that the device can have the cores that are asked for, before anything is measured.
    fn check_workers(&self) -> Result<(), String> {
        let Some(workers) = self.workers else { return Ok(()) };
        self.device.check_workers(workers)
    }

    /// Starts the device, and lets it learn who is where.
    fn plug(&self, size: usize) -> Result<Plugged, String> {
        let mut plugged = device::plug(&self.device, &self.setup(), &self.traffic(size))?;
        plugged.station.warm_up(self.warm_up).map_err(|why| why.to_string())?;
        if self.modifiers.are_any() {
            self.modifiers.apply(&mut plugged.station, self.seed)?;
            plugged.station.warm_up(self.warm_up).map_err(|why| why.to_string())?;
        }
        Ok(plugged)
    }

    /// Keeps all trials from now on, and what the machines whose agents are known do in each.
    fn keep(&self, station: &mut Station, size: usize, show: bool) -> Result<Log, String> {
        let log = Log::of(station, size, show);
        let mut agents = self.device.agents();
        agents.extend(self.agent.iter().map(|agent| (agent.name.clone(), agent.address.clone())));
        if agents.is_empty() {
            return Ok(log);
        }
        let key = Key::read(self.key.as_ref().ok_or("--key names the file of the agents' key")?)?;
        let mut connected: Vec<(String, Remote)> = Vec::new();
        for (name, address) in agents {
            if connected.iter().any(|(known, _)| *known == name) {
                return Err(format!("two agents are called {name}; --agent NAME=ADDRESS:PORT names one"));
            }
            let agent = Remote::connect(format!("{name} ({address})"), &address, &key)?;
            connected.push((name, agent));
        }
        let readings = log.clone();
        station.gauge(Machines::new(connected, move |all| readings.read(all))?);
        Ok(log)
    }

    /// The device's configuration, as far as anybody told it.
    fn configuration(&self, facts: &Facts) -> Option<String> {
        let seen = || self.device.configuration().or_else(|| facts.configuration.clone());
        // What runs in this process is known for certain.
        let given = self.configuration.clone().filter(|_| !matches!(self.device, Name::Own(_)));
        given.or_else(seen)
    }

    /// Under which conditions a test ran, for its record.
    fn conditions(&self, facts: &Facts) -> Map<String, Value> {
        let ports: Vec<Value> =
            facts.ports.iter().map(|(name, driver)| json!({ "name": name, "driver": driver })).collect();
        let conditions = json!({
            "device": self.device.to_string(), "configuration": self.configuration(facts),
            "workers": facts.workers.or(self.workers).unwrap_or(1), "one_way": self.one_way, "stragglers_s": self.stragglers.as_secs_f64(),
            "seed": self.seed, "ipv6": self.ipv6, "senders": facts.senders, "flows": facts.flows, "own_core": facts.own_core,
            "left_out": facts.left_out, "ports": ports, "notes": facts.notes,
            "calibrated_on": facts.cable.as_ref().map(|cable| &cable.what), "modifiers": self.modifiers.json(),
            "imix_sizes": self.modifiers.letters(facts.longest),
            "agents": facts.agents, "filters": facts.filter_lines(|filtered| &filtered.list),
            "filter_commands": facts.filter_lines(|filtered| &filtered.commands),
            "routing": self.modifiers.networks().map(|_| &facts.routing), "frame_format": contents::FORMAT,
        });
        conditions.as_object().cloned().unwrap_or_default()
    }

    /// What the documents ask of every test; trials were carried out with frames of these sizes.
    fn asked(&self, sizes: &[usize], medium: bool, settle: Duration, facts: &Facts) -> Ledger {
        setup::ledger(&setup::Setup {
            sizes: sizes.to_vec(),
            untried: sizes.is_empty(),
            senders: facts.senders,
            flows: facts.flows,
            stragglers: self.stragglers,
            settle,
            medium: medium || facts.link_bits.is_some(),
            modified: self.modifiers.are_any(),
            ports: facts.ports.len(),
            beside: facts.beside.clone(),
            beside_unsent: facts.beside_unsent,
            answers: facts.answers,
            ahead: facts.ahead,
            uneven: (self.driver == Driver::Bpf).then_some(UNEVEN),
            mix: self.modifiers.mix(facts.longest),
            bursts: self
                .modifiers
                .burst()
                .into_iter()
                .chain(self.modifiers.bursts().iter().copied())
                .collect(),
            steady: self.modifiers.burst().is_none(),
            reach: facts.reach,
            bridged: facts.bridged,
            random_ports: self.modifiers.random_ports(),
            random_macs: self.modifiers.random_macs(),
            networks: self.modifiers.networks(),
            each_modifier: self.modifiers.each().then(|| facts.undone.clone()),
            filters: self
                .modifiers
                .filters()
                .then(|| facts.filters_seen(self.modifiers.filter_command().is_some())),
            routing: facts.routing.clone(),
            announced: facts.announced,
            configuration: matches!(self.device, Name::Cable | Name::Veth)
                || self.configuration(facts).is_some(),
            // What is of this program, or of this machine's kernel; the rest is told by whoever tells the configuration.
            version: !matches!(self.device, Name::Ports(_) | Name::Agents(_) | Name::Command(_))
                || self.configuration.is_some(),
        })
    }
}

/// What is in a file.
fn text(file: &str) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|why| format!("cannot be read: {why}; name a text file"))
}

/// Why frames beside the test's are not exactly where they ought to be.
const UNEVEN: &str =
    "the kernel generates the test's frames, and the tester adds others when it sees how many have left";

/// What only the running device tells.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// How many ports send.
    senders: usize,
    /// Flows of all these.
    flows: usize,
    /// To which ports they send.
    reach: setup::Reach,
    /// Whether the device looks at Ethernet addresses only.
    bridged: bool,
    /// Bits a second of the ports' links, where they have a speed.
    link_bits: Option<u64>,
    /// The longest frame that the ports take.
    longest: usize,
    /// Whether the tester has a core that the device does not use.
    own_core: bool,
    /// Cores that the device has.
    workers: Option<usize>,
    /// The device's own addresses, from and to which nothing is sent.
    left_out: Vec<IpAddr>,
    /// The tester's ports, with driver and mode.
    ports: Vec<(String, String)>,
    /// They are in this process's memory.
    in_memory: bool,
    /// How the device was built.
    notes: Vec<String>,
    /// How it is configured, where that shows only when it is there.
    configuration: Option<String>,
    /// How it gets routes.
    routing: String,
    /// Whether trials with many networks begin with routing updates of all of them.
    announced: bool,
    /// On what the tester was measured, and what it reached there.
    cable: Option<Cable>,
    /// The machines that have the ports, if they are not this one.
    agents: Value,
    /// Modifiers that were asked for and could not be applied, and why.
    undone: Vec<String>,
    /// What was sent beside the test's frames.
    beside: Vec<setup::Beside>,
    /// How many of these were due and not sent.
    beside_unsent: u64,
    /// Questions of management, and what came of them.
    answers: Answers,
    /// How long before a trial's frames updates of routes were sent.
    ahead: Duration,
    /// The filters that were set.
    filters: Vec<Filtered>,
}

impl Facts {
    /// Lines about the filters, by the names that results have.
    fn filter_lines(&self, of: impl Fn(&Filtered) -> &str) -> Value {
        let all = self.filters.iter().map(|filtered| (filtered.name.clone(), of(filtered).lines().collect()));
        if self.filters.is_empty() { Value::Null } else { Value::Object(all.collect()) }
    }

    /// The same with a note on what was seen of each of the filters.
    fn with_filters_noted(&self) -> Facts {
        let note =
            |filtered: &Filtered| format!("{}: {}", filtered.name.replace('_', " "), filtered.seen.words());
        let notes = self.notes.iter().cloned().chain(self.filters.iter().map(note)).collect();
        Facts { notes, ..self.clone() }
    }

    /// What of these a document asks for; whether a command of the user's set them.
    fn filters_seen(&self, by_command: bool) -> setup::Filters {
        let cases: BTreeSet<&str> = self.filters.iter().map(|filtered| &*filtered.name).collect();
        let thirteenth = Case::Thirteenth.name();
        let not_seen = self.filters.iter().filter(|filtered| !matches!(filtered.seen, Seen::Stopped(_)));
        setup::Filters {
            cases: cases.iter().filter(|name| **name != thirteenth).count(),
            thirteenth: cases.contains(&thirteenth),
            doubt: not_seen.map(|filtered| format!("{}: {}", filtered.name, filtered.seen.words())).next(),
            by_command,
        }
    }

    fn of(plugged: &Plugged, cable: &Cable) -> Facts {
        let station = &plugged.station;
        Facts {
            senders: plugged.senders,
            flows: station.flows(),
            reach: setup::Reach::of(station.plan()),
            bridged: plugged.bridged,
            link_bits: plugged.link_bits,
            longest: station.longest(),
            own_core: plugged.own_core,
            workers: Some(plugged.workers),
            left_out: station.left_out(),
            ports: station.drivers(),
            in_memory: plugged.in_memory,
            notes: plugged.notes.clone(),
            configuration: plugged.configuration.clone(),
            routing: plugged.routing.words().to_owned(),
            announced: false,
            cable: Some(cable.clone()),
            agents: plugged.agents.clone(),
            undone: Vec::new(),
            beside: Vec::new(),
            beside_unsent: 0,
            answers: Answers::default(),
            ahead: Duration::ZERO,
            filters: Vec::new(),
        }
    }

    /// What became of the frames beside the test's in the trials found, of which it notes the results. For people; nothing if all is well
    /// and nobody was asked anything.
    fn beside(&mut self, found: &mut Found) -> String {
        let mut managed: Option<Managed> = None;
        // Warming up, the device may not know yet who asks.
        for trial in found.trials.iter().filter(|trial| !trial.warms_up()) {
            self.beside_unsent += trial.beside_unsent;
            if let Some(one) = trial.management {
                managed.get_or_insert_default().add(one);
            }
        }
        let mut text = String::new();
        if self.beside_unsent > 0 {
            text += &format!(
                "  {} of the frames beside the test's could not be sent: the tester's fault.\n",
                self.beside_unsent
            );
        }
        if let Some(all) = managed {
            let Managed { asked, right, wrong, .. } = all;
            self.answers = Answers { asked, right, wrong };
            text += &format!("  Management: {}.\n", all.words());
            for (name, frames) in [
                ("asked", asked),
                ("answers_right", right),
                ("answers_wrong", wrong),
                ("answers_missing", all.missing),
            ] {
                found.note(format!("test.management.{name}"), "frames", frames as f64);
            }
        }
        text
    }

    /// What drives the tester's ports, and how the device was built.
    fn built(&self) -> String {
        let mut text = self.cable.as_ref().map(Cable::text).unwrap_or_default();
        if !self.in_memory {
            self.ports.iter().for_each(|(name, driver)| text += &format!("  {name}: {driver}\n"));
        }
        self.notes.iter().for_each(|note| text += &format!("  {note}\n"));
        text
    }
}

/// Says which flows are not sent.
fn left_out(addresses: &[IpAddr]) -> String {
    match addresses {
        [] => String::new(),
        some => {
            let list: Vec<String> = some.iter().map(IpAddr::to_string).collect();
            format!("  No flows from or to {}: the device's own.\n", list.join(", "))
        }
    }
}

/// What to say where there are too few cores.
const SHARED_CORE: &str = "  The tester shares a core with the device: both are slower for it. \
    Fewer workers (-j), or a machine with more cores, leave it one.\n";

/// What the tester reaches by itself.
#[derive(Clone, Debug)]
struct Cable {
    /// Frames a second, all ports together.
    rate: f64,
    /// Median latency of a frame at a hundredth of it.
    latency_ns: u64,
    /// What joined its ports.
    what: String,
}

impl Cable {
    /// For people.
    fn text(&self) -> String {
        let (mpps, us) = (self.rate / 1e6, self.latency_ns as f64 / 1e3);
        format!("  The tester alone, on {}: {mpps:.3} Mpps, {us:.1} us.\n", self.what)
    }
}

/// For how long stragglers are waited for where the tester is measured.
const CALIBRATED: Duration = Duration::from_millis(10);

/// Measures the tester on a cable of the device's kind, with frames of this size: what is faster than this is the tester's limit and
/// not the device's.
fn calibrate(common: &Common, size: usize) -> Result<Cable, String> {
    let traffic = Traffic { stragglers: CALIBRATED, ..common.traffic(size) };
    let (reach, what) = device::loopback(&common.device, &common.setup(), &traffic)?;
    Ok(Cable { rate: reach.rate, latency_ns: reach.latency_ns, what })
}

/// What the tester reaches on a cable.
fn reach(cable: &mut Plugged) -> Result<agent::Reach, String> {
    let mut run = |rate| {
        let trial = Trial::new(rate, Duration::from_millis(100));
        cable.station.run(trial).map_err(|why| why.to_string())
    };
    run(1e4)?;
    let outcome = run(1e9)?.outcome;
    let rate = outcome.received as f64 / outcome.duration.as_secs_f64();
    let latency_ns = run((rate / 100.0).max(1e3))?.latency.value_at_quantile(0.5);
    Ok(agent::Reach { rate, latency_ns })
}

/// Reads a time in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).filter(|t| !t.is_zero());
    time.ok_or_else(|| "expected seconds, such as 60 or 0.5".to_owned())
}

/// Reads a time in seconds that may be none.
fn pause(text: &str) -> Result<Duration, String> {
    if text.parse() == Ok(0.0) { Ok(Duration::ZERO) } else { seconds(text) }
}

/// A number that k, M or G may follow.
fn scaled(text: &str) -> Option<f64> {
    let (number, factor) = match text.strip_suffix(['k', 'M', 'G']) {
        Some(number) if text.ends_with('k') => (number, 1e3),
        Some(number) if text.ends_with('M') => (number, 1e6),
        Some(number) => (number, 1e9),
        None => (text, 1.0),
    };
    number.parse().map(|n: f64| n * factor).ok().filter(|n| *n > 0.0)
}

/// Reads a number of frames a second.
fn rate(text: &str) -> Result<f64, String> {
    let rate = scaled(text).filter(|rate| *rate <= 1e9);
    rate.ok_or_else(|| "expected frames a second, up to 1G, such as 250000 or 1.5M".to_owned())
}

/// The least frame that Ethernet knows, in bytes with FCS.
const LEAST_SIZE: usize = 64;

/// Reads a frame size, of which some options take several.
fn frame_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size) if size < LEAST_SIZE => {
            Err(format!("{LEAST_SIZE} is the least, in bytes with the 4 of the FCS"))
        }
        Ok(size) => Ok(size),
        Err(_) => Err("expected sizes in bytes with a comma between them, such as 64,512,1518".to_owned()),
    }
}

/// Reads a number of workers.
fn workers(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=64).contains(count));
    count.ok_or_else(|| "expected a number of workers from 1 to 64".to_owned())
}

/// Reads a number of bits a second.
fn bits(text: &str) -> Result<f64, String> {
    let bits = scaled(text).filter(|bits| (1e3..=1e13).contains(bits));
    bits.ok_or_else(|| "expected bits a second, such as 10G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let good = [("250000", 250_000.0), ("1.5M", 1_500_000.0), ("10k", 1e4), ("1G", 1e9)];
        for (text, expected) in good {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for bad in ["", "M", "0", "-1", "2G", "1 M", "NaN", "ten"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert_eq!((frame_size("1518"), frame_size("64")), (Ok(1518), Ok(64)));
        for small in ["0", "20", "63"] {
            assert!(frame_size(small).unwrap_err().starts_with("64 is the least"), "{small}");
        }
        assert_eq!((workers("1"), workers("64")), (Ok(1), Ok(64)));
        for bad in ["0", "65", "-1", "two"] {
            assert!(workers(bad).unwrap_err().contains("from 1 to 64"), "{bad}");
        }
        for bad in ["", "abc", "-64", "64.5"] {
            assert!(frame_size(bad).unwrap_err().contains("such as 64,512,1518"), "{bad}");
        }
    }
}
