// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links that flap, devices that vanish and return, queues that others hold, permissions that are missing.

mod common;

use common::{PATIENCE, Path, on_rig, open, spec};
use junctor_ports::SystemProvider;
use packet::port::{Device, Link, Provider, Spec};
use packet::{Batch, Packet};
use testbed::rig::{Cable, Rig, wait_for};

/// A link that goes down and comes up, on the receiving and on the transmitting side.
fn check_flap(method: &str) {
    let rig = Rig::new(Cable::default()).unwrap();
    let provider = SystemProvider::new();
    let mut path = Path::open(&rig, &provider, method);
    let d1 = rig.dut.enter(|| open(&provider, &spec("d1", method))).unwrap();
    path.passes(&rig);
    for device in ["d0", "d1"] {
        for _ in 0..2 {
            rig.dut.ip(&format!("link set {device} down")).unwrap();
            if device == "d1" {
                assert_eq!(d1.link(), Link::Down);
                assert!(path.tx.fault().unwrap().to_string().contains("link is down"));
                let before = path.tx.stats().errors;
                let packet = || Packet::copy_of(&[0x5a; 60]).unwrap();
                wait_for("losses to be counted", PATIENCE, || {
                    path.tx.transmit(&mut Batch::of(packet()));
                    path.tx.flush();
                    path.tx.stats().errors > before
                })
                .unwrap();
            } else {
                assert!(path.rx.fault().unwrap().to_string().contains("d0: link is down"));
            }
            rig.dut.ip(&format!("link set {device} up")).unwrap();
            path.passes(&rig);
        }
    }
    assert_eq!((d1.link(), path.tx.fault()), (Link::Up, None));
}

/// A device that is deleted and made again under its name.
fn check_return(method: &str) {
    let rig = Rig::new(Cable::default()).unwrap();
    let provider = SystemProvider::new();
    let mut path = Path::open(&rig, &provider, method);
    let devices: Vec<_> =
        ["d0", "d1"].map(|name| rig.dut.enter(|| open(&provider, &spec(name, method))).unwrap()).into();
    path.passes(&rig);
    let fd = path.rx.fd().unwrap();
    for (i, (host, far, near)) in [(&rig.a, "a0", "d0"), (&rig.b, "b0", "d1")].into_iter().enumerate() {
        rig.dut.ip(&format!("link del {near}")).unwrap();
        assert_eq!(devices[i].link(), Link::Gone);
        rig.dut
            .enter(|| {
                let mut batch = Batch::new();
                for _ in 0..4096 {
                    path.rx.receive(&mut batch, 32);
                    path.tx.transmit(&mut Batch::of(Packet::copy_of(&[0x5a; 60]).unwrap()));
                    path.tx.flush();
                }
            })
            .unwrap();
        let fault = if i == 0 { path.rx.fault() } else { path.tx.fault() };
        assert!(fault.unwrap().to_string().contains("vanished"));
        Cable::default().lay(host, far, &rig.dut, near).unwrap();
        path.passes(&rig);
        assert_eq!(devices[i].link(), Link::Up);
    }
    // A thread that waits on the queue waits on the same descriptor as before, and is woken.
    assert_eq!(path.rx.fd(), Some(fd));
    let mut batch = Batch::new();
    wait_for("silence", PATIENCE, || path.rx.receive(&mut batch, 64) == 0 && !readable(fd)).unwrap();
    rig.a.enter(|| path.sender.transmit(&mut Batch::of(Packet::copy_of(&[0xff; 60]).unwrap()))).unwrap();
    wait_for("the descriptor to be readable", PATIENCE, || readable(fd)).unwrap();
}

fn readable(fd: i32) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 && poll.revents & libc::POLLIN != 0 }
}

/// Opens `d0` in the rig's device under test with some capabilities of the thread taken away.
fn open_without(rig: &Rig, capabilities: &[u32], spec: &Spec) -> String {
    rig.dut
        .enter(|| {
            drop_capabilities(capabilities);
            SystemProvider::new().open(spec).err().map(|e| e.to_string()).unwrap_or_default()
        })
        .unwrap()
}

const CAP_IPC_LOCK: u32 = 14;

