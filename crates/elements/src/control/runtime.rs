// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scripts as they run.
//!
//! A script's variables are common to all its runs and stand in [`State`]; where a run is stands in its [`Frame`]. The
//! state keeps the frame of the run that may block at `pause` and `wait` and go on later. While that one runs its frame is
//! out of the state, and a call that comes back to the script (from itself, or from another worker) finds none and
//! gets a frame of its own, which ends with the call. The lock is held for single accesses only, never across a call.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use element::Policy;
use element::args::parse_bool;
use element::{Access, Cx, HandlerError, HandlerRef, parse_duration};
use lang::Lookup;
use lang::config::{shift_word, split_words, unquote_string};
use sync::pipes;

use super::functions;
use super::parse::{Ending, Instruction, Jump, Redirect, ScriptKind, find_label};
use super::script::Script;
use crate::tools::nanos;

/// Jumps without a pause after which a script is taken to loop for ever.
const MAX_JUMPS: u32 = 1000;
/// Bytes that variables and handlers may bring into one text, so that one that is set to itself twice ends somewhere.
const MOST_TEXT: usize = 1 << 20;
/// Scripts that call scripts that call scripts ... this deep at most.
const MAX_DEPTH: u32 = 50;
/// The status of a write that failed, for `$?`: what Click's handlers return for an error, EINVAL. A handler that is not there
/// leaves the status of the write before, as in Click.
const FAILED: i32 = -22;

thread_local! {
    /// Scripts running on this thread, one in another.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// What all runs of a script share.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) variables: BTreeMap<String, String>,
    /// The run that may go on later; absent while it runs.
    frame: Option<Frame>,
    /// Steps asked for while the script was running.
    steps: u32,
    /// A jump asked for while the script was running.
    jump: Option<usize>,
    /// Outcome of the last write.
    status: i32,
}

/// Where a run is.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    position: usize,
    /// Steps that each `pause` has seen.
    passed: Vec<u32>,
    jumps: u32,
    /// The script has yet to start, which takes a step.
    initial: bool,
    /// What the handler that runs the script was given.
    arguments: String,
    handler: String,
    is_write: bool,
    /// The input that the packet came by.
    input: Option<usize>,
}

impl State {
    pub(super) fn new(program: &[Instruction], starts: bool) -> State {
        let blocks = matches!(program.first(), Some(Instruction::Pause(_) | Instruction::Wait(_)));
        let frame = Frame { initial: starts && !blocks, ..Frame::default() };
        // A variable that is set anywhere is there, and empty, from the beginning.
        let variables = program.iter().filter_map(|i| match i {
            Instruction::Set { name, .. } | Instruction::Init { name, .. } => {
                Some((name.clone(), String::new()))
            }
            _ => None,
        });
        State { frame: Some(frame), variables: variables.collect(), ..State::default() }
    }
}

/// Why a run came to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// At `pause` or `wait`.
    Blocked,
    Ended(Ending),
    Returned(String),
    /// It jumped about without end.
    GaveUp,
}

/// A run of a script: the frame is taken from the state and given back at the end.
pub(super) struct Runner<'a, 'c> {
    script: &'a Script,
    cx: &'a mut Cx<'c>,
    frame: Frame,
    /// The frame goes back to the state, and the run may block.
    lasting: bool,
    /// What went wrong, for the caller; reported at once when there is none.
    errors: Option<Vec<String>>,
    reported: bool,
}

impl Drop for Runner<'_, '_> {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if self.lasting {
            self.script.state().frame = Some(std::mem::take(&mut self.frame));
        }
        // The caller may not have printed these yet: they may turn out to be no failure.
        for error in self.errors.take().unwrap_or_default() {
            self.report(&error);
        }
    }
}

impl<'a, 'c> Runner<'a, 'c> {
    /// Begins a run, or goes on with one. `called`: errors go to the caller. `None` when scripts are nested too deeply.
    pub(super) fn new(script: &'a Script, cx: &'a mut Cx<'c>, called: bool) -> Option<Runner<'a, 'c>> {
        if DEPTH.get() >= MAX_DEPTH {
            cx.print(&format!("{}: scripts call each other too deeply", cx.declaration()));
            return None;
        }
        DEPTH.set(DEPTH.get() + 1);
        cx.lend(Box::new(script.clone()));
        // Packets may come by several workers at once, so each has a frame of its own.
        let frame = if script.kind == ScriptKind::Packet { None } else { script.state().frame.take() };
        let lasting = frame.is_some();
        let frame = frame.unwrap_or_default();
        Some(Runner { script, cx, frame, lasting, errors: called.then(Vec::new), reported: false })
    }

