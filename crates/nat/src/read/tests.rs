// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::policy::range_text;

fn good(text: &str) -> Policy {
    let reading = read("test", text);
    let shown = lang::render(&reading.diagnostics, &reading.sources, false);
    reading.policy.unwrap_or_else(|| panic!("{shown}"))
}

/// The line and the message of each error, with its help.
fn wrong(text: &str) -> Vec<String> {
    let reading = read("test", text);
    assert!(reading.policy.is_none(), "{text} is right");
    let line = |span: Option<Span>| {
        span.map_or(0, |span| reading.sources.text(0)[..span.start as usize].matches('\n').count() + 1)
    };
    let all = reading.diagnostics.iter();
    all.map(|d| format!("{}: {}; {}", line(d.span), d.message, d.help.as_deref().unwrap_or_default()))
        .collect()
}

fn address(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().unwrap().into()
}

// conformance: RFC7857-2.1-b
#[test]
fn a_whole_file() {
    let policy = good(
        "# A provider.
translate 10.0.1.0/24, 10.0.2.0/24 to 192.0.2.1
translate 100.64.0.0/20 to 192.0.2.16/28 block 512 max 4 max-sessions 1000 max-ports 900
translate 100.65.0.0/24 to 192.0.2.32 deterministic ports 2048-65535
static 10.0.3.16/28 to 198.51.100.16/28
exempt 10.0.1.0/24 to 10.9.0.0/16
forward tcp https on 192.0.2.1 to 10.0.1.20 port 8443
forward udp 5000-5009 on 192.0.2.1 to 10.0.1.21 port 6000
filter address-dependent
timeout udp 2m
timeout tcp-transitory 1m
timeout hold 30s
sessions 1000
log blocks",
    );
    let [home, blocks, fixed] = &policy.translations[..] else { panic!("{policy:?}") };
    assert_eq!((home.allocation, home.ports, home.line), (Allocation::Random, (1024, 65535), 2));
    assert_eq!(blocks.allocation, Allocation::Blocks { size: 512, most: 4 });
    assert_eq!((blocks.sessions_max, blocks.ports_max), (1000, 900));
    assert_eq!((fixed.allocation, fixed.ports), (Allocation::Deterministic, (2048, 65535)));
    assert_eq!(policy.static_outside(address("10.0.3.17")), Some(address("198.51.100.17")));
    assert_eq!(policy.static_inside(address("198.51.100.31")), Some(address("10.0.3.31")));
    assert_eq!(policy.static_inside(address("198.51.100.32")), None);
    assert!(policy.is_exempt(address("10.0.1.1"), address("10.9.1.1")));
    assert!(!policy.is_exempt(address("10.0.2.1"), address("10.9.1.1")));
    let ports: Vec<_> = policy.forwards.iter().map(|one| (one.protocol, one.ports, one.port)).collect();
    assert_eq!(ports, [(TCP, (443, 443), 8443), (UDP, (5000, 5009), 6000)]);
    assert_eq!((policy.filter, policy.sessions, policy.log), (Filter::AddressDependent, 1000, Log::Blocks));
    assert_eq!((policy.timeouts.udp, policy.timeouts.tcp_transitory), (120_000_000_000, 60_000_000_000));
    assert_eq!(policy.timeouts.hold, 30_000_000_000);
    assert_eq!(policy.translation(address("100.64.15.255")), Some(1));
    let outside: Vec<String> = policy.outside().into_iter().map(range_text).collect();
    assert_eq!(outside, ["192.0.2.1", "192.0.2.16-192.0.2.32", "198.51.100.16-198.51.100.31"]);
}

#[test]
fn one_outside_address_need_not_be_named() {
    let policy = good("forward tcp 80 to 10.0.1.5\ntranslate 10.0.1.0/24 to 192.0.2.1");
    assert_eq!(policy.forwards[0].outside, [address("192.0.2.1")]);
}

