// SPDX-License-Identifier: MIT OR Apache-2.0
//! The study's figures.

/// Cores that the study had.
pub(super) const CORES: usize = 8;

/// Numbers of cores that it measured.
pub(super) const COUNTS: [usize; 4] = [1, 2, 4, 8];

/// A row of its table, in thousands of frames a second, both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Length of the frame with its checksum.
    pub(super) frame_bytes: usize,
    pub(super) big_lock: f64,
    /// On [`COUNTS`] cores.
    pub(super) safe: [f64; 4],
}

impl Row {
    const fn new(frame_bytes: usize, big_lock: f64, safe: [f64; 4]) -> Row {
        Row { frame_bytes, big_lock, safe }
    }

    /// What two ports of 1 Gb/s carry, in thousands of frames: each frame takes 20 bytes more than its own on the wire.
    fn line_rate(&self) -> f64 {
        2.0 * 1e9 / (8.0 * (self.frame_bytes + 20) as f64) / 1e3
    }
}

/// All of them.
pub(super) const ROWS: [Row; 11] = [
    Row::new(74, 99.3, [329.0, 527.7, 705.4, 1147.1]),
    Row::new(128, 81.3, [327.7, 528.2, 704.8, 1157.6]),
    Row::new(192, 118.9, [333.5, 530.4, 706.6, 1142.9]),
    Row::new(256, 89.1, [331.0, 530.8, 700.3, 905.7]),
    Row::new(384, 115.1, [332.1, 528.5, 618.8, 613.9]),
    Row::new(512, 109.3, [329.0, 469.0, 469.9, 469.9]),
    Row::new(768, 110.3, [316.9, 317.2, 317.2, 317.2]),
    Row::new(1024, 119.9, [239.4, 239.4, 239.4, 239.4]),
    Row::new(1280, 104.7, [192.3, 192.3, 192.3, 192.3]),
    Row::new(1408, 104.7, [175.0, 175.0, 175.0, 175.0]),
    Row::new(1518, 108.2, [162.5, 162.5, 162.5, 162.5]),
];

/// The shortest frames of which 8 cores fill the wires.
pub(super) fn full_from_bytes() -> usize {
    let full = |row: &&Row| row.safe[3] > 0.999 * row.line_rate();
    ROWS.iter().find(full).map_or(0, |row| row.frame_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_the_studys() {
        // The shares of the wire's rate that the study itself gives for its shortest frame.
        let first = ROWS[0];
        let share = |rate: f64| (1000.0 * rate / first.line_rate()).round() / 10.0;
        assert_eq!(first.safe.map(share), [12.4, 19.8, 26.5, 43.1]);
        assert!((100.0 * first.big_lock / first.line_rate() - 3.74).abs() < 0.01);
        // No cell is above what the wire carries, and the longest frames fill it.
        for row in ROWS {
            assert!(row.safe.iter().all(|rate| *rate < 1.001 * row.line_rate()), "{row:?}");
        }
        assert!(ROWS[10].safe[0] > 0.999 * ROWS[10].line_rate());
        assert_eq!(full_from_bytes(), 256);
    }
}
