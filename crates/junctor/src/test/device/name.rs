// SPDX-License-Identifier: MIT OR Apache-2.0
//! What devices are called on the command line.

use std::fmt;

/// What is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A configuration in this process, on ports in memory.
    Own(String),
    /// A cable in memory: what the tester itself reaches.
    Cable,
    /// A virtual cable between two network interfaces.
    Veth,
    /// The kernel's IP forwarding, in a rig.
    KernelRouter,
    /// The kernel's bridge, in a rig.
    KernelBridge,
    /// A plain forwarder with sockets, in a rig.
    Passthrough,
    /// What is behind interfaces of this machine.
    Ports(Vec<String>),
    /// What a command starts in a rig.
    Command(String),
}

/// All forms, for messages and help.
pub(crate) const FORMS: &str =
    "self:CONF, kernel-router, kernel-bridge, passthrough, command:LINE, ports:IF1,IF2, cable or veth";

impl Name {
    /// Reads the command line's form.
    pub(crate) fn parse(text: &str) -> Result<Name, String> {
        let plain = match text {
            "cable" => Some(Name::Cable),
            "veth" => Some(Name::Veth),
            "kernel-router" => Some(Name::KernelRouter),
            "kernel-bridge" => Some(Name::KernelBridge),
            "passthrough" => Some(Name::Passthrough),
            _ => None,
        };
        match (plain, text.split_once(':')) {
            (Some(name), _) => Ok(name),
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
            _ => Err(format!("expected {FORMS}")),
        }
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
            Name::KernelRouter => write!(f, "kernel-router"),
            Name::KernelBridge => write!(f, "kernel-bridge"),
            Name::Passthrough => write!(f, "passthrough"),
            Name::Ports(names) => write!(f, "ports:{}", names.join(",")),
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
            "passthrough",
            "ports:a,b",
            "command:x y",
        ] {
            assert_eq!(Name::parse(text).map(|name| name.to_string()), Ok(text.to_owned()));
        }
        for bad in ["", "self:", "other", "command: ", "kernel"] {
            assert!(Name::parse(bad).is_err_and(|why| why.contains("kernel-router")), "{bad}");
        }
        for bad in ["ports:", "ports:a", "ports:a,", "ports:a,a"] {
            assert!(Name::parse(bad).is_err_and(|why| why.contains("two different")), "{bad}");
        }
    }
}
