// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is in force for each thread of a process, as the kernel says it in /proc (proc(5)).

use std::path::Path;

use serde_json::{Value, json};

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
    /// Filters of system calls: services have one, workers two.
    pub filters: u32,
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
}

/// What is weaker than a confined router has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// What.
    pub what: String,
    /// What to do.
    pub fix: String,
}

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
    })
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
    let limits = std::fs::read_to_string(format!("{base}/limits")).unwrap_or_default();
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size"));
    let core_bytes = core.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
    let owner = std::fs::metadata(Path::new(&base).join("environ")).ok().map(|file| file.uid());
    let uid = threads.first().map(|thread| thread.uid);
    // The files of a process that may not be dumped are root's. For root itself this shows nothing.
    let is_dumpable = owner.zip(uid).filter(|(_, uid)| *uid != 0).map(|(owner, uid)| owner == uid);
    Ok(Process { id, threads, core_bytes, is_dumpable })
}

/// The names of the other threads of this process.
pub(crate) fn others() -> Vec<String> {
    let own = std::process::id();
    let threads = look(own).map(|process| process.threads).unwrap_or_default();
    let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    threads.into_iter().filter(|thread| thread.id != me).map(|thread| thread.name).collect()
}

impl Thread {
    /// The role that its filters show.
    pub fn role(&self) -> &'static str {
        match self.filters {
            0 => "unconfined",
            1 => "service",
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
            match (thread.filters, thread.is_worker()) {
                (0, _) => say(format!("{name} can make all system calls"), CONFINE),
                (1, true) => say(format!("{name} can make the system calls of services"), CONFINE),
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
                thread.id,
                thread.name,
                thread.role(),
                thread.uid,
                thread.capabilities,
                thread.filters
            );
        }
        for Shortfall { what, fix } in self.shortfalls() {
            text += &format!("{what}\n  -> {fix}\n");
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let thread = |thread: &Thread| {
            json!({ "id": thread.id, "name": thread.name, "role": thread.role(), "uid": thread.uid,
                "capabilities": format!("{:x}", thread.capabilities), "bounding": format!("{:x}", thread.bounding),
                "no_new_privileges": thread.no_new_privileges, "filters": thread.filters })
        };
        let shortfall = |short: &Shortfall| json!({ "what": short.what, "fix": short.fix });
        json!({ "pid": self.id, "threads": self.threads.iter().map(thread).collect::<Value>(),
            "core_bytes": self.core_bytes, "is_dumpable": self.is_dumpable,
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
        };
        assert_eq!(thread(STATUS), Some(want));
        assert_eq!(thread(&STATUS.replace("Seccomp:\t2", "Seccomp:\t0")).map(|t| t.filters), Some(0));
        assert_eq!(thread("Name:\tx\n"), None);
    }

    #[test]
    fn what_is_weaker_is_named_with_its_fix() {
        let good = Thread { capabilities: 0, ..thread(STATUS).unwrap() };
        let check = |change: &dyn Fn(&mut Thread), core: Option<u64>, dumpable, words: &[&str]| {
            let mut one = good.clone();
            change(&mut one);
            let process = Process { id: 7, threads: vec![one], core_bytes: core, is_dumpable: dumpable };
            let shortfalls = process.shortfalls();
            assert_eq!(shortfalls.len(), words.len(), "{shortfalls:?}");
            for (short, word) in shortfalls.iter().zip(words) {
                assert!(short.what.contains(word) && !short.fix.is_empty(), "{short:?} {word}");
            }
        };
        check(&|_| (), Some(0), Some(false), &[]);
        check(&|t| t.capabilities = 1, Some(0), None, &["has capabilities 0x1"]);
        check(&|t| t.filters = 1, Some(0), None, &["system calls of services"]);
        check(&|t| t.filters = 0, Some(0), None, &["all system calls"]);
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
