// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecEncrypt
//!
//! `IPsecEncrypt(DATABASE, [keywords MTU, FOLLOW, DEFAULT, FRAGMENT, MARK, OWN])`
//!
//! Protects packets by ESP as the policies of an IPsecDatabase say.
//!
//! A gateway has it behind its routing table and DecIPTTL. Protected packets have another destination, so they go through the routing table again.
//!
//! **Ports:** one push input. Output 0 for protected packets. Output 1 for packets that policies let pass as they are; without it, they leave by output 0. Output 2,
//! if connected, for packets that would be too long when protected, and must not be fragmented: to ICMPError and ICMP6Error with `PMTU_ANNO true`. Output 3 for packets
//! protected in transport mode; without it, they leave by output 0. They have the same destination as before. The 14 bytes in front of such a packet, which Strip took off, stay in front of it: Unstrip gives
//! its Ethernet header back. Output 4, if connected, for fragments that transport mode cannot protect, as they are: to an IPReassembler or IP6Reassembler, and behind that to an IPsecEncrypt with `OWN true`.
//!
//! **Arguments**
//! * `DATABASE` the IPsecDatabase.
//! * `MTU` the longest packet in bytes that may leave, protected; default 1500.
//! * `FOLLOW` elements with devices, as FromDevice or ToHost, separated by spaces. The lowest MTU that these have at the moment takes the place of MTU.
//! * `DEFAULT` `bypass`, the default, or `discard`: what becomes of packets that no policy is about.
//! * `FRAGMENT` `after`, the default, or `before`: when IPv4 packets are fragmented that a tunnel makes too long. After: they are protected whole, and the tunnel's packet is
//!   fragmented behind, so the other gateway must join its fragments. Before: the tunnel carries fragments, which the packet's receiver joins.
//! * `MARK` boolean, default false: protected packets are marked by the value 2 in the annotation OPENED, and such packets pass as they are. It is for routers whose protected packets come by
//!   an IPsecEncrypt again: a mark is there on fragments, too, and after the association has ended. Nothing else may write this annotation then.
//! * `OWN` boolean, default false: packets are this host's own, and were put together again. Protected ones of IPv6 that are too long are fragmented behind, as a host may do.
//!
//! The best policy with `dir out` counts. ESP packets of the database's own associations pass as they are, and so do messages of IKE (UDP ports 500 and 4500) between the hosts
//! that the template's associations are between.
//!
//! An ICMP error that no policy is about goes by the tunnel, if there is one, of the packets from the destination that it quotes to the source that it quotes.
//!
//! **Long packets:** a packet may be as long as the link and the association's path allow, when protected. The path's MTU is what IPsecPathMTU or the handler `path_mtu` of the database noted.
//! Longer packets that must not be fragmented leave by output 2; IPv6 packets up to 1280 bytes never do. What is still longer is fragmented behind, by IPFragmenter and by IP6Fragmenter with `LOCAL true, MTU_ANNO true`.
//!
//! Only the first fragment of a packet has ports. A later one is dropped if a policy for ports, which is better than that of the fragment and does something else, could be about
//! it, unless that lets packets pass as they are. An IPReassembler before avoids that.
//!
//! **Metadata:** packets begin with their IP header. Sets the destination annotation to the tunnel's end; in transport mode it stays as it is. Sets the miscellaneous annotation of protected packets to the longest packet that link and path
//! take, and that of packets for output 2 to the longest one that would fit.
//!
//! **Drops:** `policy-discard`, `no-policy` with `DEFAULT discard`. `no-sa` while a policy's association is missing. `must-fragment` without output 2. Without output 4, `esp-fragment` for fragments in
//! transport mode, `ambiguous-fragment` for those that have no ports. `sequence-exhausted`, `too-long`, `no-memory`, `bad-length`.
//!
//! **Cores:** all workers may use an association. A batch takes its sequence numbers at once, by one atomic addition.
//!
//! ```click
//! db :: IPsecDatabase();
//! Idle -> CheckIPHeader -> enc :: IPsecEncrypt(db, DEFAULT discard) -> Discard;
//! enc[1] -> Discard;
//! enc[2] -> ICMPError(192.0.2.1, unreachable, needfrag, PMTU_ANNO true) -> Discard;
//! ```
//!
//! See also: IPsecDatabase, IPsecDecrypt, ESPTunnel. RFC 4301 (5.1, 8), RFC 4303

