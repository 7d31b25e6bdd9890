// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the opener may do for a router, and for which interfaces.

/// What a router's configuration names. Nobody adds to it later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Interfaces that are opened.
    pub interfaces: Vec<String>,
    /// Interfaces that are made, and changed.
    pub taps: Vec<String>,
    /// Whether raw IP sockets are opened.
    pub raw: bool,
}

impl Policy {
    pub(super) const NOTHING: Policy = Policy { interfaces: Vec::new(), taps: Vec::new(), raw: false };

    /// Whether there is nothing to open.
    pub fn is_empty(&self) -> bool {
        *self == Policy::NOTHING
    }

    /// As lines.
    pub(super) fn text(&self) -> String {
        let lines = |word: &str, names: &[String]| {
            names.iter().map(|name| format!("{word} {name}\n")).collect::<String>()
        };
        let raw = if self.raw { "raw\n" } else { "" };
        lines("interface", &self.interfaces) + &lines("tap", &self.taps) + raw
    }

    /// Adds lines; what is not understood allows nothing.
    pub(crate) fn add(&mut self, text: &str) {
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("interface", name)) => self.interfaces.push(name.to_owned()),
                Some(("tap", name)) => self.taps.push(name.to_owned()),
                None if line == "raw" => self.raw = true,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_as_it_was_written() {
        let policy =
            Policy { interfaces: vec!["d0".into(), "d1".into()], taps: vec!["t0".into()], raw: true };
        let mut read = Policy::default();
        read.add(&policy.text());
        read.add("nonsense\ninterface\n");
        assert_eq!(read, policy);
    }
}
