// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control plane's answers to `junctor routes`, by the control protocol of routers.
//!
//! Handlers, all of them read: `status`, `links`, `routes [all] [VRF]`, `lookup ADDRESS [VRF]`, `multicast [VRF]`, `group SOURCE GROUP
//! [VRF]`, `diff [VRF]`. Each answers with JSON. VRF is a name,
//! Linux's number of a table, or `main`.
//!
//! `page MOST CURSOR [all] [feed=FEED] [within=PREFIX] [VRF]` answers with a part of `routes`: in its first line the cursor of the next part,
//! or `-`, then a line of JSON for each route. The first part is at `-`. A part may be short, or empty, although others follow.
//! `multicast_page MOST CURSOR [VRF]` answers with a part of `multicast` in the same way.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;

use control::model::{Rule, Source};
use control::rib::{FeedState, Shown, ShownTree, Vrf};
use control::{Asker, DestinationKey, Plane, Within, destination};
use ctl::{Handlers, Listener, Rules, Server, Service};
use element::{Access, HandlerError};
use feed::Group;
use serde_json::{Value, json};

use crate::diff;
use crate::process::{PATIENCE, Socket};

/// Connections at a time.
const MOST_CONNECTIONS: usize = 8;
/// Destinations that are listed between two rounds of the control plane.
const AT_ONCE: usize = 256;
/// Routes of a part at most.
const MOST_ROWS: usize = 10_000;
/// Destinations that are looked at for one part.
const LOOKED_AT: usize = 16_384;
const HANDLERS: [&str; 9] =
    ["status", "links", "routes", "page", "lookup", "multicast", "multicast_page", "group", "diff"];

/// Which part of the routes is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    most: usize,
    after: Option<DestinationKey>,
    all: bool,
    feed: Option<Source>,
    within: Option<Within>,
    table: Option<u8>,
}

/// A socket that is served until this is dropped.
pub(crate) struct Served {
    server: Option<Server>,
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.end();
        }
    }
}

/// Listens where it was asked for.
///
/// # Errors
/// What could not be made.
pub(crate) fn listen(asked: &Socket, asker: Asker) -> Result<Option<Served>, String> {
    let path = match asked {
        Socket::None => return Ok(None),
        Socket::At(path) => path.clone(),
        Socket::Usual => match by_default()? {
            Some(path) => path,
            None => return Ok(None),
        },
    };
    client::remove_if_stale(&path);
    let failed =
        |why: std::io::Error| format!("socket {}: {why}; --socket names another place", path.display());
    let listener = Listener::unix(&path, None).map_err(failed)?;
    let server = Server::start(listener, Arc::new(Answers { asker })).map_err(failed)?;
    Ok(Some(Served { server: Some(server) }))
}

fn by_default() -> Result<Option<PathBuf>, String> {
    use std::os::unix::fs::DirBuilderExt as _;
    let Some(directory) = client::control_planes() else { return Ok(None) };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.map_err(|why| format!("{}: {why}", directory.display()))?;
    Ok(Some(directory.join(format!("{}.sock", std::process::id()))))
}

/// What questions get.
#[derive(Clone)]
pub(crate) struct Answers {
    asker: Asker,
}

