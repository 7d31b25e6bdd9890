// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regions in a file, for nodes in two operating systems: `/dev/shm/X` here, `/dev/mmapper` in a User Mode Linux guest, the resource of an `ivshmem` device.
//!
//! There is no socket between them, so nothing rings, rights are those of the file, and each side shows by a heartbeat that it lives.

use std::fs::OpenOptions;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::blocks::{BlockReader, BlockWriter};
use crate::channel::{Link, Peer, Seated};
use crate::connection::{FileSeat, Lease};
use crate::counters::{CounterReader, CounterWriter};
use crate::endpoint::{Endpoint, NodeId, Role};
use crate::error::AttachError;
use crate::layout::{Channel, Layout, LayoutError};
use crate::memory::{WORD, Words};
use crate::messages::{Receiver, Sender};
use crate::node::of_kind;
use crate::packets::{PacketReceiver, PacketSender};
use crate::prim::Ordering;
use crate::scalars::{ScalarReceiver, ScalarSender};

/// A region in a file. A file that others may make shorter while it is in use would end this process by a signal: only its owner may have the right to write
/// to it as a file. (Guests map it without having that right.)
#[derive(Clone, Debug)]
pub struct FileRegion {
    layout: Layout,
    words: Words,
    path: PathBuf,
}

impl FileRegion {
    /// Bytes that a file needs to hold these endpoints.
    ///
    /// # Errors
    /// [`LayoutError::NotAllowed`].
    pub fn bytes(endpoints: &[Endpoint]) -> Result<usize, LayoutError> {
        Ok(Layout::plan(NodeId::new(0, 0), 0, endpoints)?.words * WORD)
    }

    /// Makes a region in a file: an existing one that is large enough, or a new one of `bytes` bytes for this user alone. What was in it is lost.
    ///
    /// # Errors
    /// The file cannot be opened, or is too small ([`LayoutError::NotAllowed`]).
    pub fn make(
        path: impl AsRef<Path>,
        bytes: usize,
        node: NodeId,
        endpoints: &[Endpoint],
    ) -> Result<FileRegion, AttachError> {
        let path = path.as_ref();
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let meta = file.metadata()?;
        if meta.is_file() && meta.len() == 0 {
            file.set_len(bytes as u64)?;
        }
        let words = Self::map(&file, bytes)?;
        let generation = words[4].load(Ordering::Relaxed).wrapping_add(1);
        let layout = Layout::plan(node, generation, endpoints)?;
        if layout.words > words.len() {
            let (needed, there) = (layout.words * WORD, words.len() * WORD);
            return Err(LayoutError::NotAllowed(format!(
                "the endpoints need {needed} bytes, {} has {there}",
                path.display()
            ))
            .into());
        }
        // Nobody takes it for complete meanwhile.
        words[6].store(0, Ordering::Release);
        words[..layout.words].iter().for_each(|word| word.store(0, Ordering::Release));
        layout.write(&words);
        Ok(FileRegion { layout, words, path: path.to_owned() })
    }

    /// Opens a region that another node has made in the first `bytes` bytes of a file.
    ///
    /// # Errors
    /// The file cannot be opened or holds no region.
    pub fn open(path: impl AsRef<Path>, bytes: usize) -> Result<FileRegion, AttachError> {
        let path = path.as_ref();
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let words = Self::map(&file, bytes)?;
        let layout = Layout::read(&words.clone().into())?;
        Ok(FileRegion { layout, words, path: path.to_owned() })
    }

    fn map(file: &std::fs::File, bytes: usize) -> Result<Words, AttachError> {
        let meta = file.metadata()?;
        // A device does not say how large it is, and refuses to map more than there is.
        if !meta.file_type().is_char_device() && meta.len() < bytes as u64 {
            let there = meta.len();
            return Err(LayoutError::NotAllowed(format!("a file of {there} bytes, not {bytes}")).into());
        }
        Ok(Words::map(file.as_fd(), bytes / WORD)?)
    }

