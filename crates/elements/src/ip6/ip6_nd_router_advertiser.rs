// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IP6NDRouterAdvertiser
//!
//! `IP6NDRouterAdvertiser(IP, ETH [, keywords PREFIX, MTU, LIFETIME, MAX_INTERVAL, MIN_INTERVAL, HOP_LIMIT, MANAGED,`
//! `OTHER, PREFERENCE, REACHABLE_TIME, RETRANS_TIMER, ACTIVE, FOLLOW, PREF64])`
//!
//! Announces to the hosts on a link that this is a router, and how they are to get their addresses.
//!
//! **Ports:** 0 or 1 push input, for router solicitations with their Ethernet header; 1 push output, for advertisements.
//!
//! **Arguments**
//! * `IP` this router's link-local address on the link. `ETH` its Ethernet address.
//! * `PREFIX` a prefix of the link, `IP6/LENGTH [VALID [PREFERRED [FLAGS]]]`, may be repeated. VALID and PREFERRED are times,
//!   by default 30 and 7 days, or `infinite`. FLAGS are letters: `L`, addresses of it are on the link; `A`, hosts may make
//!   themselves addresses of it; default `LA`, and `-` for none.
//! * `MTU` the link's MTU in bytes, default 0: not said.
//! * `FOLLOW` elements with devices, as FromDevice or ToHost, separated by spaces. Where MTU is said, it is the lowest that these have at
//!   the moment, and 1,280 at least.
//! * `LIFETIME` how long hosts may take this router as default, default three times MAX_INTERVAL; 0 for a router that is
//!   none for them, at most 9000 s.
//! * `MAX_INTERVAL`, `MIN_INTERVAL` longest and shortest time between advertisements that nobody asked for, between which it is
//!   drawn: default 600 s, 4 to 1800 s, and a third of the longest, at least 3 s.
//! * `HOP_LIMIT` what hosts should use, default 64; 0: not said.
//! * `MANAGED`, `OTHER` booleans, default false: addresses, or other things, come by DHCPv6.
//! * `PREFERENCE` among routers: `low`, `medium` (default) or `high`.
//! * `REACHABLE_TIME`, `RETRANS_TIMER` times that hosts should use in neighbour discovery, default 0: not said.
//! * `PREF64` a prefix behind which hosts reach IPv4 addresses by a NAT64 (RFC 8781), `IP6/LENGTH`, of 96, 64, 56, 48, 40 or 32 bits. It lasts as long as
//!   LIFETIME, or three times MAX_INTERVAL where that is 0.
//! * `ACTIVE` boolean, default true: whether to advertise from the start.
//!
//! The first three advertisements come at most 16 s apart. A solicitation is answered to all nodes, after up to half a second, but
//! not sooner than 3 s after the last advertisement.
//!
//! **Drops:** `bad-hop-limit`, `bad-checksum`, `bad-option`, `bad-discovery`; `inactive`; `no-memory` is not counted, the next
//! advertisement comes in time. Solicitations, once read, count as `discarded`.
//!
//! **Handlers**
//! * `sent` read: advertisements sent. `solicitations` read: solicitations taken.
//! * `active` read/write: whether it advertises. Who writes false makes it take leave with an advertisement of lifetime 0.
//!
//! ```click
//! ra :: IP6NDRouterAdvertiser(fe80::1, 2:0:0:0:0:1, PREFIX 2001:db8::/64, PREFIX 2001:db8:1::/64 1h 1h L, MTU 1500);
//! Idle -> c :: Classifier(12/86dd 20/3a 54/85, -) -> ra -> Discard;
//! c[1] -> Discard;
//! ```
//!
//! See also: IP6NDRouterCheck, IP6NDAdvertiser, NAT64; RFC 4861 (6.2), RFC 4191, RFC 8781

use std::net::Ipv6Addr;

