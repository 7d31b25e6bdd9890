// SPDX-License-Identifier: MIT OR Apache-2.0
//! # HashDemux
//!
//! `HashDemux([keywords SYMMETRIC, FIELDS, KEY])`
//!
//! Spreads flows over its outputs as a network card with receive side scaling spreads them over its queues. The low seven bits of the Toeplitz hash
//! of addresses and ports choose one of 128 table entries, each of which names an output. All packets of a flow leave by one output, in order.
//!
//! **Ports:** 1 push input, 1 or more push outputs.
//!
//! **Arguments**
//! * `SYMMETRIC` boolean, default false: both directions of a flow hash alike, by a key of period 16 bits (Woo and Park).
//! * `FIELDS` what is hashed: any of the words `src`, `dst`, `sport` and `dport`, default all four.
//! * `KEY` 40 bytes in hexadecimal, colons and spaces between them as you like; default the key of Microsoft's examples, which
//!   many drivers use. What SYMMETRIC does, a key does too.
//!
//! Packets are IPv4 or IPv6. A marked network header is where the address fields are taken from; packets without a mark
//! are read as Ethernet frames, VLAN tags skipped. Ports count for whole TCP, UDP, SCTP, DCCP and UDP-Lite packets:
//! fragments, of which only the first has any, go by their addresses alone, so that they stay together. Everything else
//! leaves by output 0: ARP, and packets too short for their headers.
//!
//! **Metadata read:** network header position.
//!
//! **Drops:** none.
//!
//! **Cores:** no state but the table, which each worker has a copy of.
//!
//! **Handlers**
//! * `table` read/write: the 128 outputs by hash, at first 0, 1, 2... in turn. Writing it moves flows, whose packets may then
//!   overtake each other once.
//! * `hash` read with two addresses, or with `SRC SPORT DST DPORT`: the hash of such a TCP packet.
//!
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> h :: HashDemux(SYMMETRIC true);
//! h[0] -> Discard; h[1] -> Discard; h[2] -> Discard;
//! ```
//!
//! See also: Spread, HashSwitch, CPUSwitch, StaticThreadSched

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, HandlerError, handlers};
use packet::{Batch, Packet};
use wire::Protocol;
use wire::ethernet::{EtherType, HEADER_LEN};
use wire::flow::{FlowKey, FlowKey6};
use wire::hash::{MICROSOFT_KEY, SYMMETRIC_KEY, TOEPLITZ_KEY_LEN, Toeplitz};

use crate::tools::Splitter;

/// The descriptor.
pub const CLASS: Class = Class::new("HashDemux", "1/1-", || Box::new(HashDemux::default()))
    .processing("h/h")
    .handlers(handlers! { HashDemux:
        both "table" => |demux| demux.table.iter().map(u8::to_string).collect::<Vec<_>>().join(" "),
            |demux, text: &str| demux.set_table(text)?;
        read "hash" => |demux, text: &str| {
            let flow = Flow::described(text)
                .ok_or_else(|| HandlerError::bad_value("hash", text, "two addresses, or SRC SPORT DST DPORT"))?;
            format!("0x{:08x}", flow.hash(&demux.toeplitz, demux.fields))
        };
    })
    .pure()
    .file(file!());

/// Entries of the table, as most cards have at least.
const ENTRIES: usize = 128;

/// Which of the fields are hashed; others count as zero, which adds nothing to the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    src: bool,
    dst: bool,
    sport: bool,
    dport: bool,
}

impl Fields {
    const ALL: Fields = Fields { src: true, dst: true, sport: true, dport: true };
}

impl FromArg for Fields {
    const EXPECTED: &'static str = "some of the words src, dst, sport and dport";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        let mut fields = Fields { src: false, dst: false, sport: false, dport: false };
        for word in text.split_whitespace() {
            let field = match word {
                "src" => &mut fields.src,
                "dst" => &mut fields.dst,
                "sport" => &mut fields.sport,
                "dport" => &mut fields.dport,
                _ => return Err(String::new()),
            };
            *field = true;
        }
        if text.trim().is_empty() { Err(String::new()) } else { Ok(fields) }
    }
}

/// A key's bytes.
struct Key([u8; TOEPLITZ_KEY_LEN]);

impl FromArg for Key {
    const EXPECTED: &'static str = "a key of 40 bytes in hexadecimal, as 6d:5a:...";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .filter(|c| *c != ':' && !c.is_whitespace())
            .map(|c| c.to_digit(16).map(|d| d as u8))
            .collect();
        let digits = digits.ok_or_else(String::new)?;
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        let whole = digits.len().is_multiple_of(2);
        bytes
            .try_into()
            .ok()
            .filter(|_| whole)
            .map(Key)
            .ok_or_else(|| format!("it has {} hexadecimal digits, and 80 are needed", digits.len()))
    }
}

