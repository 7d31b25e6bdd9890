// SPDX-License-Identifier: MIT OR Apache-2.0
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use crate::{Change, Event, Exporter, Format, Quota, Settings, TEMPLATES, What};

const FOUR: IpAddr = IpAddr::V4(Ipv4Addr::new(100, 64, 0, 7));
const SIX: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x2a));
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const NOW_MS: u64 = 1_700_000_000_123;

fn octets(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The first message about one event has these octets after its header.
fn check(what: What, expected: &str) {
    let mut exporter = Exporter::new(Settings::new(Format::Ipfix), NOW_MS).unwrap();
    let messages = exporter.export(NOW_MS, &[Event { at_ms: 0x0102_0304_0506, what }]);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0][16..], octets(expected), "{what:?}: {:02x?}", &messages[0][16..]);
}

#[test]
fn a_header_of_ipfix() {
    let settings = Settings { domain: 0x0a0b_0c0d, ..Settings::new(Format::Ipfix) };
    let mut exporter = Exporter::new(settings, NOW_MS).unwrap();
    let event = Event { at_ms: 1, what: What::AddressesExhausted { pool: 5 } };
    // 1,700,000,000 is 0x6553f100. Data records count, templates do not.
    let first = exporter.export(NOW_MS, &[event, event]);
    assert_eq!(first[0][..16], octets("000a 0044 6553f100 00000000 0a0b0c0d"));
    let second = exporter.export(NOW_MS + 1000, &[event]);
    assert_eq!(
        second[0],
        octets("000a 0024 6553f101 00000002 0a0b0c0d 010a 0014 0000000000000001 03 00000005 000000")
    );
    assert_eq!(exporter.messages(), 2);
}

#[test]
fn a_header_of_netflow_9() {
    let settings = Settings { domain: 7, ..Settings::new(Format::NetFlow9) };
    let mut exporter = Exporter::new(settings, NOW_MS - 1000).unwrap();
    let event = Event { at_ms: 1, what: What::AddressesExhausted { pool: 5 } };
    // Two records and a template; templates are in set 0. Messages count.
    let first = exporter.export(NOW_MS, &[event, event]);
    assert_eq!(
        first[0],
        octets(
            "0009 0003 000003e8 6553f100 00000000 00000007 0000 0014 010a 0003 0143 0008 00e6 0001 011b 0004
             010a 0020 0000000000000001 03 00000005 0000000000000001 03 00000005 0000"
        )
    );
    let second = exporter.export(NOW_MS, &[event]);
    assert_eq!(second[0][..20], octets("0009 0001 000003e8 6553f100 00000001 00000007"));
    assert!(exporter.not_sent(NOW_MS, 9).is_empty());
}

#[test]
fn records_of_sessions() {
    let session = |change, inside, peer| What::Session {
        change,
        protocol: 6,
        inside: (inside, 1000),
        outside: (OUTSIDE, 4000),
        peer,
    };
    // RFC 8158, 5.1: observationTimeMilliseconds, natEvent, sourceIPv4Address, postNATSourceIPv4Address, protocolIdentifier,
    // sourceTransportPort, postNAPTSourceTransportPort.
    check(
        session(Change::Created, FOUR, None),
        "0002 0024 0100 0007 0143 0008 00e6 0001 0008 0004 00e1 0004 0004 0001 0007 0002 00e3 0002
         0100 001c 0000010203040506 04 64400007 c0000201 06 03e8 0fa0 0000",
    );
    check(
        session(Change::Deleted, FOUR, Some((Ipv4Addr::new(203, 0, 113, 9), 443))),
        "0002 0034 0101 000b 0143 0008 00e6 0001 0008 0004 00e1 0004 0004 0001 0007 0002 00e3 0002
         000c 0004 00e2 0004 000b 0002 00e4 0002
         0101 0028 0000010203040506 05 64400007 c0000201 06 03e8 0fa0 cb007109 cb007109 01bb 01bb 0000",
    );
    check(
        session(Change::Created, SIX, None),
        "0002 0024 0102 0007 0143 0008 00e6 0001 001b 0010 00e1 0004 0004 0001 0007 0002 00e3 0002
         0102 0028 0000010203040506 06 20010db800000000000000000000002a c0000201 06 03e8 0fa0 0000",
    );
    check(
        session(Change::Deleted, SIX, Some((Ipv4Addr::new(203, 0, 113, 9), 443))),
        "0002 002c 0103 0009 0143 0008 00e6 0001 001b 0010 00e1 0004 0004 0001 0007 0002 00e3 0002
         00e2 0004 00e4 0002
         0103 002c 0000010203040506 07 20010db800000000000000000000002a c0000201 06 03e8 0fa0 cb007109 01bb",
    );
}

