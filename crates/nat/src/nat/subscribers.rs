// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inside addresses: which outside address each has, and which of its ports.
//!
//! A subscriber has one outside address for as long as it has a session (RFC 4787, REQ-2). A port at which everyone may send to its owner is nobody else's for some
//! time afterwards (RFC 6888, REQ-8). The same holds for a block of ports that had such a port: see `held.rs`.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use fastrand::Rng;

use super::Cause;
use super::held::{Held, HeldBlock};
use crate::hosts::Hosts;
use crate::journal::{Change, Event, Journal, Lack, Log, What};
use crate::policy::{Allocation, Policy, SECOND, Translation, nth};
use crate::ports::{Kind, PortSpace, Wanted};

/// Outside addresses that are tried for a subscriber, after the first two.
const TRIED: u64 = 64;
/// Ports that wait which are looked at for one that need not, at most.
const WAITING: usize = 64;
/// How often it is noted in a second that there was no room.
const LACKS: u32 = 16;
/// More outside addresses than this give the room of protocols back that they have no port of.
const ROOMY: usize = 64;

/// By what an inside address gets ports.
pub(super) enum Grant<'a> {
    /// A translation.
    Of(&'a Translation),
    /// The router's own address: it keeps its ports if they are free, else it gets one of these.
    Own(Option<(u16, u16)>),
}

impl Grant<'_> {
    /// What the translation with this number gives, or what the router itself gets.
    pub(super) fn by(
        policy: &Policy,
        by: Option<u16>,
        own: impl FnOnce() -> Option<(u16, u16)>,
    ) -> Grant<'_> {
        let translation = by.and_then(|by| policy.translations.get(usize::from(by)));
        translation.map_or_else(|| Grant::Own(own()), Grant::Of)
    }
}

/// A block of ports.
#[derive(Clone, Copy, Debug)]
struct Block {
    first: u16,
    size: u16,
    used: u16,
    /// Whether everyone could send to one of its ports.
    was_open: bool,
    /// It was held before.
    held: Option<HeldBlock>,
}

impl Block {
    fn new(first: u16, size: u16) -> Block {
        Block { first, size, used: 0, was_open: false, held: None }
    }

    fn range(&self) -> (u16, u16) {
        range_of(self.first, self.size)
    }
}

/// An inside address.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) outside: u32,
    /// The translation; none for the router itself.
    pub(super) by: Option<u16>,
    pub(super) sessions: u32,
    /// Outside ports, by [`Kind`].
    pub(super) ports: [u32; 3],
    blocks: Vec<Block>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    /// IPv6 hosts. A subscriber is one of their networks.
    pub(super) hosts: Hosts,
    all: HashMap<u32, Account>,
    spaces: HashMap<u32, PortSpace>,
    /// Blocks in use, by outside address.
    blocks: HashMap<u32, u32>,
    /// Ports that are nobody's for a while, since a time; the oldest first.
    waiting: VecDeque<(u64, Kind, u32, u16)>,
    /// The same for blocks.
    pub(super) held: Held,
    /// For how long.
    pub(super) hold_ns: u64,
    now_ns: u64,
    /// The second in which there was no room last, and how often that was noted.
    lacks: (u64, u32),
    pub(super) journal: Journal,
    /// What is noted; nothing while a packet is only tried.
    pub(super) log: Log,
    /// Whether a packet is only tried.
    pub(super) is_trying: bool,
}

/// How many blocks a range has.
fn blocks((low, high): (u16, u16), size: u16) -> u32 {
    (u32::from(high - low) + 1) / u32::from(size)
}

impl Subscribers {
    /// The ports of an outside address.
    pub(super) fn space(&mut self, outside: u32) -> &mut PortSpace {
        self.spaces.entry(outside).or_default()
    }

    /// Time goes on: ports that have waited are free.
    #[inline]
    pub(super) fn pass(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        let is_over = |since_ns: u64| since_ns.saturating_add(self.hold_ns) <= now_ns;
        // As many as a burst of packets may take.
        for _ in 0..64 {
            let Some((_, kind, outside, port)) = self.waiting.front().copied().filter(|one| is_over(one.0))
            else {
                break;
            };
            self.waiting.pop_front();
            self.spaces.entry(outside).or_default().free(kind, port);
        }
        for _ in 0..64 {
            let Some(block) = self.held.oldest().filter(|block| is_over(block.since_ns)) else { break };
            self.held.take(&block);
            self.spaces.entry(block.outside).or_default().release(block.range());
        }
    }

