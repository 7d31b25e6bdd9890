// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPSourceRoute
//!
//! `IPSourceRoute(ADDR, ...)`
//!
//! Sends packets on along their source route: one that is addressed to the router, and whose route is not at its end, is
//! addressed to the next entry that is not the router's own. Stands before the routing table.
//!
//! **Ports:** 1 input; output 0 for all packets but bad ones; output 1, if connected, for those with a bad source route,
//! for which an ICMP parameter problem should be sent.
//!
//! **Arguments**
//! * `ADDR` the addresses of the router.
//!
//! **Metadata:** network header position read; destination annotation set; on output 1 the ICMP parameter problem
//! annotation points at the bad byte.
//!
//! **Drops:** `bad-option`, when output 1 is not connected: a pointer that is off its grid, or a second source route.
//!
//! **Handlers**
//! * `count` read: packets sent on. `drops` read: packets with bad source routes.
//!
//! In place of each entry used, the address is recorded that the packet came for. An IPGWOptions with `SOURCE_ROUTE forward` on the way out puts the
//! outgoing interface's there, and sees to it that a strict route's next hop is a neighbour. A router without this element delivers source-routed
//! packets to itself.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> IPSourceRoute(10.0.0.1, 10.0.1.1) -> Discard;
//! ```
//!
//! See also: IPGWOptions, ICMPError, StaticIPLookup. RFC 791 (3.1), RFC 1812 (4.2.2.1, 5.2.3, 5.2.4.1)

use element::args::{Args, FromArg};
use element::swap::Count;
use element::{Class, Cx, Element, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet, anno};

use super::header;
use super::source_route::source_routes;

/// The descriptor.
pub const CLASS: Class = Class::new("IPSourceRoute", "1/1-2", || Box::new(IpSourceRoute::default()))
    .processing("a/ah")
    .handlers(handlers! { IpSourceRoute:
        sum "count" => .count;
        sum "drops" => .bad;
    })
    .hot_swap::<IpSourceRoute>()
    .rehearsal::<IpSourceRoute>()
    .file(file!());

#[derive(Clone, Default)]
struct IpSourceRoute {
    mine: Vec<[u8; 4]>,
    count: Count,
    bad: Count,
}

