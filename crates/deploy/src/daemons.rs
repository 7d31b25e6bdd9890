// SPDX-License-Identifier: MIT OR Apache-2.0
//! The routing daemons of a router: FRR's, with a configuration for each, or BIRD.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

use elements::compound::router::Address;

/// Where Debian and others have FRR's daemons.
const PLACES: [&str; 3] = ["/usr/lib/frr", "/usr/libexec/frr", "/usr/local/sbin"];

/// Whose routing daemons run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suite {
    /// FRR's, one for each protocol.
    #[default]
    Frr,
    /// BIRD 2, which speaks all.
    Bird,
}

/// What the daemons speak.
#[derive(Clone, Debug, Default)]
pub struct Protocols {
    /// OSPF on all interfaces with an IPv4 address.
    pub ospf: bool,
    /// OSPFv3 on all interfaces with an IPv6 address.
    pub ospf6: bool,
    /// RIP on all interfaces with an IPv4 address.
    pub rip: bool,
    /// RIPng on all interfaces with an IPv6 address.
    pub ripng: bool,
    /// IS-IS on all interfaces, in area 49.0001. FRR only.
    pub isis: bool,
    /// BGP as this autonomous system.
    pub bgp: Option<u32>,
    /// PIM and IGMP for IPv4, and PIM and MLD for IPv6. FRR only.
    pub pim: bool,
    /// BFD with the neighbours of OSPF and BGP.
    pub bfd: bool,
    /// Whose daemons.
    pub suite: Suite,
}

/// A daemon, and how it is run.
#[derive(Debug)]
pub(crate) struct Daemon {
    /// The name of its plane.
    pub(crate) name: String,
    /// Its configuration, named after it.
    pub(crate) text: String,
    /// Its program and arguments.
    pub(crate) command: Vec<String>,
    /// The plane that must be ready before it starts.
    pub(crate) after: &'static str,
}

/// An interface as the daemons see it: its twin, and its addresses.
pub(crate) struct Twin {
    pub(crate) name: String,
    pub(crate) addresses: Vec<Address>,
}

impl Twin {
    pub(crate) fn has4(&self) -> bool {
        self.addresses.iter().any(|address| matches!(address, Address::Four(_)))
    }

    pub(crate) fn has6(&self) -> bool {
        self.addresses.iter().any(|address| matches!(address, Address::Six(_)))
    }
}

/// Twins of interfaces given as `eth0=10.0.0.1/24,2001:db8::1/64`.
pub(crate) fn twins(interfaces: &[String]) -> Vec<Twin> {
    let twin = |(number, text): (usize, &String)| {
        let addresses = text.split_once('=').map_or("", |(_, addresses)| addresses).split(',');
        Twin {
            name: format!("host{number}"),
            addresses: addresses.filter_map(|text| text.parse().ok()).collect(),
        }
    };
    interfaces.iter().enumerate().map(twin).collect()
}

/// The address by which routers know this one.
pub(crate) fn router_id(twins: &[Twin]) -> Option<Ipv4Addr> {
    twins.iter().flat_map(|twin| &twin.addresses).find_map(|address| match address {
        Address::Four(address) => Some(address.addr),
        Address::Six(_) => None,
    })
}

/// FRR's daemons, zebra first, whose files are in a directory.
pub(crate) fn frr(protocols: &Protocols, twins: &[Twin], directory: &Path) -> Vec<Daemon> {
    let zebra = "! Where the control plane listens.\nfpm address 127.0.0.1\nip forwarding\nipv6 forwarding\n";
    let mut texts = vec![("zebra", zebra.to_owned())];
    let bfd = protocols.bfd;
    let mut add = |speaks: bool, daemon, text: fn(&[Twin], bool) -> String| {
        texts.extend(speaks.then(|| (daemon, text(twins, bfd))));
    };
    add(protocols.ospf, "ospfd", ospf);
    add(protocols.ospf6, "ospf6d", ospf6);
    add(protocols.rip, "ripd", rip);
    add(protocols.ripng, "ripngd", ripng);
    add(protocols.isis, "isisd", isis);
    add(protocols.pim, "pimd", pim);
    let has_pim6 = place_of("pim6d").is_some();
    add(protocols.pim && has_pim6 && twins.iter().any(Twin::has6), "pim6d", pim6);
    add(bfd, "bfdd", |_, _| BFDD.to_owned());
    texts.extend(protocols.bgp.map(|number| ("bgpd", bgp(number, bfd))));
    let place = place_of("zebra").unwrap_or(PLACES[0]);
    let at = directory.display();
    let daemon = |(name, text): (&str, String)| {
        let mut command = vec![format!("{place}/{name}")];
        match name {
            "zebra" => command.extend(["-M", "dplane_fpm_nl"].map(str::to_owned)),
            "bfdd" => command.extend(["--dplaneaddr".to_owned(), format!("unix:{at}/bfd.sock")]),
            _ => {}
        }
        let files = [
            format!("-f {at}/{name}.conf"),
            format!("-i {at}/{name}.pid"),
            format!("-z {at}/zserv"),
            format!("--vty_socket {at}"),
        ];
        let words = files.iter().filter_map(|pair| pair.split_once(' '));
        command.extend(words.flat_map(|(option, value)| [option.to_owned(), value.to_owned()]));
        command.extend(["-A", "127.0.0.1", "--log", "stdout"].map(str::to_owned));
        Daemon { name: name.to_owned(), text, command, after: if name == "zebra" { "user" } else { "zebra" } }
    };
    texts.into_iter().map(daemon).collect()
}

