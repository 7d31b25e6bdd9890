// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same for channels of a deployment: one block of bytes that holds a directory and a snapshot of it, so each block can be read by itself.
//!
//! ```text
//!   0   eight words of 8 bytes, little endian: magic, version, state, process, when it began, time between snapshots,
//!       number of the directory, its bytes
//!  64   the directory, and the snapshot up to the end
//! ```
//! How a block gets from one process to another whole is not this crate's business.

use std::sync::Arc;

use crate::bytes::{Put, Take};
use crate::directory::Directory;
use crate::segment::{MAGIC, Reading, VERSION};
use crate::snapshot::Snapshot;

/// Bytes before the directory.
pub const HEAD: usize = 64;

const LIVE: u64 = 0;
const ENDED: u64 = 1;
/// A file has a state 2, which a block has not.
const TOO_LONG: u64 = 3;

/// Makes blocks.
#[derive(Debug)]
pub struct Composer {
    started_ns: u64,
    interval_ns: u64,
    /// The number of the directory, and its bytes.
    directory: (u64, Vec<u8>),
    /// The last block.
    block: Vec<u8>,
}

impl Composer {
    /// For this process, which began at a time and publishes so often.
    pub fn new(started_ns: u64, interval_ns: u64) -> Composer {
        Composer { started_ns, interval_ns, directory: (0, Vec::new()), block: Vec::new() }
    }

    /// From now on snapshots come so often.
    pub fn set_interval_ns(&mut self, interval_ns: u64) {
        self.interval_ns = interval_ns;
    }

    /// From now on snapshots are of this directory.
    pub fn describe(&mut self, directory: &Directory) {
        self.directory = (self.directory.0 + 1, directory.encode());
    }

    /// A block with this snapshot, of the directory that was given last.
    pub fn compose(&mut self, snapshot: &mut Snapshot) -> &[u8] {
        snapshot.directory = self.directory.0;
        self.head(LIVE, self.directory.1.len() as u64);
        self.block.extend_from_slice(&self.directory.1);
        self.block.extend_from_slice(&snapshot.encode());
        &self.block
    }

    /// A block that says that a whole one would have so many bytes, and that there is not so much room.
    pub fn too_long(&mut self, bytes: u64) -> &[u8] {
        self.head(TOO_LONG, bytes);
        &self.block
    }

    /// A block that says that no other will come.
    pub fn ended(&mut self) -> &[u8] {
        self.head(ENDED, 0);
        &self.block
    }

    fn head(&mut self, state: u64, last: u64) {
        let pid = u64::from(std::process::id());
        let mut put = Put(std::mem::take(&mut self.block));
        put.0.clear();
        let words = [MAGIC, VERSION, state, pid, self.started_ns, self.interval_ns, self.directory.0, last];
        words.into_iter().for_each(|word| put.u64(word));
        self.block = put.0;
    }
}

/// Why a block cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// It is something else.
    #[error("something else than statistics is published there")]
    Foreign,
    /// It is of another version.
    #[error(
        "it has layout version {0}, and this program reads version {VERSION}: use the junctor that runs the router"
    )]
    Version(u64),
    /// It holds what no router writes.
    #[error("it is damaged: {0} makes no sense")]
    Damaged(&'static str),
}

/// A block as it was read.
#[derive(Clone, Debug)]
pub struct Block {
    /// The process that publishes.
    pub pid: u32,
    /// When it began, in nanoseconds since the epoch.
    pub started_ns: u64,
    /// How often it publishes, in nanoseconds.
    pub interval_ns: u64,
    /// What it says.
    pub content: Content,
}

/// What a block says.
#[derive(Clone, Debug)]
pub enum Content {
    /// A directory and a snapshot.
    Reading(Reading),
    /// The router has ended.
    Ended,
    /// Whole, the block would have so many bytes, which is more than the channel takes.
    TooLong(u64),
}

/// Reads blocks. It knows the last directory, which most blocks have again.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Process, when it began, and number of the directory that is known.
    known: Option<((u32, u64, u64), Arc<Directory>)>,
}

impl Decoder {
    /// Reads the block that was published with this number.
    ///
    /// # Errors
    /// See [`BlockError`]; nothing of the block is believed.
    pub fn decode(&mut self, block: &[u8], number: u64) -> Result<Block, BlockError> {
        let mut take = Take(block);
        let mut word = || take.u64("the head").map_err(BlockError::Damaged);
        if word().ok() != Some(MAGIC) {
            return Err(BlockError::Foreign);
        }
        match word()? {
            VERSION => {}
            version => return Err(BlockError::Version(version)),
        }
        let [state, pid, started_ns, interval_ns, directory, last] =
            [word()?, word()?, word()?, word()?, word()?, word()?];
        let pid = u32::try_from(pid).map_err(|_| BlockError::Damaged("the process"))?;
        let content = match state {
            LIVE => {
                let of = (pid, started_ns, directory);
                Content::Reading(self.reading(of, take.0, last, number).map_err(BlockError::Damaged)?)
            }
            ENDED => Content::Ended,
            TOO_LONG => Content::TooLong(last),
            _ => return Err(BlockError::Damaged("the state")),
        };
        Ok(Block { pid, started_ns, interval_ns, content })
    }

