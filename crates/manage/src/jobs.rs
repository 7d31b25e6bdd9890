// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long work: captures, traces, recordings, tests. Each is a `junctor` command in a process of its own, so that what it costs ends
//! with it. The number of jobs, their time and the size of what they write are bounded.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::problem::{Kind, Problem};
use crate::route::Role;
use crate::scratch::Scratch;
use crate::words::absent;

/// Jobs of one sort that run at the same time.
pub const RUNNING: usize = 4;
/// Jobs that are remembered.
pub const KEPT: usize = 16;
/// The most bytes that one file of a job may have.
pub const BYTES: u64 = 64 << 20;
/// The longest time that a job may take.
pub const LONGEST: Duration = Duration::from_secs(3600);
/// A job that has ended is removed after this time.
pub const REMOVED_AFTER: Duration = Duration::from_secs(3600);
/// How long a job that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Bytes of messages that are shown.
const WORDS: usize = 4096;
/// The most bytes of messages in one answer.
const PAGE: usize = 64 << 10;

/// What a job is counted with. Jobs of one sort leave those of another their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Captures, traces, recordings, views, tests.
    Work,
    /// Changes of configurations.
    Transaction,
}

impl Sort {
    fn name(self) -> &'static str {
        match self {
            Sort::Work => "jobs",
            Sort::Transaction => "transactions",
        }
    }
}

/// What a job is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it is counted with.
    pub sort: Sort,
    /// The role that starting it needs, and ending it.
    pub role: Role,

    /// `capture`, `trace`, `recording`, `test`, `apply`.
    pub kind: &'static str,
    /// Its router, if it has one.
    pub router: Option<String>,
    /// Who has asked for it.
    pub by: String,
    /// How long it is expected to take, if that is known.
    pub expected: Option<Duration>,
    /// The file that the process writes into its directory; without one its standard output is the result.
    pub file: Option<&'static str>,
    /// The type of the result.
    pub media_type: &'static str,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its process runs.
    Running,
    /// It has succeeded.
    Done,
    /// It has failed.
    Failed,
    /// Somebody has ended it. What it had until then is its result.
    Cancelled,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Done => "done",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }
}

struct Job {
    plan: Plan,
    directory: TempDir,
    state: State,
    begun: Instant,
    ended: Option<Instant>,
    status: Option<i32>,
    /// Somebody wants it to end.
    cancelled: Option<Instant>,
}

impl Job {
    /// Only who may start such a job may do this to it.
    fn needs(&self, role: Role, what: &str) -> Result<(), Problem> {
        let needed = self.plan.role;
        if role >= needed {
            return Ok(());
        }
        let detail = format!("to {what} needs the role {}, as to start it", needed.name());
        Err(Problem::new(Kind::Forbidden, detail).fix("ask somebody who has that role"))
    }

    fn result(&self) -> PathBuf {
        self.directory.path().join(self.plan.file.unwrap_or("stdout"))
    }

    fn json(&self, id: u64) -> Value {
        let seconds =
            self.ended.unwrap_or_else(Instant::now).saturating_duration_since(self.begun).as_secs_f64();
        let progress = match (self.state, self.plan.expected) {
            (State::Running, Some(expected)) => Some((seconds / expected.as_secs_f64().max(0.001)).min(0.99)),
            (State::Running, None) => None,
            _ => Some(1.0),
        };
        json!({
            "id": id, "kind": self.plan.kind, "router": self.plan.router, "by": self.plan.by, "state": self.state.name(),
            "seconds": seconds, "progress": progress, "bytes": std::fs::metadata(self.result()).map_or(0, |m| m.len()),
            "media_type": self.plan.media_type, "exit_status": self.status, "message": words(self.directory.path()),
        })
    }
}

