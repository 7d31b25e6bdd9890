// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ARPPrint
//!
//! `ARPPrint([LABEL, keywords TIMESTAMP, ETHER, ACTIVE, OUTFILE])`
//!
//! Prints a line about each ARP packet, in the manner of tcpdump, and passes it on.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `LABEL` text before each line, default none.
//! * `TIMESTAMP` boolean, default true: prints the timestamp.
//! * `ETHER` boolean, default false: prints the addresses of the Ethernet header.
//! * `ACTIVE` boolean, default true.
//! * `OUTFILE` file to print to instead of standard error. Only its owner may read it, and a symbolic link is not followed.
//!
//! The ARP header is where the network header was marked (CheckARPHeader does); without a mark, behind the header of
//! an Ethernet frame whose type says ARP or reverse ARP, VLAN tags or not.
//!
//! **Metadata read:** network header position, link header position, timestamp.
//!
//! **Drops:** none; packets with neither mark nor ARP's Ethernet type pass silently.
//!
//! **Handlers**
//! * `active` read/write: the argument.
//!
//! ```click
//! InfiniteSource(DATA \<ffffffffffff 020000000001 0806 0001 0800 06 04 0001
//!     020000000001 0a000001 000000000000 0a000002>, LIMIT 1, STOP true)
//!     -> ARPPrint(asked, TIMESTAMP false) -> Discard;
//! ```
//!
//! See also: CheckARPHeader, ARPQuerier, ARPResponder, IPPrint; RFC 826

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use element::args::Args;
use element::{Class, Cx, Element, OpenCx, Rehearsal, SharedState, Sharing, Tasks, handlers};
use packet::{Batch, Packet};
use wire::{EtherType, MacAddr};

use crate::tools::{Lines, seconds};

/// The descriptor.
pub const CLASS: Class = Class::new("ARPPrint", "1/1", || Box::new(ArpPrint::default()))
    .sharing(Sharing::Shared)
    .handlers(handlers! { ArpPrint:
        both "active".everywhere() => .active;
    })
    .forwards()
    .shared_state::<ArpPrint>()
    .rehearsal::<ArpPrint>()
    .file(file!());

/// Trailer encapsulation (RFC 893), announced by ARP in its time.
const TRAILERS: u16 = 0x1000;
/// Bytes of an ARP header before its addresses.
const FIXED: usize = 8;

#[derive(Clone, Default)]
struct ArpPrint {
    label: String,
    timestamp: bool,
    ether: bool,
    active: bool,
    lines: Lines,
}

/// Where the ARP header of a packet begins.
fn position(packet: &Packet) -> Option<usize> {
    if let Some(marked) = packet.network_offset() {
        return usize::try_from(marked).ok();
    }
    let kind = |at: usize| packet.data().get(at..)?.first_chunk().map(|b| EtherType(u16::from_be_bytes(*b)));
    let mut at = 12;
    while matches!(kind(at)?, EtherType(0x8100 | 0x88a8 | 0x9100)) {
        at += 4;
    }
    matches!(kind(at)?, EtherType(0x0806 | 0x8035)).then_some(at + 2)
}

// Writing to a string cannot fail, so the results of `write!` are let go.
impl ArpPrint {
    fn line(&self, packet: &Packet) -> Option<String> {
        let at = position(packet)?;
        let mut line = String::new();
        if !self.label.is_empty() {
            let _ = write!(line, "{}: ", self.label);
        }
        if self.timestamp {
            let _ = write!(line, "{}: ", seconds(packet.timestamp_ns()));
        }
        let link = packet.mac_offset().unwrap_or(0);
        if self.ether
            && link + 14 <= at as i32
            && let Some(header) = packet.mac().or(Some(packet.data())).and_then(|b| b.first_chunk::<14>())
        {
            let _ = write!(line, "{} > {}: ", Hardware(&header[6..12]), Hardware(&header[..6]));
        }
        describe(&mut line, packet.data().get(at..).unwrap_or(&[]));
        Some(line)
    }
}

/// A hardware address of any length, as Click writes Ethernet addresses.
struct Hardware<'a>(&'a [u8]);

impl std::fmt::Display for Hardware<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Ok(octets) = self.0.try_into() {
            return write!(f, "{:#}", MacAddr(octets));
        }
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02X}", if i > 0 { "-" } else { "" })?;
        }
        Ok(())
    }
}

