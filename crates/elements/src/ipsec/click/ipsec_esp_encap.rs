// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecESPEncap
//!
//! `IPsecESPEncap([SPI, BLOCKS, SHA1, keyword IV])`
//!
//! Puts an ESP header in front of each packet and padding behind it, for the security association that RadixIPsecLookup has found. It encrypts nothing:
//! IPsecAES or IPsecDES does, and IPsecAuthHMACSHA1 appends a digest.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments** are for configurations of old versions of Click; today's Click ignores them.
//! * `SPI` for packets without association, 1 to 4294967295. Their sequence numbers begin with 1.
//! * `BLOCKS` the padded length is a multiple of so many bytes, 4 to 128; default 8, or 16 with `IV 16`.
//! * `SHA1` boolean, default false: appends the first 96 bits of SHA-1. There is no key in it, so it finds damage and no forgery. Obsolete.
//! * `IV` bytes of the initialisation vector: 8 (default) or 16, which AES in CBC mode has (RFC 3602).
//!
//! What goes out is, from the front: SPI (4 bytes), sequence number (4), initialisation vector, the packet, padding 1, 2, 3, ..., the padding's length (1), and
//! the next header (1): 4 or 41 for a packet whose IP header is in front, else the protocol of the marked header.
//!
//! **Metadata:** the association's number read, which RadixIPsecLookup sets.
//!
//! **Drops:** `no-sa`, packets without one where SPI is not given; `sequence-exhausted`, when 2^32 - REPLAY packets were sent: give the route new keys;
//! `no-memory`.
//!
//! # Differences from Click
//! * Packets without association are dropped. Click crashes.
//! * No sequence number is used twice. In Click they begin again with REPLAY.
//! * Initialisation vectors cannot be predicted. Click takes 60 bits from an ordinary random number generator.
//! * The next header says that an IP packet is inside. Click writes the inner packet's protocol; its IPsecESPUnencap reads neither.
//!
//! ```click
//! rt :: RadixIPsecLookup(10.0.0.0/8 1.0.0.2 1 300 \<00112233445566778899aabbccddeeff> \<ffeeddccbbaa99887766554433221100> 1 64, 192.0.2.1/32 0);
//! Idle -> rt; rt[0] -> Discard;
//! rt[1] -> IPsecESPEncap(IV 16) -> IPsecAES(1, IV 16) -> IPsecAuthHMACSHA1(0) -> IPsecEncap(50) -> Discard;
//! ```
//!
//! See also: RadixIPsecLookup, IPsecESPUnencap. RFC 2406, RFC 4303

use std::sync::Arc;

use element::args::Args;
use element::{
    Class, Cx, Element, HotSwap, InitCx, OpenCx, Provide, Provided, Reason, SharedState, Sharing, Tasks, swap,
};
use esp::click::{Chaining, checksum};
use packet::{Batch, Packet};

use super::association::{Association, Counter};
use super::finder::Finder;

/// The descriptor.
pub const CLASS: Class = Class::new("IPsecESPEncap", "1/1", || Box::<IpsecEspEncap>::default())
    .sharing(Sharing::Shared)
    .hot_swap::<IpsecEspEncap>()
    .shared_state::<IpsecEspEncap>()
    .provide::<IpsecEspEncap>()
    .file(file!());

/// Bytes of SPI and sequence number.
pub(super) const ESP_LEN: usize = 8;
/// Protocols that say what is inside of ESP.
const IPV4: u8 = 4;
const IPV6: u8 = 41;

#[derive(Default)]
struct IpsecEspEncap {
    layout: Layout,
    /// The SPI of packets without association, and their numbers.
    own: Option<Arc<Own>>,
    finder: Finder,
}

/// What packets without association get.
struct Own {
    spi: u32,
    counter: Counter,
}

/// What is put around a packet.
#[derive(Clone, Copy)]
struct Layout {
    iv_len: usize,
    align: usize,
    has_checksum: bool,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout { iv_len: 8, align: 8, has_checksum: false }
    }
}

