// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's side of a guest: starts its kernel, and stands for it before the supervisor.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Guest, MARK, Machine, Word, kvm, relay, statistics, uml};
use crate::Error;
use crate::notify::Notifier;

/// The longest line of a guest's program.
const LONGEST_LINE: usize = 64 << 10;
/// The exit status if the guest ended without a word.
const LOST: u8 = 124;

/// Lines of a kernel that does not start that are shown.
const KERNEL_LINES: usize = 20;

/// Where the kernel, or its machine, keeps its files: below the directory of the guest's file, under this name.
fn umid(guest: &Guest) -> String {
    format!("{}.uml", guest.name)
}

/// The command that starts the guest's kernel.
fn kernel(guest: &Guest, file: &Path) -> Result<Command, Error> {
    let started = match &guest.machine {
        Machine::Uml => uml::command(guest, file, &directory(file), &umid(guest)),
        Machine::Qemu(qemu) => {
            let own = directory(file).join(umid(guest));
            std::fs::create_dir_all(&own).map_err(Error::file(&own))?;
            kvm::command(guest, qemu, file, &own)?
        }
    };
    // It ends with this process, even if that is killed.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(started.get_program()).args(started.get_args());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // What the supervisor sends to this process's group is not for the kernel, which would end at once.
    command.process_group(0);
    Ok(command)
}

fn directory(file: &Path) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    file.parent().unwrap_or(Path::new("/")).to_owned()
}

/// Runs a guest to its end. Returns the exit status of the plane's program.
///
/// # Errors
/// The kernel cannot be started, or the guest could not start the program.
pub fn run(file: &Path) -> Result<u8, Error> {
    let guest = Guest::read(file)?;
    let region = guest.shared.as_ref().map(|shared| guest.make_region(shared)).transpose()?.flatten();
    if let Some(region) = &region {
        if !guest.reaches.is_empty() {
            relay::host(region, guest.reaches.clone())?;
        }
        statistics::copy(region, &guest.domain, guest.channels.iter().map(|(name, _)| name.clone()));
    }
    let mut child = kernel(&guest, file)?.spawn().map_err(Error::system("setpriv"))?;
    if let Machine::Qemu(qemu) = &guest.machine {
        kvm::pin(child.id(), qemu.cores.clone());
    }
    let stopped = pass_on_signals(&mut child);
    let console = child.stdout.take().ok_or_else(|| Error::unfit("the guest has no console"))?;
    let outcome = listen(console, guest.ready_when_started);
    let status = child.wait().map_err(Error::system("the guest's kernel"))?;
    drop(stopped);
    let _ = std::fs::remove_dir_all(directory(file).join(umid(&guest)));
    match outcome {
        Outcome::Exit(status) => Ok(u8::try_from(status).unwrap_or(1)),
        Outcome::Failed(why) => Err(Error::Guest(why)),
        Outcome::Lost => {
            println!("the guest ended without a word: {status}");
            Ok(LOST)
        }
    }
}

/// SIGTERM and SIGINT ask the guest to end.
fn pass_on_signals(child: &mut Child) -> Option<signal_hook::iterator::Handle> {
    let mut input = child.stdin.take()?;
    let mut signals =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])
            .ok()?;
    let handle = signals.handle();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            let _ = input.write_all(b"stop\n");
        }
    });
    Some(handle)
}

fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

enum Outcome {
    Exit(i32),
    Failed(String),
    Lost,
}

/// Reads up to the end of a line, or up to a mark: what the program printed before it may have no line end. Nothing at the end.
fn piece(console: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut piece = Vec::new();
    loop {
        let bytes = console.fill_buf().ok()?;
        let room = bytes.len().min(LONGEST_LINE - piece.len());
        if room == 0 {
            return (!piece.is_empty()).then_some(piece);
        }
        let is_first = piece.is_empty();
        let ends = |(at, byte): (usize, &u8)| match *byte {
            b'\n' => Some(at + 1),
            byte if byte == MARK as u8 && (at > 0 || !is_first) => Some(at),
            _ => None,
        };
        let end = bytes[..room].iter().enumerate().find_map(ends);
        let length = end.unwrap_or(room);
        piece.extend_from_slice(&bytes[..length]);
        console.consume(length);
        if end.is_some() {
            return Some(piece);
        }
    }
}

/// Takes the guest's words, and prints what is not one.
fn listen(console: impl std::io::Read, ready_when_started: bool) -> Outcome {
    let notifier = Notifier::from_environment();
    let notify = |lines: &str| notifier.iter().for_each(|notifier| notifier.send(lines));
    let mut outcome = Outcome::Lost;
    // What the kernel says while it starts is of interest if it does not.
    let mut begins = Some(VecDeque::new());
    let mut console = BufReader::new(console);
    while let Some(line) = piece(&mut console) {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        match Word::parse(text) {
            Some(Word::Begins) => begins = None,
            Some(Word::Started) if ready_when_started => notify("READY=1"),
            Some(Word::Started) => {}
            Some(Word::Ready) => notify("READY=1"),
            Some(Word::Heartbeat) => notify("WATCHDOG=1"),
            Some(Word::Exit(status)) => outcome = Outcome::Exit(status),
            Some(Word::Failed(why)) => outcome = Outcome::Failed(why),
            // The console echoes its input, and the kernel takes leave.
            None if text == "stop" || text.contains("reboot: Power down") || text.starts_with("reboot: ") => {
            }
            None => match &mut begins {
                Some(lines) => {
                    lines.push_back(text.to_owned());
                    lines.drain(..lines.len().saturating_sub(KERNEL_LINES));
                }
                None => print(text),
            },
        }
    }
    begins.into_iter().flatten().for_each(|line: String| print(&line));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &[u8], at_a_time: usize) -> Vec<String> {
        let mut console = BufReader::with_capacity(at_a_time, text);
        let pieces = std::iter::from_fn(|| piece(&mut console));
        pieces.map(|piece| String::from_utf8(piece).unwrap()).collect()
    }

    #[test]
    fn words_are_found_behind_output_without_line_ends() {
        let text = b"a\n> \x1eready\r\n> b\n\x1eheartbeat\n\n$ \x1eexit 3\r\nrest";
        let all =
            ["a\n", "> ", "\x1eready\r\n", "> b\n", "\x1eheartbeat\n", "\n", "$ ", "\x1eexit 3\r\n", "rest"];
        for at_a_time in [1, 2, 3, 7, 1000] {
            assert_eq!(pieces(text, at_a_time), all, "{at_a_time}");
        }
        let long = vec![b'x'; LONGEST_LINE + 1];
        assert_eq!(pieces(&long, 1000).iter().map(String::len).collect::<Vec<_>>(), [LONGEST_LINE, 1]);
        assert!(matches!(listen(&text[..], true), Outcome::Exit(3)));
    }

    #[test]
    fn the_kernels_files_lie_next_to_the_guests() {
        let guest: Guest = serde_json::from_str(super::super::EXAMPLE).unwrap();
        let command = kernel(&guest, Path::new("/run/junctor/edge/control.guest")).unwrap();
        let arguments: Vec<_> = command.get_args().filter_map(|argument| argument.to_str()).collect();
        for expected in ["umid=control.uml", "uml_dir=/run/junctor/edge"] {
            assert!(arguments.contains(&expected), "{arguments:?}");
        }
    }
}
