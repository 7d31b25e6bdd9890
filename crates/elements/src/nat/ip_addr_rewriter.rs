// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPAddrRewriter
//!
//! `IPAddrRewriter(INPUTSPEC, ... [, keywords TIMEOUT, GUARANTEE, MAPPING_CAPACITY, HOST_FLOWS, DST_ANNO, REPLY_ANNO, REAP_INTERVAL])`
//!
//! Gives each inside host an outside address: basic network address translation, for all protocols.
//!
//! A mapping is by source address alone. Packets from a host get its outside address as source; packets to the outside address get the host's as
//! destination, from any sender. Each host needs an address of its own.
//!
//! **Ports:** push; as many inputs as there are INPUTSPECs, 1 to 256 outputs.
//!
//! **Arguments**
//! * `INPUTSPEC` for each input, what happens to packets whose source has no mapping, nor their destination:
//!   * `pattern SADDR - FOUTPUT ROUTPUT`: the source gets address SADDR, or `-` keeps it. SADDR may be a range `LOW-HIGH` or
//!     the hosts of a prefix `ADDR/LENGTH`, of which a random free one is taken; with `#` behind it, the next one.
//!     `pattern NAME FOUTPUT ROUTPUT` takes such a pattern from IPRewriterPatterns.
//!   * `keep`, `nochange`, `drop`, `ELEMENT`: as for IPRewriter, as is a reply element at the end of `pattern` and `keep`.
//! * `TIMEOUT` default 2 h: idle time after which a mapping ends.
//! * `GUARANTEE`, `MAPPING_CAPACITY`, `HOST_FLOWS`, `DST_ANNO`, `REPLY_ANNO`, `REAP_INTERVAL`: as for IPRewriter.
//!
//! **Metadata read:** network and transport header positions. **Set:** destination address, REPLY_ANNO.
//!
//! TCP's and UDP's checksums are updated too. Later fragments are rewritten like all other packets.
//!
//! **Cores:** the mappings are in one table, which one worker may use at a time.
//!
//! **Drops:** `no-mapping`; `mapping-table-full`, when neither an address nor a place for a mapping is free; `mapping-taken`
//! and `host-flow-limit` as for IPRewriter.
//!
//! **Handlers**
//! * `table`, `mappings` read: a line for each mapping and direction: `OLD => NEW [*FOUTPUT ROUTPUT] iINPUT expSECONDS`.
//! * `nmappings`, `table_size`, `size`, `mapping_failures`, `patterns` read, `patternN`, `capacity` read/write, `clear` write: as
//!   for IPRewriter.
//!
//! ```click
//! rw :: IPAddrRewriter(pattern 192.0.2.16/28 - 0 1, drop);
//! Idle -> [0]rw; Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;
//! ```
//!
//! See also: IPAddrPairRewriter, IPRewriter, IPRewriterPatterns, ICMPRewriter; RFC 3022 section 2.1

use element::Class;
use element::args::Args;
use packet::Packet;
use tables::flow::FlowKey;

use super::core::{self, Family, Rewriter};
use super::kind::FlowKind;
use super::mappings::{Mapping, Timing};

/// The descriptor.
pub const CLASS: Class = Rewriter::<Address>::with_capabilities(
    Class::new("IPAddrRewriter", "1-/1-256", || {
        Box::new(Rewriter::new(Address(Timing { idle_ns: 0, guarantee_ns: 0 })))
    })
    .processing("h/h")
    .serial("addresses are given out from one table, each once")
    .handlers(Rewriter::<Address>::HANDLERS)
    .file(file!()),
);

/// Seconds.
pub(super) const TIMEOUT_S: u64 = 7200;

/// The flow that a packet's addresses alone make.
#[inline]
pub(super) fn by_addresses(packet: &Packet) -> Option<(FlowKey, bool)> {
    let ip = packet.network()?.first_chunk::<20>()?;
    let src = u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]);
    let dst = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
    Some((FlowKey { src, dst, sport: 0, dport: 0, proto: 0, zone: 0 }, true))
}

struct Address(Timing);

impl Family for Address {
    const KIND: FlowKind = FlowKind::Address;

    fn configure(&mut self, args: &mut Args<'_>) {
        self.0 = core::plain_timing(args, TIMEOUT_S);
    }

    #[inline(always)]
    fn flow(&self, packet: &Packet) -> Option<(FlowKey, bool)> {
        by_addresses(packet)
    }

    #[inline]
    fn timing(&self, _: u8, _: &Mapping) -> Timing {
        self.0
    }
}
