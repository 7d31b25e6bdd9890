// SPDX-License-Identifier: MIT OR Apache-2.0
//! The element of both address families that puts an Ethernet header in front of packets and asks for the neighbours it does not
//! know: ARPQuerier and IP6NDSolicitor. A [`Family`] says what differs: addresses, headers, queries and what answers mean.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use element::args::Args;
use element::clock::Nanos;
use element::program::{Neighbours, Op, Program};
use element::stats::Stat;
use element::{
    Class, Cx, Element, Handler, HandlerError, HotSwap, InitCx, LockUse, Locking, LongHandlers, PacketHolder,
    Reason, Rehearsal, Rehearsed, Rest, SharedState, Statistics, declare, handlers, swap,
};
use packet::{Batch, Packet, anno};
use tables::mac::Mac;
use tables::neighbour::{Admission, Answer, Asker, Config, Due, Loss, NeighbourCache, State, View, Waiting};
use wire::MacAddr;
use wire::ethernet::HEADER_LEN;

use super::neighbours::{self, Address, Listed, Lost, OverTable, Table, next_event_ns, owner};
use super::prepend;
use crate::io::links::Links;
use crate::tools::{Anno, set_earlier};

/// The timer that repeats queries and drops what waited too long.
const EXPIRE: u32 = 0;
/// The timer for looks at the link.
const LINK: u32 = 1;
/// The output for packets whose neighbour does not answer.
const UNREACHABLE: usize = 2;

/// Counts of all workers. All are off the fast path.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    queries: AtomicU64,
    responses: AtomicU64,
    drops: AtomicU64,
    /// Whether the user was warned of packets without a destination.
    warned: AtomicU64,
}