#[test]
fn records_of_ports_and_blocks() {
    let binding = |change, inside, inside_port| What::Binding {
        change,
        protocol: 17,
        inside,
        inside_port,
        outside: (OUTSIDE, 4000),
    };
    check(
        binding(Change::Created, FOUR, Some(1000)),
        "0002 0024 0104 0007 0143 0008 00e6 0001 0008 0004 00e1 0004 0004 0001 0007 0002 00e3 0002
         0104 001c 0000010203040506 08 64400007 c0000201 11 03e8 0fa0 0000",
    );
    check(
        binding(Change::Deleted, FOUR, None),
        "0002 0020 0105 0006 0143 0008 00e6 0001 0008 0004 00e1 0004 0004 0001 00e3 0002
         0105 0018 0000010203040506 09 64400007 c0000201 11 0fa0",
    );
    check(
        binding(Change::Created, SIX, Some(1000)),
        "0002 0024 0106 0007 0143 0008 00e6 0001 001b 0010 00e1 0004 0004 0001 0007 0002 00e3 0002
         0106 0028 0000010203040506 0a 20010db800000000000000000000002a c0000201 11 03e8 0fa0 0000",
    );
    check(
        binding(Change::Deleted, SIX, None),
        "0002 0020 0107 0006 0143 0008 00e6 0001 001b 0010 00e1 0004 0004 0001 00e3 0002
         0107 0024 0000010203040506 0b 20010db800000000000000000000002a c0000201 11 0fa0",
    );
    // RFC 8158, 5.9: portRangeStart, portRangeEnd, portRangeStepSize, portRangeNumPorts.
    let block = |change, inside| What::Block { change, inside, outside: OUTSIDE, ports: (1024, 1535) };
    check(
        block(Change::Created, FOUR),
        "0002 0028 0108 0008 0143 0008 00e6 0001 0008 0004 00e1 0004 0169 0002 016a 0002 016b 0002 016c 0002
         0108 0020 0000010203040506 10 64400007 c0000201 0400 05ff 0001 0200 000000",
    );
    check(
        block(Change::Deleted, SIX),
        "0002 0028 0109 0008 0143 0008 00e6 0001 001b 0010 00e1 0004 0169 0002 016a 0002 016b 0002 016c 0002
         0109 002c 0000010203040506 11 20010db800000000000000000000002a c0000201 0400 05ff 0001 0200 000000",
    );
}

#[test]
fn records_of_limits() {
    check(
        What::PortsExhausted { outside: OUTSIDE, protocol: 17 },
        "0002 0018 010b 0004 0143 0008 00e6 0001 00e1 0004 0004 0001
         010b 0014 0000010203040506 0c c0000201 11 0000",
    );
    let quota = What::QuotaExceeded;
    check(
        quota(Quota::Sessions(262_144)),
        "0002 0018 010c 0004 0143 0008 00e6 0001 01d2 0004 01d7 0004
         010c 0018 0000010203040506 0d 00000001 00040000 000000",
    );
    check(
        quota(Quota::Bindings(1)),
        "0002 0018 010d 0004 0143 0008 00e6 0001 01d2 0004 01d8 0004
         010d 0018 0000010203040506 0d 00000002 00000001 000000",
    );
    check(
        quota(Quota::OfHost { inside: FOUR, most: 100 }),
        "0002 001c 010e 0005 0143 0008 00e6 0001 01d2 0004 01d9 0004 0008 0004
         010e 001c 0000010203040506 0d 00000003 00000064 64400007 000000",
    );
    check(
        quota(Quota::OfHost { inside: SIX, most: 100 }),
        "0002 001c 010f 0005 0143 0008 00e6 0001 01d2 0004 01d9 0004 001b 0010
         010f 0028 0000010203040506 0d 00000003 00000064 20010db800000000000000000000002a 000000",
    );
}

#[test]
fn records_not_sent_are_summed() {
    let mut exporter =
        Exporter::new(Settings { process: 99, ..Settings::new(Format::Ipfix) }, NOW_MS).unwrap();
    // A template of set 3, with one scope (RFC 7011, 3.4.2.2).
    let first = exporter.not_sent(NOW_MS, 5);
    assert_eq!(
        first[0][16..],
        octets("0003 0014 0110 0002 0001 0090 0004 00a6 0008 0000 0110 0010 00000063 0000000000000005")
    );
    assert_eq!(exporter.not_sent(NOW_MS, 2)[0][16..], octets("0110 0010 00000063 0000000000000007"));
}