    /// The node that made it.
    pub fn node(&self) -> NodeId {
        self.layout.node
    }

    /// Attaches as the sender of messages. Nobody checks that the sender before is dead: the caller knows, by its heartbeat or otherwise.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn sender(&self, endpoint: &str) -> Result<Sender, AttachError> {
        Ok(Sender::new(self.link(endpoint, Role::Sender, "messages")?)?)
    }

    /// Attaches as the receiver of messages, as [`sender`](Self::sender).
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn receiver(&self, endpoint: &str) -> Result<Receiver, AttachError> {
        Ok(Receiver::new(self.link(endpoint, Role::Receiver, "messages")?))
    }

    /// Attaches as the sender of scalars.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn scalar_sender(&self, endpoint: &str) -> Result<ScalarSender, AttachError> {
        Ok(ScalarSender::new(self.link(endpoint, Role::Sender, "scalars")?)?)
    }

    /// Attaches as the receiver of scalars.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn scalar_receiver(&self, endpoint: &str) -> Result<ScalarReceiver, AttachError> {
        Ok(ScalarReceiver::new(self.link(endpoint, Role::Receiver, "scalars")?))
    }

    /// Attaches as the sender of packets, which are copied.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn packet_sender(&self, endpoint: &str) -> Result<PacketSender, AttachError> {
        Ok(PacketSender::new(self.link(endpoint, Role::Sender, "packets")?)?)
    }

    /// Attaches as the receiver of packets.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn packet_receiver(&self, endpoint: &str) -> Result<PacketReceiver, AttachError> {
        Ok(PacketReceiver::new(self.link(endpoint, Role::Receiver, "packets")?))
    }

    /// Attaches as the writer of counters.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn counter_writer(&self, endpoint: &str) -> Result<CounterWriter, AttachError> {
        Ok(CounterWriter::new(self.link(endpoint, Role::Sender, "counters")?))
    }

    /// Attaches as a reader of counters.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn counter_reader(&self, endpoint: &str) -> Result<CounterReader, AttachError> {
        let channel = of_kind(self.layout.find(endpoint)?, endpoint, "counters")?;
        Ok(CounterReader::new(self.words.clone().into(), channel, Lease::none()))
    }

    /// Attaches as the writer of blocks.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn block_writer(&self, endpoint: &str) -> Result<BlockWriter, AttachError> {
        Ok(BlockWriter::new(self.link(endpoint, Role::Sender, "blocks")?))
    }

    /// Attaches as a reader of blocks.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn block_reader(&self, endpoint: &str) -> Result<BlockReader, AttachError> {
        let channel = of_kind(self.layout.find(endpoint)?, endpoint, "blocks")?;
        Ok(BlockReader::new(self.words.clone().into(), channel, Lease::none()))
    }

    fn link(&self, endpoint: &str, role: Role, wanted: &'static str) -> Result<Link, AttachError> {
        let channel: Channel = of_kind(self.layout.find(endpoint)?, endpoint, wanted)?.clone();
        let seat = &self.words[channel.seat(role)];
        let before = seat.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |seat| {
            Some((seat >> 1).wrapping_add(1) << 1 | 1)
        });
        let number = (before.unwrap_or_default() >> 1).wrapping_add(1) << 1 >> 1;
        let lease = Lease::of_file(FileSeat { words: self.words.clone(), at: channel.seat(role), number });
        let seated = Seated { role, seat: number, bell: None, ear: None, lease, region: None };
        Ok(Link::new(self.words.clone(), channel, seated))
    }

    /// Who is said to sit at an endpoint, and the number that it counts up by `beat`. Who was killed still seems present, with a number that stands still.
    ///
    /// # Errors
    /// There is no such endpoint.
    pub fn seat(&self, endpoint: &str, role: Role) -> Result<(Peer, u64), LayoutError> {
        let channel = self.layout.find(endpoint)?;
        let load = |at: usize| self.words[at].load(Ordering::Acquire);
        Ok((Peer::shown(load(channel.seat(role))), load(channel.heartbeat(role))))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
