// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual machines: a Linux kernel of a distribution in QEMU, by KVM or emulated.
//!
//! A distribution's kernel has its drivers in files. So the machine makes an initial file system ([`super::initramfs`]) with this
//! program and the drivers that the guest needs to see the machine's files. These come by 9P, which QEMU serves itself. Shared memory
//! is the second resource of an `ivshmem-plain` device, interfaces are of kind virtio-net over taps, and the console is a serial line.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::CpuSet;

use super::trial::Attempt;
use super::{Guest, Qemu, initramfs};
use crate::Error;
use crate::deployment::find_program;
use crate::machine::text;

/// The program.
pub const QEMU: &str = "qemu-system-x86_64";
/// The least memory that a distribution's kernel and the initial file system need.
pub const LEAST_MEMORY: u64 = 192 << 20;
/// Where kernels are installed.
const BOOT: &str = "/boot";
/// The tag of the machine's root directory.
pub(super) const ROOT: &str = "root";
/// How long the threads of the processors may take to appear, and how often they are looked for.
const THREADS: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The tag of a writable directory.
pub(super) fn tag(number: usize) -> String {
    format!("writable{number}")
}

/// Numbers in a name, to find the newest kernel.
fn version(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// The newest kernel of this machine that can see the machine's files.
///
/// # Errors
/// Why there is none.
pub fn find_kernel() -> Result<PathBuf, Error> {
    let entries = std::fs::read_dir(BOOT).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut kernels: Vec<PathBuf> =
        entries.filter(|path| path.to_string_lossy().contains("/vmlinuz-")).collect();
    kernels.sort_by_key(|path| version(path));
    let mut wrong = Error::Unfit(format!("there is no kernel {BOOT}/vmlinuz-*"));
    for kernel in kernels.into_iter().rev() {
        match initramfs::modules(&kernel) {
            Ok(_) => return Ok(kernel),
            Err(why) => wrong = why,
        }
    }
    Err(wrong)
}

/// What keeps this machine from having virtual machines at all: what is wrong, and how to fix it.
///
/// # Errors
/// Both.
pub fn offered(kernel: Option<&Path>) -> Result<PathBuf, (String, &'static str)> {
    const INSTALL: &str = "apt-get install qemu-system-x86";
    if find_program(QEMU, Path::new("/")).is_none() {
        return Err((format!("there is no program {QEMU}"), INSTALL));
    }
    if find_program("setpriv", Path::new("/")).is_none() {
        return Err(("there is no program setpriv, which starts it".into(), "apt-get install util-linux"));
    }
    let kernel = kernel.map_or_else(find_kernel, |kernel| initramfs::modules(kernel).map(|_| kernel.into()));
    kernel.map_err(|why| {
        (
            why.to_string(),
            "apt-get install linux-image-amd64 (kernels for clouds lack 9p), or give kernel = \"FILE\"",
        )
    })
}

/// A path in an option: commas part options.
fn option(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// What all machines have.
fn machine(emulated: bool) -> [&'static str; 15] {
    let (accel, cpu) = if emulated { ("tcg,thread=multi", "max") } else { ("kvm", "host") };
    let console = "stdio,id=console,signal=off";
    [
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-machine",
        "pc",
        "-accel",
        accel,
        "-cpu",
        cpu,
        "-chardev",
        console,
        "-serial",
        "chardev:console",
    ]
}

/// The command of a guest's machine. `directory` holds its files.
///
/// # Errors
/// The initial file system cannot be made.
pub(super) fn command(guest: &Guest, qemu: &Qemu, file: &Path, directory: &Path) -> Result<Command, Error> {
    let initrd = directory.join("initrd");
    initramfs::write(&initrd, &guest.init, &qemu.kernel)?;
    let mut command = Command::new(QEMU);
    command.args(machine(qemu.emulated));
    command.args(["-name", &format!("{},debug-threads=on", guest.name)]);
    command.args(["-m", &format!("{}M", guest.memory >> 20)]);
    command.args(["-smp", &qemu.processors.to_string()]);
    share(&mut command, ROOT, Path::new("/"), ",readonly=on");
    for (number, writable) in guest.writable.iter().enumerate() {
        share(&mut command, &tag(number), writable, "");
    }
    if let Some(shared) = &guest.shared {
        let bytes = shared.metadata().map_err(Error::file(shared))?.len();
        let path = option(shared);
        let memory = format!("memory-backend-file,id=shared,share=on,size={bytes},mem-path={path}");
        command.args(["-object", &memory, "-device", "ivshmem-plain,memdev=shared"]);
    }
    for (number, tap) in guest.interfaces.iter().enumerate() {
        let netdev = format!("tap,id=net{number},ifname={tap},script=no,downscript=no");
        let device = format!("virtio-net-pci,netdev=net{number},romfile=,mac={}", mac(file, tap));
        command.args(["-netdev", &netdev, "-device", &device]);
    }
    command.arg("-kernel").arg(&qemu.kernel).arg("-initrd").arg(&initrd);
    let init = format!("guest --init --modules {} {}", initramfs::MODULES, file.display());
    command.args(["-append", &format!("console=ttyS0 quiet panic=-1 -- {init}")]);
    Ok(command)
}

fn share(command: &mut Command, tag: &str, directory: &Path, more: &str) {
    let path = option(directory);
    let share = format!("local,id={tag},path={path},security_model=none,multidevs=remap{more}");
    command.args(["-fsdev", &share]);
    command.args(["-device", &format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}")]);
}

/// The address of a guest's interface: the same whenever the guest is started, and another one for each guest.
pub(super) fn mac(file: &Path, tap: &str) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    (file, tap).hash(&mut hasher);
    let bytes = hasher.finish().to_le_bytes();
    // Locally administered.
    bytes[..5].iter().fold("02".to_owned(), |text, byte| format!("{text}:{byte:02x}"))
}

/// Binds each processor of a machine to a core of its own, as soon as its threads are there. Otherwise the scheduler moves them.
pub(super) fn pin(machine: u32, cores: Vec<usize>) {
    std::thread::spawn(move || {
        let begun = Instant::now();
        let mut left: Vec<(usize, usize)> = cores.into_iter().enumerate().collect();
        while !left.is_empty() && begun.elapsed() < THREADS {
            left.retain(|(number, core)| !bind(machine, *number, *core));
            std::thread::sleep(LOOK_EVERY);
        }
        if !left.is_empty() {
            println!("junctor: {} processors of the guest are not bound to cores of their own", left.len());
        }
    });
}

/// Binds the thread of a processor; returns whether it was there.
fn bind(machine: u32, number: usize, core: usize) -> bool {
    let name = format!("CPU {number}/");
    let tasks = std::fs::read_dir(format!("/proc/{machine}/task")).into_iter().flatten().flatten();
    let is_it = |path: &Path| text(path.join("comm")).is_some_and(|comm| comm.starts_with(&name));
    let Some(task) = tasks.map(|task| task.path()).find(|path| is_it(path)) else { return false };
    let number = task.file_name().and_then(|name| name.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let mut set = CpuSet::new();
    set.set(core);
    number.is_some_and(|thread| rustix::thread::sched_setaffinity(Some(thread), &set).is_ok())
}

/// Whether a kernel starts in a virtual machine of this machine. It is tried: there are machines with a `/dev/kvm` where programs
/// of a few instructions run, and no kernel does. Without a root file system, a kernel that starts gives up within a few seconds.
///
/// # Errors
/// Why it does not.
pub fn trial(kernel: &Path, emulated: bool) -> Result<(), Error> {
    if !emulated && let Err(why) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        return Err(Error::system("/dev/kvm")(why));
    }
    let mut command = Command::new(QEMU);
    command.args(machine(emulated)).args(["-m", "256M", "-kernel"]);
    command.arg(kernel).args(["-append", "console=ttyS0 earlyprintk=serial panic=-1"]);
    let attempt = Attempt::make(command, QEMU)?;
    // The kernel's last words when it finds no root file system.
    if attempt.ended_by_itself() && attempt.said("Linux version") && attempt.said("Kernel panic") {
        return Ok(());
    }
    Err(Error::Unfit(attempt.why(QEMU)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_lasting_and_local() {
        let of = |tap| mac(Path::new("/run/junctor/edge/a.guest"), tap);
        assert_eq!(of("c0"), of("c0"));
        assert_ne!(of("c0"), of("c1"));
        assert!(of("c0").starts_with("02:") && of("c0").len() == 17, "{}", of("c0"));
    }

    /// By emulation, with the kernel that `$JUNCTOR_KERNEL` names.
    #[test]
    fn a_kernel_that_starts_is_told_from_a_file_that_does_not() {
        let given = std::env::var_os("JUNCTOR_KERNEL").map(PathBuf::from);
        if find_program(QEMU, Path::new("/")).is_none() {
            eprintln!("left out: there is no {QEMU}");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let none = directory.path().join("vmlinuz-0");
        std::fs::write(&none, "no kernel").unwrap();
        assert!(trial(&none, true).unwrap_err().to_string().contains(QEMU));
        match given {
            Some(kernel) => assert_eq!(trial(&kernel, true).map_err(|why| why.to_string()), Ok(())),
            None => eprintln!("left out: no $JUNCTOR_KERNEL"),
        }
    }

    #[test]
    fn the_newest_kernel_is_the_one_with_the_greatest_version() {
        let mut all: Vec<PathBuf> =
            ["vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-56-amd64", "vmlinuz-5.10.0-99-amd64"]
                .map(PathBuf::from)
                .to_vec();
        all.sort_by_key(|path| version(path));
        assert_eq!(all.last(), Some(&PathBuf::from("vmlinuz-6.1.0-56-amd64")));
    }
}
