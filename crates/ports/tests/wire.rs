// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drivers on virtual cables: what scapy sends on one side is what tcpdump sees on the other, byte by byte.

mod common;

use common::{
    PATIENCE, Scratch, compare, forward_until, frames, load, observer, on_rig, open, save, scapy_send, spec,
};
use junctor_ports::SystemProvider;
use packet::port::Provider;
use testbed::rig::{Cable, Rig, wait_for};

/// Sends `sent` from A through the device under test, whose two devices are opened by `method`, and compares what
/// arrives at B.
fn check_forwarding(method: &str, cable: Cable, sent: &[Vec<u8>]) {
    let scratch = Scratch::new();
    let rig = Rig::new(cable).unwrap();
    let (input, output) = (scratch.file("in.pcap"), scratch.file("out.pcap"));
    save(&input, sent);
    let observer = observer(&rig.b, "b0", &output);
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
    drop(observer);
    compare(&load(&output), sent);
}

/// A test on a rig; skipped with a message where there can be none.
/// Frames that filters tell apart, and as the last one a marker.
fn distinct_frames() -> Vec<Vec<u8>> {
    let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0, 100], &[0x81, 0, 0, 200]];
    let mut frames = Vec::new();
    for tag in tags {
        for (kind, protocol, port) in [(0x0806, 0, 0), (0x0800, 17, 53), (0x0800, 17, 54), (0x0800, 6, 53)] {
            let mut frame = vec![0xff; 6];
            frame.extend([2, 0, 0, 0, 0, 1]);
            frame.extend(tag);
            frame.extend(u16::to_be_bytes(kind));
            frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.extend([0, 9, 0, port, 0, 26, 0, 0]);
            frame.resize(60 + frames.len() * 8, 7);
            frames.push(frame);
        }
    }
    frames.push([&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 0x88, 0xb5], &[1; 46]].concat());
    frames
}

/// Receives what is sent under several filters, and compares with what tcpdump makes of the same frames.
fn check_filters() {
    let scratch = Scratch::new();
    let rig = Rig::new(Cable::default()).unwrap();
    let (input, output) = (scratch.file("in.pcap"), scratch.file("out.pcap"));
    let frames = distinct_frames();
    save(&input, &frames);
    let provider = SystemProvider::new();
    for expression in [
        "ip",
        "not ip",
        "udp port 53",
        "udp port 53 and ip host 10.0.0.2",
        "vlan 100",
        "vlan and udp port 53",
        "arp or vlan 200",
        "less 100",
        "ether[60] = 7 and greater 90",
        "ip broadcast or tcp",
    ] {
        // The marker says that all others have come, or have not.
        let expression = format!("ether proto 0x88b5 or ({expression})");
        let filter = provider.filter(&expression, 1);
        if expression.contains("broadcast") {
            assert!(filter.unwrap_err().to_string().contains("netmask"));
            continue;
        }
        let filter = filter.unwrap_or_else(|e| panic!("{e}"));
        let command = ["tcpdump", "-r", &input, "-w", &output, &expression];
        assert!(
            std::process::Command::new(command[0]).args(&command[1..]).output().unwrap().status.success()
        );
        let want = load(&output);
        let receive = || {
            let mut wanted = spec("d0", "");
            wanted.filtered = true;
            let device = open(&provider, &wanted);
            assert!(device.info().driver.starts_with("AF_PACKET"), "{}", device.info().driver);
            let mut rx = device.rx(0).unwrap();
            assert!(rx.narrow(&filter.into()));
            let send = || {
                let device = open(&SystemProvider::new(), &spec("a0", "AF_PACKET"));
                let mut tx = device.tx(0).unwrap();
                let packet = |f: &Vec<u8>| packet::Packet::copy_of(f).unwrap();
                let mut batch: packet::Batch = frames.iter().map(packet).collect();
                wait_for("all to be sent", PATIENCE, || {
                    tx.transmit(&mut batch);
                    batch.is_empty()
                })
                .unwrap();
                tx.flush();
            };
            rig.a.enter(send).unwrap();
            let mut got = packet::Batch::new();
            let marker = frames.last().map(Vec::as_slice);
            wait_for("the marker", PATIENCE, || {
                rx.receive(&mut got, 64);
                got.last().map(packet::Packet::data) == marker
            })
            .unwrap();
            let got: Vec<_> = got.iter().map(|p| p.data().to_vec()).collect();
            assert_eq!(rx.stats().packets, got.len() as u64);
            got
        };
        let got = rig.dut.enter(receive).unwrap();
        assert!(got == want, "{expression}: {} frames, not {}", got.len(), want.len());
    }
}

const JUMBO: Cable = Cable { mtu: 9000, queues: 1, offloads: false, untouched: false };

on_rig! {
    af_packet_forwards_every_byte => check_forwarding("AF_PACKET", Cable::default(), &frames((60..1515).step_by(13)));
    af_packet_filters_as_tcpdump_does => check_filters();
    af_packet_forwards_jumbo_frames => check_forwarding("AF_PACKET", JUMBO, &frames((60..9015).step_by(97)));
    af_xdp_forwards_every_byte => check_forwarding("AF_XDP", Cable::default(), &frames((60..1515).step_by(13)));
    af_xdp_forwards_jumbo_frames => check_forwarding("AF_XDP", JUMBO, &frames((60..9015).step_by(97)));
    generic_xdp_forwards_every_byte =>
        check_forwarding("AF_XDP_GENERIC", Cable::default(), &frames((60..1515).step_by(13)));
    the_best_driver_forwards_every_byte => check_forwarding("", Cable::default(), &frames((60..1515).step_by(131)));
}
