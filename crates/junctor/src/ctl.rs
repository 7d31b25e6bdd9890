// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor ctl`: reads and writes handlers of a running router.

use std::path::{Path, PathBuf};

use client::{Connection, Done, Failure, Want};
use serde_json::{Value, json};
use zeroize::{Zeroize as _, Zeroizing};

use crate::exit;
use crate::outcome;
use crate::remote::Remote;

/// Read or write a handler of a running router.
///
/// With a value the handler is written. Without one it is read, or, if it can only be written, written without a value.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor ctl list                   the elements
  junctor ctl c.handlers             what element c offers
  junctor ctl c.count
  junctor ctl src.active false
  junctor ctl --read rt.lookup 10.0.0.1   a handler that wants a parameter
  junctor ctl stop
  junctor ctl hotconfig new.click    another configuration, if it was started with -R (see also junctor apply)
  junctor ctl --pid 4711 --json q.length
  junctor ctl --remote https://router.example:8473/edge --token token.txt c.count
  junctor ctl --channel steer c.count   by a channel of the deployment that started this program
  junctor ctl ipsec.add_sa @sa.txt   the value is in a file
  junctor ctl ipsec.add_sa -         the value comes by standard input

Other users see the words of a command line. So keys and other secrets belong into a file, or come by standard input.")]
pub(crate) struct Args {
    /// The handler: element.handler, or a name alone for one of the router itself.
    handler: String,
    /// The value to write; several words are joined by spaces. - alone stands for standard input, @FILE alone for the text of a file; the line's end behind either is
    /// left out. For hotconfig the text of a configuration, or its file.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    value: Vec<String>,
    /// Read, with the value as parameter.
    #[arg(long, conflicts_with = "write")]
    read: bool,
    /// Write, also without a value.
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    router: Which,
    #[command(flatten)]
    remote: Remote,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Which running router is meant; none need be named if there is one.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Which {
    /// The router's control socket; also a ControlSocket element's of kind UNIX.
    #[arg(long, value_name = "PATH", conflicts_with = "pid", help_heading = "Router")]
    socket: Option<PathBuf>,
    /// The router's process.
    #[arg(long, value_name = "PID", help_heading = "Router")]
    pid: Option<u32>,
    /// The channel, in a deployment, that leads to the router: of calls, or for top of statistics. For programs that 'junctor up' has started.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["socket", "pid"], help_heading = "Router")]
    channel: Option<String>,
}

impl Which {
    /// Whether a router is named.
    pub(crate) fn is_named(&self) -> bool {
        self.socket.is_some() || self.pid.is_some() || self.channel.is_some()
    }

