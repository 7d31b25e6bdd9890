// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a worker is, in words, and the packets that it has in hand: for reports about workers that stand still.

use std::fmt::Write as _;
use std::time::Duration;

use packet::glance::glance;

use crate::pulse::{Doing, Pulse, Spot};
use element::{ElementId, Layout};

/// Packets in hand that are shown, and how much of each: Ethernet, IPv6, and TCP or UDP headers.
const SHOWN: usize = 3;
const SHOWN_BYTES: usize = 64;

/// Where a worker is that was seen at these places, one after the other.
pub fn place(layout: &Layout, spots: &[Spot]) -> String {
    let name = |e: ElementId| match layout.elements.get(e) {
        Some(info) => format!("'{}' ({})", info.name, info.class.name),
        None => format!("element {e}"),
    };
    // It may have been on its way at the first looks.
    let late = &spots[spots.len() / 2..];
    if let [one, others @ ..] = late
        && others.iter().all(|s| s == one)
    {
        return match one.parts() {
            None => "between elements".into(),
            Some((e, Doing::Push, port)) => format!("in {} at its input {port}", name(e)),
            Some((e, Doing::Pull, port)) => format!("in {}, asked for packets at its output {port}", name(e)),
            Some((e, Doing::Pass, _)) => {
                format!("in {} or an element of the chain that begins with it and runs as one pass", name(e))
            }
            Some((e, Doing::Task, _)) => format!("in the task of {}", name(e)),
            Some((e, Doing::Timer, _)) => format!("in a timer of {}", name(e)),
            Some((e, Doing::Descriptor, _)) => format!("in {}, whose descriptor was ready", name(e)),
            Some((e, Doing::Read, _)) => format!("in a read handler of {}", name(e)),
            Some((e, Doing::Write, _)) => format!("in a write handler of {}", name(e)),
            Some((e, Doing::Call, _)) => format!("in {}", name(e)),
        };
    }
    let mut names: Vec<String> = Vec::new();
    for (e, ..) in spots.iter().filter_map(|s| s.parts()) {
        if !names.contains(&name(e)) {
            names.push(name(e));
        }
    }
    format!("going round without end through {}", names.join(", "))
}

/// The packets that came to the place.
pub fn in_hand(pulse: &Pulse) -> String {
    let at = pulse.batch();
    let n = at.packets();
    let mut text = format!("\n  in hand: {n} packet{}", if n == 1 { "" } else { "s" });
    match glance(at, SHOWN, SHOWN_BYTES) {
        Err(why) => text += &format!(", which cannot be read: {why}"),
        Ok(seen) if seen.is_empty() => text += ", gone on or freed since",
        Ok(seen) => {
            text += if seen.len() < n { ", of which the first are" } else { "" };
            for packet in seen {
                let _ = write!(text, "\n    {} bytes:", packet.len);
                for (i, byte) in packet.bytes.iter().enumerate() {
                    let _ = write!(text, "{}{byte:02x}", if i % 4 == 0 { " " } else { "" });
                }
                text += if packet.bytes.len() < packet.len { " ..." } else { "" };
            }
        }
    }
    text
}

/// A time in seconds.
pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
