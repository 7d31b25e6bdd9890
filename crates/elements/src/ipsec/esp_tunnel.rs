// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ESPTunnel
//!
//! `ESPTunnel(LOCAL, REMOTE, keywords OUT, IN [, MTU, FOLLOW])`
//!
//! One ESP tunnel with keys of its own, and no policies: what comes in at one end goes through it.
//!
//! It is for tunnels that routes lead into. What may go through is up to the elements around it. Keys that a daemon negotiates need IPsecDatabase.
//!
//! **Ports:** two push inputs: 0 for packets to be protected, 1 for ESP packets from the other end (protocol 50, or UDP to its port). Output 0 for protected packets, output 1 for
//! those that were opened. Output 2, if connected, for packets that would be too long when protected, and must not be fragmented: to ICMPError and ICMP6Error with
//! `PMTU_ANNO true`.
//!
//! **Arguments**
//! * `LOCAL`, `REMOTE` addresses of this end and of the other one.
//! * `OUT`, `IN` the associations of both directions, as `ip xfrm state add` takes them, without `src`, `dst` and `mode`: `spi`, algorithms with keys, and more, as in
//!   IPsecDatabase.
//! * `MTU` the longest packet in bytes that may leave, protected, from 576 to 65535; default 1500. `FOLLOW` elements with devices, whose lowest MTU takes its place.
//!
//! `dummies N` in OUT fills the way out up to N packets a second: dummy packets stand for those that are missing. They leave by output 0, and the other end drops them. With `encap`,
//! `keepalive SECONDS` in OUT sends a keep-alive (RFC 3948) when nothing else has left for that time. IPsecDummies says more about both.
//!
//! The tunnel carries packets of both families. Manual keys never change by themselves: after a restart sequence numbers begin again, so the other end must be restarted, too, or have no
//! anti-replay window. Use a key for one direction only.
//!
//! A hot swap carries each direction over by itself. As long as SPI and key stay, its sequence numbers, window, age and counts go on. All else may change: an address, limits, ports,
//! the element's name, or whether it is an IPsecDatabase that has the association.
//!
//! **Metadata:** packets begin with their IP header. Sets the destination annotation: to REMOTE, or to the destination of what was protected. Packets for output 2 have
//! the longest length that would fit in the miscellaneous annotation.
//!
//! **Drops:** those of IPsecEncrypt and IPsecDecrypt, without those of policies. If a direction has a selector (`sel`), `wrong-sa` for packets that it does not contain, and
//! `bad-length` for those whose addresses or ports cannot be read.
//!
//! **Handlers**
//! * `sas` read: both associations, without keys, with what they have carried and refused, as in IPsecDatabase.
//!
//! ```click
//! t :: ESPTunnel(192.0.2.1, 192.0.2.2,
//!     OUT spi 0x100 aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128,
//!     IN spi 0x200 aead aes-gcm 0x202122232425262728292a2b2c2d2e2f30313233 128);
//! Idle -> CheckIPHeader -> t -> Discard;
//! Idle -> CheckIPHeader -> [1]t[1] -> Discard;
//! ```
//!
//! See also: IPsecDatabase, IPsecEncrypt, IPsecDecrypt, IPsecDummies, IPEncap. RFC 4303

use element::clock::Nanos;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use element::args::{Args, FromArg, Names};
use element::swap::{self, DevicePool};
use element::{
    Class, Cx, DeviceQueues, Element, HotSwap, InitCx, OpenCx, Provide, Provided, Reason, SharedState,
    Sharing, Tasks, handlers,
};
use esp::sa::Rules;
use fastrand::Rng;
use ipsec::text::{self, Keys};
use ipsec::{Association, AssociationConfig, Configured, Database, Flow, Id};
use packet::{Batch, Packet};

use super::database::{hidden, secrets};
use super::fill::{Filler, Tending, period};
use super::following::{Following, Tunnel};
use super::inbound::{self, accept};
use super::outbound::{self, Choice, Verdict, in_parts, protect};
use crate::io::mtu::LinkMtu;

