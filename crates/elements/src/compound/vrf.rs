// SPDX-License-Identifier: MIT OR Apache-2.0
//! VRFs: interfaces whose packets are looked up in a routing table of their own.
//!
//! A packet bears the number of its table in the VRF annotation from the interface by which it came until it leaves. Table 0 is that of
//! interfaces in no VRF; the tables of VRFs follow in their order. What the router sends about a packet, such as ICMP errors, has the
//! packet's annotation. Outputs of the routing tables are those of the router, so a route may lead out of another VRF's interface.

use std::net::{IpAddr, Ipv4Addr};

use super::router::{Interface, Router, Wrong};

/// VRFs at most: a PaintSwitch sends 255 to all outputs.
const MOST: usize = 254;
/// Bytes of a name at most, as of an interface of Linux.
const NAME_MAX: usize = 15;

/// Linux's number of the first VRF's table.
const FIRST: u32 = 1001;
/// Tables that Linux has itself.
const LINUX: [u32; 4] = [0, 253, 254, 255];

/// A VRF of a router.
#[derive(Clone, Debug)]
pub struct Vrf {
    /// Its name, by which control planes know it, too.
    pub name: String,
    /// Linux's number of its routing table, where the kernel answers.
    pub table: u32,
    /// Its interfaces, by number.
    pub interfaces: Vec<usize>,
}

impl Router {
    /// Gives interfaces a routing table of their own. The name may have Linux's number of the table behind it, as `red:1001`, which is also
    /// that of the first VRF without one; the next has 1002. To be called before routes are added.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add_vrf<'a>(
        &mut self,
        name: &str,
        devices: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Wrong> {
        let (name, table) = match name.split_once(':') {
            None => (name, Some(FIRST + self.vrfs.len() as u32)),
            Some((name, table)) => (name, table.parse().ok().filter(|table| !LINUX.contains(table))),
        };
        let Some(table) = table else {
            return Err(Wrong::new(
                format!("VRF {name} has no table that Linux could have for it"),
                format!("write {name}:{FIRST}, or another number that is not {LINUX:?}"),
            ));
        };
        let good = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(good) || name == "main" {
            let help = format!("write up to {NAME_MAX} letters, digits, dots or dashes");
            return Err(Wrong::new(format!("'{name}' cannot name a VRF"), help));
        }
        if let Some(other) = self.vrfs.iter().find(|vrf| vrf.table == table && vrf.name != name) {
            let what = format!("VRF {} has table {table} already", other.name);
            return Err(Wrong::new(what, format!("give {name} another table")));
        }
        if self.vrfs.iter().any(|vrf| vrf.name == name) {
            let what = format!("VRF {name} is given twice");
            return Err(Wrong::new(what, "give each VRF once, with all its interfaces"));
        }
        if self.vrfs.len() == MOST {
            return Err(Wrong::new(format!("more than {MOST} VRFs"), "use several routers"));
        }
        let mut interfaces = Vec::new();
        for device in devices {
            let found = self.interfaces.iter().position(|interface| interface.name == device);
            let Some(i) = found else {
                let what = format!("VRF {name} has '{device}', which is none of the interfaces");
                return Err(Wrong::new(what, format!("name some of {}", self.names())));
            };
            if self.table_of(i) != 0 || interfaces.contains(&i) {
                let what = format!("interface {device} is in two VRFs");
                return Err(Wrong::new(what, "give each interface to one VRF, or to none"));
            }
            interfaces.push(i);
        }
        if interfaces.is_empty() {
            return Err(Wrong::new(format!("VRF {name} has no interface"), "name its interfaces"));
        }
        self.vrfs.push(Vrf { name: name.to_owned(), table, interfaces });
        Ok(())
    }

