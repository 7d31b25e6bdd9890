// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another configuration for a running router: from a text (`hotconfig`, `junctor apply`) or from its file (SIGHUP), and the
//! way back to the one before.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use ctl::Handlers;
use engine::{Access, Control, HandlerError, Llrpc};
use lang::Graph;
use reconfigure::SwapError;
use sync::pipes;

use crate::run::Args;
use crate::state::State as Kept;
use crate::trial;
use conf::Loaded;
use confine::Needs;
use observe::OBSERVE;
use observe::recording::{Live, RECORDING};
use observe::session::Observers;

/// Puts diagnostics into words.
type Render = fn(&[lang::Diagnostic], &lang::SourceMap) -> String;

fn as_compiler(diagnostics: &[lang::Diagnostic], sources: &lang::SourceMap) -> String {
    conf::without_secrets(lang::render(diagnostics, sources, false))
}

const BUSY: &str = "another configuration is being installed this moment; try again";

fn refusal(why: SwapError, render: impl FnOnce(&[lang::Diagnostic]) -> String) -> String {
    match why {
        SwapError::Refused(errors) => render(&errors),
        SwapError::Busy => BUSY.into(),
        SwapError::Stalled(why) => why,
        SwapError::Stopped => "the router has stopped".into(),
    }
}

/// How the reason begins why a confined router cannot take a configuration that it could begin with.
pub(crate) const CONFINED: &str = "this router is confined";

/// Adds to a refusal that it may be for want of rights, which this router had when it began.
fn with_hint(why: String) -> String {
    let is_known = why.contains(CONFINED);
    // Those who open devices write them small.
    let words = why.to_lowercase();
    let is_of_rights =
        ["permission denied", "operation not permitted"].iter().any(|word| words.contains(word));
    match is_of_rights && !is_known {
        true => format!(
            "{}\n{CONFINED}: start it with --interfaces, --readable, --writable or --later for what this configuration has more, or with \
             this configuration",
            why.trim_end()
        ),
        false => why,
    }
}

/// Handlers of the control socket in addition to those of the router: `junctor apply` speaks to them.
pub(crate) const APPLY: &str = "apply";
/// Keeps what was applied.
pub(crate) const CONFIRM: &str = "apply_confirm";
/// Brings the configuration back that ran before.
pub(crate) const ROLLBACK: &str = "apply_rollback";

/// Keeps the configurations of a running router: the present one, and the one before.
pub(crate) struct Keeper {
    args: Args,
    control: Control,
    /// What the command line adds to each.
    extras: Vec<lang::Element>,
    /// Where what runs is kept for a restart.
    kept: Option<Kept>,
    state: Mutex<State>,
    /// What workers of a confined router may open: their filters cannot be widened.
    confined_to: OnceLock<Needs>,
}

struct State {
    present: Arc<Graph>,
    before: Option<Arc<Graph>>,
    /// The present one goes at this time unless somebody confirms it.
    until: Option<Instant>,
}

impl Keeper {
    /// For a router that runs `graph`, all of whose elements but the first `own` the command line has added.
    pub(crate) fn new(args: &Args, control: Control, graph: &Arc<Graph>, own: usize) -> Arc<Keeper> {
        let extras = graph.elements[own..].to_vec();
        let state = State { present: graph.clone(), before: None, until: None };
        let kept = args.state.as_deref().map(Kept::new);
        Arc::new(Keeper {
            args: args.clone(),
            control,
            extras,
            kept,
            state: Mutex::new(state),
            confined_to: OnceLock::new(),
        })
    }

    /// The configuration that runs.
    pub(crate) fn present(&self) -> Arc<Graph> {
        self.state().present.clone()
    }

    /// From now on, configurations whose elements need more on workers are refused.
    pub(crate) fn confined_to(&self, needs: Needs) {
        let _ = self.confined_to.set(needs);
    }

