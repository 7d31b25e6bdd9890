// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections of TCP that the firewall answers itself until their client has proved its address (RFC 4987, 3.6).
//!
//! A SYN gets a SYN-ACK whose sequence number is a [cookie](cookie): nothing is kept. Its window is closed, so the client waits with its data. If the client
//! acknowledges the cookie, the firewall sends the SYN to the server. The server's own sequence number differs from the cookie. So numbers are
//! [translated](translate) for the life of the connection, and its state is followed in the server's numbers.

pub mod cookie;
pub mod segment;
mod sip;
pub mod translate;

pub(crate) use sip::hash;
