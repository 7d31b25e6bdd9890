// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that opens devices for a confined router: see [`services::devices::opener`].

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use confine::Plan;
use confine::privileges::{Capability, Limits, User};
use services::devices::opener::{self, Policy};
use services::devices::opening;

use crate::{exit, outcome};

/// Open devices for a router that is confined, which is at the other end of standard input.
#[derive(Clone, Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// Become this user.
    #[arg(long)]
    user: Option<String>,
}

/// What opening devices takes.
const KEPT: [Capability; 4] =
    [Capability::NetRaw, Capability::NetAdmin, Capability::Bpf, Capability::IpcLock];

/// Runs the command: the opener itself, which has no more rights than it needs either.
pub(crate) fn main(args: &Args) -> u8 {
    let user = match args.user.as_deref().map(User::named).transpose() {
        Ok(user) => user,
        Err(why) => return outcome::fail(why),
    };
    let plan = Plan { user, keep: KEPT.to_vec(), limits: Limits::default(), ..Plan::default() };
    if let Err(why) = plan.enforce() {
        return outcome::fail(format!("the opener of devices: {why}"));
    }
    let served = std::io::stdin().as_fd().try_clone_to_owned().and_then(|socket| opening::serve(&socket));
    match served {
        Ok(()) => exit::SUCCESS,
        Err(why) => outcome::fail(format!("the opener of devices: {why}")),
    }
}

/// Starts one for this process, which asks it from now on.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(policy: &Policy, user: Option<&User>) -> std::io::Result<()> {
    let (ours, theirs): (OwnedFd, OwnedFd) = opener::sockets()?;
    let mut command = Command::new("/proc/self/exe");
    // An interrupt from a terminal is the router's to handle; this process ends with it.
    command.arg0("junctor").arg("opener").process_group(0).stdin(theirs).stdout(Stdio::null());
    command.args(user.iter().flat_map(|user| ["--user", &user.name]));
    let _child = command.spawn()?;
    opener::ask_at(ours, policy)
}
