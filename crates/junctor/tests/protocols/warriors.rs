// SPDX-License-Identifier: MIT OR Apache-2.0
//! Road warriors with virtual addresses, both behind one address translator, and another site, whose address changes: the examples of a written deployment with strongSwan.
//!
//! ```text
//! anna: 192.168.1.2 --- \                                        / 10.0.2.2 B: inner host
//!                        A: translator --- 10.0.1.1 [router] ---
//! bert: 192.168.2.2 --- /   10.0.1.2                             \ 10.0.3.2 C: site, 10.2.0.1 behind it
//! ```

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use testbed::rig::{Cable, Namespace, skip_without, wait_for};
use testbed::strongswan::Strongswan;

use crate::keys;
use crate::site::{PATIENCE, Site, speak_ipv6};

const GATEWAY: &str = "10.0.1.1";
/// The inner host.
const INNER: [&str; 2] = ["10.0.2.2", "fd00:2::2"];
/// Virtual addresses that nobody has.
const UNHELD: [&str; 2] = ["10.9.0.77", "fd00:9::77"];
/// A host of the other site.
pub const BEHIND: &str = "10.2.0.1";
const WARRIORS: [&str; 2] = ["anna", "bert"];
const SECRETS: &str = "secrets {
 ike-site {
  id = one.example.org
  secret = \"take a long one, of 'openssl rand -base64 32'\"
 }
 ike-anna {
  id = anna@example.org
  secret = \"another one\"
 }
 ike-bert {
  id = bert@example.org
  secret = \"of bert\"
 }
}
";

/// The examples of the written file, as their user takes the comment signs off and fills them in.
fn filled_in(text: &str) -> String {
    let line = |line: &str| {
        let without = line.replacen("# ", "", 1);
        let words: Vec<&str> = without.split_whitespace().collect();
        let is_setting = words == ["}"] || words.get(1).is_some_and(|word| ["{", "="].contains(word));
        if is_setting { without + "\n" } else { format!("{line}\n") }
    };
    let text: String = text.lines().map(line).collect();
    let changes = [
        ("203.0.113.2\n        dpd_delay = 30s", "10.0.3.2\n        dpd_delay = 1s"),
        ("dpd_action = restart", "dpd_action = trap"),
        ("start_action = trap|start", "start_action = trap"),
        ("pools = road\n", "pools = road, road6\n"),
        ("home {\n                local_ts = 10.0.2.0/24", "home {\n local_ts = 10.0.2.0/24, fd00:2::/64"),
        ("pools {\n", "pools {\n road6 {\n addrs = fd00:9::/120\n }\n"),
        ("secrets {\n", "secrets {\n ike-bert {\n id = bert@example.org\n secret = \"of bert\"\n }\n"),
    ];
    changes.iter().fold(text, |text, (before, after)| {
        assert!(text.contains(before), "{before} is not in {text}");
        text.replace(before, after)
    })
}

/// What is never to be sent as it is, or to come so.
fn policies() -> String {
    let only_protected = |net: &str| {
        ["dst NET dir out", "src NET dir fwd"]
            .map(|way| format!("POLICY {} priority 4000000000 action block", way.replace("NET", net)))
    };
    ["10.9.0.0/24", "fd00:9::/120", "10.2.0.0/16"].map(only_protected).concat().join(", ")
}

/// A deployment whose first interface leads out, to the translator and by default.
pub fn deployed() -> Site {
    let mut site = Site::bare(1500);
    for (family, way) in [("-4", "10.0.2.1"), ("-6", "fd00:2::1")] {
        site.rig.b.ip(&format!("{family} route add default via {way}")).unwrap();
    }
    translate(&site.rig.a, "30000-30999");
    site.deploy(&["--ipsec"], |file, text| match file {
        "router.click" => text.replace("IPsecDatabase()", &format!("IPsecDatabase({})", policies())),
        "strongswan/swanctl.conf" => filled_in(&text),
        "strongswan/strongswan.conf" => {
            text.replacen("{\n", "{\n retransmit_tries = 2\n retransmit_timeout = 0.5\n", 1)
        }
        _ => text,
    });
    for way in ["10.0.1.2", "fd00:1::2"] {
        site.control.ip(&format!("route add default via {way}")).unwrap();
    }
    site
}

