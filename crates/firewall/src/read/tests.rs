// SPDX-License-Identifier: MIT OR Apache-2.0

use std::path::Path;

use super::*;
use crate::policy::{Family, ICMP, ICMP6, TCP, UDP};

fn good(text: &str) -> Policy {
    let reading = read("test", text, Path::new("."));
    let shown = lang::render(&reading.diagnostics, &reading.sources, false);
    reading.policy.unwrap_or_else(|| panic!("{shown}"))
}

/// The messages, each with its help.
fn wrong(text: &str) -> Vec<String> {
    let reading = read("test", text, Path::new("."));
    assert!(reading.policy.is_none(), "{text} is right");
    reading
        .diagnostics
        .iter()
        .map(|d| {
            let at = d
                .span
                .map_or(1, |span| reading.sources.text(0)[..span.start as usize].matches('\n').count() + 1);
            format!("{at}: {}; {}", d.message, d.help.as_deref().unwrap_or_default())
        })
        .collect()
}

const ZONES: &str = "zone inside eth1 eth2\nzone outside eth0\n";

#[test]
fn a_whole_file() {
    let policy = good(
        "# An office.
zone inside eth1, eth2     # two floors
zone outside eth0
set admins 10.0.1.5 10.0.1.16/28 2001:db8:1::/64
set web 80 443 8000-8080
default reject with prohibited log
timeout udp 2m
timeout tcp 1h
connections 1000
alg tftp on
alg ftp off
synproxy above 9/s mss 1400 scale off
synproxy sack off timestamps off

accept from inside to outside
accept from inside to self tcp port ssh src @admins log \"by an admin\" name ssh
accept from outside to inside tcp,udp port @web, 9000 \\
    dst 10.0.1.20 limit 100/m burst 7 max-per-source 20 comment \"the shop\"
drop from outside src !10.0.0.0/8,@admins
reject icmp type unreachable/4,echo-request
accept ping to self stateless
accept ip6 proto ospf,47",
    );
    assert_eq!(policy.zones.iter().map(|z| z.links.len()).collect::<Vec<_>>(), [0, 2, 1]);
    assert_eq!((policy.default, policy.log_default), (Action::Reject(Answer::Prohibited), true));
    assert_eq!((policy.timeouts.udp, policy.timeouts.tcp), (120_000_000_000, 3_600_000_000_000));
    let proxied = SynProxy { above: Some(9), mss: Some(1400), scale: None, sack: false, timestamps: false };
    assert_eq!(policy.synproxy, proxied);
    assert_eq!((policy.connections, policy.algs), (1000, Algs { ftp: false, tftp: true }));
    let [all, ssh, shop, others, icmp, ping, ospf] = &policy.rules[..] else { panic!("{:?}", policy.rules) };
    assert_eq!((&all.matches.from[..], &all.matches.to[..], all.line), (&[1][..], &[2][..], 15));
    assert_eq!((ssh.log.as_deref(), ssh.name.as_deref()), (Some("by an admin"), Some("ssh")));
    assert_eq!(ssh.matches.destination_ports.ranges, [PortRange { low: 22, high: 22 }]);
    assert_eq!((ssh.matches.to[0], &ssh.matches.source.sets[..]), (0, &[0][..]));
    assert_eq!(shop.matches.protocols, [TCP, UDP]);
    assert_eq!(
        (shop.matches.destination_ports.ranges.len(), &shop.matches.destination_ports.sets[..]),
        (1, &[1][..])
    );
    assert_eq!((shop.limit.map(|l| l.burst), shop.per_source, shop.line), (Some(7), Some(20), 17));
    assert!(others.matches.source.negated && others.matches.source.addresses.len() == 1);
    assert_eq!(icmp.matches.icmp, [(3, Some(4)), (8, None)]);
    assert_eq!((&ping.matches.protocols[..], ping.is_stateless), (&[ICMP, ICMP6][..], true));
    assert_eq!((ospf.matches.family, &ospf.matches.protocols[..]), (Some(Family::Six), &[89, 47][..]));
    assert_eq!(
        shop.text,
        "accept from outside to inside tcp,udp port @web,9000 dst 10.0.1.20 limit 100/m burst 7 max-per-source 20 comment \"the shop\""
    );
}

