// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is in force for each thread of a process, as the kernel says it in /proc (proc(5)).

use std::path::Path;

use serde_json::{Value, json};

use crate::record::{Left, Reach};

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Effective user.
    pub uid: u32,
    /// Effective capabilities, a bit each.
    pub capabilities: u64,
    /// Capabilities that a program could ever get.
    pub bounding: u64,
    /// Whether it can get no privileges any more.
    pub no_new_privileges: bool,
    /// Filters of system calls: services have one of ours, all other roles two.
    pub filters: u32,
    /// What it is for, by its filters, its name and its number.
    pub role: &'static str,
}

/// A process and its threads.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// Its threads, by number.
    pub threads: Vec<Thread>,
    /// The soft limit of core dumps, in bytes; `None` when unlimited or unknown.
    pub core_bytes: Option<u64>,
    /// Whether other processes of its user may read its memory, by the owner of its files in /proc.
    pub is_dumpable: Option<bool>,
    /// Resource limits by name; `None` is no limit.
    pub limits: Vec<(&'static str, Option<u64>)>,
    /// The files within its reach, if it fences any off and this process may see which.
    pub reach: Option<Reach>,
}

/// Limits that are shown: our names, and those of /proc.
const LIMITS: [(&str, &str); 5] = [
    ("core_bytes", "Max core file size"),
    ("file_bytes", "Max file size"),
    ("open_files", "Max open files"),
    ("threads_of_user", "Max processes"),
    ("locked_bytes", "Max locked memory"),
];

/// What is weaker than a confined router has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// What.
    pub what: String,
    /// What to do.
    pub fix: String,
}

/// Threads that write recordings, captures and traces.
const RECORDERS: [&str; 2] = ["profile", "observe"];

/// How a router is started so that all is in force.
const CONFINE: &str = "start the router with --confine";

/// Reads one thread from the text of its `status`.
fn thread(text: &str) -> Option<Thread> {
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let bits = |name| field(name).and_then(|bits| u64::from_str_radix(bits, 16).ok());
    Some(Thread {
        id: field("Pid")?.parse().ok()?,
        name: field("Name")?.to_owned(),
        uid: field("Uid")?.split_ascii_whitespace().nth(1)?.parse().ok()?,
        capabilities: bits("CapEff")?,
        bounding: bits("CapBnd")?,
        no_new_privileges: field("NoNewPrivs")? == "1",
        filters: match field("Seccomp")? {
            "2" => field("Seccomp_filters").and_then(|n| n.parse().ok()).unwrap_or(1),
            _ => 0,
        },
        role: "unconfined",
    })
}

/// Filters that the calling thread has.
pub(crate) fn own_filters() -> u32 {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    thread(&text).map_or(0, |thread| thread.filters)
}

/// The limits in the text of a process's `limits`.
fn limits(text: &str) -> Vec<(&'static str, Option<u64>)> {
    let of = |title: &str| text.lines().find_map(|line| line.strip_prefix(title));
    let soft = |line: &str| line.split_ascii_whitespace().next()?.parse().ok();
    LIMITS.into_iter().filter_map(|(name, title)| Some((name, soft(of(title)?)))).collect()
}

/// Looks at a process.
///
/// # Errors
/// There is none of this number, or it may not be looked at.
pub fn look(id: u32) -> std::io::Result<Process> {
    use std::os::unix::fs::MetadataExt as _;
    let base = format!("/proc/{id}");
    let mut threads = Vec::new();
    for entry in std::fs::read_dir(format!("{base}/task"))?.flatten() {
        // A thread may end meanwhile.
        threads
            .extend(std::fs::read_to_string(entry.path().join("status")).ok().and_then(|text| thread(&text)));
    }
    threads.sort_by_key(|thread| thread.id);
    let limits = limits(&std::fs::read_to_string(format!("{base}/limits")).unwrap_or_default());
    let core_bytes = limits.iter().find(|(name, _)| *name == "core_bytes").and_then(|(_, bytes)| *bytes);
    let left = Left::by(id);
    // A process of ours says which filters are not its own. Nobody knows that of others.
    let outer = match &left {
        Ok(Some(left)) => left.outer_filters,
        Ok(None) => u32::MAX,
        Err(_) => 0,
    };
    threads.iter_mut().for_each(|thread| thread.role = thread.role(id, outer));
    let owner = std::fs::metadata(Path::new(&base).join("environ")).ok().map(|file| file.uid());
    let uid = threads.first().map(|thread| thread.uid);
    // The files of a process that may not be dumped are root's. For root itself this shows nothing.
    let is_dumpable = owner.zip(uid).filter(|(_, uid)| *uid != 0).map(|(owner, uid)| owner == uid);
    let reach = left.ok().flatten().and_then(|left| left.reach);
    Ok(Process { id, threads, core_bytes, is_dumpable, limits, reach })
}

