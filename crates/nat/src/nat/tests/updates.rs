// SPDX-License-Identifier: MIT OR Apache-2.0
//! What RFC 7857 adds to the requirements, where no other test shows it.

use super::*;

// conformance: RFC7857-4-a
#[test]
fn a_host_without_a_port_gets_none_of_another_address() {
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.8-192.0.2.9 ports 2000-2001");
    let ask = |port: u32| format!("ip 10.0.1.5 > 203.0.113.1 / udp {port} > 53");
    for port in [4000, 4001] {
        out(&mut nat, 0, &ask(port)).unwrap();
    }
    assert_eq!(out(&mut nat, 0, &ask(4002)), Err(Cause::NoPort));
    out(&mut nat, 0, "ip 10.0.1.6 > 203.0.113.1 / udp 4000 > 53").unwrap();
}

// conformance: RFC7857-5-a RFC7857-6-a
#[test]
fn each_protocol_has_mappings_and_a_filter_of_its_own() {
    let mut nat = nat(HOME);
    let tcp = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags S").unwrap());
    let datagram = format!("ip 198.51.100.1 > 192.0.2.1 / udp 9 > {tcp}");
    // It is for the router itself.
    assert_eq!(come(&mut nat, 0, &datagram).unwrap(), format!("198.51.100.1:9 > 192.0.2.1:{tcp}"));
    let udp = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 80").unwrap());
    assert_eq!((nat.mappings(), udp == tcp), (2, false));
    let syn = format!("ip 198.51.100.1 > 192.0.2.1 / tcp 9 > {udp} flags S");
    assert_eq!(come(&mut nat, 0, &syn).unwrap(), format!("198.51.100.1:9 > 192.0.2.1:{udp}"));
    let syn = syn.replace(&udp.to_string(), &tcp.to_string());
    assert_eq!(come(&mut nat, 0, &syn).unwrap(), "198.51.100.1:9 > 10.0.1.5:4000");
}

// conformance: RFC7857-7.1-a
#[test]
fn refusals_of_a_host_do_not_keep_its_mapping() {
    let mut nat = nat(HOME);
    let tcp = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / tcp 4000 > 80 flags S").unwrap());
    let udp = port(&out(&mut nat, 0, "ip 10.0.1.5 > 203.0.113.1 / udp 4000 > 53").unwrap());
    let before: Vec<Session> = nat.sessions().collect();
    for now in [100 * S, 230 * S] {
        come(&mut nat, now, &format!("ip 198.51.100.1 > 192.0.2.1 / tcp 9 > {tcp} flags S")).unwrap();
        let reset = out(&mut nat, now, "ip 10.0.1.5 > 198.51.100.1 / tcp 4000 > 9 flags RA").unwrap();
        assert_eq!(reset, format!("192.0.2.1:{tcp} > 198.51.100.1:9"));
        for peer in ["203.0.113.1", "198.51.100.1"] {
            let mut asks = packet(&format!("ip {peer} > 192.0.2.1 / udp 53 > {udp} / payload 20"));
            assert_eq!(go(&mut nat, now, &mut asks, false), Outcome::Translated);
            let mut refusal = error(3, "10.0.1.5", peer, &asks);
            assert_eq!(go(&mut nat, now, &mut refusal, true), Outcome::Translated);
        }
    }
    let times = |all: &[Session]| all.iter().map(|one| one.expires_ns).collect::<Vec<_>>();
    assert_eq!(times(&nat.sessions().collect::<Vec<_>>()), times(&before));
    nat.reap(302 * S, 100);
    assert_eq!((nat.len(), nat.mappings()), (0, 0));
}

// conformance: RFC7857-9-a RFC7857-8-a
#[test]
fn nobody_guesses_the_next_outside_port() {
    let ports = |seed: u64| -> Vec<u16> {
        let mut nat = Nat::new(policy(HOME), &[], seed);
        let ask = |n: u32| format!("ip 10.0.1.5 > 203.0.113.1 / udp {} > 53", 4000 + 2 * n);
        (0..100).map(|n| port(&out(&mut nat, 0, &ask(n)).unwrap())).collect()
    };
    let [one, other] = [ports(1), ports(2)];
    let common = one.iter().filter(|port| other.contains(port)).count();
    let rises = one.windows(2).filter(|two| two[0] < two[1]).count();
    let near = one.windows(2).filter(|two| two[0].abs_diff(two[1]) < 64).count();
    let odd = one.iter().filter(|port| *port % 2 == 1).count();
    assert!(common < 10 && (25..75).contains(&rises) && near < 10 && (25..75).contains(&odd), "{one:?}");
}