#[test]
fn templates_are_sent_again() {
    let settings = Settings { refresh_ms: 1000, refresh_messages: 3, ..Settings::new(Format::Ipfix) };
    let mut exporter = Exporter::new(settings, 0).unwrap();
    let event = Event { at_ms: 1, what: What::AddressesExhausted { pool: 5 } };
    let mut has_template = |now_ms, events: &[Event]| {
        let messages = exporter.export(now_ms, events);
        messages.first().map(|message| message[16..18] == [0, 2])
    };
    // By messages, by time, and by time without an event.
    assert_eq!(has_template(0, &[]), None);
    for expected in [true, false, false, true, false, false, true] {
        assert_eq!(has_template(0, &[event]), Some(expected));
    }
    assert_eq!(has_template(999, &[event]), Some(false));
    assert_eq!(has_template(1000, &[event]), Some(true));
    assert_eq!(has_template(1999, &[]), None);
    assert_eq!(has_template(2000, &[]), Some(true));
    assert_eq!(has_template(2000, &[event]), Some(false));
    exporter.resend_templates();
    assert_eq!(exporter.export(2000, &[event])[0][16..18], [0, 2]);
}

#[test]
fn messages_have_room_for_a_record() {
    for (octets, is_good) in [(0, false), (127, false), (128, true), (65_535, true), (65_536, false)] {
        let settings = Settings { message_octets_max: octets, ..Settings::new(Format::Ipfix) };
        let made = Exporter::new(settings, 0);
        assert_eq!(made.is_ok(), is_good, "{octets}");
        if let Err(why) = made {
            assert_eq!(why.to_string(), format!("messages of {octets} octets: they may have 128 to 65535"));
        }
    }
    // Each template and each record fits the smallest message.
    for template in TEMPLATES {
        let (fields, lengths) =
            (template.fields.len(), template.fields.iter().map(|field| field.length()).sum::<usize>());
        assert!(20 + 4 + (6 + 4 * fields).max(lengths).next_multiple_of(4) <= 128, "{}", template.name);
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let change = || prop_oneof![Just(Change::Created), Just(Change::Deleted)];
    let inside = || {
        prop_oneof![any::<Ipv4Addr>().prop_map(IpAddr::V4), any::<std::net::Ipv6Addr>().prop_map(IpAddr::V6)]
    };
    let end = any::<(Ipv4Addr, u16)>;
    let session = (change(), any::<u8>(), (inside(), any::<u16>()), end(), any::<Option<(Ipv4Addr, u16)>>());
    let binding = (change(), any::<u8>(), inside(), any::<Option<u16>>(), end());
    let block = (change(), inside(), any::<Ipv4Addr>(), any::<(u16, u16)>());
    let what = prop_oneof![
        session.prop_map(|(change, protocol, inside, outside, peer)| What::Session {
            change,
            protocol,
            inside,
            outside,
            peer
        }),
        binding.prop_map(|(change, protocol, inside, inside_port, outside)| What::Binding {
            change,
            protocol,
            inside,
            inside_port,
            outside
        }),
        block.prop_map(|(change, inside, outside, ports)| What::Block { change, inside, outside, ports }),
        any::<u32>().prop_map(|pool| What::AddressesExhausted { pool }),
        end().prop_map(|(outside, port)| What::PortsExhausted { outside, protocol: port as u8 }),
        any::<u32>().prop_map(|most| What::QuotaExceeded(Quota::Sessions(most))),
        any::<u32>().prop_map(|most| What::QuotaExceeded(Quota::Bindings(most))),
        (inside(), any::<u32>())
            .prop_map(|(inside, most)| What::QuotaExceeded(Quota::OfHost { inside, most })),
    ];
    let event = (any::<u64>(), what).prop_map(|(at_ms, what)| Event { at_ms, what });
    proptest::collection::vec(event, 0..200)
}

/// A collector that knows nothing but the formats: templates by ID as (number, length), and records as fields of numbers.
#[derive(Default)]
struct Collector {
    templates: BTreeMap<u16, Vec<(u16, usize)>>,
    records: Vec<BTreeMap<u16, u128>>,
    messages: u32,
}

impl Collector {
    fn number(octets: &[u8]) -> u128 {
        octets.iter().fold(0, |sum, octet| sum << 8 | u128::from(*octet))
    }

    fn take(&mut self, format: Format, message: &[u8]) {
        let number = |at: usize, length: usize| Self::number(&message[at..at + length]);
        let (header, before) = match format {
            Format::Ipfix => {
                assert_eq!((number(0, 2), number(2, 2)), (10, message.len() as u128));
                assert_eq!(number(8, 4), self.records.len() as u128);
                (16, 0)
            }
            Format::NetFlow9 => {
                assert_eq!((number(0, 2), number(12, 4)), (9, self.messages.into()));
                (20, self.records.len())
            }
        };
        self.messages += 1;
        let (mut at, mut templates) = (header, 0);
        while at < message.len() {
            let (id, length) = (number(at, 2) as u16, number(at + 2, 2) as usize);
            assert!(length > 4 && length % 4 == 0 && at + length <= message.len());
            templates += self.set(id, &message[at + 4..at + length]);
            at += length;
        }
        if format == Format::NetFlow9 {
            assert_eq!(number(2, 2), (self.records.len() - before + templates) as u128);
        }
    }

    /// Takes a set, and says how many templates it has.
    fn set(&mut self, id: u16, mut body: &[u8]) -> usize {
        let mut templates = 0;
        if id < 256 {
            assert!(id == 0 || id == 2);
            while !body.is_empty() {
                let fields = Self::number(&body[2..4]) as usize;
                let field = |n: usize| {
                    let field = &body[4 + 4 * n..8 + 4 * n];
                    (Self::number(&field[..2]) as u16, Self::number(&field[2..]) as usize)
                };
                self.templates.insert(Self::number(&body[..2]) as u16, (0..fields).map(field).collect());
                body = &body[4 + 4 * fields..];
                templates += 1;
            }
            return templates;
        }
        let template = self.templates.get(&id).expect("the template comes first");
        let length: usize = template.iter().map(|(_, length)| length).sum();
        while body.len() >= length {
            let mut record = BTreeMap::new();
            for (number, length) in template {
                record.insert(*number, Self::number(&body[..*length]));
                body = &body[*length..];
            }
            self.records.push(record);
        }
        assert!(body.len() < 4 && body.iter().all(|octet| *octet == 0));
        templates
    }
}

proptest! {
    #[test]
    fn all_events_come_in_messages_of_the_right_length(
        events in events(),
        octets in 128usize..1500,
        is_old in any::<bool>(),
        refresh_messages in 1u64..9,
        at_once in 1usize..50,
    ) {
        let format = if is_old { Format::NetFlow9 } else { Format::Ipfix };
        let settings = Settings { message_octets_max: octets, refresh_messages, ..Settings::new(format) };
        let mut exporter = Exporter::new(settings, NOW_MS).unwrap();
        let mut collector = Collector::default();
        for (n, some) in events.chunks(at_once).enumerate() {
            for message in exporter.export(NOW_MS + 9000 * n as u64, some) {
                prop_assert!(message.len() <= octets);
                collector.take(format, &message);
            }
        }
        prop_assert_eq!(exporter.messages(), u64::from(collector.messages));
        prop_assert_eq!(collector.records.len(), events.len());
        for (event, record) in events.iter().zip(&collector.records) {
            let at = |number: u16| record.get(&number).copied();
            let inside = match event.what {
                What::Session { inside: (inside, _), .. }
                | What::Binding { inside, .. }
                | What::Block { inside, .. }
                | What::QuotaExceeded(Quota::OfHost { inside, .. }) => Some(inside),
                _ => None,
            };
            let four = inside.and_then(|inside| match inside { IpAddr::V4(four) => Some(u128::from(four.to_bits())), IpAddr::V6(_) => None });
            let six = inside.and_then(|inside| match inside { IpAddr::V4(_) => None, IpAddr::V6(six) => Some(six.to_bits()) });
            prop_assert_eq!((at(323), at(8), at(27)), (Some(event.at_ms.into()), four, six));
            match event.what {
                What::Session { protocol, inside, outside, peer, .. } => {
                    prop_assert_eq!((at(4), at(7)), (Some(protocol.into()), Some(inside.1.into())));
                    prop_assert_eq!((at(225), at(227)), (Some(outside.0.to_bits().into()), Some(outside.1.into())));
                    prop_assert_eq!((at(226), at(228)), (peer.map(|(to, _)| to.to_bits().into()), peer.map(|(_, to)| to.into())));
                }
                What::Binding { protocol, inside_port, outside, .. } => {
                    prop_assert_eq!((at(4), at(7)), (Some(protocol.into()), inside_port.map(Into::into)));
                    prop_assert_eq!((at(225), at(227)), (Some(outside.0.to_bits().into()), Some(outside.1.into())));
                }
                What::Block { outside, ports, .. } => {
                    prop_assert_eq!((at(361), at(362)), (Some(ports.0.into()), Some(ports.1.into())));
                    prop_assert_eq!(at(225), Some(outside.to_bits().into()));
                }
                _ => prop_assert!(matches!(at(230), Some(3 | 12 | 13))),
            }
        }
    }
}
