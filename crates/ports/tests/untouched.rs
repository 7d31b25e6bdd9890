// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts behind virtual cables on which nobody has changed a setting: checksums are left unfinished and segments joined, with and
//! without VLAN tags.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{PATIENCE, Scratch, conserving, open, spec};
use junctor_ports::SystemProvider;
use junctor_ports::live::Tagger;
use packet::Batch;
use testbed::rig::{Cable, Rig, skip_without};

/// Both protocols over both families: an echo of datagrams of all lengths, and transfers both ways whose hashes are compared. The
/// last transfer has a destination options header in front of each of its client's segments.
const HOSTS: &str = "
import hashlib, socket, sys, threading
SIZES = [0, 1, 2, 3, 17, 100, 511, 1000, 1200] * 4
BYTES = 3 << 20
# Leaves room for two tags, one more than the cable has.
SEGMENT = 1400
HOSTS = [(socket.AF_INET, '10.0.1.3'), (socket.AF_INET6, 'fd00::3')]

def serve_udp(s):
    while True:
        data, peer = s.recvfrom(4096)
        s.sendto(data, peer)

def serve_tcp(s):
    while True:
        c, _ = s.accept()
        h, n = hashlib.sha256(), 0
        while n < BYTES:
            d = c.recv(65536)
            if not d: break
            h.update(d); n += len(d)
        c.sendall(h.digest() + b'x' * BYTES)
        c.close()

def server():
    for family, address in HOSTS:
        u = socket.socket(family, socket.SOCK_DGRAM); u.bind((address, 5000))
        threading.Thread(target=serve_udp, args=(u,), daemon=True).start()
        t = socket.create_server((address, 5000), family=family)
        t.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
        threading.Thread(target=serve_tcp, args=(t,), daemon=True).start()
    print('ready', flush=True)
    threading.Event().wait()

def echo(family, address):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(2); s.connect((address, 5000))
    for i, size in enumerate(SIZES):
        data = bytes((i * 31 + j * 7) & 255 for j in range(size))
        for attempt in range(30):
            s.send(data)
            try:
                if s.recv(4096) == data: break
            except TimeoutError: pass
        else: sys.exit(f'no echo of {size} bytes from {address}')

