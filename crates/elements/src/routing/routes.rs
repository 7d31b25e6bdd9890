// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control side: routes of several tables over one table of next hops, changed all or none.
//!
//! Each route counts as one reference to its next hop. The order of `tables::next_hop` is kept everywhere: ids are published
//! before a route has them, and released after no route has them.

mod words;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use element::args::Names;
use sync::rcu::Domain;
use tables::next_hop::{Member, NextHopError, NextHopId, NextHops};

use super::counting::Counting;
use super::fed::Fed;
use super::order::Order;
use super::{Choice, Family, Hop, Hops, Like, RouteText, read_hops, read_prefix, show_output};

/// How much there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Routes in all tables.
    pub routes: usize,
    /// Next hops, groups and names.
    pub hops: usize,
    /// Buckets of a named group.
    pub buckets: usize,
    /// Outputs that hops may name.
    pub outputs: usize,
    /// Called as `click`: the table of Click's whose order and words these are.
    pub like: Option<Like>,
}

/// All tables of an element.
pub(crate) struct Routes<F: Family> {
    pub(super) domain: Domain,
    /// By number; table 0 is always there.
    pub(super) tables: BTreeMap<u8, F::Writer>,
    pub(super) hops: NextHops<Hop<F::Addr>>,
    /// What a control plane has fed.
    pub(super) fed: Fed<F>,
    /// Packets are counted, or were lately.
    pub(super) counting: Option<Counting<F>>,
    names: BTreeMap<String, NextHopId>,
    /// Names of addresses that the configuration defines.
    known: Names,
    pub(super) limits: Limits,
    /// What to say of lines of the last text that came too late, see [`Routes::take_repeated`].
    repeated: Option<String>,
    /// The order that Click lists routes in, called as `click`.
    order: Option<Order<(u8, F::Prefix)>>,
    /// Tables that readers know of.
    pub(super) shown: usize,
}

/// What a line of the control language asks for.
enum Verb {
    Add,
    Set,
    Remove,
}

/// A line whose next hop is known; it owns one reference to it.
struct Change<F: Family> {
    verb: Verb,
    table: u8,
    prefix: F::Prefix,
    /// `None` for a removal with any next hop.
    id: Option<NextHopId>,
}

/// A route as it was before a change; it owns one reference.
type Former<F> = (u8, <F as Family>::Prefix, Option<NextHopId>);

/// What routes are to have; `None` for those to be removed.
type States<F> = HashMap<(u8, <F as Family>::Prefix), Option<NextHopId>>;

/// What changes come to.
struct Judged<F: Family> {
    states: States<F>,
    /// What lies beneath fed routes from now on.
    beneath: HashMap<(u8, F::Prefix), Option<NextHopId>>,
}

/// Errors in routes of a configuration that are reported one by one.
const MOST_WRONG: usize = 20;

/// More changes than are made one by one.
const MANY: usize = 4096;

/// Routes to be with the numbers of their lines, by table.
type Lines<F> = BTreeMap<u8, Vec<(<F as Family>::Prefix, NextHopId, u32)>>;

/// Routes to be, by table.
type Lists<F> = BTreeMap<u8, Vec<(<F as Family>::Prefix, NextHopId)>>;

impl<F: Family> Routes<F> {
    /// Outputs that routes may lead to.
    pub(super) fn outputs(&self) -> usize {
        self.limits.outputs
    }

    /// Names of addresses that routes may use.
    pub(super) fn known(&self) -> &Names {
        &self.known
    }

    pub(crate) fn new(domain: &Domain, limits: Limits, known: &Names) -> Result<Self, String> {
        Ok(Self {
            domain: domain.clone(),
            tables: BTreeMap::from([(0, F::open(domain)?)]),
            hops: NextHops::new(domain, limits.hops),
            fed: Fed::default(),
            counting: None,
            names: BTreeMap::new(),
            known: known.clone(),
            limits,
            repeated: None,
            order: limits.like.map(Order::new),
            shown: 1,
        })
    }