#[test]
fn every_mistake_has_its_place_and_its_remedy() {
    let known = "known: self, inside, outside, any";
    for (text, expected) in [
        ("alg sip on", "3: unknown protocol 'sip'; known: ftp, tftp"),
        (
            "alg ftp maybe",
            "3: 'maybe' is neither on nor off; write `alg NAME on` or `alg NAME off`, for example `alg tftp on`",
        ),
        (
            "alg ftp",
            "3: 'alg' needs a protocol, and 'on' or 'off'; write `alg NAME on` or `alg NAME off`, for example `alg tftp on`",
        ),
        (
            "accept from outside synproxy",
            "3: 'synproxy' is for TCP; write `tcp` in this rule, and another rule for other protocols",
        ),
        (
            "drop tcp synproxy",
            "3: 'synproxy' needs connections; write it after `accept`, without `stateless`",
        ),
        (
            "synproxy scale 15",
            "3: '15' is no value for 'scale'; write for example `synproxy above 1000/s mss 1400`; known: above N/s, mss N, scale N, sack on|off, timestamps on|off",
        ),
        ("acept from inside", "3: unknown statement 'acept'; did you mean `accept`?"),
        ("accept from insid", "3: unknown zone 'insid'; did you mean `inside`?"),
        ("accept from garden", &format!("3: unknown zone 'garden'; {known}")),
        ("accept from", "3: 'from' needs a value; separate several by commas"),
        (
            "accept tcp port 70000",
            "3: '70000' is not a port; write a number from 0 to 65535, LOW-HIGH, or a name such as https",
        ),
        (
            "accept tcp port 9-1",
            "3: '9-1' is not a port; write a number from 0 to 65535, LOW-HIGH, or a name such as https",
        ),
        ("accept tcp port htpps", "3: 'htpps' is not a port; did you mean `https`?"),
        ("accept icmp port 9", "3: the protocol has no ports; tcp, udp, sctp and dccp have ports"),
        (
            "accept src 10.0.0.1/8",
            "3: '10.0.0.1/8' has bits after its prefix length; write an address, ADDRESS/LENGTH, or FIRST-LAST, for example 10.0.0.0/8 or 2001:db8::/32",
        ),
        ("accept src @admins", "3: unknown set 'admins'; declare a set first"),
        ("set ports 80\naccept src @ports", "4: set 'ports' has ports; use it after `port` or `sport`"),
        (
            "set hosts ::1\naccept tcp port @hosts",
            "4: set 'hosts' has addresses; use it after `src` or `dst`",
        ),
        (
            "set phones 2:0:0:0:0:1\naccept src @phones",
            "4: set 'phones' has MAC addresses; use it after `mac`",
        ),
        ("set hosts ::1\naccept mac @hosts", "4: set 'hosts' has addresses; use it after `src` or `dst`"),
        (
            "accept mac 2:0:0:0:1",
            "3: '2:0:0:0:1' is not a MAC address such as 52:54:00:12:34:56; write an address, ADDRESS/LENGTH, or FIRST-LAST, for example 52:54:00:12:34:56 or 52:54:00:00:00:00/24",
        ),
        ("accept mac", "3: 'mac' needs a value; separate several by commas"),
        (
            "drop from self mac 2:0:0:0:0:1",
            "3: no packet can match: what the router sends comes from no MAC address; leave out `mac`: only packets that come by a link have such a source",
        ),
        (
            "accept src 10.0.0.1 dst ::1",
            "3: no packet can match: its parts are of different families; source, destination, protocol and family must allow IPv4 or IPv6",
        ),
        (
            "accept icmp6 dst 10.0.0.1",
            "3: no packet can match: its parts are of different families; source, destination, protocol and family must allow IPv4 or IPv6",
        ),
        (
            "accept type echo-request",
            "3: 'type' needs one of the protocols icmp and icmp6; write `icmp type ...` or `icmp6 type ...`",
        ),
        ("accept icmp type ecko-request", "3: unknown type 'ecko-request'; did you mean `echo-request`?"),
        ("accept log \"a b", "3: the quote does not end; write \" at the end of the text"),
        (
            "drop src 10.0.0.1 src 10.0.0.2",
            "3: 'src' is given twice; write it once; several values stand with commas between them",
        ),
        (
            "accept tcp port 1 dport 2",
            "3: 'dport' is given twice; write it once; several values stand with commas between them",
        ),
        ("accept ping icmp", "3: 'ping' is a type of ICMP already; write `ping`, or `icmp type ...`"),
        ("accept ping port 9", "3: the protocol has no ports; tcp, udp, sctp and dccp have ports"),
        (
            "accept limit 10",
            "3: '10' is not a rate; write for example `limit 10/s` or `limit 100/m burst 20`",
        ),
        (
            "drop max-per-source 3",
            "3: 'stateless' and limits of sources are for `accept`; only `accept` makes connections",
        ),
        ("reject with tears", "3: unknown answer 'tears'; known: usual, prohibited, host, network, port"),
        ("accept from self to self", "3: no packet goes from the router to itself; name another zone"),
        (
            "accept name a\naccept name a",
            "4: two rules have the name 'a'; names keep counters apart: give each rule its own",
        ),
        ("zone inside eth7", "3: zone 'inside' is declared twice; list its links in one line"),
        ("zone garden eth1", "3: link 'eth1' is in zone 'inside', too; a link is in one zone"),
        (
            "zone any eth1",
            "3: 'any' cannot be declared; every file has `self`, the router's own zone, and `any`",
        ),
        ("zone garden", "3: zone 'garden' has no link; write `zone NAME LINK ...`"),
        ("set", "3: 'set' needs a name; write `set NAME MEMBER ...` or `set NAME file PATH`"),
        ("default", "3: 'default' needs an action; accept, drop or reject"),
        ("default accept twice", "3: unexpected 'twice'; only `log` may follow"),
        ("timeout udp soon", "3: 'soon' is not a time; write 30s, 5m, 2h or 500ms"),
        ("timeout upd 3s", "3: unknown timeout 'upd'; did you mean `udp`?"),
        (
            "connections 0",
            "3: '0' is not a number of connections; write `connections NUMBER`, from 1 to 16777216",
        ),
        (
            "set bad file /nowhere/at/all",
            "3: cannot read '/nowhere/at/all': No such file or directory (os error 2); the path starts at the directory of the rule file",
        ),
    ] {
        let found = wrong(&format!("{ZONES}{text}"));
        assert_eq!(found, [expected], "{text}");
    }
    let many = "acept\n".repeat(1000);
    assert_eq!(wrong(&many).len(), 100);
}

