// SPDX-License-Identifier: MIT OR Apache-2.0
//! The IPv4 headers of many packets, read and checked together.
//!
//! One loop visits the packets, reads each header once, in words, and leaves these in columns. A second one asks of each row what there is to
//! ask: version, length, checksum, and what the header becomes when the packet lives one hop less. In that one there are neither
//! branches nor addresses of packets, so compilers make vectors of it: it takes about seven instructions for each packet with AVX2, where
//! the same questions, one packet after the other, take forty.

use crate::Packet;

/// Packets at most whose headers are read together.
pub const ROWS: usize = 64;
/// Rows that are checked together.
const BLOCK: usize = 16;
/// Length of a header without options in bytes.
const HEADER: usize = 20;

/// Mark of a header with a time to live of less than two.
pub const DYING: u8 = 128;
/// Mark of a header with a destination of class D.
pub const MULTICAST: u8 = 1;

/// What is read of headers and found out about them, row by row in the order of the packets.
pub struct Headers {
    /// All but the last of the words, as they lie in memory, the first byte lowest.
    words: [[u32; ROWS]; 4],
    /// Lengths of the packets.
    len: [u32; ROWS],
    /// Not zero if the header is not ordinary.
    refused: [u32; ROWS],
    /// The processor has AVX2.
    avx2: bool,
}

/// The columns that a reader of headers goes on with.
pub struct Columns<'a> {
    /// Destination addresses, in host order.
    pub to: &'a mut [u32; ROWS],
    /// Bytes of the datagrams behind their headers.
    pub behind: &'a mut [u16; ROWS],
    /// Bytes 8 to 11 of the headers, as they lie in memory, with one taken from the time to live and the checksum updated.
    pub aged: &'a mut [u32; ROWS],
    /// [`DYING`] and [`MULTICAST`].
    pub marks: &'a mut [u8; ROWS],
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// From the first packet on, how many have an ordinary header: one of 20 bytes, with a right checksum if that was asked, of a
    /// datagram that is all in the packet. Only their rows say something.
    pub rows: usize,
    /// The marks that any of them has; perhaps also some that none has.
    pub marks: u8,
}

impl Default for Headers {
    fn default() -> Self {
        #[cfg(target_arch = "x86_64")]
        let avx2 = is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        let avx2 = false;
        Headers { words: [[0; ROWS]; 4], len: [0; ROWS], refused: [0; ROWS], avx2 }
    }
}

impl Headers {
    /// Reads and checks the headers that begin at byte `at` of the first [`ROWS`] packets, their checksums included if `SUM`. Each packet that is
    /// read is shown to `see`, with its header in words, the first byte of each lowest; a packet that is too short for one ends this.
    #[inline]
    pub fn survey<const SUM: bool>(
        &mut self,
        packets: &[Packet],
        at: usize,
        columns: Columns<'_>,
        see: impl FnMut(&Packet, [u32; 5]),
    ) -> Survey {
        let Columns { to, behind, aged, marks } = columns;
        let n = self.read(packets, at, to, see);
        let end = at.saturating_add(HEADER) as u32;
        let (refused, marks) = self.check::<SUM>(n, end, to, behind, aged, marks);
        let first = || self.refused[..n].iter().position(|refused| *refused != 0);
        Survey { rows: if refused { first().unwrap_or(n) } else { n }, marks }
    }

    /// The source addresses of the headers that were read last, in network order.
    pub fn sources(&self) -> &[u32; ROWS] {
        &self.words[3]
    }

    /// Fills columns with the headers' words; returns for how many packets.
    #[allow(clippy::needless_range_loop)]
    #[inline]
    fn read(
        &mut self,
        packets: &[Packet],
        at: usize,
        to: &mut [u32; ROWS],
        mut see: impl FnMut(&Packet, [u32; 5]),
    ) -> usize {
        let n = packets.len().min(ROWS);
        for i in 0..n {
            let packet = &packets[i];
            let Some(header) = packet.chunk_at::<HEADER>(at) else { return i };
            let (words, _) = header.as_chunks::<4>();
            let words = std::array::from_fn(|word| u32::from_le_bytes(words[word]));
            self.words[0][i] = words[0];
            self.words[1][i] = words[1];
            self.words[2][i] = words[2];
            self.words[3][i] = words[3];
            to[i] = words[4];
            self.len[i] = packet.len() as u32;
            see(packet, words);
        }
        n
    }

