// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ARPQuerier
//!
//! `ARPQuerier(IP, ETH [, keywords TABLE, TIMEOUT, POLL_TIMEOUT, BROADCAST, BROADCAST_POLL, CAPACITY, ENTRY_CAPACITY,`
//! `ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR, UNRESOLVED_CAPACITY, NEW_RATE, UNKNOWN_RATE, RETRIES, RETRY_INTERVAL,`
//! `PROBE_DELAY, UNSOLICITED, ETHERTYPE_ANNO, ADDRESSES])`
//!
//! Puts an Ethernet header in front of IPv4 packets, asking by ARP for addresses it does not know.
//!
//! **Ports:** push. Input 0 takes IPv4 packets, input 1 ARP answers with their Ethernet header. Output 0 sends packets, and
//! queries, too, unless there is an output 1 for them. Output 2, if it is connected, sends IPv4 packets whose neighbour did
//! not answer, for an ICMPError to report.
//!
//! **Arguments**
//! * `IP` this host's address, or its address and prefix. `ETH` this host's Ethernet address. One name that
//!   AddressInfo defines as both may stand for both.
//! * `TABLE` an ARPTable to use, default a table of its own.
//! * `BROADCAST` the broadcast address of the subnet, by default that of the prefix. Packets to it, and to
//!   255.255.255.255, go to every station; packets to multicast groups go to the group's Ethernet address.
//! * `POLL_TIMEOUT` age at which a known neighbour in use is asked again, default 60 s; 0 means never.
//! * `BROADCAST_POLL` boolean, default false: such queries go to every station, not only to the neighbour.
//! * `TIMEOUT`, `CAPACITY`, `ENTRY_CAPACITY`, `ENTRY_PACKET_CAPACITY`, `CAPACITY_SLIM_FACTOR` as for ARPTable.
//! * `UNRESOLVED_CAPACITY`, `NEW_RATE`, `UNKNOWN_RATE`, `RETRY_INTERVAL`, `PROBE_DELAY` as for ARPTable; `RETRIES` too, but the default is 3
//!   when output 2 is connected.
//! * `UNSOLICITED` what to believe of ARP messages that answer no query: `reply` (the default, as Click) all replies and no requests; `none` nothing.
//!   `update` means replies and requests of neighbours that are in the table; `accept` those, and gratuitous ones (about the sender's own address) of
//!   new neighbours. For the latter two, send requests to input 1, too.
//! * `ETHERTYPE_ANNO` annotation of two bytes, such as ETHERTYPE, that says which EtherType a packet leaves with where it is not zero. LookupMPLS and
//!   PushMPLS set it: for labelled packets, and for IP packets whose next hop is of the other family (RFC 8950).
//! * `ADDRESSES` elements with devices, as FromHost and ToHost, separated by spaces. The IPv4 addresses that the kernel has there at the
//!   moment take the place of IP: a query comes from the one whose network the neighbour is in, or else from the first.
//!   Where nobody else changes addresses, as in files, the argument stays.
//!
//! **Metadata read:** destination address; EtherType, with ETHERTYPE_ANNO; VLAN tag, which goes with the queries. **Set:** link header position.
//!
//! **Cores:** one table for all workers. A worker keeps recent answers and takes the table's lock for other addresses only; a batch for one next hop
//! asks once.
//!
//! **Drops:** `neighbour-queue-full`; `neighbour-table-full`; `no-neighbour`, packets whose neighbour did not answer in time, and those without a
//! destination annotation; `bad-arp`, malformed answers; `no-memory`; `inactive`, without an address of its own.
//! Answers, once read, count as `discarded`, and so do requests with `UNSOLICITED update` or `accept`.
//!
//! **Handlers**
//! * `table`, `states`, `count`, `unresolved`, `length`, `insert`, `delete`, `clear` as for ARPTable.
//! * `queries`, `responses`, `drops` read: queries sent, answers seen, packets dropped. `stats` read: a summary.
//! * `ipaddr`, `broadcast` read/write: IP and BROADCAST.
//!
//! No neighbour is asked more than ten times a second. When the link of the device behind output 0 is lost, all that neighbours said is
//! forgotten.
//!
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> SetIPAddress(10.0.0.2)
//!     -> q :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1) -> Discard;
//! Idle -> [1]q;
//! ```
//!
//! See also: ARPTable, ARPResponder, EtherEncap; RFC 826, RFC 1112

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use element::args::{Args, FromArg, Names, Raw};
use element::program::{Neighbours, Op};
use element::{Class, Cx, Handler, HandlerError, InitCx, Reason, Sharing, declare, handlers};
use packet::{Packet, anno};
use tables::mac::Mac;
use tables::neighbour::Message;
use wire::arp::{self, Operation};
use wire::ethernet::{EtherType, HEADER_LEN, Repr};
use wire::{AddrMask4, MacAddr};

