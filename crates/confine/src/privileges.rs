// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who a process is, and what it may do beyond its user's rights: users, capabilities, limits.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::process::DumpableBehavior;
use rustix::thread::{self, CapabilitySet, CapabilitySets};

use crate::{Error, refused};

/// A user that a process may become.
#[derive(Clone, Debug)]
pub struct User {
    /// The user's name.
    pub name: String,
    uid: Uid,
    gid: Gid,
}

/// The user that a confined router becomes if nobody names another and this one exists.
pub const USUAL_USER: &str = "junctor";

impl User {
    /// The user of this name.
    ///
    /// # Errors
    /// There is none, or this process may not become it.
    pub fn named(name: &str) -> Result<User, Error> {
        let found = nix::unistd::User::from_name(name).ok().flatten();
        let found = found.ok_or_else(|| Error::NoUser(name.to_owned()))?;
        let user = User { name: found.name, uid: found.uid, gid: found.gid };
        match Uid::effective().is_root() || Uid::effective() == user.uid {
            true => Ok(user),
            false => Err(Error::NotRoot(name.to_owned())),
        }
    }

    /// The user to be when nobody names one, if this process is root and that user exists.
    pub fn usual() -> Option<User> {
        Uid::effective().is_root().then(|| User::named(USUAL_USER).ok()).flatten()
    }

    /// Gives the user a file or directory that this process has made for itself.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn own(&self, path: &std::path::Path) -> io::Result<()> {
        std::os::unix::fs::lchown(path, Some(self.uid.as_raw()), Some(self.gid.as_raw()))
    }
}

/// Capabilities that a router may keep for its service threads (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Packet sockets, raw sockets, AF_XDP.
    NetRaw,
    /// Promiscuous mode, XDP programs, TAP interfaces.
    NetAdmin,
    /// BPF programs and maps.
    Bpf,
    /// Locked memory beyond the limit, where the limit cannot be raised.
    IpcLock,
    /// Kernel events in profiles.
    Perfmon,
    /// Other network namespaces.
    SysAdmin,
    /// Real-time priorities of threads that are started later.
    SysNice,
    /// Files and sockets of other users, such as those of routing daemons.
    DacOverride,
}

impl Capability {
    fn set(self) -> CapabilitySet {
        match self {
            Capability::NetRaw => CapabilitySet::NET_RAW,
            Capability::NetAdmin => CapabilitySet::NET_ADMIN,
            Capability::Bpf => CapabilitySet::BPF,
            Capability::IpcLock => CapabilitySet::IPC_LOCK,
            Capability::Perfmon => CapabilitySet::PERFMON,
            Capability::SysAdmin => CapabilitySet::SYS_ADMIN,
            Capability::SysNice => CapabilitySet::SYS_NICE,
            Capability::DacOverride => CapabilitySet::DAC_OVERRIDE,
        }
    }

    /// Its name, as setcap(8) writes it.
    pub fn name(self) -> &'static str {
        match self {
            Capability::NetRaw => "cap_net_raw",
            Capability::NetAdmin => "cap_net_admin",
            Capability::Bpf => "cap_bpf",
            Capability::IpcLock => "cap_ipc_lock",
            Capability::Perfmon => "cap_perfmon",
            Capability::SysAdmin => "cap_sys_admin",
            Capability::SysNice => "cap_sys_nice",
            Capability::DacOverride => "cap_dac_override",
        }
    }
}

/// Resource limits (getrlimit(2)). Limits only become lower, but for that of locked memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Bytes of locked memory that AF_XDP and locked pages need; `None` leaves the limit.
    pub locked_bytes: Option<u64>,
    /// Bytes of a file that is written, at most; `None` leaves the limit.
    pub file_bytes: Option<u64>,
    /// Processes and threads of the user, at most; `None` leaves the limit. It does not bind root.
    pub threads: Option<u64>,
}