/// Where a daemon of FRR is, if it is there.
fn place_of(daemon: &str) -> Option<&'static str> {
    PLACES.into_iter().find(|place| Path::new(place).join(daemon).exists())
}

/// The router forwards while bgpd is dead: zebra keeps the routes, and neighbours are asked to keep theirs (RFC 4724). A restarted bgpd 8.4
/// names a few of many routes only when the restart time is over. So that has to be shorter than the control plane's grace period.
const SURVIVES: &str =
    " bgp graceful-restart\n bgp graceful-restart preserve-fw-state\n bgp graceful-restart restart-time 60\n";
const BFDD: &str = "bfd\n profile fast\n  transmit-interval 50\n  receive-interval 50\n exit\nexit\n";

/// OSPF on all networks of the interfaces.
fn ospf(twins: &[Twin], bfd: bool) -> String {
    let mut text = String::new();
    for Twin { name, .. } in twins.iter().filter(|twin| bfd && twin.has4()) {
        let _ = writeln!(text, "interface {name}\n ip ospf bfd\n ip ospf bfd profile fast\n!");
    }
    text += "router ospf\n";
    for address in twins.iter().flat_map(|twin| &twin.addresses) {
        if let Address::Four(address) = address
            && let Some(prefix) = address.prefix()
        {
            let _ = writeln!(text, " network {prefix} area 0");
        }
    }
    text
}

fn ospf6(twins: &[Twin], bfd: bool) -> String {
    let watch = if bfd { " ipv6 ospf6 bfd\n ipv6 ospf6 bfd profile fast\n" } else { "" };
    let of_twin = |twin: &Twin| format!("interface {}\n ipv6 ospf6 area 0\n{watch}!\n", twin.name);
    let interfaces: String = twins.iter().filter(|twin| twin.has6()).map(of_twin).collect();
    let id = match router_id(twins) {
        Some(id) => format!(" ospf6 router-id {id}\n"),
        None => {
            " ! A number of its own for each router, written as an IPv4 address:\n ospf6 router-id 0.0.0.1\n"
                .into()
        }
    };
    format!("{interfaces}router ospf6\n{id}")
}

fn rip(twins: &[Twin], _: bool) -> String {
    let of_twin = |twin: &Twin| format!(" network {}\n", twin.name);
    let interfaces: String = twins.iter().filter(|twin| twin.has4()).map(of_twin).collect();
    format!(
        "router rip\n{interfaces} ! Routes of other daemons are announced if they are named, as in:\n ! redistribute bgp\n"
    )
}

fn ripng(twins: &[Twin], _: bool) -> String {
    let of_twin = |twin: &Twin| format!(" network {}\n", twin.name);
    let interfaces: String = twins.iter().filter(|twin| twin.has6()).map(of_twin).collect();
    format!("router ripng\n{interfaces}")
}

fn isis(twins: &[Twin], _: bool) -> String {
    let mut text = String::new();
    for twin in twins {
        let _ = writeln!(text, "interface {}", twin.name);
        text += if twin.has4() { " ip router isis 1\n" } else { "" };
        text += if twin.has6() { " ipv6 router isis 1\n" } else { "" };
        text += "!\n";
    }
    // The digits of an IPv4 address, three for each byte, make a system identifier by custom.
    let id = router_id(twins).unwrap_or(Ipv4Addr::new(0, 0, 0, 1));
    let digits: String = id.octets().iter().map(|byte| format!("{byte:03}")).collect();
    let (a, b, c) = (&digits[..4], &digits[4..8], &digits[8..]);
    text + &format!(
        "router isis 1\n ! Area, system, selector. Each router needs a system identifier of its own.\n net 49.0001.{a}.{b}.{c}.00\n"
    )
}

