// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drivers on virtual cables: what scapy sends on one side is what tcpdump sees on the other, byte by byte.

mod common;

use common::{
    PATIENCE, Scratch, compare, conserving, forward_until, frames, load, open, save, scapy_send, spec,
    witness,
};
use junctor_ports::SystemProvider;
use lab::rig::{Cable, Rig, skip};

/// Sends `sent` from A through the device under test, whose two devices are opened by `method`, and compares what
/// arrives at B.
fn check_forwarding(method: &str, cable: Cable, sent: &[Vec<u8>]) {
    let scratch = Scratch::new();
    let rig = Rig::new(cable).unwrap();
    let (input, output) = (scratch.file("in.pcap"), scratch.file("out.pcap"));
    save(&input, sent);
    let witness = witness(&rig.b, "b0", &output);
    let forward = || {
        let provider = SystemProvider::new();
        let (d0, d1) = (open(&provider, &spec("d0", method)), open(&provider, &spec("d1", method)));
        eprintln!("{}", d0.info().driver);
        assert_eq!(d0.info().mtu, cable.mtu);
        assert_eq!(d0.info().mac, Some(rig.dut.mac("d0").unwrap()));
        let (mut rx, mut tx) = (d0.rx(0).unwrap(), d1.tx(0).unwrap());
        let sender = scapy_send(&rig.a, "a0", &input);
        forward_until(&mut *rx, &mut *tx, "all frames to arrive", || load(&output).len() >= sent.len());
        assert!(sender.finish(PATIENCE).unwrap().stdout.contains(&format!("sent {}", sent.len())));
        let (rx, tx) = (rx.stats(), tx.stats());
        assert_eq!((rx.packets, rx.missed, rx.no_memory), (sent.len() as u64, 0, 0), "{rx:?}");
        assert_eq!((tx.packets, tx.errors), (sent.len() as u64, 0), "{tx:?}");
        assert_eq!(rx.bytes, sent.iter().map(Vec::len).sum::<usize>() as u64);
    };
    rig.dut.enter(forward).unwrap();
    drop(witness);
    compare(&load(&output), sent);
}

/// A test on a rig; skipped with a message where there can be none.
macro_rules! on_rig {
    ($($name:ident => $body:expr;)*) => {$(
        #[test]
        fn $name() {
            if !skip(stringify!($name)) {
                conserving(|| $body);
            }
        }
    )*};
}

const JUMBO: Cable = Cable { mtu: 9000, queues: 1, offloads: false };

on_rig! {
    af_packet_forwards_every_byte => check_forwarding("AF_PACKET", Cable::default(), &frames((60..1515).step_by(13)));
    af_packet_forwards_jumbo_frames => check_forwarding("AF_PACKET", JUMBO, &frames((60..9015).step_by(97)));
    af_xdp_forwards_every_byte => check_forwarding("AF_XDP", Cable::default(), &frames((60..1515).step_by(13)));
    af_xdp_forwards_jumbo_frames => check_forwarding("AF_XDP", JUMBO, &frames((60..9015).step_by(97)));
    generic_xdp_forwards_every_byte =>
        check_forwarding("AF_XDP_GENERIC", Cable::default(), &frames((60..1515).step_by(13)));
    the_best_driver_forwards_every_byte => check_forwarding("", Cable::default(), &frames((60..1515).step_by(131)));
}
