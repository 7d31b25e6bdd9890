// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the commands in what a client sends. Each byte is looked at once, however the bytes are cut into pieces, so a
//! client pays for what it makes the router read.

use zeroize::Zeroize as _;

/// The longest command line, in bytes.
pub(super) const LINE_MAX: usize = 64 << 10;
/// The longest command line of a client that has yet to show its token.
const STRANGERS_LINE_MAX: usize = 1 << 10;
/// The most data that a command may bring along, in bytes.
pub(super) const DATA_MAX: usize = 16 << 20;

/// What a look at the input found.
#[derive(Debug)]
pub(super) enum Found {
    /// A command with its data.
    Command { words: Vec<String>, rest: String, data: Vec<u8> },
    /// The beginning of a command, or nothing.
    Partial,
    /// A command that cannot be executed, and the reply.
    Refused { code: u16, why: String },
}

fn refused(code: u16, why: &str) -> Found {
    Found::Refused { code, why: why.to_owned() }
}

/// A command line whose data has not all come.
#[derive(Debug)]
struct Pending {
    words: Vec<String>,
    rest: String,
    needs: Needs,
}

#[derive(Clone, Copy, Debug)]
enum Needs {
    /// So many bytes.
    Bytes(usize),
    /// The lines before the one that is `rest`; the line looked at begins at this byte.
    Until(usize),
}

/// Bytes received and not yet obeyed. What is done with is erased: keys may be among it.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// Bytes before this one are done with.
    start: usize,
    /// The line looked at has no end before this byte.
    seen: usize,
    pending: Option<Pending>,
    /// The last line ended by CR at the end of what had come: a LF that follows belongs to it.
    swallow_lf: bool,
    /// Nothing more will be received, or heeded.
    ended: bool,
}

impl Input {
    /// Takes bytes that have come.
    pub(super) fn receive(&mut self, mut bytes: &[u8]) {
        if self.ended {
            return;
        }
        if self.swallow_lf && !bytes.is_empty() {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            self.swallow_lf = false;
        }
        self.compact();
        self.bytes.extend_from_slice(bytes);
    }

    /// Forgets what is done with, and gives back the room that a large command took.
    fn compact(&mut self) {
        if self.start == 0 {
            return;
        }
        let gone = std::mem::take(&mut self.start);
        self.bytes.drain(..gone);
        self.bytes.spare_capacity_mut()[..gone].zeroize();
        self.seen -= gone;
        if let Some(Pending { needs: Needs::Until(line), .. }) = &mut self.pending {
            *line -= gone;
        }
        if self.bytes.capacity() > LINE_MAX && self.bytes.len() < LINE_MAX / 2 {
            self.bytes.shrink_to(LINE_MAX);
        }
    }

    /// Says that nothing more will come: a last line without an end counts as a line.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Forgets all that has come and takes no more.
    pub(super) fn close(&mut self) {
        self.ended = true;
        self.pending = None;
        self.done_with(self.bytes.len());
    }

    /// Whether the beginning of a command waits for the rest of it.
    pub(super) fn is_partial(&self) -> bool {
        self.pending.is_some() || self.len() > 0
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    fn done_with(&mut self, end: usize) {
        self.swallow_lf = end == self.bytes.len() && self.bytes.last() == Some(&b'\r');
        self.bytes[self.start..end].zeroize();
        (self.start, self.seen) = (end, end);
        if end == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(LINE_MAX);
            (self.start, self.seen) = (0, 0);
        }
    }

    /// The next command, if all of it has come. `stranger`: the client may say only short lines without data.
    pub(super) fn next(&mut self, stranger: bool) -> Found {
        if self.pending.is_none() {
            let Some(line) = self.line() else {
                return match self.len() > if stranger { STRANGERS_LINE_MAX } else { LINE_MAX } {
                    // Where the next command begins cannot be known.
                    true => {
                        self.close();
                        refused(500, "Line too long")
                    }
                    false => Found::Partial,
                };
            };
            match self.begin(&line, stranger) {
                Ok(pending) => self.pending = Some(pending),
                Err(found) => return found,
            }
        }
        self.complete()
    }

    /// Takes the next line off, without its end.
    fn line(&mut self) -> Option<String> {
        let (line, next) = match line_end(&self.bytes, self.seen) {
            Some((at, next)) => (at, next),
            None if self.ended && self.len() > 0 => (self.bytes.len(), self.bytes.len()),
            None => {
                self.seen = self.bytes.len();
                return None;
            }
        };
        let text = String::from_utf8_lossy(&self.bytes[self.start..line]).into_owned();
        self.done_with(next);
        Some(text)
    }

    /// Determines what a command line needs in addition to itself.
    fn begin(&mut self, line: &str, stranger: bool) -> Result<Pending, Found> {
        let mut words: Vec<String> = line.split_ascii_whitespace().map(str::to_owned).collect();
        if let Some(command) = words.first_mut() {
            command.make_ascii_uppercase();
        }
        let rest = after_words(line, 2).to_owned();
        let needs = match (words.first().map_or("", String::as_str), words.len()) {
            _ if stranger => Needs::Bytes(0),
            ("READUNTIL" | "WRITEUNTIL", 2..) => Needs::Until(self.start),
            (command @ ("READDATA" | "WRITEDATA" | "SETDATA" | "LLRPC"), 3) => {
                let Some(len) = element::parse_integer(&words[2]).and_then(|n| usize::try_from(n).ok())
                else {
                    let why = format!("Syntax error in '{}'", command.to_ascii_lowercase());
                    return Err(Found::Refused { code: 500, why });
                };
                if len > DATA_MAX {
                    self.close();
                    return Err(refused(521, "Too much data"));
                }
                Needs::Bytes(len)
            }
            _ => Needs::Bytes(0),
        };
        Ok(Pending { words, rest, needs })
    }

