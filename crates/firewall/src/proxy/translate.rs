// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequence numbers, timestamps and windows between a client that knows a cookie and a server that knows its own numbers.

use wire::checksum::{sum, update32};

use crate::track::{ACK, SYN};

const FLAGS: usize = 13;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// What differs between what the client knows and what the server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shift {
    /// Added to the server's sequence numbers.
    pub sequence: u32,
    /// Added to the server's timestamps.
    pub stamp: u32,
    /// Shifts of windows: the server's own, and the one that the client was promised.
    pub scales: [u8; 2],
    /// The shift of the client's windows, of which its server knows nothing.
    pub unknown_scale: u8,
}

impl Shift {
    /// The window of the server in the client's scale.
    pub fn window_of_server(&self, window: u16) -> u16 {
        let [own, promised] = self.scales;
        ((u32::from(window) << own) >> promised).min(u16::MAX.into()) as u16
    }

    /// The window of the client in the scale that the server knows.
    pub fn window_of_client(&self, window: u16) -> u16 {
        (u32::from(window) << self.unknown_scale).min(u16::MAX.into()) as u16
    }

    /// Changes a segment from the client, or from the server, and its checksum.
    pub fn apply(&self, segment: &mut [u8], is_from_server: bool) -> Option<()> {
        let length = usize::from(*segment.get(12)? >> 4) * 4;
        let header = segment.get_mut(..length).filter(|header| header.len() >= 20)?;
        let old = sum(header);
        let flags = header[FLAGS];
        if is_from_server {
            add(header, 4, self.sequence);
        } else if flags & ACK != 0 {
            add(header, 8, self.sequence.wrapping_neg());
        }
        if flags & SYN == 0 {
            let window = u16::from_be_bytes([header[14], header[15]]);
            let scaled =
                if is_from_server { self.window_of_server(window) } else { self.window_of_client(window) };
            header[14..16].copy_from_slice(&scaled.to_be_bytes());
        }
        self.shift_options(&mut header[20..], is_from_server, flags);
        // Both sums hold the old checksum, which falls out.
        let checksum = u16::from_be_bytes([header[16], header[17]]);
        let checksum = wire::checksum::update16(checksum, old, sum(header));
        header[16..18].copy_from_slice(&checksum.to_be_bytes());
        Some(())
    }

    fn shift_options(&self, options: &mut [u8], is_from_server: bool, flags: u8) -> Option<()> {
        let mut at = 0;
        while let Some(kind) = options.get(at).copied() {
            let length = match kind {
                0 => return None,
                1 => 1,
                _ => usize::from(*options.get(at + 1).filter(|length| **length >= 2)?),
            };
            let option = options.get_mut(at..at + length)?;
            match kind {
                // Blocks of what the server has sent (RFC 2018).
                SACK if !is_from_server => {
                    let edges = (2..length.saturating_sub(3)).step_by(4);
                    edges.for_each(|at| add(option, at, self.sequence.wrapping_neg()));
                }
                TIMESTAMPS if length == 10 && is_from_server => add(option, 2, self.stamp),
                TIMESTAMPS if length == 10 && flags & ACK != 0 => add(option, 6, self.stamp.wrapping_neg()),
                _ => {}
            }
            at += length;
        }
        None
    }

