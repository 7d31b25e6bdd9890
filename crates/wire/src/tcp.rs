// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP (RFC 9293): header, flags, options.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::header::{range, range_mut, store_at};
use crate::{Error, Protocol, checksum};

pub mod options;
pub use options::{OptionIter, TcpOption};

/// Byte offsets of the fields.
pub mod field {
    /// Source port.
    pub const SRC_PORT: usize = 0;
    /// Destination port.
    pub const DST_PORT: usize = 2;
    /// Sequence number.
    pub const SEQ: usize = 4;
    /// Acknowledgement number.
    pub const ACK: usize = 8;
    /// Header length in 32-bit words (high 4 bits) and reserved bits.
    pub const DATA_OFFSET: usize = 12;
    /// Flags.
    pub const FLAGS: usize = 13;
    /// Window.
    pub const WINDOW: usize = 14;
    /// Checksum.
    pub const CHECKSUM: usize = 16;
    /// Urgent pointer.
    pub const URGENT: usize = 18;
}

/// The flags of a segment, a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement number counts.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer counts.
    pub const URG: Flags = Flags(0x20);
    /// Echo of explicit congestion notification (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// Whether all flags of `other` are set.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any flag of `other` is set.
    #[inline]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    /// One letter a flag, as tcpdump prints them: `S`, `S.`, `P.`, `.`, `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("none");
        }
        const LETTERS: [(Flags, &str); 8] = [
            (Flags::FIN, "F"),
            (Flags::SYN, "S"),
            (Flags::RST, "R"),
            (Flags::PSH, "P"),
            (Flags::ACK, "."),
            (Flags::URG, "U"),
            (Flags::ECE, "E"),
            (Flags::CWR, "W"),
        ];
        LETTERS
            .iter()
            .filter(|(flag, _)| self.contains(*flag))
            .try_for_each(|(_, letter)| f.write_str(letter))
    }
}

field_as_bytes! {
    Flags, 1, |b| Flags(b[0]), |v| [v.0];
}

