// SPDX-License-Identifier: MIT OR Apache-2.0
//! # RadixIPsecLookup, IPsecRouteTable
//!
//! `RadixIPsecLookup(ADDR/MASK [GATEWAY] OUTPUT [SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE], ...)`
//!
//! Looks up IPv4 routes, as RadixIPLookup does, and says to which IPsec security association a packet belongs. The elements behind it encrypt and decrypt
//! by that: IPsecESPEncap, IPsecAuthHMACSHA1, IPsecAES, IPsecDES, IPsecESPUnencap. It is here for configurations of Click. Its keys are fixed and its
//! algorithms obsolete; a new tunnel needs others.
//!
//! **Ports:** 1 input, any number of outputs, push. Outputs 0 to 2 mean something:
//! * 0 is for packets to this router. Those with ESP leave here with the association of their SPI; all others leave by output 2.
//! * 1 is for packets that enter a tunnel. They leave with the association of their route.
//! * 2 and above are as in other lookup elements.
//!
//! **Arguments:** one route each. Of two arguments with the same prefix the first counts, and a warning names it.
//! * `ADDR/MASK` prefix; a bare address is a host route.
//! * `GATEWAY` next hop; none or `-` leaves the destination as it is.
//! * `OUTPUT` output number.
//! * `SPI` the association's number in packets, 1 to 4294967295. Routes with one SPI have one association, so all else must be the same.
//! * `ENCRYPT_KEY`, `AUTH_KEY` 16 bytes each: `\<0183 A947 ...>`, 32 hexadecimal digits, or 16 characters.
//! * `REPLAY` the first sequence number, 1 to 4294967295; both ends must have the same.
//! * `OOSIZE` packets that may come late by so many, 0 to 255. With 0, each must be newer than all before.
//!
//! An association serves both directions, with a counter for what is sent and a window for what comes. So an attacker who records a packet of ours can send it
//! back to us once, and it passes. Give each direction its own SPI and keys where you can: one on a route to output 1, the peer's on a route to output 0.
//!
//! **Metadata:** destination annotation read, and set to the gateway; `IPSEC_SPI` and the association's number set. The association's number takes
//! the place of the first timestamp. Packets of output 1 whose route has no association have neither.
//!
//! **Drops:** `no-route`, of which the first five are printed; `no-sa`, ESP with an unknown SPI; `esp-fragment` (put an IPReassembler before);
//! `too-short`, `bad-version`, `bad-header-length` for packets to output 0 that are no IPv4 packets; `no-output`.
//!
//! **Handlers**
//! * `table` read: all routes. Keys are shown as `***`.
//! * `lookup` read with an address: output and gateway for it.
//! * `associations` read: for each SPI, how many routes have it, the next number, the highest that came, and the window.
//! * `add` write: adds a route; fails if there is one for the prefix. `set` write: adds or replaces.
//! * `remove` write: removes the route of a prefix, given with or without gateway and output.
//! * `ctrl` write: several lines of `add`, `set` and `remove`, all or none.
//!
//! # Differences from Click
//! * Packets to this router that are not ESP leave by output 2, as Click's manual says. Click drops nearly all of them.
//! * A key may be 32 hexadecimal digits, as in Click's example `ipsec-router.click`, which Click refuses.
//! * A number that has come before never passes, and numbers do not begin again. Click forgets all it has seen when the number REPLAY comes again.
//! * An association keeps its numbers when a new configuration agrees on the same one.
//!
//! ```click
//! rt :: RadixIPsecLookup(18.26.4.24/32 0, 18.26.4.1/32 3, 18.26.7.1/32 2, 18.26.7.0/24 4,
//!     18.26.8.0/24 18.26.4.1 1 234 ABCDEFFF001DEFD2354550FE40CD708E 112233EE556677888877665544332211 300 64);
//! Idle -> GetIPAddress(16) -> rt;
//! rt[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1) -> IPsecEncap(50) -> rt;
//! rt[0] -> StripIPHeader -> IPsecAES(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap -> CheckIPHeader -> rt;
//! rt[2], rt[3], rt[4] -> Discard;
//! ```
//!
//! See also: IPsecESPEncap, RadixIPLookup. RFC 4301, RFC 4303

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use element::Policy;
use element::args::Args;
use element::stats::{self, Stat};
use element::{
    Class, Cx, Element, Handler, HandlerError, HotSwap, InitCx, LockUse, Locking, LongHandlers, OpenCx,
    OwnHandlers, Provide, Provided, Reason, Rest, SharedState, Sharing, Statistics, Tasks, When, swap,
};
use packet::{Batch, Packet};
use sync::lock::How;
use sync::rcu;
use tables::fib4::Fib4Reader;
use tables::next_hop::{NextHopId, NextHopReader};

