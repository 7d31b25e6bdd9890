// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor top` by a channel of statistics of a deployment, while processes on either side are killed.

mod deployed;

use std::process::Command;

use lab::rig::wait_for;
use serde_json::Value;

use deployed::{Deployment, JUNCTOR, PATIENCE, said};

const TEXT: &str = r#"
[planes.user]
kind = "user"
config = "router.click"
arguments = ["--stats", "20ms"]
backoff = "1ms"
backoff_max = "1ms"
[channels.load]
kind = "statistics"
plane = "user"
[channels.small]
kind = "statistics"
plane = "user"
size = "4K"
"#;

const ROUTER: &str = "src :: RatedSource(RATE 1000) -> c :: Counter -> Discard;";

/// One look by a channel, as JSON.
fn look(deployment: &Deployment, channel: &str) -> Result<Value, String> {
    let top = deployment.run(&["top", "--once", "--json", "--interval", "50ms", "--channel", channel]);
    match top.status.success() {
        true => serde_json::from_slice(&top.stdout).map_err(|why| why.to_string()),
        false => Err(said(&top)),
    }
}

/// Looks again until the router is seen whose process this is.
fn wait_until_seen(deployment: &Deployment) -> Value {
    let seen = || {
        let found = look(deployment, "load").ok()?;
        (found["router"]["pid"].to_string() == deployment.pid("user")).then_some(found)
    };
    wait_for("the router", PATIENCE, || seen().is_some())
        .unwrap_or_else(|e| panic!("{e}: {:?}", look(deployment, "load")));
    seen().expect("it goes on")
}

#[test]
fn a_plane_reads_statistics_by_a_channel() {
    if lab::rig::skip_without("a_plane_reads_statistics_by_a_channel", &[]) {
        return;
    }
    let mut deployment = Deployment::start("stats", TEXT, ROUTER);
    let seen = wait_until_seen(&deployment);
    println!("{seen}");
}
