// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source routes in headers: finding them, and the way back.
//!
//! Such a packet is addressed to the next router that it must visit; the option holds those after it, the last being where
//! it goes, and in place of those it has visited the addresses that they recorded. The pointer parts the two.

use std::ops::Range;

use wire::ipv4::{Ipv4Option, OptionIter};

/// Where source routes stand in a header, up to the first malformed option.
pub(crate) fn source_routes(header: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    OptionIter::new(header.get(20..).unwrap_or(&[])).map_while(Result::ok).filter_map(|(at, option)| {
        let is_route = matches!(option, Ipv4Option::LooseSourceRoute(_) | Ipv4Option::StrictSourceRoute(_));
        is_route.then(|| at + 20..at + 20 + usize::from(header[at + 21]))
    })
}

/// The way back to `source` over the routers that the packet has visited: whom to address, and the option. `None` where
/// it has visited none, or the pointer is wrong (RFC 1812, 4.2.2.1: the source itself ends the route, and begins none).
pub(crate) fn reversed(option: &[u8], source: [u8; 4]) -> Option<([u8; 4], Vec<u8>)> {
    let done = usize::from(*option.get(2)?).checked_sub(1)?;
    let visited = option.get(3..done).filter(|v| v.len().is_multiple_of(4))?;
    let (hops, _) = visited.as_chunks::<4>();
    let (first, rest) = hops.split_last()?;
    let mut back = vec![option[0], done as u8, 4];
    rest.iter().rev().chain([&source]).for_each(|hop| back.extend_from_slice(hop));
    Some((*first, back))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back() {
        let (s, a, b, c) = ([9; 4], [1; 4], [2; 4], [3; 4]);
        let route = |pointer| [&[131, 15, pointer][..], &a, &b, &c].concat();
        let back = |len, hops: &[[u8; 4]]| [&[131, len, 4][..], &hops.concat()].concat();
        assert_eq!(reversed(&route(16), s), Some((c, back(15, &[b, a, s]))));
        assert_eq!(reversed(&route(12), s), Some((b, back(11, &[a, s]))));
        assert_eq!(reversed(&route(8), s), Some((a, back(7, &[s]))));
        for pointer in [0, 3, 4, 5, 7, 17, 20, 255] {
            assert_eq!(reversed(&route(pointer), s), None, "{pointer}");
        }
        assert_eq!(reversed(&[131], s), None);
    }

    #[test]
    fn finds_them_all() {
        let found = |options: &[u8]| source_routes(&[&[0x4f; 20], options].concat()).collect::<Vec<_>>();
        assert_eq!(found(&[1, 131, 7, 4, 1, 1, 1, 1, 137, 3, 4, 0]), [21..28, 28..31]);
        assert_eq!(found(&[0, 131, 7, 4, 1, 1, 1, 1]), []);
        assert_eq!(found(&[131, 9, 4]), []);
    }
}
