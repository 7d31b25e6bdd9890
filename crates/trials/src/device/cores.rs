// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which cores the tester takes, and which it leaves to a device with network interfaces.
//!
//! With three cores or more, the last is the tester's, and the one before it does for the wire what a network card does: it hands over what was sent.
//! The rest is the device's. With two, the sender also hands over: the kernel works so by itself.
//!
//! Where the kernel generates a port's frames, that takes a core as long as it lasts: its own, if there is one for each such port in addition to the
//! tester's and the device's. Otherwise it is the tester's, who then sleeps between two arrivals.

use std::sync::OnceLock;

use core_affinity::CoreId;

use crate::Error;

/// The machine's cores, as they are before the tester takes one of them.
pub(super) fn all() -> &'static [CoreId] {
    static CORES: OnceLock<Vec<CoreId>> = OnceLock::new();
    CORES.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default())
}

/// Who has which cores, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cores {
    pub(super) tester: Option<usize>,
    /// Where frames are handed over.
    pub(super) wire: Option<usize>,
    pub(super) device: Vec<usize>,
    /// Where the kernel generates frames, by port that sends.
    pub(super) sources: Vec<usize>,
    /// Whether it does so on the tester's.
    pub(super) is_shared: bool,
}

impl Cores {
    /// Those of this machine that the process may use, for so many ports whose frames the kernel generates, and a device that needs a
    /// core or none.
    pub(super) fn of_machine(sources: usize, is_device_here: bool) -> Cores {
        let all: Vec<usize> = all().iter().map(|core| core.id).collect();
        Cores::among(&all, sources, usize::from(is_device_here))
    }

    fn among(all: &[usize], sources: usize, needed: usize) -> Cores {
        let Some((tester, rest)) = all.split_last() else { return Cores::default() };
        let is_shared = rest.len() < sources + needed;
        let (rest, sources) = rest.split_at(if is_shared { rest.len() } else { rest.len() - sources });
        let (wire, device) = match rest {
            [] => (None, vec![*tester]),
            [only] => (None, vec![*only]),
            [device @ .., wire] => (Some(*wire), device.to_vec()),
        };
        Cores { tester: Some(*tester), wire, device, sources: sources.to_vec(), is_shared }
    }

    /// Leaves the device as many cores as it is to have, or else those that it has use for: `most`.
    pub(super) fn for_device(mut self, wanted: Option<usize>, most: usize) -> Result<Cores, Error> {
        let there = self.device.len();
        // Where nobody knows them, nobody is refused.
        if let Some(wanted) = wanted.filter(|wanted| (1..*wanted).contains(&there)) {
            let cores = if there == 1 { "1 core".to_owned() } else { format!("{there} cores") };
            return Err(Error::setting(format!(
                "-j {wanted}: {cores} can be the device's, beside the tester's and the wire's; a smaller -j, or a machine with more cores"
            )));
        }
        self.device.truncate(wanted.unwrap_or(most));
        Ok(self)
    }

    /// Whether the tester has one to itself.
    pub(super) fn disjoint(&self) -> bool {
        self.tester.is_some_and(|tester| !self.device.contains(&tester))
    }

    /// What the thread does first in which the kernel generates a port's frames.
    pub(super) fn place_source(&self, port: usize) -> impl FnOnce() + Send + use<> {
        let (own, tester) = (self.sources.get(port).copied(), self.tester);
        move || {
            if let Some(id) = own.or(tester) {
                core_affinity::set_for_current(CoreId { id });
            }
            if own.is_none() {
                // Without leave it takes turns with the tester, and pacing shows it.
                let _ = sync::priority::after_others();
            }
        }
    }

    /// For people: where frames are generated, if they are.
    pub(super) fn told_of_sources(&self) -> Option<String> {
        if self.is_shared {
            return Some("The kernel generates frames on the tester's core, when nothing arrives".to_owned());
        }
        let cores: Vec<String> = self.sources.iter().map(usize::to_string).collect();
        (!cores.is_empty())
            .then(|| format!("The kernel generates frames on cores of their own: {}", cores.join(",")))
    }

