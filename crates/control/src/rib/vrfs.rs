// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of Linux and the VRFs that they belong to.
//!
//! Destinations of VRFs are keys of their own ([`DestinationKey::table`]), so equal prefixes of two VRFs have nothing to do with each other. The main
//! table is number 0, and a VRF has the next number when it is named. The user plane knows VRFs by their names.

use feed::Update;

use super::{LOCAL, Layer, MAIN, Rib, Source};
use crate::key::DestinationKey;
use crate::model::{DEFAULT, Route, RouteKind};

/// The protocol of routes that the kernel made itself.
const KERNEL: u8 = 2;
/// VRFs at most: audits have 255 for tables that nobody knows.
const MOST: usize = 254;

/// A VRF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vrf {
    /// Its name, as the user plane has it.
    pub name: String,
    /// Linux's number of its routing table.
    pub table: u32,
}

impl Rib {
    /// Takes the routes of a table of Linux as those of a VRF. Without, only those of the main table are taken.
    ///
    /// # Errors
    /// The name or the table is taken, or cannot be one.
    pub fn add_vrf(&mut self, name: &str, table: u32) -> Result<(), String> {
        if name.is_empty() || name.len() > feed::NAME_BYTES_MAX {
            return Err(format!(
                "'{name}' cannot name a VRF: a name has 1 to {} bytes",
                feed::NAME_BYTES_MAX
            ));
        }
        if matches!(table, 0 | DEFAULT | MAIN | LOCAL) {
            return Err(format!("table {table} is one of Linux's own, not of a VRF"));
        }
        if let Some(other) = self.vrfs.iter().find(|vrf| vrf.name == name || vrf.table == table) {
            return Err(format!("VRF {} has table {} already", other.name, other.table));
        }
        if self.vrfs.len() == MOST {
            return Err(format!("more than {MOST} VRFs"));
        }
        self.vrfs.push(Vrf { name: name.to_owned(), table });
        let number = self.vrfs.len() as u8;
        self.tables.insert(table, number);
        self.links.set_table(table, number);
        Ok(())
    }

    /// All VRFs, with the numbers that destinations have for their tables.
    pub fn vrfs(&self) -> impl Iterator<Item = (u8, &Vrf)> {
        (1..).zip(&self.vrfs)
    }

    /// The VRF of a destination; `None` for the main table.
    #[must_use]
    pub fn vrf(&self, key: &DestinationKey) -> Option<&Vrf> {
        self.vrfs.get(usize::from(key.table).checked_sub(1)?)
    }

    /// The number that destinations have for the table of a VRF, given by name or by Linux's number; `main` is that of no VRF.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<u8> {
        let named = self.vrfs().find(|(_, vrf)| vrf.name == name).map(|(number, _)| number);
        let main = || (name == "main").then_some(0);
        named.or_else(main).or_else(|| self.tables.get(&name.parse().ok()?).copied())
    }

    /// Whether zebra's replay has the routes of a table. It has those of the main table and of VRF devices. Routes that it has put into other
    /// tables come when they change, so the kernel's copies of them count.
    pub(super) fn is_replayed(&self, number: u8) -> bool {
        let vrf = usize::from(number).checked_sub(1).and_then(|at| self.vrfs.get(at));
        vrf.is_none_or(|vrf| self.devices.contains(&vrf.table))
    }

    /// Names the VRFs to a user plane.
    pub(super) fn put_vrfs(&mut self) {
        for (number, Vrf { name, .. }) in (1..).zip(&self.vrfs) {
            self.outbox.put(&Update::Table { number, name });
        }
    }
}

/// The layer of a route. A VRF of the kernel has its local addresses among its other routes.
pub(super) fn layer_of(source: Source, table: u32, route: &Route) -> Layer {
    let is_local = route.kind == RouteKind::Local && route.protocol == KERNEL && table != MAIN;
    match (source, is_local) {
        (Source::Kernel, true) => Layer::Local,
        _ => Layer::of(source, table),
    }
}
