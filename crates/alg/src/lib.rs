// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protocols that write addresses and ports in their text: for address translators and firewalls, which look into it.
//!
//! * [`ftp`] finds them in lines of FTP.
//! * [`lines`] puts lines together from the segments of a connection.
//! * [`sip`] finds them in messages of SIP, and writes others.
//! * [`stream`] moves sequence numbers where text has become longer or shorter.
//! * [`tftp`] knows requests of TFTP.
#![forbid(unsafe_code)]

pub mod ftp;
pub mod lines;
pub mod sip;
pub mod stream;
pub mod tftp;
