// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scripts as they are written: from arguments to instructions.

use element::parse_integer;
use lang::config::{shift_word, unquote_string};

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// `end`, or behind the last instruction.
    End,
    /// `exit`
    Exit,
    /// `stop`: the driver should stop too.
    Stop,
    /// `error`
    Error,
}

/// Where `goto` leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Jump {
    To(usize),
    Finish(Ending),
}

/// A file that `print` writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) file: String,
    pub(super) append: bool,
}

/// One instruction. `unquote` marks the forms whose names end in `q`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    Pause(u32),
    Wait(String),
    Print {
        text: String,
        to: Option<Redirect>,
        newline: bool,
        unquote: bool,
    },
    Read {
        call: String,
        unquote: bool,
    },
    Write {
        call: String,
        unquote: bool,
    },
    Set {
        name: String,
        text: String,
        unquote: bool,
    },
    /// Executed once, before the script starts; `export` makes a handler of the variable.
    Init {
        name: String,
        text: String,
        unquote: bool,
        export: bool,
    },
    Label(String),
    Goto {
        target: Jump,
        condition: String,
    },
    Return {
        text: String,
        unquote: bool,
    },
    Finish(Ending),
    Error {
        text: String,
        unquote: bool,
    },
}

/// What makes a script run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptKind {
    /// The start of the router.
    Active,
    /// Its `run` handler.
    Passive,
    /// Packets.
    Packet,
    /// Any handler that it does not have.
    Proxy,
    /// The start of the router and requests to stop it.
    Driver,
    /// Signals.
    Signal(Vec<i32>),
}

const INSTRUCTIONS: [&str; 32] = [
    "append",
    "end",
    "error",
    "errorq",
    "exit",
    "export",
    "exportq",
    "goto",
    "init",
    "initq",
    "label",
    "loop",
    "pause",
    "print",
    "printn",
    "printnq",
    "printq",
    "read",
    "readq",
    "return",
    "returnq",
    "save",
    "set",
    "setq",
    "stop",
    "wait",
    "wait_for",
    "wait_step",
    "wait_stop",
    "wait_time",
    "write",
    "writeq",
];

/// Signals by name.
const SIGNALS: [(&str, i32); 11] = [
    ("ABRT", 6),
    ("ALRM", 14),
    ("HUP", 1),
    ("INT", 2),
    ("IO", 29),
    ("PIPE", 13),
    ("QUIT", 3),
    ("TERM", 15),
    ("TSTP", 20),
    ("USR1", 10),
    ("USR2", 12),
];

/// The number of a signal given by name or number.
pub(super) fn signal(word: &str) -> Option<i32> {
    let named = SIGNALS.iter().find(|(name, _)| *name == word).map(|s| s.1);
    named.or_else(|| parse_integer(word).and_then(|n| i32::try_from(n).ok()).filter(|n| (1..32).contains(n)))
}

/// Reads the argument of keyword TYPE.
pub(super) fn kind(text: &str) -> Result<ScriptKind, String> {
    let (word, rest) = shift_word(text);
    let kind = match word {
        "ACTIVE" => ScriptKind::Active,
        "PASSIVE" => ScriptKind::Passive,
        "PACKET" | "PUSH" => ScriptKind::Packet,
        "PROXY" => ScriptKind::Proxy,
        "DRIVER" => ScriptKind::Driver,
        "SIGNAL" => {
            let signals: Option<Vec<i32>> = rest.split_whitespace().map(signal).collect();
            return match signals {
                Some(signals) if !signals.is_empty() => Ok(ScriptKind::Signal(signals)),
                _ => Err(format!("bad signal number: TYPE SIGNAL expects names or numbers, not '{rest}'")),
            };
        }
        _ => Err(format!("bad TYPE: '{word}' is none of ACTIVE, PASSIVE, PACKET, PROXY, DRIVER and SIGNAL"))?,
    };
    if rest.is_empty() { Ok(kind) } else { Err(format!("bad TYPE: nothing may follow {word}, not '{rest}'")) }
}