    /// Whether the kernel generates frames on the tester's.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Takes the tester's for the calling thread, which goes before one that generates frames there.
    pub(crate) fn take(&self) {
        if let Some(id) = self.tester {
            core_affinity::set_for_current(CoreId { id });
        }
        if self.is_shared {
            // Without leave, or a higher priority, they take turns, and pacing shows it.
            let _ = sync::priority::before_workers();
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
            let Cores { tester, wire, device, sources, is_shared: _ } = Cores::among(all, 0, 1);
            assert!(sources.is_empty());
            (tester, wire, device)
        };
        assert_eq!(cores(&[]), (None, None, vec![]));
        assert_eq!(cores(&[4]), (Some(4), None, vec![4]));
        assert_eq!(cores(&[0, 2]), (Some(2), None, vec![0]));
        assert_eq!(cores(&[0, 1, 2]), (Some(2), Some(1), vec![0]));
        assert_eq!(cores(&[0, 1, 2, 3]), (Some(3), Some(2), vec![0, 1]));
        let among = |all: &[usize]| Cores::among(all, 0, 1);
        assert!(!among(&[]).disjoint() && !among(&[4]).disjoint() && among(&[0, 2]).disjoint());
        assert_eq!(among(&[0, 1, 2, 3]).list(), "0,1");
        assert_eq!((among(&[0, 2]).hand_over(), among(&[0, 1, 2]).hand_over()), (vec![0], vec![1]));
    }

    #[test]
    fn a_device_has_as_many_cores_as_it_is_to_have() {
        let device = |all: &[usize], wanted, most| {
            let cores = Cores::among(all, 0, 1).for_device(wanted, most);
            cores.map(|cores| cores.device).map_err(|why| why.to_string())
        };
        let six = [0, 1, 2, 3, 4, 5];
        assert_eq!(device(&six, None, usize::MAX), Ok(vec![0, 1, 2, 3]));
        assert_eq!(device(&six, None, 2), Ok(vec![0, 1]));
        assert_eq!(device(&six, Some(1), 2), Ok(vec![0]));
        assert_eq!(device(&six, Some(4), usize::MAX), Ok(vec![0, 1, 2, 3]));
        assert!(device(&six, Some(5), usize::MAX).is_err_and(|why| why.starts_with("-j 5: 4 cores can be")));
        assert_eq!(device(&[7], Some(1), 2), Ok(vec![7]));
        assert!(device(&[0, 1], Some(2), 2).is_err_and(|why| why.starts_with("-j 2: 1 core can be")));
    }

    #[test]
    fn sources_have_cores_of_their_own_or_the_testers() {
        let cores = |all: &[usize], sources, needed| {
            let cores = Cores::among(all, sources, needed);
            (cores.tester, cores.wire, cores.device, cores.sources)
        };
        assert_eq!(cores(&[], 1, 1), (None, None, vec![], vec![]));
        assert_eq!(cores(&[0], 1, 1), (Some(0), None, vec![0], vec![]));
        assert_eq!(cores(&[0, 1], 1, 1), (Some(1), None, vec![0], vec![]));
        assert_eq!(cores(&[0, 1], 1, 0), (Some(1), None, vec![1], vec![0]));
        assert_eq!(cores(&[0, 1, 2], 1, 1), (Some(2), None, vec![0], vec![1]));
        assert_eq!(cores(&[0, 1, 2], 2, 1), (Some(2), Some(1), vec![0], vec![]));
        assert_eq!(cores(&[0, 1, 2, 3], 2, 1), (Some(3), None, vec![0], vec![1, 2]));
        assert_eq!(cores(&[0, 1, 2, 3, 4, 5], 2, 1), (Some(5), Some(2), vec![0, 1], vec![3, 4]));
    }
}