use super::association::{Associations, unmark};
use super::route::{RouteTarget, secrets};
use super::table::{Table, Tunnels, Verb};
use crate::tools::Splitter;

const HANDLERS: &[Handler] = &[
    Handler::read("table"),
    Handler::read("lookup"),
    Handler::read("associations"),
    Handler::write("add"),
    Handler::write("set"),
    Handler::write("remove"),
    Handler::write("ctrl"),
];

const fn class(name: &'static str) -> Class {
    Class::new(name, "1/-", || Box::<RadixIpsecLookup>::default())
        .processing("h/h")
        .sharing(Sharing::Shared)
        .handlers(HANDLERS)
        .secrets(secrets)
        .pure()
        .hot_swap::<RadixIpsecLookup>()
        .shared_state::<RadixIpsecLookup>()
        .locking::<RadixIpsecLookup>()
        .own_handlers::<RadixIpsecLookup>()
        .long_handlers::<RadixIpsecLookup>()
        .statistics::<RadixIpsecLookup>()
        .provide::<RadixIpsecLookup>()
        .file(file!())
}

/// The descriptor.
pub const CLASS: Class = class("RadixIPsecLookup");
/// The descriptor of a synonym: the class that Click derives the other one from.
pub const TABLE: Class = class("IPsecRouteTable");

/// Where packets to this router go.
const TO_US: u32 = 0;
/// Where packets enter a tunnel.
const TUNNEL: u32 = 1;
/// Where packets to this router go that are not ESP.
const TO_HOST: u32 = 2;
/// ESP in an IP header.
const ESP: u8 = 50;
/// Packets without route that are printed.
const COMPLAINTS: u32 = 5;

#[derive(Default)]
struct RadixIpsecLookup {
    tunnels: Option<Arc<Tunnels>>,
    readers: Option<(Fib4Reader, NextHopReader<RouteTarget>)>,
    complaints: Arc<AtomicU32>,
    splitter: Splitter,
    keys: Vec<u32>,
    found: Vec<u32>,
    verdicts: Vec<Result<u32, Reason>>,
}

/// Where a packet to this router goes, which is marked if it is ESP.
fn receive(rcu: &rcu::Reader, associations: &Associations, packet: &mut Packet) -> Result<u32, Reason> {
    let datagram = packet.network().unwrap_or(packet.data());
    let header: &[u8; 20] = datagram.first_chunk().ok_or(Reason::TooShort)?;
    let header_len = usize::from(header[0] & 15) * 4;
    match () {
        () if header[0] >> 4 != 4 => return Err(Reason::BadVersion),
        () if header_len < 20 => return Err(Reason::BadHeaderLength),
        () if header[9] != ESP => return Ok(TO_HOST),
        // Only the first fragment has an SPI, and none has a digest of its own.
        () if header[6] & 0x3f != 0 || header[7] != 0 => return Err(Reason::EspFragment),
        () => {}
    }
    let spi: &[u8; 4] = datagram.get(header_len..).and_then(<[u8]>::first_chunk).ok_or(Reason::TooShort)?;
    let association = associations.get(rcu, u32::from_be_bytes(*spi)).ok_or(Reason::NoAssociation)?;
    association.mark(packet);
    Ok(TO_US)
}