/// The end of what a process said.
fn words(directory: &Path) -> String {
    use std::os::unix::fs::FileExt as _;
    let Ok(file) = File::open(directory.join("stderr")) else { return String::new() };
    let from = file.metadata().map_or(0, |m| m.len()).saturating_sub(WORDS as u64);
    let mut bytes = vec![0; WORDS];
    let n = file.read_at(&mut bytes, from).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..n]).into_owned()
}

/// Whole lines that a process has written from a byte on, and the byte after them.
fn lines(directory: &Path, from: u64) -> (String, u64) {
    use std::os::unix::fs::FileExt as _;
    let mut bytes = vec![0; PAGE];
    let n = File::open(directory.join("stderr")).and_then(|file| file.read_at(&mut bytes, from)).unwrap_or(0);
    // A line longer than a page is given in pieces.
    let end =
        bytes[..n].iter().rposition(|byte| *byte == b'\n').map_or(if n == PAGE { n } else { 0 }, |at| at + 1);
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), from + end as u64)
}

#[derive(Default)]
struct All {
    next: u64,
    /// Where they have their directories, from the first one on.
    scratch: Option<Scratch>,
    jobs: BTreeMap<u64, Job>,
}

/// All jobs.
#[derive(Clone, Default)]
pub struct Jobs(Arc<(Mutex<All>, Condvar)>);