use std::sync::Arc;

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, InitCx, Reason};
use ipsec::{Action, Association, Database, Direction, Flow, IpsecMode, Rule};
use packet::{Batch, Packet, anno};
use sync::rcu::Reader;

use super::database;
use super::exempt::is_exempt;
use super::outbound::{Choice, Here, MTUS, Verdict, in_parts, protect};
use super::quoted::reversed;
use crate::io::mtu::LinkMtu;

/// The descriptor.
pub const CLASS: Class =
    Class::new("IPsecEncrypt", "1/1-5", || Box::new(IpsecEncrypt::default())).processing("h/h").file(file!());

/// The timer by which links are looked at.
const LOOK: u32 = 0;
/// The output for packets that pass as they are.
const BYPASS: usize = 1;
/// The output for packets that are too long.
const TOO_BIG: usize = 2;
/// The output for packets protected in transport mode.
const TRANSPORT: usize = 3;
/// The output for fragments that must become whole first.
const FRAGMENTS: usize = 4;

/// What becomes of packets that no policy is about.
#[derive(Clone, Copy, Default, PartialEq)]
enum Unnamed {
    #[default]
    Bypass,
    Discard,
}

impl FromArg for Unnamed {
    const EXPECTED: &'static str = "bypass or discard";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        match text {
            "bypass" => Ok(Unnamed::Bypass),
            "discard" => Ok(Unnamed::Discard),
            _ => Err(String::new()),
        }
    }
}

/// When packets are fragmented that a tunnel makes too long.
#[derive(Clone, Copy, Default, PartialEq)]
enum Fragment {
    #[default]
    After,
    Before,
}

impl FromArg for Fragment {
    const EXPECTED: &'static str = "before or after";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        match text {
            "after" => Ok(Fragment::After),
            "before" => Ok(Fragment::Before),
            _ => Err(String::new()),
        }
    }
}

#[derive(Clone, Default)]
struct IpsecEncrypt {
    name: String,
    database: Option<Arc<Database>>,
    mtu: usize,
    follow: LinkMtu,
    unnamed: Unnamed,
    fragment: Fragment,
    marks: bool,
    is_own: bool,
}

impl IpsecEncrypt {
    /// What the policies say of a packet.
    #[inline]
    fn choose<'a>(
        &self,
        packet: &Packet,
        database: &'a Database,
        reader: &'a Reader,
        (now_ns, has_way): (u64, bool),
    ) -> Choice<'a> {
        if self.marks && packet.anno_u8(anno::OPENED) == anno::PROTECTED {
            return if has_way {
                Choice::Not(Verdict::Leave(BYPASS, Reason::NoOutput))
            } else {
                Choice::Pass
            };
        }
        let Some(flow) = Flow::read(packet.data()) else {
            return Choice::Not(Verdict::Drop(Reason::BadLength));
        };
        let bypass =
            if has_way { Choice::Not(Verdict::Leave(BYPASS, Reason::NoOutput)) } else { Choice::Pass };
        let rule = database.outbound(&flow, reader).map(Arc::as_ref);
        if rule.is_none()
            && let Some(association) = of_quoted(packet.data(), &flow, database, reader)
        {
            return Choice::Protect(association);
        }
        if is_ambiguous(database, &flow, rule, reader) {
            return Choice::Not(Verdict::Leave(FRAGMENTS, Reason::AmbiguousFragment));
        }
        let is_exempt = || is_exempt(packet.data(), &flow, rule, database, reader);
        let refuse = |reason| if is_exempt() { bypass } else { Choice::Not(Verdict::Drop(reason)) };
        let Some(rule) = rule else {
            return if self.unnamed == Unnamed::Bypass { bypass } else { refuse(Reason::NoPolicy) };
        };
        rule.note_use(now_ns);
        let (template, target) = match (&rule.policy.action, &rule.target) {
            (Action::Protect(template), Some(target)) => (template, target),
            (Action::Discard, _) => return refuse(Reason::PolicyDiscard),
            _ => return bypass,
        };
        if is_exempt() {
            return bypass;
        }
        match target.current(reader) {
            Some(association) if !association.is_over() && association.carries(&flow) => {
                Choice::Protect(association)
            }
            _ => {
                database.acquire(rule, &flow, now_ns);
                if template.is_optional { bypass } else { Choice::Not(Verdict::Drop(Reason::NoAssociation)) }
            }
        }
    }
}

