// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the elements that resolve neighbours have in common, for IPv4 and IPv6.

use std::fmt::{Display, Write as _};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

use element::args::Args;
use element::clock::Nanos;
use element::stats::{self, Stat};
use element::{
    Class, Cx, Element, Handler, HandlerError, HotSwap, InitCx, LockUse, LongHandlers, PacketHolder, Provide,
    Provided, Reason, Rest, SharedState, Statistics, When, declare, handlers, swap,
};
use packet::{Batch, Packet};
use sync::lock::{AdaptiveLock, How};
use tables::neighbour::{self, Admission, Config, Discipline, Fed, Loss, Neighbours, Retries, Share, State};
use wire::MacAddr;

use crate::tools::time_ns;

/// An address as tables hold it and as people read it.
pub trait Address: neighbour::Address {
    /// The form with a text.
    type Text: Display + FromStr;

    /// From a text's form.
    fn from_text(text: Self::Text) -> Self;

    /// To a text's form.
    fn to_text(self) -> Self::Text;

    /// Whose share of a table a packet counts to: by the device it came from, and by its source address.
    fn share(packet: &Packet) -> Share;

    /// Whose share of what is asked it counts to: where hosts of one link have one share of the table, each has its own here.
    fn sender(packet: &Packet) -> Share;
}

/// The lock of a neighbour table, the element's own or that of the element named by TABLE.
pub(crate) fn locks(owner: Option<&str>, asks: bool) -> Vec<LockUse> {
    let why = if asks {
        "packets for neighbours that are not known, or that no worker's cache knows, write it, as do answers and timers; all others read a cache"
    } else {
        "who is heard of is written to it"
    };
    let lock = LockUse::new(How::Adaptive, "the neighbour table", When::Exceptions, why);
    vec![LockUse { owner: owner.map(str::to_owned), ..lock }]
}

impl Address for u32 {
    type Text = Ipv4Addr;

    fn from_text(text: Ipv4Addr) -> u32 {
        text.to_bits()
    }

    fn to_text(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self)
    }

    fn share(packet: &Packet) -> Share {
        let source =
            packet.network_chunk::<20>().map_or(0, |ip| u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]));
        Share { interface: packet.device().into(), source: source.into() }
    }

    fn sender(packet: &Packet) -> Share {
        Self::share(packet)
    }
}

impl Address for u128 {
    type Text = Ipv6Addr;

    fn from_text(text: Ipv6Addr) -> u128 {
        text.to_bits()
    }

    fn to_text(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self)
    }

    fn share(packet: &Packet) -> Share {
        // By /64: a host may take any address in its own.
        let prefix = packet.network_chunk::<40>().and_then(|ip| ip[8..16].first_chunk().copied());
        Share { interface: packet.device().into(), source: u64::from_be_bytes(prefix.unwrap_or_default()) }
    }

    fn sender(packet: &Packet) -> Share {
        let host = packet.network_chunk::<40>().and_then(|ip| ip[16..24].first_chunk().copied());
        let Share { interface, source } = Self::share(packet);
        Share { interface, source: source.rotate_left(32) ^ u64::from_be_bytes(host.unwrap_or_default()) }
    }
}

/// Neighbours that all workers, and several elements, share.
#[derive(Debug)]
pub struct Table<A: Address = u32> {
    /// Taken for what the workers' caches do not know.
    pub neighbours: AdaptiveLock<Neighbours<Packet, A>>,
}

impl<A: Address> Table<A> {
    /// An empty table.
    pub fn new(config: Config) -> Arc<Table<A>> {
        // The order of entries never depends on the seed.
        let seed = RandomState::new().hash_one(0);
        Arc::new(Table { neighbours: AdaptiveLock::new(Neighbours::new(config, seed)) })
    }

    /// A worker's limit on packets for neighbours that are not known.
    pub fn admission(&self) -> Admission {
        self.neighbours.lock().admission(RandomState::new().hash_one(1))
    }

    /// Takes over what another one holds.
    pub fn take(&self, old: &Table<A>) {
        if !std::ptr::eq(self, old) {
            self.neighbours.lock().take(&mut old.neighbours.lock());
        }
    }

