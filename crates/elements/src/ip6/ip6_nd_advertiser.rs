// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6NDAdvertiser
//!
//! `IP6NDAdvertiser(IP6/MASK [IP6/MASK ...] ETH, ... [, keywords ANYCAST, TABLE, ROUTER, ANNOUNCE, ANNOUNCE_INTERVAL])`
//!
//! Answers neighbour solicitations for some addresses: a router's own, or, as a proxy, those of others.
//!
//! **Ports:** 1 input, agnostic; 1 or 2 outputs. Advertisements leave by output 0; by output 1, push, all that is not a sound solicitation for one of
//! the addresses.
//!
//! **Arguments**
//! * Each argument is a list of IPv6 addresses or prefixes with the Ethernet address to answer with, in any order. A name
//!   that AddressInfo defines as both stands for both. The longest prefix counts. An address, or a prefix of 128 bits, is the
//!   router's own; shorter prefixes belong to others, for whom it stands in.
//! * `ANYCAST` further addresses with their Ethernet address, which other hosts have, too: such as a network's first address,
//!   which all its routers share (RFC 4291, 2.6.1). May be repeated.
//! * `TABLE` an IP6NDTable, or an IP6NDSolicitor with a table of its own, that is to learn who asks (RFC 4861, 7.2.3), default
//!   none. What waited there for them leaves by output 0.
//! * `ROUTER` boolean, default true: advertisements say that a router sends them.
//! * `ANNOUNCE` how often to advertise the own addresses to all nodes once the router runs, default 0; RFC 4861 allows 3.
//!   Output 0 must be push.
//! * `ANNOUNCE_INTERVAL` time from one announcement to the next, default 1 s.
//!
//! Advertisements for own addresses replace what others hold (flag O); those of a proxy and those for anycast addresses do not. They come from the
//! address asked for; those of a proxy and for anycast addresses from an own address with the same Ethernet address, if there is one. A question
//! without a source address, by which hosts look for duplicates, is answered to all nodes, without the flag S.
//!
//! **Metadata set:** the answer has the solicitation's device.
//!
//! **Drops:** `bad-hop-limit`, `bad-checksum`, `bad-option`, `bad-discovery`, and `not-for-us` for solicitations of others, unless
//! output 1 is connected; `no-memory`.
//!
//! **Handlers**
//! * `table` read: prefixes and Ethernet addresses. `lookup` read with an address: its Ethernet address.
//! * `add` write: an argument. `remove` write: a prefix.
//! * `announce` write: announce all own addresses now, ANNOUNCE times or once: for a link that came up again.
//!
//! ```click
//! Idle -> c :: Classifier(12/86dd 20/3a 54/87, -);
//! c[0] -> IP6NDAdvertiser(fe80::1 2001:db8::1 2:0:0:0:0:1, 2001:db8:1::/64 2:0:0:0:0:1) -> Discard;
//! c[1] -> Discard;
//! ```
//!
//! See also: IP6NDSolicitor, IP6NDTable, IP6NDRouterAdvertiser, ARPResponder; RFC 4861 (7.2.3, 7.2.4, 7.2.6, 7.2.8)

use std::net::Ipv6Addr;
use std::sync::Arc;

use element::args::{Args, FromArg, Names, Raw};
use element::clock::SECOND;
use element::{Class, Cx, Element, HandlerError, InitCx, LockUse, Locking, PacketHolder, Reason, handlers};
use packet::{Batch, Packet};
use tables::neighbour::Message;
use wire::ndp::{FLAG_OVERRIDE, FLAG_ROUTER, FLAG_SOLICITED, NdpOption, Repr};
use wire::{AddrPrefix6, EtherType, MacAddr, Prefix6, ethernet};

use super::ip6_nd::{self, ALL_NODES, Heard};
use crate::ethernet::announcements::Announcements;
use crate::ethernet::neighbours::{Lost, Table};
use crate::ethernet::prepend;

