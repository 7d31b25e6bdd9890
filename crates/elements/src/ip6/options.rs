// SPDX-License-Identifier: MIT OR Apache-2.0
//! What may be wrong with extension headers, and the walk over the options in two of them (RFC 8200, 4.2).

use element::Reason;
use packet::{Packet, anno};

/// Options other than padding that a header may hold; RFC 8504, 5.3, lets a host stop there.
const MAX_OPTIONS: usize = 8;

/// The router alert option (RFC 2711), known by everybody here.
const ROUTER_ALERT: u8 = 5;

/// Why a packet cannot be processed. Offsets count from the IPv6 header's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The field at this offset is wrong: parameter problem code 0.
    Header(usize),
    /// The field at this offset names a header that is not known here: code 1.
    NextHeader(usize),
    /// The option at this offset is not known, and its sender wants to hear of it: code 2.
    Option(usize),
    /// Nothing is to be said about it.
    Silent(Reason),
}

impl Fault {
    /// Notes on the packet where its fault lies.
    pub(super) fn note(self, packet: &mut Packet) {
        if let Fault::Header(at) | Fault::NextHeader(at) | Fault::Option(at) = self {
            packet.set_anno_u32(anno::ICMP6_POINTER, at as u32);
        }
    }
}

/// The whole extension header at `at` of a packet, whose length is in units of eight bytes.
pub(super) fn whole(ip: &[u8], at: usize) -> Result<&[u8], Fault> {
    let units = ip.get(at + 1).ok_or(Fault::Header(at + 1))?;
    ip.get(at..at + (usize::from(*units) + 1) * 8).ok_or(Fault::Header(at + 1))
}

/// Looks at the options of a hop-by-hop or destination options header, which begins at `at`; an unknown option's two
/// highest bits say what to do.
pub(super) fn check(header: &[u8], at: usize, multicast: bool) -> Result<(), Fault> {
    let (mut i, mut seen) = (2, 0);
    while i < header.len() {
        let kind = header[i];
        if kind == 0 {
            i += 1;
            continue;
        }
        let len = usize::from(*header.get(i + 1).ok_or(Fault::Header(at + i))?);
        if i + 2 + len > header.len() {
            return Err(Fault::Header(at + i + 1));
        }
        if kind != 1 {
            seen += 1;
            match kind >> 6 {
                _ if seen > MAX_OPTIONS => return Err(Fault::Silent(Reason::BadOption)),
                _ if kind == ROUTER_ALERT => {}
                0 => {}
                2 => return Err(Fault::Option(at + i)),
                3 if !multicast => return Err(Fault::Option(at + i)),
                _ => return Err(Fault::Silent(Reason::BadOption)),
            }
        }
        i += 2 + len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // conformance: RFC8200-4.2-a RFC8200-4.2-b RFC8200-4.2-c RFC8200-4.2-d RFC8200-4.2-e
    #[test]
    fn action_bits() {
        let silent = Err(Fault::Silent(Reason::BadOption));
        let check = |options: &[u8], multicast: bool, want: Result<(), Fault>| {
            let header = [&[59, 0][..], options].concat();
            assert_eq!(super::check(&header, 40, multicast), want, "{options:?}");
        };
        check(&[0; 6], false, Ok(()));
        check(&[1, 4, 0, 0, 0, 0], false, Ok(()));
        check(&[5, 2, 0, 0, 1, 0], false, Ok(()));
        check(&[0x1e, 0, 0, 0x3e, 1, 0], true, Ok(()));
        check(&[0x5e, 0, 0, 0, 0, 0], false, silent);
        check(&[0, 0x9e, 0, 0, 0, 0], false, Err(Fault::Option(43)));
        check(&[0, 0x9e, 0, 0, 0, 0], true, Err(Fault::Option(43)));
        check(&[0xde, 4, 0, 0, 0, 0], false, Err(Fault::Option(42)));
        check(&[0xde, 4, 0, 0, 0, 0], true, silent);
        // Beyond the header's end.
        check(&[0x1e, 5, 0, 0, 0, 0], false, Err(Fault::Header(43)));
        check(&[0, 0, 0, 0, 0, 0x1e], false, Err(Fault::Header(47)));
        check(&[&[0x1e, 0].repeat(9)[..], &[0; 4]].concat(), false, silent);
    }
}
