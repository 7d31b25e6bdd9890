// SPDX-License-Identifier: MIT OR Apache-2.0
//! What differs between FPM, the kernel and the router's tables: the answer to `junctor routes diff`.
//!
//! The tables are compared by digests of parts. A part that differs is divided until its rows can be listed. Each step is a short task of the
//! control plane's thread and one of the router's, so both go on with their work meanwhile.

use std::collections::HashMap;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use control::Destination;
use control::rib::{Dispute, Expected, Shown, ShownTree};
use element::HandlerError;
use feed::Group;
use feed::audit::{Answer, NO_OBJECT, Part, ROWS_MAX, Row, digest};
use serde_json::{Value, json};

use crate::process::PATIENCE;
use crate::served::{self, Answers};

/// Differences that are listed.
const MOST: usize = 10_000;
/// A part with fewer entries is listed.
const LISTED: usize = 64;
/// Destinations of which the feeds are compared at once.
const AT_ONCE: usize = 1024;
/// How long feeds may differ because one is behind, and how often that is looked at.
const LAG: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// Compares everything, or what is about the routes of a table.
///
/// # Errors
/// The control plane or the router does not answer.
pub(crate) fn compare(answers: &Answers, table: Option<u8>) -> Result<String, HandlerError> {
    let mut differ =
        Differ { answers, table, found: Vec::new(), routes: 0, objects: 0, trees: 0, has_more: false };
    let compares_feeds = differ.feeds()?;
    for part in [Part::Objects, Part::Four, Part::Six, Part::Trees4, Part::Trees6] {
        differ.part(part)?;
    }
    differ.rules()?;
    let Differ { found, routes, objects, trees, has_more, .. } = differ;
    let all = json!({
        "differences": found,
        "more": has_more,
        "feeds_compared": compares_feeds,
        "router_routes": routes,
        "router_objects": objects,
        "router_multicast": trees,
    });
    Ok(all.to_string())
}

struct Differ<'a> {
    answers: &'a Answers,
    /// The table that is looked at, if not all.
    table: Option<u8>,
    found: Vec<Value>,
    routes: u64,
    objects: u64,
    trees: u64,
    has_more: bool,
}

fn failed(why: impl Into<String>) -> HandlerError {
    HandlerError::Failed(why.into())
}