    /// The names of all interfaces, for people.
    pub(super) fn names(&self) -> String {
        self.interfaces.iter().map(|i| i.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The routing table of an interface.
    pub fn table_of(&self, interface: usize) -> usize {
        self.vrfs.iter().position(|vrf| vrf.interfaces.contains(&interface)).map_or(0, |vrf| vrf + 1)
    }

    /// The routing table of a VRF.
    pub(super) fn table_named(&self, name: &str) -> Result<usize, Wrong> {
        let found = self.vrfs.iter().position(|vrf| vrf.name == name);
        found.map(|vrf| vrf + 1).ok_or_else(|| {
            let names: Vec<&str> = self.vrfs.iter().map(|vrf| vrf.name.as_str()).collect();
            let help = match names.is_empty() {
                true => "there is none".to_owned(),
                false => format!("name one of {}", names.join(", ")),
            };
            Wrong::new(format!("'{name}' is none of the VRFs"), help)
        })
    }

    /// Arguments of a twin of interface `i` about its VRF.
    pub(super) fn twins_vrf(&self, i: usize) -> String {
        let vrf = self.table_of(i).checked_sub(1).map(|vrf| &self.vrfs[vrf]);
        vrf.map_or_else(String::new, |vrf| format!(", VRF {} {}", vrf.name, vrf.table))
    }

    /// The numbers of all routing tables.
    pub(super) fn tables(&self) -> std::ops::RangeInclusive<usize> {
        0..=self.vrfs.len()
    }

    /// The interfaces of a routing table, with their numbers.
    pub(super) fn members(&self, table: usize) -> impl Iterator<Item = (usize, &Interface)> {
        self.interfaces.iter().enumerate().filter(move |(i, _)| self.table_of(*i) == table)
    }

    /// The IPv4 address by which the router speaks in a table.
    pub(super) fn speaker4(&self, table: usize) -> Option<Ipv4Addr> {
        self.members(table).find_map(|(_, port)| port.four.first()).map(|(address, _)| *address)
    }

    /// Whether interfaces of a table have this address.
    pub(super) fn is_ours(&self, table: usize, address: IpAddr) -> bool {
        self.members(table).any(|(_, port)| port.addresses().any(|ours| ours == address))
    }

    /// What marks packets of interface `i` with their table.
    pub(super) fn marked(&self, i: usize) -> String {
        match self.vrfs.is_empty() {
            true => String::new(),
            false => format!("SetAnnoByte(VRF, {}) -> ", self.table_of(i)),
        }
    }

    /// Says which VRF has which table.
    pub(super) fn legend(&self) -> String {
        let tables = (1..).zip(&self.vrfs);
        let tables: Vec<String> =
            tables.map(|(table, vrf)| format!("table {table} is VRF {}", vrf.name)).collect();
        match tables.is_empty() {
            true => String::new(),
            false => format!("// {}.\n", tables.join(", ").replacen('t', "T", 1)),
        }
    }

    /// An argument that names a VRF with its interfaces.
    pub(super) fn with_links(&self, vrf: &Vrf) -> String {
        let links: String = vrf.interfaces.iter().map(|i| format!(" {}", self.interfaces[*i].name)).collect();
        format!(", VRF {}{links}", vrf.name)
    }

    /// What puts IPv4 packets together, of which each source may have so many that wait.
    pub(super) fn reassembler4(&self, most: usize) -> String {
        let vrf = if self.vrfs.is_empty() { String::new() } else { format!(", {}", self.with_names()) };
        format!("IPReassembler(OVERLAP drop, MAX_PER_SOURCE {most}{vrf})")
    }

    /// What puts IPv6 packets together.
    pub(super) fn reassembler6(&self) -> String {
        match self.vrfs.is_empty() {
            true => "IP6Reassembler".to_owned(),
            false => format!("IP6Reassembler({})", self.with_names()),
        }
    }

    /// Arguments of what keeps packets, whose VRFs may have other numbers when it goes on with them.
    fn with_names(&self) -> String {
        let names: String = self.vrfs.iter().map(|vrf| format!(", VRF {}", vrf.name)).collect();
        self.keyword().to_owned() + &names
    }

    /// An argument of what looks up by the packet's table, and of what marks packets with their table.
    pub(super) fn keyword(&self) -> &'static str {
        if self.vrfs.is_empty() { "" } else { "VRF_ANNO VRF" }
    }

    /// The rest of a way that differs by table: behind `from` comes what `way` says of each; `None` drops.
    pub(super) fn by_table(&self, from: &str, name: &str, way: impl Fn(usize) -> Option<String>) -> String {
        let way = |table| way(table).unwrap_or_else(|| "Discard;\n".to_owned());
        if self.vrfs.is_empty() {
            return format!("{from} -> {}", way(0));
        }
        let mut text = format!("{from} -> {name} :: PaintSwitch(VRF);\n");
        for table in self.tables() {
            text += &format!("{name}[{table}] -> {}", way(table));
        }
        text
    }
}

/// How a route or an element's name says its table.
pub(super) fn suffix(table: usize, before: &str) -> String {
    if table == 0 { String::new() } else { format!("{before}{table}") }
}
