// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capture files against scapy and tshark, and taps against the kernel.

mod common;

use std::process::Command;

use common::{PATIENCE, Scratch, conserving, frames, open, spec};
use junctor_ports::SystemProvider;
use junctor_ports::pcap::{self, CaptureError, Format, Reader, Record};
use packet::port::{Provider as _, RxQueue, Spec, link_type};
use packet::{Batch, Packet, anno};
use testbed::rig::{Namespace, skip, wait_for};

fn scapy(program: &str) -> Option<String> {
    let output = Command::new("/usr/bin/python3").args(["-c", program]).output().ok()?;
    if !output.status.success() {
        eprintln!(
            "scapy is not there: {}",
            String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("")
        );
        return None;
    }
    Some(String::from_utf8(output.stdout).unwrap())
}

fn read_all(reader: &mut Reader) -> (Vec<(Record, Vec<u8>)>, Option<CaptureError>) {
    let (mut all, mut bytes) = (Vec::new(), Vec::new());
    loop {
        match reader.next(&mut bytes) {
            Ok(Some(record)) => all.push((record, bytes.clone())),
            Ok(None) => return (all, None),
            Err(e) => return (all, Some(e)),
        }
    }
}

const FORMATS: [Format; 3] = [Format::Pcap, Format::PcapNano, Format::PcapNg];
const START_NS: u64 = 1_700_000_000_123_456_789;

fn write(path: &str, format: Format, snaplen: usize, sent: &[Vec<u8>]) {
    let mut writer = pcap::create(path, format, link_type::ETHERNET, snaplen).unwrap();
    for (i, frame) in sent.iter().enumerate() {
        writer.write(START_NS + i as u64 * 1_000_000_007, frame.len(), frame).unwrap();
    }
    writer.flush().unwrap();
}

#[test]
fn what_we_write_we_and_scapy_read() {
    let (scratch, sent) = (Scratch::new(), frames((60..1515).step_by(101)));
    for format in FORMATS {
        for snaplen in [0, 96] {
            let path = scratch.file("ours");
            write(&path, format, snaplen, &sent);
            let ns = |i: usize| {
                let exact = START_NS + i as u64 * 1_000_000_007;
                if format == Format::Pcap { exact / 1000 * 1000 } else { exact }
            };
            let cut = |frame: &Vec<u8>| {
                frame[..if snaplen == 0 { frame.len() } else { frame.len().min(snaplen) }].to_vec()
            };
            let (read, error) = read_all(&mut pcap::open(&path).unwrap());
            assert!(error.is_none(), "{error:?}");
            assert_eq!(read.len(), sent.len());
            for (i, ((record, bytes), frame)) in read.iter().zip(&sent).enumerate() {
                let (captured, wire_len, link_type) = (bytes.len(), frame.len(), link_type::ETHERNET);
                assert_eq!(*record, Record { timestamp_ns: ns(i), captured, wire_len, link_type });
                assert_eq!(*bytes, cut(frame));
            }
            let program = format!(
                "from scapy.all import RawPcapReader, RawPcapNgReader, PcapReader\n\
                 for p in PcapReader({path:?}): print(int(p.time*1000000000), p.wirelen, bytes(p).hex())"
            );
            let Some(theirs) = scapy(&program) else { return };
            let ours: Vec<String> = sent
                .iter()
                .enumerate()
                .map(|(i, f)| {
                    let hex: String = cut(f).iter().map(|b| format!("{b:02x}")).collect();
                    format!("{} {} {hex}", ns(i), f.len())
                })
                .collect();
            for (ours, theirs) in ours.iter().zip(theirs.lines()) {
                let at = |s: &str, n| s.split(' ').nth(n).unwrap_or_default().to_owned();
                assert_eq!(
                    (at(ours, 1), at(ours, 2)),
                    (at(theirs, 1), at(theirs, 2)),
                    "{format:?} {snaplen}"
                );
                // scapy's clock is a decimal with six or nine digits.
                let [a, b]: [i64; 2] = [ours, theirs].map(|s| at(s, 0).parse().unwrap());
                assert!((a - b).abs() < 1000, "{format:?}: {a} {b}");
            }
            assert_eq!(ours.len(), theirs.lines().count());
        }
    }
}

