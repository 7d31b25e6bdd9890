// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mixes of frame sizes by a word that says them exactly: the IMIX genome (RFC 6985). Each letter is a size, and the word is repeated. Small letters are
//! the sizes of the document's table, capital ones those that are said behind the word (its section 5).

use std::collections::BTreeMap;
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

/// Frames of a sequence that is written letter by letter: it is to be read by people (RFC 6985 3).
const SPELT: usize = 100;

/// A word of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genome {
    text: String,
    letters: Vec<char>,
    /// Nothing for the longest that the ports take.
    sizes: Vec<Option<usize>>,
}

impl Genome {
    /// Reads a word such as `aaaaaaaddddg`, or one with sizes of one's own: `AAAGG A=84 G=1020`. A number before a letter, which RFC 6985 does not have,
    /// says how often it comes: `7a4d1g`.
    ///
    /// # Errors
    /// A letter that stands for no size, a number that no letter follows, or more frames than there can be.
    pub fn parse(text: &str) -> Result<Genome, String> {
        let mut parts = text.split_ascii_whitespace();
        let word = parts.next().unwrap_or("");
        let own = parts.map(own_size).collect::<Result<Vec<_>, _>>()?;
        if let Some((unused, _)) = own.iter().find(|(letter, _)| !word.contains(*letter)) {
            return Err(format!("'{unused}' has a size and is not in {word}"));
        }
        let (mut sizes, mut letters) = (Vec::new(), Vec::new());
        let mut count = String::new();
        for letter in word.chars() {
            if letter.is_ascii_digit() {
                count.push(letter);
                continue;
            }
            let known = LETTERS.iter().chain(&own).find(|(known, _)| *known == letter);
            let size = known.map(|(_, size)| *size);
            if size.is_none() && letter.is_ascii_uppercase() {
                return Err(format!("'{letter}' has no size; say it behind the word, such as {letter}=84"));
            }
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
            letters.extend(std::iter::repeat_n(letter, times));
            count.clear();
        }
        if sizes.is_empty() || !count.is_empty() {
            return Err("expected sizes by letter, such as aaaaaaaddddg or 7a4d1g".to_owned());
        }
        Ok(Genome { text: text.to_owned(), letters, sizes })
    }

    /// The sizes in order; `longest` is the longest that the ports take.
    pub fn sizes(&self, longest: usize) -> Vec<usize> {
        self.sizes.iter().map(|size| size.unwrap_or(longest)).collect()
    }

    /// The letters, each once and in order, with their sizes.
    pub fn table(&self, longest: usize) -> BTreeMap<char, usize> {
        self.letters.iter().copied().zip(self.sizes(longest)).collect()
    }

    /// Whether some letters stand for sizes of one's own (RFC 6985 5).
    pub fn is_custom(&self) -> bool {
        self.letters.iter().any(char::is_ascii_uppercase)
    }

    /// As reports have it: `IMIX - aaafg`, or `CUSTOM IMIX - AAAGG` (RFC 6985 4, 5). Of a long sequence, with numbers before letters.
    pub fn name(&self) -> String {
        let word = match self.letters.len() {
            0..SPELT => self.letters.iter().collect(),
            _ => self.text.split_ascii_whitespace().next().unwrap_or_default().to_owned(),
        };
        format!("{}IMIX - {word}", if self.is_custom() { "CUSTOM " } else { "" })
    }

    /// The average size in bytes, where ports take what Ethernet usually does: by this a mix is called.
    pub fn average(&self) -> f64 {
        self.average_on(USUAL_LONGEST)
    }

    /// The same on ports whose longest frame has so many bytes.
    pub fn average_on(&self, longest: usize) -> f64 {
        self.sizes(longest).iter().sum::<usize>() as f64 / self.sizes.len() as f64
    }
}

/// A capital letter and its size: `A=84`.
fn own_size(text: &str) -> Result<(char, usize), String> {
    let bad =
        || format!("'{text}' is no size of one's own; expected a capital letter and bytes, such as A=84");
    let (letter, size) = text.split_once('=').ok_or_else(bad)?;
    let letter: char = letter.parse().ok().filter(char::is_ascii_uppercase).ok_or_else(bad)?;
    let size = size.parse().ok().filter(|size| (64..=16000).contains(size));
    Ok((letter, size.ok_or_else(|| format!("'{text}': expected 64 to 16000 bytes"))?))
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
        // The example of RFC 6985 5.
        assert_eq!(sizes("AAAGG A=64 G=1020"), Ok(vec![64, 64, 64, 1020, 1020]));
        assert_eq!(sizes("2Ag A=84"), Ok(vec![84, 84, 1518]));
        let imix = Genome::parse("7a4d1g").expect("a word");
        assert!((imix.average() - (7.0 * 64.0 + 4.0 * 512.0 + 1518.0) / 12.0).abs() < 1e-9);
        assert_eq!(imix.to_string(), "7a4d1g");
        let named = |text: &str| Genome::parse(text).map(|genome| genome.name());
        assert_eq!(named("3afg"), Ok("IMIX - aaafg".to_owned()));
        assert_eq!(named("AAAGG A=64 G=1020"), Ok("CUSTOM IMIX - AAAGG".to_owned()));
        assert_eq!(named("2000a1g"), Ok("IMIX - 2000a1g".to_owned()));
        let table = Genome::parse("AzaA A=84").expect("a word").table(9018);
        assert_eq!(table.into_iter().collect::<Vec<_>>(), [('A', 84), ('a', 64), ('z', 9018)]);
        for (bad, what) in [
            ("", "such as"),
            ("7", "such as"),
            ("ak", "'k' is no size"),
            ("AAg", "'A' has no size; say it behind the word, such as A=84"),
            ("aa A=84", "'A' has a size and is not in aa"),
            ("Aa A84", "'A84' is no size of one's own"),
            ("Aa A=12", "'A=12': expected 64 to 16000 bytes"),
            ("0a", "expected 1 to"),
            ("18446744073709551615a", "expected 1 to"),
        ] {
            let said = sizes(bad).expect_err(bad);
            assert!(said.contains(what), "{bad}: {said}");
        }
    }
}