/// Reads the keyword IV.
pub(super) fn chaining(args: &mut Args<'_>) -> Chaining {
    match args.keyword::<usize>("IV", 8) {
        8 => Chaining::Click,
        16 => Chaining::Cbc,
        other => {
            args.error(format!("IV must be 8 or 16, not {other}"));
            Chaining::Click
        }
    }
}

/// What ESP says of its inside.
fn next_header(packet: &mut Packet) -> u8 {
    const PROTOCOL: usize = 9;
    match packet.network_offset() {
        Some(0) => match packet.data().first().map(|byte| byte >> 4) {
            Some(4) => IPV4,
            Some(6) => IPV6,
            _ => 0,
        },
        // The header was stripped, and is not lost.
        Some(at @ ..0) => {
            let before = at.unsigned_abs() as usize;
            if !packet.unstrip(before) {
                return 0;
            }
            let protocol = packet.data().get(PROTOCOL).copied().unwrap_or(0);
            packet.strip(before);
            protocol
        }
        Some(_) => packet.network_chunk::<20>().map_or(0, |header| header[PROTOCOL]),
        None => 0,
    }
}

fn encapsulate(
    packet: &mut Packet,
    layout: Layout,
    spi: u32,
    number: u64,
    counter: &Counter,
) -> Result<(), Reason> {
    let Layout { iv_len, align, has_checksum } = layout;
    let next = next_header(packet);
    let padding = (align - (packet.len() + 2) % align) % align;
    let bytes = packet.push(ESP_LEN + iv_len).ok_or(Reason::NoMemory)?;
    bytes[..4].copy_from_slice(&spi.to_be_bytes());
    bytes[4..ESP_LEN].copy_from_slice(&(number as u32).to_be_bytes());
    bytes[ESP_LEN..ESP_LEN + iv_len].copy_from_slice(&counter.iv(number)[..iv_len]);
    let at = packet.len();
    let bytes = packet.put(padding + 2).ok_or(Reason::NoMemory)?;
    let (back, ends) = bytes[at..].split_at_mut(padding);
    back.iter_mut().zip(1..).for_each(|(byte, value)| *byte = value);
    ends.copy_from_slice(&[padding as u8, next]);
    if has_checksum {
        let (at, sum) = (packet.len(), checksum(&packet.data()[ESP_LEN + iv_len..]));
        packet.put(sum.len()).ok_or(Reason::NoMemory)?[at..].copy_from_slice(&sum);
    }
    Ok(())
}

impl Element for IpsecEspEncap {
    fn configure(&mut self, args: &mut Args<'_>) {
        let iv_len = chaining(args).iv_len();
        let spi: Option<u32> = args.positional_opt("SPI");
        let spi = args.allow("SPI", spi, 1..=u32::MAX);
        let align = args.positional_in("BLOCKS", iv_len, 4..=128);
        let has_checksum = args.positional("SHA1", false);
        self.layout = Layout { iv_len, align, has_checksum };
        match spi.map(|spi| Counter::new(1).map(|counter| Arc::new(Own { spi, counter }))).transpose() {
            Ok(own) => self.own = own,
            Err(why) => args.error(why.to_string()),
        }
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        // Numbers go on through a hot swap.
        let live = cx.predecessor::<Own>();
        if let (Some(own), Some(live)) = (&mut self.own, live)
            && own.spi == live.spi
        {
            *own = live;
        }
        Ok(Tasks::None)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.finder.find(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let IpsecEspEncap { layout, own, finder } = self;
        let work = |found: Option<&Association>, packets: &mut [Packet], verdicts: &mut [Option<Reason>]| {
            let found = found.map(|association| (association.agreed.spi, &association.counter));
            let own = own.as_ref().map(|own| (own.spi, &own.counter));
            let Some((spi, counter)) = found.or(own) else { return };
            let mut numbers = counter.take(packets.len());
            for (packet, verdict) in packets.iter_mut().zip(verdicts) {
                let done = match numbers.next() {
                    Some(number) => encapsulate(packet, *layout, spi, number, counter),
                    None => Err(Reason::SequenceExhausted),
                };
                *verdict = done.err();
            }
        };
        finder.each_run(cx, batch, work, |cx, why, packet| cx.drop(why, packet))
    }
}

impl Provide for IpsecEspEncap {
    fn provide(&self) -> Option<Provided> {
        let own: Arc<Own> = self.own.clone()?;
        Some(own)
    }
}

impl SharedState for IpsecEspEncap {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(IpsecEspEncap {
            layout: self.layout,
            own: self.own.clone(),
            finder: Finder::default(),
        }))
    }
}

