// SPDX-License-Identifier: MIT OR Apache-2.0
//! The behaviour of user-level Click, for scripts that call `click`: its options, one thread unless set otherwise, errors as `FILE:LINE: message`,
//! exit status 1 for any error.

use std::ffi::OsString;

use clap::Parser;

use crate::run;
use conf::Form;

/// Run a Click router configuration.
#[derive(Parser, Debug)]
#[command(
    name = "click",
    disable_version_flag = true,
    disable_help_flag = true,
    args_override_self = true,
    infer_long_args = true
)]
struct Click {
    #[command(flatten)]
    run: run::Args,
    /// Print version number and exit.
    #[arg(short = 'v', long)]
    version: bool,
}

/// Options of Click's that take a value in the next word.
const WITH_VALUE: [&str; 22] = [
    "-C",
    "-e",
    "-f",
    "-h",
    "-o",
    "-p",
    "-j",
    "-u",
    "-x",
    "--clickpath",
    "--expression",
    "--file",
    "--handler",
    "--output",
    "--port",
    "--socket",
    "--threads",
    "--unix-socket",
    "--exit-handler",
    "--set",
    "--control-token",
    "--control-group",
];

/// Click's options where ours are others of the same name, or none.
fn translate(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut translated = vec!["click".into()];
    let mut quiet = None;
    let mut reconfigure = None;
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let Some(word) = arg.to_str() else {
            translated.push(arg);
            continue;
        };
        match word {
            "--" => {
                translated.push(arg);
                translated.extend(args.by_ref());
            }
            // Several workers have a core each anyway, and a single one runs where the kernel likes best.
            "-a" | "--affinity" | "--no-affinity" => {}
            "--warnings" => quiet = Some(false),
            "-w" | "--no-warnings" => quiet = Some(true),
            "-R" | "--allow-reconfigure" => reconfigure = Some(true),
            "--no-allow-reconfigure" => reconfigure = Some(false),
            "-t" | "--time" => translated.push("--print-time".into()),
            _ if word == "--simulation-time" || word.starts_with("--simulation-time=") => {
                translated.push(word.replacen("--simulation-time", "--simtime", 1).into());
            }
            _ => {
                let takes_value = WITH_VALUE.contains(&word);
                translated.push(arg);
                translated.extend(takes_value.then(|| args.next()).flatten());
            }
        }
    }
    // Before what may follow `--`.
    let options = [(quiet, "-w"), (reconfigure, "-R")];
    for (_, option) in options.into_iter().filter(|(set, _)| *set == Some(true)) {
        translated.insert(1, option.into());
    }
    translated
}

/// Runs as `click`.
pub(crate) fn main(args: impl Iterator<Item = OsString>) -> u8 {
    let mut click = match Click::try_parse_from(translate(args)) {
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
    if click.run.workers.threads.is_none() {
        click.run.workers.threads = Some("1".into());
    }
    // Scripts see each packet's effects before the next packet, as they do in Click.
    click.run.workers.burst.get_or_insert(1);
    run::execute(&click.run, Form::Click)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_clicks() {
        for (given, want) in [
            ("-a --no-affinity -q -q c", "-q -q c"),
            ("-w --warnings c", "c"),
            ("--warnings -w c", "-w c"),
            ("--time c -t", "--print-time c --print-time"),
            ("-h --time c", "-h --time c"),
            ("--simulation-time=5 --simulation-time c", "--simtime=5 --simtime c"),
            ("-R --no-allow-reconfigure c", "c"),
            ("-R -- -w", "-R -- -w"),
        ] {
            let words = translate(given.split(' ').map(OsString::from));
            let words: Vec<&str> = words[1..].iter().filter_map(|w| w.to_str()).collect();
            assert_eq!(words.join(" "), want, "{given}");
        }
        let parsed = Click::try_parse_from(translate(
            ["-q", "-q", "-p", "41900+", "--expr", "Idle"].map(OsString::from).into_iter(),
        ));
        let click = parsed.unwrap();
        assert!(
            click.run.answers.quit
                && click.run.control.port == ["41900+"]
                && click.run.source.expression.as_deref() == Some("Idle")
        );
    }
}
