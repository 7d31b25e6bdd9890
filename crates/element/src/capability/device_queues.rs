// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues of devices, which pass from one element to another.

use crate::cx::Cx;
use crate::device_pool::DevicePool;
use crate::element::Element;

/// An element that has queues of devices, which a running router can take from it and give to another.
#[allow(unused_variables)]
pub trait DeviceQueues: Element {
    /// Gives the queues of its devices to the configuration that replaces this one.
    fn release(&mut self, cx: &mut Cx<'_>, pool: &mut DevicePool) {}

    /// Takes the device queues that [`InitCx::rx`](crate::InitCx::rx) and [`InitCx::tx`](crate::InitCx::tx) promised.
    fn acquire(&mut self, cx: &mut Cx<'_>, pool: &mut DevicePool) {}
}
