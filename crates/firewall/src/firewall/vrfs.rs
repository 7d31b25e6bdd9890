// SPDX-License-Identifier: MIT OR Apache-2.0
//! VRFs that connections are in: by numbers that stay when another configuration comes.
//!
//! A connection has two. Packets of the side that started are in the one by whose interface they come. Answers come by the interface that these packets leave by, whose
//! VRF is another one where a route leads from one VRF into another.

use std::sync::Arc;

use super::Firewall;
use crate::record::name_number;

/// The names of VRFs, by the numbers in [`Connection::vrfs`](super::Connection::vrfs).
#[derive(Clone, Debug)]
pub struct VrfNames(Arc<Vec<String>>);

impl VrfNames {
    /// Whether there are any besides the main table.
    pub(super) fn are_some(&self) -> bool {
        self.0.len() > 1
    }

    /// The name of a VRF; none for the main table, number 0.
    pub fn name(&self, vrf: u16) -> Option<&str> {
        self.0.get(usize::from(vrf)).map(String::as_str).filter(|_| vrf != 0)
    }

    /// The number of a VRF. An empty name stands for the main table.
    pub fn number(&self, name: &str) -> Option<u16> {
        self.0.iter().position(|known| known == name).and_then(|number| u16::try_from(number).ok())
    }

    /// The number here of a VRF's number in records.
    pub(super) fn numbered(&self, number: u32) -> Option<u16> {
        if number == 0 {
            return Some(0);
        }
        let mut names = (1u16..).zip(self.0.iter().skip(1));
        names.find(|(_, name)| name_number(name) == number).map(|(number, _)| number)
    }
}

impl Default for VrfNames {
    /// There is the main table alone.
    fn default() -> VrfNames {
        VrfNames(Arc::new(vec![String::new()]))
    }
}

impl Firewall {
    /// The names of all VRFs that there have been.
    pub fn vrf_names(&self) -> &VrfNames {
        &self.vrfs
    }

    /// The lasting numbers of VRFs, for [`Arrival::vrfs`](super::Arrival::vrfs): a VRF keeps its number, so connections stay in it.
    pub fn add_vrfs<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) -> Vec<u16> {
        let number = |name: &str| {
            self.vrfs.number(name).unwrap_or_else(|| {
                let all = Arc::make_mut(&mut self.vrfs.0);
                all.push(name.to_owned());
                // Nobody gives so many names.
                u16::try_from(all.len() - 1).unwrap_or(u16::MAX)
            })
        };
        names.into_iter().map(number).collect()
    }
}
