// SPDX-License-Identifier: MIT OR Apache-2.0
//! What packets look like on the wire: protocol views, addresses, checksums, flow keys, and one-line summaries.
//!
//! Every protocol is one file of one shape:
//!
//! * `mod field`: the offsets, in bytes, as the RFC draws them;
//! * `View<T>`: a buffer whose lengths were checked once by `View::new_checked`; afterwards accessors are total: they neither fail nor panic, for any
//!   bytes. With `T: AsMut<[u8]>` it has setters as well;
//! * `Header` and `HeaderMut`: the fixed part alone, over `&[u8; N]`. They need no check at all, so they compile to plain
//!   loads: what a forwarding loop uses (`Header::from_chunk(data.first_chunk()?)`);
//! * `Repr`: the typed meaning, with `parse` and `emit`;
//! * `Display`: one line, much as tcpdump prints it.
//!
//! The crate does no I/O and holds no state. Numbers cross its interface in host order, addresses as `std::net` types.
//!
//! ```
//! use junctor_wire::{checksum, ipv4, Protocol};
//!
//! let mut packet = [0u8; 28];
//! let repr = ipv4::Repr {
//!     src: [10, 0, 0, 1].into(),
//!     dst: [10, 0, 1, 1].into(),
//!     protocol: Protocol::UDP,
//!     payload_len: 8,
//!     ttl: 64,
//!     ..Default::default()
//! };
//! repr.emit(&mut packet).unwrap();
//!
//! let view = ipv4::View::new_checked(&packet[..]).unwrap();
//! assert_eq!(view.ttl(), 64);
//! assert!(view.checksum_ok());
//! ```
#![forbid(unsafe_code)]

#[macro_use]
mod header;

pub mod addr;
pub mod arp;
pub mod bfd;
pub mod checksum;
pub mod compose;
pub mod crc32c;
pub mod dump;
mod error;
pub mod ethernet;
mod exercise;
pub mod fields;
pub mod flow;
pub mod gre;
pub mod hash;
pub mod icmpv4;
pub mod icmpv6;
pub mod igmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod link;
pub mod llc;
mod mac;
pub mod membership;
pub mod mpls;
pub mod ndp;
pub mod pcap;
mod prefix;
mod protocol;
pub mod rewrite;
pub mod stp;
pub mod tcp;
pub mod udp;
pub mod vlan;

pub use addr::{AddrMask4, AddrPrefix6, Prefix4, Prefix6};
pub use error::{Error, ParseAddrError};
pub use ethernet::EtherType;
#[doc(hidden)]
pub use exercise::exercise;
pub use flow::{FlowKey, FlowKey6};
pub use mac::MacAddr;
pub use prefix::{Prefix, PrefixError};
pub use protocol::Protocol;
