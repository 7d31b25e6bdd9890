// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be waited for, as it is written on the command line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use engine::{Reason, Reasons};

/// Something to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A packet is dropped for this reason, or for any that makes it a loss.
    Drop(Option<Reason>),
    /// A round of a worker takes longer than this.
    Stall(Duration),
    /// A packet is in the router for longer than this.
    Latency(Duration),
}

/// Conditions as messages list them.
const ALL: &str = "drop, drop=REASON, 'stall>BOUND' or 'latency>BOUND'";

impl Condition {
    pub(super) fn reasons(self) -> Reasons {
        match self {
            Condition::Drop(Some(reason)) => [reason].into_iter().collect(),
            Condition::Drop(None) => {
                Reason::ALL.iter().copied().filter(|r| *r != Reason::Discarded).collect()
            }
            Condition::Stall(_) | Condition::Latency(_) => Reasons::default(),
        }
    }

    pub(super) fn stall(self) -> Option<Duration> {
        if let Condition::Stall(bound) = self { Some(bound) } else { None }
    }

    pub(super) fn latency(self) -> Option<Duration> {
        if let Condition::Latency(bound) = self { Some(bound) } else { None }
    }
}

/// As on the command line.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Drop(None) => f.write_str("drop"),
            Condition::Drop(Some(reason)) => write!(f, "drop={reason}"),
            Condition::Stall(bound) => write!(f, "stall>{}", time(*bound)),
            Condition::Latency(bound) => write!(f, "latency>{}", time(*bound)),
        }
    }
}

/// A time as it can be read again, in the longest unit of which it is a whole number.
fn time(time: Duration) -> String {
    let ns = time.as_nanos();
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let (factor, unit) =
        units.into_iter().find(|(factor, _)| ns.is_multiple_of(*factor)).unwrap_or((1, "ns"));
    format!("{}{unit}", ns / factor)
}

fn bound(of: &str, text: &str) -> Result<Duration, String> {
    let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
    match engine::parse_duration(text) {
        Some(bound) if !bound.is_zero() && has_unit => Ok(bound),
        // As arguments of elements these are seconds, which nobody means here.
        Some(bound) if !bound.is_zero() => {
            Err(format!("'{of}>{text}' has no unit: write '{of}>{text}ms', or us, s"))
        }
        _ => Err(format!("'{of}>' expects a time above 0 such as '{of}>500us' or '{of}>5ms', not '{text}'")),
    }
}

/// What may have become of a bound that is not there.
fn without_bound(of: &str) -> String {
    format!("'{of}' needs a bound: write '{of}>5ms', in quotes, since a shell takes > for itself")
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        match text {
            "drop" => return Ok(Condition::Drop(None)),
            "stall" | "latency" => return Err(without_bound(text)),
            _ => {}
        }
        if let Some(text) = text.strip_prefix("stall>") {
            return bound("stall", text).map(Condition::Stall);
        }
        if let Some(text) = text.strip_prefix("latency>") {
            return bound("latency", text).map(Condition::Latency);
        }
        match text.strip_prefix("drop=").map(str::parse::<Reason>) {
            Some(Ok(Reason::HotSwap)) => {
                Err("no worker sees packets that a hot swap drops, so they cannot be waited for; \
                'junctor apply' says how many there were"
                    .into())
            }
            Some(reason) => reason.map(|reason| Condition::Drop(Some(reason))).map_err(|why| why.to_string()),
            None => Err(format!("'{text}' is nothing that can be waited for: expected {ALL}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_as_they_are_written() {
        let all = ["drop", "drop=queue-full", "drop=no-route", "stall>5ms", "stall>1500us", "stall>7ns"];
        for text in all.into_iter().chain(["stall>90s", "latency>250us", "latency>1s"]) {
            assert_eq!(text.parse::<Condition>().map(|c| c.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("stall>0.5s".parse::<Condition>().unwrap().to_string(), "stall>500ms");
        let any = Condition::Drop(None).reasons();
        assert!(any.has(Reason::QueueFull) && !any.has(Reason::Discarded));
    }

    #[test]
    fn what_is_no_condition_says_how_to_write_one() {
        let refused = |text: &str| text.parse::<Condition>().unwrap_err();
        assert!(refused("drop=queue-ful").contains("did you mean 'queue-full'?"));
        assert!(refused("drop=hot-swap").contains("junctor apply"));
        assert!(refused("rain").contains("drop=REASON"));
        assert!(refused("stall").contains("in quotes"));
        for bad in ["stall>", "stall>0", "stall>0ms", "stall>-1ms", "stall>soon", "stall>5 parsecs"] {
            let why = refused(bad);
            assert!(why.contains("'stall>5ms'") && why.ends_with(&format!("'{}'", &bad[6..])), "{why}");
            let bad = bad.replace("stall", "latency");
            let why = refused(&bad);
            assert!(why.contains("'latency>5ms'") && why.ends_with(&format!("'{}'", &bad[8..])), "{why}");
        }
        assert_eq!(refused("stall>5"), "'stall>5' has no unit: write 'stall>5ms', or us, s");
        assert!(refused("latency").contains("'latency>5ms', in quotes"));
    }
}
