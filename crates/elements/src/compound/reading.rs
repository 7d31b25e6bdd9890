// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the arguments of a ready router, which differ little among the families.

use std::net::IpAddr;

use lang::{Fault, Use};
use wire::Prefix6;

use super::arguments::{Words, interface_mtu, is_interface_name, keyword, ports, unknown_keyword};
use super::ipv6;
use super::nat::{Source, Translation};
use super::router::{AddHop, Address, Interface, Router, repeated};

/// What a class of routers takes.
pub(super) struct Grammar {
    /// The class.
    pub(super) class: &'static str,
    /// Whether interfaces may have IPv4 addresses.
    pub(super) four: bool,
    /// Whether interfaces may have IPv6 addresses.
    pub(super) six: bool,
    /// The least MTU.
    pub(super) mtu_min: u16,
    /// How to write an interface.
    pub(super) interface: &'static str,
    /// How to write a route.
    pub(super) route: &'static str,
    /// Whether addresses are translated, also if nothing says how.
    pub(super) translates: bool,
}

/// Keywords of every router.
const COMMON: [&str; 15] = [
    "ROUTE", "VRF", "MTU", "QUEUE", "METHOD", "HOST", "NETNS", "FEED", "BFD", "MPLS", "IPSEC", "SA",
    "POLICY", "FRAGMENT", "FIREWALL",
];
/// Keywords of IPv4 routers: how addresses are translated.
const TRANSLATING: [&str; 3] = ["NAT", "STATEMENT", "OUTSIDE"];
/// Keywords of IPv6 routers, which their advertisements have.
const ADVERTISING: [&str; 9] = [
    "ADVERTISE",
    "LIFETIME",
    "MAX_INTERVAL",
    "MIN_INTERVAL",
    "HOP_LIMIT",
    "MANAGED",
    "OTHER",
    "PREFERENCE",
    "REACHABLE_TIME",
];

/// An interface that is read, and what its argument said of its MTU.
struct Given {
    number: usize,
    interface: Interface,
    mtu: Option<u16>,
}

