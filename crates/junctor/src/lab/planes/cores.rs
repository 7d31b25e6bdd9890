// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who runs on which core.
//!
//! The study's machine has two cores: one for the user plane and one for management under AMP, both for both under SMP. Generator and
//! sink are other machines there. Here they need a core, too: with three or more they have the last; with two they share the
//! management plane's.

/// Cores by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    /// All that the lab may use.
    pub(super) all: Vec<usize>,
    /// Generator and sink.
    pub(super) tester: usize,
    /// The user plane under AMP.
    pub(super) user: Vec<usize>,
    /// The management plane under AMP.
    pub(super) management: Vec<usize>,
    /// All planes under SMP.
    pub(super) shared: Vec<usize>,
}

impl Cores {
    /// Divides these.
    pub(super) fn among(all: &[usize]) -> Option<Cores> {
        let (first, last) = (*all.first()?, *all.last()?);
        let management = if all.len() > 2 { all[all.len() - 2] } else { last };
        let mut shared = vec![first, management];
        shared.dedup();
        Some(Cores {
            all: all.to_vec(),
            tester: last,
            user: vec![first],
            management: vec![management],
            shared,
        })
    }

    /// Cores for so many user planes, each with one, if there are so many. The last may be the tester's.
    pub(super) fn for_user_planes(&self, count: usize) -> Option<Vec<usize>> {
        // Nobody manages anything meanwhile.
        self.all.get(..count).map(<[usize]>::to_vec)
    }

    /// What shares a core with what, in words.
    pub(super) fn sharing(&self, user: &str, smp: bool) -> String {
        let list = |cores: &[usize]| match cores {
            [core] => format!("core {core}"),
            cores => {
                let numbers: Vec<String> = cores.iter().map(usize::to_string).collect();
                format!("cores {}", numbers.join(","))
            }
        };
        let tester = |cores: &[usize]| match cores.contains(&self.tester) {
            true if cores.len() > 1 => format!(", tester on {}", self.tester),
            true => ", tester".to_owned(),
            false => String::new(),
        };
        let alone = match self.shared.contains(&self.tester) {
            true => String::new(),
            false => format!("; core {}: tester", self.tester),
        };
        if smp {
            return format!("{}: {user}, management{}{alone}", list(&self.shared), tester(&self.shared));
        }
        let (one, other) = (list(&self.user), list(&self.management));
        format!("{one}: {user}; {other}: management{}{alone}", tester(&self.management))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharing_is_told() {
        let told = |all: &[usize], smp| Cores::among(all).unwrap().sharing("user plane", smp);
        assert_eq!(told(&[0, 1], true), "cores 0,1: user plane, management, tester on 1");
        assert_eq!(told(&[0, 1], false), "core 0: user plane; core 1: management, tester");
        assert_eq!(told(&[0, 2, 3], true), "cores 0,2: user plane, management; core 3: tester");
        assert_eq!(told(&[0, 1, 2, 3], false), "core 0: user plane; core 2: management; core 3: tester");
        assert_eq!(told(&[5], true), "core 5: user plane, management, tester");
        assert_eq!(Cores::among(&[]), None);
        let four = Cores::among(&[0, 1, 2, 3]).unwrap();
        assert_eq!((four.for_user_planes(2), four.for_user_planes(5)), (Some(vec![0, 1]), None));
    }
}