#[test]
fn ports_of_deterministic_translations_do_not_overlap() {
    let policy = good("translate 100.64.0.0/24 to 192.0.2.1-192.0.2.3 deterministic");
    let one = &policy.translations[0];
    let all: Vec<_> = (0..256).map(|n| one.determined(address("100.64.0.0") + n).unwrap()).collect();
    // RFC 7422: 64,512 ports for the 86 inside addresses of each outside one.
    assert_eq!(all[0], (address("192.0.2.1"), (1024, 1773)));
    assert_eq!(all[86], (address("192.0.2.2"), (1024, 1773)));
    for (n, (outside, ports)) in all.iter().enumerate() {
        assert_eq!(ports.1 - ports.0, 749);
        assert!(all[..n].iter().all(|(other, p)| other != outside || p.1 < ports.0 || ports.1 < p.0));
    }
    assert_eq!(one.determined(address("100.64.1.0")), None);
    // And back.
    for (n, (outside, ports)) in all.iter().enumerate() {
        for port in [ports.0, ports.1] {
            assert_eq!(one.undetermined(*outside, port), Some(address("100.64.0.0") + n as u32));
        }
    }
    assert_eq!(one.undetermined(address("192.0.2.1"), 1023), None);
    assert_eq!(one.undetermined(address("192.0.2.1"), 65535), None);
    assert_eq!(one.undetermined(address("192.0.2.9"), 2000), None);
}

