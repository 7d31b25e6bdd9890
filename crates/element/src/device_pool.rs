// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device queues on their way from one configuration to the next.

use std::sync::Arc;

use packet::port::{Device, Error, RxQueue, TxQueue};

/// Which way packets go through a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the wire.
    Receive,
    /// To the wire.
    Transmit,
}

/// One queue of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueKey {
    device: usize,
    direction: Direction,
    queue: usize,
}

impl QueueKey {
    /// Queue number `queue` of a device, which keeps its identity while it is open.
    pub fn new(device: &Arc<dyn Device>, direction: Direction, queue: usize) -> QueueKey {
        QueueKey { device: Arc::as_ptr(device).cast::<()>() as usize, direction, queue }
    }
}

/// Device queues between one configuration and the next.
#[derive(Default)]
pub struct DevicePool {
    rx: Vec<(QueueKey, Box<dyn RxQueue>)>,
    tx: Vec<(QueueKey, Box<dyn TxQueue>)>,
}

impl DevicePool {
    /// Leaves receive queue `queue` of a device.
    pub fn put_rx(&mut self, device: &Arc<dyn Device>, queue: usize, rx: Box<dyn RxQueue>) {
        self.rx.push((QueueKey::new(device, Direction::Receive, queue), rx));
    }

    /// Leaves transmit queue `queue` of a device.
    pub fn put_tx(&mut self, device: &Arc<dyn Device>, queue: usize, tx: Box<dyn TxQueue>) {
        self.tx.push((QueueKey::new(device, Direction::Transmit, queue), tx));
    }

    /// Takes receive queue `queue` of a device, from here or else from the device.
    ///
    /// # Errors
    /// As [`Device::rx`].
    pub fn take_rx(&mut self, device: &Arc<dyn Device>, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let key = QueueKey::new(device, Direction::Receive, queue);
        match self.rx.iter().position(|(k, _)| *k == key) {
            Some(at) => Ok(self.rx.swap_remove(at).1),
            None => device.rx(queue),
        }
    }

    /// Takes transmit queue `queue` of a device, from here or else from the device.
    ///
    /// # Errors
    /// As [`Device::tx`].
    pub fn take_tx(&mut self, device: &Arc<dyn Device>, queue: usize) -> Result<Box<dyn TxQueue>, Error> {
        let key = QueueKey::new(device, Direction::Transmit, queue);
        match self.tx.iter().position(|(k, _)| *k == key) {
            Some(at) => Ok(self.tx.swap_remove(at).1),
            None => device.tx(queue),
        }
    }

    /// Queues that lie here.
    pub fn queues(&self) -> usize {
        self.rx.len() + self.tx.len()
    }
}
