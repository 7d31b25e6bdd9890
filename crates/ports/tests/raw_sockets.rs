// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw sockets against the kernel, on the loopback interface of a namespace.

mod common;

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::Arc;

use common::PATIENCE;
use junctor_ports::SystemProvider;
use packet::port::{Device, Provider, RxQueue, Spec};
use packet::{Batch, Packet, anno};
use testbed::rig::{Namespace, skip, wait_for};

fn open(provider: &SystemProvider, name: &str, protocol: u8, port: u16, snaplen: usize) -> Arc<dyn Device> {
    let setting = |key: &str, value: u16| (key.to_owned(), value.to_string());
    let spec = Spec {
        device: name.to_owned(),
        method: Some("RAW_IP".to_owned()),
        settings: vec![setting("PROTOCOL", protocol.into()), setting("PORT", port)],
        snaplen,
        ..Spec::default()
    };
    provider.open(&spec).unwrap_or_else(|e| panic!("{e}"))
}

/// Everything that comes until `n` packets are there.
fn receive(rx: &mut dyn RxQueue, n: usize) -> Batch {
    let mut batch = Batch::new();
    wait_for("packets", PATIENCE, || {
        rx.receive(&mut batch, 64);
        batch.len() >= n
    })
    .unwrap();
    rx.receive(&mut batch, 64);
    assert_eq!(batch.len(), n);
    batch
}

/// An IPv4 packet over the loopback interface; the kernel fills in length and checksum.
fn ip(protocol: u8, payload: &[u8]) -> Packet {
    let header = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1];
    Packet::copy_of(&[&header, payload].concat()).unwrap()
}

fn udp(to: u16, payload: &[u8]) -> Packet {
    let len = (8 + payload.len()) as u16;
    let header = [1000u16.to_be_bytes(), to.to_be_bytes(), len.to_be_bytes(), [0, 0]].concat();
    ip(17, &[&header, payload].concat())
}

fn in_namespace(test: &str, work: impl FnOnce(&SystemProvider) + Send) {
    if skip(test) {
        return;
    }
    let namespace = Namespace::new("raw").unwrap();
    namespace.ip("link set lo mtu 1500").unwrap();
    namespace.enter(|| work(&SystemProvider::new())).unwrap();
}

#[test]
fn receives_whole_datagrams_for_its_port_and_keeps_it() {
    in_namespace("receives_whole_datagrams_for_its_port_and_keeps_it", |provider| {
        let device = open(provider, "a", 17, 5353, 2048);
        assert_eq!(device.info().name, "raw udp port 5353");
        let mut rx = device.rx(0).unwrap();
        assert!(device.rx(0).is_err() && device.rx(1).is_err());
        let sender = UdpSocket::bind("127.0.0.1:4000").unwrap();
        for (to, text) in [(5354, &b"other"[..]), (5353, b"ours"), (5353, &[7; 4000])] {
            sender.send_to(text, ("127.0.0.1", to)).unwrap();
        }
        let got = receive(&mut *rx, 2);
        assert_eq!(got[0].data()[28..], *b"ours");
        assert_eq!(got[0].data()[20..24], [4000u16.to_be_bytes(), 5353u16.to_be_bytes()].concat());
        // Sent in fragments, put together by the kernel, cut by us.
        assert_eq!((got[1].len(), got[1].anno_u32(anno::EXTRA_LENGTH)), (2048, 4028 - 2048));
        assert_eq!(got[1].data()[2..4], 4028u16.to_be_bytes());
        assert_eq!((rx.stats().packets, rx.stats().bytes, rx.stats().missed), (2, 32 + 4028, 0));
        assert_eq!(UdpSocket::bind("0.0.0.0:5353").unwrap_err().kind(), ErrorKind::AddrInUse);
        let spec = junctor_ports::raw_ip::RawIpSpec {
            port: Some(5353),
            ..junctor_ports::raw_ip::RawIpSpec::new(wire::Protocol::UDP)
        };
        let error = junctor_ports::raw_ip::RawIp::open(&spec).unwrap_err().to_string();
        assert!(
            error.starts_with("raw udp port 5353: cannot reserve the port: address already in use"),
            "{error}"
        );
        drop((rx, device));
        UdpSocket::bind("0.0.0.0:5353").unwrap();
    });
}

