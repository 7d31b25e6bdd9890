// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said about packets between a router and those who see them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{SystemTime, UNIX_EPOCH};

use packet::{Packet, anno};
use serde::{Deserialize, Serialize};
use wire::fields::{Field, First, fields, hex, looks_like_ip};

/// What a command wants of a router.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum Order {
    /// Say what would become of a packet.
    Try {
        /// Its bytes in hexadecimal.
        bytes: String,
        /// Whether they begin with an IP header.
        ip: bool,
        /// Before which input of an element, or behind which source: `ELEMENT` or `ELEMENT:PORT`.
        at: Option<String>,
    },
    /// Follow packets.
    Trace {
        /// Which: a filter expression.
        filter: String,
        /// Before which input, or all inputs of which element; behind all sources if that is not said.
        at: Option<String>,
        /// How many.
        count: u64,
    },
    /// Capture packets.
    Capture(Capture),
    /// Fetch what was seen.
    More {
        /// Of this session.
        session: u64,
    },
    /// End a session; what was seen until then can be fetched until its end is reported.
    Stop {
        /// The session.
        session: u64,
    },
}

/// Which packets to capture.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Capture {
    /// At which elements, and their ports: `ELEMENT` or `ELEMENT:PORT`.
    pub points: Vec<String>,
    /// What comes in there.
    pub inputs: bool,
    /// What goes out.
    pub outputs: bool,
    /// What is dropped anywhere, for this reason, or for any if it is empty.
    pub drops: Option<String>,
    /// A filter expression.
    pub filter: String,
    /// Bytes of a packet that are wanted.
    pub snap: usize,
    /// How many packets, if not all that come.
    pub count: Option<u64>,
    /// For how long, if not until its end is asked for.
    pub time_ns: Option<u64>,
}

/// A line from the router.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum Line {
    /// A session has started.
    Session {
        /// Its key.
        session: u64,
    },
    /// Something happened to a packet.
    Step(Step),
    /// All copies of a packet have come to an end.
    Done {
        /// The packet.
        packet: u64,
    },
    /// A copy of a packet has not come to an end.
    Left {
        /// The packet.
        packet: u64,
        /// What is known of it.
        place: String,
    },
    /// Packets that match are passed over from now on, because as many as can be are being followed.
    Full {
        /// How many of these are others' who follow packets.
        others: u32,
        /// And how many were still in the router when the session that followed them ended.
        left: u32,
    },
    /// Packets come from a place that was not reported before.
    Interface {
        /// Its number, from 0.
        interface: u32,
        /// The place: `[0]q` is input 0 of q, `q[0]` its output.
        name: String,
        /// Whether its packets begin with an IP header.
        ip: bool,
    },
    /// A captured packet.
    Packet {
        /// Where.
        interface: u32,
        /// In nanoseconds since the epoch.
        time_ns: u64,
        /// Its length in bytes.
        len: u64,
        /// Its bytes in hexadecimal, as far as they are wanted.
        bytes: String,
        /// Whether it came in, or else went out.
        inbound: Option<bool>,
        /// What there is to say about it.
        comment: String,
    },
    /// Packets of an interface were seen and not reported.
    Lost {
        /// The interface.
        interface: u32,
        /// How many.
        lost: u64,
    },
    /// Something that the observer has to know.
    Note {
        /// It.
        text: String,
    },
    /// The session is over.
    End {
        /// What was seen and not said, because nobody fetched it in time.
        lost: u64,
        /// Packets that were to be followed when the most that can be were; or dropped packets that were not at hand to be captured.
        passed_over: u64,
    },
}

/// Something that happened to a packet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Which of the packets, from 1.
    pub packet: u64,
    /// Distinguishes copies, from 1 for each packet.
    pub copy: u64,
    /// In nanoseconds since the epoch.
    pub time_ns: u64,
    /// Number of the worker.
    pub worker: usize,
    /// Name of the element.
    pub element: String,
    /// Its class.
    pub class: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
    /// The packet as it was then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<State>,
    /// The route that it has followed, if a control plane knows it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub route: Option<serde_json::Value>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// It came in.
    Input {
        /// By this input.
        port: usize,
    },
    /// It went out.
    Output {
        /// By this output.
        port: usize,
        /// To this element.
        to: String,
        /// By this input of it.
        to_port: usize,
        /// Which has fetched it.
        pulled: bool,
        /// The element has made it.
        made: bool,
        /// What there is to say about it, mostly nothing.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        note: String,
    },
    /// It was dropped.
    Dropped {
        /// For this reason.
        reason: String,
    },
    /// The element keeps it.
    Held {
        /// Why and how.
        note: String,
    },
    /// It ended in what the element has made of it.
    Replaced,
    /// The element is done with it.
    Taken {
        /// How.
        note: String,
    },
    /// What would come of it is not known.
    Unknown {
        /// Why.
        note: String,
    },
}

/// A packet as it is at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Its bytes in hexadecimal.
    pub bytes: String,
    /// Whether they begin with an IP header.
    pub ip: bool,
    /// Annotations that are set, by name.
    pub annotations: Vec<(String, String)>,
}