#[test]
fn mistakes_have_a_place_and_a_remedy() {
    let cases = [
        ("translat 10.0.0.0/8 to 192.0.2.1", "1: unknown statement 'translat'; did you mean `translate`?"),
        ("translate 10.0.0.0/8", "1: 'to' is missing; write `translate INSIDE [vrf NAME] to OUTSIDE"),
        ("translate 10.0.0.0/8 by 192.0.2.1", "1: unexpected 'by' in place of 'to'; write"),
        (
            "translate 10.0.0.1/8 to 192.0.2.1",
            "1: '10.0.0.1/8' has bits after its prefix length; write an address",
        ),
        ("translate 10.0.0.0/8,10.1.0.0/16 to 192.0.2.1", "1: an address is listed twice; leave one out"),
        ("translate 10.0.0.0/8 to 20.0.0.0/8", "1: more than 65536 outside addresses; use fewer"),
        ("translate 10.0.0.0/8 to 192.0.2.1 port 5", "1: unknown option 'port'; did you mean `ports`?"),
        ("translate 10.0.0.0/8 to 192.0.2.1 ports 9-5", "1: '9-5' is not a port; write a number"),
        ("translate 10.0.0.0/8 to 192.0.2.1 max 5", "1: 'max' without 'block'; write `block SIZE max N`"),
        ("translate 10.0.0.0/8 to 192.0.2.1 block 64 block 64", "1: 'block' is given twice; leave one out"),
        (
            "translate 10.0.0.0/8 to 192.0.2.1 block 0",
            "1: '0' is not such a number; write a number from 1 to 16384",
        ),
        (
            "translate 10.0.0.0/8 to 192.0.2.1 ports 10-20 block 64",
            "1: no block fits into the range of ports; write",
        ),
        (
            "translate 10.0.0.0/8 to 192.0.2.1 deterministic",
            "1: 16777216 inside addresses would share the 64512 ports of an outside address; use",
        ),
        (
            "translate 10.0.0.0/24 to 192.0.2.1 block 4 deterministic",
            "1: 'block' and 'deterministic' exclude each other; a",
        ),
        ("forward icmp 1 to 10.0.0.1", "1: unknown protocol of a forward 'icmp'; known: tcp, udp"),
        ("forward tcp 80 to 10.0.0.1", "1: a forward without outside address; write `on ADDRESS`"),
        ("forward tcp 80 on 192.0.2.1 to 10.0.0.300", "1: '10.0.0.300' is not an IP address; write"),
        (
            "forward tcp 80-90 on 192.0.2.1 to 10.0.0.1 port 80-81",
            "1: as many inside ports as outside ports are needed; write",
        ),
        (
            "forward tcp 80-90 on 192.0.2.1 to 10.0.0.1 port 65530",
            "1: the inside ports would be above 65535; write",
        ),
        ("forward tcp 80 on 192.0.2.1 to 10.0.0.1 port 81 x", "1: unexpected 'x'; write `forward"),
        (
            "static 10.0.0.0/30 to 192.0.2.1",
            "1: 4 inside addresses for 1 outside ones; write as many of both",
        ),
        ("exempt 10.0.0.0/8 192.0.2.1", "1: unexpected '192.0.2.1' in place of 'to'; write `exempt"),
        ("filter none", "1: unknown filter 'none'; known: endpoint-independent"),
        ("timeout sctp 5m", "1: unknown timeout 'sctp'; "),
        ("timeout udp soon", "1: 'soon' is not a time; write 30s"),
        ("timeout udp", "1: the time is missing; write `timeout NAME TIME`"),
        ("sessions 0", "1: '0' is not such a number; write a number from 1 to 16777216"),
        (
            "translate 10.0.0.0/8 to 192.0.2.1\ntranslate 10.1.0.0/16 to 192.0.2.2",
            "2: an earlier statement translates all these addresses; leave",
        ),
        (
            "translate 10.1.0.0/16 to 192.0.2.1\ntranslate 10.0.0.0/8 to 192.0.2.1 block 64",
            "2: blocks of ports are shared with an earlier statement; give",
        ),
        (
            "static 10.0.0.1 to 192.0.2.1\nstatic 10.0.0.2 to 192.0.2.1",
            "2: an address has two static translations; leave one out",
        ),
        (
            "translate 10.0.0.0/24 to 192.0.2.1\nstatic 10.0.1.1 to 192.0.2.1",
            "2: 192.0.2.1 is in a pool, too; take it out of the pool",
        ),
        (
            "forward tcp 80-90 on 192.0.2.1 to 10.0.0.1\nforward tcp 85 on 192.0.2.1 to 10.0.0.2",
            "2: an outside port has two forwards; leave one out",
        ),
        (
            "static 10.0.0.1 to 192.0.2.1\nforward tcp 85 on 192.0.2.1 to 10.0.0.2",
            "2: the outside address is an inside one's own; use another",
        ),
        ("translate 0.0.0.0/0 to 192.0.2.1", "1: 192.0.2.1 is inside and outside; an address is on one side"),
        ("static 192.0.2.0/24 to 192.0.2.0/24", "1: 192.0.2.0-192.0.2.255 is inside and outside; an"),
        (
            "filter address-dependent\nfilter endpoint-independent",
            "2: 'filter' is given twice; leave one out",
        ),
        ("timeout udp 1m\ntimeout udp 2m", "2: 'timeout udp' is given twice; leave one out"),
        ("log everything", "1: unknown thing to note 'everything'; known: blocks, ports"),
        ("sessions 5\nsessions 5", "2: 'sessions' is given twice; leave one out"),
        (
            "translate 10.0.0.0/24 to 192.0.2.1 deterministic\nforward tcp 8080 to 10.0.0.1",
            "2: an outside port is in a block of a translation; forward another one",
        ),
        (
            "forward tcp 1-40000 on 192.0.2.1 to 10.0.0.1\nforward udp 1-40000 on 192.0.2.1 to 10.0.0.1",
            "2: forwards of more than 65536 ports; use `static`",
        ),
        ("translate \"10.0.0.0/8 to x", "1: the quote does not end; write \" at the end"),
    ];
    for (text, expected) in cases {
        let found = wrong(text);
        assert!(found.iter().any(|one| one.starts_with(expected)), "{text}:\n{found:#?}");
    }
}

