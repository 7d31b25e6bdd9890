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

    /// Who ran on which core, in words.
    pub(super) fn sharing(&self, user: &str, smp: bool) -> String {
        let list = |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let Cores { tester, user: one, management, shared, .. } = self;
        if smp {
            return format!("{}: {user}, management; {tester}: tester", list(shared));
        }
        match management.contains(tester) {
            true => format!("{}: {user}; {}: management, tester", list(one), list(management)),
            false => {
                format!("{}: {user}; {}: management; {tester}: tester", list(one), list(management))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharing_is_told() {
        let told = |all: &[usize], smp| Cores::among(all).unwrap().sharing("user", smp);
        assert_eq!(told(&[0, 1], true), "0,1: user, management; 1: tester");
        assert_eq!(told(&[0, 1], false), "0: user; 1: management, tester");
        assert_eq!(told(&[0, 2, 3], true), "0,2: user, management; 3: tester");
        assert_eq!(told(&[0, 1, 2, 3], false), "0: user; 2: management; 3: tester");
        assert_eq!(told(&[5], true), "5: user, management; 5: tester");
        assert_eq!(Cores::among(&[]), None);
        let four = Cores::among(&[0, 1, 2, 3]).unwrap();
        assert_eq!((four.for_user_planes(2), four.for_user_planes(5)), (Some(vec![0, 1]), None));
    }
}