/// With what a packet begins, as far as its header positions or else its bytes tell.
pub fn first(packet: &Packet) -> First {
    match (packet.network_offset(), packet.mac_offset()) {
        (Some(0), _) => First::Ip,
        (_, Some(0)) => First::Ethernet,
        // Right behind a link header without tags, with one or with two: what stands there may be malformed.
        (None, Some(-14 | -18 | -22)) => First::Ip,
        _ if looks_like_ip(packet.data()) => First::Ip,
        _ => First::Ethernet,
    }
}

impl State {
    /// The packet as it is now.
    pub fn of(packet: &Packet) -> State {
        let ip = first(packet) == First::Ip;
        State { bytes: hex(packet.data()), ip, annotations: annotations(packet) }
    }

    /// Its fields with its annotations.
    pub fn fields(&self) -> Vec<Field> {
        let bytes = wire::compose::from_hex(&self.bytes).unwrap_or_default();
        let mut all = fields(&bytes, if self.ip { First::Ip } else { First::Ethernet });
        let names = ANNOTATIONS.iter();
        all.extend(names.map(|name| {
            let value = self.annotations.iter().find(|(n, _)| n == name);
            Field { name, nth: 0, value: value.map_or("none".to_owned(), |(_, value)| value.clone()) }
        }));
        all
    }
}

const ANNOTATIONS: [&str; 10] = [
    "anno.dst_ip",
    "anno.paint",
    "anno.fix_ip_src",
    "anno.vlan_tci",
    "anno.icmp_param_problem",
    "anno.aggregate",
    "anno.extra_length",
    "anno.sequence",
    "anno.device",
    "anno.packet_type",
];

/// Annotations that say something.
fn annotations(packet: &Packet) -> Vec<(String, String)> {
    let address: [u8; 16] = packet.anno(anno::DST_IP);
    let dst_ip = match address.split_first_chunk::<4>() {
        Some((four, rest)) if rest.iter().all(|b| *b == 0) => {
            if *four == [0; 4] {
                String::new()
            } else {
                Ipv4Addr::from(*four).to_string()
            }
        }
        _ => Ipv6Addr::from(address).to_string(),
    };
    let number = |n: u64| if n == 0 { String::new() } else { n.to_string() };
    let kind = match packet.packet_type() {
        packet::PacketType::Host => String::new(),
        other => format!("{other:?}").to_lowercase(),
    };
    // In Click, too, the mark for FixIPSrc and the tag's first byte are one.
    let (fix_ip_src, vlan_tci) = match u16::from_be_bytes(packet.anno(anno::VLAN_TCI)) {
        0x0100 => ("1 (or vlan_tci 256)".to_owned(), String::new()),
        tci => (String::new(), number(tci.into())),
    };
    let values = [
        dst_ip,
        number(packet.paint().into()),
        fix_ip_src,
        vlan_tci,
        number(packet.anno_u8(anno::ICMP_PARAM_PROBLEM).into()),
        number(packet.anno_u32(anno::AGGREGATE).into()),
        number(packet.anno_u32(anno::EXTRA_LENGTH).into()),
        number(packet.anno_u32(anno::SEQUENCE).into()),
        number(packet.device().into()),
        kind,
    ];
    let named = ANNOTATIONS.iter().zip(values).filter(|(_, value)| !value.is_empty());
    named.map(|(name, value)| ((*name).to_owned(), value)).collect()
}

/// A packet in one line.
pub fn summary(bytes: &[u8], ip: bool) -> String {
    let line = match (ip, bytes.first().map(|b| b >> 4)) {
        (false, _) => wire::dump::frame_summary(bytes),
        (true, Some(6)) => wire::dump::ip6_summary(bytes),
        (true, _) => wire::dump::ip_summary(bytes),
    };
    format!("{line} ({} bytes)", bytes.len())
}

/// What is said about a packet that an element has dropped.
pub fn dropped(element: &str, reason: engine::Reason) -> String {
    format!("dropped by {element}: {reason}: {}", reason.text())
}

/// Nanoseconds since the epoch.
pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64)
}

/// The time of day, universal time.
pub fn clock(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{h:02}:{m:02}:{s:02}.{:09}", ns % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_with_two_meanings_is_told_by_both() {
        let mut packet = Packet::copy_of(&[0; 60]).expect("a packet");
        let of = |packet: &Packet| annotations(packet).pop().map(|(name, value)| format!("{name} {value}"));
        assert_eq!(of(&packet), None);
        packet.set_anno_u8(anno::FIX_IP_SRC, 1);
        assert_eq!(of(&packet).as_deref(), Some("anno.fix_ip_src 1 (or vlan_tci 256)"));
        packet.set_anno(anno::VLAN_TCI, 0x0107_u16.to_be_bytes());
        assert_eq!(of(&packet).as_deref(), Some("anno.vlan_tci 263"));
    }

    #[test]
    fn what_stands_behind_a_link_header_is_ip_even_if_it_is_malformed() {
        let mut packet = Packet::copy_of(&[0; 60]).expect("a packet");
        packet.set_mac_offset(0);
        assert_eq!(first(&packet), First::Ethernet);
        packet.strip(12);
        assert_eq!(first(&packet), First::Ethernet);
        for tag in [2, 4, 4] {
            packet.strip(tag);
            assert_eq!(first(&packet), First::Ip, "{:?}", packet.mac_offset());
        }
        // Nobody knows.
        assert_eq!(first(&Packet::copy_of(&[0; 60]).expect("a packet")), First::Ethernet);
    }
}