    /// Checks the first `n` rows, of headers that end at byte `end` of their packets; returns whether any may be refused, and what marks
    /// there may be.
    #[inline]
    fn check<const SUM: bool>(
        &mut self,
        n: usize,
        end: u32,
        to: &mut [u32; ROWS],
        behind: &mut [u16; ROWS],
        aged: &mut [u32; ROWS],
        marks: &mut [u8; ROWS],
    ) -> (bool, u8) {
        #[cfg(target_arch = "x86_64")]
        if self.avx2 {
            // SAFETY: the processor has AVX2, as was found when this was made. Benchmark: `bench engine conf/ip-router-noqueue.click`.
            return unsafe { self.check_avx2::<SUM>(n, end, to, behind, aged, marks) };
        }
        self.check_rows::<SUM>(n, end, to, behind, aged, marks)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn check_avx2<const SUM: bool>(
        &mut self,
        n: usize,
        end: u32,
        to: &mut [u32; ROWS],
        behind: &mut [u16; ROWS],
        aged: &mut [u32; ROWS],
        marks: &mut [u8; ROWS],
    ) -> (bool, u8) {
        self.check_rows::<SUM>(n, end, to, behind, aged, marks)
    }

    /// Rows up to the end of a block are checked, too: what they hold is of no use, but may be found refused or marked.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    fn check_rows<const SUM: bool>(
        &mut self,
        n: usize,
        end: u32,
        to: &mut [u32; ROWS],
        behind: &mut [u16; ROWS],
        aged: &mut [u32; ROWS],
        marks: &mut [u8; ROWS],
    ) -> (bool, u8) {
        let (mut any_refused, mut any_marks) = (0, 0);
        // Of constant numbers the compiler knows that all columns have them.
        for block in 0..ROWS / BLOCK {
            if block * BLOCK >= n {
                break;
            }
            for i in block * BLOCK..(block + 1) * BLOCK {
                let [a, b, c, d] = &self.words;
                let row = Row::of::<SUM>([a[i], b[i], c[i], d[i], to[i]], self.len[i].wrapping_sub(end));
                self.refused[i] = row.refused;
                (to[i], behind[i], aged[i]) = (to[i].swap_bytes(), row.behind as u16, row.aged);
                marks[i] = row.marks as u8;
                any_refused |= row.refused;
                any_marks |= row.marks;
            }
        }
        (any_refused != 0, any_marks as u8)
    }
}

/// What there is to know of a header.
struct Row {
    /// Not zero if it is not ordinary.
    refused: u32,
    /// As in [`Columns::marks`].
    marks: u32,
    /// Bytes of the datagram behind it.
    behind: u32,
    /// Its third word one hop further on.
    aged: u32,
}

impl Row {
    /// From the header's words as they lie in memory, the first byte lowest, and the bytes of the packet behind it.
    #[inline(always)]
    fn of<const SUM: bool>(words: [u32; 5], room: u32) -> Row {
        let len = (words[0] >> 24) | ((words[0] >> 8) & 0xff00);
        let behind = len.wrapping_sub(HEADER as u32);
        // Both are less than 2^31, so the upper bit of a difference says which one is larger.
        let short = (behind | room.wrapping_sub(behind)) >> 31;
        // The sum of all halves is a multiple of 0xffff, the checksum's modulus, just if bringing the carries round gives that.
        let sum: u32 = words.iter().map(|word| (word & 0xffff) + (word >> 16)).sum();
        let wrong = if SUM { ((sum & 0xffff) + (sum >> 16)) ^ 0xffff } else { 0 };
        let version = (words[0] & 0xff) ^ 0x45;
        // Above the time to live in memory order is the checksum, which grows by one, the carry brought round and zero written as zero: see
        // `wire::checksum::decrement_ttl`.
        let carry = ((words[2] >> 16) + 2) & 0x1_0000;
        let aged = words[2].wrapping_add(0xffff).wrapping_add(carry);
        let dying = u32::from(words[2] & 0xfe == 0) * u32::from(DYING);
        let multicast = u32::from(words[4] & 0xf0 == 0xe0) * u32::from(MULTICAST);
        Row { refused: version | short | wrong, marks: dying | multicast, behind, aged }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn folded(sum: u32) -> u16 {
        if sum > 0xffff { folded((sum >> 16) + (sum & 0xffff)) } else { sum as u16 }
    }

    /// The sum of RFC 1071, word by word.
    fn sum(header: &[u8; HEADER]) -> u16 {
        folded(header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum())
    }

    /// A header of a datagram of `len` bytes, its checksum right.
    fn header(len: u16, ttl: u8, id: u16, to: [u8; 4]) -> [u8; HEADER] {
        let mut header = [0x45, 0, 0, 0, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 0, 0, 9, 0, 0, 0, 0];
        header[2..4].copy_from_slice(&len.to_be_bytes());
        header[4..6].copy_from_slice(&id.to_be_bytes());
        header[16..].copy_from_slice(&to);
        let sum = !sum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }

    /// What is found, header by header, for an ordinary one: destination, length behind it, third word one hop further on if it gets there.
    fn naive(bytes: &[u8], sum: bool) -> Option<(u32, u16, Option<[u8; 4]>)> {
        let mut header: [u8; HEADER] = *bytes.first_chunk()?;
        let len = u16::from_be_bytes([header[2], header[3]]);
        let right = !sum || self::sum(&header) == 0xffff;
        if header[0] != 0x45 || len < 20 || usize::from(len) > bytes.len() || !right {
            return None;
        }
        let lives = header[8] > 0;
        header[8] = header[8].wrapping_sub(1);
        // RFC 1624, equation 3.
        let old = u16::from_be_bytes([header[10], header[11]]);
        let mended = !folded(u32::from(!old) + u32::from(!0x0100_u16));
        [header[10], header[11]] = mended.to_be_bytes();
        let to = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        Some((to, len - 20, lives.then_some([header[8], header[9], header[10], header[11]])))
    }

    fn check(frames: &[Vec<u8>], at: usize) {
        let packets: Vec<Packet> = frames.iter().map(|f| Packet::copy_of(f).unwrap()).collect();
        for (avx2, sum) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut headers = Headers::default();
            headers.avx2 &= avx2;
            let (mut to, mut behind, mut aged, mut marks) = ([7; ROWS], [7; ROWS], [7; ROWS], [7; ROWS]);
            let columns = Columns { to: &mut to, behind: &mut behind, aged: &mut aged, marks: &mut marks };
            let mut seen = 0;
            let see = |p: &Packet, words: [u32; 5]| {
                assert_eq!(p.data()[at..at + HEADER], *words.map(u32::to_le_bytes).as_flattened());
                seen += 1;
            };
            let survey = match sum {
                true => headers.survey::<true>(&packets, at, columns, see),
                false => headers.survey::<false>(&packets, at, columns, see),
            };
            let want: Vec<_> =
                frames.iter().take(ROWS).map_while(|f| naive(f.get(at..).unwrap_or_default(), sum)).collect();
            let got = (0..survey.rows)
                .map(|i| (to[i], behind[i], (frames[i][at + 8] > 0).then_some(aged[i].to_le_bytes())));
            assert_eq!(got.collect::<Vec<_>>(), want, "AVX2 {avx2}, checksums {sum}");
            assert!(seen >= survey.rows);
            for (mark, frame) in marks.iter().zip(&frames[..survey.rows]) {
                let dying = if frame[at + 8] < 2 { DYING } else { 0 };
                let multicast = if (224..240).contains(&frame[at + 16]) { MULTICAST } else { 0 };
                assert_eq!(*mark, dying | multicast);
                assert_eq!(survey.marks & mark, *mark);
            }
        }
    }

