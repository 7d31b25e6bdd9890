// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has to be done about planes when one configuration takes the place of another: a list of actions that is computed,
//! shown, tested, and then carried out.
//!
//! * A plane *uses* a file if its words name it, or a file that it uses does. A file that no plane uses may be one of a router's,
//!   whose name is put together from variables.
//! * A router that uses a changed file gets its new configuration by a hot swap. Other planes are restarted.
//! * A plane that is written differently in the deployment is restarted. What concerns all planes restarts all.

use std::collections::BTreeSet;

use crate::commit::{File, Files};

/// A plane, as far as changes matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plane {
    /// Its name.
    pub name: String,
    /// It runs a router of this machine, which takes new configurations while it runs.
    pub is_router: bool,
    /// All that its process depends on, apart from the content of files.
    pub form: String,
    /// Words that may name files: arguments, values of variables.
    pub words: Vec<String>,
    /// Planes that must be ready before it.
    pub after: Vec<String>,
}

/// The planes of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// What concerns all planes: cores, placement, channels.
    pub whole: String,
    /// What the supervisor does about planes, such as when it restarts them.
    pub supervision: String,
    /// The planes.
    pub planes: Vec<Plane>,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A router gets its new configuration while it runs.
    Swap {
        /// Its plane.
        plane: String,
        /// Changed files.
        files: Vec<String>,
    },
    /// The supervisor is replaced by one that reads the new deployment. Planes go on.
    Supervise,
    /// A plane that is there no more is stopped.
    Stop {
        /// Which.
        plane: String,
    },
    /// A new plane is started.
    Start {
        /// Which.
        plane: String,
    },
    /// A plane is started again.
    Restart {
        /// Which.
        plane: String,
        /// Why.
        why: String,
    },
    /// All planes are stopped and started.
    RestartAll,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Action::Swap { plane, files } => write!(f, "hot swap of plane {plane} ({})", files.join(", ")),
            Action::Supervise => f.write_str("the supervisor reads the new deployment; planes go on"),
            Action::Stop { plane } => write!(f, "stop plane {plane}"),
            Action::Start { plane } => write!(f, "start plane {plane}"),
            Action::Restart { plane, why } => write!(f, "restart plane {plane} ({why})"),
            Action::RestartAll => f.write_str(
                "restart all planes (cores, placement or channels of the deployment are other ones)",
            ),
        }
    }
}

impl Action {
    /// Its word for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Action::Swap { .. } => "swap",
            Action::Supervise => "supervise",
            Action::Stop { .. } => "stop",
            Action::Start { .. } => "start",
            Action::Restart { .. } => "restart",
            Action::RestartAll => "restart-all",
        }
    }

    /// The plane that it is about, if it is about one.
    #[must_use]
    pub fn plane(&self) -> Option<&str> {
        match self {
            Action::Swap { plane, .. }
            | Action::Stop { plane }
            | Action::Start { plane }
            | Action::Restart { plane, .. } => Some(plane),
            Action::Supervise | Action::RestartAll => None,
        }
    }
}

/// Bytes of a file that may name others; longer ones are data.
const NAMES_OTHERS: usize = 1 << 20;