/// Reads instructions, one per argument, and finds the labels. The last instruction is always one that ends the script.
pub(super) fn program(arguments: &[String], kind: &ScriptKind) -> Result<Vec<Instruction>, Vec<String>> {
    let (mut program, mut errors) = (Vec::new(), Vec::new());
    let mut jumps = Vec::new();
    for argument in arguments {
        let (name, rest) = shift_word(argument);
        if name.is_empty() {
            continue;
        }
        let syntax_error = |why: &str| format!("syntax error at '{name}': {why}");
        match instruction(name, rest) {
            Ok(instruction) => {
                if let Instruction::Goto { condition, .. } = &instruction {
                    let (label, condition) = shift_word(condition);
                    jumps.push((program.len(), label.to_owned(), condition.to_owned()));
                }
                program.push(instruction);
            }
            Err(why) => errors.push(syntax_error(&why)),
        }
    }
    for (at, label, condition) in jumps {
        match find_label(&program, &label) {
            Some(target) => program[at] = Instruction::Goto { target, condition },
            None => errors.push(format!("no such label '{label}'")),
        }
    }
    let driver = *kind == ScriptKind::Driver;
    if driver && program.is_empty() {
        program.push(Instruction::Pause(1));
    }
    program.push(Instruction::Finish(if driver { Ending::Stop } else { Ending::End }));
    if errors.is_empty() { Ok(program) } else { Err(errors) }
}

/// Where a label is, the names of endings included; no name is the script's start.
pub(super) fn find_label(program: &[Instruction], label: &str) -> Option<Jump> {
    let label_is = |i: &Instruction| matches!(i, Instruction::Label(name) if name == label);
    if let Some(at) = program.iter().position(label_is) {
        return Some(Jump::To(at));
    }
    Some(match label {
        "" | "begin" | "loop" => Jump::To(0),
        "end" => Jump::Finish(Ending::End),
        "exit" => Jump::Finish(Ending::Exit),
        "stop" => Jump::Finish(Ending::Stop),
        "error" | "errorq" => Jump::Finish(Ending::Error),
        _ => return None,
    })
}

fn instruction(name: &str, rest: &str) -> Result<Instruction, String> {
    let text = || rest.to_owned();
    let unquote = name.ends_with('q');
    let bare = |instruction| match rest {
        "" => Ok(instruction),
        _ => Err(format!("nothing may follow it, not '{rest}'")),
    };
    match name {
        "wait" if !rest.is_empty() => Ok(Instruction::Wait(text())),
        "wait_time" | "wait_for" => Ok(Instruction::Wait(text())),
        "wait" | "pause" | "wait_step" | "wait_stop" => {
            let count = if rest.is_empty() { Some(1) } else { parse_integer(rest) };
            let count = count.and_then(|n| u32::try_from(n).ok());
            count.map(Instruction::Pause).ok_or_else(|| format!("expected a number of steps, not '{rest}'"))
        }
        "print" | "printq" => Ok(print(rest, true, unquote)),
        "printn" | "printnq" => Ok(print(rest, false, unquote)),
        "save" | "append" => {
            let (call, file) = shift_word(rest);
            let file = if file.is_empty() { "-" } else { file };
            let to = Redirect { file: unquote_string(file), append: name == "append" };
            Ok(Instruction::Print { text: call.into(), to: Some(to), newline: true, unquote: false })
        }
        "read" | "readq" => Ok(Instruction::Read { call: text(), unquote }),
        "write" | "writeq" => Ok(Instruction::Write { call: text(), unquote }),
        "return" | "returnq" => Ok(Instruction::Return { text: text(), unquote }),
        "error" | "errorq" => Ok(Instruction::Error { text: text(), unquote }),
        "set" | "setq" | "init" | "initq" | "export" | "exportq" => {
            let (variable, value) = shift_word(rest);
            let (name_text, value_text) = (variable.to_owned(), value.to_owned());
            match name {
                _ if variable.is_empty() => Err("expected the name of a variable".into()),
                "set" | "setq" if value.is_empty() => Err(format!("expected a value for '{variable}'")),
                "set" | "setq" => Ok(Instruction::Set { name: name_text, text: value_text, unquote }),
                _ => {
                    let export = name.starts_with("export");
                    Ok(Instruction::Init { name: name_text, text: value_text, unquote, export })
                }
            }
        }
        "label" => match shift_word(rest) {
            ("", _) => Err("expected a name".into()),
            (label, "") => Ok(Instruction::Label(label.to_owned())),
            _ => Err(format!("expected one name, not '{rest}'")),
        },
        // The target is found when all labels are known.
        "goto" => Ok(Instruction::Goto { target: Jump::To(0), condition: text() }),
        "loop" => bare(Instruction::Goto { target: Jump::To(0), condition: String::new() }),
        "end" => bare(Instruction::Finish(Ending::End)),
        "exit" => bare(Instruction::Finish(Ending::Exit)),
        "stop" => bare(Instruction::Finish(Ending::Stop)),
        _ => Err(match lang::suggest(name, INSTRUCTIONS.into_iter()) {
            Some(near) => format!("no such instruction; did you mean '{near}'?"),
            None => "no such instruction".into(),
        }),
    }
}