/// Makes a host the translator: UDP from inside leaves from its own address, and from these ports.
fn translate(translator: &Namespace, ports: &str) {
    filter(
        translator,
        &[
            "add table ip nat",
            "add chain ip nat out { type nat hook postrouting priority 100 ; }",
            "flush chain ip nat out",
            &format!("add rule ip nat out oifname a0 meta l4proto udp masquerade to :{ports}"),
        ],
    );
}

/// Makes it count packets that come from the gateway with inner addresses.
fn watch(translator: &Namespace) {
    filter(
        translator,
        &[
            "add table inet seen",
            "add chain inet seen clear { type filter hook prerouting priority -300 ; }",
            "add rule inet seen clear iifname a0 ip daddr { 10.9.0.0/24, 10.2.0.0/16 } counter",
            "add rule inet seen clear iifname a0 ip6 daddr fd00:9::/64 counter",
        ],
    );
}

fn filter(host: &Namespace, commands: &[&str]) {
    for command in commands {
        host.run(&["nft", command]).unwrap();
    }
}

/// Asserts that none has come.
fn saw_nothing(translator: &Namespace) {
    let seen = translator.run(&["nft", "list", "table", "inet", "seen"]).unwrap();
    assert_eq!(seen.matches("counter packets 0 ").count(), 2, "{seen}");
}

/// What the other site's charon is to know of the gateway.
pub fn other_site() -> String {
    format!(
        "connections {{\n site {{\n version = 2\n remote_addrs = {GATEWAY}\n \
         local {{\n auth = psk\n id = two.example.org\n }}\n \
         remote {{\n auth = psk\n id = one.example.org\n }}\n \
         children {{\n net {{\n local_ts = 10.2.0.0/16\n remote_ts = 10.0.2.0/24\n \
         esp_proposals = aes256gcm16-x25519\n }}\n }}\n }}\n}}\n{SECRETS}"
    )
}

/// One of the road warriors.
struct Warrior {
    namespace: Namespace,
    charon: Strongswan,
}

impl Warrior {
    /// The `number`th one, connected to the gateway through the translator.
    fn new(site: &Site, number: usize) -> Warrior {
        let namespace = Namespace::new("w").unwrap();
        speak_ipv6(&namespace);
        let (inside, here) = (format!("n{number}"), format!("192.168.{number}"));
        Cable::default().lay(&namespace, "eth0", &site.rig.a, &inside).unwrap();
        site.rig.a.ip(&format!("addr add {here}.1/24 dev {inside}")).unwrap();
        namespace.sysctl("net/ipv4/conf/eth0/promote_secondaries", "1").unwrap();
        namespace.ip(&format!("addr add {here}.2/24 dev eth0")).unwrap();
        namespace.ip(&format!("route add default via {here}.1")).unwrap();
        namespace.wait_for_link("eth0").unwrap();
        let name = WARRIORS[number - 1];
        let connection = format!(
            "connections {{\n home {{\n version = 2\n remote_addrs = {GATEWAY}\n vips = 0.0.0.0,::\n \
             local {{\n auth = psk\n id = {name}@example.org\n }}\n \
             remote {{\n auth = psk\n id = gateway.example.org\n }}\n \
             children {{\n home {{\n remote_ts = 10.0.2.0/24,fd00:2::/64\n \
             esp_proposals = aes256gcm16-x25519\n }}\n }}\n }}\n}}\n{SECRETS}"
        );
        let mut charon = Strongswan::with_own_esp("install_virtual_ip = yes\n keep_alive = 1").unwrap();
        charon.start(&namespace).unwrap();
        charon.load(&namespace, &connection).unwrap();
        // The gateway's daemon may be about to load its connections.
        let connect = ["--initiate", "--child", "home", "--timeout", "60"];
        until(site, "a tunnel", &charon, || charon.swanctl(&namespace, &connect).is_ok());
        Warrior { namespace, charon }
    }

    /// Its virtual addresses, IPv4 first.
    fn addresses(&self) -> [String; 2] {
        let all = self.namespace.ip("-o addr show").unwrap();
        ["10.9.0.", "fd00:9::"].map(|prefix| {
            let found = all.split([' ', '/']).find(|word| word.starts_with(prefix));
            found.unwrap_or_else(|| panic!("no {prefix}: {all}")).to_owned()
        })
    }

    /// Asserts that packets go both ways, of both versions.
    fn reaches(&self, site: &Site) {
        for (inner, own) in INNER.iter().zip(self.addresses()) {
            assert!(answers(&self.namespace, inner), "{inner}: {}", self.charon.log());
            assert!(answers(&site.rig.b, &own), "{own}: {}", self.charon.log());
        }
    }

