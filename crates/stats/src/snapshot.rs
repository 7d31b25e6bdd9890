// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values at one moment.

use crate::bytes::{Bad, Put, Take};

/// What a router counted until a moment. The values of one worker are all of one moment of that worker, between two rounds
/// (`worker.sampled_ns` and `worker.sampled_cycles` say which); those of different workers are not of the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of the directory that says what the values are.
    pub directory: u64,
    /// When it was published, in nanoseconds since the epoch.
    pub wall_ns: u64,
    /// The same on the machine's monotonic clock, and in cycles of its time stamp counter.
    pub monotonic_ns: u64,
    /// See above.
    pub cycles: u64,
    /// In the directory's order.
    pub values: Vec<u64>,
    /// What the router has to tell in words: the last decisions of its balancer, the latest last.
    pub notes: Vec<String>,
}

impl Snapshot {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut put = Put::default();
        [self.directory, self.wall_ns, self.monotonic_ns, self.cycles]
            .into_iter()
            .for_each(|word| put.u64(word));
        put.u32(self.values.len());
        put.u32(self.notes.len());
        self.values.iter().for_each(|value| put.u64(*value));
        self.notes.iter().for_each(|note| put.text(note));
        put.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Snapshot, Bad> {
        let mut take = Take(bytes);
        let mut snapshot = Snapshot {
            directory: take.u64("the number of the directory")?,
            wall_ns: take.u64("a time")?,
            monotonic_ns: take.u64("a time")?,
            cycles: take.u64("a time")?,
            ..Snapshot::default()
        };
        let values = take.u32("the number of values")? as usize;
        let notes = take.u32("the number of notes")? as usize;
        if values > take.0.len() / 8 || notes > take.0.len() / 4 {
            return Err("the number of values and notes");
        }
        snapshot.values = (0..values).map(|_| take.u64("a value")).collect::<Result<_, _>>()?;
        snapshot.notes =
            (0..notes).map(|_| Ok(take.text("a note")?.to_owned())).collect::<Result<_, Bad>>()?;
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let notes = vec!["moved src 0->1".to_owned(), String::new()];
        let snapshot = Snapshot {
            directory: 3,
            wall_ns: 4,
            monotonic_ns: 5,
            cycles: 6,
            values: vec![7, u64::MAX],
            notes,
        };
        let bytes = snapshot.encode();
        assert_eq!(Snapshot::decode(&bytes), Ok(snapshot));
        (0..bytes.len()).for_each(|n| assert!(Snapshot::decode(&bytes[..n]).is_err(), "{n}"));
    }
}