impl Answers {
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&mut Plane) -> T + Send + 'static,
    ) -> Result<T, HandlerError> {
        let (sender, answers) = sync_channel(1);
        self.asker.ask(move |plane| {
            let _ = sender.send(answer(plane));
        });
        let answer = answers.recv_timeout(PATIENCE);
        answer.map_err(|_| HandlerError::Failed("the control plane does not answer".into()))
    }

    /// The number of the table that is meant.
    pub(crate) fn table(&self, name: &str) -> Result<u8, HandlerError> {
        let asked = name.to_owned();
        self.ask(move |plane| plane.rib.table(&asked))?.ok_or_else(|| {
            let name = name.escape_debug();
            HandlerError::Failed(format!(
                "the control plane has no VRF or table '{name}': see 'routes --status'"
            ))
        })
    }

    /// All routes, or those of a table.
    fn routes(&self, all: bool, table: Option<u8>) -> Result<String, HandlerError> {
        self.in_parts(move |plane, after| {
            let (routes, next) = plane.rib.show(all, after, AT_ONCE);
            let wanted = routes.iter().filter(|route| table.is_none_or(|table| route.key.table == table));
            (wanted.map(|route| show(plane, route).to_string()).collect(), next)
        })
    }

    /// A part of the routes.
    fn page(&self, part: Part) -> Result<String, HandlerError> {
        let begin = part.after.or_else(|| part.within.and_then(|within| within.begin()));
        let look = move |plane: &mut Plane, after, most| {
            let (routes, next) = plane.rib.show(part.all, after, most);
            let wanted = routes.iter().filter(|route| part.takes(route));
            let found = wanted.map(|route| show(plane, route).to_string()).collect();
            (found, next.filter(|key| !part.within.is_some_and(|within| within.is_past(key))))
        };
        self.gather(part.most, begin, look, DestinationKey::cursor)
    }

    /// A part of the multicast entries.
    fn multicast_page(&self, param: &str) -> Result<String, HandlerError> {
        let mut words = param.split_whitespace();
        let (most, after) = beginning(&mut words, tree_of_cursor)?;
        let table = words.next().map(|vrf| self.table(vrf)).transpose()?;
        let look = move |plane: &mut Plane, after, most| {
            let (trees, next) = plane.rib.show_trees(after, most);
            let wanted = trees.iter().filter(|tree| table.is_none_or(|table| tree.table == table));
            (wanted.map(|tree| show_tree(plane, tree).to_string()).collect(), next)
        };
        self.gather(most, after, look, tree_cursor)
    }

    /// The rows of a part, and where the next one begins. `look` gives so many rows behind a place at most, and the next place.
    fn gather<K: Copy + Send + 'static>(
        &self,
        wanted: usize,
        mut after: Option<K>,
        look: impl Fn(&mut Plane, Option<K>, usize) -> (Vec<String>, Option<K>) + Copy + Send + 'static,
        cursor: impl Fn(&K) -> String,
    ) -> Result<String, HandlerError> {
        let (mut text, mut rows, mut looked_at) = (String::new(), 0, 0);
        loop {
            let (from, most) = (after, AT_ONCE.min(wanted - rows));
            let (found, next) = self.ask(move |plane| look(plane, from, most))?;
            rows += found.len();
            looked_at += most;
            for row in found {
                text.push('\n');
                text += &row;
            }
            after = next;
            if after.is_none() || rows >= wanted || looked_at >= LOOKED_AT {
                return Ok(after.map_or_else(|| "-".to_owned(), |key| cursor(&key)) + &text);
            }
        }
    }

    fn part(&self, param: &str) -> Result<Part, HandlerError> {
        let mut words = param.split_whitespace();
        let (most, after) = beginning(&mut words, DestinationKey::of_cursor)?;
        let mut part = Part { most, after, all: false, feed: None, within: None, table: None };
        for word in words {
            match word.split_once('=') {
                Some(("feed", name)) => {
                    let feed = [Source::Fpm, Source::Kernel].into_iter().find(|feed| source(*feed) == name);
                    part.feed = Some(feed.ok_or_else(|| wrong("feed, as fpm or kernel", name))?);
                }
                Some(("within", prefix)) => {
                    let within = destination(prefix).and_then(Within::new);
                    part.within = Some(within.ok_or_else(|| wrong("prefix", prefix))?);
                }
                _ if word == "all" => part.all = true,
                _ => part.table = Some(self.table(word)?),
            }
        }
        Ok(part)
    }

    /// All multicast entries, or those of a table.
    fn multicast(&self, table: Option<u8>) -> Result<String, HandlerError> {
        self.in_parts(move |plane, after| {
            let (trees, next) = plane.rib.show_trees(after, AT_ONCE);
            let wanted = trees.iter().filter(|tree| table.is_none_or(|table| tree.table == table));
            (wanted.map(|tree| show_tree(plane, tree).to_string()).collect(), next)
        })
    }

    /// A list that is asked for in parts, so that the feeds go on meanwhile. `part` gives rows behind a place, and the next place.
    fn in_parts<K: Copy + Send + 'static>(
        &self,
        part: impl Fn(&mut Plane, Option<K>) -> (Vec<String>, Option<K>) + Copy + Send + 'static,
    ) -> Result<String, HandlerError> {
        let (mut text, mut after) = (String::from("["), None);
        loop {
            let (rows, next) = self.ask(move |plane| part(plane, after))?;
            let rows = rows.join(",");
            if text.len() > 1 && !rows.is_empty() {
                text.push(',');
            }
            text += &rows;
            after = next;
            if after.is_none() {
                return Ok(text + "]");
            }
        }
    }
}