fn pim(twins: &[Twin], bfd: bool) -> String {
    let watch = if bfd { " ip pim bfd\n" } else { "" };
    let mut text = String::from(
        "! The rendezvous point of groups without a known source, the same on all routers, as in:\n! ip pim rp 10.0.0.1 239.0.0.0/8\n",
    );
    for Twin { name, .. } in twins.iter().filter(|twin| twin.has4()) {
        let _ = writeln!(text, "interface {name}\n ip pim\n{watch} ip igmp\n!");
    }
    text
}

fn pim6(twins: &[Twin], _: bool) -> String {
    let mut text = String::from("! The rendezvous point, as in:\n! ipv6 pim rp 2001:db8::1 ff1e::/16\n");
    for Twin { name, .. } in twins.iter().filter(|twin| twin.has6()) {
        let _ = writeln!(text, "interface {name}\n ipv6 pim\n ipv6 mld\n!");
    }
    text
}

fn bgp(number: u32, bfd: bool) -> String {
    // A new bfdd reports a session as down before it knows better. That is not to end BGP's session with a neighbour that restarts gracefully.
    let watch = match bfd {
        true => {
            " ! neighbor 10.0.0.2 bfd profile fast\n ! neighbor 10.0.0.2 bfd check-control-plane-failure\n"
        }
        false => "",
    };
    format!(
        "router bgp {number}\n ! For each neighbour:\n ! neighbor 10.0.0.2 remote-as 65002\n{watch} no bgp ebgp-requires-policy\n{SURVIVES}"
    )
}

/// Starts BIRD, the program `$0`, with the files in the directory `$1`. Where its socket and its routes are left, the last run was killed:
/// BIRD leaves the kernel's routes alone then until it has learnt all again (-R).
const START_BIRD: &str = r#"routes() { ip route show table all proto 12; ip -6 route show table all proto 12; }; if test -S "$1/bird.ctl" && test -n "$(routes)"; then set -- "$1" -R; fi; exec "$0" -f $2 -c "$1/bird.conf" -s "$1/bird.ctl""#;

/// BIRD, whose files are in a directory.
pub(crate) fn bird(protocols: &Protocols, twins: &[Twin], directory: &Path) -> Daemon {
    let at = directory.display();
    let place = ["/usr/sbin/bird", "/usr/local/sbin/bird"];
    let place = place.into_iter().find(|place| Path::new(place).exists()).unwrap_or(place[0]);
    let command = ["/bin/sh", "-c", START_BIRD, place, &at.to_string()];
    Daemon {
        name: "bird".into(),
        text: bird_text(protocols, twins),
        command: command.map(str::to_owned).to_vec(),
        after: "user",
    }
}

