// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor ctl`: reads and writes handlers of a running router.

use std::io::{BufRead as _, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use zeroize::{Zeroize as _, Zeroizing};

use crate::connection::Connection;
use crate::{calls, cli, control, exit};

/// How long a router may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// After this time it is said that it has not answered yet.
const SOON: Duration = Duration::from_secs(4);
/// How long it may take to build another configuration.
pub(crate) const BUILDING: Duration = Duration::from_secs(300);

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
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Which running router is meant; none need be named if there is one.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Which {
    /// The router's control socket; also a ControlSocket element's of kind UNIX.
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    socket: Option<PathBuf>,
    /// The router's process.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// The channel, in a deployment, that leads to the router: of calls, or for top of statistics. For programs that 'junctor up' has started.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["socket", "pid"])]
    channel: Option<String>,
}

impl Which {
    /// The router at this socket; the only one without.
    pub(crate) fn at(socket: Option<PathBuf>) -> Which {
        Which { socket, ..Which::default() }
    }

    /// The channel that is named.
    pub(crate) fn channel(&self) -> Option<&str> {
        self.channel.as_deref()
    }
}

/// What came of it.
#[derive(Debug)]
enum Done {
    /// The value read.
    Read(String),
    /// Written, and what the router said about it.
    Written(String),
}

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The router refused: its code and words.
    Refused(u16, String),
    /// There was no router, or nothing was to be had from it.
    Unreachable(String),
    /// It ended before it answered.
    Ended,
    /// What is meant is not clear, or not to be had.
    Unclear(String),
}

impl Failure {
    /// What it is in words, and the exit status.
    pub(crate) fn into_words(self) -> (String, u8) {
        match self {
            Failure::Unclear(why) => (why, exit::USAGE),
            Failure::Refused(_, why) | Failure::Unreachable(why) => (why, exit::FAILURE),
            Failure::Ended => ("the router ended before it answered; see what it said".into(), exit::FAILURE),
        }
    }

    /// Says it; returns the exit status.
    pub(crate) fn tell(self) -> u8 {
        let (why, status) = self.into_words();
        errln!("junctor: {why}");
        status
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let done = find(&args.router).and_then(|stream| call(args, stream));
    // The code of a refusal, the words, and the exit status.
    let done = done.map_err(|why| {
        let code = if let Failure::Refused(code, _) = why { json!(code) } else { Value::Null };
        (code, why.into_words())
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
        cli::print_or_fail(format!("{object}\n").as_bytes());
        return status;
    }
    match done {
        Ok(Done::Written(said)) if said.is_empty() => status,
        Ok(Done::Read(value) | Done::Written(value)) => {
            let end = if value.is_empty() || value.ends_with('\n') { "" } else { "\n" };
            // It may have keys.
            let mut text = value.into_bytes();
            text.extend_from_slice(end.as_bytes());
            let status = cli::print_or_fail(&text);
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

/// Connects to the router that is meant.
pub(crate) fn find(router: &Which) -> Result<Connection, Failure> {
    match &router.channel {
        Some(channel) => {
            let stream = calls::connect(channel, SOON).map_err(Failure::Unreachable)?;
            Ok(Connection::Channel(Box::new(stream)))
        }
        None => locate(router).map(|(_, stream)| stream.into()),
    }
}

/// Connects to the router's socket; returns its path, too.
pub(crate) fn locate(router: &Which) -> Result<(PathBuf, UnixStream), Failure> {
    if let Some(path) = &router.socket {
        let failed = |e: std::io::Error| {
            let mend = match e.kind() {
                std::io::ErrorKind::ConnectionRefused => {
                    "the router that listened there has ended; start it again"
                }
                std::io::ErrorKind::NotFound => {
                    "start a router by 'junctor run --control PATH', or leave --socket out for the one that runs"
                }
                std::io::ErrorKind::PermissionDenied => "it is another user's; be that user",
                _ => "name the socket of a router that runs",
            };
            Failure::Unreachable(format!("no router answers at {}: {e}; {mend}", path.display()))
        };
        return UnixStream::connect(path).map(|stream| (path.clone(), stream)).map_err(failed);
    }
    let Some(directory) = control::directory() else {
        let why = "routers of this user listen nowhere by default, because XDG_RUNTIME_DIR is not set; \
                   name a socket by 'junctor run --control PATH' and 'junctor ctl --socket PATH'";
        return Err(Failure::Unreachable(why.into()));
    };
    choose(&directory, router.pid)
}

/// The router that listens in this directory, of this process if one is named.
fn choose(directory: &Path, pid: Option<u32>) -> Result<(PathBuf, UnixStream), Failure> {
    let mut live = sockets(directory);
    if let Some(pid) = pid {
        live.retain(|(p, ..)| *p == pid);
        return live.pop().map(|(_, path, stream)| (path, stream)).ok_or_else(|| {
            Failure::Unreachable(format!(
                "process {pid} is no router that listens in {}",
                directory.display()
            ))
        });
    }
    match live.len() {
        0 => Err(Failure::Unreachable(format!(
            "no router is running (none listens in {}); start one by 'junctor run', or name its socket by --socket",
            directory.display()
        ))),
        1 => {
            let (_, path, stream) = live.remove(0);
            Ok((path, stream))
        }
        _ => {
            let list = live
                .iter()
                .map(|(pid, path, _)| format!("\n  --pid {pid}  {}  {}", path.display(), words(*pid)));
            Err(Failure::Unclear(format!(
                "several routers are running; choose one:{}",
                list.collect::<String>()
            )))
        }
    }
}

/// Live sockets with their processes, by number: of routers by themselves, and of planes, whose deployments have directories of their
/// own. Those that a process left behind are removed. Control planes have a directory, too, but no router listens there.
fn sockets(directory: &Path) -> Vec<(u32, PathBuf, UnixStream)> {
    let paths = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let (deployments, mut found): (Vec<_>, Vec<_>) =
        paths(directory).into_iter().partition(|path| path.is_dir());
    found.extend(deployments.iter().flat_map(|deployment| paths(deployment)));
    let mut live: Vec<_> = found
        .into_iter()
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(".sock")?;
            let pid = match path.parent() == Some(directory) {
                true => name.parse().ok()?,
                false => planes::record::Record::living(&path.with_extension("pid"))?.pid,
            };
            match UnixStream::connect(&path) {
                Ok(stream) => Some((pid, path, stream)),
                Err(_) => {
                    control::remove_if_stale(&path);
                    None
                }
            }
        })
        .collect();
    live.sort_by_key(|(pid, ..)| *pid);
    live
}

/// The command line of a process.
fn words(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim().chars().take(100).collect()
}

/// A router's words, for which it is waited with patience, but not without a word.
struct Patient {
    stream: Connection,
    patience: Duration,
}

impl std::io::Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(SOON)?;
        match self.stream.read(into) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            done => return done,
        }
        errln!(
            "junctor: the router has not answered for {} s; waiting for it ({} s at most)",
            SOON.as_secs(),
            self.patience.as_secs()
        );
        self.stream.set_read_timeout(self.patience - SOON)?;
        self.stream.read(into)
    }
}