impl Grammar {
    fn keywords(&self) -> Vec<&'static str> {
        let six = if self.six { &ADVERTISING[..] } else { &[] };
        let four = if self.four { &TRANSLATING[..] } else { &[] };
        [&COMMON[..], four, six].concat()
    }

    /// Writes the body for a use.
    pub(super) fn write(&self, request: &Use<'_>) -> Result<String, Vec<Fault>> {
        let mut faults = Vec::new();
        let router = self.read(request, &mut faults);
        ports(request, &mut faults);
        match router {
            Some(router) if faults.is_empty() => Ok(router.text()),
            _ => Err(faults),
        }
    }

    fn read(&self, request: &Use<'_>, faults: &mut Vec<Fault>) -> Option<Router> {
        let keywords = self.keywords();
        let mut router = Router::new(Vec::new());
        router.joined = request.ports.map(|n| n > 0);
        let (mut mtu, mut given, mut unread) = (None, Vec::new(), false);
        for (n, arg) in request.args.iter().enumerate() {
            let mut words = Words::of(arg, n, faults);
            if let Some(key) = keyword(arg, &keywords) {
                words.next();
                self.keyword(key, words, &mut router, &mut mtu);
            } else if let Some((what, help)) = unknown_keyword(arg, &keywords, self.class) {
                words.fault(what, help);
            } else {
                match self.interface(words) {
                    Some((interface, mtu)) => given.push(Given { number: n, interface, mtu }),
                    None => unread = true,
                }
            }
        }
        let numbers: Vec<usize> = given.iter().map(|g| g.number).collect();
        for Given { number, mut interface, mtu: own } in given {
            interface.keeps_mtu = own.or(mtu).is_some();
            interface.mtu = own.or(mtu).unwrap_or(interface.mtu.max(self.mtu_min));
            interface.complete();
            if interface.has6() && interface.mtu < ipv6::MTU_MIN {
                let what = format!("{} has an MTU of {}, too small for IPv6", interface.name, interface.mtu);
                faults.push(Fault::new(Some(number), what, format!("the least is {}", ipv6::MTU_MIN)));
            }
            router.interfaces.push(interface);
        }
        if router.interfaces.is_empty() {
            if !unread {
                faults.push(Fault::new(
                    None,
                    "a router needs an interface",
                    format!("write {}", self.interface),
                ));
            }
            return None;
        }
        for (n, arg) in request.args.iter().enumerate().filter(|(_, a)| keyword(a, &["VRF"]).is_some()) {
            vrf(&mut router, Words::of(arg, n, faults), unread);
        }
        for (n, wrong) in repeated(&router.interfaces.iter().collect::<Vec<_>>(), |i| router.table_of(i)) {
            faults.push(Fault::new(Some(numbers[n]), wrong.what, wrong.help));
        }
        for (n, arg) in request.args.iter().enumerate().filter(|(_, a)| keyword(a, &["ROUTE"]).is_some()) {
            self.route(&mut router, Words::of(arg, n, faults), unread);
        }
        if self.four {
            self.translation(request, &mut router, faults, unread);
        }
        if router.firewall.is_some() && (router.mpls || router.ipsec.is_some()) {
            let what = "FIREWALL does not go together with MPLS or IPSEC";
            let help = "rules see neither labels nor tunnels: use one router for each";
            faults.push(Fault::new(None, what, help.to_owned()));
        }
        if router.ipsec.is_some() && (router.mpls || !router.vrfs.is_empty()) {
            let what = "IPSEC does not go together with MPLS or VRF";
            faults.push(Fault::new(
                None,
                what,
                "policies know neither labels nor VRFs: use one router for each".to_owned(),
            ));
        }
        Some(router)
    }

    fn keyword(&self, key: &'static str, mut words: Words<'_>, router: &mut Router, mtu: &mut Option<u16>) {
        match key {
            "MTU" => *mtu = words.number("MTU", self.mtu_min),
            "QUEUE" => router.queue = words.number("QUEUE", 1).unwrap_or(router.queue),
            "HOST" => router.host |= words.boolean("HOST").unwrap_or(false),
            "NETNS" => {
                router.netns = words
                    .next()
                    .filter(|n| n.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c)));
                router.host = true;
                if router.netns.is_none() {
                    words.fault("NETNS names no network namespace", "write `NETNS name`");
                }
            }
            "FEED" => {
                router.feed = words.next().filter(|name| is_interface_name(name));
                router.host = true;
                if router.feed.is_none() {
                    words.fault("FEED names no channel", "write `FEED routes`");
                }
            }
            "BFD" => return sessions(router, words),
            "IPSEC" => match words.boolean("IPSEC") {
                Some(true) => _ = router.ipsec.get_or_insert_default(),
                _ => router.ipsec = None,
            },
            // The element knows what they can be.
            "SA" | "POLICY" => {
                let text: Vec<String> = std::iter::from_fn(|| words.next()).map(quoted).collect();
                router.ipsec.get_or_insert_default().push(format!("{key} {}", text.join(" ")));
                return;
            }
            "FRAGMENT" => match words.next().as_deref() {
                Some("before") => router.splits = true,
                Some("after") => router.splits = false,
                _ => words.fault("FRAGMENT is neither before nor after", "write `FRAGMENT before`"),
            },
            "FIREWALL" => {
                router.firewall = words.next();
                if router.firewall.is_none() {
                    words.fault("FIREWALL names no file", "write `FIREWALL office.rules`");
                }
            }
            "MPLS" => router.mpls = words.boolean("MPLS").unwrap_or(false),
            "METHOD" => router.method = words.next().filter(|m| is_interface_name(m)),
            "ADVERTISE" => router.advertise = words.boolean("ADVERTISE"),
            // Routes and VRFs are read when all interfaces are known.
            "ROUTE" | "VRF" | "NAT" | "STATEMENT" | "OUTSIDE" => return,
            // The element that sends advertisements knows which settings there are.
            _ => match words.next().filter(|v| v.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')) {
                Some(value) => router.advertisements.push(format!("{key} {value}")),
                None => words.fault(
                    format!("{key} has no value"),
                    "'junctor elements IP6NDRouterAdvertiser' says which",
                ),
            },
        }
        words.end("one value behind the keyword");
    }

    /// Reads how addresses are translated.
    fn translation(&self, request: &Use<'_>, router: &mut Router, faults: &mut Vec<Fault>, unread: bool) {
        let (mut file, mut statements, mut outside, mut number) = (None, Vec::new(), Vec::new(), None);
        for (n, arg) in request.args.iter().enumerate() {
            let Some(key) = keyword(arg, &TRANSLATING) else { continue };
            let mut words = Words::of(arg, n, faults);
            words.next();
            let text: Vec<String> = std::iter::from_fn(|| words.next()).collect();
            number = number.or(Some(n));
            match (key, &text[..]) {
                (_, []) => words
                    .fault(format!("{key} says nothing"), "'junctor elements NatGateway' says what it takes"),
                ("NAT", [path]) => file = Some(path.clone()),
                ("NAT", _) => words.fault("NAT names several files", "write `NAT office.nat`"),
                ("OUTSIDE", names) => outside.extend(names.iter().cloned()),
                _ => statements.push(text.join(" ")),
            }
        }
        let is_wanted = self.translates || file.is_some() || !statements.is_empty();
        if unread || !faults.is_empty() || (!is_wanted && outside.is_empty()) {
            return;
        }
        let mut fault = |what: String| {
            faults.push(Fault::new(
                number,
                what,
                "'junctor elements NAT44' says what statements are".to_owned(),
            ));
        };
        if !is_wanted {
            return fault("OUTSIDE without NAT or STATEMENT".to_owned());
        }
        if router.mpls || router.ipsec.is_some() {
            return fault("address translation does not go together with MPLS or IPSEC".to_owned());
        }
        let source = match (file, statements) {
            (Some(_), more) if !more.is_empty() => {
                return fault("NAT and STATEMENT: the statements stand in one of them".to_owned());
            }
            (Some(file), _) => Source::File(file),
            (None, statements) => Source::Statements(statements),
        };
        match Translation::new(router, source, &outside) {
            Ok(translation) => router.nat = Some(translation),
            Err(why) => fault(why),
        }
    }

    /// Reads an argument; `None`, once it is reported, if nothing can be made of it.
    fn interface(&self, mut words: Words<'_>) -> Option<(Interface, Option<u16>)> {
        let name = words.next().unwrap_or_default();
        if !is_interface_name(&name) {
            words.fault(
                format!("'{name}' is not the name of an interface"),
                format!("write {}", self.interface),
            );
            return None;
        }
        let mut interface = Interface::new(&name, interface_mtu(&name));
        let (mut mtu, mut good) = (None, true);
        while let Some(word) = words.next() {
            match word.as_str() {
                "MTU" => mtu = words.number("MTU", self.mtu_min),
                "ETHER" => {
                    let text = words.next();
                    match words.read::<wire::MacAddr>("an Ethernet address", text, "ETHER 02:00:00:00:00:01")
                    {
                        Some(mac) => interface.station = mac.to_string(),
                        None => good = false,
                    }
                }
                "ADVERTISE" if self.six => interface.advertise = words.boolean("ADVERTISE"),
                "PREFIX" if self.six => {
                    let text = words.next();
                    let prefix = words.read::<Prefix6>("an IPv6 prefix", text, "PREFIX 2001:db8::/64");
                    interface.prefixes.extend(prefix);
                }
                _ => good &= self.address(&mut words, &mut interface, word),
            }
        }
        if good && interface.addresses().next().is_none() {
            words.fault(format!("{name} has no address"), format!("write {}", self.interface));
            good = false;
        }
        good.then_some((interface, mtu))
    }

    fn address(&self, words: &mut Words<'_>, interface: &mut Interface, word: String) -> bool {
        let Some(address) =
            words.read::<Address>("an address with its prefix length", Some(word.clone()), self.interface)
        else {
            return false;
        };
        let taken = match address {
            Address::Four(_) => self.four,
            Address::Six(_) => self.six,
        };
        if !taken {
            let (family, class) = if self.four { ("IPv4", "IP6Router") } else { ("IPv6", "IPRouter") };
            let what = format!("{word} is of another family: {} is a router for {family}", self.class);
            words.fault(what, format!("{class} takes such addresses, DualRouter those of both families"));
            return false;
        }
        match interface.add(address) {
            Ok(()) => true,
            Err(why) => {
                words.fault(why.what, why.help);
                false
            }
        }
    }

    /// Reads a route. Where interfaces are `missing` because they were wrong, nothing is said about those not found.
    fn route(&self, router: &mut Router, mut words: Words<'_>, missing: bool) {
        words.next();
        let prefix = words.next();
        let alone = prefix.as_ref().map(|text| text.split('@').next().unwrap_or(text).to_owned());
        if words.read::<Address>("a prefix", alone, self.route).is_none() {
            return;
        }
        let Some(prefix) = prefix else { return };
        let family = |text: &str| if text.contains(':') { self.six } else { self.four };
        // Of several next hops, which share the traffic, each begins behind a bar.
        let mut add: AddHop = Router::add_route;
        loop {
            let (hop, mut interface) = (words.next(), words.next());
            let mut more = interface.take_if(|word| word.as_str() == "|").is_some();
            if words.read::<IpAddr>("a next hop", hop.clone(), self.route).is_none() {
                return;
            }
            let Some(hop) = hop else { return };
            if !family(&prefix) {
                return words.fault(
                    format!("{prefix} is of a family that {} does not route", self.class),
                    format!("write {}", self.route),
                );
            }
            if let Err(why) = add(router, &prefix, &hop, interface.as_deref()) {
                if !missing || why.what.contains("host bits") {
                    words.fault(why.what, why.help);
                }
                return;
            }
            if interface.is_some() {
                match words.next().as_deref() {
                    Some("|") => more = true,
                    Some(word) => {
                        let what = format!("'{word}' stands too much here");
                        return words.fault(what, format!("write {}", self.route));
                    }
                    None => {}
                }
            }
            if !more {
                return;
            }
            add = Router::add_hop;
        }
    }
}

