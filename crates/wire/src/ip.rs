// SPDX-License-Identifier: MIT OR Apache-2.0
//! What both versions of IP have in common.

use std::net::IpAddr;

use crate::{ipv4, ipv6};

/// Source and destination of a packet that begins with its IP header. `None` if its fixed part is not whole, or is of no version that there is.
#[inline]
pub fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let header = ipv4::Header::from_chunk(packet.first_chunk()?);
            Some((header.src().into(), header.dst().into()))
        }
        6 => {
            let header = ipv6::Header::from_chunk(packet.first_chunk()?);
            Some((header.src().into(), header.dst().into()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_header_of_either_version_has_addresses() {
        let mut four = [0; 20];
        four[0] = 0x45;
        four[12..].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
        let ends = |src: &str, dst: &str| Some((src.parse().unwrap(), dst.parse().unwrap()));
        assert_eq!(addresses(&four), ends("192.0.2.1", "192.0.2.2"));
        let mut six = [0; 40];
        six[0] = 0x60;
        (six[23], six[39]) = (1, 2);
        assert_eq!(addresses(&six), ends("::1", "::2"));
        for short in [&[][..], &four[..19], &six[..39], &[0x50; 40]] {
            assert_eq!(addresses(short), None);
        }
    }
}
