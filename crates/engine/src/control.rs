// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control protocol: how another program reads and writes handlers over a byte stream, "Click::ControlSocket/1.3".
//!
//! A [`Session`] is one connection without its socket: bytes received go in, bytes to send come out, and
//! [`Session::step`] executes one command between them by [`Handlers`]. So one implementation serves sockets that an
//! element watches on a worker ([`Cx`]) and sockets that a thread of the program serves ([`Control`]), and tests need
//! no socket at all.
//!
//! ```text
//! client   READ c.count                      | WRITEDATA s.config 5 CRLF 1 2 3
//! session  200 Read handler 'c.count' OK     | 200 Write handler 's.config' OK
//!          DATA 3
//!          117
//! ```
//!
//! Lines end by CR, LF or both; the session's own by CRLF. A reply is one line or several, all but the last with a
//! hyphen after the code: 200 done, 500 syntax, 501 no such command, 510 no such element, 511 no such handler, 520 the
//! handler failed, 521 too much data, 522 the LLRPC failed, 530 not allowed, 590 a read failed.

use crate::cx::Cx;
use crate::handler::{Access, HandlerError};
use crate::remote::Control;
use crate::router::Target;

/// The first line of every connection.
pub const GREETING: &str = "Click::ControlSocket/1.3\r\n";

/// The longest command line.
const LINE_MAX: usize = 64 << 10;
/// The most data that a command may bring along.
const DATA_MAX: usize = 16 << 20;

/// Where a session finds the handlers it calls.
pub trait Handlers {
    /// What handler `name` allows, if connections may see it.
    ///
    /// # Errors
    /// No such element, or no such handler.
    fn access(&mut self, name: &str) -> Result<Access, HandlerError>;

    /// Reads handler `name`.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError>;

    /// Executes write handler `name`; returns what there is to say about it, mostly nothing.
    ///
    /// # Errors
    /// See [`HandlerError`].
    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError>;

    /// What kind of handler is missing when one is: empty, or a word and a space.
    fn kind(&self) -> &'static str {
        ""
    }
}

fn visible(target: &Target) -> Result<Access, HandlerError> {
    if target.is_private() { Err(HandlerError::unknown(target.name())) } else { Ok(target.access()) }
}

impl Handlers for Control {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        visible(&self.shared().resolve(name, None)?)
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        Control::read(self, name, param)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        Control::write(self, name, value)
    }
}

/// Names are those of the whole router, whatever compound the element lies in.
impl Handlers for Cx<'_> {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        visible(&self.router().resolve(name, None)?)
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        let target = self.router().resolve(name, None)?;
        self.read_target(&target, param)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        let target = self.router().resolve(name, None)?;
        self.write_target(&target, value).map(|()| String::new())
    }
}

/// One connection, see the module.
#[derive(Debug)]
pub struct Session {
    input: Vec<u8>,
    output: Vec<u8>,
    read_only: bool,
    /// Nothing more will be received, or heeded.
    ended: bool,
    /// The last line ended by CR at the end of what had come: a LF that follows belongs to it.
    swallow_lf: bool,
}

/// What a look at the input found.
enum Found {
    /// A command with its data, and how many bytes of input they are.
    Command { words: Vec<String>, rest: String, data: Vec<u8>, used: usize },
    /// The beginning of a command.
    Partial,
    /// A command that cannot be executed: the reply, and how many bytes it takes.
    Refused { code: u16, why: String, used: usize },
}

impl Session {
    /// A new connection; `read_only` refuses all writes.
    pub fn new(read_only: bool) -> Session {
        Session { input: Vec::new(), output: GREETING.into(), read_only, ended: false, swallow_lf: false }
    }

    /// Takes bytes that have come. Callers bound what waits by stepping before they receive more.
    pub fn receive(&mut self, mut bytes: &[u8]) {
        if self.ended {
            return;
        }
        if self.swallow_lf && !bytes.is_empty() {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            self.swallow_lf = false;
        }
        self.input.extend_from_slice(bytes);
    }