/// Whether the ports of a later fragment would decide that it is discarded, or protected otherwise than its policy says. Where they would let it pass as it is, its policy counts.
#[inline]
fn is_ambiguous(database: &Database, flow: &Flow, rule: Option<&Rule>, reader: &Reader) -> bool {
    let action = rule.map(|rule| &rule.policy.action);
    let differs = |rival: &Rule| {
        let wants = &rival.policy.action;
        *wants != Action::Bypass && Some(wants) != action
    };
    database.is_ambiguous((flow, Direction::Out), rule, reader, differs)
}

/// The tunnel of an ICMP error that no policy is about: that of the packets which it reports.
#[inline]
fn of_quoted<'a>(
    packet: &[u8],
    flow: &Flow,
    database: &'a Database,
    reader: &'a Reader,
) -> Option<&'a Association> {
    let flow = reversed(packet, flow)?;
    let association = database.outbound(&flow, reader)?.target.as_ref()?.current(reader)?;
    let is_tunnel = association.kind() != IpsecMode::Transport;
    (is_tunnel && !association.is_over() && association.selects(&flow)).then_some(association)
}

impl Element for IpsecEncrypt {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.name = args.required("DATABASE");
        self.mtu = args.keyword_in("MTU", 1500, MTUS);
        self.follow = LinkMtu::from_args(args);
        self.unnamed = args.keyword("DEFAULT", Unnamed::Bypass);
        self.fragment = args.keyword("FRAGMENT", Fragment::After);
        self.marks = args.keyword("MARK", false);
        self.is_own = args.keyword("OWN", false);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.database = Some(database::find(cx, &self.name)?);
        self.follow.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        self.follow.look(cx, timer);
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let Some(database) = &self.database else { return };
        let (now_ns, has_way) = (cx.now(), cx.connected(BYPASS));
        let here = Here {
            worker: cx.worker(),
            now_ns,
            mtu: self.follow.or(self.mtu),
            too_big: TOO_BIG,
            splits: self.fragment == Fragment::Before,
            marks: self.marks,
            transport: cx.connected(TRANSPORT).then_some(TRANSPORT),
            fragments: FRAGMENTS,
            is_own: self.is_own,
        };
        in_parts(cx, batch, 0, |part, reader| {
            let flow = |packet: &Packet| Some((Flow::read(packet.data())?, packet.len()));
            database.fetch_outbound(part.iter().filter_map(flow), reader);
            protect(part, database, here, |packet| self.choose(packet, database, reader, (now_ns, has_way)))
        });
        database.tidy();
    }
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::{KEY, POLICIES, associations, packet};
    use super::*;
    use crate::testing::Rig;

    const CLEAR: [[u8; 4]; 2] = [[10, 1, 0, 1], [10, 2, 0, 1]];

    fn rig(database: &str, outputs: usize) -> Rig {
        let text =
            format!("d :: IPsecDatabase({database}); i :: TestIn -> e :: IPsecEncrypt(d) -> o0 :: TestOut;");
        Rig::text(&text).outputs(outputs)
    }

    #[test]
    fn policies_decide() {
        let [src, dst] = CLEAR;
        let other = packet([10, 1, 0, 1], [10, 9, 0, 1], 60);
        let inputs: [&[u8]; 4] =
            [&packet(src, dst, 60), &other, &packet(src, [10, 66, 0, 1], 60), &[0x45, 0, 0]];
        let all = format!("{}, {POLICIES}", associations());
        let run = rig(&all, 2).inputs(&inputs).run();
        let [protected] = &run.out("o0")[..] else { panic!("one is protected") };
        assert_eq!((protected.data()[9], protected.dst_ip()), (50, [192, 0, 2, 2]));
        assert!(run.bytes("o1").iter().eq([&other]));
        assert_eq!(run.drops("e"), [(Reason::BadLength, 1), (Reason::PolicyDiscard, 1)]);
        // Without output 1, packets that pass leave with the others.
        assert_eq!(rig(&all, 1).inputs(&inputs).run().out("o0").len(), 2);
    }

    #[test]
    fn order_stays_and_each_output_gets_one_batch() {
        let [src, dst] = CLEAR;
        let id = |number: u8, dst| {
            let mut bytes = packet(src, dst, 60);
            bytes[28] = number;
            bytes
        };
        let dsts = [dst, [10, 9, 0, 1], [10, 66, 0, 1]];
        let inputs: Vec<_> = (0..200u8).map(|at| id(at, dsts[usize::from(at) % 3])).collect();
        let slices: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let all = format!("{}, {POLICIES}", associations());
        let text = format!(
            "d :: IPsecDatabase({all}); i :: TestIn -> e :: IPsecEncrypt(d) -> o0 :: TestOut; e[1] -> o1 :: TestOut;"
        );
        let run = Rig::text(&text).burst(256).inputs(&slices).run();
        let numbers: Vec<u32> =
            run.bytes("o0").iter().map(|esp| u32::from_be_bytes(esp[24..28].try_into().unwrap())).collect();
        assert_eq!(numbers, (1..=67).collect::<Vec<_>>());
        let passed: Vec<u8> = run.bytes("o1").iter().map(|clear| clear[28]).collect();
        assert_eq!(passed, (0..200).filter(|at| at % 3 == 1).collect::<Vec<_>>());
        // Where both leave by one output, they keep their order.
        let run = rig(&all, 1).burst(256).inputs(&slices).run();
        let kinds: Vec<u8> = run.bytes("o0").iter().map(|out| out[9]).collect();
        assert_eq!(kinds, (0..200).filter(|at| at % 3 != 2).map(|at| [50, 17][at % 3]).collect::<Vec<_>>());
    }

    #[test]
    fn a_missing_association_is_asked_for_once() {
        let [src, dst] = CLEAR;
        let clear = packet(src, dst, 60);
        let mut run = rig(POLICIES, 1).inputs(&[&clear, &clear, &clear]).run();
        assert_eq!(run.drops("e"), [(Reason::NoAssociation, 3)]);
        let events = run.read("d.take_events");
        assert_eq!(events.lines().count(), 1, "{events}");
        assert!(events.starts_with(
            "acquire src 10.1.0.1 dst 10.2.0.1 proto udp sport 9 dport 53 policy src 10.1.0.0/16"
        ));
    }

    #[test]
    fn what_does_not_fit_leaves_with_the_length_that_would() {
        let [src, dst] = CLEAR;
        let mut long = packet(src, dst, 1460);
        let fragmentable = long.clone();
        wire::ipv4::HeaderMut::from_slice(&mut long).unwrap();
        long[6] = 0x40;
        let all = format!("{}, {POLICIES}", associations());
        let run = rig(&all, 3).inputs(&[&long, &fragmentable]).run();
        let (too_long, protected) = (run.out("o2"), run.out("o0"));
        assert_eq!((too_long.len(), protected.len()), (1, 1));
        // 1500 - 20 (IP) - 8 (ESP) - 8 (IV) - 16 (ICV) = 1448, whole words, of which two bytes are the trailer's.
        assert_eq!(too_long[0].anno_u32(packet::anno::PATH_MTU), 1446);
        assert!(protected[0].len() > 1500, "to be fragmented behind");
        assert_eq!(rig(&all, 1).inputs(&[&long]).run().drops("e"), [(Reason::MustFragment, 1)]);
    }

    #[test]
    fn transport_mode_makes_packets_longer_too() {
        let hosts = format!(
            "SA src 192.0.2.1 dst 192.0.2.2 spi 0x100 mode transport aead aes-gcm {KEY} 128, POLICY dir out dst 192.0.2.2 tmpl mode transport"
        );
        let of = |len| {
            let mut bytes = packet([192, 0, 2, 1], [192, 0, 2, 2], len);
            bytes[6] = 0x40;
            bytes
        };
        // 1500 - 20 (IP) - 8 (ESP) - 8 (IV) - 16 (ICV) - 2 (trailer) = 1446 bytes of payload, behind a header of 20.
        let mut run = rig(&hosts, 3).inputs(&[&of(1466), &of(1467)]).run();
        let (too_long, protected) = (run.out("o2"), run.out("o0"));
        assert_eq!((protected.len(), protected[0].len()), (1, 1500));
        assert_eq!(too_long[0].anno_u32(packet::anno::PATH_MTU), 1466);
        assert!(run.read("d.sas").contains("bytes 1446 packets 1"), "the header does not count");
    }

    /// What was stripped off a packet is in front of it again, and the order within each output stays.
    #[test]
    fn transport_mode_leaves_apart_with_its_link_header() {
        let sa = |dst, mode, spi| {
            format!("SA src 192.0.2.1 dst {dst} spi {spi} mode {mode} aead aes-gcm {KEY} 128, ")
        };
        let all = sa("192.0.2.2", "transport", "0x100")
            + &sa("192.0.2.3", "tunnel", "0x200")
            + "POLICY dir out dst 192.0.2.2 tmpl mode transport, POLICY dir out dst 10.2.0.0/16 tmpl src 192.0.2.1 dst 192.0.2.3 mode tunnel";
        let frame = |number: u8, dst| [&[number; 14][..], &packet([192, 0, 2, 1], dst, 60)].concat();
        let dsts = [[192, 0, 2, 2], [10, 2, 0, 1], [192, 0, 2, 9]];
        let inputs: Vec<_> = (0..90).map(|at| frame(at, dsts[usize::from(at) % 3])).collect();
        let slices: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let text = |outputs: &str| {
            format!(
                "d :: IPsecDatabase({all}); i :: TestIn -> Strip(14) -> e :: IPsecEncrypt(d) -> o0 :: TestOut; {outputs}"
            )
        };
        let apart = text("e[1] -> o1 :: TestOut; e[2] -> Discard; e[3] -> Unstrip(14) -> o3 :: TestOut;");
        for burst in [1, 32, 256] {
            let run = Rig::text(&apart).burst(burst).inputs(&slices).run();
            assert_eq!([run.out("o0").len(), run.out("o1").len()], [30, 30]);
            let links: Vec<u8> = run.bytes("o3").iter().map(|frame| frame[13]).collect();
            assert_eq!(links, (0..90).step_by(3).collect::<Vec<_>>());
            assert!(run.bytes("o3").iter().all(|frame| (frame[14], frame[14 + 9]) == (0x45, 50)));
        }
        // Without that output, they leave with the others.
        let run = Rig::text(&text("e[1] -> o1 :: TestOut;")).inputs(&slices).run();
        assert_eq!([run.out("o0").len(), run.out("o1").len()], [60, 30]);
    }

    #[test]
    fn the_last_sequence_numbers_are_used() {
        let [src, dst] = CLEAR;
        let clear = packet(src, dst, 60);
        let last = format!(
            "SA src 192.0.2.1 dst 192.0.2.2 spi 0x100 reqid 1 mode tunnel aead aes-gcm {KEY} 128 progress 4294967293 0 0x, {POLICIES}"
        );
        let mut run = rig(&last, 1).inputs(&[&clear, &clear, &clear]).run();
        assert_eq!((run.out("o0").len(), run.drops("e")), (2, vec![(Reason::SequenceExhausted, 1)]));
        assert_eq!(run.read("d.take_events"), "expire dst 192.0.2.2 spi 0x00000100 reqid 1 hard\n");
    }

    #[test]
    fn an_association_ends_with_its_packets() {
        let [src, dst] = CLEAR;
        let clear = packet(src, dst, 60);
        let limited = format!(
            "SA src 192.0.2.1 dst 192.0.2.2 spi 0x100 reqid 1 mode tunnel aead aes-gcm {KEY} 128 limit packet-soft 1 limit packet-hard 2, {POLICIES}"
        );
        let mut run = rig(&limited, 1).burst(1).inputs(&[&clear, &clear, &clear]).run();
        assert_eq!((run.out("o0").len(), run.drops("e")), (2, vec![(Reason::NoAssociation, 1)]));
        let events = run.read("d.take_events");
        let kinds: Vec<&str> = events.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(kinds, ["expire", "expire", "acquire"], "{events}");
    }
}
