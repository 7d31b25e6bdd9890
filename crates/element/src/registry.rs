// SPDX-License-Identifier: MIT OR Apache-2.0
//! The element classes that a program knows, and the passes over chains of them.

use crate::element::Class;
use crate::fuse::{Fork, Fusion};

/// The element classes that configurations may name.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    classes: std::collections::BTreeMap<&'static str, &'static Class>,
    fusions: Vec<Fusion>,
    forks: Vec<Fork>,
    foreign: Vec<Foreign>,
}

/// A class of Click's kernel module alone, which users may look for.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    /// The name in configurations.
    pub name: &'static str,
    /// What to do in its place.
    pub instead: &'static str,
}

impl Registry {
    /// Collects classes.
    ///
    /// # Panics
    /// When two classes have one name: a mistake of the program, not of a configuration.
    pub fn new(classes: impl IntoIterator<Item = &'static Class>) -> Registry {
        let mut registry = Registry::default();
        for class in classes {
            let twin = registry.classes.insert(class.name, class);
            assert!(twin.is_none(), "element class {} is registered twice", class.name);
        }
        registry
    }

    /// Adds ways to run chains of elements as one pass.
    pub fn with_fusions(mut self, fusions: impl IntoIterator<Item = Fusion>) -> Registry {
        self.fusions.extend(fusions);
        self
    }

    /// Adds ways to run chains that part.
    pub fn with_forks(mut self, forks: impl IntoIterator<Item = Fork>) -> Registry {
        self.forks.extend(forks);
        self
    }

    /// Adds classes that exist elsewhere, so that messages can say so.
    pub fn with_foreign(mut self, foreign: impl IntoIterator<Item = Foreign>) -> Registry {
        self.foreign.extend(foreign);
        self
    }

    /// The class of this name that exists only in Click's kernel module.
    pub fn foreign(&self, name: &str) -> Option<&Foreign> {
        self.foreign.iter().find(|f| f.name == name)
    }

    /// Lets every element run by itself.
    pub fn without_fusions(mut self) -> Registry {
        self.fusions.clear();
        self.forks.clear();
        self
    }

    /// The ways to run chains of elements as one pass.
    pub fn fusions(&self) -> &[Fusion] {
        &self.fusions
    }

    /// The ways to run chains that part.
    pub fn forks(&self) -> &[Fork] {
        &self.forks
    }

    /// The class of this name.
    pub fn get(&self, name: &str) -> Option<&'static Class> {
        self.classes.get(name).copied()
    }

    /// All classes by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static Class> + '_ {
        self.classes.values().copied()
    }
}
