// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plain forwarder in user space: what arrives at one interface leaves by the other, frame by frame, with one system call to
//! receive and one to send. It is what a program does that knows only sockets, and the lower bar for those that know more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use core_affinity::CoreId;
use ports::plain::PlainSocket;

use super::rig::{PORTS, Rig};
use super::{Plugged, Setup, Traffic, flows};
use crate::Error;

/// Room for the longest frame.
const BUFFER: usize = 1 << 16;
/// How long a thread waits for frames before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Threads that forward, until this is dropped.
struct Forwarder {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    _rig: Rig,
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panics has said why.
            let _ = thread.join();
        }
    }
}

/// Starts the forwarder and plugs the tester in.
pub(super) fn plug(setup: &Setup, traffic: &Traffic) -> Result<Plugged, Error> {
    let rig = Rig::new(setup, PORTS, PORTS, traffic)?;
    let tester = rig.tester_ends();
    let known = |ipv6| flows::bridged(tester, ipv6);
    let flows = flows::of_ports(&known(setup.ipv6), &setup.flows)?;
    let opened = rig.open()?;
    let mut plugged = rig.station(opened, &flows, traffic)?.with_other(setup, traffic, known)?;
    rig.place_wire(true)?;
    let [first, second] = [rig.device_ends()[0], rig.device_ends()[1]];
    let open = || [first, second].map(|name| PlainSocket::open(name).map_err(Error::system(name)));
    let [a, b] = rig.device().enter(open)?;
    let (a, b) = (Arc::new(a?), Arc::new(b?));
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for (index, (from, to)) in [(a.clone(), b.clone()), (b, a)].into_iter().enumerate() {
        let core = rig.cores.device.get(index % rig.cores.device.len().max(1)).copied();
        let stop = stop.clone();
        let run = move || {
            if let Some(id) = core {
                core_affinity::set_for_current(CoreId { id });
            }
            forward(&from, &to, &stop);
        };
        let thread = std::thread::Builder::new().name("passthrough".into()).spawn(run);
        threads.push(thread.map_err(Error::Thread)?);
    }
    rig.settle(&mut plugged);
    plugged.configuration = Some(format!(
        "what arrives at {first} leaves by {second}, and the other way round; nothing else is done to it\n"
    ));
    plugged.beside = Some(Box::new(Forwarder { stop, threads, _rig: rig }));
    Ok(plugged)
}

fn forward(from: &PlainSocket, to: &PlainSocket, stop: &AtomicBool) {
    let mut buffer = vec![0; BUFFER];
    while !stop.load(Ordering::Relaxed) {
        // What cannot be received or sent is lost, as by any such program; the tester counts it.
        if let Ok(Some(len)) = from.receive(&mut buffer, LOOK) {
            let _ = to.send(&buffer[..len]);
        }
    }
}
