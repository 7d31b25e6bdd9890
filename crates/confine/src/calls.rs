// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls of each role, and the seccomp filters made of them.
//!
//! | role | may | may not, among others |
//! |---|---|---|
//! | worker | use descriptors that are open, map memory that is not code, wait, read clocks | open files, make sockets, start threads or programs, change identities, map code |
//! | worker whose configuration [needs](crate::Needs) it | also open files, or make sockets | the rest |
//! | main | use descriptors that are open, open files, start threads of the same role | make sockets, start programs, map code |
//! | recorder | the same, and count events of the kernel | the same |
//! | service | also start threads and this program, open files and sockets, load BPF programs, record events | trace or read other processes, mount, load modules, change clocks, use io_uring or keyrings |
//! | any, of a process without [programs to start](crate::files::Files::run) | | start a program |
//!
//! All lists say what is allowed. A call that is not listed does not happen: the kernel sends SIGSYS instead ([`crate::trap`]). Calls of a
//! foreign architecture (x32, i386) end the process at once. Filters cost nothing that can be measured on the path of packets: for calls
//! that are allowed with all arguments the kernel asks a bitmap, and polling drivers make few others.

use std::cell::Cell;
use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use crate::{Error, Needs, Role};

/// A system call: its name as libc has it, and its number.
type Call = (&'static str, i64);

macro_rules! calls {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), libc::$name as i64)),*] };
}

/// What any thread may do with what it has.
const COMMON: &[Call] = calls![
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_membarrier,
    SYS_futex,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_sched_yield,
    SYS_sched_setaffinity,
    SYS_sched_getaffinity,
    SYS_sched_getscheduler,
    SYS_sched_getparam,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_gettid,
    SYS_getpid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getcpu,
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_read,
    SYS_readv,
    SYS_pread64,
    SYS_preadv,
    SYS_write,
    SYS_writev,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_lseek,
    SYS_close,
    SYS_fcntl,
    SYS_fstat,
    SYS_dup,
    SYS_dup3,
    SYS_pipe2,
    SYS_eventfd2,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_ppoll,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_recvmmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_getsockname,
    SYS_getpeername,
    SYS_shutdown,
    SYS_accept4,
    SYS_getrandom,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_uname,
    SYS_getrlimit,
    SYS_ftruncate,
    SYS_flock,
];

/// The same, where an architecture has older forms.
#[cfg(target_arch = "x86_64")]
const COMMON_OLD: &[Call] =
    calls![SYS_poll, SYS_epoll_wait, SYS_time, SYS_dup2, SYS_select, SYS_pipe, SYS_eventfd, SYS_accept];
#[cfg(not(target_arch = "x86_64"))]
const COMMON_OLD: &[Call] = calls![SYS_accept];

/// What opens, makes and removes files, and what Script does besides: it sends signals, which Landlock keeps within the router.
const FILES: &[Call] = calls![
    SYS_openat,
    SYS_openat2,
    SYS_newfstatat,
    SYS_statx,
    SYS_unlinkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_fallocate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_getdents64,
    SYS_readlinkat,
    SYS_mkdirat,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_copy_file_range,
    SYS_sendfile,
    SYS_splice,
    SYS_getcwd,
    SYS_umask,
    SYS_statfs,
    SYS_fstatfs,
    SYS_symlinkat,
    SYS_linkat,
    SYS_truncate,
    SYS_utimensat,
    SYS_fadvise64,
    SYS_close_range,
    SYS_kill,
];

#[cfg(target_arch = "x86_64")]
const FILES_OLD: &[Call] = calls![
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_unlink,
    SYS_rename,
    SYS_readlink,
    SYS_mkdir,
    SYS_rmdir,
    SYS_access,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_link,
    SYS_symlink,
    SYS_getdents,
    SYS_creat,
];
#[cfg(not(target_arch = "x86_64"))]
const FILES_OLD: &[Call] = &[];

/// What makes sockets.
const SOCKETS: &[Call] = calls![SYS_socket, SYS_socketpair, SYS_bind, SYS_connect, SYS_listen];

/// What services do besides: they start threads and trials, map code (libpcap), reopen devices, and record events.
const SERVICES: &[Call] = calls![
    SYS_mmap,
    SYS_mprotect,
    SYS_mlock,
    SYS_mlock2,
    SYS_mlockall,
    SYS_munlock,
    SYS_munlockall,
    SYS_msync,
    SYS_mincore,
    SYS_mbind,
    SYS_set_mempolicy,
    SYS_get_mempolicy,
    SYS_memfd_create,
    SYS_clone,
    SYS_clone3,
    SYS_execve,
    SYS_wait4,
    SYS_waitid,
    SYS_tgkill,
    SYS_tkill,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_prlimit64,
    SYS_setrlimit,
    SYS_setpriority,
    SYS_getpriority,
    SYS_sched_setscheduler,
    SYS_sched_setparam,
    SYS_sched_setattr,
    SYS_sched_getattr,
    SYS_rt_sigaction,
    SYS_rt_sigpending,
    SYS_rt_sigsuspend,
    SYS_signalfd4,
    SYS_ioctl,
    SYS_prctl,
    SYS_capget,
    SYS_capset,
    SYS_seccomp,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_setns,
    SYS_inotify_init1,
    SYS_inotify_add_watch,
    SYS_inotify_rm_watch,
    SYS_setsid,
    SYS_getpgid,
    SYS_getsid,
    SYS_setpgid,
    SYS_chdir,
    SYS_fchdir,
    SYS_set_tid_address,
    SYS_getgroups,
    SYS_getresuid,
    SYS_getresgid,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_delete,
    SYS_times,
    SYS_landlock_create_ruleset,
    SYS_landlock_add_rule,
    SYS_landlock_restrict_self,
];

