// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces of the kernel that belong to a VRF: packets that come by them are looked up in a routing table of their own.
//!
//! Where the kernel has no VRF devices, a rule does that instead. It does not concern what the kernel itself sends.

use std::io;
use std::os::fd::OwnedFd;

use crate::link::Interfaces;
use crate::netlink::{CREATE, Request, attribute};
use crate::sys;

const RTM_NEWLINK: u16 = 16;
const RTM_SETLINK: u16 = 19;
const RTM_NEWRULE: u16 = 32;

const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VRF_TABLE: u16 = 1;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
/// The priority of rules, which is that of the kernel's rule for VRF devices.
const PRIORITY: u32 = 1000;
const TO_TABLE: u8 = 1;

/// A VRF of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vrf {
    /// The name of its device.
    pub name: String,
    /// The number of its routing table.
    pub table: u32,
}

impl Vrf {
    /// Lets an interface belong to it. Makes the VRF if there is none. What is there already stays.
    pub(crate) fn take(&self, interfaces: &Interfaces, interface: &str) -> io::Result<()> {
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        let made = interfaces.index(&self.name).map(drop).or_else(|_| self.make(&socket));
        match made {
            Err(why) if why.raw_os_error() == Some(libc::EOPNOTSUPP) => return self.rule(&socket, interface),
            made => made?,
        }
        interfaces.set_up(&self.name)?;
        let (index, master) = (interfaces.index(interface)?, interfaces.index(&self.name)?);
        let mut link = [0; 16];
        link[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut request = Request::new(RTM_SETLINK, 0, &link);
        request.attribute(IFLA_MASTER, &master.to_ne_bytes());
        request.send(&socket)
    }

    fn make(&self, socket: &OwnedFd) -> io::Result<()> {
        let mut request = Request::new(RTM_NEWLINK, CREATE, &[0; 16]);
        request.attribute(IFLA_IFNAME, &[self.name.as_bytes(), &[0]].concat());
        let table = attribute(IFLA_VRF_TABLE, &self.table.to_ne_bytes());
        let info = [attribute(IFLA_INFO_KIND, b"vrf"), attribute(IFLA_INFO_DATA, &table)].concat();
        request.attribute(IFLA_LINKINFO, &info);
        request.send(socket)
    }

    /// What comes by the interface is looked up in the table, in both families.
    fn rule(&self, socket: &OwnedFd, interface: &str) -> io::Result<()> {
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            let mut request =
                Request::new(RTM_NEWRULE, CREATE, &[family, 0, 0, 0, 0, 0, 0, TO_TABLE, 0, 0, 0, 0]);
            request.attribute(FRA_IIFNAME, &[interface.as_bytes(), &[0]].concat());
            request.attribute(FRA_PRIORITY, &PRIORITY.to_ne_bytes());
            request.attribute(FRA_TABLE, &self.table.to_ne_bytes());
            match request.send(socket) {
                Err(why) if why.raw_os_error() == Some(libc::EEXIST) => {}
                // A kernel without IPv6.
                Err(why) if why.raw_os_error() == Some(libc::EAFNOSUPPORT) => {}
                sent => sent?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This kernel may have VRF devices or not: the packets of the interface are looked up in the table either way.
    #[test]
    fn an_interface_joins_a_vrf_or_gets_a_rule() {
        if testbed::rig::skip("an_interface_joins_a_vrf_or_gets_a_rule") {
            return;
        }
        let namespace = testbed::rig::Namespace::new("vrf").unwrap();
        namespace.ip("tuntap add t0 mode tap").unwrap();
        let vrf = Vrf { name: "red".into(), table: 1001 };
        let joined = namespace.enter(|| {
            let interfaces = Interfaces::new()?;
            vrf.take(&interfaces, "t0")?;
            vrf.take(&interfaces, "t0")
        });
        joined.unwrap().unwrap();
        let (link, rules) = (namespace.ip("-d link show t0").unwrap(), namespace.ip("rule").unwrap());
        let has_rule = rules.matches("iif t0 lookup 1001").count() == 1;
        assert!(link.contains("master red") || has_rule, "{link}{rules}");
        if has_rule {
            assert!(namespace.ip("-6 rule").unwrap().contains("iif t0 lookup 1001"));
        }
    }
}