/// Where a packet goes.
fn judge(
    rcu: &rcu::Reader,
    associations: &Associations,
    way: Option<&RouteTarget>,
    packet: &mut Packet,
) -> Result<u32, Reason> {
    let RouteTarget { gateway, output, spi } = way.ok_or(Reason::NoRoute)?;
    let output = match *output {
        TO_US => receive(rcu, associations, packet)?,
        TUNNEL => {
            match associations.get(rcu, *spi).filter(|_| *spi != 0) {
                Some(association) => association.mark(packet),
                None => unmark(packet),
            }
            TUNNEL
        }
        output => output,
    };
    if !gateway.is_unspecified() {
        packet.set_dst_ip(gateway.octets());
    }
    Ok(output)
}

/// Answers a read handler.
fn answer(tunnels: &Tunnels, name: &str, param: &str) -> Result<String, HandlerError> {
    let table = tunnels.table.lock();
    match name {
        "lookup" => table.lookup(param).map_err(HandlerError::Failed),
        "associations" => Ok(table.show_associations()),
        _ => Ok(table.show_routes()),
    }
}

/// Executes a write handler.
fn change(tunnels: &Tunnels, name: &str, value: &str) -> Result<(), HandlerError> {
    let mut table = tunnels.table.lock();
    let done = match Verb::read(name) {
        Some(verb) => table.change(std::iter::once((verb, value))),
        None => table.control(value),
    };
    done.map_err(HandlerError::Failed)
}

impl RadixIpsecLookup {
    fn tunnels(&self) -> &Arc<Tunnels> {
        self.tunnels.as_ref().expect("configured before use")
    }

    /// Says which destination has no route, for the first few.
    fn complain(complaints: &AtomicU32, cx: &Cx<'_>, packet: &Packet) {
        if complaints.load(Ordering::Relaxed) < COMPLAINTS
            && complaints.fetch_add(1, Ordering::Relaxed) < COMPLAINTS
        {
            let name = if Policy::of_process().as_click { "IPsecRouteTable" } else { cx.name() };
            cx.print(&format!("{name}: no route for {}", Ipv4Addr::from(packet.dst_ip())));
        }
    }
}

impl Element for RadixIpsecLookup {
    fn configure(&mut self, args: &mut Args<'_>) {
        let mut table = match Table::new(&args.rcu, args.noutputs, args.names) {
            Ok(table) => table,
            Err(why) => return args.error(why),
        };
        match table.configure(&args.rest()) {
            Ok(late) => late.iter().for_each(|prefix| {
                args.warning(format!("a further route for {prefix} is ignored, for another came first"));
            }),
            Err(wrong) => wrong.into_iter().for_each(|why| args.error(why)),
        }
        self.tunnels = Some(Arc::new(Tunnels::new(table)));
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        if let Some(live) = cx.predecessor::<Tunnels>() {
            let mut ours = self.tunnels().table.lock();
            let theirs = live.table.lock();
            // The same text as before the swap: what handlers have made of it stays.
            let goes_on = cx.inherits() && ours.is_like(&theirs);
            if !goes_on {
                ours.follow(&theirs)?;
            }
            drop((ours, theirs));
            if goes_on {
                self.tunnels = Some(live);
            }
        }
        Ok(Tasks::None)
    }

    fn initialize(&mut self, _: &mut InitCx<'_>) -> Result<(), String> {
        let readers = self.tunnels().table.lock().readers();
        self.readers = Some(readers);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let RadixIpsecLookup { tunnels: Some(tunnels), readers: Some((fib, ways)), .. } = self else {
            return cx.drop_batch(Reason::NoRoute, batch);
        };
        let (keys, found, verdicts) = (&mut self.keys, &mut self.found, &mut self.verdicts);
        keys.clear();
        keys.extend(batch.iter().map(|packet| u32::from_be_bytes(packet.dst_ip())));
        found.resize(keys.len(), 0);
        fib.lookup_batch(cx.rcu(), keys, found);
        let view = ways.read(cx.rcu());
        verdicts.clear();
        verdicts.extend(
            batch.iter_mut().zip(&*found).map(|(packet, id)| {
                judge(cx.rcu(), &tunnels.associations, view.single(NextHopId(*id)), packet)
            }),
        );
        if verdicts.iter().any(Result::is_err) {
            let (mut next, mut why) = (verdicts.iter(), verdicts.iter().filter_map(|verdict| verdict.err()));
            let goes_on = |_: &mut Packet| next.next().is_some_and(Result::is_ok);
            let complaints = &self.complaints;
            batch.partition(goes_on, |packet| {
                let reason = why.next().unwrap_or(Reason::NoRoute);
                if reason == Reason::NoRoute {
                    Self::complain(complaints, cx, &packet);
                }
                cx.drop(reason, packet);
            });
        }
        let mut outputs = verdicts.iter().flatten();
        self.splitter.split(cx, batch, |_| outputs.next().map_or(0, |output| *output as usize));
    }
}