/// The processes that open devices for this one.
pub fn openers_of(id: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let numbers = children.flat_map(|text| {
        text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()
    });
    let is_opener = |id: &u32| {
        let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"opener")
    };
    numbers.filter(is_opener).collect()
}

/// The names of the other threads of this process.
pub(crate) fn others() -> Vec<String> {
    let own = std::process::id();
    let threads = look(own).map(|process| process.threads).unwrap_or_default();
    let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    threads.into_iter().filter(|thread| thread.id != me).map(|thread| thread.name).collect()
}

impl Thread {
    /// The role that its filters show, beyond those that the process `process` was started with.
    fn role(&self, process: u32, outer_filters: u32) -> &'static str {
        match self.filters.saturating_sub(outer_filters) {
            0 => "unconfined",
            1 => "service",
            _ if self.id == process => "main",
            _ if RECORDERS.contains(&&*self.name) => "recorder",
            _ => "worker",
        }
    }

    fn is_worker(&self) -> bool {
        self.name.starts_with("worker-")
    }
}

impl Process {
    /// What is weaker than it could be.
    pub fn shortfalls(&self) -> Vec<Shortfall> {
        let mut all = Vec::new();
        let mut say = |what: String, fix: &str| all.push(Shortfall { what, fix: fix.to_owned() });
        for thread in &self.threads {
            let name = format!("thread {} ({})", thread.name, thread.id);
            if !thread.no_new_privileges {
                say(format!("{name} can get privileges by programs that it starts"), CONFINE);
            }
            match (thread.role, thread.is_worker()) {
                ("unconfined", _) => say(format!("{name} can make all system calls"), CONFINE),
                ("service", true) => say(format!("{name} can make the system calls of services"), CONFINE),
                _ => {}
            }
            if thread.is_worker() && thread.capabilities != 0 {
                say(format!("{name} has capabilities {:#x}", thread.capabilities), CONFINE);
            }
        }
        if self.threads.iter().any(|thread| thread.uid == 0) {
            say("it runs as root".to_owned(), "sudo useradd --system junctor, or --user NAME with --confine");
        }
        if self.core_bytes != Some(0) {
            say("a core dump may be written, with all keys".to_owned(), CONFINE);
        }
        if self.is_dumpable == Some(true) {
            say("other processes of its user may read its memory".to_owned(), CONFINE);
        }
        all
    }