    /// Why this router cannot run a configuration, if it is confined too much.
    fn is_beyond(&self, graph: &Graph) -> Option<String> {
        let wanted = Needs::of(graph.elements.iter().map(|element| &*element.class));
        let lacks = self.confined_to.get()?.lacks(wanted)?;
        Some(format!(
            "{CONFINED}, and its workers may open no {lacks} as elements of this configuration do; start it with \
             --later={lacks}, or with this configuration"
        ))
    }

    /// A refusal with what a confined router could be given.
    fn hinted(&self, why: String) -> String {
        if self.confined_to.get().is_some() { with_hint(why) } else { why }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a configuration that has survived a trial.
    fn load_data(&self, name: &str, path: Option<&Path>, data: &[u8]) -> Result<Loaded, String> {
        let source = &self.args.source;
        trial::of(name, path, data, source, self.control.shared().workers())?;
        Ok(lang::load_data(name, path, data, &source.options()?).into())
    }

    fn load_text(&self, name: &str, text: &str) -> Result<Loaded, String> {
        self.load_data(name, None, text.as_bytes())
    }

    fn load_file(&self) -> Result<Loaded, String> {
        let path = Path::new(self.args.source.path().ok_or("the configuration is no file")?);
        let name = path.display().to_string();
        // A signal sent again is heard only when this is done: nobody waits here for a pipe's writer to come.
        let data = match pipes::is_pipe(path) {
            Ok(true) => {
                let input = pipes::open(path, pipes::PATIENCE).map_err(|why| format!("{name}: {why}"))?;
                lang::read_text_of(&name, input)
            }
            _ => lang::read_file(path),
        };
        let data = data.map_err(|why| self.hinted(as_compiler(&[*why], &lang::SourceMap::new())))?;
        self.load_data(&name, Some(path), &data)
    }

    /// The graph of what was loaded, with what the command line adds to it.
    fn graph(&self, loaded: &mut Loaded, render: Render) -> Result<Graph, String> {
        let graph = loaded.graph.take();
        let mut graph = graph.ok_or_else(|| render(&loaded.diagnostics, &loaded.sources))?;
        graph.elements.extend(self.extras.iter().cloned());
        Ok(graph)
    }

    /// Swaps a configuration in, and remembers the old one. The old one need no longer be confirmed.
    fn install(
        &self,
        mut loaded: Loaded,
        render: Render,
        ready: impl FnOnce(),
        then: impl FnOnce(&mut State),
    ) -> Result<String, String> {
        let graph = Arc::new(self.graph(&mut loaded, render)?);
        self.is_beyond(&graph).map_or(Ok(()), Err)?;
        // This does not wait. Otherwise a worker that writes to `hotconfig` could wait for a thread that waits for this worker.
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(BUSY.into()),
        };
        let swapped = reconfigure::swap_shared(&self.control, &graph, ready)
            .map_err(|why| refusal(why, |errors| render(errors, &loaded.sources)))
            .map_err(|why| self.hinted(why))?;
        state.before = Some(std::mem::replace(&mut state.present, graph));
        if state.until.take().is_some() {
            self.control.clear_alarm();
        }
        then(&mut state);
        catch_signals(&self.control);
        self.keep(&state.present);
        Ok(swapped.to_string())
    }

    /// Keeps a configuration for a restart, without what the command line adds: it will add it again.
    fn keep(&self, graph: &Graph) {
        if let Some(kept) = &self.kept {
            let mut own = graph.clone();
            own.elements.truncate(graph.elements.len() - self.extras.len());
            kept.keep(&own);
        }
    }

    /// What `hotconfig` does.
    pub(crate) fn by_handler(self: &Arc<Keeper>) -> engine::Reconfigure {
        let keeper = self.clone();
        Box::new(move |_, text, ready| {
            let loaded = keeper.load_text("hotconfig", text)?;
            let as_click = ctl::Policy::of_process().as_click;
            let render = if as_click { lang::render_click } else { lang::render_short };
            let done = keeper.install(loaded, render, ready, |_| ());
            done.map(|swapped| format!("new configuration: {swapped}"))
        })
    }

