// SPDX-License-Identifier: MIT OR Apache-2.0
//! The domain of inter-core communication that a router is in: that of its deployment, or one at a socket that the user names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use icc::{AttachError, BlockReader, Endpoint, FileRegion, Node, ServeError};
use planes::guest::{REGION, REGION_BYTES};
use planes::up::domain::VARIABLE;
use ports::plane::Planes;

/// Classes whose first argument names a channel of packets.
const PACKETS: [&str; 2] = ["ToPlane", "FromPlane"];
/// The class whose first argument names a channel of routes.
const ROUTES: &str = "RouteFeed";
/// Bytes of the longest packet, and packets, of a channel that nobody has described.
const LONGEST: u32 = 2048;
const COUNT: u32 = 1024;

/// The socket of the domain that this process is in: the one asked for, or its deployment's.
pub(crate) fn socket(asked: Option<&Path>) -> Option<PathBuf> {
    let of_deployment = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    asked.map(Path::to_owned).or_else(of_deployment)
}

/// Why a program has no channels.
pub(crate) fn no_channels(channel: &str) -> String {
    format!(
        "channel '{channel}': this program was not started by 'junctor up', so it has no channels; set {VARIABLE} to the socket of a deployment's domain, or name a control socket by --socket"
    )
}

/// Attaches to a channel as a reader of blocks: by the domain's socket, which somebody serves, or in a guest by the memory that it shares with the machine.
pub(crate) fn block_reader(channel: &str) -> Result<(Option<Node>, BlockReader), String> {
    let failed = |why: AttachError| match why {
        AttachError::NoEndpoint(..) | AttachError::Layout(icc::LayoutError::NoEndpoint(..)) => {
            format!(
                "channel '{channel}': there is no such channel of statistics; see [channels] in the deployment"
            )
        }
        why => format!("channel '{channel}': {why}"),
    };
    if let Some(socket) = socket(None) {
        let node = Planes::at(&socket).node().map_err(failed)?;
        let reader = node.block_reader(channel).map_err(failed)?;
        return Ok((Some(node), reader));
    }
    let bytes = std::env::var(REGION_BYTES).ok().and_then(|bytes| bytes.parse().ok());
    let Some((path, bytes)) = std::env::var_os(REGION).zip(bytes) else { return Err(no_channels(channel)) };
    let region = FileRegion::open(Path::new(&path), bytes).map_err(failed)?;
    Ok((None, region.block_reader(channel).map_err(failed)?))
}

/// The domain, if there is one. One that was asked for is served here if nobody serves it.
pub(crate) fn of(asked: Option<&Path>, graph: &lang::Graph) -> Result<Option<Arc<Planes>>, String> {
    let Some(socket) = socket(asked) else { return Ok(None) };
    let planes = Planes::at(&socket);
    let endpoints = endpoints(graph);
    if asked.is_none() || endpoints.is_empty() || !matches!(planes.node(), Err(AttachError::Unreachable(..)))
    {
        return Ok(Some(planes));
    }
    match Planes::serve(&socket, &endpoints) {
        Ok(planes) => Ok(Some(planes)),
        // Another router was faster.
        Err(ServeError::InUse(_)) => Ok(Some(planes)),
        Err(why) => Err(format!("--icc: {why}")),
    }
}

/// The channels that a configuration names.
fn endpoints(graph: &lang::Graph) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    for name in named(graph, &PACKETS) {
        endpoints.push(Endpoint::packets(endpoints.len() as u32 + 1, name, LONGEST, COUNT));
    }
    for name in named(graph, &[ROUTES]) {
        endpoints.extend(planes::deployment::routes(endpoints.len() as u32 + 1, &name));
    }
    endpoints
}

/// What the first arguments of elements of these classes name, each once.
fn named(graph: &lang::Graph, classes: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for element in graph.elements.iter().filter(|element| classes.contains(&&*element.class)) {
        let arguments = lang::config::split_args(&element.config);
        let name = arguments.first().map(|first| lang::config::unquote_string(&first.text));
        let name = name.unwrap_or_default();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