    /// Goes on by so many steps; remembers them when the script runs already.
    pub(super) fn step(&mut self, steps: u32) -> Option<Outcome> {
        if !self.lasting {
            let mut state = self.script.state();
            state.steps = state.steps.saturating_add(steps);
            return None;
        }
        self.frame.jumps = 0;
        Some(self.advance(steps))
    }

    /// Jumps to a label and runs on from there.
    pub(super) fn go_to(&mut self, label: &str) -> Result<Option<Outcome>, HandlerError> {
        let Some(Jump::To(at)) = find_label(&self.script.program, label) else {
            return Err(HandlerError::failed(format!("jump to nonexistent label '{label}'")));
        };
        if !self.lasting {
            self.script.state().jump = Some(at);
            return Ok(None);
        }
        self.jump(at, self.script.program.len());
        self.frame.jumps = 0;
        Ok(Some(self.advance(0)))
    }

    /// Runs from the start on behalf of a handler.
    pub(super) fn run(&mut self, handler: &str, arguments: &str, is_write: bool) -> Outcome {
        self.frame.handler = handler.to_owned();
        self.frame.arguments = arguments.to_owned();
        self.frame.is_write = is_write;
        self.frame.initial = false;
        (self.frame.position, self.frame.jumps) = (0, 0);
        let outcome = self.advance(0);
        self.frame.handler.clear();
        self.frame.is_write = false;
        outcome
    }

    /// Runs from the start for a packet; the output that it should leave by.
    pub(super) fn packet(&mut self, input: usize) -> Option<usize> {
        self.frame = Frame { input: Some(input), ..Frame::default() };
        match self.advance(0) {
            Outcome::Ended(Ending::End) => Some(0),
            Outcome::Returned(port) => functions::integer(&port).ok().and_then(|p| usize::try_from(p).ok()),
            _ => None,
        }
    }

    /// What the caller of the handler gets.
    pub(super) fn answer(&mut self, outcome: Option<Outcome>) -> Result<String, HandlerError> {
        match outcome {
            Some(Outcome::Returned(value)) => Ok(value),
            Some(Outcome::Ended(Ending::Error)) => {
                let errors = self.errors.take().unwrap_or_default();
                let message = if errors.is_empty() { "the script failed".into() } else { errors.join("\n") };
                Err(HandlerError::Failed(message))
            }
            _ => Ok(String::new()),
        }
    }

    /// Gives the variables their first values.
    pub(super) fn initialize(&mut self) {
        for instruction in self.script.program.iter() {
            if let Instruction::Init { name, text, unquote, .. } = instruction {
                self.set(name, text, *unquote);
            }
        }
    }

    /// Executes instructions until one blocks that no step lets pass, or ends the script.
    fn advance(&mut self, mut steps: u32) -> Outcome {
        loop {
            let outcome = self.execute(&mut steps);
            let pending = if self.lasting { std::mem::take(&mut self.script.state().steps) } else { 0 };
            if outcome != Outcome::Blocked || pending == 0 {
                return outcome;
            }
            steps = pending;
        }
    }

    fn execute(&mut self, steps: &mut u32) -> Outcome {
        if std::mem::take(&mut self.frame.initial) {
            *steps = steps.saturating_sub(1);
        }
        let program = self.script.program.clone();
        self.frame.passed.resize(program.len(), 0);
        loop {
            let at = self.frame.position;
            let Some(instruction) = program.get(at) else { return Outcome::GaveUp };
            if self.frame.jumps >= MAX_JUMPS {
                self.cx.print(&format!("{}: too many jumps, giving up", self.cx.declaration()));
                self.frame.position = program.len();
                self.cx.clear_timer(0);
                return Outcome::GaveUp;
            }
            self.frame.position = at + 1;
            if let Some(outcome) = self.one(at, instruction, steps) {
                return outcome;
            }
            if let Some(target) = if self.lasting { self.script.state().jump.take() } else { None } {
                self.jump(target, program.len());
            }
            if self.frame.position != at + 1 {
                self.frame.jumps += 1;
            }
        }
    }

