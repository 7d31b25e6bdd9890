// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a worker does for the element that runs on it.
//!
//! [`Cx`](crate::Cx) is how elements call it. They compile against this trait, never against the worker behind it.

use std::os::fd::RawFd;
use std::sync::Arc;

use packet::filter::Filter;
use packet::port::{Device, Error, RxQueue, Spec, TxQueue};
use packet::{Batch, Packet};

use crate::account::PacketAccount;
use crate::clock::Nanos;
use crate::drops::Reason;
use crate::element::{Class, Element, Provided};
use crate::error::HandlerError;
use crate::ids::{ElementId, PortIndex};
use crate::layout::{HandlerRef, Layout};
use crate::remote::Remote;

/// See the module. Each method's element is the one that calls.
pub trait Host {
    /// Sends a batch out of a push output.
    fn send(&mut self, from: ElementId, port: PortIndex, batch: Batch);

    /// Sends a batch, joined to what the running element has sent there before.
    fn send_joined(&mut self, from: ElementId, port: PortIndex, batch: Batch);

    /// Sends one packet, joined to what the running element has sent there before.
    fn send_one(&mut self, from: ElementId, port: usize, packet: Packet);

    /// The same if the output is connected, and otherwise drops the packet.
    fn send_one_or_drop(&mut self, from: ElementId, port: usize, packet: Packet, reason: Reason);

    /// Asks the element that feeds a pull input for packets.
    fn fetch(&mut self, to: ElementId, port: PortIndex, max: usize) -> Batch;

    /// Drops a packet.
    fn drop_one(&mut self, at: ElementId, reason: Reason, packet: Packet);

    /// Drops a batch.
    fn drop_batch(&mut self, at: ElementId, reason: Reason, batch: Batch);

    /// Counts drops whose packets the element frees.
    fn count_drops(&mut self, at: ElementId, reason: Reason, n: u64);

    /// Drops counted on this worker.
    fn drops(&self, at: ElementId) -> u64;

    /// What the element has made and taken.
    fn account(&mut self, of: ElementId) -> &mut PacketAccount;

    /// Shows observers a packet that is joined to another.
    fn show_absorbed(&mut self, at: ElementId, packet: &Packet);

    /// Shows observers a packet that stays in an element.
    fn show_held(&mut self, packet: &Packet);

    /// Records that a queue had no room.
    fn found_full(&mut self, at: ElementId, queue: ElementId);

    /// Records that a queue has room again.
    fn found_room(&mut self, queue: ElementId);

    /// Connected outputs.
    fn noutputs(&self, of: ElementId) -> usize;

    /// Connected inputs.
    fn ninputs(&self, of: ElementId) -> usize;

    /// Nanoseconds since the router started.
    fn now(&mut self) -> Nanos;

    /// Nanoseconds since the epoch.
    fn wall(&mut self) -> Nanos;

    /// Reads the clock anew.
    fn expire_clock(&mut self);

    /// Whether time is simulated.
    fn is_simulated(&self) -> bool;

    /// Packets to be handled at a time.
    fn burst(&self) -> usize;

    /// How many packets of `most` a source should take now.
    fn fair_burst(&mut self, of: ElementId, most: usize) -> usize;

    /// The worker's random numbers.
    fn random(&mut self) -> &mut fastrand::Rng;

    /// The worker's licence to read tables.
    fn rcu(&self) -> &sync::rcu::Reader;

    /// The worker's number.
    fn index(&self) -> usize;

    /// Whether what elements do at the moment must have no effect.
    fn only_tries(&self) -> bool;

    /// Sets a timer, or stops it.
    fn set_timer(&mut self, of: ElementId, timer: u32, at: Option<Nanos>);

    /// When a timer expires.
    fn timer(&self, of: ElementId, timer: u32) -> Option<Nanos>;

    /// Schedules the element's task, or takes it out. Returns whether it has one.
    fn set_scheduled(&mut self, of: ElementId, on: bool) -> bool;

    /// Whether the element's task is scheduled here.
    fn is_scheduled(&mut self, of: ElementId) -> bool;

    /// Watches a descriptor, for reading and for writing. If it `calls`, the element is run when the descriptor is ready.
    fn watch(&mut self, of: ElementId, fd: RawFd, read_and_write: (bool, bool), calls: bool);

    /// Forgets a descriptor.
    fn unwatch(&mut self, fd: RawFd);

    /// The elements of the router.
    fn layout(&self) -> &Arc<Layout>;

    /// The handle for other threads, if the router is one that may run.
    fn control(&self) -> Option<Arc<dyn Remote>>;

    /// Ends the router.
    fn stop(&self);

    /// Whether it has ended.
    fn is_stopped(&self) -> bool;

    /// Writes a line where the user sees it.
    fn print(&self, text: &str);

    /// Asks for a signal of the process, or leaves it to others.
    fn set_signal(&mut self, of: ElementId, signal: i32, on: bool);

    /// Asks the driver to stop.
    fn please_stop(&mut self);

    /// Calls a read handler.
    fn read(&mut self, target: &HandlerRef, param: &str) -> Result<String, HandlerError>;

    /// Calls a write handler.
    fn write(&mut self, target: &HandlerRef, value: &str) -> Result<(), HandlerError>;

    /// Puts an instance in the place of the one that runs, or takes it out again.
    fn lend(&mut self, to: ElementId, deputy: Option<Box<dyn Element>>) -> Option<Box<dyn Element>>;

    /// Answers what other threads ask of this worker. `deputy` makes an instance for the place of the one that waits.
    fn answer(&mut self, at: ElementId, deputy: &mut dyn FnMut() -> Box<dyn Element>);

    /// Carries on with what was sent so far.
    fn settle(&mut self);

    /// State that an element provides.
    fn provided(&self, of: ElementId) -> Option<Provided>;

    /// Makes an element the manager of the driver.
    fn manage_driver(&mut self, of: ElementId);

    /// The element that manages the driver.
    fn driver_manager(&self) -> Option<ElementId>;

    /// Takes a receive queue, unless the configuration before uses it.
    ///
    /// # Errors
    /// What the device says.
    fn rx(&self, device: &Arc<dyn Device>, queue: usize) -> Result<Option<Box<dyn RxQueue>>, Error>;

    /// Takes a transmit queue, unless the configuration before uses it.
    ///
    /// # Errors
    /// What the device says.
    fn tx(&self, device: &Arc<dyn Device>, queue: usize) -> Result<Option<Box<dyn TxQueue>>, Error>;

    /// Whether the configuration before has this very element.
    fn inherits(&self, of: ElementId) -> bool;

    /// Writes a handler when all elements are initialised.
    fn write_when_ready(&mut self, of: ElementId, handler: String, value: String);
}

/// What opens devices for elements, and knows the configuration that runs until theirs takes its place.
pub trait Opener {
    /// Opens a device, or finds it open.
    ///
    /// # Errors
    /// What the device's driver says.
    fn open(&self, element: &str, spec: &Spec) -> Result<Arc<dyn Device>, Error>;

    /// Compiles a filter expression for devices of a link type.
    ///
    /// # Errors
    /// What is wrong with it.
    fn filter(&self, expression: &str, link: u32) -> Result<Filter, Error>;

    /// Whether another configuration runs.
    fn is_swap(&self) -> bool;

    /// What its element of this name and class provides.
    fn predecessor(&self, name: &str, class: &Class) -> Option<Provided>;

    /// What all its elements provide.
    fn predecessors(&self) -> Vec<Provided>;

    /// Whether it has an element of this name, class and configuration.
    fn inherits(&self, name: &str, class: &Class, config: &str) -> bool;
}
