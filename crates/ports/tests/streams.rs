// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that the kernel generates: what arrives at the other end of a cable, as packet sockets and tshark see it.

mod common;

use common::{PATIENCE, Scratch, open, spec};
use junctor_ports::SystemProvider;
use junctor_ports::live::stream::{Frame, Part, Plan, Stream, monotonic_ns};
use packet::Batch;
use packet::port::RxQueue;
use testbed::rig::{Cable, Rig, skip, skip_without, wait_for};

const MS: u64 = 1_000_000;

/// An Ethernet frame of UDP from one host to the other, with a pattern behind the signature.
fn frame(rig: &Rig, flow: u32, len: usize) -> Frame {
    let mut bytes = rig.dut.mac("d0").unwrap().to_vec();
    bytes.extend(rig.a.mac("a0").unwrap());
    let total = (len - 14) as u16;
    let mut header = vec![0x45, 0];
    header.extend(total.to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 1, 2, 10, 0, 2, flow as u8]);
    let words = |bytes: &[u8]| -> u64 {
        bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0))).sum()
    };
    let folded = |mut sum: u64| {
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    };
    let sum = !folded(words(&header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend([8, 0]);
    bytes.extend(&header);
    bytes.extend([0x0f, 0xa0, 0, 7]);
    bytes.extend((total - 20).to_be_bytes());
    bytes.resize(60, 0);
    bytes.extend((60..len).map(|i| i as u8));
    let pseudo = words(&header[12..20]) + 17 + 2 * u64::from(total - 20);
    let sum = folded(pseudo + words(&[0x0f, 0xa0, 0, 7]) + words(&bytes[60..]));
    Frame { bytes, checksum_at: 40, sum, flow }
}

fn part(start_ns: u64, rate: u64, frames: u64) -> Part {
    Part { start_ns, interval: (1_000_000_000u128 << 32) / u128::from(rate), frames }
}

/// Sends a plan to its end.
fn send(stream: &mut Stream, parts: Vec<Part>, burst: u64) -> u64 {
    stream.arm().unwrap();
    let frames: u64 = parts.iter().map(|part| part.frames).sum();
    let plan = Plan { parts, burst, origin_ns: monotonic_ns(), key: [7, 8] };
    stream.begin(&plan).unwrap();
    wait_for("all frames", PATIENCE, || stream.sent() == frames).unwrap();
    wait_for("the call's end", PATIENCE, || {
        stream.halt();
        !stream.is_running()
    })
    .unwrap();
    stream.failure().unwrap();
    stream.sent()
}

/// All that a queue holds and receives until it has so many frames.
fn receive(rx: &mut dyn RxQueue, frames: usize) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    wait_for("all frames", PATIENCE, || {
        let mut batch = Batch::new();
        rx.receive(&mut batch, 64);
        got.extend(batch.iter().map(|packet| packet.data().to_vec()));
        batch.free_all();
        got.len() >= frames
    })
    .unwrap();
    got
}

