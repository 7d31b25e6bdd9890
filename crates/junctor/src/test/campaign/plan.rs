// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a campaign, and the runs that it asks for.

use std::ops::Range;
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use super::super::device::Name;
use super::super::record::Failed;
use crate::cli;

/// What a file asks for.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) title: String,
    /// Each combination of the file's lists, procedures last.
    pub(super) runs: Vec<Run>,
}

/// One run.
#[derive(Debug)]
pub(super) struct Run {
    /// For people.
    pub(super) name: String,
    /// Names the file of its result; other arguments have another key.
    pub(super) key: String,
    /// The procedure's own options, where the file has the same one with others.
    pub(super) options: String,
    /// What follows the program's name.
    pub(super) arguments: Vec<String>,
    test: String,
    device: String,
    cores: usize,
    size: usize,
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: Option<String>,
    devices: Spanned<Vec<Spanned<String>>>,
    sizes: Spanned<Vec<Spanned<usize>>>,
    cores: Option<Spanned<Vec<Spanned<usize>>>>,
    #[serde(default)]
    options: Vec<String>,
    #[serde(rename = "procedure")]
    procedures: Spanned<Vec<Procedure>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Procedure {
    test: Spanned<String>,
    #[serde(default)]
    options: Vec<String>,
}

impl Plan {
    /// Reads a file. What is wrong with it is said with its place and what to do about it.
    pub(super) fn read(path: &Path) -> Result<Plan, String> {
        let text = std::fs::read_to_string(path).map_err(|why| {
            format!(
                "{}: {why}; name a campaign's file ('junctor test campaign --help' shows one)",
                path.display()
            )
        })?;
        let title = path.file_stem().unwrap_or_default().to_string_lossy();
        parse(&title, &text).map_err(|(place, why)| {
            let line = text[..place.start.min(text.len())].matches('\n').count() + 1;
            let source = text.lines().nth(line - 1).unwrap_or_default().trim();
            format!("{}, line {line}: {why}\n    {source}", path.display())
        })
    }
}

type Wrong = (Range<usize>, String);

fn parse(title: &str, text: &str) -> Result<Plan, Wrong> {
    let file: File =
        toml::from_str(text).map_err(|why| (why.span().unwrap_or_default(), mended(why.message())))?;
    let empty = |span: Range<usize>, what: &str, such: &str| {
        Err((span, format!("no {what}; name one, such as {such}")))
    };
    if file.devices.get_ref().is_empty() {
        return empty(file.devices.span(), "device", "\"cable\"");
    }
    if file.sizes.get_ref().is_empty() {
        return empty(file.sizes.span(), "frame size", "64");
    }
    if file.procedures.get_ref().is_empty() {
        return empty(file.procedures.span(), "procedure", "[[procedure]] with test = \"rfc2544\"");
    }
    let one = vec![Spanned::new(0..0, 1)];
    let cores = file.cores.as_ref().map_or(&one, Spanned::get_ref);
    if cores.is_empty() {
        return empty(file.cores.as_ref().map_or(0..0, Spanned::span), "number of cores", "1");
    }
    let procedures = file.procedures.get_ref();
    let several = |test: &str| procedures.iter().filter(|other| other.test.get_ref() == test).count() > 1;
    let mut runs: Vec<Run> = Vec::new();
    for device in file.devices.get_ref() {
        for procedure in procedures {
            let options = match several(procedure.test.get_ref()) {
                true => words(&procedure.options),
                false => String::new(),
            };
            for count in cores {
                for size in file.sizes.get_ref() {
                    let mut run = run(&file.options, procedure, device, *count.get_ref(), *size.get_ref());
                    run.tell_apart(&options);
                    check(&run, procedure, device, count, size)?;
                    if runs.iter().any(|known| known.key == run.key) {
                        return Err((size.span(), format!("{} is asked for twice; take one out", run.name)));
                    }
                    runs.push(run);
                }
            }
        }
    }
    Ok(Plan { title: file.title.unwrap_or_else(|| title.to_owned()), runs })
}

/// What a reader of TOML says, with what to do about it.
fn mended(said: &str) -> String {
    let said = said.trim().replace('\n', "; ");
    let mend = match () {
        () if said.ends_with("expected a sequence") => "; write a list, such as [\"cable\"] or [64, 128]",
        () if said.contains("expected a string") => "; write it in quotes",
        () if said.contains("expected usize") => {
            "; write a number of frames' bytes, or of cores, without quotes"
        }
        () if said.starts_with("missing field `procedure`") => {
            "; add a table [[procedure]] with test = \"rfc2544\""
        }
        () if said.starts_with("missing field `devices`") => "; add devices = [\"cable\"]",
        () if said.starts_with("missing field `sizes`") => "; add sizes = [64, 1518]",
        () => "",
    };
    said + mend
}

fn run(common: &[String], procedure: &Procedure, device: &Spanned<String>, cores: usize, size: usize) -> Run {
    let (test, device) = (procedure.test.get_ref(), device.get_ref());
    let mut arguments = vec!["test".to_owned(), test.clone(), device.clone()];
    arguments.extend(["--size".to_owned(), size.to_string(), "-j".to_owned(), cores.to_string()]);
    arguments.extend(common.iter().chain(&procedure.options).cloned());
    arguments.push("--json".to_owned());
    let readable = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let slug: String = format!("{test}-{device}-{size}-{cores}").chars().map(readable).take(80).collect();
    let key = format!("{slug}-{:016x}", fnv(&arguments.join("\0")));
    let workers = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
    let name = format!("{test}, {device}, {size} bytes, {workers}");
    Run {
        name,
        key,
        options: String::new(),
        arguments,
        test: test.clone(),
        device: device.clone(),
        cores,
        size,
    }
}

/// As a shell would take them.
fn words(options: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%@+".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{word}'"),
    };
    options.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A number that is the same for the same text, whatever the program's version (FNV-1a).
fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Whether the program would take a run's arguments.
fn check(
    run: &Run,
    procedure: &Procedure,
    device: &Spanned<String>,
    cores: &Spanned<usize>,
    size: &Spanned<usize>,
) -> Result<(), Wrong> {
    let test = procedure.test.get_ref().as_str();
    // Of what is no command at all, more is said below.
    if cli::has_argument(&["test", test], "device") == Some(false) {
        return Err((
            procedure.test.span(),
            format!("{test:?} is no procedure; take one such as \"rfc2544\""),
        ));
    }
    let arguments = ["junctor"].into_iter().chain(run.arguments.iter().map(String::as_str));
    let Err(why) = cli::check(arguments) else {
        return match run.device.strip_prefix("self:").map(|path| (path, std::fs::metadata(path))) {
            Some((path, Err(why))) => {
                Err((device.span(), format!("{path}: {why}; name a configuration's file")))
            }
            _ => {
                let name = Name::parse(&run.device).map_err(|why| (device.span(), why))?;
                name.check_workers(run.cores).map_err(|why| (cores.span(), why))
            }
        };
    };
    let about = match why.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(about)) => about.clone(),
        _ => String::new(),
    };
    let place = match () {
        () if about.contains("DEVICE") => device.span(),
        () if about.starts_with("-j") || about.contains("--threads") => cores.span(),
        () if about.contains("--size") => size.span(),
        () => procedure.test.span(),
    };
    let said = why.to_string();
    // What follows is how the command is used in general.
    let said = said.split("\n\nUsage").next().unwrap_or_default();
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = said.join("; ");
    Err((place, said.strip_prefix("error: ").unwrap_or(&said).to_owned()))
}

impl Run {
    /// Names it by these options, if there are any.
    fn tell_apart(&mut self, options: &str) {
        if let (false, Some((test, rest))) = (options.is_empty(), self.name.split_once(',')) {
            self.name = format!("{test} {options},{rest}");
            options.clone_into(&mut self.options);
        }
    }