#[test]
fn what_is_too_much_is_counted() {
    in_namespace("what_is_too_much_is_counted", |provider| {
        let device = open(provider, "a", 17, 5353, 2048);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Before the queue is taken nothing waits for it.
        sender.send_to(b"early", "127.0.0.1:5353").unwrap();
        let mut rx = device.rx(0).unwrap();
        for _ in 0..3000 {
            sender.send_to(&[1; 1400], "127.0.0.1:5353").unwrap();
        }
        let (mut batch, mut got) = (Batch::new(), 0);
        while rx.receive(&mut batch, 64) > 0 {
            got += batch.len() as u64;
            batch = Batch::new();
        }
        let missed = rx.stats().missed;
        assert!(got > 100 && missed > 100, "{got} {missed}");
        assert_eq!(got + missed, 3000);
    });
}

#[test]
fn sends_with_the_header_it_is_given() {
    in_namespace("sends_with_the_header_it_is_given", |provider| {
        let device = open(provider, "a", 17, 0, 0);
        let same = open(provider, "a", 17, 0, 0);
        assert_eq!(device.info().name, "raw udp");
        let receiver = UdpSocket::bind("127.0.0.1:5000").unwrap();
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut tx = device.tx(0).unwrap();
        let (mut rx, taken) = (same.rx(0).unwrap(), same.tx(0));
        assert!(taken.is_err(), "one socket for one name");
        let mut batch: Batch =
            [udp(5000, b"one"), ip(17, &[0; 1500]), Packet::copy_of(b"runt").unwrap(), udp(5000, b"two")]
                .into_iter()
                .collect();
        assert_eq!((tx.transmit(&mut batch), batch.len()), (4, 0));
        let mut buffer = [0; 16];
        for text in [b"one", b"two"] {
            let (n, from) = receiver.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..n], from.port()), (&text[..], 1000));
        }
        assert_eq!((tx.stats().packets, tx.stats().errors, tx.stats().bytes), (2, 2, 62));
        let fault = tx.fault().unwrap().to_string();
        assert_eq!(fault, "raw udp: cannot send: message too long; further refusals are only counted");
        let back = receive(&mut *rx, 2);
        // The kernel's part: length, identification, checksum.
        assert_eq!((back[0].len(), &back[0].data()[2..4]), (31, &31u16.to_be_bytes()[..]));
        assert_eq!(wire::checksum::internet(&back[0].data()[..20]), 0);
    });
}

/// What a socket for `protocol` and `port` receives of the payloads sent, by their place; the kernel may answer.
fn check_filter(provider: &SystemProvider, protocol: u8, port: u16, payloads: &[&[u8]], want: &[&[u8]]) {
    let device = open(provider, &format!("{protocol} {port}"), protocol, port, 0);
    let (mut rx, mut tx) = (device.rx(0).unwrap(), device.tx(0).unwrap());
    let mut batch: Batch = payloads.iter().map(|p| ip(protocol, p)).collect();
    assert_eq!(tx.transmit(&mut batch), payloads.len());
    let got = receive(&mut *rx, want.len());
    let got: Vec<&[u8]> = got.iter().map(|p| &p.data()[20..]).collect();
    assert_eq!(got, want);
}

#[test]
fn filters_by_identifier_and_key() {
    in_namespace("filters_by_identifier_and_key", |provider| {
        // Echo requests with their checksums, and the kernel's reply to one of them.
        let (ours, other): (&[u8], &[u8]) =
            (&[8, 0, 0xf7, 0xf7, 0, 7, 0, 1], &[8, 0, 0xf7, 0xf6, 0, 8, 0, 1]);
        check_filter(provider, 1, 7, &[other, ours], &[ours, &[0, 0, 0xff, 0xf7, 0, 7, 0, 1]]);
        let keyed: &[u8] = &[0x20, 0, 8, 0, 0, 0, 0, 9];
        let behind_checksum: &[u8] = &[0xa0, 0, 8, 0, 0, 0, 0, 9, 0, 0, 0, 9];
        let checksum_only: &[u8] = &[0x80, 0, 8, 0, 0, 0, 0, 9];
        let wrong_key: &[u8] = &[0xa0, 0, 8, 0, 0, 0, 0, 9, 0, 0, 0, 8];
        let call: &[u8] = &[0x30, 1, 0x88, 0x0b, 0, 4, 0, 9, 0, 0, 0, 0];
        let sent = [checksum_only, keyed, &keyed[..7], wrong_key, behind_checksum, &[0, 0], call];
        check_filter(provider, 47, 9, &sent, &[keyed, behind_checksum, call]);
        check_filter(provider, 253, 0, &[b"", b"x"], &[b"", b"x"]);
    });
}
