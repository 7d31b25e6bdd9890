// SPDX-License-Identifier: MIT OR Apache-2.0
//! What machines count by themselves while a trial's frames are sent.

use crate::trial::Invalid;

/// Reads what machines count, at both ends of the time in which a trial's frames are sent.
pub trait Gauge: Send {
    /// Reads for the first time.
    ///
    /// # Errors
    /// A machine does not answer, which makes the trial invalid.
    fn begin(&mut self) -> Result<(), Invalid>;

    /// Has all read for the second time, and waits for nobody: frames still arrive.
    fn end(&mut self);

    /// Waits until all have read.
    ///
    /// # Errors
    /// As [`Gauge::begin`].
    fn done(&mut self) -> Result<(), Invalid>;
}

/// Reads nothing.
pub(super) struct Blind;

impl Gauge for Blind {
    fn begin(&mut self) -> Result<(), Invalid> {
        Ok(())
    }

    fn end(&mut self) {}

    fn done(&mut self) -> Result<(), Invalid> {
        Ok(())
    }
}
