// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rule files of firewalls and address translation have in common: lines of words, addresses, names, times, and messages about mistakes.
//!
//! A file has a statement in each line. `#` begins a remark. A line that ends with a comma or a backslash goes on in the next one.
//!
//! ```
//! use junctor_rulefile::{Faults, lines, time_ns};
//!
//! let lines = lines("timeout udp 2m # minutes", 0);
//! assert_eq!(lines[0].words.len(), 3);
//! assert_eq!(time_ns(&lines[0].words[2].text), Some(120_000_000_000));
//! let mut faults = Faults::new("E0601");
//! faults.unknown(&lines[0].words[1], "timeout", ["tcp", "udp-single"].into_iter());
//! assert_eq!(faults.errors(), 1);
//! ```
#![forbid(unsafe_code)]

mod addresses;
mod faults;
mod files;
mod line;
pub mod names;

use std::io::Read as _;
use std::path::Path;

pub use addresses::{AddressRange, Addresses};
pub use faults::Faults;
pub use files::{NOT_READ, may_read, without_files};
pub use line::{Line, Rest, Word, lines};

/// Bytes of a rule file, and of a file with members of a set, at most.
pub const FILE_MAX: u64 = 64 << 20;

/// What a file compressed by gzip begins with (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A file's text, decompressed if gzip has compressed it, if it has no more than [`FILE_MAX`] bytes.
///
/// # Errors
/// It cannot be read, is too long, or no file is read here ([`without_files`]).
pub fn bounded(path: &Path) -> Result<String, String> {
    may_read(path)?;
    let said = |why: &dyn std::fmt::Display| format!("cannot read '{}': {why}", path.display());
    let length = std::fs::metadata(path).map_err(|e| said(&e))?.len();
    if length > FILE_MAX {
        return Err(said(&format_args!("it has {length} bytes, more than {FILE_MAX}")));
    }
    let mut bytes = std::fs::read(path).map_err(|e| said(&e))?;
    if bytes.starts_with(&GZIP) {
        let mut text = Vec::new();
        let mut whole = flate2::read::MultiGzDecoder::new(&bytes[..]).take(FILE_MAX + 1);
        whole.read_to_end(&mut text).map_err(|e| said(&e))?;
        if text.len() as u64 > FILE_MAX {
            return Err(said(&format_args!("decompressed it has more than {FILE_MAX} bytes")));
        }
        bytes = text;
    }
    String::from_utf8(bytes).map_err(|e| said(&e.utf8_error()))
}

/// A time such as `30s`, `5m` or `1.5h`; seconds where there is no unit.
pub fn time_ns(text: &str) -> Option<u64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..at].parse().ok()?;
    let unit = match &text[at..] {
        "ms" => 1e6,
        "" | "s" | "sec" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        "d" => 86_400e9,
        _ => return None,
    };
    let time = number * unit;
    (1e6..=86_400e9 * 365.0).contains(&time).then_some(time as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn compressed_files_are_read_up_to_a_length() {
        let path = std::env::temp_dir().join(format!("junctor-rulefile-{}.gz", std::process::id()));
        let check = |text: &[u8], cut: usize| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            let bytes = encoder.finish().unwrap();
            std::fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
            bounded(&path)
        };
        let found = check(b"10.0.0.1\n", 0);
        let cut = check(b"10.0.0.1\n", 4);
        let long = check(&vec![b'#'; FILE_MAX as usize + 1], 0);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.as_deref(), Ok("10.0.0.1\n"));
        assert!(cut.is_err() && long.unwrap_err().contains("decompressed it has more than"), "{cut:?}");
    }
}
