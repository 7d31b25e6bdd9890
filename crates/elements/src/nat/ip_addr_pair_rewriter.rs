// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPAddrPairRewriter
//!
//! `IPAddrPairRewriter(INPUTSPEC, ... [, keywords TIMEOUT, GUARANTEE, MAPPING_CAPACITY, HOST_FLOWS, DST_ANNO, REPLY_ANNO, REAP_INTERVAL])`
//!
//! Rewrites the addresses of all packets between two hosts, both ways.
//!
//! A mapping is by source and destination address: between IPAddrRewriter, which goes by one address, and IPRewriter, which
//! goes by ports too. Hosts may share an outside address as long as they talk to different peers.
//!
//! **Ports:** push; as many inputs as there are INPUTSPECs, 1 to 256 outputs.
//!
//! **Arguments**
//! * `INPUTSPEC` for each input, what happens to packets of an unknown pair:
//!   * `pattern SADDR DADDR FOUTPUT ROUTPUT`: the pair's packets get these addresses (`-` leaves one as it is) and leave by
//!     FOUTPUT; answers are rewritten back and leave by ROUTPUT. SADDR may be a range `LOW-HIGH` or the hosts of a prefix
//!     `ADDR/LENGTH`, of which a random one is taken that is free towards that peer; with `#` behind it, the next one.
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
//! * `table`, `mappings` read: a line for each mapping and direction:
//!   `(SRC, DST) => (SRC, DST) [*FOUTPUT ROUTPUT] iINPUT expSECONDS`.
//! * `nmappings`, `table_size`, `size`, `mapping_failures`, `patterns` read, `patternN`, `capacity` read/write, `clear` write: as
//!   for IPRewriter.
//!
//! ```click
//! rw :: IPAddrPairRewriter(pattern 192.0.2.1 10.0.0.5 0 1, drop);
//! Idle -> [0]rw; Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;
//! ```
//!
//! See also: IPAddrRewriter, IPRewriter, IPRewriterPatterns, ICMPRewriter; RFC 3022

use element::Class;
use element::args::Args;
use packet::Packet;
use tables::flow::FlowKey;

use super::core::{self, Family, Rewriter};
use super::ip_addr_rewriter::{TIMEOUT_S, by_addresses};
use super::kind::FlowKind;
use super::mappings::{Mapping, Timing};

/// The descriptor.
pub const CLASS: Class = Rewriter::<Pair>::with_capabilities(
    Class::new("IPAddrPairRewriter", "1-/1-256", || {
        Box::new(Rewriter::new(Pair(Timing { idle_ns: 0, guarantee_ns: 0 })))
    })
    .processing("h/h")
    .serial("address pairs are given out from one table, each once")
    .handlers(Rewriter::<Pair>::HANDLERS)
    .file(file!()),
);

struct Pair(Timing);

impl Family for Pair {
    const KIND: FlowKind = FlowKind::Pair;

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
