// SPDX-License-Identifier: MIT OR Apache-2.0
//! The behaviour of user-level Click, for scripts that call `click`: its options alone, one thread unless told
//! otherwise, errors as `FILE:LINE: message`, exit status 1 for whatever is wrong.

use std::ffi::OsString;

use clap::Parser;

use crate::config::Form;
use crate::run;

/// Run a Click router configuration.
#[derive(Parser, Debug)]
#[command(name = "click", disable_version_flag = true, disable_help_flag = true)]
struct Click {
    #[command(flatten)]
    run: run::Args,
    /// Print version number and exit.
    #[arg(short = 'v', long)]
    version: bool,
}

/// Runs as `click`.
pub(crate) fn main(args: impl Iterator<Item = OsString>) -> u8 {
    let mut click = match Click::try_parse_from(std::iter::once("click".into()).chain(args)) {
        Ok(click) => click,
        Err(e) => {
            let _ = e.print();
            return u8::from(e.use_stderr());
        }
    };
    if click.version {
        outln!("click (Junctor) {}", env!("CARGO_PKG_VERSION"));
        return 0;
    }
    if click.run.threads.is_none() {
        click.run.threads = Some("1".into());
    }
    // Scripts see each packet's effects before the next packet, as they do in Click.
    click.run.burst.get_or_insert(1);
    run::execute(&click.run, Form::Click)
}
