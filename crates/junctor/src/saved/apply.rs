// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor config apply`, `confirm` and `rollback`: what a person asks of a service.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime};

use manage::ACTS_FOR;
use saved::disk::Lock;
use saved::protocol::{self, Answer, Request, Waits};
use saved::{Action, Author, Draft, Files, State};
use serde_json::json;

use super::far::seconds as whole_seconds;
use super::{Place, Stop, Store, Where, checked, far, files_of, layout};
use crate::{exit, outcome};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    /// Why the change is made.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// The commit before it comes back unless 'config confirm' comes within this time, such as 5m. So a change that cuts off
    /// its author does not stay.
    #[arg(long, value_name = "TIME")]
    confirm_within: Option<String>,
    /// The commit that the files were edited from [default: the last that was applied from them].
    #[arg(long, value_name = "N")]
    parent: Option<u64>,
    /// Apply them although another commit is in service than the one that they were edited from.
    #[arg(long)]
    force: bool,
    /// Only check the files, and show what would be done, step by step.
    #[arg(long)]
    dry_run: bool,
    /// Keep so many commits, and remove older ones.
    #[arg(long, value_name = "N", default_value_t = saved::HISTORY)]
    keep: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RollbackArgs {
    /// The commit [default: the one that waits to be confirmed is taken back, else the one that was confirmed before].
    commit: Option<u64>,
    /// Why.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// As for 'config apply'.
    #[arg(long, value_name = "TIME")]
    confirm_within: Option<String>,
    /// Only show what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

/// How long a service may take for a transaction.
const PATIENCE: Duration = Duration::from_secs(900);
/// How often is asked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Asks a service; nothing if none runs.
pub(crate) fn ask(place: &Place, request: &Request) -> Result<Option<Answer>, Stop> {
    let path = place.socket();
    let mut stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(Stop::Failed(format!(
                "{}: {why}; only its owner may change the service",
                path.display()
            )));
        }
        Err(_) => return Ok(None),
    };
    let failed = |why: std::io::Error| Stop::Failed(format!("the service of {}: {why}", place.name));
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.write_all(protocol::line(request).as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(stream.take(protocol::LONGEST)).read_line(&mut line).map_err(failed)?;
    let broken = |_| {
        let see = "see its log, and `junctor config history` for what became of it";
        Stop::Failed(format!("the service of {} ended before it answered; {see}", place.name))
    };
    serde_json::from_str(&line).map(Some).map_err(broken)
}

/// What a service does at the moment.
pub(super) struct Now {
    pub(super) running: u64,
    pub(super) waiting: Option<Waits>,
}

/// Waits until no transaction is carried out.
pub(super) fn now(place: &Place) -> Result<Option<Now>, Stop> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask(place, &Request::Status)? {
            None => return Ok(None),
            Some(Answer::Status { busy: true, .. }) if Instant::now() < until => {
                std::thread::sleep(LOOK_EVERY)
            }
            Some(Answer::Status { running, waiting, .. }) => return Ok(Some(Now { running, waiting })),
            Some(Answer::Done { text: why } | Answer::Failed { why }) => return Err(Stop::Failed(why)),
        }
    }
}

/// The commit in service; if no service runs, the one that it would start with.
pub(super) fn in_service(place: &Place, store: &Store) -> Result<Option<u64>, Stop> {
    Ok(match now(place)? {
        Some(now) => Some(now.running),
        None => store.confirmed()?,
    })
}

/// Who runs this program.
fn author() -> Author {
    let uid = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    // The management API says for whom it acts.
    let others = [ACTS_FOR, "SUDO_USER"].into_iter().filter_map(|name| std::env::var(name).ok());
    let sudo_user = others.map(|user| plain(&user)).find(|user| !user.is_empty());
    Author { uid, user: named.unwrap_or_else(|| uid.to_string()), sudo_user }
}