def transfer(family, address, options=None):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(100)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
    if options: s.setsockopt(socket.IPPROTO_IPV6, 59, options)
    s.connect((address, 5000))
    data = b''.join(b'%07d.' % i for i in range(BYTES // 8))
    s.sendall(data)
    back = b''
    while len(back) < BYTES + 32:
        d = s.recv(65536)
        if not d: break
        back += d
    if back != hashlib.sha256(data).digest() + b'x' * BYTES: sys.exit(f'transfer damaged: {address}')

def client():
    for family, address in HOSTS:
        echo(family, address)
        transfer(family, address)
    transfer(*HOSTS[1], bytes([0, 0, 1, 4, 0, 0, 0, 0]))
    print('all well')

server() if sys.argv[1] == 'server' else client()
";

/// Datagrams and their echoes, which all had an unfinished checksum.
const ECHOES: u64 = 2 * 36;

/// Bridges `d0` and `d1` between the hosts and has tshark judge what arrives.
fn check(method: &str, tags: &[(u16, u16)]) {
    let scratch = Scratch::new();
    let rig = Rig::new(Cable { untouched: true, ..Cable::default() }).unwrap();
    let hosts = [(&rig.a, "a0", 2), (&rig.b, "b0", 3)];
    let mut taggers = Vec::new();
    for (host, interface, number) in hosts {
        host.ip(&format!("addr add 10.0.1.{number}/24 dev {interface}")).unwrap();
        host.sysctl(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "0").unwrap();
        host.ip(&format!("addr add fd00::{number}/64 dev {interface} nodad")).unwrap();
        if !tags.is_empty() {
            taggers.push(host.enter(|| Tagger::new(interface, tags).unwrap()).unwrap());
        }
    }
    let captures = [scratch.file("a.pcap"), scratch.file("b.pcap")];
    let observers =
        [common::observer(&rig.a, "a0", &captures[0]), common::observer(&rig.b, "b0", &captures[1])];
    let mut server = rig.b.spawn(&["/usr/bin/python3", "-c", HOSTS, "server"]).unwrap();
    server.wait_for_text("ready", PATIENCE).unwrap();
    let stop = AtomicBool::new(false);
    let bridge = || {
        let provider = SystemProvider::new();
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
        rx.map(|rx| rx.stats())
    };
    let (client, stats) = std::thread::scope(|scope| {
        let bridge = scope.spawn(|| rig.dut.enter(bridge).unwrap());
        let client = rig.a.spawn(&["/usr/bin/python3", "-c", HOSTS, "client"]).unwrap().finish(PATIENCE);
        stop.store(true, Ordering::Relaxed);
        (client.unwrap(), bridge.join().unwrap())
    });
    drop((observers, server));
    assert!(client.stdout.contains("all well"), "{}{}{stats:?}", client.stdout, client.stderr);
    for (stats, capture) in stats.iter().zip(captures.iter().rev()) {
        assert!(stats.completed >= ECHOES && stats.completed <= stats.packets, "{stats:?}");
        assert_eq!(stats.errors, 0, "{stats:?}");
        judge(&rig, capture, tags, stats.completed);
    }
}

/// What tshark says of the frames that a host received: none is too long or has a wrong checksum, all have the tags, and as many as
/// were completed are there (the capture may have lost some).
fn judge(rig: &Rig, capture: &str, tags: &[(u16, u16)], completed: u64) {
    let tshark = |filter: &str| {
        let checks = ["tcp.check_checksum:TRUE", "udp.check_checksum:TRUE", "ip.check_checksum:TRUE"];
        let mut command = vec!["tshark", "-r", capture, "-Y", filter];
        checks.iter().for_each(|check| command.extend(["-o", check]));
        rig.b.run(&command).unwrap()
    };
    let longest = 1500 + 14;
    let wrong = format!(
        "frame.len > {longest} or ip.checksum.status == 0 or tcp.checksum.status == 0 or udp.checksum.status == 0"
    );
    let verdict = tshark(&wrong);
    assert!(verdict.trim().is_empty(), "{verdict}");
    // The outermost tag comes first.
    let bytes = tags.iter().rev().flat_map(|(kind, tag)| [kind.to_be_bytes(), tag.to_be_bytes()].concat());
    let bytes: Vec<String> = bytes.map(|byte| format!("{byte:02x}")).collect();
    let expected = match bytes.len() {
        0 => "not vlan".to_owned(),
        len => format!("frame[12:{len}] == {}", bytes.join(":")),
    };
    let transport = tshark("tcp or udp").lines().count();
    assert!(transport > 0 && transport as u64 <= completed + 8, "{transport} of {completed}");
    let strangers = tshark(&format!("(tcp or udp) and not ({expected})"));
    assert!(strangers.trim().is_empty(), "{strangers}");
}

macro_rules! on_rig {
    ($($name:ident => $body:expr;)*) => {$(
        #[test]
        fn $name() {
            if !skip_without(stringify!($name), &["python3", "tcpdump", "tshark"]) {
                conserving(|| $body);
            }
        }
    )*};
}

const ONE: [(u16, u16); 1] = [(0x8100, 100)];
const TWO: [(u16, u16); 2] = [(0x8100, 11), (0x88a8, 10)];

on_rig! {
    af_xdp_completes_checksums => check("AF_XDP", &[]);
    af_xdp_completes_checksums_behind_a_tag => check("AF_XDP", &ONE);
    af_xdp_completes_checksums_behind_two_tags => check("AF_XDP", &TWO);
    generic_af_xdp_completes_checksums => check("AF_XDP_GENERIC", &[]);
    af_packet_completes_checksums => check("AF_PACKET", &[]);
    af_packet_completes_checksums_behind_a_tag => check("AF_PACKET", &ONE);
    af_packet_completes_checksums_behind_two_tags => check("AF_PACKET", &TWO);
}