struct HashDemux {
    toeplitz: Arc<Toeplitz>,
    fields: Fields,
    table: Box<[u8; ENTRIES]>,
    noutputs: usize,
    splitter: Splitter,
}

impl Default for HashDemux {
    fn default() -> Self {
        HashDemux {
            toeplitz: Arc::new(Toeplitz::new(&MICROSOFT_KEY)),
            fields: Fields::ALL,
            table: Box::new([0; ENTRIES]),
            noutputs: 1,
            splitter: Splitter::default(),
        }
    }
}

/// The flow that a packet belongs to.
enum Flow {
    V4(FlowKey),
    V6(FlowKey6),
}

impl Flow {
    /// The flow of an IP packet.
    #[inline]
    fn of_ip(data: &[u8]) -> Option<Flow> {
        match data.first()? >> 4 {
            4 => FlowKey::for_steering(data).map(Flow::V4),
            6 => FlowKey6::for_steering(data).map(Flow::V6),
            _ => None,
        }
    }

    /// The flow of the packet in a frame.
    fn of_frame(data: &[u8]) -> Option<Flow> {
        let mut at = HEADER_LEN - 2;
        loop {
            let ethertype = u16::from_be_bytes(*data.get(at..)?.first_chunk()?);
            at += 2;
            match EtherType(ethertype) {
                EtherType::IPV4 | EtherType::IPV6 => return Flow::of_ip(data.get(at..)?),
                EtherType::VLAN | EtherType::QINQ => at += 2,
                _ => return None,
            }
        }
    }

    #[inline]
    fn hash(self, toeplitz: &Toeplitz, fields: Fields) -> u32 {
        match self {
            Flow::V4(key) if fields == Fields::ALL => key.toeplitz(toeplitz),
            Flow::V6(key) if fields == Fields::ALL => key.toeplitz(toeplitz),
            flow => flow.hash_some(toeplitz, fields),
        }
    }

    /// The hash of some of the fields.
    fn hash_some(self, toeplitz: &Toeplitz, fields: Fields) -> u32 {
        let port = |chosen, port| if chosen { port } else { 0 };
        match self {
            Flow::V4(key) => {
                let address = |chosen, a| if chosen { a } else { Ipv4Addr::UNSPECIFIED };
                FlowKey {
                    src: address(fields.src, key.src),
                    dst: address(fields.dst, key.dst),
                    sport: port(fields.sport, key.sport),
                    dport: port(fields.dport, key.dport),
                    ..key
                }
                .toeplitz(toeplitz)
            }
            Flow::V6(key) => {
                let address = |chosen, a| if chosen { a } else { Ipv6Addr::UNSPECIFIED };
                FlowKey6 {
                    src: address(fields.src, key.src),
                    dst: address(fields.dst, key.dst),
                    sport: port(fields.sport, key.sport),
                    dport: port(fields.dport, key.dport),
                    ..key
                }
                .toeplitz(toeplitz)
            }
        }
    }

    /// The flow that a user describes: `SRC DST` or `SRC SPORT DST DPORT`.
    fn described(text: &str) -> Option<Flow> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (src, sport, dst, dport) = match words[..] {
            [src, dst] => (src, "0", dst, "0"),
            [src, sport, dst, dport] => (src, sport, dst, dport),
            _ => return None,
        };
        let (sport, dport, proto) = (sport.parse().ok()?, dport.parse().ok()?, Protocol::TCP);
        match (src.parse::<IpAddr>().ok()?, dst.parse::<IpAddr>().ok()?) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Flow::V4(FlowKey { src, dst, sport, dport, proto })),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Flow::V6(FlowKey6 { src, dst, sport, dport, proto })),
            _ => None,
        }
    }
}

impl HashDemux {
    fn set_table(&mut self, text: &str) -> Result<(), HandlerError> {
        let outputs: Option<Vec<u8>> = text.split_whitespace().map(|w| w.parse().ok()).collect();
        let table = outputs.and_then(|o| <[u8; ENTRIES]>::try_from(o).ok());
        let table = table.filter(|t| t.iter().all(|o| usize::from(*o) < self.noutputs));
        *self.table = table.ok_or_else(|| {
            let wanted = format!("{ENTRIES} outputs, of which there are {}", self.noutputs);
            HandlerError::bad_value("table", text, &wanted)
        })?;
        Ok(())
    }
}