    /// Reads the configuration's file anew and swaps it in, and says what came of it.
    pub(crate) fn by_file(&self) {
        let loaded = self.load_file();
        match loaded.and_then(|loaded| self.install(loaded, as_compiler, || (), |_| ())) {
            Ok(swapped) => errln!("junctor: new configuration: {swapped}"),
            Err(why) => errln!("{}\njunctor: the old configuration goes on", why.trim_end()),
        }
    }

    /// Goes to a directory and reads the configuration's file anew there. Relative paths of elements begin in that directory, so the
    /// files of another commit take effect with its configuration.
    fn reload(&self, directory: &Path) -> Result<String, String> {
        let fail = |why: std::io::Error| format!("{}: {why}", directory.display());
        let before = std::env::current_dir();
        std::env::set_current_dir(directory).map_err(fail)?;
        let done = self.load_file().and_then(|loaded| self.install(loaded, as_compiler, || (), |_| ()));
        if let (Err(_), Ok(before)) = (&done, before) {
            // The old configuration goes on with its own files.
            std::env::set_current_dir(before).map_err(fail)?;
        }
        done.map(|swapped| format!("applied: {swapped}"))
    }

    /// `apply`: a line of options, `rehearse` or `confirm SECONDS` or none, then the text of a configuration. With `reload`, the
    /// text is a directory.
    fn apply(self: &Arc<Keeper>, value: &str) -> Result<String, String> {
        let (options, text) =
            value.split_once('\n').ok_or("expected a line of options and a configuration")?;
        if options == "reload" {
            return self.reload(Path::new(text));
        }
        let mut loaded = self.load_text("configuration", text)?;
        match options.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            [] => {
                let done = self.install(loaded, as_compiler, || (), |_| ());
                done.map(|swapped| format!("applied: {swapped}"))
            }
            ["rehearse"] => {
                let graph = self.graph(&mut loaded, as_compiler)?;
                self.is_beyond(&graph).map_or(Ok(()), Err)?;
                // Nothing else is installed meanwhile.
                let _state = self.state();
                let done = reconfigure::rehearse(&self.control, &graph);
                done.map_err(|errors| as_compiler(&errors, &loaded.sources))?;
                Ok("this router could run it; nothing was changed".into())
            }
            ["confirm", time] => {
                let time = engine::parse_duration(time).ok_or("expected a time to confirm in")?;
                let swapped = self.install(loaded, as_compiler, || (), |state| self.wait(state, time))?;
                Ok(format!(
                    "applied: {swapped}\nthe configuration before it comes back in {} s unless 'junctor apply confirm' comes first",
                    time.as_secs_f64()
                ))
            }
            _ => Err(format!("unknown options '{options}'")),
        }
    }

    /// Brings the configuration before the present one back in time, unless somebody confirms the present one.
    fn wait(self: &Arc<Keeper>, state: &mut State, time: Duration) {
        state.until = Some(Instant::now() + time);
        let keeper = self.clone();
        self.control.set_alarm(
            time,
            Box::new(move || {
                let mut state = keeper.state();
                // Somebody may have confirmed it while the alarm rang.
                if state.until.take().is_none() {
                    return;
                }
                match keeper.return_to_before(&mut state) {
                    Ok(swapped) => errln!("junctor: nobody confirmed the new configuration; back to the one before: {swapped}"),
                    Err(why) => errln!("junctor: nobody confirmed the new configuration, but the one before cannot come back: {why}"),
                }
            }),
        );
    }

    fn confirm(&self) -> Result<String, String> {
        let mut state = self.state();
        state.until.take().ok_or("there is nothing to confirm")?;
        self.control.clear_alarm();
        Ok("confirmed: the new configuration stays".into())
    }

    fn rollback(&self) -> Result<String, String> {
        let mut state = self.state();
        let swapped = self.return_to_before(&mut state)?;
        if state.until.take().is_some() {
            self.control.clear_alarm();
        }
        Ok(format!("back to the configuration before: {swapped}"))
    }

    fn return_to_before(&self, state: &mut State) -> Result<String, String> {
        let before = state.before.clone().ok_or("there is no configuration before this one")?;
        let messages =
            |errors: &[lang::Diagnostic]| errors.iter().map(|e| format!("{}\n", e.message)).collect();
        let swapped =
            reconfigure::swap_shared(&self.control, &before, || ()).map_err(|why| refusal(why, messages))?;
        state.before = Some(std::mem::replace(&mut state.present, before));
        catch_signals(&self.control);
        Ok(swapped.to_string())
    }

    /// Whether something waits to be confirmed.
    fn status(&self) -> String {
        let state = self.state();
        let before =
            if state.before.is_some() { "there is a configuration to return to" } else { "no other" };
        match state.until {
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now()).as_secs_f64();
                format!("to be confirmed within {left:.0} s, or else the configuration before comes back\n")
            }
            None => format!("nothing to be confirmed; {before}\n"),
        }
    }
}

