// SPDX-License-Identifier: MIT OR Apache-2.0
//! VRFs of inside hosts: by their numbers in the sessions, and by the values of the VRF annotation.

use std::net::IpAddr;

use nat::policy::Policy;
use nat::{Nat, What, vrf};
use packet::{Packet, anno};

/// VRFs at most: their numbers are bytes, and 0 is the main table.
const MOST: usize = 254;

/// The VRFs that packets may be in.
#[derive(Clone, Debug, Default)]
pub(super) struct Vrfs {
    /// In the order of the annotation's values, from 1.
    all: Vec<(u32, String)>,
}

impl Vrfs {
    /// Takes the names that the configuration gives.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn new(names: Vec<String>) -> Result<Vrfs, String> {
        if names.len() > MOST {
            return Err(format!("there are {} VRFs, and {MOST} may be", names.len()));
        }
        let all: Vec<(u32, String)> = names.into_iter().map(|name| (vrf::number(&name), name)).collect();
        let twice = (1..all.len()).find(|n| all[..*n].iter().any(|(number, _)| *number == all[*n].0));
        match twice {
            Some(n) => Err(format!("VRF {} has the name or the number of another: rename it", all[n].1)),
            None => Ok(Vrfs { all }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of a packet's VRF; 0 for the main table.
    #[inline]
    pub(super) fn number(&self, packet: &Packet) -> u32 {
        let value = usize::from(packet.anno_u8(anno::VRF));
        value.checked_sub(1).and_then(|at| self.all.get(at)).map_or(0, |(number, _)| *number)
    }

    /// The name of a VRF by its number.
    pub(super) fn name(&self, number: u32) -> &str {
        self.all.iter().find(|(other, _)| *other == number).map_or("-", |(_, name)| name)
    }

    /// The number of a VRF by its name.
    pub(super) fn named(&self, name: &str) -> Option<u32> {
        self.all.iter().find(|(_, other)| other == name).map(|(number, _)| *number)
    }

    /// Puts a packet that is for an inside host now into the host's table. Returns whether there is one. What comes from outside for the router itself
    /// stays in the table of its link, which has the address.
    #[inline]
    pub(super) fn place(&self, nat: &Nat, packet: &mut Packet, from_outside: bool) -> bool {
        if self.all.is_empty() || (from_outside && packet.network().is_some_and(|ip| nat.is_for_own(ip))) {
            return true;
        }
        let number = packet.network_mut().and_then(|ip| nat.into_vrf(ip));
        let found = number.map_or(Some(0), |number| {
            self.all.iter().position(|(other, _)| *other == number).map(|at| at + 1)
        });
        found.into_iter().for_each(|value| packet.set_anno_u8(anno::VRF, value as u8));
        found.is_some()
    }

    /// An inside address as it is in packets, and the name of its VRF, if there are VRFs; `-` for the main table.
    pub(super) fn host(&self, address: IpAddr) -> (IpAddr, Option<&str>) {
        match vrf::of_listed(address) {
            Some((number, address)) => (address.into(), Some(self.name(number))),
            None => (address, (!self.is_empty()).then_some("-")),
        }
    }

    /// A subscriber as people write it; one in a VRF as `10.0.1.2@red`.
    pub(super) fn subscriber(&self, inside: IpAddr) -> String {
        match vrf::of_listed(inside) {
            Some((number, address)) => format!("{address}@{}", self.name(number)),
            None => nat::subscriber_text(inside),
        }
    }

    /// The owner of an outside port.
    pub(super) fn owner(&self, address: IpAddr, port: u16) -> String {
        match vrf::of_listed(address) {
            Some((number, address)) => format!("{address} {port} {}", self.name(number)),
            None => format!("{address} {port}"),
        }
    }

    /// An event, with hosts in a VRF as `10.0.1.2@red`.
    pub(super) fn shown(&self, what: What) -> String {
        let (inside, listed) = match what {
            What::Block { inside, .. } => (inside, nat::subscriber_text(inside)),
            What::Port { inside, .. } | What::Session { inside, .. } | What::NoRoom { inside, .. } => {
                (inside.0, inside.0.to_string())
            }
        };
        let text = what.to_string();
        match vrf::of_listed(inside) {
            Some(_) => text.replacen(&listed, &self.subscriber(inside), 1),
            None => text,
        }
    }

    /// Checks that all VRFs of statements are there.
    ///
    /// # Errors
    /// One is not.
    pub(super) fn have_all_of(&self, policy: &Policy) -> Result<(), String> {
        match policy.vrfs.iter().find(|(_, name)| self.named(name).is_none()) {
            None => Ok(()),
            Some((_, name)) if self.all.is_empty() => {
                Err(format!("a statement names VRF {name}, and the router has no VRFs"))
            }
            Some((_, name)) => {
                let names: Vec<&str> = self.all.iter().map(|(_, name)| name.as_str()).collect();
                Err(format!("a statement names VRF {name}: the router has {}", names.join(", ")))
            }
        }
    }
}