    /// For people: a line a thread, then what falls short.
    pub fn text(&self) -> String {
        let width = self.threads.iter().map(|thread| thread.name.len()).max().unwrap_or(0);
        let mut text = format!("process {}\n", self.id);
        for thread in &self.threads {
            let privileges =
                if thread.no_new_privileges { "no new privileges" } else { "may get privileges" };
            text += &format!(
                "{:>8} {:width$}  {:10}  user {}, capabilities {:x}, {privileges}, filters {}\n",
                thread.id, thread.name, thread.role, thread.uid, thread.capabilities, thread.filters
            );
        }
        let number = |most: &Option<u64>| most.map_or("unlimited".to_owned(), |most| most.to_string());
        let limits: Vec<String> = self
            .limits
            .iter()
            .map(|(name, most)| format!("{} {}", name.replace('_', " "), number(most)))
            .collect();
        text += &format!("limits: {}\n", limits.join(", "));
        for (what, paths) in self.reach.iter().flat_map(Reach::lists).filter(|(_, paths)| !paths.is_empty()) {
            text += &format!("files to {what}: {}\n", paths.join(" "));
        }
        for Shortfall { what, fix } in self.shortfalls() {
            text += &format!("{what}\n  -> {fix}\n");
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let thread = |thread: &Thread| {
            json!({ "id": thread.id, "name": thread.name, "role": thread.role, "uid": thread.uid,
                "capabilities": format!("{:x}", thread.capabilities), "bounding": format!("{:x}", thread.bounding),
                "no_new_privileges": thread.no_new_privileges, "filters": thread.filters })
        };
        let shortfall = |short: &Shortfall| json!({ "what": short.what, "fix": short.fix });
        json!({ "pid": self.id, "threads": self.threads.iter().map(thread).collect::<Value>(),
            "core_bytes": self.core_bytes, "is_dumpable": self.is_dumpable,
            "limits": self.limits.iter().map(|(name, most)| ((*name).to_owned(), json!(most))).collect::<Value>(),
            "files": self.reach.as_ref().map(|reach| json!({ "list": reach.list, "read": reach.read, "write": reach.write, "run": reach.run })),
            "shortfalls": self.shortfalls().iter().map(shortfall).collect::<Value>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tworker-0\nUmask:\t0022\nTgid:\t7\nPid:\t9\nUid:\t998\t998\t998\t998\nCapInh:\t0000000000000000\n\
        CapEff:\t0000000000003000\nCapBnd:\t0000000000003000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t2\n";

    #[test]
    fn a_thread_is_read_from_its_status() {
        let want = Thread {
            id: 9,
            name: "worker-0".into(),
            uid: 998,
            capabilities: 0x3000,
            bounding: 0x3000,
            no_new_privileges: true,
            filters: 2,
            role: "unconfined",
        };
        assert_eq!(thread(STATUS), Some(want));
        assert_eq!(thread(&STATUS.replace("Seccomp:\t2", "Seccomp:\t0")).map(|t| t.filters), Some(0));
        assert_eq!(thread("Name:\tx\n"), None);
    }

    #[test]
    fn a_role_shows_by_filters_and_names() {
        let check = |name: &str, id: u32, filters: u32, outer: u32, want: &str| {
            let one = Thread { name: name.into(), id, filters, ..Thread::default() };
            assert_eq!(one.role(7, outer), want, "{name} {filters} {outer}");
        };
        check("worker-0", 9, 2, 0, "worker");
        check("worker-0", 9, 1, 0, "service");
        check("worker-0", 9, 7, 5, "worker");
        check("junctor", 7, 7, 5, "main");
        check("junctor", 7, 6, 5, "service");
        check("profile", 9, 7, 5, "recorder");
        check("control", 9, 5, 5, "unconfined");
        // systemd's filters alone.
        check("worker-0", 9, 7, u32::MAX, "unconfined");
    }

    #[test]
    fn limits_are_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
            Max core file size        0                    unlimited            bytes\n\
            Max locked memory         unlimited            unlimited            bytes\n";
        assert_eq!(limits(text), [("core_bytes", Some(0)), ("locked_bytes", None)]);
    }

    #[test]
    fn what_is_weaker_is_named_with_its_fix() {
        let good = Thread { capabilities: 0, role: "worker", ..thread(STATUS).unwrap() };
        let check = |change: &dyn Fn(&mut Thread), core: Option<u64>, dumpable, words: &[&str]| {
            let mut one = good.clone();
            change(&mut one);
            let process = Process {
                id: 7,
                threads: vec![one],
                core_bytes: core,
                is_dumpable: dumpable,
                ..Process::default()
            };
            let shortfalls = process.shortfalls();
            assert_eq!(shortfalls.len(), words.len(), "{shortfalls:?}");
            for (short, word) in shortfalls.iter().zip(words) {
                assert!(short.what.contains(word) && !short.fix.is_empty(), "{short:?} {word}");
            }
        };
        check(&|_| (), Some(0), Some(false), &[]);
        check(&|t| t.capabilities = 1, Some(0), None, &["has capabilities 0x1"]);
        check(&|t| t.role = "service", Some(0), None, &["system calls of services"]);
        check(&|t| t.role = "unconfined", Some(0), None, &["all system calls"]);
        check(&|t| t.uid = 0, None, Some(true), &["as root", "core dump", "read its memory"]);
        check(&|t| t.no_new_privileges = false, Some(0), None, &["can get privileges"]);
    }

    #[test]
    fn this_process_can_be_looked_at() {
        let process = look(std::process::id()).unwrap();
        assert!(process.threads.iter().any(|t| t.id == std::process::id()));
        assert_eq!(process.json()["threads"].as_array().map(Vec::len), Some(process.threads.len()));
        assert!(look(0).is_err());
    }
}