    /// Says that nothing more will come: a last line without an end counts as a line.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether nothing more will be received.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Bytes to send.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Forgets the first `n` bytes to send, which have been sent.
    pub fn sent(&mut self, n: usize) {
        self.output.drain(..n.min(self.output.len()));
    }

    /// Whether nothing is left to do, so that the connection can be closed.
    pub fn is_done(&self) -> bool {
        self.ended && self.input.is_empty() && self.output.is_empty()
    }

    /// Executes the next command if all of it has come. Returns whether it did; call it again until it did not.
    pub fn step(&mut self, handlers: &mut dyn Handlers) -> bool {
        if self.input.is_empty() {
            return false;
        }
        match self.look() {
            Found::Partial => false,
            Found::Refused { code, why, used } => {
                self.consume(used);
                self.reply(code, &why);
                true
            }
            Found::Command { words, rest, data, used } => {
                self.consume(used);
                self.execute(handlers, &words, &rest, &data);
                true
            }
        }
    }

    fn consume(&mut self, used: usize) {
        self.swallow_lf = used == self.input.len() && self.input.last() == Some(&b'\r');
        self.input.drain(..used);
    }

    /// Finds the next command in the input, with the data that belongs to it.
    fn look(&mut self) -> Found {
        let (line, mut used) = match line_end(&self.input) {
            Some(found) => found,
            None if self.ended => (self.input.len(), self.input.len()),
            None if self.input.len() > LINE_MAX => {
                // Where the next command begins cannot be known.
                self.ended = true;
                let why = "Line too long".into();
                return Found::Refused { code: 500, why, used: self.input.len() };
            }
            None => return Found::Partial,
        };
        let text = String::from_utf8_lossy(&self.input[..line]).into_owned();
        let mut words: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
        if let Some(command) = words.first_mut() {
            command.make_ascii_uppercase();
        }
        let rest = after_words(&text, 2).to_owned();
        let refused = |code, why: &str, used| Found::Refused { code, why: why.into(), used };
        let mut data = Vec::new();
        match words.first().map_or("", String::as_str) {
            "READUNTIL" | "WRITEUNTIL" if words.len() >= 2 => match until(&self.input[used..], &rest) {
                Some((len, all)) => {
                    data = self.input[used..used + len].to_vec();
                    used += all;
                }
                None if self.ended => return refused(500, "Connection closed", self.input.len()),
                None if self.input.len() - used > DATA_MAX => {
                    self.ended = true;
                    return refused(521, "Too much data", self.input.len());
                }
                None => return Found::Partial,
            },
            command @ ("READDATA" | "WRITEDATA" | "SETDATA" | "LLRPC") if words.len() == 3 => {
                let come = self.input.len() - used;
                let len = crate::parse_integer(&words[2]).and_then(|n| usize::try_from(n).ok());
                let Some(len) = len else {
                    let why = format!("Syntax error in '{}'", command.to_ascii_lowercase());
                    return Found::Refused { code: 500, why, used };
                };
                if len > DATA_MAX {
                    self.ended = true;
                    return refused(521, "Too much data", self.input.len());
                }
                match come < len {
                    true if self.ended => return refused(500, "Not enough data", self.input.len()),
                    true => return Found::Partial,
                    false => data = self.input[used..used + len].to_vec(),
                }
                used += len;
            }
            _ => {}
        }
        Found::Command { words, rest, data, used }
    }

