// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ICMPPingRewriter
//!
//! `ICMPPingRewriter(INPUTSPEC, ... [, keywords TIMEOUT, GUARANTEE, MAPPING_CAPACITY, HOST_FLOWS, DST_ANNO, REPLY_ANNO, REAP_INTERVAL])`
//!
//! Rewrites addresses and identifiers of ICMP echo requests, and their replies back: pings through an address translator.
//!
//! **Ports:** push; as many inputs as there are INPUTSPECs, 1 to 256 outputs.
//!
//! **Arguments**
//! * `INPUTSPEC` for each input, what happens to echo requests of unknown addresses and identifier, as for IPRewriter:
//!   * `pattern SADDR IDENTIFIER DADDR - FOUTPUT ROUTPUT`, or `pattern SADDR DADDR IDENTIFIER FOUTPUT ROUTPUT`: they get these addresses and this
//!     identifier (`-` leaves one as it is). The identifier takes the place of the source port: mostly a range `LOW-HIGH`, from 0 to 65535, of which
//!     the ping's own is taken if it is free, else a random free one. A `?` behind the range means a random one in any case, and `#` the next one.
//!   * `pattern NAME FOUTPUT ROUTPUT`, `keep`, `nochange`, `drop`, `ELEMENT`, and a reply element: as for IPRewriter.
//! * `TIMEOUT` default 5 min: idle time after which a mapping ends.
//! * `GUARANTEE`, `MAPPING_CAPACITY`, `HOST_FLOWS`, `DST_ANNO`, `REPLY_ANNO`, `REAP_INTERVAL`: as for IPRewriter.
//!
//! **Metadata read:** network and transport header positions. **Set:** destination address, REPLY_ANNO.
//!
//! **Cores:** the mappings are in one table, which one worker may use at a time.
//!
//! **Drops:** `no-mapping`: replies that nobody waits for, other ICMP messages and protocols, and later fragments, unless the
//! input has `nochange`. `mapping-table-full`, when neither an identifier nor a place for a mapping is free; `mapping-taken`
//! and `host-flow-limit` as for IPRewriter.
//!
//! **Handlers**
//! * `table`, `mappings` read: a line for each mapping and direction:
//!   `(SRC, DST, IDENTIFIER) => (SRC, DST, IDENTIFIER) [*FOUTPUT ROUTPUT] iINPUT expSECONDS`.
//! * `nmappings`, `table_size`, `size`, `mapping_failures`, `patterns` read, `patternN`, `capacity` read/write, `clear` write: as
//!   for IPRewriter.
//!
//! ```click
//! rw :: ICMPPingRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
//! Idle -> [0]rw; Idle -> [1]rw; rw[0] -> Discard; rw[1] -> Discard;
//! ```
//!
//! See also: IPRewriter, ICMPRewriter, IPRewriterPatterns, ICMPPingResponder; RFC 792, RFC 1624, RFC 5508 section 3

use element::Class;
use element::args::Args;
use packet::Packet;
use tables::flow::FlowKey;

use super::core::{self, Family, Rewriter};
use super::kind::{ECHO, ECHO_REPLY, FlowKind, ICMP};
use super::mappings::{Mapping, Timing};

/// The descriptor.
pub const CLASS: Class = Rewriter::<Pings>::with_capabilities(
    Class::new("ICMPPingRewriter", "1-/1-256", || {
        Box::new(Rewriter::new(Pings(Timing { idle_ns: 0, guarantee_ns: 0 })))
    })
    .processing("h/h")
    .serial("identifiers are given out from one table, each once")
    .handlers(Rewriter::<Pings>::HANDLERS)
    .file(file!()),
);

/// Seconds.
const TIMEOUT_S: u64 = 300;

/// The flow of an echo of this type, and whether it may begin one: a request, not a reply.
pub(super) fn echo_flow(src: u32, dst: u32, icmp: u8, identifier: u16) -> Option<(FlowKey, bool)> {
    let next = identifier.wrapping_add(1);
    let (sport, dport) = match icmp {
        ECHO => (identifier, next),
        ECHO_REPLY => (next, identifier),
        _ => return None,
    };
    Some((FlowKey { src, dst, sport, dport, proto: ICMP, zone: 0 }, icmp == ECHO))
}

struct Pings(Timing);

impl Family for Pings {
    const KIND: FlowKind = FlowKind::Pings;

    fn configure(&mut self, args: &mut Args<'_>) {
        self.0 = core::plain_timing(args, TIMEOUT_S);
    }

    #[inline(always)]
    fn flow(&self, packet: &Packet) -> Option<(FlowKey, bool)> {
        let ip = packet.network()?.first_chunk::<20>()?;
        let first = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff == 0;
        let head = packet.transport()?.first_chunk::<6>()?;
        if !first || ip[9] != ICMP {
            return None;
        }
        let src = u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]);
        let dst = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
        echo_flow(src, dst, head[0], u16::from_be_bytes([head[4], head[5]]))
    }

    #[inline]
    fn timing(&self, _: u8, _: &Mapping) -> Timing {
        self.0
    }
}
