// SPDX-License-Identifier: MIT OR Apache-2.0
//! What devices are called on the command line.

use std::fmt;

use super::rig::{PORTS, PORTS_MAX};
use crate::Error;

/// What is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A configuration in this process, on ports in memory.
    Own(String),
    /// A cable in memory: what the tester itself reaches.
    Cable,
    /// A virtual cable between two network interfaces.
    Veth,
    /// The kernel's IP forwarding, in a rig with so many ports.
    KernelRouter(usize),
    /// The kernel's bridge, in a rig with so many ports.
    KernelBridge(usize),
    /// A plain forwarder with sockets, in a rig.
    Passthrough,
    /// What is behind interfaces of this machine.
    Ports(Vec<String>),
    /// What is behind interfaces of machines where agents run.
    Agents(Vec<AgentPort>),
    /// What a command starts in a rig.
    Command(String),
}

/// An interface where an agent is: `[NAME=]ADDRESS:PORT/INTERFACE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPort {
    /// What the port is called, if it has a name.
    name: Option<String>,
    /// Where the agent listens.
    pub(crate) address: String,
    pub(crate) interface: String,
}

impl AgentPort {
    fn parse(text: &str) -> Option<AgentPort> {
        let (name, place) = match text.split_once('=') {
            Some((name, place)) => (Some(name.to_owned()), place),
            None => (None, text),
        };
        let (address, interface) = place.rsplit_once('/')?;
        let (host, port) = address.rsplit_once(':')?;
        let whole = !host.is_empty() && port.parse::<u16>().is_ok() && !interface.is_empty();
        let named = name.as_ref().is_none_or(|name| !name.is_empty() && !name.contains(char::is_whitespace));
        (whole && named).then(|| AgentPort {
            name,
            address: address.to_owned(),
            interface: interface.to_owned(),
        })
    }

    /// What its port was named.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What its port is called.
    pub(crate) fn port(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{}/{}", self.address, self.interface))
    }
}

impl fmt::Display for AgentPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}=")?;
        }
        write!(f, "{}/{}", self.address, self.interface)
    }
}

/// All forms, for messages and help.
pub(crate) const FORMS: &str = "self:CONF, kernel-router[:PORTS], kernel-bridge[:PORTS], passthrough, command:LINE, ports:IF1,IF2, agents:AGENT/IF1,AGENT/IF2, cable or veth";

/// How many ports a rig is to have.
fn count(text: &str) -> Result<usize, String> {
    let ports = text.parse().ok().filter(|ports| (PORTS..=PORTS_MAX).contains(ports));
    ports.ok_or_else(|| {
        format!("'{text}' is no number of ports: {PORTS} to {PORTS_MAX}, such as kernel-bridge:4")
    })
}

impl Name {
    /// Reads the command line's form.
    pub fn parse(text: &str) -> Result<Name, String> {
        let plain = match text {
            "cable" => Some(Name::Cable),
            "veth" => Some(Name::Veth),
            "kernel-router" => Some(Name::KernelRouter(PORTS)),
            "kernel-bridge" => Some(Name::KernelBridge(PORTS)),
            "passthrough" => Some(Name::Passthrough),
            _ => None,
        };
        match (plain, text.split_once(':')) {
            (Some(name), _) => Ok(name),
            (_, Some(("kernel-router", ports))) => count(ports).map(Name::KernelRouter),
            (_, Some(("kernel-bridge", ports))) => count(ports).map(Name::KernelBridge),
            (_, Some(("self", conf))) if !conf.is_empty() => Ok(Name::Own(conf.to_owned())),
            (_, Some(("command", line))) if !line.trim().is_empty() => Ok(Name::Command(line.to_owned())),
            (_, Some(("ports", list))) => {
                let names: Vec<String> = list.split(',').map(str::to_owned).collect();
                let twice = names.iter().enumerate().any(|(i, name)| names[..i].contains(name));
                if names.len() < 2 || names.iter().any(String::is_empty) || twice {
                    return Err("ports: needs two different interfaces, such as ports:eth1,eth2".to_owned());
                }
                Ok(Name::Ports(names))
            }
            (_, Some(("agents", list))) => {
                let places: Option<Vec<AgentPort>> = list.split(',').map(AgentPort::parse).collect();
                let places = places.filter(|places| places.len() >= 2).ok_or(
                    "agents: needs two or more of [NAME=]ADDRESS:PORT/INTERFACE, such as agents:10.0.0.1:7001/eth1,10.0.0.3:7001/eth1",
                )?;
                for (i, place) in places.iter().enumerate() {
                    let same = |other: &&AgentPort| {
                        (&other.address, &other.interface) == (&place.address, &place.interface)
                            || other.port() == place.port()
                    };
                    if let Some(other) = places[..i].iter().find(same) {
                        return Err(format!(
                            "agents: {other} and {place} are the same; each port needs an interface and a name of its own"
                        ));
                    }
                }
                Ok(Name::Agents(places))
            }
            _ => Err(format!("expected {FORMS}")),
        }
    }

