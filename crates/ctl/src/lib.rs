// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control protocol: how another program reads and writes handlers over a byte stream, "Click::ControlSocket/1.3".
//!
//! A [`Session`] is one connection without its socket: bytes received go in, bytes to send come out, and
//! [`Session::step`] executes one command between them by [`Handlers`], so tests need no socket. A [`Server`] is a socket
//! with its clients. It serves them from threads of its own, never from a worker, and bounds what each client may make the
//! router read, hold and do. [`Policy`] says who may connect at all.
//!
//! ```text
//! client   READ c.count                      | WRITEDATA s.config 5 CRLF 1 2 3
//! session  200 Read handler 'c.count' OK     | 200 Write handler 's.config' OK
//!          DATA 3
//!          117
//! ```
//!
//! Lines end by CR, LF or both; the session's own by CRLF. A reply is one line or several, all but the last with a
//! hyphen after the code:
//!
//! | code | meaning | code | meaning |
//! |---|---|---|---|
//! | 200 | done | 520 | the handler failed |
//! | 500 | syntax | 521 | too much data |
//! | 501 | no such command | 522 | the LLRPC failed |
//! | 510 | no such element | 530 | not allowed |
//! | 511 | no such handler | 590 | a read failed |

#![forbid(unsafe_code)]

mod input;
mod places;
mod server;
mod session;
mod token;

pub use places::{Listener, SocketFile, left_behind};
pub use server::{Rules, Server, Service};
pub use session::Session;
pub use token::Token;

pub use element::{Handlers, Policy};

/// The first line of every connection.
pub const GREETING: &str = "Click::ControlSocket/1.3\r\n";

/// The number of a group by its name or number.
///
/// # Errors
/// There is no such group.
pub fn group(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(format!("there is no group '{name}'")),
        Err(why) => Err(format!("group '{name}': {why}")),
    }
}