    /// The router at this socket; the only one without.
    pub(crate) fn at(socket: Option<PathBuf>) -> Which {
        Which { socket, ..Which::default() }
    }
}

impl From<&Which> for client::Which {
    fn from(which: &Which) -> client::Which {
        match (&which.socket, which.pid, &which.channel) {
            (_, _, Some(channel)) => client::Which::Channel(channel.clone()),
            (Some(socket), ..) => client::Which::Socket(socket.clone()),
            (None, Some(pid), _) => client::Which::Process(pid),
            (None, None, None) => client::Which::Only,
        }
    }
}

/// Connects to the router that is meant.
pub(crate) fn find(router: &Which) -> Result<Connection, Failure> {
    client::find(&router.into())
}

/// The exit status of a failure.
pub(crate) fn status(failure: &Failure) -> u8 {
    match failure {
        Failure::Unclear(_) => exit::USAGE,
        _ => exit::FAILURE,
    }
}

/// Says why nothing came of it; returns the exit status.
pub(crate) fn tell(failure: &Failure) -> u8 {
    errln!("junctor: {failure}");
    status(failure)
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let done = call(args);
    // The code of a refusal, the words, and the exit status.
    let done = done.map_err(|why| {
        let code = if let Failure::Refused(code, _) = why { json!(code) } else { Value::Null };
        (code, (why.to_string(), status(&why)))
    });
    let (status, object) = match &done {
        Ok(Done::Read(value)) => (exit::SUCCESS, json!({ "handler": args.handler, "value": value })),
        Ok(Done::Written(said)) if said.is_empty() => {
            (exit::SUCCESS, json!({ "handler": args.handler, "written": true }))
        }
        Ok(Done::Written(said)) => {
            (exit::SUCCESS, json!({ "handler": args.handler, "written": true, "message": said }))
        }
        Err((code, (why, status))) => (*status, failure(args, code.clone(), why)),
    };
    if args.json {
        outcome::print_or_fail(format!("{object}\n").as_bytes());
        return status;
    }
    match done {
        Ok(Done::Written(said)) if said.is_empty() => status,
        Ok(Done::Read(value) | Done::Written(value)) => {
            let end = if value.is_empty() || value.ends_with('\n') { "" } else { "\n" };
            // It may have keys.
            let mut text = value.into_bytes();
            text.extend_from_slice(end.as_bytes());
            let status = outcome::print_or_fail(&text);
            text.zeroize();
            status
        }
        Err((_, (why, _))) => {
            errln!("junctor: {why}{}", advice(args, &why));
            status
        }
    }
}

/// How to read what cannot be written, which a value without `--read` asks for.
fn advice(args: &Args, why: &str) -> String {
    let meant_to_read = !args.write && !args.value.is_empty() && why.ends_with("read-only");
    match meant_to_read {
        true => format!(
            "; to read it with this parameter: junctor ctl --read {} {}",
            args.handler,
            args.value.join(" ")
        ),
        false => String::new(),
    }
}

fn failure(args: &Args, code: Value, why: &str) -> Value {
    json!({ "handler": args.handler, "error": { "code": code, "message": why } })
}

/// Whether a value is the name of a file rather than a configuration: there is such a file, or it can be nothing else.
fn is_path(value: &str) -> bool {
    let one_word = !value.contains(|c: char| c.is_whitespace() || "()[]{};:,\"'$".contains(c));
    let like_path = value.starts_with(['/', '.', '~']) || value.ends_with(".click");
    Path::new(value).exists() || (one_word && like_path)
}

/// The configuration in a file.
fn text_of(path: &str) -> Result<String, String> {
    let bytes = lang::read_file(Path::new(path)).map_err(|e| e.message)?;
    String::from_utf8(bytes).map_err(|_| format!("{path}: not text in UTF-8"))
}

/// The words of a command line; standard input for `-` alone, and a file's text for `@FILE` alone. The command line itself is seen by other users.
///
/// # Errors
/// Nothing can be read there.
pub(crate) fn given(words: &[String]) -> Result<Zeroizing<String>, String> {
    let (name, text) = match words {
        [word] if word == "-" => ("standard input", std::io::read_to_string(std::io::stdin())),
        [word] if word.starts_with('@') => (&word[1..], std::fs::read_to_string(&word[1..])),
        _ => return Ok(Zeroizing::new(words.join(" "))),
    };
    let mut text = Zeroizing::new(text.map_err(|why| format!("{name}: {why}"))?);
    let len = text.strip_suffix('\n').map_or(text.len(), |text| text.trim_end_matches('\r').len());
    text.truncate(len);
    Ok(text)
}

/// What is wanted, of which handler, and its value.
fn wanted(args: &Args) -> Result<(&str, Want, Zeroizing<String>), Failure> {
    let name = &args.handler;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(Failure::Unclear(format!("'{name}' is no name of a handler")));
    }
    let mut value = given(&args.value).map_err(Failure::Unclear)?;
    if name == "hotconfig" && is_path(&value) {
        value = text_of(&value).map_err(Failure::Unclear)?.into();
    }
    let want = match (args.write, args.read) {
        (true, _) => Want::Write,
        (false, true) => Want::Read,
        (false, false) if !args.value.is_empty() => Want::Write,
        (false, false) => Want::Any,
    };
    Ok((name, want, value))
}

/// Makes the call.
fn call(args: &Args) -> Result<Done, Failure> {
    let mut client = args.remote.client(&args.router)?;
    let (name, want, value) = wanted(args)?;
    if name == "hotconfig" {
        client.be_patient();
    }
    client.call(name, &value, want)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_from_a_configuration() {
        for text in ["nobody.click", "/no/where", "./none", "/tmp", "/dev/null"] {
            assert!(is_path(text), "{text}");
        }
        for text in ["Idle -> Discard", "Idle->Discard;", "a::Idle->Discard", "", "// empty", "require(x)"] {
            assert!(!is_path(text), "{text}");
        }
        assert!(text_of("/no/where").unwrap_err().contains("No such file"));
        assert!(text_of("/tmp").unwrap_err().contains("a directory"));
    }

    #[test]
    fn values_come_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "spi 0x100\r\n").unwrap();
        let file = format!("@{}", path.display());
        assert_eq!(*given(std::slice::from_ref(&file)).unwrap(), "spi 0x100");
        assert_eq!(*given(&["-".into(), file]).unwrap(), format!("- @{}", path.display()));
        assert!(given(&["@/no/where".into()]).unwrap_err().starts_with("/no/where: No such file"));
        assert_eq!(*given(&[]).unwrap(), "");
    }
}
