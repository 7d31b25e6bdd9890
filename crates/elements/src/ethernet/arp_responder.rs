// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ARPResponder
//!
//! `ARPResponder(IP/MASK [IP/MASK ...] ETH, ... [, keywords ANNOUNCE, ANNOUNCE_INTERVAL])`
//!
//! Answers ARP requests for some addresses: a router's own, or, as a proxy, those of others.
//!
//! **Ports:** 1 input, agnostic; 1 or 2 outputs. Answers leave by output 0; by output 1, push, all that is not a request for one of the addresses.
//!
//! **Arguments**
//! * Each argument is a list of IPv4 addresses or prefixes with the Ethernet address to answer with, in any order. A
//!   name that AddressInfo defines as both stands for both. The longest prefix counts.
//! * `ANNOUNCE` how often to announce single addresses (not prefixes) by gratuitous requests once the router runs,
//!   default 0; 2 is what RFC 5227 says. Output 0 must be push.
//! * `ANNOUNCE_INTERVAL` time from one announcement to the next, default 2 s.
//!
//! **Metadata set:** the answer has the request's device.
//!
//! **Drops:** `bad-arp`, unless output 1 is connected; `no-memory`.
//!
//! **Handlers**
//! * `table` read: prefixes and Ethernet addresses. `lookup` read with an address: its Ethernet address.
//! * `add` write: an argument. `remove` write: a prefix.
//! * `announce` write: announce all single addresses now, ANNOUNCE times or once: for a link that came up again.
//!
//! ```click
//! InfiniteSource(DATA \<ffffffffffff 020000000001 0806 0001 0800 06 04 0001
//!     020000000001 0a000001 000000000000 0a000002>, LIMIT 1, STOP true)
//!     -> ARPResponder(10.0.0.2 2:0:0:0:0:2) -> Discard;
//! ```
//!
//! See also: ARPQuerier; RFC 826, RFC 1027, RFC 5227

use element::args::{Args, FromArg, Names};
use element::clock::SECOND;
use element::{Class, Cx, Element, HandlerError, InitCx, Reason, Rehearsal, handlers};
use packet::{Batch, Packet};
use wire::arp::{self, Operation};
use wire::{EtherType, MacAddr, Prefix4, ethernet};

use super::announcements::Announcements;
use crate::tools::words;

/// The descriptor.
pub const CLASS: Class = Class::new("ARPResponder", "1/1-2", || Box::new(ArpResponder::default()))
    .processing("a/ah")
    .handlers(handlers! { ArpResponder:
        read "table" => |responder| responder.table();
        read "lookup" => |responder, ip: &str| {
            let ip = ip.trim().parse().map_err(|_| HandlerError::bad_value("lookup", ip, "an IPv4 address"))?;
            responder.lookup(ip).map(|mac| format!("{mac:#}")).unwrap_or_default()
        };
        write "add" => |responder, entries: &str| {
            let entries = parse(entries, &Names::default()).map_err(HandlerError::Failed)?;
            responder.add(entries);
        };
        write "remove" => |responder, prefix: &str| responder.remove(prefix.trim())?;
        write "announce" => |responder, cx| responder.announce_anew(cx)?;
    })
    .rehearsal::<ArpResponder>()
    .file(file!());

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    prefix: Prefix4,
    mac: MacAddr,
}

#[derive(Clone, Default)]
struct ArpResponder {
    /// A prefix stands before those that contain it.
    entries: Vec<Entry>,
    announcements: Announcements,
}