/// Takes capabilities away from the calling thread; all of them, when the list is empty.
fn drop_capabilities(which: &[u32]) {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let mut header = Header { version: 0x2008_0522, pid: 0 };
    // Effective, permitted, inheritable, for capabilities 0 to 31 and 32 to 63.
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: the kernel reads the header and writes, then reads, the two sets that version 3 has.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()), 0);
        for (i, set) in sets.iter_mut().enumerate() {
            let mask = which.iter().filter(|c| **c as usize / 32 == i).map(|c| 1 << (c % 32)).sum::<u32>();
            set[0] &= if which.is_empty() { 0 } else { !mask };
        }
        assert_eq!(libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()), 0);
    }
}

fn check_permission() {
    let rig = Rig::new(Cable::default()).unwrap();
    for method in ["", "AF_PACKET", "AF_XDP"] {
        let error = open_without(&rig, &[], &spec("d0", method));
        assert!(error.contains("no permission"), "{error}");
        assert!(error.contains("sudo setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep /"), "{error}");
    }
    let error = open_without(&rig, &[], &spec("t0", "TAP"));
    assert!(error.contains("t0: cannot make a tap: ") && error.contains("setcap"), "{error}");
    let error = open_without(&rig, &[CAP_IPC_LOCK], &spec("d0", "AF_XDP"));
    assert!(error.contains("too little locked memory") && error.contains("ulimit -l"), "{error}");
    let error = open_without(&rig, &[CAP_IPC_LOCK], &spec("d3", ""));
    assert!(error.starts_with("d3: no such network interface; did you mean \"d"), "{error}");
}

fn check_busy() {
    let rig = Rig::new(Cable::default()).unwrap();
    rig.dut
        .enter(|| {
            let (first, second) = (SystemProvider::new(), SystemProvider::new());
            let device = open(&first, &spec("d0", "AF_XDP"));
            let error = second.open(&spec("d0", "AF_XDP")).err().unwrap().to_string();
            assert!(error.contains("d0: another XDP program is attached; end the program"), "{error}");
            let other = open(&second, &spec("d0", ""));
            assert!(other.info().driver.starts_with("AF_PACKET"), "{}", other.info().driver);
            assert!(
                other.info().driver.contains("no AF_XDP: another XDP program"),
                "{}",
                other.info().driver
            );
            let error = first.open(&spec("d0", "AF_PACKET")).err().unwrap().to_string();
            assert!(error.contains("already open by another driver (AF_XDP native copy"), "{error}");
            let (_rx, _tx) = (device.rx(0).unwrap(), device.tx(0).unwrap());
            let error = device.rx(0).err().unwrap().to_string();
            assert!(error.contains("queue 0 is taken by another element"), "{error}");
            let error = device.tx(1).err().unwrap().to_string();
            assert!(error.contains("there is no queue 1"), "{error}");
        })
        .unwrap();
}

/// Taken, dropped and taken again, a queue works as before; a device can be opened again at once.
fn check_reopen(method: &str) {
    let rig = Rig::new(Cable::default()).unwrap();
    for _ in 0..3 {
        let provider = SystemProvider::new();
        let device = rig.dut.enter(|| open(&provider, &spec("d0", method))).unwrap();
        drop(device);
        let mut path = Path::open(&rig, &provider, method);
        path.passes(&rig);
        let again: std::sync::Arc<dyn Device> =
            rig.dut.enter(|| open(&provider, &spec("d0", method))).unwrap();
        let spare = packet::port::Device::tx(&*again, 0).unwrap();
        path.rx = Box::new(Nothing);
        path.rx = rig.dut.enter(|| again.rx(0).unwrap()).unwrap();
        path.passes(&rig);
        drop(spare);
        path.passes(&rig);
    }
}

struct Nothing;

impl packet::port::RxQueue for Nothing {
    fn receive(&mut self, _: &mut Batch, _: usize) -> usize {
        0
    }
    fn stats(&self) -> packet::port::QueueStats {
        packet::port::QueueStats::default()
    }
}

on_rig! {
    af_packet_survives_a_flapping_link => check_flap("AF_PACKET");
    af_xdp_survives_a_flapping_link => check_flap("AF_XDP");
    af_packet_takes_a_returning_device => check_return("AF_PACKET");
    af_xdp_takes_a_returning_device => check_return("AF_XDP");
    missing_permission_is_named => check_permission();
    a_busy_device_is_named => check_busy();
    af_packet_reopens => check_reopen("AF_PACKET");
    af_xdp_reopens => check_reopen("AF_XDP");
}
