// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecESPUnencap
//!
//! `IPsecESPUnencap([SHA1, keyword IV])`
//!
//! Takes ESP header and padding off packets that are decrypted, and drops those whose sequence number has come before. It is the last of the elements that
//! receive, behind IPsecAuthHMACSHA1: before a packet is known to be authentic, its number means nothing.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `SHA1` for configurations of old versions of Click, obsolete: packets need no association, and their numbers are not looked at. True if IPsecESPEncap
//!   has appended SHA-1, which is then checked and taken off.
//! * `IV` bytes of the initialisation vector, as IPsecESPEncap has it: 8 (default) or 16.
//!
//! **Metadata:** the association's number read and removed; header positions removed.
//!
//! **Drops:** `no-sa`; `replayed`, numbers that have come or are 0; `outside-window`, those older than OOSIZE allows; `bad-esp`; `too-short`;
//! `bad-icv`, where SHA1 is true; `esp-dummy`, packets of next header 59, which are there to hide traffic (RFC 4303, 2.6).
//!
//! # Differences from Click
//! * Windows of more than 32 packets work. Click's has 32 bits and is shifted by more.
//! * With OOSIZE 0, the first packet passes.
//! * Click clears its memory when the number REPLAY comes again, so an attacker who has recorded that packet may replay them all.
//!
//! ```click
//! rt :: RadixIPsecLookup(1.0.0.1/32 0, 10.0.0.0/8 1.0.0.2 1 300 \<00112233445566778899aabbccddeeff> \<ffeeddccbbaa99887766554433221100> 1 64);
//! Idle -> rt; rt[1] -> Discard;
//! rt[0] -> StripIPHeader -> IPsecAuthHMACSHA1(1) -> IPsecAES(0, IV 16) -> IPsecESPUnencap(IV 16) -> CheckIPHeader -> Discard;
//! ```
//!
//! See also: RadixIPsecLookup, IPsecESPEncap. RFC 4303 (3.4.3)

use element::args::Args;
use element::{Class, Cx, Element, InitCx, Reason};
use esp::click::{DIGEST_LEN, checksum};
use esp::replay::Refused;
use packet::{Batch, Packet};

use super::association::{Association, unmark};
use super::finder::Finder;
use super::ipsec_esp_encap::{ESP_LEN, chaining};

/// The descriptor.
pub const CLASS: Class =
    Class::new("IPsecESPUnencap", "1/1", || Box::<IpsecEspUnencap>::default()).file(file!());

/// What a packet of no content has for its next header.
const NO_NEXT_HEADER: u8 = 59;

#[derive(Default)]
struct IpsecEspUnencap {
    iv_len: usize,
    /// Whether SHA-1 is appended; `None` for packets with associations.
    has_checksum: Option<bool>,
    finder: Finder,
}

fn unencapsulate(
    found: Option<&Association>,
    packet: &mut Packet,
    iv_len: usize,
    has_checksum: bool,
) -> Result<(), Reason> {
    let (header_len, tail) = (ESP_LEN + iv_len, if has_checksum { DIGEST_LEN } else { 0 });
    let data = packet.data();
    if data.len() < header_len + 2 + tail {
        return Err(Reason::TooShort);
    }
    let (payload, sum) = data[header_len..].split_at(data.len() - header_len - tail);
    if has_checksum && checksum(payload) != sum {
        return Err(Reason::BadIcv);
    }
    let [rest @ .., padding, next] = payload else { return Err(Reason::TooShort) };
    let (padding, next) = (usize::from(*padding), *next);
    let at = rest.len().checked_sub(padding).ok_or(Reason::BadEsp)?;
    if !rest[at..].iter().copied().eq(1..=padding as u8) {
        return Err(Reason::BadEsp);
    }
    if let Some(association) = found {
        let number = u32::from_be_bytes([data[4], data[5], data[6], data[7]]);
        association.window.accept(number.into()).map_err(|refused| match refused {
            Refused::TooOld | Refused::TooFar => Reason::OutsideWindow,
            Refused::Replayed | Refused::Zero => Reason::Replayed,
        })?;
    }
    if next == NO_NEXT_HEADER {
        return Err(Reason::EspDummy);
    }
    packet.strip(header_len);
    packet.trim(padding + 2 + tail);
    packet.clear_header_offsets();
    unmark(packet);
    Ok(())
}