/// What takes one configuration to another, in order. Nothing, if planes do not see the difference.
#[must_use]
pub fn plan(old: (&Layout, &Files), new: (&Layout, &Files)) -> Vec<Action> {
    let ((before, old_files), (after, new_files)) = (old, new);
    if before.whole != after.whole {
        return vec![Action::RestartAll];
    }
    let changed = changed(old_files, new_files);
    let used: Vec<BTreeSet<&str>> = after
        .planes
        .iter()
        .map(|plane| {
            let mut all = uses(plane, new_files);
            // What it used is gone, or is not named any more.
            let was = before.planes.iter().find(|old| old.name == plane.name);
            all.extend(was.map(|was| uses(was, old_files)).unwrap_or_default());
            all
        })
        .collect();
    let (mut swaps, mut starts, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
    for (plane, uses) in after.planes.iter().zip(&used) {
        let name = plane.name.clone();
        let of_nobody = |path: &str| plane.is_router && !used.iter().any(|used| used.contains(path));
        let files: Vec<String> = changed
            .iter()
            .filter(|path| uses.contains(**path) || of_nobody(path))
            .map(|p| (*p).to_owned())
            .collect();
        match before.planes.iter().find(|old| old.name == name) {
            None => starts.push(Action::Start { plane: name }),
            Some(old) if old.form != plane.form => {
                restarts.push(Action::Restart { plane: name, why: "it is written differently".into() });
            }
            Some(_) if files.is_empty() => {}
            Some(_) if plane.is_router => swaps.push(Action::Swap { plane: name, files }),
            Some(_) => restarts.push(Action::Restart { plane: name, why: files.join(", ") }),
        }
    }
    let gone = before.planes.iter().filter(|old| after.planes.iter().all(|plane| plane.name != old.name));
    let stops: Vec<Action> = gone.map(|old| Action::Stop { plane: old.name.clone() }).collect();
    let mut actions = swaps;
    let is_same = before.supervision == after.supervision;
    if !(is_same
        && starts.is_empty()
        && stops.is_empty()
        && restarts.iter().all(|a| is_of_files(a, before, after)))
    {
        actions.push(Action::Supervise);
    }
    actions.extend(stops);
    actions.extend(starts);
    actions.extend(in_order(restarts, after));
    actions
}

/// A restart for which the supervisor need not read the deployment again.
fn is_of_files(action: &Action, before: &Layout, after: &Layout) -> bool {
    let form = |layout: &Layout| {
        layout
            .planes
            .iter()
            .find(|plane| Some(&*plane.name) == action.plane())
            .map(|plane| plane.form.clone())
    };
    form(before) == form(after)
}

/// What takes a configuration back from which these actions were tried, the last of them perhaps in vain.
#[must_use]
pub fn undo(tried: &[Action]) -> Vec<Action> {
    let back = |action: &Action| match action {
        // A supervisor that reads the old deployment stops what that has not.
        Action::Start { plane } => Action::Stop { plane: plane.clone() },
        Action::Stop { plane } => Action::Start { plane: plane.clone() },
        other => other.clone(),
    };
    tried.iter().map(back).collect()
}

/// Restarts, each after those of planes that must be ready before it.
fn in_order(mut restarts: Vec<Action>, layout: &Layout) -> Vec<Action> {
    let mut ordered = Vec::new();
    while !restarts.is_empty() {
        let waits = |action: &Action| {
            let plane = layout.planes.iter().find(|plane| Some(&*plane.name) == action.plane());
            let mut after = plane.into_iter().flat_map(|plane| &plane.after);
            after.any(|before| restarts.iter().any(|other| other.plane() == Some(before) && other != action))
        };
        // A deployment has no circle of them; if it had, any order would do.
        let next = restarts.iter().position(|action| !waits(action)).unwrap_or(0);
        ordered.push(restarts.remove(next));
    }
    ordered
}

fn changed<'a>(old: &'a Files, new: &'a Files) -> BTreeSet<&'a str> {
    old.keys().chain(new.keys()).filter(|path| old.get(*path) != new.get(*path)).map(String::as_str).collect()
}

/// The files that a plane uses.
fn uses<'a>(plane: &Plane, files: &'a Files) -> BTreeSet<&'a str> {
    let mut used = BTreeSet::new();
    let mut open: Vec<&str> = Vec::new();
    for path in files.keys() {
        let directory = |word: &str| {
            let word = word.trim_start_matches("./").trim_end_matches('/');
            !word.is_empty() && path.strip_prefix(word).is_some_and(|rest| rest.starts_with('/'))
        };
        if plane.words.iter().any(|word| names(word, path) || directory(word)) {
            used.insert(path.as_str());
            open.push(path);
        }
    }
    while let Some(path) = open.pop() {
        let Some(text) = files.get(path).and_then(text) else { continue };
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        for other in files.keys().filter(|other| !used.contains(other.as_str())).collect::<Vec<_>>() {
            let beside = other.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
            if names(text, other) || beside.is_some_and(|name| names(text, name)) {
                used.insert(other.as_str());
                open.push(other);
            }
        }
    }
    used
}

fn text(file: &File) -> Option<&str> {
    (file.bytes.len() <= NAMES_OTHERS).then(|| std::str::from_utf8(&file.bytes).ok())?
}

