// SPDX-License-Identifier: MIT OR Apache-2.0
//! The definition of commands, and what help and the book say about them.

use std::collections::BTreeSet;

use testbed::pages;

use super::*;

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

/// Options of a heading that a reader can survey.
const SURVEYED: usize = 16;

fn survey(command: &clap::Command) {
    let mut groups = std::collections::BTreeMap::<&str, usize>::new();
    for option in command.get_opts().filter(|option| !option.is_hide_set()) {
        *groups.entry(option.get_help_heading().unwrap_or_default()).or_default() += 1;
    }
    assert!(groups.values().all(|size| *size <= SURVEYED), "{}: {groups:?}", command.get_name());
    command.get_subcommands().for_each(survey);
}

#[test]
fn options_of_large_commands_have_headings() {
    survey(&Cli::command());
}

/// All examples in the help of a command and of those below it.
fn examples(command: &clap::Command, into: &mut Vec<String>) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
    let ours = lines.map(|line| line.strip_prefix("sudo ").unwrap_or(line));
    into.extend(ours.filter(|line| line.starts_with("junctor ")).map(str::to_owned));
    command.get_subcommands().for_each(|below| examples(below, into));
}

/// The words that a shell makes of a line. What stands behind three spaces explains it; where output goes is the shell's business.
fn words(line: &str) -> Vec<String> {
    let ends = ["   ", " > ", " < ", " | ", " && ", "; "];
    let command = ends.iter().fold(line, |rest, end| rest.split(end).next().unwrap_or(rest));
    let script = format!("printf '%s\\n' {command}");
    let shell = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell");
    assert!(shell.status.success(), "{line}");
    String::from_utf8_lossy(&shell.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn what_help_gives_as_an_example_is_understood() {
    let mut all = Vec::new();
    examples(&Cli::command(), &mut all);
    assert!(all.len() > 80, "{}", all.len());
    for line in all {
        if let Err(why) = check(words(&line).iter().map(String::as_str)) {
            panic!("{line}\n{why}");
        }
    }
}

/// Whole commands of a line of a script: those whose first word, or whose word behind `sudo`, `ip netns exec NAME` or the like, is `junctor`.
fn commands_of(line: &str) -> Vec<&str> {
    let starts = |(at, _): (usize, &str)| {
        let before: Vec<&str> = line[..at].split_whitespace().rev().collect();
        let begins = match &before[..] {
            [] | ["sudo" | "|" | "&&", ..] | [_, "exec", ..] => true,
            [last, ..] => last.ends_with([';', '!']) || last.contains('='),
        };
        (begins && line[..at].chars().next_back().is_none_or(char::is_whitespace)).then(|| &line[at..])
    };
    line.match_indices("junctor ").filter_map(starts).collect()
}

/// Why a command of a page is wrong. One in the text may be a name alone, without the arguments that it needs.
fn mistake(command: &str, is_whole: bool) -> Option<String> {
    use clap::error::ErrorKind;
    let mut substituted = command.replace('\n', " ").replace(" & ", " ; ");
    for (words, value) in
        [(r"\$\([^)]*\)", "1"), (r"\$\w+", "192.0.2.1"), ("\\bPID\\b", "1"), ("\\bSHELL\\b", "bash")]
    {
        let words = regex::Regex::new(words).expect("an expression");
        substituted = words.replace_all(&substituted, value).into_owned();
    }
    let why = check(words(substituted.trim_end_matches([' ', '&'])).iter().map(String::as_str)).err()?;
    let lacks_arguments = [
        ErrorKind::MissingRequiredArgument,
        ErrorKind::MissingSubcommand,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ];
    let lacks =
        lacks_arguments.contains(&why.kind()) || why.to_string().contains("error: a value is required");
    let is_fine = !is_whole && lacks || why.kind() == ErrorKind::DisplayHelp;
    (!is_fine).then(|| format!("{command}\n{why}"))
}

/// All pages for users.
fn guide() -> Vec<(String, String)> {
    let mut all = pages::pages("docs/book/src");
    let readme = std::fs::read_to_string(pages::root().join("README.md")).expect("the README");
    all.push(("README.md".to_owned(), readme));
    all
}

#[test]
fn commands_of_pages_are_understood() {
    let (mut mistakes, mut count) = (Vec::new(), 0);
    for (page, text) in guide() {
        let blocks = pages::blocks(&text);
        let lines = blocks.iter().filter(|block| block.is_script()).flat_map(pages::Block::commands);
        let lines: Vec<String> = lines.map(|shown| shown.command).collect();
        let in_blocks = lines.iter().flat_map(|line| commands_of(line)).map(|command| (command, true));
        let spans = pages::spans(&text).into_iter().flat_map(commands_of).map(|command| (command, false));
        // Where words are left out, or several are given to choose from, it is no command.
        let is_pattern = |command: &str| command.contains(['[', '|', '<']) || command.contains("...");
        for (command, is_whole) in in_blocks.chain(spans.filter(|(command, _)| !is_pattern(command))) {
            count += 1;
            mistakes.extend(mistake(command, is_whole).map(|why| format!("{page}: {why}")));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(count > 300, "{count}");
}

#[test]
fn the_readme_names_every_command() {
    let readme = std::fs::read_to_string(pages::root().join("README.md")).expect("the README");
    let rows = readme.lines().filter(|line| line.starts_with("| `"));
    let named: Vec<Vec<String>> = rows
        .filter_map(|row| row.split(" | ").next())
        .flat_map(pages::spans)
        .map(|span| span.replace("\\|", " ").split(' ').map(str::to_owned).collect())
        .collect();
    let is_named = |words: &[&str]| {
        named
            .iter()
            .any(|row| row[0] == words[0] && words[1..].iter().all(|word| row.iter().any(|w| w == word)))
    };
    let mut missing = Vec::new();
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        missing.extend((!is_named(&[name])).then(|| name.to_owned()));
        if ["bench", "init", "lab", "profile", "test"].contains(&name) {
            let below = command.get_subcommands().filter(|below| !below.is_hide_set());
            let below = below.map(clap::Command::get_name).filter(|below| *below != "help");
            missing.extend(
                below.filter(|below| !is_named(&[name, below])).map(|below| format!("{name} {below}")),
            );
        }
    }
    assert!(missing.is_empty(), "the README's table lacks {missing:?}");
}

/// Options of other programs that pages name.
const FOREIGN: &[&str] = &[
    "path",
    "network",
    "workspace",
    "list-sas",
    "load-all",
    "terminate",
    "uri",
    "now",
    "rekey",
    "dhcp-relay",
    "no-capture",
    "offline",
];

fn options(command: &clap::Command, into: &mut BTreeSet<String>) {
    into.extend(command.get_arguments().filter_map(|option| option.get_long()).map(str::to_owned));
    into.extend(
        command.get_arguments().flat_map(|o| o.get_all_aliases().unwrap_or_default()).map(str::to_owned),
    );
    command.get_subcommands().for_each(|below| options(below, into));
}

#[test]
fn options_that_pages_name_exist() {
    let mut ours: BTreeSet<String> = FOREIGN.iter().map(|name| (*name).to_owned()).collect();
    let mut root = Cli::command();
    root.build();
    options(&root, &mut ours);
    let pages = guide();
    let spans =
        pages.iter().flat_map(|(page, text)| pages::spans(text).into_iter().map(move |span| (page, span)));
    let words = spans.flat_map(|(page, span)| span.split_whitespace().map(move |word| (page, word)));
    let named = words.filter_map(|(page, word)| {
        let name = word.strip_prefix("--")?.split(['=', ']', '|', ',']).next()?;
        (!name.is_empty()).then_some((page, name))
    });
    let unknown: BTreeSet<_> = named.filter(|(_, name)| !ours.contains(*name)).collect();
    assert!(unknown.is_empty(), "no command has these options: {unknown:?}");
}

#[test]
fn commands_are_found_in_lines() {
    let found = |line: &'static str| commands_of(line);
    assert_eq!(found("sudo junctor top"), ["junctor top"]);
    assert_eq!(found("A=b ip netns exec x junctor top"), ["junctor top"]);
    assert_eq!(found("nft list | junctor nat show"), ["junctor nat show"]);
    assert_eq!(found("useradd junctor -m; cat /run/junctor x"), [""; 0]);
    assert!(mistake("junctor top --nowhere", false).is_some());
    assert_eq!(mistake("junctor check", false), None);
    assert!(mistake("junctor nat check", true).is_some());
}