/// A word as the element gets it: a comma in it ends no argument, as in `rfc7539esp(chacha20,poly1305)`.
fn quoted(word: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.:/-()".contains(c);
    if word.chars().all(is_plain) { word } else { lang::config::quote(&word) }
}

/// Reads a VRF. Where interfaces are `missing` because they were wrong, nothing is said about those not found.
fn vrf(router: &mut Router, mut words: Words<'_>, missing: bool) {
    words.next();
    let name = words.next().unwrap_or_default();
    let devices: Vec<String> = std::iter::from_fn(|| words.next()).collect();
    if let Err(why) = router.add_vrf(&name, devices.iter().map(String::as_str))
        && !missing
    {
        words.fault(why.what, why.help);
    }
}

/// Reads a session, or `true` for none of the configuration's own.
fn sessions(router: &mut Router, mut words: Words<'_>) {
    let text: Vec<String> = std::iter::from_fn(|| words.next()).collect();
    match &text[..] {
        [word] if word == "false" => router.bfd = None,
        [word] if word == "true" => _ = router.bfd.get_or_insert_default(),
        // The element knows which settings a session has.
        [_, _, _, ..] => router.bfd.get_or_insert_default().push(text.join(" ")),
        _ => words.fault(
            "BFD has no session",
            "write `BFD 10.0.0.2 10.0.0.1 eth0 TX 50ms RX 50ms`, or `BFD true`; 'junctor elements BFD' explains",
        ),
    }
}
