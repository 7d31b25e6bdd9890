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
//! * `MTU` the longest packet in bytes that may leave, protected; default 1500. `FOLLOW` elements with devices, whose lowest MTU takes its place.
//!
//! The tunnel carries packets of both families. Manual keys never change by themselves: after a restart sequence numbers begin again, so the other end must be restarted, too, or have no
//! anti-replay window. Use a key for one direction only.
//!
//! **Metadata:** packets begin with their IP header. Sets the destination annotation: to REMOTE, or to the destination of what was protected. Packets for output 2 have
//! the longest length that would fit in the miscellaneous annotation.
//!
//! **Drops:** those of IPsecEncrypt and IPsecDecrypt, without those of policies.
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
//! See also: IPsecDatabase, IPsecEncrypt, IPsecDecrypt, IPEncap. RFC 4303

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use engine::args::{Args, FromArg, Names};
use engine::{
    Class, Cx, Element, Handler, HandlerError, InitCx, OpenCx, Provided, Reason, Sharing, Tasks, swap,
};
use ipsec::text::{self, Keys};
use ipsec::{Association, AssociationConfig, Database, Flow, Id};
use packet::{Batch, Packet};

use super::database::{hidden, secrets};
use super::inbound::{self, accept};
use super::outbound::{self, Choice, Fate, in_parts, protect};
use crate::io::mtu::LinkMtu;

/// The descriptor.
pub const CLASS: Class = Class::new("ESPTunnel", "2/2-3", || Box::new(EspTunnel::default()))
    .processing("h/h")
    .sharing(Sharing::Shared)
    .secrets(secrets)
    .handlers(&[Handler::read("sas")])
    .file(file!());

/// The timer by which links are looked at.
const LOOK: u32 = 0;
/// The timer of what ends by time.
const ENDS: u32 = 1;
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
    /// Both directions: out and in.
    configs: Option<Arc<[AssociationConfig; 2]>>,
    tunnel: Option<Arc<Tunnel>>,
    mtu: usize,
    follow: LinkMtu,
}

/// Both associations, and a database of their own, which counts for them.
struct Tunnel {
    database: Database,
    out: Arc<Association>,
    inward: Arc<Association>,
}

impl Tunnel {
    fn new(configs: &[AssociationConfig; 2], workers: usize) -> Result<Tunnel, String> {
        let database = Database::new(&sync::rcu::Domain::default(), workers);
        let add = |config: &AssociationConfig, name| {
            database.add(config.clone(), false, 0).map_err(|why| format!("{name}: {why}"))
        };
        let (out, inward) = (add(&configs[0], "OUT")?, add(&configs[1], "IN")?);
        Ok(Tunnel { database, out, inward })
    }
}

fn config(half: &Half, from: IpAddr, to: IpAddr) -> Result<AssociationConfig, String> {
    let words = ["src", "dst", "mode"];
    // A selector has words of its own.
    let before = half.0.split(" sel ").next().unwrap_or_default();
    if let Some(word) = before.split_whitespace().find(|word| words.contains(word)) {
        return Err(format!("leave out '{word}': LOCAL and REMOTE are the ends, and a tunnel is what it is"));
    }
    text::parse_association(&format!("src {from} dst {to} mode tunnel {}", half.0))
        .map_err(|why| hidden(&why.to_string()))
}

/// Whether a direction's selector, if it has one, lets a packet through.
fn is_selected(association: &Association, packet: &Packet) -> bool {
    association.config.selector.is_none()
        || Flow::read(packet.data()).is_none_or(|flow| association.selects(&flow))
}

fn outward(cx: &mut Cx<'_>, tunnel: &Tunnel, mtu: usize, batch: Batch) {
    let here = outbound::Here { worker: cx.worker(), now_ns: cx.now(), mtu, too_big: TOO_BIG };
    in_parts(cx, batch, 0, |part, _| {
        protect(part, &tunnel.database, here, |packet| match is_selected(&tunnel.out, packet) {
            true => Choice::Protect(&tunnel.out),
            false => Choice::Not(Fate::Drop(Reason::WrongAssociation)),
        })
    });
}