    /// Whether a port or a block that has waited is free at this time.
    #[inline]
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        let is_over = |since_ns: u64| since_ns.saturating_add(self.hold_ns) <= now_ns;
        self.waiting.front().is_some_and(|one| is_over(one.0))
            || self.held.oldest().is_some_and(|block| is_over(block.since_ns))
    }

    /// Gives the room of addresses back that are not outside ones, and have no port that is in use or waits.
    pub(super) fn tidy(&mut self, is_outside: impl Fn(u32) -> bool) {
        self.spaces.retain(|address, space| {
            space.shrink();
            is_outside(*address) || !space.is_empty()
        });
        self.blocks.retain(|address, used| is_outside(*address) || *used > 0);
    }

    /// How many outside addresses have ports in use.
    #[cfg(test)]
    pub(super) fn addresses(&self) -> usize {
        self.spaces.len()
    }

    /// The time that has passed.
    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Notes what happened, if that is noted.
    #[inline]
    pub(super) fn note(&mut self, level: Log, what: impl FnOnce(&Hosts) -> What) {
        if self.log >= level {
            let what = what(&self.hosts);
            debug_assert_eq!(what.level(), level);
            self.journal.note(Event { at_ns: self.now_ns, what });
        }
    }

    fn note_block(&mut self, change: Change, inside: u32, outside: u32, block: Block) {
        let ports = range_of(block.first, block.size);
        self.note(Log::Blocks, |hosts| What::Block {
            change,
            inside: hosts.name(inside),
            outside: outside.into(),
            ports,
        });
    }

    fn note_port(&mut self, change: Change, kind: Kind, inside: (u32, u16), outside: (u32, u16)) {
        self.note(Log::Ports, |hosts| port_event(hosts, change, kind.protocol(), inside, outside));
    }

    /// Notes that there was no room for a session, a few times a second at most: hosts can cause any number of such events.
    pub(super) fn note_lack(&mut self, policy: &Policy, lack: Lack, protocol: u8, inside: (u32, u16)) {
        let second = self.now_ns / SECOND;
        if self.log < Log::Blocks {
            return;
        }
        if self.lacks.0 != second {
            self.lacks = (second, 0);
        }
        if self.lacks.1 < LACKS {
            self.lacks.1 += 1;
            let what = self.no_room(policy, lack, protocol, inside);
            self.note(Log::Blocks, |_| what);
        }
    }

    /// That there was no room for a session, with what there is too little of.
    fn no_room(&self, policy: &Policy, lack: Lack, protocol: u8, inside: (u32, u16)) -> What {
        let by = match crate::hosts::is_stand_in(inside.0) {
            true => self.hosts.translation(inside.0),
            false => policy.translation(inside.0),
        };
        let translation = by.and_then(|by| policy.translations.get(by));
        let account = self.all.get(&self.hosts.subscriber(inside.0));
        let number = match lack {
            Lack::Sessions => policy.sessions as u32,
            Lack::Ports => translation.map_or(0, |translation| translation.line),
            Lack::Limit => translation.zip(account).map_or(0, |(translation, account)| {
                let of_kind = Kind::of(protocol).map_or(0, |kind| account.ports[kind as usize]);
                match translation.allocation {
                    _ if account.sessions >= translation.sessions_max => translation.sessions_max,
                    _ if of_kind >= translation.ports_max => translation.ports_max,
                    Allocation::Blocks { size, most } => u32::from(size) * u32::from(most),
                    _ => translation.ports_max,
                }
            }),
        };
        let alone = translation.and_then(|translation| match translation.pool[..] {
            [one] if one.count() == 1 => Some(one.first),
            _ => None,
        });
        let outside = account.map(|account| account.outside).or(alone).filter(|_| lack == Lack::Ports);
        let inside = (self.hosts.name(inside.0), inside.1);
        What::NoRoom { lack, protocol, inside, outside: outside.map(Into::into), number }
    }

    /// All accounts, with their inside addresses.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IpAddr, &Account)> {
        self.all.iter().map(|(address, account)| (self.hosts.name(*address), account))
    }

    /// The blocks of an account: the first port of each and how many ports are in use.
    pub(super) fn blocks_of(account: &Account) -> impl Iterator<Item = (u16, u16)> + '_ {
        account.blocks.iter().map(|block| (block.first, block.used))
    }

    /// The outside address of an inside one.
    pub(super) fn outside_of(&self, inside: u32) -> Option<u32> {
        self.all.get(&self.hosts.subscriber(inside)).map(|account| account.outside)
    }

    /// Counts a session more or less.
    pub(super) fn session(&mut self, inside: u32, more: i32) {
        if let Some(account) = self.all.get_mut(&self.hosts.subscriber(inside)) {
            account.sessions = account.sessions.saturating_add_signed(more);
        }
    }

    /// Goes on with the journal of others, whose ports these have, too, or which have come back.
    pub(super) fn take_journal(&mut self, others: &mut Subscribers) {
        (self.journal, self.now_ns) = (std::mem::take(&mut others.journal), others.now_ns);
        for (since_ns, kind, outside, port) in std::mem::take(&mut others.waiting) {
            self.wait(since_ns, kind, outside, port);
        }
        for block in std::mem::take(&mut others.held).iter() {
            self.hold(block);
        }
    }

    /// A port, if it is free, is nobody's for a while.
    pub(super) fn wait(&mut self, since_ns: u64, kind: Kind, outside: u32, port: u16) {
        let space = self.space(outside);
        if !space.is_used(kind, port) {
            space.take(kind, port);
            self.waiting.push_back((since_ns, kind, outside, port));
        }
    }

    /// A block, if none of its ports is in use, is nobody's for a while.
    fn hold(&mut self, block: HeldBlock) {
        let space = self.space(block.outside);
        if space.is_free(block.range()) {
            space.hold(block.range());
            self.held.put(block);
        }
    }

    /// Notes the blocks that others had, and these have not. `are_open`: everyone could send to their ports, so that they are held.
    pub(super) fn note_blocks_lost(&mut self, others: &Subscribers, are_open: bool) {
        for (inside, account) in &others.all {
            let name = others.hosts.name(*inside);
            let now = self.hosts.subscriber_named(name).and_then(|inside| self.all.get(&inside));
            let now = now.filter(|now| now.outside == account.outside);
            let is_gone =
                |block: &&Block| now.is_none_or(|now| now.blocks.iter().all(|b| b.first != block.first));
            let blocks: Vec<Block> = account.blocks.iter().filter(is_gone).copied().collect();
            for block in blocks {
                let (since_ns, Block { first, size, .. }) = (self.now_ns, block);
                if block.was_open || are_open {
                    self.hold(HeldBlock { since_ns, owner: name, outside: account.outside, first, size });
                }
                let ports = block.range();
                let (inside, outside) = (name, account.outside.into());
                self.note(Log::Blocks, |_| What::Block { change: Change::Ends, inside, outside, ports });
            }
        }
    }

    /// Forgets an inside address that has nothing.
    pub(super) fn forget_idle(&mut self, inside: u32) {
        let inside = self.hosts.subscriber(inside);
        if self.all.get(&inside).is_some_and(|account| account.sessions == 0 && account.ports == [0; 3]) {
            self.all.remove(&inside);
        }
    }

    /// Makes an account for an inside address, unless it has one, if it may begin another session.
    pub(super) fn admit(
        &mut self,
        inside: u32,
        by: Option<u16>,
        grant: &Grant<'_>,
        kind: Option<Kind>,
        rng: &mut Rng,
    ) -> Result<(), Cause> {
        if let Some(account) = self.all.get(&self.hosts.subscriber(inside)) {
            let most = if let Grant::Of(translation) = grant { translation.sessions_max } else { u32::MAX };
            return if account.sessions < most { Ok(()) } else { Err(Cause::SubscriberLimit) };
        }
        let outside = match grant {
            Grant::Own(_) => inside,
            Grant::Of(translation) if translation.pool.is_empty() => return Err(Cause::NoAddress),
            Grant::Of(translation) => self.choose(translation, inside, kind, rng).ok_or(Cause::NoPort)?,
        };
        self.enter(inside, by, outside);
        Ok(())
    }

    /// Makes an account with this outside address.
    pub(super) fn enter(&mut self, inside: u32, by: Option<u16>, outside: u32) {
        let new = Account { outside, by, sessions: 0, ports: [0; 3], blocks: Vec::new() };
        self.all.entry(self.hosts.subscriber(inside)).or_insert(new);
    }

    /// An outside address for a new subscriber: of two at random the one with more free ports (Mitzenmacher 2001), else one after the other.
    fn choose(
        &mut self,
        translation: &Translation,
        inside: u32,
        kind: Option<Kind>,
        rng: &mut Rng,
    ) -> Option<u32> {
        if translation.allocation == Allocation::Deterministic {
            return translation.determined(inside).map(|(address, _)| address);
        }
        let count = translation.pool.iter().map(|range| range.count()).sum::<u64>();
        let used = |spaces: &HashMap<u32, PortSpace>, address: u32| {
            spaces
                .get(&address)
                .map_or(0, |space| Kind::ALL.iter().map(|kind| space.used(*kind)).sum::<u32>())
        };
        let [one, other] = [rng.u64(..count), rng.u64(..count)].map(|at| nth(&translation.pool, at));
        let better = match (one?, other?) {
            (one, other) if used(&self.spaces, other) < used(&self.spaces, one) => other,
            (one, _) => one,
        };
        // Who comes back finds the block that is held for nobody else.
        let held = self.held.of(self.hosts.name(self.hosts.subscriber(inside)), None);
        let again = held.filter(|block| fits(translation, block)).map(|block| block.outside);
        if let Some(again) =
            again.filter(|outside| translation.pool.iter().any(|range| range.holds(*outside)))
        {
            return Some(again);
        }
        if self.has_room(translation, better, kind, false) {
            return Some(better);
        }
        let from = rng.u64(..count);
        let address = |n: u64| nth(&translation.pool, (from + n) % count);
        // Better ports that should wait than none.
        [false, true].into_iter().find_map(|with_held| {
            let mut tried = (0..count.min(TRIED)).filter_map(address);
            tried.find(|address| self.has_room(translation, *address, kind, with_held))
        })
    }

    /// Whether a new subscriber would find a port; `with_held`: also one that should wait.
    fn has_room(&self, translation: &Translation, outside: u32, kind: Option<Kind>, with_held: bool) -> bool {
        let (Some(space), Some(kind)) = (self.spaces.get(&outside), kind) else { return true };
        match translation.allocation {
            Allocation::Blocks { size, .. } => {
                let used = self.blocks.get(&outside).copied().unwrap_or_default();
                let held = space.held() / u32::from(size);
                let all = blocks(translation.ports, size);
                used + if with_held { 0 } else { held } < all
            }
            _ if space.used(kind) < translation.width() => true,
            _ if space.used_in(kind, translation.ports) < translation.width() => true,
            _ => with_held && self.waiting.iter().take(WAITING).any(|one| (one.1, one.2) == (kind, outside)),
        }
    }

    /// Takes an outside port for an inside address and port.
    pub(super) fn take_port(
        &mut self,
        (kind, wanted): (Kind, Wanted),
        inside: (u32, u16),
        grant: &Grant<'_>,
        rng: &mut Rng,
    ) -> Result<(u32, u16), Cause> {
        let subscriber = self.hosts.subscriber(inside.0);
        let blocks = |all: &Subscribers| all.all.get(&subscriber).map_or(0, |account| account.blocks.len());
        let before = blocks(self);
        let found = self.find_port((kind, wanted), (subscriber, inside.1), grant, rng);
        let Ok((outside, port)) = found else {
            self.forget_idle(subscriber);
            return found;
        };
        if blocks(self) > before
            && let Some(block) = self.all.get(&subscriber).and_then(|account| account.blocks.last().copied())
        {
            self.note_block(Change::Begins, subscriber, outside, block);
        }
        self.note_port(Change::Begins, kind, inside, (outside, port));
        found
    }

    fn find_port(
        &mut self,
        (kind, wanted): (Kind, Wanted),
        (inside, own): (u32, u16),
        grant: &Grant<'_>,
        rng: &mut Rng,
    ) -> Result<(u32, u16), Cause> {
        let name = self.hosts.name(inside);
        let account = self.all.get_mut(&inside).ok_or(Cause::NoPort)?;
        let outside = account.outside;
        let space = self.spaces.entry(outside).or_default();
        let port = match grant {
            Grant::Own(_) if !space.is_used(kind, own) => {
                space.take(kind, own);
                Some(own)
            }
            Grant::Own(range) => range.and_then(|range| space.take_any(kind, range, rng)),
            Grant::Of(translation) if account.ports[kind as usize] >= translation.ports_max => {
                return Err(Cause::SubscriberLimit);
            }
            Grant::Of(translation) => match translation.allocation {
                Allocation::Random => {
                    let port = take(space, kind, translation.ports, wanted, rng);
                    // Better a port that should wait than none.
                    port.or_else(|| {
                        let is_free = |one: &(u64, Kind, u32, u16)| {
                            let (low, high) = translation.ports;
                            (one.1, one.2) == (kind, outside) && low <= one.3 && one.3 <= high
                        };
                        let at = self.waiting.iter().take(WAITING).position(is_free)?;
                        match self.is_trying {
                            true => self.waiting.get(at).map(|(_, _, _, port)| *port),
                            false => self.waiting.remove(at).map(|(_, _, _, port)| port),
                        }
                    })
                }
                Allocation::Deterministic => {
                    let (_, range) = translation.determined(inside).ok_or(Cause::NoPort)?;
                    take(space, kind, range, wanted, rng)
                }
                Allocation::Blocks { size, most } => {
                    let mut in_block = |wanted: Wanted, space: &mut PortSpace, rng: &mut Rng| {
                        account.blocks.iter_mut().find_map(|block| {
                            let port = space.take_wanted(kind, block.range(), wanted, rng)?;
                            block.used += 1;
                            Some(port)
                        })
                    };
                    let mut port = in_block(wanted, space, rng);
                    if port.is_none() && wanted != Wanted::Any {
                        port = in_block(Wanted::Any, space, rng);
                    }
                    let in_block = port;
                    if in_block.is_none() && account.blocks.len() >= usize::from(most) {
                        return Err(Cause::SubscriberLimit);
                    }
                    in_block.or_else(|| {
                        let new =
                            another_block(&mut self.held, space, (translation, size), (name, outside), rng)?;
                        account.blocks.push(Block { used: 1, ..new });
                        *self.blocks.entry(outside).or_default() += 1;
                        take(space, kind, new.range(), wanted, rng)
                    })
                }
            },
        };
        let port = port.ok_or(Cause::NoPort)?;
        account.ports[kind as usize] += 1;
        Ok((outside, port))
    }

    /// Takes a certain port of an inside address, which has an account, if it is free and the translation may give it.
    pub(super) fn claim(&mut self, kind: Kind, inside: u32, port: u16, grant: &Grant<'_>) -> bool {
        let inside = self.hosts.subscriber(inside);
        let Some(account) = self.all.get_mut(&inside) else { return false };
        let space = self.spaces.entry(account.outside).or_default();
        if space.is_used(kind, port) {
            return false;
        }
        if let Grant::Of(translation) = grant {
            let (low, high) = match translation.allocation {
                Allocation::Deterministic => match translation.determined(inside) {
                    Some((_, range)) => range,
                    None => return false,
                },
                _ => translation.ports,
            };
            if port < low || port > high {
                return false;
            }
            if let Allocation::Blocks { size, most } = translation.allocation {
                let number = (port - low) / size;
                // What is left at the end is no block.
                if u32::from(number) >= blocks((low, high), size) {
                    return false;
                }
                let first = low + number * size;
                match account.blocks.iter().position(|block| block.first == first) {
                    Some(at) => account.blocks[at].used += 1,
                    None if account.blocks.len() < usize::from(most)
                        && space.is_free(range_of(first, size)) =>
                    {
                        account.blocks.push(Block { used: 1, ..Block::new(first, size) });
                        *self.blocks.entry(account.outside).or_default() += 1;
                    }
                    None => return false,
                }
            }
        }
        space.take(kind, port);
        account.ports[kind as usize] += 1;
        true
    }

    /// Gives an outside port back. `waits`: everyone could send to it, so nobody else gets it at once.
    pub(super) fn give_back(
        &mut self,
        kind: Kind,
        host: (u32, u16),
        (outside, port): (u32, u16),
        grant: &Grant<'_>,
        waits: bool,
    ) {
        let inside = self.hosts.subscriber(host.0);
        let is_random = matches!(grant, Grant::Of(Translation { allocation: Allocation::Random, .. }));
        let is_waiting = |one: &(u64, Kind, u32, u16)| (one.1, one.2, one.3) == (kind, outside, port);
        if self.is_trying && self.waiting.iter().take(WAITING).any(is_waiting) {
            // It was only tried, and goes on to wait.
        } else if waits && is_random {
            self.waiting.push_back((self.now_ns, kind, outside, port));
        } else {
            let is_roomy = self.spaces.len() > ROOMY;
            let space = self.space(outside);
            space.free(kind, port);
            if is_roomy {
                space.shrink();
            }
        }
        let Some(account) = self.all.get_mut(&inside) else { return };
        account.ports[kind as usize] = account.ports[kind as usize].saturating_sub(1);
        let holds = |block: &Block| block.first <= port && port - block.first < block.size;
        if matches!(grant, Grant::Of(_))
            && let Some(at) = account.blocks.iter().position(holds)
        {
            account.blocks[at].used -= 1;
            account.blocks[at].was_open |= waits;
            if account.blocks[at].used == 0 {
                let block = account.blocks.swap_remove(at);
                self.give_block_back(inside, outside, block);
            }
        }
        self.note_port(Change::Ends, kind, host, (outside, port));
        self.forget_idle(inside);
    }

    /// A subscriber has no port of a block any more.
    fn give_block_back(&mut self, inside: u32, outside: u32, block: Block) {
        if let Some(used) = self.blocks.get_mut(&outside) {
            *used = used.saturating_sub(1);
        }
        self.note_block(Change::Ends, inside, outside, block);
        let (since_ns, Block { first, size, .. }) = (self.now_ns, block);
        let owner = self.hosts.name(inside);
        let held = block.was_open.then_some(HeldBlock { since_ns, owner, outside, first, size });
        // One that was taken for a moment, or only tried, goes on to be held.
        held.or(block.held).into_iter().for_each(|block| self.hold(block));
    }
}

