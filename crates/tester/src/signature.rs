// SPDX-License-Identifier: MIT OR Apache-2.0
//! The signed payload: what a test frame says of itself.
//!
//! ```text
//! byte 0        4          8               14        18
//!      | flow   | sequence | departure, ns | check   |
//! ```
//!
//! It fits a 64-byte frame of IPv4 and UDP to the byte. The check depends on a key drawn for each trial, so that neither a damaged
//! frame nor one left over from the trial before is taken for one of this trial's. It is no defence against an adversary.

/// Bytes that a signature takes.
pub const LEN: usize = 18;
/// Departures are counted modulo this many nanoseconds: 78 hours.
const TIME_MASK: u64 = (1 << 48) - 1;

/// What a test frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// To which flow it belongs.
    pub flow: u32,
    /// Its place in the flow, from 0.
    pub sequence: u32,
    /// When it left the tester, in nanoseconds of the tester's clock, modulo 2^48.
    pub departure_ns: u64,
}

/// Signs the frames of one trial.
#[derive(Clone, Copy, Debug)]
pub struct SignatureKey([u64; 2]);

impl SignatureKey {
    /// A key; different for each trial.
    pub fn new(seed: u64) -> SignatureKey {
        let mixed = mix(seed ^ 0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93);
        SignatureKey([mixed, mix(mixed ^ 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db) | 1])
    }

    /// Both halves: with what a signature's words are mixed.
    pub(crate) fn halves(&self) -> [u64; 2] {
        self.0
    }

    /// A frame's signature as it stands in the payload.
    #[inline]
    pub fn sign(&self, signature: Signature) -> [u8; LEN] {
        let first = (u64::from(signature.flow) << 32) | u64::from(signature.sequence);
        let time = signature.departure_ns & TIME_MASK;
        let mut bytes = [0; LEN];
        let check = self.check(first, time);
        // In words, as the reader that sums them up reads them.
        bytes[..8].copy_from_slice(&first.to_be_bytes());
        bytes[8..16].copy_from_slice(&((time << 16) | u64::from(check >> 16)).to_be_bytes());
        bytes[16..].copy_from_slice(&(check as u16).to_be_bytes());
        bytes
    }

    /// Reads a signature, if it is one of this key's.
    #[inline]
    pub fn read(&self, bytes: &[u8; LEN]) -> Option<Signature> {
        let (first, rest) = bytes.split_first_chunk::<8>()?;
        let (last, _) = rest.split_first_chunk::<8>()?;
        let (first, last) = (u64::from_be_bytes(*first), u64::from_be_bytes(*last));
        let check = u32::from_be_bytes(*bytes.last_chunk()?);
        (self.check(first, last >> 16) == check).then_some(Signature {
            flow: (first >> 32) as u32,
            sequence: first as u32,
            departure_ns: last >> 16,
        })
    }

    #[inline]
    fn check(&self, first: u64, time: u64) -> u32 {
        mix(first ^ self.0[0], time ^ self.0[1]) as u32
    }
}

/// How long after `departure_ns` the moment `now_ns` is, both modulo 2^48.
#[inline]
pub fn since(departure_ns: u64, now_ns: u64) -> u64 {
    now_ns.wrapping_sub(departure_ns) & TIME_MASK
}

/// Both halves of the product, folded; as in wyhash.
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    ((product >> 64) as u64) ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(i: u32) -> Signature {
        Signature { flow: i.wrapping_mul(77), sequence: !i, departure_ns: (u64::from(i) << 16) | 5 }
    }

    #[test]
    fn what_is_signed_is_read() {
        let key = SignatureKey::new(7);
        for i in 0..1000 {
            assert_eq!(key.read(&key.sign(some(i))), Some(some(i)));
        }
        let late = Signature { departure_ns: (1 << 48) | 3, ..some(1) };
        assert_eq!(key.read(&key.sign(late)).map(|s| s.departure_ns), Some(3));
        assert_eq!((since(3, 10), since(TIME_MASK, 4)), (7, 5));
    }

    #[test]
    fn one_changed_bit_or_another_key_is_seen() {
        let (key, other) = (SignatureKey::new(7), SignatureKey::new(8));
        for i in 0..200 {
            let good = key.sign(some(i));
            assert_eq!(other.read(&good), None);
            for bit in 0..8 * LEN {
                let mut bad = good;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(key.read(&bad), None, "frame {i}, bit {bit}");
            }
        }
        assert_eq!(key.read(&[0; LEN]), None);
    }
}
