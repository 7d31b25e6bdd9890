// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests of the elements' manuals share.

use std::sync::Arc;

use packet::port::{Device, Error, Provider, Spec};

/// A machine without devices.
pub struct NoDevices;

impl Provider for NoDevices {
    fn open(&self, spec: &Spec) -> Result<Arc<dyn Device>, Error> {
        Err(Error::new(&spec.device, "no devices in this test", ""))
    }
}
