// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor charon`: starts strongSwan's key daemon with the router in the place of Linux' IPsec.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use deploy::charon::Start;

use crate::outcome;

/// Start strongSwan's key daemon (charon-systemd) with this router in the place of Linux' IPsec.
///
/// The daemon takes the place of this command. Tunnels that it makes are those of the router whose control plane has the socket ('junctor control --xfrm SOCKET'). A deployment
/// of 'junctor router --ipsec' runs it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor charon --xfrm /run/junctor/xfrm --directory /etc/junctor/strongswan
  ip netns exec ctl junctor charon --xfrm /run/junctor/xfrm --directory r1/strongswan")]
pub(crate) struct Args {
    /// The socket of the control plane.
    #[arg(long, value_name = "SOCKET")]
    xfrm: PathBuf,
    /// The directory with strongswan.conf, and with what swanctl loads: swanctl.conf, certificates and keys.
    #[arg(long, value_name = "DIRECTORY")]
    directory: PathBuf,
    /// The library for the daemon; default: the one next to this program, or below ../lib.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// The daemon's program.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

impl From<&Args> for Start {
    fn from(args: &Args) -> Start {
        let Args { xfrm, directory, library, program } = args.clone();
        Start { xfrm, directory, library, program }
    }
}

/// Runs the command. Returns only if the daemon cannot be started.
pub(crate) fn main(args: &Args) -> u8 {
    match Start::from(args).command() {
        Ok(mut command) => {
            let program = command.get_program().to_owned();
            outcome::fail(format!("{}: {}", program.display(), sync::os::reason(&command.exec())))
        }
        Err(why) => outcome::fail(why),
    }
}