    /// Changes the sequence number of the server's segment that an ICMP error for the server quotes. `at` is the place of the segment in the message.
    pub fn apply_to_quote(&self, message: &mut [u8], at: usize) -> Option<()> {
        let old = word(message, at + 4)?;
        let new = old.wrapping_sub(self.sequence);
        message[at + 4..at + 8].copy_from_slice(&new.to_be_bytes());
        let checksum = u16::from_be_bytes([message[2], message[3]]);
        message[2..4].copy_from_slice(&update32(checksum, old, new).to_be_bytes());
        Some(())
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn add(bytes: &mut [u8], at: usize, more: u32) {
    if let Some(old) = word(bytes, at) {
        bytes[at..at + 4].copy_from_slice(&old.wrapping_add(more).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::tcp::{TcpOption, View};

    use super::*;

    /// A segment with timestamps and two blocks, and its checksum.
    fn segment(numbers: [u32; 6], window: u16, flags: u8) -> Vec<u8> {
        let [sequence, acknowledgement, value, echo, left, right] = numbers;
        let mut bytes = vec![0, 80, 4, 0];
        bytes.extend(sequence.to_be_bytes());
        bytes.extend(acknowledgement.to_be_bytes());
        bytes.extend([0xe0, flags]);
        bytes.extend(window.to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        // A byte before the others, so that they lie at odd places.
        bytes.extend([1, 8, 10]);
        bytes.extend([value.to_be_bytes(), echo.to_be_bytes()].concat());
        bytes.extend([5, 18]);
        bytes.extend([left, right, left ^ 7, right ^ 7].map(u32::to_be_bytes).concat());
        bytes.extend([1; 5]);
        bytes.extend(b"data");
        View::new_checked(&mut bytes[..])
            .unwrap()
            .fill_checksum_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        bytes
    }

    fn numbers(segment: &[u8]) -> [u32; 6] {
        let view = View::new_checked(segment).unwrap();
        assert!(view.checksum_ok_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        let mut found = [view.seq(), view.ack(), 0, 0, 0, 0];
        for (_, option) in view.options().map_while(Result::ok) {
            match option {
                TcpOption::Timestamps { value, echo } => (found[2], found[3]) = (value, echo),
                TcpOption::Sack(blocks) => {
                    (found[4], found[5]) = (word(&blocks[0], 0).unwrap(), word(&blocks[0], 4).unwrap());
                }
                _ => {}
            }
        }
        found
    }

    proptest! {
        /// What a server sends comes back as it was, and a client's acknowledgement is of the server's numbers.
        #[test]
        fn both_ways_are_each_others_reverse(all: [u32; 6], sequence: u32, stamp: u32, window: u16) {
            let shift = Shift { sequence, stamp, ..Shift::default() };
            let [a, b, c, d, left, right] = all;
            let mut sent = segment(all, window, ACK);
            shift.apply(&mut sent, true).unwrap();
            prop_assert_eq!(numbers(&sent), [a.wrapping_add(sequence), b, c.wrapping_add(stamp), d, left, right]);
            let mut acknowledged = segment(all, window, ACK);
            shift.apply(&mut acknowledged, false).unwrap();
            let back = |one: u32| one.wrapping_sub(sequence);
            prop_assert_eq!(numbers(&acknowledged), [a, back(b), c, d.wrapping_sub(stamp), back(left), back(right)]);
        }

        #[test]
        fn any_bytes_are_taken(mut bytes in proptest::collection::vec(any::<u8>(), 0..90), is_from_server: bool, at in 0usize..90) {
            let shift = Shift { sequence: 5, stamp: 6, scales: [14, 0], unknown_scale: 14 };
            let length = bytes.len();
            let _ = shift.apply(&mut bytes, is_from_server);
            let _ = shift.apply_to_quote(&mut bytes, at);
            prop_assert_eq!(bytes.len(), length);
        }
    }

    #[test]
    fn windows_keep_their_bytes() {
        for (scales, window, expected) in
            [([7, 7], 1000, 1000), ([9, 7], 1000, 4000), ([0, 7], 64_000, 500), ([9, 0], 1000, u16::MAX)]
        {
            let shift = Shift { scales, ..Shift::default() };
            assert_eq!(shift.window_of_server(window), expected, "{scales:?}");
            let mut bytes = segment([0; 6], window, ACK);
            shift.apply(&mut bytes, true);
            assert_eq!(View::new_checked(&bytes[..]).unwrap().window(), expected);
        }
        assert_eq!(Shift { unknown_scale: 7, ..Shift::default() }.window_of_client(100), 12_800);
        // A SYN has no scaled window.
        let mut bytes = segment([0; 6], 100, ACK | SYN);
        Shift { scales: [7, 0], ..Shift::default() }.apply(&mut bytes, true);
        assert_eq!(View::new_checked(&bytes[..]).unwrap().window(), 100);
    }
}
