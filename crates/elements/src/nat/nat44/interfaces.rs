// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces whose addresses statements name: who says which addresses they have.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use element::args::{Args, FromArg, Names};
use element::clock::{Nanos, SECOND};
use element::{Cx, HandlerError, InitCx};
use nat::policy::Policy;
use nat::{Addresses, Nat};

use super::SharedNat;
use crate::io::from_dump::Encap;

/// Time between looks at devices, and between steps while sessions end.
const PAUSE: [Nanos; 2] = [SECOND / 4, SECOND / 1000];
/// Sessions that are looked at in a step.
const LOOKED: usize = 1024;

/// Who says which addresses an interface has.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// The handler `addresses`.
    Handler,
    /// The configuration.
    Written(Vec<Ipv4Addr>),
    /// The kernel, of the device of this element.
    Device(String),
}

/// `NAME [ADDRESS ...|ELEMENT]`
struct Interface(String, Source);

impl FromArg for Interface {
    const EXPECTED: &'static str =
        "NAME [ADDRESS ...], or NAME ELEMENT with a device, as FromHost and ToHost are";

    fn from_arg(text: &str, _: &Names) -> Result<Interface, String> {
        let mut words = text.split_ascii_whitespace();
        let name = words.next().ok_or_else(String::new)?.to_owned();
        let rest: Vec<&str> = words.collect();
        let addresses: Option<Vec<Ipv4Addr>> = rest.iter().map(|word| word.parse().ok()).collect();
        let source = match (&rest[..], addresses) {
            ([], _) => Source::Handler,
            (_, Some(addresses)) => Source::Written(addresses),
            ([element], None) => Source::Device((*element).to_owned()),
            _ => return Err(String::new()),
        };
        Ok(Interface(name, source))
    }
}

/// The interfaces of a translator.
#[derive(Clone, Default)]
pub(super) struct Interfaces {
    all: Vec<(String, Source)>,
    /// Of the first instance: those whose addresses the kernel says.
    devices: Vec<(String, Arc<Encap>)>,
    /// What it has said last.
    known: Vec<Vec<Ipv4Addr>>,
    /// Whether sessions of addresses that have gone are still to end.
    is_busy: bool,
}

impl Interfaces {
    /// Reads `INTERFACE`, repeated.
    pub(super) fn configure(&mut self, args: &mut Args<'_>) {
        let all = args.keyword_all::<Interface>("INTERFACE");
        *self = Interfaces::default();
        for Interface(name, source) in all {
            if self.all.iter().any(|(other, _)| *other == name) {
                args.error(format!("INTERFACE {name} is given twice"));
            }
            self.all.push((name, source));
        }
    }

    /// What another worker's instance knows of them.
    pub(super) fn shared(&self) -> Interfaces {
        Interfaces { all: self.all.clone(), ..Interfaces::default() }
    }

    /// Whether all interfaces that statements name are here.
    ///
    /// # Errors
    /// One is not.
    pub(super) fn have_all_of(&self, policy: &Policy) -> Result<(), String> {
        let is_missing = |name: &&str| self.all.iter().all(|(other, _)| other != name);
        match policy.interfaces().into_iter().find(is_missing) {
            Some(name) => Err(format!(
                "a statement names interface '{name}', but the configuration says nothing about it: add INTERFACE {name}, or write the configuration again"
            )),
            None => Ok(()),
        }
    }

    /// These addresses, with those that the configuration says.
    pub(super) fn with_written(&self, mut addresses: Addresses) -> Addresses {
        for (name, source) in &self.all {
            if let Source::Written(all) = source {
                addresses.set(name, all.iter().copied());
            }
        }
        addresses
    }

    /// Finds the devices, and looks at once and again in due time, as timer `timer` of the element. Where the kernel has no
    /// addresses of a device, as of files and of links without a twin, the handler says them.
    ///
    /// # Errors
    /// A name is not that of an element with a device.
    pub(super) fn initialize(&mut self, cx: &mut InitCx<'_>, timer: u32) -> Result<(), String> {
        for (name, source) in &mut self.all {
            if let Source::Device(element) = source {
                let encap = Encap::find(cx, "INTERFACE", element, "FromHost and ToHost")?;
                match encap.addresses() {
                    Some(_) => self.devices.push((name.clone(), encap)),
                    None => *source = Source::Handler,
                }
            }
        }
        if !self.devices.is_empty() {
            cx.set_timer_after(timer, 0);
        }
        Ok(())
    }

