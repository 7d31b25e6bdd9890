// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that are too long when a ready router has protected them: who hears of it, what length fits, and what is fragmented.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use testbed::account::Accounted;
use testbed::rig::{Cable, Namespace, skip_without, wait_for};
use wire::{Protocol, checksum, icmpv6};

use crate::site::PATIENCE;
use crate::wired::{
    ENDS, ENDS6, ESP, ICMP, ICMP6, NETS, NETS6, Wired, dual, kind, packet, peer, policies, sas, sealed, to,
    udp,
};

/// A host of each family on either side of a tunnel.
const HOSTS: [[&str; 2]; 2] = [["10.1.0.9", "10.2.0.9"], ["2001:db8:1::9", "2001:db8:2::9"]];
/// A router between the gateways.
const BETWEEN: [&str; 2] = ["192.0.2.77", "2001:db8:9::77"];

/// A tunnel of one family that carries packets of another, or of its own.
#[derive(Clone, Copy, Debug)]
pub struct Tunnel {
    pub inner: usize,
    pub outer: usize,
}

impl Tunnel {
    pub fn all() -> impl Iterator<Item = Tunnel> {
        [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().map(|(inner, outer)| Tunnel { inner, outer })
    }

    pub fn ends(self) -> [&'static str; 2] {
        [ENDS, ENDS6][self.outer]
    }

    /// The gateway's associations and policies, as arguments of a router.
    fn databases(self) -> String {
        sas(self.ends()) + &policies(self.ends(), [NETS, NETS6][self.inner])
    }

    /// A packet of so many bytes from the near host to the far one, which nobody may fragment, or anybody if it is of IPv4.
    pub fn packet(self, len: usize, is_fixed: bool) -> Vec<u8> {
        let [near, far] = HOSTS[self.inner];
        let mut packet = udp(near, far, 7, len - [28, 48][self.inner]);
        if is_fixed {
            forbid_fragments(&mut packet);
        }
        packet
    }

    /// The other gateway opens what came, put together if it came in fragments.
    pub fn opened(self, esp: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let [here, there] = self.ends();
        let [near, far] = [NETS, NETS6][self.inner];
        let text = format!(
            "db :: IPsecDatabase({}POLICY src {near} dst {far} dir fwd tmpl src {here} dst {there} reqid 1 mode tunnel);
            FromDevice(m0) -> Strip(14) -> c :: Classifier(0/40%f0, -);
            c[0] -> CheckIPHeader -> IPReassembler -> dec :: IPsecDecrypt(db);
            c[1] -> CheckIP6Header -> IP6Reassembler -> dec;
            dec -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Queue -> ToDevice(m0);",
            sas(self.ends())
        );
        let mut peer = Accounted::new(&text, 32).unwrap_or_else(|why| panic!("{why}"));
        for packet in esp {
            assert!(peer.inject(0, &[&[0; 14], &packet[..]].concat()));
        }
        peer.run(Duration::from_millis(1));
        let out: Vec<_> = peer.collect().into_iter().map(|(_, frame)| frame[14..].to_vec()).collect();
        assert!(peer.drops().is_empty(), "{self:?}: {:?}", peer.drops());
        out
    }
}

fn forbid_fragments(packet: &mut [u8]) {
    if packet[0] >> 4 == 4 {
        packet[6] |= 0x40;
        packet[10..12].fill(0);
        let sum = checksum::internet(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The MTU that an ICMP error about a packet of this host names.
fn named(error: &[u8], host: &str) -> usize {
    let (protocol, dst) = kind(error);
    let is_four = error[0] >> 4 == 4;
    assert_eq!((protocol, dst), (if is_four { ICMP } else { ICMP6 }, to(host)));
    let header_len = if is_four { 20 } else { 40 };
    let message = &error[header_len..];
    assert_eq!(message[..2], if is_four { [3, 4] } else { [2, 0] });
    let quoted = &message[8..];
    let src_at = if is_four { 12..16 } else { 8..24 };
    let dst_at = if is_four { 16..20 } else { 24..40 };
    assert_eq!(quoted[src_at], error[dst_at], "it quotes what that host sent");
    u32::from_be_bytes(*message[4..].first_chunk().unwrap()) as usize
}

/// The only packet that left, by this interface.
fn only(sent: Vec<(usize, Vec<u8>)>, at: usize) -> Vec<u8> {
    let kinds: Vec<_> = sent.iter().map(|(at, packet)| (*at, kind(packet), packet.len())).collect();
    let Ok([(by, packet)]) = <[_; 1]>::try_from(sent) else { panic!("{kinds:?}") };
    assert_eq!(by, at, "{kinds:?}");
    packet
}

/// The host hears what fits. That passes in one piece, and a byte more does not. Returns what fits.
fn discover(router: &mut Wired, tunnel: Tunnel, link: usize) -> usize {
    let host = HOSTS[tunnel.inner][0];
    let mtu = named(&only(router.send(1, &[tunnel.packet(1500, true)]), 1), host);
    assert_eq!(named(&only(router.send(1, &[tunnel.packet(mtu + 1, true)]), 1), host), mtu, "{tunnel:?}");
    let esp = only(router.send(1, &[tunnel.packet(mtu, true)]), 0);
    assert_eq!(kind(&esp), (ESP, to(tunnel.ends()[1])));
    assert!((link - 3..=link).contains(&esp.len()), "{tunnel:?}: {} bytes on a link of {link}", esp.len());
    assert_eq!(only(tunnel.opened(&[esp]).into_iter().map(|out| (1, out)).collect(), 1).len(), mtu);
    mtu
}

#[test]
fn hosts_hear_what_fits() {
    for tunnel in Tunnel::all() {
        let mut router = Wired::new(&dual(&tunnel.databases()));
        discover(&mut router, tunnel, 1500);
        // Every link takes these, so nobody hears of them.
        let least = [576, 1280][tunnel.inner];
        only(router.send(1, &[tunnel.packet(least, true)]), 0);
    }
}

/// The packets' payloads behind the headers, joined as their offsets say.
fn payload(fragments: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for fragment in fragments {
        let offset = usize::from(u16::from_be_bytes([fragment[6], fragment[7]]) & 0x1fff) * 8;
        assert_eq!(bytes.len(), offset);
        bytes.extend_from_slice(&fragment[20..]);
    }
    bytes
}

/// The tunnel's packets are fragments, or the tunnel carries fragments.
#[test]
fn packets_that_may_be_fragmented_are() {
    for outer in [0, 1] {
        let tunnel = Tunnel { inner: 0, outer };
        for (len, pieces) in [(1500, 2), (4000, 3)] {
            let clear = tunnel.packet(len, false);
            for before in [false, true] {
                let text = tunnel.databases() + if before { "FRAGMENT before," } else { "" };
                let mut router = Wired::new(&dual(&text));
                let sent = router.send(1, std::slice::from_ref(&clear));
                let esp: Vec<_> = sent.into_iter().map(|(_, packet)| packet).collect();
                assert_eq!(esp.len(), pieces, "{:?}", router.router.drops());
                assert!(esp.iter().all(|packet| packet.len() <= 1500));
                let is_whole = |esp: &Vec<u8>| match outer {
                    0 => esp[6..8] == [0, 0] && esp[9] == ESP,
                    _ => esp[6] == ESP,
                };
                assert_eq!(esp.iter().all(is_whole), before, "{tunnel:?}");
                let opened = tunnel.opened(&esp);
                assert_eq!(opened.len(), if before { pieces } else { 1 });
                assert_eq!(payload(&opened), clear[20..], "{tunnel:?} {before}");
            }
        }
    }
}

/// What a router between the gateways says of an ESP packet: it is longer than `mtu`.
fn too_long(esp: &[u8], mtu: u32) -> Vec<u8> {
    let outer = usize::from(esp[0] >> 4 == 6);
    let [from, gateway] = [BETWEEN[outer], [ENDS, ENDS6][outer][0]];
    let mut message = [&[[3, 4], [2, 0]][outer][..], &[0, 0], &mtu.to_be_bytes(), &esp[..100]].concat();
    let protocol = [Protocol::ICMP, Protocol::ICMPV6][outer];
    if let (std::net::IpAddr::V6(src), std::net::IpAddr::V6(dst)) = (to(from), to(gateway)) {
        icmpv6::View::new_checked(&mut message).unwrap().fill_checksum(src, dst);
    } else {
        let sum = checksum::internet(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    packet(from, gateway, protocol, &message)
}

/// A narrower link between the gateways.
#[test]
fn messages_from_between_the_gateways_reach_the_hosts() {
    const NARROW: usize = 1400;
    for tunnel in Tunnel::all() {
        let mut router = Wired::new(&dual(&(tunnel.databases())));
        let wide = discover(&mut router, tunnel, 1500);
        let esp = only(router.send(1, &[tunnel.packet(wide, true)]), 0);
        let mut stranger = esp.clone();
        // Its SPI.
        stranger[[20, 40][tunnel.outer] + 3] ^= 1;
        assert_eq!(router.send(0, &[too_long(&stranger, 1300)]), [], "{tunnel:?}");
        assert_eq!(discover(&mut router, tunnel, 1500), wide, "it was not believed");
        assert_eq!(router.send(0, &[too_long(&esp, NARROW as u32)]), [], "{tunnel:?}");
        let narrow = discover(&mut router, tunnel, NARROW);
        assert!(narrow < wide, "{tunnel:?}: {narrow}");
        if tunnel.inner == 0 {
            may_be_fragmented(&mut router, tunnel, (wide, NARROW));
        }
    }
}

/// An IPv4 packet that is too long for the narrow link may be fragmented there, or is before.
fn may_be_fragmented(router: &mut Wired, tunnel: Tunnel, (len, link): (usize, usize)) {
    let sent = router.send(1, &[tunnel.packet(len, false)]);
    let esp: Vec<_> = sent.into_iter().map(|(_, packet)| packet).collect();
    assert!(
        esp.iter().all(|packet| packet.len() <= link || tunnel.outer == 0 && packet[6] & 0x40 == 0),
        "{tunnel:?}"
    );
    assert_eq!(tunnel.opened(&esp).iter().map(Vec::len).collect::<Vec<_>>(), [len], "{tunnel:?}");
}

/// The shortest IPv6 packets that hosts may have to send pass the narrowest path.
#[test]
fn the_narrowest_path_takes_the_shortest_packets() {
    let tunnel = Tunnel { inner: 1, outer: 1 };
    let mut router = Wired::new(&dual(&tunnel.databases()));
    let esp = only(router.send(1, &[tunnel.packet(1400, true)]), 0);
    assert_eq!(router.send(0, &[too_long(&esp, 1280)]), []);
    let sent = router.send(1, &[tunnel.packet(1280, true)]);
    let esp: Vec<_> = sent.into_iter().map(|(_, packet)| packet).collect();
    assert!(esp.len() == 2 && esp.iter().all(|packet| packet.len() <= 1280));
    assert_eq!(tunnel.opened(&esp)[0].len(), 1280);
}

/// A packet that came by the tunnel is too long for the network behind. Its sender hears of it by the tunnel.
#[test]
fn senders_behind_the_tunnel_hear_by_the_tunnel() {
    for tunnel in Tunnel::all() {
        let [near, far] = HOSTS[tunnel.inner];
        let mut long = udp(far, near, 7, 1400 - [28, 48][tunnel.inner]);
        forbid_fragments(&mut long);
        let all = ["0.0.0.0/0", "::/0"][tunnel.inner];
        let esp = sealed(&peer(tunnel.ends(), all), &[long]);
        let text = dual(&tunnel.databases())
            .replace("m1 10.1.0.1/16 2001:db8:1::1/64 MTU 1500", "m1 10.1.0.1/16 2001:db8:1::1/64 MTU 1300");
        let mut router = Wired::new(&text);
        // The message itself may be too long for the narrowest link.
        let answer: Vec<_> = router.send(0, &esp).into_iter().map(|(_, packet)| packet).collect();
        let is_esp =
            |packet: &Vec<u8>| matches!(kind(packet), (ESP | 44, to_whom) if to_whom == to(tunnel.ends()[1]));
        assert!(answer.iter().all(is_esp), "{tunnel:?}");
        let [error] = &tunnel.opened(&answer)[..] else { panic!("one message") };
        assert_eq!(named(error, far), 1300, "{tunnel:?}");
    }
}

/// Sends what fits the link. Prints what fits the path, when the kernel has heard it.
const SENDER: &str = "
import socket, sys, time
family, level, discover, option, headers = [(2, 0, 10, 14, 28), (10, 41, 23, 24, 48)][':' in sys.argv[1]]
s = socket.socket(family, 2)
while s.getsockname()[1] == 0:
    # The kernel has just got the address, and may still ask whether somebody else has it.
    try: s.bind((sys.argv[1], 0))
    except OSError: time.sleep(0.01)
s.setsockopt(level, discover, 2)
s.connect((sys.argv[2], 7))
while s.getsockopt(level, option) == 1500:
    try: s.send(bytes(1500 - headers))
    except OSError: pass
    time.sleep(0.01)
print(s.getsockopt(level, option))
";

/// The kernel's own packets are protected, too. It hears as hosts do what fits, though it takes no message from an address of its own.
#[test]
fn the_kernel_believes_what_it_hears() {
    if skip_without("the_kernel_believes_what_it_hears", &["ip", "python3"]) {
        return;
    }
    let [dut, peer, kernel] = ["d", "p", "k"].map(|role| Namespace::new(role).unwrap());
    for device in ["all", "default"] {
        kernel.sysctl(&format!("net/ipv6/conf/{device}/disable_ipv6"), "0").unwrap();
    }
    for number in 0..2 {
        Cable::default().lay(&peer, &format!("p{number}"), &dut, &format!("m{number}")).unwrap();
    }
    let files = tempfile::tempdir().unwrap();
    let [config, socket] =
        ["router.click", "router.sock"].map(|name| files.path().join(name).display().to_string());
    let tunnels = [0, 1].map(|inner| Tunnel { inner, outer: 0 });
    let all = sas(ENDS) + &policies(ENDS, NETS) + &policies(ENDS, NETS6);
    let host = format!("{all} METHOD AF_PACKET, HOST true, NETNS {},", kernel.name());
    // Twins have the addresses of their devices.
    let text = (1..3).fold(dual(&host), |text, n| text.replace(&format!(" ETHER 02:00:00:00:00:0{n}"), ""));
    std::fs::write(&config, text).unwrap();
    let mut router =
        dut.spawn(&[env!("CARGO_BIN_EXE_junctor"), "run", "--control", &socket, &config]).unwrap();
    wait_for("the router", PATIENCE, || UnixStream::connect(&socket).is_ok() || router.ended().is_some())
        .unwrap();
    assert!(router.ended().is_none(), "{}", router.stderr());
    kernel.wait_for_link("host0").unwrap();
    for tunnel in tunnels {
        let [own, gateway] = [["10.1.0.1", ENDS[1]], ["2001:db8:1::1", ENDS6[1]]][tunnel.inner];
        kernel.ip(&format!("neigh replace {gateway} lladdr 02:00:00:09:09:02 dev host0")).unwrap();
        let far = [NETS, NETS6][tunnel.inner][1];
        kernel.ip(&format!("route replace {far} via {gateway} dev host0")).unwrap();
        let sender = kernel.spawn(&["python3", "-c", SENDER, own, HOSTS[tunnel.inner][1]]).unwrap();
        let said = sender.finish(PATIENCE).unwrap();
        assert_eq!(said.stdout.trim(), "1446", "{tunnel:?}: {}", said.stderr);
    }
}
