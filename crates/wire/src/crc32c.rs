// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC-32C (Castagnoli), the checksum of SCTP (RFC 9260 appendix A).

const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[k][b]`: what byte `b` does to the remainder when `k` bytes follow it.
const TABLES: [[u32; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        tables[0][byte] = rest;
        byte += 1;
    }
    let mut k = 1;
    while k < 4 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[k - 1][byte];
            tables[k][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
};

/// The CRC of `data`. SCTP writes it with the lowest byte first.
///
/// ```
/// assert_eq!(junctor_wire::crc32c::of(b"123456789"), 0xe306_9283);
/// ```
pub fn of(data: &[u8]) -> u32 {
    let (words, rest) = data.as_chunks::<4>();
    let mut crc = !0u32;
    for word in words {
        let [a, b, c, d] = (crc ^ u32::from_le_bytes(*word)).to_le_bytes();
        crc = TABLES[3][usize::from(a)]
            ^ TABLES[2][usize::from(b)]
            ^ TABLES[1][usize::from(c)]
            ^ TABLES[0][usize::from(d)];
    }
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 3720 appendix B.4.
    #[test]
    fn published_examples() {
        let rising: Vec<u8> = (0..32).collect();
        let falling: Vec<u8> = (0..32).rev().collect();
        for (data, crc) in [
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&rising, 0x46dd_794e),
            (&falling, 0x113f_db5c),
            (b"", 0),
        ] {
            assert_eq!(of(data), crc);
        }
    }
}
