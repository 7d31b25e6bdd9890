// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor ipsec`: security associations and policies of a router, in the words of `ip xfrm`.

use clap::{Subcommand, ValueEnum};
use serde_json::json;
use views::ipsec::{associations, lines, split_cursor, table};
use zeroize::Zeroizing;

use crate::ctl::{self, Which};
use crate::{exit, outcome};
use client::{Client, Failure, lost};

/// Show and change the security associations and policies of a router's IPsecDatabase, in the words of 'ip xfrm'.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor ipsec                                             associations as a table, then policies
  junctor ipsec state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x100 reqid 1 mode tunnel aead aes-gcm 0x... 128
  junctor ipsec state delete dst 192.0.2.2 spi 0x100
  junctor ipsec policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out tmpl src 192.0.2.1 dst 192.0.2.2 reqid 1 mode tunnel
  junctor ipsec monitor                                     events, until interrupted

Keys on a command line are visible to other users: 'junctor ipsec state add -' reads the words from standard input, and 'junctor ipsec state add @FILE' from a file.")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// The IPsecDatabase.
    #[arg(long, value_name = "NAME", default_value = "ipsec", global = true)]
    element: String,
    #[command(flatten)]
    router: Which,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Security associations.
    State(Change),
    /// Policies.
    Policy(Change),
    /// Print events as they come: acquire, expire, mapping; 'lost N' where N came too fast.
    Monitor,
}

#[derive(Clone, Debug, clap::Args)]
struct Change {
    /// What to do.
    #[arg(value_enum, default_value = "list")]
    action: Action,
    /// Words of 'ip xfrm', - for those of standard input, or @FILE for those of a file. Lines may be broken anywhere.
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Action {
    /// List all.
    List,
    /// Add one; an error if it is there.
    Add,
    /// Add one, or replace the one that is there.
    Update,
    /// Take one out.
    #[value(alias = "del")]
    Delete,
    /// Take all out.
    Flush,
}

/// How long a call waits for an event, in milliseconds.
const PATIENCE_MS: u32 = 1000;

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    match run(args) {
        Ok(code) => code,
        Err(why) => ctl::tell(&why),
    }
}

fn run(args: &Args) -> Result<u8, Failure> {
    let mut client = Client::new(ctl::find(&args.router)?).map_err(lost)?;
    let element = &args.element;
    let (kind, change) = match &args.what {
        None => {
            let (sas, policies) =
                (client.read(&format!("{element}.sas"))?, client.read(&format!("{element}.policies"))?);
            let text = match args.json {
                true => format!(
                    "{:#}\n",
                    json!({ "associations": associations(&sas), "policies": lines(&policies) })
                ),
                false => format!("{}\n{policies}", table(&associations(&sas))),
            };
            return Ok(outcome::print_or_fail(text.as_bytes()));
        }
        Some(What::Monitor) => return monitor(&mut client, element),
        Some(What::State(change)) => ("sa", change),
        Some(What::Policy(change)) => ("policy", change),
    };
    let handler = match (change.action, kind) {
        (Action::List, "sa") => {
            let sas = client.read(&format!("{element}.sas"))?;
            let text = if args.json { format!("{:#}\n", associations(&sas)) } else { sas };
            return Ok(outcome::print_or_fail(text.as_bytes()));
        }
        (Action::List, _) => {
            let policies = client.read(&format!("{element}.policies"))?;
            let text = if args.json { format!("{:#}\n", lines(&policies)) } else { policies };
            return Ok(outcome::print_or_fail(text.as_bytes()));
        }
        (Action::Flush, "sa") => "flush_sas".to_owned(),
        (Action::Flush, _) => "flush_policies".to_owned(),
        (Action::Add, _) => format!("add_{kind}"),
        (Action::Update, _) => format!("update_{kind}"),
        (Action::Delete, _) => format!("delete_{kind}"),
    };
    client.write(&format!("{element}.{handler}"), &words(&change.words).map_err(Failure::Unreachable)?)?;
    Ok(exit::SUCCESS)
}

/// Prints events from now on. Others who read them, as a key daemon, get them all the same.
fn monitor(client: &mut Client, element: &str) -> Result<u8, Failure> {
    let mut cursor = "now".to_owned();
    loop {
        let text = client.read(&format!("{element}.events {PATIENCE_MS} {cursor}"))?;
        let (events, next) = split_cursor(&text);
        if outcome::print_or_fail(events.as_bytes()) != exit::SUCCESS {
            return Ok(exit::FAILURE);
        }
        next.clone_into(&mut cursor);
    }
}

/// The words of the command line, of standard input or of a file, on one line.
fn words(given: &[String]) -> Result<Zeroizing<String>, String> {
    let text = ctl::given(given)?;
    // Room for all, so that no copy of a key is left elsewhere.
    let mut line = Zeroizing::new(String::with_capacity(text.len()));
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_joined() {
        assert_eq!(*words(&["dst".into(), " 10.0.0.1\nspi".into()]).unwrap(), "dst 10.0.0.1 spi");
    }
}
