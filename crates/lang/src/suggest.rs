// SPDX-License-Identifier: MIT OR Apache-2.0
//! "Did you mean ...": the known name nearest to an unknown one.

/// The known name nearest to `unknown`, if one is near enough to be a slip of the pen: equal but for case, or within
/// a third of its length in edits (insert, delete, replace, swap neighbours).
///
/// ```
/// let classes = ["Counter", "Classifier", "Queue"];
/// assert_eq!(junctor_lang::suggest("Cuonter", classes.iter().copied()), Some("Counter"));
/// assert_eq!(junctor_lang::suggest("Paint", classes.iter().copied()), None);
/// ```
pub fn suggest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer names than this are not typed by hand.
    const MAX_LEN: usize = 64;
    let lower: Vec<char> = unknown.chars().flat_map(char::to_lowercase).take(MAX_LEN + 1).collect();
    if lower.is_empty() || lower.len() > MAX_LEN {
        return None;
    }
    let limit = (lower.len() / 3).max(1);
    let mut best: Option<(usize, &'a str)> = None;
    for name in known {
        if name == unknown || name.len().abs_diff(unknown.len()) > limit * 2 || name.len() > MAX_LEN {
            continue;
        }
        let candidate: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
        let distance = edit_distance(&lower, &candidate);
        // A single letter is near every other; only its other case is a likely slip.
        let near = distance <= limit && (distance == 0 || lower.len() > 1);
        if near && best.is_none_or(|(d, n)| (distance, name) < (d, n)) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// Optimal string alignment distance (Damerau 1964, restricted form).
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            next[j] = replace.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                next[j] = next[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let check = |a: &str, b: &str, want: usize| {
            let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            assert_eq!(edit_distance(&a, &b), want);
            assert_eq!(edit_distance(&b, &a), want);
        };
        check("", "", 0);
        check("", "abc", 3);
        check("abc", "abc", 0);
        check("abc", "acb", 1);
        check("queue", "quee", 1);
        check("kitten", "sitting", 3);
    }

    #[test]
    fn nearest_name() {
        let known = ["ToDevice", "FromDevice", "Discard", "a", "q0", "q1"];
        let check = |unknown: &str, want: Option<&str>| {
            assert_eq!(suggest(unknown, known.iter().copied()), want, "{unknown}");
        };
        check("todevice", Some("ToDevice"));
        check("FromDevcie", Some("FromDevice"));
        check("Dicsard", Some("Discard"));
        check("A", Some("a"));
        check("b", None);
        check("q2", Some("q0"));
        check("Shaper", None);
        check("", None);
    }
}