fn word(frame: &[u8], at: usize, bytes: usize) -> u64 {
    frame[at..at + bytes].iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// A sender's end and a listener's.
fn rig() -> (Rig, Box<dyn RxQueue>) {
    let rig = Rig::new(Cable::default()).unwrap();
    rig.dut.run(&["ethtool", "-K", "d0", "gro", "on"]).unwrap();
    let rx = rig.dut.enter(|| open(&SystemProvider::new(), &spec("d0", "AF_PACKET")).rx(0).unwrap());
    (rig, rx.unwrap())
}

#[test]
fn frames_of_all_flows_arrive_whole_and_in_order() {
    if skip("frames_of_all_flows_arrive_whole_and_in_order") {
        return;
    }
    const FLOWS: u32 = 3;
    let (rig, mut rx) = rig();
    let mut stream = rig.a.enter(|| Stream::open("a0", || {})).unwrap().unwrap();
    for len in [60, 61, 100, 200, 1514] {
        let frames: Vec<Frame> = (0..FLOWS).map(|flow| frame(&rig, flow + 5, len)).collect();
        stream.load(&frames, 1, &[0]).unwrap();
        let before = monotonic_ns();
        // Slower than anybody receives, with a second rate after the first.
        assert_eq!(send(&mut stream, vec![part(0, 20_000, 100), part(MS, 10_000, 51)], 1), 151);
        assert_eq!(stream.lateness().map(|(_, count)| count).sum::<u64>(), 151);
        let got = receive(rx.as_mut(), 151);
        assert_eq!(got.len(), 151);
        let mut last_ns = 0;
        for (number, got) in got.iter().enumerate() {
            let flow = number as u32 % FLOWS;
            let expected = &frames[flow as usize].bytes;
            assert_eq!((&got[..40], &got[60..]), (&expected[..40], &expected[60..]), "{number}");
            assert_eq!(word(got, 42, 4), u64::from(flow + 5));
            assert_eq!(word(got, 46, 4), number as u64 / u64::from(FLOWS));
            let departure_ns = word(got, 50, 6);
            assert!(departure_ns >= last_ns && departure_ns < monotonic_ns() - before);
            last_ns = departure_ns;
        }
    }
}

#[test]
fn sizes_follow_their_pattern() {
    if skip("sizes_follow_their_pattern") {
        return;
    }
    let (rig, mut rx) = rig();
    let mut stream = rig.a.enter(|| Stream::open("a0", || {})).unwrap().unwrap();
    let sizes = [60, 90, 590, 1514];
    let frames: Vec<Frame> = (0..2)
        .flat_map(|flow| sizes.map(|len| (flow, len)))
        .map(|(flow, len)| frame(&rig, flow, len))
        .collect();
    let pattern = [3, 0, 1, 0, 2];
    stream.load(&frames, sizes.len(), &pattern).unwrap();
    assert_eq!(send(&mut stream, vec![part(0, 20_000, 203)], 7), 203);
    for (number, got) in receive(rx.as_mut(), 203).iter().enumerate() {
        let expected = &frames[number % 2 * sizes.len() + pattern[number % pattern.len()]].bytes;
        assert_eq!((&got[..40], &got[60..]), (&expected[..40], &expected[60..]), "{number}");
    }
}

/// tshark judges the checksums of what was on the cable.
#[test]
fn checksums_are_right() {
    if skip_without("checksums_are_right", &["tshark"]) {
        return;
    }
    let (rig, mut rx) = rig();
    let scratch = Scratch::new();
    let capture = scratch.file("d.pcap");
    let observer = common::observer(&rig.dut, "d0", &capture);
    let mut stream = rig.a.enter(|| Stream::open("a0", || {})).unwrap().unwrap();
    let frames: Vec<Frame> = (0..3).map(|flow| frame(&rig, flow, 200)).collect();
    stream.load(&frames, 1, &[0]).unwrap();
    send(&mut stream, vec![part(0, 20_000, 1000)], 1);
    receive(rx.as_mut(), 1000);
    drop(observer);
    let tshark = |filter: &str| {
        let checks = ["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];
        rig.dut.run(&[&["tshark", "-r", &capture], &checks[..], &["-Y", filter]].concat()).unwrap()
    };
    let wrong = tshark("ip.checksum.status == 0 or udp.checksum.status == 0 or not udp");
    assert_eq!(wrong.trim(), "");
    assert_eq!(tshark("udp.checksum.status == 1").lines().count(), 1000);
}

#[test]
fn a_call_ends_when_it_is_told_to() {
    if skip("a_call_ends_when_it_is_told_to") {
        return;
    }
    let (rig, _rx) = rig();
    let mut stream = rig.a.enter(|| Stream::open("a0", || {})).unwrap().unwrap();
    stream.load(&[frame(&rig, 0, 60)], 1, &[0]).unwrap();
    stream.arm().unwrap();
    // In an hour.
    let parts = vec![part(3600 * 1000 * MS, 1000, 1000)];
    stream.begin(&Plan { parts, burst: 1, origin_ns: monotonic_ns(), key: [0; 2] }).unwrap();
    assert!(stream.is_running());
    // Another call begins only after the first has ended, and dropping ends the second.
    stream.arm().unwrap();
    assert_eq!((stream.sent(), stream.is_running()), (0, true));
    drop(stream);
}

#[test]
fn what_cannot_be_sent_is_refused() {
    if skip("what_cannot_be_sent_is_refused") {
        return;
    }
    let (rig, _rx) = rig();
    // Without NAPI there, the cable's other end would receive nothing.
    rig.dut.run(&["ethtool", "-K", "d0", "gro", "off"]).unwrap();
    let error = rig.a.enter(|| Stream::open("a0", || {}).map(drop)).unwrap().unwrap_err();
    assert!(error.to_string().contains("ethtool -K OTHER_END gro on"), "{error}");
    rig.dut.run(&["ethtool", "-K", "d0", "gro", "on"]).unwrap();
    let error = rig.a.enter(|| Stream::open("a1", || {}).map(drop)).unwrap().unwrap_err();
    assert!(error.to_string().starts_with("a1: no such network interface"), "{error}");
    let mut stream = rig.a.enter(|| Stream::open("a0", || {})).unwrap().unwrap();
    let six = Frame { checksum_at: 60, ..frame(&rig, 1, 100) };
    for (frames, sizes, message) in [
        (vec![], 1, "there are no frames"),
        (vec![frame(&rig, 0, 100), six], 1, "headers of one length"),
        (vec![frame(&rig, 0, 3400)], 1, "frames of 3400 bytes are too long"),
        (vec![frame(&rig, 0, 100), frame(&rig, 0, 60)], 2, "differ in their sizes"),
    ] {
        let error = stream.load(&frames, sizes, &[0]).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(stream.arm().is_err());
    let many = vec![part(0, 1000, 1); 65];
    let error = stream.begin(&Plan { parts: many, ..Plan::default() }).unwrap_err().to_string();
    assert!(error.contains("65 rates"), "{error}");
    // The longest that goes.
    stream.load(&[frame(&rig, 0, 3368)], 1, &[0]).unwrap();
    stream.arm().unwrap();
}
