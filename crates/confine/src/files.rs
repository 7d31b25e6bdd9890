// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that a confined process can reach, by Landlock (landlock(7)).

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus,
    Scope,
};

use crate::Error;

/// The newest rules that this program knows.
const NEWEST: ABI = ABI::V7;

/// Where any program finds what it needs to start, look names up, and read what the kernel says of itself. All of it is for everybody.
const SYSTEM: [&str; 17] = [
    "/proc",
    "/sys",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/etc/services",
    "/etc/protocols",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/localtime",
    "/run/netns",
];

/// Devices that are written to, too.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/net/tun"];

/// The files and directories within reach; a directory stands for all that is or will be in it.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// To be read.
    pub read: Vec<PathBuf>,
    /// Directories whose names may be listed, with those of all directories in them.
    pub list: Vec<PathBuf>,
    /// To be read, written, made and removed.
    pub write: Vec<PathBuf>,
    /// Programs that may be started.
    pub run: Vec<PathBuf>,
}

/// What is in force.
pub(crate) struct Fenced {
    pub(crate) is_fenced: bool,
    pub(crate) text: String,
    pub(crate) weaker: Option<String>,
}

impl Files {
    /// Lets this program start itself again, which trials of configurations do.
    pub fn run_itself(&mut self) {
        self.run.extend(std::env::current_exe().ok());
        // The loader counts as a program, too.
        self.run.extend(["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"].map(PathBuf::from));
    }

    /// Fences all other files off. An old kernel fences as much as it can, and this is reported.
    pub(crate) fn enforce(&self) -> Result<Fenced, Error> {
        let failed = |why: landlock::RulesetError| Error::Files(why.to_string());
        let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let rules = rules.handle_access(AccessFs::from_all(NEWEST)).map_err(failed)?;
        let rules = rules.scope(Scope::Signal).map_err(failed)?;
        let mut rules = rules.create().map_err(failed)?.no_new_privs(true);
        let (read, write) =
            (AccessFs::ReadFile | AccessFs::ReadDir, AccessFs::from_all(NEWEST) & !AccessFs::Execute);
        let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        let run = AccessFs::ReadFile | AccessFs::Execute;
        let system = SYSTEM.iter().map(Path::new).map(|path| (path, read));
        let all = system
            .chain(DEVICES.iter().map(|path| (Path::new(path), device)))
            // What a process says of itself is written there: its name for the kernel's memory killer.
            .chain([(Path::new("/proc/self"), read | AccessFs::WriteFile)])
            .chain(self.list.iter().map(|path| (path.as_path(), AccessFs::ReadDir.into())))
            .chain(self.read.iter().map(|path| (path.as_path(), read)))
            .chain(self.write.iter().map(|path| (path.as_path(), write)))
            .chain(self.run.iter().map(|path| (path.as_path(), run)));
        for (path, access) in all {
            rules = allow(rules, path, access).map_err(failed)?;
        }
        rules.restrict_self().map_err(failed).map(|status| told(&status))
    }
}

/// Adds a path if it is there: what is not cannot be reached either way.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(place) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(place, access))
}

fn told(status: &RestrictionStatus) -> Fenced {
    let weaker = |how: &str| Some(format!("Landlock: {how}; Linux 6.10 or newer fences all that is meant"));
    match status.ruleset {
        RulesetStatus::FullyEnforced => {
            Fenced { is_fenced: true, text: "files fenced by Landlock".into(), weaker: None }
        }
        RulesetStatus::PartiallyEnforced => Fenced {
            is_fenced: true,
            text: "files fenced by Landlock in part".into(),
            weaker: weaker("this kernel knows a part of the rules only"),
        },
        RulesetStatus::NotEnforced => Fenced {
            is_fenced: false,
            text: "files not fenced".into(),
            weaker: weaker("this kernel has none, or it is off (lsm=landlock,...): files are not fenced"),
        },
    }
}
