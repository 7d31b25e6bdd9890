// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has to be done to make one configuration of another, as data.
//!
//! [`diff`] compares two outlines and returns [`Action`]s in the order in which a hot swap carries them out. `junctor apply` shows them,
//! and the exchange of a swap takes from them which elements go on in which ([`swap`](crate::swap())).

use std::collections::{BTreeSet, HashMap};

/// What matters of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline<'a> {
    /// Its elements by number: name and class. No two have the same name.
    pub elements: Vec<(&'a str, &'a str)>,
    /// Its connections, without repeats.
    pub connections: BTreeSet<Connection<'a>>,
    /// The devices that its elements name.
    pub devices: BTreeSet<String>,
}

/// A connection from an output to an input, each the name of an element and the number of a port.
pub type Connection<'a> = [(&'a str, usize); 2];

/// One thing to be done. Elements are meant by their numbers in the outlines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// A device is opened that was not open.
    OpenDevice(String),
    /// An element is made.
    Create {
        /// Its number in the new outline.
        new: usize,
    },
    /// An element of another class is made in place of one with the same name, which ends. It begins anew.
    Replace {
        /// The one that ends.
        old: usize,
        /// The one that is made.
        new: usize,
    },
    /// A connection is made.
    Connect(Connection<'a>),
    /// An element goes on in one with the same name and class, which takes over its counters and what it holds.
    Carry {
        /// The one that ends.
        old: usize,
        /// The one that goes on.
        new: usize,
    },
    /// A device stays open and is handed over.
    HandOverDevice(String),
    /// A connection ends.
    Disconnect(Connection<'a>),
    /// An element ends. What it holds is dropped and counted.
    Remove {
        /// Its number in the old outline.
        old: usize,
    },
    /// A device is closed that nobody names any more.
    CloseDevice(String),
}

/// When an action happens in a hot swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// While the old configuration forwards. Any failure here leaves it as it was.
    Build,
    /// While the workers stand still.
    Exchange,
    /// When the new configuration forwards.
    Retire,
}

impl Action<'_> {
    /// When it happens.
    pub fn phase(&self) -> Phase {
        match self {
            Action::OpenDevice(_) | Action::Create { .. } | Action::Replace { .. } | Action::Connect(_) => {
                Phase::Build
            }
            Action::Carry { .. } | Action::HandOverDevice(_) => Phase::Exchange,
            Action::Disconnect(_) | Action::Remove { .. } | Action::CloseDevice(_) => Phase::Retire,
        }
    }

    /// Whether the configuration is another one for it.
    pub fn is_change(&self) -> bool {
        self.phase() != Phase::Exchange
    }
}