    /// Looks, when the timer has come: sessions of addresses that have gone end, some at a time.
    pub(super) fn look(&mut self, cx: &mut Cx<'_>, timer: u32, nat: &SharedNat) {
        let now: Vec<Vec<Ipv4Addr>> = self.devices.iter().map(|(_, encap)| four(encap)).collect();
        if now != self.known || self.is_busy {
            let mut nat = nat.write();
            if now != self.known {
                let mut addresses = nat.addresses().clone();
                for ((name, _), all) in self.devices.iter().zip(&now) {
                    addresses.set(name, all.iter().copied());
                }
                nat.set_addresses(cx.now(), addresses);
                self.known = now;
            }
            nat.reap(cx.now(), LOOKED);
            self.is_busy = nat.is_following();
        }
        cx.set_timer_after(timer, PAUSE[usize::from(self.is_busy)]);
    }

    /// A line for each address: the interface, the address, and whether it is used.
    pub(super) fn shown(&self, nat: &SharedNat) -> String {
        let (policy, addresses) = {
            let nat = nat.write();
            (Arc::clone(nat.policy()), nat.addresses().clone())
        };
        let (used, unfit) = policy.fitting(&addresses);
        let mut text = String::new();
        for (name, _) in &self.all {
            let own = addresses.of(name);
            if own.is_empty() {
                let _ = writeln!(text, "{name} - none");
            }
            for address in own {
                let why = unfit.iter().find(|(other, one, _)| (other, one) == (name, address));
                let _ = match why {
                    _ if used.of(name).contains(address) => writeln!(text, "{name} {address} used"),
                    Some((.., why)) => writeln!(text, "{name} {address} unused: {}", why.why()),
                    None => writeln!(text, "{name} {address} unused: no statement names the interface"),
                };
            }
        }
        text
    }

    /// What a value of the handler says: an interface with its addresses, or `-` for none.
    ///
    /// # Errors
    /// It says nothing of the kind, or it is the kernel that says which addresses the interface has.
    pub(super) fn said(&self, text: &str) -> Result<(String, Vec<Ipv4Addr>), HandlerError> {
        let bad =
            || HandlerError::bad_value("addresses", text, "INTERFACE ADDRESS ..., or INTERFACE - for none");
        let mut words = text.split_ascii_whitespace();
        let name = words.next().ok_or_else(bad)?;
        let rest: Vec<&str> = words.collect();
        let addresses: Option<Vec<Ipv4Addr>> = match rest[..] {
            [] => None,
            ["-"] => Some(Vec::new()),
            _ => rest.iter().map(|word| word.parse().ok()).collect(),
        };
        let addresses = addresses.ok_or_else(bad)?;
        match self.all.iter().find(|(other, _)| other == name) {
            Some((_, Source::Device(element))) => Err(HandlerError::Failed(format!(
                "{name} has the addresses that the kernel gives the device of '{element}': change them there"
            ))),
            Some(_) => Ok((name.to_owned(), addresses)),
            None => {
                let names: Vec<&str> = self.all.iter().map(|(name, _)| name.as_str()).collect();
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                Err(HandlerError::Failed(format!(
                    "'{name}' is not an INTERFACE of the translator; those are: {known}"
                )))
            }
        }
    }
}

/// The IPv4 addresses that the kernel has on a device.
fn four(encap: &Encap) -> Vec<Ipv4Addr> {
    let all = encap.addresses().unwrap_or_default().into_iter();
    let four = |(address, _)| if let IpAddr::V4(four) = address { Some(four) } else { None };
    all.filter_map(four).collect()
}

/// An interface has other addresses from now on.
pub(super) fn change(nat: &mut Nat, now: Nanos, name: &str, all: Vec<Ipv4Addr>) {
    let mut addresses = nat.addresses().clone();
    addresses.set(name, all);
    nat.set_addresses(now, addresses);
}

/// Ends the sessions of addresses that have gone some at a time; packets go on meanwhile.
pub(super) fn settle(nat: &SharedNat, now: Nanos) {
    loop {
        let mut nat = nat.write();
        if !nat.is_following() {
            return;
        }
        nat.reap(now, LOOKED);
    }
}