impl Element for HashDemux {
    fn configure(&mut self, args: &mut Args<'_>) {
        let symmetric = args.keyword("SYMMETRIC", false);
        self.fields = args.keyword("FIELDS", Fields::ALL);
        let key: Option<Key> = args.keyword_opt("KEY");
        if symmetric && key.is_some() {
            args.error("SYMMETRIC and KEY exclude each other: a key is symmetric or not by itself");
        }
        let Fields { src, dst, sport, dport } = self.fields;
        if symmetric && (src != dst || sport != dport) {
            args.error("with SYMMETRIC, FIELDS must name both directions of a field or none");
        }
        let key = key.map_or(if symmetric { SYMMETRIC_KEY } else { MICROSOFT_KEY }, |k| k.0);
        self.toeplitz = Arc::new(Toeplitz::new(&key));
        self.noutputs = args.noutputs.max(1);
        if self.noutputs > ENTRIES {
            args.error(format!("there can be no more than {ENTRIES} outputs"));
        }
        for (i, entry) in self.table.iter_mut().enumerate() {
            *entry = (i % self.noutputs.min(ENTRIES)) as u8;
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let (toeplitz, fields, table) = (&*self.toeplitz, self.fields, &self.table);
        self.splitter.split(cx, batch, |packet: &mut Packet| {
            let flow = match packet.network() {
                Some(header) => Flow::of_ip(header),
                None => Flow::of_frame(packet.data()),
            };
            flow.map_or(0, |flow| usize::from(table[flow.hash(toeplitz, fields) as usize % ENTRIES]))
        });
    }
}

#[cfg(test)]
mod tests {
    use packet::Packet;

    use crate::ip::samples::datagram;
    use crate::testing::Rig;

