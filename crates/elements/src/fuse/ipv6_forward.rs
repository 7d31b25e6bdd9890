// SPDX-License-Identifier: MIT OR Apache-2.0
//! [Forwarding](super::forward) of IPv6: [`ipv6_input`](super::ipv6_input), a lookup, [`ipv6_output`](super::ipv6_output).

use element::Element;
use element::clock::Nanos;
use element::fuse::{Chain, Fork};
use packet::Packet;

use super::forward::{self, Admitted, Entry, Found, Kind};
use super::ipv6_input::{self, Input};
use super::ipv6_output::{self, Live, Output};
use super::output::Row;
use crate::ip6::HEADER_LEN;
use crate::ip6::check_ip6_header::Rules;
use crate::ip6::lookup_ip6_route::{V6, flow_hash};

pub(super) const FORK: Fork = Fork { name: "IPv6 forwarding", find: forward::find::<Ipv6> };

struct Ipv6;

impl Kind for Ipv6 {
    type Family = V6;
    type Key = u128;
    type Input = Input;
    /// Besides the header's: whether hop-by-hop options make a packet extraordinary.
    type Rules<'a> = (&'a Rules, bool);
    type Output = Output;
    type Live<'a> = Live<'a>;
    type More = ();

    const HEADER: usize = HEADER_LEN;

    fn input(trunk: &[&dyn Element]) -> Option<(usize, Input)> {
        ipv6_input::place(trunk).filter(|(_, input)| input.offset(trunk) == Some(0))
    }

    #[inline]
    fn entry<'a>(input: &Input, chain: &'a Chain<'_>) -> Option<Entry<(&'a Rules, bool)>> {
        let ipv6_input::Live { color, strip, options, rules } = input.live(chain)?;
        Some(Entry { rules: (rules, options), color, strip })
    }

    #[inline]
    fn admit(
        (rules, options): (&Rules, bool),
        packets: &[Packet],
        at: usize,
        found: &mut Found<u128>,
        (): &mut (),
    ) -> usize {
        found.admit(packets, move |packet| {
            let header = rules.admit(packet, at).filter(|h| !options || h.next_header != 0)?;
            let plain = ipv6_output::is_plain(packet, &header);
            let to = u128::from_be_bytes(header.destination);
            Some(Admitted { to, behind: u16::try_from(header.ip_len.checked_sub(HEADER_LEN)?).ok()?, plain })
        })
    }

    fn output(branch: &[&dyn Element]) -> (usize, Output) {
        ipv6_output::place(branch)
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
    fn send(live: &Live<'_>, packets: &mut [Packet], row: Row<'_, u128>, (): &()) -> usize {
        live.send(packets, row)
    }

    fn flow_hash(datagram: &[u8], to: u128) -> u32 {
        flow_hash(datagram, to)
    }
}