/// What makes `new` of `old`, in order. Each element is named by one action, and each device, too.
pub fn diff<'a>(old: &Outline<'a>, new: &Outline<'a>) -> Vec<Action<'a>> {
    let mut rest: HashMap<&str, usize> =
        old.elements.iter().enumerate().map(|(number, (name, _))| (*name, number)).collect();
    let (mut made, mut carried) = (Vec::new(), Vec::new());
    for (number, (name, class)) in new.elements.iter().enumerate() {
        match rest.remove(name) {
            None => made.push(Action::Create { new: number }),
            Some(before) if old.elements[before].1 == *class => {
                carried.push(Action::Carry { old: before, new: number });
            }
            Some(before) => made.push(Action::Replace { old: before, new: number }),
        }
    }
    let mut ended: Vec<usize> = rest.into_values().collect();
    ended.sort_unstable();
    let only = |a: &BTreeSet<Connection<'a>>, b: &BTreeSet<Connection<'a>>| -> Vec<Connection<'a>> {
        a.difference(b).copied().collect()
    };
    let devices = |of: &BTreeSet<String>, with: &BTreeSet<String>, both: bool| -> Vec<String> {
        of.iter().filter(|device| with.contains(*device) == both).cloned().collect()
    };
    let mut actions: Vec<Action<'a>> = Vec::new();
    actions.extend(devices(&new.devices, &old.devices, false).into_iter().map(Action::OpenDevice));
    actions.extend(made);
    actions.extend(only(&new.connections, &old.connections).into_iter().map(Action::Connect));
    actions.extend(carried);
    actions.extend(devices(&new.devices, &old.devices, true).into_iter().map(Action::HandOverDevice));
    actions.extend(only(&old.connections, &new.connections).into_iter().map(Action::Disconnect));
    actions.extend(ended.into_iter().map(|old| Action::Remove { old }));
    actions.extend(devices(&old.devices, &new.devices, false).into_iter().map(Action::CloseDevice));
    actions
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    const CLASSES: [&str; 3] = ["Counter", "Queue", "Discard"];

    /// A configuration of some of six names.
    fn outline() -> impl Strategy<Value = Outline<'static>> {
        let elements = proptest::collection::vec(proptest::option::of(0..CLASSES.len()), NAMES.len());
        let connections = proptest::collection::vec((0..6usize, 0..2usize, 0..6usize, 0..2usize), 0..8);
        let devices = proptest::collection::btree_set("eth[0-3]", 0..4);
        (elements, connections, devices, any::<bool>()).prop_map(|(classes, connections, devices, back)| {
            let mut elements: Vec<_> = classes
                .iter()
                .zip(NAMES)
                .filter_map(|(class, name)| Some((name, CLASSES[(*class)?])))
                .collect();
            if back {
                elements.reverse();
            }
            let is_there = |name: &str| elements.iter().any(|(other, _)| *other == name);
            let connections = connections
                .into_iter()
                .map(|(from, output, to, input)| [(NAMES[from], output), (NAMES[to], input)])
                .filter(|ends| ends.iter().all(|(name, _)| is_there(name)))
                .collect();
            Outline { elements, connections, devices }
        })
    }

    /// Does what the actions say to a configuration, of which it knows names and classes only.
    fn apply<'a>(old: &Outline<'a>, new: &Outline<'a>, actions: &[Action<'a>]) -> Outline<'a> {
        let mut elements: Vec<(&str, &str)> = Vec::new();
        let mut left = old.clone();
        let end = |left: &mut Outline<'a>, number: usize| {
            let (name, _) = old.elements[number];
            let at = left.elements.iter().position(|(other, _)| *other == name);
            left.elements.remove(at.expect("an element ends once"));
        };
        for action in actions {
            match action {
                Action::OpenDevice(device) => assert!(left.devices.insert(device.clone())),
                Action::CloseDevice(device) => assert!(left.devices.remove(device)),
                Action::HandOverDevice(device) => assert!(left.devices.contains(device)),
                Action::Connect(connection) => assert!(left.connections.insert(*connection)),
                Action::Disconnect(connection) => assert!(left.connections.remove(connection)),
                Action::Create { new: number } => elements.push(new.elements[*number]),
                Action::Replace { old: before, new: number } => {
                    assert_eq!(old.elements[*before].0, new.elements[*number].0);
                    end(&mut left, *before);
                    elements.push(new.elements[*number]);
                }
                Action::Carry { old: before, new: number } => {
                    assert_eq!(old.elements[*before], new.elements[*number]);
                    end(&mut left, *before);
                    elements.push(new.elements[*number]);
                }
                Action::Remove { old: before } => end(&mut left, *before),
            }
        }
        assert_eq!(left.elements, [], "nothing stays that nobody named");
        elements.sort_unstable();
        Outline { elements, ..left }
    }

    proptest! {
        #[test]
        fn carried_out_it_makes_the_new_configuration(old in outline(), new in outline()) {
            let actions = diff(&old, &new);
            let mut want = new.clone();
            want.elements.sort_unstable();
            prop_assert_eq!(apply(&old, &new, &actions), want);
            // What fails does so before anything has changed, and nothing ends before all has moved.
            prop_assert!(actions.windows(2).all(|two| two[0].phase() <= two[1].phase()));
        }

        #[test]
        fn nothing_changes_where_nothing_differs(same in outline()) {
            let actions = diff(&same, &same);
            prop_assert!(!actions.iter().any(Action::is_change));
            prop_assert_eq!(actions.len(), same.elements.len() + same.devices.len());
        }

        #[test]
        fn what_goes_one_way_comes_back(old in outline(), new in outline()) {
            let (there, back) = (diff(&old, &new), diff(&new, &old));
            let count = |actions: &[Action<'_>], of: fn(&Action<'_>) -> bool| actions.iter().filter(|a| of(a)).count();
            let made = count(&there, |a| matches!(a, Action::Create { .. }));
            prop_assert_eq!(made, count(&back, |a| matches!(a, Action::Remove { .. })));
            let opened = count(&there, |a| matches!(a, Action::OpenDevice(_)));
            prop_assert_eq!(opened, count(&back, |a| matches!(a, Action::CloseDevice(_))));
            let carried = count(&there, |a| matches!(a, Action::Carry { .. }));
            prop_assert_eq!(carried, count(&back, |a| matches!(a, Action::Carry { .. })));
        }
    }
}