fn count(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

impl Counts {
    /// A query was sent.
    fn note_query(&self) {
        count(&self.queries, 1);
    }

    /// An answer was seen.
    pub(crate) fn note_response(&self) {
        count(&self.responses, 1);
    }

    /// Packets were dropped.
    fn note_drops(&self, n: usize) {
        count(&self.drops, n);
    }

    /// Queries sent, answers seen, packets dropped.
    fn all(&self) -> [u64; 3] {
        [&self.queries, &self.responses, &self.drops].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Takes over what another one counted.
    fn take(&self, other: &Counts) {
        for (mine, theirs) in [
            (&self.queries, &other.queries),
            (&self.responses, &other.responses),
            (&self.drops, &other.drops),
        ] {
            mine.fetch_add(theirs.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// A worker's part in a table of neighbours.
pub(crate) struct Client<A: Address> {
    table_name: Option<String>,
    /// The annotation that says which EtherType a packet leaves with, if it is not the element's own.
    ethertype: Option<Anno<2>>,
    pub(crate) table: Arc<Table<A>>,
    pub(crate) counts: Arc<Counts>,
    cache: Option<NeighbourCache<A>>,
    admission: Option<Admission>,
    /// The instance that reports what the table holds, if it is the element's own.
    first: bool,
    /// How the table calls this element.
    owner: u32,
    /// Of the home instance: the link to the neighbours.
    links: Links,
    had_link: bool,
}

impl<A: Address> Client<A> {
    /// One with a table of its own, until it finds the one of that name.
    fn new(table_name: Option<String>, config: Config) -> Client<A> {
        Client {
            table_name,
            ethertype: None,
            table: Table::new(config),
            counts: Arc::default(),
            cache: None,
            admission: None,
            first: true,
            owner: 0,
            links: Links::default(),
            had_link: true,
        }
    }

    /// The same for another worker.
    fn share(&self) -> Client<A> {
        Client {
            table_name: self.table_name.clone(),
            ethertype: self.ethertype,
            table: self.table.clone(),
            counts: self.counts.clone(),
            cache: None,
            admission: None,
            first: false,
            owner: 0,
            links: Links::default(),
            had_link: true,
        }
    }

    /// Finds the table, an element of class `class` if it has a name, and keeps up to `answers` answers of it.
    ///
    /// # Errors
    /// When there is no table of that name.
    fn initialize(&mut self, cx: &mut InitCx<'_>, class: &str, answers: usize) -> Result<(), String> {
        if let Some(name) = &self.table_name {
            let found = cx.find::<Table<A>>(name);
            self.table = found.ok_or_else(|| format!("TABLE {name}: there is no {class} of this name"))?;
        }
        self.owner = owner(cx);
        self.cache = Some(NeighbourCache::new(&self.table.neighbours.lock(), answers));
        self.admission = Some(self.table.admission());
        if cx.is_home() {
            self.links = Links::behind_output(cx, 0);
            self.links.set_timer(cx, LINK);
        }
        Ok(())
    }

    /// The neighbours this worker knows and need not ask about.
    #[inline]
    fn known(&self, now: Nanos) -> Option<View<'_, A>> {
        Some(self.cache.as_ref()?.view(now))
    }

    /// Forgets the neighbours if the link to them was lost: who is there now may be somebody else.
    fn follow_link(&mut self, cx: &mut Cx<'_>) {
        for change in self.links.look(|_| self.had_link) {
            self.had_link = change.up;
            let mut lost = Lost::default();
            self.table.neighbours.lock().forget_learnt(|p, why| lost.note(p, why));
            self.lose(cx, lost);
        }
        self.links.set_timer(cx, LINK);
    }

    /// While packets wait or neighbours are asked, the instance that began it looks after them.
    fn set_timer(&self, cx: &mut Cx<'_>) {
        let next = next_event_ns(&self.table.neighbours.lock(), self.owner);
        set_earlier(cx, EXPIRE, next);
    }

    /// Drops and counts, or sends to the output for it, what did not get an answer.
    fn lose(&self, cx: &mut Cx<'_>, lost: Lost) {
        self.counts.note_drops(lost.drop_all(cx, Some(UNREACHABLE)));
    }

    /// As [`Client::lose`], where mostly nothing is lost and `lost` is used again.
    fn lose_any(&self, cx: &mut Cx<'_>, lost: &mut Lost) {
        if !lost.is_empty() {
            self.lose(cx, std::mem::take(lost));
        }
    }

    /// Gives packets with a link header the EtherTypes that their annotations say.
    #[inline]
    fn set_types(&self, batch: &mut Batch) {
        if self.ethertype.is_some() {
            batch.iter_mut().for_each(|packet| self.set_type(packet));
        }
    }

    /// Packets that are to leave with another EtherType are not ordinary.
    fn demand_types(&self, program: &mut dyn Program<'_>) {
        if let Some(Anno(at)) = self.ethertype {
            program.add(Op::DemandZero { at, bytes: 2 });
        }
    }

    /// Whether a packet is to leave with another EtherType.
    fn is_typed(&self, packet: &Packet) -> bool {
        self.ethertype.is_some_and(|Anno(at)| packet.anno::<2>(at) != [0; 2])
    }

    fn set_type(&self, packet: &mut Packet) {
        let Some(Anno(at)) = self.ethertype else { return };
        let said: [u8; 2] = packet.anno(at);
        if said == [0; 2] {
            return;
        }
        packet.set_anno(at, [0; 2]);
        if let Some(place) = packet.data_mut().get_mut(HEADER_LEN - 2..).and_then(|b| b.first_chunk_mut()) {
            *place = said;
        }
    }

    fn warn(&self, cx: &mut Cx<'_>) {
        if self.counts.warned.swap(1, Ordering::Relaxed) == 0 {
            let zero = if size_of::<A>() == 4 { "0.0.0.0" } else { "::" };
            let why = "missing dest IP addr annotation?";
            cx.print(&format!("{}: would query for {zero}; {why}", cx.declaration()));
        }
    }

    /// Goes on where another one, in the configuration before, left off.
    fn take_state(&self, cx: &mut Cx<'_>, old: &Client<A>) {
        self.counts.take(&old.counts);
        // A table by name hands itself over.
        if self.table_name.is_none() && old.table_name.is_none() {
            self.table.take(&old.table);
        }
        if cx.router().elements[cx.index()].place.home() == cx.worker() {
            // The element that looked after it before is gone.
            let now = cx.now();
            cx.set_timer(EXPIRE, now);
        }
    }
}

/// What the table says about a neighbour, and until when.
#[inline(never)]
fn ask<A: Address>(table: &Table<A>, owner: u32, cx: &mut Cx<'_>, ip: A, now: Nanos) -> (Answer, Nanos) {
    let mut neighbours = table.neighbours.lock();
    let answer = neighbours.lookup_for(ip, owner, now);
    // Nothing is set for neighbours that are not known, of which there may be a flood.
    let known = answer.0 != Answer::Unknown;
    let next = if known { neighbours.next_timer_ns(owner) } else { None };
    drop(neighbours);
    set_earlier(cx, EXPIRE, next);
    answer
}

/// What a query takes over from the packet that needs it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cause {
    pub(crate) tci: [u8; 2],
    /// Zero for a query that is repeated later.
    pub(crate) timestamp_ns: u64,
}

impl Cause {
    fn of(packet: &Packet) -> Cause {
        Cause { tci: packet.anno(anno::VLAN_TCI), timestamp_ns: packet.timestamp_ns() }
    }
}

/// What differs between IPv4 and IPv6: its settings are the arguments that only this family has.
pub(crate) trait Family: Clone + Default + Send + 'static {
    /// An address as tables hold it.
    type Address: Listed;

    /// The class of tables that TABLE may name.
    const TABLE: &'static str;
    /// Answers each worker keeps.
    const CACHED_ANSWERS: usize;
    /// What the summary calls its queries.
    const QUERIES: &'static str;

    /// Reads the arguments of this family.
    fn configure(&mut self, args: &mut Args<'_>);

    /// Prepares what only this family has.
    ///
    /// # Errors
    /// Why the router cannot start.
    fn initialize(&mut self, _: &mut InitCx<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Does what a timer of this family is for. The timers [`EXPIRE`] and [`LINK`] are not.
    fn run_timer(&mut self, _: &mut Cx<'_>, _timer: u32) {}

    /// Whether it has an address to ask from.
    #[inline]
    fn has_address(&self) -> bool {
        true
    }

    /// Where a packet is to go, zero if that is not said.
    fn destination(packet: &Packet) -> Self::Address;

    /// The Ethernet address of every station, or of a group, if that is what `ip` means.
    fn group(&self, ip: Self::Address) -> Option<Mac>;

    /// The link header of packets to a neighbour.
    fn header(&self, dst: Mac) -> [u8; HEADER_LEN];

    /// A query for `ip`, to one station if `to` is given; `None` when memory is exhausted.
    fn query(&self, ip: Self::Address, cause: Cause, to: Option<Mac>) -> Option<Packet>;

    /// Reads a message, notes in the table what it says, and drops it. Returns packets that waited for it, and where they go.
    fn hear(
        &self,
        cx: &mut Cx<'_>,
        client: &Client<Self::Address>,
        packet: Packet,
        lost: &mut Lost,
    ) -> Option<(Mac, VecDeque<Packet>)>;

    /// What it does to ordinary packets.
    fn op(neighbours: Neighbours<'_, Self::Address>) -> Op<'_>;
}

/// An element that resolves neighbours of one family.
pub(crate) struct Resolver<F: Family> {
    pub(crate) family: F,
    client: Client<F::Address>,
}

impl<F: Family> Default for Resolver<F> {
    fn default() -> Self {
        Resolver { family: F::default(), client: Client::new(None, F::Address::config()) }
    }
}

impl<F: Family> Resolver<F> {
    /// Declares what elements of this type can do besides processing packets.
    pub(crate) const fn with_capabilities(class: Class) -> Class {
        class
            .hot_swap::<Self>()
            .shared_state::<Self>()
            .locking::<Self>()
            .rehearsal::<Self>()
            .long_handlers::<Self>()
            .packet_holder::<Self>()
            .statistics::<Self>()
    }

    /// Handlers that are only read.
    pub(crate) const READS: [Handler; 9] = declare::joined(&[
        &neighbours::reads::<F::Address, Self>(),
        handlers! { Resolver<F>:
            read "queries" => |resolver| resolver.client.counts.all()[0];
            read "responses" => |resolver| resolver.client.counts.all()[1];
            read "drops" => |resolver| resolver.client.counts.all()[2];
            read "stats" => |resolver| {
                let [queries, _, drops] = resolver.client.counts.all();
                format!("{drops} packets killed\n{queries} {} sent\n", F::QUERIES)
            };
        },
    ]);

    /// Handlers that change the table.
    pub(crate) const WRITES: &[Handler] = handlers! { Resolver<F>:
        write "insert" => |resolver, cx, text: &str| resolver.write_table(cx, "insert", text)?;
        write "delete" => |resolver, cx, text: &str| resolver.write_table(cx, "delete", text)?;
        write "clear" => |resolver, cx| resolver.write_table(cx, "clear", "")?;
    };

    /// The table, if it is the element's own.
    pub(crate) fn own_table(&self) -> Option<&Arc<Table<F::Address>>> {
        self.client.table_name.is_none().then_some(&self.client.table)
    }

    /// The neighbours this worker knows and need not ask about, unless there is something to say first.
    #[inline]
    fn known(&self, now: Nanos) -> Option<View<'_, F::Address>> {
        self.client.known(now).filter(|_| self.family.has_address())
    }

    /// Sends a query for `ip`, to one station if `to` is given, on behalf of the packet that needs it.
    #[cold]
    fn query(&self, cx: &mut Cx<'_>, ip: F::Address, cause: Cause, to: Option<Mac>) {
        let Some(mut query) = self.family.query(ip, cause, to) else { return };
        query.set_timestamp_ns(cause.timestamp_ns);
        self.client.counts.note_query();
        cx.made(1);
        cx.push_one(1.min(cx.noutputs() - 1), query);
    }

    /// Reads messages, and sends what waited for them.
    fn learn(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        let mut lost = Lost::default();
        for packet in batch.drain(..) {
            let heard = self.family.hear(cx, &self.client, packet, &mut lost);
            self.client.lose_any(cx, &mut lost);
            if let Some((mac, waited)) = heard.filter(|(_, waited)| !waited.is_empty()) {
                self.send_to(cx, mac, waited);
            }
        }
    }

    /// What follows the destination address in the link header.
    fn header_rest(&self) -> [u8; 8] {
        let header = self.family.header([0; 6]);
        std::array::from_fn(|i| header[6 + i])
    }

    /// The Ethernet address for a packet to `ip`, if it is known; sends a query when it is old.
    #[inline]
    fn resolve(&mut self, cx: &mut Cx<'_>, packet: &Packet, ip: F::Address, now: Nanos) -> Option<Mac> {
        if let Some(mac) = self.family.group(ip) {
            return Some(mac);
        }
        let Client { table, owner, cache, .. } = &mut self.client;
        match cache.as_mut()?.lookup(ip, now, || ask(table, *owner, cx, ip, now)) {
            Answer::Known { mac, query } => {
                if query {
                    self.query(cx, ip, Cause::of(packet), Some(mac));
                }
                Some(mac)
            }
            Answer::Unknown => None,
        }
    }

    /// What would become of a packet for a neighbour.
    fn rehearse_sending(&self, cx: &mut Cx<'_>, mut packet: Packet) -> Rehearsed {
        let (now, ip) = (cx.now(), F::destination(&packet));
        if ip == F::Address::default() {
            cx.drop(Reason::NoNeighbour, packet);
            return Rehearsed::Done;
        }
        let table = || self.client.table.neighbours.lock().get(ip, now);
        let mac =
            self.family.group(ip).or_else(|| table().filter(|n| n.state != State::Incomplete).map(|n| n.mac));
        match mac {
            Some(mac) if prepend(&mut packet, &self.family.header(mac)) => {
                self.client.set_type(&mut packet);
                Rehearsed::passes(packet)
            }
            Some(_) => {
                cx.drop(Reason::NoMemory, packet);
                Rehearsed::Done
            }
            None => Rehearsed::Keeps(
                "until the link address of its next hop is known, for which it would ask".into(),
            ),
        }
    }

    /// Sends the packets whose neighbours are known, then sees to the others.
    fn send(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        let now = cx.now();
        let nowhere = F::Address::default();
        let mut others = Batch::new();
        // Packets of a batch mostly share their next hop.
        let mut last = (nowhere, [0; HEADER_LEN]);
        batch.partition(
            |p| {
                let ip = F::destination(p);
                if ip != last.0 || ip == nowhere {
                    if ip == nowhere {
                        return false;
                    }
                    let Some(mac) = self.resolve(cx, p, ip, now) else { return false };
                    last = (ip, self.family.header(mac));
                }
                prepend(p, &last.1)
            },
            |p| others.push(p),
        );
        self.client.set_types(&mut batch);
        cx.push(0, batch);
        if !others.is_empty() {
            self.send_slowly(cx, others, now);
        }
    }

    /// Lets packets wait for neighbours that are not known, as far as the limit on those admits them.
    #[cold]
    fn send_slowly(&mut self, cx: &mut Cx<'_>, mut batch: Batch, now: Nanos) {
        let mut lost = Lost::default();
        let mut waits = false;
        for packet in batch.drain(..) {
            let ip = F::destination(&packet);
            if ip == F::Address::default() {
                self.client.warn(cx);
                lost.note(packet, Loss::Cleared);
                continue;
            }
            let known = || {
                let [a, b, c, d, e, f, ..] = *self.client.known(now)?.get(ip)?;
                Some([a, b, c, d, e, f])
            };
            if let Some(mac) = self.family.group(ip).or_else(known) {
                // It was the header for which there was no room.
                self.send_to(cx, mac, [packet]);
                continue;
            }
            let client = &mut self.client;
            let admits =
                |admission: &mut Admission| admission.admits(|| F::Address::sender(&packet), ip, now);
            if !client.admission.as_mut().is_none_or(admits) {
                lost.note(packet, Loss::TableFull);
                continue;
            }
            let asker = Asker { owner: client.owner, share: F::Address::share(&packet) };
            waits = true;
            self.wait(cx, ip, packet, asker, now, &mut lost);
        }
        self.client.lose(cx, lost);
        if waits {
            self.client.set_timer(cx);
        }
    }

    /// Lets a packet wait for the neighbour, and asks for that if it is time.
    fn wait(
        &mut self,
        cx: &mut Cx<'_>,
        ip: F::Address,
        packet: Packet,
        asker: Asker,
        now: Nanos,
        lost: &mut Lost,
    ) {
        let cause = Cause::of(&packet);
        let mut table = self.client.table.neighbours.lock();
        let waiting = table.wait_for(ip, packet, asker, now, |p, why| lost.note(p, why));
        drop(table);
        match waiting {
            Waiting::Queued { query: true } => self.query(cx, ip, cause, None),
            Waiting::Queued { query: false } => {}
            Waiting::Known(mac, packet) => self.send_to(cx, mac, [packet]),
            Waiting::Refused(packet, why) => lost.note(packet, why),
        }
    }

    /// Sends packets to a neighbour.
    fn send_to(&mut self, cx: &mut Cx<'_>, mac: Mac, packets: impl IntoIterator<Item = Packet>) {
        let header = self.family.header(mac);
        let mut batch: Batch = packets.into_iter().collect();
        let mut lost = Batch::new();
        batch.partition(|p| prepend(p, &header), |p| lost.push(p));
        self.client.set_types(&mut batch);
        self.client.counts.note_drops(lost.len());
        cx.drop_batch(Reason::NoMemory, lost);
        cx.push_joined(0, batch);
    }

    /// Asks again where nobody answered, and gives up what waited too long.
    fn look_after(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let mut lost = Lost::default();
        let mut queries = Vec::new();
        let client = &self.client;
        let mut table = client.table.neighbours.lock();
        table.advance(client.owner, now, |due| match due {
            Due::Query(ip, to) => queries.push((ip, to)),
            Due::Unreachable(_, waited) => waited.into_iter().for_each(|p| {
                // Elements that answer with ICMP errors expect the EtherType of this element.
                let why = if client.is_typed(&p) { Loss::Cleared } else { Loss::Unreachable };
                lost.note(p, why);
            }),
        });
        // Entries that nobody waits for make room when something new comes.
        if table.waiting() > 0 {
            table.expire(now, |p, why| lost.note(p, why));
        }
        drop(table);
        for (ip, to) in queries {
            self.query(cx, ip, Cause::default(), to);
        }
        self.client.lose(cx, lost);
        self.client.set_timer(cx);
    }

    /// Executes the table's write handlers, and sends what waited for what was inserted.
    fn write_table(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let mut sent = self.client.table.write(cx, name, value)?;
        if let Some(mac) = sent.first().and_then(|_| value.split_ascii_whitespace().nth(1)?.parse().ok()) {
            let MacAddr(mac) = mac;
            self.send_to(cx, mac, sent.drain(..));
        }
        Ok(())
    }
}

impl<F: Family> OverTable<F::Address> for Resolver<F> {
    fn table(&self) -> &Table<F::Address> {
        &self.client.table
    }
}

impl<F: Family> Element for Resolver<F> {
    fn configure(&mut self, args: &mut Args<'_>) {
        // Who wants to report unreachable neighbours wants a verdict.
        let tries = if args.noutputs > UNREACHABLE { 3 } else { F::Address::QUERIES };
        let config = neighbours::config(args, F::Address::config(), tries);
        let table_name = args.keyword_opt("TABLE");
        self.family.configure(args);
        self.client = Client::new(table_name, config);
        self.client.ethertype = args.keyword_opt("ETHERTYPE_ANNO");
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.family.initialize(cx)?;
        self.client.initialize(cx, F::TABLE, F::CACHED_ANSWERS)?;
        if let Some(table) = self.own_table().filter(|_| self.client.first) {
            F::Address::prepare(cx, table);
        }
        Ok(())
    }

    fn program<'a>(&'a self, now: Nanos, program: &mut dyn Program<'a>) {
        self.client.demand_types(program);
        program.add(F::op(Neighbours { known: self.known(now), rest: self.header_rest() }));
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        if port != 0 {
            return self.learn(cx, batch);
        }
        if !self.family.has_address() {
            self.client.counts.note_drops(batch.len());
            return cx.drop_batch(Reason::Inactive, batch);
        }
        self.send(cx, batch);
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        match timer {
            LINK => self.client.follow_link(cx),
            EXPIRE => self.look_after(cx),
            _ => self.family.run_timer(cx, timer),
        }
    }
}

impl<F: Family> Statistics for Resolver<F> {
    fn stats(&self, put: &mut dyn FnMut(&'static Stat, u64)) {
        // A named table reports its own statistics.
        if let Some(table) = self.own_table() {
            table.stats(put);
        }
    }
}

impl<F: Family> PacketHolder for Resolver<F> {
    fn held(&self) -> usize {
        // One instance counts them.
        let own = self.own_table().filter(|_| self.client.first);
        own.map_or(0, |table| table.neighbours.lock().waiting())
    }

    fn held_by(&self) -> Option<&str> {
        self.client.table_name.as_deref()
    }
}

impl<F: Family> LongHandlers for Resolver<F> {
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, _: &str) -> Option<Rest<String>> {
        self.client.table.read_apart(cx.now(), name)
    }
}

impl<F: Family> Rehearsal for Resolver<F> {
    fn rehearse(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) -> Rehearsed {
        match port {
            0 if !self.family.has_address() => {
                cx.drop(Reason::Inactive, packet);
                Rehearsed::Done
            }
            0 => self.rehearse_sending(cx, packet),
            _ => Rehearsed::Leaves("it would be read for what it says about neighbours".into()),
        }
    }
}

impl<F: Family> Locking for Resolver<F> {
    fn locks(&self) -> Vec<LockUse> {
        neighbours::locks(self.client.table_name.as_deref(), true)
    }
}

impl<F: Family> SharedState for Resolver<F> {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(Resolver { family: self.family.clone(), client: self.client.share() }))
    }
}

impl<F: Family> HotSwap for Resolver<F> {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        swap::same::<Self>(old).map(|old| self.client.take_state(cx, &old.client)).is_some()
    }
}
