// SPDX-License-Identifier: MIT OR Apache-2.0
//! Click's tools, for scripts that call them by their names: `click-flatten`, `click-align`, `click-pretty`, `click-combine` and `click-uncombine`.
//! Each reads configurations and writes one; the status is 1 for any error.

use std::ffi::OsString;

use clap::Parser;

use crate::combine;
use crate::config::Source;
use conf::{Form, combined};

/// Reads a configuration and writes it in another form.
#[derive(Parser, Debug)]
#[command(disable_version_flag = true, args_override_self = true)]
struct Tool {
    #[command(flatten)]
    source: Source,
    /// Write to this file (`-`: standard output).
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: String,
    /// Print version number and exit.
    #[arg(short = 'v', long)]
    version: bool,
}

/// Combines configurations, or takes one out of a combination.
#[derive(Parser, Debug)]
#[command(disable_version_flag = true, args_override_self = true)]
struct Combining {
    /// Configurations as NAME=FILE, NAME:FILE or FILE, and links as NAME.DEVICE=NAME.DEVICE; of click-uncombine the
    /// configuration and the name of a router.
    words: Vec<String>,
    /// A configuration.
    #[arg(short, long, value_name = "FILE")]
    file: Vec<String>,
    /// A configuration's text.
    #[arg(short, long, value_name = "TEXT")]
    expression: Vec<String>,
    /// A link.
    #[arg(short, long, value_name = "LINK")]
    link: Vec<String>,
    /// The names of the routers of --file and --expression, in this order; of click-uncombine the router to take out.
    #[arg(short, long, value_name = "NAME")]
    name: Vec<String>,
    /// Write no archive, which is never done.
    #[arg(short, long)]
    config: bool,
    /// Write to this file (`-`: standard output).
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: String,
    /// Print version number and exit.
    #[arg(short = 'v', long)]
    version: bool,
}

/// Runs as the tool of this name, if there is one.
pub(crate) fn main(name: &str, args: impl Iterator<Item = OsString>) -> Option<u8> {
    let args = std::iter::once(OsString::from(name)).chain(args);
    let made = match name {
        "click-flatten" | "click-align" | "click-pretty" => {
            Tool::try_parse_from(args).map(|tool| one(name, &tool))
        }
        "click-combine" | "click-uncombine" => {
            Combining::try_parse_from(args).map(|tool| several(name, &tool))
        }
        _ => return None,
    };
    Some(match made {
        Ok(Ok(())) => 0,
        Ok(Err(why)) => {
            if !why.is_empty() {
                errln!("{name}: {why}");
            }
            1
        }
        Err(e) => {
            let _ = e.print();
            u8::from(e.use_stderr())
        }
    })
}

fn version(name: &str) {
    outln!("{name} (Junctor) {}", env!("CARGO_PKG_VERSION"));
}

/// No element of ours asks for aligned packets, so to align a configuration is to write it flat.
fn one(name: &str, tool: &Tool) -> Result<(), String> {
    if tool.version {
        version(name);
        return Ok(());
    }
    let loaded = tool.source.load()?;
    loaded.report(&loaded.diagnostics, Form::Click, true);
    let Some(graph) = &loaded.graph else { return Err(String::new()) };
    let text = match name {
        "click-pretty" => page(&loaded.text(), &graph.to_click()),
        _ => graph.to_click(),
    };
    combine::write(&tool.output, &text)
}

/// A page with the configuration as written and as it is flat.
fn page(written: &str, flat: &str) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Configuration</title></head>\n<body>\n\
         <h1>Configuration</h1>\n<pre>{}</pre>\n<h2>Flat</h2>\n<pre>{}</pre>\n</body></html>\n",
        escaped(written),
        escaped(flat)
    )
}

fn several(name: &str, tool: &Combining) -> Result<(), String> {
    if tool.version {
        version(name);
        return Ok(());
    }
    let files = tool.file.iter().map(|file| conf::Source::file(file));
    let texts = tool.expression.iter().map(|text| conf::Source::text(text));
    let inputs: Vec<conf::Source> = files.chain(texts).collect();
    let graph = if name == "click-combine" {
        let mut routers = Vec::new();
        let mut names = tool.name.iter();
        for input in inputs {
            let number = (routers.len() + 1).to_string();
            routers.push((names.next().cloned().unwrap_or(number), input));
        }
        let mut links = tool.link.clone();
        for word in &tool.words {
            match word.split_once(':') {
                Some((name, file)) => routers.push((name.to_owned(), conf::Source::file(file))),
                None => combine::sort(word, &mut routers, &mut links),
            }
        }
        if links.is_empty() {
            errln!("warning: no links between routers");
        }
        combined::combine(&routers, &links)
    } else {
        let mut words = tool.words.iter();
        let given = inputs.first().cloned();
        let input = given.or_else(|| words.next().map(|file| conf::Source::file(file)));
        let router = tool.name.first().or_else(|| words.next()).ok_or("no component specified")?;
        let input = input.unwrap_or_else(|| conf::Source::file("-"));
        combined::load(&input).and_then(|graph| combined::extract(&graph, router))
    };
    let graph = graph.map_err(|why| why.to_string())?;
    combine::write(&tool.output, &graph.to_click())
}