impl Element for IpsecEspUnencap {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.iv_len = chaining(args).iv_len();
        self.has_checksum = args.positional_opt("SHA1");
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.finder.find(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let (iv_len, has_checksum) = (self.iv_len, self.has_checksum);
        let work = |found: Option<&Association>, packet: &mut Packet| {
            unencapsulate(found, packet, iv_len, has_checksum == Some(true))
        };
        self.finder.each(cx, batch, has_checksum.is_none(), work, |cx, why, packet| cx.drop(why, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::KEYS;
    use super::*;
    use crate::testing::Rig;

    /// Sends packets that have an association through the element.
    fn drops(element: &str, packets: &[&[u8]], burst: usize) -> (Vec<Vec<u8>>, Vec<(Reason, u64)>) {
        let text = format!(
            "i :: TestIn -> a :: RadixIPsecLookup(0/0 1 5 {KEYS} 1 8); a[0] -> Discard; a[1] -> e :: {element} -> o :: TestOut;"
        );
        let run = Rig::text(&text).burst(burst).inputs(packets).run();
        (run.bytes("o"), run.drops("e"))
    }

    fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, 0, 5, 0, 0, 0, number, 9, 9, 9, 9, 9, 9, 9, 9], payload].concat()
    }

    #[test]
    fn each_fault_has_its_reason() {
        for burst in [1, 32] {
            let check = |payload: &[u8], want: Result<&[u8], Reason>| {
                let (out, dropped) = drops("IPsecESPUnencap", &[&packet(1, payload)], burst);
                match want {
                    Ok(want) => assert_eq!((out, dropped), (vec![want.to_vec()], vec![]), "{payload:?}"),
                    Err(why) => assert_eq!((out, dropped), (vec![], vec![(why, 1)]), "{payload:?}"),
                }
            };
            check(b"abc\x01\x02\x03\x03\x04", Ok(b"abc"));
            check(b"abc\x00\x04", Ok(b"abc"));
            check(b"\x00\x04", Ok(b""));
            check(b"\x04", Err(Reason::TooShort));
            check(b"abc\x01\x02\x04\x03\x04", Err(Reason::BadEsp));
            check(b"\x01\x02\x04\x04", Err(Reason::BadEsp));
            check(b"abc\xff\x04", Err(Reason::BadEsp));
            check(b"abc\x00\x3b", Err(Reason::EspDummy));
        }
    }

    #[test]
    fn numbers_count_once() {
        let numbers = [3, 3, 0, 2, 1, 20, 11, 12, 13];
        let packets: Vec<Vec<u8>> = numbers.iter().map(|number| packet(*number, &[*number, 0, 4])).collect();
        let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        for burst in [1, 32] {
            let (out, dropped) = drops("IPsecESPUnencap", &packets, burst);
            assert_eq!(out.concat(), [3, 2, 1, 20, 13], "a window of 8");
            assert_eq!(dropped, [(Reason::Replayed, 2), (Reason::OutsideWindow, 2)]);
        }
    }

    #[test]
    fn old_configurations_need_no_association() {
        let payload = b"abc\x00\x04";
        let sum = checksum(payload);
        let good = packet(1, &[&payload[..], &sum].concat());
        let mut bad = good.clone();
        bad[16] ^= 1;
        let run = Rig::new("IPsecESPUnencap(true)").inputs(&[&good, &good, &bad, &good[..29]]).run();
        assert_eq!(run.bytes("o0"), [b"abc", b"abc"]);
        assert_eq!(run.drops("e"), [(Reason::TooShort, 1), (Reason::BadIcv, 1)]);
        let run = Rig::new("IPsecESPUnencap(false)").inputs(&[&packet(1, payload)]).run();
        assert_eq!(run.bytes("o0"), [b"abc"]);
    }
}
