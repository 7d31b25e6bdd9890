// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of the kernel's tracepoints are recorded, and where in their records numbers lie: each kernel says so itself, in `tracefs`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::event::KernelKind;

/// A tracepoint: its folder in `tracefs`, what it becomes, and the fields that are kept of it.
struct Wanted {
    folder: &'static str,
    kind: KernelKind,
    fields: [&'static str; 3],
}

const fn wanted(folder: &'static str, kind: KernelKind, fields: [&'static str; 3]) -> Wanted {
    Wanted { folder, kind, fields }
}

const WANTED: &[Wanted] = &[
    wanted("sched/sched_switch", KernelKind::Switch, ["prev_state", "next_pid", ""]),
    wanted("sched/sched_wakeup", KernelKind::Wakeup, ["pid", "target_cpu", ""]),
    wanted("sched/sched_migrate_task", KernelKind::Migrate, ["pid", "orig_cpu", "dest_cpu"]),
    wanted("irq/irq_handler_entry", KernelKind::IrqBegin, ["irq", "", ""]),
    wanted("irq/irq_handler_exit", KernelKind::IrqEnd, ["irq", "", ""]),
    wanted("irq/softirq_entry", KernelKind::SoftirqBegin, ["vec", "", ""]),
    wanted("irq/softirq_exit", KernelKind::SoftirqEnd, ["vec", "", ""]),
    wanted("napi/napi_poll", KernelKind::NapiPoll, ["work", "budget", ""]),
    wanted("xdp/xdp_exception", KernelKind::XdpException, ["act", "ifindex", ""]),
    wanted("lock/contention_begin", KernelKind::ContentionBegin, ["flags", "", "lock_addr"]),
    wanted("lock/contention_end", KernelKind::ContentionEnd, ["ret", "", "lock_addr"]),
    wanted("syscalls/sys_enter_futex", KernelKind::FutexBegin, ["op", "", "uaddr"]),
    wanted("syscalls/sys_exit_futex", KernelKind::FutexEnd, ["", "", ""]),
];

/// Where a number lies in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    offset: usize,
    size: usize,
}

impl Field {
    /// The number there, 0 if the record has none.
    pub(super) fn number(self, record: &[u8]) -> u64 {
        let bytes = record.get(self.offset..self.offset.saturating_add(self.size)).unwrap_or(&[]);
        let mut word = [0; 8];
        let len = bytes.len().min(8);
        word[..len].copy_from_slice(&bytes[..len]);
        u64::from_le_bytes(word)
    }

    /// The text there.
    pub(super) fn text(self, record: &[u8]) -> Option<String> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        let text = bytes.split(|b| *b == 0).next()?;
        (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
    }
}

/// A tracepoint of this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tracepoint {
    pub(super) name: &'static str,
    pub(super) kind: KernelKind,
    pub(super) id: u64,
    pub(super) fields: [Field; 3],
    /// Fields with a thread's number and its name.
    pub(super) names: Vec<(Field, Field)>,
}

/// Numbers and names of threads in records of any tracepoint.
const NAMES: [(&str, &str); 3] = [("prev_pid", "prev_comm"), ("next_pid", "next_comm"), ("pid", "comm")];

impl Tracepoint {
    /// From its `id` and `format` files.
    fn read(wanted: &Wanted, id: &str, format: &str) -> Option<Tracepoint> {
        let find = |name: &str| fields(format).find(|(known, _)| *known == name).map(|(_, field)| field);
        let field = |name: &str| if name.is_empty() { Some(Field::default()) } else { find(name) };
        let [a, b, c] = wanted.fields.map(field);
        let name = |(number, text): (&str, &str)| Some((find(number)?, find(text).filter(|f| f.size == 16)?));
        Some(Tracepoint {
            name: wanted.folder,
            kind: wanted.kind,
            id: id.trim().parse().ok()?,
            fields: [a?, b?, c?],
            names: NAMES.into_iter().filter_map(name).collect(),
        })
    }
}