impl Jobs {
    fn all(&self) -> MutexGuard<'_, All> {
        let mut all = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.jobs.retain(|_, job| job.ended.is_none_or(|ended| ended.elapsed() < REMOVED_AFTER));
        all
    }

    /// Starts a job. `command` makes the process, given the file that it is to write.
    ///
    /// # Errors
    /// Too many run, or the process cannot be started.
    pub fn start(
        &self,
        plan: Plan,
        command: impl FnOnce(&Path) -> Result<Command, Problem>,
        input: &str,
    ) -> Result<u64, Problem> {
        let failed =
            |why: std::io::Error| Problem::new(Kind::Internal, format!("the job cannot be started: {why}"));
        let mut all = self.all();
        let is_counted = |job: &&Job| job.state == State::Running && job.plan.sort == plan.sort;
        if all.jobs.values().filter(is_counted).count() >= RUNNING {
            let fix = "wait for one, or cancel one by DELETE /api/v1/jobs/{job}";
            let detail = format!("{RUNNING} {} run already", plan.sort.name());
            return Err(Problem::new(Kind::Unavailable, detail).fix(fix));
        }
        while all.jobs.len() >= KEPT {
            let oldest =
                all.jobs.iter().filter(|(_, job)| job.ended.is_some()).min_by_key(|(_, job)| job.ended);
            let Some(id) = oldest.map(|(id, _)| *id) else { break };
            all.jobs.remove(&id);
        }
        let scratch = match all.scratch.take() {
            Some(scratch) => scratch,
            None => Scratch::new().map_err(failed)?,
        };
        let directory = all.scratch.insert(scratch).part().map_err(failed)?;
        let mut command = command(&directory.path().join(plan.file.unwrap_or("stdout")))?;
        let child = spawn(&mut command, directory.path(), input).map_err(failed)?;
        let id = all.next;
        all.next += 1;
        let begun = Instant::now();
        all.jobs.insert(
            id,
            Job { plan, directory, state: State::Running, begun, ended: None, status: None, cancelled: None },
        );
        drop(all);
        let jobs = self.clone();
        let watched = std::thread::Builder::new().name("job".into()).spawn(move || jobs.watch(id, child));
        watched.map_err(failed)?;
        Ok(id)
    }

    /// Waits for a process, and ends it if somebody wants that or it takes too long.
    fn watch(&self, id: u64, mut child: Child) {
        let (mut begun_to_end, mut killed) = (None::<Instant>, false);
        let status = loop {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => break Some(status),
                Err(_) => break None,
            }
            let all = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.0.1.wait_timeout(all, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            let job = waited.jobs.get(&id);
            let is_over = job.is_none_or(|job| job.cancelled.is_some() || job.begun.elapsed() > LONGEST);
            drop(waited);
            match begun_to_end {
                None if is_over => {
                    begun_to_end = Some(Instant::now());
                    // It has not been waited for, so its number is still its own.
                    if let Some(pid) = Pid::from_raw(child.id() as i32) {
                        let _ = rustix::process::kill_process(pid, Signal::TERM);
                    }
                }
                Some(since) if since.elapsed() > GRACE && !killed => {
                    killed = true;
                    let _ = child.kill();
                }
                _ => {}
            }
        };
        self.ended(id, status);
    }

    fn ended(&self, id: u64, status: Option<ExitStatus>) {
        let mut all = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(job) = all.jobs.get_mut(&id) {
            job.ended = Some(Instant::now());
            job.status = status.and_then(|status| status.code());
            job.state = match (job.cancelled, status) {
                (Some(_), _) => State::Cancelled,
                (None, Some(status)) if status.success() => State::Done,
                _ => State::Failed,
            };
        }
        drop(all);
        self.0.1.notify_all();
    }

    /// All jobs.
    pub fn list(&self) -> Vec<Value> {
        self.all().jobs.iter().map(|(id, job)| job.json(*id)).collect()
    }

    /// One of them.
    ///
    /// # Errors
    /// There is none of this number.
    pub fn get(&self, id: &str) -> Result<Value, Problem> {
        self.with(id, |id, job| job.json(id))
    }

    /// The file, type and name of a result.
    ///
    /// # Errors
    /// There is none of this number, it is not done, or the role does not suffice to start such a job.
    pub fn result(&self, id: &str, role: Role) -> Result<(PathBuf, &'static str, String), Problem> {
        self.with(id, |id, job| {
            job.needs(role, "read what this job has found")?;
            if job.state == State::Running {
                let fix = "ask /api/v1/jobs/{job} until its state is another, or cancel it";
                return Err(Problem::new(Kind::Conflict, "the job still runs").fix(fix));
            }
            let name = format!("{}-{id}.{}", job.plan.kind, extension(job.plan.media_type));
            Ok((job.result(), job.plan.media_type, name))
        })?
    }

    /// Lines that a job has written as messages, from a byte on, and the byte after them.
    ///
    /// # Errors
    /// There is none of this number.
    pub fn lines(&self, id: &str, from: u64) -> Result<(String, u64), Problem> {
        let directory = self.with(id, |_, job| job.directory.path().to_owned())?;
        Ok(lines(&directory, from))
    }

    /// Ends a job that runs, removes one that has ended. Returns what it was. `role` is that of who asks.
    ///
    /// # Errors
    /// There is none of this number, or the role does not suffice to start such a job.
    pub fn end(&self, id: &str, role: Role) -> Result<Value, Problem> {
        let id = self.with(id, |id, job| job.needs(role, "end this job").map(|()| id))??;
        let mut all = self.all();
        let is_running = all.jobs.get(&id).is_some_and(|job| job.state == State::Running);
        if !is_running {
            return Ok(all.jobs.remove(&id).map_or(Value::Null, |job| job.json(id)));
        }
        if let Some(job) = all.jobs.get_mut(&id) {
            job.cancelled.get_or_insert_with(Instant::now);
        }
        let value = all.jobs.get(&id).map_or(Value::Null, |job| job.json(id));
        drop(all);
        self.0.1.notify_all();
        Ok(value)
    }

    /// Waits until a job has ended, or for so long.
    pub fn wait(&self, id: u64, patience: Duration) {
        let until = Instant::now() + patience;
        let mut all = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        while all.jobs.get(&id).is_some_and(|job| job.state == State::Running) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return };
            all = self.0.1.wait_timeout(all, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends all jobs: the service ends.
    pub fn end_all(&self) {
        let ids: Vec<u64> = self.all().jobs.keys().copied().collect();
        for id in &ids {
            if let Some(job) = self.all().jobs.get_mut(id) {
                job.cancelled.get_or_insert_with(Instant::now);
            }
        }
        self.0.1.notify_all();
        ids.into_iter().for_each(|id| self.wait(id, GRACE * 2));
        let mut all = self.all();
        all.jobs.clear();
        all.scratch = None;
    }

    fn with<T>(&self, id: &str, look: impl FnOnce(u64, &Job) -> T) -> Result<T, Problem> {
        let all = self.all();
        let found = id.parse().ok().and_then(|id: u64| all.jobs.get(&id).map(|job| look(id, job)));
        found.ok_or_else(|| absent("job", id, "see /api/v1/jobs; a job is removed an hour after its end"))
    }
}

