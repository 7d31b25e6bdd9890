// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecDummies
//!
//! `IPsecDummies(DATABASE, [RATE, keywords MTU, FOLLOW])`
//!
//! Sends dummy packets by the associations of an IPsecDatabase, so that nobody sees how much these carry (RFC 4303, 2.6), and keep-alives (RFC 3948, 2.3).
//!
//! It fills associations up to a rate: of the packets that should leave, those that are missing are dummy packets. The receiver drops them. More packets than the rate says still pass, and
//! show; a Shaper before IPsecEncrypt holds them back. Only associations that a policy with `dir out` uses at the moment are filled up: so dummy packets follow a change of keys.
//!
//! Keep-alives leave by associations that go by UDP and say `keepalive SECONDS`, when nothing else has left for that time: a datagram of the one byte 0xff from port to port. So address translators on the way keep their
//! mapping. By default none leave. Key daemons send their own.
//!
//! **Ports:** one push output, for these packets: to the routing table, as those of IPsecEncrypt.
//!
//! **Arguments**
//! * `DATABASE` the IPsecDatabase.
//! * `RATE` packets a second of each association that says nothing itself (`dummies N`), up to 100,000; default 0, none. It is for associations that a key daemon makes.
//! * `MTU` the longest packet in bytes that may leave, from 576 to 65535; default 1500. `FOLLOW` elements with devices, whose lowest MTU takes its place.
//!
//! A dummy packet is as long as one of the latest 16 packets of its association, which is chosen at random; before there is one, it has any length. With `tfcpad` all packets of a tunnel are
//! of one length. Once in the time in which one packet is to leave, but at least each second and at most each millisecond, it finds out what is missing. With many associations it looks at some hundred in a millisecond. In transport mode, associations for groups get none.
//!
//! Dummy packets take sequence numbers, and count for the limits of packets and bytes, as others do. Without encryption (`enc null`, AES-GMAC) everybody can tell them from others.
//!
//! **Metadata:** packets begin with their IP header. Sets the destination annotation and, in the miscellaneous annotation, the longest packet that link and path take; marks the packet
//! as IPsecEncrypt does with `MARK true`.
//!
//! **Drops:** none. An association whose sequence numbers have run out ends, as by IPsecEncrypt.
//!
//! **Handlers**
//! * `rate` read, write: RATE. `sent` read: dummy packets sent. `keepalives` read: keep-alives sent. What each association has sent, `sas` of the database says.
//!
//! ```click
//! db :: IPsecDatabase(
//!     SA src 192.0.2.1 dst 192.0.2.2 spi 0x100 mode tunnel tfcpad 65535 dummies 100 aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128,
//!     POLICY src 10.1.0.0/16 dst 10.2.0.0/16 dir out tmpl src 192.0.2.1 dst 192.0.2.2 mode tunnel);
//! Idle -> CheckIPHeader -> IPsecEncrypt(db) -> Discard;
//! IPsecDummies(db) -> Discard;
//! ```
//!
//! See also: IPsecDatabase, IPsecEncrypt, ESPTunnel, Shaper. RFC 3948 (2.3), RFC 4303 (2.6, 2.7)

use std::ops::RangeInclusive;
use std::sync::Arc;

use element::args::Args;
use element::clock::{Nanos, SECOND};
use element::swap::Count;
use element::{Class, Cx, Element, InitCx, OpenCx, Tasks, carries, handlers};
use esp::Mode;
use esp::sa::FILL_MOST;
use fastrand::Rng;
use ipsec::{Association, Database, WalkPosition, Whose};

use super::database;
use super::fill::{Filler, Tending, period};
use super::outbound::{Here, MTUS};
use crate::io::mtu::LinkMtu;
use crate::tools::number_in;

/// The descriptor.
pub const CLASS: Class = Class::new("IPsecDummies", "0/1", || Box::new(IpsecDummies::default()))
    .processing("h/h")
    .handlers(handlers! { IpsecDummies:
        both "rate" => .rate |dummies, cx, text: &str| {
            dummies.rate = number_in("rate", text, RATES)?;
            dummies.begin(cx);
        };
        sum "sent" => .sent;
        sum "keepalives" => .keep_alives;
    })
    .hot_swap::<IpsecDummies>()
    .file(file!());

