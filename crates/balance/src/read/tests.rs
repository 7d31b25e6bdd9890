// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::policy::{Check, Kind, Mode, SECOND, TCP, UDP};

const WHOLE: &str = "# A site.
own 10.0.1.1
own 2001:db8:1::1
service web tcp 192.0.2.80 port http,https direct
server web 10.0.1.11 weight 2
server web 10.0.1.12-10.0.1.14
server web 10.0.1.15 drain
check web tcp every 5s timeout 1s rise 1 fall 2
persist web source for 90s
service dns udp 192.0.2.80 port 53
server dns 10.0.1.21 port 5353 weight 0
check dns icmp
service all any 2001:db8::80 nat large
server all 2001:db8:1::11
timeout tcp 2h
timeout udp 90
sessions 1000
clients 2000
seed 7
";

/// The messages of a text, each with its help.
fn messages(text: &str) -> Vec<String> {
    let reading = read("text", text);
    assert_eq!(
        reading.policy.is_some(),
        reading.diagnostics.iter().all(|d| d.severity != lang::Severity::Error)
    );
    let all = reading.diagnostics.iter();
    all.map(|d| format!("{}: {}", d.message, d.help.clone().unwrap_or_default())).collect()
}

#[test]
fn a_whole_file() {
    let reading = read("text", WHOLE);
    assert!(reading.diagnostics.is_empty(), "{:?}", reading.diagnostics);
    let policy = reading.policy.unwrap();
    let [web, dns, all] = &policy.services[..] else { panic!("{policy:?}") };
    assert_eq!(
        (web.protocol, web.mode, web.persist_ns, web.is_large),
        (Some(TCP), Mode::Direct, Some(90 * SECOND), false)
    );
    assert_eq!((&web.ports[..], web.line), (&[(80, 80), (443, 443)][..], 4));
    let servers: Vec<_> = web.servers.iter().map(|s| (s.address.to_string(), s.weight, s.drains)).collect();
    let expected = [("10.0.1.11", 2), ("10.0.1.12", 1), ("10.0.1.13", 1), ("10.0.1.14", 1), ("10.0.1.15", 1)];
    let expected: Vec<_> = expected.map(|(a, w)| (a.to_owned(), w, a.ends_with("15"))).into();
    assert_eq!(servers, expected);
    let check = Check { kind: Kind::Tcp(None), every_ns: 5 * SECOND, timeout_ns: SECOND, rise: 1, fall: 2 };
    assert_eq!((web.check, web.checked_port(&web.servers[0])), (Some(check), Some(80)));
    assert_eq!((dns.protocol, dns.servers[0].port, dns.servers[0].weight), (Some(UDP), Some(5353), 0));
    assert_eq!(dns.check.map(|check| (check.kind, check.rise, check.fall)), Some((Kind::Icmp, 2, 3)));
    assert_eq!((all.protocol, all.mode, all.is_large, all.check), (None, Mode::Nat, true, None));
    assert_eq!((policy.timeouts.tcp, policy.timeouts.udp), (7200 * SECOND, 90 * SECOND));
    assert_eq!((policy.sessions, policy.clients, policy.seed, policy.servers()), (1000, 2000, 7, 7));
    assert_eq!(policy.own_for("::9".parse().unwrap()), Some("2001:db8:1::1".parse().unwrap()));
}