/// A comment for terminals of others: what would steer them becomes a space.
fn plain(comment: &str) -> String {
    comment.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Makes this process the only one that changes the configuration.
fn lock(place: &Place) -> Result<Lock, Stop> {
    let path = place.candidate_lock();
    let since = humantime::format_rfc3339_seconds(SystemTime::now());
    let holder = format!("{} (process {}, since {since})", author(), std::process::id());
    let failed = |why| Stop::Failed(format!("{}: {why}", path.display()));
    Lock::take(&path, &holder).map_err(failed)?.map_err(|holder| {
        let by = if holder.is_empty() { "somebody" } else { &holder };
        Stop::Failed(format!("{by} is changing the configuration of {}; try again after that", place.name))
    })
}

fn milliseconds(time: Option<&str>) -> Result<Option<u64>, Stop> {
    let Some(text) = time else { return Ok(None) };
    let time = engine::parse_duration(text).filter(|time| !time.is_zero());
    let wrong = || Stop::Usage(format!("--confirm-within expects a time above 0 such as 5m, not '{text}'"));
    Ok(Some(time.ok_or_else(wrong)?.as_millis() as u64))
}

/// A change on its way.
struct Change<'a> {
    place: &'a Place,
    store: &'a Store,
    now: Option<Now>,
    running: Option<u64>,
    confirm_within_ms: Option<u64>,
    force: bool,
    as_json: bool,
}