use super::arp_responder::message_in;
use super::neighbours::Lost;
use super::resolver::{Cause, Client, Family, Resolver};
use crate::io::addresses::{LinkAddresses, Owned};

const HANDLERS: &[Handler] = &declare::joined::<14>(&[
    &Resolver::<V4>::READS,
    handlers! { Resolver<V4>:
        both "ipaddr".everywhere() => .family.own.ip |querier, text: &str| querier.family.own.ip = address("ipaddr", text)?;
        both "broadcast".everywhere() => .family.own.broadcast |querier, text: &str| querier.family.own.broadcast = address("broadcast", text)?;
    },
    Resolver::<V4>::WRITES,
]);

/// The descriptor.
pub const CLASS: Class = Resolver::<V4>::with_capabilities(
    Class::new("ARPQuerier", "1-2/1-3", || Box::<Resolver<V4>>::default())
        .processing("h/h")
        .flow("xy/x")
        .sharing(Sharing::Shared)
        .handlers(HANDLERS)
        .file(file!()),
);

#[derive(Clone)]
struct Own {
    ip: Ipv4Addr,
    /// Further addresses, by their networks.
    others: Vec<AddrMask4>,
    mac: MacAddr,
    broadcast: Ipv4Addr,
    /// Whether that was said, and not made of the network.
    has_broadcast: bool,
    broadcast_poll: bool,
    unsolicited: Unsolicited,
}

/// Which ARP messages that nobody asked for are believed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unsolicited {
    /// Replies, as Click.
    Reply,
    /// None.
    None,
    /// Those of neighbours that are in the table.
    Update,
    /// Those, and gratuitous ones of others.
    Accept,
}

impl FromArg for Unsolicited {
    const EXPECTED: &'static str = "reply, none, update or accept";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        Ok(match text {
            "reply" => Unsolicited::Reply,
            "none" => Unsolicited::None,
            "update" => Unsolicited::Update,
            "accept" => Unsolicited::Accept,
            _ => return Err(String::new()),
        })
    }
}

/// The timer for looks at addresses. The first ones are the client's.
const ADDRESSES: u32 = 2;

/// What is written about IPv4 only.
#[derive(Clone, Default)]
struct V4 {
    own: Own,
    addresses: LinkAddresses,
}

impl Default for Own {
    fn default() -> Self {
        Own {
            ip: Ipv4Addr::UNSPECIFIED,
            others: Vec::new(),
            mac: MacAddr::ZERO,
            broadcast: Ipv4Addr::BROADCAST,
            has_broadcast: false,
            broadcast_poll: false,
            unsolicited: Unsolicited::Reply,
        }
    }
}

/// Reads an address with or without its prefix.
fn address_and_mask(text: &str, names: &Names) -> Option<AddrMask4> {
    let plain = text.parse::<AddrMask4>().ok();
    plain.or_else(|| {
        let net = names.net4(text);
        let addr = names.ip4(text).or(net.map(|n| n.addr))?;
        // An address alone has no network.
        Some(AddrMask4 { addr, mask: net.map_or(Ipv4Addr::BROADCAST, |n| n.mask) })
    })
}

impl Own {
    /// Takes the addresses of this host, of which the first one counts most.
    fn set(&mut self, all: &Owned) {
        let first = all.four().next();
        self.ip = first.map_or(Ipv4Addr::UNSPECIFIED, |own| own.addr);
        self.others = all.four().skip(1).collect();
        if !self.has_broadcast {
            self.broadcast = first.and_then(AddrMask4::broadcast).unwrap_or(Ipv4Addr::BROADCAST);
        }
    }