use element::args::{Args, FromArg, Names};
use element::clock::Nanos;
use element::swap::Count;
use element::{Class, Cx, Element, InitCx, OpenCx, Reason, Tasks, carries, handlers};
use nat::Prefix64;
use packet::Batch;
use wire::ndp::{NdpOption, Repr};
use wire::{AddrPrefix6, MacAddr, Prefix6};

use super::Address;
use super::ip6_nd::{self, ALL_NODES};
use crate::io::mtu::LinkMtu;
use crate::tools::{boolean, time_ns};

/// The descriptor.
pub const CLASS: Class =
    Class::new("IP6NDRouterAdvertiser", "0-1/1", || Box::new(RouterAdvertiser::default()))
        .processing("h/h")
        .flow("x/y")
        .serial("advertisements leave by one schedule")
        .handlers(handlers! { RouterAdvertiser:
            read "sent" => .sent;
            read "solicitations" => .solicitations;
            both "active" => .active |advertiser, cx, active: &str| {
                let active = boolean("active", active.trim())?;
                advertiser.set_active(cx, active);
            };
        })
        .hot_swap::<RouterAdvertiser>()
        .file(file!());

const SECOND: Nanos = 1_000_000_000;
/// RFC 4861 section 10.
const MAX_INITIAL_INTERVAL: Nanos = 16 * SECOND;
const MAX_INITIAL_ADVERTISEMENTS: u32 = 3;
const MAX_DELAY: Nanos = SECOND / 2;
const MIN_DELAY_BETWEEN: Nanos = 3 * SECOND;
const MAX_LIFETIME_S: u64 = 9000;

/// The timer for the next advertisement.
const NEXT: u32 = 0;
/// The timer by which links are looked at.
const LOOK: u32 = 1;
/// Every link carries packets of this length (RFC 8200, 5).
const MTU_MIN: usize = 1280;
/// Where the MTU stands in the options.
const MTU_AT: usize = 12;

/// What an advertisement says of one prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PrefixInfo {
    prefix: Prefix6,
    valid_s: u32,
    preferred_s: u32,
    flags: u8,
}

impl FromArg for PrefixInfo {
    const EXPECTED: &'static str = "IP6/LENGTH [VALID [PREFERRED [FLAGS]]]";

    fn from_arg(text: &str, names: &Names) -> Result<Self, String> {
        let words = lang::config::split_words(text);
        let mut words = words.iter().copied();
        let word = words.next().ok_or_else(String::new)?;
        let prefix = Prefix6::from_arg(word, names)
            .or_else(|e| word.parse().map(AddrPrefix6::prefix).map_err(|_| e))?;
        let mut seconds = |default: u32| match words.next() {
            None => Ok(default),
            Some("infinite") => Ok(u32::MAX),
            Some(text) => {
                let time = std::time::Duration::from_arg(text, names)?;
                u32::try_from(time.as_secs()).map_err(|_| "a time is too long".to_owned())
            }
        };
        let valid_s = seconds(30 * 86_400)?;
        let preferred_s = seconds(valid_s.min(7 * 86_400))?;
        let mut flags = 0;
        for letter in words.next().unwrap_or("LA").chars() {
            flags |= match letter {
                'L' => 0x80,
                'A' => 0x40,
                '-' => 0,
                _ => return Err(format!("there is no flag {letter}")),
            };
        }
        if words.next().is_some() {
            return Err(String::new());
        } else if preferred_s > valid_s {
            return Err("PREFERRED is longer than VALID".into());
        } else if prefix.addr().is_unicast_link_local() || prefix.addr().is_multicast() {
            return Err("it is link-local or multicast".into());
        }
        Ok(PrefixInfo { prefix, valid_s, preferred_s, flags })
    }
}

/// Of several default routers, which one hosts should take (RFC 4191).
#[derive(Clone, Copy)]
struct Preference(u8);