    /// Takes the data of the pending command off, if all of it has come.
    fn complete(&mut self) -> Found {
        let Some(mut pending) = self.pending.take() else { return Found::Partial };
        let found = match &mut pending.needs {
            Needs::Bytes(n) if self.len() >= *n => Some((self.start + *n, self.start + *n)),
            Needs::Bytes(_) if self.ended => {
                self.close();
                return refused(500, "Not enough data");
            }
            Needs::Bytes(_) => None,
            Needs::Until(line) => self.until(line, &pending.rest),
        };
        if let Some((len, next)) = found {
            let data = self.bytes[self.start..len].to_vec();
            // A command without data was done with when its line was.
            if next > self.start {
                self.done_with(next);
            }
            return Found::Command { words: pending.words, rest: pending.rest, data };
        }
        if matches!(pending.needs, Needs::Until(_)) {
            if self.ended {
                self.close();
                return refused(500, "Connection closed");
            }
            if self.len() > DATA_MAX {
                self.close();
                return refused(521, "Too much data");
            }
        }
        self.pending = Some(pending);
        Found::Partial
    }

    /// Looks for the line that is `end`, trailing spaces not counted, from the line that begins at `line`. Returns where
    /// the lines before it end, and where the next command begins.
    fn until(&mut self, line: &mut usize, end: &str) -> Option<(usize, usize)> {
        loop {
            let Some((at, next)) = line_end(&self.bytes, self.seen) else {
                self.seen = self.bytes.len();
                return None;
            };
            if self.bytes[*line..at].trim_ascii_end() == end.as_bytes() {
                return Some((*line, next));
            }
            if next == self.bytes.len() && self.bytes[next - 1] == b'\r' {
                // A LF that has yet to come belongs to this line.
                self.seen = at;
                return None;
            }
            (*line, self.seen) = (next, next);
        }
    }
}

/// Where the first line that ends at or behind `from` ends, and where the next one begins.
fn line_end(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let at = from + bytes[from..].iter().position(|b| matches!(b, b'\r' | b'\n'))?;
    Some((at, at + 1 + usize::from(bytes[at..].starts_with(b"\r\n"))))
}

/// What follows the first `n` words, without spaces around it.
fn after_words(text: &str, n: usize) -> &str {
    let mut rest = text.trim_ascii();
    for _ in 0..n {
        rest = rest.find(|c: char| c.is_ascii_whitespace()).map_or("", |at| rest[at..].trim_ascii_start());
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands found in `text` received in pieces of `piece` bytes.
    fn commands(text: &[u8], piece: usize) -> Vec<(Vec<String>, Vec<u8>)> {
        let (mut input, mut found) = (Input::default(), Vec::new());
        for bytes in text.chunks(piece) {
            input.receive(bytes);
            while let Found::Command { words, data, .. } = input.next(false) {
                found.push((words, data));
            }
        }
        assert_eq!(input.len(), 0);
        found
    }

    #[test]
    fn line_ends_may_be_cut() {
        for piece in 1..8 {
            let found = commands(b"WRITEUNTIL a END\r\nx\r\ny\rEND\r\nREAD b\r\n", piece);
            let data: Vec<&[u8]> =
                found.iter().map(|(_, data)| &data[..]).filter(|d| !d.is_empty()).collect();
            assert_eq!(data, [&b"x\r\ny\r"[..]], "{piece}");
            assert!(found.iter().any(|(words, _)| words == &["READ", "b"]), "{piece}");
        }
    }

    #[test]
    fn each_byte_is_looked_at_once() {
        // Lines that never end, and lines without end: what has been seen is not looked at again.
        for fill in [&b"x"[..], b"\n", b"y\r\n", b"\r"] {
            let mut input = Input::default();
            input.receive(b"READUNTIL c END\n");
            assert!(matches!(input.next(false), Found::Partial));
            let (mut sum, piece) = (0, fill.repeat(4096 / fill.len()));
            for _ in 0..1000 {
                input.receive(&piece);
                let before = input.seen;
                assert!(matches!(input.next(false), Found::Partial));
                sum += input.seen - before;
            }
            let (len, seen) = (input.len(), input.seen);
            assert!(sum <= len && len - seen <= 1, "{sum} of {len}, up to {seen}, of {fill:?}");
        }
    }

    #[test]
    fn a_large_command_gives_its_room_back() {
        let mut input = Input::default();
        input.receive(b"WRITEDATA c 8000000\n");
        input.receive(&vec![b'x'; 8_000_000]);
        assert!(matches!(input.next(false), Found::Command { .. }));
        assert!(input.bytes.capacity() <= LINE_MAX);
    }

    #[test]
    fn strangers_bring_no_data() {
        let mut input = Input::default();
        input.receive(b"WRITEDATA c 8000000\n");
        assert!(matches!(input.next(true), Found::Command { data, .. } if data.is_empty()));
        input.receive(&[b'x'; STRANGERS_LINE_MAX + 1]);
        assert!(matches!(input.next(true), Found::Refused { code: 500, .. }) && input.is_ended());
    }
}