impl Provide for RadixIpsecLookup {
    fn provide(&self) -> Option<Provided> {
        let tunnels: Arc<Tunnels> = self.tunnels.clone()?;
        Some(tunnels)
    }
}

impl Statistics for RadixIpsecLookup {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if let Some(table) = self.tunnels().table.try_lock() {
            put(&stats::TABLE_ENTRIES, table.len() as u64);
            put(&stats::TABLE_MEMORY, table.bytes() as u64);
        }
    }
}

impl LongHandlers for RadixIpsecLookup {
    fn read_apart(&mut self, _: &mut Cx<'_>, name: &str, param: &str) -> Option<Rest<String>> {
        let (tunnels, name, param) = (self.tunnels.clone()?, name.to_owned(), param.to_owned());
        Some(Box::new(move || answer(&tunnels, &name, &param)))
    }

    fn write_apart(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Option<Rest<Option<String>>> {
        let (tunnels, name, value) = (self.tunnels.clone()?, name.to_owned(), value.to_owned());
        Some(Box::new(move || change(&tunnels, &name, &value).map(|()| None)))
    }
}

impl OwnHandlers for RadixIpsecLookup {
    fn read(&mut self, _: &mut Cx<'_>, name: &str, param: &str) -> Result<String, HandlerError> {
        answer(self.tunnels(), name, param)
    }

    fn write(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        change(self.tunnels(), name, value)
    }
}

impl Locking for RadixIpsecLookup {
    fn locks(&self) -> Vec<LockUse> {
        let why = "changes of routes are made one after the other; lookups read without it";
        vec![LockUse::new(How::Adaptive, "the routes", When::Control, why)]
    }
}

impl SharedState for RadixIpsecLookup {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(RadixIpsecLookup {
            tunnels: self.tunnels.clone(),
            complaints: self.complaints.clone(),
            ..Default::default()
        }))
    }
}

impl HotSwap for RadixIpsecLookup {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let same = |old: &mut Self| Arc::ptr_eq(self.tunnels(), old.tunnels());
        swap::same::<Self>(old).is_some_and(same)
    }
}

#[cfg(test)]
mod tests {
    use packet::anno;

    use super::super::samples::{CLICK, KEYS, clear, sender};
    use super::*;
    use crate::testing::Rig;

    /// A route of output 1 that has no association.
    #[test]
    fn a_route_without_association_leaves_none_on_the_packet() {
        let text = "i :: TestIn -> a :: RadixIPsecLookup(0/0 9.9.9.9 1); a[0] -> Discard; a[1] -> e :: Tee -> o :: TestOut; e[1] -> x :: IPsecESPEncap -> Discard;";
        let mut packet = clear(3);
        packet.set_anno_u32(anno::IPSEC_SA, 7);
        let run = Rig::text(text).packets(vec![packet]).run();
        let out = run.out("o");
        assert_eq!((out[0].dst_ip(), out[0].anno_u32(anno::IPSEC_SA)), ([9, 9, 9, 9], 0));
        assert_eq!(run.drops("x"), [(Reason::NoAssociation, 1)]);
    }

