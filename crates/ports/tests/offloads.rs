// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts that leave work to hardware, several queues, and the kernel kept out.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{PATIENCE, Path, Scratch, on_rig, open, spec};
use junctor_ports::SystemProvider;
use junctor_ports::live::{Generator, Sink};
use packet::port::{RxQueue, Spec, TxQueue};
use packet::{Batch, Packet};
use testbed::rig::{Cable, Rig, wait_for};

/// A TCP transfer through a bridge of two devices. The hosts leave checksums unfinished and segments joined; the
/// device under test puts both right, or the transfer cannot succeed.
fn check_tcp(method: &str, cable: Cable) {
    const BYTES: usize = 8 << 20;
    let scratch = Scratch::new();
    let rig = Rig::new(cable).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.b.ip("addr add 10.0.1.3/24 dev b0").unwrap();
    let capture = scratch.file("b.pcap");
    let observer = common::observer(&rig.b, "b0", &capture);
    let server = "import socket,hashlib\n\
        s=socket.create_server(('10.0.1.3',5000)); print('ready',flush=True)\n\
        c,_=s.accept(); h=hashlib.sha256(); n=0\n\
        while (d:=c.recv(65536)): h.update(d); n+=len(d)\n\
        print(n,h.hexdigest())\n";
    let client = format!(
        "import socket,hashlib\n\
        d=b''.join(b'%07d.'%i for i in range({}))\n\
        s=socket.create_connection(('10.0.1.3',5000),100); s.sendall(d); s.close()\n\
        print(len(d),hashlib.sha256(d).hexdigest())\n",
        BYTES / 8
    );
    let provider = SystemProvider::new();
    let stop = AtomicBool::new(false);
    let mut server = rig.b.spawn(&["/usr/bin/python3", "-c", server]).unwrap();
    server.wait_for_text("ready", PATIENCE).unwrap();
    let (sent, received) = std::thread::scope(|scope| {
        scope.spawn(|| {
            rig.dut.enter(|| {
                let (d0, d1) = (open(&provider, &spec("d0", method)), open(&provider, &spec("d1", method)));
                let (mut rx, mut tx) =
                    ([d0.rx(0).unwrap(), d1.rx(0).unwrap()], [d1.tx(0).unwrap(), d0.tx(0).unwrap()]);
                let mut batch = Batch::new();
                while !stop.load(Ordering::Relaxed) {
                    for (rx, tx) in rx.iter_mut().zip(&mut tx) {
                        rx.receive(&mut batch, 32);
                        tx.transmit(&mut batch);
                        tx.flush();
                        batch.free_all();
                    }
                }
            })
        });
        let client = rig.a.spawn(&["/usr/bin/python3", "-c", &client]).unwrap().finish(PATIENCE);
        let server = client.is_ok().then(|| server.finish(PATIENCE));
        stop.store(true, Ordering::Relaxed);
        (client.unwrap().stdout, server.unwrap().unwrap().stdout)
    });
    drop(observer);
    assert_eq!(received.lines().last(), sent.lines().last());
    assert!(sent.starts_with(&format!("{BYTES} ")), "{sent}");
    // tshark is the judge of what was on the cable: lengths and checksums.
    let wrong =
        format!("frame.len > {} or ip.checksum.status == 0 or tcp.checksum.status == 0", cable.mtu + 14);
    let check = [
        "tshark",
        "-r",
        &capture,
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
        "-Y",
        &wrong,
    ];
    let verdict = rig.b.run(&check).unwrap();
    assert!(verdict.trim().is_empty(), "{verdict}");
}

