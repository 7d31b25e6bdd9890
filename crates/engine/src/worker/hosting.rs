// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker as elements see it: see [`Host`].

use std::os::fd::RawFd;
use std::sync::Arc;

use element::account::PacketAccount;
use element::clock::Nanos;
use element::host::Host;
use element::{
    Element, ElementId, HandlerError, HandlerRef, Layout, PortIndex, Provide, Provided, Reason, Remote,
};
use packet::port::{Device, Error, RxQueue, TxQueue};
use packet::{Batch, Packet};

use super::Worker;
use crate::capability;
use crate::remote::Control;
use crate::shared::Wish;
use crate::watch::Watch;

impl Host for Worker {
    fn send(&mut self, from: ElementId, port: PortIndex, batch: Batch) {
        self.emit(from, port, batch);
    }

    fn send_joined(&mut self, from: ElementId, port: PortIndex, batch: Batch) {
        self.emit_joined(from, port, batch);
    }

    fn send_one(&mut self, from: ElementId, port: usize, packet: Packet) {
        self.emit_one(from, port, packet);
    }

    fn send_one_or_drop(&mut self, from: ElementId, port: usize, packet: Packet, reason: Reason) {
        self.emit_one_or_drop(from, port, packet, reason);
    }

    fn fetch(&mut self, to: ElementId, port: PortIndex, max: usize) -> Batch {
        Worker::fetch(self, to, port, max)
    }

    fn drop_one(&mut self, at: ElementId, reason: Reason, packet: Packet) {
        Worker::drop_one(self, at, reason, packet);
    }

    fn drop_batch(&mut self, at: ElementId, reason: Reason, batch: Batch) {
        Worker::drop_batch(self, at, reason, batch);
    }

    fn count_drops(&mut self, at: ElementId, reason: Reason, n: u64) {
        self.count_lost(at, reason, n);
    }

    fn drops(&self, at: ElementId) -> u64 {
        Worker::drops(self, at).total()
    }

    fn account(&mut self, of: ElementId) -> &mut PacketAccount {
        self.accounts.account_mut(of)
    }

    fn show_absorbed(&mut self, at: ElementId, packet: &Packet) {
        if self.has_observers() {
            Worker::show_absorbed(self, at, packet);
        }
    }

    fn show_held(&mut self, packet: &Packet) {
        if self.has_observers() {
            Worker::show_held(self, packet);
        }
    }

    fn found_full(&mut self, at: ElementId, queue: ElementId) {
        self.record_full(at, queue);
    }

    fn found_room(&mut self, queue: ElementId) {
        self.record_room(queue);
    }

    fn noutputs(&self, of: ElementId) -> usize {
        self.connections.outputs().count(of)
    }

    fn ninputs(&self, of: ElementId) -> usize {
        self.connections.inputs().count(of)
    }

    fn now(&mut self) -> Nanos {
        self.clock.now()
    }

    fn wall(&mut self) -> Nanos {
        self.clock.wall()
    }

    fn expire_clock(&mut self) {
        self.clock.expire();
    }

    fn is_simulated(&self) -> bool {
        self.clock.is_simulated()
    }

    fn burst(&self) -> usize {
        self.carrier.burst()
    }

    fn fair_burst(&mut self, of: ElementId, most: usize) -> usize {
        self.costs.fair_burst(of, most)
    }

    fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    fn rcu(&self) -> &sync::rcu::Reader {
        &self.rcu
    }

    fn index(&self) -> usize {
        self.index
    }

    fn only_tries(&self) -> bool {
        self.only_tries
    }

    fn set_timer(&mut self, of: ElementId, timer: u32, at: Option<Nanos>) {
        Worker::set_timer(self, of, timer, at);
    }

    fn timer(&self, of: ElementId, timer: u32) -> Option<Nanos> {
        Worker::timer(self, of, timer)
    }

    fn set_scheduled(&mut self, of: ElementId, on: bool) -> bool {
        Worker::set_scheduled(self, of, on)
    }

    fn is_scheduled(&mut self, of: ElementId) -> bool {
        self.tasks.find(of).is_some_and(|t| t.scheduled)
    }

    fn watch(&mut self, of: ElementId, fd: RawFd, read_and_write: (bool, bool), calls: bool) {
        Worker::watch(self, Watch { fd, interest: read_and_write, element: of, calls });
    }

    fn unwatch(&mut self, fd: RawFd) {
        Worker::unwatch(self, fd);
    }

    fn layout(&self) -> &Arc<Layout> {
        &self.shared.layout
    }

    fn control(&self) -> Option<Arc<dyn Remote>> {
        Some(Arc::new(Control::new(self.shared.runtime.upgrade()?)))
    }

    fn stop(&self) {
        self.shared.stop();
    }

    fn is_stopped(&self) -> bool {
        self.shared.is_stopped()
    }

    fn print(&self, text: &str) {
        self.shared.print(text);
    }

    fn set_signal(&mut self, of: ElementId, signal: i32, on: bool) {
        self.shared.signals.set(signal, of, self.index, on);
    }

    fn please_stop(&mut self) {
        Worker::please_stop(self);
    }

    fn read(&mut self, target: &HandlerRef, param: &str) -> Result<String, HandlerError> {
        Worker::read(self, target, param)
    }

    fn write(&mut self, target: &HandlerRef, value: &str) -> Result<(), HandlerError> {
        Worker::write(self, target, value)
    }

    fn lend(&mut self, to: ElementId, deputy: Option<Box<dyn Element>>) -> Option<Box<dyn Element>> {
        self.instances.replace(to, deputy)
    }

    fn answer(&mut self, at: ElementId, deputy: &mut dyn FnMut() -> Box<dyn Element>) {
        if self.mailbox().has_mail() {
            self.answer_as(at, deputy());
        }
    }

    fn settle(&mut self) {
        Worker::settle(self);
    }

    fn provided(&self, of: ElementId) -> Option<Provided> {
        match self.instances.get(of) {
            Some(instance) => {
                capability::of::<dyn Provide>(self.shared.elements[of].class, instance)?.provide()
            }
            None => self.shared.provided(of),
        }
    }

    fn manage_driver(&mut self, of: ElementId) {
        self.shared.set_driver(of, self.index);
    }

    fn driver_manager(&self) -> Option<ElementId> {
        self.shared.driver().map(|(element, _)| element)
    }

    fn rx(&self, device: &Arc<dyn Device>, queue: usize) -> Result<Option<Box<dyn RxQueue>>, Error> {
        self.shared.holdings.rx(device, queue)
    }

    fn tx(&self, device: &Arc<dyn Device>, queue: usize) -> Result<Option<Box<dyn TxQueue>>, Error> {
        self.shared.holdings.tx(device, queue)
    }

    fn inherits(&self, of: ElementId) -> bool {
        let info = &self.shared.elements[of];
        self.shared.holdings.inherits(&info.name, info.class, &info.config)
    }

    fn write_when_ready(&mut self, of: ElementId, handler: String, value: String) {
        let wish = Wish { from: of, handler, value };
        self.shared.when_ready.lock().unwrap_or_else(|e| e.into_inner()).push(wish);
    }
}
