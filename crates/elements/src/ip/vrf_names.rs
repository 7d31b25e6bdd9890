// SPDX-License-Identifier: MIT OR Apache-2.0
//! The VRFs of fragments that wait: by an annotation of their packets, whose values are the VRFs' numbers in this configuration alone.

use element::args::Args;
use packet::Packet;

use crate::tools::Anno;

/// VRFs at most: their numbers are bytes, and 0 is the main table.
const MOST: usize = 254;

/// The annotation with a packet's VRF, and the names of the VRFs in the order of its values, from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VrfNames {
    anno: Option<usize>,
    names: Vec<String>,
}

impl VrfNames {
    /// Reads `VRF_ANNO` and `VRF`.
    pub(crate) fn configure(args: &mut Args<'_>) -> VrfNames {
        let anno = args.keyword_opt::<Anno<1>>("VRF_ANNO").map(|anno| anno.0);
        let names = args.keyword_all::<String>("VRF");
        if anno.is_none() && !names.is_empty() {
            args.error("VRF names the values of an annotation: say which by VRF_ANNO, as VRF_ANNO VRF");
        }
        if names.len() > MOST {
            args.error(format!("there are {} VRFs, and {MOST} may be", names.len()));
        }
        if let Some(n) = (1..names.len()).find(|n| names[..*n].contains(&names[*n])) {
            args.error(format!("VRF {} stands here twice: each value has a VRF of its own", names[n]));
        }
        VrfNames { anno, names }
    }

    /// The number of a packet's VRF.
    #[inline]
    pub(crate) fn of(&self, packet: &Packet) -> u8 {
        self.anno.map_or(0, |at| packet.anno_u8(at))
    }

    /// The number here of the VRF that had a number in the configuration before; none if it is not here, or had no name.
    pub(crate) fn heir(&self, before: &VrfNames, number: u8) -> Option<u8> {
        let Some(at) = usize::from(number).checked_sub(1) else { return Some(0) };
        let name = before.names.get(at)?;
        self.names.iter().position(|other| other == name).map(|at| at as u8 + 1)
    }

    /// Whether all numbers mean what they did in the configuration before.
    pub(crate) fn are_those(&self, before: &VrfNames) -> bool {
        self == before && (self.anno.is_none() || !self.names.is_empty())
    }

    /// Marks a packet with its VRF.
    pub(crate) fn mark(&self, packet: &mut Packet, number: u8) {
        self.anno.into_iter().for_each(|at| packet.set_anno_u8(at, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(anno: Option<usize>, names: &[&str]) -> VrfNames {
        VrfNames { anno, names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn a_vrf_keeps_its_name_and_not_its_number() {
        let before = names(Some(3), &["red", "blue", "green"]);
        for (after, want) in [
            (names(Some(3), &["red", "blue", "green"]), [Some(0), Some(1), Some(2), Some(3)]),
            (names(Some(3), &["new", "red", "green", "blue"]), [Some(0), Some(2), Some(4), Some(3)]),
            (names(Some(3), &["blue", "crimson"]), [Some(0), None, Some(1), None]),
            (names(Some(3), &[]), [Some(0), None, None, None]),
            (names(None, &[]), [Some(0), None, None, None]),
        ] {
            assert_eq!([0, 1, 2, 3].map(|n| after.heir(&before, n)), want, "{after:?}");
            assert_eq!(after.are_those(&before), after == before);
        }
        // Nobody knows what a value without a name stands for.
        let nameless = names(Some(3), &[]);
        assert_eq!([0, 1].map(|n| nameless.heir(&nameless, n)), [Some(0), None]);
        assert_eq!([0, 4].map(|n| before.heir(&before, n)), [Some(0), None]);
        assert!(!nameless.are_those(&nameless) && names(None, &[]).are_those(&names(None, &[])));
    }
}
