// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mixes of frame sizes by a word that says them exactly: the IMIX genome (RFC 6985). Each letter is a size, and the word is repeated.

use std::fmt;

/// Letters and their sizes in bytes, with FCS. `z` is the longest that the ports take.
const LETTERS: [(char, usize); 10] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
    ('h', 2112),
    ('i', 9000),
    ('j', 16000),
];
/// Frames in a word at most.
const LONGEST: usize = 100_000;
/// What `z` counts in an average, before the ports are known.
const USUAL_LONGEST: usize = 1518;

/// A word of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genome {
    text: String,
    /// Nothing for the longest that the ports take.
    sizes: Vec<Option<usize>>,
}

impl Genome {
    /// Reads a word such as `aaaaaaaddddg`. A number before a letter, which RFC 6985 does not have, says how often it comes: `7a4d1g`.
    ///
    /// # Errors
    /// A letter that stands for no size, a number that no letter follows, or more frames than there can be.
    pub fn parse(text: &str) -> Result<Genome, String> {
        let mut sizes = Vec::new();
        let mut count = String::new();
        for letter in text.chars() {
            if letter.is_ascii_digit() {
                count.push(letter);
                continue;
            }
            let size = LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, size)| *size);
            if size.is_none() && letter != 'z' {
                return Err(format!(
                    "'{letter}' is no size; expected letters from a (64 bytes) to j (16000), or z"
                ));
            }
            let times = if count.is_empty() { 1 } else { count.parse().unwrap_or(LONGEST + 1) };
            if times == 0 || times > LONGEST - sizes.len() {
                return Err(format!("expected 1 to {LONGEST} frames"));
            }
            sizes.extend(std::iter::repeat_n(size, times));
            count.clear();
        }
        if sizes.is_empty() || !count.is_empty() {
            return Err("expected sizes by letter, such as aaaaaaaddddg or 7a4d1g".to_owned());
        }
        Ok(Genome { text: text.to_owned(), sizes })
    }

    /// The sizes in order; `longest` is the longest that the ports take.
    pub fn sizes(&self, longest: usize) -> Vec<usize> {
        self.sizes.iter().map(|size| size.unwrap_or(longest)).collect()
    }

    /// The average size in bytes.
    pub fn average(&self) -> f64 {
        self.sizes(USUAL_LONGEST).iter().sum::<usize>() as f64 / self.sizes.len() as f64
    }
}

impl fmt::Display for Genome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sizes_in_order() {
        let sizes = |text: &str| Genome::parse(text).map(|genome| genome.sizes(9018));
        assert_eq!(sizes("aafz"), Ok(vec![64, 64, 1280, 9018]));
        assert_eq!(sizes("2a3d1g"), sizes("aadddg"));
        let imix = Genome::parse("7a4d1g").expect("a word");
        assert!((imix.average() - (7.0 * 64.0 + 4.0 * 512.0 + 1518.0) / 12.0).abs() < 1e-9);
        assert_eq!(imix.to_string(), "7a4d1g");
        for (bad, what) in [
            ("", "such as"),
            ("7", "such as"),
            ("ak", "'k' is no size"),
            ("0a", "expected 1 to"),
            ("18446744073709551615a", "expected 1 to"),
        ] {
            let said = sizes(bad).expect_err(bad);
            assert!(said.contains(what), "{bad}: {said}");
        }
    }
}
