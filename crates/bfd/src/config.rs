// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a session.

use crate::Auth;

/// The settings of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Number of the session, unique on this system; not zero. Draw it at random, so that an outsider cannot guess it.
    pub discriminator: u32,
    /// Whether to send nothing before the neighbour does.
    pub passive: bool,
    /// Least TTL or hop limit of received packets: 255 over one hop (RFC 5881 section 5).
    pub min_ttl: u8,
    /// Whether the session survives a restart of the control plane; sent as the C bit.
    pub control_plane_independent: bool,
    /// How packets of both sides are authenticated, if they are.
    pub auth: Option<Auth>,
    /// Intervals, which may change while the session runs.
    pub intervals: Intervals,
}

impl Config {
    /// A session over one hop, active, with the default intervals.
    pub fn single_hop(discriminator: u32) -> Self {
        let intervals = Intervals::default();
        Config {
            discriminator,
            passive: false,
            min_ttl: 255,
            control_plane_independent: false,
            auth: None,
            intervals,
        }
    }

    /// A session over several hops that accepts packets with at least `min_ttl`.
    pub fn multi_hop(discriminator: u32, min_ttl: u8) -> Self {
        Config { min_ttl, ..Config::single_hop(discriminator) }
    }
}

/// The intervals of a session in microseconds, and the multiplier. The default is 3 times 300 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// Shortest interval at which to send; not zero. At least one second is used while the session is not up.
    pub desired_min_tx_us: u32,
    /// Shortest interval at which we can receive; not zero.
    pub required_min_rx_us: u32,
    /// Shortest interval at which we return echo packets; zero means that we return none.
    pub required_min_echo_rx_us: u32,
    /// How many of our intervals may pass without a packet before the neighbour gives up; not zero.
    pub detect_mult: u8,
}

impl Default for Intervals {
    fn default() -> Self {
        Intervals {
            desired_min_tx_us: 300_000,
            required_min_rx_us: 300_000,
            required_min_echo_rx_us: 0,
            detect_mult: 3,
        }
    }
}

/// A setting that the protocol forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("BFD: {setting} is 0: set it to {expected}")]
pub struct ConfigError {
    /// The setting.
    pub setting: &'static str,
    /// What to write instead.
    pub expected: &'static str,
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        not_zero(self.discriminator, "the discriminator", "a number that no other session has")?;
        self.intervals.check()
    }
}

impl Intervals {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let interval = "an interval in microseconds, for example 300000";
        not_zero(self.desired_min_tx_us, "the desired transmission interval", interval)?;
        not_zero(self.required_min_rx_us, "the required reception interval", interval)?;
        not_zero(self.detect_mult.into(), "the multiplier", "1 to 255, for example 3")
    }
}

fn not_zero(value: u32, setting: &'static str, expected: &'static str) -> Result<(), ConfigError> {
    if value == 0 { Err(ConfigError { setting, expected }) } else { Ok(()) }
}
