// SPDX-License-Identifier: MIT OR Apache-2.0
//! Named sets of a running firewall: what handlers show and change.
//!
//! All of it is done apart from the workers. They wait for one exchange of a pointer, and drop nothing meanwhile.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use element::HandlerError;
use element::clock::{Nanos, SECOND};
use firewall::Ruleset;
use firewall::set::{Contents, Entry, FOREVER, Kind};

use super::judge::{REPLACED, SharedJudge, lock, present};

/// Entries in one answer: it stays below the MiB that a client may always have.
const LISTED: usize = 8192;

fn rules(judge: &SharedJudge) -> Arc<Ruleset> {
    Arc::clone(lock(judge).firewall.ruleset())
}

fn failed(why: String) -> HandlerError {
    HandlerError::Failed(why)
}

/// A line for each set: its name, kind, entries, how many of them end, and bytes that look-ups go through.
pub(super) fn about(judge: &SharedJudge, now: Nanos) -> String {
    let sets = rules(judge).sets(now);
    let line = |set: &firewall::About| {
        format!("{} {} {} {} {}\n", set.name, set.kind.name(), set.entries, set.ending, set.bytes)
    };
    sets.iter().map(line).collect()
}

/// The first word of a handler's value, which names a set, and the others.
fn named<'a>(
    ruleset: &Ruleset,
    value: &'a str,
) -> Result<(usize, Kind, impl Iterator<Item = &'a str>), HandlerError> {
    let mut words =
        value.split(|c: char| c.is_ascii_whitespace() || c == ',').filter(|word| !word.is_empty());
    let name = words.next().ok_or_else(|| failed("name a set; 'sets' lists them".into()))?;
    let (set, kind) = ruleset.set(name).map_err(failed)?;
    Ok((set, kind, words))
}

/// An entry and the seconds until it ends, or `-`.
fn line((entry, end): (Entry, u64), now: Nanos) -> String {
    match end {
        FOREVER => format!("{entry} -\n"),
        end => format!("{entry} {}\n", end.saturating_sub(now).div_ceil(SECOND)),
    }
}

/// Some entries of a set, from behind one on: `NAME [ENTRY]`. The first line is the entry with which to go on, or `-`.
pub(super) fn list(judge: &SharedJudge, value: &str, now: Nanos) -> Result<String, HandlerError> {
    let ruleset = rules(judge);
    let (set, kind, mut words) = named(&ruleset, value)?;
    let behind = words.next().map(|word| Entry::parse(kind, word)).transpose().map_err(failed)?;
    let found: Vec<(Entry, u64)> = ruleset.look(set, |set| set.entries(behind).take(LISTED).collect());
    let mut text = match found.last() {
        Some((last, _)) if found.len() == LISTED => format!("{last}\n"),
        _ => "-\n".to_owned(),
    };
    found.into_iter().filter(|(_, end)| now < *end).for_each(|entry| text += &line(entry, now));
    Ok(text)
}

/// The entries of a set that hold an address or a port: `NAME VALUE`.
pub(super) fn test(judge: &SharedJudge, value: &str, now: Nanos) -> Result<String, HandlerError> {
    let ruleset = rules(judge);
    let (set, kind, mut words) = named(&ruleset, value)?;
    let what = words.next().ok_or_else(|| failed(format!("which of the {}?", kind.words())))?;
    let entry = Entry::parse(kind, what).map_err(failed)?;
    let found = ruleset.look(set, |set| set.around(entry));
    Ok(found.into_iter().filter(|(_, end)| now < *end).map(|entry| line(entry, now)).collect())
}

/// Changes a set, and puts what it holds in place at once. `new` may be added. Returns what `change` returns.
fn change<R>(
    judge: &SharedJudge,
    ruleset: &Arc<Ruleset>,
    (set, new): (usize, &[Entry]),
    now: Nanos,
    change: impl FnOnce(&mut Contents) -> R,
) -> Result<R, HandlerError> {
    let mut in_place = Ok(());
    let done = ruleset.change(set, now, new, change, |view| {
        let mut guard = lock(judge);
        let is_present = Arc::ptr_eq(guard.firewall.ruleset(), ruleset);
        in_place =
            guard.check_present().and_then(|()| is_present.then_some(()).ok_or_else(|| REPLACED.into()));
        let old = guard.firewall.put_sets(ruleset, view);
        drop(guard);
        drop(old);
    });
    in_place.and(done).map_err(failed)
}

