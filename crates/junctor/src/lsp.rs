// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor lsp`: a language server for editors.

use std::path::PathBuf;

use crate::{exit, outcome};

/// Serve an editor on standard input and output: the Language Server Protocol for configurations and rule files.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "It checks what is edited as 'junctor check' does, completes names and arguments, shows manuals,
finds and renames names, and formats. It opens no device, and no file that a configuration names
except libraries in the folders that the editor has open.

Examples:
  junctor lsp"
)]
pub(crate) struct Args {
    /// Directories to search for required libraries, separated by colons.
    #[arg(short = 'C', long = "clickpath", value_name = "PATH", env = "CLICKPATH")]
    clickpath: Option<String>,
    /// Does nothing: editors give it.
    #[arg(long, hide = true)]
    stdio: bool,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let path = args.clickpath.iter().flat_map(|path| path.split(':')).filter(|path| !path.is_empty());
    let settings = ::lsp::Settings { search_path: path.map(PathBuf::from).collect() };
    let (connection, threads) = ::lsp::Connection::stdio();
    let served = ::lsp::serve(&connection, &settings);
    // The thread that writes ends when nobody can send any more.
    drop(connection);
    match served {
        Ok(()) => match threads.join() {
            Ok(()) => exit::SUCCESS,
            Err(why) => outcome::fail(why),
        },
        Err(why) => outcome::fail(why),
    }
}