#[test]
fn mistakes_have_their_remedy() {
    let service = "service web tcp 192.0.2.80 port 80\n";
    for (text, said) in [
        ("servise web", "unknown statement 'servise': did you mean `service`?"),
        ("service", "the name of the service is missing: write `service NAME"),
        ("service \"my web\" tcp 192.0.2.80", "'my web' is not a name of a service: write letters, digits"),
        ("service \"\" tcp 192.0.2.80", "'' is not a name of a service: write"),
        ("service wéb tcp 192.0.2.80", "'wéb' is not a name of a service: write"),
        ("service web http 192.0.2.80", "unknown protocol of a service 'http'"),
        ("service web tcp www", "'www' is not an IP address: write one address"),
        ("service web tcp 224.0.0.1", "'224.0.0.1' is not the address of a host"),
        ("service web tcp ::ffff:192.0.2.80", "is not the address of a host"),
        ("service web tcp 192.0.2.80 port 0", "'0' is not a port: write a number from 1 to 65535"),
        ("service web tcp 192.0.2.80 port 9-5", "'9-5' is not a port"),
        ("service web any 192.0.2.80 port 9", "a service for any protocol has no ports: leave"),
        ("service web tcp 192.0.2.80 direct nat", "'nat' does not go with what stands before: leave one out"),
        ("service web tcp 192.0.2.80 now", "unknown option 'now': known: port, direct, nat, large"),
        ("+service web udp 192.0.2.80", "there are two services 'web': give"),
        ("+service two tcp 192.0.2.80 port 79-81", "port 80 would belong to 'two' and to 'web': leave"),
        ("service two tcp 192.0.2.80 port 80,80", "port 80 of service 'two' is listed twice"),
        ("+server wab 10.0.0.1", "unknown service 'wab': did you mean `web`?"),
        ("server web 10.0.0.1", "unknown service 'web': declare a service first"),
        ("+server web", "the server's address is missing"),
        ("+server web 10.0.0.1 weight 1001", "'1001' is not such a number: write a number from 0 to 1000"),
        ("+server web 10.0.0.1 port 8000-8001", "'8000-8001' is several ports: write one port"),
        ("+server web ::1", "of different families: give the service"),
        ("+server web 10.0.0.0/8", "more than 4096 servers: write"),
        ("+server web 10.0.0.9-10.0.0.1", "ends before it begins: write an address or FIRST-LAST"),
        ("+server web 10.0.0.1\nserver web 10.0.0.1 weight 2", "server 10.0.0.1 is listed twice: leave"),
        ("+server web 192.0.2.80", "has the address of a service: its packets would go in a circle: name"),
        ("service web tcp 192.0.2.80 direct\nserver web 10.0.0.1 port 8", "keep their port: leave"),
        ("+check web http", "unknown kind of check 'http'"),
        ("+check web icmp port 7", "an ICMP check has no port: leave"),
        ("+check web tcp", "have no IPv4 address to come from: add `own ADDRESS`"),
        ("+own 10.0.0.2\ncheck web tcp every 1s timeout 2s", "before the last one has timed out"),
        ("+own 10.0.0.2\ncheck web tcp every 1ms timeout 1ms", "too frequent: write 100ms or more"),
        ("+check web none\ncheck web none", "'check web' is given twice: leave one out"),
        ("+check web tcp rise", "a value is missing"),
        (
            "own 10.0.0.2\nservice a any 192.0.2.1\nserver a 10.0.0.1\ncheck a tcp",
            "have no port: write `check a",
        ),
        ("own 10.0.0.2\nown 10.0.0.3", "'own, of IPv4' is given twice"),
        ("+persist web cookie", "unknown kind of persistence 'cookie'"),
        ("+persist web source 9s", "unknown option '9s': known: for"),
        ("+persist web source for", "the time is missing: write `persist SERVICE source [for TIME]`"),
        ("+persist web source for ever", "'ever' is not a time: write"),
        ("clients 0", "'0' is not such a number: write a number from 1 to 16777216"),
        ("timeout tcp soon", "'soon' is not a time: write"),
        ("timeout icmp 2s", "unknown timeout 'icmp'"),
        ("sessions 0", "'0' is not such a number: write a number from 1 to 16777216"),
        ("sessions 5 6", "unexpected '6': write `sessions N`"),
        ("seed x", "'x' is not such a number"),
        ("service \"web tcp", "the quote does not end"),
        (
            "service a tcp 192.0.2.1\nservice b udp 192.0.2.1 port 1-65535\nservice c tcp 192.0.2.2 port 1-9",
            "65544 ports, more than 65536",
        ),
    ] {
        let text = text.strip_prefix('+').map_or_else(|| text.to_owned(), |rest| format!("{service}{rest}"));
        let all = messages(&text);
        assert!(all.iter().any(|one| one.contains(said)), "{text}: {all:#?} and not {said}");
    }
}

#[test]
fn names_may_stand_in_quotes() {
    let reading = read("text", "service \"a-1_b.c\" tcp 192.0.2.80 port \"80\"\nserver a-1_b.c 10.0.0.1");
    let policy = reading.policy.unwrap();
    let service = &policy.services[0];
    assert_eq!((&service.name[..], &service.text[..]), ("a-1_b.c", "service a-1_b.c tcp 192.0.2.80 port 80"));
}

#[test]
fn servers_that_would_get_no_place_are_strange() {
    let of = |weight: u32| {
        let text = format!(
            "service a any 192.0.2.1\nserver a 10.0.0.1-10.0.0.70 weight 1000\nserver a 10.0.0.99 weight {weight}"
        );
        messages(&text)
    };
    let all = of(1);
    assert!(
        all.len() == 1 && all[0].contains("server 10.0.0.99 of 'a' gets more than its weight says"),
        "{all:?}"
    );
    assert_eq!((of(2), of(0)), (Vec::new(), Vec::new()));
}

#[test]
fn too_many_probes_are_strange() {
    let of = |every: &str| {
        let text = format!(
            "own 10.0.0.1\nservice a any 192.0.2.1\nserver a 10.1.0.1-10.1.15.255\ncheck a icmp every {every} timeout 100ms"
        );
        messages(&text)
    };
    let all = of("100ms");
    assert!(all.len() == 1 && all[0].contains("send 40950 probes a second, more than 30000"), "{all:?}");
    assert_eq!(of("200ms"), Vec::<String>::new());
}

#[test]
fn a_service_without_servers_is_strange() {
    let all = messages("service web tcp 192.0.2.80");
    assert!(all.len() == 1 && all[0].contains("has no server: its packets are dropped: add"), "{all:?}");
    // Ports of their own, and one service for the others.
    let text = "service a tcp 192.0.2.1 port 80\nserver a 10.0.0.1\nservice b tcp 192.0.2.1\nserver b 10.0.0.1\n\
                service c any 192.0.2.1\nserver c 10.0.0.1";
    assert_eq!(messages(text), Vec::<String>::new());
}
