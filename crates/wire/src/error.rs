// SPDX-License-Identifier: MIT OR Apache-2.0
//! The crate's errors: a packet that cannot be what it claims, and text that is no address.

/// Why bytes are not a packet of the protocol asked for, or a packet does not fit a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The buffer ends before the header, or before what the header's own length fields promise.
    #[error("{protocol}: truncated, {needed} bytes needed but only {available} present")]
    Truncated {
        /// Protocol whose header was being read or written.
        protocol: &'static str,
        /// Bytes that the header or its length fields ask for.
        needed: usize,
        /// Bytes that were there.
        available: usize,
    },
    /// A field holds a value that the protocol forbids.
    #[error("{protocol}: {field} is {value}, expected {expected}")]
    Field {
        /// Protocol whose header was being read or written.
        protocol: &'static str,
        /// Field at fault, in the RFC's words.
        field: &'static str,
        /// Value found.
        value: u32,
        /// What would have been accepted.
        expected: &'static str,
    },
}

impl Error {
    /// Returns `Ok` when `available` bytes suffice for `needed`.
    #[inline]
    pub(crate) fn check_len(protocol: &'static str, needed: usize, available: usize) -> Result<(), Error> {
        if available < needed { Err(Error::Truncated { protocol, needed, available }) } else { Ok(()) }
    }

    /// Returns `Ok` when `ok` holds, else the complaint about a field.
    #[inline]
    pub(crate) fn check_field(
        ok: bool,
        protocol: &'static str,
        field: &'static str,
        value: u32,
        expected: &'static str,
    ) -> Result<(), Error> {
        if ok { Ok(()) } else { Err(Error::Field { protocol, field, value, expected }) }
    }
}

/// Text that is not the address, prefix or port it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct ParseAddrError {
    /// The text as given.
    pub text: String,
    /// What it should have been, with an example.
    pub expected: &'static str,
}

impl ParseAddrError {
    pub(crate) fn new(text: &str, expected: &'static str) -> Self {
        ParseAddrError { text: text.to_owned(), expected }
    }
}
