// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the router's table has while others die: its size, some lookups, and the routes that were ever removed.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use wire::Prefix4;

use super::site::{Site, connect, gateway};
use crate::Error;
use client::Client;

/// A routing table by plain means, which the router's is compared with.
pub(super) type Oracle = BTreeMap<Prefix4, Ipv4Addr>;

/// The handler that counts routes that have gone, of the RouteFeed that `junctor router` writes.
const REMOVED: &str = "feed.removed";
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(2);
/// Differences that are named.
const NAMED: usize = 5;

/// A thread that looks at a router, until this is dropped.
pub(super) struct Watch {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Seen, Error>>>,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How often.
    pub(super) looks: u64,
    /// The fewest routes.
    pub(super) least: u64,
    /// Lookups that answered something else than before.
    pub(super) changed: Vec<String>,
    /// Routes of the feed that were removed.
    pub(super) removed: u64,
}

impl Watch {
    /// Begins with what is there now.
    pub(super) fn start(router: PathBuf, targets: &[Ipv4Addr]) -> Result<Watch, Error> {
        let mut client = connect(&router)?;
        let lookups: Vec<String> = targets.iter().map(|target| format!("rt.lookup {target}")).collect();
        let before: Result<Vec<String>, Error> =
            lookups.iter().map(|lookup| read(&mut client, lookup)).collect();
        let (before, removed) = (before?, number(&mut client, REMOVED)?);
        let least = number(&mut client, "rt.nroutes")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = Seen { least, ..Seen::default() };
            while !over.load(Ordering::Relaxed) {
                let at = seen.looks as usize % lookups.len();
                let answer = read(&mut client, &lookups[at])?;
                if answer != before[at] && seen.changed.len() < NAMED {
                    seen.changed.push(format!("{}: '{answer}', not '{}'", lookups[at], before[at]));
                }
                seen.least = seen.least.min(number(&mut client, "rt.nroutes")?);
                seen.looks += 1;
                std::thread::sleep(PAUSE);
            }
            seen.removed = number(&mut client, REMOVED)? - removed;
            Ok(seen)
        });
        Ok(Watch { is_over, thread: Some(thread) })
    }

    /// Ends.
    pub(super) fn end(mut self) -> Result<Seen, Error> {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().ok_or_else(|| Error::nothing("it has ended"))?;
        thread.join().map_err(|_| Error::Panicked("the thread that watches the table has"))?
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn read(client: &mut Client, handler: &str) -> Result<String, Error> {
    Ok(client.read(handler)?)
}

fn number(client: &mut Client, handler: &str) -> Result<u64, Error> {
    let text = read(client, handler)?;
    let number = text.trim().parse();
    number.map_err(|_| Error::Nothing(format!("{handler}: '{text}' is not a number")))
}

/// What the router's table has differently from an oracle; nothing is well. Workers wait while the table is listed.
pub(super) fn differences(site: &Site, oracle: &Oracle) -> Result<Vec<String>, Error> {
    let text = site.read("rt.table")?;
    let route = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse::<Prefix4>().ok()?, words.next()?.parse::<Ipv4Addr>().ok()?))
    };
    let is_learnt = |(_, hop): &(Prefix4, Ipv4Addr)| *hop >= gateway(0);
    let held: Oracle = text.lines().filter_map(route).filter(is_learnt).collect();
    let hop = |hop: Option<&Ipv4Addr>| hop.map_or("nowhere".to_owned(), Ipv4Addr::to_string);
    let lacking = oracle.iter().filter(|(prefix, hop)| held.get(prefix) != Some(hop));
    let surplus = held.iter().filter(|(prefix, _)| !oracle.contains_key(prefix));
    let all = lacking.chain(surplus).map(|(prefix, _)| {
        format!("{prefix} leads to {}, and should to {}", hop(held.get(prefix)), hop(oracle.get(prefix)))
    });
    let mut all = all.peekable();
    let mut named: Vec<String> = all.by_ref().take(NAMED).collect();
    let more = all.count();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    Ok(named)
}
