// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6Extensions
//!
//! `IP6Extensions([keyword PROTOCOLS])`
//!
//! Processes the extension headers of IPv6 packets that were sent to this host, in order, and marks the header of the
//! upper layer behind them.
//!
//! **Ports:** 1 input; output 0 for packets to be processed further. The others, if connected, are for packets that deserve a parameter problem:
//! output 1 of code 0 (a field is wrong), output 2 of code 1 (a header is not known), output 3 of code 2 (an option is not known).
//!
//! **Arguments**
//! * `PROTOCOLS` list of the upper layers that this host has, by number or name (`tcp`, `udp`, `icmp6`...); default all.
//!
//! **Metadata:** network header position read; transport header position set; on outputs 1 to 3 the parameter problem's
//! pointer set.
//!
//! **Drops:** `bad-option`: packets whose unknown option asks for silence, and those for outputs that are not connected;
//! `bad-fragment`, fragments, which IP6Reassembler should have put together before; `discarded`, packets that say
//! themselves that nothing follows (next header 59).
//!
//! **Handlers**
//! * `drops` read: packets that did not pass to output 0.
//!
//! No routing header is understood: one with segments left is a problem, also of the type 0 that RFC 5095 abolished, and
//! any other is passed over. More than eight extension headers are taken for an attack and dropped as `bad-option`.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIP6Header -> x :: IP6Extensions(PROTOCOLS "tcp udp icmp6") -> Discard;
//! x[1] -> ICMP6Error(2001:db8::1, parameterproblem, header, LOCAL true) -> Discard;
//! x[2] -> ICMP6Error(2001:db8::1, parameterproblem, nextheader, LOCAL true) -> Discard;
//! x[3] -> ICMP6Error(2001:db8::1, parameterproblem, option, LOCAL true) -> Discard;
//! ```
//!
//! See also: IP6HopByHop, IP6Reassembler, ICMP6Error. RFC 8200 (4), RFC 4443 (3.4), RFC 5095, RFC 8504 (5.3)

use std::cell::Cell;

use element::args::{Args, FromArg, Names};
use element::swap::Count;
use element::{Class, Cx, Element, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};
use wire::Protocol;
use wire::ipv6::MAX_EXTENSIONS;

use super::options::{self, Fault};
use super::{HEADER_LEN, header};

/// The descriptor.
pub const CLASS: Class = Class::new("IP6Extensions", "1/1-4", || Box::<Ip6Extensions>::default())
    .processing("a/ah")
    .handlers(handlers! { Ip6Extensions:
        sum "drops" => .bad;
    })
    .hot_swap::<Ip6Extensions>()
    .rehearsal::<Ip6Extensions>()
    .file(file!());

/// A list of protocols.
#[derive(Default)]
struct Protocols(Vec<Protocol>);

impl FromArg for Protocols {
    const EXPECTED: &'static str = "a list of protocols, by number or name";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        let text = String::from_utf8_lossy(&lang::config::unquote(text)).into_owned();
        let protocol = |word: &str| {
            let number = element::parse_integer(word).and_then(|n| u8::try_from(n).ok()).map(Protocol);
            number.or_else(|| Protocol::from_name(word)).ok_or_else(String::new)
        };
        text.split_ascii_whitespace().map(protocol).collect::<Result<_, _>>().map(Protocols)
    }
}

#[derive(Clone, Default)]
struct Ip6Extensions {
    /// Empty for all.
    protocols: Vec<Protocol>,
    bad: Count,
}