    /// Microsoft's verification vectors: source, its port, destination, its port, the hash with ports and without.
    const VECTORS: &[(&str, u16, &str, u16, u32, u32)] = &[
        ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x51ccc178, 0x323e8fc2),
        ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xc626b0ea, 0xd718262a),
        ("24.19.198.95", 12898, "12.22.207.184", 38024, 0x5c2b394a, 0xd2d0a5de),
        ("38.27.205.30", 48228, "209.142.163.6", 2217, 0xafc7327f, 0x82989176),
        ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x10e828a2, 0x5d1809c5),
        ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x40207d3d, 0x2cc18cd5),
        ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0xdde51bbf, 0x0f0c461c),
        (
            "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
            44251,
            "fe80::200:f8ff:fe21:67cf",
            38024,
            0x02d1feef,
            0x4b61e985,
        ),
    ];

    fn ask(run: &mut crate::testing::Run, param: &str) -> String {
        run.read_with("e.hash", param)
    }

    #[test]
    fn hashes_are_microsofts() {
        let mut run = Rig::new("HashDemux").ready();
        for (src, sport, dst, dport, with, without) in VECTORS {
            assert_eq!(
                ask(&mut run, &format!("{src} {sport} {dst} {dport}")),
                format!("0x{with:08x}"),
                "{src}"
            );
            assert_eq!(ask(&mut run, &format!("{src} {dst}")), format!("0x{without:08x}"), "{src}");
        }
        let mut addresses = Rig::new("HashDemux(FIELDS src dst)").ready();
        let (src, sport, dst, dport, _, without) = VECTORS[0];
        assert_eq!(ask(&mut addresses, &format!("{src} {sport} {dst} {dport}")), format!("0x{without:08x}"));
        let key = "6d5a56da 255b0ec2 4167253d 43a38fb0 d0ca2bcb ae7b30b4 77cb2da3 8030f20c 6a42b73b beac01fa";
        let mut keyed = Rig::new(&format!("HashDemux(KEY {key})")).ready();
        assert_eq!(ask(&mut keyed, &format!("{src} {dst}")), format!("0x{without:08x}"));
    }

    /// A UDP packet of the first IPv4 vector; `fragment` as in the header, `reverse` for the other direction.
    fn packet(fragment: u16, reverse: bool) -> Packet {
        let (src, dst, ports) = ([66, 9, 149, 187], [161, 142, 100, 80], [0x0a, 0xea, 0x06, 0xe6]);
        let mut p = if reverse { datagram(9, dst, src, &[], 8) } else { datagram(9, src, dst, &[], 8) };
        let data = p.data_mut();
        data[6..8].copy_from_slice(&fragment.to_be_bytes());
        data[20..24].copy_from_slice(&ports);
        if reverse {
            data[20..24].rotate_left(2);
        }
        p
    }

    fn framed(tags: &[u8], packet: &Packet) -> Packet {
        let mut frame = vec![2; 12];
        frame.extend(tags);
        frame.extend([0x08, 0x00]);
        frame.extend(packet.data());
        Packet::copy_of(&frame).unwrap()
    }

    /// Which of four outputs each packet leaves by, as "0123" counts.
    fn counts(element: &str, packets: Vec<Packet>) -> [usize; 4] {
        let run = Rig::new(element).outputs(4).packets(packets).run();
        ["o0", "o1", "o2", "o3"].map(|o| run.out(o).len())
    }

    #[test]
    fn low_bits_choose_the_output() {
        // 0x51ccc178 ends in 00; 0x323e8fc2, of the addresses alone, in 10.
        assert_eq!(counts("HashDemux", vec![packet(0, false)]), [1, 0, 0, 0]);
        assert_eq!(
            counts("HashDemux", vec![packet(0x4000, false), framed(&[], &packet(0, false))]),
            [2, 0, 0, 0]
        );
        let fragments = [0x2000, 0x2001, 0x0005].map(|f| packet(f, false));
        assert_eq!(counts("HashDemux", fragments.into()), [0, 0, 3, 0]);
        let tagged = framed(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7], &packet(0x2000, false));
        assert_eq!(counts("HashDemux", vec![tagged]), [0, 0, 1, 0]);
        assert_eq!(counts("HashDemux(FIELDS src dst)", vec![packet(0, false)]), [0, 0, 1, 0]);
        // Neither IP nor whole.
        let odd: [&[u8]; 4] = [&[0; 60], b"", &[2; 13], &[0xff; 34]];
        let odd = odd.map(|o| Packet::copy_of(o).unwrap());
        assert_eq!(counts("HashDemux", odd.into()), [4, 0, 0, 0]);
    }

    #[test]
    fn directions_are_told_apart_unless_symmetric() {
        let both = || vec![packet(0, false), packet(0, true)];
        assert!(!counts("HashDemux", both()).contains(&2));
        assert!(counts("HashDemux(SYMMETRIC true)", both()).contains(&2));
        assert!(counts("HashDemux(SYMMETRIC true, FIELDS src dst)", both()).contains(&2));
    }

    #[test]
    fn the_table_is_the_users() {
        let mut run = Rig::new("HashDemux").outputs(3).packets(vec![packet(0, false)]).ready();
        let table = run.read("e.table");
        assert!(table.starts_with("0 1 2 0 1 2 ") && table.split(' ').count() == 128, "{table}");
        let ones = ["1"; 128].join(" ");
        run.write("e.table", &ones).unwrap();
        for wrong in ["", "1 2 3", &ones.replace('1', "3"), &ones.replace('1', "x")] {
            assert!(run.write("e.table", wrong).is_err(), "{wrong}");
        }
        assert_eq!(run.read("e.table"), ones);
        assert_eq!(run.again().out("o1").len(), 1);
    }

    #[test]
    fn flows_are_spread_evenly() {
        for element in ["HashDemux", "HashDemux(SYMMETRIC true)"] {
            let flow = |n: u32| {
                let [_, a, b, c] = n.wrapping_mul(0x9e37_79b1).to_be_bytes();
                let mut p = datagram(9, [10, a, b, c], [192, 168, (n % 7) as u8, 1], &[], 8);
                p.data_mut()[20..22].copy_from_slice(&(n as u16).wrapping_mul(77).to_be_bytes());
                p
            };
            let counts = counts(element, (0..8000).map(flow).collect());
            // Mean 2000, standard deviation 39.
            assert!(counts.iter().all(|n| (1800..2200).contains(n)), "{element}: {counts:?}");
        }
    }

    #[test]
    fn bad_arguments() {
        let check = |element: &str, want: &str| {
            let errors = Rig::new(element).errors();
            assert!(errors.len() == 1 && errors[0].contains(want), "{element}: {errors:?}");
        };
        check("HashDemux(KEY 6d5a)", "4 hexadecimal digits, and 80 are needed");
        check("HashDemux(KEY hello)", "a key of 40 bytes in hexadecimal");
        check("HashDemux(FIELDS vlan)", "some of the words src, dst, sport and dport");
        check("HashDemux(SYMMETRIC true, FIELDS src sport dport)", "both directions of a field or none");
        let key = "6d5a".repeat(20);
        check(&format!("HashDemux(SYMMETRIC true, KEY {key})"), "exclude each other");
        let mut run = Rig::new("HashDemux").ready();
        for param in ["", "1.2.3.4", "1.2.3.4 ::1", "1.2.3.4 70000 1.2.3.4 1", "a b"] {
            assert!(run.try_read_with("e.hash", param).is_err(), "{param}");
        }
    }
}
