// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequence numbers that prove a client's address, and what they hold.
//!
//! ```text
//! cookie     31..27 time slot   26..24 maximum segment size   23..0 keyed hash
//! timestamp  31..6 milliseconds  5 unused   4 SACK   3..0 window scaling, 15 for none
//! ```
//!
//! The hash covers the VRF, addresses, ports, the client's sequence number, the whole slot, the size and the options. So a right guess takes 2^24 tries for
//! each slot of 32 s. A cookie is good for one to two slots. Options other than the size come back in the timestamp that the client echoes (RFC 7323, 3.2);
//! a client without timestamps gets none of them.

use std::net::IpAddr;

use super::sip;
use crate::policy::SECOND;

/// A slot of time.
const SLOT_NS: u64 = 32 * SECOND;
/// How long a cookie may be good.
pub const GOOD_NS: u64 = 2 * SLOT_NS;
/// Sizes that cookies can hold.
const SIZES: [u16; 8] = [88, 536, 1024, 1220, 1340, 1440, 1460, 8940];
/// The size of a client that says none (RFC 9293, 3.7.1).
const USUAL_SIZE: [u16; 2] = [536, 1220];
/// In a timestamp: no window scaling.
const NO_SCALE: u32 = 15;
const SACK: u32 = 16;
/// Bits of a timestamp that hold options.
const OPTIONS: u32 = 63;

/// Options of a SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Shift of window scaling.
    pub scale: Option<u8>,
    /// Whether selective acknowledgements are permitted.
    pub sack: bool,
    /// Timestamp, and the one that it echoes.
    pub stamps: Option<[u32; 2]>,
}

/// The two ends of a connection: address and port of the client, then of the server.
pub type Ends = [(IpAddr, u16); 2];

/// Makes cookies and checks them.
#[derive(Clone, Copy, Debug)]
pub struct Cookies {
    key: [u64; 2],
    /// The VRF of the connections.
    vrf: u16,
}

/// A cookie and the timestamp that goes with it, for clients that have timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// The sequence number.
    pub sequence: u32,
    /// The timestamp.
    pub stamp: Option<u32>,
}

impl Cookies {
    /// `seed` should be random, and nobody else should know it.
    pub fn new(seed: u64) -> Cookies {
        Cookies { key: [1, 2].map(|word| sip::hash([seed, !seed], &[word])), vrf: 0 }
    }

    /// Those for connections in a VRF: a client has to prove its address in each.
    pub fn in_vrf(self, vrf: u16) -> Cookies {
        Cookies { vrf, ..self }
    }

    /// The cookie for a SYN with this sequence number and these options.
    pub fn make(&self, now_ns: u64, ends: &Ends, sequence: u32, options: &Options) -> Cookie {
        let usual = USUAL_SIZE[usize::from(ends[0].0.is_ipv6())];
        let size = options.mss.unwrap_or(usual);
        let size = SIZES.iter().rposition(|one| *one <= size).unwrap_or(0) as u32;
        let bits = options.stamps.map(|_| {
            let scale = options.scale.map_or(NO_SCALE, |scale| u32::from(scale.min(14)));
            scale | if options.sack { SACK } else { 0 }
        });
        let slot = now_ns / SLOT_NS;
        let tag = self.tag(ends, sequence, slot, size, bits);
        let stamp = bits.map(|bits| (now_ns / 1_000_000) as u32 & !OPTIONS | bits);
        Cookie { sequence: (slot as u32) << 27 | size << 24 | tag, stamp }
    }

    /// The options of the SYN that a cookie was made for; none if it is wrong or old. `echo` is the timestamp that comes back.
    pub fn check(&self, now_ns: u64, ends: &Ends, sequence: u32, cookie: Cookie) -> Option<Options> {
        let present = now_ns / SLOT_NS;
        let age = (present as u32).wrapping_sub(cookie.sequence >> 27) & 31;
        let slot = present.checked_sub(age.into()).filter(|_| age <= 1)?;
        let size = cookie.sequence >> 24 & 7;
        let bits = cookie.stamp.map(|stamp| stamp & OPTIONS);
        if self.tag(ends, sequence, slot, size, bits) != cookie.sequence & 0xff_ffff {
            return None;
        }
        let scale = bits.map(|bits| bits & 15).filter(|scale| *scale != NO_SCALE);
        Some(Options {
            mss: Some(SIZES[size as usize]),
            scale: scale.map(|scale| scale as u8),
            sack: bits.is_some_and(|bits| bits & SACK != 0),
            stamps: cookie.stamp.map(|stamp| [stamp, 0]),
        })
    }

