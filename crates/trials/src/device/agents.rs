// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is behind interfaces of other machines, where agents run: generator, sink, or both.

use serde_json::{Value, json};
use tester::station::{Member, Port};

use super::name::AgentPort;
use super::ports::flows_of;
use super::{Plugged, Setup, Traffic};
use crate::Error;
use crate::agent::{AgentKey, Opened, PortWord, Question, Reach, Remote};

/// The agents of a test, with their interfaces open.
struct Stations {
    agents: Vec<Remote>,
    /// Which agent has each port.
    owners: Vec<usize>,
    /// By port.
    opened: Vec<Opened>,
}

impl Stations {
    /// Connects to all agents and has them open these interfaces.
    fn open(places: &[AgentPort], setup: &Setup) -> Result<Stations, Error> {
        let key = setup
            .key
            .as_ref()
            .ok_or_else(|| Error::unfit("agents: --key names the file of the agents' key"))?;
        let key = AgentKey::read(key)?;
        let mut addresses: Vec<&str> = Vec::new();
        let mut owners = Vec::new();
        for place in places {
            let known = addresses.iter().position(|address| *address == place.address);
            owners.push(known.unwrap_or(addresses.len()));
            if known.is_none() {
                addresses.push(&place.address);
            }
        }
        let mut agents = Vec::new();
        for (agent, address) in addresses.iter().enumerate() {
            let own = places.iter().zip(&owners).filter(|(_, owner)| **owner == agent);
            let names: Vec<&str> = own.filter_map(|(place, _)| place.name()).collect();
            let label = match &names[..] {
                [] => (*address).to_owned(),
                names => format!("{} ({address})", names.join(", ")),
            };
            agents.push(Remote::connect(label, address, &key)?);
        }
        let mut opened: Vec<Option<Opened>> = places.iter().map(|_| None).collect();
        for (number, agent) in agents.iter_mut().enumerate() {
            let word = |(place, owner): (&AgentPort, &usize)| PortWord {
                name: place.port(),
                interface: (*owner == number).then(|| place.interface.clone()),
            };
            let told = agent.open(places.iter().zip(&owners).map(word).collect(), setup.driver)?;
            let own = opened.iter_mut().zip(&owners).filter(|(_, owner)| **owner == number);
            own.zip(told).for_each(|((port, _), told)| *port = Some(told));
        }
        let all: Option<Vec<Opened>> = opened.into_iter().collect();
        let opened = all.ok_or_else(|| Error::unfit("agents: one of them did not say what it has opened"))?;
        Ok(Stations { agents, owners, opened })
    }

    /// Whether all have one clock.
    fn is_timed(&self) -> bool {
        let clock = |agent: &Remote| agent.hello().clock.clone();
        self.agents.windows(2).all(|pair| clock(&pair[0]) == clock(&pair[1]))
    }

    /// For the conditions of a result.
    fn json(&self, places: &[AgentPort]) -> Value {
        let agent = |(number, agent): (usize, &Remote)| {
            let ports = places.iter().zip(&self.owners).filter(|(_, owner)| **owner == number);
            let ports: Vec<&AgentPort> = ports.map(|(place, _)| place).collect();
            json!({
                "address": ports.first().map(|place| &place.address),
                "ports": ports.iter().map(|place| place.port()).collect::<Vec<_>>(),
                "interfaces": ports.iter().map(|place| &place.interface).collect::<Vec<_>>(),
                "machine": agent.hello().machine,
            })
        };
        self.agents.iter().enumerate().map(agent).collect()
    }
}

/// Has agents plug these interfaces in.
pub(super) fn plug(places: &[AgentPort], setup: &Setup, traffic: &Traffic) -> Result<Plugged, Error> {
    let mut stations = Stations::open(places, setup)?;
    let names: Vec<String> = places.iter().map(AgentPort::port).collect();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let flows = flows_of(&known, setup, |port, (host_mac, host), via| {
        stations.agents[stations.owners[port]].resolve(Question { port, host_mac, host, via })
    })?;
    let ports = names.iter().zip(&stations.opened);
    let ports = ports.map(|(name, opened)| Port::elsewhere(name, &opened.driver, opened.mtu)).collect();
    let mut plugged = Plugged { in_memory: false, ..Plugged::new(ports, &flows, traffic)? };
    plugged.link_bits = stations.opened.iter().filter_map(|opened| opened.link_bits).min();
    plugged.notes = stations.opened.iter().filter_map(|opened| opened.note.clone()).collect();
    if !stations.is_timed() {
        plugged
            .notes
            .push("Latency is not measured: the agents' machines have clocks of their own.".to_owned());
    }
    plugged.agents = stations.json(places);
    let is_timed = stations.is_timed();
    let members = stations.agents.into_iter().map(|agent| Box::new(agent) as Box<dyn Member>).collect();
    plugged.station.lead(members, stations.owners, is_timed)?;
    Ok(plugged)
}

/// What the agents reach by themselves: the least of them, one after the other.
pub(super) fn loopback(
    places: &[AgentPort],
    setup: &Setup,
    traffic: &Traffic,
) -> Result<(Reach, String), Error> {
    let mut stations = Stations::open(places, setup)?;
    let reached: Result<Vec<Reach>, Error> =
        stations.agents.iter_mut().map(|agent| agent.calibrate(traffic.size)).collect();
    let slowest = reached?.into_iter().min_by(|a, b| a.rate.total_cmp(&b.rate));
    let what = "a virtual cable on each agent's machine, of which this is the slowest".to_owned();
    Ok((slowest.ok_or_else(|| Error::unfit("agents: none is named"))?, what))
}
