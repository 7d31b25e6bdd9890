// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two texts as a unified diff.

use std::fmt::Write as _;
use std::ops::Range;

/// Lines around a change.
const AROUND: usize = 3;
/// Changed lines that are compared with each other; more of them are shown as one change.
const COMPARED: usize = 2000;

/// The difference of two texts as `diff -u` writes it; empty if there is none.
#[must_use]
pub fn unified(name: &str, old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let mut out = String::new();
    for hunk in hunks(&changes(&old, &new)) {
        if out.is_empty() {
            _ = writeln!(out, "--- {name}\n+++ {name} (formatted)");
        }
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let start = first.0.start.saturating_sub(AROUND);
        let end = (last.0.end + AROUND).min(old.len());
        let (new_start, new_end) = (first.1.start - (first.0.start - start), last.1.end + (end - last.0.end));
        let range = |start: usize, end: usize| {
            format!("{},{}", if start == end { start } else { start + 1 }, end - start)
        };
        _ = writeln!(out, "@@ -{} +{} @@", range(start, end), range(new_start, new_end));
        let mut at = start;
        for (before, after) in hunk {
            lines(&mut out, ' ', &old[at..before.start]);
            lines(&mut out, '-', &old[before.clone()]);
            lines(&mut out, '+', &new[after.clone()]);
            at = before.end;
        }
        lines(&mut out, ' ', &old[at..end]);
    }
    out
}

fn lines(out: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        out.push(mark);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Lines of the old text, and those of the new one in their place.
type Change = (Range<usize>, Range<usize>);

/// Changes whose surroundings meet.
fn hunks(changes: &[Change]) -> impl Iterator<Item = &[Change]> {
    changes.chunk_by(|one, other| other.0.start - one.0.end <= 2 * AROUND)
}

fn changes(old: &[&str], new: &[&str]) -> Vec<Change> {
    let same = |n: usize| old[n] == new[n];
    let head = (0..old.len().min(new.len())).take_while(|&n| same(n)).count();
    let most = old.len().min(new.len()) - head;
    let tail = (1..=most).take_while(|&n| old[old.len() - n] == new[new.len() - n]).count();
    let (a, b) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    if a.is_empty() && b.is_empty() {
        return Vec::new();
    }
    if a.len() > COMPARED || b.len() > COMPARED {
        return vec![(head..old.len() - tail, head..new.len() - tail)];
    }
    let mut changes: Vec<Change> = Vec::new();
    let mut add = |x: Range<usize>, y: Range<usize>| match changes.last_mut() {
        Some((before, after)) if before.end == x.start && after.end == y.start => {
            (before.end, after.end) = (x.end, y.end);
        }
        _ => changes.push((x, y)),
    };
    let common = common(a, b);
    let width = b.len() + 1;
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            add(head + i..head + i + 1, head + j..head + j);
            i += 1;
        } else {
            add(head + i..head + i, head + j..head + j + 1);
            j += 1;
        }
    }
    changes
}

/// How many lines in order the rests of both texts have in common, for each pair of rests.
fn common(a: &[&str], b: &[&str]) -> Vec<u16> {
    let width = b.len() + 1;
    let mut table = vec![0u16; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            table[i * width + j] = if a[i] == b[j] {
                table[(i + 1) * width + j + 1] + 1
            } else {
                table[(i + 1) * width + j].max(table[i * width + j + 1])
            };
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences() {
        let check = |old: &str, new: &str, want: &str| {
            let head = if want.is_empty() { "" } else { "--- f\n+++ f (formatted)\n" };
            assert_eq!(unified("f", old, new), format!("{head}{want}"), "{old:?}");
        };
        check("a\nb\n", "a\nb\n", "");
        check("", "a\n", "@@ -0,0 +1,1 @@\n+a\n");
        check("a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
        check("a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n");
        let old: String = (0..20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("2\n", "two\n").replace("17\n", "");
        let first = "@@ -1,6 +1,6 @@\n 0\n 1\n-2\n+two\n 3\n 4\n 5\n";
        check(
            &old.replace("12\n", "x\n"),
            &new.replace("1two\n", "x\n"),
            &format!("{first}@@ -15,6 +15,5 @@\n 14\n 15\n 16\n-17\n 18\n 19\n"),
        );
    }

    #[test]
    fn patch_applies_what_it_is_given() {
        // Every difference, applied by hand, gives the new text.
        let texts = ["a\nb\nc\nd\n", "b\nc\n", "x\na\nb\nq\nd\n", "", "d\nc\nb\na\n"];
        for old in texts {
            for new in texts {
                let (a, b): (Vec<&str>, Vec<&str>) =
                    (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
                let mut made = String::new();
                let mut at = 0;
                for (before, after) in changes(&a, &b) {
                    made.extend(a[at..before.start].iter().copied());
                    made.extend(b[after].iter().copied());
                    at = before.end;
                }
                made.extend(a[at..].iter().copied());
                assert_eq!(made, new, "{old:?}");
            }
        }
    }
}