fn extension(media_type: &str) -> &'static str {
    match media_type {
        "application/json" => "json",
        "application/x-ndjson" => "jsonl",
        "application/vnd.tcpdump.pcap" => "pcapng",
        "text/html" => "html",
        "text/csv" => "csv",
        "application/x-protobuf" => "pftrace",
        "text/plain" => "txt",
        _ => "bin",
    }
}

/// Starts a process whose words and output go into files of its directory.
fn spawn(command: &mut Command, directory: &Path, input: &str) -> std::io::Result<Child> {
    let stdin = directory.join("stdin");
    std::fs::write(&stdin, input)?;
    command.stdin(File::open(stdin)?);
    command.stdout(File::create(directory.join("stdout"))?).stderr(File::create(directory.join("stderr"))?);
    command.current_dir(directory);
    let mut child = command.spawn()?;
    let limit = Rlimit { current: Some(BYTES), maximum: Some(BYTES) };
    let bounded = rustix::process::prlimit(Pid::from_raw(child.id() as i32), Resource::Fsize, limit);
    if let Err(why) = bounded {
        let _ = child.kill();
        let _ = child.wait();
        return Err(why.into());
    }
    Ok(child)
}

/// Runs a command for at most so long, with this input; returns its status and the first bytes of its output and words. Who asks for a
/// command knows what to do if it takes too long, and says so.
///
/// # Errors
/// It cannot be started, or takes too long.
pub fn run(
    command: &mut Command,
    input: &str,
    patience: Duration,
) -> Result<(Option<i32>, String, String), Problem> {
    let failed =
        |why: std::io::Error| Problem::new(Kind::Internal, format!("the command cannot be run: {why}"));
    let directory = Scratch::new().map_err(failed)?;
    let mut child = spawn(command.stdin(Stdio::null()), directory.path(), input).map_err(failed)?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if begun.elapsed() > patience {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Problem::new(
                Kind::TimedOut,
                format!("it took longer than {} s", patience.as_secs()),
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |name: &str| -> Result<String, Problem> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        let file = File::open(directory.path().join(name)).map_err(failed)?;
        file.take(BYTES / 8).read_to_end(&mut bytes).map_err(failed)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok((status.code(), text("stdout")?, text("stderr")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            sort: Sort::Work,
            role: Role::Operator,
            kind: "capture",
            router: None,
            by: "me".into(),
            expected: None,
            file: None,
            media_type: "application/json",
        }
    }

    fn shell(line: &str) -> impl FnOnce(&Path) -> Result<Command, Problem> {
        let line = line.to_owned();
        move |_| {
            let mut command = Command::new("sh");
            command.args(["-c", &line]);
            Ok(command)
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    /// A job, after it has ended or this time has passed.
    fn ended(jobs: &Jobs, id: u64, patience: Duration) -> Value {
        jobs.wait(id, patience);
        jobs.get(&id.to_string()).unwrap()
    }

    #[test]
    fn jobs_end_with_their_results() {
        let jobs = Jobs::default();
        let id = jobs.start(plan(), shell("cat; echo words >&2"), "{}").unwrap();
        let job = ended(&jobs, id, LONG);
        assert_eq!(
            (&job["state"], &job["message"], &job["progress"]),
            (&json!("done"), &json!("words\n"), &json!(1.0))
        );
        let (path, media_type, name) = jobs.result(&id.to_string(), Role::Operator).unwrap();
        assert_eq!(
            (std::fs::read_to_string(&path).unwrap().as_str(), media_type),
            ("{}", "application/json")
        );
        assert_eq!(name, format!("capture-{id}.json"));
        assert_eq!(jobs.lines("0", 0).unwrap(), ("words\n".into(), 6));
        assert_eq!(jobs.lines("0", 6).unwrap(), (String::new(), 6));
        assert_eq!(jobs.lines("0", u64::MAX / 2).unwrap().0, "");
        let id = jobs.start(plan(), shell("exit 3"), "").unwrap();
        let job = ended(&jobs, id, LONG);
        assert_eq!((&job["state"], &job["exit_status"]), (&json!("failed"), &json!(3)));
        // Removed, its files go.
        jobs.end("0", Role::Operator).unwrap();
        assert!(!path.exists() && jobs.get("0").is_err());
    }

    #[test]
    fn jobs_are_cancelled_and_bounded() {
        let jobs = Jobs::default();
        let ids: Vec<u64> =
            (0..RUNNING).map(|_| jobs.start(plan(), shell("exec sleep 1000"), "").unwrap()).collect();
        assert_eq!(jobs.start(plan(), shell("true"), "").unwrap_err().kind, Kind::Unavailable);
        assert_eq!(jobs.result("0", Role::Operator).unwrap_err().kind, Kind::Conflict);
        // Those of another sort have places of their own, and an operator neither ends nor reads what needs an administrator.
        let change = Plan { sort: Sort::Transaction, role: Role::Admin, ..plan() };
        let changing = jobs.start(change, shell("exec sleep 1000"), "").unwrap();
        let refused = jobs.end(&changing.to_string(), Role::Operator).unwrap_err();
        assert_eq!(
            (refused.kind, ended(&jobs, changing, Duration::ZERO)["state"].as_str()),
            (Kind::Forbidden, Some("running"))
        );
        jobs.end(&changing.to_string(), Role::Admin).unwrap();
        assert_eq!(ended(&jobs, changing, LONG)["state"], "cancelled");
        let read = |role| jobs.result(&changing.to_string(), role).map_err(|why| why.kind);
        assert_eq!(read(Role::Operator).unwrap_err(), Kind::Forbidden);
        assert!(read(Role::Admin).is_ok());
        jobs.end("0", Role::Operator).unwrap();
        assert_eq!(ended(&jobs, ids[0], LONG)["state"], "cancelled");
        jobs.end_all();
        assert!(jobs.list().is_empty());
        // Ended ones give way.
        for _ in 0..KEPT + 3 {
            let id = jobs.start(plan(), shell("true"), "").unwrap();
            ended(&jobs, id, LONG);
        }
        assert_eq!(jobs.list().len(), KEPT);
        // A file of more than the limit ends the job.
        let id = jobs.start(plan(), shell("exec dd if=/dev/zero bs=1M count=100 2>/dev/null"), "").unwrap();
        let job = ended(&jobs, id, LONG);
        assert_eq!((&job["state"], &job["bytes"]), (&json!("failed"), &json!(BYTES)));
    }

    #[test]
    fn commands_are_run_for_a_time_only() {
        let mut command = shell("cat; echo no >&2; exit 2")(Path::new("")).unwrap();
        let found = run(&mut command, "yes", Duration::from_secs(60)).unwrap();
        assert_eq!(found, (Some(2), "yes".into(), "no\n".into()));
        let mut command = shell("exec sleep 1000")(Path::new("")).unwrap();
        assert_eq!(run(&mut command, "", Duration::ZERO).unwrap_err().kind, Kind::TimedOut);
    }
}