/// Packets a second that RATE may say.
const RATES: RangeInclusive<u32> = 0..=FILL_MOST;
/// The timer by which links are looked at.
const LOOK: u32 = 0;
/// The timer of what is missing.
const FILL: u32 = 1;
/// How long a round waits after some associations, so that packets pass meanwhile.
const STEP_NS: Nanos = SECOND / 1000;

#[derive(Default)]
struct IpsecDummies {
    name: String,
    database: Option<Arc<Database>>,
    rate: u32,
    mtu: usize,
    follow: LinkMtu,
    filler: Filler,
    /// Where this round goes on; `None` at its beginning.
    place: Option<WalkPosition>,
    began_ns: Nanos,
    /// The highest rate that this round has met.
    highest: u32,
    sent: Count,
    keep_alives: Count,
}

/// Up to how many packets a second an association is filled up, where those that say nothing are up to `usual`.
fn rate_of(association: &Association, usual: u32) -> u32 {
    let is_for_group = association.sa.mode == Mode::Transport && association.config.dst.is_multicast();
    match association.sa.rules.fill_to {
        _ if is_for_group => 0,
        0 => usual,
        own => own,
    }
}

impl IpsecDummies {
    /// Begins a round now.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        self.place = None;
        self.step(cx);
    }

    /// Looks at some of the associations, and sends what is due.
    fn step(&mut self, cx: &mut Cx<'_>) {
        let Some(database) = &self.database else { return };
        let now_ns = cx.now();
        if self.place.is_none() {
            (self.began_ns, self.highest) = (now_ns, 0);
        }
        let mut rng = Rng::with_seed(cx.random().u64(..));
        let here = Here {
            worker: cx.worker(),
            now_ns,
            mtu: self.follow.or(self.mtu),
            too_big: 0,
            splits: false,
            marks: true,
            transport: None,
            fragments: usize::MAX,
            is_own: false,
        };
        // Without a rate of its own, it has to do with few.
        let whose = if self.rate == 0 { Whose::Tended } else { Whose::All };
        let (mut made, mut highest) = (Tending::default(), self.highest);
        let (filler, usual) = (&mut self.filler, self.rate);
        self.place = database.walk(whose, self.place.unwrap_or_default(), cx.rcu(), |association| {
            let rate = rate_of(association, usual);
            highest = highest.max(rate);
            filler.tend((association, rate), database, here, &mut rng, &mut made);
        });
        self.highest = highest;
        let next = match self.place {
            Some(_) => now_ns + STEP_NS,
            None => {
                filler.end_round();
                (self.began_ns + period(highest)).max(now_ns + STEP_NS)
            }
        };
        cx.set_timer(FILL, next);
        database.tidy();
        self.sent += made.dummies;
        self.keep_alives += made.keep_alives;
        if !made.batch.is_empty() {
            cx.made(made.batch.len());
            cx.push(0, made.batch);
        }
    }
}

impl Element for IpsecDummies {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.name = args.required("DATABASE");
        self.rate = args.positional_in("RATE", 0, RATES);
        self.mtu = args.keyword_in("MTU", 1500, MTUS);
        self.follow = LinkMtu::from_args(args);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.database = Some(database::find(cx, &self.name)?);
        self.follow.initialize(cx, LOOK)?;
        if cx.is_home() {
            let now = cx.now();
            cx.set_timer(FILL, now);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        match timer {
            LOOK => self.follow.look(cx, timer),
            _ => self.step(cx),
        }
    }
}

carries!(IpsecDummies: sent, keep_alives; anew name, database, rate, mtu, follow, filler, place, began_ns, highest);

#[cfg(test)]
mod tests {
    use super::super::database::tests::{KEY, packet};
    use std::time::Duration;

    use crate::testing::{Rig, Run};
    use element::Reason;

    const TIME: Duration = Duration::from_millis(2005);

