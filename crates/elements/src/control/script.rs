// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Script
//!
//! `Script(INSTRUCTIONS..., keyword TYPE)`
//!
//! Controls a configuration by a small program that calls handlers, waits, prints and stops the router.
//!
//! **Ports:** none, or any number of inputs and outputs for TYPE PACKET; input 0 and output 0 are agnostic, others push.
//!
//! **Arguments:** each is one instruction. In their texts `$x` and `${x}` stand for variables and
//! `$(HANDLER PARAMETERS)` for a handler's value; a handler without an element is the script's own, or the router's.
//! Forms that end in `q` remove a level of quotes after substitution.
//! * `set VAR TEXT`, `setq`: sets a variable. `init VAR TEXT`, `initq`: sets it once, before the start.
//!   `export VAR [TEXT]`, `exportq`: as `init`, and makes a read handler of the variable.
//! * `print [>FILE | >>FILE] TEXT-OR-HANDLER`, `printq`: writes a line to standard output or a file. A text that begins with a
//!   letter, `@` or `_` is a handler to read; other texts lose a level of quotes. `printn`, `printnq`: without the line's end.
//!   `save HANDLER [FILE]`, `append HANDLER [FILE]`: `print` to a file.
//! * `read HANDLER [PARAMETERS]`, `readq`: writes a handler's name and value to standard error.
//! * `write HANDLER [VALUE]`, `writeq`: calls a write handler; then `$?` is 0, or negative after a failure.
//! * `pause [STEPS]` (or `wait`, `wait_step`, `wait_stop`): waits for steps, default 1. `wait TIME` (or `wait_time`,
//!   `wait_for`): waits for a time or a step.
//! * `label NAME`, `goto NAME [CONDITION]`, `loop`: jump, to the start with `loop`. `goto` also takes `end`, `exit`,
//!   `stop`, `error` and `begin`. A script that jumps 1000 times without waiting is given up.
//! * `end`: ends the script. `exit`: the same; no signal starts it again, and a packet is dropped. `stop`: ends it and asks the driver to stop.
//!   `return [VALUE]`, `returnq`: ends it with a value. `error [MESSAGE]`, `errorq`: ends it with an error.
//! * `TYPE` what makes it run, default PACKET for a script with ports and else ACTIVE: `ACTIVE` the start of the router; `PASSIVE` its `run` handler.
//!   `PACKET` or `PUSH` a packet, `$input` being its input and the value returned its output. `PROXY` any handler that it does not have, `$0` being
//!   its name and `$write` whether it is written. `DRIVER` the start of the router and then, as steps, requests to stop it; `SIGNAL NAMES...`
//!   signals.
//!
//! Other variables are `$args`, `$1` ... and `$#` (parameters of `run`), `$?`, and `$$` (process number).
//!
//! **Drops:** `filtered` (the script says that no output takes the packet).
//!
//! **Handlers**
//! * `run` read/write: runs the script with parameters. `step [STEPS]` write: passes `pause` or `wait`. `goto NAME` write.
//! * `get VAR`, `set VAR VALUE`, `shift [VAR]`: a variable; `shift` takes its first word off. The default is `args`.
//! * With numbers as parameters `add`, `sub`, `mul`, `div`, `idiv`, `mod`, `rem`, `min`, `max`, `neg`, `abs`, `ceil`, `floor`, `round`, `avg`,
//!   `popcount` (of a number's 1 bits), `htons`, `htonl`, `ntohs`, `ntohl`, `random [N | LOW HIGH]`. With two numbers or words `eq`, `ne`, `lt`,
//!   `le`, `gt`, `ge`. With truth values `not`, `and`, `or`, `nand`, `nor`, `if CONDITION YES NO`. With words `in WORD WORDS...`, `count`, `first`,
//!   `length`, `unquote`, `sprintf FORMAT VALUES...`, `readable HANDLERS...`, `writable HANDLERS...`. With a file's name `cat`, `catq`; `now`,
//!   `now_steady` the time; `kill SIGNAL PROCESSES...`.
//!
//! ```click
//! source :: InfiniteSource(LIMIT 3) -> counter :: Counter -> Discard;
//! Script(wait 0.1s, set n $(counter.count), print "twice $n is $(mul 2 $n)", stop);
//! ```
//!
//! See also: DriverManager, PokeHandlers