#[cfg(target_arch = "x86_64")]
const SERVICES_OLD: &[Call] =
    calls![SYS_arch_prctl, SYS_fork, SYS_vfork, SYS_getpgrp, SYS_alarm, SYS_pause, SYS_setitimer];
#[cfg(not(target_arch = "x86_64"))]
const SERVICES_OLD: &[Call] = &[];

/// Calls that nobody may make, by name, so that a report names them.
const REFUSED: &[Call] = calls![
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_setuid,
    SYS_setgid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_userfaultfd,
    SYS_open_by_handle_at,
    SYS_clock_settime,
    SYS_settimeofday,
    SYS_adjtimex,
    SYS_swapon,
    SYS_acct,
    SYS_execveat,
    SYS_syslog,
    SYS_sethostname,
    SYS_quotactl,
    SYS_pidfd_getfd,
    SYS_personality,
];

/// The name of a system call, if it is one of ours.
pub fn name(number: i64) -> Option<&'static str> {
    let all = [COMMON, COMMON_OLD, FILES, FILES_OLD, SOCKETS, SERVICES, SERVICES_OLD, REFUSED];
    let found = all.into_iter().flatten().find(|(_, its)| *its == number)?;
    found.0.strip_prefix("SYS_")
}

/// Requests to devices that a worker makes of open descriptors: it asks about interfaces and taps, and drives counters of events.
const WORKER_IOCTLS: &[u64] = &[
    libc::SIOCGIFINDEX,
    libc::SIOCGIFFLAGS,
    libc::SIOCGIFMTU,
    libc::SIOCGIFHWADDR,
    libc::SIOCGIFADDR,
    libc::SIOCGIFNAME,
    libc::FIONREAD,
    libc::FIONBIO,
    libc::TCGETS,
    libc::TIOCGWINSZ,
    // TUNGETIFF, TUNSETCARRIER, SIOCETHTOOL
    0x8004_54d2,
    0x4004_54e2,
    0x8946,
];

/// What a worker asks of prctl: its name, names of memory, and whether it is confined.
const WORKER_PRCTLS: &[u64] = &[
    libc::PR_SET_NAME as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_SET_VMA as u64,
    libc::PR_GET_DUMPABLE as u64,
    libc::PR_GET_NO_NEW_PRIVS as u64,
    libc::PR_SET_TIMERSLACK as u64,
];

/// The type of the requests to descriptors of perf_event_open(2), in its place.
const PERF_IOCTLS: u64 = (b'$' as u64) << 8;

/// BPF_MAP_UPDATE_ELEM and BPF_MAP_DELETE_ELEM: a queue joins and leaves its map.
const WORKER_BPF: &[u64] = &[2, 3];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filter(why: impl std::fmt::Display) -> Error {
    Error::Filter(why.to_string())
}

