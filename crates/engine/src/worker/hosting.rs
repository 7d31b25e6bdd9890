// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker as elements see it: see [`Host`].

use std::os::fd::RawFd;
use std::sync::Arc;

use element::account::Deeds;
use element::clock::Nanos;
use element::host::Host;
use element::{Element, ElementId, HandlerError, HandlerRef, Layout, PortIndex, Provided, Reason, Remote};
use packet::port::{Device, Error, RxQueue, TxQueue};
use packet::{Batch, Packet};

use super::Worker;
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
        // Where one has just left by this output, it is connected.
        let Some(packet) = self.add_to_open(from, port, packet) else { return };
        if port < self.noutputs(from) {
            self.emit_one(from, port, packet);
        } else {
            self.drop_one(from, reason, packet);
        }
    }

    fn fetch(&mut self, to: ElementId, port: PortIndex, max: usize) -> Batch {
        Worker::fetch(self, to, port, max)
    }

    fn drop_one(&mut self, at: ElementId, reason: Reason, packet: Packet) {
        Worker::drop_one(self, at, reason, packet);
    }

    fn drop_batch(&mut self, at: ElementId, reason: Reason, batch: Batch) {
        Worker::count_drops(self, at, reason, batch.len() as u64);
        if self.is_witnessed() {
            self.show_drops(at, reason, &batch);
        }
        drop(batch);
    }

    fn count_drops(&mut self, at: ElementId, reason: Reason, n: u64) {
        Worker::count_drops(self, at, reason, n);
        if self.is_witnessed() {
            self.show_lost(at, reason, n);
        }
    }

    fn drops(&self, at: ElementId) -> u64 {
        Worker::drops(self, at).total()
    }

    fn deeds(&mut self, of: ElementId) -> &mut Deeds {
        &mut self.deeds[of]
    }

    fn show_absorbed(&mut self, at: ElementId, packet: &Packet) {
        if self.is_witnessed() {
            Worker::show_absorbed(self, at, packet);
        }
    }

    fn show_held(&mut self, packet: &Packet) {
        if self.is_witnessed() {
            Worker::show_held(self, packet);
        }
    }

    fn found_full(&mut self, at: ElementId, queue: ElementId) {
        self.tell_full(at, queue);
    }

    fn found_room(&mut self, queue: ElementId) {
        self.tell_room(queue);
    }

    fn noutputs(&self, of: ElementId) -> usize {
        Worker::noutputs(self, of)
    }

    fn ninputs(&self, of: ElementId) -> usize {
        Worker::ninputs(self, of)
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
        self.burst
    }

    fn fair_burst(&mut self, of: ElementId, most: usize) -> usize {
        self.fairness.burst(of, most)
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
        if self.shared.elements[of].timers.is_some() {
            return self.set_common_timer(of, timer, at);
        }
        match at {
            Some(at) => self.timers.set(of, timer, at),
            None => self.timers.clear(of, timer),
        }
    }

    fn timer(&self, of: ElementId, timer: u32) -> Option<Nanos> {
        match &self.shared.elements[of].timers {
            Some(common) => common.get(timer),
            None => self.timers.expiry(of, timer),
        }
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
        std::mem::replace(&mut self.slots[to], deputy)
    }

    fn answer(&mut self, at: ElementId, deputy: &mut dyn FnMut() -> Box<dyn Element>) {
        if !self.shared.mailboxes[self.index].has_mail() {
            return;
        }
        let here = self.pulse.spot();
        self.slots[at] = Some(deputy());
        self.serve();
        self.slots[at] = None;
        self.pulse.enter(here);
    }

    fn settle(&mut self) {
        Worker::settle(self);
    }

    fn provided(&self, of: ElementId) -> Option<Provided> {
        Worker::provided(self, of)
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