impl Differ<'_> {
    fn add(&mut self, difference: Value) {
        if self.found.len() < MOST {
            self.found.push(difference);
        } else {
            self.has_more = true;
        }
    }

    /// Compares FPM with the kernel, if both report. One may be behind, so a difference must last.
    fn feeds(&mut self) -> Result<bool, HandlerError> {
        if !self.answers.ask(|plane| plane.rib.has_both_feeds())? {
            return Ok(false);
        }
        let (mut disputed, mut after) = (Vec::new(), None);
        loop {
            let (keys, next) = self.answers.ask(move |plane| plane.rib.disputed(after, AT_ONCE))?;
            disputed.extend(keys);
            after = next;
            if after.is_none() || disputed.len() > MOST {
                break;
            }
        }
        let began = Instant::now();
        while !disputed.is_empty() && began.elapsed() < LAG {
            std::thread::sleep(LOOK);
            let mut lasting = Vec::new();
            for keys in disputed.chunks(AT_ONCE) {
                let mut keys = keys.to_vec();
                lasting.extend(self.answers.ask(move |plane| {
                    keys.retain(|key| plane.rib.dispute(*key).is_some());
                    keys
                })?);
            }
            disputed = lasting;
        }
        disputed.retain(|key| self.is_wanted(key.table));
        for key in disputed {
            let difference = self.answers.ask(move |plane| {
                let dispute = plane.rib.dispute(key)?;
                let show = |shown: &Shown| served::show(plane, shown);
                let (kind, row, why) = match &dispute {
                    Dispute::OnlyFpm(shown) if shown.is_stale => (
                        "only-in-fpm",
                        show(shown),
                        "the daemon was lost and has not named the route since, and the kernel lacks it",
                    ),
                    Dispute::OnlyFpm(shown) => ("only-in-fpm", show(shown), "the kernel lacks the route"),
                    Dispute::OnlyKernel(shown) => {
                        ("only-in-kernel", show(shown), "FPM has not reported the route")
                    }
                    Dispute::Differ(fpm, kernel) => {
                        let mut row = show(fpm);
                        row["found"] = show(kernel);
                        ("feeds-differ", row, "FPM and the kernel have different next hops")
                    }
                };
                Some(described(row, kind, why.to_owned()))
            })?;
            difference.into_iter().for_each(|difference| self.add(difference));
        }
        Ok(true)
    }

    /// Names rules by which the kernel sends packets elsewhere.
    fn rules(&mut self) -> Result<(), HandlerError> {
        if self.table.is_some_and(|table| table != 0) {
            return Ok(());
        }
        let rules: Vec<Value> = self
            .answers
            .ask(|plane| plane.rib.unfollowed_rules().take(served::MOST_RULES).map(served::rule).collect())?;
        for rule in rules {
            let why = "the router does not follow the rule: it chooses a VRF by the interface alone";
            self.add(described(json!({ "rule": rule }), "rule", why.into()));
        }
        Ok(())
    }

    /// Asks the user plane about a part. While it is given all routes, that has to wait.
    fn ask(
        &self,
        (part, from, to): (Part, u64, Option<u64>),
        lists: bool,
    ) -> Result<(Expected, Answer), HandlerError> {
        let began = Instant::now();
        let mut why = String::new();
        while began.elapsed() < PATIENCE {
            let (sender, receiver) = sync_channel(1);
            let asked =
                self.answers.ask(move |plane| plane.ask_user_plane((part, from, to), lists, sender))?;
            why = match asked {
                Ok(expected) => match receiver.recv_timeout(PATIENCE) {
                    Ok(answer) => return Ok((expected, answer)),
                    Err(_) => "the router has gone, or is given all routes".into(),
                },
                Err(why) => why,
            };
            std::thread::sleep(LOOK);
        }
        Err(failed(format!("the router's tables cannot be compared: {why}")))
    }

    fn part(&mut self, part: Part) -> Result<(), HandlerError> {
        let last = if matches!(part, Part::Six | Part::Trees6) { u64::MAX } else { u32::MAX.into() };
        let mut from = 0;
        loop {
            let (expected, answer) = self.ask((part, from, None), false)?;
            let counted = match part {
                Part::Objects => &mut self.objects,
                Part::Four | Part::Six => &mut self.routes,
                Part::Trees4 | Part::Trees6 => &mut self.trees,
            };
            *counted += u64::from(answer.count);
            if !agrees(&expected, &answer) {
                self.divide(part, from, expected.to)?;
            }
            if expected.to >= last || self.has_more {
                return Ok(());
            }
            from = expected.to + 1;
        }
    }

    /// Finds what differs in a range.
    fn divide(&mut self, part: Part, from: u64, to: u64) -> Result<(), HandlerError> {
        let mut ranges = vec![(from, to)];
        while let Some((from, to)) = ranges.pop() {
            if self.has_more {
                return Ok(());
            }
            let (expected, answer) = self.ask((part, from, Some(to)), false)?;
            if agrees(&expected, &answer) {
                continue;
            }
            let is_small =
                expected.rows.len() <= LISTED && answer.count as usize <= ROWS_MAX && !answer.has_more;
            if is_small || from == to {
                self.list(part, from, to)?;
                continue;
            }
            // Where the rows are, so that few steps lead to them.
            let middle =
                expected.rows.get(expected.rows.len() / 2).map(place).filter(|at| (from..to).contains(at));
            let middle = middle.unwrap_or(from + (to - from) / 2);
            ranges.push((middle + 1, to));
            ranges.push((from, middle));
        }
        Ok(())
    }

    /// Compares a range row by row.
    fn list(&mut self, part: Part, from: u64, to: u64) -> Result<(), HandlerError> {
        let (expected, answer) = self.ask((part, from, Some(to)), true)?;
        if expected.has_more || answer.has_more {
            self.add(json!({
                "kind": "too-many", "from": from, "to": to,
                "why": "one address has more routes or multicast entries than can be compared",
            }));
        }
        let mut wanted: HashMap<_, Row> = expected.rows.iter().map(|row| (name(row), *row)).collect();
        for row in &answer.rows {
            if let Row::Route { table, prefix, .. } = *row
                && expected.unsure.contains(&control::DestinationKey { table, prefix })
            {
                continue;
            }
            match wanted.remove(&name(row)) {
                Some(expected) if expected == *row => {}
                Some(expected) => self.differs(expected, Some(*row))?,
                None => self.surplus(*row)?,
            }
        }
        if !answer.has_more {
            wanted.into_values().try_for_each(|row| self.differs(row, None))?;
        }
        Ok(())
    }

    fn is_wanted(&self, table: u8) -> bool {
        self.table.is_none_or(|wanted| wanted == table)
    }

    /// The router has something else than it was sent, or nothing.
    fn differs(&mut self, expected: Row, found: Option<Row>) -> Result<(), HandlerError> {
        if matches!(expected, Row::Route { table, .. } | Row::Tree { table, .. } if !self.is_wanted(table)) {
            return Ok(());
        }
        let difference = self.answers.ask(move |plane| match expected {
            Row::Route { table, prefix, .. } => {
                let shown = plane.rib.show_best(control::DestinationKey { table, prefix })?;
                let mut row = served::show(plane, &shown);
                let Some(Row::Route { id, .. }) = found else {
                    let session = plane.uplink.session();
                    let why = match (session.outstanding(), session.refused()) {
                        (1.., (_, why)) => format!("the router lacks the route: {why}"),
                        _ => "the router lacks the route".into(),
                    };
                    return Some(described(row, "missing-in-router", why));
                };
                row["found"] = json!({ "object": id, "kind": "unknown" });
                if let Some(object) = plane.rib.sent_object(id).cloned() {
                    row["found"] = served::way(plane, Some(&object));
                }
                Some(described(
                    row,
                    "other-next-hops-in-router",
                    "the router has the route with other next hops".into(),
                ))
            }
            Row::Object { id, .. } => {
                let object = plane.rib.sent_object(id).cloned()?;
                let why = match found {
                    None => "the router lacks the object".to_owned(),
                    Some(Row::Object { is_true: false, .. }) => {
                        "the router's next hops are not those of the object".into()
                    }
                    Some(_) => "the router has another version of the object".into(),
                };
                let mut row = served::way(plane, Some(&object));
                row["object"] = id.into();
                Some(described(row, "object", why))
            }
            Row::Tree { table, group, .. } => {
                let row = served::show_tree(plane, &plane.rib.show_tree(table, group)?);
                let (kind, why) = match found {
                    None => ("missing-in-router", "the router lacks the multicast entry"),
                    Some(Row::Tree { is_true: false, .. }) => {
                        ("not-forwarded", "the router forwards otherwise, or not at all")
                    }
                    Some(_) => {
                        ("other-outputs-in-router", "the router has another version of the multicast entry")
                    }
                };
                let (_, refused) = plane.uplink.session().refused();
                let why = if refused.is_empty() { why.to_owned() } else { format!("{why}: {refused}") };
                Some(described(row, kind, why))
            }
        })?;
        // What has gone meanwhile does not differ.
        difference.into_iter().for_each(|difference| self.add(difference));
        Ok(())
    }

    /// The router has something that it was not sent.
    fn surplus(&mut self, row: Row) -> Result<(), HandlerError> {
        let (row, kind, why) = match row {
            Row::Route { table, .. } | Row::Tree { table, .. } if !self.is_wanted(table) => return Ok(()),
            Row::Route { table, prefix, id } => {
                let id = (id != NO_OBJECT).then_some(id);
                let vrf = move |plane: &mut control::Plane| {
                    let vrf = plane.rib.vrf(&control::DestinationKey { table, prefix });
                    vrf.map(|vrf| vrf.name.clone())
                };
                let row = json!({ "prefix": text(prefix), "vrf": self.answers.ask(vrf)?, "object": id });
                (row, "only-in-router", "the router has a fed route that is not valid any more")
            }
            Row::Object { id, .. } => {
                (json!({ "object": id }), "object", "the router has an object that is not in use any more")
            }
            Row::Tree { table, group, .. } => {
                let shown = move |plane: &mut control::Plane| {
                    let tree = feed::Tree::default();
                    served::show_tree(plane, &ShownTree { table, group, tree, is_stale: false })
                };
                let row = self.answers.ask(shown)?;
                (row, "only-in-router", "the router has a multicast entry that is not valid any more")
            }
        };
        self.add(described(row, kind, why.into()));
        Ok(())
    }
}