impl FromArg for Preference {
    const EXPECTED: &'static str = "low, medium or high";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        Ok(Preference(match text {
            "low" => 0x18,
            "medium" => 0,
            "high" => 0x08,
            _ => return Err(String::new()),
        }))
    }
}

struct RouterAdvertiser {
    ip: Ipv6Addr,
    mac: MacAddr,
    message: Repr,
    options: Vec<u8>,
    /// What the options say, or nothing.
    mtu: u32,
    follow: LinkMtu,
    max_interval: Nanos,
    min_interval: Nanos,
    active: bool,
    /// How many of the first, more frequent ones are left.
    initial: u32,
    last: Option<Nanos>,
    sent: Count,
    solicitations: Count,
}

impl Default for RouterAdvertiser {
    fn default() -> Self {
        RouterAdvertiser {
            ip: Ipv6Addr::UNSPECIFIED,
            mac: MacAddr::ZERO,
            message: Repr::RouterSolicit,
            options: Vec::new(),
            mtu: 0,
            follow: LinkMtu::default(),
            max_interval: 600 * SECOND,
            min_interval: 200 * SECOND,
            active: true,
            initial: 0,
            last: None,
            sent: Count::default(),
            solicitations: Count::default(),
        }
    }
}

/// The bytes of the option that names a NAT64's prefix (RFC 8781, 4), for the time in seconds.
fn pref64(prefix: Prefix64, lifetime_s: u64) -> [u8; 16] {
    // In units of 8 s, with the code of the length.
    let code = [96, 64, 56, 48, 40, 32].iter().position(|length| *length == prefix.length()).unwrap_or(0);
    let scaled = lifetime_s.div_ceil(8).min(0x1fff) as u16;
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&[38, 2]);
    bytes[2..4].copy_from_slice(&(scaled << 3 | code as u16).to_be_bytes());
    bytes[4..].copy_from_slice(&prefix.address().octets()[..12]);
    bytes
}

/// `IP6/LENGTH`
struct Pref64(Prefix64);

impl FromArg for Pref64 {
    const EXPECTED: &'static str = "IP6/LENGTH, the prefix of a NAT64";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        let (address, length) = text.split_once('/').ok_or_else(String::new)?;
        let (address, length) =
            (address.parse().map_err(|_| String::new())?, length.parse().map_err(|_| String::new())?);
        Prefix64::new(address, length).map(Pref64)
    }
}