    fn tag(&self, ends: &Ends, sequence: u32, slot: u64, size: u32, bits: Option<u32>) -> u32 {
        let words = |address: IpAddr| {
            let bits = match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
                IpAddr::V6(address) => address.to_bits(),
            };
            [bits as u64, (bits >> 64) as u64]
        };
        let [[a, b], [c, d]] = [words(ends[0].0), words(ends[1].0)];
        let ports = u64::from(ends[0].1) << 16 | u64::from(ends[1].1);
        let options =
            u64::from(self.vrf) << 48 | u64::from(size) << 32 | bits.map_or(u64::from(u32::MAX), u64::from);
        let all = [a, b, c, d, ports << 32 | u64::from(sequence), slot, options];
        sip::hash(self.key, &all) as u32 & 0xff_ffff
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(last: u16) -> Ends {
        [("10.0.0.2".parse().unwrap(), 1000 + last), ("192.0.2.1".parse().unwrap(), 80)]
    }

    const ALL: Options = Options { mss: Some(1460), scale: Some(7), sack: true, stamps: Some([1, 0]) };

    #[test]
    fn a_cookie_is_good_for_a_while_and_for_one_connection() {
        let cookies = Cookies::new(7);
        for start in [0, 5 * SLOT_NS, 31 * SLOT_NS + SECOND, 1000 * SLOT_NS - 1] {
            let cookie = cookies.make(start, &ends(0), 9, &ALL);
            let good = |now: u64, ends: &Ends, sequence: u32, cookie: Cookie| {
                cookies.check(now, ends, sequence, cookie).is_some()
            };
            assert!(cookies.in_vrf(1).check(start, &ends(0), 9, cookie).is_none());
            assert!(good(start, &ends(0), 9, cookie) && good(start + SLOT_NS, &ends(0), 9, cookie));
            assert!(!good(start + GOOD_NS, &ends(0), 9, cookie));
            // The bits of the slot come again.
            assert!(!good(start + 32 * SLOT_NS, &ends(0), 9, cookie));
            assert!(!good(start, &ends(1), 9, cookie) && !good(start, &ends(0), 10, cookie));
            assert!(!good(start, &ends(0), 9, Cookie { stamp: None, ..cookie }));
            for bit in 0..32 {
                let other = Cookie { sequence: cookie.sequence ^ 1 << bit, ..cookie };
                assert!(!good(start, &ends(0), 9, other), "bit {bit} of the cookie");
                let other = Cookie { stamp: cookie.stamp.map(|stamp| stamp ^ 1 << bit), ..cookie };
                assert_eq!(good(start, &ends(0), 9, other), bit >= 6, "bit {bit} of the timestamp");
            }
            assert!(Cookies::new(8).check(start, &ends(0), 9, cookie).is_none());
        }
    }

    #[test]
    fn what_is_guessed_is_wrong() {
        let cookies = Cookies::new(7);
        let right = (0..100_000u32).filter(|n| {
            let guess = Cookie { sequence: n.wrapping_mul(0x9e37_79b9), stamp: None };
            cookies.check(0, &ends(0), *n, guess).is_some()
        });
        assert!(right.count() <= 1);
    }

    proptest! {
        #[test]
        fn options_come_back(
            now: u64, sequence: u32, mss in proptest::option::of(any::<u16>()),
            scale in proptest::option::of(0u8..20), sack: bool, has_stamps: bool,
        ) {
            let cookies = Cookies::new(1);
            let stamps = has_stamps.then_some([5, 0]);
            let cookie = cookies.make(now, &ends(0), sequence, &Options { mss, scale, sack, stamps });
            let found = cookies.check(now, &ends(0), sequence, cookie).unwrap();
            prop_assert_eq!(found.scale, scale.map(|scale| scale.min(14)).filter(|_| has_stamps));
            prop_assert_eq!(found.sack, sack && has_stamps);
            let size = mss.unwrap_or(536);
            prop_assert!(found.mss.unwrap() <= size.max(88) && SIZES.iter().all(|one| *one <= found.mss.unwrap() || *one > size));
        }
    }
}
