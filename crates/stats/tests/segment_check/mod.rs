// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a segment: they are read or refused. Shared by the fuzz target and the tests that replay its corpus.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use junctor_stats::{Content, Decoder, Error, Reading, Segment};

/// Takes `data` as a whole file, and as the content of a directory and of a snapshot in a file that is right otherwise: the first two bytes say where the one ends.
pub fn check(data: &[u8]) {
    let _ = read(data);
    let (length, rest) = data.split_at_checked(2).unwrap_or((&[0, 0], &[]));
    let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.len());
    let _ = read(&file(&rest[..length], &rest[length..]));
    read_block(data);
    read_block(&block(&rest[..length], &rest[length..]));
}

/// Takes bytes as a block, twice: the second time the directory is known. Returns whether it is one.
pub fn read_block(bytes: &[u8]) -> bool {
    let mut decoder = Decoder::default();
    let [first, second] = [1, 2].map(|number| decoder.decode(bytes, number));
    assert_eq!(first.is_ok(), second.is_ok());
    let Ok(Content::Reading(reading)) = second.map(|block| block.content) else { return first.is_ok() };
    assert_eq!(reading.iter().count(), reading.snapshot.values.len(), "each value is known");
    true
}

/// A block with this directory, whose number is 1, and this snapshot, built by docs/stats-segment.md.
pub fn block(directory: &[u8], snapshot: &[u8]) -> Vec<u8> {
    let head = [u64::from_le_bytes(*b"JNCSTATS"), 1, 0, 4711, 0, 0, 1, directory.len() as u64];
    let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend_from_slice(directory);
    bytes.extend_from_slice(snapshot);
    bytes
}

/// What a reader makes of a file of these bytes.
pub fn read(bytes: &[u8]) -> Result<Reading, Error> {
    let mut file: File = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    let mut segment = Segment::over(Path::new("fuzzed"), file)?;
    let _ = (segment.state(), segment.interval_ns(), segment.pid(), segment.is_alive());
    let reading = segment.read()?;
    assert_eq!(reading.iter().count(), reading.snapshot.values.len(), "each value is known");
    Ok(reading)
}

/// A file with this directory and this snapshot, both with the number 1, built by docs/stats-segment.md.
pub fn file(directory: &[u8], snapshot: &[u8]) -> Vec<u8> {
    let bodies = [body(directory), body(snapshot)];
    let [d, s] = [bodies[0].len() as u64, bodies[1].len() as u64];
    let mut words = vec![u64::from_le_bytes(*b"JNCSTATS"), 1, 0, 4711, 0, 0, 1, d, 1, s, 0, 0, 0, 0, 0, 0];
    for body in bodies {
        // Slot 0 is empty, number 1 lies in slot 1.
        words.extend(vec![0; 2 + body.len()]);
        words.extend([1, body.len() as u64]);
        words.extend(body);
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn body(content: &[u8]) -> Vec<u64> {
    let mut words = vec![0, content.len() as u64];
    for chunk in content.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        words.push(u64::from_le_bytes(bytes));
    }
    let step = |sum: u64, word: &u64| {
        let sum = (sum ^ word).wrapping_mul(0x0100_0000_01b3);
        sum ^ (sum >> 32)
    };
    words[0] = words[1..].iter().fold(0xcbf2_9ce4_8422_2325, step);
    words
}
