// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages about events of an address translator, for collectors: IPFIX (RFC 7011) with the records of RFC 8158, or NetFlow v9
//! (RFC 3954) with the same fields, which collectors know as NAT event logging (NEL).
//!
//! An [`Event`] becomes a record: the values of the [`Element`]s that its [`Template`] lists. An [`Exporter`] packs records and templates into
//! messages, one for each datagram:
//!
//! ```text
//! IPFIX, 16 octets                            NetFlow v9, 20 octets
//! version 10 | length                         version 9 | number of records
//! export time, seconds                        milliseconds since the exporter started
//! sequence number: data records before        export time, seconds
//! observation domain                          sequence number: messages before
//!                                             source (observation domain)
//! then sets:  set ID | length | records | zeros up to a multiple of four octets
//! ```
//!
//! A template precedes its first record. UDP loses messages, so templates are sent again after a time and after a number of messages
//! (RFC 7011, 8.1).
//!
//! ```
//! use junctor_ipfix::{Change, Event, Exporter, Format, Settings, What};
//!
//! let mut exporter = Exporter::new(Settings::new(Format::Ipfix), 0)?;
//! let block = What::Block {
//!     change: Change::Created,
//!     inside: "100.64.0.7".parse()?,
//!     outside: "192.0.2.1".parse()?,
//!     ports: (1024, 1535),
//! };
//! let messages = exporter.export(1_700_000_000_000, &[Event { at_ms: 1_700_000_000_000, what: block }]);
//! // A header, a set with a template of eight fields, and a set with a record of 25 octets.
//! assert_eq!(messages[0].len(), 16 + 4 + 4 + 8 * 4 + 4 + 28);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! See RFC 7011, RFC 8158, RFC 3954, and IANA's *IP Flow Information Export (IPFIX) Entities*.
#![forbid(unsafe_code)]

mod element;
mod event;
mod exporter;
mod message;
mod template;

pub use element::Element;
pub use event::{Change, Event, Quota, What};
pub use exporter::{Error, Exporter, Settings};
pub use message::Format;
pub use template::{TEMPLATES, Template};
