// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests on virtual cables share: frames to send, an independent sender, an independent observer.
#![allow(dead_code)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use junctor_ports::SystemProvider;
use junctor_ports::pcap::{self, Format};
use packet::Batch;
use packet::port::{Device, Provider, RxQueue, Spec, TxQueue};
use testbed::rig::{Namespace, Process, wait_for};

/// Longest wait for anything, on a machine that has much else to do.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Tests that count frames of the one memory take turns, each in a thread whose cache is gone before the next.
/// Every frame must be back when the test ends.
pub fn conserving(test: impl FnOnce() + Send) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    std::thread::scope(|s| {
        let before = packet::memory().usage().in_use();
        s.spawn(test).join().unwrap_or_else(|e| std::panic::resume_unwind(e));
        assert_eq!(packet::memory().usage().in_use(), before, "frames lost");
    });
}

/// Tests by name, each on a rig of its own and next to no other one here, or skipped where no rig is possible.
#[allow(unused_macros)]
macro_rules! on_rig {
    ($($name:ident => $body:expr;)*) => {$(
        #[test]
        fn $name() {
            if !testbed::rig::skip(stringify!($name)) {
                $crate::common::conserving(|| $body);
            }
        }
    )*};
}
#[allow(unused_imports)]
pub(crate) use on_rig;

/// A directory that goes with the test.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    pub fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// Frames of all lengths from `lens`, of several kinds: plain, tagged, doubly tagged, broadcast, to others.
pub fn frames(lens: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    let make = |(i, len): (usize, usize)| {
        let mut frame: Vec<u8> = match i % 3 {
            0 => vec![0xff; 6],
            1 => vec![2, 0, 0, 0, 0, 9],
            _ => vec![1, 0, 0x5e, 0, 0, i as u8],
        };
        frame.extend([2, 0, 0, 0, 0, 1]);
        frame.extend(match i % 4 {
            0 => &[0x88, 0xb5][..],
            1 => &[0x81, 0x00, 0x20, 0x64, 0x88, 0xb5],
            2 => &[0x88, 0xa8, 0x00, 0x0a, 0x81, 0x00, 0x00, 0x0b, 0x88, 0xb6],
            _ => &[0x90, 0x00],
        });
        let filler = (0..).map(|j: usize| (i * 31 + j * 7) as u8);
        frame.extend(filler.take(len.saturating_sub(frame.len())));
        frame.truncate(len);
        frame
    };
    lens.into_iter().enumerate().map(make).collect()
}

/// Writes frames to a capture file with our writer.
pub fn save(path: &str, frames: &[Vec<u8>]) {
    let mut writer = pcap::create(path, Format::Pcap, 1, 0).unwrap();
    for (i, frame) in frames.iter().enumerate() {
        writer.write(1_700_000_000_000_000_000 + i as u64 * 1000, frame.len(), frame).unwrap();
    }
    writer.flush().unwrap();
}

/// Reads a capture file as far as it is whole.
pub fn load(path: &str) -> Vec<Vec<u8>> {
    let (mut frames, mut bytes) = (Vec::new(), Vec::new());
    let Ok(mut reader) = pcap::open(path) else { return frames };
    while let Ok(Some(_)) = reader.next(&mut bytes) {
        frames.push(bytes.clone());
    }
    frames
}

/// Sends the frames of a capture file from an interface, by scapy.
pub fn scapy_send(namespace: &Namespace, interface: &str, file: &str) -> Process {
    let program = format!(
        "from scapy.all import conf, Raw, RawPcapReader\n\
         s = conf.L2socket(iface={interface:?})\n\
         n = 0\n\
         for data, _ in RawPcapReader({file:?}):\n    s.send(Raw(data)); n += 1\n\
         print('sent', n)\n"
    );
    namespace.spawn(&["/usr/bin/python3", "-c", &program]).unwrap()
}

/// Captures what an interface receives, by tcpdump; returns when it listens. A snap length as small as the test
/// allows leaves tcpdump a ring of many slots; with its default it has eight, and loses what comes in bursts.
pub fn observer(namespace: &Namespace, interface: &str, file: &str) -> Process {
    let command = [
        "tcpdump",
        "-Z",
        "root",
        "-i",
        interface,
        "-Q",
        "in",
        "-s",
        "16384",
        "-B",
        "32768",
        "-U",
        "--immediate-mode",
        "-w",
        file,
    ];
    let mut process = namespace.spawn(&command).unwrap();
    process.wait_for_text("listening on", PATIENCE).unwrap();
    process
}