/// The descriptor.
pub const CLASS: Class = Class::new("IP6NDAdvertiser", "1/1-2", || Box::new(Advertiser::default()))
    .processing("a/ah")
    .handlers(handlers! { Advertiser:
        read "table" => |advertiser| advertiser.table();
        read "lookup" => |advertiser, text: &str| {
            let ip = text.trim().parse().map_err(|_| HandlerError::bad_value("lookup", text, "an IPv6 address"))?;
            advertiser.lookup(ip).map(|e| format!("{:#}", e.mac)).unwrap_or_default()
        };
        write "add" => |advertiser, entries: &str| {
            let entries = parse(entries, &Names::default()).map_err(HandlerError::Failed)?;
            advertiser.add(entries);
        };
        write "remove" => |advertiser, text: &str| advertiser.remove(text.trim())?;
        write "announce" => |advertiser, cx| advertiser.announce_anew(cx)?;
    })
    .locking::<Advertiser>().packet_holder::<Advertiser>().file(file!());

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    prefix: Prefix6,
    mac: MacAddr,
    anycast: bool,
}

impl Entry {
    /// Whether it is an address of ours alone, neither anycast nor one of those for whom we stand in.
    fn is_own(&self) -> bool {
        self.prefix.len() == 128 && !self.anycast
    }
}

#[derive(Default)]
struct Advertiser {
    /// Longest prefix first.
    entries: Vec<Entry>,
    router: bool,
    table_name: Option<String>,
    table: Option<Arc<Table<u128>>>,
    announcements: Announcements,
}

/// An address or a prefix, which may come with the host's part of the address.
fn prefix(word: &str, names: &Names) -> Option<Prefix6> {
    names.net6_or_host(word).map(AddrPrefix6::prefix)
}

/// Reads `IP6/MASK ... ETH`.
fn parse(text: &str, names: &Names) -> Result<Vec<Entry>, String> {
    let (mut prefixes, mut macs, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for word in lang::config::split_words(text) {
        let mac = MacAddr::from_arg(word, names);
        match (prefix(word, names), mac) {
            // Behind addresses, a name that has both is there for its Ethernet address.
            (Some(_), Ok(mac)) if prefixes.len() > both.len() => macs.push(mac),
            (Some(prefix), mac) => {
                prefixes.push(prefix);
                both.extend(mac);
            }
            (None, Ok(mac)) => macs.push(mac),
            _ => return Err(format!("expected IP6/MASK and an Ethernet address, not '{word}'")),
        }
    }
    if macs.len() > 1 {
        return Err(format!("more than one Ethernet address in '{text}'"));
    }
    let mac = macs.first().or(both.first()).ok_or_else(|| format!("no Ethernet address in '{text}'"))?;
    if prefixes.is_empty() {
        return Err(format!("no IPv6 address in '{text}'"));
    }
    Ok(prefixes.into_iter().map(|prefix| Entry { prefix, mac: *mac, anycast: false }).collect())
}

impl Advertiser {
    /// Adds entries; later ones replace earlier ones. Returns the prefixes that were there already.
    fn add(&mut self, entries: Vec<Entry>) -> Vec<Prefix6> {
        let mut twice = Vec::new();
        for entry in entries {
            match self.entries.iter_mut().find(|e| e.prefix == entry.prefix) {
                Some(old) => {
                    twice.push(old.prefix);
                    *old = entry;
                }
                None => self.entries.push(entry),
            }
        }
        self.entries.sort_by_key(|e| std::cmp::Reverse(e.prefix.len()));
        twice
    }

    fn lookup(&self, ip: Ipv6Addr) -> Option<Entry> {
        self.entries.iter().find(|e| e.prefix.contains(ip)).copied()
    }

    /// From which address to answer about `target` to `dst`.
    fn source(&self, entry: Entry, target: Ipv6Addr, dst: Ipv6Addr) -> Ipv6Addr {
        if entry.is_own() {
            return target;
        }
        let own =
            || self.entries.iter().filter(|e| e.is_own() && e.mac == entry.mac).map(|e| e.prefix.addr());
        let local = dst.is_unicast_link_local() || dst.is_multicast();
        own().find(|ip| ip.is_unicast_link_local() == local).or_else(|| own().next()).unwrap_or(target)
    }

    /// An advertisement of `target`, to who asked or to all nodes.
    fn advertise(&self, entry: Entry, target: Ipv6Addr, to: Option<(MacAddr, Ipv6Addr)>) -> Option<Packet> {
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        let flags = flag(self.router, FLAG_ROUTER)
            | flag(to.is_some(), FLAG_SOLICITED)
            | flag(entry.is_own(), FLAG_OVERRIDE);
        let to = to.unwrap_or((MacAddr::from_ipv6_group(ALL_NODES), ALL_NODES));
        let from = (entry.mac, self.source(entry, target, to.1));
        let option = NdpOption::link_addr_bytes(true, entry.mac);
        ip6_nd::frame(from, to, Repr::NeighborAdvert { target, flags }, &option)
    }

    /// Whom a sound solicitation asks for, and who asks, if it is for us.
    fn asked<'a>(&self, packet: &'a Packet) -> Result<(Entry, Ipv6Addr, Heard<'a>), Reason> {
        let heard = ip6_nd::read(packet.data())?;
        let Repr::NeighborSolicit { target } = heard.message else { return Err(Reason::BadDiscovery) };
        let entry = self.lookup(target).ok_or(Reason::NotForUs)?;
        Ok((entry, target, heard))
    }

    /// Records in the table who asked; what waited for that goes to `out`.
    fn learn(&self, cx: &mut Cx<'_>, entry: Entry, who: Ipv6Addr, mac: MacAddr, out: &mut Batch) {
        let Some(table) = &self.table else { return };
        let now = cx.now();
        let message = Message::Other { mac: Some(mac.0), router: None };
        let mut lost = Lost::default();
        let waited = table.neighbours.lock().hear(who.to_bits(), message, now, |p, why| lost.note(p, why));
        lost.drop_all(cx, None);
        let header = ethernet::Repr { dst: mac, src: entry.mac, ethertype: EtherType::IPV6 }.to_bytes();
        for mut packet in waited {
            if prepend(&mut packet, &header) {
                out.push(packet);
            } else {
                cx.drop(Reason::NoMemory, packet);
            }
        }
    }

    /// Announces the own addresses to all nodes.
    fn announce_now(&mut self, cx: &mut Cx<'_>) {
        let own = self.entries.iter().filter(|e| e.is_own());
        let batch: Batch = own.filter_map(|e| self.advertise(*e, e.prefix.addr(), None)).collect();
        self.announcements.send(cx, batch);
    }
}

