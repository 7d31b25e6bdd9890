// SPDX-License-Identifier: MIT OR Apache-2.0
//! Session synchronisation: two routers keep each other's sessions, so that either can go on alone.
//!
//! Each router sends a *stream* of records in numbered frames, which the other one acknowledges. A record puts a session, or ends one. What a
//! record holds is the tables' business.
//!
//! 1. [`Link::receive`] takes a datagram and returns its records. [`Link::poll`] makes datagrams that are due, [`Link::send`] one with records.
//! 2. [`Link::take_restart`] says that a stream must begin anew. Its first frame has the record [`Op::Begin`], then come all sessions, then [`Op::Over`].
//! 3. A [`Table`] has the sessions. [`Link::task`] says what must be done to the tables before more can be taken, a part at a time; [`Link::done`] goes on.
//!
//! ```
//! use junctor_statesync::{Key, Link, Op, Records, Settings, record};
//!
//! let key = Key::new(b"a secret of the two routers").unwrap();
//! let mut links = [1, 2].map(|epoch| Link::new(Settings::default(), key.clone(), epoch));
//! let (mut datagram, mut now) = (Vec::new(), 0);
//! for _ in 0..3 {
//!     now += Settings::default().hello_ns;
//!     for (from, to) in [(0, 1), (1, 0)] {
//!         links[from].poll(now, &mut datagram);
//!         links[to].receive(now, &datagram).unwrap();
//!     }
//! }
//! assert!(links.iter().all(Link::is_up));
//! // The first router has a session, and tells of it.
//! assert!(links[0].take_restart(now));
//! let mut records = Vec::new();
//! record(&mut records, Op::Begin, 0, b"");
//! record(&mut records, Op::Put, 0, b"session 1");
//! links[0].send(now, &records, &mut datagram);
//! links[1].done();
//! let taken = links[1].receive(now, &datagram).unwrap();
//! assert_eq!(Records::of(taken).map(|record| record.body).collect::<Vec<_>>(), [&b""[..], b"session 1"]);
//! ```
#![forbid(unsafe_code)]

mod frame;
mod inbound;
mod key;
mod link;
mod outbound;
mod replay;
mod table;

pub use frame::{DATAGRAM_MAX, Op, RECORDS_MAX, Record, Records, record};
pub use key::{BadKey, Key};
pub use link::{Counts, Link, Refusal, Settings, Task};
pub use table::{Change, Changes, NotTaken, Pass, SLACK_NS, Table};
