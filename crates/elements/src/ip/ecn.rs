// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the congestion field of a packet becomes when its fragments are put together (RFC 3168, 5.3).
//!
//! The RFC rules CE together with Not-ECT out and leaves other mixtures open. Here all decide as Linux does (`ip_frag_ecn_table`): Not-ECT fits only
//! Not-ECT, and one CE makes the whole CE. ECT(0) together with ECT(1) leaves what the first fragment has.

/// "Congestion experienced".
const CE: u8 = 3;

/// Codepoints that were seen: bit n stands for codepoint n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(u8);

impl Seen {
    /// Notes the codepoint of a fragment, the lowest two bits of its traffic class.
    #[inline]
    pub(crate) fn note(&mut self, class: u8) {
        self.0 |= 1 << (class & CE);
    }

    /// The codepoint of the whole, whose first fragment has the traffic class `first`; `None` where the fragments
    /// contradict each other.
    pub(crate) fn merged(self, first: u8) -> Option<u8> {
        const NOT_ECT: u8 = 1;
        match self.0 {
            seen if seen & NOT_ECT != 0 && seen != NOT_ECT => None,
            seen if seen >> CE != 0 => Some(CE),
            _ => Some(first & CE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination, by what Linux decides about it.
    #[test]
    fn all_combinations() {
        // By the set of codepoints Not-ECT 1, ECT(1) 2, ECT(0) 4 and CE 8; 4 means "as the first", 255 "drop".
        const AS_FIRST: u8 = 4;
        const DROP: u8 = 255;
        const LINUX: [u8; 16] = [
            AS_FIRST, AS_FIRST, AS_FIRST, DROP, AS_FIRST, DROP, AS_FIRST, DROP, // without CE
            AS_FIRST, DROP, CE, DROP, CE, DROP, CE, DROP,
        ];
        for set in 1..16u8 {
            let mut seen = Seen::default();
            let points = (0..4u8).filter(|point| set >> point & 1 == 1);
            points.clone().for_each(|point| seen.note(0xf8 | point));
            for first in points {
                let want = match LINUX[usize::from(set)] {
                    DROP => None,
                    AS_FIRST => Some(first),
                    point => Some(point),
                };
                assert_eq!(seen.merged(first), want, "{set:#06b}, first {first}");
            }
        }
    }
}
