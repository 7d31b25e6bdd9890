// SPDX-License-Identifier: MIT OR Apache-2.0
//! The element classes: one element, one file, one registry line.
//!
//! Every kind of element has a directory; its `mod.rs` lists the classes in it. The header of an element's file is
//! its manual ([`manual`]).
#![forbid(unsafe_code)]

use element::{Class, Foreign, Registry};

pub mod analysis;
pub mod balance;
pub mod basic;
pub mod bridge;
#[cfg(test)]
mod capabilities;
pub mod classify;
pub mod compound;
pub mod control;
pub mod ethernet;
pub mod firewalls;
mod fuse;
mod handover;
pub mod icmp;
pub mod io;
pub mod ip;
pub mod ip6;
pub mod ipsec;
pub mod mpls;
pub mod multicast;
pub mod nat;
#[cfg(test)]
mod one_batch;
pub mod queue;
pub mod routing;
pub mod schedule;
mod sessions;
mod shared_limit;
pub mod snooping;
pub mod sockets;
pub mod source;
pub mod spanning;
#[cfg(test)]
mod swapped;
#[cfg(test)]
mod swapped_all;
pub mod tcpudp;
/// What `cargo xtask new-element` begins with.
#[cfg(test)]
#[path = "../../../xtask/templates/element.rs"]
mod template;
#[cfg(test)]
pub mod testing;
pub mod threads;
mod ticks;
mod tools;
pub mod wireguard;

/// All element classes.
pub fn registry() -> Registry {
    Registry::new(all()).with_fusions(fuse::FUSIONS).with_forks(fuse::FORKS).with_foreign(FOREIGN)
}

/// Classes that published configurations have and that mean something inside a kernel only.
const FOREIGN: [Foreign; 3] = [
    Foreign { name: "FromUserDevice", instead: "'FromHost' or 'Socket' takes packets from other programs" },
    Foreign { name: "ToUserDevice", instead: "'ToHost' or 'Socket' gives packets to other programs" },
    Foreign { name: "ScheduleLinux", instead: "workers give way by themselves: leave it out" },
];

/// How to read a configuration in which the ready compound elements are known.
pub fn options() -> lang::Options {
    lang::Options { templates: compound::templates(), ..lang::Options::default() }
}

// One line each, so that changes to this list merge.
#[rustfmt::skip]
static KINDS: &[&[Class]] = &[
    analysis::CLASSES,
    balance::CLASSES,
    basic::CLASSES,
    bridge::CLASSES,
    classify::CLASSES,
    control::CLASSES,
    ethernet::CLASSES,
    firewalls::CLASSES,
    io::CLASSES,
    icmp::CLASSES,
    ip::CLASSES,
    ip6::CLASSES,
    ipsec::CLASSES,
    mpls::CLASSES,
    multicast::CLASSES,
    nat::CLASSES,
    queue::CLASSES,
    routing::CLASSES,
    schedule::CLASSES,
    snooping::CLASSES,
    sockets::CLASSES,
    source::CLASSES,
    spanning::CLASSES,
    tcpudp::CLASSES,
    threads::CLASSES,
    wireguard::CLASSES,
];

fn all() -> impl Iterator<Item = &'static Class> {
    KINDS.iter().copied().flatten()
}

/// The manuals, by file below `src`.
static MANUALS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/manuals.rs"));

/// The manual of a class: the header of the file that implements it.
pub fn manual(class: &Class) -> Option<&'static str> {
    manual_in(class.file)
}

/// The first sentence of a manual's text: of the paragraph after the synopsis.
pub fn purpose(manual: &str) -> String {
    let paragraph = manual.split("\n\n").find(|p| !p.starts_with(['#', '`']));
    let text = paragraph.unwrap_or_default().replace('\n', " ");
    text.split_inclusive(". ").next().unwrap_or_default().trim().to_owned()
}

/// The manual in the header of a file.
fn manual_in(file: &str) -> Option<&'static str> {
    MANUALS.iter().find(|(known, _)| file.ends_with(known)).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_class_has_a_manual_that_names_it() {
        for class in super::all() {
            let manual = super::manual(class).unwrap_or_else(|| panic!("{} has no manual", class.name));
            assert!(manual.contains(class.name), "the manual in {} does not name {}", class.file, class.name);
        }
        for compound in super::compound::COMPOUNDS {
            let name = compound.name();
            assert!(
                compound.manual().is_some_and(|m| m.contains(name)),
                "{name} has no manual that names it"
            );
        }
    }
}