/// The descriptor.
pub const CLASS: Class = Class::new("ESPTunnel", "2/2-3", || Box::new(EspTunnel::default()))
    .processing("h/h")
    .sharing(Sharing::Shared)
    .secrets(secrets)
    .handlers(handlers! { EspTunnel:
        read "sas" => |tunnel, cx| tunnel.associations(cx.now());
    })
    .hot_swap::<EspTunnel>()
    .device_queues::<EspTunnel>()
    .shared_state::<EspTunnel>()
    .provide::<EspTunnel>()
    .file(file!());

/// The timer by which links are looked at.
const LOOK: u32 = 0;
/// The timer of dummy packets and keep-alives. The one between them is the database's.
const FILL: u32 = 2;
/// The output for packets that were opened.
const OPENED: usize = 1;
/// The output for packets that are too long.
const TOO_BIG: usize = 2;

/// An association without its ends.
#[derive(Clone, Default)]
struct Half(String);

impl FromArg for Half {
    const EXPECTED: &'static str = "an association, as 'spi 0x100 aead aes-gcm 0x... 128'";

    fn shown(text: &str) -> Cow<'_, str> {
        hidden(text).into()
    }

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        Ok(Half(text.to_owned()))
    }
}

/// An end of the tunnel.
#[derive(Clone, Copy)]
struct End(IpAddr);

impl Default for End {
    fn default() -> Self {
        End([0; 4].into())
    }
}

impl FromArg for End {
    const EXPECTED: &'static str = "an IPv4 or IPv6 address";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        text.parse().map(End).map_err(|_| String::new())
    }
}

#[derive(Clone, Default)]
struct EspTunnel {
    /// Which associations are those of both directions: out and in.
    ids: Option<[Id; 2]>,
    following: Option<Following>,
    mtu: usize,
    follow: LinkMtu,
    /// Packets a second up to which dummy packets fill the way out.
    fill_to: u32,
    /// Whether dummy packets or keep-alives leave.
    is_tended: bool,
    filler: Filler,
}

/// Reads the association of one direction.
fn config(half: &Half, from: IpAddr, to: IpAddr) -> Result<AssociationConfig, String> {
    let left_out = |word: &str| {
        Err(format!("leave out '{word}': LOCAL and REMOTE are the ends, and a tunnel is what it is"))
    };
    // A selector has words of its own.
    let before = half.0.split(" sel ").next().unwrap_or_default();
    if let Some(word) = before.split_whitespace().find(|word| ["src", "dst", "mode"].contains(word)) {
        return left_out(word);
    }
    let config = text::parse_association(&format!("src {from} dst {to} mode tunnel {}", half.0))
        .map_err(|why| hidden(&why.to_string()))?;
    match config.esp.mode {
        esp::Mode::Transport => left_out("mode"),
        esp::Mode::Tunnel { .. } if (config.src, config.dst) != (from, to) => left_out("src' and 'dst"),
        esp::Mode::Tunnel { .. } => Ok(config),
    }
}

/// Both associations, and what they are called.
fn both(halves: [Result<AssociationConfig, String>; 2]) -> Result<([Id; 2], Configured), Vec<String>> {
    let mut configured = Configured::default();
    let mut add = |name: &str, half: Result<AssociationConfig, String>| {
        let config = half.map_err(|why| format!("{name}: {why}"))?;
        let id = config.id();
        configured.add(config).map(|()| id).map_err(|why| format!("{name}: {why}"))
    };
    let [out, inward] = halves;
    match (add("OUT", out), add("IN", inward)) {
        (Ok(out), Ok(inward)) => Ok(([out, inward], configured)),
        (out, inward) => Err([out, inward].into_iter().filter_map(Result::err).collect()),
    }
}

/// Whether a direction's selector, if it has one, lets a packet through.
fn select(association: &Association, packet: &Packet) -> Result<(), Reason> {
    if association.config.selector.is_none() {
        return Ok(());
    }
    let flow = Flow::read(packet.data()).ok_or(Reason::BadLength)?;
    if association.selects(&flow) { Ok(()) } else { Err(Reason::WrongAssociation) }
}