    /// How many it has, unless somebody is in it at the moment.
    pub fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        if let Some(neighbours) = self.neighbours.try_lock() {
            put(&stats::TABLE_ENTRIES, neighbours.len() as u64);
        }
    }

    /// The table as its handler prints it: address, whether it is known, Ethernet address, age; and more for `states`.
    pub fn text(&self, now: Nanos, states: bool) -> String {
        let mut text = String::new();
        // Workers wait for the lock, but not for the text.
        let neighbours: Vec<_> = self.neighbours.lock().iter(now).collect();
        for n in neighbours {
            let known = u8::from(n.state != State::Incomplete);
            let age_us = n.age_ns / 1000;
            let (ip, mac) = (n.ip.to_text(), MacAddr(n.mac));
            let (whole, part) = (age_us / 1_000_000, age_us % 1_000_000);
            let _ = write!(text, "{ip} {known} {mac:#} {whole}.{part:06}");
            if states {
                let name = format!("{:?}", n.state).to_lowercase();
                let router = if n.router { " router" } else { "" };
                let _ = write!(text, " {name} {}{router}", n.waiting);
            }
            text.push('\n');
        }
        text
    }

    /// Executes `insert`, `delete` or `clear`; returns packets that waited for what was inserted.
    ///
    /// # Errors
    /// When the value is not what the handler expects.
    pub fn write(&self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<Batch, HandlerError> {
        let expected = if name == "insert" { "IP ETH [permanent]" } else { "IP" };
        let bad = || HandlerError::bad_value(name, value, expected);
        let now = cx.now();
        let mut words = value.split_ascii_whitespace();
        let mut lost = Lost::default();
        let mut sent = Batch::new();
        if name == "clear" {
            self.neighbours.lock().clear(|p, why| lost.note(p, why));
        } else {
            let ip = words.next().and_then(|w| w.parse().ok()).map(A::from_text).ok_or_else(bad)?;
            if name == "insert" {
                let MacAddr(mac) = words.next().and_then(|w| w.parse().ok()).ok_or_else(bad)?;
                let permanent = words.next().map(|word| (word == "permanent").then_some(()).ok_or_else(bad));
                let mut table = self.neighbours.lock();
                let waited = match permanent.transpose()? {
                    Some(()) => table.feed(ip, Fed::Permanent(mac), now, |p, why| lost.note(p, why)),
                    None => table.insert(ip, mac, now, |p, why| lost.note(p, why)),
                };
                sent.extend(waited);
            } else {
                self.neighbours.lock().remove(ip);
            }
        }
        lost.drop_all(cx, None);
        Ok(sent)
    }

    /// Executes these write handlers for a table that is an element. It has no outputs to send packets that waited: the next packet asks again.
    ///
    /// # Errors
    /// The value is wrong.
    pub fn change(&self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let sent = self.write(cx, name, value)?;
        cx.drop_batch(Reason::NoNeighbour, sent);
        Ok(())
    }

    /// Begins those of these handlers that list the table, see [`element::LongHandlers::read_apart`].
    pub fn read_apart(self: &Arc<Self>, now: Nanos, name: &str) -> Option<Rest<String>> {
        let states = match name {
            "table" => false,
            "states" => true,
            _ => return None,
        };
        let table = self.clone();
        Some(Box::new(move || Ok(table.text(now, states))))
    }
}

/// An element that is a table.
pub(crate) struct NeighbourTable<A: Listed> {
    table: Arc<Table<A>>,
    first: bool,
}

/// What tables of the address families differ in.
pub(crate) trait Listed: Address {
    /// Queries for a neighbour before it is given up, where the configuration does not say.
    const QUERIES: u32;

    /// Limits and times, where the configuration does not say.
    fn config() -> Config;

    /// Prepares a table when it is opened.
    fn prepare(cx: &mut InitCx<'_>, table: &Table<Self>);
}

impl<A: Listed> Default for NeighbourTable<A> {
    fn default() -> Self {
        NeighbourTable { table: Table::new(A::config()), first: true }
    }
}

impl<A: Listed> OverTable<A> for NeighbourTable<A> {
    fn table(&self) -> &Table<A> {
        &self.table
    }
}

impl<A: Listed> NeighbourTable<A> {
    /// Declares what elements of this type can do besides processing packets.
    pub const fn with_capabilities(class: Class) -> Class {
        class
            .provide::<Self>()
            .statistics::<Self>()
            .packet_holder::<Self>()
            .long_handlers::<Self>()
            .shared_state::<Self>()
            .hot_swap::<Self>()
    }
}

impl<A: Listed> Element for NeighbourTable<A> {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.table = Table::new(config(args, A::config(), A::QUERIES));
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if self.first {
            A::prepare(cx, &self.table);
        }
        Ok(())
    }
}

impl<A: Listed> Provide for NeighbourTable<A> {
    fn provide(&self) -> Option<Provided> {
        Some(self.table.clone())
    }
}

impl<A: Listed> Statistics for NeighbourTable<A> {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        self.table.stats(put);
    }
}

impl<A: Listed> PacketHolder for NeighbourTable<A> {
    fn held(&self) -> usize {
        if self.first { self.table.neighbours.lock().waiting() } else { 0 }
    }
}

impl<A: Listed> LongHandlers for NeighbourTable<A> {
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Option<Rest<String>> {
        self.table.read_apart(cx.now(), name)
    }
}

impl<A: Listed> SharedState for NeighbourTable<A> {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(NeighbourTable { table: self.table.clone(), first: false }))
    }
}

impl<A: Listed> HotSwap for NeighbourTable<A> {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        swap::same::<Self>(old).map(|old| self.table.take(&old.table)).is_some()
    }
}

/// An element over such a table.
pub trait OverTable<A: Address>: Element {
    /// The table.
    fn table(&self) -> &Table<A>;
}

