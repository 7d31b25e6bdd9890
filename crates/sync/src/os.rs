// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of the operating system in words.

use std::io::Error;

/// What went wrong, without the number that the standard library adds: "No such file or directory".
pub fn reason(error: &Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.find(" (os error").unwrap_or(text.len()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_goes() {
        assert_eq!(reason(&Error::from_raw_os_error(libc::ENOENT)), "No such file or directory");
        assert_eq!(reason(&Error::other("own words")), "own words");
    }
}