impl Part {
    fn takes(&self, route: &Shown) -> bool {
        self.table.is_none_or(|table| route.key.table == table)
            && self.feed.is_none_or(|feed| route.source == feed)
            && self.within.is_none_or(|within| within.holds(&route.key))
    }
}

impl Service for Answers {
    fn rules(&self) -> Rules {
        Rules { read_only: true, token: None, idle: None, most: MOST_CONNECTIONS, verbose: false }
    }

    fn handlers(&self, _: &Arc<AtomicU64>) -> Box<dyn Handlers> {
        Box::new(self.clone())
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn say(&self, text: &str) {
        errln!("junctor: control: {text}");
    }

    fn wrote(&self, _: &str, _: usize, _: &str, _: bool) {}
}

impl Handlers for Answers {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        if HANDLERS.contains(&name) { Ok(Access::Read) } else { Err(HandlerError::unknown(name)) }
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        let mut words = param.split_whitespace();
        match name {
            "status" => self.ask(|plane| status(plane).to_string()),
            "links" => self.ask(|plane| links(plane).to_string()),
            "diff" => diff::compare(self, words.next().map(|vrf| self.table(vrf)).transpose()?),
            "routes" => {
                let mut words = words.peekable();
                let all = words.next_if_eq(&"all").is_some();
                self.routes(all, words.next().map(|vrf| self.table(vrf)).transpose()?)
            }
            "page" => self.page(self.part(param)?),
            "multicast_page" => self.multicast_page(param),
            "multicast" => self.multicast(words.next().map(|vrf| self.table(vrf)).transpose()?),
            "group" => {
                let [source, address] = [address(words.next())?, address(words.next())?];
                let table = words.next().map_or(Ok(0), |vrf| self.table(vrf))?;
                let groups = [Some(source), None].map(|source| Group::new(source, address));
                self.ask(move |plane| {
                    let mut trees =
                        groups.iter().flatten().filter_map(|group| plane.rib.show_tree(table, *group));
                    trees.next().map_or(Value::Null, |tree| show_tree(plane, &tree)).to_string()
                })
            }
            "lookup" => {
                let address = address(words.next())?;
                let table = words.next().map_or(Ok(0), |vrf| self.table(vrf))?;
                self.ask(move |plane| match plane.rib.lookup(table, address) {
                    Some(route) => show(plane, &route).to_string(),
                    None => Value::Null.to_string(),
                })
            }
            _ => Err(HandlerError::unknown(name)),
        }
    }

    fn write(&mut self, name: &str, _: &str) -> Result<String, HandlerError> {
        Err(HandlerError::Denied(format!("handler '{name}' is read-only")))
    }
}

fn wrong(what: &str, word: &str) -> HandlerError {
    HandlerError::Failed(format!("'{}' is no {what}", word.escape_debug()))
}

