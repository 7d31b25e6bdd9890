// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where Junctor and other devices are tested: namespaces, guests, daemons and adversarial traffic. Tests, trials and labs use it.
//!
//! [`rig`] tests Junctor on real packets: network namespaces joined by virtual cables. It builds hosts and cables, runs programs in them for a bounded
//! time, and takes everything down again. Others are:
//!
//! * [`account`] runs a router within the process and accounts for every packet. [`flows`] makes packets of many flows for it, and [`answers`] has
//!   neighbours for it.
//! * [`frr`] runs routing daemons, and [`bgp`] is a neighbour of theirs.
//! * [`groups`] sends to multicast groups and joins them.
//! * [`strongswan`] runs key daemons.
//! * [`uml`] runs another Linux.
//! * [`hostile`] and [`hostile6`] make frames that no router likes.
//! * [`pages`] reads pages of the book: their commands, files and what they show.
//! * [`scapy`] makes and judges packets independently.
#![forbid(unsafe_code)]

pub mod account;
pub mod answers;
pub mod bgp;
pub mod flows;
pub mod frr;
pub mod groups;
pub mod hostile;
pub mod hostile6;
pub mod pages;
pub mod pings;
pub mod process;
pub mod rig;
pub mod scapy;
pub mod strongswan;
pub mod uml;
