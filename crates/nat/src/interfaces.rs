// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outside addresses that are not known beforehand: those that interfaces have at the moment.
//!
//! A statement may name an interface in place of addresses. [`Policy::with_addresses`] puts the addresses in that [`Policy::fitting`] finds usable.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::policy::{Policy, Range};

/// Addresses of an interface that are used at most.
const MOST: usize = 8;

/// IPv4 addresses of interfaces, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses(BTreeMap<String, Vec<Ipv4Addr>>);

/// Why an address of an interface is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// No packet comes back to it.
    Kind,
    /// A statement has it inside.
    Inside,
    /// A statement names it outside.
    Named,
    /// Another interface has it.
    Twice,
    /// The interface has too many.
    TooMany,
}

impl Unfit {
    /// The reason in words.
    pub fn why(self) -> &'static str {
        match self {
            Unfit::Kind => "it is not a unicast address that others reach",
            Unfit::Inside => "a statement has it inside",
            Unfit::Named => "a static translation or a pool names it",
            Unfit::Twice => "another interface has it, too",
            Unfit::TooMany => "the interface has more addresses than are used",
        }
    }
}

impl Addresses {
    /// The interface has these addresses from now on, each once.
    pub fn set(&mut self, interface: &str, addresses: impl IntoIterator<Item = Ipv4Addr>) {
        let mut kept: Vec<Ipv4Addr> = Vec::new();
        for address in addresses {
            if !kept.contains(&address) {
                kept.push(address);
            }
        }
        self.0.insert(interface.to_owned(), kept);
    }

    /// The addresses of an interface.
    pub fn of(&self, interface: &str) -> &[Ipv4Addr] {
        self.0.get(interface).map_or(&[], Vec::as_slice)
    }

    /// All interfaces with their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Ipv4Addr])> {
        self.0.iter().map(|(name, addresses)| (name.as_str(), addresses.as_slice()))
    }

    /// All addresses.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.values().flatten().map(|address| u32::from(*address))
    }

    /// The addresses of interfaces here that the same interfaces do not have there.
    pub(crate) fn without(&self, others: &Addresses) -> Vec<u32> {
        let gone = self.iter().flat_map(|(name, own)| {
            own.iter().filter(move |address| !others.of(name).contains(address)).map(|one| u32::from(*one))
        });
        gone.collect()
    }

    /// Forgets addresses.
    pub(crate) fn forget(&mut self, addresses: &[u32]) {
        self.0.values_mut().for_each(|all| all.retain(|one| !addresses.contains(&u32::from(*one))));
    }
}

impl Policy {
    /// The interfaces that statements name in place of addresses, each once.
    pub fn interfaces(&self) -> Vec<&str> {
        let translations = self.translations.iter().filter_map(|one| one.interface.as_deref());
        let forwards = self.forwards.iter().filter_map(|one| one.interface.as_deref());
        let mut all: Vec<&str> = translations.chain(forwards).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Which addresses of the interfaces that statements name can be used, and why others cannot.
    pub fn fitting(&self, addresses: &Addresses) -> (Addresses, Vec<(String, Ipv4Addr, Unfit)>) {
        let (mut fitting, mut others) = (Addresses::default(), Vec::new());
        for interface in self.interfaces() {
            let mut kept: Vec<Ipv4Addr> = Vec::new();
            for address in addresses.of(interface) {
                let why = match self.unfit(*address) {
                    None if fitting.all().any(|other| other == u32::from(*address)) => Some(Unfit::Twice),
                    None if kept.len() >= MOST => Some(Unfit::TooMany),
                    why => why,
                };
                match why {
                    None => kept.push(*address),
                    Some(why) => others.push((interface.to_owned(), *address, why)),
                }
            }
            fitting.set(interface, kept);
        }
        (fitting, others)
    }

    /// Why an address is none that hosts may share.
    fn unfit(&self, address: Ipv4Addr) -> Option<Unfit> {
        let number = u32::from(address);
        let holds = |ranges: &[Range]| ranges.iter().any(|range| range.holds(number));
        let is_other = address.is_loopback() || address.is_link_local() || address.is_multicast();
        if is_other || address.is_broadcast() || address.octets()[0] == 0 {
            return Some(Unfit::Kind);
        }
        if self.translations.iter().any(|one| holds(&one.inside))
            || self.statics.iter().any(|one| one.inside.holds(number))
        {
            return Some(Unfit::Inside);
        }
        let in_pool = self.translations.iter().any(|one| one.interface.is_none() && holds(&one.pool));
        (in_pool || self.statics.iter().any(|one| one.outside.holds(number))).then_some(Unfit::Named)
    }

    /// The same policy where interfaces have these addresses.
    pub fn with_addresses(&self, addresses: &Addresses) -> Policy {
        let mut statements = (**self).clone();
        for one in &mut statements.translations {
            if let Some(interface) = &one.interface {
                let alone = |address: &Ipv4Addr| {
                    let address = u32::from(*address);
                    Range { first: address, last: address }
                };
                one.pool = addresses.of(interface).iter().map(alone).collect();
            }
        }
        for one in &mut statements.forwards {
            if let Some(interface) = &one.interface {
                one.outside = addresses.of(interface).iter().map(|address| u32::from(*address)).collect();
            }
        }
        Policy::new(statements)
    }
}