/// The first two words of what asks for a part: how many rows at most, and behind which place.
fn beginning<'a, K>(
    words: &mut impl Iterator<Item = &'a str>,
    place: impl Fn(&str) -> Option<K>,
) -> Result<(usize, Option<K>), HandlerError> {
    let most = words.next().unwrap_or_default();
    let number = most.parse().ok().filter(|most| (1..=MOST_ROWS).contains(most));
    let number = number.ok_or_else(|| wrong(&format!("number from 1 to {MOST_ROWS}"), most))?;
    let after = match words.next() {
        None | Some("-") => None,
        Some(cursor) => Some(place(cursor).ok_or_else(|| wrong("cursor", cursor))?),
    };
    Ok((number, after))
}

/// The place of a multicast entry as a word: its table, group and source.
fn tree_cursor((table, group): &(u8, Group)) -> String {
    let source = group.source().map_or_else(|| "*".to_owned(), |source| source.to_string());
    format!("{table},{},{source}", group.address())
}

/// The place that a [`tree_cursor`] names.
fn tree_of_cursor(text: &str) -> Option<(u8, Group)> {
    let (table, rest) = text.split_once(',')?;
    let (address, source) = rest.split_once(',')?;
    let source = if source == "*" { None } else { Some(source.parse().ok()?) };
    Some((table.parse().ok()?, Group::new(source, address.parse().ok()?)?))
}

fn address(word: Option<&str>) -> Result<IpAddr, HandlerError> {
    let text = word.unwrap_or_default();
    text.parse().map_err(|_| HandlerError::Failed(format!("'{}' is not an address", text.escape_debug())))
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Fpm => "fpm",
        Source::Kernel => "kernel",
    }
}

fn status(plane: &mut Plane) -> Value {
    let counts = plane.rib.counts();
    let now = plane.now();
    let feed = |state: FeedState| {
        json!({
            "up": state.is_up,
            "replaying": state.is_replaying,
            "stale_s": state.stale_until.map(|until| until.saturating_sub(now).as_secs()),
        })
    };
    let session = plane.uplink.session();
    let (refused, why) = session.refused();
    let (sent, applied) = session.progress();
    json!({
        "feeds": { "fpm": feed(plane.rib.feed(Source::Fpm)), "kernel": feed(plane.rib.feed(Source::Kernel)) },
        "routes": { "fpm": counts.fpm, "kernel": counts.kernel, "local": counts.local },
        "multicast": { "entries": counts.trees, "left_out": counts.trees_left_out },
        "vrfs": vrfs(plane),
        "objects": counts.objects,
        "waiting": counts.waiting,
        "held": counts.held,
        "lingering": counts.lingering,
        "missing_daemons": plane.rib.missing_daemons().map(control::model::Daemon::program).collect::<Vec<_>>(),
        "left_out": counts.left_out,
        "unfollowed_rules": plane.rib.unfollowed_rules().take(MOST_RULES).map(rule).collect::<Vec<_>>(),
        "router": {
            "connected": session.is_open(),
            "replaying": plane.rib.is_replaying(),
            "trouble": plane.uplink.trouble(),
            "batches_sent": sent,
            "batches_applied": applied,
            "replays": plane.uplink.replays(),
            "replayed_for": plane.uplink.replayed_for(),
            "refused": refused,
            "outstanding": session.outstanding(),
            "refused_why": (refused > 0 || session.outstanding() > 0).then_some(why),
        },
    })
}

/// Rules of the kernel that are listed.
pub(crate) const MOST_RULES: usize = 100;

/// A rule of the kernel.
pub(crate) fn rule((is_six, rule): (bool, &Rule)) -> Value {
    json!({
        "family": if is_six { 6 } else { 4 },
        "priority": rule.priority,
        "table": rule.table,
        "input": rule.input,
        "has_other_conditions": !rule.is_simple,
    })
}

/// VRFs, and the kernel's interfaces that belong to them.
fn vrfs(plane: &Plane) -> Value {
    let rib = &plane.rib;
    let one = |(number, vrf): (u8, &Vrf)| {
        let device = rib.links().find(|(_, link)| link.vrf_table == Some(vrf.table));
        let of_device =
            |link: &control::model::Link| device.is_some_and(|(index, _)| link.master == Some(index));
        let interfaces: Vec<&str> =
            rib.links().filter(|(_, link)| of_device(link)).map(|(_, link)| &*link.name).collect();
        json!({
            "name": vrf.name,
            "table": vrf.table,
            "destinations": rib.destinations(number),
            "device": device.map(|(_, link)| &*link.name),
            "interfaces": interfaces,
        })
    };
    rib.vrfs().map(one).collect()
}