    /// The lookup sides, by number.
    pub(crate) fn readers(&self) -> Vec<Option<F::Reader>> {
        let last = self.tables.keys().last().copied().unwrap_or(0);
        (0..=last).map(|id| self.tables.get(&id).map(F::reader)).collect()
    }

    /// How many tables there are.
    pub(crate) fn ntables(&self) -> usize {
        self.tables.len()
    }

    /// Outputs that hops may name.
    pub(crate) fn noutputs(&self) -> usize {
        self.limits.outputs
    }

    /// Routes in all tables.
    pub(crate) fn len(&self) -> usize {
        self.tables.values().map(F::len).sum()
    }

    /// Bytes that lookups in all tables can touch.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.values().map(F::bytes).sum()
    }

    /// Executes one `add`, `set` or `remove`.
    pub(crate) fn command(&mut self, verb: &str, text: &str) -> Result<(), String> {
        self.transaction([(verb, text)]).map_err(|(_, why)| why)
    }

    /// Sets the routes of a configuration in one step. Of those with the same prefix the first counts; the answer has, for each
    /// later one, the place of the first and its own.
    ///
    /// # Errors
    /// What is wrong, a line each; of more than a screenful, how many.
    pub(crate) fn set_all(&mut self, lines: &[String]) -> Result<Vec<(usize, usize)>, String> {
        let clicks = self.limits.like.is_some();
        let (mut wrong, mut more, mut late) = (Vec::new(), 0, Vec::new());
        let mut places = HashMap::with_capacity(lines.len());
        let mut changes = Vec::with_capacity(lines.len());
        for (at, line) in lines.iter().enumerate() {
            match self.prepare("set", line) {
                Err(_) if clicks => wrong.push(self.clicks_words_of_argument(at, line)),
                Err(why) if wrong.len() < MOST_WRONG => wrong.push(why),
                Err(_) => more += 1,
                Ok(change) => match places.entry((change.table, change.prefix)) {
                    Entry::Vacant(place) => {
                        place.insert(at);
                        changes.push(change);
                    }
                    Entry::Occupied(first) => {
                        late.push((*first.get(), at));
                        self.forget(change.id);
                    }
                },
            }
        }
        if wrong.is_empty() {
            wrong.extend(self.carry_out(&changes).err().map(|(_, why)| why));
        }
        if more > 0 {
            wrong.push(format!("{more} more routes are wrong"));
        }
        changes.into_iter().for_each(|change| self.forget(change.id));
        if wrong.is_empty() { Ok(late) } else { Err(wrong.join("\n")) }
    }

    /// Executes lines of `add`, `set` and `remove`, all or none.
    pub(crate) fn control(&mut self, text: &str) -> Result<(), String> {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let clicks = self.limits.like.is_some();
        let commands = lines.iter().map(|line| lang::config::shift_word(line));
        self.transaction(commands).map_err(|(at, why)| match at {
            _ if clicks => why,
            Some(at) => format!("{}: {why}; nothing was changed", lines[at]),
            None => format!("{why}; nothing was changed"),
        })
    }

    /// All or none; an error comes with the number of the line, if it is about one.
    fn transaction<'a>(
        &mut self,
        lines: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), (Option<usize>, String)> {
        let mut changes = Vec::new();
        let prepared = lines.into_iter().enumerate().try_for_each(|(at, (verb, text))| {
            let change = self.prepare(verb, text);
            changes.push(change.map_err(|why| (Some(at), self.clicks_words(verb, text).unwrap_or(why)))?);
            Ok(())
        });
        let outcome = prepared.and_then(|()| self.carry_out(&changes));
        changes.into_iter().for_each(|change| self.forget(change.id));
        outcome
    }

    /// Makes changes that have been read, all or none.
    fn carry_out(&mut self, changes: &[Change<F>]) -> Result<(), (Option<usize>, String)> {
        self.publish().map_err(|why| (None, why))?;
        let Judged { states, beneath } = self.judge(changes)?;
        let mut kept = Vec::new();
        let ready = beneath
            .values()
            .flatten()
            .try_for_each(|id| self.hops.retain(*id).map(|()| kept.push(*id)).map_err(text_of));
        if let Err(why) = ready.and_then(|()| self.install(states)) {
            kept.into_iter().for_each(|id| self.hops.release(id));
            return Err((None, why));
        }
        for (key, id) in beneath {
            let former = self.fed.set_beneath(key, id);
            self.forget(former);
        }
        if let Some(order) = &mut self.order {
            for change in changes {
                match change.verb {
                    Verb::Remove => order.remove(&(change.table, change.prefix)),
                    Verb::Add | Verb::Set => order.set((change.table, change.prefix)),
                }
            }
        }
        Ok(())
    }

    /// Reads a line, makes its table and next hop known.
    fn prepare(&mut self, verb: &str, text: &str) -> Result<Change<F>, String> {
        let verb = match verb {
            // Click's IPv6 table never refuses a route that is there.
            "add" if self.limits.like == Some(Like::Six) => Verb::Set,
            "add" => Verb::Add,
            "set" => Verb::Set,
            "remove" => Verb::Remove,
            _ => return Err(format!("expected add, set or remove, not '{verb}'")),
        };
        let parts = RouteText::split(text)?;
        let named = match F::prefix(parts.prefix) {
            Some(_) => None,
            None => F::named_prefix(&self.known, parts.prefix),
        };
        let prefix = || {
            read_prefix::<F>(named.as_deref().unwrap_or(parts.prefix), false)
                .map_err(|why| without_network::<F>(&self.known, parts.prefix).unwrap_or(why))
        };
        if matches!(verb, Verb::Remove) && parts.hops.is_empty() {
            return Ok(Change { verb, table: parts.table, prefix: prefix()?, id: None });
        }
        // The hops first: text without any is no route at all.
        let hops = read_hops::<F>(parts.hops, text, self.limits.outputs, &self.known)?;
        let prefix = prefix()?;
        let table = parts.table;
        if !matches!(verb, Verb::Remove) {
            self.make_table(table)?;
        }
        let like = self.tables.get(&table).and_then(|fib| F::get(fib, prefix));
        let id = Some(self.acquire(&hops, like)?);
        Ok(Change { verb, table, prefix, id })
    }

    /// What the changes, one after the other, make of the routes they name.
    fn judge(&self, changes: &[Change<F>]) -> Result<Judged<F>, (Option<usize>, String)> {
        let mut states = States::<F>::with_capacity(changes.len());
        let mut beneath: HashMap<(u8, F::Prefix), Option<NextHopId>> = HashMap::new();
        let mut count = self.len();
        let clicks = self.limits.like.is_some();
        for (at, Change { verb, table, prefix, id }) in changes.iter().enumerate() {
            let key = (*table, *prefix);
            let before = || self.tables.get(table).and_then(|fib| F::get(fib, *prefix));
            let now = states.get(&key).copied().unwrap_or_else(before);
            // Beneath a fed route lies the configured one, if there is one. Changes by hand concern that one.
            let covered = now
                .filter(|now| self.fed.owns(*now))
                .map(|now| beneath.get(&key).copied().unwrap_or_else(|| self.fed.configured(&key, now)));
            match (verb, covered) {
                (Verb::Set, Some(_)) | (Verb::Add, Some(None)) => {
                    beneath.insert(key, *id);
                    continue;
                }
                (Verb::Remove, Some(Some(old))) if id.is_none_or(|id| id == old) => {
                    beneath.insert(key, None);
                    continue;
                }
                _ => {}
            }
            let next = match (verb, now) {
                (Verb::Add, Some(old)) if clicks => {
                    Err(format!("conflict with existing route '{prefix} {}'", self.show_hops(old)))
                }
                (Verb::Add, Some(_)) => Err(format!("there is a route for {prefix} already")),
                (Verb::Add | Verb::Set, None) if count >= self.limits.routes => Err(full(self.limits.routes)),
                (Verb::Add | Verb::Set, _) => Ok(*id),
                (Verb::Remove, Some(now)) if id.is_none_or(|id| id == now) => Ok(None),
                (Verb::Remove, _) if self.limits.like == Some(Like::Six) => Ok(None),
                (Verb::Remove, _) if clicks => {
                    let hops = id.map_or_else(|| "- -1".to_owned(), |id| self.show_hops(id));
                    Err(format!("route '{prefix} {hops}' not found"))
                }
                (Verb::Remove, _) => Err(format!("there is no such route: {prefix}")),
            };
            let next = next.map_err(|why| (Some(at), why))?;
            count = count + usize::from(next.is_some()) - usize::from(now.is_some());
            states.insert(key, next);
        }
        Ok(Judged { states, beneath })
    }

    /// Gives routes their new next hops. Many at once go by way of a new table: one by one they would leave more behind than
    /// can wait for the workers, of which this may be one.
    fn install(&mut self, mut states: States<F>) -> Result<(), String> {
        if states.len() > MANY {
            let mut wanted = self.current();
            for (table, list) in &mut wanted {
                list.retain_mut(|(prefix, id)| match states.remove(&(*table, *prefix)) {
                    None => true,
                    Some(None) => false,
                    Some(Some(new)) => {
                        *id = new;
                        true
                    }
                });
            }
            for ((table, prefix), id) in states {
                wanted.entry(table).or_default().extend(id.map(|id| (prefix, id)));
            }
            return self.swap(wanted, BTreeMap::new());
        }
        let mut former: Vec<Former<F>> = Vec::with_capacity(states.len());
        for ((table, prefix), id) in states {
            let fib = self.tables.get_mut(&table).expect("made when the line was read");
            let done = match id {
                Some(id) => self
                    .hops
                    .retain(id)
                    .map_err(text_of)
                    .and_then(|()| F::insert(fib, prefix, id).inspect_err(|_| self.hops.release(id))),
                None => F::remove(fib, prefix),
            };
            match done {
                Ok(old) => former.push((table, prefix, old)),
                Err(why) => return Err(self.undo(former, why)),
            }
        }
        for (table, prefix, old) in former {
            self.follow(table, prefix);
            if old.is_some_and(|id| self.fed.owns(id)) {
                self.fed.note_disturbance();
            }
            self.forget(old);
        }
        Ok(())
    }

    /// Puts routes back as they were; returns the reason, and what went wrong besides.
    fn undo(&mut self, former: Vec<Former<F>>, why: String) -> String {
        let mut left = Vec::new();
        for (table, prefix, old) in former.into_iter().rev() {
            let fib = self.tables.get_mut(&table).expect("it was changed");
            let undone = match old {
                Some(id) => F::insert(fib, prefix, id),
                None => F::remove(fib, prefix),
            };
            match undone {
                Ok(new) => self.forget(new),
                Err(error) => left.push(format!("{prefix} could not be put back: {error}")),
            }
        }
        match left.first() {
            None => why,
            Some(first) => format!("{why}; {first} (the first of {} such routes)", left.len()),
        }
    }

    /// Replaces all routes by those in `text`, one a line (`#` begins a comment), or adds them to those there with `keep`.
    /// Nothing changes unless all is well.
    pub(crate) fn replace(&mut self, text: &str, keep: bool) -> Result<(), String> {
        let mut acquired = Vec::new();
        let lists = self.read_all(text, &mut acquired);
        let lists = lists.and_then(|lists| self.publish().map(|()| lists)).and_then(|lists| {
            let kept: Lists<F> = if keep { self.current() } else { BTreeMap::new() };
            self.swap(lists, kept)
        });
        if lists.is_ok() && !keep {
            self.fed.disturb().into_iter().for_each(|id| self.hops.release(id));
        }
        // What a list gave twice, or what was refused, is not in the tables.
        acquired.into_iter().for_each(|id| self.hops.release(id));
        lists
    }

    /// What there is to say of lines of the last text, given to [`Routes::replace`], whose prefix stood there before.
    pub(crate) fn take_repeated(&mut self) -> Option<String> {
        self.repeated.take()
    }

    /// The routes of a text, of those with the same prefix the first. Each next hop in it is acquired once, to be released
    /// when the tables have it.
    fn read_all(&mut self, text: &str, acquired: &mut Vec<NextHopId>) -> Result<Lists<F>, String> {
        let lists = self.read_lines(text, acquired)?;
        self.repeated = None;
        let (mut late, mut example) = (0, None);
        let mut firsts = Lists::<F>::new();
        for (table, mut list) in lists {
            list.sort_unstable_by_key(|(prefix, _, line)| (*prefix, *line));
            let routes = firsts.entry(table).or_default();
            let mut first_line = 0;
            for (prefix, id, line) in list {
                if routes.last().is_some_and(|(last, _)| *last == prefix) {
                    late += 1;
                    example.get_or_insert((prefix, first_line, line));
                } else {
                    routes.push((prefix, id));
                    first_line = line;
                }
            }
        }
        if let Some((prefix, first, second)) = example {
            let several =
                if late == 1 { String::new() } else { format!(" (the first of {late} such lines)") };
            self.repeated = Some(format!(
                "line {second} is ignored, for line {first} has a route for {prefix} already{several}"
            ));
        }
        Ok(firsts)
    }

    /// The routes of a text with the numbers of their lines.
    fn read_lines(&mut self, text: &str, acquired: &mut Vec<NextHopId>) -> Result<Lines<F>, String> {
        let mut lists = Lines::<F>::new();
        let mut known: HashMap<&str, NextHopId> = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split_once('#').map_or(line, |(line, _)| line).trim();
            if line.is_empty() {
                continue;
            }
            let mut read = || {
                let parts = RouteText::split(line)?;
                let id = match known.get(parts.hops) {
                    Some(id) => *id,
                    None => {
                        let id = self.acquire(
                            &read_hops::<F>(parts.hops, line, self.limits.outputs, &Names::default())?,
                            None,
                        )?;
                        acquired.push(id);
                        known.insert(parts.hops, id);
                        id
                    }
                };
                let prefix = read_prefix::<F>(parts.prefix, true)?;
                self.make_table(parts.table)?;
                lists.entry(parts.table).or_default().push((prefix, id, at as u32 + 1));
                Ok(())
            };
            read().map_err(|why: String| format!("line {}: {why}; nothing was changed", at + 1))?;
        }
        Ok(lists)
    }

    /// All routes, by table.
    fn current(&self) -> Lists<F> {
        self.tables.iter().map(|(table, fib)| (*table, F::routes(fib).collect())).collect()
    }

    /// Makes `kept` and then `lists` the routes of the tables, and sets references right.
    fn swap(&mut self, lists: Lists<F>, kept: Lists<F>) -> Result<(), String> {
        let former = self.current();
        let mut wanted = kept;
        for (table, mut list) in lists {
            wanted.entry(table).or_default().append(&mut list);
        }
        let tables: Vec<u8> = self.tables.keys().copied().collect();
        let mut outcome = Ok(());
        let mut replaced = 0;
        for table in &tables {
            let list = wanted.get(table).map_or(&[][..], Vec::as_slice);
            outcome = F::replace(self.tables.get_mut(table).expect("listed"), list);
            if outcome.is_err() {
                break;
            }
            replaced += 1;
        }
        if outcome.is_ok() && self.len() > self.limits.routes {
            outcome = Err(full(self.limits.routes));
        }
        if let Err(why) = &mut outcome {
            // Those replaced so far return to what they were; the one that refused is as it was.
            for table in &tables[..replaced] {
                let fib = self.tables.get_mut(table).expect("listed");
                if let Err(error) = F::replace(fib, &former[table]) {
                    *why += &format!("; table {table} could not be put back: {error}");
                }
            }
            return outcome;
        }
        for fib in self.tables.values() {
            for (_, id) in F::routes(fib) {
                self.hops.retain(id).map_err(|error| error.to_string())?;
            }
        }
        former.into_values().flatten().for_each(|(_, id)| self.hops.release(id));
        // Those who count say themselves that it failed.
        let _ = self.follow_all();
        if let Some(order) = &mut self.order {
            order.clear();
            for (table, fib) in &self.tables {
                F::routes(fib).for_each(|(prefix, _)| order.set((*table, prefix)));
            }
        }
        outcome
    }

    /// Gives a next hop a name, or changes what the name stands for: `NAME HOPS`. Routes by way of it follow.
    pub(crate) fn set_named(&mut self, text: &str) -> Result<(), String> {
        let (name, hops) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        if name.is_empty() || hops.trim().is_empty() {
            return Err(format!("expected NAME [GATEWAY] OUTPUT [WEIGHT] | ..., not '{text}'"));
        }
        let hops = read_hops::<F>(hops, text, self.limits.outputs, &self.known)?;
        let members = self.acquire_members(&hops)?;
        let done = match self.names.get(name).copied() {
            Some(id) => {
                let before = self.hops.members(id).expect("names stand for groups").to_vec();
                self.hops.set_group(id, &members).map_err(text_of).and_then(|()| {
                    self.publish().inspect_err(|_| {
                        // Readers have not seen it; the members' references are still held.
                        let _ = self.hops.set_group(id, &before);
                    })
                })
            }
            // Readers see it with the first route by way of it: to show each of many names at once would copy all of them every time.
            None => self.hops.new_group(&members, self.limits.buckets).map_err(text_of).map(|id| {
                self.names.insert(name.to_owned(), id);
            }),
        };
        members.iter().for_each(|(id, _)| self.hops.release(*id));
        done
    }

    /// Takes a name away, if no route or group is by way of it.
    pub(crate) fn remove_named(&mut self, name: &str) -> Result<(), String> {
        let id = self.named(name.trim())?;
        match self.hops.references(id) - 1 {
            0 => {
                self.names.remove(name.trim());
                self.hops.release(id);
                Ok(())
            }
            1 => Err(format!("next hop '{}' is in use by a route or group", name.trim())),
            n => Err(format!("next hop '{}' is in use by {n} routes or groups", name.trim())),
        }
    }

    /// Takes a hop out of all groups that have another: its link or neighbour has failed.
    pub(crate) fn withdraw(&mut self, text: &str) -> Result<(), String> {
        let hops = read_hops::<F>(text, text, self.limits.outputs, &self.known)?;
        let [(Choice::Hop(hop), _)] = &hops[..] else {
            return Err(format!("expected GATEWAY OUTPUT, not '{text}'"));
        };
        let id = self.hops.find(hop).ok_or_else(|| format!("unknown next hop '{}'", text.trim()))?;
        self.hops.withdraw(id);
        self.publish()
    }

    /// Says which hops lead nowhere at present. Groups leave them out while they have others.
    pub(crate) fn set_down(&mut self, down: &HashSet<Hop<F::Addr>>) -> Result<(), String> {
        self.hops.set_down(down);
        self.publish()
    }

    fn named(&self, name: &str) -> Result<NextHopId, String> {
        self.names.get(name).copied().ok_or_else(|| format!("unknown next hop '{name}'"))
    }

    /// The id for what a route says, with a reference more.
    fn acquire(&mut self, hops: &Hops<F::Addr>, like: Option<NextHopId>) -> Result<NextHopId, String> {
        if let [(choice, 1..)] = &hops[..] {
            return self.acquire_one(choice);
        }
        let members = self.acquire_members(hops)?;
        let group = self.hops.intern_group(&members, like).map_err(text_of);
        members.iter().for_each(|(id, _)| self.hops.release(*id));
        group
    }

    fn acquire_one(&mut self, choice: &Choice<F::Addr>) -> Result<NextHopId, String> {
        match choice {
            Choice::Hop(hop) => self.hops.intern(*hop).map_err(text_of),
            Choice::Named(name) => {
                let id = self.named(name)?;
                self.hops.retain(id).map_err(text_of)?;
                Ok(id)
            }
        }
    }

    fn acquire_members(&mut self, hops: &Hops<F::Addr>) -> Result<Vec<Member>, String> {
        let mut members = Vec::with_capacity(hops.len());
        for (choice, weight) in hops {
            match self.acquire_one(choice) {
                Ok(id) => members.push((id, *weight)),
                Err(why) => {
                    members.into_iter().for_each(|(id, _)| self.hops.release(id));
                    return Err(why);
                }
            }
        }
        Ok(members)
    }

    fn forget(&mut self, id: Option<NextHopId>) {
        if let Some(id) = id {
            self.hops.release(id);
        }
    }

    fn publish(&mut self) -> Result<(), String> {
        self.hops.publish().map_err(text_of)
    }

    pub(super) fn make_table(&mut self, table: u8) -> Result<(), String> {
        if !self.tables.contains_key(&table) {
            self.tables.insert(table, F::open(&self.domain)?);
        }
        Ok(())
    }

    /// A copy over another domain, for a strategy without sharing.
    pub(crate) fn copy(&self, domain: &Domain) -> Result<Self, String> {
        let mut copy = Self::new(domain, self.limits, &self.known)?;
        // Names in the order of their ids: a name can only lead to one made before it, or the other way by a later change.
        let mut pending: Vec<&String> = self.names.keys().collect();
        while !pending.is_empty() {
            let before = pending.len();
            pending.retain(|name| {
                let hops = self.show_members(self.names[*name]);
                copy.set_named(&format!("{name} {hops}")).is_err()
            });
            if pending.len() == before {
                return Err("the named next hops cannot be copied".into());
            }
        }
        copy.replace(&self.show_some(|key, id| self.fed.configured(key, id)), false)?;
        self.copy_feed(&mut copy)?;
        Ok(copy)
    }

    /// All routes as text that [`replace`](Self::replace) reads.
    pub(crate) fn show_all(&self) -> String {
        self.show_some(|_, id| Some(id))
    }

    /// The same with the next hops that `choose` puts in place of those in the tables; `None` leaves the route out.
    fn show_some(&self, choose: impl Fn(&(u8, F::Prefix), NextHopId) -> Option<NextHopId>) -> String {
        let six = self.limits.like == Some(Like::Six);
        let mut shown: HashMap<NextHopId, String> = HashMap::new();
        let mut text = String::new();
        if six && self.len() > 0 {
            text.push_str("# Active routes\n");
        }
        for (table, fib) in &self.tables {
            let suffix = if *table == 0 { String::new() } else { format!(" table {table}") };
            let mut routes: Vec<(F::Prefix, NextHopId)> = F::routes(fib).collect();
            if let Some(order) = &self.order {
                routes.sort_by_key(|(prefix, _)| order.rank(&(*table, *prefix), F::chain(*prefix)));
            }
            for (prefix, id) in routes {
                let Some(id) = choose(&(*table, prefix), id) else { continue };
                if let Some(hop) = self.hops.get(id).filter(|_| six) {
                    text += &format!("{prefix}\t{}\t{}{suffix}\n", hop.gateway, show_output(hop.output));
                    continue;
                }
                let hops = shown.entry(id).or_insert_with(|| self.show_columns(id));
                // Columns as Click's: a second tab where the first column is short.
                let prefix = format!("{prefix}\t");
                let tab = if prefix.len() < 17 { "\t" } else { "" };
                text.extend([&prefix, tab, hops, &suffix, "\n"]);
            }
        }
        text
    }

    /// Named next hops and what they stand for, with the buckets of each member; a line each.
    pub(crate) fn show_names(&self) -> String {
        let line = |(name, id): (&String, &NextHopId)| format!("{name}\t{}\n", self.show_members(*id));
        self.names.iter().map(line).collect()
    }

    /// What routes for `address` (with `table N` behind, if need be) say: `OUTPUT [GATEWAY]`.
    pub(crate) fn lookup(&self, text: &str) -> Result<String, String> {
        let parts = RouteText::split(text)?;
        let address: F::Addr = parts.prefix.parse().map_err(|_| match self.limits.like {
            Some(_) => "expected IP address".to_owned(),
            None => format!("'{text}' is not an address"),
        })?;
        let id = self.longest_match(parts.table, F::key(address)).map(|(_, id)| id);
        let hop = |hop: &Hop<F::Addr>| match hop.gateway == F::UNSPECIFIED {
            true => show_output(hop.output).to_string(),
            false => format!("{} {}", show_output(hop.output), hop.gateway),
        };
        Ok(match id {
            None => "-1".into(),
            Some(id) => self.hops.get(id).map_or_else(|| self.show_hops(id), hop),
        })
    }

    /// The route of a table that decides about an address.
    pub(super) fn longest_match(&self, table: u8, key: F::Key) -> Option<(F::Prefix, NextHopId)> {
        F::longest_match(self.tables.get(&table)?, key)
    }

    /// The next hop of a route, if there is one for the prefix.
    pub(super) fn get(&self, table: u8, prefix: F::Prefix) -> Option<NextHopId> {
        F::get(self.tables.get(&table)?, prefix)
    }

    /// The columns of gateway and output.
    fn show_columns(&self, id: NextHopId) -> String {
        let hops = self.show_hops(id);
        match hops.split_once(' ') {
            Some((gateway, rest)) if gateway != "via" => {
                let tab = if gateway.len() + 1 < 9 { "\t\t" } else { "\t" };
                format!("{gateway}{tab}{rest}")
            }
            _ => hops,
        }
    }

    /// What an id stands for, as routes are written.
    pub(crate) fn show_hops(&self, id: NextHopId) -> String {
        if let Some((name, _)) = self.names.iter().find(|(_, named)| **named == id) {
            return format!("via {name}");
        }
        match self.hops.get(id) {
            Some(hop) => self.show_hop(hop),
            None => self.show_members(id),
        }
    }

    fn show_members(&self, id: NextHopId) -> String {
        let members = self.hops.members(id).unwrap_or_default();
        let shown = members.iter().map(|(id, weight)| format!("{} {weight}", self.show_hops(*id)));
        shown.collect::<Vec<_>>().join(" | ")
    }

    fn show_hop(&self, hop: &Hop<F::Addr>) -> String {
        let output = show_output(hop.output);
        match hop.gateway == F::UNSPECIFIED {
            true => format!("- {output}"),
            false => format!("{} {output}", hop.gateway),
        }
    }
}

fn text_of(error: NextHopError) -> String {
    error.to_string()
}

pub(super) fn full(limit: usize) -> String {
    format!("the routing table is full: it may have {limit} routes (CAPACITY)")
}

/// Why a name's network is none, if the name itself is known: `NAME:ipnet` or `NAME:bcast` of an address alone.
fn without_network<F: Family>(names: &Names, text: &str) -> Option<String> {
    let (name, _) = text.rsplit_once(':').filter(|(name, _)| !name.contains([':', '/']))?;
    F::named_address(names, name)?;
    Some(format!("'{text}' needs a network, but '{name}' is an address alone; give it as ADDRESS/LENGTH"))
}

#[cfg(test)]
mod tests;