    /// The address by which a neighbour is asked.
    fn sender(&self, neighbour: Ipv4Addr) -> Ipv4Addr {
        self.others.iter().find(|own| own.contains(neighbour)).map_or(self.ip, |own| own.addr)
    }

    /// Whether a message that nobody asked for is believed; `known` says whether its sender is in the table.
    fn believes(&self, policy: Unsolicited, message: &arp::Repr, known: bool) -> bool {
        let from_another = !message.sender_ip.is_unspecified() && message.sender_ip != self.ip;
        from_another
            && match policy {
                Unsolicited::Update => known,
                Unsolicited::Accept => known || message.sender_ip == message.target_ip,
                _ => false,
            }
    }
}

impl Family for V4 {
    type Address = u32;

    const TABLE: &'static str = "ARPTable";
    const CACHED_ANSWERS: usize = 1024;
    const QUERIES: &'static str = "ARP queries";

    fn configure(&mut self, args: &mut Args<'_>) {
        let broadcast: Option<Ipv4Addr> = args.keyword_opt("BROADCAST");
        self.own.broadcast_poll = args.keyword("BROADCAST_POLL", false);
        self.own.unsolicited = args.keyword("UNSOLICITED", Unsolicited::Reply);
        self.addresses.configure(args);
        let Raw(ip) = args.required("IP");
        let eth = args.positional_opt::<Raw>("ETH").map_or_else(|| ip.clone(), |Raw(eth)| eth);
        match address_and_mask(&ip, args.names) {
            Some(own) => {
                self.own.ip = own.addr;
                self.own.has_broadcast = broadcast.is_some();
                self.own.broadcast = broadcast.or(own.broadcast()).unwrap_or(Ipv4Addr::BROADCAST);
            }
            None if ip.is_empty() => {}
            None => args.bad("IP", format!("argument IP should be an IPv4 address or prefix, not '{ip}'")),
        }
        match MacAddr::from_arg(&eth, args.names) {
            Ok(mac) => self.own.mac = mac,
            Err(_) if ip.is_empty() => {}
            Err(_) => args.bad("ETH", format!("argument ETH should be {}, not '{eth}'", MacAddr::EXPECTED)),
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.addresses.initialize(cx, ADDRESSES)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        self.addresses.look(cx, timer).into_iter().for_each(|all| self.own.set(all));
    }

    #[inline]
    fn has_address(&self) -> bool {
        !self.own.ip.is_unspecified()
    }

    #[inline]
    fn destination(packet: &Packet) -> u32 {
        u32::from_be_bytes(packet.dst_ip())
    }

    #[inline]
    fn group(&self, ip: u32) -> Option<Mac> {
        let ip = Ipv4Addr::from_bits(ip);
        if ip == Ipv4Addr::BROADCAST || ip == self.own.broadcast {
            Some(MacAddr::BROADCAST.0)
        } else if ip.is_multicast() {
            Some(MacAddr::from_ipv4_group(ip).0)
        } else {
            None
        }
    }

    #[inline]
    fn header(&self, dst: Mac) -> [u8; HEADER_LEN] {
        Repr { dst: MacAddr(dst), src: self.own.mac, ethertype: EtherType::IPV4 }.to_bytes()
    }

    fn query(&self, ip: u32, cause: Cause, to: Option<Mac>) -> Option<Packet> {
        let neighbour = Ipv4Addr::from_bits(ip);
        let request = arp::Repr::request(self.own.mac, self.own.sender(neighbour), neighbour);
        let mut query = Packet::copy_of(&request.to_frame())?;
        if let Some(mac) = to.filter(|_| !self.own.broadcast_poll)
            && let Some(dst) = query.data_mut().first_chunk_mut()
        {
            *dst = mac;
        }
        query.set_mac_offset(0);
        query.set_anno(anno::VLAN_TCI, cause.tci);
        Some(query)
    }

    fn hear(
        &self,
        cx: &mut Cx<'_>,
        client: &Client<u32>,
        packet: Packet,
        lost: &mut Lost,
    ) -> Option<(Mac, VecDeque<Packet>)> {
        let now = cx.now();
        let message = message_in(packet.data());
        if packet.len() >= HEADER_LEN + arp::HEADER_LEN {
            client.counts.note_response();
        }
        let Some(message) = message.filter(|m| !m.sender_mac.is_group()) else {
            cx.drop(Reason::BadArp, packet);
            return None;
        };
        let mut table = client.table.neighbours.lock();
        table.expire(now, |p, why| lost.note(p, why));
        let ip = message.sender_ip.to_bits();
        let mac = message.sender_mac.0;
        let reply = message.operation == Operation::REPLY;
        let waited = match self.own.unsolicited {
            Unsolicited::Reply if reply => Some(table.insert(ip, mac, now, |p, why| lost.note(p, why))),
            Unsolicited::Reply => None,
            _ if reply && table.awaits(ip) => Some(table.insert(ip, mac, now, |p, why| lost.note(p, why))),
            policy if self.own.believes(policy, &message, table.get(ip, now).is_some()) => {
                let message = Message::Other { mac: Some(mac), router: None };
                Some(table.hear(ip, message, now, |p, why| lost.note(p, why)))
            }
            _ => None,
        };
        drop(table);
        // Most requests are not about neighbours of ours, and nothing is wrong with them.
        let heard = matches!(self.own.unsolicited, Unsolicited::Update | Unsolicited::Accept) && !reply;
        cx.drop(if waited.is_some() || heard { Reason::Discarded } else { Reason::BadArp }, packet);
        waited.map(|waited| (mac, waited))
    }

    fn op(neighbours: Neighbours<'_, u32>) -> Op<'_> {
        Op::Neighbours4(neighbours)
    }
}

/// The address written to handler `name`.
fn address(name: &str, text: &str) -> Result<Ipv4Addr, HandlerError> {
    text.trim().parse().map_err(|_| HandlerError::bad_value(name, text.trim(), "an IPv4 address"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{Rig, Run};

    const SELF: &str = "10.0.0.1/24, 2:0:0:0:0:1";
    const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn to(ip: [u8; 4], text: &[u8]) -> Packet {
        let mut packet = Packet::copy_of(text).unwrap();
        packet.set_dst_ip(ip);
        packet
    }

    fn answer(ip: [u8; 4]) -> Packet {
        let us = MacAddr([2, 0, 0, 0, 0, 1]);
        let request = arp::Repr::request(us, [10, 0, 0, 1].into(), ip.into());
        let mut p = Packet::copy_of(&request.reply(PEER).to_frame()).unwrap();
        p.set_paint(1);
        p
    }

    /// Packets painted 1 are answers.
    fn rig(args: &str, packets: Vec<Packet>) -> Rig {
        Rig::text(&format!(
            "i :: TestIn -> c :: Classifier(12/0806, -); c[1] -> e :: ARPQuerier({args}) -> o0 :: TestOut; \
             c[0] -> [1]e; e[1] -> o1 :: TestOut;"
        ))
        .packets(packets)
    }

    fn frame(dst: MacAddr, text: &[u8]) -> Vec<u8> {
        let header = Repr { dst, src: MacAddr([2, 0, 0, 0, 0, 1]), ethertype: EtherType::IPV4 };
        [&header.to_bytes()[..], text].concat()
    }

    fn queried(run: &Run) -> Vec<[u8; 4]> {
        run.out("o1").iter().map(|p| message_in(p.data()).unwrap().target_ip.octets()).collect()
    }

    #[test]
    fn neighbours_and_packets_wait_through_a_swap() {
        let (far, near) = ([10, 0, 0, 7], [10, 0, 0, 8]);
        let text = |table: &str, args: &str| {
            format!(
                "{table} i :: TestIn -> c :: Classifier(12/0806, -); c[1] -> e :: ARPQuerier({SELF}, {args}) -> o :: TestOut; \
                 c[0] -> [1]e; e[1] -> q :: TestOut;"
            )
        };
        for (table, args) in [("", "RETRIES 3"), ("", "RETRIES 0"), ("t :: ARPTable(RETRIES 3);", "TABLE t")]
        {
            let packets = vec![to(near, b"known"), answer(near), to(far, b"one"), to(far, b"two")];
            let before = text(table, args);
            let run = Rig::text(&before).packets(packets).burst(1).ready();
            let mut run = run.run_for(Duration::from_millis(1));
            assert_eq!(run.out("o").len(), 1);
            // The elements' numbers change, too.
            let after = format!("Idle -> Counter -> Discard; {}", text(table, args));
            let swapped = run.swap(&after).unwrap();
            assert_eq!(swapped.lost(), 0, "{swapped}");
            run.give("i", vec![to(near, b"still known"), answer(far)]);
            let mut run = run.run_for(Duration::from_millis(1));
            let want = [frame(PEER, b"still known"), frame(PEER, b"one"), frame(PEER, b"two")];
            assert_eq!(run.bytes("o"), want, "{args}");
            assert_eq!((run.read("e.queries"), run.read("e.responses")), ("2".into(), "2".into()));
            // What is asked for goes on being asked for.
            run.give("i", vec![to([10, 0, 0, 9], b"nobody")]);
            let mut run = run.run_for(Duration::from_millis(1));
            run.swap(&before).unwrap();
            let run = run.run_for(Duration::from_secs(60));
            if args != "RETRIES 0" {
                assert_eq!(queried_at(&run, "q").len(), 2, "{args}");
                assert_eq!(run.drops("e").iter().map(|d| d.1).max(), Some(2), "{args}: {:?}", run.drops("e"));
            }
        }
    }

    fn queried_at(run: &Run, sink: &str) -> Vec<[u8; 4]> {
        run.out(sink).iter().map(|p| message_in(p.data()).unwrap().target_ip.octets()).collect()
    }

    #[test]
    fn asks_once_keeps_the_packets_and_sends_them_in_order() {
        let far = [10, 0, 0, 7];
        let packets = vec![to(far, b"one"), to(far, b"two"), answer(far), to(far, b"three")];
        let mut run = rig(&format!("{SELF}, TIMEOUT 0"), packets).burst(1).run();
        assert_eq!(run.bytes("o0"), [frame(PEER, b"one"), frame(PEER, b"two"), frame(PEER, b"three")]);
        assert_eq!(queried(&run), [far]);
        let read = |run: &mut Run, name| run.read(name);
        assert_eq!((read(&mut run, "e.queries"), read(&mut run, "e.responses")), ("1".into(), "1".into()));
        assert_eq!(run.read("e.stats"), "0 packets killed\n1 ARP queries sent\n");
        assert!(run.read("e.table").starts_with("10.0.0.7 1 02-00-00-00-00-09 "));
    }

    #[test]
    fn a_batch_divides_into_known_and_unknown() {
        let (near, far) = ([10, 0, 0, 6], [10, 0, 0, 7]);
        let mut run = rig(&format!("{SELF}, TIMEOUT 0"), vec![]).run();
        run.write("e.insert", "10.0.0.6 2:0:0:0:0:9").unwrap();
        run.give("i", vec![to(near, b"a"), to(far, b"b"), to(near, b"c"), to([0; 4], b"d")]);
        let mut run = run.again();
        assert_eq!(run.bytes("o0"), [frame(PEER, b"a"), frame(PEER, b"c")]);
        assert_eq!(queried(&run), [far]);
        assert_eq!(run.drops("e"), [(Reason::NoNeighbour, 1)]);
        assert_eq!((run.read("e.length").as_str(), run.read("e.count").as_str()), ("1", "2"));
        run.write("e.insert", "10.0.0.7 2:0:0:0:0:9").unwrap();
        assert_eq!(run.again().bytes("o0"), [frame(PEER, b"b")]);
    }

    #[test]
    fn groups_need_no_question() {
        let packets = vec![to([10, 0, 0, 255], b"a"), to([255; 4], b"b"), to([224, 129, 2, 3], b"c")];
        let run = rig(SELF, packets).run();
        let group = MacAddr([1, 0, 0x5e, 1, 2, 3]);
        let want = [frame(MacAddr::BROADCAST, b"a"), frame(MacAddr::BROADCAST, b"b"), frame(group, b"c")];
        assert_eq!((run.bytes("o0"), queried(&run)), (want.to_vec(), vec![]));
    }

    /// On a link of two hosts both addresses are hosts (RFC 3021).
    #[test]
    fn a_link_of_two_hosts_has_no_broadcast_address() {
        for (own, peer) in [("10.0.0.0/31", [10, 0, 0, 1]), ("10.0.0.1/31", [10, 0, 0, 0])] {
            let run = rig(&format!("{own}, 2:0:0:0:0:1"), vec![to(peer, b"a"), to([255; 4], b"b")]).run();
            assert_eq!(run.bytes("o0"), [frame(MacAddr::BROADCAST, b"b")]);
            assert_eq!(queried(&run), [peer]);
        }
    }

    #[test]
    fn what_nobody_answers_is_dropped_in_time() {
        let run = rig(SELF, vec![to([10, 0, 0, 7], b"a")]).run();
        assert_eq!(run.drops("e"), [(Reason::NoNeighbour, 1)]);
        let far = [10, 0, 0, 7];
        let run = rig(&format!("{SELF}, ENTRY_PACKET_CAPACITY 1"), vec![to(far, b"a"), to(far, b"b")]).run();
        assert_eq!(run.drops("e"), [(Reason::NoNeighbour, 1), (Reason::NeighbourQueueFull, 1)]);
    }

    fn events(run: &Run) -> Vec<Vec<u8>> {
        let out = run.out("o1");
        out.iter().map(|p| [&p.data()[..6], &p.data()[38..42]].concat()).collect()
    }

    #[test]
    fn after_three_queries_packets_leave_by_output_2() {
        let text = format!(
            "i :: TestIn -> e :: ARPQuerier({SELF}); Idle -> [1]e; e[0] -> o0 :: TestOut; \
             e[1] -> o1 :: TestOut; e[2] -> o2 :: TestOut;"
        );
        let far = [10, 0, 0, 7];
        let mut run = Rig::text(&text).packets(vec![to(far, b"a"), to(far, b"b")]).run();
        let query = [&[0xff; 6][..], &far].concat();
        assert_eq!(events(&run), [query.clone(), query.clone(), query.clone()]);
        assert_eq!(run.bytes("o2"), [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!((run.drops("e"), run.read("e.drops")), (vec![], "0".into()));
        assert_eq!((run.read("e.count"), run.read("e.length")), ("0".into(), "0".into()));
        // The next packet begins anew.
        run.give("i", vec![to(far, b"c")]);
        assert_eq!(run.again().bytes("o2"), [b"c"]);
    }

    #[test]
    fn a_neighbour_in_use_is_asked_by_its_own_address() {
        let far = [10, 0, 0, 7];
        let args = format!("{SELF}, RETRIES 2, RETRY_INTERVAL 100ms, POLL_TIMEOUT 1s, PROBE_DELAY 300ms");
        let mut run = rig(&args, vec![to(far, b"a"), answer(far)]).run();
        assert_eq!((run.bytes("o0"), events(&run).len()), (vec![frame(PEER, b"a")], 1));
        // Waits until the neighbour is stale: the clock moves with another one's timers.
        for ms in (0..2100).step_by(300) {
            run.give("i", vec![to([10, 0, 1, (ms / 100) as u8], b"other")]);
            run = run.again();
        }
        run.bytes("o0");
        events(&run);
        assert!(run.read("e.states").contains(" stale "), "{}", run.read("e.states"));
        run.give("i", vec![to(far, b"b")]);
        let mut run = run.again();
        assert_eq!(run.bytes("o0"), [frame(PEER, b"b")]);
        let probe = [&PEER.0[..], &far].concat();
        assert_eq!(events(&run), [probe.clone(), probe]);
        assert_eq!(run.read("e.count"), "0", "it did not answer");
    }

    #[test]
    fn unsolicited_messages_are_believed_by_policy() {
        let far = [10, 0, 0, 7];
        let ours = MacAddr([2, 0, 0, 0, 0, 1]);
        let gratuitous = |ip: [u8; 4], number| {
            let message = arp::Repr::request(MacAddr([2, 0, 0, 0, 0, number]), ip.into(), ip.into());
            let mut p = Packet::copy_of(&message.to_frame()).unwrap();
            p.set_paint(1);
            p
        };
        let check = |policy: &str, packets: Vec<Packet>, want: &str| {
            let mut run = rig(&format!("{SELF}, TIMEOUT 0, UNSOLICITED {policy}"), packets).run();
            let table = run.read("e.table");
            let found: Vec<String> =
                table.lines().map(|l| l.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
            assert_eq!(found.join(", "), want, "{policy}");
        };
        let known = |number| format!("10.0.0.7 1 02-00-00-00-00-0{number}");
        check("reply", vec![answer(far)], &known(9));
        check("reply", vec![answer(far), gratuitous(far, 5)], &known(9));
        check("none", vec![answer(far), gratuitous(far, 5)], "");
        check("none", vec![to(far, b"a"), answer(far), gratuitous(far, 5)], &known(9));
        check("update", vec![answer(far), gratuitous(far, 5)], "");
        check("update", vec![to(far, b"a"), answer(far), gratuitous(far, 5)], &known(5));
        check("accept", vec![gratuitous(far, 5)], &known(5));
        check("accept", vec![gratuitous([10, 0, 0, 1], 5), gratuitous([0; 4], 5)], "");
        // A request about somebody else updates only.
        let mut other = gratuitous(far, 5);
        let request = arp::Repr::request(ours, far.into(), [10, 0, 0, 8].into()).to_frame();
        other.data_mut().copy_from_slice(&request);
        check("accept", vec![other], "");
    }

    #[test]
    fn permanent_neighbours_stay_as_they_are() {
        let far = [10, 0, 0, 7];
        let mut run = rig(&format!("{SELF}, RETRIES 3"), vec![]).run();
        run.write("e.insert", "10.0.0.7 2:0:0:0:0:5 permanent").unwrap();
        assert!(run.write("e.insert", "10.0.0.8 2:0:0:0:0:5 forever").is_err());
        run.give("i", vec![answer(far), to(far, b"a")]);
        let mut run = run.again();
        assert_eq!(run.bytes("o0"), [frame(MacAddr([2, 0, 0, 0, 0, 5]), b"a")]);
        assert_eq!(run.read("e.states"), "10.0.0.7 1 02-00-00-00-00-05 0.000000 permanent 0\n");
    }

    #[test]
    fn bad_answers_change_nothing() {
        let far = [10, 0, 0, 7];
        let mut short = answer(far);
        short.trim(1);
        let mut group = answer(far);
        group.data_mut()[22] = 1;
        let mut request = answer(far);
        request.data_mut()[21] = 1;
        let run = rig(SELF, vec![to(far, b"a"), short, group, request]).run();
        assert_eq!(run.bytes("o0").len(), 0);
        assert_eq!(run.drops("e"), [(Reason::NoNeighbour, 1), (Reason::BadArp, 3)]);
    }

    #[test]
    fn tables_are_found_and_arguments_checked() {
        let text = "t :: ARPTable; i :: TestIn -> e :: ARPQuerier(us, TABLE t) -> o :: TestOut; Idle -> [1]e; \
                    AddressInfo(us 10.0.0.1 2:0:0:0:0:1);";
        let mut run = Rig::text(text).run();
        assert_eq!(run.read("e.ipaddr"), "10.0.0.1");
        assert_eq!(run.write("e.broadcast", "10.0.0.127"), Ok(()));
        assert_eq!(run.read("e.broadcast"), "10.0.0.127");
        assert!(run.write("e.broadcast", "x").is_err());
        run.write("t.insert", "10.0.0.6 2:0:0:0:0:9").unwrap();
        assert_eq!(run.read("e.count"), "1");
        let check = |args: &str, want: &str| {
            let text = format!("i :: TestIn -> e :: ARPQuerier({args}) -> o :: TestOut; Idle -> [1]e;");
            let errors = Rig::text(&text).errors();
            assert!(errors.iter().any(|e| e.contains(want)), "{errors:?}");
        };
        check(
            "10.0.0.1",
            "argument ETH should be an Ethernet address, or an interface of this machine, not '10.0.0.1'",
        );
        check("x, 2:0:0:0:0:1", "argument IP should be an IPv4 address or prefix, not 'x'");
        check("", "missing argument IP");
        check(
            "10.0.0.1, 2:0:0:0:0:1, UNSOLICITED x",
            "argument UNSOLICITED should be reply, none, update or accept",
        );
        check("10.0.0.1, 2:0:0:0:0:1, RETRIES 1, RETRY_INTERVAL 0", "RETRY_INTERVAL must be 1 ms or more");
        check("10.0.0.1, 2:0:0:0:0:1, TABLE t", "there is no ARPTable of this name");
    }
}
