// SPDX-License-Identifier: MIT OR Apache-2.0
//! A station's ports: those that it has itself, and those of which it only knows.

use std::sync::Arc;

use packet::Batch;
use packet::port::{Device, Error, Info, QueueStats, RxQueue, TxQueue};
use ports::live::stream::Stream;

use super::source::Source;

/// A port of the device, as the tester has it: its other end.
pub struct Port {
    pub(super) name: String,
    pub(super) is_here: bool,
    pub(super) device: Arc<dyn Device>,
    pub(super) tx: Box<dyn TxQueue>,
    pub(super) rx: Box<dyn RxQueue>,
    pub(super) source: Option<Source>,
}

impl Port {
    /// Takes the first queue pair of a device.
    ///
    /// # Errors
    /// They are taken already, or cannot be opened.
    pub fn new(name: &str, device: Arc<dyn Device>) -> Result<Port, Error> {
        let (tx, rx) = (device.tx(0)?, device.rx(0)?);
        Ok(Port { name: name.to_owned(), is_here: true, tx, rx, device, source: None })
    }

    /// The same port, with frames that the kernel generates at its interface.
    #[must_use]
    pub fn generated(self, stream: Stream) -> Port {
        Port { source: Some(Source::new(stream)), ..self }
    }

    /// A port that another station has, driven like this. Frames are expected there, and sent there, by others.
    pub fn elsewhere(name: &str, driver: &str, mtu: usize) -> Port {
        let info = Info {
            name: name.to_owned(),
            driver: driver.to_owned(),
            mac: None,
            mtu,
            rx_queues: 1,
            tx_queues: 1,
        };
        Port {
            name: name.to_owned(),
            is_here: false,
            device: Arc::new(Elsewhere(info)),
            tx: Box::new(Nothing),
            rx: Box::new(Nothing),
            source: None,
        }
    }
}

/// What is known of another station's device.
struct Elsewhere(Info);

impl Device for Elsewhere {
    fn info(&self) -> Info {
        self.0.clone()
    }

    fn rx(&self, _: usize) -> Result<Box<dyn RxQueue>, Error> {
        Ok(Box::new(Nothing))
    }

    fn tx(&self, _: usize) -> Result<Box<dyn TxQueue>, Error> {
        Ok(Box::new(Nothing))
    }
}

/// A queue of another station's.
struct Nothing;

impl RxQueue for Nothing {
    fn receive(&mut self, _: &mut Batch, _: usize) -> usize {
        0
    }

    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }
}

impl TxQueue for Nothing {
    fn transmit(&mut self, _: &mut Batch) -> usize {
        0
    }

    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }
}
