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
//! hyphen after the code: 200 done, 500 syntax, 501 no such command, 510 no such element, 511 no such handler, 520 the
//! handler failed, 521 too much data, 522 the LLRPC failed, 530 not allowed, 590 a read failed.

mod input;
mod places;
mod policy;
mod server;
mod session;
mod token;

pub use places::{Listener, SocketFile, left_behind};
pub use policy::{Policy, group};
pub use server::{Rules, Server, Service};
pub use session::Session;
pub use token::Token;

use crate::handler::{Access, HandlerError, Llrpc};
use crate::remote::Control;
use crate::router::HandlerRef;

/// The first line of every connection.
pub const GREETING: &str = "Click::ControlSocket/1.3\r\n";

/// Where a session finds the handlers it calls.
pub trait Handlers {
    /// What handler `name` allows, if connections may see it.
    ///
    /// # Errors
    /// No such element, or no such handler.
    fn access(&mut self, name: &str) -> Result<Access, HandlerError>;

    /// Reads handler `name`.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError>;

    /// Executes write handler `name`; returns what there is to say about it, mostly nothing.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError>;

    /// What programs call by number of an element: none behind a proxy.
    fn llrpcs(&mut self, _element: &str) -> &'static [Llrpc] {
        &[]
    }

    /// What kind of handler is missing when one is: empty, or a word and a space.
    fn kind(&self) -> &'static str {
        ""
    }
}

pub(crate) fn visible(target: &HandlerRef) -> Result<Access, HandlerError> {
    if target.is_private() { Err(HandlerError::unknown(target.name())) } else { Ok(target.access()) }
}

impl Handlers for Control {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        visible(&self.shared().resolve(name, None)?)
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        Control::read(self, name, param)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        Control::write(self, name, value)
    }

    fn llrpcs(&mut self, element: &str) -> &'static [Llrpc] {
        let shared = self.shared();
        let found =
            shared.resolve(&format!("{element}.class"), None).ok().and_then(|target| target.element());
        found.map_or(&[], |index| shared.elements[index].class.llrpcs)
    }
}
