// SPDX-License-Identifier: MIT OR Apache-2.0
//! WireGuard, without I/O: messages and handshakes, peers and their sessions, sealing and opening packets.
//!
//! ```text
//!                      +--------- Device: own key, peers by number and by key, allowed IPs ---------+
//!  inner packet ------>| allowed IPs -> peer -> current session -> seal                             |---> datagram
//!  datagram ---------->| index -> session -> open -> allowed IPs of the same peer                   |---> inner packet
//!                      | handshake messages: gate (rate, cookies) -> Noise -> new session           |---> datagram
//!  tick --------------->| rekeying, retransmission, keepalives, erasing of old keys                  |---> datagrams
//!                      +----------------------------------------------------------------------------+
//! ```
//!
//! * [`config`]: files in the form of `wg setconf`, and words as `wg set` takes them.
//! * [`message`]: the four messages.
//! * [`noise`]: the handshake.
//! * [`cookie`]: the check values of handshake messages, and cookies.
//! * [`gate`]: how many handshakes are worked on, and for whom.
//! * [`session`]: keys, counters and window of one session.
//! * [`peer`], [`device`]: who there is.
//! * [`seal`], [`open`]: the way of packets; [`ahead`]: asking for the memory that they need.
//! * [`waiting`]: packets that wait for a session.
//!
//! Packets with a session meet no lock and no allocation. Handshakes take the lock of their peer. Time, and which worker calls, are passed in.
//!
//! Source: Donenfeld, *WireGuard: Next Generation Kernel Network Tunnel* (NDSS 2017, and the later white paper).

#![forbid(unsafe_code)]

pub mod ahead;
pub mod allowed;
pub mod config;
pub mod cookie;
pub mod device;
pub mod endpoint;
pub mod gate;
pub mod key;
pub mod limits;
pub mod message;
pub mod noise;
pub mod open;
pub mod peer;
pub mod seal;
pub mod session;
pub mod shake;
mod table;
pub mod timers;
pub mod waiting;

pub use config::{Config, PeerConfig};
pub use device::Device;
pub use key::{PublicKey, Secret};