/// How a packet leaves, if the association for the way out is there.
fn choose<'a>(association: Option<&'a Association>, packet: &Packet) -> Choice<'a> {
    let there = association.filter(|association| !association.is_over());
    let usable = there.ok_or(Reason::NoAssociation);
    match usable.and_then(|usable| select(usable, packet).map(|()| usable)) {
        Ok(usable) => Choice::Protect(usable),
        Err(why) => Choice::Not(Verdict::Drop(why)),
    }
}

fn here(cx: &mut Cx<'_>, mtu: usize) -> outbound::Here {
    let (worker, now_ns) = (cx.worker(), cx.now());
    outbound::Here {
        worker,
        now_ns,
        mtu,
        too_big: TOO_BIG,
        splits: false,
        marks: false,
        transport: None,
        // A tunnel takes fragments.
        fragments: usize::MAX,
        is_own: false,
    }
}

fn outward(cx: &mut Cx<'_>, database: &Database, id: Id, mtu: usize, batch: Batch) {
    let here = here(cx, mtu);
    in_parts(cx, batch, 0, |part, reader| {
        let association = database.inbound(id.dst, id.spi, reader).map(Arc::as_ref);
        protect(part, database, here, |packet| choose(association, packet))
    });
}

fn inward(cx: &mut Cx<'_>, database: &Database, id: Id, batch: Batch) {
    // Messages of IKE have nowhere to go: without a connected output they drop.
    let here = inbound::Here { worker: cx.worker(), now_ns: cx.now(), ike: usize::MAX };
    in_parts(cx, batch, OPENED, |part, reader| {
        let association = database.inbound(id.dst, id.spi, reader).map(Arc::as_ref);
        let find = |dst, spi| association.filter(|_| Id { dst, spi } == id);
        accept(part, (database, reader), here, find, |packet, association| select(association, packet))
    });
}

impl EspTunnel {
    /// Sends the dummy packets and keep-alives that are due.
    fn fill(&mut self, cx: &mut Cx<'_>) {
        let (Some(Following { database, .. }), Some([out, _])) = (&self.following, self.ids) else { return };
        let now = cx.now();
        cx.set_timer(FILL, now + period(self.fill_to));
        let mut rng = Rng::with_seed(cx.random().u64(..));
        let (here, mut made) = (here(cx, self.follow.or(self.mtu)), Tending::default());
        if let Some(association) = database.inbound(out.dst, out.spi, cx.rcu()) {
            self.filler.tend((association, self.fill_to), database, here, &mut rng, &mut made);
        }
        self.filler.end_round();
        database.tidy();
        if !made.batch.is_empty() {
            cx.made(made.batch.len());
            cx.push(0, made.batch);
        }
    }
}

impl EspTunnel {
    fn associations(&self, now: Nanos) -> String {
        let Some(Following { database, .. }) = &self.following else { return String::new() };
        let there = self.ids.into_iter().flatten().filter_map(|id| database.association(id));
        there.map(|association| text::show_state(&association, Keys::Hidden, now) + "\n").collect()
    }
}