impl Ip6Extensions {
    /// Walks the headers; where the upper layer begins, from the IPv6 header's first byte.
    fn walk(&self, ip: &[u8]) -> Result<usize, Fault> {
        let multicast = ip[24] == 0xff;
        // The field that names the header at `at`.
        let (mut named_at, mut at) = (6, HEADER_LEN);
        for _ in 0..=MAX_EXTENSIONS {
            let header = match Protocol(ip[named_at]) {
                // Hop-by-hop options come first or not at all (RFC 8200, 4.1).
                Protocol::HOP_BY_HOP if at > HEADER_LEN => return Err(Fault::NextHeader(named_at)),
                Protocol::HOP_BY_HOP | Protocol::IPV6_DESTINATION => {
                    let header = options::whole(ip, at)?;
                    options::check(header, at, multicast)?;
                    header
                }
                Protocol::IPV6_ROUTE => match options::whole(ip, at)? {
                    header if header[3] > 0 => return Err(Fault::Header(at + 2)),
                    header => header,
                },
                Protocol::IPV6_FRAGMENT => match ip.get(at..at + 8) {
                    // One that is the whole packet passes (RFC 6946).
                    Some(header) if header[2] == 0 && header[3] & 0xf9 == 0 => header,
                    _ => return Err(Fault::Silent(Reason::BadFragment)),
                },
                Protocol::IPV6_NO_NEXT => return Err(Fault::Silent(Reason::Discarded)),
                known if self.protocols.is_empty() || self.protocols.contains(&known) => return Ok(at),
                _ => return Err(Fault::NextHeader(named_at)),
            };
            (named_at, at) = (at, at + header.len());
        }
        Err(Fault::Silent(Reason::BadOption))
    }

    fn examine(&self, packet: &mut Packet) -> Result<(), Fault> {
        let h = header(packet).ok_or(Fault::Silent(Reason::TooShort))?;
        let end = HEADER_LEN + usize::from(u16::from_be_bytes([h[4], h[5]]));
        let ip = packet.network().unwrap_or_default();
        let ip_at = packet.len() - ip.len();
        let at = self.walk(&ip[..ip.len().min(end)])?;
        packet.set_transport_offset((ip_at + at) as i32);
        Ok(())
    }
}

impl Element for Ip6Extensions {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.protocols = args.keyword("PROTOCOLS", Protocols::default()).0;
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let found = Cell::new(Fault::Header(0));
        let mut bad = 0;
        let good = |p: &mut Packet| self.examine(p).map_err(|fault| found.set(fault)).is_ok();
        batch.partition(good, |mut p| {
            bad += 1;
            let fault = found.get();
            fault.note(&mut p);
            match fault {
                Fault::Silent(reason) => cx.drop(reason, p),
                Fault::Header(_) => cx.push_one_or_drop(1, p, Reason::BadOption),
                Fault::NextHeader(_) => cx.push_one_or_drop(2, p, Reason::BadOption),
                Fault::Option(_) => cx.push_one_or_drop(3, p, Reason::BadOption),
            }
        });
        self.bad += bad;
        batch
    }
}

impl Rehearsal for Ip6Extensions {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(Ip6Extensions: bad; anew protocols);

#[cfg(test)]
mod tests {
    use packet::anno;

    use super::super::samples::packet;
    use super::*;
    use crate::testing::Rig;

    const CONFIG: &str = "IP6Extensions(PROTOCOLS \"tcp udp 58\")";

    fn sample(next: u8, payload: &[&[u8]]) -> Packet {
        packet("2001:db8::1", "2001:db8::2", next, 9, &payload.concat())
    }

    /// Where one packet goes: output and pointer, or transport offset on output 0.
    fn verdict(p: &Packet) -> (usize, Option<u32>) {
        let rig = Rig::new(CONFIG).outputs(4).packets(vec![p.duplicate().unwrap()]);
        let run = rig.run();
        for port in 0..4 {
            if let Some(out) = run.out(&format!("o{port}")).first() {
                let transport = out.transport_offset().unwrap() as u32;
                let noted = if port == 0 { transport } else { out.anno_u32(anno::ICMP6_POINTER) };
                return (port, Some(noted));
            }
        }
        (run.drops("e")[0].0 as usize, None)
    }

