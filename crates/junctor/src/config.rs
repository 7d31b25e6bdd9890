// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of all commands that read a configuration.

use std::path::PathBuf;

use conf::{Form, Loaded, Origin};

use crate::{exit, outcome};

/// Where a configuration comes from and what replaces its variables.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Source {
    /// Configuration file; `-` or nothing reads standard input. Words of the form NAME=VALUE set variables.
    #[arg(value_name = "CONF|NAME=VALUE")]
    pub(crate) words: Vec<String>,
    /// Configuration file (as the positional argument).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// Take the configuration from this text.
    #[arg(short, long, value_name = "TEXT", conflicts_with = "file")]
    pub(crate) expression: Option<String>,
    /// Set a variable of the configuration; wins over its own definitions.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Directories to search for required libraries, separated by colons.
    #[arg(short = 'C', long = "clickpath", value_name = "PATH", env = "CLICKPATH")]
    pub(crate) clickpath: Option<String>,
}

impl Source {
    /// The words that name files, and those that set variables.
    fn sort(&self) -> (Vec<&str>, Vec<(String, String)>) {
        let mut files: Vec<&str> = self.file.iter().map(String::as_str).collect();
        let mut defines = Vec::new();
        for word in &self.words {
            match assignment(word) {
                Some(pair) if word != "-" && !std::path::Path::new(word).exists() => defines.push(pair),
                _ => files.push(word),
            }
        }
        (files, defines)
    }

    /// The file that the configuration comes from, if it comes from one that can be read again.
    pub(crate) fn path(&self) -> Option<&str> {
        let (files, _) = self.sort();
        files.first().copied().filter(|f| *f != "-" && self.expression.is_none())
    }

    /// How configurations are elaborated: variables and where libraries are.
    pub(crate) fn options(&self) -> Result<lang::Options, String> {
        self.from(Origin::Input).map(|source| source.options())
    }

    /// Reads and elaborates the configuration.
    pub(crate) fn load(&self) -> Result<Loaded, String> {
        conf::Source::try_from(self).map(|source| source.load())
    }

    /// The same without libraries.
    pub(crate) fn load_alone(&self) -> Result<Loaded, String> {
        conf::Source::try_from(self).map(|source| source.load_alone())
    }

    /// A configuration from elsewhere, with these variables and libraries.
    fn from(&self, origin: Origin) -> Result<conf::Source, String> {
        let mut defines = self.sort().1;
        for word in &self.set {
            let pair = assignment(word).ok_or_else(|| format!("--set expects NAME=VALUE, not '{word}'"))?;
            defines.push(pair);
        }
        let path = self.clickpath.iter().flat_map(|path| path.split(':')).filter(|path| !path.is_empty());
        Ok(conf::Source { origin, defines, search_path: path.map(PathBuf::from).collect() })
    }
}

impl TryFrom<&Source> for conf::Source {
    type Error = String;

    fn try_from(options: &Source) -> Result<conf::Source, String> {
        let (files, _) = options.sort();
        let origin = match (&options.expression, files.first()) {
            (Some(text), _) => Origin::Text(text.clone()),
            (None, Some(path)) if *path != "-" => Origin::File((*path).to_owned()),
            _ => Origin::Input,
        };
        let source = options.from(origin)?;
        match files.len() + usize::from(options.expression.is_some()) {
            0 | 1 => Ok(source),
            _ => Err("router configuration specified twice".into()),
        }
    }
}

fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let good = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    good.then(|| (name.to_owned(), value.to_owned()))
}

/// Says why a configuration could not be measured; returns the exit status.
pub(crate) fn not_measured(loaded: &Loaded, why: harness::Error) -> u8 {
    match why {
        harness::Error::Configuration(errors) => {
            loaded.report(&errors, Form::Full, true);
            exit::USAGE
        }
        harness::Error::Traffic(why) => outcome::usage(why),
        harness::Error::Silent => outcome::fail(
            "no packet came out of the configuration; 'junctor bench engine --report' shows where they end",
        ),
        other => outcome::fail(other),
    }
}
