// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first process of a guest.

use std::io::{BufRead as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group};

use super::{Guest, SHARED, Word, relay};
use crate::namespace::ip;
use crate::notify::{self, Listener, Said};

/// Where the control sockets of planes are, as on the machine.
const SOCKETS: &str = "/run/junctor";
/// Where the guest's program sends its notifications.
const NOTIFY: &str = "/run/notify";
/// Where the kernel's package keeps the modules of a guest.
const MODULES: &str = "/usr/lib/uml/modules";
/// Directories that are the guest's own, and empty.
const OWN: [&str; 3] = ["/run", "/tmp", "/var/tmp"];
/// How long the console gets for its last lines.
const LAST_WORDS: Duration = Duration::from_millis(20);

fn say(word: &Word) {
    print(&word.line());
}

fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Does all that the first process of a guest has to do; the guest ends with it.
pub fn run(file: &Path) -> ! {
    say(&Word::Begins);
    let word = match start(file) {
        Ok(word) => word,
        Err(why) => Word::Failed(why),
    };
    say(&word);
    rustix::fs::sync();
    std::thread::sleep(LAST_WORDS);
    let _ = nix::sys::reboot::reboot(nix::sys::reboot::RebootMode::RB_POWER_OFF);
    std::process::exit(1)
}

fn start(file: &Path) -> Result<Word, String> {
    // Read before `/run`, where it lies, is hidden.
    let guest = Guest::read(file)?;
    mount_all(&guest)?;
    let _ = nix::unistd::sethostname(&guest.name);
    interfaces(&guest)?;
    if !guest.reaches.is_empty() {
        let planes: Vec<String> = guest.reaches.iter().map(|(plane, _)| plane.clone()).collect();
        relay::guest(Path::new(SHARED), Path::new(SOCKETS), &planes)?;
    }
    let listener = Listener::bind(Path::new(NOTIFY)).map_err(|why| format!("{NOTIFY}: {why}"))?;
    std::thread::spawn(move || {
        while let Ok(news) = listener.next() {
            for said in news {
                match said {
                    Said::Ready => say(&Word::Ready),
                    Said::Heartbeat => say(&Word::Heartbeat),
                    // It would be closed with the guest.
                    Said::Store(..) | Said::Forget(_) => {}
                }
            }
        }
    });
    let (program, arguments) = guest.command.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(guest.environment.iter().map(|(name, value)| (name, value)));
    command.env(notify::SOCKET, NOTIFY).process_group(0);
    command.stdin(std::process::Stdio::null());
    if let Some(time) = guest.heartbeat {
        command.env(notify::HEARTBEAT_US, time.as_micros().to_string());
    }
    if guest.shared.is_some() && guest.reaches.is_empty() {
        command.env("JUNCTOR_SHARED", SHARED);
    }
    command.current_dir(&guest.directory);
    let child = command.spawn().map_err(|why| format!("{program}: {why}"))?;
    let pid = Pid::from_child(&child);
    say(&Word::Started);
    std::thread::spawn(move || obey(pid));
    wait_for(pid)
}

/// Ends the program when the host says so.
fn obey(program: Pid) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if line.trim() == "stop" {
            let _ = kill_process_group(program, Signal::TERM);
        }
    }
}

/// Waits for the program; takes leave of all others that end.
fn wait_for(program: Pid) -> Result<Word, String> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                let status = std::process::ExitStatus::from_raw(status.as_raw());
                return Ok(Word::Exit(status.code().unwrap_or(128 + status.signal().unwrap_or(0))));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(format!("waiting for the program: {why}")),
        }
    }
}

/// Mounts what programs expect.
fn mount_all(guest: &Guest) -> Result<(), String> {
    let make = |kind: &str, at: &str| {
        let made = mount(Some(kind), at, Some(kind), MsFlags::empty(), None::<&str>);
        made.map_err(|why| format!("cannot mount {kind} at {at}: {why}"))
    };
    make("proc", "/proc")?;
    make("sysfs", "/sys")?;
    for at in OWN {
        make("tmpfs", at)?;
    }
    if OWN.iter().any(|own| guest.directory.starts_with(own)) {
        mount_from_host(&guest.directory, MsFlags::MS_RDONLY)?;
    }
    // Without modules the guest has what is in its kernel.
    if Path::new(MODULES).is_dir() {
        let _ = mount(Some(MODULES), "/usr/lib/modules", None::<&str>, MsFlags::MS_BIND, None::<&str>);
    }
    guest.writable.iter().try_for_each(|directory| mount_from_host(directory, MsFlags::empty()))
}

/// Mounts a directory of the machine at the same place in the guest.
fn mount_from_host(directory: &Path, flags: MsFlags) -> Result<(), String> {
    let text = directory.display().to_string();
    // Where a file system of the guest's own hides it, its place has to be made first.
    let _ = std::fs::create_dir_all(directory);
    let mounted = mount(Some("none"), directory, Some("hostfs"), flags, Some(&*text));
    mounted.map_err(|why| format!("cannot mount {text} of the machine: {why}"))
}

/// Brings interfaces up, under the names that they have outside.
fn interfaces(guest: &Guest) -> Result<(), String> {
    ip(&["link", "set", "lo", "up"])?;
    for (number, name) in guest.interfaces.iter().enumerate() {
        let given = format!("vec{number}");
        if given != *name {
            ip(&["link", "set", &given, "name", name])?;
        }
        ip(&["link", "set", name, "up"])?;
    }
    Ok(())
}
