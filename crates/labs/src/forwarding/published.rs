// SPDX-License-Identifier: MIT OR Apache-2.0
//! The study's figures.

/// A row of its table: packets a second for each of two ports that are loaded at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The size as the study names it.
    pub(super) frame_bytes: usize,
    pub(super) one: f64,
    pub(super) two_locked: f64,
    pub(super) two_per_core: f64,
}

impl Row {
    const fn new(frame_bytes: usize, one: f64, two_locked: f64, two_per_core: f64) -> Row {
        Row { frame_bytes, one, two_locked, two_per_core }
    }

    /// The study's three ways.
    pub(super) fn rates(&self) -> [f64; 3] {
        [self.one, self.two_locked, self.two_per_core]
    }

    /// Bytes of the frame without its checksum, as memory has it. The longest size is given without, the others with.
    pub(super) fn bytes_in_memory(&self) -> usize {
        if self.frame_bytes == LONGEST { LONGEST } else { self.frame_bytes - CHECKSUM }
    }

    /// Packets a second that fill the study's link: by its own figures, 100,000,000 bytes of frames.
    pub(super) fn line_rate(&self) -> f64 {
        1e8 / (self.bytes_in_memory() + CHECKSUM) as f64
    }
}

/// Bytes of a frame's checksum.
pub(super) const CHECKSUM: usize = 4;
const LONGEST: usize = 1514;

/// All of them.
pub(super) const ROWS: [Row; 8] = [
    Row::new(64, 167_280.0, 323_429.0, 341_390.0),
    Row::new(128, 164_666.0, 315_630.0, 339_602.0),
    Row::new(256, 166_254.0, 312_545.0, 330_858.0),
    Row::new(512, 145_056.0, 195_312.0, 195_312.0),
    Row::new(768, 130_208.0, 130_208.0, 130_208.0),
    Row::new(1024, 97_656.0, 97_656.0, 97_656.0),
    Row::new(1280, 78_125.0, 78_125.0, 78_125.0),
    Row::new(1514, 65_876.0, 65_876.0, 65_876.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_the_studys() {
        let ratio = |over: f64, under: f64| (1000.0 * over / under).round() / 1000.0;
        let first = ROWS[0];
        assert_eq!(ratio(first.two_locked, first.one), 1.933);
        assert_eq!(ratio(first.two_per_core, first.one), 2.041);
        assert_eq!(ratio(first.two_per_core, first.two_locked), 1.056);
        // Two processors fill the link from 512 bytes on, one from 768 on.
        for row in &ROWS[3..] {
            assert!((row.two_locked / row.line_rate() - 1.0).abs() < 1e-4, "{row:?}");
        }
        assert!(ROWS[3].one < 0.8 * ROWS[3].line_rate() && ROWS[4].one > 0.999 * ROWS[4].line_rate());
    }
}
