// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels of the deployment that a program is in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use icc::{AttachError, BlockReader, FileRegion, Node, Stream};
use planes::deployment::call_endpoints;
use planes::guest::{REGION, REGION_BYTES};
use planes::up::domain::VARIABLE;
use ports::plane::Planes;

use crate::call::Failure;

/// The socket of the domain that this process is in: the one asked for, or its deployment's.
pub fn socket(asked: Option<&Path>) -> Option<PathBuf> {
    let of_deployment = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    asked.map(Path::to_owned).or_else(of_deployment)
}

/// Attaches to a channel as a reader of blocks: by the domain's socket, which somebody serves, or in a guest by the memory that it shares with the machine.
///
/// # Errors
/// This program is in no deployment, or there is no such channel.
pub fn block_reader(channel: &str) -> Result<(Option<Node>, BlockReader), Failure> {
    let failed = |why: AttachError| match why {
        AttachError::NoEndpoint(..) | AttachError::Layout(icc::LayoutError::NoEndpoint(..)) => {
            Failure::NoStatistics(channel.to_owned())
        }
        why => Failure::Channel { channel: channel.to_owned(), why },
    };
    if let Some(socket) = socket(None) {
        let node = Planes::at(&socket).node().map_err(failed)?;
        let reader = node.block_reader(channel).map_err(failed)?;
        return Ok((Some(node), reader));
    }
    let bytes = std::env::var(REGION_BYTES).ok().and_then(|bytes| bytes.parse().ok());
    let Some((path, bytes)) = std::env::var_os(REGION).zip(bytes) else {
        return Err(Failure::NoChannels(channel.to_owned()));
    };
    let region = FileRegion::open(Path::new(&path), bytes).map_err(failed)?;
    Ok((None, region.block_reader(channel).map_err(failed)?))
}

/// Connects to the router at the other end of a channel.
///
/// # Errors
/// This program is in no deployment, the channel cannot be had, or nobody has answered for as long as `patience`.
pub fn connect(channel: &str, patience: Duration) -> Result<Stream, Failure> {
    let Some(place) = socket(None) else { return Err(Failure::NoChannels(channel.to_owned())) };
    let [calls, answers] = call_endpoints(channel);
    let failed = |why| Failure::Channel { channel: channel.to_owned(), why };
    let node = node(&place)?;
    let (sender, receiver) = (node.sender(&calls).map_err(failed)?, node.receiver(&answers).map_err(failed)?);
    Stream::client(sender, receiver, patience)
        .map_err(|why| Failure::Silent { channel: channel.to_owned(), why })
}

/// Attaches to the domain that is served at a socket.
///
/// # Errors
/// Nobody serves it.
pub fn node(place: &Path) -> Result<Node, Failure> {
    Ok(Planes::at(place).node()?)
}