    /// A tunnel each way, of one database, whose packets out say more.
    fn database(out: &str) -> String {
        let sa = |src, dst, spi, more: &str| {
            format!("SA src {src} dst {dst} spi {spi} reqid 1 mode tunnel aead aes-gcm {KEY} 128{more}")
        };
        format!(
            "{}, {}, POLICY src 10.1.0.0/16 dst 10.2.0.0/16 dir out tmpl src 192.0.2.1 dst 192.0.2.2 reqid 1 mode tunnel,
            POLICY src 10.2.0.0/16 dst 10.1.0.0/16 dir fwd tmpl src 192.0.2.2 dst 192.0.2.1 reqid 1 mode tunnel",
            sa("192.0.2.1", "192.0.2.2", "0x100", out),
            sa("192.0.2.2", "192.0.2.1", "0x200", " dummies 50")
        )
    }

    /// A gateway that sends to another one within the same router, with a packet each so many seconds, for two seconds.
    fn both(out: &str, rate: u32, every: &str) -> String {
        format!(
            "d :: IPsecDatabase({});
            TimedSource({every}, xxxx) -> UDPIPEncap(10.1.0.1, 5, 10.2.0.1, 7) -> CheckIPHeader -> IPsecEncrypt(d) -> s :: Counter;
            e :: IPsecDummies(d, {rate}) -> m :: Counter -> s -> x :: IPsecDecrypt(d) -> o0 :: TestOut;",
            database(out)
        )
    }

    fn run(text: &str) -> Run {
        Rig::text(text).ready().run_for(TIME)
    }

    #[test]
    fn associations_are_filled_up() {
        // Ten a second of their own, and forty that are missing: of the association's rate, of the element's, and of neither.
        for (out, rate, all) in [(" dummies 50", 0, 100), ("", 50, 100), (" dummies 50", 7, 100), ("", 0, 20)]
        {
            let mut ran = run(&both(out, rate, "0.1"));
            let [sent, made]: [u64; 2] = ["s.count", "m.count"].map(|name| ran.read(name).parse().unwrap());
            assert!(sent.abs_diff(all) <= 2 && sent - made == 20, "{out} {rate}: {made} of {sent}");
            assert_eq!(ran.read("e.sent"), made.to_string());
            let sas = ran.read("d.sas");
            let of = |spi: &str| sas.split_once(spi).unwrap().1.lines().nth(1).unwrap().to_owned();
            assert!(of("0x00000100").contains(&format!("sent {sent} top {sent} ")), "{sas}");
            assert_eq!(of("0x00000100").contains(&format!(" dummies {made}")), made > 0, "{sas}");
            assert!(of("0x00000200").starts_with("\tsent 0 "), "nothing goes the other way: {sas}");
            let dropped = if made > 0 { vec![(Reason::EspDummy, made)] } else { vec![] };
            // The other end has a policy for the way back alone.
            let mut drops = ran.drops("x");
            drops.retain(|(reason, _)| *reason == Reason::EspDummy);
            assert_eq!(drops, dropped);
        }
    }

    #[test]
    fn limits_end_associations_and_dummies() {
        let mut ran = run(&both(" dummies 50 limit packet-soft 5 limit packet-hard 30", 50, "10"));
        assert_eq!(ran.read("e.sent"), "30");
        let events = ran.read("d.take_events");
        let kinds: Vec<&str> = events.lines().filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(kinds, ["soft", "hard"], "{events}");
        // The last sequence numbers.
        let mut ran = run(&both(" dummies 50 progress 4294967290 0 0x", 0, "10"));
        assert_eq!(ran.read("e.sent"), "5");
        assert!(ran.read("d.take_events").contains("spi 0x00000100 reqid 1 hard"));
    }

    #[test]
    fn lengths_are_those_of_others() {
        let text = format!(
            "d :: IPsecDatabase({});
            i :: TestIn -> enc :: IPsecEncrypt(d) -> o0 :: TestOut; e :: IPsecDummies(d) -> o1 :: TestOut;",
            database(" dummies 50")
        );
        let clear = packet([10, 1, 0, 1], [10, 2, 0, 1], 400);
        let run = Rig::text(&text).inputs(&[&clear]).ready().run_for(2 * TIME);
        let (others, dummies) = (run.bytes("o0"), run.bytes("o1"));
        assert!(dummies.len() > 100);
        let alike = dummies.iter().filter(|dummy| dummy.len() == others[0].len()).count();
        assert!(alike + 2 >= dummies.len(), "{alike} of {}", dummies.len());
        assert!(dummies.iter().all(|dummy| dummy[9] == 50 && dummy[16..20] == [192, 0, 2, 2]));
    }

