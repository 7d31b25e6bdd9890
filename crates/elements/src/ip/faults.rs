// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the header checks of UDP, TCP and ICMP have in common: counts, messages and the way out for bad packets.

use element::swap::{Carried, Count};
use std::cell::Cell;

use element::args::Args;
use element::{Cx, Handler, HandlerError, Reason, handlers};
use packet::{Batch, Packet};

/// Handlers of a header check.
pub(crate) const HANDLERS: &[Handler] = handlers! { Faults:
    sum "drops" => |faults| faults.counts.iter().sum::<u64>();
    tally "drop_details" => |faults| faults.drop_details()?;
};

/// Faults of packets of one protocol.
pub(crate) struct Faults {
    /// The protocol's name, for messages.
    protocol: &'static str,
    verbose: bool,
    details: bool,
    counts: [Count; 3],
}

impl Carried for Faults {
    fn carry(&mut self, now: element::clock::Nanos, old: &mut Faults) {
        self.counts.carry(now, &mut old.counts);
    }
}

impl Faults {
    pub(crate) fn new(protocol: &'static str) -> Faults {
        Faults { protocol, verbose: false, details: false, counts: Default::default() }
    }

    /// Reads VERBOSE and DETAILS.
    pub(crate) fn configure(&mut self, args: &mut Args<'_>) {
        self.verbose = args.keyword("VERBOSE", false);
        self.details = args.keyword("DETAILS", false);
    }

    /// The fault's place among the counts, and its name in Click's messages.
    fn describe(&self, reason: Reason) -> (usize, String) {
        match reason {
            Reason::BadProtocol => (0, format!("not {}", self.protocol)),
            Reason::BadChecksum => (2, format!("bad {} checksum", self.protocol)),
            _ => (1, "bad packet length".into()),
        }
    }

    /// Keeps packets that pass `check`; others leave by output 1 or are dropped.
    #[inline]
    pub(crate) fn filter(
        &mut self,
        cx: &mut Cx<'_>,
        mut batch: Batch,
        check: impl Fn(&Packet) -> Result<(), Reason>,
    ) -> Batch {
        let found = Cell::new(Reason::BadLength);
        let good = |p: &mut Packet| check(p).map_err(|reason| found.set(reason)).is_ok();
        batch.partition(good, |p| self.reject(cx, p, found.get()));
        batch
    }

    #[cold]
    fn reject(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: Reason) {
        let (at, text) = self.describe(reason);
        let told = || format!("{}: {} header check failed: {text}", cx.declaration(), self.protocol);
        match self.verbose {
            true => cx.print(&told()),
            false if self.counts.iter().all(|n| **n == 0) => cx.print_once(&told()),
            false => {}
        }
        self.counts[at] += 1;
        cx.push_one_or_drop(1, packet, reason);
    }

    fn drop_details(&self) -> Result<String, HandlerError> {
        if !self.details {
            return Err(HandlerError::failed("drop_details needs the argument DETAILS true"));
        }
        let reasons = [Reason::BadProtocol, Reason::BadLength, Reason::BadChecksum];
        let lines = reasons.map(|reason| self.describe(reason));
        Ok(lines.iter().map(|(at, text)| format!("{}\t{text}\n", self.counts[*at])).collect())
    }
}

/// The IP header, and what it carries up to its length field, of a packet with this protocol.
///
/// # Errors
/// What is wrong with the packet.
#[inline]
pub(crate) fn payload(packet: &Packet, protocol: u8) -> Result<(&[u8; 20], &[u8]), Reason> {
    let ip = packet.network().ok_or(Reason::BadProtocol)?;
    let header = ip.first_chunk::<20>().ok_or(Reason::BadProtocol)?;
    if header[9] != protocol {
        return Err(Reason::BadProtocol);
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let payload = ip.get(usize::from(header[0] & 15) * 4..total).ok_or(Reason::BadLength)?;
    Ok((header, payload))
}

/// Source and destination of an IP header.
#[inline]
pub(crate) fn addresses(header: &[u8; 20]) -> (std::net::Ipv4Addr, std::net::Ipv4Addr) {
    let address = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]].into();
    (address(12), address(16))
}
