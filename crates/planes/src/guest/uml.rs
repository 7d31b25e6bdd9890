// SPDX-License-Identifier: MIT OR Apache-2.0
//! User Mode Linux: a kernel in a process.
//!
//! Linux 6.1 does not run on all processors. It keeps [`REGISTERS`] bytes for the floating-point and vector registers of a process
//! (`HOST_FP_SIZE` in `arch/x86/um/user-offsets.c`), enough for AVX-512 and protection keys. It gives them back to the machine's
//! kernel by `PTRACE_SETREGSET`, which takes all of a processor's registers or fails with `EFAULT`. With AMX there are 11,008 bytes of
//! them, so the guest ends when its first process begins. No setting of the guest helps.

use std::cell::OnceCell;
use std::path::Path;
use std::process::Command;

use super::trial::Attempt;
use super::{Guest, KERNEL};
use crate::Error;
use crate::machine::text;

/// Bytes that a kernel 6.1 has for a process's registers: read from `put_fp_registers` of Debian's `user-mode-linux` 6.1um4.
pub const REGISTERS: usize = 2696;
/// The flag of processors with more.
const MORE: &str = "amx_tile";
/// Frames that a virtual interface takes at a time.
const DEPTH: u32 = 128;
/// Where it finds the machine's files.
const ROOT: [&str; 4] = ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"];
/// What its first process says to the console goes to ours.
const CONSOLE: [&str; 2] = ["con=null", "con0=fd:0,fd:1"];

/// The command of a guest's kernel. Its own files have this name in a directory; else they lie in the home directory for ever.
pub(super) fn command(guest: &Guest, file: &Path, directory: &Path, name: &str) -> Command {
    let mut command = Command::new(KERNEL);
    command.arg(format!("mem={}K", guest.memory >> 10)).args(ROOT).arg("quiet").args(CONSOLE);
    command.arg(format!("umid={name}")).arg(format!("uml_dir={}", directory.display()));
    for (number, tap) in guest.interfaces.iter().enumerate() {
        command.arg(format!("vec{number}:transport=tap,ifname={tap},depth={DEPTH}"));
    }
    if let Some(shared) = &guest.shared {
        command.arg(format!("iomem=mmapper,{}", shared.display()));
    }
    command.arg(format!("init={}", guest.init.display()));
    // What stands behind the dashes goes to the first process.
    command.args(["--", "guest", "--init"]).arg(file);
    command
}

/// Whether this machine's processor has more registers than old kernels take, so that a trial is worth its time.
fn is_doubtful() -> bool {
    has_more(&text("/proc/cpuinfo").unwrap_or_default())
}

fn has_more(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_ascii_whitespace().any(|flag| flag == MORE))
}

/// What to do where guests do not run.
pub const INSTEAD: &str = "use partition = \"process\" or \"kvm\", or a newer kernel of User Mode Linux, which sizes registers by the processor";

/// Whether guests run here. It is tried where that is doubtful, and once at most.
#[derive(Debug, Default)]
pub struct Tried(OnceCell<Result<(), Error>>);

impl Tried {
    /// Whether guests of this kernel run.
    ///
    /// # Errors
    /// Why they do not.
    pub fn of(&self, kernel: &Path) -> Result<(), &Error> {
        if is_doubtful() { self.0.get_or_init(|| trial(kernel)).as_ref().copied() } else { Ok(()) }
    }
}

/// Whether a program starts in a guest of this kernel. It is tried, which takes some seconds: the guest's first process is `true`.
///
/// # Errors
/// Why it does not.
pub fn trial(kernel: &Path) -> Result<(), Error> {
    let scratch = scratch().map_err(Error::system("a directory for a trial"))?;
    let mut command = Command::new(kernel);
    command.arg("mem=64M").args(ROOT).args(CONSOLE);
    command.arg("umid=trial").arg(format!("uml_dir={}", scratch.display())).arg("init=/bin/true");
    let attempt = Attempt::make(command, KERNEL);
    let _ = std::fs::remove_dir_all(&scratch);
    let attempt = attempt?;
    // The kernel's last words when its first process ends.
    if attempt.ended_by_itself() && attempt.said("Attempted to kill init! exitcode=0x00000000") {
        return Ok(());
    }
    if attempt.said("fp_registers") {
        return Err(Error::unfit(format!(
            "its kernel keeps {REGISTERS} bytes of a process's registers, and this processor has more (AMX)"
        )));
    }
    Err(Error::Unfit(attempt.why(KERNEL)))
}

/// A directory of our own.
fn scratch() -> std::io::Result<std::path::PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let path = std::env::temp_dir().join(format!("junctor-trial-{}", std::process::id()));
    // What is there is another process's, of which this one has the number.
    let _ = std::fs::remove_dir_all(&path);
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::find_program;

    #[test]
    fn processors_with_more_registers_are_known_by_a_flag() {
        let of = |flags: &str| format!("processor\t: 0\nflags\t\t: fpu {flags}\nbugs\t: amx_tile\n");
        assert!(has_more(&of("amx_bf16 amx_tile avx512f")));
        assert!(!has_more(&of("avx512f pku")) && !has_more(""));
    }

    #[test]
    fn a_kernel_that_runs_a_program_is_told_from_one_that_does_not() {
        let tools = ["setpriv", KERNEL].map(|name| find_program(name, Path::new("/")));
        let [Some(_), Some(kernel)] = tools else {
            eprintln!("left out: there is no {KERNEL}, or no setpriv");
            return;
        };
        assert!(trial(Path::new("/bin/true")).unwrap_err().to_string().contains("gave up: nothing"));
        match trial(&kernel) {
            Ok(()) => {}
            Err(why) => assert!(is_doubtful() && why.to_string().contains("AMX"), "{why}"),
        }
    }
}
