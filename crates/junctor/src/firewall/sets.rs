// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor firewall set`: named sets of a running router's firewall.

use std::path::{Path, PathBuf};

use client::{Client, Failure};
use serde_json::json;
use views::firewall as view;

use crate::exit;
use crate::findings::{Of, path_for_router};

/// Show or change a named set of a running router's firewall.
///
/// The rules stay as they are, and the next packet of any worker finds the set changed. Connections that were accepted go on: --revalidate ends those that the rules
/// would refuse now. Changes are gone when the rules are loaded again, unless by 'load --keep-sets', or when the router gets another configuration: 'save' writes a file that 'set NAME file PATH' of the
/// rules reads.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor firewall set blocked add 198.51.100.7 2001:db8:7::/48 for 1h
  junctor firewall set blocked test 198.51.100.7
  junctor firewall set blocked load blocked.txt.gz --revalidate
  junctor firewall set blocked save blocked.txt")]
pub(crate) struct Args {
    /// The set.
    name: String,
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// Show the entries.
    #[command(after_help = "Examples:
  junctor firewall set blocked show
  junctor firewall set blocked show --json")]
    Show {
        #[command(flatten)]
        of: Of,
    },
    /// Add entries; those that are there get the new time.
    #[command(after_help = "Examples:
  junctor firewall set blocked add 198.51.100.7
  junctor firewall set blocked add 198.51.100.0/24 2001:db8::1-2001:db8::9 for 30m
  junctor firewall set phones add 52:54:00:12:34:56")]
    Add {
        /// Addresses, prefixes and ranges, or ports, or MAC addresses; at the end perhaps 'for TIME', as in 'for 1h'.
        #[arg(required = true)]
        entries: Vec<String>,
        #[command(flatten)]
        then: Then,
    },
    /// Remove entries. If one is not there, nothing changes.
    #[command(after_help = "Examples:
  junctor firewall set blocked remove 198.51.100.7
  junctor firewall set friends remove 10.0.0.0/8 --revalidate")]
    Remove {
        /// The entries, as 'show' prints them.
        #[arg(required = true)]
        entries: Vec<String>,
        #[command(flatten)]
        then: Then,
    },
    /// Have the entries of a file in place of those there are.
    ///
    /// The file has an entry in each line, perhaps with 'for TIME' behind it, and remarks behind # or ;. It may be compressed by gzip. If there is a mistake in it, the old entries stay.
    #[command(after_help = "Examples:
  junctor firewall set blocked load blocked.txt
  junctor firewall set blocked load blocked.txt.gz --revalidate")]
    Load {
        /// The file, as the router finds it.
        file: PathBuf,
        #[command(flatten)]
        then: Then,
    },
    /// Remove all entries.
    #[command(after_help = "Examples:
  junctor firewall set blocked flush")]
    Flush {
        #[command(flatten)]
        then: Then,
    },
    /// Say whether an address, a port or a MAC address is in the set, and by which entries.
    #[command(after_help = "Examples:
  junctor firewall set blocked test 198.51.100.7
  junctor firewall set web test 8080 --json

The exit status is 0 if it is, 1 if it is not.")]
    Test {
        /// An address, a port or a MAC address; also a prefix or a range, all of which an entry must hold.
        what: String,
        #[command(flatten)]
        of: Of,
    },
    /// Write the entries to a file, from which 'load' and rule files read them.
    ///
    /// Entries with an end are written with the time that they have left.
    #[command(after_help = "Examples:
  junctor firewall set blocked save blocked.txt")]
    Save {
        /// The file; it is replaced as a whole.
        file: PathBuf,
        #[command(flatten)]
        of: Of,
    },
}

/// What follows a change.
#[derive(Clone, Debug, clap::Args)]
struct Then {
    /// End the connections that the rules would refuse now.
    #[arg(long)]
    revalidate: bool,
    #[command(flatten)]
    of: Of,
}