header! {
    "TCP", 20;
    fields {
        /// Source port.
        src_port / set_src_port: u16 = field::SRC_PORT;
        /// Destination port.
        dst_port / set_dst_port: u16 = field::DST_PORT;
        /// Sequence number.
        seq / set_seq: u32 = field::SEQ;
        /// Acknowledgement number.
        ack / set_ack: u32 = field::ACK;
        /// The byte that holds the header length in its high four bits.
        data_offset / set_data_offset: u8 = field::DATA_OFFSET;
        /// Flags.
        flags / set_flags: Flags = field::FLAGS;
        /// Receive window, unscaled.
        window / set_window: u16 = field::WINDOW;
        /// Checksum.
        checksum / set_checksum: u16 = field::CHECKSUM;
        /// Urgent pointer.
        urgent / set_urgent: u16 = field::URGENT;
    }
    derived {
        /// Length of the header, options included, in bytes: 0 to 60 (a valid one has at least 20).
        header_len: usize = |b| usize::from(b[field::DATA_OFFSET] >> 4) * 4;
    }
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks that header and options are there.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a header length below 20.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let available = buffer.as_ref().len();
        Error::check_len(PROTOCOL, HEADER_LEN, available)?;
        let view = View { buffer };
        let header_len = view.header_len();
        Error::check_field(
            header_len >= HEADER_LEN,
            PROTOCOL,
            "header length",
            header_len as u32,
            "at least 20",
        )?;
        Error::check_len(PROTOCOL, header_len, available)?;
        Ok(view)
    }

    /// The option bytes.
    #[inline]
    pub fn option_bytes(&self) -> &[u8] {
        range(self.as_slice(), HEADER_LEN, self.header_len())
    }

    /// The options, one by one.
    pub fn options(&self) -> OptionIter<'_> {
        OptionIter::new(self.option_bytes())
    }

    /// The maximum segment size option in bytes, if present and not behind a malformed option.
    pub fn mss(&self) -> Option<u16> {
        self.mss_option().map(|(_, mss)| mss)
    }

    /// Offset of the maximum segment size within the header, and its value.
    fn mss_option(&self) -> Option<(usize, u16)> {
        self.options().map_while(Result::ok).find_map(|(at, option)| match option {
            TcpOption::MaxSegmentSize(mss) => Some((HEADER_LEN + at + 2, mss)),
            _ => None,
        })
    }

    /// What the segment carries: all of the buffer behind the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        range(self.as_slice(), self.header_len(), usize::MAX)
    }

    /// How much the segment advances the sequence number: its payload, and one each for SYN and FIN.
    pub fn sequence_len(&self) -> u32 {
        let flags = self.flags();
        let marks = u32::from(flags.contains(Flags::SYN)) + u32::from(flags.contains(Flags::FIN));
        marks + self.payload().len() as u32
    }

    /// Whether the checksum is right. The buffer must hold the segment and nothing more.
    pub fn checksum_ok_v4(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        checksum::transport_v4_ok(src, dst, Protocol::TCP, self.as_slice())
    }

    /// Whether the checksum is right. The buffer must hold the segment and nothing more.
    pub fn checksum_ok_v6(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        checksum::transport_v6_ok(src, dst, Protocol::TCP, self.as_slice())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// What the segment carries, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.header_len();
        range_mut(self.as_mut_slice(), start, usize::MAX)
    }

    /// Computes and sets the checksum. The buffer must hold the segment and nothing more.
    pub fn fill_checksum_v4(&mut self, src: Ipv4Addr, dst: Ipv4Addr) {
        self.set_checksum(0);
        let checksum = checksum::transport_v4(src, dst, Protocol::TCP, self.as_slice());
        self.set_checksum(checksum);
    }

    /// Computes and sets the checksum. The buffer must hold the segment and nothing more.
    pub fn fill_checksum_v6(&mut self, src: Ipv6Addr, dst: Ipv6Addr) {
        self.set_checksum(0);
        let checksum = checksum::transport_v6(src, dst, Protocol::TCP, self.as_slice());
        self.set_checksum(checksum);
    }

    /// Lowers the maximum segment size of a SYN to at most `max` bytes, mending the checksum. Returns whether it changed.
    pub fn clamp_mss(&mut self, max: u16) -> bool {
        let Some((at, mss)) =
            self.mss_option().filter(|&(_, mss)| mss > max && self.flags().contains(Flags::SYN))
        else {
            return false;
        };
        store_at(self.as_mut_slice(), at, max);
        // At an odd offset the bytes fall into the other halves of two words; swapping them sums the same (RFC 1071
        // section 2 (B)).
        let place = |word: u16| if at % 2 == 1 { word.swap_bytes() } else { word };
        let mended = checksum::update16(self.checksum(), place(mss), place(max));
        self.set_checksum(mended);
        true
    }
}

/// The meaning of a TCP header without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags.
    pub flags: Flags,
    /// Receive window, unscaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
}

impl Repr {
    /// Reads a view; never fails. Options are left to [`View::options`].
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Repr {
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            seq: view.seq(),
            ack: view.ack(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
        }
    }