/// Bytes that are read at once.
const AT_ONCE: usize = 8192;

/// A buffered reader that leaves nothing of what it has read in memory.
struct Forgetful {
    from: Patient,
    held: Zeroizing<Vec<u8>>,
    at: usize,
}

impl std::io::Read for Forgetful {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.fill_buf()?.read(into)?;
        self.consume(n);
        Ok(n)
    }
}

impl std::io::BufRead for Forgetful {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.at == self.held.len() {
            self.at = 0;
            self.held.zeroize();
            self.held.resize(AT_ONCE, 0);
            let read = self.from.read(&mut self.held);
            self.held.truncate(read.as_ref().map_or(0, |n| *n));
            read?;
        }
        Ok(&self.held[self.at..])
    }

    fn consume(&mut self, n: usize) {
        self.at += n;
    }
}

/// A conversation with a router. What is said may have keys: it is erased, but for what callers get.
pub(crate) struct Client(Forgetful);

impl Client {
    /// Waits for the router's greeting.
    pub(crate) fn new(stream: impl Into<Connection>) -> std::io::Result<Client> {
        let stream = stream.into();
        let from = Patient { stream, patience: PATIENCE };
        let mut client = Client(Forgetful { from, held: Zeroizing::default(), at: 0 });
        let greeting = client.line()?;
        if !greeting.starts_with("Click::ControlSocket/1.") {
            let why = format!("it does not speak the control protocol, but '{}'", greeting.escape_debug());
            return Err(std::io::Error::new(ErrorKind::InvalidData, why));
        }
        Ok(client)
    }

    /// Waits longer for answers.
    pub(crate) fn be_patient(&mut self) {
        self.0.from.patience = BUILDING;
    }

    /// Reads a handler.
    pub(crate) fn read(&mut self, name: &str) -> Result<String, Failure> {
        let (code, why) = self.ask(&format!("READ {name}"), "").map_err(lost)?;
        if code / 100 == 2 { self.data().map_err(lost) } else { Err(Failure::Refused(code, why)) }
    }

