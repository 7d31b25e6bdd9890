// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a campaign, and the runs that it asks for.

use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use super::super::device::Name;
use super::super::record::{Failed, Record, run_name, with_modifier};
use super::modifier;
use crate::Error;

/// What a file asks for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// For the report.
    pub title: String,
    /// Each combination of the file's lists; of a device all without modifiers, and then all with one after the other.
    pub runs: Vec<Run>,
}

/// The command line of this program, by which runs are checked before any of them starts.
pub trait Program {
    /// Whether `junctor test TEST` takes a device; nothing if there is no such test.
    fn takes_device(&self, test: &str) -> Option<bool>;

    /// Whether the program takes these arguments, of which the first is its name.
    ///
    /// # Errors
    /// What is wrong with them.
    fn check(&self, arguments: &[&str]) -> Result<(), Misuse>;
}

/// What is wrong with arguments.
#[derive(Clone, Debug, Default)]
pub struct Misuse {
    /// The argument that is meant, with the name of its value; empty if it is none in particular.
    pub about: String,
    /// What is wrong, for people.
    pub said: String,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// For people.
    pub name: String,
    /// Names the file of its result; other arguments have another key.
    pub key: String,
    /// The procedure's own options, where the file has the same one with others.
    options: String,
    /// Its modifier as the file has it, if the file names modifiers.
    modifier: String,
    /// What follows the program's name.
    pub arguments: Vec<String>,
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
    modifiers: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    options: Vec<Spanned<String>>,
    #[serde(rename = "procedure")]
    procedures: Spanned<Vec<Procedure>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Procedure {
    test: Spanned<String>,
    #[serde(default)]
    options: Vec<Spanned<String>>,
    /// Instead of the file's, like what follows.
    sizes: Option<Spanned<Vec<Spanned<usize>>>>,
    modifiers: Option<Spanned<Vec<Spanned<String>>>>,
}

/// What distinguishes one run from the others of the file.
#[derive(Clone, Copy)]
struct Choice<'a> {
    device: &'a Spanned<String>,
    modifier: &'a Spanned<String>,
    procedure: &'a Procedure,
    cores: &'a Spanned<usize>,
    size: &'a Spanned<usize>,
}

impl Plan {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, with its place and what to do about it.
    pub fn read(path: &Path, program: &dyn Program) -> Result<Plan, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::advised(
            path.display(),
            "; name a campaign's file ('junctor test campaign --help' shows one)",
        ))?;
        let title = path.file_stem().unwrap_or_default().to_string_lossy();
        Plan::parse(&title, &text, program).map_err(|(place, why)| {
            let line = text[..place.start.min(text.len())].matches('\n').count() + 1;
            let source = text.lines().nth(line - 1).unwrap_or_default().trim();
            let source = if source.is_empty() { String::new() } else { format!("\n    {source}") };
            Error::Content(format!("{}, line {line}: {why}{source}", path.display()))
        })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Which bytes of it are wrong, and why.
    pub fn parse(title: &str, text: &str, program: &dyn Program) -> Result<Plan, Wrong> {
        parse(title, text, program)
    }
}

/// Where something is wrong, and what.
type Wrong = (Range<usize>, String);

fn parse(title: &str, text: &str, program: &dyn Program) -> Result<Plan, Wrong> {
    let file: File =
        toml::from_str(text).map_err(|why| (why.span().unwrap_or_default(), mended(why.message())))?;
    let empty = |span: Range<usize>, what: &str, such: &str| {
        Err((span, format!("no {what}; name one, such as {such}")))
    };
    if file.devices.get_ref().is_empty() {
        return empty(file.devices.span(), "device", "\"cable\"");
    }
    let own_sizes = file.procedures.get_ref().iter().filter_map(|one| one.sizes.as_ref());
    for sizes in own_sizes.chain([&file.sizes]) {
        if sizes.get_ref().is_empty() {
            return empty(sizes.span(), "frame size", "64");
        }
        once(sizes.get_ref())?;
    }
    if file.procedures.get_ref().is_empty() {
        return empty(file.procedures.span(), "procedure", "[[procedure]] with test = \"rfc2544\"");
    }
    let one = Spanned::new(0..0, vec![Spanned::new(0..0, 1)]);
    let cores = file.cores.as_ref().unwrap_or(&one);
    if cores.get_ref().is_empty() {
        return empty(cores.span(), "number of cores", "1");
    }
    once(file.devices.get_ref())?;
    once(cores.get_ref())?;
    let modifiers = Modifiers::read(&file)?;
    let own = file.procedures.get_ref().iter().flat_map(|procedure| &procedure.options);
    file.options.iter().chain(own).try_for_each(leave)?;
    let procedures = file.procedures.get_ref();
    let several = |test: &str| procedures.iter().filter(|other| other.test.get_ref() == test).count() > 1;
    let mut runs: Vec<Run> = Vec::new();
    for device in file.devices.get_ref() {
        for modifier in &modifiers.all {
            for procedure in procedures.iter().filter(|one| modifiers.are_of(one, modifier)) {
                let options = match several(procedure.test.get_ref()) {
                    true => words(&procedure.options),
                    false => String::new(),
                };
                let sizes = procedure.sizes.as_ref().unwrap_or(&file.sizes).get_ref();
                for (cores, size) in
                    cores.get_ref().iter().flat_map(|count| sizes.iter().map(move |size| (count, size)))
                {
                    let choice = Choice { device, modifier, procedure, cores, size };
                    let mut run = run(&file.options, choice, &options)?;
                    if modifiers.are_told {
                        run.is_modified(modifier.get_ref());
                    }
                    check(&run, choice, &file.options, program)?;
                    if runs.iter().any(|known| known.key == run.key) {
                        let why = format!("{} is asked for twice; take one out", run.name);
                        return Err((procedure.test.span(), why));
                    }
                    runs.push(run);
                }
            }
        }
    }
    Ok(Plan { title: file.title.unwrap_or_else(|| title.to_owned()), runs })
}

