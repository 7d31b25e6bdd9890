// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6NDRouterCheck
//!
//! `IP6NDRouterCheck([LABEL, keywords PRINT])`
//!
//! Lets only sound router advertisements pass, prints what they say, and keeps a list of the routers on the link.
//!
//! **Ports:** 1 input, agnostic; output 0 for sound router advertisements; output 1, push, if connected, for all else.
//!
//! **Arguments**
//! * `LABEL` what lines begin with, default the element's name.
//! * `PRINT` boolean, default true: print a line for each sound advertisement.
//!
//! Sound is what passes RFC 4861 section 6.1.2: it comes from a link-local address with hop limit 255, its checksum is right, no option is of length
//! zero. A line shows source, lifetime, hop limit, flags (`M` managed, `O` other, preference), times that are not zero, MTU and prefixes with their
//! flags and times.
//!
//! **Drops:** `bad-hop-limit`, `bad-checksum`, `bad-option`, `bad-discovery`, unless output 1 is connected.
//!
//! **Handlers**
//! * `routers` read: a line for each router whose lifetime has not passed: address, Ethernet address, seconds left. At most
//!   64 are kept, those with most time left.
//! * `count` read: sound advertisements. `drops` read: all else.
//!
//! ```click
//! Idle -> IP6NDRouterCheck(lan) -> Discard;
//! ```
//!
//! See also: IP6NDRouterAdvertiser; RFC 4861 (6.1.2, 6.3.4), RFC 4191, RFC 6104

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv6Addr;

use element::args::Args;
use element::clock::Nanos;
use element::swap::Count;
use element::{Class, Cx, Element, Reason, carries, handlers};
use packet::{Batch, Packet};
use wire::MacAddr;
use wire::ndp::{NdpOption, OptionIter, Repr};

use super::ip6_nd::{self, Heard};

/// The descriptor.
pub const CLASS: Class = Class::new("IP6NDRouterCheck", "1/1-2", || Box::new(RouterCheck::default()))
    .processing("a/ah")
    .serial("what routers announce is compared with one memory of them")
    .handlers(handlers! { RouterCheck:
        read "routers" => |check, cx| check.routers(cx.now());
        read "count" => .sound;
        read "drops" => .bad;
    })
    .hot_swap::<RouterCheck>()
    .file(file!());

/// Routers that are remembered.
const LIMIT: usize = 64;
const SECOND: Nanos = 1_000_000_000;

#[derive(Default)]
struct RouterCheck {
    label: Option<String>,
    print: bool,
    /// By address: Ethernet address, and until when it is a default router.
    routers: BTreeMap<Ipv6Addr, (MacAddr, Nanos)>,
    sound: Count,
    bad: Count,
}

/// A time of a message: 32 bits of seconds, all ones for ever.
fn lasting(seconds: u32) -> String {
    if seconds == u32::MAX { "infinite".into() } else { format!("{seconds}s") }
}

/// A line about an advertisement.
fn line(heard: &Heard<'_>) -> String {
    let mut text = heard.src.to_string();
    if let Repr::RouterAdvert { hop_limit, flags, lifetime_s, reachable_ms, retransmit_ms } = heard.message {
        let _ = write!(text, " lifetime {lifetime_s}s hoplimit {hop_limit}");
        let letters: String =
            [(0x80, 'M'), (0x40, 'O')].iter().filter(|f| flags & f.0 != 0).map(|f| f.1).collect();
        if !letters.is_empty() {
            let _ = write!(text, " flags {letters}");
        }
        match flags & 0x18 {
            0x08 => text += " preference high",
            0x18 => text += " preference low",
            _ => {}
        }
        for (name, ms) in [("reachable", reachable_ms), ("retransmit", retransmit_ms)] {
            if ms != 0 {
                let _ = write!(text, " {name} {ms}ms");
            }
        }
    }
    for option in OptionIter::new(heard.options).map_while(Result::ok) {
        let _ = match option {
            NdpOption::SourceLinkAddr(mac) => write!(text, " ether {mac:#}"),
            NdpOption::Mtu(mtu) => write!(text, " mtu {mtu}"),
            NdpOption::PrefixInfo { prefix, flags, valid_s, preferred_s } => {
                let on_link = if flags & 0x80 != 0 { "L" } else { "" };
                let autonomous = if flags & 0x40 != 0 { "A" } else { "" };
                let none = if flags & 0xc0 == 0 { "-" } else { "" };
                let (valid, preferred) = (lasting(valid_s), lasting(preferred_s));
                write!(
                    text,
                    " prefix {prefix} {on_link}{autonomous}{none} valid {valid} preferred {preferred}"
                )
            }
            _ => Ok(()),
        };
    }
    text
}

