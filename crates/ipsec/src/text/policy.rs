// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies as `ip xfrm policy` has them.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use super::words::{Mistake, SelectorWords, Words, mistake, safe, show_selector};
use crate::policy::{Action, Direction, IpsecMode, Policy, PolicyKey, Template};
use crate::selector::Selector;

const DIRECTIONS: &[(&str, Direction)] =
    &[("in", Direction::In), ("out", Direction::Out), ("fwd", Direction::Forward)];

/// Reads a policy.
///
/// # Errors
/// What is wrong, and what is expected.
pub fn parse_policy(text: &str) -> Result<Policy, Mistake> {
    let mut words = Words::new(text);
    let mut selector = SelectorWords::default();
    let (mut direction, mut priority, mut index) = (None, 0, 0);
    let (mut is_blocked, mut template) = (false, None);
    while let Some(keyword) = words.next() {
        match keyword {
            _ if selector.take(keyword, &mut words)? => {}
            "dir" => direction = Some(words.one_of(keyword, DIRECTIONS)?),
            "priority" => priority = words.number(keyword)?,
            "index" => index = words.number(keyword)?,
            "ptype" => words.one_of(keyword, &[("main", ())])?,
            "action" => is_blocked = words.one_of(keyword, &[("allow", false), ("block", true)])?,
            "tmpl" if template.is_some() => {
                return mistake("one 'tmpl' at most: associations are not nested");
            }
            "tmpl" => template = Some(parse_template(&mut words)?),
            "mark" | "if_id" | "flag" | "ctx" | "limit" => {
                return mistake(format!("'{keyword}' is not supported"));
            }
            _ => {
                return mistake(format!(
                    "unknown word '{}'; known are src, dst, proto, sport, dport, dir, priority, index, action, tmpl",
                    safe(keyword)
                ));
            }
        }
    }
    let direction =
        direction.ok_or_else(|| Mistake("a policy needs 'dir in', 'dir out' or 'dir fwd'".into()))?;
    let action = match (is_blocked, template) {
        (true, None) => Action::Discard,
        (true, Some(_)) => return mistake("'action block' discards: leave out 'tmpl'"),
        (false, None) => Action::Bypass,
        (false, Some(template)) => Action::Protect(template),
    };
    Ok(Policy { direction, selector: selector.finish()?, priority, action, index })
}

/// Reads which policy is meant: direction and selector, as in `ip xfrm policy delete`. Other words of a policy may stand there, too.
///
/// # Errors
/// What is wrong, and what is expected.
pub fn parse_policy_key(text: &str) -> Result<PolicyKey, Mistake> {
    parse_policy(text).map(|policy| policy.key())
}

/// Reads what stands behind `tmpl`.
fn parse_template(words: &mut Words<'_>) -> Result<Template, Mistake> {
    let (mut from, mut to): (Option<IpAddr>, Option<IpAddr>) = (None, None);
    let (mut spi, mut reqid, mut is_transport, mut is_optional) = (None, 0, false, false);
    while let Some(keyword) = words.peek() {
        if !matches!(keyword, "src" | "dst" | "proto" | "spi" | "reqid" | "mode" | "level") {
            break;
        }
        words.next();
        match keyword {
            "src" => from = Some(words.addr(keyword)?),
            "dst" => to = Some(words.addr(keyword)?),
            "proto" => words.one_of(keyword, &[("esp", ())])?,
            "spi" => spi = Some(words.number(keyword)?).filter(|spi| *spi != 0),
            "reqid" => reqid = words.number(keyword)?,
            "mode" => is_transport = words.one_of(keyword, &[("tunnel", false), ("transport", true)])?,
            _ => is_optional = words.one_of(keyword, &[("required", false), ("use", true)])?,
        }
    }
    let kind = match (is_transport, from, to) {
        (true, ..) => IpsecMode::Transport,
        (false, Some(from), Some(to)) if from.is_ipv4() == to.is_ipv4() => IpsecMode::Tunnel { from, to },
        (false, Some(from), Some(to)) => {
            return mistake(format!("'tmpl': {from} and {to} are of two families"));
        }
        (false, ..) => {
            return mistake("'tmpl' in tunnel mode needs 'src ADDRESS dst ADDRESS', the tunnel's ends");
        }
    };
    Ok(Template { kind, reqid, spi, is_optional })
}

/// Writes a policy so that [`parse_policy`] reads the same.
pub fn show_policy(policy: &Policy) -> String {
    let Policy { direction, selector, priority, action, index } = policy;
    let mut text = show_key(*direction, selector);
    let _ = write!(text, " priority {priority}");
    if *index != 0 {
        let _ = write!(text, " index {index}");
    }
    match action {
        Action::Bypass => {}
        Action::Discard => text.push_str(" action block"),
        Action::Protect(template) => show_template(&mut text, template),
    }
    text
}

fn show_key(direction: Direction, selector: &Selector) -> String {
    format!("{} dir {}", show_selector(selector), direction.name())
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show_key(self.direction, &self.selector))
    }
}

fn show_template(text: &mut String, template: &Template) {
    let Template { kind, reqid, spi, is_optional } = template;
    let _ = match kind {
        IpsecMode::Tunnel { from, to } => {
            write!(text, " tmpl src {from} dst {to} proto esp reqid {reqid} mode tunnel")
        }
        IpsecMode::Transport => write!(text, " tmpl proto esp reqid {reqid} mode transport"),
    };
    if let Some(spi) = spi {
        let _ = write!(text, " spi {spi:#010x}");
    }
    if *is_optional {
        text.push_str(" level use");
    }
}
