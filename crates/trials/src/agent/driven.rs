// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agent's side of a test: the interfaces that a controller has it drive.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use packet::port::Device;
use tester::station::{Member as _, Plan, Port, Post, Station};
use tester::trial::Invalid;
use wire::MacAddr;

use super::words::{Opened, PortWord, Question, Reach};
use crate::Error;
use crate::device::{self, Driver, Traffic, ports};

/// How long a controller that is about to go may take until its place is free.
const FAREWELL: Duration = Duration::from_secs(3);

/// Which controller has the agent's interfaces: one at a time.
#[derive(Debug, Default)]
pub(super) struct Wheel {
    holder: Mutex<Option<SocketAddr>>,
    free: Condvar,
}

impl Wheel {
    fn lock(&self) -> MutexGuard<'_, Option<SocketAddr>> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place for a controller.
    fn take(&self, who: SocketAddr) -> Result<(), Error> {
        let wait = self.free.wait_timeout_while(self.lock(), FAREWELL, |holder| holder.is_some());
        let (mut holder, _) = wait.unwrap_or_else(PoisonError::into_inner);
        match *holder {
            Some(other) => Err(Error::unfit(format!(
                "another controller drives this agent, at {other}; wait until it is done"
            ))),
            None => {
                *holder = Some(who);
                Ok(())
            }
        }
    }
}

/// What a controller has taken.
pub(super) struct Driven<'a> {
    wheel: &'a Wheel,
    driver: Driver,
    ports: Vec<PortWord>,
    opened: Vec<Opened>,
    devices: Vec<Option<Arc<dyn Device>>>,
    /// Once it is known what is sent.
    pub(super) post: Option<Post>,
}

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        // Sending ends, and the interfaces are free, before somebody else may have them.
        self.post = None;
        self.devices.clear();
        *self.wheel.lock() = None;
        self.wheel.free.notify_one();
    }
}

impl<'a> Driven<'a> {
    /// Opens the interfaces among these ports that are here. Returns what is known of each.
    pub(super) fn open(
        wheel: &'a Wheel,
        who: SocketAddr,
        ports: Vec<PortWord>,
        driver: Driver,
    ) -> Result<Driven<'a>, Error> {
        wheel.take(who)?;
        let (opened, devices) = (Vec::new(), Vec::new());
        let mut driven = Driven { wheel, driver, ports, opened, devices, post: None };
        for port in &driven.ports {
            let Some(interface) = &port.interface else {
                driven.devices.push(None);
                continue;
            };
            let device = ports::open_one(interface, driver)?;
            let info = device.info();
            driven.opened.push(Opened {
                driver: match driver {
                    Driver::Bpf => format!("{}; where it sends, BPF_PROG_RUN", info.driver),
                    _ => info.driver,
                },
                mtu: info.mtu,
                link_bits: ports::speed(interface),
                note: ports::noise(&port.name, device.as_ref())?,
            });
            driven.devices.push(Some(device));
        }
        Ok(driven)
    }

    pub(super) fn opened(&self) -> Vec<Opened> {
        self.opened.clone()
    }

    /// What this machine reaches on a virtual cable, driven as the interfaces are.
    pub(super) fn calibrate(&self, size: usize) -> Result<Reach, Error> {
        let by_xdp = self.opened.iter().all(|opened| opened.driver.starts_with("AF_XDP"));
        let driver = match self.driver {
            Driver::Auto if by_xdp => Driver::AfXdp,
            Driver::Auto => Driver::AfPacket,
            driver => driver,
        };
        let traffic =
            Traffic { size, longest: size, one_way: false, stragglers: device::CALIBRATED, seed: 1 };
        // In a thread of its own, which takes a core.
        std::thread::scope(|scope| {
            let work = scope.spawn(|| device::reach(&mut device::virtual_cable(driver, &traffic)?));
            work.join().unwrap_or(Err(Error::Panicked("the calibration")))
        })
    }

    /// Asks for an Ethernet address.
    pub(super) fn resolve(&self, question: &Question) -> Result<[u8; 6], Error> {
        let Question { port, host_mac, host, via } = *question;
        let device = self.devices.get(port).and_then(Option::as_ref);
        let device = device.ok_or_else(|| Error::unfit("this port is elsewhere"))?;
        let MacAddr(mac) = ports::resolve(&self.ports[port].name, device.as_ref(), (host_mac, host), via)?;
        Ok(mac)
    }

    /// Learns what is sent.
    pub(super) fn plan(&mut self, plan: &Plan) -> Result<(), Invalid> {
        if let Some(post) = &mut self.post {
            return post.plan(plan);
        }
        let failed = |why: packet::port::Error| Invalid::new(why, "");
        let mut ports = Vec::new();
        let mut sources = Vec::new();
        for (number, (port, device)) in self.ports.iter().zip(&self.devices).enumerate() {
            let sends = plan.streams.get(number).is_some_and(|stream| !stream.flows.is_empty());
            let generates = self.driver == Driver::Bpf && sends && device.is_some();
            sources.push(port.interface.clone().filter(|_| generates));
            ports.push(match device {
                Some(device) => Port::new(&port.name, device.clone()).map_err(failed)?,
                // The machine that has the port checks the lengths of frames.
                None => Port::elsewhere(&port.name, "", usize::from(u16::MAX)),
            });
        }
        let (ports, cores) = device::generated(ports, &sources).map_err(failed)?;
        let mut station = Station::new(ports, plan, 0)?;
        if cores.as_ref().is_some_and(|cores| cores.is_shared()) {
            station.share_core()?;
        }
        self.post = Some(Post::new(station, move || cores.iter().for_each(|cores| cores.take()))?);
        Ok(())
    }

    /// The station that is led.
    pub(super) fn post(&mut self) -> Result<&mut Post, Invalid> {
        self.post.as_mut().ok_or_else(|| Invalid::new("what is to be sent was not said", ""))
    }
}