    fn reading(
        &mut self,
        of: (u32, u64, u64),
        rest: &[u8],
        directory_bytes: u64,
        number: u64,
    ) -> Result<Reading, &'static str> {
        let length = usize::try_from(directory_bytes).unwrap_or(usize::MAX);
        let (directory, snapshot) = rest.split_at_checked(length).ok_or("the length of the directory")?;
        let directory = match &self.known {
            Some((known, directory)) if *known == of => directory.clone(),
            _ => {
                let directory = Arc::new(Directory::decode(directory)?);
                self.known = Some((of, directory.clone()));
                directory
            }
        };
        let snapshot = Snapshot::decode(snapshot)?;
        if snapshot.directory != of.2 || snapshot.values.len() != directory.series.len() {
            return Err("the number of values");
        }
        Ok(Reading { directory, snapshot, number })
    }
}

/// What to do about statistics that have more bytes than their channel takes.
pub fn too_long(bytes: u64, longest: Option<u64>) -> String {
    let room = bytes.next_power_of_two().max(1 << 12);
    let room = if room < 1 << 20 { format!("{}K", room >> 10) } else { format!("{}M", room >> 20) };
    let longest = longest.map_or_else(|| "fewer".to_owned(), |longest| longest.to_string());
    format!(
        "they have {bytes} bytes, and the channel takes {longest}; give it size = \"{room}\" in the deployment"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::tests::example;

    fn values(values: &[u64]) -> Snapshot {
        Snapshot { wall_ns: 4, values: values.to_vec(), ..Snapshot::default() }
    }

    fn reading(block: Block) -> Reading {
        match block.content {
            Content::Reading(reading) => reading,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_composed_is_read() {
        let (mut composer, mut decoder) = (Composer::new(5, 1000), Decoder::default());
        composer.describe(&example());
        let block = composer.compose(&mut values(&[7, 8])).to_vec();
        let read = decoder.decode(&block, 3).unwrap();
        assert_eq!((read.pid, read.started_ns, read.interval_ns), (std::process::id(), 5, 1000));
        let first = reading(read);
        assert_eq!((first.number, &first.snapshot.values[..]), (3, &[7, 8][..]));
        assert_eq!(*first.directory, example());
        // The next one has the same directory, which is not read again.
        let block = composer.compose(&mut values(&[9, 9])).to_vec();
        let second = reading(decoder.decode(&block, 4).unwrap());
        assert!(Arc::ptr_eq(&first.directory, &second.directory));
        composer.describe(&Directory::default());
        composer.set_interval_ns(2000);
        let block = composer.compose(&mut values(&[])).to_vec();
        let read = decoder.decode(&block, 5).unwrap();
        assert_eq!(read.interval_ns, 2000);
        assert!(reading(read).directory.series.is_empty());
        let excuse = decoder.decode(composer.too_long(1 << 40), 6).unwrap();
        assert!(matches!(excuse.content, Content::TooLong(bytes) if bytes == 1 << 40));
        assert!(matches!(decoder.decode(composer.ended(), 7).unwrap().content, Content::Ended));
    }

    #[test]
    fn what_is_no_block_is_refused() {
        let mut composer = Composer::new(5, 1000);
        composer.describe(&example());
        let block = composer.compose(&mut values(&[7, 8])).to_vec();
        for length in 0..block.len() {
            assert!(Decoder::default().decode(&block[..length], 1).is_err(), "{length}");
        }
        let with = |word: usize, value: u64| {
            let mut bytes = block.clone();
            bytes[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
            Decoder::default().decode(&bytes, 1).unwrap_err()
        };
        assert_eq!((with(0, 1), with(1, 2)), (BlockError::Foreign, BlockError::Version(2)));
        assert_eq!(
            (with(2, 2), with(2, 9)),
            (BlockError::Damaged("the state"), BlockError::Damaged("the state"))
        );
        assert_eq!(with(3, 1 << 32), BlockError::Damaged("the process"));
        assert_eq!(with(6, 2), BlockError::Damaged("the number of values"));
        assert_eq!(with(7, u64::MAX), BlockError::Damaged("the length of the directory"));
    }

    #[test]
    fn the_size_that_is_proposed_has_room() {
        assert!(
            too_long(5000, Some(4096))
                .ends_with("the channel takes 4096; give it size = \"8K\" in the deployment")
        );
        assert!(too_long((3 << 20) + 1, None).contains("takes fewer; give it size = \"4M\""));
    }
}
