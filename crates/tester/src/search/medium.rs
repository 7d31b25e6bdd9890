// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many frames a second a medium can carry: the upper end of every search (RFC 2544 20, appendix B).

/// On an Ethernet each frame is preceded by 8 bytes (preamble and start of frame) and followed by a gap of at least 12 byte times
/// (IEEE 802.3 4.4.2).
pub const ETHERNET_BETWEEN_FRAMES_BYTES: u64 = 20;

/// Frames a second at which an Ethernet of `bits_per_s` is full of frames of `frame_bytes` each, the frame check sequence
/// included (so 64 is the least ordinary size).
///
/// ```
/// use junctor_tester::search::medium::ethernet_frames_per_s;
/// assert_eq!(ethernet_frames_per_s(10_000_000, 64) as u64, 14_880);
/// assert_eq!(ethernet_frames_per_s(10_000_000_000, 1518) as u64, 812_743);
/// ```
pub fn ethernet_frames_per_s(bits_per_s: u64, frame_bytes: u64) -> f64 {
    bits_per_s as f64 / ((frame_bytes + ETHERNET_BETWEEN_FRAMES_BYTES) * 8) as f64
}

/// Share of an Ethernet of `bits_per_s` that `frames_per_s` frames of `frame_bytes` take, 0 to 1.
pub fn ethernet_share(bits_per_s: u64, frame_bytes: u64, frames_per_s: f64) -> f64 {
    frames_per_s / ethernet_frames_per_s(bits_per_s, frame_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2544 appendix B.2: frames a second on a 10 Mbit/s Ethernet.
    #[test]
    fn rates_of_the_appendix() {
        let table = [
            (64, 14880),
            (128, 8445),
            (256, 4528),
            (512, 2349),
            (768, 1586),
            (1024, 1197),
            (1280, 961),
            (1518, 812),
        ];
        for (bytes, rate) in table {
            assert_eq!(ethernet_frames_per_s(10_000_000, bytes) as u64, rate, "{bytes}");
        }
        assert_eq!(ethernet_frames_per_s(10_000_000_000, 64).round(), 14_880_952.0);
        assert_eq!(ethernet_share(10_000_000, 64, ethernet_frames_per_s(10_000_000, 64) / 2.0), 0.5);
    }
}