fn links(plane: &mut Plane) -> Value {
    let link = |(index, link): (u32, &control::model::Link)| {
        json!({
            "index": index,
            "name": link.name,
            "up": link.is_up,
            "mtu": link.mtu,
            "ether": link.ether.map(|ether| ether.to_string()),
        })
    };
    plane.rib.links().map(link).collect()
}

/// Where an object leads, for people and programs.
pub(crate) fn way(plane: &Plane, way: Option<&feed::Object>) -> Value {
    let hop = |hop: &feed::Hop| {
        json!({
            "gateway": hop.gateway,
            "link": plane.rib.link_name(hop.link),
            "weight": hop.weight,
            "labels": hop.labels.as_slice(),
            "backup": hop.backup,
        })
    };
    let (kind, hops) = match way {
        None => ("waiting", Vec::new()),
        Some(feed::Object::Forward(hops)) => ("forward", hops.iter().map(hop).collect()),
        Some(feed::Object::Local) => ("local", Vec::new()),
        Some(feed::Object::Blackhole) => ("blackhole", Vec::new()),
        Some(feed::Object::Unreachable) => ("unreachable", Vec::new()),
        Some(feed::Object::Prohibit) => ("prohibit", Vec::new()),
        Some(feed::Object::Table(_)) => ("table", Vec::new()),
    };
    json!({ "kind": kind, "hops": hops })
}

/// A multicast entry for people and programs.
pub(crate) fn show_tree(plane: &Plane, tree: &ShownTree) -> Value {
    let rib = &plane.rib;
    let vrf = rib.vrfs().find(|(number, _)| *number == tree.table).map(|(_, vrf)| vrf);
    let output = |branch: &feed::Branch| json!({ "link": rib.link_name(branch.link), "ttl": branch.ttl, "kept": branch.is_kept });
    let outputs: Vec<Value> = tree.tree.branches.iter().map(output).collect();
    json!({
        "source": tree.group.source(),
        "group": tree.group.address(),
        "vrf": vrf.map(|vrf| vrf.name.as_str()),
        "table": vrf.map_or(control::model::MAIN, |vrf| vrf.table),
        "input": tree.tree.input.and_then(|link| rib.link_name(link)),
        "outputs": outputs,
        "stale": tree.is_stale,
    })
}

/// A route for people and programs.
pub(crate) fn show(plane: &Plane, route: &Shown) -> Value {
    let mut row = way(plane, route.way.as_ref());
    row["prefix"] = route.key.prefix.to_string().into();
    let vrf = plane.rib.vrf(&route.key);
    row["vrf"] = vrf.map(|vrf| vrf.name.clone()).into();
    row["table"] = vrf.map_or(control::model::MAIN, |vrf| vrf.table).into();
    row["feed"] = source(route.source).into();
    row["protocol"] = control::model::protocol_name(route.protocol).into();
    row["metric"] = route.metric.into();
    row["object"] = route.object.into();
    row["best"] = route.is_best.into();
    row["stale"] = route.is_stale.into();
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_multicast_entries_are_read_as_they_were_written() {
        for text in ["0,239.1.2.3,*", "255,239.1.2.3,10.0.0.1", "3,ff3e::1,2001:db8::1", "0,ff3e::1,*"] {
            assert_eq!(tree_cursor(&tree_of_cursor(text).unwrap()), text);
        }
        for bad in
            ["", "0", "0,239.1.2.3", "0,10.0.0.1,*", "256,239.1.2.3,*", "0,239.1.2.3,::1", "0,239.1.2.3,x"]
        {
            assert_eq!(tree_of_cursor(bad), None, "{bad}");
        }
    }
}