    fn execute(&mut self, handlers: &mut dyn Handlers, words: &[String], rest: &str, data: &[u8]) {
        let Some(command) = words.first() else { return };
        let name = words.get(1).map_or("", String::as_str);
        let text = String::from_utf8_lossy(data);
        match (command.as_str(), words.len()) {
            ("READ" | "GET", 2..) => self.read(handlers, name, rest),
            ("WRITE" | "SET", 2..) => self.write(handlers, name, rest),
            ("READDATA", 3) | ("READUNTIL", 2..) => self.read(handlers, name, &text),
            ("WRITEDATA" | "SETDATA", 3) | ("WRITEUNTIL", 2..) => self.write(handlers, name, &text),
            ("CHECKREAD", 2) => self.check(handlers, name, false),
            ("CHECKWRITE", 2) => self.check(handlers, name, true),
            ("LLRPC", 2 | 3) => self.llrpc(handlers, name, data.len()),
            ("QUIT" | "CLOSE", n) => {
                if n > 1 {
                    self.reply(500, "Bad command syntax");
                }
                self.reply(200, "Goodbye!");
                self.ended = true;
                self.input.clear();
            }
            ("HELP", _) => self.reply(200, HELP),
            (
                "READ" | "GET" | "WRITE" | "SET" | "READDATA" | "READUNTIL" | "WRITEDATA" | "SETDATA"
                | "WRITEUNTIL" | "CHECKREAD" | "CHECKWRITE" | "LLRPC",
                _,
            ) => self.reply(500, "Wrong number of arguments"),
            _ => self.reply(501, &format!("Command '{command}' unimplemented")),
        }
    }

    fn read(&mut self, handlers: &mut dyn Handlers, name: &str, param: &str) {
        match handlers.access(canonical(name)) {
            Err(why) => return self.missing(handlers, name, &why),
            Ok(Access::Write) => return self.reply(530, &format!("Handler '{name}' write-only")),
            Ok(_) => {}
        }
        match handlers.read(canonical(name), param) {
            Ok(value) => {
                self.reply(200, &format!("Read handler '{name}' OK"));
                self.output.extend_from_slice(format!("DATA {}\r\n", value.len()).as_bytes());
                self.output.extend_from_slice(value.as_bytes());
            }
            Err(why) => {
                self.reply(failure(&why, 590), &format!("Read handler '{name}' error:\n{why}"));
            }
        }
    }

    fn write(&mut self, handlers: &mut dyn Handlers, name: &str, value: &str) {
        match handlers.access(canonical(name)) {
            Err(why) => return self.missing(handlers, name, &why),
            Ok(Access::Read) => return self.reply(530, &format!("Handler '{name}' read-only")),
            Ok(_) if self.read_only => return self.reply(530, &format!("Permission denied for '{name}'")),
            Ok(_) => {}
        }
        match handlers.write(canonical(name), value) {
            Ok(said) => self.reply(200, &format!("Write handler '{name}' OK\n{said}")),
            Err(why) => self.reply(failure(&why, 520), &format!("Write handler '{name}' error:\n{why}")),
        }
    }

    fn check(&mut self, handlers: &mut dyn Handlers, name: &str, write: bool) {
        let (wanted, word) = if write { (Access::Write, "Write") } else { (Access::Read, "Read") };
        match handlers.access(canonical(name)) {
            Err(why) => self.missing(handlers, name, &why),
            Ok(access) if access != wanted && access != Access::ReadWrite => {
                let able = if write { "writable" } else { "readable" };
                self.reply(511, &format!("Handler '{name}' not {able}"));
            }
            Ok(_) if write && self.read_only => self.reply(530, &format!("Permission denied for '{name}'")),
            Ok(_) => self.reply(200, &format!("{word} handler '{name}' OK")),
        }
    }

    /// Calls an element's function by number, with `given` bytes of data. The number says what the call moves; those that
    /// could be made from afar reach the element, and none of ours answers any.
    fn llrpc(&mut self, handlers: &mut dyn Handlers, name: &str, given: usize) {
        // Of a number as other programs write it: whether bytes go in or come out, that all are in the message, how many.
        const IN: u32 = 0x8000_0000;
        const OUT: u32 = 0x4000_0000;
        const FLAT: u32 = 0x4000;
        let (element, number) = name.split_once('#').unwrap_or((name, ""));
        let Ok(number) = u32::from_str_radix(number.trim_start_matches("0x"), 16) else {
            return self.reply(500, &format!("Syntax error in LLRPC name '{name}'"));
        };
        let known = format!("{element}.name");
        if let Err(why) = handlers.access(canonical(&known)) {
            return self.missing(handlers, &known, &why);
        }
        let size = (number >> 16 & 0xfff) as usize;
        if size == 0 || number & (IN | OUT) == 0 || number & FLAT == 0 {
            self.reply(501, &format!("Cannot call LLRPC '{name}' remotely"));
        } else if self.read_only {
            self.reply(530, &format!("Permission denied for '{name}'"));
        } else if number & IN != 0 && given != size {
            self.reply(522, &format!("LLRPC '{name}' requires {size} bytes input data"));
        } else {
            self.reply(522, &format!("LLRPC '{name}' error: Invalid argument"));
        }
    }

