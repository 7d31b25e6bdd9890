// SPDX-License-Identifier: MIT OR Apache-2.0
//! scapy builds packets of every protocol and says what they mean; our views must say the same.
//!
//! Needs a Python that can import scapy: `python3`, or the one that `JUNCTOR_PYTHON` names. Without it the test says so and
//! passes.

use std::process::Command;

use junctor_wire::ipv4::Ipv4Option;
use junctor_wire::ndp::{self, NdpOption};
use junctor_wire::tcp::TcpOption;
use junctor_wire::{
    EtherType, Protocol, arp, ethernet, gre, icmpv4, icmpv6, igmp, ipv4, ipv6, llc, stp, tcp, udp, vlan,
};

const PACKETS: usize = 300;

/// The fields found, in scapy's terms.
#[derive(Default)]
struct Meaning(Vec<String>);

impl Meaning {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push(format!("{name}={value}"));
    }

    fn frame(&mut self, frame: &[u8]) {
        let view = ethernet::View::new_checked(frame).unwrap();
        self.add("eth.dst", view.dst());
        self.add("eth.src", view.src());
        self.add("eth.type", view.ethertype().0);
        let mut payload = view.payload();
        let mut ethertype = view.ethertype();
        let layer = ethernet::network_layer(frame).unwrap();
        for tag in [layer.outer, layer.inner].into_iter().flatten() {
            let view = vlan::View::new_checked(payload).unwrap();
            assert_eq!(view.tag(), tag);
            self.add("vlan.id", tag.id());
            self.add("vlan.priority", tag.priority());
            self.add("vlan.dei", u8::from(tag.drop_eligible()));
            self.add("vlan.type", view.ethertype().0);
            (payload, ethertype) = (&payload[vlan::HEADER_LEN..], view.ethertype());
        }
        assert_eq!((ethertype, payload), (layer.ethertype, &frame[layer.offset..]));
        match ethertype {
            EtherType::IPV4 => self.ipv4(payload),
            EtherType::IPV6 => self.ipv6(payload),
            EtherType::ARP => self.arp(payload),
            other if other.is_length() && view.dst() == stp::GROUP => self.stp(frame),
            other if other.is_length() => {
                let repr = llc::Repr::parse(&llc::View::new_checked(payload).unwrap()).unwrap();
                let [a, b, c] = repr.oui;
                self.add("snap.oui", u32::from_be_bytes([0, a, b, c]));
                self.add("snap.type", repr.ethertype.0);
            }
            _ => {}
        }
    }

    fn stp(&mut self, frame: &[u8]) {
        let payload = stp::payload_of_frame(frame).unwrap();
        let view = stp::View::new_checked(payload).unwrap();
        let bpdu = stp::Bpdu::parse(&view).unwrap();
        let mut emitted = vec![0; bpdu.len()];
        bpdu.emit(&mut emitted).unwrap();
        assert_eq!(emitted, payload);
        let (stp::Bpdu::Config(message) | stp::Bpdu::Rst(message)) = bpdu else { panic!("{bpdu}") };
        self.add("stp.version", view.version());
        self.add("stp.type", view.kind());
        self.add("stp.flags", message.flags.bits());
        self.add("stp.root", message.root.priority);
        self.add("stp.rootmac", message.root.address);
        self.add("stp.cost", message.root_path_cost);
        self.add("stp.bridge", message.bridge.priority);
        self.add("stp.bridgemac", message.bridge.address);
        self.add("stp.port", message.port);
        self.add("stp.age", message.message_age.round_secs());
        self.add("stp.max", message.max_age.round_secs());
        self.add("stp.hello", message.hello_time.round_secs());
        self.add("stp.delay", message.forward_delay.round_secs());
    }

    fn arp(&mut self, payload: &[u8]) {
        let arp = arp::Repr::parse(&arp::View::new_checked(payload).unwrap());
        self.add("arp.op", arp.operation.0);
        self.add("arp.hwsrc", arp.sender_mac);
        self.add("arp.psrc", arp.sender_ip);
        self.add("arp.hwdst", arp.target_mac);
        self.add("arp.pdst", arp.target_ip);
    }

    fn ipv4(&mut self, payload: &[u8]) {
        let view = ipv4::View::new_checked(payload).unwrap();
        assert!(view.checksum_ok());
        self.add("ip.src", view.src());
        self.add("ip.dst", view.dst());
        self.add("ip.proto", view.protocol().0);
        self.add("ip.ttl", view.ttl());
        self.add("ip.tos", view.tos());
        self.add("ip.id", view.id());
        self.add("ip.length", view.total_len());
        self.add("ip.checksum", view.checksum());
        self.add("ip.words", view.header_len() / 4);
        self.add("ip.df", u8::from(view.dont_fragment()));
        self.add("ip.mf", u8::from(view.more_fragments()));
        self.add("ip.offset", view.fragment_offset());
        let (segment, src, mut dst) = (view.payload(), view.src(), view.dst());
        for option in view.options() {
            let (number, route) = match option.unwrap().1 {
                Ipv4Option::RecordRoute(route) => (7, route),
                Ipv4Option::LooseSourceRoute(route) => (3, route),
                Ipv4Option::StrictSourceRoute(route) => (9, route),
                _ => continue,
            };
            let addresses: String = route.addresses().map(|a| format!("/{a}")).collect();
            self.add("ip.route", format!("{number}/{}{addresses}", route.pointer));
            if number != 7 {
                // The pseudo-header of a source-routed packet holds the final destination.
                dst = route.addresses().last().unwrap_or(dst);
            }
        }
        match view.protocol() {
            _ if !view.is_first_fragment() => {}
            Protocol::UDP => {
                assert!(udp::View::new_checked(segment).unwrap().checksum_ok_v4(src, dst));
                self.udp(segment);
            }
            Protocol::TCP => {
                assert!(tcp::View::new_checked(segment).unwrap().checksum_ok_v4(src, dst));
                self.tcp(segment);
            }
            Protocol::ICMP => self.icmpv4(segment),
            Protocol::GRE => self.gre(segment),
            Protocol::IGMP => self.igmp(segment),
            other => panic!("the script makes no {other}"),
        }
    }

    fn udp(&mut self, segment: &[u8]) {
        let view = udp::View::new_checked(segment).unwrap();
        self.add("udp.sport", view.src_port());
        self.add("udp.dport", view.dst_port());
        self.add("udp.length", view.length());
        self.add("udp.checksum", view.checksum());
    }

    fn tcp(&mut self, segment: &[u8]) {
        let view = tcp::View::new_checked(segment).unwrap();
        self.add("tcp.sport", view.src_port());
        self.add("tcp.dport", view.dst_port());
        self.add("tcp.seq", view.seq());
        self.add("tcp.ack", view.ack());
        self.add("tcp.window", view.window());
        self.add("tcp.urgent", view.urgent());
        self.add("tcp.checksum", view.checksum());
        self.add("tcp.flags", view.flags().0);
        self.add("tcp.words", view.header_len() / 4);
        for option in view.options() {
            match option.unwrap().1 {
                TcpOption::MaxSegmentSize(mss) => self.add("tcp.MSS", mss),
                TcpOption::WindowScale(shift) => self.add("tcp.WScale", shift),
                TcpOption::Timestamps { value, echo } => self.add("tcp.Timestamp", format!("{value}/{echo}")),
                TcpOption::SackPermitted => self.add("tcp.SAckOK", 1),
                _ => {}
            }
        }
    }

    fn icmpv4(&mut self, segment: &[u8]) {
        let view = icmpv4::View::new_checked(segment).unwrap();
        assert!(view.checksum_ok());
        self.add("icmp.type", view.kind().0);
        self.add("icmp.code", view.code());
        self.add("icmp.checksum", view.checksum());
        if view.kind().is_sequenced() {
            self.add("icmp.id", view.identifier());
            self.add("icmp.seq", view.sequence());
        }
        if view.kind().is_error() {
            assert!(view.quoted().unwrap().checksum_ok());
        }
        match icmpv4::Repr::parse(&view) {
            icmpv4::Repr::Timestamp { originate_ms, receive_ms, transmit_ms, .. } => {
                self.add("icmp.originate", originate_ms);
                self.add("icmp.receive", receive_ms);
                self.add("icmp.transmit", transmit_ms);
            }
            icmpv4::Repr::Mask { mask, .. } => self.add("icmp.mask", mask),
            icmpv4::Repr::Redirect { gateway, .. } => self.add("icmp.gateway", gateway),
            icmpv4::Repr::ParameterProblem { pointer, .. } => self.add("icmp.pointer", pointer),
            icmpv4::Repr::Unreachable { next_hop_mtu, .. } => self.add("icmp.mtu", next_hop_mtu),
            _ => {}
        }
    }

    fn gre(&mut self, segment: &[u8]) {
        let view = gre::View::new_checked(segment).unwrap();
        assert!(view.checksum_ok());
        self.add("gre.proto", view.protocol().0);
        if let Some(key) = view.key() {
            self.add("gre.key", key);
        }
        if let Some(sequence) = view.sequence() {
            self.add("gre.seq", sequence);
        }
        if view.flags() & gre::FLAG_CHECKSUM != 0 {
            self.add("gre.checksum", u16::from_be_bytes([segment[4], segment[5]]));
        }
    }

    fn igmp(&mut self, segment: &[u8]) {
        let view = igmp::View::new_checked(segment).unwrap();
        assert!(view.checksum_ok());
        self.add("igmp.type", view.kind());
        self.add("igmp.max", view.max_response());
        self.add("igmp.group", view.group());
        self.add("igmp.checksum", view.checksum());
    }

    fn ipv6(&mut self, payload: &[u8]) {
        let view = ipv6::View::new_checked(payload).unwrap();
        self.add("ip6.src", view.src());
        self.add("ip6.dst", view.dst());
        self.add("ip6.tc", view.traffic_class());
        self.add("ip6.fl", view.flow_label());
        self.add("ip6.next", view.next_header().0);
        self.add("ip6.hlim", view.hop_limit());
        self.add("ip6.length", view.payload_len());
        let upper = view.upper_layer().unwrap();
        if let Some(fragment) = upper.fragment {
            self.add("frag6.id", fragment.id);
            self.add("frag6.more", u8::from(fragment.more));
            self.add("frag6.offset", fragment.offset);
        }
        // scapy computes no checksum over a fragment that means anything.
        let whole = upper.fragment.is_none();
        let (segment, src, dst) = (&view.payload()[upper.offset..], view.src(), view.dst());
        match upper.protocol {
            _ if upper.fragment.is_some_and(|f| f.offset != 0) => {}
            Protocol::UDP => {
                assert!(!whole || udp::View::new_checked(segment).unwrap().checksum_ok_v6(src, dst));
                self.udp(segment);
            }
            Protocol::TCP => {
                assert!(!whole || tcp::View::new_checked(segment).unwrap().checksum_ok_v6(src, dst));
                self.tcp(segment);
            }
            Protocol::ICMPV6 => {
                let icmp = icmpv6::View::new_checked(segment).unwrap();
                assert!(icmp.checksum_ok(src, dst));
                self.icmpv6(icmp);
            }
            other => panic!("the script makes no {other}"),
        }
    }

    fn icmpv6(&mut self, view: icmpv6::View<&[u8]>) {
        self.add("icmp6.type", view.kind().0);
        self.add("icmp6.code", view.code());
        self.add("icmp6.checksum", view.checksum());
        match view.kind() {
            icmpv6::Type::ECHO | icmpv6::Type::ECHO_REPLY => {
                self.add("icmp6.id", view.identifier());
                self.add("icmp6.seq", view.sequence());
            }
            icmpv6::Type::PACKET_TOO_BIG => self.add("icmp6.mtu", view.rest()),
            _ => {}
        }
        match ndp::Repr::parse(&view) {
            Ok(ndp::Repr::NeighborSolicit { target } | ndp::Repr::NeighborAdvert { target, .. }) => {
                self.add("icmp6.target", target);
            }
            Ok(ndp::Repr::RouterAdvert { hop_limit, lifetime_s, reachable_ms, retransmit_ms, .. }) => {
                self.add("icmp6.hlim", hop_limit);
                self.add("icmp6.lifetime", lifetime_s);
                self.add("icmp6.reachable", reachable_ms);
                self.add("icmp6.retransmit", retransmit_ms);
            }
            _ => {}
        }
        for option in ndp::OptionIter::of(&view) {
            match option.unwrap() {
                NdpOption::SourceLinkAddr(mac) => {
                    self.add("opt.kind", 1);
                    self.add("opt.lladdr", mac);
                }
                NdpOption::TargetLinkAddr(mac) => {
                    self.add("opt.kind", 2);
                    self.add("opt.lladdr", mac);
                }
                NdpOption::PrefixInfo { prefix, valid_s, preferred_s, .. } => {
                    self.add("opt.prefix", prefix.addr());
                    self.add("opt.prefixlen", prefix.prefix_len());
                    self.add("opt.valid", valid_s);
                    self.add("opt.preferred", preferred_s);
                }
                NdpOption::Mtu(mtu) => self.add("opt.mtu", mtu),
                other => panic!("the script makes no {other:?}"),
            }
        }
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |b: u8| (b as char).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[test]
fn agrees_with_scapy() {
    let python = std::env::var("JUNCTOR_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scapy_packets.py");
    let output = match Command::new(&python).args([script, &PACKETS.to_string()]).output() {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: {python} does not start: {error}"),
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        return eprintln!("skipped: {stderr}");
    }
    assert!(output.status.success(), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), PACKETS);
    for line in text.lines() {
        let (frame, expected) = line.split_once('\t').unwrap();
        let mut expected: Vec<&str> = expected.split(';').collect();
        let mut meaning = Meaning::default();
        meaning.frame(&from_hex(frame));
        expected.sort_unstable();
        meaning.0.sort_unstable();
        assert_eq!(meaning.0, expected, "{frame}");
    }
}
