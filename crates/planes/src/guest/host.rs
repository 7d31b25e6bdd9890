// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's side of a guest: starts its kernel, and stands for it before the supervisor.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{Guest, KERNEL, Word, relay};
use crate::notify::Notifier;

/// The longest line of a guest's program.
const LONGEST_LINE: u64 = 64 << 10;
/// The exit status if the guest ended without a word.
const LOST: u8 = 124;

/// Lines of a kernel that does not start that are shown.
const KERNEL_LINES: usize = 20;
/// Frames that a virtual interface takes at a time.
const DEPTH: u32 = 128;

/// The kernel's command.
fn kernel(guest: &Guest, file: &Path) -> Command {
    // It ends with this process, even if that is killed.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", KERNEL]);
    command.arg(format!("mem={}K", guest.memory >> 10));
    command.args([
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "quiet",
        "con=null",
        "con0=fd:0,fd:1",
    ]);
    command.arg(format!("umid=junctor-{}", std::process::id()));
    for (number, tap) in guest.interfaces.iter().enumerate() {
        command.arg(format!("vec{number}:transport=tap,ifname={tap},depth={DEPTH}"));
    }
    if let Some(shared) = &guest.shared {
        command.arg(format!("iomem=mmapper,{}", shared.display()));
    }
    command.arg(format!("init={}", guest.init.display()));
    // What stands behind the dashes goes to the first process.
    command.args(["--", "guest", "--init"]).arg(file);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // What the supervisor sends to this process's group is not for the kernel, which would end at once.
    command.process_group(0);
    command
}

/// Runs a guest to its end. Returns the exit status of the plane's program.
///
/// # Errors
/// The kernel cannot be started, or the guest could not start the program.
pub fn run(file: &Path) -> Result<u8, String> {
    let guest = Guest::read(file)?;
    if let (Some(shared), false) = (&guest.shared, guest.reaches.is_empty()) {
        relay::host(shared, guest.reaches.clone())?;
    }
    let mut child = kernel(&guest, file).spawn().map_err(|why| format!("{KERNEL}: {why}"))?;
    let stopped = pass_on_signals(&mut child);
    let console = child.stdout.take().ok_or("the guest has no console")?;
    let outcome = listen(console, guest.ready_when_started);
    let status = child.wait().map_err(|why| format!("{KERNEL}: {why}"))?;
    drop(stopped);
    match outcome {
        Outcome::Exit(status) => Ok(u8::try_from(status).unwrap_or(1)),
        Outcome::Failed(why) => Err(why),
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

/// Takes the guest's words, and prints what is not one.
fn listen(console: impl std::io::Read, ready_when_started: bool) -> Outcome {
    let notifier = Notifier::from_environment();
    let notify = |lines: &str| notifier.iter().for_each(|notifier| notifier.send(lines));
    let mut outcome = Outcome::Lost;
    // What the kernel says while it starts is of interest if it does not.
    let mut begins = Some(VecDeque::new());
    let mut console = BufReader::new(console);
    loop {
        let mut line = Vec::new();
        match std::io::Read::take(&mut console, LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => {
                begins.into_iter().flatten().for_each(|line: String| print(&line));
                return outcome;
            }
            Ok(_) => {}
        }
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
            // The console echoes what it is told, and the kernel takes leave.
            None if text == "stop" || text.starts_with("reboot: ") => {}
            None => match &mut begins {
                Some(lines) => {
                    lines.push_back(text.to_owned());
                    lines.drain(..lines.len().saturating_sub(KERNEL_LINES));
                }
                None => print(text),
            },
        }
    }
}