use std::sync::{Arc, Mutex, MutexGuard};

use element::args::{Args, Raw};
use element::{
    Access, Class, Cx, Element, Handler, HandlerError, InitCx, OpenCx, OwnHandlers, ProcessEvents, Reason,
    SharedState, Sharing, Tasks,
};
use lang::config::{quote_bytes, split_words, unquote_string};
use packet::Batch;
use sync::os::reason;
use sync::pipes;

use super::functions;
use super::parse::{self, Ending, Instruction, ScriptKind};
use super::runtime::{Outcome, Runner, State, lock};

/// The descriptor.
pub const CLASS: Class = Script::with_capabilities(
    Class::new("Script", "-/-", || Box::new(Script::new(None))).processing("ah/ah").file(file!()),
);

/// Handlers of all scripts.
const HANDLERS: &[Handler] = &[
    Handler::both("run"),
    Handler::write("step"),
    Handler::write("goto"),
    Handler::write("set"),
    Handler::read("get"),
    Handler::read("shift"),
    Handler::read("add"),
    Handler::read("sub"),
    Handler::read("min"),
    Handler::read("max"),
    Handler::read("mul"),
    Handler::read("div"),
    Handler::read("idiv"),
    Handler::read("mod"),
    Handler::read("rem"),
    Handler::read("neg"),
    Handler::read("abs"),
    Handler::read("ceil"),
    Handler::read("floor"),
    Handler::read("round"),
    Handler::read("avg"),
    Handler::read("count"),
    Handler::read("popcount"),
    Handler::read("eq"),
    Handler::read("ne"),
    Handler::read("gt"),
    Handler::read("ge"),
    Handler::read("lt"),
    Handler::read("le"),
    Handler::read("not"),
    Handler::read("and"),
    Handler::read("or"),
    Handler::read("nand"),
    Handler::read("nor"),
    Handler::read("if"),
    Handler::read("in"),
    Handler::read("first"),
    Handler::read("sprintf"),
    Handler::read("random"),
    Handler::read("now"),
    Handler::read("now_steady"),
    Handler::read("readable"),
    Handler::read("writable"),
    Handler::read("length"),
    Handler::read("unquote"),
    Handler::read("htons"),
    Handler::read("htonl"),
    Handler::read("ntohs"),
    Handler::read("ntohl"),
    Handler::read("cat").private(),
    Handler::read("catq").private(),
    Handler::read("kill").private(),
];

/// The largest value of `random` without parameters, as in C's library.
const RANDOM_MAX: u32 = 0x7fff_ffff;

/// A script. All its instances, and the deputies that take calls while it runs, share program and state.
#[derive(Clone)]
pub(super) struct Script {
    pub(super) kind: ScriptKind,
    /// The type is the class's, unless configured.
    by_default: Option<ScriptKind>,
    pub(super) program: Arc<Vec<Instruction>>,
    state: Arc<Mutex<State>>,
}

impl Script {
    /// Declares what classes of scripts have in common.
    pub(super) const fn with_capabilities(class: Class) -> Class {
        class
            .sharing(Sharing::Shared)
            .handlers(HANDLERS)
            .shared_state::<Self>()
            .own_handlers::<Self>()
            .process_events::<Self>()
    }