#[test]
fn what_others_write_we_read() {
    let scratch = Scratch::new();
    let file = |name: &str| scratch.file(name);
    // Both byte orders and clocks, several link types, and pcapng with an odd clock, from scapy and from bytes.
    let program = format!(
        "import struct\n\
         from scapy.all import wrpcap, PcapWriter, PcapNgWriter, Ether, IP, UDP, Raw\n\
         for n,(e,magic,lt) in enumerate([('>',0xa1b2c3d4,1),('<',0xa1b23c4d,101),('>',0xa1b23c4d,113),('<',0xa1b2c3d4,12)]):\n\
         \x20 with open({0:?}+str(n),'wb') as f:\n\
         \x20  f.write(struct.pack(e+'IHHiIII',magic,2,4,0,0,65535,lt))\n\
         \x20  for i in range(3): f.write(struct.pack(e+'IIII',1000+i,5,20,100+i)+bytes([i])*20)\n\
         def block(e,t,b): b+=bytes(-len(b)%4); n=len(b)+12; return struct.pack(e+'II',t,n)+b+struct.pack(e+'I',n)\n\
         for e in '<>':\n\
         \x20 with open({0:?}+'ng'+('l' if e=='<' else 'b'),'wb') as f:\n\
         \x20  f.write(struct.pack(e+'IIIHHqI',0x0a0d0d0a,28,0x1a2b3c4d,1,0,-1,28))\n\
         \x20  f.write(block(e,1,struct.pack(e+'HHI',113,0,50)+struct.pack(e+'HHB3x',9,1,0x80|10)+struct.pack(e+'HHq',14,8,100)+bytes(4)))\n\
         \x20  f.write(block(e,0x0bad,b'skip me'))\n\
         \x20  f.write(block(e,6,struct.pack(e+'IIIII',0,0,2048+512,20,77)+b'a'*20))\n\
         \x20  f.write(block(e,3,struct.pack(e+'I',60)+b'b'*50))\n\
         \x20  f.write(block(e,2,struct.pack(e+'HHIIII',0,0,0,1024,7,7)+b'c'*7))\n\
         wrpcap({0:?}+'s',[Ether(dst='ff:ff:ff:ff:ff:ff',src='02:00:00:00:00:01')/IP(src='1.2.3.4',dst='5.6.7.8')/UDP()/Raw(b'x'*30)]*2)\n",
        file("f")
    );
    if scapy(&program).is_none() {
        return;
    }
    let cases = [("f0", 5000, 1), ("f1", 5, 101), ("f2", 5, 113), ("f3", 5000, 101)];
    for (name, sub_ns, link_type) in cases {
        let mut reader = pcap::open(file(name)).unwrap();
        assert_eq!(reader.link_type().unwrap(), link_type, "{name}");
        let (read, error) = read_all(&mut reader);
        assert!(error.is_none());
        let expected = |i: u64| {
            let timestamp_ns = (1000 + i) * 1_000_000_000 + sub_ns;
            (Record { timestamp_ns, captured: 20, wire_len: 100 + i as usize, link_type }, vec![i as u8; 20])
        };
        assert_eq!(read, (0..3).map(expected).collect::<Vec<_>>(), "{name}");
    }
    for name in ["fngl", "fngb"] {
        let mut reader = pcap::open(file(name)).unwrap();
        assert_eq!(reader.link_type().unwrap(), 113);
        let (read, error) = read_all(&mut reader);
        assert!(error.is_none(), "{error:?}");
        let record =
            |timestamp_ns, captured, wire_len| Record { timestamp_ns, captured, wire_len, link_type: 113 };
        // Ticks of 1/1024 s, 100 s after the epoch.
        let expected = [
            (record(102_500_000_000, 20, 77), vec![b'a'; 20]),
            (record(0, 50, 60), vec![b'b'; 50]),
            (record(101_000_000_000, 7, 7), vec![b'c'; 7]),
        ];
        assert_eq!(read, expected, "{name}");
    }
    assert_eq!(read_all(&mut pcap::open(file("fs")).unwrap()).0.len(), 2);
}