pub fn spec(device: &str, method: &str) -> Spec {
    let method = Some(method.to_owned()).filter(|m| !m.is_empty());
    Spec { device: device.to_owned(), method, promiscuous: true, ..Spec::default() }
}

pub fn open(provider: &SystemProvider, spec: &Spec) -> Arc<dyn Device> {
    provider.open(spec).unwrap_or_else(|e| panic!("{e}"))
}

/// Moves packets from a receive to a transmit queue until `done`.
pub fn forward_until(rx: &mut dyn RxQueue, tx: &mut dyn TxQueue, what: &str, mut done: impl FnMut() -> bool) {
    let mut batch = Batch::new();
    let mut look = 0u32;
    wait_for(what, PATIENCE, || {
        // The condition may be costly, the queues are not.
        for _ in 0..256 {
            rx.receive(&mut batch, 64);
            tx.transmit(&mut batch);
            tx.flush();
        }
        look += 1;
        look.is_multiple_of(8) && done()
    })
    .unwrap_or_else(|e| panic!("{e}; rx {:?}, tx {:?}", rx.stats(), tx.stats()));
}

/// Says how two lists of frames differ.
pub fn compare(got: &[Vec<u8>], expected: &[Vec<u8>]) {
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            g == e,
            "frame {i} differs:\n got {:02x?}\nsent {:02x?}",
            &g[..g.len().min(80)],
            &e[..e.len().min(80)]
        );
    }
    assert_eq!(got.len(), expected.len(), "number of frames");
}

/// The receive side of one cable and the transmit side of another, with a sender and a observer at their far ends.
pub struct Path {
    pub sender: Box<dyn TxQueue>,
    pub rx: Box<dyn RxQueue>,
    pub tx: Box<dyn TxQueue>,
    pub observer: Box<dyn RxQueue>,
    next: u32,
}

impl Path {
    /// Opens `d0` and `d1` by `method`; the far ends are packet sockets.
    pub fn open(rig: &testbed::rig::Rig, provider: &SystemProvider, method: &str) -> Path {
        let far = |namespace: &Namespace, name: &str| {
            let name = name.to_owned();
            namespace
                .enter(move || {
                    let device = open(&SystemProvider::new(), &spec(&name, "AF_PACKET"));
                    (device.rx(0).unwrap(), device.tx(0).unwrap())
                })
                .unwrap()
        };
        let (sender, observer) = (far(&rig.a, "a0").1, far(&rig.b, "b0").0);
        let (rx, tx) = rig
            .dut
            .enter(|| {
                let (d0, d1) = (open(provider, &spec("d0", method)), open(provider, &spec("d1", method)));
                (d0.rx(0).unwrap(), d1.tx(0).unwrap())
            })
            .unwrap();
        Path { sender, rx, tx, observer, next: 0 }
    }

    /// One step of everybody, in the namespace of the device under test (where a queue may have to open anew).
    fn step(&mut self) {
        let mut batch = Batch::new();
        self.rx.receive(&mut batch, 64);
        self.tx.transmit(&mut batch);
        self.tx.flush();
    }

    /// Sends marked frames until one arrives at the far end.
    pub fn passes(&mut self, rig: &testbed::rig::Rig) {
        self.next += 1;
        let marker = self.next;
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        frame.extend(marker.to_be_bytes());
        frame.resize(200, 0x5a);
        wait_for("a frame to pass", PATIENCE, || {
            // Each in its own namespace, where its queue may have to open anew.
            let send = || {
                self.sender.transmit(&mut Batch::of(packet::Packet::copy_of(&frame).unwrap()));
                self.sender.flush();
            };
            rig.a.enter(send).unwrap();
            rig.dut.enter(|| (0..512).for_each(|_| self.step())).unwrap();
            let seen = || {
                let mut batch = Batch::new();
                for _ in 0..64 {
                    self.observer.receive(&mut batch, 64);
                }
                batch.iter().any(|p| p.data().get(14..18) == Some(&marker.to_be_bytes()))
            };
            rig.b.enter(seen).unwrap()
        })
        .unwrap_or_else(|e| panic!("{e}; rx {:?}, tx {:?}", self.rx.stats(), self.tx.stats()));
    }
}
