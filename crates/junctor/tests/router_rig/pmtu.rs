// SPDX-License-Identifier: MIT OR Apache-2.0
//! Path MTU discovery (RFC 1191): a sender on a wide network learns from the router how much the narrow one behind it
//! carries, by ICMP errors that the sender's kernel believes, and its transfer completes.
//!
//! The receiver, on the narrow network, announces the segments of a wide one (`advmss`), or TCP would never send a packet
//! that is too big and nothing would be discovered.

use testbed::rig::{Namespace, Process, Rig};

use crate::dut::{Dut, PATIENCE};
use crate::hosts::{done, ended};
use crate::judge::scapy;
use crate::on_rig;

/// Bytes that a transfer carries.
const BYTES: usize = 3_000_000;

/// Takes one connection's bytes and answers with their digest.
const SINK: &str = "
import hashlib, socket
server = socket.create_server(('', 7000))
print('ready', flush=True)
peer = server.accept()[0]
digest = hashlib.sha256()
while data := peer.recv(65536): digest.update(data)
peer.sendall(digest.hexdigest().encode())";

/// Sends bytes that no link could guess, and prints: whether what came is what went, the connection's path MTU (IP_MTU)
/// and its segment size (TCP_MAXSEG).
const SOURCE: &str = "
import hashlib, random, socket, sys
data = random.Random(7).randbytes(int(sys.argv[2]))
s = socket.create_connection((sys.argv[1], 7000), 100)
s.settimeout(100)
s.sendall(data)
s.shutdown(socket.SHUT_WR)
told = s.recv(64, socket.MSG_WAITALL).decode()
print(told == hashlib.sha256(data).hexdigest(), s.getsockopt(0, 14), s.getsockopt(6, 2))";

/// A rig from a network of 1500 bytes to one of 1280, whose hosts discover by ICMP and by nothing else.
pub fn narrow_rig() -> Rig {
    let rig = crate::router::rig(1500, 1280);
    for (knob, value) in [("ip_no_pmtu_disc", "0"), ("tcp_mtu_probing", "0")] {
        rig.a.sysctl(&format!("net/ipv4/{knob}"), value).unwrap();
    }
    rig.b.ip("route replace 10.0.1.0/24 via 10.0.2.1 advmss 1460").unwrap();
    rig
}

/// Captures at A what it sends to `to`, and the ICMP messages that it gets; returns when it listens.
fn observer(rig: &Rig, to: &str, file: &str) -> Process {
    let filter = format!("icmp or dst host {to}");
    let options = ["tcpdump", "-n", "-s", "1600", "-B", "65536", "-U", "--immediate-mode", "-Z", "root"];
    let mut process = rig.a.spawn(&[&options[..], &["-i", "a0", "-w", file, &filter]].concat()).unwrap();
    process.wait_for_text("listening on", PATIENCE).unwrap();
    process
}

/// What the kernel of a host knows of the path to an address.
fn learned(host: &Namespace, to: &str) -> String {
    host.ip(&format!("route get {to}")).unwrap()
}

/// A transfer by TCP from A to B, and the judge's verdict on each error that A got.
pub fn transfer(rig: &Rig, dut: &Dut) {
    let mut sink = rig.b.spawn(&["python3", "-c", SINK]).unwrap();
    sink.wait_for_text("ready", PATIENCE).unwrap();
    let capture = dut.file("tcp.pcap");
    let observer = observer(rig, "10.0.2.2", &capture);
    assert!(!learned(&rig.a, "10.0.2.2").contains("mtu"), "{}", learned(&rig.a, "10.0.2.2"));
    let source = ["python3", "-c", SOURCE, "10.0.2.2", &BYTES.to_string()];
    let said = rig.a.spawn(&source).unwrap().finish(PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    // 1280 bytes hold two headers of 20, time stamps of 12, and 1228 of data.
    assert_eq!(said.stdout.trim(), "True 1280 1228", "{}", said.stderr);
    let route = learned(&rig.a, "10.0.2.2");
    assert!(route.contains("mtu 1280"), "{route}");
    observer.interrupt(PATIENCE).unwrap();
    let verdict = scapy(&rig.a, &["needfrag", &capture, "10.0.1.2", "10.0.1.1", "1280"]);
    let errors: u64 = verdict.trim().strip_prefix("good ").unwrap().parse().unwrap();
    assert!(errors >= 1, "{verdict}");
}

/// A datagram that must stay whole is refused with the MTU, which the kernel keeps for that destination alone.
pub fn refusal(rig: &Rig) {
    let refused = ended(&rig.a, "ping -n -c2 -i0.1 -W60 -s1400 -Mdo 10.0.2.2");
    let text = format!("{}{}", refused.stdout, refused.stderr);
    assert!(text.contains("From 10.0.1.1") && text.contains("Frag needed and DF set (mtu = 1280)"), "{text}");
    assert!(learned(&rig.a, "10.0.2.2").contains("mtu 1280"), "{}", learned(&rig.a, "10.0.2.2"));
    assert!(!learned(&rig.a, "10.0.2.3").contains("mtu"), "{}", learned(&rig.a, "10.0.2.3"));
    // Now it is the sender that fragments; the receiver's answer is of any size that its own link carries.
    done(&rig.a, "ping -n -c1 -W60 -s1400 -Mwant 10.0.2.2");
    done(&rig.a, "ping -n -c1 -W60 -s1252 -Mdo 10.0.2.2");
}

// conformance: RFC1812-4.3.2.3-b RFC1812-4.3.2.4 RFC1812-4.3.3.1-d RFC1812-5.2.7.1-b
fn check_discovery(method: &str) {
    let rig = narrow_rig();
    let dut = Dut::router(&rig, method, &[], &[]);
    transfer(&rig, &dut);
    rig.a.ip("route flush cache").unwrap();
    refusal(&rig);
    let report = dut.stop();
    assert!(report.sent("mtu1", 1) >= 2, "{}", report.0.stdout);
    for reason in ["bad-checksum", "must-fragment", "too-long", "device-error"] {
        assert_eq!(report.all_drops(reason), 0, "{reason}: {}", report.0.stdout);
    }
}

on_rig! {
    senders_discover_the_path_mtu needs ["scapy", "tcpdump", "ping", "python3"] => check_discovery;
}