/// Refuses what a list has twice.
fn once<T: PartialEq + Debug>(list: &[Spanned<T>]) -> Result<(), Wrong> {
    let again = list.iter().enumerate().find(|(at, value)| list[..*at].contains(value));
    again.map_or(Ok(()), |(_, value)| {
        Err((value.span(), format!("{:?} is asked for twice; take one out", value.get_ref())))
    })
}

/// Refuses options that the campaign gives each run itself, or that are of no use in one.
fn leave(option: &Spanned<String>) -> Result<(), Wrong> {
    let word = option.get_ref().as_str();
    let name = word.split('=').next().unwrap_or(word);
    let instead = match name {
        "--size" => "sizes = [64] in the file names frame sizes",
        "--threads" => "cores = [1, 2] in the file names numbers of cores",
        _ if name.starts_with("-j") => "cores = [1, 2] in the file names numbers of cores",
        "--json" | "--markdown" => "the campaign has the runs' results in all forms",
        "--report" | "--csv" => "each run would write it anew, and the campaign's report is over all",
        "-h" | "--help" => "'junctor test --help' tells the options",
        _ => return Ok(()),
    };
    Err((option.span(), format!("{word} is no option of a campaign's runs: {instead}")))
}

/// The modifiers of a file.
struct Modifiers {
    /// Each once.
    all: Vec<Spanned<String>>,
    /// Of procedures that name none themselves.
    common: Vec<Spanned<String>>,
    /// Whether the file names any.
    are_told: bool,
}

impl Modifiers {
    fn read(file: &File) -> Result<Modifiers, Wrong> {
        let lists = file.procedures.get_ref().iter().map(|procedure| &procedure.modifiers);
        let told: Vec<_> = lists.chain([&file.modifiers]).flatten().collect();
        if let Some(none) = told.iter().find(|list| list.get_ref().is_empty()) {
            return Err((none.span(), "no modifier; name one, such as \"none\"".to_owned()));
        }
        for modifier in told.iter().flat_map(|list| list.get_ref()) {
            modifier::options(modifier.get_ref()).map_err(|why| (modifier.span(), why))?;
        }
        told.iter().try_for_each(|list| once(list.get_ref()))?;
        let none = || vec![Spanned::new(0..0, "none".to_owned())];
        let common = file.modifiers.as_ref().map_or_else(none, |list| list.get_ref().clone());
        let mut all: Vec<Spanned<String>> = Vec::new();
        for list in file.procedures.get_ref().iter().map(|one| Modifiers::named(&common, one)) {
            all.extend(list.iter().filter(|one| !all.contains(one)).cloned().collect::<Vec<_>>());
        }
        Ok(Modifiers { all, common, are_told: !told.is_empty() })
    }

    fn named<'a>(common: &'a [Spanned<String>], procedure: &'a Procedure) -> &'a [Spanned<String>] {
        procedure.modifiers.as_ref().map_or(common, |list| list.get_ref().as_slice())
    }

    /// Whether this procedure is done with this one.
    fn are_of(&self, procedure: &Procedure, modifier: &Spanned<String>) -> bool {
        Modifiers::named(&self.common, procedure).contains(modifier)
    }
}

/// What a reader of TOML says, with what to do about it.
fn mended(said: &str) -> String {
    let said = said.trim().replace('\n', "; ");
    let said = said
        .replace("expected usize", "expected a whole number")
        .replace("expected a sequence", "expected a list");
    let mend = match () {
        () if said == "invalid type: map, expected a list" => {
            "; write [[procedure]], with two brackets on each side"
        }
        () if said.ends_with("expected a list") => "; write a list, such as [\"cable\"] or [64, 128]",
        () if said.contains("expected a string") => "; write it in quotes",
        () if said.contains("expected a whole number") => {
            "; write a number of frames' bytes, or of cores, without quotes"
        }
        () if said.starts_with("missing field `procedure`") => {
            "; add a table [[procedure]] with test = \"rfc2544\""
        }
        () if said.starts_with("missing field `test`") => "; add test = \"rfc2544\"",
        () if said.starts_with("missing field `devices`") => "; add devices = [\"cable\"]",
        () if said.starts_with("missing field `sizes`") => "; add sizes = [64, 1518]",
        () => "",
    };
    said + mend
}