/// Says what an ARP packet asks or answers.
fn describe(line: &mut String, arp: &[u8]) {
    let Some([h0, h1, p0, p1, hardware_len, protocol_len, o0, o1]) = arp.first_chunk::<FIXED>() else {
        let _ = write!(line, "truncated-arp ({})", arp.len());
        return;
    };
    let word = |a: &u8, b: &u8| u16::from_be_bytes([*a, *b]);
    let (hardware, protocol, operation) = (word(h0, h1), word(p0, p1), word(o0, o1));
    if ![EtherType::IPV4.0, TRAILERS].contains(&protocol) || *protocol_len != 4 || *hardware_len == 0 {
        let _ = write!(
            line,
            "arp-#{operation} for proto #{protocol} ({protocol_len}) hardware #{hardware} ({hardware_len})"
        );
        return;
    }
    let Some(addresses) = addresses(&arp[FIXED..], usize::from(*hardware_len)) else {
        let _ = write!(line, "truncated-arp ({})", arp.len());
        return;
    };
    if protocol == TRAILERS {
        line.push_str("trailer-");
    }
    let (sender, sender_ip, target, target_ip) = addresses;
    let _ = match operation {
        1 if target.0.iter().any(|b| *b != 0) => {
            write!(line, "arp who-has {target_ip} ({target}) tell {sender_ip}")
        }
        1 => write!(line, "arp who-has {target_ip} tell {sender_ip}"),
        2 => write!(line, "arp reply {sender_ip} is-at {sender}"),
        3 => write!(line, "rarp who-is {target} tell {sender}"),
        4 => write!(line, "rarp reply {target} at {target_ip}"),
        8 => write!(line, "invarp who-is {target} tell {sender}"),
        9 => write!(line, "invarp reply {target} at {target_ip}"),
        _ => write!(line, "arp-#{operation}"),
    };
    if hardware != wire::arp::HARDWARE_ETHERNET {
        let _ = write!(line, " hardware #{hardware}");
    }
}

/// Sender's and target's addresses.
fn addresses(bytes: &[u8], len: usize) -> Option<(Hardware<'_>, Ipv4Addr, Hardware<'_>, Ipv4Addr)> {
    let (sender, rest) = bytes.split_at_checked(len)?;
    let (sender_ip, rest) = rest.split_first_chunk::<4>()?;
    let (target, rest) = rest.split_at_checked(len)?;
    let target_ip = rest.first_chunk::<4>()?;
    Some((Hardware(sender), (*sender_ip).into(), Hardware(target), (*target_ip).into()))
}

impl Element for ArpPrint {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.label = String::from_utf8_lossy(&args.positional("LABEL", Vec::<u8>::new())).into_owned();
        self.timestamp = args.keyword("TIMESTAMP", true);
        self.ether = args.keyword("ETHER", false);
        self.active = args.keyword("ACTIVE", true);
        self.lines.configure(args);
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        if !cx.is_dry() {
            self.lines.open(cx)?;
        }
        Ok(Tasks::None)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        if self.active {
            batch.iter().filter_map(|p| self.line(p)).for_each(|line| self.lines.print(cx, &line));
        }
        batch
    }
}

impl Rehearsal for ArpPrint {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

impl SharedState for ArpPrint {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::testing::Temp;
    use crate::testing::Rig;

    const LINK: &[u8] = b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x01\x08\x06";

    /// An ARP packet for Ethernet and IPv4.
    fn arp(operation: u8, target: [u8; 6]) -> Vec<u8> {
        let fixed = [0, 1, 8, 0, 6, 4, 0, operation];
        [&fixed[..], &[2, 0, 0, 0, 0, 1, 10, 0, 0, 1], &target, &[10, 0, 0, 2]].concat()
    }

    fn frame(arp: &[u8]) -> Packet {
        Packet::copy_of(&[LINK, arp].concat()).unwrap()
    }

    fn check(config: &str, packet: impl Fn() -> Packet, want: &str) {
        for burst in [1, 32] {
            let rig = Rig::new(&format!("ARPPrint({config})")).burst(burst);
            let run = rig.packets(vec![packet(), packet()]).run();
            assert_eq!((run.printed(), run.out("o0").len()), (want.repeat(2), 2), "{config}");
        }
    }