/// Frames of many flows over several queues: each arrives once, and more than one queue is used.
fn check_queues(method: &str) {
    const FLOWS: u16 = 256;
    let rig = Rig::new(Cable { queues: 2, ..Cable::default() }).unwrap();
    let provider = SystemProvider::new();
    let mut queues: Vec<Box<dyn RxQueue>> = rig
        .dut
        .enter(|| {
            let device = open(&provider, &Spec { queues: Some(2), ..spec("d0", method) });
            assert_eq!(device.info().rx_queues, 2, "{}", device.info().driver);
            (0..2).map(|q| device.rx(q).unwrap()).collect()
        })
        .unwrap();
    let mut senders: Vec<Box<dyn TxQueue>> = rig
        .a
        .enter(|| {
            let device = open(&SystemProvider::new(), &Spec { queues: Some(2), ..spec("a0", "AF_PACKET") });
            (0..2).map(|q| device.tx(q).unwrap()).collect()
        })
        .unwrap();
    for flow in 0..FLOWS {
        let mut frame = vec![0xff; 12];
        frame.extend([8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(flow.to_be_bytes());
        frame.extend([0, 9, 0, 30, 0, 0]);
        frame.resize(64, 0);
        let mut batch = Batch::of(Packet::copy_of(&frame).unwrap());
        senders[usize::from(flow % 2)].transmit(&mut batch);
    }
    let (mut seen, mut counts) = (vec![0; usize::from(FLOWS)], [0; 2]);
    wait_for("all flows", PATIENCE, || {
        for (queue, count) in queues.iter_mut().zip(&mut counts) {
            let mut batch = Batch::new();
            queue.receive(&mut batch, 64);
            for packet in batch.iter().filter(|p| p.len() == 64) {
                let flow = u16::from_be_bytes([packet.data()[34], packet.data()[35]]);
                seen[usize::from(flow)] += 1;
                *count += 1;
            }
        }
        counts.iter().sum::<usize>() >= usize::from(FLOWS)
    })
    .unwrap();
    assert!(seen.iter().all(|n| *n == 1));
    assert!(method != "AF_PACKET" || counts.iter().all(|n| *n > 0), "{counts:?}");
}

/// With `SNIFFER false` the kernel of the device under test does not answer pings, and we still see them.
fn check_keep_from_kernel(method: &str, sniffer: Option<bool>, answered: bool) {
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.dut.ip("addr add 10.0.1.1/24 dev d0").unwrap();
    let provider = SystemProvider::new();
    let wanted = Spec { sniffer, ..spec("d0", method) };
    let mut rx = rig.dut.enter(|| open(&provider, &wanted).rx(0).unwrap()).unwrap();
    // An answer may take its time; that there is none shows in a second as well as in ten.
    let wait = if answered { "-W60" } else { "-W1" };
    let ping = rig.a.spawn(&["ping", "-c1", wait, "10.0.1.1"]).unwrap().finish(PATIENCE).unwrap();
    assert_eq!(ping.status.success(), answered, "{}", ping.stdout);
    let mut batch = Batch::new();
    wait_for("the request", PATIENCE, || rx.receive(&mut batch, 32) > 0).unwrap();
    drop(rx);
    let ping = rig.a.spawn(&["ping", "-c1", "-W60", "10.0.1.1"]).unwrap().finish(PATIENCE).unwrap();
    assert!(ping.status.success(), "the kernel has the device again: {}", ping.stdout);
}

/// Timestamps, packet types, snap length and header room of what is received.
fn check_annotations(method: &str) {
    let rig = Rig::new(Cable::default()).unwrap();
    let provider = SystemProvider::new();
    let mac = rig.dut.mac("d0").unwrap();
    let mut rx = rig
        .dut
        .enter(|| open(&provider, &Spec { snaplen: 40, headroom: 200, ..spec("d0", method) }).rx(0).unwrap())
        .unwrap();
    let mut tx =
        rig.a.enter(|| open(&SystemProvider::new(), &spec("a0", "AF_PACKET")).tx(0).unwrap()).unwrap();
    use packet::PacketType::*;
    let to = [
        (mac, Host),
        ([0xff; 6], Broadcast),
        ([1, 0, 0x5e, 0, 0, 1], Multicast),
        ([2, 9, 9, 9, 9, 9], OtherHost),
    ];
    for (address, _) in to {
        let mut frame = address.to_vec();
        frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        frame.resize(100, 1);
        tx.transmit(&mut Batch::of(Packet::copy_of(&frame).unwrap()));
    }
    let mut got = Batch::new();
    wait_for("four frames", PATIENCE, || {
        rx.receive(&mut got, 32);
        got.len() >= 4
    })
    .unwrap();
    for (packet, (address, kind)) in got.iter().zip(to) {
        assert_eq!((&packet.data()[..6], packet.packet_type()), (&address[..], kind));
        assert_eq!((packet.len(), packet.anno_u32(packet::anno::EXTRA_LENGTH)), (40, 60));
        assert!(packet.headroom() >= 200);
        assert!(method != "AF_PACKET" || packet.timestamp_ns() > 1_600_000_000_000_000_000);
    }
}

/// A clone, a jumbo frame and a packet of the heap leave as they are, and what is too long is counted.
fn check_unusual_packets(method: &str) {
    let rig = Rig::new(Cable { mtu: 9000, ..Cable::default() }).unwrap();
    let provider = SystemProvider::new();
    let mut path = Path::open(&rig, &provider, method);
    path.passes(&rig);
    let mut shared = Packet::copy_of(&[0xff; 70]).unwrap();
    let clone = shared.share().unwrap();
    let mut jumbo = Packet::alloc(128, 9014).unwrap();
    jumbo.data_mut().iter_mut().enumerate().for_each(|(i, b)| *b = if i < 12 { 0xff } else { i as u8 });
    let expected = [shared.data().to_vec(), clone.data().to_vec(), jumbo.data().to_vec()];
    let too_long = Packet::alloc(128, 9100).unwrap();
    let heap = Packet::alloc(128, 20_000).unwrap();
    let before = path.tx.stats();
    let mut batch: Batch = [shared, too_long, clone, heap, jumbo].into_iter().collect();
    assert_eq!((path.tx.transmit(&mut batch), batch.len()), (5, 0));
    path.tx.flush();
    let stats = path.tx.stats();
    assert_eq!((stats.packets - before.packets, stats.errors - before.errors), (3, 2));
    let mut got = Batch::new();
    wait_for("three frames", PATIENCE, || {
        path.tx.flush();
        path.observer.receive(&mut got, 32);
        got.iter().filter(|p| p.len() != 200).count() >= 3
    })
    .unwrap();
    let got: Vec<Vec<u8>> = got.iter().filter(|p| p.len() != 200).map(|p| p.data().to_vec()).collect();
    common::compare(&got, &expected);
}

/// The generator's frames arrive, each as it was given, and a sink swallows them.
fn check_generator(method: &str) {
    const FRAMES: u32 = 1000;
    const AT_ONCE: u32 = 100;
    let rig = Rig::new(Cable::default()).unwrap();
    rig.dut.run(&["ethtool", "-K", "d0", "gro", "on"]).unwrap();
    let provider = SystemProvider::new();
    let mut rx = rig.dut.enter(|| open(&provider, &spec("d0", method)).rx(0).unwrap()).unwrap();
    let frame: Vec<u8> = [0xff; 12].into_iter().chain([0x88, 0xb5]).chain(0..50).collect();
    let (mut given, mut got, mut randoms) = (0, 0, std::collections::HashSet::new());
    wait_for("all generated frames", PATIENCE, || {
        // No more at once than the cable's queue holds, should the kernel's thread that empties it have no turn.
        if got == given {
            rig.a.enter(|| Generator::new("a0", &frame, Some(40)).unwrap().send(AT_ONCE).unwrap()).unwrap();
            given += AT_ONCE;
        }
        let mut batch = Batch::new();
        rx.receive(&mut batch, 64);
        for packet in batch.iter() {
            let data = packet.data();
            assert_eq!((&data[..40], &data[42..]), (&frame[..40], &frame[42..]));
            randoms.insert([data[40], data[41]]);
            got += 1;
        }
        got >= FRAMES
    })
    .unwrap_or_else(|e| panic!("{e}: {got}, {:?}", rx.stats()));
    assert!(randoms.len() > 900, "{} different", randoms.len());
    rig.dut.ip("addr add 10.0.1.1/24 dev d0").unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    drop(rx);
    let sink = rig.dut.enter(|| Sink::new("d0").unwrap()).unwrap();
    assert!(rig.a.run(&["ping", "-c1", "-W1", "10.0.1.1"]).is_err());
    drop(sink);
    rig.a.run(&["ping", "-c1", "-W60", "10.0.1.1"]).unwrap();
}

/// The interface of the default route stays with the kernel unless somebody says otherwise.
fn check_default_route() {
    let rig = Rig::new(Cable::default()).unwrap();
    rig.dut.ip("addr add 10.0.1.1/24 dev d0").unwrap();
    rig.dut.ip("route add default via 10.0.1.2").unwrap();
    let driver =
        |wanted: &Spec| rig.dut.enter(|| open(&SystemProvider::new(), wanted).info().driver).unwrap();
    let unasked = driver(&spec("d0", ""));
    assert!(unasked.starts_with("AF_PACKET") && unasked.contains("default route"), "{unasked}");
    assert!(driver(&spec("d0", "AF_XDP")).starts_with("AF_XDP native copy, 1 queue, driver veth"));
    assert!(driver(&Spec { sniffer: Some(false), ..spec("d0", "") }).starts_with("AF_XDP"));
    assert!(driver(&spec("d1", "")).starts_with("AF_XDP"));
}

on_rig! {
    af_packet_finishes_what_hosts_leave_to_hardware =>
        check_tcp("AF_PACKET", Cable { offloads: true, ..Cable::default() });
    af_packet_carries_tcp => check_tcp("AF_PACKET", Cable::default());
    af_xdp_carries_tcp => check_tcp("AF_XDP", Cable::default());
    af_packet_spreads_flows_over_queues => check_queues("AF_PACKET");
    af_xdp_receives_from_every_queue => check_queues("AF_XDP");
    af_packet_leaves_the_kernel_its_copy => check_keep_from_kernel("AF_PACKET", None, true);
    af_packet_keeps_packets_from_the_kernel => check_keep_from_kernel("AF_PACKET", Some(false), false);
    af_xdp_keeps_packets_from_the_kernel => check_keep_from_kernel("AF_XDP", None, false);
    a_sniffer_is_never_af_xdp => check_keep_from_kernel("", Some(true), true);
    af_xdp_takes_what_the_generator_sends => check_generator("AF_XDP");
    af_packet_takes_what_the_generator_sends => check_generator("AF_PACKET");
    the_default_route_stays_with_the_kernel => check_default_route();
    af_packet_annotates => check_annotations("AF_PACKET");
    af_xdp_annotates => check_annotations("AF_XDP");
    af_packet_sends_unusual_packets => check_unusual_packets("AF_PACKET");
    af_xdp_sends_unusual_packets => check_unusual_packets("AF_XDP");
}