    #[test]
    fn rates_change_and_have_bounds() {
        let mut ran = run(&both("", 0, "10"));
        assert_eq!((ran.read("e.sent"), ran.read("e.rate")), ("0".into(), "0".into()));
        ran.write("e.rate", "20").unwrap();
        let mut ran = ran.run_for(TIME);
        let sent: u64 = ran.read("e.sent").parse().unwrap();
        assert!((38..=41).contains(&sent), "{sent}");
        assert!(ran.write("e.rate", "100001").unwrap_err().to_string().contains("between 0 and 100000"));
        let errors = Rig::text("d :: IPsecDatabase; IPsecDummies(d, 100001) -> Discard;").errors();
        assert!(errors[0].contains("RATE must lie between 0 and 100000, not 100001"), "{errors:?}");
    }

    #[test]
    fn dummies_go_on_after_a_swap() {
        let mut ran = run(&both(" dummies 50", 0, "10"));
        let before: u64 = ran.read("e.sent").parse().unwrap();
        ran.swap(&both(" dummies 50 limit packet-hard 9999", 0, "10")).unwrap();
        let mut ran = ran.run_for(TIME);
        let after: u64 = ran.read("e.sent").parse().unwrap();
        assert!(before >= 98 && after >= before + 98, "{before}, {after}");
        assert!(ran.read("d.sas").contains(&format!("sent {after} ")), "{}", ran.read("d.sas"));
    }

    /// A tunnel by UDP between two gateways of one router, and how often a host sends.
    fn by_udp(more: &str, every: &str) -> String {
        let database = database("").replace("mode tunnel aead", "mode tunnel encap espinudp 4500 4501 aead");
        format!(
            "d :: IPsecDatabase({});
            TimedSource({every}, xxxx) -> UDPIPEncap(10.1.0.1, 5, 10.2.0.1, 7) -> CheckIPHeader -> IPsecEncrypt(d) -> s :: Counter -> Discard;
            e :: IPsecDummies(d) -> m :: Counter -> x :: IPsecDecrypt(d) -> Discard;",
            database.replacen(" aead", &format!("{more} aead"), 1).replace(" dummies 50", "")
        )
    }

    #[test]
    fn keep_alives_follow_policies_and_silence() {
        let minute = Duration::from_millis(61_500);
        for (more, every, count) in [
            (" keepalive 20", "1000", "3"),
            (" keepalive 5", "1000", "12"),
            ("", "1000", "0"),
            (" keepalive 0", "1000", "0"),
            // A packet every 15 seconds.
            (" keepalive 20", "15", "0"),
        ] {
            let mut ran = Rig::text(&by_udp(more, every)).ready().run_for(minute);
            let got = ["e.keepalives", "m.count", "e.sent"].map(|name| ran.read(name));
            assert_eq!(got, [count, count, "0"], "{more} {every}");
            let dropped: u64 = ran
                .drops("x")
                .iter()
                .map(|(reason, count)| {
                    assert_eq!(*reason, Reason::Discarded);
                    count
                })
                .sum();
            assert_eq!(dropped.to_string(), count);
        }
        // The next association of the policy takes over.
        let mut ran = Rig::text(&by_udp(" keepalive 20", "1000")).ready().run_for(minute);
        ran.write("d.add_sa", &format!("src 192.0.2.1 dst 192.0.2.2 spi 0x300 reqid 1 mode tunnel encap espinudp 4500 4501 aead aes-gcm {KEY} 128")).unwrap();
        let mut ran = ran.run_for(minute);
        assert_eq!(ran.read("e.keepalives"), "3", "it has no keep-alives");
        ran.write("d.delete_sa", "dst 192.0.2.2 spi 0x300").unwrap();
        let mut ran = ran.run_for(minute);
        assert_eq!(ran.read("e.keepalives"), "6");
    }
}
