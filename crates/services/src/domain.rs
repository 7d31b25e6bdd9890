// SPDX-License-Identifier: MIT OR Apache-2.0
//! The domain of inter-core communication that a router is in: that of its deployment, or one at a socket that the user names.

use std::path::Path;
use std::sync::Arc;

use icc::{AttachError, Endpoint, ServeError};
use ports::plane::Planes;

/// Classes whose first argument names a channel of packets.
const PACKETS: [&str; 2] = ["ToPlane", "FromPlane"];
/// The class whose first argument names a channel of routes.
const ROUTES: &str = "RouteFeed";
/// Bytes of the longest packet, and packets, of a channel that nobody has described.
const LONGEST: u32 = 2048;
const COUNT: u32 = 1024;

/// The domain, if there is one. One that was asked for is served here if nobody serves it.
///
/// # Errors
/// It cannot be served.
pub fn of(asked: Option<&Path>, graph: &lang::Graph) -> Result<Option<Arc<Planes>>, ServeError> {
    let Some(socket) = client::channel::socket(asked) else { return Ok(None) };
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
        Err(why) => Err(why),
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