#[test]
fn who_has_a_port_is_known_if_no_other_statement_is_for_the_host() {
    let policy = good(
        "static 10.0.1.9 to 192.0.2.9\ntranslate 10.0.1.5 to 192.0.2.8\ntranslate 10.0.1.0/24 to 192.0.2.1 deterministic",
    );
    let ports = |host: &str| policy.translations[1].determined(address(host)).unwrap().1.0;
    let owner = |protocol: u8, port: u16| {
        policy.owner(protocol, "192.0.2.1".parse().unwrap(), port).map(|found| found.0)
    };
    assert_eq!(owner(TCP, ports("10.0.1.6")), Some("10.0.1.6".parse().unwrap()));
    assert_eq!((owner(TCP, ports("10.0.1.5")), owner(TCP, ports("10.0.1.9"))), (None, None));
    assert_eq!(owner(47, ports("10.0.1.6")), None);
}

#[test]
fn ipv6_hosts_may_be_inside() {
    let policy = good(
        "translate 10.0.1.0/24, 2001:db8:1::/48 to 192.0.2.1
forward tcp 443 to 2001:db8:1::20
forward udp 443 to 2001:db8:1::20
static 2001:db8:2::8-2001:db8:2::9 to 192.0.2.8-192.0.2.9",
    );
    assert_eq!(policy.prefix, Some(Prefix64::WELL_KNOWN));
    let hosts: Vec<String> = policy.hosts.iter().map(|host| host.to_string()).collect();
    assert_eq!(hosts.len(), 3);
    assert!(hosts.contains(&"2001:db8:1::20".to_owned()), "{hosts:?}");
    let inside = |text: &str| text.parse::<Ipv6Addr>().unwrap();
    assert_eq!(policy.translation6(inside("2001:db8:1:ffff::1").into()), Some(0));
    assert_eq!(policy.translation6(inside("2001:db8:2::1").into()), None);
    let becomes =
        |text: &str| policy.becomes(inside(text).into()).map(|one| (one.line, range_text(one.outside[0])));
    assert_eq!(becomes("2001:db8:1::7"), Some((1, "192.0.2.1".to_owned())));
    assert_eq!(becomes("2001:db8:2::9"), Some((4, "192.0.2.9".to_owned())));
    assert_eq!(becomes("2001:db8:2::7"), None);
    let chosen = good("translate 2001:db8:1::/64 to 192.0.2.1\nprefix 2001:db8:64::/96");
    assert_eq!(chosen.prefix.unwrap().to_string(), "2001:db8:64::/96");
    assert_eq!(good("translate 10.0.0.0/8 to 192.0.2.1").prefix, None);
}