/// `[>FILE | >>FILE] TEXT`
fn print(rest: &str, newline: bool, unquote: bool) -> Instruction {
    let (text, to) = match rest.strip_prefix('>') {
        None => (rest, None),
        Some(after) => {
            let append = after.starts_with('>');
            let (file, text) = shift_word(after.strip_prefix('>').unwrap_or(after));
            (text, Some(Redirect { file: unquote_string(file), append }))
        }
    };
    Instruction::Print { text: text.to_owned(), to, newline, unquote }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Instruction>, Vec<String>> {
        let arguments: Vec<String> = lang::config::split_args(text).into_iter().map(|a| a.text).collect();
        program(&arguments, &ScriptKind::Active)
    }

    #[test]
    fn instructions() {
        let print = |text: &str, to: Option<(&str, bool)>, newline| Instruction::Print {
            text: text.into(),
            to: to.map(|(file, append)| Redirect { file: file.into(), append }),
            newline,
            unquote: false,
        };
        let check = |text: &str, want: Instruction| assert_eq!(parse(text).unwrap()[0], want, "{text}");
        check("pause 3", Instruction::Pause(3));
        check("wait", Instruction::Pause(1));
        check("wait_stop 2", Instruction::Pause(2));
        check("wait 0.5s", Instruction::Wait("0.5s".into()));
        check("wait_for 1", Instruction::Wait("1".into()));
        check("print c.count", print("c.count", None, true));
        check("printn \"a, b\"", print("\"a, b\"", None, false));
        check("print >'a b' c.count", print("c.count", Some(("a b", false)), true));
        check("print >>- x.y", print("x.y", Some(("-", true)), true));
        check("save c.count F", print("c.count", Some(("F", false)), true));
        check("append c.count", print("c.count", Some(("-", true)), true));
        check("loop", Instruction::Goto { target: Jump::To(0), condition: String::new() });
        check(
            "goto end $(eq 1 2)",
            Instruction::Goto { target: Jump::Finish(Ending::End), condition: "$(eq 1 2)".into() },
        );
        check("goto a, stop, label a", Instruction::Goto { target: Jump::To(2), condition: String::new() });
        check("setq x 'a b'", Instruction::Set { name: "x".into(), text: "'a b'".into(), unquote: true });
        check(
            "export n",
            Instruction::Init { name: "n".into(), text: String::new(), unquote: false, export: true },
        );
        check("", Instruction::Finish(Ending::End));
    }

    #[test]
    fn errors_name_the_instruction() {
        for (text, want) in [
            ("prnit x", "syntax error at 'prnit': no such instruction; did you mean 'print'?"),
            ("set x", "syntax error at 'set': expected a value for 'x'"),
            ("init", "syntax error at 'init': expected the name of a variable"),
            ("label a b", "syntax error at 'label': expected one name, not 'a b'"),
            ("stop now", "syntax error at 'stop': nothing may follow it, not 'now'"),
            ("pause -1", "syntax error at 'pause': expected a number of steps, not '-1'"),
            ("goto nowhere", "no such label 'nowhere'"),
        ] {
            assert_eq!(parse(text), Err(vec![want.to_owned()]));
        }
        assert_eq!(parse("foo, bar").map_err(|e| e.len()), Err(2));
    }

    #[test]
    fn kinds() {
        assert_eq!(kind("PUSH"), Ok(ScriptKind::Packet));
        assert_eq!(kind("SIGNAL INT 10"), Ok(ScriptKind::Signal(vec![2, 10])));
        for bad in ["SIGNAL", "SIGNAL FOO", "SIGNAL 99", "ACTIVE x", "active", ""] {
            assert!(kind(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_driver_script_waits_for_one_stop() {
        assert_eq!(
            program(&[], &ScriptKind::Driver),
            Ok(vec![Instruction::Pause(1), Instruction::Finish(Ending::Stop)])
        );
    }
}