    /// It has no result for this cause, or only a part.
    pub(super) fn failed(&self, cause: String, part: bool) -> Failed {
        Failed {
            run: self.name.clone(),
            command: format!("test {}", self.test),
            device: self.device.clone(),
            workers: self.cores,
            size: self.size,
            options: self.options.clone(),
            part,
            cause,
        }
    }

    /// What a record of this run, made now, would have as the device's configuration.
    pub(super) fn configuration(&self) -> Value {
        let path = self.device.strip_prefix("self:").or_else(|| self.option("--configuration"));
        json!(path.and_then(|path| std::fs::read_to_string(path).ok()))
    }

    /// What an option is given.
    fn option(&self, name: &str) -> Option<&str> {
        let mut words = self.arguments.iter();
        words
            .find_map(|word| match word.strip_prefix(name)? {
                "" => Some(None),
                rest => rest.strip_prefix('=').map(Some),
            })?
            .or_else(|| words.next().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "devices = [\"passthrough\"]\nsizes = [64, 128]\ncores = [1, 2]\noptions = [\"--one-way\"]\n\
                        [[procedure]]\ntest = \"rfc2544\"\noptions = [\"--loss\"]\n[[procedure]]\ntest = \"mlr\"\n";

    #[test]
    fn every_combination_is_a_run_with_a_key_of_its_own() {
        let plan = parse("t", GOOD).unwrap();
        assert_eq!((plan.title.as_str(), plan.runs.len()), ("t", 8));
        let first = &plan.runs[0];
        let wanted =
            ["test", "rfc2544", "passthrough", "--size", "64", "-j", "1", "--one-way", "--loss", "--json"];
        assert_eq!(
            (first.arguments.as_slice(), first.name.as_str()),
            (&wanted.map(str::to_owned)[..], "rfc2544, passthrough, 64 bytes, 1 core")
        );
        // Known by its file in the next version, too.
        assert!(first.key.starts_with("rfc2544-passthrough-64-1-"), "{}", first.key);
        assert_eq!(parse("t", GOOD).unwrap().runs[0].key, first.key);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let check = |from: &str, to: &str, line: usize, says: &str| {
            let text = GOOD.replacen(from, to, 1);
            let (place, why) = parse("t", &text).unwrap_err();
            let at = text[..place.start].matches('\n').count() + 1;
            assert!(why.contains(says) && at == line, "{from}: line {at}: {why}");
        };
        check("sizes", "sises", 2, "unknown field `sises`, expected one of");
        check("sizes = [64, 128]\n", "", 1, "missing field `sizes`");
        check("128", "\"a\"", 2, "invalid type");
        check("64, 128", "", 2, "no frame size; name one");
        check("\"passthrough\"", "\"table\"", 1, "expected self:CONF");
        check("\"passthrough\"", "\"self:/nowhere.click\"", 1, "name a configuration's file");
        check("\"mlr\"", "\"mlt\"", 9, "mlr");
        for other in ["agent", "campaign", "compare", "gather", "help", "start-device"] {
            check(
                "\"mlr\"",
                &format!("\"{other}\""),
                9,
                &format!("\"{other}\" is no procedure; take one such as"),
            );
        }
        check("[1, 2]", "[1, 0]", 3, "expected a number of workers from 1 to 64");
        check("[1, 2]", "[65]", 3, "expected a number of workers from 1 to 64");
        check("[1, 2]", "[1, 3]", 3, "passthrough uses 2 cores at most");
        check("\"passthrough\"", "\"cable\"", 3, "cable has no cores that the tester could give it");
        check("[64, 128]", "[64, 20]", 2, "64 is the least");
        check("--loss", "--los", 6, "--loss");
        check("128", "64", 2, "asked for twice");
        check("devices = [", "devices = [,", 1, "");
    }
}
