// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `junctor`; help, completions and man pages all come from here.

mod help;
mod pages;

use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};

use crate::{
    affinity, apply, balance, bench, capture, check, combine, ctl, demo, describe, doctor, drops, exit, fib,
    firewall, fmt, init, ipsec, lab, lsp, manage, nat, opener, outcome, parallelize, plan, profile, routing,
    run, saved, service, sessions, top, trace, trial, trials, up,
};

/// A multicore software router that runs Click-language configurations.
#[derive(Parser, Debug)]
#[command(name = "junctor", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit status: 0 success, 1 the thing asked about failed, 2 usage or configuration error."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Run(Box<run::Args>),
    Check(check::Args),
    Bfd(routing::bfd::Args),
    Control(routing::plane::Args),
    Affinity(affinity::Args),
    Apply(apply::Args),
    Ctl(ctl::Args),
    Balance(balance::Args),
    Bench(bench::Args),
    Capture(capture::Args),
    Charon(routing::charon::Args),
    Combine(combine::Args),
    Config(saved::Args),
    Demo(demo::Args),
    Doctor(doctor::Args),
    Down(up::commands::DownArgs),
    Drops(drops::Args),
    Elements(describe::Args),
    Fib(Box<fib::Args>),
    Firewall(firewall::Args),
    Fmt(fmt::Args),
    #[command(hide = true)]
    Guest(up::GuestArgs),
    Init(init::Args),
    Ipsec(ipsec::Args),
    Lab(lab::Args),
    Logs(up::commands::LogsArgs),
    Manage(Box<manage::Args>),
    Lsp(lsp::Args),
    Nat(nat::Args),
    Neighbours(routing::neighbours::Args),
    Parallelize(parallelize::Args),
    Plan(plan::Args),
    #[command(hide = true)]
    Plane(up::PlaneArgs),
    Profile(Box<profile::Args>),
    Ps(up::commands::PsArgs),
    Restart(up::commands::RestartArgs),
    Router(routing::router::Args),
    Routes(routing::routes::Args),
    Service(service::Args),
    Sessions(sessions::Args),
    Test(Box<trials::Args>),
    Top(top::Args),
    Trace(trace::Args),
    #[command(hide = true)]
    Trial(trial::Args),
    #[command(hide = true)]
    Opener(opener::Args),
    Up(up::Args),
    /// Print a shell completion script.
    #[command(after_help = "Example:\n  junctor completions bash > /etc/bash_completion.d/junctor")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the man pages of all commands into a directory.
    #[command(
        after_help = "Examples:\n  junctor man /usr/local/share/man/man1\n  junctor man --markdown reference"
    )]
    Man {
        /// Where to write them.
        directory: PathBuf,
        /// Write the reference as Markdown instead: commands, elements, drop reasons.
        #[arg(long)]
        markdown: bool,
    },
}

impl Command {
    /// What it does, if it may take seconds before it prints anything.
    fn silent(&self) -> Option<&'static str> {
        match self {
            Command::Apply(_) => Some("apply"),
            Command::Check(_) => Some("check"),
            Command::Combine(_) => Some("combine"),
            Command::Doctor(_) => Some("doctor"),
            Command::Down(_) => Some("down"),
            Command::Fib(_) => Some("fib"),
            // A log is printed as it is written.
            Command::Firewall(firewall::Args { what: firewall::What::Log { .. } })
            | Command::Nat(nat::Args { what: nat::What::Log { .. } }) => None,
            Command::Firewall(_) => Some("firewall"),
            Command::Nat(_) => Some("nat"),
            Command::Parallelize(_) => Some("parallelize"),
            Command::Plan(_) => Some("plan"),
            // A recording shows how far it has come.
            Command::Profile(args) => {
                (!matches!(args.command, profile::Command::Record(_))).then_some("profile")
            }
            Command::Restart(_) => Some("restart"),
            Command::Routes(_) => Some("routes"),
            Command::Sessions(_) => Some("sessions"),
            _ => None,
        }
    }
}

