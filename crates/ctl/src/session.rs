// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection without its socket.

use std::sync::Arc;

use crate::input::{Found, Input};
use crate::token::Token;
use crate::{GREETING, Handlers};
use element::{Access, HandlerError, Llrpc};

/// One connection, see [`control`](super).
#[derive(Debug)]
pub struct Session {
    input: Input,
    output: Vec<u8>,
    read_only: bool,
    /// What the client has to show before anything else.
    token: Option<Arc<Token>>,
    /// A command has been obeyed.
    obeyed: bool,
}

impl Session {
    /// A new connection; `read_only` refuses all writes. With a token nothing is obeyed before the client has shown it.
    pub fn new(read_only: bool, token: Option<Arc<Token>>) -> Session {
        Session { input: Input::default(), output: GREETING.into(), read_only, token, obeyed: false }
    }

    /// Takes bytes that have come. Callers bound what waits by stepping before they receive more.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.receive(bytes);
    }

    /// Says that nothing more will come: a last line without an end counts as a line.
    pub fn end(&mut self) {
        self.input.end();
    }

    /// Forgets what has come, says why, and takes no more.
    pub fn refuse(&mut self, code: u16, why: &str) {
        self.input.close();
        self.reply(code, why);
    }

    /// Takes the bytes to send.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Bytes held for the client: what it has sent and what it is to be sent.
    pub fn held(&self) -> usize {
        self.input.len() + self.output.len()
    }

    /// Whether the beginning of a command waits for the rest of it.
    pub fn is_partial(&self) -> bool {
        self.input.is_partial()
    }

    /// Whether the client has yet to show its token.
    pub fn is_stranger(&self) -> bool {
        self.token.is_some()
    }

    /// Whether any command has been obeyed.
    pub fn has_obeyed(&self) -> bool {
        self.obeyed
    }

    /// Whether nothing is left to do, so that the connection can be closed.
    pub fn is_done(&self) -> bool {
        self.input.is_ended() && self.held() == 0
    }

    /// Executes the next command if all of it has come. Returns whether it did; call it again until it did not.
    pub fn step(&mut self, handlers: &mut dyn Handlers) -> bool {
        match self.input.next(self.token.is_some()) {
            Found::Partial => false,
            Found::Refused { code, why } => {
                self.reply(code, &why);
                true
            }
            Found::Command { words, rest, data } => {
                self.execute(handlers, &words, &rest, &data);
                true
            }
        }
    }

    /// Looks whether a client that has to show its token does so; another command ends the connection.
    fn admit(&mut self, token: &Token, words: &[String]) {
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["AUTH", shown] if token.is(shown) => {
                (self.token, self.obeyed) = (None, true);
                self.reply(200, "Authenticated");
            }
            ["QUIT" | "CLOSE", ..] => self.refuse(200, "Goodbye!"),
            ["AUTH", ..] => self.refuse(530, "Wrong token"),
            _ => self.refuse(530, "Authentication required: begin with AUTH and the token of the token file"),
        }
    }

    fn execute(&mut self, handlers: &mut dyn Handlers, words: &[String], rest: &str, data: &[u8]) {
        let Some(command) = words.first() else { return };
        if let Some(token) = self.token.clone() {
            return self.admit(&token, words);
        }
        if words.last().is_some_and(|word| word.starts_with("HTTP/")) {
            // A web browser, led here by a page: what follows are not its user's commands.
            return self.refuse(501, "This is no web server");
        }
        self.obeyed = true;
        let name = words.get(1).map_or("", String::as_str);
        let text = String::from_utf8_lossy(data);
        match (command.as_str(), words.len()) {
            ("READ" | "GET", 2..) => self.read(handlers, name, rest),
            ("WRITE" | "SET", 2..) => self.write(handlers, name, rest),
            ("READDATA", 3) | ("READUNTIL", 2..) => self.read(handlers, name, &text),
            ("WRITEDATA" | "SETDATA", 3) | ("WRITEUNTIL", 2..) => self.write(handlers, name, &text),
            ("CHECKREAD", 2) => self.check(handlers, name, false),
            ("CHECKWRITE", 2) => self.check(handlers, name, true),
            ("LLRPC", 2 | 3) => self.llrpc(handlers, name, data),
            ("QUIT" | "CLOSE", n) => {
                if n > 1 {
                    self.reply(500, "Bad command syntax");
                }
                self.refuse(200, "Goodbye!");
            }
            ("HELP", _) => self.reply(200, HELP),
            ("AUTH", 2) => self.reply(200, "No token is needed"),
            (
                "READ" | "GET" | "WRITE" | "SET" | "READDATA" | "READUNTIL" | "WRITEDATA" | "SETDATA"
                | "WRITEUNTIL" | "CHECKREAD" | "CHECKWRITE" | "LLRPC" | "AUTH",
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

    /// Calls an element's function by number. The number says what the call moves; those that may be made from afar reach the
    /// element, see [`called`].
    fn llrpc(&mut self, handlers: &mut dyn Handlers, name: &str, data: &[u8]) {
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
        } else if number & IN != 0 && data.len() != size {
            self.reply(522, &format!("LLRPC '{name}' requires {size} bytes input data"));
        } else if let Some(answer) = called(handlers, element, number, data) {
            self.reply(200, &format!("LLRPC '{name}' OK"));
            if number & OUT != 0 {
                self.output.extend_from_slice(format!("DATA {size}\r\n").as_bytes());
                self.output.extend_from_slice(&answer);
            }
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

/// Calls function `number` of an element; its answer, or nothing if the element has none of that number, or refuses the data. A
/// handler does what each of them asks for.
fn called(handlers: &mut dyn Handlers, element: &str, number: u32, data: &[u8]) -> Option<[u8; 4]> {
    let value = data.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
    let meant = |call: &&Llrpc| call.number == number && (call.with.is_none() || call.with == value);
    let call = handlers.llrpcs(canonical(element)).iter().find(meant)?;
    let name = format!("{element}.{}", call.handler);
    if call.writes {
        handlers.write(canonical(&name), &value?.to_string()).ok()?;
        return Some([0; 4]);
    }
    let answer: f64 = handlers.read(canonical(&name), "").ok()?.trim().parse().ok()?;
    Some((answer as i64 as i32).to_ne_bytes())
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
AUTH token                  show the token, if the router asks for one
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

/// Without control characters, which would break the lines of a reply.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { format!("\\{:03o}", c as u32) } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{DATA_MAX, LINE_MAX};

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
        let (mut session, mut table) = (Session::new(read_only, None), Table::default());
        for bytes in input.chunks(piece) {
            session.receive(bytes);
            while session.step(&mut table) {}
        }
        if end {
            session.end();
            while session.step(&mut table) {}
        }
        let answer = String::from_utf8(session.take_output()).unwrap();
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
