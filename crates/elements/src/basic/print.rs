// SPDX-License-Identifier: MIT OR Apache-2.0
//! # Print
//!
//! `Print([LABEL, MAXLENGTH, keywords CONTENTS, TIMESTAMP, PRINTANNO, HEADROOM, ACTIVE])`
//!
//! Prints a line for each packet: its label, length and first bytes.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `LABEL` text at the line's beginning, default none.
//! * `MAXLENGTH` bytes printed at most, default 24; negative for all.
//! * `CONTENTS` `HEX` (the default), `ASCII` or `NONE`; booleans choose between HEX and NONE.
//! * `TIMESTAMP` boolean, default false: prints the timestamp.
//! * `PRINTANNO` boolean, default false: prints the 48 annotation bytes.
//! * `HEADROOM` boolean, default false: prints headroom and tailroom, as `(h28 t100)`.
//! * `ACTIVE` boolean, default true.
//!
//! **Drops:** none.
//!
//! **Handlers**
//! * `active` read/write: the argument.
//!
//! ```click
//! InfiniteSource(\<00 01 02 03 04>, LIMIT 2, STOP true) -> Print(source) -> Discard;
//! ```
//!
//! See also: IPPrint

use std::fmt::Write as _;

use element::args::Args;
use element::{Class, Cx, Element, Rehearsal, handlers};
use packet::{ANNO_SIZE, Batch, Packet};

use crate::tools::seconds;

/// The descriptor.
pub const CLASS: Class = Class::new("Print", "1/1", || Box::new(Print::default()))
    .handlers(handlers! { Print:
        both "active" => .active;
    })
    .forwards()
    .rehearsal::<Print>()
    .file(file!());

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Contents {
    #[default]
    Hex,
    Ascii,
    None,
}

#[derive(Clone, Default)]
struct Print {
    label: String,
    max_length: i32,
    contents: Contents,
    timestamp: bool,
    annotations: bool,
    headroom: bool,
    active: bool,
}

impl Print {
    fn line(&self, packet: &Packet) -> String {
        let mut line = self.label.clone();
        let separate = |line: &mut String| {
            if !line.is_empty() {
                line.push_str(": ");
            }
        };
        if self.timestamp {
            separate(&mut line);
            line += &seconds(packet.timestamp_ns());
        }
        separate(&mut line);
        // Writing to a string cannot fail.
        let _ = write!(line, "{:4}", packet.len());
        if self.headroom {
            let _ = write!(line, " (h{} t{})", packet.headroom(), packet.tailroom());
        }
        if self.annotations {
            line += " | ";
            hex(&mut line, &packet.anno::<ANNO_SIZE>(0), usize::MAX);
        }
        let shown = usize::try_from(self.max_length).unwrap_or(usize::MAX).min(packet.len());
        let bytes = &packet.data()[..shown];
        if bytes.is_empty() {
            return line;
        }
        match self.contents {
            Contents::None => {}
            Contents::Hex => {
                line += " | ";
                hex(&mut line, bytes, 4);
            }
            Contents::Ascii => {
                line += " | ";
                ascii(&mut line, bytes);
            }
        }
        line
    }
}

/// Hexadecimal digits with a space between groups of `group` bytes.
fn hex(line: &mut String, bytes: &[u8], group: usize) {
    for (i, chunk) in bytes.chunks(group.min(bytes.len().max(1))).enumerate() {
        if i > 0 {
            line.push(' ');
        }
        for byte in chunk {
            let _ = write!(line, "{byte:02x}");
        }
    }
}

/// Characters, or dots where there is none to see, with a space before each group of 8.
fn ascii(line: &mut String, bytes: &[u8]) {
    for chunk in bytes.chunks(8) {
        line.push(' ');
        line.extend(chunk.iter().map(|b| if (32..=126).contains(b) { char::from(*b) } else { '.' }));
    }
}

impl Element for Print {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.label = String::from_utf8_lossy(&args.positional("LABEL", Vec::<u8>::new())).into_owned();
        let length = args.keyword_opt("LENGTH").or(args.keyword_opt("NBYTES"));
        self.max_length = args.positional("MAXLENGTH", length.unwrap_or(24));
        let contents: String = args.keyword("CONTENTS", "HEX".into());
        self.contents = match contents.to_ascii_uppercase().as_str() {
            "HEX" | "TRUE" | "1" | "YES" => Contents::Hex,
            "ASCII" => Contents::Ascii,
            "NONE" | "FALSE" | "0" | "NO" => Contents::None,
            _ => {
                args.error_as(
                    format!("CONTENTS should be HEX, ASCII or NONE, not '{contents}'"),
                    format!(
                        "bad contents value '{}'; should be 'NONE', 'HEX', or 'ASCII'",
                        contents.to_ascii_uppercase()
                    ),
                );
                Contents::Hex
            }
        };
        self.timestamp = args.keyword("TIMESTAMP", false);
        self.annotations = args.keyword("PRINTANNO", false);
        self.headroom = args.keyword("HEADROOM", false);
        self.active = args.keyword("ACTIVE", true);
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        if self.active {
            for packet in batch.iter() {
                cx.print(&self.line(packet));
            }
        }
        batch
    }
}

impl Rehearsal for Print {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    fn check(element: &str, bytes: &[u8], want: &str) {
        for burst in [1, 32] {
            let mut packet = Packet::copy_of(bytes).unwrap();
            packet.set_timestamp_ns(1_500_000_000);
            packet.set_paint(0xab);
            let run = Rig::new(element).burst(burst).packets(vec![packet]).run();
            assert_eq!(run.printed(), want, "{element}");
            assert_eq!(run.bytes("o0"), [bytes]);
        }
    }

    #[test]
    fn lines_are_clicks() {
        check("Print", b"\x01\x02\x03\x04\x05", "   5 | 01020304 05\n");
        check("Print(hello)", b"ab", "hello:    2 | 6162\n");
        check("Print(l, 1)", b"ab", "l:    2 | 61\n");
        check("Print(l, 0)", b"ab", "l:    2\n");
        check("Print", b"", "   0\n");
        check("Print", &[7; 30], "  30 | 07070707 07070707 07070707 07070707 07070707 07070707\n");
        check("Print(MAXLENGTH -1)", &[7; 26], &format!("  26 |{} 0707\n", " 07070707".repeat(6)));
        check("Print(x, CONTENTS ASCII)", b"child1_0+\n", "x:   10 |  child1_0 +.\n");
        check("Print(x, CONTENTS none)", b"abc", "x:    3\n");
        check("Print(x, TIMESTAMP true)", b"a", "x: 1.500000:    1 | 61\n");
        check("Print(TIMESTAMP true)", b"a", "1.500000:    1 | 61\n");
        check("Print(ACTIVE false)", b"a", "");
    }

    #[test]
    fn annotations_in_order() {
        let mut want = "   1 | ".to_owned();
        want += &"00".repeat(16);
        want += "ab";
        want += &"00".repeat(31);
        check("Print(PRINTANNO true, CONTENTS NONE)", b"a", &(want + "\n"));
    }

    #[test]
    fn refuses_unknown_contents() {
        let want = ["e: CONTENTS should be HEX, ASCII or NONE, not 'octal'"];
        assert_eq!(Rig::new("Print(CONTENTS octal)").errors(), want);
    }
}