/// Addresses a packet to the next entry of its source route; returns whether there was one, or the offset in the header of
/// the byte at fault.
fn send_on(packet: &mut Packet, mine: &[[u8; 4]]) -> Result<bool, usize> {
    let Some(ip) = packet.network_mut() else { return Ok(false) };
    let header_len = (usize::from(ip.first().map_or(0, |b| b & 15)) * 4).min(ip.len());
    let header = &mut ip[..header_len];
    let mut routes = source_routes(header);
    let (Some(route), second) = (routes.next(), routes.next()) else { return Ok(false) };
    drop(routes);
    if let Some(second) = second {
        return Err(second.start);
    }
    let mut to = [header[16], header[17], header[18], header[19]];
    let mut sent_on = false;
    while mine.contains(&to) {
        let option = &mut header[route.clone()];
        let Some(pointer) = option.get(2).map(|p| usize::from(*p)) else { return Err(route.start + 1) };
        if pointer > option.len() {
            break;
        }
        match option.get_mut(pointer.wrapping_sub(1)..).and_then(|o| o.first_chunk_mut::<4>()) {
            Some(entry) if pointer >= 4 && pointer.is_multiple_of(4) => to = std::mem::replace(entry, to),
            _ => return Err(route.start + 2),
        }
        option[2] += 4;
        header[16..20].copy_from_slice(&to);
        sent_on = true;
    }
    if sent_on {
        header[10..12].fill(0);
        let sum = wire::checksum::internet(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.set_dst_ip(to);
    }
    Ok(sent_on)
}

impl Element for IpSourceRoute {
    fn configure(&mut self, args: &mut Args<'_>) {
        for text in args.rest() {
            match std::net::Ipv4Addr::from_arg(&text, args.names) {
                Ok(address) => self.mine.push(address.octets()),
                Err(_) => args.error(format!("expected the router's IPv4 addresses, not '{text}'")),
            }
        }
        if self.mine.is_empty() && args.errors().is_empty() {
            args.missing("ADDR", "the router's IPv4 addresses");
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        if batch.iter().all(|p| header(p).is_none_or(|h| h[0] & 15 <= 5)) {
            return batch;
        }
        let IpSourceRoute { mine, count, bad } = self;
        let good = |p: &mut Packet| match send_on(p, mine) {
            Ok(sent_on) => {
                *count += u64::from(sent_on);
                true
            }
            Err(at) => {
                p.set_anno_u8(anno::ICMP_PARAM_PROBLEM, at as u8);
                false
            }
        };
        batch.partition(good, |p| {
            *bad += 1;
            cx.push_one_or_drop(1, p, Reason::BadOption);
        });
        batch
    }
}

impl Rehearsal for IpSourceRoute {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(IpSourceRoute: count, bad; anew mine);

#[cfg(test)]
mod tests {
    use super::super::samples::{datagram, sealed};
    use super::*;
    use crate::testing::Rig;

    /// What becomes of a packet to 10.0.0.1 with these options: destination and options, or the offset at fault.
    fn check(options: &[u8], want: Result<([u8; 4], &[u8]), u8>) {
        let p = datagram(9, [1, 2, 3, 4], [10, 0, 0, 1], options, 4);
        for burst in [1, 32] {
            let rig = Rig::new("IPSourceRoute(10.0.0.1, 10.0.1.1)").outputs(2).burst(burst);
            let run = rig.packets(vec![p.duplicate().unwrap()]).run();
            match want {
                Ok((to, bytes)) => {
                    let out = &run.out("o0")[0];
                    assert!(sealed(out.data()));
                    assert_eq!(
                        (out.data()[16..20].to_vec(), &out.data()[20..20 + options.len()]),
                        (to.to_vec(), bytes)
                    );
                    assert!(to == [10, 0, 0, 1] || out.dst_ip() == to);
                }
                Err(at) => assert_eq!(run.out("o1")[0].anno_u8(anno::ICMP_PARAM_PROBLEM), at, "{options:?}"),
            }
        }
    }

    // conformance: RFC1812-5.2.3-c RFC1812-5.3.13.4-a
    #[test]
    fn goes_on_to_the_next_entry_that_is_not_ours() {
        check(
            &[131, 11, 4, 2, 2, 2, 2, 3, 3, 3, 3, 0],
            Ok(([2, 2, 2, 2], &[131, 11, 8, 10, 0, 0, 1, 3, 3, 3, 3, 0])),
        );
        check(
            &[1, 137, 11, 4, 10, 0, 1, 1, 3, 3, 3, 3],
            Ok(([3, 3, 3, 3], &[1, 137, 11, 12, 10, 0, 0, 1, 10, 0, 1, 1])),
        );
        // At its end: it is for us.
        check(&[131, 7, 8, 2, 2, 2, 2, 0], Ok(([10, 0, 0, 1], &[131, 7, 8, 2, 2, 2, 2, 0])));
        check(&[131, 7, 4, 10, 0, 1, 1, 0], Ok(([10, 0, 1, 1], &[131, 7, 8, 10, 0, 0, 1, 0])));
    }

    // conformance: RFC1812-5.2.4.1
    #[test]
    fn faults_are_pointed_at() {
        check(&[131, 7, 5, 2, 2, 2, 2, 0], Err(22));
        check(&[131, 7, 0, 2, 2, 2, 2, 0], Err(22));
        check(&[131, 6, 4, 2, 2, 2, 0, 0], Err(22));
        check(&[131, 7, 4, 2, 2, 2, 2, 131, 7, 4, 3, 3, 3, 3, 0, 0], Err(27));
    }

    #[test]
    fn packets_for_others_pass() {
        let transit = datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[131, 7, 4, 2, 2, 2, 2, 0], 4);
        let before = transit.data().to_vec();
        let mut run = Rig::new("IPSourceRoute(10.0.0.1)").packets(vec![transit]).run();
        assert_eq!((run.bytes("o0"), run.read("e.count").as_str()), (vec![before], "0"));
        assert_eq!(
            Rig::new("IPSourceRoute(x)").errors(),
            ["e: expected the router's IPv4 addresses, not 'x'"]
        );
        assert_eq!(
            Rig::new("IPSourceRoute").errors(),
            ["e: missing argument ADDR: the router's IPv4 addresses"]
        );
    }
}