/// Whether a text names a path, and not only a longer one.
fn names(text: &str, path: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.match_indices(path).any(|(at, _)| {
        let before = text[..at].strip_suffix("./").unwrap_or(&text[..at]);
        // What ends a sentence is no part of a name.
        let mut behind = text[at + path.len()..].chars();
        let next = behind.next().filter(|c| *c != '.' || behind.next().is_some_and(is_part));
        !before.ends_with(is_part) && !next.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        let file = |text: &str| File { bytes: text.as_bytes().to_vec(), mode: 0o644, owner: (0, 0) };
        list.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
    }

    fn plane(name: &str, words: &[&str], after: &[&str]) -> Plane {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let form = words.join(" ");
        Plane { name: name.into(), is_router: name == "user", form, words: list(words), after: list(after) }
    }

    fn layout(planes: &[Plane]) -> Layout {
        Layout { planes: planes.to_vec(), ..Layout::default() }
    }

    fn check(old: (&[Plane], &[(&str, &str)]), new: (&[Plane], &[(&str, &str)]), expected: &[&str]) {
        let (before, after) = (layout(old.0), layout(new.0));
        let actions = plan((&before, &files(old.1)), (&after, &files(new.1)));
        assert_eq!(actions.iter().map(Action::to_string).collect::<Vec<_>>(), expected);
    }

    const FILES: [(&str, &str); 4] = [
        ("router.click", "f :: Firewall(rules/fw)"),
        ("rules/fw", "include sets"),
        ("rules/sets", "1"),
        ("zebra.conf", "x"),
    ];

    fn with(path: &str, text: &'static str) -> [(&'static str, &'static str); 4] {
        FILES.map(|(name, old)| (name, if name == path { text } else { old }))
    }

    fn both() -> [Plane; 2] {
        [plane("user", &["router.click"], &[]), plane("zebra", &["zebra", "-f", "./zebra.conf"], &["user"])]
    }

    #[test]
    fn a_changed_file_concerns_those_that_use_it() {
        let same: &[Plane] = &both();
        check((same, &FILES), (same, &FILES), &[]);
        for (path, expected) in [
            ("router.click", "hot swap of plane user (router.click)"),
            ("rules/fw", "hot swap of plane user (rules/fw)"),
            ("rules/sets", "hot swap of plane user (rules/sets)"),
            ("zebra.conf", "restart plane zebra (zebra.conf)"),
        ] {
            let text =
                if path == "router.click" { "f :: Firewall(rules/fw)  -> x" } else { "include sets # 2" };
            check((same, &FILES), (same, &with(path, text)), &[expected]);
        }
    }

    #[test]
    fn a_file_of_nobody_is_the_routers() {
        let same: &[Plane] = &both();
        check((same, &FILES[..1]), (same, &[FILES[0], ("other", "")]), &["hot swap of plane user (other)"]);
        // The router names it no more, but it did.
        check((same, &FILES), (same, &with("rules/fw", "nothing")), &["hot swap of plane user (rules/fw)"]);
    }

    #[test]
    fn planes_come_change_and_go() {
        let supervise = "the supervisor reads the new deployment; planes go on";
        let [user, zebra] = both();
        check((std::slice::from_ref(&user), &FILES), (&both(), &FILES), &[supervise, "start plane zebra"]);
        check((&both(), &FILES), (std::slice::from_ref(&user), &FILES), &[supervise, "stop plane zebra"]);
        let bgpd = plane("bgpd", &["bgpd"], &["zebra"]);
        let other = |name: &str, after| plane(name, &["other"], after);
        check(
            (&[bgpd.clone(), zebra.clone(), user.clone()], &FILES),
            (&[other("bgpd", &["zebra"]), other("zebra", &["user"]), user.clone()], &FILES),
            &[
                supervise,
                "restart plane zebra (it is written differently)",
                "restart plane bgpd (it is written differently)",
            ],
        );
    }

    #[test]
    fn what_concerns_all_restarts_all() {
        let (old, new) = (layout(&both()), Layout { whole: "amp".into(), ..layout(&both()) });
        let all = files(&FILES);
        assert_eq!(plan((&old, &all), (&new, &all)), [Action::RestartAll]);
        let new = Layout { supervision: "backoff".into(), ..old.clone() };
        assert_eq!(plan((&old, &all), (&new, &all)), [Action::Supervise]);
    }

    #[test]
    fn the_way_back_does_the_opposite() {
        let name = |plane: &str| plane.to_owned();
        let tried =
            [Action::Supervise, Action::Stop { plane: name("a") }, Action::Start { plane: name("b") }];
        let back = [Action::Supervise, Action::Start { plane: name("a") }, Action::Stop { plane: name("b") }];
        assert_eq!(undo(&tried), back);
        assert_eq!(undo(&undo(&tried)), tried);
    }

    #[test]
    fn names_are_whole() {
        for text in ["a.conf", "-f a.conf", "x/a.conf", "'./a.conf'", "see a.conf.", "(a.conf)"] {
            assert!(names(text, "a.conf"), "{text}");
        }
        for text in ["ba.conf", "a.conf2", "a.conf.bak", "", "-a.conf"] {
            assert!(!names(text, "a.conf"), "{text}");
        }
    }
}
