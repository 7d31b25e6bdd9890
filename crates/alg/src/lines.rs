// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of text in the segments of one direction of a TCP connection.
//!
//! Segments may end within a line, come twice, or come late. Each line is passed on once, when it is whole. A line that is longer than
//! [`LONGEST`] is left out, so the room for a direction does not grow. What comes before the first end of a line is left out, too:
//! the first segment that is read may begin within a line, and a sender must not choose where a line seems to begin.

/// Bytes of a line at most, with its end.
pub const LONGEST: usize = 192;

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// The sequence number of the next byte; none before the first segment.
    next: Option<u32>,
    /// Where a segment is missing at whose start a line begins.
    hole: Option<u32>,
    /// Whether the present line is left out.
    skips: bool,
    /// The beginning of the present line.
    begun: [u8; LONGEST],
    length: usize,
}

impl Default for Lines {
    /// Of a direction of which nothing has been read.
    fn default() -> Lines {
        Lines { next: None, hole: None, skips: true, begun: [0; LONGEST], length: 0 }
    }
}

impl Lines {
    /// Takes the bytes of a segment, and passes the lines that are whole now to `take`.
    pub fn feed(&mut self, sequence: u32, bytes: &[u8], mut take: impl FnMut(&[u8])) {
        if bytes.is_empty() {
            return;
        }
        let next = self.next.unwrap_or(sequence);
        let ahead = sequence.wrapping_sub(next).cast_signed();
        if ahead < 0 {
            let known = ahead.unsigned_abs() as usize;
            if known < bytes.len() {
                self.go_on(next, &bytes[known..], take);
            } else if self.hole == Some(sequence) {
                bytes
                    .split_inclusive(|b| *b == b'\n')
                    .filter(|line| line.ends_with(b"\n"))
                    .for_each(&mut take);
                let end = sequence.wrapping_add(bytes.len() as u32);
                self.hole = (bytes.ends_with(b"\n") && end != next).then_some(end);
            }
            return;
        }
        if ahead > 0 {
            self.hole = (self.length == 0 && !self.skips).then_some(next);
            (self.length, self.skips) = (0, true);
        }
        self.go_on(sequence, bytes, take);
    }

    fn go_on(&mut self, sequence: u32, bytes: &[u8], mut take: impl FnMut(&[u8])) {
        self.next = Some(sequence.wrapping_add(bytes.len() as u32));
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            let is_end = part.ends_with(b"\n");
            let length = self.length + part.len();
            if !self.skips && length > LONGEST {
                self.skips = true;
            }
            if !self.skips && is_end && self.length == 0 {
                take(part);
            } else if !self.skips {
                self.begun[self.length..length].copy_from_slice(part);
                self.length = length;
                if is_end {
                    take(&self.begun[..length]);
                }
            }
            if is_end {
                (self.length, self.skips) = (0, false);
            } else if self.skips {
                self.length = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The lines of segments, each with its sequence number. A line has ended before the first one.
    fn lines(segments: &[(u32, &str)]) -> Vec<String> {
        let before = segments.first().map(|(sequence, _)| (sequence.wrapping_sub(1), "\n"));
        let all: Vec<_> = before.into_iter().chain(segments.iter().copied()).collect();
        lines_from_the_middle(&all)
    }

    fn lines_from_the_middle(segments: &[(u32, &str)]) -> Vec<String> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for (sequence, text) in segments {
            lines.feed(*sequence, text.as_bytes(), |line| {
                found.push(String::from_utf8_lossy(line).into_owned())
            });
        }
        found
    }

    #[test]
    fn lines_are_put_together() {
        let long = "x".repeat(LONGEST);
        type Case<'a> = (&'a [(u32, &'a str)], &'a [&'a str]);
        let cases: &[Case<'_>] = &[
            (&[(5, "a\nbc\n")], &["a\n", "bc\n"]),
            (&[(5, "PO"), (7, "RT"), (9, "\r\nx")], &["PORT\r\n"]),
            // Twice, whole and in part.
            (&[(5, "a\n"), (5, "a\n"), (5, "a\nb\n"), (9, "c\n")], &["a\n", "b\n", "c\n"]),
            // One is missing, and comes late.
            (&[(5, "a\n"), (9, "c\n"), (7, "b\n"), (11, "d\n")], &["a\n", "b\n", "d\n"]),
            (&[(5, "a\n"), (9, "c\nd\n")], &["a\n", "d\n"]),
            (&[(5, "a"), (9, "c\nd\n"), (6, "aaa")], &["d\n"]),
            // Numbers turn round.
            (&[(u32::MAX, "ab"), (1, "c\n")], &["abc\n"]),
            (&[(5, &long), (5 + LONGEST as u32, "\nb\n")], &["b\n"]),
            (&[(5, &long[1..]), (4 + LONGEST as u32, "\nb\n")], &[&format!("{}\n", &long[1..]), "b\n"]),
        ];
        for (segments, expected) in cases {
            assert_eq!(lines(segments), *expected, "{segments:?}");
        }
    }

    #[test]
    fn what_may_be_the_rest_of_a_line_is_left_out() {
        type Case<'a> = (&'a [(u32, &'a str)], &'a [&'a str]);
        let cases: &[Case<'_>] = &[
            (&[(5, "227 a\n"), (11, "b\n")], &["b\n"]),
            (&[(5, "227 "), (9, "a\nb"), (12, "c\n")], &["bc\n"]),
            // The first segment again, and one that lay before it.
            (&[(5, "227 a\n"), (5, "227 a\n"), (2, "xyz"), (11, "b\n")], &["b\n"]),
            // A segment is missing, and comes late.
            (&[(5, "a"), (9, "c\nd\n"), (6, "a\nb")], &["d\n"]),
        ];
        for (segments, expected) in cases {
            assert_eq!(lines_from_the_middle(segments), *expected, "{segments:?}");
        }
    }

    proptest! {
        /// However a text is cut, with copies of what was sent: its lines come once each.
        #[test]
        fn any_cut_gives_the_same_lines(text in "([a-c]{0,5}\n){1,20}", cuts in proptest::collection::vec(1usize..9, 1..60), start: u32) {
            let (mut segments, mut at) = (Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                let end = (at + cut).min(text.len());
                segments.push((start.wrapping_add(at as u32), &text[at..end]));
                if *cut % 3 == 0 {
                    let back = at.saturating_sub(*cut);
                    segments.push((start.wrapping_add(back as u32), &text[back..end]));
                }
                at = end;
                if at == text.len() {
                    break;
                }
            }
            prop_assert_eq!(lines(&segments).concat(), text);
        }
    }
}
