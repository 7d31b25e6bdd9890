// SPDX-License-Identifier: MIT OR Apache-2.0
//! How `junctor config` speaks to a service: one line of JSON each way.

use serde::{Deserialize, Serialize};

/// The longest line.
pub const LONGEST: u64 = 1 << 20;

/// What is asked of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Request {
    /// What is in service?
    Status,
    /// Put a commit into service.
    Apply {
        /// Its number.
        commit: u64,
        /// The commit before it comes back unless it is confirmed in so many milliseconds. What the commit itself says counts
        /// first.
        confirm_within_ms: Option<u64>,
        /// It may take the place of another commit than its parent.
        force: bool,
    },
    /// Keep the commit that waits to be confirmed.
    Confirm,
    /// Bring back the one before it.
    Rollback,
    /// Go on with the program that is installed now.
    Upgrade,
}

/// What a service answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// What is in service.
    Status {
        /// The commit in service.
        running: u64,
        /// The commit that boots.
        confirmed: u64,
        /// Which commit waits to be confirmed.
        waiting: Option<Waits>,
        /// What became of the last upgrade, if the service has gone on since.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        upgraded: Option<Upgraded>,
        /// A transaction is being carried out, and may change all this.
        #[serde(default)]
        busy: bool,
    },
    /// It was done.
    Done {
        /// What, in words.
        text: String,
    },
    /// It was not done, and what was in service before is in service.
    Failed {
        /// Why.
        why: String,
    },
}

/// What became of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgraded {
    /// All planes that are to run with the new program do.
    pub is_whole: bool,
    /// The same in words.
    pub text: String,
}

/// A commit that waits to be confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Its number.
    pub commit: u64,
    /// The one that comes back.
    pub parent: u64,
    /// Milliseconds until then.
    pub left_ms: u64,
}

/// A message as a line.
#[must_use]
pub fn line<T: Serialize>(message: &T) -> String {
    format!("{}\n", serde_json::to_string(message).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let apply = Request::Apply { commit: 7, confirm_within_ms: Some(5000), force: false };
        let text = line(&apply);
        assert_eq!(text, "{\"ask\":\"apply\",\"commit\":7,\"confirm_within_ms\":5000,\"force\":false}\n");
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), apply);
        assert!(serde_json::from_str::<Request>("{\"ask\":\"reboot\"}").is_err());
        let status = Answer::Status { running: 2, confirmed: 1, waiting: None, upgraded: None, busy: false };
        assert_eq!(
            line(&status),
            "{\"answer\":\"status\",\"running\":2,\"confirmed\":1,\"waiting\":null,\"busy\":false}\n"
        );
        assert_eq!(serde_json::from_str::<Answer>(&line(&status)).unwrap(), status);
    }
}
