// SPDX-License-Identifier: MIT OR Apache-2.0
//! Demands on frame sizes, to which several runs may each do their part.

use serde::{Deserialize, Serialize};

use super::{Clause, Ledger, Level};

/// Which frame sizes are asked for, in bytes with FCS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Each of these.
    All(Vec<usize>),
    /// So many.
    AtLeast(usize),
    /// One above this.
    Above(usize),
}

/// Which were asked for, and which were sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// What is asked for.
    pub wanted: Wanted,
    /// What was sent.
    pub sent: Vec<usize>,
    /// Why one size cannot be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<(usize, String)>,
}

impl Sizes {
    /// These, if frames of those were sent.
    pub fn new(wanted: Wanted, sent: &[usize]) -> Sizes {
        Sizes { wanted, sent: sent.to_vec(), remark: None }
    }

    /// What another run has sent was sent, too.
    pub fn join(&mut self, other: &Sizes) {
        self.sent.extend(&other.sent);
        self.sent.sort_unstable();
        self.sent.dedup();
    }

    /// What was done instead; nothing where all were sent that are asked for.
    pub fn deviation(&self) -> Option<String> {
        match &self.wanted {
            Wanted::All(sizes) => {
                let missing: Vec<String> = sizes
                    .iter()
                    .filter(|size| !self.sent.contains(size))
                    .map(|size| self.named(*size))
                    .collect();
                (!missing.is_empty()).then(|| format!("not measured: {} bytes", missing.join(", ")))
            }
            Wanted::AtLeast(count) => {
                let (sent, many) = (self.sent.len(), if self.sent.len() == 1 { "" } else { "s" });
                (sent < *count).then(|| format!("{sent} size{many}"))
            }
            Wanted::Above(size) => {
                self.sent.iter().all(|sent| sent <= size).then(|| "none were sent".to_owned())
            }
        }
    }

    fn named(&self, size: usize) -> String {
        match &self.remark {
            Some((which, why)) if *which == size => format!("{size} ({why})"),
            _ => size.to_string(),
        }
    }
}

impl Ledger {
    /// Notes a demand on frame sizes.
    pub(super) fn note_sizes(
        &mut self,
        section: &'static str,
        level: Level,
        asks: &'static str,
        sizes: Sizes,
    ) {
        self.clauses.push(Clause { section, level, asks, deviation: sizes.deviation(), sizes: Some(sizes) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_do_their_part_meet_it_together() {
        for (wanted, first, rest) in [
            (Wanted::All(vec![64, 1518]), "not measured: 1518 bytes", &[64, 1518][..]),
            (Wanted::AtLeast(3), "1 size", &[64, 128, 256]),
            (Wanted::Above(1522), "none were sent", &[9000]),
        ] {
            let mut sizes = Sizes::new(wanted.clone(), &[64]);
            assert_eq!(sizes.deviation().as_deref(), Some(first));
            // The same again is nothing new.
            sizes.join(&Sizes::new(wanted.clone(), &[64]));
            assert_eq!(sizes.deviation().as_deref(), Some(first));
            for size in rest {
                sizes.join(&Sizes::new(wanted.clone(), &[*size]));
            }
            assert_eq!(sizes.deviation(), None);
        }
        let remark = Some((64, "too short".to_owned()));
        let sizes = Sizes { remark, ..Sizes::new(Wanted::All(vec![64, 128]), &[]) };
        assert_eq!(sizes.deviation().as_deref(), Some("not measured: 64 (too short), 128 bytes"));
    }
}