    /// How many ports the tester has there, as far as the name shows.
    pub(crate) fn ports(&self) -> Option<usize> {
        match self {
            Name::Own(_) => None,
            Name::KernelRouter(ports) | Name::KernelBridge(ports) => Some(*ports),
            Name::Cable | Name::Veth | Name::Passthrough | Name::Command(_) => Some(PORTS),
            Name::Ports(names) => Some(names.len()),
            Name::Agents(places) => Some(places.len()),
        }
    }

    /// How many cores the device may have at most; nothing if none of this machine's are given to it.
    fn most_workers(&self) -> Option<usize> {
        match self {
            Name::Own(_) | Name::Command(_) => Some(usize::MAX),
            // In one thread for each of the rig's interfaces.
            Name::KernelRouter(ports) | Name::KernelBridge(ports) => Some(*ports),
            Name::Passthrough => Some(PORTS),
            Name::Cable | Name::Veth | Name::Ports(_) | Name::Agents(_) => None,
        }
    }

    /// Sees that it can have this many cores (-j), before anything is measured.
    pub(crate) fn check_workers(&self, workers: usize) -> Result<(), Error> {
        match self.most_workers() {
            _ if !(1..=64).contains(&workers) => Err(Error::setting("-j must lie between 1 and 64")),
            Some(most) if workers > most => Err(Error::setting(format!(
                "-j {workers}: {self} uses {most} cores at most, one for each interface"
            ))),
            None if workers > 1 => Err(Error::setting(format!(
                "-j {workers}: {self} has no cores that the tester could give it; leave -j out"
            ))),
            _ => Ok(()),
        }
    }

    /// The agents that have its ports: what they are called, and their addresses.
    pub(crate) fn agents(&self) -> Vec<(String, String)> {
        let Name::Agents(places) = self else { return Vec::new() };
        let mut agents: Vec<(String, String)> = Vec::new();
        for place in places {
            if agents.iter().all(|(_, address)| *address != place.address) {
                let name = place.name().unwrap_or(&place.address).to_owned();
                agents.push((name, place.address.clone()));
            }
        }
        agents
    }

    /// The device's configuration as a report has it; nothing where the tester does not see it.
    pub(crate) fn configuration(&self) -> Option<String> {
        match self {
            Name::Own(conf) => std::fs::read_to_string(conf).ok(),
            Name::Command(line) => Some(line.clone()),
            _ => None,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Own(conf) => write!(f, "self:{conf}"),
            Name::Cable => write!(f, "cable"),
            Name::Veth => write!(f, "veth"),
            Name::KernelRouter(PORTS) => write!(f, "kernel-router"),
            Name::KernelBridge(PORTS) => write!(f, "kernel-bridge"),
            Name::KernelRouter(ports) => write!(f, "kernel-router:{ports}"),
            Name::KernelBridge(ports) => write!(f, "kernel-bridge:{ports}"),
            Name::Passthrough => write!(f, "passthrough"),
            Name::Ports(names) => write!(f, "ports:{}", names.join(",")),
            Name::Agents(places) => {
                let places: Vec<String> = places.iter().map(AgentPort::to_string).collect();
                write!(f, "agents:{}", places.join(","))
            }
            Name::Command(line) => write!(f, "command:{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for text in [
            "self:a:b",
            "cable",
            "veth",
            "kernel-router",
            "kernel-bridge",
            "kernel-router:3",
            "kernel-bridge:8",
            "passthrough",
            "ports:a,b",
            "agents:10.0.0.1:7001/eth1,sink=[::1]:7001/eth2",
            "command:x y",
        ] {
            assert_eq!(Name::parse(text).map(|name| name.to_string()), Ok(text.to_owned()));
        }
        for bad in ["", "self:", "other", "command: ", "kernel"] {
            assert!(Name::parse(bad).is_err_and(|why| why.contains("kernel-router")), "{bad}");
        }
        for bad in
            ["", "1.2.3.4:5/a", "1.2.3.4:5/a,1.2.3.4:5", "1.2.3.4/a,host:1/b", "=h:1/a,h:1/b", "h:1/,h:1/b"]
        {
            let said = Name::parse(&format!("agents:{bad}"));
            assert!(said.is_err_and(|why| why.contains("[NAME=]ADDRESS:PORT/INTERFACE")), "{bad}");
        }
        for bad in ["h:1/a,h:1/a", "x=h:1/a,x=h:1/b", "x=h:1/a,y=h:1/a"] {
            assert!(
                Name::parse(&format!("agents:{bad}")).is_err_and(|why| why.contains("are the same")),
                "{bad}"
            );
        }
        for bad in ["0", "1", "9", "-2", "", "x"] {
            let said = Name::parse(&format!("kernel-bridge:{bad}"));
            assert!(said.is_err_and(|why| why.contains("2 to 8")), "{bad}");
        }
        for bad in ["ports:", "ports:a", "ports:a,", "ports:a,a"] {
            assert!(Name::parse(bad).is_err_and(|why| why.contains("two different")), "{bad}");
        }
    }
}
