// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all tests need to know, and what only the running device shows.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tester::management::Answers;
use tester::search::{Ledger, contents, setup};
use tester::station::Station;

use crate::Error;
use crate::agent::{Agent, AgentKey, Machines, Remote};
use crate::device::{self, Driver, FlowLine, Name, Plugged, Setup, Traffic};
use crate::filters::Case;
use crate::log::Log;
use crate::modifiers;
use crate::output::Output;
use crate::record::{Found, Managed};
use crate::variant::{Filtered, Seen};

/// What all tests need to know.
#[derive(Clone, Debug)]
pub struct Common {
    /// The device under test.
    pub device: Name,
    /// What drives the tester's ports where they are network interfaces.
    pub driver: Driver,
    /// What ports send, beyond what is known of the device.
    pub flow: Vec<FlowLine>,
    /// Whether the device is a bridge: frames are addressed to the hosts behind it.
    pub bridged: bool,
    /// Whether flows are of IPv6, where the device does not say.
    pub ipv6: bool,
    /// Whether flows of the other family are known, too.
    pub both: bool,
    /// The file with the key of the agents.
    pub key: Option<PathBuf>,
    /// Agents on other machines of the test, which report in each trial what those count.
    pub agent: Vec<Agent>,
    /// The device's configuration, for the report, where the tester does not see it.
    pub configuration: Option<String>,
    /// How long the device may take until it forwards.
    pub warm_up: Duration,
    /// Whether only the first port sends.
    pub one_way: bool,
    /// Workers of a configuration in this process, or cores for other devices of this machine; `None` takes the usual number.
    pub workers: Option<usize>,
    /// For how long frames may still arrive after the last was sent.
    pub stragglers: Duration,
    /// What makes the keys of the frames.
    pub seed: u64,
    /// What is changed about the frames.
    pub modifiers: modifiers::Modifiers,
    /// Where results go.
    pub output: Output,
}

impl Common {
    /// Frames of `size` bytes with FCS.
    pub(crate) fn traffic(&self, size: usize) -> Traffic {
        let longest = self.modifiers.longest().unwrap_or(size);
        Traffic { size, longest, one_way: self.one_way, stragglers: self.stragglers, seed: self.seed }
    }

    pub(crate) fn setup(&self) -> Setup {
        let Common { workers, driver, bridged, ipv6, both, .. } = *self;
        Setup { workers, driver, flows: self.flow.clone(), bridged, ipv6, both, key: self.key.clone() }
    }

    /// Sees that the device can have the cores that are asked for, before anything is measured.
    pub(crate) fn check_workers(&self) -> Result<(), Error> {
        let Some(workers) = self.workers else { return Ok(()) };
        self.device.check_workers(workers)
    }

    /// Starts the device, and lets it learn who is where.
    pub(crate) fn plug(&self, size: usize) -> Result<Plugged, Error> {
        let mut plugged = device::plug(&self.device, &self.setup(), &self.traffic(size))?;
        plugged.station.warm_up(self.warm_up)?;
        if self.modifiers.are_any() {
            self.modifiers.apply(&mut plugged.station, self.seed)?;
            plugged.station.warm_up(self.warm_up)?;
        }
        Ok(plugged)
    }

    /// Keeps all trials from now on, and what the machines whose agents are known do in each.
    pub(crate) fn keep(&self, station: &mut Station, size: usize, show: bool) -> Result<Log, Error> {
        let log = Log::of(station, size, show);
        let mut agents = self.device.agents();
        agents.extend(self.agent.iter().map(|agent| (agent.name.clone(), agent.address.clone())));
        if agents.is_empty() {
            return Ok(log);
        }
        let key = AgentKey::read(
            self.key.as_ref().ok_or_else(|| Error::setting("--key names the file of the agents' key"))?,
        )?;
        let mut connected: Vec<(String, Remote)> = Vec::new();
        for (name, address) in agents {
            if connected.iter().any(|(known, _)| *known == name) {
                return Err(Error::setting(format!(
                    "two agents are called {name}; --agent NAME=ADDRESS:PORT names one"
                )));
            }
            let agent = Remote::connect(format!("{name} ({address})"), &address, &key)?;
            connected.push((name, agent));
        }
        let readings = log.clone();
        station.gauge(Machines::new(connected, move |all| readings.read(all))?);
        Ok(log)
    }

    /// The device's configuration, if it is known.
    pub(crate) fn configuration(&self, facts: &Facts) -> Option<String> {
        let seen = || self.device.configuration().or_else(|| facts.configuration.clone());
        // What runs in this process is known for certain.
        let given = self.configuration.clone().filter(|_| !matches!(self.device, Name::Own(_)));
        given.or_else(seen)
    }

    /// Under which conditions a test ran, for its record.
    pub(crate) fn conditions(&self, facts: &Facts) -> Map<String, Value> {
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
    pub(crate) fn asked(&self, sizes: &[usize], medium: bool, settle: Duration, facts: &Facts) -> Ledger {
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
            // The version of this program, or of this machine's kernel, is known; otherwise the user who gives the configuration gives the
            // version.
            version: !matches!(self.device, Name::Ports(_) | Name::Agents(_) | Name::Command(_))
                || self.configuration.is_some(),
        })
    }
}