pub(super) fn main(args: &Args) -> Result<u8, Failure> {
    let name = &args.name;
    match &args.what {
        What::Show { of } => show(name, of),
        What::Add { entries, then } => change(name, "set_add", &entries.join(" "), then),
        What::Remove { entries, then } => change(name, "set_remove", &entries.join(" "), then),
        What::Load { file, then } => change(name, "set_load", &path_for_router(Some(file)), then),
        What::Flush { then } => change(name, "set_flush", "", then),
        What::Test { what, of } => test(name, what, of),
        What::Save { file, of } => save(name, file, of),
    }
}

/// Prints all sets.
pub(super) fn all(of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("Firewall")?;
    let sets = view::sets(&mut client, &element)?;
    if of.json {
        outln!("{}", json!({ "element": element, "sets": view::sets_json(&sets) }));
    } else {
        out!("{}", view::sets_text(&sets));
    }
    Ok(exit::SUCCESS)
}

fn show(name: &str, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("Firewall")?;
    let mut all = Vec::new();
    view::entries(&mut client, &element, name, |some| {
        if of.json {
            all.extend(some.iter().map(view::Entry::json));
        } else {
            some.iter().for_each(|entry| outln!("{}", entry.line()));
        }
        Ok(())
    })?;
    if of.json {
        outln!("{}", json!({ "element": element, "set": name, "entries": all }));
    }
    Ok(exit::SUCCESS)
}

fn change(name: &str, handler: &str, value: &str, then: &Then) -> Result<u8, Failure> {
    let of = &then.of;
    let (mut client, element) = of.connect("Firewall")?;
    client.be_patient();
    let [before, now] = view::change_set(&mut client, &element, handler, (name, value))?;
    let found = match then.revalidate {
        true => super::against(&mut client, &element, true)?,
        false => super::Against { refused: 0, unjudged: 0 },
    };
    let (against, unjudged) = (found.refused, found.unjudged);
    if of.json {
        let counts = json!({
            "element": element, "set": name, "before": before, "entries": now, "ended": against, "unjudged": unjudged
        });
        outln!("{counts}");
        return Ok(exit::SUCCESS);
    }
    let and = match (then.revalidate, against) {
        (false, _) => String::new(),
        (true, 0) => "; no connection is against the rules".to_owned(),
        (true, n) => format!("; {} connections were against the rules and have been ended", super::number(n)),
    };
    outln!("{name}: {now} entries, {before} before{and}{}", found.unjudged_words());
    Ok(exit::SUCCESS)
}

fn test(name: &str, what: &str, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("Firewall")?;
    let found = view::holding(&mut client, &element, name, what)?;
    if of.json {
        let by: Vec<_> = found.iter().map(view::Entry::json).collect();
        outln!(
            "{}",
            json!({ "element": element, "set": name, "what": what, "is_in": !found.is_empty(), "by": by })
        );
    } else if found.is_empty() {
        outln!("{what} is not in {name}");
    } else {
        let by: Vec<String> = found.iter().map(view::Entry::line).collect();
        outln!("{what} is in {name}, by {}", by.join(", "));
    }
    Ok(if found.is_empty() { exit::FAILURE } else { exit::SUCCESS })
}

fn save(name: &str, file: &Path, of: &Of) -> Result<u8, Failure> {
    let (mut client, element) = of.connect("Firewall")?;
    let count = written(&mut client, &element, name, file)?;
    if of.json {
        outln!("{}", json!({ "element": element, "set": name, "entries": count, "file": file }));
    } else {
        outln!("{}: {count} entries", file.display());
    }
    Ok(exit::SUCCESS)
}

/// Writes the entries; returns how many.
fn written(client: &mut Client, element: &str, name: &str, file: &Path) -> Result<usize, Failure> {
    let mut text = String::new();
    let mut count = 0;
    view::entries(client, element, name, |some| {
        count += some.len();
        some.iter().for_each(|entry| text += &format!("{}\n", entry.line()));
        Ok(())
    })?;
    let written = report::files::replace(file, |out| out.write_all(text.as_bytes()));
    written.map_err(|e| Failure::Unclear(format!("cannot write '{}': {e}", file.display())))?;
    Ok(count)
}
