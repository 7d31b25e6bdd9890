// SPDX-License-Identifier: MIT OR Apache-2.0
//! The domain of inter-core communication that the supervisor serves to its planes (`icc`).
//!
//! Planes find its socket by [`VARIABLE`]. Channels need the supervisor only to attach: if it is killed, those who have them go on, and attach to the
//! next supervisor's domain when that is there.

use icc::{Domain, Endpoint, NodeId};

use super::{Files, UpError};
use crate::deployment::Deployment;

/// The variable by which a plane learns the path of the domain's socket.
pub const VARIABLE: &str = "JUNCTOR_ICC";
/// The variable by which a plane learns the channels by which others call its handlers, separated by spaces.
pub const CALLS: &str = "JUNCTOR_CALLS";
/// The variable by which a plane learns the channels to which it publishes its statistics, separated by spaces.
pub const STATISTICS: &str = "JUNCTOR_STATISTICS";
/// All of these.
pub(super) const VARIABLES: [&str; 3] = [VARIABLE, CALLS, STATISTICS];
/// The supervisor's own node.
const SUPERVISOR: NodeId = NodeId::new(1, 1);

/// All endpoints of a deployment's domain: its channels.
pub(super) fn endpoints(deployment: &Deployment) -> Vec<Endpoint> {
    deployment.channels.clone()
}

/// Serves the domain, if there is anything in it.
pub(super) fn serve(deployment: &Deployment, files: &Files) -> Result<Option<Domain>, UpError> {
    let endpoints = endpoints(deployment);
    if endpoints.is_empty() {
        return Ok(None);
    }
    let path = files.domain();
    let served = Domain::serve(SUPERVISOR, &endpoints, Some(&path));
    served.map(Some).map_err(UpError::Domain)
}