/// Whether a block that is held is one of a translation.
fn fits(translation: &Translation, held: &HeldBlock) -> bool {
    let Allocation::Blocks { size, .. } = translation.allocation else { return false };
    let (low, high) = translation.ports;
    let (first, last) = held.range();
    held.size == size && low <= first && last <= high && (first - low).is_multiple_of(size)
}

/// Another block for a subscriber, by its name: one that it had, or one that is free, or else the one that is held longest.
fn another_block(
    held: &mut Held,
    space: &mut PortSpace,
    (translation, size): (&Translation, u16),
    (owner, outside): (IpAddr, u32),
    rng: &mut Rng,
) -> Option<Block> {
    let own = held.of(owner, Some(outside)).filter(|block| fits(translation, block));
    if own.is_none()
        && let Some(first) = free_block(space, translation.ports, size, rng)
    {
        return Some(Block::new(first, size));
    }
    let again = own.or_else(|| held.oldest_on(outside).filter(|block| fits(translation, block)))?;
    held.take(&again);
    space.release(again.range());
    Some(Block { held: Some(again), ..Block::new(again.first, size) })
}

/// That a host gets or returns a port.
pub(super) fn port_event(
    hosts: &Hosts,
    change: Change,
    protocol: u8,
    inside: (u32, u16),
    outside: (u32, u16),
) -> What {
    let inside = (hosts.name(inside.0), inside.1);
    What::Port { change, protocol, inside, outside: (outside.0.into(), outside.1) }
}

/// Takes the port of a range that is wanted, or any.
fn take(space: &mut PortSpace, kind: Kind, range: (u16, u16), wanted: Wanted, rng: &mut Rng) -> Option<u16> {
    let port = space.take_wanted(kind, range, wanted, rng);
    if port.is_none() && wanted != Wanted::Any { space.take_any(kind, range, rng) } else { port }
}

fn range_of(first: u16, size: u16) -> (u16, u16) {
    (first, first + (size - 1))
}

/// A block none of whose ports is in use.
fn free_block(space: &PortSpace, ports: (u16, u16), size: u16, rng: &mut Rng) -> Option<u16> {
    let count = blocks(ports, size);
    let from = rng.u32(..count.max(1));
    (0..count)
        .map(|n| ports.0 + ((from + n) % count * u32::from(size)) as u16)
        .find(|first| space.is_free(range_of(*first, size)))
}
