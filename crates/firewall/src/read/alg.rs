// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statements about protocols that announce connections.

use rulefile::Line;

use super::Reader;
use crate::policy::{Algs, Policy};

const HELP: &str = "write `alg NAME on` or `alg NAME off`, for example `alg tftp on`";

impl Reader<'_> {
    /// `alg NAME on|off`
    pub(super) fn alg(&mut self, policy: &mut Policy, line: &Line) {
        let [_, name, switch] = &line.words[..] else {
            return self.wrong(line.words[0].span, "'alg' needs a protocol, and 'on' or 'off'", HELP);
        };
        let Some(place) = policy.algs.named(&name.text) else {
            return self.unknown(name, "protocol", Algs::NAMES.into_iter());
        };
        match switch.text.as_str() {
            "on" => *place = true,
            "off" => *place = false,
            _ => self.wrong(switch.span, format!("'{}' is neither on nor off", switch.text), HELP),
        }
    }
}