    /// A script whose type is `kind` unless configured otherwise.
    pub(super) fn new(kind: Option<ScriptKind>) -> Script {
        Script { kind: ScriptKind::Active, by_default: kind, program: Arc::default(), state: Arc::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Goes on by a step, because time is up or the driver should stop.
    fn resume(&self, cx: &mut Cx<'_>, driver: bool) {
        let Some(mut runner) = Runner::new(self, cx, false) else { return };
        let outcome = runner.step(1);
        drop(runner);
        match outcome {
            Some(Outcome::Blocked) | None => {}
            Some(Outcome::Ended(Ending::Stop)) => {}
            // A script that has ended keeps nobody from stopping.
            Some(_) if driver => cx.stop(),
            Some(outcome) => self.rearm(cx, &outcome),
        }
    }

    /// A signal script takes further signals once it has come to its end, not when it left by another way.
    fn rearm(&self, cx: &mut Cx<'_>, outcome: &Outcome) {
        if let ScriptKind::Signal(signals) = &self.kind {
            for signal in signals {
                match outcome {
                    Outcome::Ended(Ending::End) => cx.on_signal(*signal),
                    _ => cx.ignore_signal(*signal),
                }
            }
        }
    }

    fn run(&self, cx: &mut Cx<'_>, name: &str, param: &str, write: bool) -> Result<String, HandlerError> {
        let mut runner = self.called(cx)?;
        let outcome = runner.run(name, param, write);
        runner.answer(Some(outcome))
    }

    fn called<'a, 'c>(&'a self, cx: &'a mut Cx<'c>) -> Result<Runner<'a, 'c>, HandlerError> {
        let deep = || HandlerError::failed("scripts call each other too deeply");
        Runner::new(self, cx, true).ok_or_else(deep)
    }

    /// Answers one of the script's read handlers.
    pub(super) fn answer_read(
        &self,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        if let Some(answer) = functions::call(name, param) {
            return answer.map_err(HandlerError::Failed);
        }
        let exported =
            |i: &Instruction| matches!(i, Instruction::Init { name: n, export: true, .. } if n == name);
        match name {
            "run" => self.run(cx, name, param, false),
            "get" | "shift" => self.called(cx)?.variable(name, param),
            "random" => random(cx, param),
            "now" => Ok(timestamp(cx.wall())),
            "now_steady" => Ok(timestamp(cx.now())),
            "readable" | "writable" => {
                let refused = if name == "readable" { Access::Write } else { Access::Read };
                let good = |n: &str| cx.resolve(n).is_ok_and(|t| t.access() != refused);
                Ok(split_words(param).into_iter().all(good).to_string())
            }
            "cat" | "catq" => {
                let file = unquote_string(param);
                let text =
                    contents(&file).map_err(|e| HandlerError::failed(format!("{file}: {}", reason(&e))))?;
                let quoted = || quote_bytes(&text);
                Ok(if name == "catq" { quoted() } else { String::from_utf8_lossy(&text).into_owned() })
            }
            "kill" => kill(param),
            _ if self.program.iter().any(exported) => {
                Ok(self.state().variables.get(name).cloned().unwrap_or_default())
            }
            _ if self.kind == ScriptKind::Proxy => self.run(cx, name, param, false),
            _ => Err(HandlerError::unknown(name)),
        }
    }

    /// Executes one of the script's write handlers.
    pub(super) fn answer_write(&self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "run" => self.run(cx, name, value, true).map(drop),
            "set" => self.called(cx)?.set_variable(value),
            "goto" => {
                let mut runner = self.called(cx)?;
                let outcome = runner.go_to(value.trim())?;
                runner.answer(outcome).map(drop)
            }
            "step" => {
                let steps = match value.trim() {
                    "" => Ok(1),
                    text => functions::integer(text).ok().and_then(|n| u32::try_from(n).ok()).ok_or(()),
                };
                let expected = "nothing or a number of steps";
                let steps = steps.map_err(|()| HandlerError::bad_value(name, value, expected))?;
                let mut runner = self.called(cx)?;
                let outcome = runner.step(steps);
                runner.answer(outcome).map(drop)
            }
            _ if self.kind == ScriptKind::Proxy => self.run(cx, name, value, true).map(drop),
            _ => Err(HandlerError::unknown(name)),
        }
    }
}

impl Element for Script {
    fn configure(&mut self, args: &mut Args<'_>) {
        let ports = args.ninputs + args.noutputs;
        let default = self.by_default.clone();
        let default = default.unwrap_or(if ports > 0 { ScriptKind::Packet } else { ScriptKind::Active });
        self.kind = match args.keyword_opt::<Raw>("TYPE").map(|Raw(text)| parse::kind(&text)) {
            None => default,
            Some(Ok(kind)) => kind,
            Some(Err(why)) => {
                args.error(why);
                default
            }
        };
        if self.kind == ScriptKind::Packet && args.ninputs == 0 {
            args.error("PACKET script must have inputs");
        } else if self.kind != ScriptKind::Packet && ports > 0 {
            args.error("ports allowed only on PACKET scripts");
        }
        match parse::program(&args.rest(), &self.kind) {
            Ok(program) => self.program = Arc::new(program),
            Err(errors) => errors.into_iter().for_each(|e| args.error(e)),
        }
        let starts = matches!(self.kind, ScriptKind::Active | ScriptKind::Driver);
        *self.state() = State::new(&self.program, starts);
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        // Waiting needs a timer, which needs a home; a packet cannot wait.
        Ok(if self.kind == ScriptKind::Packet { Tasks::None } else { Tasks::One })
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if !cx.is_home() {
            return Ok(());
        }
        match &self.kind {
            ScriptKind::Driver => {
                if let Some(other) = cx.driver_manager().filter(|e| *e != cx.index()) {
                    let other = &cx.router().elements[other].name;
                    return Err(format!("router has more than one driver script; '{other}' is another"));
                }
                cx.manage_driver();
            }
            ScriptKind::Signal(signals) => signals.iter().for_each(|s| cx.on_signal(*s)),
            _ => {}
        }
        if let Some(mut runner) = Runner::new(self, cx, false) {
            runner.initialize();
        }
        if matches!(self.kind, ScriptKind::Active | ScriptKind::Driver) {
            match self.program.first() {
                Some(Instruction::Pause(_)) => {}
                // A time to wait is counted from the start.
                Some(Instruction::Wait(_)) => {
                    if let Some(mut runner) = Runner::new(self, cx, false) {
                        runner.step(0);
                    }
                }
                _ => cx.set_timer(0, 0),
            }
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        for packet in batch.drain(..) {
            let output = Runner::new(self, cx, false).and_then(|mut runner| runner.packet(port));
            match output {
                Some(output) => cx.push_one_or_drop(output, packet, Reason::Filtered),
                None => cx.drop(Reason::Filtered, packet),
            }
            // The next packet's instructions come after what becomes of this one.
            cx.settle();
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, max: usize) -> Batch {
        let mut out = Batch::new();
        while out.len() < max {
            let mut batch = cx.pull(0, 1);
            if batch.is_empty() {
                break;
            }
            for packet in batch.drain(..) {
                match Runner::new(self, cx, false).and_then(|mut runner| runner.packet(0)) {
                    Some(0) => out.push(packet),
                    Some(output) => cx.push_one_or_drop(output, packet, Reason::Filtered),
                    None => cx.drop(Reason::Filtered, packet),
                }
            }
        }
        out
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        self.resume(cx, false);
    }
}

impl ProcessEvents for Script {
    fn driver_stopped(&mut self, cx: &mut Cx<'_>) {
        self.resume(cx, true);
    }

    fn signal(&mut self, cx: &mut Cx<'_>, _: i32) {
        let Some(mut runner) = Runner::new(self, cx, false) else { return };
        let outcome = runner.run("run", "", true);
        drop(runner);
        self.rearm(cx, &outcome);
    }
}

impl OwnHandlers for Script {
    fn own_handlers(&self) -> Vec<(String, Access)> {
        let exported = self.program.iter().filter_map(|i| match i {
            Instruction::Init { name, export: true, .. } => Some((name.clone(), Access::Read)),
            _ => None,
        });
        let proxy = (self.kind == ScriptKind::Proxy).then(|| ("*".to_owned(), Access::ReadWrite));
        exported.chain(proxy).collect()
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Result<String, HandlerError> {
        self.answer_read(cx, name, param)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        self.answer_write(cx, name, value)
    }
}

impl SharedState for Script {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

/// Seconds with six digits, or nine where they are needed.
fn timestamp(ns: u64) -> String {
    let (seconds, below) = (ns / 1_000_000_000, ns % 1_000_000_000);
    match below % 1000 {
        0 => format!("{seconds}.{:06}", below / 1000),
        _ => format!("{seconds}.{below:09}"),
    }
}

/// `random`, `random N`, `random LOW HIGH`
fn random(cx: &mut Cx<'_>, param: &str) -> Result<String, HandlerError> {
    let bad =
        || HandlerError::bad_value("random", param, "nothing, a number above 0, or two numbers LOW HIGH");
    let numbers: Result<Vec<u32>, _> = split_words(param)
        .into_iter()
        .map(|w| functions::integer(w).ok().and_then(|n| u32::try_from(n).ok()).ok_or_else(bad))
        .collect();
    let (low, high) = match numbers?[..] {
        [] => (0, RANDOM_MAX),
        [n] if n > 0 => (0, n - 1),
        [low, high] if low <= high => (low, high),
        _ => return Err(bad()),
    };
    Ok(cx.random().u32(low..=high).to_string())
}

/// `kill SIGNAL PROCESSES...`
fn kill(param: &str) -> Result<String, HandlerError> {
    use rustix::process::{Pid, Signal, kill_process};
    let mut words = split_words(param).into_iter();
    let signal = words.next().and_then(parse::signal).and_then(Signal::from_named_raw);
    let signal =
        signal.ok_or_else(|| HandlerError::bad_value("kill", param, "a signal and process numbers"))?;
    for word in words {
        // Zero and negative numbers mean groups of processes, which no configuration should reach by a slip.
        let pid = functions::integer(word).ok().and_then(|n| i32::try_from(n).ok()).filter(|n| *n > 0);
        let pid = pid.and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| HandlerError::failed(format!("bad process number '{word}'")))?;
        kill_process(pid, signal).map_err(|e| HandlerError::failed(format!("process {word}: {e}")))?;
    }
    Ok(String::new())
}

/// Bytes that `cat` reads of a file at most.
const MOST_CAT: u64 = 64 << 20;

/// What a file holds. A worker waits for it, so it is no pipe.
fn contents(file: &str) -> std::io::Result<Vec<u8>> {
    let input = pipes::open(file.as_ref(), std::time::Duration::ZERO)?;
    match input.is_pipe() {
        true => Err(std::io::Error::other("it is a named pipe, for whose writer a worker would wait")),
        false => input.read_all(MOST_CAT),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    /// Runs a passive script `s` with parameters.
    fn run(instructions: &str, param: &str) -> Result<String, String> {
        let text = format!(
            "s :: Script(TYPE PASSIVE, {instructions}); t :: Script(TYPE PASSIVE, return $(s.run {param}));"
        );
        let mut run = Rig::text(&text).run();
        let value = run.read("t.run");
        let printed = run.printed();
        if printed.is_empty() { Ok(value) } else { Err(printed) }
    }

    #[test]
    fn values_and_substitution() {
        for (instructions, param, want) in [
            ("return 5", "", "5"),
            ("return", "", ""),
            ("set x 1", "", ""),
            ("return $# $1 $2", "a b", "2 a b"),
            ("return $args", "a  b", "a  b"),
            ("set x \"$1\", return $x", "'q'", "\"'q'\""),
            ("setq x \"$1\", return $x", "'q'", "'q'"),
            ("returnq \"\\x41\"", "", "A"),
            ("return ${x-none} ${args[1]}", "a b", "none b"),
            ("return $(add 1 $(mul 2 $1))", "4", "9"),
            ("set f add, return $($f 1 1)", "", "2"),
            ("goto b true, return a, label b, return b", "", "b"),
            ("goto b 0, return a, label b, return b", "", "a"),
            ("goto end, return a", "", ""),
            ("init x 1, set x $(add $x 1), return $x", "", "2"),
            ("return $0$write", "", "runfalse"),
        ] {
            assert_eq!(run(instructions, param).as_deref(), Ok(want), "{instructions}");
        }
    }

    #[test]
    fn failures_are_told_where_they_happen() {
        for (instructions, want) in [
            ("error a b", "a b"),
            ("errorq \"a b\"", "a b"),
            ("goto error", "the script failed"),
            ("return $(nothing)", "no 'nothing' read handler"),
            ("return $(no.thing)", "no element named 'no'"),
            ("return $(add x)", "expected list of numbers"),
            ("return $(s.step)", "no 's.step' read handler"),
            ("goto end perhaps", "bad condition 'perhaps'"),
            ("write s.count 1", "no 's.count' write handler"),
            ("write s.add 1", "no 's.add' write handler"),
        ] {
            let printed = run(instructions, "").expect_err(instructions);
            assert!(printed.contains(want), "{instructions}: {printed}");
            assert!(printed.starts_with("While executing '"), "{printed}");
        }
    }

    #[test]
    fn waiting_is_exact() {
        let text = "s :: Script(export log \"\", wait 1.5, set log $(now_steady), pause 2, setq log \"$log $(now_steady)\", \
                    wait 5s, setq log \"$log $(now_steady)\"); \
                    Script(wait 2, write s.step, wait 1, write s.step, wait 1ms, write s.step)";
        assert_eq!(Rig::text(text).run().read("s.log"), "1.500000 3.000000 3.001000");
    }

    #[test]
    fn a_run_that_waits_goes_on_later() {
        let text = "s :: Script(TYPE PASSIVE, export done no, wait 1, set done yes); Script(write s.run, wait 0.5, stop)";
        let mut stopped = Rig::text(text).run();
        assert_eq!(stopped.read("s.done"), "no");
        let mut run = Rig::text(&text.replace(", stop", "")).run();
        assert_eq!(run.read("s.done"), "yes");
    }

    #[test]
    fn packets_choose_their_output() {
        let inputs: &[&[u8]] = &[b"a", b"b", b"c", b"d"];
        // The second packet is dropped, the third sent to an output that is not there.
        let config = "Script(init n 0, set n $(add $n 1), goto exit $(eq $n 2), return $(if $(eq $n 3) 9 0))";
        for burst in [1, 32] {
            let run = Rig::new(config).burst(burst).inputs(inputs).run();
            assert_eq!(run.bytes("o0"), [b"a", b"d"]);
            assert_eq!(run.drops("e"), [(element::Reason::Filtered, 2)]);
        }
        let run = Rig::new("Script(return $input)").inputs(inputs).run();
        assert_eq!(run.out("o0").len(), 4);
        let run = Rig::new("Script(return nowhere)").inputs(inputs).run();
        assert_eq!(run.drops("e"), [(element::Reason::Filtered, 4)]);
    }

    #[test]
    fn a_packet_that_comes_back_finds_the_script() {
        // It goes round until it has been seen three times.
        let text = "i :: TestIn -> e :: Script(init n 0, set n $(add $n 1), return $(if $(lt $n 3) 1 0)) -> c :: Counter -> Discard; \
                    e[1] -> e; t :: Script(TYPE PASSIVE, return \"$(e.get n) $(c.count)\")";
        assert_eq!(Rig::text(text).inputs(&[b"x"]).run().read("t.run"), "\"3 1\"");
    }

    #[test]
    fn drivers_count_requests() {
        let text = "d :: Script(TYPE DRIVER, export n 0, pause 2, set n 1, wait 1, set n 2); \
                    Script(wait 1, stop); Script(wait 2, write stop); t :: Script(wait 2.5, export late no, set late yes)";
        let mut run = Rig::text(text).run();
        assert_eq!((run.read("d.n"), run.read("t.late")), ("2".into(), "yes".into()));
        let errors = Rig::text("DriverManager; a :: DriverManager").errors();
        assert!(errors[0].contains("more than one driver script"), "{errors:?}");
    }

    #[test]
    fn random_numbers_lie_in_their_range() {
        let mut run =
            Rig::text("s :: Script(TYPE PASSIVE, return \"$(random 1) $(random 7 7) $(lt $(random 3) 3)\")")
                .run();
        assert_eq!(run.read("s.run"), "\"0 7 true\"");
        for bad in ["0", "5 4", "1 2 3", "x", "-1"] {
            let printed = self::run(&format!("return $(random {bad})"), "").expect_err(bad);
            assert!(printed.contains("handler 'random' expects"), "{printed}");
        }
    }
}
