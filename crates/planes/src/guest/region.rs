// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies in the memory that a guest shares with the machine, unless its program has that for itself: two rings of messages for control
//! connections (`relay`), and a block for each channel of statistics (`statistics`).

use std::path::Path;

use icc::{Endpoint, FileRegion, NodeId};

use super::{Guest, relay};
use crate::Error;

/// A channel that a guest reads: its name, and bytes of the longest block.
pub type Channel = (String, u32);

fn endpoints(reaches: bool, channels: impl Iterator<Item = Channel>) -> Vec<Endpoint> {
    let blocks = (3..).zip(channels).map(|(port, (name, longest))| Endpoint::blocks(port, name, longest));
    relay::endpoints().into_iter().filter(|_| reaches).chain(blocks).collect()
}

fn size(endpoints: &[Endpoint]) -> u64 {
    FileRegion::bytes(endpoints).map_or(1 << 20, |bytes| bytes.next_multiple_of(4096)) as u64
}

/// The channels among endpoints.
#[must_use]
pub fn channels(endpoints: &[Endpoint]) -> Vec<Channel> {
    let of = |endpoint: &Endpoint| match endpoint.kind {
        icc::ChannelKind::Blocks { longest } => Some((endpoint.name.clone(), longest)),
        _ => None,
    };
    endpoints.iter().filter_map(of).collect()
}

/// Bytes of shared memory that a guest needs which reaches planes or not, and reads these channels.
#[must_use]
pub fn bytes(reaches: bool, read: &[Endpoint]) -> u64 {
    size(&endpoints(reaches, channels(read).into_iter()))
}

impl Guest {
    fn endpoints(&self) -> Vec<Endpoint> {
        endpoints(!self.reaches.is_empty(), self.channels.iter().cloned())
    }

    /// Bytes of the region, if there is one.
    pub(super) fn region_bytes(&self) -> Option<u64> {
        let endpoints = self.endpoints();
        (!endpoints.is_empty()).then(|| size(&endpoints))
    }

    /// Makes the region in a file; nothing if there is none.
    pub(super) fn make_region(&self, file: &Path) -> Result<Option<FileRegion>, Error> {
        let Some(bytes) = self.region_bytes() else { return Ok(None) };
        let made = FileRegion::make(file, bytes as usize, NodeId::new(1, 1), &self.endpoints());
        made.map(Some).map_err(Error::region(file))
    }
}
