// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statements about SYNs that the firewall answers itself.

use lang::Span;
use rulefile::Line;

use super::Reader;
use crate::policy::{Action, Policy, Rule, TCP};

const HELP: &str = "write for example `synproxy above 1000/s mss 1400`; known: above N/s, mss N, scale N, sack on|off, timestamps on|off";
/// The least segment size (RFC 791: 68 bytes of every packet arrive).
const MSS_MIN: u16 = 88;
/// The largest shift of windows (RFC 7323, 2.3).
const SCALE_MAX: u8 = 14;

impl Reader<'_> {
    /// `synproxy [above N/s] [mss N] [scale N] [sack on|off] [timestamps on|off]`
    pub(super) fn synproxy(&mut self, policy: &mut Policy, line: &Line) {
        let words = &line.words[1..];
        if words.is_empty() || words.len() % 2 == 1 {
            return self.wrong(line.span, "'synproxy' needs names, each with a value", HELP);
        }
        for pair in words.chunks_exact(2) {
            let [name, value] = pair else { continue };
            let text = value.text.as_str();
            let switch = || match text {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            };
            let settings = &mut policy.synproxy;
            let is_right = match name.text.as_str() {
                "above" => {
                    settings.above = text.strip_suffix("/s").and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                    settings.above.is_some()
                }
                "mss" => {
                    settings.mss = text.parse().ok().filter(|mss| *mss >= MSS_MIN);
                    settings.mss.is_some()
                }
                "scale" => {
                    settings.scale = text.parse().ok().filter(|scale| *scale <= SCALE_MAX);
                    settings.scale.is_some() || text == "off"
                }
                "sack" => switch().inspect(|is_on| settings.sack = *is_on).is_some(),
                "timestamps" => switch().inspect(|is_on| settings.timestamps = *is_on).is_some(),
                _ => {
                    let names = ["above", "mss", "scale", "sack", "timestamps"];
                    self.unknown(name, "setting", names.into_iter());
                    continue;
                }
            };
            if !is_right {
                self.wrong(value.span, format!("'{text}' is no value for '{}'", name.text), HELP);
            }
        }
    }
}

/// A rule with `synproxy` accepts connections of TCP alone.
pub(super) fn check(reader: &mut Reader<'_>, rule: &Rule, span: Span) {
    if !rule.is_proxied {
        return;
    }
    if rule.action != Action::Accept || rule.is_stateless {
        reader.wrong(span, "'synproxy' needs connections", "write it after `accept`, without `stateless`");
    } else if rule.matches.protocols != [TCP] {
        reader.wrong(
            span,
            "'synproxy' is for TCP",
            "write `tcp` in this rule, and another rule for other protocols",
        );
    }
}