/// Runs the command; returns the exit status.
pub(crate) fn main() -> u8 {
    let command = parsed().command;
    let _busy = command.silent().map(report::busy::Busy::new);
    match command {
        Command::Run(args) => run::main(*args),
        Command::Check(args) => check::main(&args),
        Command::Control(args) => routing::plane::main(&args),
        Command::Affinity(args) => affinity::main(&args),
        Command::Bfd(args) => routing::bfd::main(&args),
        Command::Apply(args) => apply::main(&args),
        Command::Ctl(args) => ctl::main(&args),
        Command::Balance(args) => balance::main(&args),
        Command::Bench(args) => bench::main(args),
        Command::Capture(args) => capture::main(&args),
        Command::Charon(args) => routing::charon::main(&args),
        Command::Combine(args) => combine::main(&args),
        Command::Config(args) => saved::main(&args),
        Command::Demo(args) => demo::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Down(args) => up::commands::down(&args),
        Command::Drops(args) => drops::main(&args),
        Command::Elements(args) => describe::main(&args),
        Command::Fib(args) => fib::main(&args),
        Command::Firewall(args) => firewall::main(&args),
        Command::Fmt(args) => fmt::main(&args),
        Command::Nat(args) => nat::main(&args),
        Command::Guest(args) => up::guest(&args),
        Command::Init(args) => init::main(&args),
        Command::Ipsec(args) => ipsec::main(&args),
        Command::Lab(args) => lab::main(args),
        Command::Logs(args) => up::commands::logs(&args),
        Command::Manage(args) => manage::main(&args),
        Command::Lsp(args) => lsp::main(&args),
        Command::Neighbours(args) => routing::neighbours::main(&args),
        Command::Parallelize(args) => parallelize::main(&args),
        Command::Plan(args) => plan::main(&args),
        Command::Plane(args) => up::become_plane(&args),
        Command::Profile(args) => profile::main(*args),
        Command::Ps(args) => up::commands::ps(&args),
        Command::Restart(args) => up::commands::restart(&args),
        Command::Router(args) => routing::router::main(&args),
        Command::Routes(args) => routing::routes::main(&args),
        Command::Service(args) => service::main(&args),
        Command::Sessions(args) => sessions::main(&args),
        Command::Test(args) => trials::main(*args),
        Command::Top(args) => top::main(&args),
        Command::Trace(args) => trace::main(&args),
        Command::Trial(args) => trial::main(&args),
        Command::Opener(args) => opener::main(&args),
        Command::Up(args) => up::main(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "junctor", &mut script);
            outcome::print_or_fail(&script)
        }
        Command::Man { directory, markdown } => {
            let written = if markdown { pages::write(&directory) } else { write_man_pages(&directory) };
            match written {
                Ok(()) => exit::SUCCESS,
                Err(why) => outcome::fail(format!("cannot write pages to {}: {why}", directory.display())),
            }
        }
    }
}

/// The command line; ends with help, or with what is wrong.
fn parsed() -> Cli {
    let mut command = Cli::command();
    if std::env::args().any(|word| matches!(&*word, "-h" | "--help" | "help")) {
        command = help::fitted(command);
    }
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.unwrap_or_else(|why| why.format(&mut command).exit())
}

/// What is wrong with a command line, without running it.
pub(crate) fn check<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<(), clap::Error> {
    Cli::try_parse_from(arguments).map(drop)
}

/// Whether a command, such as `["test", "trial"]`, has an argument of this name; nothing if there is no such command.
pub(crate) fn has_argument(command: &[&str], id: &str) -> Option<bool> {
    let mut root = Cli::command();
    root.build();
    let found = command.iter().try_fold(&root, |above, name| above.find_subcommand(name))?;
    Some(found.get_arguments().any(|argument| argument.get_id() == id))
}

fn write_man_pages(directory: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)
}

#[cfg(test)]
mod tests;
