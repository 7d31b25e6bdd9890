// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor elements`: the element manual; and the report of a run.

use std::fmt::Write as _;

use engine::Router;

use crate::{cli, exit};

/// Print the manual of an element class, or list all classes.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor elements
  junctor elements Queue")]
pub(crate) struct Args {
    /// The class.
    name: Option<String>,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let registry = elements::registry();
    let Some(name) = &args.name else {
        let width = registry.iter().map(|c| c.name.len()).max().unwrap_or(0);
        let lines: String = registry.iter().map(|c| format!("{:width$}  {}\n", c.name, purpose(c))).collect();
        return cli::print_or_fail(lines.as_bytes());
    };
    let folded = || registry.iter().find(|c| c.name.eq_ignore_ascii_case(name));
    match registry.get(name).or_else(folded).and_then(elements::manual) {
        Some(manual) => cli::print_or_fail(format!("{manual}\n").as_bytes()),
        None => {
            let near = lang::suggest(name, registry.iter().map(|c| c.name));
            let help = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
            eprintln!("junctor: unknown element class '{name}'{help}");
            exit::FAILURE
        }
    }
}

/// The first sentence of a manual's text: the paragraph after the synopsis.
fn purpose(class: &engine::Class) -> String {
    let manual = elements::manual(class).unwrap_or_default();
    let paragraph = manual.split("\n\n").find(|p| !p.starts_with(['#', '`']));
    let text = paragraph.unwrap_or_default().replace('\n', " ");
    text.split_inclusive(". ").next().unwrap_or_default().trim().to_owned()
}

/// What each element sent and dropped in a run.
pub(crate) fn report(router: &Router) -> String {
    let mut text = String::new();
    let width = router.shared().elements.iter().map(|e| e.name.len()).max().unwrap_or(0);
    for (info, stats) in router.shared().elements.iter().zip(router.report().elements) {
        let sent: Vec<String> = stats.outputs.iter().map(|o| o.packets.to_string()).collect();
        let _ = write!(
            text,
            "{:width$}  sent {}",
            info.name,
            if sent.is_empty() { "-".into() } else { sent.join(" ") }
        );
        for (reason, n) in &stats.drops {
            let _ = write!(text, "  {reason} {n}");
        }
        if stats.held > 0 {
            let _ = write!(text, "  held {}", stats.held);
        }
        text.push('\n');
    }
    text
}