#[test]
fn mistakes_about_ipv6_hosts_have_their_remedy() {
    let cases = [
        (
            "translate 2001:db8::1 to 192.0.2.1",
            "1: part of an IPv6 network of 64 bits; write networks of 64 bits or less",
        ),
        (
            "translate 10.0.0.0/8 to 2001:db8::1",
            "1: an IPv6 address in place of IPv4 addresses; IPv6 addresses may be inside",
        ),
        (
            "translate 10.0.0.0/8 to 192.0.2.1\nexempt 10.0.0.0/8 to 2001:db8::/32",
            "2: an IPv6 address in place of IPv4",
        ),
        (
            "translate 2001:db8::/64 to 192.0.2.1 deterministic",
            "1: 'deterministic' is for IPv4 addresses of the main table; write a statement",
        ),
        ("translate 2001:db8::/64 to 192.0.2.1\nprefix 64:ff9b::/95", "2: /95 is none of the lengths"),
        (
            "translate 2001:db8::/64 to 192.0.2.1\nprefix 64:ff9b::",
            "2: '64:ff9b::' is not an IPv6 prefix; write `prefix",
        ),
        ("translate 2001:db8::/64 to 192.0.2.1\nprefix 64:ff9b::1/96", "2: '64:ff9b::1/96' has bits after"),
        (
            "translate 10.0.0.0/8 to 192.0.2.1\nprefix 64:ff9b::/96",
            "2: a prefix, but no IPv6 address is inside; name IPv6",
        ),
        (
            "translate 2001:db8::/32 to 192.0.2.1\nprefix 2001:db8:64::/96",
            "1: IPv6 addresses inside are behind the prefix",
        ),
        (
            "translate 2001:db8::/32 to 192.0.2.1\ntranslate 2001:db8:1::/48 to 192.0.2.1",
            "2: an earlier statement translates all",
        ),
        (
            "translate 2001:db8::/32,2001:db8:1::/48 to 192.0.2.1",
            "1: an address is listed twice; leave one out",
        ),
        (
            "forward tcp 80 on 192.0.2.1 to 64:ff9b::10.0.1.20",
            "1: 64:ff9b::a00:114 is behind the prefix 64:ff9b::/96; write the IPv4",
        ),
        ("forward tcp 80 on 192.0.2.1 to ff02::1", "1: no host is reached by ff02::1; write"),
        ("static fe80::1 to 192.0.2.1", "1: no host is reached by fe80::1; write"),
        ("alg ftp", "1: 'on' or 'off' is missing; write `alg NAME on`"),
        ("alg irc on", "1: unknown protocol 'irc'; known: ftp, tftp, sip"),
        ("alg ftp of", "1: 'of' is neither on nor off; write `alg NAME on`"),
        ("alg ftp on\nalg ftp off", "2: 'alg ftp' is given twice; leave one out"),
        ("static 0.0.0.9 to 192.0.2.1", "1: '0.0.0.9' begins in 0.0.0.0/8; no packet"),
        ("static 2001:db8::/32 to 192.0.2.1", "1: more than 65536 IPv6 hosts of forwards"),
        (
            "static 2001:db8::1,2001:db8::2 to 192.0.2.1",
            "1: several ranges of addresses; write one statement",
        ),
        (
            "static 2001:db8::1 to 192.0.2.1\nstatic 2001:db8::1 to 192.0.2.2",
            "2: an address has two static translations",
        ),
        (
            "static 2001:db8::1 to 192.0.2.1\nstatic 2001:db8::0-2001:db8::3 to 192.0.2.4-192.0.2.7",
            "2: 2001:db8::1 is in another",
        ),
        ("forward tcp 80 on 192.0.2.1 to 2001:db8::/127", "1: several inside addresses; write one address"),
    ];
    for (text, expected) in cases {
        let found = wrong(text);
        assert!(found.iter().any(|one| one.starts_with(expected)), "{text}: {found:#?}");
    }
}

#[test]
fn interfaces_stand_for_addresses() {
    let text = "translate 10.0.1.0/24 to interface eth1 ports 2000-3000\nforward tcp https to 10.0.1.20\n\
                forward udp 53 on interface ppp0 to 10.0.1.21\ntranslate 10.0.2.0/24 to interface eth1 max-ports 9";
    let policy = good(text);
    assert_eq!(policy.interfaces(), ["eth1", "ppp0"]);
    assert_eq!(policy.outside(), []);
    let of: Vec<_> = policy.forwards.iter().map(|one| one.interface.as_deref()).collect();
    assert_eq!(of, [Some("eth1"), Some("ppp0")]);
    let mut addresses = crate::Addresses::default();
    addresses.set("eth1", [Ipv4Addr::new(192, 0, 2, 7)]);
    let filled = policy.with_addresses(&addresses);
    let becomes = filled.becomes("10.0.1.2".parse().unwrap()).unwrap();
    assert_eq!(
        (becomes.outside.len(), becomes.interface.as_deref(), becomes.ports),
        (1, Some("eth1"), (2000, 3000))
    );
    assert_eq!(filled.owner(TCP, Ipv4Addr::new(192, 0, 2, 7), 443).unwrap().2, 2);
    // They can be put in again.
    assert!(
        !policy.gives_as(&filled) && filled.with_addresses(&crate::Addresses::default()).gives_as(&policy)
    );
}

