// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor combine`: the options of [`conf::combined`], which makes one configuration of several.

use conf::Source;
use conf::combined::{self, Router};

use crate::{exit, outcome};

/// Combine configurations into one, to check or draw a network as a whole.
///
/// Each router's elements are named ROUTER/ELEMENT. A link A.eth0=B.eth1 puts a RouterLink in the place of router A's
/// ToDevice(eth0) and router B's FromDevice(eth1). --extract takes one router out again.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor combine a=a.click b=b.click a.eth0=b.eth0 b.eth0=a.eth0 -o both.click
  junctor combine --extract a both.click")]
pub(crate) struct Args {
    /// Configurations as NAME=FILE or FILE (named 1, 2 ... then), and links as NAME.DEVICE=NAME.DEVICE.
    #[arg(value_name = "NAME=FILE|LINK", required = true)]
    words: Vec<String>,
    /// A link, as among the words.
    #[arg(short, long, value_name = "LINK")]
    link: Vec<String>,
    /// Take this router out of a combined configuration, with its devices.
    #[arg(long, value_name = "NAME", conflicts_with = "link")]
    extract: Option<String>,
    /// Write to this file (`-`: standard output).
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: String,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let made = match (&args.extract, &args.words[..]) {
        (Some(name), [file]) => {
            combined::load(&Source::file(file)).and_then(|graph| combined::extract(&graph, name))
        }
        (Some(_), _) => return outcome::usage("--extract expects one configuration"),
        (None, words) => {
            let (mut routers, mut links) = (Vec::new(), args.link.clone());
            words.iter().for_each(|word| sort(word, &mut routers, &mut links));
            combined::combine(&routers, &links)
        }
    };
    let written =
        made.map_err(|why| why.to_string()).and_then(|graph| write(&args.output, &graph.to_click()));
    written.map_or_else(outcome::usage, |()| exit::SUCCESS)
}

/// Distinguishes a configuration from a link: `a=file`, `file`, `a.eth0=b.eth0`.
pub(crate) fn sort(word: &str, routers: &mut Vec<Router>, links: &mut Vec<String>) {
    let number = (routers.len() + 1).to_string();
    match word.split_once('=') {
        Some((name, _)) if name.contains('.') => links.push(word.to_owned()),
        Some((name, file)) => routers.push((name.to_owned(), Source::file(file))),
        None => routers.push((number, Source::file(word))),
    }
}

/// Writes text to a file, or to standard output.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(file: &str, text: &str) -> Result<(), String> {
    if file == "-" {
        out!("{text}");
        return Ok(());
    }
    std::fs::write(file, text).map_err(|e| format!("{file}: {e}"))
}