fn text(prefix: Destination) -> String {
    prefix.to_string()
}

fn described(mut row: Value, kind: &str, why: String) -> Value {
    row["difference"] = kind.into();
    row["why"] = why.into();
    row
}

fn agrees(expected: &Expected, answer: &Answer) -> bool {
    let sum = expected.rows.iter().fold(0u64, |sum, row| sum.wrapping_add(digest(row)));
    let is_sure = expected.unsure.is_empty() && !expected.has_more && !answer.has_more;
    is_sure && answer.digest == sum && answer.count as usize == expected.rows.len()
}

/// What a row is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Route(u8, Destination),
    Object(u32),
    Tree(u8, Group),
}

fn name(row: &Row) -> Name {
    match row {
        Row::Route { table, prefix, .. } => Name::Route(*table, *prefix),
        Row::Object { id, .. } => Name::Object(*id),
        Row::Tree { table, group, .. } => Name::Tree(*table, *group),
    }
}

/// The row's place in the range of its part.
fn place(row: &Row) -> u64 {
    match row {
        Row::Route { prefix: Destination::V4(prefix), .. } => prefix.addr().to_bits().into(),
        Row::Route { prefix: Destination::V6(prefix), .. } => (prefix.addr().to_bits() >> 64) as u64,
        Row::Route { prefix: Destination::Label(label), .. } => (*label).into(),
        Row::Object { id, .. } => (*id).into(),
        Row::Tree { group, .. } => group.place(),
    }
}
