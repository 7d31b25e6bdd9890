// SPDX-License-Identifier: MIT OR Apache-2.0
//! BFD is received first, before all that came earlier, and is not lost where other packets are.

mod common;

use std::net::UdpSocket;
use std::sync::Arc;

use common::{PATIENCE, on_rig, open, spec};
use junctor_ports::SystemProvider;
use packet::filter::{Filter, Instruction};
use packet::port::{RxQueue, Spec, TxQueue};
use packet::{Batch, Packet, PacketType};
use testbed::rig::{Cable, Namespace, Rig, wait_for};

/// A frame of `len` bytes with a UDP datagram to this port.
fn frame(six: bool, port: u16, ttl: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xff; 6];
    bytes.extend([2, 0, 0, 0, 0, 1]);
    bytes.extend(if six { [0x86, 0xdd] } else { [8, 0] });
    bytes.resize(len, 0);
    let udp = if six {
        (bytes[14], bytes[20], bytes[21]) = (0x60, 17, ttl);
        54
    } else {
        (bytes[14], bytes[22], bytes[23]) = (0x45, ttl, 17);
        34
    };
    bytes[udp + 2..udp + 4].copy_from_slice(&port.to_be_bytes());
    bytes
}

/// The same frame in VLAN 5.
fn tagged(mut frame: Vec<u8>) -> Vec<u8> {
    frame.splice(12..12, [0x81, 0, 0, 5]);
    frame
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

/// When the device is to have a ring for BFD.
#[derive(Clone, Copy, PartialEq)]
enum When {
    AtOnce,
    /// When it has been open for a while.
    Later,
}

/// Fills the receive ring until data is lost, and then sends BFD.
fn check(method: &str, when: When) {
    let rig = Rig::new(Cable { untouched: true, ..Cable::default() }).unwrap();
    let provider = SystemProvider::new();
    let wanted = Spec { urgent: true, queues: Some(1), ..spec("d0", method) };
    let first = Spec { urgent: when == When::AtOnce, ..wanted.clone() };
    let (device, mut rx) = rig
        .dut
        .enter(|| {
            let device = open(&provider, &first);
            let rx = device.rx(0).unwrap();
            (device, rx)
        })
        .unwrap();
    if when == When::Later {
        assert!(!device.info().driver.contains("BFD by a"), "{}", device.info().driver);
        let same = rig.dut.enter(|| open(&provider, &wanted)).unwrap();
        assert!(Arc::ptr_eq(&device, &same));
        assert_eq!(rx.receive(&mut Batch::new(), 1), 0, "takes the ring");
    }
    assert!(device.info().driver.contains("BFD by a"), "{}", device.info().driver);
    let mut tx =
        rig.a.enter(|| open(&SystemProvider::new(), &spec("a0", "AF_PACKET")).tx(0).unwrap()).unwrap();
    let data = frame(false, 9, 64, 1400);
    wait_for("a full ring", PATIENCE, || {
        send(&mut *tx, &data, 1000);
        rx.stats().missed > 0
    })
    .unwrap();
    let far = [frame(false, 3784, 254, 66), frame(true, 3784, 254, 86), frame(false, 3785, 253, 74)];
    far.iter().for_each(|frame| send(&mut *tx, frame, 50));
    let urgent = [
        frame(false, 3784, 255, 66),
        frame(false, 3785, 254, 74),
        tagged(frame(false, 3784, 255, 66)),
        tagged(frame(true, 3784, 255, 86)),
        frame(true, 4784, 9, 86),
    ];
    urgent.iter().for_each(|frame| send(&mut *tx, frame, 1));
    let (mut came, mut others) = (Vec::new(), 0);
    let mut next = |rx: &mut dyn RxQueue| {
        let mut batch = Batch::new();
        rx.receive(&mut batch, 1);
        batch.iter().for_each(|packet| match urgent.iter().any(|frame| frame[..] == *packet.data()) {
            true => came.push(packet.data().to_vec()),
            false => {
                assert!(far.iter().all(|frame| frame[..] != *packet.data()), "from afar");
                others += 1;
            }
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

/// A rig whose two ends of the first cable have addresses and know each other. The kernels send IPv6 with hop limit 255.
fn addressed(cable: Cable) -> Rig {
    let rig = Rig::new(cable).unwrap();
    let ends = [(&rig.a, "a0", 2), (&rig.dut, "d0", 1)];
    for (namespace, interface, number) in ends {
        let set = |name: &str, value: &str| {
            namespace.sysctl(&format!("net/ipv6/conf/{interface}/{name}"), value).unwrap();
        };
        set("disable_ipv6", "0");
        set("hop_limit", "255");
        namespace.ip(&format!("addr add 10.0.0.{number}/24 dev {interface}")).unwrap();
        namespace.ip(&format!("addr add fd00::{number}/64 dev {interface} nodad")).unwrap();
    }
    let [near, far] = ends;
    for ((namespace, interface, _), (other, at_other, number)) in [(near, far), (far, near)] {
        let mac = other.mac(at_other).unwrap().map(|byte| format!("{byte:02x}")).join(":");
        for to in [format!("10.0.0.{number}"), format!("fd00::{number}")] {
            namespace.ip(&format!("neigh replace {to} lladdr {mac} dev {interface} nud permanent")).unwrap();
        }
    }
    rig
}

/// A socket of the kernel's that sends with this TTL.
fn sender(namespace: &Namespace, ttl: u32) -> UdpSocket {
    let socket = namespace.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    socket.set_ttl(ttl).unwrap();
    socket
}

/// How many UDP packets the kernel has got for ports that nobody listens at; it answers them by ICMP.
fn no_ports(namespace: &Namespace) -> u64 {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
    let (four, six) = namespace.enter(|| (read("snmp"), read("snmp6"))).unwrap();
    let mut lines = four.lines().filter(|line| line.starts_with("Udp: "));
    let [names, values] = [lines.next().unwrap(), lines.next().unwrap()];
    let at = names.split(' ').position(|name| name == "NoPorts").unwrap();
    let six = six.lines().find_map(|line| line.strip_prefix("Udp6NoPorts")).unwrap();
    values.split(' ').nth(at).unwrap().parse::<u64>().unwrap() + six.trim().parse::<u64>().unwrap()
}

/// The destination port of a UDP packet.
fn port(packet: &Packet) -> Option<u16> {
    let data = packet.data();
    let (protocol, port) = match data.get(12..14)? {
        [8, 0] => (23, 36),
        [0x86, 0xdd] => (20, 56),
        _ => return None,
    };
    (*data.get(protocol)? == 17).then(|| u16::from_be_bytes([data[port], data[port + 1]]))
}

/// The destination ports of the UDP packets that come until `count` of them have.
fn ports(rx: &mut dyn RxQueue, count: usize) -> Vec<u16> {
    let mut ports = Vec::new();
    wait_for("packets", PATIENCE, || {
        let mut batch = Batch::new();
        rx.receive(&mut batch, 32);
        ports.extend(batch.iter().filter_map(port));
        ports.len() >= count
    })
    .unwrap();
    ports
}

/// Sends BFD, and last a packet of something else. `seen` is how many of these the kernel's own protocols must get.
fn check_kernel(method: &str, urgent: bool, sniffer: Option<bool>, seen: u64) {
    let rig = addressed(Cable::default());
    let provider = SystemProvider::new();
    let wanted = Spec { urgent, sniffer, queues: Some(1), ..spec("d0", method) };
    let (device, mut rx) = rig
        .dut
        .enter(|| {
            let device = open(&provider, &wanted);
            let rx = device.rx(0).unwrap();
            (device, rx)
        })
        .unwrap();
    let (socket, bfd) = (sender(&rig.a, 255), [3784, 3785, 4784]);
    let six = rig.a.enter(|| UdpSocket::bind("[::]:0").unwrap()).unwrap();
    bfd.iter().for_each(|port| _ = six.send_to(&[0; 24], ("fd00::1", *port)).unwrap());
    bfd.iter().for_each(|port| _ = socket.send_to(&[0; 24], ("10.0.0.1", *port)).unwrap());
    socket.send_to(&[0; 24], "10.0.0.1:9").unwrap();
    let mut came = ports(&mut *rx, 7);
    came.sort_unstable();
    assert_eq!(came, [9, 3784, 3784, 3785, 3785, 4784, 4784]);
    // The last packet came last, so the kernel gets nothing more behind it.
    wait_for("the kernel", PATIENCE, || no_ports(&rig.dut) >= seen).unwrap();
    assert_eq!(no_ports(&rig.dut), seen, "{}", device.info().driver);
}

/// What the device's own host sends is BFD, too, and packets have the room that was asked for.
fn wishes_hold(method: &str, outbound: bool) {
    let rig = addressed(Cable::default());
    let provider = SystemProvider::new();
    let wanted = Spec { urgent: true, outbound, headroom: 320, queues: Some(1), ..spec("d0", method) };
    let mut rx = rig.dut.enter(|| open(&provider, &wanted).rx(0).unwrap()).unwrap();
    let to = if outbound { "10.0.0.2:3784" } else { "10.0.0.1:3784" };
    sender(if outbound { &rig.dut } else { &rig.a }, 255).send_to(&[0; 24], to).unwrap();
    let mut found = None;
    wait_for("BFD", PATIENCE, || {
        let mut batch = Batch::new();
        rx.receive(&mut batch, 32);
        let bfd = batch.iter().find(|packet| port(packet) == Some(3784));
        found = bfd.map(|packet| (packet.packet_type(), packet.headroom()));
        found.is_some()
    })
    .unwrap();
    let (kind, headroom) = found.unwrap();
    assert_eq!(kind, if outbound { PacketType::Outgoing } else { PacketType::Host });
    assert!(headroom >= 320, "{headroom} bytes");
}

/// Only the last of two queues is in use, or both are, one of them with a filter of its own.
fn queues(method: &str) {
    let rig = addressed(Cable { queues: 2, ..Cable::default() });
    let provider = SystemProvider::new();
    let wanted = Spec { urgent: true, queues: Some(2), ..spec("d0", method) };
    let device = rig.dut.enter(|| open(&provider, &wanted)).unwrap();
    let queue = |number: usize| rig.dut.enter(|| device.rx(number).unwrap()).unwrap();
    let socket = sender(&rig.a, 255);
    let bfd = |count: usize| (0..count).for_each(|_| _ = socket.send_to(&[0; 24], "10.0.0.1:3784").unwrap());
    let mut last = queue(1);
    bfd(10);
    assert_eq!(ports(&mut *last, 10), [3784; 10]);
    let mut first = queue(0);
    // Accepts all, and would let the socket have BFD as well.
    let all = Filter::new(vec![Instruction::new(0x06, 0, 0, u32::MAX)]).unwrap();
    for narrowed in [true, false] {
        match narrowed {
            true => _ = first.narrow(&Arc::new(all.clone())),
            false => first.widen(),
        }
        bfd(10);
        assert_eq!(ports(&mut *last, 10), [3784; 10]);
        // Each queue's own ring has handed over what it has by the time at which this comes.
        let other = sender(&rig.a, 64);
        other.send_to(&[0; 24], "10.0.0.1:9").unwrap();
        let mut came = Vec::new();
        wait_for("the last packet", PATIENCE, || {
            for rx in [&mut first, &mut last] {
                let mut batch = Batch::new();
                rx.receive(&mut batch, 32);
                came.extend(batch.iter().filter_map(port));
            }
            came.contains(&9)
        })
        .unwrap();
        assert_eq!(came, [9], "narrowed: {narrowed}");
    }
    // Another queue takes the ring when its holder ends.
    drop(last);
    bfd(10);
    assert_eq!(ports(&mut *first, 10), [3784; 10]);
}

on_rig! {
    af_packet_delivers_bfd_first => check("AF_PACKET", When::AtOnce);
    af_xdp_delivers_bfd_first => check("AF_XDP", When::AtOnce);
    af_xdp_generic_delivers_bfd_first => check("AF_XDP_GENERIC", When::AtOnce);
    an_open_packet_socket_gets_a_ring_for_bfd => check("AF_PACKET", When::Later);
    an_open_af_xdp_socket_gets_a_ring_for_bfd => check("AF_XDP", When::Later);
    the_kernel_sees_no_bfd_of_af_packet => check_kernel("AF_PACKET", true, None, 1);
    the_kernel_sees_no_bfd_of_af_xdp => check_kernel("AF_XDP", true, None, 0);
    the_kernel_sees_no_bfd_of_af_xdp_generic => check_kernel("AF_XDP_GENERIC", true, None, 0);
    the_kernel_sees_bfd_where_a_sniffer_asks_for_it => check_kernel("AF_PACKET", true, Some(true), 7);
    without_urgent_the_kernel_sees_bfd => check_kernel("AF_PACKET", false, None, 7);
    af_packet_gives_bfd_the_room_asked_for => wishes_hold("AF_PACKET", false);
    af_packet_delivers_bfd_of_this_host => wishes_hold("AF_PACKET", true);
    af_xdp_gives_bfd_the_room_asked_for => wishes_hold("AF_XDP", false);
    any_queue_of_af_packet_receives_bfd => queues("AF_PACKET");
    any_queue_of_af_xdp_receives_bfd => queues("AF_XDP");
}
