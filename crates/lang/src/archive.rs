// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ar` archives: a configuration in a member called `config`, next to files that it brings along.
//!
//! Reads the common format and both ways to write long names: GNU's `//` table and BSD's `#1/LENGTH`.

use thiserror::Error;

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER: usize = 60;

/// Why an archive cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ArchiveError {
    /// A member's header doesn't end as it must.
    #[error("member header at byte {0} is damaged")]
    BadHeader(usize),
    /// A member is longer than the archive.
    #[error("member `{name}` is cut off: {want} bytes announced, {have} there")]
    Truncated {
        /// Its name.
        name: String,
        /// Bytes its header announces.
        want: usize,
        /// Bytes that are left.
        have: usize,
    },
}

/// Whether a file is an archive.
#[must_use]
pub fn is_archive(data: &[u8]) -> bool {
    data.starts_with(MAGIC)
}

/// The members of an archive, in order.
///
/// # Errors
/// A damaged header, or a member that's cut off.
pub fn members(data: &[u8]) -> Result<Vec<(String, Vec<u8>)>, ArchiveError> {
    let mut members = Vec::new();
    let mut long_names: &[u8] = &[];
    let mut at = MAGIC.len();
    while at < data.len() {
        let header = data.get(at..at + HEADER).ok_or(ArchiveError::BadHeader(at))?;
        let size = number(&header[48..58]).ok_or(ArchiveError::BadHeader(at))?;
        if &header[58..60] != b"`\n" {
            return Err(ArchiveError::BadHeader(at));
        }
        let raw = String::from_utf8_lossy(&header[..16]).trim_end().to_string();
        let rest = &data[at + HEADER..];
        let Some(mut body) = rest.get(..size) else {
            return Err(ArchiveError::Truncated { name: raw, want: size, have: rest.len() });
        };
        // Members start at even offsets.
        at += HEADER + size + size % 2;
        if raw == "//" {
            long_names = body;
            continue;
        }
        let name = if let Some(length) = raw.strip_prefix("#1/").and_then(|n| n.parse::<usize>().ok()) {
            if length > body.len() {
                return Err(ArchiveError::BadHeader(at));
            }
            let (name, content) = body.split_at(length);
            body = content;
            String::from_utf8_lossy(name).trim_end_matches('\0').to_string()
        } else if let Some(offset) = raw.strip_prefix('/').and_then(|n| n.parse::<usize>().ok()) {
            let name = long_names.get(offset..).unwrap_or(&[]);
            let end = name.iter().position(|&b| b == b'\n').unwrap_or(name.len());
            String::from_utf8_lossy(&name[..end]).trim_end_matches('/').to_string()
        } else {
            raw.strip_suffix('/').unwrap_or(&raw).to_string()
        };
        // The symbol table has an empty name.
        if !name.is_empty() {
            members.push((name, body.to_vec()));
        }
    }
    Ok(members)
}

fn number(field: &[u8]) -> Option<usize> {
    std::str::from_utf8(field).ok()?.trim().parse().ok()
}

#[cfg(test)]
pub(crate) fn member(name: &str, body: &[u8]) -> Vec<u8> {
    let mut out =
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", body.len()).into_bytes();
    out.extend_from_slice(body);
    if body.len() % 2 == 1 {
        out.push(b'\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parts: &[Vec<u8>], want: &[(&str, &str)]) {
        let data = [MAGIC.to_vec(), parts.concat()].concat();
        assert!(is_archive(&data));
        let got = members(&data).unwrap();
        let got: Vec<_> = got.iter().map(|(n, b)| (n.as_str(), std::str::from_utf8(b).unwrap())).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn reads_members() {
        check(&[], &[]);
        check(&[member("config", b"a :: A;")], &[("config", "a :: A;")]);
        check(&[member("config/", b"abc"), member("x.o/", b"")], &[("config", "abc"), ("x.o", "")]);
        check(
            &[member("//", b"a_very_long_member_name.o/\nother/\n"), member("/0", b"1"), member("/27", b"2")],
            &[("a_very_long_member_name.o", "1"), ("other", "2")],
        );
        check(&[member("#1/8", b"config\0\0text")], &[("config", "text")]);
        check(&[member("/", b"symbols"), member("config/", b"x")], &[("config", "x")]);
    }

    #[test]
    fn damage_is_reported() {
        let good = [MAGIC.to_vec(), member("config", b"abcd")].concat();
        assert_eq!(members(&good[..20]), Err(ArchiveError::BadHeader(8)));
        assert!(matches!(members(&good[..70]), Err(ArchiveError::Truncated { want: 4, have: 2, .. })));
        let mut bad = good.clone();
        bad[8 + 58] = b'x';
        assert_eq!(members(&bad), Err(ArchiveError::BadHeader(8)));
        assert!(members(&[MAGIC.to_vec(), member("#1/99", b"ab")].concat()).is_err());
        assert!(!is_archive(b"a :: A;"));
    }
}
