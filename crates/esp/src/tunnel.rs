// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a tunnel's outer header shows of the inner one, and the other way round.

/// Not capable of ECN.
const NOT_ECT: u8 = 0;
/// Capable, codepoint ECT(0).
const ECT0: u8 = 2;
/// Capable, codepoint ECT(1).
const ECT1: u8 = 1;
/// Congestion experienced.
const CE: u8 = 3;
/// The bits of ECN within a traffic class.
const ECN: u8 = 3;

/// The outer header's traffic class (RFC 6040, 4.1, normal mode).
#[inline]
pub fn outer_class(inner: u8, copy_dscp: bool, has_ecn: bool) -> u8 {
    let dscp = if copy_dscp { inner & !ECN } else { 0 };
    let ecn = if has_ecn { inner & ECN } else { 0 };
    dscp | ecn
}

/// The traffic class of a packet that leaves a tunnel (RFC 6040, 4.2); `None` if congestion was signalled to a sender who would not understand it: such
/// a packet drops.
#[inline]
pub fn inner_class(inner: u8, outer: u8, decap_dscp: bool, has_ecn: bool) -> Option<u8> {
    let dscp = if decap_dscp { outer & !ECN } else { inner & !ECN };
    let ecn = if has_ecn { inner_ecn(inner & ECN, outer & ECN)? } else { inner & ECN };
    Some(dscp | ecn)
}

/// RFC 6040, figure 4.
fn inner_ecn(inner: u8, outer: u8) -> Option<u8> {
    match (inner, outer) {
        (NOT_ECT, CE) => None,
        (NOT_ECT, _) => Some(NOT_ECT),
        (CE, _) | (_, CE) => Some(CE),
        (ECT0, ECT1) => Some(ECT1),
        (inner, _) => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_of_the_rfc() {
        // Rows: inner Not-ECT, ECT(0), ECT(1), CE. Columns: outer in the same order.
        const ORDER: [u8; 4] = [NOT_ECT, ECT0, ECT1, CE];
        let figure = [
            [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None],
            [Some(ECT0), Some(ECT0), Some(ECT1), Some(CE)],
            [Some(ECT1), Some(ECT1), Some(ECT1), Some(CE)],
            [Some(CE), Some(CE), Some(CE), Some(CE)],
        ];
        for (inner, row) in ORDER.iter().zip(figure) {
            for (outer, want) in ORDER.iter().zip(row) {
                let class = inner_class(0xb8 | inner, 0x20 | outer, false, true);
                assert_eq!(class, want.map(|ecn| 0xb8 | ecn), "{inner} in {outer}");
                assert_eq!(inner_class(0xb8 | inner, 0x20 | outer, true, false), Some(0x20 | inner));
            }
        }
    }

    #[test]
    fn outer_headers_show_what_they_may() {
        assert_eq!(outer_class(0xb9, true, true), 0xb9);
        assert_eq!(outer_class(0xb9, false, true), 0x01);
        assert_eq!(outer_class(0xb9, true, false), 0xb8);
        assert_eq!(outer_class(0xb9, false, false), 0);
    }
}