    /// Executes one instruction; says so when the run rests at it.
    fn one(&mut self, at: usize, instruction: &Instruction, steps: &mut u32) -> Option<Outcome> {
        match instruction {
            Instruction::Pause(count) => {
                let taken = (*steps).min(count.saturating_sub(self.frame.passed[at]));
                self.frame.passed[at] += taken;
                *steps -= taken;
                if self.frame.passed[at] < *count {
                    self.frame.position = at;
                    return Some(Outcome::Blocked);
                }
            }
            Instruction::Wait(time) if *steps == 0 => return Some(self.wait(at, time)),
            Instruction::Wait(_) => {
                *steps -= 1;
                self.cx.clear_timer(0);
            }
            Instruction::Print { text, to, newline, unquote } => {
                self.print(text, to.as_ref(), *newline, *unquote);
            }
            Instruction::Read { call, unquote } => self.read(call, *unquote),
            Instruction::Write { call, unquote } => self.write(call, *unquote),
            Instruction::Set { name, text, unquote } => self.set(name, text, *unquote),
            Instruction::Init { .. } | Instruction::Label(_) => {}
            Instruction::Goto { target, condition } => return self.goto(at, *target, condition),
            Instruction::Return { text, unquote } => {
                self.set("_", text, *unquote);
                // A jump that the text's calls asked for comes first.
                if !(self.lasting && self.script.state().jump.is_some()) {
                    self.frame.position = at;
                    let value = self.script.state().variables.get("_").cloned();
                    return Some(Outcome::Returned(value.unwrap_or_default()));
                }
            }
            Instruction::Finish(ending) => return Some(self.finish(at, *ending)),
            Instruction::Error { text, unquote } => {
                let message = self.substitute(text, false);
                let message = if *unquote { unquote_string(&message) } else { message };
                if !message.is_empty() {
                    self.error(message);
                }
                return Some(self.finish(at, Ending::Error));
            }
        }
        None
    }

    fn wait(&mut self, at: usize, time: &str) -> Outcome {
        let time = self.substitute(time, false);
        match parse_duration(&unquote_string(&time)) {
            None => self.error(format!("syntax error at 'wait': expected a time, not '{time}'")),
            Some(time) => {
                self.frame.position = at;
                if self.lasting {
                    self.frame.jumps = 0;
                    self.cx.set_timer_after(0, nanos(time));
                }
            }
        }
        Outcome::Blocked
    }

    fn goto(&mut self, at: usize, target: Jump, condition: &str) -> Option<Outcome> {
        let condition = self.substitute(condition, false);
        match parse_bool(unquote_string(&condition).trim()) {
            None if !condition.is_empty() => self.error(format!("bad condition '{condition}'")),
            Some(false) => {}
            _ => match target {
                Jump::To(to) => {
                    self.jump(to, at);
                    // Also a jump to the very next instruction counts as one.
                    self.frame.jumps += u32::from(to == at + 1);
                }
                Jump::Finish(ending) => return Some(self.finish(at, ending)),
            },
        }
        None
    }

    /// Goes to an instruction; pauses between there and `until` begin anew.
    fn jump(&mut self, to: usize, until: usize) {
        self.frame.passed.resize(self.script.program.len(), 0);
        if to < until {
            self.frame.passed[to..until].fill(0);
        }
        self.frame.position = to;
    }

    /// The script stays at the instruction that ended it.
    fn finish(&mut self, at: usize, ending: Ending) -> Outcome {
        self.frame.position = at;
        if ending == Ending::Stop {
            if self.script.kind == ScriptKind::Driver {
                self.cx.stop();
            } else {
                self.cx.please_stop();
            }
        }
        Outcome::Ended(ending)
    }

    fn set(&mut self, name: &str, text: &str, unquote: bool) {
        let value = self.substitute(text, false);
        let value = if unquote { unquote_string(&value) } else { value };
        self.script.state().variables.insert(name.to_owned(), value);
    }

