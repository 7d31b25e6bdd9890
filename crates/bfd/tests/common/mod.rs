// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short forms of settings.

use std::time::Duration;

use junctor_bfd::{Config, Intervals};

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Intervals of `ms` milliseconds both ways.
pub fn every(ms: u32, detect_mult: u8) -> Intervals {
    Intervals {
        desired_min_tx_us: ms * 1000,
        required_min_rx_us: ms * 1000,
        required_min_echo_rx_us: 0,
        detect_mult,
    }
}

pub fn config(discriminator: u32, intervals: Intervals) -> Config {
    Config { intervals, ..Config::single_hop(discriminator) }
}
