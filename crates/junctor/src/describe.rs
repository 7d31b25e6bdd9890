// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor elements`: the element manual.

use crate::{exit, outcome};

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
    let classes = registry.iter().map(|c| (c.name, elements::manual(c)));
    let compounds = elements::compound::COMPOUNDS.iter().map(|c| (c.name(), c.manual()));
    let mut all: Vec<(&str, Option<&str>)> = classes.chain(compounds).collect();
    all.sort();
    let Some(name) = &args.name else {
        let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let lines: String = all
            .iter()
            .map(|(name, manual)| {
                format!("{name:width$}  {}\n", elements::purpose(manual.unwrap_or_default()))
            })
            .collect();
        return outcome::print_or_fail(lines.as_bytes());
    };
    let exact = all.iter().find(|(known, _)| known == name);
    let found = exact.or_else(|| all.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)));
    match found.and_then(|(_, manual)| *manual) {
        Some(manual) => outcome::print_or_fail(format!("{manual}\n").as_bytes()),
        None => {
            let near = lang::suggest(name, all.iter().map(|(name, _)| *name));
            let help = match (registry.foreign(name), near) {
                (Some(foreign), _) => format!(": it is of Click's kernel module only; {}", foreign.instead),
                (None, Some(near)) => format!("; did you mean '{near}'?"),
                (None, None) => String::new(),
            };
            errln!("junctor: unknown element class '{name}'{help}");
            exit::FAILURE
        }
    }
}