    /// Waits until they do after a move: charon may be about to take an association out and in again, with another port.
    fn reaches_again(&self, site: &Site) {
        for (inner, own) in INNER.iter().zip(self.addresses()) {
            until(site, inner, &self.charon, || pings(&self.namespace, inner));
            until(site, &own, &self.charon, || pings(&site.rig.b, &own));
        }
    }
}

/// Whether three answers come: the first ones may take a second on a busy machine.
fn answers(from: &Namespace, to: &str) -> bool {
    from.run(&["ping", "-n", "-c", "3", "-i", "0.1", "-w", "20", to]).is_ok()
}

pub fn pings(from: &Namespace, to: &str) -> bool {
    from.run(&["ping", "-n", "-c", "3", "-i", "0.05", "-W", "1", to]).is_ok()
}

/// Sends 100,000 bytes each way by TCP. Returns the address from which the server heard them.
fn tcp(client: &Namespace, server: &Namespace, address: &str) -> String {
    const COUNT: usize = 100_000;
    let address = SocketAddr::new(address.parse().unwrap(), 0);
    let listener = server.enter(|| TcpListener::bind(address)).unwrap().unwrap();
    let port = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(move || {
            let (mut stream, from) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut all = vec![0; COUNT];
            stream.read_exact(&mut all).unwrap();
            stream.write_all(&all).unwrap();
            from.ip().to_string()
        });
        let sent: Vec<u8> = (0..COUNT).map(|at| at as u8).collect();
        let mut stream = client.enter(|| TcpStream::connect_timeout(&port, PATIENCE)).unwrap().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&sent).unwrap();
        let mut came = vec![0; COUNT];
        stream.read_exact(&mut came).unwrap();
        assert!(came == sent);
        served.join().unwrap()
    })
}

/// Ends of the router's associations that are not its own: address and UDP port, of those that send to it and of those to which it sends.
fn ends(site: &Site) -> [BTreeSet<(String, u16)>; 2] {
    let all = site.ctl("ipsec.sas").unwrap_or_default();
    let end = |line: &str, host: &str, port: usize| {
        let words: Vec<&str> = line.split(' ').collect();
        let after = |word: &str| words.iter().position(|other| *other == word).map(|at| at + 1);
        let udp = after("espinudp").map_or(Ok(0), |at| words[at + port].parse());
        after(host).map(|at| (words[at].to_owned(), udp.unwrap()))
    };
    let of = |host: &str, port: usize| {
        let ends = all.lines().filter_map(|line| end(line, host, port));
        // MOBIKE may choose another address of the gateway.
        ends.filter(|(address, _)| !address.ends_with(".1")).collect()
    };
    [of("src", 0), of("dst", 1)]
}

/// The same where both directions agree, and there are so many peers.
fn peers(site: &Site, count: usize) -> Option<BTreeSet<(String, u16)>> {
    let [from, to] = ends(site);
    (from == to && from.len() == count).then_some(from)
}

/// Waits for a condition; where it is in vain, says what the peer's charon and the gateway's have to say.
fn until(site: &Site, what: &str, peer: &Strongswan, condition: impl FnMut() -> bool) {
    wait_for(what, PATIENCE, condition).unwrap_or_else(|why| {
        let (sas, gateway) = (site.ctl("ipsec.sas"), keys::log(site));
        panic!("{why}: {sas:?}\n{}\n--- the gateway\n{gateway}", peer.log())
    });
}

/// Whether what these tests need is missing here; says so.
pub fn skip(name: &str) -> bool {
    keys::skip(name) || !keys::has_own_esp(name) || skip_without(name, &["swanctl", "ping", "nft"])
}