fn run(common: &[Spanned<String>], choice: Choice<'_>, options: &str) -> Result<Run, Wrong> {
    let Choice { device, modifier, procedure, cores, size } = choice;
    let (test, cores, size) = (procedure.test.get_ref(), *cores.get_ref(), *size.get_ref());
    let (device, name) = (device.get_ref(), modifier.get_ref());
    let modifies = modifier::options(name).map_err(|why| (modifier.span(), why))?;
    let mut arguments = vec!["test".to_owned(), test.clone(), device.clone()];
    arguments.extend(["--size".to_owned(), size.to_string(), "-j".to_owned(), cores.to_string()]);
    arguments.extend(common.iter().chain(&procedure.options).map(|word| word.get_ref().clone()));
    arguments.extend(modifies);
    arguments.push("--json".to_owned());
    let readable = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let slug: String = format!("{test}-{device}-{size}-{cores}").chars().map(readable).take(80).collect();
    Ok(Run {
        name: run_name(test, options, device, &[size], cores, ""),
        key: format!("{slug}-{:016x}", fnv(&arguments.join("\0"))),
        options: options.to_owned(),
        modifier: String::new(),
        arguments,
        test: test.clone(),
        device: device.clone(),
        cores,
        size,
    })
}

/// As a shell would take them.
fn words(options: &[Spanned<String>]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%@+".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{word}'"),
    };
    options.iter().map(|option| word(option.get_ref())).collect::<Vec<_>>().join(" ")
}

/// A number that is the same for the same text in every version of the program (FNV-1a).
fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Whether the program would take a run's arguments.
fn check(
    run: &Run,
    choice: Choice<'_>,
    common: &[Spanned<String>],
    program: &dyn Program,
) -> Result<(), Wrong> {
    let Choice { device, modifier, procedure, cores, size } = choice;
    let test = procedure.test.get_ref().as_str();
    // Of what is no command at all, more is said below.
    if program.takes_device(test) == Some(false) {
        return Err((
            procedure.test.span(),
            format!("{test:?} is no procedure; take one such as \"rfc2544\""),
        ));
    }
    let arguments: Vec<&str> =
        ["junctor"].into_iter().chain(run.arguments.iter().map(String::as_str)).collect();
    let Err(Misuse { about, said }) = program.check(&arguments) else {
        return match run.device.strip_prefix("self:").map(|path| (path, std::fs::metadata(path))) {
            Some((path, Err(why))) => {
                Err((device.span(), format!("{path}: {why}; name a configuration's file")))
            }
            _ => {
                let name = Name::parse(&run.device).map_err(|why| (device.span(), why))?;
                name.check_workers(run.cores).map_err(|why| (cores.span(), why.to_string()))
            }
        };
    };
    // An option that is wrong, or one whose value is.
    let is_wrong = |word: &&Spanned<String>| {
        let name = word.get_ref().split('=').next().unwrap_or_default();
        name.starts_with('-') && (about == *word.get_ref() || about.split([' ', '=']).next() == Some(name))
    };
    let option = procedure.options.iter().chain(common).find(is_wrong);
    let place = match () {
        () if about.contains("DEVICE") => device.span(),
        () if about.starts_with("-j") || about.contains("--threads") => cores.span(),
        () if about.contains("--size") => size.span(),
        () if is_about(modifier.get_ref(), &about) => modifier.span(),
        () => option.map_or_else(|| procedure.test.span(), Spanned::span),
    };
    // What follows is how the command is used in general.
    let said = said.split("\n\nUsage").next().unwrap_or_default();
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = said.join("; ");
    let apart = match option.and_then(|word| word.get_ref().split_once(' ')) {
        Some((option, value)) => format!("; write each word by itself: \"{option}\", \"{value}\""),
        None => String::new(),
    };
    Err((place, said.strip_prefix("error: ").unwrap_or(&said).to_owned() + &apart))
}

/// Whether a complaint about an option is one about this modifier's.
fn is_about(modifier: &str, about: &str) -> bool {
    let options = modifier::options(modifier).unwrap_or_default();
    options.first().is_some_and(|word| word.split('=').next().is_some_and(|option| about.contains(option)))
}

impl Run {
    /// Distinguishes it from runs with other modifiers.
    fn is_modified(&mut self, modifier: &str) {
        modifier.clone_into(&mut self.modifier);
        self.name += &with_modifier(modifier);
    }

    /// A record of it, with what distinguishes it from the file's other runs.
    pub(super) fn label(&self, record: Record) -> Record {
        record.with_label("options", &self.options).with_label("modifier", &self.modifier)
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
            modifier: self.modifier.clone(),
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