/// Handlers that show the table.
pub const fn reads<A: Address, T: OverTable<A>>() -> [Handler; 5] {
    *handlers! { T:
        read "table" => |element, cx| element.table().text(cx.now(), false);
        read "states" => |element, cx| element.table().text(cx.now(), true);
        read "unresolved" => |element| element.table().neighbours.lock().unresolved();
        read "count" => |element| element.table().neighbours.lock().len();
        read "length" => |element| element.table().neighbours.lock().waiting();
    }
}

/// Handlers of an element that is a table.
pub const fn of_table<A: Address, T: OverTable<A>>() -> [Handler; 9] {
    declare::joined(&[
        &reads::<A, T>(),
        handlers! { T:
            read "drops" => |element| element.table().neighbours.lock().drops();
            write "insert" => |element, cx, text: &str| element.table().change(cx, "insert", text)?;
            write "delete" => |element, cx, text: &str| element.table().change(cx, "delete", text)?;
            write "clear" => |element, cx| element.table().change(cx, "clear", "")?;
        },
    ])
}

/// The number by which a table identifies the element that asks for neighbours. It stays the same when the configuration is
/// replaced and the table goes on.
pub fn owner(cx: &Cx<'_>) -> u32 {
    // FNV-1a.
    cx.name().bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Packets that did not get their answer, by reason.
#[derive(Default)]
pub struct Lost {
    queue: Batch,
    table: Batch,
    unreachable: Batch,
    cleared: Batch,
}

impl Lost {
    /// Takes one.
    pub fn note(&mut self, packet: Packet, why: Loss) {
        match why {
            Loss::QueueFull => self.queue.push(packet),
            Loss::TableFull => self.table.push(packet),
            Loss::Unreachable => self.unreachable.push(packet),
            Loss::Cleared => self.cleared.push(packet),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        [&self.queue, &self.table, &self.unreachable, &self.cleared].iter().all(|batch| batch.is_empty())
    }

    /// Drops them and says how many, but sends those whose neighbour does not answer to output `unreachable`, if that is
    /// connected.
    pub fn drop_all(self, cx: &mut Cx<'_>, unreachable: Option<usize>) -> usize {
        let reported = unreachable.filter(|port| cx.connected(*port) && !self.unreachable.is_empty());
        let silent = if reported.is_some() { 0 } else { self.unreachable.len() };
        let dropped = self.queue.len() + self.table.len() + self.cleared.len() + silent;
        if dropped > 0 {
            cx.drop_batch(Reason::NeighbourQueueFull, self.queue);
            cx.drop_batch(Reason::NeighbourTableFull, self.table);
            cx.drop_batch(Reason::NoNeighbour, self.cleared);
        }
        match reported {
            Some(port) => cx.push_joined(port, self.unreachable),
            None if silent > 0 => cx.drop_batch(Reason::NoNeighbour, self.unreachable),
            None => {}
        }
        dropped
    }
}

/// Reads the keywords that tables and those who use them have in common. `tries` is the default of RETRIES.
pub fn config(args: &mut Args<'_>, default: Config, tries: u32) -> Config {
    let retries = match default.discipline {
        Discipline::Timed(retries) => retries,
        _ => Retries::default(),
    };
    let tries = args.keyword("RETRIES", tries);
    let retries = Retries {
        multicast: tries,
        unicast: tries,
        retransmit_ns: time_ns(args, "RETRY_INTERVAL", retries.retransmit_ns),
        delay_ns: time_ns(args, "PROBE_DELAY", retries.delay_ns),
    };
    let config = Config {
        capacity: args.keyword("CAPACITY", default.capacity),
        entry_capacity: args.keyword("ENTRY_CAPACITY", default.entry_capacity),
        entry_packet_capacity: args.keyword("ENTRY_PACKET_CAPACITY", default.entry_packet_capacity),
        unresolved_capacity: args.keyword("UNRESOLVED_CAPACITY", default.unresolved_capacity),
        new_per_second: args.keyword("NEW_RATE", default.new_per_second),
        unknown_per_second: args.keyword("UNKNOWN_RATE", default.unknown_per_second),
        slim_factor: args.keyword("CAPACITY_SLIM_FACTOR", default.slim_factor),
        timeout_ns: time_ns(args, "TIMEOUT", default.timeout_ns),
        poll_ns: time_ns(args, "POLL_TIMEOUT", default.poll_ns),
        discipline: if tries == 0 { Discipline::OnDemand } else { Discipline::Timed(retries) },
    };
    if config.slim_factor == 0 {
        args.error("CAPACITY_SLIM_FACTOR must not be 0");
    }
    if tries != 0 && retries.retransmit_ns < 1_000_000 {
        args.error("RETRY_INTERVAL must be 1 ms or more");
    }
    config
}

/// When a timer should look after the packets that wait, and the neighbours that are asked.
pub fn next_event_ns<A: Address>(table: &Neighbours<Packet, A>, owner: u32) -> Option<Nanos> {
    let expiry = table.next_expiry_ns().filter(|_| table.waiting() > 0);
    [table.next_timer_ns(owner), expiry].into_iter().flatten().min()
}
