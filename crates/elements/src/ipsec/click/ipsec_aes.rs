// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecAES
//!
//! `IPsecAES(ENCRYPT [, keywords IGNORE, IV])`
//!
//! Encrypts or decrypts ESP packets with AES and a key of 128 bits, the association's ENCRYPT_KEY.
//!
//! Obsolete, and here for configurations of Click. Encryption alone proves nothing about who sent a packet: IPsecAuthHMACSHA1 belongs to it.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `ENCRYPT` boolean: true (1) encrypts, false (0) decrypts.
//! * `IGNORE` bytes at the end to leave as they are: the digest, if that is appended before this element encrypts. Default 12, or 0 with `IV 16`.
//! * `IV` bytes of the initialisation vector, as IPsecESPEncap has it. 8 (default): as Click does it, which no other implementation understands.
//!   16: CBC mode (RFC 3602).
//!
//! With `IV 8`, an initialisation vector of 8 bytes is XORed with the first half of a block before it is encrypted, and so is the first half of each block with
//! the next. Second halves are not chained. ESP is padded to 8 bytes there. Where the payload does not fill its last block, this takes the first 8 bytes of the
//! digest. Tunnels between our routers should use `IV 16` at all elements.
//!
//! **Metadata:** the association's number read, which RadixIPsecLookup sets.
//!
//! **Drops:** `no-sa`; `too-short`; `bad-esp`, packets that are no whole blocks.
//!
//! # Differences from Click
//! * Packets of odd lengths are dropped. Click reads and writes behind them.
//!
//! ```click
//! rt :: RadixIPsecLookup(10.0.0.0/8 1.0.0.2 1 300 \<00112233445566778899aabbccddeeff> \<ffeeddccbbaa99887766554433221100> 1 64, 192.0.2.1/32 0);
//! Idle -> rt; rt[0] -> Discard;
//! rt[1] -> IPsecESPEncap(IV 16) -> IPsecAES(1, IV 16) -> IPsecAuthHMACSHA1(0) -> IPsecEncap(50) -> Discard;
//! ```
//!
//! See also: RadixIPsecLookup, IPsecDES, IPsecESPEncap. RFC 3602, RFC 8221

use element::args::Args;
use element::{Class, Cx, Element, InitCx, Reason};
use esp::click::{Chaining, DIGEST_LEN, Direction};
use packet::{Batch, Packet};

use super::association::Association;
use super::finder::Finder;
use super::ipsec_esp_encap::{ESP_LEN, chaining};

/// The descriptor.
pub const CLASS: Class = Class::new("IPsecAES", "1/1", || Box::<IpsecAes>::default()).pure().file(file!());

/// Bytes of a block.
const BLOCK_LEN: usize = 16;

struct IpsecAes {
    direction: Direction,
    chaining: Chaining,
    ignore: usize,
    finder: Finder,
}

impl Default for IpsecAes {
    fn default() -> IpsecAes {
        IpsecAes {
            direction: Direction::Decrypt,
            chaining: Chaining::Click,
            ignore: 0,
            finder: Finder::default(),
        }
    }
}

/// Bytes that are encrypted of so many behind the initialisation vector.
fn text_len(chaining: Chaining, behind: usize, ignore: usize) -> Result<usize, Reason> {
    let len = behind.checked_sub(ignore).filter(|len| *len > 0).ok_or(Reason::TooShort)?;
    match (len % BLOCK_LEN, chaining) {
        (0, _) => Ok(len),
        // The rest of the block is the digest's beginning.
        (8, Chaining::Click) if ignore >= 8 => Ok(len + 8),
        _ => Err(Reason::BadEsp),
    }
}

impl Element for IpsecAes {
    fn configure(&mut self, args: &mut Args<'_>) {
        let encrypts: bool = args.required("ENCRYPT");
        self.direction = if encrypts { Direction::Encrypt } else { Direction::Decrypt };
        self.chaining = chaining(args);
        let usual = if self.chaining == Chaining::Click { DIGEST_LEN } else { 0 };
        self.ignore = args.keyword_in("IGNORE", usual, 0..=65535);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.finder.find(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let IpsecAes { direction, chaining, ignore, finder } = self;
        let work = |found: Option<&Association>, packet: &mut Packet| {
            let association = found.ok_or(Reason::NoAssociation)?;
            let iv_at = ESP_LEN + chaining.iv_len();
            let behind = packet.len().checked_sub(iv_at).ok_or(Reason::TooShort)?;
            let len = text_len(*chaining, behind, *ignore)?;
            let (before, text) = packet.data_mut().split_at_mut(iv_at);
            association.aes.run(*direction, *chaining, &before[ESP_LEN..], &mut text[..len]);
            Ok(())
        };
        finder.each(cx, batch, true, work, |cx, why, packet| cx.drop(why, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::KEYS;
    use super::*;
    use crate::testing::Rig;

    fn run(element: &str, packets: &[&[u8]], burst: usize) -> (Vec<Vec<u8>>, Vec<(Reason, u64)>) {
        let text = format!(
            "i :: TestIn -> a :: RadixIPsecLookup(0/0 1 5 {KEYS} 1 1); a[0] -> Discard; a[1] -> e :: {element} -> o :: TestOut;"
        );
        let run = Rig::text(&text).burst(burst).inputs(packets).run();
        (run.bytes("o"), run.drops("e"))
    }

    #[test]
    fn header_and_digest_stay_as_they_are() {
        for burst in [1, 32] {
            // A text of 16 bytes, and one of 24, which takes 8 from the digest.
            let inputs = [vec![7; 16 + 16 + 12], vec![7; 16 + 24 + 12]];
            let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let (out, _) = run("IPsecAES(1)", &inputs, burst);
            assert_eq!((&out[0][..16], &out[0][32..]), (&[7; 16][..], &[7; 12][..]));
            assert_eq!((&out[1][..16], &out[1][48..]), (&[7; 16][..], &[7; 4][..]));
            assert!(out[0][16..32] != [7; 16] && out[1][40..48] != [7; 8]);
            let sealed: Vec<&[u8]> = out.iter().map(Vec::as_slice).collect();
            assert_eq!(run("IPsecAES(0)", &sealed, burst).0, inputs);
        }
    }

    #[test]
    fn each_fault_has_its_reason() {
        let check = |element: &str, len: usize, want: Reason| {
            assert_eq!(run(element, &[&vec![7; len]], 32), (vec![], vec![(want, 1)]), "{element} {len}");
        };
        for (element, too_short, odd) in [
            ("IPsecAES(1)", 28, 29),
            ("IPsecAES(0)", 15, 41),
            ("IPsecAES(0, IV 16)", 24, 32),
            ("IPsecAES(1, IGNORE 4)", 20, 28),
        ] {
            check(element, too_short, Reason::TooShort);
            check(element, odd, Reason::BadEsp);
        }
        assert_eq!(Rig::new("IPsecAES").errors(), ["e: missing argument ENCRYPT: true or false"]);
    }
}