fn bird_text(protocols: &Protocols, twins: &[Twin]) -> String {
    let id = router_id(twins).unwrap_or(Ipv4Addr::new(0, 0, 0, 1));
    let mut text = format!(
        "log stderr all;\n# Each router needs a number of its own.\nrouter id {id};\n\
         # A BIRD that follows a killed one waits so many seconds for all neighbours, before it removes a route.\n\
         graceful restart wait 60;\n\n\
         protocol device {{ }}\nprotocol direct {{ ipv4; ipv6; }}\n\n\
         # The control plane reads the kernel's routes.\n\
         protocol kernel {{ ipv4 {{ export where source != RTS_DEVICE; }}; merge paths on; graceful restart on; }}\n\
         protocol kernel {{ ipv6 {{ export where source != RTS_DEVICE; }}; merge paths on; graceful restart on; }}\n"
    );
    let names = |has: fn(&Twin) -> bool| -> Vec<&str> {
        twins.iter().filter(|twin| has(twin)).map(|twin| twin.name.as_str()).collect()
    };
    let (four, six) = (names(Twin::has4), names(Twin::has6));
    let watched = if protocols.bfd { " bfd yes; " } else { " " };
    if protocols.bfd {
        text += "\nprotocol bfd { interface \"*\" { interval 50 ms; multiplier 3; }; }\n";
    }
    let mut block = |speaks: bool, head: &str, family: &str, interfaces: &[&str], area: bool| {
        if !speaks {
            return;
        }
        let (open, close) = if area { ("graceful restart on;\n  area 0 { ", " };") } else { ("", "") };
        let settings = if area { watched } else { " " };
        let interfaces: Vec<String> =
            interfaces.iter().map(|name| format!("interface \"{name}\" {{{settings}}};")).collect();
        let own = if area { "none" } else { "where source ~ [ RTS_RIP, RTS_DEVICE ]" };
        let _ = write!(
            text,
            "\nprotocol {head} {{\n  {family} {{ import all; export {own}; }};\n  {open}{}{close}\n}}\n",
            interfaces.join(" ")
        );
    };
    block(protocols.ospf, "ospf v2", "ipv4", &four, true);
    block(protocols.ospf6, "ospf v3", "ipv6", &six, true);
    block(protocols.rip, "rip", "ipv4", &four, false);
    block(protocols.ripng, "rip ng", "ipv6", &six, false);
    if let Some(number) = protocols.bgp {
        let watched = if protocols.bfd { " bfd on;" } else { "" };
        let _ = write!(
            text,
            "\n# For each neighbour:\n\
             # protocol bgp {{ local as {number}; neighbor 10.0.0.2 as 65002;{watched} graceful restart on; ipv4 {{ import all; export where source = RTS_BGP; }}; }}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERFACES: [&str; 3] = ["a=10.0.1.1/24,2001:db8::1/64", "b=192.168.2.1/24", "c=2001:db8:1::1/64"];

    fn all() -> Protocols {
        let (ospf, ospf6, rip, ripng, isis) = (true, true, true, true, true);
        Protocols {
            ospf,
            ospf6,
            rip,
            ripng,
            isis,
            bgp: Some(65001),
            pim: true,
            bfd: false,
            suite: Suite::Frr,
        }
    }

    #[test]
    fn each_daemon_speaks_on_the_interfaces_of_its_families() {
        let twins = twins(&INTERFACES.map(String::from));
        let all = frr(&all(), &twins, Path::new("/r"));
        let text = |name: &str| {
            all.iter().find(|daemon| daemon.name == name).map(|daemon| daemon.text.as_str()).unwrap()
        };
        assert_eq!((&*all[0].name, &*all[1].name), ("zebra", "ospfd"));
        assert_eq!(
            text("ospfd"),
            "router ospf\n network 10.0.1.0/24 area 0\n network 192.168.2.0/24 area 0\n"
        );
        assert!(
            text("ospf6d").contains("interface host0\n ipv6 ospf6 area 0\n!\ninterface host2\n"),
            "{all:?}"
        );
        assert!(text("ospf6d").ends_with(" ospf6 router-id 10.0.1.1\n"), "{all:?}");
        assert!(text("ripd").contains("router rip\n network host0\n network host1\n !"), "{all:?}");
        assert_eq!(text("ripngd"), "router ripng\n network host0\n network host2\n");
        assert!(
            text("isisd").contains("host0\n ip router isis 1\n ipv6 router isis 1\n!\ninterface host1\n ip ")
        );
        assert!(text("isisd").ends_with(" net 49.0001.0100.0000.1001.00\n"), "{all:?}");
        assert!(text("bgpd").starts_with("router bgp 65001\n"));
        assert!(
            text("pimd").contains("interface host0\n ip pim\n ip igmp\n!\ninterface host1\n ip pim\n"),
            "{all:?}"
        );
        assert_eq!(frr(&Protocols::default(), &twins, Path::new("/r")).len(), 1);
    }

    #[test]
    fn neighbours_are_watched_where_asked() {
        let twins = twins(&INTERFACES.map(String::from));
        let protocols = Protocols { bfd: true, ..all() };
        let texts: String =
            frr(&protocols, &twins, Path::new("/r")).into_iter().map(|daemon| daemon.text).collect();
        let watched = " ip ospf bfd\n ip ospf bfd profile fast\n";
        for part in [
            &format!("interface host0\n{watched}!\ninterface host1\n{watched}!\nrouter ospf\n"),
            "interface host2\n ipv6 ospf6 area 0\n ipv6 ospf6 bfd\n",
            " ! neighbor 10.0.0.2 bfd profile fast\n",
            BFDD,
        ] {
            assert!(texts.contains(part), "{part}: {texts}");
        }
        assert!(
            bird_text(&protocols, &twins).contains("interface \"host0\" { bfd yes; }; interface \"host1\"")
        );
    }
}