/// The handlers that the control socket offers: the router's, those of [`Keeper`], and the recording.
#[derive(Clone)]
pub(crate) struct Offered {
    control: Control,
    keeper: Arc<Keeper>,
    recording: Arc<Live>,
    observers: Arc<Observers>,
}

impl Offered {
    pub(crate) fn new(control: Control, keeper: Arc<Keeper>, recording: Arc<Live>) -> Offered {
        Offered { recording, observers: Arc::new(Observers::new(control.clone())), control, keeper }
    }
}

impl Handlers for Offered {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        match name {
            APPLY | RECORDING => Ok(Access::ReadWrite),
            CONFIRM | ROLLBACK | OBSERVE => Ok(Access::Write),
            _ => self.control.access(name),
        }
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        match name {
            APPLY => Ok(self.keeper.status()),
            RECORDING => Ok(self.recording.status()),
            _ => Handlers::read(&mut self.control, name, param),
        }
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        let done = match name {
            APPLY => self.keeper.apply(value),
            CONFIRM => self.keeper.confirm(),
            ROLLBACK => self.keeper.rollback(),
            RECORDING => self.recording.write(value),
            OBSERVE => self.observers.obey(value),
            _ => return Handlers::write(&mut self.control, name, value),
        };
        done.map_err(HandlerError::Failed)
    }

    fn llrpcs(&mut self, element: &str) -> &'static [Llrpc] {
        Handlers::llrpcs(&mut self.control, element)
    }
}

static SIGNALS: OnceLock<signal_hook::iterator::Handle> = OnceLock::new();

/// Remembers how to catch further signals.
pub(crate) fn remember_signals(handle: signal_hook::iterator::Handle) {
    let _ = SIGNALS.set(handle);
}

/// Catches the signals that elements of the present configuration ask for.
fn catch_signals(control: &Control) {
    let Some(handle) = SIGNALS.get() else { return };
    for signal in control.shared().signals() {
        if !signal_hook::consts::FORBIDDEN.contains(&signal) {
            let _ = handle.add_signal(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_for_want_of_rights_says_what_to_give() {
        let check = |why: &str, has_hint: bool| {
            let said = with_hint(why.to_owned());
            assert_eq!(said.contains("--interfaces"), has_hint, "{said}");
            assert_eq!(
                said.matches(CONFINED).count(),
                usize::from(has_hint || why.contains(CONFINED)),
                "{said}"
            );
        };
        check("eth7: Operation not permitted\n", true);
        check("t7: cannot make a tap: operation not permitted", true);
        check("rules: Permission denied (os error 13)", true);
        check("no such element class", false);
        check(&format!("{CONFINED}, and: Permission denied"), false);
    }
}
