// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of every kind, and what collectors should find in them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use junctor_ipfix::{Change, Event, Quota, What};

const FOUR: IpAddr = IpAddr::V4(Ipv4Addr::new(100, 64, 0, 7));
const SIX: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x2a));
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

/// When the first event happened, in milliseconds; the others follow, one each millisecond.
pub const START_MS: u64 = 1_700_000_000_100;

/// Each event, and twenty fields of its record, with dashes for those that are not there; missing ones at the end as well.
///
/// * 0 to 3: natEvent; inside address of IPv4, of IPv6; outside address.
/// * 4 to 6: protocol, inside port, outside port.
/// * 7 to 10: peer before and after translation, its port before and after.
/// * 11 to 14: first port, last port, step and number of a block.
/// * 15 to 19: pool; limit; its value for sessions, for bindings, for a host.
pub fn cases() -> Vec<(Event, Vec<String>)> {
    let row = |(n, (what, fields)): (usize, (What, &str))| {
        let mut fields: Vec<String> = fields.split(' ').map(str::to_owned).collect();
        fields.resize(20, "-".to_owned());
        (Event { at_ms: START_MS + n as u64, what }, fields)
    };
    all().into_iter().enumerate().map(row).collect()
}

fn all() -> Vec<(What, &'static str)> {
    let peer = Some((PEER, 443));
    vec![
        (session(true, FOUR, None), "4 100.64.0.7 - 192.0.2.1 6 1000 4000"),
        (session(false, FOUR, peer), "5 100.64.0.7 - 192.0.2.1 6 1000 4000 203.0.113.9 203.0.113.9 443 443"),
        (session(true, SIX, None), "6 - 2001:db8::2a 192.0.2.1 6 1000 4000"),
        (session(false, SIX, peer), "7 - 2001:db8::2a 192.0.2.1 6 1000 4000 - 203.0.113.9 - 443"),
        (binding(true, FOUR, Some(1000)), "8 100.64.0.7 - 192.0.2.1 17 1000 4001"),
        (binding(false, FOUR, None), "9 100.64.0.7 - 192.0.2.1 17 - 4001"),
        (binding(true, SIX, Some(1000)), "10 - 2001:db8::2a 192.0.2.1 17 1000 4001"),
        (binding(false, SIX, None), "11 - 2001:db8::2a 192.0.2.1 17 - 4001"),
        (block(true, FOUR), "16 100.64.0.7 - 192.0.2.1 - - - - - - - 1024 1535 1 512"),
        (block(false, SIX), "17 - 2001:db8::2a 192.0.2.1 - - - - - - - 1024 1535 1 512"),
        (What::AddressesExhausted { pool: 3 }, "3 - - - - - - - - - - - - - - 3"),
        (What::PortsExhausted { outside: OUTSIDE, protocol: 17 }, "12 - - 192.0.2.1 17"),
        (What::QuotaExceeded(Quota::Sessions(262_144)), "13 - - - - - - - - - - - - - - - 1 262144"),
        (What::QuotaExceeded(Quota::Bindings(9)), "13 - - - - - - - - - - - - - - - 2 - 9"),
        (
            What::QuotaExceeded(Quota::OfHost { inside: FOUR, most: 100 }),
            "13 100.64.0.7 - - - - - - - - - - - - - - 3 - - 100",
        ),
        (
            What::QuotaExceeded(Quota::OfHost { inside: SIX, most: 100 }),
            "13 - 2001:db8::2a - - - - - - - - - - - - - 3 - - 100",
        ),
    ]
}

fn change(is_new: bool) -> Change {
    if is_new { Change::Created } else { Change::Deleted }
}

fn session(is_new: bool, inside: IpAddr, peer: Option<(Ipv4Addr, u16)>) -> What {
    What::Session {
        change: change(is_new),
        protocol: 6,
        inside: (inside, 1000),
        outside: (OUTSIDE, 4000),
        peer,
    }
}

fn binding(is_new: bool, inside: IpAddr, inside_port: Option<u16>) -> What {
    What::Binding { change: change(is_new), protocol: 17, inside, inside_port, outside: (OUTSIDE, 4001) }
}

fn block(is_new: bool, inside: IpAddr) -> What {
    What::Block { change: change(is_new), inside, outside: OUTSIDE, ports: (1024, 1535) }
}