impl Advertiser {
    fn table(&self) -> String {
        self.entries.iter().map(|e| format!("{} {:#}\n", e.prefix, e.mac)).collect()
    }

    fn remove(&mut self, text: &str) -> Result<(), HandlerError> {
        let prefix = prefix(text, &Names::default());
        let prefix = prefix.ok_or_else(|| HandlerError::bad_value("remove", text, "IP6/MASK"))?;
        let at = self.entries.iter().position(|e| e.prefix == prefix);
        let missing = || HandlerError::failed(format!("{prefix} is not in the table"));
        self.entries.remove(at.ok_or_else(missing)?);
        Ok(())
    }

    fn announce_anew(&mut self, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if self.announcements.begin_anew()? {
            self.announce_now(cx);
        }
        Ok(())
    }
}

impl Element for Advertiser {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.table_name = args.keyword_opt("TABLE");
        self.router = args.keyword("ROUTER", true);
        self.announcements.configure(args, SECOND);
        for Raw(text) in args.keyword_all::<Raw>("ANYCAST") {
            match parse(&text, args.names) {
                Ok(entries) if entries.iter().all(|e| e.prefix.len() == 128) => {
                    self.add(entries.into_iter().map(|e| Entry { anycast: true, ..e }).collect());
                }
                Ok(_) => args.error(format!("ANYCAST takes addresses, not the prefixes in '{text}'")),
                Err(why) => args.error(format!("ANYCAST: {why}")),
            }
        }
        for (n, text) in args.rest().iter().enumerate() {
            match parse(text, args.names) {
                Ok(entries) => {
                    for prefix in self.add(entries) {
                        args.warning(format!("several entries for {prefix}: the last one counts"));
                    }
                }
                Err(why) => args.error(format!("argument {n}: {why}")),
            }
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if let Some(name) = &self.table_name {
            let found = cx.find::<Table<u128>>(name);
            self.table = Some(found.ok_or_else(|| {
                format!("TABLE {name}: there is no IP6NDTable or IP6NDSolicitor of this name")
            })?);
        }
        self.announcements.initialize(cx);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        self.announce_now(cx);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let mut answers = Batch::new();
        for packet in batch.drain(..) {
            let (entry, target, heard) = match self.asked(&packet) {
                Ok(asked) => asked,
                Err(why) => {
                    cx.push_one_or_drop(1, packet, why);
                    continue;
                }
            };
            let nobody = heard.src.is_unspecified();
            let to = (!nobody).then_some((heard.source_mac.unwrap_or(heard.eth_src), heard.src));
            if let (Some(mac), false) = (heard.source_mac, nobody) {
                self.learn(cx, entry, heard.src, mac, &mut answers);
            }
            match self.advertise(entry, target, to) {
                Some(mut answer) => {
                    answer.set_device(packet.device());
                    answers.push(answer);
                }
                None => cx.drop(Reason::NoMemory, packet),
            }
        }
        answers
    }
}

