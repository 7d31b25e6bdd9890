// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protected packets come by the policies of a ready router again, since they go through its routing table. They pass as they are, whole or in fragments, also where policies
//! match ESP or their association has ended meanwhile.

use std::time::Duration;

use wire::Protocol;

use crate::long::Tunnel;
use crate::wired::{ESP, KEY, Wired, check, dual, kind, packet, sas, to};

/// Everything of a family goes by the tunnel, and ESP by a policy of its own before that.
fn everything(tunnel: Tunnel) -> String {
    let [here, there] = tunnel.ends();
    let tmpl = format!("dir out tmpl src {here} dst {there} reqid 1 mode tunnel");
    let of = |all: &str| {
        format!(
            "POLICY src {all} dst {all} {tmpl} priority 9, POLICY src {all} dst {all} proto esp {tmpl} priority 1,\n"
        )
    };
    sas(tunnel.ends()) + &of("0.0.0.0/0") + &of("::/0")
}

#[test]
fn what_is_protected_is_not_protected_again() {
    for tunnel in Tunnel::all() {
        let end = tunnel.ends()[1];
        let mut router = Wired::new(&dual(&everything(tunnel)));
        router.router.write("r/ipsec.path_mtu", &format!("dst {end} spi 0x100 1280"));
        // It fits, and it must be in fragments: of IPv6 because the path is narrow, of IPv4 because the link is. The former is for routers on the way in a tunnel of IPv4.
        for len in [100, [1500, 1280][tunnel.inner]] {
            let clear = tunnel.packet(len, false);
            let sent = router.send(1, std::slice::from_ref(&clear));
            let esp: Vec<_> = sent.into_iter().map(|(at, packet)| (at == 0).then_some(packet)).collect();
            let esp: Vec<_> = esp.into_iter().map(|packet| packet.expect("it leaves by the link")).collect();
            let is_whole = len == 100 || (tunnel.inner, tunnel.outer) == (1, 0);
            assert_eq!(esp.len(), if is_whole { 1 } else { 2 }, "{tunnel:?}: {:?}", router.router.drops());
            assert!(esp.iter().all(|packet| kind(packet).1 == to(end)));
            let opened = tunnel.opened(&esp);
            assert_eq!(opened.len(), 1, "{tunnel:?}");
            assert_eq!(opened[0].len(), len, "{tunnel:?}: protected once");
        }
        assert_eq!(["no-sa", "must-fragment"].map(|reason| router.drops(reason)), [0; 2]);
    }
}

/// ESP of a host behind the router is a packet as any other.
#[test]
fn esp_of_others_is_protected_once() {
    for tunnel in Tunnel::all().filter(|tunnel| tunnel.inner == tunnel.outer) {
        let [near, far] = [["10.1.0.9", "10.2.0.9"], ["2001:db8:1::9", "2001:db8:2::9"]][tunnel.inner];
        let mut router = Wired::new(&dual(&everything(tunnel)));
        let theirs = packet(near, far, Protocol::ESP, &[7; 60]);
        let sent = router.send(1, std::slice::from_ref(&theirs));
        let [(0, esp)] = &sent[..] else { panic!("{sent:?}: {:?}", router.router.drops()) };
        assert_eq!(kind(esp), (ESP, to(tunnel.ends()[1])));
        let opened = tunnel.opened(std::slice::from_ref(esp));
        assert_eq!(opened[0][[20, 40][tunnel.inner]..], theirs[[20, 40][tunnel.inner]..]);
    }
}