/// The bytes of the options: our Ethernet address, the MTU, the prefixes.
fn options(mac: MacAddr, mtu: u32, prefixes: &[PrefixInfo]) -> Vec<u8> {
    let mut bytes = NdpOption::link_addr_bytes(false, mac).to_vec();
    if mtu != 0 {
        bytes.extend([5, 1, 0, 0]);
        bytes.extend(mtu.to_be_bytes());
    }
    for info in prefixes {
        bytes.extend([3, 4, info.prefix.len(), info.flags]);
        bytes.extend(info.valid_s.to_be_bytes());
        bytes.extend(info.preferred_s.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(info.prefix.addr().octets());
    }
    bytes
}

impl RouterAdvertiser {
    fn advertise(&mut self, cx: &mut Cx<'_>, message: Repr) {
        if self.mtu != 0 {
            let mtu = self.follow.or(self.mtu as usize).max(MTU_MIN) as u32;
            self.options[MTU_AT..MTU_AT + 4].copy_from_slice(&mtu.to_be_bytes());
        }
        let to = (MacAddr::from_ipv6_group(ALL_NODES), ALL_NODES);
        if let Some(packet) = ip6_nd::frame((self.mac, self.ip), to, message, &self.options) {
            self.sent += 1;
            cx.made(1);
            cx.push_one(0, packet);
        }
        self.last = Some(cx.now());
    }

    /// Sets the timer for the next one that nobody asked for (section 6.2.4).
    fn schedule(&mut self, cx: &mut Cx<'_>) {
        let mut after = cx.random().u64(self.min_interval..=self.max_interval);
        if self.initial > 0 {
            self.initial -= 1;
            after = after.min(MAX_INITIAL_INTERVAL);
        }
        cx.set_timer_after(NEXT, after);
    }

    /// Begins anew: an advertisement at once, and a few soon after.
    fn start(&mut self, cx: &mut Cx<'_>) {
        self.initial = MAX_INITIAL_ADVERTISEMENTS - 1;
        let earliest = self.last.map_or(0, |last| last + MIN_DELAY_BETWEEN);
        let at = cx.now().max(earliest);
        cx.set_timer(NEXT, at);
    }

    fn intervals(&mut self, args: &mut Args<'_>) {
        self.max_interval = time_ns(args, "MAX_INTERVAL", 600 * SECOND);
        if !(4 * SECOND..=1800 * SECOND).contains(&self.max_interval) {
            args.error("MAX_INTERVAL must be from 4 s to 1800 s");
            self.max_interval = 600 * SECOND;
        }
        let third = (self.max_interval / 3).max(3 * SECOND);
        self.min_interval = time_ns(args, "MIN_INTERVAL", third.min(self.max_interval * 3 / 4));
        if !(3 * SECOND..=self.max_interval * 3 / 4).contains(&self.min_interval) {
            args.error("MIN_INTERVAL must be from 3 s to three quarters of MAX_INTERVAL");
        }
    }
}

/// A time as a message has it, in units of `unit` nanoseconds.
fn field<T: TryFrom<u64> + Default>(
    args: &mut Args<'_>,
    name: &'static str,
    default: Nanos,
    unit: Nanos,
) -> T {
    let value = time_ns(args, name, default);
    T::try_from(value / unit).unwrap_or_else(|_| {
        args.error(format!("{name} is too long"));
        T::default()
    })
}

impl RouterAdvertiser {
    fn set_active(&mut self, cx: &mut Cx<'_>, active: bool) {
        if std::mem::replace(&mut self.active, active) == active {
            return;
        }
        if active {
            self.start(cx);
        } else {
            cx.clear_timer(NEXT);
            // Section 6.2.5: hosts should look for another router at once.
            let mut farewell = self.message;
            if let Repr::RouterAdvert { lifetime_s, flags, .. } = &mut farewell {
                *lifetime_s = 0;
                *flags &= !0x18;
            }
            self.advertise(cx, farewell);
        }
    }
}

impl Element for RouterAdvertiser {
    fn configure(&mut self, args: &mut Args<'_>) {
        let Address(ip) = args.required("IP");
        self.ip = ip;
        match args.positional_opt("ETH") {
            Some(mac) => self.mac = mac,
            None => args.missing("ETH", "an Ethernet address"),
        }
        if !self.ip.is_unicast_link_local() && args.errors().is_empty() {
            args.error("IP must be a link-local address (fe80::/10): hosts believe no other");
        }
        self.intervals(args);
        let lifetime_s: u16 = field(args, "LIFETIME", 3 * self.max_interval, SECOND);
        let max_s = self.max_interval / SECOND;
        if lifetime_s != 0 && !(max_s..=MAX_LIFETIME_S).contains(&lifetime_s.into()) {
            args.error(format!("LIFETIME must be 0, or from MAX_INTERVAL to {MAX_LIFETIME_S} s"));
        }
        let flag = |args: &mut Args<'_>, name, bit: u8| if args.keyword(name, false) { bit } else { 0 };
        let preference = args.keyword("PREFERENCE", Preference(0)).0;
        let flags = flag(args, "MANAGED", 0x80) | flag(args, "OTHER", 0x40);
        self.message = Repr::RouterAdvert {
            hop_limit: args.keyword("HOP_LIMIT", 64),
            // Who is no default router has no preference (RFC 4191 section 2.2).
            flags: flags | if lifetime_s == 0 { 0 } else { preference },
            lifetime_s,
            reachable_ms: field(args, "REACHABLE_TIME", 0, SECOND / 1000),
            retransmit_ms: field(args, "RETRANS_TIMER", 0, SECOND / 1000),
        };
        self.mtu = args.keyword("MTU", 0);
        if (1..MTU_MIN as u32).contains(&self.mtu) {
            args.error("MTU must be 1280 or more: IPv6 needs that");
        }
        self.follow = LinkMtu::from_args(args);
        let prefixes: Vec<PrefixInfo> = args.keyword_all("PREFIX");
        self.options = options(self.mac, self.mtu, &prefixes);
        let lasts_s = if lifetime_s == 0 { 3 * max_s } else { lifetime_s.into() };
        for Pref64(prefix) in args.keyword_all::<Pref64>("PREF64") {
            self.options.extend(pref64(prefix, lasts_s));
        }
        if self.options.len() > 1280 - 56 {
            args.error("too many prefixes for one message");
        }
        self.active = args.keyword("ACTIVE", true);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if self.active && cx.is_home() {
            self.start(cx);
        }
        self.follow.initialize(cx, LOOK)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        for packet in batch.drain(..) {
            let why = match ip6_nd::read(packet.data()) {
                Ok(heard) if heard.message == Repr::RouterSolicit => None,
                Ok(_) => Some(Reason::BadDiscovery),
                Err(why) => Some(why),
            };
            if let Some(why) = why.or((!self.active).then_some(Reason::Inactive)) {
                cx.drop(why, packet);
                continue;
            }
            cx.drop(Reason::Discarded, packet);
            self.solicitations += 1;
            let earliest = self.last.map_or(0, |last| last + MIN_DELAY_BETWEEN);
            let at = (cx.now() + cx.random().u64(0..=MAX_DELAY)).max(earliest);
            if cx.timer(NEXT).is_none_or(|set| set > at) {
                cx.set_timer(NEXT, at);
            }
        }
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        if timer == LOOK {
            self.follow.look(cx, timer);
        } else if self.active {
            self.advertise(cx, self.message);
            self.schedule(cx);
        }
    }
}

carries!(RouterAdvertiser: sent, solicitations; anew ip, mac, message, options, mtu, follow, max_interval, min_interval, active, initial, last);

#[cfg(test)]
mod tests {
    use super::super::ip6_nd::tests::{PEER, US, from_peer, ip};
    use super::*;
    use crate::testing::{Rig, Run};
    use wire::ndp::OptionIter;

    const SELF: &str = "fe80::1, 2:0:0:0:0:1";

    fn advertised(run: &Run) -> Vec<(Repr, Vec<u8>)> {
        let each = |p: &packet::Packet| {
            let heard = ip6_nd::read(p.data()).expect("a sound message");
            assert_eq!((heard.eth_src, heard.src, heard.source_mac), (US, ip("fe80::1"), Some(US)));
            assert_eq!(p.data()[..6], [0x33, 0x33, 0, 0, 0, 1]);
            (heard.message, heard.options.to_vec())
        };
        run.out("o0").iter().map(each).collect()
    }

    /// A configuration with a script that stops it at `stop_s` seconds and notes the times of advertisements.
    fn rig(args: &str, script: &str) -> Rig {
        Rig::text(&format!(
            "i :: TestIn -> e :: IP6NDRouterAdvertiser({args}) -> t :: SetTimestamp -> o0 :: TestOut; \
             s :: Script({script}, stop);"
        ))
    }

    fn seconds(run: &Run) -> Vec<f64> {
        let start = engine::clock::SIMULATION_EPOCH;
        let times = run.out("o0");
        times.iter().map(|p| (p.timestamp_ns() - start) as f64 / 1e9).collect()
    }

    // conformance: RFC4861-6.2.1-a RFC4861-6.2.3-a
    #[test]
    fn says_what_it_was_told() {
        let args = format!(
            "{SELF}, PREFIX 2001:db8::/64, PREFIX 2001:db8:1::/56 1h 30min L, PREFIX 2001:db8:2::/64 infinite \
             infinite -, MTU 1400, LIFETIME 1800, MANAGED true, PREFERENCE high, REACHABLE_TIME 30s, RETRANS_TIMER 1s"
        );
        let run = rig(&args, "wait 1").run();
        let sent = advertised(&run);
        let message = Repr::RouterAdvert {
            hop_limit: 64,
            flags: 0x88,
            lifetime_s: 1800,
            reachable_ms: 30_000,
            retransmit_ms: 1000,
        };
        assert_eq!((sent.len(), sent[0].0), (1, message));
        let info = |prefix: &str, flags, valid_s, preferred_s| NdpOption::PrefixInfo {
            prefix: prefix.parse().unwrap(),
            flags,
            valid_s,
            preferred_s,
        };
        let found: Vec<NdpOption> = OptionIter::new(&sent[0].1).map(Result::unwrap).collect();
        let want = [
            NdpOption::SourceLinkAddr(US),
            NdpOption::Mtu(1400),
            info("2001:db8::/64", 0xc0, 2_592_000, 604_800),
            info("2001:db8:1::/56", 0x80, 3600, 1800),
            info("2001:db8:2::/64", 0, u32::MAX, u32::MAX),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn names_the_prefix_of_a_nat64() {
        let says = |prefix: &str, more: &str| -> Vec<u8> {
            let run = rig(&format!("{SELF}, PREF64 {prefix}{more}"), "wait 1").run();
            let (_, options) = advertised(&run).remove(0);
            let found = OptionIter::new(&options).map(Result::unwrap).find_map(|option| match option {
                NdpOption::Unknown { kind: 38, data } => Some(data.to_vec()),
                _ => None,
            });
            found.unwrap()
        };
        // 1,800 s are 225 units of 8 s; the code of 96 bits is 0 (RFC 8781, 4).
        let well_known = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(says("64:ff9b::/96", ""), [&[0x07, 0x08][..], &well_known].concat());
        assert_eq!(says("64:ff9b::/96", ", LIFETIME 0, MAX_INTERVAL 4s")[..2], [0, 2 << 3]);
        assert_eq!(says("2001:db8::/32", ", LIFETIME 9000")[..6], [0x23, 0x28 | 5, 0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(says("2001:db8:1:2::/64", "")[1] & 7, 1);
        let wrong =
            Rig::text(&format!("IP6NDRouterAdvertiser({SELF}, PREF64 2001:db8::/33) -> Discard;")).errors();
        assert!(wrong[0].contains("/33 is none of the lengths"), "{wrong:?}");
    }

    /// RFC 4861 section 6.2.4: three soon, then at random between the limits.
    // conformance: RFC4861-6.2.4-a RFC4861-6.2.4-b
    #[test]
    fn comes_at_random_intervals() {
        let times = seconds(&rig(&format!("{SELF}, MAX_INTERVAL 60s"), "wait 6000").run());
        let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!((times[0], gaps[0], gaps[1]), (0.0, 16.0, 16.0));
        assert!(gaps[2..].iter().all(|gap| (20.0..=60.0).contains(gap)), "{gaps:?}");
        assert!(gaps[2..].iter().any(|gap| *gap < 30.0) && gaps[2..].iter().any(|gap| *gap > 50.0));
        assert!((120..=190).contains(&times.len()), "{}", times.len());
    }

    // conformance: RFC4861-6.2.6-a RFC4861-6.2.6-b
    #[test]
    fn answers_solicitations_not_too_often() {
        let option = NdpOption::link_addr_bytes(false, PEER);
        let solicit = from_peer("fe80::9", "ff02::2", Repr::RouterSolicit, &option);
        let text = format!(
            "e :: IP6NDRouterAdvertiser({SELF}) -> SetTimestamp -> o0 :: TestOut; \
             r :: RatedSource(DATA \\<{}>, RATE 10, LIMIT 300) -> e; Script(wait 100, stop);",
            solicit.iter().map(|b| format!("{b:02x}")).collect::<String>()
        );
        let mut run = Rig::text(&text).run();
        let times = seconds(&run);
        let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        // For thirty seconds it is asked all the time: one every three seconds, half a second later at most.
        let asked: Vec<&f64> =
            gaps.iter().zip(&times).filter(|(_, at)| **at < 25.0).map(|(gap, _)| gap).collect();
        assert!(asked.len() >= 7 && asked.iter().all(|gap| (3.0..=3.6).contains(*gap)), "{asked:?}");
        assert_eq!(run.read("e.solicitations"), "300");
    }

    // conformance: RFC4861-6.2.5-a
    #[test]
    fn takes_leave() {
        let mut run = rig(SELF, "wait 1, write e.active false, wait 100, write e.active true, wait 1").run();
        let lifetime = |r: &Repr| match r {
            Repr::RouterAdvert { lifetime_s, .. } => *lifetime_s,
            _ => panic!("{r:?}"),
        };
        let sent = advertised(&run);
        assert_eq!(sent.iter().map(|(r, _)| lifetime(r)).collect::<Vec<_>>(), [1800, 0, 1800]);
        assert_eq!((run.read("e.sent").as_str(), run.read("e.active").as_str()), ("3", "true"));
    }

    // conformance: RFC4861-6.1.1-a RFC4861-6.2.2-a
    #[test]
    fn unsound_solicitations() {
        let soll = |src| from_peer(src, "ff02::2", Repr::RouterSolicit, &[]);
        let mut far = soll("fe80::9");
        far[21] = 64;
        let advert =
            from_peer("fe80::9", "fe80::1", Repr::NeighborAdvert { target: ip("fe80::9"), flags: 0 }, &[]);
        let mut run = Rig::text(&format!(
            "i :: TestIn -> e :: IP6NDRouterAdvertiser({SELF}, ACTIVE false) -> o0 :: TestOut;"
        ))
        .inputs(&[&far, &advert, &soll("::"), b"x"])
        .run();
        let want = [(Reason::Inactive, 1), (Reason::BadHopLimit, 1), (Reason::BadDiscovery, 2)];
        assert_eq!((run.drops("e"), run.read("e.sent").as_str()), (want.to_vec(), "0"));
    }

    // conformance: RFC4861-6.2.1-a
    #[test]
    fn arguments() {
        let check = |args: &str, want: &str| {
            let text = format!("i :: TestIn -> e :: IP6NDRouterAdvertiser({args}) -> o :: TestOut;");
            let errors = Rig::text(&text).errors();
            assert!(errors.iter().any(|e| e.contains(want)), "{errors:?}");
        };
        check("", "missing argument IP");
        check("2001:db8::1, 2:0:0:0:0:1", "IP must be a link-local address");
        check("fe80::1", "missing argument ETH");
        let also = |more: &str, want: &str| check(&format!("{SELF}, {more}"), want);
        also("MAX_INTERVAL 3s", "MAX_INTERVAL must be from 4 s to 1800 s");
        also("MIN_INTERVAL 500s", "MIN_INTERVAL must be from 3 s to three quarters of MAX_INTERVAL");
        also("LIFETIME 10000", "LIFETIME must be 0, or from MAX_INTERVAL to 9000 s");
        also("MTU 1000", "MTU must be 1280 or more");
        also("PREFIX 2001:db8::/64 1h 2h", "PREFERRED is longer than VALID");
        also("PREFIX fe80::/64", "it is link-local or multicast");
        also("PREFIX 2001:db8::/64 1h 1h X", "there is no flag X");
        also("PREFERENCE x", "argument PREFERENCE should be low, medium or high");
    }
}