fn inward(cx: &mut Cx<'_>, tunnel: &Tunnel, batch: Batch) {
    // Messages of IKE have nowhere to go: without a connected output they drop.
    let here = inbound::Here { worker: cx.worker(), now_ns: cx.now(), ike: usize::MAX };
    let id = tunnel.inward.id();
    let find = |dst, spi| (Id { dst, spi } == id).then_some(&*tunnel.inward);
    in_parts(cx, batch, OPENED, |part, _| {
        accept(part, &tunnel.database, here, find, |packet, association| {
            match is_selected(association, packet) {
                true => Ok(()),
                false => Err(Reason::WrongAssociation),
            }
        })
    });
}

impl EspTunnel {
    /// Ends what time has ended.
    fn tick(&self, cx: &mut Cx<'_>) {
        let Some(tunnel) = &self.tunnel else { return };
        let now = cx.now();
        if let Some(at) = tunnel.database.tick(now) {
            cx.set_timer(ENDS, at.max(now + 1));
        }
    }
}

impl Element for EspTunnel {
    fn configure(&mut self, args: &mut Args<'_>) {
        let (End(local), End(remote)) = (args.required("LOCAL"), args.required("REMOTE"));
        let (out, inward): (Half, Half) = (args.keyword_required("OUT"), args.keyword_required("IN"));
        self.mtu = args.keyword("MTU", 1500);
        self.follow = LinkMtu::from_args(args);
        if !args.errors().is_empty() {
            return;
        }
        let configs = [("OUT", out, local, remote), ("IN", inward, remote, local)]
            .map(|(name, half, from, to)| config(&half, from, to).map_err(|why| format!("{name}: {why}")));
        match configs {
            [Ok(out), Ok(inward)] => {
                let configs = [out, inward];
                match Tunnel::new(&configs, 1) {
                    Ok(_) => self.configs = Some(Arc::new(configs)),
                    Err(why) => args.error(why),
                }
            }
            configs => configs.into_iter().filter_map(Result::err).for_each(|why| args.error(why)),
        }
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        let Some(configs) = &self.configs else { return Ok(Tasks::None) };
        self.tunnel = Some(Arc::new(Tunnel::new(configs, cx.workers)?));
        // The same tunnel goes on: its numbers must not come twice.
        if let Some(before) = cx.predecessor::<Tunnel>()
            && [&before.out.config, &before.inward.config] == [&configs[0], &configs[1]]
        {
            self.tunnel = Some(before);
        }
        Ok(Tasks::None)
    }

    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if cx.is_home() {
            self.tick(cx);
        }
        self.follow.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        match timer {
            LOOK => self.follow.look(cx, timer),
            _ => self.tick(cx),
        }
    }

    fn provide(&self) -> Option<Provided> {
        self.tunnel.clone().map(|tunnel| tunnel as Provided)
    }

    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        swap::same::<EspTunnel>(old).is_some()
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        let Some(tunnel) = &self.tunnel else { return };
        if port == 0 {
            outward(cx, tunnel, self.follow.or(self.mtu), batch)
        } else {
            inward(cx, tunnel, batch)
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>, _: &str, _: &str) -> Result<String, HandlerError> {
        let now = cx.now();
        let show = |association: &Arc<Association>| text::show_state(association, Keys::Hidden, now) + "\n";
        Ok(self.tunnel.as_ref().map_or_else(String::new, |tunnel| show(&tunnel.out) + &show(&tunnel.inward)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::{KEY, packet};
    use crate::testing::Rig;
    use engine::Reason;

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
        let text = why(&format!("1.1.1.1, 1.1.1.2, OUT spi 0x900 {half}"));
        assert!(text.contains("IN"), "{text}");
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
