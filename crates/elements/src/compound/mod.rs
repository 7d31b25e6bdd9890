// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ready compound elements: whole routers in one line, expanded to ordinary elements when a configuration is read.
//!
//! Each is a [`lang::Template`]: a function that reads the arguments of a use and writes the text between the braces of
//! an `elementclass`. `junctor init` has the same texts written with comments for the user to edit.

use lang::{Template, Use};

pub mod arguments;
pub mod balance;
mod bfd;
pub mod dual_router;
mod firewall;
pub mod ip6_router;
pub mod ip_router;
mod ipsec;
pub mod ipv4;
pub mod ipv6;
mod mpls;
mod multicast;
pub mod nat;
pub mod nat_gateway;
mod reading;
pub mod router;
pub mod spread;
pub mod sync;
mod taken;
pub mod vrf;

/// A ready compound element.
#[derive(Clone, Copy, Debug)]
pub struct Compound {
    /// Its class, as the language wants it.
    pub template: Template,
    /// The file whose header is its manual.
    file: &'static str,
}

impl Compound {
    const fn new(
        name: &'static str,
        write: fn(&Use<'_>) -> Result<String, Vec<lang::Fault>>,
        file: &'static str,
    ) -> Compound {
        Compound { template: Template { name, write }, file }
    }

    /// The class.
    pub fn name(&self) -> &'static str {
        self.template.name
    }

    /// The manual: the header of the file that implements it.
    pub fn manual(&self) -> Option<&'static str> {
        crate::manual_in(self.file)
    }
}

/// All ready compound elements.
pub const COMPOUNDS: &[Compound] = &[
    dual_router::COMPOUND,
    ip6_router::COMPOUND,
    ip_router::COMPOUND,
    nat_gateway::COMPOUND,
    spread::COMPOUND,
];

/// The ready compound elements, for [`lang::Options::templates`].
pub fn templates() -> Vec<Template> {
    COMPOUNDS.iter().map(|c| c.template).collect()
}