    /// Writes the 20-byte header to the front of `buffer`, its checksum zero; fill it once the payload stands.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let mut header = HeaderMut::from_slice(buffer)?;
        header.set_src_port(self.src_port).set_dst_port(self.dst_port).set_seq(self.seq).set_ack(self.ack);
        header.set_data_offset(5 << 4).set_flags(self.flags).set_window(self.window);
        header.set_checksum(0).set_urgent(self.urgent);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tcp {} > {}, [{}], seq {}", self.src_port, self.dst_port, self.flags, self.seq)?;
        if self.flags.contains(Flags::ACK) {
            write!(f, ", ack {}", self.ack)?;
        }
        write!(f, ", win {}", self.window)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)?;
        for (i, option) in self.options().enumerate() {
            f.write_str(if i == 0 { ", options [" } else { "," })?;
            match option {
                Ok((_, option)) => write!(f, "{option}")?,
                Err(_) => f.write_str("malformed")?,
            }
        }
        f.write_str(if self.option_bytes().is_empty() { "" } else { "]" })?;
        write!(f, ", length {}", self.payload().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SRC: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const DST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn segment(flags: Flags, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let repr = Repr { src_port: 1025, dst_port: 80, seq: 1, ack: 2, flags, window: 512, urgent: 0 };
        let mut bytes = vec![0; HEADER_LEN];
        repr.emit(&mut bytes).unwrap();
        bytes[field::DATA_OFFSET] = ((HEADER_LEN + options.len()) / 4 * 16) as u8;
        bytes.extend(options);
        bytes.extend(payload);
        let mut view = View::new_checked(bytes).unwrap();
        view.fill_checksum_v4(SRC, DST);
        view.into_inner()
    }

    #[test]
    fn one_line() {
        let check = |flags: Flags, options: &[u8], payload: &[u8], expected: &str| {
            assert_eq!(View::new_checked(segment(flags, options, payload)).unwrap().to_string(), expected);
        };
        let (syn, ack) = (Flags::SYN, Flags::ACK);
        check(syn, &[2, 4, 5, 0xb4], &[], "tcp 1025 > 80, [S], seq 1, win 512, options [mss 1460], length 0");
        check(ack | Flags::PSH, &[], &[1, 2], "tcp 1025 > 80, [P.], seq 1, ack 2, win 512, length 2");
        check(
            Flags(0),
            &[1, 9, 1, 0],
            &[],
            "tcp 1025 > 80, [none], seq 1, win 512, options [nop,malformed], length 0",
        );
    }

    #[test]
    fn header_lengths_are_checked() {
        let check = |at_12: u8, len: usize, ok: bool| {
            let mut bytes = vec![0; len];
            bytes[12.min(len - 1)] = at_12;
            assert_eq!(View::new_checked(bytes).is_ok(), ok, "{at_12:#x} {len}");
        };
        check(0x50, 20, true);
        check(0x50, 19, false);
        check(0x40, 20, false);
        check(0x60, 23, false);
        check(0xf0, 60, true);
    }

    #[test]
    fn mss_is_clamped_and_the_checksum_mended() {
        let check = |flags: Flags, options: &[u8], expected: Option<u16>| {
            for payload in [&[][..], &[9; 3]] {
                let mut view = View::new_checked(segment(flags, options, payload)).unwrap();
                view.clamp_mss(1400);
                assert_eq!(view.mss(), expected, "{options:?}");
                assert!(view.checksum_ok_v4(SRC, DST), "{options:?}");
            }
        };
        check(Flags::SYN, &[2, 4, 5, 0xb4], Some(1400));
        check(Flags::SYN | Flags::ACK, &[1, 2, 4, 5, 0xb4, 1, 1, 0], Some(1400));
        check(Flags::SYN, &[2, 4, 1, 0], Some(256));
        check(Flags::ACK, &[2, 4, 5, 0xb4], Some(1460));
        check(Flags::SYN, &[1, 1, 1, 0], None);
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(ports: [u16; 2], numbers: [u32; 2], flags: u8, window: u16, urgent: u16, payload in proptest::collection::vec(any::<u8>(), 0..64)) {
            let [src_port, dst_port] = ports;
            let [seq, ack] = numbers;
            let repr = Repr { src_port, dst_port, seq, ack, flags: Flags(flags), window, urgent };
            let mut bytes = vec![0; HEADER_LEN + payload.len()];
            repr.emit(&mut bytes).unwrap();
            let mut view = View::new_checked(bytes).unwrap();
            view.payload_mut().copy_from_slice(&payload);
            view.fill_checksum_v6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
            prop_assert!(view.checksum_ok_v6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED));
            prop_assert_eq!(Repr::parse(&view), repr);
            prop_assert_eq!(view.payload(), &payload[..]);
        }
    }
}