/// Reads entries, and `for TIME` behind them.
fn entries<'a>(
    kind: Kind,
    words: impl Iterator<Item = &'a str>,
) -> Result<(Vec<Entry>, Option<u64>), HandlerError> {
    let mut words = words.peekable();
    let (mut all, mut time) = (Vec::new(), None);
    while let Some(word) = words.next() {
        if word == "for" {
            let text = words.next().unwrap_or_default();
            let ns = firewall::time_ns(text).filter(|_| words.peek().is_none());
            let why = || failed("'for' needs a time at the end, such as 30s, 5m or 2h".to_owned());
            time = Some(ns.ok_or_else(why)?);
        } else {
            all.push(Entry::parse(kind, word).map_err(failed)?);
        }
    }
    if all.is_empty() {
        return Err(failed(format!("name some {}", kind.words())));
    }
    Ok((all, time))
}

/// Adds entries: `NAME ENTRY ... [for TIME]`. Those that are there get the new end.
pub(super) fn add(judge: &SharedJudge, value: &str, now: Nanos) -> Result<(), HandlerError> {
    let ruleset = present(judge).map_err(failed)?;
    let (set, kind, words) = named(&ruleset, value)?;
    let (all, time) = entries(kind, words)?;
    let end = time.map_or(FOREVER, |time| now.saturating_add(time));
    change(judge, &ruleset, (set, &all), now, |set| set.change(&all, Some(end))).map(drop)
}

/// Removes entries: `NAME ENTRY ...`. If one is not there, nothing changes.
pub(super) fn remove(judge: &SharedJudge, value: &str, now: Nanos) -> Result<(), HandlerError> {
    let ruleset = present(judge).map_err(failed)?;
    let (set, kind, words) = named(&ruleset, value)?;
    let (all, time) = entries(kind, words)?;
    if time.is_some() {
        return Err(failed("'for' is for entries that are added".into()));
    }
    let remove = |contents: &mut Contents| {
        for entry in &all {
            let around = contents.around(*entry);
            if !around.iter().any(|(other, _)| other == entry) {
                return Err(missing(*entry, &around));
            }
        }
        contents.change(&all, None);
        Ok(())
    };
    change(judge, &ruleset, (set, &[]), now, remove)?
}

/// That an entry is not there, and which larger ones are.
fn missing(entry: Entry, around: &[(Entry, u64)]) -> HandlerError {
    let mut why = format!("'{entry}' is no entry of the set: nothing is removed");
    for (n, (other, _)) in around.iter().take(3).enumerate() {
        let _ = write!(why, "{}{other}", if n == 0 { "; it is held by " } else { ", " });
    }
    failed(why)
}

/// Has the entries of a file in place of those there are: `NAME PATH`.
pub(super) fn load(judge: &SharedJudge, value: &str, now: Nanos) -> Result<(), HandlerError> {
    let ruleset = present(judge).map_err(failed)?;
    let (name, path) = value.trim().split_once(char::is_whitespace).unwrap_or((value.trim(), ""));
    let (set, kind) = ruleset.set(name).map_err(failed)?;
    let found = firewall::members(Path::new(path.trim()), kind).map_err(failed)?;
    let mut new = Contents::new(kind);
    new.replace(&found, now);
    drop(found);
    change(judge, &ruleset, (set, &[]), now, |contents| std::mem::replace(contents, new)).map(drop)
}

/// Removes all entries of a set: `NAME`.
pub(super) fn flush(judge: &SharedJudge, value: &str, now: Nanos) -> Result<(), HandlerError> {
    let ruleset = present(judge).map_err(failed)?;
    let (set, kind, _) = named(&ruleset, value)?;
    let empty = Contents::new(kind);
    change(judge, &ruleset, (set, &[]), now, |contents| std::mem::replace(contents, empty)).map(drop)
}
