// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first process of a guest.

use std::io::{BufRead as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Guest, Machine, REGION, REGION_BYTES, Word, kvm, relay};
use crate::Error;
use crate::first::wait_for;
use crate::machine::text;
use crate::namespace::ip;
use crate::notify::{self, Listener, Said};

/// The shared memory in User Mode Linux.
const MMAPPER: &str = "/dev/mmapper";
/// The device of the shared memory in a virtual machine (QEMU's `docs/specs/ivshmem-spec.txt`): vendor and device.
const IVSHMEM: (&str, &str) = ("0x1af4", "0x1110");
/// How the machine's files are mounted in one.
const SHARE: &str = "trans=virtio,version=9p2000.L,msize=262144,cache=mmap";
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

/// Does all that the first process of a guest has to do; the guest ends with it. `modules`: where the kernel's drivers are, if this is
/// its initial file system.
pub fn run(file: &Path, modules: Option<&Path>) -> ! {
    say(&Word::Begins);
    let ready = modules.map_or(Ok(()), take_root);
    let word = match ready.and_then(|()| start(file)) {
        Ok(word) => word,
        Err(why) => Word::Failed(why.to_string()),
    };
    say(&word);
    rustix::fs::sync();
    std::thread::sleep(LAST_WORDS);
    let _ = nix::sys::reboot::reboot(nix::sys::reboot::RebootMode::RB_POWER_OFF);
    std::process::exit(1)
}

fn start(file: &Path) -> Result<Word, Error> {
    // Read before `/run`, where it lies, is hidden.
    let guest = Guest::read(file)?;
    mount_all(&guest)?;
    let _ = nix::unistd::sethostname(&guest.name);
    interfaces(&guest, file)?;
    let shared = guest.shared.as_ref().map(|_| shared(&guest)).transpose()?;
    let region = shared.as_deref().zip(guest.region_bytes());
    if let (Some(region), false) = (region, guest.reaches.is_empty()) {
        let planes: Vec<String> = guest.reaches.iter().map(|(plane, _)| plane.clone()).collect();
        relay::guest(region, Path::new(SOCKETS), &planes)?;
    }
    let listener = Listener::bind(Path::new(NOTIFY)).map_err(Error::system(NOTIFY))?;
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
    let (program, arguments) = guest.command.split_first().ok_or_else(|| Error::unfit("no command"))?;
    let mut command = Command::new(program);
    command.args(arguments).envs(guest.environment.iter().map(|(name, value)| (name, value)));
    command.env(notify::SOCKET, NOTIFY).process_group(0);
    command.stdin(std::process::Stdio::null());
    if let Some(time) = guest.heartbeat {
        command.env(notify::HEARTBEAT_US, time.as_micros().to_string());
    }
    match (region, &shared) {
        (Some((file, bytes)), _) if !guest.channels.is_empty() => {
            command.env(REGION, file).env(REGION_BYTES, bytes.to_string());
        }
        (None, Some(shared)) => drop(command.env("JUNCTOR_SHARED", shared)),
        _ => {}
    }
    command.current_dir(&guest.directory);
    let child = command.spawn().map_err(Error::system(program))?;
    let pid = Pid::from_child(&child);
    say(&Word::Started);
    std::thread::spawn(move || obey(pid));
    wait_for(pid).map(Word::Exit).map_err(|why| Error::system("waiting for the program")(why.into()))
}

/// Ends the program when the host says so.
fn obey(program: Pid) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if line.trim() == "stop" {
            let _ = kill_process_group(program, Signal::TERM);
        }
    }
}

/// Loads drivers, and makes the machine's files the root.
fn take_root(modules: &Path) -> Result<(), Error> {
    let entries = std::fs::read_dir(modules).map_err(Error::file(modules))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let load = |path: &PathBuf| {
        let file = std::fs::File::open(path).map_err(Error::file(path))?;
        finit_module(&file, c"", ModuleInitFlags::empty()).map_err(Error::kernel(path.display()))
    };
    // Kernels differ in which driver needs which: those that failed are tried again once others are there.
    let mut wrong = Vec::new();
    while !files.is_empty() {
        let before = files.len();
        wrong.clear();
        files.retain(|path| load(path).map_err(|why| wrong.push(why)).is_err());
        if files.len() == before {
            return Err(Error::Drivers(wrong));
        }
    }
    mount_share(kvm::ROOT, Path::new("/root"), MsFlags::MS_RDONLY)?;
    let failed = Error::kernel("the machine's files as root");
    std::env::set_current_dir("/root")?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).map_err(&failed)?;
    nix::unistd::chroot(".").map_err(&failed)?;
    std::env::set_current_dir("/")?;
    let devices = mount(Some("devtmpfs"), "/dev", Some("devtmpfs"), MsFlags::empty(), None::<&str>);
    devices.map_err(Error::kernel("cannot mount devtmpfs"))
}