#[test]
fn mistakes_about_interfaces_have_their_remedy() {
    let help = "write `interface NAME`, for example `interface eth1`";
    for (text, said) in [
        ("translate 10.0.1.0/24 to interface", format!("1: the name of the interface is missing; {help}")),
        ("translate 10.0.1.0/24 to interface eth%1", format!("1: 'eth%1' is not the name of an interface; {help}")),
        (
            "translate 10.0.1.0/24 to interface eth1 deterministic",
            "1: 'deterministic' needs addresses that are known beforehand; name the outside addresses, or leave it out".into(),
        ),
        (
            "static 10.0.1.9 to interface eth1",
            "1: an address of an interface is shared, so no host has it alone; name its address, or write `forward` for the ports that lead inside".into(),
        ),
        (
            "translate 10.0.1.0/24 to interface eth1\ntranslate 10.0.2.0/24 to interface eth2\nforward tcp 80 to 10.0.1.9",
            "3: a forward without outside address; write `on ADDRESS` or `on interface NAME`: there is not exactly one outside address to choose".into(),
        ),
        (
            "translate 10.0.1.0/24 to interface eth1\ntranslate 10.0.2.0/24 to interface eth1 block 64",
            "2: blocks of ports are shared with an earlier statement; give it other outside addresses, or another range of ports".into(),
        ),
        (
            "forward tcp 80 on interface eth1 to 10.0.1.9\nforward tcp 80 on interface eth1 to 10.0.1.8",
            "2: an outside port has two forwards; leave one out".into(),
        ),
        (
            "translate 10.0.1.0/24 to interface eth1 block 64\nforward tcp 2000 to 10.0.1.9",
            "2: an outside port is in a block of a translation; forward another one, or leave it out of the translation's `ports`".into(),
        ),
    ] {
        assert_eq!(wrong(text), [said], "{text}");
    }
}

#[test]
fn vrfs_of_inside_hosts() {
    let policy = good(
        "translate 10.0.1.0/24,10.0.2.5 vrf red to 192.0.2.2 block 16\ntranslate 10.0.1.0/24 to 192.0.2.1\n\
         forward tcp 443 on 192.0.2.1 to 10.0.1.9 vrf blue port 8443\nstatic 10.0.3.0/30 vrf red to 192.0.2.8/30\n",
    );
    let known = |name: &str, host: &str| policy.translation6(vrf::host(vrf::number(name), address(host)));
    assert_eq!(["10.0.1.0", "10.0.1.255", "10.0.2.5"].map(|host| known("red", host)), [Some(0); 3]);
    assert_eq!([known("red", "10.0.2.6"), known("blue", "10.0.1.9")], [None; 2]);
    let names: Vec<&str> = policy.vrfs.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!((policy.hosts.len(), policy.prefix, names), (5, None, vec!["red", "blue"]));
    for (text, message) in [
        ("translate 10.0.1.0/24 vrf to 192.0.2.1", "1: unexpected '192.0.2.1' in place of 'to'"),
        ("translate 10.0.1.0/24 vrf", "1: the name of the VRF is missing"),
        ("translate 10.0.1.0/24 vrf a/b to 192.0.2.1", "1: 'a/b' cannot name a VRF"),
        ("translate 2001:db8::/64 vrf red to 192.0.2.1", "1: IPv6 addresses in a VRF"),
        ("static 2001:db8::1 vrf red to 192.0.2.1", "1: IPv6 addresses in a VRF"),
        ("translate ff02::/64 to 192.0.2.1", "1: no host has a multicast address"),
        (
            "translate 10.0.1.0/24 vrf red to 192.0.2.1 deterministic",
            "1: 'deterministic' is for IPv4 addresses of the main table",
        ),
        (
            "static 10.0.1.1 vrf red to 192.0.2.1\nstatic 10.0.1.0/31 vrf red to 192.0.2.2/31",
            "2: 10.0.1.1 is in another statement, too",
        ),
        (
            "prefix 64:ff9b::/96\ntranslate 10.0.1.0/24 vrf red to 192.0.2.1",
            "1: a prefix, but no IPv6 address is inside",
        ),
    ] {
        let found = wrong(text);
        assert!(found.len() == 1 && found[0].starts_with(message), "{text}: {found:?}");
    }
}
