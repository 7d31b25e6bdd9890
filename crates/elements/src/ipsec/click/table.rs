// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control side: routes and associations, changed all or none.
//!
//! The order of `tables::next_hop` is kept: ways are published before a route leads there, and released after no route does. An association is published
//! before the first route that has it, and goes after the last one.

use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use element::args::Names;
use sync::lock::AdaptiveLock;
use sync::rcu::Domain;
use tables::fib4::{Fib4Reader, Fib4Writer};
use tables::next_hop::{NextHopId, NextHopReader, NextHops};
use wire::Prefix4;

use super::association::{Association, Associations, BySpi, make};
use super::route::{self, Line, RouteTarget};

/// What a line of the control language asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Add,
    Set,
    Remove,
}

impl Verb {
    /// By its name.
    pub(super) fn read(name: &str) -> Option<Verb> {
        match name {
            "add" => Some(Verb::Add),
            "set" => Some(Verb::Set),
            "remove" => Some(Verb::Remove),
            _ => None,
        }
    }
}

/// A table as the instances of an element share it, and as elements behind it find it.
pub(super) struct Tunnels {
    /// What handlers read and change.
    pub table: AdaptiveLock<Table>,
    /// What workers read.
    pub associations: Arc<Associations>,
}

impl Tunnels {
    pub(super) fn new(table: Table) -> Tunnels {
        Tunnels { associations: table.published.clone(), table: AdaptiveLock::new(table) }
    }
}

/// A route of the table.
#[derive(Clone)]
struct Route {
    way: RouteTarget,
    association: Option<Arc<Association>>,
}

/// Routes and associations.
pub(super) struct Table {
    fib: Fib4Writer,
    ways: NextHops<RouteTarget>,
    routes: BTreeMap<Prefix4, Route>,
    /// By SPI, with the number of routes that have each.
    associations: HashMap<u32, (Arc<Association>, usize)>,
    published: Arc<Associations>,
    noutputs: usize,
    names: Names,
}

/// What changes come to, before any is made.
#[derive(Default)]
struct Plan {
    /// Routes to be; `None` for those to be removed.
    routes: BTreeMap<Prefix4, Option<Route>>,
    /// By SPI: the associations that there were or that are asked for, and how many routes would have each.
    associations: HashMap<u32, Vec<(Arc<Association>, usize)>>,
}

impl Table {
    pub(super) fn new(domain: &Domain, noutputs: usize, names: &Names) -> Result<Table, String> {
        Ok(Table {
            fib: Fib4Writer::new(domain).map_err(|why| why.to_string())?,
            ways: NextHops::new(domain, usize::MAX),
            routes: BTreeMap::new(),
            associations: HashMap::new(),
            published: Arc::new(Associations::new(domain)),
            noutputs,
            names: names.clone(),
        })
    }

    /// The lookup side.
    pub(super) fn readers(&self) -> (Fib4Reader, NextHopReader<RouteTarget>) {
        (self.fib.reader(), self.ways.reader())
    }

    /// Whether another one was made for the same outputs and names.
    pub(super) fn is_like(&self, other: &Table) -> bool {
        self.noutputs == other.noutputs && self.names == other.names
    }

    /// Goes on with the associations of a former table as far as they are agreed alike, so that no sequence number comes twice.
    ///
    /// # Errors
    /// Too many versions wait for workers.
    pub(super) fn follow(&mut self, former: &Table) -> Result<(), String> {
        for (spi, (association, _)) in &mut self.associations {
            if let Some((old, _)) =
                former.associations.get(spi).filter(|(old, _)| old.agreed == association.agreed)
            {
                *association = old.clone();
            }
        }
        for route in self.routes.values_mut() {
            route.association =
                self.associations.get(&route.way.spi).map(|(association, _)| association.clone());
        }
        self.show()
    }

    /// How many routes there are.
    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    /// Bytes that lookups can touch.
    pub(super) fn bytes(&self) -> usize {
        self.fib.lookup_bytes()
    }