/// The fields that a `format` file lists: `field:int prev_prio; offset:28; size:4; signed:1;`.
fn fields(format: &str) -> impl Iterator<Item = (&str, Field)> {
    format.lines().filter_map(|line| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let name = parts.next()?.rsplit([' ', '*']).next()?;
        let name = name.split('[').next()?;
        let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
        let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
        Some((name, Field { offset, size }))
    })
}

/// The tracepoints that there are of those we want, and the names of those that there are not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) there: Vec<Tracepoint>,
    pub(super) absent: Vec<&'static str>,
}

impl Found {
    /// # Errors
    /// Why they must not be read.
    fn under(events: &Path) -> Result<Found, String> {
        let mut found = Found::default();
        for wanted in WANTED {
            let read = |file: &str| {
                let path = events.join(wanted.folder).join(file);
                match std::fs::read_to_string(&path) {
                    Ok(text) => Ok(Some(text)),
                    Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                        Err(format!("{}: {e}", path.display()))
                    }
                    Err(_) => Ok(None),
                }
            };
            let tracepoint = read("id")?.zip(read("format")?);
            match tracepoint.and_then(|(id, format)| Tracepoint::read(wanted, &id, &format)) {
                Some(tracepoint) => found.there.push(tracepoint),
                None => found.absent.push(wanted.folder),
            }
        }
        Ok(found)
    }
}

/// Where `tracefs` usually is.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Finds the tracepoints. Where `tracefs` is not mounted, a thread mounts it for itself alone, and it goes with the thread.
///
/// # Errors
/// Why `tracefs` cannot be read.
pub(super) fn find() -> Result<Found, String> {
    let places = PLACES.iter().map(|place| PathBuf::from(place).join("events"));
    for events in places {
        match std::fs::read_dir(&events) {
            Ok(_) => return Found::under(&events),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                return Err(format!("{}: {e}", events.display()));
            }
            Err(_) => {}
        }
    }
    let thread = std::thread::Builder::new().name("tracefs".into()).spawn(mounted);
    let done = thread.map_err(|e| e.to_string())?.join();
    done.unwrap_or_else(|_| Err("its mounting failed".into()))
}

fn mounted() -> Result<Found, String> {
    let failed =
        |what: &str, e: nix::Error| format!("tracefs is not mounted, and {what} failed: {}", e.desc());
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).map_err(|e| failed("unshare", e))?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(|e| failed("mount", e))?;
    mount(Some("tracefs"), PLACES[0], Some("tracefs"), MsFlags::empty(), none)
        .map_err(|e| failed("mount", e))?;
    Found::under(&Path::new(PLACES[0]).join("events"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 has it, shortened.
    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\nprint fmt: \"x\"";

    #[test]
    fn formats_say_where_numbers_lie() {
        let switch = Tracepoint::read(&WANTED[0], "372\n", SWITCH).unwrap();
        let field = |offset, size| Field { offset, size };
        assert_eq!((switch.id, switch.fields), (372, [field(32, 8), field(56, 4), Field::default()]));
        assert_eq!(switch.names, [(field(24, 4), field(8, 16)), (field(56, 4), field(40, 16))]);
        let pointer = "\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;";
        assert_eq!(fields(pointer).next(), Some(("lock_addr", field(8, 8))));
        assert_eq!(Tracepoint::read(&WANTED[0], "372", "field:int next_pid; offset:x; size:4;"), None);
        assert_eq!(Tracepoint::read(&WANTED[0], "", SWITCH), None);
    }

    #[test]
    fn fields_beyond_a_record_are_nothing() {
        let field = Field { offset: 2, size: 4 };
        assert_eq!([&[1, 2, 3, 4, 5, 6][..], &[1, 2, 3]].map(|r| field.number(r)), [0x0605_0403, 0]);
        assert_eq!(Field { offset: usize::MAX, size: 16 }.number(&[0; 32]), 0);
        assert_eq!(Field { offset: 0, size: 4 }.text(b"ab\0\0"), Some("ab".into()));
        assert_eq!(Field { offset: 0, size: 4 }.text(b"\0\0"), None);
    }
}
