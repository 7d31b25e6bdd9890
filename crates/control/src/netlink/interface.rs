// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces, their addresses and their neighbours (`linux/if_link.h`, `linux/if_addr.h`, `linux/neighbour.h`).

use std::net::IpAddr;

use wire::MacAddr;

use super::attributes::{Attribute, u16_at, u32_at};
use super::{AF_INET, AF_INET6, Error, Message, Outcome, kind};
use crate::Change;
use crate::model::Link;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VRF_TABLE: u16 = 1;

/// Flags: administratively up, operational, and with a carrier.
const FORWARDS: u32 = 1 | 0x40 | 0x1_0000;
/// The kind of interface that is Ethernet's.
const ETHER: u16 = 1;

pub(super) fn link(message: &Message<'_>, changes: &mut Vec<Change>) -> Result<Outcome, Error> {
    let (header, attributes) = message.split::<16>()?;
    let (index, flags) = (u32_at(header, 4).unwrap_or(0), u32_at(header, 8).unwrap_or(0));
    // What a bridge says of its ports has a family.
    if header[0] != 0 {
        return Ok(Outcome::Ignored);
    }
    if index == 0 || index > i32::MAX as u32 {
        return Err(message.error(message.at + 4, "an interface has a positive number"));
    }
    if message.kind == kind::DEL_LINK {
        changes.push(Change::Link { index, link: None });
        return Ok(Outcome::Taken);
    }
    let is_ether = u16_at(header, 2) == Some(ETHER);
    let is_up = flags & FORWARDS == FORWARDS;
    let (mut name, mut mtu, mut ether, mut master, mut vrf_table) = (None, 0, None, None, None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            IFLA_ADDRESS if is_ether => ether = mac(attribute.value),
            IFLA_IFNAME => name = Some(attribute.text()?),
            IFLA_MTU => mtu = attribute.u32()?,
            IFLA_MASTER => master = Some(attribute.u32()?).filter(|master| *master != 0),
            IFLA_LINKINFO => vrf_table = table_of_vrf(attribute)?,
            _ => {}
        }
    }
    let name = name.ok_or_else(|| message.error(message.at, "an interface without a name"))?.to_owned();
    changes.push(Change::Link { index, link: Some(Link { name, is_up, mtu, ether, master, vrf_table }) });
    Ok(Outcome::Taken)
}

/// The table of an interface that is a VRF.
fn table_of_vrf(info: Attribute<'_>) -> Result<Option<u32>, Error> {
    let (mut is_vrf, mut data) = (false, None);
    for attribute in info.nested() {
        let attribute = attribute?;
        match attribute.kind {
            IFLA_INFO_KIND => is_vrf = attribute.text()? == "vrf",
            IFLA_INFO_DATA => data = Some(attribute),
            _ => {}
        }
    }
    for attribute in data.iter().filter(|_| is_vrf).flat_map(Attribute::nested) {
        let attribute = attribute?;
        if attribute.kind == IFLA_VRF_TABLE {
            return attribute.u32().map(Some);
        }
    }
    Ok(None)
}

fn mac(bytes: &[u8]) -> Option<MacAddr> {
    bytes.try_into().ok().map(MacAddr)
}

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

pub(super) fn address(message: &Message<'_>, changes: &mut Vec<Change>) -> Result<Outcome, Error> {
    let (header, attributes) = message.split::<8>()?;
    let [family, len, ..] = *header;
    if !matches!(family, AF_INET | AF_INET6) {
        return Ok(Outcome::Ignored);
    }
    // On a line to one peer, IFA_ADDRESS is the peer's and IFA_LOCAL is ours.
    let (mut local, mut other) = (None, None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            IFA_LOCAL => local = Some(attribute),
            IFA_ADDRESS => other = Some(attribute),
            _ => {}
        }
    }
    let given =
        local.or(other).ok_or_else(|| message.error(message.at, "an address message without an address"))?;
    let address = of_family(given, family)?;
    if usize::from(len) > given.value.len() * 8 {
        return Err(message.error(message.at + 1, "a prefix longer than an address"));
    }
    let present = message.kind == kind::NEW_ADDRESS;
    changes.push(Change::Address { index: u32_at(header, 4).unwrap_or(0), address, len, present });
    Ok(Outcome::Taken)
}

fn of_family(given: Attribute<'_>, family: u8) -> Result<IpAddr, Error> {
    match given.address()? {
        address if address.is_ipv4() == (family == AF_INET) => Ok(address),
        _ => Err(given.error("an address of another family")),
    }
}

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

/// States in which an Ethernet address may be used: reachable, stale, delayed, probed, permanent.
const USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
/// State of neighbours that need no resolution, such as groups and broadcast.
const NO_ARP: u16 = 0x40;
/// Flag: the entry answers for others, it is no neighbour.
const PROXY: u8 = 0x08;

pub(super) fn neighbour(message: &Message<'_>, changes: &mut Vec<Change>) -> Result<Outcome, Error> {
    let (header, attributes) = message.split::<12>()?;
    let (index, state) = (u32_at(header, 4).unwrap_or(0), u16_at(header, 8).unwrap_or(0));
    let family = header[0];
    if !matches!(family, AF_INET | AF_INET6) || header[10] & PROXY != 0 || state & NO_ARP != 0 {
        return Ok(Outcome::Ignored);
    }
    let (mut address, mut ether) = (None, None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            NDA_DST => address = Some(of_family(attribute, family)?),
            NDA_LLADDR => ether = mac(attribute.value),
            _ => {}
        }
    }
    let address = address.ok_or_else(|| message.error(message.at, "a neighbour without an address"))?;
    let is_known = message.kind == kind::NEW_NEIGHBOUR && state & USABLE != 0;
    changes.push(Change::Neighbour { index, address, ether: ether.filter(|_| is_known) });
    Ok(Outcome::Taken)
}
