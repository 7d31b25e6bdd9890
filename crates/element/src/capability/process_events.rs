// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the process: descriptors, signals, the stop of the driver.

use std::os::fd::RawFd;

use crate::cx::Cx;
use crate::element::Element;

/// An element that asks to be called when something happens to the process: a descriptor is ready, a signal comes, the driver is to stop.
#[allow(unused_variables)]
pub trait ProcessEvents: Element {
    /// A descriptor given to [`Cx::watch`] is ready.
    fn run_fd(&mut self, cx: &mut Cx<'_>, fd: RawFd) {}

    /// A signal that this element asked for ([`Cx::on_signal`]) reached the process.
    fn signal(&mut self, cx: &mut Cx<'_>, signal: i32) {}

    /// Somebody asked the driver to stop, and this element manages it
    /// ([`InitCx::manage_driver`](crate::InitCx::manage_driver)).
    fn driver_stopped(&mut self, cx: &mut Cx<'_>) {
        cx.stop();
    }
}