    fn print(&mut self, text: &str, to: Option<&Redirect>, newline: bool, unquote: bool) {
        let is_call = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@' || c == '_');
        let (mut result, good) = if is_call {
            let call = self.substitute(text, false);
            let answer = self.call(&call, unquote, true).map(|(_, answer)| answer);
            (answer.clone().unwrap_or_default(), answer.is_some())
        } else {
            (unquote_string(&self.substitute(text, true)), true)
        };
        if good && newline && !result.ends_with('\n') {
            result.push('\n');
        }
        let done = match to.filter(|to| !to.file.is_empty() && to.file != "-") {
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(result.as_bytes()).and_then(|()| out.flush())
            }
            Some(Redirect { file, append }) => {
                let mut options = std::fs::OpenOptions::new();
                let options = options.create(true).append(*append).truncate(!append);
                // A worker waits for this, so a pipe must be read already.
                let file = pipes::open_to_write(Path::new(file), options, 0, Duration::ZERO);
                file.and_then(|mut f| f.write_all(result.as_bytes()))
            }
        };
        if let Err(why) = done {
            let file = to.map_or("standard output", |to| &to.file);
            self.error(format!("{file}: {}", sync::os::reason(&why)));
        }
    }

    fn read(&mut self, call: &str, unquote: bool) {
        let call = self.substitute(call, false);
        if let Some((name, value)) = self.call(&call, unquote, true) {
            self.cx.print(&format!("{name}:\n{value}"));
        }
    }

    fn write(&mut self, call: &str, unquote: bool) {
        let call = self.substitute(call, false);
        let (name, value) = shift_word(&call);
        let value = if unquote { unquote_string(value) } else { value.to_owned() };
        let done = match self.resolve(name, Access::Read) {
            Ok(target) if self.is_own(&target) => self.own_write(&target, &value),
            Ok(target) => self.cx.write_target(&target, &value),
            Err(why) => Err(why),
        };
        self.cx.settle();
        match done {
            Ok(()) => self.script.state().status = 0,
            Err(HandlerError::Failed(why)) => {
                self.error(format!("While calling '{call}':\n{}", indented(&why)));
                self.script.state().status = FAILED;
            }
            Err(why) => self.error(why.to_string()),
        }
    }

    /// Reads `HANDLER ARGUMENTS`: the handler's full name and its value. Failures are reported, `named` ones with what was called.
    fn call(&mut self, call: &str, unquote: bool, named: bool) -> Option<(String, String)> {
        let (name, param) = shift_word(call);
        let param = if unquote { unquote_string(param) } else { param.to_owned() };
        let target = match self.resolve(name, Access::Write) {
            Ok(target) => target,
            Err(why) => {
                self.error(why.to_string());
                return None;
            }
        };
        let answer = if self.is_own(&target) {
            self.own_read(&target, &param)
        } else {
            self.cx.read_target(&target, &param)
        };
        self.cx.settle();
        match answer {
            Ok(value) => Some((self.full_name(&target), value)),
            Err(why) => {
                let why = why.to_string();
                let called = || format!("While calling '{call}':\n{}", indented(&why));
                self.error(if named { called() } else { why });
                None
            }
        }
    }

    /// The handler of that name, unless it allows no more than `refused`: without an element the script's own one, or the
    /// router's.
    fn resolve(&self, name: &str, refused: Access) -> Result<HandlerRef, HandlerError> {
        let own = format!("{}.{name}", self.cx.name());
        let own = if name.contains('.') { None } else { self.cx.resolve(&own).ok() };
        let found = own.map_or_else(|| self.cx.resolve(name), Ok);
        let what = if refused == Access::Write { "read" } else { "write" };
        match found {
            Ok(target) if target.access() == refused => {
                Err(HandlerError::Denied(format!("no '{}' {what} handler", self.full_name(&target))))
            }
            Err(HandlerError::NoHandler(_)) => {
                Err(HandlerError::Denied(format!("no '{name}' {what} handler")))
            }
            found => found,
        }
    }

    fn is_own(&self, target: &HandlerRef) -> bool {
        target.is_own() && target.element() == Some(self.cx.index())
    }

    fn full_name(&self, target: &HandlerRef) -> String {
        match target.element() {
            Some(e) => format!("{}.{}", self.cx.router().elements[e].name, target.name()),
            None => target.name().to_owned(),
        }
    }

    fn own_read(&mut self, target: &HandlerRef, param: &str) -> Result<String, HandlerError> {
        match target.name() {
            "get" | "shift" => self.variable(target.name(), param),
            name => self.script.clone().answer_read(self.cx, name, param),
        }
    }

    fn own_write(&mut self, target: &HandlerRef, value: &str) -> Result<(), HandlerError> {
        match target.name() {
            "set" => self.set_variable(value),
            name => self.script.clone().answer_write(self.cx, name, value),
        }
    }

    /// Handlers `get` and `shift`.
    pub(super) fn variable(&mut self, handler: &str, param: &str) -> Result<String, HandlerError> {
        let (name, rest) = shift_word(param);
        let name = if name.is_empty() && handler == "shift" { "args" } else { name };
        if name.is_empty() || !rest.is_empty() {
            return Err(HandlerError::bad_value(handler, param, "the name of a variable"));
        }
        let mut state = self.script.state();
        let value = match name {
            "args" => Some(&mut self.frame.arguments),
            _ => state.variables.get_mut(name),
        };
        let value = value.ok_or_else(|| HandlerError::failed(format!("undefined variable '{name}'")))?;
        if handler == "get" {
            return Ok(value.clone());
        }
        let (first, rest) = shift_word(value);
        let (first, rest) = (first.to_owned(), rest.to_owned());
        *value = rest;
        Ok(first)
    }

    /// Handler `set`.
    pub(super) fn set_variable(&mut self, param: &str) -> Result<(), HandlerError> {
        let (name, value) = shift_word(param);
        match name {
            "" => return Err(HandlerError::bad_value("set", param, "the name of a variable and its value")),
            "args" => value.clone_into(&mut self.frame.arguments),
            _ => drop(self.script.state().variables.insert(name.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    fn substitute(&mut self, text: &str, quote_all: bool) -> String {
        let mut room = Some(MOST_TEXT);
        let result = lang::substitute(text, quote_all, &mut |what| {
            // Values that find no room are not even asked for: a text may name them a million times.
            let left = room?;
            let value = match what {
                Lookup::Variable(name) => self.lookup(name),
                Lookup::Call(call) => self.substituted_call(call),
            }?;
            room = left.checked_sub(value.len());
            room.map(|_| value)
        });
        if room.is_none() {
            self.error(format!(
                "the values of variables and handlers in one text are longer than {MOST_TEXT} bytes"
            ));
        }
        result
    }

    /// A call in a text: one that fails is worth nothing, but one of no handler stays as it is.
    fn substituted_call(&mut self, call: &str) -> Option<String> {
        let known = self.resolve(shift_word(call).0, Access::Write).is_ok();
        // Click does not say which call in a text it was.
        let named = !Policy::of_process().as_click;
        let value = self.call(call, false, named).map(|(_, value)| value);
        value.or_else(|| known.then(String::new))
    }

    fn lookup(&self, name: &str) -> Option<String> {
        let state = self.script.state();
        if let Some(input) = self.frame.input.filter(|_| name == "input") {
            return Some(input.to_string());
        }
        if let Some(value) = state.variables.get(name) {
            return Some(value.clone());
        }
        let arguments = &self.frame.arguments;
        Some(match name {
            "?" => state.status.to_string(),
            "$" => std::process::id().to_string(),
            "#" => split_words(arguments).len().to_string(),
            "0" => self.frame.handler.clone(),
            "args" => arguments.clone(),
            "write" => self.frame.is_write.to_string(),
            _ => {
                let n: usize = name.parse().ok().filter(|n| *n > 0)?;
                split_words(arguments).get(n - 1).unwrap_or(&"").to_string()
            }
        })
    }

    /// Keeps an error for the caller, or reports it.
    fn error(&mut self, message: String) {
        match &mut self.errors {
            Some(errors) => errors.push(message),
            None => self.report(&message),
        }
    }

    fn report(&mut self, message: &str) {
        if !std::mem::replace(&mut self.reported, true) {
            self.cx.print(&format!("While executing '{}':", self.cx.declaration()));
        }
        self.cx.print(&indented(message));
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Locks a state whose holder cannot have left it half done.
pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|e| e.into_inner())
}
