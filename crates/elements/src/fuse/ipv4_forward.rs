// SPDX-License-Identifier: MIT OR Apache-2.0
//! [Forwarding](super::forward) of IPv4: [`ipv4_input`](super::ipv4_input), a lookup, [`ipv4_output`](super::ipv4_output).

use engine::Element;
use engine::clock::Nanos;
use engine::fuse::{Chain, Fork};
use packet::Packet;

use super::forward::{self, Admitted, Entry, Found, Kind};
use super::ipv4_input::{self, Input, Rules};
use super::ipv4_output::{self, Live, Output};
use super::output::Row;
use crate::ip::check_ip_header;
use crate::ip::lookup_ip_route::{V4, flow_hash};

pub(super) const FORK: Fork = Fork { name: "IPv4 forwarding", find: forward::find::<Ipv4> };

struct Ipv4;

#[inline(always)]
fn admitted(packet: &Packet, header: check_ip_header::Admitted) -> Option<Admitted<u32>> {
    let to = u32::from_be_bytes(header.address);
    Some(Admitted { to, len: header.ip_len, plain: ipv4_output::is_plain(packet, header.ttl, to) })
}

impl Kind for Ipv4 {
    type Family = V4;
    type Key = u32;
    type Input = Input;
    type Rules<'a> = Rules<'a>;
    type Output = Output;
    type Live<'a> = Live<'a>;

    const HEADER: usize = 20;

    fn input(trunk: &[&dyn Element]) -> Option<(usize, Input)> {
        ipv4_input::place(trunk).filter(|(_, input)| input.offset(trunk) == Some(0))
    }

    #[inline]
    fn entry<'a>(input: &Input, chain: &'a Chain<'_>) -> Option<Entry<Rules<'a>>> {
        let ipv4_input::Live { color, strip, rules } = input.live(chain)?;
        Some(Entry { rules, color, strip })
    }

    #[inline]
    fn admit(rules: Rules<'_>, packets: &[Packet], at: usize, found: &mut Found<u32>) -> usize {
        // What is the same for all packets is asked here, and not for each.
        match rules {
            Rules { header, addresses: None } if header.checksum => {
                found.admit(packets, move |p| admitted(p, header.admit::<true>(p, at)?))
            }
            Rules { header, addresses: None } => {
                found.admit(packets, move |p| admitted(p, header.admit::<false>(p, at)?))
            }
            rules => found.admit(packets, move |p| admitted(p, rules.admit(p, at)?)),
        }
    }

    fn output(branch: &[&dyn Element]) -> (usize, Output) {
        ipv4_output::place(branch)
    }

    fn open<'a>(
        output: &Output,
        chain: &'a Chain<'_>,
        first: usize,
        color: Option<u8>,
        now: Nanos,
    ) -> Option<Live<'a>> {
        output.live(chain, first, color, now)
    }

    #[inline(always)]
    fn send(live: &Live<'_>, packets: &mut [Packet], row: &Row<'_, u32>) -> usize {
        live.send(packets, row)
    }

    fn flow_hash(datagram: &[u8], to: u32) -> u32 {
        flow_hash(datagram, to)
    }
}