impl<'a> Change<'a> {
    /// One that is not forced.
    fn new(
        place: &'a Place,
        store: &'a Store,
        confirm_within: Option<&str>,
        as_json: bool,
    ) -> Result<Change<'a>, Stop> {
        let confirm_within_ms = milliseconds(confirm_within)?;
        let now = now(place)?;
        let running = now.as_ref().map(|now| now.running).or(store.confirmed()?);
        Ok(Change { place, store, now, running, confirm_within_ms, force: false, as_json })
    }

    /// What is saved with the files.
    fn draft(&self, comment: String, parent: Option<u64>) -> Draft {
        let confirm_within_ms = self.confirm_within_ms;
        Draft { comment, author: author(), time_s: seconds(), parent, confirm_within_ms }
    }

    /// A commit waits to be confirmed.
    fn waits(&self) -> bool {
        self.now.as_ref().is_some_and(|now| now.waiting.is_some())
    }

    /// What is done about planes.
    fn actions(&self, files: &Files) -> Result<Vec<Action>, Stop> {
        let name = &self.place.name;
        let new = layout::layout(name, files).map_err(Stop::Usage)?;
        let Some(running) = self.running else { return Ok(Vec::new()) };
        let old_files = files_of(self.store, running)?;
        let old = layout::layout(name, &old_files).map_err(Stop::Failed)?;
        Ok(saved::plan((&old, &old_files), (&new, files)))
    }

    fn show_plan(&self, files: &Files) -> Result<u8, Stop> {
        let actions = self.actions(files)?;
        let texts: Vec<String> = actions.iter().map(Action::to_string).collect();
        if self.as_json {
            let list: Vec<_> = actions
                .iter()
                .map(|action| json!({ "action": action.word(), "plane": action.plane(), "text": action.to_string() }))
                .collect();
            return Ok(outcome::print_or_fail(format!("{}\n", json!({ "actions": list })).as_bytes()));
        }
        let text = match (self.running, texts.is_empty()) {
            (None, _) => "the first commit: it starts with the service\n".to_owned(),
            (_, true) => "no plane is touched\n".to_owned(),
            _ => format!("{}\n", texts.join("\n")),
        };
        Ok(outcome::print_or_fail(text.as_bytes()))
    }

    /// Puts a commit into service, or has it start with the service.
    fn carry_out(&self, commit: u64, base: Option<u64>) -> Result<u8, Stop> {
        let request = Request::Apply { commit, confirm_within_ms: self.confirm_within_ms, force: self.force };
        let said = match if self.now.is_some() { ask(self.place, &request)? } else { None } {
            Some(Answer::Done { text }) => text,
            Some(Answer::Failed { why }) => return Err(Stop::Failed(why)),
            Some(Answer::Status { .. }) => {
                return Err(Stop::Failed("the service answers something else".into()));
            }
            None if self.confirm_within_ms.is_some() => return Err(self.nobody_to_take_it_back(commit)),
            None => self.without_service(commit)?,
        };
        if let Some(base) = base {
            self.store.set_base(base)?;
        }
        let text = match self.as_json {
            true => format!("{}\n", json!({ "commit": commit, "message": said })),
            false => format!("{said}\n"),
        };
        Ok(outcome::print_or_fail(text.as_bytes()))
    }

    /// The service has ended since the commit was saved. A commit that has to be confirmed must not boot unconfirmed.
    fn nobody_to_take_it_back(&self, commit: u64) -> Stop {
        let name = &self.place.name;
        let why = "the service ended before it was asked".to_owned();
        let noted = self.store.set_state(commit, State::Failed { why });
        let noted = noted.map_or_else(|why| format!(", which is not saved: {why}"), |()| String::new());
        Stop::Failed(format!(
            "the service of {name} has ended, so nothing could take the change back; commit {commit} has failed{noted}"
        ))
    }

    fn without_service(&self, commit: u64) -> Result<String, Stop> {
        let path = self.place.service_lock();
        let failed = |why| Stop::Failed(format!("{}: {why}", path.display()));
        let _lock = Lock::take(&path, "a commit without service").map_err(failed)?.map_err(|_| {
            Stop::Failed(format!(
                "the service of {} is starting or does not answer; try again",
                self.place.name
            ))
        })?;
        self.store.confirm(commit)?;
        Ok(format!("commit {commit} is saved; the service does not run, and starts with it"))
    }

    /// Refuses what the service would refuse, before anything is saved.
    fn precheck(&self, parent: Option<u64>) -> Result<(), Stop> {
        let name = &self.place.name;
        if self.now.is_none() && self.confirm_within_ms.is_some() {
            let why = format!("the service of {name} does not run, so nothing could take the change back");
            return Err(Stop::Usage(why));
        }
        if let Some(waits) = self.now.as_ref().and_then(|now| now.waiting.as_ref()) {
            let by = self.store.commit(waits.commit).map(|commit| format!(" of {}", commit.author));
            return Err(Stop::Failed(format!(
                "commit {}{} waits to be confirmed for another {} s; `junctor config confirm` keeps it, `junctor config \
                 rollback` takes it back",
                waits.commit,
                by.unwrap_or_default(),
                waits.left_ms.div_ceil(1000)
            )));
        }
        match self.running {
            Some(running) if !self.force && parent != Some(running) => {
                let by = self
                    .store
                    .commit(running)
                    .map(|commit| format!(" ({}: {})", commit.author, commit.comment));
                Err(Stop::Failed(format!(
                    "the files were edited from {}, but commit {running}{} is in service; see `junctor config diff`, and \
                     repeat it with --force if the files have all that is wanted",
                    parent.map_or_else(|| "no commit".to_owned(), |parent| format!("commit {parent}")),
                    by.unwrap_or_default()
                )))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn apply(args: &ApplyArgs) -> Result<u8, Stop> {
    if let Some(far) = far(&args.place)? {
        if args.dry_run {
            return far.plan(args.json);
        }
        let confirm_within_s = whole_seconds(milliseconds(args.confirm_within.as_deref())?)?;
        let body = json!({
            "comment": args.comment, "confirm_within_s": confirm_within_s, "parent": args.parent, "force": args.force,
            "keep": args.keep,
        });
        return far.transaction("apply", body, args.json);
    }
    let place = args.place.find().map_err(Stop::Usage)?;
    let store = place.store()?;
    let _lock = lock(&place)?;
    let mut change = Change::new(&place, &store, args.confirm_within.as_deref(), args.json)?;
    change.force = args.force;
    let running = change.running;
    let files = saved::disk::read_files(&place.etc)?;
    if let Some(running) = running.filter(|_| !args.dry_run && !change.waits())
        && files_of(&store, running).is_ok_and(|old| old == files)
    {
        store.set_base(running)?;
        let text = format!("commit {running} is in service, and the files are the same");
        let object = json!({ "commit": running, "message": text }).to_string();
        return Ok(outcome::print_or_fail(format!("{}\n", if args.json { object } else { text }).as_bytes()));
    }
    let parent = args.parent.or(store.base()?);
    if !args.dry_run {
        change.precheck(parent)?;
    }
    // The copy is checked and saved, even if somebody edits the files meanwhile.
    let staged = store.stage(&files)?;
    let checked = checked::check(&place.name, &staged, &files).map_err(Stop::Usage)?;
    checked.report(args.json && checked.is_bad);
    if checked.is_bad {
        return Err(Stop::Wrong);
    }
    if args.dry_run {
        return change.show_plan(&files);
    }
    let parent = if args.force { running } else { parent };
    let draft = change.draft(plain(&args.comment), parent);
    let commit = store.finish(&files, draft, args.keep)?;
    change.carry_out(commit, Some(commit))
}

pub(super) fn confirm(place: &Where) -> Result<u8, Stop> {
    if let Some(far) = far(place)? {
        return far.confirm();
    }
    answer(&place.find().map_err(Stop::Usage)?, &Request::Confirm)
}

/// Asks something that a service has to run for.
fn answer(place: &Place, request: &Request) -> Result<u8, Stop> {
    match ask(place, request)? {
        Some(Answer::Done { text }) => Ok(outcome::print_or_fail(format!("{text}\n").as_bytes())),
        Some(Answer::Failed { why }) => Err(Stop::Failed(why)),
        Some(Answer::Status { .. }) => Ok(exit::SUCCESS),
        None => Err(Stop::Failed(format!(
            "the service of {} does not run ({}); it starts with the last confirmed commit",
            place.name,
            place.socket().display()
        ))),
    }
}

pub(super) fn rollback(args: &RollbackArgs) -> Result<u8, Stop> {
    if let Some(far) = far(&args.place)? {
        let confirm_within_s = whole_seconds(milliseconds(args.confirm_within.as_deref())?)?;
        let body = json!({
            "commit": args.commit, "comment": args.comment, "confirm_within_s": confirm_within_s, "dry_run": args.dry_run,
        });
        return far.transaction("rollback", body, args.json);
    }
    let place = args.place.find().map_err(Stop::Usage)?;
    let store = place.store()?;
    let waits = || now(&place).map(|now| now.is_some_and(|now| now.waiting.is_some()));
    if args.commit.is_none() && waits()? {
        return answer(&place, &Request::Rollback);
    }
    let _lock = lock(&place)?;
    let change = Change::new(&place, &store, args.confirm_within.as_deref(), args.json)?;
    let running = change.running;
    change.precheck(running)?;
    let to = match args.commit {
        Some(commit) => commit,
        None => before(&store, running)?,
    };
    let files = files_of(&store, to)?;
    if args.dry_run {
        return change.show_plan(&files);
    }
    let comment = match &*args.comment {
        "" => format!("rollback to commit {to}"),
        comment => format!("rollback to commit {to}: {}", plain(comment)),
    };
    let draft = change.draft(comment, running);
    let commit = store.save(&files, draft, saved::HISTORY)?;
    // The working files are another matter: they are still what they were edited from.
    change.carry_out(commit, None)
}

/// The newest commit before this one that was confirmed.
fn before(store: &Store, running: Option<u64>) -> Result<u64, Stop> {
    let none =
        || Stop::Failed("there is no earlier commit that was confirmed; see `junctor config history`".into());
    let running = running.ok_or_else(none)?;
    for number in store.numbers()?.into_iter().rev().filter(|number| *number < running) {
        if store.commit(number).is_ok_and(|commit| commit.state == State::Confirmed) {
            return Ok(number);
        }
    }
    Err(none())
}

/// Saves the working files of a service that starts for the first time; returns their number.
pub(crate) fn first(place: &Place, store: &Store) -> Result<u64, Stop> {
    let _lock = lock(place)?;
    let files = saved::disk::read_files(&place.etc)?;
    let staged = store.stage(&files)?;
    let checked = checked::check(&place.name, &staged, &files).map_err(Stop::Usage)?;
    checked.report(false);
    if checked.is_bad {
        return Err(Stop::Wrong);
    }
    let comment = "the files of the first start".to_owned();
    let draft = Draft { comment, author: author(), time_s: seconds(), parent: None, confirm_within_ms: None };
    let commit = store.finish(&files, draft, saved::HISTORY)?;
    store.confirm(commit)?;
    store.set_base(commit)?;
    Ok(commit)
}