    /// Eight bytes of header with padding.
    const fn padding(next: u8) -> [u8; 8] {
        [next, 0, 1, 4, 0, 0, 0, 0]
    }

    // conformance: RFC8200-4-a RFC8200-4-b RFC8200-4.1-a RFC8200-4.1-b RFC8200-4.4-a RFC8200-4.4-b RFC8200-4.7-a RFC4443-3.4-b
    #[test]
    fn headers_in_order() {
        let udp = [9; 8];
        let check = |next: u8, payload: &[&[u8]], want: (usize, Option<u32>)| {
            assert_eq!(verdict(&sample(next, payload)), want, "{next} {payload:?}");
        };
        check(17, &[&udp], (0, Some(40)));
        check(0, &[&padding(60), &padding(6), &udp], (0, Some(56)));
        // Routing headers: without and with segments left, of type 0 and an unknown one.
        check(43, &[&[17, 0, 0, 0, 0, 0, 0, 0], &udp], (0, Some(48)));
        check(43, &[&[17, 0, 99, 0, 0, 0, 0, 0], &udp], (0, Some(48)));
        check(43, &[&[17, 2, 0, 1, 0, 0, 0, 0], &[0; 16], &udp], (1, Some(42)));
        check(60, &[&padding(43), &[17, 0, 99, 3, 0, 0, 0, 0], &udp], (1, Some(50)));
        // Unknown headers, and hop-by-hop options in the wrong place.
        check(132, &[&udp], (2, Some(6)));
        check(60, &[&padding(0), &padding(17), &udp], (2, Some(40)));
        check(60, &[&padding(60), &padding(50), &udp], (2, Some(48)));
        // Options.
        check(60, &[&[17, 0, 0x9e, 0, 0, 0, 0, 0], &udp], (3, Some(42)));
        check(0, &[&[60, 0, 0, 0, 0, 0, 0, 0], &[17, 0, 0, 0, 0xde, 0, 0, 0], &udp], (3, Some(52)));
        check(60, &[&[17, 0, 0x5e, 0, 0, 0, 0, 0], &udp], (Reason::BadOption as usize, None));
        // Cut off.
        check(60, &[&[17, 1, 0, 0, 0, 0, 0, 0]], (1, Some(41)));
        check(60, &[], (1, Some(41)));
        // Nothing follows; fragments; too many headers.
        check(59, &[&udp], (Reason::Discarded as usize, None));
        check(44, &[&[17, 0, 0, 0, 0, 0, 0, 1], &udp], (0, Some(48)));
        check(44, &[&[17, 0, 0, 1, 0, 0, 0, 1], &udp], (Reason::BadFragment as usize, None));
        let again = padding(60).repeat(9);
        check(60, &[&again, &udp], (Reason::BadOption as usize, None));
    }

    #[test]
    fn batches_keep_their_order() {
        for burst in [1, 32] {
            let packets = vec![
                sample(17, &[&[1; 8]]),
                sample(132, &[&[2; 8]]),
                Packet::copy_of(b"x").unwrap(),
                sample(6, &[&[3; 20]]),
                sample(50, &[&[4; 8]]),
            ];
            let mut run = Rig::new(CONFIG).outputs(4).burst(burst).packets(packets).run();
            let last = |name: &str| run.bytes(name).iter().map(|b| b[b.len() - 1]).collect::<Vec<_>>();
            assert_eq!((last("o0"), last("o2")), (vec![1, 3], vec![2, 4]));
            assert_eq!((run.drops("e"), run.read("e.drops").as_str()), (vec![(Reason::TooShort, 1)], "3"));
        }
        let all = Rig::new("IP6Extensions").packets(vec![sample(132, &[&[2; 8]])]).run();
        assert_eq!(all.out("o0").len(), 1);
        assert_eq!(
            Rig::new("IP6Extensions(PROTOCOLS tdp)").errors(),
            ["e: argument PROTOCOLS should be a list of protocols, by number or name, not 'tdp'"]
        );
    }
}
