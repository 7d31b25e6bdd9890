// SPDX-License-Identifier: MIT OR Apache-2.0
//! What changes while associations are in use, and events, as text.

use std::fmt::Write as _;

use super::association::show_association;
use super::policy::show_policy;
use super::{Keys, words};
use crate::association::{Association, AssociationConfig, Progress};
use crate::event::Event;
use crate::lifetime::Reached;

/// An association on a line. On the next one, behind a tab, where it is, what it has carried and what it has refused: words and numbers in turn. Times are nanoseconds
/// before `now_ns`; `used_ns` is missing before the first packet, and `dummies` before the first dummy packet. With its keys, the association has its progress, too.
pub fn show_state(association: &Association, keys: Keys, now_ns: u64) -> String {
    let progress = if keys == Keys::Shown { association.progress() } else { Progress::default() };
    let config = AssociationConfig { progress, ..association.current() };
    let mut text = show_association(&config, keys);
    let (lines, usage) = (&association.lines, association.lines.usage());
    let _ = write!(
        text,
        "\n\tsent {} top {} bytes {} packets {} replayed {} outside-window {} bad-icv {} age_ns {}",
        association.sa.sent(),
        association.sa.window.top(),
        usage.bytes,
        usage.packets,
        lines.sum(|line| line.replayed.get()),
        lines.sum(|line| line.too_old.get()),
        lines.sum(|line| line.forged.get()),
        now_ns.saturating_sub(association.made_ns),
    );
    let dummies = lines.sum(|line| line.dummies.get());
    if dummies > 0 {
        let _ = write!(text, " dummies {dummies}");
    }
    if let Some(first) = lines.first_ns() {
        let _ = write!(text, " used_ns {}", now_ns.saturating_sub(first));
    }
    match association.reached() {
        None => {}
        Some(Reached::Soft) => text.push_str(" limit soft"),
        Some(Reached::Hard) => text.push_str(" limit hard"),
    }
    text
}

/// An event on a line.
pub fn show_event(event: &Event) -> String {
    match event {
        Event::Acquire { flow, policy, .. } => {
            let ports = flow.ports.map(|(src, dst)| format!(" sport {src} dport {dst}")).unwrap_or_default();
            let (src, dst, protocol) = (flow.src, flow.dst, words::show_protocol(flow.protocol));
            format!("acquire src {src} dst {dst} proto {protocol}{ports} policy {}", show_policy(policy))
        }
        Event::Expire { id, reqid, reached } => {
            let kind = if *reached == Reached::Hard { "hard" } else { "soft" };
            format!("expire dst {} spi {:#010x} reqid {reqid} {kind}", id.dst, id.spi)
        }
        Event::Mapping { id, reqid, before, after } => format!(
            "mapping dst {} spi {:#010x} reqid {reqid} from {} {} to {} {}",
            id.dst, id.spi, before.0, before.1, after.0, after.1
        ),
    }
}