/// Reads `IP/MASK ... ETH`.
fn parse(text: &str, names: &Names) -> Result<Vec<Entry>, String> {
    let (mut prefixes, mut macs, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for word in lang::config::split_words(text) {
        // A name that is an address means that host, even if it is a network, too.
        let prefix = names.net4_or_host(word).and_then(wire::AddrMask4::prefix).ok_or(());
        let mac = MacAddr::from_arg(word, names);
        match (prefix, mac) {
            (Ok(prefix), mac) => {
                // The address that stands before its interface's name is that name's, too.
                if !prefixes.contains(&prefix) {
                    prefixes.push(prefix);
                }
                both.extend(mac);
            }
            (Err(_), Ok(mac)) => macs.push(mac),
            _ => {
                let ours = format!("expected IP/MASK and an Ethernet address, not '{word}'");
                return Err(words(ours, "expected IP/MASK ETH"));
            }
        }
    }
    if macs.len() > 1 {
        return Err(words(format!("more than one Ethernet address in '{text}'"), "more than one ETH"));
    }
    if prefixes.is_empty() {
        return Err(words(format!("no IPv4 address in '{text}'"), "missing IP/MASK"));
    }
    let mac = macs.first().or(both.first());
    let mac = mac.ok_or_else(|| words(format!("no Ethernet address in '{text}'"), "missing ETH"))?;
    Ok(prefixes.into_iter().map(|prefix| Entry { prefix, mac: *mac }).collect())
}

impl ArpResponder {
    /// Adds entries; later ones replace earlier ones. Returns the prefixes that were there already.
    fn add(&mut self, entries: Vec<Entry>) -> Vec<Prefix4> {
        let mut twice = Vec::new();
        for entry in entries {
            match self.entries.iter_mut().find(|e| e.prefix == entry.prefix) {
                Some(old) => {
                    twice.push(old.prefix);
                    *old = entry;
                }
                None => {
                    // Before the first that contains it; the others stay in the order they were given in.
                    let wider = |e: &Entry| {
                        e.prefix.len() < entry.prefix.len() && e.prefix.contains(entry.prefix.addr())
                    };
                    let at = self.entries.iter().position(wider).unwrap_or(self.entries.len());
                    self.entries.insert(at, entry);
                }
            }
        }
        twice
    }

    fn lookup(&self, ip: std::net::Ipv4Addr) -> Option<MacAddr> {
        self.entries.iter().find(|e| e.prefix.contains(ip)).map(|e| e.mac)
    }

    /// Announces the single addresses to every station on the link.
    fn announce_now(&mut self, cx: &mut Cx<'_>) {
        let single = self.entries.iter().filter(|e| e.prefix.len() == 32);
        let own = |e: &Entry| arp::Repr::request(e.mac, e.prefix.addr(), e.prefix.addr());
        let mut batch: Batch = single.filter_map(|e| Packet::copy_of(&own(e).to_frame())).collect();
        batch.iter_mut().for_each(|p| p.set_mac_offset(0));
        self.announcements.send(cx, batch);
    }

    fn answer(&self, request: &Packet) -> Option<arp::Repr> {
        let request = request_in(request.data())?;
        Some(request.reply(self.lookup(request.target_ip)?))
    }
}

/// The ARP request for an IPv4 address in an Ethernet frame, if it is one.
pub(super) fn request_in(frame: &[u8]) -> Option<arp::Repr> {
    message_in(frame).filter(|m| m.operation == Operation::REQUEST)
}

/// The ARP message in an Ethernet frame, if it is one for IPv4.
pub(super) fn message_in(frame: &[u8]) -> Option<arp::Repr> {
    let frame = ethernet::View::new_checked(frame).ok()?;
    if frame.ethertype() != EtherType::ARP {
        return None;
    }
    arp::View::new_checked(frame.payload()).ok().map(|view| arp::Repr::parse(&view))
}

impl ArpResponder {
    fn table(&self) -> String {
        self.entries.iter().map(|e| format!("{} {:#}\n", e.prefix, e.mac)).collect()
    }

    fn remove(&mut self, text: &str) -> Result<(), HandlerError> {
        let prefix = text.parse().or_else(|_| text.parse().map(Prefix4::host));
        let prefix = prefix
            .map_err(|_| HandlerError::bad_value("remove", text, "IP/MASK").said_as("expected IP/MASK"))?;
        let at = self.entries.iter().position(|e| e.prefix == prefix);
        self.entries.remove(at.ok_or_else(|| HandlerError::failed(format!("{prefix} not found")))?);
        Ok(())
    }

    fn announce_anew(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if self.announcements.begin_anew()? {
            self.announce_now(cx);
        }
        Ok(())
    }
}

impl Element for ArpResponder {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.announcements.configure(args, 2 * SECOND);
        for (n, text) in args.rest().iter().enumerate() {
            match parse(text, args.names) {
                Ok(entries) => {
                    for prefix in self.add(entries) {
                        let ours = format!("several entries for {prefix}: the last one counts");
                        args.warning(words(ours, format!("multiple entries for {prefix}")));
                    }
                }
                Err(why) => args.error(format!("argument {n}: {why}")),
            }
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.announcements.initialize(cx);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        self.announce_now(cx);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let mut answers = Batch::new();
        for request in batch.drain(..) {
            match self.answer(&request) {
                None => cx.push_one_or_drop(1, request, Reason::BadArp),
                Some(answer) => match Packet::copy_of(&answer.to_frame()) {
                    Some(mut p) => {
                        p.set_mac_offset(0);
                        p.set_device(request.device());
                        answers.push(p);
                    }
                    None => cx.drop(Reason::NoMemory, request),
                },
            }
        }
        answers
    }
}

impl Rehearsal for ArpResponder {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    fn request(target: [u8; 4]) -> Vec<u8> {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let frame = arp::Repr::request(mac, [10, 0, 0, 1].into(), target.into()).to_frame();
        // Padded, as a frame on the wire is.
        [&frame[..], &[0; 18]].concat()
    }

    #[test]
    fn answers_for_the_longest_prefix() {
        for burst in [1, 32] {
            let mut run = Rig::new("ARPResponder(10.0.0.0/8 2:0:0:0:0:8, 2:0:0:0:0:9 10.1.0.0/16 10.2.3.4)")
                .outputs(2)
                .burst(burst)
                .inputs(&[&request([10, 1, 2, 3]), &request([11, 0, 0, 1]), &request([10, 9, 9, 9]), b"x"])
                .run();
            let out = run.bytes("o0");
            let want = arp::Repr {
                operation: Operation::REPLY,
                sender_mac: MacAddr([2, 0, 0, 0, 0, 9]),
                sender_ip: [10, 1, 2, 3].into(),
                target_mac: MacAddr([2, 0, 0, 0, 0, 1]),
                target_ip: [10, 0, 0, 1].into(),
            };
            assert_eq!(out[0], want.to_frame());
            assert_eq!((out.len(), &out[1][6..12]), (2, &[2, 0, 0, 0, 0, 8][..]));
            assert_eq!(run.bytes("o1"), [request([11, 0, 0, 1]), b"x".to_vec()]);
            assert_eq!(
                run.read("e.table"),
                "10.1.0.0/16 02-00-00-00-00-09\n10.2.3.4/32 02-00-00-00-00-09\n10.0.0.0/8 02-00-00-00-00-08\n"
            );
            run.write("e.remove", "10.1.0.0/16").unwrap();
            run.write("e.add", "1.2.3.4 2:0:0:0:0:7").unwrap();
            assert!(run.write("e.remove", "10.1.0.0/16").is_err());
            assert_eq!(run.drops("e"), []);
        }
    }

    #[test]
    fn announces_its_own_addresses() {
        let args = "10.0.0.2 2:0:0:0:0:2, 10.1.0.0/16 10.0.0.3 2:0:0:0:0:3, ANNOUNCE 2, ANNOUNCE_INTERVAL 1s";
        let mut run = Rig::new(&format!("ARPResponder({args})")).workers(2).run();
        let frame = |last| {
            let ip = [10, 0, 0, last].into();
            arp::Repr::request(MacAddr([2, 0, 0, 0, 0, last]), ip, ip).to_frame().to_vec()
        };
        assert_eq!(run.bytes("o0"), [frame(2), frame(3), frame(2), frame(3)]);
        run.write("e.announce", "").unwrap();
        assert_eq!(run.again().bytes("o0").len(), 4);
        let pull = "i :: TestIn -> Queue -> e :: ARPResponder(1.2.3.4 2:0:0:0:0:2, ANNOUNCE 1) \
                    -> Unqueue -> o :: TestOut;";
        let want = "e: ANNOUNCE needs a push output: put a Queue behind this element";
        assert_eq!(Rig::text(pull).errors(), [want]);
    }

    #[test]
    fn a_reply_is_no_request() {
        let message = arp::Repr::request(MacAddr::ZERO, [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let reply = message.reply(MacAddr([2, 0, 0, 0, 0, 5])).to_frame();
        let run =
            Rig::new("ARPResponder(0/0 2:0:0:0:0:9)").inputs(&[&reply, &request([1, 2, 3, 4])[..41]]).run();
        assert_eq!((run.bytes("o0").len(), run.drops("e")), (0, vec![(Reason::BadArp, 2)]));
    }

    #[test]
    fn names_and_errors() {
        let text =
            "AddressInfo(us 10.0.0.1 2:0:0:0:0:1); i :: TestIn -> e :: ARPResponder(us) -> o :: TestOut;";
        let mut run = Rig::text(text).run();
        assert_eq!(run.read("e.table"), "10.0.0.1/32 02-00-00-00-00-01\n");
        let check = |args: &str, want: &str| {
            assert_eq!(
                Rig::new(&format!("ARPResponder({args})")).errors(),
                [format!("e: argument 0: {want}")]
            );
        };
        check("10.0.0.1", "no Ethernet address in '10.0.0.1'");
        check("2:0:0:0:0:1", "no IPv4 address in '2:0:0:0:0:1'");
        check("10.0.0.1 zzz", "expected IP/MASK and an Ethernet address, not 'zzz'");
    }
}