impl RouterCheck {
    fn check(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> Result<(), Reason> {
        let heard = ip6_nd::read(packet.data())?;
        let Repr::RouterAdvert { lifetime_s, .. } = heard.message else { return Err(Reason::BadDiscovery) };
        let now = cx.now();
        if lifetime_s == 0 {
            self.routers.remove(&heard.src);
        } else {
            let until = now + Nanos::from(lifetime_s) * SECOND;
            self.routers.insert(heard.src, (heard.source_mac.unwrap_or(heard.eth_src), until));
            self.routers.retain(|_, (_, until)| *until > now);
            if self.routers.len() > LIMIT
                && let Some(first) =
                    self.routers.iter().min_by_key(|(_, (_, until))| *until).map(|(ip, _)| *ip)
            {
                self.routers.remove(&first);
            }
        }
        if self.print {
            let label = self.label.as_deref().unwrap_or(cx.name());
            cx.print(&format!("{label}: {}", line(&heard)));
        }
        Ok(())
    }
}

impl RouterCheck {
    fn routers(&self, now: Nanos) -> String {
        let alive = self.routers.iter().filter(|(_, (_, until))| *until > now);
        alive.map(|(ip, (mac, until))| format!("{ip} {mac:#} {}\n", (until - now) / SECOND)).collect()
    }
}

impl Element for RouterCheck {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.label = args.positional_opt("LABEL");
        self.print = args.keyword("PRINT", true);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let mut sound = Batch::new();
        for packet in batch.drain(..) {
            match self.check(cx, &packet) {
                Ok(()) => {
                    self.sound += 1;
                    sound.push(packet);
                }
                Err(why) => {
                    self.bad += 1;
                    cx.push_one_or_drop(1, packet, why);
                }
            }
        }
        sound
    }
}

carries!(RouterCheck: routers, sound, bad; anew label, print);

#[cfg(test)]
mod tests {
    use super::super::ip6_nd::tests::{PEER, from_peer};
    use super::*;
    use crate::testing::Rig;

    fn advert(src: &str, flags: u8, lifetime_s: u16, more: &[u8]) -> Vec<u8> {
        let options = [&NdpOption::link_addr_bytes(false, PEER)[..], more].concat();
        let message =
            Repr::RouterAdvert { hop_limit: 64, flags, lifetime_s, reachable_ms: 0, retransmit_ms: 1000 };
        from_peer(src, "ff02::1", message, &options)
    }

    #[test]
    fn prints_and_remembers() {
        let prefix =
            [&[3, 4, 64, 0x40, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 8, 0, 0, 0, 0, 0xfd][..], &[0; 15]].concat();
        let mtu = [5, 1, 0, 0, 0, 0, 5, 0xdc];
        let mut run = Rig::new("IP6NDRouterCheck(lan)")
            .inputs(&[
                &advert("fe80::9", 0xc8, 1800, &[&mtu[..], &prefix].concat()),
                &advert("fe80::8", 0x18, 600, &[]),
                &advert("fe80::7", 0, 600, &[]),
                &advert("fe80::7", 0, 0, &[]),
            ])
            .run();
        let printed = run.printed();
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(
            lines[0],
            "lan: fe80::9 lifetime 1800s hoplimit 64 flags MO preference high retransmit 1000ms \
             ether 02-00-00-00-00-09 mtu 1500 prefix fd00::/64 A valid infinite preferred 8s"
        );
        assert!(lines[1].contains("preference low") && lines.len() == 4);
        assert_eq!(run.read("e.routers"), "fe80::8 02-00-00-00-00-09 600\nfe80::9 02-00-00-00-00-09 1800\n");
        assert_eq!((run.bytes("o0").len(), run.read("e.count").as_str()), (4, "4"));
    }

    #[test]
    fn unsound_ones_are_dropped_by_name() {
        let good = advert("fe80::9", 0, 1800, &[]);
        let mut far = good.clone();
        far[21] = 64;
        let mut damaged = good.clone();
        damaged[60] ^= 1;
        let global = advert("2001:db8::9", 0, 1800, &[]);
        let empty = advert("fe80::9", 0, 1800, &[9, 0, 0, 0, 0, 0, 0, 0]);
        let inputs: [&[u8]; 5] = [&far, &damaged, &global, &empty, b"x"];
        let mut run = Rig::new("IP6NDRouterCheck(PRINT false)").inputs(&inputs).run();
        let want = [
            (Reason::BadChecksum, 1),
            (Reason::BadOption, 1),
            (Reason::BadHopLimit, 1),
            (Reason::BadDiscovery, 2),
        ];
        assert_eq!((run.drops("e"), run.read("e.drops").as_str()), (want.to_vec(), "5"));
        let run = Rig::new("IP6NDRouterCheck(PRINT false)").outputs(2).inputs(&inputs).run();
        assert_eq!((run.bytes("o1").len(), run.printed()), (5, String::new()));
    }

    #[test]
    fn the_list_is_bounded() {
        let frames: Vec<Vec<u8>> =
            (1..=100u16).map(|n| advert(&format!("fe80::{n:x}"), 0, 1000 + n, &[])).collect();
        let inputs: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let mut run = Rig::new("IP6NDRouterCheck").inputs(&inputs).run();
        let routers = run.read("e.routers");
        assert_eq!((routers.lines().count(), routers.contains("fe80::64 ")), (64, true));
    }
}
