// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the peer's records do to our tables.

use std::collections::BTreeMap;

use element::clock::Nanos;
use statesync::{NotTaken, Op, Record};

use super::steps::Kept;

/// Tables of the peer that are remembered.
const TABLES: usize = 256;

/// What has been done, and by which names the peer calls its tables.
#[derive(Default)]
pub(super) struct Applied {
    /// By the number that the peer gives a table, ours.
    names: Vec<Option<usize>>,
    put: u64,
    ended: u64,
    yielded: u64,
    unknown_table: u64,
    not_taken: BTreeMap<NotTaken, u64>,
}

impl Applied {
    pub(super) fn shown(&self) -> String {
        let of = |why: NotTaken| self.not_taken.get(&why).copied().unwrap_or(0);
        let mut text = format!("put {}\nended {}\nyielded {}\n", self.put, self.ended, self.yielded);
        for why in NotTaken::ALL {
            text += &format!("not-taken-{} {}\n", why.name(), of(why));
        }
        text + &format!("not-taken-table {}\n", self.unknown_table)
    }

    /// Does what a record says.
    pub(super) fn apply(&mut self, now: Nanos, record: &Record<'_>, tables: &[Kept]) {
        let number = usize::from(record.table);
        if record.op == Some(Op::Table) {
            self.names.resize(TABLES, None);
            self.names[number] = tables.iter().position(|table| table.title().as_bytes() == record.body);
            return;
        }
        let table = self.names.get(number).copied().flatten().and_then(|at| tables.get(at));
        let Some(table) = table else {
            self.unknown_table += 1;
            return;
        };
        let Some(op) = record.op else {
            *self.not_taken.entry(NotTaken::Malformed).or_default() += 1;
            return;
        };
        match (table.with(|sessions| sessions.apply(now, op, record.body)), op) {
            (Err(why), _) => *self.not_taken.entry(why).or_default() += 1,
            (Ok(()), Op::Put) => self.put += 1,
            (Ok(()), Op::End) => self.ended += 1,
            (Ok(()), _) => self.yielded += 1,
        }
    }
}