    /// Writes a handler; returns what the router said about it.
    pub(crate) fn write(&mut self, name: &str, value: &str) -> Result<String, Failure> {
        let (code, text) = self.ask(&format!("WRITEDATA {name} {}", value.len()), value).map_err(lost)?;
        // The first line only says whether it succeeded.
        let said = text.split_once('\n').map_or("", |(_, said)| said).to_owned();
        if code / 100 == 2 {
            return Ok(said);
        }
        Err(Failure::Refused(code, if said.is_empty() { text } else { said }))
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
        }
    }

    /// Sends a command with its data; returns the code and text of the answer.
    fn ask(&mut self, command: &str, data: &str) -> std::io::Result<(u16, String)> {
        // Room for all, so that no copy is left elsewhere.
        let mut request = Zeroizing::new(Vec::with_capacity(command.len() + 2 + data.len()));
        for part in [command, "\r\n", data] {
            request.extend_from_slice(part.as_bytes());
        }
        self.0.from.stream.write_all(&request)?;
        let mut text = Vec::new();
        loop {
            let line = self.line()?;
            let bad = || std::io::Error::new(ErrorKind::InvalidData, format!("unexpected answer '{line}'"));
            let code = line.get(..3).and_then(|c| c.parse().ok()).ok_or_else(bad)?;
            text.push(line.get(4..).unwrap_or_default().to_owned());
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok((code, text.join("\n")));
            }
        }
    }

    /// The data that follows the answer to a read.
    fn data(&mut self) -> std::io::Result<String> {
        let line = self.line()?;
        let bad = || std::io::Error::new(ErrorKind::InvalidData, format!("unexpected answer '{line}'"));
        let len: usize = line.strip_prefix("DATA ").and_then(|n| n.parse().ok()).ok_or_else(bad)?;
        let mut data = Zeroizing::new(Vec::with_capacity(len.min(LONGEST)));
        while data.len() < len {
            let there = self.0.fill_buf()?;
            if there.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let n = there.len().min(len - data.len());
            data.extend_from_slice(&there[..n]);
            self.0.consume(n);
        }
        // Text is handed on as it is, without a copy.
        Ok(String::from_utf8(std::mem::take(&mut *data))
            .unwrap_or_else(|why| String::from_utf8_lossy(&Zeroizing::new(why.into_bytes())).into()))
    }
}

/// Bytes for which room is made before they come.
const LONGEST: usize = 1 << 20;

/// The conversation broke off.
pub(crate) fn lost(e: std::io::Error) -> Failure {
    match e.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Failure::Ended,
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::Unreachable(format!(
            "the router has not answered for {} s; see whether it is stopped (kill -CONT), and what else its processors do",
            PATIENCE.as_secs()
        )),
        _ => Failure::Unreachable(format!("the router's answer: {e}")),
    }
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

/// Makes the call.
fn call(args: &Args, stream: Connection) -> Result<Done, Failure> {
    let name = &args.handler;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(Failure::Unclear(format!("'{name}' is no name of a handler")));
    }
    let mut client = Client::new(stream).map_err(lost)?;
    let mut value = given(&args.value).map_err(Failure::Unclear)?;
    if name == "hotconfig" {
        client.be_patient();
        if is_path(&value) {
            value = text_of(&value).map_err(Failure::Unclear)?.into();
        }
    }
    let mut write = args.write || (!args.read && !args.value.is_empty());
    if !write && !args.read {
        let (code, why) = client.ask(&format!("CHECKREAD {name}"), "").map_err(lost)?;
        // One that exists, but is not for reading.
        write = code != 200 && client.ask(&format!("CHECKWRITE {name}"), "").map_err(lost)?.0 == 200;
        if code != 200 && !write {
            return Err(Failure::Refused(code, why));
        }
    }
    let command = if write { "WRITEDATA" } else { "READDATA" };
    let (code, why) = client.ask(&format!("{command} {name} {}", value.len()), &value).map_err(lost)?;
    match (code / 100, write) {
        (2, true) => Ok(Done::Written(why.split_once('\n').map_or("", |(_, said)| said).into())),
        (2, false) => client.data().map(Done::Read).map_err(lost),
        _ => Err(Failure::Refused(code, why)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

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

    #[test]
    fn the_only_live_socket_is_chosen() {
        let dir = tempfile::tempdir().unwrap();
        let path = |pid: u32| dir.path().join(format!("{pid}.sock"));
        let why = |r: Result<(PathBuf, UnixStream), Failure>| match r {
            Err(why) => why.into_words().0,
            Ok(_) => String::new(),
        };
        assert!(why(choose(dir.path(), None)).contains("no router is running"));

        let control_planes = dir.path().join("control");
        std::fs::create_dir(&control_planes).unwrap();
        let _control_plane = UnixListener::bind(control_planes.join("7.sock")).unwrap();
        assert!(why(choose(dir.path(), None)).contains("no router is running"));

        let first = UnixListener::bind(path(11)).unwrap();
        drop(UnixListener::bind(path(12)).unwrap());
        std::fs::write(dir.path().join("notes"), "").unwrap();
        assert_eq!(why(choose(dir.path(), None)), "");
        assert!(!path(12).exists() && path(11).exists(), "the socket left behind goes, the other stays");

        let second = UnixListener::bind(path(13)).unwrap();
        let several = why(choose(dir.path(), None));
        assert!(several.contains("--pid 11") && several.contains("--pid 13"), "{several}");
        assert_eq!(why(choose(dir.path(), Some(13))), "");
        assert!(why(choose(dir.path(), Some(14))).contains("process 14"));
        drop((first, second));
    }
}