impl PacketHolder for Advertiser {
    fn held_by(&self) -> Option<&str> {
        self.table_name.as_deref()
    }
}

impl Locking for Advertiser {
    fn locks(&self) -> Vec<LockUse> {
        let learns = self.table_name.is_some();
        if learns {
            crate::ethernet::neighbours::locks(self.table_name.as_deref(), false)
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ip6_nd::tests::{PEER, US, changed, from_peer, ip};
    use super::*;
    use crate::testing::{Rig, Run};

    const ALL: u8 = FLAG_ROUTER | FLAG_SOLICITED | FLAG_OVERRIDE;
    const PROXY: MacAddr = MacAddr([2, 0, 0, 0, 0, 8]);

    fn solicit(src: &str, target: &str) -> Vec<u8> {
        let group = wire::ndp::solicited_node(ip(target)).to_string();
        let option = NdpOption::link_addr_bytes(false, PEER);
        let options = if src == "::" { &[][..] } else { &option };
        from_peer(src, &group, Repr::NeighborSolicit { target: ip(target) }, options)
    }

    /// Ethernet addresses, IPv6 addresses, target, flags, and target's Ethernet address of each advertisement.
    type Seen = (MacAddr, MacAddr, Ipv6Addr, Ipv6Addr, Ipv6Addr, u8, Option<MacAddr>);

    fn seen(run: &Run) -> Vec<Seen> {
        let each = |p: &Packet| {
            let heard = ip6_nd::read(p.data()).expect("a sound message");
            let Repr::NeighborAdvert { target, flags } = heard.message else { panic!("{heard:?}") };
            let dst = wire::ipv6::View::new_checked(&p.data()[14..]).unwrap().dst();
            let to = MacAddr(*p.data().first_chunk().unwrap());
            (heard.eth_src, to, heard.src, dst, target, flags, heard.target_mac)
        };
        run.out("o0").iter().map(each).collect()
    }

    // conformance: RFC4861-7.2.4-a RFC4861-7.2.4-c
    #[test]
    fn answers_for_itself_and_for_others() {
        for burst in [1, 32] {
            let args = "fe80::1 2001:db8::1/128 2:0:0:0:0:1, 2001:db8:1::5/64 2:0:0:0:0:1, 2001:db8:2::/48 2:0:0:0:0:8";
            let mut run = Rig::new(&format!("IP6NDAdvertiser({args})"))
                .outputs(2)
                .burst(burst)
                .inputs(&[
                    &solicit("2001:db8::9", "2001:db8::1"),
                    &solicit("2001:db8::9", "2001:db8:1::77"),
                    &solicit("fe80::9", "2001:db8:1::77"),
                    &solicit("fe80::9", "2001:db8:2:3::4"),
                    &solicit("fe80::9", "2001:db9::1"),
                ])
                .run();
            let own = ip("2001:db8::1");
            let proxy = FLAG_ROUTER | FLAG_SOLICITED;
            let (near, far) = (ip("2001:db8:1::77"), ip("2001:db8:2:3::4"));
            let want = [
                (US, PEER, own, ip("2001:db8::9"), own, ALL, Some(US)),
                (US, PEER, own, ip("2001:db8::9"), near, proxy, Some(US)),
                (US, PEER, ip("fe80::1"), ip("fe80::9"), near, proxy, Some(US)),
                (PROXY, PEER, far, ip("fe80::9"), far, proxy, Some(PROXY)),
            ];
            assert_eq!(seen(&run), want);
            assert_eq!(run.bytes("o1"), [solicit("fe80::9", "2001:db9::1")]);
            let table = run.read("e.table");
            assert!(
                table.ends_with("2001:db8:1::/64 02-00-00-00-00-01\n2001:db8:2::/48 02-00-00-00-00-08\n")
            );
            run.write("e.remove", "2001:db8:1::/64").unwrap();
            assert!(
                run.write("e.remove", "2001:db8:1::/64").is_err() && run.write("e.add", "fe80::5").is_err()
            );
            run.write("e.add", "fe80::5 2:0:0:0:0:5").unwrap();
        }
    }

    // conformance: RFC4861-7.2.4-c RFC4861-7.2.7-b
    #[test]
    fn answers_for_anycast_addresses_without_overriding() {
        let own = "fe80::1 2001:db8::1 2:0:0:0:0:1, ANYCAST 2001:db8:: 2:0:0:0:0:1, ANNOUNCE 1";
        let inputs = [&solicit("2001:db8::9", "2001:db8::")[..], &solicit("fe80::9", "2001:db8::")];
        let run = Rig::new(&format!("IP6NDAdvertiser({own})")).inputs(&inputs).run();
        let (shared, flags) = (ip("2001:db8::"), FLAG_ROUTER | FLAG_SOLICITED);
        let all = seen(&run);
        let asked: Vec<Seen> = all.iter().filter(|s| s.5 & FLAG_SOLICITED != 0).copied().collect();
        let want = [
            (US, PEER, ip("2001:db8::1"), ip("2001:db8::9"), shared, flags, Some(US)),
            (US, PEER, ip("fe80::1"), ip("fe80::9"), shared, flags, Some(US)),
        ];
        assert_eq!(asked, want);
        // Only what is ours alone is announced.
        assert_eq!(all.len() - asked.len(), 2);
        let errors = |config: &str| Rig::new(&format!("IP6NDAdvertiser(::5 2:0:0:0:0:1, {config})")).errors();
        assert_eq!(
            errors("ANYCAST 2001:db8::/64 2:0:0:0:0:1"),
            ["e: ANYCAST takes addresses, not the prefixes in '2001:db8::/64 2:0:0:0:0:1'"]
        );
        assert_eq!(errors("ANYCAST 2001:db8::"), ["e: ANYCAST: no Ethernet address in '2001:db8::'"]);
    }

    /// RFC 4862: somebody checks that an address is free.
    // conformance: RFC4861-7.2.4-b
    #[test]
    fn whoever_has_no_address_is_told_with_all_nodes() {
        let run = Rig::new("IP6NDAdvertiser(fe80::1 2:0:0:0:0:1, ROUTER false)")
            .inputs(&[&solicit("::", "fe80::1")])
            .run();
        let all = (MacAddr([0x33, 0x33, 0, 0, 0, 1]), ip("ff02::1"));
        let us = ip("fe80::1");
        assert_eq!(seen(&run), [(US, all.0, us, all.1, us, FLAG_OVERRIDE, Some(US))]);
    }

    // conformance: RFC4861-7.1.1-a
    #[test]
    fn unsound_messages_are_not_answered() {
        let good = solicit("fe80::9", "fe80::1");
        let mut damaged = good.clone();
        damaged[60] ^= 1;
        let advert =
            from_peer("fe80::9", "fe80::1", Repr::NeighborAdvert { target: ip("fe80::9"), flags: 0 }, &[]);
        let run = Rig::new("IP6NDAdvertiser(fe80::1 2:0:0:0:0:1)")
            .inputs(&[&changed(&good, 21, 64), &damaged, &changed(&good, 79, 0), &good[..77], &advert, b"x"])
            .run();
        assert_eq!(seen(&run), []);
        let want = [
            (Reason::BadChecksum, 1),
            (Reason::BadOption, 1),
            (Reason::BadHopLimit, 1),
            (Reason::BadDiscovery, 3),
        ];
        assert_eq!(run.drops("e"), want);
    }

    #[test]
    fn a_table_learns_who_asks() {
        let text = "nt :: IP6NDTable(RETRIES 0); i :: TestIn -> e :: IP6NDAdvertiser(fe80::1 2:0:0:0:0:1, TABLE nt) \
                    -> o0 :: TestOut; j :: TestIn -> q :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:1, TABLE nt) \
                    -> o1 :: TestOut;";
        let run = Rig::text(text).ready();
        let mut waiting = Packet::copy_of(b"waits").unwrap();
        waiting.set_anno(packet::anno::DST_IP, ip("fe80::9").octets());
        run.give("j", vec![waiting]);
        run.give("i", vec![Packet::copy_of(&solicit("fe80::9", "fe80::1")).unwrap()]);
        let mut run = run.again();
        assert!(run.read("nt.table").starts_with("fe80::9 1 02-00-00-00-00-09 "));
        // Whichever ran first, the packet reached its neighbour, and the neighbour its answer.
        let out = [run.bytes("o0"), run.bytes("o1")].concat();
        let frame = [&PEER.0[..], &US.0, &[0x86, 0xdd], b"waits"].concat();
        assert!(out.contains(&frame), "{out:02x?}");
        assert!(out.iter().any(|f| f.len() > 54 && f[54] == 136));
    }

    // conformance: RFC4861-7.2.6-a
    #[test]
    fn announces_its_own_addresses() {
        let args = "fe80::1 2:0:0:0:0:1, 2001:db8::/64 2:0:0:0:0:1, ANNOUNCE 3";
        let mut run = Rig::new(&format!("IP6NDAdvertiser({args})")).workers(2).run();
        let all = (MacAddr([0x33, 0x33, 0, 0, 0, 1]), ip("ff02::1"));
        let us = ip("fe80::1");
        let one = (US, all.0, us, all.1, us, FLAG_ROUTER | FLAG_OVERRIDE, Some(US));
        assert_eq!(seen(&run), [one; 3]);
        run.write("e.announce", "").unwrap();
        assert_eq!(seen(&run.again()).len(), 3);
    }

    #[test]
    fn names_and_errors() {
        let text =
            "AddressInfo(us fe80::1 2:0:0:0:0:1); i :: TestIn -> e :: IP6NDAdvertiser(us) -> o :: TestOut;";
        let mut run = Rig::text(text).run();
        assert_eq!(run.read("e.table"), "fe80::1/128 02-00-00-00-00-01\n");
        let check = |args: &str, want: &str| {
            let errors = Rig::new(&format!("IP6NDAdvertiser({args})")).errors();
            assert_eq!(errors.len(), 1);
            assert!(errors[0].ends_with(want), "{errors:?}");
        };
        check("fe80::1", "argument 0: no Ethernet address in 'fe80::1'");
        check("2:0:0:0:0:1", "argument 0: no IPv6 address in '2:0:0:0:0:1'");
        check("fe80::1 zzz", "argument 0: expected IP6/MASK and an Ethernet address, not 'zzz'");
        check(
            "fe80::1 2:0:0:0:0:1, TABLE t",
            "TABLE t: there is no IP6NDTable or IP6NDSolicitor of this name",
        );
    }

    /// RFC 4861, 7.2.3: who asks and says where he is need not be asked; what waited for him goes.
    #[test]
    fn a_solicitor_learns_who_asks() {
        let text = "i :: TestIn -> e :: IP6NDAdvertiser(fe80::1 2:0:0:0:0:1, TABLE nd) -> o0 :: TestOut; \
                    w :: TestIn -> SetIP6Address(fe80::9) -> nd :: IP6NDSolicitor(fe80::1, 2:0:0:0:0:1) -> o1 :: TestOut; \
                    Idle -> [1]nd;";
        let run = Rig::text(text).ready();
        run.give("w", vec![Packet::copy_of(&[0x60; 40]).unwrap()]);
        let mut run = run.run_for(std::time::Duration::from_millis(1));
        assert_eq!((run.out("o1").len(), run.read("nd.length").as_str()), (1, "1"));
        run.give("i", vec![Packet::copy_of(&solicit("fe80::9", "fe80::1")).unwrap()]);
        let mut run = run.run_for(std::time::Duration::from_millis(1));
        let out = run.out("o0");
        assert_eq!(out.len(), 2, "what waited, and the answer");
        assert!(out.iter().all(|p| p.data()[..6] == PEER.0));
        assert!(run.read("nd.table").starts_with("fe80::9 1 "), "{}", run.read("nd.table"));
        assert_eq!(run.read("nd.length"), "0");
        // A packet for him now goes at once.
        run.give("w", vec![Packet::copy_of(&[0x60; 40]).unwrap()]);
        assert_eq!(run.run_for(std::time::Duration::from_millis(1)).out("o1").len(), 1);
    }
}
