// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values as people write them: times, rates and frame sizes.

use std::time::Duration;

/// Reads a time in seconds.
///
/// # Errors
/// They are no time, or none at all.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).filter(|t| !t.is_zero());
    time.ok_or_else(|| "expected seconds, such as 60 or 0.5".to_owned())
}

/// Reads a time in seconds that may be none.
///
/// # Errors
/// They are no time.
pub fn pause(text: &str) -> Result<Duration, String> {
    if text.parse() == Ok(0.0) { Ok(Duration::ZERO) } else { seconds(text) }
}

/// A number that k, M or G may follow.
fn scaled(text: &str) -> Option<f64> {
    let (number, factor) = match text.strip_suffix(['k', 'M', 'G']) {
        Some(number) if text.ends_with('k') => (number, 1e3),
        Some(number) if text.ends_with('M') => (number, 1e6),
        Some(number) => (number, 1e9),
        None => (text, 1.0),
    };
    number.parse().map(|n: f64| n * factor).ok().filter(|n| *n > 0.0)
}

/// Reads a number of frames a second.
///
/// # Errors
/// It is none, or more than 1G.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = scaled(text).filter(|rate| *rate <= 1e9);
    rate.ok_or_else(|| "expected frames a second, up to 1G, such as 250000 or 1.5M".to_owned())
}

/// The least frame that Ethernet knows, in bytes with FCS.
const LEAST_SIZE: usize = 64;

/// Reads a frame size, of which some options take several.
///
/// # Errors
/// It is no number, or less than 64.
pub fn frame_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size) if size < LEAST_SIZE => {
            Err(format!("{LEAST_SIZE} is the least, in bytes with the 4 of the FCS"))
        }
        Ok(size) => Ok(size),
        Err(_) => Err("expected sizes in bytes with a comma between them, such as 64,512,1518".to_owned()),
    }
}

/// Reads a number of workers.
///
/// # Errors
/// It is no number from 1 to 64.
pub fn workers(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=64).contains(count));
    count.ok_or_else(|| "expected a number of workers from 1 to 64".to_owned())
}

/// Reads a number of bits a second.
///
/// # Errors
/// They are none, or too few or too many for a link.
pub fn bits(text: &str) -> Result<f64, String> {
    let bits = scaled(text).filter(|bits| (1e3..=1e13).contains(bits));
    bits.ok_or_else(|| "expected bits a second, such as 10G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let good = [("250000", 250_000.0), ("1.5M", 1_500_000.0), ("10k", 1e4), ("1G", 1e9)];
        for (text, expected) in good {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for bad in ["", "M", "0", "-1", "2G", "1 M", "NaN", "ten"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert_eq!((frame_size("1518"), frame_size("64")), (Ok(1518), Ok(64)));
        for small in ["0", "20", "63"] {
            assert!(frame_size(small).unwrap_err().starts_with("64 is the least"), "{small}");
        }
        assert_eq!((workers("1"), workers("64")), (Ok(1), Ok(64)));
        for bad in ["0", "65", "-1", "two"] {
            assert!(workers(bad).unwrap_err().contains("from 1 to 64"), "{bad}");
        }
        for bad in ["", "abc", "-64", "64.5"] {
            assert!(frame_size(bad).unwrap_err().contains("such as 64,512,1518"), "{bad}");
        }
    }
}