    fn missing(&mut self, handlers: &dyn Handlers, name: &str, why: &HandlerError) {
        match why {
            HandlerError::NoElement(element) => self.reply(510, &format!("No element named '{element}'")),
            HandlerError::NoHandler(_) => {
                self.reply(511, &format!("No {}handler named '{name}'", handlers.kind()));
            }
            other => self.reply(failure(other, 590), &other.to_string()),
        }
    }

    /// Adds a reply, one line for each of the text's.
    fn reply(&mut self, code: u16, text: &str) {
        let mut lines = text.lines().filter(|l| !l.is_empty()).peekable();
        while let Some(line) = lines.next() {
            let mark = if lines.peek().is_some() { '-' } else { ' ' };
            self.output.extend_from_slice(format!("{code}{mark}{}\r\n", printable(line)).as_bytes());
        }
    }
}

const HELP: &str = "Commands supported:
READ handler [arg...]       call a read handler, answers with DATA
READDATA handler length     the same, its argument is that many bytes
READUNTIL handler [end]     the same, its argument is the lines before this one
WRITE handler [arg...]      call a write handler
WRITEDATA handler length    the same, its argument is that many bytes
WRITEUNTIL handler [end]    the same, its argument is the lines before this one
CHECKREAD handler           whether a handler can be read
CHECKWRITE handler          whether a handler can be written
LLRPC element#number [len]  call a function by number, with that many bytes
QUIT                        close the connection";

fn failure(why: &HandlerError, otherwise: u16) -> u16 {
    match why {
        HandlerError::NoElement(_) => 510,
        HandlerError::NoHandler(_) => 511,
        HandlerError::Denied(_) => 530,
        HandlerError::Failed(_) => otherwise,
    }
}

/// A global handler may be called `.name` or `0.name`.
fn canonical(name: &str) -> &str {
    name.strip_prefix("0.").or_else(|| name.strip_prefix('.')).unwrap_or(name)
}

/// Length of the first line, and with its end.
fn line_end(input: &[u8]) -> Option<(usize, usize)> {
    let at = input.iter().position(|b| matches!(b, b'\r' | b'\n'))?;
    let both = input[at..].starts_with(b"\r\n");
    Some((at, at + 1 + usize::from(both)))
}

/// Length of the lines before the one that is `end`, and with that one. Trailing spaces do not count.
fn until(input: &[u8], end: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    loop {
        let (line, used) = line_end(&input[at..])?;
        if input[at..at + line].trim_ascii_end() == end.as_bytes() {
            return Some((at, at + used));
        }
        at += used;
    }
}

/// What follows the first `n` words, without spaces around it.
fn after_words(text: &str, n: usize) -> &str {
    let mut rest = text.trim_ascii();
    for _ in 0..n {
        rest = rest.find(|c: char| c.is_ascii_whitespace()).map_or("", |at| rest[at..].trim_ascii_start());
    }
    rest
}

