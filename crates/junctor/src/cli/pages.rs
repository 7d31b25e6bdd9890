// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference as Markdown, for the book: commands, element classes by kind, drop reasons. All of it comes from the
//! definitions that the program itself uses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use engine::Reason;

use super::{Cli, help};

/// Columns of a command's help in the book.
const WIDTH: usize = 92;

/// Writes `commands.md`, `drops.md`, `elements.md` and a page `elements/KIND.md` for each kind of element.
///
/// # Errors
/// The directory or a file in it cannot be written.
pub(super) fn write(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory.join("elements"))?;
    std::fs::write(directory.join("commands.md"), commands())?;
    std::fs::write(directory.join("drops.md"), drops())?;
    std::fs::write(directory.join("elements.md"), index())?;
    for (kind, manuals) in by_kind() {
        std::fs::write(directory.join(format!("elements/{kind}.md")), kind_page(kind, &manuals))?;
    }
    Ok(())
}

fn commands() -> String {
    let mut text =
        String::from("# Commands\n\nThe help of every command, as `junctor COMMAND --help` prints it.\n");
    let mut root = help::fitted_to(Cli::command(), WIDTH);
    root.build();
    for command in root.get_subcommands_mut() {
        command_section(command, "junctor", 2, &mut text);
    }
    text
}

fn command_section(command: &mut Command, above: &str, level: usize, text: &mut String) {
    let name = format!("{above} {}", command.get_name());
    if command.get_name() == "help" {
        return;
    }
    let help = command.render_long_help().to_string();
    let _ = write!(text, "\n{} {name}\n\n```text\n{}\n```\n", "#".repeat(level), help.trim_end());
    for below in command.get_subcommands_mut() {
        command_section(below, &name, (level + 1).min(4), text);
    }
}

fn drops() -> String {
    let mut text = String::from(
        "# Drop reasons\n\nEvery dropped packet is counted, at the element that dropped it, under one of these reasons. \
         `junctor drops` shows the counts of a running router.\n\n| reason | meaning |\n|---|---|\n",
    );
    for reason in Reason::ALL {
        let _ = writeln!(text, "| `{}` | {} |", reason.name(), reason.text());
    }
    text
}

/// Name and manual of each class, by the directory of its source file.
fn by_kind() -> BTreeMap<&'static str, Vec<(&'static str, &'static str)>> {
    let mut kinds: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for class in elements::registry().iter() {
        let below = class.file.rsplit_once("/src/").map_or(class.file, |(_, below)| below);
        let kind = below.split('/').next().unwrap_or("other");
        kinds.entry(kind).or_default().push((class.name, elements::manual(class).unwrap_or_default()));
    }
    let compounds = elements::compound::COMPOUNDS.iter().map(|c| (c.name(), c.manual().unwrap_or_default()));
    kinds.entry("compound").or_default().extend(compounds);
    kinds.values_mut().for_each(|manuals| manuals.sort_unstable());
    kinds
}

fn index() -> String {
    let mut text = String::from(
        "# Elements\n\nOne line for each element class; the links lead to their manuals. `junctor elements NAME` prints the same \
         manual in a terminal.\n",
    );
    for (kind, manuals) in by_kind() {
        let _ = write!(text, "\n## [{kind}](elements/{kind}.md)\n\n| class | purpose |\n|---|---|\n");
        for (name, manual) in manuals {
            let purpose = elements::purpose(manual).replace('|', "\\|");
            let _ = writeln!(text, "| [{name}](elements/{kind}.md#{}) | {purpose} |", name.to_lowercase());
        }
    }
    text
}

/// The manuals of one kind. Classes that share a file share its manual: the page has it once, with a heading for each of them.
fn kind_page(kind: &str, manuals: &[(&str, &str)]) -> String {
    let mut text = format!("# Elements: {kind}\n");
    let mut written: Vec<&str> = Vec::new();
    for (name, manual) in manuals {
        let _ = write!(text, "\n## {name}\n\n");
        if written.contains(manual) {
            let first = manuals.iter().find(|(_, same)| same == manual).map_or(*name, |(first, _)| first);
            let _ = writeln!(text, "See [{first}](#{}).", first.to_lowercase());
            continue;
        }
        written.push(manual);
        let body = manual
            .split_once('\n')
            .map_or(*manual, |(heading, body)| if heading.starts_with("# ") { body } else { manual });
        let _ = writeln!(text, "{}", body.trim());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_class_and_reason_has_its_place() {
        let commands = commands();
        for name in ["## junctor run\n", "### junctor bench engine\n", "### junctor test rfc2544\n"] {
            assert!(commands.contains(name), "{name}");
        }
        let index = index();
        for class in elements::registry().iter() {
            assert!(index.contains(&format!("[{}](", class.name)), "{}", class.name);
        }
        assert!(index.contains("[IPRouter](elements/compound.md#iprouter)"));
        let kinds = by_kind();
        assert!(kind_page("ip", &kinds["ip"]).contains("\n## DecIPTTL\n"));
        assert!(drops().contains("| `bad-checksum` |"));
    }
}