/// The packet that reaches a limit still passes. Its association is not there any more when it comes again.
#[test]
fn the_last_packets_of_an_association_pass() {
    for tunnel in Tunnel::all() {
        let limited = everything(tunnel).replacen("128,", "128 limit packet-hard 3,", 1);
        let mut router = Wired::new(&dual(&limited));
        let clear = tunnel.packet(100, false);
        // The neighbour is known then, so nothing waits.
        assert_eq!(router.send(1, std::slice::from_ref(&clear)).len(), 1);
        let sent = router.send(1, &[clear.clone(), clear.clone(), clear]);
        let kinds: Vec<_> = sent.iter().map(|(at, packet)| (*at, kind(packet))).collect();
        assert_eq!(kinds, [(0, (ESP, to(tunnel.ends()[1]))); 2], "{tunnel:?}: {:?}", router.router.drops());
    }
}

/// Transport mode between the router and a host: the router's answers.
#[test]
fn answers_in_transport_mode_are_protected_once() {
    let families = [("192.0.2.1", "192.0.2.2", 1), ("2001:db8:9::1", "2001:db8:9::2", 58)];
    for (here, there, icmp) in families {
        let all = format!(
            "SA src {here} dst {there} spi 0x100 mode transport aead aes-gcm {KEY} 128,
            POLICY src {here} dst {there} dir out tmpl mode transport,
            POLICY src {here} dst {there} proto esp dir out priority 0 action block,\n"
        );
        let mut router = Wired::new(&dual(&all));
        let mut echo = vec![if icmp == 1 { 8 } else { 128 }, 0, 0, 0, 0, 1, 0, 1];
        echo.extend([0x5a; 1232]);
        let mut ping = packet(there, here, Protocol(icmp), &echo);
        if let (std::net::IpAddr::V6(src), std::net::IpAddr::V6(dst)) = (to(there), to(here)) {
            wire::icmpv6::View::new_checked(&mut ping[40..]).unwrap().fill_checksum(src, dst);
        } else {
            let sum = wire::checksum::internet(&ping[20..]);
            ping[22..24].copy_from_slice(&sum.to_be_bytes());
        }
        check(&mut router, 0, &[ping], &[(0, ESP, there)]);
    }
}

/// The dummy that reaches a limit leaves, too, though its association is not there any more when the dummy comes to the policies.
#[test]
fn the_last_dummy_of_an_association_passes() {
    for tunnel in Tunnel::all() {
        let filled = everything(tunnel).replacen("128,", "128 dummies 20 limit packet-hard 9,", 1);
        let mut router = Wired::new(&dual(&filled));
        // The neighbour is known then, so nothing waits.
        assert_eq!(router.send(1, &[tunnel.packet(100, false)]).len(), 1);
        router.router.run(Duration::from_secs(3));
        let end = to(tunnel.ends()[1]);
        let came = router.router.collect().into_iter();
        let left = came.filter(|(at, frame)| *at == 0 && kind(&frame[14..]) == (ESP, end)).count();
        assert_eq!(router.router.read("r/dummies.sent").trim(), "8");
        assert_eq!((left, router.drops("no-sa")), (8, 0), "{tunnel:?}: {:?}", router.router.drops());
    }
}

/// An association sends one packet and then dummies. Each is counted once.
#[test]
fn dummies_are_protected_once() {
    for tunnel in Tunnel::all() {
        let filled = everything(tunnel).replacen("128,", "128 dummies 20,", 1);
        let mut router = Wired::new(&dual(&filled));
        // The neighbour is known then, so nothing waits.
        assert_eq!(router.send(1, &[tunnel.packet(100, false)]).len(), 1);
        router.router.run(Duration::from_secs(3));
        let sas = router.router.read("r/ipsec.sas");
        let (_, after) = sas.split_once("spi 0x00000100").unwrap();
        let count = |word: &str| {
            let mut words = after.split_whitespace().skip_while(|other| *other != word);
            words.nth(1).and_then(|number| number.parse::<u64>().ok()).unwrap_or_else(|| panic!("{sas}"))
        };
        let sent: u64 = router.router.read("r/dummies.sent").trim().parse().unwrap();
        assert!(sent > 10, "{tunnel:?}: {sent}");
        assert_eq!(count("packets"), sent + 1, "{tunnel:?}: {sas}");
    }
}
