// SPDX-License-Identifier: MIT OR Apache-2.0
//! The domain of inter-core communication that a router is in: that of its deployment, or one at a socket that the user names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use icc::{AttachError, Endpoint, ServeError};
use planes::up::domain::VARIABLE;
use ports::plane::Planes;

/// Classes whose first argument names a channel.
const CLASSES: [&str; 2] = ["ToPlane", "FromPlane"];
/// Bytes of the longest packet, and packets, of a channel that nobody has described.
const LONGEST: u32 = 2048;
const COUNT: u32 = 1024;

/// The socket of the domain that this process is in: the one asked for, or its deployment's.
pub(crate) fn socket(asked: Option<&Path>) -> Option<PathBuf> {
    let of_deployment = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    asked.map(Path::to_owned).or_else(of_deployment)
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
    let mut names: Vec<String> = Vec::new();
    for element in graph.elements.iter().filter(|element| CLASSES.contains(&&*element.class)) {
        let arguments = lang::config::split_args(&element.config);
        let name = arguments.first().map(|first| lang::config::unquote_string(&first.text));
        let name = name.unwrap_or_default();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    (1..).zip(names).map(|(port, name)| Endpoint::packets(port, name, LONGEST, COUNT)).collect()
}
