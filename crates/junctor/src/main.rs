// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `junctor` program: one file per subcommand. Called by the name `click` it behaves as user-level Click does.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

#[macro_use]
extern crate report;

mod affinity;
mod apply;
mod balance;
mod bench;
mod capture;
mod check;
mod cli;
mod click;
mod click_tools;
mod combine;
mod config;
mod confinement;
mod ctl;
mod demo;
mod describe;
mod doctor;
mod drops;
mod fib;
mod findings;
mod firewall;
mod fmt;
mod init;
mod ipsec;
mod keeper;
mod lab;
mod lsp;
mod manage;
mod nat;
mod opener;
mod outcome;
mod parallelize;
mod plan;
mod profile;
mod remote;
mod routing;
mod run;
mod saved;
mod service;
mod sessions;
mod stands_for;
mod top;
mod trace;
mod trial;
mod trials;
mod up;

use services::state;

#[global_allocator]
static HEAP: sync::heap::LineHeap = sync::heap::LineHeap;

/// Exit statuses: success, the thing asked about failed, usage or configuration error.
pub(crate) mod exit {
    pub(crate) const SUCCESS: u8 = 0;
    pub(crate) const FAILURE: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
}

fn main() -> ExitCode {
    // Before there are threads, which would make it take long.
    sync::barrier::register();
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    let name = std::path::Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let status = match name.as_str() {
        "click" => click::main(args),
        name if name.starts_with("click-") => click_tools::main(name, args).unwrap_or_else(cli::main),
        _ => cli::main(),
    };
    ExitCode::from(status)
}
