// SPDX-License-Identifier: MIT OR Apache-2.0
//! The VRF of inside addresses.

use lang::Span;
use rulefile::Rest;

use super::Reader;
use crate::vrf;

/// The word before the name of a VRF.
const VRF: &str = "vrf";
/// Bytes of the name of a VRF at most, as of an interface of Linux.
const NAME_MAX: usize = 15;

impl Reader {
    /// The number of the VRF that inside addresses are in, if the statement names one.
    pub(super) fn vrf(&mut self, rest: &mut Rest<'_>) -> Option<Option<u32>> {
        const HELP: &str = "write `vrf NAME`, for example `vrf red`";
        if rest.peek().is_none_or(|word| word.text != VRF) {
            return Some(None);
        }
        rest.next();
        let word = self.word(rest, "the name of the VRF", HELP)?;
        let (name, number) = (&word.text, vrf::number(&word.text));
        let is_name = (1..=NAME_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        if !is_name {
            self.wrong(word.span, format!("'{name}' cannot name a VRF"), HELP);
            return None;
        }
        match self.policy.vrfs.iter().find(|(other, _)| *other == number) {
            Some((_, other)) if other != name => {
                let message = format!("VRFs {other} and {name} have the same number here");
                self.wrong(word.span, message, "give one of them another name");
                return None;
            }
            Some(_) => {}
            None => self.policy.vrfs.push((number, name.clone())),
        }
        Some(Some(number))
    }

    pub(super) fn six_in_vrf<T>(&mut self, span: Span) -> Option<T> {
        let help = "leave the VRF out: IPv6 hosts are known in the main table alone";
        self.wrong(span, "IPv6 addresses in a VRF", help);
        None
    }
}
