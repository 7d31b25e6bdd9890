// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments that the firewall reads and makes when it answers for a server.

use std::net::IpAddr;

use wire::{Protocol, ipv4, ipv6, tcp};

use super::cookie::{Ends, Options};

const TTL: u8 = 64;
/// Bytes of options at most.
const OPTIONS_MAX: usize = 20;

/// The options of a segment.
pub fn options(segment: &[u8]) -> Options {
    let mut options = Options::default();
    let Ok(view) = tcp::View::new_checked(segment) else { return options };
    for (_, option) in view.options().map_while(Result::ok) {
        match option {
            tcp::TcpOption::MaxSegmentSize(mss) => options.mss = Some(mss),
            tcp::TcpOption::WindowScale(scale) => options.scale = Some(scale),
            tcp::TcpOption::SackPermitted => options.sack = true,
            tcp::TcpOption::Timestamps { value, echo } => options.stamps = Some([value, echo]),
            _ => {}
        }
    }
    options
}

/// A segment without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Who it says that it is from, and to whom it goes.
    pub ends: Ends,
    /// Its flags.
    pub flags: u8,
    /// Its sequence number.
    pub sequence: u32,
    /// Its acknowledgement.
    pub acknowledgement: u32,
    /// Its window, as written.
    pub window: u16,
    /// Its options.
    pub options: Options,
}

impl Made {
    /// Options as bytes, and how many. Each takes whole words.
    fn option_bytes(&self) -> ([u8; OPTIONS_MAX], usize) {
        let (mut bytes, mut length) = ([0; OPTIONS_MAX], 0);
        let mut put = |some: &[u8]| {
            bytes[length..length + some.len()].copy_from_slice(some);
            length += some.len();
        };
        let Options { mss, scale, sack, stamps } = self.options;
        if let Some(mss) = mss {
            let [high, low] = mss.to_be_bytes();
            put(&[2, 4, high, low]);
        }
        match (sack, stamps) {
            (true, _) if stamps.is_some() => put(&[4, 2]),
            (true, _) => put(&[1, 1, 4, 2]),
            (false, Some(_)) => put(&[1, 1]),
            (false, None) => {}
        }
        if let Some([value, echo]) = stamps {
            put(&[8, 10]);
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        }
        if let Some(scale) = scale {
            put(&[1, 3, 3, scale]);
        }
        (bytes, length)
    }

    /// Bytes of its IP header.
    pub fn header_length(&self) -> usize {
        if self.ends[0].0.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
    }

    /// Bytes of the IP packet.
    pub fn length(&self) -> usize {
        self.header_length() + tcp::HEADER_LEN + self.option_bytes().1
    }

    /// Writes the IP packet into `bytes`, which has [`length`](Self::length) bytes. Returns nothing if it has fewer.
    pub fn write(&self, bytes: &mut [u8]) -> Option<()> {
        let (options, count) = self.option_bytes();
        let payload_len = (tcp::HEADER_LEN + count) as u16;
        let [(source, from), (destination, to)] = self.ends;
        let protocol = Protocol::TCP;
        let (header, segment) = bytes.split_at_mut_checked(self.header_length())?;
        match (source, destination) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let fragment = ipv4::FLAG_DF;
                let repr =
                    ipv4::Repr { src, dst, protocol, payload_len, ttl: TTL, fragment, ..Default::default() };
                repr.emit(header).ok()?;
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let repr = ipv6::Repr {
                    src,
                    dst,
                    next_header: protocol,
                    payload_len,
                    hop_limit: TTL,
                    ..Default::default()
                };
                repr.emit(header).ok()?;
            }
            _ => return None,
        }
        let repr = tcp::Repr {
            src_port: from,
            dst_port: to,
            seq: self.sequence,
            ack: self.acknowledgement,
            flags: tcp::Flags(self.flags),
            window: self.window,
            urgent: 0,
        };
        repr.emit(segment).ok()?;
        let place = segment.get_mut(tcp::HEADER_LEN..)?;
        place.get_mut(..count)?.copy_from_slice(&options[..count]);
        segment[12] = ((tcp::HEADER_LEN + count) as u8 / 4) << 4;
        let mut view = tcp::View::new_checked(segment).ok()?;
        match (source, destination) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => view.fill_checksum_v4(src, dst),
            (IpAddr::V6(src), IpAddr::V6(dst)) => view.fill_checksum_v6(src, dst),
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            six: bool, sequence: u32, acknowledgement: u32, window: u16, flags in 0u8..64,
            mss in proptest::option::of(any::<u16>()), scale in proptest::option::of(0u8..15),
            sack: bool, stamps in proptest::option::of(any::<[u32; 2]>()),
        ) {
            let [a, b] = if six { ["2001:db8::1", "2001:db8::2"] } else { ["192.0.2.1", "10.0.0.2"] };
            let ends = [(a.parse().unwrap(), 80), (b.parse().unwrap(), 1000)];
            let options = Options { mss, scale, sack, stamps };
            let made = Made { ends, flags, sequence, acknowledgement, window, options };
            let mut bytes = vec![0xee; made.length()];
            made.write(&mut bytes).unwrap();
            let segment = &bytes[made.header_length()..];
            let view = tcp::View::new_checked(segment).unwrap();
            let is_summed = match (ends[0].0, ends[1].0) {
                (IpAddr::V4(a), IpAddr::V4(b)) => view.checksum_ok_v4(a, b),
                (IpAddr::V6(a), IpAddr::V6(b)) => view.checksum_ok_v6(a, b),
                _ => false,
            };
            prop_assert!(is_summed && view.payload().is_empty());
            prop_assert_eq!((view.seq(), view.ack(), view.window(), view.flags().0), (sequence, acknowledgement, window, flags));
            prop_assert_eq!(super::options(segment), options);
        }
    }
}