/// Every file cut anywhere gives its whole packets, then an error that says truncated; every byte changed gives no
/// panic.
#[test]
fn damaged_files_are_named() {
    let (scratch, sent) = (Scratch::new(), frames([60, 61, 62]));
    for format in FORMATS {
        let path = scratch.file("whole");
        write(&path, format, 0, &sent);
        let whole = std::fs::read(&path).unwrap();
        let mut whole_ends = 0;
        for cut in 0..whole.len() {
            match Reader::new(std::io::Cursor::new(whole[..cut].to_vec())) {
                Err(e) => assert!(matches!(e, CaptureError::Truncated { packets: 0, .. }), "{cut}: {e}"),
                Ok(mut reader) => {
                    let (read, error) = read_all(&mut reader);
                    match error {
                        None => whole_ends += 1,
                        Some(CaptureError::Truncated { packets, at, .. }) => {
                            assert_eq!((packets as usize, at as usize), (read.len(), cut));
                        }
                        Some(e) => panic!("{cut}: {e}"),
                    }
                    assert!(read.iter().zip(&sent).all(|((_, bytes), frame)| bytes == frame));
                }
            }
        }
        // A file may end after each packet but the last (which is no cut), and pcapng also before its interface.
        assert_eq!(whole_ends, if format == Format::PcapNg { 4 } else { 3 }, "{format:?}");
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bad = whole.clone();
                bad[at] = value;
                if let Ok(mut reader) = Reader::new(std::io::Cursor::new(bad)) {
                    let _ = reader.link_type();
                    read_all(&mut reader);
                }
            }
        }
    }
    let error = Reader::new(&b"#!/bin/sh\n"[..]).err().unwrap().to_string();
    assert!(error.contains("not a pcap or pcapng file"), "{error}");
}

#[test]
fn files_are_devices() {
    conserving(|| {
        let (scratch, sent) = (Scratch::new(), frames([60, 1514, 9000]));
        let (input, output) = (scratch.file("in.pcap"), scratch.file("out.pcapng"));
        write(&input, Format::Pcap, 100, &sent);
        let provider = SystemProvider::new();
        let file = |path: &str, settings: &[(&str, &str)]| Spec {
            device: path.to_owned(),
            method: Some("FILE".to_owned()),
            settings: settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            ..Spec::default()
        };
        let reader = open(&provider, &file(&input, &[]));
        let writer = open(&provider, &file(&output, &[("WRITE", "true"), ("FORMAT", "pcapng")]));
        let (mut rx, mut tx) = (reader.rx(0).unwrap(), writer.tx(0).unwrap());
        let mut batch = Batch::new();
        assert_eq!((rx.receive(&mut batch, 2), rx.ended()), (2, false));
        assert_eq!((rx.receive(&mut batch, 2), rx.ended(), rx.fault()), (1, true, None));
        assert_eq!(batch[1].anno_u32(anno::EXTRA_LENGTH), 1414);
        assert_eq!(batch[0].timestamp_ns(), START_NS / 1000 * 1000);
        assert_eq!(tx.transmit(&mut batch), 3);
        tx.flush();
        let (read, error) = read_all(&mut pcap::open(&output).unwrap());
        assert!(error.is_none());
        assert_eq!(read.iter().map(|(r, _)| r.wire_len).collect::<Vec<_>>(), [60, 1514, 9000]);
        assert!(writer.rx(0).is_err() && reader.tx(0).is_err());
        let whole = std::fs::read(&input).unwrap();
        std::fs::write(&input, &whole[..whole.len() - 1]).unwrap();
        let mut rx = open(&provider, &file(&input, &[])).rx(0).unwrap();
        while !rx.ended() {
            rx.receive(&mut batch, 8);
        }
        let fault = rx.fault().unwrap().to_string();
        assert!(
            fault.contains("truncated: the file ends at byte") && fault.contains("after 2 whole packets"),
            "{fault}"
        );
    });
}

