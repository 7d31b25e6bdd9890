// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both families' forwarding tables, built from routes, and what building took.

use std::fmt::Display;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sync::rcu::{Domain, Reader};
use tables::fib4::{Fib4Writer, Memory, NextHopId};
use tables::fib6::Fib6Writer;
use tables::routes::{Hop, Hops, Options, Routes, Update};
use wire::{Prefix, Prefix4, Prefix6};

use crate::{Cause, Error};

/// The tables, with what their next hops' ids stand for.
pub struct Tables {
    v4: Fib4Writer,
    v6: Fib6Writer,
    reader: Reader,
    pub(crate) hops: Hops,
    /// Reasons why routes were passed over, and how many.
    pub(crate) skipped: Vec<(&'static str, u64)>,
    pub(crate) read_time: Duration,
    pub(crate) v4_built: Built,
    pub(crate) v6_built: Built,
}

/// What building one table took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Built {
    pub(crate) time: Duration,
    pub(crate) updates: usize,
    pub(crate) update_time: Duration,
}

impl Built {
    /// Makes updates of one table one by one, and counts them and their time.
    fn update<P: Copy + Display, Found, Why: Into<Cause>>(
        &mut self,
        updates: impl Iterator<Item = (P, Option<NextHopId>)>,
        table: &str,
        reader: &mut Reader,
        mut set: impl FnMut(P, Option<NextHopId>) -> Result<Found, Why>,
    ) -> Result<(), Error> {
        let start = Instant::now();
        for (prefix, hop) in updates {
            set(prefix, hop).map_err(|why| refused(format!("{table}, update of {prefix}"), why))?;
            self.updates += 1;
            reader.quiescent();
        }
        self.update_time = start.elapsed();
        Ok(())
    }
}

impl Tables {
    /// Reads the files, as `options` say, and builds both tables.
    ///
    /// # Errors
    /// A file that cannot be read, or routes that a table refuses.
    pub fn load(options: &Options, files: &[PathBuf]) -> Result<Tables, Error> {
        let start = Instant::now();
        let routes = harness::files::read(files, options)?;
        Tables::build(routes, start.elapsed())
    }

    fn build(routes: Routes, read_time: Duration) -> Result<Tables, Error> {
        let domain = Domain::default();
        let mut v4 = Fib4Writer::new(&domain).map_err(|why| Error::Table(why.into()))?;
        let mut v6 = Fib6Writer::new(&domain).map_err(|why| Error::Table(why.into()))?;
        let mut reader = domain.register("fib");
        let (mut v4_built, mut v6_built) = (Built::default(), Built::default());

        let start = Instant::now();
        v4.replace_all(routes.v4).map_err(|why| refused("IPv4 table".to_owned(), why))?;
        v4_built.time = start.elapsed();
        let start = Instant::now();
        v6.replace_all(routes.v6).map_err(|why| refused("IPv6 table".to_owned(), why))?;
        v6_built.time = start.elapsed();

        let updates = family(&routes.updates, |prefix| match prefix {
            Prefix::V4(prefix) => Some(prefix),
            Prefix::V6(_) => None,
        });
        v4_built.update(updates, "IPv4 table", &mut reader, |prefix, hop| match hop {
            Some(hop) => v4.insert(prefix, hop),
            None => v4.remove(prefix),
        })?;
        let updates = family(&routes.updates, |prefix| match prefix {
            Prefix::V6(prefix) => Some(prefix),
            Prefix::V4(_) => None,
        });
        v6_built.update(updates, "IPv6 table", &mut reader, |prefix, hop| match hop {
            Some(hop) => v6.insert(prefix, hop),
            None => v6.remove(prefix),
        })?;
        let skipped = routes.skipped.into_iter().collect();
        Ok(Tables { v4, v6, reader, hops: routes.hops, skipped, read_time, v4_built, v6_built })
    }

    /// The route that decides about `addr`, and its next hop.
    ///
    /// The next hop is what packets would get: it comes from the lookup, and only the prefix from the list of routes.
    pub fn lookup(&mut self, addr: IpAddr) -> Option<(Prefix, &Hop)> {
        let (id, route) = match addr {
            IpAddr::V4(addr) => {
                let route = self.v4.longest_match(addr.into());
                let id = self.v4.reader().lookup(&self.reader, addr.into());
                (id, route.map(|(prefix, _)| Prefix::V4(prefix)))
            }
            IpAddr::V6(addr) => {
                let route = self.v6.longest_match(addr.into());
                let id = self.v6.reader().lookup(&self.reader, addr.into());
                (id, route.map(|(prefix, _)| Prefix::V6(prefix)))
            }
        };
        self.reader.quiescent();
        Some((route?, self.hops.get(id)?))
    }

    /// All routes, IPv4 first, by address, then length.
    pub fn routes(&self) -> Vec<(Prefix, NextHopId)> {
        let mut v4: Vec<(Prefix4, NextHopId)> = self.v4.iter().collect();
        let mut v6: Vec<(Prefix6, NextHopId)> = self.v6.iter().collect();
        v4.sort_unstable();
        v6.sort_unstable();
        let v4 = v4.into_iter().map(|(prefix, id)| (Prefix::V4(prefix), id));
        v4.chain(v6.into_iter().map(|(prefix, id)| (Prefix::V6(prefix), id))).collect()
    }

    /// Number of IPv4 and of IPv6 routes.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.v4.len(), self.v6.len())
    }

    /// What the IPv4 and the IPv6 table occupy.
    pub(crate) fn memory(&self) -> (Memory, Memory) {
        (self.v4.memory(), self.v6.memory())
    }
}

fn refused(what: String, why: impl Into<Cause>) -> Error {
    Error::Refused { what, why: why.into() }
}

fn family<P>(
    updates: &[Update],
    pick: impl Fn(Prefix) -> Option<P>,
) -> impl Iterator<Item = (P, Option<NextHopId>)> {
    updates.iter().filter_map(move |update| Some((pick(update.prefix)?, update.hop)))
}
