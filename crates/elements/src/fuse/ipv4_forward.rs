// SPDX-License-Identifier: MIT OR Apache-2.0
//! [Forwarding](super::forward) of IPv4: [`ipv4_input`](super::ipv4_input), a lookup, [`ipv4_output`](super::ipv4_output).

use element::Element;
use element::clock::Nanos;
use element::fuse::{Chain, Fork};
use packet::{Facts, Packet, anno, ipv4};

use super::forward::{self, Entry, Found, Kind, NOT_PLAIN, STEP};
use super::ipv4_input::{self, Input, Rules};
use super::ipv4_output::{self, Live, Output};
use super::output::Row;
use super::rows::Rows;
use crate::ip::lookup_ip_route::{V4, flow_hash};

pub(super) const FORK: Fork = Fork { name: "IPv4 forwarding", find: forward::find::<Ipv4> };

struct Ipv4;

/// What is known of the headers of a step besides what is known for every family.
pub(super) struct More {
    headers: ipv4::Headers,
    /// Third words of the headers, one hop further on.
    aged: [u32; STEP],
    /// Their marks, and which ones there are.
    marks: [u8; STEP],
    all_marks: u8,
}

/// Who is about to die is not plain.
const _: () = assert!(ipv4::DYING == NOT_PLAIN);

impl Default for More {
    fn default() -> Self {
        More { headers: ipv4::Headers::default(), aged: [0; STEP], marks: [0; STEP], all_marks: 0 }
    }
}

impl Kind for Ipv4 {
    type Family = V4;
    type Key = u32;
    type Input = Input;
    type Rules<'a> = Rules<'a>;
    type Output = Output;
    type Live<'a> = Live<'a>;
    type More = More;

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
    fn admit(
        rules: Rules<'_>,
        packets: &[Packet],
        at: usize,
        found: &mut Found<u32>,
        more: &mut More,
    ) -> usize {
        match rules.header.checksum {
            true => admit::<true>(rules, packets, at, found, more),
            false => admit::<false>(rules, packets, at, found, more),
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
    fn send(live: &Live<'_>, packets: &mut [Packet], row: Row<'_, u32>, more: &More) -> usize {
        live.send(packets, row, &more.aged, || match more.all_marks & ipv4::MULTICAST {
            0 => Rows::NONE,
            mark => Rows::with(&more.marks, mark, mark),
        })
    }

    fn flow_hash(datagram: &[u8], to: u32) -> u32 {
        flow_hash(datagram, to)
    }
}

/// [`Kind::admit`], with checksums or without.
// Apart, so that the loop has all registers to itself.
#[inline(never)]
fn admit<const SUM: bool>(
    rules: Rules<'_>,
    packets: &[Packet],
    at: usize,
    found: &mut Found<u32>,
    more: &mut More,
) -> usize {
    let Found { to, behind, ports, .. } = found;
    let columns = ipv4::Columns { to, behind, aged: &mut more.aged, marks: &mut more.marks };
    // What hardly any packet has is asked for together, and only if one has it for each.
    let (mut facts, mut fix, mut doubt) = (Facts::NONE, 0, false);
    let survey = more.headers.survey::<SUM>(packets, at, columns, |packet, words| {
        facts = facts.and(packet.facts());
        fix |= packet.anno_u8(anno::FIX_IP_SRC);
        doubt |= rules.header.may_be_bad_source((words[3] >> 24) as u8);
    });
    more.all_marks = survey.marks;
    let packets = &packets[..survey.rows];
    let header = |packet: usize| packets[packet].chunk_at::<20>(at);
    let mut n = packets.len();
    if doubt {
        let bad = |p: &usize| header(*p).is_none_or(|header| !rules.header.is_good_source(header));
        n = (0..n).find(bad).unwrap_or(n);
    }
    if let Some(addresses) = rules.addresses {
        let bad = |p: &usize| header(*p).is_none_or(|header| !addresses.pass(header));
        n = (0..n).find(bad).unwrap_or(n);
    }
    if survey.marks & ipv4::DYING == 0 {
        ports.fill(0);
    } else {
        ports.iter_mut().zip(&more.marks).for_each(|(port, mark)| *port = mark & NOT_PLAIN);
    }
    if fix != 0 || facts.has_any(Facts::GROUP) {
        for (port, packet) in ports.iter_mut().zip(&packets[..n]) {
            if !ipv4_output::is_plain(packet) {
                *port = NOT_PLAIN;
            }
        }
    }
    n
}