    #[test]
    fn lines_by_operation() {
        let quiet = |arp: Vec<u8>, want: &str| {
            check("TIMESTAMP false", || frame(&arp), &format!("{want}\n"));
        };
        let known = [2, 0, 0, 0, 0, 9];
        quiet(arp(1, [0; 6]), "arp who-has 10.0.0.2 tell 10.0.0.1");
        quiet(arp(1, known), "arp who-has 10.0.0.2 (02-00-00-00-00-09) tell 10.0.0.1");
        quiet(arp(2, known), "arp reply 10.0.0.1 is-at 02-00-00-00-00-01");
        quiet(arp(3, known), "rarp who-is 02-00-00-00-00-09 tell 02-00-00-00-00-01");
        quiet(arp(4, known), "rarp reply 02-00-00-00-00-09 at 10.0.0.2");
        quiet(arp(8, known), "invarp who-is 02-00-00-00-00-09 tell 02-00-00-00-00-01");
        quiet(arp(9, known), "invarp reply 02-00-00-00-00-09 at 10.0.0.2");
        quiet(arp(77, known), "arp-#77");
        let with = |at: usize, value: u8| {
            let mut arp = arp(2, known);
            arp[at] = value;
            arp
        };
        quiet(with(1, 6), "arp reply 10.0.0.1 is-at 02-00-00-00-00-01 hardware #6");
        quiet(with(2, 0x10), "trailer-arp reply 10.0.0.1 is-at 02-00-00-00-00-01");
        quiet(with(2, 0x86), "arp-#2 for proto #34304 (4) hardware #1 (6)");
        quiet(with(4, 0), "arp-#2 for proto #2048 (4) hardware #1 (0)");
        quiet(with(4, 8), "truncated-arp (28)");
        quiet(arp(1, known)[..27].to_vec(), "truncated-arp (27)");
        quiet(vec![0; 7], "truncated-arp (7)");
    }

    #[test]
    fn hardware_addresses_of_other_lengths() {
        let mut bytes = vec![0, 32, 8, 0, 8, 4, 0, 2];
        bytes.extend([1, 2, 3, 4, 5, 6, 7, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        let want = "arp reply 10.0.0.1 is-at 01-02-03-04-05-06-07-08 hardware #32\n";
        check("TIMESTAMP false", || frame(&bytes), want);
    }

    #[test]
    fn label_time_and_link_addresses() {
        let timed = || {
            let mut p = frame(&arp(1, [0; 6]));
            p.set_timestamp_ns(1_500_000_000);
            p
        };
        check("", timed, "1.500000: arp who-has 10.0.0.2 tell 10.0.0.1\n");
        let want = "in: 02-00-00-00-00-01 > FF-FF-FF-FF-FF-FF: arp who-has 10.0.0.2 tell 10.0.0.1\n";
        check("in, TIMESTAMP no, ETHER yes", timed, want);
    }

    #[test]
    fn finds_the_header_by_its_mark_or_the_type() {
        let body = arp(1, [0; 6]);
        let want = "arp who-has 10.0.0.2 tell 10.0.0.1\n";
        let marked = || {
            let mut p = frame(&body);
            p.set_mac_offset(0);
            p.strip(14);
            p.set_network_offset(0);
            p
        };
        check("TIMESTAMP false", marked, want);
        let both = format!("02-00-00-00-00-01 > FF-FF-FF-FF-FF-FF: {want}");
        check("TIMESTAMP false, ETHER true", marked, &both);
        let tagged = || Packet::copy_of(&[&LINK[..12], &[0x81, 0, 0, 5, 8, 6], &body[..]].concat()).unwrap();
        check("TIMESTAMP false", tagged, want);
        check("TIMESTAMP false", || Packet::copy_of(&body).unwrap(), "");
        check("TIMESTAMP false", || Packet::copy_of(b"x").unwrap(), "");
        check("TIMESTAMP false, ACTIVE false", marked, "");
    }

    #[test]
    fn prints_to_a_file_and_may_be_switched() {
        let temp = Temp::new();
        let path = temp.path("arp");
        std::fs::write(&path, "for all to read").unwrap();
        let rig = Rig::new(&format!("ARPPrint(TIMESTAMP false, OUTFILE {path})"));
        let mut run = rig.packets(vec![frame(&arp(1, [0; 6]))]).run();
        assert_eq!(run.read("e.active"), "true");
        run.write("e.active", "false").unwrap();
        run.give("i", vec![frame(&arp(1, [0; 6]))]);
        let run = run.again();
        assert_eq!((run.printed().as_str(), run.out("o0").len()), ("", 2));
        drop(run);
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(path).unwrap(), "arp who-has 10.0.0.2 tell 10.0.0.1\n");
        assert_eq!(Rig::new("ARPPrint(OUTFILE /nonexistent/x)").errors().len(), 1);
    }
}