    /// Adds the routes of a configuration. Of those with the same prefix the first counts; returns the prefixes of the others.
    ///
    /// # Errors
    /// All that is wrong, each by itself.
    pub(super) fn configure(&mut self, texts: &[String]) -> Result<Vec<Prefix4>, Vec<String>> {
        let (mut plan, mut wrong, mut late) = (Plan::default(), Vec::new(), Vec::new());
        for text in texts {
            match route::read(text, self.noutputs, &self.names, false) {
                Ok(line) if plan.routes.contains_key(&line.prefix) => late.push(line.prefix),
                Ok(line) => wrong.extend(self.plan(&mut plan, Verb::Add, line).err()),
                Err(why) => wrong.push(why),
            }
        }
        if wrong.is_empty() {
            wrong.extend(self.carry_out(plan).err());
        }
        if wrong.is_empty() { Ok(late) } else { Err(wrong) }
    }

    /// Makes changes, all or none.
    ///
    /// # Errors
    /// What is wrong with the first that cannot be made.
    pub(super) fn change<'a>(&mut self, lines: impl Iterator<Item = (Verb, &'a str)>) -> Result<(), String> {
        let mut plan = Plan::default();
        for (verb, text) in lines {
            let line = route::read(text, self.noutputs, &self.names, verb == Verb::Remove)?;
            self.plan(&mut plan, verb, line)?;
        }
        self.carry_out(plan)
    }

    /// Executes several lines, each with its verb.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    pub(super) fn control(&mut self, text: &str) -> Result<(), String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
            let (verb, rest) = lang::config::shift_word(line);
            Verb::read(verb).map(|verb| (verb, rest)).ok_or(verb)
        });
        let lines: Result<Vec<(Verb, &str)>, &str> = lines.collect();
        let lines = lines.map_err(|verb| format!("expected add, set or remove, not '{verb}'"))?;
        self.change(lines.into_iter())
    }

    /// Adds a change to those that are to be made.
    fn plan(&self, plan: &mut Plan, verb: Verb, line: Line) -> Result<(), String> {
        let Line { prefix, way, agreed } = line;
        let before = match plan.routes.get(&prefix) {
            Some(planned) => planned.clone(),
            None => self.routes.get(&prefix).cloned(),
        };
        match (verb, &before) {
            (Verb::Add, Some(_)) => {
                return Err(format!("there is a route for {prefix} already; 'set' replaces it"));
            }
            (Verb::Remove, None) => return Err(format!("there is no route for {prefix}")),
            (Verb::Remove, Some(before)) => {
                let differs =
                    |way: RouteTarget| (way.gateway, way.output) != (before.way.gateway, before.way.output);
                if way.is_some_and(differs) {
                    return Err(format!("the route for {prefix} leads elsewhere"));
                }
            }
            _ => {}
        }
        if let Some(before) = before.and_then(|route| route.association) {
            self.count(plan, &before, |count| *count -= 1);
        }
        let route = match (verb, way) {
            (Verb::Remove, _) | (_, None) => None,
            (_, Some(way)) => {
                let association = match &agreed {
                    None => None,
                    Some(agreed) => {
                        let known = self.planned(plan, agreed.spi).iter();
                        let same =
                            known.map(|(known, _)| known).find(|known| known.agreed == *agreed).cloned();
                        let association = match same {
                            Some(association) => association,
                            None => make(agreed)?,
                        };
                        self.count(plan, &association, |count| *count += 1);
                        Some(association)
                    }
                };
                Some(Route { way, association })
            }
        };
        plan.routes.insert(prefix, route);
        Ok(())
    }

    /// What is planned for an SPI, beginning with what there is.
    fn planned<'a>(&self, plan: &'a mut Plan, spi: u32) -> &'a mut Vec<(Arc<Association>, usize)> {
        match plan.associations.entry(spi) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.associations.get(&spi).cloned().into_iter().collect()),
        }
    }

    fn count(&self, plan: &mut Plan, association: &Arc<Association>, change: impl FnOnce(&mut usize)) {
        let planned = self.planned(plan, association.agreed.spi);
        match planned.iter_mut().find(|(known, _)| Arc::ptr_eq(known, association)) {
            Some((_, count)) => change(count),
            None => {
                planned.push((association.clone(), 0));
                change(&mut planned.last_mut().expect("just pushed").1);
            }
        }
    }

    /// Makes the changes, or none.
    fn carry_out(&mut self, plan: Plan) -> Result<(), String> {
        for (spi, planned) in &plan.associations {
            if planned.iter().filter(|(_, count)| *count > 0).count() > 1 {
                return Err(format!(
                    "SPI {spi} would have different keys or counters in several routes; give it the same in all of them, or change all in one \
                     'ctrl'"
                ));
            }
        }
        // What was, in case something is refused.
        let before = self.associations.clone();
        for (spi, planned) in plan.associations {
            match planned.into_iter().find(|(_, count)| *count > 0) {
                Some(used) => drop(self.associations.insert(spi, used)),
                None => drop(self.associations.remove(&spi)),
            }
        }
        let mut interned = Vec::new();
        let done = self.install(&plan.routes, &before, &mut interned);
        if let Err(why) = done {
            interned.into_iter().for_each(|id| self.ways.release(id));
            self.associations = before;
            // If this is refused, associations that no route has are known for longer.
            let _ = self.show();
            return Err(why);
        }
        for (prefix, route) in plan.routes {
            match route {
                Some(route) => drop(self.routes.insert(prefix, route)),
                None => drop(self.routes.remove(&prefix)),
            }
        }
        Ok(())
    }

    fn install(
        &mut self,
        routes: &BTreeMap<Prefix4, Option<Route>>,
        before: &HashMap<u32, (Arc<Association>, usize)>,
        interned: &mut Vec<NextHopId>,
    ) -> Result<(), String> {
        let mut changes = Vec::with_capacity(routes.len());
        for (prefix, route) in routes {
            let id = route.as_ref().map(|route| self.ways.intern(route.way)).transpose();
            let id = id.map_err(|why| why.to_string())?;
            interned.extend(id);
            changes.push((*prefix, id));
        }
        self.ways.publish().map_err(|why| why.to_string())?;
        let is_same = before.len() == self.associations.len()
            && before.iter().all(|(spi, (old, _))| {
                self.associations.get(spi).is_some_and(|(new, _)| Arc::ptr_eq(old, new))
            });
        if !is_same {
            self.show()?;
        }
        let found = self.fib.commit(&changes).map_err(|why| why.to_string())?;
        found.into_iter().flatten().for_each(|id| self.ways.release(id));
        Ok(())
    }

    /// Shows workers the associations.
    fn show(&self) -> Result<(), String> {
        let all: BySpi =
            self.associations.iter().map(|(spi, (association, _))| (*spi, association.clone())).collect();
        self.published.publish(all)
    }

    /// All routes as Click shows them, but for the keys.
    pub(super) fn show_routes(&self) -> String {
        let mut text = String::new();
        for (prefix, Route { way, .. }) in &self.routes {
            // Columns as Click's: a second tab where one is short.
            let mut column = |word: String, width: usize| {
                let tab = if word.len() + 1 < width { "\t" } else { "" };
                let _ = write!(text, "{word}\t{tab}");
            };
            column(prefix.to_string(), 17);
            column(if way.gateway.is_unspecified() { "-".into() } else { way.gateway.to_string() }, 9);
            let _ = write!(text, "{}", way.output);
            if way.spi != 0 {
                let hidden = element::HIDDEN;
                let _ = write!(
                    text,
                    "  |TUNNELED CONNECTION| \n|SPI| |ENC KEY| |AUTH KEY| ||\n |{}| |{hidden}| |{hidden}|\n",
                    way.spi
                );
            }
            text.push('\n');
        }
        text
    }

    /// The state of each association, without its keys: `SPI N routes N next N received N window N`, a line each.
    pub(super) fn show_associations(&self) -> String {
        let mut all: Vec<_> = self.associations.values().collect();
        all.sort_by_key(|(association, _)| association.agreed.spi);
        let line = |(association, count): &(Arc<Association>, usize)| {
            let Association { agreed, counter, window, .. } = &**association;
            let (next, top) = (counter.next().min(1 << 32), window.top());
            format!("SPI {} routes {count} next {next} received {top} window {}\n", agreed.spi, agreed.window)
        };
        all.into_iter().map(line).collect()
    }

    /// What the route for an address says: `OUTPUT [GATEWAY]`.
    pub(super) fn lookup(&self, text: &str) -> Result<String, String> {
        let text = text.trim();
        let address: std::net::Ipv4Addr =
            text.parse().map_err(|_| format!("expected an IPv4 address, not '{text}'"))?;
        let route = self.fib.longest_match(address.to_bits());
        let way = route.and_then(|(prefix, _)| self.routes.get(&prefix)).map(|route| route.way);
        Ok(match way {
            None => "-1".into(),
            Some(way) if way.gateway.is_unspecified() => way.output.to_string(),
            Some(way) => format!("{} {}", way.output, way.gateway),
        })
    }
}
