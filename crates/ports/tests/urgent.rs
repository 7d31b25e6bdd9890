// SPDX-License-Identifier: MIT OR Apache-2.0
//! BFD is received first, whatever has come before it, and is not lost where other packets are.

mod common;

use common::{PATIENCE, on_rig, open, spec};
use junctor_ports::SystemProvider;
use lab::rig::{Cable, Rig, wait_for};
use packet::port::{RxQueue, Spec, TxQueue};
use packet::{Batch, Packet};

/// A frame of `len` bytes with a UDP datagram to this port.
fn frame(six: bool, port: u16, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xff; 6];
    bytes.extend([2, 0, 0, 0, 0, 1]);
    bytes.extend(if six { [0x86, 0xdd] } else { [8, 0] });
    bytes.resize(len, 0);
    let udp = if six {
        (bytes[14], bytes[20]) = (0x60, 17);
        54
    } else {
        (bytes[14], bytes[23]) = (0x45, 17);
        34
    };
    bytes[udp + 2..udp + 4].copy_from_slice(&port.to_be_bytes());
    bytes
}

fn send(tx: &mut dyn TxQueue, frame: &[u8], count: usize) {
    let mut batch: Batch = (0..count).map(|_| Packet::copy_of(frame).unwrap()).collect();
    wait_for("room", PATIENCE, || {
        tx.transmit(&mut batch);
        tx.flush();
        batch.is_empty()
    })
    .unwrap();
}

/// Fills the receive ring until data is lost, and then sends BFD.
fn check(method: &str) {
    let rig = Rig::new(Cable { untouched: true, ..Cable::default() }).unwrap();
    let provider = SystemProvider::new();
    let wanted = Spec { urgent: true, queues: Some(1), ..spec("d0", method) };
    let (device, mut rx) = rig
        .dut
        .enter(|| {
            let device = open(&provider, &wanted);
            let rx = device.rx(0).unwrap();
            (device, rx)
        })
        .unwrap();
    assert!(device.info().driver.contains("BFD by a"), "{}", device.info().driver);
    let mut tx =
        rig.a.enter(|| open(&SystemProvider::new(), &spec("a0", "AF_PACKET")).tx(0).unwrap()).unwrap();
    let data = frame(false, 9, 1400);
    wait_for("a full ring", PATIENCE, || {
        send(&mut *tx, &data, 1000);
        rx.stats().missed > 0
    })
    .unwrap();
    let urgent = [frame(false, 3784, 66), frame(false, 3785, 74), frame(true, 4784, 86)];
    urgent.iter().for_each(|frame| send(&mut *tx, frame, 1));
    let (mut came, mut others) = (Vec::new(), 0);
    let mut next = |rx: &mut dyn RxQueue| {
        let mut batch = Batch::new();
        rx.receive(&mut batch, 1);
        batch.iter().for_each(|packet| match urgent.iter().any(|frame| frame[..] == *packet.data()) {
            true => came.push(packet.data().to_vec()),
            false => others += 1,
        });
        came.len() == urgent.len()
    };
    wait_for("BFD", PATIENCE, || next(&mut *rx)).unwrap();
    assert_eq!(came, urgent);
    // The kernel hands over the ring for BFD a millisecond after its packets have come.
    assert!(others < 1000, "{others} frames came before");
    let mut rest = 0;
    wait_for("the rest", PATIENCE, || {
        let mut batch = Batch::new();
        let received = rx.receive(&mut batch, 256);
        rest += batch.iter().filter(|packet| packet.data()[..] == data[..]).count();
        received == 0
    })
    .unwrap();
    assert!(rest > 500, "{rest} frames were in the ring");
}

on_rig! {
    af_packet_delivers_bfd_first => check("AF_PACKET");
    af_xdp_delivers_bfd_first => check("AF_XDP");
    af_xdp_generic_delivers_bfd_first => check("AF_XDP_GENERIC");
}