/// Why additional frames are not exactly where they ought to be.
const UNEVEN: &str =
    "the kernel generates the test's frames, and the tester adds others when it sees how many have left";

/// Facts that only the running device reveals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// How many ports send.
    pub(crate) senders: usize,
    /// Flows of all these.
    pub(crate) flows: usize,
    /// To which ports they send.
    pub(crate) reach: setup::Reach,
    /// Whether the device looks at Ethernet addresses only.
    pub(crate) bridged: bool,
    /// Bits a second of the ports' links, where they have a speed.
    pub(crate) link_bits: Option<u64>,
    /// The longest frame that the ports take.
    pub(crate) longest: usize,
    /// Whether the tester has a core that the device does not use.
    pub(crate) own_core: bool,
    /// Cores that the device has.
    pub(crate) workers: Option<usize>,
    /// The device's own addresses, from and to which nothing is sent.
    pub(crate) left_out: Vec<IpAddr>,
    /// The tester's ports, with driver and mode.
    pub(crate) ports: Vec<(String, String)>,
    /// They are in this process's memory.
    pub(crate) in_memory: bool,
    /// How the device was built.
    pub(crate) notes: Vec<String>,
    /// How it is configured, where that shows only when it is there.
    pub(crate) configuration: Option<String>,
    /// How it gets routes.
    pub(crate) routing: String,
    /// Whether trials with many networks begin with routing updates of all of them.
    pub(crate) announced: bool,
    /// On what the tester was measured, and what it reached there.
    pub(crate) cable: Option<Cable>,
    /// The machines that have the ports, if they are not this one.
    pub(crate) agents: Value,
    /// Modifiers that were asked for and could not be applied, and why.
    pub(crate) undone: Vec<String>,
    /// What was sent in addition to the test's frames.
    pub(crate) beside: Vec<setup::Beside>,
    /// How many of these were due and not sent.
    pub(crate) beside_unsent: u64,
    /// Questions of management, and what came of them.
    pub(crate) answers: Answers,
    /// How long before a trial's frames updates of routes were sent.
    pub(crate) ahead: Duration,
    /// The filters that were set.
    pub(crate) filters: Vec<Filtered>,
}

impl Facts {
    /// Lines about the filters, by the names that results have.
    pub(crate) fn filter_lines(&self, of: impl Fn(&Filtered) -> &str) -> Value {
        let all = self.filters.iter().map(|filtered| (filtered.name.clone(), of(filtered).lines().collect()));
        if self.filters.is_empty() { Value::Null } else { Value::Object(all.collect()) }
    }

    /// The same with a note on what was seen of each of the filters.
    pub(crate) fn with_filters_noted(&self) -> Facts {
        let note =
            |filtered: &Filtered| format!("{}: {}", filtered.name.replace('_', " "), filtered.seen.words());
        let notes = self.notes.iter().cloned().chain(self.filters.iter().map(note)).collect();
        Facts { notes, ..self.clone() }
    }

    /// What of these a document asks for; whether a command of the user's set them.
    pub(crate) fn filters_seen(&self, by_command: bool) -> setup::Filters {
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

    pub(crate) fn of(plugged: &Plugged, cable: &Cable) -> Facts {
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

    /// What became of the additional frames in the trials found, of which it notes the results. For people; nothing if all is well and
    /// nobody was asked anything.
    pub(crate) fn beside(&mut self, found: &mut Found) -> String {
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
    pub(crate) fn built(&self) -> String {
        let mut text = self.cable.as_ref().map(Cable::text).unwrap_or_default();
        if !self.in_memory {
            self.ports.iter().for_each(|(name, driver)| text += &format!("  {name}: {driver}\n"));
        }
        self.notes.iter().for_each(|note| text += &format!("  {note}\n"));
        text
    }
}

/// Says which flows are not sent.
pub(crate) fn left_out(addresses: &[IpAddr]) -> String {
    match addresses {
        [] => String::new(),
        some => {
            let list: Vec<String> = some.iter().map(IpAddr::to_string).collect();
            format!("  No flows from or to {}: the device's own.\n", list.join(", "))
        }
    }
}

/// What to say where there are too few cores.
pub(crate) const SHARED_CORE: &str = "  The tester shares a core with the device: both are slower for it. \
    Fewer workers (-j), or a machine with more cores, leave it one.\n";

/// What the tester reaches by itself.
#[derive(Clone, Debug)]
pub(crate) struct Cable {
    /// Frames a second, all ports together.
    pub(crate) rate: f64,
    /// Median latency of a frame at a hundredth of it.
    pub(crate) latency_ns: u64,
    /// What joined its ports.
    pub(crate) what: String,
}

impl Cable {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let (mpps, us) = (self.rate / 1e6, self.latency_ns as f64 / 1e3);
        format!("  The tester alone, on {}: {mpps:.3} Mpps, {us:.1} us.\n", self.what)
    }
}

/// Measures the tester on a cable of the device's kind, with frames of this size: what is faster than this is the tester's limit and
/// not the device's.
pub(crate) fn calibrate(common: &Common, size: usize) -> Result<Cable, Error> {
    let traffic = Traffic { stragglers: device::CALIBRATED, ..common.traffic(size) };
    let (reach, what) = device::loopback(&common.device, &common.setup(), &traffic)?;
    Ok(Cable { rate: reach.rate, latency_ns: reach.latency_ns, what })
}