    #[test]
    fn handlers_change_routes_and_show_no_keys() {
        let mut run = Rig::text(&sender(CLICK[0])).packets(vec![clear(1)]).run();
        let table = "0.0.0.0/0\t\t-\t\t0\n10.0.0.0/8\t\t1.0.0.2\t\t1  |TUNNELED CONNECTION| \n|SPI| |ENC KEY| |AUTH KEY| ||\n |234| |***| |***|\n\n";
        assert_eq!(run.read("a.table"), table);
        assert_eq!(run.read("a.associations"), "SPI 234 routes 1 next 301 received 299 window 64\n");
        assert!(
            !run.read("a.config").contains("ABCDEFFF")
                && run.read("a.config").contains("1 234 *** *** 300 64")
        );
        assert_eq!(run.read_with("a.lookup", "10.1.1.1"), "1 1.0.0.2");
        assert_eq!(run.read_with("a.lookup", "11.1.1.1"), "0");
        let keys = KEYS;
        // A second route of the association; one that does not agree; a change of both at once.
        run.write("a.add", &format!("11.0.0.0/8 1.0.0.2 1 234 {keys} 300 64")).unwrap();
        assert_eq!(run.read("a.associations"), "SPI 234 routes 2 next 301 received 299 window 64\n");
        let why =
            run.write("a.add", &format!("12.0.0.0/8 1.0.0.2 1 234 {keys} 301 64")).unwrap_err().to_string();
        assert!(why.contains("SPI 234 would have different keys") && !why.contains("ABCD"), "{why}");
        assert!(run.write("a.set", &format!("11.0.0.0/8 1.0.0.2 1 234 {keys} 301 64")).is_err());
        let both = format!("set 10.0.0.0/8 1 234 {keys} 7 64\nset 11.0.0.0/8 1 234 {keys} 7 64\n");
        run.write("a.ctrl", &both).unwrap();
        assert_eq!(run.read("a.associations"), "SPI 234 routes 2 next 7 received 6 window 64\n");
        let before = run.read("a.table");
        for (handler, value) in [
            ("add", "10.0.0.0/8 1"),
            ("remove", "10.0.0.0/9"),
            ("remove", "10.0.0.0/8 9.9.9.9 1"),
            ("ctrl", "remove 10.0.0.0/8\nremove 10.0.0.0/8"),
            ("ctrl", "remove 10.0.0.0/8\nnonsense"),
            ("set", "10.0.0.0/8 2"),
            ("add", ""),
        ] {
            assert!(run.write(&format!("a.{handler}"), value).is_err(), "{handler} {value}");
            assert_eq!(run.read("a.table"), before);
        }
        run.write("a.ctrl", "remove 11.0.0.0/8\n\nremove 10.0.0.0/8 1").unwrap();
        assert_eq!(
            (run.read("a.associations").as_str(), run.read_with("a.lookup", "10.1.1.1").as_str()),
            ("", "0")
        );
        run.write("a.remove", "0/0").unwrap();
        assert_eq!(run.read_with("a.lookup", "10.1.1.1"), "-1");
        run.give("i", vec![clear(1)]);
        let run = run.again();
        assert_eq!(
            (run.drops("a"), run.printed().as_str()),
            (vec![(Reason::NoRoute, 1)], "a: no route for 10.0.0.1\n")
        );
    }

    #[test]
    fn bad_routes_are_all_reported() {
        let keys = KEYS;
        let errors = Rig::new(&format!(
            "RadixIPsecLookup(1.0.0.0/8 7, 2.0.0.0/8 0 1 {keys} 1 1, x 0, 3.0.0.0/8 0 1 {keys} 2 1)"
        ))
        .errors();
        assert_eq!(
            errors,
            ["e: there is no output 7 (1 are connected)", "e: 'x' is not a prefix (ADDRESS/LENGTH)"]
        );
        let errors =
            Rig::new(&format!("RadixIPsecLookup(2.0.0.0/8 0 1 {keys} 1 1, 3.0.0.0/8 0 1 {keys} 2 1)"))
                .errors();
        assert!(errors[0].contains("SPI 1 would have different keys"), "{errors:?}");
    }
}
