// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements for Ethernet frames and the Address Resolution Protocol.

pub(crate) mod announcements;
mod arp_faker;
mod arp_print;
pub(crate) mod arp_querier;
mod arp_responder;
mod arp_table;
mod check_arp_header;
mod ensure_ether;
pub(crate) mod ether_encap;
mod ether_mirror;
mod ether_rewrite;
mod ether_switch;
mod ether_vlan_encap;
mod host_ether_filter;
mod listen_ether_switch;
pub mod neighbours;
pub(crate) mod resolver;
mod set_vlan_anno;
mod store_ether_address;
mod strip_ether_vlan_header;
mod untag_priority;
mod vlan;
mod vlan_decap;
mod vlan_encap;

use packet::Packet;
use tables::neighbour::pad;
use wire::ethernet::HEADER_LEN;

pub use neighbours::Table;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    arp_faker::CLASS,
    arp_print::CLASS,
    arp_querier::CLASS,
    arp_responder::CLASS,
    arp_table::CLASS,
    check_arp_header::CLASS,
    ensure_ether::CLASS,
    ether_encap::CLASS,
    ether_mirror::CLASS,
    ether_rewrite::CLASS,
    ether_switch::CLASS,
    ether_vlan_encap::CLASS,
    ether_vlan_encap::FORMER,
    host_ether_filter::CLASS,
    set_vlan_anno::CLASS,
    set_vlan_anno::FORMER,
    store_ether_address::CLASS,
    listen_ether_switch::CLASS,
    strip_ether_vlan_header::CLASS,
    strip_ether_vlan_header::FORMER,
    untag_priority::CLASS,
    vlan_decap::CLASS,
    vlan_encap::CLASS,
];

/// Puts a link header in front of a packet; false when packet memory is exhausted.
#[inline]
pub(crate) fn prepend(packet: &mut Packet, header: &[u8; HEADER_LEN]) -> bool {
    let [a, b, c, d, e, f, rest @ ..] = header;
    if packet.push_link_header(&pad([*a, *b, *c, *d, *e, *f]), rest) {
        return true;
    }
    let Some(bytes) = packet.push(HEADER_LEN).and_then(|b| b.first_chunk_mut()) else { return false };
    *bytes = *header;
    packet.set_mac_offset(0);
    true
}