impl HotSwap for IpsecEspEncap {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let same = |old: &mut Self| {
            self.own.as_ref().zip(old.own.as_ref()).is_some_and(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
        };
        swap::same::<Self>(old).is_some_and(same)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{KEYS, clear};
    use super::*;
    use crate::ip6::samples;
    use crate::testing::Rig;

    /// Headers and padding of packets, for an SPI of the element's own.
    fn encapsulated(arguments: &str, packets: Vec<Packet>, burst: usize) -> Vec<Vec<u8>> {
        let run = Rig::new(&format!("IPsecESPEncap({arguments})")).burst(burst).packets(packets).run();
        run.bytes("o0")
    }

    #[test]
    fn header_and_padding_are_as_rfc_2406_has_them() {
        for burst in [1, 32] {
            let out = encapsulated("0x01020304", vec![clear(0), clear(3)], burst);
            assert_eq!(out[0][..8], [1, 2, 3, 4, 0, 0, 0, 1]);
            assert_eq!(out[1][..8], [1, 2, 3, 4, 0, 0, 0, 2]);
            assert_eq!((&out[0][16..36], &out[0][36..]), (clear(0).data(), &[1, 2, 2, IPV4][..]));
            assert_eq!(
                (&out[1][16..39], &out[1][39..]),
                (clear(3).data(), &[1, 2, 3, 4, 5, 6, 7, 7, IPV4][..])
            );
        }
        let out = encapsulated("9, BLOCKS 4, IV 16", vec![clear(0)], 32);
        assert_eq!((out[0].len(), &out[0][44..]), (48, &[1, 2, 2, IPV4][..]));
        let out = encapsulated("9, 8, true", vec![clear(0)], 32);
        assert_eq!(out[0][40..], checksum(&out[0][16..40]));
    }

    #[test]
    fn the_next_header_says_what_is_inside() {
        let mut stripped = clear(4);
        stripped.strip(20);
        let mut far = clear(4);
        far.push(2).expect("room");
        let unmarked = Packet::copy_of(b"x").expect("room");
        let six = samples::packet("::1", "::2", 17, 64, b"12345678");
        let out = encapsulated("1", vec![clear(4), stripped, far, unmarked, six], 32);
        let next: Vec<u8> = out.iter().map(|bytes| bytes[bytes.len() - 1]).collect();
        assert_eq!(next, [IPV4, 17, 17, 0, IPV6]);
        assert_eq!(out[1][16..20], [0, 1, 2, 3], "the header in front stays away");
    }

    #[test]
    fn the_last_number_is_the_last() {
        let text = format!(
            "i :: TestIn -> a :: RadixIPsecLookup(0/0 1 5 {KEYS} 0xfffffffe 1); a[0] -> Discard; a[1] -> e :: IPsecESPEncap -> o :: TestOut;"
        );
        for burst in [1, 32] {
            let run = Rig::text(&text).burst(burst).packets((0..5).map(clear).collect()).run();
            let numbers: Vec<u8> = run.bytes("o").iter().map(|bytes| bytes[7]).collect();
            assert_eq!((numbers, run.drops("e")), (vec![0xfe, 0xff], vec![(Reason::SequenceExhausted, 3)]));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(
            Rig::new("IPsecESPEncap(0, 3, maybe, IV 9)").errors(),
            [
                "e: IV must be 8 or 16, not 9",
                "e: SPI must lie between 1 and 4294967295, not 0",
                "e: BLOCKS must lie between 4 and 128, not 3",
                "e: argument SHA1 should be true or false, not 'maybe'",
            ]
        );
    }
}