impl Limits {
    /// Sets them: no core dumps, which would hold keys, and no more open files than now. Returns whether there is as much locked memory as asked for.
    pub(crate) fn apply(self) -> Result<bool, Error> {
        let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
        for (resource, most) in [
            (Resource::RLIMIT_CORE, Some(0)),
            (Resource::RLIMIT_NOFILE, Some(files)),
            (Resource::RLIMIT_FSIZE, self.file_bytes),
            (Resource::RLIMIT_NPROC, self.threads),
        ] {
            most.map_or(Ok(()), |most| lower(resource, most))?;
        }
        let Some(bytes) = self.locked_bytes else { return Ok(true) };
        let (soft, hard) = getrlimit(Resource::RLIMIT_MEMLOCK).unwrap_or((0, 0));
        // More than the hard limit takes CAP_SYS_RESOURCE.
        Ok(soft >= bytes || setrlimit(Resource::RLIMIT_MEMLOCK, bytes, hard.max(bytes)).is_ok())
    }
}

fn lower(resource: Resource, most: u64) -> Result<(), Error> {
    let failed = |why: nix::Error| refused("set a resource limit")(why.into());
    let (soft, hard) = getrlimit(resource).map_err(failed)?;
    setrlimit(resource, soft.min(most), hard.min(most)).map_err(failed)
}

/// Who a process is after it has given up what it could.
pub(crate) struct Kept {
    pub(crate) uid: u32,
    pub(crate) names: Vec<&'static str>,
    pub(crate) weaker: Option<String>,
}

/// Becomes the user, and gives up all capabilities but these, for ever.
pub(crate) fn give_up(user: Option<&User>, keep: &[Capability]) -> Result<Kept, Error> {
    let now = thread::capabilities(None).map_err(|why| refused("read capabilities")(why.into()))?;
    let wanted = keep.iter().fold(CapabilitySet::empty(), |all, one| all | one.set());
    let wanted = wanted & now.permitted;
    if now.effective.contains(CapabilitySet::SETPCAP) {
        bound(wanted)?;
    }
    if let Some(user) = user {
        thread::set_keep_capabilities(true).map_err(|why| refused("keep capabilities")(why.into()))?;
        become_user(user).map_err(|why| refused("become another user")(why.into()))?;
    }
    hold(wanted)?;
    thread::set_no_new_privs(true).map_err(|why| refused("forbid new privileges")(why.into()))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|why| refused("hide memory from other processes")(why.into()))?;
    let weaker = (user.is_none() && Uid::effective().is_root()).then(|| {
        format!(
            "there is no user {USUAL_USER}, so the router stays user root, without its capabilities: root's files stay within its \
             reach where Landlock lets it; sudo useradd --system {USUAL_USER}, or --user NAME"
        )
    });
    let names = keep.iter().filter(|one| wanted.contains(one.set())).map(|one| one.name()).collect();
    Ok(Kept { uid: Uid::effective().as_raw(), names, weaker })
}

fn become_user(user: &User) -> nix::Result<()> {
    if Uid::effective().is_root() {
        setgroups(&[user.gid])?;
    }
    setresgid(user.gid, user.gid, user.gid)?;
    setresuid(user.uid, user.uid, user.uid)
}

/// No program that this process starts can have more than these.
fn bound(wanted: CapabilitySet) -> Result<(), Error> {
    for capability in CapabilitySet::all().iter().filter(|one| !wanted.contains(*one)) {
        match thread::remove_capability_from_bounding_set(capability) {
            // An older kernel does not know it.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(why) => return Err(refused("give up capabilities")(why.into())),
        }
    }
    Ok(())
}

fn hold(wanted: CapabilitySet) -> Result<(), Error> {
    let sets = CapabilitySets { effective: wanted, permitted: wanted, inheritable: CapabilitySet::empty() };
    // A service manager may have taken them all, and the call with them.
    if thread::capabilities(None) != Ok(sets) {
        thread::set_capabilities(None, sets).map_err(|why| refused("give up capabilities")(why.into()))?;
    }
    match thread::clear_ambient_capability_set() {
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(why) => Err(refused("give up capabilities")(why.into())),
    }
}

/// Takes all capabilities from the calling thread.
pub(crate) fn none_for_this_thread() -> Result<(), Error> {
    hold(CapabilitySet::empty())
}
