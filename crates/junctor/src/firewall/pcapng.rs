// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor firewall log --pcapng`: the packets of a firewall's journal as a capture file, with an interface for each link.

use std::path::Path;

use client::Failure;
use observe::records::Line;
use observe::sink::{Sink, Unwritten};
use views::answers::Events;
use views::firewall::{self as view, ITSELF, Logged};

use crate::findings::{Of, take_while};
use crate::{exit, outcome};

/// Writes the packets of the journal; with `follow` until it is interrupted.
pub(super) fn write(path: &Path, follow: bool, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("Firewall")?;
    let bytes = view::log_bytes(&mut client, &element)?;
    let links = view::links(&mut client, &element)?;
    let mut log = match Log::new(path, bytes, &links) {
        Ok(log) => log,
        Err(why) => return Ok(outcome::fail(why)),
    };
    let mut failed = None;
    let taken = take_while(
        follow,
        0,
        |from| view::logged(&mut client, &element, from),
        |events| {
            failed = log.take(events).err();
            failed.is_none() && !log.sink.is_closed()
        },
    );
    // A router that has gone is reported after what it said is in the file.
    failed = failed.or(log.sink.end(log.gone).err());
    if let Some(why) = failed {
        return Ok(outcome::fail(why));
    }
    errln!("junctor: wrote {} events{}", log.events, log.sink.shown());
    taken.map(|()| exit::SUCCESS)
}

/// A capture file under way.
struct Log {
    sink: Sink,
    /// The names of its interfaces, by their numbers.
    interfaces: Vec<String>,
    events: u64,
    /// Events that were gone before they could be read, or were never taken.
    gone: u64,
}

impl Log {
    /// Begins a file whose packets have so many bytes at most, and describes the links that there are.
    fn new(path: &Path, bytes: u32, links: &[String]) -> Result<Log, Unwritten> {
        let sink = Sink::new(Some(path), None, None, "", bytes)?;
        let mut log = Log { sink, interfaces: Vec::new(), events: 0, gone: 0 };
        for link in links {
            log.interface(link)?;
        }
        log.sink.flush()?;
        Ok(log)
    }

    /// The number of a link's interface. A link that came with another configuration is described now.
    fn interface(&mut self, link: &str) -> Result<u32, Unwritten> {
        let known = self.interfaces.iter().position(|known| known == link);
        let number = known.unwrap_or(self.interfaces.len()) as u32;
        if known.is_none() {
            self.sink.interface(number, link.to_owned(), true)?;
            self.interfaces.push(link.to_owned());
        }
        Ok(number)
    }

    /// Writes these events, and hands them to the operating system.
    fn take(&mut self, events: &Events<Logged>) -> Result<(), Unwritten> {
        self.gone += events.gone;
        for event in &events.all {
            if self.sink.is_closed() {
                return Ok(());
            }
            // The router's own packets are on their way out by a link.
            let inbound = event.came != ITSELF;
            let interface = self.interface(if inbound { &event.came } else { &event.goes })?;
            self.sink.packet(&Line::Packet {
                interface,
                time_ns: event.time_ns,
                len: event.length,
                bytes: event.bytes.clone(),
                inbound: Some(inbound),
                comment: view::comment(event),
            })?;
            self.events += 1;
        }
        self.sink.flush()
    }
}
