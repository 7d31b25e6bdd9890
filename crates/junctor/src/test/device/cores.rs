// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which cores the tester takes, and which it leaves to a device with network interfaces.
//!
//! With three cores or more, the last is the tester's, and the one before it does for the wire what a network card does: it hands
//! over what was sent. The rest is the device's. With two, whoever sends also hands over: the kernel works so by itself.

use std::sync::OnceLock;

use core_affinity::CoreId;

/// The machine's cores, as they are before the tester takes one of them.
pub(super) fn all() -> &'static [CoreId] {
    static CORES: OnceLock<Vec<CoreId>> = OnceLock::new();
    CORES.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default())
}

/// Who has which cores, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cores {
    pub(super) tester: Option<usize>,
    /// Where frames are handed over.
    pub(super) wire: Option<usize>,
    pub(super) device: Vec<usize>,
}

impl Cores {
    /// Those of this machine that the process may use.
    pub(super) fn of_machine() -> Cores {
        let all: Vec<usize> = all().iter().map(|core| core.id).collect();
        Cores::among(&all)
    }

    fn among(all: &[usize]) -> Cores {
        match all {
            [] => Cores::default(),
            [only] => Cores { tester: Some(*only), wire: None, device: vec![*only] },
            [device, tester] => Cores { tester: Some(*tester), wire: None, device: vec![*device] },
            [device @ .., wire, tester] => {
                Cores { tester: Some(*tester), wire: Some(*wire), device: device.to_vec() }
            }
        }
    }

    /// Whether the tester has one to itself.
    pub(super) fn disjoint(&self) -> bool {
        self.tester.is_some_and(|tester| !self.device.contains(&tester))
    }

    /// Takes the tester's for the calling thread.
    pub(super) fn take(&self) {
        if let Some(id) = self.tester {
            core_affinity::set_for_current(CoreId { id });
        }
    }

    /// Where nobody sends by himself, frames are handed over here: on the wire's core, or else on the device's.
    pub(super) fn hand_over(&self) -> Vec<usize> {
        self.wire.map_or_else(|| self.device.clone(), |wire| vec![wire])
    }

    /// The device's, as a list for people and for `taskset -c`.
    pub(super) fn list(&self) -> String {
        self.device.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_kept_apart_as_far_as_there_are_some() {
        let cores = |all: &[usize]| {
            let Cores { tester, wire, device } = Cores::among(all);
            (tester, wire, device)
        };
        assert_eq!(cores(&[]), (None, None, vec![]));
        assert_eq!(cores(&[4]), (Some(4), None, vec![4]));
        assert_eq!(cores(&[0, 2]), (Some(2), None, vec![0]));
        assert_eq!(cores(&[0, 1, 2]), (Some(2), Some(1), vec![0]));
        assert_eq!(cores(&[0, 1, 2, 3]), (Some(3), Some(2), vec![0, 1]));
        assert!(
            !Cores::among(&[]).disjoint()
                && !Cores::among(&[4]).disjoint()
                && Cores::among(&[0, 2]).disjoint()
        );
        assert_eq!(Cores::among(&[0, 1, 2, 3]).list(), "0,1");
        assert_eq!(
            (Cores::among(&[0, 2]).hand_over(), Cores::among(&[0, 1, 2]).hand_over()),
            (vec![0], vec![1])
        );
    }
}
