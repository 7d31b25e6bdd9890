// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store on a disk in memory that forgets what was not synced, cut at every step, and on a real one.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::commit::Author;
use crate::disk::{self, Real};

/// What a name in a directory stands for.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// A file, by its place among all contents.
    File(usize),
    Link(PathBuf),
    /// A directory, by its place among all directories.
    Directory(usize),
}

type Names = BTreeMap<String, Node>;

/// A disk whose directories and files each have what programs see, and what a power cut leaves.
#[derive(Clone, Debug, Default)]
struct State_ {
    contents: Vec<(File, Option<File>)>,
    directories: Vec<(Names, Names)>,
    /// Operations until the power is cut.
    left: Option<usize>,
    operations: usize,
}

#[derive(Clone, Debug)]
struct Memory(RefCell<State_>);

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Memory {
    fn new() -> Memory {
        Memory(RefCell::new(State_ { directories: vec![Default::default()], ..State_::default() }))
    }

    /// Counts an operation that changes something; fails when the power is cut.
    fn change(&self) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.operations += 1;
        match &mut state.left {
            Some(0) => Err(io::Error::other("the power is cut")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn cut_after(&self, operations: usize) {
        self.0.borrow_mut().left = Some(operations);
    }

    /// What the disk has after the power was cut. Of what was not synced, `choose` says what is there all the same.
    fn after_cut(&self, mut choose: impl FnMut() -> bool) -> Memory {
        let mut state = self.0.borrow().clone();
        state.left = None;
        for (now, synced) in &mut state.contents {
            let lost = File { bytes: now.bytes[..now.bytes.len() / 2].to_vec(), ..now.clone() };
            *now = match synced {
                Some(synced) => synced.clone(),
                None if choose() => now.clone(),
                None => lost,
            };
            *synced = Some(now.clone());
        }
        for (now, synced) in &mut state.directories {
            let all: Vec<String> = now.keys().chain(synced.keys()).cloned().collect();
            for name in all {
                let node = if choose() { now.get(&name) } else { synced.get(&name) }.cloned();
                match node {
                    Some(node) => drop(synced.insert(name, node)),
                    None => drop(synced.remove(&name)),
                }
            }
            *now = synced.clone();
        }
        Memory(RefCell::new(state))
    }

    fn find(&self, path: &Path) -> io::Result<Node> {
        let state = self.0.borrow();
        let mut node = Node::Directory(0);
        for name in path.iter().filter(|name| *name != "/") {
            let Node::Directory(number) = node else { return Err(not_found()) };
            let names = &state.directories[number].0;
            node = names.get(&*name.to_string_lossy()).cloned().ok_or_else(not_found)?;
        }
        Ok(node)
    }

    fn directory(&self, path: &Path) -> io::Result<usize> {
        match self.find(path)? {
            Node::Directory(number) => Ok(number),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn place(path: &Path) -> (&Path, String) {
        (path.parent().unwrap(), path.file_name().unwrap().to_string_lossy().into_owned())
    }

    fn put(&self, path: &Path, node: Node) -> io::Result<()> {
        let (above, name) = Memory::place(path);
        let above = self.directory(above)?;
        self.0.borrow_mut().directories[above].0.insert(name, node);
        Ok(())
    }
}

/// A file with this content may not be read.
const LOCKED: &str = "locked";

impl Disk for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.find(path)? {
            Node::File(number) if self.0.borrow().contents[number].0.bytes == LOCKED.as_bytes() => {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            Node::File(number) => Ok(self.0.borrow().contents[number].0.bytes.clone()),
            _ => Err(not_found()),
        }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let number = self.directory(directory)?;
        Ok(self.0.borrow().directories[number].0.keys().cloned().collect())
    }

    fn link(&self, path: &Path) -> io::Result<PathBuf> {
        match self.find(path)? {
            Node::Link(target) => Ok(target),
            _ => Err(not_found()),
        }
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        if self.find(path).is_ok() {
            return Ok(());
        }
        let number = self.0.borrow().directories.len();
        self.0.borrow_mut().directories.push(Default::default());
        self.put(path, Node::Directory(number))
    }

    fn write(&self, path: &Path, file: &File) -> io::Result<()> {
        if self.find(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change()?;
        let number = self.0.borrow().contents.len();
        self.0.borrow_mut().contents.push((file.clone(), None));
        self.put(path, Node::File(number))?;
        // A cut between the two leaves a part of the file.
        self.change()?;
        self.0.borrow_mut().contents[number].1 = Some(file.clone());
        Ok(())
    }

    fn make_link(&self, target: &Path, path: &Path) -> io::Result<()> {
        self.change()?;
        self.put(path, Node::Link(target.to_owned()))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.find(from)?;
        if let (Node::Directory(_), Ok(_)) = (&node, self.find(to)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.change()?;
        let (above, name) = Memory::place(from);
        let above = self.directory(above)?;
        self.0.borrow_mut().directories[above].0.remove(&name);
        self.put(to, node)
    }

    fn sync(&self, directory: &Path) -> io::Result<()> {
        self.change()?;
        let number = self.directory(directory)?;
        let mut state = self.0.borrow_mut();
        let names = state.directories[number].0.clone();
        state.directories[number].1 = names;
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if self.find(path).is_err() {
            return Ok(());
        }
        self.change()?;
        let (above, name) = Memory::place(path);
        let above = self.directory(above)?;
        self.0.borrow_mut().directories[above].0.remove(&name);
        Ok(())
    }
}

const ROOT: &str = "/state";

fn open(disk: Memory) -> Store<Memory> {
    Store::open(disk, Path::new(ROOT)).unwrap()
}

fn file(text: &str) -> File {
    File { bytes: text.as_bytes().to_vec(), mode: 0o644, owner: own() }
}

fn own() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

fn files(text: &str) -> Files {
    let all = [("router.click", file(text)), ("frr/zebra/a.conf", file("x")), ("frr/b", file(text))];
    all.into_iter().map(|(path, file)| (path.to_owned(), file)).collect()
}

fn draft(parent: Option<u64>) -> Draft {
    let author = Author { uid: 0, user: "root".into(), sudo_user: Some("ann".into()) };
    Draft { comment: "why".into(), author, time_s: 1_000_000, parent, confirm_within_ms: None }
}

/// One whole transaction without a service.
fn transaction(store: &Store<Memory>, text: &str, keep: usize) -> Result<u64, Error> {
    let parent = store.confirmed()?;
    let number = store.save(&files(text), draft(parent), keep)?;
    store.set_switching(parent.map(|parent| [parent, number]))?;
    store.set_live(number)?;
    store.set_switching(None)?;
    store.confirm(number)?;
    store.set_base(number)?;
    Ok(number)
}

#[test]
fn a_commit_is_found_as_it_was_saved() {
    let store = open(Memory::new());
    assert_eq!(
        (store.confirmed().unwrap(), store.live().unwrap(), store.base().unwrap()),
        (None, None, None)
    );
    assert_eq!(transaction(&store, "one", 9).unwrap(), 1);
    assert_eq!(store.save(&files("two"), draft(Some(1)), 9).unwrap(), 2);
    assert_eq!(store.files(1).unwrap(), files("one"));
    assert_eq!(store.files(2).unwrap(), files("two"));
    assert_eq!((store.confirmed().unwrap(), store.live().unwrap()), (Some(1), Some(1)));
    let commit = store.commit(2).unwrap();
    assert_eq!((commit.parent, &commit.state, commit.files.len()), (Some(1), &State::Pending, 3));
    assert_eq!(store.commit(1).unwrap().state, State::Confirmed);
    store.set_state(2, State::Failed { why: "no".into() }).unwrap();
    assert_eq!(store.commit(2).unwrap().state.word(), "failed");
    assert_eq!(store.files(2).unwrap(), files("two"));
}

#[test]
fn what_is_wrong_is_said() {
    let store = open(Memory::new());
    let why = |done: Error| done.to_string();
    assert!(why(store.files(4).unwrap_err()).contains("there is no commit 4"));
    assert!(why(store.confirm(4).unwrap_err()).contains("there is no commit 4"));
    assert!(why(store.save(&Files::new(), draft(None), 9).unwrap_err()).contains("no files"));
    let outside: Files = [("../x".to_owned(), file("x"))].into();
    assert!(why(store.save(&outside, draft(None), 9).unwrap_err()).contains("'../x' is no path"));
    transaction(&store, "one", 9).unwrap();
    let path = store.files_of(1).join("frr/b");
    store.disk.remove(&path).unwrap();
    assert!(why(store.files(1).unwrap_err()).contains("commit 1 is damaged: frr/b cannot be read"));
    store.disk.write(&path, &file("other")).unwrap();
    assert!(why(store.files(1).unwrap_err()).contains("frr/b is not as it was saved"));
    store.disk.remove(&path).unwrap();
    store.disk.write(&path, &file(LOCKED)).unwrap();
    let said = why(store.files(1).unwrap_err());
    assert!(said.contains("commit 1: frr/b belongs to user") && said.contains("with mode 644"), "{said}");
    assert!(said.contains("`chgrp ") && !said.contains("damaged"), "{said}");
    store.replace(&store.root.join(CONFIRMED), b"x\n").unwrap();
    assert!(why(store.confirmed().unwrap_err()).contains("'x' is no number"));
}

#[test]
fn old_commits_go_but_none_in_use() {
    let store = open(Memory::new());
    for n in 1..=4 {
        transaction(&store, &n.to_string(), 3).unwrap();
    }
    assert_eq!(store.numbers().unwrap(), [2, 3, 4]);
    for n in 5..=9 {
        store.save(&files(&n.to_string()), draft(Some(4)), 3).unwrap();
    }
    assert_eq!(store.numbers().unwrap(), [4, 7, 8, 9], "4 boots");
    assert_eq!(store.save(&files("x"), draft(Some(4)), 1).unwrap(), 10, "a number is used once");
}

/// Cuts the power at each operation of a transaction, and looks what is there then.
fn cut_everywhere(keep: usize, choose: &mut dyn FnMut() -> bool) -> Result<(), TestCaseError> {
    let before = open(Memory::new());
    transaction(&before, "one", keep).unwrap();
    transaction(&before, "two", keep).unwrap();
    let whole = open(Memory(RefCell::new(before.disk.0.borrow().clone())));
    let begun = whole.disk.0.borrow().operations;
    transaction(&whole, "three", keep).unwrap();
    let operations = whole.disk.0.borrow().operations - begun;
    prop_assert!(operations > 30, "{operations}");
    for cut in 0..=operations {
        let store = open(Memory(RefCell::new(before.disk.0.borrow().clone())));
        store.disk.cut_after(cut);
        let done = transaction(&store, "three", keep);
        prop_assert_eq!(done.is_ok(), cut == operations);
        let store = open(store.disk.after_cut(&mut *choose));
        let confirmed = store.confirmed().unwrap().unwrap();
        // Either the old one or the new one boots, and it is whole.
        match confirmed {
            2 => prop_assert_eq!(store.files(2).unwrap(), files("two")),
            3 => prop_assert_eq!(store.files(3).unwrap(), files("three")),
            other => prop_assert!(false, "cut at {}: commit {} boots", cut, other),
        }
        prop_assert!(done.is_err() || confirmed == 3, "what was said to be saved is saved");
        // The history has the right word for what boots, and for what never did.
        let word = |number| store.commit(number).map_or("none", |commit| commit.state.word());
        prop_assert_eq!(word(confirmed), "confirmed", "cut at {}: {}", cut, confirmed);
        prop_assert!(confirmed == 3 || matches!(word(3), "pending" | "none"), "cut at {}: {}", cut, word(3));
        // All commits that are listed are whole, and what is in service is one of them.
        for number in store.numbers().unwrap() {
            store.files(number).map_err(|why| TestCaseError::fail(format!("cut at {cut}: {why}")))?;
        }
        let live = store.live().unwrap().unwrap();
        prop_assert!(store.files(live).is_ok(), "cut at {}: {} is in service", cut, live);
        let switching = store.switching().unwrap();
        prop_assert!(switching.is_empty() || switching == [2, 3], "cut at {}: {:?}", cut, switching);
        // If another one is in service than boots, that is known.
        prop_assert!(live == confirmed || live == 3, "cut at {}: {} is in service", cut, live);
        // And it goes on: nothing that was left behind is in the way.
        let next = transaction(&store, "four", keep).unwrap();
        prop_assert_eq!(store.files(next).unwrap(), files("four"));
        prop_assert_eq!(store.confirmed().unwrap(), Some(next));
        if store.numbers().unwrap().contains(&confirmed) {
            let was = store.commit(confirmed).unwrap().state;
            prop_assert_eq!(was.word(), "confirmed", "cut at {}: {} was", cut, confirmed);
        }
    }
    Ok(())
}

#[test]
fn a_power_cut_leaves_the_old_or_the_new() {
    for keep in [1, 2, 100] {
        cut_everywhere(keep, &mut || true).unwrap();
        cut_everywhere(keep, &mut || false).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn whatever_of_the_unsynced_survives(choices in proptest::collection::vec(any::<bool>(), 1..400), keep in 1..4_usize) {
        let mut next = 0;
        cut_everywhere(keep, &mut || {
            next += 1;
            choices[next % choices.len()]
        })?;
    }
}

#[test]
fn a_trial_is_found_as_it_was_saved() {
    let store = open(Memory::new());
    transaction(&store, "one", 9).unwrap();
    assert_eq!(store.trial().unwrap(), None);
    let within = Draft { confirm_within_ms: Some(5000), ..draft(Some(1)) };
    assert_eq!(store.save(&files("two"), within, 9).unwrap(), 2);
    assert_eq!(store.commit(2).unwrap().confirm_within_ms, Some(5000));
    let trial = Trial { commit: 2, parent: 1, until_ms: 77, boot: "b".into() };
    store.set_trial(Some(&trial)).unwrap();
    assert_eq!(store.trial().unwrap(), Some(trial));
    for n in 3..9 {
        store.save(&files(&n.to_string()), draft(Some(1)), 1).unwrap();
    }
    assert!(store.numbers().unwrap().contains(&2), "what waits is kept");
    store.set_trial(None).unwrap();
    assert_eq!(store.trial().unwrap(), None);
    store.replace(&store.root.join(TRIAL), b"{\"commit\":2}").unwrap();
    assert_eq!(store.trial().unwrap(), None, "half of one is none");
}

/// An error is no cut: what failed half-way leaves the store as it was, for the process that goes on with it.
#[test]
fn a_failed_save_changes_nothing() {
    let before = open(Memory::new());
    transaction(&before, "one", 9).unwrap();
    for cut in 0.. {
        let store = open(Memory(RefCell::new(before.disk.0.borrow().clone())));
        store.disk.cut_after(cut);
        let done = store.save(&files("two"), draft(Some(1)), 9);
        store.disk.0.borrow_mut().left = None;
        if done.is_ok() {
            break;
        }
        assert_eq!((store.confirmed().unwrap(), store.live().unwrap()), (Some(1), Some(1)));
        let next = transaction(&store, "three", 9).unwrap();
        assert_eq!(store.files(next).unwrap(), files("three"));
    }
}

#[test]
fn a_real_disk_does_the_same() {
    use std::os::unix::fs::PermissionsExt as _;
    let top = tempfile::tempdir().unwrap();
    let root = top.path().join("state");
    let store = Store::open(Real, &root).unwrap();
    let mut all = files("one");
    all.insert("key".into(), File { mode: 0o600, ..file("secret") });
    let number = store.save(&all, draft(None), 9).unwrap();
    store.set_live(number).unwrap();
    store.confirm(number).unwrap();
    store.set_base(number).unwrap();
    let store = Store::open(Real, &root).unwrap();
    assert_eq!(store.files(1).unwrap(), all);
    assert_eq!(disk::read_files(&store.live_files()).unwrap(), all);
    let mode = |path: &str| std::fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode("live/key"), mode("live/router.click"), mode("commits/1/commit.json")),
        (0o600, 0o644, 0o600)
    );
    assert_eq!(
        (store.confirmed().unwrap(), store.live().unwrap(), store.base().unwrap()),
        (Some(1), Some(1), Some(1))
    );
    for n in 2..5 {
        let number = store.save(&files(&n.to_string()), draft(Some(n - 1)), 2).unwrap();
        store.set_live(number).unwrap();
        store.confirm(number).unwrap();
        store.set_base(number).unwrap();
    }
    assert_eq!(store.numbers().unwrap(), [3, 4]);
    let names = Real.list(&root.join("commits")).unwrap();
    assert_eq!(names.len(), 2, "{names:?}");
}