#[test]
fn road_warriors_behind_one_translator_have_virtual_addresses() {
    if skip("road_warriors_behind_one_translator_have_virtual_addresses") {
        return;
    }
    let mut site = deployed();
    watch(&site.rig.a);
    let warriors = [1, 2].map(|number| Warrior::new(&site, number));
    for warrior in &warriors {
        warrior.reaches(&site);
        for (inner, own) in INNER.iter().zip(warrior.addresses()) {
            assert_eq!(tcp(&warrior.namespace, &site.rig.b, inner), own);
            assert_eq!(tcp(&site.rig.b, &warrior.namespace, &own), *inner);
        }
    }
    let before = peers(&site, 2).expect("two associations each way");
    let is_translated = |(host, port): &(String, u16)| host == "10.0.1.2" && (30000..31000).contains(port);
    assert!(before.iter().all(is_translated), "{before:?}");
    // The translator is kept awake: by packets that say nothing.
    site.wait("keep-alives", || site.drops("discarded") > 0);
    assert_eq!(site.drops("bad-esp") + site.drops("no-sa"), 0);

    // Nobody has these addresses, so nothing leaves for them.
    let refused = site.drops("policy-discard");
    for unheld in UNHELD {
        assert!(!pings(&site.rig.b, unheld));
    }
    assert_eq!(site.drops("policy-discard") - refused, 6);
    saw_nothing(&site.rig.a);

    // The translator forgets, and takes other ports for what it hears next. Packets of the warriors themselves show it: nobody else's count.
    translate(&site.rig.a, "40000-40999");
    for command in
        ["addr del 10.0.1.2/24 dev a0", "addr add 10.0.1.2/24 dev a0", "route add default via 10.0.1.1"]
    {
        site.rig.a.ip(command).unwrap();
    }
    until(&site, "other ports", &warriors[0].charon, || {
        for warrior in &warriors {
            pings(&warrior.namespace, INNER[0]);
        }
        peers(&site, 2).is_some_and(|peers| peers.iter().all(|(_, port)| *port >= 40000))
    });
    let events = site.ctl("ipsec.events 0 0").unwrap();
    assert!(events.contains("mapping dst 10.0.1.1 "), "{events}");
    warriors.iter().for_each(|warrior| warrior.reaches_again(&site));

    // One of them moves, and reports so by MOBIKE.
    let rebound = peers(&site, 2).unwrap();
    let [_, bert] = &warriors;
    let addresses = bert.addresses();
    bert.namespace.ip("addr add 192.168.2.3/24 dev eth0").unwrap();
    bert.namespace.ip("addr del 192.168.2.2/24 dev eth0").unwrap();
    until(&site, "another port of one", &bert.charon, || {
        peers(&site, 2).is_some_and(|peers| peers.difference(&rebound).count() == 1)
    });
    assert_eq!(bert.addresses(), addresses);
    warriors.iter().for_each(|warrior| warrior.reaches_again(&site));
    saw_nothing(&site.rig.a);
    site.undeploy();
}

#[test]
fn a_site_moves_dies_and_comes_again() {
    if skip("a_site_moves_dies_and_comes_again") {
        return;
    }
    let mut site = deployed();
    watch(&site.rig.a);
    site.c.sysctl("net/ipv4/conf/c0/promote_secondaries", "1").unwrap();
    site.c.ip(&format!("addr add {BEHIND}/32 dev lo")).unwrap();
    // Or it would be where the tunnel goes while an address is missing.
    site.c.ip("-6 addr flush dev c0").unwrap();
    let connection = other_site();
    let mut peer = Strongswan::with_own_esp("").unwrap();
    peer.start(&site.c).unwrap();
    peer.load(&site.c, &connection).unwrap();
    let is_at = |site: &Site, address: &str| {
        peers(site, 1).is_some_and(|peers| peers.iter().all(|(host, _)| host == address))
    };
    // The first packet makes the tunnel.
    until(&site, "a tunnel", &peer, || pings(&site.rig.b, BEHIND));
    assert!(is_at(&site, "10.0.3.2"));

    site.c.ip("addr add 10.0.3.3/24 dev c0").unwrap();
    site.c.ip("addr del 10.0.3.2/24 dev c0").unwrap();
    until(&site, "the other address", &peer, || is_at(&site, "10.0.3.3"));
    until(&site, "answers", &peer, || pings(&site.rig.b, BEHIND));

    // It dies, and its associations go. Packets ask for others in vain, until it is there again.
    peer.kill();
    until(&site, "no associations", &peer, || site.ctl("ipsec.sas").as_deref() == Some(""));
    let wanted = site.drops("no-sa");
    assert!(!pings(&site.rig.b, BEHIND));
    assert_eq!(site.drops("no-sa") - wanted, 3);
    site.c.ip("addr add 10.0.3.2/24 dev c0").unwrap();
    site.c.ip("addr del 10.0.3.3/24 dev c0").unwrap();
    peer.start(&site.c).unwrap();
    peer.load(&site.c, &connection).unwrap();
    until(&site, "another tunnel", &peer, || pings(&site.rig.b, BEHIND));
    assert!(is_at(&site, "10.0.3.2"));
    saw_nothing(&site.rig.a);
    site.undeploy();
}