#[test]
fn members_of_sets_may_come_from_files() {
    let directory = std::env::temp_dir().join(format!("junctor-firewall-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(
        directory.join("list.txt"),
        "# blocked\n192.0.2.0/24 ; all of it\n\n2001:db8::1 for 1.5m\n",
    )
    .unwrap();
    let text = "set blocked file list.txt 10.0.0.1\ndrop src @blocked";
    let reading = read("test", text, &directory);
    std::fs::remove_dir_all(&directory).unwrap();
    let policy = reading.policy.unwrap();
    let texts: Vec<_> =
        policy.sets[0].entries.iter().map(|(entry, time)| (entry.to_string(), *time)).collect();
    let want = [("192.0.2.0/24", None), ("2001:db8::1", Some(90_000_000_000)), ("10.0.0.1", None)];
    assert_eq!(texts, want.map(|(text, time)| (text.to_owned(), time)));
}

#[test]
fn sets_of_mac_addresses() {
    let policy = good(
        "set phones 52:54:0:0:0:1 52-54-00-00-00-02\nset vendor macs 52:54:00:00:00:00/24\nset empty macs\n\
        drop mac !@phones,@vendor,2:0:0:0:0:1-2:0:0:0:0:9\naccept mac @empty",
    );
    let kinds: Vec<_> = policy.sets.iter().map(|set| (set.kind, set.is_typed)).collect();
    assert_eq!(kinds, [(Kind::Macs, false), (Kind::Macs, true), (Kind::Macs, true)]);
    let texts: Vec<_> = policy.sets[0].entries.iter().map(|(entry, _)| entry.to_string()).collect();
    assert_eq!(texts, ["52:54:00:00:00:01", "52:54:00:00:00:02"]);
    let macs = &policy.rules[0].matches.macs;
    assert!(macs.negated && macs.is_given && macs.sets == [0, 1]);
    assert!(crate::review(&policy).is_empty(), "all sets are used");
}

#[test]
fn mistakes_in_lists_name_their_line() {
    let directory = std::env::temp_dir().join(format!("junctor-firewall-lines-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let bad = "nobody\n".repeat(200);
    std::fs::write(directory.join("list"), format!("10.0.0.1\n\n10.0.0.2 for ever\n{bad}")).unwrap();
    let found = read("test", "set some file list", &directory).diagnostics;
    std::fs::remove_dir_all(&directory).unwrap();
    let first = |n: usize| (found[n].message.as_str(), found[n].notes[0].1.as_str());
    assert_eq!(first(0), ("'ever' is not a time", "in line 3 of 'list'"));
    assert_eq!(first(1), ("'nobody' is not an IP address", "in line 4 of 'list'"));
    assert!(found.len() == 100 && found[99].notes.len() <= 1);
}
