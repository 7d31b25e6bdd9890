// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zones that connections name: by numbers that stay when other rules come.

use crate::policy::{Policy, SELF};

/// The number of a zone that no rule file names any more.
pub(super) const GONE: u8 = u8::MAX;

/// The lasting number of the router itself, which is the first zone of each policy.
pub(super) const OWN: u16 = SELF as u16;

#[derive(Debug, Default)]
pub(super) struct Zones {
    /// All zones that there have been.
    names: Vec<String>,
    /// For each of them its number in the present policy.
    present: Vec<u8>,
    /// For each zone of the present policy its place in `names`.
    of_policy: Vec<u16>,
}

impl Zones {
    pub(super) fn new(policy: &Policy) -> Zones {
        let mut zones = Zones::default();
        zones.replace(policy);
        zones
    }

    /// Takes another policy.
    pub(super) fn replace(&mut self, policy: &Policy) {
        // Nobody gives so many names; and then old connections lose theirs.
        if self.names.len() + policy.zones.len() > usize::from(u16::MAX) {
            self.names.clear();
        }
        for zone in &policy.zones {
            if !self.names.contains(&zone.name) {
                self.names.push(zone.name.clone());
            }
        }
        let number = |name: &String| policy.zones.iter().position(|zone| zone.name == *name);
        self.present = self.names.iter().map(|name| number(name).map_or(GONE, |zone| zone as u8)).collect();
        let place = |name: &String| self.names.iter().position(|n| n == name).unwrap_or_default() as u16;
        self.of_policy = policy.zones.iter().map(|zone| place(&zone.name)).collect();
    }

    /// The lasting number of a zone of the policy.
    #[inline]
    pub(super) fn lasting(&self, zone: u8) -> u16 {
        self.of_policy.get(usize::from(zone)).copied().unwrap_or(u16::MAX)
    }

    /// The number in the policy of a lasting one.
    pub(super) fn present(&self, zone: u16) -> u8 {
        self.present.get(usize::from(zone)).copied().unwrap_or(GONE)
    }
}