    type Fault = fn(&mut Vec<u8>);

    fn frame(at: usize, header: [u8; HEADER], payload: usize) -> Vec<u8> {
        let mut frame = vec![0xee; at];
        frame.extend(header);
        frame.resize(frame.len() + payload, 0xdd);
        frame
    }

    #[test]
    fn the_first_that_is_not_ordinary_ends_it() {
        crate::alone(|| {
            let good = |i: usize| frame(14, header(26, 64, i as u16, [10, 1, 0, i as u8]), 20);
            let lens: &[usize] = if cfg!(miri) { &[0, 1, 17] } else { &[0, 1, 15, 16, 17, 63, 64, 70] };
            for n in lens.iter().copied() {
                let frames: Vec<_> = (0..n).map(good).collect();
                check(&frames, 14);
                for at in [0, n / 2, n.saturating_sub(1)].into_iter().filter(|at| *at < n) {
                    // In turn: options, another version, shorter than the header, longer than the packet, a wrong checksum, cut off.
                    let faults: [Fault; 6] = [
                        |f| f[14] = 0x46,
                        |f| f[14] = 0x65,
                        |f| f[17] = 19,
                        |f| f[17] = 41,
                        |f| f[24] ^= 1,
                        |f| f.truncate(33),
                    ];
                    for fault in faults {
                        let mut frames = frames.clone();
                        fault(&mut frames[at]);
                        check(&frames, 14);
                    }
                }
            }
        });
    }

    #[test]
    fn every_checksum_lives_on() {
        crate::alone(|| {
            let ids = (0..=u16::MAX).step_by(if cfg!(miri) { 1023 } else { 1 });
            let frames: Vec<_> = ids.map(|id| frame(0, header(20, id as u8, id, [10, 0, 0, 1]), 0)).collect();
            frames.chunks(ROWS).for_each(|some| check(some, 0));
            // Either form of zero is right, and becomes the one form.
            for sum in [[0, 0], [0xff, 0xff], [0xff, 0xfe], [0xfe, 0xff]] {
                let mut bytes = header(20, 9, 0, [10, 0, 0, 1]);
                bytes[10..12].copy_from_slice(&sum);
                check(&[frame(0, bytes, 0)], 0);
            }
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, failure_persistence: None, ..Default::default() })]
        #[test]
        fn any_bytes_are_read_as_one_by_one(
            mut frames in proptest::collection::vec(
                (0u16..60, any::<u8>(), any::<u16>(), any::<[u8; 4]>(), proptest::option::of((0usize..20, any::<u8>()))), 0..80),
            at in 0usize..20,
        ) {
            let frames: Vec<_> = frames.drain(..).map(|(len, ttl, id, to, fault)| {
                let mut frame = frame(at, header(len.max(20), ttl, id, to), 36);
                if let Some((byte, value)) = fault.filter(|(byte, _)| byte % 3 == 0) {
                    frame[at + byte] = value;
                }
                frame
            }).collect();
            crate::alone(|| check(&frames, at));
        }
    }
}
