// SPDX-License-Identifier: MIT OR Apache-2.0
//! Well-known ports by name: those that Click knows, then those of `/etc/services`.

use std::collections::HashMap;
use std::sync::OnceLock;

/// Names that hold for TCP and UDP alike, on every machine.
const KNOWN: &[(&str, u16)] = &[
    ("auth", 113),
    ("bgp", 179),
    ("bootpc", 68),
    ("bootps", 67),
    ("chargen", 19),
    ("daytime", 13),
    ("dhcpc", 68),
    ("dhcps", 67),
    ("discard", 9),
    ("dns", 53),
    ("domain", 53),
    ("echo", 7),
    ("finger", 79),
    ("ftp", 21),
    ("ftp-data", 20),
    ("http", 80),
    ("https", 443),
    ("ident", 113),
    ("imap", 143),
    ("imap2", 143),
    ("imap3", 220),
    ("imaps", 993),
    ("irc", 194),
    ("ldap", 389),
    ("netbios-dgm", 138),
    ("netbios-ns", 137),
    ("netbios-ssn", 139),
    ("nntp", 119),
    ("ntp", 123),
    ("pop3", 110),
    ("pop3s", 995),
    ("rip", 520),
    ("route", 520),
    ("smtp", 25),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("snmptrap", 162),
    ("ssh", 22),
    ("sunrpc", 111),
    ("telnet", 23),
    ("tftp", 69),
    ("www", 80),
];

/// The port of a service, for a protocol by number.
pub fn port(name: &str, protocol: u8) -> Option<u16> {
    if let Some((_, port)) = KNOWN.iter().find(|(known, _)| *known == name) {
        return Some(*port);
    }
    let word = match protocol {
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        132 => "sctp",
        _ => return None,
    };
    system().get(&format!("{name}/{word}")).copied()
}

/// What `/etc/services` says, by name and protocol. Read once: a configuration asks for many words that are no service.
fn system() -> &'static HashMap<String, u16> {
    static SERVICES: OnceLock<HashMap<String, u16>> = OnceLock::new();
    let read = || crate::aside::ask(|| std::fs::read_to_string("/etc/services").ok());
    SERVICES.get_or_init(|| parse(&read().unwrap_or_default()))
}

fn parse(text: &str) -> HashMap<String, u16> {
    let mut services = HashMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or("").split_ascii_whitespace();
        let (Some(name), Some((port, protocol))) =
            (words.next(), words.next().and_then(|w| w.split_once('/')))
        else {
            continue;
        };
        let Ok(port) = port.parse() else { continue };
        for name in std::iter::once(name).chain(words) {
            services.entry(format!("{name}/{protocol}")).or_insert(port);
        }
    }
    services
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_and_aliases_are_read() {
        let services = super::parse("# all\nhttp\t80/tcp\twww web # web\nbad\nsyslog 514/udp\nx 99999/tcp\n");
        assert_eq!(
            (services.get("web/tcp"), services.get("syslog/udp"), services.len()),
            (Some(&80), Some(&514), 4)
        );
    }
}