impl Element for EspTunnel {
    fn configure(&mut self, args: &mut Args<'_>) {
        let (End(local), End(remote)) = (args.required("LOCAL"), args.required("REMOTE"));
        let (out, inward): (Half, Half) = (args.keyword_required("OUT"), args.keyword_required("IN"));
        self.mtu = args.keyword_in("MTU", 1500, outbound::MTUS);
        self.follow = LinkMtu::from_args(args);
        if !args.errors().is_empty() {
            return;
        }
        let halves = [config(&out, local, remote), config(&inward, remote, local)];
        if let [Ok(out), Ok(inward)] = &halves {
            self.fill_to = out.esp.rules.fill_to;
            self.is_tended = self.fill_to > 0 || out.esp.rules.keep_alive_s > 0;
            let Rules { fill_to, keep_alive_s, .. } = inward.esp.rules;
            for word in [(fill_to > 0, "dummies"), (keep_alive_s > 0, "keepalive")] {
                if let (true, word) = word {
                    let sender = "for OUT, and the other end sends those that come";
                    args.error(format!("IN: leave out '{word}': they are {sender}"));
                }
            }
        }
        match both(halves) {
            Ok((ids, configured)) => {
                (self.ids, self.following) = (Some(ids), Some(Following::new(&args.rcu, configured)));
            }
            Err(errors) => errors.into_iter().for_each(|why| args.error(why)),
        }
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        if let Some(following) = &mut self.following {
            following.open(cx, cx.predecessor::<Tunnel>().map(|tunnel| tunnel.0.clone()))?;
        }
        Ok(Tasks::None)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if cx.is_home() {
            self.following.iter().for_each(|following| following.tick(cx));
            if self.is_tended {
                self.fill(cx);
            }
        }
        self.follow.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        match timer {
            LOOK => self.follow.look(cx, timer),
            FILL => self.fill(cx),
            _ => self.following.iter().for_each(|following| following.tick(cx)),
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        let (Some(Following { database, .. }), Some([out, inner])) = (&self.following, self.ids) else {
            return;
        };
        if port == 0 {
            outward(cx, database, out, self.follow.or(self.mtu), batch)
        } else {
            inward(cx, database, inner, batch)
        }
        database.tidy();
    }
}

impl Provide for EspTunnel {
    fn provide(&self) -> Option<Provided> {
        let following = self.following.as_ref()?;
        Some(Arc::new(Tunnel(following.database.clone())))
    }
}

impl SharedState for EspTunnel {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

impl DeviceQueues for EspTunnel {
    fn acquire(&mut self, cx: &mut Cx<'_>, _: &mut DevicePool) {
        self.following.iter().for_each(|following| following.go_on(cx, None));
    }
}

impl HotSwap for EspTunnel {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<EspTunnel>(old) else { return false };
        self.following.iter().for_each(|following| following.go_on(cx, old.following.as_ref()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::{KEY, packet};
    use crate::testing::Rig;
    use element::Reason;

    fn tunnel(local: &str, remote: &str, out: &str, inward: &str) -> String {
        format!(
            "ESPTunnel({local}, {remote}, OUT spi {out} aead aes-gcm {KEY} 128, IN spi {inward} aead aes-gcm {KEY} 128)"
        )
    }

    fn back_to_back(more: &str) -> String {
        let (here, there) = (
            tunnel("192.0.2.1", "192.0.2.2", "0x100", "0x200"),
            tunnel("192.0.2.2", "192.0.2.1", "0x200", "0x100"),
        );
        format!(
            "i :: TestIn -> a :: {here} -> {more} [1]b :: {there}; b[1] -> o0 :: TestOut; b[0] -> [1]a; a[1] -> o1 :: TestOut; Idle -> [0]b;"
        )
    }

    #[test]
    fn packets_of_both_families_go_through() {
        let six = {
            let mut bytes = vec![0; 60];
            let repr =
                wire::ipv6::Repr { payload_len: 20, next_header: wire::Protocol(59), ..Default::default() };
            repr.emit(&mut bytes).unwrap();
            bytes
        };
        let four = packet([10, 1, 0, 1], [10, 2, 0, 1], 60);
        let mut run = Rig::text(&back_to_back("")).inputs(&[&four, &six]).run();
        assert_eq!(run.bytes("o0"), [four, six]);
        let sas = run.read("a.sas");
        assert!(sas.contains("sent 2 top 0 bytes 120 packets 2") && !sas.contains(KEY), "{sas}");
    }

    #[test]
    fn a_swap_goes_on_with_the_same_numbers() {
        let four = packet([10, 1, 0, 1], [10, 2, 0, 1], 60);
        let mut run = Rig::text(&back_to_back("")).inputs(&[&four]).run();
        run.swap(&back_to_back("Null ->")).unwrap();
        run.give("i", vec![packet::Packet::copy_of(&four).unwrap()]);
        let mut run = run.again();
        assert!(run.read("b.sas").contains("sent 0 top 2 "), "{}", run.read("b.sas"));
        assert_eq!(run.drops("b"), []);
    }

    #[test]
    fn mistakes_name_the_direction() {
        let why = |args: &str| {
            Rig::text(&format!(
                "Idle -> e :: ESPTunnel({args}); e -> Discard; Idle -> [1]e; e[1] -> Discard;"
            ))
            .errors()
            .join("\n")
        };
        let half = format!("aead aes-gcm {KEY} 128");
        let text = why(&format!("1.1.1.1, 1.1.1.2, OUT spi 9 {half}, IN spi 0x200 {half}"));
        assert!(text.contains("OUT: SPI 0x9 is reserved") && !text.contains(KEY), "{text}");
        let text = why(&format!("1.1.1.1, ::1, OUT spi 0x900 {half}, IN spi 0x200 {half}"));
        assert!(text.contains("one family"), "{text}");
        let text =
            why(&format!("1.1.1.1, 1.1.1.2, OUT spi 0x900 mode transport {half}, IN spi 0x200 {half}"));
        assert!(text.contains("leave out 'mode'"), "{text}");
        let sel = format!("OUT spi 0x900 sel dst 10.0.0.0/8 {half} mode transport, IN spi 0x200 {half}");
        let text = why(&format!("1.1.1.1, 1.1.1.2, {sel}"));
        assert!(text.contains("leave out 'mode'"), "{text}");
        let sel = sel.replace("mode transport", "src 1.1.1.3");
        let text = why(&format!("1.1.1.1, 1.1.1.2, {sel}"));
        assert!(text.contains("OUT: leave out 'src' and 'dst'"), "{text}");
        for mtu in ["0", "575", "65536"] {
            let text =
                why(&format!("1.1.1.1, 1.1.1.2, OUT spi 0x900 {half}, IN spi 0x200 {half}, MTU {mtu}"));
            assert!(text.contains("MTU") && text.contains("576") && text.contains("65535"), "{text}");
        }
        let text = why(&format!("1.1.1.1, 1.1.1.2, OUT spi 0x900 {half}"));
        assert!(text.contains("IN"), "{text}");
    }

    #[test]
    fn keep_alives_leave_while_nothing_else_does() {
        let (there, every) = ("spi 0x200 encap espinudp 4500 61000", " keepalive 20");
        let out = |more| format!("spi 0x100 encap espinudp 61000 4500{more} aead aes-gcm {KEY} 128");
        for (ends, more, count) in [
            (("192.0.2.1", "192.0.2.2"), every, 3),
            (("2001:db8::1", "2001:db8::2"), every, 3),
            (("192.0.2.1", "192.0.2.2"), "", 0),
        ] {
            let text = format!(
                "Idle -> e :: ESPTunnel({}, {}, OUT {}, IN {there} aead aes-gcm {KEY} 128) -> o0 :: TestOut; Idle -> [1]e; e[1] -> Discard;",
                ends.0,
                ends.1,
                out(more)
            );
            let run = Rig::text(&text).ready().run_for(std::time::Duration::from_millis(62_500));
            let sent = run.bytes("o0");
            assert_eq!(sent.len(), count, "{ends:?}{more}");
            for packet in sent {
                let ip_len = if packet[0] >> 4 == 4 { 20 } else { 40 };
                assert_eq!(
                    (packet[ip_len..ip_len + 6].to_vec(), packet.len()),
                    (vec![238, 72, 17, 148, 0, 9], ip_len + 9)
                );
                assert_eq!(packet[ip_len + 8], 0xff);
            }
        }
        let inward = format!("OUT {}, IN {there} keepalive 9 aead aes-gcm {KEY} 128", out(""));
        let errors = Rig::text(&format!(
            "Idle -> e :: ESPTunnel(1.1.1.1, 1.1.1.2, {inward}); e -> Discard; Idle -> [1]e; e[1] -> Discard;"
        ));
        assert!(errors.errors().join("").contains("IN: leave out 'keepalive'"));
    }

    #[test]
    fn strangers_are_dropped() {
        let text = format!(
            "i :: TestIn -> [1]e :: {}; e[1] -> o0 :: TestOut; Idle -> e -> Discard;",
            tunnel("192.0.2.1", "192.0.2.2", "0x100", "0x200")
        );
        let clear = packet([192, 0, 2, 2], [192, 0, 2, 1], 60);
        let run = Rig::text(&text).inputs(&[&clear]).run();
        assert_eq!(run.drops("e"), [(Reason::NoAssociation, 1)]);
    }
}