/// A UDP datagram to the kernel through a tap, and its answer.
fn check_tap(method: &str) {
    let namespace = Namespace::new("tap").unwrap();
    let provider = SystemProvider::new();
    let wanted = Spec {
        settings: [("ADDR", "10.7.0.1/24"), ("ETHER", "02:00:00:00:00:07"), ("MTU", "1400")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .to_vec(),
        ..spec("jtap0", method)
    };
    let device = namespace.enter(|| open(&provider, &wanted)).unwrap();
    let info = device.info();
    let tap = method == "TAP";
    assert_eq!((info.mtu, info.mac), (1400, tap.then_some([2, 0, 0, 0, 0, 7])));
    assert_eq!(device.link_type(), if tap { link_type::ETHERNET } else { link_type::RAW });
    assert!(namespace.ip("addr show dev jtap0").unwrap().contains("10.7.0.1/24"));
    let (mut rx, mut tx) = (device.rx(0).unwrap(), device.tx(0).unwrap());
    drop(device);
    namespace.ip("neigh add 10.7.0.2 lladdr 02:00:00:00:00:08 dev jtap0").unwrap_or_default();
    // Until it has two answers: by itself it would not wait for late ones.
    let ping = namespace.spawn(&["ping", "-i0.2", "-s1000", "10.7.0.2"]).unwrap();
    let at = if tap { 14 } else { 0 };
    wait_for("two answers", PATIENCE, || {
        let mut batch = Batch::new();
        rx.receive(&mut batch, 32);
        let mut answers: Batch = batch.drain(..).filter_map(|p| echo_reply(p, at)).collect();
        tx.transmit(&mut answers);
        ping.stdout().matches("bytes from").count() >= 2
    })
    .unwrap_or_else(|e| panic!("{e}: {}", ping.stdout()));
    assert!(rx.stats().packets >= 2 && tx.stats().errors == 0);
    drop((rx, tx));
    wait_for("the tap to vanish", PATIENCE, || namespace.ip("link show jtap0").is_err()).unwrap();
}

/// Turns an echo request into its reply: addresses swapped, type 0, checksum adjusted by the type's difference.
fn echo_reply(mut packet: Packet, at: usize) -> Option<Packet> {
    let bytes = packet.data_mut();
    if bytes.get(at)? >> 4 != 4 || *bytes.get(at + 9)? != 1 || *bytes.get(at + 20)? != 8 {
        return None;
    }
    if at == 14 {
        let (to, from) = bytes.split_at_mut(6);
        to.swap_with_slice(&mut from[..6]);
    }
    let (source, target) = bytes[at + 12..at + 20].split_at_mut(4);
    source.swap_with_slice(target);
    bytes[at + 20] = 0;
    let sum = u32::from(u16::from_be_bytes([bytes[at + 22], bytes[at + 23]])) + 0x800;
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[at + 22..at + 24].copy_from_slice(&(sum as u16).to_be_bytes());
    Some(packet)
}

#[test]
fn taps_speak_with_the_kernel() {
    if !skip("taps_speak_with_the_kernel") {
        conserving(|| check_tap("TAP"));
        conserving(|| check_tap("TUN"));
    }
}

/// A tap in a namespace of its own whose twin's MTU changes.
struct Narrowing {
    wire: Namespace,
    control: Namespace,
    provider: SystemProvider,
}

impl Narrowing {
    fn new(mtu: usize) -> Narrowing {
        let (wire, control) = (Namespace::new("wire").unwrap(), Namespace::new("twin").unwrap());
        for setting in ["all/disable_ipv6", "default/disable_ipv6", "default/accept_dad"] {
            control.sysctl(&format!("net/ipv6/conf/{setting}"), "0").unwrap();
        }
        wire.ip(&format!("link add p0 mtu {mtu} type veth peer name p1")).unwrap();
        for end in ["p0", "p1"] {
            wire.ip(&format!("link set {end} up")).unwrap();
        }
        Narrowing { wire, control, provider: SystemProvider::new() }
    }

    fn open(&self, settings: &[(&str, &str)]) -> Result<Box<dyn RxQueue>, packet::port::Error> {
        let all = [
            ("TWIN", "p0"),
            ("NETNS", self.control.name()),
            ("ADDR", "10.7.0.1/24"),
            ("ADDR", "fd00:7::1/64"),
        ];
        let settings = all.iter().chain(settings).map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let wanted = Spec { settings, ..spec("jtap0", "TAP") };
        self.wire.enter(|| self.provider.open(&wanted)).unwrap()?.rx(0)
    }

    /// Addresses and routes of IPv6, sorted, but for what is left of their lifetimes.
    fn has(&self) -> Vec<String> {
        let shown = ["-o -6 addr show dev jtap0", "-6 route show table all dev jtap0"]
            .map(|what| self.control.ip(what).unwrap_or_default());
        let lasting = |line: &str| {
            line.split(['\\'])
                .next()
                .unwrap_or(line)
                .split(" expires")
                .next()
                .unwrap_or(line)
                .trim()
                .to_owned()
        };
        let mut lines: Vec<String> = shown.iter().flat_map(|text| text.lines()).map(lasting).collect();
        lines.sort();
        lines
    }

    /// Gives the wire an MTU and waits until the tap has it.
    fn set(&self, rx: &mut dyn RxQueue, mtu: usize) {
        self.wire.ip(&format!("link set p0 mtu {mtu}")).unwrap();
        self.until(rx, &format!("an MTU of {mtu}"), || {
            self.control.ip("link show jtap0").unwrap().contains(&format!(" mtu {mtu} "))
        });
    }

    fn until(&self, rx: &mut dyn RxQueue, what: &str, mut is_so: impl FnMut() -> bool) {
        let waited = wait_for(what, PATIENCE, || {
            (0..16).for_each(|_| _ = rx.receive(&mut Batch::new(), 32));
            is_so()
        });
        waited.unwrap_or_else(|e| panic!("{e}: {:#?}", self.has()));
    }
}

#[test]
fn a_twin_gets_its_ipv6_addresses_back_when_its_mtu_rises_again() {
    if skip("a_twin_gets_its_ipv6_addresses_back_when_its_mtu_rises_again") {
        return;
    }
    let narrowing = Narrowing::new(1500);
    let control = &narrowing.control;
    let mut rx = narrowing.open(&[]).unwrap();
    // What users and daemons change. Not even an address of the configuration returns if somebody has removed it.
    for what in [
        "addr del fd00:7::1/64 dev jtap0",
        "addr add fd00:7::2/64 dev jtap0",
        "addr add fe80::7/64 dev jtap0",
        "addr add 2001:db8:1::1/128 dev jtap0 noprefixroute",
        "addr add 2001:db8:2::1 peer 2001:db8:2::2/128 dev jtap0",
        "addr add 2001:db8:3::1/64 dev jtap0 metric 77 valid_lft 5000 preferred_lft 4000",
        "-6 route add 2001:db8:a::/48 via fd00:7::9 dev jtap0 metric 5",
        "-6 route add 2001:db8:b::/48 via fe80::9 dev jtap0 table 77 proto static",
        "-6 route add 2001:db8:c::/48 dev jtap0 proto zebra",
    ] {
        control.ip(what).unwrap();
    }
    let mut expected = narrowing.has();
    let daemons = expected.iter().position(|line| line.contains("2001:db8:c::")).unwrap();
    for mtu in [1000, 1279] {
        narrowing.set(&mut *rx, mtu);
        assert_eq!(narrowing.has(), [""; 0], "with an MTU of {mtu}");
        assert!(control.ip("addr show dev jtap0").unwrap().contains("10.7.0.1/24"));
    }
    // Daemons return their routes themselves.
    expected.remove(daemons);
    narrowing.set(&mut *rx, 1280);
    narrowing.until(&mut *rx, &format!("all of {expected:#?}"), || narrowing.has() == expected);
    narrowing.set(&mut *rx, 1500);
    assert_eq!(narrowing.has(), expected);
}

#[test]
fn a_twin_that_begins_narrow_gets_its_ipv6_addresses_later() {
    if skip("a_twin_that_begins_narrow_gets_its_ipv6_addresses_later") {
        return;
    }
    let narrowing = Narrowing::new(1000);
    // An MTU that is said stays, so the addresses would never come.
    let error = narrowing.open(&[("MTU", "1000")]).err().unwrap().to_string();
    assert!(error.contains("fd00:7::1/64") && error.contains("IPv6 takes an MTU of 1280 bytes"), "{error}");
    let mut rx = narrowing.open(&[]).unwrap();
    assert!(narrowing.control.ip("addr show dev jtap0").unwrap().contains("10.7.0.1/24"));
    narrowing.set(&mut *rx, 1400);
    narrowing.until(&mut *rx, "its address", || {
        narrowing.has().iter().any(|line| line.contains("inet6 fd00:7::1/64"))
    });
}

#[test]
fn a_new_tap_announces_its_addresses_again() {
    if skip("a_new_tap_announces_its_addresses_again") {
        return;
    }
    let narrowing = Narrowing::new(1500);
    let control = &narrowing.control;
    let monitor = control.spawn(&["ip", "-o", "monitor", "address"]).unwrap();
    wait_for("ip to listen", PATIENCE, || {
        control.ip("addr replace 10.6.0.1/32 dev lo").unwrap();
        monitor.stdout().contains("10.6.0.1/32")
    })
    .unwrap();
    let _rx = narrowing.open(&[]).unwrap();
    // IPv6 says an address twice by itself: when it is added and when nobody else has it.
    for (address, times) in [("10.7.0.1/24", 2), ("fd00:7::1/64", 3)] {
        let said = || monitor.stdout().lines().filter(|line| line.contains(address)).count();
        wait_for(address, PATIENCE, || said() >= times)
            .unwrap_or_else(|why| panic!("{why}: {}", monitor.stdout()));
    }
}
