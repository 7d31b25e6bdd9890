// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of ICMP.

mod check_icmp_header;
pub(crate) mod extension;
mod icmp_error;
mod icmp_ip_encap;
mod icmp_ping_responder;
mod icmp_ping_source;
pub(crate) mod limits;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    check_icmp_header::CLASS,
    icmp_error::CLASS,
    icmp_ip_encap::CLASS,
    icmp_ip_encap::PING,
    icmp_ping_responder::CLASS,
    icmp_ping_source::CLASS,
    icmp_ping_source::SEND_PINGS,
];