/// Mounts a directory of the machine that has this tag.
fn mount_share(tag: &str, at: &Path, flags: MsFlags) -> Result<(), Error> {
    let mounted = mount(Some(tag), at, Some("9p"), flags, Some(SHARE));
    mounted.map_err(Error::kernel(format_args!("cannot mount {} of the machine by 9p", at.display())))
}

/// The shared memory of this guest.
fn shared(guest: &Guest) -> Result<PathBuf, Error> {
    if guest.machine == Machine::Uml {
        return Ok(PathBuf::from(MMAPPER));
    }
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let is = |path: &Path, file: &str, id: &str| text(path.join(file)).is_some_and(|found| found == id);
    let device = devices
        .map(|entry| entry.path())
        .find(|path| is(path, "vendor", IVSHMEM.0) && is(path, "device", IVSHMEM.1));
    let device = device.ok_or_else(|| Error::unfit("the machine has no ivshmem device"))?;
    std::fs::write(device.join("enable"), "1").map_err(Error::system("the ivshmem device"))?;
    Ok(device.join("resource2"))
}

/// Mounts what programs expect.
fn mount_all(guest: &Guest) -> Result<(), Error> {
    let make = |kind: &str, at: &str| {
        let made = mount(Some(kind), at, Some(kind), MsFlags::empty(), None::<&str>);
        made.map_err(Error::kernel(format_args!("cannot mount {kind} at {at}")))
    };
    make("proc", "/proc")?;
    make("sysfs", "/sys")?;
    let is_hidden = OWN.iter().any(|own| guest.directory.starts_with(own));
    let hidden = is_hidden.then(|| std::fs::File::open(&guest.directory)).transpose();
    let hidden = hidden.map_err(Error::file(&guest.directory))?;
    for at in OWN {
        make("tmpfs", at)?;
    }
    if let Some(hidden) = hidden {
        // Where a file system of the guest's own hides it, its place has to be made first.
        let _ = std::fs::create_dir_all(&guest.directory);
        let from = format!("/proc/self/fd/{}", hidden.as_raw_fd());
        let mounted = mount(Some(&*from), &guest.directory, None::<&str>, MsFlags::MS_BIND, None::<&str>);
        mounted.map_err(Error::kernel(format_args!("cannot mount {}", guest.directory.display())))?;
    }
    // Without modules the guest has what is in its kernel.
    if guest.machine == Machine::Uml && Path::new(MODULES).is_dir() {
        let _ = mount(Some(MODULES), "/usr/lib/modules", None::<&str>, MsFlags::MS_BIND, None::<&str>);
    }
    for (number, directory) in guest.writable.iter().enumerate() {
        let _ = std::fs::create_dir_all(directory);
        match &guest.machine {
            Machine::Uml => mount_from_host(directory)?,
            Machine::Qemu(_) => mount_share(&kvm::tag(number), directory, MsFlags::empty())?,
        }
    }
    Ok(())
}

/// Mounts a directory of the machine at the same place in the guest.
fn mount_from_host(directory: &Path) -> Result<(), Error> {
    let text = directory.display().to_string();
    let mounted = mount(Some("none"), directory, Some("hostfs"), MsFlags::empty(), Some(&*text));
    mounted.map_err(Error::kernel(format_args!("cannot mount {text} of the machine")))
}

/// Brings interfaces up, under the names that they have outside.
fn interfaces(guest: &Guest, file: &Path) -> Result<(), Error> {
    ip(&["link", "set", "lo", "up"])?;
    for (number, name) in guest.interfaces.iter().enumerate() {
        let given = match &guest.machine {
            Machine::Uml => format!("vec{number}"),
            Machine::Qemu(_) => with_address(&kvm::mac(file, name))
                .ok_or_else(|| Error::unfit(format!("there is no interface for {name}")))?,
        };
        if given != *name {
            ip(&["link", "set", &given, "name", name])?;
        }
        ip(&["link", "set", name, "up"])?;
    }
    Ok(())
}

/// The interface that has this address.
fn with_address(mac: &str) -> Option<String> {
    let all = std::fs::read_dir("/sys/class/net").ok()?.flatten();
    let found =
        all.into_iter().find(|entry| text(entry.path().join("address")).is_some_and(|found| found == mac))?;
    found.file_name().into_string().ok()
}