fn rule(conditions: &[(u8, Width, Is, u64)]) -> Result<SeccompRule, Error> {
    let conditions = conditions.iter().map(|(argument, width, is, value)| {
        SeccompCondition::new(*argument, width.clone(), is.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>().map_err(filter)?).map_err(filter)
}

/// Allows a call with one of these values of an argument.
fn only(rules: &mut Rules, call: i64, argument: u8, values: &[u64]) -> Result<(), Error> {
    let each = values.iter().map(|value| rule(&[(argument, Width::Dword, Is::Eq, *value)]));
    rules.insert(call, each.collect::<Result<_, _>>()?);
    Ok(())
}

/// Compiles a filter. What it does not allow is a trap.
fn compile(rules: Rules) -> Result<BpfProgram, Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(filter)?;
    let made = SeccompFilter::new(rules, SeccompAction::Trap, SeccompAction::Allow, arch).map_err(filter)?;
    made.try_into().map_err(filter)
}

/// Rules that allow all calls of these lists.
fn allow_all(lists: &[&[Call]]) -> Rules {
    lists.iter().copied().flatten().map(|(_, call)| (*call, Vec::new())).collect()
}

fn service(runs_programs: bool) -> Result<BpfProgram, Error> {
    let mut rules = allow_all(&[COMMON, COMMON_OLD, FILES, FILES_OLD, SOCKETS, SERVICES, SERVICES_OLD]);
    if !runs_programs {
        rules.remove(&libc::SYS_execve);
    }
    compile(rules)
}

fn worker(needs: Needs) -> Result<BpfProgram, Error> {
    let files: [&[Call]; 2] = if needs.files { [FILES, FILES_OLD] } else { [&[], &[]] };
    let sockets = if needs.sockets { SOCKETS } else { &[] };
    let mut rules = allow_all(&[COMMON, COMMON_OLD, files[0], files[1], sockets]);
    within_the_process(&mut rules)?;
    compile(rules)
}

/// Threads inherit the filter. The C library blocks all signals while it starts one, so a trap there would end the process.
const THREADS: &[Call] = calls![SYS_clone, SYS_clone3, SYS_set_tid_address];

fn main_thread() -> Result<BpfProgram, Error> {
    let mut rules = allow_all(&[COMMON, COMMON_OLD, FILES, FILES_OLD, THREADS]);
    within_the_process(&mut rules)?;
    compile(rules)
}

/// Events of the kernel are counted by descriptors of perf_event_open(2), whose buffers are locked in memory.
fn recorder() -> Result<BpfProgram, Error> {
    let counting: &[Call] = calls![SYS_perf_event_open, SYS_mlock, SYS_munlock, SYS_msync];
    let mut rules = allow_all(&[COMMON, COMMON_OLD, FILES, FILES_OLD, THREADS, counting]);
    within_the_process(&mut rules)?;
    let of_events = rule(&[(1, Width::Dword, Is::MaskedEq(0xff00), PERF_IOCTLS)])?;
    rules.entry(libc::SYS_ioctl).or_default().push(of_events);
    compile(rules)
}

/// What a thread may do with the memory and the threads of its process, and with descriptors that are open.
fn within_the_process(rules: &mut Rules) -> Result<(), Error> {
    // Memory that can be executed is never made.
    let not_code = || rule(&[(2, Width::Qword, Is::MaskedEq(libc::PROT_EXEC as u64), 0)]);
    rules.insert(libc::SYS_mmap, vec![not_code()?]);
    rules.insert(libc::SYS_mprotect, vec![not_code()?]);
    only(rules, libc::SYS_ioctl, 1, WORKER_IOCTLS)?;
    only(rules, libc::SYS_prctl, 0, WORKER_PRCTLS)?;
    only(rules, libc::SYS_bpf, 0, WORKER_BPF)?;
    // To itself: it ends, or wakes one of its threads.
    only(rules, libc::SYS_tgkill, 0, &[u64::from(std::process::id())])?;
    // Another handler of SIGSYS would hide what is refused.
    let not_ours = rule(&[(0, Width::Dword, Is::Ne, libc::SIGSYS as u64)])?;
    rules.insert(libc::SYS_rt_sigaction, vec![not_ours]);
    Ok(())
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Free) };
}

/// The role of the calling thread. Threads that a service starts are services.
pub(crate) fn role() -> Role {
    match ROLE.try_with(Cell::get) {
        Ok(Role::Free) | Err(_) => Role::Service,
        Ok(role) => role,
    }
}

/// Filters the calls of all threads of this process, those to come, too.
pub(crate) fn enter_service(runs_programs: bool) -> Result<(), Error> {
    seccompiler::apply_filter_all_threads(&service(runs_programs)?).map_err(filter)
}

/// Filters the calls of the calling thread further, for one of the roles that have no [`Needs`].
pub(crate) fn enter(role: Role) -> Result<(), Error> {
    let program = if role == Role::Main { main_thread()? } else { recorder()? };
    ROLE.set(role);
    seccompiler::apply_filter(&program).map_err(filter)
}

/// Filters the calls of the calling thread further.
pub(crate) fn enter_worker(needs: Needs) -> Result<(), Error> {
    let program = worker(needs)?;
    ROLE.set(Role::Worker);
    seccompiler::apply_filter(&program).map_err(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_fit_the_kernel() {
        // BPF_MAXINSNS of a filter.
        for (made, what) in [
            (service(true).unwrap(), "service"),
            (main_thread().unwrap(), "main"),
            (recorder().unwrap(), "recorder"),
            (worker(Needs::default()).unwrap(), "worker"),
            (worker(Needs { files: true, sockets: true }).unwrap(), "all needs"),
        ] {
            assert!(!made.is_empty() && made.len() < 4096, "{what}: {}", made.len());
        }
    }

    #[test]
    fn no_call_is_both_allowed_and_refused() {
        let allowed = [COMMON, COMMON_OLD, FILES, FILES_OLD, SOCKETS, SERVICES, SERVICES_OLD];
        for (refused, number) in REFUSED {
            assert!(!allowed.into_iter().flatten().any(|(_, its)| its == number), "{refused}");
        }
    }

    #[test]
    fn calls_have_names() {
        for (number, want) in
            [(libc::SYS_openat, "openat"), (libc::SYS_socket, "socket"), (libc::SYS_mount, "mount")]
        {
            assert_eq!(name(number), Some(want));
        }
        assert_eq!(name(100_000), None);
    }
}