/// Without control characters, which would break the lines of a reply.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { format!("\\{:03o}", c as u32) } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handlers `x.r` (reads its parameter), `x.w`, `x.rw`, `g` (global); a value of `bad` fails.
    #[derive(Default)]
    struct Table(Vec<String>);

    impl Handlers for Table {
        fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
            match name {
                "x.r" | "g" | "x.name" => Ok(Access::Read),
                "x.w" => Ok(Access::Write),
                "x.rw" => Ok(Access::ReadWrite),
                _ if name.starts_with("x.") => Err(HandlerError::unknown(&name[2..])),
                _ => Err(HandlerError::NoElement(name.split('.').next().unwrap_or("").into())),
            }
        }

        fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
            match param {
                "bad" => Err(HandlerError::failed("two\nlines")),
                _ => Ok(format!("{name}={param}")),
            }
        }

        fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
            if value == "bad" {
                return Err(HandlerError::failed("no\tgood"));
            }
            self.0.push(format!("{name}={value}"));
            Ok(if value == "tell" { "done\nso".into() } else { String::new() })
        }
    }

    /// What a session answers to this input, received in pieces of `piece` bytes, and what was written.
    fn talk(input: &[u8], piece: usize, read_only: bool, end: bool) -> (String, Vec<String>, bool) {
        let (mut session, mut table) = (Session::new(read_only), Table::default());
        for bytes in input.chunks(piece) {
            session.receive(bytes);
            while session.step(&mut table) {}
        }
        if end {
            session.end();
            while session.step(&mut table) {}
        }
        let answer = String::from_utf8(session.output().to_vec()).unwrap();
        session.sent(answer.len());
        let answer = answer.strip_prefix(GREETING).expect("greeting").to_owned();
        (answer, table.0, session.is_done())
    }

    fn check(input: &str, answer: &str, written: &[&str]) {
        for piece in [1, 2, 3, 1000] {
            let got = talk(input.as_bytes(), piece, false, false);
            assert_eq!((got.0.as_str(), got.1), (answer, written.iter().map(|s| s.to_string()).collect()));
        }
    }

    #[test]
    fn reads() {
        check("READ x.r\r\n", "200 Read handler 'x.r' OK\r\nDATA 4\r\nx.r=", &[]);
        check("get x.r  a  b \n", "200 Read handler 'x.r' OK\r\nDATA 8\r\nx.r=a  b", &[]);
        check(
            "READ 0.g\rREAD .g\r",
            &"200 Read handler 'N' OK\r\nDATA 2\r\ng="
                .repeat(2)
                .replacen('N', "0.g", 1)
                .replacen('N', ".g", 1),
            &[],
        );
        check("READDATA x.r 3\r\na\r\n", "200 Read handler 'x.r' OK\r\nDATA 7\r\nx.r=a\r\n", &[]);
        check("READUNTIL x.r END\na \nEND  \n", "200 Read handler 'x.r' OK\r\nDATA 7\r\nx.r=a \n", &[]);
        check("READ x.r bad\n", "590-Read handler 'x.r' error:\r\n590-two\r\n590 lines\r\n", &[]);
        check("READ x.w\n", "530 Handler 'x.w' write-only\r\n", &[]);
    }

    #[test]
    fn writes() {
        let ok = "200 Write handler 'x.w' OK\r\n";
        check("WRITE x.w a b\n\n", ok, &["x.w=a b"]);
        check("set x.w\n", ok, &["x.w="]);
        check("WRITEDATA x.w 4\r\n\na\nbSETDATA x.w 0\n", &ok.repeat(2), &["x.w=\na\nb", "x.w="]);
        check("WRITEUNTIL x.w\r\n1\r\n2\r\n\r\nCHECKWRITE x.w\n", &ok.repeat(2), &["x.w=1\r\n2\r\n"]);
        check("WRITE x.w tell\n", "200-Write handler 'x.w' OK\r\n200-done\r\n200 so\r\n", &["x.w=tell"]);
        check("WRITE x.w bad\n", "520-Write handler 'x.w' error:\r\n520 no\\011good\r\n", &[]);
        check("WRITE x.r a\n", "530 Handler 'x.r' read-only\r\n", &[]);
        assert_eq!(
            talk(b"WRITE x.w a\nCHECKWRITE x.w\n", 99, true, false),
            ("530 Permission denied for 'x.w'\r\n".repeat(2), vec![], false)
        );
    }

    #[test]
    fn what_is_not_there() {
        check("READ y.r\n", "510 No element named 'y'\r\n", &[]);
        check("WRITE x.q 1\n", "511 No handler named 'x.q'\r\n", &[]);
        check("CHECKREAD x.w\n", "511 Handler 'x.w' not readable\r\n", &[]);
        check("CHECKREAD x.r\n", "200 Read handler 'x.r' OK\r\n", &[]);
        check("CHECKWRITE x.q\n", "511 No handler named 'x.q'\r\n", &[]);
        check(
            "LLRPC x#1f\nLLRPC x#z\n",
            "501 Cannot call LLRPC 'x#1f' remotely\r\n500 Syntax error in LLRPC name 'x#z'\r\n",
            &[],
        );
    }

    #[test]
    fn llrpcs_are_refused_by_what_their_number_says() {
        // Click's numbers: GET_SWITCH moves four bytes out, SET_SWITCH four in, GET_RATES is not flat.
        for (input, want) in [
            ("LLRPC x#4004c005\n", "522 LLRPC 'x#4004c005' error: Invalid argument\r\n"),
            ("LLRPC x#80044006 4\n1234", "522 LLRPC 'x#80044006' error: Invalid argument\r\n"),
            ("LLRPC x#80044006 3\n123", "522 LLRPC 'x#80044006' requires 4 bytes input data\r\n"),
            ("LLRPC x#80044006\n", "522 LLRPC 'x#80044006' requires 4 bytes input data\r\n"),
            ("LLRPC x#20008002\n", "501 Cannot call LLRPC 'x#20008002' remotely\r\n"),
            ("LLRPC y#4004c005\n", "510 No element named 'y'\r\n"),
            ("LLRPC x\n", "500 Syntax error in LLRPC name 'x'\r\n"),
            ("LLRPC x# 4\n1234", "500 Syntax error in LLRPC name 'x#'\r\n"),
            ("LLRPC\nLLRPC x#1 q\n", "500 Wrong number of arguments\r\n500 Syntax error in 'llrpc'\r\n"),
        ] {
            check(input, want, &[]);
        }
        let refused = talk(b"LLRPC x#4004c005\nLLRPC x#80044006\n", 99, true, false).0;
        assert_eq!(
            refused,
            "530 Permission denied for 'x#4004c005'\r\n530 Permission denied for 'x#80044006'\r\n"
        );
    }

    #[test]
    fn slips() {
        check(
            "READ\nFLY x\nREADDATA x.r\nREADDATA x.r q\n\r\n \n",
            "500 Wrong number of arguments\r\n501 Command 'FLY' unimplemented\r\n500 Wrong number of arguments\r\n500 Syntax error in 'readdata'\r\n",
            &[],
        );
        let huge = format!("WRITEDATA x.w {}\n", DATA_MAX + 1);
        let got = talk(huge.as_bytes(), 1 << 20, false, false);
        assert_eq!((got.0.as_str(), got.2), ("521 Too much data\r\n", true));
        let got = talk(&vec![b'x'; LINE_MAX + 5], 1 << 20, false, false);
        assert_eq!((got.0.as_str(), got.2), ("500 Line too long\r\n", true));
    }

    #[test]
    fn ends() {
        let ended = |input: &str| talk(input.as_bytes(), 7, false, true);
        assert_eq!(ended("WRITE x.w 1").1, ["x.w=1"]);
        assert_eq!(ended("WRITEDATA x.w 5\nabc").0, "500 Not enough data\r\n");
        assert_eq!(ended("WRITEUNTIL x.w E\nabc").0, "500 Connection closed\r\n");
        assert!(ended("").2);
        let quit = talk(b"quit\nREAD x.r\n", 99, false, false);
        assert_eq!((quit.0.as_str(), quit.2), ("200 Goodbye!\r\n", true));
    }

    proptest::proptest! {
        #[test]
        fn any_input_in_any_pieces(input in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), piece in 1usize..50) {
            let whole = talk(&input, 1000, false, true);
            let parts = talk(&input, piece, false, true);
            // Lines may be cut anywhere; the answers are the same.
            assert_eq!(whole, parts);
        }
    }
}
